/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monotonic time in nanoseconds: the one clock of the library. Deadlines of
 * sl_cond_wait_until(), delays of the wrappers and times in statistics are all on it, and
 * none of them moves when somebody sets the wall clock.
 *
 * Threads that take turns (turns.h) have a virtual clock instead.
 *
 * Threads: any. Safe in a signal handler (clock_gettime() is).
 */
#include "base/clock.h"

#include "base/turns.h"

#include <assert.h>
#include <time.h>

uint64_t
sl_now_ns(void)
{
	struct timespec now;
	int rc;

	if (sl_turns_on())
		return sl_turns_now_ns();
	rc = clock_gettime(CLOCK_MONOTONIC, &now);
	assert(rc == 0); /* cannot fail for this clock and a valid pointer */
	(void)rc;
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
