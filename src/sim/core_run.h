/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pager itself (src/core) under a trace, on a virtual device, store and clock: the policies as
 * they will run. sim.c lists them as core-lru, core-dragon, core-uvm and core-plan; tests look
 * closer.
 */
#ifndef SL_SIM_CORE_RUN_H
#define SL_SIM_CORE_RUN_H

#include "sim/sim.h"
#include "sluice/stats.h"

extern const struct sl_sim_policy sl_sim_core_lru, sl_sim_core_dragon, sl_sim_core_uvm,
	sl_sim_core_plan;

struct sl_core_report {
	struct sluice_stats *periods; /* counters of each; owned */
	uint64_t device_peak_bytes;   /* of the virtual device's memory */
	uint64_t copies_out;          /* from the device, in all */
};
void sl_core_report_fini(struct sl_core_report *report);

/*
 * As the run() of sl_sim_lru, and with the pager's own counters. lose_copy: the number of a copy out
 * whose contents get lost (0: none), for a test of the checks. Errors: also -EIO: the pager gave a
 * launch the wrong contents, or asked of the device what no device can do; the text says what.
 * Threads: one caller, on no virtual clock yet; a handful are started and joined.
 */
int sl_core_run(enum sluice_policy policy, const struct sl_trace *trace,
		const struct sl_machine *machine, const struct sl_sim_options *options,
		uint64_t lose_copy, struct sl_sim_result *out,
		struct sl_core_report *report) SL_MUST_CHECK;

#endif
