/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discard (the paper UVM Discard): contents declared dead are never copied. Dead data are tracked
 * per 4 KiB page. The chunk is dropped when no page of it is live. Lazy: the chunk stays present on
 * the discarded list, until a write intent or a prefetch revives it. That list is evicted before
 * used chunks. Eager: it is unmapped, at once or when the last launch that uses it ends.
 */
#include <assert.h>
#include <string.h>

#include "core/transfer/transfer.h"

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

/* Copies that are not on the device go. 1: look again. Drops. */
SL_HELD static int
copies_discard(struct sl_chunk *c, enum sl_discard_how how)
{
	struct sl_host *h = c->host;

	if (how != SL_DISCARD_UNMAP && sl_chunk_pins(c))
		return 0; /* a fault took it from a launch, which faults, too */
	if (c->flags & SL_ZEROCOPY) {
		if (c->reach_users && how != SL_DISCARD_UNMAP)
			return 0; /* a launch still uses it */
		return sl_zerocopy_unmap(c) == 0;
	}
	if (c->hostmap)
		return sl_hostmap_discard(c) == 0; /* what is still shown lives on */
	sl_dirty_hash_forget(c);
	free(c->pages);
	c->pages = NULL;
	if (h) {
		if (how != SL_DISCARD_UNMAP && (c->flags & SL_DIRTY_HOST))
			sl_count(c->region->space, SLUICE_COUNTER_DISCARD_SAVED,
				 h->frame->bytes);
		sl_host_list_remove(h);
		sl_read_ahead_release(c);
		c->host = NULL;
		c->flags &= SL_FLAGS_KEPT;
	}
	sl_chunk_set_state(c, SL_CHUNK_EMPTY);
	if (h)
		sl_host_put(h);
	if (c->state != SL_CHUNK_EMPTY)
		return 0;
	c->flags &= SL_FLAGS_KEPT;
	sl_spill_drop(c);
	free(c->dead);
	c->dead = NULL;
	return 0;
}

/* The contents on the device are dead, and where they are to be unmapped they go. 1: look again. Drops. */
SL_HELD static int
device_discard(struct sl_chunk *c, enum sl_discard_how how, struct sl_discard_place place)
{
	int waits = how != SL_DISCARD_LAZILY && sl_discard_waits(c, place);

	/* EAGER is of its pages; what is discarded is not lost any more. */
	c->flags &= (uint16_t) ~(SL_DISCARD_EAGER | SL_LOST);
	c->flags |= SL_DISCARDED | (how ? SL_DISCARD_EAGER : 0);
	free(c->dead);
	c->dead = NULL;
	sl_chunk_update(c);
	c->flags &= (uint16_t)~SL_DIRTY_HOST; /* revived, it has no frame any more */
	sl_dirty_hash_forget(c);
	sl_host_drop(c);
	if (c->state != SL_CHUNK_DEVICE || !(c->flags & SL_DISCARDED))
		return 0;
	sl_spill_drop(c);
	if (how == SL_DISCARD_LAZILY)
		return 0;
	if (sl_chunk_pins(c)) { /* the end of the last launch unmaps it */
		if (!waits)
			sl_dead_watch(c);
		return !sl_chunk_pins(c);
	}
	if (sl_evict(c, SL_EVICT_DISCARD)) {
		sl_chunk_keep(c);
		return 0;
	}
	/* Held since the lock was dropped: nothing was unmapped. */
	return c->state == SL_CHUNK_DEVICE && (c->flags & SL_DISCARDED);
}

/* On its way somewhere, or held: sl_chunk_discard() would wait first. */
SL_HELD static int
chunk_is_moving(const struct sl_chunk *c)
{
	return sl_chunk_in_flight(c) || (c->state == SL_CHUNK_DEVICE && sl_chunk_is_held(c));
}

/*
 * The whole chunk is dead, but for launches called before: up to number place.before. Held, drops. Waits
 * for moves of it, not for launches. Such a launch can lose its pins, before or meanwhile, and then
 * needs the contents again: the discard is forgotten.
 */
void
sl_chunk_discard(struct sl_chunk *c, enum sl_discard_how how, struct sl_discard_place place)
{
	int again = 1;

	for (int waited = 0; again; waited = 1) {
		if (waited && how != SL_DISCARD_UNMAP && !(c->flags & SL_DISCARDED) &&
		    sl_chunk_is_wanted_before(c, place.before + 1))
			return;
		if (c->state == SL_CHUNK_EMPTY) {
			c->flags &= (uint16_t)~SL_LOST;
			return;
		}
		if (chunk_is_moving(c))
			sl_chunk_wait(c);
		else if (c->state == SL_CHUNK_DEVICE)
			again = device_discard(c, how, place);
		else
			again = copies_discard(c, how);
	}
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

/* Checking mode: the pages are dead, and each later touch of them is seen. */
SL_HELD static void
chunk_check_dead(struct sl_chunk *c, uint64_t begin, uint64_t end)
{
	size_t n_pages = c->region->chunk_bytes / SL_PAGE_BYTES;
	size_t first = (begin + SL_PAGE_BYTES - 1) / SL_PAGE_BYTES;
	size_t last = end >= sl_chunk_valid_bytes(c) ? n_pages : end / SL_PAGE_BYTES;

	if (c->user_pins || c->state == SL_CHUNK_DEVICE) { /* its writes would go unseen */
		sl_chunk_keep(c);
		sl_chunk_revive(c, 0, c->region->chunk_bytes);
		return;
	}
	if (!c->dead)
		c->dead = sl_calloc(SL_BITMAP_WORDS(n_pages), sizeof(uint64_t));
	if (c->dead && first < last)
		sl_bitmap_set(c->dead, first, last - first);
	if (c->dead)
		c->flags |= SL_DISCARD_EAGER; /* brought in whole, it is guarded */
	sl_chunk_update(c);
}

/* late: launches called after the discard may be prepared already; what they use lives again. */
SL_HELD static void
range_discard(struct sl_region *r, uint64_t begin, uint64_t end, int eager, int late,
	      struct sl_discard_place place)
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
		if (late ? sl_chunk_pins(c) != 0
			 : !s->device->native &&
				    sl_chunk_is_wanted_before(c, place.before + 1))
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
		    (sl_writes_watch(c, from, to, place) || chunk_stays(c, eager)))
			continue; /* writes would go unseen: forget about the discard */
		if (pages_die(c, from, to))
			sl_chunk_discard(c, eager ? SL_DISCARD_EAGERLY : SL_DISCARD_LAZILY,
					 place);
		else
			sl_chunk_update(c);
		if (sl_checks_kernels(s)) {
			sl_ignore(chunk_hide(c));
			chunk_check_dead(c, from, to);
		}
	}
	sl_region_leave(r);
}

void
sl_range_discard(struct sl_region *r, uint64_t begin, uint64_t end, int eager,
		 struct sl_discard_place place)
{
	range_discard(r, begin, end, eager, 0, place);
}

void
sl_range_discard_late(struct sl_region *r, uint64_t begin, uint64_t end, int eager)
{
	range_discard(r, begin, end, eager, 1, (struct sl_discard_place){NULL, 0});
}
