/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves on request: advice, prefetch, evict, pin, residency, prefetch by index. They use the
 * same code as faults and launches (fill.c, evict.c, mover.c).
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "core/api/api.h"
#include "core/interpose.h"

#define SPARE_CHUNKS 4 /* of spare room that are left for what is new */

/* ---- advise ----------------------------------------------------------------------------- */

/* Change how a region is populated. It must be off the device while its delivery changes. */
SL_HELD static int
advise_population(struct sl_region *r, enum sluice_population population)
{
	struct sluice_space *s = r->space;
	enum sl_delivery delivery = s->config.faults == SLUICE_FAULTS_AUTO
					    ? population == SLUICE_POPULATE_PAGE
						      ? SL_DELIVER_SIGNAL
						      : SL_DELIVER_THREAD
					    : r->delivery;
	int rc = 0;

	if (population == r->population || !s->device->faults)
		return 0;
	rc = sl_range_wait(r, 0, r->size_bytes, "advise");
	if (rc)
		return rc;
	r->population = population;
	/* A region that nothing is present of changes the thread that serves its faults, too. */
	for (uint64_t i = 0; i < r->n_chunks && !rc; i++) {
		struct sl_chunk *c = &r->chunks[i];

		/* Pinned by a launch: one that came after the wait. */
		if (c->user_pins || sl_chunk_pins(c) || c->state == SL_CHUNK_SYNCING)
			return 0;
		if (c->state == SL_CHUNK_DEVICE)
			rc = sl_evict(c, SL_EVICT_REQUEST);
	}
	if (rc || delivery == r->delivery)
		return rc;
	for (uint64_t i = 0; i < r->n_chunks; i++) {
		enum sl_chunk_state state = r->chunks[i].state;

		if (state != SL_CHUNK_EMPTY && state != SL_CHUNK_STORE &&
		    state != SL_CHUNK_HOST)
			return 0; /* somebody was faster: faults stay where they are */
	}
	/* Nothing is present and the lock is held: touches wait in sl_touched() until it is done. */
	s->device->ops->detach(s->device, r->base, r->n_chunks * r->chunk_bytes);
	rc = s->device->ops->attach(s->device, r->base, r->n_chunks * r->chunk_bytes,
				    delivery);
	if (!rc)
		r->delivery = delivery;
	else if (s->device->ops->attach(s->device, r->base, r->n_chunks * r->chunk_bytes,
					r->delivery))
		return sl_fail_in(rc, "advise: %s can no longer be touched, unmap it",
				  r->name);
	return rc;
}

SL_HELD static void
advise_cold(struct sl_region *r, uint64_t begin, uint64_t end)
{
	for (uint64_t i = begin / r->chunk_bytes; i * r->chunk_bytes < end; i++) {
		struct sl_chunk *c = &r->chunks[i];

		if (c->heap_slot != SL_HEAP_NONE)
			sl_lru_remove(c);
		c->flags |= SL_COLD;
		sl_chunk_update(c);
	}
}

SL_HELD static int
prefetch_begin(struct sl_region *r, uint64_t begin, uint64_t end, enum sluice_tier tier)
{
	uint64_t first = begin / r->chunk_bytes, last = (end - 1) / r->chunk_bytes;
	uint64_t *chunks = sl_calloc(last - first + 1, sizeof(*chunks));

	if (!chunks)
		return sl_fail(-ENOMEM, "prefetch: out of memory");
	for (uint64_t i = first; i <= last; i++)
		chunks[i - first] = i;
	return sl_mover_prefetch(r, chunks, last - first + 1, tier, 0);
}

int
sluice_advise(struct sluice_space *space, void *addr, size_t size_bytes,
	      enum sluice_advice advice)
{
	struct sl_region *r;
	uint64_t begin, end;
	int rc;

	if ((unsigned)advice >= SLUICE_ADVISE_COUNT)
		return sl_fail(-EINVAL, "advise: unknown advice %d", (int)advice);
	rc = sl_space_enter(space);
	if (rc)
		return rc;
	rc = sl_region_find(space, "advise", addr, size_bytes, &r, &begin, &end);
	if (rc || begin == end)
		goto out;
	r->busy++;
	switch (advice) {
	case SLUICE_ADVISE_NORMAL:
	case SLUICE_ADVISE_SEQUENTIAL:
		r->advice = advice;
		if (advice == SLUICE_ADVISE_NORMAL)
			r->measure = 0;
		sl_read_ahead_reset(r);
		rc = advise_population(r, space->config.population);
		break;
	case SLUICE_ADVISE_RANDOM:
		r->advice = advice;
		rc = advise_population(r, SLUICE_POPULATE_PAGE);
		break;
	case SLUICE_ADVISE_WILL_NEED:
		rc = prefetch_begin(r, begin, end, SLUICE_TIER_HOST);
		break;
	case SLUICE_ADVISE_DONT_NEED:
		advise_cold(r, begin, end);
		break;
	case SLUICE_ADVISE_READ_MOSTLY:
		r->advice = advice;
		break;
	case SLUICE_ADVISE_MEASURE:
		r->measure = 1;
		sl_space_unlock(space);
		sl_dirty_hash_prepare(space);
		sl_space_lock(space);
		break;
	case SLUICE_ADVISE_COUNT:
		break;
	}
	sl_region_leave(r);
out:
	sl_space_unlock(space);
	return rc;
}

/* ---- prefetch and evict ----------------------------------------------------------------- */

/* A prefetch or evict that waits for its turn on a stream. */
struct move_task {
	struct sl_task task;
	struct sl_inflight work;
	struct sluice_stream *stream;
	struct sl_region *region;
	uint64_t begin, end;
	uint64_t *chunks; /* prefetch by index: owned */
	uint64_t n;
	enum sluice_tier tier;
	int evict;
};

/* Take the range out to the tier. Pinned chunks stay. Held, drops. */
SL_HELD static int
range_evict(struct sl_region *r, uint64_t begin, uint64_t end, enum sluice_tier tier)
{
	int rc = 0;

	for (uint64_t i = begin / r->chunk_bytes; i * r->chunk_bytes < end && !rc; i++) {
		struct sl_chunk *c = &r->chunks[i];

		while (!rc &&
		       (c->state == SL_CHUNK_FILLING || c->state == SL_CHUNK_EVICTING ||
			c->state == SL_CHUNK_MAPPING ||
			(tier != SLUICE_TIER_HOST &&
			 (c->hostmap || ((c->flags & SL_ZEROCOPY) && !c->reach_users))) ||
			c->state == SL_CHUNK_SYNCING || c->state == SL_CHUNK_READING ||
			(c->state == SL_CHUNK_DEVICE && !c->user_pins && !sl_chunk_pins(c)))) {
			if (c->state == SL_CHUNK_DEVICE)
				rc = sl_evict(c, SL_EVICT_REQUEST);
			else if ((c->flags & SL_ZEROCOPY) && c->state != SL_CHUNK_MAPPING)
				rc = sl_zerocopy_unmap(c);
			else if (c->hostmap && c->state != SL_CHUNK_MAPPING)
				rc = sl_hostmap_hide(c);
			else
				sl_chunk_wait(c);
		}
		if (rc || tier == SLUICE_TIER_HOST)
			continue;
		if (c->reach_users)
			continue; /* a launch uses it where it is */
		if ((c->state == SL_CHUNK_HOST && (c->flags & SL_DIRTY_HOST)) ||
		    c->state == SL_CHUNK_POISONED)
			rc = sl_write_begin(c, SL_IO_DEMAND,
					    sl_region_is_volatile(r)
						    ? SLUICE_COUNTER_STORE_WRITE_SPILL
						    : SLUICE_COUNTER_STORE_WRITE_BACK,
					    1);
	}
	if (tier == SLUICE_TIER_HOST)
		return rc;
	for (uint64_t i = begin / r->chunk_bytes; i * r->chunk_bytes < end; i++) {
		struct sl_chunk *c = &r->chunks[i];

		while (c->state == SL_CHUNK_WRITING)
			sl_chunk_wait(c);
		if (!rc && c->state == SL_CHUNK_POISONED) {
			rc = sl_fail(r->write_error ? r->write_error : -EIO, "%s",
				     r->write_error ? r->write_error_text
						    : "evict: a write failed");
			r->write_error = 0; /* reported now */
		}
		/* Shown to host code since the lock was dropped: it stays, as what a launch reaches. */
		if (c->state == SL_CHUNK_HOST && !c->hostmap &&
		    !(c->flags & (SL_DIRTY_HOST | SL_ZEROCOPY)))
			sl_host_let_go(c);
	}
	return rc;
}

static int
move_run(struct sl_task *task)
{
	struct move_task *t = (struct move_task *)task;
	struct sluice_space *s = t->region->space;
	int rc;

	sl_space_lock(s);
	if (t->evict) {
		rc = range_evict(t->region, t->begin, t->end, t->tier);
	} else if (t->chunks) {
		rc = sl_mover_prefetch(t->region, t->chunks, t->n, t->tier, 0);
		t->chunks = NULL;
	} else {
		rc = prefetch_begin(t->region, t->begin, t->end, t->tier);
	}
	sl_space_unlock(s);
	return rc;
}

static void
move_done(struct sl_task *task, int rc)
{
	struct move_task *t = (struct move_task *)task;
	struct sluice_space *s = t->region->space;

	(void)rc;
	sl_stream_task_done(t->stream);
	sl_space_lock(s);
	t->region->launches--;
	sl_inflight_end(s, &t->work);
	sl_region_leave(t->region);
	sl_launch_wake(s);
	sl_space_unlock(s);
	free(t->chunks);
	free(t);
}

/* Enqueue on a stream; takes chunks. Held, drops. */
SL_HELD static int
move_submit(struct sl_region *r, const struct move_task *what)
{
	struct move_task *t = sl_malloc(sizeof(*t));

	if (!t) {
		free(what->chunks);
		return sl_fail(-ENOMEM, "%s: out of memory",
			       what->evict ? "evict" : "prefetch");
	}
	*t = *what;
	t->task.run = move_run;
	t->task.at_turn = 1;
	t->task.done = move_done;
	t->region = r;
	r->launches++;
	sl_inflight_submit(r, &t->work, t->stream, &t->task);
	return 0;
}

/* It has contents, which are in host memory or the store, or on their way there. */
static int
is_elsewhere(const struct sl_chunk *c)
{
	return c->state != SL_CHUNK_EMPTY && c->state != SL_CHUNK_FILLING &&
	       !sl_chunk_on_device(c);
}

/* What of [first, last] is on the device is touched; how many chunks are elsewhere. */
SL_HELD static uint64_t
chunks_look(struct sl_region *r, uint64_t first, uint64_t last, int touch)
{
	uint64_t n = 0;

	for (uint64_t i = first; i <= last; i++) {
		struct sl_chunk *c = &r->chunks[i];

		if (touch && sl_chunk_on_device(c))
			sl_chunk_touch(c);
		n += is_elsewhere(c);
	}
	return n;
}

/* The first n chunks of [first, last] that are elsewhere, asked for. 0: out of memory. */
SL_HELD static int
chunks_ahead(struct sl_region *r, uint64_t first, uint64_t last, uint64_t n, int spare)
{
	uint64_t *chunks = sl_malloc(n * sizeof(*chunks));
	uint64_t found = 0;

	if (!chunks)
		return 0;
	for (uint64_t i = first; i <= last && found < n; i++) {
		if (is_elsewhere(&r->chunks[i]))
			chunks[found++] = i;
	}
	return sl_mover_prefetch(r, chunks, n, SLUICE_TIER_DEVICE, spare) == 0;
}

/* For how many of n chunks there is spare room beside so many bytes. Some are only told where nobody
 * has asked before: those may be of the n, which are not on the device yet. */
SL_HELD static uint64_t
chunks_spare(const struct sl_region *r, uint64_t n, uint64_t leave)
{
	const struct sluice_space *s = r->space;
	uint64_t beside = s->dev.spare_bytes + leave + SPARE_CHUNKS * r->chunk_bytes;
	uint64_t taken;

	if (sl_room_spare(s, beside + n * r->chunk_bytes))
		return n;
	if (s->dev.spare_bytes)
		return 0;
	taken = beside + sl_room_alive(s, 0);
	return taken < s->dev.budget_bytes ? (s->dev.budget_bytes - taken) / r->chunk_bytes
					   : 0;
}

/* As sl_ahead(), of n chunks of [first, last] that are elsewhere. */
SL_HELD static int
spare_ahead(struct sl_region *r, uint64_t first, uint64_t last, uint64_t n, uint64_t leave)
{
	uint64_t spare = n ? chunks_spare(r, n, leave) : 0;

	r->space->dev.spare_wanted = spare < n;
	if (spare && !chunks_ahead(r, first, last, spare, 1))
		return 0;
	return spare == n ? n != 0 : spare ? -EAGAIN : -ENOBUFS;
}

int
sl_ahead(struct sluice_space *s, void *addr, size_t bytes, int spare, uint64_t leave)
{
	struct sl_region *r;
	uint64_t begin, end;
	int rc = 0;

	if (sl_space_enter(s))
		return 0;
	if (spare)
		(void)sl_scopes_drain(s);
	if (bytes && !sl_thrash_is_on(s) &&
	    !sl_region_find(s, "prefetch", addr, bytes, &r, &begin, &end)) {
		uint64_t first = begin >> r->chunk_shift, last = (end - 1) >> r->chunk_shift;
		uint64_t n = chunks_look(r, first, last, !spare);

		if (spare)
			rc = spare_ahead(r, first, last, n, leave);
		else if (n)
			rc = chunks_ahead(r, first, last, n, 0);
	}
	sl_space_unlock(s);
	return rc;
}

int
sluice_prefetch(struct sluice_space *space, const void *addr, size_t size_bytes,
		enum sluice_tier tier, struct sluice_stream *stream)
{
	struct move_task what = {.stream = stream, .tier = tier};
	struct sl_region *r;
	int rc;

	if (tier != SLUICE_TIER_DEVICE && tier != SLUICE_TIER_HOST)
		return sl_fail(-EINVAL,
			       "prefetch: to the device or to the host, not to tier %d",
			       (int)tier);
	rc = sl_stream_check(space, stream);
	if (rc)
		return rc;
	rc = sl_space_enter(space);
	if (rc)
		return rc;
	rc = sl_region_find(space, "prefetch", addr, size_bytes, &r, &what.begin, &what.end);
	if (!rc && what.begin < what.end)
		rc = stream ? move_submit(r, &what)
			    : prefetch_begin(r, what.begin, what.end, tier);
	sl_space_unlock(space);
	return rc;
}

static int
index_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Chunks that n elements touch, sorted and each once, into chunks (room for 2 n). */
static int
index_chunks(const struct sl_region *r, uint64_t begin, size_t element,
	     const uint64_t *index, size_t n, uint64_t *chunks, uint64_t *n_out)
{
	uint64_t left = r->size_bytes - begin, m = 0, unique = 0;

	for (size_t i = 0; i < n; i++) {
		uint64_t from;

		if (index[i] >= left / element)
			return sl_fail(
				-EINVAL,
				"prefetch_index: index %llu (number %zu) lies beyond the "
				"%llu elements of %s",
				(unsigned long long)index[i], i,
				(unsigned long long)(left / element), r->name);
		from = begin + index[i] * element;
		chunks[m++] = from / r->chunk_bytes;
		chunks[m++] = (from + element - 1) / r->chunk_bytes;
	}
	qsort(chunks, m, sizeof(*chunks), index_compare);
	for (uint64_t i = 0; i < m; i++) {
		/* an element may be larger than a chunk: its inner chunks follow its first */
		if (!unique || chunks[unique - 1] != chunks[i])
			chunks[unique++] = chunks[i];
	}
	*n_out = unique;
	return 0;
}

int
sluice_prefetch_index(struct sluice_space *space, const void *base, size_t element_bytes,
		      const uint64_t *index, size_t n, enum sluice_tier tier,
		      struct sluice_stream *stream)
{
	struct move_task what = {.stream = stream, .tier = tier};
	struct sl_region *r;
	int rc;

	if (!element_bytes || (n && !index) || n > SIZE_MAX / 2 / sizeof(uint64_t))
		return sl_fail(-EINVAL,
			       "prefetch_index: element size 0 or no indices given");
	if (element_bytes > SL_GRANULE_BYTES)
		return sl_fail(
			-EINVAL,
			"prefetch_index: elements of %zu bytes: at most 2 MiB; prefetch "
			"larger ones as ranges",
			element_bytes);
	if (tier != SLUICE_TIER_DEVICE && tier != SLUICE_TIER_HOST)
		return sl_fail(-EINVAL, "prefetch_index: to the device or to the host, not to tier %d",
			       (int)tier);
	rc = sl_stream_check(space, stream);
	if (rc || !n)
		return rc;
	what.chunks = sl_calloc(2 * n, sizeof(*what.chunks));
	if (!what.chunks)
		return sl_fail(-ENOMEM, "prefetch_index: out of memory for %zu indices", n);
	rc = sl_space_enter(space);
	if (rc) {
		free(what.chunks);
		return rc;
	}
	rc = sl_region_find(space, "prefetch_index", base, SLUICE_TO_END, &r, &what.begin,
			    &what.end);
	if (!rc) { /* the caller's indices are read without the lock: the region is held */
		r->busy++;
		sl_space_unlock(space);
		rc = index_chunks(r, what.begin, element_bytes, index, n, what.chunks,
				  &what.n);
		sl_space_lock(space);
		sl_region_leave(r);
	}
	if (rc)
		free(what.chunks);
	else if (stream)
		rc = move_submit(r, &what);
	else
		rc = sl_mover_prefetch(r, what.chunks, what.n, tier, 0);
	sl_space_unlock(space);
	return rc;
}

int
sluice_evict(struct sluice_space *space, const void *addr, size_t size_bytes,
	     enum sluice_tier tier, struct sluice_stream *stream)
{
	struct move_task what = {.stream = stream, .tier = tier, .evict = 1};
	struct sl_region *r;
	int rc;

	if (tier != SLUICE_TIER_HOST && tier != SLUICE_TIER_STORE)
		return sl_fail(-EINVAL, "evict: to the host or to the store, not to tier %d",
			       (int)tier);
	rc = sl_stream_check(space, stream);
	if (rc)
		return rc;
	rc = sl_space_enter(space);
	if (rc)
		return rc;
	rc = sl_region_find(space, "evict", addr, size_bytes, &r, &what.begin, &what.end);
	if (rc || what.begin == what.end)
		goto out;
	if (stream) {
		rc = move_submit(r, &what);
		goto out;
	}
	r->busy++;
	rc = sl_range_wait(r, what.begin, what.end, "evict");
	if (!rc)
		rc = range_evict(r, what.begin, what.end, tier);
	sl_region_leave(r);
out:
	sl_space_unlock(space);
	return rc;
}

/* ---- pin -------------------------------------------------------------------------------- */

SL_HELD static void
chunk_unpin(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	if (--c->user_pins)
		return;
	s->dev.pinned_bytes -= c->region->chunk_bytes;
	sl_chunk_update(c);
	sl_launch_wake(s);
}

/* Bring c in and pin it. Held, drops. */
SL_HELD static int
chunk_pin(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	uint64_t bytes = c->region->chunk_bytes;
	struct sl_fill fill = {.cause = SL_CAUSE_PREFETCH, .room = SL_ROOM_PIN};
	int rc;

	if (c->user_pins == UINT16_MAX)
		return sl_fail(-EBUSY, "pin: a chunk is pinned %u times already", UINT16_MAX);
	if (!c->user_pins && s->dev.pinned_bytes + 3 * bytes > s->dev.budget_bytes)
		return sl_fail(
			-ENOBUFS,
			"pin: %llu bytes are pinned and two chunks of the device budget "
			"(%llu) must stay free: pin less or raise the budget",
			(unsigned long long)s->dev.pinned_bytes,
			(unsigned long long)s->dev.budget_bytes);
	/* What is pinned may be written at any time: unknown is never clean. */
	fill.intent = sl_policy_intent(s->policy, c->region->flags,
				       sl_region_is_writable(c->region) ? SLUICE_USE_READ_WRITE
									: SLUICE_USE_READ);
	c->region->pin_touches = sl_touch_count();
	if (!c->user_pins++)
		s->dev.pinned_bytes += bytes; /* before it is in: others must not count on the room */
	c->hashed = 0;
	if (c->dead) /* what is written while it is pinned counts */
		sl_chunk_revive(c, 0, c->region->chunk_bytes);
	sl_chunk_update(c);
	sl_chunk_touch(c);
	rc = sl_fill(c, &fill);
	if (rc)
		chunk_unpin(c);
	return rc;
}

int
sluice_pin(struct sluice_space *space, const void *addr, size_t size_bytes)
{
	struct sl_region *r;
	uint64_t begin, end, i;
	int rc = sl_space_enter(space);

	if (rc)
		return rc;
	do /* it may wait, and the region be another one then */
		rc = sl_region_find(space, "pin", addr, size_bytes, &r, &begin, &end);
	while (!rc && begin != end &&
	       sl_gate_pass_pin(space, sl_round_up(end, r->chunk_bytes) -
					       begin / r->chunk_bytes * r->chunk_bytes +
					       2 * r->chunk_bytes));
	if (rc || begin == end)
		goto out;
	r->busy++;
	for (i = begin / r->chunk_bytes; i * r->chunk_bytes < end && !rc; i++)
		rc = chunk_pin(&r->chunks[i]);
	if (rc)
		i--; /* the last one tried is not pinned */
	else
		rc = sl_range_await(r, begin, end); /* whoever uses it now is not held back */
	while (rc && i-- > begin / r->chunk_bytes)
		chunk_unpin(&r->chunks[i]);
	sl_region_leave(r);
out:
	sl_space_unlock(space);
	return rc;
}

int
sluice_unpin(struct sluice_space *space, const void *addr, size_t size_bytes)
{
	struct sl_region *r;
	uint64_t begin, end, i;
	int rc = sl_space_enter(space);

	if (rc)
		return rc;
	rc = sl_region_find(space, "unpin", addr, size_bytes, &r, &begin, &end);
	if (rc || begin == end)
		goto out;
	for (i = begin / r->chunk_bytes; i * r->chunk_bytes < end && !rc; i++) {
		if (!r->chunks[i].user_pins)
			rc = sl_fail(-EINVAL, "unpin: %p is not pinned",
				     (void *)(r->base + i * r->chunk_bytes));
	}
	for (i = begin / r->chunk_bytes; i * r->chunk_bytes < end && !rc; i++)
		chunk_unpin(&r->chunks[i]);
out:
	sl_space_unlock(space);
	return rc;
}

/* ---- residency -------------------------------------------------------------------------- */

/* What is below the device of c, which may have nothing there. */
static void
residency_add_below(const struct sl_chunk *c, uint64_t bytes, struct sluice_residency *out)
{
	if (c->host)
		out->tier_bytes[SLUICE_TIER_HOST] += bytes;
	else if (c->flags & SL_STORE_VALID)
		out->tier_bytes[SLUICE_TIER_STORE] += bytes;
	else
		out->empty_bytes += bytes;
}

/* DEVICE, SYNCING, EVICTING, by pages: how many of its bytes are dirty there. */
static uint64_t
residency_add_pages(const struct sl_chunk *c, uint64_t from, uint64_t to,
		    struct sluice_residency *out)
{
	size_t first = from / SL_PAGE_BYTES;
	size_t n = (to + SL_PAGE_BYTES - 1) / SL_PAGE_BYTES - first;
	uint64_t bytes = to - from;
	uint64_t device = sl_bitmap_count(c->pages->present, first, n) * SL_PAGE_BYTES;

	if (device > bytes)
		device = bytes;
	out->tier_bytes[SLUICE_TIER_DEVICE] += device;
	residency_add_below(c, bytes - device, out);
	return sl_bitmap_count(c->pages->dirty, first, n) * SL_PAGE_BYTES;
}

SL_HELD static void
residency_add(const struct sl_chunk *c, uint64_t from, uint64_t to,
	      struct sluice_residency *out)
{
	uint64_t bytes = to - from, dirty = 0;

	if (c->user_pins)
		out->pinned_bytes += bytes;
	if ((sl_chunk_in_flight(c) && c->state != SL_CHUNK_MAPPING) ||
	    (c->state == SL_CHUNK_DEVICE && !sl_chunk_is_ready(c)))
		out->in_flight_bytes += bytes;
	if (c->state == SL_CHUNK_STORE || c->state == SL_CHUNK_READING) {
		out->tier_bytes[SLUICE_TIER_STORE] += bytes;
		return;
	}
	if (c->state == SL_CHUNK_EMPTY || c->state == SL_CHUNK_FILLING) {
		residency_add_below(c, bytes, out);
		return;
	}
	if (!sl_chunk_on_device(c) && c->state != SL_CHUNK_EVICTING)
		out->tier_bytes[SLUICE_TIER_HOST] += bytes;
	else if (c->pages)
		dirty = residency_add_pages(c, from, to, out);
	else
		out->tier_bytes[SLUICE_TIER_DEVICE] += bytes;
	if (dirty > bytes || (c->flags & (SL_DIRTY_DEVICE | SL_DIRTY_HOST)))
		dirty = bytes;
	out->dirty_bytes += dirty;
}

void
sl_region_residency(const struct sl_region *r, uint64_t begin, uint64_t end,
		    struct sluice_residency *out)
{
	memset(out, 0, sizeof(*out));
	for (uint64_t i = begin / r->chunk_bytes; i * r->chunk_bytes < end; i++) {
		uint64_t base = i * r->chunk_bytes;

		residency_add(&r->chunks[i], begin > base ? begin - base : 0,
			      end - base < r->chunk_bytes ? end - base : r->chunk_bytes,
			      out);
	}
}

int
sluice_residency(struct sluice_space *space, const void *addr, size_t size_bytes,
		 struct sluice_residency *out)
{
	struct sl_region *r;
	uint64_t begin, end;
	int rc = sl_space_enter(space);

	if (rc)
		return rc;
	rc = sl_region_find(space, "residency", addr, size_bytes, &r, &begin, &end);
	if (!rc && begin == end) {
		memset(out, 0, sizeof(*out));
	} else if (!rc) {
		sl_range_ask_ready(r, begin, end);
		sl_region_residency(r, begin, end, out);
	}
	sl_space_unlock(space);
	return rc;
}

static int
chunk_is_mapped(const struct sl_chunk *c)
{
	return sl_chunk_on_device(c) || (c->flags & SL_ZEROCOPY);
}

int
sl_unmapped(struct sluice_space *space, const void *addr, size_t bytes, uint64_t *out)
{
	uint64_t begin, end, chunk, unmapped = 0;
	struct sl_region *r;
	int rc = sl_space_enter(space);

	if (rc)
		return rc;
	rc = sl_region_find(space, "unmapped", addr, bytes, &r, &begin, &end);
	for (uint64_t at = begin; !rc && at < end; at = (at / chunk + 1) * chunk) {
		chunk = r->chunk_bytes;
		if (!chunk_is_mapped(&r->chunks[at / chunk]))
			unmapped += (end < (at / chunk + 1) * chunk
					     ? end
					     : (at / chunk + 1) * chunk) -
				    at;
	}
	sl_space_unlock(space);
	if (!rc)
		*out = unmapped;
	return rc;
}

void
sl_encode_more(struct sluice_space *s, int more)
{
	if (sl_space_enter(s))
		return;
	s->encoder.more = more;
	sl_space_unlock(s);
}

int
sl_encode_may_more(const struct sluice_space *s)
{
	return atomic_load_explicit(&s->encoder.may_more, memory_order_relaxed);
}
