/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timeline as spans of time, sums and names. Tracks are known by their names, which
 * src/preload/report/timeline_tracks.c gives. Events on other tracks are another program's, merged
 * into the file: they are left alone.
 *
 * Everything has a bound. Spans: REPORT_SPANS_MAX; there reading ends, as at a cut timeline. Functions,
 * chunks, tracks and threads: tables; what finds no room is counted with the rest or not by name.
 *
 * Moves come before the work that they were made for. So bytes wait in a table by the number of the
 * launch until its work comes.
 *
 * Threads: one.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault_point.h"
#include "base/hash.h"
#include "report.h"

#define TRACKS_MAX    16384u /* powers of two: tables are half full at most */
#define FUNCTIONS_MAX 8192u
#define CHUNKS_MAX    (1u << 20)
#define THREADS_MAX   1024u
#define LAUNCHES_MAX  65536u
#define SPANS_FIRST   1024u

enum track_kind {
	TRACK_NONE, /* free, or of no interest */
	TRACK_STREAM,
	TRACK_MOVES,
	TRACK_PLACE,
	TRACK_WAITS
};

struct track {
	uint64_t number; /* plus 1; 0: free */
	enum track_kind kind;
	enum report_way way;
	int gpu;
	uint64_t thread;
};

struct gather {
	struct report *report;
	uint64_t pid; /* plus 1; 0: not known yet */
	struct track tracks[TRACKS_MAX];
	size_t n_tracks, n_spans;
	uint32_t functions[FUNCTIONS_MAX]; /* numbers plus 1, by hash of the name */
	struct report_spans waits;         /* of all threads */
	uint64_t threads[THREADS_MAX];     /* that called work; by hash, 0: free */
	size_t n_threads;
	struct {
		uint64_t number, bytes;
		int gpu;
	} launches[LAUNCHES_MAX];
	size_t chunks_max;
	int full;
};

static int
out_of_memory(const struct gather *g)
{
	return sl_fail(-ENOMEM, "%s: out of memory", g->report->path);
}

/* ---- tables ---- */

static struct report_gpu *
gpu_get(struct gather *g, int gpu)
{
	struct report_gpu **at = &g->report->gpus[gpu];

	if (!*at) {
		*at = sl_calloc(1, sizeof(**at));
		if (*at)
			memset((*at)->memory, 0xff, sizeof((*at)->memory));
	}
	return *at;
}

static int
span_add(struct gather *g, struct report_spans *spans, uint64_t begin_ns, uint64_t end_ns,
	 uint64_t value)
{
	if (g->n_spans == REPORT_SPANS_MAX) {
		g->full = 1;
		return 0;
	}
	if (spans->n == spans->max) {
		size_t max = spans->max ? 2 * spans->max : SPANS_FIRST;
		struct report_span *span = sl_realloc(spans->span, max * sizeof(*span));

		if (!span)
			return out_of_memory(g);
		spans->span = span;
		spans->max = max;
	}
	spans->span[spans->n++] = (struct report_span){begin_ns, end_ns, value};
	g->n_spans++;
	return 0;
}

/* The place of a track in the table: its own, or a free one. */
static struct track *
track_slot(struct gather *g, uint64_t number)
{
	uint64_t i = sl_hash_add(0, number);

	while (g->tracks[i % TRACKS_MAX].number &&
	       g->tracks[i % TRACKS_MAX].number != number + 1)
		i++;
	return &g->tracks[i % TRACKS_MAX];
}

static uint64_t
name_hash(const char *name)
{
	uint64_t hash = 0;

	for (; *name; name++)
		hash = sl_hash_add(hash, (unsigned char)*name);
	return hash;
}

/* The number of the function in the report. */
static int
function_get(struct gather *g, const char *name, uint64_t *number)
{
	struct report *report = g->report;
	struct report_function *grown;
	uint64_t i;

	if (report->n_functions >= FUNCTIONS_MAX / 2)
		name = "(other functions)";
	i = name_hash(name);
	for (; g->functions[i % FUNCTIONS_MAX]; i++) {
		*number = g->functions[i % FUNCTIONS_MAX] - 1;
		if (!strcmp(report->functions[*number].name, name))
			return 0;
	}
	*number = report->n_functions;
	grown = sl_realloc(report->functions, (*number + 1) * sizeof(*grown));
	if (!grown)
		return out_of_memory(g);
	report->functions = grown;
	memset(&grown[*number], 0, sizeof(*grown));
	grown[*number].name = sl_strdup(name);
	if (!grown[*number].name)
		return out_of_memory(g);
	g->functions[i % FUNCTIONS_MAX] = (uint32_t)*number + 1;
	report->n_functions++;
	return 0;
}

static struct report_chunk *
chunk_slot(struct report_chunk *chunks, size_t max, uint64_t address, int gpu)
{
	uint64_t i = sl_hash_add((uint64_t)gpu, address);

	while (chunks[i % max].moves &&
	       (chunks[i % max].address != address || chunks[i % max].gpu != gpu))
		i++;
	return &chunks[i % max];
}

static int
chunks_grow(struct gather *g)
{
	struct report *report = g->report;
	size_t max = g->chunks_max ? 2 * g->chunks_max : 1024;
	struct report_chunk *grown = sl_calloc(max, sizeof(*grown));

	if (!grown)
		return out_of_memory(g);
	for (size_t i = 0; report->chunks && i < g->chunks_max; i++) {
		const struct report_chunk *chunk = &report->chunks[i];

		if (chunk->moves)
			*chunk_slot(grown, max, chunk->address, chunk->gpu) = *chunk;
	}
	free(report->chunks);
	report->chunks = grown;
	g->chunks_max = max;
	return 0;
}

static int
chunk_count(struct gather *g, int gpu, uint64_t address, uint64_t bytes, int is_in)
{
	struct report *report = g->report;
	struct report_chunk *chunk;
	int rc = 2 * report->n_chunks >= g->chunks_max && g->chunks_max < CHUNKS_MAX
			 ? chunks_grow(g)
			 : 0;

	if (rc)
		return rc;
	chunk = chunk_slot(report->chunks, g->chunks_max, address, gpu);
	if (!chunk->moves) {
		if (2 * report->n_chunks >= g->chunks_max)
			return 0; /* it is not counted by name */
		report->n_chunks++;
		chunk->address = address;
		chunk->gpu = gpu;
	}
	chunk->moves++;
	*(is_in ? &chunk->in_bytes : &chunk->out_bytes) += bytes;
	return 0;
}

static void
counter_count(struct report *report, const char *name, uint64_t bytes)
{
	size_t i = 0;

	while (i < report->n_counters && strcmp(report->counters[i].name, name))
		i++;
	if (i == sizeof(report->counters) / sizeof(report->counters[0]))
		return;
	if (i == report->n_counters) {
		strcpy(report->counters[i].name, name); /* as long as that of the event */
		report->n_counters++;
	}
	report->counters[i].bytes += bytes;
	report->counters[i].moves++;
}

static void
thread_note(struct gather *g, uint64_t thread)
{
	uint64_t i = sl_hash_add(0, thread);

	while (g->threads[i % THREADS_MAX] && g->threads[i % THREADS_MAX] != thread)
		i++;
	if (!thread || g->threads[i % THREADS_MAX] || g->n_threads == THREADS_MAX / 2)
		return;
	g->threads[i % THREADS_MAX] = thread;
	g->n_threads++;
}

static int
thread_calls(const struct gather *g, uint64_t thread)
{
	uint64_t i = sl_hash_add(0, thread);

	while (g->threads[i % THREADS_MAX] && g->threads[i % THREADS_MAX] != thread)
		i++;
	return g->threads[i % THREADS_MAX] != 0;
}

/* ---- events ---- */

/* "GPU 3 copies in": the number, and what is behind it. NULL: not so. */
static const char *
gpu_words(const char *name, int *gpu)
{
	char *end;
	long number;

	if (strncmp(name, "GPU ", 4) || name[4] < '0' || name[4] > '9')
		return NULL;
	number = strtol(name + 4, &end, 10);
	if (*end != ' ' || number >= REPORT_GPUS_MAX)
		return NULL;
	*gpu = (int)number;
	return end + 1;
}

static void
track_name(struct gather *g, const struct timeline_event *e)
{
	static const struct {
		const char *words;
		enum track_kind kind;
		enum report_way way;
	} kinds[] = {
		{"copies in", TRACK_MOVES, REPORT_IN},
		{"copies out", TRACK_MOVES, REPORT_OUT},
		{"disk reads", TRACK_MOVES, REPORT_READ},
		{"disk writes", TRACK_MOVES, REPORT_WRITE},
		{"without a copy", TRACK_PLACE, REPORT_WAYS},
		{"stream", TRACK_STREAM, REPORT_WAYS},
		{"default stream", TRACK_STREAM, REPORT_WAYS},
		{"other streams", TRACK_STREAM, REPORT_WAYS},
	};
	static const char waits[] = "waits of ";
	struct track found = {.number = e->track + 1}, *slot;
	const char *words = gpu_words(e->text, &found.gpu);

	for (size_t i = 0; words && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strncmp(words, kinds[i].words, strlen(kinds[i].words)))
			continue;
		found.kind = kinds[i].kind;
		found.way = kinds[i].way;
	}
	if (!words && !strncmp(e->text, waits, strlen(waits))) {
		found.kind = TRACK_WAITS;
		words = strpbrk(e->text, "0123456789");
		found.thread = words ? strtoull(words, NULL, 10) : 0;
	}
	slot = track_slot(g, e->track);
	if (found.kind == TRACK_NONE || (!slot->number && g->n_tracks == TRACKS_MAX / 2))
		return;
	g->n_tracks += !slot->number;
	*slot = found;
}

static void
time_note(struct report *report, uint64_t begin_ns, uint64_t end_ns)
{
	if (!report->begin_ns || begin_ns < report->begin_ns)
		report->begin_ns = begin_ns;
	if (end_ns > report->end_ns)
		report->end_ns = end_ns;
}

/* Bytes that were moved for the launch of the work. */
static uint64_t
launch_bytes_take(struct gather *g, int gpu, uint64_t launch)
{
	uint64_t i = (launch + 61 * (uint64_t)gpu) % LAUNCHES_MAX, bytes;

	if (!launch || g->launches[i].number != launch || g->launches[i].gpu != gpu)
		return 0;
	bytes = g->launches[i].bytes;
	g->launches[i].number = 0;
	return bytes;
}

static void
launch_bytes_put(struct gather *g, int gpu, uint64_t launch, uint64_t bytes)
{
	uint64_t i = (launch + 61 * (uint64_t)gpu) % LAUNCHES_MAX;

	if (!launch)
		return;
	if (g->launches[i].number != launch || g->launches[i].gpu != gpu) {
		g->launches[i].number = launch;
		g->launches[i].gpu = gpu;
		g->launches[i].bytes = 0;
	}
	g->launches[i].bytes += bytes;
}

static int
work_take(struct gather *g, const struct track *track, const struct timeline_event *e)
{
	int is_kernel = !strcmp(e->category, "kernel") || !strcmp(e->category, "graph");
	uint64_t end_ns = e->ns + e->span_ns, queued_ns, number = 0;
	struct report_gpu *gpu = gpu_get(g, track->gpu);
	struct report_function *function;
	int rc;

	if (!gpu)
		return out_of_memory(g);
	rc = function_get(g, e->name, &number);
	if (rc)
		return rc;
	function = &g->report->functions[number];
	function->calls++;
	function->busy_ns += e->span_ns;
	function->in_bytes += launch_bytes_take(g, track->gpu, e->launch);
	thread_note(g, e->thread);
	queued_ns = e->behind_call_us < e->ns / 1000 ? e->behind_call_us * 1000 : 0;
	rc = span_add(g, &gpu->spans[is_kernel ? REPORT_SPAN_KERNEL : REPORT_SPAN_COPY],
		      e->ns, end_ns, number);
	if (!rc && queued_ns)
		rc = span_add(g, &gpu->spans[REPORT_SPAN_QUEUED], e->ns - queued_ns,
			      e->ns, 0);
	return rc;
}

static int
move_take(struct gather *g, const struct track *track, const struct timeline_event *e)
{
	struct report_gpu *gpu = gpu_get(g, track->gpu);
	uint64_t bytes = e->bytes > 0 ? (uint64_t)e->bytes : 0;
	struct report_way_sum *sum;
	int rc = 0;

	if (!gpu)
		return out_of_memory(g);
	sum = &gpu->ways[track->way];
	sum->bytes += bytes;
	sum->moves++;
	counter_count(g->report, e->counter, bytes);
	if (track->way == REPORT_IN)
		launch_bytes_put(g, track->gpu, e->launch, bytes);
	if (track->way == REPORT_IN || track->way == REPORT_OUT)
		rc = chunk_count(g, track->gpu, e->address, bytes, track->way == REPORT_IN);
	if (rc)
		return rc;
	return span_add(g, &gpu->spans[REPORT_SPAN_WAYS + track->way], e->ns,
			e->ns + e->span_ns, bytes);
}

/* Of the library's own threads, too: what they do, others wait for. On every GPU. */
static int
wait_take(struct gather *g, const struct track *track, const struct timeline_event *e)
{
	uint64_t end_ns = e->ns + e->span_ns;
	int kind = !strcmp(e->name, "mapping")   ? REPORT_SPAN_MAP
		   : !strcmp(e->name, "pinning") ? REPORT_SPAN_PIN
						 : -1;
	int rc = span_add(g, &g->waits, e->ns, end_ns, track->thread);

	for (int gpu = 0; kind >= 0 && !rc && gpu < REPORT_GPUS_MAX; gpu++)
		if (g->report->gpus[gpu])
			rc = span_add(g, &g->report->gpus[gpu]->spans[kind], e->ns,
				      end_ns, track->thread);
	return rc;
}

static int
slice_take(struct gather *g, const struct timeline_event *e)
{
	const struct track *track = track_slot(g, e->track);

	if (!track->number || track->kind == TRACK_NONE)
		return 0;
	time_note(g->report, e->ns, e->ns + e->span_ns);
	switch (track->kind) {
	case TRACK_STREAM:
		return work_take(g, track, e);
	case TRACK_MOVES:
		return move_take(g, track, e);
	case TRACK_WAITS:
		return wait_take(g, track, e);
	case TRACK_PLACE:
	case TRACK_NONE:
		break;
	}
	return 0;
}

/* The pieces of time become twice as long. */
static void
memory_double(struct report_gpu *gpu)
{
	for (size_t i = 0; i < REPORT_MEMORY; i++)
		for (int tier = 0; tier < SLUICE_TIER_COUNT; tier++) {
			uint64_t most = UINT64_MAX;

			for (size_t k = 2 * i; k < 2 * i + 2 && k < REPORT_MEMORY; k++) {
				uint64_t value = gpu->memory[k][tier];

				if (most == UINT64_MAX ||
				    (value != UINT64_MAX && value > most))
					most = value;
			}
			gpu->memory[i][tier] = most;
		}
	gpu->memory_step_ns *= 2;
}

static int
counter_take(struct gather *g, const struct timeline_event *e)
{
	static const char *const tiers[SLUICE_TIER_COUNT] = {"device memory",
							     "host memory", "store memory"};
	struct report_gpu *gpu;
	int number = 0, tier = 0;
	const char *words = gpu_words(e->name, &number);
	uint64_t *most, at;

	while (words && tier < SLUICE_TIER_COUNT && strcmp(words, tiers[tier]))
		tier++;
	if (!words || tier == SLUICE_TIER_COUNT)
		return 0;
	gpu = gpu_get(g, number);
	if (!gpu)
		return out_of_memory(g);
	time_note(g->report, e->ns, e->ns);
	if (e->used_bytes > gpu->used_most[tier])
		gpu->used_most[tier] = e->used_bytes;
	if (e->budget_bytes)
		gpu->budget[tier] = e->budget_bytes;
	if (!gpu->memory_step_ns) {
		gpu->memory_ns = e->ns;
		gpu->memory_step_ns = 1000000;
	}
	at = e->ns > gpu->memory_ns ? e->ns - gpu->memory_ns : 0;
	while (at / gpu->memory_step_ns >= REPORT_MEMORY)
		memory_double(gpu);
	most = &gpu->memory[at / gpu->memory_step_ns][tier];
	if (*most == UINT64_MAX || e->used_bytes > *most)
		*most = e->used_bytes;
	return 0;
}

static void
instant_take(struct gather *g, const struct timeline_event *e)
{
	struct report *report = g->report;

	if (e->track + 1 != g->pid)
		return;
	if (!strcmp(e->name, "the program ends"))
		report->end = REPORT_END_WHOLE;
	else if (!strcmp(e->name, "no events from here on: the file is full"))
		report->end = REPORT_END_FULL;
	else if (!strcmp(e->name, "launches without a time"))
		report->untimed_launches = e->launches;
	else if (!strcmp(e->name, "events before this were lost: they came too fast"))
		report->lost_events += e->events;
	else
		return;
	time_note(report, e->ns, e->ns);
}

static int
event_take(struct gather *g, const struct timeline_event *e)
{
	/* Processes of other programs in the same file have other numbers, or other tracks. */
	if (g->pid && e->pid + 1 != g->pid)
		return 0;
	switch (e->phase) {
	case 'M':
		if (!strcmp(e->name, "process_name") && !g->pid)
			memcpy(g->report->process, e->text, sizeof(e->text));
		if (strcmp(e->name, "thread_name"))
			return 0;
		if (e->track == e->pid && !strcmp(e->text, "sluice"))
			g->pid = e->pid + 1;
		track_name(g, e);
		return 0;
	case 'X':
		return slice_take(g, e);
	case 'C':
		return counter_take(g, e);
	case 'i':
		instant_take(g, e);
		return 0;
	default:
		return 0;
	}
}

/* ---- the whole ---- */

/* Waits of threads that call work stand for work that is called: on every GPU. */
static int
waits_share(struct gather *g)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < g->waits.n; i++) {
		const struct report_span *span = &g->waits.span[i];

		if (!thread_calls(g, span->value))
			continue;
		for (int gpu = 0; !rc && gpu < REPORT_GPUS_MAX; gpu++)
			if (g->report->gpus[gpu])
				rc = span_add(g,
					      &g->report->gpus[gpu]->spans[REPORT_SPAN_QUEUED],
					      span->begin_ns, span->end_ns, 0);
	}
	return rc;
}

static void
most_moved_find(struct gather *g)
{
	struct report *report = g->report;
	struct report_chunk *most = report->most_moved;

	for (size_t i = 0; report->chunks && i < g->chunks_max; i++) {
		const struct report_chunk *chunk = &report->chunks[i];
		size_t at = report->n_most_moved;

		for (; at && most[at - 1].in_bytes + most[at - 1].out_bytes <
				     chunk->in_bytes + chunk->out_bytes;
		     at--)
			if (at < REPORT_FIRST)
				most[at] = most[at - 1];
		if (!chunk->moves || at == REPORT_FIRST)
			continue;
		most[at] = *chunk;
		report->n_most_moved += report->n_most_moved < REPORT_FIRST;
	}
}

int
report_gather(struct timeline_reader *reader, struct report *out)
{
	struct gather *g = sl_calloc(1, sizeof(*g));
	struct timeline_event event = {0};
	int rc;

	if (!g)
		return sl_fail(-ENOMEM, "%s: out of memory", out->path);
	g->report = out;
	out->end = REPORT_END_MISSING;
	while ((rc = timeline_next(reader, &event)) > 0 && !g->full) {
		rc = event_take(g, &event);
		if (rc)
			break;
	}
	if (rc >= 0 && !g->pid)
		rc = sl_fail(-EINVAL, "%s: trace events of another program, not of `sluice run --timeline`",
			     out->path);
	if (g->full && rc >= 0) {
		out->end = REPORT_END_CUT;
		g->n_spans = 0; /* room for what is derived from them */
		rc = 0;
	}
	out->pid = g->pid ? g->pid - 1 : 0;
	if (!rc)
		rc = waits_share(g);
	if (!rc)
		most_moved_find(g);
	free(g->waits.span);
	free(g);
	return rc;
}

void
report_fini(struct report *report)
{
	for (int i = 0; i < REPORT_GPUS_MAX; i++) {
		struct report_gpu *gpu = report->gpus[i];

		for (int kind = 0; gpu && kind < (int)REPORT_SPAN_KINDS; kind++)
			free(gpu->spans[kind].span);
		free(gpu);
	}
	for (size_t i = 0; i < report->n_functions; i++)
		free(report->functions[i].name);
	free(report->functions);
	free(report->chunks);
}
