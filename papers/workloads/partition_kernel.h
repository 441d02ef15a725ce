/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitioning keys and values by a digit of their keys: what its kernels are given, and the digit,
 * for the software device and for CUDA (kernel.h says how the two share it). Three kernels make one
 * pass, see partition.h.
 *
 * A block is what one piece works on. Its elements are put in the order of their digits, so that a
 * later kernel moves each block's elements of one digit as one run; how many there are of each is
 * counted, PARTITION_DIGITS numbers a block.
 *
 * Threads: constant data and pure functions.
 */
#ifndef WORKLOADS_PARTITION_KERNEL_H
#define WORKLOADS_PARTITION_KERNEL_H

#include "kernel.h"

#define PARTITION_BITS   4u
#define PARTITION_DIGITS (1u << PARTITION_BITS)
#define PARTITION_BLOCK  4096u

/* The digit of a key: of the key itself with multiplier 1, else of a hash of it. */
struct partition_digit {
	uint32_t multiplier, shift;
};

/* Sort within blocks. All pointers: to what the tile begins with. */
struct partition_sort_args {
	const uint32_t *keys, *values;
	uint32_t *to_keys, *to_values;
	uint32_t *counts; /* of each block */
	uint64_t n;
	struct partition_digit digit;
};

/* Make of each block's count of a digit what earlier blocks of the tile have of it. */
struct partition_scan_args {
	uint32_t *counts;
	uint32_t *totals; /* what all blocks of the tile have of each digit */
	uint64_t blocks;
};

/* Move what has the digits first_digit .. to where it belongs. */
struct partition_move_args {
	const uint32_t *keys, *values;
	const uint32_t *counts; /* scanned */
	uint32_t *to_keys[PARTITION_DIGITS], *to_values[PARTITION_DIGITS];
	uint64_t n;
	struct partition_digit digit;
	uint32_t first_digit, n_digits;
	uint32_t total[PARTITION_DIGITS]; /* of the tile, of each digit */
};

KERNEL_INLINE uint32_t
partition_digit_of(struct partition_digit digit, uint32_t key)
{
	return key * digit.multiplier >> digit.shift & (PARTITION_DIGITS - 1);
}

#endif
