/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of the preload library, on a core, streams and fences that are counters here. A model
 * knows the live blocks, and of each byte of room which stream's work may still use it.
 */
#include "preload/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "core/embed.h"
#include "unit/cmocka_all.h"

/* What the arena asks of the core is answered here. */
static int fake_region_alloc(struct sluice_space *space, size_t bytes,
			     uint64_t chunk_bytes, void **addr);
static int fake_unmap(struct sluice_space *space, void *addr);
static int fake_discard_freed(struct sluice_space *space, void *addr, size_t bytes);
#define sl_region_alloc  fake_region_alloc
#define sluice_unmap     fake_unmap
#define sl_discard_freed fake_discard_freed

/* Not in the library that unit tests are linked with. NOLINTBEGIN(bugprone-suspicious-include) */
#include "preload/arena.c"
#include "preload/arena_check.c"
#include "preload/bins.c"
#include "preload/block.c"
#include "preload/extent.c"
#include "preload/reuse.c"
/* NOLINTEND(bugprone-suspicious-include) */

#define MIB       ((uint64_t)1 << 20)
#define GIB       ((uint64_t)1 << 30)
#define STREAMS   4u
#define STREAM(i) ((struct cu_stream *)(uintptr_t)(0x1000 + (i)))

/* ---- what the arena stands on ---- */

#define POPULATED_MAX 4096u

static struct {
	struct pl_gpu gpu;
	uint64_t chunk_bytes, next_region, region_limit;
	uint64_t populated_bytes, discarded_bytes;
	unsigned n_populates, n_discards, n_regions, n_unmaps, n_unpins, n_errors;
	uint64_t populated_from[POPULATED_MAX], populated_to[POPULATED_MAX];
	int populate_rc, press_seen;
	/* streams: work is numbered by stream */
	unsigned n_streams; /* that were given a bit */
	uint64_t issued[STREAMS], done[STREAMS];
	uint64_t behind[STREAMS][STREAMS]; /* [a][b]: what a does next comes behind this work of b */
	int follow_rc, fence_rc, fence_is_cut;
	unsigned n_follows, n_fences, n_waits;
	void (*discard_look)(uint64_t addr, uint64_t bytes);
} fake;

struct pl_fence {
	unsigned references; /* beyond the first */
	uint64_t until[STREAMS];
	uint64_t behind[STREAMS][STREAMS]; /* what that itself comes behind */
};

_Thread_local int pl_depth;
_Atomic unsigned pl_captures;
_Atomic uint64_t pl_counters[PL_COUNT_COUNT];

void
pl_note(const char *format, ...)
{
	(void)format;
}

void
pl_error(const char *format, ...)
{
	(void)format;
	fake.n_errors++;
}

uint64_t
pl_gpu_virtual_bytes(const struct pl_gpu *gpu)
{
	return gpu->device_budget + gpu->host_budget + gpu->store_budget;
}

uint64_t
pl_gpu_chunk_bytes(const struct pl_gpu *gpu)
{
	(void)gpu;
	return fake.chunk_bytes;
}

int
pl_gpu_populate(struct pl_gpu *gpu, uint64_t addr, uint64_t bytes)
{
	(void)gpu;
	if (fake.populate_rc)
		return fake.populate_rc;
	assert_true(fake.n_populates < POPULATED_MAX);
	fake.populated_from[fake.n_populates] = addr;
	fake.populated_to[fake.n_populates++] = addr + bytes;
	fake.populated_bytes += bytes;
	return 0;
}

void
pl_gpu_press(struct pl_gpu *gpu, enum pl_pressure pressure)
{
	if (atomic_load(&gpu->pressure) >= (int)pressure)
		return;
	atomic_store(&gpu->pressure, pressure);
	fake.press_seen++;
	if (pressure == PL_PRESSED)
		pl_arena_pressed(gpu);
}

void
pl_block_unpin(struct pl_block *block)
{
	atomic_fetch_and(&block->flags, ~(unsigned)PL_BLOCK_PINNED);
	fake.n_unpins++;
}

static int
fake_region_alloc(struct sluice_space *space, size_t bytes, uint64_t chunk_bytes, void **addr)
{
	(void)space;
	if (bytes > fake.region_limit)
		return -EFBIG;
	fake.region_limit -= bytes;
	assert_int_equal(bytes % chunk_bytes, 0);
	*addr = (void *)(uintptr_t)fake.next_region;
	fake.next_region += bytes + 64 * MIB;
	fake.n_regions++;
	return 0;
}

static int
fake_unmap(struct sluice_space *space, void *addr)
{
	(void)space;
	(void)addr;
	fake.n_unmaps++;
	return 0;
}

static int
fake_discard_freed(struct sluice_space *space, void *addr, size_t bytes)
{
	(void)space;
	fake.n_discards++;
	fake.discarded_bytes += bytes;
	if (fake.discard_look)
		fake.discard_look((uintptr_t)addr, bytes);
	return 0;
}

static unsigned
stream_number(const struct cu_stream *stream)
{
	return (unsigned)((uintptr_t)stream - 0x1000);
}

uint64_t
pl_stream_bit(struct pl_gpu *gpu, struct cu_stream *stream, enum pl_flavour flavour)
{
	unsigned i = stream_number(stream);

	(void)gpu;
	(void)flavour;
	assert_true(i < STREAMS);
	while (fake.n_streams <= i)
		fake.n_streams++;
	return (uint64_t)1 << i;
}

unsigned
pl_streams_active(struct pl_gpu *gpu, uint64_t *mask)
{
	(void)gpu;
	*mask = ((uint64_t)1 << fake.n_streams) - 1;
	return fake.n_streams;
}

/* The stream's next work comes behind that of another, and what that came behind. */
static void
come_behind(unsigned self, unsigned other, uint64_t until, const uint64_t *behind)
{
	if (fake.behind[self][other] < until)
		fake.behind[self][other] = until;
	for (unsigned i = 0; i < STREAMS; i++)
		if (fake.behind[self][i] < behind[i])
			fake.behind[self][i] = behind[i];
}

int
pl_stream_follow(struct pl_gpu *gpu, struct cu_stream *stream, enum pl_flavour flavour,
		 uint64_t mask)
{
	unsigned self = stream_number(stream);

	(void)gpu;
	(void)flavour;
	if (fake.follow_rc)
		return fake.follow_rc;
	for (unsigned i = 0; i < STREAMS; i++)
		if (mask >> i & 1)
			come_behind(self, i, fake.issued[i], fake.behind[i]);
	fake.n_follows++;
	return 0;
}

int
pl_fence_make(struct pl_gpu *gpu, uint64_t mask, struct pl_fence **out)
{
	struct pl_fence *fence;

	(void)gpu;
	assert_true(mask);
	if (fake.fence_rc)
		return fake.fence_rc;
	fence = calloc(1, sizeof(*fence));
	assert_non_null(fence);
	for (unsigned i = 0; i < STREAMS; i++)
		fence->until[i] = mask >> i & 1 ? fake.issued[i] : 0;
	memcpy(fence->behind, fake.behind, sizeof(fence->behind));
	fake.n_fences++;
	*out = fence;
	return 0;
}

int
pl_fence_passed(struct pl_fence *fence)
{
	for (unsigned i = 0; i < STREAMS; i++)
		if (fake.done[i] < fence->until[i])
			return 0;
	free(fence);
	return 1;
}

struct pl_fence *
pl_fence_hold(struct pl_fence *fence)
{
	if (fence)
		fence->references++;
	return fence;
}

void
pl_fence_put(struct pl_fence *fence)
{
	if (fence && !fence->references--)
		free(fence);
}

int
pl_fence_is_whole(const struct pl_fence *fence)
{
	(void)fence;
	return !fake.fence_is_cut;
}

int
pl_fence_follow(const struct pl_fence *fence, struct cu_stream *stream,
		enum pl_flavour flavour, uint64_t mask)
{
	unsigned self = stream_number(stream);

	(void)flavour;
	if (fake.follow_rc)
		return fake.follow_rc;
	for (unsigned i = 0; i < STREAMS; i++)
		if (mask >> i & 1)
			come_behind(self, i, fence->until[i], fence->behind[i]);
	fake.n_follows++;
	return 0;
}

int
pl_fence_await(const struct pl_fence *fence)
{
	fake.n_waits++;
	for (unsigned i = 0; i < STREAMS; i++)
		if (fake.done[i] < fence->until[i])
			fake.done[i] = fence->until[i];
	return 0;
}

int
pl_fence_wait(struct pl_fence *fence)
{
	fake.n_waits++;
	for (unsigned i = 0; i < STREAMS; i++)
		if (fake.done[i] < fence->until[i])
			fake.done[i] = fence->until[i];
	free(fence);
	return 0;
}

static int
setup(void **state)
{
	static uint64_t next_region = (uint64_t)0x300000000000;

	(void)state;
	if (fake.next_region > next_region)
		next_region = (fake.next_region / GIB + 1) * GIB;
	memset(&fake, 0, sizeof(fake));
	fake.next_region = next_region;
	fake.region_limit = (uint64_t)8 << 40;
	fake.chunk_bytes = 16 * MIB;
	fake.gpu.device_budget = 64 * GIB;
	fake.gpu.host_budget = 64 * GIB;
	fake.n_streams = 1;
	return 0;
}

static int
teardown(void **state)
{
	struct pl_arena *arena = fake.gpu.arena;

	(void)state;
	if (arena)
		for (unsigned i = 0; i < arena->n_fences; i++)
			free(arena->fences[i].fence);
	pl_arena_destroy(&fake.gpu);
	return 0;
}

static struct pl_block *
get(size_t bytes)
{
	struct pl_block *block = NULL;

	assert_int_equal(pl_arena_alloc(&fake.gpu, bytes, PL_BORN_ALLOC, NULL, PL_LEGACY,
					&block),
			 0);
	if (!block)
		fail();
	else
		assert_ptr_equal(pl_block_find(block->base), block);
	return block;
}

static struct pl_block *
get_async(size_t bytes, unsigned stream)
{
	struct pl_block *block = NULL;

	assert_int_equal(pl_arena_alloc(&fake.gpu, bytes, PL_BORN_ASYNC, STREAM(stream),
					PL_LEGACY, &block),
			 0);
	return block;
}

static void
put(struct pl_block *block)
{
	pl_arena_free(block, 0, NULL, PL_LEGACY);
}

static void
put_async(struct pl_block *block, unsigned stream)
{
	pl_arena_free(block, 1, STREAM(stream), PL_LEGACY);
}

static void
check(void)
{
	int rc = pl_arena_check(&fake.gpu);

	if (rc)
		print_error("%s\n", sluice_last_error());
	assert_int_equal(rc, 0);
}

/* ---- places ---- */

static void
small_blocks_share_a_chunk_and_large_ones_begin_with_one(void **state)
{
	struct pl_block *a = get(1), *b = get(512), *c = get(513), *d = get(20 * MIB),
			*e = get(20 * MIB), *f = get(3 * MIB);

	(void)state;
	assert_int_equal(b->base, a->base + 512);
	assert_int_equal(c->base, b->base + 512);
	assert_int_equal(c->room, 1024);
	assert_int_equal(a->base % (2 * MIB), 0);
	assert_int_equal(d->room, 20 * MIB);
	/* Two chunks, and one of addresses that separates them. */
	assert_int_equal(e->base, d->base + 48 * MIB);
	/* In the tail of the first. */
	assert_int_equal(f->base, d->base + 20 * MIB);
	assert_int_equal(fake.gpu.allocated_bytes, 2048 + 44 * MIB);
	check();
	put(a), put(b), put(c), put(d), put(e), put(f);
	check();
	assert_int_equal(fake.gpu.allocated_bytes, 0);
}

static void
end_of_a_large_block_is_no_start_of_another(void **state)
{
	struct pl_block *a = get(32 * MIB), *b = get(64 * MIB), *c = get(32 * MIB);

	(void)state;
	assert_null(pl_block_find(a->base + a->bytes));
	assert_null(pl_block_find(b->base + b->bytes));
	put(b);
	b = get(64 * MIB);
	assert_null(pl_block_find(a->base + a->bytes));
	assert_null(pl_block_find(b->base + b->bytes));
	put(a), put(b), put(c);
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

static int
is_populated(uint64_t addr)
{
	for (unsigned i = 0; i < fake.n_populates; i++)
		if (addr >= fake.populated_from[i] && addr < fake.populated_to[i])
			return 1;
	return 0;
}

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
	assert_int_equal(fake.gpu.pressure, PL_AT_EASE);
	b = get(1);
	assert_int_equal(fake.gpu.pressure, PL_LEARNING);
	put(a);
	a = get(128 * MIB);
	c = get(112 * MIB);
	assert_int_equal(fake.gpu.pressure, PL_LEARNING);
	assert_int_equal(fake.n_discards, 0);
	put(a);
	d = get(160 * MIB); /* the 128 are resident, but too few */
	assert_int_equal(fake.gpu.pressure, PL_PRESSED);
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
	pl_gpu_press(&fake.gpu, PL_PRESSED);
	assert_int_equal(fake.n_discards, 1);
	populates = fake.n_populates;
	discards = fake.n_discards;
	put(a);
	assert_int_equal(fake.n_discards, discards + 1);
	assert_int_equal(fake.discarded_bytes, 2 * MIB + 200 * MIB);
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
	assert_int_equal(fake.gpu.pressure, PL_PRESSED);
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
	assert_true(fake.gpu.pressure < PL_PRESSED);
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
	pl_gpu_press(&fake.gpu, PL_LEARNING);
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

/* ---- everything at once, against the model ---- */

#define MODEL_BLOCKS 600u
#define MODEL_ROOMS  4000u

/* Room that was freed while work of streams was queued, and until which of it. */
struct room {
	uint64_t base, bytes;
	uint64_t until[STREAMS];
};

static struct {
	struct pl_block *live[MODEL_BLOCKS];
	uint64_t base[MODEL_BLOCKS], bytes[MODEL_BLOCKS], room[MODEL_BLOCKS];
	uint64_t until[MODEL_BLOCKS][STREAMS]; /* its own work */
	size_t n;
	struct room rooms[MODEL_ROOMS];
	size_t n_rooms;
} model;

/* Nothing that lives is discarded. */
static void
model_discard_look(uint64_t addr, uint64_t bytes)
{
	for (size_t i = 0; i < model.n; i++)
		assert_true(addr + bytes <= model.base[i] ||
			    model.base[i] + model.room[i] <= addr);
}

/* The new block may not be used by work that can still run, unless in stream's order. */
static void
model_order_check(const struct pl_block *block, int stream)
{
	size_t kept = 0;

	for (size_t i = 0; i < model.n_rooms; i++) {
		struct room *r = &model.rooms[i];
		int pending = 0;

		for (unsigned s = 0; s < STREAMS; s++)
			pending |= r->until[s] > fake.done[s];
		if (!pending)
			continue; /* forgotten */
		if (block->base < r->base + r->bytes && r->base < block->base + block->room)
			for (unsigned s = 0; s < STREAMS; s++)
				assert_true(r->until[s] <= fake.done[s] || (int)s == stream ||
					    (stream >= 0 &&
					     r->until[s] <= fake.behind[stream][s]));
		model.rooms[kept++] = *r;
	}
	model.n_rooms = kept;
}

static void
model_alloc(struct sl_rng *rng)
{
	uint64_t bytes = 1 + sl_rng_below(rng, (uint64_t)1 << (5 + sl_rng_below(rng, 21)));
	int stream = sl_rng_below(rng, 2) ? (int)sl_rng_below(rng, fake.n_streams) : -1;
	struct pl_block *block = stream < 0 ? get(bytes)
					    : get_async(bytes, (unsigned)stream);
	size_t i;

	assert_int_equal(block->bytes, bytes);
	assert_int_equal(block->base % (block->room < MIB ? 512 : 2 * MIB), 0);
	for (i = 0; i < model.n; i++)
		assert_true(block->base + block->room <= model.base[i] ||
			    model.base[i] + model.room[i] <= block->base);
	if (fake.gpu.pressure < PL_PRESSED)
		for (uint64_t at = block->base; at < block->base + block->bytes; at += 2 * MIB)
			assert_true(is_populated(at));
	/* What is lent is ordered when it is used. */
	if (stream >= 0 || fake.gpu.pressure < PL_LEARNING)
		model_order_check(block, stream);
	model.live[i] = block;
	model.base[i] = block->base;
	model.bytes[i] = bytes;
	model.room[i] = block->room;
	memset(model.until[i], 0, sizeof(model.until[i]));
	model.n++;
}

static void
model_free(struct sl_rng *rng)
{
	size_t i = sl_rng_below(rng, model.n);
	struct room *room = &model.rooms[model.n_rooms];
	int stream = -1;
	unsigned users = 0, user = 0;

	assert_true(model.n_rooms < MODEL_ROOMS);
	for (unsigned s = 0; s < STREAMS; s++)
		if (model.until[i][s]) {
			users++;
			user = s;
		}
	if (users == 1 && sl_rng_below(rng, 2))
		stream = (int)user; /* only its work: the program may free in its order */
	room->base = model.base[i];
	room->bytes = model.room[i];
	memcpy(room->until, model.until[i], sizeof(room->until));
	if (users)
		model.n_rooms++;
	/* Out of the model first: it may be discarded now. */
	struct pl_block *block = model.live[i];
	uint64_t base = model.base[i];

	model.n--;
	model.live[i] = model.live[model.n];
	model.base[i] = model.base[model.n];
	model.bytes[i] = model.bytes[model.n];
	model.room[i] = model.room[model.n];
	memcpy(model.until[i], model.until[model.n], sizeof(model.until[i]));
	if (stream < 0)
		put(block);
	else
		put_async(block, (unsigned)stream);
	assert_null(pl_block_find(base));
}

/* Work of a stream on a block, as scopes order it. */
static void
model_use(size_t i, unsigned s)
{
	struct pl_block *block = model.live[i];
	uint64_t bit = (uint64_t)1 << s;

	if (fake.gpu.pressure >= PL_LEARNING && !(block->streams & bit)) {
		assert_int_equal(pl_reuse_order(block, STREAM(s), PL_LEGACY, bit), 0);
		block->streams |= bit;
		/* Who allocates in the order of a stream orders the others behind it himself. */
		if (block->birth != PL_BORN_ASYNC)
			model_order_check(block, (int)s);
	}
	model.until[i][s] = ++fake.issued[s];
}

static void
model_step(struct sl_rng *rng)
{
	uint64_t what = sl_rng_below(rng, 100);
	unsigned s = (unsigned)sl_rng_below(rng, fake.n_streams);

	if (what < 30 && model.n < MODEL_BLOCKS && model.n_rooms < MODEL_ROOMS / 2) {
		model_alloc(rng);
	} else if (what < 58 && model.n && model.n_rooms < MODEL_ROOMS) {
		model_free(rng);
	} else if (what < 85 && model.n) {
		model_use(sl_rng_below(rng, model.n), s);
	} else if (fake.done[s] < fake.issued[s]) {
		fake.done[s] += 1 + sl_rng_below(rng, fake.issued[s] - fake.done[s]);
	}
	if (model.n) {
		size_t i = sl_rng_below(rng, model.n);
		uint64_t at = sl_rng_below(rng, model.bytes[i]);

		assert_ptr_equal(pl_block_find(model.base[i] + at), model.live[i]);
	}
}

static int
walk_count(struct pl_block *block, void *arg)
{
	uint64_t *last = arg;

	assert_true(block->base >= last[0]);
	last[0] = block->base + block->room;
	last[1]++;
	return 0;
}

static void
model_run(uint64_t seed, unsigned n_steps, unsigned press_at)
{
	struct sl_rng rng;

	print_message("seed %llu\n", (unsigned long long)seed);
	sl_rng_init(&rng, seed);
	memset(&model, 0, sizeof(model));
	fake.n_streams = STREAMS;
	fake.discard_look = model_discard_look;
	for (unsigned i = 0; i < n_steps; i++) {
		model_step(&rng);
		if (i == press_at)
			pl_gpu_press(&fake.gpu, PL_PRESSED);
		if (i % 500 == 0) {
			uint64_t walked[2] = {0, 0};

			check();
			pl_arena_walk(&fake.gpu, walk_count, walked);
			assert_int_equal(walked[1], model.n);
		}
	}
	while (model.n) {
		for (unsigned s = 0; s < STREAMS; s++)
			fake.done[s] = fake.issued[s];
		model_free(&rng);
	}
	check();
	assert_int_equal(fake.gpu.allocated_bytes, 0);
}

static void
random_calls_agree_with_the_model(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		setup(NULL);
		fake.chunk_bytes = (2 * MIB) << seed % 4;
		model_run(seed, 20000, UINT32_MAX);
		teardown(NULL);
	}
}

static void
random_calls_agree_with_the_model_under_pressure(void **state)
{
	(void)state;
	for (uint64_t seed = 11; seed <= 16; seed++) {
		setup(NULL);
		fake.chunk_bytes = (2 * MIB) << seed % 4;
		if (seed % 2)
			fake.gpu.device_budget = 512 * MIB;
		model_run(seed, 20000, 8000);
		assert_true(fake.n_discards > 0);
		teardown(NULL);
	}
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(small_blocks_share_a_chunk_and_large_ones_begin_with_one),
		TEST(end_of_a_large_block_is_no_start_of_another),
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
		TEST(beyond_all_budgets_is_refused_and_said_once),
		TEST(no_bytes_are_no_block),
		TEST(without_addresses_areas_are_smaller_and_then_owed_room_is_waited_for),
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
		TEST(random_calls_agree_with_the_model),
		TEST(random_calls_agree_with_the_model_under_pressure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
