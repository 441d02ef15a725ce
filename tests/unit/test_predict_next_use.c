/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From noted launches to an order of victims: the period, the ranges, how far the next use is, and
 * which uses may miss.
 */
#include "unit/cmocka_all.h"

#include <errno.h>

#include "predict/predict.h"

#define CHUNK ((uint64_t)2 << 20)

struct notes {
	struct sl_predict *p;
};

static struct notes *
notes_make(void)
{
	struct notes *n = calloc(1, sizeof(*n));

	assert_int_equal(sl_predict_create(&n->p), 0);
	return n;
}

static void
notes_end(struct notes *n)
{
	sl_predict_destroy(n->p);
	free(n);
}

static void
note(struct notes *n, uint64_t hash)
{
	(void)sl_predict_note(n->p, hash);
}

/* Chunks first to last of a block, of the launch noted last. */
static struct sl_predict_use
use_of(int block, uint64_t first, uint64_t last, enum sluice_intent intent)
{
	return (struct sl_predict_use){.block = (uint64_t)block + 1,
				       .addr = first * CHUNK,
				       .bytes = (last + 1 - first) * CHUNK,
				       .grain = CHUNK,
				       .intent = intent};
}

static void
note_use(struct notes *n, int block, uint64_t first, uint64_t last, enum sluice_intent intent)
{
	struct sl_predict_use use = use_of(block, first, last, intent);

	sl_predict_note_use(n->p, &use);
}

static int
make(const struct notes *n, uint64_t device_chunks, struct sl_next_uses **out)
{
	return sl_next_uses_make(n->p, device_chunks * CHUNK, out);
}

/* Chunk k of region 0 in launch k, n of them, over and over. */
static void
sweeps(struct notes *n, uint64_t chunks, int times)
{
	for (int i = 0; i < times; i++) {
		for (uint64_t k = 0; k < chunks; k++) {
			note(n, 100 + k);
			note_use(n, 0, k, k, SLUICE_USE_READ);
		}
	}
}

static void
what_does_not_repeat_has_no_plan(void **state)
{
	struct notes *n = notes_make();
	struct sl_next_uses *planned = NULL;

	(void)state;
	sweeps(n, 9, 1);
	assert_int_equal(make(n, 4, &planned), -ENOENT);
	assert_null(planned);
	note(n, 7);
	sweeps(n, 4, 1); /* the begin of a second one is not enough */
	assert_int_equal(make(n, 4, &planned), -ENOENT);
	notes_end(n);
}

static void
period_begins_behind_the_last_launch(void **state)
{
	struct notes *n = notes_make();
	struct sl_next_uses *planned;

	(void)state;
	note(n, 1);
	note_use(n, 1, 0, 3, SLUICE_USE_WRITE_ALL);
	sweeps(n, 6, 2);
	note(n, 100); /* one into the third: the period turns with it */
	note_use(n, 0, 0, 0, SLUICE_USE_READ);
	assert_int_equal(make(n, 4, &planned), 0);
	assert_int_equal(planned->period, 6);
	assert_int_equal(planned->n_ranges, 6);
	assert_int_equal(planned->bytes, 6 * CHUNK);
	for (uint32_t k = 0; k < 6; k++) {
		assert_int_equal(planned->hashes[k], 100 + (k + 1) % 6);
		assert_int_equal(planned->at_first[k], k);
		assert_int_equal(planned->at[k].distance, 6);
		assert_int_equal(planned->ranges[planned->at[k].range].addr,
				 (k + 1) % 6 * CHUNK);
		assert_int_equal(planned->ranges[planned->at[k].range].first_at, k);
	}
	sl_next_uses_destroy(planned);
	notes_end(n);
}

static void
what_fits_asks_nobody(void **state)
{
	struct notes *n = notes_make();
	struct sl_next_uses *planned;

	(void)state;
	sweeps(n, 5, 3);
	assert_int_equal(make(n, 5, &planned), 0);
	assert_true(planned->fits);
	sl_next_uses_destroy(planned);
	assert_int_equal(make(n, 4, &planned), 0);
	assert_false(planned->fits);
	sl_next_uses_destroy(planned);
	notes_end(n);
}

/* Chunks 0-5 and 4-9 are used: 0-3, 4-5, 6-9 are ranges; a chunk used in part is one by itself. */
static void
ranges_are_what_launches_use_whole_or_not_at_all(void **state)
{
	static const uint64_t firsts[] = {0, 4, 5, 6}, lasts[] = {3, 4, 5, 9};
	struct notes *n = notes_make();
	struct sl_next_uses *planned;
	struct sl_predict_use use;
	uint64_t seen = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		note(n, 1);
		use = use_of(0, 0, 5, SLUICE_USE_WRITE_ALL);
		use.part_last = 1;
		sl_predict_note_use(n->p, &use);
		use = use_of(2, 0, 9, SLUICE_USE_READ);
		use.pinned = 1;
		sl_predict_note_use(n->p, &use);
		note(n, 2);
		note_use(n, 0, 4, 9, SLUICE_USE_READ);
	}
	assert_int_equal(make(n, 64, &planned), 0);
	assert_int_equal(planned->period, 2);
	assert_int_equal(planned->n_ranges, 4);
	for (uint32_t i = 0; i < 4; i++) {
		const struct sl_next_range *range = &planned->ranges[i];

		for (int k = 0; k < 4; k++)
			seen |= (uint64_t)(range->addr == firsts[k] * CHUNK &&
					   range->bytes == (lasts[k] + 1 - firsts[k]) * CHUNK)
				<< k;
		assert_int_equal(range->block, 1);
	}
	assert_int_equal(seen, 15);
	assert_int_equal(planned->at_first[1], 3); /* 0-3, 4, 5 */
	assert_int_equal(planned->at_first[2], 6); /* 4, 5, 6-9 */
	for (uint32_t i = 0; i < 6; i++) {
		const struct sl_next_use *at = &planned->at[i];
		const struct sl_next_range *range = &planned->ranges[at->range];

		assert_int_equal(at->distance,
				 range->addr == 4 * CHUNK || range->addr == 5 * CHUNK ? 1
										      : 2);
		/* What is written in part keeps the rest. */
		if (i < 3)
			assert_int_equal(at->intent, range->addr == 5 * CHUNK
							     ? SLUICE_USE_WRITE
							     : SLUICE_USE_WRITE_ALL);
	}
	sl_next_uses_destroy(planned);
	notes_end(n);
}

static void
large_ranges_are_cut_so_that_parts_can_stay(void **state)
{
	struct notes *n = notes_make();
	struct sl_next_uses *planned;
	uint64_t bytes = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		note(n, 1);
		note_use(n, 0, 0, 99, SLUICE_USE_READ);
		note(n, 2);
		note_use(n, 1, 0, 99, SLUICE_USE_READ);
	}
	assert_int_equal(make(n, 160, &planned), 0);
	assert_int_equal(planned->n_ranges, 20);
	for (uint32_t i = 0; i < planned->n_ranges; i++) {
		assert_true(planned->ranges[i].bytes <= 10 * CHUNK);
		bytes += planned->ranges[i].bytes;
	}
	assert_int_equal(bytes, 200 * CHUNK);
	sl_next_uses_destroy(planned);
	notes_end(n);
}

/* Farthest next use on paper: N - B of N - 1 launches miss, lru misses all. */
static void
bytes_on_paper_are_those_of_the_closed_form(void **state)
{
	struct notes *n = notes_make();
	struct sl_next_uses *planned;

	(void)state;
	sweeps(n, 13, 3);
	assert_int_equal(make(n, 7, &planned), 0);
	assert_false(planned->useless);
	assert_int_equal(planned->lru_bytes, 13 * CHUNK);
	assert_in_range(planned->plan_bytes, 13 * 6 * CHUNK / 12 - CHUNK / 2,
			13 * 6 * CHUNK / 12 + CHUNK / 2);
	sl_next_uses_destroy(planned);
	notes_end(n);
}

/* There and back again, lru gives up just what is farthest away. */
static void
where_lru_is_as_good_there_is_no_plan(void **state)
{
	struct notes *n = notes_make();
	struct sl_next_uses *planned;

	(void)state;
	for (int i = 0; i < 3; i++) {
		for (uint64_t k = 0; k < 14; k++) {
			uint64_t chunk = k < 8 ? k : 14 - k;

			note(n, 100 + k);
			note_use(n, 0, chunk, chunk, SLUICE_USE_READ);
		}
	}
	assert_int_equal(make(n, 4, &planned), 0);
	assert_true(planned->useless);
	assert_int_equal(planned->lru_bytes, planned->plan_bytes);
	sl_next_uses_destroy(planned);
	notes_end(n);
}

/* More than the device holds has to come in each period; farthest next use, it is another part each time. */
static void
uses_that_may_miss_are_told(void **state)
{
	struct notes *n = notes_make();
	struct sl_next_uses *planned;
	int misses = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		for (uint64_t k = 0; k < 12; k++) {
			note(n, 100 + k);
			note_use(n, 0, k, k, SLUICE_USE_READ);
			note(n, 300);
			note_use(n, 1, 0, 0, SLUICE_USE_READ_WRITE);
		}
	}
	assert_int_equal(make(n, 6, &planned), 0);
	assert_int_equal(planned->period, 24);
	for (uint32_t k = 0; k < 24; k++) {
		assert_int_equal(planned->at_first[k], k);
		if (planned->ranges[planned->at[k].range].block == 2)
			assert_false(planned->at[k].misses); /* used by every other launch */
		else
			misses += planned->at[k].misses;
	}
	assert_in_range(misses, 12 - 5, 12);
	sl_next_uses_destroy(planned);
	notes_end(n);
}

static void
same_notes_make_the_same_plan(void **state)
{
	struct notes *n = notes_make();
	struct sl_next_uses *a, *b;

	(void)state;
	sweeps(n, 20, 3);
	assert_int_equal(make(n, 6, &a), 0);
	assert_int_equal(make(n, 6, &b), 0);
	assert_memory_equal(a->at, b->at, a->at_first[20] * sizeof(*a->at));
	sl_next_uses_destroy(a);
	sl_next_uses_destroy(b);
	notes_end(n);
}

static void
launch_that_cannot_fit_is_left_to_lru(void **state)
{
	struct notes *n = notes_make();
	struct sl_next_uses *planned;

	(void)state;
	for (int i = 0; i < 3; i++) {
		note(n, 1);
		note_use(n, 0, 0, 9, SLUICE_USE_READ);
		note(n, 2);
		note_use(n, 1, 0, 1, SLUICE_USE_READ_WRITE);
	}
	assert_int_equal(make(n, 4, &planned), 0); /* in the host tier, where the device can */
	assert_true(planned->useless);
	sl_next_uses_destroy(planned);
	notes_end(n);
}

/* Notes from before do not count. */
static void
what_is_forgotten_is_no_period(void **state)
{
	struct notes *n = notes_make();
	struct sl_next_uses *planned;

	(void)state;
	sweeps(n, 12, 3);
	sl_predict_forget(n->p);
	assert_int_equal(make(n, 6, &planned), -ENOENT);
	sweeps(n, 7, 2);
	assert_int_equal(make(n, 6, &planned), 0);
	assert_int_equal(planned->period, 7);
	sl_next_uses_destroy(planned);
	notes_end(n);
}

/* More launches than the log holds: the last ones count. */
static void
the_log_is_a_ring(void **state)
{
	struct notes *n = notes_make();
	struct sl_next_uses *planned;

	(void)state;
	for (uint64_t k = 0; k < 20000; k++)
		note(n, 1000 + k);
	assert_int_equal(make(n, 6, &planned), -ENOENT);
	sweeps(n, 11, 1000);
	assert_int_equal(make(n, 6, &planned), 0);
	assert_int_equal(planned->period, 11);
	sl_next_uses_destroy(planned);
	notes_end(n);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_does_not_repeat_has_no_plan),
		cmocka_unit_test(period_begins_behind_the_last_launch),
		cmocka_unit_test(what_fits_asks_nobody),
		cmocka_unit_test(ranges_are_what_launches_use_whole_or_not_at_all),
		cmocka_unit_test(large_ranges_are_cut_so_that_parts_can_stay),
		cmocka_unit_test(bytes_on_paper_are_those_of_the_closed_form),
		cmocka_unit_test(where_lru_is_as_good_there_is_no_plan),
		cmocka_unit_test(uses_that_may_miss_are_told),
		cmocka_unit_test(same_notes_make_the_same_plan),
		cmocka_unit_test(launch_that_cannot_fit_is_left_to_lru),
		cmocka_unit_test(what_is_forgotten_is_no_period),
		cmocka_unit_test(the_log_is_a_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
