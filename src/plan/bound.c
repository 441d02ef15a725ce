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

/* The least time between two moments in which so many units move, so many of them a step: the
 * first step may follow the first moment at once. */
static double
steps_between(const struct bound *b, double units, uint32_t of_a_step)
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
	double out = sl_max(0, excess(b, j, p->device) - kept);
	double in = sl_max(0, excess(b, i, p->device) - b->stays[i][j]);
	double store_out = sl_max(0, excess(b, j, all) - kept);
	double store_in = sl_max(0, excess(b, i, all) - b->stays[i][j]);
	double ticks;

	switch (what) {
	case COST_OUT:
		return out;
	case COST_STORE:
		return store_out;
	case COST_TICKS:
		break;
	}
	ticks = compute_between(b, i, j);
	ticks = sl_max(ticks, steps_between(b, out, b->steps.out));
	ticks = sl_max(ticks, steps_between(b, in, b->steps.in));
	ticks = sl_max(ticks, steps_between(b, store_out, b->steps.store_out));
	return sl_max(ticks, steps_between(b, store_in, b->steps.store_in));
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
	points_choose(b);
	pairs_fill(b);
	out->compute_ticks = (uint64_t)problem.ideal;
	out->moving_ticks = (uint64_t)sl_max(problem.ideal, cut_best(b, COST_TICKS));
	out->out_bytes = (uint64_t)cut_best(b, COST_OUT) * b->steps.unit_bytes;
	out->store_bytes = (uint64_t)cut_best(b, COST_STORE) * b->steps.unit_bytes;
	b->keeps_copies = !as_published;
	out->ticks = (uint64_t)sl_max(problem.ideal, cut_best(b, COST_TICKS));
	sl_problem_fini(&problem);
	return 0;
}
