/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches on devices whose streams are native (a GPU). The program enqueues its own kernels
 * between sluice_launch_begin() and sluice_launch_end(): begin returns when moves are decided and
 * enqueued, and holds the stream back until they are done; nobody waits for copies.
 *
 * When does a scope's kernel end? Asking the device costs a driver call a launch. So ended scopes
 * are collected by stream, and one event is recorded behind many of them: when a scope moved
 * something (its pins are what the next one waits for), when somebody waits for pins, and when
 * SCOPES_MAX have been collected: SCOPES_MAX_FITS where half of the device's budget is free, so that
 * pins are in nobody's way, and SCOPES_MAX_WANTED where chunks are to leave behind them, or to come as soon as
 * there is room. A launch whose chunks are all resident makes no driver call.
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
			 (unsigned long long)newest->number,
			 sl_launch_ranges(newest, ranges, sizeof(ranges)));
	else if (!stream->failed[0])
		snprintf(stream->failed, sizeof(stream->failed),
			 "launches %llu (%s) to %llu", (unsigned long long)oldest->number,
			 sl_launch_ranges(oldest, ranges, sizeof(ranges)),
			 (unsigned long long)newest->number);
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

/* All copies of the device, both ways, are known to be done. */
static int
device_is_idle(const struct sl_device *dev)
{
	return atomic_load_explicit(&dev->moves_done, memory_order_acquire) ==
		       atomic_load_explicit(&dev->moves_issued, memory_order_acquire) &&
	       atomic_load_explicit(&dev->outs_done, memory_order_acquire) ==
		       atomic_load_explicit(&dev->outs_issued, memory_order_acquire);
}

/* Whether moves up to last are known to be done, in and out. */
static int
moves_in_are_done(const struct sl_device *dev, uint64_t last)
{
	return last <= atomic_load_explicit(&dev->moves_done, memory_order_acquire);
}

static int
moves_out_are_done(const struct sl_device *dev, uint64_t last)
{
	return (last ^ SL_MOVE_OUT) <=
	       atomic_load_explicit(&dev->outs_done, memory_order_acquire);
}

int
sl_chunk_has_arrived(const struct sl_chunk *c)
{
	const struct sl_device *dev = c->region->space->device;

	return c->arrival & SL_MOVE_OUT ? moves_out_are_done(dev, c->arrival)
					: moves_in_are_done(dev, c->arrival);
}

void
sl_range_ask_arrival(struct sl_region *r, uint64_t begin, uint64_t end)
{
	struct sluice_space *s = r->space;
	uint64_t last = 0;

	for (uint64_t i = begin / r->chunk_bytes; i * r->chunk_bytes < end; i++) {
		const struct sl_chunk *c = &r->chunks[i];

		/* Of copies out the device tells by itself. */
		if (!(c->arrival & SL_MOVE_OUT) && c->arrival > last)
			last = c->arrival;
	}
	if (!s->device->ops->move_query || moves_in_are_done(s->device, last))
		return;
	r->busy++;
	sl_space_unlock(s);
	sl_ignore(s->device->ops->move_query(s->device, last));
	sl_space_lock(s);
	sl_region_leave(r);
}

/* What has to be waited for by who uses c, too. */
static void
arrival_add(struct sl_arrival *last, const struct sl_chunk *c)
{
	uint64_t *kind = c->arrival & SL_MOVE_OUT ? &last->out : &last->in;

	if (c->arrival > *kind)
		*kind = c->arrival;
}

struct sl_arrival
sl_scope_arrival(const struct sluice_launch *l)
{
	struct sl_arrival last = {0, 0};

	if (device_is_idle(l->space->device))
		return last;
	for (size_t k = 0; k < l->n_uses; k++) {
		const struct sl_launch_use *u = &l->uses[k];

		for (uint64_t i = u->first; i <= u->last; i++)
			arrival_add(&last, &u->region->chunks[i]);
	}
	return last;
}

static int
move_await(struct sl_device *dev, uint64_t move)
{
	int rc;

	do
		rc = dev->ops->move_query(dev, move);
	while (rc == -EAGAIN && !usleep(MOVE_ASK_US));
	return rc;
}

int
sl_arrival_await(struct sl_device *dev, struct sl_arrival last)
{
	int rc;

	if (!dev->ops->move_query)
		return 0;
	rc = move_await(dev, last.in);
	return rc ? rc : move_await(dev, last.out);
}

int
sl_range_await(struct sl_region *r, uint64_t begin, uint64_t end)
{
	struct sluice_space *s = r->space;
	struct sl_arrival last = {0, 0};
	int rc;

	for (uint64_t i = begin / r->chunk_bytes; i * r->chunk_bytes < end; i++)
		arrival_add(&last, &r->chunks[i]);
	r->busy++;
	sl_space_unlock(s);
	rc = sl_arrival_await(s->device, last);
	sl_space_lock(s);
	sl_region_leave(r);
	return rc;
}

int
sl_scope_gate(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	struct sl_device *dev = s->device;
	struct sl_arrival last = sl_scope_arrival(l);
	int in = !moves_in_are_done(dev, last.in);
	int out = last.out && !moves_out_are_done(dev, last.out);
	int rc = 0;

	if (!in && !out)
		return 0;
	sl_space_unlock(s);
	if (in)
		rc = dev->ops->stream_gate(l->stream->stream, last.in);
	if (!rc && out)
		rc = dev->ops->stream_gate(l->stream->stream, last.out);
	sl_space_lock(s);
	return rc;
}
