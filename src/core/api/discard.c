/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discard (the paper UVM Discard): contents declared dead are copied nowhere. Tracked per 4 KiB page;
 * acted on when no live page of the chunk is left. Lazy: the chunk stays present on the discarded
 * list, the second in victim order, until a write intent or a prefetch revives it. Eager: it is unmapped, at
 * once or when the last launch that uses it ends.
 *
 * With a stream the discard takes its place in the order of *decisions* at the call: launches called
 * before it are already prepared or queued before it, and their pins keep the data until they
 * are done. Where the stream holds work that declared nothing, it waits for its turn there.
 */
#include <assert.h>
#include <string.h>

#include "base/size.h"
#include "core/core.h"
#include "core/interpose.h"

void
sl_chunk_forget(struct sl_chunk *c)
{
	sl_dirty_hash_forget(c);
	sl_host_drop(c);
	sl_spill_drop(c);
	free(c->dead);
	c->dead = NULL;
	c->flags &= SL_FLAGS_KEPT;
}

/* Note dead pages [begin, end) (bytes within the chunk); 1 when no live page is left. Held. */
SL_HELD static int
pages_die(struct sl_chunk *c, uint64_t begin, uint64_t end)
{
	uint64_t valid = sl_chunk_valid_bytes(c);
	size_t n_pages = (valid + SL_PAGE_BYTES - 1) / SL_PAGE_BYTES;
	size_t first = (begin + SL_PAGE_BYTES - 1) / SL_PAGE_BYTES;
	size_t last = end >= valid ? n_pages : end / SL_PAGE_BYTES;

	if (first == 0 && last == n_pages)
		return 1;
	if (first >= last)
		return 0;
	if (!c->dead) {
		c->dead = sl_calloc(SL_BITMAP_WORDS(c->region->chunk_bytes / SL_PAGE_BYTES),
				    sizeof(uint64_t));
		if (!c->dead)
			return 0; /* a discard is a permission, not a duty */
	}
	sl_bitmap_set(c->dead, first, last - first);
	return sl_bitmap_next_clear(c->dead, 0, n_pages) == n_pages;
}

/*
 * Guard [begin, end) of a chunk that is on the device by pages, or all of one that is there as a
 * whole: whoever writes its live pages is met once, and lifts the guard of those alone
 * (sl_chunk_unguard_live()). Not 0: it cannot be guarded. Held, drops.
 */
SL_HELD static int
chunk_guard(struct sl_chunk *c, uint64_t begin, uint64_t end)
{
	struct sluice_space *s = c->region->space;
	uint8_t state = c->state;
	int rc;

	if (!c->pages) {
		begin = 0;
		end = c->region->chunk_bytes;
	}
	begin = begin / SL_PAGE_BYTES * SL_PAGE_BYTES;
	end = sl_round_up(end, SL_PAGE_BYTES);
	if (state == SL_CHUNK_DEVICE) /* writers wait until the books know of the guard */
		sl_chunk_set_state(c, SL_CHUNK_SYNCING);
	c->flags |= SL_SNAPSHOT;
	sl_space_unlock(s);
	rc = s->device->ops->guard(s->device, sl_chunk_addr(c) + begin, end - begin);
	sl_space_lock(s);
	c->flags &= (uint16_t)~SL_SNAPSHOT;
	if (!rc && !c->pages)
		c->flags |= SL_GUARDED;
	if (state == SL_CHUNK_DEVICE)
		sl_chunk_set_state(c, SL_CHUNK_DEVICE);
	return rc;
}

/*
 * Some pages of a chunk are about to be noted dead, eagerly: a later write to them must be seen, so
 * that it counts. What launches that use it write is not later: the last of them lets the guard
 * stand (sl_dead_watch()). Bytes within the chunk. Not 0: it cannot be seen. Held, drops.
 */
SL_HELD static int
writes_watch(struct sl_chunk *c, uint64_t begin, uint64_t end)
{
	struct sluice_space *s = c->region->space;
	int rc;

	while (c->state == SL_CHUNK_SYNCING || c->state == SL_CHUNK_FILLING ||
	       c->state == SL_CHUNK_EVICTING ||
	       (c->state == SL_CHUNK_DEVICE && sl_chunk_is_held(c)))
		sl_chunk_wait(c);
	sl_chunk_keep(c); /* dead as a whole, it would drop later writes, or go with a launch's end */
	if (!(s->device->caps & SL_CAP_GUARDS))
		return 0;
	if (c->state == SL_CHUNK_DEVICE && sl_chunk_pins(c)) {
		c->flags |= SL_DISCARD_EAGER;
		s->eager_used = 1;
		return 0;
	}
	rc = c->state != SL_CHUNK_DEVICE || (!c->pages && (c->flags & SL_GUARDED))
		     ? 0
		     : chunk_guard(c, begin, end);
	if (!rc)
		c->flags |= SL_DISCARD_EAGER;
	return rc;
}

void
sl_dead_watch(struct sl_chunk *c)
{
	int filling = c->state == SL_CHUNK_FILLING;

	if (!c->dead || !(c->flags & SL_DISCARD_EAGER) || (c->flags & SL_GUARDED))
		return;
	while (!filling && c->state == SL_CHUNK_DEVICE && sl_chunk_is_held(c))
		sl_chunk_wait(c);
	if (!filling && (c->state != SL_CHUNK_DEVICE || sl_chunk_pins(c)))
		return; /* a launch that came meanwhile will see to it */
	if (c->dead && chunk_guard(c, 0, c->region->chunk_bytes))
		sl_chunk_revive(c, 0, c->region->chunk_bytes);
}

int
sl_chunk_unguard_live(struct sl_chunk *c)
{
	uint64_t bytes = c->region->chunk_bytes;
	size_t n_pages = bytes / SL_PAGE_BYTES, first = 0, end;
	int rc = 0;

	while (!rc && first < n_pages) {
		if (!c->dead)
			return sl_chunk_unguard(c, 0, bytes);
		first = sl_bitmap_next_clear(c->dead, first, n_pages);
		if (first == n_pages)
			break;
		end = sl_bitmap_next_set(c->dead, first, n_pages);
		rc = sl_chunk_unguard(c, first * SL_PAGE_BYTES,
				      (end - first) * SL_PAGE_BYTES);
		first = end;
	}
	return rc;
}

/* Whether a launch with at most this number is still to be prepared, or again. */
SL_HELD static int
launches_are_queued(const struct sluice_space *s, uint64_t number)
{
	const struct sluice_launch *l = s->preparing;

	if (l && !l->discard && l->number <= number)
		return 1;
	for (l = s->queue_head; l && l->number <= number; l = l->next) {
		if (!l->discard)
			return 1;
	}
	return 0;
}

/*
 * The whole chunk is dead, but for launches called before: up to number `before`. Held, drops. Waits
 * for moves of it, not for launches. While it waits, such a launch can lose its pins, and then needs
 * the contents again: the discard is forgotten.
 */
void
sl_chunk_discard(struct sl_chunk *c, enum sl_discard_how how, uint64_t before)
{
	for (int waited = 0;; waited = 1) {
		if (waited && how != SL_DISCARD_UNMAP && !(c->flags & SL_DISCARDED) &&
		    launches_are_queued(c->region->space, before))
			return;
		switch ((enum sl_chunk_state)c->state) {
		case SL_CHUNK_EMPTY:
			c->flags &= (uint16_t)~SL_LOST;
			return;
		case SL_CHUNK_STORE:
		case SL_CHUNK_HOST:
		case SL_CHUNK_POISONED:
			if (how != SL_DISCARD_UNMAP && sl_chunk_pins(c))
				return; /* a fault took it from a launch, which faults, too */
			if (c->flags & SL_ZEROCOPY) {
				if (c->reach_users && how != SL_DISCARD_UNMAP)
					return; /* a launch still uses it */
				if (sl_zerocopy_unmap(c))
					return;
				break;
			}
			if (c->view) {
				if (sl_view_forget(c))
					return; /* what is still shown lives on */
				break;
			}
			sl_dirty_hash_forget(c);
			free(c->pages);
			c->pages = NULL;
			if (c->host) {
				struct sl_host *h = c->host;

				if (how != SL_DISCARD_UNMAP && (c->flags & SL_DIRTY_HOST))
					sl_count(c->region->space,
						 SLUICE_COUNTER_DISCARD_SAVED,
						 h->frame->bytes);
				sl_host_list_remove(h);
				sl_read_ahead_release(c);
				c->host = NULL;
				c->flags &= SL_FLAGS_KEPT;
				sl_chunk_set_state(c, SL_CHUNK_EMPTY);
				sl_host_put(h);
				if (c->state != SL_CHUNK_EMPTY)
					return;
			} else {
				sl_chunk_set_state(c, SL_CHUNK_EMPTY);
			}
			c->flags &= SL_FLAGS_KEPT;
			sl_spill_drop(c);
			free(c->dead);
			c->dead = NULL;
			return;
		case SL_CHUNK_DEVICE:
			if (sl_chunk_is_held(c)) {
				sl_chunk_wait(c);
				break;
			}
			/* EAGER is of its pages; what is discarded is not lost any more. */
			c->flags &= (uint16_t) ~(SL_DISCARD_EAGER | SL_LOST);
			c->flags |= SL_DISCARDED | (how ? SL_DISCARD_EAGER : 0);
			free(c->dead);
			c->dead = NULL;
			sl_chunk_update(c);
			c->flags &= (uint16_t)~SL_DIRTY_HOST; /* revived, it has no frame any more */
			sl_dirty_hash_forget(c);
			if (c->host)
				sl_host_drop(c);
			if (c->state == SL_CHUNK_DEVICE && (c->flags & SL_DISCARDED))
				sl_spill_drop(c);
			if (how == SL_DISCARD_LAZILY || c->state != SL_CHUNK_DEVICE ||
			    !(c->flags & SL_DISCARDED))
				return;
			if (sl_chunk_pins(c)) { /* the launch's end unmaps it */
				c->region->space->eager_used = 1;
				return;
			}
			if (sl_evict(c, SL_EVICT_DISCARD)) {
				sl_chunk_keep(c);
				return;
			}
			if (c->state != SL_CHUNK_DEVICE || !(c->flags & SL_DISCARDED))
				return;
			break; /* held since the lock was dropped: nothing was unmapped */
		case SL_CHUNK_READING:
		case SL_CHUNK_WRITING:
		case SL_CHUNK_FILLING:
		case SL_CHUNK_SYNCING:
		case SL_CHUNK_EVICTING:
		case SL_CHUNK_VIEWING:
			sl_chunk_wait(c);
			break;
		case SL_CHUNK_STATE_COUNT:
			return;
		}
	}
}

/* On its way somewhere, or held: sl_chunk_discard() would wait first. */
SL_HELD static int
chunk_is_moving(const struct sl_chunk *c)
{
	switch ((enum sl_chunk_state)c->state) {
	case SL_CHUNK_READING:
	case SL_CHUNK_WRITING:
	case SL_CHUNK_FILLING:
	case SL_CHUNK_SYNCING:
	case SL_CHUNK_EVICTING:
	case SL_CHUNK_VIEWING:
		return 1;
	case SL_CHUNK_DEVICE:
		return sl_chunk_is_held(c);
	case SL_CHUNK_EMPTY:
	case SL_CHUNK_STORE:
	case SL_CHUNK_HOST:
	case SL_CHUNK_POISONED:
	case SL_CHUNK_STATE_COUNT:
		break;
	}
	return 0;
}

/*
 * What the user has pinned stays on the device: nothing unmaps it, and checking mode cannot see it
 * written there. So there the discard is forgotten; a pin brings back to life what was dead before it.
 */
static int
chunk_stays(const struct sl_chunk *c, int eager)
{
	return c->user_pins && (eager || sl_checks_kernels(c->region->space));
}

/* Off the device, so that each later touch is seen; what is pinned meanwhile stays. Held, drops. */
SL_HELD static int
chunk_hide(struct sl_chunk *c)
{
	int rc = 0;

	while (!rc && !c->user_pins) {
		if (chunk_is_moving(c))
			sl_chunk_wait(c);
		else if (c->state == SL_CHUNK_DEVICE)
			rc = sl_evict(c, SL_EVICT_REQUEST);
		else
			break;
	}
	return rc;
}

/* late: launches called after the discard may be prepared already; what they use lives again. */
SL_HELD static void
range_discard(struct sl_region *r, uint64_t begin, uint64_t end, int eager, int late,
	      uint64_t before)
{
	struct sluice_space *s = r->space;

	sl_count(s, SLUICE_COUNTER_DISCARDS, end - begin);
	if (s->policy->discarded)
		s->policy->discarded(r, begin, end);
	r->busy++;
	for (uint64_t i = begin / r->chunk_bytes; i * r->chunk_bytes < end; i++) {
		struct sl_chunk *c = &r->chunks[i];
		uint64_t base = i * r->chunk_bytes;
		uint64_t from = begin > base ? begin - base : 0;
		uint64_t to = end - base < r->chunk_bytes ? end - base : r->chunk_bytes;

		/* Such a launch may come while the chunk is waited for: wait first, then look. */
		while (late && chunk_is_moving(c) && !sl_chunk_pins(c))
			sl_chunk_wait(c);
		if (late && sl_chunk_pins(c))
			continue;
		if (chunk_stays(c, eager))
			continue;
		/* The common case first: present, nothing else to let go. */
		if (c->state == SL_CHUNK_DEVICE && !eager && !c->host && !c->spill &&
		    !c->dead && from == 0 && to >= sl_chunk_valid_bytes(c) && !c->pages &&
		    !sl_checks_kernels(s)) {
			/* EAGER is of pages that live again. */
			c->flags &= (uint16_t) ~(SL_DISCARD_EAGER | SL_LOST);
			c->flags |= SL_DISCARDED;
			sl_chunk_update(c);
			continue;
		}
		if (eager && !(from == 0 && to >= sl_chunk_valid_bytes(c)) &&
		    (writes_watch(c, from, to) || chunk_stays(c, eager)))
			continue; /* writes would go unseen: forget about the discard */
		if (pages_die(c, from, to))
			sl_chunk_discard(c, eager ? SL_DISCARD_EAGERLY : SL_DISCARD_LAZILY,
					 before);
		else
			sl_chunk_update(c);
		if (sl_checks_kernels(s)) {
			sl_ignore(chunk_hide(c));
			sl_check_discarded(c, from, to);
		}
	}
	sl_region_leave(r);
}

void
sl_range_discard(struct sl_region *r, uint64_t begin, uint64_t end, int eager, uint64_t before)
{
	range_discard(r, begin, end, eager, 0, before);
}

void
sl_range_discard_late(struct sl_region *r, uint64_t begin, uint64_t end, int eager)
{
	range_discard(r, begin, end, eager, 1, 0);
}

struct discard_task {
	struct sl_task task;
	struct sl_inflight work;
	struct sluice_stream *stream;
	struct sl_region *region;
	uint64_t begin, end;
	int eager;
};

static int
discard_run(struct sl_task *task)
{
	struct discard_task *d = (struct discard_task *)task;
	struct sluice_space *s = d->region->space;

	sl_space_lock(s);
	sl_range_discard_late(d->region, d->begin, d->end, d->eager);
	sl_space_unlock(s);
	return 0;
}

static void
discard_done(struct sl_task *task, int rc)
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
	struct sluice_space *s = r->space;
	struct discard_task *d = sl_calloc(1, sizeof(*d));

	if (!d)
		return sl_fail(-ENOMEM, "discard: out of memory");
	d->task.run = discard_run;
	d->task.at_turn = 1;
	d->task.done = discard_done;
	d->stream = sl_stream_of(s, stream);
	d->region = r;
	d->begin = begin;
	d->end = end;
	d->eager = eager;
	r->busy++;
	sl_inflight_begin(s, &d->work, NULL, r);
	sl_space_unlock(s);
	sl_stream_submit(d->stream, &d->task);
	sl_space_lock(s);
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

	if (!(s->device->caps & SL_CAP_NATIVE) && (s->queue_head || s->preparing))
		return sl_mover_discard(r, begin, end, eager, sl_stream_of(s, stream));
	sl_range_discard(r, begin, end, eager, s->launch_clock);
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
	sl_range_discard(r, begin, end, eager, space->launch_clock);
out:
	sl_space_unlock(space);
	return rc;
}
