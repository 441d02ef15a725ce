/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions for the preload library (core/interpose.h): regions whose first contents are
 * undefined; memory that is populated, prefetched, freed, or evicted early; launches that may
 * touch more than they use.
 */
#include <errno.h>
#include <time.h>

#include "core/interpose.h"
#include "cuda/cuda_test.h"

#define K     0x9e3779b97f4a7c15ull
#define CHUNK (2 * MIB)
#define N     (CHUNK / 8) /* elements of a chunk */

static struct cuda_test t;

static uint64_t *
region(struct sluice_space *s, uint64_t bytes)
{
	void *p;

	CHECK_OK(sl_region_alloc(s, bytes, CHUNK, &p));
	return p;
}

static uint64_t
on_device(struct sluice_space *s, const void *p, size_t bytes)
{
	struct sluice_residency r;

	CHECK_OK(sluice_residency(s, p, bytes, &r));
	return r.tier_bytes[SLUICE_TIER_DEVICE];
}

/* So many bytes are on the device, to stay. What happens in the background has so long. */
static void
await_on_device(struct sluice_space *s, const void *p, size_t bytes, uint64_t wanted)
{
	const struct timespec tick = {0, 1000000};
	struct sluice_residency r = {.in_flight_bytes = bytes};

	for (int i = 0;
	     i < 60000 && (r.tier_bytes[SLUICE_TIER_DEVICE] != wanted || r.in_flight_bytes);
	     i++) {
		nanosleep(&tick, NULL);
		CHECK_OK(sluice_residency(s, p, bytes, &r));
	}
	CHECK(r.tier_bytes[SLUICE_TIER_DEVICE] == wanted && !r.in_flight_bytes);
}

static void
touch(struct sluice_space *s, uint64_t *p, uint64_t seed)
{
	cuda_test_run(&t, s, NULL, TEST_FILL, p, N, seed, SLUICE_USE_READ_WRITE);
}

static uint64_t
sum_of(struct sluice_space *s, uint64_t *p)
{
	uint64_t word = cuda_test_word(&t), sum;

	cuda_test_run(&t, s, NULL, TEST_SUM, p, N, word, SLUICE_USE_READ);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	sum = cuda_test_word_read(&t, word);
	cuda_test_word_free(&t, word);
	return sum;
}

static uint64_t
sum_filled(uint64_t seed)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < N; i++)
		sum += i * K + seed;
	return sum;
}

static void
undefined_contents_cost_no_clearing_and_no_move(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	uint64_t *p = region(s, 4 * CHUNK);
	void *q;

	CHECK(sl_region_alloc(s, CHUNK, CHUNK + 1, &q) == -EINVAL);
	CHECK(sl_region_alloc(s, 0, CHUNK, &q) == -EINVAL);
	CHECK_OK(sl_populate(s, p, 2 * CHUNK));
	CHECK(on_device(s, p, 4 * CHUNK) == 2 * CHUNK);
	if (t.standin)
		t.standin->calls_reset();
	touch(s, p, 1);
	touch(s, p + 3 * N, 2); /* not populated: read-write, and yet nothing is cleared */
	if (t.standin) {
		CHECK(t.standin->calls("cuMemsetD8Async") == 0);
		CHECK(t.standin->calls("cuMemcpyHtoDAsync_v2") == 0);
	}
	CHECK(sum_of(s, p) == sum_filled(1));
	CHECK(sum_of(s, p + 3 * N) == sum_filled(2));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_H2D_LAUNCH) == 0);
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
what_is_to_leave_goes_when_its_launch_has_ended_and_comes_again(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	uint64_t *p = region(s, 4 * CHUNK);
	struct sluice_use use = {p, CHUNK, SLUICE_USE_READ_WRITE};
	struct sluice_launch *l;

	touch(s, p, 7);
	CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
	sl_evict_later(s, p, CHUNK);
	sl_evict_later(s, p, CHUNK); /* once is enough */
	cuda_test_launch(&t, s, NULL, TEST_ADD, p, N, 1);
	CHECK(on_device(s, p, CHUNK) == CHUNK); /* the launch holds it */
	sluice_launch_end(l);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	await_on_device(s, p, CHUNK, 0);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_D2H_EVICT) == CHUNK);
	CHECK(sl_ahead(s, p, CHUNK, 0, 0) == 1);
	await_on_device(s, p, CHUNK, CHUNK);
	CHECK(sl_ahead(s, p, CHUNK, 0, 0) == 0);
	CHECK(sum_of(s, p) == sum_filled(7) + N);
	/* Not in a region, or nothing: no harm. */
	sl_evict_later(s, &use, 8);
	sl_evict_later(s, p, 0);
	CHECK(sl_ahead(s, &use, 8, 0, 0) == 0);
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
what_is_used_again_before_it_left_stays(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	uint64_t *p = region(s, 2 * CHUNK);
	struct sluice_use use = {p, CHUNK, SLUICE_USE_READ_WRITE};
	struct sluice_launch *l, *again;

	touch(s, p, 1);
	CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
	sl_evict_later(s, p, CHUNK);
	CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &again));
	sluice_launch_end(l);
	sluice_launch_end(again);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	/* Something behind it in the queue goes, so the queue was looked at. */
	touch(s, p + N, 2);
	sl_evict_later(s, p + N, CHUNK);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	await_on_device(s, p + N, CHUNK, 0);
	CHECK(on_device(s, p, CHUNK) == CHUNK);
	/* A region that ends takes its entries with it. */
	sl_evict_later(s, p, CHUNK);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* Blocks that have a chunk in common: each tells it to leave behind its own use. */
static void
what_is_told_to_leave_behind_each_use_leaves_behind_the_last(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	uint64_t *p = region(s, 2 * CHUNK);
	struct sluice_use use = {p, CHUNK, SLUICE_USE_READ_WRITE};
	struct sluice_launch *l[40];

	touch(s, p, 1);
	for (size_t i = 0; i < sizeof(l) / sizeof(l[0]); i++) {
		CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l[i]));
		if (i < 3 || i > 38)
			sl_evict_later(s, p, CHUNK);
	}
	for (size_t i = 0; i < sizeof(l) / sizeof(l[0]); i++)
		sluice_launch_end(l[i]);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	await_on_device(s, p, CHUNK, 0);
	CHECK(sum_of(s, p) == sum_filled(1));
	/* Each place in the queue is given back: it can be told so any number of times. */
	for (unsigned i = 0; i < 100; i++) {
		touch(s, p, i);
		sl_evict_later(s, p, CHUNK);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		await_on_device(s, p, CHUNK, 0);
	}
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* Of chunks 0 to last eight are on the device, which is full; what was used last is in use, and is to leave. */
static struct sluice_launch *
full_but_for_what_leaves(struct sluice_space *s, uint64_t *p, uint64_t last)
{
	struct sluice_use use = {p + last * N, CHUNK, SLUICE_USE_READ_WRITE};
	struct sluice_launch *l;

	for (uint64_t i = 0; i <= last; i++)
		touch(s, p + i * N, i);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
	sl_evict_later(s, p + last * N, CHUNK);
	cuda_test_launch(&t, s, NULL, TEST_ADD, p + last * N, N, 1);
	return l;
}

static void
what_is_brought_ahead_waits_for_what_is_to_leave(void)
{
	const struct timespec moment = {0, 5000000};
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	uint64_t *p = region(s, 9 * CHUNK);
	struct sluice_launch *l = full_but_for_what_leaves(s, p, 8);

	CHECK(sl_ahead(s, p, CHUNK, 0, 0) == 1);
	nanosleep(&moment, NULL);
	sluice_launch_end(l);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	await_on_device(s, p, CHUNK, CHUNK);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_D2H_EVICT) == 2 * CHUNK); /* nothing else went */
	CHECK(sum_of(s, p + 8 * N) == sum_filled(8) + N);
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
what_was_asked_for_ahead_of_a_use_that_has_been_is_not_brought(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	uint64_t *p = region(s, 10 * CHUNK);
	struct sluice_launch *l = full_but_for_what_leaves(s, p, 9);

	CHECK(sl_ahead(s, p + N, CHUNK, 0, 0) == 1); /* waits for what leaves, */
	CHECK(sl_ahead(s, p, CHUNK, 0, 0) == 1);     /* and this for its turn */
	touch(s, p, 100);                            /* is faster: chunk 2 makes room */
	sl_evict_later(s, p, CHUNK);
	sl_ends_record(s);
	await_on_device(s, p + N, CHUNK, CHUNK); /* in its room */
	sluice_launch_end(l);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	await_on_device(s, p + 9 * N, CHUNK, 0);
	CHECK(sl_ahead(s, p + 2 * N, CHUNK, 0, 0) == 1);
	await_on_device(s, p + 2 * N, CHUNK, CHUNK); /* in order: it was its turn before */
	CHECK(on_device(s, p, CHUNK) == 0);
	CHECK(sum_of(s, p) == sum_filled(100));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
a_launch_takes_what_was_unused_for_longest_or_awaits_what_leaves(void)
{
	for (int await = 0; await < 2; await++) {
		struct sluice_space *s = cuda_test_space(16, 64, NULL);
		uint64_t *p = region(s, 9 * CHUNK);
		struct sluice_launch *l = full_but_for_what_leaves(s, p, 8);

		sl_early_evict_await(s, await);
		if (await)
			sluice_launch_end(l);
		touch(s, p, 100);
		if (!await)
			sluice_launch_end(l);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		await_on_device(s, p + 8 * N, CHUNK, 0);
		CHECK(on_device(s, p + N, CHUNK) == (await ? CHUNK : 0));
		CHECK(on_device(s, p, CHUNK) == CHUNK);
		CHECK(sum_of(s, p + 8 * N) == sum_filled(8) + N);
		CHECK_OK(sluice_space_check(s));
		CHECK_OK(sluice_space_destroy(s));
	}
}

/* A chunk of many small blocks may be in use for long. */
static void
what_is_in_use_holds_up_nothing_that_is_to_leave_behind_it(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	uint64_t *p = region(s, 3 * CHUNK);
	struct sluice_use use = {p, CHUNK, SLUICE_USE_READ_WRITE};
	struct sluice_launch *l;

	for (uint64_t i = 0; i < 3; i++)
		touch(s, p + i * N, i);
	CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
	sl_evict_later(s, p, 3 * CHUNK);
	sl_ends_record(s); /* of those that filled them */
	await_on_device(s, p + N, 2 * CHUNK, 0);
	CHECK(on_device(s, p, CHUNK) == CHUNK);
	sluice_launch_end(l);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	await_on_device(s, p, CHUNK, 0);
	for (uint64_t i = 0; i < 3; i++)
		CHECK(sum_of(s, p + i * N) == sum_filled(i));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* Room that is free, or whose contents are dead and in no launch's use, is spare, but for four chunks. */
static void
what_is_asked_for_spare_room_takes_nothing_alive_out(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	uint64_t *p = region(s, 12 * CHUNK);
	uint64_t evicted;

	for (uint64_t i = 0; i < 12; i++)
		touch(s, p + i * N, i); /* of 8 that fit: 4 to 11 are there */
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	evicted = cuda_test_counter(s, SLUICE_COUNTER_D2H_EVICT);
	CHECK(evicted == 4 * CHUNK);
	CHECK(sl_ahead(s, p, CHUNK, 1, 0) == -ENOBUFS);
	CHECK(sl_ahead(s, p + 4 * N, 8 * CHUNK, 1, 0) == 0); /* it is there */
	CHECK_OK(sl_discard_freed(s, p + 4 * N, 4 * CHUNK));
	CHECK(sl_ahead(s, p, CHUNK, 1, 0) == -ENOBUFS);
	CHECK_OK(sl_discard_freed(s, p + 8 * N, 2 * CHUNK));
	CHECK(sl_ahead(s, p, 3 * CHUNK, 1, 2 * CHUNK) == -ENOBUFS);
	CHECK(sl_ahead(s, p, 3 * CHUNK, 1, CHUNK) == -EAGAIN); /* its beginning has room */
	await_on_device(s, p, 3 * CHUNK, CHUNK);
	CHECK(sl_ahead(s, p + N, CHUNK, 1, 0) == 1);
	CHECK(sl_ahead(s, p + 2 * N, CHUNK, 1, 0) == -ENOBUFS); /* what was asked for counts */
	await_on_device(s, p, 2 * CHUNK, 2 * CHUNK);
	CHECK(sl_ahead(s, p + 2 * N, CHUNK, 1, 0) == -ENOBUFS);
	CHECK(sl_ahead(s, p, 2 * CHUNK, 1, 0) == 0);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_D2H_EVICT) == evicted);
	CHECK(on_device(s, p + 10 * N, 2 * CHUNK) == 2 * CHUNK);
	for (uint64_t i = 0; i < 12; i++)
		CHECK((i >= 4 && i < 10) || sum_of(s, p + i * N) == sum_filled(i));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* A wish for spare room that was refused, and is not repeated, costs later launches nothing. */
static void
who_wants_spare_room_no_more_is_forgotten(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	uint64_t *q = region(s, 8 * CHUNK), *r = region(s, CHUNK), *p = region(s, CHUNK);
	struct sluice_use use = {p, CHUNK, SLUICE_USE_READ_WRITE};
	struct sluice_launch *l;

	touch(s, r, 1);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(sluice_evict(s, r, CHUNK, SLUICE_TIER_HOST, NULL));
	for (uint64_t i = 0; i < 8; i++)
		touch(s, q + i * N, 2);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(sl_ahead(s, r, CHUNK, 1, 0) == -ENOBUFS);
	CHECK_OK(sluice_unmap(s, q));
	touch(s, p, 3);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	if (t.standin)
		t.standin->calls_reset();
	for (int i = 0; i < 256; i++) {
		CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
		sluice_launch_end(l);
	}
	if (t.standin)
		CHECK(t.standin->calls("cuEventRecord") == 0);
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
freed_memory_waits_for_nobody_and_is_not_copied(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, NULL);
	uint64_t *p = region(s, 8 * CHUNK);
	struct sluice_launch *l;
	struct sluice_use use = {p, CHUNK, SLUICE_USE_READ_WRITE};

	for (uint64_t i = 0; i < 4; i++)
		touch(s, p + i * N, i);
	CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
	cuda_test_launch(&t, s, NULL, TEST_DELAY, NULL, 1, 20 * 1000 * 1000);
	cuda_test_launch(&t, s, NULL, TEST_ADD, p, N, 1);
	/* While the launch runs, and on this thread, whose own scope it is. */
	CHECK_OK(sl_discard_freed(s, p, 4 * CHUNK));
	sluice_launch_end(l);
	for (uint64_t i = 4; i < 8; i++)
		touch(s, p + i * N, i);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_D2H_EVICT) == 0);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_DISCARD_SAVED) == 4 * CHUNK);
	for (uint64_t i = 4; i < 8; i++)
		CHECK(sum_of(s, p + i * N) == sum_filled(i));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* The kernel reads what lies beside, on the device and off it, and writes it. */
static void
what_lies_beside_is_mapped_and_not_brought_in(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, NULL);
	uint64_t *p = region(s, 12 * CHUNK), word = cuda_test_word(&t), moved;
	struct sluice_use use = {p, CHUNK, SLUICE_USE_READ_WRITE};
	struct sluice_use beside = {p + N, 11 * CHUNK, SLUICE_USE_READ_WRITE};
	struct sluice_launch *l, *all;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < 12; i++) {
		touch(s, p + i * N, i);
		sum += i ? sum_filled(i) : 0;
	}
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	moved = cuda_test_counter(s, SLUICE_COUNTER_H2D_LAUNCH);
	CHECK_OK(sl_launch_begin_optional(s, NULL, &use, 1, NULL, 0, &l));
	CHECK_OK(sl_launch_begin_optional(s, NULL, NULL, 0, &beside, 1, &all));
	cuda_test_launch(&t, s, NULL, TEST_SUM, p + N, 11 * N, word);
	cuda_test_launch(&t, s, NULL, TEST_ADD, p + N, 11 * N, 3);
	CHECK(sl_launch_fetched(l, 0) == 1); /* the first one had been taken out */
	CHECK(sl_launch_chunk_bytes(l, 0) == CHUNK && sl_launch_chunk_bytes(l, 1) == 0);
	sluice_launch_end(all);
	sluice_launch_end(l);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_word_read(&t, word) == sum);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_H2D_LAUNCH) == moved + CHUNK);
	CHECK(on_device(s, p, CHUNK) == CHUNK);
	for (uint64_t i = 1; i < 12; i++)
		CHECK(sum_of(s, p + i * N) == sum_filled(i) + 3 * N);
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
embedded_run(struct sluice_space *s, const struct sluice_use *uses, size_t n, uint64_t *p,
	     uint64_t elements)
{
	struct sluice_launch *l;

	CHECK_OK(sl_launch_begin_optional(s, NULL, uses, n, NULL, 0, &l));
	cuda_test_launch(&t, s, NULL, TEST_ADD, p, elements, 1);
	sluice_launch_end(l);
}

/* A giant buffer of which each launch touches a little, whatever it names, beside what is small and what fits. With
 * 14 chunks of 16 it fits by itself, and would displace what the next launch needs. */
static void
launches_in_a_row_that_do_not_fit_come_to_rest(unsigned giant_chunks)
{
	enum { SMALL = 3, CYCLES = 80, MORE = 40 };
	struct sluice_space *s = cuda_test_space(32, 128, NULL); /* 16 chunks on the device */
	uint64_t *giant = region(s, giant_chunks * CHUNK), *small[5], in = 0, out = 0;
	struct sluice_use uses[5][2];

	for (unsigned i = 0; i < giant_chunks; i++)
		touch(s, giant + i * N, i);
	for (unsigned k = 0; k < 5; k++) {
		small[k] = region(s, SMALL * CHUNK);
		for (unsigned i = 0; i < SMALL; i++)
			touch(s, small[k] + i * N, 100 * k + i);
		uses[k][0] = (struct sluice_use){giant, giant_chunks * CHUNK,
						 SLUICE_USE_READ_WRITE};
		uses[k][1] = (struct sluice_use){small[k], SMALL * CHUNK,
						 SLUICE_USE_READ_WRITE};
	}
	for (unsigned i = 0; i < CYCLES + MORE; i++) {
		if (i == CYCLES) {
			CHECK_OK(sluice_stream_synchronize(s, NULL));
			in = cuda_test_counter(s, SLUICE_COUNTER_H2D_LAUNCH);
			out = cuda_test_counter(s, SLUICE_COUNTER_D2H_EVICT);
		}
		if (i % 10 == 0) { /* now and then; nothing in flight holds the giant for long */
			const unsigned k = 3 + i / 10 % 2;

			CHECK_OK(sluice_stream_synchronize(s, NULL));
			embedded_run(s, uses[k], 2, small[k], SMALL * N);
		}
		if (i >= CYCLES && i % 10 == 5) { /* no moves ahead meanwhile */
			CHECK(sl_ahead(s, giant, giant_chunks * CHUNK, 0, 0) == 0);
			sl_evict_later(s, small[3 + i / 10 % 2], SMALL * CHUNK);
		}
		embedded_run(s, uses[0], 1, giant + i % giant_chunks * N, N);
		embedded_run(s, uses[0], 2, small[0], SMALL * N);
		embedded_run(s, uses[1], 2, small[1], SMALL * N);
		embedded_run(s, uses[2] + 1, 1, small[2], SMALL * N); /* fits */
	}
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_H2D_LAUNCH) == in);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_D2H_EVICT) == out);
	for (unsigned k = 0; k < 5; k++)
		CHECK(on_device(s, small[k], SMALL * CHUNK) == SMALL * CHUNK);
	CHECK(on_device(s, giant, giant_chunks * CHUNK) == (16 - 5 * SMALL) * CHUNK);
	for (unsigned i = 0; i < giant_chunks; i++)
		CHECK(sum_of(s, giant + i * N) ==
		      sum_filled(i) +
			      (CYCLES + MORE - i + giant_chunks - 1) / giant_chunks * N);
	for (unsigned k = 0; k < 5; k++)
		for (unsigned i = 0; i < SMALL; i++)
			CHECK(sum_of(s, small[k] + i * N) ==
			      sum_filled(100 * k + i) +
				      (CYCLES + MORE) / (k < 3 ? 1 : 20) * N);
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

int
main(void)
{
	cuda_test_open(&t);
	undefined_contents_cost_no_clearing_and_no_move();
	what_is_to_leave_goes_when_its_launch_has_ended_and_comes_again();
	what_is_used_again_before_it_left_stays();
	what_is_told_to_leave_behind_each_use_leaves_behind_the_last();
	what_is_brought_ahead_waits_for_what_is_to_leave();
	what_was_asked_for_ahead_of_a_use_that_has_been_is_not_brought();
	a_launch_takes_what_was_unused_for_longest_or_awaits_what_leaves();
	what_is_in_use_holds_up_nothing_that_is_to_leave_behind_it();
	what_is_asked_for_spare_room_takes_nothing_alive_out();
	who_wants_spare_room_no_more_is_forgotten();
	freed_memory_waits_for_nobody_and_is_not_copied();
	what_lies_beside_is_mapped_and_not_brought_in();
	launches_in_a_row_that_do_not_fit_come_to_rest(20);
	launches_in_a_row_that_do_not_fit_come_to_rest(14);
	cuda_test_close(&t, NULL);
	return 0;
}
