/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator by pages on machines small enough to follow: times and bytes by hand, properties
 * of every trace (a seed's line says which), and refusals.
 */
#include "g10/replica.h"
#include "sim_test.h"

#include <math.h>

#define STEP 10000 /* ticks of one transfer step of small_machine() */

static struct sl_trace *
two_launches(void)
{
	struct sl_trace *trace;
	uint32_t number;

	CHECK(!sl_trace_create(1000000000, &trace));
	CHECK(!sl_trace_add_tensor(trace, 40 * 4 * KIB, SL_TENSOR_GLOBAL, "weights", &number));
	CHECK(!sl_trace_add_tensor(trace, 20 * 4 * KIB, SL_TENSOR_LOCAL, "out", &number));
	CHECK(!sl_trace_add_launch(trace, 5000, "first", &number));
	CHECK(!sl_trace_add_use(trace, 0, SLUICE_USE_READ));
	CHECK(!sl_trace_add_use(trace, 1, SLUICE_USE_WRITE_ALL));
	CHECK(!sl_trace_add_launch(trace, 7000, "second", &number));
	CHECK(!sl_trace_add_use(trace, 1, SLUICE_USE_READ));
	CHECK(!sl_trace_check(trace));
	return trace;
}

/* 40 pages from the store at 2 a step: 20 steps, and as much time for their faults, behind
 * which the first launch computes. The second has what it needs; the next period everything. */
static void
cold_weights_cost_their_steps_and_warm_ones_nothing(void)
{
	struct sl_sim_options options = {.as_published = 1};
	struct sl_trace *trace = two_launches();
	struct sl_machine machine;
	struct sl_sim_result result;

	small_machine(&machine, 100, 100);
	policy_run("uvm", trace, &machine, NULL, &options, &result);
	CHECK(!result.failed);
	CHECK_EQ(result.launches[0].end_ticks, 20 * STEP + 5000);
	CHECK_EQ(result.launches[0].store_pages, 40);
	CHECK_EQ(result.launches[0].fresh_pages, 20);
	CHECK_EQ(result.period_ticks[0], 20 * STEP + 12000);
	CHECK_EQ(result.period_ticks[1], 12000);
	CHECK_EQ(result.period_bytes[0][SL_PATH_STORE_IN], 40 * 4 * KIB);
	CHECK_EQ(result.period_bytes[0][SL_PATH_STORE_OUT], 0);
	CHECK_EQ(result.period_bytes[1][SL_PATH_STORE_IN], 0);
	CHECK_EQ(result.best_period, 1);
	CHECK_EQ(result.launches[0].stall_ticks, 20 * STEP);
	CHECK_EQ(result.launches[0].overlap_ticks, 0);
	CHECK_EQ(result.launches[0].compute_ticks, 5000);
	sl_sim_result_fini(&result);
	sl_trace_destroy(trace);
}

/* Ours computes only when everything is there, and pays the latency of the last page. */
static void
our_pager_computes_behind_its_data(void)
{
	struct sl_sim_options options = {0};
	struct sl_trace *trace = two_launches();
	struct sl_machine machine;
	struct sl_sim_result result;
	uint64_t wait;

	small_machine(&machine, 100, 100);
	machine.store_read_ns = 20000;
	machine.link_ns = 5000;
	policy_run("lru", trace, &machine, NULL, &options, &result);
	wait = result.launches[0].end_ticks - 5000;
	CHECK_EQ(wait, 20 * STEP + 25000);
	CHECK_EQ(result.launches[0].bound, SL_BOUND_STORE_READ);
	/* Its output is dead behind the second launch, and is given memory anew: a tick a page. */
	CHECK_EQ(result.period_ticks[1], 12020);
	sl_sim_result_fini(&result);
	sl_trace_destroy(trace);
}

/* The weights are only read: they are dropped, not written, when their room is needed. */
static void
our_pager_writes_nothing_that_the_store_has(void)
{
	struct sl_sim_options options = {0};
	struct sl_trace *trace = two_launches();
	struct sl_machine machine;
	struct sl_sim_result result;
	uint32_t number;

	CHECK(!sl_trace_add_tensor(trace, 90 * 4 * KIB, SL_TENSOR_LOCAL, "scratch", &number));
	CHECK(!sl_trace_add_launch(trace, 100, "third", &number));
	CHECK(!sl_trace_add_use(trace, 2, SLUICE_USE_SCRATCH));
	small_machine(&machine, 100, 100);
	policy_run("lru", trace, &machine, NULL, &options, &result);
	CHECK_EQ(result.bytes[SL_PATH_STORE_OUT] + result.bytes[SL_PATH_HOST_OUT], 0);
	/* 10 of the 40 stay. */
	CHECK_EQ(result.bytes[SL_PATH_STORE_IN], 30 * 4 * KIB);
	sl_sim_result_fini(&result);
	sl_trace_destroy(trace);
}

/* 40 pages from host memory, 10 raw ones a step. At half their bytes they take 2 steps; with a
 * codec of 10 pages in 0.7 steps, 3; with one slower than the link they are left raw. */
static void
compressed_pages_take_their_part_of_the_link(void)
{
	static const struct {
		double decode_bps;
		uint32_t ratio, steps, saved;
	} rows[] = {
		{0, 5000, 4, 0},
		{409.6e9, 5000, 2, 20},
		{4.096e9 / 0.7, 5000, 3, 20},
		{4e9, 5000, 4, 0},
		{409.6e9, 0, 4, 0},
		{409.6e9, 1, 1, 40},
		{409.6e9, 10000, 4, 0},
	};
	struct sl_sim_options options = {0};
	struct sl_trace *trace = two_launches();
	struct sl_machine machine;
	struct sl_sim_result result;

	small_machine(&machine, 100, 100);
	machine.store_bytes = 4 * KIB; /* the weights begin in host memory */
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		machine.encode_bps = machine.decode_bps = rows[i].decode_bps;
		trace->tensors[0].ratio = rows[i].ratio;
		policy_run("lru", trace, &machine, NULL, &options, &result);
		CHECK_EQ(result.launches[0].end_ticks - 5000,
			 rows[i].steps * STEP + (uint64_t)machine.link_ns);
		CHECK_EQ(result.period_bytes[0][SL_PATH_HOST_IN], 40 * 4 * KIB);
		/* A page or so of parts of pages. */
		CHECK(result.period_saved_bytes[0][SL_PATH_HOST_IN] <=
		      rows[i].saved * 4 * KIB);
		CHECK((result.period_saved_bytes[0][SL_PATH_HOST_IN] + 4 * KIB) >=
		      rows[i].saved * 4 * KIB);
		sl_sim_result_fini(&result);
	}
	options.as_published = 1;
	CHECK_FAILS(sl_sim_lru.run(trace, &machine, NULL, &options, &result), -EINVAL,
		    "no compressed link");
	options.as_published = 0;
	CHECK_FAILS(g10_policy_uvm.run(trace, &machine, NULL, &options, &result), -EINVAL,
		    "no compressed link");
	sl_trace_destroy(trace);
}

static void
launch_that_exceeds_the_device_fails_with_its_name(void)
{
	static const char *const policies[] = {"uvm", "deepum", "lru"};
	struct sl_sim_options options = {.as_published = 1};
	struct sl_trace *trace = two_launches();
	struct sl_machine machine;
	struct sl_sim_result result;
	size_t i;

	small_machine(&machine, 59, 100);
	for (i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		policy_run(policies[i], trace, &machine, NULL, &options, &result);
		CHECK(result.failed);
		CHECK(strstr(result.why, "launch 0 first needs 245760 bytes"));
		sl_sim_result_fini(&result);
	}
	machine.device_bytes = 60 * 4 * KIB;
	policy_run("uvm", trace, &machine, NULL, &options, &result);
	CHECK(!result.failed);
	sl_sim_result_fini(&result);
	sl_trace_destroy(trace);
}

static void
plan_steps_move_what_they_say(void)
{
	struct sl_sim_options options = {.as_published = 1};
	struct sl_trace *trace = two_launches();
	struct sl_sim_result g10, plan_result;
	struct sl_machine machine;
	struct sl_plan *plan;

	small_machine(&machine, 100, 100);
	CHECK(!sl_plan_create(trace, "test", &plan));
	CHECK(!sl_plan_add(plan, 0, SL_PLAN_FREE, 1));
	CHECK(!sl_plan_add(plan, 1, SL_PLAN_EVICT_HOST, 0));
	policy_run("g10", trace, &machine, plan, &options, &g10);
	/* The weights leave from the second launch on, 10 a step, the last of them in the next
	 * period, whose first launch waits for them to have left and to come back. */
	CHECK_EQ(g10.period_bytes[0][SL_PATH_HOST_OUT] + g10.period_bytes[1][SL_PATH_HOST_OUT],
		 40 * 4 * KIB);
	CHECK_EQ(g10.period_bytes[0][SL_PATH_STORE_IN], 40 * 4 * KIB);
	CHECK_EQ(g10.period_bytes[1][SL_PATH_HOST_IN], 40 * 4 * KIB);
	CHECK_EQ(g10.period_bytes[1][SL_PATH_STORE_IN], 0);
	CHECK_EQ(g10.launches[2].fresh_pages, 20);
	policy_run("plan", trace, &machine, plan, &options, &plan_result);
	results_check_equal(&g10, &plan_result);

	plan->steps[1].launch = 7;
	CHECK_FAILS(g10_policy_g10.run(trace, &machine, plan, &options, &g10), -EINVAL,
		    "step 1");
	CHECK_FAILS(g10_policy_g10.run(trace, &machine, NULL, &options, &g10), -EINVAL,
		    "plan");
	sl_plan_destroy(plan);
	sl_sim_result_fini(&g10);
	sl_sim_result_fini(&plan_result);
	sl_trace_destroy(trace);
}

static void
steps_at_once_are_the_steps(const char *policy, const struct sl_trace *trace,
			    const struct sl_machine *machine, const struct sl_plan *plan)
{
	struct sl_sim_options options = {.periods = 3};
	struct sl_sim_result a, b;

	policy_run(policy, trace, machine, plan, &options, &a);
	options.single_steps = 1;
	policy_run(policy, trace, machine, plan, &options, &b);
	CHECK(!a.failed && a.best_ticks >= a.ideal_ticks);
	results_check_equal(&a, &b);
	for (int path = 0; path < SL_PATH_COUNT; path++) {
		CHECK_EQ(a.saved_bytes[path], b.saved_bytes[path]);
		CHECK(a.saved_bytes[path] <= a.bytes[path]);
	}
	sl_sim_result_fini(&a);
	sl_sim_result_fini(&b);
}

/* For any trace: repeated steps taken at once are the steps taken one by one; time is never
 * below the ideal; launches follow each other; pages that come in have gone out, or were
 * cold; a second run is the same. */
static void
any_trace_keeps_the_rules(uint64_t seed)
{
	static const char *const policies[] = {"uvm", "deepum", "lru"};
	struct sl_machine machine;
	struct sl_trace *trace;
	struct sl_rng rng;
	size_t i;
	int published;
	uint32_t k;

	sl_rng_init(&rng, seed);
	trace = random_trace(&rng, 20 + (uint32_t)sl_rng_below(&rng, 60), 30, 60);
	small_machine(&machine, 250 + (uint32_t)sl_rng_below(&rng, 500),
		      (uint32_t)sl_rng_below(&rng, 400));
	for (i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		for (published = 0; published < 2; published++) {
			struct sl_sim_options options = {.as_published = published,
							 .periods = 3};
			struct sl_sim_result a, b;
			uint64_t end = 0;

			policy_run(policies[i], trace, &machine, NULL, &options, &a);
			options.single_steps = 1;
			policy_run(policies[i], trace, &machine, NULL, &options, &b);
			CHECK(!a.failed);
			results_check_equal(&a, &b);
			for (k = 0; k < a.n_periods * a.n_launches; k++) {
				const struct sl_sim_launch *l = &a.launches[k];

				CHECK_EQ(l->start_ticks, end);
				CHECK(l->end_ticks - l->start_ticks >= l->ideal_ticks);
				CHECK(l->device_used_pages * 4 * KIB <= machine.device_bytes);
				CHECK(l->host_used_pages * 4 * KIB <= machine.host_bytes);
				end = l->end_ticks;
			}
			for (k = 0; k < a.n_periods; k++)
				CHECK(a.period_ticks[k] >= a.ideal_ticks);
			sl_sim_result_fini(&a);
			sl_sim_result_fini(&b);
		}
	}
	codec_draw(&rng, trace, &machine);
	steps_at_once_are_the_steps("lru", trace, &machine, NULL);
	sl_trace_destroy(trace);
}

/* A plan may be as bad as it likes: it costs time, and the launches still run. */
static void
any_plan_is_carried_out(uint64_t seed)
{
	struct sl_machine machine;
	struct sl_trace *trace;
	struct sl_plan *plan;
	struct sl_rng rng;
	int published;
	uint32_t i;

	sl_rng_init(&rng, seed);
	trace = random_trace(&rng, 40, 30, 60);
	small_machine(&machine, 250 + (uint32_t)sl_rng_below(&rng, 200),
		      (uint32_t)sl_rng_below(&rng, 400));
	CHECK(!sl_plan_create(trace, "random", &plan));
	for (i = 0; i < 150; i++)
		CHECK(!sl_plan_add(plan, (uint32_t)sl_rng_below(&rng, 40),
				   (enum sl_plan_verb)sl_rng_below(&rng, SL_PLAN_VERB_COUNT),
				   (uint32_t)sl_rng_below(&rng, 30)));
	g10_plan_sort(plan);
	for (published = 0; published < 2; published++) {
		struct sl_sim_options options = {.as_published = published, .periods = 3};
		struct sl_sim_result a, b;

		policy_run("plan", trace, &machine, plan, &options, &a);
		options.single_steps = 1;
		policy_run("plan", trace, &machine, plan, &options, &b);
		CHECK(!a.failed && a.best_ticks >= a.ideal_ticks);
		results_check_equal(&a, &b);
		sl_sim_result_fini(&a);
		sl_sim_result_fini(&b);
	}
	codec_draw(&rng, trace, &machine);
	steps_at_once_are_the_steps("plan", trace, &machine, plan);
	sl_plan_destroy(plan);
	sl_trace_destroy(trace);
}

/* Sharing can only cost. One GPU is the machine as before. */
static void
gpus_that_share_are_not_faster_than_one(uint64_t seed)
{
	struct sl_sim_options options = {.periods = 2};
	struct sl_sim_result one, two, four;
	struct sl_machine machine;
	struct sl_trace *trace;
	struct sl_rng rng;

	sl_rng_init(&rng, seed);
	trace = random_trace(&rng, 40, 30, 60);
	small_machine(&machine, 300, 200);
	policy_run("lru", trace, &machine, NULL, &options, &one);
	machine.n_gpus = 2;
	machine.host_bytes *= 2; /* the same part each */
	policy_run("lru", trace, &machine, NULL, &options, &two);
	machine.n_gpus = 4;
	machine.host_bytes *= 2;
	machine.shares_link = 1;
	options.stagger = 0.25;
	policy_run("lru", trace, &machine, NULL, &options, &four);
	CHECK(two.best_ticks >= one.best_ticks);
	CHECK(four.best_ticks >= one.best_ticks);
	options.as_published = 1;
	CHECK_FAILS(sl_sim_lru.run(trace, &machine, NULL, &options, &four), -EINVAL,
		    "one GPU");
	sl_sim_result_fini(&one);
	sl_sim_result_fini(&two);
	sl_sim_result_fini(&four);
	sl_trace_destroy(trace);
}

static void
impossible_machines_are_refused(void)
{
	struct sl_sim_options options = {0};
	struct sl_trace *trace = two_launches();
	struct sl_machine machine;
	struct sl_sim_result result;

#define REFUSED(field, value, words)                                                      \
	do {                                                                              \
		small_machine(&machine, 100, 100);                                        \
		machine.field = value;                                                    \
		CHECK_FAILS(g10_policy_uvm.run(trace, &machine, NULL, &options, &result), \
			    -EINVAL, words);                                              \
	} while (0)
	REFUSED(page_bytes, 5000, "page_bytes");
	REFUSED(device_bytes, 0, "device memory");
	REFUSED(link_in_bps, 0, "link_in_bps");
	REFUSED(link_out_bps, -1, "link_out_bps");
	REFUSED(store_read_bps, 5e9, "store_read_bps");
	REFUSED(link_batch_pages, 0, "link_batch_pages");
	REFUSED(n_gpus, 0, "n_gpus");
	REFUSED(fault_ns, -1, "fault_ns");
	REFUSED(encode_bps, 1e9, "decode_bps");
	REFUSED(decode_bps, 1e9, "encode_bps");
	REFUSED(encode_bps, -1, "encode_bps");
	REFUSED(decode_bps, NAN, "encode_bps");
#undef REFUSED
	small_machine(&machine, 100, 100);
	options.period = 1;
	CHECK_FAILS(g10_policy_uvm.run(trace, &machine, NULL, &options, &result), -EINVAL,
		    "period");
	sl_trace_destroy(trace);
}

int
main(void)
{
	uint64_t seed;

	cold_weights_cost_their_steps_and_warm_ones_nothing();
	our_pager_computes_behind_its_data();
	our_pager_writes_nothing_that_the_store_has();
	compressed_pages_take_their_part_of_the_link();
	launch_that_exceeds_the_device_fails_with_its_name();
	plan_steps_move_what_they_say();
	impossible_machines_are_refused();
	for (seed = 1; seed <= 40; seed++) {
		printf("seed %" PRIu64 "\n", seed);
		fflush(stdout);
		any_trace_keeps_the_rules(seed);
		any_plan_is_carried_out(seed);
		gpus_that_share_are_not_faster_than_one(seed);
	}
	return 0;
}
