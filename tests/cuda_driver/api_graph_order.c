/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's nodes of graphs that order work of others: records of events, waits for
 * them, and words that are written or awaited. A launch of the graph queues them as if the program
 * had made the call on the stream. A batch has one word. A conditional node's condition holds once:
 * the graph that is its body runs.
 *
 * Threads: any; the.lock.
 */
#include <stdlib.h>

#include "internal.h"
#include "preload/api/api_graph.h"

EXPORT int cuGraphAddEventRecordNode(struct cu_graph_node **out, struct cu_graph *graph,
				     struct cu_graph_node *const *before, size_t n,
				     struct cu_event *event);
EXPORT int cuGraphAddEventWaitNode(struct cu_graph_node **out, struct cu_graph *graph,
				   struct cu_graph_node *const *before, size_t n,
				   struct cu_event *event);

/* ---- events ---- */

int
event_op(enum op_kind kind, struct cu_event *handle, struct op **out)
{
	struct event *event;

	pthread_mutex_lock(&the.lock);
	event = (struct event *)object_find(handle, OBJECT_EVENT);
	if (event) {
		*out = op_new(kind, kind == OP_WAIT ? CALL_cuStreamWaitEvent
						    : CALL_cuEventRecord);
		(*out)->event = event;
		event->refs++;
	}
	pthread_mutex_unlock(&the.lock);
	return event ? CU_SUCCESS
		     : violate(CU_ERROR_INVALID_HANDLE,
			       "a graph's node: no such event %p", (void *)handle);
}

static int
event_node_add(struct cu_graph_node **out, struct cu_graph *graph,
	       struct cu_graph_node *const *before, size_t n, enum op_kind kind,
	       struct cu_event *event)
{
	struct op *op = NULL;
	int code = event_op(kind, event, &op);

	return code ? code : node_add(out, graph, before, n, op);
}

int
cuGraphAddEventRecordNode(struct cu_graph_node **out, struct cu_graph *graph,
			  struct cu_graph_node *const *before, size_t n,
			  struct cu_event *event)
{
	return event_node_add(out, graph, before, n, OP_RECORD, event);
}

int
cuGraphAddEventWaitNode(struct cu_graph_node **out, struct cu_graph *graph,
			struct cu_graph_node *const *before, size_t n, struct cu_event *event)
{
	return event_node_add(out, graph, before, n, OP_WAIT, event);
}

static int
event_node_set(struct cu_graph_exec *exec, struct cu_graph_node *node, enum op_kind kind,
	       struct cu_event *event)
{
	struct op *op = NULL;
	int code = event_op(kind, event, &op);

	return code ? code : exec_change(exec, node, op);
}

int
cuGraphExecEventRecordNodeSetEvent(struct cu_graph_exec *exec, struct cu_graph_node *node,
				   struct cu_event *event)
{
	return event_node_set(exec, node, OP_RECORD, event);
}

int
cuGraphExecEventWaitNodeSetEvent(struct cu_graph_exec *exec, struct cu_graph_node *node,
				 struct cu_event *event)
{
	return event_node_set(exec, node, OP_WAIT, event);
}

/* ---- words ---- */

int
word_op(const struct cu_batch_node *params, struct op **out)
{
	const struct cu_memop *word = params->ops;
	int is_write, is_long;

	if (params->n != 1 || word->type == CU_MEMOP_FLUSH || word->type == CU_MEMOP_BARRIER)
		return violate(CU_ERROR_NOT_SUPPORTED,
			       "a graph's batch of more than a word");
	is_write = word->type == CU_MEMOP_WRITE_32 || word->type == CU_MEMOP_WRITE_64;
	is_long = word->type == CU_MEMOP_WAIT_64 || word->type == CU_MEMOP_WRITE_64;
	*out = op_new(is_write ? OP_WRITE_VALUE : OP_WAIT_VALUE,
		      is_write ? CALL_cuStreamWriteValue32 : CALL_cuStreamWaitValue32);
	(*out)->bytes = (*out)->value_bytes = is_long ? 8 : 4;
	(*out)->value = is_long ? word->value : (uint32_t)word->value;
	(*out)->flags = word->flags;
	return places_enter(*out, 1, word->addr, 0, 0);
}

int
cuGraphAddBatchMemOpNode(struct cu_graph_node **out, struct cu_graph *graph,
			 struct cu_graph_node *const *before, size_t n,
			 const struct cu_batch_node *params)
{
	struct op *op = NULL;
	int code = word_op(params, &op);

	return code ? code : node_add(out, graph, before, n, op);
}

int
cuGraphExecBatchMemOpNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
				   const struct cu_batch_node *params)
{
	struct op *op = NULL;
	int code = word_op(params, &op);

	return code ? code : exec_change(exec, node, op);
}

/* The word is the thread's until it asks again. */
int
cuGraphBatchMemOpNodeGetParams(struct cu_graph_node *node, struct cu_batch_node *params)
{
	static _Thread_local struct cu_memop word;
	struct op *op;
	int code = node_enter(node, -1, &op);

	if (code)
		return code;
	if (op->kind == OP_WRITE_VALUE)
		word.type = op->value_bytes == 8 ? CU_MEMOP_WRITE_64 : CU_MEMOP_WRITE_32;
	else
		word.type = op->value_bytes == 8 ? CU_MEMOP_WAIT_64 : CU_MEMOP_WAIT_32;
	word.addr = op->to.addr;
	word.value = op->value;
	word.flags = op->flags;
	*params = (struct cu_batch_node){.n = 1, .ops = &word};
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

/* ---- conditions ---- */

/* As the driver's: condition, type, how many bodies; then where the driver tells their handles. */
int
conditional_op(struct cu_node_params *params, struct op **out)
{
	struct op *op = op_new(OP_CONDITIONAL, CALL_API);

	op->inside = must_alloc(1, sizeof(*op->inside));
	pthread_mutex_lock(&the.lock);
	op->body = (struct cu_graph *)object_add(&op->inside->object, OBJECT_GRAPH);
	pthread_mutex_unlock(&the.lock);
	params->room[2] = (intptr_t)&op->body;
	*out = op;
	return CU_SUCCESS;
}
