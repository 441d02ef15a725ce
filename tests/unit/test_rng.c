/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers: the published sequence of the generator, the same for the same seed,
 * within bounds, and spread evenly enough that a biased or stuck generator is found.
 */
#include "base/rng.h"

#include "unit/cmocka_all.h"

static void
generator_gives_the_published_sequence(void **state)
{
	/* First outputs of xoshiro256** from the state 1, 2, 3, 4. */
	static const uint64_t expected[] = {11520u, 0u, 1509978240u, 1215971899390074240u};
	struct sl_rng rng = {{1, 2, 3, 4}};

	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		assert_true(sl_rng_next(&rng) == expected[i]);
}

static void
seeding_gives_the_published_splitmix_sequence(void **state)
{
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, 0);
	assert_true(rng.s[0] == 0xe220a8397b1dcdafu);
	assert_true(rng.s[1] == 0x6e789e6aa1b965f4u);
	assert_true(rng.s[2] == 0x06c45d188009454fu);
	assert_true(rng.s[3] == 0xf88bb8a8724c81ecu);
}

static void
same_seed_same_numbers_other_seed_others(void **state)
{
	struct sl_rng a, b, c;
	int differ = 0;

	(void)state;
	sl_rng_init(&a, 7);
	sl_rng_init(&b, 7);
	sl_rng_init(&c, 8);
	for (int i = 0; i < 1000; i++) {
		uint64_t x = sl_rng_next(&a);

		assert_true(x == sl_rng_next(&b));
		differ += x != sl_rng_next(&c);
	}
	assert_int_equal(differ, 1000);
}

static void
below_stays_below_and_reaches_every_value(void **state)
{
	unsigned seen[7] = {0};
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, 1);
	for (int i = 0; i < 70000; i++) {
		uint64_t x = sl_rng_below(&rng, 7);

		assert_true(x < 7);
		seen[x]++;
	}
	for (int i = 0; i < 7; i++)
		assert_in_range(seen[i], 9500, 10500); /* 10000 +- 5 sigma */
}

static void
below_works_at_the_ends_of_its_range(void **state)
{
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, 2);
	for (int i = 0; i < 1000; i++) {
		assert_true(sl_rng_below(&rng, 1) == 0);
		assert_true(sl_rng_below(&rng, UINT64_MAX) < UINT64_MAX);
	}
}

static void
below_is_unbiased_where_a_remainder_is_not(void **state)
{
	/* With n = 3 * 2^62 the remainder of a 64-bit draw would fall below 2^62 in half
	 * of all cases instead of a third. */
	const uint64_t n = (uint64_t)3 << 62;
	unsigned low = 0;
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, 3);
	for (int i = 0; i < 90000; i++)
		low += sl_rng_below(&rng, n) < (uint64_t)1 << 62;
	assert_in_range(low, 29200, 30800);
}

static void
unit_is_in_zero_to_one_with_the_mean_in_the_middle(void **state)
{
	struct sl_rng rng;
	double sum = 0;

	(void)state;
	sl_rng_init(&rng, 4);
	for (int i = 0; i < 100000; i++) {
		double x = sl_rng_unit(&rng);

		assert_true(x >= 0 && x < 1);
		sum += x;
	}
	assert_true(sum > 49500 && sum < 50500);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(generator_gives_the_published_sequence),
		T(seeding_gives_the_published_splitmix_sequence),
		T(same_seed_same_numbers_other_seed_others),
		T(below_stays_below_and_reaches_every_value),
		T(below_works_at_the_ends_of_its_range),
		T(below_is_unbiased_where_a_remainder_is_not),
		T(unit_is_in_zero_to_one_with_the_mean_in_the_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
