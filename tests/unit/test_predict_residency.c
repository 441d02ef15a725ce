/* SPDX-License-Identifier: Apache-2.0 */
/* What stays from one use to the next, of made-up periods: the room is kept to, and as little as can be leaves. */
#include "predict/residency_plan.h"

#include "base/rng.h"
#include "unit/cmocka_all.h"

#include "predict/residency_plan.c" /* NOLINT(bugprone-suspicious-include) */

#define MIB      (UINT64_C(1) << 20)
#define USES_MAX 4096u

struct period {
	struct sl_residency_use uses[USES_MAX];
	size_t n;
	uint32_t scopes;
	const uint64_t *alive; /* by scope; NULL: less than the blocks, which says nothing */
	uint32_t first[USES_MAX], last[USES_MAX]; /* by block: number of its use, + 1 */
};

static void
use(struct period *p, uint32_t block, uint64_t mib)
{
	p->uses[p->n] = (struct sl_residency_use){.group = block,
						  .bytes = mib * MIB,
						  .scope = p->scopes,
						  .next = SL_NEVER_USED};
	if (p->last[block])
		p->uses[p->last[block] - 1].next = (uint32_t)p->n;
	else
		p->first[block] = (uint32_t)p->n + 1;
	p->last[block] = (uint32_t)++p->n;
}

/* The block is used in the next period, too. */
static void
outlives(struct period *p, uint32_t block)
{
	p->uses[p->last[block] - 1].next = p->first[block] - 1;
}

/* Blocks one after the other, again and again. */
static void
loop_of(struct period *p, uint32_t blocks, uint64_t mib)
{
	for (uint32_t i = 0; i < blocks; i++, p->scopes++)
		use(p, i, mib);
	for (uint32_t i = 0; i < blocks; i++)
		outlives(p, i);
}

static void
plan(struct period *p, uint64_t room_mib, uint64_t window_mib)
{
	static const uint64_t nothing[USES_MAX];

	assert_int_equal(sl_residency_plan(p->uses, p->n, p->scopes,
					   p->alive ? p->alive : nothing, room_mib * MIB,
					   window_mib * MIB, 32 * MIB),
			 0);
}

/* MiB that leave in a period. */
static uint64_t
leave(const struct period *p)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < p->n; i++) {
		assert_true(p->uses[i].stays <= p->uses[i].bytes);
		bytes += p->uses[i].bytes - p->uses[i].stays;
	}
	return bytes / MIB;
}

/* The most MiB that are there at once, everything being asked for one scope ahead. */
static uint64_t
most(const struct period *p)
{
	uint64_t largest = 0;

	for (uint32_t scope = 0; scope < p->scopes; scope++) {
		uint64_t bytes = 0;

		for (size_t i = 0; i < p->n; i++) {
			const struct sl_residency_use *u = &p->uses[i];
			uint32_t away = (scope + p->scopes - u->scope) % p->scopes, gap;

			if (u->scope == scope)
				bytes += u->bytes;
			if (u->next == SL_NEVER_USED || !away)
				continue;
			gap = (p->uses[u->next].scope + p->scopes - u->scope) % p->scopes;
			if (!gap && u->next <= i)
				gap = p->scopes;
			if (away < gap)
				bytes += away + 1 == gap ? u->bytes : u->stays;
		}
		largest = bytes > largest ? bytes : largest;
	}
	return largest / MIB;
}

static void
what_fits_stays(void **state)
{
	struct period p = {0};

	(void)state;
	loop_of(&p, 10, 100);
	plan(&p, 1000, 100);
	assert_int_equal(leave(&p), 0);
}

/* Every other block has small pieces, each of which costs mappings. All intervals are of one length. */
static void
small_pieces_stay_rather_than_large_ones(void **state)
{
	struct period p = {0};

	(void)state;
	loop_of(&p, 20, 128);
	for (size_t i = 0; i < p.n; i++)
		p.uses[i].piece = i % 2 ? 32 * MIB : 2 * MIB;
	plan(&p, 1600, 128);
	assert_true(leave(&p) > 0);
	for (size_t i = 0; i < p.n; i += 2)
		assert_int_equal(p.uses[i].stays, p.uses[i].bytes);
}

/* What is alive beside the blocks takes room as far as it varies: the rest may never have been on the device. */
static void
what_is_alive_beside_the_blocks_takes_room(void **state)
{
	uint64_t alive[10];
	struct period p = {.alive = alive};

	(void)state;
	loop_of(&p, 10, 100);
	for (unsigned i = 0; i < 10; i++)
		alive[i] = 1500 * MIB;
	plan(&p, 1000, 0);
	assert_int_equal(leave(&p), 0);
	alive[5] += 200 * MIB;
	plan(&p, 1000, 0);
	assert_in_range(leave(&p), 200, 300);
	assert_int_equal(p.uses[4].stays, 100 * MIB); /* it is the next one */
	for (unsigned i = 0; i < 10; i++)
		alive[i] = 100 * MIB; /* less than the blocks: that says nothing */
	plan(&p, 1000, 0);
	assert_int_equal(leave(&p), 0);
	/* A pool: what its tensors leave is alive all the time. */
	p = (struct period){.alive = alive};
	for (uint32_t i = 0; i < 10; i++, p.scopes++) {
		use(&p, i, 100);
		if (i == 4)
			use(&p, 10, 200);
		alive[i] = 2000 * MIB;
	}
	for (uint32_t i = 0; i < 10; i++)
		outlives(&p, i);
	plan(&p, 1100, 0);
	assert_int_equal(leave(&p), 100);
}

/* Weights in the order of layers, again and again: LRU would keep none. */
static void
of_a_loop_a_part_stays(void **state)
{
	struct period p = {0}, again;
	uint64_t behind = 0, longest = 0;

	(void)state;
	loop_of(&p, 100, 64);
	again = p;
	plan(&p, 3200, 640);
	assert_in_range(leave(&p), 6400 - 3200, 6400 - 3200 + 640 + 2 * 64);
	assert_in_range(most(&p), 3200 - 640 - 2 * 64, 3200);
	/* From all over: the link is not idle for long. */
	for (uint32_t i = 0; i < 200; i++) {
		behind = p.uses[i % 100].stays == 64 * MIB ? behind + 1 : 0;
		longest = behind > longest ? behind : longest;
	}
	assert_in_range(longest, 1, 20);
	/* The same ones each time. */
	plan(&again, 3200, 640);
	assert_memory_equal(&p, &again, sizeof(p));
}

/* Forward and back: what is used last comes first again, and stays. */
static void
short_intervals_stay(void **state)
{
	struct period p = {0};

	(void)state;
	for (uint32_t i = 0; i < 50; i++, p.scopes++)
		use(&p, i, 32);
	for (uint32_t i = 50; i-- > 0; p.scopes++)
		use(&p, i, 32);
	plan(&p, 800, 64);
	for (uint32_t i = 0; i < 50; i++)
		assert_int_equal(p.uses[i].stays,
				 i < 50 - 800 / 32 + 4 ? p.uses[i].stays : 32 * MIB);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(p.uses[i].stays, 0);
	for (uint32_t i = 50; i < 100; i++) /* never used again: nothing leaves */
		assert_int_equal(p.uses[i].stays, 32 * MIB);
	assert_in_range(leave(&p), 1600 - 800, 1600 - 800 + 4 * 32);
}

/* A few large arrays: one of them in part. */
static void
a_part_of_a_block_stays(void **state)
{
	struct period p = {0};
	unsigned parts = 0;

	(void)state;
	loop_of(&p, 4, 512);
	plan(&p, 1024 + 300, 0);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(p.uses[i].stays % (32 * MIB), 0);
		parts += p.uses[i].stays > 0 && p.uses[i].stays < p.uses[i].bytes;
	}
	assert_true(parts >= 1);
	assert_in_range(most(&p), 1024, 1324);
	assert_true(leave(&p) < 2048);
}

/* What each scope uses is more than there is room for: nothing stays but what the next one uses. */
static void
without_room_only_what_comes_next_stays(void **state)
{
	struct period p = {0};

	(void)state;
	for (uint32_t i = 0; i < 20; i++, p.scopes++) {
		use(&p, 0, 1000);
		use(&p, 1 + i, 1000);
	}
	for (uint32_t i = 0; i < 21; i++)
		outlives(&p, i);
	plan(&p, 500, 100);
	assert_int_equal(leave(&p), 20 * 1000);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(p.uses[2 * i].stays, 1000 * MIB);
}

static void
small_periods_are_periods(void **state)
{
	struct period p = {.scopes = 0};

	(void)state;
	/* One scope that uses a block twice. */
	use(&p, 0, 10);
	use(&p, 0, 10);
	p.scopes = 1;
	outlives(&p, 0);
	plan(&p, 5, 5);
	assert_int_equal(leave(&p), 0);
	/* Nothing used at all. */
	p = (struct period){.scopes = 3};
	plan(&p, 5, 5);
}

/* Any uses: where what is used and asked for leaves room, the room is kept to. */
static void
the_room_is_kept_to(void **state)
{
	static struct period p;
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, 11);
	for (unsigned round = 0; round < 300; round++) {
		uint32_t blocks = 2 + (uint32_t)sl_rng_below(&rng, 60);
		uint32_t scopes = 1 + (uint32_t)sl_rng_below(&rng, 200);
		uint64_t none, room = 32 * (1 + sl_rng_below(&rng, 64));

		memset(&p, 0, sizeof(p));
		for (; p.scopes < scopes; p.scopes++)
			for (uint64_t k = sl_rng_below(&rng, 4); k-- > 0;)
				use(&p, (uint32_t)sl_rng_below(&rng, blocks),
				    32 * (1 + sl_rng_below(&rng, 8)));
		for (uint32_t i = 0; i < blocks; i++)
			if (p.last[i] && sl_rng_below(&rng, 2))
				outlives(&p, i);
		plan(&p, 0, 0);
		none = most(&p);
		plan(&p, room, 0);
		assert_true(most(&p) <= (room > none ? room : none));
		plan(&p, UINT32_MAX, 0);
		assert_int_equal(leave(&p), 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fits_stays),
		cmocka_unit_test(small_pieces_stay_rather_than_large_ones),
		cmocka_unit_test(what_is_alive_beside_the_blocks_takes_room),
		cmocka_unit_test(of_a_loop_a_part_stays),
		cmocka_unit_test(short_intervals_stay),
		cmocka_unit_test(a_part_of_a_block_stays),
		cmocka_unit_test(without_room_only_what_comes_next_stays),
		cmocka_unit_test(small_periods_are_periods),
		cmocka_unit_test(the_room_is_kept_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
