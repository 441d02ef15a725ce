/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: their uses, their pins, the order in which they are prepared, and their streams. It
 * knows no public calls except those of launches and streams.
 */
#ifndef SL_CORE_LAUNCH_LAUNCH_H
#define SL_CORE_LAUNCH_LAUNCH_H

#include "core/transfer/transfer.h"

/* early_evict.c: chunks that leave when their launches have ended */
/* Whether one can go now. step: the first of them goes, drops. */
int sl_early_evict_is_due(struct sluice_space *s) SL_HELD;
void sl_early_evict_step(struct sluice_space *s) SL_HELD;

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
/* Uses of every region, behind those declared. */
void sl_uses_add_all(struct sluice_launch *l) SL_HELD;
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
int sl_mover_prefetch(struct sl_region *r, uint64_t *chunks, uint64_t n,
		      enum sluice_tier tier, int spare) SL_HELD SL_MUST_CHECK; /* takes chunks */
/* A discard behind the launches that still wait to be prepared. It is over before the stream goes on
 * to what it is given next. Drops. */
int sl_mover_discard(struct sl_region *r, uint64_t begin, uint64_t end, int eager,
		     struct sluice_stream *stream) SL_HELD SL_MUST_CHECK;

/* gate.c: launches of a space that shares its device */
/*
 * Until the launch, whose uses are resolved, may be submitted: it has the turn, and its room. 1: it has
 * waited, and dropped the lock: its uses are to be resolved anew. 0: it goes on, and what it needs stays
 * within the budget until nothing is in flight any more. A thread with an open scope goes on at once.
 */
int sl_gate_pass(struct sluice_launch *l) SL_HELD;
/* The same for a call that is to have so many bytes on the device, beside what is pinned there. */
int sl_gate_pass_pin(struct sluice_space *s, uint64_t bytes) SL_HELD;
/* The driver has refused what the budget promises: have it made less. 1: it is worth another try. Blocks
 * on copies. */
int sl_gate_squeeze(struct sluice_space *s);

/* prepare.c */
/* Device bytes that the launch needs at once, but for what is pinned by the user. */
uint64_t sl_launch_needs(struct sluice_launch *l) SL_HELD;
int sl_launch_prepare(struct sluice_launch *l) SL_HELD; /* drops */
/* Whether the launch's set fits; -ENOBUFS with a text that says what lacks. */
int sl_launch_check_set(struct sluice_launch *l) SL_HELD SL_MUST_CHECK;

/* inflight.c: what was submitted */
/* Work is over when its pins are gone and what it did is on the books. l: a launch; r: a move or
 * discard of that region; neither: a callback. */
void sl_inflight_begin(struct sluice_space *s, struct sl_inflight *work,
		       const struct sluice_launch *l, const struct sl_region *r) SL_HELD;
/* Begin work on r, which is busy from now on, and submit its task to the stream. Drops. */
void sl_inflight_submit(struct sl_region *r, struct sl_inflight *work,
			struct sluice_stream *stream, struct sl_task *task) SL_HELD;
void sl_inflight_end(struct sluice_space *s, struct sl_inflight *work) SL_HELD;
/* Around the function of a host callback, on the thread that calls it. number: of its work. */
void sl_callback_enter(const struct sluice_space *s, const struct sluice_stream *stream,
		       uint64_t number);
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
/* The same for the thread of a touch; NULL: the calling one. -ESTALE: it is not in that touch any more. */
int sl_range_wait_for(struct sl_region *r, uint64_t begin, uint64_t end, const char *call,
		      const struct sl_touch *touch) SL_HELD SL_MUST_CHECK;

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
int sl_chunk_is_ready(const struct sl_chunk *c) SL_HELD; /* is known to have */
/* Ask the device how far copies to a range are, which is not known before. Drops. */
void sl_range_ask_ready(struct sl_region *r, uint64_t begin, uint64_t end) SL_HELD;
/* The last of each queue that the chunks of a prepared scope have to wait for; 0: all are done. */
struct sl_fences sl_scope_ready_at(const struct sluice_launch *l) SL_HELD;
/* Until that is done: 0, or why it never will be. Without locks. */
int sl_fences_await(struct sl_device *dev, struct sl_fences last) SL_MUST_CHECK;
/* The same of what the chunks of a range have to wait for. Drops. */
int sl_range_await(struct sl_region *r, uint64_t begin, uint64_t end) SL_HELD SL_MUST_CHECK;
/* From here on no kernel of ours runs, until each stop is taken back: those of the program that wait for chunks may
 * leave them no room. Nothing is hashed, and chunks cross the link as they are. Blocks on hashes, on all moves, and on
 * kernels that keep ours from running. */
void sl_own_kernels_stop(struct sluice_space *s) SL_NOT_HELD;
void sl_own_kernels_resume(struct sluice_space *s) SL_NOT_HELD;
/* Hold the stream of a prepared scope back until what it uses has arrived. Drops. */
int sl_scope_gate(struct sluice_launch *l) SL_HELD SL_MUST_CHECK;

/* launch.c */
/* A scope without a stream, until sl_scope_close(): bring uses in and pin them; *ready_at: when
 * they are there. Errors as sluice_launch_begin(). */
int sl_scope_open(struct sluice_space *s, const struct sluice_use *uses, size_t n_uses,
		  struct sluice_launch **out, struct sl_fences *ready_at) SL_MUST_CHECK;
void sl_scope_close(struct sluice_launch *l);

/* check_mode.c: checking mode. Drops. */
void sl_check_touch(struct sl_chunk *c, const struct sl_touch *touch) SL_HELD;
int sl_check_prepare(struct sluice_launch *l) SL_HELD SL_MUST_CHECK; /* instead of bringing in. Drops */
/* The same for the host map. Drops. */
void sl_check_host(struct sl_chunk *c, const struct sl_touch *touch) SL_HELD;

#endif
