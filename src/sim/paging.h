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

/* Bytes of a launch that were absent when it began. */
struct sl_fault_bytes {
	uint64_t all[SL_ROLE_COUNT];    /* of the launch, by role */
	uint64_t absent[SL_ROLE_COUNT]; /* of them: to be allocated, or on host or store */
	uint64_t store[SL_ROLE_COUNT];  /* of those: on the store */
};

/* What a policy does in its own way. All 0: our pager under LRU. */
struct sl_paging_rules {
	int plans; /* it carries out a plan */
	/* Ticks that faults add to a launch. NULL: our pager, which has no faults, pins the tensors
	 * of the running launch and drops dead ones. */
	uint64_t (*fault_ticks)(const struct sl_machine *machine, uint64_t clock_hz,
				const struct sl_sim_work_launch *launch,
				const struct sl_fault_bytes *bytes, int as_published);
	/* Tensors of so many launches ahead are asked for and not evicted; 0: of none. */
	uint32_t ahead;
};

/* The run() of a policy with these rules; without rules->plans, plan is ignored. */
int sl_paging_run(const struct sl_paging_rules *rules, const struct sl_trace *trace,
		  const struct sl_machine *machine, const struct sl_plan *plan,
		  const struct sl_sim_options *options,
		  struct sl_sim_result *out) SL_MUST_CHECK;

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
	/* Before and since the period's begin. */
	uint64_t moved[SL_PATH_COUNT], saved[SL_PATH_COUNT], faults;
};

struct paging {
	struct sl_sim_work work;
	const struct sl_machine *machine;
	const struct sl_plan *plan;
	const struct sl_sim_options *options;
	const struct sl_paging_rules *rules;
	uint64_t page_bytes;
	uint64_t step_ticks; /* between transfer steps */
	uint64_t step_next; /* number of the next step; its time is that times step_ticks */
	struct sl_flow_limits limits; /* of the machine; shared by the GPUs */
	/* By tensor, of a link that compresses; NULL: it does not. */
	struct sl_move_cost *costs[SL_WAY_COUNT];
	uint64_t store_late_ticks, link_late_ticks;
	struct gpu *gpus;
	uint32_t n_gpus;
};

static inline int
sl_paging_is_ours(const struct paging *p)
{
	return !p->rules->fault_ticks;
}

/* Begin the launch at g->launch: what the plan says for it, then what it misses. */
void sl_gpu_begin(struct gpu *g);
/* Launches that end before `time` make place for those behind them. */
void sl_gpu_advance(struct gpu *g, uint64_t time);
/* Behind the step at `time`: has what the launch waits for arrived? -ENOSPC: never. */
int sl_gpu_look(struct gpu *g, uint64_t time) SL_MUST_CHECK;
/* The tensors of launch `number` (counted from the start) are not evicted for others. */
void sl_gpu_protect(struct gpu *g, uint64_t number);

#endif
