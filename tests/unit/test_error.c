/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread's last error text: set, prefixed, taken over, cut, per thread, usable from a
 * signal handler, silent about errno. Names of errnos and the version's form.
 */
#include "base/error.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include "unit/cmocka_all.h"

static void
text_is_empty_before_the_first_failure(void **state)
{
	(void)state;
	assert_string_equal(sluice_last_error(), "");
}

static void
fail_sets_the_text_and_returns_its_code(void **state)
{
	(void)state;
	assert_int_equal(sl_fail(-EIO, "read: chunk %d", 4711), -EIO);
	assert_string_equal(sluice_last_error(), "read: chunk 4711");
	assert_int_equal(sl_fail(-ENOSPC, "short"), -ENOSPC);
	assert_string_equal(sluice_last_error(), "short");
}

static void
fail_in_puts_the_callers_object_in_front(void **state)
{
	(void)state;
	(void)sl_fail(-EIO, "pread: I/O error");
	assert_int_equal(sl_fail_in(-EIO, "file %s", "a.dat"), -EIO);
	assert_string_equal(sluice_last_error(), "file a.dat: pread: I/O error");
}

static void
arguments_may_point_into_the_present_text(void **state)
{
	(void)state;
	(void)sl_fail(-EIO, "inner");
	(void)sl_fail(-EIO, "outer (%s)", sluice_last_error());
	assert_string_equal(sluice_last_error(), "outer (inner)");
	(void)sl_fail_text(-EIO, sluice_last_error() + 7);
	assert_string_equal(sluice_last_error(), "inner)");
	(void)sl_fail_in(-EIO, "<%s>", sluice_last_error());
	assert_string_equal(sluice_last_error(), "<inner)>: inner)");
}

static void
text_is_taken_over_whole_from_another_thread(void **state)
{
	(void)state;
	assert_int_equal(sl_fail_text(-EFAULT, "100 % of what %s kept"), -EFAULT);
	assert_string_equal(sluice_last_error(), "100 % of what %s kept");
}

static void
long_text_is_cut_and_says_so(void **state)
{
	char text[3 * SL_ERROR_TEXT_BYTES];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';

	(void)sl_fail(-EIO, "%s", text);
	assert_int_equal(strlen(sluice_last_error()), SL_ERROR_TEXT_BYTES - 1);
	assert_string_equal(sluice_last_error() + SL_ERROR_TEXT_BYTES - 4, "...");

	(void)sl_fail_in(-EIO, "prefix");
	assert_memory_equal(sluice_last_error(), "prefix: xxx", 11);
	assert_int_equal(strlen(sluice_last_error()), SL_ERROR_TEXT_BYTES - 1);

	(void)sl_fail_text(-EIO, text);
	assert_int_equal(strlen(sluice_last_error()), SL_ERROR_TEXT_BYTES - 1);
	assert_string_equal(sluice_last_error() + SL_ERROR_TEXT_BYTES - 4, "...");

	text[SL_ERROR_TEXT_BYTES - 1] = '\0'; /* the longest that fits stays whole */
	(void)sl_fail(-EIO, "%s", text);
	assert_string_equal(sluice_last_error(), text);
	(void)sl_fail_text(-EIO, text);
	assert_string_equal(sluice_last_error(), text);

	(void)sl_fail_in(-EIO, "%s%s", text, text); /* a prefix that fills everything */
	assert_int_equal(strlen(sluice_last_error()), SL_ERROR_TEXT_BYTES - 1);
}

static void *
other_thread(void *arg)
{
	char *seen = arg;

	snprintf(seen, SL_ERROR_TEXT_BYTES, "%s", sluice_last_error());
	(void)sl_fail(-EIO, "of the other thread");
	return NULL;
}

static void
each_thread_has_its_own_text(void **state)
{
	char seen[SL_ERROR_TEXT_BYTES] = "not run";
	pthread_t thread;

	(void)state;
	(void)sl_fail(-EIO, "mine");
	assert_int_equal(pthread_create(&thread, NULL, other_thread, seen), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_string_equal(seen, "");
	assert_string_equal(sluice_last_error(), "mine");
}

static void
errno_is_left_alone(void **state)
{
	(void)state;
	errno = EXDEV;
	(void)sl_fail(-EIO, "%m");
	(void)sl_fail_in(-EIO, "in");
	(void)sl_fail_text(-EIO, "text");
	(void)sl_errno_name(-EIO);
	assert_int_equal(errno, EXDEV);
}

static void
on_signal(int signo)
{
	(void)sl_fail(-EFAULT, "signal %d", signo);
}

static void
a_signal_handler_may_fail(void **state)
{
	struct sigaction action = {.sa_handler = on_signal};

	(void)state;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(raise(SIGUSR1), 0);
	(void)sl_fail_in(-EFAULT, "kernel");
	assert_string_equal(sluice_last_error(), "kernel: signal 10");
}

static void
errno_names_take_either_sign(void **state)
{
	(void)state;
	assert_string_equal(sl_errno_name(-EIO), "EIO");
	assert_string_equal(sl_errno_name(EIO), "EIO");
	assert_string_equal(sl_errno_name(-ENOTSUP), "ENOTSUP");
	assert_string_equal(sl_errno_name(-ENOBUFS), "ENOBUFS");
}

static void
unknown_errnos_have_the_name_of_unknown_ones(void **state)
{
	(void)state;
	assert_string_equal(sl_errno_name(0), "E?");
	assert_string_equal(sl_errno_name(-100000), "E?");
	assert_string_equal(sl_errno_name(INT_MIN), "E?");
	assert_string_equal(sl_errno_name(INT_MAX), "E?");
}

static void
version_is_three_numbers(void **state)
{
	const char *at = sluice_version();

	(void)state;
	for (int i = 0; i < 3; i++) {
		size_t digits = strspn(at, "0123456789");

		assert_true(digits > 0);
		assert_int_equal(at[digits], i < 2 ? '.' : '\0');
		at += digits + 1;
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(text_is_empty_before_the_first_failure),
		T(fail_sets_the_text_and_returns_its_code),
		T(fail_in_puts_the_callers_object_in_front),
		T(arguments_may_point_into_the_present_text),
		T(text_is_taken_over_whole_from_another_thread),
		T(long_text_is_cut_and_says_so),
		T(each_thread_has_its_own_text),
		T(errno_is_left_alone),
		T(a_signal_handler_may_fail),
		T(errno_names_take_either_sign),
		T(unknown_errnos_have_the_name_of_unknown_ones),
		T(version_is_three_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
