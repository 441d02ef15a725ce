/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses that the program keeps in its own memory (pointer_table.c).
 *
 * Threads: any.
 */
#ifndef SL_PRELOAD_POINTER_TABLE_H
#define SL_PRELOAD_POINTER_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct pl_block;
struct pl_use;

/* Host bytes that were, or are about to be, copied to addr in device memory: learn addresses in
 * them. */
void pl_pointer_table_note(uint64_t addr, const void *host, size_t bytes);
/* A block is about to be freed: addresses kept in it are forgotten. */
void pl_pointer_table_forget(struct pl_block *block);

/* 1: more addresses lie in memory than are kept: no launch is known to name all it touches.
 * atomic: relaxed: the copy that set it comes before the launch in the program's order. */
extern _Atomic int pl_pointer_table_overflow;

/* Add what the tables name that a kernel may mean which is given this address in
 * the block; returns the new number of uses. */
size_t pl_pointer_table_uses(const struct pl_block *block, uint64_t addr,
			     struct pl_use *uses, size_t n, uint64_t stamp);
/* These bytes of a block that has PL_BLOCK_TABLE are overwritten: what tables have there is forgotten. */
void pl_pointer_table_overwritten(const struct pl_block *block, uint64_t addr,
				  uint64_t bytes);

/* Larger blocks are pools that programs hand out parts of, or hold data: a table says nothing of the rest. */
#define PL_POOL_BYTES ((uint64_t)1 << 20)
/* The same for tables outside blocks (device globals). */
size_t pl_pointer_table_globals(struct pl_use *uses, size_t n, uint64_t stamp);

#endif
