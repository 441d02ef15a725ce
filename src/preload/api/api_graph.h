/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's calls on graphs: those that this library wraps (PL_EXPORT), and those that it makes
 * itself; and the parameters of nodes, as the driver for CUDA 13.0 has them.
 */
#ifndef SL_PRELOAD_API_GRAPH_H
#define SL_PRELOAD_API_GRAPH_H

#include "preload/api/api_memop.h"
#include "preload/api/driver_api.h"

enum cu_graph_node_type {
	CU_NODE_KERNEL = 0,
	CU_NODE_MEMCPY = 1,
	CU_NODE_MEMSET = 2,
	CU_NODE_HOST = 3,
	CU_NODE_GRAPH = 4,
	CU_NODE_EMPTY = 5,
	CU_NODE_WAIT_EVENT = 6,
	CU_NODE_EVENT_RECORD = 7,
	CU_NODE_SEMAPHORES_SIGNAL = 8,
	CU_NODE_SEMAPHORES_WAIT = 9,
	CU_NODE_MEM_ALLOC = 10,
	CU_NODE_MEM_FREE = 11,
	CU_NODE_BATCH_MEM_OP = 12,
	CU_NODE_CONDITIONAL = 13
};

/* The first ABI ends before kernel. */
struct cu_kernel_node {
	void *function; /* NULL: kernel */
	unsigned grid[3], block[3], shared_bytes;
	void **params, **extra;
	struct cu_kernel *kernel;
	struct cu_context *context;
};

#define CU_KERNEL_NODE_V1_BYTES offsetof(struct cu_kernel_node, kernel)

/* With the context behind it in struct cu_node_params. */
struct cu_memset_node {
	uint64_t addr;
	size_t pitch;
	unsigned value, element_bytes;
	size_t width, height; /* elements; rows */
};

struct cu_batch_node {
	struct cu_context *context;
	unsigned n;
	struct cu_memop *ops;
	unsigned flags;
};

struct cu_host_node {
	void (*function)(void *argument);
	void *argument;
};

/* Signals or waits; their parameters are the driver's. */
struct cu_semaphores_node {
	void *const *semaphores;
	const void *params;
	unsigned n;
};

struct cu_memcpy_node {
	int flags, reserved;
	struct cu_context *context;
	struct cu_copy_3d copy;
};

/* Any node. */
struct cu_node_params {
	int type; /* enum cu_graph_node_type */
	int reserved0[3];
	union {
		long long room[29];
		struct cu_kernel_node kernel;
		struct cu_memcpy_node copy;
		struct cu_memset_node fill;
		struct cu_graph *graph;
		struct cu_batch_node memops;
		struct cu_host_node host;
		struct cu_event *event;
		struct cu_semaphores_node semaphores;
	};
	long long reserved1;
};

struct cu_instantiate_params {
	uint64_t flags;
	struct cu_stream *upload_stream;
	struct cu_graph_node *failed;
	int result;
};

enum { CU_INSTANTIATE_DEVICE_LAUNCH = 4, CU_INSTANTIATE_NODE_PRIORITY = 8 };

/* Attribute of a kernel node: running kernels may change it. */
#define CU_NODE_ATTRIBUTE_DEVICE_UPDATABLE 13

union cu_node_attribute {
	char room[64];
	int device_updatable;
};

_Static_assert(CU_KERNEL_NODE_V1_BYTES == 56, "ABI");
_Static_assert(sizeof(struct cu_kernel_node) == 72, "ABI");
_Static_assert(sizeof(struct cu_memset_node) == 40, "ABI");
_Static_assert(sizeof(struct cu_batch_node) == 32, "ABI");
_Static_assert(sizeof(struct cu_memcpy_node) == 216, "ABI");
_Static_assert(sizeof(struct cu_host_node) == 16, "ABI");
_Static_assert(sizeof(struct cu_semaphores_node) == 24, "ABI");
_Static_assert(sizeof(struct cu_node_params) == 256, "ABI");
_Static_assert(sizeof(struct cu_instantiate_params) == 32, "ABI");

PL_EXPORT int cuGraphAddMemcpyNode(struct cu_graph_node **out, struct cu_graph *graph,
				   struct cu_graph_node *const *before, size_t n,
				   const struct cu_copy_3d *copy,
				   struct cu_context *context);
PL_EXPORT int cuGraphAddMemsetNode(struct cu_graph_node **out, struct cu_graph *graph,
				   struct cu_graph_node *const *before, size_t n,
				   const struct cu_memset_node *params,
				   struct cu_context *context);
PL_EXPORT int cuGraphAddBatchMemOpNode(struct cu_graph_node **out, struct cu_graph *graph,
				       struct cu_graph_node *const *before, size_t n,
				       const struct cu_batch_node *params);
PL_EXPORT int cuGraphAddNode(struct cu_graph_node **out, struct cu_graph *graph,
			     struct cu_graph_node *const *before, size_t n,
			     struct cu_node_params *params);
PL_EXPORT int cuGraphAddNode_v2(struct cu_graph_node **out, struct cu_graph *graph,
				struct cu_graph_node *const *before, const void *edges,
				size_t n, struct cu_node_params *params);
PL_EXPORT int cuGraphMemcpyNodeSetParams(struct cu_graph_node *node,
					 const struct cu_copy_3d *copy);
PL_EXPORT int cuGraphMemsetNodeSetParams(struct cu_graph_node *node,
					 const struct cu_memset_node *params);
PL_EXPORT int cuGraphBatchMemOpNodeSetParams(struct cu_graph_node *node,
					     const struct cu_batch_node *params);
PL_EXPORT int cuGraphNodeSetParams(struct cu_graph_node *node, struct cu_node_params *params);
PL_EXPORT int cuGraphInstantiate(struct cu_graph_exec **exec, struct cu_graph *graph,
				 struct cu_graph_node **failed, char *log, size_t log_bytes);
PL_EXPORT int cuGraphInstantiate_v2(struct cu_graph_exec **exec, struct cu_graph *graph,
				    struct cu_graph_node **failed, char *log,
				    size_t log_bytes);
PL_EXPORT int cuGraphInstantiateWithFlags(struct cu_graph_exec **exec,
					  struct cu_graph *graph, unsigned long long flags);
PL_BOTH(cuGraphInstantiateWithParams, ptsz,
	(struct cu_graph_exec * *exec, struct cu_graph *graph,
	 struct cu_instantiate_params *params));
PL_EXPORT int cuGraphExecUpdate(struct cu_graph_exec *exec, struct cu_graph *graph,
				struct cu_graph_node **failed, int *why);
PL_EXPORT int cuGraphExecUpdate_v2(struct cu_graph_exec *exec, struct cu_graph *graph,
				   void *why);
PL_EXPORT int cuGraphExecKernelNodeSetParams(struct cu_graph_exec *exec,
					     struct cu_graph_node *node,
					     const struct cu_kernel_node *params);
PL_EXPORT int cuGraphExecKernelNodeSetParams_v2(struct cu_graph_exec *exec,
						struct cu_graph_node *node,
						const struct cu_kernel_node *params);
PL_EXPORT int cuGraphExecMemcpyNodeSetParams(struct cu_graph_exec *exec,
					     struct cu_graph_node *node,
					     const struct cu_copy_3d *copy,
					     struct cu_context *context);
PL_EXPORT int cuGraphExecMemsetNodeSetParams(struct cu_graph_exec *exec,
					     struct cu_graph_node *node,
					     const struct cu_memset_node *params,
					     struct cu_context *context);
PL_EXPORT int cuGraphExecBatchMemOpNodeSetParams(struct cu_graph_exec *exec,
						 struct cu_graph_node *node,
						 const struct cu_batch_node *params);
PL_EXPORT int cuGraphExecChildGraphNodeSetParams(struct cu_graph_exec *exec,
						 struct cu_graph_node *node,
						 struct cu_graph *child);
PL_EXPORT int cuGraphExecNodeSetParams(struct cu_graph_exec *exec, struct cu_graph_node *node,
				       struct cu_node_params *params);
PL_EXPORT int cuGraphExecHostNodeSetParams(struct cu_graph_exec *exec,
					   struct cu_graph_node *node,
					   const struct cu_host_node *params);
PL_EXPORT int cuGraphExecEventRecordNodeSetEvent(struct cu_graph_exec *exec,
						 struct cu_graph_node *node,
						 struct cu_event *event);
PL_EXPORT int cuGraphExecEventWaitNodeSetEvent(struct cu_graph_exec *exec,
					       struct cu_graph_node *node,
					       struct cu_event *event);
PL_EXPORT int cuGraphExecExternalSemaphoresSignalNodeSetParams(
	struct cu_graph_exec *exec, struct cu_graph_node *node,
	const struct cu_semaphores_node *params);
PL_EXPORT int cuGraphExecExternalSemaphoresWaitNodeSetParams(
	struct cu_graph_exec *exec, struct cu_graph_node *node,
	const struct cu_semaphores_node *params);
PL_EXPORT int cuGraphNodeSetEnabled(struct cu_graph_exec *exec,
				    struct cu_graph_node *node, unsigned enabled);
PL_EXPORT int cuGraphExecDestroy(struct cu_graph_exec *exec);
/* clang-format off */
PL_BOTH(cuGraphUpload, ptsz, (struct cu_graph_exec *exec, struct cu_stream *stream));
PL_BOTH(cuGraphLaunch, ptsz, (struct cu_graph_exec *exec, struct cu_stream *stream));
/* clang-format on */

/* Called by us, wrapped by nobody. */
int cuGraphGetNodes(struct cu_graph *graph, struct cu_graph_node **nodes, size_t *n);
int cuGraphGetEdges_v2(struct cu_graph *graph, struct cu_graph_node **from,
		       struct cu_graph_node **to, uint64_t *data, size_t *n);
int cuGraphClone(struct cu_graph **out, struct cu_graph *graph);
int cuGraphDestroy(struct cu_graph *graph);
int cuGraphNodeFindInClone(struct cu_graph_node **out, struct cu_graph_node *node,
			   struct cu_graph *clone);
int cuGraphDestroyNode(struct cu_graph_node *node);
int cuGraphNodeGetType(struct cu_graph_node *node, int *type);
int cuGraphKernelNodeGetParams_v2(struct cu_graph_node *node, struct cu_kernel_node *params);
int cuGraphKernelNodeGetAttribute(struct cu_graph_node *node, int attribute,
				  union cu_node_attribute *value);
int cuGraphMemcpyNodeGetParams(struct cu_graph_node *node, struct cu_copy_3d *copy);
int cuGraphMemsetNodeGetParams(struct cu_graph_node *node, struct cu_memset_node *params);
int cuGraphBatchMemOpNodeGetParams(struct cu_graph_node *node, struct cu_batch_node *params);
int cuGraphChildGraphNodeGetGraph(struct cu_graph_node *node, struct cu_graph **graph);

#endif
