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

/* A discard that keeps its place among launches; freed when its stream has come to it. */
struct sl_discard {
	struct sl_task task; /* first: the stream's handle */
	struct sl_request request;
	struct sl_inflight work;
	struct sluice_stream *stream;
	struct sl_region *region;
	uint64_t begin, end;
	int eager;
	int queued;
};

/* A prefetch of chunks. */
struct sl_prefetch {
	struct sl_request request;
	struct sl_region *region; /* held busy */
	uint64_t *chunks;         /* n chunk numbers, ascending; owned */
	uint64_t n, done;
	uint64_t moved_bytes; /* brought to the device */
	uint64_t clock;       /* when it was asked for */
	unsigned waits;       /* for room, of the chunk whose turn it is */
	enum sluice_tier tier;
	int spare; /* takes only room that nothing alive has: counted in dev.spare_bytes */
};

static struct sl_discard *
discard_of(struct sl_request *q)
{
	return (struct sl_discard *)((char *)q - offsetof(struct sl_discard, request));
}

static struct sl_prefetch *
prefetch_of(struct sl_request *q)
{
	return (struct sl_prefetch *)((char *)q - offsetof(struct sl_prefetch, request));
}

/* late: as sl_range_discard_late(). Drops. */
SL_HELD static void
discard_step(struct sl_discard *d, int late)
{
	struct sl_region *r = d->region;

	d->queued = 0;
	sl_request_remove(&r->space->calls, &d->request);
	if (!late)
		r->space->serving = &d->request;
	if (late)
		sl_range_discard_late(r, d->begin, d->end, d->eager);
	else
		sl_range_discard(r, d->begin, d->end, d->eager,
				 (struct sl_discard_place){d->stream, d->request.number});
	r->launches--;
	sl_region_leave(r);
	sl_inflight_end(r->space, &d->work);
	if (!late)
		r->space->serving = NULL;
	sl_launch_wake(r->space);
}

/*
 * The stream has come to a discard. Who synchronises with it may write then, so it is carried out now
 * if the mover has not come to it: the mover may wait for kernels of other streams.
 */
static int
discard_run(struct sl_task *task)
{
	struct sl_discard *d = (struct sl_discard *)task;
	struct sluice_space *s = d->stream->space;

	sl_space_lock(s);
	while (s->serving == &d->request)
		sl_launch_wait(s);
	if (d->queued)
		discard_step(d, 1);
	sl_space_unlock(s);
	return 0;
}

static void
discard_done(struct sl_task *task, int rc)
{
	struct sl_discard *d = (struct sl_discard *)task;

	(void)rc;
	sl_stream_task_done(d->stream);
	free(d);
}

int
sl_mover_discard(struct sl_region *r, uint64_t begin, uint64_t end, int eager,
		 struct sluice_stream *stream)
{
	struct sl_discard *d = sl_calloc(1, sizeof(*d));
	struct sluice_space *s = r->space;

	if (!d)
		return sl_fail(-ENOMEM, "discard: out of memory");
	d->task.run = discard_run;
	d->task.done = discard_done;
	d->request.kind = SL_REQUEST_DISCARD;
	d->request.number = s->launch_clock;
	d->stream = stream;
	d->region = r;
	d->begin = begin;
	d->end = end;
	d->eager = eager;
	d->queued = 1;
	r->launches++;
	sl_request_add(s, &s->calls, &d->request);
	sl_inflight_submit(r, &d->work, stream, &d->task);
	return 0;
}

int
sl_mover_prefetch(struct sl_region *r, uint64_t *chunks, uint64_t n,
		  enum sluice_tier tier, int spare)
{
	struct sluice_space *s = r->space;
	struct sl_prefetch *p = sl_calloc(1, sizeof(*p));

	if (!p) {
		free(chunks);
		return sl_fail(-ENOMEM, "prefetch: out of memory");
	}
	/* Revived now, not when the mover comes to it: the caller may write right after the call. */
	for (uint64_t i = 0; i < n; i++) {
		struct sl_chunk *c = &r->chunks[chunks[i]];

		if (c->dead || (c->flags & SL_DISCARDED))
			sl_chunk_revive(c, 0, r->chunk_bytes);
	}
	p->request.kind = SL_REQUEST_PREFETCH;
	p->region = r;
	p->chunks = chunks;
	p->n = n;
	p->tier = tier;
	p->spare = spare;
	p->clock = s->clock;
	if (spare)
		s->dev.spare_bytes += n * r->chunk_bytes;
	r->busy++;
	sl_request_add(s, &s->prefetches, &p->request);
	return 0;
}

SL_HELD static void
prefetch_end(struct sluice_space *s)
{
	struct sl_prefetch *p = prefetch_of(s->prefetches.head);

	sl_request_remove(&s->prefetches, &p->request);
	if (p->spare)
		s->dev.spare_bytes -= (p->n - p->done) * p->region->chunk_bytes;
	sl_region_leave(p->region);
	free(p->chunks);
	free(p);
}

/* Read-only look at what a prefetch would still have to read, a few chunks deep. Drops. */
SL_HELD static void
prefetch_read_on(struct sl_prefetch *p)
{
	for (uint64_t i = p->done; i < p->n && i < p->done + 8; i++) {
		struct sl_chunk *c = &p->region->chunks[p->chunks[i]];

		if (c->state == SL_CHUNK_STORE &&
		    sl_read_begin(c, SL_IO_PREFETCH, SLUICE_COUNTER_STORE_READ_PREFETCH,
				  SL_STAGING_LAUNCH, p->tier == SLUICE_TIER_HOST))
			return;
	}
}

/* To the host tier: read, and settle if the tier has room that costs nothing. Drops. */
SL_HELD static void
prefetch_to_host(struct sl_chunk *c)
{
	if (c->state == SL_CHUNK_STORE &&
	    sl_read_begin(c, SL_IO_PREFETCH, SLUICE_COUNTER_STORE_READ_PREFETCH,
			  SL_STAGING_READ, 1))
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
prefetch_waits(struct sl_prefetch *p)
{
	const struct sl_region *r = p->region;
	struct sluice_space *s = r->space;
	const struct sl_chunk *c = &r->chunks[p->chunks[p->done]];

	if (p->spare || s->early_evict.late || p->tier != SLUICE_TIER_DEVICE ||
	    c->state == SL_CHUNK_DEVICE || sl_room_spare(s, r->chunk_bytes) ||
	    s->calls.head || !sl_early_evict_is_pending(s))
		return 0;
	s->early_evict.late = ++p->waits == WAITS_MAX;
	(void)sl_launch_wait_until(s, sl_now_ns() + SL_ROOM_LOOK_NS);
	return 1;
}

/* One chunk of the oldest prefetch. Whatever fails is left to the use that needs it. Drops. */
SL_HELD static void
prefetch_step(struct sluice_space *s)
{
	struct sl_prefetch *p = prefetch_of(s->prefetches.head);
	struct sl_chunk *c;
	/* partial: nothing says that nobody writes to it meanwhile. */
	struct sl_fill fill = {.intent = SLUICE_USE_READ,
			       .cause = SL_CAUSE_PREFETCH,
			       .room = p->spare ? SL_ROOM_SPARE : SL_ROOM_PREFETCH,
			       .partial = 1};

	if (p->region->closed || p->done == p->n) {
		prefetch_end(s);
		return;
	}
	prefetch_read_on(p);
	if (prefetch_waits(p))
		return;
	p->waits = 0;
	if (p->spare)
		s->dev.spare_bytes -= p->region->chunk_bytes;
	c = &p->region->chunks[p->chunks[p->done++]];
	if (p->tier == SLUICE_TIER_DEVICE && (sl_chunk_stamp(c) > p->clock || c->reach_users))
		return; /* the use that it was for has come already, or does not move for a while */
	if (p->tier == SLUICE_TIER_HOST) {
		prefetch_to_host(c);
		return;
	}
	if (c->state == SL_CHUNK_DEVICE || c->state == SL_CHUNK_EMPTY) {
		c->awaited = c->state == SL_CHUNK_DEVICE;
		return;
	}
	/* What has no room stays: a prefetch does not push its own beginning out. */
	if (p->moved_bytes + p->region->chunk_bytes + s->dev.pinned_bytes > s->dev.budget_bytes)
		return;
	p->moved_bytes += p->region->chunk_bytes;
	fill.intent = sl_policy_intent(s->policy, p->region->flags, SLUICE_USE_READ);
	sl_chunk_touch(c);
	c->awaited = 1; /* a use may come before the data are there */
	sl_ignore(sl_fill(c, &fill));
}

SL_HELD static void
launch_step(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	int rc;

	sl_request_remove(&s->calls, &l->request);
	s->serving = &l->request;
	/* As at the call, had nobody been before it: what there is to see must not depend on that. */
	if (sl_launch_try_prepare(l) == 0) {
		s->serving = NULL;
		sl_launch_wake(s);
		return;
	}
	rc = sl_launch_prepare(l);
	s->serving = NULL;
	sl_launch_prepared(l, rc);
}

/* The oldest launch or discard. Drops. */
SL_HELD static void
call_step(struct sluice_space *s)
{
	struct sluice_launch *l = sl_request_launch(s->calls.head);

	if (l)
		launch_step(l);
	else
		discard_step(discard_of(s->calls.head), 0);
}

int
sl_mover_is_due(struct sluice_space *s)
{
	return s->calls.head || s->prefetches.head || sl_policy_is_due(s) ||
	       sl_early_evict_is_due(s);
}

/* One piece of work, dropping the lock in between. 0: there is none for us. */
SL_HELD static int
mover_step(struct sluice_space *s)
{
	const struct sluice_launch *here = sl_request_launch(s->serving);

	/* A launching thread does our part; what was asked for in the background goes on beside it only
	 * for programs that know nothing of us, whose order of decisions nobody counts on. */
	if (here && !here->embedded)
		return 0;
	if (!here && sl_policy_is_due(s)) { /* before the next launch is looked at */
		s->mover_busy = 1;
		s->policy->step(s);
		s->mover_busy = 0;
	} else if (!here && s->calls.head) {
		call_step(s);
	} else if (sl_early_evict_is_due(s)) {
		s->mover_busy = 1;
		sl_early_evict_step(s);
		s->mover_busy = 0;
	} else if (s->prefetches.head) {
		s->mover_busy = 1;
		prefetch_step(s);
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
	while (s->prefetches.head)
		prefetch_end(s);
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
