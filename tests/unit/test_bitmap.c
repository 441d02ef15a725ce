/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bitmaps against an array of bytes, one per bit: every short range by exhaustion, long
 * ones by random operations, and that words outside a range are not touched.
 */
#include "base/bitmap.h"

#include "base/rng.h"
#include "unit/cmocka_all.h"

#define BITS 200

static void
assert_same(const uint64_t *map, const uint8_t *model, size_t bits)
{
	for (size_t i = 0; i < bits; i++)
		if (sl_bitmap_test(map, i) != model[i])
			fail_msg("bit %zu is %d", i, sl_bitmap_test(map, i));
}

static void
every_range_is_set_and_cleared_exactly(void **state)
{
	(void)state;
	for (size_t first = 0; first <= BITS; first++) {
		for (size_t n = 0; first + n <= BITS; n++) {
			uint64_t map[SL_BITMAP_WORDS(BITS)] = {0};
			uint8_t model[BITS] = {0};

			sl_bitmap_set(map, first, n);
			memset(model + first, 1, n);
			assert_same(map, model, BITS);
			assert_int_equal(sl_bitmap_count(map, 0, BITS), n);

			memset(map, 0xff, sizeof(map));
			sl_bitmap_clear(map, first, n);
			memset(model, 1, sizeof(model));
			memset(model + first, 0, n);
			assert_same(map, model, BITS);
			assert_int_equal(sl_bitmap_count(map, first, n), 0);
		}
	}
}

static void
words_outside_the_range_are_not_touched(void **state)
{
	/* Heap blocks of the exact size: with ASan a word too many is an error. */
	uint64_t *map = calloc(SL_BITMAP_WORDS(128), sizeof(*map));

	(void)state;
	assert_non_null(map);
	sl_bitmap_set(map, 0, 128);
	assert_true(map[0] == UINT64_MAX && map[1] == UINT64_MAX);
	sl_bitmap_set(map, 128, 0);
	sl_bitmap_clear(map, 128, 0);
	assert_int_equal(sl_bitmap_count(map, 128, 0), 0);
	assert_int_equal(sl_bitmap_next_set(map, 128, 128), 128);
	sl_bitmap_clear(map, 64, 64);
	assert_true(map[0] == UINT64_MAX && map[1] == 0);
	free(map);
}

static void
next_finds_the_first_bit_at_or_after_from(void **state)
{
	uint64_t map[SL_BITMAP_WORDS(BITS)] = {0};

	(void)state;
	sl_bitmap_set(map, 63, 2);
	sl_bitmap_set(map, 150, 1);
	assert_int_equal(sl_bitmap_next_set(map, 0, BITS), 63);
	assert_int_equal(sl_bitmap_next_set(map, 63, BITS), 63);
	assert_int_equal(sl_bitmap_next_set(map, 64, BITS), 64);
	assert_int_equal(sl_bitmap_next_set(map, 65, BITS), 150);
	assert_int_equal(sl_bitmap_next_clear(map, 63, BITS), 65);
	assert_int_equal(sl_bitmap_next_clear(map, 150, BITS), 151);
}

static void
next_gives_end_when_there_is_none(void **state)
{
	uint64_t map[SL_BITMAP_WORDS(BITS)] = {0};

	(void)state;
	sl_bitmap_set(map, 150, 1);
	assert_int_equal(sl_bitmap_next_set(map, 0, 150), 150);
	assert_int_equal(sl_bitmap_next_set(map, 151, BITS), BITS);
	memset(map, 0xff, sizeof(map));
	assert_int_equal(sl_bitmap_next_clear(map, 0, BITS), BITS);
	assert_int_equal(sl_bitmap_next_clear(map, 7, 7), 7);
}

static void
random_operations_agree_with_the_model(void **state)
{
	uint64_t map[SL_BITMAP_WORDS(BITS)] = {0};
	uint8_t model[BITS] = {0};
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, 5);
	for (int i = 0; i < 20000; i++) {
		size_t first = sl_rng_below(&rng, BITS + 1);
		size_t n = sl_rng_below(&rng, BITS + 1 - first);
		size_t end = first + n;
		size_t count = 0, set = end, clear = end;

		if (sl_rng_below(&rng, 2)) {
			sl_bitmap_set(map, first, n / 4);
			memset(model + first, 1, n / 4);
		} else {
			sl_bitmap_clear(map, first, n / 4);
			memset(model + first, 0, n / 4);
		}
		for (size_t bit = end; bit-- > first;) {
			count += model[bit];
			if (model[bit])
				set = bit;
			else
				clear = bit;
		}
		assert_int_equal(sl_bitmap_count(map, first, n), count);
		assert_int_equal(sl_bitmap_next_set(map, first, end), set);
		assert_int_equal(sl_bitmap_next_clear(map, first, end), clear);
	}
	assert_same(map, model, BITS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_range_is_set_and_cleared_exactly),
		T(words_outside_the_range_are_not_touched),
		T(next_finds_the_first_bit_at_or_after_from),
		T(next_gives_end_when_there_is_none),
		T(random_operations_agree_with_the_model),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
