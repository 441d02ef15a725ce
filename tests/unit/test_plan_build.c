/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From noted launches to a plan: the period, the ranges, how far the next use is, what to give up
 * first, and which uses may miss. No space: regions are only compared here.
 */
#include "unit/cmocka_all.h"

#include <errno.h>

#include "core/plan_run.h"

#define CHUNK     ((uint64_t)2 << 20)
#define NOTES_MAX 256u
#define USES_MAX  1024u

struct notes {
	struct sl_plan_note note[NOTES_MAX];
	struct sl_plan_use use[USES_MAX];
	uint32_t n, n_uses;
	struct sl_region region[3]; /* addresses, nothing else */
};

static void
note(struct notes *n, uint64_t hash)
{
	n->note[n->n++] = (struct sl_plan_note){.hash = hash, .first_use = n->n_uses};
}

static struct sl_plan_use *
note_use(struct notes *n, int region, uint64_t first, uint64_t last, enum sluice_intent intent)
{
	struct sl_plan_use *use = &n->use[n->n_uses++];

	*use = (struct sl_plan_use){.region = &n->region[region],
				    .first = first,
				    .last = last,
				    .chunk_bytes = CHUNK,
				    .intent = intent};
	n->note[n->n - 1].n_uses++;
	return use;
}

static int
make(const struct notes *n, uint64_t device_chunks, struct sl_planned **out)
{
	struct sl_plan_input input = {.notes = n->note,
				      .n_notes = n->n,
				      .uses = n->use,
				      .device_bytes = device_chunks * CHUNK};

	return sl_planned_make(&input, out);
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
	struct notes *n = calloc(1, sizeof(*n));
	struct sl_planned *planned = NULL;

	(void)state;
	sweeps(n, 9, 1);
	assert_int_equal(make(n, 4, &planned), -ENOENT);
	assert_null(planned);
	note(n, 7);
	sweeps(n, 4, 1); /* the begin of a second one is not enough */
	assert_int_equal(make(n, 4, &planned), -ENOENT);
	free(n);
}

static void
period_begins_behind_the_last_launch(void **state)
{
	struct notes *n = calloc(1, sizeof(*n));
	struct sl_planned *planned;

	(void)state;
	note(n, 1);
	note_use(n, 1, 0, 3, SLUICE_USE_WRITE_ALL);
	sweeps(n, 6, 2);
	note(n, 100); /* one into the third: the period turns with it */
	note_use(n, 0, 0, 0, SLUICE_USE_READ);
	assert_int_equal(make(n, 4, &planned), 0);
	assert_int_equal(planned->period, 6);
	assert_int_equal(planned->n_ranges, 6);
	assert_int_equal(planned->n_regions, 1);
	assert_int_equal(planned->bytes, 6 * CHUNK);
	for (uint32_t k = 0; k < 6; k++) {
		assert_int_equal(planned->hashes[k], 100 + (k + 1) % 6);
		assert_int_equal(planned->at_first[k], k);
		assert_int_equal(planned->at[k].distance, 6);
		assert_int_equal(planned->ranges[planned->at[k].range].first, (k + 1) % 6);
		assert_int_equal(planned->ranges[planned->at[k].range].first_at, k);
	}
	sl_planned_destroy(planned);
	free(n);
}

static void
what_fits_asks_nobody(void **state)
{
	struct notes *n = calloc(1, sizeof(*n));
	struct sl_planned *planned;

	(void)state;
	sweeps(n, 5, 3);
	assert_int_equal(make(n, 5, &planned), 0);
	assert_true(planned->fits);
	sl_planned_destroy(planned);
	assert_int_equal(make(n, 4, &planned), 0);
	assert_false(planned->fits);
	sl_planned_destroy(planned);
	free(n);
}

/* Chunks 0-5 and 4-9 are used: 0-3, 4-5, 6-9 are ranges; a chunk used in part is one by itself. */
static void
ranges_are_what_launches_use_whole_or_not_at_all(void **state)
{
	static const uint64_t firsts[] = {0, 4, 5, 6}, lasts[] = {3, 4, 5, 9};
	struct notes *n = calloc(1, sizeof(*n));
	struct sl_planned *planned;
	uint64_t seen = 0;

	(void)state;
	for (int i = 0; i < 2; i++) {
		note(n, 1);
		note_use(n, 0, 0, 5, SLUICE_USE_WRITE_ALL)->last_partial = 1;
		note_use(n, 2, 0, 9, SLUICE_USE_READ)->pinned = 1;
		note(n, 2);
		note_use(n, 0, 4, 9, SLUICE_USE_READ);
	}
	assert_int_equal(make(n, 64, &planned), 0);
	assert_int_equal(planned->period, 2);
	assert_int_equal(planned->n_ranges, 4);
	assert_int_equal(planned->n_regions, 1);
	for (uint32_t i = 0; i < 4; i++) {
		const struct sl_plan_range *range = &planned->ranges[i];

		for (int k = 0; k < 4; k++)
			seen |= (uint64_t)(range->first == firsts[k] && range->last == lasts[k])
				<< k;
		assert_ptr_equal(range->region, &n->region[0]);
	}
	assert_int_equal(seen, 15);
	assert_int_equal(planned->at_first[1], 3); /* 0-3, 4, 5 */
	assert_int_equal(planned->at_first[2], 6); /* 4, 5, 6-9 */
	for (uint32_t i = 0; i < 6; i++) {
		const struct sl_plan_at *at = &planned->at[i];
		const struct sl_plan_range *range = &planned->ranges[at->range];

		assert_int_equal(at->distance,
				 range->first == 4 || range->first == 5 ? 1 : 2);
		/* What is written in part keeps the rest. */
		if (i < 3)
			assert_int_equal(at->intent, range->first == 5
							     ? SLUICE_USE_WRITE
							     : SLUICE_USE_WRITE_ALL);
	}
	sl_planned_destroy(planned);
	free(n);
}

static void
large_ranges_are_cut_so_that_parts_can_stay(void **state)
{
	struct notes *n = calloc(1, sizeof(*n));
	struct sl_planned *planned;
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
	sl_planned_destroy(planned);
	free(n);
}

/* Farthest next use on paper: N - B of N - 1 launches miss, lru misses all. */
static void
bytes_on_paper_are_those_of_the_closed_form(void **state)
{
	struct notes *n = calloc(1, sizeof(*n));
	struct sl_planned *planned;

	(void)state;
	sweeps(n, 13, 3);
	assert_int_equal(make(n, 7, &planned), 0);
	assert_false(planned->useless);
	assert_int_equal(planned->lru_bytes, 13 * CHUNK);
	assert_in_range(planned->plan_bytes, 13 * 6 * CHUNK / 12 - CHUNK / 2,
			13 * 6 * CHUNK / 12 + CHUNK / 2);
	sl_planned_destroy(planned);
	free(n);
}

/* There and back again, lru gives up just what is farthest away. */
static void
where_lru_is_as_good_there_is_no_plan(void **state)
{
	struct notes *n = calloc(1, sizeof(*n));
	struct sl_planned *planned;

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
	sl_planned_destroy(planned);
	free(n);
}

/* Written, used once more, discarded: to lose it then costs nothing; before, it costs both ways. */
static void
what_dies_is_the_first_to_go_and_what_is_clean_the_next(void **state)
{
	struct notes *n = calloc(1, sizeof(*n));
	struct sl_planned *planned;
	uint32_t dead = 0;

	(void)state;
	for (int i = 0; i < 3; i++) {
		for (uint64_t k = 0; k < 6; k++) {
			note(n, 100 + k);
			note_use(n, 0, k, k, SLUICE_USE_WRITE_ALL);
			note_use(n, 1, k, k, SLUICE_USE_READ);
		}
		for (uint64_t k = 0; k < 6; k++) {
			note(n, 200 + k);
			note_use(n, 0, k, k, SLUICE_USE_READ);
			note_use(n, 0, k, k, SLUICE_USE_COUNT)->dies = 1;
		}
	}
	assert_int_equal(make(n, 5, &planned), 0);
	assert_int_equal(planned->period, 12);
	for (uint32_t i = 0; i < planned->at_first[12]; i++) {
		const struct sl_plan_at *at = &planned->at[i];

		assert_int_equal(at->dies, i >= planned->at_first[6]);
		if (!at->dies)
			continue;
		dead++;
		assert_true(at->keep > at->distance + 12); /* as if it came no more */
	}
	assert_int_equal(dead, 6);
	sl_planned_destroy(planned);
	free(n);
}

/* More than the device holds has to come in each period; farthest next use, it is another part each time. */
static void
uses_that_may_miss_are_told(void **state)
{
	struct notes *n = calloc(1, sizeof(*n));
	struct sl_planned *planned;
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
		if (planned->ranges[planned->at[k].range].region == &n->region[1])
			assert_false(planned->at[k].misses); /* used by every other launch */
		else
			misses += planned->at[k].misses;
	}
	assert_in_range(misses, 12 - 5, 12);
	sl_planned_destroy(planned);
	free(n);
}

static void
same_notes_make_the_same_plan(void **state)
{
	struct notes *n = calloc(1, sizeof(*n));
	struct sl_planned *a, *b;

	(void)state;
	sweeps(n, 20, 3);
	assert_int_equal(make(n, 6, &a), 0);
	assert_int_equal(make(n, 6, &b), 0);
	assert_memory_equal(a->at, b->at, a->at_first[20] * sizeof(*a->at));
	sl_planned_destroy(a);
	sl_planned_destroy(b);
	free(n);
}

static void
launch_that_cannot_fit_is_left_to_lru(void **state)
{
	struct notes *n = calloc(1, sizeof(*n));
	struct sl_planned *planned;

	(void)state;
	for (int i = 0; i < 3; i++) {
		note(n, 1);
		note_use(n, 0, 0, 9, SLUICE_USE_READ);
		note(n, 2);
		note_use(n, 1, 0, 1, SLUICE_USE_READ_WRITE);
	}
	assert_int_equal(make(n, 4, &planned), 0); /* in the host tier, where the device can */
	assert_true(planned->useless);
	sl_planned_destroy(planned);
	free(n);
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
		cmocka_unit_test(what_dies_is_the_first_to_go_and_what_is_clean_the_next),
		cmocka_unit_test(uses_that_may_miss_are_told),
		cmocka_unit_test(same_notes_make_the_same_plan),
		cmocka_unit_test(launch_that_cannot_fit_is_left_to_lru),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
