/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pager itself in virtual time. Its moves on cyclic traces have a closed form. On any trace
 * they are the same twice, stay within memory, and give each launch its data. The replay checks
 * every chunk, and a test loses one copy to show that.
 */
#include "sim_test.h"

#include "sim/core_run.h"

#define CHUNK (2 * MIB)

/* n tensors of n_chunks chunks each, used by one launch each, over and over. */
static struct sl_trace *
cyclic_trace(uint32_t n, uint32_t n_chunks, enum sluice_intent intent, uint64_t ticks)
{
	struct sl_trace *trace;
	uint32_t i, number;

	CHECK(!sl_trace_create(1000000000, &trace));
	for (i = 0; i < n; i++)
		CHECK(!sl_trace_add_tensor(trace, n_chunks * CHUNK, SL_TENSOR_GLOBAL,
					   NULL, &number));
	for (i = 0; i < n; i++) {
		CHECK(!sl_trace_add_launch(trace, ticks, NULL, &number));
		CHECK(!sl_trace_add_use(trace, i, intent));
	}
	return trace;
}

/* 1 GHz; a chunk crosses the link in 100 microseconds and the drive's in a millisecond. */
static void
chunk_machine(struct sl_machine *machine, uint64_t device_chunks, uint64_t host_chunks)
{
	sl_machine_g10(machine);
	machine->device_bytes = device_chunks * CHUNK;
	machine->host_bytes = host_chunks * CHUNK;
	machine->link_in_bps = machine->link_out_bps = CHUNK * 1e4;
	machine->store_read_bps = machine->store_write_bps = CHUNK * 1e3;
}

struct run {
	struct sl_sim_result result;
	struct sl_core_report report;
};

static void
run_core(struct run *run, enum sluice_policy policy, const struct sl_trace *trace,
	 const struct sl_machine *machine, uint32_t periods)
{
	const struct sl_sim_options options = {.periods = periods};

	CHECK(!sl_core_run(policy, trace, machine, &options, 0, &run->result, &run->report));
	CHECK(run->report.device_peak_bytes <= machine->device_bytes);
	for (uint32_t i = 0; i < run->result.n_periods && !run->result.failed; i++) {
		const struct sluice_stats *stats = &run->report.periods[i];

		CHECK(stats->resident_peak_bytes[SLUICE_TIER_DEVICE] <= machine->device_bytes);
		CHECK(stats->resident_peak_bytes[SLUICE_TIER_HOST] <= machine->host_bytes);
	}
}

static void
run_free(struct run *run)
{
	sl_sim_result_fini(&run->result);
	sl_core_report_fini(&run->report);
}

static const struct sluice_stats *
last_period(const struct run *run)
{
	return &run->report.periods[run->result.n_periods - 1];
}

static void
a_trace_that_fits_moves_nothing_and_takes_its_own_time(void)
{
	struct sl_trace *trace = cyclic_trace(4, 2, SLUICE_USE_READ_WRITE, 1000);
	struct sl_machine machine;
	struct run run;

	chunk_machine(&machine, 8, 16);
	run_core(&run, SLUICE_POLICY_LRU, trace, &machine, 3);
	CHECK_EQ(sluice_stats_h2d_bytes(last_period(&run)), 0);
	CHECK_EQ(sluice_stats_d2h_bytes(last_period(&run)), 0);
	CHECK_EQ(run.result.best_ticks, 4 * 1000);
	CHECK_EQ(run.result.launches[2 * 4 + 3].stall_ticks, 0);
	run_free(&run);
	sl_trace_destroy(trace);
}

/* The least recently used is always the next to be used. */
static void
a_cyclic_scan_that_is_read_comes_in_whole_and_never_goes_out(void)
{
	struct sl_trace *trace = cyclic_trace(6, 2, SLUICE_USE_READ, 1000);
	struct sl_machine machine;
	struct run run;

	chunk_machine(&machine, 10, 16);
	run_core(&run, SLUICE_POLICY_LRU, trace, &machine, 3);
	CHECK_EQ(sluice_stats_h2d_bytes(last_period(&run)), 12 * CHUNK);
	CHECK_EQ(sluice_stats_d2h_bytes(last_period(&run)), 0);
	CHECK_EQ(last_period(&run)->counter[SLUICE_COUNTER_CLEAN_DROP], 12 * CHUNK);
	CHECK_EQ(run.result.bytes[SL_PATH_HOST_IN], 12 * CHUNK);
	CHECK_EQ(run.result.bytes[SL_PATH_STORE_IN], 0);
	/* Bound by the link: 12 chunks of 100 microseconds, one launch and one latency behind. */
	CHECK(run.result.best_ticks >= 12 * 100000);
	CHECK(run.result.best_ticks <= 12 * 100000 + 1000 + 5000);
	CHECK(run.result.launches[2 * 6 + 5].bound == SL_BOUND_LINK_IN);
	run_free(&run);

	/* A policy without dirty bits writes back what nobody wrote. */
	run_core(&run, SLUICE_POLICY_UVM, trace, &machine, 3);
	CHECK_EQ(sluice_stats_h2d_bytes(last_period(&run)), 12 * CHUNK);
	CHECK_EQ(sluice_stats_d2h_bytes(last_period(&run)), 12 * CHUNK);
	run_free(&run);
	sl_trace_destroy(trace);
}

static void
a_cyclic_scan_that_is_written_goes_out_as_it_comes_in(void)
{
	struct sl_trace *trace = cyclic_trace(6, 2, SLUICE_USE_READ_WRITE, 1000);
	struct sl_machine machine;
	struct run run;

	chunk_machine(&machine, 10, 16);
	run_core(&run, SLUICE_POLICY_LRU, trace, &machine, 3);
	CHECK_EQ(sluice_stats_h2d_bytes(last_period(&run)), 12 * CHUNK);
	CHECK_EQ(sluice_stats_d2h_bytes(last_period(&run)), 12 * CHUNK);
	CHECK_EQ(run.result.bytes[SL_PATH_STORE_OUT], 0);
	run_free(&run);

	/* Without a host tier the same goes through the drive, ten times as slow. */
	chunk_machine(&machine, 10, 0);
	run_core(&run, SLUICE_POLICY_LRU, trace, &machine, 3);
	CHECK_EQ(run.result.bytes[SL_PATH_STORE_IN], 12 * CHUNK);
	CHECK_EQ(run.result.bytes[SL_PATH_STORE_OUT], 12 * CHUNK);
	CHECK_EQ(sluice_stats_h2d_bytes(last_period(&run)), 12 * CHUNK);
	CHECK(run.result.best_ticks >= 12 * 1000000);
	run_free(&run);
	sl_trace_destroy(trace);
}

static void
what_was_only_read_is_written_to_the_drive_once(void)
{
	struct sl_trace *trace = cyclic_trace(6, 2, SLUICE_USE_READ, 1000);
	struct sl_machine machine;
	struct run run;

	chunk_machine(&machine, 10, 0);
	run_core(&run, SLUICE_POLICY_LRU, trace, &machine, 3);
	CHECK_EQ(run.result.bytes[SL_PATH_STORE_IN], 12 * CHUNK);
	CHECK_EQ(run.result.bytes[SL_PATH_STORE_OUT], 0);
	CHECK_EQ(run.result.bytes[SL_PATH_HOST_OUT], 0);
	run_free(&run);
	sl_trace_destroy(trace);
}

/* An output a launch, read by the next, then dead: there is never more than two of them alive. */
static void
dead_outputs_move_nowhere(void)
{
	struct sl_trace *trace;
	struct sl_machine machine;
	struct run run;
	uint32_t i, number;

	CHECK(!sl_trace_create(1000000000, &trace));
	for (i = 0; i < 20; i++)
		CHECK(!sl_trace_add_tensor(trace, 3 * CHUNK, SL_TENSOR_LOCAL, NULL, &number));
	for (i = 0; i < 20; i++) {
		CHECK(!sl_trace_add_launch(trace, 50000, NULL, &number));
		if (i)
			CHECK(!sl_trace_add_use(trace, i - 1, SLUICE_USE_READ));
		CHECK(!sl_trace_add_use(trace, i, SLUICE_USE_WRITE_ALL));
	}
	chunk_machine(&machine, 9, 16);
	run_core(&run, SLUICE_POLICY_LRU, trace, &machine, 3);
	CHECK_EQ(sluice_stats_h2d_bytes(last_period(&run)), 0);
	CHECK_EQ(sluice_stats_d2h_bytes(last_period(&run)), 0);
	CHECK(last_period(&run)->counter[SLUICE_COUNTER_DISCARDS] == 20 * 3 * CHUNK);
	run_free(&run);
	sl_trace_destroy(trace);
}

/* Random traces in chunks: the generator counts in pages of 4 KiB. */
static struct sl_trace *
random_chunk_trace(struct sl_rng *rng)
{
	return random_trace(rng, 60, 24, 3 * CHUNK / (4 * KIB));
}

static void
runs_check_equal(const struct run *a, const struct run *b)
{
	results_check_equal(&a->result, &b->result);
	CHECK_EQ(a->report.copies_out, b->report.copies_out);
	CHECK_EQ(a->report.device_peak_bytes, b->report.device_peak_bytes);
	CHECK(!memcmp(a->report.periods, b->report.periods,
		      a->result.n_periods * sizeof(*a->report.periods)));
}

/* And, since sl_core_run() would fail: every launch found what it needs. */
static void
the_same_trace_gives_the_same_run_to_the_byte(uint64_t seed)
{
	struct sl_rng rng;

	sl_rng_init(&rng, seed);
	for (int round = 0; round < 6; round++) {
		struct sl_trace *trace = random_chunk_trace(&rng);

		for (int p = 0; p < SLUICE_POLICY_COUNT; p++) {
			struct sl_machine machine;
			struct run a, b;

			chunk_machine(&machine, 16 + sl_rng_below(&rng, 16),
				      sl_rng_below(&rng, 12));
			run_core(&a, (enum sluice_policy)p, trace, &machine, 3);
			run_core(&b, (enum sluice_policy)p, trace, &machine, 3);
			CHECK(!a.result.failed);
			runs_check_equal(&a, &b);
			run_free(&a);
			run_free(&b);
		}
		sl_trace_destroy(trace);
	}
}

static void
a_lost_copy_is_found_by_the_launch_that_needs_it(void)
{
	const struct sl_sim_options options = {.periods = 2};
	struct sl_trace *trace = cyclic_trace(6, 2, SLUICE_USE_READ_WRITE, 1000);
	struct sl_core_report report;
	struct sl_sim_result result;
	struct sl_machine machine;

	chunk_machine(&machine, 10, 4);
	for (uint64_t copy = 1; copy <= 8; copy++)
		CHECK_FAILS(sl_core_run(SLUICE_POLICY_LRU, trace, &machine, &options,
					copy, &result, &report),
			    -EIO, "left it, not launch");
	sl_trace_destroy(trace);
}

static void
what_cannot_run_is_a_result_and_what_cannot_be_is_an_error(void)
{
	const struct sl_sim_options options = {0};
	struct sl_trace *trace = cyclic_trace(3, 20, SLUICE_USE_READ, 1000);
	struct sl_sim_result result;
	struct sl_machine machine;

	chunk_machine(&machine, 10, 4);
	policy_run("core-lru", trace, &machine, NULL, &options, &result);
	CHECK(result.failed && strstr(result.why, "raise the device budget"));
	sl_sim_result_fini(&result);
	machine.n_gpus = 2;
	CHECK_FAILS(sl_sim_core_lru.run(trace, &machine, NULL, &options, &result),
		    -EINVAL, "one GPU");
	sl_trace_destroy(trace);
}

/* The pager's own plan against its LRU, and against the best there is: of N chunks used in turn by
 * launches of one chunk, with room for C, at least N - C are absent in each period. */
static void
a_plan_moves_less_than_lru_where_lru_thrashes(void)
{
	struct sl_trace *trace = cyclic_trace(20, 1, SLUICE_USE_READ, 1000);
	struct sl_machine machine;
	struct run lru, plan;

	chunk_machine(&machine, 15, 64);
	run_core(&lru, SLUICE_POLICY_LRU, trace, &machine, 8);
	run_core(&plan, SLUICE_POLICY_PLAN, trace, &machine, 8);
	CHECK_EQ(sluice_stats_h2d_bytes(last_period(&lru)), 20 * CHUNK);
	CHECK(sluice_stats_h2d_bytes(last_period(&plan)) < 10 * CHUNK);
	CHECK(sluice_stats_h2d_bytes(last_period(&plan)) >= 5 * CHUNK);
	CHECK(plan.result.best_ticks < lru.result.best_ticks);
	run_free(&lru);
	run_free(&plan);
	sl_trace_destroy(trace);
}

/* The simulator's lru and the pager's see the same launches: on whole chunks, the same bytes. */
static void
the_simulators_lru_moves_what_the_pagers_does(void)
{
	const struct sl_sim_options options = {.periods = 3};
	const struct {
		enum sluice_intent intent;
		uint64_t host_chunks;
	} cases[] = {
		{SLUICE_USE_READ_WRITE, 16},
		{SLUICE_USE_READ_WRITE, 0},
		{SLUICE_USE_READ, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sl_trace *trace = cyclic_trace(6, 2, cases[i].intent, 1000);
		struct sl_sim_result sim;
		struct sl_machine machine;
		struct run run;

		chunk_machine(&machine, 10, cases[i].host_chunks);
		policy_run("lru", trace, &machine, NULL, &options, &sim);
		run_core(&run, SLUICE_POLICY_LRU, trace, &machine, 3);
		for (int path = 0; path < SL_PATH_COUNT; path++)
			CHECK_EQ(run.result.bytes[path], sim.bytes[path]);
		run_free(&run);
		sl_sim_result_fini(&sim);
		sl_trace_destroy(trace);
	}
}

/* A network of tensors of all sizes: each is rounded up to chunks, and so are the bytes. */
static void
on_a_published_trace_both_move_the_same_within_rounding(void)
{
	const struct sl_sim_options options = {.periods = 2};
	struct sl_trace *trace = published_trace("BERT_Base", 256);
	struct sl_sim_result sim;
	struct sl_machine machine;
	struct run run;
	double in, in_sim;

	if (!trace)
		return; /* its absence was printed */
	sl_machine_g10(&machine);
	policy_run("lru", trace, &machine, NULL, &options, &sim);
	run_core(&run, SLUICE_POLICY_LRU, trace, &machine, 2);
	CHECK_EQ(run.result.bytes[SL_PATH_STORE_IN], sim.bytes[SL_PATH_STORE_IN]);
	in = (double)run.result.bytes[SL_PATH_HOST_IN];
	in_sim = (double)sim.bytes[SL_PATH_HOST_IN];
	CHECK(in > 0.97 * in_sim && in < 1.03 * in_sim);
	CHECK(run.result.bytes[SL_PATH_HOST_OUT] <=
	      (uint64_t)(1.03 * (double)sim.bytes[SL_PATH_HOST_OUT]));
	CHECK(run.result.best_ticks >= run.result.ideal_ticks);
	run_free(&run);
	sl_sim_result_fini(&sim);
	sl_trace_destroy(trace);
}

/* A scan that is written, on a link that is the limit: at half the bytes by a fast codec as on
 * a link twice as fast, at a codec of 1.25 times the link's rate as on one 1.25 times as fast.
 * The moves are the same. */
static void
a_compressed_link_takes_the_time_of_a_faster_one(void)
{
	static const struct {
		double codec, link;
		uint32_t ratio;
		unsigned saved; /* percent of the bytes */
	} rows[] = {{100, 2, 5000, 50},
		    {1.25, 1.25, 5000, 50},
		    {100, 1, 0, 0},
		    {0.5, 1, 5000, 0}};
	struct sl_trace *trace = cyclic_trace(16, 2, SLUICE_USE_READ_WRITE, 1000);
	struct sl_machine machine, faster;
	struct run coded, other;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		chunk_machine(&machine, 16, 64);
		faster = machine;
		machine.encode_bps = machine.decode_bps = machine.link_in_bps * rows[i].codec;
		faster.link_in_bps *= rows[i].link;
		faster.link_out_bps *= rows[i].link;
		for (uint32_t t = 0; t < trace->n_tensors; t++)
			trace->tensors[t].ratio = rows[i].ratio;
		run_core(&coded, SLUICE_POLICY_LRU, trace, &machine, 3);
		run_core(&other, SLUICE_POLICY_LRU, trace, &faster, 3);
		CHECK(coded.result.best_ticks <= other.result.best_ticks * 101 / 100);
		CHECK(coded.result.best_ticks >= other.result.best_ticks * 99 / 100);
		for (int path = 0; path < SL_PATH_COUNT; path++) {
			CHECK_EQ(coded.result.bytes[path], other.result.bytes[path]);
			CHECK_EQ(other.result.saved_bytes[path], 0);
		}
		CHECK(coded.result.bytes[SL_PATH_HOST_OUT] >= 16 * CHUNK);
		for (int path = SL_PATH_HOST_IN; path <= SL_PATH_HOST_OUT; path++)
			CHECK_EQ(coded.result.saved_bytes[path],
				 coded.result.bytes[path] * rows[i].saved / 100);
		run_free(&coded);
		run_free(&other);
	}
	sl_trace_destroy(trace);
}

int
main(void)
{
	const uint64_t seed = 20240607;

	printf("seed %" PRIu64 "\n", seed);
	a_trace_that_fits_moves_nothing_and_takes_its_own_time();
	a_cyclic_scan_that_is_read_comes_in_whole_and_never_goes_out();
	a_cyclic_scan_that_is_written_goes_out_as_it_comes_in();
	what_was_only_read_is_written_to_the_drive_once();
	dead_outputs_move_nowhere();
	the_same_trace_gives_the_same_run_to_the_byte(seed);
	a_lost_copy_is_found_by_the_launch_that_needs_it();
	what_cannot_run_is_a_result_and_what_cannot_be_is_an_error();
	a_plan_moves_less_than_lru_where_lru_thrashes();
	the_simulators_lru_moves_what_the_pagers_does();
	on_a_published_trace_both_move_the_same_within_rounding();
	a_compressed_link_takes_the_time_of_a_faster_one();
	return 0;
}
