/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growth inside a chunk: the aligned 64 KiB of the fault, then the largest aligned subtree of
 * which more than 51 % is present or coming. Golden sequences of the published driver.
 */
#include "unit/cmocka_all.h"

#include "base/rng.h"
#include "core/transfer/transfer.h"

#define PAGES 512u /* 2 MiB */

struct book {
	uint64_t present[SL_BITMAP_WORDS(16384)];
	uint32_t n_pages;
};

/* One fault on page; pages that are present afterwards. */
static uint32_t
fault(struct book *b, uint32_t page)
{
	uint32_t first, n;

	sl_pages_grow(b->present, b->n_pages, page, &first, &n);
	assert_true(first <= page && page < first + n);
	assert_true(first + n <= b->n_pages);
	sl_bitmap_set(b->present, first, n);
	return (uint32_t)sl_bitmap_count(b->present, 0, b->n_pages);
}

static void
sequential_walk_fills_a_chunk_in_six_faults(void **state)
{
	static const uint32_t golden_kib[] = {64, 128, 256, 512, 1024, 2048};
	struct book b = {.n_pages = PAGES};

	(void)state;
	for (int i = 0; i < 6; i++) {
		uint32_t page = (uint32_t)sl_bitmap_next_clear(b.present, 0, PAGES);

		assert_int_equal(fault(&b, page) * 4, golden_kib[i]);
	}
}

static void
backward_walk_fills_a_chunk_in_six_faults(void **state)
{
	static const uint32_t golden_kib[] = {64, 128, 256, 512, 1024, 2048};
	struct book b = {.n_pages = PAGES};

	(void)state;
	for (int i = 0; i < 6; i++) {
		uint32_t page = PAGES - 1;

		while (sl_bitmap_test(b.present, page))
			page--;
		assert_int_equal(fault(&b, page) * 4, golden_kib[i]);
	}
}

static void
larger_chunks_go_on_by_the_same_rule(void **state)
{
	/* From 4 MiB on, half of a subtree and 64 KiB are no longer more than 51 % of it. */
	static const uint32_t golden[] = {16,   32,   64,   128,  256,  512,
					  1024, 1040, 2048, 2064, 2080, 4096};
	struct book b = {.n_pages = 4096}; /* 16 MiB */

	(void)state;
	for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++)
		assert_int_equal(fault(&b, (uint32_t)sl_bitmap_next_clear(b.present, 0, 4096)),
				 golden[i]);
}

static void
first_fault_brings_its_own_aligned_64_kib(void **state)
{
	(void)state;
	for (uint32_t page = 0; page < PAGES; page++) {
		struct book b = {.n_pages = PAGES};
		uint32_t first, n;

		sl_pages_grow(b.present, PAGES, page, &first, &n);
		assert_int_equal(first, page / 16 * 16);
		assert_int_equal(n, 16);
	}
}

static void
half_full_is_not_enough_and_one_page_more_is(void **state)
{
	struct book b = {.n_pages = PAGES};
	uint32_t first, n;

	(void)state;
	/* a subtree of 512 pages: more than 51 % is 262 pages, counting the 16 that come */
	sl_bitmap_set(b.present, 0, 245);
	sl_pages_grow(b.present, PAGES, 511, &first, &n);
	assert_int_equal(n, 16);
	sl_bitmap_set(b.present, 245, 1);
	sl_pages_grow(b.present, PAGES, 511, &first, &n);
	assert_int_equal(first, 0);
	assert_int_equal(n, PAGES);
}

static void
largest_subtree_wins_even_where_a_smaller_one_is_sparse(void **state)
{
	struct book b = {.n_pages = PAGES};
	uint32_t first, n;

	(void)state;
	sl_bitmap_set(b.present, 0, 384); /* three quarters; the fault is alone in the last */
	sl_pages_grow(b.present, PAGES, 400, &first, &n);
	assert_int_equal(first, 0);
	assert_int_equal(n, PAGES);
}

static void
growth_is_aligned_and_a_power_of_two_whatever_is_present(void **state)
{
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, 7);
	for (int round = 0; round < 2000; round++) {
		struct book b = {.n_pages = PAGES};
		uint32_t page = (uint32_t)(sl_rng_next(&rng) % PAGES), first, n;
		int runs = (int)(sl_rng_next(&rng) % 20);

		for (int i = 0; i < runs; i++) {
			size_t from = sl_rng_next(&rng) % PAGES;
			size_t len = 1 + sl_rng_next(&rng) % 40;

			sl_bitmap_set(b.present, from,
				      from + len > PAGES ? PAGES - from : len);
		}
		sl_pages_grow(b.present, PAGES, page, &first, &n);
		assert_true(n >= 16 && n <= PAGES && (n & (n - 1)) == 0);
		assert_int_equal(first % n, 0);
		assert_true(page >= first && page < first + n);
		if (n > 16) {
			uint32_t big = page / 16 * 16;
			size_t have = sl_bitmap_count(b.present, first, n) -
				      sl_bitmap_count(b.present, big, 16) + 16;

			assert_true(have * 100 > 51 * n);
		}
	}
}

static void
books_of_pages_do_not_overlap(void **state)
{
	struct sl_pages *p = sl_pages_alloc(SL_CHUNK_BYTES_MAX);

	(void)state;
	assert_non_null(p);
	sl_bitmap_set(p->present, 0, SL_CHUNK_BYTES_MAX / SL_PAGE_BYTES);
	assert_int_equal(sl_bitmap_count(p->dirty, 0, SL_CHUNK_BYTES_MAX / SL_PAGE_BYTES), 0);
	sl_bitmap_set(p->dirty, 0, SL_CHUNK_BYTES_MAX / SL_PAGE_BYTES);
	assert_int_equal(sl_bitmap_count(p->filling, 0, SL_CHUNK_BYTES_MAX / SL_PAGE_BYTES),
			 0);
	sl_bitmap_set(p->filling, 0, SL_CHUNK_BYTES_MAX / SL_PAGE_BYTES);
	free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(sequential_walk_fills_a_chunk_in_six_faults),
		T(backward_walk_fills_a_chunk_in_six_faults),
		T(larger_chunks_go_on_by_the_same_rule),
		T(first_fault_brings_its_own_aligned_64_kib),
		T(half_full_is_not_enough_and_one_page_more_is),
		T(largest_subtree_wins_even_where_a_smaller_one_is_sparse),
		T(growth_is_aligned_and_a_power_of_two_whatever_is_present),
		T(books_of_pages_do_not_overlap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
