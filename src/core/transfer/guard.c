/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards: writes to guarded bytes of a chunk on the device are seen. A guard is lifted outside the
 * lock while the chunk is held. Pages that are dead keep their guard when the live ones lose it.
 * LOCKING: all of it under space->lock; what drops it says so.
 */
#include "base/size.h"
#include "core/transfer/transfer.h"

int
sl_chunk_unguard(struct sl_chunk *c, uint64_t offset, uint64_t bytes)
{
	struct sluice_space *s = c->region->space;
	int rc;

	c->lifting++;
	sl_space_unlock(s);
	rc = s->device->guards
		     ? s->device->guards->unguard(s->device, sl_chunk_addr(c) + offset, bytes)
		     : 0;
	sl_space_lock(s);
	if (!--c->lifting)
		sl_chunk_wake(c);
	return rc;
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
	rc = sl_device_guard(s->device, sl_chunk_addr(c) + begin, end - begin);
	sl_space_lock(s);
	c->flags &= (uint16_t)~SL_SNAPSHOT;
	if (!rc && !c->pages)
		c->flags |= SL_GUARDED;
	if (state == SL_CHUNK_DEVICE)
		sl_chunk_set_state(c, SL_CHUNK_DEVICE);
	return rc;
}

/* Where discards of two streams wait, that of the older place is served first. */
int
sl_discard_waits(struct sl_chunk *c, struct sl_discard_place place)
{
	if (!sl_chunk_pins(c))
		return 0;
	c->region->space->eager_used = 1;
	if (!c->region->space->device->guards)
		return 1; /* host code's writes are touches, and wait for launches */
	if (!(c->flags & SL_DISCARD_EAGER) ||
	    !sl_chunk_is_pinned_before(c, NULL, c->discard_number))
		c->discard_number = (uint32_t)place.before;
	return sl_chunk_is_pinned_before(c, place.stream, (uint32_t)place.before);
}

/*
 * Some pages of a chunk are about to be noted dead, eagerly: a later write to them must be seen, so
 * that it counts. What launches called before the discard write is not later: the last of those on
 * its stream lets the guard stand (sl_dead_watch()). Launches of other streams that have the chunk
 * meet the guard when they write it. Bytes within the chunk. Not 0: it cannot be seen. Held, drops.
 */
int
sl_writes_watch(struct sl_chunk *c, uint64_t begin, uint64_t end, struct sl_discard_place place)
{
	struct sluice_space *s = c->region->space;
	int rc;

	while (c->state == SL_CHUNK_SYNCING || c->state == SL_CHUNK_FILLING ||
	       c->state == SL_CHUNK_EVICTING ||
	       (c->state == SL_CHUNK_DEVICE && sl_chunk_is_held(c)))
		sl_chunk_wait(c);
	sl_chunk_keep(c); /* dead as a whole, it would drop later writes, or go with a launch's end */
	if (!s->device->guards)
		return 0;
	if (c->state == SL_CHUNK_DEVICE && sl_discard_waits(c, place)) {
		c->flags |= SL_DISCARD_EAGER;
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
	while (c->state == SL_CHUNK_DEVICE && sl_chunk_is_held(c))
		sl_chunk_wait(c);
	if (c->state != SL_CHUNK_DEVICE || !(c->flags & SL_DISCARD_EAGER) ||
	    (c->flags & SL_GUARDED) || !(c->dead || (c->flags & SL_DISCARDED)))
		return;
	if (chunk_guard(c, 0, c->region->chunk_bytes)) {
		sl_chunk_keep(c);
		sl_chunk_revive(c, 0, c->region->chunk_bytes);
	}
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
