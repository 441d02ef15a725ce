/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sets of ranges of numbers that do not overlap (addresses; handles as ranges of one), found by
 * a number inside. They remember the driver's own memory. A sorted array: tens of ns to find, a
 * memmove to add.
 *
 * Locks: one a set, taken inside. Without memory a range is not remembered; every user tolerates
 * that.
 */
#ifndef SL_PRELOAD_RANGES_H
#define SL_PRELOAD_RANGES_H

#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"

struct pl_range {
	uint64_t base, bytes;
	uint64_t owner; /* the user's */
	uint64_t value; /* the same */
};

struct pl_ranges {
	struct sl_mutex lock;
	struct pl_range *at; /* by base */
	size_t n, size;
};

#define PL_RANGES_INITIALIZER                                 \
	{                                                     \
		.lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF) \
	}

/* Add it; what it overlaps is forgotten. 1: done, 0: no memory. */
int pl_ranges_add(struct pl_ranges *ranges, struct pl_range range);
/* The range that holds at: 1, *out is a copy. 0: there is none. */
int pl_ranges_find(struct pl_ranges *ranges, uint64_t at, struct pl_range *out);
/* The first of those that overlap [base, base + bytes): 1, *out is a copy. 0: none does. */
int pl_ranges_find_in(struct pl_ranges *ranges, uint64_t base, uint64_t bytes,
		      struct pl_range *out);
/* Remove the range that holds at: 1, *out is what it was (may be NULL). */
int pl_ranges_take(struct pl_ranges *ranges, uint64_t at, struct pl_range *out);
/* Remove one of those that overlap [base, base + bytes): 1, *out is what it was. 0: none does. */
int pl_ranges_take_in(struct pl_ranges *ranges, uint64_t base, uint64_t bytes,
		      struct pl_range *out);
/* Add add to the value of the range that holds at. 1: *out is the range afterwards. */
int pl_ranges_change(struct pl_ranges *ranges, uint64_t at, int64_t add,
		     struct pl_range *out);

#endif
