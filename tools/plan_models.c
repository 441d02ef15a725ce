/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planners and policies of `sluice plan`. A new policy is a line here and one in
 * sluice-plan(1).
 *
 * Threads: constant data.
 */
#include "cmd_plan.h"
#include "sim/core_run.h"

static const struct plan_policy policies[] = {
	{.policy = &sl_sim_plan, .plans = 1, .codes = 1},
	{.policy = &sl_sim_ideal, .unbound = 1},
	{.policy = &sl_sim_lru, .codes = 1},
	{.policy = &sl_sim_core_lru, .codes = 1},
	{.policy = &sl_sim_core_dragon, .codes = 1},
	{.policy = &sl_sim_core_uvm, .codes = 1},
	{.policy = &sl_sim_core_plan, .codes = 1},
	{0},
};

const struct plan_models plan_models = {
	.planner_find = sl_planner_find,
	.policies = policies,
	.planner_help = "sluice (default) or g10",
	.policy_help =
		"plan (default), ideal or lru;\n"
		"                            or the pager itself, in virtual time: "
		"core-lru,\n"
		"                            core-plan, core-uvm, core-dragon",
};
