/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What SLUICE_LOG lets through, the form of a line, cutting, saying things once. The
 * settings are read once per process, so each case runs in a child with its own
 * environment; the parent never logs.
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>

#include "unit/cmocka_all.h"

static void
say_everything(void *arg)
{
	(void)arg;
	sl_log(SL_ERROR, "store", "e%d", 1);
	sl_log(SL_WARN, "store", "w%d", 2);
	sl_log(SL_INFO, "store", "i%d", 3);
	sl_log(SL_DEBUG, "store", "d%d", 4);
	sl_log(SL_WARN, "evict", "w5");
	sl_log(SL_DEBUG, "evict", "d6");
}

static void
assert_said(const char *setting, void (*body)(void *), const char *expected)
{
	struct child_result result;

	if (setting)
		setenv("SLUICE_LOG", setting, 1);
	else
		unsetenv("SLUICE_LOG");
	result = child_run(body, NULL);
	assert_int_equal(result.exit_status, 0);
	assert_string_equal(result.stderr_text, expected);
}

static void
warnings_and_errors_are_printed_by_default(void **state)
{
	(void)state;
	assert_said(NULL, say_everything,
		    "sluice: error: store: e1\nsluice: warning: store: w2\n"
		    "sluice: warning: evict: w5\n");
	assert_said("", say_everything,
		    "sluice: error: store: e1\nsluice: warning: store: w2\n"
		    "sluice: warning: evict: w5\n");
}

static void
an_area_has_its_own_level(void **state)
{
	(void)state;
	assert_said("evict=debug,*=error", say_everything,
		    "sluice: error: store: e1\nsluice: warning: evict: w5\n"
		    "sluice: debug: evict: d6\n");
	assert_said("*=debug,store=info,evict=off", say_everything,
		    "sluice: error: store: e1\nsluice: warning: store: w2\n"
		    "sluice: info: store: i3\n");
	assert_said("*=off", say_everything, "");
}

static void
the_later_entry_wins(void **state)
{
	(void)state;
	assert_said("evict=off,store=error,evict=warn", say_everything,
		    "sluice: error: store: e1\nsluice: warning: evict: w5\n");
}

static void
what_cannot_be_read_is_said_and_left_out(void **state)
{
	static const char *const settings[] = {
		"loud",   "evict=loud", "=debug",
		"evict=", "evict=de",   "an_area_name_that_is_too_long=debug"};

	(void)state;
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		struct child_result result;
		char setting[128], quoted[128];

		snprintf(setting, sizeof(setting), "%s,*=off", settings[i]);
		snprintf(quoted, sizeof(quoted), "SLUICE_LOG: \"%s\" is left out",
			 settings[i]);
		setenv("SLUICE_LOG", setting, 1);
		result = child_run(say_everything, NULL);
		assert_non_null(strstr(result.stderr_text, quoted));
		assert_null(strstr(result.stderr_text, "store: e1")); /* the rest holds */
	}
}

static void
too_many_areas_are_said_and_left_out(void **state)
{
	struct child_result result;
	char setting[512] = "";

	(void)state;
	for (int i = 0; i < 17; i++)
		snprintf(setting + strlen(setting), sizeof(setting) - strlen(setting),
			 "a%d=debug,", i);
	setenv("SLUICE_LOG", setting, 1);
	result = child_run(say_everything, NULL);
	assert_non_null(strstr(result.stderr_text, "\"a16=debug\" is left out"));
	assert_null(strstr(result.stderr_text, "\"a15=debug\""));
}

static void
ask_levels(void *arg)
{
	(void)arg;
	if (!sl_log_enabled(SL_DEBUG, "evict") || sl_log_enabled(SL_WARN, "store") ||
	    !sl_log_enabled(SL_ERROR, "store"))
		_exit(1);
}

static void
enabled_agrees_with_what_is_printed(void **state)
{
	(void)state;
	assert_said("evict=debug,*=error", ask_levels, "");
}

static void
say_long(void *arg)
{
	char text[3000];

	(void)arg;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	sl_log(SL_WARN, "store", "%s", text);
	sl_log(SL_WARN, "store", "after");
}

static void
a_long_line_is_cut_and_stays_one_line(void **state)
{
	struct child_result result;
	char *end;

	(void)state;
	unsetenv("SLUICE_LOG");
	result = child_run(say_long, NULL);
	end = strchr(result.stderr_text, '\n');
	assert_non_null(end);
	assert_int_equal(end - result.stderr_text, 1023);
	assert_memory_equal(end - 4, "x...", 4);
	assert_string_equal(end + 1, "sluice: warning: store: after\n");
}

static void
say_with_errno(void *arg)
{
	(void)arg;
	errno = EXDEV;
	(void)sl_fail(-EIO, "kept");
	close(STDERR_FILENO); /* the write fails */
	sl_log(SL_WARN, "store", "text");
	sl_log_once("key", SL_WARN, "store", "text");
	if (errno != EXDEV || strcmp(sluice_last_error(), "kept"))
		_exit(1);
}

static void
errno_and_the_last_error_are_left_alone(void **state)
{
	(void)state;
	assert_said(NULL, say_with_errno, "");
}

static void
say_some_once(void *arg)
{
	char other_address[] = "direct";

	(void)arg;
	for (int i = 0; i < 3; i++) {
		sl_log_once("direct", SL_WARN, "store", "no O_DIRECT");
		sl_log_once("huge", SL_WARN, "device", "no huge pages");
		sl_log_once(other_address, SL_WARN, "store", "the same key");
		sl_log_once("quiet", SL_DEBUG, "store", "not printed");
	}
}

static void
a_message_is_said_once_per_key(void **state)
{
	(void)state;
	assert_said(NULL, say_some_once,
		    "sluice: warning: store: no O_DIRECT\n"
		    "sluice: warning: device: no huge pages\n");
}

static void *
say_once_in_thread(void *arg)
{
	static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h"};

	(void)arg;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		sl_log_once(keys[i], SL_WARN, "store", "%s", keys[i]);
	return NULL;
}

static void
say_once_in_threads(void *arg)
{
	pthread_t threads[8];

	(void)arg;
	for (int i = 0; i < 8; i++)
		if (pthread_create(&threads[i], NULL, say_once_in_thread, NULL))
			_exit(1);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
}

static void
racing_threads_say_it_once(void **state)
{
	struct child_result result;
	unsigned lines = 0;

	(void)state;
	unsetenv("SLUICE_LOG");
	result = child_run(say_once_in_threads, NULL);
	assert_int_equal(result.exit_status, 0);
	for (const char *at = result.stderr_text; *at; at++)
		lines += *at == '\n';
	assert_int_equal(lines, 8);
}

static void
say_too_many_once(void *arg)
{
	static char keys[257][16];

	(void)arg;
	for (int i = 0; i < 257; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k%d", i);
		sl_log_once(keys[i], SL_WARN, "x", i < 256 ? "." : "more than fits");
	}
	sl_log_once(keys[0], SL_WARN, "x", "kept out");
	sl_log_once(keys[256], SL_WARN, "x", "more than fits");
}

static void
beyond_the_table_messages_are_said_again_rather_than_lost(void **state)
{
	struct child_result result;
	const char *first;

	(void)state;
	unsetenv("SLUICE_LOG");
	result = child_run(say_too_many_once, NULL);
	first = strstr(result.stderr_text, "more than fits");
	assert_non_null(first);
	assert_non_null(strstr(first + 1, "more than fits"));
	assert_null(strstr(result.stderr_text, "kept out"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(warnings_and_errors_are_printed_by_default),
		T(an_area_has_its_own_level),
		T(the_later_entry_wins),
		T(what_cannot_be_read_is_said_and_left_out),
		T(too_many_areas_are_said_and_left_out),
		T(enabled_agrees_with_what_is_printed),
		T(a_long_line_is_cut_and_stays_one_line),
		T(errno_and_the_last_error_are_left_alone),
		T(a_message_is_said_once_per_key),
		T(racing_threads_say_it_once),
		T(beyond_the_table_messages_are_said_again_rather_than_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
