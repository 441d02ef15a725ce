/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides the time of a run: each moment of a GPU belongs to one part, so the parts add up to the
 * whole. The first of these that holds:
 *
 * 1. A kernel or a graph runs.
 * 2. A copy or a fill of the program runs.
 * 3. Work was called and has not begun, or its thread waits in the call: the GPU waits. For a copy
 *    in, a disk read, a copy out, a disk write, a mapping or pinned memory, whichever of these is
 *    under way, in this order; or for something else.
 * 4. Nothing is called: the GPU waits for the program.
 *
 * The order of 3 follows the data to the kernel: the nearest step is what it waits for at that moment.
 *
 * Spans of a kind are sorted and joined first, then all kinds are swept together. Threads: one.
 */
#include <stdlib.h>
#include <string.h>

#include "report.h"

/* ---- words ---- */

static const struct {
	const char *name, *key, *binding;
} part_words[REPORT_PARTS] = {
	[REPORT_KERNELS] = {"kernels", "kernels", "kernels"},
	[REPORT_COPIES] = {"copies and fills", "copies_and_fills", "the program's copies"},
	[REPORT_WAIT_IN] = {"waits: copies in", "wait_in", "link in"},
	[REPORT_WAIT_READ] = {"waits: disk reads", "wait_read", "disk reads"},
	[REPORT_WAIT_OUT] = {"waits: copies out", "wait_out", "link out"},
	[REPORT_WAIT_WRITE] = {"waits: disk writes", "wait_write", "disk writes"},
	[REPORT_WAIT_MAP] = {"waits: mapping", "wait_map", "mappings"},
	[REPORT_WAIT_PIN] = {"waits: pinning", "wait_pin", "pinning"},
	[REPORT_WAIT_OTHER] = {"waits: no move", "wait_other", "calls under Sluice"},
	[REPORT_HOST] = {"host: no call", "host", "host"},
};

static const struct {
	const char *name, *key;
} way_words[REPORT_WAYS] = {
	[REPORT_IN] = {"link in", "link_in"},
	[REPORT_OUT] = {"link out", "link_out"},
	[REPORT_READ] = {"disk reads", "disk_read"},
	[REPORT_WRITE] = {"disk writes", "disk_write"},
};

const char *
report_part_name(enum report_part part)
{
	return part_words[part].name;
}

const char *
report_part_key(enum report_part part)
{
	return part_words[part].key;
}

const char *
report_way_name(enum report_way way)
{
	return way_words[way].name;
}

const char *
report_way_key(enum report_way way)
{
	return way_words[way].key;
}

const char *
report_binding_name(const struct report_gpu *gpu)
{
	int most = REPORT_KERNELS;

	for (int part = 0; part < REPORT_PARTS; part++)
		if (gpu->part_ns[part] > gpu->part_ns[most])
			most = part;
	return part_words[most].binding;
}

void
report_end_text(const struct report *report, char *text, size_t bytes)
{
	switch (report->end) {
	case REPORT_END_WHOLE:
		text[0] = '\0';
		return;
	case REPORT_END_FULL:
		snprintf(text, bytes,
			 "The timeline is cut: its file was full after this time "
			 "(--timeline-size).");
		return;
	case REPORT_END_MISSING:
		snprintf(text, bytes,
			 "The timeline is cut: its end is missing. The program was "
			 "killed, called _exit() or still runs, or the disk was full.");
		return;
	case REPORT_END_CUT:
		snprintf(text, bytes,
			 "The timeline is longer than a report covers: these are its "
			 "first %u spans of time.",
			 REPORT_SPANS_MAX);
		return;
	}
}

uint64_t
report_whole_ns(const struct report *report)
{
	return report->end_ns - report->begin_ns;
}

double
report_share(const struct report *report, uint64_t ns)
{
	uint64_t whole = report_whole_ns(report);

	return whole ? 100.0 * (double)ns / (double)whole : 0;
}

uint64_t
report_waited_ns(const struct report_gpu *gpu)
{
	uint64_t sum = 0;

	for (int part = REPORT_WAIT_IN; part <= REPORT_WAIT_OTHER; part++)
		sum += gpu->part_ns[part];
	return sum;
}

double
report_rate(uint64_t bytes, uint64_t ns)
{
	return ns ? (double)bytes * 1e9 / (double)ns : 0;
}

/* ---- columns ---- */

/* A span goes through the columns that it lies in. */
struct column_step {
	const struct report *report;
	uint64_t at_ns, end_ns;
	size_t column;
	uint64_t ns; /* of the span in the column */
};

static int
column_next(struct column_step *step)
{
	uint64_t begin = step->report->begin_ns, whole = report_whole_ns(step->report);
	uint64_t edge;

	if (step->at_ns < begin)
		step->at_ns = begin;
	if (step->at_ns >= step->end_ns || !whole)
		return 0;
	step->column = (size_t)((double)(step->at_ns - begin) / (double)whole *
				REPORT_COLUMNS);
	if (step->column >= REPORT_COLUMNS)
		step->column = REPORT_COLUMNS - 1;
	edge = begin +
	       (uint64_t)((double)whole * (double)(step->column + 1) / REPORT_COLUMNS);
	if (edge <= step->at_ns)
		edge = step->at_ns + 1;
	if (step->column == REPORT_COLUMNS - 1 || edge > step->end_ns)
		edge = step->end_ns;
	step->ns = edge - step->at_ns;
	step->at_ns = edge;
	return 1;
}

static void
bytes_spread(const struct report *report, struct report_gpu *gpu, enum report_way way)
{
	const struct report_spans *spans = &gpu->spans[REPORT_SPAN_WAYS + way];

	for (size_t i = 0; i < spans->n; i++) {
		const struct report_span *span = &spans->span[i];
		uint64_t ns = span->end_ns - span->begin_ns;
		struct column_step step = {report, span->begin_ns, span->end_ns + !ns, 0, 0};

		while (column_next(&step))
			gpu->column_bytes[step.column][way] += (double)span->value *
							       (double)step.ns /
							       (double)(ns + !ns);
	}
}

static void
part_add(const struct report *report, struct report_gpu *gpu, enum report_part part,
	 uint64_t begin_ns, uint64_t end_ns)
{
	struct column_step step = {report, begin_ns, end_ns, 0, 0};

	gpu->part_ns[part] += end_ns - begin_ns;
	while (column_next(&step))
		gpu->column_ns[step.column][part] += (double)step.ns;
}

/* ---- spans ---- */

static int
span_order(const void *a, const void *b)
{
	const struct report_span *x = a, *y = b;

	if (x->begin_ns != y->begin_ns)
		return x->begin_ns < y->begin_ns ? -1 : 1;
	return (x->end_ns > y->end_ns) - (x->end_ns < y->end_ns);
}

/* Sorted, apart, within the run; a joined one has the value of its first. The sum of their time. */
static uint64_t
spans_join(const struct report *report, struct report_spans *spans)
{
	uint64_t sum = 0;
	size_t n = 0;

	if (spans->n)
		qsort(spans->span, spans->n, sizeof(spans->span[0]), span_order);
	for (size_t i = 0; i < spans->n; i++) {
		struct report_span span = spans->span[i];

		if (span.begin_ns < report->begin_ns)
			span.begin_ns = report->begin_ns;
		if (span.end_ns > report->end_ns)
			span.end_ns = report->end_ns;
		if (span.begin_ns >= span.end_ns)
			continue;
		if (n && span.begin_ns <= spans->span[n - 1].end_ns) {
			if (span.end_ns > spans->span[n - 1].end_ns) {
				sum += span.end_ns - spans->span[n - 1].end_ns;
				spans->span[n - 1].end_ns = span.end_ns;
			}
			continue;
		}
		sum += span.end_ns - span.begin_ns;
		spans->span[n++] = span;
	}
	spans->n = n;
	return sum;
}

/* ---- the sweep ---- */

static enum report_part
part_of(const int active[REPORT_SPAN_KINDS])
{
	static const struct {
		int kind;
		enum report_part part;
	} waits[] = {{REPORT_SPAN_WAYS + REPORT_IN, REPORT_WAIT_IN},
		     {REPORT_SPAN_WAYS + REPORT_READ, REPORT_WAIT_READ},
		     {REPORT_SPAN_WAYS + REPORT_OUT, REPORT_WAIT_OUT},
		     {REPORT_SPAN_WAYS + REPORT_WRITE, REPORT_WAIT_WRITE},
		     {REPORT_SPAN_MAP, REPORT_WAIT_MAP},
		     {REPORT_SPAN_PIN, REPORT_WAIT_PIN}};

	if (active[REPORT_SPAN_KERNEL])
		return REPORT_KERNELS;
	if (active[REPORT_SPAN_COPY])
		return REPORT_COPIES;
	if (!active[REPORT_SPAN_QUEUED])
		return REPORT_HOST;
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		if (active[waits[i].kind])
			return waits[i].part;
	return REPORT_WAIT_OTHER;
}

/* Which kinds are active at ns, and when that changes next. */
static uint64_t
sweep_look(const struct report_gpu *gpu, size_t at[REPORT_SPAN_KINDS], uint64_t ns,
	   int active[REPORT_SPAN_KINDS], uint64_t end_ns)
{
	uint64_t next = end_ns;

	for (int kind = 0; kind < (int)REPORT_SPAN_KINDS; kind++) {
		const struct report_spans *spans = &gpu->spans[kind];
		uint64_t change;

		while (at[kind] < spans->n && spans->span[at[kind]].end_ns <= ns)
			at[kind]++;
		active[kind] = at[kind] < spans->n && spans->span[at[kind]].begin_ns <= ns;
		if (at[kind] == spans->n)
			continue;
		change = active[kind] ? spans->span[at[kind]].end_ns
				      : spans->span[at[kind]].begin_ns;
		if (change < next)
			next = change;
	}
	return next;
}

static void
sweep(struct report *report, struct report_gpu *gpu)
{
	size_t at[REPORT_SPAN_KINDS] = {0};
	int active[REPORT_SPAN_KINDS];
	uint64_t ns = report->begin_ns, gap = 0;

	while (ns < report->end_ns) {
		uint64_t next = sweep_look(gpu, at, ns, active, report->end_ns);
		enum report_part part = part_of(active);

		part_add(report, gpu, part, ns, next);
		if (part == REPORT_KERNELS || part == REPORT_COPIES) {
			int kind = part == REPORT_KERNELS ? REPORT_SPAN_KERNEL
							  : REPORT_SPAN_COPY;

			report->functions[gpu->spans[kind].span[at[kind]].value].waited_ns += gap;
			gap = 0;
		} else if (part != REPORT_HOST) {
			gap += next - ns;
		}
		ns = next;
	}
	gpu->waited_last_ns = gap;
}

static int
function_order(const void *a, const void *b)
{
	const struct report_function *x = a, *y = b;

	if (x->waited_ns != y->waited_ns)
		return x->waited_ns > y->waited_ns ? -1 : 1;
	if (x->busy_ns != y->busy_ns)
		return x->busy_ns > y->busy_ns ? -1 : 1;
	return strcmp(x->name, y->name);
}

void
report_parts_make(struct report *report)
{
	for (int i = 0; i < REPORT_GPUS_MAX; i++) {
		struct report_gpu *gpu = report->gpus[i];

		if (!gpu)
			continue;
		for (int way = 0; way < REPORT_WAYS; way++)
			bytes_spread(report, gpu, (enum report_way)way);
		for (int kind = 0; kind < (int)REPORT_SPAN_KINDS; kind++) {
			uint64_t ns = spans_join(report, &gpu->spans[kind]);

			if (kind >= REPORT_SPAN_WAYS)
				gpu->ways[kind - REPORT_SPAN_WAYS].busy_ns = ns;
		}
		sweep(report, gpu);
		for (int kind = 0; kind < (int)REPORT_SPAN_KINDS; kind++) {
			free(gpu->spans[kind].span);
			gpu->spans[kind] = (struct report_spans){0};
		}
	}
	if (report->n_functions)
		qsort(report->functions, report->n_functions,
		      sizeof(report->functions[0]), function_order);
}
