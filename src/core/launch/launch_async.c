/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches on devices whose streams are native (a GPU). The program enqueues its own kernels
 * between sluice_launch_begin() and sluice_launch_end(). begin returns when moves are decided
 * and enqueued, and holds the stream back until they are done. No thread waits for copies.
 *
 * When does a scope's kernel end? Asking the device costs a driver call a launch. So ended
 * scopes are collected by stream, and one event is recorded behind many of them:
 * - when a scope moved something, since the next one waits for its pins;
 * - when a thread waits for pins;
 * - when SCOPES_MAX have been collected. It is SCOPES_MAX_FITS while half of the device's budget
 *   is free, since pins then delay nothing. It is SCOPES_MAX_WANTED if chunks are to be evicted
 *   behind them, or fetched as soon as there is room.
 *
 * A launch whose chunks are all resident makes no driver call.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "core/interpose.h"
#include "core/launch/launch.h"

#define SCOPES_MAX        64u
#define SCOPES_MAX_FITS   1024u
#define SCOPES_MAX_WANTED 8u
#define MOVE_ASK_US       50u

static int
scopes_end_run(struct sl_task *task)
{
	(void)task;
	return 0;
}

/* The device failed before the end of these scopes: what synchronize is to name. */
static void
scopes_failed(const struct sluice_launch *newest)
{
	struct sluice_stream *stream = newest->stream;
	const struct sluice_launch *oldest = newest->prev;
	char ranges[sizeof(stream->failed) - 64];

	sl_space_lock(newest->space);
	if (!stream->failed[0] && oldest == newest)
		snprintf(stream->failed, sizeof(stream->failed), "launch %llu (%s)",
			 (unsigned long long)newest->request.number,
			 sl_launch_ranges(newest, ranges, sizeof(ranges)));
	else if (!stream->failed[0])
		snprintf(stream->failed, sizeof(stream->failed), "launches %llu (%s) to %llu",
			 (unsigned long long)oldest->request.number,
			 sl_launch_ranges(oldest, ranges, sizeof(ranges)),
			 (unsigned long long)newest->request.number);
	sl_space_unlock(newest->space);
}

/*
 * The device has come to the end of a batch of scopes; the newest is the task. The batch goes on a
 * stack without the space lock, and whoever takes that lock next for a launch finishes it: a thread
 * of the device would only fight the launching threads for it. A waiter must not miss it: it counts
 * itself in launch_waiters, then looks at the stack, then sleeps; here the order is the other way
 * round, so one of the two sees the other. Of the scopes only the newest and the oldest are looked at:
 * the others are in the launching thread's cache.
 */
static void
scopes_end_done(struct sl_task *task, int rc)
{
	struct sluice_launch *newest = (struct sluice_launch *)task, *oldest = newest->prev;
	struct sluice_space *s = newest->space;

	if (rc)
		scopes_failed(newest);
	sl_stream_task_done(newest->stream);
	oldest->next = atomic_load(&s->reaped);
	while (!atomic_compare_exchange_weak(&s->reaped, &oldest->next, newest))
		;
	if (atomic_load(&s->launch_waiters) || atomic_load(&s->early_evict.waiting)) {
		sl_space_lock(s);
		sl_scopes_drain(s);
		sl_space_unlock(s);
	}
}

SL_HELD static void
scope_over(struct sluice_launch *l)
{
	sl_launch_finish(l);
	free(l);
}

void
sl_ends_record(struct sluice_space *space)
{
	if (sl_space_forked(space))
		return;
	sl_space_lock(space);
	sl_scopes_reap(space);
	while (space->submitting)
		sl_launch_wait(space);
	sl_space_unlock(space);
}

void
sl_scope_ended(struct sluice_launch *l)
{
	struct sluice_stream *stream = l->stream;
	struct sluice_space *s = l->space;
	unsigned most = s->dev.spare_wanted || atomic_load_explicit(&s->early_evict.waiting,
								    memory_order_relaxed)
				? SCOPES_MAX_WANTED
			: s->dev.used_bytes <= s->dev.budget_bytes / 2 ? SCOPES_MAX_FITS
								       : SCOPES_MAX;

	l->task.run = scopes_end_run;
	l->task.done = scopes_end_done;
	l->task.skippable = 0;
	l->over = scope_over;
	if (!stream->ended) {
		stream->ended_next = s->ended_streams;
		s->ended_streams = stream;
	}
	l->prev = stream->ended ? stream->ended->prev : l; /* the oldest */
	l->next = stream->ended;
	stream->ended = l;
	if (++stream->n_ended >= most || l->moved || s->launch_waiters || stream->at_once)
		sl_scopes_submit(stream);
}

int
sl_chunk_is_ready(const struct sl_chunk *c)
{
	return sl_fence_is_done(c->region->space->device, c->ready_at);
}

/* What the chunks of a range wait for. */
SL_HELD static struct sl_fences
range_ready_at(const struct sl_region *r, uint64_t begin, uint64_t end)
{
	struct sl_fences last = {{0}};

	for (uint64_t i = begin / r->chunk_bytes; i * r->chunk_bytes < end; i++)
		sl_fences_add(&last, r->chunks[i].ready_at);
	return last;
}

void
sl_range_ask_ready(struct sl_region *r, uint64_t begin, uint64_t end)
{
	struct sluice_space *s = r->space;
	struct sl_fences last;

	if (!s->device->async || sl_device_is_idle(s->device))
		return;
	last = range_ready_at(r, begin, end);
	r->busy++;
	sl_space_unlock(s);
	for (int q = 0; q < SL_QUEUE_COUNT; q++)
		sl_ignore(s->device->async->query(s->device, sl_fence_make(q, last.value[q])));
	sl_space_lock(s);
	sl_region_leave(r);
}

struct sl_fences
sl_scope_ready_at(const struct sluice_launch *l)
{
	struct sl_fences last = {{0}};

	if (sl_device_is_idle(l->space->device))
		return last;
	for (size_t k = 0; k < l->n_uses; k++) {
		const struct sl_launch_use *u = &l->uses[k];

		for (uint64_t i = u->first; i <= u->last; i++)
			sl_fences_add(&last, u->region->chunks[i].ready_at);
	}
	return last;
}

static int
fence_await(struct sl_device *dev, struct sl_fence fence)
{
	int rc;

	do
		rc = dev->async->query(dev, fence);
	while (rc == -EAGAIN && !usleep(MOVE_ASK_US));
	return rc;
}

int
sl_fences_await(struct sl_device *dev, struct sl_fences last)
{
	int rc = 0;

	for (int q = 0; q < SL_QUEUE_COUNT && !rc && dev->async; q++)
		rc = fence_await(dev, sl_fence_make(q, last.value[q]));
	return rc;
}

void
sl_own_kernels_stop(struct sluice_space *s)
{
	struct sl_fences last = {{0}};

	sl_space_lock(s);
	s->own_stops++;
	while (s->measure.running)
		sl_launch_wait(s);
	sl_space_unlock(s);
	for (int q = 0; q < SL_QUEUE_COUNT && s->device->async; q++)
		sl_fences_add(&last, sl_fence_newest(s->device, q));
	sl_ignore(sl_fences_await(s->device, last));
}

void
sl_own_kernels_resume(struct sluice_space *s)
{
	sl_space_lock(s);
	s->own_stops--;
	sl_space_unlock(s);
}

int
sl_range_await(struct sl_region *r, uint64_t begin, uint64_t end)
{
	struct sluice_space *s = r->space;
	struct sl_fences last = range_ready_at(r, begin, end);
	int rc;

	r->busy++;
	sl_space_unlock(s);
	rc = sl_fences_await(s->device, last);
	sl_space_lock(s);
	sl_region_leave(r);
	return rc;
}

int
sl_scope_gate(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	struct sl_device *dev = s->device;
	struct sl_fences last = sl_scope_ready_at(l);
	struct sl_fence gates[SL_QUEUE_COUNT];
	int n = 0, rc = 0;

	for (int q = 0; q < SL_QUEUE_COUNT; q++) {
		gates[n] = sl_fence_make(q, last.value[q]);
		n += !sl_fence_is_done(dev, gates[n]);
	}
	if (!n)
		return 0;
	for (int i = 0; i < n; i++)
		sl_event_hold(l, gates[i]);
	sl_space_unlock(s);
	for (int i = 0; i < n && !rc; i++)
		rc = dev->native->gate(l->stream->stream, gates[i]);
	sl_space_lock(s);
	return rc;
}
