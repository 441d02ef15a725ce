/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, events and host callbacks of the public API, on the device's streams. Adds the space,
 * the count of pending tasks and the default stream.
 */
#include <stdio.h>
#include <string.h>

#include "core/interpose.h"
#include "core/launch/launch.h"

struct sluice_stream *
sl_stream_of(struct sluice_space *s, struct sluice_stream *stream)
{
	return stream ? stream : s->default_stream;
}

int
sl_stream_own(const struct sluice_space *s, const struct sluice_stream *stream)
{
	if (!s || !stream || stream->space == s)
		return 0;
	return sl_fail(-EINVAL,
		       "stream: it was made for another space: make one for each");
}

int
sl_stream_check(struct sluice_space *s, struct sluice_stream *stream)
{
	int rc = sl_stream_own(s, stream);

	if (rc || !s || !stream || !s->device->native || sl_space_forked(s))
		return rc;
	return s->device->native->check(stream->stream);
}

void
sl_stream_task_done(struct sluice_stream *stream)
{
	atomic_fetch_sub(&stream->pending, 1);
}

int
sl_stream_make(struct sluice_space *s, void *const *native, struct sluice_stream **out)
{
	struct sluice_stream *stream = sl_calloc(1, sizeof(*stream));
	int rc;

	if (!stream)
		return sl_fail(-ENOMEM, "stream: out of memory");
	stream->space = s;
	rc = native ? s->device->native->wrap(s->device, *native, &stream->stream)
		    : s->device->ops->stream_create(s->device, &stream->stream);
	if (rc) {
		free(stream);
		return rc;
	}
	*out = stream;
	return 0;
}

int
sluice_stream_create(struct sluice_space *space, struct sluice_stream **out)
{
	int rc = sl_space_enterable(space);

	return rc ? rc : sl_stream_make(space, NULL, out);
}

int
sluice_stream_wrap(struct sluice_space *space, void *native, struct sluice_stream **out)
{
	int rc = sl_space_enterable(space);

	if (rc)
		return rc;
	if (!space->device->native)
		return sl_fail(-ENOTSUP,
			       "stream: the %s device has no streams of its own to wrap",
			       space->device->ops->name);
	return sl_stream_make(space, &native, out);
}

int
sl_stream_wrap_in(struct sluice_space *space, void *native, int per_thread,
		  struct sluice_stream **out)
{
	int rc = sluice_stream_wrap(space, native, out);

	if (!rc)
		(*out)->at_once = per_thread;
	return rc;
}

void *
sluice_stream_native(struct sluice_space *space, struct sluice_stream *stream)
{
	if (!space->device->native)
		return NULL;
	return space->device->native->handle(sl_stream_of(space, stream)->stream);
}

void
sluice_stream_destroy(struct sluice_stream *stream)
{
	struct sluice_space *s;

	if (!stream)
		return;
	s = stream->space;
	if (!sl_space_forked(s)) {
		sl_space_lock(s);
		sl_scopes_reap(s);
		while (stream->submitting)
			sl_launch_wait(s);
		sl_space_unlock(s);
		s->device->ops->stream_destroy(stream->stream);
		sl_space_lock(s);
		sl_scopes_drain(s);
		sl_space_unlock(s);
	}
	free(stream);
}

int
sluice_stream_synchronize(struct sluice_space *space, struct sluice_stream *stream)
{
	/* cppcheck-suppress ctunullpointer; sizeof does not follow it */
	char failed[sizeof(stream->failed)], text[SL_ERROR_TEXT_BYTES];
	int rc = sl_stream_check(space, stream);

	if (rc)
		return rc;
	rc = sl_space_enter(space);
	if (rc)
		return rc;
	stream = sl_stream_of(space, stream);
	rc = sl_callback_forbids(space, stream, "stream_synchronize");
	if (!rc)
		sl_scopes_reap(space);
	sl_space_unlock(space);
	if (rc)
		return rc;
	rc = space->device->ops->stream_synchronize(stream->stream);
	if (rc)
		snprintf(text, sizeof(text), "%s", sluice_last_error());
	sl_space_lock(space);
	sl_scopes_drain(space);
	memcpy(failed, stream->failed, sizeof(failed));
	stream->failed[0] = '\0';
	sl_space_unlock(space);
	if (!rc)
		return 0;
	sl_fail_text(rc, text);
	return failed[0] ? sl_fail_in(rc, "%s", failed) : rc;
}

struct callback_task {
	struct sl_task task;
	struct sl_inflight work;
	struct sluice_space *space;
	struct sluice_stream *stream;
	sluice_host_fn fn;
	void *arg;
	/*
	 * Who may still look at this: the stream, until the task is done, and the driver, until it has
	 * called. A lost context ends tasks while a call is under way. A call that the driver then never
	 * makes leaves this allocated.
	 * atomic: pairs with itself: what each did here is done before the last one frees it.
	 */
	atomic_uint holders;
};

static void
callback_let_go(struct callback_task *t)
{
	if (atomic_fetch_sub_explicit(&t->holders, 1, memory_order_acq_rel) == 1)
		free(t);
}

static void
callback_call(struct callback_task *t)
{
	/* The stream itself may be gone by now. */
	sl_callback_enter(t->space, t->stream, t->work.number);
	t->fn(t->arg);
	sl_callback_leave();
}

/* On a thread of the driver. */
static void
callback_from_driver(void *arg)
{
	callback_call(arg);
	callback_let_go(arg);
}

static int
callback_run(struct sl_task *task)
{
	struct callback_task *t = (struct callback_task *)task;
	const struct sl_device *dev = t->space->device;
	int rc;

	if (!dev->native) {
		callback_call(t); /* on the stream's thread */
		return 0;
	}
	atomic_fetch_add_explicit(&t->holders, 1, memory_order_relaxed);
	rc = dev->native->call(t->stream->stream, callback_from_driver, t);
	if (rc)
		atomic_fetch_sub_explicit(&t->holders, 1, memory_order_relaxed);
	return rc;
}

static void
callback_done(struct sl_task *task, int rc)
{
	struct callback_task *t = (struct callback_task *)task;
	struct sluice_space *s = t->space;

	(void)rc;
	sl_stream_task_done(t->stream);
	sl_space_lock(s);
	s->undeclared--;
	sl_inflight_end(s, &t->work);
	sl_launch_wake(s);
	sl_space_unlock(s);
	callback_let_go(t);
}

int
sluice_stream_callback(struct sluice_space *space, struct sluice_stream *stream,
		       sluice_host_fn fn, void *arg)
{
	struct callback_task *t;
	int rc;

	if (!fn)
		return sl_fail(-EINVAL, "callback: no function given");
	rc = sl_stream_check(space, stream);
	if (rc)
		return rc;
	t = sl_calloc(1, sizeof(*t));
	if (!t)
		return sl_fail(-ENOMEM, "callback: out of memory");
	rc = sl_space_enter(space);
	if (rc) {
		free(t);
		return rc;
	}
	t->task.run = callback_run;
	t->task.done = callback_done;
	t->space = space;
	t->stream = sl_stream_of(space, stream);
	atomic_init(&t->holders, 1);
	t->fn = fn;
	t->arg = arg;
	space->undeclared++;
	sl_inflight_begin(space, &t->work, NULL, NULL);
	sl_space_unlock(space);
	sl_stream_submit(t->stream, &t->task);
	return 0;
}

int
sluice_event_create(struct sluice_space *space, struct sluice_event **out)
{
	struct sluice_event *event;
	int rc = sl_space_enterable(space);

	if (rc)
		return rc;
	if (!space->device->events)
		return sl_fail(-ENOTSUP, "event: the %s device has no events",
			       space->device->ops->name);
	event = sl_calloc(1, sizeof(*event));
	if (!event)
		return sl_fail(-ENOMEM, "event: out of memory");
	event->space = space;
	rc = space->device->events->create(space->device, &event->event);
	if (rc) {
		free(event);
		return rc;
	}
	*out = event;
	return 0;
}

void
sluice_event_destroy(struct sluice_event *event)
{
	if (!event)
		return;
	if (!sl_space_forked(event->space))
		event->space->device->events->destroy(event->event);
	free(event);
}

int
sluice_event_record(struct sluice_space *space, struct sluice_stream *stream,
		    struct sluice_event *event)
{
	int rc = sl_stream_own(space, stream);

	if (!rc)
		rc = sl_space_enterable(space);
	if (rc)
		return rc;
	return space->device->events->record(sl_stream_of(space, stream)->stream,
					     event->event);
}

int
sluice_event_wait(struct sluice_space *space, struct sluice_stream *stream,
		  struct sluice_event *event)
{
	int rc = sl_stream_own(space, stream);

	if (!rc)
		rc = sl_space_enterable(space);
	if (rc)
		return rc;
	return space->device->events->wait(sl_stream_of(space, stream)->stream, event->event);
}

void
sluice_event_synchronize(struct sluice_event *event)
{
	if (!sl_space_forked(event->space))
		event->space->device->events->synchronize(event->event);
}

int
sluice_event_query(struct sluice_event *event)
{
	if (sl_space_forked(event->space))
		return sl_fail(-ECHILD, "event: the space belongs to the parent process");
	return event->space->device->events->query(event->event);
}
