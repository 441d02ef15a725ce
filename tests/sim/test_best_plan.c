/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans for smaller machines among the candidates, and the two bounds. The best plan is never
 * worse than the planner's own. It gains where the own one is far from the bound, and is found
 * again. A schedule that drops data which the store has may beat the bound of schedules that
 * move them, but not the bound of all.
 */
#include "plan/bound.h"
#include "plan_check.h"
#include "sim/best_plan.h"
#include "sim_test.h"

#define SEEDS 12
#define PAGE  ((uint64_t)4 * KIB)

/* A training step of random layers: activations made forward, read backward. */
static struct sl_trace *
step_make(struct sl_rng *rng)
{
	uint32_t layers = 8 + (uint32_t)sl_rng_below(rng, 16), number;
	struct sl_trace *trace;

	CHECK(!sl_trace_create(1000000000, &trace));
	for (uint32_t i = 0; i < layers; i++) {
		CHECK(!sl_trace_add_tensor(trace, (1 + sl_rng_below(rng, 400)) * PAGE,
					   SL_TENSOR_LOCAL, NULL, &number));
		CHECK(!sl_trace_add_tensor(trace, (1 + sl_rng_below(rng, 100)) * PAGE,
					   SL_TENSOR_GLOBAL, NULL, &number));
	}
	for (uint32_t k = 0; k < 2 * layers; k++) {
		uint32_t i = k < layers ? k : 2 * layers - 1 - k;

		CHECK(!sl_trace_add_launch(trace, 1000 + sl_rng_below(rng, 200000), NULL,
					   &number));
		CHECK(!sl_trace_add_use(trace, 2 * i,
					k < layers ? SLUICE_USE_WRITE_ALL : SLUICE_USE_READ));
		CHECK(!sl_trace_add_use(trace, 2 * i + 1,
					k < layers ? SLUICE_USE_READ : SLUICE_USE_READ_WRITE));
		if (k && k < layers)
			CHECK(!sl_trace_add_use(trace, 2 * (i - 1), SLUICE_USE_READ));
	}
	CHECK(!sl_trace_check(trace));
	return trace;
}

static void
best_is_never_worse_than_the_own_plan(void)
{
	uint32_t tried = 0, better = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sl_sim_options options = {0};
		struct sl_sim_result own, best, again;
		struct sl_plan *plan, *chosen;
		struct sl_machine machine;
		struct sl_trace *trace;
		struct sl_bound bound;
		struct sl_rng rng;

		printf("seed %" PRIu64 "\n", seed);
		fflush(stdout);
		sl_rng_init(&rng, seed);
		trace = step_make(&rng);
		small_machine(&machine, 1000, (uint32_t)sl_rng_below(&rng, 2000));
		machine.link_in_bps = machine.link_out_bps =
			(double)(1 + sl_rng_below(&rng, 20)) * 1e9;
		CHECK(!sl_bound_make(trace, &machine, 0, &bound));
		CHECK(!sl_planner_sluice.make(trace, &machine, NULL, &plan));
		policy_run("plan", trace, &machine, plan, &options, &own);
		CHECK(!sl_best_plan(trace, &machine, &sl_planner_g10, &sl_sim_plan,
				    &options, &chosen, &best));
		/* The published planner's, and none, leave room to be made. */
		if (!strcmp(chosen->planner, "sluice"))
			CHECK(!sl_plan_check(chosen, trace, &machine));
		CHECK(best.best_ticks <= own.best_ticks);
		tried += (double)own.best_ticks > 1.01 * (double)bound.moving_ticks;
		better += best.best_ticks < own.best_ticks;
		/* The plan that is returned is the one that the result is of. */
		policy_run("plan", trace, &machine, chosen, &options, &again);
		results_check_equal(&best, &again);
		sl_sim_result_fini(&own);
		sl_sim_result_fini(&best);
		sl_sim_result_fini(&again);
		sl_plan_destroy(plan);
		sl_plan_destroy(chosen);
		sl_trace_destroy(trace);
	}
	printf("%u of %d far from the bound, %u gained\n", tried, SEEDS, better);
	CHECK(tried >= 5 && better >= 2 && better <= tried);
}

/* Weights that are only read, one after the other, on a machine that writes slowly: moving them
 * out takes long, dropping them takes nothing. */
static void
dropping_beats_moving_and_not_the_bound_of_all(void)
{
	struct sl_sim_options options = {.periods = 3};
	struct sl_machine machine;
	struct sl_sim_result result;
	struct sl_trace *trace;
	struct sl_bound bound;
	uint32_t number;

	CHECK(!sl_trace_create(1000000000, &trace));
	for (uint32_t t = 0; t < 3; t++) {
		CHECK(!sl_trace_add_tensor(trace, 40 * PAGE, SL_TENSOR_GLOBAL, NULL, &number));
		CHECK(!sl_trace_add_launch(trace, 5000, NULL, &number));
		CHECK(!sl_trace_add_use(trace, t, SLUICE_USE_READ));
	}
	CHECK(!sl_trace_check(trace));
	small_machine(&machine, 100, 1000);
	machine.store_read_bps = machine.link_in_bps;
	machine.link_out_bps /= 20;
	machine.store_write_bps = machine.link_out_bps;
	CHECK(!sl_bound_make(trace, &machine, 0, &bound));
	policy_run("lru", trace, &machine, NULL, &options, &result);
	CHECK_EQ(result.bytes[SL_PATH_STORE_OUT] + result.bytes[SL_PATH_HOST_OUT], 0);
	CHECK(result.best_ticks >= bound.ticks);
	CHECK(result.best_ticks < bound.moving_ticks);
	sl_sim_result_fini(&result);
	/* The published machine keeps no copies. */
	CHECK(!sl_bound_make(trace, &machine, 1, &bound));
	CHECK_EQ(bound.ticks, bound.moving_ticks);
	sl_trace_destroy(trace);
}

int
main(void)
{
	best_is_never_worse_than_the_own_plan();
	dropping_beats_moving_and_not_the_bound_of_all();
	return 0;
}
