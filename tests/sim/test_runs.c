/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of pages against a model that has one entry for every page: after each random move the
 * runs are sound, and say the same of every page, of the order of arrival and of the queues.
 */
#include "sim_test.h"

#include "sim/runs.h"

#define TENSORS   5
#define PAGES_MAX 12
#define MOVES     20000

struct page {
	uint32_t tensor, number;
	enum sl_where where;
	enum sl_queue queue;
	uint64_t arrived, queued; /* stamps */
};

static struct page model[TENSORS * PAGES_MAX];
static uint32_t tensor_pages[TENSORS];
static uint64_t stamp;

static struct page *
page_at(uint32_t tensor, uint32_t number)
{
	return &model[tensor * PAGES_MAX + number];
}

static void
order_check(const struct sl_runs *runs, int queue)
{
	uint32_t run = queue ? runs->queue[queue].head : runs->arrival.head, i, n = 0,
		 in_model = 0;
	uint64_t last = 0;

	while (run != SL_RUN_NONE) {
		const struct sl_run *r = &runs->runs[run];

		for (i = r->first; i < r->first + r->pages; i++, n++) {
			const struct page *page = page_at(r->tensor, i);
			uint64_t at = queue ? page->queued : page->arrived;

			CHECK(at > last);
			last = at;
		}
		run = queue ? r->behind : r->younger;
	}
	for (i = 0; i < TENSORS * PAGES_MAX; i++)
		in_model += queue ? model[i].queue == (enum sl_queue)queue
				  : model[i].where == SL_WHERE_DEVICE;
	CHECK_EQ(n, in_model);
}

static int
list_check(const struct sl_runs *runs, const struct sl_run_list *list, int queue)
{
	uint32_t run, last = SL_RUN_NONE, n = 0;

	for (run = list->head; run != SL_RUN_NONE;) {
		const struct sl_run *r = &runs->runs[run];

		if (++n > runs->n_runs)
			return sl_fail(-EINVAL, "runs: list %d goes round", queue);
		if (queue ? r->queue != queue : r->where != SL_WHERE_DEVICE)
			return sl_fail(-EINVAL, "runs: run %u is in list %d, but not of it",
				       run, queue);
		if ((queue ? r->ahead : r->older) != last)
			return sl_fail(-EINVAL, "runs: list %d: run %u links back wrong",
				       queue, run);
		last = run;
		run = queue ? r->behind : r->younger;
	}
	if (list->tail != last)
		return sl_fail(-EINVAL, "runs: list %d: its tail is not its end", queue);
	return 0;
}

static int
tensor_check(const struct sl_runs *runs, uint32_t tensor, uint64_t used[SL_WHERE_COUNT])
{
	uint32_t run, last = SL_RUN_NONE, next_page = 0, ready = 0, queued = 0;

	for (run = runs->tensor_first[tensor]; run != SL_RUN_NONE;
	     run = runs->runs[run].after) {
		const struct sl_run *r = &runs->runs[run];

		if (r->tensor != tensor || r->before != last || r->first != next_page ||
		    !r->pages)
			return sl_fail(-EINVAL, "runs: tensor %u is not covered at page %u",
				       tensor, next_page);
		/* In a list, two may have become neighbours when what was between them left. */
		if (last != SL_RUN_NONE && r->queue == SL_QUEUE_NONE &&
		    r->where != SL_WHERE_DEVICE && sl_runs_are_alike(runs, last, run))
			return sl_fail(-EINVAL,
				       "runs: tensor %u: two runs at page %u are one",
				       tensor, next_page);
		next_page += r->pages;
		last = run;
		if (r->queue != SL_QUEUE_NONE)
			queued += r->pages;
		else if (r->where == SL_WHERE_DEVICE)
			ready += r->pages;
		used[r->where] += r->pages;
	}
	if (next_page != runs->tensor_pages[tensor] ||
	    ready != runs->tensor_ready[tensor] || queued != runs->tensor_queued[tensor])
		return sl_fail(-EINVAL, "runs: tensor %u: counts are wrong", tensor);
	return 0;
}

static int
runs_check(const struct sl_runs *runs)
{
	uint64_t used[SL_WHERE_COUNT] = {0}, awaited = 0;
	uint32_t tensor;
	int queue, rc;

	rc = list_check(runs, &runs->arrival, 0);
	for (queue = 1; queue < SL_QUEUE_COUNT && !rc; queue++)
		rc = list_check(runs, &runs->queue[queue], queue);
	for (tensor = 0; tensor < runs->n_tensors && !rc; tensor++) {
		rc = tensor_check(runs, tensor, used);
		if (runs->stamp[tensor] == runs->stamp_now)
			awaited += runs->tensor_queued[tensor];
	}
	if (rc)
		return rc;
	if (used[SL_WHERE_DEVICE] != runs->device_used ||
	    used[SL_WHERE_HOST] != runs->host_used ||
	    used[SL_WHERE_STORE] != runs->store_used || awaited != runs->awaited)
		return sl_fail(-EINVAL, "runs: totals are wrong");
	return 0;
}

static void
model_check(const struct sl_runs *runs)
{
	uint32_t tensor, run, i;
	int queue;

	CHECK(!runs_check(runs));
	for (tensor = 0; tensor < TENSORS; tensor++)
		for (run = runs->tensor_first[tensor]; run != SL_RUN_NONE;
		     run = runs->runs[run].after)
			for (i = 0; i < runs->runs[run].pages; i++) {
				const struct page *page = page_at(tensor,
								  runs->runs[run].first + i);

				CHECK_EQ(page->where, runs->runs[run].where);
				CHECK_EQ(page->queue, runs->runs[run].queue);
			}
	for (queue = 0; queue < SL_QUEUE_COUNT; queue++)
		order_check(runs, queue);
}

/* Any run of the tensor. */
static uint32_t
run_any(const struct sl_runs *runs, struct sl_rng *rng, uint32_t tensor)
{
	uint32_t run, page = (uint32_t)sl_rng_below(rng, tensor_pages[tensor]);

	for (run = runs->tensor_first[tensor];; run = runs->runs[run].after)
		if (page < runs->runs[run].first + runs->runs[run].pages)
			return run;
}

static void
pages_become(const struct sl_run *r, uint32_t pages, enum sl_where where, enum sl_queue queue)
{
	uint32_t i;

	for (i = r->first; i < r->first + pages; i++) {
		struct page *page = page_at(r->tensor, i);

		if (where == SL_WHERE_DEVICE && page->where != where)
			page->arrived = ++stamp;
		if (queue != SL_QUEUE_NONE && page->queue != queue)
			page->queued = ++stamp;
		page->where = where;
		page->queue = queue;
	}
}

static enum sl_queue
queue_for(struct sl_rng *rng, enum sl_where where)
{
	int ahead = (int)sl_rng_below(rng, 2);

	switch (where) {
	case SL_WHERE_NOWHERE:
		return ahead ? SL_QUEUE_ALLOC : SL_QUEUE_FAULT_ALLOC;
	case SL_WHERE_HOST:
		return ahead ? SL_QUEUE_FETCH_HOST : SL_QUEUE_FAULT_HOST;
	case SL_WHERE_STORE:
		return ahead ? SL_QUEUE_FETCH_STORE : SL_QUEUE_FAULT_STORE;
	case SL_WHERE_DEVICE:
	case SL_WHERE_COUNT:
		break;
	}
	return ahead ? SL_QUEUE_EVICT_HOST : SL_QUEUE_EVICT_STORE;
}

static void
tensor_refresh(struct sl_runs *runs, uint32_t tensor)
{
	uint32_t i;

	for (i = 0; i < tensor_pages[tensor]; i++)
		if (page_at(tensor, i)->where == SL_WHERE_DEVICE)
			page_at(tensor, i)->arrived = ++stamp;
	sl_runs_refresh(runs, tensor);
}

static void
move_one(struct sl_runs *runs, struct sl_rng *rng)
{
	uint32_t tensor = (uint32_t)sl_rng_below(rng, TENSORS), run, n, i;
	enum sl_where where = (enum sl_where)sl_rng_below(rng, SL_WHERE_COUNT);
	struct sl_run r;

	run = run_any(runs, rng, tensor);
	r = runs->runs[run];
	n = 1 + (uint32_t)sl_rng_below(rng, r.pages);
	if (!sl_rng_below(rng, 12)) {
		sl_runs_drop(runs, tensor, SL_WHERE_NOWHERE);
		for (i = 0; i < tensor_pages[tensor]; i++)
			if (page_at(tensor, i)->queue == SL_QUEUE_NONE)
				page_at(tensor, i)->where = SL_WHERE_NOWHERE;
		return;
	}
	if (!sl_rng_below(rng, 12)) {
		tensor_refresh(runs, tensor);
		return;
	}
	if (!sl_rng_below(rng, 12)) {
		sl_runs_await(runs, &tensor, 1);
		return;
	}
	if (!sl_rng_below(rng, 12)) {
		sl_runs_dirty(runs, tensor);
		return;
	}
	if (r.queue == SL_QUEUE_NONE && sl_rng_below(rng, 2)) {
		enum sl_queue queue = queue_for(rng, (enum sl_where)r.where);

		pages_become(&r, r.pages, (enum sl_where)r.where, queue);
		sl_runs_enqueue(runs, run, queue);
	} else if (r.where != SL_WHERE_DEVICE && r.queue != SL_QUEUE_NONE) {
		pages_become(&r, n, SL_WHERE_DEVICE, SL_QUEUE_NONE);
		sl_runs_arrive(runs, run, n);
	} else if (r.where == SL_WHERE_DEVICE && where != SL_WHERE_DEVICE) {
		if (r.queue == SL_QUEUE_NONE && where != SL_WHERE_NOWHERE &&
		    sl_rng_below(rng, 2)) {
			enum sl_queue queue = where == SL_WHERE_HOST ? SL_QUEUE_FAULT_HOST
								     : SL_QUEUE_FAULT_STORE;

			pages_become(&r, n, where, queue);
			sl_runs_bounce(runs, run, n, where, queue);
		} else {
			pages_become(&r, n, where, SL_QUEUE_NONE);
			sl_runs_leave(runs, run, n, where);
		}
	}
}

static void
random_moves_agree_with_a_model_of_pages(uint64_t seed, int keeps_copies)
{
	struct sl_runs runs;
	struct sl_rng rng;
	uint32_t i, k;

	sl_rng_init(&rng, seed);
	memset(model, 0, sizeof(model));
	stamp = 0;
	for (i = 0; i < TENSORS; i++)
		tensor_pages[i] = 1 + (uint32_t)sl_rng_below(&rng, PAGES_MAX);
	CHECK(!sl_runs_init(&runs, TENSORS, tensor_pages));
	runs.keeps_copies = keeps_copies;
	sl_runs_place(&runs, 0, SL_WHERE_STORE);
	for (k = 0; k < tensor_pages[0]; k++)
		page_at(0, k)->where = SL_WHERE_STORE;
	for (i = 0; i < MOVES; i++) {
		move_one(&runs, &rng);
		model_check(&runs);
	}
	/* Runs are joined again: no more than there are pages, ever. */
	CHECK(runs.n_runs <= TENSORS * PAGES_MAX + 1);
	sl_runs_fini(&runs);
}

int
main(void)
{
	uint64_t seed;

	for (seed = 1; seed <= 4; seed++) {
		printf("seed %" PRIu64 "\n", seed);
		random_moves_agree_with_a_model_of_pages(seed, 0);
		random_moves_agree_with_a_model_of_pages(seed, 1);
	}
	return 0;
}
