/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to move what leaves the device and comes back.
 *
 * Two periods are played on the engine. At each launch: the dead give their memory back;
 * tensors whose gap begins and is to be spent outside leave at once (waiting would gain
 * nothing); memory is made for what comes next; and tensors that are outside come back in
 * the order in which they are needed, as early as the room allows: a map of how full each
 * coming launch will be says whether a tensor can be there from now on to its use.
 *
 * The second period's decisions are the plan: one launch to leave and one to come back for
 * every gap. Threads: one.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/sluice.h"

#define SKIP_MAX    8 /* prefetches looked at behind one that finds no room */
#define ALLOC_AHEAD 6 /* grid steps that fresh memory is made ahead */
#define BACKLOG_SHARE \
	1.25            /* prefetches sent for ahead: this much of the running launch */
#define BACKLOG_GRID 64 /* and so many grid steps */
#define RUN_PERIODS  3  /* at most, until two in a row take the same time */

struct pending {
	double need; /* launch, counted on over the periods */
	uint32_t gap;
};

struct pending_list {
	struct pending *at; /* the last is needed first */
	uint32_t count;
};

/* Gaps by the launch at which their tensor comes back: gap[first[k] ...]. */
struct returns {
	uint32_t *first, *gap;
};

struct decision {
	const struct sl_problem *p;
	struct sl_plan_engine *engine;
	struct sl_schedule *schedule;
	const struct sl_schedule_options *options;
	double *there;     /* by launch, the next n from now: pages that will be there */
	double *fixed;     /* the same without what is on its way */
	uint32_t *blocked; /* by gap: launch that was too full last time */
	struct pending_list pending[2]; /* from host memory, from the store */
	double *latest; /* by place in the list at hand: when its transfer has to begin */
	uint32_t period, launch;
};

void
sl_schedule_fini(struct sl_schedule *schedule)
{
	free(schedule->fate);
	free(schedule->back_at);
	free(schedule->times);
	free(schedule->wait);
	memset(schedule, 0, sizeof(*schedule));
}

int
sl_schedule_init(struct sl_schedule *schedule, const struct sl_problem *problem)
{
	memset(schedule, 0, sizeof(*schedule));
	schedule->fate = calloc((size_t)problem->n_gaps + 1, 1);
	schedule->back_at = calloc((size_t)problem->n_gaps + 1, sizeof(uint32_t));
	schedule->times = calloc((size_t)problem->n + 1, sizeof(double));
	schedule->wait = calloc(problem->n, 1);
	if (!schedule->fate || !schedule->back_at || !schedule->times || !schedule->wait) {
		sl_schedule_fini(schedule);
		return sl_fail(-ENOMEM, "plan: no memory for %u gaps", problem->n_gaps);
	}
	for (uint32_t k = 0; k < problem->n; k++)
		schedule->times[k + 1] = schedule->times[k] + problem->ticks[k];
	schedule->period = schedule->score = INFINITY;
	return 0;
}

void
sl_schedule_copy(struct sl_schedule *to, const struct sl_schedule *from,
		 const struct sl_problem *problem)
{
	struct sl_schedule kept = *to;

	*to = *from;
	to->fate = kept.fate;
	to->back_at = kept.back_at;
	to->times = kept.times;
	to->wait = kept.wait;
	memcpy(to->fate, from->fate, problem->n_gaps);
	memcpy(to->back_at, from->back_at, problem->n_gaps * sizeof(uint32_t));
	memcpy(to->times, from->times, ((size_t)problem->n + 1) * sizeof(double));
	memcpy(to->wait, from->wait, problem->n);
}

/* Where everything is when a period begins. */
static void
where_first(const struct sl_schedule *schedule, const struct sl_problem *p, uint8_t *where)
{
	memset(where, SL_AT_DEVICE, p->n_tensors);
	for (uint32_t t = 0; t < p->n_tensors; t++)
		if (p->pages[t] <= 0)
			where[t] = SL_AT_NONE;
	for (uint32_t g = 0; g < p->n_gaps; g++) {
		const struct sl_gap *gap = &p->gaps[g];

		/* Over the boundary, and not just beginning there. */
		if (!gap->begin || gap->begin + gap->length < p->n ||
		    (gap->begin + gap->length == p->n && gap->end != 0))
			continue;
		if (gap->dead)
			where[gap->tensor] = SL_AT_NONE;
		else if (schedule->fate[g] == SL_FATE_STORE)
			where[gap->tensor] = SL_AT_STORE;
		else if (schedule->fate[g] != SL_FATE_KEEP)
			where[gap->tensor] = SL_AT_HOST;
	}
}

/* Time from now to the start of the launch `ahead` launches on, as expected. */
static double
time_until(const struct decision *d, uint32_t ahead)
{
	const double *times = d->schedule->times;
	uint32_t k = d->launch + ahead, n = d->p->n, periods = k / n;

	return times[k % n] + times[n] * periods - times[d->launch];
}

static uint32_t
launch_ahead(const struct decision *d, uint32_t ahead)
{
	return (d->launch + ahead) % d->p->n;
}

/* ---- what leaves ---- */

static void
pending_add(struct pending_list *list, double need, uint32_t gap)
{
	uint32_t at = list->count;

	while (at && (list->at[at - 1].need < need ||
		      (list->at[at - 1].need <= need && list->at[at - 1].gap < gap))) {
		list->at[at] = list->at[at - 1];
		at--;
	}
	list->at[at] = (struct pending){need, gap};
	list->count++;
}

static void
gap_leave(struct decision *d, uint32_t g)
{
	const struct sl_problem *p = d->p;
	const struct sl_gap *gap = &p->gaps[g];
	double pages = p->pages[gap->tensor], cost = 1, rate, begin;
	uint8_t *fate = &d->schedule->fate[g];
	enum sl_channel channel;

	if (*fate == SL_FATE_HOST && d->engine->host_used + pages > p->host)
		*fate = SL_FATE_STORE;
	sl_plan_engine_evict(d->engine, gap->tensor, *fate == SL_FATE_STORE);
	channel = *fate == SL_FATE_STORE ? SL_OUT_STORE : SL_OUT_HOST;
	/* It is there until it has left: what that takes at the channel's rate. */
	rate = p->out;
	if (channel == SL_OUT_STORE)
		rate = p->store_out;
	else if (d->engine->queue[SL_OUT_STORE].count)
		rate = p->out - p->store_out;
	if (rate <= 0)
		rate = p->out;
	if (channel == SL_OUT_HOST)
		cost = p->out_cost[gap->tensor];
	begin = sl_max(0, d->engine->queue[channel].pages - pages * cost) / rate;
	for (uint32_t i = 0; i < gap->length; i++) {
		double left = pages - (time_until(d, i) - begin) * rate / cost;

		if (left <= 0)
			break;
		d->there[launch_ahead(d, i)] += sl_min(left, pages);
	}
	pending_add(&d->pending[*fate == SL_FATE_STORE],
		    (double)d->period * p->n + gap->begin + gap->length, g);
}

/* ---- what comes ---- */

/* The launch that was too full last time is probably so still. */
static int
is_still_full(const struct decision *d, double pages, uint32_t length, uint32_t full)
{
	const struct sl_problem *p = d->p;

	return full != SL_NO_LAUNCH && (full + p->n - d->launch) % p->n < length &&
	       d->there[full] > p->device - d->options->headroom - pages;
}

/*
 * Room for a tensor from now until `length` launches on? 0, and the launch that is too full
 * in *full; or 1, and taken. All of it counts at once, though it comes page by page: a plan
 * is to hold whatever time its moves take.
 */
static int
room_take(struct decision *d, double pages, uint32_t length, uint32_t *full)
{
	const struct sl_problem *p = d->p;
	double bound = p->device - d->options->headroom - pages;
	uint32_t k;

	if (is_still_full(d, pages, length, *full))
		return 0;
	k = d->launch;
	for (uint32_t i = 0; i < length; i++) {
		if (d->there[k] > bound) {
			*full = k;
			return 0;
		}
		if (++k == p->n)
			k = 0;
	}
	*full = SL_NO_LAUNCH;
	k = d->launch;
	for (uint32_t i = 0; i < length; i++) {
		d->there[k] += pages;
		if (++k == p->n)
			k = 0;
	}
	return 1;
}

/* Prefetch a gap's tensor now if it may: 1 if it was sent for. */
static int
gap_return(struct decision *d, uint32_t g, uint32_t length)
{
	const struct sl_problem *p = d->p;
	uint32_t tensor = p->gaps[g].tensor;

	if (length) {
		/* Still leaving: the step would be lost. */
		if (d->engine->channel[tensor] != SL_CHANNEL_COUNT)
			return 0;
		if (!room_take(d, p->pages[tensor], length, &d->blocked[g]))
			return 0;
	}
	sl_plan_engine_prefetch(d->engine, tensor);
	d->schedule->back_at[g] = d->launch;
	return 1;
}

/* When each transfer of a list has to begin for all to come in time, one after the other. */
static void
latest_find(struct decision *d, const struct pending_list *list, double rate, int from_store)
{
	const struct sl_problem *p = d->p;
	double here = (double)d->period * p->n + d->launch;
	double latest = INFINITY;

	for (uint32_t i = 0; i < list->count; i++) {
		double length = list->at[i].need - here;
		uint32_t tensor = p->gaps[list->at[i].gap].tensor;

		latest = sl_min(latest, d->engine->now +
						time_until(d, (uint32_t)sl_max(0, length)));
		latest -= p->pages[tensor] * (from_store ? 1 : p->in_cost[tensor]) / rate;
		d->latest[i] = latest;
	}
}

/* Would the tensor that is needed next not be sent for in any case? Then nobody has to know
 * when its transfer must begin, which takes a walk through the whole list. */
static int
next_must_wait(const struct decision *d, const struct pending *next, double backlog,
	       double ahead)
{
	const struct sl_problem *p = d->p;
	double length = next->need - ((double)d->period * p->n + d->launch);
	uint32_t tensor = p->gaps[next->gap].tensor, full = d->blocked[next->gap];

	if (length <= 0)
		return 0;
	if (backlog > ahead || length >= p->n)
		return 1;
	if (d->options->skip)
		return 0;
	return d->engine->channel[tensor] != SL_CHANNEL_COUNT ||
	       is_still_full(d, p->pages[tensor], (uint32_t)length, full);
}

static void
pending_bring(struct decision *d, int from_store)
{
	const struct sl_problem *p = d->p;
	struct pending_list *list = &d->pending[from_store];
	const struct sl_channel_queue *queue =
		&d->engine->queue[from_store ? SL_IN_STORE : SL_IN_HOST];
	double rate = from_store ? p->store_in : p->in;
	double here = (double)d->period * p->n + d->launch;
	double ahead = BACKLOG_SHARE * p->ticks[d->launch] + BACKLOG_GRID * p->grid;
	double lead = from_store ? d->options->store_lead : d->options->lead;
	uint32_t i = list->count, passed = 0;

	if (i && next_must_wait(d, &list->at[i - 1], queue->pages / rate, ahead))
		return;
	if (lead < INFINITY)
		latest_find(d, list, rate, from_store);
	while (i--) {
		struct pending next = list->at[i];
		double length = next.need - here;

		if (length > 0 && lead < INFINITY && d->latest[i] > d->engine->now + lead)
			break;

		if (length > 0 && (queue->pages / rate > ahead || length >= p->n))
			break;
		if (!gap_return(d, next.gap, (uint32_t)length)) {
			if (!d->options->skip || ++passed > SKIP_MAX)
				break;
			continue;
		}
		memmove(&list->at[i], &list->at[i + 1],
			(list->count - i - 1) * sizeof(*list->at));
		list->count--;
	}
}

/* Fresh memory for what the next launches begin with. */
static void
dead_return(struct decision *d)
{
	const struct sl_problem *p = d->p;
	double made = 0;

	for (uint32_t i = 0; i < p->n; i++) {
		uint32_t k = launch_ahead(d, i);

		/* Early enough at the next launch still? Then the room is better used. */
		if (i && time_until(d, i) - time_until(d, 1) >
				 ALLOC_AHEAD * p->grid + made / p->alloc)
			break;
		for (uint32_t j = p->end_first[k]; j < p->end_first[k + 1]; j++) {
			uint32_t g = p->end_gap[j], full = SL_NO_LAUNCH;
			const struct sl_gap *gap = &p->gaps[g];
			double pages = p->pages[gap->tensor];

			if (!gap->dead ||
			    d->engine->channel[gap->tensor] != SL_CHANNEL_COUNT ||
			    d->engine->where[gap->tensor] != SL_AT_NONE || i > gap->length)
				continue;
			if (i && !room_take(d, pages, i, &full))
				continue;
			made += pages;
			sl_plan_engine_alloc(d->engine, gap->tensor);
			d->schedule->back_at[g] = d->launch;
		}
	}
}

/* ---- all together ---- */

static void
launch_decide(struct decision *d)
{
	const struct sl_problem *p = d->p;
	uint32_t k = d->launch;

	for (uint32_t i = p->begin_first[k]; i < p->begin_first[k + 1]; i++) {
		uint32_t g = p->begin_gap[i];

		if (p->gaps[g].dead)
			sl_plan_engine_free(d->engine, p->gaps[g].tensor);
	}
	for (uint32_t i = p->begin_first[k]; i < p->begin_first[k + 1]; i++) {
		uint32_t g = p->begin_gap[i];

		if (!p->gaps[g].dead && d->schedule->fate[g] != SL_FATE_KEEP)
			gap_leave(d, g);
	}
	/* What this launch needs now goes before what later ones need. */
	dead_return(d);
	pending_bring(d, 1);
	pending_bring(d, 0);
	sl_plan_engine_launch(d->engine, k);
	d->there[k] = d->fixed[k]; /* from now on the same launch of the next period */
}

static void
decision_play(struct decision *d, uint8_t *where)
{
	const struct sl_problem *p = d->p;
	const struct sl_schedule *schedule = d->schedule;

	where_first(schedule, p, where);
	sl_plan_engine_begin(d->engine, p->ticks, where);
	memcpy(d->fixed, p->base, p->n * sizeof(double));
	for (uint32_t g = 0; g < p->n_gaps; g++) {
		const struct sl_gap *gap = &p->gaps[g];
		double pages = p->pages[gap->tensor];

		d->blocked[g] = SL_NO_LAUNCH;
		if (gap->dead || schedule->fate[g] == SL_FATE_KEEP)
			continue;
		for (uint32_t i = 0, k = gap->begin; i < gap->length; i++) {
			d->fixed[k] -= pages;
			if (++k == p->n)
				k = 0;
		}
		if (where[gap->tensor] != SL_AT_DEVICE && gap->begin &&
		    gap->begin + gap->length >= p->n)
			pending_add(&d->pending[where[gap->tensor] == SL_AT_STORE],
				    gap->begin + gap->length - p->n, g);
	}
	memcpy(d->there, d->fixed, p->n * sizeof(double));
	for (d->period = 0; d->period < 2; d->period++)
		for (d->launch = 0; d->launch < p->n; d->launch++)
			launch_decide(d);
}

int
sl_schedule_decide(struct sl_schedule *schedule, const struct sl_problem *problem,
		   struct sl_plan_engine *engine, const struct sl_schedule_options *options)
{
	size_t n = problem->n, gaps = (size_t)problem->n_gaps + 1;
	struct decision d = {.p = problem,
			     .engine = engine,
			     .schedule = schedule,
			     .options = options,
			     .there = malloc(n * sizeof(double)),
			     .fixed = malloc(n * sizeof(double)),
			     .blocked = malloc(gaps * sizeof(uint32_t)),
			     .latest = malloc(2 * gaps * sizeof(double)),
			     /* Of each gap two periods may be pending at once. */
			     .pending = {{malloc(2 * gaps * sizeof(struct pending)), 0},
					 {malloc(2 * gaps * sizeof(struct pending)), 0}}};
	uint8_t *where = malloc((size_t)problem->n_tensors + 1);
	int rc = 0;

	if (!d.there || !d.fixed || !d.blocked || !d.latest || !d.pending[0].at ||
	    !d.pending[1].at || !where)
		rc = sl_fail(-ENOMEM, "plan: no memory for %u gaps", problem->n_gaps);
	else
		decision_play(&d, where);
	free(d.there);
	free(d.fixed);
	free(d.blocked);
	free(d.latest);
	free(d.pending[0].at);
	free(d.pending[1].at);
	free(where);
	return rc;
}

/* ---- what it comes to ---- */

/* What comes back at each launch, in the order of need. */
static int
returns_index(const struct sl_schedule *schedule, const struct sl_problem *p,
	      struct returns *out)
{
	uint32_t n = p->n;

	out->first = calloc((size_t)n + 2, sizeof(uint32_t));
	out->gap = malloc(((size_t)p->n_gaps + 1) * sizeof(uint32_t));
	if (!out->first || !out->gap)
		return -ENOMEM;
	for (uint32_t g = 0; g < p->n_gaps; g++)
		if (p->gaps[g].dead || schedule->fate[g] != SL_FATE_KEEP)
			out->first[schedule->back_at[g] + 2]++;
	for (uint32_t k = 0; k < n; k++)
		out->first[k + 2] += out->first[k + 1];
	for (uint32_t g = 0; g < p->n_gaps; g++)
		if (p->gaps[g].dead || schedule->fate[g] != SL_FATE_KEEP)
			out->gap[out->first[schedule->back_at[g] + 1]++] = g;
	/* Few come back at one launch: each is put in its place. */
	for (uint32_t k = 0; k < n; k++) {
		for (uint32_t i = out->first[k] + 1; i < out->first[k + 1]; i++) {
			uint32_t g = out->gap[i], at = i;
			uint32_t need = (p->gaps[g].end + n - k) % n;

			for (; at > out->first[k]; at--) {
				uint32_t before = out->gap[at - 1];

				if ((p->gaps[before].end + n - k) % n <= need)
					break;
				out->gap[at] = before;
			}
			out->gap[at] = g;
		}
	}
	return 0;
}

static void
returns_fini(struct returns *returns)
{
	free(returns->first);
	free(returns->gap);
}

int
sl_schedule_steps(const struct sl_schedule *schedule, const struct sl_problem *p,
		  sl_schedule_step *step, void *arg)
{
	struct returns back = {NULL, NULL};
	int rc = returns_index(schedule, p, &back);

	for (uint32_t k = 0; !rc && k < p->n; k++) {
		for (uint32_t i = p->begin_first[k]; !rc && i < p->begin_first[k + 1]; i++)
			if (p->gaps[p->begin_gap[i]].dead)
				rc = step(arg, k, SL_PLAN_FREE,
					  p->gaps[p->begin_gap[i]].tensor);
		for (uint32_t i = p->begin_first[k]; !rc && i < p->begin_first[k + 1]; i++) {
			uint32_t g = p->begin_gap[i];

			if (!p->gaps[g].dead && schedule->fate[g] != SL_FATE_KEEP)
				rc = step(arg, k,
					  schedule->fate[g] == SL_FATE_STORE
						  ? SL_PLAN_EVICT_STORE
						  : SL_PLAN_EVICT_HOST,
					  p->gaps[g].tensor);
		}
		for (uint32_t i = back.first[k]; !rc && i < back.first[k + 1]; i++)
			rc = step(arg, k,
				  p->gaps[back.gap[i]].dead ? SL_PLAN_ALLOC : SL_PLAN_PREFETCH,
				  p->gaps[back.gap[i]].tensor);
		if (!rc)
			rc = step(arg, k, SL_PLAN_VERB_COUNT, 0);
	}
	returns_fini(&back);
	return rc;
}

/* sl_schedule_step: carry it out. */
static int
engine_step(void *arg, uint32_t launch, enum sl_plan_verb verb, uint32_t tensor)
{
	struct sl_plan_engine *engine = arg;

	switch (verb) {
	case SL_PLAN_ALLOC:
	case SL_PLAN_PREFETCH:
		sl_plan_engine_prefetch(engine, tensor);
		break;
	case SL_PLAN_FREE:
		sl_plan_engine_free(engine, tensor);
		break;
	case SL_PLAN_EVICT_HOST:
	case SL_PLAN_EVICT_STORE:
		sl_plan_engine_evict(engine, tensor, verb == SL_PLAN_EVICT_STORE);
		break;
	case SL_PLAN_VERB_COUNT:
		sl_plan_engine_launch(engine, launch);
		break;
	}
	return 0;
}

int
sl_schedule_run(struct sl_schedule *schedule, const struct sl_problem *problem,
		struct sl_plan_engine *engine, const double *ticks)
{
	uint8_t *where = malloc((size_t)problem->n_tensors + 1);
	double begin = 0, before = -1;
	int rc = 0;

	if (!where)
		return sl_fail(-ENOMEM, "plan: out of memory");
	where_first(schedule, problem, where);
	sl_plan_engine_begin(engine, ticks, where);
	free(where);
	for (int i = 0; i < RUN_PERIODS && !rc; i++) {
		begin = engine->now;
		sl_plan_engine_count_reset(engine);
		rc = sl_schedule_steps(schedule, problem, engine_step, engine);
		schedule->period = engine->now - begin;
		if (fabs(schedule->period - before) < problem->grid)
			break;
		before = schedule->period;
	}
	if (rc)
		return sl_fail(rc, "plan: out of memory");
	for (uint32_t k = 0; k < problem->n; k++)
		schedule->times[k] = engine->start[k] - begin;
	schedule->times[problem->n] = schedule->period;
	memcpy(schedule->moved, engine->moved, sizeof(schedule->moved));
	memcpy(schedule->waited, engine->waited, sizeof(schedule->waited));
	memcpy(schedule->wait, engine->wait, problem->n);
	schedule->lost = engine->lost;
	schedule->stuck_at = engine->stuck_at;
	schedule->score = schedule->period + engine->lost / problem->in;
	return 0;
}
