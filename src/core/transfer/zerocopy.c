/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zero-copy: a chunk in the host tier whose frame is mapped at the chunk's address, so that
 * kernels read and write it over the link (devices with zerocopy). Used
 *   - by a launch whose set is larger than the device budget: what is on the device stays, more is
 *     brought in while it fits, and the rest is accessed in place;
 *   - by a launch that declares nothing, which may touch everything;
 *   - with reach=any, for all that a launch does not declare.
 *
 * Frames are made for copies at first, since those that can be mapped take longer to make. Once kernels
 * are to use one, frames from then on are mappable (host.maps), but for those of a lower budget. Those that are
 * not are exchanged as they are reached.
 *
 * A mapping is expensive (some 10 us a MiB). It stays until the chunk is wanted on the device, or
 * its frame by somebody else. reach_users counts the launches that use it; the chunk does not move
 * meanwhile. LOCKING: as in state.h.
 */
#include <string.h>

#include "base/clock.h"
#include "core/timeouts.h"
#include "core/transfer/transfer.h"

/* Map or unmap, outside the lock; the chunk is MAPPING meanwhile. */
SL_HELD static int
reach_change(struct sl_chunk *c, int reach)
{
	struct sluice_space *s = c->region->space;
	enum sl_chunk_state back = c->state;
	uint64_t since = sl_event_now(s);
	int rc;

	sl_chunk_set_state(c, SL_CHUNK_MAPPING);
	sl_space_unlock(s);
	rc = reach ? s->device->zerocopy->map(s->device, sl_chunk_addr(c),
					      c->region->chunk_bytes, c->host->frame)
		   : s->device->zerocopy->unmap(s->device, sl_chunk_addr(c),
						c->region->chunk_bytes);
	sl_space_lock(s);
	sl_event_waited(s, SL_WAIT_MAP, since);
	if (!rc && reach)
		c->flags |= SL_ZEROCOPY;
	else if (!rc)
		c->flags &= (uint16_t)~SL_ZEROCOPY;
	sl_chunk_set_state(c, back);
	return rc;
}

int
sl_zerocopy_unmap(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	if (!(c->flags & SL_ZEROCOPY))
		return 0;
	if (c->reach_users) { /* look again when a launch has ended */
		sl_launch_wait(s);
		return 0;
	}
	return reach_change(c, 0);
}

struct sl_chunk *
sl_reached_idle(struct sluice_space *s)
{
	for (struct sl_host *h = s->host.list[SL_HOST_REACHED].head; h; h = h->next) {
		if (!h->chunk->reach_users)
			return h->chunk;
	}
	return NULL;
}

/* How far a launch is in having one chunk mapped. */
struct reach_try {
	const struct sluice_launch *launch;
	int waited_read;
	uint64_t last; /* what had begun when no frame could go; 0: one could, so far */
	uint64_t until_ns; /* so long it waits for callers who hold scopes */
};

/* A chunk on the move that has a frame; NULL: there is none. Held. */
SL_HELD static struct sl_chunk *
frame_in_flight(struct sluice_space *s)
{
	for (size_t i = 0; i < s->n_regions; i++) {
		struct sl_region *r = s->regions[i];

		for (uint64_t k = 0; k < r->n_chunks; k++) {
			struct sl_chunk *c = &r->chunks[k];

			if (c->host && c->host->settled && sl_chunk_in_flight(c))
				return c;
		}
	}
	return NULL;
}

/* Whether a launch that had begun by then reaches frames: one whose caller holds its scope, or another one.
 * What this thread holds does not end meanwhile. Held. */
SL_HELD static int
frames_are_reached(const struct sluice_space *s, int held, uint64_t last)
{
	for (const struct sl_inflight *w = s->work_oldest; w && w->number <= last;
	     w = w->next) {
		const struct sluice_launch *l = w->launch;

		if (l && l->reaches && l->state != SL_LAUNCH_QUEUED &&
		    (l->host_scope == SL_SCOPE_HELD) == held &&
		    (!held || l->owner != sl_thread_number(s)))
			return 1;
	}
	return 0;
}

/*
 * No frame can go. Until one may, which is in use by what began earlier: a move, host code that is shown it, a
 * kernel, or a caller that holds a scope. That caller may hold it for ever, so it gets as long as a stalled launch. A
 * kernel that waits for what it fetches may have the frames itself. -EAGAIN: none will. Drops.
 */
SL_HELD static int
frame_await(struct sluice_space *s, struct reach_try *try)
{
	struct sl_chunk *c = frame_in_flight(s);
	int rc;

	if (c) {
		sl_chunk_wait(c);
		return 0;
	}
	rc = sl_hostmap_hide_oldest(s);
	if (rc != -EAGAIN)
		return rc;
	if (try->launch->fetch)
		return -EAGAIN;
	if (!try->last) {
		try->last = s->work_clock;
		try->until_ns = sl_now_ns() + SL_STALL_NS;
	}
	if (frames_are_reached(s, 0, try->last)) {
		sl_room_wait(s);
		return 0;
	}
	if (!frames_are_reached(s, 1, try->last))
		return -EAGAIN;
	return sl_launch_wait_until(s, try->until_ns) ? -EAGAIN : 0;
}

/* From a frame for copies to one that can be mapped. */
static int
frame_copy(struct sl_device *dev, const struct sl_frame *from, struct sl_frame *to)
{
	(void)dev;
	memcpy(to->data, from->data, to->bytes);
	return 0;
}

/* HOST, POISONED: map the frame, once it is settled. Drops. */
SL_HELD static int
reach_frame(struct sl_chunk *c, struct reach_try *try)
{
	struct sluice_space *s = c->region->space;
	const struct sl_host *h = c->host;
	int rc;

	s->host.maps = 1;
	if (c->hostmap)
		return sl_hostmap_hide(c);
	if (sl_host_is_encoded(c))
		return sl_host_decode(c);
	if (!h->frame->mappable)
		return sl_host_exchange(c, frame_copy);
	if (c->host->settled) {
		sl_encode_unwanted(c);
		return reach_change(c, 1);
	}
	rc = sl_host_settle(c, SL_SETTLE_WRITE);
	if (rc != -EAGAIN)
		return rc;
	if (c->host != h || h->settled ||
	    (c->state != SL_CHUNK_HOST && c->state != SL_CHUNK_POISONED))
		return 0;
	rc = frame_await(s, try);
	if (rc != -EAGAIN)
		return rc;
	return sl_fail(
		-ENOBUFS,
		"%s: chunk %llu fits neither on the device nor in the host budget of "
		"%llu bytes: tile the launch, or raise a budget",
		c->region->name, (unsigned long long)sl_chunk_index(c),
		(unsigned long long)s->host.budget_bytes);
}

/* In the host tier, with a frame that may stay. c is not on the device. Drops; look at the state again. */
SL_HELD static int
reach_step(struct sl_chunk *c, struct reach_try *try)
{
	int rc;

	if (sl_chunk_in_flight(c)) {
		try->waited_read |= c->state == SL_CHUNK_READING;
		sl_chunk_wait(c);
		return 0;
	}
	if (c->state == SL_CHUNK_EMPTY)
		return sl_host_zero(c, (c->region->flags & SL_REGION_UNDEFINED) != 0);
	if (c->state != SL_CHUNK_STORE)
		return reach_frame(c, try);
	rc = try->waited_read ? sl_read_failed(c) : 0;
	try->waited_read = 0;
	return rc ? rc
		  : sl_read_begin(c, SL_IO_DEMAND, SLUICE_COUNTER_STORE_READ_DEMAND,
				  SL_STAGING_READ, 1);
}

int
sl_zerocopy_map(const struct sluice_launch *l, struct sl_chunk *c, enum sluice_intent intent)
{
	struct reach_try try = {.launch = l};
	int rc = 0;

	c->region->busy++;
	while (!rc && !sl_chunk_on_device(c) &&
	       (!(c->flags & SL_ZEROCOPY) || c->state == SL_CHUNK_MAPPING))
		rc = reach_step(c, &try);
	if (!rc && (c->flags & SL_ZEROCOPY)) {
		c->reach_users++;
		if (c->hostmap)
			rc = sl_hostmap_hide(c);
		if (rc)
			c->reach_users--;
		else if (intent != SLUICE_USE_READ) {
			c->flags |= SL_DIRTY_HOST;
			sl_dirty_hash_reached(c);
			sl_chunk_revive(c, 0, c->region->chunk_bytes);
		}
	}
	sl_region_leave(c->region);
	return rc;
}

/* Which of the launch's chunks are to be reached: those that are off the device and do not fit. */
void
sl_zerocopy_plan(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	uint64_t left = s->dev.budget_bytes - s->dev.pinned_bytes;
	uint32_t mark = ++s->mark_clock;

	/* What is there, or comes, first; what is small before giants. */
	for (int round = 0; round < 3; round++) {
		for (size_t k = 0; k < l->n_uses; k++) {
			struct sl_launch_use *u = &l->uses[k];
			uint64_t bytes = u->region->chunk_bytes;

			for (uint64_t i = u->first; i <= u->last; i++) {
				struct sl_chunk *c = &u->region->chunks[i];

				if (c->mark == mark || c->user_pins ||
				    (!round && !sl_chunk_keeps_room(c)) ||
				    (round == 1 && u->lag))
					continue;
				c->mark = mark;
				if ((u->reach && c->state != SL_CHUNK_DEVICE) || bytes > left)
					c->flags |= SL_EXCESS;
				else
					left -= bytes;
			}
		}
	}
	l->reaches = 1;
}

void
sl_zerocopy_planned(struct sluice_launch *l)
{
	for (size_t k = 0; k < l->n_uses; k++) {
		struct sl_launch_use *u = &l->uses[k];

		for (uint64_t i = u->first; i <= u->last; i++)
			u->region->chunks[i].flags &= (uint16_t)~SL_EXCESS;
	}
}
