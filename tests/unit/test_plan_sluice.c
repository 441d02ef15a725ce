/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our planner and the lower bound (src/plan/sluice*.c, bound.c) on training steps of a chain
 * of layers, whose best schedules can be worked out.
 */
#include <errno.h>

#include "cmocka_all.h"
#include "plan/bound.h"
#include "plan/plan.h"
#include "plan/sluice.h"
#include "plan_check.h"
#include "sluice/sluice.h"

#define MIB    (UINT64_C(1) << 20)
#define LAYERS 40
#define HZ     UINT64_C(1000000000)

/*
 * Forward: layer i reads a[i] and w[i], writes a[i + 1]. Backward, from the last: reads
 * a[i], w[i] and g[i + 1], writes g[i]; then w[i] is updated by g[i].
 */
static struct sl_trace *
chain_make(uint64_t ticks)
{
	uint32_t a[LAYERS + 1], g[LAYERS + 1], w[LAYERS], number;
	struct sl_trace *trace;
	int bad = sl_trace_create(HZ, &trace);

	for (int i = 0; i <= LAYERS; i++) {
		bad |= sl_trace_add_tensor(trace, 64 * MIB, SL_TENSOR_LOCAL, NULL, &a[i]);
		bad |= sl_trace_add_tensor(trace, 64 * MIB, SL_TENSOR_LOCAL, NULL, &g[i]);
		if (i < LAYERS)
			bad |= sl_trace_add_tensor(trace, 4 * MIB, SL_TENSOR_GLOBAL, NULL,
						   &w[i]);
	}
	bad |= sl_trace_add_period(trace);
	bad |= sl_trace_add_launch(trace, ticks, "load", &number);
	bad |= sl_trace_add_use(trace, a[0], SLUICE_USE_WRITE_ALL);
	for (int i = 0; i < LAYERS; i++) {
		bad |= sl_trace_add_launch(trace, ticks, "forward", &number);
		bad |= sl_trace_add_use(trace, a[i], SLUICE_USE_READ);
		bad |= sl_trace_add_use(trace, w[i], SLUICE_USE_READ);
		bad |= sl_trace_add_use(trace, a[i + 1], SLUICE_USE_WRITE_ALL);
	}
	bad |= sl_trace_add_launch(trace, ticks, "loss", &number);
	bad |= sl_trace_add_use(trace, a[LAYERS], SLUICE_USE_READ);
	bad |= sl_trace_add_use(trace, g[LAYERS], SLUICE_USE_WRITE_ALL);
	for (int i = LAYERS; i-- > 0;) {
		bad |= sl_trace_add_launch(trace, ticks, "backward", &number);
		bad |= sl_trace_add_use(trace, a[i], SLUICE_USE_READ);
		bad |= sl_trace_add_use(trace, w[i], SLUICE_USE_READ);
		bad |= sl_trace_add_use(trace, g[i + 1], SLUICE_USE_READ);
		bad |= sl_trace_add_use(trace, g[i], SLUICE_USE_WRITE_ALL);
		bad |= sl_trace_add_launch(trace, ticks, "update", &number);
		bad |= sl_trace_add_use(trace, g[i], SLUICE_USE_READ);
		bad |= sl_trace_add_use(trace, w[i], SLUICE_USE_READ_WRITE);
	}
	bad |= sl_trace_check(trace);
	assert_int_equal(bad, 0);
	return trace;
}

static struct sl_machine
machine_make(uint64_t device_bytes, uint64_t host_bytes)
{
	struct sl_machine machine;

	sl_machine_g10(&machine);
	machine.device_bytes = device_bytes;
	machine.host_bytes = host_bytes;
	return machine;
}

static uint64_t
predict(const struct sl_trace *trace, const struct sl_machine *machine)
{
	struct sl_plan *plan;
	uint64_t ns;
	int rc = sl_planner_sluice.make(trace, machine, NULL, &plan);

	if (rc)
		fail_msg("%s", sluice_last_error());
	rc = sl_plan_check(plan, trace, machine);
	if (rc)
		fail_msg("%s", sluice_last_error());
	ns = plan->predicted_ns;
	sl_plan_destroy(plan);
	return ns;
}

static void
what_fits_neither_moves_nor_frees(void **state)
{
	struct sl_trace *trace = chain_make(1000000);
	struct sl_machine machine = machine_make(8192 * MIB, 0);
	struct sl_plan *plan;

	(void)state;
	assert_int_equal(sl_planner_sluice.make(trace, &machine, NULL, &plan), 0);
	for (uint32_t i = 0; i < plan->n_steps; i++)
		assert_int_equal(plan->steps[i].verb, SL_PLAN_ALLOC);
	assert_int_equal(plan->predicted_ns, (2 + 3 * LAYERS) * 1000000);
	sl_plan_destroy(plan);
	sl_trace_destroy(trace);
}

static void
slow_launches_hide_all_moves(void **state)
{
	/* 64 MiB take 4.3 ms on the link: two launches of 10 ms hide one tensor. */
	struct sl_trace *trace = chain_make(10000000);
	struct sl_machine machine = machine_make(1024 * MIB, 8192 * MIB);

	(void)state;
	assert_int_equal(predict(trace, &machine), (2 + 3 * LAYERS) * 10000000);
	sl_trace_destroy(trace);
}

static void
prediction_is_between_the_bound_and_little_above_it(void **state)
{
	static const uint64_t hosts[] = {0, 512 * MIB, 8192 * MIB};

	(void)state;
	for (int fast = 0; fast < 2; fast++) {
		struct sl_trace *trace = chain_make(fast ? 1000000 : 20000000);

		for (int h = 0; h < 3; h++) {
			struct sl_machine machine = machine_make(1024 * MIB, hosts[h]);
			struct sl_bound bound;
			uint64_t ns = predict(trace, &machine);

			assert_int_equal(sl_bound_make(trace, &machine, 0, &bound), 0);
			assert_true(bound.ticks >= bound.compute_ticks);
			assert_true(bound.moving_ticks >= bound.ticks);
			assert_in_range(ns, bound.moving_ticks * 99 / 100,
					bound.moving_ticks * 12 / 10);
			/* 41 activations and a gradient peak over 1 GiB by at least 26. */
			assert_true(bound.out_bytes >= 25 * 64 * MIB);
			if (h < 2)
				assert_true(bound.store_bytes >= 17 * 64 * MIB);
		}
		sl_trace_destroy(trace);
	}
}

/* A codec faster than the link, and every tensor at a fraction of its bytes: as good as a link
 * that is as many times faster. With a slow codec its rate is that of the link; slower than the
 * link, it is not used. */
static void
all_at_one_ratio_is_a_faster_link(void **state)
{
	static const struct {
		uint32_t ratio;
		double codec; /* of the link's rate */
		double link;
	} rows[] = {{5000, 100, 2},  {2500, 100, 4}, {2500, 2, 2}, {1, 3, 3},
		    {10000, 100, 1}, {2500, 0.9, 1}, {0, 100, 1}};
	struct sl_trace *trace = chain_make(1000000);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sl_machine coding = machine_make(1024 * MIB, 8192 * MIB);
		struct sl_machine faster = coding;
		struct sl_bound bound, other;
		uint64_t ns;

		for (uint32_t t = 0; t < trace->n_tensors; t++)
			trace->tensors[t].ratio = rows[i].ratio;
		coding.encode_bps = coding.decode_bps = coding.link_in_bps * rows[i].codec;
		faster.link_in_bps *= rows[i].link;
		faster.link_out_bps *= rows[i].link;
		assert_int_equal(sl_bound_make(trace, &coding, 0, &bound), 0);
		assert_int_equal(sl_bound_make(trace, &faster, 0, &other), 0);
		assert_in_range(bound.moving_ticks, other.moving_ticks * 99 / 100,
				other.moving_ticks * 101 / 100);
		assert_in_range(bound.ticks, other.ticks * 99 / 100, other.ticks * 101 / 100);
		ns = predict(trace, &coding);
		assert_in_range(ns, bound.moving_ticks * 99 / 100,
				bound.moving_ticks * 12 / 10);
		assert_in_range(ns, predict(trace, &faster) * 95 / 100,
				predict(trace, &faster) * 105 / 100);
	}
	sl_trace_destroy(trace);
}

static void
launch_that_cannot_fit_is_named_with_the_least_that_would_do(void **state)
{
	struct sl_trace *trace = chain_make(1000000);
	struct sl_machine machine = machine_make(195 * MIB, 8192 * MIB);
	struct sl_plan *plan = NULL;
	struct sl_bound bound;

	(void)state;
	assert_int_equal(sl_planner_sluice.make(trace, &machine, NULL, &plan), -ENOSPC);
	assert_null(plan);
	assert_non_null(strstr(sluice_last_error(), "launch 42 (backward)"));
	assert_non_null(strstr(sluice_last_error(), "at least 205520896 bytes"));
	assert_int_equal(sl_bound_make(trace, &machine, 0, &bound), -ENOSPC);
	machine.device_bytes = 205520896; /* three tensors of 64 MiB and one of 4 */
	assert_true(predict(trace, &machine) > 0);
	sl_trace_destroy(trace);
}

static void
stores_too_small_are_an_error(void **state)
{
	struct sl_trace *trace = chain_make(1000000);
	struct sl_machine machine = machine_make(512 * MIB, 256 * MIB);
	struct sl_plan *plan = NULL;

	(void)state;
	machine.store_bytes = 128 * MIB;
	assert_int_equal(sl_planner_sluice.make(trace, &machine, NULL, &plan), -ENOSPC);
	assert_null(plan);
	sl_trace_destroy(trace);
}

static void
same_input_gives_the_same_plan(void **state)
{
	struct sl_trace *trace = chain_make(1000000);
	struct sl_machine machine = machine_make(1024 * MIB, 1024 * MIB);
	struct sl_plan *plans[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(sl_planner_sluice.make(trace, &machine, NULL, &plans[i]), 0);
	assert_int_equal(plans[0]->n_steps, plans[1]->n_steps);
	assert_true(plans[0]->n_steps > 0);
	assert_memory_equal(plans[0]->steps, plans[1]->steps,
			    plans[0]->n_steps * sizeof(plans[0]->steps[0]));
	sl_plan_destroy(plans[0]);
	sl_plan_destroy(plans[1]);
	sl_trace_destroy(trace);
}

static void
more_of_anything_is_not_slower(void **state)
{
	struct sl_trace *trace = chain_make(2000000);
	uint64_t before = UINT64_MAX;

	(void)state;
	for (uint64_t mib = 256; mib <= 4096; mib *= 2) {
		struct sl_machine machine = machine_make(mib * MIB, 1024 * MIB);
		uint64_t ns = predict(trace, &machine);

		assert_true(ns <= before);
		before = ns;
	}
	before = UINT64_MAX;
	for (uint64_t mib = 0; mib <= 4096; mib += 1024) {
		struct sl_machine machine = machine_make(512 * MIB, mib * MIB);
		uint64_t ns = predict(trace, &machine);

		assert_true(ns <= before);
		before = ns;
	}
	sl_trace_destroy(trace);
}

/* ---- the engine, in numbers that can be followed ---- */

static void
engine_shares_the_link_and_counts_waits(void **state)
{
	struct sl_trace *trace = chain_make(1000000);
	struct sl_machine machine = machine_make(1024 * MIB, 1024 * MIB);
	struct sl_problem problem;
	struct sl_plan_engine engine;
	uint8_t where[3 * LAYERS + 2] = {0};
	double rate;

	(void)state;
	assert_int_equal(sl_problem_make(trace, &machine, 1, &problem), 0);
	assert_int_equal(sl_plan_engine_init(&engine, &problem), 0);
	/* Launch 1 reads tensor 0 (64 MiB) and 2 (4 MiB), which is in the store. */
	where[0] = SL_AT_HOST;
	where[2] = SL_AT_STORE;
	sl_plan_engine_begin(&engine, problem.ticks, where);
	sl_plan_engine_prefetch(&engine, 0);
	sl_plan_engine_prefetch(&engine, 2);
	sl_plan_engine_alloc(&engine, 3);
	sl_plan_engine_launch(&engine, 1);
	/* The store's 1024 pages and host memory's 16384 go over one link, 50 a step. */
	rate = problem.in;
	assert_true(engine.end[1] >= (16384 + 1024) / rate);
	assert_true(engine.end[1] <= (16384 + 1024) / rate + 2 * problem.grid);
	assert_true(engine.waited[SL_WAIT_LINK_IN] > 0);
	assert_true(engine.lost <= 0 && engine.stuck_at == SL_NO_LAUNCH);
	assert_int_equal(engine.where[2], SL_AT_DEVICE);
	assert_true(engine.used == 16384 + 1024 + 16384);
	/* A launch whose tensor nobody sent for brings it itself, and that is counted. */
	sl_plan_engine_evict(&engine, 0, 0);
	sl_plan_engine_launch(&engine, 1);
	assert_true(engine.lost > 0);
	sl_plan_engine_fini(&engine);
	sl_problem_fini(&problem);
	sl_trace_destroy(trace);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(what_fits_neither_moves_nor_frees),
		T(slow_launches_hide_all_moves),
		T(prediction_is_between_the_bound_and_little_above_it),
		T(all_at_one_ratio_is_a_faster_link),
		T(launch_that_cannot_fit_is_named_with_the_least_that_would_do),
		T(stores_too_small_are_an_error),
		T(same_input_gives_the_same_plan),
		T(more_of_anything_is_not_slower),
		T(engine_shares_the_link_and_counts_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
