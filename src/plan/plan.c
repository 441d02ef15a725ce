/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan in memory: made empty for a trace, filled step by step.
 *
 * Leaves the meaning of a plan to whoever carries it out, its form as a file to plan_file.c, and
 * who makes it to planners.c. Threads: plain data.
 */
#include "plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_FIRST 256u

static const char *const verb_names[SL_PLAN_VERB_COUNT] = {
	[SL_PLAN_ALLOC] = "alloc",
	[SL_PLAN_FREE] = "free",
	[SL_PLAN_PREFETCH] = "prefetch",
	[SL_PLAN_EVICT_HOST] = "evict-host",
	[SL_PLAN_EVICT_STORE] = "evict-store",
};

const char *
sl_plan_verb_name(enum sl_plan_verb verb)
{
	return (unsigned)verb < SL_PLAN_VERB_COUNT ? verb_names[verb] : "?";
}

int
sl_plan_create(const struct sl_trace *trace, const char *planner, struct sl_plan **out)
{
	struct sl_plan *plan = calloc(1, sizeof(*plan));

	if (!plan)
		return sl_fail(-ENOMEM, "plan: out of memory");
	plan->planner = strdup(planner);
	if (!plan->planner) {
		free(plan);
		return sl_fail(-ENOMEM, "plan: out of memory");
	}
	plan->n_launches = trace->period_first[1] - trace->period_first[0];
	plan->n_tensors = trace->n_tensors;
	*out = plan;
	return 0;
}

void
sl_plan_destroy(struct sl_plan *plan)
{
	if (!plan)
		return;
	free(plan->planner);
	free(plan->steps);
	free(plan);
}

int
sl_plan_add(struct sl_plan *plan, uint32_t launch, enum sl_plan_verb verb, uint32_t tensor)
{
	if (launch >= plan->n_launches)
		return sl_fail(-EINVAL, "plan: step %u: launch %u of a period of %u",
			       plan->n_steps, launch, plan->n_launches);
	if (tensor >= plan->n_tensors)
		return sl_fail(-EINVAL, "plan: step %u: tensor %u of %u", plan->n_steps,
			       tensor, plan->n_tensors);
	if ((unsigned)verb >= SL_PLAN_VERB_COUNT)
		return sl_fail(-EINVAL, "plan: step %u: no such verb", plan->n_steps);
	if (plan->n_steps == plan->max_steps) {
		uint32_t max = plan->max_steps ? plan->max_steps * 2 : STEPS_FIRST;
		struct sl_plan_step *steps;

		if (plan->n_steps >= SL_PLAN_STEPS_MAX)
			return sl_fail(-E2BIG, "plan: more than %u steps", SL_PLAN_STEPS_MAX);
		steps = realloc(plan->steps, max * sizeof(*steps));
		if (!steps)
			return sl_fail(-ENOMEM, "plan: no memory for %u steps", max);
		plan->steps = steps;
		plan->max_steps = max;
	}
	plan->steps[plan->n_steps++] = (struct sl_plan_step){launch, verb, tensor};
	return 0;
}
