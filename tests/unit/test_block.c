/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding an allocation by an address: against an array of them, while others come and go, and with many.
 */
#include "preload/alloc/block_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/rng.h"
#include "unit/cmocka_all.h"

/* Not in the library that unit tests are linked with. */
#include "preload/alloc/block.c" /* NOLINT(bugprone-suspicious-include) */

#define BASE ((uint64_t)0x200000000000)
#define MIB  ((uint64_t)1 << 20)

static struct pl_record_pool pool;

static struct pl_record *
publish(uint64_t base, uint64_t bytes, int packed)
{
	struct pl_record *record = pl_record_get(&pool);

	assert_non_null(record);
	record->block.room = bytes;
	assert_int_equal(pl_block_publish(record, base, bytes, packed), 0);
	return record;
}

static void
retract(struct pl_record *record, int packed)
{
	pl_block_retract(record, packed);
	pl_record_put(&pool, record);
}

static void
addresses_of_a_block_find_it_and_its_neighbours_do_not(void **state)
{
	struct pl_record *small = publish(BASE + 1024, 700, 1);
	struct pl_record *big = publish(BASE + 8 * MIB, 5 * MIB + 3, 0);

	(void)state;
	assert_ptr_equal(pl_block_find(BASE + 1024), &small->block);
	assert_ptr_equal(pl_block_find(BASE + 1024 + 699), &small->block);
	assert_null(pl_block_find(BASE + 1024 + 700));
	assert_null(pl_block_find(BASE + 1023));
	assert_null(pl_block_find(BASE + 8 * MIB - 1));
	assert_ptr_equal(pl_block_find(BASE + 8 * MIB), &big->block);
	assert_ptr_equal(pl_block_find(BASE + 13 * MIB + 2), &big->block);
	assert_null(pl_block_find(BASE + 13 * MIB + 3));
	assert_null(pl_block_find(0));
	assert_null(pl_block_find(UINT64_MAX));
	retract(small, 1);
	retract(big, 0);
	assert_null(pl_block_find(BASE + 1024));
	assert_null(pl_block_find(BASE + 8 * MIB));
}

static void
a_block_over_a_border_of_the_tables_is_found_on_both_sides(void **state)
{
	uint64_t border = BASE + ((uint64_t)16 << 30);
	struct pl_record *big = publish(border - 4 * MIB, 8 * MIB, 0);

	(void)state;
	assert_ptr_equal(pl_block_find(border - 1), &big->block);
	assert_ptr_equal(pl_block_find(border), &big->block);
	assert_ptr_equal(pl_block_next(border - 8 * MIB, border + 8 * MIB), &big->block);
	assert_null(pl_block_next(border - 2 * MIB, border + 8 * MIB));
	retract(big, 0);
	assert_null(pl_block_find(border));
}

/* As blocks of mapped memory do it: in place, and by another record for a part. */
static void
a_block_grows_is_cut_and_shortened(void **state)
{
	struct pl_record *block = publish(BASE, 4 * MIB, 0), *end;

	(void)state;
	assert_int_equal(pl_block_publish(block, BASE, 12 * MIB, 0), 0);
	assert_ptr_equal(pl_block_find(BASE + 12 * MIB - 1), &block->block);
	end = publish(BASE + 8 * MIB, 4 * MIB, 0); /* takes a part of it */
	assert_ptr_equal(pl_block_find(BASE + 8 * MIB), &end->block);
	assert_ptr_equal(pl_block_find(BASE + 8 * MIB - 1), &block->block);
	pl_block_hide(BASE + 6 * MIB, 2 * MIB);
	assert_null(pl_block_find(BASE + 6 * MIB));
	assert_null(pl_block_find(BASE + 8 * MIB - 1));
	assert_ptr_equal(pl_block_find(BASE + 6 * MIB - 1), &block->block);
	pl_block_shorten(end, 2 * MIB);
	assert_ptr_equal(pl_block_find(BASE + 10 * MIB - 1), &end->block);
	assert_null(pl_block_find(BASE + 10 * MIB));
	retract(end, 0);
	assert_null(pl_block_find(BASE + 8 * MIB));
	pl_block_shorten(block, 6 * MIB); /* as it is seen since it was cut */
	retract(block, 0);
	assert_null(pl_block_find(BASE));
}

static void
addresses_beyond_user_space_are_refused(void **state)
{
	struct pl_record *record = pl_record_get(&pool);

	(void)state;
	assert_int_equal(pl_block_publish(record, (uint64_t)1 << 47, 512, 1), -ENOMEM);
	assert_int_equal(pl_block_publish(record, ((uint64_t)1 << 47) - 2 * MIB, 3 * MIB, 0),
			 -ENOMEM);
	pl_record_put(&pool, record);
}

/* Units of 512 bytes in 64 MiB, each with the block that it belongs to. */
#define UNITS 131072u

static void
random_blocks_are_found_as_in_an_array(void **state)
{
	static struct pl_record *owner[UNITS];
	static struct pl_record *live[UNITS];
	size_t n_live = 0;
	struct sl_rng rng;
	uint64_t seed = 20261;

	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	sl_rng_init(&rng, seed);
	for (unsigned step = 0; step < 60000; step++) {
		if (sl_rng_below(&rng, 100) < 55) {
			uint64_t unit = sl_rng_below(&rng, UNITS);
			uint64_t n = 1 + sl_rng_below(&rng, 1u << sl_rng_below(&rng, 11));
			uint64_t bytes = n * 512 - sl_rng_below(&rng, 512), i;

			if (unit % 4096 + n > 4096)
				continue;
			for (i = unit; i < unit + n && !owner[i]; i++)
				;
			if (i < unit + n)
				continue;
			live[n_live] = publish(BASE + unit * 512, bytes, 1);
			live[n_live]->block.room = n * 512;
			for (i = unit; i < unit + n; i++)
				owner[i] = live[n_live];
			n_live++;
		} else if (n_live) {
			size_t k = sl_rng_below(&rng, n_live);
			uint64_t unit = (live[k]->block.base - BASE) / 512;

			for (uint64_t i = 0; i < live[k]->block.room / 512; i++)
				owner[unit + i] = NULL;
			retract(live[k], 1);
			live[k] = live[--n_live];
		}
		for (unsigned look = 0; look < 8; look++) {
			uint64_t addr = BASE + sl_rng_below(&rng, UNITS * 512);
			struct pl_record *is = owner[(addr - BASE) / 512];

			if (is && addr - is->block.base >= is->block.bytes)
				is = NULL;
			assert_ptr_equal(pl_block_find(addr), is ? &is->block : NULL);
		}
	}
	/* In order of address, each once. */
	uint64_t from = BASE;
	size_t n = 0;

	for (struct pl_block *b; (b = pl_block_next(from, BASE + UNITS * 512)); n++)
		from = b->base + b->room;
	assert_int_equal(n, n_live);
	while (n_live)
		retract(live[--n_live], 1);
	assert_null(pl_block_next(BASE, BASE + UNITS * 512));
}

static void
a_hundred_thousand_blocks_are_found(void **state)
{
	static struct pl_record *all[100000];

	(void)state;
	for (unsigned i = 0; i < 100000; i++)
		all[i] = publish(BASE + (uint64_t)i * 1024, 1000, 1);
	for (unsigned i = 0; i < 100000; i++) {
		assert_ptr_equal(pl_block_find(BASE + (uint64_t)i * 1024 + 999),
				 &all[i]->block);
		assert_null(pl_block_find(BASE + (uint64_t)i * 1024 + 1000));
	}
	for (unsigned i = 0; i < 100000; i++)
		retract(all[i], 1);
}

/* One thread looks for blocks that stay while another makes and ends their neighbours. */
static _Atomic int stop;
static struct pl_record *stays[4];

static void *
look(void *wrong)
{
	while (!atomic_load(&stop))
		for (int i = 0; i < 4; i++)
			if (pl_block_find(stays[i]->block.base + 100) != &stays[i]->block ||
			    pl_block_find(stays[i]->block.base + 511) != &stays[i]->block)
				atomic_fetch_add((_Atomic int *)wrong, 1);
	return NULL;
}

static void
lookups_are_right_while_neighbours_come_and_go(void **state)
{
	_Atomic int wrong = 0;
	pthread_t thread;
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, 7);
	for (unsigned i = 0; i < 4; i++)
		stays[i] = publish(BASE + i * 700 * 512, 512, 1);
	assert_int_equal(pthread_create(&thread, NULL, look, &wrong), 0);
	for (unsigned n = 0; n < 200000; n++) {
		uint64_t unit = sl_rng_below(&rng, 4096);
		struct pl_record *record;

		if (unit % 700 == 0)
			continue;
		record = publish(BASE + unit * 512, 512, 1);
		retract(record, 1);
	}
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
	for (unsigned i = 0; i < 4; i++)
		retract(stays[i], 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_of_a_block_find_it_and_its_neighbours_do_not),
		cmocka_unit_test(a_block_over_a_border_of_the_tables_is_found_on_both_sides),
		cmocka_unit_test(a_block_grows_is_cut_and_shortened),
		cmocka_unit_test(addresses_beyond_user_space_are_refused),
		cmocka_unit_test(random_blocks_are_found_as_in_an_array),
		cmocka_unit_test(a_hundred_thousand_blocks_are_found),
		cmocka_unit_test(lookups_are_right_while_neighbours_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
