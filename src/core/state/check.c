/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the invariants of types.h, and names the first broken one and its place. For debugging
 * and tests. It holds the space lock all the time.
 */
#include <string.h>

#include "core/state/state.h"

struct sums {
	uint64_t device, settled, staging, spilled, pinned, heap, discarded, read_ahead,
		hostmap, alive;
};

static int
broken(const struct sl_chunk *c, const char *what)
{
	return sl_fail(-EINVAL, "check: chunk %llu of %s (%s, flags 0x%x): %s",
		       (unsigned long long)sl_chunk_index(c), c->region->name,
		       sl_chunk_state_name(c->state), c->flags, what);
}

static int
check_pages(const struct sl_chunk *c)
{
	uint32_t n = (uint32_t)(c->region->chunk_bytes / SL_PAGE_BYTES);

	if (c->host && c->host->frame->encoded_bytes &&
	    (c->pages || c->hostmap || c->flags & SL_ZEROCOPY))
		return broken(c, "an encoded frame is shown or reached");
	if (!c->pages)
		return 0;
	if (sl_chunk_is_encoded(c))
		return broken(c, "pages over a compressed extent");
	if (c->pages->n_present != sl_bitmap_count(c->pages->present, 0, n) &&
	    c->state == SL_CHUNK_DEVICE)
		return broken(c, "count of present pages");
	if (c->pages->n_filling != sl_bitmap_count(c->pages->filling, 0, n))
		return broken(c, "count of pages being filled");
	if (c->state == SL_CHUNK_DEVICE &&
	    c->device_bytes != (uint64_t)c->pages->n_present * SL_PAGE_BYTES)
		return broken(c, "device bytes of its pages");
	return 0;
}

static int
check_chunk(const struct sl_chunk *c, struct sums *sums)
{
	const struct sluice_space *s = c->region->space;
	int present = sl_chunk_on_device(c);
	int discarded = c->state == SL_CHUNK_DEVICE && !c->user_pins &&
			(c->flags & SL_DISCARDED);
	int in_list = c->prev || c->next || s->dev.discarded_head == c;
	int in_heap = c->heap_slot != SL_HEAP_NONE;

	sums->device += c->device_bytes;
	sums->spilled += c->spill ? c->spill->bytes : 0;
	sums->pinned += c->user_pins ? c->region->chunk_bytes : 0;
	sums->heap += in_heap;
	sums->alive += c->alive ? c->region->chunk_bytes : 0;
	sums->discarded += in_list;
	if (present && !c->pages && c->device_bytes != c->region->chunk_bytes)
		return broken(c, "present, but its bytes are not counted");
	if (!present && c->device_bytes && c->state != SL_CHUNK_EVICTING)
		return broken(c, "absent, but counted as present");
	if (in_heap ? c->state != SL_CHUNK_DEVICE || c->user_pins
		    : c->state == SL_CHUNK_DEVICE && !discarded && !c->user_pins)
		return broken(c, "wrongly in or out of the heap (I4)");
	if (in_heap && !sl_lru_knows(c))
		return broken(c, "heap slot of another chunk");
	if (in_list != discarded)
		return broken(c, "wrongly in or out of the discarded list (I4)");
	if ((c->state == SL_CHUNK_HOST || c->state == SL_CHUNK_POISONED ||
	     c->state == SL_CHUNK_WRITING || (c->state == SL_CHUNK_MAPPING && c->hostmap)) &&
	    !c->host)
		return broken(c, "has no frame (I3)");
	if (c->state == SL_CHUNK_STORE && !(c->flags & SL_STORE_VALID))
		return broken(c, "the store has nothing of it (I3)");
	if ((c->state == SL_CHUNK_STORE || c->state == SL_CHUNK_EMPTY) &&
	    (c->host || (c->flags & (SL_DIRTY_DEVICE | SL_DIRTY_HOST))))
		return broken(c, "dirty or with a frame, against its state (I3)");
	if (c->state == SL_CHUNK_HOST && (c->flags & SL_DIRTY_DEVICE))
		return broken(c, "dirty on a device it is not on (I3)");
	if (c->unwritten && ((!present && c->state != SL_CHUNK_EVICTING) || c->pages ||
			     (c->flags & SL_DIRTY_DEVICE)))
		return broken(c,
			      "unwritten, but not as a clean chunk on the device (I3)");
	if (c->flags & SL_LOST && !c->unwritten &&
	    (c->state == SL_CHUNK_DEVICE || c->state == SL_CHUNK_HOST ||
	     c->state == SL_CHUNK_STORE || c->state == SL_CHUNK_POISONED))
		return broken(c, "has contents, and is said to have lost them (I3)");
	if (c->measured && !present && c->state != SL_CHUNK_FILLING &&
	    c->state != SL_CHUNK_EVICTING)
		return broken(c, "measured, but not on the device");
	if (c->hostmap && c->state != SL_CHUNK_HOST && c->state != SL_CHUNK_POISONED &&
	    c->state != SL_CHUNK_MAPPING)
		return broken(c, "is shown to host code, but has left its frame (I7)");
	if (c->region->space->device->hostmap && (c->hostmap_dirty & ~c->hostmap))
		return broken(c, "newer in a host map that does not show it (I7)");
	sums->hostmap += c->hostmap ? c->region->chunk_bytes : 0;
	if (c->host) {
		struct sl_host *h = c->host;

		if (h->settled)
			sums->settled += h->frame->bytes;
		else
			sums->staging += h->frame->bytes;
		if (h->chunk != c)
			return broken(c, "its frame is another chunk's");
	}
	if (c->alive != (c->state != SL_CHUNK_EMPTY && !(c->flags & SL_DISCARDED)))
		return broken(c, "wrongly counted as alive or not (I10)");
	if (c->flags & SL_READ_AHEAD)
		sums->read_ahead += c->region->chunk_bytes;
	return check_pages(c);
}

static int
check_region(const struct sl_region *r, struct sums *sums)
{
	uint64_t ready[SL_READINESS_COUNT] = {0};

	for (uint64_t i = 0; i < r->n_chunks; i++) {
		int rc = check_chunk(&r->chunks[i], sums);

		if (rc)
			return rc;
		ready[r->chunks[i].readiness]++;
	}
	if (memcmp(ready, r->ready, sizeof(ready)))
		return sl_fail(-EINVAL, "check: %s: readiness counts (I6)", r->name);
	return 0;
}

static int
check_host_lists(const struct sluice_space *s)
{
	for (int i = 0; i < SL_HOST_LIST_COUNT; i++) {
		const struct sl_host_queue *q = &s->host.list[i];
		uint64_t bytes = 0, n = 0;

		for (const struct sl_host *h = q->head; h; h = h->next) {
			if ((int)h->list != i || h->chunk->host != h)
				return sl_fail(
					-EINVAL,
					"check: host list %d: a frame that is not its "
					"own (I5)",
					i);
			bytes += h->frame->bytes;
			n++;
		}
		if (bytes != q->bytes || n != q->n)
			return sl_fail(-EINVAL, "check: host list %d: wrong totals (I5)", i);
	}
	return 0;
}

static int
check_space(const struct sluice_space *s)
{
	struct sums sums = {0};
	/* While a budget shrinks, the configuration still has the one before. */
	uint64_t device_budget = s->config.device_budget_bytes > s->dev.budget_bytes
					 ? s->config.device_budget_bytes
					 : s->dev.budget_bytes;
	uint64_t host_budget = s->config.host_budget_bytes > s->host.budget_bytes
				       ? s->config.host_budget_bytes
				       : s->host.budget_bytes;
	int rc = 0;

	if (s->broken_text[0])
		return sl_fail(-EINVAL, "check: %s", s->broken_text);
	for (size_t i = 0; i < s->n_regions && !rc; i++)
		rc = check_region(s->regions[i], &sums);
	if (rc)
		return rc;
	/* Reservations and frames between two homes are counted, but not yet with a chunk. */
	if (sums.device > s->dev.used_bytes || s->dev.used_bytes > device_budget)
		return sl_fail(-EINVAL,
			       "check: device: chunks %llu, used %llu, budget %llu (I1)",
			       (unsigned long long)sums.device,
			       (unsigned long long)s->dev.used_bytes,
			       (unsigned long long)s->dev.budget_bytes);
	if (sums.settled != s->host.settled_bytes || s->host.settled_bytes > host_budget)
		return sl_fail(-EINVAL,
			       "check: host: frames %llu, settled %llu, budget %llu (I2)",
			       (unsigned long long)sums.settled,
			       (unsigned long long)s->host.settled_bytes,
			       (unsigned long long)s->host.budget_bytes);
	if (sums.staging > s->host.staging_used_bytes ||
	    s->host.staging_used_bytes > s->host.staging_bytes)
		return sl_fail(-EINVAL, "check: staging: frames %llu, used %llu, allowed %llu (I2)",
			       (unsigned long long)sums.staging,
			       (unsigned long long)s->host.staging_used_bytes,
			       (unsigned long long)s->host.staging_bytes);
	if (sums.spilled != s->spilled_bytes)
		return sl_fail(-EINVAL, "check: spilled bytes: %llu in chunks, %llu counted",
			       (unsigned long long)sums.spilled,
			       (unsigned long long)s->spilled_bytes);
	if (sums.pinned != s->dev.pinned_bytes)
		return sl_fail(-EINVAL, "check: pinned bytes: %llu in chunks, %llu counted",
			       (unsigned long long)sums.pinned,
			       (unsigned long long)s->dev.pinned_bytes);
	if (sums.alive != atomic_load_explicit(&s->alive_bytes, memory_order_relaxed))
		return sl_fail(-EINVAL,
			       "check: alive: chunks of %llu bytes, counted %llu (I10)",
			       (unsigned long long)sums.alive,
			       (unsigned long long)atomic_load(&s->alive_bytes));
	if (sums.hostmap != s->hostmap.bytes)
		return sl_fail(-EINVAL, "check: host map of %llu bytes, counted %llu (I7)",
			       (unsigned long long)sums.hostmap,
			       (unsigned long long)s->hostmap.bytes);
	if (sums.heap != s->dev.heap_n)
		return sl_fail(-EINVAL, "check: %llu chunks in a heap of %u",
			       (unsigned long long)sums.heap, s->dev.heap_n);
	if (sums.read_ahead != s->host.read_ahead_bytes)
		return sl_fail(-EINVAL, "check: read-ahead: %llu in chunks, %llu counted",
			       (unsigned long long)sums.read_ahead,
			       (unsigned long long)s->host.read_ahead_bytes);
	return check_host_lists(s);
}

int
sluice_space_check(struct sluice_space *space)
{
	int rc = sl_space_enter(space);

	if (rc)
		return rc;
	rc = check_space(space);
	sl_space_unlock(space);
	return rc;
}
