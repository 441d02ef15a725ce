/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room of large blocks that were freed under pressure, by its exact size, not merged with what lies
 * beside it. A program that repeats itself asks for the same sizes again and finds the same addresses,
 * whatever else was freed in between: which of equals is given depends on which are free, not on the
 * order in which they became so. It costs addresses, not memory: what is in a bin was discarded.
 *
 * Threads: the caller's lock.
 */
#ifndef SL_PRELOAD_BINS_H
#define SL_PRELOAD_BINS_H

#include <stddef.h>
#include <stdint.h>

#define PL_BIN_BUCKETS 256u

struct pl_area;

struct pl_binned {
	struct pl_area *area;
	uint64_t base, room, gap_bytes; /* as in a record (block.h) */
};

struct pl_bin; /* rooms of one size */

struct pl_bins {
	struct pl_bin *buckets[PL_BIN_BUCKETS];
	uint64_t bytes; /* rooms and gaps in all */
};

/* Nothing needs to be done to make one that is zero. */
void pl_bins_fini(struct pl_bins *bins);
/* 0 or -ENOMEM. */
int pl_bins_put(struct pl_bins *bins, const struct pl_binned *room);
/* The lowest of that size: 1; 0: none. */
int pl_bins_take(struct pl_bins *bins, uint64_t room, struct pl_binned *out);
/* Any: 1; 0: all are empty. */
int pl_bins_take_any(struct pl_bins *bins, struct pl_binned *out);

#endif
