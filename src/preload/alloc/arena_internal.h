/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared only by arena.c (addresses), reuse.c (reuse) and arena_check.c (invariants).
 */
#ifndef SL_PRELOAD_ARENA_INTERNAL_H
#define SL_PRELOAD_ARENA_INTERNAL_H

#include <stdbool.h>

#include "base/error.h"
#include "base/lock.h"
#include "preload/alloc/arena.h"
#include "preload/alloc/block_internal.h"
#include "preload/alloc/extent.h"
#include "preload/gpu.h"

#define PL_FENCES_MAX 8u /* made and not passed; more frees go into a later one */

enum pl_zone_kind {
	PL_ZONE_SMALL,
	PL_ZONE_BIG,
	PL_ZONE_MAPPED, /* from here on: what the program reserves and maps itself, by chunk size */
	PL_ZONE_MAPPED_MIDDLE,
	PL_ZONE_MAPPED_COARSE,
	PL_ZONE_COUNT
};

struct pl_arena_fence {
	struct pl_fence *fence;
	uint64_t seq; /* covers frees up to this one */
};

struct pl_arena {
	struct pl_gpu *gpu;
	struct sl_mutex lock; /* SL_RANK_PL_ARENA: of all but what stands below */
	struct pl_zone zones[PL_ZONE_COUNT];
	struct pl_record_pool records;
	uint64_t live_bytes, held_bytes;
	uint64_t promised_bytes; /* of chunks that threads are making resident */
	/* By the program, in the zones for that. */
	uint64_t reserved_bytes[PL_ZONE_COUNT];
	/* Bits of all streams that were ever active. Stored under the lock. atomic: relaxed: pairs with
	 * the look of pl_reuse_streams_look(), which takes the lock where a bit is new. */
	uint64_t streams;
	uint64_t seq;       /* of the last free */
	uint64_t clean_seq; /* frees up to this are owed nothing */
	uint64_t owed_mask; /* by frees since the last fence was made */
	uint64_t owed_frees, owed_bytes;
	int pressed;
	/* Users of blocks are seen: room that streams owe is given out (reuse.c). Becomes 1 once, under
	 * the lock. atomic: relaxed: pairs with the looks of reuse.c; who sees 0 late takes the lock. */
	int lends;
	uint64_t lent;         /* blocks made of owed room */
	struct pl_fence *lien; /* the last one made for them: behind what any of them owes */
	int recycled;          /* room was reused while there was one stream */
	uint64_t once; /* its bit, when it was the only one no more; 0: nothing to wait for */
	uint64_t once_seq; /* frees up to this one were of that time */
	uint64_t follows;
	_Atomic uint64_t generation;
	_Atomic int said_full;

	struct sl_mutex lend_lock; /* SL_RANK_PL_REUSE: one lien is made after the other */
	struct sl_mutex fence_lock; /* SL_RANK_PL_REUSE: of what follows */
	struct pl_arena_fence fences[PL_FENCES_MAX]; /* oldest first */
	_Atomic unsigned n_fences;                   /* written with fence_lock */
	uint64_t fences_made, fences_passed, waits;
};

/* arena->lock, whichever arena's. */
extern struct sl_lock_token pl_arena_token;
#define PL_ARENA_HELD SL_REQUIRES(pl_arena_token)

static inline void pl_arena_lock(struct pl_arena *arena) SL_ACQUIRE(pl_arena_token);
static inline void pl_arena_unlock(struct pl_arena *arena) SL_RELEASE(pl_arena_token);

SL_NO_LOCK_CHECK static inline void
pl_arena_lock(struct pl_arena *arena)
{
	sl_mutex_lock(&arena->lock);
}

SL_NO_LOCK_CHECK static inline void
pl_arena_unlock(struct pl_arena *arena)
{
	sl_mutex_unlock(&arena->lock);
}

static inline struct pl_arena *
pl_arena_of(const struct pl_gpu *gpu)
{
	return __atomic_load_n(&gpu->arena, __ATOMIC_ACQUIRE);
}

/* ---- arena.c ---- */

/* The GPU's arena, made if it is the first use. NULL: no memory. */
struct pl_arena *pl_arena_get(struct pl_gpu *gpu);
/* A region of bytes at least for the zone. 0 or -errno. Without locks. */
int pl_arena_area_add(struct pl_arena *arena, struct pl_zone *zone,
		      uint64_t bytes) SL_MUST_CHECK;
/* Count room against what there is: 0; or -ENOMEM, nothing is counted, and it is said on stderr. */
int pl_arena_limit_take(struct pl_arena *arena, uint64_t room) SL_MUST_CHECK;
/* More is allocated. Where that is oversubscribed, host memory is pinned for it in the background. */
void pl_arena_announce(struct pl_gpu *gpu);
/* Have the chunks of [base, base + room) on the device, or come under pressure. 0 or -errno: the device
 * is lost. Two threads may bring in the same chunk: it is the same to the core, and counted once. Without
 * locks. */
int pl_arena_populate(struct pl_arena *arena, const struct pl_zone *zone,
		      struct pl_area *area, uint64_t base, uint64_t room) SL_MUST_CHECK;

/* ---- reuse.c ---- */

/* The mask is of one stream, or none: work is in the order in which it was queued. */
bool pl_reuse_is_one_stream(uint64_t mask);
/* Class of room that was freed in the order of one stream. */
unsigned pl_reuse_class(uint64_t bit);
/* These streams are active. Without locks. */
void pl_reuse_streams_look(struct pl_arena *arena, uint64_t mask);
/* See what fences have passed, and make the next. wait: until one has. 1: room became anybody's.
 * Without locks. */
bool pl_reuse_reclaim(struct pl_arena *arena, int wait);
/* 1: room may be given out that streams still owe. Without locks. */
bool pl_reuse_lends(struct pl_arena *arena);
/* Room that streams of owed may still use has become this block, which nobody knows yet. 0, or it has no
 * lien: -EBUSY, -ENOMEM. Without locks. */
int pl_reuse_lend(struct pl_arena *arena, struct pl_block *block, uint64_t owed) SL_MUST_CHECK;
/* Contents are dead. Without locks. */
void pl_reuse_discard(struct pl_arena *arena, uint64_t addr, uint64_t bytes);
/* Discard what is held back for that. Without locks. */
void pl_reuse_discard_held(struct pl_arena *arena);

#endif
