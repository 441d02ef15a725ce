/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing a region's newest contents to its store. If possible a chunk on the device stays
 * there. A snapshot of it is written, behind a guard, so that later writes are seen. LOCKING:
 * all of it under space->lock; drops it.
 */
#include <stdio.h>

#include "core/transfer/transfer.h"

/* c is present, and as dirty as its flag says from here on. Drops. */
SL_HELD static void
measure_end(struct sl_chunk *c)
{
	sl_dirty_hash_forget(c);
	if (!c->measured)
		return;
	c->measured = SL_MEASURED_NOT;
	if (c->flags & SL_DIRTY_DEVICE)
		sl_host_drop(c); /* older than the device's, maybe */
	sl_chunk_update(c);
}

/* Snapshot a present chunk that is newer than its store copy and start writing it. Drops. */
SL_HELD static int
chunk_snapshot(struct sl_chunk *c)
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	int newer_device = (c->flags & SL_DIRTY_DEVICE) != 0;
	struct sl_host *h;
	uint64_t since;
	int rc;

	sl_chunk_set_state(c, SL_CHUNK_SYNCING);
	c->flags |= SL_SNAPSHOT;
	c->flags &= (uint16_t)~SL_WRITTEN;
	if (sl_store_is_newest(c) && sl_dirty_hash_unchanged(c)) {
		c->flags &= (uint16_t)~SL_SNAPSHOT;
		sl_count(s, SLUICE_COUNTER_MEASURED_CLEAN, r->chunk_bytes);
		sl_chunk_set_state(c, SL_CHUNK_DEVICE);
		return 0;
	}
	measure_end(c);
	rc = sl_host_get(c, SL_STAGING_EVICT, &h);
	since = sl_event_now(s);
	if (!rc) {
		sl_space_unlock(s);
		rc = sl_device_guard(s->device, sl_chunk_addr(c), r->chunk_bytes);
		if (!rc)
			rc = s->device->ops->snapshot(s->device, sl_chunk_addr(c),
						      r->chunk_bytes, h->frame);
		sl_space_lock(s);
		if (rc)
			sl_host_put(h);
	}
	c->flags &= (uint16_t)~SL_SNAPSHOT;
	if (rc) {
		sl_chunk_set_state(c, SL_CHUNK_DEVICE);
		return rc;
	}
	c->flags |= SL_GUARDED;
	if (newer_device) {
		sl_count(s, SLUICE_COUNTER_D2H_SYNC, r->chunk_bytes);
		sl_event_end(s,
			     sl_event_begin(c, SLUICE_COUNTER_D2H_SYNC, r->chunk_bytes,
					    since, NULL),
			     0);
	}
	sl_chunk_wake(c);
	sl_snapshot_write(c, h);
	return 0;
}

/* DEVICE: *done once its newest contents are on their way to the store, or there. Drops. */
SL_HELD static int
device_flush(struct sl_chunk *c, int keep, int *done)
{
	int dirty = (c->flags & (SL_DIRTY_DEVICE | SL_DIRTY_HOST)) &&
		    !(c->flags & SL_DISCARDED);
	size_t n_pages = c->region->chunk_bytes / SL_PAGE_BYTES;

	if (sl_chunk_is_held(c)) {
		sl_chunk_wait(c);
		return 0;
	}
	if (c->unwritten)
		return sl_overwrite_undo(c);
	*done = c->pages && !(c->flags & SL_DIRTY_HOST) &&
		!sl_bitmap_count(c->pages->dirty, 0, n_pages);
	if (*done)
		return 0;
	if (c->pages || (dirty && !keep && !c->user_pins))
		return sl_evict(c, SL_EVICT_FLUSH); /* written, or HOST and newer than the store */
	*done = 1;
	return dirty ? chunk_snapshot(c) : 0;
}

/* Start what it takes to have chunk c on the store. Drops. */
SL_HELD static int
chunk_flush(struct sl_chunk *c, int keep)
{
	int rc = 0, done = 0;

	while (!rc && !done) {
		if ((c->flags & SL_ZEROCOPY) && c->state != SL_CHUNK_MAPPING && !keep)
			rc = sl_zerocopy_unmap(c);
		else if (c->hostmap && c->state != SL_CHUNK_MAPPING)
			rc = sl_hostmap_hide(c);
		else if (c->state == SL_CHUNK_DEVICE)
			rc = device_flush(c, keep, &done);
		else if (c->state == SL_CHUNK_POISONED ||
			 (c->state == SL_CHUNK_HOST && (c->flags & SL_DIRTY_HOST)))
			return sl_write_begin(c, SL_IO_DEMAND,
					      SLUICE_COUNTER_STORE_WRITE_SYNC, !keep);
		else if (c->state == SL_CHUNK_WRITING || c->state == SL_CHUNK_READING ||
			 !sl_chunk_in_flight(c))
			return 0; /* there already, or waited for in the second pass */
		else
			sl_chunk_wait(c);
	}
	return rc;
}

/*
 * Wait for c's write. 1 when it failed. A dirty frame is no failure: what it has was written to c
 * after the flush, and another thread has evicted it since.
 */
SL_HELD static int
chunk_flushed(struct sl_chunk *c)
{
	while (sl_chunk_in_flight(c) && c->state != SL_CHUNK_READING)
		sl_chunk_wait(c);
	return c->state == SL_CHUNK_POISONED;
}

/*
 * Write what is newer than the store in [begin, end) and wait. keep: leave present data present.
 * Held, drops. Returns the first error of the region, which is then cleared.
 */
int
sl_region_flush(struct sl_region *r, uint64_t begin, uint64_t end, int keep)
{
	uint64_t first = begin / r->chunk_bytes;
	uint64_t last = (end - 1) / r->chunk_bytes;
	uint64_t failures = r->write_failures;
	int earlier = r->write_error;
	int rc = 0, unwritten = 0;
	char text[SL_ERROR_TEXT_BYTES];

	if (!sl_region_is_writable(r) || sl_region_is_volatile(r))
		return 0;
	if (earlier)
		sl_fail(earlier, "%s", r->write_error_text);
	r->write_error = 0;
	/* What one chunk cannot do (its device is lost) is no reason to give up the others. */
	for (uint64_t i = first; i <= last; i++) {
		int one = chunk_flush(&r->chunks[i], keep);

		if (one && !rc) {
			rc = one;
			snprintf(text, sizeof(text), "%s", sluice_last_error());
		}
	}
	if (rc)
		sl_fail_text(rc, text);
	for (uint64_t i = first; i <= last; i++)
		unwritten |= chunk_flushed(&r->chunks[i]);
	if (!rc && r->write_failures != failures)
		rc = sl_fail(r->write_error_code, "%s", r->write_error_text);
	if (!rc && unwritten)
		rc = sl_fail(-EIO, "sync: %s: data could not be written", r->name);
	r->write_error = 0;
	return rc ? rc : earlier;
}
