/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan's moves where plan and machine differ: copies that the store has already, tensors that
 * are needed while they leave, a store that is too small. On machines small enough to follow.
 */
#include "g10/replica.h"
#include "sim_test.h"

#define PAGE ((uint64_t)4 * KIB)
#define STEP 10000 /* ticks of one transfer step of small_machine() */

/* Reads 40 pages of weights, then works without them for long, then reads them again. */
static struct sl_trace *
weights_twice(uint64_t between_ticks)
{
	struct sl_trace *trace;
	uint32_t number;

	CHECK(!sl_trace_create(1000000000, &trace));
	CHECK(!sl_trace_add_tensor(trace, 40 * PAGE, SL_TENSOR_GLOBAL, "weights", &number));
	CHECK(!sl_trace_add_tensor(trace, 70 * PAGE, SL_TENSOR_LOCAL, "work", &number));
	CHECK(!sl_trace_add_launch(trace, 5000, "first", &number));
	CHECK(!sl_trace_add_use(trace, 0, SLUICE_USE_READ));
	CHECK(!sl_trace_add_launch(trace, between_ticks, "between", &number));
	CHECK(!sl_trace_add_use(trace, 1, SLUICE_USE_SCRATCH));
	CHECK(!sl_trace_add_launch(trace, 5000, "again", &number));
	CHECK(!sl_trace_add_use(trace, 0, SLUICE_USE_READ));
	CHECK(!sl_trace_check(trace));
	return trace;
}

static struct sl_plan *
weights_leave(const struct sl_trace *trace, enum sl_plan_verb how)
{
	struct sl_plan *plan;

	CHECK(!sl_plan_create(trace, "test", &plan));
	CHECK(!sl_plan_add(plan, 1, how, 0));
	return plan;
}

/* The store has the weights; to the host they are moved all the same, as the plan says. */
static void
eviction_to_the_host_goes_there_whatever_the_store_has(void)
{
	struct sl_trace *trace = weights_twice(50000);
	struct sl_sim_options options = {0};
	struct sl_machine machine;
	struct sl_sim_result result;

	small_machine(&machine, 100, 100);
	for (int to_store = 0; to_store < 2; to_store++) {
		struct sl_plan *plan = weights_leave(trace, to_store ? SL_PLAN_EVICT_STORE
								     : SL_PLAN_EVICT_HOST);

		policy_run("plan", trace, &machine, plan, &options, &result);
		CHECK_EQ(result.bytes[SL_PATH_HOST_OUT], to_store ? 0 : 40 * PAGE);
		CHECK_EQ(result.bytes[SL_PATH_HOST_IN], to_store ? 0 : 40 * PAGE);
		CHECK_EQ(result.bytes[SL_PATH_STORE_IN], to_store ? 40 * PAGE : 0);
		CHECK_EQ(result.bytes[SL_PATH_STORE_OUT], 0);
		sl_sim_result_fini(&result);
		sl_plan_destroy(plan);
	}
	/* With no room in the host the copy on the store will do. */
	machine.host_bytes = 0;
	struct sl_plan *plan = weights_leave(trace, SL_PLAN_EVICT_HOST);

	policy_run("plan", trace, &machine, plan, &options, &result);
	CHECK_EQ(result.bytes[SL_PATH_STORE_IN], 40 * PAGE);
	CHECK_EQ(result.bytes[SL_PATH_STORE_OUT] + result.bytes[SL_PATH_HOST_OUT], 0);
	sl_sim_result_fini(&result);
	sl_plan_destroy(plan);
	sl_trace_destroy(trace);
}

/*
 * An eviction that is not through when a launch needs the tensor ends there: what has not left
 * stays. With room for all, 2 of the 40 pages a step leave to the store in the 10 steps of the
 * launch between.
 */
static void
what_is_needed_while_it_leaves_stays(void)
{
	struct sl_sim_options options = {0};
	struct sl_machine machine;
	struct sl_sim_result result;
	struct sl_trace *trace;
	struct sl_plan *plan;
	uint32_t number;
	uint64_t out;

	CHECK(!sl_trace_create(1000000000, &trace));
	CHECK(!sl_trace_add_tensor(trace, 40 * PAGE, SL_TENSOR_GLOBAL, "state", &number));
	CHECK(!sl_trace_add_tensor(trace, 10 * PAGE, SL_TENSOR_LOCAL, "work", &number));
	CHECK(!sl_trace_add_launch(trace, 5000, "update", &number));
	CHECK(!sl_trace_add_use(trace, 0, SLUICE_USE_READ_WRITE));
	CHECK(!sl_trace_add_launch(trace, 10 * STEP, "between", &number));
	CHECK(!sl_trace_add_use(trace, 1, SLUICE_USE_SCRATCH));
	CHECK(!sl_trace_check(trace));
	small_machine(&machine, 100, 0);
	plan = weights_leave(trace, SL_PLAN_EVICT_STORE);
	policy_run("plan", trace, &machine, plan, &options, &result);
	out = result.bytes[SL_PATH_STORE_OUT];
	CHECK(out >= 19 * PAGE && out <= 22 * PAGE);
	CHECK_EQ(result.bytes[SL_PATH_STORE_IN], out);
	sl_sim_result_fini(&result);
	sl_plan_destroy(plan);
	sl_trace_destroy(trace);
}

/* 120 pages of state take turns on a device of 100; the rest is on the store. */
static struct sl_trace *
states_in_turn(void)
{
	struct sl_trace *trace;
	uint32_t number;

	CHECK(!sl_trace_create(1000000000, &trace));
	for (uint32_t t = 0; t < 3; t++) {
		CHECK(!sl_trace_add_tensor(trace, 40 * PAGE, SL_TENSOR_GLOBAL, NULL, &number));
		CHECK(!sl_trace_add_launch(trace, 5000, NULL, &number));
		CHECK(!sl_trace_add_use(trace, t, SLUICE_USE_READ_WRITE));
	}
	CHECK(!sl_trace_check(trace));
	return trace;
}

static void
store_that_is_too_small_is_refused(void)
{
	static const char *const policies[] = {"uvm", "lru"};
	struct sl_trace *trace = states_in_turn();
	struct sl_sim_options options = {0};
	struct sl_machine machine;
	struct sl_sim_result result;

	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		const struct sl_sim_policy *policy = g10_policy_find(policies[i]);

		small_machine(&machine, 100, 0);
		machine.store_bytes = 10 * PAGE;
		CHECK_FAILS(policy->run(trace, &machine, NULL, &options, &result),
			    -ENOSPC, "capacity");
		/* All begin on the store. */
		machine.store_bytes = 120 * PAGE;
		policy_run(policies[i], trace, &machine, NULL, &options, &result);
		CHECK(result.bytes[SL_PATH_STORE_OUT] > 0);
		sl_sim_result_fini(&result);
		/* Two GPUs have half of it each. */
		machine.n_gpus = 2;
		CHECK_FAILS(policy->run(trace, &machine, NULL, &options, &result),
			    -ENOSPC, "for each GPU");
		machine.n_gpus = 1;
		/* What the store cannot hold at first is in host memory. */
		machine.store_bytes = 10 * PAGE;
		machine.host_bytes = 200 * PAGE;
		policy_run(policies[i], trace, &machine, NULL, &options, &result);
		CHECK_EQ(result.bytes[SL_PATH_STORE_OUT], 0);
		CHECK(result.bytes[SL_PATH_HOST_OUT] > 0);
		sl_sim_result_fini(&result);
	}
	sl_trace_destroy(trace);
}

int
main(void)
{
	eviction_to_the_host_goes_there_whatever_the_store_has();
	what_is_needed_while_it_leaves_stays();
	store_that_is_too_small_is_refused();
	return 0;
}
