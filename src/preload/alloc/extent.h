/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free addresses, sorted so that the smallest fit is found at once. arena.c decides with it. It
 * knows nothing of blocks, streams or the core.
 *
 * A zone is addresses of one granularity: areas of whole chunks, each chunk cut into units. Free
 * addresses are extents of two kinds: runs of whole chunks, and pieces of one chunk. A piece
 * that grows to its whole chunk is a run. A packed zone has only runs, of any number of units,
 * and chunks do not matter for the fit. Each extent has a class, which says who may use it:
 * class 0 is free for all; arena.c defines the others. Neighbours of one class are one extent.
 * So the choice depends only on the free addresses, and not on the order of frees. A program
 * that repeats itself gets the same addresses.
 *
 * Threads: the caller's lock.
 */
#ifndef SL_PRELOAD_EXTENT_H
#define SL_PRELOAD_EXTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define PL_CLASSES     65u
#define PL_CLASS_CLEAN 0u /* anybody */
#define PL_CLASS_MIXED \
	64u /* not in the order of one stream: of one free each, until clean */

/* One region of the space. */
struct pl_area {
	uint64_t base, bytes; /* whole chunks */
	uint64_t *used;       /* bitmap by chunk: something in it was handed out once */
	uint64_t *populated; /* bitmap by chunk: resident, as far as this library saw to it */
	/* Chunks from here on were never handed out. Only grows, under the arena's lock. atomic: relaxed:
	 * pairs with the look of held_used_bytes(). */
	size_t used_end;
	struct pl_area *next; /* by address */
};

struct pl_extent {
	struct pl_area *area;
	uint64_t addr, bytes;
	uint64_t mask; /* streams whose work may still use it; 0 in class 0 */
	uint64_t seq;  /* number of the last free that went into it */
	uint64_t priority;
	unsigned char class, run;
	struct pl_extent *less, *more;           /* tree by (bytes, addr) */
	struct pl_extent *start_next, *end_next; /* hash chains; start_next also links spares */
	struct pl_extent *older, *newer;         /* classes but 0: in order of seq */
};

struct pl_zone {
	uint64_t unit_bytes, chunk_bytes;
	uint64_t usable_bytes; /* of a chunk, by pieces: the rest stays a gap */
	int packed;
	struct pl_extent *trees[2][PL_CLASSES]; /* [run][class] */
	uint64_t filled[2];                /* bit c: trees[run][c + 1] has something */
	struct pl_extent **starts, **ends; /* hash tables by first address and by end */
	size_t n_buckets, n_extents;       /* buckets: a power of two */
	struct pl_extent *oldest, *newest; /* all that is not class 0 */
	struct pl_extent *spare;
	size_t n_spare;
	size_t n_owed; /* of these, how many the frees to come may take; the caller counts */
	struct pl_extent *slabs;
	struct pl_area *areas;
	int lends; /* 1: what several streams owe is joined, whenever it was freed */
	int hold_chunks; /* 1: pieces that become chunks, in a packed zone all chunks that come to be
				 * free, are held back ... */
	struct pl_extent *held; /* ... here, linked by newer, until pl_zone_release() */
};

/* 0 or -ENOMEM. */
int pl_zone_init(struct pl_zone *zone, uint64_t unit_bytes, uint64_t chunk_bytes,
		 uint64_t usable_bytes) SL_MUST_CHECK;
/* Areas are freed too; the core's regions stay. */
void pl_zone_fini(struct pl_zone *zone);

/* Have n spare extents beyond what is owed, so that puts cannot fail. 0 or -ENOMEM. */
int pl_zone_reserve(struct pl_zone *zone, size_t n) SL_MUST_CHECK;

/* Whole chunks of free addresses. 0 or -ENOMEM. */
int pl_zone_add(struct pl_zone *zone, uint64_t base, uint64_t bytes) SL_MUST_CHECK;

/* The smallest extent of the class and kind with at least bytes, of several the lowest. NULL: none. */
struct pl_extent *pl_zone_fit(const struct pl_zone *zone, int run, unsigned class,
			      uint64_t bytes);

/* Take the extent out; the caller then gives it to pl_zone_spare(), or makes it smaller and puts it
 * back. */
void pl_zone_take(struct pl_zone *zone, struct pl_extent *extent);
void pl_zone_spare(struct pl_zone *zone, struct pl_extent *extent);

/* Of a packed zone: take the first bytes of the extent; the rest is free as before, by its class and mask.
 * seq: as for pl_zone_put(). */
void pl_zone_cut(struct pl_zone *zone, struct pl_extent *extent, uint64_t bytes,
		 uint64_t seq);

/*
 * [addr, addr + bytes) of the area is free. Cut into pieces and runs, joined with its neighbours.
 * Takes up to three spares. seq must not be lower than that of any earlier call.
 */
void pl_zone_put(struct pl_zone *zone, struct pl_area *area, uint64_t addr,
		 uint64_t bytes, unsigned class, uint64_t mask, uint64_t seq);

/* What became clean: extents up to seq are of class 0. Number of those. */
size_t pl_zone_clean(struct pl_zone *zone, uint64_t seq);

/* One that was held back, or NULL; its addresses are nobody's until released. */
struct pl_extent *pl_zone_held(struct pl_zone *zone);
void pl_zone_release(struct pl_zone *zone, struct pl_extent *extent);
/* Hold back all runs with a chunk that was used. */
void pl_zone_hold_runs(struct pl_zone *zone);

/*
 * All free addresses of class 0 that were used once become class, so that they are clean again when seq
 * is. For the moment when a second stream appears.
 */
void pl_zone_suspect(struct pl_zone *zone, unsigned class, uint64_t mask, uint64_t seq);

/* Whether the chunks that so many bytes at the extent's begin lie in were all handed out once; not in a
 * packed zone: the first. */
bool pl_extent_was_used(const struct pl_zone *zone, const struct pl_extent *extent,
			uint64_t bytes);

/* Walk of all invariants: order, sums, merging. 0, or -EINVAL with a text. Free bytes of each kind. */
int pl_zone_check(const struct pl_zone *zone, uint64_t *piece_bytes,
		  uint64_t *run_bytes) SL_MUST_CHECK;

#endif
