/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mover: one thread a space. It prepares launches in call order, ahead of the kernels. It
 * carries out prefetches when no launch waits, a chunk at a time. So a demand never queues
 * behind more than one prefetched chunk.
 */
#include <signal.h>
#include <string.h>

#include "base/turns.h"
#include "core/launch/launch.h"
#include "core/timeouts.h"

/* So often at most a prefetch waits SL_ROOM_LOOK_NS for room that is to be given. */
#define WAITS_MAX 1000u

/* late: as sl_range_discard_late(). Drops. */
SL_HELD static void
discard_step(struct sluice_launch *l, int late)
{
	struct sluice_space *s = l->space;
	struct sl_launch_use *u = l->uses;

	if (late)
		sl_range_discard_late(u->region, u->begin, u->end, l->discard_eager);
	else
		sl_range_discard(u->region, u->begin, u->end, l->discard_eager, l->number);
	u->region->launches--;
	sl_region_leave(u->region);
	sl_inflight_end(s, &l->work);
	l->state = SL_LAUNCH_DONE;
	sl_launch_wake(s);
}

/*
 * The stream has come to a discard. Who synchronises with it may write then, so it is carried out now
 * if the mover has not come to it: the mover may wait for kernels of other streams.
 */
static int
discard_run(struct sl_task *task)
{
	struct sluice_launch *l = (struct sluice_launch *)task;
	struct sluice_space *s = l->space;

	sl_space_lock(s);
	while (s->preparing == l)
		sl_launch_wait(s);
	if (l->state == SL_LAUNCH_QUEUED) {
		sl_launch_unqueue(s, l);
		discard_step(l, 1);
	}
	sl_space_unlock(s);
	return 0;
}

static void
discard_done(struct sl_task *task, int rc)
{
	struct sluice_launch *l = (struct sluice_launch *)task;

	(void)rc;
	sl_stream_task_done(l->stream);
	free(l);
}

int
sl_mover_discard(struct sl_region *r, uint64_t begin, uint64_t end, int eager,
		 struct sluice_stream *stream)
{
	struct sluice_launch *l = sl_calloc(1, sizeof(*l) + sizeof(struct sl_launch_use));
	struct sluice_space *s = r->space;

	if (!l)
		return sl_fail(-ENOMEM, "discard: out of memory");
	l->space = s;
	l->stream = stream;
	l->task.run = discard_run;
	l->task.done = discard_done;
	l->discard = 1;
	l->number = r->space->launch_clock;
	l->discard_eager = eager;
	l->uses = (struct sl_launch_use *)(l + 1);
	l->uses->region = r;
	l->uses->begin = begin;
	l->uses->end = end;
	r->busy++;
	r->launches++;
	sl_inflight_begin(s, &l->work, NULL, r);
	sl_launch_queue(l);
	sl_space_unlock(s);
	sl_stream_submit(stream, &l->task);
	sl_space_lock(s);
	return 0;
}

int
sl_mover_request(struct sl_region *r, uint64_t *chunks, uint64_t n, enum sluice_tier tier,
		 int spare)
{
	struct sluice_space *s = r->space;
	struct sl_request *q = sl_calloc(1, sizeof(*q));

	if (!q) {
		free(chunks);
		return sl_fail(-ENOMEM, "prefetch: out of memory");
	}
	/* Revived now, not when the mover comes to it: the caller may write right after the call. */
	for (uint64_t i = 0; i < n; i++) {
		struct sl_chunk *c = &r->chunks[chunks[i]];

		if (c->dead || (c->flags & SL_DISCARDED))
			sl_chunk_revive(c, 0, r->chunk_bytes);
	}
	q->region = r;
	q->chunks = chunks;
	q->n = n;
	q->tier = tier;
	q->spare = spare;
	q->clock = s->clock;
	if (spare)
		s->dev.spare_bytes += n * r->chunk_bytes;
	r->busy++;
	if (s->request_tail)
		s->request_tail->next = q;
	else
		s->request_head = q;
	s->request_tail = q;
	sl_cond_signal(&s->mover_wake);
	return 0;
}

SL_HELD static void
request_end(struct sluice_space *s)
{
	struct sl_request *q = s->request_head;

	s->request_head = q->next;
	if (!q->next)
		s->request_tail = NULL;
	if (q->spare)
		s->dev.spare_bytes -= (q->n - q->done) * q->region->chunk_bytes;
	sl_region_leave(q->region);
	free(q->chunks);
	free(q);
}

/* Read-only look at what a prefetch would still have to read, a few chunks deep. Drops. */
SL_HELD static void
request_read_on(struct sl_request *q)
{
	for (uint64_t i = q->done; i < q->n && i < q->done + 8; i++) {
		struct sl_chunk *c = &q->region->chunks[q->chunks[i]];

		if (c->state == SL_CHUNK_STORE &&
		    sl_read_begin(c, SL_IO_PREFETCH, SLUICE_COUNTER_STORE_READ_PREFETCH,
				  SL_STAGING_LAUNCH))
			return;
	}
}

/* To the host tier: read, and settle if the tier has room that costs nothing. Drops. */
SL_HELD static void
request_to_host(struct sl_chunk *c)
{
	if (c->state == SL_CHUNK_STORE &&
	    sl_read_begin(c, SL_IO_PREFETCH, SLUICE_COUNTER_STORE_READ_PREFETCH,
			  SL_STAGING_READ))
		return;
	while (c->state == SL_CHUNK_READING)
		sl_chunk_wait(c);
	if (c->state == SL_CHUNK_HOST)
		sl_ignore(sl_host_settle(c, SL_SETTLE_NOW));
}

/*
 * There is no room for its next chunk now, but what is to leave soon will give some: that is waited for, for a while,
 * since otherwise something that is to stay would have to go. Drops.
 */
SL_HELD static int
request_waits(struct sl_request *q)
{
	const struct sl_region *r = q->region;
	struct sluice_space *s = r->space;
	const struct sl_chunk *c = &r->chunks[q->chunks[q->done]];

	if (q->spare || s->early_evict.late || q->tier != SLUICE_TIER_DEVICE ||
	    c->state == SL_CHUNK_DEVICE || sl_room_spare(s, r->chunk_bytes) ||
	    s->queue_head || !sl_early_evict_is_pending(s))
		return 0;
	s->early_evict.late = ++q->waits == WAITS_MAX;
	(void)sl_launch_wait_until(s, sl_now_ns() + SL_ROOM_LOOK_NS);
	return 1;
}

/* One chunk of the oldest prefetch. Whatever fails is left to the use that needs it. Drops. */
SL_HELD static void
request_step(struct sluice_space *s)
{
	struct sl_request *q = s->request_head;
	struct sl_chunk *c;
	/* partial: nothing says that nobody writes to it meanwhile. */
	struct sl_fill fill = {.intent = SLUICE_USE_READ,
			       .cause = SL_CAUSE_PREFETCH,
			       .opportunist = 1,
			       .spare = q->spare,
			       .partial = 1};

	if (q->region->unmapping || q->done == q->n) {
		request_end(s);
		return;
	}
	request_read_on(q);
	if (request_waits(q))
		return;
	q->waits = 0;
	if (q->spare)
		s->dev.spare_bytes -= q->region->chunk_bytes;
	c = &q->region->chunks[q->chunks[q->done++]];
	if (q->tier == SLUICE_TIER_DEVICE && sl_chunk_stamp(c) > q->clock)
		return; /* the use that it was for has come already */
	if (q->tier == SLUICE_TIER_HOST) {
		request_to_host(c);
		return;
	}
	if (c->state == SL_CHUNK_DEVICE || c->state == SL_CHUNK_EMPTY) {
		c->awaited = c->state == SL_CHUNK_DEVICE;
		return;
	}
	/* What has no room stays: a prefetch does not push its own beginning out. */
	if (q->moved_bytes + q->region->chunk_bytes + s->dev.pinned_bytes > s->dev.budget_bytes)
		return;
	q->moved_bytes += q->region->chunk_bytes;
	fill.intent = sl_policy_intent(s->policy, q->region->flags, SLUICE_USE_READ);
	sl_chunk_touch(c);
	c->awaited = 1; /* a use may come before the data are there */
	sl_ignore(sl_fill(c, &fill));
}

SL_HELD static void
launch_step(struct sluice_space *s)
{
	struct sluice_launch *l = s->queue_head;
	int rc;

	sl_launch_unqueue(s, l);
	s->preparing = l;
	if (l->discard) {
		discard_step(l, 0); /* freed by its stream, which waits until we are through */
		s->preparing = NULL;
		sl_launch_wake(s);
		return;
	}
	/* As at the call, had nobody been before it: what there is to see must not depend on that. */
	if (sl_launch_try_prepare(l) == 0) {
		s->preparing = NULL;
		sl_launch_wake(s);
		return;
	}
	rc = sl_launch_prepare(l);
	s->preparing = NULL;
	sl_launch_prepared(l, rc);
}

int
sl_mover_is_due(struct sluice_space *s)
{
	return s->queue_head || s->request_head || sl_policy_is_due(s) ||
	       sl_early_evict_is_due(s);
}

/* One piece of work, dropping the lock in between. 0: there is none for us. */
SL_HELD static int
mover_step(struct sluice_space *s)
{
	/* A launching thread does our part; what was asked for in the background goes on beside it only
	 * for programs that know nothing of us, whose order of decisions nobody counts on. */
	if (s->preparing && !s->preparing->embedded)
		return 0;
	if (!s->preparing && sl_policy_is_due(s)) { /* before the next launch is looked at */
		s->mover_busy = 1;
		s->policy->step(s);
		s->mover_busy = 0;
	} else if (!s->preparing && s->queue_head) {
		launch_step(s);
	} else if (sl_early_evict_is_due(s)) {
		s->mover_busy = 1;
		sl_early_evict_step(s);
		s->mover_busy = 0;
	} else if (s->request_head) {
		s->mover_busy = 1;
		request_step(s);
		s->mover_busy = 0;
	} else {
		return 0;
	}
	return 1;
}

static void *
mover_main(void *arg)
{
	struct sluice_space *s = arg;

	sl_space_lock(s);
	while (!s->mover_stop)
		if (!mover_step(s))
			sl_space_wait(s, &s->mover_wake);
	while (s->request_head)
		request_end(s);
	sl_space_unlock(s);
	return NULL;
}

int
sl_mover_start(struct sluice_space *s)
{
	sigset_t all, before;
	int rc = -sl_fault_point("thread.create");

	if (!rc) {
		/* Signals are the program's: a handler that touches managed memory must not run here,
		 * where it would wait for the mover. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		rc = sl_thread_start(&s->mover, mover_main, s);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	if (rc)
		return sl_fail(-rc, "space: cannot start the mover thread: %s", strerror(rc));
	s->mover_started = 1;
	return 0;
}

void
sl_mover_stop(struct sluice_space *s)
{
	if (!s->mover_started)
		return;
	sl_space_lock(s);
	s->mover_stop = 1;
	sl_cond_signal(&s->mover_wake);
	sl_space_unlock(s);
	sl_thread_join(s->mover);
	s->mover_started = 0;
}
