/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of the preload library (arena.c and its parts), on a core, streams and fences
 * that are counters here. Work is numbered by stream: the issued work, the done part of it, and
 * the work of other streams that a stream's next work follows. Nothing runs; a test moves the
 * counters.
 *
 * Included once by a test program: it has the allocator's sources inside.
 */
#ifndef TESTS_UNIT_FAKE_ARENA_H
#define TESTS_UNIT_FAKE_ARENA_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "core/interpose.h"
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
#include "preload/alloc/arena.c"
#include "preload/alloc/arena_check.c"
#include "preload/alloc/block.c"
#include "preload/alloc/extent.c"
#include "preload/alloc/reuse.c"
#include "preload/share.h"
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
	unsigned n_populates, n_discards, n_regions, n_unmaps, n_unpins, n_forgets, n_errors;
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

bool
pl_share_ask(struct pl_gpu *gpu, uint64_t bytes)
{
	(void)gpu;
	(void)bytes;
	return false; /* alone */
}

uint64_t
pl_share_most(const struct pl_gpu *gpu)
{
	return gpu->device_budget;
}

uint64_t
pl_gpu_chunk_bytes(const struct pl_gpu *gpu)
{
	(void)gpu;
	return fake.chunk_bytes;
}

void
pl_gpu_expect(struct pl_gpu *gpu, uint64_t bytes)
{
	(void)gpu;
	(void)bytes;
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
	if (pressure == PL_OVERSUBSCRIBED)
		pl_arena_pressed(gpu);
}

void
pl_block_unpin(struct pl_block *block)
{
	atomic_fetch_and(&block->flags, ~(unsigned)PL_BLOCK_PINNED);
	fake.n_unpins++;
}

void
pl_tracing_alloc(struct pl_block *block)
{
	(void)block;
}

void
pl_tracing_free(struct pl_block *block)
{
	(void)block;
}

void
pl_suballocs_drop(struct pl_block *block)
{
	(void)block;
}

void
pl_pointer_table_forget(struct pl_block *block)
{
	assert_true(block->bytes); /* it is still known */
	fake.n_forgets++;
}

static inline int
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

static inline int
fake_unmap(struct sluice_space *space, void *addr)
{
	(void)space;
	(void)addr;
	fake.n_unmaps++;
	return 0;
}

static inline int
fake_discard_freed(struct sluice_space *space, void *addr, size_t bytes)
{
	(void)space;
	fake.n_discards++;
	fake.discarded_bytes += bytes;
	if (fake.discard_look)
		fake.discard_look((uintptr_t)addr, bytes);
	return 0;
}

static inline unsigned
stream_number(const struct cu_stream *stream)
{
	return (unsigned)((uintptr_t)stream - 0x1000);
}

uint64_t
pl_stream_bit(struct pl_gpu *gpu, struct cu_stream *stream, enum pl_default_stream flavour)
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
static inline void
come_behind(unsigned self, unsigned other, uint64_t until, const uint64_t *behind)
{
	if (fake.behind[self][other] < until)
		fake.behind[self][other] = until;
	for (unsigned i = 0; i < STREAMS; i++)
		if (fake.behind[self][i] < behind[i])
			fake.behind[self][i] = behind[i];
}

int
pl_stream_follow(struct pl_gpu *gpu, struct cu_stream *stream,
		 enum pl_default_stream flavour, uint64_t mask)
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

bool
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

bool
pl_fence_is_whole(const struct pl_fence *fence)
{
	(void)fence;
	return !fake.fence_is_cut;
}

int
pl_fence_follow(const struct pl_fence *fence, struct cu_stream *stream,
		enum pl_default_stream flavour, uint64_t mask)
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

static inline int
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

static inline int
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

static inline struct pl_block *
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

static inline struct pl_block *
get_async(size_t bytes, unsigned stream)
{
	struct pl_block *block = NULL;

	assert_int_equal(pl_arena_alloc(&fake.gpu, bytes, PL_BORN_ASYNC, STREAM(stream),
					PL_LEGACY, &block),
			 0);
	return block;
}

static inline void
put(struct pl_block *block)
{
	pl_arena_free(block, 0, NULL, PL_LEGACY);
}

static inline void
put_async(struct pl_block *block, unsigned stream)
{
	pl_arena_free(block, 1, STREAM(stream), PL_LEGACY);
}

static inline void
check(void)
{
	int rc = pl_arena_check(&fake.gpu);

	if (rc)
		print_error("%s\n", sluice_last_error());
	assert_int_equal(rc, 0);
}

#endif
