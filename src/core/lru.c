/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which chunk of the device goes next: discarded ones first in, first out; then the coldest in
 * use. A hit only stores a stamp in the chunk; the heap learns of it when the chunk comes to
 * the top, so a hit costs nothing and the order is exact all the same. Equal stamps: clean before
 * dirty, then by address. A discarded chunk stays in the heap until it comes to the top or lives
 * again: taking it out at once would make a discard of many chunks cost their logarithms.
 * LOCKING: all of it under space->lock.
 */
#include <assert.h>
#include <stdlib.h>

#include "core/core.h"

static uint64_t
heap_key(const struct sl_chunk *c)
{
	if (c->flags & SL_COLD)
		return 0;
	return sl_chunk_stamp(c) * 2 + ((c->flags & SL_DIRTY_DEVICE) != 0);
}

static int
heap_before(const struct sl_chunk *a, const struct sl_chunk *b)
{
	if (a->heap_stamp != b->heap_stamp)
		return a->heap_stamp < b->heap_stamp;
	return sl_chunk_addr(a) < sl_chunk_addr(b);
}

static void
heap_place(struct sluice_space *s, uint32_t slot, struct sl_chunk *c)
{
	s->dev.heap[slot] = c;
	c->heap_slot = slot;
}

static void
heap_up(struct sluice_space *s, uint32_t slot)
{
	struct sl_chunk *c = s->dev.heap[slot];

	while (slot > 0) {
		uint32_t parent = (slot - 1) / 2;

		if (!heap_before(c, s->dev.heap[parent]))
			break;
		heap_place(s, slot, s->dev.heap[parent]);
		slot = parent;
	}
	heap_place(s, slot, c);
}

static void
heap_down(struct sluice_space *s, uint32_t slot)
{
	struct sl_chunk *c = s->dev.heap[slot];
	uint32_t n = s->dev.heap_n;

	for (;;) {
		uint32_t child = 2 * slot + 1;

		if (child >= n)
			break;
		if (child + 1 < n && heap_before(s->dev.heap[child + 1], s->dev.heap[child]))
			child++;
		if (!heap_before(s->dev.heap[child], c))
			break;
		heap_place(s, slot, s->dev.heap[child]);
		slot = child;
	}
	heap_place(s, slot, c);
}

void
sl_lru_insert(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	assert(s->dev.heap_n < s->dev.heap_max);
	c->heap_stamp = heap_key(c);
	heap_place(s, s->dev.heap_n, c);
	s->dev.heap_n++;
	heap_up(s, c->heap_slot);
}

void
sl_lru_remove(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	uint32_t slot = c->heap_slot;
	struct sl_chunk *last = s->dev.heap[--s->dev.heap_n];

	c->heap_slot = SL_HEAP_NONE;
	if (last == c)
		return;
	heap_place(s, slot, last);
	heap_up(s, slot);
	heap_down(s, last->heap_slot);
}

void
sl_lru_refresh(struct sl_chunk *c)
{
	c->heap_stamp = heap_key(c);
	heap_up(c->region->space, c->heap_slot);
	heap_down(c->region->space, c->heap_slot);
}

static int
is_discarded(const struct sl_chunk *c)
{
	return (c->flags & SL_DISCARDED) != 0; /* in the heap, so it is DEVICE */
}

/* Bring the heap's top up to date: stamps only grow, so sinking is enough. */
SL_HELD static struct sl_chunk *
heap_top(struct sluice_space *s)
{
	while (s->dev.heap_n) {
		struct sl_chunk *c = s->dev.heap[0];
		uint64_t key = heap_key(c);

		if (is_discarded(c)) {
			sl_lru_remove(c);
			continue;
		}
		if (key <= c->heap_stamp) {
			c->heap_stamp = key;
			return c;
		}
		c->heap_stamp = key;
		heap_down(s, 0);
	}
	return NULL;
}

static int
skips(const struct sl_chunk *c, enum sl_lru_skip skip)
{
	if (skip == SL_SKIP_NOTHING)
		return 0;
	return (c->flags & SL_PREPARING) || (skip == SL_SKIP_PINNED && sl_chunk_pins(c));
}

struct sl_chunk *
sl_lru_coldest(struct sluice_space *s, enum sl_lru_skip skip)
{
	struct sl_chunk *best = heap_top(s);
	uint64_t best_key = 0;

	if (!best || !skips(best, skip))
		return best;
	best = NULL;
	for (uint32_t i = 0; i < s->dev.heap_n; i++) {
		struct sl_chunk *c = s->dev.heap[i];
		uint64_t key = heap_key(c);

		if (is_discarded(c) || skips(c, skip))
			continue;
		if (!best || key < best_key ||
		    (key == best_key && sl_chunk_addr(c) < sl_chunk_addr(best))) {
			best = c;
			best_key = key;
		}
	}
	return best;
}

int
sl_lru_reserve(struct sluice_space *s, uint64_t n_chunks)
{
	struct sl_chunk **heap;

	if (n_chunks >= SL_HEAP_NONE)
		return sl_fail(
			-EFBIG,
			"space: %llu chunks are more than a space can hold; use larger "
			"chunks",
			(unsigned long long)n_chunks);
	if (n_chunks <= s->dev.heap_max)
		return 0;
	heap = sl_fault_point("mem.alloc")
		       ? NULL
		       : realloc(s->dev.heap, n_chunks * sizeof(*s->dev.heap));
	if (!heap)
		return sl_fail(-ENOMEM, "space: out of memory for %llu chunks",
			       (unsigned long long)n_chunks);
	s->dev.heap = heap;
	s->dev.heap_max = (uint32_t)n_chunks;
	return 0;
}

void
sl_discarded_insert(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	c->prev = s->dev.discarded_tail;
	c->next = NULL;
	if (c->prev)
		c->prev->next = c;
	else
		s->dev.discarded_head = c;
	s->dev.discarded_tail = c;
}

void
sl_discarded_remove(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	if (c->prev)
		c->prev->next = c->next;
	else
		s->dev.discarded_head = c->next;
	if (c->next)
		c->next->prev = c->prev;
	else
		s->dev.discarded_tail = c->prev;
	c->prev = c->next = NULL;
}
