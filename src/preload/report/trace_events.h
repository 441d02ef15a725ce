/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of trace events in JSON, as Perfetto and chrome://tracing open it: slices, counters,
 * instants, flow arrows, names of processes and threads. This is the format alone; timeline.c
 * says what happens on which track.
 *
 * - The file is complete JSON whenever its last write has ended. Each write ends with the closing
 *   brackets, and the next one begins over them. So a program that is killed leaves a file that
 *   opens.
 * - The file never becomes larger than its limit. Its last event then says from when on others
 *   are missing.
 * - A write that fails is the last one. The file is cut back to what it was before.
 * - Times are nanoseconds of CLOCK_MONOTONIC. They are written as microseconds, the unit of the
 *   format, with three decimals.
 *
 * Threads: an object is one thread's.
 */
#ifndef SL_PRELOAD_TRACE_EVENTS_H
#define SL_PRELOAD_TRACE_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define PL_TRACE_LIMIT_MIN 65536u /* bytes */

struct pl_trace_events;

/* A fact of an event. */
struct pl_trace_arg {
	const char *key;  /* JSON needs no escape for it */
	const char *text; /* NULL: the number */
	int64_t number;
};

/* Write to fd: an empty file, which is the object's from here on, also on failure. zero_unix_ns:
 * the time of day at time 0 of the events. -ENOMEM, or what the first write says. */
int pl_trace_events_create(int fd, uint64_t limit_bytes, int pid, const char *process,
			   uint64_t zero_unix_ns, struct pl_trace_events **out) SL_MUST_CHECK;
/* The last words, if something was dropped, and all to the file. 0, or why the first write failed
 * that did. */
int pl_trace_events_destroy(struct pl_trace_events *t) SL_MUST_CHECK;

/* Track names; tracks of low order are shown first. */
void pl_trace_track(struct pl_trace_events *t, unsigned track, int order, const char *name);
/* Slices of a track do not overlap, unless one lies within the other. */
void pl_trace_slice(struct pl_trace_events *t, unsigned track, const char *category,
		    const char *name, uint64_t begin_ns, uint64_t end_ns,
		    const struct pl_trace_arg *args, size_t n);
void pl_trace_instant(struct pl_trace_events *t, unsigned track, const char *name,
		      uint64_t ns, const struct pl_trace_arg *args, size_t n);
/* The values of a counter from ns on. */
void pl_trace_counter(struct pl_trace_events *t, const char *name, uint64_t ns,
		      const struct pl_trace_arg *values, size_t n);
/* An arrow between two slices: a time of each, inside of it. */
void pl_trace_flow(struct pl_trace_events *t, const char *name, unsigned from_track,
		   uint64_t from_ns, unsigned to_track, uint64_t to_ns);
/* Everything so far to the file. */
void pl_trace_flush(struct pl_trace_events *t);

/* 0: it takes events. -EFBIG: the limit is reached, and events are dropped. Else the write that
 * failed. */
int pl_trace_events_state(const struct pl_trace_events *t);
#endif
