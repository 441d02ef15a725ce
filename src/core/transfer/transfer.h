/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfer: chunks move between device, host memory and store, one at a time. It does not know
 * the order of launches. If one is in the way, the caller gets -EINPROGRESS, and waits.
 */
#ifndef SL_CORE_TRANSFER_TRANSFER_H
#define SL_CORE_TRANSFER_TRANSFER_H

#include "core/state/state.h"
#include "core/state/victim.h"

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
	SL_STAGING_EVICT,  /* waits */
	SL_STAGING_SHRINK  /* waits; the frame is only copied from and to */
};
int sl_host_get(struct sl_chunk *c, enum sl_staging_use use,
		struct sl_host **out) SL_HELD SL_MUST_CHECK;
void sl_host_put(struct sl_host *h) SL_HELD; /* drops: give the frame back */
/* c is HOST or POISONED: it gets another frame, by way of staging as a read, which fill() fills from the old one.
 * Drops, then look at the state again. Blocks on staging, on memory that is made, and on fill(). */
int sl_host_exchange(struct sl_chunk *c,
		     int (*fill)(struct sl_device *dev, const struct sl_frame *from,
				 struct sl_frame *to)) SL_HELD SL_MUST_CHECK;
/* EMPTY to HOST: a frame of zeros; any: of anything, nobody reads it before it is written. Drops. */
int sl_host_zero(struct sl_chunk *c, int any) SL_HELD SL_MUST_CHECK;
/* Free the host copy of c (not in I/O). Drops. */
void sl_host_drop(struct sl_chunk *c) SL_HELD;
/* Where the configuration asks for it (host_pin): make the frames and the device memory that chunks of this size can want,
 * which blocks for as long as that takes. Takes the lock. */
void sl_host_pin_early(struct sluice_space *s, uint64_t bytes);
/* The host tier will hold so many bytes: their frames are made ahead, as far as the budget goes. use: by
 * evictions of which kind; for a smaller device budget these are all. Drops. */
void sl_host_expect(struct sluice_space *s, uint64_t bytes, enum sl_staging_use use) SL_HELD;
/* The budget is smaller: free frames beyond it go back to the system. The device has a pool. Takes the lock. */
void sl_host_unpin(struct sluice_space *s);
/* Let the clean frame of a HOST chunk go: HOST -> STORE. Drops. */
void sl_host_let_go(struct sl_chunk *c) SL_HELD;
/* The device took c's frame of so many bytes over (present without KEEP): free the record only. */
void sl_host_consumed(struct sl_chunk *c, uint64_t bytes) SL_HELD;
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

/* encode.c: chunks that cross the link encoded, and frames that must be as they are. */
/* Once, where it is asked for. Always: blocks on kernels. end: nothing leaves any more. Blocks on the thread that
 * makes the device ready. */
void sl_encode_prepare(struct sluice_space *s) SL_NOT_HELD;
void sl_encode_end(struct sluice_space *s) SL_NOT_HELD;
/* The device may encode and decode now. */
int sl_encode_runs(const struct sluice_space *s) SL_HELD;
/* Whether c, which leaves the device, is to be encoded. */
int sl_encode_pays(struct sl_chunk *c) SL_HELD;
/* The same of a chunk whose contents are also in its frame, which it is about to keep. */
int sl_encode_pays_kept(struct sl_chunk *c) SL_HELD;
/* Whether its frame, which is encoded, is larger than what it is worth to encode now, and could be made anew. */
int sl_encode_is_large(const struct sl_chunk *c) SL_HELD;
/* It is worth it to have encoded so many bytes if so many parts of SL_CODEC_WORTH_ALL are left. */
unsigned sl_encode_worth(const struct sluice_space *s, uint64_t bytes) SL_HELD;
/* It was, and is in h as far as that made it smaller. */
void sl_encoded(struct sl_chunk *c, const struct sl_host *h) SL_HELD;
/* Host code or kernels want the bytes in its frame as they are. */
void sl_encode_unwanted(struct sl_chunk *c) SL_HELD;
/* Its frame, which is encoded and in staging, takes less room where the host tier is short. Its owner calls. Drops. */
void sl_host_pack(struct sl_chunk *c) SL_HELD;
/* sl_host_exchange() of an encoded frame: the new one has its bytes as they are. */
int sl_host_decode(struct sl_chunk *c) SL_HELD SL_MUST_CHECK;
static inline int
sl_host_is_encoded(const struct sl_chunk *c)
{
	return c->host && c->host->frame->encoded_bytes;
}

/* store_io.c: chunk to and from the store. */
/* STORE to READING. as_is: host code, or kernels in host memory, are to have the bytes: an encoded extent is decoded.
 * Else the frame may be encoded. Drops. */
int sl_read_begin(struct sl_chunk *c, enum sl_io_class cls, enum sluice_counter counter,
		  enum sl_staging_use use, int as_is) SL_HELD SL_MUST_CHECK;
/* Begin writing a HOST or POISONED chunk; let_go: free the frame when clean. Drops.
 * Errors: no spill extent (-ENOSPC): the chunk is POISONED, nothing lost. */
int sl_write_begin(struct sl_chunk *c, enum sl_io_class cls, enum sluice_counter counter,
		   int let_go) SL_HELD SL_MUST_CHECK;
/* Write the snapshot h of a SYNCING chunk; completes to DEVICE. Drops. */
void sl_snapshot_write(struct sl_chunk *c, struct sl_host *h) SL_HELD;
/* 0, or the error of the read that failed last, with its text. */
int sl_read_failed(const struct sl_chunk *c) SL_HELD SL_MUST_CHECK;
void sl_spill_drop(struct sl_chunk *c) SL_HELD; /* forget the spill extent */
/* 0: HOST c has a place in the store, or has got one in its free room: no other chunk has lost its. Drops. */
int sl_spill_place_free(struct sl_chunk *c) SL_HELD SL_MUST_CHECK;
/* Page reads and writes in the calling thread; the chunk is marked busy. */
int sl_page_read(struct sl_chunk *c, uint64_t offset, size_t bytes,
		 void *buf) SL_NOT_HELD SL_MUST_CHECK;

/* The place of a discard in the order of calls. */
struct sl_discard_place {
	const struct sluice_stream *stream; /* NULL: of none */
	uint64_t before; /* number of the last launch called before it, which sees the contents */
};

/* guard.c: writes that are to be seen */
/* Let writes through to bytes from offset of c, which is on the device. A guard that stood up again
 * meanwhile would be lifted unseen, so c is held. Drops. */
int sl_chunk_unguard(struct sl_chunk *c, uint64_t offset, uint64_t bytes) SL_HELD SL_MUST_CHECK;
/* Writes to what of c is discarded eagerly are seen from here on. Drops. */
void sl_dead_watch(struct sl_chunk *c) SL_HELD;
/* Some pages of c, bytes [begin, end), are about to be noted dead, eagerly: see later writes to them.
 * Not 0: they cannot be seen. Drops. */
int sl_writes_watch(struct sl_chunk *c, uint64_t begin, uint64_t end,
		    struct sl_discard_place place) SL_HELD SL_MUST_CHECK;
/* Whether c is discarded eagerly behind launches of the same stream that still have it: the last of
 * them watches what is dead, or unmaps it. */
int sl_discard_waits(struct sl_chunk *c, struct sl_discard_place place) SL_HELD SL_MUST_CHECK;
/* Lift the guard of c but for its dead pages. Drops. Errors of the device, text set. */
int sl_chunk_unguard_live(struct sl_chunk *c) SL_HELD SL_MUST_CHECK;

/* fill.c: bring a chunk in. */
struct sl_fill {
	enum sluice_intent intent; /* as the policy sees it */
	int partial;               /* only a part of the chunk is covered by the use */
	enum sl_cause cause;
	enum sl_room_mode room; /* who asks for room, if it takes some */
	struct sluice_launch *launch; /* being prepared: -EINPROGRESS instead of waiting for room
				       * that pins, or a new budget, have taken from it meanwhile */
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
/* For l, one of launches that thrash: evict the next victim with a stamp before that. Launches in
 * flight that use it are waited for, for a while. 0: there is none, or that took too long. Drops. */
int sl_room_coldest(struct sluice_launch *l, uint64_t before) SL_HELD;
void sl_room_give(struct sluice_space *s, uint64_t bytes) SL_HELD;
enum sl_evict_why {
	SL_EVICT_ROOM,
	SL_EVICT_SHRINK, /* room as well: for a lower budget */
	SL_EVICT_REQUEST,
	SL_EVICT_FLUSH,
	SL_EVICT_DISCARD, /* dead, or freed: its contents go nowhere */
};
/* Evict a DEVICE chunk. Drops. On return it is in another state, or the error is why not. */
int sl_evict(struct sl_chunk *c, enum sl_evict_why why) SL_HELD SL_MUST_CHECK;
/* The same of what sl_victim_pick() has found. */
int sl_evict_victim(const struct sl_victim *v) SL_HELD SL_MUST_CHECK;
/* To a budget of that. Launches in flight are waited for until then. -EAGAIN: that was too short; the budget
 * is what is used now. Drops. */
int sl_device_shrink(struct sluice_space *s, uint64_t budget_bytes,
		     uint64_t until_ns) SL_HELD SL_MUST_CHECK;

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
 * c->ready_at. Drops; a failure leaves LEARN. */
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
/* Kernels may have changed the frame of c, and may have left it alone. */
void sl_dirty_hash_reached(struct sl_chunk *c) SL_HELD;
void sl_dirty_hash_drop(struct sl_region *r); /* of a region that ends */

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

/* hostmap.c: host code's mapping (devices with hostmap) */
/* Serve a touch of c by host code. Drops. -EINPROGRESS: it is on the device, or launches access its frame;
 * wait for them and evict it, then try again. */
int sl_hostmap_touch(struct sl_chunk *c, const struct sl_touch *touch) SL_HELD SL_MUST_CHECK;
/* Hide what is shown of c (HOST or POISONED), its newest contents in the frame. discard: they are
 * dead. Drop; on failure nothing is lost. */
int sl_hostmap_hide(struct sl_chunk *c) SL_HELD SL_MUST_CHECK;
int sl_hostmap_discard(struct sl_chunk *c) SL_HELD SL_MUST_CHECK;
/* The same of the chunk shown longest of those whose frames are settled, which can go then. -EAGAIN: there is none. */
int sl_hostmap_hide_oldest(struct sluice_space *s) SL_HELD SL_MUST_CHECK;

/* zerocopy.c: chunks that kernels reach in the host tier (devices with zerocopy) */
/* Make c reachable by the launch being prepared, and count a user; unless c is on the device by now, where the
 * use is to be booked as any other. Drops. -ENOBUFS: it fits nowhere. */
int sl_zerocopy_map(const struct sluice_launch *l, struct sl_chunk *c,
		    enum sluice_intent intent) SL_HELD SL_MUST_CHECK;
/* One step towards c not being reached any more: unmaps, or waits for a launch. Drops. */
int sl_zerocopy_unmap(struct sl_chunk *c) SL_HELD SL_MUST_CHECK;
/* A reached chunk that no launch uses; NULL: none. */
struct sl_chunk *sl_reached_idle(struct sluice_space *s) SL_HELD;
/* Mark what the launch is to reach (SL_EXCESS); planned: take the marks off. */
void sl_zerocopy_plan(struct sluice_launch *l) SL_HELD;
void sl_zerocopy_planned(struct sluice_launch *l) SL_HELD;

/* discard.c */
/* The whole chunk, lazily, eagerly, or because its region ends. Drops. */
enum sl_discard_how { SL_DISCARD_LAZILY, SL_DISCARD_EAGERLY, SL_DISCARD_UNMAP };
void sl_chunk_discard(struct sl_chunk *c, enum sl_discard_how how,
		      struct sl_discard_place place) SL_HELD;
void sl_range_discard(struct sl_region *r, uint64_t begin, uint64_t end, int eager,
		      struct sl_discard_place place) SL_HELD; /* drops, too */
/* The same, not in its turn of the calls but when a stream has come to it: leaves alone what
 * launches have pinned, which may have been called after it. */
void sl_range_discard_late(struct sl_region *r, uint64_t begin, uint64_t end,
			   int eager) SL_HELD;

#endif
