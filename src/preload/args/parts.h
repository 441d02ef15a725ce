/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of large blocks (parts.c). A program with an allocator of its own has few large blocks; a
 * kernel uses a part of such a block. A part reaches from an address that the program passes to the
 * next one that it passes.
 *
 * Threads: any.
 */
#ifndef SL_PRELOAD_PARTS_H
#define SL_PRELOAD_PARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pl_block;
struct pl_gpu;
struct pl_use;

/* A block of more than this part of the device budget has parts. The parts of one launch take no more than it,
 * and a graph that uses more is cut: while it runs, the data of the next come in. Smaller: tensors of
 * programs without an allocator of their own are cut at views into them. Larger: a block displaces all
 * others. */
#define PL_LARGE_SHARE 2u

/* Kernels use parts of this block: it takes so much of the device that a launch cannot have all of it. */
bool pl_block_has_parts(const struct pl_block *block);

/*
 * Add the part from addr on, read and written, if the array does not have it. *use is open (scope.h).
 * Without a known end it has 0 bytes, but in a new block (parts.c). Returns the new number of uses. For such
 * blocks only.
 */
size_t pl_part_use(struct pl_block *block, uint64_t addr, struct pl_use *uses, size_t n);

/* The use is a fill's, or a copy's: something begins and ends there. Any block. */
void pl_part_note(const struct pl_use *use, bool fills);

/* Bytes of the GPU's live blocks of which launches use parts: not of new ones, which they use whole. */
uint64_t pl_parts_bytes(const struct pl_gpu *gpu);

/* What the learner knows the part at addr by; of other blocks, the block. 0: NULL, no block is there. */
uint64_t pl_part_id(const struct pl_block *block, uint64_t addr);

#endif
