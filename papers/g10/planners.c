/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published planner in its three variants: which rules each has (plan/g10.h), by the text of
 * the paper and by the published program; and the planners and policies by name.
 *
 * Threads: pure, constant data.
 */
#include "g10/replica.h"

#include <stdlib.h>
#include <string.h>

#include "sim/core_run.h"

static const char *const variant_names[G10_VARIANT_COUNT] = {"g10", "g10-gds", "g10-host"};

int
g10_plan(const struct sl_trace *trace, const struct sl_machine *machine,
	 enum g10_variant variant, int as_published, struct sl_plan **out)
{
	const struct sl_g10_rules rules = {
		.name = variant_names[variant],
		.no_host = variant == G10_GDS,
		.forced = variant != G10_FULL,
		.raised_line = variant != G10_FULL && as_published,
		.binary_giga = as_published,
		.one_latency = as_published,
		.first_counted_twice = as_published,
		.benefit_only = as_published,
		.looped_skewed = as_published,
		.own_size_ignored = as_published,
		.empty_is_busy = as_published,
		.hasty_busy = as_published,
		.short_stays = as_published,
		.sort = as_published ? g10_sort : NULL,
	};

	return sl_g10_plan(trace, machine, &rules, out);
}

/* Stable: the order of steps within a launch is part of the plan. */
void
g10_plan_sort(struct sl_plan *plan)
{
	uint32_t n = plan->n_steps, *count;
	struct sl_plan_step *sorted;

	/* A counting sort needs two arrays; without memory for them the slow way does. */
	count = calloc((size_t)plan->n_launches + 1, sizeof(*count));
	sorted = malloc(((size_t)n + 1) * sizeof(*sorted));
	if (!count || !sorted) {
		for (uint32_t i = 1; i < n; i++) {
			struct sl_plan_step step = plan->steps[i];
			uint32_t at = i;

			for (; at > 0 && plan->steps[at - 1].launch > step.launch; at--)
				plan->steps[at] = plan->steps[at - 1];
			plan->steps[at] = step;
		}
	} else {
		for (uint32_t i = 0; i < n; i++)
			count[plan->steps[i].launch + 1]++;
		for (uint32_t k = 0; k < plan->n_launches; k++)
			count[k + 1] += count[k];
		for (uint32_t i = 0; i < n; i++)
			sorted[count[plan->steps[i].launch]++] = plan->steps[i];
		if (n)
			memcpy(plan->steps, sorted, n * sizeof(*sorted));
	}
	free(count);
	free(sorted);
}

static int
full_make(const struct sl_trace *trace, const struct sl_machine *machine,
	  const struct sl_planner_options *options, struct sl_plan **out)
{
	return g10_plan(trace, machine, G10_FULL, options->as_published, out);
}

static int
gds_make(const struct sl_trace *trace, const struct sl_machine *machine,
	 const struct sl_planner_options *options, struct sl_plan **out)
{
	return g10_plan(trace, machine, G10_GDS, options->as_published, out);
}

static int
host_make(const struct sl_trace *trace, const struct sl_machine *machine,
	  const struct sl_planner_options *options, struct sl_plan **out)
{
	return g10_plan(trace, machine, G10_HOST, options->as_published, out);
}

static const struct sl_planner planners[] = {
	{.name = "g10", .make = full_make},
	{.name = "g10-gds", .make = gds_make},
	{.name = "g10-host", .make = host_make},
};

static const struct sl_sim_policy *const policies[] = {
	&g10_policy_uvm,   &g10_policy_deepum,      &g10_policy_g10,
	&g10_policy_plan,  &g10_policy_flashneuron, &g10_policy_gds,
	&g10_policy_host,  &sl_sim_ideal,           &sl_sim_lru,
	&sl_sim_core_lru,  &sl_sim_core_dragon,     &sl_sim_core_uvm,
	&sl_sim_core_plan,
};

const struct sl_planner *
g10_planner_find(const char *name)
{
	for (size_t i = 0; i < sizeof(planners) / sizeof(planners[0]); i++)
		if (strcmp(planners[i].name, name) == 0)
			return &planners[i];
	return sl_planner_find(name);
}

const struct sl_sim_policy *
g10_policy_find(const char *name)
{
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
		if (strcmp(policies[i]->name, name) == 0)
			return policies[i];
	return NULL;
}
