/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of pages (runs.h). Every change goes through run_detach(): it cuts the first pages
 * of a run off into a run of their own, or extends the run before it when that one is
 * already what the pages are to become, which is the common case of a stream of pages and
 * costs nothing.
 *
 * Running out of memory is remembered in ->failed and reported once by the caller at the
 * end of a step: the hot path has no error to hand on at each page.
 */
#include "sim/runs.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RUNS_MAX (1u << 28)

static uint32_t
run_new(struct sl_runs *runs)
{
	uint32_t run = runs->free_head;

	if (run != SL_RUN_NONE) {
		runs->free_head = runs->runs[run].after;
		return run;
	}
	if (runs->n_runs == runs->max_runs) {
		uint32_t max = runs->max_runs + runs->max_runs / 2 + 1024;
		struct sl_run *more;

		more = max > RUNS_MAX ? NULL : realloc(runs->runs, max * sizeof(*more));
		if (!more) {
			runs->failed = 1;
			return SL_RUN_NONE;
		}
		runs->runs = more;
		runs->max_runs = max;
	}
	return runs->n_runs++;
}

static void
run_free(struct sl_runs *runs, uint32_t run)
{
	runs->runs[run].pages = 0;
	runs->runs[run].after = runs->free_head;
	runs->free_head = run;
}

/* The three orders. */

static void
arrival_append(struct sl_runs *runs, uint32_t run)
{
	struct sl_run *r = &runs->runs[run];

	r->older = runs->arrival.tail;
	r->younger = SL_RUN_NONE;
	if (r->older == SL_RUN_NONE)
		runs->arrival.head = run;
	else
		runs->runs[r->older].younger = run;
	runs->arrival.tail = run;
	if (runs->cursor == SL_RUN_NONE)
		runs->cursor = run;
}

static void
arrival_remove(struct sl_runs *runs, uint32_t run)
{
	struct sl_run *r = &runs->runs[run];

	if (runs->cursor == run)
		runs->cursor = r->younger;
	if (r->older == SL_RUN_NONE)
		runs->arrival.head = r->younger;
	else
		runs->runs[r->older].younger = r->younger;
	if (r->younger == SL_RUN_NONE)
		runs->arrival.tail = r->older;
	else
		runs->runs[r->younger].older = r->older;
}

static void
queue_append(struct sl_runs *runs, uint32_t run, enum sl_queue queue)
{
	struct sl_run_list *list = &runs->queue[queue];
	struct sl_run *r = &runs->runs[run];

	r->queue = (uint8_t)queue;
	r->ahead = list->tail;
	r->behind = SL_RUN_NONE;
	if (r->ahead == SL_RUN_NONE)
		list->head = run;
	else
		runs->runs[r->ahead].behind = run;
	list->tail = run;
}

static void
queue_remove(struct sl_runs *runs, uint32_t run)
{
	struct sl_run *r = &runs->runs[run];
	struct sl_run_list *list = &runs->queue[r->queue];

	if (r->ahead == SL_RUN_NONE)
		list->head = r->behind;
	else
		runs->runs[r->ahead].behind = r->behind;
	if (r->behind == SL_RUN_NONE)
		list->tail = r->ahead;
	else
		runs->runs[r->behind].ahead = r->ahead;
	r->queue = SL_QUEUE_NONE;
}

static void
order_remove(struct sl_runs *runs, uint32_t run)
{
	struct sl_run *r = &runs->runs[run];

	if (r->before == SL_RUN_NONE)
		runs->tensor_first[r->tensor] = r->after;
	else
		runs->runs[r->before].after = r->after;
	if (r->after != SL_RUN_NONE)
		runs->runs[r->after].before = r->before;
}

/* Counts. */

static int
tensor_is_awaited(const struct sl_runs *runs, uint32_t tensor)
{
	return runs->stamp[tensor] == runs->stamp_now;
}

static void
count_queued(struct sl_runs *runs, const struct sl_run *r, uint32_t pages)
{
	runs->tensor_queued[r->tensor] += pages;
	if (r->where == SL_WHERE_DEVICE)
		runs->tensor_ready[r->tensor] -= pages;
	if (tensor_is_awaited(runs, r->tensor))
		runs->awaited += pages;
}

static void
count_unqueued(struct sl_runs *runs, const struct sl_run *r, uint32_t pages)
{
	runs->tensor_queued[r->tensor] -= pages;
	if (r->where == SL_WHERE_DEVICE)
		runs->tensor_ready[r->tensor] += pages;
	if (tensor_is_awaited(runs, r->tensor))
		runs->awaited -= pages;
}

static void
count_where(struct sl_runs *runs, enum sl_where from, enum sl_where to, uint32_t tensor,
	    uint32_t pages)
{
	if (from == SL_WHERE_DEVICE) {
		runs->device_used -= pages;
		runs->tensor_ready[tensor] -= pages;
	} else if (from == SL_WHERE_HOST) {
		runs->host_used -= pages;
	} else if (from == SL_WHERE_STORE) {
		runs->store_used -= pages;
	}
	if (to == SL_WHERE_DEVICE) {
		runs->device_used += pages;
		runs->tensor_ready[tensor] += pages;
	} else if (to == SL_WHERE_HOST) {
		runs->host_used += pages;
	} else if (to == SL_WHERE_STORE) {
		runs->store_used += pages;
	}
}

int
sl_runs_are_alike(const struct sl_runs *runs, uint32_t a, uint32_t b)
{
	const struct sl_run *x = &runs->runs[a], *y = &runs->runs[b];

	if (x->where != y->where || x->queue != y->queue || x->stored != y->stored)
		return 0;
	if (x->where == SL_WHERE_DEVICE && x->younger != b)
		return 0;
	return x->queue == SL_QUEUE_NONE || x->behind == b;
}

/* Join b into a, the run before it. */
static void
run_join(struct sl_runs *runs, uint32_t a, uint32_t b)
{
	struct sl_run *x = &runs->runs[a];
	const struct sl_run *y = &runs->runs[b];

	x->pages += y->pages;
	order_remove(runs, b);
	if (y->queue != SL_QUEUE_NONE)
		queue_remove(runs, b);
	if (y->where == SL_WHERE_DEVICE) {
		if (runs->cursor == b)
			runs->cursor = a;
		arrival_remove(runs, b);
	}
	run_free(runs, b);
}

static void
run_join_around(struct sl_runs *runs, uint32_t run)
{
	uint32_t before = runs->runs[run].before, after = runs->runs[run].after;

	if (after != SL_RUN_NONE && sl_runs_are_alike(runs, run, after))
		run_join(runs, run, after);
	if (before != SL_RUN_NONE && sl_runs_are_alike(runs, before, run))
		run_join(runs, before, run);
}

/*
 * The first pages of run in a run of their own, in no queue and (off the device's list) in
 * no arrival order; returns it. The counts are not touched.
 */
static uint32_t
run_detach(struct sl_runs *runs, uint32_t run, uint32_t pages)
{
	struct sl_run *r = &runs->runs[run], *cut;
	uint32_t made;

	assert(pages && pages <= r->pages);
	if (pages == r->pages) {
		if (r->queue != SL_QUEUE_NONE)
			queue_remove(runs, run);
		if (r->where == SL_WHERE_DEVICE)
			arrival_remove(runs, run);
		return run;
	}
	made = run_new(runs);
	if (made == SL_RUN_NONE)
		return SL_RUN_NONE;
	r = &runs->runs[run];
	cut = &runs->runs[made];
	*cut = (struct sl_run){
		.tensor = r->tensor,
		.first = r->first,
		.pages = pages,
		.before = r->before,
		.after = run,
		.older = SL_RUN_NONE,
		.younger = SL_RUN_NONE,
		.ahead = SL_RUN_NONE,
		.behind = SL_RUN_NONE,
		.where = r->where,
		.queue = SL_QUEUE_NONE,
		.stored = r->stored,
	};
	if (cut->before == SL_RUN_NONE)
		runs->tensor_first[cut->tensor] = made;
	else
		runs->runs[cut->before].after = made;
	r->before = made;
	r->first += pages;
	r->pages -= pages;
	return made;
}

/*
 * The run before takes the first pages of this one, when it already is what they become.
 * Returns whether it could.
 */
static int
run_give_before(struct sl_runs *runs, uint32_t run, uint32_t pages, enum sl_where where,
		int stored)
{
	struct sl_run *r = &runs->runs[run], *before;

	if (r->before == SL_RUN_NONE || pages == r->pages)
		return 0;
	before = &runs->runs[r->before];
	if (before->where != where || before->queue != SL_QUEUE_NONE ||
	    before->stored != stored)
		return 0;
	if (where == SL_WHERE_DEVICE && runs->arrival.tail != r->before)
		return 0;
	before->pages += pages;
	r->first += pages;
	r->pages -= pages;
	return 1;
}

int
sl_runs_init(struct sl_runs *runs, uint32_t n_tensors, const uint32_t *pages)
{
	uint32_t tensor;
	int queue;

	memset(runs, 0, sizeof(*runs));
	runs->free_head = SL_RUN_NONE;
	runs->cursor = SL_RUN_NONE;
	runs->arrival = (struct sl_run_list){SL_RUN_NONE, SL_RUN_NONE};
	for (queue = 0; queue < SL_QUEUE_COUNT; queue++)
		runs->queue[queue] = (struct sl_run_list){SL_RUN_NONE, SL_RUN_NONE};
	runs->n_tensors = n_tensors;
	runs->stamp_now = 1; /* nothing is awaited */
	runs->tensor_first = calloc((size_t)n_tensors + 1, sizeof(*runs->tensor_first));
	runs->tensor_pages = calloc((size_t)n_tensors + 1, sizeof(*runs->tensor_pages));
	runs->tensor_ready = calloc((size_t)n_tensors + 1, sizeof(*runs->tensor_ready));
	runs->tensor_queued = calloc((size_t)n_tensors + 1, sizeof(*runs->tensor_queued));
	runs->stamp = calloc((size_t)n_tensors + 1, sizeof(*runs->stamp));
	if (!runs->tensor_first || !runs->tensor_pages || !runs->tensor_ready ||
	    !runs->tensor_queued || !runs->stamp)
		goto fail;
	for (tensor = 0; tensor < n_tensors; tensor++) {
		uint32_t run = run_new(runs);

		if (run == SL_RUN_NONE)
			goto fail;
		runs->runs[run] = (struct sl_run){
			.tensor = tensor,
			.pages = pages[tensor],
			.before = SL_RUN_NONE,
			.after = SL_RUN_NONE,
			.older = SL_RUN_NONE,
			.younger = SL_RUN_NONE,
			.ahead = SL_RUN_NONE,
			.behind = SL_RUN_NONE,
		};
		runs->tensor_first[tensor] = run;
		runs->tensor_pages[tensor] = pages[tensor];
	}
	return 0;

fail:
	sl_runs_fini(runs);
	return sl_fail(-ENOMEM, "simulator: no memory for %u tensors", n_tensors);
}

void
sl_runs_fini(struct sl_runs *runs)
{
	free(runs->runs);
	free(runs->tensor_first);
	free(runs->tensor_pages);
	free(runs->tensor_ready);
	free(runs->tensor_queued);
	free(runs->stamp);
	memset(runs, 0, sizeof(*runs));
}

void
sl_runs_place(struct sl_runs *runs, uint32_t tensor, enum sl_where where)
{
	struct sl_run *r = &runs->runs[runs->tensor_first[tensor]];

	assert(r->where == SL_WHERE_NOWHERE && r->after == SL_RUN_NONE);
	assert(where == SL_WHERE_HOST || where == SL_WHERE_STORE);
	count_where(runs, SL_WHERE_NOWHERE, where, tensor, r->pages);
	r->where = (uint8_t)where;
}

void
sl_runs_enqueue(struct sl_runs *runs, uint32_t run, enum sl_queue queue)
{
	struct sl_run *r = &runs->runs[run];

	assert(r->queue == SL_QUEUE_NONE && queue != SL_QUEUE_NONE);
	count_queued(runs, r, r->pages);
	queue_append(runs, run, queue);
	if (r->before != SL_RUN_NONE && sl_runs_are_alike(runs, r->before, run))
		run_join(runs, r->before, run);
}

void
sl_runs_arrive(struct sl_runs *runs, uint32_t run, uint32_t pages)
{
	struct sl_run *r = &runs->runs[run];
	int stored = r->stored || (runs->keeps_copies && r->where == SL_WHERE_STORE);
	uint32_t cut;

	assert(r->where != SL_WHERE_DEVICE && r->queue != SL_QUEUE_NONE);
	count_unqueued(runs, r, pages);
	count_where(runs, (enum sl_where)r->where, SL_WHERE_DEVICE, r->tensor, pages);
	if (run_give_before(runs, run, pages, SL_WHERE_DEVICE, stored)) {
		if (runs->cursor == SL_RUN_NONE)
			runs->cursor = runs->arrival.tail;
		return;
	}
	cut = run_detach(runs, run, pages);
	if (cut == SL_RUN_NONE)
		return;
	runs->runs[cut].where = SL_WHERE_DEVICE;
	runs->runs[cut].stored = (uint8_t)stored;
	arrival_append(runs, cut);
	run_join_around(runs, cut);
}

/* The counts and the cut of a leave; returns the run of the pages that left, or NONE when
 * the run before took them. */
static uint32_t
run_leave(struct sl_runs *runs, uint32_t run, uint32_t pages, enum sl_where where)
{
	struct sl_run *r = &runs->runs[run];
	int stored = r->stored && where == SL_WHERE_HOST;
	uint32_t cut;

	assert(r->where == SL_WHERE_DEVICE && where != SL_WHERE_DEVICE);
	if (r->queue != SL_QUEUE_NONE)
		count_unqueued(runs, r, pages);
	count_where(runs, SL_WHERE_DEVICE, where, r->tensor, pages);
	if (run_give_before(runs, run, pages, where, stored))
		return SL_RUN_NONE;
	cut = run_detach(runs, run, pages);
	if (cut != SL_RUN_NONE) {
		runs->runs[cut].where = (uint8_t)where;
		runs->runs[cut].stored = (uint8_t)stored;
	}
	return cut;
}

void
sl_runs_leave(struct sl_runs *runs, uint32_t run, uint32_t pages, enum sl_where where)
{
	uint32_t cut = run_leave(runs, run, pages, where);

	if (cut != SL_RUN_NONE)
		run_join_around(runs, cut);
}

void
sl_runs_bounce(struct sl_runs *runs, uint32_t run, uint32_t pages, enum sl_where where,
	       enum sl_queue queue)
{
	struct sl_run *r = &runs->runs[run];
	int stored = r->stored && where == SL_WHERE_HOST;
	uint32_t cut, before = r->before;

	/* The run before may be in the tail of that very queue: then it just grows. */
	if (before != SL_RUN_NONE && pages < r->pages && runs->runs[before].where == where &&
	    runs->runs[before].queue == queue && runs->queue[queue].tail == before &&
	    r->queue == SL_QUEUE_NONE && runs->runs[before].stored == stored) {
		count_where(runs, SL_WHERE_DEVICE, where, r->tensor, pages);
		runs->runs[before].pages += pages;
		r->first += pages;
		r->pages -= pages;
		count_queued(runs, &runs->runs[before], pages);
		return;
	}
	if (r->queue != SL_QUEUE_NONE)
		count_unqueued(runs, r, pages);
	count_where(runs, SL_WHERE_DEVICE, where, r->tensor, pages);
	cut = run_detach(runs, run, pages);
	if (cut == SL_RUN_NONE)
		return;
	runs->runs[cut].where = (uint8_t)where;
	runs->runs[cut].stored = (uint8_t)stored;
	sl_runs_enqueue(runs, cut, queue);
}

/* Join what has become alike in a whole tensor. */
static void
tensor_join(struct sl_runs *runs, uint32_t tensor)
{
	uint32_t run = runs->tensor_first[tensor];

	while (run != SL_RUN_NONE) {
		uint32_t after = runs->runs[run].after;

		if (after != SL_RUN_NONE && sl_runs_are_alike(runs, run, after))
			run_join(runs, run, after);
		else
			run = after;
	}
}

void
sl_runs_drop(struct sl_runs *runs, uint32_t tensor, enum sl_where spare)
{
	uint32_t run;

	for (run = runs->tensor_first[tensor]; run != SL_RUN_NONE;
	     run = runs->runs[run].after) {
		struct sl_run *r = &runs->runs[run];

		if (r->queue != SL_QUEUE_NONE || r->where == SL_WHERE_NOWHERE ||
		    r->where == spare)
			continue;
		count_where(runs, (enum sl_where)r->where, SL_WHERE_NOWHERE, tensor,
			    r->pages);
		if (r->where == SL_WHERE_DEVICE)
			arrival_remove(runs, run);
		r->where = SL_WHERE_NOWHERE;
		r->stored = 0;
	}
	tensor_join(runs, tensor);
}

void
sl_runs_dirty(struct sl_runs *runs, uint32_t tensor)
{
	uint32_t run;
	int changed = 0;

	for (run = runs->tensor_first[tensor]; run != SL_RUN_NONE;
	     run = runs->runs[run].after) {
		changed |= runs->runs[run].stored;
		runs->runs[run].stored = 0;
	}
	if (changed)
		tensor_join(runs, tensor);
}

void
sl_runs_recall(struct sl_runs *runs, uint32_t tensor)
{
	uint32_t run;
	int changed = 0;

	if (!runs->tensor_queued[tensor])
		return;
	for (run = runs->tensor_first[tensor]; run != SL_RUN_NONE;
	     run = runs->runs[run].after) {
		struct sl_run *r = &runs->runs[run];

		if (r->where != SL_WHERE_DEVICE || r->queue == SL_QUEUE_NONE)
			continue;
		count_unqueued(runs, r, r->pages);
		queue_remove(runs, run);
		changed = 1;
	}
	if (changed)
		tensor_join(runs, tensor);
}

void
sl_runs_refresh(struct sl_runs *runs, uint32_t tensor)
{
	uint32_t run;

	for (run = runs->tensor_first[tensor]; run != SL_RUN_NONE;
	     run = runs->runs[run].after) {
		if (runs->runs[run].where != SL_WHERE_DEVICE || runs->arrival.tail == run)
			continue;
		arrival_remove(runs, run);
		arrival_append(runs, run);
	}
	tensor_join(runs, tensor);
}

void
sl_runs_await(struct sl_runs *runs, const uint32_t *tensors, uint32_t n)
{
	uint32_t i;

	runs->stamp_now++;
	runs->awaited = 0;
	for (i = 0; i < n; i++) {
		runs->stamp[tensors[i]] = runs->stamp_now;
		runs->awaited += runs->tensor_queued[tensors[i]];
	}
}
