/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that discard, and their place in the order of calls. With a stream the discard takes its
 * place in the order of *decisions* at the call. Earlier launches are already prepared or queued
 * before it, and their pins keep the data until they are done. If the stream holds work that
 * declared nothing, the discard waits for its turn there. transfer/discard.c has the discard of
 * a chunk.
 */
#include "core/api/api.h"
#include "core/interpose.h"

struct discard_task {
	struct sl_task task;
	struct sl_inflight work;
	struct sluice_stream *stream;
	struct sl_region *region;
	uint64_t begin, end;
	int eager;
};

static int
ordered_discard_run(struct sl_task *task)
{
	struct discard_task *d = (struct discard_task *)task;
	struct sluice_space *s = d->region->space;

	sl_space_lock(s);
	sl_range_discard_late(d->region, d->begin, d->end, d->eager);
	sl_space_unlock(s);
	return 0;
}

static void
ordered_discard_done(struct sl_task *task, int rc)
{
	struct discard_task *d = (struct discard_task *)task;
	struct sluice_space *s = d->region->space;

	(void)rc;
	sl_stream_task_done(d->stream);
	sl_space_lock(s);
	sl_inflight_end(s, &d->work);
	sl_region_leave(d->region);
	sl_launch_wake(s);
	sl_space_unlock(s);
	free(d);
}

/* Behind work that declared nothing, or whose reads are checked: when the stream comes to it. Held, drops. */
SL_HELD static int
discard_submit(struct sl_region *r, uint64_t begin, uint64_t end, int eager,
	       struct sluice_stream *stream)
{
	struct discard_task *d = sl_calloc(1, sizeof(*d));

	if (!d)
		return sl_fail(-ENOMEM, "discard: out of memory");
	d->task.run = ordered_discard_run;
	d->task.at_turn = 1;
	d->task.done = ordered_discard_done;
	d->stream = sl_stream_of(r->space, stream);
	d->region = r;
	d->begin = begin;
	d->end = end;
	d->eager = eager;
	sl_inflight_submit(r, &d->work, d->stream, &d->task);
	return 0;
}

/* A use by the user's pin forbids unmapping. Held. */
SL_HELD static int
range_is_pinned(const struct sl_region *r, uint64_t begin, uint64_t end)
{
	for (uint64_t i = begin / r->chunk_bytes; i * r->chunk_bytes < end; i++) {
		if (r->chunks[i].user_pins)
			return 1;
	}
	return 0;
}

/*
 * In the order of calls: behind launches that are still to be prepared. On a GPU at once: a launch that
 * is being prepared there belongs to a call of another thread, which has not returned. Held, drops.
 */
SL_HELD static int
discard_in_order(struct sl_region *r, uint64_t begin, uint64_t end, int eager,
		 struct sluice_stream *stream)
{
	struct sluice_space *s = r->space;

	if (!s->device->native && (s->calls.head || s->serving))
		return sl_mover_discard(r, begin, end, eager, sl_stream_of(s, stream));
	sl_range_discard(r, begin, end, eager,
			 (struct sl_discard_place){sl_stream_of(s, stream), s->launch_clock});
	return 0;
}

int
sl_discard_freed(struct sluice_space *s, void *addr, size_t bytes)
{
	struct sl_region *r;
	uint64_t begin, end;
	int rc = sl_space_enter(s);

	if (rc)
		return rc;
	rc = sl_region_find(s, "discard", addr, bytes, &r, &begin, &end);
	if (!rc && begin < end)
		rc = discard_in_order(r, begin, end, 0, NULL);
	sl_space_unlock(s);
	return rc;
}

int
sluice_discard(struct sluice_space *space, void *addr, size_t size_bytes,
	       enum sluice_discard_mode mode, struct sluice_stream *stream)
{
	struct sl_region *r;
	uint64_t begin, end;
	int eager = mode == SLUICE_DISCARD_EAGER;
	int rc;

	if (mode != SLUICE_DISCARD_EAGER && mode != SLUICE_DISCARD_LAZY)
		return sl_fail(-EINVAL, "discard: unknown mode %d", (int)mode);
	rc = sl_stream_check(space, stream);
	if (rc)
		return rc;
	rc = sl_space_enter(space);
	if (rc)
		return rc;
	rc = sl_region_find(space, "discard", addr, size_bytes, &r, &begin, &end);
	if (rc || begin == end)
		goto out;
	eager = eager || sl_checks_kernels(space); /* every later touch must be seen */
	if (eager && mode == SLUICE_DISCARD_EAGER && range_is_pinned(r, begin, end)) {
		rc = sl_fail(-EBUSY, "discard: %p: the range is pinned: unpin it first",
			     addr);
		goto out;
	}
	if (stream && (space->undeclared || sl_checks_kernels(space))) {
		rc = discard_submit(r, begin, end, eager, stream);
		goto out;
	}
	if (stream) {
		rc = discard_in_order(r, begin, end, eager, stream);
		goto out;
	}
	if (r->launches) {
		rc = sl_range_wait(r, begin, end, "discard");
		if (!rc)
			sl_range_discard_late(r, begin, end, eager);
		goto out;
	}
	sl_range_discard(r, begin, end, eager,
			 (struct sl_discard_place){NULL, space->launch_clock});
out:
	sl_space_unlock(space);
	return rc;
}
