/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events, thin around the driver's. A stream is our own CUstream or one of the
 * caller's (wrap). A task enqueues its work when it is submitted. An event recorded behind it,
 * watched by the completer "streams", tells when it has ended. The first error of a stream is
 * kept for synchronize().
 *
 * At most SL_CUDA_STREAM_TASKS tasks of a stream are pending. submit then waits for the oldest,
 * unless a done() calls it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fault_point.h"
#include "device/cuda/cuda.h"

#define SL_CUDA_STREAM_TASKS 1024u
#define CAPTURE_PAUSE_NS     1000000

struct sl_stream {
	struct cuda *cuda;        /* set once */
	struct cu_stream *native; /* set once */
	int owned;                /* set once */
	struct cuda_queue queue;  /* of the completer */
	struct sl_mutex lock;     /* rank MOVES: below */
	int rc;                   /* first error since the last synchronize */
	char text[SL_ERROR_TEXT_BYTES];
	struct cuda_pending *spare; /* events of ended tasks, for reuse */
	_Atomic unsigned n_pending;
};

struct sl_event {
	struct cuda *cuda;
	struct cu_event *native;
};

/* A task that is under way. */
struct stream_end {
	struct cuda_pending pending; /* first; its event is ours */
	struct sl_stream *stream;
	struct sl_task *task;
	int rc; /* of run() */
};

static int
stream_create(struct sl_device *dev, struct cu_stream *native, int owned,
	      struct sl_stream **out)
{
	struct sl_stream *stream = sl_calloc(1, sizeof(*stream));

	if (!stream)
		return sl_fail(-ENOMEM, "stream: out of memory");
	stream->cuda = sl_cuda_of(dev);
	stream->native = native;
	stream->owned = owned;
	sl_mutex_init(&stream->lock, SL_RANK_MOVES);
	*out = stream;
	return 0;
}

int
sl_cuda_stream_create(struct sl_device *dev, struct sl_stream **out)
{
	struct cuda *cuda = sl_cuda_of(dev);
	struct cu_stream *native = NULL;
	int rc = sl_cuda_enter(cuda);

	if (rc)
		return rc;
	rc = CUDA_TRY(cuda, cuStreamCreate, &native, CU_STREAM_NONBLOCKING);
	if (!rc) {
		rc = stream_create(dev, native, 1, out);
		if (rc)
			(void)cuda->driver->cuStreamDestroy(native);
	}
	sl_cuda_leave(cuda);
	return rc;
}

int
sl_cuda_stream_wrap(struct sl_device *dev, void *native, struct sl_stream **out)
{
	return stream_create(dev, native, 0, out);
}

void *
sl_cuda_stream_native(struct sl_stream *stream)
{
	return stream->native;
}

static int
stream_is_legacy(const struct cu_stream *native)
{
	return !native || native == CU_LEGACY_STREAM;
}

int
sl_cuda_stream_captures(struct cuda *cuda, struct cu_stream *native)
{
	int status = CU_CAPTURE_NONE;
	int result = cuda->driver->cuStreamIsCapturing(native, &status);

	if (result == CU_ERROR_STREAM_CAPTURE_IMPLICIT) /* the legacy one: another is captured */
		return 1;
	return result ? sl_cuda_rc(cuda, result, "cuStreamIsCapturing")
		      : status != CU_CAPTURE_NONE;
}

int
sl_cuda_stream_record(struct cuda *cuda, struct cu_stream *native, struct cu_event *event)
{
	int rc = sl_cuda_stream_captures(cuda, native);

	if (!rc)
		rc = CUDA_TRY(cuda, cuEventRecord, event, native);
	/* A capture may have begun in between. The event has added nothing to it, and may be recorded
	 * again, but not asked for. */
	if (!rc && !stream_is_legacy(native))
		rc = sl_cuda_stream_captures(cuda, native);
	return rc == 1 ? -EAGAIN : rc;
}

static int
stream_refuse(int captures)
{
	return captures != 1
		       ? captures
		       : sl_fail(-EBUSY,
				 "stream: it is being captured into a graph: end the "
				 "capture, then launch the graph between "
				 "sluice_launch_begin() and sluice_launch_end() with "
				 "what "
				 "the graph uses");
}

int
sl_cuda_stream_check(struct sl_stream *stream)
{
	int rc;

	/* The default stream cannot be captured, and costs no call. */
	if (stream_is_legacy(stream->native))
		return 0;
	rc = sl_cuda_push(stream->cuda);
	if (rc)
		return rc;
	rc = sl_cuda_stream_captures(stream->cuda, stream->native);
	sl_cuda_pop(stream->cuda);
	return stream_refuse(rc);
}

static void
end_free(struct stream_end *end)
{
	if (end->pending.event)
		(void)end->stream->cuda->driver->cuEventDestroy(end->pending.event);
	free(end);
}

void
sl_cuda_stream_destroy(struct sl_stream *stream)
{
	struct cuda *cuda;

	if (!stream)
		return;
	cuda = stream->cuda;
	sl_cuda_queue_drain(&cuda->streams, &stream->queue);
	if (!sl_cuda_enter(cuda)) {
		while (stream->spare) {
			struct cuda_pending *next = stream->spare->next;

			end_free((struct stream_end *)stream->spare);
			stream->spare = next;
		}
		if (stream->owned)
			(void)cuda->driver->cuStreamDestroy(stream->native);
		sl_cuda_leave(cuda);
	}
	sl_mutex_fini(&stream->lock);
	free(stream);
}

/* Keep the first error, with the text that the calling thread has for it. */
static void
stream_blame(struct sl_stream *stream, int rc)
{
	sl_mutex_lock(&stream->lock);
	if (!stream->rc) {
		stream->rc = rc;
		strncpy(stream->text, sluice_last_error(), sizeof(stream->text) - 1);
	}
	sl_mutex_unlock(&stream->lock);
}

static int
stream_has_failed(struct sl_stream *stream)
{
	int failed;

	sl_mutex_lock(&stream->lock);
	failed = stream->rc != 0;
	sl_mutex_unlock(&stream->lock);
	return failed;
}

static void
task_end(struct cuda_pending *pending, int rc)
{
	struct stream_end *end = (struct stream_end *)pending;
	struct sl_stream *stream = end->stream;
	struct sl_task *task = end->task;

	if (rc && !end->rc)
		stream_blame(stream, rc);
	if (!end->rc)
		end->rc = rc;
	if (!end->rc && task->at_turn) {
		end->rc = task->skippable && stream_has_failed(stream) ? -ECANCELED
								       : task->run(task);
		if (end->rc && end->rc != -ECANCELED)
			stream_blame(stream, end->rc);
	}
	rc = end->rc;
	sl_mutex_lock(&stream->lock);
	end->pending.next = stream->spare;
	stream->spare = &end->pending;
	sl_mutex_unlock(&stream->lock);
	atomic_fetch_sub(&stream->n_pending, 1);
	task->done(task, rc);
}

/* A record used before, or a new one. */
static struct stream_end *
end_get(struct sl_stream *stream)
{
	struct stream_end *end;

	sl_mutex_lock(&stream->lock);
	end = (struct stream_end *)stream->spare;
	if (end)
		stream->spare = end->pending.next;
	sl_mutex_unlock(&stream->lock);
	if (!end) {
		end = sl_calloc(1, sizeof(*end));
		if (!end)
			return NULL;
		end->stream = stream;
		end->pending.done = task_end;
		end->pending.stream = stream->native;
	}
	return end;
}

/* Record the event of end, made now if need be. -EAGAIN as sl_cuda_stream_record(). Context
 * entered. */
static int
end_record(struct sl_stream *stream, struct stream_end *end)
{
	struct cuda *cuda = stream->cuda;
	int rc;

	if (!end->pending.event) {
		rc = CUDA_TRY(cuda, cuEventCreate, &end->pending.event, CU_EVENT_UNTIMED);
		if (rc) {
			end->pending.event = NULL;
			return rc;
		}
	}
	return sl_cuda_stream_record(cuda, stream->native, end->pending.event);
}

/* Until all work of the stream is done. Context entered. */
static void
stream_wait(struct sl_stream *stream)
{
	const struct timespec pause = {.tv_nsec = CAPTURE_PAUSE_NS};

	while (sl_cuda_stream_captures(stream->cuda, stream->native) == 1)
		nanosleep(&pause, NULL);
	(void)stream->cuda->driver->cuStreamSynchronize(stream->native);
}

void
sl_cuda_stream_submit(struct sl_stream *stream, struct sl_task *task)
{
	struct cuda *cuda = stream->cuda;
	struct stream_end *end = end_get(stream);
	int rc = sl_cuda_enter(cuda);
	int entered = !rc;

	if (atomic_load(&stream->n_pending) >= SL_CUDA_STREAM_TASKS &&
	    !pthread_equal(pthread_self(), cuda->streams.thread))
		sl_cuda_queue_drain(&cuda->streams, &stream->queue);
	if (!rc && !task->at_turn)
		rc = task->skippable && stream_has_failed(stream) ? -ECANCELED
								  : task->run(task);
	if (rc && rc != -ECANCELED)
		stream_blame(stream, rc);
	if (end) {
		/* Where the event fails, the end of the task is the end of all that the stream has:
		 * what it used is not let go before that, whatever fails. */
		int recorded = entered ? end_record(stream, end) : rc;

		end->task = task;
		end->rc = rc;
		end->pending.anywhere = !task->at_turn;
		end->pending.on = recorded == -EAGAIN ? CUDA_PENDING_CAPTURE
				  : recorded          ? CUDA_PENDING_STREAM
						      : CUDA_PENDING_EVENT;
		if (entered)
			sl_cuda_leave(cuda);
		atomic_fetch_add(&stream->n_pending, 1);
		sl_cuda_complete(&cuda->streams, &stream->queue, &end->pending);
		return;
	}
	/* No memory for a record: wait here. */
	if (entered) {
		stream_wait(stream);
		sl_cuda_leave(cuda);
	}
	if (!pthread_equal(pthread_self(), cuda->streams.thread))
		sl_cuda_queue_drain(&cuda->streams, &stream->queue);
	task->done(task, rc ? rc : sl_fail(-ENOMEM, "stream: out of memory"));
}

int
sl_cuda_stream_synchronize(struct sl_stream *stream)
{
	struct cuda *cuda = stream->cuda;
	char text[SL_ERROR_TEXT_BYTES];
	int rc;

	if (pthread_equal(pthread_self(), cuda->streams.thread))
		return sl_fail(
			-EINVAL,
			"stream: synchronize from a task of a stream would wait for "
			"ever");
	rc = sl_cuda_enter(cuda);
	if (rc)
		return rc;
	rc = stream_refuse(sl_cuda_stream_captures(cuda, stream->native));
	if (rc == -EBUSY) {
		sl_cuda_leave(cuda);
		return rc;
	}
	rc = CUDA_TRY(cuda, cuStreamSynchronize, stream->native);
	if (rc)
		stream_blame(stream, rc);
	sl_cuda_queue_finish(&cuda->streams, &stream->queue);
	sl_cuda_leave(cuda);
	sl_mutex_lock(&stream->lock);
	rc = stream->rc;
	stream->rc = 0;
	if (rc)
		memcpy(text, stream->text, sizeof(text));
	sl_mutex_unlock(&stream->lock);
	return rc ? sl_fail_text(rc, text) : 0;
}

int
sl_cuda_stream_gate(struct sl_stream *stream, struct sl_fence fence)
{
	int rc = sl_cuda_enter(stream->cuda);

	if (rc)
		return rc;
	/* Who enqueues has asked about other streams; for the legacy one it is asked where it costs. */
	rc = sl_cuda_fence_query(stream->cuda, fence);
	if (rc == -EAGAIN && stream_is_legacy(stream->native))
		rc = stream_refuse(sl_cuda_stream_captures(stream->cuda, stream->native));
	else if (rc == -EAGAIN)
		rc = 0;
	if (!rc)
		rc = sl_cuda_fence_gate(stream->cuda, stream->native, fence);
	sl_cuda_leave(stream->cuda);
	return rc;
}

int
sl_cuda_stream_call(struct sl_stream *stream, void (*fn)(void *arg), void *arg)
{
	struct cuda *cuda = stream->cuda;
	int rc = sl_cuda_enter(cuda);

	if (rc)
		return rc;
	rc = CUDA_TRY(cuda, cuLaunchHostFunc, stream->native, fn, arg);
	sl_cuda_leave(cuda);
	return rc;
}

int
sl_cuda_event_create(struct sl_device *dev, struct sl_event **out)
{
	struct cuda *cuda = sl_cuda_of(dev);
	struct sl_event *event = sl_calloc(1, sizeof(*event));
	int rc;

	if (!event)
		return sl_fail(-ENOMEM, "event: out of memory");
	event->cuda = cuda;
	rc = sl_cuda_enter(cuda);
	if (!rc) {
		rc = CUDA_TRY(cuda, cuEventCreate, &event->native, CU_EVENT_UNTIMED);
		sl_cuda_leave(cuda);
	}
	if (rc) {
		free(event);
		return rc;
	}
	*out = event;
	return 0;
}

void
sl_cuda_event_destroy(struct sl_event *event)
{
	if (!event)
		return;
	if (!sl_cuda_enter(event->cuda)) {
		(void)event->cuda->driver->cuEventDestroy(event->native);
		sl_cuda_leave(event->cuda);
	}
	free(event);
}

int
sl_cuda_event_record(struct sl_stream *stream, struct sl_event *event)
{
	struct cuda *cuda = stream->cuda;
	int rc = sl_cuda_enter(cuda);

	if (rc)
		return rc;
	rc = sl_cuda_stream_record(cuda, stream->native, event->native);
	sl_cuda_leave(cuda);
	return rc == -EAGAIN ? stream_refuse(1) : rc;
}

int
sl_cuda_event_wait(struct sl_stream *stream, struct sl_event *event)
{
	struct cuda *cuda = stream->cuda;
	int rc = sl_cuda_enter(cuda);

	if (rc)
		return rc;
	rc = stream_refuse(sl_cuda_stream_captures(cuda, stream->native));
	if (!rc)
		rc = CUDA_TRY(cuda, cuStreamWaitEvent, stream->native, event->native, 0);
	sl_cuda_leave(cuda);
	return rc;
}

void
sl_cuda_event_synchronize(struct sl_event *event)
{
	if (sl_cuda_enter(event->cuda))
		return;
	(void)event->cuda->driver->cuEventSynchronize(event->native);
	sl_cuda_leave(event->cuda);
}

int
sl_cuda_event_query(struct sl_event *event)
{
	int rc = sl_cuda_enter(event->cuda);
	int result;

	if (rc)
		return rc;
	result = event->cuda->driver->cuEventQuery(event->native);
	sl_cuda_leave(event->cuda);
	if (result == CU_ERROR_NOT_READY)
		return -EAGAIN;
	return sl_cuda_rc(event->cuda, result, "cuEventQuery");
}
