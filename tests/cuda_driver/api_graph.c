/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's graphs without captures (graph.c has captures): made of nodes, nested,
 * described, changed after instantiation. api_graph_edit.c has what changes a graph's shape,
 * api_graph_order.c nodes that order work of others. Nodes run in the order in which they were
 * added, which their dependencies allow. A change in an executable graph finds its node by the
 * node it is a copy of. An update finds it by its place in the order.
 *
 * The driver checks the addresses of copies and fills when their node is made or changed, as
 * when they are queued. Copies are of bytes in a row; a fill is of one row. Instantiating by the
 * older ABIs and uploading do the same as the newest.
 *
 * Threads: any; the.lock.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "preload/api/api_graph.h"

#define TYPE_HOST    1
#define TYPE_DEVICE  2
#define TYPE_UNIFIED 4

EXPORT int cuGraphCreate(struct cu_graph **graph, unsigned flags);
EXPORT int cuGraphAddKernelNode_v2(struct cu_graph_node **out, struct cu_graph *graph,
				   struct cu_graph_node *const *before, size_t n,
				   const struct cu_kernel_node *params);
EXPORT int cuGraphAddChildGraphNode(struct cu_graph_node **out, struct cu_graph *graph,
				    struct cu_graph_node *const *before, size_t n,
				    struct cu_graph *child);
EXPORT int cuGraphAddHostNode(struct cu_graph_node **out, struct cu_graph *graph,
			      struct cu_graph_node *const *before, size_t n,
			      const struct cu_host_node *params);
EXPORT int cuGraphAddMemAllocNode(struct cu_graph_node **out, struct cu_graph *graph,
				  struct cu_graph_node *const *before, size_t n,
				  void *params);
EXPORT int cuGraphAddEmptyNode(struct cu_graph_node **out, struct cu_graph *graph,
			       struct cu_graph_node *const *before, size_t n);

/* ---- nodes ---- */

struct op *
node_find(const struct cu_graph_node *handle)
{
	for (size_t i = 0; i < HASH_SIZE; i++)
		for (struct object *object = the.hash[i]; object; object = object->hash_next) {
			if (object->type != OBJECT_GRAPH)
				continue;
			for (struct op *op = ((struct graph *)object)->head; op; op = op->next)
				if ((const struct cu_graph_node *)op == handle)
					return op;
		}
	return NULL;
}

int
node_enter(struct cu_graph_node *handle, int kind, struct op **op)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	*op = node_find(handle);
	if (*op && (kind < 0 || (*op)->kind == (enum op_kind)kind))
		return CU_SUCCESS;
	pthread_mutex_unlock(&the.lock);
	return violate(CU_ERROR_INVALID_VALUE, "a graph's node %p: none of this kind",
		       (void *)handle);
}

/* What a node says. 0, or a code; *out is new. */
static int
kernel_op(const struct cu_kernel_node *params, struct op **out)
{
	struct cu_context *context = context_current();
	struct launch *launch;
	int code = launch_make(CALL_cuLaunchKernel, context,
			       params->function ? params->function
						: (struct cu_function *)params->kernel,
			       params->grid, params->block, params->shared_bytes,
			       params->params, params->extra, &launch);

	if (code)
		return code;
	*out = op_new(OP_KERNEL, CALL_cuLaunchKernel);
	(*out)->launch = launch;
	return CU_SUCCESS;
}

static int
type_is_gpu(int type)
{
	return type == TYPE_DEVICE || type == TYPE_UNIFIED;
}

int
places_enter(struct op *op, int to_gpu, uint64_t to, int from_gpu, uint64_t from)
{
	struct cu_context *context = context_current();
	int pageable = 0, code = context ? CU_SUCCESS : CU_ERROR_INVALID_CONTEXT;

	pthread_mutex_lock(&the.lock);
	if (!code)
		code = place_enter(op, context, to, SL_STANDIN_WRITE, &op->to,
				   to_gpu ? NULL : &pageable);
	if (!code && from)
		code = place_enter(op, context, from, SL_STANDIN_READ, &op->from,
				   from_gpu ? NULL : &pageable);
	pthread_mutex_unlock(&the.lock);
	if (code)
		op_free(op);
	return code;
}

static int
copy_op(const struct cu_copy_3d *copy, struct op **out)
{
	int to_gpu = type_is_gpu(copy->to_type), from_gpu = type_is_gpu(copy->from_type);

	if (copy->height > 1 || copy->depth > 1)
		return violate(CU_ERROR_NOT_SUPPORTED,
			       "a graph's copy of more than a row");
	*out = op_new(OP_COPY, CALL_cuMemcpyDtoDAsync);
	(*out)->bytes = copy->width_bytes;
	return places_enter(*out, to_gpu,
			    copy->to_x_bytes +
				    (to_gpu ? copy->to_device : (uintptr_t)copy->to_host),
			    from_gpu,
			    copy->from_x_bytes + (from_gpu ? copy->from_device
							   : (uintptr_t)copy->from_host));
}

static int
fill_op(const struct cu_memset_node *params, struct op **out)
{
	if (params->height > 1 || params->element_bytes == 2)
		return violate(CU_ERROR_NOT_SUPPORTED,
			       "a graph's fill of more than a row");
	*out = op_new(OP_MEMSET, CALL_cuMemsetD8Async);
	(*out)->bytes = params->width * params->element_bytes;
	(*out)->value = params->value;
	(*out)->value_bytes = params->element_bytes;
	return places_enter(*out, 1, params->addr, 0, 0);
}

static struct op *
host_op(const struct cu_host_node *params)
{
	struct op *op = op_new(OP_HOST, CALL_API);

	op->host_function = params->function;
	op->host_argument = params->argument;
	return op;
}

static int
params_op(const struct cu_node_params *params, struct op **out)
{
	switch (params->type) {
	case CU_NODE_KERNEL:
		return kernel_op(&params->kernel, out);
	case CU_NODE_MEMCPY:
		return copy_op(&params->copy.copy, out);
	case CU_NODE_MEMSET:
		return fill_op(&params->fill, out);
	case CU_NODE_HOST:
		*out = host_op(&params->host);
		return CU_SUCCESS;
	case CU_NODE_EMPTY:
		*out = op_new(OP_EMPTY, CALL_API);
		return CU_SUCCESS;
	case CU_NODE_WAIT_EVENT:
		return event_op(OP_WAIT, params->event, out);
	case CU_NODE_EVENT_RECORD:
		return event_op(OP_RECORD, params->event, out);
	case CU_NODE_BATCH_MEM_OP:
		return word_op(&params->memops, out);
	}
	return CU_ERROR_NOT_SUPPORTED;
}

int
node_add(struct cu_graph_node **out, struct cu_graph *handle,
	 struct cu_graph_node *const *before, size_t n, struct op *op)
{
	struct graph *graph;
	int code = graph_enter(CALL_API, handle, OBJECT_GRAPH, &graph);

	if (code) {
		op_free(op);
		return code;
	}
	op_put_behind(op, (struct op *const *)before, n);
	graph_add(graph, op);
	if (out)
		*out = (struct cu_graph_node *)op;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuGraphAddKernelNode_v2(struct cu_graph_node **out, struct cu_graph *graph,
			struct cu_graph_node *const *before, size_t n,
			const struct cu_kernel_node *params)
{
	struct op *op;
	int code = kernel_op(params, &op);

	return code ? code : node_add(out, graph, before, n, op);
}

int
cuGraphAddMemcpyNode(struct cu_graph_node **out, struct cu_graph *graph,
		     struct cu_graph_node *const *before, size_t n,
		     const struct cu_copy_3d *copy, struct cu_context *context)
{
	struct op *op;
	int code = copy_op(copy, &op);

	(void)context;
	return code ? code : node_add(out, graph, before, n, op);
}

int
cuGraphAddMemsetNode(struct cu_graph_node **out, struct cu_graph *graph,
		     struct cu_graph_node *const *before, size_t n,
		     const struct cu_memset_node *params, struct cu_context *context)
{
	struct op *op = NULL;
	int code = fill_op(params, &op);

	(void)context;
	return code ? code : node_add(out, graph, before, n, op);
}

int
cuGraphAddEmptyNode(struct cu_graph_node **out, struct cu_graph *graph,
		    struct cu_graph_node *const *before, size_t n)
{
	return node_add(out, graph, before, n, op_new(OP_EMPTY, CALL_API));
}

int
cuGraphAddChildGraphNode(struct cu_graph_node **out, struct cu_graph *handle,
			 struct cu_graph_node *const *before, size_t n,
			 struct cu_graph *child_handle)
{
	struct graph *child;
	int code = graph_enter(CALL_API, child_handle, OBJECT_GRAPH, &child);
	struct op *op;

	if (code)
		return code;
	op = op_new(OP_GRAPH, CALL_API);
	op->inside = must_alloc(1, sizeof(*op->inside));
	graph_copy(op->inside, child);
	object_add(&op->inside->object, OBJECT_GRAPH);
	pthread_mutex_unlock(&the.lock);
	return node_add(out, handle, before, n, op);
}

int
cuGraphAddHostNode(struct cu_graph_node **out, struct cu_graph *graph,
		   struct cu_graph_node *const *before, size_t n,
		   const struct cu_host_node *params)
{
	return node_add(out, graph, before, n, host_op(params));
}

/* Takes no parameters, and allocates nothing. */
int
cuGraphAddMemAllocNode(struct cu_graph_node **out, struct cu_graph *graph,
		       struct cu_graph_node *const *before, size_t n, void *params)
{
	(void)params;
	return node_add(out, graph, before, n, op_new(OP_ALLOC, CALL_API));
}

int
cuGraphAddNode_v2(struct cu_graph_node **out, struct cu_graph *graph,
		  struct cu_graph_node *const *before, const void *edges, size_t n,
		  struct cu_node_params *params)
{
	struct op *op = NULL;
	int code = params->type == CU_NODE_CONDITIONAL ? conditional_op(params, &op)
						       : params_op(params, &op);

	(void)edges;
	return code ? code : node_add(out, graph, before, n, op);
}

int
cuGraphAddNode(struct cu_graph_node **out, struct cu_graph *graph,
	       struct cu_graph_node *const *before, size_t n, struct cu_node_params *params)
{
	return cuGraphAddNode_v2(out, graph, before, NULL, n, params);
}

/* ---- what nodes are ---- */

int
cuGraphNodeGetType(struct cu_graph_node *node, int *type)
{
	struct op *op;
	int code = node_enter(node, -1, &op);

	if (code)
		return code;
	*type = op->kind == OP_KERNEL        ? CU_NODE_KERNEL
		: op->kind == OP_COPY        ? CU_NODE_MEMCPY
		: op->kind == OP_MEMSET      ? CU_NODE_MEMSET
		: op->kind == OP_HOST        ? CU_NODE_HOST
		: op->kind == OP_GRAPH       ? CU_NODE_GRAPH
		: op->kind == OP_EMPTY       ? CU_NODE_EMPTY
		: op->kind == OP_ALLOC       ? CU_NODE_MEM_ALLOC
		: op->kind == OP_RECORD      ? CU_NODE_EVENT_RECORD
		: op->kind == OP_WAIT        ? CU_NODE_WAIT_EVENT
		: op->kind == OP_CONDITIONAL ? CU_NODE_CONDITIONAL
					     : CU_NODE_BATCH_MEM_OP;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuGraphKernelNodeGetParams_v2(struct cu_graph_node *node, struct cu_kernel_node *params)
{
	struct op *op;
	int code = node_enter(node, OP_KERNEL, &op);

	if (code)
		return code;
	memset(params, 0, sizeof(*params));
	params->function = launch_describe(op->launch, params->grid, params->block,
					   &params->shared_bytes, &params->params);
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuGraphMemcpyNodeGetParams(struct cu_graph_node *node, struct cu_copy_3d *copy)
{
	struct op *op;
	int code = node_enter(node, OP_COPY, &op);

	if (code)
		return code;
	memset(copy, 0, sizeof(*copy));
	copy->width_bytes = op->bytes;
	copy->height = copy->depth = 1;
	copy->from_type = op->from.gpu ? TYPE_DEVICE : TYPE_HOST;
	copy->to_type = op->to.gpu ? TYPE_DEVICE : TYPE_HOST;
	if (op->from.gpu)
		copy->from_device = op->from.addr;
	else
		copy->from_host = (void *)(uintptr_t)op->from.addr;
	if (op->to.gpu)
		copy->to_device = op->to.addr;
	else
		copy->to_host = (void *)(uintptr_t)op->to.addr;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuGraphMemsetNodeGetParams(struct cu_graph_node *node, struct cu_memset_node *params)
{
	struct op *op;
	int code = node_enter(node, OP_MEMSET, &op);

	if (code)
		return code;
	*params = (struct cu_memset_node){.addr = op->to.addr,
					  .value = op->value,
					  .element_bytes = op->value_bytes,
					  .width = op->bytes / op->value_bytes,
					  .height = 1};
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuGraphChildGraphNodeGetGraph(struct cu_graph_node *node, struct cu_graph **graph)
{
	struct op *op;
	int code = node_enter(node, OP_GRAPH, &op);

	if (code)
		return code;
	*graph = (struct cu_graph *)op->inside->object.id;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

/* ---- graphs ---- */

int
cuGraphCreate(struct cu_graph **out, unsigned flags)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);
	struct graph *graph;

	if (code)
		return code;
	if (flags)
		return violate(CU_ERROR_INVALID_VALUE, "cuGraphCreate: flags %#x", flags);
	graph = must_alloc(1, sizeof(*graph));
	pthread_mutex_lock(&the.lock);
	*out = (struct cu_graph *)object_add(&graph->object, OBJECT_GRAPH);
	the.live.graphs++;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuGraphInstantiate(struct cu_graph_exec **exec, struct cu_graph *graph,
		   struct cu_graph_node **failed, char *log, size_t log_bytes)
{
	if (failed)
		*failed = NULL;
	if (log && log_bytes)
		*log = '\0';
	return cuGraphInstantiateWithFlags(exec, graph, 0);
}

int
cuGraphInstantiate_v2(struct cu_graph_exec **exec, struct cu_graph *graph,
		      struct cu_graph_node **failed, char *log, size_t log_bytes)
{
	return cuGraphInstantiate(exec, graph, failed, log, log_bytes);
}

int
cuGraphInstantiateWithParams(struct cu_graph_exec **exec, struct cu_graph *graph,
			     struct cu_instantiate_params *params)
{
	params->failed = NULL;
	params->result = 0;
	return cuGraphInstantiateWithFlags(exec, graph, params->flags);
}

int
cuGraphInstantiateWithParams_ptsz(struct cu_graph_exec **exec, struct cu_graph *graph,
				  struct cu_instantiate_params *params)
{
	return cuGraphInstantiateWithParams(exec, graph, params);
}

int
cuGraphUpload(struct cu_graph_exec *handle, struct cu_stream *stream)
{
	struct graph *exec;
	int code = graph_enter(CALL_API, handle, OBJECT_GRAPH_EXEC, &exec);

	(void)stream;
	if (!code)
		pthread_mutex_unlock(&the.lock);
	return code;
}

/* ---- changes ---- */

/* Put what op does in the place of another; takes op over. the.lock. */
static void
op_replace(struct op *old, struct op *op)
{
	struct launch *launch = old->launch;
	struct event *event = old->event;

	old->launch = op->launch;
	old->event = op->event;
	old->to = op->to;
	old->from = op->from;
	old->bytes = op->bytes;
	old->value = op->value;
	old->value_bytes = op->value_bytes;
	old->host_function = op->host_function;
	old->host_argument = op->host_argument;
	op->launch = launch;
	op->event = event;
	op_free(op);
}

/* Of a graph that is not executable. */
static int
node_change(struct cu_graph_node *handle, struct op *op)
{
	struct op *at;
	int code = node_enter(handle, (int)op->kind, &at);

	if (code) {
		op_free(op);
		return code;
	}
	op_replace(at, op);
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuGraphMemcpyNodeSetParams(struct cu_graph_node *node, const struct cu_copy_3d *copy)
{
	struct op *op;
	int code = copy_op(copy, &op);

	return code ? code : node_change(node, op);
}

int
cuGraphMemsetNodeSetParams(struct cu_graph_node *node, const struct cu_memset_node *params)
{
	struct op *op = NULL;
	int code = fill_op(params, &op);

	return code ? code : node_change(node, op);
}

int
cuGraphNodeSetParams(struct cu_graph_node *node, struct cu_node_params *params)
{
	struct op *op = NULL;
	int code = params_op(params, &op);

	return code ? code : node_change(node, op);
}

int
exec_change(struct cu_graph_exec *handle, struct cu_graph_node *node, struct op *op)
{
	struct graph *exec;
	int code = graph_enter(CALL_API, handle, OBJECT_GRAPH_EXEC, &exec);
	struct op *at;

	if (code) {
		op_free(op);
		return code;
	}
	at = op_of_origin(exec, node);
	if (at && at->kind == op->kind) {
		op_replace(at, op);
	} else {
		op_free(op);
		code = violate(CU_ERROR_INVALID_VALUE, "no such node %p in the graph",
			       (void *)node);
	}
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuGraphExecKernelNodeSetParams_v2(struct cu_graph_exec *exec, struct cu_graph_node *node,
				  const struct cu_kernel_node *params)
{
	struct op *op;
	int code = kernel_op(params, &op);

	return code ? code : exec_change(exec, node, op);
}

int
cuGraphExecKernelNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			       const struct cu_kernel_node *params)
{
	struct cu_kernel_node whole = {0};

	memcpy(&whole, params, CU_KERNEL_NODE_V1_BYTES);
	return cuGraphExecKernelNodeSetParams_v2(exec, node, &whole);
}

int
cuGraphExecMemcpyNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			       const struct cu_copy_3d *copy, struct cu_context *context)
{
	struct op *op;
	int code = copy_op(copy, &op);

	(void)context;
	return code ? code : exec_change(exec, node, op);
}

int
cuGraphExecMemsetNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			       const struct cu_memset_node *params,
			       struct cu_context *context)
{
	struct op *op = NULL;
	int code = fill_op(params, &op);

	(void)context;
	return code ? code : exec_change(exec, node, op);
}

int
cuGraphExecHostNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			     const struct cu_host_node *params)
{
	struct op *op = host_op(params);

	return exec_change(exec, node, op);
}

int
cuGraphExecNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
			 struct cu_node_params *params)
{
	struct op *op = NULL;
	int code = params_op(params, &op);

	return code ? code : exec_change(exec, node, op);
}

int
cuGraphExecUpdate_v2(struct cu_graph_exec *handle, struct cu_graph *graph_handle, void *why)
{
	struct graph *graph, *exec;
	int code = graph_enter(CALL_API, graph_handle, OBJECT_GRAPH, &graph);
	struct op *to;

	(void)why;
	if (code)
		return code;
	exec = (struct graph *)object_find(handle, OBJECT_GRAPH_EXEC);
	if (!exec || exec->n_ops != graph->n_ops) {
		pthread_mutex_unlock(&the.lock);
		return violate(CU_ERROR_INVALID_VALUE,
			       "cuGraphExecUpdate: another graph");
	}
	to = exec->head;
	for (const struct op *op = graph->head; op; op = op->next, to = to->next)
		op_replace(to, op_copy_of(op));
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}
