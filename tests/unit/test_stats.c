/* SPDX-License-Identifier: Apache-2.0 */
/* The one list of counters: names, units, texts, and the sums over causes. */
#include "unit/cmocka_all.h"

#include <ctype.h>

#include "sluice/stats.h"

static void
names_are_unique_and_fit_for_json_and_shells(void **state)
{
	(void)state;
	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++) {
		const char *name = sluice_counter_name((enum sluice_counter)i);

		assert_non_null(name);
		assert_true(islower((unsigned char)name[0]));
		for (const char *p = name; *p; p++)
			assert_true(islower((unsigned char)*p) ||
				    isdigit((unsigned char)*p) || *p == '_');
		for (int k = 0; k < i; k++)
			assert_string_not_equal(name,
						sluice_counter_name((enum sluice_counter)k));
	}
}

static void
every_counter_has_a_unit_and_a_meaning_of_its_own(void **state)
{
	(void)state;
	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++) {
		const char *unit = sluice_counter_unit((enum sluice_counter)i);
		const char *text = sluice_counter_text((enum sluice_counter)i);

		assert_true(!strcmp(unit, "bytes") || !strcmp(unit, "count"));
		assert_true(strlen(text) > 5);
		for (int k = 0; k < i; k++)
			assert_string_not_equal(text,
						sluice_counter_text((enum sluice_counter)k));
	}
}

static void
beyond_the_last_there_is_nothing(void **state)
{
	(void)state;
	assert_null(sluice_counter_name(SLUICE_COUNTER_COUNT));
	assert_null(sluice_counter_unit((enum sluice_counter) - 1));
	assert_null(sluice_counter_text((enum sluice_counter)1000));
}

static void
sums_take_every_cause_of_their_direction_and_no_other(void **state)
{
	(void)state;
	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++) {
		const char *name = sluice_counter_name((enum sluice_counter)i);
		struct sluice_stats st = {0};
		/* What compression saved is no part of what link and disk saw. */
		uint64_t in = strcmp(name, "compress_in_saved") ? 0 : -(uint64_t)1000;
		uint64_t out = strcmp(name, "compress_out_saved") ? 0 : -(uint64_t)1000;
		uint64_t read = strcmp(name, "compress_read_saved") ? 0 : -(uint64_t)1000;
		uint64_t write = strcmp(name, "compress_write_saved") ? 0 : -(uint64_t)1000;

		st.counter[i] = 1000;
		assert_int_equal(sluice_stats_h2d_bytes(&st),
				 strncmp(name, "h2d_", 4) ? in : 1000);
		assert_int_equal(sluice_stats_d2h_bytes(&st),
				 strncmp(name, "d2h_", 4) ? out : 1000);
		assert_int_equal(sluice_stats_store_read_bytes(&st),
				 strncmp(name, "store_read_", 11) ? read : 1000);
		assert_int_equal(sluice_stats_store_write_bytes(&st),
				 strncmp(name, "store_write_", 12) ? write : 1000);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(names_are_unique_and_fit_for_json_and_shells),
		T(every_counter_has_a_unit_and_a_meaning_of_its_own),
		T(beyond_the_last_there_is_nothing),
		T(sums_take_every_cause_of_their_direction_and_no_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
