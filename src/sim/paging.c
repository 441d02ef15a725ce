/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulation by pages (paper G10, section 6, as its artifact does it): launches run one
 * after the other; a launch that misses pages waits for them; pages move in transfer steps
 * on a fixed grid (flow.c). Our policies lru and plan pin the tensors of a launch, start it when
 * all are there, and know which are dead or clean. Other rules (struct sl_paging_rules) make it
 * the machine of the published artifact, papers/g10.
 *
 * Here: the machine made ready, the steps of all GPUs, and the policies. What becomes of a
 * launch is in paging_launch.c.
 *
 * Several GPUs run copies of the trace: steps are common, the store's (and a common link's)
 * budget is split among those that want it, host memory and the store's room are split in
 * equal parts.
 *
 * Memory: runs of pages (runs.c). Time: steps that would repeat are taken at once (flow.c).
 * Threads: each run has objects of its own.
 */
#include "sim/paging.h"
#include "base/fault_point.h"
#include "base/size.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps and their budgets. */
static int
limits_fill(struct paging *p)
{
	const struct sl_machine *m = p->machine;
	struct sl_flow_limits *l = &p->limits;
	double hz = (double)p->work.trace->clock_hz, page_ticks;
	struct sl_machine_steps steps;
	int rc;

	rc = sl_machine_steps(m, p->work.trace->clock_hz, p->options->as_published, &steps);
	if (rc)
		return rc;
	p->page_bytes = steps.unit_bytes;
	p->step_ticks = steps.step_ticks;
	l->in = l->host_in = (uint64_t)steps.in * SL_TRACE_RATIO_ONE;
	l->out = l->host_out = (uint64_t)steps.out * SL_TRACE_RATIO_ONE;
	l->store_in = steps.store_in;
	l->store_out = steps.store_out;
	page_ticks = (double)p->page_bytes * hz / m->alloc_bps;
	if (p->options->as_published)
		page_ticks = floor(page_ticks);
	l->alloc = UINT32_MAX / 2;
	if (page_ticks > 0)
		l->alloc = (uint64_t)fmin(fmax(1, floor((double)p->step_ticks / page_ticks)),
					  UINT32_MAX / 2);
	if (!p->options->as_published) {
		p->link_late_ticks = (uint64_t)(m->link_ns * hz / 1e9);
		p->store_late_ticks = p->link_late_ticks +
				      (uint64_t)(m->store_read_ns * hz / 1e9);
	}
	return 0;
}

/* What moves cost, if the link compresses. */
static int
costs_fill(struct paging *p)
{
	const struct sl_trace *trace = p->work.trace;

	if (!(p->machine->encode_bps > 0))
		return 0;
	for (int way = 0; way < SL_WAY_COUNT; way++) {
		p->costs[way] = calloc((size_t)p->work.n_tensors + 1, sizeof(*p->costs[way]));
		if (!p->costs[way])
			return sl_fail(-ENOMEM, "simulator: no memory for %u tensors",
				       p->work.n_tensors);
		for (uint32_t t = 0; t < p->work.n_tensors; t++)
			p->costs[way][t] = sl_machine_move(p->machine, (enum sl_way)way,
							   trace->tensors[t].ratio);
	}
	return 0;
}

/* Globals begin on the store; what it has no room for, in host memory. */
static void
global_place(struct gpu *g, uint32_t tensor)
{
	struct sl_runs *runs = &g->flow.runs;
	uint64_t pages = runs->tensor_pages[tensor];
	int fits_store = runs->store_used + pages <= g->flow.store_pages;
	int fits_host = runs->host_used + pages <= g->flow.host_pages;

	sl_runs_place(runs, tensor,
		      fits_store || !fits_host ? SL_WHERE_STORE : SL_WHERE_HOST);
}

/* Is more on the store than it holds? -ENOSPC. */
static int
store_check(const struct gpu *g)
{
	const struct paging *p = g->paging;
	char have[32], need[32];

	if (g->flow.runs.store_used <= g->flow.store_pages)
		return 0;
	return sl_fail(
		-ENOSPC,
		"simulator: launch %u: %s would be on the store and %s is its %s: more "
		"of it is needed, or of host memory",
		g->launch,
		sl_size_format(g->flow.runs.store_used * p->page_bytes, need, sizeof(need)),
		sl_size_format(g->flow.store_pages * p->page_bytes, have, sizeof(have)),
		p->n_gpus > 1 ? "capacity for each GPU" : "capacity");
}

static int
gpu_init(struct paging *p, struct gpu *g)
{
	const struct sl_trace *trace = p->work.trace;
	uint32_t tensor, *pages;
	int rc;

	g->paging = p;
	g->flow.limits = p->limits;
	g->flow.costs[SL_WAY_IN] = p->costs[SL_WAY_IN];
	g->flow.costs[SL_WAY_OUT] = p->costs[SL_WAY_OUT];
	g->flow.device_pages = p->machine->device_bytes / p->page_bytes;
	/* GPUs have equal parts of the host's memory. */
	g->flow.host_pages = p->machine->host_bytes / p->page_bytes / p->n_gpus;
	g->flow.store_pages = UINT64_MAX;
	if (p->machine->store_bytes)
		g->flow.store_pages = p->machine->store_bytes / p->page_bytes / p->n_gpus;
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
			global_place(g, tensor);

	if (sl_paging_is_ours(p)) {
		g->flow.pins = 1;
		g->flow.waits = p->plan != NULL;
		g->flow.runs.keeps_copies = 1;
	}
	if (p->rules->ahead) {
		g->flow.protects = 1;
		g->flow.birth = p->work.birth;
		g->flow.death = p->work.death;
		g->flow.needed_until = sl_calloc((size_t)p->work.n_tensors + 1,
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

/* What kept the last step from moving more. */
static enum sl_sim_bound
step_bound(const struct sl_flow *flow)
{
	const struct sl_flow_limits *used = &flow->used, *limits = &flow->limits;

	if (flow->shape.victim_parts && flow->shape.victim_where == SL_WHERE_STORE &&
	    used->store_out >= limits->store_out)
		return SL_BOUND_STORE_WRITE;
	if (flow->shape.victim_parts && used->out + SL_TRACE_RATIO_ONE > limits->out)
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
	if (store_check(g))
		return -ENOSPC;
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

static uint64_t
u64_most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
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
		l->in = u64_most(l->in, SL_TRACE_RATIO_ONE);
		l->out = u64_most(l->out, SL_TRACE_RATIO_ONE);
		l->store_in += !l->store_in;
		l->store_out += !l->store_out;
		l->host_in = l->in;
		l->host_out = l->out;
		/* Raw pages cannot be more than the link takes; compressed ones may be. */
		if (!p->costs[SL_WAY_IN] && l->store_in > l->in / SL_TRACE_RATIO_ONE)
			l->store_in = l->in / SL_TRACE_RATIO_ONE;
		if (!p->costs[SL_WAY_OUT] && l->store_out > l->out / SL_TRACE_RATIO_ONE)
			l->store_out = l->out / SL_TRACE_RATIO_ONE;
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

		for (launch = 0; launch + 1 < p->rules->ahead; launch++)
			sl_gpu_protect(g, launch);
		g->start = (uint64_t)(p->options->stagger * i * (double)p->work.ideal_ticks);
		g->begin = g->start;
		sl_gpu_begin(g);
	}
	p->step_next = 1;
	for (;;) {
		uint64_t time = p->step_next * p->step_ticks, same = UINT32_MAX, first;
		uint32_t done = 0, idle = 0;

		first = UINT64_MAX;
		for (i = 0; i < p->n_gpus; i++) {
			struct gpu *g = &p->gpus[i];

			sl_gpu_advance(g, time);
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
				rc = sl_gpu_look(g, time);
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
			rc = store_check(g);
			if (rc)
				return rc;
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
		const struct sl_sim_work_launch *w = &p->work.launches[launch];
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
	int rc = p->rules->plans ? sl_plan_fits(p->plan, &p->work) : 0;

	if (rc)
		return rc;
	if (!(p->options->stagger >= 0 && p->options->stagger <= 1))
		return sl_fail(-EINVAL, "simulator: stagger is %g, must be 0 to 1",
			       p->options->stagger);
	if (p->options->as_published && p->machine->n_gpus > 1)
		return sl_fail(-EINVAL,
			       "simulator: the published machine has one GPU, this one "
			       "has %u: leave "
			       "as_published out",
			       p->machine->n_gpus);
	if (p->machine->encode_bps > 0 && (p->options->as_published || !sl_paging_is_ours(p)))
		return sl_fail(-EINVAL,
			       "simulator: a published policy, or as published, knows no "
			       "compressed link: leave encode_bps and decode_bps 0");
	return 0;
}

int
sl_paging_run(const struct sl_paging_rules *rules, const struct sl_trace *trace,
	      const struct sl_machine *machine, const struct sl_plan *plan,
	      const struct sl_sim_options *options, struct sl_sim_result *out)
{
	struct paging p = {.machine = machine,
			   .plan = rules->plans ? plan : NULL,
			   .options = options,
			   .rules = rules};
	uint32_t i, worst, slowest = 0;
	uint64_t bytes;
	int rc;

	rc = sl_machine_check(machine);
	if (!rc)
		rc = sl_sim_work_init(&p.work, trace, options);
	if (rc)
		return rc;
	rc = paging_check(&p);
	if (!rc)
		rc = limits_fill(&p);
	if (!rc)
		rc = costs_fill(&p);
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
	free(p.costs[SL_WAY_IN]);
	free(p.costs[SL_WAY_OUT]);
	sl_sim_work_fini(&p.work);
	return rc;
}

static int
lru_run(const struct sl_trace *trace, const struct sl_machine *machine,
	const struct sl_plan *plan, const struct sl_sim_options *options,
	struct sl_sim_result *out)
{
	static const struct sl_paging_rules rules = {0};

	return sl_paging_run(&rules, trace, machine, plan, options, out);
}

static int
plan_run(const struct sl_trace *trace, const struct sl_machine *machine,
	 const struct sl_plan *plan, const struct sl_sim_options *options,
	 struct sl_sim_result *out)
{
	static const struct sl_paging_rules rules = {.plans = 1};

	return sl_paging_run(&rules, trace, machine, plan, options, out);
}

const struct sl_sim_policy sl_sim_lru = {"lru", lru_run};
const struct sl_sim_policy sl_sim_plan = {"plan", plan_run};
