/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of work on streams (timings.c): two events around it, asked about later. --record and
 * --timeline want them, and some launches of parts (args/part_growth.h). All others pay one load
 * and one branch.
 *
 * Threads: any; nothing here waits for the program's work.
 */
#ifndef SL_PRELOAD_TIMINGS_H
#define SL_PRELOAD_TIMINGS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/api/driver_api.h"
#include "preload/scope.h"

enum pl_timed { PL_TIMED_RECORD = 1, PL_TIMED_TIMELINE = 2 };

/* Who wants times: enum pl_timed. atomic: pairs with pl_timed_set(): who sees a bit sees what its
 * owner has made before. */
extern _Atomic int pl_timed_by;

static inline int
pl_timed(void)
{
	return __builtin_expect(atomic_load_explicit(&pl_timed_by, memory_order_acquire), 0);
}

void pl_timed_set(enum pl_timed who, int on);

/* Work whose time is taken: what was known when it was called, and the events around it. */
struct pl_timing {
	struct pl_timing *next;
	struct cu_event *begin, *end;
	struct cu_context *context; /* the events' */
	struct cu_stream *stream;
	int gpu;
	int broken;              /* an event could not be recorded: no time */
	uint32_t record;         /* its number in the record; SL_TRACE_NONE: none */
	struct pl_growth growth; /* who asks whether its parts were too short */
	/* For the timeline. */
	const char *name;   /* lives as long as the library */
	int copies, thread; /* scope->copies; the calling thread */
	uint64_t since, opened; /* sl_now_ns() when its scope was begun, and when it was open */
	uint64_t launches[2]; /* numbers of the core's launches; 0: none */
	uint64_t bytes;       /* of a copy or a fill */
};

/*
 * Around work on the stream, with scope->name, behind what the scope had to wait for: its time is
 * what passes on the stream between the two. since: when the scope was begun. Copies from or to
 * host memory have a time on the timeline only. What is captured or only looks has none. end: only
 * with scope->timing.
 */
void pl_timing_begin(struct pl_scope *scope, struct cu_stream *stream,
		     enum pl_default_stream flavour, const struct pl_use *uses, size_t n,
		     unsigned flags, uint64_t since);
void pl_timing_end(struct pl_scope *scope);
/*
 * Ask about those that may be done, oldest first: at most so many, and none behind one that is not,
 * unless all are to be asked. What is known goes to pl_tracing_told() and pl_timeline_told().
 * patient 0: not while another thread asks.
 */
void pl_timings_collect(unsigned most, int all, int patient);
/* How many are not over, as far as was asked. */
uint64_t pl_timings_left(void);
/* Read how the clocks of the GPUs whose work is timed stand to the host's. Some 20 us for each; on
 * a thread of ours. */
void pl_timings_anchor(void);
/* A context is about to end, with our events in it. */
void pl_timings_context_leaves(const struct cu_context *context);

#endif
