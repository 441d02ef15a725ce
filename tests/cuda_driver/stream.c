/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's streams: queues, each emptied in order by a thread of its own. The first
 * piece of work makes it.
 *
 * All order among work is by points (stream, sequence number) that a piece of work waits for
 * before it runs. So are waits for events. The legacy stream waits for all blocking streams of
 * its context, and they for it. The queues of a lost context are emptied without running
 * anything.
 *
 * Threads: calls on any; a stream's work on its thread, with the.lock except while it runs.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

static _Thread_local char thread_mark;

/* ---- references ---- */

void
stream_get(struct stream *stream)
{
	stream->refs++;
}

void
stream_put(struct stream *stream)
{
	if (--stream->refs)
		return;
	pthread_cond_destroy(&stream->work);
	free(stream);
}

/* ---- work ---- */

struct op *
op_new(enum op_kind kind, enum call call)
{
	struct op *op = must_alloc(1, sizeof(*op));

	op->kind = kind;
	op->call = call;
	return op;
}

void
op_free(struct op *op)
{
	for (size_t i = 0; i < op->n_points; i++)
		stream_put(op->points[i].stream);
	free(op->points);
	free(op->staged);
	if (op->event)
		event_put(op->event);
	if (op->launch)
		launch_free(op->launch);
	if (op->inside)
		graph_inside_free(op->inside);
	free(op->before);
	free(op);
}

void
op_wait_for(struct op *op, struct stream *stream, uint64_t seq)
{
	if (stream->seq_done >= seq)
		return;
	op->points = realloc(op->points, (op->n_points + 1) * sizeof(*op->points));
	if (!op->points)
		abort();
	stream_get(stream);
	op->points[op->n_points++] = (struct point){stream, seq};
}

/* Somebody waits for all up to seq. */
void
stream_want(struct stream *stream, uint64_t seq)
{
	if (seq <= stream->seq_wanted)
		return;
	stream->seq_wanted = seq;
	pthread_cond_broadcast(&stream->work);
}

void
point_wait(struct stream *stream, uint64_t seq)
{
	stream_want(stream, seq);
	while (stream->seq_done < seq && !stream->context->lost)
		pthread_cond_wait(&the.done, &the.lock);
}

/* ---- a stream's thread ---- */

/* In late mode: until somebody wants it, or the time is up. */
static void
op_be_late(struct stream *stream, const struct op *op)
{
	uint64_t ns = the.settings.late_ns;
	struct timespec until;

	if (!ns)
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	ns += (uint64_t)until.tv_nsec;
	until.tv_sec += (time_t)(ns / 1000000000u);
	until.tv_nsec = (long)(ns % 1000000000u);
	while (stream->seq_wanted < op->seq && !stream->context->lost)
		if (pthread_cond_timedwait(&stream->work, &the.lock, &until))
			return;
}

static void
stream_unlink(struct stream *stream)
{
	struct stream **slot = &stream->context->streams;

	while (*slot != stream)
		slot = &(*slot)->next;
	*slot = stream->next;
}

static void *
stream_work(void *argument)
{
	struct stream *stream = argument;
	struct cu_context *context = stream->context;
	struct op *op;
	int code;

	pthread_mutex_lock(&the.lock);
	for (;;) {
		while (!stream->head && !stream->destroyed)
			pthread_cond_wait(&stream->work, &the.lock);
		op = stream->head;
		if (!op)
			break;
		op_be_late(stream, op);
		for (size_t i = 0; i < op->n_points; i++) {
			struct point *point = &op->points[i];

			stream_want(point->stream, point->seq);
			while (point->stream->seq_done < point->seq && !context->lost)
				pthread_cond_wait(&the.done, &the.lock);
		}
		code = context->lost ? 0 : op_run(stream, op);
		if (code)
			context_lose(context, code);
		stream->head = op->next;
		if (!stream->head)
			stream->tail = &stream->head;
		stream->n_queued--;
		stream->seq_done = op->seq;
		op_free(op);
		pthread_cond_broadcast(&the.done);
	}
	stream->started = 0;
	stream_unlink(stream);
	stream_put(stream);
	the.n_workers_leaving--;
	pthread_cond_broadcast(&the.done);
	pthread_mutex_unlock(&the.lock);
	return NULL;
}

static int
stream_start(struct stream *stream)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (stream->started)
		return CU_SUCCESS;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	stream_get(stream);
	sigfillset(&all); /* signals are the program's, but what a touch of its own raises */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, &attr, stream_work, stream);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (rc) {
		stream_put(stream);
		return CU_ERROR_OPERATING_SYSTEM;
	}
	stream->started = 1;
	return CU_SUCCESS;
}

int
op_submit(struct stream *stream, struct op *op)
{
	struct cu_context *context = stream->context;
	struct stream *other;
	int code;

	if (stream->capture)
		return capture_add(stream, op);
	code = stream == context->legacy ? capture_spoil_legacy(context, op->call) : 0;
	if (code) {
		op_free(op);
		return code;
	}
	code = stream_start(stream);
	stream_get(stream);
	while (!code && stream->n_queued >= QUEUE_MAX && !context->lost) {
		stream_want(stream, stream->seq_queued);
		pthread_cond_wait(&the.done, &the.lock);
	}
	if (!code)
		code = context->lost;
	if (!code && stream->destroyed)
		code = violate(CU_ERROR_INVALID_HANDLE, "%s: stream destroyed meanwhile",
			       call_name(op->call));
	if (code) {
		op_free(op);
		stream_put(stream);
		return code;
	}
	if (stream == context->legacy) {
		for (other = context->streams; other; other = other->next)
			if (other != stream && !(other->flags & CU_STREAM_NONBLOCKING))
				op_wait_for(op, other, other->seq_queued);
	} else if (!(stream->flags & CU_STREAM_NONBLOCKING)) {
		op_wait_for(op, context->legacy, context->legacy->seq_queued);
	}
	op->seq = ++stream->seq_queued;
	*stream->tail = op;
	stream->tail = &op->next;
	stream->n_queued++;
	pthread_cond_broadcast(&stream->work);
	stream_put(stream);
	return CU_SUCCESS;
}

static int
place_overlaps(const struct place *place, size_t place_bytes, uint64_t addr, size_t bytes,
	       int gpu)
{
	return place->addr && place->gpu == gpu && place->addr < addr + bytes &&
	       addr < place->addr + place_bytes;
}

const char *
work_in_range(uint64_t addr, size_t bytes, int gpu)
{
	const struct stream *stream;
	const struct op *op;

	for (int i = 0; i < the.settings.n_devices; i++)
		for (stream = the.contexts[i].streams; stream; stream = stream->next)
			for (op = the.contexts[i].lost ? NULL : stream->head; op;
			     op = op->next)
				if (place_overlaps(&op->to, op->bytes, addr, bytes, gpu) ||
				    place_overlaps(&op->from, op->bytes, addr, bytes, gpu))
					return call_name(op->call);
	return NULL;
}

/* ---- streams of a context ---- */

static struct stream *
stream_new(struct cu_context *context, unsigned flags, int priority)
{
	struct stream *stream = must_alloc(1, sizeof(*stream));

	stream->context = context;
	stream->flags = flags;
	stream->priority = priority;
	stream->tail = &stream->head;
	stream->refs = 1;
	pthread_cond_init(&stream->work, NULL);
	stream->next = context->streams;
	context->streams = stream;
	return stream;
}

void
context_streams_create(struct cu_context *context)
{
	context->legacy = stream_new(context, CU_STREAM_PLAIN, 0);
}

/* Its work goes on; the last to leave is its thread. */
static void
stream_leave(struct stream *stream)
{
	capture_drop(stream);
	if (stream->object.id) {
		object_remove(&stream->object);
		the.live.streams--;
	}
	stream->destroyed = 1;
	if (stream->started) {
		the.n_workers_leaving++;
		pthread_cond_broadcast(&stream->work);
	} else {
		stream_unlink(stream);
	}
	stream_put(stream);
}

void
context_streams_destroy(struct cu_context *context)
{
	struct stream *stream, *next;

	for (stream = context->streams; stream; stream = next) {
		next = stream->next;
		if (!stream->destroyed)
			stream_leave(stream);
	}
	while (context->streams)
		pthread_cond_wait(&the.done, &the.lock);
	context->legacy = NULL;
}

int
context_drain(struct cu_context *context)
{
	struct stream *stream;
	struct op *op = op_new(OP_WAIT, CALL_cuCtxSynchronize); /* keeps the points */
	int code;

	for (stream = context->streams; stream; stream = stream->next) {
		op_wait_for(op, stream, stream->seq_queued);
		stream_want(stream, stream->seq_queued);
	}
	for (size_t i = 0; i < op->n_points; i++)
		point_wait(op->points[i].stream, op->points[i].seq);
	code = context->lost;
	op_free(op);
	return code;
}

struct stream *
stream_from_handle(struct cu_context *context, struct cu_stream *handle)
{
	struct stream *stream;

	if (!handle || handle == CU_LEGACY_STREAM)
		return context->legacy;
	if (handle != CU_PER_THREAD_STREAM)
		return (struct stream *)object_find(handle, OBJECT_STREAM);
	for (stream = context->streams; stream; stream = stream->next)
		if (stream->owner == &thread_mark)
			return stream;
	stream = stream_new(context, CU_STREAM_PLAIN, 0);
	stream->owner = &thread_mark;
	return stream;
}

/* Prologue of calls on a stream, with the lock taken on success (and only then). */
int
stream_enter(enum call call, struct cu_stream *handle, struct cu_context **context,
	     struct stream **stream)
{
	int code = call_enter(call, NEEDS_CONTEXT, context);

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	*stream = stream_from_handle(*context, handle);
	if (*stream)
		return CU_SUCCESS;
	pthread_mutex_unlock(&the.lock);
	return violate(CU_ERROR_INVALID_HANDLE, "%s: no such stream %p", call_name(call),
		       (void *)handle);
}

int
cuStreamCreateWithPriority(struct cu_stream **stream, unsigned flags, int priority)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuStreamCreateWithPriority, NEEDS_CONTEXT, &context);
	struct stream *new;

	if (code)
		return code;
	if (flags & ~1u)
		return violate(CU_ERROR_INVALID_VALUE,
			       "cuStreamCreateWithPriority: flags %#x", flags);
	pthread_mutex_lock(&the.lock);
	new = stream_new(context, flags, priority);
	*stream = (struct cu_stream *)object_add(&new->object, OBJECT_STREAM);
	the.live.streams++;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuStreamCreate(struct cu_stream **stream, unsigned flags)
{
	struct cu_context *context;
	int code = call_enter(CALL_cuStreamCreate, NEEDS_CONTEXT, &context);
	struct stream *new;

	if (code)
		return code;
	if (flags & ~1u)
		return violate(CU_ERROR_INVALID_VALUE, "cuStreamCreate: flags %#x", flags);
	pthread_mutex_lock(&the.lock);
	new = stream_new(context, flags, 0);
	*stream = (struct cu_stream *)object_add(&new->object, OBJECT_STREAM);
	the.live.streams++;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuStreamDestroy_v2(struct cu_stream *handle)
{
	struct cu_context *context;
	struct stream *stream;
	int code = stream_enter(CALL_cuStreamDestroy, handle, &context, &stream);

	if (code)
		return code;
	if (stream->object.id)
		stream_leave(stream);
	else
		code = violate(CU_ERROR_INVALID_HANDLE,
			       "cuStreamDestroy: a default stream");
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
stream_observe(struct stream *stream, enum call call)
{
	if (stream->capture)
		return capture_spoil(stream, CU_ERROR_STREAM_CAPTURE_UNSUPPORTED, call,
				     "the stream is being captured");
	return stream == stream->context->legacy
		       ? capture_spoil_legacy(stream->context, call)
		       : 0;
}

int
cuStreamSynchronize(struct cu_stream *handle)
{
	struct cu_context *context;
	struct stream *stream;
	int code = stream_enter(CALL_cuStreamSynchronize, handle, &context, &stream);
	uint64_t seq;

	if (code)
		return code;
	code = stream_observe(stream, CALL_cuStreamSynchronize);
	if (!code) {
		seq = stream->seq_queued;
		stream_get(stream);
		point_wait(stream, seq);
		code = stream->context->lost;
		stream_put(stream);
	}
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuStreamQuery(struct cu_stream *handle)
{
	struct cu_context *context;
	struct stream *stream;
	int code = stream_enter(CALL_cuStreamQuery, handle, &context, &stream);

	if (code)
		return code;
	code = stream_observe(stream, CALL_cuStreamQuery);
	if (code)
		;
	else if (stream->context->lost)
		code = stream->context->lost;
	else if (stream->seq_done < stream->seq_queued)
		code = CU_ERROR_NOT_READY;
	stream_want(stream, stream->seq_queued);
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuLaunchHostFunc(struct cu_stream *handle, cu_host_function function, void *argument)
{
	struct cu_context *context;
	struct stream *stream;
	int code = stream_enter(CALL_cuLaunchHostFunc, handle, &context, &stream);
	struct op *op;

	if (code)
		return code;
	if (function) {
		op = op_new(OP_HOST, CALL_cuLaunchHostFunc);
		op->host_function = function;
		op->host_argument = argument;
		code = op_submit(stream, op);
	} else {
		code = violate(CU_ERROR_INVALID_VALUE, "cuLaunchHostFunc: no function");
	}
	pthread_mutex_unlock(&the.lock);
	return code;
}
