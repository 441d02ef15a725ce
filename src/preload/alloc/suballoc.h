/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suballocations: what a framework's allocator has given out inside of a block, where it tells
 * (calls/pytorch.c). Each is a block of its own for whatever looks for the data at an address: it is
 * moved, predicted and recorded by itself. The block around it is *divided*.
 *
 * What the driver is asked about (sizes, frees, attributes) is the block around: pl_block_find().
 * Once the process has captured a graph, nothing is divided any more.
 *
 * Threads: any.
 */
#ifndef SL_PRELOAD_SUBALLOC_H
#define SL_PRELOAD_SUBALLOC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/alloc/block.h"

/*
 * The allocator has given out [addr, addr + bytes), whatever it had there before. Nothing, if that is not
 * inside of one block of cuMemAlloc(). Waits for a discard that another thread has begun.
 */
void pl_suballoc_begin(uint64_t addr, uint64_t bytes);
/* It has taken back what begins at addr; nothing, if that is not known. Work that has been queued
 * may still use it. Contents are dead. Waits as begin does, and for moves of these chunks. */
void pl_suballoc_end(uint64_t addr);
/* The block is about to be freed: it is not divided any more. Waits as begin does. */
void pl_suballocs_drop(struct pl_block *block);
/* Of a divided block: the suballocation that holds addr; the block, if there is none. */
struct pl_block *pl_suballoc_find(struct pl_block *block, uint64_t addr);

/* The data at addr: a suballocation, else the live block. NULL: none. */
static inline struct pl_block *
pl_data_find(uint64_t addr)
{
	struct pl_block *block = pl_block_find(addr);

	if (block &&
	    atomic_load_explicit(&block->flags, memory_order_acquire) & PL_BLOCK_DIVIDED)
		return pl_suballoc_find(block, addr);
	return block;
}

#endif
