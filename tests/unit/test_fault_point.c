/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Injected failures: which call fails and how, several specifications, "*", counting over
 * threads, what is refused, the malloc family, and the environment (by running this
 * program again).
 */
#include "base/fault_point.h"

#include <errno.h>
#include <pthread.h>

#include "unit/cmocka_all.h"

static const char *program; /* argv[0] */

static void
arm(const char *spec)
{
	if (sl_fault_point_set(spec))
		fail_msg("\"%s\": %s", spec, sluice_last_error());
}

static int
disarm(void **state)
{
	(void)state;
	return sl_fault_point_set(NULL);
}

static void
nothing_fails_while_nothing_is_armed(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++)
		assert_int_equal(sl_fault_point("store.read"), 0);
	assert_true(sl_fault_point_fired() == 0);
}

static void
the_nth_call_of_the_name_fails_and_no_other(void **state)
{
	(void)state;
	arm("store.write:3");
	for (int i = 1; i <= 10; i++) {
		assert_int_equal(sl_fault_point("store.read"), 0);
		assert_int_equal(sl_fault_point("store.writes"), 0);
		assert_int_equal(sl_fault_point("store.write"), i == 3 ? -EIO : 0);
	}
	assert_true(sl_fault_point_fired() == 1);
}

static void
plus_fails_every_later_call(void **state)
{
	(void)state;
	arm("store.write:3+");
	for (int i = 1; i <= 10; i++)
		assert_int_equal(sl_fault_point("store.write"), i >= 3 ? -EIO : 0);
	assert_true(sl_fault_point_fired() == 8);
}

static void
the_errno_can_be_chosen(void **state)
{
	(void)state;
	arm("a:1:ENOSPC");
	assert_int_equal(sl_fault_point("a"), -ENOSPC);
	arm("a:1:28+");
	assert_int_equal(sl_fault_point("a"), -28);
	assert_int_equal(sl_fault_point("a"), -28);
	arm("a:2:EAGAIN+");
	assert_int_equal(sl_fault_point("a"), 0);
	assert_int_equal(sl_fault_point("a"), -EAGAIN);
}

static void
the_text_names_the_point_and_the_call(void **state)
{
	(void)state;
	arm("store.write:2:ENOSPC");
	assert_int_equal(sl_fault_point("store.write"), 0);
	assert_int_equal(sl_fault_point("store.write"), -ENOSPC);
	assert_string_equal(
		sluice_last_error(),
		"store.write: ENOSPC (28) injected by SLUICE_FAULT at call 2");
}

static void
specifications_count_on_their_own(void **state)
{
	(void)state;
	arm("a:2,b:1:ENOMEM,a:3:ENOSPC");
	assert_int_equal(sl_fault_point("a"), 0);
	assert_int_equal(sl_fault_point("b"), -ENOMEM);
	assert_int_equal(sl_fault_point("a"), -EIO);
	assert_int_equal(sl_fault_point("a"), -ENOSPC);
	assert_int_equal(sl_fault_point("a"), 0);
	assert_true(sl_fault_point_fired() == 3);
}

static void
star_counts_the_calls_of_all_names_together(void **state)
{
	(void)state;
	arm("*:3:ENOMEM");
	assert_int_equal(sl_fault_point("a"), 0);
	assert_int_equal(sl_fault_point("b"), 0);
	assert_int_equal(sl_fault_point("c"), -ENOMEM);
	assert_int_equal(sl_fault_point("a"), 0);
}

static void
set_starts_counting_again(void **state)
{
	(void)state;
	arm("a:2");
	assert_int_equal(sl_fault_point("a"), 0);
	arm("a:2");
	assert_int_equal(sl_fault_point("a"), 0);
	assert_int_equal(sl_fault_point("a"), -EIO);
	arm("");
	assert_int_equal(sl_fault_point("a"), 0);
	assert_true(sl_fault_point_fired() == 0);
}

static void
what_cannot_be_read_is_refused_and_changes_nothing(void **state)
{
	static const char *const specs[] = {
		"a",
		":1",
		"a:",
		"a:0",
		"a:-1",
		"a:x",
		"a:1x",
		"a:1:",
		"a:1:ENONE",
		"a:1:0",
		"a:1:999",
		"a:1+:EIO",
		"a:1,",
		",a:1",
		"a:1,,b:1",
		"a:+",
		"a:1++",
		"a:1:E?",
		"a: 1",
		"a:18446744073709551616",
		",",
		"a:1:EIO:",
		"a_name_as_long_as_32_characters_x:1",
	};

	(void)state;
	arm("kept:1");
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		if (sl_fault_point_set(specs[i]) != -EINVAL)
			fail_msg("\"%s\" was taken", specs[i]);
	assert_int_equal(sl_fault_point("kept"), -EIO);
}

static void
more_specifications_than_fit_are_refused(void **state)
{
	char specs[33 * 4 + 1];

	(void)state;
	for (int i = 0; i < 33; i++)
		memcpy(specs + 4 * i, "a:1,", 4);
	specs[33 * 4 - 1] = '\0';
	assert_int_equal(sl_fault_point_set(specs), -EINVAL);
	assert_non_null(strstr(sluice_last_error(), "more than 32"));
	specs[32 * 4 - 1] = '\0';
	arm(specs);
}

static void *
ask_often(void *arg)
{
	size_t *failed = arg;

	for (int i = 0; i < 10000; i++)
		*failed += sl_fault_point("a") != 0;
	return NULL;
}

static void
threads_share_one_count(void **state)
{
	size_t failed[4] = {0};
	pthread_t threads[4];

	(void)state;
	arm("a:20000,*:30001+");
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &failed[i]), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(failed[0] + failed[1] + failed[2] + failed[3], 1 + 10000);
	assert_true(sl_fault_point_fired() == 1 + 10000);
}

static void
the_malloc_family_fails_on_demand(void **state)
{
	char *zeros, *text;

	(void)state;
	arm("mem.alloc:1,mem.alloc:2,mem.alloc:3");
	assert_null(sl_calloc(4, 4));
	assert_null(sl_malloc(4));
	assert_null(sl_strdup("text"));

	zeros = sl_calloc(4, 4);
	assert_non_null(zeros);
	for (int i = 0; i < 16; i++)
		assert_int_equal(zeros[i], 0);
	free(zeros);
	text = sl_strdup("text");
	assert_non_null(text);
	assert_string_equal(text, "text");
	free(text);
	text = sl_malloc(16);
	assert_non_null(text);
	memset(text, 1, 16);
	free(text);
}

static void
ask_again(void *spec)
{
	setenv("SLUICE_FAULT", spec, 1);
	execl("/proc/self/exe", program, "--ask", NULL);
	_exit(1);
}

static void
the_environment_arms_points_at_start(void **state)
{
	char good[] = "env.point:2:ENOSPC";
	char bad[] = "env.point:zwei";
	struct child_result result;

	(void)state;
	result = child_run(ask_again, good);
	assert_int_equal(result.exit_status, 40 + ENOSPC);
	assert_string_equal(result.stderr_text, "");

	result = child_run(ask_again, bad);
	assert_int_equal(result.exit_status, 40);
	assert_non_null(strstr(result.stderr_text,
			       "SLUICE_FAULT is ignored: fault points: "
			       "\"env.point:zwei\" cannot be read"));
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(nothing_fails_while_nothing_is_armed, disarm),
		cmocka_unit_test_teardown(the_nth_call_of_the_name_fails_and_no_other, disarm),
		cmocka_unit_test_teardown(plus_fails_every_later_call, disarm),
		cmocka_unit_test_teardown(the_errno_can_be_chosen, disarm),
		cmocka_unit_test_teardown(the_text_names_the_point_and_the_call, disarm),
		cmocka_unit_test_teardown(specifications_count_on_their_own, disarm),
		cmocka_unit_test_teardown(star_counts_the_calls_of_all_names_together, disarm),
		cmocka_unit_test_teardown(set_starts_counting_again, disarm),
		cmocka_unit_test_teardown(what_cannot_be_read_is_refused_and_changes_nothing,
					  disarm),
		cmocka_unit_test_teardown(more_specifications_than_fit_are_refused, disarm),
		cmocka_unit_test_teardown(threads_share_one_count, disarm),
		cmocka_unit_test_teardown(the_malloc_family_fails_on_demand, disarm),
		cmocka_unit_test_teardown(the_environment_arms_points_at_start, disarm),
	};

	program = argv[0];
	if (argc == 2 && !strcmp(argv[1], "--ask"))
		return 40 - sl_fault_point("env.point") - sl_fault_point("env.point");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
