/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting until launches give something back: pins, room, or a frame that they access.
 *
 * On a GPU nothing reports the end of a launch by itself. So before a thread sleeps here, it
 * - records the launches that the device has done (space->reaped, sluice_launch.over);
 * - has the device record an event behind the launches that have ended since.
 *
 * If launches wait for each other, the newest one that has not begun gives its pins back, and the frames
 * that it reaches.
 *
 * LOCKING: all of it under space->lock; waits drop it.
 */
#include "core/timeouts.h"
#include "core/transfer/transfer.h"

void
sl_stream_submit(struct sluice_stream *stream, struct sl_task *task)
{
	atomic_fetch_add(&stream->pending, 1);
	stream->space->device->ops->stream_submit(stream->stream, task);
}

/* Take what a stream has collected. Held. */
SL_HELD static struct sluice_launch *
scopes_take(struct sluice_stream *stream)
{
	struct sluice_stream **at = &stream->space->ended_streams;
	struct sluice_launch *l = stream->ended;

	while (*at != stream)
		at = &(*at)->ended_next;
	*at = stream->ended_next;
	stream->ended = NULL;
	stream->n_ended = 0;
	return l;
}

void
sl_scopes_submit(struct sluice_stream *stream)
{
	struct sluice_space *s = stream->space;
	struct sluice_launch *l = scopes_take(stream);

	stream->submitting++;
	s->submitting++;
	s->dev.spare_wanted = 0; /* who still wants it asks again */
	sl_space_unlock(s);
	sl_stream_submit(stream, &l->task);
	sl_space_lock(s);
	s->submitting--;
	if (!--stream->submitting)
		sl_launch_wake(s); /* who destroys it, or begins a capture, waits for that */
}

int
sl_scopes_drain(struct sluice_space *s)
{
	struct sluice_launch *l = NULL;

	if (atomic_load(&s->reaped))
		l = atomic_exchange(&s->reaped, NULL);
	if (!l)
		return 0;
	while (l) {
		struct sluice_launch *older = l->next;

		l->over(l);
		l = older;
	}
	return 1;
}

int
sl_scopes_reap(struct sluice_space *s)
{
	int done = sl_scopes_drain(s);

	while (s->ended_streams) {
		sl_scopes_submit(s->ended_streams);
		done = 1;
	}
	return done;
}

void
sl_launch_wait(struct sluice_space *s)
{
	uint64_t since = sl_event_now(s);

	s->launch_waiters++;
	if (!sl_scopes_reap(s))
		sl_space_wait(s, &s->launch_wake);
	s->launch_waiters--;
	sl_event_waited(s, SL_WAIT_LAUNCH, since);
}

/* As sl_launch_wait_until(). */
SL_HELD static int
wait_until(struct sluice_space *s, uint64_t deadline_ns, enum sl_wait_reason reason)
{
	uint64_t since = sl_event_now(s);
	int rc = 0;

	s->launch_waiters++;
	if (!sl_scopes_reap(s))
		rc = sl_space_wait_until(s, &s->launch_wake, deadline_ns);
	s->launch_waiters--;
	sl_event_waited(s, reason, since);
	return rc;
}

int
sl_launch_wait_until(struct sluice_space *s, uint64_t deadline_ns)
{
	return wait_until(s, deadline_ns, SL_WAIT_LAUNCH);
}

/*
 * Whether nothing but time stands before a prepared launch: the thread of its stream comes to it, or
 * to another prepared one before it; or its caller is about to hand it to its stream, or starts the
 * scope. Held.
 */
SL_HELD static int
prepared_goes_on(const struct sluice_launch *l)
{
	const struct sluice_space *s = l->space;
	const struct sl_task *now;

	if (l->host_scope != SL_SCOPE_NONE)
		return 1;
	if (!s->device->faults)
		return 0;
	now = s->device->faults->stream_now(l->stream->stream);
	if (!now)
		return 1;
	for (const struct sluice_launch *p = s->prepared; p; p = p->next) {
		if (now == &p->task)
			return 1;
	}
	return 0;
}

int
sl_launches_go_on(const struct sluice_space *s)
{
	if (s->running > sl_scopes_count(s))
		return 1;
	for (const struct sluice_launch *l = s->prepared; l; l = l->next) {
		if (prepared_goes_on(l))
			return 1;
	}
	return 0;
}

/* A launch gives its pins back, and has yet to see what was discarded after it: that lives again. Held. */
SL_HELD static void
launch_keep_contents(struct sluice_launch *l)
{
	for (size_t k = 0; k < l->n_uses; k++) {
		struct sl_launch_use *u = &l->uses[k];

		for (uint64_t i = u->first; i <= u->last; i++) {
			struct sl_chunk *c = &u->region->chunks[i];

			if (c->flags & SL_DISCARDED) {
				c->flags |= SL_DIRTY_DEVICE; /* its other copies went with the discard */
				c->unwritten = 0;
			}
			if ((c->flags & SL_DISCARDED) || c->dead)
				sl_use_revive(u, c);
		}
	}
}

/*
 * An ended scope keeps its pins until its stream comes to it, and the stream may wait for the very
 * launch that wants room. Its kernels can do without: they fault. Held; 1 if pins went.
 */
SL_HELD static int
scope_preempt(struct sluice_space *s)
{
	struct sluice_launch *l = s->device->faults ? s->scopes : NULL;

	while (l && (l->host_scope != SL_SCOPE_ENDED || l->unpinned || !l->n_uses))
		l = l->next;
	if (!l)
		return 0;
	launch_keep_contents(l);
	sl_launch_unpin(l);
	l->unpinned = 1;
	return 1;
}

int
sl_launch_preempt(struct sluice_space *s, const struct sluice_launch *except)
{
	struct sluice_launch *l = s->prepared;

	while (l && (l == except || l->unpinned || !l->n_uses))
		l = l->next;
	if (!l)
		return scope_preempt(s);
	sl_launch_list_remove(&s->prepared, l);
	sl_launch_reach_end(l);
	sl_launch_unpin(l);
	launch_keep_contents(l);
	l->again = 1;
	l->moved = 1; /* counted as resident at most once */
	l->state = SL_LAUNCH_QUEUED;
	sl_request_add(s, &s->calls, &l->request);
	return 1;
}

void
sl_room_wait(struct sluice_space *s)
{
	unsigned patience = s->policy->patience ? s->policy->patience(s) : 1;

	if (wait_until(s, sl_now_ns() + patience * SL_STALL_NS, SL_WAIT_DEVICE_ROOM) ==
		    -ETIMEDOUT &&
	    !sl_launches_go_on(s) &&
	    sl_launch_preempt(s, sl_request_launch(s->serving)) && s->policy->stalled)
		s->policy->stalled(s);
}
