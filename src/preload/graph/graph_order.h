/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of nodes that keeps all dependencies (graph_order.c). It knows no driver.
 */
#ifndef SL_PRELOAD_GRAPH_ORDER_H
#define SL_PRELOAD_GRAPH_ORDER_H

#include <stddef.h>

struct pl_graph_edge {
	size_t from, to; /* numbers of nodes, from 0 */
};

/*
 * Fill order, of n, with the numbers of n nodes. Of the nodes whose predecessors are all in the row
 * the one with the lowest number is next: the order in which the program made them, where that is
 * possible. edges is sorted anew. 0; -ENOMEM; -EINVAL: the edges have a circle, or name no node.
 */
int pl_graph_order(struct pl_graph_edge *edges, size_t n_edges, size_t n, size_t *order);

#endif
