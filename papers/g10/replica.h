/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replica of the paper G10's evaluation: the systems it compares, as its artifact runs them.
 *
 * Planners (planners.c): g10 in three variants, by the paper's text or by the published program.
 * Policies: uvm, deepum, g10 and plan on the machine of pages (faulting.c); flashneuron.c and
 * g10_tensor.c by whole tensors (tensor_run.h). Kernel times that are off: noise.c. Its inputs:
 * import_g10.h. docs/design/published-planner.md and docs/design/simulator.md name each departure
 * of the program from its text (as_published).
 *
 * Threads: pure functions and constant data.
 */
#ifndef SL_PAPERS_G10_REPLICA_H
#define SL_PAPERS_G10_REPLICA_H

#include "plan/g10.h"
#include "sim/sim.h"

enum g10_variant {
	G10_FULL, /* G10 */
	G10_GDS,  /* G10-GDS: no host memory, whatever the machine has */
	G10_HOST, /* G10-Host */
	G10_VARIANT_COUNT
};

/* Make the plan; errors as sl_g10_plan(). as_published: by the rules of the program. */
int g10_plan(const struct sl_trace *trace, const struct sl_machine *machine,
	     enum g10_variant variant, int as_published, struct sl_plan **out) SL_MUST_CHECK;

/* g10_sort.c: leaves equal elements in the order in which libstdc++'s std::sort does. A relation
 * that is no order gives some order, never a wild access. */
void g10_sort(uint32_t *index, uint32_t n, sl_g10_before before, const void *context);

void g10_plan_sort(struct sl_plan *plan); /* by launch, stable */

/* Those of the replica, then those of src; NULL: none of that name. Here "g10" looks at
 * as_published, and "plan" with it is carried out by g10's rules. */
const struct sl_planner *g10_planner_find(const char *name);
const struct sl_sim_policy *g10_policy_find(const char *name);

extern const struct sl_sim_policy g10_policy_uvm, g10_policy_deepum, g10_policy_g10,
	g10_policy_plan, g10_policy_flashneuron, g10_policy_gds, g10_policy_host;

/*
 * A copy of the trace in which each launch takes a factor in [1 - noise, 1 + noise] of its time.
 * It shares all but the launches' times with the trace, which must outlive it. seed 0: the
 * generator's default. Errors: -EINVAL (noise), -ENOMEM.
 */
int g10_noise_make(const struct sl_trace *trace, double noise, uint32_t seed,
		   struct sl_trace *noisy) SL_MUST_CHECK;
void g10_noise_fini(struct sl_trace *noisy);

/* 32-bit Mersenne twister, 624 words of state. */
struct g10_twister {
	uint32_t state[624];
	uint32_t next;
};
void g10_twister_init(struct g10_twister *twister, uint32_t seed);
uint32_t g10_twister_next(struct g10_twister *twister);

#endif
