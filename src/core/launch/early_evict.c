/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Early eviction. The preload library names chunks that will be victims soon (interpose.h). They
 * are evicted as soon as the launches that use them have ended: the copies out use an idle link,
 * and there is room before it is needed.
 *
 * state/early_queue.c holds the chunks in the order of the requests. A chunk that is in use delays
 * only chunks far behind it. A chunk that is used again stays. The mover evicts the others, once
 * those that need a hash are hashed (dirty_hash.c); it does not wait for that.
 *
 * LOCKING: all of it under space->lock; step drops.
 */
#include "core/interpose.h"
#include "core/launch/launch.h"

#define MEASURED_AHEAD 8u
#define LOOK_MAX       32u /* chunks of the queue, for hashes */

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
		     i <= (end - 1) >> r->chunk_shift; i++) {
			if (sl_early_queue_add(&r->chunks[i]))
				atomic_store(&s->early_evict.waiting, 1);
		}
		sl_cond_signal(&s->mover_wake);
	}
	sl_space_unlock(s);
}

void
sl_early_evict_await(struct sluice_space *s, int await)
{
	if (sl_space_enter(s))
		return;
	s->early_evict.await = await;
	sl_space_unlock(s);
}

/* The first that can go now. */
SL_HELD static struct sl_victim
victim_due(struct sluice_space *s)
{
	const struct sl_victim_request request = {.mode = SL_ROOM_EARLY,
						  .not_now = sl_dirty_hash_is_pending};

	if (!sl_early_queue_trim(s))
		atomic_store(&s->early_evict.waiting, 0);
	return sl_victim_pick(s, &request);
}

int
sl_early_evict_is_due(struct sluice_space *s)
{
	return sl_early_evict_is_pending(s) && victim_due(s).chunk;
}

/* Have those that come first hashed before their turn. Drops. */
SL_HELD static void
queue_measure(struct sluice_space *s)
{
	uint32_t i = s->early_evict.tail, looked = 0;

	for (unsigned begun = 0; begun < MEASURED_AHEAD && looked < LOOK_MAX; i++) {
		struct sl_chunk *c;

		/* The lock was dropped: what was before the tail is not in the ring any more. */
		if ((int32_t)(i - s->early_evict.tail) < 0)
			i = s->early_evict.tail;
		if (i == s->early_evict.head)
			return;
		c = sl_early_queue_at(s, i);
		looked += c != NULL;
		begun += c && (sl_dirty_hash_is_pending(c) || sl_dirty_hash_begin(c));
	}
}

void
sl_early_evict_step(struct sluice_space *s)
{
	struct sl_victim v;

	queue_measure(s);
	v = victim_due(s);
	if (!v.chunk)
		return;
	sl_early_queue_take(v.chunk);
	sl_ignore(sl_evict_victim(&v)); /* a favour: who needs the room will see */
	v.chunk->leaving--;
	s->early_evict.late = 0;
}
