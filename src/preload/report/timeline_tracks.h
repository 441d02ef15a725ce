/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracks of a timeline (timeline_tracks.c): which event goes where. Each stream of a GPU has a
 * track. Copies in and out have one each, reads and writes of the disk as many as there are at
 * once. Threads that wait have one each. Memory and budgets are counters.
 *
 * Threads: an object is one thread's.
 */
#ifndef SL_PRELOAD_TIMELINE_TRACKS_H
#define SL_PRELOAD_TIMELINE_TRACKS_H

#include <stdint.h>

#include "core/events.h"
#include "preload/report/timings.h"
#include "preload/report/trace_events.h"

struct pl_tracks;

/* Work on a stream, whose time is known. */
struct pl_timed_work {
	struct pl_timing timing; /* as it was; its events are not */
	uint64_t begin_ns, ns;
};

/* file outlives it. NULL: out of memory. */
struct pl_tracks *pl_tracks_create(struct pl_trace_events *file);
void pl_tracks_destroy(struct pl_tracks *t);

/* An event of the GPU's space, in the order of the space. */
void pl_tracks_event(struct pl_tracks *t, int gpu, const struct sl_event *event);
/* Work on a stream, behind the events of the moves that it waited for. */
void pl_tracks_work(struct pl_tracks *t, const struct pl_timed_work *work);
/* So many events of the GPU were lost before now_ns. */
void pl_tracks_lost(struct pl_tracks *t, int gpu, uint64_t events, uint64_t now_ns);
/* A word to the reader. */
void pl_tracks_note(struct pl_tracks *t, const char *text, uint64_t now_ns,
		    const struct pl_trace_arg *args, size_t n);
/* The end: what is under way is written as it is. */
void pl_tracks_end(struct pl_tracks *t, uint64_t now_ns);

#endif
