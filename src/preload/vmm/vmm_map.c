/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations in the arena: their addresses, the blocks that show their usable parts, and when
 * their chunks are on the device (vmm.h).
 *
 * They have three zones of the arena, with chunks of different sizes. A reservation has whole
 * chunks of the largest size that wastes little of it. So a small one costs no large chunk, and
 * a large one few mappings. The chunk of addresses behind it stays unused. Two reservations
 * never touch, even if a program asks for the addresses behind its own.
 *
 * Blocks are looked up without locks. So a live one is never shortened in front. If it must be
 * cut, new records take its place; the old one stays until the reservation goes.
 *
 * Natively unmapped memory is gone at once, and its program has ended all uses. So while all
 * data fit, a chunk leaves the device with its last mapping, and faults when it is touched. When
 * oversubscribed it is discarded, and may be used again without a new mapping.
 *
 * Threads: pl_vmm_lock is held, except in pl_room_populate(). The arena's lock is taken inside,
 * and no call of the core is made under it.
 */
#include <errno.h>
#include <stdbool.h>

#include "base/bitmap.h"
#include "base/error.h"
#include "base/size.h"
#include "core/interpose.h"
#include "preload/alloc/arena_internal.h"
#include "preload/alloc/block.h"
#include "preload/alloc/block_internal.h"
#include "preload/alloc/extent.h"
#include "preload/args/functions.h"
#include "preload/args/pointer_table.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/report/tracing.h"
#include "preload/vmm/vmm.h"
#include "sluice/sluice.h"

#define WASTE_PART     8u /* of a reservation may be lost in its last chunk */
#define SEARCHES_MAX   8u
#define EXTENTS_CARVED 4u
#define EXTENTS_PUT    3u
#define ADDRESS_BITS   47

/* ---- addresses ---- */

static int
zone_for(const struct pl_arena *arena, uint64_t bytes)
{
	int kind = PL_ZONE_COUNT;

	while (--kind > PL_ZONE_MAPPED) {
		uint64_t chunk = arena->zones[kind].chunk_bytes;

		if (sl_round_up(bytes, chunk) - bytes <= bytes / WASTE_PART)
			break;
	}
	return kind;
}

/* Take room at an aligned address in the extent; the rest is free as before. */
PL_ARENA_HELD static void
range_carve(struct pl_arena *arena, struct pl_extent *extent, uint64_t align,
	    struct pl_vmm_range *range)
{
	struct pl_zone *zone = &arena->zones[range->zone];
	uint64_t from = extent->addr, end = from + extent->bytes;

	range->area = extent->area;
	range->base = sl_round_up(from, align);
	pl_zone_take(zone, extent);
	pl_zone_spare(zone, extent);
	if (range->base > from)
		pl_zone_put(zone, range->area, from, range->base - from, PL_CLASS_CLEAN,
			    0, arena->seq);
	from = range->base + range->room;
	if (from < end)
		pl_zone_put(zone, range->area, from, end - from, PL_CLASS_CLEAN, 0,
			    arena->seq);
	zone->n_owed += EXTENTS_PUT;
	arena->reserved_bytes[range->zone] += range->room;
}

/* 1: done; 0: there are none; -ENOMEM. *owed: some may come. */
static int
range_search(struct pl_arena *arena, uint64_t align, struct pl_vmm_range *range, int *owed)
{
	struct pl_zone *zone = &arena->zones[range->zone];
	uint64_t slack = align > zone->chunk_bytes ? align - zone->chunk_bytes : 0;
	struct pl_extent *extent = NULL;
	int rc;

	pl_arena_lock(arena);
	rc = pl_zone_reserve(zone, EXTENTS_CARVED + EXTENTS_PUT);
	if (!rc)
		extent = pl_zone_fit(zone, 1, PL_CLASS_CLEAN, range->room + slack);
	if (extent)
		range_carve(arena, extent, align, range);
	*owed = zone->oldest != NULL;
	pl_arena_unlock(arena);
	return rc ? rc : extent != NULL;
}

int
pl_room_take(struct pl_gpu *gpu, uint64_t bytes, uint64_t align, struct pl_vmm_range *range)
{
	struct pl_arena *arena = pl_arena_get(gpu);
	uint64_t chunk;
	int owed, rc, polled = 0;

	if (!arena)
		return sl_fail(-ENOMEM, "GPU %d: out of host memory", gpu->device);
	if (bytes >> ADDRESS_BITS || align >> ADDRESS_BITS)
		return sl_fail(-EINVAL, "GPU %d: %llu bytes of addresses", gpu->device,
			       (unsigned long long)bytes);
	range->gpu = gpu;
	range->zone = zone_for(arena, bytes);
	chunk = arena->zones[range->zone].chunk_bytes;
	range->bytes = bytes;
	range->room = sl_round_up(bytes, chunk) + chunk;
	if (align < chunk)
		align = chunk;
	for (unsigned n = 0; n < SEARCHES_MAX; n++) {
		rc = range_search(arena, align, range, &owed);
		if (rc)
			return rc > 0 ? 0
				      : sl_fail(rc, "GPU %d: out of host memory",
						gpu->device);
		if (owed && !polled) {
			polled = 1;
			pl_reuse_reclaim(arena, 0);
			continue;
		}
		rc = pl_arena_area_add(arena, &arena->zones[range->zone],
				       range->room + align - chunk);
		if (rc)
			return rc;
	}
	return sl_fail(-ENOMEM, "GPU %d: no addresses were found in %u searches",
		       gpu->device, SEARCHES_MAX);
}

void
pl_room_put(struct pl_vmm_range *range)
{
	struct pl_arena *arena = pl_arena_of(range->gpu);
	struct pl_zone *zone = &arena->zones[range->zone];

	pl_arena_lock(arena);
	while (range->worn) {
		struct pl_record *record = (struct pl_record *)range->worn;

		range->worn = record->next_free ? &record->next_free->block : NULL;
		pl_record_put(&arena->records, record);
	}
	if (!range->keep) {
		zone->n_owed -= EXTENTS_PUT;
		arena->reserved_bytes[range->zone] -= range->room;
		pl_zone_put(zone, range->area, range->base, range->room, PL_CLASS_CLEAN,
			    0, arena->seq);
	}
	pl_arena_unlock(arena);
}

/* ---- blocks ---- */

/* What a block that takes the place of another has of it. */
static void
traits_take(struct pl_record *record, struct pl_record *from)
{
	struct pl_block *to = &record->block, *old = &from->block;

	if (atomic_load(&old->flags) & PL_BLOCK_TABLE) { /* tables are known by one number */
		if (atomic_load(&to->flags) & PL_BLOCK_TABLE)
			atomic_store(&pl_pointer_table_overflow, 1);
		else
			to->id = old->id;
	}
	if (atomic_load(&old->touched))
		atomic_store(&to->touched, 1);
	atomic_fetch_or(&to->flags, atomic_load(&old->flags));
	atomic_fetch_or(&to->streams, atomic_load(&old->streams));
	if (atomic_load(&to->last_launch) < atomic_load(&old->last_launch))
		atomic_store(&to->last_launch, atomic_load(&old->last_launch));
}

static void
record_wear(struct pl_vmm_range *range, struct pl_record *record)
{
	pl_tracing_free(&record->block);
	record->live = 0;
	record->next_free = (struct pl_record *)range->worn; /* its first member */
	range->worn = &record->block;
}

/* A record of the range's, not shown yet. NULL: no memory. */
PL_ARENA_HELD static struct pl_record *
record_make(struct pl_arena *arena)
{
	struct pl_record *record = pl_record_get(&arena->records);

	if (record) {
		record->block.gpu = arena->gpu;
		record->block.birth = PL_BORN_MAPPED;
	}
	return record;
}

/* The block of this range that holds addr. */
static struct pl_record *
record_at(const struct pl_vmm_range *range, uint64_t addr)
{
	if (addr < range->base || addr >= range->base + range->bytes)
		return NULL;
	return (struct pl_record *)pl_block_find(addr); /* its first member */
}

static bool
record_is_pinned(const struct pl_record *record)
{
	return record && atomic_load(&record->block.flags) & PL_BLOCK_PINNED;
}

/* Hold on the device, or no more, as pl_block_pin() did it: by the block. Without locks. 0 or -errno. */
static int
pin_change(const struct pl_gpu *gpu, uint64_t base, uint64_t end, int on)
{
	void *addr = (void *)(uintptr_t)base;
	int rc = 0;

	if (base >= end)
		return 0;
	pl_enter();
	rc = on ? sluice_pin(gpu->space, addr, end - base)
		: sluice_unpin(gpu->space, addr, end - base);
	pl_leave();
	return rc;
}

static void
used_set(struct pl_arena *arena, const struct pl_vmm_range *range, uint64_t addr,
	 uint64_t bytes)
{
	const struct pl_zone *zone = &arena->zones[range->zone];
	struct pl_area *area = range->area;
	size_t first = (addr - area->base) / zone->chunk_bytes;
	size_t end = (addr + bytes - 1 - area->base) / zone->chunk_bytes + 1;

	sl_bitmap_set(area->used, first, end - first);
	if (end > area->used_end)
		__atomic_store_n(&area->used_end, end, __ATOMIC_RELAXED);
}

int
pl_room_show(struct pl_vmm_range *range, uint64_t addr, uint64_t bytes)
{
	struct pl_arena *arena = pl_arena_of(range->gpu);
	struct pl_record *left = record_at(range, addr - 1);
	struct pl_record *right = record_at(range, addr + bytes), *record = left;
	uint64_t base = left ? left->block.base : addr;
	uint64_t left_end = left ? addr : 0, right_base = addr + bytes;
	uint64_t end = right ? right_base + right->block.bytes : right_base;
	int left_pinned = record_is_pinned(left), right_pinned = record_is_pinned(right);
	int rc = left_pinned || right_pinned ? pin_change(range->gpu, base, end, 1) : 0;

	if (rc)
		return rc;
	pl_arena_lock(arena);
	if (!record)
		record = record_make(arena);
	rc = record ? 0 : -ENOMEM;
	if (!rc && right)
		traits_take(record, right);
	if (!rc)
		rc = pl_block_publish(record, base, end - base, 0);
	if (!rc) {
		record->block.room = end - base;
		if (right)
			record_wear(range, right);
		used_set(arena, range, addr, bytes);
		arena->live_bytes += bytes;
		atomic_fetch_add(&arena->generation, 1);
	} else if (record && !left) {
		pl_record_put(&arena->records, record);
	}
	pl_arena_unlock(arena);
	if (rc && (left_pinned || right_pinned))
		sl_ignore(pin_change(range->gpu, base, end, 0));
	if (!rc && left_pinned)
		sl_ignore(pin_change(range->gpu, base, left_end, 0));
	if (!rc && right_pinned)
		sl_ignore(pin_change(range->gpu, right_base, end, 0));
	return rc ? sl_fail(rc, "GPU %d: out of host memory", range->gpu->device) : 0;
}

/* [from, to) of the block is hidden. 0 or -errno. */
static int
block_cut(struct pl_vmm_range *range, struct pl_record *record, uint64_t from, uint64_t to)
{
	struct pl_arena *arena = pl_arena_of(range->gpu);
	uint64_t base = record->block.base, end = base + record->block.bytes;
	struct pl_record *low = NULL, *high = NULL;
	int pinned = record_is_pinned(record), rc;

	if (pinned) {
		rc = pin_change(range->gpu, base, from, 1);
		if (!rc)
			rc = pin_change(range->gpu, to, end, 1);
		if (rc)
			return rc;
	}
	pl_arena_lock(arena);
	if (to < end) {
		high = record_make(arena);
		low = base < from ? record_make(arena) : NULL;
		if (!high || (base < from && !low)) {
			if (high)
				pl_record_put(&arena->records, high);
			pl_arena_unlock(arena);
			if (pinned) {
				sl_ignore(pin_change(range->gpu, base, from, 0));
				sl_ignore(pin_change(range->gpu, to, end, 0));
			}
			return sl_fail(-ENOMEM, "GPU %d: out of host memory",
				       range->gpu->device);
		}
		traits_take(high, record);
		high->block.room = end - to;
		sl_ignore(pl_block_publish(high, to, end - to, 0)); /* its table is there */
		if (low) {
			traits_take(low, record);
			low->block.room = from - base;
			sl_ignore(pl_block_publish(low, base, from - base, 0));
		}
		pl_block_hide(from, to - from);
		record_wear(range, record);
	} else if (base < from) {
		pl_block_shorten(record, from - base);
		record->block.room = from - base;
	} else {
		pl_tracing_free(&record->block);
		pl_block_retract(record, 0);
		pl_record_put(&arena->records, record);
	}
	arena->live_bytes -= to - from;
	atomic_fetch_add(&arena->generation, 1);
	pl_arena_unlock(arena);
	return pinned ? pin_change(range->gpu, base, end, 0) : 0;
}

int
pl_room_hide(struct pl_vmm_range *range, uint64_t addr, uint64_t bytes)
{
	uint64_t end = addr + bytes;
	int rc = 0;

	while (addr < end && !rc) {
		struct pl_block *block = pl_block_find(addr);
		uint64_t to;

		if (!block)
			block = pl_block_next(addr, end);
		if (!block)
			break;
		if (block->base > addr)
			addr = block->base;
		to = block->base + block->bytes;
		if (to > end)
			to = end;
		rc = block_cut(range, (struct pl_record *)block, addr, to);
		addr = to;
	}
	return rc;
}

/* ---- chunks ---- */

int
pl_room_populate(struct pl_gpu *gpu, int zone, struct pl_area *area, uint64_t addr,
		 uint64_t bytes)
{
	struct pl_arena *arena = pl_arena_of(gpu);

	return pl_arena_populate(arena, &arena->zones[zone], area, addr, bytes);
}

/* These whole chunks are on the device no more. */
PL_ARENA_HELD static void
populated_clear(struct pl_arena *arena, const struct pl_vmm_range *range, uint64_t addr,
		uint64_t bytes)
{
	const struct pl_zone *zone = &arena->zones[range->zone];
	struct pl_area *area = range->area;
	size_t first = (addr - area->base) / zone->chunk_bytes, n = bytes / zone->chunk_bytes;

	arena->held_bytes -= sl_bitmap_count(area->populated, first, n) * zone->chunk_bytes;
	sl_bitmap_clear(area->populated, first, n);
}

static int
chunks_evict(struct pl_vmm_range *range, uint64_t addr, uint64_t bytes)
{
	struct pl_arena *arena = pl_arena_of(range->gpu);
	int rc;

	pl_enter();
	rc = sluice_discard(range->gpu->space, (void *)(uintptr_t)addr, bytes,
			    SLUICE_DISCARD_EAGER, NULL);
	pl_leave();
	if (rc)
		return rc;
	pl_arena_lock(arena);
	populated_clear(arena, range, addr, bytes);
	pl_arena_unlock(arena);
	return 0;
}

void
pl_room_drop(struct pl_vmm_range *range, uint64_t addr, uint64_t bytes,
	     bool (*in_use)(uint64_t addr, uint64_t bytes))
{
	struct pl_arena *arena = pl_arena_of(range->gpu);
	uint64_t chunk = arena->zones[range->zone].chunk_bytes;
	uint64_t first = addr - (addr - range->area->base) % chunk;
	uint64_t end = sl_round_up(addr + bytes - first, chunk) + first;

	if (atomic_load(&range->gpu->pressure) >= PL_OVERSUBSCRIBED) {
		pl_reuse_discard(arena, addr, bytes);
		return;
	}
	/* In between all was this one's. */
	if (in_use(first, chunk))
		first += chunk;
	if (first < end && in_use(end - chunk, chunk))
		end -= chunk;
	if (first < end) /* else they stay, and count */
		sl_ignore(chunks_evict(range, first, end - first));
}

int
pl_room_empty(struct pl_vmm_range *range)
{
	struct pl_arena *arena = pl_arena_of(range->gpu);
	uint64_t bytes = range->room - arena->zones[range->zone].chunk_bytes, unmapped = 0;
	int rc = chunks_evict(range, range->base, bytes);

	pl_enter();
	if (!rc)
		rc = sl_unmapped(range->gpu->space, (void *)(uintptr_t)range->base, bytes,
				 &unmapped);
	pl_leave();
	if (!rc && unmapped != bytes)
		rc = sl_fail(-EBUSY,
			     "GPU %d: 0x%llx: %llu bytes cannot be taken off the device",
			     range->gpu->device, (unsigned long long)range->base,
			     (unsigned long long)(bytes - unmapped));
	return rc;
}
