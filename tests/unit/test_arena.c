/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of the preload library: which addresses an allocation gets, what is resident, pressure
 * and limits. Who may use room again, and when, is in test_reuse.c; everything at once against a model in
 * test_arena_model.c.
 */
#include "unit/fake_arena.h"

/* ---- places ---- */

static void
blocks_lie_side_by_side(void **state)
{
	struct pl_block *a = get(1), *b = get(512), *c = get(513), *d = get(20 * MIB),
			*e = get(20 * MIB), *f = get(3 * MIB);

	(void)state;
	assert_int_equal(b->base, a->base + 512);
	assert_int_equal(c->base, b->base + 512);
	assert_int_equal(c->room, 1024);
	assert_int_equal(a->base % (2 * MIB), 0);
	assert_int_equal(d->room, 20 * MIB);
	assert_int_equal(e->base, d->base + 20 * MIB);
	assert_int_equal(f->base, e->base + 20 * MIB);
	assert_int_equal(fake.gpu.allocated_bytes, 2048 + 44 * MIB);
	check();
	put(a), put(b), put(c), put(d), put(e), put(f);
	check();
	assert_int_equal(fake.gpu.allocated_bytes, 0);
}

/* Chunks are of 16 MiB. */
static void
a_chunk_is_discarded_with_the_last_that_lay_in_it(void **state)
{
	struct pl_block *a, *b, *c;
	uint64_t base;

	(void)state;
	pl_gpu_press(&fake.gpu, PL_OVERSUBSCRIBED);
	a = get(20 * MIB), b = get(20 * MIB), c = get(20 * MIB);
	base = a->base;
	put(a);
	assert_int_equal(fake.discarded_bytes, 16 * MIB);
	put(c);
	assert_int_equal(fake.discarded_bytes, 16 * MIB + 16 * MIB);
	a = get(20 * MIB);
	assert_int_equal(a->base, base);
	put(b); /* of its first chunk a has a part, of its second nobody */
	assert_int_equal(fake.discarded_bytes, 32 * MIB + 16 * MIB);
	put(a);
	assert_int_equal(fake.discarded_bytes, 48 * MIB + 32 * MIB);
	check();
}

static void
small_block_lies_in_one_chunk(void **state)
{
	struct pl_block *blocks[12];

	(void)state;
	for (int i = 0; i < 12; i++) {
		blocks[i] = get(700 << 10);
		assert_int_equal(blocks[i]->base / (2 * MIB),
				 (blocks[i]->base + blocks[i]->bytes) / (2 * MIB));
	}
	check();
	for (int i = 0; i < 12; i++)
		put(blocks[i]);
	check();
}

static void
sizes_at_the_borders_have_their_room(void **state)
{
	static const uint64_t sizes[] = {
		1,         511,         512,          513,      MIB - 513,
		MIB - 512, MIB - 511,   MIB - 1,      MIB,      MIB + 1,
		2 * MIB,   2 * MIB + 1, 16 * MIB - 1, 16 * MIB, 16 * MIB + 1,
		17 * GIB};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct pl_block *block = get(sizes[i]);

		assert_int_equal(block->bytes, sizes[i]);
		assert_true(block->room >= sizes[i]);
		assert_int_equal(block->base % 512, 0);
		assert_ptr_equal(pl_block_find(block->base + sizes[i] - 1), block);
		assert_null(pl_block_find(block->base + sizes[i]));
		check();
		put(block);
		assert_null(pl_block_find(block->base));
		check();
	}
}

static void
freed_room_fits_again_exactly(void **state)
{
	struct pl_block *a = get(5000), *b = get(3000), *c = get(5000), *d;
	uint64_t at = b->base;

	(void)state;
	put(b);
	d = get(3000);
	assert_int_equal(d->base, at);
	put(a), put(c), put(d);
	/* All joined again: a chunk less its last unit, and the others. */
	a = get(MIB - 512);
	b = get(MIB - 512);
	assert_int_equal(a->base / (2 * MIB), b->base / (2 * MIB));
	put(a), put(b);
	check();
}

/* A program that repeats: some blocks stay, the others come and go the same way each time. */
static void
iteration(uint64_t seed, uint64_t *addresses, size_t n)
{
	struct pl_block *live[64] = {NULL};
	struct sl_rng rng;

	sl_rng_init(&rng, seed);
	for (size_t i = 0; i < n; i++) {
		size_t k = sl_rng_below(&rng, 64);
		uint64_t bytes = 1 +
				 sl_rng_below(&rng,
					      (uint64_t)1 << (6 + sl_rng_below(&rng, 22)));

		if (live[k])
			put(live[k]);
		live[k] = get(bytes);
		addresses[i] = live[k]->base;
	}
	for (size_t k = 0; k < 64; k++)
		if (live[k])
			put(live[k]);
}

static void
program_that_repeats_gets_the_same_addresses(void **state)
{
	static uint64_t first[4000], again[4000];
	struct pl_block *stays[20];

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		stays[i] = get((i * 977 + 1) << (i % 14));
	/* The first time round finds addresses that were never used, and leaves gaps between them. */
	iteration(5, first, 4000);
	iteration(5, first, 4000);
	for (unsigned n = 0; n < 3; n++) {
		iteration(5, again, 4000);
		assert_memory_equal(first, again, sizeof(first));
	}
	for (unsigned i = 0; i < 20; i++)
		put(stays[i]);
	check();
}

static void
same_calls_from_the_start_get_the_same_addresses(void **state)
{
	static uint64_t first[3000], again[3000];
	uint64_t from = fake.next_region;

	(void)state;
	iteration(9, first, 3000);
	pl_arena_destroy(&fake.gpu);
	fake.next_region = from;
	iteration(9, again, 3000);
	assert_memory_equal(first, again, sizeof(first));
}

/* ---- residency and pressure ---- */

static void
memory_is_made_resident_once(void **state)
{
	struct pl_block *a = get(40 * MIB);

	(void)state;
	assert_int_equal(fake.n_populates, 1);
	assert_int_equal(fake.populated_bytes, 48 * MIB);
	for (int i = 0; i < 5; i++) {
		put(a);
		a = get(40 * MIB);
	}
	assert_int_equal(fake.n_populates, 1);
	put(a);
	for (int i = 0; i < 5; i++) {
		a = get(100);
		put(a);
	}
	assert_int_equal(fake.n_populates, 2);
	assert_int_equal(fake.n_discards, 0);
}

static void
pressure_rises_with_what_is_held(void **state)
{
	struct pl_block *a, *b, *c, *d;

	(void)state;
	fake.gpu.device_budget = 256 * MIB;
	a = get(128 * MIB);
	assert_int_equal(fake.gpu.pressure, PL_FITS);
	b = get(1);
	assert_int_equal(fake.gpu.pressure, PL_TRACKING);
	put(a);
	a = get(128 * MIB);
	c = get(112 * MIB);
	assert_int_equal(fake.gpu.pressure, PL_TRACKING);
	assert_int_equal(fake.n_discards, 0);
	put(a);
	d = get(160 * MIB); /* the 128 are resident, but too few */
	assert_int_equal(fake.gpu.pressure, PL_OVERSUBSCRIBED);
	assert_int_equal(fake.n_discards, 1); /* these */
	put(b), put(c), put(d);
	check();
}

static void
nothing_is_populated_or_kept_under_pressure(void **state)
{
	struct pl_block *a = get(200 * MIB), *b = get(100), *c;
	unsigned populates, discards;

	(void)state;
	put(b); /* its chunk is wholly free */
	pl_gpu_press(&fake.gpu, PL_OVERSUBSCRIBED);
	assert_int_equal(fake.n_discards, 1);
	populates = fake.n_populates;
	discards = fake.n_discards;
	put(a);
	assert_int_equal(fake.n_discards, discards + 1);
	assert_int_equal(fake.discarded_bytes, 2 * MIB + 208 * MIB);
	a = get(200 * MIB);
	b = get(100);
	c = get(100);
	put(b);
	assert_int_equal(fake.n_discards, discards + 1);
	put(c); /* the last of its chunk */
	assert_int_equal(fake.n_discards, discards + 2);
	assert_int_equal(fake.n_populates, populates);
	put(a);
	check();
}

static void
device_that_is_fuller_than_thought_is_pressure(void **state)
{
	struct pl_block *a;

	(void)state;
	fake.populate_rc = -ENOBUFS;
	a = get(100);
	assert_int_equal(fake.gpu.pressure, PL_OVERSUBSCRIBED);
	put(a);
	check();
}

static void
lost_device_fails_the_allocation_and_leaves_nothing(void **state)
{
	struct pl_block *block = NULL;

	(void)state;
	fake.populate_rc = -EFAULT;
	assert_int_equal(pl_arena_alloc(&fake.gpu, 4096, PL_BORN_ALLOC, NULL, PL_LEGACY,
					&block),
			 -EFAULT);
	assert_null(block);
	assert_int_equal(fake.gpu.allocated_bytes, 0);
	check();
}

static void
pinned_block_is_unpinned_when_it_is_freed(void **state)
{
	struct pl_block *a = get(4096);

	(void)state;
	atomic_fetch_or(&a->flags, PL_BLOCK_PINNED);
	put(a);
	assert_int_equal(fake.n_unpins, 1);
}

static void
addresses_kept_in_a_block_are_forgotten_when_it_is_freed(void **state)
{
	struct pl_block *small = get(4096), *large = get(20 * MIB);

	(void)state;
	assert_int_equal(fake.n_forgets, 0);
	put(small);
	assert_int_equal(fake.n_forgets, 1);
	put_async(large, 0);
	assert_int_equal(fake.n_forgets, 2);
}

/* ---- limits ---- */

static void
beyond_all_budgets_is_refused_and_said_once(void **state)
{
	struct pl_block *block = NULL, *a;

	(void)state;
	fake.gpu.device_budget = fake.gpu.host_budget = 64 * MIB;
	a = get(100 * MIB);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pl_arena_alloc(&fake.gpu, 64 * MIB, PL_BORN_ALLOC, NULL,
						PL_LEGACY, &block),
				 -ENOMEM);
	assert_int_equal(pl_arena_alloc(&fake.gpu, SIZE_MAX, PL_BORN_ALLOC, NULL,
					PL_LEGACY, &block),
			 -ENOMEM);
	assert_int_equal(pl_arena_alloc(&fake.gpu, SIZE_MAX / 2, PL_BORN_ALLOC, NULL,
					PL_LEGACY, &block),
			 -ENOMEM);
	assert_null(block);
	assert_int_equal(fake.n_errors, 1);
	assert_int_equal(fake.gpu.allocated_bytes, 100 * MIB);
	put(a);
	a = get(128 * MIB);
	put(a);
	check();
}

static void
no_bytes_are_no_block(void **state)
{
	struct pl_block *block = NULL;

	(void)state;
	assert_int_equal(pl_arena_alloc(&fake.gpu, 0, PL_BORN_ALLOC, NULL, PL_LEGACY, &block),
			 -EINVAL);
	assert_null(block);
}

static void
without_addresses_areas_are_smaller_and_then_owed_room_is_waited_for(void **state)
{
	struct pl_block *a, *b, *none = NULL;
	uint64_t at;

	(void)state;
	fake.region_limit = 100 * MIB;
	fake.n_streams = 2;
	a = get(80 * MIB);
	at = a->base;
	fake.issued[1] = 10;
	put(a);
	assert_int_equal(fake.n_waits, 0);
	b = get(80 * MIB);
	assert_int_equal(fake.n_waits, 1);
	assert_int_equal(fake.done[1], 10);
	assert_int_equal(b->base, at);
	assert_int_equal(pl_arena_alloc(&fake.gpu, 80 * MIB, PL_BORN_ALLOC, NULL,
					PL_LEGACY, &none),
			 -EFBIG);
	assert_null(none);
	assert_int_equal(fake.gpu.allocated_bytes, 80 * MIB);
	put(b);
	check();
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(blocks_lie_side_by_side),
		TEST(a_chunk_is_discarded_with_the_last_that_lay_in_it),
		TEST(small_block_lies_in_one_chunk),
		TEST(sizes_at_the_borders_have_their_room),
		TEST(freed_room_fits_again_exactly),
		TEST(program_that_repeats_gets_the_same_addresses),
		TEST(same_calls_from_the_start_get_the_same_addresses),
		TEST(memory_is_made_resident_once),
		TEST(pressure_rises_with_what_is_held),
		TEST(nothing_is_populated_or_kept_under_pressure),
		TEST(device_that_is_fuller_than_thought_is_pressure),
		TEST(lost_device_fails_the_allocation_and_leaves_nothing),
		TEST(pinned_block_is_unpinned_when_it_is_freed),
		TEST(addresses_kept_in_a_block_are_forgotten_when_it_is_freed),
		TEST(beyond_all_budgets_is_refused_and_said_once),
		TEST(no_bytes_are_no_block),
		TEST(without_addresses_areas_are_smaller_and_then_owed_room_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
