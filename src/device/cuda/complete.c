/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completers: a thread watches events of several streams, each stream's in order, and calls back
 * when they are done. While an event is pending the thread asks the driver every few
 * microseconds. A blocking event is reported 30 to 50 us late, and a host function holds its
 * stream up. With nothing pending the thread sleeps.
 *
 * If the program has begun to capture a stream, later work on it has no event yet. An event
 * recorded then would never be done, and asking the stream would spoil the capture. It gets its
 * event when the capture has ended.
 *
 * A done() runs with no lock held and may block. Pending ones behind it wait. A thread that has
 * waited for a stream runs the rest of its queue itself (finish), where that may run on any
 * thread. Waiting for the completer to see it and to wake the thread would take longer than
 * short kernels.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "device/cuda/cuda.h"

#define POLL_SPIN_NS      20000u /* asked without a pause after something has come */
#define POLL_PAUSE_NS     10000u
/* A pause takes such a part of the time since then, if that is longer. Smaller: waiting takes a third of a core, of
 * each completer. Larger: the end of long work is seen later by that part. */
#define POLL_PART         128u
#define POLL_PAUSE_MAX_NS 1000000u /* whoever stops the completer waits for it */

/* Ask the driver, as far as a capture lets us: its result. */
static int
pending_query(struct cuda *cuda, struct cuda_pending *pending)
{
	int result = CU_ERROR_NOT_READY, rc;

	switch (pending->on) {
	case CUDA_PENDING_CAPTURE:
		rc = sl_cuda_stream_record(cuda, pending->stream, pending->event);
		if (rc != -EAGAIN)
			pending->on = rc ? CUDA_PENDING_STREAM : CUDA_PENDING_EVENT;
		break;
	case CUDA_PENDING_EVENT:
		result = cuda->driver->cuEventQuery(pending->event);
		if (result != CU_ERROR_CAPTURED_EVENT)
			break;
		pending->on = CUDA_PENDING_CAPTURE; /* the capture began and ended between two calls */
		result = CU_ERROR_NOT_READY;
		break;
	case CUDA_PENDING_STREAM:
		if (sl_cuda_stream_captures(cuda, pending->stream) != 1)
			result = cuda->driver->cuStreamQuery(pending->stream);
		if (result == CU_ERROR_STREAM_CAPTURE_UNSUPPORTED) /* begun this moment */
			result = CU_ERROR_NOT_READY;
		break;
	}
	return result;
}

/* Take the first pending thing of a queue if its event has come. Lock held. */
static struct cuda_pending *
queue_take(struct cuda_completer *completer, struct cuda_queue *queue, int *result)
{
	struct cuda_pending *pending = queue->head;

	if (!pending || queue->calling)
		return NULL;
	*result = pending_query(completer->cuda, pending);
	if (*result == CU_ERROR_NOT_READY)
		return NULL;
	queue->head = pending->next;
	if (!queue->head)
		queue->tail = NULL;
	queue->calling = 1;
	return pending;
}

/* The same of any queue. Lock held. */
static struct cuda_pending *
pending_take(struct cuda_completer *completer, struct cuda_queue **from, int *result)
{
	for (struct cuda_queue *queue = completer->queues; queue; queue = queue->next) {
		struct cuda_pending *pending = queue_take(completer, queue, result);

		*from = queue;
		if (pending)
			return pending;
	}
	return NULL;
}

static int
pending_await(struct cuda *cuda, struct cuda_pending *pending)
{
	return pending->on == CUDA_PENDING_STREAM
		       ? cuda->driver->cuStreamSynchronize(pending->stream)
		       : cuda->driver->cuEventSynchronize(pending->event);
}

/* Call back. Context entered, no lock held. */
static void
pending_end(struct cuda *cuda, struct cuda_pending *pending, int result)
{
	/* The driver did not say, but the work goes on: it is over when it is over. */
	if (result && !sl_cuda_result_is_lost(result))
		result = pending_await(cuda, pending);
	pending->done(pending, sl_cuda_rc(cuda, result, "cuEventQuery"));
}

/* An emptied queue leaves the list; its stream may be destroyed. Lock held. */
static void
queue_settle(struct cuda_completer *completer, struct cuda_queue *queue)
{
	queue->calling = 0;
	completer->n_pending--;
	if (!queue->head) {
		if (queue->prev)
			queue->prev->next = queue->next;
		else
			completer->queues = queue->next;
		if (queue->next)
			queue->next->prev = queue->prev;
		queue->next = queue->prev = NULL;
	}
	sl_cond_broadcast(&completer->idle);
}

/* Tell who starts us whether there is a context to ask. */
static void
completer_enter(struct cuda_completer *completer)
{
	int rc = sl_cuda_enter(completer->cuda);

	sl_mutex_lock(&completer->lock);
	completer->entered = rc ? rc : 1;
	sl_cond_broadcast(&completer->idle);
	sl_mutex_unlock(&completer->lock);
}

/* Nothing has come for so long. No lock held. */
static void
completer_pause(uint64_t idle_ns)
{
	uint64_t ns = idle_ns / POLL_PART;
	struct timespec pause;

	if (idle_ns <= POLL_SPIN_NS)
		return;
	if (ns < POLL_PAUSE_NS)
		ns = POLL_PAUSE_NS;
	if (ns > POLL_PAUSE_MAX_NS)
		ns = POLL_PAUSE_MAX_NS;
	pause = (struct timespec){.tv_nsec = (long)ns};
	nanosleep(&pause, NULL);
}

static void *
completer_main(void *arg)
{
	struct cuda_completer *completer = arg;
	uint64_t last_ns = 0;

	completer_enter(completer);
	if (completer->entered < 0)
		return NULL;
	(void)prctl(PR_SET_TIMERSLACK, 1000ul); /* or each pause takes 50 us more */
	sl_mutex_lock(&completer->lock);
	while (!completer->stopping || completer->n_pending) {
		struct cuda_queue *queue;
		struct cuda_pending *pending;
		int result;

		if (!completer->n_pending) {
			sl_cond_wait(&completer->work, &completer->lock);
			last_ns = sl_now_ns();
			continue;
		}
		pending = pending_take(completer, &queue, &result);
		sl_mutex_unlock(&completer->lock);
		if (pending) {
			pending_end(completer->cuda, pending, result);
			last_ns = sl_now_ns();
		} else {
			completer_pause(sl_now_ns() - last_ns);
		}
		sl_mutex_lock(&completer->lock);
		if (pending)
			queue_settle(completer, queue);
	}
	sl_mutex_unlock(&completer->lock);
	sl_cuda_leave(completer->cuda);
	return NULL;
}

int
sl_cuda_completer_start(struct cuda *cuda, struct cuda_completer *completer, const char *name)
{
	int rc;

	completer->cuda = cuda;
	sl_mutex_init(&completer->lock, SL_RANK_STREAM);
	sl_cond_init(&completer->work);
	sl_cond_init(&completer->idle);
	rc = sl_thread_begin(&completer->thread, name, completer_main, completer);
	if (rc) {
		sl_cond_fini(&completer->idle);
		sl_cond_fini(&completer->work);
		sl_mutex_fini(&completer->lock);
		return sl_fail(rc, "device: cannot start a thread: %s", strerror(-rc));
	}
	completer->started = 1;
	sl_mutex_lock(&completer->lock);
	while (!completer->entered)
		sl_cond_wait(&completer->idle, &completer->lock);
	rc = completer->entered;
	sl_mutex_unlock(&completer->lock);
	return rc < 0 ? sl_fail(rc, "device: a thread cannot enter the context") : 0;
}

void
sl_cuda_completer_stop(struct cuda_completer *completer)
{
	if (!completer->started)
		return;
	sl_mutex_lock(&completer->lock);
	completer->stopping = 1;
	sl_cond_signal(&completer->work);
	sl_mutex_unlock(&completer->lock);
	pthread_join(completer->thread, NULL);
	sl_cond_fini(&completer->idle);
	sl_cond_fini(&completer->work);
	sl_mutex_fini(&completer->lock);
	completer->started = 0;
}

void
sl_cuda_complete(struct cuda_completer *completer, struct cuda_queue *queue,
		 struct cuda_pending *pending)
{
	pending->next = NULL;
	sl_mutex_lock(&completer->lock);
	if (!queue->head && !queue->calling) {
		queue->prev = NULL;
		queue->next = completer->queues;
		if (queue->next)
			queue->next->prev = queue;
		completer->queues = queue;
	}
	if (queue->tail)
		queue->tail->next = pending;
	else
		queue->head = pending;
	queue->tail = pending;
	if (!completer->n_pending++)
		sl_cond_signal(&completer->work);
	sl_mutex_unlock(&completer->lock);
}

void
sl_cuda_queue_drain(struct cuda_completer *completer, struct cuda_queue *queue)
{
	sl_mutex_lock(&completer->lock);
	while (queue->head || queue->calling)
		sl_cond_wait(&completer->idle, &completer->lock);
	sl_mutex_unlock(&completer->lock);
}

void
sl_cuda_queue_finish(struct cuda_completer *completer, struct cuda_queue *queue)
{
	uint64_t start_ns = 0;

	sl_mutex_lock(&completer->lock);
	while (queue->head || queue->calling) {
		struct cuda_pending *pending = NULL;
		int result = 0;

		if (queue->head && queue->head->anywhere)
			pending = queue_take(completer, queue, &result);
		if (!pending && !start_ns)
			start_ns = sl_now_ns();
		if (!pending && sl_now_ns() - start_ns > POLL_SPIN_NS) {
			sl_cond_wait(&completer->idle, &completer->lock);
			continue;
		}
		sl_mutex_unlock(&completer->lock);
		if (pending)
			pending_end(completer->cuda, pending, result);
		else
			sched_yield();
		sl_mutex_lock(&completer->lock);
		if (pending)
			queue_settle(completer, queue);
	}
	sl_mutex_unlock(&completer->lock);
}
