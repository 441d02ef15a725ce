/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One transfer step after the other: which queued pages move in it, and which pages leave
 * to make room. A step has budgets in pages (link in, link out, store in, store out,
 * allocation); what is moved in a step has arrived in it. Order within a step: planned
 * evictions, pages that a launch waits for, pages asked for ahead of time.
 *
 * What it leaves to others: when steps are and what is queued (paging.c), where pages are
 * (runs.c). Threads: as runs.h.
 */
#ifndef SL_SIM_FLOW_H
#define SL_SIM_FLOW_H

#include "sim/runs.h"
#include "sim/sim.h"

/*
 * What a step may move. The link's budgets, in, out, host_in and host_out, are of time: a raw
 * page takes SL_TRACE_RATIO_ONE of them, a compressed one less. Less than that is not used. The
 * others are pages.
 */
struct sl_flow_limits {
	uint64_t in, out;
	uint64_t store_in, store_out; /* pages; they take their part of in and out as well */
	uint64_t host_in, host_out;
	uint64_t alloc; /* pages given device memory, moved in or fresh */
};

/* What the last step did, when it was simple enough to be repeated as it is. */
struct sl_flow_shape {
	uint32_t source_parts, victim_parts, plan_parts;
	uint32_t source, source_pages;
	enum sl_where source_where;
	uint32_t victim, victim_pages;
	enum sl_where victim_where;
	uint32_t plan[2], plan_pages[2];
	int odd; /* must not be repeated */
	int host_was_full;
	uint64_t device_free; /* before the step */
};

struct sl_flow {
	struct sl_runs runs;
	uint64_t device_pages, host_pages;
	uint64_t store_pages; /* the caller looks whether more is there */
	struct sl_flow_limits limits;
	/* By way, by tensor: what its pages cost on the link. NULL: all cross raw. */
	const struct sl_move_cost *costs[SL_WAY_COUNT];

	/* DeepUM: what the launches now ... now + window need is not taken for pages asked for
	 * ahead, and tensors outside their life are dropped instead of moved. */
	int protects;
	uint64_t now;                  /* launches begun since the start */
	uint64_t *needed_until;        /* by tensor; launch numbers as now */
	uint32_t launch;               /* of the period */
	const uint32_t *birth, *death; /* by tensor; death 0: never */

	/* Ours: what the running launch uses is pinned; what the store has is just dropped. */
	int pins;
	/* Ours with a plan, which has said what is to leave: what comes waits for that. Others are
	 * pushed out only when a launch waits and nothing leaves. */
	int waits;

	uint64_t moved[SL_PATH_COUNT]; /* pages */
	/* Of them: what did not cross the link, since it was compressed; SL_TRACE_RATIO_ONE a
	 * page. */
	uint64_t saved[SL_PATH_COUNT];
	struct sl_flow_shape shape;
	/* Of the step in progress. */
	struct sl_flow_limits used;
};

/* Anything to do? */
int sl_flow_is_idle(const struct sl_flow *flow);

/* One step. urgent: pages asked for ahead are served like those waited for. Returns whether
 * anything moved. */
int sl_flow_step(struct sl_flow *flow, int urgent);

/* How many times, at most `most`, the next steps will be the same as the last one. Ends
 * before a step in which the running launch's last awaited page would arrive. */
uint64_t sl_flow_same(const struct sl_flow *flow, uint64_t most);

/* Take that many of them at once. */
void sl_flow_repeat(struct sl_flow *flow, uint64_t steps);

/* Does anything wait to cross to or from the store? */
int sl_flow_reads_store(const struct sl_flow *flow);
int sl_flow_writes_store(const struct sl_flow *flow);

#endif
