/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --record: the run as a trace for `sluice plan`, one for each GPU. Events go to the recorder
 * (trace/record.h) as they happen. Periods and kinds of tensors are found when the trace is
 * made: at exit, or after the requested number of launches. So a program that runs for days, or
 * is killed, has left its trace long before.
 *
 * A tensor is a block. Of a block that has parts (args/parts.h) the parts are: where they begin is
 * found at the end. A mapped block that grows or shrinks becomes another tensor. Small blocks
 * are one tensor of their highest common size, which each of their users reads and writes. A
 * kernel's access to a block is not known: it reads and writes. But the first use of an
 * allocation overwrites it all, since there are no contents to keep. Copies and fills tell their
 * access.
 *
 * The time of a launch is that between two events on its stream, right before and right behind
 * it: the kernel's own time and some microseconds, without waits for fetched memory. Events are
 * queried when later work begins, never waited for. A launch whose events have not passed at the
 * end has no time.
 *
 * Locks: gate, read, around the recorders: no event reaches them while they are made into
 * traces. timings_lock for lists. Neither is held across a driver call that enqueues.
 */
#include "preload/report/tracing.h"
#include "preload/alloc/block.h"
#include "preload/gpu.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/scope.h"
#include "preload/streams/capture.h"
#include "preload/streams/stream.h"
#include "sluice/sluice.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/lock.h"
#include "preload/api/api_stream.h"
#include "preload/report/output.h"
#include "preload/streams/stream_internal.h"
#include "trace/record.h"

#define TIMINGS_MAX  32768u /* launches in flight whose time is taken, and events kept */
#define COLLECT_MAX  8u     /* asked about when another one begins */
#define SMALL_SERIAL 1u

_Atomic int pl_tracing_state;

/* Two events around a launch. */
struct pl_timing {
	struct pl_timing *next;
	struct cu_event *begin, *end;
	struct cu_context *context; /* the events' */
	struct cu_stream *stream;
	int gpu;
	int broken; /* an event could not be recorded: no time */
	uint32_t launch;
};

static struct sl_rwlock gate = SL_RWLOCK_INITIALIZER(SL_RANK_PL_RECORDERS);
static struct sl_record *records[PL_GPUS_MAX]; /* gate */
static _Atomic uint64_t small_bytes[PL_GPUS_MAX], small_peak[PL_GPUS_MAX];
static _Atomic uint64_t n_launches, n_all, n_untimed;
static _Atomic uint64_t last_serial = SMALL_SERIAL;
/* Of a block's tensor. */
static struct sl_mutex tell_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);

/* Of making and writing the traces. */
static struct sl_mutex closing = SL_MUTEX_INITIALIZER(SL_RANK_PL_CLOSING);
static struct sl_mutex timings_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);
static struct pl_timing *spare;                      /* timings_lock */
static struct pl_timing *oldest, **newest = &oldest; /* timings_lock: both events are recorded */
static unsigned n_timings;                           /* timings_lock */
static _Atomic unsigned flying;                      /* begun, and not collected */

/* ---- tensors ---- */

static bool
is_small(uint64_t bytes)
{
	return bytes < PL_TRACE_SMALL;
}

static void
small_count(int gpu, uint64_t bytes)
{
	uint64_t now = atomic_fetch_add(&small_bytes[gpu], bytes) + bytes;
	uint64_t peak = atomic_load(&small_peak[gpu]);

	while (now > peak && !atomic_compare_exchange_weak(&small_peak[gpu], &peak, now))
		;
}

/* The block's tensor as it is now; it is told of if it is new or has another size. */
SL_REQUIRES(gate) static uint64_t tensor_of(struct pl_block *block)
{
	struct sl_record *record = records[block->gpu->ordinal];
	uint64_t bytes = block->bytes, serial;

	sl_mutex_lock(&tell_lock);
	if (!block->tensor || block->tensor_bytes != bytes) {
		uint64_t now = sl_now_ns();

		if (block->tensor && block->tensor != SMALL_SERIAL)
			sl_record_free(record, block->tensor, now);
		else if (block->tensor)
			atomic_fetch_sub(&small_bytes[block->gpu->ordinal],
					 block->tensor_bytes);
		block->tensor_bytes = bytes;
		block->tensor = SMALL_SERIAL;
		if (is_small(bytes)) {
			small_count(block->gpu->ordinal, bytes);
		} else {
			block->tensor = atomic_fetch_add(&last_serial, 1) + 1;
			sl_record_tensor(record, block->tensor, bytes, NULL, now);
		}
	}
	serial = block->tensor;
	sl_mutex_unlock(&tell_lock);
	return serial;
}

void
pl_tracing_alloc(struct pl_block *block)
{
	if (!pl_tracing())
		return;
	sl_rwlock_read(&gate);
	if (records[block->gpu->ordinal])
		(void)tensor_of(block);
	sl_rwlock_unlock(&gate);
}

void
pl_tracing_free(struct pl_block *block)
{
	struct sl_record *record;

	if (!pl_tracing())
		return;
	sl_rwlock_read(&gate);
	record = records[block->gpu->ordinal];
	sl_mutex_lock(&tell_lock);
	if (record && block->tensor == SMALL_SERIAL)
		atomic_fetch_sub(&small_bytes[block->gpu->ordinal], block->tensor_bytes);
	else if (record && block->tensor)
		sl_record_free(record, block->tensor, sl_now_ns());
	block->tensor = 0;
	sl_mutex_unlock(&tell_lock);
	sl_rwlock_unlock(&gate);
}

/* ---- times ---- */

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

/* Its launch is over. ns 0: nobody knows how long it took. */
SL_REQUIRES(gate) static void timing_tell(const struct pl_timing *timing, uint64_t ns)
{
	if (ns)
		sl_record_time(records[timing->gpu], timing->launch, ns);
	else
		atomic_fetch_add(&n_untimed, 1);
	atomic_fetch_sub(&flying, 1);
}

/* 1: it was told, 0: not done yet. */
SL_REQUIRES(gate) static int timing_ask(const struct pl_timing *timing)
{
	int (*elapsed)(float *, struct cu_event *,
		       struct cu_event *) = pl_real[SL_API_cuEventElapsedTime];
	int pushed = pl_context_push(timing->context), result = CU_ERROR_INVALID_CONTEXT;
	uint64_t ns = 0;
	float ms = 0;

	if (pushed >= 0 && !timing->broken)
		result = PL_REAL(cuEventQuery)(timing->end);
	if (!result && !elapsed(&ms, timing->begin, timing->end) && ms >= 0)
		ns = ms > 0 ? (uint64_t)((double)ms * 1e6 + 0.5) : 1;
	pl_context_pop(pushed);
	if (result == CU_ERROR_NOT_READY)
		return 0;
	timing_tell(timing, ns ? ns : !result);
	return 1;
}

/* Those that are done, oldest first: at most so many, and none behind one that is not, unless all are to be
 * asked. */
SL_REQUIRES(gate) static void timings_collect(unsigned most, int all)
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

SL_REQUIRES(gate, timings_lock)
static void
list_take(struct pl_timing **list, const struct cu_context *context, int told)
{
	while (*list) {
		struct pl_timing *timing = *list;

		if (timing->context != context) {
			list = &timing->next;
			continue;
		}
		*list = timing->next;
		if (told)
			timing_tell(timing, 0);
		free(timing);
		n_timings--;
	}
}

void
pl_tracing_context_leaves(const struct cu_context *context)
{
	if (!pl_tracing())
		return;
	pl_enter();
	sl_rwlock_read(&gate);
	timings_collect(TIMINGS_MAX, 1);
	sl_mutex_lock(&timings_lock);
	list_take(&oldest, context, 1);
	for (newest = &oldest; *newest; newest = &(*newest)->next)
		;
	list_take(&spare, context, 0); /* the context takes the events along */
	sl_mutex_unlock(&timings_lock);
	sl_rwlock_unlock(&gate);
	pl_leave();
}

/* ---- launches ---- */

/* What the recorder is told; contents that nobody has made yet are not kept. */
SL_REQUIRES(gate)
static void
uses_fill(struct sl_record_use *to, const struct pl_use *uses, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct pl_block *block = uses[i].block;
		int fresh = !atomic_load(&block->touched) && !uses[i].open &&
			    uses[i].intent != SLUICE_USE_READ;

		to[i] = (struct sl_record_use){.tensor = tensor_of(block)};
		if (to[i].tensor == SMALL_SERIAL) {
			to[i].intent = SLUICE_USE_READ_WRITE;
		} else if (fresh) {
			to[i].intent = SLUICE_USE_WRITE_ALL;
		} else {
			to[i].intent = uses[i].intent;
			to[i].offset_bytes = uses[i].addr - block->base;
			to[i].size_bytes = uses[i].bytes;
			to[i].open = uses[i].open;
		}
	}
	for (size_t i = 0; i < n; i++)
		atomic_store(&uses[i].block->touched, 1);
}

/* A copy from (1) or to (0) the host; -1: work on the device. */
static int
host_copy_way(const struct pl_scope *scope, const struct pl_use *uses, size_t n)
{
	int way = n && uses[0].intent != SLUICE_USE_READ;

	if (!scope->copies || !n)
		return -1;
	for (size_t i = 1; i < n; i++)
		if (way != (uses[i].intent != SLUICE_USE_READ))
			return -1;
	return way;
}

/* The launch, or the copies, to the recorder. The launch's number; SL_TRACE_NONE: there is none to take the
 * time of. */
SL_REQUIRES(gate)
static uint32_t
work_tell(const struct pl_scope *scope, struct sl_record *record,
	  const struct pl_use *uses, size_t n, unsigned flags)
{
	struct sl_record_use to[PL_USES_MAX];
	int way = host_copy_way(scope, uses, n);
	uint32_t launch;
	uint64_t now;

	uses_fill(to, uses, n);
	now = sl_now_ns(); /* behind what was told of its tensors */
	for (size_t i = 0; way >= 0 && i < n; i++)
		if (to[i].tensor != SMALL_SERIAL)
			sl_record_copy(record, to[i].tensor, way,
				       uses[i].addr - uses[i].block->base, uses[i].bytes,
				       now);
	if (way >= 0)
		return SL_TRACE_NONE;
	launch = sl_record_launch(record, now, now, scope->name, to, n);
	if (launch == SL_TRACE_NONE)
		return launch;
	if (flags & PL_SCOPE_ALL)
		atomic_fetch_add(&n_all, 1);
	atomic_fetch_add(&flying, 1); /* before it can be the last one */
	if (atomic_fetch_add(&n_launches, 1) + 1 == pl_settings()->record_launches) {
		int on = PL_TRACING_ON;

		atomic_compare_exchange_strong(&pl_tracing_state, &on, PL_TRACING_FULL);
	}
	return launch;
}

static struct pl_timing *
timing_begin(int gpu, uint32_t launch, struct cu_stream *stream)
{
	struct pl_timing *timing = timing_get();

	if (!timing) {
		atomic_fetch_add(&n_untimed, 1);
		atomic_fetch_sub(&flying, 1);
		return NULL;
	}
	timing->gpu = gpu;
	timing->launch = launch;
	timing->stream = stream;
	timing->broken = PL_REAL(cuEventRecord)(timing->begin, stream) != CU_SUCCESS;
	return timing;
}

/* All that is wanted is there: written by who comes first. Without gate. */
static void
full_look(void)
{
	if (atomic_load(&pl_tracing_state) == PL_TRACING_FULL && !atomic_load(&flying))
		pl_tracing_close();
}

void
pl_tracing_begin(struct pl_scope *scope, struct cu_stream *stream,
		 enum pl_default_stream flavour, const struct pl_use *uses, size_t n,
		 unsigned flags)
{
	struct pl_gpu *gpu = n ? uses[0].block->gpu : pl_gpu_here();
	uint32_t launch = SL_TRACE_NONE;
	int token;

	if (!gpu || !scope->name || flags & PL_SCOPE_LOOK ||
	    pl_stream_captures(stream, flavour))
		return;
	token = pl_capture_relax();
	pl_enter();
	sl_rwlock_read(&gate);
	if (records[gpu->ordinal]) {
		timings_collect(COLLECT_MAX, 0);
		if (atomic_load(&pl_tracing_state) == PL_TRACING_ON)
			launch = work_tell(scope, records[gpu->ordinal], uses, n, flags);
	}
	sl_rwlock_unlock(&gate);
	if (launch != SL_TRACE_NONE)
		scope->timing = timing_begin(gpu->ordinal, launch,
					     pl_stream_handle(stream, flavour));
	else
		full_look();
	pl_leave();
	pl_capture_restore(token);
}

void
pl_tracing_end(struct pl_scope *scope)
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

/* ---- begin and end ---- */

void
pl_tracing_open(const struct pl_gpu *gpu)
{
	const struct pl_settings *s = pl_settings();
	char source[SL_TRACE_NAME_MAX + 1];
	static int begun; /* by who makes spaces, one at a time */

	if (!s->record_path[0] || (begun && pl_tracing() != PL_TRACING_ON))
		return;
	snprintf(source, sizeof(source), "sluice run %s, GPU %d",
		 program_invocation_short_name, gpu->ordinal);
	for (char *c = source; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	sl_rwlock_write(&gate);
	if (sl_record_begin(s->record_launches, source, &records[gpu->ordinal]))
		pl_error("GPU %d is not recorded: %s", gpu->ordinal, sluice_last_error());
	sl_rwlock_unlock(&gate);
	if (!begun) /* else it is on, or full just now */
		atomic_store(&pl_tracing_state, PL_TRACING_ON);
	begun = 1;
	atomic_store(&pl_watch, 1);
}

/* Launches of the longest row of periods of one length, and how many. */
static void
trace_say(int gpu, const struct sl_trace *trace, const char *path)
{
	uint32_t steady = 0, launches, alike = 0;

	if (sl_trace_steady(trace, &steady))
		return;
	launches = sl_trace_period_launches(trace, steady);
	for (uint32_t p = 0; p < trace->n_periods; p++)
		alike += sl_trace_period_launches(trace, p) == launches;
	if (trace->n_periods == 1)
		pl_note("GPU %d: %u launches recorded in %s: nothing repeats", gpu,
			trace->n_launches, path);
	else
		pl_note("GPU %d: %u launches recorded in %s: %u times the same %u", gpu,
			trace->n_launches, path, alike, launches);
}

static void
trace_write(int gpu, int is_first, const struct sl_trace *trace)
{
	struct pl_output output = {.final = ""};
	char suffix[16] = "";
	int rc;

	if (!is_first)
		snprintf(suffix, sizeof(suffix), ".gpu%d", gpu);
	rc = pl_output_begin(&output, pl_settings()->record_path, suffix);
	if (rc) {
		pl_error("no trace can be written to %s: %s", pl_settings()->record_path,
			 strerror(-rc));
		return;
	}
	rc = sl_trace_write(trace, output.temporary, 0);
	if (rc)
		pl_error("%s", sluice_last_error());
	rc = pl_output_end(&output, rc, "the trace is");
	if (!rc)
		trace_say(gpu, trace, output.final);
}

static void
record_write(int gpu, int is_first, struct sl_record *record)
{
	struct sl_trace *trace;
	uint64_t dropped = 0;

	if (atomic_load(&small_peak[gpu]))
		sl_record_tensor(record, SMALL_SERIAL, atomic_load(&small_peak[gpu]),
				 "small blocks", 0);
	if (sl_record_end(record, &trace, &dropped)) {
		pl_note("GPU %d: %s", gpu, sluice_last_error());
		return;
	}
	trace_write(gpu, is_first, trace);
	if (dropped)
		pl_note("GPU %d: %llu records found no room in the trace", gpu,
			(unsigned long long)dropped);
	sl_trace_destroy(trace);
}

void
pl_tracing_close(void)
{
	struct sl_record *all[PL_GPUS_MAX] = {NULL};
	uint64_t untimed, blind;
	int is_first = 1;

	if (!pl_settings()->record_path[0])
		return;
	pl_enter();
	sl_mutex_lock(&closing); /* another thread may be at it, and the end has to wait for that */
	sl_rwlock_write(&gate);
	if (atomic_load(&pl_tracing_state) != PL_TRACING_OFF) {
		timings_collect(TIMINGS_MAX, 1);
		atomic_store(&pl_tracing_state, PL_TRACING_OFF);
		memcpy(all, records, sizeof(all));
		memset(records, 0, sizeof(records));
	}
	sl_rwlock_unlock(&gate);
	for (int gpu = 0; gpu < (int)PL_GPUS_MAX; gpu++) {
		if (!all[gpu])
			continue;
		record_write(gpu, is_first, all[gpu]);
		is_first = 0;
	}
	untimed = atomic_load(&n_untimed) + atomic_load(&flying);
	blind = atomic_load(&n_all);
	if (!is_first && untimed)
		pl_note("%llu launches are recorded without a time",
			(unsigned long long)untimed);
	if (!is_first && blind)
		pl_note("%llu recorded launches may use more than their arguments name",
			(unsigned long long)blind);
	sl_mutex_unlock(&closing);
	pl_leave();
}
