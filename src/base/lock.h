/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutexes and read-write locks with a place in one order, and condition variables. A thread may
 * wait for a lock only if its rank is higher than every rank it holds. A try does not wait, so it
 * may come in any order. Debug builds (SL_LOCK_CHECK) keep the held ranks per thread. They assert
 * this order, that only the owner unlocks, and that a wait holds no lock that others need to end
 * it.
 *
 * The SL_ macros below are for clang's -Wthread-safety, which checks without running anything
 * (`./dev check compile`). They are empty under gcc. On a definition they come first, and cannot
 * name parameters. A static function that needs a parameter's lock gets a prototype for it.
 */
#ifndef SL_BASE_LOCK_H
#define SL_BASE_LOCK_H

#include <pthread.h>
#include <stdint.h>

#include "base/error.h"

#ifdef __clang__
#define SL_LOCK_ATTRIBUTE(what) __attribute__((what))
#else
#define SL_LOCK_ATTRIBUTE(what)
#endif
/* A type whose objects can be held. */
#define SL_CAPABILITY(name)  SL_LOCK_ATTRIBUTE(capability(name))
/* The caller holds them, before and after; the function may release and retake them between. */
#define SL_REQUIRES(...)     SL_LOCK_ATTRIBUTE(requires_capability(__VA_ARGS__))
/* The caller does not hold them: the function takes them itself. */
#define SL_EXCLUDES(...)     SL_LOCK_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define SL_ACQUIRE(...)      SL_LOCK_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define SL_RELEASE(...)      SL_LOCK_ATTRIBUTE(release_capability(__VA_ARGS__))
/* Acquired if the function returns 0, which is how ours say success. */
#define SL_ACQUIRE_IF_0(...) SL_LOCK_ATTRIBUTE(try_acquire_capability(0, __VA_ARGS__))
/* Returning at all means that it is held. */
#define SL_ASSERT_HELD(...)  SL_LOCK_ATTRIBUTE(assert_capability(__VA_ARGS__))
/* The body is not checked; a comment there says why. */
#define SL_NO_LOCK_CHECK     SL_LOCK_ATTRIBUTE(no_thread_safety_analysis)

/*
 * The lock order, outermost first. The ranks of the preload library (src/preload) come before those
 * of the pager, which it calls under them. Under each of them: no call of the program's own code.
 */
enum sl_lock_rank {
	/* A graph that is launched in pieces, or changed: from its first piece to its last. Scopes are
	 * opened under it, so the device may be waited for. */
	SL_RANK_PL_RUNNING,
	/* Memory that the program maps itself: handles, reservations, mappings. The pager and the
	 * driver may be waited for under it. No launch waits for it. */
	SL_RANK_PL_MAPPINGS,
	/* Executable graphs and what their nodes touch. Driver calls that ask are made under it.
	 * No scope is opened and nothing is allocated on the device under it. */
	SL_RANK_PL_GRAPHS,
	/* What is known of kernels: making their records, looking behind their arguments. Driver
	 * calls that wait for nothing are made under it. */
	SL_RANK_PL_KERNELS,
	/* What a framework's allocator gives out of a block, and takes back. The pager waits for moves
	 * under it. */
	SL_RANK_PL_SUBALLOCS,
	/* Tables of addresses that were seen in memory. No driver call under it. */
	SL_RANK_PL_TABLES,
	/* Making a GPU's space, and raising its pressure. The device may be waited for under it, so
	 * nobody holds it whose work the device waits for. */
	SL_RANK_PL_GPUS,
	/* A GPU's device budget is changed, and its book of programs read and written. The pager waits
	 * for launches under it, so threads that may hold them up only try it. */
	SL_RANK_PL_BUDGET,
	/* The order in which scopes are opened: read for one launch, written for two. The pager waits
	 * for room under it. */
	SL_RANK_PL_OPENING,
	/* What scopes keep of a GPU: wrapped streams, the relay of peer copies, the history. The
	 * pager is called under it, but for what waits. */
	SL_RANK_PL_SCOPES,
	/* Fences and liens of an arena, one made after the other. Driver calls are made under it, and
	 * the wait for a fence. */
	SL_RANK_PL_REUSE,
	/* One stream of the program: its handle is not destroyed while an event is recorded on it.
	 * Driver calls that enqueue are made under it. */
	SL_RANK_PL_STREAM,
	/* A GPU's table of streams. Only driver calls that ask are made under it. The lock of a stream
	 * is only tried under it. */
	SL_RANK_PL_STREAMS,
	/* An arena: free addresses, live blocks, who owes what. No call of the pager, of the driver or
	 * of streams under it. */
	SL_RANK_PL_ARENA,
	/* Making and writing the traces of --record, once. Files are written under it. */
	SL_RANK_PL_CLOSING,
	/* Asking for the times of work on streams, and where they are told. Driver calls that ask are
	 * made under it, and the wait for an event on an idle stream of ours. */
	SL_RANK_PL_TIMINGS,
	/* The recorders of --record: read to tell them something, written to take them away. Driver
	 * calls that ask are made under it. */
	SL_RANK_PL_RECORDERS,
	/* Small tables: events, captures, remembered ranges, tensor maps, times of launches, the
	 * opening of the driver. Nothing else of the preload library is called under it. */
	SL_RANK_PL_LEAF,
	/* Serialises creation and destruction of spaces and the signal handlers' list of
	 * them. May be held while a space starts or stops its threads. */
	SL_RANK_PROCESS,
	/* One space: regions, chunks, budgets, queues of launches. No copy, no I/O, no
	 * system call, no callback, no log under it; waiting only on its own condition
	 * variables. */
	SL_RANK_SPACE,
	/* A stream's queue, the worker pool, an event of the software device. The one system call
	 * under it is the reading of a fault message, which does not wait. */
	SL_RANK_STREAM,
	/* The order in which a GPU's copies are enqueued: driver calls that enqueue, and wait for
	 * nothing, are made under it. */
	SL_RANK_MOVES,
	/* Free lists of frames. System calls that give memory back are made outside
	 * it. And, never with it, the registering of a frame, which is a driver call. */
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

struct SL_CAPABILITY("mutex") sl_mutex {
	pthread_mutex_t mutex;
	enum sl_lock_rank rank; /* set once */
};

#define SL_MUTEX_INITIALIZER(of_rank)                                 \
	{                                                             \
		.mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (of_rank) \
	}

/* A writer goes before readers that come later; who reads does not read again. To clang both hold. */
struct SL_CAPABILITY("rwlock") sl_rwlock {
	pthread_rwlock_t rwlock;
	enum sl_lock_rank rank; /* set once */
};

#define SL_RWLOCK_INITIALIZER(of_rank)                                       \
	{                                                                    \
		.rwlock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP, \
		.rank = (of_rank)                                            \
	}

/* clang 14 knows nothing of aliases: it is shown one token for the locks of all objects of a kind. */
struct SL_CAPABILITY("lock") sl_lock_token {
	char unused;
};

struct sl_cond {
	pthread_cond_t cond; /* CLOCK_MONOTONIC */
};

void sl_mutex_init(struct sl_mutex *m, enum sl_lock_rank rank);
void sl_mutex_fini(struct sl_mutex *m);
void sl_mutex_lock(struct sl_mutex *m) SL_ACQUIRE(m);
/* 0, or -EBUSY: another thread has it. */
int sl_mutex_trylock(struct sl_mutex *m) SL_ACQUIRE_IF_0(m) SL_MUST_CHECK;
void sl_mutex_unlock(struct sl_mutex *m) SL_RELEASE(m);
/* A no-op without SL_LOCK_CHECK. */
void sl_mutex_assert_held(const struct sl_mutex *m) SL_ASSERT_HELD(m);

void sl_rwlock_init(struct sl_rwlock *l, enum sl_lock_rank rank);
void sl_rwlock_read(struct sl_rwlock *l) SL_ACQUIRE(l);
void sl_rwlock_write(struct sl_rwlock *l) SL_ACQUIRE(l);
void sl_rwlock_unlock(struct sl_rwlock *l) SL_RELEASE(l);

void sl_cond_init(struct sl_cond *c);
void sl_cond_fini(struct sl_cond *c);
void sl_cond_wait(struct sl_cond *c, struct sl_mutex *m) SL_REQUIRES(m);
/* 0, or -ETIMEDOUT once sl_now_ns() has reached deadline_ns. */
int sl_cond_wait_until(struct sl_cond *c, struct sl_mutex *m, uint64_t deadline_ns)
	SL_REQUIRES(m);
void sl_cond_signal(struct sl_cond *c);
void sl_cond_broadcast(struct sl_cond *c);

#endif
