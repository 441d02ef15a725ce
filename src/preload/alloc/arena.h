/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of a GPU's addresses (arena.c), and the order in which rooms are reused (reuse.c).
 *
 * Threads: any.
 */
#ifndef SL_PRELOAD_ARENA_H
#define SL_PRELOAD_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "preload/alloc/block.h"
#include "preload/api/driver_api.h"

/*
 * A block of bytes, aligned to 512, its memory resident if the GPU is at ease. stream: the stream in
 * whose order it is used first (PL_BORN_ASYNC), which then waits for earlier users of that room; of
 * the other births nobody may still use the room. 0, -ENOMEM (device, host and store together hold
 * no more; said on stderr), or what the core says. Blocks on mapping; under pressure of several
 * streams also on events.
 */
int pl_arena_alloc(struct pl_gpu *gpu, size_t bytes, enum pl_birth birth,
		   struct cu_stream *stream, enum pl_default_stream flavour,
		   struct pl_block **out) SL_MUST_CHECK;
/*
 * Free: contents are discarded lazily, room is reused when the work queued before is done, or by
 * the same stream. ordered: only work of stream was queued behind the last use (cuMemFreeAsync());
 * else of all. Never waits for the device.
 */
void pl_arena_free(struct pl_block *block, int ordered, struct cu_stream *stream,
		   enum pl_default_stream flavour);
/* The GPU has come under pressure (gpu.c calls this): chunks that are wholly free are discarded, and
 * from here on what is freed. Without locks held. */
void pl_arena_pressed(struct pl_gpu *gpu);
/* Bytes of chunks that are resident while all data fit, and of those that are about to be. */
uint64_t pl_arena_held(struct pl_gpu *gpu);
/* Rises with every allocation and free on the GPU. */
uint64_t pl_arena_generation(const struct pl_gpu *gpu);
/* Walk live blocks in order of address until fn returns not 0, which is returned. Takes the arena's
 * lock. */
int pl_arena_walk(struct pl_gpu *gpu, int (*fn)(struct pl_block *, void *), void *arg);

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
