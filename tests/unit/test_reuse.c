/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When freed room may be used again: at once by one stream, after a fence by several, before that where
 * it is lent and its users wait.
 */
#include "unit/fake_arena.h"

/* ---- streams ---- */

static void
one_stream_reuses_at_once(void **state)
{
	struct pl_block *a = get(4096);
	uint64_t at = a->base;

	(void)state;
	fake.issued[0] = 1;
	put(a);
	a = get(4096);
	assert_int_equal(a->base, at);
	assert_int_equal(fake.n_fences, 0);
	put(a);
}

static void
room_rests_until_all_streams_have_passed(void **state)
{
	struct pl_block *a, *b;
	uint64_t at, at_b;

	(void)state;
	fake.n_streams = 2;
	a = get(30 * MIB);
	at = a->base;
	fake.issued[0] = fake.issued[1] = 3;
	put(a);
	b = get(30 * MIB);
	at_b = b->base;
	assert_true(at_b != at);
	fake.done[0] = 3;
	put(b);
	a = get(30 * MIB);
	assert_true(a->base != at && a->base != at_b);
	fake.done[1] = 3;
	b = get(30 * MIB);
	assert_true(b->base == at);
	assert_int_equal(fake.n_waits, 0);
	put(a), put(b);
	check();
}

static void
fences_are_for_many_frees(void **state)
{
	static struct pl_block *blocks[1000];

	(void)state;
	fake.n_streams = 3;
	for (unsigned i = 0; i < 1000; i++)
		blocks[i] = get(2048);
	fake.issued[1] = 1;
	for (unsigned i = 0; i < 1000; i++)
		put(blocks[i]);
	assert_int_equal(fake.n_fences, 1);
	check();
}

static void
stream_reuses_its_own_and_follows_others(void **state)
{
	struct pl_block *a, *b;
	uint64_t at;

	(void)state;
	fake.n_streams = 2;
	a = get_async(40 * MIB, 0);
	at = a->base;
	fake.issued[0] = 7;
	put_async(a, 0);
	a = get_async(40 * MIB, 0);
	assert_int_equal(a->base, at);
	assert_int_equal(fake.n_follows, 0);
	put_async(a, 0);
	a = get_async(40 * MIB, 1);
	assert_int_equal(a->base, at);
	assert_int_equal(fake.n_follows, 1);
	assert_int_equal(fake.behind[1][0], 7);
	put_async(a, 1);
	fake.issued[1] = 9;
	put_async(get_async(40 * MIB, 1), 1);
	b = get(40 * MIB); /* anybody's: not before stream 1 is done */
	assert_true(b->base != at);
	put(b);
	check();
}

static void
stream_that_cannot_follow_gets_other_room(void **state)
{
	struct pl_block *a, *b;
	uint64_t at;

	(void)state;
	fake.n_streams = 2;
	a = get_async(40 * MIB, 0);
	at = a->base;
	fake.issued[0] = 1;
	put_async(a, 0);
	fake.follow_rc = -EBUSY;
	b = get_async(40 * MIB, 1);
	assert_true(b->base != at);
	assert_int_equal(fake.gpu.allocated_bytes, 40 * MIB);
	put_async(b, 1);
	check();
}

static void
fence_that_cannot_be_made_is_made_later(void **state)
{
	struct pl_block *a, *b;
	uint64_t at;

	(void)state;
	fake.n_streams = 2;
	a = get(40 * MIB);
	at = a->base;
	fake.fence_rc = -ENOMEM;
	put(a);
	b = get(40 * MIB);
	assert_true(b->base != at);
	fake.fence_rc = 0;
	put(get(100 * MIB)); /* looks, and makes it */
	put(b);
	b = get(40 * MIB);
	assert_int_equal(b->base, at);
	put(b);
	check();
}

static void
second_stream_waits_for_what_the_first_has_queued(void **state)
{
	struct pl_block *a, *b;
	uint64_t at;

	(void)state;
	a = get(4096);
	at = a->base;
	fake.issued[0] = 4;
	put(a);
	a = get(4096);
	assert_int_equal(a->base, at); /* given out, though stream 0 may still write to it */
	fake.n_streams = 2;
	pl_arena_stream_new(&fake.gpu, STREAM(1), PL_LEGACY);
	assert_int_equal(fake.behind[1][0], 4);
	/* And so does a third, which has not waited for the second. */
	fake.n_streams = 3;
	pl_arena_stream_new(&fake.gpu, STREAM(2), PL_LEGACY);
	assert_int_equal(fake.behind[2][0], 4);
	put(a);
	b = get(4096); /* from now on it rests */
	assert_true(b->base != at);
	put(b);
	check();
}

static void
what_was_freed_before_a_second_stream_came_rests(void **state)
{
	struct pl_block *a = get(4096), *b = get(40 * MIB), *c, *d;
	uint64_t at_a = a->base, at_b = b->base;

	(void)state;
	fake.issued[0] = 4;
	put(a), put(b);
	fake.n_streams = 2;
	c = get(4096);
	d = get(40 * MIB);
	assert_true(c->base != at_a && d->base != at_b);
	put(c), put(d);
	fake.done[0] = 4;
	put(get(500 * MIB)); /* looks; what was freed just now is not covered yet */
	put(get(500 * MIB));
	d = get(40 * MIB);
	assert_int_equal(d->base, at_b);
	put(d);
	check();
}

static void
waiting_comes_before_pressure(void **state)
{
	struct pl_block *a;

	(void)state;
	fake.gpu.device_budget = 256 * MIB;
	fake.n_streams = 2;
	pl_captures = 1; /* nothing is lent */
	for (unsigned i = 0; i < 20; i++) {
		a = get(60 * MIB);
		fake.issued[0]++;
		put(a);
	}
	assert_true(fake.gpu.pressure < PL_OVERSUBSCRIBED);
	assert_true(fake.n_waits > 0);
	pl_captures = 0;
	check();
}

/* ---- lending ---- */

/* Two streams, the first of which has work under way on a block that is freed. Its address. */
static uint64_t
lent_begin(size_t bytes)
{
	struct pl_block *block;

	fake.n_streams = 2;
	pl_gpu_press(&fake.gpu, PL_TRACKING);
	block = get(bytes);
	fake.issued[0] = 7;
	put(block);
	return block->base;
}

static void
room_in_use_is_lent_and_its_users_wait(void **state)
{
	static const size_t sizes[] = {3000, 20 * MIB};

	(void)state;
	for (int i = 0; i < 2; i++) {
		uint64_t at = lent_begin(sizes[i]);
		struct pl_block *block = get(sizes[i]);
		struct pl_arena_state arena;
		unsigned follows = fake.n_follows;

		assert_int_equal(block->base, at);
		pl_arena_state(&fake.gpu, &arena);
		assert_int_equal(arena.lent, 1);
		assert_int_equal(fake.n_follows, follows); /* nobody uses it yet */
		assert_int_equal(pl_reuse_order(block, STREAM(1), PL_LEGACY, 2), 0);
		assert_int_equal(fake.n_follows, follows + 1);
		assert_int_equal(fake.behind[1][0], 7);
		/* Whose room it was waits for the other only. */
		assert_int_equal(pl_reuse_order(block, STREAM(0), PL_LEGACY, 1), 0);
		assert_int_equal(fake.behind[0][0], 0);
		assert_int_equal(fake.n_waits, 0);
		check();
		put(block);
		teardown(NULL);
		setup(NULL);
	}
}

static void
what_comes_behind_the_allocation_is_not_waited_for(void **state)
{
	struct pl_block *block;

	(void)state;
	lent_begin(20 * MIB);
	block = get(20 * MIB);
	fake.issued[0] = 9; /* may wait for what the other stream does with the block */
	assert_int_equal(pl_reuse_order(block, STREAM(1), PL_LEGACY, 2), 0);
	assert_int_equal(fake.behind[1][0], 7);
	put(block);
	check();
}

static void
block_that_is_used_unseen_is_waited_for(void **state)
{
	struct pl_block *block = get(MIB), *lent;

	(void)state;
	lent_begin(20 * MIB);
	lent = get(20 * MIB);
	assert_int_equal(pl_reuse_settle(block), 0);
	assert_int_equal(fake.n_waits, 0);
	assert_int_equal(pl_reuse_settle(lent), 0);
	assert_int_equal(fake.n_waits, 1);
	assert_int_equal(fake.done[0], 7);
	put(block), put(lent);
	check();
}

static void
use_of_anything_waits_for_all_that_is_lent(void **state)
{
	struct pl_block *block;

	(void)state;
	assert_int_equal(pl_reuse_order_all(&fake.gpu, STREAM(1), PL_LEGACY, 2), 0);
	lent_begin(20 * MIB);
	assert_int_equal(pl_reuse_order_all(&fake.gpu, STREAM(1), PL_LEGACY, 2), 0);
	assert_int_equal(fake.n_follows, 0);
	block = get(20 * MIB);
	put(block);
	assert_int_equal(pl_reuse_order_all(&fake.gpu, STREAM(1), PL_LEGACY, 2), 0);
	assert_int_equal(fake.n_follows, 1);
	assert_int_equal(fake.behind[1][0], 7);
	check();
}

static void
what_has_no_fence_is_not_lent(void **state)
{
	struct pl_block *block;
	uint64_t at;

	(void)state;
	for (int i = 0; i < 2; i++) {
		at = lent_begin(20 * MIB);
		fake.fence_is_cut = i;
		fake.fence_rc = i ? 0 : -ENOMEM;
		block = get(20 * MIB);
		assert_int_not_equal(block->base, at);
		assert_int_equal(block->owed, 0);
		fake.fence_rc = fake.fence_is_cut = 0;
		check();
		put(block);
		teardown(NULL);
		setup(NULL);
	}
}

static void
nothing_is_lent_at_ease_or_while_a_stream_is_captured(void **state)
{
	uint64_t at = lent_begin(20 * MIB);
	struct pl_block *block;

	(void)state;
	pl_captures = 1;
	block = get(20 * MIB);
	pl_captures = 0;
	assert_int_not_equal(block->base, at);
	put(block);
	teardown(NULL);
	setup(NULL);
	fake.n_streams = 2;
	block = get(20 * MIB);
	at = block->base;
	fake.issued[0] = 1;
	put(block);
	block = get(20 * MIB);
	assert_int_not_equal(block->base, at);
	put(block);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(one_stream_reuses_at_once),
		TEST(room_rests_until_all_streams_have_passed),
		TEST(fences_are_for_many_frees),
		TEST(stream_reuses_its_own_and_follows_others),
		TEST(stream_that_cannot_follow_gets_other_room),
		TEST(fence_that_cannot_be_made_is_made_later),
		TEST(second_stream_waits_for_what_the_first_has_queued),
		TEST(what_was_freed_before_a_second_stream_came_rests),
		TEST(waiting_comes_before_pressure),
		TEST(room_in_use_is_lent_and_its_users_wait),
		TEST(what_comes_behind_the_allocation_is_not_waited_for),
		TEST(block_that_is_used_unseen_is_waited_for),
		TEST(use_of_anything_waits_for_all_that_is_lent),
		TEST(what_has_no_fence_is_not_lent),
		TEST(nothing_is_lent_at_ease_or_while_a_stream_is_captured),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
