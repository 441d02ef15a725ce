/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One period of a trace, seen as our planner sees it: for each tensor the gaps between its
 * uses, around the end of the period too, and whether its contents matter over a gap.
 *
 * Contents do not matter over a gap if no later launch reads them before one writes all of
 * them; a launch that writes a part reads nothing. What a launch scratched in does not matter
 * behind it, and what a tensor that lives within a period holds, not behind the period. Such a
 * gap costs nothing: the memory is given back and taken anew. Every other gap can be spent on
 * the device, in host memory or in the store.
 *
 * Leaves all choice to the other files. Threads: one.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "plan/sluice.h"

/* Intents of a tensor's uses, in order of launches. */
struct visit {
	uint32_t launch;
	enum sluice_intent intent;
	int needed; /* what is there before it: see visits_see() */
};

/*
 * What is there before each visit: is it read before it is overwritten? Behind the last visit
 * only a global's contents are left, for the next period and for who comes behind the run.
 */
static void
visits_see(struct visit *visits, uint32_t n_visits, int is_global)
{
	int needed = is_global;

	/* A global's twice: the first time to know what the next period needs. */
	for (int round = 0; round < 1 + is_global; round++) {
		for (uint32_t i = n_visits; i-- > 0;) {
			if (visits[i].intent == SLUICE_USE_READ ||
			    visits[i].intent == SLUICE_USE_READ_WRITE)
				needed = 1;
			else if (visits[i].intent != SLUICE_USE_WRITE)
				needed = 0;
			visits[i].needed = needed;
		}
	}
}

void
sl_problem_fini(struct sl_problem *problem)
{
	free(problem->ticks);
	free(problem->pages);
	free(problem->in_cost);
	free(problem->out_cost);
	free(problem->use_first);
	free(problem->use);
	free(problem->gaps);
	free(problem->begin_first);
	free(problem->begin_gap);
	free(problem->end_first);
	free(problem->end_gap);
	free(problem->base);
	free(problem->active);
	memset(problem, 0, sizeof(*problem));
}

void
sl_problem_machine(struct sl_problem *problem, uint64_t clock_hz,
		   const struct sl_machine *machine, int as_published)
{
	double page = machine->page_bytes, gpus = machine->n_gpus;
	double per_tick = 1 / (page * (double)clock_hz);
	double batch = machine->link_batch_pages;
	double share_in, share_out;

	problem->device = floor((double)machine->device_bytes / page);
	problem->host = floor((double)machine->host_bytes / gpus / page);
	problem->store = machine->store_bytes
				 ? floor((double)machine->store_bytes / gpus / page)
				 : INFINITY;
	/* The link moves batches on a fixed grid, whose step is a whole number of ticks. */
	problem->grid = sl_max(1, floor(batch / (machine->link_in_bps * per_tick)));
	problem->in = batch / problem->grid;
	problem->out = sl_min(batch / sl_max(1, floor(batch /
						      (machine->link_out_bps * per_tick))),
			      problem->in * machine->link_out_bps / machine->link_in_bps);
	problem->store_in = machine->store_read_bps / gpus * per_tick;
	problem->store_out = machine->store_write_bps / gpus * per_tick;
	/* As published, the store's share of a batch is a whole number of pages. */
	if (as_published) {
		share_in = floor(batch * machine->store_read_bps / gpus /
				 machine->link_in_bps);
		share_out = floor(batch * machine->store_write_bps / gpus /
				  machine->link_out_bps);
		problem->store_in = share_in / problem->grid;
		problem->store_out = share_out / problem->grid;
	}
	problem->store_in = sl_min(problem->store_in, problem->in);
	problem->store_out = sl_min(problem->store_out, problem->out);
	problem->alloc = sl_max(machine->alloc_bps * per_tick, problem->in);
}

/* Launches behind the last use that changed the contents, at the launch behind visit i, from
 * what it was behind the visit before; at most n - 1. */
static uint32_t
clean_behind(uint32_t n, const struct visit *visits, uint32_t n_visits, uint32_t i,
	     uint32_t clean)
{
	uint32_t before = visits[i ? i - 1 : n_visits - 1].launch;
	uint32_t apart = (visits[i].launch + n - before - 1) % n + 1;

	if (visits[i].intent != SLUICE_USE_READ)
		return 0;
	return clean < n - 1 - (apart < n ? apart : n - 1) ? clean + apart : n - 1;
}

/* Count or fill: the gaps of one tensor. Returns how many. */
static uint32_t
gaps_of(const struct sl_trace *trace, uint32_t n, uint32_t tensor,
	const struct visit *visits, uint32_t n_visits, struct sl_gap *out)
{
	int is_global = trace->tensors[tensor].kind == SL_TENSOR_GLOBAL;
	uint32_t count = 0, clean = n - 1;

	/* Once around to know what it is behind the last visit. */
	for (uint32_t i = 0; i < n_visits; i++)
		clean = clean_behind(n, visits, n_visits, i, clean);
	for (uint32_t i = 0; i < n_visits; i++) {
		int last = i + 1 == n_visits;
		const struct visit *now = &visits[i], *next = &visits[last ? 0 : i + 1];
		uint32_t begin = (now->launch + 1) % n;
		uint32_t length = (next->launch + n - begin) % n;

		clean = clean_behind(n, visits, n_visits, i, clean);
		/* A single use: from the launch behind it to the same launch again. */
		if (last && n_visits == 1)
			length = n - 1;
		if (!length)
			continue;
		if (out)
			out[count] = (struct sl_gap){
				.tensor = tensor,
				.begin = begin,
				.end = next->launch,
				.length = length,
				.clean = clean,
				.dead = now->intent == SLUICE_USE_SCRATCH ||
					!next->needed || (last && !is_global),
			};
		count++;
	}
	return count;
}

/* first[k] ... : the gaps whose key (begin or end) is k. */
static int
gaps_index(const struct sl_problem *problem, int by_end, uint32_t **first_out,
	   uint32_t **index_out)
{
	uint32_t *first = calloc((size_t)problem->n + 2, sizeof(*first));
	uint32_t *index = malloc(((size_t)problem->n_gaps + 1) * sizeof(*index));

	*first_out = first;
	*index_out = index;
	if (!first || !index)
		return -ENOMEM;
	for (uint32_t g = 0; g < problem->n_gaps; g++) {
		const struct sl_gap *gap = &problem->gaps[g];

		first[(by_end ? gap->end : gap->begin) + 2]++;
	}
	for (uint32_t k = 0; k < problem->n; k++)
		first[k + 2] += first[k + 1];
	for (uint32_t g = 0; g < problem->n_gaps; g++) {
		const struct sl_gap *gap = &problem->gaps[g];

		index[first[(by_end ? gap->end : gap->begin) + 1]++] = g;
	}
	return 0;
}

static int
problem_fill(struct sl_problem *problem, const struct sl_trace *trace,
	     const struct sl_machine *machine, int as_published)
{
	uint32_t first = trace->period_first[0], n = problem->n, n_gaps = 0, n_uses = 0;
	SL_CLEANUP(free) uint32_t *at = calloc((size_t)trace->n_tensors + 2, sizeof(*at));
	SL_CLEANUP(free) struct visit *visits = NULL;
	double page = machine->page_bytes;

	for (uint32_t k = 0; k < n; k++)
		n_uses += trace->launches[first + k].n_uses;
	visits = calloc((size_t)n_uses + 1, sizeof(*visits));
	problem->ticks = malloc((size_t)n * sizeof(double));
	problem->pages = calloc((size_t)trace->n_tensors + 1, sizeof(double));
	problem->in_cost = calloc((size_t)trace->n_tensors + 1, sizeof(double));
	problem->out_cost = calloc((size_t)trace->n_tensors + 1, sizeof(double));
	problem->use_first = malloc(((size_t)n + 1) * sizeof(uint32_t));
	problem->use = malloc(((size_t)n_uses + 1) * sizeof(uint32_t));
	problem->base = calloc(n, sizeof(double));
	problem->active = calloc(n, sizeof(double));
	if (!at || !visits || !problem->ticks || !problem->pages || !problem->in_cost ||
	    !problem->out_cost || !problem->use_first || !problem->use ||
	    !problem->base || !problem->active)
		return -ENOMEM;

	n_uses = 0;
	for (uint32_t k = 0; k < n; k++) {
		const struct sl_trace_launch *launch = &trace->launches[first + k];

		problem->ticks[k] = (double)launch->ticks;
		problem->ideal += problem->ticks[k];
		problem->use_first[k] = n_uses;
		for (uint32_t i = 0; i < launch->n_uses; i++) {
			uint32_t t = trace->uses[launch->first_use + i].tensor;

			problem->use[n_uses++] = t;
			at[t + 2]++;
		}
	}
	problem->use_first[n] = n_uses;
	for (uint32_t t = 0; t < trace->n_tensors; t++)
		at[t + 2] += at[t + 1];
	for (uint32_t k = 0; k < n; k++) {
		const struct sl_trace_launch *launch = &trace->launches[first + k];

		for (uint32_t i = 0; i < launch->n_uses; i++) {
			const struct sl_trace_use *use = &trace->uses[launch->first_use + i];

			visits[at[use->tensor + 1]++] = (struct visit){k, use->intent, 0};
		}
	}
	/* Now the visits of t are visits[at[t]] ... visits[at[t + 1] - 1]. */
	for (uint32_t t = 0; t < trace->n_tensors; t++) {
		visits_see(visits + at[t], at[t + 1] - at[t],
			   trace->tensors[t].kind == SL_TENSOR_GLOBAL);
		n_gaps += gaps_of(trace, n, t, visits + at[t], at[t + 1] - at[t], NULL);
	}
	problem->gaps = malloc(((size_t)n_gaps + 1) * sizeof(*problem->gaps));
	if (!problem->gaps)
		return -ENOMEM;
	for (uint32_t t = 0; t < trace->n_tensors; t++) {
		double pages = ceil((double)trace->tensors[t].size_bytes / page);
		uint32_t ratio = as_published ? 0 : trace->tensors[t].ratio;

		problem->pages[t] = pages;
		problem->in_cost[t] = sl_machine_move(machine, SL_WAY_IN, ratio).time /
				      (double)SL_TRACE_RATIO_ONE;
		problem->out_cost[t] = sl_machine_move(machine, SL_WAY_OUT, ratio).time /
				       (double)SL_TRACE_RATIO_ONE;
		if (at[t] == at[t + 1])
			continue; /* never used: never anywhere */
		problem->n_gaps += gaps_of(trace, n, t, visits + at[t], at[t + 1] - at[t],
					   problem->gaps + problem->n_gaps);
		problem->total += pages;
		problem->base[0] += pages;
	}
	for (uint32_t k = 1; k < n; k++)
		problem->base[k] = problem->base[0];
	for (uint32_t g = 0; g < problem->n_gaps; g++) {
		const struct sl_gap *gap = &problem->gaps[g];

		for (uint32_t i = 0; gap->dead && i < gap->length; i++)
			problem->base[(gap->begin + i) % n] -= problem->pages[gap->tensor];
	}
	for (uint32_t k = 0; k < n; k++) {
		for (uint32_t i = problem->use_first[k]; i < problem->use_first[k + 1]; i++)
			problem->active[k] += problem->pages[problem->use[i]];
		if (problem->active[k] > problem->largest) {
			problem->largest = problem->active[k];
			problem->largest_at = k;
		}
	}
	if (gaps_index(problem, 0, &problem->begin_first, &problem->begin_gap))
		return -ENOMEM;
	return gaps_index(problem, 1, &problem->end_first, &problem->end_gap);
}

int
sl_problem_make(const struct sl_trace *trace, const struct sl_machine *machine,
		int as_published, struct sl_problem *out)
{
	struct sl_problem problem = {0};
	int rc;

	if (!trace->n_periods || trace->period_first[1] == trace->period_first[0])
		return sl_fail(-EINVAL, "plan: the trace has no launches");
	problem.n = trace->period_first[1] - trace->period_first[0];
	problem.n_tensors = trace->n_tensors;
	sl_problem_machine(&problem, trace->clock_hz, machine, as_published);
	rc = problem_fill(&problem, trace, machine, as_published);
	if (rc) {
		sl_problem_fini(&problem);
		return sl_fail(rc, "plan: no memory for %u launches and %u tensors",
			       problem.n, trace->n_tensors);
	}
	if (problem.largest > problem.device) {
		const struct sl_trace_launch *launch =
			&trace->launches[trace->period_first[0] + problem.largest_at];
		uint64_t least = (uint64_t)problem.largest * machine->page_bytes;
		char need[32], have[32];

		rc = sl_fail(
			-ENOSPC,
			"plan: launch %u (%s) uses %s at once and the device has %s: at "
			"least %llu bytes of device memory are needed",
			problem.largest_at, sl_trace_name(trace, launch->name),
			sl_size_format(least, need, sizeof(need)),
			sl_size_format(machine->device_bytes, have, sizeof(have)),
			(unsigned long long)least);
		sl_problem_fini(&problem);
		return rc;
	}
	*out = problem;
	return 0;
}
