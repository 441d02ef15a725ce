/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfer steps (flow.h). A step works on whole runs as far as the budgets reach; a step
 * that touched one run on each side is repeated by arithmetic until one of its runs ends or
 * a limit changes sides, so the cost of a simulation follows the number of boundaries
 * between runs and not the number of steps.
 *
 * Where a victim goes: to the host, and to the store when the host is full. A host that is
 * full when a step begins counts as full for the whole step; when the share of the store is
 * used up the host is taken after all, as long as it has room.
 */
#include "sim/flow.h"

#include <assert.h>
#include <stddef.h>

static uint32_t
u32_min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint64_t
u64_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Pages of a tensor, at most `want`, that what is left of a budget of the link takes. */
static uint32_t
link_pages(const struct sl_flow *flow, enum sl_way way, uint32_t tensor, uint64_t limit,
	   uint64_t used, uint32_t want)
{
	const struct sl_move_cost *costs = flow->costs[way];

	if (used + SL_TRACE_RATIO_ONE > limit)
		return 0;
	return (uint32_t)u64_min(want, (limit - used) / (costs ? costs[tensor].time
							       : SL_TRACE_RATIO_ONE));
}

/* Pages of a tensor cross the link on this path. */
static void
crossing_count(struct sl_flow *flow, enum sl_sim_path path, uint32_t tensor, uint64_t pages)
{
	int out = path == SL_PATH_STORE_OUT || path == SL_PATH_HOST_OUT;
	const struct sl_move_cost *costs = flow->costs[out ? SL_WAY_OUT : SL_WAY_IN];

	flow->moved[path] += pages;
	if (costs)
		flow->saved[path] += pages * (SL_TRACE_RATIO_ONE - costs[tensor].bytes);
}

/* ... in this step. */
static void
crossing_take(struct sl_flow *flow, enum sl_sim_path path, uint32_t tensor, uint32_t pages)
{
	int out = path == SL_PATH_STORE_OUT || path == SL_PATH_HOST_OUT;
	const struct sl_move_cost *costs = flow->costs[out ? SL_WAY_OUT : SL_WAY_IN];
	uint64_t time = (uint64_t)pages * (costs ? costs[tensor].time : SL_TRACE_RATIO_ONE);

	*(out ? &flow->used.out : &flow->used.in) += time;
	switch (path) {
	case SL_PATH_STORE_IN:
		flow->used.store_in += pages;
		break;
	case SL_PATH_STORE_OUT:
		flow->used.store_out += pages;
		break;
	case SL_PATH_HOST_IN:
		flow->used.host_in += time;
		break;
	case SL_PATH_HOST_OUT:
		flow->used.host_out += time;
		break;
	case SL_PATH_COUNT:
		break;
	}
	crossing_count(flow, path, tensor, pages);
}

static int
tensor_is_running(const struct sl_flow *flow, uint32_t tensor)
{
	return flow->runs.stamp[tensor] == flow->runs.stamp_now;
}

static int
tensor_is_alive(const struct sl_flow *flow, uint32_t tensor)
{
	return flow->launch >= flow->birth[tensor] && flow->launch < flow->death[tensor];
}

static int
host_is_full(const struct sl_flow *flow)
{
	return flow->runs.host_used >= flow->host_pages;
}

/* The run to take pages from: oldest arrival that is not in transit and may be taken. */
static uint32_t
flow_victim_pick(struct sl_flow *flow, int urgent)
{
	struct sl_runs *runs = &flow->runs;
	uint32_t run;

	if (flow->protects && urgent) {
		/* Takes anything: what others had to skip is looked at again. */
		for (run = runs->arrival.head; run != SL_RUN_NONE;
		     run = runs->runs[run].younger)
			if (runs->runs[run].queue == SL_QUEUE_NONE)
				return run;
		return SL_RUN_NONE;
	}
	for (run = runs->cursor; run != SL_RUN_NONE; run = runs->runs[run].younger) {
		const struct sl_run *r = &runs->runs[run];

		if (r->queue != SL_QUEUE_NONE)
			continue;
		if (flow->protects && flow->needed_until[r->tensor] >= flow->now)
			continue;
		if (flow->pins && tensor_is_running(flow, r->tensor))
			continue;
		break;
	}
	runs->cursor = run;
	return run;
}

static void
victim_note(struct sl_flow *flow, uint32_t run, uint32_t pages, enum sl_where where)
{
	flow->shape.victim_parts++;
	flow->shape.victim = run;
	flow->shape.victim_pages = pages;
	flow->shape.victim_where = where;
}

/* Does anything leave by plan? */
static int
plans_are_due(const struct sl_flow *flow)
{
	const struct sl_run_list *queue = flow->runs.queue;

	return queue[SL_QUEUE_EVICT_STORE].head != SL_RUN_NONE ||
	       queue[SL_QUEUE_EVICT_HOST].head != SL_RUN_NONE;
}

/*
 * Room for at most `want` pages that are to come in; returns for how many (0: not now).
 * refund: they come from the host, each leaving a page of it free again.
 */
static uint32_t
flow_room_make(struct sl_flow *flow, uint32_t want, int urgent, int refund)
{
	struct sl_runs *runs = &flow->runs;
	const struct sl_flow_limits *limits = &flow->limits;
	const struct sl_flow_limits *used = &flow->used;
	uint64_t free = flow->device_pages - runs->device_used;
	enum sl_where where;
	uint32_t run, tensor, n;

	if (free)
		return (uint32_t)u64_min(want, free);
	if (flow->waits && (plans_are_due(flow) || (!urgent && !runs->awaited)))
		return 0;
	if (used->out + SL_TRACE_RATIO_ONE > limits->out)
		return 0;
	if (host_is_full(flow) && used->store_out >= limits->store_out)
		return 0;
	run = flow_victim_pick(flow, urgent);
	if (run == SL_RUN_NONE)
		return 0;
	tensor = runs->runs[run].tensor;
	n = u32_min(want, runs->runs[run].pages);

	if (flow->protects && !tensor_is_alive(flow, tensor)) {
		victim_note(flow, run, n, SL_WHERE_NOWHERE);
		sl_runs_leave(runs, run, n, SL_WHERE_NOWHERE);
		return n;
	}
	if (runs->runs[run].stored) {
		flow->shape.odd = 1;
		sl_runs_leave(runs, run, n, SL_WHERE_STORE);
		return n;
	}

	where = host_is_full(flow) || used->host_out + SL_TRACE_RATIO_ONE > limits->host_out
			? SL_WHERE_STORE
			: SL_WHERE_HOST;

	n = link_pages(flow, SL_WAY_OUT, tensor, limits->out, used->out, n);
	if (where == SL_WHERE_HOST) {
		n = link_pages(flow, SL_WAY_OUT, tensor, limits->host_out, used->host_out, n);
		if (!refund)
			n = (uint32_t)u64_min(n, flow->host_pages - runs->host_used);
	} else {
		n = (uint32_t)u64_min(n, limits->store_out - used->store_out);
		/* The page that comes from the full host makes room there for the next. */
		if (refund)
			n = u32_min(n, 1);
	}
	if (!n)
		return 0;

	victim_note(flow, run, n, where);
	crossing_take(flow, where == SL_WHERE_HOST ? SL_PATH_HOST_OUT : SL_PATH_STORE_OUT,
		      tensor, n);
	if (tensor_is_running(flow, tensor)) {
		flow->shape.odd = 1;
		sl_runs_bounce(runs, run, n, where,
			       where == SL_WHERE_HOST ? SL_QUEUE_FAULT_HOST
						      : SL_QUEUE_FAULT_STORE);
	} else {
		sl_runs_leave(runs, run, n, where);
	}
	return n;
}

/* Bring in from the head of one queue what budgets and room allow. */
static void
queue_serve(struct sl_flow *flow, enum sl_queue queue, int urgent)
{
	struct sl_runs *runs = &flow->runs;
	const struct sl_flow_limits *limits = &flow->limits;
	struct sl_flow_limits *used = &flow->used;
	uint32_t run, n;

	while ((run = runs->queue[queue].head) != SL_RUN_NONE && !runs->failed) {
		enum sl_where where = (enum sl_where)runs->runs[run].where;
		uint32_t tensor = runs->runs[run].tensor;
		int hurry = urgent || tensor_is_running(flow, tensor);

		n = runs->runs[run].pages;
		if (where == SL_WHERE_NOWHERE)
			n = (uint32_t)u64_min(n, limits->alloc > used->alloc
							 ? limits->alloc - used->alloc
							 : 0);
		if (where != SL_WHERE_NOWHERE)
			n = link_pages(flow, SL_WAY_IN, tensor, limits->in, used->in, n);
		if (where == SL_WHERE_STORE)
			n = (uint32_t)u64_min(n, limits->store_in - used->store_in);
		if (where == SL_WHERE_HOST)
			n = link_pages(flow, SL_WAY_IN, tensor, limits->host_in,
				       used->host_in, n);
		if (n)
			n = flow_room_make(flow, n, hurry, where == SL_WHERE_HOST);
		if (!n)
			return;

		/* Making room may have joined runs, but not moved the head of a queue. */
		run = runs->queue[queue].head;
		used->alloc += n;
		if (where == SL_WHERE_STORE)
			crossing_take(flow, SL_PATH_STORE_IN, tensor, n);
		else if (where == SL_WHERE_HOST)
			crossing_take(flow, SL_PATH_HOST_IN, tensor, n);
		flow->shape.source_parts++;
		flow->shape.source = run;
		flow->shape.source_pages = n;
		flow->shape.source_where = where;
		if (n == runs->runs[run].pages)
			flow->shape.odd = 1;
		sl_runs_arrive(runs, run, n);
	}
}

static void
plan_leave(struct sl_flow *flow, enum sl_queue queue, uint32_t n, enum sl_where where)
{
	struct sl_runs *runs = &flow->runs;
	uint32_t run = runs->queue[queue].head;

	crossing_take(flow, where == SL_WHERE_HOST ? SL_PATH_HOST_OUT : SL_PATH_STORE_OUT,
		      runs->runs[run].tensor, n);
	if (flow->shape.plan_parts < 2) {
		flow->shape.plan[flow->shape.plan_parts] = run;
		flow->shape.plan_pages[flow->shape.plan_parts] = n;
	}
	flow->shape.plan_parts++;
	if (n == runs->runs[run].pages || tensor_is_running(flow, runs->runs[run].tensor) ||
	    (queue == SL_QUEUE_EVICT_HOST && where == SL_WHERE_STORE))
		flow->shape.odd = 1;
	sl_runs_leave(runs, run, n, where);
}

/* What the store has already need not be written again. */
static int
stored_let_go(struct sl_flow *flow, uint32_t run)
{
	struct sl_runs *runs = &flow->runs;

	if (!runs->runs[run].stored)
		return 0;
	flow->shape.odd = 1;
	sl_runs_leave(runs, run, runs->runs[run].pages, SL_WHERE_STORE);
	return 1;
}

static void
plans_serve(struct sl_flow *flow)
{
	struct sl_runs *runs = &flow->runs;
	const struct sl_flow_limits *limits = &flow->limits;
	const struct sl_flow_limits *used = &flow->used;
	uint32_t run, tensor, n;

	while ((run = runs->queue[SL_QUEUE_EVICT_STORE].head) != SL_RUN_NONE) {
		if (stored_let_go(flow, run))
			continue;
		n = link_pages(flow, SL_WAY_OUT, runs->runs[run].tensor, limits->out,
			       used->out, runs->runs[run].pages);
		n = (uint32_t)u64_min(n, limits->store_out - used->store_out);
		if (!n)
			break;
		plan_leave(flow, SL_QUEUE_EVICT_STORE, n, SL_WHERE_STORE);
	}
	while ((run = runs->queue[SL_QUEUE_EVICT_HOST].head) != SL_RUN_NONE) {
		enum sl_where where = SL_WHERE_HOST;

		if (flow->shape.host_was_full || host_is_full(flow))
			where = SL_WHERE_STORE;
		/* To the host even if the store has it: from there it comes back faster. */
		if (where == SL_WHERE_STORE && stored_let_go(flow, run))
			continue;
		tensor = runs->runs[run].tensor;
		n = link_pages(flow, SL_WAY_OUT, tensor, limits->out, used->out,
			       runs->runs[run].pages);
		if (where == SL_WHERE_HOST) {
			n = link_pages(flow, SL_WAY_OUT, tensor, limits->host_out,
				       used->host_out, n);
			n = (uint32_t)u64_min(n, flow->host_pages - runs->host_used);
		} else {
			n = (uint32_t)u64_min(n, limits->store_out - used->store_out);
		}
		if (!n)
			break;
		plan_leave(flow, SL_QUEUE_EVICT_HOST, n, where);
	}
}

int
sl_flow_is_idle(const struct sl_flow *flow)
{
	int queue;

	for (queue = 1; queue < SL_QUEUE_COUNT; queue++)
		if (flow->runs.queue[queue].head != SL_RUN_NONE)
			return 0;
	return 1;
}

int
sl_flow_step(struct sl_flow *flow, int urgent)
{
	flow->used = (struct sl_flow_limits){0};
	flow->shape = (struct sl_flow_shape){
		.host_was_full = host_is_full(flow),
		.device_free = flow->device_pages - flow->runs.device_used,
	};

	plans_serve(flow);
	queue_serve(flow, SL_QUEUE_FAULT_STORE, 1);
	queue_serve(flow, SL_QUEUE_FAULT_HOST, 1);
	queue_serve(flow, SL_QUEUE_FAULT_ALLOC, 1);
	queue_serve(flow, SL_QUEUE_FETCH_STORE, urgent);
	queue_serve(flow, SL_QUEUE_FETCH_HOST, urgent);
	queue_serve(flow, SL_QUEUE_ALLOC, urgent);
	return flow->used.out || flow->used.in || flow->used.alloc;
}

uint64_t
sl_flow_same(const struct sl_flow *flow, uint64_t most)
{
	const struct sl_flow_shape *shape = &flow->shape;
	const struct sl_runs *runs = &flow->runs;
	uint64_t free = flow->device_pages - runs->device_used;
	uint64_t host_out = 0, left = most;
	uint32_t i;

	if (shape->odd || shape->source_parts > 1 || shape->victim_parts > 1 ||
	    shape->plan_parts > 2 || runs->failed)
		return 0;
	if (!shape->source_parts && !shape->plan_parts)
		return most; /* nothing could move, and nothing changes that */

	if (shape->source_parts) {
		left = u64_min(left, (runs->runs[shape->source].pages - 1) /
					     shape->source_pages);
		if (tensor_is_running(flow, runs->runs[shape->source].tensor))
			left = u64_min(left, (runs->awaited - 1) / shape->source_pages);
	}
	if (shape->victim_parts) {
		/* Full before and after, and what comes in takes the place of what leaves. */
		if (free || shape->device_free || shape->plan_parts ||
		    shape->victim_pages != shape->source_pages)
			return 0;
		/* The same run must be the one taken next. */
		if (shape->victim != runs->cursor && shape->victim != runs->arrival.head)
			return 0;
		left = u64_min(left, (runs->runs[shape->victim].pages - 1) /
					     shape->victim_pages);
		if (shape->victim_where == SL_WHERE_HOST)
			host_out += shape->victim_pages;
	} else if (shape->source_parts) {
		left = u64_min(left, free / shape->source_pages);
	}
	for (i = 0; i < shape->plan_parts; i++) {
		const struct sl_run *r = &runs->runs[shape->plan[i]];

		left = u64_min(left, (r->pages - 1) / shape->plan_pages[i]);
		if (r->queue == SL_QUEUE_EVICT_HOST)
			host_out += shape->plan_pages[i];
	}
	if (shape->host_was_full || host_is_full(flow)) {
		if (host_out ||
		    (shape->source_parts && shape->source_where == SL_WHERE_HOST) ||
		    shape->host_was_full != host_is_full(flow))
			return 0;
	} else if (host_out) {
		left = u64_min(left, (flow->host_pages - runs->host_used - 1) / host_out);
	}
	return left;
}

static void
out_count(struct sl_flow *flow, uint32_t run, uint32_t pages, enum sl_where where)
{
	uint32_t tensor = flow->runs.runs[run].tensor;

	if (where == SL_WHERE_HOST)
		crossing_count(flow, SL_PATH_HOST_OUT, tensor, pages);
	else if (where == SL_WHERE_STORE)
		crossing_count(flow, SL_PATH_STORE_OUT, tensor, pages);
}

void
sl_flow_repeat(struct sl_flow *flow, uint64_t steps)
{
	const struct sl_flow_shape *shape = &flow->shape;
	struct sl_runs *runs = &flow->runs;
	uint32_t i, n;

	/* Products fit: none is more than the pages of a run. */
	for (i = 0; i < shape->plan_parts; i++) {
		enum sl_where where = runs->runs[shape->plan[i]].queue == SL_QUEUE_EVICT_HOST
					      ? SL_WHERE_HOST
					      : SL_WHERE_STORE;

		n = (uint32_t)(steps * shape->plan_pages[i]);
		out_count(flow, shape->plan[i], n, where);
		sl_runs_leave(runs, shape->plan[i], n, where);
	}
	if (shape->victim_parts) {
		n = (uint32_t)(steps * shape->victim_pages);
		out_count(flow, shape->victim, n, shape->victim_where);
		sl_runs_leave(runs, shape->victim, n, shape->victim_where);
	}
	if (shape->source_parts) {
		n = (uint32_t)(steps * shape->source_pages);
		if (shape->source_where == SL_WHERE_HOST)
			crossing_count(flow, SL_PATH_HOST_IN,
				       runs->runs[shape->source].tensor, n);
		else if (shape->source_where == SL_WHERE_STORE)
			crossing_count(flow, SL_PATH_STORE_IN,
				       runs->runs[shape->source].tensor, n);
		sl_runs_arrive(runs, shape->source, n);
	}
}

int
sl_flow_reads_store(const struct sl_flow *flow)
{
	return flow->runs.queue[SL_QUEUE_FAULT_STORE].head != SL_RUN_NONE ||
	       flow->runs.queue[SL_QUEUE_FETCH_STORE].head != SL_RUN_NONE;
}

int
sl_flow_writes_store(const struct sl_flow *flow)
{
	return flow->runs.queue[SL_QUEUE_EVICT_STORE].head != SL_RUN_NONE ||
	       (host_is_full(flow) && !sl_flow_is_idle(flow));
}
