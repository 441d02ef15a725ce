/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One chunk: its state, the lists derived from state and flags, and waiting for it.
 * sl_chunk_update() is the one place that derives readiness, heap, discarded list, host list, and what is alive.
 * Every function that changes a chunk calls it (sl_chunk_set_state() does). LOCKING: all of it
 * under space->lock.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "core/state/state.h"

void
sl_count(struct sluice_space *s, enum sluice_counter counter, uint64_t n)
{
	s->counter[counter] += n;
	if (__builtin_expect(s->events != NULL, 0))
		sl_event_count(s, counter, n);
}

static enum sl_readiness
chunk_readiness(const struct sl_chunk *c)
{
	if (c->state != SL_CHUNK_DEVICE || c->pages || (c->flags & SL_DISCARDED))
		return SL_READY_NOT;
	if ((c->flags & (SL_DIRTY_DEVICE | SL_GUARDED | SL_COLD)) != SL_DIRTY_DEVICE ||
	    (c->host && c->measured != SL_MEASURED_COPY) || c->dead)
		return SL_READY_READ;
	return SL_READY_WRITE;
}

void
sl_alive_count(struct sluice_space *s, uint64_t bytes)
{
	uint64_t before = atomic_load_explicit(&s->alive_bytes, memory_order_relaxed);

	atomic_store_explicit(&s->alive_bytes, before + bytes, memory_order_relaxed);
}

void
sl_chunk_update(struct sl_chunk *c)
{
	struct sl_region *r = c->region;
	enum sl_readiness readiness = chunk_readiness(c);
	int discarded = c->state == SL_CHUNK_DEVICE && !c->user_pins &&
			(c->flags & SL_DISCARDED);
	int may_heap = c->state == SL_CHUNK_DEVICE && !c->user_pins;
	int in_list = c->prev || c->next || r->space->dev.discarded_head == c;
	int alive = c->state != SL_CHUNK_EMPTY && !(c->flags & SL_DISCARDED);

	if (alive != c->alive) {
		sl_alive_count(r->space, alive ? r->chunk_bytes : -r->chunk_bytes);
		c->alive = (uint16_t)(alive & 1);
	}
	if (readiness != c->readiness) {
		r->ready[c->readiness]--;
		r->ready[readiness]++;
		c->readiness = (uint8_t)readiness;
	}
	if (!may_heap && c->heap_slot != SL_HEAP_NONE)
		sl_lru_remove(c);
	else if (may_heap && !discarded && c->heap_slot == SL_HEAP_NONE)
		sl_lru_insert(c);
	else if (may_heap && !discarded && in_list)
		sl_lru_refresh(c); /* revived: the heap kept it and has not looked since */
	if (discarded && !in_list)
		sl_discarded_insert(c);
	else if (!discarded && in_list)
		sl_discarded_remove(c);
	if (c->host)
		sl_host_list_update(c);
}

/*
 * A fault of ours. A build with SL_LOCK_CHECK stops here. A release build must not end the program: the
 * chunk keeps its state, its region reports the error at the next sync, and sluice_space_check()
 * reports it from now on.
 */
SL_HELD static void
chunk_refuse_move(struct sl_chunk *c, enum sl_chunk_state state)
{
	char text[SL_ERROR_TEXT_BYTES];

	snprintf(text, sizeof(text), "chunk %llu of %s: illegal move %s -> %s",
		 (unsigned long long)sl_chunk_index(c), c->region->name,
		 sl_chunk_state_name(c->state), sl_chunk_state_name(state));
#ifdef SL_LOCK_CHECK
	fprintf(stderr, "sluice: %s\n", text);
	abort();
#else
	if (!c->region->space->broken_text[0]) {
		memcpy(c->region->space->broken_text, text, sizeof(text));
		sl_log_once("chunk.move", SL_ERROR, "chunk",
			    "%s: refused; this is a bug of Sluice, please report it: the "
			    "contents of this region are in doubt",
			    text);
	}
	sl_region_write_error(c->region, -EIO, text);
#endif
}

void
sl_chunk_set_state(struct sl_chunk *c, enum sl_chunk_state state)
{
	if (!sl_chunk_move_legal(c->state, state)) {
		chunk_refuse_move(c, state);
		return;
	}
	c->state = (uint8_t)state;
	sl_chunk_update(c);
	sl_chunk_wake(c);
}

int
sl_chunk_lost(const struct sl_chunk *c)
{
	if (!(c->flags & SL_LOST) || sl_overwrite_is_pending(c))
		return 0;
	return sl_fail(
		-EIO,
		"chunk %llu of %s: its contents are lost, with a device that failed or "
		"by a launch that was to overwrite them and did not run: overwrite "
		"all of it, or discard it",
		(unsigned long long)sl_chunk_index(c), c->region->name);
}

static unsigned
chunk_bucket(const struct sl_chunk *c)
{
	/* Not by where malloc put c: who wakes whom in vain should repeat as well. */
	return (unsigned)((uintptr_t)sl_chunk_addr(c) / SL_GRANULE_BYTES % SL_WAIT_BUCKETS);
}

void
sl_chunk_wake(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	unsigned bucket = chunk_bucket(c);

	if (s->chunk_waiters[bucket])
		sl_cond_broadcast(&s->chunk_wake[bucket]);
}

/* What a thread waits for that waits for c. */
static enum sl_wait_reason
chunk_wait_reason(const struct sl_chunk *c)
{
	switch ((enum sl_chunk_state)c->state) {
	case SL_CHUNK_READING:
		return SL_WAIT_READ;
	case SL_CHUNK_WRITING:
		return SL_WAIT_WRITE;
	case SL_CHUNK_FILLING:
		return SL_WAIT_IN;
	case SL_CHUNK_EVICTING:
		return SL_WAIT_OUT;
	case SL_CHUNK_EMPTY:
	case SL_CHUNK_STORE:
	case SL_CHUNK_HOST:
	case SL_CHUNK_POISONED:
	case SL_CHUNK_MAPPING:
	case SL_CHUNK_DEVICE:
	case SL_CHUNK_SYNCING:
	case SL_CHUNK_STATE_COUNT:
		break;
	}
	return SL_WAIT_CHUNK;
}

void
sl_chunk_wait(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	enum sl_wait_reason reason = chunk_wait_reason(c);
	unsigned bucket = chunk_bucket(c);
	uint64_t since = sl_event_now(s);

	s->chunk_waiters[bucket]++;
	sl_space_wait(s, &s->chunk_wake[bucket]);
	s->chunk_waiters[bucket]--;
	sl_event_waited(s, reason, since);
}

int
sl_chunk_wait_until(struct sl_chunk *c, uint64_t deadline_ns)
{
	struct sluice_space *s = c->region->space;
	enum sl_wait_reason reason = chunk_wait_reason(c);
	unsigned bucket = chunk_bucket(c);
	uint64_t since = sl_event_now(s);
	int rc;

	s->chunk_waiters[bucket]++;
	rc = sl_space_wait_until(s, &s->chunk_wake[bucket], deadline_ns);
	s->chunk_waiters[bucket]--;
	sl_event_waited(s, reason, since);
	return rc;
}

int
sl_chunk_is_held(const struct sl_chunk *c)
{
	return c->lifting || (c->pages && c->pages->n_filling);
}

void
sl_chunk_restamp(struct sl_chunk *c, uint64_t stamp)
{
	c->stamp = stamp;
	if (c->heap_slot != SL_HEAP_NONE)
		sl_lru_refresh(c);
}

void
sl_chunk_touch(struct sl_chunk *c)
{
	c->stamp = ++c->region->space->clock;
	c->awaited = 0;
	if (c->flags & SL_COLD) {
		c->flags &= (uint16_t)~SL_COLD;
		sl_chunk_update(c);
	}
}

void
sl_read_ahead_release(struct sl_chunk *c)
{
	if (!(c->flags & SL_READ_AHEAD))
		return;
	c->flags &= (uint16_t)~SL_READ_AHEAD;
	c->region->space->host.read_ahead_bytes -= c->region->chunk_bytes;
}

void
sl_chunk_revive(struct sl_chunk *c, uint64_t begin, uint64_t end)
{
	if (c->dead && end > begin) {
		size_t first = begin / SL_PAGE_BYTES;
		size_t last = (end + SL_PAGE_BYTES - 1) / SL_PAGE_BYTES;

		sl_bitmap_clear(c->dead, first, last - first);
		if (!sl_bitmap_count(c->dead, 0, c->region->chunk_bytes / SL_PAGE_BYTES)) {
			free(c->dead);
			c->dead = NULL;
		}
	}
	if (c->flags & SL_DISCARDED) /* else EAGER is about its other dead pages */
		c->flags &= (uint16_t) ~(SL_DISCARDED | SL_DISCARD_EAGER);
	sl_chunk_update(c);
}

void
sl_use_revive(const struct sl_launch_use *u, struct sl_chunk *c)
{
	uint64_t bytes = u->region->chunk_bytes, base = sl_chunk_index(c) * bytes;

	sl_chunk_revive(c, u->begin > base ? u->begin - base : 0,
			u->end - base < bytes ? u->end - base : bytes);
}

/*
 * The unmapping of an eager discard failed: a later write would not be seen, so the contents live
 * on. Copies outside the device are gone already. Held.
 */
void
sl_chunk_keep(struct sl_chunk *c)
{
	if (c->state != SL_CHUNK_DEVICE || !(c->flags & SL_DISCARDED))
		return;
	if (!c->pages)
		c->flags |= SL_DIRTY_DEVICE;
	c->unwritten = 0;
	sl_chunk_revive(c, 0, 0);
}
