/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What page faults add to a launch (paper G10's evaluation, as its artifact computes it):
 * from the launch's measured times with everything present, with outputs absent and with
 * all absent comes a bandwidth at which faults are served for its inputs and its outputs.
 * Never more than the link gives beside the store's share; the store's share is slower by
 * the ratio of the latencies.
 *
 * As published, the measured times are cut to whole seconds first (docs/design/simulator.md,
 * departure 1), which makes nearly all of them 0 and the bandwidth that of the link.
 *
 * The policies uvm, deepum and g10 pay it on the machine of sim/paging.h; as published, so does
 * plan, since plans of ours are then carried out by the very rules of g10's.
 *
 * Threads: pure.
 */
#include "g10/replica.h"

#include <math.h>

#include "sim/paging.h"

#define DEEPUM_AHEAD 8 /* launches looked ahead */

/* Bytes per ms where the measured times are equal: as good as no limit. */
#define FAULT_RATE_UNLIMITED 1.06e9

#define TICKS_MAX ((double)SL_TRACE_TICKS_MAX)

static double
ticks_to_ms(uint64_t ticks, uint64_t clock_hz, int as_published)
{
	uint64_t seconds = ticks / clock_hz;

	if (as_published)
		return (double)seconds * 1e3;
	return (double)ticks * 1e3 / (double)clock_hz;
}

/* Quotient of bytes and a rate; no bytes take no time whatever the rate. */
static double
time_ms(uint64_t bytes, double rate)
{
	return bytes ? (double)bytes / rate : 0;
}

static uint64_t
fault_ticks(const struct sl_machine *machine, uint64_t clock_hz,
	    const struct sl_sim_work_launch *launch, const struct sl_fault_bytes *bytes,
	    int as_published)
{
	double link = machine->link_in_bps / 1e3, store = machine->store_read_bps / 1e3;
	double slower = machine->fault_ns + machine->store_read_ns;
	double t0 = ticks_to_ms(launch->fault_all_ticks, clock_hz, as_published);
	double t1 = ticks_to_ms(launch->fault_output_ticks, clock_hz, as_published);
	double t2 = ticks_to_ms(launch->ticks, clock_hz, as_published);
	double span[SL_ROLE_COUNT] = {t0 - t1, t1 - t2};
	double rate[SL_ROLE_COUNT], store_rate[SL_ROLE_COUNT];
	double most, store_ms = 0, rest_ms = 0, ticks;
	int role;

	slower = slower > 0 ? machine->fault_ns / slower : 1;
	for (role = 0; role < SL_ROLE_COUNT; role++) {
		rate[role] = FAULT_RATE_UNLIMITED;
		if (span[role] > 0)
			rate[role] = (double)bytes->all[role] / span[role];
		store_rate[role] = 0;
		if (bytes->store[role])
			store_rate[role] = fmin(rate[role] * slower, store);
	}
	most = fmax(store_rate[SL_ROLE_INPUT], store_rate[SL_ROLE_OUTPUT]);
	for (role = 0; role < SL_ROLE_COUNT; role++) {
		uint64_t rest = bytes->absent[role] - bytes->store[role];

		rate[role] = fmin(rate[role], link - most);
		store_ms += time_ms(bytes->store[role], store_rate[role]);
		if (rest && rate[role] <= 0 && !as_published)
			rate[role] = link / 2; /* they share the link in turn */
		rest_ms += as_published ? (double)rest / rate[role]
					: time_ms(rest, rate[role]);
	}
	/* No bytes at no bandwidth are 0 / 0, and the maximum then is the store's time. */
	if (isnan(rest_ms))
		rest_ms = 0;
	ticks = fmax(store_ms, rest_ms) * ((double)clock_hz / 1e3);
	/* A store as fast as the link leaves the rest no bandwidth. The artifact converts that
	 * infinite time to an integer, which comes out as 0: departure 2. */
	if (!(ticks < TICKS_MAX))
		return as_published ? 0 : (uint64_t)TICKS_MAX;
	return (uint64_t)ticks;
}

static int
uvm_run(const struct sl_trace *trace, const struct sl_machine *machine,
	const struct sl_plan *plan, const struct sl_sim_options *options,
	struct sl_sim_result *out)
{
	static const struct sl_paging_rules rules = {.fault_ticks = fault_ticks};

	return sl_paging_run(&rules, trace, machine, plan, options, out);
}

static int
deepum_run(const struct sl_trace *trace, const struct sl_machine *machine,
	   const struct sl_plan *plan, const struct sl_sim_options *options,
	   struct sl_sim_result *out)
{
	static const struct sl_paging_rules rules = {.fault_ticks = fault_ticks,
						     .ahead = DEEPUM_AHEAD};

	return sl_paging_run(&rules, trace, machine, plan, options, out);
}

static int
g10_run(const struct sl_trace *trace, const struct sl_machine *machine,
	const struct sl_plan *plan, const struct sl_sim_options *options,
	struct sl_sim_result *out)
{
	static const struct sl_paging_rules rules = {.plans = 1, .fault_ticks = fault_ticks};

	return sl_paging_run(&rules, trace, machine, plan, options, out);
}

static int
plan_run(const struct sl_trace *trace, const struct sl_machine *machine,
	 const struct sl_plan *plan, const struct sl_sim_options *options,
	 struct sl_sim_result *out)
{
	return (options->as_published ? g10_run : sl_sim_plan.run)(trace, machine, plan,
								   options, out);
}

const struct sl_sim_policy g10_policy_uvm = {"uvm", uvm_run};
const struct sl_sim_policy g10_policy_deepum = {"deepum", deepum_run};
const struct sl_sim_policy g10_policy_g10 = {"g10", g10_run};
const struct sl_sim_policy g10_policy_plan = {"plan", plan_run};
