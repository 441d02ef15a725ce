/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefetch from history. Programs repeat themselves. The log chains the uses of each block. When a
 * launch is seen again (same function, same sizes, a block that still exists, same predecessors),
 * its successors of the previous time are expected:
 *   - Their data are fetched, up to a share of the device budget. Data that are already there
 *     count as used, so that they are not evicted just before.
 *   - Free or discarded room is filled with what is needed after that. In a backward pass the link
 *     is busy from the first gradients on.
 *   - A block that does not stay until its next use is evicted early, while the link is idle (the
 *     idea of G10: evict at the beginning of an idle period). Once the program's period is known,
 *     residency_plan.c decides what stays. Until then a block that was fetched last time is
 *     evicted early.
 * A launch that was not expected ends this; the only cost is the moves. Where fetching makes the
 * program slower, history is kept and not acted on (autotune.c).
 *
 * Launches are compared by function and sizes, not by addresses, since a program may allocate anew
 * each time. A freed block is mapped to the block that took its place in this iteration. If there
 * is none yet, it has not been allocated yet.
 *
 * Threads: those of predict.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/fault_point.h"
#include "base/hash.h"
#include "predict/past.h"
#include "predict/residency_plan.h"

/* Launches before a place that must be the same. Fewer: layers are alike, and are taken for each other.
 * More: the place is found later. */
#define ALIKE      2u
/* Part of the budget that is fetched ahead. More: it displaces what is used now. Less: the link idles. */
#define AHEAD      4u
/* What stays takes all of the device but this part of it, or so much, which is for what comes and goes.
 * Larger: less stays. Smaller: the next data find no room. Instead of a tenth, a fortieth made programs with
 * a budget of their peak 1.07 (lstm) and 2.5 times (generate) as fast, and three chunks of 32 MiB 1.1 (lstm),
 * 1.15 (llama-text) and 1.8 times (paged) as that; one was slower (lstm). At half of the peak it made no
 * difference. */
#define SPARE_PART 40u
#define SPARE_MOST (UINT64_C(96) << 20)
/* Neighbours stay together, since they may have a chunk in common. Smaller: both ends of more chunks
 * move. Larger: what stays is taken from one part of the period, and the link idles there. */
#define GROUP      (UINT64_C(256) << 20)

/* Launches that are looked at for what comes next, at once. More: a launch takes longer, some 10 ns each. */
#define EXPECTED_MAX 1024u

/* A key and the number of its newest use + 1; a newer key takes the place of another. */
struct last {
	uint64_t block, use;
};

/* Which block stands where one stood last time. */
struct stand_in {
	uint64_t then_block, then_addr;
	uint64_t block, addr;
};

struct sl_predict {
	struct sl_past past;
	struct last last[SL_PAST_TABLE];
	struct stand_in stand_ins[SL_PAST_TABLE]; /* by block of last time */
	uint64_t fetched[SL_PAST_TABLE]; /* uses that something was fetched for, in order */
	uint64_t fetched_head;           /* counts up */
	int following;
	unsigned strays; /* of the last launches, those with other sizes than expected */
	uint64_t cursor, ahead; /* next expected; next to be looked at */
	uint64_t ahead_bytes;   /* of what lies between */
	uint64_t far; /* in fetched: the next to be fetched where there is spare room */
	struct {
		uint64_t checked;       /* from the cursor to here, */
		uint64_t most, most_at; /* so much was alive at most, at that launch */
	} spare;
	struct sl_autotune tune;
	struct {
		uint64_t period;        /* launches; 0: not decided */
		uint64_t budget, bytes; /* it was decided for; of all blocks of the period */
		uint64_t wait, next; /* periods until it is decided anew; at which launch */
		uint64_t seen;       /* the launch up to which it was such a period */
	} stays;
};

/* One call of sl_predict_follow(). */
struct following {
	struct sl_predict *p;
	const struct sl_predict_now *now;
	const struct sl_predict_moves *moves;
	uint64_t number;
	const struct sl_past_launch *launch;
	struct sl_past_launch *then; /* the same one last time, if it was expected */
};

int
sl_predict_create(struct sl_predict **out)
{
	*out = sl_calloc(1, sizeof(**out));
	if (!*out)
		return sl_fail(-ENOMEM, "predict: out of memory for a log of launches");
	/* Until a trial shows otherwise: of nine programs it was slower for one (matmul), and faster for five. */
	(*out)->tune.way.encodes_more = 1;
	return 0;
}

void
sl_predict_destroy(struct sl_predict *p)
{
	free(p);
}

struct sl_past *
sl_predict_past(struct sl_predict *p)
{
	return &p->past;
}

const struct sl_autotune *
sl_predict_autotune(const struct sl_predict *p)
{
	return &p->tune;
}

static size_t
slot_of(uint64_t block)
{
	return sl_hash_add(0, block) >> 48 & (SL_PAST_TABLE - 1);
}

static struct sl_past_use *
use_of(struct sl_predict *p, const struct sl_past_launch *launch, uint32_t i)
{
	return sl_past_use(&p->past, launch, i);
}

static int
use_is_there(const struct sl_predict *p, uint64_t number_1)
{
	return number_1 && p->past.uses_head - (number_1 - 1) < SL_PAST_USES;
}

static struct sl_past_launch *
launch_at(struct sl_predict *p, uint64_t number)
{
	return sl_past_launch(&p->past, number);
}

/* ---- noting ---- */

static void
launch_note(struct sl_predict *p, const struct sl_predict_launch *launch, uint64_t alive)
{
	struct sl_past_launch *e = sl_past_add(&p->past,
					       sl_hash_add(launch->n_uses, launch->what));

	e->hash = e->what;
	e->alive = alive;
	for (size_t i = 0; i < launch->n_uses; i++) {
		uint64_t block = launch->uses[i].block;
		struct last *last = &p->last[slot_of(block)];
		struct sl_past_use *u = sl_past_add_use(&p->past, &launch->uses[i]);

		u->prev = block && last->block == block ? last->use : 0;
		*last = (struct last){block, p->past.uses_head};
		e->hash = sl_hash_add(e->hash, u->bytes);
	}
}

/* ---- the place in last time's launches ---- */

/* The two launches, and those before them, did the same. */
static int
alike(struct sl_predict *p, uint64_t a, uint64_t b)
{
	for (unsigned n = 0; n <= ALIKE; n++)
		if (a < n || !sl_past_has(&p->past, a - n) ||
		    launch_at(p, a - n)->what != launch_at(p, b - n)->what)
			return 0;
	return 1;
}

/* The first of what was fetched last time for a launch from this one on. */
static uint64_t
fetched_from(struct sl_predict *p, uint64_t launch)
{
	uint64_t high = p->fetched_head;
	uint64_t low = high < SL_PAST_TABLE ? 0 : high - SL_PAST_TABLE;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		uint64_t use = p->fetched[middle % SL_PAST_TABLE];

		if (!use_is_there(p, use + 1) ||
		    p->past.uses[use % SL_PAST_USES].launch < launch)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* How much of a use leaves, as of the one in its place last time, which may have had another size. */
static uint64_t
leaves_as(const struct sl_past_use *now, const struct sl_past_use *then)
{
	return then->leaves >= then->bytes || then->leaves > now->bytes
		       ? (then->leaves ? now->bytes : 0)
		       : then->leaves;
}

/* What was decided to stay of last time's launch stays of this one, too. */
static void
stays_hand_on(struct sl_predict *p, const struct sl_past_launch *now,
	      const struct sl_past_launch *then)
{
	for (uint32_t i = 0; p->stays.period && i < now->n; i++)
		use_of(p, now, i)->leaves = leaves_as(use_of(p, now, i), use_of(p, then, i));
}

/* Where this launch was last time, by the block of its use i, and those before it. 1: found. */
static int
place_by(struct following *f, uint32_t i)
{
	struct sl_predict *p = f->p;
	uint64_t at = use_of(p, f->launch, i)->prev;

	for (unsigned k = 0; k < SL_FEW * SL_FEW && use_is_there(p, at); k++) {
		const struct sl_past_use *u = &p->past.uses[(at - 1) % SL_PAST_USES];
		uint64_t then = u->launch;

		if (then == f->number || !alike(p, then, f->number) ||
		    at - 1 != launch_at(p, then)->first + i) {
			at = u->prev;
			continue;
		}
		p->following = 1;
		p->cursor = p->ahead = then + 1;
		p->far = fetched_from(p, p->cursor);
		p->ahead_bytes = 0;
		p->spare.checked = 0;
		p->strays = 0;
		stays_hand_on(p, f->launch, launch_at(p, then));
		return 1;
	}
	return 0;
}

/*
 * The launch is the one that is expected, or rather another one that is the same but for its blocks:
 * where its largest block has been in such a launch before, that is the place. Layers are alike, and
 * they come in the order of last time.
 */
static void
place_mend(struct following *f)
{
	uint32_t largest = 0;

	for (uint32_t i = 1; i < f->launch->n; i++)
		if (use_of(f->p, f->launch, i)->bytes > use_of(f->p, f->launch, largest)->bytes)
			largest = i;
	if (use_of(f->p, f->launch, largest)->block != use_of(f->p, f->then, largest)->block &&
	    place_by(f, largest))
		f->then = launch_at(f->p, f->p->cursor - 1);
}

/* 1: the launch was expected, or one like it: sequences grow, the last batch is smaller. */
static int
is_expected(struct following *f)
{
	struct sl_predict *p = f->p;
	const struct sl_past_launch *e = launch_at(p, p->cursor);

	if (p->cursor >= f->number || !sl_past_has(&p->past, p->cursor) ||
	    e->what != f->launch->what)
		return 0;
	p->strays = e->hash == f->launch->hash ? 0 : p->strays + 1;
	return p->strays <= SL_FEW;
}

/* Compare with what is expected, and go on to the next. */
static void
expected_compare(struct following *f)
{
	struct sl_predict *p = f->p;

	p->following = is_expected(f);
	if (!p->following)
		return;
	f->then = launch_at(p, p->cursor);
	if (p->ahead > p->cursor)
		p->ahead_bytes -= f->then->bytes;
	p->cursor++;
	if (p->ahead < p->cursor)
		p->ahead = p->cursor;
	place_mend(f);
}

/* Blocks of this time stand where others stood. */
static void
stand_ins_note(struct following *f)
{
	for (uint32_t i = 0; i < f->launch->n; i++) {
		const struct sl_past_use *u = use_of(f->p, f->launch, i);
		const struct sl_past_use *old = use_of(f->p, f->then, i);

		if (old->block != u->block)
			f->p->stand_ins[slot_of(old->block)] =
				(struct stand_in){old->block, old->addr, u->block, u->addr};
	}
}

/* What had to be fetched for this launch had left after its use before. */
static void
fetched_note(struct following *f, const struct sl_predict_launch *launch)
{
	struct sl_predict *p = f->p;

	for (uint32_t i = 0; i < f->launch->n; i++) {
		uint64_t prev = use_of(p, f->launch, i)->prev;

		if (!launch->uses[i].fetched && (!f->then || !use_of(p, f->then, i)->asked))
			continue;
		p->fetched[p->fetched_head++ % SL_PAST_TABLE] = f->launch->first + i;
		if (!p->stays.period && use_is_there(p, prev)) {
			struct sl_past_use *before = &p->past.uses[(prev - 1) % SL_PAST_USES];

			before->leaves = before->bytes;
		}
	}
}

/* ---- asking ---- */

/* What did not stay behind this launch last time is not to stay again. */
static void
rest_leave(struct following *f)
{
	for (uint32_t i = 0; i < f->then->n; i++) {
		const struct sl_past_use *u = use_of(f->p, f->launch, i);
		uint64_t leaves = leaves_as(u, use_of(f->p, f->then, i));

		if (leaves && u->block)
			f->moves->evict(f->moves->arg, u->addr + u->bytes - leaves, leaves);
	}
}

/* Fetch for a use of last time, or for the block that stands in its place by now. */
static int
use_fetch(struct following *f, struct sl_past_use *u, int spare, uint64_t leave)
{
	const struct stand_in *other = &f->p->stand_ins[slot_of(u->block)];
	struct sl_predict_use use = {.block = u->block, .addr = u->addr, .bytes = u->bytes};
	int rc;

	if (other->then_block == u->block && u->block) {
		use.addr += other->addr - other->then_addr;
		use.block = other->block;
	}
	rc = f->moves->fetch(f->moves->arg, &use, spare, leave);
	if (rc > 0 || rc == -EAGAIN)
		u->asked = 1;
	return rc;
}

/* The device has to hold the next launch beside this one, and a part of it those behind that. */
static int
ahead_fits(const struct following *f, const struct sl_past_launch *e)
{
	uint64_t part = f->now->device_bytes / AHEAD;

	if (f->p->ahead == f->p->cursor)
		return f->launch->bytes + e->bytes <= f->now->device_bytes - part;
	return f->p->ahead_bytes + e->bytes <= part;
}

static void
ahead_fetch(struct following *f)
{
	struct sl_predict *p = f->p;

	for (unsigned steps = 0; p->following && steps < SL_FEW; steps++) {
		const struct sl_past_launch *e = launch_at(p, p->ahead);

		if (!sl_past_has(&p->past, p->ahead) || !ahead_fits(f, e))
			return;
		for (uint32_t i = 0; i < e->n; i++)
			(void)use_fetch(f, use_of(p, e, i), 0, 0);
		p->ahead_bytes += e->bytes;
		p->ahead++;
	}
}

/*
 * How much more than now is alive at most, from here to a launch of last time: that takes spare room.
 * What was found the last time counts, so that few launches are looked at twice.
 */
static uint64_t
room_growth(struct following *f, uint64_t launch)
{
	struct sl_predict *p = f->p;
	uint64_t now = f->now->alive_bytes;

	if (p->spare.checked < p->cursor || p->spare.most_at < p->cursor) {
		p->spare.checked = p->cursor;
		p->spare.most = 0;
	}
	for (; p->spare.checked <= launch; p->spare.checked++) {
		uint64_t alive = launch_at(p, p->spare.checked)->alive;

		if (alive >= p->spare.most) {
			p->spare.most = alive;
			p->spare.most_at = p->spare.checked;
		}
	}
	return p->spare.most > now ? p->spare.most - now : 0;
}

/*
 * Fetch what was fetched last time for what comes later, in that order, as far as there is spare room.
 * It waits for one that does not exist yet, or has not left yet: others would come before it.
 */
static void
spare_fetch(struct following *f)
{
	struct sl_predict *p = f->p;

	while (p->cursor % SL_FEW == 0 && p->following && p->far < p->fetched_head) {
		uint64_t use = p->fetched[p->far % SL_PAST_TABLE];
		struct sl_past_use *u = &p->past.uses[use % SL_PAST_USES];

		if (p->fetched_head - p->far > SL_PAST_TABLE || !use_is_there(p, use + 1)) {
			p->far = fetched_from(p, p->ahead);
			continue;
		}
		if (u->launch >= p->ahead &&
		    use_fetch(f, u, 1, room_growth(f, u->launch)) <= 0)
			return;
		p->far++;
	}
}

/* ---- what stays ---- */

/*
 * A use of the period before is the last one of its block there: the use in its place in this period, by number; n:
 * there is none. Its block may be another one by now, and the block of then dead.
 */
static uint64_t
use_one_later(struct sl_predict *p, uint64_t use, uint64_t period, uint64_t n)
{
	uint64_t then = p->past.uses[use % SL_PAST_USES].launch,
		 first = p->past.uses_head - n;
	const struct sl_past_launch *a = launch_at(p, then), *b;

	if (!sl_past_has(&p->past, then))
		return n;
	b = launch_at(p, then + period);
	return a->what == b->what && use - a->first < b->n
		       ? b->first + (use - a->first) - first
		       : n;
}

/* The uses of the last period, each with the number of the block's next one. 0: the blocks say that it
 * is no period, since too much of what outlives it was not used in it. */
static int
period_uses(struct sl_predict *p, uint64_t period, struct sl_residency_use *uses,
	    uint64_t n, uint64_t *bytes)
{
	uint64_t launch = p->past.head - period, first = p->past.uses_head - n;
	uint64_t near = 0, far = 0;

	for (uint64_t i = 0; i < n; i++) {
		const struct sl_past_use *u = &p->past.uses[(first + i) % SL_PAST_USES];

		uses[i] = (struct sl_residency_use){.group = u->addr / GROUP,
						    .bytes = u->bytes,
						    .piece = u->grain,
						    .scope = (uint32_t)(u->launch - launch),
						    .next = SL_NEVER_USED};
		if (u->prev > first)
			uses[u->prev - 1 - first].next = (uint32_t)i;
	}
	/* What was there before the period is used again in the next one. */
	for (uint64_t i = 0; i < n; i++) {
		const struct sl_past_use *u = &p->past.uses[(first + i) % SL_PAST_USES];
		uint64_t last = i, then;

		if (u->prev > first)
			continue;
		*bytes += u->bytes;
		if (!use_is_there(p, u->prev))
			continue;
		then = p->past.uses[(u->prev - 1) % SL_PAST_USES].launch;
		if (u->launch - then > period) {
			far += u->bytes;
			while (uses[last].next != SL_NEVER_USED)
				last = uses[last].next;
		} else {
			near += u->bytes;
			last = use_one_later(p, u->prev - 1, period, n);
		}
		if (last < n && uses[last].next == SL_NEVER_USED)
			uses[last].next = (uint32_t)i;
	}
	return near && far <= near / SL_TENTH;
}

/* Decide what stays from one period of so many launches to the next. 0: it is no period. */
static int
stays_plan(struct sl_predict *p, uint64_t budget, uint64_t period)
{
	uint64_t n = p->past.uses_head - launch_at(p, p->past.head - period)->first;
	uint64_t spare = budget / SPARE_PART < SPARE_MOST ? budget / SPARE_PART : SPARE_MOST;
	struct sl_residency_use *uses = sl_calloc(n, sizeof(*uses));
	uint64_t *alive = sl_calloc(period, sizeof(*alive)), bytes = 0;
	int planned;

	for (uint64_t i = 0; alive && i < period; i++)
		alive[i] = launch_at(p, p->past.head - period + i)->alive;
	planned = uses && alive && period_uses(p, period, uses, n, &bytes) &&
		  !sl_residency_plan(uses, n, (uint32_t)period, alive, budget - spare,
				     budget / AHEAD, GROUP / 8);
	for (uint64_t i = 0; planned && i < n; i++) {
		struct sl_past_use *u = &p->past.uses[(p->past.uses_head - n + i) % SL_PAST_USES];

		/* What is not used again is freed soon, unless its block lives on. */
		u->leaves = uses[i].next == SL_NEVER_USED && u->outlives
				    ? u->bytes
				    : uses[i].bytes - uses[i].stays;
	}
	free(uses);
	free(alive);
	if (planned)
		p->stays.bytes = bytes;
	return planned;
}

/*
 * Is it time to decide what stays? The program repeats itself after period launches (0: not known), or
 * after as many as what comes now is behind what is followed. The first time that it does, not all
 * that will be used again has been seen twice: it is decided anew after one, two, four, eight and ten
 * periods.
 */
static void
stays_decide(struct following *f, uint64_t period)
{
	struct sl_predict *p = f->p;
	uint64_t head = p->past.head, budget = f->now->device_bytes;
	uint64_t periods[] = {period, p->following ? head - p->cursor : 0};

	for (unsigned i = 0; i < 2; i++) {
		uint64_t n = periods[i];
		int again = p->stays.period && n % p->stays.period == 0 &&
			    n / p->stays.period <= SL_TENTH && budget == p->stays.budget;

		if (!n || 2 * n > head || !sl_past_has(&p->past, head - n))
			continue;
		if (again && head < p->stays.next) {
			p->stays.seen = head;
			return;
		}
		if (!stays_plan(p, budget, n))
			continue;
		p->stays.wait = again ? 2 * p->stays.wait : 1;
		if (p->stays.wait > SL_TENTH)
			p->stays.wait = SL_TENTH;
		p->stays.period = n;
		p->stays.budget = budget;
		p->stays.next = head + p->stays.wait * n;
		p->stays.seen = head;
		return;
	}
	if (head > p->stays.seen + SL_TENTH * p->stays.period)
		p->stays.period = 0;
}

/* ---- which strategy ---- */

/*
 * The period to compare strategies by: the one that was found (0: it did not repeat itself exactly), or as long a one
 * as what stays was decided for, if nearly all of the span's launches so far, length of them, ran the same one
 * period before. In some programs a few launches differ each time, as sequences grow. 0 where all that it uses
 * fits: those are layers of a model seen for the first time, or nothing that moves.
 */
static uint64_t
period_nearly(struct sl_predict *p, uint64_t length, uint64_t period)
{
	if (!p->stays.period || p->stays.bytes <= p->stays.budget)
		return 0;
	if (period && period % p->stays.period == 0)
		return period;
	if (p->tune.period && p->tune.period != p->stays.period)
		return 0;
	if (!p->tune.period)
		length = p->stays.period;
	return sl_past_nearly_repeats(&p->past, length, p->stays.period) ? p->stays.period
									 : 0;
}

static struct sl_autotune_way
way_find(struct following *f)
{
	struct sl_predict *p = f->p;
	uint64_t length = f->number - p->tune.begin, period = 0;

	if (sl_autotune_asks(&p->tune, f->number, f->now->ns)) {
		if (!p->tune.period)
			period = sl_past_period(&p->past);
		else if (sl_past_repeats(&p->past, length, p->tune.period))
			period = p->tune.period;
		stays_decide(f, period);
		period = period_nearly(p, length, period);
	}
	p->tune.may_encode_more = f->now->may_encode_more;
	return sl_autotune_step(&p->tune, f->number, period, f->now->ns);
}

void
sl_predict_expected(struct sl_predict *p, const struct sl_predict_launch *launch,
		    int (*take)(void *arg, const struct sl_predict_use *use), void *arg)
{
	uint64_t at = p->cursor;

	if (!p->following || !sl_past_has(&p->past, at) ||
	    launch_at(p, at)->what != sl_hash_add(launch->n_uses, launch->what))
		return;
	for (at++; at < p->past.head && at <= p->cursor + EXPECTED_MAX; at++) {
		const struct sl_past_launch *e = launch_at(p, at);

		for (uint32_t i = 0; i < e->n; i++) {
			const struct sl_past_use *u = use_of(p, e, i);
			const struct sl_predict_use use = {.block = u->block,
							   .addr = u->addr,
							   .bytes = u->bytes};

			if (take(arg, &use))
				return;
		}
	}
}

struct sl_predict_answer
sl_predict_follow(struct sl_predict *p, const struct sl_predict_launch *launch,
		  const struct sl_predict_now *now, const struct sl_predict_moves *moves)
{
	struct following f = {.p = p, .now = now, .moves = moves, .number = p->past.head};
	struct sl_predict_answer answer = {.compared = p->following};
	int ahead;

	launch_note(p, launch, now->alive_bytes);
	f.launch = launch_at(p, f.number);
	if (p->following)
		expected_compare(&f);
	answer.expected = f.then != NULL;
	answer.way = way_find(&f);
	answer.way.encodes_more &= now->may_encode_more;
	if (now->always)
		answer.way = (struct sl_autotune_way){SL_STRATEGY_AHEAD, 0};
	ahead = answer.way.strategy != SL_STRATEGY_PLAIN;
	fetched_note(&f, launch);
	if (f.then) {
		stand_ins_note(&f);
		stays_hand_on(p, f.launch, f.then);
		if (ahead)
			rest_leave(&f);
	}
	for (uint32_t i = 0; i < f.launch->n && !p->following; i++)
		(void)place_by(&f, i);
	if (ahead) {
		ahead_fetch(&f);
		spare_fetch(&f);
	}
	return answer;
}
