/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which gaps to spend outside device memory so that the rest fits.
 *
 * Going through the launches, at each one that is over the limit the gap that ends last is
 * taken: it helps the most later launches for the same bytes, which is optimal paging for
 * tensors that can be divided, and close to it for those that cannot. What is then more than
 * needed is given back, the largest first.
 *
 * A gap helps only while its tensor is really away: from when it can have left until it has
 * to be on its way back. If gaps so shortened cannot do it, whole gaps are taken, and the
 * launch will have to wait for the transfer.
 *
 * Leaves moments and destinations to sluice_schedule.c. Threads: one.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "plan/sluice.h"

/* A stretch of launches [begin, end), not cyclic: a gap around the period's end is two. */
struct cover_span {
	uint32_t begin, end;
	uint32_t last; /* one past the last launch helped, counted on into the next period */
	uint32_t gap;
	double pages; /* of spans that end together the larger tensor goes first */
};

/* Max-heap of spans: latest last, then largest tensor, then lowest gap. */
struct cover_heap {
	const struct cover_span *spans;
	uint32_t *at;
	uint32_t count;
};

struct cover {
	const struct sl_problem *problem;
	struct cover_span *spans; /* sorted by begin */
	uint32_t n_spans, next;
	struct cover_heap heap;
};

static int
span_before(const struct cover_span *a, const struct cover_span *b)
{
	if (a->last != b->last)
		return a->last > b->last;
	if (a->pages > b->pages || a->pages < b->pages)
		return a->pages > b->pages;
	return a->gap < b->gap;
}

static void
heap_push(struct cover_heap *heap, uint32_t span)
{
	uint32_t i = heap->count++;

	while (i) {
		uint32_t up = (i - 1) / 2;

		if (!span_before(&heap->spans[span], &heap->spans[heap->at[up]]))
			break;
		heap->at[i] = heap->at[up];
		i = up;
	}
	heap->at[i] = span;
}

static void
heap_pop(struct cover_heap *heap)
{
	uint32_t last = heap->at[--heap->count], i = 0;

	for (;;) {
		uint32_t down = 2 * i + 1;

		if (down >= heap->count)
			break;
		if (down + 1 < heap->count && span_before(&heap->spans[heap->at[down + 1]],
							  &heap->spans[heap->at[down]]))
			down++;
		if (!span_before(&heap->spans[heap->at[down]], &heap->spans[last]))
			break;
		heap->at[i] = heap->at[down];
		i = down;
	}
	heap->at[i] = last;
}

static int
span_compare(const void *a, const void *b)
{
	const struct cover_span *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->gap < y->gap ? -1 : x->gap > y->gap;
}

/* First launch that starts at or after `when`; n if none. */
static uint32_t
cover_launch_at(const double *times, uint32_t n, double when)
{
	uint32_t low = 0, high = n;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (times[middle] < when)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A launch that gap_helps() gave, in this period. */
static uint32_t
launch_wrap(uint32_t k, uint32_t n)
{
	return k < n ? k : k - n;
}

/*
 * The launches a gap helps, [*begin, *end) with begin < n and end up to 2n. slow == 0: all of
 * them. Empty if the transfers take longer than the gap.
 */
static void
gap_helps(const struct sl_problem *p, const struct sl_gap *gap, double slow,
	  const double *times, uint32_t *begin, uint32_t *end)
{
	uint32_t n = p->n, last = gap->begin + gap->length;
	double pages = p->pages[gap->tensor], period = times[n];
	double out, back;

	*begin = gap->begin;
	*end = last;
	if (slow <= 0)
		return;
	out = times[gap->begin] + slow * pages * p->out_cost[gap->tensor] / p->out;
	back = times[last % n] + (last >= n ? period : 0) -
	       slow * pages * p->in_cost[gap->tensor] / p->in;
	if (back <= out) {
		*end = *begin;
		return;
	}
	*begin = out < period ? cover_launch_at(times, n, out)
			      : n + cover_launch_at(times, n, out - period);
	/* The launch during which it comes back does not have the room any more. */
	*end = back < period ? cover_launch_at(times, n, back)
			     : n + cover_launch_at(times, n, back - period);
	if (*end > *begin)
		(*end)--;
}

static void
span_add(struct cover *cover, uint32_t gap, uint32_t begin, uint32_t end, uint32_t last)
{
	const struct sl_problem *p = cover->problem;
	double pages = p->pages[p->gaps[gap].tensor];

	if (begin >= end)
		return;
	cover->spans[cover->n_spans++] = (struct cover_span){begin, end, last, gap, pages};
}

/* Spans of all gaps with contents, each gap as one stretch or two. */
static void
cover_spans(struct cover *cover, double slow, const double *times)
{
	const struct sl_problem *p = cover->problem;
	uint32_t n = p->n;

	cover->n_spans = 0;
	for (uint32_t g = 0; g < p->n_gaps; g++) {
		const struct sl_gap *gap = &p->gaps[g];
		uint32_t begin, end;

		if (gap->dead)
			continue;
		gap_helps(p, gap, slow, times, &begin, &end);
		if (begin >= end)
			continue;
		if (begin >= n) {
			span_add(cover, g, begin - n, end - n, end - n);
		} else if (end > n) {
			span_add(cover, g, begin, n, end);
			span_add(cover, g, 0, end - n, end - n);
		} else {
			span_add(cover, g, begin, end, end);
		}
	}
	qsort(cover->spans, cover->n_spans, sizeof(*cover->spans), span_compare);
	cover->next = 0;
	cover->heap.spans = cover->spans;
	cover->heap.count = 0;
}

/* Spend a gap outside: `there` is what stays, by launch. */
static void
gap_take(const struct sl_problem *p, uint32_t g, double *there, double sign)
{
	const struct sl_gap *gap = &p->gaps[g];
	double pages = sign * p->pages[gap->tensor];

	for (uint32_t i = 0, k = gap->begin; i < gap->length; i++) {
		there[k] -= pages;
		if (++k == p->n)
			k = 0;
	}
}

/* One way through the launches. counted: what stays, counting gaps as far as they help. */
static void
cover_pass(struct cover *cover, double limit, double slow, const double *times,
	   double *counted, uint8_t *fate)
{
	const struct sl_problem *p = cover->problem;
	uint32_t n = p->n;

	cover_spans(cover, slow, times);
	for (uint32_t k = 0; k < n; k++) {
		double bound = sl_max(limit, p->active[k]);

		while (cover->next < cover->n_spans && cover->spans[cover->next].begin == k) {
			uint32_t span = cover->next++;

			if (fate[cover->spans[span].gap] == SL_FATE_KEEP)
				heap_push(&cover->heap, span);
		}
		while (counted[k] > bound && cover->heap.count) {
			const struct cover_span *span = &cover->spans[cover->heap.at[0]];
			uint32_t begin, end, g = span->gap;

			heap_pop(&cover->heap);
			if (span->end <= k || fate[g] != SL_FATE_KEEP)
				continue;
			fate[g] = SL_FATE_OUT;
			gap_helps(p, &p->gaps[g], slow, times, &begin, &end);
			for (uint32_t i = begin; i < end; i++)
				counted[launch_wrap(i, n)] -= p->pages[p->gaps[g].tensor];
		}
	}
}

struct cover_size {
	double pages;
	uint32_t gap;
};

static int
size_compare(const void *a, const void *b)
{
	const struct cover_size *x = a, *y = b;

	if (x->pages > y->pages || x->pages < y->pages)
		return x->pages > y->pages ? -1 : 1;
	return x->gap < y->gap ? -1 : x->gap > y->gap;
}

/* Keep what need not go after all. */
static void
cover_trim(const struct sl_problem *p, double limit, double slow, const double *times,
	   double *counted, struct cover_size *sizes, uint8_t *fate)
{
	uint32_t count = 0, n = p->n;

	for (uint32_t g = 0; g < p->n_gaps; g++)
		if (fate[g] == SL_FATE_OUT)
			sizes[count++] = (struct cover_size){p->pages[p->gaps[g].tensor], g};
	qsort(sizes, count, sizeof(*sizes), size_compare);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t g = sizes[i].gap, begin, end, k;

		gap_helps(p, &p->gaps[g], slow, times, &begin, &end);
		for (k = begin; k < end; k++)
			if (counted[launch_wrap(k, n)] + sizes[i].pages >
			    sl_max(limit, p->active[launch_wrap(k, n)]))
				break;
		if (k < end)
			continue;
		fate[g] = SL_FATE_KEEP;
		for (k = begin; k < end; k++)
			counted[launch_wrap(k, n)] += sizes[i].pages;
	}
}

int
sl_cover(const struct sl_problem *problem, double limit, double slow, const double *times,
	 uint8_t *fate)
{
	size_t gaps = (size_t)problem->n_gaps + 1;
	SL_CLEANUP(free) struct cover_span *spans = malloc(2 * gaps * sizeof(*spans));
	SL_CLEANUP(free) uint32_t *heap = malloc(2 * gaps * sizeof(*heap));
	SL_CLEANUP(free) double *counted = malloc(problem->n * sizeof(*counted));
	SL_CLEANUP(free) struct cover_size *sizes = malloc(gaps * sizeof(*sizes));
	struct cover cover = {.problem = problem, .spans = spans, .heap = {.at = heap}};

	if (!spans || !heap || !counted || !sizes)
		return sl_fail(-ENOMEM, "plan: no memory for %u gaps", problem->n_gaps);
	memset(fate, SL_FATE_KEEP, problem->n_gaps);
	memcpy(counted, problem->base, problem->n * sizeof(*counted));
	if (slow > 0) {
		cover_pass(&cover, limit, slow, times, counted, fate);
		cover_trim(problem, limit, slow, times, counted, sizes, fate);
	}
	/* What is still over the limit has to fit at least while nothing is on the way. */
	memcpy(counted, problem->base, problem->n * sizeof(*counted));
	for (uint32_t g = 0; g < problem->n_gaps; g++)
		if (fate[g] == SL_FATE_OUT)
			gap_take(problem, g, counted, 1);
	cover_pass(&cover, limit, 0, times, counted, fate);
	if (slow <= 0)
		cover_trim(problem, limit, 0, times, counted, sizes, fate);
	return 0;
}
