/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traffic both ways, by the pager itself in virtual time. Programs go through several arrays,
 * many times the device's size, in launches a sixteenth of it. They read, write or update them.
 * The link must have work in each direction at all times: a period takes at most 1.05 of the
 * busier direction's time. Its bytes follow from the counters, and the counters from the order
 * of uses.
 *
 * The rates are an H200's. Here each direction has its own; limits of both together do not
 * matter.
 */
#include "sim_test.h"

#include "sim/core_run.h"

#define CHUNK         (2 * MIB)
#define DEVICE_CHUNKS 64u
#define TILES         64u
#define KERNEL_TICKS  4000u /* of 153000 that the chunks of a launch take to come */
#define ARRAYS_MAX    6u

/* An array: chunks of a tile, and what is done with them; 0 chunks ends a pass. */
struct use {
	uint32_t chunks;
	enum sluice_intent intent;
	int none; /* 1: this pass leaves the array alone */
};

/* Passes over the arrays, one launch a tile. */
static struct sl_trace *
passes_trace(const struct use (*pass)[ARRAYS_MAX], uint32_t n_passes)
{
	struct sl_trace *trace;
	uint32_t number;

	CHECK(!sl_trace_create(1000000000, &trace));
	for (uint32_t tile = 0; tile < TILES; tile++)
		for (uint32_t a = 0; a < ARRAYS_MAX && pass[0][a].chunks; a++)
			CHECK(!sl_trace_add_tensor(trace, pass[0][a].chunks * CHUNK,
						   SL_TENSOR_GLOBAL, NULL, &number));
	for (uint32_t p = 0; p < n_passes; p++) {
		for (uint32_t tile = 0, t = 0; tile < TILES; tile++) {
			CHECK(!sl_trace_add_launch(trace, KERNEL_TICKS, NULL, &number));
			for (uint32_t a = 0; a < ARRAYS_MAX && pass[p][a].chunks; a++, t++)
				if (!pass[p][a].none)
					CHECK(!sl_trace_add_use(trace, t, pass[p][a].intent));
		}
	}
	return trace;
}

/* Of the last of three periods. */
struct outcome {
	uint64_t in, out; /* chunks */
	double in_s, out_s, s;
};

static struct outcome
passes_run(const struct use (*pass)[ARRAYS_MAX], uint32_t n_passes)
{
	struct sl_trace *trace = passes_trace(pass, n_passes);
	const struct sl_sim_options options = {.periods = 3};
	struct sl_core_report report;
	struct sl_sim_result result;
	struct sl_machine machine;
	struct outcome o;

	sl_machine_g10(&machine);
	machine.device_bytes = DEVICE_CHUNKS * CHUNK;
	machine.host_bytes = 16 * machine.device_bytes;
	machine.link_in_bps = 54.7e9;
	machine.link_out_bps = 54.6e9;
	machine.alloc_bps = 2e12;
	CHECK(!sl_core_run(SLUICE_POLICY_LRU, trace, &machine, &options, 0, &result, &report));
	CHECK(!result.failed);
	o.in = sluice_stats_h2d_bytes(&report.periods[2]) / CHUNK;
	o.out = sluice_stats_d2h_bytes(&report.periods[2]) / CHUNK;
	o.in_s = (double)(o.in * CHUNK) / machine.link_in_bps;
	o.out_s = (double)(o.out * CHUNK) / machine.link_out_bps;
	o.s = (double)result.period_ticks[2] / 1e9;
	printf("in %llu, out %llu chunks: %.4f ms in, %.4f ms out, %.4f ms\n",
	       (unsigned long long)o.in, (unsigned long long)o.out, o.in_s * 1e3,
	       o.out_s * 1e3, o.s * 1e3);
	sl_sim_result_fini(&result);
	sl_core_report_fini(&report);
	sl_trace_destroy(trace);
	return o;
}

static void
an_update_in_place_keeps_both_directions_busy(void)
{
	static const struct use pass[][ARRAYS_MAX] = {{{4, SLUICE_USE_READ_WRITE, 0}}};
	struct outcome o = passes_run(pass, 1);

	CHECK_EQ(o.in, TILES * 4);
	CHECK_EQ(o.out, TILES * 4);
	CHECK(o.s <= 1.05 * o.out_s);
}

static void
a_filter_keeps_both_directions_busy(void)
{
	static const struct use pass[][ARRAYS_MAX] = {
		{{2, SLUICE_USE_READ, 0}, {2, SLUICE_USE_WRITE_ALL, 0}}};
	struct outcome o = passes_run(pass, 1);

	CHECK_EQ(o.in, TILES * 2);
	CHECK_EQ(o.out, TILES * 2);
	CHECK(o.s <= 1.05 * o.out_s);
}

static void
two_arrays_updated_beside_one_that_is_read(void)
{
	static const struct use pass[][ARRAYS_MAX] = {{{1, SLUICE_USE_READ, 0},
						       {2, SLUICE_USE_READ_WRITE, 0},
						       {2, SLUICE_USE_READ_WRITE, 0}}};
	struct outcome o = passes_run(pass, 1);

	CHECK_EQ(o.in, TILES * 5);
	CHECK_EQ(o.out, TILES * 4);
	CHECK(o.s <= 1.05 * o.in_s);
}

static void
a_pass_that_reads_and_one_that_updates(void)
{
	static const struct use pass[][ARRAYS_MAX] = {
		{{1, SLUICE_USE_READ, 0},
		 {2, SLUICE_USE_READ, 0},
		 {2, SLUICE_USE_READ_WRITE, 1}},
		{{1, SLUICE_USE_READ, 0},
		 {2, SLUICE_USE_READ_WRITE, 0},
		 {2, SLUICE_USE_READ_WRITE, 0}},
	};
	struct outcome o = passes_run(pass, 2);

	CHECK_EQ(o.in, TILES * 8);
	CHECK_EQ(o.out, TILES * 4);
	CHECK(o.s <= 1.05 * o.in_s);
}

static void
a_pass_that_writes_five_arrays_and_one_that_reads_them(void)
{
	static const struct use pass[][ARRAYS_MAX] = {
		{{1, SLUICE_USE_READ, 0},
		 {1, SLUICE_USE_WRITE_ALL, 0},
		 {1, SLUICE_USE_WRITE_ALL, 0},
		 {1, SLUICE_USE_WRITE_ALL, 0},
		 {1, SLUICE_USE_WRITE_ALL, 0},
		 {1, SLUICE_USE_WRITE_ALL, 0}},
		{{1, SLUICE_USE_READ_WRITE, 0},
		 {1, SLUICE_USE_READ, 0},
		 {1, SLUICE_USE_READ, 0},
		 {1, SLUICE_USE_READ, 0},
		 {1, SLUICE_USE_READ, 0},
		 {1, SLUICE_USE_READ, 0}},
	};
	struct outcome o = passes_run(pass, 2);
	double chunk_out_s = o.out_s / (double)o.out, chunk_in_s = o.in_s / (double)o.in;
	/* The first pass has more to send than to fetch, the second the other way round; what the
	 * device holds when the second begins is sent during it. */
	uint32_t held = DEVICE_CHUNKS / 6 * 5; /* of whole tiles */
	double bound_s = (TILES * 5 - held) * chunk_out_s + TILES * 6 * chunk_in_s;

	CHECK_EQ(o.in, TILES * 7);
	CHECK_EQ(o.out, TILES * 6);
	CHECK(o.s <= 1.05 * bound_s);
}

int
main(void)
{
	an_update_in_place_keeps_both_directions_busy();
	a_filter_keeps_both_directions_busy();
	two_arrays_updated_beside_one_that_is_read();
	a_pass_that_reads_and_one_that_updates();
	a_pass_that_writes_five_arrays_and_one_that_reads_them();
	return 0;
}
