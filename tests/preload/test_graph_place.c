/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of graphs that name evicted memory. The driver checks it when a node is made or changed,
 * and this one refuses a range in two places. Each call that makes or changes a copy or a fill
 * is tried, then a copy larger than the device, and the effect of the graphs.
 */
#include "work.h"

#define MIB     ((uint64_t)1 << 20)
#define N       (4 * MIB / sizeof(uint64_t)) /* elements of a buffer */
#define BYTES   (N * sizeof(uint64_t))
#define BUFFERS 12u
#define BUDGET  16u /* MiB; the buffers are 48 */
#define LARGE   (12 * MIB / sizeof(uint64_t))

static struct work w;
static uint64_t buffer[BUFFERS];

/* Of `number` and the one behind it nothing is on the device, then the first half of each is. */
static void
halve(unsigned number)
{
	for (unsigned i = 1; i <= 8; i++) /* twice the budget */
		work_launch(&w, WORK_ADD, NULL, buffer[(number + 1 + i) % BUFFERS], N, 0);
	for (unsigned i = 0; i < 2; i++)
		OK(w.cuMemcpyDtoDAsync_v2(buffer[number + i], buffer[number + i],
					  BYTES / 2, NULL));
	OK(w.cuCtxSynchronize());
	for (unsigned i = 0; i < 2; i++)
		CHECK(!w.standin->mapped(0, buffer[number + i], BYTES, SL_STANDIN_READ));
}

static struct cu_memset_node
fill_of(uint64_t to)
{
	return (struct cu_memset_node){
		.addr = to, .value = 1, .element_bytes = 1, .width = BYTES, .height = 1};
}

static struct cu_node_params
params_of_copy(const struct cu_copy_3d *copy)
{
	struct cu_node_params params = {.type = CU_NODE_MEMCPY};

	params.copy.context = w.context;
	params.copy.copy = *copy;
	return params;
}

static struct cu_node_params
params_of_fill(uint64_t to)
{
	struct cu_node_params params = {.type = CU_NODE_MEMSET};

	params.fill = fill_of(to);
	return params;
}

/* Launch it once; buffer 1 is a copy of buffer 0, and buffer 3 is filled. */
static void
ran(struct cu_graph_exec *exec)
{
	work_write(&w, buffer[0], N, 77);
	work_write(&w, buffer[1], N, 0);
	work_write(&w, buffer[3], N, 0);
	OK(w.cuGraphLaunch(exec, NULL));
	work_expect(&w, buffer[0], N, 77);
	work_expect(&w, buffer[1], N, 77);
	work_expect(&w, buffer[3], N, 0x0101010101010101u);
}

static void
instantiated_and_ran(struct cu_graph *graph)
{
	struct cu_graph_exec *exec;

	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(w.cuGraphDestroy(graph));
	ran(exec);
	OK(w.cuGraphExecDestroy(exec));
}

enum way { ADD_ONE, ADD_ANY, ADD_ANY_V2, WAYS };

static void
node_is_made_of_what_is_away(enum way way)
{
	struct cu_copy_3d copy = work_copy(buffer[1], buffer[0], BYTES);
	struct cu_node_params params = params_of_copy(&copy),
			      fill = params_of_fill(buffer[3]);
	struct cu_memset_node fill_one = fill_of(buffer[3]);
	struct cu_graph *graph;

	OK(w.cuGraphCreate(&graph, 0));
	halve(0);
	OK(way == ADD_ONE ? w.cuGraphAddMemcpyNode(NULL, graph, NULL, 0, &copy, w.context)
	   : way == ADD_ANY ? w.cuGraphAddNode(NULL, graph, NULL, 0, &params)
			    : w.cuGraphAddNode_v2(NULL, graph, NULL, NULL, 0, &params));
	halve(2);
	OK(way == ADD_ONE ? w.cuGraphAddMemsetNode(NULL, graph, NULL, 0, &fill_one, w.context)
	   : way == ADD_ANY ? w.cuGraphAddNode(NULL, graph, NULL, 0, &fill)
			    : w.cuGraphAddNode_v2(NULL, graph, NULL, NULL, 0, &fill));
	instantiated_and_ran(graph);
}

/* Nodes of other buffers, set to those that are away: any, or by the call for their type. */
static void
node_is_set_to_what_is_away(int any, int executable)
{
	struct cu_copy_3d copy = work_copy(buffer[5], buffer[4], BYTES);
	struct cu_copy_3d new_copy = work_copy(buffer[1], buffer[0], BYTES);
	struct cu_node_params params = params_of_copy(&new_copy),
			      fill = params_of_fill(buffer[3]);
	struct cu_memset_node old_fill = fill_of(buffer[6]), new_fill = fill_of(buffer[3]);
	struct cu_graph_exec *exec = NULL;
	struct cu_graph_node *nodes[2];
	struct cu_graph *graph;

	OK(w.cuGraphCreate(&graph, 0));
	OK(w.cuGraphAddMemcpyNode(&nodes[0], graph, NULL, 0, &copy, w.context));
	OK(w.cuGraphAddMemsetNode(&nodes[1], graph, NULL, 0, &old_fill, w.context));
	if (executable)
		OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	halve(0);
	if (executable)
		OK(any ? w.cuGraphExecNodeSetParams(exec, nodes[0], &params)
		       : w.cuGraphExecMemcpyNodeSetParams(exec, nodes[0], &new_copy,
							  w.context));
	else
		OK(any ? w.cuGraphNodeSetParams(nodes[0], &params)
		       : w.cuGraphMemcpyNodeSetParams(nodes[0], &new_copy));
	halve(2);
	if (executable)
		OK(any ? w.cuGraphExecNodeSetParams(exec, nodes[1], &fill)
		       : w.cuGraphExecMemsetNodeSetParams(exec, nodes[1], &new_fill,
							  w.context));
	else
		OK(any ? w.cuGraphNodeSetParams(nodes[1], &fill)
		       : w.cuGraphMemsetNodeSetParams(nodes[1], &new_fill));
	if (!executable) {
		instantiated_and_ran(graph);
		return;
	}
	ran(exec);
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
}

/* Both sides have no room on the device together. */
static void
copy_larger_than_the_device_is_made_and_runs(void)
{
	uint64_t from = work_alloc(&w, LARGE, 5), to = work_alloc(&w, LARGE, 6);
	struct cu_copy_3d copy = work_copy(to, from, LARGE * sizeof(uint64_t));
	struct cu_graph_exec *exec;
	struct cu_graph *graph;

	OK(w.cuGraphCreate(&graph, 0));
	OK(w.cuGraphAddMemcpyNode(NULL, graph, NULL, 0, &copy, w.context));
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(w.cuGraphLaunch(exec, NULL));
	work_expect(&w, to, LARGE, 5);
	work_expect(&w, from, LARGE, 5);
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
	OK(w.cuMemFree_v2(from));
	OK(w.cuMemFree_v2(to));
}

/* What the driver refuses for another reason is refused once. */
static void
nonsense_is_refused(void)
{
	struct cu_copy_3d copy = work_copy(buffer[0], 4096, BYTES);
	struct cu_graph *graph;

	OK(w.cuGraphCreate(&graph, 0));
	CHECK(w.cuGraphAddMemcpyNode(NULL, graph, NULL, 0, &copy, w.context) ==
	      CU_ERROR_INVALID_VALUE);
	OK(w.cuGraphDestroy(graph));
	w.standin->violations_reset();
}

int
main(void)
{
	CHECK(!setenv("CUDA_STANDIN_NO_MIXED", "1", 1));
	CHECK(!setenv("SLUICE_RUN", "quiet=1,arguments=trust,follow=never", 1));
	work_start(&w, BUDGET, 256);
	for (unsigned i = 0; i < BUFFERS; i++)
		buffer[i] = work_alloc(&w, N, i);
	for (int way = 0; way < WAYS; way++)
		node_is_made_of_what_is_away(way);
	for (int any = 0; any < 2; any++)
		for (int executable = 0; executable < 2; executable++)
			node_is_set_to_what_is_away(any, executable);
	copy_larger_than_the_device_is_made_and_runs();
	nonsense_is_refused();
	for (unsigned i = 0; i < BUFFERS; i++)
		OK(w.cuMemFree_v2(buffer[i]));
	OK(w.cuModuleUnload(w.module));
	work_end(&w);
	return 0;
}
