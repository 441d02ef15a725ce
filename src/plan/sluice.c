/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our planner: from the best schedule that the search finds to the steps of a plan.
 *
 * A trace whose tensors all fit at once gets a plan in which nothing moves and nothing is
 * freed: only fresh memory is asked for ahead of time, which does nothing where the memory is
 * there still. The method is in docs/design/planner.md; the other files are listed in
 * sluice.h. Threads: any number of calls at once.
 */
#include <errno.h>
#include <math.h>

#include "plan/sluice.h"

struct writer {
	struct sl_plan *plan;
	int all_fits;
};

/* sl_schedule_step: write it down. */
static int
sluice_plan_step(void *arg, uint32_t launch, enum sl_plan_verb verb, uint32_t tensor)
{
	struct writer *writer = arg;

	if (verb == SL_PLAN_VERB_COUNT || (writer->all_fits && verb != SL_PLAN_ALLOC))
		return 0;
	return sl_plan_add(writer->plan, launch, verb, tensor);
}

static int
sluice_plan_make(const struct sl_trace *trace, const struct sl_problem *problem,
		 const struct sl_planner_options *options, struct sl_plan **out)
{
	struct writer writer = {.all_fits = problem->total <= problem->device};
	struct sl_schedule best = {0};
	double ticks;
	int rc = sl_plan_create(trace, sl_planner_sluice.name, &writer.plan);

	if (!rc)
		rc = sl_schedule_init(&best, problem);
	if (!rc)
		rc = sl_search(problem, options, &best);
	if (!rc && best.stuck_at != SL_NO_LAUNCH)
		rc = sl_fail(
			-ENOSPC,
			"plan: launch %u cannot get its room: host memory and store are "
			"too small for what has to leave the device",
			best.stuck_at);
	if (!rc)
		rc = sl_schedule_steps(&best, problem, sluice_plan_step, &writer);
	ticks = writer.all_fits ? problem->ideal : best.period;
	sl_schedule_fini(&best);
	if (rc) {
		sl_plan_destroy(writer.plan);
		return rc;
	}
	writer.plan->predicted_ns = (uint64_t)(ticks / (double)trace->clock_hz * 1e9);
	*out = writer.plan;
	return 0;
}

static int
sluice_make(const struct sl_trace *trace, const struct sl_machine *machine,
	    const struct sl_planner_options *options, struct sl_plan **out)
{
	static const struct sl_planner_options none = {0};
	struct sl_problem problem;
	int rc = sl_machine_check(machine);

	if (!options)
		options = &none;
	if (!rc)
		rc = sl_problem_make(trace, machine, options->as_published, &problem);
	if (rc)
		return rc;
	rc = sluice_plan_make(trace, &problem, options, out);
	sl_problem_fini(&problem);
	return rc;
}

const struct sl_planner sl_planner_sluice = {"sluice", sluice_make};
