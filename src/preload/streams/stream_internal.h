/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by stream.c, fence.c, capture.c and context.c: the records of the program's streams,
 * and our events on them.
 *
 * A record is never freed, only reused, and only when all queued work of its stream is done. A
 * longer reference than a lock sees by the record's generation that there is nothing to wait for
 * any more.
 *
 * Locks: a table's is for finding and counting, with no driver call but queries under it. A
 * record's keeps its handle from being destroyed while an event is recorded on it, and the
 * record from becoming free. It is taken first of the two, and only tried by a holder of the
 * table's. The events' is the last.
 */
#ifndef SL_PRELOAD_STREAM_INTERNAL_H
#define SL_PRELOAD_STREAM_INTERNAL_H

#include <stdbool.h>

#include "base/error.h"
#include "base/lock.h"
#include "preload/api/driver_api.h"

struct pl_gpu;

#define PL_STREAM_HASH 128u

/* An event of ours, recorded. references: pl_event_get() and pl_event_put(). */
struct pl_event {
	struct cu_event *handle;
	struct cu_context *context;
	struct pl_event *next; /* in the pool */
	unsigned references;   /* events' lock */
	int orphan;            /* events' lock: its context has taken the handle along */
	_Atomic int passed; /* seen to be done, or its context is gone: not asked again */
};

enum pl_stream_state {
	PL_STREAM_FREE,
	PL_STREAM_LIVE,
	PL_STREAM_GONE /* destroyed; work of it may be left: last, or not known */
};

struct pl_stream {
	struct cu_stream *handle;   /* as given, 0 made explicit; set at birth */
	struct cu_context *context; /* the same */
	struct pl_gpu *gpu;         /* the same */
	uint64_t thread;       /* of a per-thread stream: its thread's number; else 0 */
	unsigned long long id; /* the driver's; 0: it has none */
	int nonblocking;       /* the legacy stream does not wait for it */
	_Atomic int unordered; /* 1: the arena has not been told of it (pl_arena_stream_new()) */
	unsigned bit;
	unsigned generation; /* grows with each use of the record */
	_Atomic int state;   /* enum pl_stream_state */
	struct sl_mutex lock; /* SL_RANK_PL_STREAM: of last and tail, and against the end of handle */
	struct pl_event *last; /* gone: behind all its work; NULL: could not be recorded */
	struct pl_event *tail; /* what it had when a capture of it began, until that ends */
	struct pl_stream *hash_next, *all_next; /* table's lock */
};

/* A record, and what was in it when it was found: the rest may be another stream's by now. */
struct pl_stream_ref {
	struct pl_stream *stream;
	struct cu_stream *handle;
	struct cu_context *context;
	unsigned generation, bit;
};

/* ---- stream.c ---- */

/* Records whose bits are in mask, without those that are free; *out is malloc'ed. How many, or -ENOMEM. */
int pl_stream_list(struct pl_gpu *gpu, uint64_t mask, struct pl_stream_ref **out) SL_MUST_CHECK;
/* The handle is about to be destroyed: keep what is queued on it, in the tables of all GPUs. */
void pl_stream_leave(struct cu_stream *handle);
/* A capture of it is about to begin, or has ended. */
void pl_stream_tail_keep(struct cu_stream *handle);
void pl_stream_tail_drop(struct cu_stream *handle);
/* A context is about to be destroyed: the core forgets its streams. Then it is. */
void pl_stream_context_leaves(struct cu_context *context);
/* A context and all in it are gone: nothing of it is waited for. */
void pl_stream_context_gone(struct cu_context *context);
/* All work of a destroyed stream has been seen to be done. */
void pl_stream_idle(struct pl_gpu *gpu, const struct pl_stream_ref *ref);
/* The record's stream turned out to be destroyed: as if it had been left now. */
void pl_stream_lost(struct pl_stream *stream);
/* The calling thread's number, from 1. */
uint64_t pl_thread_number(void);

/* ---- capture.c ---- */

/* The stream was destroyed; a capture that was begun on it is over. */
void pl_capture_stream_gone(struct cu_stream *handle);

/* ---- fence.c ---- */

/* Make the context current if it is not: 1, to be undone by pl_context_pop(); 0: nothing to undo;
 * -1: it cannot be. */
int pl_context_push(struct cu_context *context);
void pl_context_pop(int pushed);
struct cu_context *pl_context_current(void);

enum pl_record_result {
	PL_RECORDED,     /* *out is behind all the stream had; a reference */
	PL_RECORD_NONE,  /* nothing of it is left, or its context is of no use */
	PL_RECORD_LATER, /* it is being captured */
	PL_RECORD_NOMEM,
	PL_RECORD_NEVER /* destroyed without our knowing, and cannot be asked for */
};

/* An event behind what the stream has queued now. Takes the record's lock. Driver calls. */
enum pl_record_result pl_stream_record(const struct pl_stream_ref *ref,
				       struct pl_event **out);
/* 1: done. */
bool pl_event_passed(struct pl_event *event);
struct pl_event *pl_event_hold(struct pl_event *event);
void pl_event_put(struct pl_event *event);
void pl_event_context_gone(struct cu_context *context);

#endif
