/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's device memory: the address of an allocation, the moment at which its memory is
 * made resident, and the reuse of freed memory. A GPU has two zones (extent.h):
 * - Blocks below 1 MiB are packed at 512 bytes in chunks of 2 MiB. Each lies in one chunk, since
 *   the core moves chunks.
 * - Larger blocks are packed at 2 MiB in larger chunks, side by side. Neighbours were mostly
 *   allocated after each other and are used so. A block that begins a chunk and does not fill
 *   its last wastes device memory and bytes on the link (a quarter, of ResNet-152's tensors).
 *
 * vmm_map.c has the zones of memory that the program maps itself.
 *
 * Best fit, the lowest address of equals. The choice depends only on the free addresses. So a
 * program that repeats itself gets the same addresses again. Reusing the most recently freed
 * room would keep a little more resident, and lose that.
 *
 * Reuse. A free waits for nothing, so earlier work may still use the room. With one stream,
 * later work on it follows that work: the room is free at once. A second stream waits for the
 * first when it appears. With several streams the room has dependencies on the streams that had
 * work:
 * - A stream-ordered allocation gets room that depends on its own stream, or makes its stream
 *   wait for others.
 * - All others get it when fences behind that work have passed. If memory is short they get it
 *   at once, if its next user is seen and can be made to wait (reuse.c: early reuse).
 * - Fences are made for many frees together, and asked about when an allocation finds nothing
 *   better. They are waited for only if the device or the addresses would not suffice otherwise.
 *
 * While all data fit, chunks are made resident at their first allocation, and stay. A free and
 * an allocation cost no call of the core. Once the GPU is oversubscribed, freed memory is
 * discarded: large blocks at once, small ones by the chunk. Room being discarded cannot be
 * allocated.
 *
 * Threads: any. fence_lock (outer) for fences, lock for all else; no call of the core, the
 * driver or stream.c under lock.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/bitmap.h"
#include "base/error.h"
#include "base/fault_point.h"
#include "base/size.h"
#include "core/interpose.h"
#include "preload/alloc/arena.h"
#include "preload/alloc/arena_internal.h"
#include "preload/alloc/block.h"
#include "preload/alloc/block_internal.h"
#include "preload/alloc/extent.h"
#include "preload/alloc/suballoc.h"
#include "preload/args/pointer_table.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/report/tracing.h"
#include "preload/scope.h"
#include "preload/share.h"
#include "preload/streams/fence.h"
#include "preload/streams/stream.h"
#include "sluice/sluice.h"

#define SMALL_LIMIT ((uint64_t)1 << 20) /* smaller ones are packed */
#define SMALL_CHUNK PL_PAGE_BYTES
#define BIG_UNIT    PL_PAGE_BYTES
#define MIDDLE_PART 4u /* of a large chunk is one of the middle zone of mapped memory */
#define SMALL_AREA  ((uint64_t)1 << 30)
#define BIG_AREA    ((uint64_t)16 << 30)
#define AREA_TRIES  8u  /* halvings of an area that there are no addresses for */
#define FENCE_AFTER 16u /* frees that owe, before a free makes a fence */
#define FENCE_PART  16u /* or that part of the budget in bytes */
#define SEARCHES_MAX \
	64u /* of one allocation: each but the last found more than the one before */
#define EXTENTS_SMALL  1u /* that a free may make */
#define EXTENTS_BIG    4u
#define EXTENTS_CARVED 4u /* that an allocation may make */

/* What an allocation wants. */
struct want {
	struct pl_zone *zone;
	uint64_t bytes;
	uint64_t room; /* whole units */
	enum pl_birth birth;
	uint64_t bit;  /* of its stream; 0: not stream-ordered */
	int lent;      /* 1: whatever streams owe; its users will wait (reuse.c) */
	int no_others; /* 1: not what other streams owe */
};

/* What it got. */
struct got {
	struct pl_record *record;
	uint64_t follow; /* streams that its stream waits for */
	int unpopulated; /* 1: some chunk is not resident yet */
};

static bool
size_is_small(uint64_t bytes)
{
	return bytes < SMALL_LIMIT;
}

/* ---- making ---- */

static void
arena_free(struct pl_arena *arena)
{
	if (!arena)
		return;
	for (int i = 0; i < PL_ZONE_COUNT; i++)
		pl_zone_fini(&arena->zones[i]);
	pl_fence_put(arena->lien);
	sl_mutex_fini(&arena->lock);
	sl_mutex_fini(&arena->fence_lock);
	sl_mutex_fini(&arena->lend_lock);
	free(arena);
}

static struct pl_arena *
arena_make(struct pl_gpu *gpu)
{
	struct pl_arena *arena = sl_calloc(1, sizeof(*arena));
	uint64_t chunk = pl_gpu_chunk_bytes(gpu);

	if (!arena)
		return NULL;
	arena->gpu = gpu;
	sl_mutex_init(&arena->lock, SL_RANK_PL_ARENA);
	sl_mutex_init(&arena->fence_lock, SL_RANK_PL_REUSE);
	sl_mutex_init(&arena->lend_lock, SL_RANK_PL_REUSE);
	/* The last unit of a small chunk stays free: the end of its last block is in no other chunk. */
	if (pl_zone_init(&arena->zones[PL_ZONE_SMALL], PL_UNIT_BYTES, SMALL_CHUNK,
			 SMALL_CHUNK - PL_UNIT_BYTES) ||
	    pl_zone_init(&arena->zones[PL_ZONE_BIG], BIG_UNIT, chunk, chunk)) {
		arena_free(arena);
		return NULL;
	}
	arena->zones[PL_ZONE_BIG].packed = 1;
	for (int i = PL_ZONE_MAPPED; i < PL_ZONE_COUNT; i++) {
		uint64_t of_zone = chunk;

		if (i != PL_ZONE_MAPPED_COARSE)
			of_zone = i == PL_ZONE_MAPPED ? 0 : chunk / MIDDLE_PART;
		if (of_zone < SMALL_CHUNK)
			of_zone = SMALL_CHUNK;
		if (pl_zone_init(&arena->zones[i], of_zone, of_zone, of_zone)) {
			arena_free(arena);
			return NULL;
		}
	}
	return arena;
}

struct pl_arena *
pl_arena_get(struct pl_gpu *gpu)
{
	struct pl_arena *arena = pl_arena_of(gpu), *made;

	if (arena)
		return arena;
	made = arena_make(gpu);
	if (made && !__atomic_compare_exchange_n(&gpu->arena, &arena, made, 0,
						 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		arena_free(made); /* another thread was first */
		return arena;
	}
	/* Who raises the pressure from here on sees the arena. */
	if (made && atomic_load(&gpu->pressure) >= PL_OVERSUBSCRIBED)
		pl_arena_pressed(gpu);
	return made;
}

void
pl_arena_destroy(struct pl_gpu *gpu)
{
	struct pl_arena *arena = pl_arena_of(gpu);

	gpu->arena = NULL;
	arena_free(arena);
}

/* Give back addresses. */
PL_ARENA_HELD static void
room_put(struct pl_arena *arena, struct pl_zone *zone, struct pl_area *area,
	 uint64_t addr, uint64_t bytes, unsigned class, uint64_t mask)
{
	if (!bytes)
		return;
	pl_zone_put(zone, area, addr, bytes, class, mask, arena->seq);
	arena->owed_mask |= mask;
}

/* ---- pressure ---- */

void
pl_arena_pressed(struct pl_gpu *gpu)
{
	struct pl_arena *arena = pl_arena_of(gpu);

	if (!arena)
		return;
	pl_arena_lock(arena);
	arena->pressed = 1;
	arena->zones[PL_ZONE_SMALL].hold_chunks = arena->zones[PL_ZONE_BIG].hold_chunks = 1;
	for (int i = 0; i < PL_ZONE_COUNT; i++)
		pl_zone_hold_runs(&arena->zones[i]);
	pl_arena_unlock(arena);
	pl_reuse_discard_held(arena);
}

/* ---- choosing ---- */

/* The smaller of two that fit, the lower of equals. */
static struct pl_extent *
better(struct pl_extent *a, struct pl_extent *b)
{
	if (!a || !b)
		return a ? a : b;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? a : b;
	return a->addr < b->addr ? a : b;
}

/* Of what the stream may have without waiting. */
static struct pl_extent *
own_fit(const struct want *want, int run, uint64_t bytes)
{
	struct pl_extent *best = pl_zone_fit(want->zone, run, PL_CLASS_CLEAN, bytes);
	unsigned own = pl_reuse_class(want->bit);

	if (own != PL_CLASS_CLEAN && own != PL_CLASS_MIXED)
		best = better(best, pl_zone_fit(want->zone, run, own, bytes));
	return best;
}

/* Of what other streams owe. */
static struct pl_extent *
others_fit(const struct want *want, int run, uint64_t bytes)
{
	struct pl_extent *best = NULL;

	for (uint64_t left = want->zone->filled[run]; left; left &= left - 1)
		best = better(best, pl_zone_fit(want->zone, run,
						(unsigned)__builtin_ctzll(left) + 1, bytes));
	return best;
}

/* A piece for what is less than a chunk, else a run of chunks. */
static struct pl_extent *
fit_by(const struct want *want,
       struct pl_extent *(*fit)(const struct want *want, int run, uint64_t bytes))
{
	uint64_t chunk = want->zone->chunk_bytes;
	struct pl_extent *piece = NULL;

	if (want->zone->packed)
		return fit(want, 1, want->room);
	if (want->room < chunk)
		piece = fit(want, 0, want->room);
	return piece ? piece : fit(want, 1, sl_round_up(want->room, chunk));
}

enum search { SEARCH_FOUND, SEARCH_FRESH, SEARCH_NONE };

/* FOUND: room that was used before. FRESH: never used. */
PL_ARENA_HELD static enum search
room_search(const struct want *want, struct pl_extent **out)
{
	int used;

	*out = fit_by(want, own_fit);
	used = *out && pl_extent_was_used(want->zone, *out, want->room);
	if (used && !want->lent)
		return SEARCH_FOUND;
	if ((want->bit || want->lent) && !want->no_others && want->zone->oldest) {
		struct pl_extent *other = fit_by(want, others_fit);

		if (other)
			*out = used ? better(*out, other) : other;
		used |= other != NULL;
	}
	if (used)
		return SEARCH_FOUND;
	return *out ? SEARCH_FRESH : SEARCH_NONE;
}

/* Chunks of [addr, addr + bytes) in a bitmap of the area. */
static void
chunks_of(const struct pl_zone *zone, const struct pl_area *area, uint64_t addr,
	  uint64_t bytes, size_t *first, size_t *end)
{
	*first = (addr - area->base) / zone->chunk_bytes;
	*end = (addr + bytes - 1 - area->base) / zone->chunk_bytes + 1;
}

/* Take the beginning of the extent of whole chunks or of a piece; the rest is free as before. */
PL_ARENA_HELD static void
chunks_carve(struct pl_arena *arena, const struct want *want, struct pl_extent *extent)
{
	struct pl_zone *zone = want->zone;
	struct pl_area *area = extent->area;
	uint64_t base = extent->addr, end = base + extent->bytes, chunk = zone->chunk_bytes;
	uint64_t last = extent->run ? base + sl_round_up(want->room, chunk) : end;
	uint64_t usable = extent->run ? last - chunk + zone->usable_bytes : end;
	uint64_t mask = extent->mask;
	unsigned class = extent->class;

	pl_zone_take(zone, extent);
	pl_zone_spare(zone, extent);
	room_put(arena, zone, area, base + want->room, usable - base - want->room, class,
		 mask);
	room_put(arena, zone, area, last, end - last, class, mask);
}

/* Take the beginning of the extent. The address. */
PL_ARENA_HELD static uint64_t
room_carve(struct pl_arena *arena, const struct want *want, struct pl_extent *extent,
	   struct got *got)
{
	struct pl_zone *zone = want->zone;
	struct pl_area *area = extent->area;
	uint64_t base = extent->addr;
	size_t first_chunk, end_chunk;

	got->follow = extent->mask & ~want->bit;
	got->record->area = area;
	chunks_of(zone, area, base, want->room, &first_chunk, &end_chunk);
	if (arena->streams && pl_reuse_is_one_stream(arena->streams) &&
	    sl_bitmap_next_set(area->used, first_chunk, end_chunk) < end_chunk)
		arena->recycled = 1;
	if (zone->packed) {
		arena->owed_mask |= extent->mask; /* the rest is as of now */
		pl_zone_cut(zone, extent, want->room, arena->seq);
	} else {
		chunks_carve(arena, want, extent);
	}
	sl_bitmap_set(area->used, first_chunk, end_chunk - first_chunk);
	if (end_chunk > area->used_end)
		__atomic_store_n(&area->used_end, end_chunk, __ATOMIC_RELAXED);
	got->unpopulated = !arena->pressed &&
			   sl_bitmap_next_clear(area->populated, first_chunk, end_chunk) <
				   end_chunk;
	return base;
}

/* Bytes of chunks that this room would add to what is held. */
PL_ARENA_HELD static uint64_t
room_adds(const struct want *want, const struct pl_extent *extent)
{
	size_t first, end, n;

	if (!extent)
		return sl_round_up(want->room, want->zone->chunk_bytes);
	chunks_of(want->zone, extent->area, extent->addr, want->room, &first, &end);
	n = sl_bitmap_count(extent->area->populated, first, end - first);
	return (end - first - n) * want->zone->chunk_bytes;
}

/* ---- room ---- */

int
pl_arena_area_add(struct pl_arena *arena, struct pl_zone *zone, uint64_t bytes)
{
	int small = zone == &arena->zones[PL_ZONE_SMALL];
	uint64_t least = sl_round_up(bytes, zone->chunk_bytes);
	uint64_t size = small ? SMALL_AREA : BIG_AREA;
	void *addr;
	int rc;

	size = sl_round_up(size, zone->chunk_bytes);
	if (size < least)
		size = least;
	for (unsigned tries = 0;; tries++) {
		pl_enter();
		rc = sl_region_alloc(arena->gpu->space, size, zone->chunk_bytes, &addr);
		pl_leave();
		if (!rc || size == least || tries == AREA_TRIES)
			break;
		size = sl_round_up(size / 2, zone->chunk_bytes);
		if (size < least || tries == AREA_TRIES - 1)
			size = least;
	}
	if (rc)
		return rc;
	pl_arena_lock(arena);
	rc = pl_zone_add(zone, (uintptr_t)addr, size);
	pl_arena_unlock(arena);
	if (rc) { /* nothing can be in it */
		pl_enter();
		sl_ignore(sluice_unmap(arena->gpu->space, addr));
		pl_leave();
		rc = sl_fail(rc, "out of host memory");
	}
	return rc;
}

/* Whether waiting for what is owed keeps the GPU at ease. */
PL_ARENA_HELD static int
wait_is_better(struct pl_arena *arena, const struct want *want, const struct pl_extent *extent)
{
	uint64_t budget = arena->gpu->device_budget;

	return !arena->pressed && want->zone->oldest &&
	       arena->held_bytes + room_adds(want, extent) > budget &&
	       arena->live_bytes + want->room <= budget;
}

/* Extents that the end of a block may make. */
static unsigned
extents_owed(uint64_t room)
{
	return size_is_small(room) ? EXTENTS_SMALL : EXTENTS_BIG;
}

/* Make the record a live block at base. 0, or -ENOMEM and it is none. */
PL_ARENA_HELD static int
block_begin(struct pl_arena *arena, const struct want *want, uint64_t base,
	    struct pl_record *record)
{
	struct pl_block *block = &record->block;
	int rc;

	block->room = want->room;
	block->gpu = arena->gpu;
	block->birth = want->birth;
	rc = pl_block_publish(record, base, want->bytes, size_is_small(want->room));
	if (rc)
		return rc;
	arena->live_bytes += want->room;
	atomic_fetch_add(&arena->generation, 1);
	return 0;
}

/* Make the record a block in this extent. 0 or -ENOMEM. */
PL_ARENA_HELD static int
block_make(struct pl_arena *arena, const struct want *want, struct pl_extent *extent,
	   struct got *got)
{
	struct pl_zone *zone = want->zone;
	unsigned class = extent->class;
	uint64_t mask = extent->mask, base = room_carve(arena, want, extent, got);
	int rc = block_begin(arena, want, base, got->record);

	if (rc) {
		room_put(arena, zone, got->record->area, base, want->room, class, mask);
		return rc;
	}
	zone->n_owed += extents_owed(want->room);
	return 0;
}

enum stage { STAGE_LOOK, STAGE_POLLED, STAGE_WAITED };

/*
 * Find room and make it a block. 0 or -errno. Between two searches something happens that may change the
 * answer: a look at the fences, waiting for one, more addresses. Without locks.
 */
static int
block_place(struct pl_arena *arena, const struct want *want, struct got *got)
{
	enum stage stage = STAGE_LOOK;

	for (unsigned n = 0; n < SEARCHES_MAX; n++) {
		enum search found = SEARCH_NONE;
		struct pl_extent *extent = NULL;
		int owed, wait, done, rc;

		pl_arena_lock(arena);
		if (!got->record)
			got->record = pl_record_get(&arena->records);
		rc = got->record ? pl_zone_reserve(want->zone, extents_owed(want->room) +
								       EXTENTS_CARVED)
				 : -ENOMEM;
		if (rc) {
			pl_arena_unlock(arena);
			return sl_fail(rc, "GPU %d: out of host memory", arena->gpu->device);
		}
		found = room_search(want, &extent);
		owed = want->zone->oldest != NULL;
		wait = found != SEARCH_FOUND && wait_is_better(arena, want, extent);
		done = found == SEARCH_FOUND ||
		       (found == SEARCH_FRESH &&
			(!owed || stage >= (wait ? STAGE_WAITED : STAGE_POLLED)));
		if (done)
			rc = block_make(arena, want, extent, got);
		pl_arena_unlock(arena);
		if (rc)
			return sl_fail(rc, "GPU %d: out of host memory", arena->gpu->device);
		if (done)
			return 0;
		if (owed && stage == STAGE_LOOK) {
			pl_reuse_reclaim(arena, 0);
			stage = STAGE_POLLED;
		} else if (wait && stage < STAGE_WAITED) {
			if (!pl_reuse_reclaim(arena, 1))
				stage = STAGE_WAITED;
		} else {
			rc = pl_arena_area_add(arena, want->zone, want->room);
			if (rc && !(owed && pl_reuse_reclaim(arena, 1)))
				return rc;
		}
	}
	return sl_fail(-ENOMEM, "GPU %d: no room was found in %u searches",
		       arena->gpu->device, SEARCHES_MAX);
}

/* ---- residency ---- */

/* The pressure that holding so many bytes of chunks is. Other programs may give way first. */
static enum pl_pressure
pressure_at(struct pl_gpu *gpu, uint64_t held_bytes)
{
	if (held_bytes > gpu->device_budget && !pl_share_ask(gpu, held_bytes))
		return PL_OVERSUBSCRIBED;
	return held_bytes > pl_share_most(gpu) / 2 ? PL_TRACKING : PL_FITS;
}

uint64_t
pl_arena_held(struct pl_gpu *gpu)
{
	struct pl_arena *arena = pl_arena_of(gpu);
	uint64_t bytes;

	if (!arena)
		return 0;
	pl_arena_lock(arena);
	bytes = arena->held_bytes + arena->promised_bytes;
	pl_arena_unlock(arena);
	return bytes;
}

/* Chunks [first, last) are resident now, or not (done 0): they are promised no longer. */
static void
populate_end(struct pl_arena *arena, const struct pl_zone *zone, struct pl_area *area,
	     size_t first, size_t last, int done)
{
	pl_arena_lock(arena);
	arena->promised_bytes -= (last - first) * zone->chunk_bytes;
	for (size_t i = first; done && i < last; i++) {
		if (sl_bitmap_test(area->populated, i))
			continue;
		sl_bitmap_set(area->populated, i, 1);
		arena->held_bytes += zone->chunk_bytes;
	}
	pl_arena_unlock(arena);
}

/*
 * What is to be resident counts before it is: two threads that find room for one each, and take it both, would
 * have the core take out a third's chunk, which launches use without a scope.
 */
int
pl_arena_populate(struct pl_arena *arena, const struct pl_zone *zone,
		  struct pl_area *area, uint64_t base, uint64_t room)
{
	struct pl_gpu *gpu = arena->gpu;
	size_t first, end, last;

	chunks_of(zone, area, base, room, &first, &end);
	for (; first < end; first = last) {
		uint64_t held;
		int rc;

		pl_arena_lock(arena);
		first = sl_bitmap_next_clear(area->populated, first, end);
		last = sl_bitmap_next_set(area->populated, first, end);
		if (first == end || arena->pressed) {
			pl_arena_unlock(arena);
			return 0;
		}
		arena->promised_bytes += (last - first) * zone->chunk_bytes;
		held = arena->held_bytes + arena->promised_bytes;
		pl_arena_unlock(arena);
		pl_gpu_press(gpu, pressure_at(gpu, held));
		rc = atomic_load(&gpu->pressure) >= PL_OVERSUBSCRIBED
			     ? -EALREADY
			     : pl_gpu_populate(gpu, area->base + first * zone->chunk_bytes,
					       (last - first) * zone->chunk_bytes);
		populate_end(arena, zone, area, first, last, !rc);
		if (rc == -ENOBUFS || rc == -ENOMEM)
			pl_gpu_press(gpu, PL_OVERSUBSCRIBED);
		if (rc == -ENOBUFS || rc == -ENOMEM || rc == -EALREADY)
			return 0;
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- ending ---- */

/*
 * The end of a block that the caller has claimed; streams of mask may still use its room. ordered: in
 * the order of that one stream. Without locks.
 */
static void
block_end(struct pl_arena *arena, struct pl_record *record, int ordered, uint64_t mask)
{
	struct pl_gpu *gpu = arena->gpu;
	uint64_t base = record->block.base, room = record->block.room;
	struct pl_zone *zone = &arena->zones[size_is_small(room) ? PL_ZONE_SMALL : PL_ZONE_BIG];
	struct pl_fence *lien = record->block.lien;
	int held, fence;

	if (atomic_load(&record->block.flags) & PL_BLOCK_PINNED)
		pl_block_unpin(&record->block);
	pl_pointer_table_forget(&record->block);
	pl_arena_lock(arena);
	pl_block_retract(record, size_is_small(room));
	if (pl_reuse_is_one_stream(arena->streams))
		mask = 0; /* what comes next comes behind it */
	arena->seq++;
	zone->n_owed -= extents_owed(room);
	room_put(arena, zone, record->area, base, room,
		 ordered || !mask ? pl_reuse_class(mask) : PL_CLASS_MIXED, mask);
	if (mask) {
		arena->owed_frees++;
		arena->owed_bytes += room;
	}
	fence = mask && !atomic_load(&arena->n_fences) &&
		(arena->owed_frees >= FENCE_AFTER ||
		 arena->owed_bytes >= gpu->device_budget / FENCE_PART);
	held = zone->held != NULL;
	arena->live_bytes -= room;
	atomic_fetch_add(&arena->generation, 1);
	pl_record_put(&arena->records, record);
	pl_arena_unlock(arena);
	pl_fence_put(lien);
	atomic_fetch_sub(&gpu->allocated_bytes, room);
	if (held)
		pl_reuse_discard_held(arena);
	if (fence)
		pl_reuse_reclaim(arena, 0);
}

void
pl_arena_free(struct pl_block *block, int ordered, struct cu_stream *stream,
	      enum pl_default_stream flavour)
{
	struct pl_record *record = (struct pl_record *)block; /* its first member */
	struct pl_gpu *gpu = block->gpu;
	uint64_t mask;

	if (ordered)
		mask = pl_stream_bit(gpu, stream, flavour);
	else
		pl_streams_active(gpu, &mask);
	if (!__atomic_exchange_n(&record->live, 0, __ATOMIC_ACQ_REL))
		return; /* freed twice, by two threads */
	pl_suballocs_drop(block);
	pl_tracing_free(block);
	pl_reuse_streams_look(pl_arena_of(gpu), mask);
	block_end(pl_arena_of(gpu), record, ordered, mask);
	PL_COUNT(frees, 1);
}

/* ---- allocating ---- */

static void
full_say(struct pl_arena *arena, uint64_t bytes, const char *why)
{
	const struct pl_gpu *gpu = arena->gpu;

	if (!atomic_exchange(&arena->said_full, 1))
		pl_error("GPU %d: out of memory: the program has %llu MiB and asks for "
			 "%llu MiB "
			 "more: %s",
			 gpu->device,
			 (unsigned long long)(atomic_load(&gpu->allocated_bytes) >> 20),
			 (unsigned long long)(bytes >> 20), why);
}

int
pl_arena_limit_take(struct pl_arena *arena, uint64_t room)
{
	struct pl_gpu *gpu = arena->gpu;
	uint64_t limit = pl_gpu_virtual_bytes(gpu);
	uint64_t now = atomic_load(&gpu->allocated_bytes);
	uint64_t others = limit - gpu->device_budget; /* of host and store */
	int rc;

	if ((now > limit || room > limit - now) && now + room > others &&
	    pl_share_ask(gpu, now + room - others))
		limit = pl_gpu_virtual_bytes(gpu);
	do {
		if (now > limit || room > limit - now) {
			rc = sl_fail(
				-ENOMEM,
				"device (%llu MiB), host memory (%llu MiB) and disk "
				"(%llu MiB) "
				"hold no more together: give more host memory, or spill "
				"directories with more room",
				(unsigned long long)(gpu->device_budget >> 20),
				(unsigned long long)(gpu->host_budget >> 20),
				(unsigned long long)(gpu->store_budget >> 20));
			full_say(arena, room, sluice_last_error());
			return rc;
		}
	} while (!atomic_compare_exchange_weak(&gpu->allocated_bytes, &now, now + room));
	return 0;
}

void
pl_arena_announce(struct pl_gpu *gpu)
{
	uint64_t allocated = atomic_load(&gpu->allocated_bytes), budget = gpu->device_budget;
	uint64_t told = atomic_load(&gpu->announced_bytes);

	if (atomic_load_explicit(&gpu->pressure, memory_order_relaxed) < PL_OVERSUBSCRIBED ||
	    allocated < budget || allocated - budget < told + pl_gpu_chunk_bytes(gpu) ||
	    !atomic_compare_exchange_strong(&gpu->announced_bytes, &told, allocated - budget))
		return;
	pl_gpu_expect(gpu, allocated - budget);
}

/* Zone and room of so many bytes. */
static void
want_size(struct pl_arena *arena, struct want *want)
{
	want->zone = &arena->zones[PL_ZONE_SMALL];
	want->room = want->bytes; /* where it would not fit 64 bits: refused as it is */
	if (size_is_small(want->bytes))
		want->room = sl_round_up(want->bytes, PL_UNIT_BYTES);
	if (size_is_small(want->room))
		return;
	want->zone = &arena->zones[PL_ZONE_BIG];
	if (want->bytes <= UINT64_MAX / 2)
		want->room = sl_round_up(want->bytes, BIG_UNIT);
}

/* A block whose room is in the order of the stream. 0 or -errno; then got->record may be there. */
static int
block_order(struct pl_arena *arena, struct want *want, struct cu_stream *stream,
	    enum pl_default_stream flavour, struct got *got)
{
	struct pl_gpu *gpu = arena->gpu;
	int rc = block_place(arena, want, got);

	if (rc || !got->follow)
		return rc;
	if (want->lent && !pl_reuse_lend(arena, &got->record->block, got->follow))
		return 0;
	if (!want->lent && !pl_stream_follow(gpu, stream, flavour, got->follow)) {
		pl_arena_lock(arena);
		arena->follows++;
		pl_arena_unlock(arena);
		return 0;
	}
	/* The stream cannot be held back just now, or there is no fence: other room. */
	atomic_fetch_add(&gpu->allocated_bytes, want->room); /* the end takes it off */
	got->record->live = 0;
	block_end(arena, got->record, 0, got->follow | want->bit);
	*got = (struct got){0};
	want->no_others = 1;
	return block_place(arena, want, got);
}

int
pl_arena_alloc(struct pl_gpu *gpu, size_t bytes, enum pl_birth birth,
	       struct cu_stream *stream, enum pl_default_stream flavour,
	       struct pl_block **out)
{
	struct pl_arena *arena = pl_arena_get(gpu);
	struct want want = {.bytes = bytes, .birth = birth};
	struct got got = {0};
	uint64_t active;
	int rc;

	if (!bytes)
		return sl_fail(-EINVAL, "an allocation of 0 bytes");
	if (!arena)
		return sl_fail(-ENOMEM, "GPU %d: out of host memory", gpu->device);
	want_size(arena, &want);
	rc = pl_arena_limit_take(arena, want.room);
	if (rc)
		return rc;
	pl_streams_active(gpu, &active);
	if (birth == PL_BORN_ASYNC)
		want.bit = pl_stream_bit(gpu, stream, flavour);
	want.lent = birth == PL_BORN_ALLOC && pl_reuse_lends(arena);
	pl_reuse_streams_look(arena, active | want.bit);
	rc = block_order(arena, &want, stream, flavour, &got);
	if (rc) {
		pl_arena_lock(arena);
		if (got.record)
			pl_record_put(&arena->records, got.record);
		pl_arena_unlock(arena);
		atomic_fetch_sub(&gpu->allocated_bytes, want.room);
	} else if (got.unpopulated) {
		rc = pl_arena_populate(arena, want.zone, got.record->area,
				       got.record->block.base, want.room);
		if (rc) {
			got.record->live = 0;
			block_end(arena, got.record, 0, 0);
		}
	}
	if (rc) {
		full_say(arena, want.room, sluice_last_error());
		return rc;
	}
	PL_COUNT(allocations, 1);
	pl_arena_announce(gpu);
	*out = &got.record->block;
	pl_tracing_alloc(*out);
	return 0;
}
