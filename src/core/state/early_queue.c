/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of early evictions: chunks that were told to leave (launch/early_evict.c), in the order
 * of the requests. A chunk that is used again, is pinned, dies or leaves drops out of it. victim.c
 * says which one goes next.
 *
 * LOCKING: all of it under space->lock; nothing drops it.
 */
#include "core/state/state.h"

struct sl_early_eviction {
	struct sl_chunk *chunk; /* NULL: it has dropped out */
	uint64_t stamp;         /* a later use shows by another one */
};

/* The queue is a ring that grows; sizes are powers of two. */
SL_HELD static int
queue_grow(struct sluice_space *s)
{
	uint32_t max = s->early_evict.max ? 2 * s->early_evict.max : 256;
	struct sl_early_eviction *more = sl_malloc(max * sizeof(*more));

	if (!more)
		return -ENOMEM;
	for (uint32_t i = s->early_evict.tail; i != s->early_evict.head; i++)
		more[i % max] = s->early_evict.ring[i % s->early_evict.max];
	free(s->early_evict.ring);
	s->early_evict.ring = more;
	s->early_evict.max = max;
	return 0;
}

static uint32_t
queue_length(const struct sluice_space *s)
{
	return s->early_evict.head - s->early_evict.tail;
}

int
sl_early_queue_add(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	if (c->state != SL_CHUNK_DEVICE || c->leaving == SL_LEAVING_MAX || c->user_pins ||
	    (c->flags & SL_DISCARDED) ||
	    (queue_length(s) == s->early_evict.max && queue_grow(s)))
		return 0;
	c->leaving++;
	s->early_evict.ring[s->early_evict.head++ % s->early_evict.max] =
		(struct sl_early_eviction){c, sl_chunk_stamp(c)};
	return 1;
}

struct sl_chunk *
sl_early_queue_at(struct sluice_space *s, uint32_t place)
{
	struct sl_early_eviction *e = &s->early_evict.ring[place % s->early_evict.max];
	struct sl_chunk *c = e->chunk;

	if (!c)
		return NULL;
	if (c->state == SL_CHUNK_DEVICE && sl_chunk_stamp(c) == e->stamp &&
	    !c->user_pins && !(c->flags & SL_DISCARDED))
		return c;
	c->leaving--;
	e->chunk = NULL;
	return NULL;
}

uint32_t
sl_early_queue_trim(struct sluice_space *s)
{
	while (queue_length(s) && !sl_early_queue_at(s, s->early_evict.tail))
		s->early_evict.tail++;
	return queue_length(s);
}

int
sl_early_evict_is_pending(const struct sluice_space *s)
{
	return queue_length(s) != 0;
}

void
sl_early_queue_take(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	for (uint32_t i = s->early_evict.tail; i != s->early_evict.head; i++) {
		struct sl_early_eviction *e = &s->early_evict.ring[i % s->early_evict.max];

		if (e->chunk == c) {
			e->chunk = NULL;
			return;
		}
	}
}

void
sl_early_evict_forget(const struct sl_region *r)
{
	struct sluice_space *s = r->space;

	for (uint32_t i = s->early_evict.tail; i != s->early_evict.head; i++) {
		struct sl_early_eviction *e = &s->early_evict.ring[i % s->early_evict.max];

		if (e->chunk && e->chunk->region == r) {
			e->chunk->leaving--;
			e->chunk = NULL;
		}
	}
}
