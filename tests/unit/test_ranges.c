/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges that the preload library remembers, against an array of what each number belongs to. */
#include "preload/calls/ranges.h"

#include "base/rng.h"
#include "unit/cmocka_all.h"

/* Not in the library that unit tests are linked with. */
#include "preload/calls/ranges.c" /* NOLINT(bugprone-suspicious-include) */

#define NUMBERS 512u
#define STEPS   20000u

static struct pl_ranges ranges = PL_RANGES_INITIALIZER;

static void
range_is_found_by_every_number_inside_and_none_outside(void **state)
{
	struct pl_range out = {0};

	(void)state;
	assert_int_equal(pl_ranges_add(&ranges, (struct pl_range){100, 50, 1, 7}), 1);
	assert_int_equal(pl_ranges_find(&ranges, 99, &out), 0);
	assert_int_equal(pl_ranges_find(&ranges, 100, &out), 1);
	assert_int_equal(pl_ranges_find(&ranges, 149, &out), 1);
	assert_int_equal(out.value, 7);
	assert_int_equal(pl_ranges_find(&ranges, 150, &out), 0);
	assert_int_equal(pl_ranges_take(&ranges, 120, &out), 1);
	assert_int_equal(out.base, 100);
	assert_int_equal(pl_ranges_take(&ranges, 120, NULL), 0);
}

static void
last_number_there_is_can_be_in_a_range(void **state)
{
	struct pl_range out;

	(void)state;
	assert_int_equal(pl_ranges_add(&ranges, (struct pl_range){UINT64_MAX - 9, 10, 1, 0}),
			 1);
	assert_int_equal(pl_ranges_find(&ranges, UINT64_MAX, &out), 1);
	assert_int_equal(pl_ranges_find(&ranges, UINT64_MAX - 10, &out), 0);
	assert_int_equal(pl_ranges_take_in(&ranges, UINT64_MAX - 20, 21, &out), 1);
	assert_int_equal(ranges.n, 0);
}

static void
range_of_nothing_is_not_kept(void **state)
{
	(void)state;
	assert_int_equal(pl_ranges_add(&ranges, (struct pl_range){5, 0, 1, 0}), 1);
	assert_int_equal(ranges.n, 0);
	assert_int_equal(pl_ranges_take_in(&ranges, 0, 0, NULL), 0);
}

/* What the model says of each number: the range's key, or 0. */
static unsigned model[NUMBERS];
static struct pl_range kept[STEPS + 1];

static void
model_drop(unsigned key)
{
	for (unsigned i = 0; i < NUMBERS; i++)
		if (model[i] == key)
			model[i] = 0;
}

static void
random_changes_agree_with_an_array(void **state)
{
	struct sl_rng rng;
	struct pl_range out = {0};

	(void)state;
	print_message("seed 4711\n");
	sl_rng_init(&rng, 4711);
	for (unsigned step = 1; step <= STEPS; step++) {
		unsigned at = (unsigned)sl_rng_below(&rng, NUMBERS);
		unsigned bytes = 1 + (unsigned)sl_rng_below(&rng, 20);
		unsigned owner = (unsigned)sl_rng_below(&rng, 8);

		if (at + bytes > NUMBERS)
			bytes = NUMBERS - at;
		switch (sl_rng_below(&rng, 8)) {
		case 0:
		case 1:
		case 2:
		case 3:
			kept[step] = (struct pl_range){at, bytes, owner, step};
			for (unsigned i = at; i < at + bytes; i++)
				if (model[i])
					model_drop(model[i]);
			for (unsigned i = at; i < at + bytes; i++)
				model[i] = step;
			assert_int_equal(pl_ranges_add(&ranges, kept[step]), 1);
			break;
		case 4:
			assert_int_equal(pl_ranges_take(&ranges, at, &out), model[at] != 0);
			if (model[at]) {
				assert_int_equal(out.base, kept[model[at]].base);
				model_drop(model[at]);
			}
			break;
		case 5:
			while (pl_ranges_take_in(&ranges, at, bytes, &out))
				model_drop((unsigned)(out.value % (STEPS + 1)));
			for (unsigned i = at; i < at + bytes; i++)
				assert_int_equal(model[i], 0);
			break;
		case 6:
		case 7:
			/* The key stays what it is modulo STEPS + 1. */
			assert_int_equal(pl_ranges_change(&ranges, at, STEPS + 1, &out),
					 model[at] != 0);
			break;
		}
		assert_int_equal(pl_ranges_find(&ranges, at, &out), model[at] != 0);
		if (model[at])
			assert_int_equal(out.value % (STEPS + 1), model[at]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(range_is_found_by_every_number_inside_and_none_outside),
		cmocka_unit_test(last_number_there_is_can_be_in_a_range),
		cmocka_unit_test(range_of_nothing_is_not_kept),
		cmocka_unit_test(random_changes_agree_with_an_array),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	free(ranges.at);
	return rc;
}
