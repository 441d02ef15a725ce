/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of a graph's nodes: graph_nodes.c reads them from the driver. graph_exec.h has what is
 * kept of each executable graph.
 */
#ifndef SL_PRELOAD_GRAPHS_H
#define SL_PRELOAD_GRAPHS_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/api/api_graph.h"
#include "preload/calls/touch.h"

enum pl_graph_how {
	PL_GRAPH_NAMED, /* an argument of a kernel: the whole block that holds addr, and its tables */
	PL_GRAPH_RANGE, /* a copy or a fill */
	PL_GRAPH_POLLED /* stream memory operations: the block must stay on the device */
};

struct pl_graph_use {
	uint64_t addr, bytes; /* bytes: of ranges */
	enum pl_graph_how how;
	enum sluice_intent intent;
};

/* One node; of kernels also which, since what is known of it may change. */
struct pl_graph_node {
	struct cu_graph_node *node; /* NULL: nobody can name it */
	void *function;             /* NULL: no kernel */
	int all;                    /* what it touches is not known */
	int uncut; /* its graph cannot be run in pieces: conditional, memory, changed by kernels */
	int disabled;   /* in the executable graph: it does nothing */
	uint32_t piece; /* graph_cut.c: that runs it */
	size_t n_at;    /* of uses, the first: arguments as they were given, for peeks */
	size_t n;
	struct pl_graph_use *uses; /* malloc'ed */
};

#define PL_GRAPH_NONE SIZE_MAX

/* A graph, or one that is inside of another. Its nodes follow each other, in the driver's order. */
struct pl_graph_level {
	struct cu_graph *graph;
	size_t first, n;
	size_t parent; /* node that it is inside of; PL_GRAPH_NONE */
	size_t up;     /* level of that node */
};

struct pl_graph_nodes {
	struct pl_graph_node *at; /* malloc'ed */
	size_t n, size;
	struct pl_graph_level *levels; /* malloc'ed; of what was read first, each behind its parent */
	size_t n_levels;
	int all; /* of nodes that could not be read or kept */
};

void pl_graph_nodes_fini(struct pl_graph_nodes *nodes);
/* The entry of a node, emptied, or a new one. NULL: no memory, and nodes->all is set. */
struct pl_graph_node *pl_graph_node_put(struct pl_graph_nodes *nodes,
					struct cu_graph_node *node);
/* Read a graph with all that are inside of it. One that is read behind another adds nodes without handles, and no
 * levels: the program may destroy it. Driver calls that enqueue nothing. */
void pl_graph_nodes_read(struct pl_graph_nodes *nodes, struct cu_graph *graph);

/* The number of a node's entry; PL_GRAPH_NONE. */
size_t pl_graph_nodes_find(const struct pl_graph_nodes *nodes,
			   const struct cu_graph_node *node);
/* The graph inside of the node of that number; NULL: there is none. */
const struct pl_graph_level *pl_graph_nodes_inside(const struct pl_graph_nodes *nodes,
						   size_t number);
/* It has been exchanged for another one of the same shape. false: it has another number of nodes, or graphs
 * inside: then its nodes are to be added. */
bool pl_graph_nodes_exchange(struct pl_graph_nodes *nodes, size_t number,
			     struct cu_graph *graph);

/* ---- graph_place.c ---- */

/* The driver looks at the addresses of copies and fills when their node is made or changed: what they name is
 * there for that call. */
struct pl_graph_place {
	struct pl_touch touch;
	struct pl_use uses[2];
	struct cu_copy_3d copy; /* what the driver is to be given */
};

/* Before the call; params are of the node, NULL where it is none of that type. CUresult; after an error the
 * call is not made. again: the call returned result: 1, make it once more. end: in any case. */
int pl_graph_place_begin(struct pl_graph_place *place, const struct cu_copy_3d *copy,
			 const struct cu_memset_node *fill);
bool pl_graph_place_again(struct pl_graph_place *place, int result);
void pl_graph_place_end(struct pl_graph_place *place);

/* The same of any node: what is inside of params is exchanged for the call, and put back at the end. */
struct pl_node_place {
	struct pl_graph_place place;
	struct cu_node_params *params;
	struct cu_copy_3d original;
};

int pl_node_place_begin(struct pl_node_place *place, struct cu_node_params *params);
void pl_node_place_end(struct pl_node_place *place);

/* ---- graph_nodes.c ---- */

/* One node's parameters, as they have been set. Of types without our memory: nothing. */
void pl_graph_node_params(struct pl_graph_node *node, const struct cu_node_params *params);

#endif
