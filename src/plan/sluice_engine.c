/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine at work, tensor by tensor: launches one after the other, four channels for bytes
 * (out to the store and to host memory, in from both), and the making of fresh memory.
 *
 * Rules, those of the simulated machine:
 * - Each direction of the link is shared. The store's part comes first, and is never faster than
 *   the store.
 * - A compressed tensor takes its part of the link's time for raw pages. The store's time is that
 *   of raw pages.
 * - Each channel is first come, first served.
 * - Memory is taken and given page by page, as pages arrive and leave. Arriving data wait while
 *   the device is full, and enter as room appears.
 * - A launch starts when the one before has ended. It ends when it has computed and all its data
 *   have arrived.
 *
 * Between two events every rate is constant, so the time of the next event is a division. That
 * makes an evaluation cheap enough for a search.
 *
 * A plan may have errors: a fetch at the last moment that was never requested, an eviction of
 * arriving data, a full device with no move out. They are carried out in the least bad way and
 * counted as lost.
 *
 * Threads: one.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/sluice.h"

#define EPSILON 1e-6 /* pages; far below one, far above rounding */

void
sl_plan_engine_fini(struct sl_plan_engine *engine)
{
	free(engine->where);
	free(engine->channel);
	free(engine->left);
	free(engine->needed);
	for (int c = 0; c < SL_CHANNEL_COUNT; c++)
		free(engine->queue[c].tensor);
	free(engine->start);
	free(engine->end);
	free(engine->wait);
	memset(engine, 0, sizeof(*engine));
}

int
sl_plan_engine_init(struct sl_plan_engine *engine, const struct sl_problem *problem)
{
	size_t tensors = (size_t)problem->n_tensors + 1, n = problem->n;
	int whole = 1;

	memset(engine, 0, sizeof(*engine));
	engine->problem = problem;
	engine->where = malloc(tensors);
	engine->channel = malloc(tensors);
	engine->left = malloc(tensors * sizeof(double));
	engine->needed = calloc(tensors, sizeof(uint32_t));
	for (int c = 0; c < SL_CHANNEL_COUNT; c++) {
		engine->queue[c].tensor = malloc(tensors * sizeof(uint32_t));
		whole = whole && engine->queue[c].tensor;
	}
	engine->start = calloc(n, sizeof(double));
	engine->end = calloc(n, sizeof(double));
	engine->wait = calloc(n, 1);
	if (!whole || !engine->where || !engine->channel || !engine->left ||
	    !engine->needed || !engine->start || !engine->end || !engine->wait) {
		sl_plan_engine_fini(engine);
		return sl_fail(-ENOMEM, "plan: no memory for %u tensors", problem->n_tensors);
	}
	return 0;
}

void
sl_plan_engine_count_reset(struct sl_plan_engine *engine)
{
	memset(engine->moved, 0, sizeof(engine->moved));
	memset(engine->waited, 0, sizeof(engine->waited));
	engine->lost = 0;
}

void
sl_plan_engine_begin(struct sl_plan_engine *engine, const double *ticks, const uint8_t *where)
{
	const struct sl_problem *p = engine->problem;

	engine->ticks = ticks;
	engine->now = engine->used = engine->host_used = engine->store_used = 0;
	engine->serial = engine->missing = 0;
	engine->stuck_at = SL_NO_LAUNCH;
	memcpy(engine->where, where, p->n_tensors);
	memset(engine->channel, SL_CHANNEL_COUNT, p->n_tensors);
	memset(engine->needed, 0, p->n_tensors * sizeof(uint32_t));
	for (int c = 0; c < SL_CHANNEL_COUNT; c++) {
		engine->queue[c].head = engine->queue[c].count = 0;
		engine->queue[c].pages = 0;
	}
	for (uint32_t t = 0; t < p->n_tensors; t++) {
		if (where[t] == SL_AT_DEVICE)
			engine->used += p->pages[t];
		else if (where[t] == SL_AT_HOST)
			engine->host_used += p->pages[t];
		else if (where[t] == SL_AT_STORE)
			engine->store_used += p->pages[t];
	}
	sl_plan_engine_count_reset(engine);
}

/* ---- queues ---- */

static uint32_t
queue_slot(const struct sl_plan_engine *engine, const struct sl_channel_queue *queue,
	   uint32_t i)
{
	uint32_t slot = queue->head + i, size = engine->problem->n_tensors + 1;

	return slot >= size ? slot - size : slot;
}

/* Of a page, of the time of a raw one on an idle channel. The store is the slower part of its
 * way, so what the link saves does not count there. */
static double
channel_cost(const struct sl_problem *p, enum sl_channel channel, uint32_t tensor)
{
	if (channel == SL_OUT_HOST)
		return p->out_cost[tensor];
	return channel == SL_IN_HOST ? p->in_cost[tensor] : 1;
}

static void
queue_push(struct sl_plan_engine *engine, enum sl_channel channel, uint32_t tensor,
	   double pages, int in_front)
{
	struct sl_channel_queue *queue = &engine->queue[channel];

	if (in_front) {
		queue->head = queue_slot(engine, queue, engine->problem->n_tensors);
		queue->tensor[queue->head] = tensor;
	} else {
		queue->tensor[queue_slot(engine, queue, queue->count)] = tensor;
	}
	queue->count++;
	queue->pages += pages * channel_cost(engine->problem, channel, tensor);
	engine->channel[tensor] = (uint8_t)channel;
	engine->left[tensor] = pages;
}

/* Take a tensor out wherever it stands in its queue. */
static void
engine_queue_remove(struct sl_plan_engine *engine, uint32_t tensor)
{
	enum sl_channel channel = engine->channel[tensor];
	struct sl_channel_queue *queue = &engine->queue[channel];
	double left = engine->left[tensor] * channel_cost(engine->problem, channel, tensor);
	uint32_t i = 0;

	while (queue->tensor[queue_slot(engine, queue, i)] != tensor)
		i++;
	if (i == 0) {
		queue->head = queue_slot(engine, queue, 1);
	} else {
		for (; i + 1 < queue->count; i++)
			queue->tensor[queue_slot(engine, queue, i)] =
				queue->tensor[queue_slot(engine, queue, i + 1)];
	}
	queue->count--;
	queue->pages = queue->count ? queue->pages - left : 0;
	engine->channel[tensor] = SL_CHANNEL_COUNT;
}

/* ---- time ---- */

/* A tensor's last page has moved. */
static void
engine_move_done(struct sl_plan_engine *engine, uint32_t tensor)
{
	enum sl_channel channel = engine->channel[tensor];
	double pages = engine->problem->pages[tensor];

	engine_queue_remove(engine, tensor);
	switch (channel) {
	case SL_OUT_STORE:
		engine->where[tensor] = SL_AT_STORE;
		return;
	case SL_OUT_HOST:
		engine->where[tensor] = SL_AT_HOST;
		return;
	case SL_IN_STORE:
		engine->store_used -= pages;
		break;
	case SL_IN_HOST:
		engine->host_used -= pages;
		break;
	case SL_IN_ALLOC:
	case SL_CHANNEL_COUNT:
		break;
	}
	engine->where[tensor] = SL_AT_DEVICE;
	if (engine->needed[tensor] == engine->serial && engine->missing) {
		double grid = engine->problem->grid;

		engine->missing--;
		engine->ready = sl_max(engine->ready,
				       ceil((engine->now - EPSILON) / grid) * grid);
	}
}

/* The rate of the host's channel: what the store's leaves of the link. */
static double
beside_store(double link, const double *cost, double store_rate,
	     const struct sl_channel_queue *store, const struct sl_channel_queue *host)
{
	if (!host->count)
		return 0;
	if (store->count)
		link -= store_rate * cost[store->tensor[store->head]];
	return link / cost[host->tensor[host->head]];
}

/* Pages per tick of each way, as things are now. */
static void
rates_now(const struct sl_plan_engine *engine, double rate[SL_CHANNEL_COUNT])
{
	const struct sl_problem *p = engine->problem;
	const struct sl_channel_queue *queue = engine->queue;
	double room;

	rate[SL_OUT_STORE] = queue[SL_OUT_STORE].count ? p->store_out : 0;
	rate[SL_OUT_HOST] = beside_store(p->out, p->out_cost, rate[SL_OUT_STORE],
					 &queue[SL_OUT_STORE], &queue[SL_OUT_HOST]);
	rate[SL_IN_STORE] = queue[SL_IN_STORE].count ? p->store_in : 0;
	rate[SL_IN_HOST] = beside_store(p->in, p->in_cost, rate[SL_IN_STORE],
					&queue[SL_IN_STORE], &queue[SL_IN_HOST]);
	rate[SL_IN_ALLOC] = 0;
	if (queue[SL_IN_ALLOC].count)
		rate[SL_IN_ALLOC] = sl_max(0, p->alloc - rate[SL_IN_STORE] -
						      rate[SL_IN_HOST]);
	if (engine->used < p->device - EPSILON)
		return;
	/* Full: what leaves lets in as much, in the order of the machine's queues. */
	room = rate[SL_OUT_STORE] + rate[SL_OUT_HOST];
	for (int c = SL_IN_STORE; c <= SL_IN_ALLOC; c++) {
		rate[c] = sl_min(rate[c], room);
		room -= rate[c];
	}
}

/*
 * Let time pass until `until`, or until nothing is missing any more. Returns 0 if neither
 * can come because nothing moves.
 */
static int
time_pass(struct sl_plan_engine *engine, double until, int for_missing)
{
	const struct sl_problem *p = engine->problem;
	double rate[SL_CHANNEL_COUNT];

	while (engine->now < until && !(for_missing && !engine->missing)) {
		double step = until - engine->now, in, out;
		int busy = 0;

		rates_now(engine, rate);
		for (int c = 0; c < SL_CHANNEL_COUNT; c++) {
			const struct sl_channel_queue *queue = &engine->queue[c];
			double need;

			if (rate[c] <= 0)
				continue;
			busy = 1;
			need = engine->left[queue->tensor[queue->head]] / rate[c];
			if (need < step)
				step = need;
		}
		if (!busy) {
			if (isinf(until))
				return 0;
			engine->now = until;
			return 1;
		}
		out = rate[SL_OUT_STORE] + rate[SL_OUT_HOST];
		in = rate[SL_IN_STORE] + rate[SL_IN_HOST] + rate[SL_IN_ALLOC];
		if (in > out && engine->used < p->device - EPSILON)
			step = sl_min(step, (p->device - engine->used) / (in - out));
		engine->now += step;
		engine->used += (in - out) * step;
		for (int c = 0; c < SL_CHANNEL_COUNT; c++) {
			struct sl_channel_queue *queue = &engine->queue[c];
			double pages = rate[c] * step;
			uint32_t tensor;

			if (rate[c] <= 0)
				continue;
			tensor = queue->tensor[queue->head];
			engine->moved[c] += pages;
			engine->left[tensor] -= pages;
			queue->pages -= pages * channel_cost(p, (enum sl_channel)c, tensor);
			if (engine->left[tensor] <= EPSILON) {
				engine->used += c >= SL_IN_STORE ? engine->left[tensor]
								 : -engine->left[tensor];
				engine_move_done(engine, tensor);
			}
		}
	}
	return 1;
}

/* ---- steps ---- */

void
sl_plan_engine_free(struct sl_plan_engine *engine, uint32_t tensor)
{
	double pages = engine->problem->pages[tensor];
	enum sl_channel channel = engine->channel[tensor];
	double left = engine->left[tensor];

	if (channel != SL_CHANNEL_COUNT)
		engine_queue_remove(engine, tensor);
	switch (channel) {
	case SL_OUT_STORE:
		engine->used -= left;
		engine->store_used -= pages;
		break;
	case SL_OUT_HOST:
		engine->used -= left;
		engine->host_used -= pages;
		break;
	case SL_IN_STORE:
		engine->used -= pages - left;
		engine->store_used -= pages;
		break;
	case SL_IN_HOST:
		engine->used -= pages - left;
		engine->host_used -= pages;
		break;
	case SL_IN_ALLOC:
		engine->used -= pages - left;
		break;
	case SL_CHANNEL_COUNT:
		if (engine->where[tensor] == SL_AT_DEVICE)
			engine->used -= pages;
		else if (engine->where[tensor] == SL_AT_HOST)
			engine->host_used -= pages;
		else if (engine->where[tensor] == SL_AT_STORE)
			engine->store_used -= pages;
		break;
	}
	engine->where[tensor] = SL_AT_NONE;
}

/* Bring a tensor from where it is, or make it. */
static void
tensor_bring(struct sl_plan_engine *engine, uint32_t tensor, int in_front)
{
	enum sl_channel channel = SL_IN_ALLOC;

	if (engine->where[tensor] == SL_AT_HOST)
		channel = SL_IN_HOST;
	else if (engine->where[tensor] == SL_AT_STORE)
		channel = SL_IN_STORE;
	queue_push(engine, channel, tensor, engine->problem->pages[tensor], in_front);
}

void
sl_plan_engine_alloc(struct sl_plan_engine *engine, uint32_t tensor)
{
	sl_plan_engine_prefetch(engine, tensor);
}

void
sl_plan_engine_prefetch(struct sl_plan_engine *engine, uint32_t tensor)
{
	if (engine->channel[tensor] <= SL_OUT_HOST)
		engine->lost += engine->problem->pages[tensor];
	else if (engine->channel[tensor] == SL_CHANNEL_COUNT &&
		 engine->where[tensor] != SL_AT_DEVICE)
		tensor_bring(engine, tensor, 0);
}

void
sl_plan_engine_evict(struct sl_plan_engine *engine, uint32_t tensor, int to_store)
{
	const struct sl_problem *p = engine->problem;
	double pages = p->pages[tensor];

	if (engine->where[tensor] != SL_AT_DEVICE ||
	    engine->channel[tensor] != SL_CHANNEL_COUNT) {
		engine->lost += pages;
		return;
	}
	if (!to_store && engine->host_used + pages > p->host)
		to_store = 1;
	if (to_store && engine->store_used + pages > p->store) {
		engine->lost += pages;
		return;
	}
	if (to_store)
		engine->store_used += pages;
	else
		engine->host_used += pages;
	queue_push(engine, to_store ? SL_OUT_STORE : SL_OUT_HOST, tensor, pages, 0);
}

/* ---- launches ---- */

/* Nothing moves and something is missing: make room by force, the largest first. */
static int
room_force(struct sl_plan_engine *engine)
{
	const struct sl_problem *p = engine->problem;
	uint32_t victim = UINT32_MAX;

	for (uint32_t t = 0; t < p->n_tensors; t++)
		if (engine->where[t] == SL_AT_DEVICE &&
		    engine->channel[t] == SL_CHANNEL_COUNT &&
		    engine->needed[t] != engine->serial &&
		    (victim == UINT32_MAX || p->pages[t] > p->pages[victim]))
			victim = t;
	if (victim == UINT32_MAX)
		return 0;
	engine->lost += p->pages[victim];
	sl_plan_engine_evict(engine, victim, 0);
	return engine->channel[victim] != SL_CHANNEL_COUNT;
}

/* Queue what a launch uses and nobody sent for; returns the pages of it, as the link counts. */
static double
launch_demand(struct sl_plan_engine *engine, uint32_t launch)
{
	const struct sl_problem *p = engine->problem;
	double demanded = 0;

	engine->serial++;
	engine->missing = 0;
	for (uint32_t i = p->use_first[launch]; i < p->use_first[launch + 1]; i++) {
		uint32_t t = p->use[i];

		engine->needed[t] = engine->serial;
		if (engine->channel[t] <= SL_OUT_HOST) {
			/* On its way out: what has not left stays, the rest comes back. */
			double left = engine->left[t];
			int store = engine->channel[t] == SL_OUT_STORE;

			engine_queue_remove(engine, t);
			engine->where[t] = store ? SL_AT_STORE : SL_AT_HOST;
			tensor_bring(engine, t, 1);
			engine->queue[engine->channel[t]].pages -=
				left *
				channel_cost(p, (enum sl_channel)engine->channel[t], t);
			engine->left[t] -= left;
			engine->lost += p->pages[t];
			demanded += (p->pages[t] - left) * p->in_cost[t];
			if (engine->left[t] <= EPSILON)
				engine_move_done(engine, t);
			else
				engine->missing++;
			continue;
		}
		if (engine->channel[t] == SL_CHANNEL_COUNT && engine->where[t] == SL_AT_DEVICE)
			continue;
		engine->missing++;
		if (engine->channel[t] == SL_CHANNEL_COUNT) {
			tensor_bring(engine, t, 1);
			engine->lost += p->pages[t];
			demanded += p->pages[t] * p->in_cost[t];
		}
	}
	return demanded;
}

/* What a launch that waits now waits for. */
static enum sl_wait
wait_reason(const struct sl_plan_engine *engine)
{
	const struct sl_channel_queue *queue = engine->queue;

	if (engine->used >= engine->problem->device - 1)
		return queue[SL_OUT_HOST].count ? SL_WAIT_LINK_OUT : SL_WAIT_STORE_WRITE;
	if (queue[SL_IN_STORE].count && !queue[SL_IN_HOST].count)
		return SL_WAIT_STORE_READ;
	return SL_WAIT_LINK_IN;
}

void
sl_plan_engine_launch(struct sl_plan_engine *engine, uint32_t launch)
{
	const struct sl_problem *p = engine->problem;
	double computed, demanded = launch_demand(engine, launch);

	engine->start[launch] = engine->now;
	engine->ready = engine->now;
	engine->wait[launch] = SL_WAIT_COUNT;
	/* Faults cost the launch itself the time that their pages take on the link. */
	computed = engine->now + engine->ticks[launch] + demanded / p->in;
	(void)time_pass(engine, computed, 0);
	while (engine->missing) {
		double before = engine->now;
		enum sl_wait reason = wait_reason(engine);
		int moves = time_pass(engine, INFINITY, 1);

		engine->waited[reason] += engine->now - before;
		engine->wait[launch] = (uint8_t)reason;
		if (!moves && !room_force(engine)) {
			engine->stuck_at = launch;
			engine->lost += p->device;
			engine->missing = 0;
		}
	}
	if (engine->ready > engine->now)
		(void)time_pass(engine, engine->ready, 0);
	engine->end[launch] = engine->now;
}
