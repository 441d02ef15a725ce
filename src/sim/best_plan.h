/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best plan for a machine, of those made for it and for machines with less: what a machine
 * with a slower link or store can do, this one can, too. A planner's search may be luckier
 * there, and a plan made for less keeps a margin that this machine turns into time.
 *
 * Threads: nothing is kept.
 */
#ifndef SL_SIM_BEST_PLAN_H
#define SL_SIM_BEST_PLAN_H

#include "plan/bound.h"
#include "sim/sim.h"

/*
 * Plan for the machine and simulate; where that stays clearly above the bound, try the plans
 * for slower links and stores as well: those of rates 2^(k/2) GB/s (the same for every machine,
 * so that neighbours try the same), going down until the bound says that no plan made there is
 * better, at most a few each. policy: one that carries out a plan. bound: of this machine.
 * *plan, *result: the best, the caller's to destroy and to fini; untouched on failure. Errors:
 * those of the planner and of the policy.
 */
int sl_best_plan(const struct sl_trace *trace, const struct sl_machine *machine,
		 const struct sl_planner *planner, const struct sl_sim_policy *policy,
		 const struct sl_sim_options *options, const struct sl_bound *bound,
		 struct sl_plan **plan, struct sl_sim_result *result) SL_MUST_CHECK;

#endif
