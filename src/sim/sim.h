/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator: what a trace costs on a machine under a policy. Discrete events on an
 * integer clock; the same input gives the same output, byte for byte. Nothing here has
 * per-page state: runs of pages are the unit.
 */
#ifndef SL_SIM_SIM_H
#define SL_SIM_SIM_H

#include <stdio.h>

#include "plan/plan.h"

enum sl_sim_path {
	SL_PATH_STORE_IN,  /* store to device */
	SL_PATH_STORE_OUT, /* device to store */
	SL_PATH_HOST_IN,
	SL_PATH_HOST_OUT,
	SL_PATH_COUNT
};

/* What held a launch or a phase up. */
enum sl_sim_bound {
	SL_BOUND_COMPUTE,
	SL_BOUND_LINK_IN,
	SL_BOUND_LINK_OUT,
	SL_BOUND_STORE_READ,
	SL_BOUND_STORE_WRITE,
	SL_BOUND_COUNT
};

struct sl_sim_launch {
	uint64_t start_ticks, end_ticks;
	uint64_t ideal_ticks;
	uint64_t stall_ticks, overlap_ticks; /* paper G10, figure 12 */
	int64_t compute_ticks; /* below 0 where transfer steps are longer than the launch */
	/* Pages absent when it began: on their way already; on the host; on the store; nowhere.
	 * 0 for policies that do not page. */
	uint64_t transit_pages, host_pages, store_pages, fresh_pages;
	uint64_t host_used_pages, device_used_pages; /* when it had what it needs */
	enum sl_sim_bound bound;
};

struct sl_sim_options {
	int as_published; /* the artifact's departures from its paper: named in
			    * docs/design/simulator.md, one by one */
	uint32_t periods; /* simulated one after the other; 0: 2 */
	uint32_t period;  /* which of the trace's periods is repeated */
	int single_steps; /* take each transfer step by itself: slower, the same result */
	double stagger; /* several GPUs: each starts this share of a period after the one
			    * before, 0 to 1 */
};

struct sl_sim_result {
	int failed; /* the policy cannot run this: why says what did not fit */
	char why[256];
	uint32_t n_periods, n_launches;          /* of a period */
	uint64_t *period_ticks;                  /* by period */
	uint64_t ideal_ticks;                    /* of a period */
	uint64_t best_ticks;                     /* what is reported: see as_published */
	uint32_t best_period;                    /* the period reported */
	uint64_t bytes[SL_PATH_COUNT];           /* of the period reported */
	uint64_t (*period_bytes)[SL_PATH_COUNT]; /* by period */
	/* Of bytes: those that did not cross the link, since the rest was compressed. */
	uint64_t saved_bytes[SL_PATH_COUNT];
	uint64_t (*period_saved_bytes)[SL_PATH_COUNT]; /* by period */
	uint64_t faults;                /* of the period reported, in pages */
	uint64_t *period_faults;        /* by period */
	struct sl_sim_launch *launches; /* n_periods x n_launches */
};
void sl_sim_result_fini(struct sl_sim_result *result);

/*
 * A policy: runs the trace on the machine. plan: for policies that execute one, else NULL. out:
 * filled on 0, released by sl_sim_result_fini(). A trace that the policy cannot run is a result
 * (failed, why), not an error. With machine->n_gpus > 1 each GPU runs a copy of the trace,
 * sharing as machine.h says; the result is that of the GPU that was slowest (lru and plan without
 * as_published; the pager itself knows one GPU). A link that compresses (machine.h) is not for
 * as_published, nor for the policies of papers, which refuse it. Errors: -EINVAL (machine,
 * options or plan, with a text), -ENOMEM, -ENOSPC (a launch waits for room that can never be
 * made). Threads: any; nothing is kept. Does not block.
 */
struct sl_sim_policy {
	const char *name; /* "ideal" "lru" "plan"; the pager itself: "core-lru" "core-dragon"
			   * "core-uvm" "core-plan" (core_run.h) */
	int (*run)(const struct sl_trace *trace, const struct sl_machine *machine,
		   const struct sl_plan *plan, const struct sl_sim_options *options,
		   struct sl_sim_result *out);
};
extern const struct sl_sim_policy sl_sim_ideal, sl_sim_lru, sl_sim_plan;

#endif
