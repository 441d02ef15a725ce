/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Population by page: one 4 KiB page a fault (random access), or 64 KiB grown by the density
 * tree of the stock unified-memory driver. There a fault brings its aligned 64 KiB, then the
 * largest aligned subtree of the chunk of which more than 51 % is present or coming. Pages are
 * copied in, guarded while clean. So dirtiness is exact per page, and the device budget counts
 * pages.
 *
 * The faulting thread reads. A page being read is marked, and the chunk may not be evicted
 * meanwhile. Other threads that need the page wait.
 */
#include <assert.h>
#include <stdalign.h>
#include <string.h>

#include "core/transfer/transfer.h"

#define BIG_PAGES       16u /* 64 KiB */
#define DENSITY_PERCENT 51u

struct sl_pages *
sl_pages_alloc(uint64_t chunk_bytes)
{
	size_t words = SL_BITMAP_WORDS(chunk_bytes / SL_PAGE_BYTES);
	struct sl_pages *p = sl_calloc(1, sizeof(*p) + 3 * words * sizeof(uint64_t));

	if (!p)
		return NULL;
	p->present = p->words;
	p->dirty = p->words + words;
	p->filling = p->words + 2 * words;
	return p;
}

void
sl_pages_grow(const uint64_t *present, uint32_t n_pages, uint32_t page, uint32_t *first,
	      uint32_t *n)
{
	uint32_t big = page / BIG_PAGES * BIG_PAGES;
	uint32_t big_n = n_pages - big < BIG_PAGES ? n_pages - big : BIG_PAGES;

	*first = big;
	*n = big_n;
	for (uint32_t size = BIG_PAGES * 2; size <= n_pages; size *= 2) {
		uint32_t begin = page / size * size;
		uint32_t in_big = (uint32_t)sl_bitmap_count(present, big, big_n);
		uint32_t have = (uint32_t)sl_bitmap_count(present, begin, size) - in_big +
				big_n;

		if (have * 100 > DENSITY_PERCENT * size) {
			*first = begin;
			*n = size;
		}
	}
}

/* Where the pages' contents come from. */
enum page_base { PAGE_BASE_ZERO, PAGE_BASE_HOST, PAGE_BASE_STORE };

/* Read and present pages [first, first + n); the caller marked them filling. No lock held. */
SL_NOT_HELD static int
pages_move(struct sl_chunk *c, uint32_t first, uint32_t n, enum page_base base, int guard,
	   struct sl_frame *bounce)
{
	struct sl_device *dev = c->region->space->device;
	char *addr = sl_chunk_addr(c) + (size_t)first * SL_PAGE_BYTES;
	alignas(SL_PAGE_BYTES) char page[SL_PAGE_BYTES];
	size_t bytes = (size_t)n * SL_PAGE_BYTES;
	const void *src = NULL;
	int rc;

	if (base == PAGE_BASE_HOST) {
		src = (char *)c->host->frame->data + (size_t)first * SL_PAGE_BYTES;
	} else if (base == PAGE_BASE_STORE) {
		void *buf = bounce ? bounce->data : (void *)page;

		assert(bounce || n == 1);
		rc = sl_page_read(c, (uint64_t)first * SL_PAGE_BYTES, bytes, buf);
		if (rc)
			return rc;
		src = buf;
	}
	return dev->faults->page_fill(dev, addr, bytes, src, guard);
}

/* Count pages to one cause; zeros move nothing. */
SL_HELD static void
pages_count(struct sl_chunk *c, enum sl_cause cause, enum page_base base, uint64_t bytes)
{
	struct sluice_space *s = c->region->space;
	enum sluice_counter h2d = cause == SL_CAUSE_CPU      ? SLUICE_COUNTER_H2D_CPU
				  : cause == SL_CAUSE_LAUNCH ? SLUICE_COUNTER_H2D_LAUNCH
							     : SLUICE_COUNTER_H2D_FAULT;

	sl_count(s, base == PAGE_BASE_ZERO ? SLUICE_COUNTER_ZERO_FILL : h2d, bytes);
	if (base != PAGE_BASE_ZERO)
		sl_event_end(s, sl_event_begin(c, h2d, bytes, 0, NULL), 0);
	if (base == PAGE_BASE_STORE) {
		sl_count(s, SLUICE_COUNTER_STORE_READ_DEMAND, bytes);
		sl_event_end(s,
			     sl_event_begin(c, SLUICE_COUNTER_STORE_READ_DEMAND, bytes, 0,
					    NULL),
			     0);
	}
	if (base != PAGE_BASE_ZERO && (c->flags & SL_WAS_EVICTED))
		sl_count(s, SLUICE_COUNTER_REFETCH, bytes);
}

/* Pages of [first, first + n) that nobody has or brings. Held. */
SL_HELD static uint32_t
pages_missing(const struct sl_chunk *c, uint32_t first, uint32_t n)
{
	uint32_t missing = 0;

	for (uint32_t page = first; page < first + n; page++)
		missing += !sl_bitmap_test(c->pages->present, page) &&
			   !sl_bitmap_test(c->pages->filling, page);
	return missing;
}

/* The pages that one fault brings: of [first, first + n) those that bits names (bit 0: page first). */
struct claim {
	uint32_t first, n;
	uint32_t left; /* claimed, and neither on the books yet nor given up */
	enum page_base base;
	struct sl_frame *bounce; /* for pages that come from the store together, else NULL */
	uint64_t bits[SL_BITMAP_WORDS(SL_CHUNK_BYTES_MAX / SL_PAGE_BYTES)];
};

/* Claim what nobody has or brings. Held. */
SL_HELD static void
claim_take(struct sl_chunk *c, struct claim *k)
{
	memset(k->bits, 0, SL_BITMAP_WORDS(k->n) * sizeof(k->bits[0])); /* of one page: not 2 KiB */
	k->left = 0;
	for (uint32_t i = 0; i < k->n; i++) {
		uint32_t page = k->first + i;

		if (sl_bitmap_test(c->pages->present, page) ||
		    sl_bitmap_test(c->pages->filling, page))
			continue;
		sl_bitmap_set(c->pages->filling, page, 1);
		sl_bitmap_set(k->bits, i, 1);
		k->left++;
	}
	c->pages->n_filling += k->left;
}

/*
 * Room for what is missing around page, and the claim on it. Held, drops. -EAGAIN: c changed
 * meanwhile, look again. Room is made before pages are claimed: a chunk with claimed pages may not be
 * evicted, and two threads that need each other's chunk gone would wait for ever.
 */
SL_HELD static int
claim_make(struct sl_chunk *c, uint32_t page, enum sl_cause cause, struct claim *k)
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	uint32_t n_pages = (uint32_t)(r->chunk_bytes / SL_PAGE_BYTES), reserved;
	struct sl_fill room = {.cause = cause, .room = SL_ROOM_FAULT};
	int rc;

	k->first = page;
	k->n = 1;
	if (r->population == SLUICE_POPULATE_GROW)
		sl_pages_grow(c->pages->present, n_pages, page, &k->first, &k->n);
	reserved = pages_missing(c, k->first, k->n);
	rc = sl_room_make(c, (uint64_t)reserved * SL_PAGE_BYTES, &room);
	if (rc)
		return rc;
	if (c->state != SL_CHUNK_DEVICE || !c->pages ||
	    sl_bitmap_test(c->pages->present, page) ||
	    sl_bitmap_test(c->pages->filling, page) ||
	    pages_missing(c, k->first, k->n) > reserved) {
		sl_room_give(s, (uint64_t)reserved * SL_PAGE_BYTES);
		return -EAGAIN;
	}
	claim_take(c, k);
	if (k->left < reserved)
		sl_room_give(s, (uint64_t)(reserved - k->left) * SL_PAGE_BYTES);
	k->base = c->host                     ? PAGE_BASE_HOST
		  : c->flags & SL_STORE_VALID ? PAGE_BASE_STORE
					      : PAGE_BASE_ZERO;
	k->bounce = NULL;
	if (c->host)
		sl_chunk_update(c); /* its base frame stays */
	return 0;
}

/* Present one run of claimed pages, from page at; written: the fault writes it. Held, drops. */
SL_HELD static int
run_fill(struct sl_chunk *c, struct claim *k, uint32_t at, uint32_t n, int written,
	 enum sl_cause cause)
{
	struct sluice_space *s = c->region->space;
	int rc;

	sl_space_unlock(s);
	rc = pages_move(c, at, n, k->base, !written, k->bounce);
	sl_space_lock(s);
	if (rc)
		return rc;
	sl_bitmap_set(c->pages->present, at, n);
	c->pages->n_present += n;
	c->device_bytes += n * SL_PAGE_BYTES;
	if (written) {
		sl_bitmap_set(c->pages->dirty, at, 1);
		sl_chunk_revive(c, (uint64_t)at * SL_PAGE_BYTES,
				(uint64_t)(at + 1) * SL_PAGE_BYTES);
	}
	pages_count(c, cause, k->base, (uint64_t)n * SL_PAGE_BYTES);
	return 0;
}

/* Fill the pages of c, which is DEVICE by pages, around page. Held, drops. -EAGAIN: look again. */
SL_HELD static int
pages_fill(struct sl_chunk *c, uint32_t page, enum sl_access access, enum sl_cause cause)
{
	struct sluice_space *s = c->region->space;
	struct claim k;
	int rc = claim_make(c, page, cause, &k);

	if (rc)
		return rc;
	if (k.n > 1 && k.base == PAGE_BASE_STORE) {
		sl_space_unlock(s);
		rc = s->device->ops->frame_get(s->device, c->region->chunk_bytes, &k.bounce);
		sl_space_lock(s);
	}
	for (size_t i = sl_bitmap_next_set(k.bits, 0, k.n), end; i < k.n;
	     i = sl_bitmap_next_set(k.bits, end, k.n)) {
		uint32_t at = k.first + (uint32_t)i, n;

		end = sl_bitmap_next_clear(k.bits, i, k.n);
		n = (uint32_t)(end - i);
		if (!rc)
			rc = run_fill(c, &k, at, n,
				      access == SL_ACCESS_WRITE && n == 1 && at == page,
				      cause);
		sl_bitmap_clear(c->pages->filling, at, n);
		c->pages->n_filling -= n;
		if (!rc)
			k.left -= n;
	}
	if (rc) /* from the run that failed on */
		sl_room_give(s, (uint64_t)k.left * SL_PAGE_BYTES);
	if (k.bounce) {
		sl_space_unlock(s);
		s->device->ops->frame_put(s->device, k.bounce);
		sl_space_lock(s);
	}
	if (c->host)
		sl_chunk_update(c);
	sl_chunk_wake(c);
	return rc;
}

/* A first write to a page that was clean. Held, drops. */
SL_HELD static int
page_written(struct sl_chunk *c, uint32_t page)
{
	struct sluice_space *s = c->region->space;

	sl_bitmap_set(c->pages->dirty, page, 1);
	sl_chunk_revive(c, (uint64_t)page * SL_PAGE_BYTES,
			(uint64_t)(page + 1) * SL_PAGE_BYTES);
	sl_count(s, SLUICE_COUNTER_WRITE_FAULTS, 1);
	return sl_chunk_unguard(c, (uint64_t)page * SL_PAGE_BYTES, SL_PAGE_BYTES);
}

/* Take c into page population: DEVICE with no page present. Held, drops. */
SL_HELD static int
pages_begin(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	enum sl_chunk_state from = c->state;
	struct sl_pages *pages;

	sl_chunk_set_state(c, SL_CHUNK_FILLING);
	sl_space_unlock(s);
	pages = sl_pages_alloc(c->region->chunk_bytes);
	sl_space_lock(s);
	if (!pages) {
		sl_chunk_set_state(c, from);
		return sl_fail(-ENOMEM, "fault: out of memory");
	}
	sl_read_ahead_release(c);
	c->pages = pages;
	/* A base frame in staging would block I/O for long: settle it, or use the store's copy. */
	if (c->host && sl_host_settle(c, SL_SETTLE_NOW)) {
		if (!(c->flags & SL_DIRTY_HOST)) {
			sl_host_drop(c);
		} else if (sl_host_settle(c, SL_SETTLE_WRITE)) {
			free(c->pages);
			c->pages = NULL;
			sl_chunk_set_state(c, from);
			return -EAGAIN;
		}
	}
	sl_chunk_set_state(c, SL_CHUNK_DEVICE);
	return 0;
}

/* By pages it fits nowhere, its frame is all there is of it, or the store has it compressed. Drops. */
SL_HELD static int
whole_fill(struct sl_chunk *c, enum sl_cause cause)
{
	const struct sl_fill fill = {.intent = SLUICE_USE_READ_WRITE,
				     .cause = cause,
				     .room = SL_ROOM_FAULT};

	return sl_fill(c, &fill);
}

int
sl_page_fault(struct sl_chunk *c, const struct sl_touch *touch, enum sl_cause cause)
{
	uint32_t page = (uint32_t)(((char *)touch->addr - sl_chunk_addr(c)) / SL_PAGE_BYTES);
	int waited = 0;
	int rc;

	for (;;) {
		if (sl_chunk_in_flight(c)) {
			sl_chunk_wait(c);
			continue;
		}
		if (c->state == SL_CHUNK_POISONED ||
		    (c->state != SL_CHUNK_DEVICE && sl_chunk_is_encoded(c)))
			return whole_fill(c, cause);
		if (c->state != SL_CHUNK_DEVICE) {
			rc = pages_begin(c);
			if (rc == -EAGAIN)
				return whole_fill(c, cause);
			if (rc)
				return rc;
			continue;
		}
		if (!c->pages)
			return 0; /* whole: the touch was stale */
		if (sl_bitmap_test(c->pages->filling, page)) {
			waited = 1;
			sl_chunk_wait(c);
			continue;
		}
		sl_chunk_touch(c);
		if (sl_bitmap_test(c->pages->present, page))
			break;
		rc = pages_fill(c, page, touch->access, cause);
		if (rc != -EAGAIN)
			return rc;
	}
	if (touch->access != SL_ACCESS_WRITE ||
	    (waited && !touch->guarded && sl_bitmap_test(c->pages->dirty, page)))
		return 0;
	return page_written(c, page);
}
