/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The promises of sluice/move.h but discard: prefetch, evict, pin, residency, prefetch by index,
 * advice; on the software device.
 */
#include "api.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void
prefetch_to_the_device_makes_the_launch_resident(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 4 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ);

	CHECK(sluice_prefetch(s, p, 4 * CHUNK, SLUICE_TIER_DEVICE, NULL) == 0);
	counter_wait(s, SLUICE_COUNTER_H2D_PREFETCH, 4 * CHUNK);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 4 * CHUNK);
	use(s, p, 4 * CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_READ_PREFETCH), 4 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_READ_DEMAND), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_H2D_LAUNCH), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_LAUNCHES_RESIDENT), 1);
	space_end(s);
}

static void
prefetch_to_the_host_reads_and_moves_nothing_to_the_device(void)
{
	struct sluice_space *s = space_make("host_budget=16M");
	const char *path = file_make("f", 4 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ);

	CHECK(sluice_prefetch(s, p, 4 * CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	counter_wait(s, SLUICE_COUNTER_STORE_READ_PREFETCH, 4 * CHUNK);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_HOST], 4 * CHUNK);
	CHECK_EQ(h2d(s), 0);
	use(s, p, 4 * CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(store_reads(s), 4 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_H2D_LAUNCH), 4 * CHUNK);
	space_end(s);
}

static void
prefetch_of_more_than_there_is_room_for_stays_within_the_budget(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 24 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ);

	CHECK(sluice_prefetch(s, p, 24 * CHUNK, SLUICE_TIER_DEVICE, NULL) == 0);
	use(s, p, CHUNK, SLUICE_USE_READ); /* a demand goes first, or between two chunks */
	space_sync(s);
	memory_expect(p, 24 * CHUNK, 1);
	CHECK(resident_peak(s, SLUICE_TIER_DEVICE) <= 8 * CHUNK);
	space_end(s);
}

/* Of eight chunks on the device the oldest is one that a prefetch has brought in. */
static void
prefetch_takes_what_was_used_before_what_was_asked_for(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 16 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ);

	CHECK(sluice_prefetch(s, p, CHUNK, SLUICE_TIER_DEVICE, NULL) == 0);
	counter_wait(s, SLUICE_COUNTER_H2D_PREFETCH, CHUNK);
	for (unsigned i = 1; i < 8; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK(sluice_prefetch(s, at_chunk(p, 8), CHUNK, SLUICE_TIER_DEVICE, NULL) == 0);
	counter_wait(s, SLUICE_COUNTER_H2D_PREFETCH, 2 * CHUNK);
	CHECK_EQ(residency(s, p, CHUNK).tier_bytes[SLUICE_TIER_DEVICE], CHUNK);
	CHECK_EQ(residency(s, at_chunk(p, 1), CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 0);

	/* Asked for again, and used: then it is like the others, and has been used last. */
	CHECK(sluice_prefetch(s, at_chunk(p, 2), CHUNK, SLUICE_TIER_DEVICE, NULL) == 0);
	CHECK(sluice_prefetch(s, at_chunk(p, 9), 5 * CHUNK, SLUICE_TIER_DEVICE, NULL) == 0);
	counter_wait(s, SLUICE_COUNTER_H2D_PREFETCH, 7 * CHUNK);
	CHECK_EQ(residency(s, p, CHUNK).tier_bytes[SLUICE_TIER_DEVICE], CHUNK);
	CHECK_EQ(residency(s, at_chunk(p, 2), CHUNK).tier_bytes[SLUICE_TIER_DEVICE], CHUNK);
	use(s, p, CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_LAUNCHES_RESIDENT), 1);
	CHECK(sluice_prefetch(s, at_chunk(p, 14), CHUNK, SLUICE_TIER_DEVICE, NULL) == 0);
	counter_wait(s, SLUICE_COUNTER_H2D_PREFETCH, 8 * CHUNK);
	CHECK_EQ(residency(s, p, CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 0);
	/* Nothing was used: the oldest goes all the same. */
	CHECK(sluice_prefetch(s, at_chunk(p, 15), CHUNK, SLUICE_TIER_DEVICE, NULL) == 0);
	counter_wait(s, SLUICE_COUNTER_H2D_PREFETCH, 9 * CHUNK);
	/* A launch takes the coldest, whoever asked for it. */
	use(s, at_chunk(p, 1), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(residency(s, at_chunk(p, 2), CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 0);
	space_end(s);
}

static void
prefetch_and_evict_keep_the_order_of_their_stream(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 4 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);
	struct sluice_stream *stream;
	struct gate gate;

	CHECK(sluice_stream_create(s, &stream) == 0);
	gate_close(&gate, s, stream);
	CHECK(sluice_prefetch(s, p, 2 * CHUNK, SLUICE_TIER_DEVICE, stream) == 0);
	CHECK_EQ(store_reads(s), 0);
	gate_open(&gate);
	CHECK(sluice_stream_synchronize(s, stream) == 0);
	counter_wait(s, SLUICE_COUNTER_H2D_PREFETCH, 2 * CHUNK);
	CHECK_EQ(residency(s, p, 2 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 2 * CHUNK);

	CHECK(sluice_stream_callback(s, stream, gate_wait, &gate) == 0);
	CHECK(sluice_evict(s, p, 2 * CHUNK, SLUICE_TIER_STORE, stream) == 0);
	CHECK_EQ(residency(s, p, 2 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 2 * CHUNK);
	gate_open(&gate);
	CHECK(sluice_stream_synchronize(s, stream) == 0);
	CHECK_EQ(residency(s, p, 2 * CHUNK).tier_bytes[SLUICE_TIER_STORE], 2 * CHUNK);
	sluice_stream_destroy(stream);
	space_end(s);
}

static void
evict_to_the_host_and_on_to_the_store_keeps_the_contents(void)
{
	struct sluice_space *s = space_make("host_budget=16M,writeback=16M");
	const char *path = file_make("f", 4 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_WRITE_ALL, 2);
	CHECK(sluice_evict(s, p, 4 * CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_D2H_REQUEST), 4 * CHUNK);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_HOST], 4 * CHUNK);
	CHECK_EQ(residency(s, p, 4 * CHUNK).dirty_bytes, 4 * CHUNK);
	CHECK_EQ(resident(s, SLUICE_TIER_DEVICE), 0);
	CHECK_EQ(store_writes(s), 0);
	CHECK(sluice_evict(s, p, 4 * CHUNK, SLUICE_TIER_STORE, NULL) == 0);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_STORE], 4 * CHUNK);
	CHECK_EQ(residency(s, p, 4 * CHUNK).dirty_bytes, 0);
	CHECK_EQ(resident(s, SLUICE_TIER_HOST), 0);
	CHECK_EQ(store_writes(s), 4 * CHUNK);
	file_expect(path, 0, 4 * CHUNK, 2, 0);
	memory_expect(p, 4 * CHUNK, 2);
	CHECK_EQ(counter(s, SLUICE_COUNTER_EVICTIONS), 0); /* nothing had to make room */
	space_end(s);
}

static void
evict_of_clean_data_copies_nothing(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 4 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	use(s, p, 4 * CHUNK, SLUICE_USE_READ);
	CHECK(sluice_evict(s, p, 4 * CHUNK, SLUICE_TIER_STORE, NULL) == 0);
	CHECK_EQ(d2h(s), 0);
	CHECK_EQ(store_writes(s), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_CLEAN_DROP), 4 * CHUNK);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_STORE], 4 * CHUNK);
	space_end(s);
}

static void
wrong_tiers_and_ranges_are_refused(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, 4 * CHUNK);
	struct sluice_residency where;
	uint64_t zero = 0;

	CHECK_FAILS(sluice_prefetch(s, p, CHUNK, SLUICE_TIER_STORE, NULL), -EINVAL,
		    "prefetch");
	CHECK_FAILS(sluice_evict(s, p, CHUNK, SLUICE_TIER_DEVICE, NULL), -EINVAL, "evict");
	CHECK_FAILS(sluice_prefetch(s, p, 5 * CHUNK, SLUICE_TIER_DEVICE, NULL), -ENOENT,
		    "past the end");
	CHECK_FAILS(sluice_evict(s, &zero, 8, SLUICE_TIER_HOST, NULL), -ENOENT, "no region");
	CHECK_FAILS(sluice_pin(s, p - 1, 8), -ENOENT, "pin");
	CHECK_FAILS(sluice_residency(s, p + 4 * CHUNK, 1, &where), -ENOENT, "residency");
	CHECK_FAILS(sluice_advise(s, p, CHUNK, SLUICE_ADVISE_COUNT), -EINVAL, "advice");
	CHECK_FAILS(sluice_prefetch_index(s, p, 0, &zero, 1, SLUICE_TIER_DEVICE, NULL),
		    -EINVAL, "element");
	space_end(s);
}

static void
pinned_data_stay_under_pressure(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 32 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ);

	CHECK(sluice_pin(s, p, 3 * CHUNK) == 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_H2D_PREFETCH), 3 * CHUNK);
	for (uint64_t i = 3; i < 32; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(residency(s, p, 3 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 3 * CHUNK);
	CHECK_EQ(residency(s, p, 32 * CHUNK).pinned_bytes, 3 * CHUNK);
	CHECK(sluice_evict(s, p, 3 * CHUNK, SLUICE_TIER_STORE, NULL) == 0); /* pinned: stay */
	CHECK_EQ(residency(s, p, 3 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 3 * CHUNK);
	memory_expect(p, 3 * CHUNK, 1);
	CHECK_EQ(counter(s, SLUICE_COUNTER_CPU_FAULTS), 0);
	CHECK(sluice_unpin(s, p, 3 * CHUNK) == 0);
	for (uint64_t i = 3; i < 32; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(residency(s, p, 3 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 0);
	space_end(s);
}

static void
pins_count(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, 4 * CHUNK);

	CHECK(sluice_pin(s, p, 2 * CHUNK) == 0);
	CHECK(sluice_pin(s, at_chunk(p, 1), CHUNK) == 0);
	CHECK(sluice_unpin(s, p, 2 * CHUNK) == 0);
	CHECK_EQ(residency(s, p, 4 * CHUNK).pinned_bytes, CHUNK);
	CHECK_FAILS(sluice_unpin(s, p, 2 * CHUNK), -EINVAL, "not pinned"); /* changes nothing */
	CHECK_EQ(residency(s, p, 4 * CHUNK).pinned_bytes, CHUNK);
	CHECK_FAILS(sluice_unmap(s, p), -EBUSY, "pinned");
	CHECK_FAILS(sluice_discard(s, p, 4 * CHUNK, SLUICE_DISCARD_EAGER, NULL), -EBUSY,
		    "pinned");
	CHECK(sluice_unpin(s, at_chunk(p, 1), CHUNK) == 0);
	CHECK(sluice_unmap(s, p) == 0);
	space_end(s);
}

static void
pins_leave_two_chunks_of_the_budget_and_fail_whole(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, 16 * CHUNK);

	CHECK_FAILS(sluice_pin(s, p, 7 * CHUNK), -ENOBUFS, "pin");
	CHECK_EQ(residency(s, p, 16 * CHUNK).pinned_bytes, 0);
	CHECK(sluice_pin(s, p, 6 * CHUNK) == 0);
	memory_fill(p, 16 * CHUNK, 1); /* the other two are enough to go on */
	memory_expect(p, 16 * CHUNK, 1);
	CHECK(sluice_unpin(s, p, 6 * CHUNK) == 0);
	space_end(s);
}

static void
writes_to_pinned_data_are_kept(void)
{
	struct sluice_space *s = space_make("host_budget=16M");
	const char *path = file_make("f", 8 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	use(s, p, 2 * CHUNK, SLUICE_USE_READ);
	CHECK(sluice_pin(s, p, 2 * CHUNK) == 0);
	memory_fill(p, 2 * CHUNK, 2);
	CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0);
	file_expect(path, 0, 2 * CHUNK, 2, 0);
	memory_fill(p, CHUNK, 3); /* again, after the sync guarded it */
	CHECK(sluice_unpin(s, p, 2 * CHUNK) == 0);
	CHECK(sluice_evict(s, p, 2 * CHUNK, SLUICE_TIER_STORE, NULL) == 0);
	file_expect(path, 0, CHUNK, 3, 0);
	space_end(s);
}

static void
residency_sums_to_the_range_wherever_it_is_cut(void)
{
	struct sluice_space *s = space_make("host_budget=4M");
	const char *path = file_make("f", 16 * CHUNK + 777, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);
	struct sluice_residency r;

	CHECK(sluice_discard(s, at_chunk(p, 1), CHUNK, SLUICE_DISCARD_EAGER, NULL) == 0);
	use(s, at_chunk(p, 2), 4 * CHUNK, SLUICE_USE_READ);
	use(s, at_chunk(p, 6), 8 * CHUNK, SLUICE_USE_READ_WRITE);
	space_sync(s);
	for (uint64_t begin = 0; begin < 2 * CHUNK; begin += CHUNK / 2 + 333) {
		uint64_t size = 16 * CHUNK + 777 - begin;

		r = residency(s, p + begin, size);
		CHECK_EQ(r.tier_bytes[0] + r.tier_bytes[1] + r.tier_bytes[2] + r.empty_bytes,
			 size);
	}
	r = residency(s, p, 16 * CHUNK + 777);
	CHECK_EQ(r.tier_bytes[SLUICE_TIER_DEVICE], 8 * CHUNK);
	CHECK_EQ(r.dirty_bytes, 8 * CHUNK);
	CHECK_EQ(r.empty_bytes, CHUNK);
	CHECK_EQ(r.tier_bytes[SLUICE_TIER_HOST], 2 * CHUNK);
	space_end(s);
}

static void
residency_counts_pages_where_population_is_by_page(void)
{
	struct sluice_space *s = space_make("population=page");
	const char *path = file_make("f", 4 * CHUNK, 1);
	volatile char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);
	struct sluice_residency r;

	(void)p[0];
	(void)p[7 * PAGE];
	p[9 * PAGE] = 1;
	r = residency(s, (void *)(uintptr_t)p, CHUNK);
	CHECK_EQ(r.tier_bytes[SLUICE_TIER_DEVICE], 3 * PAGE);
	CHECK_EQ(r.tier_bytes[SLUICE_TIER_STORE], CHUNK - 3 * PAGE);
	CHECK_EQ(r.dirty_bytes, PAGE);
	CHECK_EQ(resident(s, SLUICE_TIER_DEVICE), 3 * PAGE);
	CHECK_EQ(store_reads(s), 3 * PAGE);
	space_end(s);
}

static void
index_prefetch_fetches_the_touched_chunks_once(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 16 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ);
	/* elements of 1000 bytes: chunks 0, 3, 9, and one element on the border of 1 and 2 */
	uint64_t index[] = {
		9 * CHUNK / 1000 + 1, 0, 3 * CHUNK / 1000 + 1, 5, 5, 2 * CHUNK / 1000,
		9 * CHUNK / 1000 + 2};

	CHECK(sluice_prefetch_index(s, p, 1000, index, 7, SLUICE_TIER_DEVICE, NULL) == 0);
	counter_wait(s, SLUICE_COUNTER_H2D_PREFETCH, 5 * CHUNK);
	for (uint64_t i = 0; i < 16; i++)
		CHECK_EQ(residency(s, at_chunk(p, i), CHUNK).tier_bytes[SLUICE_TIER_DEVICE],
			 i <= 3 || i == 9 ? CHUNK : 0);
	CHECK_EQ(store_reads(s), 5 * CHUNK);
	space_end(s);
}

static void
index_beyond_the_region_is_named_and_nothing_is_fetched(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 4 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ);
	uint64_t index[] = {1, 4 * CHUNK / 64};

	CHECK_FAILS(sluice_prefetch_index(s, p, 64, index, 2, SLUICE_TIER_DEVICE, NULL),
		    -EINVAL, "131072");
	space_sync(s);
	CHECK_EQ(store_reads(s), 0);
	index[1]--;
	CHECK(sluice_prefetch_index(s, p, 64, index, 2, SLUICE_TIER_DEVICE, NULL) == 0);
	counter_wait(s, SLUICE_COUNTER_H2D_PREFETCH, 2 * CHUNK);
	space_end(s);
}

static void
indices_are_read_before_the_call_returns(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 8 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ);
	struct sluice_stream *stream;
	uint64_t index[] = {5};
	struct gate gate;

	CHECK(sluice_stream_create(s, &stream) == 0);
	gate_close(&gate, s, stream);
	CHECK(sluice_prefetch_index(s, p, CHUNK, index, 1, SLUICE_TIER_DEVICE, stream) == 0);
	index[0] = 2;
	gate_open(&gate);
	CHECK(sluice_stream_synchronize(s, stream) == 0);
	counter_wait(s, SLUICE_COUNTER_H2D_PREFETCH, CHUNK);
	CHECK_EQ(residency(s, at_chunk(p, 5), CHUNK).tier_bytes[SLUICE_TIER_DEVICE], CHUNK);
	sluice_stream_destroy(stream);
	space_end(s);
}

static void
what_is_not_needed_goes_first_and_keeps_its_contents(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 16 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	for (uint64_t i = 0; i < 8; i++)
		launch(s, KERNEL_ADD, at_chunk(p, i), CHUNK, SLUICE_USE_READ_WRITE, 1);
	space_sync(s);
	CHECK(sluice_advise(s, at_chunk(p, 7), CHUNK, SLUICE_ADVISE_DONT_NEED) == 0);
	use(s, at_chunk(p, 8), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(residency(s, at_chunk(p, 7), CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 0);
	CHECK_EQ(residency(s, p, 7 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 7 * CHUNK);
	CHECK(*(uint64_t *)(void *)at_chunk(p, 7) == pattern(1, 7 * CHUNK / 8) + 1);
	space_end(s);
}

static void
use_takes_the_advice_not_needed_back(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 16 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	for (uint64_t i = 0; i < 8; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK(sluice_advise(s, p, CHUNK, SLUICE_ADVISE_DONT_NEED) == 0);
	CHECK(sluice_pin(s, p, CHUNK) == 0);
	CHECK(sluice_unpin(s, p, CHUNK) == 0);
	use(s, at_chunk(p, 8), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(residency(s, p, CHUNK).tier_bytes[SLUICE_TIER_DEVICE], CHUNK);
	CHECK_EQ(residency(s, at_chunk(p, 1), CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 0);
	space_end(s);
}

static void
read_mostly_data_keep_their_host_copy_longer(void)
{
	struct sluice_space *s = space_make("device_budget=16M,host_budget=4M");
	const char *one = file_make("one", CHUNK, 1), *two = file_make("two", CHUNK, 2);
	const char *three = file_make("three", CHUNK, 3);
	char *p = region_map(s, one, 0, 0, SLUICE_READ);
	char *q = region_map(s, two, 0, 0, SLUICE_READ);
	char *r = region_map(s, three, 0, 0, SLUICE_READ);

	CHECK(sluice_advise(s, p, CHUNK, SLUICE_ADVISE_READ_MOSTLY) == 0);
	use(s, p, CHUNK, SLUICE_USE_READ);
	use(s, q, CHUNK, SLUICE_USE_READ);
	use(s, r, CHUNK, SLUICE_USE_READ); /* room for two copies: the second read goes */
	space_sync(s);
	CHECK(sluice_evict(s, p, CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	CHECK(sluice_evict(s, q, CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	CHECK_EQ(residency(s, p, CHUNK).tier_bytes[SLUICE_TIER_HOST], CHUNK);
	CHECK_EQ(residency(s, q, CHUNK).tier_bytes[SLUICE_TIER_STORE], CHUNK);
	CHECK_EQ(d2h(s), 0);
	space_end(s);
}

static void
random_advice_brings_pages_and_normal_advice_chunks(void)
{
	struct sluice_space *s = space_make("readahead_chunks=8");
	const char *path = file_make("f", 16 * CHUNK, 1);
	volatile uint64_t *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	CHECK(sluice_advise(s, (void *)(uintptr_t)p, SLUICE_TO_END, SLUICE_ADVISE_RANDOM) ==
	      0);
	for (uint64_t i = 0; i < 16; i++)
		CHECK(p[i * CHUNK / 8 + 5] == pattern(1, i * CHUNK / 8 + 5));
	CHECK_EQ(store_reads(s), 16 * PAGE);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_READ_AHEAD), 0);
	p[0] = 42;
	CHECK(sluice_advise(s, (void *)(uintptr_t)p, SLUICE_TO_END, SLUICE_ADVISE_NORMAL) ==
	      0);
	CHECK(p[0] == 42);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_READ_DEMAND), 16 * PAGE + CHUNK);
	CHECK(sluice_unmap(s, (void *)(uintptr_t)p) == 0);
	CHECK(file_byte(path, 0) == 42);
	space_end(s);
}

static void
will_need_prefetches_to_the_host(void)
{
	struct sluice_space *s = space_make("host_budget=16M");
	const char *path = file_make("f", 4 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ);

	CHECK(sluice_advise(s, at_chunk(p, 1), 2 * CHUNK, SLUICE_ADVISE_WILL_NEED) == 0);
	counter_wait(s, SLUICE_COUNTER_STORE_READ_PREFETCH, 2 * CHUNK);
	CHECK_EQ(residency(s, at_chunk(p, 1), 2 * CHUNK).tier_bytes[SLUICE_TIER_HOST],
		 2 * CHUNK);
	space_end(s);
}

static void
range_of_no_bytes_is_left_alone_by_every_call(void)
{
	static const enum sluice_advice advices[] = {SLUICE_ADVISE_RANDOM,
						     SLUICE_ADVISE_DONT_NEED};
	struct sluice_space *s = space_make("host_budget=8M");
	char *p = region_alloc(s, 4 * CHUNK), *at = p + CHUNK + PAGE;
	struct sluice_residency before, now;

	memory_fill(p, 4 * CHUNK, 3);
	before = residency(s, p, 4 * CHUNK);
	for (int mode = SLUICE_DISCARD_EAGER; mode <= SLUICE_DISCARD_LAZY; mode++)
		CHECK(sluice_discard(s, at, 0, (enum sluice_discard_mode)mode, NULL) == 0);
	for (size_t i = 0; i < sizeof(advices) / sizeof(advices[0]); i++)
		CHECK(sluice_advise(s, at, 0, advices[i]) == 0);
	CHECK(sluice_evict(s, at, 0, SLUICE_TIER_STORE, NULL) == 0);
	CHECK(sluice_prefetch(s, at, 0, SLUICE_TIER_HOST, NULL) == 0);
	CHECK(sluice_pin(s, at, 0) == 0);
	CHECK(sluice_unpin(s, at, 0) == 0);
	CHECK(sluice_sync(s, at, 0) == 0);
	CHECK(sluice_residency(s, at, 0, &now) == 0);
	CHECK_EQ(now.tier_bytes[0] + now.tier_bytes[1] + now.tier_bytes[2] + now.empty_bytes,
		 0);
	now = residency(s, p, 4 * CHUNK);
	CHECK(memcmp(&before, &now, sizeof(now)) == 0);
	memory_expect(p, 4 * CHUNK, 3);
	CHECK_FAILS(sluice_discard(s, p + 4 * CHUNK, 0, SLUICE_DISCARD_LAZY, NULL),
		    -ENOENT, "discard");
	space_end(s);
}

static void
range_to_the_end_is_taken_by_every_call(void)
{
	struct sluice_space *s = space_make("host_budget=8M");
	char *p = region_alloc(s, 4 * CHUNK), *at = p + CHUNK;
	struct sluice_use use = {at, SLUICE_TO_END, SLUICE_USE_READ};
	struct sluice_residency now;

	memory_fill(p, 4 * CHUNK, 3);
	CHECK(sluice_pin(s, at, SLUICE_TO_END) == 0);
	CHECK_EQ(residency(s, p, SLUICE_TO_END).pinned_bytes, 3 * CHUNK);
	CHECK(sluice_unpin(s, at, SLUICE_TO_END) == 0);
	CHECK(sluice_evict(s, at, SLUICE_TO_END, SLUICE_TIER_HOST, NULL) == 0);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], CHUNK);
	CHECK(launch_uses(s, &use, 1) == 0);
	space_sync(s);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 4 * CHUNK);
	CHECK(sluice_discard(s, at, SLUICE_TO_END, SLUICE_DISCARD_EAGER, NULL) == 0);
	CHECK(sluice_residency(s, at, SLUICE_TO_END, &now) == 0);
	CHECK_EQ(now.empty_bytes, 3 * CHUNK);
	CHECK(sluice_sync(s, at, SLUICE_TO_END) == 0);
	memory_expect(p, CHUNK, 3);
	memory_expect_zeros(at, 3 * CHUNK);
	space_end(s);
}

static const struct api_case cases[] = {
	CASE(prefetch_to_the_device_makes_the_launch_resident),
	CASE(prefetch_to_the_host_reads_and_moves_nothing_to_the_device),
	CASE(prefetch_of_more_than_there_is_room_for_stays_within_the_budget),
	CASE(prefetch_takes_what_was_used_before_what_was_asked_for),
	CASE(prefetch_and_evict_keep_the_order_of_their_stream),
	CASE(evict_to_the_host_and_on_to_the_store_keeps_the_contents),
	CASE(evict_of_clean_data_copies_nothing),
	CASE(wrong_tiers_and_ranges_are_refused),
	CASE(pinned_data_stay_under_pressure),
	CASE(pins_count),
	CASE(pins_leave_two_chunks_of_the_budget_and_fail_whole),
	CASE(writes_to_pinned_data_are_kept),
	CASE(residency_sums_to_the_range_wherever_it_is_cut),
	CASE(residency_counts_pages_where_population_is_by_page),
	CASE(index_prefetch_fetches_the_touched_chunks_once),
	CASE(index_beyond_the_region_is_named_and_nothing_is_fetched),
	CASE(indices_are_read_before_the_call_returns),
	CASE(what_is_not_needed_goes_first_and_keeps_its_contents),
	CASE(use_takes_the_advice_not_needed_back),
	CASE(read_mostly_data_keep_their_host_copy_longer),
	CASE(random_advice_brings_pages_and_normal_advice_chunks),
	CASE(will_need_prefetches_to_the_host),
	CASE(range_of_no_bytes_is_left_alone_by_every_call),
	CASE(range_to_the_end_is_taken_by_every_call),
};
API_MAIN(cases)
