/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutexes with a place in one order, and condition variables. A thread may take a lock
 * only if its rank is higher than every rank it holds; debug builds (SL_LOCK_CHECK) keep
 * the held ranks per thread and assert this, that only the owner unlocks, and that a wait
 * holds nothing else.
 */
#ifndef SL_BASE_LOCK_H
#define SL_BASE_LOCK_H

#include <pthread.h>
#include <stdint.h>

/* The lock order, outermost first. */
enum sl_lock_rank {
	/* Serialises creation and destruction of spaces and the signal handlers' list of
	 * them. May be held while a space starts or stops its threads. */
	SL_RANK_PROCESS,
	/* One space: regions, chunks, budgets, queues of launches. No copy, no I/O, no
	 * system call, no callback, no log under it; waiting only on its own condition
	 * variables. */
	SL_RANK_SPACE,
	/* A stream's queue, the worker pool, an event of the software device. */
	SL_RANK_STREAM,
	/* Free lists of frames. System calls that give memory back are made outside
	 * it. */
	SL_RANK_FRAMES,
	/* The queue of a store engine: submission only, never while waiting for
	 * completions. */
	SL_RANK_STORE,
	/* Spill extents: the allocation bitmap. */
	SL_RANK_SPILL,
	/* Leaf locks in src/base (log, fault points). */
	SL_RANK_BASE,
	SL_RANK_COUNT
};

struct sl_mutex {
	pthread_mutex_t mutex;
	enum sl_lock_rank rank; /* set once */
};

struct sl_cond {
	pthread_cond_t cond; /* CLOCK_MONOTONIC */
};

void sl_mutex_init(struct sl_mutex *m, enum sl_lock_rank rank);
void sl_mutex_fini(struct sl_mutex *m);
void sl_mutex_lock(struct sl_mutex *m);
void sl_mutex_unlock(struct sl_mutex *m);
void sl_mutex_assert_held(const struct sl_mutex *m); /* no-op without SL_LOCK_CHECK */

void sl_cond_init(struct sl_cond *c);
void sl_cond_fini(struct sl_cond *c);
void sl_cond_wait(struct sl_cond *c, struct sl_mutex *m);
/* 0, or -ETIMEDOUT once sl_now_ns() has reached deadline_ns. */
int sl_cond_wait_until(struct sl_cond *c, struct sl_mutex *m, uint64_t deadline_ns);
void sl_cond_signal(struct sl_cond *c);
void sl_cond_broadcast(struct sl_cond *c);

#endif
