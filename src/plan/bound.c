/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lower bound of one period, whatever came before it. docs/design/planner.md has the
 * argument in full.
 *
 * In each launch there is a moment at which all its data are on the device. Consider that moment
 * of launch j. Only a part of the other live data is on the device; the rest, the excess D(j),
 * is outside. Take launch i before j. Data outside at j left in between, or they were already
 * outside at i. The latter is at most G(i, j), the tensors that no launch from i to j uses. So
 * between the two moments at least D(j) - G(i, j) has to move out. For the same reason D(i) -
 * G(i, j) has to move in. Both go in steps of limited size. The same holds with the store for
 * the excess over host memory. The launches in between run in that time, too. So the time from i
 * to j is at least the largest of these five.
 *
 * That holds for schedules that move all leaving data. On all machines but the published one a
 * copy that is still good need not be written again. Then only data that a launch changed in
 * between have to move out. Data that no launch changed since i may have left for nothing: C(i,
 * j). The bound for all schedules has it in place of G for the moves out.
 *
 * If the link compresses, the units that have to move are the cheapest that can be meant: of the
 * gaps that hold j and not i, or i and not j, those whose moves take the least time
 * (moves_fill()).
 *
 * A period is cut at some launches, and the least times of its pieces are added. Any cut gives a
 * bound. Dynamic programming finds the best, over a few dozen launches where the excess has its
 * peaks and valleys. No piece reaches over the end of the period: its moves may have been made
 * in the period before, which takes longer then.
 *
 * Sizes and steps are those of the simulated machine (sl_machine_steps()), so that rounding
 * loses or wins nothing. Threads: pure.
 */
#include "plan/bound.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "plan/sluice.h"

#define PARTS      40 /* of the period; from each its highest and lowest launch */
#define POINTS_MAX (2 * PARTS) /* launches at which a period may be cut */

struct bound {
	const struct sl_problem *p; /* in units of the steps */
	struct sl_machine_steps steps;
	uint32_t point[POINTS_MAX]; /* launches, ascending */
	uint32_t count;
	double compute[POINTS_MAX + 1]; /* ticks of the launches before the point */
	/* By piece, from one point to a later one. */
	double stays[POINTS_MAX][POINTS_MAX]; /* G: pages that may be outside at both ends */
	double clean[POINTS_MAX][POINTS_MAX]; /* C: that may be outside at the second for nothing */
	struct move {
		double least; /* units that have to move in the piece */
		double found; /* of them, those that the cheapest gaps so far have */
		double parts; /* what they take of the link, SL_TRACE_RATIO_ONE a raw unit */
	} in[POINTS_MAX][POINTS_MAX], out[POINTS_MAX][POINTS_MAX];
	struct sl_move_cost (*cost)[SL_WAY_COUNT]; /* by tensor; NULL: all moves raw */
	uint32_t *order;                           /* with cost: the gaps in an order */
	uint32_t first[SL_TRACE_RATIO_ONE + 2]; /* by cost: place of its next gap in that order */
	int keeps_copies; /* of the schedules that are bounded at present */
};

static void
points_choose(struct bound *b)
{
	const struct sl_problem *p = b->p;
	uint32_t k = 0;
	double before = 0;

	for (int part = 0; part < PARTS && k < p->n; part++) {
		uint32_t high = k, low = k, first, second;

		do {
			if (p->base[k] > p->base[high])
				high = k;
			if (p->base[k] < p->base[low])
				low = k;
			before += p->ticks[k++];
		} while (k < p->n && before < p->ideal * (part + 1) / PARTS);
		first = high < low ? high : low;
		second = high < low ? low : high;
		b->point[b->count++] = first;
		if (second != first)
			b->point[b->count++] = second;
	}
	before = 0;
	k = 0;
	for (uint32_t i = 0; i < b->count; i++) {
		for (; k < b->point[i]; k++)
			before += p->ticks[k];
		b->compute[i] = before;
	}
}

/* For every gap: each pair of points in it with no use in between; and each pair of any point since
 * the last change and one in it. */
static void
pairs_fill(struct bound *b)
{
	const struct sl_problem *p = b->p;

	for (uint32_t g = 0; g < p->n_gaps; g++) {
		const struct sl_gap *gap = &p->gaps[g];

		for (uint32_t j = 0; j < b->count && !gap->dead; j++) {
			uint32_t in = (b->point[j] + p->n - gap->begin) % p->n;

			if (in >= gap->length)
				continue;
			for (uint32_t i = j;
			     i-- > 0 && b->point[j] - b->point[i] <= in + gap->clean;) {
				b->clean[i][j] += p->pages[gap->tensor];
				if (b->point[j] - b->point[i] <= in)
					b->stays[i][j] += p->pages[gap->tensor];
			}
		}
	}
}

static double
excess(const struct bound *b, uint32_t i, double room)
{
	return sl_max(0, b->p->base[b->point[i]] - room);
}

/* Ticks of the launches strictly between two points. */
static double
compute_between(const struct bound *b, uint32_t i, uint32_t j)
{
	return b->compute[j] - b->compute[i] - b->p->ticks[b->point[i]];
}

/* What can be meant by the units of a move: pages of a gap, at this cost. */
static void
move_add(struct move *move, double pages, uint32_t cost)
{
	double units = sl_min(pages, move->least - move->found);

	if (units <= 0)
		return;
	move->found += units;
	move->parts += units * cost;
}

/* Which tensors leave in a piece: those of gaps that hold its second launch, but not the first
 * as well (or have been clean since then). They come by it: those of gaps that hold the first
 * and not the second. */
static void
gap_move(struct bound *b, const struct sl_gap *gap, enum sl_way way)
{
	const struct sl_problem *p = b->p;
	uint32_t cost = b->cost[gap->tensor][way].time;
	double pages = p->pages[gap->tensor];

	for (uint32_t k = 0; k < b->count; k++) {
		uint32_t in = (b->point[k] + p->n - gap->begin) % p->n, apart;

		if (in >= gap->length)
			continue;
		for (uint32_t i = 0; i < k && way == SL_WAY_OUT; i++) {
			apart = b->point[k] - b->point[i];
			if (apart > in + (b->keeps_copies ? gap->clean : 0))
				move_add(&b->out[i][k], pages, cost);
		}
		for (uint32_t j = k + 1; j < b->count && way == SL_WAY_IN; j++) {
			apart = b->point[j] - b->point[k];
			if (apart >= gap->length - in)
				move_add(&b->in[k][j], pages, cost);
		}
	}
}

/* The gaps by cost, the cheapest first; of the same by number. */
static void
gaps_order(struct bound *b, enum sl_way way)
{
	const struct sl_problem *p = b->p;

	memset(b->first, 0, sizeof(b->first));
	for (uint32_t g = 0; g < p->n_gaps; g++)
		b->first[b->cost[p->gaps[g].tensor][way].time + 1]++;
	for (uint32_t cost = 0; cost <= SL_TRACE_RATIO_ONE; cost++)
		b->first[cost + 1] += b->first[cost];
	for (uint32_t g = 0; g < p->n_gaps; g++)
		b->order[b->first[b->cost[p->gaps[g].tensor][way].time]++] = g;
}

/* What each piece has to move each way at least, and what that takes of the link. */
static void
moves_fill(struct bound *b)
{
	const struct sl_problem *p = b->p;

	for (uint32_t j = 0; j < b->count; j++) {
		for (uint32_t i = 0; i < j; i++) {
			double kept = b->keeps_copies ? b->clean[i][j] : b->stays[i][j];
			double out = sl_max(0, excess(b, j, p->device) - kept);
			double in = sl_max(0, excess(b, i, p->device) - b->stays[i][j]);

			b->out[i][j] = (struct move){out, 0, out * SL_TRACE_RATIO_ONE};
			b->in[i][j] = (struct move){in, 0, in * SL_TRACE_RATIO_ONE};
			if (b->cost)
				b->out[i][j].parts = b->in[i][j].parts = 0;
		}
	}
	for (int way = 0; way < SL_WAY_COUNT && b->cost; way++) {
		gaps_order(b, (enum sl_way)way);
		for (uint32_t i = 0; i < p->n_gaps; i++)
			if (!p->gaps[b->order[i]].dead)
				gap_move(b, &p->gaps[b->order[i]], (enum sl_way)way);
	}
}

/* The least time between two moments in which so many units move, so many of them a step: the
 * first step may follow the first moment at once. */
static double
steps_between(const struct bound *b, double units, double of_a_step)
{
	return sl_max(0, ceil(units / of_a_step) - 1) * (double)b->steps.step_ticks;
}

enum cost { COST_TICKS, COST_OUT, COST_STORE };

static double
piece_cost(const struct bound *b, uint32_t i, uint32_t j, enum cost what)
{
	const struct sl_problem *p = b->p;
	double all = p->device + p->host;
	double kept = b->keeps_copies ? b->clean[i][j] : b->stays[i][j];
	double store_out = sl_max(0, excess(b, j, all) - kept);
	double store_in = sl_max(0, excess(b, i, all) - b->stays[i][j]);
	double ticks;

	switch (what) {
	case COST_OUT:
		return b->out[i][j].least;
	case COST_STORE:
		return store_out;
	case COST_TICKS:
		break;
	}
	ticks = compute_between(b, i, j);
	ticks = sl_max(ticks, steps_between(b, b->out[i][j].parts,
					    (double)b->steps.out * SL_TRACE_RATIO_ONE));
	ticks = sl_max(ticks, steps_between(b, b->in[i][j].parts,
					    (double)b->steps.in * SL_TRACE_RATIO_ONE));
	ticks = sl_max(ticks, steps_between(b, store_out, b->steps.store_out));
	return sl_max(ticks, steps_between(b, store_in, b->steps.store_in));
}

/* By tensor, if the link compresses. 0 or -ENOMEM. */
static int
costs_make(struct bound *b, const struct sl_trace *trace, const struct sl_machine *machine)
{
	const struct sl_problem *p = b->p;

	if (!(machine->encode_bps > 0))
		return 0;
	b->cost = calloc((size_t)p->n_tensors + 1, sizeof(*b->cost));
	b->order = calloc((size_t)p->n_gaps + 1, sizeof(*b->order));
	if (!b->cost || !b->order)
		return sl_fail(-ENOMEM, "plan: no memory for %u tensors", p->n_tensors);
	for (uint32_t t = 0; t < p->n_tensors; t++)
		for (int way = 0; way < SL_WAY_COUNT; way++)
			b->cost[t][way] = sl_machine_move(machine, (enum sl_way)way,
							  trace->tensors[t].ratio);
	return 0;
}

/* The costliest way through the period. */
static double
cut_best(struct bound *b, enum cost what)
{
	const struct sl_problem *p = b->p;
	double best = 0, way[POINTS_MAX];

	for (uint32_t j = 0; j < b->count; j++) {
		double behind = 0;

		/* What is before the first point and behind the last one computes. */
		way[j] = what == COST_TICKS ? b->compute[j] : 0;
		for (uint32_t i = 0; i < j; i++)
			way[j] = sl_max(way[j], way[i] + piece_cost(b, i, j, what));
		if (what == COST_TICKS)
			behind = p->ideal - b->compute[j] - p->ticks[b->point[j]];
		best = sl_max(best, way[j] + behind);
	}
	return best;
}

/* The problem in units, and GPUs that do the same at the same time. */
static int
units_make(const struct sl_trace *trace, const struct sl_machine *machine,
	   int as_published, struct sl_machine_steps *steps, struct sl_problem *problem)
{
	struct sl_machine fine = *machine;
	int rc = sl_machine_steps(machine, trace->clock_hz, as_published, steps);

	if (rc)
		return rc;
	fine.page_bytes = (uint32_t)steps->unit_bytes;
	rc = sl_problem_make(trace, &fine, as_published, problem);
	/* What does not fit in units does not in pages, which are what the text is to name. */
	if (rc == -ENOSPC)
		rc = sl_problem_make(trace, machine, as_published, problem);
	steps->store_in /= machine->n_gpus;
	steps->store_out /= machine->n_gpus;
	steps->store_in += !steps->store_in;
	steps->store_out += !steps->store_out;
	return rc;
}

int
sl_bound_make(const struct sl_trace *trace, const struct sl_machine *machine,
	      int as_published, struct sl_bound *out)
{
	SL_CLEANUP(free) struct bound *b = calloc(1, sizeof(*b));
	struct sl_problem problem;
	int rc = sl_machine_check(machine);

	if (!rc && !b)
		rc = sl_fail(-ENOMEM, "plan: out of memory");
	if (!rc)
		rc = units_make(trace, machine, as_published, &b->steps, &problem);
	if (rc)
		/* cppcheck-suppress memleak; it does not know SL_CLEANUP */
		return rc;
	b->p = &problem;
	if (!as_published)
		rc = costs_make(b, trace, machine);
	if (rc)
		goto out;
	points_choose(b);
	pairs_fill(b);
	moves_fill(b);
	out->compute_ticks = (uint64_t)problem.ideal;
	out->moving_ticks = (uint64_t)sl_max(problem.ideal, cut_best(b, COST_TICKS));
	out->out_bytes = (uint64_t)cut_best(b, COST_OUT) * b->steps.unit_bytes;
	out->store_bytes = (uint64_t)cut_best(b, COST_STORE) * b->steps.unit_bytes;
	b->keeps_copies = !as_published;
	moves_fill(b);
	out->ticks = (uint64_t)sl_max(problem.ideal, cut_best(b, COST_TICKS));
out:
	free(b->cost);
	free(b->order);
	sl_problem_fini(&problem);
	return rc;
}
