/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of the virtual device: a queue of tasks and a thread that does them in order, as those of
 * the software device do, without the looking about before a sleep that saves real time only. At
 * most STREAM_TASKS wait; submit then blocks.
 *
 * Threads: one a stream.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/virtual.h"

#define STREAM_TASKS 256u

struct sl_stream {
	pthread_t thread;       /* set once */
	struct sl_mutex lock;   /* all below */
	struct sl_cond work;    /* a task came, or stopping */
	struct sl_cond settled; /* a task is done, or there is room */
	struct sl_task *first, *last;
	unsigned n_queued;
	int stopping;
	uint64_t n_submitted, n_done;
	int rc; /* first error since the last synchronize */
	char text[SL_ERROR_TEXT_BYTES];
};

/* Here, since the attribute needs the parameter. */
static void task_do_locked(struct sl_stream *stream) SL_REQUIRES(stream->lock);

/* The first task. Drops the lock. */
static void
task_do_locked(struct sl_stream *stream)
{
	struct sl_task *task = stream->first;
	int skip = task->skippable && stream->rc;
	int rc;

	stream->first = task->next;
	if (!stream->first)
		stream->last = NULL;
	stream->n_queued--;
	task->next = NULL;
	sl_mutex_unlock(&stream->lock);
	rc = skip ? -ECANCELED : task->run(task);
	sl_mutex_lock(&stream->lock);
	if (rc && !skip && !stream->rc) {
		stream->rc = rc;
		snprintf(stream->text, sizeof(stream->text), "%s", sluice_last_error());
	}
	sl_mutex_unlock(&stream->lock);
	task->done(task, rc);
	sl_mutex_lock(&stream->lock);
	stream->n_done++;
	sl_cond_broadcast(&stream->settled);
}

static void *
stream_main(void *arg)
{
	struct sl_stream *stream = arg;

	sl_mutex_lock(&stream->lock);
	while (stream->first || !stream->stopping) {
		if (stream->first)
			task_do_locked(stream);
		else
			sl_cond_wait(&stream->work, &stream->lock);
	}
	sl_mutex_unlock(&stream->lock);
	return NULL;
}

static void
stream_free(struct sl_stream *stream)
{
	sl_cond_fini(&stream->work);
	sl_cond_fini(&stream->settled);
	sl_mutex_fini(&stream->lock);
	free(stream);
}

int
sl_virtual_stream_create(struct sl_device *dev, struct sl_stream **out)
{
	struct sl_stream *stream = calloc(1, sizeof(*stream));
	int rc;

	(void)dev;
	if (!stream)
		return sl_fail(-ENOMEM, "stream: out of memory");
	sl_mutex_init(&stream->lock, SL_RANK_STREAM);
	sl_cond_init(&stream->work);
	sl_cond_init(&stream->settled);
	rc = sl_thread_start(&stream->thread, stream_main, stream);
	if (rc) {
		stream_free(stream);
		return sl_fail(-rc, "stream: cannot start a thread: %s", strerror(rc));
	}
	*out = stream;
	return 0;
}

void
sl_virtual_stream_destroy(struct sl_stream *stream)
{
	if (!stream)
		return;
	sl_mutex_lock(&stream->lock);
	stream->stopping = 1; /* the thread does what is queued first */
	sl_cond_signal(&stream->work);
	sl_mutex_unlock(&stream->lock);
	sl_thread_join(stream->thread);
	stream_free(stream);
}

void
sl_virtual_stream_submit(struct sl_stream *stream, struct sl_task *task)
{
	task->next = NULL;
	sl_mutex_lock(&stream->lock);
	while (stream->n_queued >= STREAM_TASKS)
		sl_cond_wait(&stream->settled, &stream->lock);
	if (stream->last)
		stream->last->next = task;
	else
		stream->first = task;
	stream->last = task;
	stream->n_queued++;
	stream->n_submitted++;
	sl_cond_signal(&stream->work);
	sl_mutex_unlock(&stream->lock);
}

int
sl_virtual_stream_synchronize(struct sl_stream *stream)
{
	char text[SL_ERROR_TEXT_BYTES];
	uint64_t target;
	int rc;

	sl_mutex_lock(&stream->lock);
	target = stream->n_submitted;
	while (stream->n_done < target)
		sl_cond_wait(&stream->settled, &stream->lock);
	rc = stream->rc;
	stream->rc = 0;
	memcpy(text, stream->text, sizeof(text));
	sl_mutex_unlock(&stream->lock);
	return rc ? sl_fail_text(rc, text) : 0;
}
