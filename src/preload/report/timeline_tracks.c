/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracks of a timeline: timeline_tracks.h. Slices of a track must not overlap. What may do so
 * has lanes: tracks of one kind, of which the first that is free is taken. Copies of one direction
 * are done one after the other, so one that was enqueued behind another begins at the end of that
 * one.
 *
 * Arrows: the core names the launch that a move was made for, or that was held back until it was
 * done. The arrow is written with the launch's slice, which comes later.
 *
 * Every table has a fixed size. What a full one cannot take goes without an arrow or a track of its
 * own; its slice is written in any case.
 *
 * Threads: an object is one thread's.
 */
#include "preload/report/timeline_tracks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "preload/gpu.h"

#define TRACK_FIRST \
	5000000u /* above the numbers of threads, so that other traces may have those */
#define LANES_MAX   32u
#define STREAMS_MAX 256u
#define THREADS_MAX 512u
#define MOVES_MAX   4096u    /* under way, by number */
#define LINKS_MAX   4096u    /* launches with arrows to come, by number */
#define ARROWS_MAX  8u       /* to one launch */
#define COUNTER_NS  1000000u /* memory is not told more often */
#define CALL_NS     20000u   /* a call that takes no longer has not waited */
#define ROUNDING_NS 20000u   /* slices of a stream that overlap by less do not */

struct lanes {
	char name[64];
	int order; /* of the first */
	unsigned n;
	struct {
		unsigned track;
		uint64_t end_ns;
	} lane[LANES_MAX];
};

/* A move that has begun, or is over and may still get an arrow. */
struct move {
	uint64_t id, begin_ns, end_ns, addr;
	uint64_t turn_ns; /* when it really began, 0: not known */
	uint64_t launch;  /* that needs it; 0: none */
	int64_t bytes;
	unsigned track; /* 0: it is under way */
	int counter, rc;
};

struct link {
	uint64_t launch;
	unsigned n;
	uint64_t moves[ARROWS_MAX];
};

struct gpu_tracks {
	int used;
	struct lanes in, out, read, write, place;
	struct move moves[MOVES_MAX];
	struct link links[LINKS_MAX];
	struct sl_event memory; /* the last */
	uint64_t memory_ns;     /* when it was told */
	int memory_told;
	unsigned n_streams;
	struct stream {
		const struct cu_stream *handle;
		int thread; /* of a per-thread stream; else 0 */
		struct lanes lanes;
	} streams[STREAMS_MAX + 1]; /* the last: all others */
};

struct pl_tracks {
	struct pl_trace_events *file;
	unsigned n_tracks;
	struct gpu_tracks *gpus[PL_GPUS_MAX]; /* NULL: nothing of it yet */
	unsigned n_threads;
	struct {
		int number;
		unsigned track;
	} threads[THREADS_MAX];
};

struct pl_tracks *
pl_tracks_create(struct pl_trace_events *file)
{
	struct pl_tracks *t = sl_calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->file = file;
	pl_trace_track(file, (unsigned)getpid(), -1, "sluice");
	return t;
}

void
pl_tracks_destroy(struct pl_tracks *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < PL_GPUS_MAX; i++)
		free(t->gpus[i]);
	free(t);
}

/* ---- tracks ---- */

static unsigned
track_new(struct pl_tracks *t, int order, const char *name)
{
	unsigned track = TRACK_FIRST + t->n_tracks++;

	pl_trace_track(t->file, track, order, name);
	return track;
}

/* A track for a slice. It is made shorter at its begin where there is no free one, or where it
 * overlaps by no more than slack_ns. */
static unsigned
lane_take(struct pl_tracks *t, struct lanes *lanes, uint64_t *begin_ns, uint64_t end_ns,
	  uint64_t slack_ns)
{
	unsigned i, best = 0;
	char name[80];

	for (i = 0; i < lanes->n; i++) {
		if (lanes->lane[i].end_ns <= *begin_ns + slack_ns)
			break;
		if (lanes->lane[i].end_ns < lanes->lane[best].end_ns)
			best = i;
	}
	if (i == lanes->n && i < LANES_MAX) {
		snprintf(name, sizeof(name), i ? "%s (%u)" : "%s", lanes->name, i + 1);
		lanes->lane[i].track = track_new(t, lanes->order, name);
		lanes->lane[i].end_ns = 0;
		lanes->n++;
	} else if (i == lanes->n) {
		i = best;
	}
	if (*begin_ns < lanes->lane[i].end_ns)
		*begin_ns = lanes->lane[i].end_ns < end_ns ? lanes->lane[i].end_ns : end_ns;
	if (end_ns > lanes->lane[i].end_ns)
		lanes->lane[i].end_ns = end_ns;
	return lanes->lane[i].track;
}

static void
lanes_init(struct lanes *lanes, int gpu, int order, const char *what)
{
	snprintf(lanes->name, sizeof(lanes->name), "GPU %d %s", gpu, what);
	lanes->order = 1000 * gpu + order;
}

/* NULL: out of memory. */
static struct gpu_tracks *
track_gpu(struct pl_tracks *t, int gpu)
{
	struct gpu_tracks *g = t->gpus[gpu];

	if (g)
		return g;
	g = t->gpus[gpu] = sl_calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	lanes_init(&g->in, gpu, 501, "copies in");
	lanes_init(&g->out, gpu, 502, "copies out");
	lanes_init(&g->read, gpu, 503, "disk reads");
	lanes_init(&g->write, gpu, 504, "disk writes");
	lanes_init(&g->place, gpu, 505, "without a copy");
	return g;
}

static struct lanes *
stream_lanes(struct gpu_tracks *g, const struct pl_timing *timing)
{
	int thread = timing->stream == CU_PER_THREAD_STREAM ? timing->thread : 0;
	struct stream *s = g->streams;
	char what[48];

	for (unsigned i = 0; i < g->n_streams; i++, s++)
		if (i == STREAMS_MAX || (s->handle == timing->stream && s->thread == thread))
			return &s->lanes;
	s->handle = timing->stream;
	s->thread = thread;
	if (g->n_streams == STREAMS_MAX)
		snprintf(what, sizeof(what), "other streams");
	else if (thread)
		snprintf(what, sizeof(what), "stream of thread %d", thread);
	else if (s->handle == CU_LEGACY_STREAM)
		snprintf(what, sizeof(what), "default stream");
	else
		snprintf(what, sizeof(what), "stream %u", g->n_streams);
	lanes_init(&s->lanes, timing->gpu, 1 + (int)g->n_streams, what);
	g->n_streams++;
	return &s->lanes;
}

static unsigned
thread_track(struct pl_tracks *t, int number)
{
	char path[64], name[32] = "", text[80];
	ssize_t n = 0;
	unsigned i;
	int fd;

	for (i = 0; i < t->n_threads; i++)
		if (t->threads[i].number == number || i == THREADS_MAX - 1)
			return t->threads[i].track;
	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", number);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, name, sizeof(name) - 1);
		close(fd);
	}
	name[n > 0 ? n - 1 : 0] = '\0'; /* it ends with a line break */
	if (i == THREADS_MAX - 1)
		snprintf(text, sizeof(text), "waits of other threads");
	else
		snprintf(text, sizeof(text), "waits of thread %d%s%s", number,
			 *name ? ": " : "", name);
	t->threads[i].number = number;
	t->threads[i].track = track_new(t, 100000 + (int)i, text);
	t->n_threads++;
	return t->threads[i].track;
}

/* ---- arrows ---- */

static void
link_add(struct gpu_tracks *g, uint64_t launch, uint64_t move)
{
	struct link *link = &g->links[launch % LINKS_MAX];

	if (!launch)
		return;
	if (link->launch != launch)
		*link = (struct link){.launch = launch};
	/* The last is what the launch has waited for longest. */
	if (link->n == ARROWS_MAX)
		link->moves[ARROWS_MAX - 1] = move;
	else
		link->moves[link->n++] = move;
}

/* Between the move's slice and the one of the work on the track. */
static void
arrow_draw(struct pl_tracks *t, const struct move *move, unsigned track,
	   uint64_t begin_ns, uint64_t end_ns)
{
	uint64_t from = move->end_ns > move->begin_ns ? move->end_ns - 1 : move->begin_ns;
	uint64_t to = begin_ns;

	/* The clocks of a GPU and of the host differ by microseconds: no arrow points back. */
	if (from > to && move->begin_ns <= to)
		from = to;
	if (from > to)
		to = from;
	if (move->track && to <= end_ns)
		pl_trace_flow(t->file, "waited for", move->track, from, track, to);
}

static void
arrows_draw(struct pl_tracks *t, struct gpu_tracks *g, uint64_t launch, unsigned track,
	    uint64_t begin_ns, uint64_t end_ns)
{
	const struct link *link = &g->links[launch % LINKS_MAX];

	if (!launch || link->launch != launch)
		return;
	for (unsigned i = 0; i < link->n; i++) {
		const struct move *move = &g->moves[link->moves[i] % MOVES_MAX];

		if (move->id == link->moves[i])
			arrow_draw(t, move, track, begin_ns, end_ns);
	}
}

/* ---- moves ---- */

static const char *
counter_cause(int counter)
{
	switch (counter) {
	case SLUICE_COUNTER_H2D_LAUNCH:
		return "launch";
	case SLUICE_COUNTER_H2D_FAULT:
		return "fault";
	case SLUICE_COUNTER_H2D_CPU:
		return "host code";
	case SLUICE_COUNTER_H2D_PREFETCH:
	case SLUICE_COUNTER_STORE_READ_PREFETCH:
		return "prefetch";
	case SLUICE_COUNTER_D2H_EVICT:
		return "eviction";
	case SLUICE_COUNTER_D2H_REQUEST:
		return "request";
	case SLUICE_COUNTER_D2H_SYNC:
	case SLUICE_COUNTER_STORE_WRITE_SYNC:
		return "sync";
	case SLUICE_COUNTER_STORE_READ_DEMAND:
		return "demand";
	case SLUICE_COUNTER_STORE_READ_AHEAD:
		return "read ahead";
	case SLUICE_COUNTER_STORE_WRITE_BACK:
		return "write back";
	case SLUICE_COUNTER_STORE_WRITE_SPILL:
		return "spill";
	case SLUICE_COUNTER_CLEAN_DROP:
		return "dropped, another copy is valid";
	case SLUICE_COUNTER_DISCARD_SAVED:
		return "dropped, discarded";
	case SLUICE_COUNTER_ZERO_FILL:
		return "room, nothing to copy";
	default:
		return sluice_counter_name((enum sluice_counter)counter);
	}
}

static struct lanes *
counter_lanes(struct gpu_tracks *g, int counter)
{
	switch (counter) {
	case SLUICE_COUNTER_H2D_LAUNCH:
	case SLUICE_COUNTER_H2D_FAULT:
	case SLUICE_COUNTER_H2D_CPU:
	case SLUICE_COUNTER_H2D_PREFETCH:
		return &g->in;
	case SLUICE_COUNTER_D2H_EVICT:
	case SLUICE_COUNTER_D2H_REQUEST:
	case SLUICE_COUNTER_D2H_SYNC:
		return &g->out;
	case SLUICE_COUNTER_STORE_READ_DEMAND:
	case SLUICE_COUNTER_STORE_READ_AHEAD:
	case SLUICE_COUNTER_STORE_READ_PREFETCH:
		return &g->read;
	case SLUICE_COUNTER_STORE_WRITE_BACK:
	case SLUICE_COUNTER_STORE_WRITE_SYNC:
	case SLUICE_COUNTER_STORE_WRITE_SPILL:
		return &g->write;
	default:
		return &g->place;
	}
}

/* Its slice. unfinished: it is under way, or its end was lost. */
static void
move_write(struct pl_tracks *t, struct gpu_tracks *g, struct move *move, uint64_t end_ns,
	   int unfinished)
{
	struct lanes *lanes = counter_lanes(g, move->counter);
	int is_copy = lanes == &g->in || lanes == &g->out;
	struct pl_trace_arg args[7];
	uint64_t called_ns = move->begin_ns;
	size_t n = 0;

	/* One after the other: the rest of the time it has waited for its turn. */
	if (move->turn_ns > move->begin_ns)
		move->begin_ns = move->turn_ns;
	move->track = lane_take(t, lanes, &move->begin_ns, end_ns,
				is_copy ? UINT64_MAX / 2 : 0);
	move->end_ns = end_ns;
	args[n++] = (struct pl_trace_arg){"bytes", NULL, move->bytes};
	args[n++] = (struct pl_trace_arg){
		"counter", sluice_counter_name((enum sluice_counter)move->counter), 0};
	args[n++] = (struct pl_trace_arg){"address", NULL, (int64_t)move->addr};
	if (move->launch)
		args[n++] = (struct pl_trace_arg){"launch", NULL, (int64_t)move->launch};
	if (is_copy)
		args[n++] = (struct pl_trace_arg){"queued_us", NULL,
						  (int64_t)(move->begin_ns - called_ns) /
							  1000};
	if (move->rc)
		args[n++] = (struct pl_trace_arg){"error", strerror(-move->rc), 0};
	if (unfinished)
		args[n++] = (struct pl_trace_arg){"unfinished", NULL, 1};
	pl_trace_slice(t->file, move->track, is_copy ? "move" : "disk",
		       counter_cause(move->counter), move->begin_ns, end_ns, args, n);
}

static void
move_begin(struct pl_tracks *t, struct gpu_tracks *g, const struct sl_event *e)
{
	struct move *move = &g->moves[e->id % MOVES_MAX];

	if (move->id && !move->track)
		move_write(t, g, move, e->ns > move->begin_ns ? e->ns : move->begin_ns, 1);
	*move = (struct move){.id = e->id,
			      .begin_ns = e->ns,
			      .addr = e->addr,
			      .launch = e->launch,
			      .bytes = e->bytes,
			      .counter = e->what};
	link_add(g, e->launch, e->id);
}

static void
move_end(struct pl_tracks *t, struct gpu_tracks *g, const struct sl_event *e)
{
	struct move *move = &g->moves[e->id % MOVES_MAX];

	if (move->id != e->id || move->track)
		return;
	if (e->kind == SL_EVENT_UNDO) {
		move->id = 0;
		return;
	}
	move->rc = e->rc;
	move->turn_ns = e->since;
	move_write(t, g, move, e->ns, 0);
}

static void
memory_write(struct pl_tracks *t, int gpu, struct gpu_tracks *g, uint64_t ns)
{
	static const char *const tiers[SLUICE_TIER_COUNT] = {"device", "host", "store"};
	struct pl_trace_arg values[2];
	char name[64];

	g->memory_ns = ns;
	g->memory_told = 1;
	for (int tier = 0; tier < SLUICE_TIER_COUNT; tier++) {
		size_t n = 0;

		snprintf(name, sizeof(name), "GPU %d %s memory", gpu, tiers[tier]);
		values[n++] = (struct pl_trace_arg){"used_bytes", NULL,
						    (int64_t)g->memory.used_bytes[tier]};
		if (tier != SLUICE_TIER_STORE)
			values[n++] = (struct pl_trace_arg){
				"budget_bytes", NULL, (int64_t)g->memory.budget_bytes[tier]};
		pl_trace_counter(t->file, name, ns, values, n);
	}
}

static void
memory_note(struct pl_tracks *t, int gpu, struct gpu_tracks *g, const struct sl_event *e)
{
	int same = !memcmp(g->memory.used_bytes, e->used_bytes, sizeof(e->used_bytes)) &&
		   !memcmp(g->memory.budget_bytes, e->budget_bytes, sizeof(e->budget_bytes));

	if (same && g->used)
		return;
	g->used = 1;
	g->memory = *e;
	g->memory_told = 0;
	if (e->ns >= g->memory_ns + COUNTER_NS)
		memory_write(t, gpu, g, e->ns);
}

static void
wait_write(struct pl_tracks *t, const struct sl_event *e)
{
	static const char *const reasons[SL_WAIT_REASON_COUNT] = {
		[SL_WAIT_READ] = "disk read",
		[SL_WAIT_WRITE] = "disk write",
		[SL_WAIT_IN] = "copy in",
		[SL_WAIT_OUT] = "copy out",
		[SL_WAIT_CHUNK] = "chunk in use",
		[SL_WAIT_HOST_ROOM] = "room in host memory",
		[SL_WAIT_DEVICE_ROOM] = "room on the device",
		[SL_WAIT_MAP] = "mapping",
		[SL_WAIT_PIN] = "pinning",
		[SL_WAIT_LAUNCH] = "launches",
		[SL_WAIT_TURN] = "turn of another program",
	};

	pl_trace_slice(t->file, thread_track(t, e->thread), "wait", reasons[e->what],
		       e->since, e->ns, NULL, 0);
}

void
pl_tracks_event(struct pl_tracks *t, int gpu, const struct sl_event *e)
{
	struct gpu_tracks *g = track_gpu(t, gpu);
	struct pl_trace_arg bytes = {"bytes", NULL, e->bytes};
	uint64_t ns = e->ns;

	if (!g)
		return;
	memory_note(t, gpu, g, e);
	switch ((enum sl_event_kind)e->kind) {
	case SL_EVENT_BEGIN:
		move_begin(t, g, e);
		break;
	case SL_EVENT_END:
	case SL_EVENT_UNDO:
		move_end(t, g, e);
		break;
	case SL_EVENT_COUNT:
		pl_trace_instant(t->file, lane_take(t, &g->place, &ns, ns, UINT64_MAX / 2),
				 counter_cause(e->what), e->ns, &bytes, 1);
		break;
	case SL_EVENT_WAIT:
		wait_write(t, e);
		break;
	case SL_EVENT_HOLD:
		if (g->moves[e->id % MOVES_MAX].launch != e->launch)
			link_add(g, e->launch, e->id);
		break;
	}
}

/* ---- work of streams ---- */

static const char *
work_category(const struct pl_timing *timing)
{
	if (timing->copies)
		return "copy";
	if (!strcmp(timing->name, "graph"))
		return "graph";
	return timing->bytes ? "fill" : "kernel";
}

void
pl_tracks_work(struct pl_tracks *t, const struct pl_timed_work *work)
{
	const struct pl_timing *timing = &work->timing;
	struct gpu_tracks *g = track_gpu(t, timing->gpu);
	uint64_t begin_ns = work->begin_ns, end_ns = begin_ns + work->ns;
	struct pl_trace_arg args[4];
	unsigned track;
	size_t n = 0;

	if (!g)
		return;
	track = lane_take(t, stream_lanes(g, timing), &begin_ns, end_ns, ROUNDING_NS);
	if (timing->bytes)
		args[n++] = (struct pl_trace_arg){"bytes", NULL, (int64_t)timing->bytes};
	if (timing->launches[0])
		args[n++] = (struct pl_trace_arg){"launch", NULL,
						  (int64_t)timing->launches[0]};
	args[n++] = (struct pl_trace_arg){"thread", NULL, timing->thread};
	args[n++] = (struct pl_trace_arg){"behind_call_us", NULL,
					  ((int64_t)begin_ns - (int64_t)timing->opened) /
						  1000};
	pl_trace_slice(t->file, track, work_category(timing), timing->name, begin_ns,
		       end_ns, args, n);
	for (int i = 0; i < 2; i++)
		arrows_draw(t, g, timing->launches[i], track, begin_ns, end_ns);
	if (timing->opened - timing->since >= CALL_NS)
		pl_trace_slice(t->file, thread_track(t, timing->thread), "wait",
			       timing->name, timing->since, timing->opened, NULL, 0);
}

/* ---- words ---- */

void
pl_tracks_note(struct pl_tracks *t, const char *text, uint64_t now_ns,
	       const struct pl_trace_arg *args, size_t n)
{
	pl_trace_instant(t->file, (unsigned)getpid(), text, now_ns, args, n);
}

void
pl_tracks_lost(struct pl_tracks *t, int gpu, uint64_t events, uint64_t now_ns)
{
	const struct pl_trace_arg args[] = {{"gpu", NULL, gpu},
					    {"events", NULL, (int64_t)events}};

	pl_tracks_note(t, "events before this were lost: they came too fast", now_ns,
		       args, 2);
}

void
pl_tracks_end(struct pl_tracks *t, uint64_t now_ns)
{
	for (int gpu = 0; gpu < (int)PL_GPUS_MAX; gpu++) {
		struct gpu_tracks *g = t->gpus[gpu];

		for (unsigned i = 0; g && i < MOVES_MAX; i++) {
			struct move *move = &g->moves[i];

			if (move->id && !move->track)
				move_write(t, g, move, now_ns, 1);
		}
		if (g && g->used && !g->memory_told)
			memory_write(t, gpu, g, now_ns);
	}
}
