/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best of the plans made for a machine and for machines with less.
 *
 * How long it takes is bounded by RUNGS_MAX plans and simulations for each of the two axes, and
 * is one of each where the first plan is near the bound, which is the rule. Memory is not an
 * axis: a plan for less of it moves more, and the planner leaves some free already.
 *
 * Threads: as many callers as there are; nothing is shared.
 */
#include "sim/best_plan.h"

#include <errno.h>
#include <math.h>

#define RUNGS_MAX  3    /* slower machines tried on each axis */
#define NEAR       1.01 /* times the bound: little more to gain */
#define RUNG_BELOW 0.97 /* a rung is at most this share of the machine's own rate */

enum axis { AXIS_LINK, AXIS_STORE, AXIS_COUNT };

struct best {
	struct sl_plan *plan;
	struct sl_sim_result result;
};

struct contest {
	const struct sl_trace *trace;
	const struct sl_machine *machine;
	const struct sl_planner *planner;
	const struct sl_sim_policy *policy;
	const struct sl_sim_options *options;
	struct best best;
};

/* The same machine with less on one axis; the way out keeps its proportion. */
static struct sl_machine
machine_less(const struct sl_machine *machine, enum axis axis, double bps)
{
	struct sl_machine less = *machine;

	switch (axis) {
	case AXIS_LINK:
		less.link_out_bps *= bps / less.link_in_bps;
		less.link_in_bps = bps;
		less.store_read_bps = fmin(less.store_read_bps, less.link_in_bps);
		less.store_write_bps = fmin(less.store_write_bps, less.link_out_bps);
		break;
	case AXIS_STORE:
		less.store_write_bps *= bps / less.store_read_bps;
		less.store_read_bps = bps;
		break;
	case AXIS_COUNT:
		break;
	}
	return less;
}

/* Plan for a machine, carry it out on ours, and keep what is better. */
static int
contest_enter(struct contest *contest, const struct sl_machine *planned_for)
{
	struct sl_planner_options planning = {.as_published = contest->options->as_published};
	struct best best = {0};
	int rc = contest->planner->make(contest->trace, planned_for, &planning, &best.plan);

	if (rc)
		return rc;
	rc = contest->policy->run(contest->trace, contest->machine, best.plan,
				  contest->options, &best.result);
	if (!rc && (!contest->best.plan ||
		    (!best.result.failed &&
		     best.result.best_ticks < contest->best.result.best_ticks))) {
		struct best worse = contest->best;

		contest->best = best;
		best = worse;
	}
	sl_plan_destroy(best.plan);
	sl_sim_result_fini(&best.result);
	return rc;
}

/* Down one axis, until no plan made for so little can be better. */
static int
axis_try(struct contest *contest, enum axis axis, const struct sl_bound *bound)
{
	const struct sl_machine *machine = contest->machine;
	double own = axis == AXIS_LINK ? machine->link_in_bps : machine->store_read_bps;
	int k = (int)floor(2 * log2(own * RUNG_BELOW / 1e9));

	for (int i = 0; i < RUNGS_MAX; i++) {
		struct sl_machine less = machine_less(machine, axis,
						      exp2((k - i) / 2.0) * 1e9);
		struct sl_bound there;
		int rc;

		if ((double)contest->best.result.best_ticks <=
		    NEAR * (double)bound->moving_ticks)
			return 0;
		rc = sl_bound_make(contest->trace, &less, contest->options->as_published,
				   &there);
		if (rc)
			return rc;
		if (there.moving_ticks >= contest->best.result.best_ticks)
			return 0;
		rc = contest_enter(contest, &less);
		/* Too slow a machine, or a plan that does not do here: no better one. */
		if (rc && rc != -ENOSPC)
			return rc;
	}
	return 0;
}

int
sl_best_plan(const struct sl_trace *trace, const struct sl_machine *machine,
	     const struct sl_planner *planner, const struct sl_sim_policy *policy,
	     const struct sl_sim_options *options, const struct sl_bound *bound,
	     struct sl_plan **plan, struct sl_sim_result *result)
{
	struct contest contest = {.trace = trace,
				  .machine = machine,
				  .planner = planner,
				  .policy = policy,
				  .options = options};
	int rc = contest_enter(&contest, machine);

	for (int axis = 0; !rc && axis < AXIS_COUNT && !contest.best.result.failed; axis++)
		rc = axis_try(&contest, (enum axis)axis, bound);
	if (rc) {
		sl_plan_destroy(contest.best.plan);
		sl_sim_result_fini(&contest.best.result);
		return rc;
	}
	*plan = contest.best.plan;
	*result = contest.best.result;
	return 0;
}
