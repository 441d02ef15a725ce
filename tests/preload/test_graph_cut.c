/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs that use more than the device has, under the preload library: launched in pieces, with
 * the results of the whole. Made of nodes at random, changed, updated, switched off, launched on
 * two streams; those that cannot be cut. The device budget is two thirds of the program's data,
 * and a node's data are half a piece's.
 */
#include <pthread.h>
#include <string.h>

#include "base/rng.h"
#include "work.h"

#define N         ((uint64_t)1 << 16) /* elements of a buffer: 512 KiB */
#define BYTES     (N * sizeof(uint64_t))
#define BUFFERS   48u
#define BUDGET    16u /* MiB; the buffers are 24 */
#define HOST      256u
#define NODES     48u
#define INSIDE    12u /* nodes of a graph inside of another */
#define ROUNDS    6u
#define FILL_WORD 0x0101010101010101u

enum kind { ADD, COPY_KERNEL, COPY, FILL, HOST_CALL, CHILD, KINDS };

struct node {
	enum kind kind;
	unsigned a, b; /* buffers: of a copy, to and from */
	uint64_t v;    /* that is added; of a fill, the byte */
	int disabled;
	const struct graph *inside;
	struct cu_graph_node *handle;
};

struct graph {
	struct node nodes[NODES];
	size_t n;
};

static struct work w;
static uint64_t buffer[BUFFERS], expected[BUFFERS];
static uint64_t host_sum, host_expected; /* host_sum: the streams', read when they are done */
static uint64_t host_values[64];
static struct sl_rng rng;
static struct cu_stream *streams[2];

/* ---- what a graph does ---- */

static void
host_call(void *argument)
{
	__atomic_fetch_add(&host_sum, *(const uint64_t *)argument, __ATOMIC_RELAXED);
}

static void
node_run(const struct node *node)
{
	if (node->disabled)
		return;
	switch (node->kind) {
	case ADD:
		expected[node->a] += node->v;
		return;
	case COPY_KERNEL:
	case COPY:
		expected[node->a] = expected[node->b];
		return;
	case FILL:
		expected[node->a] = FILL_WORD * node->v;
		return;
	case HOST_CALL:
		host_expected += host_values[node->v];
		return;
	case CHILD:
	case KINDS:
		return;
	}
}

static void
graph_run(const struct graph *graph)
{
	for (size_t i = 0; i < graph->n; i++) {
		node_run(&graph->nodes[i]);
		for (size_t k = 0;
		     graph->nodes[i].kind == CHILD && k < graph->nodes[i].inside->n; k++)
			node_run(&graph->nodes[i].inside->nodes[k]);
	}
}

static int
node_names(const struct node *node, unsigned number)
{
	if (node->kind != CHILD)
		return node->kind != HOST_CALL && (node->a == number || node->b == number);
	for (size_t i = 0; i < node->inside->n; i++)
		if (node_names(&node->inside->nodes[i], number))
			return 1;
	return 0;
}

/* Whether their order matters. */
static int
nodes_meet(const struct node *x, const struct node *y)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		if (node_names(x, i) && node_names(y, i))
			return 1;
	return 0;
}

/* ---- the driver's ---- */

/* Parameters of a node; room is what they point to. */
struct room {
	uint64_t values[3];
	void *params[3];
};

static void
node_params(const struct node *node, struct cu_node_params *params, struct room *room)
{
	memset(params, 0, sizeof(*params));
	room->values[0] = buffer[node->a];
	room->values[1] = N;
	room->values[2] = node->kind == ADD ? node->v : buffer[node->b];
	switch (node->kind) {
	case ADD:
	case COPY_KERNEL:
		params->type = CU_NODE_KERNEL;
		params->kernel = work_node(&w, node->kind == ADD ? WORK_ADD : WORK_COPY,
					   room->values, room->params);
		return;
	case COPY:
		params->type = CU_NODE_MEMCPY;
		params->copy.context = w.context;
		params->copy.copy = work_copy(buffer[node->a], buffer[node->b], BYTES);
		return;
	case FILL:
		params->type = CU_NODE_MEMSET;
		params->fill = (struct cu_memset_node){.addr = buffer[node->a],
						       .value = (unsigned)node->v,
						       .element_bytes = 1,
						       .width = BYTES,
						       .height = 1};
		return;
	case HOST_CALL:
		params->type = CU_NODE_HOST;
		params->host = (struct cu_host_node){host_call, &host_values[node->v]};
		return;
	case CHILD:
	case KINDS:
		return;
	}
}

/* Each node behind the one before. No graphs inside. */
static void
row_make(struct graph *graph, struct cu_graph **out)
{
	struct cu_node_params params;
	struct room room;

	OK(w.cuGraphCreate(out, 0));
	for (size_t i = 0; i < graph->n; i++) {
		struct cu_graph_node *last = i ? graph->nodes[i - 1].handle : NULL;

		node_params(&graph->nodes[i], &params, &room);
		OK(w.cuGraphAddNode(&graph->nodes[i].handle, *out, &last, i > 0, &params));
	}
}

static void
graph_make_flat(struct graph *graph, struct cu_graph **out)
{
	struct cu_graph_node *before[NODES];
	struct cu_node_params params;
	struct cu_graph *child;
	struct room room;

	OK(w.cuGraphCreate(out, 0));
	for (size_t i = 0; i < graph->n; i++) {
		struct node *node = &graph->nodes[i];
		size_t n = 0;

		for (size_t k = 0; k < i; k++)
			if (nodes_meet(&graph->nodes[k], node))
				before[n++] = graph->nodes[k].handle;
		if (node->kind == CHILD) {
			struct graph inside = *node->inside;

			row_make(&inside, &child);
			OK(w.cuGraphAddChildGraphNode(&node->handle, *out, before, n, child));
			OK(w.cuGraphDestroy(child));
			continue;
		}
		node_params(node, &params, &room);
		OK(w.cuGraphAddNode(&node->handle, *out, before, n, &params));
	}
}

static void
graph_fill(struct graph *graph, size_t n, const struct graph *inside)
{
	graph->n = n;
	for (size_t i = 0; i < n; i++) {
		struct node *node = &graph->nodes[i];

		node->kind = (enum kind)sl_rng_below(&rng, inside ? KINDS : CHILD);
		node->a = (unsigned)sl_rng_below(&rng, BUFFERS);
		node->b = node->kind == COPY || node->kind == COPY_KERNEL
				  ? (node->a + 1 + (unsigned)sl_rng_below(&rng, BUFFERS - 1)) %
					    BUFFERS
				  : node->a;
		node->v = 1 + sl_rng_below(&rng, 63);
		node->disabled = 0;
		node->inside = inside;
	}
}

static void
check_all(void)
{
	OK(w.cuCtxSynchronize());
	for (unsigned i = 0; i < BUFFERS; i++)
		work_expect(&w, buffer[i], N, expected[i]);
	CHECK(__atomic_load_n(&host_sum, __ATOMIC_RELAXED) == host_expected);
}

/* Launches of the driver's for one of the program's. */
static uint64_t
launch(struct cu_graph_exec *exec, const struct graph *graph, struct cu_stream *stream)
{
	uint64_t before = w.standin->calls("cuGraphLaunch");

	OK(w.cuGraphLaunch(exec, stream));
	graph_run(graph);
	return w.standin->calls("cuGraphLaunch") - before;
}

/* ---- changes ---- */

/* Through the call for this type of node, or that for any. */
static void
node_change(struct cu_graph_exec *exec, struct node *node)
{
	struct cu_node_params params;
	struct room room;
	unsigned a = node->a;

	node->v = 1 + sl_rng_below(&rng, 63);
	if (node->kind == COPY || node->kind == COPY_KERNEL) {
		node->a = node->b;
		node->b = a;
	}
	node_params(node, &params, &room);
	if (sl_rng_below(&rng, 2)) {
		OK(w.cuGraphExecNodeSetParams(exec, node->handle, &params));
		return;
	}
	switch (node->kind) {
	case ADD:
	case COPY_KERNEL:
		OK(w.cuGraphExecKernelNodeSetParams_v2(exec, node->handle, &params.kernel));
		return;
	case COPY:
		OK(w.cuGraphExecMemcpyNodeSetParams(exec, node->handle, &params.copy.copy,
						    w.context));
		return;
	case FILL:
		OK(w.cuGraphExecMemsetNodeSetParams(exec, node->handle, &params.fill,
						    w.context));
		return;
	case HOST_CALL:
		OK(w.cuGraphExecHostNodeSetParams(exec, node->handle, &params.host));
		return;
	case CHILD:
	case KINDS:
		return;
	}
}

static void
any_change(struct cu_graph_exec *exec, struct graph *graph)
{
	struct node *node = &graph->nodes[sl_rng_below(&rng, graph->n)];
	unsigned enabled;

	if (node->kind == CHILD)
		return;
	if (sl_rng_below(&rng, 3) || node->kind == HOST_CALL) {
		node_change(exec, node);
		return;
	}
	node->disabled = !node->disabled;
	OK(w.cuGraphNodeSetEnabled(exec, node->handle, !node->disabled));
	OK(w.cuGraphNodeGetEnabled(exec, node->handle, &enabled));
	CHECK(enabled == !node->disabled);
}

/* The same graph with other values, made anew. */
static void
all_change(struct cu_graph_exec *exec, struct graph *graph)
{
	struct graph other = *graph;
	struct cu_graph *made;

	for (size_t i = 0; i < other.n; i++)
		other.nodes[i].v = 1 + sl_rng_below(&rng, 63);
	graph_make_flat(&other, &made);
	OK(w.cuGraphExecUpdate_v2(exec, made, NULL));
	OK(w.cuGraphDestroy(made));
	for (size_t i = 0; i < other.n; i++)
		graph->nodes[i].v = other.nodes[i].v;
}

/* ---- tests ---- */

static void
random_graphs_do_as_a_whole_would(void)
{
	struct graph graph, inside;
	struct cu_graph_exec *exec;
	struct cu_graph *made;
	uint64_t pieces = 0;

	for (unsigned round = 0; round < ROUNDS; round++) {
		int updates = round % 3 == 2, disables = 0;

		graph_fill(&inside, INSIDE, NULL);
		graph_fill(&graph, NODES, &inside);
		graph_make_flat(&graph, &made);
		OK(w.cuGraphInstantiateWithFlags(&exec, made, round % 2 ? 0 : 9));
		for (unsigned k = 0; k < round; k++)
			any_change(exec, &graph); /* before it is cut */
		for (unsigned i = 0; i < 8; i++) {
			pieces += launch(exec, &graph, streams[sl_rng_below(&rng, 2)]);
			for (unsigned k = 0; k < i % 4; k++)
				any_change(exec, &graph);
			for (size_t k = 0; k < graph.n; k++)
				disables |= graph.nodes[k].disabled;
			/* What an update does to nodes that are switched off is the driver's to say. */
			if (updates && !disables && i % 4 == 3)
				all_change(exec, &graph);
			if (i == 4)
				check_all();
		}
		if (round % 2) { /* while it runs */
			OK(w.cuGraphExecDestroy(exec));
			OK(w.cuGraphDestroy(made));
			check_all();
		} else {
			check_all();
			OK(w.cuGraphDestroy(made));
			launch(exec, &graph, streams[0]);
			check_all();
			OK(w.cuGraphExecDestroy(exec));
		}
	}
	CHECK(pieces > ROUNDS * 8 * 4);
}

/* A row of additions, one to each buffer. */
static void
row_fill(struct graph *graph)
{
	graph->n = NODES;
	for (unsigned i = 0; i < NODES; i++)
		graph->nodes[i] = (struct node){.kind = ADD, .a = i, .b = i, .v = i};
}

static void
graph_is_cut_where_its_data_end(void)
{
	struct cu_graph_exec *exec;
	struct cu_graph *made;
	struct graph graph;

	row_fill(&graph);
	graph_make_flat(&graph, &made);
	OK(w.cuGraphInstantiate(&exec, made, NULL, NULL, 0));
	/* A piece has a sixteenth of the device: two buffers. */
	CHECK(launch(exec, &graph, NULL) == NODES / 2);
	CHECK(launch(exec, &graph, streams[1]) == NODES / 2);
	check_all();
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(made));
}

/* Additions may come in any order: each node may get any buffer. */
static void
node_that_gets_another_buffer_finds_it(void)
{
	struct cu_node_params params;
	struct cu_graph_exec *exec;
	struct cu_graph *made;
	struct graph graph;
	struct room room;

	row_fill(&graph);
	graph_make_flat(&graph, &made);
	OK(w.cuGraphInstantiate(&exec, made, NULL, NULL, 0));
	for (unsigned i = 0; i < 8; i++) {
		CHECK(launch(exec, &graph, streams[0]) == NODES / 2);
		for (unsigned k = 0; k < 12; k++) {
			struct node *node = &graph.nodes[sl_rng_below(&rng, NODES)];

			node->a = node->b = (unsigned)sl_rng_below(&rng, BUFFERS);
			node_params(node, &params, &room);
			OK(w.cuGraphExecKernelNodeSetParams_v2(exec, node->handle,
							       &params.kernel));
		}
	}
	check_all();
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(made));
}

/* A pool: one block, of which each node uses a part. Where parts begin is known from the first launch on. */
static void
parts_of_one_block_are_cut_as_blocks_are(void)
{
	uint64_t block = work_alloc(&w, NODES * N, 1), all[BUFFERS], counted[NODES] = {0};
	struct cu_graph_exec *exec;
	struct cu_graph *made;
	struct graph graph;

	row_fill(&graph);
	memcpy(all, buffer, sizeof(all));
	for (unsigned i = 0; i < NODES; i++) {
		buffer[i] = block + i * BYTES;
		counted[i] = expected[i];
	}
	graph_make_flat(&graph, &made);
	OK(w.cuGraphInstantiate(&exec, made, NULL, NULL, 0));
	for (unsigned i = 0; i < 4; i++) {
		uint64_t launches = launch(exec, &graph, streams[0]);

		CHECK(i < 2 || launches == NODES / 2);
	}
	OK(w.cuCtxSynchronize());
	for (unsigned i = 0; i < NODES; i++) {
		work_expect(&w, buffer[i], N, 1 + 4 * graph.nodes[i].v);
		expected[i] = counted[i];
	}
	memcpy(buffer, all, sizeof(all));
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(made));
	OK(w.cuMemFree_v2(block));
	check_all();
}

static void
small_graph_is_launched_as_it_is(void)
{
	struct cu_graph_exec *exec;
	struct cu_graph *made;
	struct graph graph;

	row_fill(&graph);
	graph.n = 14; /* less than half of the device */
	graph_make_flat(&graph, &made);
	OK(w.cuGraphInstantiate(&exec, made, NULL, NULL, 0));
	for (unsigned i = 0; i < 3; i++)
		CHECK(launch(exec, &graph, streams[i % 2]) == 1);
	check_all();
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(made));
}

static void
large_graph_inside_of_one_is_cut(void)
{
	struct graph graph, inside;
	struct cu_graph_exec *exec;
	struct cu_graph *made;

	row_fill(&inside);
	graph.n = 3;
	graph.nodes[0] = (struct node){.kind = ADD, .a = 1, .b = 1, .v = 7};
	graph.nodes[1] = (struct node){.kind = CHILD, .inside = &inside};
	graph.nodes[2] = (struct node){.kind = COPY, .a = 0, .b = 1};
	graph_make_flat(&graph, &made);
	OK(w.cuGraphInstantiate(&exec, made, NULL, NULL, 0));
	CHECK(launch(exec, &graph, NULL) == NODES / 2 + 2);
	check_all();
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(made));
}

/* Work on the first buffers: two of them are what a piece may have. */
static void
inside_fill(struct graph *inside, unsigned buffers)
{
	for (size_t i = 0; i < inside->n; i++) {
		struct node *node = &inside->nodes[i];

		node->a = (unsigned)sl_rng_below(&rng, buffers);
		node->b = node->kind == COPY || node->kind == COPY_KERNEL
				  ? (node->a + 1) % buffers
				  : node->a;
		node->v = 1 + sl_rng_below(&rng, 63);
		node->inside = NULL;
	}
}

/* What is inside of a node does something else from then on. A graph inside that is cut itself makes all of it
 * whole. */
static void
graph_inside_of_one_is_exchanged(void)
{
	struct graph graph, inside;
	struct cu_graph_exec *exec;
	struct cu_graph *made, *child;

	for (unsigned large = 0; large < 2; large++) {
		row_fill(&graph);
		graph_fill(&inside, INSIDE, NULL);
		inside_fill(&inside, large ? BUFFERS : 2);
		graph.nodes[20] = (struct node){.kind = CHILD, .inside = &inside};
		graph_make_flat(&graph, &made);
		OK(w.cuGraphInstantiate(&exec, made, NULL, NULL, 0));
		if (large) /* else the first exchange cuts it */
			CHECK(launch(exec, &graph, NULL) > 4);
		for (unsigned i = 0; i < 4; i++) {
			inside_fill(&inside, large ? BUFFERS : 2);
			row_make(&inside, &child);
			OK(w.cuGraphExecChildGraphNodeSetParams(exec, graph.nodes[20].handle,
								child));
			OK(w.cuGraphDestroy(child));
			CHECK((launch(exec, &graph, streams[i % 2]) > 4) == !large);
			check_all();
		}
		OK(w.cuGraphExecDestroy(exec));
		OK(w.cuGraphDestroy(made));
	}
}

static void
graph_with_a_memory_node_stays_whole(void)
{
	struct cu_graph_node *node;
	struct cu_graph_exec *exec;
	struct cu_graph *made;
	struct graph graph;

	row_fill(&graph);
	graph_make_flat(&graph, &made);
	OK(w.cuGraphAddMemAllocNode(&node, made, NULL, 0, NULL));
	OK(w.cuGraphInstantiate(&exec, made, NULL, NULL, 0));
	/* While chunks that it needs are brought in and evicted for others. */
	for (unsigned i = 0; i < 24; i++) {
		CHECK(launch(exec, &graph, streams[i % 2]) == 1);
		for (unsigned k = i % 4; k < BUFFERS; k += 4) {
			work_launch(&w, WORK_ADD, streams[i % 2], buffer[k], N, i);
			expected[k] += i;
		}
		OK(w.cuStreamSynchronize(streams[i % 2]));
	}
	check_all();
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(made));
}

/* Only the kernels of its body name the buffers of their second half. */
static void
graph_with_a_condition_stays_whole(void)
{
	struct cu_node_params params = {.type = CU_NODE_CONDITIONAL};
	struct cu_graph_node *last, *node;
	struct cu_graph_exec *exec;
	struct cu_graph *made, **body;
	struct graph graph;

	row_fill(&graph);
	graph.n = NODES / 2;
	graph_make_flat(&graph, &made);
	last = graph.nodes[graph.n - 1].handle;
	OK(w.cuGraphAddNode(&node, made, &last, 1, &params));
	memcpy(&body, &params.room[2], sizeof(body)); /* where the driver tells it */
	last = NULL;
	for (unsigned i = NODES / 2; i < NODES; i++) {
		uint64_t values[3] = {buffer[i], N, 1};
		void *pointers[3];
		struct cu_kernel_node kernel = work_node(&w, WORK_ADD, values, pointers);

		OK(w.cuGraphAddKernelNode_v2(&last, *body, &last, last != NULL, &kernel));
	}
	OK(w.cuGraphInstantiate(&exec, made, NULL, NULL, 0));
	for (unsigned i = 0; i < 4; i++) {
		CHECK(launch(exec, &graph, streams[i % 2]) == 1);
		for (unsigned k = NODES / 2; k < NODES; k++)
			expected[k]++;
		check_all();
	}
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(made));
}

/* The driver fails to make the second piece, and then has no memory for a launch of one. */
static void
driver_that_fails_at_a_piece_runs_the_whole(void)
{
	struct cu_graph_exec *exec;
	struct cu_graph *made;
	struct graph graph;

	row_fill(&graph);
	graph_make_flat(&graph, &made);
	OK(w.cuGraphInstantiate(&exec, made, NULL, NULL, 0));
	CHECK(!w.standin->fail_set("cuGraphInstantiateWithFlags:2:801"));
	CHECK(launch(exec, &graph, NULL) == 1);
	CHECK(w.standin->fail_fired() == 1 && !w.standin->fail_set(NULL));
	CHECK(launch(exec, &graph, NULL) == 1);
	check_all();
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphInstantiate(&exec, made, NULL, NULL, 0));
	CHECK(launch(exec, &graph, NULL) == NODES / 2);
	CHECK(!w.standin->fail_set("cuGraphLaunch:3:2"));
	CHECK(launch(exec, &graph, NULL) == NODES / 2 + 1);
	CHECK(w.standin->fail_fired() == 1 && !w.standin->fail_set(NULL));
	check_all();
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(made));
}

/* ---- two streams ---- */

static uint64_t *gate;

/* The first launch stands in its middle while the second is called: which then begins behind it. */
static void
launches_on_two_streams_follow_each_other(void)
{
	struct cu_graph_node *last = NULL;
	struct cu_node_params params;
	struct cu_graph_exec *exec;
	struct cu_graph *made;
	struct graph graph;
	struct room room;
	pthread_t opener;

	row_fill(&graph);
	OK(w.cuMemHostAlloc((void **)&gate, sizeof(*gate), 0));
	*gate = 0;
	graph.nodes[0] = (struct node){.kind = COPY_KERNEL, .a = 0, .b = 2};
	graph.nodes[NODES - 2] = (struct node){.kind = ADD, .a = 2, .b = 2, .v = 5};
	graph.nodes[NODES - 1] = (struct node){.kind = COPY_KERNEL, .a = 4, .b = 0};
	OK(w.cuGraphCreate(&made, 0));
	for (size_t i = 0; i < NODES; i++) {
		node_params(&graph.nodes[i], &params, &room);
		if (i == 6) { /* it adds 1 when the gate is open */
			room.values[2] = (uintptr_t)gate;
			params.kernel.function = w.kernel[WORK_GATE];
			graph.nodes[i].v = 1;
		}
		OK(w.cuGraphAddNode(&last, made, &last, i > 0, &params));
	}
	OK(w.cuGraphInstantiate(&exec, made, NULL, NULL, 0));
	CHECK(!pthread_create(&opener, NULL, work_gate_open, gate));
	CHECK(launch(exec, &graph, streams[0]) > 4);
	CHECK(launch(exec, &graph, streams[1]) > 4);
	CHECK(!pthread_join(opener, NULL));
	check_all();
	OK(w.cuMemFreeHost(gate));
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(made));
}

int
main(void)
{
	struct sl_standin_live live;

	work_start(&w, BUDGET, HOST);
	sl_rng_init(&rng, 1);
	for (unsigned i = 0; i < 64; i++)
		host_values[i] = i * i;
	for (unsigned i = 0; i < BUFFERS; i++) {
		expected[i] = 1000 + i;
		buffer[i] = work_alloc(&w, N, expected[i]);
	}
	OK(w.cuStreamCreate(&streams[0], CU_STREAM_NONBLOCKING));
	OK(w.cuStreamCreate(&streams[1], CU_STREAM_NONBLOCKING));
	graph_is_cut_where_its_data_end();
	node_that_gets_another_buffer_finds_it();
	parts_of_one_block_are_cut_as_blocks_are();
	small_graph_is_launched_as_it_is();
	large_graph_inside_of_one_is_cut();
	graph_inside_of_one_is_exchanged();
	graph_with_a_memory_node_stays_whole();
	graph_with_a_condition_stays_whole();
	driver_that_fails_at_a_piece_runs_the_whole();
	launches_on_two_streams_follow_each_other();
	random_graphs_do_as_a_whole_would();
	OK(w.cuStreamDestroy_v2(streams[0]));
	OK(w.cuStreamDestroy_v2(streams[1]));
	for (unsigned i = 0; i < BUFFERS; i++)
		OK(w.cuMemFree_v2(buffer[i]));
	OK(w.cuModuleUnload(w.module));
	w.standin->live(&live);
	CHECK(!live.graphs);
	work_end(&w);
	return 0;
}
