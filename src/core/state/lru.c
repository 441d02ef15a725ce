/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the device's victims: discarded chunks first in, first out; then the coldest used
 * ones. A hit only stores a stamp in the chunk. The heap learns of it when the chunk comes to
 * the top. So a hit costs nothing, and the order is exact all the same. Equal stamps: clean
 * before dirty, then by address. A discarded chunk stays in the heap until it comes to the top
 * or is revived. Removing it at once would make a discard of many chunks cost their logarithms.
 * LOCKING: all of it under space->lock.
 */
#include <assert.h>
#include <stdlib.h>

#include "core/state/state.h"

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

static struct sl_heap *
heap_for(struct sluice_space *s, uint64_t chunk_bytes)
{
	return &s->dev.heap[chunk_bytes > s->config.chunk_bytes];
}

static struct sl_heap *
heap_of(const struct sl_chunk *c)
{
	return heap_for(c->region->space, c->region->chunk_bytes);
}

static void
heap_place(struct sl_heap *heap, uint32_t slot, struct sl_chunk *c)
{
	heap->slot[slot] = c;
	c->heap_slot = slot;
}

static void
heap_up(struct sl_heap *heap, uint32_t slot)
{
	struct sl_chunk *c = heap->slot[slot];

	while (slot > 0) {
		uint32_t parent = (slot - 1) / 2;

		if (!heap_before(c, heap->slot[parent]))
			break;
		heap_place(heap, slot, heap->slot[parent]);
		slot = parent;
	}
	heap_place(heap, slot, c);
}

static void
heap_down(struct sl_heap *heap, uint32_t slot)
{
	struct sl_chunk *c = heap->slot[slot];

	for (;;) {
		uint32_t child = 2 * slot + 1;

		if (child >= heap->n)
			break;
		if (child + 1 < heap->n &&
		    heap_before(heap->slot[child + 1], heap->slot[child]))
			child++;
		if (!heap_before(heap->slot[child], c))
			break;
		heap_place(heap, slot, heap->slot[child]);
		slot = child;
	}
	heap_place(heap, slot, c);
}

void
sl_lru_insert(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	struct sl_heap *heap = heap_of(c);

	assert(heap->n < heap->max);
	c->heap_stamp = heap_key(c);
	heap_place(heap, heap->n++, c);
	s->dev.heap_n++;
	heap_up(heap, c->heap_slot);
}

void
sl_lru_remove(struct sl_chunk *c)
{
	struct sl_heap *heap = heap_of(c);
	uint32_t slot = c->heap_slot;
	struct sl_chunk *last = heap->slot[--heap->n];

	c->region->space->dev.heap_n--;
	c->heap_slot = SL_HEAP_NONE;
	if (last == c)
		return;
	heap_place(heap, slot, last);
	heap_up(heap, slot);
	heap_down(heap, last->heap_slot);
}

void
sl_lru_refresh(struct sl_chunk *c)
{
	struct sl_heap *heap = heap_of(c);

	c->heap_stamp = heap_key(c);
	heap_up(heap, c->heap_slot);
	heap_down(heap, c->heap_slot);
}

int
sl_lru_knows(const struct sl_chunk *c)
{
	const struct sl_heap *heap = heap_of(c);

	return c->heap_slot < heap->n && heap->slot[c->heap_slot] == c;
}

static int
is_discarded(const struct sl_chunk *c)
{
	return (c->flags & SL_DISCARDED) != 0; /* in the heap, so it is DEVICE */
}

/* Bring the heap's top up to date: stamps only grow, so sinking is enough. */
SL_HELD static struct sl_chunk *
heap_top(struct sl_heap *heap)
{
	while (heap->n) {
		struct sl_chunk *c = heap->slot[0];
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
		heap_down(heap, 0);
	}
	return NULL;
}

static int
skips(const struct sl_chunk *c, enum sl_lru_skip skip)
{
	if (skip == SL_SKIP_NOTHING)
		return 0;
	if ((c->flags & SL_PREPARING) || (skip != SL_SKIP_PREPARING && sl_chunk_pins(c)))
		return 1;
	return skip == SL_SKIP_AWAITED && c->awaited && !(c->flags & SL_COLD) &&
	       c->region->whole_stamp < c->stamp;
}

/* The colder one; either may be NULL. */
static struct sl_chunk *
colder(struct sl_chunk *a, struct sl_chunk *b)
{
	uint64_t key_a, key_b;

	if (!a || !b)
		return a ? a : b;
	key_a = heap_key(a);
	key_b = heap_key(b);
	if (key_a != key_b)
		return key_a < key_b ? a : b;
	return sl_chunk_addr(a) < sl_chunk_addr(b) ? a : b;
}

SL_HELD static struct sl_chunk *
heap_coldest(struct sl_heap *heap, enum sl_lru_skip skip)
{
	struct sl_chunk *best = heap_top(heap);

	if (!best || !skips(best, skip))
		return best;
	best = NULL;
	for (uint32_t i = 0; i < heap->n; i++) {
		struct sl_chunk *c = heap->slot[i];

		if (!is_discarded(c) && !skips(c, skip))
			best = colder(best, c);
	}
	return best;
}

struct sl_chunk *
sl_lru_coldest(struct sluice_space *s, enum sl_lru_skip skip)
{
	return colder(heap_coldest(&s->dev.heap[0], skip),
		      heap_coldest(&s->dev.heap[1], skip));
}

/* Not used for at least seven eighths of the time that the coldest was not: one or two launches of
 * those that the device holds. More would keep the two sizes apart where one of them is wanted more. */
static int
is_nearly_as_cold(const struct sl_chunk *c, const struct sl_chunk *coldest)
{
	uint64_t now = c->region->space->clock;

	if ((coldest->flags ^ c->flags) & SL_COLD)
		return 0;
	return (now - sl_chunk_stamp(c)) * 8 >= (now - sl_chunk_stamp(coldest)) * 7;
}

struct sl_chunk *
sl_lru_coldest_for(struct sluice_space *s, enum sl_lru_skip skip, uint64_t chunk_bytes)
{
	struct sl_heap *heap = heap_for(s, chunk_bytes);
	struct sl_chunk *same = heap_coldest(heap, skip);
	struct sl_chunk *other = heap_coldest(&s->dev.heap[heap == &s->dev.heap[0]], skip);

	if (chunk_bytes && same && other && is_nearly_as_cold(same, other))
		return same;
	return colder(same, other);
}

/* Slots of a heap that are to be looked at, nearest to its top first. */
#define LOOK_MAX 32u

static uint32_t
look_take(const struct sl_heap *heap, uint32_t *slots, uint32_t *n)
{
	uint32_t best = 0, slot;

	for (uint32_t i = 1; i < *n; i++) {
		if (heap_before(heap->slot[slots[i]], heap->slot[slots[best]]))
			best = i;
	}
	slot = slots[best];
	slots[best] = slots[--*n];
	return slot;
}

uint32_t
sl_lru_next(const struct sl_chunk *like, struct sl_chunk **out, uint32_t max)
{
	const struct sl_heap *heap = heap_of(like);
	uint32_t slots[LOOK_MAX + 2] = {0}, n_slots = heap->n ? 1 : 0, n = 0;

	for (uint32_t looked = 0; looked < LOOK_MAX && n_slots && n < max; looked++) {
		uint32_t slot = look_take(heap, slots, &n_slots);
		struct sl_chunk *c = heap->slot[slot];

		for (uint32_t child = 2 * slot + 1;
		     child < heap->n && child <= 2 * slot + 2; child++)
			slots[n_slots++] = child;
		if (!is_discarded(c) && heap_key(c) <= c->heap_stamp)
			out[n++] = c;
	}
	return n;
}

int
sl_lru_reserve(struct sluice_space *s, uint64_t chunk_bytes, uint64_t n_chunks)
{
	struct sl_heap *heap = heap_for(s, chunk_bytes);
	struct sl_chunk **slot;
	uint64_t max;

	n_chunks += heap->n_reserved;
	if (n_chunks >= SL_HEAP_NONE)
		return sl_fail(
			-EFBIG,
			"space: %llu chunks are more than a space can hold; use larger "
			"chunks",
			(unsigned long long)n_chunks);
	if (n_chunks > heap->max) {
		max = n_chunks + n_chunks / 2 < SL_HEAP_NONE ? n_chunks + n_chunks / 2
							     : n_chunks;
		slot = sl_fault_point("mem.alloc")
			       ? NULL
			       : realloc(heap->slot, max * sizeof(*slot));
		if (!slot)
			return sl_fail(-ENOMEM, "space: out of memory for %llu chunks",
				       (unsigned long long)n_chunks);
		heap->slot = slot;
		heap->max = (uint32_t)max;
	}
	heap->n_reserved = n_chunks;
	return 0;
}

void
sl_lru_release(struct sluice_space *s, uint64_t chunk_bytes, uint64_t n_chunks)
{
	heap_for(s, chunk_bytes)->n_reserved -= n_chunks;
}

void
sl_lru_fini(struct sluice_space *s)
{
	free(s->dev.heap[0].slot);
	free(s->dev.heap[1].slot);
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
