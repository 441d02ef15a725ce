/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c's functions for stream.c and tests; preload.h has the others. */
#ifndef SL_PRELOAD_ARENA_H
#define SL_PRELOAD_ARENA_H

#include "base/error.h"
#include "preload/preload.h"

/*
 * A stream is about to be used for the first time (stream.c, before its first work is enqueued; it
 * has its bit, and is not being captured). As long as there was one stream only, room that was freed
 * was given out at once, in that stream's order: newcomers wait for what is queued there, until it is known
 * to be done. Without locks. Driver calls; does not wait itself.
 */
void pl_arena_stream_new(struct pl_gpu *gpu, struct cu_stream *stream,
			 enum pl_default_stream flavour);

/*
 * A stream uses this block for the first time, not captured: what it enqueues next comes behind the work of
 * others that may still use the room from before it was this block's. pl_reuse_order_all(): the same for
 * every block there is, of which it may use any. bit: the stream's. Driver calls; waits only where the
 * stream cannot be held back. 0, or -EBUSY with a text. Without locks.
 */
int pl_reuse_order(struct pl_block *block, struct cu_stream *stream,
		   enum pl_default_stream flavour, uint64_t bit) SL_MUST_CHECK;
int pl_reuse_order_all(struct pl_gpu *gpu, struct cu_stream *stream,
		       enum pl_default_stream flavour, uint64_t bit) SL_MUST_CHECK;
/* Before somebody uses the block who is not seen: wait until nobody uses its room from before. 0, or
 * -EBUSY with a text. Without locks. Blocks on the device. */
int pl_reuse_settle(struct pl_block *block) SL_MUST_CHECK;

struct pl_arena_state {
	uint64_t live_bytes;    /* room of live blocks */
	uint64_t held_bytes;    /* chunks that were made resident */
	uint64_t area_bytes;    /* addresses of areas */
	uint64_t waiting_bytes; /* free, but owed to streams: only those may have them */
	uint64_t fences_made, fences_passed, waits; /* waits: for a fence */
	uint64_t follows; /* rooms reused in another stream's order */
	uint64_t lent;    /* blocks made of room that streams still owed */
};

/* Any thread. */
void pl_arena_state(struct pl_gpu *gpu, struct pl_arena_state *out);
/* Walk of all invariants. 0, or -EINVAL with a text. */
int pl_arena_check(struct pl_gpu *gpu) SL_MUST_CHECK;
/* For tests: gives back all memory of the arena but records of blocks. */
void pl_arena_destroy(struct pl_gpu *gpu);

#endif
