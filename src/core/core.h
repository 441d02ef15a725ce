/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the pager offer each other. Each block names its file. LOCKING notes: SL_HELD
 * means the caller holds space->lock; "drops" means the function may release and retake it, so
 * everything looked at before must be looked at again.
 */
#ifndef SL_CORE_CORE_H
#define SL_CORE_CORE_H

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
/* Eagerly discarded, but unmapping failed: not discarded after all. */
void sl_chunk_keep(struct sl_chunk *c) SL_HELD;
/* c was used, or its frame goes: it counts to the share of read-ahead no more. */
void sl_read_ahead_release(struct sl_chunk *c) SL_HELD;
void sl_count(struct sluice_space *s, enum sluice_counter counter, uint64_t n) SL_HELD;

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
void sl_fork_watch(struct sluice_space *s);        /* s is being made by this process */
/* Take the lock. -EINVAL: s is NULL; -ECHILD after fork. */
int sl_space_enter(struct sluice_space *s) SL_ACQUIRE_IF_0(sl_space_token) SL_MUST_CHECK;
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
/* The mover's queue, in the order of the calls. */
void sl_launch_queue(struct sluice_launch *l) SL_HELD;
void sl_launch_unqueue(struct sluice_space *s, struct sluice_launch *l) SL_HELD;
void sl_launch_unpin(struct sluice_launch *l) SL_HELD;
/* Launches, pins or room may have changed. */
void sl_launch_wake(struct sluice_space *s) SL_HELD;
/* First error of a launch, with text. */
void sl_launch_blame(struct sluice_launch *l, int rc, const char *fmt, ...) SL_HELD
	SL_PRINTF(3, 4);
uint32_t sl_scopes_count(const struct sluice_space *s) SL_HELD; /* host scopes whose pins stand */
/* 1: a sluice_launch_begin() holds c, and its end may wait for the very launch that wants room. */
int sl_scope_holds(const struct sl_chunk *c);
/* Whether the use overwrites the whole chunk. */
int sl_use_overwrites(const struct sl_launch_use *u, const struct sl_chunk *c);
/* Whether a launch that has not begun is to overwrite all of it. */
int sl_overwrite_is_pending(const struct sl_chunk *c) SL_HELD;

/* wait.c: until launches give something back */
/* Until launches, pins or room may have changed; may return early: look again. Drops.
 * -ETIMEDOUT once deadline_ns has come. */
void sl_launch_wait(struct sluice_space *s) SL_HELD;
int sl_launch_wait_until(struct sluice_space *s,
			 uint64_t deadline_ns) SL_HELD; /* launches, pins or room changed */
/* Whether a launch runs, or will without anybody's help, however late the threads are. */
int sl_launches_go_on(const struct sluice_space *s) SL_HELD;
/* When none does: let the newest prepared one give its pins back. */
int sl_launch_preempt(struct sluice_space *s,
		      const struct sluice_launch *except) SL_HELD; /* 1 if so */
void sl_room_wait(struct sluice_space *s) SL_HELD; /* for what pins hold. Drops */
/* Finish the scopes that the device has done, and ask it about those ended since. 1: pins may have
 * gone, or the lock was dropped. */
int sl_scopes_reap(struct sluice_space *s) SL_HELD;
/* Only the first. */
int sl_scopes_drain(struct sluice_space *s) SL_HELD;
/* Have the device tell when it has come to the end of what the stream has collected. Drops. */
void sl_scopes_submit(struct sluice_stream *stream) SL_HELD;
void sl_stream_submit(struct sluice_stream *stream, struct sl_task *task) SL_NOT_HELD;

/* host.c: host copies, staging and settling. */
/*
 * Get a frame for c within the staging budget, for a read (demand or ahead) or an eviction. Drops.
 * 0; -EAGAIN (ahead only: no room now); -ENOBUFS or the write error that blocks progress.
 * The new sl_host is not attached to the chunk.
 */
enum sl_staging_use {
	SL_STAGING_READ,   /* waits */
	SL_STAGING_LAUNCH, /* same share, -EAGAIN instead of waiting */
	SL_STAGING_AHEAD,  /* read-ahead: -EAGAIN */
	SL_STAGING_EVICT   /* waits */
};
int sl_host_get(struct sl_chunk *c, enum sl_staging_use use,
		struct sl_host **out) SL_HELD SL_MUST_CHECK;
void sl_host_put(struct sl_host *h) SL_HELD; /* drops: give the frame back */
/* EMPTY to HOST: a frame of zeros; any: of anything, nobody reads it before it is written. Drops. */
int sl_host_zero(struct sl_chunk *c, int any) SL_HELD SL_MUST_CHECK;
/* Free the host copy of c (not in I/O). Drops. */
void sl_host_drop(struct sl_chunk *c) SL_HELD;
/* Where the configuration asks for it (host_pin): make the frames and the device memory that chunks of this size can want,
 * which blocks for as long as that takes. Takes the lock. */
void sl_host_pin_early(struct sluice_space *s, uint64_t bytes);
/* Let the clean frame of a HOST chunk go: HOST -> STORE. Drops. */
void sl_host_let_go(struct sl_chunk *c) SL_HELD;
/* The device took c's frame over (present without KEEP): free the record only. */
void sl_host_consumed(struct sl_chunk *c) SL_HELD;
/*
 * Move c's frame from staging into the host budget, making room by the order of the host lists. 0
 * settled; -EAGAIN no room (stays in staging). Drops.
 */
enum sl_settle {
	SL_SETTLE_NOW, /* over frames that can go at once */
	SL_SETTLE_WAIT, /* and over clean ones whose write is under way, so that counters repeat */
	SL_SETTLE_WRITE /* and over dirty ones, which are written */
};
int sl_host_settle(struct sl_chunk *c, enum sl_settle how) SL_HELD SL_MUST_CHECK;
/* Dirty beyond the thresholds: start background writes. Drops. */
void sl_host_clean(struct sluice_space *s) SL_HELD;
int sl_host_shrink(struct sluice_space *s, uint64_t budget_bytes) SL_HELD SL_MUST_CHECK; /* drops */

/* store_io.c: chunk to and from the store. */
int sl_read_begin(struct sl_chunk *c, enum sl_io_class cls, enum sluice_counter counter,
		  enum sl_staging_use use) SL_HELD SL_MUST_CHECK; /* drops; STORE -> READING */
/* Begin writing a HOST or POISONED chunk; let_go: free the frame when clean. Drops.
 * Errors: no spill extent (-ENOSPC): the chunk is POISONED, nothing lost. */
int sl_write_begin(struct sl_chunk *c, enum sl_io_class cls, enum sluice_counter counter,
		   int let_go) SL_HELD SL_MUST_CHECK;
/* Write the snapshot h of a SYNCING chunk; completes to DEVICE. Drops. */
void sl_snapshot_write(struct sl_chunk *c, struct sl_host *h) SL_HELD;
/* 0, or the error of the read that failed last, with its text. */
int sl_read_failed(const struct sl_chunk *c) SL_HELD SL_MUST_CHECK;
void sl_spill_drop(struct sl_chunk *c) SL_HELD; /* forget the spill extent */
/* Page reads and writes in the calling thread; the chunk is marked busy. */
int sl_page_read(struct sl_chunk *c, uint64_t offset, size_t bytes,
		 void *buf) SL_NOT_HELD SL_MUST_CHECK;

/* guard.c: writes that are to be seen */
/* Let writes through to bytes from offset of c, which is on the device. A guard that stood up again
 * meanwhile would be lifted unseen, so c is held. Drops. */
int sl_chunk_unguard(struct sl_chunk *c, uint64_t offset, uint64_t bytes) SL_HELD SL_MUST_CHECK;
/* Writes to eagerly discarded pages of c, FILLING or in use by no launch, are seen from here on.
 * Drops. */
void sl_dead_watch(struct sl_chunk *c) SL_HELD;
/* Some pages of c, bytes [begin, end), are about to be noted dead, eagerly: see later writes to them.
 * Not 0: they cannot be seen. Drops. */
int sl_writes_watch(struct sl_chunk *c, uint64_t begin, uint64_t end) SL_HELD SL_MUST_CHECK;
/* Lift the guard of c but for its dead pages. Drops. Errors of the device, text set. */
int sl_chunk_unguard_live(struct sl_chunk *c) SL_HELD SL_MUST_CHECK;

/* fill.c: bring a chunk in. */
struct sl_fill {
	enum sluice_intent intent; /* as the policy sees it */
	int partial;               /* only a part of the chunk is covered by the use */
	enum sl_cause cause;
	int no_wait_in_flight; /* faults: evict even what a launch has pinned */
	int opportunist;       /* prefetch: -EAGAIN instead of waiting for room */
	int spare;             /* opportunist: and instead of taking anything alive out */
	struct sluice_launch *launch; /* being prepared: -ESTALE instead of waiting for room that
				       * pins, or a new budget, have taken from it meanwhile */
};
/* Make c present and whole, on the books as the intent says. Drops. 0 or error; -EINPROGRESS, for a launch
 * only: pins hold the room, wait and try again. */
int sl_fill(struct sl_chunk *c, const struct sl_fill *fill) SL_HELD SL_MUST_CHECK;
/* Book an intent on a present chunk (dirty, guard, host copy). Drops (guard calls). */
int sl_fill_book(struct sl_chunk *c, const struct sl_fill *fill) SL_HELD SL_MUST_CHECK;

/* overwrite.c: what a launch is to overwrite keeps its contents until the launch begins */
/*
 * begin: c has got its room. undo: back to the contents, because they are needed first; drops, look
 * again. overwritten: no older copy counts; drops.
 */
void sl_overwrite_begin(struct sl_chunk *c, struct sluice_launch *l) SL_HELD;
int sl_overwrite_undo(struct sl_chunk *c) SL_HELD SL_MUST_CHECK;
void sl_overwritten(struct sl_chunk *c) SL_HELD;
/* The launch begins; or it is over without having begun. Drop. */
void sl_launch_overwrites(struct sluice_launch *l) SL_HELD;
void sl_launch_overwrites_undo(struct sluice_launch *l) SL_HELD;

/* evict.c: take chunks out. */
/* Reserve bytes of the device budget for c, evicting the coldest. Drops. */
/* -EINPROGRESS: launches hold it all, and this is no fault: let c go, sl_room_wait(), try again. */
int sl_room_make(struct sl_chunk *c, uint64_t bytes,
		 const struct sl_fill *fill) SL_HELD SL_MUST_CHECK;
/* Evict the coldest that is not SL_PREPARING, if its stamp is before that, for l; what launches in flight use is
 * waited for, for a while. 0: there is none, or that took too long. Drops. */
int sl_room_coldest(struct sluice_launch *l, uint64_t before) SL_HELD;
void sl_room_give(struct sluice_space *s, uint64_t bytes) SL_HELD;
/* Whether so many bytes of the device are free, or dead and in no launch's use. */
int sl_room_spare(const struct sluice_space *s, uint64_t bytes) SL_HELD;
enum sl_evict_why {
	SL_EVICT_ROOM,
	SL_EVICT_REQUEST,
	SL_EVICT_FLUSH,
	SL_EVICT_DISCARD, /* dead, or freed: its contents go nowhere */
};
/* Evict a DEVICE chunk. Drops. On return it is in another state, or the error is why not. */
int sl_evict(struct sl_chunk *c, enum sl_evict_why why) SL_HELD SL_MUST_CHECK;
int sl_device_shrink(struct sluice_space *s,
		     uint64_t budget_bytes) SL_HELD SL_MUST_CHECK; /* drops */

/* early_evict.c: chunks that leave when their launches have ended */
/* Whether one can go now. step: the first of them goes, drops. forget: the region is about to end. */
int sl_early_evict_is_due(struct sluice_space *s) SL_HELD;
int sl_early_evict_is_pending(const struct sluice_space *s) SL_HELD; /* due, or when its launches have ended */
/* The first that is unused, else the first that launches in flight use; NULL: none. */
struct sl_chunk *sl_early_evict_first(struct sluice_space *s) SL_HELD;
void sl_early_evict_step(struct sluice_space *s) SL_HELD;
void sl_early_evict_forget(const struct sl_region *r) SL_HELD;

/* dirty_hash.c: whether what may have been written was */
/* Once, where measuring is asked for: what a first hash needs. Blocks on that, and on kernels. */
void sl_dirty_hash_prepare(struct sluice_space *s) SL_NOT_HELD;
/* Whether c is to be hashed for a use of this intent. */
int sl_dirty_hash_wanted(const struct sl_chunk *c, enum sluice_intent intent) SL_HELD;
/* With what c, FILLING or DEVICE and not dirty there, is to be compared after such a use; a frame is kept
 * for COPY alone. */
enum sl_dirty_hash_state sl_dirty_hash_against(const struct sl_chunk *c,
					       enum sluice_intent intent) SL_HELD;
/* c (FILLING, SYNCING) has what base has: sets c->measured, and where that has to be hashed first,
 * c->arrival. Drops; a failure leaves LEARN. */
void sl_dirty_hash_arrived(struct sl_chunk *c, enum sl_dirty_hash_state base) SL_HELD;
/* c is EVICTING for room: hash it, if that is wanted, and those that may follow it. Drops. */
void sl_dirty_hash_ahead(struct sl_chunk *c) SL_HELD;
/* The same for any chunk that is to leave soon: 1: begun (drops); 0: nothing to do, or not now. */
int sl_dirty_hash_begin(struct sl_chunk *c) SL_HELD;
/* Such a hash is under way: its end wakes the mover, if c is in space->early_evict. */
int sl_dirty_hash_is_pending(const struct sl_chunk *c) SL_HELD;
/* 1: c (EVICTING, SYNCING) is as another copy of it is. Drops. */
int sl_dirty_hash_unchanged(struct sl_chunk *c) SL_HELD;
/* c is leaving the device, and what it has there is copied (before left); it leaves. */
void sl_dirty_hash_copied(struct sl_chunk *c) SL_HELD;
void sl_dirty_hash_left(struct sl_chunk *c) SL_HELD;
/* The copies of c that are not on the device have changed, or gone. */
void sl_dirty_hash_forget(struct sl_chunk *c) SL_HELD;
void sl_dirty_hash_drop(struct sl_region *r); /* of a region that ends */
/* Hash nothing from here to resume, and wait for what is hashed now. Blocks on copies and on kernels
 * that keep a hash from running. */
void sl_dirty_hash_stop(struct sluice_space *s) SL_NOT_HELD;
void sl_dirty_hash_resume(struct sluice_space *s) SL_NOT_HELD;

/* flush.c */
/* Write what is newer than the store in [begin, end) and wait. keep: leave present data present. The first
 * error of the region, which is then cleared. Drops. */
int sl_region_flush(struct sl_region *r, uint64_t begin, uint64_t end,
		    int keep) SL_HELD SL_MUST_CHECK;

/* pages.c: population by page. */
int sl_page_fault(struct sl_chunk *c, const struct sl_touch *touch,
		  enum sl_cause cause) SL_HELD SL_MUST_CHECK;
/* Which pages to bring for a fault on page: pure. present: bitmap; out [*first, *first + *n). */
void sl_pages_grow(const uint64_t *present, uint32_t n_pages, uint32_t page,
		   uint32_t *first, uint32_t *n);
struct sl_pages *sl_pages_alloc(uint64_t chunk_bytes);

/* readahead.c */
/* Chunks [first, last] were demanded, in this order of use. Drops. Never fails. */
void sl_read_ahead(struct sl_region *r, uint64_t first, uint64_t last) SL_HELD;
/* Held, or r is known to nobody else yet. */
void sl_read_ahead_reset(struct sl_region *r);

/* view.c: host code's view (SL_CAP_VIEW) */
/* Serve a touch of c by host code. Drops. -EINPROGRESS: it is on the device, or launches access its frame;
 * wait for them and evict it, then try again. */
int sl_view_touch(struct sl_chunk *c, const struct sl_touch *touch) SL_HELD SL_MUST_CHECK;
/* Hide what is shown of c (HOST or POISONED), its newest contents in the frame. forget: they are
 * dead. Drop; on failure nothing is lost. */
int sl_view_fold(struct sl_chunk *c) SL_HELD SL_MUST_CHECK;
int sl_view_forget(struct sl_chunk *c) SL_HELD SL_MUST_CHECK;

/* fault.c */
int sl_touched(void *space, const struct sl_touch *touch);

/* uses.c */
/* What a launch may touch besides its uses. */
struct sl_beside {
	const struct sluice_use *uses;
	size_t n;
};

/* Fill l->uses: l->n_uses as declared, those of beside (NULL: none) behind them, which l->n_uses counts then.
 * -EINVAL, -EACCES: what the program declares cannot be. */
int sl_uses_resolve(struct sluice_launch *l, const struct sluice_use *uses,
		    const struct sl_beside *beside) SL_HELD SL_MUST_CHECK;
/* Whether a launch with so many uses may touch what it does not declare. */
int sl_uses_reach_all(const struct sluice_space *s, size_t n_uses);
/* Uses of every region, behind those declared; at most room of them. */
void sl_uses_add_all(struct sluice_launch *l, size_t room) SL_HELD;
/* Uses of a launch as text, as far as they fit; returns text. */
const char *sl_launch_ranges(const struct sluice_launch *l, char *text, size_t bytes) SL_HELD;

/* pins.c */
int sl_launch_try_prepare(struct sluice_launch *l) SL_HELD; /* 0, or -EAGAIN: not all resident */
/* Refresh and pin what the launch uses, in the order of its uses. */
void sl_launch_pin(struct sluice_launch *l) SL_HELD;
void sl_launch_prepared(struct sluice_launch *l, int rc) SL_HELD; /* the mover is done with it */
/* Its chunks are no victims, or are again; giants 0: but for those of giants (thrash.c). */
void sl_launch_mark_preparing(struct sluice_launch *l, int preparing, int giants);
void sl_launch_dispose(struct sluice_launch *l) SL_HELD; /* its scratch is dead. Drops */
/* The end of a launch whose pins stand. Drops. */
void sl_launch_finish(struct sluice_launch *l) SL_HELD;

/* mover.c */
int sl_mover_start(struct sluice_space *s) SL_MUST_CHECK;
void sl_mover_stop(struct sluice_space *s);
int sl_mover_is_due(struct sluice_space *s) SL_HELD; /* there is something for it to do */
int sl_mover_request(struct sl_region *r, uint64_t *chunks, uint64_t n,
		     enum sluice_tier tier, int spare) SL_HELD SL_MUST_CHECK; /* takes chunks */
/* A discard behind the launches that still wait to be prepared. It is over before the stream goes on
 * to what it is given next. Drops. */
int sl_mover_discard(struct sl_region *r, uint64_t begin, uint64_t end, int eager,
		     struct sluice_stream *stream) SL_HELD SL_MUST_CHECK;

/* prepare.c */
int sl_launch_prepare(struct sluice_launch *l) SL_HELD; /* drops */
/* Whether the launch's set fits; -ENOBUFS with a text that says what lacks. */
int sl_launch_check_set(struct sluice_launch *l) SL_HELD SL_MUST_CHECK;

/* inflight.c: what was submitted */
/* Work is over when its pins are gone and what it did is on the books. l: a launch; r: a move or
 * discard of that region; neither: a callback. */
void sl_inflight_begin(struct sluice_space *s, struct sl_inflight *work,
		       const struct sluice_launch *l, const struct sl_region *r) SL_HELD;
void sl_inflight_end(struct sluice_space *s, struct sl_inflight *work) SL_HELD;
/* The system's number of this thread; asked for once. Any lock. */
pid_t sl_thread_number(const struct sluice_space *s);
/* Around the function of a host callback, on the thread that calls it. */
void sl_callback_enter(const struct sluice_stream *stream, const struct sl_inflight *work);
void sl_callback_leave(void);
/* -EDEADLK in a callback of this space (and this stream, unless NULL), else 0. */
int sl_callback_forbids(const struct sluice_space *s, const struct sluice_stream *stream,
			const char *call) SL_MUST_CHECK;
/*
 * Wait until what was submitted before the call and uses chunks of the range (or may: callbacks,
 * kernels without declared uses) is over; what comes later may have pinned them when it returns.
 * -EBUSY when this very thread holds the range by sluice_launch_begin(). Drops.
 */
int sl_range_wait(struct sl_region *r, uint64_t begin, uint64_t end,
		  const char *call) SL_HELD SL_MUST_CHECK;
/* The same for another thread, by its number; 0: the calling one. */
int sl_range_wait_for(struct sl_region *r, uint64_t begin, uint64_t end, const char *call,
		      pid_t thread) SL_HELD SL_MUST_CHECK;

/* stream.c: NULL is the default stream */
struct sluice_stream *sl_stream_of(struct sluice_space *s, struct sluice_stream *stream);
/* native: wrap *native; NULL: make one. */
int sl_stream_make(struct sluice_space *s, void *const *native,
		   struct sluice_stream **out) SL_MUST_CHECK;
/* -EINVAL: it is another space's. NULL: the default stream of any. */
int sl_stream_own(const struct sluice_space *s,
		  const struct sluice_stream *stream) SL_MUST_CHECK;
/* The same, and -EBUSY: work on it would become part of a graph (sl_device_ops.stream_check); the
 * default stream cannot be captured. */
int sl_stream_check(struct sluice_space *s,
		    struct sluice_stream *stream) SL_NOT_HELD SL_MUST_CHECK;
void sl_stream_task_done(struct sluice_stream *stream); /* in every done() of a task */

/* zerocopy.c: chunks that kernels reach in the host tier (SL_CAP_REACH) */
/* Make c reachable by the launch being prepared, unless it is on the device; counts a user. Drops.
 * -ENOBUFS: it fits nowhere. */
int sl_zerocopy_map(struct sl_chunk *c, enum sluice_intent intent) SL_HELD SL_MUST_CHECK;
/* One step towards c not being reached any more: unmaps, or waits for a launch. Drops. */
int sl_zerocopy_unmap(struct sl_chunk *c) SL_HELD SL_MUST_CHECK;
/* A reached chunk that no launch uses; NULL: none. */
struct sl_chunk *sl_reached_idle(struct sluice_space *s) SL_HELD;
/* Mark what the launch is to reach (SL_EXCESS); planned: take the marks off. */
void sl_zerocopy_plan(struct sluice_launch *l) SL_HELD;
void sl_zerocopy_planned(struct sluice_launch *l) SL_HELD;
void sl_zerocopy_end(struct sluice_launch *l) SL_HELD; /* its kernel is over */

/* thrash.c: launches in a row that do not fit */
/* Before sl_zerocopy_plan(): note it, and make room for what is small. 1: it is one of a row. Drops. */
int sl_thrash_note(struct sluice_launch *l, int fits) SL_HELD;
/* Whether there is such a row now: nothing is brought ahead then, nor told to leave. */
int sl_thrash_is_on(const struct sluice_space *s) SL_HELD;
/* Whether a chunk of the use that is not on the device is to be reached rather than to displace what there is. */
int sl_thrash_reaches(struct sl_launch_use *u, const struct sl_chunk *c) SL_HELD;

/* launch_async.c: launches on devices whose streams are native */
/* A scope was ended; it is on no list. Its pins go when its stream has come here. Drops. */
void sl_scope_ended(struct sluice_launch *l) SL_HELD;
int sl_chunk_has_arrived(const struct sl_chunk *c) SL_HELD; /* is known to have */
/* Ask the device how far copies to a range are, which is not known before. Drops. */
void sl_range_ask_arrival(struct sl_region *r, uint64_t begin, uint64_t end) SL_HELD;
/* The last of each kind that the chunks of a prepared scope have to wait for (device.h, arrival()); 0:
 * all have been done. */
struct sl_arrival {
	uint64_t in, out;
};
struct sl_arrival sl_scope_arrival(const struct sluice_launch *l) SL_HELD;
/* Until that is done: 0, or why it never will be. Without locks. */
int sl_arrival_await(struct sl_device *dev, struct sl_arrival last) SL_MUST_CHECK;
/* The same of what the chunks of a range have to wait for. Drops. */
int sl_range_await(struct sl_region *r, uint64_t begin, uint64_t end) SL_HELD SL_MUST_CHECK;
/* Hold the stream of a prepared scope back until what it uses has arrived. Drops. */
int sl_scope_gate(struct sluice_launch *l) SL_HELD SL_MUST_CHECK;
/* launch.c */
/* A scope without a stream, until sl_scope_close(): bring uses in and pin them; *arrival: the move
 * after which they are there. Errors as sluice_launch_begin(). */
int sl_scope_open(struct sluice_space *s, const struct sluice_use *uses, size_t n_uses,
		  struct sluice_launch **out, struct sl_arrival *arrival) SL_MUST_CHECK;
void sl_scope_close(struct sluice_launch *l);

/* discard.c */
/* The whole chunk, lazily, eagerly, or because its region ends. Drops. */
enum sl_discard_how { SL_DISCARD_LAZILY, SL_DISCARD_EAGERLY, SL_DISCARD_UNMAP };
/* before: the number of the last launch called before it, which still sees the contents. */
void sl_chunk_discard(struct sl_chunk *c, enum sl_discard_how how, uint64_t before) SL_HELD;
void sl_range_discard(struct sl_region *r, uint64_t begin, uint64_t end, int eager,
		      uint64_t before) SL_HELD; /* same */
/* The same, not in its turn of the calls but when a stream has come to it: leaves alone what
 * launches have pinned, which may have been called after it. */
void sl_range_discard_late(struct sl_region *r, uint64_t begin, uint64_t end,
			   int eager) SL_HELD;

/* check_mode.c: checking mode. Drops. */
void sl_check_touch(struct sl_chunk *c, const struct sl_touch *touch) SL_HELD;
int sl_check_prepare(struct sluice_launch *l) SL_HELD SL_MUST_CHECK; /* instead of bringing in. Drops */
/* The same for host code's view. Drops. */
void sl_check_host(struct sl_chunk *c, const struct sl_touch *touch) SL_HELD;

/* region.c */
/* Flush, empty and free a region that is closed (unmapping set, not busy). Drops. On
 * failure it is open again and nothing is lost. */
int sl_region_unmap(struct sl_region *r) SL_HELD SL_MUST_CHECK;
/* No new uses; waits for those that are served now. */
void sl_region_close(struct sl_region *r) SL_HELD;

/* move.c */
void sl_region_residency(const struct sl_region *r, uint64_t begin, uint64_t end,
			 struct sluice_residency *out) SL_HELD;

/* config.c */
/* Round to chunks, fill in what depends on other fields, refuse what cannot work; resolve: and what
 * is more than this machine's memory. */
int sl_config_round(struct sluice_config *config) SL_MUST_CHECK;
int sl_config_resolve(struct sluice_config *config) SL_MUST_CHECK;
/* The variable of the i-th key, "SLUICE_DEVICE_BUDGET". 0: there are not so many keys. */
#define SL_CONFIG_VARIABLE_BYTES 64
int sl_config_variable(size_t i, char name[SL_CONFIG_VARIABLE_BYTES]);

#endif
