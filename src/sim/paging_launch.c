/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launches of one simulated GPU (paging.h).
 *
 * A launch begins when the one before has ended. What the plan says for it is queued first,
 * then what it misses. It ends when its time (and that of its faults) is over and the last
 * page it waited for has arrived, whichever is later. Ours computes when all is there, and
 * drops what is dead.
 *
 * What it leaves to others: when pages move (flow.c), when steps are (paging.c). Threads: as
 * paging.h.
 */
#include "sim/paging.h"

#include <errno.h>

#define ATTEMPTS_MAX 1000 /* of a launch to have all its pages at once */

static uint64_t
u64_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Data that is dead leaves nothing on the drive. */
static void
tensor_drop(struct gpu *g, uint32_t tensor)
{
	struct sl_flow *flow = &g->flow;

	sl_runs_drop(&flow->runs, tensor, SL_WHERE_NOWHERE);
}

/* Queue every page of a tensor that is to come to the device and does not come yet. */
static void
tensor_ask(struct gpu *g, uint32_t tensor)
{
	struct sl_runs *runs = &g->flow.runs;
	uint32_t run, after;

	for (run = runs->tensor_first[tensor]; run != SL_RUN_NONE; run = after) {
		const struct sl_run *r = &runs->runs[run];

		after = r->after;
		if (r->queue != SL_QUEUE_NONE || r->where == SL_WHERE_DEVICE)
			continue;
		switch ((enum sl_where)r->where) {
		case SL_WHERE_NOWHERE:
			sl_runs_enqueue(runs, run, SL_QUEUE_ALLOC);
			break;
		case SL_WHERE_HOST:
			sl_runs_enqueue(runs, run, SL_QUEUE_FETCH_HOST);
			break;
		case SL_WHERE_STORE:
			sl_runs_enqueue(runs, run, SL_QUEUE_FETCH_STORE);
			break;
		case SL_WHERE_DEVICE:
		case SL_WHERE_COUNT:
			break;
		}
	}
}

static void
tensor_send(struct gpu *g, uint32_t tensor, enum sl_queue queue)
{
	struct sl_runs *runs = &g->flow.runs;
	uint32_t run, after;

	for (run = runs->tensor_first[tensor]; run != SL_RUN_NONE; run = after) {
		after = runs->runs[run].after;
		if (runs->runs[run].queue == SL_QUEUE_NONE &&
		    runs->runs[run].where == SL_WHERE_DEVICE)
			sl_runs_enqueue(runs, run, queue);
	}
}

static void
plan_carry_out(struct gpu *g)
{
	const struct sl_plan *plan = g->paging->plan;

	if (!g->launch)
		g->plan_next = 0;
	for (; g->plan_next < plan->n_steps && plan->steps[g->plan_next].launch == g->launch;
	     g->plan_next++) {
		const struct sl_plan_step *step = &plan->steps[g->plan_next];

		switch (step->verb) {
		case SL_PLAN_ALLOC:
		case SL_PLAN_PREFETCH:
			tensor_ask(g, step->tensor);
			break;
		case SL_PLAN_FREE:
			tensor_drop(g, step->tensor);
			break;
		case SL_PLAN_EVICT_HOST:
			tensor_send(g, step->tensor, SL_QUEUE_EVICT_HOST);
			break;
		case SL_PLAN_EVICT_STORE:
			tensor_send(g, step->tensor, SL_QUEUE_EVICT_STORE);
			break;
		case SL_PLAN_VERB_COUNT:
			break;
		}
	}
}

void
sl_gpu_protect(struct gpu *g, uint64_t number)
{
	const struct sl_sim_work *work = &g->paging->work;
	const struct sl_sim_work_launch *w = &work->launches[number % work->n_launches];
	uint32_t i;

	for (i = w->first; i < w->first + w->n; i++)
		g->flow.needed_until[work->need[i]] = number;
}

/* The tensors of a launch are asked for. Outputs before inputs: the artifact's joined set
 * (departure 5). */
static void
launch_ask(struct gpu *g, uint64_t number)
{
	const struct sl_sim_work *work = &g->paging->work;
	const struct sl_sim_work_launch *w = &work->launches[number % work->n_launches];
	uint32_t i;

	for (i = w->first + w->n_inputs; i < w->first + w->n; i++)
		tensor_ask(g, work->need[i]);
	for (i = w->first; i < w->first + w->n_inputs; i++)
		tensor_ask(g, work->need[i]);
}

/* Ours takes free memory at once, not at a transfer step: what was queued last. */
static void
launch_alloc(struct gpu *g, uint32_t pages)
{
	struct sl_runs *runs = &g->flow.runs;
	uint64_t free = g->flow.device_pages - runs->device_used;

	if (pages > free)
		pages = (uint32_t)free;
	if (!pages)
		return;
	sl_runs_arrive(runs, runs->queue[SL_QUEUE_FAULT_ALLOC].tail, pages);
	g->alloc_pages += pages;
}

static uint64_t
alloc_ticks(const struct gpu *g)
{
	const struct paging *p = g->paging;

	return (uint64_t)((double)(g->alloc_pages * p->page_bytes) /
			  p->machine->alloc_bps * (double)p->work.trace->clock_hz);
}

/* Queue what the running launch misses; bytes and counts go where they are wanted. */
static void
launch_fault(struct gpu *g, const struct sl_sim_work_launch *w,
	     struct sl_fault_bytes *bytes, struct sl_sim_launch *counts)
{
	const struct sl_sim_work *work = &g->paging->work;
	uint64_t page_bytes = g->paging->page_bytes;
	struct sl_runs *runs = &g->flow.runs;
	uint32_t i, run, after;

	for (i = w->first; i < w->first + w->n; i++) {
		uint32_t tensor = work->need[i];
		int role = work->role[i];

		bytes->all[role] += runs->tensor_pages[tensor] * page_bytes;
		counts->transit_pages += runs->tensor_queued[tensor];
		if (runs->tensor_ready[tensor] + runs->tensor_queued[tensor] ==
		    runs->tensor_pages[tensor])
			continue;
		/* What is overwritten whole need not be brought in. */
		if (g->flow.pins && work->overwrites[i])
			sl_runs_drop(runs, tensor, SL_WHERE_DEVICE);
		for (run = runs->tensor_first[tensor]; run != SL_RUN_NONE; run = after) {
			const struct sl_run *r = &runs->runs[run];
			uint32_t pages = r->pages;

			after = r->after;
			if (r->queue != SL_QUEUE_NONE || r->where == SL_WHERE_DEVICE)
				continue;
			bytes->absent[role] += pages * page_bytes;
			switch ((enum sl_where)r->where) {
			case SL_WHERE_NOWHERE:
				counts->fresh_pages += pages;
				sl_runs_enqueue(runs, run, SL_QUEUE_FAULT_ALLOC);
				if (g->flow.pins)
					launch_alloc(g, pages);
				break;
			case SL_WHERE_HOST:
				counts->host_pages += pages;
				sl_runs_enqueue(runs, run, SL_QUEUE_FAULT_HOST);
				break;
			case SL_WHERE_STORE:
				counts->store_pages += pages;
				bytes->store[role] += pages * page_bytes;
				sl_runs_enqueue(runs, run, SL_QUEUE_FAULT_STORE);
				break;
			case SL_WHERE_DEVICE:
			case SL_WHERE_COUNT:
				break;
			}
		}
	}
}

static int
launch_is_ready(const struct gpu *g, const struct sl_sim_work_launch *w)
{
	const struct sl_sim_work *work = &g->paging->work;
	const struct sl_runs *runs = &g->flow.runs;
	uint32_t i;

	for (i = w->first; i < w->first + w->n; i++)
		if (runs->tensor_ready[work->need[i]] != runs->tensor_pages[work->need[i]])
			return 0;
	return 1;
}

/* Used tensors become the youngest, in the order of use. */
static void
launch_refresh(struct gpu *g, const struct sl_sim_work_launch *w)
{
	const struct sl_sim_work *work = &g->paging->work;
	uint32_t i;

	for (i = w->first; i < w->first + w->n; i++)
		sl_runs_refresh(&g->flow.runs, work->need[i]);
}

static struct sl_sim_launch *
gpu_launch(struct gpu *g)
{
	return &g->result.launches[(size_t)g->period * g->result.n_launches + g->launch];
}

/* The launch has what it needs. */
static void
launch_ready(struct gpu *g)
{
	const struct paging *p = g->paging;
	const struct sl_sim_work_launch *w = &p->work.launches[g->launch];
	struct sl_sim_launch *out = gpu_launch(g);
	uint64_t scale = p->machine->page_bytes / p->page_bytes;
	uint32_t i, bound;

	out->host_used_pages = g->flow.runs.host_used / scale;
	out->device_used_pages = g->flow.runs.device_used / scale;
	for (bound = 0; bound < SL_BOUND_COUNT; bound++)
		if (g->waits.steps[bound] > g->waits.steps[out->bound])
			out->bound = (enum sl_sim_bound)bound;
	if (!p->options->as_published)
		launch_refresh(g, w);
	for (i = w->first; i < w->first + w->n && sl_paging_is_ours(p); i++)
		if (p->work.writes[i])
			sl_runs_dirty(&g->flow.runs, p->work.need[i]);
	g->state = GPU_RUNNING;
}

void
sl_gpu_begin(struct gpu *g)
{
	struct paging *p = g->paging;
	const struct sl_sim_work_launch *w = &p->work.launches[g->launch];
	struct sl_fault_bytes bytes = {{0}, {0}, {0}};
	uint64_t scale = p->machine->page_bytes / p->page_bytes;
	struct sl_sim_launch *out = gpu_launch(g);
	struct sl_flow *flow = &g->flow;
	uint32_t i;

	*out = (struct sl_sim_launch){.start_ticks = g->start, .ideal_ticks = w->ticks};
	g->end = g->start + w->ticks;
	g->busy_steps = 0;
	g->attempts = 0;
	g->late_ticks = 0;
	g->alloc_pages = 0;
	g->waits = (struct gpu_waits){{0}};
	flow->launch = g->launch;

	if (p->plan)
		plan_carry_out(g);
	if (p->rules->ahead) {
		sl_gpu_protect(g, flow->now + p->rules->ahead - 1);
		launch_ask(g, flow->now + p->rules->ahead);
	}
	for (i = w->first; i < w->first + w->n && flow->pins; i++)
		sl_runs_recall(&flow->runs, p->work.need[i]);
	flow->runs.cursor = flow->runs.arrival.head;
	sl_runs_await(&flow->runs, p->work.need + w->first, w->n);

	if (launch_is_ready(g, w)) {
		launch_ready(g);
		return;
	}
	launch_fault(g, w, &bytes, out);
	out->transit_pages /= scale;
	out->host_pages = (out->host_pages + scale - 1) / scale;
	out->store_pages = (out->store_pages + scale - 1) / scale;
	out->fresh_pages = (out->fresh_pages + scale - 1) / scale;
	g->faults += out->host_pages + out->store_pages + out->fresh_pages;
	if (!sl_paging_is_ours(p))
		g->end += p->rules->fault_ticks(p->machine, p->work.trace->clock_hz, w,
						&bytes, p->options->as_published);
	g->state = GPU_WAITING;
	if (sl_paging_is_ours(p) && launch_is_ready(g, w)) {
		g->end += alloc_ticks(g);
		launch_ready(g);
	}
}

static void
launch_end(struct gpu *g)
{
	const struct paging *p = g->paging;
	const struct sl_sim_work_launch *w = &p->work.launches[g->launch];
	struct sl_sim_launch *out = gpu_launch(g);
	uint64_t span = g->end - g->start, transfer;
	uint32_t i;
	int path;

	/* Whole steps, even of a launch shorter than one: its share of computing alone may come
	 * out below 0. Sums over a period are what is meant. */
	transfer = g->busy_steps * p->step_ticks;
	out->end_ticks = g->end;
	out->stall_ticks = span - w->ticks;
	out->compute_ticks = (int64_t)span - (int64_t)transfer;
	if (transfer + w->ticks >= span)
		out->overlap_ticks = transfer + w->ticks - span;
	else
		out->stall_ticks += span - transfer - w->ticks;

	if (sl_paging_is_ours(p))
		for (i = w->first; i < w->first + w->n; i++)
			if (p->work.death[p->work.need[i]] == g->launch + 1 &&
			    !p->work.lasts[p->work.need[i]])
				tensor_drop(g, p->work.need[i]);

	g->flow.now++;
	g->start = g->end;
	if (++g->launch < p->work.n_launches)
		return;
	g->launch = 0;
	g->result.period_ticks[g->period] = g->end - g->begin;
	g->result.period_faults[g->period] = g->faults;
	g->begin = g->end;
	g->faults = 0;
	for (path = 0; path < SL_PATH_COUNT; path++) {
		g->result.period_bytes[g->period][path] = (g->flow.moved[path] -
							   g->moved[path]) *
							  p->page_bytes;
		g->moved[path] = g->flow.moved[path];
		g->result.period_saved_bytes[g->period][path] = (g->flow.saved[path] -
								 g->saved[path]) /
								SL_TRACE_RATIO_ONE *
								p->page_bytes;
		g->saved[path] = g->flow.saved[path];
	}
	if (++g->period == g->result.n_periods)
		g->state = GPU_DONE;
}

void
sl_gpu_advance(struct gpu *g, uint64_t time)
{
	while (g->state == GPU_RUNNING && g->end < time) {
		launch_end(g);
		if (g->state != GPU_DONE)
			sl_gpu_begin(g);
	}
}

int
sl_gpu_look(struct gpu *g, uint64_t time)
{
	const struct sl_sim_work_launch *w = &g->paging->work.launches[g->launch];
	struct sl_fault_bytes bytes = {{0}, {0}, {0}};
	struct sl_sim_launch again = {0};

	if (g->state != GPU_WAITING || g->flow.runs.awaited)
		return 0;
	if (!launch_is_ready(g, w)) {
		/* What left in the meantime has to come back. */
		if (++g->attempts > ATTEMPTS_MAX)
			return sl_fail(-ENOSPC, "simulator: launch %u: its pages leave as fast as they come",
				       g->launch);
		launch_fault(g, w, &bytes, &again);
		if (!launch_is_ready(g, w)) /* ours may have taken free memory */
			return 0;
	}
	/* Ours computes when all is there; a faulting launch computes while it waits. */
	if (sl_paging_is_ours(g->paging))
		g->end = u64_max(time + g->late_ticks, g->start + alloc_ticks(g)) + w->ticks;
	else if (time + g->late_ticks > g->end)
		g->end = time + g->late_ticks;
	launch_ready(g);
	return 0;
}
