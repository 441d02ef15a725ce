/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the data of a graph's nodes from the driver: the arguments of kernels as of launches
 * (launch.c), the ranges of copies and fills, the words of stream memory operations. Host
 * functions, events and semaphores use none of our memory, and the addresses of memory nodes are
 * the driver's. A graph inside of another is read with it. Conditional nodes, and nodes that a
 * running kernel may change, may use anything.
 *
 * Order is not known. A graph that reads data and then overwrites them looks like one that first
 * overwrites them. So fills and copies count as writes that leave other bytes as they are.
 *
 * Threads: any, one at a time for an object.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fault_point.h"
#include "preload/args/functions.h"
#include "preload/calls/touch.h"
#include "preload/graph/graphs.h"
#include "preload/preload.h"
#include "preload/scope.h"
#include "sluice/sluice.h"

#define INSIDE_MAX 256u       /* graphs inside of graphs that are read; more: all */
#define NODES_MAX  (1u << 20) /* that are kept of a graph; more: all */

void
pl_graph_nodes_fini(struct pl_graph_nodes *nodes)
{
	for (size_t i = 0; i < nodes->n; i++)
		free(nodes->at[i].uses);
	free(nodes->at);
	free(nodes->levels);
	*nodes = (struct pl_graph_nodes){0};
}

/* NULL: no memory, and nodes->all is set. */
static struct pl_graph_node *
node_new(struct pl_graph_nodes *nodes)
{
	if (nodes->n == nodes->size) {
		size_t size = nodes->size ? 2 * nodes->size : 32;
		struct pl_graph_node *more = size <= NODES_MAX
						     ? sl_realloc(nodes->at,
								  size * sizeof(*more))
						     : NULL;

		if (!more) {
			nodes->all = 1;
			return NULL;
		}
		nodes->at = more;
		nodes->size = size;
	}
	nodes->at[nodes->n] = (struct pl_graph_node){.node = NULL};
	return &nodes->at[nodes->n++];
}

size_t
pl_graph_nodes_find(const struct pl_graph_nodes *nodes, const struct cu_graph_node *node)
{
	for (size_t i = 0; i < nodes->n; i++)
		if (nodes->at[i].node == node)
			return i;
	return PL_GRAPH_NONE;
}

struct pl_graph_node *
pl_graph_node_put(struct pl_graph_nodes *nodes, struct cu_graph_node *node)
{
	size_t number = pl_graph_nodes_find(nodes, node);
	struct pl_graph_node *at = number == PL_GRAPH_NONE ? node_new(nodes)
							   : &nodes->at[number];

	if (!at)
		return NULL;
	free(at->uses);
	/* Changing what a node does does not switch it on, or move it. */
	*at = (struct pl_graph_node){.node = node, .piece = at->piece, .disabled = at->disabled};
	return at;
}

/* Take over what was found. */
static void
node_keep(struct pl_graph_node *node, const struct pl_use *uses, size_t n,
	  enum pl_graph_how how)
{
	struct pl_graph_use *more;

	if (!n)
		return;
	more = sl_realloc(node->uses, (node->n + n) * sizeof(*more));
	if (!more) {
		node->all = 1;
		return;
	}
	node->uses = more;
	for (size_t i = 0; i < n; i++)
		node->uses[node->n++] = (struct pl_graph_use){uses[i].addr, uses[i].bytes,
							      how, uses[i].intent};
}

/* The arguments themselves: they may lie in the middle of what they name. */
static void
words_keep(struct pl_graph_node *node, const uint64_t *at, size_t n)
{
	struct pl_use uses[PL_WORDS_MAX];

	for (size_t i = 0; i < n; i++)
		uses[i] = (struct pl_use){.addr = at[i], .intent = SLUICE_USE_READ_WRITE};
	node_keep(node, uses, n, PL_GRAPH_NAMED);
	node->n_at = node->n;
}

static void
node_kernel(struct pl_graph_node *node, const struct cu_kernel_node *params)
{
	struct pl_use uses[PL_USES_MAX];
	uint64_t at[PL_WORDS_MAX];
	unsigned flags = 0;
	size_t n, n_at;

	node->function = params->function ? params->function : (void *)params->kernel;
	if (!node->function) {
		node->all = 1;
		return;
	}
	n = pl_launch_look(node->function, params->params, params->extra, uses, &flags,
			   at, &n_at);
	words_keep(node, at, n_at);
	node_keep(node, uses, n, PL_GRAPH_NAMED);
	if (n == PL_USES_MAX)
		node->all = 1;
}

static void
node_copy(struct pl_graph_node *node, const struct cu_copy_3d *copy)
{
	struct pl_use uses[2];
	size_t n = pl_box_uses(copy, uses);

	for (size_t i = 0; i < n; i++)
		if (uses[i].intent != SLUICE_USE_READ)
			uses[i].intent = SLUICE_USE_WRITE;
	node_keep(node, uses, n, PL_GRAPH_RANGE);
}

static void
node_fill(struct pl_graph_node *node, const struct cu_memset_node *params)
{
	const struct pl_side side = {.addr = params->addr, .pitch = params->pitch};
	struct pl_use use;

	if (pl_use_of(params->addr,
		      pl_box_bytes(&side, params->width * params->element_bytes,
				   params->height, 1),
		      SLUICE_USE_WRITE, &use))
		node_keep(node, &use, 1, PL_GRAPH_RANGE);
}

static void
node_memops(struct pl_graph_node *node, const struct cu_batch_node *params)
{
	for (unsigned i = 0; i < params->n; i++) {
		int type = params->ops[i].type;
		struct pl_use use;

		if (type != CU_MEMOP_WAIT_32 && type != CU_MEMOP_WRITE_32 &&
		    type != CU_MEMOP_WAIT_64 && type != CU_MEMOP_WRITE_64)
			continue;
		if (pl_use_of(params->ops[i].addr, sizeof(uint64_t),
			      SLUICE_USE_READ_WRITE, &use))
			node_keep(node, &use, 1, PL_GRAPH_POLLED);
	}
}

void
pl_graph_node_params(struct pl_graph_node *node, const struct cu_node_params *params)
{
	switch (params->type) {
	case CU_NODE_KERNEL:
		node_kernel(node, &params->kernel);
		return;
	case CU_NODE_MEMCPY:
		node_copy(node, &params->copy.copy);
		return;
	case CU_NODE_MEMSET:
		node_fill(node, &params->fill);
		return;
	case CU_NODE_BATCH_MEM_OP:
		node_memops(node, &params->memops);
		return;
	}
}

/* ---- graphs ---- */

/* The graphs that are still to be read: no recursion on what the program made. */
struct inside {
	struct pl_graph_level at[INSIDE_MAX];
	size_t n;
};

static void
kernel_read(struct pl_graph_node *node)
{
	union cu_node_attribute attribute;
	struct cu_kernel_node params;

	memset(&params, 0, sizeof(params));
	memset(&attribute, 0, sizeof(attribute));
	if (PL_REAL(cuGraphKernelNodeGetParams_v2)(node->node, &params)) {
		node->all = node->uncut = 1;
		return;
	}
	node_kernel(node, &params);
	/* A driver that does not know the attribute knows no such nodes. */
	if (!PL_REAL(cuGraphKernelNodeGetAttribute)(node->node,
						    CU_NODE_ATTRIBUTE_DEVICE_UPDATABLE,
						    &attribute) &&
	    attribute.device_updatable)
		node->all = node->uncut = 1;
}

static void
memops_read(struct pl_graph_node *node)
{
	struct cu_batch_node params;

	memset(&params, 0, sizeof(params));
	if (PL_REAL(cuGraphBatchMemOpNodeGetParams)(node->node, &params))
		node->all = node->uncut = 1;
	else
		node_memops(node, &params);
}

/* What a node does, into its entry. child: the graph inside of it, NULL: none. */
static void
node_fill_in(struct pl_graph_node *node, struct cu_graph **child)
{
	struct cu_graph_node *handle = node->node;
	struct cu_memset_node fill;
	struct cu_copy_3d copy;
	int type = -1;

	*child = NULL;
	if (PL_REAL(cuGraphNodeGetType)(handle, &type))
		type = -1;
	switch (type) {
	case CU_NODE_KERNEL:
		kernel_read(node);
		return;
	case CU_NODE_MEMCPY:
		if (PL_REAL(cuGraphMemcpyNodeGetParams)(handle, &copy))
			break;
		node_copy(node, &copy);
		return;
	case CU_NODE_MEMSET:
		if (PL_REAL(cuGraphMemsetNodeGetParams)(handle, &fill))
			break;
		node_fill(node, &fill);
		return;
	case CU_NODE_GRAPH:
		if (!PL_REAL(cuGraphChildGraphNodeGetGraph)(handle, child))
			return;
		*child = NULL;
		break;
	case CU_NODE_BATCH_MEM_OP:
		memops_read(node);
		return;
	case CU_NODE_HOST:
	case CU_NODE_EMPTY:
	case CU_NODE_WAIT_EVENT:
	case CU_NODE_EVENT_RECORD:
	case CU_NODE_SEMAPHORES_SIGNAL:
	case CU_NODE_SEMAPHORES_WAIT:
		return;
	case CU_NODE_MEM_ALLOC:
	case CU_NODE_MEM_FREE:
		node->uncut = 1;
		return;
	}
	node->all = node->uncut = 1; /* conditional, unknown, or not readable */
}

static void
node_read(struct pl_graph_nodes *nodes, struct cu_graph_node *handle, struct inside *inside)
{
	struct pl_graph_node *node = node_new(nodes);
	struct cu_graph *child;

	if (!node)
		return;
	node->node = handle;
	node_fill_in(node, &child);
	if (!child)
		return;
	if (inside->n == INSIDE_MAX) {
		node->all = node->uncut = 1;
		return;
	}
	inside->at[inside->n++] = (struct pl_graph_level){.graph = child,
							  .parent = (size_t)(node - nodes->at),
							  .up = nodes->n_levels};
}

/* Without memory nothing is known of where nodes are, and the graph is not run in pieces. */
static void
level_keep(struct pl_graph_nodes *nodes, const struct pl_graph_level *level)
{
	struct pl_graph_level *more = sl_realloc(nodes->levels,
						 (nodes->n_levels + 1) * sizeof(*more));

	if (!more) {
		nodes->all = 1;
		return;
	}
	nodes->levels = more;
	nodes->levels[nodes->n_levels++] = *level;
}

void
pl_graph_nodes_read(struct pl_graph_nodes *nodes, struct cu_graph *graph)
{
	struct inside inside = {.at = {{.graph = graph, .parent = PL_GRAPH_NONE}}, .n = 1};
	struct cu_graph_node **list;
	struct pl_graph_level level;
	int first = !nodes->n_levels && !nodes->n;

	while (inside.n) {
		level = inside.at[--inside.n];
		level.first = nodes->n;
		level.n = 0;
		if (PL_REAL(cuGraphGetNodes)(level.graph, NULL, &level.n)) {
			nodes->all = 1;
			continue;
		}
		list = sl_calloc(level.n + 1, sizeof(struct cu_graph_node *));
		if (!list || PL_REAL(cuGraphGetNodes)(level.graph, list, &level.n))
			nodes->all = 1;
		else
			for (size_t i = 0; i < level.n; i++)
				node_read(nodes, list[i], &inside);
		free(list);
		for (size_t i = level.first; i < nodes->n && !first; i++)
			nodes->at[i].node = NULL;
		if (first && nodes->n == level.first + level.n)
			level_keep(nodes, &level);
		else if (first)
			nodes->all = 1;
	}
}

const struct pl_graph_level *
pl_graph_nodes_inside(const struct pl_graph_nodes *nodes, size_t number)
{
	for (size_t i = 1; i < nodes->n_levels; i++)
		if (nodes->levels[i].parent == number)
			return &nodes->levels[i];
	return NULL;
}

bool
pl_graph_nodes_exchange(struct pl_graph_nodes *nodes, size_t number, struct cu_graph *graph)
{
	const struct pl_graph_level *level = pl_graph_nodes_inside(nodes, number);
	SL_CLEANUP(free) struct cu_graph_node **list = NULL;
	struct cu_graph *child = NULL;
	size_t n;

	if (!level)
		return false;
	n = level->n + 1;
	list = sl_calloc(n, sizeof(struct cu_graph_node *));
	if (!list || PL_REAL(cuGraphGetNodes)(graph, list, &n) || n != level->n)
		return false;
	for (size_t i = level->first; i < level->first + n; i++)
		if (pl_graph_nodes_inside(nodes, i))
			return false;
	for (size_t i = 0; i < n && !child; i++) {
		struct pl_graph_node *node = &nodes->at[level->first + i];
		uint32_t piece = node->piece;

		free(node->uses);
		*node = (struct pl_graph_node){.node = list[i], .piece = piece};
		node_fill_in(node, &child);
		node->node = NULL; /* it is the program's, who may destroy it */
	}
	return !child;
}
