/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of executable graphs. The driver's answer comes first. What it has taken is noted for
 * later launches, and made in the graph's pieces as well (graph_cut.c).
 *
 * Threads: any.
 */
#include <stdbool.h>
#include <string.h>

#include "preload/calls/foreign.h"
#include "preload/calls/touch.h"
#include "preload/graph/graph_exec.h"
#include "preload/preload.h"
#include "preload/report/counters.h"

/* ---- all of it ---- */

static bool
any_is_disabled(const struct pl_graph_nodes *nodes)
{
	for (size_t i = 0; i < nodes->n; i++)
		if (nodes->at[i].disabled)
			return true;
	return false;
}

/* The graph has been given the parameters of another one's nodes. Its own nodes' handles stay those of
 * the graph it was made of: what is set for them later is added, and it has no pieces from then on. */
static int
exec_updated(int result, struct cu_graph_exec *handle, struct cu_graph *graph)
{
	struct pl_graph_exec *held, *exec;
	uint64_t flags = 0;

	if (result || !pl_active())
		return result;
	held = pl_graph_hold(handle);
	if (held) { /* others may wait for its last launch: it stays the same object */
		bool disabled = any_is_disabled(&held->nodes);

		pl_graph_cut_drop(held);
		pl_graph_exec_read(held, graph);
		if (!disabled)
			pl_graph_keep(held, graph);
		pl_graph_release(held);
		return CU_SUCCESS;
	}
	sl_mutex_lock(&pl_graphs.lock);
	exec = pl_graph_find(handle);
	if (exec)
		flags = exec->flags;
	sl_mutex_unlock(&pl_graphs.lock);
	pl_graph_exec_note(handle, graph, flags);
	return CU_SUCCESS;
}

int
cuGraphExecUpdate(struct cu_graph_exec *exec, struct cu_graph *graph,
		  struct cu_graph_node **failed, int *why)
{
	int result;

	PL_WITH_ROOM(result, PL_ROOM_BYTES,
		     PL_REAL(cuGraphExecUpdate)(exec, graph, failed, why));
	return exec_updated(result, exec, graph);
}

int
cuGraphExecUpdate_v2(struct cu_graph_exec *exec, struct cu_graph *graph, void *why)
{
	int result;

	PL_WITH_ROOM(result, PL_ROOM_BYTES, PL_REAL(cuGraphExecUpdate_v2)(exec, graph, why));
	return exec_updated(result, exec, graph);
}

/* ---- one node ---- */

/* As the program names it, or as the clone has it that the graph's nodes were read of. */
static struct cu_graph_node *
node_known(struct pl_graph_exec *held, struct cu_graph_node *node)
{
	struct cu_graph_node *mine = held ? pl_graph_clone_node(held, node) : NULL;

	if (held && !mine)
		pl_graph_uncut(held,
			       "a node of it was changed that its clone does not have");
	return mine ? mine : node;
}

/* The driver has taken these parameters of a node. params is changed by no one, but the driver's calls take
 * it so. */
static void
node_note(struct cu_graph_exec *handle, struct cu_graph_node *handle_node,
	  struct cu_node_params *params)
{
	struct pl_graph_exec *held, *exec;
	struct cu_graph_node *known;
	struct pl_graph_node *node;
	int from_device = 0;

	if (!pl_active())
		return;
	held = pl_graph_hold(handle);
	known = node_known(held, handle_node);
	pl_enter();
	sl_mutex_lock(&pl_graphs.lock);
	exec = pl_graph_find(handle);
	node = exec ? pl_graph_node_put(&exec->nodes, known) : NULL;
	if (node) {
		pl_graph_node_params(node, params);
		exec->whole.set_is_old = 1;
		from_device = exec->from_device;
	}
	sl_mutex_unlock(&pl_graphs.lock);
	if (held && held->clone)
		pl_graph_cut_params(held, known, params);
	pl_leave();
	if (held)
		pl_graph_release(held);
	if (from_device)
		pl_graph_exec_pin(handle);
}

/* The same of a type of node whose parameters are these. */
static int
node_set(int result, struct cu_graph_exec *exec, struct cu_graph_node *node,
	 enum cu_graph_node_type type, const void *of_type, size_t bytes)
{
	struct cu_node_params params = {.type = (int)type};

	if (result || !of_type)
		return result;
	memcpy(params.room, of_type, bytes);
	node_note(exec, node, &params);
	return CU_SUCCESS;
}

int
cuGraphExecKernelNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			       const struct cu_kernel_node *params)
{
	return node_set(PL_REAL(cuGraphExecKernelNodeSetParams)(exec, node, params), exec,
			node, CU_NODE_KERNEL, params, CU_KERNEL_NODE_V1_BYTES);
}

int
cuGraphExecKernelNodeSetParams_v2(struct cu_graph_exec *exec, struct cu_graph_node *node,
				  const struct cu_kernel_node *params)
{
	return node_set(PL_REAL(cuGraphExecKernelNodeSetParams_v2)(exec, node, params),
			exec, node, CU_NODE_KERNEL, params, sizeof(*params));
}

int
cuGraphExecMemcpyNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			       const struct cu_copy_3d *copy, struct cu_context *context)
{
	struct pl_graph_place place;
	struct cu_memcpy_node params = {.context = context};
	int result = pl_graph_place_begin(&place, copy, NULL);

	if (!result)
		do
			result = PL_REAL(cuGraphExecMemcpyNodeSetParams)(
				exec, node, copy ? &place.copy : NULL, context);
		while (pl_graph_place_again(&place, result));
	if (copy)
		params.copy = place.copy;
	/* Here: in a piece the driver looks at the places as well. */
	result = node_set(result, exec, node, CU_NODE_MEMCPY, copy ? &params : NULL,
			  sizeof(params));
	pl_graph_place_end(&place);
	return result;
}

/* Of a fill, in any node. */
struct memset_and_context {
	struct cu_memset_node fill;
	struct cu_context *context;
};

int
cuGraphExecMemsetNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			       const struct cu_memset_node *params,
			       struct cu_context *context)
{
	struct memset_and_context both = {.context = context};
	struct pl_graph_place place;
	int result = pl_graph_place_begin(&place, NULL, params);

	if (!result)
		do
			result = PL_REAL(cuGraphExecMemsetNodeSetParams)(exec, node,
									 params, context);
		while (pl_graph_place_again(&place, result));
	if (params)
		both.fill = *params;
	result = node_set(result, exec, node, CU_NODE_MEMSET, params ? &both : NULL,
			  sizeof(both));
	pl_graph_place_end(&place);
	return result;
}

int
cuGraphExecBatchMemOpNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
				   const struct cu_batch_node *params)
{
	int result = params ? pl_memops_hold(params->ops, params->n) : CU_SUCCESS;

	if (!result)
		result = PL_REAL(cuGraphExecBatchMemOpNodeSetParams)(exec, node, params);
	return node_set(result, exec, node, CU_NODE_BATCH_MEM_OP, params, sizeof(*params));
}

int
cuGraphExecHostNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			     const struct cu_host_node *params)
{
	return node_set(PL_REAL(cuGraphExecHostNodeSetParams)(exec, node, params), exec,
			node, CU_NODE_HOST, params, sizeof(*params));
}

int
cuGraphExecEventRecordNodeSetEvent(struct cu_graph_exec *exec, struct cu_graph_node *node,
				   struct cu_event *event)
{
	return node_set(PL_REAL(cuGraphExecEventRecordNodeSetEvent)(exec, node, event), exec,
			node, CU_NODE_EVENT_RECORD, &event, sizeof(struct cu_event *));
}

int
cuGraphExecEventWaitNodeSetEvent(struct cu_graph_exec *exec, struct cu_graph_node *node,
				 struct cu_event *event)
{
	return node_set(PL_REAL(cuGraphExecEventWaitNodeSetEvent)(exec, node, event),
			exec, node, CU_NODE_WAIT_EVENT, &event, sizeof(struct cu_event *));
}

int
cuGraphExecExternalSemaphoresSignalNodeSetParams(struct cu_graph_exec *exec,
						 struct cu_graph_node *node,
						 const struct cu_semaphores_node *params)
{
	return node_set(PL_REAL(cuGraphExecExternalSemaphoresSignalNodeSetParams)(exec, node,
										  params),
			exec, node, CU_NODE_SEMAPHORES_SIGNAL, params, sizeof(*params));
}

int
cuGraphExecExternalSemaphoresWaitNodeSetParams(struct cu_graph_exec *exec,
					       struct cu_graph_node *node,
					       const struct cu_semaphores_node *params)
{
	return node_set(PL_REAL(cuGraphExecExternalSemaphoresWaitNodeSetParams)(exec, node,
										params),
			exec, node, CU_NODE_SEMAPHORES_WAIT, params, sizeof(*params));
}

/* The nodes of the graph inside of a node. Of another shape they are added, and those it had before stay. */
SL_REQUIRES(pl_graphs.lock)
static void
child_note(struct pl_graph_exec *exec, size_t number, struct cu_graph_node *node,
	   struct cu_graph *child)
{
	if (number != PL_GRAPH_NONE)
		exec->nodes.at[number].node = node; /* the clone's handle is no more */
	if (number == PL_GRAPH_NONE || !pl_graph_nodes_exchange(&exec->nodes, number, child))
		pl_graph_nodes_read(&exec->nodes, child);
	exec->whole.set_is_old = 1;
}

static int
child_set(int result, struct cu_graph_exec *handle, struct cu_graph_node *node,
	  struct cu_graph *child)
{
	struct pl_graph_exec *held, *exec;
	struct cu_graph_node *known;
	int from_device;
	size_t number;
	bool done;

	if (result || !pl_active())
		return result;
	held = pl_graph_hold(handle);
	known = node_known(held, node);
	sl_mutex_lock(&pl_graphs.lock);
	exec = pl_graph_find(handle);
	number = exec ? pl_graph_nodes_find(&exec->nodes, known) : PL_GRAPH_NONE;
	sl_mutex_unlock(&pl_graphs.lock);
	pl_enter();
	done = held && held->clone && pl_graph_cut_child(held, known, child);
	sl_mutex_lock(&pl_graphs.lock);
	exec = pl_graph_find(handle);
	from_device = exec && exec->from_device;
	if (exec && !done)
		child_note(exec, number, node, child);
	sl_mutex_unlock(&pl_graphs.lock);
	pl_leave();
	if (held)
		pl_graph_release(held);
	if (from_device)
		pl_graph_exec_pin(handle);
	return result;
}

int
cuGraphExecChildGraphNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
				   struct cu_graph *child)
{
	return child_set(PL_REAL(cuGraphExecChildGraphNodeSetParams)(exec, node, child),
			 exec, node, child);
}

int
cuGraphExecNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			 struct cu_node_params *params)
{
	struct pl_node_place place;
	int result = pl_node_place_begin(&place, params);

	if (!result)
		do
			result = PL_REAL(cuGraphExecNodeSetParams)(exec, node, params);
		while (pl_graph_place_again(&place.place, result));
	if (!result && params->type != CU_NODE_GRAPH)
		node_note(exec, node, params);
	pl_node_place_end(&place);
	return params && params->type == CU_NODE_GRAPH
		       ? child_set(result, exec, node, params->graph)
		       : result;
}

int
cuGraphNodeSetEnabled(struct cu_graph_exec *exec, struct cu_graph_node *node, unsigned enabled)
{
	int result = PL_REAL(cuGraphNodeSetEnabled)(exec, node, enabled);
	struct pl_graph_exec *held = !result && pl_active() ? pl_graph_hold(exec) : NULL;

	if (!held)
		return result;
	node = node_known(held, node);
	pl_enter();
	if (held->clone)
		pl_graph_cut_enable(held, node, enabled);
	pl_leave();
	pl_graph_release(held);
	return result;
}
