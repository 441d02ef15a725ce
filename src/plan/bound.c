/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lower bound.
 *
 * When launch j runs, all that it uses and all that is alive is somewhere, and only so much
 * of it on the device: the rest, the excess D(j), is outside. Between a launch i and a later
 * launch j, what is outside at j left in between, unless it was already outside at i; and
 * that is at most G(i, j), the tensors that no launch from i to j uses. So between i and j at
 * least D(j) - G(i, j) has to go out, and by the same reason D(i) - G(i, j) has to come in,
 * each at the speed of its link; for what exceeds host memory as well, the same holds with the
 * store. In that time the launches between them run, too. The time from i to j is at least
 * the largest of these five.
 *
 * That holds for schedules that move whatever leaves. Where a copy that is still good need not be
 * written again, which is so on all but the published machine, only what a launch changed in
 * between has to go out: what is outside at j and was changed by no launch since i may have left
 * for nothing, C(i, j). The bound for all schedules has that in place of G for what goes out.
 *
 * A period is cut at some launches, and what its pieces take at least is added. Any cut gives
 * a bound; the best is found by dynamic programming over a few dozen launches where the
 * excess is at its peaks and in its valleys.
 *
 * Threads: pure.
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
	const struct sl_problem *p;
	uint32_t point[POINTS_MAX]; /* launches, ascending */
	uint32_t count;
	double compute[POINTS_MAX + 1]; /* ticks of the launches before the point */
	/* By piece, from one point to a later one, cyclically. */
	double stays[POINTS_MAX][POINTS_MAX]; /* G: pages that may be outside at both ends */
	double clean[POINTS_MAX][POINTS_MAX]; /* C: that may be outside at the second for nothing */
	int keeps_copies; /* of the schedules that are bounded at present */
	double cost[POINTS_MAX][POINTS_MAX];
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

/* For every gap that has a point: pairs of any point since the last change and one in it. */
static void
clean_fill(struct bound *b)
{
	const struct sl_problem *p = b->p;

	for (uint32_t g = 0; g < p->n_gaps; g++) {
		const struct sl_gap *gap = &p->gaps[g];

		for (uint32_t j = 0; j < b->count && !gap->dead; j++) {
			uint32_t in = (b->point[j] + p->n - gap->begin) % p->n;

			for (uint32_t i = 0; i < b->count && in < gap->length; i++) {
				uint32_t apart = (b->point[j] + p->n - b->point[i]) % p->n;

				if (i != j && apart <= in + gap->clean)
					b->clean[i][j] += p->pages[gap->tensor];
			}
		}
	}
}

/* For every gap: each pair of points in it, the earlier one first. */
static void
stays_fill(struct bound *b)
{
	const struct sl_problem *p = b->p;

	for (uint32_t g = 0; g < p->n_gaps; g++) {
		const struct sl_gap *gap = &p->gaps[g];
		uint32_t first = 0, inside = 0;

		if (gap->dead)
			continue;
		while (first < b->count && b->point[first] < gap->begin)
			first++;
		while (inside < b->count &&
		       (b->point[(first + inside) % b->count] + p->n - gap->begin) % p->n <
			       gap->length)
			inside++;
		for (uint32_t i = 0; i < inside; i++)
			for (uint32_t j = i + 1; j < inside; j++)
				b->stays[(first + i) % b->count][(first + j) % b->count] +=
					p->pages[gap->tensor];
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
	double ticks = b->compute[j] - b->compute[i];

	if (j <= i)
		ticks += b->p->ideal;
	return ticks - b->p->ticks[b->point[i]];
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
	ticks = sl_max(compute_between(b, i, j), sl_max(out / p->out, in / p->in));
	if (store_out > 0)
		ticks = sl_max(ticks, store_out / p->store_out);
	if (store_in > 0)
		ticks = sl_max(ticks, store_in / p->store_in);
	return ticks;
}

/* The costliest way around the period. */
static double
cut_best(struct bound *b, enum cost what)
{
	double best = 0, way[POINTS_MAX];

	for (uint32_t i = 0; i < b->count; i++)
		for (uint32_t j = 0; j < b->count; j++)
			b->cost[i][j] = i == j ? 0 : piece_cost(b, i, j, what);
	for (uint32_t first = 0; first < b->count; first++) {
		way[first] = 0;
		for (uint32_t j = first + 1; j < b->count; j++) {
			way[j] = -INFINITY;
			for (uint32_t i = first; i < j; i++)
				way[j] = sl_max(way[j], way[i] + b->cost[i][j]);
			best = sl_max(best, way[j] + b->cost[j][first]);
		}
	}
	return best;
}

/* The store as fast as it can be on this machine, whatever a planner counts on. */
static void
problem_rates(struct sl_problem *problem, uint64_t clock_hz, const struct sl_machine *machine)
{
	double per_tick = 1 / ((double)machine->page_bytes * (double)clock_hz);

	problem->store_in = sl_max(problem->store_in,
				   machine->store_read_bps / machine->n_gpus * per_tick);
	problem->store_out = sl_max(problem->store_out,
				    machine->store_write_bps / machine->n_gpus * per_tick);
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
		rc = sl_problem_make(trace, machine, as_published, &problem);
	if (rc)
		/* cppcheck-suppress memleak; it does not know SL_CLEANUP */
		return rc;
	if (!as_published)
		problem_rates(&problem, trace->clock_hz, machine);
	b->p = &problem;
	points_choose(b);
	stays_fill(b);
	clean_fill(b);
	out->compute_ticks = (uint64_t)problem.ideal;
	out->moving_ticks = (uint64_t)sl_max(problem.ideal, cut_best(b, COST_TICKS));
	out->out_bytes = (uint64_t)cut_best(b, COST_OUT) * machine->page_bytes;
	out->store_bytes = (uint64_t)cut_best(b, COST_STORE) * machine->page_bytes;
	b->keeps_copies = !as_published;
	out->ticks = (uint64_t)sl_max(problem.ideal, cut_best(b, COST_TICKS));
	sl_problem_fini(&problem);
	return 0;
}
