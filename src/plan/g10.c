/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner of the paper G10 (its sections 4.2 to 4.4): choose idle periods in
 * which a tensor leaves the device, where it goes and when it must come back, under an
 * estimate of memory over the kernels of one iteration and of the transfer capacity given
 * away so far.
 *
 * Steps: estimate_make() starts from all tensors resident and lets locals be allocated and
 * freed until that fits; periods_choose() evicts the period of greatest benefit until the
 * rest fits; prefetches_place() lets tensors come back as early as the estimate allows; with
 * rules.forced, periods_force() then evicts what is still above the line. Constants that the
 * published program sets by hand for single models are not here; its raised line is, since it
 * holds for every model.
 *
 * Threads: pure.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "plan/g10_traffic.h"

#define LINE_SHARE 0.99 /* of device memory that the estimate may reach */
#define LINE_RAISED \
	1.060606 /* times that where rules.raised_line is set: some 1.05 of the memory */
#define FORCED_SHARE 0.9 /* of the line at the peak, where forced evictions stop */
#define MARGIN       0.5 /* lead of moves over their nominal time */
#define SAFE_FACTOR  (2 + MARGIN) /* of both moves: a shorter period is not worth it */
#define NEAR         1e-6         /* benefits that close are equal */

enum decision { UNDECIDED, KEPT, EVICTED };

struct return_trip {
	uint32_t period;
	uint32_t out_end;  /* kernel in which the write is through */
	uint32_t in_begin; /* kernel in which the read must begin */
};

struct g10 {
	const struct sl_machine *machine;
	struct sl_g10_rules rules;
	struct sl_g10_view view;
	struct g10_traffic traffic;
	struct sl_plan *plan;
	double ticks_per_us;
	double bps[G10_PATH_COUNT];
	double line; /* bytes the estimate may reach */
	int64_t host_budget;
	int64_t *estimate;      /* device bytes by kernel */
	int64_t *host_estimate; /* host bytes by kernel */
	uint64_t *pressed_ticks; /* n + 1: time before the kernel with the estimate above memory */
	uint32_t *order;              /* periods as the sort left them */
	double *benefit, *weight;     /* by period */
	unsigned char *decision;      /* by period */
	uint32_t *out_half, *in_half; /* by period: see benefit_update() */
	struct return_trip *trips;
	uint32_t n_trips;
	uint32_t peak; /* kernel of the greatest estimate before anything is evicted */
};

/* The kernel of [0, n) during which tick `at` falls. */
static uint32_t
kernel_at(const struct g10 *g, double at)
{
	uint32_t low = 0, high = g->view.n - 1;

	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		if ((double)g->view.start_ticks[middle] <= at)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static uint64_t
peak_bytes(const struct g10 *g, uint32_t *at)
{
	int64_t peak = g->estimate[0];

	*at = 0;
	for (uint32_t k = 1; k < g->view.n; k++)
		if (g->estimate[k] > peak) {
			peak = g->estimate[k];
			*at = k;
		}
	return (uint64_t)peak;
}

static int
estimate_fits(const struct g10 *g)
{
	int64_t peak = 0;

	for (uint32_t k = 0; k < g->view.n; k++)
		peak = g->estimate[k] > peak ? g->estimate[k] : peak;
	return (double)peak <= g->line;
}

/* Everything resident all the time, then locals only from birth to death, until that fits. */
static int
estimate_make(struct g10 *g)
{
	struct sl_g10_view *view = &g->view;
	uint32_t n = view->n;
	int64_t all = 0;
	int rc;

	assert(n); /* a trace has launches */
	for (uint32_t t = 0; t < view->n_tensors; t++)
		if (view->tensors[t].death > 0)
			all += (int64_t)view->tensors[t].size_bytes;
	if (g->rules.first_counted_twice && view->n_tensors)
		all += (int64_t)view->tensors[0].size_bytes;
	for (uint32_t k = 0; k < view->n; k++)
		g->estimate[k] = all;

	for (uint32_t t = g->rules.first_counted_twice ? 1 : 0; t < view->n_tensors; t++) {
		const struct sl_g10_tensor *tensor = &view->tensors[t];
		int64_t size = (int64_t)tensor->size_bytes;
		double alloc_ticks;
		uint32_t alloc_at = 0;

		if (tensor->is_global || tensor->death == 0)
			continue;
		if (estimate_fits(g))
			break;
		alloc_ticks = (double)view->start_ticks[tensor->birth] -
			      (double)size / g->machine->alloc_bps * 1e6 * g->ticks_per_us;
		if (alloc_ticks > 0)
			alloc_at = kernel_at(g, alloc_ticks);
		rc = sl_plan_add(g->plan, alloc_at, SL_PLAN_ALLOC, t);
		if (!rc)
			rc = sl_plan_add(g->plan, tensor->death % n, SL_PLAN_FREE, t);
		if (rc)
			return rc;
		for (uint32_t k = 0; k < alloc_at; k++)
			g->estimate[k] -= size;
		for (uint32_t k = tensor->death; k < view->n; k++)
			g->estimate[k] -= size;
	}
	peak_bytes(g, &g->peak);
	return 0;
}

static void
pressed_update(struct g10 *g)
{
	int64_t limit = (int64_t)g->machine->device_bytes;

	g->pressed_ticks[0] = 0;
	for (uint32_t k = 0; k < g->view.n; k++)
		g->pressed_ticks[k + 1] = g->pressed_ticks[k] +
					  (g->estimate[k] > limit ? g->view.launches[k].ticks
								  : 0);
}

/* Ticks of the period in which its absence takes pressure off the device. */
static double
relief_looped(const struct g10 *g, const struct sl_g10_period *period)
{
	const uint64_t *pressed = g->pressed_ticks;
	const uint64_t *start = g->view.start_ticks;
	int64_t limit = (int64_t)g->machine->device_bytes;
	uint32_t n = g->view.n;
	double ticks = (double)(pressed[n] - pressed[period->start]);

	if (!g->rules.looped_skewed)
		return ticks + (double)pressed[period->end];
	for (uint32_t k = 0; k < period->end; k++)
		if (g->estimate[k] > limit)
			ticks += k ? (double)(start[k] - start[k - 1]) : -(double)start[n];
	return ticks;
}

static void
benefit_update(struct g10 *g, uint32_t p)
{
	const struct sl_g10_period *period = &g->view.periods[p];
	uint64_t size = g->view.tensors[period->tensor].size_bytes;
	double ticks = 0;

	if (g->decision[p] != UNDECIDED) {
		g->benefit[p] = 0;
		return;
	}
	if (period->looped)
		ticks = relief_looped(g, period);
	else if (g->out_half[p] < g->in_half[p])
		ticks = (double)(g->pressed_ticks[g->in_half[p]] -
				 g->pressed_ticks[g->out_half[p]]);
	g->benefit[p] = ticks / g->ticks_per_us *
			(g->rules.benefit_only ? (double)size : 1.0);
}

/* When half of the tensor could be on the store, and when half of it must be on its way
 * back: between the two its absence counts. Done again where a booking may have changed it:
 * writes in kernels from `out` on, reads from `in` on. */
static void
halves_update(struct g10 *g, uint32_t out_from, uint32_t out_to, uint32_t in_from,
	      uint32_t in_to)
{
	for (uint32_t p = 0; p < g->view.n_periods; p++) {
		const struct sl_g10_period *period = &g->view.periods[p];
		double half = (double)g->view.tensors[period->tensor].size_bytes / 2;

		if (period->looped || g->decision[p] != UNDECIDED)
			continue;
		if (period->start <= out_to && g->out_half[p] >= out_from)
			g->out_half[p] = sl_g10_traffic_end(&g->traffic, G10_STORE_OUT,
							    period->start, half);
		if (period->end > in_from && g->in_half[p] <= in_to)
			g->in_half[p] = sl_g10_traffic_begin(&g->traffic, G10_STORE_IN,
							     period->end, half);
	}
}

static int
period_before(const void *context, uint32_t a, uint32_t b)
{
	const struct g10 *g = context;
	double difference = g->benefit[a] - g->benefit[b];

	if (difference < NEAR && difference > -NEAR && g->benefit[a] != 0)
		return g->weight[a] > g->weight[b];
	return difference > 0;
}

/* The period to look at next. */
static uint32_t
period_first(struct g10 *g)
{
	uint32_t best = 0;

	if (g->rules.sort) {
		g->rules.sort(g->order, g->view.n_periods, period_before, g);
		return g->order[0];
	}
	for (uint32_t p = 1; p < g->view.n_periods; p++)
		if (g->decision[p] == UNDECIDED &&
		    (g->decision[best] != UNDECIDED || period_before(g, p, best)))
			best = p;
	return best;
}

/* Does any kernel of the period lie above the line? */
static int
period_is_pressed(const struct g10 *g, const struct sl_g10_period *period)
{
	uint32_t k = period->start;

	for (uint32_t left = period->looped ? g->view.n - period->start + period->end
					    : period->end - period->start;
	     left > 0; left--) {
		if ((double)g->estimate[k] > g->line)
			return 1;
		k = k + 1 == g->view.n ? 0 : k + 1;
	}
	return 0;
}

static uint32_t
period_kernels(const struct g10 *g, const struct sl_g10_period *period)
{
	return period->looped ? g->view.n - period->start + period->end
			      : period->end - period->start;
}

static int
host_has_room(const struct g10 *g, uint64_t size_bytes)
{
	for (uint32_t k = 0; k < g->view.n; k++)
		if (g->host_estimate[k] + (int64_t)size_bytes > g->host_budget)
			return 0;
	return 1;
}

static void
host_take(struct g10 *g, const struct sl_g10_period *period)
{
	int64_t size = (int64_t)g->view.tensors[period->tensor].size_bytes;
	uint32_t k = period->start;

	for (uint32_t left = period_kernels(g, period); left > 0; left--) {
		g->host_estimate[k] += size;
		k = k + 1 == g->view.n ? 0 : k + 1;
	}
}

/* Ticks that a move of the tensor takes on an idle path. */
static double
move_ticks(const struct g10 *g, enum g10_path path, uint64_t size_bytes)
{
	double us = g->machine->fault_ns / 1e3 + (double)size_bytes / g->bps[path] * 1e6;

	if (path == G10_STORE_IN || (path == G10_STORE_OUT && g->rules.one_latency))
		us += g->machine->store_read_ns / 1e3;
	else if (path == G10_STORE_OUT)
		us += g->machine->store_write_ns / 1e3;
	return us * g->ticks_per_us;
}

/* Whether a write of the tensor that starts with the period meets a store without room. */
static int
store_is_busy(const struct g10 *g, const struct sl_g10_period *period, uint64_t size_bytes)
{
	uint32_t finish = kernel_at(g, (double)g->view.start_ticks[period->start] +
					       move_ticks(g, G10_STORE_OUT, size_bytes));
	double room;

	if (finish == period->start)
		return g->rules.empty_is_busy;
	room = sl_g10_traffic_free(&g->traffic, G10_STORE_OUT, period->start, finish);
	if (g->rules.hasty_busy)
		return room <= 0;
	return room < (double)size_bytes * 0.5;
}

static enum sl_plan_verb
evict_verb(enum g10_path path)
{
	return path == G10_HOST_OUT ? SL_PLAN_EVICT_HOST : SL_PLAN_EVICT_STORE;
}

/* Out over `out`, back over the same memory's other direction; within the iteration. */
static int
evict_ordinary(struct g10 *g, uint32_t p, enum g10_path out)
{
	const struct sl_g10_period *period = &g->view.periods[p];
	uint64_t size = g->view.tensors[period->tensor].size_bytes;
	enum g10_path in = out == G10_HOST_OUT ? G10_HOST_IN : G10_STORE_IN;
	uint32_t out_end, in_begin, out_last, in_last;
	int rc;

	out_end = sl_g10_traffic_end(&g->traffic, out, period->start, (double)size);
	in_begin = sl_g10_traffic_begin(&g->traffic, in, period->end, (double)size);
	if (in_begin <= out_end) {
		g->decision[p] = KEPT;
		return 0;
	}
	rc = sl_plan_add(g->plan, period->start, evict_verb(out), period->tensor);
	if (rc)
		return rc;
	g->decision[p] = EVICTED;
	g->trips[g->n_trips++] = (struct return_trip){p, out_end, in_begin};
	out_last = sl_g10_traffic_book(&g->traffic, out, period->start, (double)size);
	in_last = sl_g10_traffic_book(&g->traffic, in, in_begin, (double)size);
	for (uint32_t k = out_end + 1; k < in_begin; k++)
		g->estimate[k] -= (int64_t)size;
	if (out == G10_HOST_OUT)
		host_take(g, period);
	pressed_update(g);
	halves_update(g, period->start, out_last, in_begin, in_last);
	return 0;
}

/* A global over the end of the iteration: nominal times, nothing booked. */
static int
evict_looped(struct g10 *g, uint32_t p, enum g10_path out)
{
	const struct sl_g10_period *period = &g->view.periods[p];
	uint64_t size = g->view.tensors[period->tensor].size_bytes;
	double total = (double)g->view.start_ticks[g->view.n];
	double finish = (double)g->view.start_ticks[period->start] + move_ticks(g, out, size);
	enum g10_path in = out == G10_HOST_OUT ? G10_HOST_IN : G10_STORE_IN;
	double begin = (double)g->view.start_ticks[period->end] -
		       (1 + MARGIN) * move_ticks(g, in, size);
	uint32_t out_end, in_begin;
	int rc;

	if (finish >= total)
		finish -= total;
	if (begin < 0)
		begin += total;
	out_end = kernel_at(g, finish);
	in_begin = kernel_at(g, begin);
	g->decision[p] = EVICTED;
	if (out == G10_HOST_OUT)
		host_take(g, period);
	if (out_end == in_begin)
		return 0;
	rc = sl_plan_add(g->plan, period->start, evict_verb(out), period->tensor);
	if (!rc)
		rc = sl_plan_add(g->plan, in_begin, SL_PLAN_PREFETCH, period->tensor);
	if (rc)
		return rc;
	for (uint32_t k = (out_end + 1) % g->view.n; k != in_begin; k = (k + 1) % g->view.n)
		g->estimate[k] -= (int64_t)size;
	pressed_update(g);
	return 0;
}

/* Where the chosen period's tensor goes; strikes the period off, or not (short_stays). */
static int
period_decide(struct g10 *g, uint32_t p)
{
	const struct sl_g10_period *period = &g->view.periods[p];
	uint64_t size = g->view.tensors[period->tensor].size_bytes;
	double ticks = (double)period->ticks;
	double store_safe = SAFE_FACTOR * move_ticks(g, G10_STORE_OUT, size);
	double host_safe = SAFE_FACTOR * move_ticks(g, G10_HOST_OUT, size);

	if (ticks > store_safe) {
		if (period->looped)
			return evict_looped(g, p, G10_STORE_OUT);
		if (store_is_busy(g, period, size) && host_has_room(g, size))
			return evict_ordinary(g, p, G10_HOST_OUT);
		return evict_ordinary(g, p, G10_STORE_OUT);
	}
	if (ticks > host_safe) {
		if (!host_has_room(g, size)) {
			g->decision[p] = KEPT;
			return 0;
		}
		if (period->looped)
			return evict_looped(g, p, G10_HOST_OUT);
		return evict_ordinary(g, p, G10_HOST_OUT);
	}
	if (!g->rules.short_stays)
		g->decision[p] = KEPT;
	return 0;
}

static int
periods_choose(struct g10 *g)
{
	uint32_t n = g->view.n_periods;

	pressed_update(g);
	for (uint32_t p = 0; p < n; p++) {
		const struct sl_g10_period *period = &g->view.periods[p];

		g->order[p] = p;
		g->weight[p] = (double)period->ticks / g->ticks_per_us *
			       (double)g->view.tensors[period->tensor].size_bytes;
		g->in_half[p] = 0;
		g->out_half[p] = g->view.n - 1;
	}
	halves_update(g, 0, g->view.n, 0, g->view.n);
	for (uint32_t round = 0; round < n && !estimate_fits(g); round++) {
		const struct sl_g10_period *period;
		uint32_t p;
		int rc;

		for (p = 0; p < n; p++)
			benefit_update(g, p);
		p = period_first(g);
		period = &g->view.periods[p];
		if (g->decision[p] != UNDECIDED)
			break;
		if (!period_is_pressed(g, period) || period_kernels(g, period) == 1) {
			g->decision[p] = KEPT;
			continue;
		}
		rc = period_decide(g, p);
		if (rc)
			return rc;
	}
	return 0;
}

static int
trip_before(const void *context, uint32_t a, uint32_t b)
{
	const struct g10 *g = context;

	return g->trips[a].in_begin < g->trips[b].in_begin;
}

/* Sort indices by a relation, as published or stably. order: n indices, any content. */
static int
order_sort(const struct g10 *g, uint32_t *order, uint32_t n, sl_g10_before before,
	   const void *context)
{
	SL_CLEANUP(free) uint32_t *other = NULL;

	if (g->rules.sort) {
		g->rules.sort(order, n, before, context);
		return 0;
	}
	/* Merge sort, bottom up. */
	other = malloc(((size_t)n + 1) * sizeof(*other));
	if (!other)
		return sl_fail(-ENOMEM, "sorting %u steps of a plan: out of memory", n);
	for (uint64_t width = 1; width < n; width *= 2) {
		for (uint64_t low = 0; low < n; low += 2 * width) {
			uint64_t middle = low + width < n ? low + width : n;
			uint64_t high = low + 2 * width < n ? low + 2 * width : n;
			uint64_t i = low, j = middle;

			for (uint64_t k = low; k < high; k++)
				if (i < middle &&
				    (j == high || !before(context, order[j], order[i])))
					other[k] = order[i++];
				else
					other[k] = order[j++];
		}
		memcpy(order, other, n * sizeof(*order));
	}
	return 0;
}

/* Each tensor that left comes back as early as the estimate has room for it. */
static int
prefetches_place(struct g10 *g)
{
	SL_CLEANUP(free)
	uint32_t *order = malloc(((size_t)g->n_trips + 1) * sizeof(*order));
	int rc;

	if (!order)
		return sl_fail(-ENOMEM, "placing %u prefetches: out of memory", g->n_trips);
	for (uint32_t i = 0; i < g->n_trips; i++)
		order[i] = i;
	rc = order_sort(g, order, g->n_trips, trip_before, g);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < g->n_trips; i++) {
		const struct return_trip *trip = &g->trips[order[i]];
		uint32_t t = g->view.periods[trip->period].tensor;
		int64_t size = (int64_t)g->view.tensors[t].size_bytes;
		double own = g->rules.own_size_ignored ? 0 : (double)size;
		uint32_t at = trip->in_begin;

		while (at > trip->out_end + 1 && (double)g->estimate[at - 1] + own < g->line)
			at--;
		rc = sl_plan_add(g->plan, at, SL_PLAN_PREFETCH, t);
		if (rc)
			return rc;
		for (uint32_t k = at; k < trip->in_begin; k++)
			g->estimate[k] += size;
	}
	return 0;
}

static int
weight_before(const void *context, uint32_t a, uint32_t b)
{
	const struct g10 *g = context;

	return g->weight[a] > g->weight[b];
}

/* At the peak, evict without asking for bandwidth, and leave the way
 * back to the first use. */
static int
periods_force(struct g10 *g)
{
	int rc = order_sort(g, g->order, g->view.n_periods, weight_before, g);

	for (uint32_t i = 0; !rc && i < g->view.n_periods; i++) {
		uint32_t p = g->order[i];
		const struct sl_g10_period *period = &g->view.periods[p];

		if ((double)g->estimate[g->peak] <= FORCED_SHARE * g->line)
			break;
		if (period->looped || g->decision[p] == EVICTED ||
		    period->start > g->peak || period->end <= g->peak)
			continue;
		g->decision[p] = EVICTED;
		rc = sl_plan_add(g->plan, period->start, SL_PLAN_EVICT_STORE, period->tensor);
		for (uint32_t k = period->start; !rc && k < period->end; k++)
			g->estimate[k] -= (int64_t)g->view.tensors[period->tensor].size_bytes;
	}
	return rc;
}

static int
step_before(const void *context, uint32_t a, uint32_t b)
{
	const struct g10 *g = context;

	return g->plan->steps[a].launch < g->plan->steps[b].launch;
}

static int
steps_sort(struct g10 *g)
{
	uint32_t n = g->plan->n_steps;
	SL_CLEANUP(free) uint32_t *order = malloc(((size_t)n + 1) * sizeof(*order));
	SL_CLEANUP(free)
	struct sl_plan_step *steps = malloc(((size_t)n + 1) * sizeof(*steps));
	int rc;

	if (!order || !steps)
		return sl_fail(-ENOMEM, "sorting %u steps of a plan: out of memory", n);
	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	rc = order_sort(g, order, n, step_before, g);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < n; i++)
		steps[i] = g->plan->steps[order[i]];
	if (n)
		memcpy(g->plan->steps, steps, n * sizeof(*steps));
	return 0;
}

/* Every kernel's tensors fit together, or the least memory that would do is named. */
static int
kernels_fit(const struct g10 *g)
{
	uint64_t most = 0;
	uint32_t at = 0;

	for (uint32_t k = 0; k < g->view.n; k++) {
		uint64_t bytes = sl_g10_kernel_bytes(&g->view, k);

		if (bytes > most) {
			most = bytes;
			at = k;
		}
	}
	if (most <= g->machine->device_bytes)
		return 0;
	return sl_fail(-ENOSPC,
		       "launch %u needs %" PRIu64
		       " bytes at once, the device has %" PRIu64
		       ": no plan can fit; the least device memory is %" PRIu64 " bytes",
		       at, most, g->machine->device_bytes, most);
}

static int
g10_init(struct g10 *g, const struct sl_trace *trace, const struct sl_machine *machine,
	 const struct sl_g10_rules *rules)
{
	double giga = rules->binary_giga ? (double)(UINT64_C(1) << 30) / 1e9 : 1;
	uint32_t n, n_periods;
	int rc = sl_machine_check(machine);

	if (rc)
		return rc;
	g->machine = machine;
	g->rules = *rules;
	rc = sl_g10_view_init(&g->view, trace, 0);
	if (rc)
		return rc;
	g->ticks_per_us = (double)trace->clock_hz / 1e6;
	g->bps[G10_STORE_OUT] = machine->store_write_bps * giga;
	g->bps[G10_STORE_IN] = machine->store_read_bps * giga;
	g->bps[G10_HOST_OUT] = machine->link_out_bps * giga;
	g->bps[G10_HOST_IN] = machine->link_in_bps * giga;
	g->host_budget = rules->no_host ? 0 : (int64_t)machine->host_bytes;
	g->line = (double)(uint64_t)(LINE_SHARE * (double)machine->device_bytes);
	if (rules->raised_line)
		g->line *= LINE_RAISED;
	rc = sl_g10_traffic_init(&g->traffic, &g->view, g->bps);
	if (rc)
		return rc;
	n = g->view.n;
	n_periods = g->view.n_periods + 1;
	g->estimate = calloc(n, sizeof(*g->estimate));
	g->host_estimate = calloc(n, sizeof(*g->host_estimate));
	g->pressed_ticks = calloc((size_t)n + 1, sizeof(*g->pressed_ticks));
	g->order = calloc(n_periods, sizeof(*g->order));
	g->benefit = calloc(n_periods, sizeof(*g->benefit));
	g->weight = calloc(n_periods, sizeof(*g->weight));
	g->decision = calloc(n_periods, sizeof(*g->decision));
	g->out_half = calloc(n_periods, sizeof(*g->out_half));
	g->in_half = calloc(n_periods, sizeof(*g->in_half));
	g->trips = calloc(n_periods, sizeof(*g->trips));
	if (!g->estimate || !g->host_estimate || !g->pressed_ticks || !g->order ||
	    !g->benefit || !g->weight || !g->decision || !g->out_half || !g->in_half ||
	    !g->trips)
		return sl_fail(-ENOMEM, "planning %u launches: out of memory", n);
	return kernels_fit(g);
}

static void
g10_fini(struct g10 *g)
{
	sl_g10_traffic_fini(&g->traffic);
	sl_g10_view_fini(&g->view);
	sl_plan_destroy(g->plan);
	free(g->estimate);
	free(g->host_estimate);
	free(g->pressed_ticks);
	free(g->order);
	free(g->benefit);
	free(g->weight);
	free(g->decision);
	free(g->out_half);
	free(g->in_half);
	free(g->trips);
}

int
sl_g10_plan(const struct sl_trace *trace, const struct sl_machine *machine,
	    const struct sl_g10_rules *rules, struct sl_plan **out)
{
	struct g10 g = {0};
	int rc = g10_init(&g, trace, machine, rules);

	if (rc)
		goto done;
	rc = sl_plan_create(trace, rules->name ? rules->name : "g10", &g.plan);
	if (rc)
		goto done;
	rc = estimate_make(&g);
	if (!rc)
		rc = periods_choose(&g);
	if (!rc)
		rc = prefetches_place(&g);
	if (!rc && rules->forced)
		rc = periods_force(&g);
	if (!rc)
		rc = steps_sort(&g);
	if (!rc) {
		*out = g.plan;
		g.plan = NULL;
	}
done:
	g10_fini(&g);
	return rc;
}

static int
g10_make(const struct sl_trace *trace, const struct sl_machine *machine,
	 const struct sl_planner_options *options, struct sl_plan **out)
{
	static const struct sl_g10_rules rules = {0};

	(void)options;
	return sl_g10_plan(trace, machine, &rules, out);
}

const struct sl_planner sl_planner_g10 = {.name = "g10", .make = g10_make};
