/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One period of a trace made ready for simulation: what each launch needs and how, when each
 * tensor is born and dead; and the results that every policy fills.
 *
 * Lives are those of a period that repeats: an intermediate tensor is born by the first
 * launch that uses it and dead after the last that reads its contents; one that nobody
 * reads is dead after its first launch. Globals are always alive.
 *
 * Threads: the caller's objects.
 */
#include "sim/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int
intent_reads(enum sluice_intent intent)
{
	switch (intent) {
	case SLUICE_USE_READ:
	case SLUICE_USE_READ_WRITE:
		return 1;
	case SLUICE_USE_WRITE:
	case SLUICE_USE_WRITE_ALL:
	case SLUICE_USE_SCRATCH:
	case SLUICE_USE_COUNT:
		break;
	}
	return 0;
}

static void
lives_fill(struct sl_sim_work *work)
{
	const struct sl_trace *trace = work->trace;
	uint32_t launch, i, tensor;

	for (tensor = 0; tensor < work->n_tensors; tensor++)
		work->birth[tensor] = SL_TRACE_NONE;
	for (launch = 0; launch < work->n_launches; launch++) {
		const struct sl_sim_work_launch *w = &work->launches[launch];

		for (i = w->first; i < w->first + w->n; i++) {
			tensor = work->need[i];
			if (work->birth[tensor] == SL_TRACE_NONE) {
				work->birth[tensor] = launch;
				work->death[tensor] = launch + 1;
			}
			if (work->role[i] == SL_ROLE_INPUT)
				work->death[tensor] = launch + 1;
		}
	}
	for (tensor = 0; tensor < work->n_tensors; tensor++) {
		if (trace->tensors[tensor].kind != SL_TENSOR_GLOBAL)
			continue;
		work->lasts[tensor] = 1;
		work->birth[tensor] = 0;
		work->death[tensor] = work->n_launches;
	}
}

/* Newest tensors first, as the artifact's hashed sets have them (departure 5). */
static void
needs_add(struct sl_sim_work *work, const struct sl_trace_launch *from,
	  struct sl_sim_work_launch *w, uint32_t *n_needs, enum sl_sim_role role)
{
	const struct sl_trace *trace = work->trace;
	uint32_t i;

	for (i = from->n_uses; i-- > 0;) {
		const struct sl_trace_use *use = &trace->uses[from->first_use + i];

		if (intent_reads(use->intent) != (role == SL_ROLE_INPUT))
			continue;
		work->need[*n_needs] = use->tensor;
		work->role[*n_needs] = (uint8_t)role;
		work->writes[*n_needs] = use->intent != SLUICE_USE_READ;
		work->overwrites[*n_needs] = use->intent == SLUICE_USE_WRITE_ALL ||
					     use->intent == SLUICE_USE_SCRATCH;
		w->bytes += trace->tensors[use->tensor].size_bytes;
		(*n_needs)++;
	}
}

int
sl_sim_work_init(struct sl_sim_work *work, const struct sl_trace *trace,
		 const struct sl_sim_options *options)
{
	uint32_t first, end, launch, n_needs = 0;

	memset(work, 0, sizeof(*work));
	if (options->period >= trace->n_periods)
		return sl_fail(-EINVAL, "simulator: period %u of a trace that has %u",
			       options->period, trace->n_periods);
	first = trace->period_first[options->period];
	end = trace->period_first[options->period + 1];
	work->trace = trace;
	work->n_launches = end - first;
	work->n_tensors = trace->n_tensors;
	for (launch = first; launch < end; launch++)
		n_needs += trace->launches[launch].n_uses;

	work->launches = calloc((size_t)work->n_launches + 1, sizeof(*work->launches));
	work->need = calloc((size_t)n_needs + 1, sizeof(*work->need));
	work->role = calloc((size_t)n_needs + 1, sizeof(*work->role));
	work->writes = calloc((size_t)n_needs + 1, sizeof(*work->writes));
	work->overwrites = calloc((size_t)n_needs + 1, sizeof(*work->overwrites));
	work->lasts = calloc((size_t)work->n_tensors + 1, sizeof(*work->lasts));
	work->birth = calloc((size_t)work->n_tensors + 1, sizeof(*work->birth));
	work->death = calloc((size_t)work->n_tensors + 1, sizeof(*work->death));
	if (!work->launches || !work->need || !work->role || !work->writes ||
	    !work->overwrites || !work->lasts || !work->birth || !work->death) {
		sl_sim_work_fini(work);
		return sl_fail(-ENOMEM, "simulator: no memory for %u launches", end - first);
	}

	n_needs = 0;
	for (launch = 0; launch < work->n_launches; launch++) {
		const struct sl_trace_launch *from = &trace->launches[first + launch];
		struct sl_sim_work_launch *w = &work->launches[launch];

		w->trace_launch = first + launch;
		w->ticks = from->ticks;
		w->fault_output_ticks = from->fault_output_ticks;
		w->fault_all_ticks = from->fault_all_ticks;
		if (w->fault_output_ticks < w->ticks)
			w->fault_output_ticks = w->ticks;
		if (w->fault_all_ticks < w->fault_output_ticks)
			w->fault_all_ticks = w->fault_output_ticks;
		work->ideal_ticks += w->ticks;
		w->first = n_needs;
		w->n = from->n_uses;
		needs_add(work, from, w, &n_needs, SL_ROLE_INPUT);
		w->n_inputs = n_needs - w->first;
		needs_add(work, from, w, &n_needs, SL_ROLE_OUTPUT);
	}
	lives_fill(work);
	return 0;
}

void
sl_sim_work_fini(struct sl_sim_work *work)
{
	free(work->launches);
	free(work->need);
	free(work->role);
	free(work->writes);
	free(work->overwrites);
	free(work->lasts);
	free(work->birth);
	free(work->death);
	memset(work, 0, sizeof(*work));
}

int
sl_result_init(struct sl_sim_result *result, const struct sl_sim_work *work, uint32_t periods)
{
	memset(result, 0, sizeof(*result));
	result->n_periods = periods;
	result->n_launches = work->n_launches;
	result->ideal_ticks = work->ideal_ticks;
	result->period_ticks = calloc(periods, sizeof(*result->period_ticks));
	result->launches = calloc((size_t)periods * work->n_launches + 1,
				  sizeof(*result->launches));
	result->period_bytes = calloc(periods, sizeof(*result->period_bytes));
	result->period_saved_bytes = calloc(periods, sizeof(*result->period_saved_bytes));
	result->period_faults = calloc(periods, sizeof(*result->period_faults));
	if (!result->period_ticks || !result->launches || !result->period_bytes ||
	    !result->period_saved_bytes || !result->period_faults) {
		sl_sim_result_fini(result);
		return sl_fail(-ENOMEM, "simulator: no memory for results of %u launches",
			       work->n_launches);
	}
	return 0;
}

void
sl_sim_result_fini(struct sl_sim_result *result)
{
	free(result->period_ticks);
	free(result->launches);
	free(result->period_bytes);
	free(result->period_saved_bytes);
	free(result->period_faults);
	memset(result, 0, sizeof(*result));
}

void
sl_result_too_big(struct sl_sim_result *result, const struct sl_sim_work *work,
		  uint32_t launch, uint64_t bytes, uint64_t device_bytes)
{
	const struct sl_trace *trace = work->trace;
	uint32_t number = work->launches[launch].trace_launch;

	result->failed = 1;
	snprintf(
		result->why, sizeof(result->why),
		"launch %u%s%s needs %llu bytes of device memory at once, there are %llu",
		number, trace->launches[number].name == SL_TRACE_NONE ? "" : " ",
		sl_trace_name(trace, trace->launches[number].name),
		(unsigned long long)bytes, (unsigned long long)device_bytes);
}

/* As published, the fastest period is reported (departure 4); else the last, which has seen
 * what the ones before it left behind. */
void
sl_result_choose(struct sl_sim_result *result, int as_published)
{
	uint32_t period, best = result->n_periods - 1;

	for (period = 0; period < result->n_periods && as_published; period++)
		if (result->period_ticks[period] < result->period_ticks[best])
			best = period;
	result->best_period = best;
	result->best_ticks = result->period_ticks[best];
	result->faults = result->period_faults[best];
	memcpy(result->bytes, result->period_bytes[best], sizeof(result->bytes));
	memcpy(result->saved_bytes, result->period_saved_bytes[best],
	       sizeof(result->saved_bytes));
}

int
sl_plan_fits(const struct sl_plan *plan, const struct sl_sim_work *work)
{
	uint32_t i;

	if (!plan)
		return sl_fail(-EINVAL,
			       "simulator: this policy carries out a plan: give one");
	if (plan->n_launches != work->n_launches || plan->n_tensors != work->n_tensors)
		return sl_fail(-EINVAL,
			       "simulator: the plan is for %u launches and %u tensors, "
			       "the trace has %u "
			       "and %u",
			       plan->n_launches, plan->n_tensors, work->n_launches,
			       work->n_tensors);
	for (i = 0; i < plan->n_steps; i++) {
		const struct sl_plan_step *step = &plan->steps[i];

		if (step->launch >= work->n_launches || step->tensor >= work->n_tensors ||
		    (i && step->launch < step[-1].launch))
			return sl_fail(-EINVAL,
				       "simulator: step %u of the plan (launch %u, "
				       "tensor %u) is out of "
				       "range or order",
				       i, step->launch, step->tensor);
	}
	return 0;
}
