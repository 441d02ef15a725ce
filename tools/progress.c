/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The progress line of progress.h: a carriage return, the text, and an erase to the end of the
 * line, on standard error. A line of its own is text and a newline. Failing to write it is no error
 * of the work.
 */
#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS   1000000000u
#define QUIET_NS    (2ull * SECOND_NS)
#define INTERVAL_NS (SECOND_NS / 5u)

static uint64_t
clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

void
progress_begin(struct progress *progress, const char *what)
{
	progress->what = what;
	progress->begin_ns = clock_ns();
	progress->shown_ns = 0;
	progress->tell_ns = QUIET_NS;
	progress->terminal = isatty(STDERR_FILENO);
}

void
progress_update(struct progress *progress, const char *phase, double fraction)
{
	uint64_t now;

	if (!progress->terminal)
		return;
	now = clock_ns();
	if (now - progress->begin_ns < QUIET_NS || now - progress->shown_ns < INTERVAL_NS)
		return;
	progress->shown_ns = now;
	if (!(fraction >= 0))
		fraction = 0;
	if (fraction > 1)
		fraction = 1;
	fprintf(stderr, "\r%s%s%s: %3.0f %%, %.0f s\033[K", progress->what,
		phase ? ", " : "", phase ? phase : "", fraction * 100,
		(double)(now - progress->begin_ns) / SECOND_NS);
	fflush(stderr);
}

void
progress_tell(struct progress *progress, const char *phase)
{
	uint64_t passed_ns = clock_ns() - progress->begin_ns;

	if (!progress->terminal || passed_ns < progress->tell_ns)
		return;
	progress->tell_ns = 2 * passed_ns;
	fprintf(stderr, "%s, %s: %.0f s\n", progress->what, phase,
		(double)passed_ns / SECOND_NS);
	fflush(stderr);
}

void
progress_end(struct progress *progress)
{
	if (!progress->terminal || progress->shown_ns == 0)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	progress->shown_ns = 0;
}
