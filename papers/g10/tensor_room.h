/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory as an array of pages in which whole tensors take contiguous blocks, first
 * fit from the low or from the high end: what the tensor-level simulations allocate from.
 * Kept as the sorted list of free blocks, so nothing is per page. Threads: one.
 */
#ifndef SL_SIM_TENSOR_ROOM_H
#define SL_SIM_TENSOR_ROOM_H

#include <stdint.h>

#include "base/error.h"

#define TENSOR_ROOM_NONE UINT64_MAX

struct tensor_block {
	uint64_t first, pages;
};

struct tensor_room {
	struct tensor_block *blocks; /* free, ascending, never adjacent */
	uint32_t n, max;
	uint64_t free_pages;
	int paged; /* any free pages do: blocks need not be contiguous, and have no address */
};

/* -ENOMEM. Set paged behind it, before the first block is taken. */
int tensor_room_init(struct tensor_room *room, uint64_t pages) SL_MUST_CHECK;
void tensor_room_fini(struct tensor_room *room);

/* The block's first page, or TENSOR_ROOM_NONE when no free block is large enough. */
uint64_t tensor_room_take(struct tensor_room *room, uint64_t pages, int from_high);

/* Give a block back. -ENOMEM. */
int tensor_room_give(struct tensor_room *room, uint64_t first, uint64_t pages) SL_MUST_CHECK;

uint64_t tensor_room_largest(const struct tensor_room *room);

#endif
