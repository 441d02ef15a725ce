/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass of a stable partitioning of keys and values by a digit of their keys, what radixSort
 * and hashJoin are made of. Tile by tile the source is sorted within blocks into a scratch buffer
 * and its digits are counted; then, tile by tile again, what is in the scratch buffer is moved to
 * where it belongs in the target. The elements of a tile that share a digit end up next to each
 * other, so that what a launch writes is known exactly before it: one range of each array for each
 * digit. Tiles whose ranges are more than the device has room for are moved a few digits at a time.
 *
 * What a pass has used is not used again: with a mode of discard it says so, tile by tile. The
 * target may be the source, if the source dies.
 *
 * Arrays have elements of 4 bytes. Threads: that of workload_run().
 */
#ifndef WORKLOADS_PARTITION_H
#define WORKLOADS_PARTITION_H

#include "env.h"
#include "partition_kernel.h"

/* Choices of an option that says what happens to data that are used up. */
enum partition_discard {
	PARTITION_DISCARD_NONE,
	PARTITION_DISCARD_EAGER,
	PARTITION_DISCARD_LAZY
};

extern const char *const partition_discard_names[]; /* ended by NULL */

/* Arrays of the plan. */
struct partition_pair {
	unsigned keys, values;
};

struct partition_pass {
	struct partition_pair source, scratch, target;
	uint64_t first, n; /* the same elements of all of them; first: at a chunk's beginning */
	unsigned counts; /* the array of partition_counts_bytes() */
	struct partition_digit digit;
	uint64_t discard; /* enum partition_discard */
	int source_dies;
	uint64_t *tiles_done, tiles_total; /* for progress; a pass has two for each tile */
};

/* The kernels, for the list of a workload. */
extern const struct workload_kernel partition_sort_kernel;
extern const struct workload_kernel partition_scan_kernel;
extern const struct workload_kernel partition_move_kernel;

/* Bytes of the array of counts, for passes over at most n elements. */
uint64_t partition_counts_bytes(uint64_t n, uint64_t chunk_bytes);

/* Tiles of a pass over n elements. */
uint64_t partition_tiles(struct workload_env *env, uint64_t n);

/*
 * Run one pass. start, PARTITION_DIGITS + 1 numbers: where the elements of each digit begin in the
 * target, counted from pass->first, and n. Waits once, between sorting and moving. Errors: what
 * launches return, -ENOMEM.
 */
int partition_pass_run(struct workload_env *env, const struct partition_pass *pass,
		       uint64_t *start) SLUICE_MUST_CHECK;

/*
 * Declare elements [first, first + n) of an array dead, as mode (enum partition_discard) says. The
 * page that first lies in is dead as a whole: what is before it has been used up earlier.
 */
int partition_array_discard(struct workload_env *env, unsigned array, uint64_t first,
			    uint64_t n, uint64_t mode) SLUICE_MUST_CHECK;

#endif
