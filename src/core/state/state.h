/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the pager: chunks, their states and lists, budgets, and the pins of launches. It
 * does no I/O, does not call the device, and calls no other storey.
 *
 * Each block names the file that defines it. SL_HELD means that the caller holds space->lock.
 * "Drops" means that the function may release and retake it: the caller looks again at
 * everything.
 */
#ifndef SL_CORE_STATE_STATE_H
#define SL_CORE_STATE_STATE_H

#include "core/events.h"
#include "core/types.h"

/*
 * The space lock. To clang's analysis s->lock and c->region->space->lock are two locks, though one
 * is the other; so it is shown one token that stands for the lock of any space. That costs nothing:
 * no thread ever holds two of them (they have one rank, base/lock.h).
 */
struct SL_CAPABILITY("space lock") sl_space_token {
	int unused; /* no object of it exists */
};
extern struct sl_space_token sl_space_token;

#define SL_HELD     SL_REQUIRES(sl_space_token)
#define SL_NOT_HELD SL_EXCLUDES(sl_space_token)

/* SL_NO_LOCK_CHECK on the bodies: here the token and the mutex become one. */
static inline void sl_space_lock(struct sluice_space *s) SL_ACQUIRE(sl_space_token);
static inline void sl_space_unlock(struct sluice_space *s) SL_RELEASE(sl_space_token);
/* On one of the space's condition variables. Drops. deadline_ns: a moment of sl_now_ns(); 0, or
 * -ETIMEDOUT once it has come. */
static inline void sl_space_wait(struct sluice_space *s, struct sl_cond *cond) SL_HELD;
static inline int sl_space_wait_until(struct sluice_space *s, struct sl_cond *cond,
				      uint64_t deadline_ns) SL_HELD;

SL_NO_LOCK_CHECK static inline void
sl_space_lock(struct sluice_space *s)
{
	sl_mutex_lock(&s->lock);
}

SL_NO_LOCK_CHECK static inline void
sl_space_unlock(struct sluice_space *s)
{
	sl_mutex_unlock(&s->lock);
}

SL_NO_LOCK_CHECK static inline void
sl_space_wait(struct sluice_space *s, struct sl_cond *cond)
{
	sl_cond_wait(cond, &s->lock);
}

SL_NO_LOCK_CHECK static inline int
sl_space_wait_until(struct sluice_space *s, struct sl_cond *cond, uint64_t deadline_ns)
{
	return sl_cond_wait_until(cond, &s->lock, deadline_ns);
}

/* chunk.c: state, flags, waiting. */
/* A move that the table does not have: SL_LOCK_CHECK aborts; else it is refused, and the region's next
 * sync and every sluice_space_check() report it. */
void sl_chunk_set_state(struct sl_chunk *c, enum sl_chunk_state state) SL_HELD;
/* So many bytes more are alive; less: as a negative number. */
void sl_alive_count(struct sluice_space *s, uint64_t bytes) SL_HELD;
void sl_chunk_update(struct sl_chunk *c) SL_HELD; /* after flags, host, pages changed: readiness, lists */
/* 0, or -EIO: SL_LOST, and no launch is about to overwrite it. */
int sl_chunk_lost(const struct sl_chunk *c) SL_HELD SL_MUST_CHECK;
void sl_chunk_wake(struct sl_chunk *c) SL_HELD; /* somebody may wait for this chunk */
void sl_chunk_wait(struct sl_chunk *c) SL_HELD; /* drops: until the chunk is woken */
/* The same; -ETIMEDOUT once deadline_ns has come. */
int sl_chunk_wait_until(struct sl_chunk *c, uint64_t deadline_ns) SL_HELD;
void sl_chunk_touch(struct sl_chunk *c) SL_HELD; /* refresh: newest stamp */
/* Any stamp, higher or lower: for policies with an order of their own. */
void sl_chunk_restamp(struct sl_chunk *c, uint64_t stamp) SL_HELD;
/* 1 while some thread adds a page or lifts a guard: wait before moving or guarding c. */
int sl_chunk_is_held(const struct sl_chunk *c) SL_HELD;
/* Bytes [begin, end) of c are about to be written: they live again. */
void sl_chunk_revive(struct sl_chunk *c, uint64_t begin, uint64_t end) SL_HELD;
/* The same of the bytes of c that the use covers. */
void sl_use_revive(const struct sl_launch_use *u, struct sl_chunk *c) SL_HELD;
/* Eagerly discarded, but unmapping failed: not discarded after all. */
void sl_chunk_keep(struct sl_chunk *c) SL_HELD;
/* c was used, or its frame goes: it counts to the share of read-ahead no more. */
void sl_read_ahead_release(struct sl_chunk *c) SL_HELD;
void sl_count(struct sluice_space *s, enum sluice_counter counter, uint64_t n) SL_HELD;

/* events.c: what is told to who watches the space (core/events.h). Where nobody does, each is a
 * load, and returns 0. */
uint64_t sl_event_now(const struct sluice_space *s) SL_HELD;
/* What the counter counts, and takes time, has begun, at since (0: now), for l (NULL: no launch). Its id. */
uint64_t sl_event_begin(const struct sl_chunk *c, enum sluice_counter counter, uint64_t bytes,
			uint64_t since, const struct sluice_launch *l) SL_HELD;
/* id 0: nothing. */
void sl_event_end(struct sluice_space *s, uint64_t id, int rc) SL_HELD;
/* The same, of a move that the device has timed, as far as it did. */
void sl_event_end_at(struct sluice_space *s, uint64_t id, int rc,
		     struct sl_copy_time at) SL_HELD;
void sl_event_undo(struct sluice_space *s, uint64_t id) SL_HELD;
/* l is held back until the copies in up to that fence are done. */
void sl_event_hold(const struct sluice_launch *l, struct sl_fence fence) SL_HELD;
/* The move id is the copy in of that fence. */
void sl_event_fence(struct sluice_space *s, uint64_t id, struct sl_fence fence) SL_HELD;
/* A wait that began at since is over. */
void sl_event_waited(struct sluice_space *s, enum sl_wait_reason reason,
		     uint64_t since) SL_HELD;
/* sl_count() passes everything on. */
void sl_event_count(struct sluice_space *s, enum sluice_counter counter,
		    uint64_t bytes) SL_HELD;

/* policy.c: calls of the space's policy; each does nothing where the policy has no function. */
static inline void sl_policy_note(struct sluice_launch *l) SL_HELD;
static inline int sl_policy_is_due(const struct sluice_space *s) SL_HELD;

static inline void
sl_policy_note(struct sluice_launch *l)
{
	const struct sl_policy *policy = l->space->policy;

	if (!policy->note || l->noted || sl_checks_kernels(l->space))
		return;
	l->noted = 1;
	policy->note(l);
}

static inline int
sl_policy_is_due(const struct sluice_space *s)
{
	return s->policy->is_due && s->policy->is_due(s);
}

/* enter.c: the way into a space and a region */
int sl_space_forked(const struct sluice_space *s); /* 1 in a child of the process that made it */
/* The system's number of this thread; asked for once. Any lock. */
pid_t sl_thread_number(const struct sluice_space *s);
void sl_fork_watch(struct sluice_space *s); /* s is being made by this process */
/* Take the lock. -EINVAL: s is NULL; -ECHILD after fork. */
int sl_space_enter(struct sluice_space *s) SL_ACQUIRE_IF_0(sl_space_token) SL_MUST_CHECK;
/* A call that needs no lock: errors as sl_space_enter(). */
int sl_space_enterable(struct sluice_space *s) SL_NOT_HELD SL_MUST_CHECK;
struct sl_region *sl_region_at(struct sluice_space *s, const void *addr) SL_HELD; /* NULL: none */
/* The region that holds [addr, addr + size), size SLUICE_TO_END: to its end. -ENOENT with text. */
int sl_region_find(struct sluice_space *s, const char *call, const void *addr,
		   size_t size, struct sl_region **region, uint64_t *begin,
		   uint64_t *end) SL_HELD SL_MUST_CHECK;
void sl_region_leave(struct sl_region *r) SL_HELD; /* end of busy */
/* Keep the first error of a write, and its text, until somebody asks. */
void sl_region_write_error(struct sl_region *r, int rc, const char *text) SL_HELD;

/* lru.c: the device's victims. */
/* Room for n_chunks more chunks of a size, until they are released. -ENOMEM, -EFBIG. */
int sl_lru_reserve(struct sluice_space *s, uint64_t chunk_bytes,
		   uint64_t n_chunks) SL_HELD SL_MUST_CHECK;
void sl_lru_release(struct sluice_space *s, uint64_t chunk_bytes, uint64_t n_chunks) SL_HELD;
void sl_lru_insert(struct sl_chunk *c) SL_HELD;
void sl_lru_remove(struct sl_chunk *c) SL_HELD;
/* A discarded chunk of the heap lives again: its stamp there may be too high. */
void sl_lru_refresh(struct sl_chunk *c) SL_HELD;
/* The coldest chunk of the heap that is not discarded, passing over those that... NULL: none. */
enum sl_lru_skip {
	SL_SKIP_NOTHING,
	SL_SKIP_PREPARING, /* the launch being prepared needs */
	SL_SKIP_PINNED,    /* any launch has pinned, or that one needs */
	SL_SKIP_AWAITED    /* or a prefetch has asked for, and no use has come to */
};
struct sl_chunk *sl_lru_coldest(struct sluice_space *s, enum sl_lru_skip skip) SL_HELD;
/* The same for who needs room for a chunk: one of that size (0: any) where it is nearly as cold. */
struct sl_chunk *sl_lru_coldest_for(struct sluice_space *s, enum sl_lru_skip skip,
				    uint64_t chunk_bytes) SL_HELD;
int sl_lru_knows(const struct sl_chunk *c); /* its heap_slot is its own. Held */
/* The coldest chunks of like's size that no use has made warmer since the heap was told, max at most, out
 * of a bounded number that is looked at. */
uint32_t sl_lru_next(const struct sl_chunk *like, struct sl_chunk **out, uint32_t max) SL_HELD;
void sl_lru_fini(struct sluice_space *s);
void sl_discarded_insert(struct sl_chunk *c) SL_HELD;
void sl_discarded_remove(struct sl_chunk *c) SL_HELD;

/* early_queue.c: chunks that were told to leave early */
int sl_early_queue_add(struct sl_chunk *c) SL_HELD; /* 1: it is in the queue */
/* The chunk at this place; NULL: it has dropped out. */
struct sl_chunk *sl_early_queue_at(struct sluice_space *s, uint32_t place) SL_HELD;
void sl_early_queue_take(struct sl_chunk *c) SL_HELD; /* its first place is empty */
uint32_t sl_early_queue_trim(struct sluice_space *s) SL_HELD; /* places that are left */
int sl_early_evict_is_pending(const struct sluice_space *s) SL_HELD; /* the queue is not empty */
void sl_early_evict_forget(const struct sl_region *r) SL_HELD; /* it is about to end */

/* host_list.c: lists of host frames */
void sl_host_list_update(struct sl_chunk *c) SL_HELD; /* put on the list its flags say */
void sl_host_list_remove(struct sl_host *h) SL_HELD;
/* Whether the frame will leave staging, or become reclaimable, without anybody's decision. */
void sl_host_set_active(struct sluice_space *s, struct sl_host *h, int active) SL_HELD;
void sl_host_wake(struct sluice_space *s) SL_HELD; /* staging or settled room may be there */
void sl_host_wait(struct sluice_space *s) SL_HELD; /* drops: until then */

/* launch_list.c: lists of launches */
/* The lists of prepared launches and of scopes, under the lock. */
void sl_launch_list_add(struct sluice_launch **head, struct sluice_launch *l);
void sl_launch_list_remove(struct sluice_launch **head, struct sluice_launch *l);
/* The mover's queues, in the order of numbers, then of calls; launches before discards. */
void sl_request_add(struct sluice_space *s, struct sl_request_queue *queue,
		    struct sl_request *q) SL_HELD;
void sl_request_remove(struct sl_request_queue *queue, struct sl_request *q) SL_HELD;
void sl_launch_unpin(struct sluice_launch *l) SL_HELD;
/* What it reached may go: its kernel is over, or it is prepared anew. */
void sl_launch_reach_end(struct sluice_launch *l) SL_HELD;
/* Launches, pins or room may have changed. */
void sl_launch_wake(struct sluice_space *s) SL_HELD;
/* First error of a launch, with text. */
void sl_launch_blame(struct sluice_launch *l, int rc, const char *fmt, ...) SL_HELD
	SL_PRINTF(3, 4);
/* Whether a launch of the stream (NULL: any) has c pinned that was called up to that number (its low
 * bits). */
int sl_chunk_is_pinned_before(const struct sl_chunk *c,
			      const struct sluice_stream *stream, uint32_t number) SL_HELD;
/* Whether a launch called before that number is still to use c and has no pins: it waits to be prepared, or
 * gave them back. */
int sl_chunk_is_wanted_before(const struct sl_chunk *c, uint64_t number) SL_HELD;
uint32_t sl_scopes_count(const struct sluice_space *s) SL_HELD; /* host scopes whose pins stand */
/* 1: a sluice_launch_begin() holds c, and its end may wait for the very launch that wants room. */
int sl_scope_holds(const struct sl_chunk *c);
/* Whether the use overwrites the whole chunk. */
int sl_use_overwrites(const struct sl_launch_use *u, const struct sl_chunk *c);
/* Whether a launch that has not begun is to overwrite all of it. */
int sl_overwrite_is_pending(const struct sl_chunk *c) SL_HELD;

#endif
