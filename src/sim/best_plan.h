/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best plan for a machine, of several made for it and for machines with less: what a
 * smaller machine can do, this one can, too. A search may be luckier there, and a plan made
 * for less keeps a margin that this machine turns into time.
 *
 * Threads: nothing is kept; a call starts some of its own, which end before it returns.
 */
#ifndef SL_SIM_BEST_PLAN_H
#define SL_SIM_BEST_PLAN_H

#include "sim/sim.h"

/*
 * Plan for the machine and simulate. Of these the one with the shortest period is returned,
 * each carried out on this machine by `policy`:
 *
 *	the plan of our planner, and those that it makes for the host memory, the link and the
 *	store on the next lower rung of a ladder (best_plan.c), one of them at a time;
 *	the plan of `rival`: that of the paper G10, sl_planner_g10;
 *	the empty plan, named "lru": nothing is moved ahead, pages leave by LRU;
 *	what this function finds for the device memory on the next lower rung, and so on down.
 *
 * Traces of more than some thousand launches look at one rung of device memory only. *plan,
 * *result: the caller's to destroy and to fini; untouched on failure. Errors: those of the
 * planners and of the policy; -ENOSPC where no plan can run.
 */
int sl_best_plan(const struct sl_trace *trace, const struct sl_machine *machine,
		 const struct sl_planner *rival, const struct sl_sim_policy *policy,
		 const struct sl_sim_options *options, struct sl_plan **plan,
		 struct sl_sim_result *result) SL_MUST_CHECK;

#endif
