/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs in pieces and the work of others, under the preload library. Nodes that order them are
 * between those that use data: records of events, waits for them, words, and empty nodes. Threads
 * launch and change graphs of their own at once. A pool is trimmed, grown, and freed in part, while
 * graphs hold its addresses. Each graph uses more than half of the device, so it is cut.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "work.h"

#define N        ((uint64_t)1 << 16) /* elements of a buffer: 512 KiB */
#define BYTES    (N * sizeof(uint64_t))
#define BUFFERS  40u
#define BUDGET   16u /* MiB; the buffers are 20 */
#define HOST     256u
#define THREADS  4u
#define OWN      20u /* buffers of a thread: 10 MiB, and a graph of more than 8 is cut */
#define LAUNCHES 6u
#define PIECES   (BUFFERS / 2) /* one has a sixteenth of the device */
/* Of half a graph that is cut though the device holds it. */
#define HALF     12u

static struct work w;
static uint64_t buffer[BUFFERS], expected[BUFFERS];
static struct cu_stream *streams[2];
static uint64_t *gate; /* pinned */

/* A kernel over a buffer, behind last. Returns its node. */
static struct cu_graph_node *
kernel_add(struct cu_graph *graph, struct cu_graph_node *last, enum work_kernel kernel,
	   uint64_t p, uint64_t v)
{
	uint64_t values[3] = {p, N, v};
	void *params[3];
	struct cu_kernel_node node = work_node(&w, kernel, values, params);

	OK(w.cuGraphAddKernelNode_v2(&last, graph, &last, last != NULL, &node));
	return last;
}

/* Have a node of an executable graph add v to p. */
static void
kernel_set(struct cu_graph_exec *exec, struct cu_graph_node *handle, uint64_t p, uint64_t v)
{
	uint64_t values[3] = {p, N, v};
	void *params[3];
	struct cu_kernel_node node = work_node(&w, WORK_ADD, values, params);

	OK(w.cuGraphExecKernelNodeSetParams_v2(exec, handle, &node));
}

/* Add v to n buffers, each behind the one before. Returns the last node. */
static struct cu_graph_node *
row_add(struct cu_graph *graph, struct cu_graph_node *last, const uint64_t *p, unsigned n,
	uint64_t v, struct cu_graph_node **nodes)
{
	for (unsigned i = 0; i < n; i++) {
		last = kernel_add(graph, last, WORK_ADD, p[i], v);
		if (nodes)
			nodes[i] = last;
	}
	return last;
}

static struct cu_graph_node *
copy_add(struct cu_graph *graph, struct cu_graph_node *last, uint64_t to, uint64_t from)
{
	struct cu_copy_3d copy = work_copy(to, from, BYTES);

	OK(w.cuGraphAddMemcpyNode(&last, graph, &last, last != NULL, &copy, w.context));
	return last;
}

static void
check_all(void)
{
	OK(w.cuCtxSynchronize());
	for (unsigned i = 0; i < BUFFERS; i++)
		work_expect(&w, buffer[i], N, expected[i]);
}

static void
added(unsigned n, uint64_t v)
{
	for (unsigned i = 0; i < n; i++)
		expected[i] += v;
}

/* Launches of the driver's for one of the program's. */
static uint64_t
launch(struct cu_graph_exec *exec, struct cu_stream *stream)
{
	uint64_t before = w.standin->calls("cuGraphLaunch");

	OK(w.cuGraphLaunch(exec, stream));
	return w.standin->calls("cuGraphLaunch") - before;
}

/* Whoever waits for the event sees what the graph did before its node, whichever event the node has by now. */
static void
others_wait_for_a_graphs_record(void)
{
	uint64_t seen = work_alloc(&w, N, 0);
	struct cu_graph_node *last, *record;
	struct cu_graph_exec *exec;
	struct cu_event *event[2];
	struct cu_graph *graph;
	pthread_t opener;
	float ms;

	OK(w.cuEventCreate(&event[0], 0));
	OK(w.cuEventCreate(&event[1], 0));
	OK(w.cuGraphCreate(&graph, 0));
	last = kernel_add(graph, NULL, WORK_GATE, buffer[0], (uintptr_t)gate);
	last = row_add(graph, last, buffer, HALF, 3, NULL);
	OK(w.cuGraphAddEventRecordNode(&record, graph, &last, 1, event[0]));
	OK(w.cuGraphAddEmptyNode(&last, graph, &record, 1));
	row_add(graph, last, buffer + HALF, HALF, 3, NULL);
	OK(w.cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
	for (unsigned i = 0; i < 4; i++) {
		if (i)
			OK(w.cuGraphExecEventRecordNodeSetEvent(exec, record, event[i % 2]));
		*gate = 0;
		CHECK(!pthread_create(&opener, NULL, work_gate_open, gate));
		CHECK(launch(exec, streams[0]) >= HALF);
		OK(w.cuStreamWaitEvent(streams[1], event[i % 2], 0));
		work_launch(&w, WORK_COPY, streams[1], seen, N, buffer[HALF - 1]);
		CHECK(!pthread_join(opener, NULL));
		added(2 * HALF, 3);
		expected[0]++;
		OK(w.cuStreamSynchronize(streams[1]));
		work_expect(&w, seen, N, expected[HALF - 1]);
		OK(w.cuEventElapsedTime(&ms, event[i % 2], event[i % 2])); /* it was recorded */
		check_all();
	}
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
	OK(w.cuEventDestroy_v2(event[0]));
	OK(w.cuEventDestroy_v2(event[1]));
	OK(w.cuMemFree_v2(seen));
}

/* What the graph does behind its node sees what another stream did before the event. */
static void
graph_waits_for_the_record_of_others(void)
{
	uint64_t others = work_alloc(&w, N, 0), seen = work_alloc(&w, N, 0);
	struct cu_graph_node *last, *wait;
	struct cu_graph_exec *exec;
	struct cu_event *event[2];
	struct cu_graph *graph;
	pthread_t opener;

	OK(w.cuEventCreate(&event[0], 0));
	OK(w.cuEventCreate(&event[1], 0));
	OK(w.cuGraphCreate(&graph, 0));
	last = row_add(graph, NULL, buffer, HALF, 2, NULL);
	OK(w.cuGraphAddEventWaitNode(&wait, graph, &last, 1, event[0]));
	last = row_add(graph, wait, buffer + HALF, HALF, 2, NULL);
	copy_add(graph, last, seen, others);
	OK(w.cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
	for (unsigned i = 0; i < 4; i++) {
		if (i)
			OK(w.cuGraphExecEventWaitNodeSetEvent(exec, wait, event[i % 2]));
		*gate = 0;
		work_launch(&w, WORK_GATE, streams[1], others, N, (uintptr_t)gate);
		OK(w.cuEventRecord(event[i % 2], streams[1]));
		CHECK(!pthread_create(&opener, NULL, work_gate_open, gate));
		CHECK(launch(exec, streams[0]) >= HALF);
		CHECK(!pthread_join(opener, NULL));
		added(2 * HALF, 2);
		check_all();
		work_expect(&w, seen, N, i + 1);
	}
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
	OK(w.cuEventDestroy_v2(event[0]));
	OK(w.cuEventDestroy_v2(event[1]));
	OK(w.cuMemFree_v2(others));
	OK(w.cuMemFree_v2(seen));
}

/* What the host has ready behind the gate: in pinned memory, each element the launch's number. */
static uint64_t *ready;

/* In a moment, make it ready, and then open the gate. */
static void *
ready_make(void *arg)
{
	const struct timespec moment = {.tv_nsec = 50000000};

	nanosleep(&moment, NULL);
	for (uint64_t i = 0; i < N; i++)
		ready[i] = (uintptr_t)arg;
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	return NULL;
}

/*
 * A graph writes a word, of device memory, behind one half of its work. Before the other half it awaits one that
 * the host writes, and copies what the host has ready by then.
 */
static void
graph_writes_and_awaits_words(void)
{
	uint64_t word = work_alloc(&w, 1, 0), copied = work_alloc(&w, N, 0);
	struct cu_memop write = {.type = CU_MEMOP_WRITE_64, .addr = word, .value = 7};
	struct cu_memop await = {.type = CU_MEMOP_WAIT_64, .addr = (uintptr_t)gate, .value = 1};
	const struct cu_batch_node writes = {.context = w.context, .n = 1, .ops = &write};
	const struct cu_batch_node awaits = {.context = w.context, .n = 1, .ops = &await};
	struct cu_graph_node *last, *first;
	struct cu_graph_exec *exec;
	struct cu_graph *graph;
	pthread_t opener;

	OK(w.cuMemHostAlloc((void **)&ready, BYTES, 0));
	OK(w.cuGraphCreate(&graph, 0));
	last = row_add(graph, NULL, buffer, BUFFERS / 2, 1, NULL);
	OK(w.cuGraphAddBatchMemOpNode(&first, graph, &last, 1, &writes));
	OK(w.cuGraphAddBatchMemOpNode(&last, graph, &first, 1, &awaits));
	last = kernel_add(graph, last, WORK_COPY, copied, (uintptr_t)ready);
	row_add(graph, last, buffer + BUFFERS / 2, BUFFERS / 2, 1, NULL);
	OK(w.cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
	for (uintptr_t i = 0; i < 3; i++) {
		memset(ready, 0, BYTES);
		*gate = 0;
		write.value = 7 + i;
		if (i)
			OK(w.cuGraphExecBatchMemOpNodeSetParams(exec, first, &writes));
		CHECK(!pthread_create(&opener, NULL, ready_make, (void *)(i + 1)));
		CHECK(launch(exec, streams[i % 2]) >= PIECES);
		added(BUFFERS, 1);
		check_all();
		CHECK(!pthread_join(opener, NULL));
		work_expect(&w, word, 1, 7 + i);
		work_expect(&w, copied, N, i + 1);
	}
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
	OK(w.cuMemFreeHost(ready));
	OK(w.cuMemFree_v2(copied));
	OK(w.cuMemFree_v2(word));
}

/* ---- threads ---- */

static void *
thread_run(void *arg)
{
	uint64_t number = (uintptr_t)arg, own[OWN], sum = 0;
	struct cu_graph_node *nodes[OWN];
	struct cu_graph_exec *exec;
	struct cu_stream *stream;
	struct cu_graph *graph;

	OK(w.cuCtxSetCurrent(w.context));
	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	for (unsigned i = 0; i < OWN; i++)
		own[i] = work_alloc(&w, N, number);
	OK(w.cuGraphCreate(&graph, 0));
	row_add(graph, NULL, own, OWN, 1, nodes);
	OK(w.cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
	OK(w.cuGraphDestroy(graph));
	for (unsigned k = 0; k < LAUNCHES; k++) {
		OK(w.cuGraphLaunch(exec, stream));
		sum += k + 1;
		/* While it runs: the next launch adds another number. */
		for (unsigned i = 0; i < OWN; i++)
			kernel_set(exec, nodes[i], own[i], k + 2);
	}
	OK(w.cuGraphExecDestroy(exec)); /* while it runs */
	OK(w.cuStreamSynchronize(stream));
	for (unsigned i = 0; i < OWN; i++) {
		work_expect(&w, own[i], N, number + sum);
		OK(w.cuMemFree_v2(own[i]));
	}
	OK(w.cuStreamDestroy_v2(stream));
	return NULL;
}

static void
threads_launch_and_change_graphs_at_once(void)
{
	uint64_t before = w.standin->calls("cuGraphLaunch");
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, thread_run, (void *)(100 * i)));
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(!pthread_join(thread[i], NULL));
	/* All were cut. */
	CHECK(w.standin->calls("cuGraphLaunch") - before >=
	      (uint64_t)THREADS * LAUNCHES * OWN / 2);
	check_all();
}

/* ---- a pool ---- */

/* Memory from a pool stays what it was while the pool gives back what is free, and grows; and a graph whose memory
 * was freed does its work on what its nodes are set to. */
static void
pool_changes_while_a_graph_holds_its_addresses(void)
{
	uint64_t own[BUFFERS], more[BUFFERS], sum = 0;
	struct cu_graph_node *nodes[BUFFERS];
	struct cu_graph_exec *exec;
	struct cu_graph *graph;
	struct cu_pool *pool;

	OK(w.cuDeviceGetDefaultMemPool(&pool, 0));
	for (unsigned i = 0; i < BUFFERS; i++) {
		OK(w.cuMemAllocAsync(&own[i], BYTES, streams[0]));
		work_write(&w, own[i], N, i);
	}
	OK(w.cuGraphCreate(&graph, 0));
	row_add(graph, NULL, own, BUFFERS, 1, nodes);
	OK(w.cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
	CHECK(launch(exec, streams[0]) >= PIECES);
	sum++;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < BUFFERS; i++) { /* it grows */
			OK(w.cuMemAllocAsync(&more[i], BYTES, streams[1]));
			work_launch(&w, WORK_COPY, streams[1], more[i], N, buffer[i]);
		}
		CHECK(launch(exec, streams[0]) >= PIECES);
		for (unsigned i = 0; i < BUFFERS; i++)
			OK(w.cuMemFreeAsync(more[i], streams[1]));
		OK(w.cuMemPoolTrimTo(pool, 0));
		CHECK(launch(exec, streams[0]) >= PIECES);
		sum += 2;
	}
	OK(w.cuCtxSynchronize());
	for (unsigned i = 0; i < BUFFERS; i++)
		work_expect(&w, own[i], N, i + sum);
	/* Half of them go, and their nodes get others' memory. */
	for (unsigned i = 0; i < BUFFERS / 2; i++)
		OK(w.cuMemFreeAsync(own[i], streams[0]));
	OK(w.cuStreamSynchronize(streams[0]));
	OK(w.cuMemPoolTrimTo(pool, 0));
	for (unsigned i = 0; i < BUFFERS / 2; i++) {
		kernel_set(exec, nodes[i], buffer[i], 1);
		expected[i] += 2;
	}
	CHECK(launch(exec, streams[0]) >= PIECES);
	CHECK(launch(exec, streams[1]) >= PIECES);
	check_all();
	for (unsigned i = BUFFERS / 2; i < BUFFERS; i++) {
		work_expect(&w, own[i], N, i + sum + 2);
		OK(w.cuMemFreeAsync(own[i], streams[0]));
	}
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
	OK(w.cuCtxSynchronize());
}

int
main(void)
{
	struct sl_standin_live live;

	work_start(&w, BUDGET, HOST);
	OK(w.cuMemHostAlloc((void **)&gate, sizeof(*gate), 0));
	for (unsigned i = 0; i < BUFFERS; i++) {
		expected[i] = 1000 + i;
		buffer[i] = work_alloc(&w, N, expected[i]);
	}
	OK(w.cuStreamCreate(&streams[0], CU_STREAM_NONBLOCKING));
	OK(w.cuStreamCreate(&streams[1], CU_STREAM_NONBLOCKING));
	others_wait_for_a_graphs_record();
	graph_waits_for_the_record_of_others();
	graph_writes_and_awaits_words();
	threads_launch_and_change_graphs_at_once();
	pool_changes_while_a_graph_holds_its_addresses();
	OK(w.cuStreamDestroy_v2(streams[0]));
	OK(w.cuStreamDestroy_v2(streams[1]));
	for (unsigned i = 0; i < BUFFERS; i++)
		OK(w.cuMemFree_v2(buffer[i]));
	OK(w.cuMemFreeHost(gate));
	OK(w.cuModuleUnload(w.module));
	w.standin->live(&live);
	CHECK(!live.graphs);
	work_end(&w);
	return 0;
}
