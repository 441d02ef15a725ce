/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy=plan at work. Each launch passes here once, in call order, when it is about to be pinned:
 *
 *	no plan    it is noted; when the last ones look repeated, the mover asks plan_build.c
 *	a plan     it is compared with the one expected. The same: its chunks are stamped by their
 *	           next use, so that the device's heap (lru.c) has the one used farthest in the future
 *	           on top, and behind it the mover brings in what the next launch lacks. Another: back
 *	           to LRU at once
 *
 * Stamps of a plan lie between those given before it and those given since: what is touched
 * without being planned is newest, as ever, and after a fallback the order of the plan is simply
 * old.
 *
 * Moves of a launch are carried out after it was prepared and before the next one is, whatever the
 * time: so what is moved depends on the order of calls only. Room for them is made from chunks that
 * are needed later than what comes in, never from what the launch itself uses.
 *
 * LOCKING: all of it under space->lock; step drops. While a step is due no launch is prepared, so
 * notes and plan only change under it by forget(), which `generation` tells.
 */
#include <assert.h>
#include <string.h>

#include "base/hash.h"
#include "core/plan_run.h"
#include "core/timeouts.h"

#define HASHES       (2 * SL_PLAN_NOTES_MAX) /* of the table: a power of two */
#define NOTES_MIN    4u
#define STAMP_WINDOW ((uint64_t)1 << 36) /* launches of one plan, and its stamps */
#define STRIKES_MAX  10u /* each doubles what is noted before the next attempt */
#define PATIENCE     20u /* such waits in a row without a launch running */

struct sl_plan_run {
	/* What was launched; nothing while a plan is in force. */
	struct sl_plan_note notes[SL_PLAN_NOTES_MAX];
	struct sl_plan_use uses[SL_PLAN_USES_MAX];
	uint32_t n_notes, n_uses;
	uint64_t hashes[HASHES];            /* of the notes; 0: free */
	const struct sluice_stream *stream; /* of all notes */
	uint32_t hits;     /* last launches in a row that had been noted before */
	uint32_t next_try; /* hits at which the planner is asked */
	int make_due, move_due;
	int making; /* the mover reads the notes, without the lock: nobody writes them */
	uint32_t strikes; /* plans in a row that did not hold for two periods */

	struct sl_planned *planned; /* the newest; freed by the mover or in the end */
	int active;
	int settled; /* LRU does as well: launches are compared and not noted, nothing is moved */
	uint64_t settled_bytes; /* room on the device, for which that holds */
	uint64_t generation;    /* of plans; changes when one ends, too */
	uint64_t number; /* launches matched: the last one is number - 1, modulo the period */
	uint64_t base; /* stamp of a use at launch number n: base - n */
};

static struct sl_plan_run *
run_of(const struct sluice_space *s)
{
	return s->policy_state;
}

static int
plan_create(struct sluice_space *s)
{
	struct sl_plan_run *run = sl_calloc(1, sizeof(*run));

	if (!run)
		return sl_fail(-ENOMEM, "space: out of memory for the plan's notes");
	run->next_try = NOTES_MIN;
	s->policy_state = run;
	return 0;
}

static void
plan_destroy(struct sluice_space *s)
{
	struct sl_plan_run *run = run_of(s);

	if (!run)
		return;
	sl_planned_destroy(run->planned);
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

static uint32_t
hash_slot(uint64_t hash)
{
	return (uint32_t)(hash >> 32) % HASHES;
}

/* With each note goes all that stands behind its place: in the end nothing is left. */
static void
hashes_drop(struct sl_plan_run *run)
{
	for (uint32_t k = 0; k < run->n_notes; k++) {
		uint32_t slot = hash_slot(run->notes[k].hash);

		for (; run->hashes[slot]; slot = (slot + 1) % HASHES)
			run->hashes[slot] = 0;
	}
}

static void
notes_clear(struct sl_plan_run *run)
{
	if (run->n_notes >= HASHES / 32)
		memset(run->hashes, 0, sizeof(run->hashes));
	else /* a few notes are no reason to go through all the table */
		hashes_drop(run);
	run->n_notes = run->n_uses = 0;
	run->hits = 0;
	run->next_try = NOTES_MIN << run->strikes;
	run->make_due = 0;
}

/* 1 if the hash was there already. The table is never full: it has two places a note. */
static int
hash_keep(struct sl_plan_run *run, uint64_t hash)
{
	uint32_t slot = hash_slot(hash);

	for (; run->hashes[slot]; slot = (slot + 1) % HASHES)
		if (run->hashes[slot] == hash)
			return 1;
	run->hashes[slot] = hash;
	return 0;
}

/* The older half makes room. */
static void
notes_halve(struct sl_plan_run *run)
{
	uint32_t half = run->n_notes / 2, from = run->notes[half].first_use;

	memmove(run->notes, run->notes + half, (run->n_notes - half) * sizeof(run->notes[0]));
	memmove(run->uses, run->uses + from, (run->n_uses - from) * sizeof(run->uses[0]));
	run->n_notes -= half;
	run->n_uses -= from;
	memset(run->hashes, 0, sizeof(run->hashes));
	for (uint32_t k = 0; k < run->n_notes; k++) {
		run->notes[k].first_use -= from;
		(void)hash_keep(run, run->notes[k].hash);
	}
	if (run->next_try > SL_PLAN_NOTES_MAX / 2)
		run->next_try = SL_PLAN_NOTES_MAX / 2;
	if (run->hits > run->n_notes)
		run->hits = run->n_notes;
}

static void
launch_note(struct sl_plan_run *run, const struct sluice_launch *l, uint64_t hash)
{
	/* A launch without uses may touch anything; two streams have no one order. */
	if (!l->n_uses || l->n_uses > SL_PLAN_USES_MAX / 4 || l->stream != run->stream) {
		notes_clear(run);
		run->stream = l->stream;
		if (!l->n_uses || l->n_uses > SL_PLAN_USES_MAX / 4)
			return;
	}
	while (run->n_notes == SL_PLAN_NOTES_MAX ||
	       run->n_uses + l->n_uses > SL_PLAN_USES_MAX) {
		if (run->n_notes < 2)
			notes_clear(run);
		else
			notes_halve(run);
	}
	run->notes[run->n_notes++] = (struct sl_plan_note){.hash = hash,
							   .first_use = run->n_uses,
							   .n_uses = (uint32_t)l->n_uses};
	for (size_t k = 0; k < l->n_uses; k++) {
		const struct sl_launch_use *u = &l->uses[k];

		run->uses[run->n_uses++] = (struct sl_plan_use){
			.region = u->region,
			.first = u->first,
			.last = u->last,
			.chunk_bytes = u->region->chunk_bytes,
			.intent = u->intent,
			.first_partial = u->first_partial,
			.last_partial = u->last_partial,
		};
	}
	run->hits = hash_keep(run, hash) ? run->hits + 1 : 0;
	if (!run->hits && run->next_try > NOTES_MIN << run->strikes)
		run->next_try = NOTES_MIN << run->strikes;
	/* Of what repeats twice a half has been seen before; more cannot be asked for. */
	if (run->hits >= run->next_try && run->hits >= run->n_notes / 4) {
		run->next_try = run->hits + run->hits / 4 + 1;
		run->make_due = 1;
	}
}

/* ---- the plan in force ---- */

/* Position in the period of the launch that has this number; numbers begin with 1. */
static uint32_t
plan_position(const struct sl_plan_run *run, uint64_t number)
{
	return (uint32_t)((number - 1) % run->planned->period);
}

static struct sl_chunk *
range_chunk(const struct sl_plan_range *range, uint64_t i)
{
	return &range->region->chunks[range->first + i];
}

static uint64_t
range_chunks(const struct sl_plan_range *range)
{
	return range->last - range->first + 1;
}

/* Used next at launch number. */
SL_HELD static void
chunk_stamp(const struct sl_plan_run *run, struct sl_chunk *c, uint64_t number)
{
	sl_chunk_restamp(c, run->base - number);
}

SL_HELD static void
plan_begin(struct sluice_space *s)
{
	struct sl_plan_run *run = run_of(s);
	struct sl_planned *planned = run->planned;

	s->clock += STAMP_WINDOW;
	run->base = s->clock;
	run->number = 0;
	run->active = 1;
	run->generation++;
	for (uint32_t i = 0; i < planned->n_ranges; i++) {
		struct sl_plan_range *range = &planned->ranges[i];

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
	struct sl_plan_run *run = run_of(s);

	run->active = 0;
	run->move_due = 0;
	run->generation++;
	sl_launch_wake(s); /* the mover may wait for pins on behalf of it */
	for (uint32_t i = 0; i < run->planned->n_ranges; i++) {
		const struct sl_plan_range *range = &run->planned->ranges[i];

		for (uint64_t k = 0; k < range_chunks(range); k++)
			plan_evicted(range_chunk(range, k));
	}
	notes_clear(run);
}

/* The program does something else. One that does so often is noted for longer each time. */
SL_HELD static void
plan_diverged(struct sluice_space *s)
{
	struct sl_plan_run *run = run_of(s);

	sl_count(s, SLUICE_COUNTER_PLAN_DIVERGENCES, 1);
	if (run->number >= 2 * (uint64_t)run->planned->period)
		run->strikes = 0;
	else if (run->strikes < STRIKES_MAX)
		run->strikes++;
	plan_end(s);
}

/* 1: something that this launch of the period was expected to lack is not on the device. */
SL_HELD static int
launch_lacks(const struct sl_planned *planned, uint32_t at)
{
	for (uint32_t i = planned->at_first[at]; i < planned->at_first[at + 1]; i++) {
		const struct sl_plan_range *range = &planned->ranges[planned->at[i].range];

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
	struct sl_plan_run *run = run_of(s);

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
	struct sl_plan_run *run = run_of(s);
	uint64_t hash = launch_hash(l);

	if (run->active) {
		const struct sl_planned *planned = run->planned;
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
	launch_note(run, l, hash);
	if (run->make_due)
		sl_cond_signal(&s->mover_wake);
}

/* By the next use of each chunk. */
SL_HELD static int
plan_stamp(struct sluice_launch *l)
{
	struct sluice_space *s = l->space;
	struct sl_plan_run *run = run_of(s);
	const struct sl_planned *planned = run->planned;
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
		const struct sl_plan_range *range = &planned->ranges[planned->at[i].range];

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

SL_HELD static void
plan_discarded(struct sl_region *r, uint64_t begin, uint64_t end)
{
	struct sl_plan_run *run = run_of(r->space);
	uint64_t first = (begin + r->chunk_bytes - 1) / r->chunk_bytes;
	uint64_t last = end == r->size_bytes ? r->n_chunks : end / r->chunk_bytes;

	/* While the mover looks at the notes they stay as they are. */
	if (run->active || run->settled || run->make_due || run->making ||
	    !run->n_notes || first >= last || run->n_uses == SL_PLAN_USES_MAX)
		return;
	run->uses[run->n_uses++] = (struct sl_plan_use){.region = r,
							.first = first,
							.last = last - 1,
							.chunk_bytes = r->chunk_bytes,
							.dies = 1};
	run->notes[run->n_notes - 1].n_uses++;
}

SL_HELD static void
plan_forget(struct sl_region *r)
{
	struct sluice_space *s = r->space;
	struct sl_plan_run *run = run_of(s);

	for (uint32_t i = 0; run->active && i < run->planned->n_regions; i++) {
		if (run->planned->regions[i] == r)
			plan_end(s);
	}
	for (uint32_t i = 0; run->settled && i < run->planned->n_regions; i++)
		run->settled = run->planned->regions[i] != r;
	for (uint32_t i = 0; i < run->n_uses; i++) {
		if (run->uses[i].region != r)
			continue;
		run->generation++; /* what the mover may be making of them now is no good */
		notes_clear(run);
		return;
	}
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
	struct sl_plan_run *run;
	const struct sl_planned *planned;
	uint64_t generation, number;
};

/* The plan may have ended while the lock was dropped. */
static int
moving_is_over(const struct moving *m)
{
	return !m->run->active || m->run->generation != m->generation || m->s->mover_stop;
}

/*
 * Contents that are dead, or what is used farthest in the future. NULL: the launch itself uses
 * that, so it is left to the next one to take it.
 */
SL_HELD static struct sl_chunk *
victim_pick(const struct moving *m)
{
	struct sl_chunk *v;

	for (v = m->s->dev.discarded_head; v; v = v->next) {
		if (!(v->flags & SL_PREPARING))
			return v;
	}
	v = sl_lru_coldest(m->s, SL_SKIP_NOTHING);
	return v && (v->flags & SL_PREPARING) ? NULL : v;
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
 * Room for bytes that launch number wants, from what is used after it. 0, or -EAGAIN: what is there is
 * needed sooner. Drops.
 */
SL_HELD static int
room_make(const struct moving *m, uint64_t bytes, uint64_t number)
{
	struct sluice_space *s = m->s;

	while (s->dev.used_bytes + bytes > s->dev.budget_bytes) {
		struct sl_chunk *v;

		if (moving_is_over(m))
			return -EAGAIN;
		if (s->dev.used_bytes - s->dev.leaving_bytes + bytes <= s->dev.budget_bytes) {
			sl_launch_wait(s); /* for what others are evicting */
			continue;
		}
		v = victim_pick(m);
		if (!v || (!(v->flags & SL_DISCARDED) &&
			   sl_chunk_stamp(v) >= m->run->base - number - m->planned->slack &&
			   !(v->flags & SL_COLD)))
			return -EAGAIN;
		if (sl_chunk_pins(v)) {
			if (victim_wait(m, v))
				return -EAGAIN;
			continue;
		}
		if (sl_evict(v, SL_EVICT_ROOM))
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
range_read(const struct moving *m, const struct sl_plan_range *range)
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
				  SL_STAGING_AHEAD))
			return;
	}
}

/* Bring a range in that the next launch uses. Drops. */
SL_HELD static void
range_prefetch(const struct moving *m, const struct sl_plan_at *use)
{
	struct sluice_space *s = m->s;
	const struct sl_plan_range *range = &m->planned->ranges[use->range];
	enum sluice_intent intent = use->intent;
	uint64_t number = m->number + 1;
	struct sl_region *r = range->region;
	int writes = intent == SLUICE_USE_WRITE || intent == SLUICE_USE_READ_WRITE;
	/* partial: nothing says that nobody writes to it meanwhile. */
	struct sl_fill fill = {.intent = writes ? SLUICE_USE_READ_WRITE : SLUICE_USE_READ,
			       .cause = SL_CAUSE_PREFETCH,
			       .opportunist = 1,
			       .partial = 1};

	for (uint64_t i = 0; i < range_chunks(range); i++) {
		struct sl_chunk *c = range_chunk(range, i);

		if (!chunk_is_outside(c) || (c->flags & SL_ZEROCOPY) || c->view)
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
		const struct sl_plan_range *range = &m->planned->ranges[m->planned->at[i].range];

		for (uint64_t k = 0; k < range_chunks(range); k++) {
			if (!range_chunk(range, k)->device_bytes)
				bytes += range->region->chunk_bytes;
		}
	}
	sl_ignore(room_make(m, bytes, m->number + 1));
}

static int
intent_reads(enum sluice_intent intent)
{
	return intent != SLUICE_USE_WRITE_ALL && intent != SLUICE_USE_SCRATCH;
}

/* Have the store read what the launches behind the next one lack, as far as there are frames. Drops. */
SL_HELD static void
store_read_ahead(const struct moving *m, uint32_t next)
{
	const struct sl_planned *planned = m->planned;
	uint64_t bytes = 0;

	for (uint32_t k = 1; k < planned->period; k++) {
		uint32_t at = (next + k) % planned->period;

		for (uint32_t i = planned->at_first[at]; i < planned->at_first[at + 1]; i++) {
			const struct sl_plan_range *range =
				&planned->ranges[planned->at[i].range];

			if (!planned->at[i].misses || !intent_reads(planned->at[i].intent))
				continue;
			bytes += range->bytes;
			if (moving_is_over(m) || bytes > m->s->host.staging_bytes / 2)
				return;
			range_read(m, range);
		}
	}
}

/* Hold the plan's regions; the chunks of the launch itself are nobody's victims. */
SL_HELD static void
moving_begin(struct moving *m, uint32_t at)
{
	const struct sl_planned *planned = m->planned;

	for (uint32_t i = 0; i < planned->n_regions; i++)
		planned->regions[i]->busy++;
	for (uint32_t i = planned->at_first[at]; i < planned->at_first[at + 1]; i++) {
		const struct sl_plan_range *range = &planned->ranges[planned->at[i].range];

		for (uint64_t k = 0; k < range_chunks(range); k++)
			range_chunk(range, k)->flags |= SL_PREPARING;
	}
}

SL_HELD static void
moving_end(struct moving *m, uint32_t at)
{
	const struct sl_planned *planned = m->planned;

	for (uint32_t i = planned->at_first[at]; i < planned->at_first[at + 1]; i++) {
		const struct sl_plan_range *range = &planned->ranges[planned->at[i].range];

		for (uint64_t k = 0; k < range_chunks(range); k++)
			range_chunk(range, k)->flags &= (uint16_t)~SL_PREPARING;
	}
	for (uint32_t i = 0; i < planned->n_regions; i++)
		sl_region_leave(planned->regions[i]);
}

/* What the launch behind the one prepared last lacks. Drops. */
SL_HELD static void
moves_run(struct sluice_space *s)
{
	struct sl_plan_run *run = run_of(s);
	struct moving m = {.s = s,
			   .run = run,
			   .planned = run->planned,
			   .generation = run->generation,
			   .number = run->number};
	uint32_t at = plan_position(run, run->number);
	uint32_t next = (at + 1) % run->planned->period;

	moving_begin(&m, at);
	for (uint32_t i = m.planned->at_first[next];
	     i < m.planned->at_first[next + 1] && !moving_is_over(&m); i++) {
		if (m.planned->at[i].misses && intent_reads(m.planned->at[i].intent))
			range_prefetch(&m, &m.planned->at[i]);
	}
	if (!moving_is_over(&m))
		room_ahead(&m);
	if (!moving_is_over(&m))
		store_read_ahead(&m, next);
	moving_end(&m, at);
	run->move_due = 0;
}

/* ---- planning ---- */

SL_HELD static void
plan_make(struct sluice_space *s)
{
	struct sl_plan_run *run = run_of(s);
	struct sl_planned *old = run->planned, *planned = NULL;
	uint64_t generation = run->generation;
	struct sl_plan_input input = {
		.notes = run->notes,
		.n_notes = run->n_notes,
		.uses = run->uses,
		.device_bytes = s->dev.budget_bytes - s->dev.pinned_bytes,
	};
	int rc;

	for (uint32_t i = 0; i < run->n_uses; i++) {
		struct sl_plan_use *u = &run->uses[i];

		u->pinned = u->region->chunks[u->first].user_pins &&
			    u->region->chunks[u->last].user_pins;
	}
	run->planned = NULL;
	run->making = 1;
	sl_space_unlock(s);
	sl_planned_destroy(old);
	rc = sl_planned_make(&input, &planned);
	sl_space_lock(s);
	run->make_due = run->making = 0;
	run->planned = planned;
	if (rc == -ENOENT || run->generation != generation)
		return; /* not yet; or a region of it is gone */
	if (!rc && !planned->fits && !planned->useless) {
		plan_begin(s);
		return;
	}
	run->settled = !rc;
	run->settled_bytes = input.device_bytes;
	run->number = 0;
	if (rc && run->strikes < STRIKES_MAX)
		run->strikes++; /* try again when more is known */
	notes_clear(run);
}

SL_HELD static int
plan_is_due(const struct sluice_space *s)
{
	const struct sl_plan_run *run = run_of(s);

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
	.discarded = plan_discarded,
	.evicted = plan_evicted,
	.forget = plan_forget,
	.is_due = plan_is_due,
	.step = plan_step,
	.patience = plan_patience,
	.stalled = plan_stalled,
};
