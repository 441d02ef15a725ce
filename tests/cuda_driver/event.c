/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's events: points in a stream's order, with a time on request. A wait for
 * an event is for its last point at the time when the wait was queued. Recording it again or
 * destroying it changes nothing for that wait.
 *
 * Threads: any; the.lock.
 */
#include <stdlib.h>

#include "internal.h"

void
event_put(struct event *event)
{
	if (--event->refs)
		return;
	if (event->recorded)
		stream_put(event->point.stream);
	free(event);
}

/* Prologue of calls on an event, with the lock taken on success (and only then). */
static int
event_enter(enum call call, struct cu_event *handle, struct cu_context **context,
	    struct event **event)
{
	int code = call_enter(call, NEEDS_CONTEXT, context);

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	*event = (struct event *)object_find(handle, OBJECT_EVENT);
	if (*event)
		return CU_SUCCESS;
	pthread_mutex_unlock(&the.lock);
	return violate(CU_ERROR_INVALID_HANDLE, "%s: no such event %p", call_name(call),
		       (void *)handle);
}

int
cuEventCreate(struct cu_event **event, unsigned flags)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuEventCreate, NEEDS_CONTEXT, &context);
	struct event *new;

	if (code)
		return code;
	if (flags & ~3u)
		return violate(CU_ERROR_INVALID_VALUE, "cuEventCreate: flags %#x", flags);
	new = must_alloc(1, sizeof(*new));
	new->context = context;
	new->flags = flags;
	new->refs = 1;
	pthread_mutex_lock(&the.lock);
	*event = (struct cu_event *)object_add(&new->object, OBJECT_EVENT);
	the.live.events++;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuEventDestroy_v2(struct cu_event *handle)
{
	struct cu_context *context;
	struct event *event;
	int code = event_enter(CALL_cuEventDestroy, handle, &context, &event);

	if (code)
		return code;
	object_remove(&event->object);
	the.live.events--;
	event_put(event);
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

static int
event_is_pending(const struct event *event)
{
	return event->recorded && event->point.stream->seq_done < event->point.seq;
}

int
event_op_submit(struct stream *stream, struct op *op)
{
	struct event *event = op->event;
	int code;

	if (op->kind == OP_WAIT) {
		if (event_is_pending(event))
			op_wait_for(op, event->point.stream, event->point.seq);
		return op_submit(stream, op);
	}
	event->refs++;
	stream_get(stream);
	code = op_submit(stream, op);
	/* Not executed yet: the lock is held from its queuing on. */
	if (!code) {
		event->captured = 0;
		if (event->recorded)
			stream_put(event->point.stream);
		stream_get(stream);
		event->recorded = 1;
		event->time_ns = 0;
		event->point = (struct point){stream, stream->seq_queued};
	}
	stream_put(stream);
	event_put(event);
	return code;
}

int
cuEventRecord(struct cu_event *handle, struct cu_stream *stream_handle)
{
	struct cu_context *context;
	struct stream *stream;
	struct event *event;
	int code = event_enter(CALL_cuEventRecord, handle, &context, &event);
	struct op *op;

	if (code)
		return code;
	stream = stream_from_handle(context, stream_handle);
	if (!stream || stream->context != event->context) {
		pthread_mutex_unlock(&the.lock);
		return violate(CU_ERROR_INVALID_HANDLE,
			       "cuEventRecord: no such stream %p, or of another context",
			       (void *)stream_handle);
	}
	if (stream->capture) { /* where the capture is now: no node */
		capture_record(stream, event);
		pthread_mutex_unlock(&the.lock);
		return CU_SUCCESS;
	}
	op = op_new(OP_RECORD, CALL_cuEventRecord);
	op->event = event;
	event->refs++;
	code = event_op_submit(stream, op);
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuEventQuery(struct cu_event *handle)
{
	struct cu_context *context;
	struct event *event;
	int code = event_enter(CALL_cuEventQuery, handle, &context, &event);

	if (code)
		return code;
	if (event->captured)
		code = capture_spoil_event(event, CALL_cuEventQuery);
	else if (event->context->lost)
		code = event->context->lost;
	else if (event_is_pending(event))
		code = CU_ERROR_NOT_READY;
	if (event->recorded && !event->captured)
		stream_want(event->point.stream, event->point.seq);
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuEventSynchronize(struct cu_event *handle)
{
	struct cu_context *context;
	struct event *event;
	int code = event_enter(CALL_cuEventSynchronize, handle, &context, &event);
	struct point point;

	if (code)
		return code;
	if (event->captured) {
		code = capture_spoil_event(event, CALL_cuEventSynchronize);
		pthread_mutex_unlock(&the.lock);
		return code;
	}
	if (event->recorded) {
		point = event->point;
		stream_get(point.stream);
		point_wait(point.stream, point.seq);
		stream_put(point.stream);
	}
	code = context->lost;
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuEventElapsedTime(float *ms, struct cu_event *begin_handle, struct cu_event *end_handle)
{
	struct cu_context *context;
	struct event *begin, *end;
	int code = event_enter(CALL_cuEventElapsedTime, begin_handle, &context, &begin);

	if (code)
		return code;
	end = (struct event *)object_find(end_handle, OBJECT_EVENT);
	if (!end || !begin->recorded || !end->recorded ||
	    ((begin->flags | end->flags) & CU_EVENT_UNTIMED))
		code = violate(
			CU_ERROR_INVALID_HANDLE,
			"cuEventElapsedTime: an event was not recorded, or has no time");
	else if (event_is_pending(begin) || event_is_pending(end))
		code = CU_ERROR_NOT_READY;
	else
		*ms = (float)((double)(int64_t)(end->time_ns - begin->time_ns) / 1e6);
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuStreamWaitEvent(struct cu_stream *handle, struct cu_event *event_handle, unsigned flags)
{
	struct cu_context *context;
	struct stream *stream;
	struct event *event;
	int code = stream_enter(CALL_cuStreamWaitEvent, handle, &context, &stream);
	struct op *op;

	if (code)
		return code;
	event = (struct event *)object_find(event_handle, OBJECT_EVENT);
	if (!event) {
		code = violate(CU_ERROR_INVALID_HANDLE,
			       "cuStreamWaitEvent: no such event %p", (void *)event_handle);
	} else if (flags) {
		code = violate(CU_ERROR_INVALID_VALUE, "cuStreamWaitEvent: flags %#x", flags);
	} else if (stream->capture || event->captured) {
		code = capture_wait(stream, event, CALL_cuStreamWaitEvent);
	} else if (event_is_pending(event)) {
		op = op_new(OP_WAIT, CALL_cuStreamWaitEvent);
		op_wait_for(op, event->point.stream, event->point.seq);
		code = op_submit(stream, op);
	}
	pthread_mutex_unlock(&the.lock);
	return code;
}
