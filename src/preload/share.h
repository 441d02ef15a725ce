/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU that several programs share (share.c): the program's row in the GPU's book, and its budget,
 * which follows what all of them want.
 *
 * Threads: any, but for what says otherwise. Nothing is called under the budget lock of a GPU.
 */
#ifndef SL_PRELOAD_SHARE_H
#define SL_PRELOAD_SHARE_H

#include <stdbool.h>
#include <stdint.h>

struct pl_gpu;
struct pl_share;

/*
 * Join the GPU's book, as the settings say. limit_bytes: what the user allows, UINT64_MAX: no bound.
 * NULL: this program is alone, which was said where it should not be. Else *most is what it may ever
 * get now, from which chunks are chosen; then pl_share_first() gives the first budget for such chunks.
 * The GPU's context is current. Under create_lock.
 */
struct pl_share *pl_share_join(int device, uint64_t limit_bytes, uint64_t *most);
uint64_t pl_share_first(struct pl_share *share, uint64_t chunk_bytes);
/* The space is there: budgets live from here on. gpu NULL: there is none, leave. Under create_lock. */
void pl_share_start(struct pl_share *share, struct pl_gpu *gpu);

/*
 * The program is to have bytes on the device: others give way as far as they must. true: the budget is
 * that large now. false: it will not be soon. Blocks while others give way, for 2 s at most from when
 * the last one has given something.
 */
bool pl_share_ask(struct pl_gpu *gpu, uint64_t bytes);
/* The driver is out of memory: bytes are given up for it, for the second that it may take to use them,
 * and are not taken again before. false: there is nothing to give. Blocks on copies. */
bool pl_share_give(struct pl_gpu *gpu, uint64_t bytes);
/* The driver refuses what the budget promises: it becomes less than what the space has. false: it has
 * next to nothing. Blocks on copies. */
bool pl_share_squeeze(struct pl_gpu *gpu);
/* What a launch of so many bytes had to move out found no place: the budget was lowered for others, and host
 * memory and disk are full. It is raised as far as others give. false: it is not shared, or is not to be had.
 * Blocks as pl_share_ask(). */
bool pl_share_stuck(struct pl_gpu *gpu, uint64_t bytes);

/* The most that the budget may become now. Wait-free. */
uint64_t pl_share_most(const struct pl_gpu *gpu);
/* Until the program is not suspended, and has the turn if programs take turns, and until others have given
 * up room for so many bytes, if they are doing so. The thread has no scope open, and no lock. */
void pl_share_pause(struct pl_gpu *gpu, uint64_t bytes);

/* At exit: leaves all books. Blocks for 10 s at most, while the driver holds the thread up. */
void pl_share_close(void);
/* In a child of fork(). */
void pl_share_forked(void);

#endif
