/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking an arena: its live blocks in order of address, and its numbers. Every address of its
 * areas is in a block, or free exactly once.
 *
 * Threads: any; the arena's lock is held while a callback runs.
 */
#include <errno.h>

#include "base/error.h"
#include "preload/alloc/arena.h"
#include "preload/alloc/arena_internal.h"
#include "preload/alloc/block.h"
#include "preload/alloc/block_internal.h"
#include "preload/alloc/extent.h"
#include "preload/gpu.h"

uint64_t
pl_arena_generation(const struct pl_gpu *gpu)
{
	struct pl_arena *arena = pl_arena_of(gpu);

	return arena ? atomic_load(&arena->generation) : 0;
}

/* Live blocks of one area; what fn returned last. */
PL_ARENA_HELD static int
area_walk(const struct pl_zone *zone, const struct pl_area *area,
	  int (*fn)(struct pl_block *, void *), void *arg)
{
	uint64_t end = area->base + area->used_end * zone->chunk_bytes;
	struct pl_block *block = pl_block_next(area->base, end);
	int rc = 0;

	for (; block && !rc; block = pl_block_next(block->base + block->room, end))
		rc = fn(block, arg);
	return rc;
}

int
pl_arena_walk(struct pl_gpu *gpu, int (*fn)(struct pl_block *, void *), void *arg)
{
	struct pl_arena *arena = pl_arena_of(gpu);
	const struct pl_area *next[PL_ZONE_COUNT];
	int rc = 0;

	if (!arena)
		return 0;
	pl_arena_lock(arena);
	for (int i = 0; i < PL_ZONE_COUNT; i++)
		next[i] = arena->zones[i].areas;
	for (;;) {
		int lowest = -1;

		for (int i = 0; i < PL_ZONE_COUNT; i++)
			if (next[i] && (lowest < 0 || next[i]->base < next[lowest]->base))
				lowest = i;
		if (lowest < 0 || rc)
			break;
		rc = area_walk(&arena->zones[lowest], next[lowest], fn, arg);
		next[lowest] = next[lowest]->next;
	}
	pl_arena_unlock(arena);
	return rc;
}

void
pl_arena_state(struct pl_gpu *gpu, struct pl_arena_state *out)
{
	struct pl_arena *arena = pl_arena_of(gpu);

	*out = (struct pl_arena_state){0};
	if (!arena)
		return;
	sl_mutex_lock(&arena->fence_lock);
	out->fences_made = arena->fences_made;
	out->fences_passed = arena->fences_passed;
	out->waits = arena->waits;
	pl_arena_lock(arena);
	out->live_bytes = arena->live_bytes;
	out->held_bytes = arena->held_bytes;
	out->follows = arena->follows;
	out->lent = arena->lent;
	for (int i = 0; i < PL_ZONE_COUNT; i++) {
		const struct pl_zone *zone = &arena->zones[i];

		for (const struct pl_area *area = zone->areas; area; area = area->next)
			out->area_bytes += area->bytes;
		for (const struct pl_extent *at = zone->oldest; at; at = at->newer)
			out->waiting_bytes += at->bytes;
	}
	pl_arena_unlock(arena);
	sl_mutex_unlock(&arena->fence_lock);
}

static int
room_add(struct pl_block *block, void *arg)
{
	*(uint64_t *)arg += block->room;
	return 0;
}

/* Every address of a zone is in a block, or free; where the program maps its memory itself,
 * reserved or free. */
PL_ARENA_HELD static int
zone_sums_check(const struct pl_arena *arena, int kind, uint64_t *room)
{
	const struct pl_zone *zone = &arena->zones[kind];
	uint64_t pieces = 0, runs = 0, all = 0, in_blocks = 0, reserved = 0, unusable;
	int rc = pl_zone_check(zone, &pieces, &runs);

	if (rc)
		return rc;
	for (const struct pl_area *area = zone->areas; area; area = area->next) {
		all += area->bytes;
		rc = area_walk(zone, area, room_add, &in_blocks);
	}
	unusable = (all - runs) / zone->chunk_bytes *
		   (zone->chunk_bytes - zone->usable_bytes);
	if (kind >= PL_ZONE_MAPPED && kind < PL_ZONE_COUNT) {
		if (in_blocks > arena->reserved_bytes[kind])
			return sl_fail(-EINVAL,
				       "arena: more is mapped than was reserved");
		reserved = arena->reserved_bytes[kind] - in_blocks;
	}
	if (in_blocks + reserved + pieces + runs + unusable != all)
		return sl_fail(-EINVAL, "arena: of %llu bytes %llu are in blocks, %llu reserved, %llu + %llu free",
			       (unsigned long long)all, (unsigned long long)in_blocks,
			       (unsigned long long)reserved, (unsigned long long)pieces,
			       (unsigned long long)runs);
	*room += in_blocks;
	return rc;
}

int
pl_arena_check(struct pl_gpu *gpu)
{
	struct pl_arena *arena = pl_arena_of(gpu);
	uint64_t room = 0;
	int rc = 0;

	if (!arena)
		return 0;
	pl_arena_lock(arena);
	for (int i = 0; i < PL_ZONE_COUNT && !rc; i++)
		rc = zone_sums_check(arena, i, &room);
	if (!rc && room != arena->live_bytes)
		rc = sl_fail(-EINVAL, "arena: blocks have %llu bytes, the books %llu",
			     (unsigned long long)room,
			     (unsigned long long)arena->live_bytes);
	pl_arena_unlock(arena);
	return rc;
}
