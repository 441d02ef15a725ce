/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the parts of launches are made longer, from times alone: slow ones that a longer part helps,
 * slow ones that it does not help, fast ones, parts that would take too much of the device, works
 * that become slow later, and more works than are known.
 */
#include "preload/alloc/block.h"
#include "unit/cmocka_all.h"

/* Not in the library that unit tests are linked with. */
#include "preload/args/part_growth.c" /* NOLINT(bugprone-suspicious-include) */

#define MIB    (UINT64_C(1) << 20)
#define BUDGET (1024 * MIB)
#define SLOW   (10 * SLOW_NS)

_Atomic uint64_t pl_counters[PL_COUNT_COUNT];

static struct pl_block block = {.base = 4096 * MIB, .bytes = 2048 * MIB};

static struct pl_use
part(uint64_t bytes)
{
	return (struct pl_use){.block = &block,
			       .addr = block.base + 64 * MIB,
			       .bytes = bytes,
			       .open = 1};
}

static uint64_t there_by_chance; /* parts in a hundred of what is asked for */

static uint64_t
resident(const struct pl_use *use, uint64_t from, uint64_t to)
{
	assert_ptr_equal(use->block, &block);
	assert_true(from < to);
	return (to - from) / 100 * there_by_chance;
}

/* A launch that takes ns. Returns the bytes of its part. */
static uint64_t
launch(uint64_t what, uint64_t bytes, uint64_t ns)
{
	struct pl_use use = part(bytes);
	struct pl_growth growth;

	pl_growth_begin(what, 0, &use, 1, BUDGET, resident, &growth);
	pl_growth_took(&growth, ns);
	return pl_growth_bytes(&growth, &use);
}

/* A kernel that uses so many bytes: what the part lacks comes over the link. */
static uint64_t
kernel(uint64_t what, uint64_t bytes, uint64_t used)
{
	struct pl_use use = part(bytes);
	struct pl_growth growth;
	uint64_t there, missing;

	pl_growth_begin(what, 0, &use, 1, BUDGET, resident, &growth);
	there = pl_growth_bytes(&growth, &use);
	missing = used > there ? used - there : 0;
	pl_growth_took(&growth, 1000 + missing / LINK_BYTES_NS);
	return there;
}

static void
a_short_part_grows_until_it_suffices(void **state)
{
	uint64_t there = 0, grown = pl_counters[PL_COUNT_parts_grown];

	(void)state;
	for (int i = 0; i < 20; i++)
		there = kernel(101, 2 * MIB, 100 * MIB);
	assert_int_equal(there, 128 * MIB);
	assert_int_equal(pl_counters[PL_COUNT_parts_grown] - grown, 1);
	/* The end of its part becomes known: it is taken then. */
	for (int i = 0; i < 20; i++)
		there = kernel(101, 100 * MIB, 100 * MIB);
	assert_int_equal(there, 100 * MIB);
	/* A part without an end. */
	for (int i = 0; i < 20; i++)
		there = kernel(102, 0, 30 * MIB);
	assert_int_equal(there, 32 * MIB);
}

/* It was slow while the end of its part was not known: that it is fast now does not speak for a longer one. */
static void
a_part_whose_end_becomes_known_does_not_grow(void **state)
{
	uint64_t there, grown = pl_counters[PL_COUNT_parts_grown];

	(void)state;
	launch(111, 2 * MIB, SLOW);
	for (int i = 0; i < 2; i++)
		assert_int_equal(launch(111, 2 * MIB, SLOW), 2 * MIB);
	there = launch(111, 4 * MIB, 1000);
	assert_true(there > 4 * MIB); /* a trial, which says nothing */
	for (int i = 0; i < 4; i++)
		assert_int_equal(launch(111, 4 * MIB, 1000), 4 * MIB);
	assert_int_equal(pl_counters[PL_COUNT_parts_grown], grown);
}

/* What is beyond the lower level's parts is on the device: that would be as fast for now. */
static void
nothing_shrinks_by_chance(void **state)
{
	uint64_t there = 0;

	(void)state;
	there_by_chance = 30;
	for (int i = 0; i < 20; i++)
		there = kernel(121, 2 * MIB, 100 * MIB);
	for (int i = 0; i < 200; i++)
		there = launch(121, 2 * MIB, 1000);
	assert_int_equal(there, 128 * MIB);
	there_by_chance = 20;
	for (int i = 0; i < 200; i++)
		there = launch(121, 2 * MIB, 1000);
	assert_int_equal(there, 2 * MIB);
	there_by_chance = 0;
}

/* A kernel that reads what is missing sixteen times over. */
static void
a_part_that_was_made_too_long_shrinks(void **state)
{
	uint64_t there = 0, most = 0;

	(void)state;
	for (int i = 0; i < 20; i++) {
		struct pl_use use = part(2 * MIB);
		struct pl_growth growth;

		pl_growth_begin(111, 0, &use, 1, BUDGET, resident, &growth);
		there = pl_growth_bytes(&growth, &use);
		pl_growth_took(&growth, there < 30 * MIB ? 16 * (30 * MIB - there) / LINK_BYTES_NS
							 : 1000);
		most = there > most ? there : most;
	}
	assert_int_equal(most, 512 * MIB);
	assert_int_equal(there, 32 * MIB);
}

/* A launch whose part is to stay where it is. 1: it does. Of bytes so many cross the link. */
static int
left(uint64_t what, uint64_t bytes, uint64_t crossing)
{
	struct pl_use use = part(bytes);
	struct pl_growth growth;
	int leaves;

	pl_growth_begin(what, 0, &use, 1, BUDGET, resident, &growth);
	leaves = pl_growth_leave(what, 0, &use, 1, resident, &growth);
	if (leaves)
		assert_int_equal(pl_growth_bytes(&growth, &use), bytes);
	pl_growth_took(&growth, leaves ? crossing / LINK_BYTES_NS : 1000);
	return leaves;
}

static void
parts_that_are_read_several_times_do_not_stay(void **state)
{
	unsigned stayed = 0, less = 0;

	(void)state;
	/* What it takes on the device is not known. */
	for (int i = 0; i < 100; i++)
		stayed += (unsigned)left(130, 100 * MIB, 500 * MIB);
	assert_int_equal(stayed, 100);
	for (uint64_t what = 131; what < 134; what++)
		for (int i = 0; i < 2; i++)
			(void)launch(what, 100 * MIB, 500000);
	/* Once, over a slow link. */
	stayed = 0;
	for (int i = 0; i < 200; i++)
		stayed += (unsigned)left(131, 100 * MIB, 250 * MIB);
	assert_int_equal(stayed, 200);
	/* Five times: the first two tell, and launches 8, 16, 32, 64 and 128 stay. */
	stayed = 0;
	for (int i = 0; i < 200; i++)
		stayed += (unsigned)left(132, 100 * MIB, 500 * MIB);
	assert_int_equal(stayed, 7);
	/* That was something else's fault. */
	for (int i = 0; i < 100; i++)
		less += (unsigned)left(132, 100 * MIB, 100 * MIB);
	assert_int_equal(less, 47);
	/* Nearly all of it is on the device. */
	there_by_chance = 80;
	stayed = 0;
	for (int i = 0; i < 200; i++)
		stayed += (unsigned)left(133, 100 * MIB, 500 * MIB);
	assert_int_equal(stayed, 200);
	there_by_chance = 0;
}

/* Launches that are called before any of them is over. */
struct ahead {
	unsigned stayed, timed;
	struct pl_growth asked; /* the last of them whose time is wanted */
};

static struct ahead
call_ahead(uint64_t what, int n)
{
	struct pl_use use = part(100 * MIB);
	struct ahead ahead = {0};

	for (int i = 0; i < n; i++) {
		struct pl_growth growth;

		pl_growth_begin(what, 0, &use, 1, BUDGET, resident, &growth);
		if (!pl_growth_leave(what, 0, &use, 1, resident, &growth))
			continue;
		ahead.stayed++;
		ahead.timed += growth.key != 0;
		if (growth.key)
			ahead.asked = growth;
	}
	return ahead;
}

static void
one_launch_is_asked_at_a_time(void **state)
{
	struct ahead ahead;

	(void)state;
	for (int i = 0; i < 2; i++)
		(void)launch(141, 100 * MIB, 500000);
	ahead = call_ahead(141, 200);
	/* The first, and launches 4, 8, 16, 32, 64 and 128. */
	assert_int_equal(ahead.stayed, 7);
	assert_int_equal(ahead.timed, 7);
	/* Its time gets lost: the next one is asked. It reads once, and all may stay. */
	pl_growth_took(&ahead.asked, 0);
	assert_int_equal(left(141, 100 * MIB, 100 * MIB), 1);
	assert_int_equal(call_ahead(141, 100).stayed, 100);
	/* One of sixteen is timed. It is slow, which may be another one's fault: all may stay still. */
	for (int i = 0; i < 16; i++)
		assert_int_equal(left(141, 100 * MIB, 500 * MIB), 1);
	assert_int_equal(call_ahead(141, 14).stayed, 14);
}

static void
one_trial_in_vain(void **state)
{
	unsigned tried = 0;

	(void)state;
	for (int i = 0; i < 1000; i++)
		tried += launch(201, 2 * MIB, SLOW) > 2 * MIB;
	assert_int_equal(tried, 1);
}

static void
fast_launches_are_left_alone(void **state)
{
	(void)state;
	for (int i = 0; i < 100; i++) {
		assert_int_equal(launch(301, 2 * MIB, SLOW_NS - 1), 2 * MIB);
		/* Slow for its bytes only if the link could have moved much of them. */
		assert_int_equal(launch(302, 100 * MIB, 100 * MIB / LINK_BYTES_NS / 5),
				 100 * MIB);
	}
}

static void
parts_take_no_more_than_half(void **state)
{
	uint64_t there = 0;

	(void)state;
	for (int i = 0; i < 20; i++)
		there = kernel(401, 100 * MIB, 900 * MIB);
	assert_int_equal(there, 512 * MIB); /* half of the budget */
	for (int i = 0; i < 20; i++) {
		struct pl_use uses[2] = {part(200 * MIB), part(200 * MIB)};
		struct pl_growth growth;

		uses[1].addr += 600 * MIB;
		pl_growth_begin(402, 0, uses, 2, BUDGET, resident, &growth);
		pl_growth_took(&growth, SLOW);
		assert_int_equal(pl_growth_bytes(&growth, &uses[0]), 200 * MIB);
	}
}

static void
what_becomes_slow_is_tried_again(void **state)
{
	uint64_t there = 0;

	(void)state;
	for (int i = 0; i < 40; i++)
		there = kernel(501, 8 * MIB, 8 * MIB);
	assert_int_equal(there, 8 * MIB);
	for (int i = 0; i < 100; i++)
		there = kernel(501, 8 * MIB, 30 * MIB);
	assert_int_equal(there, 32 * MIB);
}

static void
times_come_late(void **state)
{
	struct pl_use use = part(2 * MIB);
	struct pl_growth growth[8];
	uint64_t there = 0;

	(void)state;
	for (int round = 0; round < 6; round++) {
		for (int i = 0; i < 8; i++)
			pl_growth_begin(601, 0, &use, 1, BUDGET, resident, &growth[i]);
		for (int i = 0; i < 8; i++) {
			there = pl_growth_bytes(&growth[i], &use);
			pl_growth_took(&growth[i], there < 32 * MIB ? SLOW : 1000);
		}
	}
	assert_int_equal(there, 32 * MIB);
}

static void
more_works_than_are_known(void **state)
{
	(void)state;
	for (uint64_t what = 1; what < 5 * (uint64_t)WORKS; what++)
		assert_in_range(launch(what << 20, 2 * MIB, SLOW), 2 * MIB, 512 * MIB);
}

static void
uses_of_whole_blocks_have_no_time(void **state)
{
	struct pl_use use = part(2 * MIB);
	struct pl_growth growth;

	(void)state;
	use.open = 0;
	for (int i = 0; i < 10; i++) {
		pl_growth_begin(701, 0, &use, 1, BUDGET, resident, &growth);
		assert_int_equal(growth.key, 0);
		assert_int_equal(pl_growth_bytes(&growth, &use), 2 * MIB);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_short_part_grows_until_it_suffices),
		cmocka_unit_test(a_part_whose_end_becomes_known_does_not_grow),
		cmocka_unit_test(nothing_shrinks_by_chance),
		cmocka_unit_test(a_part_that_was_made_too_long_shrinks),
		cmocka_unit_test(parts_that_are_read_several_times_do_not_stay),
		cmocka_unit_test(one_trial_in_vain),
		cmocka_unit_test(one_launch_is_asked_at_a_time),
		cmocka_unit_test(fast_launches_are_left_alone),
		cmocka_unit_test(parts_take_no_more_than_half),
		cmocka_unit_test(what_becomes_slow_is_tried_again),
		cmocka_unit_test(times_come_late),
		cmocka_unit_test(more_works_than_are_known),
		cmocka_unit_test(uses_of_whole_blocks_have_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
