/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy=plan: the next uses of repeating launches decide evictions and prefetches. Each launch
 * passes here once, in call order, before its first pin:
 *
 *	no plan    the learner notes it (src/predict); when the last ones repeat, the mover asks for
 *	           a period
 *	a plan     it is compared with the expected one. The same: its chunks are stamped by their
 *	           next use, so the device's heap (lru.c) has the farthest one on top. Behind it the
 *	           mover brings in absent data of the next launch. Another: back to LRU at once
 *
 * Stamps of a plan lie between those given before it and those given since. An unplanned touch
 * is newest, as ever. After a fallback the order of the plan is simply old.
 *
 * Moves of a launch are carried out after it was prepared and before the next one is, whatever
 * the time. So they depend only on the order of calls. Room for them is made from chunks that
 * are needed later than the arriving ones, never from those of the launch itself. A wrong plan
 * costs time, never a result: contents are dropped only where the program discarded them.
 *
 * LOCKING: all of it under space->lock; step drops. While a step is due no launch is prepared.
 * So notes and plan only change under it by forget(), which `generation` tells.
 */
#include <errno.h>

#include "base/hash.h"
#include "core/launch/launch.h"
#include "core/policy.h"
#include "core/timeouts.h"
#include "predict/predict.h"

#define STAMP_WINDOW ((uint64_t)1 << 36) /* launches of one plan, and its stamps */
/* Launches in a row that repeat until a period is looked for. Fewer: a few alike launches look like one. */
#define REPEATS_MIN  4u
#define STRIKES_MAX  10u /* each doubles what is noted before the next attempt */
/* Waits without a launch running until the plan ends. Fewer: it ends behind a slow kernel. */
#define PATIENCE     20u

struct plan_run {
	struct sl_predict *learner; /* notes what is launched while no plan is in force */
	const struct sluice_stream *stream; /* of all notes */
	uint64_t era;                       /* changes when the notes begin anew; not 0 */
	uint64_t next_try;                  /* repeats at which a period is looked for */
	int make_due, move_due;
	int making; /* the mover reads the notes, without the lock: nobody writes them */
	uint32_t strikes; /* plans in a row that did not hold for two periods */

	struct sl_next_uses *planned; /* the newest; freed by the mover or in the end */
	int active;
	int settled; /* LRU does as well: launches are compared and not noted, nothing is moved */
	uint64_t settled_bytes; /* room on the device, for which that holds */
	uint64_t generation;    /* of plans; changes when one ends, too */
	uint64_t number; /* launches matched: the last one is number - 1, modulo the period */
	uint64_t base; /* stamp of a use at launch number n: base - n */
};

static struct plan_run *
run_of(const struct sluice_space *s)
{
	return s->policy_state;
}

static int
plan_create(struct sluice_space *s)
{
	struct plan_run *run = sl_calloc(1, sizeof(*run));
	int rc;

	if (!run)
		return sl_fail(-ENOMEM, "space: out of memory for the plan");
	rc = sl_predict_create(&run->learner);
	if (rc) {
		free(run);
		return rc;
	}
	run->next_try = REPEATS_MIN;
	run->era = 1;
	s->policy_state = run;
	return 0;
}

static void
plan_destroy(struct sluice_space *s)
{
	struct plan_run *run = run_of(s);

	if (!run)
		return;
	sl_predict_destroy(run->learner);
	sl_next_uses_destroy(run->planned);
	free(run);
}

/* ---- noting ---- */

static uint64_t
launch_hash(const struct sluice_launch *l)
{
	uint64_t hash = l->n_uses + 1;

	for (size_t k = 0; k < l->n_uses; k++) {
		const struct sl_launch_use *u = &l->uses[k];

		hash = sl_hash_add(hash, (uintptr_t)u->region);
		hash = sl_hash_add(hash, u->begin);
		hash = sl_hash_add(hash, u->end);
		hash = sl_hash_add(hash, (uint64_t)u->intent);
	}
	return hash ? hash : 1;
}

/* While the mover reads the notes they stay; it clears them itself if the generation has changed. */
static void
notes_clear(struct plan_run *run)
{
	if (run->making)
		return;
	sl_predict_forget(run->learner);
	run->era++;
	run->next_try = (uint64_t)REPEATS_MIN << run->strikes;
	run->make_due = 0;
}

SL_HELD static void
plan_use_note(struct plan_run *run, const struct sl_launch_use *u)
{
	const struct sl_region *r = u->region;
	const struct sl_predict_use use = {
		.block = (uintptr_t)r,
		.addr = u->first * r->chunk_bytes,
		.bytes = (u->last + 1 - u->first) * r->chunk_bytes,
		.grain = r->chunk_bytes,
		.intent = u->intent,
		.part_first = u->first_partial,
		.part_last = u->last_partial,
		.pinned = r->chunks[u->first].user_pins && r->chunks[u->last].user_pins,
	};

	sl_predict_note_use(run->learner, &use);
}

SL_HELD static void
plan_launch_note(struct plan_run *run, const struct sluice_launch *l, uint64_t hash)
{
	uint64_t repeats;

	/* A launch without uses may touch anything; two streams have no one order. */
	if (!l->n_uses || l->stream != run->stream)
		notes_clear(run);
	run->stream = l->stream;
	if (!l->n_uses)
		return;
	repeats = sl_predict_note(run->learner, hash);
	for (size_t k = 0; k < l->n_uses; k++) {
		plan_use_note(run, &l->uses[k]);
		l->uses[k].region->noted = run->era;
	}
	if (!repeats)
		run->next_try = (uint64_t)REPEATS_MIN << run->strikes;
	/* Of what repeats twice a half has been seen before; more cannot be asked for. */
	if (repeats >= run->next_try && repeats >= sl_predict_notes(run->learner) / 4) {
		run->next_try = repeats + repeats / 4 + 1;
		run->make_due = 1;
	}
}

/* ---- the plan in force ---- */

/* Position in the period of the launch that has this number; numbers begin with 1. */
static uint32_t
plan_position(const struct plan_run *run, uint64_t number)
{
	return (uint32_t)((number - 1) % run->planned->period);
}

static struct sl_region *
range_region(const struct sl_next_range *range)
{
	return (struct sl_region *)(uintptr_t)range->block; // NOLINT(performance-no-int-to-ptr)
}

static struct sl_chunk *
range_chunk(const struct sl_next_range *range, uint64_t i)
{
	const struct sl_region *r = range_region(range);

	return &r->chunks[(range->addr >> r->chunk_shift) + i];
}

static uint64_t
range_chunks(const struct sl_next_range *range)
{
	return range->bytes >> range_region(range)->chunk_shift;
}

/* Used next at launch number. */
SL_HELD static void
chunk_stamp(const struct plan_run *run, struct sl_chunk *c, uint64_t number)
{
	sl_chunk_restamp(c, run->base - number);
}

SL_HELD static void
plan_begin(struct sluice_space *s)
{
	struct plan_run *run = run_of(s);
	struct sl_next_uses *planned = run->planned;

	s->clock += STAMP_WINDOW;
	run->base = s->clock;
	run->number = 0;
	run->active = 1;
	run->generation++;
	for (uint32_t i = 0; i < planned->n_ranges; i++) {
		struct sl_next_range *range = &planned->ranges[i];

		for (uint64_t k = 0; k < range_chunks(range); k++)
			chunk_stamp(run, range_chunk(range, k), range->first_at + 1);
	}
	sl_count(s, SLUICE_COUNTER_PLANS, 1);
}

/* What was brought in for it and not used was brought in for nothing. */
SL_HELD static void
plan_evicted(struct sl_chunk *c)
{
	if (!(c->flags & SL_PLANNED))
		return;
	c->flags &= (uint16_t)~SL_PLANNED;
	sl_count(c->region->space, SLUICE_COUNTER_PLAN_PREFETCH_WASTED,
		 c->region->chunk_bytes);
}

/* What was brought in for nothing is so from now on. */
SL_HELD static void
plan_end(struct sluice_space *s)
{
	struct plan_run *run = run_of(s);

	run->active = 0;
	run->move_due = 0;
	run->generation++;
	sl_launch_wake(s); /* the mover may wait for pins on behalf of it */
	for (uint32_t i = 0; i < run->planned->n_ranges; i++) {
		const struct sl_next_range *range = &run->planned->ranges[i];

		for (uint64_t k = 0; k < range_chunks(range); k++)
			plan_evicted(range_chunk(range, k));
	}
	notes_clear(run);
}

/* The program does something else. One that does so often is noted for longer each time. */
SL_HELD static void
plan_diverged(struct sluice_space *s)
{
	struct plan_run *run = run_of(s);

	sl_count(s, SLUICE_COUNTER_PLAN_DIVERGENCES, 1);
	if (run->number >= 2 * (uint64_t)run->planned->period)
		run->strikes = 0;
	else if (run->strikes < STRIKES_MAX)
		run->strikes++;
	plan_end(s);
}

/* 1: something that this launch of the period was expected to lack is not on the device. */
SL_HELD static int
launch_lacks(const struct sl_next_uses *planned, uint32_t at)
{
	for (uint32_t i = planned->at_first[at]; i < planned->at_first[at + 1]; i++) {
		const struct sl_next_range *range = &planned->ranges[planned->at[i].range];

		for (uint64_t k = 0; planned->at[i].misses && k < range_chunks(range); k++)
			if (!range_chunk(range, k)->device_bytes)
				return 1;
	}
	return 0;
}

/* 1: as expected of launches that LRU serves as well. */
static int
settled_match(struct sluice_space *s, uint64_t hash)
{
	struct plan_run *run = run_of(s);

	if (hash == run->planned->hashes[plan_position(run, run->number + 1)] &&
	    run->settled_bytes == s->dev.budget_bytes - s->dev.pinned_bytes) {
		run->number++;
		return 1;
	}
	run->settled = 0;
	notes_clear(run);
	return 0;
}

SL_HELD static void
plan_note(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	struct plan_run *run = run_of(s);
	uint64_t hash = launch_hash(l);

	if (run->active) {
		const struct sl_next_uses *planned = run->planned;
		uint32_t at = plan_position(run, run->number + 1);

		if (hash == planned->hashes[at] && l->stream == run->stream &&
		    run->number < STAMP_WINDOW / 2) {
			l->planned = ++run->number;
			l->plan_generation = run->generation;
			run->move_due = launch_lacks(planned, (at + 1) % planned->period);
			if (run->move_due)
				sl_cond_signal(&s->mover_wake);
			sl_count(s, SLUICE_COUNTER_PLAN_LAUNCHES, 1);
			return;
		}
		plan_diverged(s);
	}
	if (run->settled && settled_match(s, hash))
		return;
	plan_launch_note(run, l, hash);
	if (run->make_due)
		sl_cond_signal(&s->mover_wake);
}

/* By the next use of each chunk. */
SL_HELD static int
plan_stamp(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	struct plan_run *run = run_of(s);
	const struct sl_next_uses *planned = run->planned;
	uint32_t at;

	if (!l->planned)
		return 0;
	if (!run->active || l->plan_generation != run->generation) { /* its plan is over */
		for (size_t k = 0; k < l->n_uses; k++)
			for (uint64_t i = l->uses[k].first; i <= l->uses[k].last; i++)
				l->uses[k].region->chunks[i].stamp = s->clock + l->n_uses;
		return 1;
	}
	at = plan_position(run, l->planned);
	for (uint32_t i = planned->at_first[at]; i < planned->at_first[at + 1]; i++) {
		const struct sl_next_range *range = &planned->ranges[planned->at[i].range];

		for (uint64_t k = 0; k < range_chunks(range); k++) {
			struct sl_chunk *c = range_chunk(range, k);

			chunk_stamp(run, c, l->planned + planned->at[i].keep);
			if (!(c->flags & SL_PLANNED))
				continue;
			c->flags &= (uint16_t)~SL_PLANNED;
			sl_count(s, SLUICE_COUNTER_PLAN_PREFETCH_USED,
				 c->region->chunk_bytes);
		}
	}
	return 1;
}

static int
planned_uses(const struct sl_next_uses *planned, const struct sl_region *r)
{
	for (uint32_t i = 0; i < planned->n_ranges; i++)
		if (range_region(&planned->ranges[i]) == r)
			return 1;
	return 0;
}

SL_HELD static void
plan_forget(struct sl_region *r)
{
	struct sluice_space *s = r->space;
	struct plan_run *run = run_of(s);

	if (run->active && planned_uses(run->planned, r))
		plan_end(s);
	if (run->settled && planned_uses(run->planned, r))
		run->settled = 0;
	if (r->noted != run->era)
		return;
	run->generation++; /* what the mover may be making of them now is no good */
	notes_clear(run);
}

/* A launch of a plan waits for the end of the one before it: a wait is seldom a deadlock. */
SL_HELD static unsigned
plan_patience(const struct sluice_space *s)
{
	return run_of(s)->active ? PATIENCE : 1;
}

SL_HELD static void
plan_stalled(struct sluice_space *s)
{
	if (run_of(s)->active)
		plan_diverged(s);
}

/* ---- moves ---- */

/* One carrying out of a launch's moves. */
struct moving {
	struct sluice_space *s;
	struct plan_run *run;
	const struct sl_next_uses *planned;
	uint64_t generation, number;
};

/* The plan may have ended while the lock was dropped. */
static int
moving_is_over(const struct moving *m)
{
	return !m->run->active || m->run->generation != m->generation || m->s->mover_stop;
}

/*
 * Until v is not pinned any more, or is elsewhere: the launches before this one are under way. 0;
 * -EBUSY: none of them runs, and that for long. Drops.
 */
SL_HELD static int
victim_wait(const struct moving *m, const struct sl_chunk *v)
{
	uint32_t idle = 0;

	while (!moving_is_over(m) && v->state == SL_CHUNK_DEVICE && sl_chunk_pins(v)) {
		if (sl_scope_holds(v))
			return -EBUSY;
		if (sl_launch_wait_until(m->s, sl_now_ns() + SL_STALL_NS) != -ETIMEDOUT ||
		    m->s->running || sl_launches_go_on(m->s))
			idle = 0;
		else if (++idle == PATIENCE) {
			plan_diverged(m->s); /* kernels wait for something that is none of ours */
			return -EBUSY;
		}
	}
	return 0;
}

/*
 * Room for bytes that launch number wants, from what is used after it. 0, or -EAGAIN: what is there
 * is needed sooner, or the launch itself uses it. Drops.
 */
SL_HELD static int
room_make(const struct moving *m, uint64_t bytes, uint64_t number)
{
	const struct sl_victim_request request = {.mode = SL_ROOM_PLAN,
						  .before = m->run->base - number};
	struct sluice_space *s = m->s;

	while (s->dev.used_bytes + bytes > s->dev.budget_bytes) {
		struct sl_victim v;

		if (moving_is_over(m))
			return -EAGAIN;
		if (s->dev.used_bytes - s->dev.leaving_bytes + bytes <= s->dev.budget_bytes) {
			sl_launch_wait(s); /* for what others are evicting */
			continue;
		}
		v = sl_victim_pick(s, &request);
		if (!v.chunk)
			return -EAGAIN;
		if (v.wait) {
			if (victim_wait(m, v.chunk))
				return -EAGAIN;
			continue;
		}
		if (sl_evict_victim(&v))
			return -EAGAIN; /* the launch that needs it will say why */
	}
	return moving_is_over(m) ? -EAGAIN : 0;
}

static int
chunk_is_outside(const struct sl_chunk *c)
{
	return c->state == SL_CHUNK_STORE || c->state == SL_CHUNK_HOST ||
	       c->state == SL_CHUNK_READING || c->state == SL_CHUNK_WRITING;
}

/* Have the store read a range: frames of read-ahead, so no more than that may have. Drops. */
SL_HELD static void
range_read(const struct moving *m, const struct sl_next_range *range)
{
	const struct sluice_space *s = m->s;

	for (uint64_t i = 0; i < range_chunks(range) && !moving_is_over(m); i++) {
		struct sl_chunk *c = range_chunk(range, i);

		if (c->state != SL_CHUNK_STORE)
			continue;
		if (s->host.read_ahead_bytes + c->region->chunk_bytes >
		    s->host.staging_bytes / 2)
			return;
		if (sl_read_begin(c, SL_IO_PREFETCH, SLUICE_COUNTER_STORE_READ_AHEAD,
				  SL_STAGING_AHEAD, 0))
			return;
	}
}

/* Bring a range in that the next launch uses. Drops. */
SL_HELD static void
range_prefetch(const struct moving *m, const struct sl_next_use *use)
{
	struct sluice_space *s = m->s;
	const struct sl_next_range *range = &m->planned->ranges[use->range];
	enum sluice_intent intent = use->intent;
	uint64_t number = m->number + 1;
	struct sl_region *r = range_region(range);
	int writes = intent == SLUICE_USE_WRITE || intent == SLUICE_USE_READ_WRITE;
	/* partial: nothing says that nobody writes to it meanwhile. */
	struct sl_fill fill = {.intent = writes ? SLUICE_USE_READ_WRITE : SLUICE_USE_READ,
			       .cause = SL_CAUSE_PREFETCH,
			       .room = SL_ROOM_PREFETCH,
			       .partial = 1};

	for (uint64_t i = 0; i < range_chunks(range); i++) {
		struct sl_chunk *c = range_chunk(range, i);

		if (!chunk_is_outside(c) || (c->flags & SL_ZEROCOPY) || c->hostmap)
			continue;
		if (room_make(m, r->chunk_bytes, number))
			return;
		range_read(m, range);
		if (moving_is_over(m) || !chunk_is_outside(c))
			continue;
		if (sl_fill(c, &fill))
			return; /* whatever it was, the launch meets it again */
		if (moving_is_over(m))
			return;
		if (c->state != SL_CHUNK_DEVICE)
			continue;
		chunk_stamp(m->run, c, number);
		c->flags |= SL_PLANNED;
		sl_count(s, SLUICE_COUNTER_PLAN_PREFETCHED, r->chunk_bytes);
	}
}

/* What the next launch has not got yet finds room without waiting for it. Drops. */
SL_HELD static void
room_ahead(const struct moving *m)
{
	uint32_t at = plan_position(m->run, m->number + 1);
	uint64_t bytes = 0;

	for (uint32_t i = m->planned->at_first[at]; i < m->planned->at_first[at + 1]; i++) {
		const struct sl_next_range *range = &m->planned->ranges[m->planned->at[i].range];

		for (uint64_t k = 0; k < range_chunks(range); k++) {
			if (!range_chunk(range, k)->device_bytes)
				bytes += range_region(range)->chunk_bytes;
		}
	}
	sl_ignore(room_make(m, bytes, m->number + 1));
}

/* Hold the regions of the launch and the next one; the launch's own chunks are nobody's victims. */
SL_HELD static void
moving_begin(const struct moving *m, uint32_t at, uint32_t next)
{
	const struct sl_next_uses *planned = m->planned;

	for (uint32_t i = planned->at_first[at]; i < planned->at_first[at + 1]; i++) {
		const struct sl_next_range *range = &planned->ranges[planned->at[i].range];

		range_region(range)->busy++;
		for (uint64_t k = 0; k < range_chunks(range); k++)
			range_chunk(range, k)->flags |= SL_PREPARING;
	}
	for (uint32_t i = planned->at_first[next]; i < planned->at_first[next + 1]; i++)
		range_region(&planned->ranges[planned->at[i].range])->busy++;
}

SL_HELD static void
moving_end(const struct moving *m, uint32_t at, uint32_t next)
{
	const struct sl_next_uses *planned = m->planned;

	for (uint32_t i = planned->at_first[at]; i < planned->at_first[at + 1]; i++) {
		const struct sl_next_range *range = &planned->ranges[planned->at[i].range];

		for (uint64_t k = 0; k < range_chunks(range); k++)
			range_chunk(range, k)->flags &= (uint16_t)~SL_PREPARING;
		sl_region_leave(range_region(range));
	}
	for (uint32_t i = planned->at_first[next]; i < planned->at_first[next + 1]; i++)
		sl_region_leave(range_region(&planned->ranges[planned->at[i].range]));
}

/* What the launch behind the one prepared last lacks. Drops. */
SL_HELD static void
moves_run(struct sluice_space *s)
{
	struct plan_run *run = run_of(s);
	const struct moving m = {.s = s,
				 .run = run,
				 .planned = run->planned,
				 .generation = run->generation,
				 .number = run->number};
	uint32_t at = plan_position(run, run->number);
	uint32_t next = (at + 1) % run->planned->period;

	moving_begin(&m, at, next);
	for (uint32_t i = m.planned->at_first[next];
	     i < m.planned->at_first[next + 1] && !moving_is_over(&m); i++) {
		if (m.planned->at[i].misses && sl_intent_reads(m.planned->at[i].intent))
			range_prefetch(&m, &m.planned->at[i]);
	}
	if (!moving_is_over(&m))
		room_ahead(&m);
	moving_end(&m, at, next);
	run->move_due = 0;
}

/* ---- planning ---- */

SL_HELD static void
plan_make(struct sluice_space *s)
{
	struct plan_run *run = run_of(s);
	struct sl_next_uses *old = run->planned, *planned = NULL;
	uint64_t generation = run->generation;
	uint64_t device_bytes = s->dev.budget_bytes - s->dev.pinned_bytes;
	int rc;

	run->planned = NULL;
	run->making = 1;
	sl_space_unlock(s);
	sl_next_uses_destroy(old);
	rc = sl_next_uses_make(run->learner, device_bytes, &planned);
	sl_space_lock(s);
	run->make_due = run->making = 0;
	run->planned = planned;
	if (run->generation != generation) { /* a region of it is gone */
		notes_clear(run);
		return;
	}
	if (rc == -ENOENT)
		return; /* not yet */
	if (!rc && !planned->fits && !planned->useless) {
		plan_begin(s);
		return;
	}
	run->settled = !rc;
	run->settled_bytes = device_bytes;
	run->number = 0;
	if (rc && run->strikes < STRIKES_MAX)
		run->strikes++; /* try again when more is known */
	notes_clear(run);
}

SL_HELD static int
plan_is_due(const struct sluice_space *s)
{
	const struct plan_run *run = run_of(s);

	return run->make_due || run->making || run->move_due;
}

SL_HELD static void
plan_step(struct sluice_space *s)
{
	if (run_of(s)->make_due)
		plan_make(s);
	else
		moves_run(s);
}

const struct sl_policy sl_policy_plan = {
	.name = "plan",
	.stamp_on_hit = 1,
	.honour_intents = 1,
	.honour_flags = 1,
	.create = plan_create,
	.destroy = plan_destroy,
	.note = plan_note,
	.stamp = plan_stamp,
	.evicted = plan_evicted,
	.forget = plan_forget,
	.is_due = plan_is_due,
	.step = plan_step,
	.patience = plan_patience,
	.stalled = plan_stalled,
};
