/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames made ahead of evictions. They are made up to the number that evictions may want, and no
 * further. They are then used, and no more are made. They go when there is less room. A space
 * may be destroyed while they are being made.
 *
 * On the stand-in the pinned host memory is counted. On a GPU the same runs, and only the
 * contents are checked.
 */
#include <time.h>

#include "base/fault_point.h"
#include "core/interpose.h"
#include "cuda/cuda_test.h"

#define K       0x9e3779b97f4a7c15ull
#define TILE    (2 * MIB)
#define WORDS   (TILE / 8)
#define DEVICE  16u /* MiB */
#define STAGING 64u /* MiB: the least there is for chunks of 2 MiB */

static struct cuda_test t;

/* MiB of frames. */
static uint64_t
frames_mib(void)
{
	struct sl_standin_live live;

	t.standin->live(&live);
	return live.host_bytes / MIB;
}

/* Until there are so many MiB. */
static void
frames_become(uint64_t mib)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (int i = 0; t.standin && frames_mib() != mib; i++) {
		if (i == 60000) {
			printf("%llu MiB, not %llu\n", (unsigned long long)frames_mib(),
			       (unsigned long long)mib);
			exit(1);
		}
		nanosleep(&pause, NULL);
	}
}

/* Calls that make memory; 0 on a GPU. */
static uint64_t
makes(void)
{
	return t.standin ? t.standin->calls("cuMemCreate") +
				   t.standin->calls("cuMemHostRegister_v2")
			 : 0;
}

/* Streams for moves so far; 0 on a GPU. */
static uint64_t
streams_made(void)
{
	return t.standin ? t.standin->calls("cuStreamCreateWithPriority") : 0;
}

static void
tiles_fill(struct sluice_space *s, uint64_t *p, unsigned first, unsigned n, uint64_t seed)
{
	for (unsigned i = first; i < first + n; i++)
		cuda_test_run(&t, s, NULL, TEST_FILL, p + i * WORDS, WORDS, i + seed,
			      SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
}

static void
tiles_check(const uint64_t *p, unsigned n, uint64_t seed)
{
	for (unsigned i = 0; i < n; i++)
		for (uint64_t k = 0; k < WORDS; k += 1009)
			CHECK(p[i * WORDS + k] == k * K + i + seed);
}

static void
frames_are_made_ahead_and_then_used(void)
{
	struct sluice_space *s = cuda_test_space(DEVICE, 256, "chunk=2M,large_chunk=2M");
	uint64_t *p, made;

	CHECK_OK(sluice_alloc(s, 80 * MIB, 0, (void **)&p));
	tiles_fill(s, p, 0, DEVICE / 2, 1);
	CHECK(!t.standin || frames_mib() == 0); /* nothing was evicted, nothing is made */
	/* One goes: two are wanted for each that went, beside what staging may hold. */
	tiles_fill(s, p, DEVICE / 2, 1, 1);
	frames_become(2 * 2 + STAGING);
	/* Ten more: as many again; then all that has no place on the device. */
	tiles_fill(s, p, DEVICE / 2 + 1, 10, 1);
	frames_become(2 * 22 + STAGING);
	tiles_fill(s, p, DEVICE / 2 + 11, 40 - DEVICE / 2 - 11, 1);
	frames_become(80 - DEVICE + STAGING);
	/* Enough for ever. */
	made = makes();
	for (unsigned round = 2; round < 4; round++)
		tiles_fill(s, p, 0, 40, round);
	tiles_check(p, 40, 3);
	CHECK(makes() == made);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* What an allocator cuts blocks from is addresses: neither its size nor evictions by the thousand are a
 * reason for more than a quarter beyond what was held at once. */
static void
what_lives_bounds_them(void)
{
	struct sluice_space *s = cuda_test_space(DEVICE, 1024, "chunk=2M,large_chunk=2M");
	uint64_t *p;

	CHECK_OK(sl_region_alloc(s, 512 * MIB, TILE, (void **)&p));
	for (unsigned round = 0; round < 40; round++) {
		tiles_fill(s, p, 0, 20, round);
		CHECK(!t.standin || frames_mib() <= 40 + 40 / 4 + STAGING);
	}
	tiles_check(p, 20, 39);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* What is said to leave the device has its frames before anything does, as far as anything is used yet; less than
 * that changes nothing. */
static void
what_is_announced_is_made(void)
{
	struct sluice_space *s = cuda_test_space(3 * DEVICE, 256, "chunk=2M,large_chunk=2M");
	uint64_t *p, streams;

	CHECK_OK(sl_region_alloc(s, 512 * MIB, TILE, (void **)&p));
	sl_space_expect(s, 30 * MIB);
	frames_become(STAGING);
	streams = streams_made(); /* that of copies out among them */
	tiles_fill(s, p, 0, 20, 1);
	CHECK(!t.standin || frames_mib() == STAGING);
	sl_space_expect(s, 36 * MIB);
	frames_become(36 + STAGING);
	sl_space_expect(s, 20 * MIB);
	CHECK(!t.standin || frames_mib() == 36 + STAGING);
	sl_space_expect(s, UINT64_MAX);
	frames_become(40 + STAGING);
	tiles_fill(s, p, 20, 20, 1);
	frames_become(80 + STAGING);
	tiles_check(p, 40, 1);
	CHECK(streams_made() == streams);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* Asked for, they are there when the region is, and no launch makes one. */
static void
early_ones_are_there_with_the_region(void)
{
	struct sluice_space *s = cuda_test_space(DEVICE,
						 256, "chunk=2M,large_chunk=2M,host_pin=early");
	uint64_t *p, *more, made, streams;

	CHECK_OK(sluice_alloc(s, DEVICE / 2 * MIB, 0, (void **)&p));
	CHECK(!t.standin || frames_mib() == STAGING); /* it fits: what staging may hold */
	CHECK_OK(sluice_alloc(s, 80 * MIB, 0, (void **)&more));
	CHECK(!t.standin || frames_mib() == 80 - DEVICE / 2 + STAGING);
	made = makes();
	streams = streams_made();
	tiles_fill(s, p, 0, DEVICE / 4, 1);
	for (unsigned round = 1; round < 3; round++)
		tiles_fill(s, more, 0, 40, round);
	/* Nor memory of the device, nor the stream for copies out. */
	CHECK(makes() == made);
	CHECK(streams_made() == streams);
	CHECK(!t.standin || frames_mib() == 80 - DEVICE / 2 + STAGING);
	tiles_check(more, 40, 2);
	tiles_check(p, DEVICE / 4, 1);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_unmap(s, more));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
early_ones_stay_within_the_budget(void)
{
	struct sluice_space *s = cuda_test_space(DEVICE,
						 24, "chunk=2M,large_chunk=2M,host_pin=early");
	uint64_t *p;

	CHECK_OK(sluice_alloc(s, 256 * MIB, 0, (void **)&p));
	CHECK(!t.standin || frames_mib() == 24 + STAGING);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* What was held is kept for what comes next, though nothing was evicted in between. */
static void
those_that_come_back_are_kept(void)
{
	struct sluice_space *s = cuda_test_space(DEVICE, 256, "chunk=2M,large_chunk=2M");
	uint64_t *p, made = 0;

	for (unsigned round = 0; round < 3; round++) {
		CHECK_OK(sluice_alloc(s, 240 * MIB, 0, (void **)&p));
		tiles_fill(s, p, 0, 120, round);
		frames_become(240 - DEVICE + STAGING);
		if (round)
			CHECK(makes() == made);
		made = makes();
		tiles_check(p, 120, round);
		CHECK_OK(sluice_unmap(s, p));
	}
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
the_host_budget_bounds_them(void)
{
	struct sluice_space *s = cuda_test_space(DEVICE, 24, "chunk=2M,large_chunk=2M");
	uint64_t *p;

	CHECK_OK(sluice_alloc(s, 64 * MIB, 0, (void **)&p));
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 32; i++) {
			tiles_fill(s, p, i, 1, round);
			CHECK(!t.standin || frames_mib() <= 24 + STAGING + 2);
		}
	/* What is said while another thread takes a frame is one less: a later eviction says it anew. */
	for (unsigned i = 0; t.standin && i < 32 && frames_mib() != 24 + STAGING; i++)
		tiles_fill(s, p, i, 1, 1);
	frames_become(24 + STAGING);
	tiles_check(p, 32, 1);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* Each frame has its own, then. */
static void
addresses_for_many_are_refused(void)
{
	struct sluice_space *s = cuda_test_space(DEVICE, 256, "chunk=2M,large_chunk=2M");
	uint64_t *p;

	CHECK_OK(sl_fault_point_set("frame.addresses:1+"));
	CHECK_OK(sluice_alloc(s, 80 * MIB, 0, (void **)&p));
	tiles_fill(s, p, 0, 40, 1);
	frames_become(80 - DEVICE + STAGING);
	tiles_check(p, 40, 1);
	CHECK(!t.standin || sl_fault_point_fired() >= (80 - DEVICE) / 2);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
	CHECK_OK(sl_fault_point_set(NULL));
}

static void
they_go_when_there_is_less_room(void)
{
	struct sluice_space *s = cuda_test_space(DEVICE, 256, "chunk=2M,large_chunk=2M");
	uint64_t *p;

	CHECK_OK(sluice_alloc(s, 256 * MIB, 0, (void **)&p));
	tiles_fill(s, p, 0, DEVICE / 2 + 20, 1);
	frames_become(2 * 40 + STAGING);
	CHECK_OK(sluice_space_set_budget(s, SLUICE_TIER_HOST, 8 * MIB));
	tiles_fill(s, p, DEVICE / 2 + 20, 4, 1);
	frames_become(8 + STAGING);
	tiles_check(p, DEVICE / 2 + 24, 1);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* A smaller budget needs frames for what leaves: neither staging beside them, nor as many again. */
static void
giving_way_is_no_sign_of_more(void)
{
	struct sluice_space *s = cuda_test_space(5 * DEVICE, 256, "chunk=2M,large_chunk=2M");
	const struct timespec pause = {.tv_nsec = 100000000};
	uint64_t *p;

	CHECK_OK(sluice_alloc(s, 256 * MIB, 0, (void **)&p));
	tiles_fill(s, p, 0, 5 * DEVICE / 2, 1);
	CHECK_OK(sluice_space_set_budget(s, SLUICE_TIER_DEVICE, DEVICE * MIB));
	nanosleep(&pause, NULL); /* more would be made meanwhile */
	/* Of what leaves, a thread may just make one more when an eviction makes its own. */
	CHECK(!t.standin || frames_mib() >= 4 * DEVICE);
	CHECK(!t.standin || frames_mib() <= 4 * DEVICE + 4 * 2);
	tiles_check(p, 5 * DEVICE / 2, 1);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
sizes_share_the_room(void)
{
	struct sluice_space *s = cuda_test_space(DEVICE, 96, "chunk=2M,large_chunk=4M");
	uint64_t *small, *large;

	CHECK_OK(sluice_alloc(s, 24 * MIB, 0, (void **)&small));
	CHECK_OK(sluice_alloc(s, 80 * MIB, 0, (void **)&large));
	for (unsigned round = 0; round < 2; round++) {
		tiles_fill(s, small, 0, 12, round);
		tiles_fill(s, large, 0, 40, round);
		/* Free ones of the other size are kept up to staging, as ever. */
		CHECK(!t.standin || frames_mib() <= 96 + 2 * STAGING);
	}
	tiles_check(small, 12, 1);
	tiles_check(large, 40, 1);
	CHECK_OK(sluice_unmap(s, small));
	CHECK_OK(sluice_unmap(s, large));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* Frames of discarded contents are nobody's: they go, by and by, or at once where no thread can do it. */
static void
what_nobody_wants_is_given_back(int no_thread)
{
	struct sluice_space *s = cuda_test_space(256, 256, "chunk=2M,large_chunk=2M");
	uint64_t *p, word = cuda_test_word(&t);

	CHECK_OK(sluice_alloc(s, 160 * MIB, 0, (void **)&p));
	for (unsigned i = 0; i < 80; i++)
		for (uint64_t k = 0; k < WORDS; k += 512)
			p[i * WORDS + k] = k;
	for (unsigned i = 0; i < 80; i += 2)
		cuda_test_run(&t, s, NULL, TEST_SUM, p + i * WORDS, WORDS, word,
			      SLUICE_USE_READ);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(!t.standin || frames_mib() == 160);
	CHECK_OK(sl_fault_point_set(no_thread ? "thread.create:1" : NULL));
	CHECK_OK(sluice_discard(s, p, 160 * MIB, SLUICE_DISCARD_LAZY, NULL));
	CHECK_OK(sl_fault_point_set(NULL));
	if (no_thread)
		CHECK(!t.standin || frames_mib() == STAGING);
	frames_become(STAGING);
	tiles_fill(s, p, 0, 80, 1);
	tiles_check(p, 80, 1);
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
a_space_is_destroyed_while_they_are_made(void)
{
	for (int i = 0; i < 10; i++) {
		struct sluice_space *s = cuda_test_space(DEVICE, 256, NULL);
		uint64_t *p;

		CHECK_OK(sluice_alloc(s, 80 * MIB, 0, (void **)&p));
		tiles_fill(s, p, 0, DEVICE / 2 + 1, 1);
		CHECK_OK(sluice_unmap(s, p));
		CHECK_OK(sluice_space_destroy(s));
	}
}

int
main(void)
{
	cuda_test_open(&t);
	frames_are_made_ahead_and_then_used();
	what_lives_bounds_them();
	what_is_announced_is_made();
	early_ones_are_there_with_the_region();
	early_ones_stay_within_the_budget();
	those_that_come_back_are_kept();
	what_nobody_wants_is_given_back(0);
	what_nobody_wants_is_given_back(1);
	the_host_budget_bounds_them();
	addresses_for_many_are_refused();
	they_go_when_there_is_less_room();
	giving_way_is_no_sign_of_more();
	sizes_share_the_room();
	a_space_is_destroyed_while_they_are_made();
	cuda_test_close(&t, NULL);
	return 0;
}
