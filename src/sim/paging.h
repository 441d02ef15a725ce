/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two files of the simulation by pages share: paging.c (the machine, the steps of all
 * GPUs, the policies) and paging_launch.c (one GPU's launches: what they ask for, wait for and
 * leave behind).
 *
 * Threads: each run has objects of its own.
 */
#ifndef SL_SIM_PAGING_H
#define SL_SIM_PAGING_H

#include "sim/flow.h"
#include "sim/internal.h"

#define DEEPUM_AHEAD 8 /* launches looked ahead */

enum paging_kind {
	PAGING_UVM,
	PAGING_DEEPUM,
	PAGING_PLAN, /* carries out a plan by the rules of the published machine */
	PAGING_OURS, /* our pager: pins, no faults, dead data dropped; a plan if there is one */
};

enum gpu_state {
	GPU_WAITING, /* the launch misses pages */
	GPU_RUNNING, /* the launch ends at `end` */
	GPU_DONE
};

/* What held a waiting launch up, in transfer steps. */
struct gpu_waits {
	uint64_t steps[SL_BOUND_COUNT];
};

struct gpu {
	struct sl_flow flow;
	struct paging *paging;
	struct sl_sim_result result;
	enum gpu_state state;
	uint32_t period, launch, plan_next;
	uint64_t begin;      /* of the period, ticks */
	uint64_t start, end; /* of the launch */
	uint64_t busy_steps; /* since its start: steps at which something waited to be moved */
	uint64_t alloc_pages; /* taken at once by the launch */
	uint64_t late_ticks;  /* latency of the last page that arrived */
	uint32_t attempts;
	struct gpu_waits waits;
	uint64_t moved[SL_PATH_COUNT], faults; /* before and since the period's begin */
};

struct paging {
	struct sl_sim_work work;
	const struct sl_machine *machine;
	const struct sl_plan *plan;
	const struct sl_sim_options *options;
	enum paging_kind kind;
	uint64_t page_bytes;
	uint64_t step_ticks; /* between transfer steps */
	uint64_t step_next; /* number of the next step; its time is that times step_ticks */
	struct sl_flow_limits limits; /* of the machine; shared by the GPUs */
	uint64_t store_late_ticks, link_late_ticks;
	struct gpu *gpus;
	uint32_t n_gpus;
};

/* Begin the launch at g->launch: what the plan says for it, then what it misses. */
void sl_gpu_begin(struct gpu *g);
/* Launches that end before `time` make place for those behind them. */
void sl_gpu_advance(struct gpu *g, uint64_t time);
/* Behind the step at `time`: has what the launch waits for arrived? -ENOSPC: never. */
int sl_gpu_look(struct gpu *g, uint64_t time) SL_MUST_CHECK;
/* DeepUM: the tensors of launch `number` (counted from the start) are not taken for others. */
void sl_gpu_protect(struct gpu *g, uint64_t number);

#endif
