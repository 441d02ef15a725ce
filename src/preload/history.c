/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefetch from history. Programs repeat themselves. The log keeps the last LOG_MAX scopes, and
 * chains the uses of each block. When a scope is seen again (same function, same sizes, a block
 * that still exists, same predecessors), its successors of the previous time are expected:
 *   - Their data are prefetched, up to a share of the device budget. Data that are already there
 *     count as used, so that they are not evicted just before.
 *   - Free or discarded room is filled with what is needed after that. In a backward pass the link
 *     is busy from the first gradients on.
 *   - A block that does not stay until its next use is evicted early, while the link is idle (the
 *     idea of G10: evict at the beginning of an idle period). Once the program's period is known,
 *     residency_plan.c decides what stays. Until then a block that was evicted last time is
 *     evicted early.
 * A scope that was not expected ends this; the only cost is the moves. Where prefetching makes the
 * program slower, history is kept and not acted on (autotune.c).
 *
 * Scopes are compared by function and sizes, not by addresses, since a program may allocate anew
 * each time. A freed block is mapped to the block that took its place in this iteration. If there
 * is none yet, it has not been allocated yet.
 *
 * Threads: any; a thread that finds the log in use goes without.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/period.h"
#include "core/interpose.h"
#include "preload/autotune.h"
#include "preload/gpu_internal.h"
#include "preload/residency_plan.h"

#define LOG_MAX     16384u /* a power of two, as those below */
#define USES_MAX    262144u
#define TABLE_MAX   65536u
#define FETCH_MAX   65536u
#define HELD_SCOPES 4u
#define HELD_PART \
	32u /* of the device budget, by which more may be allocated on the way */
#define AHEAD_MAX 1024u /* scopes looked ahead */
#define AHEAD_PART \
	4u /* of the device budget, what they use in all, but for the next one */
#define STEPS_MAX 16u /* looked at anew behind one scope */
#define CHAIN_MAX 16u /* earlier uses of a block that are looked at for the same place */
#define STRAY_MAX 4u  /* scopes in a row that do the same, but to blocks of other sizes */
#define ALIKE_MIN 2u  /* scopes before it that must have been the same */
#define STAY_PART \
	10u /* of the device budget, which what stays leaves free: for what is on its way out */
#define STAY_GROUP \
	(UINT64_C(256) << 20) /* neighbours stay together: they may have a chunk in common */
#define STAY_MULTIPLE 4u      /* of a period, which are taken for it */
#define MISS_PART     8u      /* of a span, which may be other than expected */
#define STAY_PERIODS  8u      /* until it is decided anew, or forgotten */
#define FAR_PART \
	8u /* of what outlives a period, which may not have been used in it; more: that is no period */

struct used {
	uint64_t addr, bytes;
	uint64_t id;     /* of the block; 0: it had gone */
	uint64_t scope;  /* number in the log */
	uint64_t prev;   /* number of the use of the block before, + 1; 0: none */
	uint64_t leaves; /* so many bytes at its end do not stay until the next use */
	unsigned char asked; /* looking ahead, it was asked for: fetched, for the use that comes */
};

/* The last use of a block. */
struct last {
	uint64_t id;
	uint64_t use; /* number in uses, + 1 */
};

/* Which block stands where one stood last time. */
struct stand_in {
	uint64_t then_id, then_addr;
	uint64_t id, addr;
};

struct entry {
	uint64_t what; /* runs, on how many blocks */
	uint64_t hash; /* with their sizes */
	uint64_t bytes;
	uint64_t first; /* in uses, counts up */
	uint32_t n;
};

struct pl_history {
	struct sl_mutex lock;
	struct entry log[LOG_MAX];
	struct used uses[USES_MAX];
	struct last last[TABLE_MAX]; /* by block; a newer one takes the place of another */
	struct stand_in stand_ins[TABLE_MAX]; /* by block of last time; the same */
	uint64_t fetched[FETCH_MAX]; /* uses that something was fetched for, in order */
	uint64_t head, uses_head, fetched_head; /* count up */
	int following;
	uint64_t hits, span_hits; /* expected scopes; at the beginning of the trial's span */
	unsigned strays; /* of the last scopes, those that were not quite the expected ones */
	uint64_t cursor, ahead;               /* next expected; next to be looked at */
	uint64_t ahead_bytes;                 /* of what lies between */
	uint64_t held[LOG_MAX / HELD_SCOPES]; /* the most that so many scopes found allocated */
	uint64_t far; /* in fetched: next to be asked for where there is spare room */
	struct pl_autotune trial;
	enum pl_strategy way; /* of the last scope */
	uint64_t stays_period; /* what stays was decided for a period of so many scopes; 0: not */
	uint64_t stays_budget; /* for so many bytes on the device */
	uint64_t stays_bytes;  /* of all blocks that such a period uses */
	uint64_t stays_next,
		stays_wait;  /* at which scope it is decided anew; periods until then */
	uint64_t stays_seen; /* up to which scope it was such a period */
	uint64_t latest[LOG_MAX]; /* the log's hashes, newest first, to find the period */
	uint32_t work[LOG_MAX];
};

static struct used *
use_of(struct pl_history *f, const struct entry *e, uint32_t i)
{
	return &f->uses[(e->first + i) % USES_MAX];
}

static struct stand_in *
stand_in_of(struct pl_history *f, uint64_t then_id)
{
	return &f->stand_ins[sl_hash_add(0, then_id) >> 48];
}

static int
entry_is_there(const struct pl_history *f, uint64_t number)
{
	return number < f->head && f->head - number < LOG_MAX &&
	       f->uses_head - f->log[number % LOG_MAX].first < USES_MAX;
}

static int
use_is_there(const struct pl_history *f, uint64_t number_1)
{
	return number_1 && f->uses_head - (number_1 - 1) < USES_MAX;
}

static struct pl_history *
follow_get(struct pl_gpu *gpu)
{
	struct pl_gpu_internal *books = gpu->books;
	struct pl_history *f = atomic_load_explicit(&books->follow, memory_order_acquire);

	if (f)
		return f;
	sl_mutex_lock(&books->lock);
	f = atomic_load(&books->follow);
	if (!f) {
		f = calloc(1, sizeof(*f));
		if (f) {
			sl_mutex_init(&f->lock, SL_RANK_PL_SCOPES);
			f->way = PL_STRATEGIES; /* none yet */
		}
		atomic_store_explicit(&books->follow, f, memory_order_release);
	}
	sl_mutex_unlock(&books->lock);
	return f;
}

/* Note the scope; its number. */
static uint64_t
entry_add(struct pl_history *f, uint64_t what, const struct sluice_use *uses, size_t n)
{
	struct entry *e = &f->log[f->head % LOG_MAX];

	*e = (struct entry){.what = sl_hash_add(n, what),
			    .hash = sl_hash_add(n, what),
			    .first = f->uses_head,
			    .n = (uint32_t)n};
	for (size_t i = 0; i < n; i++) {
		uint64_t addr = (uintptr_t)uses[i].addr;
		const struct pl_block *block = pl_block_find(addr);
		uint64_t id = block ? block->id : 0;
		struct last *last = &f->last[sl_hash_add(0, id) >> 48];

		f->uses[f->uses_head % USES_MAX] =
			(struct used){.addr = addr,
				      .bytes = uses[i].size_bytes,
				      .id = id,
				      .scope = f->head,
				      .prev = id && last->id == id ? last->use : 0};
		*last = (struct last){id, ++f->uses_head};
		e->hash = sl_hash_add(e->hash, uses[i].size_bytes);
		e->bytes += uses[i].size_bytes;
	}
	return f->head++;
}

/* Scope number a has found so many bytes allocated. */
static void
held_note(struct pl_history *f, uint64_t a, uint64_t bytes)
{
	uint64_t *held = &f->held[a / HELD_SCOPES % (LOG_MAX / HELD_SCOPES)];

	if (a % HELD_SCOPES == 0 || *held < bytes)
		*held = bytes;
}

/* The most that was allocated from one scope to another, as far as it is not known by now. */
static uint64_t
held_most(const struct pl_history *f, uint64_t from, uint64_t to)
{
	uint64_t most = 0;

	for (uint64_t i = from / HELD_SCOPES + 1; i <= to / HELD_SCOPES; i++) {
		uint64_t held = f->held[i % (LOG_MAX / HELD_SCOPES)];

		if (most < held)
			most = held;
	}
	return most;
}

/* How many scopes in a row, up to the two and with them, did the same; at most one more than ALIKE_MIN. */
static unsigned
alike(const struct pl_history *f, uint64_t a, uint64_t b)
{
	unsigned n = 0;

	while (n <= ALIKE_MIN && a >= n && entry_is_there(f, a - n) &&
	       f->log[(a - n) % LOG_MAX].what == f->log[(b - n) % LOG_MAX].what)
		n++;
	return n;
}

/* The first of what was fetched last time for a scope from this one on. */
static uint64_t
fetched_from(const struct pl_history *f, uint64_t scope)
{
	uint64_t high = f->fetched_head;
	uint64_t low = high < FETCH_MAX ? 0 : high - FETCH_MAX;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		uint64_t use = f->fetched[middle % FETCH_MAX];

		if (!use_is_there(f, use + 1) || f->uses[use % USES_MAX].scope < scope)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How much of a use leaves, as of the one in its place last time, which may have been of another size. */
static uint64_t
leaves_as(const struct used *now, const struct used *then)
{
	return then->leaves >= then->bytes || then->leaves > now->bytes
		       ? (then->leaves ? now->bytes : 0)
		       : then->leaves;
}

/* What was decided to stay is that of this scope, too. */
static void
stays_hand_on(struct pl_history *f, const struct entry *now, const struct entry *then)
{
	if (!f->stays_period)
		return;
	for (uint32_t i = 0; i < now->n; i++)
		use_of(f, now, i)->leaves = leaves_as(use_of(f, now, i), use_of(f, then, i));
}

/* Go on behind a scope of last time. */
static void
place_set(struct pl_history *f, const struct entry *now, uint64_t then)
{
	f->following = 1;
	f->cursor = f->ahead = then + 1;
	f->far = fetched_from(f, f->cursor);
	f->ahead_bytes = 0;
	f->strays = 0;
	stays_hand_on(f, now, &f->log[then % LOG_MAX]);
}

/* Where this scope was the last time, by the block of its use i, and those before it. 1: found. */
static int
place_by(struct pl_history *f, uint64_t number, uint32_t i)
{
	const struct entry *now = &f->log[number % LOG_MAX];
	uint64_t at = use_of(f, now, i)->prev;

	for (unsigned k = 0; k < CHAIN_MAX && use_is_there(f, at); k++) {
		const struct used *u = &f->uses[(at - 1) % USES_MAX];

		if (u->scope != number && alike(f, u->scope, number) > ALIKE_MIN &&
		    at - 1 == f->log[u->scope % LOG_MAX].first + i) {
			place_set(f, now, u->scope);
			return 1;
		}
		at = u->prev;
	}
	return 0;
}

static void
place_find(struct pl_history *f, uint64_t number)
{
	uint32_t n = f->log[number % LOG_MAX].n;

	for (uint32_t i = 0; i < n && !f->following; i++)
		(void)place_by(f, number, i);
}

/*
 * The scope is the one that is expected behind `then`, or rather behind the one that is returned: where its largest
 * block stands in the place of another one, but has been in such a scope before, that is the place. What is alike are
 * layers, and they come in the order of last time.
 */
static struct entry *
place_mend(struct pl_history *f, uint64_t number, struct entry *then)
{
	const struct entry *now = &f->log[number % LOG_MAX];
	uint32_t largest = 0;

	for (uint32_t i = 1; i < now->n; i++)
		if (use_of(f, now, i)->bytes > use_of(f, now, largest)->bytes)
			largest = i;
	if (use_of(f, now, largest)->id == use_of(f, then, largest)->id ||
	    !place_by(f, number, largest))
		return then;
	return &f->log[(f->cursor - 1) % LOG_MAX];
}

/* Whether number is the scope that was expected, or one like it: sequences grow, the last batch is smaller. */
static int
is_expected(struct pl_history *f, uint64_t number)
{
	const struct entry *e = &f->log[f->cursor % LOG_MAX];
	const struct entry *now = &f->log[number % LOG_MAX];

	if (f->cursor >= number || !entry_is_there(f, f->cursor) || e->what != now->what)
		return 0;
	f->strays = e->hash == now->hash ? 0 : f->strays + 1;
	return f->strays <= STRAY_MAX;
}

/* The scope as it was last time, if it is the expected one. */
static struct entry *
expected_compare(struct pl_history *f, uint64_t number)
{
	struct entry *e = &f->log[f->cursor % LOG_MAX];

	if (!f->following)
		return NULL;
	if (!is_expected(f, number)) {
		f->following = 0;
		PL_COUNT(follows_miss, 1);
		return NULL;
	}
	PL_COUNT(follows_hit, 1);
	f->hits++;
	if (f->ahead > f->cursor)
		f->ahead_bytes -= e->bytes;
	f->cursor++;
	if (f->ahead < f->cursor)
		f->ahead = f->cursor;
	return e;
}

/* Blocks of this time stand where others stood. */
static void
stand_ins_note(struct pl_history *f, const struct entry *now, const struct entry *then)
{
	for (uint32_t i = 0; i < now->n; i++) {
		const struct used *u = use_of(f, now, i), *old = use_of(f, then, i);

		if (old->id != u->id)
			*stand_in_of(f, old->id) = (struct stand_in){old->id, old->addr,
								     u->id, u->addr};
	}
}

/* What had to be fetched for this scope had left after its use before. */
static void
fetched_note(struct pl_history *f, const struct entry *now, const struct entry *then,
	     const struct sluice_launch *launch)
{
	for (uint32_t i = 0; i < now->n; i++) {
		uint64_t prev = use_of(f, now, i)->prev;

		if (!sl_launch_fetched(launch, i) && (!then || !use_of(f, then, i)->asked))
			continue;
		f->fetched[f->fetched_head++ % FETCH_MAX] = now->first + i;
		if (!f->stays_period && use_is_there(f, prev)) {
			struct used *before = &f->uses[(prev - 1) % USES_MAX];

			before->leaves = before->bytes;
		}
	}
}

/* What did not stay behind this scope last time is not to stay again. */
static void
rest_leave(struct pl_gpu *gpu, struct pl_history *f, const struct entry *now,
	   const struct entry *then)
{
	for (uint32_t i = 0; i < then->n; i++) {
		const struct used *u = use_of(f, now, i);
		uint64_t leaves = leaves_as(u, use_of(f, then, i));

		if (leaves && u->id)
			sl_evict_later(gpu->space,
				       (void *)(uintptr_t)(u->addr + u->bytes - leaves),
				       leaves);
	}
}

/* Ask for one use of last time; spare as in sl_ahead(). -ENOENT: it does not exist yet. -ENOBUFS: there is no
 * spare room for it now. */
static int
use_ahead(struct pl_gpu *gpu, struct pl_history *f, struct used *u, int spare)
{
	const struct stand_in *other = stand_in_of(f, u->id);
	uint64_t addr = u->addr, id = u->id;
	const struct pl_block *block;
	int rc;

	if (other->then_id == id && id) {
		addr += other->addr - other->then_addr;
		id = other->id;
	}
	block = pl_block_find(addr);
	if (!block || block->id != id || addr + u->bytes > block->base + block->room)
		return -ENOENT;
	rc = sl_ahead(gpu->space, (void *)(uintptr_t)addr, u->bytes, spare);
	if (rc > 0)
		u->asked = 1;
	return rc;
}

/* Whether the next scope to be looked at may be: the device has to hold it beside what is used now, and
 * those before it. */
static int
ahead_fits(const struct pl_gpu *gpu, const struct pl_history *f, const struct entry *now,
	   const struct entry *e)
{
	if (f->ahead == f->cursor)
		return now->bytes + e->bytes <= gpu->device_budget / 4 * 3;
	return f->ahead_bytes + e->bytes <= gpu->device_budget / AHEAD_PART;
}

/* Ask for what comes next. */
static void
ahead_go(struct pl_gpu *gpu, struct pl_history *f, const struct entry *now)
{
	for (unsigned steps = 0; f->following && steps < STEPS_MAX; steps++) {
		const struct entry *e = &f->log[f->ahead % LOG_MAX];

		if (f->ahead - f->cursor >= AHEAD_MAX || !entry_is_there(f, f->ahead) ||
		    !ahead_fits(gpu, f, now, e))
			return;
		for (uint32_t i = 0; i < e->n; i++)
			(void)use_ahead(gpu, f, use_of(f, e, i), 0);
		f->ahead_bytes += e->bytes;
		f->ahead++;
	}
}

/* Whether a use of last time may be fetched now where there is spare room: what is allocated until then does
 * not want that room. */
static int
far_is_spare(const struct pl_gpu *gpu, const struct pl_history *f, const struct used *u)
{
	return held_most(f, f->cursor, u->scope) <=
	       gpu->allocated_bytes + gpu->device_budget / HELD_PART;
}

/*
 * Ask for what was fetched last time for what comes later, in that order, as far as there is spare
 * room. It waits for one that does not exist yet, or has not left yet, or not at all: others would come before
 * it. It takes time, so not for each scope.
 */
static void
far_go(struct pl_gpu *gpu, struct pl_history *f)
{
	if (f->cursor % HELD_SCOPES)
		return;
	while (f->following && f->far < f->fetched_head) {
		struct used *u;
		uint64_t use = f->fetched[f->far % FETCH_MAX];

		if (f->fetched_head - f->far > FETCH_MAX || !use_is_there(f, use + 1)) {
			f->far = fetched_from(f, f->ahead);
			continue;
		}
		u = &f->uses[use % USES_MAX];
		if (u->scope >= f->ahead &&
		    (!far_is_spare(gpu, f, u) || use_ahead(gpu, f, u, 1) <= 0))
			return;
		f->far++;
	}
}

/* Whether the last so many scopes were those of one period before. */
static int
log_repeats(const struct pl_history *f, uint64_t scopes, uint64_t period)
{
	if (scopes + period >= LOG_MAX)
		return 0;
	for (uint64_t at = f->head - scopes; at < f->head; at++)
		if (f->log[at % LOG_MAX].hash != f->log[(at - period) % LOG_MAX].hash)
			return 0;
	return 1;
}

/* What pl_autotune_step() wants to know. */
static uint64_t
period_tell(struct pl_history *f)
{
	const struct pl_autotune *t = &f->trial;
	uint32_t n = f->head < LOG_MAX ? (uint32_t)f->head : LOG_MAX;

	if (t->period)
		return log_repeats(f, t->length, t->period) ? t->period : 0;
	for (uint32_t i = 0; i < n; i++)
		f->latest[i] = f->log[(f->head - 1 - i) % LOG_MAX].hash;
	return sl_period_find(f->latest, n, n - n / 2, f->work);
}

/* The uses of the last period, each with the number of the block's next one; the bytes of all blocks. 0: the blocks say
 * that it is none. */
static int
period_uses(struct pl_history *f, uint64_t period, struct pl_residency_use *uses,
	    uint64_t n, uint64_t *bytes)
{
	uint64_t scope = f->head - period, first = f->uses_head - n, near = 0, far = 0;

	for (uint64_t i = 0; i < n; i++) {
		const struct used *u = &f->uses[(first + i) % USES_MAX];

		uses[i] = (struct pl_residency_use){.group = u->addr / STAY_GROUP,
						    .bytes = u->bytes,
						    .scope = (uint32_t)(u->scope - scope),
						    .next = PL_STAY_NEVER};
		if (u->prev > first)
			uses[u->prev - 1 - first].next = (uint32_t)i;
	}
	/* What was there before the period is used again in the next one. */
	for (uint64_t i = 0; i < n; i++) {
		const struct used *u = &f->uses[(first + i) % USES_MAX];
		uint64_t last = i, *seen;

		if (u->prev > first)
			continue;
		*bytes += u->bytes;
		if (!use_is_there(f, u->prev))
			continue;
		seen = u->scope - f->uses[(u->prev - 1) % USES_MAX].scope > period ? &far
										   : &near;
		*seen += u->bytes;
		while (uses[last].next != PL_STAY_NEVER)
			last = uses[last].next;
		uses[last].next = (uint32_t)i;
	}
	return near && far <= near / FAR_PART;
}

/* Decide what stays from one period of so many scopes to the next. 0: the blocks say that it is no period. */
static int
stays_plan(const struct pl_gpu *gpu, struct pl_history *f, uint64_t period)
{
	uint64_t budget = gpu->device_budget, bytes = 0, n;
	struct pl_residency_use *uses;
	int planned;

	n = f->uses_head - f->log[(f->head - period) % LOG_MAX].first;
	uses = calloc(n, sizeof(*uses));
	planned = uses && period_uses(f, period, uses, n, &bytes) &&
		  !pl_residency_plan(uses, n, (uint32_t)period,
				     budget - budget / STAY_PART, budget / AHEAD_PART);
	for (uint64_t i = 0; planned && i < n; i++)
		f->uses[(f->uses_head - n + i) % USES_MAX].leaves = uses[i].bytes -
								    uses[i].stays;
	free(uses);
	if (planned)
		f->stays_bytes = bytes;
	return planned;
}

/*
 * Is it time to decide what stays? The program repeats itself after period scopes (0: not known), or after as many as
 * what comes now is behind what is followed. The first time that it does, not all that will be used again has been
 * seen twice: it is decided anew after one, two, four periods and so on.
 */
static void
stays_decide(const struct pl_gpu *gpu, struct pl_history *f, uint64_t period)
{
	uint64_t periods[] = {period, f->following ? f->head - f->cursor : 0};

	for (unsigned i = 0; i < 2; i++) {
		uint64_t p = periods[i];
		int again = f->stays_period && p % f->stays_period == 0 &&
			    p / f->stays_period <= STAY_MULTIPLE &&
			    gpu->device_budget == f->stays_budget;

		if (!p || 2 * p > f->head || !entry_is_there(f, f->head - p))
			continue;
		if (again && f->head < f->stays_next) {
			f->stays_seen = f->head;
			return;
		}
		if (!stays_plan(gpu, f, p))
			continue;
		f->stays_wait = again && f->stays_wait ? 2 * f->stays_wait : 1;
		if (f->stays_wait > STAY_PERIODS)
			f->stays_wait = STAY_PERIODS;
		f->stays_period = p;
		f->stays_budget = gpu->device_budget;
		f->stays_next = f->head + f->stays_wait * p;
		f->stays_seen = f->head;
		return;
	}
	if (f->head > f->stays_seen + STAY_PERIODS * f->stays_period)
		f->stays_period = 0;
}

/*
 * The period to compare ways by: what was found (0: it did not repeat itself exactly), or as long a one as what stays was
 * decided for, if most of the span was as expected. In some programs a few scopes differ each time, as sequences grow.
 * 0 where all that it uses fits: those are layers of a model seen for the first time, or nothing that moves.
 */
static uint64_t
period_nearly(const struct pl_history *f, uint64_t period)
{
	const struct pl_autotune *t = &f->trial;
	uint64_t missed = t->length - (f->hits - f->span_hits);

	if (!f->stays_period || f->stays_bytes <= f->stays_budget)
		return 0;
	if (period && period % f->stays_period == 0)
		return period;
	if (!t->period)
		return f->stays_period;
	return t->period == f->stays_period && missed <= t->length / MISS_PART ? t->period
									       : 0;
}

static void
way_set(struct pl_gpu *gpu, struct pl_history *f, uint64_t number, enum pl_strategy way)
{
	static const char *const names[PL_STRATEGIES] = {"ahead and patient", "ahead",
							 "without moves ahead"};

	sl_log(SL_DEBUG, "follow",
	       "launch %" PRIu64 ": %s; periods of %" PRIu64 ", last two %" PRIu64
	       " and %" PRIu64 " us",
	       number, names[way], f->trial.period, f->trial.took[0] / 1000,
	       f->trial.took[1] / 1000);
	sl_early_evict_await(gpu->space, way == PL_STRATEGY_PATIENT);
	f->way = way;
}

/* In which way this scope is followed; then: it is the expected one. */
static enum pl_strategy
way_find(struct pl_gpu *gpu, struct pl_history *f, uint64_t number, const struct entry *then)
{
	uint64_t period = 0;
	enum pl_strategy way;

	if (pl_autotune_asks(&f->trial, number)) {
		period = period_tell(f);
		stays_decide(gpu, f, period);
		period = period_nearly(f, period);
		f->span_hits = f->hits;
	}
	way = pl_autotune_step(&f->trial, number, period, sl_now_ns());
	if (pl_settings()->follow == PL_FOLLOW_ALWAYS)
		way = PL_STRATEGY_AHEAD;
	if (way != f->way)
		way_set(gpu, f, number, way);
	if (then && way == PL_STRATEGY_PLAIN)
		PL_COUNT(follows_idle, 1);
	if (then && way == PL_STRATEGY_PATIENT)
		PL_COUNT(follows_patient, 1);
	return way;
}

void
pl_history_scope(struct pl_gpu *gpu, uint64_t what, const struct sluice_use *uses,
		 size_t n, const struct sluice_launch *launch)
{
	struct pl_history *f = follow_get(gpu);
	const struct entry *now;
	struct entry *then;
	uint64_t number;
	enum pl_strategy way;

	if (!f || !n || sl_mutex_trylock(&f->lock))
		return;
	number = entry_add(f, what, uses, n);
	held_note(f, number, gpu->allocated_bytes);
	now = &f->log[number % LOG_MAX];
	then = expected_compare(f, number);
	if (then)
		then = place_mend(f, number, then);
	way = way_find(gpu, f, number, then);
	fetched_note(f, now, then, launch);
	if (then) {
		stand_ins_note(f, now, then);
		stays_hand_on(f, now, then);
	}
	if (then && way != PL_STRATEGY_PLAIN)
		rest_leave(gpu, f, now, then);
	place_find(f, number);
	if (way != PL_STRATEGY_PLAIN) {
		ahead_go(gpu, f, now);
		far_go(gpu, f);
	}
	sl_mutex_unlock(&f->lock);
}
