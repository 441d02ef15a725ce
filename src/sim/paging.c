/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulation by pages (paper G10, section 6, as its artifact does it): launches run one
 * after the other; a launch that misses pages waits for them; pages move in transfer steps
 * on a fixed grid (flow.c). The policies uvm, deepum and g10; and ours, lru and plan, which
 * pin what a launch uses, start it when all is there, and know what is dead or clean.
 *
 * A launch begins when the one before has ended. What the plan says for it is queued first,
 * then what it misses. It ends when its time (and that of its faults) is over and the last
 * page it waited for has arrived, whichever is later.
 *
 * Several GPUs run copies of the trace: steps are common, the store's (and a common link's)
 * budget is split among those that want it, host memory is split in equal parts.
 *
 * Memory: runs of pages (runs.c). Time: steps that would repeat are taken at once (flow.c).
 * Threads: each run has objects of its own.
 */
#include "sim/flash.h"
#include "sim/flow.h"
#include "sim/internal.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEEPUM_AHEAD 8    /* launches looked ahead */
#define ATTEMPTS_MAX 1000 /* of a launch to have all its pages at once */

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
	struct sl_work work;
	const struct sl_machine *machine;
	const struct sl_plan *plan;
	const struct sl_sim_options *options;
	enum paging_kind kind;
	uint64_t page_bytes;
	uint64_t step_ticks; /* between transfer steps */
	uint64_t step_next; /* number of the next step; its time is that times step_ticks */
	struct sl_flow_limits limits; /* of the machine; shared by the GPUs */
	uint64_t store_late_ticks, link_late_ticks;
	uint64_t *flash_at; /* by tensor: where it is on the drive, bytes; NULL: no drive */
	struct gpu *gpus;
	uint32_t n_gpus;
};

static uint64_t
u64_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Pages of one step on something of bandwidth share_bps beside the link; at least one. */
static uint32_t
pages_share(const struct paging *p, double share_bps)
{
	double link = p->machine->link_in_bps / 1e9;
	double pages = p->limits.in / link * (share_bps / 1e9);

	if (!p->options->as_published)
		pages = p->limits.in * (share_bps / p->machine->link_in_bps) + 0.5;
	return pages < 1 ? 1 : (uint32_t)fmin(pages, UINT32_MAX / 2);
}

/*
 * The unit of moving. As published, the page, so that the store's share of a step is cut to
 * whole pages (departure 6). Else a part of it, small enough that the cut does not matter
 * and large enough that the device's units can be counted.
 */
static int
unit_choose(struct paging *p)
{
	uint64_t unit = p->machine->page_bytes, most = p->machine->device_bytes;

	if (!p->options->as_published) {
		while (unit > 64 && most / (unit / 2) < UINT32_MAX / 8)
			unit /= 2;
	}
	if (most / unit > UINT32_MAX / 4)
		return sl_fail(-EINVAL, "simulator: device memory of %llu pages is too much: raise page_bytes",
			       (unsigned long long)(most / unit));
	p->page_bytes = unit;
	return 0;
}

/* Steps and their budgets. */
static int
limits_fill(struct paging *p)
{
	const struct sl_machine *m = p->machine;
	struct sl_flow_limits *l = &p->limits;
	double hz = (double)p->work.trace->clock_hz, page_ticks, step, batch;

	batch = (double)m->link_batch_pages * (m->page_bytes / p->page_bytes);
	step = batch * p->page_bytes / (m->link_in_bps / hz);
	if (step < 1 || batch > UINT32_MAX / 2)
		return sl_fail(-EINVAL,
			       "simulator: %u pages take %g ticks of the clock (%g Hz) "
			       "on the link: "
			       "change link_batch_pages",
			       m->link_batch_pages, step, hz);
	p->step_ticks = (uint64_t)step;
	l->in = (uint32_t)batch;
	l->out = pages_share(p, m->link_out_bps);
	l->host_in = l->in;
	l->host_out = l->out;
	l->store_in = pages_share(p, m->store_read_bps);
	l->store_out = pages_share(p, m->store_write_bps);
	page_ticks = p->page_bytes * hz / m->alloc_bps;
	if (p->options->as_published)
		page_ticks = floor(page_ticks);
	l->alloc = UINT32_MAX / 2;
	if (page_ticks > 0)
		l->alloc = (uint32_t)fmin(fmax(1, floor((double)p->step_ticks / page_ticks)),
					  UINT32_MAX / 2);
	if (!p->options->as_published) {
		p->link_late_ticks = (uint64_t)(m->link_ns * hz / 1e9);
		p->store_late_ticks = p->link_late_ticks +
				      (uint64_t)(m->store_read_ns * hz / 1e9);
	}
	return 0;
}

/* Each tensor has its own place on the drive. */
static int
flash_fill(struct paging *p)
{
	const struct sl_trace *trace = p->work.trace;
	uint64_t at = 0, unit = p->page_bytes;
	uint32_t tensor;

	if (!p->options->flash)
		return 0;
	if (p->machine->n_gpus > 1)
		return sl_fail(-EINVAL, "simulator: flash is for one GPU, not %u",
			       p->machine->n_gpus);
	p->flash_at = calloc((size_t)p->work.n_tensors + 1, sizeof(*p->flash_at));
	if (!p->flash_at)
		return sl_fail(-ENOMEM, "simulator: no memory for %u tensors",
			       p->work.n_tensors);
	for (tensor = 0; tensor < p->work.n_tensors; tensor++) {
		p->flash_at[tensor] = at;
		at += (trace->tensors[tensor].size_bytes + unit - 1) / unit * unit;
	}
	return 0;
}

/* Data that is dead leaves nothing on the drive. */
static void
tensor_drop(struct gpu *g, uint32_t tensor)
{
	struct sl_flow *flow = &g->flow;

	sl_runs_drop(&flow->runs, tensor, SL_WHERE_NOWHERE);
	if (flow->flash && !flow->runs.tensor_queued[tensor] && !flow->flash_rc)
		flow->flash_rc = sl_flash_trim(flow->flash, flow->flash_at[tensor],
					       flow->runs.tensor_pages[tensor] *
						       flow->page_bytes);
}

static int
gpu_init(struct paging *p, struct gpu *g)
{
	const struct sl_trace *trace = p->work.trace;
	uint32_t tensor, *pages;
	int rc;

	g->paging = p;
	g->flow.limits = p->limits;
	g->flow.device_pages = p->machine->device_bytes / p->page_bytes;
	/* GPUs have equal parts of the host's memory. */
	g->flow.host_pages = p->machine->host_bytes / p->page_bytes / p->n_gpus;
	rc = sl_result_init(&g->result, &p->work,
			    p->options->periods ? p->options->periods : 2);
	if (rc)
		return rc;

	pages = calloc((size_t)p->work.n_tensors + 1, sizeof(*pages));
	if (!pages)
		return sl_fail(-ENOMEM, "simulator: no memory for %u tensors",
			       p->work.n_tensors);
	for (tensor = 0; tensor < p->work.n_tensors; tensor++) {
		uint64_t n = (trace->tensors[tensor].size_bytes + p->page_bytes - 1) /
			     p->page_bytes;

		/* No launch uses what does not fit the device: how large it is does not matter. */
		pages[tensor] = n > UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)n;
	}
	rc = sl_runs_init(&g->flow.runs, p->work.n_tensors, pages);
	free(pages);
	if (rc)
		return rc;
	for (tensor = 0; tensor < p->work.n_tensors; tensor++)
		if (trace->tensors[tensor].kind == SL_TENSOR_GLOBAL)
			sl_runs_place(&g->flow.runs, tensor, SL_WHERE_STORE);

	g->flow.page_bytes = p->page_bytes;
	g->flow.flash = p->options->flash;
	g->flow.flash_at = p->flash_at;
	if (p->kind == PAGING_OURS) {
		g->flow.pins = 1;
		g->flow.runs.keeps_copies = 1;
	}
	if (p->kind == PAGING_DEEPUM) {
		g->flow.protects = 1;
		g->flow.birth = p->work.birth;
		g->flow.death = p->work.death;
		g->flow.needed_until = calloc((size_t)p->work.n_tensors + 1,
					      sizeof(*g->flow.needed_until));
		if (!g->flow.needed_until)
			return sl_fail(-ENOMEM, "simulator: no memory for %u tensors",
				       p->work.n_tensors);
	}
	return 0;
}

static void
gpu_fini(struct gpu *g)
{
	sl_runs_fini(&g->flow.runs);
	free(g->flow.needed_until);
	sl_sim_result_fini(&g->result);
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

/* DeepUM: the tensors of launch `number` (counted from the start) are not taken for others. */
static void
deepum_protect(struct gpu *g, uint64_t number)
{
	const struct sl_work *work = &g->paging->work;
	const struct sl_work_launch *w = &work->launches[number % work->n_launches];
	uint32_t i;

	for (i = w->first; i < w->first + w->n; i++)
		g->flow.needed_until[work->need[i]] = number;
}

/* ... and are asked for. Outputs before inputs: the artifact's joined set (departure 5). */
static void
deepum_ask(struct gpu *g, uint64_t number)
{
	const struct sl_work *work = &g->paging->work;
	const struct sl_work_launch *w = &work->launches[number % work->n_launches];
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
launch_fault(struct gpu *g, const struct sl_work_launch *w, struct sl_fault_bytes *bytes,
	     struct sl_sim_launch *counts)
{
	const struct sl_work *work = &g->paging->work;
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
launch_is_ready(const struct gpu *g, const struct sl_work_launch *w)
{
	const struct sl_work *work = &g->paging->work;
	const struct sl_runs *runs = &g->flow.runs;
	uint32_t i;

	for (i = w->first; i < w->first + w->n; i++)
		if (runs->tensor_ready[work->need[i]] != runs->tensor_pages[work->need[i]])
			return 0;
	return 1;
}

/* Used tensors become the youngest, in the order of use. */
static void
launch_refresh(struct gpu *g, const struct sl_work_launch *w)
{
	const struct sl_work *work = &g->paging->work;
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
	const struct sl_work_launch *w = &p->work.launches[g->launch];
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
	for (i = w->first; i < w->first + w->n && p->kind == PAGING_OURS; i++)
		if (p->work.writes[i])
			sl_runs_dirty(&g->flow.runs, p->work.need[i]);
	g->state = GPU_RUNNING;
}

static void
launch_begin(struct gpu *g)
{
	struct paging *p = g->paging;
	const struct sl_work_launch *w = &p->work.launches[g->launch];
	struct sl_fault_bytes bytes = {{0}, {0}, {0}};
	uint64_t scale = p->machine->page_bytes / p->page_bytes;
	struct sl_sim_launch *out = gpu_launch(g);
	struct sl_flow *flow = &g->flow;

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
	if (p->kind == PAGING_DEEPUM) {
		deepum_protect(g, flow->now + DEEPUM_AHEAD - 1);
		deepum_ask(g, flow->now + DEEPUM_AHEAD);
	}
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
	if (p->kind != PAGING_OURS)
		g->end += sl_fault_ticks(p->machine, p->work.trace->clock_hz, w, &bytes,
					 p->options->as_published);
	g->state = GPU_WAITING;
	if (p->kind == PAGING_OURS && launch_is_ready(g, w)) {
		g->end += alloc_ticks(g);
		launch_ready(g);
	}
}

static void
launch_end(struct gpu *g)
{
	const struct paging *p = g->paging;
	const struct sl_work_launch *w = &p->work.launches[g->launch];
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

	if (p->kind == PAGING_OURS)
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
	}
	if (++g->period == g->result.n_periods)
		g->state = GPU_DONE;
}

/* Launches that end before `time` make place for those behind them. */
static void
gpu_advance(struct gpu *g, uint64_t time)
{
	while (g->state == GPU_RUNNING && g->end < time) {
		launch_end(g);
		if (g->state != GPU_DONE)
			launch_begin(g);
	}
}

/* After a step: has what the launch waits for arrived? */
static int
gpu_look(struct gpu *g, uint64_t time)
{
	const struct sl_work_launch *w = &g->paging->work.launches[g->launch];
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
	if (g->paging->kind == PAGING_OURS)
		g->end = u64_max(time + g->late_ticks, g->start + alloc_ticks(g)) + w->ticks;
	else if (time + g->late_ticks > g->end)
		g->end = time + g->late_ticks;
	launch_ready(g);
	return 0;
}

/* What kept the last step from moving more. */
static enum sl_sim_bound
step_bound(const struct sl_flow *flow)
{
	const struct sl_flow_limits *used = &flow->used, *limits = &flow->limits;

	if (flow->shape.victim_parts && flow->shape.victim_where == SL_WHERE_STORE &&
	    used->store_out >= limits->store_out)
		return SL_BOUND_STORE_WRITE;
	if (flow->shape.victim_parts && used->out >= limits->out)
		return SL_BOUND_LINK_OUT;
	if (used->store_in && used->store_in >= limits->store_in)
		return SL_BOUND_STORE_READ;
	return SL_BOUND_LINK_IN;
}

static int
gpu_step(struct gpu *g)
{
	const struct paging *p = g->paging;
	struct sl_flow *flow = &g->flow;
	int moved;

	moved = sl_flow_step(flow, 0);
	if (!moved && g->state == GPU_WAITING && flow->protects)
		moved = sl_flow_step(flow, 1);
	if (flow->runs.failed)
		return sl_fail(-ENOMEM, "simulator: no memory for runs of pages");
	if (flow->flash_rc)
		return flow->flash_rc; /* with its text */
	if (!moved && g->state == GPU_WAITING && flow->runs.awaited)
		return sl_fail(-ENOSPC, "simulator: launch %u waits for pages that no room can be made for",
			       g->launch);
	g->busy_steps++;
	if (g->state == GPU_WAITING) {
		g->waits.steps[step_bound(flow)]++;
		if (flow->used.store_in)
			g->late_ticks = p->store_late_ticks;
		else if (flow->used.host_in)
			g->late_ticks = p->link_late_ticks;
	}
	return 0;
}

/* GPUs that want the store now share it equally; so with the link, if they have only one. */
static void
limits_share(struct paging *p)
{
	uint32_t i, reads = 0, writes = 0, busy = 0;

	if (p->n_gpus == 1)
		return;
	for (i = 0; i < p->n_gpus; i++) {
		reads += sl_flow_reads_store(&p->gpus[i].flow);
		writes += sl_flow_writes_store(&p->gpus[i].flow);
		busy += !sl_flow_is_idle(&p->gpus[i].flow);
	}
	for (i = 0; i < p->n_gpus; i++) {
		struct sl_flow_limits *l = &p->gpus[i].flow.limits;

		*l = p->limits;
		if (p->machine->shares_link && busy > 1) {
			l->in /= busy;
			l->out /= busy;
		}
		if (reads > 1)
			l->store_in /= reads;
		if (writes > 1)
			l->store_out /= writes;
		l->in += !l->in;
		l->out += !l->out;
		l->store_in += !l->store_in;
		l->store_out += !l->store_out;
		l->host_in = l->in;
		l->host_out = l->out;
		if (l->store_in > l->in)
			l->store_in = l->in;
		if (l->store_out > l->out)
			l->store_out = l->out;
	}
}

/* All GPUs until their last launch has ended. */
static int
gpus_run(struct paging *p)
{
	uint32_t i, launch;
	int rc;

	for (i = 0; i < p->n_gpus; i++) {
		struct gpu *g = &p->gpus[i];

		for (launch = 0; launch + 1 < DEEPUM_AHEAD && p->kind == PAGING_DEEPUM;
		     launch++)
			deepum_protect(g, launch);
		g->start = (uint64_t)(p->options->stagger * i * (double)p->work.ideal_ticks);
		g->begin = g->start;
		launch_begin(g);
	}
	p->step_next = 1;
	for (;;) {
		uint64_t time = p->step_next * p->step_ticks, same = UINT32_MAX, first;
		uint32_t done = 0, idle = 0;

		first = UINT64_MAX;
		for (i = 0; i < p->n_gpus; i++) {
			struct gpu *g = &p->gpus[i];

			gpu_advance(g, time);
			done += g->state == GPU_DONE;
			idle += sl_flow_is_idle(&g->flow);
			if (g->state == GPU_RUNNING && g->end < first)
				first = g->end;
		}
		if (done == p->n_gpus)
			return 0;
		if (idle == p->n_gpus) {
			/* The first step after the next launch has begun. */
			assert(first != UINT64_MAX);
			p->step_next = first / p->step_ticks + 1;
			continue;
		}

		limits_share(p);
		for (i = 0; i < p->n_gpus; i++) {
			struct gpu *g = &p->gpus[i];

			if (sl_flow_is_idle(&g->flow))
				continue;
			rc = gpu_step(g);
			if (!rc)
				rc = gpu_look(g, time);
			if (rc)
				return rc;
		}
		p->step_next++;

		for (i = 0; i < p->n_gpus && same; i++) {
			const struct gpu *g = &p->gpus[i];

			if (g->state == GPU_RUNNING)
				same = g->end < time ? 0
				       : (g->end - time) / p->step_ticks < same
					       ? (g->end - time) / p->step_ticks
					       : same;
			if (g->state == GPU_WAITING && !g->flow.runs.awaited)
				same = 0;
			if (same && !sl_flow_is_idle(&g->flow))
				same = sl_flow_same(&g->flow, same);
		}
		if (!same || p->options->single_steps)
			continue;
		for (i = 0; i < p->n_gpus; i++) {
			struct gpu *g = &p->gpus[i];

			if (sl_flow_is_idle(&g->flow))
				continue;
			sl_flow_repeat(&g->flow, same);
			g->busy_steps += same;
			if (g->state == GPU_WAITING)
				g->waits.steps[step_bound(&g->flow)] += same;
		}
		p->step_next += same;
	}
}

/* The launch whose pages exceed the device by most, or SL_TRACE_NONE. */
static uint32_t
launch_too_big(const struct paging *p, uint64_t *bytes)
{
	const struct sl_flow *flow = &p->gpus[0].flow;
	uint32_t launch, i, worst = SL_TRACE_NONE;
	uint64_t worst_pages = flow->device_pages;

	for (launch = 0; launch < p->work.n_launches; launch++) {
		const struct sl_work_launch *w = &p->work.launches[launch];
		uint64_t pages = 0;

		for (i = w->first; i < w->first + w->n; i++)
			pages += flow->runs.tensor_pages[p->work.need[i]];
		if (pages > worst_pages) {
			worst_pages = pages;
			worst = launch;
		}
	}
	*bytes = worst_pages * p->page_bytes;
	return worst;
}

static int
paging_check(const struct paging *p)
{
	if (p->plan) {
		int rc = sl_plan_fits(p->plan, &p->work);

		if (rc)
			return rc;
	}
	if (!(p->options->stagger >= 0 && p->options->stagger <= 1))
		return sl_fail(-EINVAL, "simulator: stagger is %g, must be 0 to 1",
			       p->options->stagger);
	if (p->options->as_published && p->machine->n_gpus > 1)
		return sl_fail(-EINVAL,
			       "simulator: the published machine has one GPU, this one "
			       "has %u: leave "
			       "as_published out",
			       p->machine->n_gpus);
	return 0;
}

static int
paging_run(enum paging_kind kind, const struct sl_trace *trace,
	   const struct sl_machine *machine, const struct sl_plan *plan,
	   const struct sl_sim_options *options, struct sl_sim_result *out)
{
	struct paging p = {.machine = machine, .plan = plan, .options = options, .kind = kind};
	uint32_t i, worst, slowest = 0;
	uint64_t bytes;
	int rc;

	rc = sl_machine_check(machine);
	if (!rc)
		rc = sl_work_init(&p.work, trace, options);
	if (rc)
		return rc;
	rc = paging_check(&p);
	if (!rc)
		rc = unit_choose(&p);
	if (!rc)
		rc = limits_fill(&p);
	if (!rc)
		rc = flash_fill(&p);
	if (rc)
		goto out;
	p.gpus = calloc(machine->n_gpus, sizeof(*p.gpus));
	if (!p.gpus) {
		rc = sl_fail(-ENOMEM, "simulator: no memory for %u GPUs", machine->n_gpus);
		goto out;
	}
	for (p.n_gpus = machine->n_gpus, i = 0; i < p.n_gpus && !rc; i++)
		rc = gpu_init(&p, &p.gpus[i]);
	if (rc)
		goto out;

	worst = launch_too_big(&p, &bytes);
	if (worst != SL_TRACE_NONE) {
		sl_result_too_big(&p.gpus[0].result, &p.work, worst, bytes,
				  machine->device_bytes);
	} else {
		rc = gpus_run(&p);
		if (rc)
			goto out;
		for (i = 0; i < p.n_gpus; i++) {
			sl_result_choose(&p.gpus[i].result, options->as_published);
			if (p.gpus[i].result.best_ticks > p.gpus[slowest].result.best_ticks)
				slowest = i;
		}
	}
	*out = p.gpus[slowest].result;
	memset(&p.gpus[slowest].result, 0, sizeof(p.gpus[slowest].result));

out:
	for (i = 0; p.gpus && i < p.n_gpus; i++)
		gpu_fini(&p.gpus[i]);
	free(p.gpus);
	free(p.flash_at);
	sl_work_fini(&p.work);
	return rc;
}

static int
uvm_run(const struct sl_trace *trace, const struct sl_machine *machine,
	const struct sl_plan *plan, const struct sl_sim_options *options,
	struct sl_sim_result *out)
{
	(void)plan;
	return paging_run(PAGING_UVM, trace, machine, NULL, options, out);
}

static int
deepum_run(const struct sl_trace *trace, const struct sl_machine *machine,
	   const struct sl_plan *plan, const struct sl_sim_options *options,
	   struct sl_sim_result *out)
{
	(void)plan;
	return paging_run(PAGING_DEEPUM, trace, machine, NULL, options, out);
}

static int
plan_missing(void)
{
	return sl_fail(-EINVAL, "simulator: this policy carries out a plan: give one");
}

static int
g10_run(const struct sl_trace *trace, const struct sl_machine *machine,
	const struct sl_plan *plan, const struct sl_sim_options *options,
	struct sl_sim_result *out)
{
	if (!plan)
		return plan_missing();
	return paging_run(PAGING_PLAN, trace, machine, plan, options, out);
}

static int
lru_run(const struct sl_trace *trace, const struct sl_machine *machine,
	const struct sl_plan *plan, const struct sl_sim_options *options,
	struct sl_sim_result *out)
{
	(void)plan;
	return paging_run(PAGING_OURS, trace, machine, NULL, options, out);
}

/* As published, a plan of ours is carried out by the very rules of g10's. */
static int
plan_run(const struct sl_trace *trace, const struct sl_machine *machine,
	 const struct sl_plan *plan, const struct sl_sim_options *options,
	 struct sl_sim_result *out)
{
	if (!plan)
		return plan_missing();
	return paging_run(options->as_published ? PAGING_PLAN : PAGING_OURS, trace,
			  machine, plan, options, out);
}

const struct sl_sim_policy sl_sim_uvm = {"uvm", uvm_run};
const struct sl_sim_policy sl_sim_deepum = {"deepum", deepum_run};
const struct sl_sim_policy sl_sim_g10 = {"g10", g10_run};
const struct sl_sim_policy sl_sim_lru = {"lru", lru_run};
const struct sl_sim_policy sl_sim_plan = {"plan", plan_run};
