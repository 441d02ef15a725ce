/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times of work on streams: timings.h. The time of a launch is that between two events on its
 * stream, right before and right behind it: the kernel's own time and some microseconds, without
 * waits for fetched memory. Events are queried later, never waited for.
 *
 * A GPU has a clock of its own. An anchor is an event on an idle stream of ours, with the host's
 * time at which it passed. The timeline asks how far behind an anchor the work began. An event's
 * time difference is a float of milliseconds, exact to a microsecond over some ten seconds. So
 * anchors are renewed (pl_timings_anchor()); work that was called before the last one is counted
 * from the one before.
 *
 * A time costs its launch two events, some microseconds. So the timeline takes 10,000 a second at
 * most, beyond a burst, and those of launches that had to wait. What has no time is counted.
 *
 * Locks: asking, while the driver is asked, since an ending context takes its events along;
 * timings_lock for lists. Neither is held across a driver call that enqueues work of the
 * program's.
 */
#include "preload/report/timings.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/lock.h"
#include "core/events.h"
#include "preload/alloc/block.h"
#include "preload/api/api_foreign.h"
#include "preload/api/api_stream.h"
#include "preload/args/part_growth.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/report/timeline.h"
#include "preload/report/tracing.h"
#include "preload/streams/capture.h"
#include "preload/streams/stream.h"
#include "preload/streams/stream_internal.h"
#include "trace/record.h"

#define TIMINGS_MAX  32768u     /* in flight, and events kept */
#define COLLECT_MAX  8u         /* asked about when another one begins */
#define EACH_NS      100000u    /* between two on the timeline, on average */
#define BURST_NS     500000000u /* what may be taken ahead of that */
#define WAITED_NS    20000u     /* a scope that took so long is always on it */
#define ANCHORS_MAX  16u        /* contexts with a clock */
#define ANCHOR_TRIES 4
#define ANCHOR_NS    30000u /* a reading that takes longer is tried again */

_Atomic int pl_timed_by;

/* A context's clock: now, and what it was before. */
struct anchor {
	struct cu_context *context; /* NULL: free */
	struct cu_stream *stream;
	struct cu_event *event[2];
	uint64_t ns[2]; /* 0: not read */
};

static struct sl_mutex asking = SL_MUTEX_INITIALIZER(SL_RANK_PL_TIMINGS);
static struct anchor anchors[ANCHORS_MAX]; /* asking */

static struct sl_mutex timings_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);
static struct pl_timing *spare;                      /* timings_lock */
static struct pl_timing *oldest, **newest = &oldest; /* timings_lock: both events are recorded */
static unsigned n_timings;                           /* timings_lock */

void
pl_timed_set(enum pl_timed who, int on)
{
	if (on)
		atomic_fetch_or(&pl_timed_by, (int)who);
	else
		atomic_fetch_and(&pl_timed_by, ~(int)who);
}

/* ---- clocks ---- */

/* Read the context's clock into its slot i. 0, or it could not be read. Context current. */
SL_REQUIRES(asking) static int anchor_read(struct anchor *a, int i)
{
	int (*create)(struct cu_event **, unsigned) = pl_real[SL_API_cuEventCreate];

	a->ns[i] = 0;
	if ((!a->stream && PL_REAL(cuStreamCreate)(&a->stream, CU_STREAM_NONBLOCKING)) ||
	    (!a->event[i] && create(&a->event[i], 0)))
		return -1;
	for (int try = 0; try < ANCHOR_TRIES; try++) {
		uint64_t before = sl_now_ns(), after;

		if (PL_REAL(cuEventRecord)(a->event[i], a->stream) ||
		    PL_REAL(cuEventSynchronize)(a->event[i]))
			return -1;
		after = sl_now_ns();
		a->ns[i] = before + (after - before) / 2;
		if (after - before < ANCHOR_NS)
			break;
	}
	return 0;
}

SL_REQUIRES(asking) static struct anchor *anchor_of(const struct cu_context *context)
{
	for (unsigned i = 0; i < ANCHORS_MAX; i++)
		if (anchors[i].context == context)
			return &anchors[i];
	return NULL;
}

void
pl_timings_anchor(void)
{
	sl_mutex_lock(&asking);
	for (unsigned i = 0; i < ANCHORS_MAX; i++) {
		struct anchor *a = &anchors[i], old = *a;
		int pushed;

		if (!a->context)
			continue;
		pushed = pl_context_push(a->context);
		a->event[0] = old.event[1];
		a->event[1] = old.event[0];
		a->ns[1] = old.ns[0];
		if (pushed < 0 || anchor_read(a, 0))
			*a = old;
		pl_context_pop(pushed);
	}
	sl_mutex_unlock(&asking);
}

/* The host's time when the event passed, which was recorded after since. 0: not known. Context
 * current. */
SL_REQUIRES(asking)
static uint64_t
host_time(struct cu_context *context, struct cu_event *event, uint64_t since)
{
	int (*elapsed)(float *, struct cu_event *,
		       struct cu_event *) = pl_real[SL_API_cuEventElapsedTime];
	struct anchor *a = anchor_of(context);
	float ms = 0;
	int i;

	if (!a) {
		a = anchor_of(NULL);
		if (!a || anchor_read(a, 0))
			return 0;
		a->context = context;
	}
	i = a->ns[1] && since < a->ns[0];
	if (!a->ns[i] || elapsed(&ms, a->event[i], event))
		return 0;
	return a->ns[i] + (uint64_t)(int64_t)((double)ms * 1e6);
}

/* ---- events ---- */

static struct pl_timing *
timing_get(void)
{
	struct cu_context *context = pl_context_current();
	int (*create)(struct cu_event **, unsigned) = pl_real[SL_API_cuEventCreate];
	struct pl_timing **at, *timing;
	int is_new;

	sl_mutex_lock(&timings_lock);
	for (at = &spare; *at && (*at)->context != context; at = &(*at)->next)
		;
	timing = *at;
	if (timing)
		*at = timing->next;
	is_new = !timing && n_timings < TIMINGS_MAX;
	n_timings += (unsigned)is_new;
	sl_mutex_unlock(&timings_lock);
	if (!is_new)
		return timing;
	timing = sl_calloc(1, sizeof(*timing));
	if (timing && !create(&timing->begin, 0)) {
		timing->context = context;
		if (!create(&timing->end, 0))
			return timing;
	}
	free(timing);
	sl_mutex_lock(&timings_lock);
	n_timings--;
	sl_mutex_unlock(&timings_lock);
	return NULL;
}

/* Its work is over. ns 0: nobody knows how long it took; begin_ns 0: nor when it began. */
static void
timing_tell(const struct pl_timing *timing, uint64_t begin_ns, uint64_t ns)
{
	if (timing->record != SL_TRACE_NONE)
		pl_tracing_told(timing->gpu, timing->record, ns);
	pl_growth_took(&timing->growth, ns);
	if (pl_timed() & PL_TIMED_TIMELINE)
		pl_timeline_told(timing, begin_ns, ns);
}

/* 1: it was told, 0: not done yet. */
SL_REQUIRES(asking) static int timing_ask(const struct pl_timing *timing)
{
	int (*elapsed)(float *, struct cu_event *,
		       struct cu_event *) = pl_real[SL_API_cuEventElapsedTime];
	int pushed = pl_context_push(timing->context), result = CU_ERROR_INVALID_CONTEXT;
	uint64_t ns = 0, begin_ns = 0;
	float ms = 0;

	if (pushed >= 0 && !timing->broken)
		result = PL_REAL(cuEventQuery)(timing->end);
	if (!result && !elapsed(&ms, timing->begin, timing->end) && ms >= 0)
		ns = ms > 0 ? (uint64_t)((double)ms * 1e6 + 0.5) : 1;
	if (ns && pl_timed() & PL_TIMED_TIMELINE)
		begin_ns = host_time(timing->context, timing->begin, timing->opened);
	pl_context_pop(pushed);
	if (result == CU_ERROR_NOT_READY)
		return 0;
	timing_tell(timing, begin_ns, ns ? ns : !result);
	return 1;
}

SL_REQUIRES(asking) static void timings_ask(unsigned most, int all)
{
	struct pl_timing *kept = NULL, **last = &kept, *timing;

	while (most--) {
		sl_mutex_lock(&timings_lock);
		timing = oldest;
		if (timing) {
			oldest = timing->next;
			if (!oldest)
				newest = &oldest;
		}
		sl_mutex_unlock(&timings_lock);
		if (!timing)
			break;
		if (timing_ask(timing)) {
			sl_mutex_lock(&timings_lock);
			timing->next = spare;
			spare = timing;
			sl_mutex_unlock(&timings_lock);
			continue;
		}
		timing->next = NULL;
		*last = timing;
		last = &timing->next;
		if (!all)
			break;
	}
	if (!kept)
		return;
	sl_mutex_lock(&timings_lock);
	*last = oldest;
	if (!oldest)
		newest = last;
	oldest = kept;
	sl_mutex_unlock(&timings_lock);
}

void
pl_timings_collect(unsigned most, int all, int patient)
{
	if (patient)
		sl_mutex_lock(&asking);
	else if (sl_mutex_trylock(&asking))
		return;
	timings_ask(most, all);
	sl_mutex_unlock(&asking);
}

uint64_t
pl_timings_left(void)
{
	uint64_t n = 0;

	sl_mutex_lock(&timings_lock);
	for (const struct pl_timing *timing = oldest; timing; timing = timing->next)
		n++;
	sl_mutex_unlock(&timings_lock);
	return n;
}

SL_REQUIRES(timings_lock)
static void
list_take(struct pl_timing **list, const struct cu_context *context, struct pl_timing **taken)
{
	while (*list) {
		struct pl_timing *timing = *list;

		if (timing->context != context) {
			list = &timing->next;
			continue;
		}
		*list = timing->next;
		timing->next = *taken;
		*taken = timing;
		n_timings--;
	}
}

/* told: what is known of them is that they are over. */
static void
list_free(struct pl_timing *list, int told)
{
	while (list) {
		struct pl_timing *timing = list;

		list = timing->next;
		if (told)
			timing_tell(timing, 0, 0);
		free(timing);
	}
}

/* In flight or kept. */
static int
timings_exist(void)
{
	unsigned n;

	sl_mutex_lock(&timings_lock);
	n = n_timings;
	sl_mutex_unlock(&timings_lock);
	return n != 0;
}

void
pl_timings_context_leaves(const struct cu_context *context)
{
	struct pl_timing *begun = NULL, *kept = NULL;
	struct anchor *a;

	if (!pl_timed() && !timings_exist())
		return;
	pl_enter();
	sl_mutex_lock(&asking);
	timings_ask(TIMINGS_MAX, 1);
	sl_mutex_lock(&timings_lock);
	list_take(&oldest, context, &begun);
	for (newest = &oldest; *newest; newest = &(*newest)->next)
		;
	list_take(&spare, context, &kept); /* the context takes the events along */
	sl_mutex_unlock(&timings_lock);
	a = anchor_of(context);
	if (a)
		*a = (struct anchor){0};
	list_free(begun, 1);
	list_free(kept, 0);
	sl_mutex_unlock(&asking);
	pl_leave();
}

/* ---- work ---- */

static uint64_t
uses_bytes(const struct pl_use *uses, size_t n)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		if (uses[i].bytes > bytes)
			bytes = uses[i].bytes;
	return bytes;
}

/* gettid() asks the system each time. */
static int
thread_number(void)
{
	static _Thread_local int number __attribute__((tls_model("initial-exec")));

	if (!number)
		number = gettid();
	return number;
}

/* Whether the timeline is to have another time at now; races of threads make it one more or less. */
static int
timeline_wants(uint64_t now)
{
	static _Atomic uint64_t taken_until; /* atomic: relaxed: about */
	uint64_t until = atomic_load_explicit(&taken_until, memory_order_relaxed);

	if (until < now)
		until = now;
	if (until - now > BURST_NS)
		return 0;
	atomic_store_explicit(&taken_until, until + EACH_NS, memory_order_relaxed);
	return 1;
}

/* The events of the work, and what is known of it. NULL: it can have none. */
static struct pl_timing *
timing_make(const struct pl_scope *scope, const struct pl_gpu *gpu, uint64_t since,
	    uint64_t opened, const struct pl_use *uses, size_t n)
{
	struct pl_timing *timing = timing_get();

	if (!timing)
		return NULL;
	timing->gpu = gpu->ordinal;
	timing->name = scope->name;
	timing->copies = scope->copies;
	timing->thread = thread_number();
	timing->since = since;
	timing->opened = opened;
	timing->launches[0] = scope->launch ? sl_launch_number(scope->launch) : 0;
	timing->launches[1] = scope->all ? sl_launch_number(scope->all) : 0;
	timing->bytes = scope->what ? 0 : uses_bytes(uses, n);
	timing->growth = scope->growth;
	return timing;
}

void
pl_timing_begin(struct pl_scope *scope, struct cu_stream *stream,
		enum pl_default_stream flavour, const struct pl_use *uses, size_t n,
		unsigned flags, uint64_t since)
{
	uint64_t opened = scope->gpu ? sl_now_ns() : since; /* else it took no time */
	int grows = scope->growth.key != 0, by = pl_timed(),
	    timeline = (by & PL_TIMED_TIMELINE) != 0, token;
	uint32_t record = SL_TRACE_NONE;
	struct pl_timing *timing = NULL;
	struct pl_gpu *gpu;

	if (!scope->name || flags & PL_SCOPE_LOOK)
		return;
	if (timeline && !grows && opened - since < WAITED_NS && !timeline_wants(opened)) {
		pl_timeline_untimed();
		timeline = 0;
	}
	if (!timeline && !grows && !(by & PL_TIMED_RECORD))
		return;
	gpu = n ? uses[0].block->gpu : pl_gpu_here();
	if (!gpu || pl_stream_captures(stream, flavour))
		return;
	token = pl_capture_relax();
	pl_enter();
	if (!(by & PL_TIMED_TIMELINE)) /* else its thread asks */
		pl_timings_collect(COLLECT_MAX, 0, 0);
	if (by & PL_TIMED_RECORD)
		record = pl_tracing_work(scope, gpu, uses, n, flags);
	if (record != SL_TRACE_NONE || timeline || grows)
		timing = timing_make(scope, gpu, since, opened, uses, n);
	if (timing) {
		timing->record = record;
		timing->stream = pl_stream_handle(stream, flavour);
		timing->broken = PL_REAL(cuEventRecord)(timing->begin, timing->stream) !=
				 CU_SUCCESS;
	} else {
		if (record != SL_TRACE_NONE)
			pl_tracing_told(gpu->ordinal, record, 0);
		if (timeline)
			pl_timeline_untimed();
	}
	scope->timing = timing;
	pl_leave();
	pl_capture_restore(token);
}

void
pl_timing_end(struct pl_scope *scope)
{
	struct pl_timing *timing = scope->timing;
	int token;

	scope->timing = NULL;
	token = pl_capture_relax();
	pl_enter();
	if (PL_REAL(cuEventRecord)(timing->end, timing->stream))
		timing->broken = 1;
	timing->next = NULL;
	sl_mutex_lock(&timings_lock);
	*newest = timing;
	newest = &timing->next;
	sl_mutex_unlock(&timings_lock);
	pl_leave();
	pl_capture_restore(token);
}
