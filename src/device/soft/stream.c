/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events of the software device.
 *
 * A stream is a queue of tasks and a thread that runs them in order. At most SL_STREAM_TASKS
 * wait in it. submit then blocks, except on the stream's own thread (a task that submits
 * another), which would wait for itself. Recording and awaiting an event are tasks, too. They
 * run whatever failed before them. Otherwise streams that wait for each other would stop for
 * ever.
 *
 * An event counts its records: a wait is for the last record made before it. The counts and a
 * stream's queue each have a mutex of rank STREAM. No two are ever held at once, and none while
 * a task runs.
 *
 * Launches are often tiny and awaited one by one. So the thread spins on its queue, and a waiter
 * on the count of done tasks, for a few microseconds before it sleeps.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "device/soft/soft.h"

#define SL_STREAM_TASKS 256u
#define SPIN_NS         5000u

struct sl_stream {
	struct soft *soft; /* set once */
	pthread_t thread;  /* set once */
	struct sl_mutex lock;
	struct sl_cond work;          /* a task came, or stopping */
	struct sl_cond settled;       /* a task is done, or there is room */
	struct sl_task *first, *last; /* lock */
	const struct sl_task *doing;  /* lock: taken from the queue and not over */
	unsigned n_queued;            /* lock */
	unsigned n_waiting;           /* lock: threads in cond_wait on settled */
	int sleeping;                 /* lock: the thread waits on work */
	int stopping;                 /* lock */
	/* Changed under lock, looked at without. atomic: pairs with the acquire of count_spin(). */
	_Atomic uint64_t n_submitted, n_done;
	int rc;                         /* lock: first error since the last synchronize */
	char text[SL_ERROR_TEXT_BYTES]; /* lock: of rc */
};

struct sl_event {
	struct sl_mutex lock;
	struct sl_cond completed;
	uint64_t n_recorded; /* lock */
	/* Changed under lock, looked at without. atomic: pairs with the acquire of the query. */
	_Atomic uint64_t n_completed;
};

struct event_task {
	struct sl_task task; /* first */
	struct sl_event *event;
	uint64_t record; /* which one to complete or await */
};

/* Look a little before sleeping: 1 when *count has reached target. */
static int
count_spin(_Atomic uint64_t *count, uint64_t target)
{
	uint64_t deadline_ns = 0;

	while (atomic_load_explicit(count, memory_order_acquire) < target) {
		uint64_t now_ns = sl_now_ns();

		if (!deadline_ns)
			deadline_ns = now_ns + SPIN_NS;
		else if (now_ns >= deadline_ns)
			return 0;
	}
	return 1;
}

/* Here, since the attribute needs the parameter. */
static struct sl_task *task_pop_locked(struct sl_stream *stream) SL_REQUIRES(stream->lock);

static struct sl_task *
task_pop_locked(struct sl_stream *stream)
{
	struct sl_task *task = stream->first;

	stream->first = task->next;
	if (!stream->first)
		stream->last = NULL;
	stream->n_queued--;
	task->next = NULL;
	return task;
}

/* Run or skip a task; its code goes to done() and, if it is the first, to synchronize(). */
static void
task_do(struct sl_stream *stream, struct sl_task *task, int skip)
{
	int rc = skip ? -ECANCELED : task->run(task);

	if (rc && !skip) {
		sl_mutex_lock(&stream->lock);
		if (!stream->rc) {
			stream->rc = rc;
			strncpy(stream->text, sluice_last_error(), sizeof(stream->text) - 1);
		}
		sl_mutex_unlock(&stream->lock);
	}
	task->done(task, rc);
}

static void *
stream_run(void *arg)
{
	struct sl_stream *stream = arg;

	sl_mutex_lock(&stream->lock);
	for (;;) {
		struct sl_task *task;
		uint64_t n_done = atomic_load_explicit(&stream->n_done, memory_order_relaxed);
		int skip;

		if (!stream->first && !stream->stopping) {
			sl_mutex_unlock(&stream->lock);
			(void)count_spin(&stream->n_submitted, n_done + 1);
			sl_mutex_lock(&stream->lock);
		}
		while (!stream->first && !stream->stopping) {
			stream->sleeping = 1;
			sl_cond_wait(&stream->work, &stream->lock);
			stream->sleeping = 0;
		}
		if (!stream->first)
			break;
		task = task_pop_locked(stream);
		stream->doing = task;
		skip = task->skippable && stream->rc;
		sl_mutex_unlock(&stream->lock);

		task_do(stream, task, skip);

		sl_mutex_lock(&stream->lock);
		stream->doing = NULL;
		atomic_store_explicit(&stream->n_done, n_done + 1, memory_order_release);
		if (stream->n_waiting)
			sl_cond_broadcast(&stream->settled);
	}
	sl_mutex_unlock(&stream->lock);
	return NULL;
}

int
sl_soft_stream_create(struct sl_device *dev, struct sl_stream **out)
{
	struct sl_stream *stream = sl_calloc(1, sizeof(*stream));
	int rc;

	if (!stream)
		return sl_fail(-ENOMEM, "stream: out of memory");
	stream->soft = sl_soft_of(dev);
	sl_mutex_init(&stream->lock, SL_RANK_STREAM);
	sl_cond_init(&stream->work);
	sl_cond_init(&stream->settled);
	rc = sl_soft_thread_start(&stream->thread, stream_run, stream, "sl-stream");
	if (rc) {
		sl_cond_fini(&stream->settled);
		sl_cond_fini(&stream->work);
		sl_mutex_fini(&stream->lock);
		free(stream);
		return rc;
	}
	*out = stream;
	return 0;
}

void
sl_soft_stream_destroy(struct sl_stream *stream)
{
	if (!stream)
		return;
	sl_mutex_lock(&stream->lock);
	stream->stopping = 1; /* the thread does what is queued first */
	sl_cond_signal(&stream->work);
	sl_mutex_unlock(&stream->lock);
	pthread_join(stream->thread, NULL);
	sl_cond_fini(&stream->settled);
	sl_cond_fini(&stream->work);
	sl_mutex_fini(&stream->lock);
	free(stream);
}

void
sl_soft_stream_submit(struct sl_stream *stream, struct sl_task *task)
{
	task->next = NULL;
	sl_mutex_lock(&stream->lock);
	while (stream->n_queued >= SL_STREAM_TASKS &&
	       !pthread_equal(pthread_self(), stream->thread)) {
		stream->n_waiting++;
		sl_cond_wait(&stream->settled, &stream->lock);
		stream->n_waiting--;
	}
	if (stream->last)
		stream->last->next = task;
	else
		stream->first = task;
	stream->last = task;
	stream->n_queued++;
	atomic_fetch_add_explicit(&stream->n_submitted, 1, memory_order_release);
	if (stream->sleeping)
		sl_cond_signal(&stream->work);
	sl_mutex_unlock(&stream->lock);
}

const struct sl_task *
sl_soft_stream_now(struct sl_stream *stream)
{
	const struct sl_task *task;

	sl_mutex_lock(&stream->lock);
	task = stream->doing ? stream->doing : stream->first;
	sl_mutex_unlock(&stream->lock);
	return task;
}

int
sl_soft_stream_synchronize(struct sl_stream *stream)
{
	uint64_t target = atomic_load_explicit(&stream->n_submitted, memory_order_acquire);
	char text[SL_ERROR_TEXT_BYTES];
	int rc;

	if (pthread_equal(pthread_self(), stream->thread))
		return sl_fail(-EINVAL,
			       "stream: synchronize from a task of the same stream would "
			       "wait for ever");
	(void)count_spin(&stream->n_done, target);
	sl_mutex_lock(&stream->lock);
	while (atomic_load_explicit(&stream->n_done, memory_order_relaxed) < target) {
		stream->n_waiting++;
		sl_cond_wait(&stream->settled, &stream->lock);
		stream->n_waiting--;
	}
	rc = stream->rc;
	stream->rc = 0;
	if (rc)
		memcpy(text, stream->text, sizeof(text));
	sl_mutex_unlock(&stream->lock);
	return rc ? sl_fail_text(rc, text) : 0;
}

int
sl_soft_event_create(struct sl_device *dev, struct sl_event **out)
{
	struct sl_event *event = sl_calloc(1, sizeof(*event));

	(void)dev;
	if (!event)
		return sl_fail(-ENOMEM, "event: out of memory");
	sl_mutex_init(&event->lock, SL_RANK_STREAM);
	sl_cond_init(&event->completed);
	*out = event;
	return 0;
}

void
sl_soft_event_destroy(struct sl_event *event)
{
	if (!event)
		return;
	/* Who completed it may still hold the lock: who waits sees the count, and need not have taken it. */
	sl_mutex_lock(&event->lock);
	sl_mutex_unlock(&event->lock);
	sl_cond_fini(&event->completed);
	sl_mutex_fini(&event->lock);
	free(event);
}

static int
event_complete(struct sl_task *task)
{
	struct event_task *et = (struct event_task *)task;
	struct sl_event *event = et->event;

	sl_mutex_lock(&event->lock);
	if (atomic_load_explicit(&event->n_completed, memory_order_relaxed) < et->record)
		atomic_store_explicit(&event->n_completed, et->record, memory_order_release);
	sl_cond_broadcast(&event->completed);
	sl_mutex_unlock(&event->lock);
	return 0;
}

static void
event_await(struct sl_event *event, uint64_t record)
{
	if (count_spin(&event->n_completed, record))
		return;
	sl_mutex_lock(&event->lock);
	while (atomic_load_explicit(&event->n_completed, memory_order_relaxed) < record)
		sl_cond_wait(&event->completed, &event->lock);
	sl_mutex_unlock(&event->lock);
}

static int
event_await_run(struct sl_task *task)
{
	struct event_task *et = (struct event_task *)task;

	event_await(et->event, et->record);
	return 0;
}

static void
event_task_done(struct sl_task *task, int rc)
{
	assert(!rc);
	(void)rc;
	free(task);
}

static int
event_submit(struct sl_stream *stream, struct sl_event *event, int record)
{
	struct event_task *et = sl_calloc(1, sizeof(*et));

	if (!et)
		return sl_fail(-ENOMEM, "event: out of memory");
	et->task.run = record ? event_complete : event_await_run;
	et->task.done = event_task_done;
	et->event = event;
	sl_mutex_lock(&event->lock);
	event->n_recorded += (uint64_t)record;
	et->record = event->n_recorded;
	sl_mutex_unlock(&event->lock);
	sl_soft_stream_submit(stream, &et->task);
	return 0;
}

int
sl_soft_event_record(struct sl_stream *stream, struct sl_event *event)
{
	return event_submit(stream, event, 1);
}

int
sl_soft_event_wait(struct sl_stream *stream, struct sl_event *event)
{
	return event_submit(stream, event, 0);
}

static uint64_t
event_last_record(struct sl_event *event)
{
	uint64_t record;

	sl_mutex_lock(&event->lock);
	record = event->n_recorded;
	sl_mutex_unlock(&event->lock);
	return record;
}

void
sl_soft_event_synchronize(struct sl_event *event)
{
	event_await(event, event_last_record(event));
}

int
sl_soft_event_query(struct sl_event *event)
{
	uint64_t record = event_last_record(event);

	return atomic_load_explicit(&event->n_completed, memory_order_acquire) >= record
		       ? 0
		       : -EAGAIN;
}
