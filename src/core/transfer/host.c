/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host tier: frames that hold copies of chunks. There are two bounded accounts. *Staging*
 * has frames in I/O, or read ahead and not used yet. *Settled* frames are the tier proper and
 * count to the host budget. Room among settled frames is made in the order of enum sl_host_list,
 * first in first out within a list. The choice never depends on the disk's speed, so that
 * counters repeat. A frame whose write is under way counts as clean and is waited for.
 *
 * Shares of staging: read-ahead a half, reads three quarters, evictions all of it. An eviction
 * never waits for a read, so every wait ends.
 *
 * Threads: any; LOCKING as in state.h.
 */
#include <assert.h>
#include <string.h>

#include "core/transfer/transfer.h"

#define SPILL_BATCH_BYTES (32u << 20)
/* Frames for such a part of what was held at most, and no more than that, are made before they are needed. Fewer: what
 * makes them waits while the need grows. More: they may be for nothing. Moves wait for the driver's lock while memory
 * is registered. Where memory was slow to be had, gpt's second backward pass of 0.5 s took 3.2 s with a quarter, and 1.6
 * s with 1 GiB (H200). This is two frames of 32 MiB for each thread. */
#define FRAMES_AHEAD_PART 4u
#define FRAMES_AHEAD_MAX  (UINT64_C(256) << 20)

/* Take a frame's bytes out of the accounts. */
SL_HELD static void
host_uncount(struct sluice_space *s, struct sl_host *h)
{
	if (h->settled)
		s->host.settled_bytes -= h->frame->bytes;
	else
		s->host.staging_used_bytes -= h->frame->bytes;
	sl_host_wake(s);
}

/* Give frame and record back. The host is off its chunk. Drops the lock. */
void
sl_host_put(struct sl_host *h)
{
	struct sluice_space *s = h->chunk->region->space;

	assert(h->list == SL_HOST_LIST_NONE && h->chunk->host != h);
	sl_host_set_active(s, h, 0);
	host_uncount(s, h);
	sl_space_unlock(s);
	s->device->ops->frame_put(s->device, h->frame);
	if (h->spare.store)
		sl_spill_put(s->spill, &h->spare);
	free(h);
	sl_space_lock(s);
}

void
sl_host_drop(struct sl_chunk *c)
{
	struct sl_host *h = c->host;

	if (!h)
		return;
	sl_host_list_remove(h);
	sl_read_ahead_release(c);
	c->host = NULL;
	sl_chunk_update(c);
	sl_host_put(h);
}

void
sl_host_let_go(struct sl_chunk *c)
{
	struct sl_host *h = c->host;

	sl_host_list_remove(h);
	sl_read_ahead_release(c);
	c->host = NULL;
	sl_chunk_set_state(c, SL_CHUNK_STORE);
	sl_host_put(h);
}

void
sl_host_consumed(struct sl_chunk *c, uint64_t bytes)
{
	struct sluice_space *s = c->region->space;
	struct sl_host *h = c->host;

	sl_host_list_remove(h);
	c->host = NULL;
	sl_host_set_active(s, h, 0);
	if (h->settled)
		s->host.settled_bytes -= bytes;
	else
		s->host.staging_used_bytes -= bytes;
	sl_host_wake(s);
	free(h);
}

/* Drop the oldest read-ahead that nobody used. Drops the lock. 1 if there was one. */
SL_HELD static int
read_ahead_reclaim(struct sluice_space *s)
{
	struct sl_host *h = s->host.list[SL_HOST_READ_AHEAD].head;
	struct sl_chunk *c;

	if (!h)
		return 0;
	c = h->chunk;
	if (c->flags & SL_READ_AHEAD)
		sl_count(s, SLUICE_COUNTER_READAHEAD_WASTED, h->frame->bytes);
	sl_host_let_go(c);
	return 1;
}

static uint64_t
staging_share(const struct sluice_space *s, enum sl_staging_use use)
{
	switch (use) {
	case SL_STAGING_AHEAD:
		return s->host.staging_bytes / 2;
	case SL_STAGING_READ:
	case SL_STAGING_LAUNCH:
		return s->host.staging_bytes / 4 * 3;
	case SL_STAGING_EVICT:
	case SL_STAGING_SHRINK:
		return s->host.staging_bytes;
	}
	return 0;
}

/* Nothing in flight will free staging: writes failed. Say why, with the first failure known. */
static int
staging_stuck(struct sluice_space *s, struct sl_chunk *c)
{
	for (size_t i = 0; i < s->n_regions; i++) {
		int rc = s->regions[i]->write_error;

		if (rc)
			return sl_fail(rc, "%s", s->regions[i]->write_error_text);
	}
	return sl_fail(-ENOBUFS,
		       "%s: chunk %llu: no staging memory left: %llu bytes in use, %llu "
		       "allowed; raise staging",
		       c->region->name, (unsigned long long)sl_chunk_index(c),
		       (unsigned long long)s->host.staging_used_bytes,
		       (unsigned long long)s->host.staging_bytes);
}

/*
 * Frames of failed writes fill staging: the disk may be well again, so try one of them. Drops.
 * 1: a frame was let go; 0: there is none; else the error that the write met this time.
 */
SL_HELD static int
poisoned_retry(struct sluice_space *s)
{
	for (size_t i = 0; i < s->n_regions; i++) {
		struct sl_region *r = s->regions[i];

		for (uint64_t k = 0; k < r->n_chunks; k++) {
			struct sl_chunk *c = &r->chunks[k];
			int rc;

			if (c->state != SL_CHUNK_POISONED || c->host->settled)
				continue;
			r->busy++;
			rc = sl_write_begin(c, SL_IO_DEMAND,
					    sl_region_is_volatile(r)
						    ? SLUICE_COUNTER_STORE_WRITE_SPILL
						    : SLUICE_COUNTER_STORE_WRITE_BACK,
					    1);
			while (!rc && c->state == SL_CHUNK_WRITING)
				sl_chunk_wait(c);
			if (!rc && c->state == SL_CHUNK_POISONED && r->write_error)
				rc = sl_fail(r->write_error, "%s", r->write_error_text);
			sl_region_leave(r);
			return rc ? rc : 1;
		}
	}
	return 0;
}

/* Of two kinds (zerocopy.c). */
static int
frame_is_mappable(const struct sluice_space *s, enum sl_staging_use use)
{
	return s->host.maps && use != SL_STAGING_SHRINK;
}

/*
 * What evictions of chunks of this size may want of the host tier in all, for a device whose frames are dear
 * (frames_expect). Not more than the data of this size that have no place on the device; nor, unless host
 * memory is to be pinned early, than as much again as was evicted so far: what is set aside for nothing stays
 * within what was needed. Regions that an allocator cuts blocks from (sl_region_alloc()) are addresses rather
 * than data: for those, a little more than the most that was held at once so far. What was announced is wanted
 * as well, but no more than has been used so far: a pool may be larger than its use.
 */
SL_HELD static uint64_t
frames_likely(const struct sluice_space *s, uint64_t chunk_bytes)
{
	uint64_t have = s->host.settled_bytes + s->host.staging_used_bytes;
	uint64_t announced = s->host.announced_bytes, used = s->dev.used_bytes + have;
	uint64_t data = 0, ahead, likely;
	int cut = 0;

	for (size_t i = 0; i < s->n_regions; i++) {
		const struct sl_region *r = s->regions[i];

		data += r->chunk_bytes == chunk_bytes ? r->size_bytes : 0;
		cut |= r->chunk_bytes == chunk_bytes && (r->flags & SL_REGION_UNDEFINED);
	}
	data -= data < s->dev.budget_bytes ? data : s->dev.budget_bytes;
	data += s->host.staging_bytes;
	ahead = s->host.frames_peak_bytes / FRAMES_AHEAD_PART;
	if (ahead > FRAMES_AHEAD_MAX)
		ahead = FRAMES_AHEAD_MAX;
	likely = cut ? s->host.frames_peak_bytes + ahead : have + s->host.evicted_bytes;
	if (announced > used)
		announced = used;
	if (likely < announced)
		likely = announced;
	likely += s->host.staging_bytes;
	if (data > likely && (cut || s->config.host_pin == SLUICE_HOST_PIN_LATE))
		data = likely;
	return data;
}

/* So many bytes in all, but no more than there is room for. */
SL_HELD static void
host_wants(struct sluice_space *s, enum sl_staging_use use, uint64_t bytes,
	   struct sl_pool_want *want)
{
	want->room_bytes = s->host.budget_bytes + s->host.staging_bytes;
	want->wanted_bytes = bytes < want->room_bytes ? bytes : want->room_bytes;
	want->number = ++s->host.expect_number;
	want->mappable = frame_is_mappable(s, use);
}

/* At an eviction. 0: nothing to say now: with many regions it is said more rarely, and what a smaller budget makes
 * leave is no sign of more (sl_host_expect()). */
SL_HELD static int
host_expect(struct sluice_space *s, enum sl_staging_use use, struct sl_pool_want *want)
{
	uint64_t have = s->host.settled_bytes + s->host.staging_used_bytes;

	if (s->host.frames_peak_bytes < have)
		s->host.frames_peak_bytes = have;
	if (use == SL_STAGING_SHRINK)
		return 0;
	s->host.evicted_bytes += want->bytes;
	if (!s->device->pool || s->host.expect_skip) {
		s->host.expect_skip -= s->host.expect_skip != 0;
		return 0;
	}
	s->host.expect_skip = s->n_regions / 64;
	host_wants(s, use, frames_likely(s, want->bytes), want);
	return 1;
}

/* What chunks of this size can want of the device. */
SL_HELD static void
device_wants(const struct sluice_space *s, struct sl_pool_want *want)
{
	for (size_t i = 0; i < s->n_regions; i++) {
		const struct sl_region *r = s->regions[i];

		if (r->chunk_bytes == want->bytes)
			want->wanted_bytes += r->n_chunks * r->chunk_bytes;
	}
	want->room_bytes = s->dev.budget_bytes;
}

void
sl_host_pin_early(struct sluice_space *s, uint64_t bytes)
{
	struct sl_pool_want frames = {.bytes = bytes}, chunks = {.bytes = bytes};

	if (s->config.host_pin != SLUICE_HOST_PIN_EARLY || !s->device->pool)
		return;
	sl_space_lock(s);
	host_wants(s, SL_STAGING_EVICT, frames_likely(s, bytes), &frames);
	device_wants(s, &chunks);
	sl_space_unlock(s);
	s->device->pool->frames_expect(s->device, &frames);
	s->device->pool->fill(s->device, &chunks);
}

void
sl_host_expect(struct sluice_space *s, uint64_t bytes, enum sl_staging_use use)
{
	struct sl_pool_want want = {.bytes = s->config.large_chunk_bytes};
	int is_all = use == SL_STAGING_SHRINK;

	if (!s->device->pool || (!is_all && bytes <= s->host.announced_bytes))
		return;
	if (!is_all)
		s->host.announced_bytes = bytes;
	/* What leaves for a smaller budget stays in its frames. Who gives way would pin staging for nothing, and as
	 * much again, while the driver's lock holds up the program that it gave way to. */
	host_wants(s, use, is_all ? bytes : frames_likely(s, want.bytes), &want);
	sl_space_unlock(s);
	s->device->pool->frames_expect(s->device, &want);
	sl_space_lock(s);
}

void
sl_host_unpin(struct sluice_space *s)
{
	struct sl_pool_want frames = {.bytes = s->config.large_chunk_bytes};
	const struct sl_device_pool *pool = s->device->pool;

	sl_space_lock(s);
	host_wants(s, SL_STAGING_EVICT, 0, &frames); /* none is made ahead for it */
	sl_space_unlock(s);
	if (pool->frames_taken(s->device) > frames.room_bytes)
		pool->frames_expect(s->device, &frames);
}

static int
host_frame_get(struct sl_device *dev, int mappable, uint64_t bytes, struct sl_frame **out)
{
	return mappable ? dev->zerocopy->frame_get(dev, bytes, out)
			: dev->ops->frame_get(dev, bytes, out);
}

int
sl_host_get(struct sl_chunk *c, enum sl_staging_use use, struct sl_host **out)
{
	struct sluice_space *s = c->region->space;
	uint64_t bytes = c->region->chunk_bytes;
	struct sl_pool_want want = {.bytes = bytes};
	struct sl_host *h;
	uint64_t since;
	int rc, expect, mappable;

	while (s->host.staging_used_bytes + bytes > staging_share(s, use)) {
		if (use == SL_STAGING_AHEAD || use == SL_STAGING_LAUNCH)
			return -EAGAIN;
		if (s->host.staging_active) {
			sl_host_wait(s);
			continue;
		}
		if (read_ahead_reclaim(s))
			continue;
		rc = poisoned_retry(s);
		if (!rc)
			rc = staging_stuck(s, c);
		if (rc < 0)
			return rc;
	}
	s->host.staging_used_bytes += bytes;
	s->host.staging_active++;
	expect = use >= SL_STAGING_EVICT && host_expect(s, use, &want);
	mappable = frame_is_mappable(s, use);
	since = sl_event_now(s);
	sl_space_unlock(s);

	if (expect)
		s->device->pool->frames_expect(s->device, &want);
	h = sl_calloc(1, sizeof(*h));
	rc = h ? host_frame_get(s->device, mappable, bytes, &h->frame)
	       : sl_fail(-ENOMEM, "host: out of memory");

	sl_space_lock(s);
	sl_event_waited(s, SL_WAIT_PIN, since);
	if (rc) {
		s->host.staging_used_bytes -= bytes;
		s->host.staging_active--;
		sl_host_wake(s);
		free(h);
		return rc;
	}
	h->chunk = c;
	h->active = 1;
	h->list = SL_HOST_LIST_NONE;
	*out = h;
	return 0;
}

/* The new frame takes the place of the other one. Drops. */
SL_HELD static void
host_replace(struct sl_chunk *c, struct sl_host *new)
{
	struct sl_host *old = c->host;

	sl_host_list_remove(old);
	c->host = new;
	sl_chunk_update(c);
	sl_host_put(old);
}

int
sl_host_exchange(struct sl_chunk *c,
		 int (*fill)(struct sl_device *dev, const struct sl_frame *from,
			     struct sl_frame *to))
{
	struct sluice_space *s = c->region->space;
	enum sl_chunk_state back = c->state;
	struct sl_host *new;
	int rc;

	sl_chunk_set_state(c, SL_CHUNK_MAPPING);
	rc = sl_host_get(c, SL_STAGING_READ, &new);
	if (!rc) {
		sl_space_unlock(s);
		rc = fill(s->device, c->host->frame, new->frame);
		sl_space_lock(s);
		if (rc)
			sl_host_put(new);
		else
			host_replace(c, new);
	}
	sl_chunk_set_state(c, back);
	if (rc)
		return sl_fail_in(rc, "%s: chunk %llu", c->region->name,
				  (unsigned long long)sl_chunk_index(c));
	sl_ignore(sl_host_settle(c, SL_SETTLE_NOW));
	return 0;
}

/* c is as dirty as its flag says from here on: what it was to be compared with goes. Drops. */
SL_HELD static void
base_drop(struct sl_chunk *c)
{
	if (!sl_store_is_newest(c)) {
		sl_dirty_hash_forget(c);
		c->measured = SL_MEASURED_LEARN;
		c->flags &= (uint16_t)~SL_DIRTY_HOST;
	}
	sl_host_drop(c);
}

/* Room is needed before the launch begins that is to overwrite c: the old copy goes. Drops. */
SL_HELD static void
old_copy_drop(struct sl_chunk *c)
{
	c->flags &= (uint16_t)~SL_DIRTY_HOST;
	c->flags |= SL_LOST;
	sl_host_drop(c);
}

/* Make one step towards room among settled frames. 1: go on; 0: nothing can go; drops. */
SL_HELD static int
settled_step(struct sluice_space *s, enum sl_settle how)
{
	struct sl_host *h;
	struct sl_chunk *c;

	h = s->host.list[SL_HOST_OLD].head;
	if (h) {
		old_copy_drop(h->chunk);
		return 1;
	}
	h = s->host.list[SL_HOST_DUP_CLEAN].head;
	if (h) {
		sl_host_drop(h->chunk);
		return 1;
	}
	h = s->host.list[SL_HOST_BASE].head;
	if (h && h->chunk->state == SL_CHUNK_DEVICE) {
		base_drop(h->chunk);
		return 1;
	}
	h = s->host.list[SL_HOST_CLEAN].head;
	if (h) {
		c = h->chunk;
		if (c->state == SL_CHUNK_WRITING) {
			if (how == SL_SETTLE_NOW)
				return 0;
			sl_chunk_wait(c);
			return 1;
		}
		sl_host_let_go(c);
		return 1;
	}
	/* Writing a file's data only comes early; a copy given up is made again at the next eviction,
	 * which needs room for it, and so on: every eviction copies from then on. */
	h = s->host.list[SL_HOST_DIRTY_FILE].head;
	if (h && how == SL_SETTLE_WRITE && s->host.list[SL_HOST_DUP].head &&
	    !sl_write_begin(h->chunk, SL_IO_WRITEBACK, SLUICE_COUNTER_STORE_WRITE_BACK, 0))
		return 1;
	h = s->host.list[SL_HOST_DUP].head;
	if (h) {
		c = h->chunk;
		if (c->state != SL_CHUNK_DEVICE)
			return 0;
		if (c->flags & SL_DIRTY_HOST) {
			c->flags &= (uint16_t)~SL_DIRTY_HOST;
			c->flags |= SL_DIRTY_DEVICE;
			sl_dirty_hash_forget(c);
			c->measured = SL_MEASURED_NOT;
		}
		sl_host_drop(c);
		return 1;
	}
	if (how != SL_SETTLE_WRITE)
		return 0;
	c = sl_reached_idle(s);
	if (c)
		return sl_zerocopy_unmap(c) == 0;
	h = s->host.list[SL_HOST_DIRTY_FILE].head;
	if (h)
		return sl_write_begin(h->chunk, SL_IO_WRITEBACK,
				      SLUICE_COUNTER_STORE_WRITE_BACK, 0) == 0;
	h = s->host.list[SL_HOST_DIRTY_VOLATILE].head;
	if (h)
		return sl_write_begin(h->chunk, SL_IO_WRITEBACK,
				      SLUICE_COUNTER_STORE_WRITE_SPILL, 0) == 0;
	return 0;
}

int
sl_host_settle(struct sl_chunk *c, enum sl_settle how)
{
	struct sluice_space *s = c->region->space;
	struct sl_host *h = c->host;
	uint64_t bytes = h->frame->bytes;
	uint8_t state = c->state;

	if (h->settled)
		return 0;
	while (s->host.settled_bytes + bytes > s->host.budget_bytes) {
		if (bytes > s->host.budget_bytes || !settled_step(s, how))
			return -EAGAIN;
		/* The step may have dropped the lock: the frame of a chunk that nobody owns (a prefetch
		 * to the host) may be gone. */
		if (c->host != h || c->state != state || h->settled)
			return -EAGAIN;
	}
	sl_read_ahead_release(c); /* it leaves staging, and with it the share of read-ahead */
	s->host.staging_used_bytes -= bytes;
	h->settled = 1;
	s->host.settled_bytes += bytes;
	if (s->host.settled_bytes > s->host.peak_bytes)
		s->host.peak_bytes = s->host.settled_bytes;
	sl_host_list_update(c);
	sl_host_wake(s);
	return 0;
}

int
sl_host_zero(struct sl_chunk *c, int any)
{
	struct sluice_space *s = c->region->space;
	struct sl_host *h;
	int rc = sl_chunk_lost(c);

	if (rc)
		return rc;
	sl_chunk_set_state(c, SL_CHUNK_MAPPING);
	rc = sl_host_get(c, SL_STAGING_READ, &h);
	if (rc) {
		sl_chunk_set_state(c, SL_CHUNK_EMPTY);
		return rc;
	}
	sl_space_unlock(s);
	if (h->frame->dirty_memory && !any)
		memset(h->frame->data, 0, c->region->chunk_bytes);
	sl_space_lock(s);
	c->host = h;
	c->flags &= (uint16_t)~SL_LOST;
	c->flags |= SL_DIRTY_HOST;
	sl_dirty_hash_forget(c);
	sl_chunk_set_state(c, SL_CHUNK_HOST);
	sl_ignore(sl_host_settle(c, SL_SETTLE_NOW));
	return 0;
}

/*
 * Background cleaning. Thresholds are looked at when a frame settles, never by time: dirty file
 * data beyond writeback_bytes is written; volatile data beyond the budget less its reserve is
 * spilled in batches (DRAGON's reserved threshold).
 */
void
sl_host_clean(struct sluice_space *s)
{
	uint64_t reserve = s->config.host_reserve_bytes;
	uint64_t limit = s->host.budget_bytes > reserve ? s->host.budget_bytes - reserve : 0;
	struct sl_host_queue *file = &s->host.list[SL_HOST_DIRTY_FILE];
	struct sl_host_queue *vol = &s->host.list[SL_HOST_DIRTY_VOLATILE];

	while (file->head && file->bytes > s->config.writeback_bytes) {
		if (sl_write_begin(file->head->chunk, SL_IO_WRITEBACK,
				   SLUICE_COUNTER_STORE_WRITE_BACK, 0))
			return;
	}
	if (!reserve || vol->bytes <= limit)
		return;
	limit = vol->bytes > SPILL_BATCH_BYTES && vol->bytes - SPILL_BATCH_BYTES < limit
			? vol->bytes - SPILL_BATCH_BYTES
			: limit;
	while (vol->head && vol->bytes > limit) {
		struct sl_chunk *c = vol->head->chunk;

		if (sl_spill_place_free(c))
			return; /* it can wait until room is needed */
		if (vol->head && vol->head->chunk == c &&
		    sl_write_begin(c, SL_IO_WRITEBACK, SLUICE_COUNTER_STORE_WRITE_SPILL, 0))
			return;
	}
}

/*
 * A settled frame that is on no list: the base of a chunk that is on the device by pages, or one that
 * is being moved. Take the first out, or wait for the second. Drops. 1: go on.
 */
SL_HELD static int
shrink_unlisted(struct sluice_space *s)
{
	for (size_t i = 0; i < s->n_regions; i++) {
		struct sl_region *r = s->regions[i];

		for (uint64_t k = 0; k < r->n_chunks; k++) {
			struct sl_chunk *c = &r->chunks[k];

			if (!c->host || !c->host->settled || c->state == SL_CHUNK_POISONED)
				continue;
			if (c->state == SL_CHUNK_DEVICE)
				return sl_evict(c, SL_EVICT_REQUEST) == 0;
			if (c->state == SL_CHUNK_HOST && (c->flags & SL_ZEROCOPY))
				return sl_zerocopy_unmap(c) == 0;
			if (c->state == SL_CHUNK_HOST && c->hostmap)
				return sl_hostmap_hide(c) == 0;
			if (c->state != SL_CHUNK_HOST) {
				sl_chunk_wait(c);
				return 1;
			}
		}
	}
	return 0;
}

int
sl_host_shrink(struct sluice_space *s, uint64_t budget_bytes)
{
	uint64_t before = s->host.budget_bytes;

	s->host.budget_bytes = budget_bytes; /* nothing settles above it from now on */
	while (s->host.settled_bytes > budget_bytes) {
		if (settled_step(s, SL_SETTLE_WRITE) || shrink_unlisted(s))
			continue;
		s->host.budget_bytes = before;
		return staging_stuck(s, s->regions[0]->chunks);
	}
	return 0;
}
