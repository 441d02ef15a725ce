/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reuse of freed room: the streams that may still use it, fences behind their work, discards.
 * arena.c says why; this file says how.
 *
 * With one stream there are no dependencies: later work follows earlier work. When a second
 * stream appears, all earlier room depends on the first. The second, and every later one, waits
 * for the queued work of the first. The first may still use room that was allocated again, until
 * that work is known to be done.
 *
 * Early reuse. Programs that call cudaMalloc() and cudaFree() for each tensor free memory whose
 * work has not even begun. Waiting for fences would cost several times the memory. When memory
 * is short, uses of blocks are tracked. Then room with dependencies is allocated at once, and
 * the block gets a *lien*: a fence behind the queued work of those streams. A stream that uses
 * the block for the first time is made to wait for the others' part of it. This is off while a
 * stream is being captured, which has no place for a fence.
 *
 * A fence covers all earlier frees. They are numbered, and one number says which room is free
 * for all. Few fences are pending at a time.
 *
 * Threads: any. fence_lock (outer) for fences, lend_lock (outer, too) for liens, lock for all
 * else; no call of the core, the driver or stream.c under lock.
 */
#include <errno.h>
#include <stdbool.h>

#include "base/error.h"
#include "core/interpose.h"
#include "preload/alloc/arena.h"
#include "preload/alloc/arena_internal.h"
#include "preload/alloc/block.h"
#include "preload/alloc/extent.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/streams/capture.h"
#include "preload/streams/fence.h"
#include "preload/streams/stream.h"

/* ---- who owes ---- */

bool
pl_reuse_is_one_stream(uint64_t streams)
{
	return !(streams & (streams - 1)) && !(streams >> PL_STREAMS_MAX);
}

unsigned
pl_reuse_class(uint64_t bit)
{
	if (!bit)
		return PL_CLASS_CLEAN;
	return bit >> PL_STREAMS_MAX ? PL_CLASS_MIXED : (unsigned)__builtin_ctzll(bit) + 1;
}

/* Streams that are active. When the second appears, what was freed before is owed to the first. */
PL_ARENA_HELD static void
streams_note(struct pl_arena *arena, uint64_t mask)
{
	uint64_t before = arena->streams;

	if (!(mask & ~before))
		return;
	__atomic_store_n(&arena->streams, before | mask, __ATOMIC_RELAXED);
	if (!before || !pl_reuse_is_one_stream(before) ||
	    pl_reuse_is_one_stream(arena->streams))
		return;
	arena->seq++;
	arena->once = arena->recycled ? before : 0;
	arena->once_seq = arena->seq;
	for (int i = 0; i < PL_ZONE_COUNT; i++)
		pl_zone_suspect(&arena->zones[i], pl_reuse_class(before), before, arena->seq);
	arena->owed_mask |= before;
}

/* The lock is only taken when there is something new. */
void
pl_reuse_streams_look(struct pl_arena *arena, uint64_t mask)
{
	if (!(mask & ~__atomic_load_n(&arena->streams, __ATOMIC_RELAXED)))
		return;
	pl_arena_lock(arena);
	streams_note(arena, mask);
	pl_arena_unlock(arena);
}

/* ---- discards ---- */

void
pl_reuse_discard(struct pl_arena *arena, uint64_t addr, uint64_t bytes)
{
	pl_enter();
	/* A permission, not a duty: what the core does not take is copied out in vain. */
	sl_ignore(sl_discard_freed(arena->gpu->space, (void *)(uintptr_t)addr, bytes));
	pl_leave();
}

/* Of a run, what lies below the first chunk of its area that was never handed out. It only grows, and
 * not in what is held back. */
static uint64_t
held_used_bytes(const struct pl_zone *zone, const struct pl_extent *extent)
{
	uint64_t used = extent->area->base +
			__atomic_load_n(&extent->area->used_end, __ATOMIC_RELAXED) *
				zone->chunk_bytes;

	return used < extent->addr + extent->bytes ? used - extent->addr : extent->bytes;
}

void
pl_reuse_discard_held(struct pl_arena *arena)
{
	for (int i = 0; i < PL_ZONE_COUNT; i++) {
		struct pl_zone *zone = &arena->zones[i];
		struct pl_extent *extent;

		for (;;) {
			pl_arena_lock(arena);
			extent = pl_zone_held(zone);
			pl_arena_unlock(arena);
			if (!extent)
				break;
			pl_reuse_discard(arena, extent->addr, held_used_bytes(zone, extent));
			pl_arena_lock(arena);
			if (extent->class && extent->seq <= arena->clean_seq)
				extent->class = PL_CLASS_CLEAN;
			pl_zone_release(zone, extent);
			arena->owed_mask |= extent->mask;
			pl_arena_unlock(arena);
		}
	}
}

/* ---- fences ---- */

static int fence_add(struct pl_arena *arena) SL_REQUIRES(arena->fence_lock) SL_MUST_CHECK;
static void fence_drop(struct pl_arena *arena, uint64_t *seq) SL_REQUIRES(arena->fence_lock);

/* A fence behind all that is owed since the last. 0 or -errno. */
static int
fence_add(struct pl_arena *arena)
{
	unsigned n = atomic_load(&arena->n_fences);
	struct pl_fence *fence;
	uint64_t mask, seq;
	int rc;

	pl_arena_lock(arena);
	mask = n < PL_FENCES_MAX ? arena->owed_mask : 0;
	seq = arena->seq;
	if (mask) {
		arena->owed_mask = 0;
		arena->owed_frees = arena->owed_bytes = 0;
	}
	pl_arena_unlock(arena);
	if (!mask)
		return -EAGAIN;
	rc = pl_fence_make(arena->gpu, mask, &fence);
	if (rc) {
		pl_arena_lock(arena);
		arena->owed_mask |= mask;
		pl_arena_unlock(arena);
		return rc;
	}
	arena->fences[n] = (struct pl_arena_fence){fence, seq};
	atomic_store(&arena->n_fences, n + 1);
	arena->fences_made++;
	return 0;
}

/* The oldest fence has passed. */
static void
fence_drop(struct pl_arena *arena, uint64_t *seq)
{
	unsigned n = atomic_load(&arena->n_fences) - 1;

	*seq = arena->fences[0].seq;
	for (unsigned i = 0; i < n; i++)
		arena->fences[i] = arena->fences[i + 1];
	atomic_store(&arena->n_fences, n);
	arena->fences_passed++;
}

/*
 * See what fences have passed, and make the next. wait: until one has. 1: room became anybody's.
 * Without locks.
 */
bool
pl_reuse_reclaim(struct pl_arena *arena, int wait)
{
	uint64_t seq = 0;
	size_t n = 0;

	if (wait)
		sl_mutex_lock(&arena->fence_lock);
	else if (sl_mutex_trylock(&arena->fence_lock))
		return false;
	pl_enter();
	while (atomic_load(&arena->n_fences) && pl_fence_passed(arena->fences[0].fence))
		fence_drop(arena, &seq);
	sl_ignore(fence_add(arena)); /* nothing owed, too many, or no memory: asked again next time */
	if (wait && !seq && atomic_load(&arena->n_fences)) {
		arena->waits++;
		if (!pl_fence_wait(arena->fences[0].fence))
			fence_drop(arena, &seq);
	}
	pl_leave();
	if (seq) {
		pl_arena_lock(arena);
		arena->clean_seq = seq;
		for (int i = 0; i < PL_ZONE_COUNT; i++)
			n += pl_zone_clean(&arena->zones[i], seq);
		pl_arena_unlock(arena);
	}
	sl_mutex_unlock(&arena->fence_lock);
	if (n)
		pl_reuse_discard_held(arena);
	return n > 0;
}

/* ---- lending ---- */

bool
pl_reuse_lends(struct pl_arena *arena)
{
	if (atomic_load(&pl_captures) || atomic_load(&arena->gpu->pressure) < PL_TRACKING)
		return false;
	if (__atomic_load_n(&arena->lends, __ATOMIC_RELAXED))
		return true;
	pl_arena_lock(arena);
	arena->zones[PL_ZONE_SMALL].lends = arena->zones[PL_ZONE_BIG].lends = 1;
	__atomic_store_n(&arena->lends, 1, __ATOMIC_RELAXED);
	pl_arena_unlock(arena);
	return true;
}

int
pl_reuse_lend(struct pl_arena *arena, struct pl_block *block, uint64_t owed)
{
	struct pl_fence *fence, *before;
	uint64_t mask;
	int rc;

	/* Behind all streams, and made behind the one before: the last comes behind whatever was lent. */
	sl_mutex_lock(&arena->lend_lock);
	pl_streams_active(arena->gpu, &mask);
	rc = pl_fence_make(arena->gpu, mask | owed, &fence);
	if (!rc && !pl_fence_is_whole(fence)) {
		pl_fence_put(fence);
		rc = -EBUSY;
	}
	if (!rc) {
		block->lien = pl_fence_hold(fence);
		atomic_store(&block->owed, owed);
		pl_arena_lock(arena);
		before = arena->lien;
		arena->lien = fence;
		arena->lent++;
		pl_arena_unlock(arena);
		pl_fence_put(before);
	}
	sl_mutex_unlock(&arena->lend_lock);
	return rc;
}

/* The last bit is of many streams: each waits for the others. */
static uint64_t
others_of(uint64_t mask, uint64_t bit)
{
	return bit >> PL_STREAMS_MAX ? mask : mask & ~bit;
}

int
pl_reuse_order(struct pl_block *block, struct cu_stream *stream,
	       enum pl_default_stream flavour, uint64_t bit)
{
	uint64_t owed = others_of(atomic_load(&block->owed), bit);

	return owed ? pl_fence_follow(block->lien, stream, flavour, owed) : 0;
}

int
pl_reuse_order_all(struct pl_gpu *gpu, struct cu_stream *stream,
		   enum pl_default_stream flavour, uint64_t bit)
{
	struct pl_arena *arena = pl_arena_of(gpu);
	struct pl_fence *fence;
	int rc;

	if (!arena || !__atomic_load_n(&arena->lends, __ATOMIC_RELAXED))
		return 0;
	pl_arena_lock(arena);
	fence = pl_fence_hold(arena->lien);
	pl_arena_unlock(arena);
	rc = fence ? pl_fence_follow(fence, stream, flavour, others_of(UINT64_MAX, bit)) : 0;
	pl_fence_put(fence);
	return rc;
}

int
pl_reuse_settle(struct pl_block *block)
{
	return atomic_load(&block->owed) ? pl_fence_await(block->lien) : 0;
}

void
pl_arena_stream_new(struct pl_gpu *gpu, struct cu_stream *stream,
		    enum pl_default_stream flavour)
{
	struct pl_arena *arena = pl_arena_of(gpu);
	uint64_t mask, owed = 0;

	if (!arena)
		return;
	pl_streams_active(gpu, &mask);
	pl_arena_lock(arena);
	streams_note(arena, mask);
	if (arena->clean_seq < arena->once_seq)
		owed = arena->once;
	pl_arena_unlock(arena);
	if (owed && pl_stream_follow(gpu, stream, flavour, owed))
		pl_note("GPU %d: a new stream could not be ordered behind the first: "
			"memory freed "
			"before may be used by both",
			gpu->device);
}
