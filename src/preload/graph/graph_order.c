/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Topological order by counting predecessors (A. B. Kahn, 1962). A heap holds the nodes that may
 * come next, the lowest number first.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fault_point.h"
#include "preload/graph/graph_order.h"

static int
compare_edges(const void *a, const void *b)
{
	const struct pl_graph_edge *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return x->to < y->to ? -1 : x->to > y->to;
}

static void
heap_put(size_t *heap, size_t *n, size_t node)
{
	size_t at = (*n)++;

	while (at && heap[(at - 1) / 2] > node) {
		heap[at] = heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	heap[at] = node;
}

static size_t
heap_take(size_t *heap, size_t *n)
{
	size_t first = heap[0], last = heap[--*n], at = 0, child;

	while ((child = 2 * at + 1) < *n) {
		if (child + 1 < *n && heap[child + 1] < heap[child])
			child++;
		if (heap[child] >= last)
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = last;
	return first;
}

int
pl_graph_order(struct pl_graph_edge *edges, size_t n_edges, size_t n, size_t *order)
{
	/* Of each node: its first edge, how many predecessors are not in the row. */
	SL_CLEANUP(free) size_t *first = sl_calloc(n + 2, sizeof(*first));
	SL_CLEANUP(free) size_t *missing = sl_calloc(n + 1, sizeof(*missing));
	SL_CLEANUP(free) size_t *heap = sl_calloc(n + 1, sizeof(*heap));
	size_t n_heap = 0, done = 0;

	if (!first || !missing || !heap)
		return -ENOMEM;
	for (size_t i = 0; i < n_edges; i++) {
		if (edges[i].from >= n || edges[i].to >= n)
			return -EINVAL;
		first[edges[i].from + 1]++;
		missing[edges[i].to]++;
	}
	for (size_t i = 0; i < n; i++)
		first[i + 1] += first[i];
	qsort(edges, n_edges, sizeof(*edges), compare_edges);
	for (size_t i = 0; i < n; i++)
		if (!missing[i])
			heap_put(heap, &n_heap, i);
	while (n_heap) {
		size_t node = heap_take(heap, &n_heap);

		order[done++] = node;
		for (size_t e = first[node]; e < first[node + 1]; e++)
			if (!--missing[edges[e].to])
				heap_put(heap, &n_heap, edges[e].to);
	}
	return done == n ? 0 : -EINVAL;
}
