/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking chunks out of the device: making room, and the eviction of one chunk, whole or by pages,
 * to wherever its newest contents belong. victim.c chooses the chunk; here it moves. Decides under
 * the lock, moves outside it; the chunk is EVICTING meanwhile and touches of it wait.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"
#include "core/transfer/transfer.h"

void
sl_room_give(struct sluice_space *s, uint64_t bytes)
{
	s->dev.used_bytes -= bytes;
	sl_launch_wake(s);
}

/* Whether the device's contents must be copied out. */
static int
evict_copies(const struct sl_chunk *c)
{
	if ((c->flags & SL_DISCARDED) || c->unwritten)
		return 0;
	if (!c->region->space->policy->honour_flags)
		return 1;
	return (c->flags & SL_DIRTY_DEVICE) != 0;
}

static enum sluice_counter
evict_counter(enum sl_evict_why why)
{
	switch (why) {
	case SL_EVICT_ROOM:
		return SLUICE_COUNTER_D2H_EVICT;
	case SL_EVICT_SHRINK:
	case SL_EVICT_REQUEST:
	case SL_EVICT_DISCARD:
		return SLUICE_COUNTER_D2H_REQUEST;
	case SL_EVICT_FLUSH:
		return SLUICE_COUNTER_D2H_SYNC;
	}
	return SLUICE_COUNTER_D2H_EVICT;
}

/*
 * The contents of c (EVICTING) are in c->host. Find them their place: the host tier, or the store
 * when the tier is full or off, or when flushing. Leaves EVICTING. Drops.
 */
SL_HELD static void
evict_place(struct sl_chunk *c, enum sl_evict_why why)
{
	struct sluice_space *s = c->region->space;
	int vol = sl_region_is_volatile(c->region);
	int dirty = (c->flags & SL_DIRTY_HOST) != 0;
	int settled = 0;

	/* Pages of a chunk whose base is in the store: only they are valid, so they go there. */
	if (!c->pages && why != SL_EVICT_FLUSH) {
		sl_host_pack(c);
		settled = sl_host_settle(c, SL_SETTLE_WRITE) == 0;
	}
	if (!settled && !dirty) {
		struct sl_host *h = c->host;

		c->host = NULL;
		sl_chunk_set_state(c, c->flags & SL_STORE_VALID ? SL_CHUNK_STORE
								: SL_CHUNK_EMPTY);
		sl_host_put(h);
		return;
	}
	sl_chunk_set_state(c, SL_CHUNK_HOST);
	if (settled) {
		sl_host_clean(s);
		return;
	}
	/* An error is kept with the region; the frame stays, so nothing is lost. */
	if (sl_write_begin(c, why == SL_EVICT_FLUSH ? SL_IO_DEMAND : SL_IO_WRITEBACK,
			   why == SL_EVICT_FLUSH ? SLUICE_COUNTER_STORE_WRITE_SYNC
			   : vol                 ? SLUICE_COUNTER_STORE_WRITE_SPILL
						 : SLUICE_COUNTER_STORE_WRITE_BACK,
			   1))
		return;
}

SL_HELD static void
evict_account(struct sl_chunk *c)
{
	c->region->space->dev.leaving_bytes -= c->device_bytes;
	sl_room_give(c->region->space, c->device_bytes);
	c->device_bytes = 0;
	c->unwritten = 0;
	sl_dirty_hash_left(c);
	if (c->region->space->policy->evicted)
		c->region->space->policy->evicted(c);
	c->flags |= SL_WAS_EVICTED;
}

/* Books of a copy-out, begun at since, whose contents are in the frame, or soon will be. */
SL_HELD static void
evict_copied(struct sl_chunk *c, struct sl_host *h, enum sl_evict_why why, int newer,
	     uint64_t since)
{
	sl_dirty_hash_copied(c);
	evict_account(c);
	sl_count(c->region->space, evict_counter(why), c->region->chunk_bytes);
	h->event = sl_event_begin(c, evict_counter(why), c->region->chunk_bytes, since, NULL);
	c->flags &= (uint16_t) ~(SL_DIRTY_DEVICE | SL_GUARDED | SL_DIRTY_HOST);
	if (newer || !(c->flags & SL_STORE_VALID))
		c->flags |= SL_DIRTY_HOST;
	c->host = h;
	sl_chunk_update(c);
}

/* Whoever wants to sees the contents, while nobody else has the frame. Without the lock: the
 * hook was set before the region was made. */
static void
moved_out_tell(const struct sl_chunk *c, const struct sl_host *h)
{
	const struct sluice_space *s = c->region->space;

	if (s->moved_out)
		s->moved_out(s->moved_out_arg, sl_chunk_addr(c), h->frame->data,
			     sl_chunk_valid_bytes(c));
}

/* The frame of a chunk that is EVICTING has its contents now. On a thread of the device. */
static void
evict_arrived(void *cookie, int rc)
{
	struct sl_host *h = cookie;
	struct sl_chunk *c = h->chunk;
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;

	if (!rc)
		moved_out_tell(c, h);
	sl_space_lock(s);
	while (c->device_bytes) /* evict_copy() is about to do the books */
		sl_chunk_wait(c);
	sl_event_end(s, h->event, rc);
	if (rc) { /* the device has lost them; what the store has is older, and stays as it is */
		sl_fail_in(rc, "evict: chunk %llu of %s: contents lost with the device",
			   (unsigned long long)sl_chunk_index(c), r->name);
		sl_region_write_error(r, rc, sluice_last_error());
		sl_count(s, SLUICE_COUNTER_IO_ERRORS, 1);
		sl_dirty_hash_forget(c);
		c->host = NULL;
		c->flags &= (uint16_t)~SL_DIRTY_HOST;
		if (!(c->flags & SL_STORE_VALID))
			c->flags |= SL_LOST;
		sl_chunk_set_state(c, c->flags & SL_STORE_VALID ? SL_CHUNK_STORE
								: SL_CHUNK_EMPTY);
		sl_host_put(h);
	} else {
		if (h->worth_parts)
			sl_encoded(c, h);
		evict_place(c, SL_EVICT_ROOM);
	}
	sl_region_leave(r);
	sl_space_unlock(s);
}

SL_NOT_HELD static int
encode_start(struct sl_chunk *c, struct sl_host *h)
{
	struct sl_device *dev = c->region->space->device;

	return dev->codec->absent_start(dev, sl_chunk_addr(c), c->region->chunk_bytes,
					h->worth_parts, h->frame, evict_arrived, h);
}

/* Encoded, if it is to be and can be. */
SL_NOT_HELD static int
copy_start(struct sl_chunk *c, struct sl_host *h)
{
	struct sl_device *dev = c->region->space->device;

	if (h->worth_parts && !encode_start(c, h))
		return 0;
	h->worth_parts = 0;
	return dev->async->absent_start(dev, sl_chunk_addr(c), c->region->chunk_bytes,
					h->frame, evict_arrived, h);
}

/* The copy out of c to h begins by start(), for room (why). On failure h is given back, and c is as before. Drops. */
SL_HELD static int
evict_start(struct sl_chunk *c, struct sl_host *h, enum sl_evict_why why, int encodes,
	    int newer, int (*start)(struct sl_chunk *c, struct sl_host *h))
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	uint64_t since = sl_event_now(s);
	int rc;

	r->busy++;
	h->worth_parts = encodes ? sl_encode_worth(s, r->chunk_bytes) : 0;
	sl_space_unlock(s);
	rc = start(c, h);
	sl_space_lock(s);
	if (rc) {
		sl_region_leave(r);
		sl_host_put(h);
		return rc;
	}
	sl_host_drop(c);
	evict_copied(c, h, why, newer, since);
	sl_chunk_wake(c);
	return 0;
}

/*
 * Contents go to a frame. Where the device runs ahead, room is there once the copy is enqueued: the
 * chunk stays EVICTING until the frame has the contents, and nobody waits for that but who wants c.
 */
SL_HELD static int
evict_copy(struct sl_chunk *c, enum sl_evict_why why)
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	int newer = (c->flags & (SL_DIRTY_DEVICE | SL_DIRTY_HOST)) &&
		    (sl_region_is_writable(r) || sl_region_is_volatile(r));
	struct sl_host *h;
	uint64_t since;
	int rc;

	sl_host_drop(c); /* an older copy, if any */
	rc = sl_host_get(c, why == SL_EVICT_SHRINK ? SL_STAGING_SHRINK : SL_STAGING_EVICT,
			 &h);
	if (rc)
		return rc;
	if ((why == SL_EVICT_ROOM || why == SL_EVICT_SHRINK) && s->device->async)
		return evict_start(c, h, why, why == SL_EVICT_ROOM && sl_encode_pays(c),
				   newer, copy_start);
	since = sl_event_now(s);
	sl_space_unlock(s);
	rc = s->device->ops->absent(s->device, sl_chunk_addr(c), r->chunk_bytes, h->frame,
				    SL_ABSENT_COPY);
	if (!rc)
		moved_out_tell(c, h);
	sl_space_lock(s);
	if (rc) {
		sl_host_put(h);
		return rc;
	}
	evict_copied(c, h, why, newer, since);
	sl_event_end(s, h->event, 0);
	evict_place(c, why);
	return 0;
}

/* Drop every copy outside the device and every flag: the contents are dead. Drops. */
SL_HELD static void
evict_forget(struct sl_chunk *c)
{
	sl_dirty_hash_forget(c);
	sl_host_drop(c);
	sl_spill_drop(c);
	free(c->dead);
	c->dead = NULL;
	c->flags &= SL_FLAGS_KEPT;
}

/* The room of an unwritten chunk has gone: its older copy counts again. Drops. */
SL_HELD static void
evict_unwritten(struct sl_chunk *c)
{
	if (c->host) {
		sl_chunk_set_state(c, SL_CHUNK_HOST);
		return;
	}
	if ((c->flags & (SL_STORE_VALID | SL_LOST)) == SL_STORE_VALID) {
		sl_chunk_set_state(c, SL_CHUNK_STORE);
		return;
	}
	sl_spill_drop(c); /* what it has is older still */
	c->flags &= SL_FLAGS_KEPT | SL_LOST;
	sl_chunk_set_state(c, SL_CHUNK_EMPTY);
}

/* Another copy is valid, or the contents are zeros or dead: nothing is copied. What is dirty and not
 * dead was measured to be as that copy. */
SL_HELD static int
evict_drop(struct sl_chunk *c)
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	int dead = (c->flags & SL_DISCARDED) != 0;
	int unwritten = !dead && c->unwritten;
	int kept = !dead && !unwritten && c->host;
	int rc;

	sl_space_unlock(s);
	rc = s->device->ops->absent(s->device, sl_chunk_addr(c), r->chunk_bytes,
				    kept ? c->host->frame : NULL,
				    kept ? SL_ABSENT_KEPT : SL_ABSENT_DISCARD);
	sl_space_lock(s);
	if (rc)
		return rc;
	evict_account(c);
	if (dead) {
		if (c->flags & SL_DIRTY_DEVICE && !r->closed)
			sl_count(s, SLUICE_COUNTER_DISCARD_SAVED, r->chunk_bytes);
		evict_forget(c);
		sl_chunk_set_state(c, SL_CHUNK_EMPTY);
		return 0;
	}
	if (unwritten) {
		evict_unwritten(c);
		return 0;
	}
	if (c->flags & SL_DIRTY_DEVICE)
		sl_count(s, SLUICE_COUNTER_MEASURED_CLEAN, r->chunk_bytes);
	c->flags &= (uint16_t) ~(SL_GUARDED | SL_DIRTY_DEVICE);
	if (kept || (c->flags & SL_STORE_VALID))
		sl_count(s, SLUICE_COUNTER_CLEAN_DROP, r->chunk_bytes);
	else
		sl_dirty_hash_forget(c);
	sl_chunk_set_state(c, kept                        ? SL_CHUNK_HOST
			      : c->flags & SL_STORE_VALID ? SL_CHUNK_STORE
							  : SL_CHUNK_EMPTY);
	return 0;
}

/* The frame that c keeps has its contents as they are. It gets another one, with fewer bytes, if they can be
 * encoded now; else c is dropped. Drops. */
SL_HELD static int
evict_encode(struct sl_chunk *c)
{
	int newer = (c->flags & SL_DIRTY_HOST) != 0; /* than the store */
	struct sl_host *h;

	if (sl_host_get(c, SL_STAGING_LAUNCH, &h) ||
	    evict_start(c, h, SL_EVICT_ROOM, 1, newer, encode_start))
		return evict_drop(c);
	return 0;
}

/* Forget the page books of a chunk that has no page present any more. */
static void
pages_free(struct sl_chunk *c)
{
	free(c->pages);
	c->pages = NULL;
}

/* A chunk populated by page without dirty pages, or dead: drop the pages. */
SL_HELD static int
evict_pages_drop(struct sl_chunk *c)
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	int dead = (c->flags & SL_DISCARDED) != 0;
	int rc;

	sl_space_unlock(s);
	rc = s->device->faults->page_drop(s->device, sl_chunk_addr(c), r->chunk_bytes);
	sl_space_lock(s);
	if (rc)
		return rc;
	if (!r->closed)
		sl_count(s, dead ? SLUICE_COUNTER_DISCARD_SAVED : SLUICE_COUNTER_CLEAN_DROP,
			 c->device_bytes);
	evict_account(c);
	pages_free(c);
	if (dead) {
		evict_forget(c);
		sl_chunk_set_state(c, SL_CHUNK_EMPTY);
		return 0;
	}
	sl_chunk_set_state(c, c->host                     ? SL_CHUNK_HOST
			      : c->flags & SL_STORE_VALID ? SL_CHUNK_STORE
							  : SL_CHUNK_EMPTY);
	return 0;
}

/*
 * A chunk populated by page with dirty pages. Base in a host frame: the pages are merged into it.
 * Base zeros: into a cleared frame. Base in the store: the pages go to a frame and from there, run
 * by run, to the store.
 */
SL_HELD static int
evict_pages_copy(struct sl_chunk *c, enum sl_evict_why why)
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	int on_store = !c->host && (c->flags & SL_STORE_VALID);
	struct sl_host *h = c->host;
	int fresh = !h;
	uint64_t dirty, since;
	int rc;

	if (fresh) {
		rc = sl_host_get(c, SL_STAGING_EVICT, &h);
		if (rc)
			return rc;
	}
	since = sl_event_now(s);
	sl_space_unlock(s);
	if (fresh && !on_store)
		memset(h->frame->data, 0, r->chunk_bytes);
	rc = s->device->ops->absent(s->device, sl_chunk_addr(c), r->chunk_bytes, h->frame,
				    SL_ABSENT_COPY);
	sl_space_lock(s);
	if (rc) {
		if (fresh)
			sl_host_put(h);
		return rc;
	}
	dirty = sl_bitmap_count(c->pages->dirty, 0, r->chunk_bytes / SL_PAGE_BYTES) *
		SL_PAGE_BYTES;
	sl_count(s, evict_counter(why), dirty);
	sl_event_end(s, sl_event_begin(c, evict_counter(why), dirty, since, NULL), 0);
	sl_count(s, SLUICE_COUNTER_CLEAN_DROP, c->device_bytes - dirty);
	sl_dirty_hash_forget(c);
	evict_account(c);
	c->flags &= (uint16_t) ~(SL_DIRTY_DEVICE | SL_GUARDED);
	c->flags |= SL_DIRTY_HOST;
	c->host = h;
	if (!on_store)
		pages_free(c);
	sl_chunk_update(c);
	if (!fresh && h->settled && why != SL_EVICT_FLUSH) {
		sl_chunk_set_state(c, SL_CHUNK_HOST);
		sl_host_clean(s);
		return 0;
	}
	evict_place(c, why);
	return 0;
}

/* asker, rule: for the log, which is written without the lock, when the chunk has left. */
SL_HELD static int
chunk_evict(struct sl_chunk *c, enum sl_evict_why why, const char *asker, const char *rule)
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	uint64_t stamp = sl_chunk_stamp(c), now = s->clock;
	int rc;

	assert(c->state == SL_CHUNK_DEVICE);
	if (sl_chunk_is_held(c)) {
		sl_chunk_wait(c);
		return 0;
	}
	if ((c->flags & SL_DISCARDED) && sl_chunk_pins(c) && why != SL_EVICT_DISCARD) {
		/* Discarded behind a launch that still needs the contents: this is not the time. */
		c->flags &= (uint16_t) ~(SL_DISCARDED | SL_DISCARD_EAGER);
		c->flags |= SL_DIRTY_DEVICE;
		c->unwritten = 0;
	}
	r->busy++;
	sl_chunk_set_state(c, SL_CHUNK_EVICTING);
	s->dev.leaving_bytes += c->device_bytes;
	if (why == SL_EVICT_ROOM)
		sl_count(s, SLUICE_COUNTER_EVICTIONS, 1);
	if (why == SL_EVICT_ROOM && !c->leaving)
		sl_dirty_hash_ahead(c);
	if (c->pages && !(c->flags & SL_DISCARDED) &&
	    sl_bitmap_count(c->pages->dirty, 0, r->chunk_bytes / SL_PAGE_BYTES))
		rc = evict_pages_copy(c, why);
	else if (c->pages)
		rc = evict_pages_drop(c);
	else if (!evict_copies(c))
		rc = evict_drop(c);
	else if (!sl_dirty_hash_unchanged(c))
		rc = evict_copy(c, why);
	else if (why == SL_EVICT_ROOM && sl_encode_pays_kept(c))
		rc = evict_encode(c);
	else if (why == SL_EVICT_ROOM && sl_encode_is_large(c))
		rc = evict_copy(c, why);
	else
		rc = evict_drop(c);
	if (rc) {
		s->dev.leaving_bytes -= c->device_bytes;
		sl_launch_wake(s);
		sl_chunk_set_state(c, SL_CHUNK_DEVICE);
		sl_fail_in(rc, "evict: chunk %llu of %s",
			   (unsigned long long)sl_chunk_index(c), r->name);
	}
	if (!rc && sl_log_enabled(SL_DEBUG, "evict")) {
		sl_space_unlock(s);
		sl_log(SL_DEBUG, "evict",
		       "chunk %llu of %s leaves the device; "
		       "asked by: %s; rule: %s; last use: %llu of %llu",
		       (unsigned long long)sl_chunk_index(c), r->name, asker, rule,
		       (unsigned long long)stamp, (unsigned long long)now);
		sl_space_lock(s);
	}
	sl_region_leave(r);
	return rc;
}

int
sl_evict(struct sl_chunk *c, enum sl_evict_why why)
{
	static const char *const rules[] = {
		[SL_EVICT_REQUEST] = "the range was named",
		[SL_EVICT_FLUSH] = "the contents go to the store",
		[SL_EVICT_DISCARD] = "the contents are dead",
	};

	assert(why != SL_EVICT_ROOM && why != SL_EVICT_SHRINK); /* of sl_evict_victim() */
	return chunk_evict(c, why, "a call or a touch of the range", rules[why]);
}

int
sl_evict_victim(const struct sl_victim *v)
{
	return chunk_evict(v->chunk,
			   v->mode == SL_ROOM_SHRINK ? SL_EVICT_SHRINK : SL_EVICT_ROOM,
			   sl_victim_rules[v->mode].asker, sl_victim_step_text(v->step));
}

/* No victim now: a launch or another thread must be waited for; or say why there will be none. */
SL_HELD static int
room_lacks(struct sl_chunk *c, uint64_t bytes, const struct sl_fill *fill)
{
	const struct sl_victim_rule *rule = &sl_victim_rules[fill->room];
	struct sluice_space *s = c->region->space;

	if (!rule->wait_ns)
		return -EAGAIN;
	if (s->dev.pinned_bytes + bytes > s->dev.budget_bytes)
		return sl_fail(
			-ENOBUFS,
			"%s: chunk %llu: %llu of %llu device bytes are pinned: unpin "
			"some or raise the device budget",
			c->region->name, (unsigned long long)sl_chunk_index(c),
			(unsigned long long)s->dev.pinned_bytes,
			(unsigned long long)s->dev.budget_bytes);
	if (fill->room == SL_ROOM_FETCH && sl_now_ns() > fill->launch->room_deadline_ns)
		return sl_fail(-ENOBUFS,
			       "%s: chunk %llu: what is on the device is in use by "
			       "launches that "
			       "have not ended, perhaps behind the kernel that fetches: "
			       "synchronise "
			       "before it, or raise the device budget",
			       c->region->name, (unsigned long long)sl_chunk_index(c));
	sl_count(s, SLUICE_COUNTER_WAITS_IN_FLIGHT, 1);
	if (rule->in_use != SL_IN_USE_TAKE)
		return -EINPROGRESS;
	sl_room_wait(s);
	return 0;
}

/*
 * Launches in flight use the next victim for l. 0: it has waited for that long enough. Their end may
 * be one that is not seen before l has begun: that of a stream that is captured. Drops.
 */
SL_HELD static int
victim_await(struct sluice_launch *l, enum sl_room_mode mode)
{
	uint64_t now = sl_now_ns();

	if (!l->patience_ns)
		l->patience_ns = now + sl_victim_rules[mode].wait_ns;
	if (now >= l->patience_ns)
		return 0;
	(void)sl_launch_wait_until(l->space, l->patience_ns);
	return 1;
}

int
sl_room_coldest(struct sluice_launch *l, uint64_t before)
{
	const struct sl_victim_request request = {.mode = SL_ROOM_THRASH, .before = before};
	struct sl_victim v = sl_victim_pick(l->space, &request);

	if (!v.chunk)
		return 0;
	return v.wait ? victim_await(l, request.mode) : !sl_evict_victim(&v);
}

/*
 * One step towards room. What other threads are evicting counts as gone, so that the choice of
 * victims does not depend on how far they are. Drops.
 */
SL_HELD static int
room_step(struct sl_chunk *c, uint64_t bytes, const struct sl_fill *fill)
{
	struct sl_victim_request request = {.mode = fill->room,
					    .chunk_bytes = c->region->chunk_bytes};
	struct sluice_space *s = c->region->space;
	struct sl_victim v;
	int rc;

	if (s->dev.used_bytes - s->dev.leaving_bytes + s->dev.wanted_bytes <=
	    s->dev.budget_bytes) {
		sl_launch_wait(s);
		return 0;
	}
	if (fill->room == SL_ROOM_SPARE && !sl_room_spare(s, 0))
		return -EAGAIN;
	v = sl_victim_pick(s, &request);
	if (v.wait && v.step == SL_STEP_EARLY) {
		if (victim_await(fill->launch, request.mode))
			return 0;
		request.mode = SL_ROOM_LAUNCH;
		v = sl_victim_pick(s, &request);
	}
	if (!v.chunk || v.wait)
		return room_lacks(c, bytes, fill);
	rc = sl_evict_victim(&v);
	if (rc == -EBUSY && v.chunk->state == SL_CHUNK_DEVICE)
		sl_chunk_touch(v.chunk);
	return rc;
}

int
sl_room_make(struct sl_chunk *c, uint64_t bytes, const struct sl_fill *fill)
{
	struct sluice_space *s = c->region->space;
	uint32_t busy = 0;
	int rc = 0;

	s->dev.wanted_bytes += bytes;
	while (!rc && s->dev.used_bytes + bytes > s->dev.budget_bytes) {
		rc = room_step(c, bytes, fill);
		/* The program's own direct I/O pins its target: look for another victim. */
		if (rc == -EBUSY && ++busy <= s->dev.heap_n)
			rc = 0;
	}
	s->dev.wanted_bytes -= bytes;
	if (rc)
		return rc;
	s->dev.used_bytes += bytes;
	if (s->dev.used_bytes > s->dev.peak_bytes)
		s->dev.peak_bytes = s->dev.used_bytes;
	return 0;
}

int
sl_device_shrink(struct sluice_space *s, uint64_t budget_bytes, uint64_t until_ns)
{
	const struct sl_victim_request request = {.mode = SL_ROOM_SHRINK};
	uint64_t before = s->dev.budget_bytes, chunk = s->config.large_chunk_bytes, used;
	uint64_t need = s->gate.need_bytes ? s->gate.need_bytes + s->dev.pinned_bytes : 0;
	int rc, is_needed = 0;

	/* What was let through the gate is to find its room. */
	need = sl_round_up(need, chunk);
	if (until_ns != UINT64_MAX && budget_bytes < need) {
		budget_bytes = need < before ? need : before;
		is_needed = 1;
	}

	/* As sluice_pin(): one access may need two chunks, and must never find no room at all. */
	if (budget_bytes < s->dev.pinned_bytes + 2 * chunk)
		return sl_fail(
			-ENOBUFS,
			"space: %llu bytes are pinned on the device; they and two chunks "
			"are more than the new budget of %llu",
			(unsigned long long)s->dev.pinned_bytes,
			(unsigned long long)budget_bytes);
	s->dev.budget_bytes = budget_bytes;
	if (s->dev.used_bytes > budget_bytes)
		sl_host_expect(s, s->host.settled_bytes + s->dev.used_bytes - budget_bytes,
			       SL_STAGING_SHRINK);
	while (s->dev.used_bytes > s->dev.budget_bytes) {
		struct sl_victim v = sl_victim_pick(s, &request);

		if ((!v.chunk || v.wait) && sl_now_ns() < until_ns) {
			sl_room_wait(s);
			continue;
		}
		if (!v.chunk || v.wait) { /* what has left stays away */
			used = sl_round_up(s->dev.used_bytes, chunk);
			if (used < s->dev.pinned_bytes + 2 * chunk)
				used = s->dev.pinned_bytes + 2 * chunk;
			s->dev.budget_bytes = used < before ? used : before;
			return -EAGAIN;
		}
		rc = sl_evict_victim(&v);
		if (rc) {
			s->dev.budget_bytes = before;
			return rc;
		}
	}
	return is_needed ? -EAGAIN : 0;
}
