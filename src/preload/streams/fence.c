/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our events on the program's streams, and fences made of them: the queued work of some streams,
 * to be asked about later. arena.c uses them before freed room is reused, stream.c for destroyed
 * streams.
 *
 * A stream that is being captured takes no event of ours. If the capture was begun on it, its
 * earlier work is known (its tail). Else it is asked again when the capture has ended. For a
 * stream that was destroyed unseen an event covers all of its context, if the driver has that
 * call, or the legacy stream waits for it. If neither works, the context is waited for.
 *
 * Events are pooled by context, since an event and its stream must be in one. They are not
 * destroyed: their number is the highest that fences held at a time. Context errors count as
 * passed: nothing runs there any more.
 *
 * Threads: any. The callers have begun pl_enter().
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/fault_point.h"
#include "device/cuda/cuda_driver.h"
#include "preload/api/api_foreign.h"
#include "preload/api/api_stream.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/streams/capture.h"
#include "preload/streams/fence.h"
#include "preload/streams/stream.h"
#include "preload/streams/stream_internal.h"

struct fence_part {
	struct pl_stream_ref ref; /* stream NULL: it was recorded: event says, or it has passed */
	struct pl_event *event;
};

struct pl_fence {
	_Atomic unsigned references; /* beyond the first */
	struct pl_gpu *gpu;
	size_t n;
	struct fence_part parts[];
};

static struct sl_mutex events_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);
static struct pl_event *pool; /* events_lock */
static struct pl_event *used; /* events_lock: the others, so that an end of a context finds them */

/* ---- contexts ---- */

struct cu_context *
pl_context_current(void)
{
	struct cu_context *context = NULL;

	(void)PL_REAL(cuCtxGetCurrent)(&context);
	return context;
}

int
pl_context_push(struct cu_context *context)
{
	if (!context || pl_context_current() == context)
		return 0;
	return PL_REAL(cuCtxPushCurrent_v2)(context) ? -1 : 1;
}

void
pl_context_pop(int pushed)
{
	struct cu_context *context;

	if (pushed == 1)
		(void)PL_REAL(cuCtxPopCurrent_v2)(&context);
}

/* ---- events ---- */

static void
fence_list_remove(struct pl_event **list, struct pl_event *event)
{
	while (*list != event)
		list = &(*list)->next;
	*list = event->next;
}

/* One of this context, which is current. NULL: no memory. */
static struct pl_event *
event_get(struct cu_context *context)
{
	struct pl_event *event;

	sl_mutex_lock(&events_lock);
	for (event = pool; event && event->context != context; event = event->next)
		;
	if (event)
		fence_list_remove(&pool, event);
	sl_mutex_unlock(&events_lock);
	if (!event) {
		event = sl_calloc(1, sizeof(*event));
		if (!event || PL_REAL(cuEventCreate)(&event->handle, CU_EVENT_UNTIMED)) {
			free(event);
			return NULL;
		}
		event->context = context;
	}
	event->references = 1;
	atomic_store(&event->passed, 0);
	sl_mutex_lock(&events_lock);
	event->next = used;
	used = event;
	sl_mutex_unlock(&events_lock);
	return event;
}

struct pl_event *
pl_event_hold(struct pl_event *event)
{
	sl_mutex_lock(&events_lock);
	event->references++;
	sl_mutex_unlock(&events_lock);
	return event;
}

void
pl_event_put(struct pl_event *event)
{
	int last;

	sl_mutex_lock(&events_lock);
	last = !--event->references;
	if (last)
		fence_list_remove(&used, event);
	if (last && !event->orphan) {
		event->next = pool;
		pool = event;
		last = 0;
	}
	sl_mutex_unlock(&events_lock);
	if (last) /* its context has taken it along */
		free(event);
}

void
pl_event_context_gone(struct cu_context *context)
{
	struct pl_event **at, *event;

	sl_mutex_lock(&events_lock);
	for (event = used; event; event = event->next) {
		if (event->context != context)
			continue;
		event->orphan = 1;
		atomic_store(&event->passed, 1);
	}
	for (at = &pool; *at;) {
		event = *at;
		if (event->context != context) {
			at = &event->next;
			continue;
		}
		*at = event->next;
		free(event);
	}
	sl_mutex_unlock(&events_lock);
}

/* After these the context is of no use, and nothing runs in it. */
static int
result_is_end(int result)
{
	return sl_cuda_result_is_lost(result);
}

bool
pl_event_passed(struct pl_event *event)
{
	int pushed, result;

	if (atomic_load(&event->passed))
		return true;
	pushed = pl_context_push(event->context);
	result = pushed < 0 ? 0 : PL_REAL(cuEventQuery)(event->handle);
	pl_context_pop(pushed);
	if (result && !result_is_end(result))
		return false;
	atomic_store(&event->passed, 1);
	return true;
}

/* Until the event has passed. CUresult. */
static int
fence_event_await(struct pl_event *event)
{
	int pushed = pl_context_push(event->context);
	int result = pushed < 0 ? CU_SUCCESS : PL_REAL(cuEventSynchronize)(event->handle);

	pl_context_pop(pushed);
	if (result && !result_is_end(result))
		return result;
	atomic_store(&event->passed, 1);
	return CU_SUCCESS;
}

/* ---- recording ---- */

/* The stream is being captured, or is the legacy one, which must not be used while another is. Its
 * context is current. */
static bool
stream_is_captured(const struct pl_stream *s)
{
	int status = CU_CAPTURE_NONE;
	int result;

	if (!atomic_load(&pl_captures))
		return false;
	result = PL_REAL(cuStreamIsCapturing)(s->handle, &status);
	return result == CU_ERROR_STREAM_CAPTURE_IMPLICIT ||
	       (!result && status != CU_CAPTURE_NONE);
}

static enum pl_record_result
result_record(int result)
{
	switch (result) {
	case CU_SUCCESS:
		return PL_RECORDED;
	case CU_ERROR_STREAM_CAPTURE_UNSUPPORTED:
	case CU_ERROR_STREAM_CAPTURE_IMPLICIT:
	case CU_ERROR_STREAM_CAPTURE_INVALIDATED:
		return PL_RECORD_LATER;
	case CU_ERROR_OUT_OF_MEMORY:
		return PL_RECORD_NOMEM;
	}
	return result_is_end(result) ? PL_RECORD_NONE : PL_RECORD_NEVER;
}

/* Behind all that the context has. legacy_does: the legacy stream would wait for the one that is meant.
 * The context is current. Not while something is captured: the call would spoil that. */
static enum pl_record_result
context_record(struct pl_event *event, int legacy_does)
{
	enum pl_record_result recorded;

	if (pl_captures_running())
		return PL_RECORD_LATER;
	recorded = result_record(PL_REAL(cuCtxRecordEvent)(event->context, event->handle));
	if (recorded != PL_RECORD_NEVER || !legacy_does)
		return recorded;
	return result_record(PL_REAL(cuEventRecord)(event->handle, CU_LEGACY_STREAM));
}

/* With s->lock, and its context current. */
static enum pl_record_result
live_record(struct pl_stream *s, struct pl_event **out)
{
	int foreign = s->thread && s->thread != pl_thread_number();
	struct pl_event *event;
	enum pl_record_result recorded;

	if (!foreign && stream_is_captured(s)) {
		if (!s->tail)
			return PL_RECORD_LATER;
		*out = pl_event_hold(s->tail);
		return PL_RECORDED;
	}
	event = event_get(s->context);
	if (!event)
		return PL_RECORD_NOMEM;
	recorded = foreign ? context_record(event, 1)
			   : result_record(PL_REAL(cuEventRecord)(event->handle, s->handle));
	/* A capture that began in between has our event now: it adds nothing, and may be recorded
	 * again, but must not be asked. */
	if (recorded == PL_RECORDED && !foreign && s->handle != CU_LEGACY_STREAM &&
	    stream_is_captured(s))
		recorded = PL_RECORD_LATER;
	if (recorded == PL_RECORD_NEVER && !foreign) /* no such stream any more */
		pl_stream_lost(s);
	if (recorded == PL_RECORDED)
		*out = event;
	else
		pl_event_put(event);
	return recorded;
}

/* The same of a stream that is destroyed. */
static enum pl_record_result
gone_record(struct pl_stream *s, struct pl_event **out)
{
	enum pl_record_result recorded;
	struct pl_event *event;

	if (!s->last && s->tail) /* destroyed while it was captured */
		s->last = pl_event_hold(s->tail);
	if (!s->last) {
		event = event_get(s->context);
		if (!event)
			return PL_RECORD_NOMEM;
		recorded = context_record(event, !s->nonblocking);
		if (recorded != PL_RECORDED) {
			pl_event_put(event);
			return recorded;
		}
		s->last = event;
	}
	*out = pl_event_hold(s->last);
	return PL_RECORDED;
}

enum pl_record_result
pl_stream_record(const struct pl_stream_ref *ref, struct pl_event **out)
{
	struct pl_stream *s = ref->stream;
	enum pl_record_result recorded = PL_RECORD_NONE;
	int pushed;

	sl_mutex_lock(&s->lock);
	/* Free, or another's since: nothing of it was left. What is not free stays so while it is locked. */
	if (atomic_load(&s->state) == PL_STREAM_FREE || s->generation != ref->generation) {
		sl_mutex_unlock(&s->lock);
		return PL_RECORD_NONE;
	}
	pushed = pl_context_push(s->context);
	if (pushed >= 0 && atomic_load(&s->state) == PL_STREAM_LIVE)
		recorded = live_record(s, out);
	if (pushed >= 0 && atomic_load(&s->state) == PL_STREAM_GONE &&
	    (recorded == PL_RECORD_NONE || recorded == PL_RECORD_NEVER))
		recorded = gone_record(s, out);
	pl_context_pop(pushed);
	sl_mutex_unlock(&s->lock);
	return recorded;
}

/* ---- fences ---- */

/* Bring a part further. -ENOMEM, or 0. */
static int
part_record(struct fence_part *part)
{
	switch (pl_stream_record(&part->ref, &part->event)) {
	case PL_RECORDED:
	case PL_RECORD_NONE:
		part->ref.stream = NULL;
		return 0;
	case PL_RECORD_NOMEM:
		return -ENOMEM;
	case PL_RECORD_LATER:
	case PL_RECORD_NEVER:
		return 0;
	}
	return 0;
}

/* 1: passed. */
static bool
part_passed(struct fence_part *part)
{
	if (part->ref.stream)
		(void)part_record(part);
	if (part->ref.stream)
		return false;
	if (!part->event)
		return true;
	if (!pl_event_passed(part->event))
		return false;
	pl_event_put(part->event);
	part->event = NULL;
	return true;
}

static void
fence_free(struct pl_fence *fence)
{
	for (size_t i = 0; i < fence->n; i++)
		if (fence->parts[i].event)
			pl_event_put(fence->parts[i].event);
	free(fence);
}

int
pl_fence_make(struct pl_gpu *gpu, uint64_t mask, struct pl_fence **out)
{
	struct pl_stream_ref *list = NULL;
	struct pl_fence *fence = NULL;
	int n = pl_stream_list(gpu, mask, &list), rc = n < 0 ? n : 0, token;

	if (!rc)
		fence = sl_calloc(1, sizeof(*fence) + (size_t)n * sizeof(fence->parts[0]));
	if (!rc && !fence)
		rc = -ENOMEM;
	if (!rc) {
		fence->gpu = gpu;
		token = pl_capture_relax();
		pl_enter();
		while (!rc && fence->n < (size_t)n) {
			struct fence_part *part = &fence->parts[fence->n];

			part->ref = list[fence->n++];
			rc = part_record(part);
		}
		pl_leave();
		pl_capture_restore(token);
	}
	free(list);
	if (rc) {
		if (fence)
			fence_free(fence);
		return rc;
	}
	*out = fence;
	return 0;
}

bool
pl_fence_passed(struct pl_fence *fence)
{
	int token = pl_capture_relax();

	pl_enter();
	while (fence->n && part_passed(&fence->parts[fence->n - 1]))
		fence->n--;
	pl_leave();
	pl_capture_restore(token);
	if (fence->n)
		return false;
	fence_free(fence);
	return true;
}

/* Until the part has passed. 0, or -EBUSY. */
static int
part_wait(struct pl_gpu *gpu, struct fence_part *part)
{
	int pushed, result;

	if (part_passed(part))
		return 0;
	if (!part->ref.stream)
		return fence_event_await(part->event) ? -EBUSY : 0;
	if (atomic_load(&part->ref.stream->state) != PL_STREAM_GONE || pl_captures_running())
		return -EBUSY;
	pushed = pl_context_push(part->ref.context);
	result = pushed < 0 ? 0 : PL_REAL(cuCtxSynchronize)();
	pl_context_pop(pushed);
	if (result && !result_is_end(result))
		return -EBUSY;
	pl_stream_idle(gpu, &part->ref);
	part->ref.stream = NULL;
	return 0;
}

int
pl_fence_wait(struct pl_fence *fence)
{
	int token = pl_capture_relax(), rc = 0;

	pl_enter();
	for (size_t i = 0; i < fence->n && !rc; i++)
		rc = part_wait(fence->gpu, &fence->parts[i]);
	pl_leave();
	pl_capture_restore(token);
	if (!rc)
		fence_free(fence);
	return rc;
}

/* ---- fences that stand ---- */

struct pl_fence *
pl_fence_hold(struct pl_fence *fence)
{
	if (fence)
		atomic_fetch_add(&fence->references, 1);
	return fence;
}

void
pl_fence_put(struct pl_fence *fence)
{
	if (fence && !atomic_fetch_sub(&fence->references, 1))
		fence_free(fence);
}

bool
pl_fence_is_whole(const struct pl_fence *fence)
{
	for (size_t i = 0; i < fence->n; i++)
		if (fence->parts[i].ref.stream)
			return false;
	return true;
}

int
pl_fence_follow(const struct pl_fence *fence, struct cu_stream *stream,
		enum pl_default_stream flavour, uint64_t mask)
{
	struct cu_stream *handle = pl_stream_handle(stream, flavour);
	int result = CU_SUCCESS, token = pl_capture_relax();

	pl_enter();
	for (size_t i = 0; i < fence->n && !result; i++) {
		struct pl_event *event = fence->parts[i].event;

		if (!event || !(mask >> fence->parts[i].ref.bit & 1) ||
		    atomic_load(&event->passed))
			continue;
		if (PL_REAL(cuStreamWaitEvent)(handle, event->handle, 0))
			result = fence_event_await(event);
	}
	pl_leave();
	pl_capture_restore(token);
	return result ? sl_fail(-EBUSY,
				"a stream cannot wait for others that may still use what "
				"was "
				"freed: CUDA error %d",
				result)
		      : 0;
}

int
pl_fence_await(const struct pl_fence *fence)
{
	int result = CU_SUCCESS, token = pl_capture_relax();

	pl_enter();
	for (size_t i = 0; i < fence->n && !result; i++)
		if (fence->parts[i].event)
			result = fence_event_await(fence->parts[i].event);
	pl_leave();
	pl_capture_restore(token);
	return result ? sl_fail(-EBUSY,
				"work that may still use what was freed: CUDA error %d",
				result)
		      : 0;
}
