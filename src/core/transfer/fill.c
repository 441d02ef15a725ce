/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bringing a chunk in: from the store through a host frame, from the host tier, or as zeros.
 * Also recording the effect of the intent on its copies. Faults call it, and the mover for
 * launches, pins and prefetches. The caller's thread does the work. Other threads that need a
 * busy chunk wait for it.
 */
#include <assert.h>
#include <string.h>

#include "core/transfer/transfer.h"

static int
intent_writes(enum sluice_intent intent)
{
	return intent != SLUICE_USE_READ;
}

/*
 * The old contents do not matter: nothing is read. A launch that never runs leaves them as they were
 * (overwrite.c): so an only copy that would fill up staging meanwhile is moved in after all.
 */
SL_HELD static int
fill_is_total(const struct sl_chunk *c, const struct sl_fill *fill)
{
	if (fill->partial)
		return 0;
	if (fill->launch && (sl_chunk_pins(c) > 1 || /* a fault took it from another launch */
			     sl_chunk_is_wanted_before(c, fill->launch->request.number)))
		return 0;
	return fill->intent == SLUICE_USE_SCRATCH ||
	       (fill->intent == SLUICE_USE_WRITE_ALL &&
		(!c->host || c->host->settled || sl_store_is_newest(c)));
}

static enum sluice_counter
fill_counter(const struct sl_fill *fill)
{
	static const enum sluice_counter counters[SL_CAUSE_COUNT] = {
		[SL_CAUSE_LAUNCH] = SLUICE_COUNTER_H2D_LAUNCH,
		[SL_CAUSE_FAULT] = SLUICE_COUNTER_H2D_FAULT,
		[SL_CAUSE_CPU] = SLUICE_COUNTER_H2D_CPU,
		[SL_CAUSE_PREFETCH] = SLUICE_COUNTER_H2D_PREFETCH,
	};

	return counters[fill->cause];
}

/* undo: the move failed after all. */
SL_HELD static void
fill_count(struct sl_chunk *c, const struct sl_fill *fill, int moved, int undo)
{
	struct sluice_space *s = c->region->space;
	uint64_t bytes = undo ? -c->region->chunk_bytes : c->region->chunk_bytes;

	sl_count(s, moved ? fill_counter(fill) : SLUICE_COUNTER_ZERO_FILL, bytes);
	if (moved && (c->flags & SL_WAS_EVICTED))
		sl_count(s, SLUICE_COUNTER_REFETCH, bytes);
}

/* A copy in that is watched. */
struct watched {
	struct sluice_space *space;
	uint64_t event;
};

/* It is over. On a thread of the device. */
static void
watched_done(void *cookie, int rc, struct sl_copy_time at)
{
	struct watched *w = cookie;

	sl_space_lock(w->space);
	sl_event_end_at(w->space, w->event, rc, at);
	sl_space_unlock(w->space);
	free(w);
}

/* The copy in of c is enqueued: its event ends when the device says so. Drops. */
SL_HELD static void
fill_watch(struct sl_chunk *c, uint64_t event)
{
	struct sluice_space *s = c->region->space;
	struct sl_fence fence = c->ready_at;
	struct watched *w = NULL;
	int rc = -ENOMEM;

	if (!event)
		return;
	sl_event_fence(s, event, fence);
	sl_space_unlock(s);
	if (fence.value && (fence.queue == SL_COPIES_IN || fence.queue == SL_DECODES))
		w = sl_malloc(sizeof(*w));
	if (w) {
		*w = (struct watched){s, event};
		rc = s->device->async->watch(s->device, fence, watched_done, w);
	}
	sl_space_lock(s);
	if (!rc)
		return;
	free(w);
	sl_event_end(s, event, 0); /* it is over, or nobody can tell when it is */
}

/*
 * Present c, which is FILLING with device bytes reserved. Guard what is clean, so that a write by
 * anybody is seen. Any thread may be writing right now, so the guard must stand before the chunk is
 * visible. The exception: the frame is the only copy, so what was written goes back with it.
 */
SL_HELD static int
fill_present(struct sl_chunk *c, const struct sl_fill *fill, int total)
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	struct sl_host *h = total ? NULL : c->host;
	int overwrites = total && fill->intent == SLUICE_USE_WRITE_ALL;
	int dirty = intent_writes(fill->intent);
	int writable = sl_region_is_writable(r);
	int watched = c->dead &&
		      (c->flags & SL_DISCARD_EAGER); /* each later write is to be seen */
	enum sl_dirty_hash_state base = sl_dirty_hash_against(c, fill->intent);
	uint64_t event = 0, encoded, frame_bytes, since;
	unsigned flags = 0;
	int keep = 0;
	int rc;

	if (h && (!dirty || base == SL_MEASURED_COPY))
		keep = sl_host_settle(c, fill->cause == SL_CAUSE_LAUNCH ? SL_SETTLE_WAIT
									: SL_SETTLE_NOW) == 0;
	if (keep)
		flags |= SL_PRESENT_KEEP;
	if (watched || (writable && !dirty && !(h && (c->flags & SL_DIRTY_HOST))))
		flags |= SL_PRESENT_GUARD_STRICT;
	else if (!dirty || !writable)
		flags |= SL_PRESENT_GUARD;
	if (base == SL_MEASURED_COPY && !keep && !sl_store_is_newest(c))
		base = SL_MEASURED_LEARN;
	fill_count(c, fill, h != NULL, 0); /* before the toucher can go on and look */
	encoded = h ? h->frame->encoded_bytes : 0;
	frame_bytes = h ? h->frame->bytes : 0;
	if (encoded)
		sl_count(s, SLUICE_COUNTER_COMPRESS_IN_SAVED, r->chunk_bytes - encoded);
	if (h)
		event = sl_event_begin(c, fill_counter(fill), r->chunk_bytes, 0,
				       fill->launch);
	since = sl_event_now(s);
	sl_space_unlock(s);
	/* Cleared, whatever the intent: a kernel may leave bytes alone, or never run, and nobody is
	 * to see what another range had there. */
	if (!h && (r->flags & SL_REGION_UNDEFINED))
		rc = s->device->ops->present(s->device, sl_chunk_addr(c), r->chunk_bytes,
					     NULL, SL_PRESENT_UNDEFINED);
	else
		rc = s->device->ops->present(s->device, sl_chunk_addr(c), r->chunk_bytes,
					     h ? h->frame : NULL, flags);
	sl_space_lock(s);
	sl_event_waited(s, SL_WAIT_MAP, since);
	if (rc) {
		fill_count(c, fill, h != NULL, 1);
		if (encoded)
			sl_count(s, SLUICE_COUNTER_COMPRESS_IN_SAVED,
				 encoded - r->chunk_bytes);
		sl_event_undo(s, event);
		return rc;
	}
	if (h && !keep) {
		if (c->flags & SL_DIRTY_HOST)
			dirty = 1;
		sl_host_consumed(c, frame_bytes);
	}
	c->ready_at = s->device->async
			      ? s->device->async->ready_at(s->device, sl_chunk_addr(c))
			      : sl_fence_make(SL_COPIES_IN, 0);
	fill_watch(c, event);
	if (flags & (SL_PRESENT_GUARD | SL_PRESENT_GUARD_STRICT))
		c->flags |= SL_GUARDED;
	if (dirty && !overwrites)
		c->flags |= SL_DIRTY_DEVICE;
	sl_dirty_hash_arrived(c, base);
	if (dirty && !overwrites && c->measured != SL_MEASURED_COPY)
		sl_host_drop(c); /* kept in vain */
	return 0;
}

/*
 * c is present and as its other copies; the use may write it. Others wait if it is hashed: until
 * that is enqueued no launch that writes may be let go.
 */
SL_HELD static void
book_measure(struct sl_chunk *c, enum sl_dirty_hash_state base)
{
	sl_chunk_set_state(c, SL_CHUNK_SYNCING);
	sl_dirty_hash_arrived(c, base);
	sl_chunk_set_state(c, SL_CHUNK_DEVICE);
}

/* EMPTY, HOST, POISONED, or STORE when the old contents do not matter: to DEVICE. */
SL_HELD static int
fill_move(struct sl_chunk *c, const struct sl_fill *fill)
{
	enum sl_chunk_state from = c->state;
	struct sluice_space *s = c->region->space;
	uint64_t bytes = c->region->chunk_bytes;
	int total = fill_is_total(c, fill);
	int rc;

	sl_chunk_set_state(c, SL_CHUNK_FILLING);
	sl_read_ahead_release(c);
	rc = sl_room_make(c, bytes, fill);
	if (rc)
		goto fail;
	if (total && !fill_is_total(c, fill)) { /* an earlier launch has lost its pins meanwhile */
		sl_room_give(s, bytes);
		sl_chunk_set_state(c, from);
		return 0;
	}
	rc = fill_present(c, fill, total);
	if (rc) {
		sl_room_give(s, bytes);
		goto fail;
	}
	if (total && fill->intent == SLUICE_USE_WRITE_ALL) {
		if (from == SL_CHUNK_POISONED)
			c->flags |= SL_DIRTY_HOST;
		sl_overwrite_begin(c, fill->launch);
	} else {
		if (total)
			sl_overwritten(c);
		c->flags &= (uint16_t)~SL_LOST;
	}
	c->device_bytes = (uint32_t)bytes; /* until here reserved, and nobody's */
	sl_chunk_set_state(c, SL_CHUNK_DEVICE);
	return 0;

fail:
	if (from == SL_CHUNK_EMPTY)
		c->flags &= SL_FLAGS_KEPT | SL_LOST | (c->dead ? SL_DISCARD_EAGER : 0);
	sl_chunk_set_state(c, from);
	if (rc == -EINPROGRESS && !fill->launch) {
		sl_room_wait(s); /* a kernel that is to give us room may need c by a fault itself */
		return 0;
	}
	if (rc != -EAGAIN && rc != -EINPROGRESS)
		sl_fail_in(rc, "chunk %llu of %s", (unsigned long long)sl_chunk_index(c),
			   c->region->name);
	return rc;
}

static enum sluice_counter
read_counter(const struct sl_fill *fill)
{
	return fill->cause == SL_CAUSE_PREFETCH ? SLUICE_COUNTER_STORE_READ_PREFETCH
						: SLUICE_COUNTER_STORE_READ_DEMAND;
}

/* POISONED with pages: only its pages are here, and they must reach the store first. Drops. */
SL_HELD static int
pages_write(struct sl_chunk *c)
{
	int rc = sl_write_begin(c, SL_IO_DEMAND, SLUICE_COUNTER_STORE_WRITE_BACK, 1);

	while (!rc && c->state == SL_CHUNK_WRITING)
		sl_chunk_wait(c);
	if (!rc && c->state == SL_CHUNK_POISONED)
		rc = sl_fail(c->region->write_error, "%s", c->region->write_error_text);
	return rc;
}

/* STORE: read it, unless the old contents do not matter. Drops. */
SL_HELD static int
fill_from_store(struct sl_chunk *c, const struct sl_fill *fill, int waited_read)
{
	int rc = waited_read ? sl_read_failed(c) : 0;

	if (rc)
		return rc;
	if (fill_is_total(c, fill))
		return fill_move(c, fill);
	return sl_read_begin(c, fill->cause == SL_CAUSE_PREFETCH ? SL_IO_PREFETCH : SL_IO_DEMAND,
			     read_counter(fill), SL_STAGING_READ, 0);
}

/* HOST, POISONED: a frame has the contents. Drops. */
SL_HELD static int
fill_from_frame(struct sl_chunk *c, const struct sl_fill *fill)
{
	int dead = c->state == SL_CHUNK_HOST && fill_is_total(c, fill) &&
		   fill->intent == SLUICE_USE_SCRATCH;

	if (c->flags & SL_ZEROCOPY)
		return sl_zerocopy_unmap(c);
	if (c->hostmap)
		return dead ? sl_hostmap_discard(c) : sl_hostmap_hide(c);
	if (c->state == SL_CHUNK_POISONED && c->pages)
		return pages_write(c);
	if (sl_host_is_encoded(c) && !fill_is_total(c, fill) &&
	    !sl_encode_runs(c->region->space))
		return sl_host_decode(c);
	return fill_move(c, fill);
}

/* One step of c towards being present. *waited_read: a read was waited for, which may have failed. */
SL_HELD static int
fill_step(struct sl_chunk *c, const struct sl_fill *fill, int *waited_read)
{
	int waited = *waited_read;

	if (sl_chunk_in_flight(c)) {
		*waited_read |= c->state == SL_CHUNK_READING;
		sl_chunk_wait(c);
		return 0;
	}
	if (c->state == SL_CHUNK_DEVICE) {
		if (c->unwritten)
			return sl_overwrite_undo(c);
		return c->pages ? sl_evict(c, SL_EVICT_REQUEST) : 0;
	}
	if (c->state == SL_CHUNK_EMPTY) {
		if (!fill_is_total(c, fill) && sl_chunk_lost(c))
			return -EIO;
		return fill_move(c, fill);
	}
	if (c->state != SL_CHUNK_STORE)
		return fill_from_frame(c, fill);
	*waited_read = 0;
	return fill_from_store(c, fill, waited);
}

int
sl_fill_book(struct sl_chunk *c, const struct sl_fill *fill)
{
	struct sl_region *r = c->region;
	int guarded = (c->flags & (SL_GUARDED | SL_DISCARD_EAGER)) != 0;
	int rc = 0;

	if (!intent_writes(fill->intent))
		return 0;
	if (c->unwritten) { /* booked when the first launch that writes it begins */
		fill->launch->overwrites = 1;
		return 0;
	}
	if (c->readiness == SL_READY_WRITE)
		return 0;
	if (!(c->flags & (SL_DIRTY_DEVICE | SL_DISCARDED)) &&
	    sl_dirty_hash_wanted(c, fill->intent))
		book_measure(c, sl_dirty_hash_against(c, fill->intent));
	c->flags |= SL_DIRTY_DEVICE;
	c->flags &= (uint16_t)~SL_DISCARDED;
	if (!c->dead)
		c->flags &= (uint16_t)~SL_DISCARD_EAGER;
	if (sl_region_is_writable(r))
		c->flags &= (uint16_t)~SL_GUARDED;
	else
		guarded = 0;
	sl_chunk_update(c);
	if (guarded)
		rc = sl_chunk_unguard_live(c);
	if (c->state == SL_CHUNK_DEVICE && (c->flags & SL_DIRTY_DEVICE) && !c->pages &&
	    c->measured != SL_MEASURED_COPY)
		sl_host_drop(c); /* older than the device's now */
	return rc;
}

int
sl_fill(struct sl_chunk *c, const struct sl_fill *fill)
{
	struct sl_region *r = c->region;
	int waited_read = 0;
	int rc = 0;

	r->busy++;
	while (!rc &&
	       (c->state != SL_CHUNK_DEVICE || c->pages || (c->unwritten && !fill->launch)))
		rc = fill_step(c, fill, &waited_read);
	if (!rc)
		rc = sl_fill_book(c, fill);
	sl_region_leave(r);
	return rc;
}
