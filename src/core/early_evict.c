/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that are to leave the device as soon as the launches that use them have ended, because
 * whoever asked knows that they would be the victims of what comes (embed.h): so that their copies out go
 * while the link is idle, and room is there before it is needed. A queue in the order of asking, of which
 * those that are in use hold up only those far behind them; one that is used again meanwhile stays. The mover takes them out, once what has to be hashed before (measure.c)
 * is: it does not stand still for that.
 *
 * LOCKING: all of it under space->lock; step drops.
 */
#include "core/core.h"
#include "core/embed.h"

#define MEASURED_AHEAD 8u
#define DUE_LOOK_MAX   32u

struct sl_leaving {
	struct sl_chunk *chunk;
	uint64_t stamp; /* a later use shows by another one */
};

/* The queue is a ring that grows; sizes are powers of two. */
SL_HELD static int
queue_grow(struct sluice_space *s)
{
	uint32_t max = s->leave.max ? 2 * s->leave.max : 256;
	struct sl_leaving *more = sl_malloc(max * sizeof(*more));

	if (!more)
		return -ENOMEM;
	for (uint32_t i = s->leave.tail; i != s->leave.head; i++)
		more[i % max] = s->leave.ring[i % s->leave.max];
	free(s->leave.ring);
	s->leave.ring = more;
	s->leave.max = max;
	return 0;
}

static uint32_t
queue_length(const struct sluice_space *s)
{
	return s->leave.head - s->leave.tail;
}

SL_HELD static void
chunk_leave_later(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	if (c->state != SL_CHUNK_DEVICE || c->leaving == SL_LEAVING_MAX || c->user_pins ||
	    (c->flags & SL_DISCARDED) || (queue_length(s) == s->leave.max && queue_grow(s)))
		return;
	c->leaving++;
	s->leave.ring[s->leave.head++ % s->leave.max] = (struct sl_leaving){c,
									    sl_chunk_stamp(c)};
	atomic_store(&s->leave.waiting, 1);
}

void
sl_leave_later(struct sluice_space *s, void *addr, size_t bytes)
{
	struct sl_region *r;
	uint64_t begin, end;

	if (sl_space_enter(s))
		return;
	if (bytes && !sl_outgrown_is_on(s) &&
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
	const struct sl_leaving *l = &s->leave.ring[place % s->leave.max];
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
	struct sl_leaving *l = &s->leave.ring[place % s->leave.max];

	if (l->chunk && !queue_at(s, place)) {
		l->chunk->leaving--;
		l->chunk = NULL;
	}
}

/* The first that can go now, but for few: a chunk of many small blocks may be in use for long. */
SL_HELD static struct sl_leaving *
queue_due(struct sluice_space *s)
{
	uint32_t looked = 0;

	if (!queue_length(s))
		return NULL;
	for (uint32_t i = s->leave.tail; i != s->leave.head && looked < DUE_LOOK_MAX; i++) {
		struct sl_leaving *l = &s->leave.ring[i % s->leave.max];

		queue_clear(s, i);
		if (!l->chunk && i == s->leave.tail)
			s->leave.tail++;
		if (!l->chunk)
			continue;
		if (!sl_chunk_pins(l->chunk) && !sl_chunk_is_held(l->chunk) &&
		    !sl_measure_is_pending(l->chunk))
			return l;
		looked++;
	}
	if (!queue_length(s))
		atomic_store(&s->leave.waiting, 0);
	return NULL;
}

int
sl_leave_is_due(struct sluice_space *s)
{
	return queue_due(s) != NULL;
}

int
sl_leave_is_pending(const struct sluice_space *s)
{
	return queue_length(s) != 0;
}

void
sl_leave_await(struct sluice_space *s, int await)
{
	if (sl_space_enter(s))
		return;
	s->leave.await = await;
	sl_space_unlock(s);
}

struct sl_chunk *
sl_leave_first(struct sluice_space *s)
{
	struct sl_chunk *first = NULL;
	uint32_t looked = 0;

	for (uint32_t i = s->leave.tail; i != s->leave.head && looked < DUE_LOOK_MAX; i++) {
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
	uint32_t i = s->leave.tail, looked = 0;

	for (unsigned begun = 0; begun < MEASURED_AHEAD && looked < DUE_LOOK_MAX; i++) {
		struct sl_chunk *c;

		/* The lock was dropped: what was before the tail is not in the ring any more. */
		if ((int32_t)(i - s->leave.tail) < 0)
			i = s->leave.tail;
		if (i == s->leave.head)
			return;
		c = queue_at(s, i);
		looked += c != NULL;
		begun += c && (sl_measure_is_pending(c) || sl_measure_begin(c));
	}
}

void
sl_leave_step(struct sluice_space *s)
{
	struct sl_leaving *l;
	struct sl_chunk *c;

	queue_measure(s);
	l = queue_due(s);
	if (!l)
		return;
	c = l->chunk;
	l->chunk = NULL; /* the ring may move while the lock is dropped */
	sl_ignore(sl_evict(c, SL_EVICT_ROOM)); /* a favour: who needs the room will see */
	c->leaving--;
	s->leave.late = 0;
}

void
sl_leave_forget(const struct sl_region *r)
{
	struct sluice_space *s = r->space;

	for (uint32_t i = s->leave.tail; i != s->leave.head; i++) {
		struct sl_leaving *l = &s->leave.ring[i % s->leave.max];

		if (l->chunk && l->chunk->region == r) {
			l->chunk->leaving--;
			l->chunk = NULL;
		}
	}
}
