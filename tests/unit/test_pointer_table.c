/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses kept in memory: what is known of a table after copies over parts of it, after its block was
 * freed, and at the bounds of what is kept. Blocks are real ones, memory is not: nothing is read at their
 * addresses.
 */
#include <string.h>

#include "unit/cmocka_all.h"

/* Not in the library that unit tests are linked with. NOLINTBEGIN(bugprone-suspicious-include) */
#include "preload/alloc/block.c"
#include "preload/args/pointer_table.c"
/* NOLINTEND(bugprone-suspicious-include) */

/* No block here is so large. */
bool
pl_block_has_parts(const struct pl_block *block)
{
	(void)block;
	return false;
}

size_t
pl_part_use(struct pl_block *block, uint64_t addr, struct pl_use *uses, size_t n)
{
	(void)block;
	(void)addr;
	(void)uses;
	return n;
}

/* Nor is one divided. */
struct pl_block *
pl_suballoc_find(struct pl_block *block, uint64_t addr)
{
	(void)addr;
	return block;
}

#define BASE     ((uint64_t)0x200000000000)
#define MIB      ((uint64_t)1 << 20)
#define VARIABLE ((uint64_t)0x100000) /* of a module: in no block */
#define BLOCKS   300u

_Atomic uint64_t pl_low = BASE, pl_high = BASE + 1024 * MIB;
_Atomic uint64_t pl_counters[PL_COUNT_COUNT];

static struct pl_record_pool pool;
static struct pl_record *records[BLOCKS]; /* of 2 MiB each, from BASE on */
static uint64_t stamp;

static struct pl_block *
block(unsigned i)
{
	return &records[i]->block;
}

static void
block_begin(unsigned i)
{
	records[i] = pl_record_get(&pool);
	assert_non_null(records[i]);
	assert_int_equal(pl_block_publish(records[i], BASE + i * 2 * MIB, 2 * MIB, 0), 0);
}

/* As the arena does. */
static void
block_end(unsigned i)
{
	pl_pointer_table_forget(block(i));
	pl_block_retract(records[i], 0);
	pl_record_put(&pool, records[i]);
}

static int
setup(void **state)
{
	(void)state;
	for (unsigned i = 0; i < BLOCKS; i++)
		block_begin(i);
	return 0;
}

static int
teardown(void **state)
{
	uint64_t none[GLOBALS_MAX + 1] = {0};

	(void)state;
	pl_pointer_table_note(VARIABLE, none, sizeof(none));
	for (unsigned i = 0; i < BLOCKS; i++)
		block_end(i);
	assert_int_equal(n_tables, 0);
	assert_int_equal(n_globals, 0);
	pl_pointer_table_overflow = 0;
	return 0;
}

/* What a launch that is given an address in block i uses by its tables, as the numbers of blocks in order. */
static size_t
named_at(unsigned i, uint64_t offset, unsigned *numbers)
{
	static struct pl_use uses[PL_USES_MAX];
	size_t n = pl_pointer_table_uses(block(i), block(i)->base + offset, uses, 0, ++stamp);

	for (size_t k = 0; k < n; k++)
		numbers[k] = (unsigned)((uses[k].addr - BASE) / (2 * MIB));
	return n;
}

static size_t
named(unsigned i, unsigned *numbers)
{
	return named_at(i, 0, numbers);
}

static int
names_at(unsigned i, uint64_t offset, unsigned other)
{
	unsigned numbers[PL_USES_MAX];
	size_t n = named_at(i, offset, numbers);

	for (size_t k = 0; k < n; k++)
		if (numbers[k] == other)
			return 1;
	return 0;
}

static int
names(unsigned i, unsigned other)
{
	return names_at(i, 0, other);
}

static void
copy_over_a_part_leaves_the_rest_known(void **state)
{
	uint64_t words[4] = {block(1)->base, block(2)->base + 8, block(3)->base, 17};
	unsigned numbers[PL_USES_MAX];

	(void)state;
	pl_pointer_table_note(block(0)->base + 64, words, sizeof(words));
	assert_int_equal(named(0, numbers), 3);
	/* Over the middle one, by another address; and then by none. */
	pl_pointer_table_note(block(0)->base + 72, &block(4)->base, 8);
	assert_int_equal(named(0, numbers), 3);
	assert_true(names(0, 1) && names(0, 4) && names(0, 3));
	words[0] = 0;
	pl_pointer_table_note(block(0)->base + 72, words, 8);
	assert_int_equal(named(0, numbers), 2);
	assert_true(names(0, 1) && names(0, 3));
	/* From the middle of the first on, which is no address any more. */
	words[0] = words[1] = words[2] = words[3] = 0;
	pl_pointer_table_note(block(0)->base + 68, words, 8);
	assert_int_equal(named(0, numbers), 1);
	assert_true(names(0, 3));
	pl_pointer_table_note(block(0)->base, words, 32);
	assert_true(names(0, 3));
	pl_pointer_table_note(block(0)->base + 64, words, 32);
	assert_int_equal(named(0, numbers), 0);
	assert_int_equal(n_tables, 0);
}

static void
words_are_aligned_where_they_lie(void **state)
{
	char bytes[64] = {0};

	(void)state;
	memcpy(bytes + 4, &block(1)->base, 8);
	memcpy(bytes + 24, &block(2)->base, 8); /* across two words of the device */
	pl_pointer_table_note(block(0)->base + 4, bytes, sizeof(bytes));
	assert_true(names(0, 1));
	assert_false(names(0, 2));
}

static void
what_tables_name_has_tables_of_its_own(void **state)
{
	(void)state;
	pl_pointer_table_note(block(0)->base, &block(1)->base, 8);
	pl_pointer_table_note(block(1)->base + 4096, &block(2)->base, 8);
	assert_true(names(0, 2));
	assert_false(names(2, 0));
}

/* Blocks of this test are pools: a launch means the tables about the address that it is given. */
static void
tables_of_a_pool_are_apart(void **state)
{
	uint64_t words[16] = {0};

	(void)state;
	words[0] = block(1)->base;
	words[15] = block(2)->base;
	pl_pointer_table_note(block(0)->base + MIB - 64, words,
			      sizeof(words)); /* across two granules */
	pl_pointer_table_note(block(0)->base + MIB + 2 * GRANULE, &block(3)->base, 8);
	assert_false(names(0, 1) || names(0, 3));
	assert_true(names_at(0, MIB - GRANULE, 1) && names_at(0, MIB - GRANULE, 2));
	assert_true(names_at(0, MIB - 64, 1) && names_at(0, MIB + 56, 2));
	assert_false(names_at(0, MIB + 64, 1) || names_at(0, MIB, 3));
	assert_true(names_at(0, MIB + GRANULE + 8, 3));
	/* The pool's end is no reason to look beyond. */
	assert_false(names_at(0, 2 * MIB - 8, 3));
	/* An address in another pool means the tables there. */
	words[0] = block(0)->base + MIB;
	pl_pointer_table_note(block(4)->base, words, 8);
	assert_true(names(4, 0) && names(4, 1) && names(4, 2));
	assert_false(names(4, 3));
}

/* A part, then all of a large range. */
static void
what_is_overwritten_is_forgotten(void **state)
{
	uint64_t words[2] = {block(1)->base, block(2)->base};

	(void)state;
	pl_pointer_table_note(block(0)->base + GRANULE - 8, words, sizeof(words));
	pl_pointer_table_overwritten(block(0), block(0)->base + GRANULE, 8);
	assert_true(names_at(0, GRANULE - 8, 1));
	assert_false(names_at(0, GRANULE - 8, 2));
	pl_pointer_table_overwritten(block(0), block(0)->base, 2 * MIB);
	assert_int_equal(n_tables, 0);
}

static void
all_tables_of_a_small_block_are_meant(void **state)
{
	struct pl_block small = *block(0);

	(void)state;
	small.bytes = PL_POOL_BYTES;
	pl_pointer_table_note(block(0)->base + MIB - 8, &block(1)->base, 8);
	for (uint64_t at = 0; at < MIB; at += MIB - 8) {
		static struct pl_use uses[PL_USES_MAX];

		assert_int_equal(pl_pointer_table_uses(&small, small.base + at, uses, 0,
						       ++stamp),
				 1);
	}
}

/* A block that comes and goes with its table for longer than so many are kept. */
static void
tables_end_with_their_block(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TABLES_MAX + 10; i++) {
		pl_pointer_table_note(block(0)->base, &block(1)->base, 8);
		block_end(0);
		block_begin(0);
	}
	assert_int_equal(n_tables, 0);
	assert_false(pl_pointer_table_overflow);
	assert_false(names(0, 1));
}

static void
tables_beyond_the_bound_are_told(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TABLES_MAX; i++)
		pl_pointer_table_note(block(i % 256)->base + i / 256 * 8,
				      &block(257)->base, 8);
	assert_int_equal(n_tables, TABLES_MAX);
	assert_false(pl_pointer_table_overflow);
	pl_pointer_table_note(block(256)->base, &block(257)->base, 8);
	assert_int_equal(n_tables, TABLES_MAX);
	assert_true(pl_pointer_table_overflow);
}

static void
variables_are_used_by_every_launch_up_to_their_bound(void **state)
{
	static struct pl_use uses[PL_USES_MAX];
	uint64_t words[GLOBALS_MAX + 1];

	(void)state;
	for (unsigned i = 0; i <= GLOBALS_MAX; i++)
		words[i] = block(i)->base;
	assert_int_equal(pl_pointer_table_globals(uses, 0, ++stamp), 0);
	pl_pointer_table_note(VARIABLE, words, GLOBALS_MAX * 8);
	assert_int_equal(pl_pointer_table_globals(uses, 0, ++stamp), GLOBALS_MAX);
	/* One of them is written again: no more than before. */
	pl_pointer_table_note(VARIABLE + 8, words, 8);
	assert_int_equal(n_globals, GLOBALS_MAX);
	assert_false(pl_pointer_table_overflow);
	assert_int_equal(pl_pointer_table_globals(uses, 0, ++stamp), GLOBALS_MAX - 1);
	pl_pointer_table_note(VARIABLE + GLOBALS_MAX * 8, &words[GLOBALS_MAX], 8);
	assert_true(pl_pointer_table_overflow);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(copy_over_a_part_leaves_the_rest_known),
		TEST(words_are_aligned_where_they_lie),
		TEST(what_tables_name_has_tables_of_its_own),
		TEST(tables_of_a_pool_are_apart),
		TEST(what_is_overwritten_is_forgotten),
		TEST(all_tables_of_a_small_block_are_meant),
		TEST(tables_end_with_their_block),
		TEST(tables_beyond_the_bound_are_told),
		TEST(variables_are_used_by_every_launch_up_to_their_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
