/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zero-copy: a chunk in the host tier whose frame is mapped at the chunk's address, so that
 * kernels read and write it over the link (devices with zerocopy). Used
 *   - by a launch whose set is larger than the device budget: what is on the device stays, more is
 *     brought in while it fits, and the rest is accessed in place;
 *   - by a launch that declares nothing, which may touch everything;
 *   - with reach=any, for all that a launch does not declare.
 *
 * A mapping is expensive (some 10 us a MiB). It stays until the chunk is wanted on the device, or
 * its frame by somebody else. reach_users counts the launches that use it; the chunk does not move
 * meanwhile. LOCKING: as in state.h.
 */
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

/* A chunk whose frame is in use by somebody else, who gives it back; NULL: there is none. Held. */
SL_HELD static struct sl_chunk *
frame_in_use(struct sluice_space *s)
{
	for (size_t i = 0; i < s->n_regions; i++) {
		struct sl_region *r = s->regions[i];

		for (uint64_t k = 0; k < r->n_chunks; k++) {
			struct sl_chunk *c = &r->chunks[k];

			if (c->host && c->host->settled &&
			    (sl_chunk_in_flight(c) ||
			     (c->reach_users && !(c->flags & SL_PREPARING))))
				return c;
		}
	}
	return NULL;
}

/* No frame can go. Until one comes back; -EAGAIN: none will. Drops. */
SL_HELD static int
frame_await(struct sluice_space *s)
{
	struct sl_chunk *c = frame_in_use(s);

	if (!c)
		return -EAGAIN;
	if (sl_chunk_in_flight(c))
		sl_chunk_wait(c);
	else
		sl_room_wait(s);
	return 0;
}

/* HOST, POISONED: map the frame, once it is settled. Drops. */
SL_HELD static int
reach_frame(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	const struct sl_host *h = c->host;
	int rc;

	if (c->hostmap)
		return sl_hostmap_hide(c);
	if (sl_host_is_encoded(c))
		return sl_host_decode(c);
	if (c->host->settled)
		return reach_change(c, 1);
	rc = sl_host_settle(c, SL_SETTLE_WRITE);
	if (rc != -EAGAIN)
		return rc;
	if (c->host != h || h->settled ||
	    (c->state != SL_CHUNK_HOST && c->state != SL_CHUNK_POISONED) || !frame_await(s))
		return 0;
	return sl_fail(
		-ENOBUFS,
		"%s: chunk %llu fits neither on the device nor in the host budget of "
		"%llu bytes: tile the launch, or raise a budget",
		c->region->name, (unsigned long long)sl_chunk_index(c),
		(unsigned long long)s->host.budget_bytes);
}

/* In the host tier, with a frame that may stay. c is not on the device. Drops; look at the state again. */
SL_HELD static int
reach_step(struct sl_chunk *c, int *waited_read)
{
	int rc;

	if (sl_chunk_in_flight(c)) {
		*waited_read |= c->state == SL_CHUNK_READING;
		sl_chunk_wait(c);
		return 0;
	}
	if (c->state == SL_CHUNK_EMPTY)
		return sl_host_zero(c, (c->region->flags & SL_REGION_UNDEFINED) != 0);
	if (c->state != SL_CHUNK_STORE)
		return reach_frame(c);
	rc = *waited_read ? sl_read_failed(c) : 0;
	*waited_read = 0;
	return rc ? rc
		  : sl_read_begin(c, SL_IO_DEMAND, SLUICE_COUNTER_STORE_READ_DEMAND,
				  SL_STAGING_READ);
}

int
sl_zerocopy_map(struct sl_chunk *c, enum sluice_intent intent)
{
	int waited_read = 0, rc = 0;

	c->region->busy++;
	while (!rc && !sl_chunk_on_device(c) && !(c->flags & SL_ZEROCOPY))
		rc = reach_step(c, &waited_read);
	while (!rc && c->state == SL_CHUNK_MAPPING)
		sl_chunk_wait(c);
	if (!rc && (c->flags & SL_ZEROCOPY)) {
		c->reach_users++;
		if (c->hostmap)
			rc = sl_hostmap_hide(c);
		if (intent != SLUICE_USE_READ) {
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
