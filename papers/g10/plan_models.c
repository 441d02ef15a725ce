/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planners and policies of `sluice-papers plan`: those of `sluice plan`, and the systems that the
 * paper G10 compares.
 *
 * Threads: constant data.
 */
#include "cmd_plan.h"
#include "g10/replica.h"
#include "sim/core_run.h"

static const struct plan_policy policies[] = {
	{.policy = &g10_policy_plan, .plans = 1, .codes = 1},
	{.policy = &sl_sim_ideal, .unbound = 1},
	{.policy = &g10_policy_uvm},
	{.policy = &g10_policy_deepum},
	{.policy = &g10_policy_flashneuron, .unbound = 1},
	{.policy = &g10_policy_gds, .unbound = 1},
	{.policy = &g10_policy_host, .unbound = 1},
	{.policy = &g10_policy_g10, .plans = 1, .planner = "g10"},
	{.policy = &sl_sim_lru, .unbound_published = 1, .codes = 1},
	{.policy = &sl_sim_core_lru, .unbound_published = 1, .codes = 1},
	{.policy = &sl_sim_core_dragon, .unbound_published = 1, .codes = 1},
	{.policy = &sl_sim_core_uvm, .unbound_published = 1, .codes = 1},
	{.policy = &sl_sim_core_plan, .unbound_published = 1, .codes = 1},
	{0},
};

const struct plan_models plan_models = {
	.planner_find = g10_planner_find,
	.policies = policies,
	.publishes = 1,
	.planner_help = "sluice (default), g10, g10-gds or g10-host",
	.policy_help =
		"plan (default), or ideal, uvm,\n"
		"                            deepum, flashneuron, g10-gds, g10-host, "
		"g10, lru; or the\n"
		"                            pager itself, in virtual time: core-lru, "
		"core-plan,\n"
		"                            core-uvm, core-dragon",
};
