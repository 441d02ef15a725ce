/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs under the preload library. Captures see nothing of it, and a launch finds the data of
 * its nodes on the device, wherever they were before. The device budget is a quarter of the
 * program's data.
 */
#include <string.h>

#include "work.h"

#define MIB     ((uint64_t)1 << 20)
#define N       (4 * MIB / sizeof(uint64_t)) /* elements of a buffer */
#define BUFFERS 16u
#define BUDGET  16u /* MiB; the buffers are 64 */
#define HOST    256u
#define ROUNDS  4u

static struct work w;
static uint64_t buffer[BUFFERS], expected[BUFFERS];

/* Use all in turn: most of it goes to where there is room. */
static void
use_all(void)
{
	for (unsigned i = 0; i < BUFFERS; i++) {
		work_launch(&w, WORK_ADD, NULL, buffer[i], N, 1);
		expected[i]++;
	}
}

static void
check_all(void)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		work_expect(&w, buffer[i], N, expected[i]);
}

static void
captured_graph_gets_no_node_of_ours(void)
{
	struct cu_graph_exec *exec;
	struct cu_stream *stream;
	struct cu_graph *graph;
	size_t n = 0;

	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	use_all(); /* and the driver looks at what is filled, wherever it went */
	OK(w.cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
	work_launch(&w, WORK_ADD, stream, buffer[0], N, 5);
	work_launch(&w, WORK_ADD, stream, buffer[1], N, 7);
	OK(w.cuMemsetD8Async(buffer[2], 0, N * sizeof(uint64_t), stream));
	OK(w.cuStreamEndCapture(stream, &graph));
	OK(w.cuGraphGetNodes(graph, NULL, &n));
	CHECK(n == 3);
	check_all(); /* nothing ran */
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(w.cuGraphDestroy(graph));
	OK(w.cuGraphUpload(exec, stream));
	for (unsigned round = 0; round < ROUNDS; round++) {
		use_all();
		OK(w.cuCtxSynchronize());
		OK(w.cuGraphLaunch(exec, stream));
		expected[0] += 5;
		expected[1] += 7;
		expected[2] = 0;
		OK(w.cuStreamSynchronize(stream));
		check_all();
	}
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuStreamDestroy_v2(stream));
}

static void
per_thread_stream_is_captured_as_well(void)
{
	struct cu_graph_exec *exec;
	struct cu_graph *graph;
	uint64_t p = buffer[3], n = N, v = 9;
	void *params[] = {&p, &n, &v};

	OK(w.cuStreamBeginCapture_v2_ptsz(NULL, CU_CAPTURE_MODE_THREAD_LOCAL));
	OK(w.cuLaunchKernel_ptsz(w.kernel[WORK_ADD], 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	OK(w.cuStreamEndCapture_ptsz(NULL, &graph));
	OK(w.cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
	use_all();
	OK(w.cuGraphLaunch_ptsz(exec, NULL));
	expected[3] += 9;
	OK(w.cuStreamSynchronize_ptsz(NULL));
	check_all();
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
}

/* add 3 to 4, copy 4 to 5, fill 6. */
static void
graph_make(struct cu_graph **graph, struct cu_graph_node *nodes[3])
{
	struct cu_copy_3d copy = work_copy(buffer[5], buffer[4], N * sizeof(uint64_t));
	struct cu_memset_node fill = {.addr = buffer[6],
				      .value = 0,
				      .element_bytes = 1,
				      .width = N * sizeof(uint64_t),
				      .height = 1};
	uint64_t values[3] = {buffer[4], N, 3};
	struct cu_kernel_node kernel;
	void *params[3];

	kernel = work_node(&w, WORK_ADD, values, params);
	OK(w.cuGraphCreate(graph, 0));
	OK(w.cuGraphAddKernelNode_v2(&nodes[0], *graph, NULL, 0, &kernel));
	OK(w.cuGraphAddMemcpyNode(&nodes[1], *graph, &nodes[0], 1, &copy, w.context));
	OK(w.cuGraphAddMemsetNode(&nodes[2], *graph, &nodes[1], 1, &fill, w.context));
}

static void
graph_ran(void)
{
	expected[4] += 3;
	expected[5] = expected[4];
	expected[6] = 0;
}

static void
made_graph_and_its_clone_find_their_buffers(void)
{
	struct cu_graph_node *nodes[3];
	struct cu_graph_exec *execs[2];
	struct cu_graph *graph, *clone;
	struct cu_instantiate_params how = {0};

	graph_make(&graph, nodes);
	OK(w.cuGraphClone(&clone, graph));
	OK(w.cuGraphInstantiateWithParams(&execs[0], graph, &how));
	OK(w.cuGraphDestroy(graph));
	OK(w.cuGraphInstantiateWithFlags(&execs[1], clone, 0));
	OK(w.cuGraphDestroy(clone));
	for (unsigned i = 0; i < 2; i++) {
		use_all();
		OK(w.cuGraphLaunch(execs[i], NULL));
		graph_ran();
		check_all();
		OK(w.cuGraphExecDestroy(execs[i]));
	}
}

static void
graph_inside_of_a_graph_is_seen(void)
{
	struct cu_graph_node *nodes[3], *inside;
	struct cu_graph *graph, *outer;
	struct cu_graph_exec *exec;

	graph_make(&graph, nodes);
	OK(w.cuGraphCreate(&outer, 0));
	OK(w.cuGraphAddChildGraphNode(&inside, outer, NULL, 0, graph));
	OK(w.cuGraphAddChildGraphNode(&inside, outer, &inside, 1, graph));
	OK(w.cuGraphInstantiateWithFlags(&exec, outer, 0));
	use_all();
	OK(w.cuGraphLaunch(exec, NULL));
	graph_ran();
	graph_ran();
	check_all();
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(outer));
	OK(w.cuGraphDestroy(graph));
}

static void
nodes_that_are_set_touch_what_they_were_set_to(void)
{
	struct cu_copy_3d copy = work_copy(buffer[8], buffer[7], N * sizeof(uint64_t));
	struct cu_memset_node fill = {.addr = buffer[9],
				      .value = 0,
				      .element_bytes = 1,
				      .width = N * sizeof(uint64_t),
				      .height = 1};
	uint64_t values[3] = {buffer[7], N, 11};
	struct cu_graph_node *nodes[3];
	struct cu_graph_exec *exec;
	struct cu_kernel_node kernel;
	struct cu_graph *graph;
	void *params[3];

	graph_make(&graph, nodes);
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	kernel = work_node(&w, WORK_ADD, values, params);
	OK(w.cuGraphExecKernelNodeSetParams_v2(exec, nodes[0], &kernel));
	OK(w.cuGraphExecMemcpyNodeSetParams(exec, nodes[1], &copy, w.context));
	OK(w.cuGraphExecMemsetNodeSetParams(exec, nodes[2], &fill, w.context));
	use_all();
	OK(w.cuGraphLaunch(exec, NULL));
	expected[7] += 11;
	expected[8] = expected[7];
	expected[9] = 0;
	check_all();
	/* The first ABI ends before the field that says which kernel. */
	values[0] = buffer[10];
	kernel.kernel = (struct cu_kernel *)1;
	OK(w.cuGraphExecKernelNodeSetParams(exec, nodes[0], &kernel));
	use_all();
	OK(w.cuGraphLaunch(exec, NULL));
	expected[10] += 11;
	expected[8] = expected[7];
	expected[9] = 0;
	check_all();
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
}

static void
update_brings_the_other_graphs_buffers(void)
{
	struct cu_copy_3d copy = work_copy(buffer[12], buffer[11], N * sizeof(uint64_t));
	struct cu_memset_node fill = {.addr = buffer[13],
				      .value = 0,
				      .element_bytes = 4,
				      .width = N * 2,
				      .height = 1};
	uint64_t values[3] = {buffer[11], N, 13};
	struct cu_graph_node *nodes[3], *others[3];
	struct cu_graph *graph, *other;
	struct cu_graph_exec *exec;
	struct cu_kernel_node kernel;
	void *params[3];

	graph_make(&graph, nodes);
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	kernel = work_node(&w, WORK_ADD, values, params);
	OK(w.cuGraphCreate(&other, 0));
	OK(w.cuGraphAddKernelNode_v2(&others[0], other, NULL, 0, &kernel));
	OK(w.cuGraphAddMemcpyNode(&others[1], other, &others[0], 1, &copy, w.context));
	OK(w.cuGraphAddMemsetNode(&others[2], other, &others[1], 1, &fill, w.context));
	OK(w.cuGraphExecUpdate_v2(exec, other, NULL));
	OK(w.cuGraphDestroy(other));
	use_all();
	OK(w.cuGraphLaunch(exec, NULL));
	expected[11] += 13;
	expected[12] = expected[11];
	expected[13] = 0;
	check_all();
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
}

static void
buffer_that_was_freed_and_allocated_anew_is_found_by_its_address(void)
{
	struct cu_graph_node *nodes[3];
	struct cu_graph_exec *exec;
	struct cu_graph *graph;
	uint64_t again[BUFFERS];
	unsigned n;

	graph_make(&graph, nodes);
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(w.cuCtxSynchronize());
	OK(w.cuMemFree_v2(buffer[4]));
	/* All that was queued is done: it comes again with one of the next. */
	for (n = 0; n < BUFFERS; n++) {
		again[n] = work_alloc(&w, N, 1);
		if (again[n] == buffer[4])
			break;
		OK(w.cuCtxSynchronize());
	}
	CHECK(n < BUFFERS);
	while (n--)
		OK(w.cuMemFree_v2(again[n]));
	expected[4] = 1;
	use_all();
	OK(w.cuGraphLaunch(exec, NULL));
	graph_ran();
	check_all();
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
}

/* More than all of the device: what does not fit is reached. */
static void
graph_larger_than_the_device_runs(void)
{
	struct cu_graph_exec *exec;
	struct cu_graph *graph;

	OK(w.cuGraphCreate(&graph, 0));
	for (unsigned i = 0; i < BUFFERS; i++) {
		uint64_t values[3] = {buffer[i], N, i};
		void *params[3];
		struct cu_kernel_node kernel = work_node(&w, WORK_ADD, values, params);

		OK(w.cuGraphAddKernelNode_v2(NULL, graph, NULL, 0, &kernel));
	}
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(w.cuGraphDestroy(graph));
	for (unsigned round = 0; round < 2; round++) {
		OK(w.cuGraphLaunch(exec, NULL));
		for (unsigned i = 0; i < BUFFERS; i++)
			expected[i] += i;
	}
	check_all();
	OK(w.cuGraphExecDestroy(exec));
}

/* The driver runs out of memory when the graph is launched, for which all of the device is held: room is made without. */
static void
driver_without_memory_for_a_large_graph_gets_some(void)
{
	struct cu_graph_exec *exec;
	struct cu_graph *graph;

	OK(w.cuGraphCreate(&graph, 0));
	for (unsigned i = 0; i < BUFFERS; i++) {
		uint64_t values[3] = {buffer[i], N, 1};
		void *params[3];
		struct cu_kernel_node kernel = work_node(&w, WORK_ADD, values, params);

		OK(w.cuGraphAddKernelNode_v2(NULL, graph, NULL, 0, &kernel));
		expected[i]++;
	}
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(w.cuGraphDestroy(graph));
	CHECK(!w.standin->fail_set("cuGraphLaunch:1:2"));
	OK(w.cuGraphLaunch(exec, NULL));
	CHECK(w.standin->fail_fired() == 1 && !w.standin->fail_set(NULL));
	check_all();
	OK(w.cuGraphExecDestroy(exec));
}

static int
is_mapped(uint64_t p)
{
	OK(w.cuCtxSynchronize());
	return w.standin->mapped(0, p, N * sizeof(uint64_t),
				 SL_STANDIN_READ | SL_STANDIN_WRITE);
}

static void
graph_that_kernels_launch_has_its_buffers_at_any_time(void)
{
	uint64_t values[3] = {buffer[1], N, 1};
	void *params[3];
	struct cu_kernel_node kernel = work_node(&w, WORK_ADD, values, params);
	struct cu_graph_exec *exec;
	struct cu_graph_node *node;
	struct cu_graph *graph;

	OK(w.cuGraphCreate(&graph, 0));
	OK(w.cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &kernel));
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, CU_INSTANTIATE_DEVICE_LAUNCH));
	use_all();
	CHECK(is_mapped(buffer[1]) && !is_mapped(buffer[2]));
	values[0] = buffer[2];
	OK(w.cuGraphExecKernelNodeSetParams_v2(exec, node, &kernel));
	use_all();
	CHECK(is_mapped(buffer[1]) && is_mapped(buffer[2]) && !is_mapped(buffer[3]));
	check_all();
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
}

int
main(void)
{
	uint64_t moved;

	work_start(&w, BUDGET, HOST);
	for (unsigned i = 0; i < BUFFERS; i++) {
		expected[i] = 1000 + i;
		buffer[i] = work_alloc(&w, N, expected[i]);
	}
	captured_graph_gets_no_node_of_ours();
	per_thread_stream_is_captured_as_well();
	made_graph_and_its_clone_find_their_buffers();
	graph_inside_of_a_graph_is_seen();
	nodes_that_are_set_touch_what_they_were_set_to();
	update_brings_the_other_graphs_buffers();
	buffer_that_was_freed_and_allocated_anew_is_found_by_its_address();
	graph_larger_than_the_device_runs();
	driver_without_memory_for_a_large_graph_gets_some();
	graph_that_kernels_launch_has_its_buffers_at_any_time();
	/* All this had to move. */
	moved = w.standin->calls("cuMemUnmap");
	CHECK(moved > BUFFERS);
	for (unsigned i = 0; i < BUFFERS; i++)
		OK(w.cuMemFree_v2(buffer[i]));
	OK(w.cuModuleUnload(w.module));
	work_end(&w);
	return 0;
}
