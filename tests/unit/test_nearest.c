/* SPDX-License-Identifier: Apache-2.0 */
/* The name that a mistyped word was meant to be: one slip of each kind, and words that are none. */
#include "base/nearest.h"

#include <string.h>

#include "unit/cmocka_all.h"

static const char *
nearest_of(const char *word, const char *const *names)
{
	static struct sl_nearest nearest;

	memset(&nearest, 0, sizeof(nearest));
	nearest.word = word;
	for (; *names; names++)
		sl_nearest_offer(&nearest, *names);
	return sl_nearest_name(&nearest);
}

static const char *const names[] = {"device-memory", "host-memory", "stat", "stats", NULL};

static void
one_slip_of_each_kind_is_understood(void **state)
{
	(void)state;
	assert_string_equal(nearest_of("device-memroy", names), "device-memory"); /* swap */
	assert_string_equal(nearest_of("devicememory", names), "device-memory"); /* drop */
	assert_string_equal(nearest_of("hosst-memory", names), "host-memory"); /* insert */
	assert_string_equal(nearest_of("host_memory", names), "host-memory"); /* change */
}

static void
of_equally_near_names_the_first_stays(void **state)
{
	static const char *const two[] = {"cat", "rat", NULL};

	(void)state;
	assert_string_equal(nearest_of("bat", two), "cat");
	assert_string_equal(nearest_of("stat", names), "stat");
	assert_string_equal(nearest_of("stats", names), "stats");
}

static void
another_word_is_no_slip(void **state)
{
	static const char *const none[] = {NULL};
	char longer[600];

	(void)state;
	assert_null(nearest_of("xyzzy", names));
	assert_null(nearest_of("", names));
	assert_null(nearest_of("stat", none));
	memset(longer, 's', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_null(nearest_of(longer, names));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_slip_of_each_kind_is_understood),
		cmocka_unit_test(of_equally_near_names_the_first_stays),
		cmocka_unit_test(another_word_is_no_slip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
