/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a plan can be carried out at all, whatever time the moves take.
 *
 * Every step is done on the spot when its launch begins, in the plan's order. The period is
 * played twice: the first time to get everything to where the plan leaves it (what is
 * missing comes by itself), the second time in earnest: all that a launch uses is there, the
 * device's memory suffices, and no contents are given up that a later launch reads. Contents
 * are given up by a free, by an alloc or prefetch of what was freed, and nowhere else.
 *
 * Leaves time to the simulator: a move that is late makes a launch wait, no more. Threads:
 * one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "plan/sluice.h"
#include "plan_check.h"

struct checker {
	const struct sl_plan *plan;
	const struct sl_trace *trace;
	const struct sl_machine *machine;
	const struct sl_problem *problem;
	uint8_t *where; /* by tensor: enum sl_tier */
	uint8_t *dead;  /* by tensor: since its last use its contents do not matter */
	double used, host, store; /* pages */
	int in_earnest;
};

static const char *
launch_name(const struct checker *c, uint32_t launch)
{
	const struct sl_trace *trace = c->trace;

	return sl_trace_name(trace, trace->launches[trace->period_first[0] + launch].name);
}

static const char *
tensor_name(const struct checker *c, uint32_t tensor)
{
	return sl_trace_name(c->trace, c->trace->tensors[tensor].name);
}

static void
tensor_put(struct checker *c, uint32_t tensor, enum sl_tier where)
{
	double pages = c->problem->pages[tensor];

	if (c->where[tensor] == SL_AT_DEVICE)
		c->used -= pages;
	else if (c->where[tensor] == SL_AT_HOST)
		c->host -= pages;
	else if (c->where[tensor] == SL_AT_STORE)
		c->store -= pages;
	if (where == SL_AT_DEVICE)
		c->used += pages;
	else if (where == SL_AT_HOST)
		c->host += pages;
	else if (where == SL_AT_STORE)
		c->store += pages;
	c->where[tensor] = (uint8_t)where;
}

static int
contents_given_up(const struct checker *c, const struct sl_plan_step *step, const char *what)
{
	return sl_fail(
		-EINVAL,
		"plan: launch %u (%s): %s of tensor %u (%s) gives up contents that a "
		"later launch reads",
		step->launch, launch_name(c, step->launch), what, step->tensor,
		tensor_name(c, step->tensor));
}

static int
evict_check(struct checker *c, const struct sl_plan_step *step)
{
	double pages = c->problem->pages[step->tensor];
	int to_store = step->verb == SL_PLAN_EVICT_STORE;

	if (c->where[step->tensor] != SL_AT_DEVICE)
		return 0;
	/* Host memory that is full passes it on to the store. */
	if (!to_store && c->host + pages > c->problem->host)
		to_store = 1;
	if (to_store && c->in_earnest && c->store + pages > c->problem->store)
		return sl_fail(
			-EINVAL,
			"plan: launch %u (%s): neither host memory nor the store has "
			"room for tensor %u (%s)",
			step->launch, launch_name(c, step->launch), step->tensor,
			tensor_name(c, step->tensor));
	tensor_put(c, step->tensor, to_store ? SL_AT_STORE : SL_AT_HOST);
	return 0;
}

static int
step_check(struct checker *c, const struct sl_plan_step *step)
{
	uint32_t t = step->tensor;

	switch (step->verb) {
	case SL_PLAN_FREE:
		if (c->in_earnest && !c->dead[t] && c->where[t] != SL_AT_NONE)
			return contents_given_up(c, step, "the free");
		tensor_put(c, t, SL_AT_NONE);
		return 0;
	case SL_PLAN_ALLOC:
		if (c->where[t] == SL_AT_DEVICE)
			return 0;
		if (c->in_earnest && !c->dead[t])
			return contents_given_up(c, step, "the alloc");
		tensor_put(c, t, SL_AT_DEVICE);
		return 0;
	case SL_PLAN_PREFETCH:
		tensor_put(c, t, SL_AT_DEVICE);
		return 0;
	case SL_PLAN_EVICT_HOST:
	case SL_PLAN_EVICT_STORE:
		return evict_check(c, step);
	case SL_PLAN_VERB_COUNT:
		break;
	}
	return sl_fail(-EINVAL, "plan: launch %u: a step without meaning", step->launch);
}

/* Do the contents of a tensor that this launch and the next one use matter in between? */
static int
next_needs_contents(const struct checker *c, uint32_t launch, uint32_t tensor)
{
	const struct sl_trace *trace = c->trace;
	uint32_t first = trace->period_first[0], next = (launch + 1) % c->problem->n;
	const struct sl_trace_launch *now = &trace->launches[first + launch];
	const struct sl_trace_launch *then = &trace->launches[first + next];

	if (next == 0 && trace->tensors[tensor].kind != SL_TENSOR_GLOBAL)
		return 0;
	for (uint32_t i = now->first_use; i < now->first_use + now->n_uses; i++)
		if (trace->uses[i].tensor == tensor &&
		    trace->uses[i].intent == SLUICE_USE_SCRATCH)
			return 0;
	for (uint32_t i = then->first_use; i < then->first_use + then->n_uses; i++)
		if (trace->uses[i].tensor == tensor)
			return trace->uses[i].intent != SLUICE_USE_WRITE_ALL &&
			       trace->uses[i].intent != SLUICE_USE_SCRATCH;
	return 1; /* a gap follows, which says itself */
}

static int
launch_check(struct checker *c, uint32_t launch)
{
	const struct sl_problem *p = c->problem;
	char need[32], have[32];

	for (uint32_t i = p->use_first[launch]; i < p->use_first[launch + 1]; i++) {
		uint32_t t = p->use[i];

		if (c->where[t] != SL_AT_DEVICE && c->in_earnest)
			return sl_fail(
				-EINVAL,
				"plan: launch %u (%s) uses tensor %u (%s), which is "
				"not on the device then",
				launch, launch_name(c, launch), t, tensor_name(c, t));
		tensor_put(c, t, SL_AT_DEVICE);
	}
	if (c->in_earnest && c->used > p->device)
		return sl_fail(-EINVAL, "plan: launch %u (%s): %s are to be on the device, which has %s",
			       launch, launch_name(c, launch),
			       sl_size_format((uint64_t)c->used * c->machine->page_bytes,
					      need, sizeof(need)),
			       sl_size_format(c->machine->device_bytes, have, sizeof(have)));
	for (uint32_t i = p->use_first[launch]; i < p->use_first[launch + 1]; i++)
		c->dead[p->use[i]] = !next_needs_contents(c, launch, p->use[i]);
	launch = (launch + 1) % p->n;
	for (uint32_t i = p->begin_first[launch]; i < p->begin_first[launch + 1]; i++)
		c->dead[p->gaps[p->begin_gap[i]].tensor] =
			(uint8_t)p->gaps[p->begin_gap[i]].dead;
	return 0;
}

static int
period_check(struct checker *c)
{
	const struct sl_plan *plan = c->plan;
	uint32_t at = 0;

	for (uint32_t k = 0; k < c->problem->n; k++) {
		int rc = 0;

		for (; !rc && at < plan->n_steps && plan->steps[at].launch == k; at++)
			rc = step_check(c, &plan->steps[at]);
		if (!rc)
			rc = launch_check(c, k);
		if (rc)
			return rc;
	}
	return 0;
}

static int
plan_check_shape(const struct sl_plan *plan, const struct sl_trace *trace)
{
	uint32_t n = trace->period_first[1] - trace->period_first[0];

	if (plan->n_launches != n || plan->n_tensors != trace->n_tensors)
		return sl_fail(-EINVAL,
			       "plan: made for %u launches and %u tensors; the trace's "
			       "period has "
			       "%u and %u",
			       plan->n_launches, plan->n_tensors, n, trace->n_tensors);
	for (uint32_t i = 0; i < plan->n_steps; i++) {
		const struct sl_plan_step *step = &plan->steps[i];

		if (step->launch >= n || step->tensor >= trace->n_tensors)
			return sl_fail(-EINVAL,
				       "plan: step %u: launch %u or tensor %u is none", i,
				       step->launch, step->tensor);
		if (i && step->launch < plan->steps[i - 1].launch)
			return sl_fail(-EINVAL, "plan: step %u: launches do not ascend", i);
	}
	return 0;
}

int
sl_plan_check(const struct sl_plan *plan, const struct sl_trace *trace,
	      const struct sl_machine *machine)
{
	SL_CLEANUP(free) uint8_t *where = calloc((size_t)trace->n_tensors + 1, 1);
	SL_CLEANUP(free) uint8_t *dead = calloc((size_t)trace->n_tensors + 1, 1);
	struct sl_problem problem;
	struct checker checker = {.plan = plan,
				  .trace = trace,
				  .machine = machine,
				  .problem = &problem,
				  .where = where,
				  .dead = dead};
	int rc;

	if (!where || !dead)
		return sl_fail(-ENOMEM, "plan: out of memory");
	rc = sl_machine_check(machine);
	if (!rc)
		rc = plan_check_shape(plan, trace);
	if (!rc)
		rc = sl_problem_make(trace, machine, 0, &problem);
	if (rc)
		return rc == -ENOSPC ? -EINVAL : rc;
	for (int period = 0; !rc && period < 2; period++) {
		checker.in_earnest = period;
		rc = period_check(&checker);
	}
	sl_problem_fini(&problem);
	return rc;
}
