/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory this process may use, against what the system itself says. What a cgroup's limit does
 * is shown by the failure tests, which make one.
 */
#include "unit/cmocka_all.h"

#include <sys/sysinfo.h>

#include "base/limits.h"

static void
limit_is_never_above_the_machine(void **state)
{
	struct sysinfo info;

	(void)state;
	assert_int_equal(sysinfo(&info), 0);
	assert_true(sl_memory_limit() > 0);
	assert_true(sl_memory_limit() <= (uint64_t)info.totalram * info.mem_unit);
	assert_true(sl_memory_limit() % 1024 == 0);
}

static void
available_is_never_above_the_limit(void **state)
{
	(void)state;
	assert_true(sl_memory_available() > 0);
	assert_true(sl_memory_available() <= sl_memory_limit());
}

static void
limit_does_not_change_between_calls(void **state)
{
	(void)state;
	assert_true(sl_memory_limit() == sl_memory_limit());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(limit_is_never_above_the_machine),
		T(available_is_never_above_the_limit),
		T(limit_does_not_change_between_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
