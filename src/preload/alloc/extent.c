/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free addresses: a tree for each kind and class, sorted by (bytes, address), and two hash
 * tables, by the first address and by the end, which find neighbours. The trees are treaps whose
 * priorities are hashes of the address. Their shape depends only on their contents, and no
 * sequence of calls makes them deep.
 *
 * Extents that are not clean are also in a list in order of their last free. A passed fence
 * covers a head of that list. Nodes come from slabs and go to a list of spares. Callers reserve
 * before they begin, so that a free cannot fail.
 *
 * Threads: the caller's lock.
 */
#include "preload/alloc/extent.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/bitmap.h"
#include "base/error.h"
#include "base/fault_point.h"

#define SLAB_EXTENTS 256u
#define BUCKETS_MIN  1024u

static uint64_t
hash_of(uint64_t addr)
{
	addr = (addr ^ addr >> 30) * 0xbf58476d1ce4e5b9u;
	addr = (addr ^ addr >> 27) * 0x94d049bb133111ebu;
	return addr ^ addr >> 31;
}

/* ---- trees ---- */

static int
extent_less(const struct pl_extent *a, const struct pl_extent *b)
{
	return a->bytes != b->bytes ? a->bytes < b->bytes : a->addr < b->addr;
}

static void
tree_insert(struct pl_extent **at, struct pl_extent *new)
{
	struct pl_extent **less = &new->less, **more = &new->more, *rest;

	while (*at && (*at)->priority >= new->priority)
		at = extent_less(new, *at) ? &(*at)->less : &(*at)->more;
	rest = *at;
	*at = new;
	while (rest) {
		if (extent_less(rest, new)) {
			*less = rest;
			less = &rest->more;
			rest = rest->more;
		} else {
			*more = rest;
			more = &rest->less;
			rest = rest->less;
		}
	}
	*less = *more = NULL;
}

static void
tree_remove(struct pl_extent **at, struct pl_extent *old)
{
	struct pl_extent *less = old->less, *more = old->more;

	while (*at != old)
		at = extent_less(old, *at) ? &(*at)->less : &(*at)->more;
	while (less && more) {
		if (less->priority >= more->priority) {
			*at = less;
			at = &less->more;
			less = less->more;
		} else {
			*at = more;
			at = &more->less;
			more = more->less;
		}
	}
	*at = less ? less : more;
}

struct pl_extent *
pl_zone_fit(const struct pl_zone *zone, int run, unsigned class, uint64_t bytes)
{
	struct pl_extent *at = zone->trees[run][class], *best = NULL;

	while (at) {
		if (at->bytes >= bytes) {
			best = at;
			at = at->less;
		} else {
			at = at->more;
		}
	}
	return best;
}

/* ---- nodes ---- */

int
pl_zone_reserve(struct pl_zone *zone, size_t n)
{
	while (zone->n_spare < zone->n_owed + n) {
		struct pl_extent *slab = sl_calloc(SLAB_EXTENTS, sizeof(*slab));

		if (!slab)
			return -ENOMEM;
		slab[0].newer = zone->slabs; /* the first links the slabs */
		zone->slabs = slab;
		for (size_t i = 1; i < SLAB_EXTENTS; i++)
			pl_zone_spare(zone, &slab[i]);
	}
	return 0;
}

void
pl_zone_spare(struct pl_zone *zone, struct pl_extent *extent)
{
	extent->start_next = zone->spare;
	zone->spare = extent;
	zone->n_spare++;
}

static struct pl_extent *
extent_new(struct pl_zone *zone, struct pl_area *area, uint64_t addr, uint64_t bytes)
{
	struct pl_extent *extent = zone->spare;

	assert(extent);
	zone->spare = extent->start_next;
	zone->n_spare--;
	extent->area = area;
	extent->addr = addr;
	extent->bytes = bytes;
	return extent;
}

/* ---- linking ---- */

/* A table that cannot grow has longer chains. */
static void
buckets_grow(struct pl_zone *zone)
{
	size_t n = zone->n_buckets * 2;
	struct pl_extent **starts = sl_calloc(n, sizeof(struct pl_extent *));
	struct pl_extent **ends = sl_calloc(n, sizeof(struct pl_extent *));

	if (!starts || !ends) {
		free(starts);
		free(ends);
		return;
	}
	for (size_t i = 0; i < zone->n_buckets; i++) {
		struct pl_extent *at = zone->starts[i], *next;

		for (; at; at = next) {
			struct pl_extent **start = &starts[hash_of(at->addr) & (n - 1)];
			struct pl_extent **end = &ends[hash_of(at->addr + at->bytes) & (n - 1)];

			next = at->start_next;
			at->start_next = *start;
			*start = at;
			at->end_next = *end;
			*end = at;
		}
	}
	free(zone->starts);
	free(zone->ends);
	zone->starts = starts;
	zone->ends = ends;
	zone->n_buckets = n;
}

static void
dirty_append(struct pl_zone *zone, struct pl_extent *extent)
{
	assert(!zone->newest || zone->newest->seq <= extent->seq);
	extent->older = zone->newest;
	extent->newer = NULL;
	*(zone->newest ? &zone->newest->newer : &zone->oldest) = extent;
	zone->newest = extent;
}

static void
dirty_remove(struct pl_zone *zone, struct pl_extent *extent)
{
	*(extent->older ? &extent->older->newer : &zone->oldest) = extent->newer;
	*(extent->newer ? &extent->newer->older : &zone->newest) = extent->older;
}

static void
extent_link(struct pl_zone *zone, struct pl_extent *extent, int run, unsigned class)
{
	struct pl_extent **start, **end;

	if (++zone->n_extents > zone->n_buckets)
		buckets_grow(zone);
	extent->priority = hash_of(extent->addr);
	start = &zone->starts[extent->priority & (zone->n_buckets - 1)];
	end = &zone->ends[hash_of(extent->addr + extent->bytes) & (zone->n_buckets - 1)];
	extent->run = (unsigned char)run;
	extent->class = (unsigned char)class;
	extent->start_next = *start;
	*start = extent;
	extent->end_next = *end;
	*end = extent;
	tree_insert(&zone->trees[run][class], extent);
	if (class) {
		zone->filled[run] |= (uint64_t)1 << (class - 1);
		dirty_append(zone, extent);
	}
}

void
pl_zone_take(struct pl_zone *zone, struct pl_extent *extent)
{
	struct pl_extent **at = &zone->starts[extent->priority & (zone->n_buckets - 1)];

	while (*at != extent)
		at = &(*at)->start_next;
	*at = extent->start_next;
	at = &zone->ends[hash_of(extent->addr + extent->bytes) & (zone->n_buckets - 1)];
	while (*at != extent)
		at = &(*at)->end_next;
	*at = extent->end_next;
	zone->n_extents--;
	tree_remove(&zone->trees[extent->run][extent->class], extent);
	if (!extent->class)
		return;
	if (!zone->trees[extent->run][extent->class])
		zone->filled[extent->run] &= ~((uint64_t)1 << (extent->class - 1));
	dirty_remove(zone, extent);
}

static struct pl_extent *
extent_at(const struct pl_zone *zone, uint64_t addr)
{
	struct pl_extent *at = zone->starts[hash_of(addr) & (zone->n_buckets - 1)];

	while (at && at->addr != addr)
		at = at->start_next;
	return at;
}

static struct pl_extent *
extent_ending_at(const struct pl_zone *zone, uint64_t end)
{
	struct pl_extent *at = zone->ends[hash_of(end) & (zone->n_buckets - 1)];

	while (at && at->addr + at->bytes != end)
		at = at->end_next;
	return at;
}

static uint64_t
chunk_of(const struct pl_zone *zone, const struct pl_area *area, uint64_t addr)
{
	return (addr - area->base) / zone->chunk_bytes;
}

/* ---- putting ---- */

/* Take the neighbour, if it is of the same make, into the extent. */
static void
neighbour_join(struct pl_zone *zone, struct pl_extent *extent, struct pl_extent *other,
	       int run, unsigned class)
{
	if (!other || other->area != extent->area || other->run != run || other->class != class)
		return;
	if (class == PL_CLASS_MIXED && other->seq != extent->seq && !zone->lends)
		return;
	if (!run && chunk_of(zone, extent->area, other->addr) !=
			    chunk_of(zone, extent->area, extent->addr))
		return;
	extent->mask |= other->mask;
	pl_zone_take(zone, other);
	if (other->addr < extent->addr)
		extent->addr = other->addr;
	extent->bytes += other->bytes;
	pl_zone_spare(zone, other);
}

static void
neighbours_join(struct pl_zone *zone, struct pl_extent *extent, int run, unsigned class,
		uint64_t mask, uint64_t seq)
{
	extent->mask = class ? mask : 0;
	extent->seq = seq;
	neighbour_join(zone, extent, extent_at(zone, extent->addr + extent->bytes), run,
		       class);
	neighbour_join(zone, extent, extent_ending_at(zone, extent->addr), run, class);
}

static void
run_put(struct pl_zone *zone, struct pl_extent *extent, unsigned class, uint64_t mask,
	uint64_t seq)
{
	neighbours_join(zone, extent, 1, class, mask, seq);
	extent_link(zone, extent, 1, class);
}

/*
 * Of an extent that is linked nowhere, hold back the chunks that [addr, end) has made free, and link the
 * rest. Chunks that were free before may be held once more, where there are no nodes to cut them off.
 */
static void
whole_chunks_hold(struct pl_zone *zone, struct pl_extent *extent, uint64_t addr,
		  uint64_t end, unsigned class)
{
	struct pl_area *area = extent->area;
	uint64_t chunk = zone->chunk_bytes, last = extent->addr + extent->bytes;
	uint64_t low = area->base + chunk_of(zone, area, addr) * chunk;
	uint64_t high = area->base + (chunk_of(zone, area, end - 1) + 1) * chunk;
	uint64_t mask = extent->mask, seq = extent->seq;

	if (low < extent->addr)
		low += chunk;
	if (high > last)
		high -= chunk;
	if (low >= high) {
		extent_link(zone, extent, 1, class);
		return;
	}
	if (zone->n_spare >= zone->n_owed + 2) {
		const uint64_t parts[2][2] = {{extent->addr, low}, {high, last}};

		for (int i = 0; i < 2; i++) {
			struct pl_extent *part;

			if (parts[i][0] == parts[i][1])
				continue;
			part = extent_new(zone, area, parts[i][0], parts[i][1] - parts[i][0]);
			part->mask = mask;
			part->seq = seq;
			extent_link(zone, part, 1, class);
		}
		extent->addr = low;
		extent->bytes = high - low;
	}
	extent->class = (unsigned char)class;
	extent->newer = zone->held;
	zone->held = extent;
}

/* Into a packed zone. */
static void
packed_put(struct pl_zone *zone, struct pl_extent *extent, unsigned class, uint64_t mask,
	   uint64_t seq)
{
	uint64_t addr = extent->addr, end = addr + extent->bytes;

	neighbours_join(zone, extent, 1, class, mask, seq);
	if (zone->hold_chunks)
		whole_chunks_hold(zone, extent, addr, end, class);
	else
		extent_link(zone, extent, 1, class);
}

static void
piece_put(struct pl_zone *zone, struct pl_extent *extent, unsigned class, uint64_t mask,
	  uint64_t seq)
{
	neighbours_join(zone, extent, 0, class, mask, seq);
	if (extent->bytes < zone->usable_bytes) {
		extent_link(zone, extent, 0, class);
		return;
	}
	extent->bytes = zone->chunk_bytes;
	if (!zone->hold_chunks) {
		run_put(zone, extent, class, extent->mask, seq);
		return;
	}
	extent->class = (unsigned char)class;
	extent->newer = zone->held;
	zone->held = extent;
}

void
pl_zone_put(struct pl_zone *zone, struct pl_area *area, uint64_t addr, uint64_t bytes,
	    unsigned class, uint64_t mask, uint64_t seq)
{
	uint64_t end = addr + bytes, up, down;

	if (zone->packed) {
		packed_put(zone, extent_new(zone, area, addr, bytes), class, mask, seq);
		return;
	}
	up = area->base + (addr - area->base + zone->chunk_bytes - 1) /
				  zone->chunk_bytes * zone->chunk_bytes;
	down = area->base + chunk_of(zone, area, end) * zone->chunk_bytes;
	if (up > end) { /* within one chunk */
		piece_put(zone, extent_new(zone, area, addr, bytes), class, mask, seq);
		return;
	}
	if (addr < up)
		piece_put(zone, extent_new(zone, area, addr, up - addr), class, mask, seq);
	if (up < down)
		run_put(zone, extent_new(zone, area, up, down - up), class, mask, seq);
	if (down < end) {
		struct pl_extent *head = extent_new(zone, area, down, end - down);

		/* The tail of its last chunk, if nobody has it: the whole was one, and is again. */
		if (class && bytes > zone->chunk_bytes)
			neighbour_join(zone, head, extent_at(zone, end), 0, PL_CLASS_CLEAN);
		piece_put(zone, head, class, mask, seq);
	}
}

void
pl_zone_cut(struct pl_zone *zone, struct pl_extent *extent, uint64_t bytes, uint64_t seq)
{
	pl_zone_take(zone, extent);
	if (extent->bytes == bytes) {
		pl_zone_spare(zone, extent);
		return;
	}
	extent->addr += bytes;
	extent->bytes -= bytes;
	extent->seq = seq;
	extent_link(zone, extent, 1, extent->class);
}

size_t
pl_zone_clean(struct pl_zone *zone, uint64_t seq)
{
	size_t n = 0;

	while (zone->oldest && zone->oldest->seq <= seq) {
		struct pl_extent *extent = zone->oldest;

		pl_zone_take(zone, extent);
		if (zone->packed)
			packed_put(zone, extent, PL_CLASS_CLEAN, 0, extent->seq);
		else if (extent->run)
			run_put(zone, extent, PL_CLASS_CLEAN, 0, extent->seq);
		else
			piece_put(zone, extent, PL_CLASS_CLEAN, 0, extent->seq);
		n++;
	}
	return n;
}

/* ---- held back ---- */

struct pl_extent *
pl_zone_held(struct pl_zone *zone)
{
	struct pl_extent *extent = zone->held;

	if (extent)
		zone->held = extent->newer;
	return extent;
}

void
pl_zone_release(struct pl_zone *zone, struct pl_extent *extent)
{
	uint64_t seq = extent->seq;

	/* Others may have been freed meanwhile: the list is in order. */
	if (extent->class && zone->newest && zone->newest->seq > seq)
		seq = zone->newest->seq;
	run_put(zone, extent, extent->class, extent->mask, seq);
}

static bool
extent_any_used(const struct pl_zone *zone, const struct pl_extent *extent)
{
	size_t first = chunk_of(zone, extent->area, extent->addr);
	size_t end = chunk_of(zone, extent->area, extent->addr + extent->bytes - 1) + 1;

	return sl_bitmap_next_set(extent->area->used, first, end) < end;
}

/* Whether a chunk that is wholly in the run was used. */
static bool
run_any_used(const struct pl_zone *zone, const struct pl_extent *run)
{
	size_t first = chunk_of(zone, run->area, run->addr + zone->chunk_bytes - 1);
	size_t end = chunk_of(zone, run->area, run->addr + run->bytes);

	return first < end && sl_bitmap_next_set(run->area->used, first, end) < end;
}

void
pl_zone_hold_runs(struct pl_zone *zone)
{
	for (size_t i = 0; i < zone->n_buckets; i++) {
		struct pl_extent *at = zone->starts[i], *next;

		for (; at; at = next) {
			next = at->start_next;
			if (!at->run || !run_any_used(zone, at))
				continue;
			pl_zone_take(zone, at);
			at->newer = zone->held;
			zone->held = at;
		}
	}
}

bool
pl_extent_was_used(const struct pl_zone *zone, const struct pl_extent *extent, uint64_t bytes)
{
	size_t first = chunk_of(zone, extent->area, extent->addr), end = first + 1;

	if (zone->packed)
		end = chunk_of(zone, extent->area, extent->addr + bytes - 1) + 1;
	return sl_bitmap_next_clear(extent->area->used, first, end) == end;
}

/* Where what is used ends, or begins, in a run of chunks. */
static uint64_t
use_changes_at(const struct pl_zone *zone, const struct pl_area *area, uint64_t addr,
	       uint64_t end)
{
	size_t first = chunk_of(zone, area, addr), last = chunk_of(zone, area, end - 1) + 1;
	size_t at = sl_bitmap_test(area->used, first)
			    ? sl_bitmap_next_clear(area->used, first, last)
			    : sl_bitmap_next_set(area->used, first, last);
	uint64_t to = area->base + at * zone->chunk_bytes;

	return to < end ? to : end;
}

void
pl_zone_suspect(struct pl_zone *zone, unsigned class, uint64_t mask, uint64_t seq)
{
	struct pl_extent *list = NULL;

	for (size_t i = 0; i < zone->n_buckets; i++) {
		struct pl_extent *at = zone->starts[i], *next;

		for (; at; at = next) {
			next = at->start_next;
			if (at->class || !extent_any_used(zone, at))
				continue;
			pl_zone_take(zone, at);
			at->newer = list;
			list = at;
		}
	}
	while (list) {
		struct pl_extent *extent = list;
		struct pl_area *area = extent->area;
		uint64_t addr = extent->addr, end = addr + extent->bytes, to;

		list = extent->newer;
		if (!extent->run) {
			piece_put(zone, extent, class, mask, seq);
			continue;
		}
		pl_zone_spare(zone, extent);
		for (; addr < end; addr = to) {
			int used = sl_bitmap_test(area->used, chunk_of(zone, area, addr));

			to = use_changes_at(zone, area, addr, end);
			/* Without a node for more parts the rest is all suspect. */
			if (to < end && pl_zone_reserve(zone, 2)) {
				to = end;
				used = 1;
			}
			run_put(zone, extent_new(zone, area, addr, to - addr),
				used ? class : PL_CLASS_CLEAN, mask, seq);
		}
	}
}

/* ---- areas ---- */

int
pl_zone_add(struct pl_zone *zone, uint64_t base, uint64_t bytes)
{
	size_t words = SL_BITMAP_WORDS(bytes / zone->chunk_bytes);
	struct pl_area *area, **at = &zone->areas;

	if (pl_zone_reserve(zone, 1))
		return -ENOMEM;
	area = sl_calloc(1, sizeof(*area) + 2 * words * sizeof(uint64_t));
	if (!area)
		return -ENOMEM;
	area->base = base;
	area->bytes = bytes;
	area->used = (uint64_t *)(area + 1);
	area->populated = area->used + words;
	while (*at && (*at)->base < base)
		at = &(*at)->next;
	area->next = *at;
	*at = area;
	run_put(zone, extent_new(zone, area, base, bytes), PL_CLASS_CLEAN, 0, 0);
	return 0;
}

int
pl_zone_init(struct pl_zone *zone, uint64_t unit_bytes, uint64_t chunk_bytes,
	     uint64_t usable_bytes)
{
	*zone = (struct pl_zone){.unit_bytes = unit_bytes,
				 .chunk_bytes = chunk_bytes,
				 .usable_bytes = usable_bytes,
				 .n_buckets = BUCKETS_MIN};
	zone->starts = sl_calloc(BUCKETS_MIN, sizeof(struct pl_extent *));
	zone->ends = sl_calloc(BUCKETS_MIN, sizeof(struct pl_extent *));
	return zone->starts && zone->ends ? 0 : -ENOMEM;
}

void
pl_zone_fini(struct pl_zone *zone)
{
	while (zone->areas) {
		struct pl_area *area = zone->areas;

		zone->areas = area->next;
		free(area);
	}
	while (zone->slabs) {
		struct pl_extent *slab = zone->slabs;

		zone->slabs = slab->newer;
		free(slab);
	}
	free(zone->starts);
	free(zone->ends);
	*zone = (struct pl_zone){0};
}

/* ---- check ---- */

/* One extent by itself and against its neighbours. */
static int
extent_check(const struct pl_zone *zone, const struct pl_extent *extent)
{
	const struct pl_area *area = extent->area;
	const struct pl_extent *next = extent_at(zone, extent->addr + extent->bytes);
	uint64_t end = extent->addr + extent->bytes;
	int same_chunk = chunk_of(zone, area, extent->addr) == chunk_of(zone, area, end - 1);

	if (!extent->bytes || extent->addr < area->base || end > area->base + area->bytes ||
	    extent->addr % zone->unit_bytes || extent->bytes % zone->unit_bytes)
		return sl_fail(-EINVAL, "extent %#llx: not within its area",
			       (unsigned long long)extent->addr);
	if (zone->packed  ? !extent->run
	    : extent->run ? (extent->addr - area->base) % zone->chunk_bytes ||
				    extent->bytes % zone->chunk_bytes
			  : !same_chunk || extent->bytes >= zone->usable_bytes)
		return sl_fail(-EINVAL, "extent %#llx: not %s",
			       (unsigned long long)extent->addr,
			       extent->run ? "whole chunks" : "a piece of a chunk");
	if (!extent->class != !extent->mask)
		return sl_fail(-EINVAL, "extent %#llx: class %u owes streams %#llx",
			       (unsigned long long)extent->addr, extent->class,
			       (unsigned long long)extent->mask);
	if (next && next->area == area && next->run == extent->run &&
	    next->class == extent->class && extent->class != PL_CLASS_MIXED &&
	    (extent->run || chunk_of(zone, area, end) == chunk_of(zone, area, end - 1)))
		return sl_fail(-EINVAL, "extent %#llx: not joined with the next",
			       (unsigned long long)extent->addr);
	if (extent_ending_at(zone, end) != extent)
		return sl_fail(-EINVAL, "extent %#llx: not found by its end",
			       (unsigned long long)extent->addr);
	if (pl_zone_fit(zone, extent->run, extent->class, extent->bytes) == NULL)
		return sl_fail(-EINVAL, "extent %#llx: not in its tree",
			       (unsigned long long)extent->addr);
	return 0;
}

int
pl_zone_check(const struct pl_zone *zone, uint64_t *piece_bytes, uint64_t *run_bytes)
{
	size_t n = 0, n_dirty = 0, n_listed = 0;
	uint64_t seq = 0;
	int rc = 0;

	*piece_bytes = *run_bytes = 0;
	for (size_t i = 0; i < zone->n_buckets; i++)
		for (struct pl_extent *at = zone->starts[i]; at && !rc; at = at->start_next) {
			rc = extent_check(zone, at);
			*(at->run ? run_bytes : piece_bytes) += at->bytes;
			n_dirty += at->class != 0;
			n++;
		}
	for (struct pl_extent *at = zone->oldest; at && !rc; at = at->newer) {
		if (at->seq < seq || (at->newer ? at->newer->older : zone->newest) != at)
			rc = sl_fail(-EINVAL, "extent %#llx: out of order",
				     (unsigned long long)at->addr);
		seq = at->seq;
		n_listed++;
	}
	if (!rc && (n != zone->n_extents || n_dirty != n_listed))
		rc = sl_fail(-EINVAL, "%zu extents of %zu, %zu dirty of %zu", n,
			     zone->n_extents, n_listed, n_dirty);
	if (!rc && zone->n_spare < zone->n_owed)
		rc = sl_fail(-EINVAL, "%zu spare extents, %zu are owed", zone->n_spare,
			     zone->n_owed);
	return rc;
}
