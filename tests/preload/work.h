/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program for the driver under the preload library, for tests of streams, graphs and foreign
 * memory. It has driver calls by name, the way programs get them; a module with kernels; buffers
 * with known contents. The stand-in tells what was really done.
 *
 * Kernels count in elements of 8 bytes and take (uint64_t p, uint64_t n, uint64_t v). WORK_ADD
 * adds v to each. WORK_COPY copies n from v to p. WORK_GATE waits until the word at v in pinned
 * memory is not 0, then adds 1 to each.
 *
 * Threads: as the driver's. A failure ends the program.
 */
#ifndef SL_TESTS_PRELOAD_WORK_H
#define SL_TESTS_PRELOAD_WORK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_driver/standin.h"
#include "preload/api/api_alloc.h"
#include "preload/api/api_copy.h"
#include "preload/api/api_fill.h"
#include "preload/api/api_foreign.h"
#include "preload/api/api_graph.h"
#include "preload/api/api_stream.h"

#define CUDA_SYMBOL(name, exported, need, ...) int exported(__VA_ARGS__);
#include "device/cuda/cuda_symbols.def"
#undef CUDA_SYMBOL
int cuLaunchKernel_ptsz(struct cu_function *function, unsigned grid_x, unsigned grid_y,
			unsigned grid_z, unsigned block_x, unsigned block_y,
			unsigned block_z, unsigned shared_bytes, struct cu_stream *stream,
			void **params, void **extra);
int cuStreamSynchronize_ptsz(struct cu_stream *stream);
int cuGraphCreate(struct cu_graph **graph, unsigned flags);
int cuGraphClone(struct cu_graph **out, struct cu_graph *graph);
int cuGraphAddKernelNode_v2(struct cu_graph_node **out, struct cu_graph *graph,
			    struct cu_graph_node *const *before, size_t n,
			    const struct cu_kernel_node *params);
int cuGraphAddMemAllocNode(struct cu_graph_node **out, struct cu_graph *graph,
			   struct cu_graph_node *const *before, size_t n, void *params);
int cuGraphAddEventRecordNode(struct cu_graph_node **out, struct cu_graph *graph,
			      struct cu_graph_node *const *before, size_t n,
			      struct cu_event *event);
int cuGraphAddEventWaitNode(struct cu_graph_node **out, struct cu_graph *graph,
			    struct cu_graph_node *const *before, size_t n,
			    struct cu_event *event);
int cuGraphAddEmptyNode(struct cu_graph_node **out, struct cu_graph *graph,
			struct cu_graph_node *const *before, size_t n);
int cuGraphNodeGetEnabled(struct cu_graph_exec *exec, struct cu_graph_node *node,
			  unsigned *enabled);
int cuGraphAddChildGraphNode(struct cu_graph_node **out, struct cu_graph *graph,
			     struct cu_graph_node *const *before, size_t n,
			     struct cu_graph *child);

/* clang-format off */
#define WORK_CALLS(C) \
	C(cuCtxSetCurrent) C(cuCtxSynchronize) C(cuDevicePrimaryCtxRelease_v2) \
	C(cuDevicePrimaryCtxReset_v2) C(cuDevicePrimaryCtxRetain) C(cuEventCreate) \
	C(cuEventDestroy_v2) C(cuEventElapsedTime) C(cuEventRecord) C(cuEventSynchronize) \
	C(cuGraphAddBatchMemOpNode) C(cuGraphAddChildGraphNode) C(cuGraphAddEmptyNode) \
	C(cuGraphAddEventRecordNode) C(cuGraphAddEventWaitNode) \
	C(cuGraphAddKernelNode_v2) C(cuGraphAddMemAllocNode) C(cuGraphAddMemcpyNode) C(cuGraphAddMemsetNode) \
	C(cuGraphAddNode) C(cuGraphAddNode_v2) \
	C(cuGraphClone) C(cuGraphCreate) C(cuGraphDestroy) C(cuGraphExecBatchMemOpNodeSetParams) C(cuGraphExecDestroy) \
	C(cuGraphExecEventRecordNodeSetEvent) C(cuGraphExecEventWaitNodeSetEvent) \
	C(cuGraphExecKernelNodeSetParams) C(cuGraphExecKernelNodeSetParams_v2) \
	C(cuGraphExecMemcpyNodeSetParams) C(cuGraphExecMemsetNodeSetParams) \
	C(cuGraphExecChildGraphNodeSetParams) C(cuGraphExecHostNodeSetParams) C(cuGraphNodeGetEnabled) C(cuGraphNodeSetEnabled) \
	C(cuGraphExecNodeSetParams) C(cuGraphMemcpyNodeSetParams) \
	C(cuGraphMemsetNodeSetParams) C(cuGraphNodeSetParams) \
	C(cuGraphExecUpdate_v2) C(cuGraphGetNodes) C(cuGraphInstantiate) \
	C(cuGraphInstantiateWithFlags) C(cuGraphInstantiateWithParams) \
	C(cuGraphLaunch) C(cuGraphLaunch_ptsz) C(cuGraphUpload) C(cuInit) \
	C(cuIpcGetMemHandle) C(cuLaunchKernel) C(cuLaunchKernel_ptsz) \
	C(cuMemAddressFree) C(cuMemAddressReserve) C(cuMemAllocAsync) \
	C(cuMemAlloc_v2) C(cuMemCreate) C(cuMemFreeAsync) C(cuMemFreeHost) C(cuMemFree_v2) C(cuMemGetHandleForAddressRange) \
	C(cuMemGetInfo_v2) C(cuMemHostAlloc) C(cuMemMap) C(cuMemPoolTrimTo) C(cuMemRelease) \
	C(cuDeviceGetDefaultMemPool) C(cuStreamWaitEvent) \
	C(cuMemRetainAllocationHandle) C(cuMemSetAccess) C(cuMemUnmap) \
	C(cuMemcpyDtoDAsync_v2) C(cuMemcpyDtoDAsync_v2_ptsz) \
	C(cuMemcpyDtoHAsync_v2) C(cuMemcpyHtoDAsync_v2) C(cuMemsetD8Async) \
	C(cuMemsetD8Async_ptsz) \
	C(cuModuleGetFunction) C(cuModuleGetGlobal_v2) C(cuModuleLoadData) \
	C(cuModuleUnload) C(cuStreamBeginCapture) C(cuStreamBeginCaptureToGraph) \
	C(cuStreamBeginCaptureToGraph_ptsz) C(cuStreamBeginCapture_ptsz) \
	C(cuStreamBeginCapture_v2) C(cuStreamBeginCapture_v2_ptsz) C(cuStreamCreate) \
	C(cuStreamCreateWithPriority) C(cuStreamDestroy_v2) C(cuStreamEndCapture) \
	C(cuStreamEndCapture_ptsz) C(cuStreamQuery) C(cuStreamSynchronize) \
	C(cuStreamSynchronize_ptsz)
/* clang-format on */

#define CHECK(what)                                                                        \
	do {                                                                               \
		if (!(what)) {                                                             \
			fprintf(stderr, "%s:%d: %s: not so\n", __FILE__, __LINE__, #what); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

/* A driver call that must succeed. */
#define OK(call)                                                                      \
	do {                                                                          \
		int ok_result = (call);                                               \
		if (ok_result) {                                                      \
			fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, \
				ok_result);                                           \
			exit(1);                                                      \
		}                                                                     \
	} while (0)

enum work_kernel { WORK_ADD, WORK_COPY, WORK_GATE, WORK_KERNELS };

struct work {
/* NOLINTNEXTLINE(bugprone-macro-parentheses) */
#define WORK_MEMBER(name) __typeof__(&(name)) name;
	WORK_CALLS(WORK_MEMBER)
#undef WORK_MEMBER
	const struct sl_standin *standin;
	struct cu_context *context;
	struct cu_module *module;
	struct cu_function *kernel[WORK_KERNELS];
};

/* Start the driver, with these budgets (MiB), and the module. Ends the program with 77 without a preload
 * library or a stand-in driver. */
void work_start(struct work *w, unsigned device_mib, unsigned host_mib);
/* The same, but the library may have no space: the driver serves the program then. */
void work_open(struct work *w, unsigned device_mib, unsigned host_mib);
/* The stand-in saw no rule broken. */
void work_end(const struct work *w);

void work_launch(const struct work *w, enum work_kernel kernel, struct cu_stream *stream,
		 uint64_t p, uint64_t n, uint64_t v);
/* Open the gate of WORK_GATE at arg, a word, in a moment: a thread's function. */
void *work_gate_open(void *arg);
/* Parameters of a kernel's node; they point into values. */
struct cu_kernel_node work_node(const struct work *w, enum work_kernel kernel,
				uint64_t values[3], void *params[3]);
/* A copy of bytes within the device. */
struct cu_copy_3d work_copy(uint64_t to, uint64_t from, uint64_t bytes);

/* WORK_THREADS threads at once, each with a stream of its own. Each allocates WORK_BLOCK_BYTES, launches over the
 * first MiB of them, and frees them; so often. */
#define WORK_THREADS     4u
#define WORK_BLOCK_BYTES ((uint64_t)3 << 20)
void work_threads(const struct work *w, unsigned rounds);

/* n elements of device memory, each equal to value: written, and checked to be so. */
uint64_t work_alloc(const struct work *w, uint64_t n, uint64_t value);
void work_write(const struct work *w, uint64_t p, uint64_t n, uint64_t value);
void work_expect(const struct work *w, uint64_t p, uint64_t n, uint64_t value);

#endif
