/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of nodes: random graphs without circles, each edge kept, the lowest number first where
 * edges allow it; circles, and edges to nowhere.
 */
#include <errno.h>

#include "base/rng.h"
#include "unit/cmocka_all.h"

/* Not in the library that unit tests are linked with. */
#include "preload/graph/graph_order.c" /* NOLINT(bugprone-suspicious-include) */

#define NODES_MAX 40u
#define EDGES_MAX 200u
#define ROUNDS    2000u

/* The slow way: of all that may be next, the lowest. */
static void
order_slowly(const struct pl_graph_edge *edges, size_t n_edges, size_t n, size_t *order)
{
	int done[NODES_MAX] = {0};

	for (size_t at = 0; at < n; at++)
		for (size_t node = 0; node < n; node++) {
			int free = !done[node];

			for (size_t e = 0; e < n_edges; e++)
				free &= edges[e].to != node || done[edges[e].from];
			if (free) {
				done[node] = 1;
				order[at] = node;
				break;
			}
		}
}

static void
random_rows_are_those_of_the_slow_way(void **state)
{
	struct pl_graph_edge edges[EDGES_MAX];
	size_t order[NODES_MAX], slow[NODES_MAX], place[NODES_MAX] = {0};
	struct sl_rng rng;

	(void)state;
	sl_rng_init(&rng, 1);
	for (unsigned round = 0; round < ROUNDS; round++) {
		size_t n = 1 + sl_rng_below(&rng, NODES_MAX);
		size_t n_edges = n > 1 ? sl_rng_below(&rng, EDGES_MAX) : 0;

		/* A shuffled order that the edges agree with. */
		for (size_t i = 0; i < n; i++)
			place[i] = i;
		for (size_t i = n - 1; i; i--) {
			size_t with = sl_rng_below(&rng, i + 1), other = place[i];

			place[i] = place[with];
			place[with] = other;
		}
		for (size_t e = 0; e < n_edges; e++) {
			size_t from = sl_rng_below(&rng, n - 1);

			edges[e].from = place[from];
			edges[e].to = place[from + 1 + sl_rng_below(&rng, n - from - 1)];
		}
		order_slowly(edges, n_edges, n, slow);
		assert_int_equal(pl_graph_order(edges, n_edges, n, order), 0);
		assert_memory_equal(order, slow, n * sizeof(*order));
	}
}

static void
what_has_no_row_is_refused(void **state)
{
	struct pl_graph_edge circle[] = {{0, 1}, {1, 2}, {2, 1}}, self[] = {{1, 1}};
	struct pl_graph_edge nowhere[] = {{0, 3}};
	size_t order[3];

	(void)state;
	assert_int_equal(pl_graph_order(circle, 3, 3, order), -EINVAL);
	assert_int_equal(pl_graph_order(self, 1, 3, order), -EINVAL);
	assert_int_equal(pl_graph_order(nowhere, 1, 3, order), -EINVAL);
	assert_int_equal(pl_graph_order(circle, 0, 0, order), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_rows_are_those_of_the_slow_way),
		cmocka_unit_test(what_has_no_row_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
