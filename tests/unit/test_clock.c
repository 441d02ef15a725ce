/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock: never goes back, is the monotonic one, counts nanoseconds. Nothing here
 * measures how long something took.
 */
#include "base/clock.h"

#include <time.h>

#include "unit/cmocka_all.h"

static uint64_t
monotonic_ns(void)
{
	struct timespec now;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void
time_never_goes_back(void **state)
{
	uint64_t last = sl_now_ns();

	(void)state;
	for (int i = 0; i < 100000; i++) {
		uint64_t now = sl_now_ns();

		assert_true(now >= last);
		last = now;
	}
}

static void
time_lies_between_two_readings_of_the_monotonic_clock(void **state)
{
	uint64_t before = monotonic_ns();
	uint64_t now = sl_now_ns();
	uint64_t after = monotonic_ns();

	(void)state;
	assert_in_range(now, before, after);
}

static void
a_sleep_is_counted_in_nanoseconds(void **state)
{
	const struct timespec two_ms = {.tv_nsec = 2000000};
	uint64_t before = sl_now_ns();

	(void)state;
	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &two_ms, NULL))
		;
	assert_true(sl_now_ns() - before >= 2000000); /* a sleep is never shorter */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(time_never_goes_back),
		T(time_lies_between_two_readings_of_the_monotonic_clock),
		T(a_sleep_is_counted_in_nanoseconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
