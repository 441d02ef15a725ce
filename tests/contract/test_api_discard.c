/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discard: what declared dead contents save, when they go, what revives them, and that only what
 * was declared dead is lost; on the software device.
 */
#include "api.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static void
discarded_data_are_copied_nowhere(void)
{
	for (int lazy = 0; lazy < 2; lazy++) {
		struct sluice_space *s = space_make("host_budget=16M");
		char *p = region_alloc(s, 8 * CHUNK), *q = pressure_make(s);

		launch(s, KERNEL_FILL, p, 8 * CHUNK, SLUICE_USE_WRITE_ALL, 1);
		CHECK(sluice_discard(s, p, 8 * CHUNK,
				     lazy ? SLUICE_DISCARD_LAZY : SLUICE_DISCARD_EAGER,
				     NULL) == 0);
		CHECK_EQ(counter(s, SLUICE_COUNTER_DISCARDS), 8 * CHUNK);
		press(s, q, 16);
		CHECK_EQ(d2h(s), 0);
		CHECK_EQ(store_writes(s), 0);
		CHECK_EQ(residency(s, p, 8 * CHUNK).empty_bytes, 8 * CHUNK);
		memory_expect_zeros(p, CHUNK);
		space_end(s);
	}
}

static void
eager_discard_unmaps_at_once_and_a_later_write_is_kept(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, 4 * CHUNK), *q = pressure_make(s);

	launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_WRITE_ALL, 1);
	CHECK(sluice_discard(s, p, 4 * CHUNK, SLUICE_DISCARD_EAGER, NULL) == 0);
	CHECK_EQ(resident(s, SLUICE_TIER_DEVICE), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_DISCARD_SAVED), 4 * CHUNK);
	memory_expect_zeros(p, 2 * CHUNK);
	memory_fill(p, CHUNK, 2);
	press(s, q, 16);
	memory_expect(p, CHUNK, 2);
	memory_expect_zeros(at_chunk(p, 1), 3 * CHUNK);
	space_end(s);
}

static void
lazy_discard_stays_mapped_until_the_room_is_needed(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, 4 * CHUNK), *q = pressure_make(s);

	launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_WRITE_ALL, 1);
	CHECK(sluice_discard(s, p, 4 * CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
	CHECK_EQ(resident(s, SLUICE_TIER_DEVICE), 4 * CHUNK);
	memory_expect(p, 4 * CHUNK, 1); /* an older value of the same range: allowed, free */
	CHECK_EQ(counter(s, SLUICE_COUNTER_CPU_FAULTS), 0);
	press(s, q, 4);
	CHECK_EQ(residency(s, p, 4 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 4 * CHUNK);
	press(s, at_chunk(q, 4), 1);
	CHECK_EQ(resident(s, SLUICE_TIER_DEVICE), 8 * CHUNK);
	CHECK_EQ(residency(s, p, CHUNK).empty_bytes, CHUNK);
	space_end(s);
}

static void
discarded_chunks_go_before_used_ones_first_in_first_out(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, 16 * CHUNK);

	for (uint64_t i = 0; i < 8; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_WRITE_ALL);
	space_sync(s);
	CHECK(sluice_discard(s, at_chunk(p, 5), CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
	CHECK(sluice_discard(s, at_chunk(p, 3), CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
	use(s, at_chunk(p, 8), CHUNK, SLUICE_USE_WRITE_ALL);
	space_sync(s);
	CHECK_EQ(residency(s, at_chunk(p, 5), CHUNK).empty_bytes, CHUNK);
	CHECK_EQ(residency(s, at_chunk(p, 3), CHUNK).empty_bytes, 0);
	use(s, at_chunk(p, 9), CHUNK, SLUICE_USE_WRITE_ALL);
	space_sync(s);
	CHECK_EQ(residency(s, at_chunk(p, 3), CHUNK).empty_bytes, CHUNK);
	CHECK_EQ(d2h(s), 0);
	use(s, at_chunk(p, 10), CHUNK, SLUICE_USE_WRITE_ALL);
	space_sync(s);
	CHECK_EQ(d2h(s), CHUNK); /* now the coldest in use */
	CHECK_EQ(residency(s, p, CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 0);
	space_end(s);
}

static void
write_launch_revives_what_was_lazily_discarded(void)
{
	static const enum sluice_intent intents[] = {SLUICE_USE_WRITE, SLUICE_USE_READ_WRITE,
						     SLUICE_USE_WRITE_ALL};

	for (int k = 0; k < 3; k++) {
		struct sluice_space *s = space_make("host_budget=16M");
		char *p = region_alloc(s, 4 * CHUNK), *q = pressure_make(s);

		launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_WRITE_ALL, 1);
		CHECK(sluice_discard(s, p, 4 * CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
		launch(s, KERNEL_FILL, p, 4 * CHUNK, intents[k], 2);
		space_sync(s);
		CHECK_EQ(counter(s, SLUICE_COUNTER_ZERO_FILL), 4 * CHUNK); /* only the first time */
		press(s, q, 16);
		CHECK_EQ(d2h(s), 4 * CHUNK);
		memory_expect(p, 4 * CHUNK, 2);
		space_end(s);
	}
}

static void
prefetch_revives_what_was_lazily_discarded(void)
{
	struct sluice_space *s = space_make("host_budget=16M");
	char *p = region_alloc(s, 4 * CHUNK), *q = pressure_make(s);

	launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_WRITE_ALL, 1);
	CHECK(sluice_discard(s, p, 4 * CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
	CHECK(sluice_prefetch(s, p, 4 * CHUNK, SLUICE_TIER_DEVICE, NULL) == 0);
	memory_fill(p, 4 * CHUNK, 2); /* right after the call: must be kept */
	press(s, q, 16);
	memory_expect(p, 4 * CHUNK, 2);
	space_end(s);
}

static void
copies_in_host_memory_and_in_the_spill_file_go_too(void)
{
	struct sluice_space *s = space_make("device_budget=4M,host_budget=8M");
	char *p = region_alloc(s, 16 * CHUNK);
	uint64_t writes;

	for (uint64_t i = 0; i < 16; i++)
		launch(s, KERNEL_FILL, at_chunk(p, i), CHUNK, SLUICE_USE_WRITE_ALL, i);
	space_sync(s);
	CHECK_EQ(resident(s, SLUICE_TIER_STORE), 10 * CHUNK);
	CHECK_EQ(resident(s, SLUICE_TIER_HOST), 4 * CHUNK);
	writes = store_writes(s);
	CHECK(sluice_discard(s, p, 16 * CHUNK, SLUICE_DISCARD_EAGER, NULL) == 0);
	CHECK_EQ(resident(s, SLUICE_TIER_STORE), 0);
	CHECK_EQ(resident(s, SLUICE_TIER_HOST), 0);
	CHECK_EQ(resident(s, SLUICE_TIER_DEVICE), 0);
	CHECK_EQ(store_writes(s), writes);
	memory_expect_zeros(p, 16 * CHUNK);
	space_end(s);
}

static void
discarded_part_of_a_file_is_not_written_and_reads_as_zeros(void)
{
	struct sluice_space *s = space_make("host_budget=16M,writeback=16M");
	const char *path = file_make("f", 4 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_WRITE_ALL, 2);
	CHECK(sluice_evict(s, p, CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	CHECK(sluice_discard(s, p, 2 * CHUNK, SLUICE_DISCARD_EAGER, NULL) == 0);
	memory_expect_zeros(p, PAGE);
	CHECK(sluice_discard(s, p, CHUNK, SLUICE_DISCARD_EAGER, NULL) == 0);
	CHECK(sluice_unmap(s, p) == 0);
	file_expect(path, CHUNK, CHUNK, 1, CHUNK / 8);
	file_expect(path, 2 * CHUNK, 2 * CHUNK, 2, 2 * CHUNK / 8);
	space_end(s);
}

static void
chunk_dies_with_its_last_live_page(void)
{
	struct sluice_space *s = space_make("host_budget=16M");
	char *p = region_alloc(s, 2 * CHUNK), *q = pressure_make(s);

	launch(s, KERNEL_FILL, p, 2 * CHUNK, SLUICE_USE_WRITE_ALL, 1);
	space_sync(s);
	/* chunk 0: everything but one page; chunk 1: everything, in three parts out of order */
	CHECK(sluice_discard(s, p, 7 * PAGE, SLUICE_DISCARD_LAZY, NULL) == 0);
	CHECK(sluice_discard(s, p + 8 * PAGE, CHUNK - 8 * PAGE, SLUICE_DISCARD_LAZY,
			     NULL) == 0);
	CHECK(sluice_discard(s, at_chunk(p, 1) + 100 * PAGE, CHUNK - 100 * PAGE,
			     SLUICE_DISCARD_LAZY, NULL) == 0);
	CHECK(sluice_discard(s, at_chunk(p, 1), 50 * PAGE, SLUICE_DISCARD_LAZY, NULL) == 0);
	CHECK(sluice_discard(s, at_chunk(p, 1) + 40 * PAGE, 60 * PAGE,
			     SLUICE_DISCARD_LAZY, NULL) == 0);
	press(s, q, 16);
	CHECK_EQ(d2h(s), CHUNK);
	CHECK_EQ(residency(s, at_chunk(p, 1), CHUNK).empty_bytes, CHUNK);
	for (uint64_t i = 7 * PAGE / 8; i < 8 * PAGE / 8; i++)
		CHECK(((uint64_t *)(void *)p)[i] == pattern(1, i));
	space_end(s);
}

static void
page_that_is_covered_in_part_stays_alive(void)
{
	struct sluice_space *s = space_make("host_budget=16M");
	char *p = region_alloc(s, CHUNK), *q = pressure_make(s);

	launch(s, KERNEL_FILL, p, CHUNK, SLUICE_USE_WRITE_ALL, 1);
	space_sync(s);
	CHECK(sluice_discard(s, p + 8, CHUNK - 8, SLUICE_DISCARD_EAGER, NULL) == 0);
	press(s, q, 16);
	CHECK_EQ(d2h(s), CHUNK);
	CHECK(*(uint64_t *)(void *)p == pattern(1, 0));
	space_end(s);
}

static void
last_chunk_dies_with_the_bytes_that_the_region_has(void)
{
	struct sluice_space *s = space_make("host_budget=16M");
	char *p = region_alloc(s, CHUNK + 100), *q = pressure_make(s);

	launch(s, KERNEL_FILL, p, CHUNK + 96, SLUICE_USE_WRITE, 1);
	space_sync(s);
	CHECK(sluice_discard(s, at_chunk(p, 1), 100, SLUICE_DISCARD_LAZY, NULL) == 0);
	press(s, q, 16);
	CHECK_EQ(d2h(s), CHUNK);
	memory_expect(p, CHUNK, 1);
	space_end(s);
}

static void
write_to_an_eagerly_discarded_page_keeps_its_chunk_alive(void)
{
	static const char *const configs[] = {"host_budget=16M",
					      "host_budget=16M,population=page",
					      "host_budget=16M,population=grow"};

	for (int k = 0; k < 3; k++) {
		struct sluice_space *s = space_make(configs[k]);
		char *p = region_alloc(s, CHUNK), *q = pressure_make(s);

		memory_fill(p, CHUNK, 1);
		CHECK(sluice_discard(s, p, CHUNK / 2, SLUICE_DISCARD_EAGER, NULL) == 0);
		p[3 * PAGE] = 77; /* lives again */
		CHECK(sluice_discard(s, p + CHUNK / 2, CHUNK / 2, SLUICE_DISCARD_EAGER,
				     NULL) == 0);
		press(s, q, 16);
		if (p[3 * PAGE] != 77)
			api_failed(configs[k], 0, "the write is kept");
		space_end(s);
	}
}

/* A launch writes the living half, on the device or brought back to it; then host code a dead page. */
static void
write_to_an_eagerly_discarded_page_counts_behind_a_launch_on_the_others(void)
{
	for (int away = 0; away < 2; away++) {
		struct sluice_space *s = space_make("host_budget=16M");
		char *p = region_alloc(s, CHUNK), *q = pressure_make(s);

		launch(s, KERNEL_FILL, p, CHUNK, SLUICE_USE_WRITE_ALL, 1);
		space_sync(s);
		CHECK(sluice_discard(s, p, CHUNK / 2, SLUICE_DISCARD_EAGER, NULL) == 0);
		if (away)
			press(s, q, 16);
		launch(s, KERNEL_FILL, p + CHUNK / 2, CHUNK / 2, SLUICE_USE_READ_WRITE, 2);
		space_sync(s);
		p[3 * PAGE] = 77;
		CHECK(sluice_discard(s, p + CHUNK / 2, CHUNK / 2, SLUICE_DISCARD_EAGER,
				     NULL) == 0);
		press(s, q, 16);
		CHECK_EQ(p[3 * PAGE], 77);
		space_end(s);
	}
}

struct copy_args {
	char *from, *to;
};

/* Eight words only: each may cost a chunk's move in and out. */
static void
kernel_pick(const struct sluice_block *block, void *args)
{
	const struct copy_args *a = args;

	(void)block;
	for (int i = 0; i < 8; i++)
		((volatile uint64_t *)(void *)a->to)[i] =
			((const volatile uint64_t *)(const void *)a->from)[i];
}

static void
wrong_discards_are_refused(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, 2 * CHUNK);
	int local;

	CHECK_FAILS(sluice_discard(s, &local, 4, SLUICE_DISCARD_LAZY, NULL), -ENOENT,
		    "no region");
	CHECK_FAILS(sluice_discard(s, p, 3 * CHUNK, SLUICE_DISCARD_LAZY, NULL), -ENOENT,
		    "past the end");
	CHECK_FAILS(sluice_discard(s, p, CHUNK, (enum sluice_discard_mode)7, NULL),
		    -EINVAL, "mode");
	CHECK(sluice_pin(s, p, CHUNK) == 0);
	memory_fill(p, CHUNK, 1);
	CHECK_FAILS(sluice_discard(s, p, 2 * CHUNK, SLUICE_DISCARD_EAGER, NULL), -EBUSY,
		    "pinned");
	memory_expect(p, CHUNK, 1);
	CHECK(sluice_discard(s, p, CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
	CHECK(sluice_unpin(s, p, CHUNK) == 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_DISCARDS), CHUNK);
	space_end(s);
}

static void
discarded_memory_never_shows_another_regions_bytes(void)
{
	struct sluice_space *s = space_make("device_budget=8M,host_budget=8M");
	const char *path = file_make("secret", 8 * CHUNK, 99);
	char *secret = region_map(s, path, 0, 0, SLUICE_READ);
	char *p = region_alloc(s, 4 * CHUNK);

	for (uint64_t round = 1; round < 6; round++) {
		launch(s, KERNEL_FILL, p, 3 * CHUNK, SLUICE_USE_WRITE_ALL, round);
		CHECK(sluice_discard(s, p, 4 * CHUNK,
				     round % 2 ? SLUICE_DISCARD_LAZY : SLUICE_DISCARD_EAGER,
				     NULL) == 0);
		memory_expect(secret, 8 * CHUNK, 99);
		for (uint64_t i = 0; i < 4 * CHUNK / 8; i++) {
			uint64_t word = ((volatile uint64_t *)(void *)p)[i];
			int mine = word == 0;

			for (uint64_t r = 1; r <= round; r++)
				mine |= word == pattern(r, i);
			CHECK(mine);
		}
	}
	space_end(s);
}

/* Two launches prepared at once on the same data: the gate holds the first back. */
static void
write_behind_a_scratch_use_of_the_same_data_is_kept(void)
{
	struct sluice_space *s = space_make("host_budget=16M");
	char *p = region_alloc(s, 2 * CHUNK), *q = pressure_make(s);
	struct gate gate;

	launch(s, KERNEL_FILL, p, 2 * CHUNK, SLUICE_USE_WRITE_ALL, 1);
	gate_close(&gate, s, NULL);
	launch(s, KERNEL_FILL, p, 2 * CHUNK, SLUICE_USE_SCRATCH, 2);
	launch(s, KERNEL_FILL, p, CHUNK, SLUICE_USE_WRITE_ALL, 3);
	gate_open(&gate);
	space_sync(s);
	press(s, q, 16);
	CHECK_EQ(d2h(s), CHUNK);
	memory_expect(p, CHUNK, 3);
	CHECK_EQ(residency(s, at_chunk(p, 1), CHUNK).empty_bytes, CHUNK);
	space_end(s);
}

/* What is first in line to go is what the launch that needs the room uses itself. */
static void
launch_may_use_discarded_data_where_the_room_is_tight(void)
{
	static const enum sluice_intent intents[] = {SLUICE_USE_READ, SLUICE_USE_WRITE,
						     SLUICE_USE_SCRATCH};
	static const char *const configs[] = {"policy=lru", "policy=uvm"};

	for (int k = 0; k < 6; k++) {
		struct sluice_space *s = space_make(configs[k / 3]);
		char *p = region_alloc(s, 16 * CHUNK);
		struct sluice_use uses[2] = {{at_chunk(p, 8), CHUNK, SLUICE_USE_WRITE_ALL},
					     {p, CHUNK, intents[k % 3]}};

		for (uint64_t i = 0; i < 8; i++)
			use(s, at_chunk(p, i), CHUNK, SLUICE_USE_WRITE_ALL);
		space_sync(s);
		CHECK(sluice_discard(s, p, CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
		CHECK(launch_uses(s, uses, 2) == 0);
		space_sync(s);
		CHECK_EQ(counter(s, SLUICE_COUNTER_EVICTIONS), 1);
		CHECK_EQ(residency(s, p, CHUNK).tier_bytes[SLUICE_TIER_DEVICE], CHUNK);
		space_end(s);
	}
}

/* All of the budget is scratch of the kernel that faults: it needs its scratch until its end. */
static void
miss_in_a_launch_whose_budget_is_all_scratch_keeps_the_scratch(void)
{
	struct sluice_space *s = space_make("device_budget=4M,host_budget=8M");
	char *p = region_alloc(s, 4 * CHUNK);
	struct sluice_use scratch = {p, 2 * CHUNK, SLUICE_USE_SCRATCH};
	struct copy_args args = {p, at_chunk(p, 2)};
	struct kernel_args fill = {p, 2 * CHUNK, 6, KERNEL_FILL};
	struct sluice_grid grid = {1, 1, 1};
	struct sluice_launch *scope;

	CHECK(sluice_launch_begin(s, NULL, &scratch, 1, &scope) == 0);
	CHECK(sluice_launch(s, NULL, kernel_range, grid, &fill, sizeof(fill), NULL, 0) == 0);
	CHECK(sluice_launch(s, NULL, kernel_pick, grid, &args, sizeof(args), NULL, 0) == 0);
	CHECK(sluice_stream_synchronize(s, NULL) == 0);
	memory_expect(at_chunk(p, 2), 8 * 8, 6);
	sluice_launch_end(scope);
	space_end(s);
}

/* They are on the device and are written: no thread has to be waited for, and what is written is live. */
static void
launch_that_writes_lazily_discarded_data_is_resident(void)
{
	struct sluice_space *s = space_make("host_budget=64M");
	char *p = region_alloc(s, 16 * CHUNK);

	launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_WRITE_ALL, 1);
	space_sync(s);
	CHECK(sluice_discard(s, p, 4 * CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
	launch(s, KERNEL_FILL, p, 4 * CHUNK, SLUICE_USE_WRITE_ALL, 2);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_LAUNCHES_RESIDENT), 1);
	CHECK(sluice_discard(s, at_chunk(p, 3), CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
	use(s, at_chunk(p, 8), 8 * CHUNK, SLUICE_USE_WRITE_ALL);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_DISCARD_SAVED), CHUNK);
	CHECK_EQ(d2h(s), 3 * CHUNK);
	memory_expect(p, 3 * CHUNK, 2);
	/* One that reads them is told nothing, and they stay dead. */
	CHECK(sluice_discard(s, at_chunk(p, 8), CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
	use(s, at_chunk(p, 8), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_LAUNCHES_RESIDENT), 1);
	space_end(s);
}

/* No page of it is covered whole; but what lies there is dead already, lazily. */
static void
eager_discard_of_what_was_lazily_discarded_keeps_later_writes(void)
{
	struct sluice_space *s = space_make("host_budget=64M");
	char *p = region_alloc(s, CHUNK), *q = pressure_make(s);

	launch(s, KERNEL_FILL, p, CHUNK, SLUICE_USE_SCRATCH, 3);
	space_sync(s);
	CHECK(sluice_discard(s, p + 100, 400, SLUICE_DISCARD_EAGER, NULL) == 0);
	p[200] = 7;
	press(s, q, 16);
	CHECK_EQ(p[200], 7);
	launch(s, KERNEL_FILL, p, CHUNK, SLUICE_USE_WRITE_ALL, 4);
	space_sync(s);
	CHECK(sluice_discard(s, p, CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
	CHECK(sluice_discard(s, p + CHUNK / 2, CHUNK / 4, SLUICE_DISCARD_EAGER, NULL) == 0);
	p[CHUNK / 2] = 8;
	press(s, q, 16);
	CHECK_EQ(p[CHUNK / 2], 8);
	space_end(s);
}

/* What is pinned may be written at any time, and nothing would see it. */
static void
pin_revives_what_was_lazily_discarded(void)
{
	for (int whole = 0; whole < 2; whole++) {
		struct sluice_space *s = space_make("host_budget=16M");
		char *p = region_alloc(s, CHUNK), *q = pressure_make(s);

		launch(s, KERNEL_FILL, p, CHUNK, SLUICE_USE_WRITE_ALL, 1);
		space_sync(s);
		CHECK(sluice_discard(s, p, whole ? CHUNK : CHUNK / 2, SLUICE_DISCARD_LAZY,
				     NULL) == 0);
		CHECK(sluice_pin(s, p, CHUNK) == 0);
		memory_fill(p, CHUNK / 2, 2);
		CHECK(sluice_unpin(s, p, CHUNK) == 0);
		CHECK(sluice_discard(s, p + CHUNK / 2, CHUNK / 2, SLUICE_DISCARD_LAZY,
				     NULL) == 0);
		press(s, q, 16);
		memory_expect(p, CHUNK / 2, 2);
		space_end(s);
	}
}

static void
pinned_data_stay_when_they_are_lazily_discarded(void)
{
	struct sluice_space *s = space_make("host_budget=16M");
	char *p = region_alloc(s, 3 * CHUNK), *q = pressure_make(s);

	launch(s, KERNEL_FILL, p, 3 * CHUNK, SLUICE_USE_WRITE_ALL, 1);
	space_sync(s);
	CHECK(sluice_pin(s, p, 2 * CHUNK) == 0);
	CHECK(sluice_discard(s, p, 3 * CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
	press(s, q, 16);
	CHECK_EQ(residency(s, p, 2 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 2 * CHUNK);
	CHECK_EQ(residency(s, at_chunk(p, 2), CHUNK).empty_bytes, CHUNK);
	/* Let go, they are the first to leave, and nothing is copied. */
	CHECK(sluice_unpin(s, p, 2 * CHUNK) == 0);
	press(s, q, 16);
	CHECK_EQ(residency(s, p, 3 * CHUNK).empty_bytes, 3 * CHUNK);
	CHECK_EQ(d2h(s), 0);
	space_end(s);
}

/* Looks at the invariants again and again, until stop is set. */
struct checker {
	struct sluice_space *space;
	_Atomic int stop;
};

static void *
checker_run(void *arg)
{
	struct checker *checker = arg;

	while (!checker->stop)
		if (sluice_space_check(checker->space)) {
			printf("%s\n", sluice_last_error());
			return arg;
		}
	return NULL;
}

/* Its live pages are watched for writes before it counts as being there. */
static void
chunk_with_dead_pages_comes_back_in_order(void)
{
	struct sluice_space *s = space_make("host_budget=16M");
	struct checker checker = {.space = s};
	char *p = region_alloc(s, CHUNK);
	pthread_t thread;
	void *failed;

	CHECK(!pthread_create(&thread, NULL, checker_run, &checker));
	for (int i = 1; i <= 200; i++) {
		launch(s, KERNEL_FILL, p, CHUNK / 2, SLUICE_USE_WRITE_ALL, i);
		launch(s, KERNEL_FILL, p + CHUNK / 2, CHUNK / 2, SLUICE_USE_WRITE_ALL, i);
		space_sync(s);
		CHECK(sluice_discard(s, p, CHUNK / 2, SLUICE_DISCARD_EAGER, NULL) == 0);
		CHECK(sluice_evict(s, p, CHUNK, SLUICE_TIER_HOST, NULL) == 0);
		use(s, p + CHUNK / 2, CHUNK / 2, SLUICE_USE_READ_WRITE);
		space_sync(s);
		memory_expect(p + CHUNK / 2, CHUNK / 2, i);
	}
	checker.stop = 1;
	pthread_join(thread, &failed);
	CHECK(!failed);
	space_end(s);
}

static const struct api_case cases[] = {
	CASE(pin_revives_what_was_lazily_discarded),
	CASE(pinned_data_stay_when_they_are_lazily_discarded),
	CASE(chunk_with_dead_pages_comes_back_in_order),
	CASE(eager_discard_of_what_was_lazily_discarded_keeps_later_writes),
	CASE(launch_that_writes_lazily_discarded_data_is_resident),
	CASE(write_behind_a_scratch_use_of_the_same_data_is_kept),
	CASE(launch_may_use_discarded_data_where_the_room_is_tight),
	CASE(miss_in_a_launch_whose_budget_is_all_scratch_keeps_the_scratch),
	CASE(discarded_data_are_copied_nowhere),
	CASE(eager_discard_unmaps_at_once_and_a_later_write_is_kept),
	CASE(lazy_discard_stays_mapped_until_the_room_is_needed),
	CASE(discarded_chunks_go_before_used_ones_first_in_first_out),
	CASE(write_launch_revives_what_was_lazily_discarded),
	CASE(prefetch_revives_what_was_lazily_discarded),
	CASE(copies_in_host_memory_and_in_the_spill_file_go_too),
	CASE(discarded_part_of_a_file_is_not_written_and_reads_as_zeros),
	CASE(chunk_dies_with_its_last_live_page),
	CASE(page_that_is_covered_in_part_stays_alive),
	CASE(last_chunk_dies_with_the_bytes_that_the_region_has),
	CASE(write_to_an_eagerly_discarded_page_keeps_its_chunk_alive),
	CASE(write_to_an_eagerly_discarded_page_counts_behind_a_launch_on_the_others),
	CASE(wrong_discards_are_refused),
	CASE(discarded_memory_never_shows_another_regions_bytes),
};
API_MAIN(cases)
