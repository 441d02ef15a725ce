/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Early reuse of freed room. When memory is short, freed room is allocated again at once, while
 * kernels of another stream may still write to it. The next user of the room waits for them: a
 * launch, a copy, a fill, or a graph. Each kernel waits at a gate that host code opens. So work
 * that does not wait is seen to run.
 */
#include <string.h>
#include <unistd.h>

#include "work.h"

#define MIB     ((uint64_t)1 << 20)
#define BYTES   (8 * MIB)
#define N       (BYTES / sizeof(uint64_t))
#define BALLAST 6u

static struct work w;
static struct cu_stream *first, *second;
static uint64_t *gate;

/* Memory that a kernel of the first stream will write to, freed and allocated again. */
static uint64_t
lent_alloc(void)
{
	uint64_t p = work_alloc(&w, N, 1), q;

	__atomic_store_n(gate, 0, __ATOMIC_RELEASE);
	work_launch(&w, WORK_GATE, first, p, N, (uintptr_t)gate);
	OK(w.cuMemFree_v2(p));
	OK(w.cuMemAlloc_v2(&q, BYTES));
	CHECK(q == p);
	return q;
}

/* The second stream has written value to all of it: not before the gate was open, but behind it. */
static void
second_waited(uint64_t q, uint64_t value)
{
	usleep(20000); /* what is not held back has been done */
	CHECK(w.cuStreamQuery(second) == CU_ERROR_NOT_READY);
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	OK(w.cuStreamSynchronize(second));
	OK(w.cuStreamSynchronize(first));
	work_expect(&w, q, N, value);
	OK(w.cuMemFree_v2(q));
}

static void
fill_comes_behind(void)
{
	uint64_t q = lent_alloc();

	OK(w.cuMemsetD8Async(q, 0x42, BYTES, second));
	second_waited(q, 0x4242424242424242u);
}

static void
launch_comes_behind(void)
{
	uint64_t from = work_alloc(&w, N, 77), q = lent_alloc();

	work_launch(&w, WORK_COPY, second, q, N, from);
	second_waited(q, 77);
	OK(w.cuMemFree_v2(from));
}

static void
graph_comes_behind(void)
{
	struct cu_graph *graph;
	struct cu_graph_exec *exec;
	uint64_t from = work_alloc(&w, N, 78), q = lent_alloc();

	/* Captured when it is lent already: nothing waits before the graph is launched. */
	OK(w.cuStreamBeginCapture_v2(second, CU_CAPTURE_MODE_RELAXED));
	work_launch(&w, WORK_COPY, second, q, N, from);
	OK(w.cuStreamEndCapture(second, &graph));
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(w.cuStreamSynchronize(second));
	OK(w.cuGraphLaunch(exec, second));
	second_waited(q, 78);
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
	OK(w.cuMemFree_v2(from));
}

/* Its own stream is held back by nobody. */
static void
owner_goes_on(void)
{
	uint64_t q = lent_alloc(), p;

	OK(w.cuMemAlloc_v2(&p, BYTES));
	OK(w.cuMemsetD8Async(p, 0x17, BYTES, first));
	OK(w.cuMemsetD8Async(q, 0x18, BYTES, first));
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	OK(w.cuStreamSynchronize(first));
	work_expect(&w, p, N, 0x1717171717171717u);
	work_expect(&w, q, N, 0x1818181818181818u);
	OK(w.cuMemFree_v2(p));
	OK(w.cuMemFree_v2(q));
}

int
main(void)
{
	uint64_t ballast[BALLAST];

	work_start(&w, 64, 512);
	OK(w.cuMemHostAlloc((void **)&gate, sizeof(*gate), 0));
	OK(w.cuStreamCreate(&first, CU_STREAM_NONBLOCKING));
	OK(w.cuStreamCreate(&second, CU_STREAM_NONBLOCKING));
	/* More than the device has; and both streams are known. */
	for (unsigned i = 0; i < BALLAST; i++) {
		OK(w.cuMemAlloc_v2(&ballast[i], 2 * BYTES));
		OK(w.cuMemsetD8Async(ballast[i], (int)i, 2 * BYTES, i % 2 ? first : second));
	}
	OK(w.cuCtxSynchronize());
	fill_comes_behind();
	launch_comes_behind();
	graph_comes_behind();
	owner_goes_on();
	for (unsigned i = 0; i < BALLAST; i++) {
		work_expect(&w, ballast[i], 2 * N, 0x0101010101010101u * i);
		OK(w.cuMemFree_v2(ballast[i]));
	}
	OK(w.cuStreamDestroy_v2(first));
	OK(w.cuStreamDestroy_v2(second));
	OK(w.cuMemFreeHost(gate));
	work_end(&w);
	return 0;
}
