/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of `sluice report`: what was found out about a run, and who finds and shows it.
 *
 * cmd_report.c reads the command line. report_gather.c reads the timeline. report_parts.c divides
 * the time. report_plan.c asks the planner about a trace. report_advice.c says what to change.
 * report_text.c, report_json.c and report_html.c show it (report_pictures.c: the pictures).
 *
 * Threads: one, except in the planner's sweep.
 */
#ifndef SL_TOOLS_REPORT_H
#define SL_TOOLS_REPORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "sluice/sluice.h"
#include "timeline_read.h"

#define REPORT_GPUS_MAX   32
#define REPORT_COLUMNS    240 /* of the picture of the run */
#define REPORT_MEMORY     480 /* pieces of time with the most memory in each */
#define REPORT_SPANS_MAX  4000000u
#define REPORT_FIRST      5 /* of functions and chunks that are shown */
#define REPORT_SIZES_MAX  8
#define REPORT_ADVICE_MAX 6

/* Where the time of a GPU went, each moment in one part: sluice-report(1). */
enum report_part {
	REPORT_KERNELS,
	REPORT_COPIES,
	REPORT_WAIT_IN,
	REPORT_WAIT_READ,
	REPORT_WAIT_OUT,
	REPORT_WAIT_WRITE,
	REPORT_WAIT_MAP,
	REPORT_WAIT_PIN,
	REPORT_WAIT_OTHER,
	REPORT_HOST,
	REPORT_PARTS
};

/* Ways of bytes. */
enum report_way { REPORT_IN, REPORT_OUT, REPORT_READ, REPORT_WRITE, REPORT_WAYS };

/* Kinds of spans of time on a timeline. Those of ways are REPORT_SPAN_WAYS and behind. */
enum report_span_kind {
	REPORT_SPAN_KERNEL,
	REPORT_SPAN_COPY,
	REPORT_SPAN_QUEUED, /* work that was called and has not begun */
	REPORT_SPAN_MAP,    /* the driver maps a chunk */
	REPORT_SPAN_PIN,    /* host memory is pinned */
	REPORT_SPAN_WAYS,
	REPORT_SPAN_KINDS = REPORT_SPAN_WAYS + REPORT_WAYS
};

struct report_span {
	uint64_t begin_ns, end_ns;
	uint64_t value; /* bytes, number of the function, or number of the thread that waited */
};

struct report_spans {
	struct report_span *span;
	size_t n, max;
};

struct report_function {
	char *name;
	uint64_t calls, busy_ns;
	uint64_t waited_ns; /* the GPU waited right before it */
	uint64_t in_bytes;  /* copied in for its launches */
};

struct report_chunk {
	uint64_t address, in_bytes, out_bytes, moves;
	int gpu;
};

struct report_counter {
	char name[64];
	uint64_t bytes, moves;
};

struct report_way_sum {
	uint64_t bytes, moves;
	uint64_t busy_ns; /* at least one move of it was under way */
};

struct report_gpu {
	struct report_spans spans[REPORT_SPAN_KINDS];
	uint64_t part_ns[REPORT_PARTS]; /* they add up to the whole */
	uint64_t waited_last_ns;        /* of it: behind the last work */
	struct report_way_sum ways[REPORT_WAYS];
	uint64_t used_most[SLUICE_TIER_COUNT];
	uint64_t budget[SLUICE_TIER_COUNT]; /* 0: none is known */
	/* The most in each piece of time, from memory_ns on; UINT64_MAX: nothing was told. */
	uint64_t memory_ns, memory_step_ns;
	uint64_t memory[REPORT_MEMORY][SLUICE_TIER_COUNT];
	/* By column of the picture: time by part, bytes by way. */
	double column_ns[REPORT_COLUMNS][REPORT_PARTS];
	double column_bytes[REPORT_COLUMNS][REPORT_WAYS];
};

/* How the timeline ends. */
enum report_end {
	REPORT_END_WHOLE,   /* with the program */
	REPORT_END_FULL,    /* at the limit of its size */
	REPORT_END_MISSING, /* the program was killed, left by _exit(), or still runs */
	REPORT_END_CUT      /* at the bound of this report */
};

/* What the planner says of a step with so much device memory. */
struct report_size {
	uint64_t device_bytes;
	double seconds; /* below 0: the step cannot run */
};

struct report_plan {
	int given;
	double unlimited_s;
	uint64_t own_bytes, host_bytes; /* the run's own device memory */
	double link_in_bps, link_out_bps;
	uint32_t n_sizes;
	struct report_size sizes[REPORT_SIZES_MAX];
	/* Data of a step that lie idle, and are used in the reverse order of their creation. */
	uint64_t reversed_bytes;
	uint32_t reversed;
};

struct report_advice {
	const char *key;
	char text[480];
};

struct report {
	const char *path;
	char process[TIMELINE_TEXT_MAX];
	uint64_t pid;
	uint64_t begin_ns, end_ns;
	enum report_end end;
	uint64_t lost_events, untimed_launches;
	struct report_gpu *gpus[REPORT_GPUS_MAX]; /* NULL: not on the timeline */
	struct report_function *functions;        /* sorted by report_parts_make() */
	size_t n_functions;
	struct report_chunk *chunks; /* of no order; n_chunks are in use */
	size_t n_chunks;
	struct report_chunk most_moved[REPORT_FIRST];
	size_t n_most_moved;
	struct report_counter counters[SLUICE_COUNTER_COUNT];
	size_t n_counters;
	struct report_plan plan;
	struct report_advice advice[REPORT_ADVICE_MAX];
	size_t n_advice;
};

/* ---- finding out ---- */

/* Read the timeline. out: zero, path set; released by report_fini() in any case. Errors are those of
 * timeline_next(); -EINVAL: the events are not those of `sluice run`. */
int report_gather(struct timeline_reader *reader, struct report *out) SL_MUST_CHECK;
void report_fini(struct report *report);
/* Divide the time, and sort what cost most. Spans are gone then. */
void report_parts_make(struct report *report);
/* Ask the planner about the trace of the same program. Errors have a text. */
int report_plan_make(struct report *report, const char *trace_path) SL_MUST_CHECK;
void report_advice_make(struct report *report);

/* ---- words ---- */

const char *report_part_name(enum report_part part); /* "waits: copies in" */
const char *report_part_key(enum report_part part);  /* "wait_in": of JSON */
const char *report_way_name(enum report_way way);    /* "link in" */
const char *report_way_key(enum report_way way);
/* The part with the most time, in a word: "link in". */
const char *report_binding_name(const struct report_gpu *gpu);
/* The end of the timeline in a sentence; "" where it is whole. */
void report_end_text(const struct report *report, char *text, size_t bytes);
uint64_t report_whole_ns(const struct report *report);
double report_share(const struct report *report, uint64_t ns); /* of the whole, in percent */
/* Time in which the GPU waited for Sluice. */
uint64_t report_waited_ns(const struct report_gpu *gpu);
/* Bytes a second; 0 without time. */
double report_rate(uint64_t bytes, uint64_t ns);

/* ---- showing ---- */

void report_text_print(const struct report *report, int width);
void report_json_print(const struct report *report);
/* A page without outside resources. Errors are those of writing path. */
int report_html_write(const struct report *report, const char *path) SL_MUST_CHECK;
/* Its pictures: inline SVG, whose colours are the page's. */
void report_picture_time(FILE *to, const struct report *report, const struct report_gpu *gpu);
void report_picture_moves(FILE *to, const struct report *report,
			  const struct report_gpu *gpu);
void report_picture_memory(FILE *to, const struct report *report,
			   const struct report_gpu *gpu);
void report_picture_plan(FILE *to, const struct report_plan *plan);

#endif
