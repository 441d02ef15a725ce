/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host map: host code's mapping on devices where it has page tables of its own at the same
 * addresses (devices with hostmap). A touch by host code takes the chunk to the host tier, and
 * shows the touched granule: its bytes are copied from the frame to host code's memory. A granule
 * that is only read is shown guarded, so that the first write to it is known. A written one may
 * be newer than the frame. Before the chunk leaves HOST every granule of it is hidden: newer
 * bytes go back into the frame.
 *
 * So both sides always see the newest contents, at the same boundaries as managed memory without
 * concurrent access. A launch sees host code's earlier writes. Host code sees the writes of
 * launches that it waited for. A touch of a chunk that a launch uses waits for that launch. If
 * the touching thread itself holds the launch by sluice_launch_begin(), the touch cannot be
 * served.
 *
 * Memory: chunks with shown granules count to hostmap.limit_bytes at most; the oldest is hidden
 * for room.
 * LOCKING: as in state.h.
 */
#include <string.h>

#include "core/transfer/transfer.h"

static uint32_t
granule_number(const struct sl_chunk *c, const void *addr)
{
	return (uint32_t)((size_t)((const char *)addr - sl_chunk_addr(c)) / SL_GRANULE_BYTES);
}

static char *
granule_addr(const struct sl_chunk *c, uint32_t granule)
{
	return sl_chunk_addr(c) + (size_t)granule * SL_GRANULE_BYTES;
}

/* Room for another chunk on the list of those with shown granules. Held. */
SL_HELD static int
hostmap_list_grow(struct sluice_space *s)
{
	uint32_t max = s->hostmap.max ? s->hostmap.max * 2 : 64;
	struct sl_chunk **chunks = sl_calloc(max, sizeof(struct sl_chunk *));

	if (!chunks)
		return sl_fail(-ENOMEM, "host map: out of memory");
	if (s->hostmap.n)
		memcpy(chunks, s->hostmap.chunks, s->hostmap.n * sizeof(struct sl_chunk *));
	free(s->hostmap.chunks);
	s->hostmap.chunks = chunks;
	s->hostmap.max = max;
	return 0;
}

/* On the list of chunks with shown granules. Held. */
SL_HELD static int
hostmap_list_add(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	int rc = s->hostmap.n == s->hostmap.max ? hostmap_list_grow(s) : 0;

	if (rc)
		return rc;
	s->hostmap.chunks[s->hostmap.n++] = c;
	s->hostmap.bytes += c->region->chunk_bytes;
	return 0;
}

SL_HELD static void
hostmap_list_remove(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	uint32_t i = 0;

	while (s->hostmap.chunks[i] != c)
		i++;
	memmove(&s->hostmap.chunks[i], &s->hostmap.chunks[i + 1],
		(s->hostmap.n - i - 1) * sizeof(s->hostmap.chunks[0]));
	s->hostmap.n--;
	s->hostmap.bytes -= c->region->chunk_bytes;
}

/*
 * Hide every granule of c. keep: what may be newer goes into the frame; else the contents are dead.
 * On failure what was hidden so far is in the frame, and the rest is shown as before.
 */
SL_HELD static int
granules_hide(struct sl_chunk *c, int keep)
{
	struct sluice_space *s = c->region->space;
	enum sl_chunk_state back = c->state;
	int rc = 0;

	sl_chunk_set_state(c, SL_CHUNK_MAPPING);
	for (uint32_t granule = 0; c->hostmap && !rc; granule++) {
		uint32_t bit = 1u << granule;
		char *dst = NULL;

		if (!(c->hostmap & bit))
			continue;
		if (keep && (c->hostmap_dirty & bit))
			dst = (char *)c->host->frame->data +
			      (size_t)granule * SL_GRANULE_BYTES;
		sl_space_unlock(s);
		rc = s->device->hostmap->hide(s->device, granule_addr(c, granule), dst);
		sl_space_lock(s);
		if (rc)
			break;
		c->hostmap &= ~bit;
		c->hostmap_dirty &= ~bit;
	}
	if (!c->hostmap)
		hostmap_list_remove(c);
	sl_chunk_set_state(c, back);
	return rc;
}

int
sl_hostmap_hide(struct sl_chunk *c)
{
	return c->hostmap ? granules_hide(c, 1) : 0;
}

int
sl_hostmap_hide_oldest(struct sluice_space *s)
{
	struct sl_chunk *c = NULL;
	int rc;

	for (uint32_t i = 0; i < s->hostmap.n && !c; i++) {
		struct sl_chunk *shown = s->hostmap.chunks[i];

		if (shown->state == SL_CHUNK_HOST && shown->host->settled)
			c = shown;
	}
	if (!c)
		return -EAGAIN;
	c->region->busy++;
	rc = sl_hostmap_hide(c);
	sl_region_leave(c->region);
	return rc;
}

int
sl_hostmap_discard(struct sl_chunk *c)
{
	return c->hostmap ? granules_hide(c, 0) : 0;
}

/* A chunk that nobody shows any more, with a frame in staging: settle it or write it. Drops. */
SL_HELD static void
hostmap_settle(struct sl_chunk *c)
{
	if (c->state != SL_CHUNK_HOST || c->hostmap || !c->host || c->host->settled ||
	    sl_host_settle(c, SL_SETTLE_WRITE) == 0)
		return;
	if (c->state != SL_CHUNK_HOST || c->hostmap || !c->host || c->host->settled)
		return;
	if (c->flags & SL_DIRTY_HOST)
		sl_ignore(sl_write_begin(c, SL_IO_WRITEBACK,
					 sl_region_is_volatile(c->region)
						 ? SLUICE_COUNTER_STORE_WRITE_SPILL
						 : SLUICE_COUNTER_STORE_WRITE_BACK,
					 1));
	else if (c->flags & SL_STORE_VALID)
		sl_host_let_go(c);
}

/* Hide the oldest chunks until one more chunk of c's size may be shown. Drops. */
SL_HELD static int
hostmap_room(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	while (s->hostmap.n &&
	       s->hostmap.bytes + c->region->chunk_bytes > s->hostmap.limit_bytes) {
		struct sl_chunk *oldest = s->hostmap.chunks[0];
		int rc;

		if (oldest->state == SL_CHUNK_MAPPING) {
			sl_chunk_wait(oldest);
			continue;
		}
		oldest->region->busy++;
		rc = granules_hide(oldest, 1);
		if (!rc)
			hostmap_settle(oldest);
		sl_region_leave(oldest->region);
		if (rc)
			return rc;
	}
	return 0;
}

/* HOST or POISONED: show the granule. Drops. */
SL_HELD static int
granule_show(struct sl_chunk *c, uint32_t granule, int write)
{
	struct sluice_space *s = c->region->space;
	enum sl_chunk_state back = c->state;
	uint32_t bit = 1u << granule;
	int rc = c->hostmap ? 0 : hostmap_list_add(c);

	if (rc)
		return rc;
	c->hostmap |= bit; /* also keeps its frame off the host lists */
	if (write) {
		c->hostmap_dirty |= bit;
		c->flags |= SL_DIRTY_HOST;
		sl_dirty_hash_forget(c);
		sl_chunk_revive(c, (uint64_t)granule * SL_GRANULE_BYTES,
				(uint64_t)(granule + 1) * SL_GRANULE_BYTES);
	}
	sl_chunk_set_state(c, SL_CHUNK_MAPPING);
	sl_read_ahead_release(c);
	sl_space_unlock(s);
	rc = s->device->hostmap->show(s->device, granule_addr(c, granule),
				      (char *)c->host->frame->data +
					      (size_t)granule * SL_GRANULE_BYTES,
				      !write);
	sl_space_lock(s);
	if (rc) {
		c->hostmap &= ~bit;
		c->hostmap_dirty &= ~bit;
		if (!c->hostmap)
			hostmap_list_remove(c);
	}
	sl_chunk_set_state(c, back);
	return rc;
}

/* The granule is shown; its first write. Drops. */
SL_HELD static int
granule_written(struct sl_chunk *c, uint32_t granule)
{
	struct sluice_space *s = c->region->space;
	enum sl_chunk_state back = c->state;
	int rc;

	if (!(c->hostmap_dirty & (1u << granule)))
		sl_count(s, SLUICE_COUNTER_WRITE_FAULTS, 1);
	c->hostmap_dirty |= 1u << granule;
	c->flags |= SL_DIRTY_HOST;
	sl_dirty_hash_forget(c);
	sl_chunk_revive(c, (uint64_t)granule * SL_GRANULE_BYTES,
			(uint64_t)(granule + 1) * SL_GRANULE_BYTES);
	sl_chunk_set_state(c, SL_CHUNK_MAPPING);
	sl_space_unlock(s);
	rc = s->device->hostmap->unguard(s->device, granule_addr(c, granule));
	sl_space_lock(s);
	sl_chunk_set_state(c, back);
	return rc;
}

/* HOST, POISONED: show the granule, once there is room for it. *done: it is shown. Drops. */
SL_HELD static int
hostmap_step(struct sl_chunk *c, uint32_t granule, int write, int *done)
{
	const struct sluice_space *s = c->region->space;
	int rc;

	if (!c->hostmap &&
	    s->hostmap.bytes + c->region->chunk_bytes > s->hostmap.limit_bytes) {
		rc = hostmap_room(c);
		if (rc || s->hostmap.n)
			return rc; /* the lock was dropped: look again */
		if (c->state != SL_CHUNK_HOST && c->state != SL_CHUNK_POISONED)
			return 0;
	}
	*done = 1;
	if (c->hostmap & (1u << granule))
		return write ? granule_written(c, granule) : 0;
	return granule_show(c, granule, write);
}

int
sl_hostmap_touch(struct sl_chunk *c, const struct sl_touch *touch)
{
	uint32_t granule = granule_number(c, touch->addr);
	int write = touch->access == SL_ACCESS_WRITE, waited_read = 0, done = 0;
	int rc = 0;

	while (!rc && !done) {
		if (sl_chunk_in_flight(c)) {
			waited_read |= c->state == SL_CHUNK_READING;
			sl_chunk_wait(c);
		} else if (c->state == SL_CHUNK_DEVICE || c->reach_users) {
			return -EINPROGRESS;
		} else if (c->state == SL_CHUNK_EMPTY) {
			rc = sl_host_zero(c, 0);
		} else if (c->state == SL_CHUNK_STORE) {
			rc = waited_read ? sl_read_failed(c) : 0;
			waited_read = 0;
			if (!rc)
				rc = sl_read_begin(c, SL_IO_DEMAND,
						   SLUICE_COUNTER_STORE_READ_DEMAND,
						   SL_STAGING_READ, 1);
		} else if (sl_host_is_encoded(c)) {
			rc = sl_host_decode(c);
		} else {
			rc = hostmap_step(c, granule, write, &done);
		}
	}
	return rc;
}
