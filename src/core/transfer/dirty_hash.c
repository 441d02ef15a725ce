/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dirty detection by hashes, for chunks of which a launch says "read and written" or nothing. The
 * device hashes a chunk before it would be copied out. The *base* is the copy that is not on the
 * device (host frame or store). If the base still exists and has the same hash, nothing is copied.
 *   - The hash of what is copied out is kept with the chunk, so an eviction costs one hash and a
 *     fetch none.
 *   - measure=1 also hashes what comes in while the hash of its base is unknown.
 *   - measure=auto skips a chunk that was found changed for its next 1, 2, 4 .. SKIP_MAX
 *     evictions. Of others it hashes what comes in where kernels could write the base, zero-copy.
 *
 * Unknown is never clean. Whoever changes a base calls sl_dirty_hash_forget(): host writes,
 * kernels that write the frame, discards, snapshots, a file that is read anew. A hash of the
 * device's contents holds until a launch pins the chunk (chunk->hashed, region->full_pins) or it
 * is evicted.
 *
 * Nobody waits long for a hash:
 *   - An eviction for room also hashes the next victims, and the chunks to be evicted early
 *     (early_evict.c).
 *   - The first hash of a burst is waited for, SL_HASH_WAIT_NS at most: it needs room among the
 *     program's kernels. While one is late nothing is hashed, and everything is copied.
 *   - Kernels that fill the device and wait for the host (fetch.c) could deadlock with a hash.
 *     Nothing is hashed while such may run.
 *
 * LOCKING: as in state.h; the device is called without the lock, while the chunk is in a state that
 * keeps others off it, or held (chunk->lifting). Hashes end on a thread of the device.
 */
#include <string.h>

#include "base/log.h"
#include "core/timeouts.h"
#include "core/transfer/transfer.h"

#define AHEAD    8u /* victims hashed before their turn, at most */
#define SKIP_MAX 64u

/* What is under way for a chunk: one hash at most. */
enum hash_job {
	JOB_NONE,
	JOB_ARRIVAL, /* of what arrived: the base's */
	JOB_NOW,     /* of what the device has */
	JOB_VOID     /* of something that is no more */
};

/* Of one chunk. */
struct sl_hashes {
	uint64_t base[2];
	uint64_t now[2];
	uint64_t full_pins; /* the region's, when now was begun */
	uint8_t base_known, now_known;
	uint8_t reached; /* the base was known, until kernels could write it in host memory */
	uint8_t job;     /* enum hash_job */
	uint8_t late; /* the job was waited for in vain: counted in measure.late */
	uint8_t skip; /* evictions that are not worth a hash, from here on */
	uint8_t step; /* as many after the next that finds a change; 0: 1 */
};

/* NULL: nothing is known. */
static struct sl_hashes *
hashes_of(const struct sl_chunk *c)
{
	return c->region->hashes ? &c->region->hashes[sl_chunk_index(c)] : NULL;
}

/* The same, made where there are none yet. NULL: out of memory. */
static struct sl_hashes *
hashes_get(struct sl_chunk *c)
{
	struct sl_region *r = c->region;

	if (!r->hashes)
		r->hashes = sl_calloc(r->n_chunks, sizeof(*r->hashes));
	return hashes_of(c);
}

/* Hashes of this chunk are worth it whatever was found before. */
static int
is_always(const struct sl_chunk *c)
{
	return c->region->measure ||
	       c->region->space->config.measure == SLUICE_MEASURE_ALWAYS;
}

static int
may_hash(const struct sluice_space *s)
{
	return s->measure.ready && !s->own_stops && !s->measure.late;
}

int
sl_dirty_hash_wanted(const struct sl_chunk *c, enum sluice_intent intent)
{
	const struct sl_region *r = c->region;
	const struct sluice_space *s = r->space;

	return intent == SLUICE_USE_READ_WRITE && (s->config.measure || r->measure) &&
	       s->measure.ready && !s->own_stops && s->policy->honour_flags &&
	       sl_region_is_writable(r) && !c->pages;
}

enum sl_dirty_hash_state
sl_dirty_hash_against(const struct sl_chunk *c, enum sluice_intent intent)
{
	const struct sl_hashes *h = hashes_of(c);
	const struct sl_region *r = c->region;

	if (!sl_dirty_hash_wanted(c, intent))
		return SL_MEASURED_NOT;
	if (c->host || (c->state == SL_CHUNK_DEVICE && sl_store_is_newest(c)))
		return is_always(c) || (h && (h->base_known || (h->reached && !h->skip)))
			       ? SL_MEASURED_COPY
			       : SL_MEASURED_LEARN;
	/* A file may have what is not zeros behind these. */
	return is_always(c) && c->state == SL_CHUNK_FILLING && !r->store &&
			       !(r->flags & SL_REGION_UNDEFINED)
		       ? SL_MEASURED_ZERO
		       : SL_MEASURED_LEARN;
}

/* Whether a copy that is not on the device has the contents whose hash is the base's. */
static int
base_is_there(const struct sl_chunk *c, const struct sl_hashes *h)
{
	if (!h->base_known)
		return 0;
	switch ((enum sl_dirty_hash_state)c->measured) {
	case SL_MEASURED_NOT:
	case SL_MEASURED_LEARN:
		return 0;
	case SL_MEASURED_COPY:
		return c->host || sl_store_is_newest(c);
	case SL_MEASURED_ZERO: /* equal to zeros now, whatever happened to it */
		return !c->host && !(c->flags & SL_STORE_VALID);
	case SL_MEASURED_COUNT:
		break;
	}
	return 0;
}

/* The hash taken last, or under way, is one of what the device has now. */
static int
now_holds(const struct sl_chunk *c, const struct sl_hashes *h)
{
	return c->hashed && h->full_pins == c->region->full_pins &&
	       (h->now_known || h->job == JOB_NOW);
}

static void
job_end(struct sluice_space *s, struct sl_hashes *h)
{
	s->measure.late -= h->late;
	h->late = 0;
	h->job = JOB_NONE;
	s->measure.running--;
}

static void
hash_failed(void)
{
	sl_log_once("measure", SL_WARN, "measure",
		    "%s: what may have been written is copied out", sluice_last_error());
}

/* On a thread of the device. */
static void
hash_done(void *cookie, int rc, const uint64_t sums[2])
{
	struct sl_chunk *c = cookie;
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	struct sl_hashes *h;

	if (rc)
		hash_failed();
	sl_space_lock(s);
	h = &r->hashes[sl_chunk_index(c)]; /* since its job was begun */
	if (!rc && h->job == JOB_ARRIVAL) {
		memcpy(h->base, sums, sizeof(h->base));
		h->base_known = 1;
	} else if (!rc && h->job == JOB_NOW) {
		memcpy(h->now, sums, sizeof(h->now));
		h->now_known = 1;
	}
	job_end(s, h);
	sl_chunk_wake(c);
	if (c->leaving)
		sl_cond_signal(&s->mover_wake);
	if (s->own_stops)
		sl_launch_wake(s);
	sl_region_leave(r);
	sl_space_unlock(s);
}

/* The caller owns c (FILLING, SYNCING, EVICTING) or holds it, and no hash of it is under way. Drops. */
SL_HELD static int
hash_start(struct sl_chunk *c, struct sl_hashes *h, enum hash_job job)
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;
	int rc;

	h->job = (uint8_t)job;
	if (job == JOB_NOW) {
		h->now_known = 0;
		h->full_pins = r->full_pins;
		c->hashed = 1;
	}
	s->measure.running++;
	r->busy++;
	sl_space_unlock(s);
	rc = s->device->hash->start(s->device, sl_chunk_addr(c), r->chunk_bytes,
				    job == JOB_ARRIVAL ? SL_HASH_ARRIVED : SL_HASH_NOW,
				    hash_done, c);
	if (rc && rc != -EBUSY) /* too many at once: this one counts as written */
		hash_failed();
	sl_space_lock(s);
	if (!rc) { /* counted where it is decided, so that counters repeat */
		sl_count(s, SLUICE_COUNTER_HASHES, 1);
		return 0;
	}
	job_end(s, h);
	if (s->own_stops)
		sl_launch_wake(s);
	sl_region_leave(r);
	return rc;
}

/* Until no hash of c, which the caller owns, is under way. 0: none is. Drops. */
SL_HELD static int
hash_wait(struct sl_chunk *c, struct sl_hashes *h)
{
	struct sluice_space *s = c->region->space;
	uint64_t deadline = sl_now_ns() + SL_HASH_WAIT_NS;

	while (h->job && !h->late) {
		if (sl_chunk_wait_until(c, deadline) == -ETIMEDOUT && h->job && !h->late) {
			h->late = 1;
			s->measure.late++;
		}
	}
	return h->job ? -ETIMEDOUT : 0;
}

void
sl_dirty_hash_arrived(struct sl_chunk *c, enum sl_dirty_hash_state base)
{
	struct sluice_space *s = c->region->space;
	struct sl_hashes *h;

	c->measured = (uint8_t)base;
	if (base != SL_MEASURED_COPY && base != SL_MEASURED_ZERO)
		return;
	h = hashes_get(c);
	if (h && h->base_known && base == SL_MEASURED_COPY)
		return;
	sl_dirty_hash_forget(c);
	if (!h || h->job || !may_hash(s) || hash_start(c, h, JOB_ARRIVAL))
		c->measured = SL_MEASURED_LEARN;
	else
		c->ready_at = sl_fence_newest(s->device, SL_COPIES_IN);
}

/* A hash of what the device has of c, if it has to be copied out, would tell something, or be of use. */
static int
is_worth_it(const struct sl_chunk *c)
{
	const struct sl_hashes *h = hashes_of(c);

	return c->measured &&
	       (c->flags & (SL_DIRTY_DEVICE | SL_DISCARDED)) == SL_DIRTY_DEVICE &&
	       !c->user_pins &&
	       !(h && (h->job || now_holds(c, h) || (h->skip && !is_always(c))));
}

int
sl_dirty_hash_begin(struct sl_chunk *c)
{
	struct sl_hashes *h;
	int rc;

	if (!may_hash(c->region->space) || c->state != SL_CHUNK_DEVICE || sl_chunk_pins(c) ||
	    sl_chunk_is_held(c) || (c->flags & SL_PREPARING) || !is_worth_it(c))
		return 0;
	h = hashes_get(c);
	if (!h)
		return 0;
	c->lifting++;
	rc = hash_start(c, h, JOB_NOW);
	if (rc) /* not again for this eviction */
		c->measured = SL_MEASURED_NOT;
	if (!--c->lifting)
		sl_chunk_wake(c);
	return !rc;
}

int
sl_dirty_hash_is_pending(const struct sl_chunk *c)
{
	const struct sl_hashes *h = hashes_of(c);

	return h && h->job == JOB_NOW && now_holds(c, h) && !h->late;
}

void
sl_dirty_hash_ahead(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	struct sl_hashes *h;

	if (!may_hash(s))
		return;
	h = is_worth_it(c) ? hashes_get(c) : NULL;
	if (h && hash_start(c, h, JOB_NOW))
		return;
	for (unsigned started = 0; started < AHEAD; started++) {
		struct sl_chunk *next[AHEAD];
		uint32_t n = sl_lru_next(c, next, AHEAD), i = 0;

		/* It may drop: what follows in next may be gone then. */
		while (i < n && !sl_dirty_hash_begin(next[i]))
			i++;
		if (i == n)
			return;
	}
}

/* What the comparison says about the next ones. */
static void
hash_learn(struct sl_hashes *h, int same)
{
	if (same) {
		h->skip = h->step = 0;
		return;
	}
	h->skip = h->step ? h->step : 1;
	h->step = h->skip < SKIP_MAX ? 2 * h->skip : SKIP_MAX;
}

/* What is not known to be unchanged is copied: 0. */
SL_HELD static int
late_count(struct sluice_space *s)
{
	sl_count(s, SLUICE_COUNTER_HASHES_LATE, 1);
	return 0;
}

int
sl_dirty_hash_unchanged(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	struct sl_hashes *h;
	int same;

	if (!c->measured || !s->measure.ready)
		return 0;
	h = hashes_get(c);
	if (!h)
		return 0;
	if (h->skip && !is_always(c)) {
		h->skip--;
		return 0;
	}
	if (hash_wait(c, h))
		return late_count(s);
	if (!now_holds(c, h) && may_hash(s) && !hash_start(c, h, JOB_NOW) && hash_wait(c, h))
		return late_count(s);
	if (!now_holds(c, h))
		return s->measure.late ? late_count(s) : 0;
	if (sl_chunk_pins(c) || c->user_pins)
		c->hashed = 0; /* it held for this moment */
	if (!base_is_there(c, h))
		return 0;
	same = !memcmp(h->now, h->base, sizeof(h->now));
	hash_learn(h, same);
	return same;
}

void
sl_dirty_hash_copied(struct sl_chunk *c)
{
	struct sl_hashes *h = hashes_of(c);

	if (!h)
		return;
	sl_dirty_hash_forget(c);
	if (now_holds(c, h) && h->now_known) {
		memcpy(h->base, h->now, sizeof(h->base));
		h->base_known = 1;
	}
}

void
sl_dirty_hash_left(struct sl_chunk *c)
{
	struct sl_hashes *h = hashes_of(c);

	c->measured = SL_MEASURED_NOT;
	c->hashed = 0;
	if (!h)
		return;
	h->now_known = 0;
	if (h->job)
		h->job = JOB_VOID;
}

void
sl_dirty_hash_forget(struct sl_chunk *c)
{
	struct sl_hashes *h = hashes_of(c);

	if (!h)
		return;
	h->base_known = 0;
	h->reached = 0;
	if (h->job == JOB_ARRIVAL)
		h->job = JOB_VOID;
}

void
sl_dirty_hash_reached(struct sl_chunk *c)
{
	struct sl_hashes *h = hashes_of(c);
	uint8_t reached = h && (h->base_known || h->reached);

	sl_dirty_hash_forget(c);
	if (h)
		h->reached = reached;
}

void
sl_dirty_hash_drop(struct sl_region *r)
{
	free(r->hashes);
	r->hashes = NULL;
}

void
sl_dirty_hash_prepare(struct sluice_space *s)
{
	int rc;

	if (!s->device->hash || s->measure.ready)
		return;
	rc = s->device->hash->prepare(s->device);
	if (rc && s->config.measure == SLUICE_MEASURE_AUTO)
		sl_log(SL_INFO, "measure", "%s: nothing is measured", sluice_last_error());
	else if (rc)
		hash_failed();
	if (rc)
		return;
	sl_space_lock(s);
	s->measure.ready = 1;
	sl_space_unlock(s);
}
