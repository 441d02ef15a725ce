/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of trace events: what it has after each write, at its limit, and when a write fails.
 * tests/cli/test_run_timeline.py reads a whole one as JSON.
 */
#include "preload/report/trace_events.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "unit/cmocka_all.h"

/* Not in the library that unit tests are linked with. */
#include "preload/report/trace_events.c" /* NOLINT(bugprone-suspicious-include) */

static char path[] = "/tmp/sluice-trace-events-XXXXXX";
static char text[(size_t)1 << 20];

static struct pl_trace_events *
file_open(uint64_t limit)
{
	struct pl_trace_events *t = NULL;

	strcpy(path + strlen(path) - 6, "XXXXXX");
	assert_int_equal(pl_trace_events_create(mkstemp(path), limit, 7, "a \"b\"\n", 5, &t),
			 0);
	return t;
}

/* The file as it is now. */
static const char *
file_read(void)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	assert_true(n >= 0);
	text[n] = '\0';
	return text;
}

/* It is one object: each bracket is closed, strings apart. */
static void
file_is_complete(void)
{
	int depth = 0, quoted = 0;

	for (const char *c = file_read(); *c; c++) {
		if (quoted && *c == '\\')
			c++;
		else if (*c == '"')
			quoted = !quoted;
		else if (!quoted && (*c == '{' || *c == '['))
			depth++;
		else if (!quoted && (*c == '}' || *c == ']'))
			assert_true(--depth >= 0);
	}
	assert_int_equal(depth, 0);
	assert_false(quoted);
	assert_string_equal(text + strlen(text) - 4, "\n]}\n");
}

static void
events_are_written_as_the_format_has_them(void **state)
{
	static const struct pl_trace_arg args[] = {{"bytes", NULL, 4096}, {"why", "x\\y", 0}};
	struct pl_trace_events *t = file_open(1 << 20);

	(void)state;
	file_is_complete();
	assert_non_null(strstr(text, "\"baseTimeNanoseconds\":5,"));
	assert_non_null(strstr(text, "\"name\":\"a \\\"b\\\"\\u000a\""));
	pl_trace_track(t, 70, 3, "in");
	pl_trace_slice(t, 70, "move", "prefetch", 1234567, 2234568, args, 2);
	pl_trace_instant(t, 70, "drop", 5, NULL, 0);
	pl_trace_counter(t, "memory", 1000, args, 1);
	pl_trace_flow(t, "waits", 70, 1300000, 71, 4000001);
	assert_null(strstr(file_read(), "prefetch")); /* not yet */
	assert_int_equal(pl_trace_events_destroy(t), 0);
	file_is_complete();
	assert_non_null(strstr(text,
			       "{\"ph\":\"X\",\"pid\":7,\"tid\":70,\"cat\":\"move\","
			       "\"name\":\"prefetch\",\"ts\":1234.567,\"dur\":1000.001,"
			       "\"args\":{\"bytes\":4096,\"why\":\"x\\\\y\"}}"));
	assert_non_null(strstr(text, "{\"ph\":\"i\",\"pid\":7,\"tid\":70,\"s\":\"t\","
				     "\"name\":\"drop\",\"ts\":0.005,\"args\":{}}"));
	assert_non_null(strstr(text, "{\"ph\":\"C\",\"pid\":7,\"name\":\"memory\","
				     "\"ts\":1.000,\"args\":{\"bytes\":4096}}"));
	assert_non_null(strstr(text,
			       "{\"ph\":\"s\",\"pid\":7,\"tid\":70,\"cat\":\"flow\","
			       "\"id\":1,\"name\":\"waits\",\"ts\":1300.000}"));
	assert_non_null(strstr(text,
			       "{\"ph\":\"f\",\"pid\":7,\"tid\":71,\"cat\":\"flow\","
			       "\"id\":1,\"bp\":\"e\",\"name\":\"waits\","
			       "\"ts\":4000.001}"));
	unlink(path);
}

static void
a_full_file_stays_within_its_limit_and_says_so(void **state)
{
	struct pl_trace_events *t = file_open(PL_TRACE_LIMIT_MIN);
	struct stat st;
	uint64_t ns = 0;

	(void)state;
	while (!pl_trace_events_state(t))
		pl_trace_slice(t, 1, "move", "a", ns, ns + 1, NULL, 0), ns++;
	assert_int_equal(pl_trace_events_state(t), -EFBIG);
	pl_trace_flow(t, "b", 1, 1, 1, 2);
	assert_int_equal(pl_trace_events_destroy(t), 0);
	file_is_complete();
	assert_null(strstr(text, "\"ph\":\"s\""));
	assert_non_null(strstr(text, "no events from here on"));
	assert_int_equal(stat(path, &st), 0);
	assert_in_range(st.st_size, PL_TRACE_LIMIT_MIN / 2, PL_TRACE_LIMIT_MIN);
	unlink(path);
}

static void
a_write_that_fails_leaves_what_was_there(void **state)
{
	struct pl_trace_events *t = file_open(1 << 20);

	(void)state;
	pl_trace_slice(t, 1, "move", "first", 1, 2, NULL, 0);
	pl_trace_flush(t);
	assert_int_equal(sl_fault_point_set("timeline.write:1:ENOSPC"), 0);
	pl_trace_slice(t, 1, "move", "another", 3, 4, NULL, 0);
	pl_trace_flush(t);
	assert_int_equal(pl_trace_events_state(t), -ENOSPC);
	pl_trace_slice(t, 1, "move", "last one", 5, 6, NULL, 0);
	assert_int_equal(pl_trace_events_destroy(t), -ENOSPC);
	file_is_complete();
	assert_non_null(strstr(text, "first"));
	assert_null(strstr(text, "another"));
	assert_null(strstr(text, "last one"));
	unlink(path);
	assert_int_equal(sl_fault_point_set("timeline.write:1:ENOSPC"), 0);
	strcpy(path + strlen(path) - 6, "XXXXXX");
	assert_int_equal(pl_trace_events_create(mkstemp(path), 1 << 20, 7, "a", 5, &t),
			 -ENOSPC);
	assert_int_equal(sl_fault_point_set(NULL), 0);
	unlink(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_are_written_as_the_format_has_them),
		cmocka_unit_test(a_full_file_stays_within_its_limit_and_says_so),
		cmocka_unit_test(a_write_that_fails_leaves_what_was_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
