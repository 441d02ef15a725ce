/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Early eviction. The preload library names chunks that will be victims soon (interpose.h). They
 * are evicted as soon as the launches that use them have ended: the copies out use an idle link,
 * and there is room before it is needed.
 *
 * A queue holds the chunks in the order of the requests. A chunk that is in use delays only chunks
 * far behind it. A chunk that is used again stays. The mover evicts the others, once those that
 * need a hash are hashed (dirty_hash.c); it does not wait for that.
 *
 * LOCKING: all of it under space->lock; step drops.
 */
#include "core/interpose.h"
#include "core/launch/launch.h"

#define MEASURED_AHEAD 8u
#define DUE_LOOK_MAX   32u

struct sl_early_eviction {
	struct sl_chunk *chunk;
	uint64_t stamp; /* a later use shows by another one */
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

SL_HELD static void
chunk_leave_later(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	if (c->state != SL_CHUNK_DEVICE || c->leaving == SL_LEAVING_MAX || c->user_pins ||
	    (c->flags & SL_DISCARDED) ||
	    (queue_length(s) == s->early_evict.max && queue_grow(s)))
		return;
	c->leaving++;
	s->early_evict.ring[s->early_evict.head++ % s->early_evict.max] =
		(struct sl_early_eviction){c, sl_chunk_stamp(c)};
	atomic_store(&s->early_evict.waiting, 1);
}

void
sl_evict_later(struct sluice_space *s, void *addr, size_t bytes)
{
	struct sl_region *r;
	uint64_t begin, end;

	if (sl_space_enter(s))
		return;
	if (bytes && !sl_thrash_is_on(s) &&
	    !sl_region_find(s, "evict", addr, bytes, &r, &begin, &end)) {
		for (uint64_t i = begin >> r->chunk_shift;
		     i <= (end - 1) >> r->chunk_shift; i++)
			chunk_leave_later(&r->chunks[i]);
		sl_cond_signal(&s->mover_wake);
	}
	sl_space_unlock(s);
}

/* The chunk of this place, if it is to leave still. */
SL_HELD static struct sl_chunk *
queue_at(struct sluice_space *s, uint32_t place)
{
	const struct sl_early_eviction *l = &s->early_evict.ring[place % s->early_evict.max];
	struct sl_chunk *c = l->chunk;

	return c && c->state == SL_CHUNK_DEVICE && sl_chunk_stamp(c) == l->stamp &&
			       !c->user_pins && !(c->flags & SL_DISCARDED)
		       ? c
		       : NULL;
}

/* Forget what will not leave: it was used again, or has left. */
SL_HELD static void
queue_clear(struct sluice_space *s, uint32_t place)
{
	struct sl_early_eviction *l = &s->early_evict.ring[place % s->early_evict.max];

	if (l->chunk && !queue_at(s, place)) {
		l->chunk->leaving--;
		l->chunk = NULL;
	}
}

/* The first that can go now, but for few: a chunk of many small blocks may be in use for long. */
SL_HELD static struct sl_early_eviction *
queue_due(struct sluice_space *s)
{
	uint32_t looked = 0;

	if (!queue_length(s))
		return NULL;
	for (uint32_t i = s->early_evict.tail;
	     i != s->early_evict.head && looked < DUE_LOOK_MAX; i++) {
		struct sl_early_eviction *l = &s->early_evict.ring[i % s->early_evict.max];

		queue_clear(s, i);
		if (!l->chunk && i == s->early_evict.tail)
			s->early_evict.tail++;
		if (!l->chunk)
			continue;
		if (!sl_chunk_pins(l->chunk) && !sl_chunk_is_held(l->chunk) &&
		    !sl_dirty_hash_is_pending(l->chunk))
			return l;
		looked++;
	}
	if (!queue_length(s))
		atomic_store(&s->early_evict.waiting, 0);
	return NULL;
}

int
sl_early_evict_is_due(struct sluice_space *s)
{
	return queue_due(s) != NULL;
}

int
sl_early_evict_is_pending(const struct sluice_space *s)
{
	return queue_length(s) != 0;
}

void
sl_early_evict_await(struct sluice_space *s, int await)
{
	if (sl_space_enter(s))
		return;
	s->early_evict.await = await;
	sl_space_unlock(s);
}

struct sl_chunk *
sl_early_evict_first(struct sluice_space *s)
{
	struct sl_chunk *first = NULL;
	uint32_t looked = 0;

	for (uint32_t i = s->early_evict.tail;
	     i != s->early_evict.head && looked < DUE_LOOK_MAX; i++) {
		struct sl_chunk *c = queue_at(s, i);

		if (!c || c->flags & SL_PREPARING || sl_chunk_is_held(c))
			continue;
		looked++;
		if (!sl_chunk_pins(c))
			return c;
		if (!first && !sl_scope_holds(c))
			first = c;
	}
	return first;
}

/* Have those that come first hashed before their turn. Drops. */
SL_HELD static void
queue_measure(struct sluice_space *s)
{
	uint32_t i = s->early_evict.tail, looked = 0;

	for (unsigned begun = 0; begun < MEASURED_AHEAD && looked < DUE_LOOK_MAX; i++) {
		struct sl_chunk *c;

		/* The lock was dropped: what was before the tail is not in the ring any more. */
		if ((int32_t)(i - s->early_evict.tail) < 0)
			i = s->early_evict.tail;
		if (i == s->early_evict.head)
			return;
		c = queue_at(s, i);
		looked += c != NULL;
		begun += c && (sl_dirty_hash_is_pending(c) || sl_dirty_hash_begin(c));
	}
}

void
sl_early_evict_step(struct sluice_space *s)
{
	struct sl_early_eviction *l;
	struct sl_chunk *c;

	queue_measure(s);
	l = queue_due(s);
	if (!l)
		return;
	c = l->chunk;
	l->chunk = NULL; /* the ring may move while the lock is dropped */
	sl_ignore(sl_evict(c, SL_EVICT_ROOM)); /* a favour: who needs the room will see */
	c->leaving--;
	s->early_evict.late = 0;
}

void
sl_early_evict_forget(const struct sl_region *r)
{
	struct sluice_space *s = r->space;

	for (uint32_t i = s->early_evict.tail; i != s->early_evict.head; i++) {
		struct sl_early_eviction *l = &s->early_evict.ring[i % s->early_evict.max];

		if (l->chunk && l->chunk->region == r) {
			l->chunk->leaving--;
			l->chunk = NULL;
		}
	}
}
