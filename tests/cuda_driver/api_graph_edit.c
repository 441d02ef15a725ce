/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's graphs: their shape. Copies of graphs and the nodes of them, edges, nodes
 * that are taken out or switched off. A graph with a node that allocates, or with a
 * conditional one, cannot be copied.
 *
 * Threads: any; the.lock.
 */
#include <stdlib.h>

#include "internal.h"
#include "preload/api/api_graph.h"

#define INSIDE_MAX 16u

EXPORT int cuGraphNodeGetEnabled(struct cu_graph_exec *handle, struct cu_graph_node *node,
				 unsigned *enabled);

/* Graphs inside of a copy have handles of their own. */
static void
inside_publish(struct graph *graph)
{
	struct graph *left[INSIDE_MAX];
	size_t n = 1;

	left[0] = graph;
	while (n) {
		graph = left[--n];
		for (struct op *op = graph->head; op; op = op->next) {
			if (!op->inside || n == INSIDE_MAX)
				continue;
			object_add(&op->inside->object, OBJECT_GRAPH);
			left[n++] = op->inside;
		}
	}
}

int
cuGraphClone(struct cu_graph **out, struct cu_graph *handle)
{
	struct graph *graph, *clone;
	int code = graph_enter(CALL_API, handle, OBJECT_GRAPH, &graph);

	if (code)
		return code;
	for (const struct op *op = graph->head; op; op = op->next)
		if (op->kind == OP_ALLOC || op->kind == OP_CONDITIONAL)
			code = CU_ERROR_NOT_SUPPORTED;
	if (code) {
		pthread_mutex_unlock(&the.lock);
		return code;
	}
	clone = must_alloc(1, sizeof(*clone));
	graph_copy(clone, graph);
	inside_publish(clone);
	*out = (struct cu_graph *)object_add(&clone->object, OBJECT_GRAPH);
	the.live.graphs++;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

/* As a driver: a node that is not in the copy is an answer, and no violation. */
int
cuGraphNodeFindInClone(struct cu_graph_node **out, struct cu_graph_node *node,
		       struct cu_graph *handle)
{
	struct graph *graph;
	int code = graph_enter(CALL_API, handle, OBJECT_GRAPH, &graph);

	if (code)
		return code;
	*out = (struct cu_graph_node *)op_of_origin(graph, node);
	pthread_mutex_unlock(&the.lock);
	return *out ? CU_SUCCESS : CU_ERROR_INVALID_VALUE;
}

/* The graph that a node is in. the.lock. */
static struct graph *
graph_of_op(const struct op *op)
{
	for (size_t i = 0; i < HASH_SIZE; i++)
		for (struct object *object = the.hash[i]; object; object = object->hash_next) {
			struct graph *graph = (struct graph *)object;

			if (object->type != OBJECT_GRAPH)
				continue;
			for (const struct op *at = graph->head; at; at = at->next)
				if (at == op)
					return graph;
		}
	return NULL;
}

static void
edges_remove(struct graph *graph, const struct op *gone)
{
	for (struct op *op = graph->head; op; op = op->next) {
		size_t kept = 0;

		for (size_t i = 0; i < op->n_before; i++)
			if (op->before[i] != gone)
				op->before[kept++] = op->before[i];
		op->n_before = kept;
	}
}

int
cuGraphDestroyNode(struct cu_graph_node *handle)
{
	struct op *op, **slot;
	int code = node_enter(handle, -1, &op);
	struct graph *graph;

	if (code)
		return code;
	graph = graph_of_op(op);
	slot = &graph->head;
	while (*slot != op)
		slot = &(*slot)->next;
	*slot = op->next;
	graph->n_ops--;
	edges_remove(graph, op);
	op_free(op);
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

/* data: 8 bytes an edge, all 0: no edge here has a type or a port. */
int
cuGraphGetEdges_v2(struct cu_graph *handle, struct cu_graph_node **from,
		   struct cu_graph_node **to, uint64_t *data, size_t *n)
{
	struct graph *graph;
	int code = graph_enter(CALL_API, handle, OBJECT_GRAPH, &graph);
	size_t found = 0;

	if (code)
		return code;
	for (struct op *op = graph->head; op; op = op->next)
		for (size_t i = 0; i < op->n_before; i++, found++) {
			if (!from || found >= *n)
				continue;
			from[found] = (struct cu_graph_node *)op->before[i];
			to[found] = (struct cu_graph_node *)op;
			if (data)
				data[found] = 0;
		}
	*n = found;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

/* As a driver: of the same shape, here the same number of nodes. */
int
cuGraphExecChildGraphNodeSetParams(struct cu_graph_exec *handle, struct cu_graph_node *node,
				   struct cu_graph *child_handle)
{
	struct graph *exec, *child;
	int code = graph_enter(CALL_API, handle, OBJECT_GRAPH_EXEC, &exec);
	struct op *op;

	if (code)
		return code;
	child = (struct graph *)object_find(child_handle, OBJECT_GRAPH);
	op = op_of_origin(exec, node);
	if (!child || !op || !op->inside || op->inside->n_ops != child->n_ops) {
		pthread_mutex_unlock(&the.lock);
		return violate(
			CU_ERROR_INVALID_VALUE,
			"no such node %p in the graph, or a graph of another shape",
			(void *)node);
	}
	graph_inside_free(op->inside);
	op->inside = must_alloc(1, sizeof(*op->inside));
	graph_copy(op->inside, child);
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

/* ---- nodes that are switched off ---- */

static int
exec_node_enter(struct cu_graph_exec *handle, struct cu_graph_node *node, struct op **op)
{
	struct graph *exec;
	int code = graph_enter(CALL_API, handle, OBJECT_GRAPH_EXEC, &exec);

	if (code)
		return code;
	*op = op_of_origin(exec, node);
	if (*op && ((*op)->kind == OP_KERNEL || (*op)->kind == OP_COPY ||
		    (*op)->kind == OP_MEMSET))
		return CU_SUCCESS;
	pthread_mutex_unlock(&the.lock);
	return violate(CU_ERROR_INVALID_VALUE,
		       "no such node %p in the graph, or none that can be switched off",
		       (void *)node);
}

int
cuGraphNodeSetEnabled(struct cu_graph_exec *exec, struct cu_graph_node *node, unsigned enabled)
{
	struct op *op;
	int code = exec_node_enter(exec, node, &op);

	if (code)
		return code;
	op->disabled = !enabled;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuGraphNodeGetEnabled(struct cu_graph_exec *exec, struct cu_graph_node *node, unsigned *enabled)
{
	struct op *op;
	int code = exec_node_enter(exec, node, &op);

	if (code)
		return code;
	*enabled = !op->disabled;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}
