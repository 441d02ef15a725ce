/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures under the preload library. The library's queries and work, on the captured stream or
 * beside it, do not change the capture. Each way to begin one is tried, on streams unknown
 * before, with allocations, copies and fills beside it. Memory is ample, short, or becomes short
 * meanwhile. One that an unlawful call ends half way gives the errors of the driver. One of several
 * streams keeps their order. Each budget is a process of its own.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

#define MIB     ((uint64_t)1 << 20)
#define N       (2 * MIB / sizeof(uint64_t)) /* elements of a buffer */
#define BYTES   (N * sizeof(uint64_t))
#define BUFFERS 8u

enum way { BEGIN_V1, BEGIN_V2, BEGIN_TO_GRAPH, WAYS };
enum kind { LEGACY_CALLS, PER_THREAD_CALLS, THREADS_OWN_STREAM, KINDS };

static struct work w;
static uint64_t buffer[BUFFERS], expected[BUFFERS], behind; /* behind: of threads' own streams */
static struct cu_stream *beside;
static uint64_t *gate;

static void
begin(enum way way, enum kind kind, struct cu_stream *stream)
{
	int own = kind != LEGACY_CALLS;
	struct cu_graph *graph;

	switch (way) {
	case BEGIN_V1:
		OK(own ? w.cuStreamBeginCapture_ptsz(stream)
		       : w.cuStreamBeginCapture(stream));
		return;
	case BEGIN_V2:
		OK(own ? w.cuStreamBeginCapture_v2_ptsz(stream, CU_CAPTURE_MODE_THREAD_LOCAL)
		       : w.cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_THREAD_LOCAL));
		return;
	default:
		OK(w.cuGraphCreate(&graph, 0));
		OK(own ? w.cuStreamBeginCaptureToGraph_ptsz(stream, graph, NULL, NULL, 0,
							    CU_CAPTURE_MODE_RELAXED)
		       : w.cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
						       CU_CAPTURE_MODE_RELAXED));
	}
}

/* A launch, a copy and a fill, which are only recorded. */
static void
work_captured(enum kind kind, struct cu_stream *stream)
{
	uint64_t p = buffer[0], n = N, v = 3;
	void *params[] = {&p, &n, &v};

	if (kind == LEGACY_CALLS) {
		OK(w.cuLaunchKernel(w.kernel[WORK_ADD], 1, 1, 1, 1, 1, 1, 0, stream,
				    params, NULL));
		OK(w.cuMemcpyDtoDAsync_v2(buffer[1], buffer[0], BYTES, stream));
		OK(w.cuMemsetD8Async(buffer[2], 0, BYTES, stream));
		return;
	}
	OK(w.cuLaunchKernel_ptsz(w.kernel[WORK_ADD], 1, 1, 1, 1, 1, 1, 0, stream, params,
				 NULL));
	OK(w.cuMemcpyDtoDAsync_v2_ptsz(buffer[1], buffer[0], BYTES, stream));
	OK(w.cuMemsetD8Async_ptsz(buffer[2], 0, BYTES, stream));
}

/* On streams that know nothing of the capture, and one that is new; and frees that fences are made for. */
static void
work_beside(void)
{
	struct cu_stream *stream;
	uint64_t p[3], q;

	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	for (unsigned i = 0; i < 3; i++) {
		OK(w.cuMemAlloc_v2(&p[i], BYTES));
		struct cu_stream *one = i ? stream : beside;

		OK(w.cuMemsetD8Async(p[i], 0, BYTES, one));
		work_launch(&w, WORK_ADD, one, p[i], N, i);
		OK(w.cuMemcpyDtoDAsync_v2(p[i], buffer[3], BYTES, one));
	}
	for (unsigned i = 0; i < 3; i++)
		OK(w.cuMemFree_v2(p[i]));
	OK(w.cuMemAllocAsync(&q, BYTES, beside));
	OK(w.cuMemsetD8Async(q, 1, BYTES, beside));
	OK(w.cuMemFreeAsync(q, beside));
	for (unsigned i = 4; i < BUFFERS; i++) {
		work_launch(&w, WORK_ADD, beside, buffer[i], N, 1);
		expected[i]++;
	}
	OK(w.cuStreamDestroy_v2(stream));
}

static void
check_all(void)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		work_expect(&w, buffer[i], N, expected[i]);
}

static void
capture_on_an_unknown_stream_is_not_spoilt(enum way way, enum kind kind, unsigned flags)
{
	struct cu_stream *stream = NULL;
	struct cu_graph_exec *exec;
	struct cu_graph *graph;
	size_t n = 0;

	if (kind != THREADS_OWN_STREAM)
		OK(w.cuStreamCreate(&stream, flags));
	begin(way, kind, stream);
	work_captured(kind, stream);
	work_beside(); /* it ends a stream: what is known of others is looked up again */
	work_captured(kind, stream);
	OK(kind == LEGACY_CALLS ? w.cuStreamEndCapture(stream, &graph)
				: w.cuStreamEndCapture_ptsz(stream, &graph));
	OK(w.cuGraphGetNodes(graph, NULL, &n));
	CHECK(n == 6);
	OK(w.cuCtxSynchronize());
	check_all(); /* nothing of it ran */
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(w.cuGraphDestroy(graph));
	for (unsigned round = 0; round < 2; round++) {
		work_beside();
		OK(w.cuCtxSynchronize());
		OK(kind == LEGACY_CALLS ? w.cuGraphLaunch(exec, stream)
					: w.cuGraphLaunch_ptsz(exec, stream));
		expected[0] += 6;
		expected[1] = expected[0];
		expected[2] = 0;
		OK(w.cuCtxSynchronize());
		check_all();
	}
	OK(w.cuGraphExecDestroy(exec));
	if (stream)
		OK(w.cuStreamDestroy_v2(stream));
}

static void *
own_stream_run(void *arg)
{
	uint64_t p = behind, n = N, v = 0;
	void *params[] = {&p, &n, &v};

	(void)arg;
	OK(w.cuCtxSetCurrent(w.context));
	OK(w.cuLaunchKernel_ptsz(w.kernel[WORK_ADD], 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	return NULL;
}

/* Another thread's own stream, which has ended: what stands behind it cannot be asked for in a capture. */
static void
thread_leaves_work_behind(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, own_stream_run, NULL));
	CHECK(!pthread_join(thread, NULL));
}

static void
start(unsigned device_mib)
{
	work_start(&w, device_mib, 256);
	OK(w.cuStreamCreate(&beside, CU_STREAM_NONBLOCKING));
	for (unsigned i = 0; i < BUFFERS; i++) {
		expected[i] = 1000 + i;
		buffer[i] = work_alloc(&w, N, expected[i]);
	}
	behind = work_alloc(&w, N, 0);
}

static void
end(void)
{
	for (unsigned i = 0; i < BUFFERS; i++)
		OK(w.cuMemFree_v2(buffer[i]));
	OK(w.cuMemFree_v2(behind));
	OK(w.cuStreamDestroy_v2(beside));
	OK(w.cuModuleUnload(w.module));
	work_end(&w);
}

static void
every_way_to_begin(unsigned device_mib)
{
	start(device_mib);
	for (int way = 0; way < WAYS; way++)
		for (int kind = 0; kind < KINDS; kind++)
			for (unsigned flags = 0; flags <= CU_STREAM_NONBLOCKING; flags++) {
				thread_leaves_work_behind();
				capture_on_an_unknown_stream_is_not_spoilt(way, kind, flags);
			}
	end();
}

static void *
gate_run(void *arg)
{
	(void)arg;
	usleep(100000);
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* A kernel that was launched at ease still waits to write when an allocation in a capture goes beyond the
 * budget: its memory is not taken away under it. */
static void
pressure_that_comes_in_a_capture(unsigned device_mib)
{
	struct cu_stream *stream, *running;
	struct cu_graph *graph;
	pthread_t thread;
	uint64_t p[8];
	size_t n = 0;
	void *data;

	/* What no launch names is mapped nowhere. */
	CHECK(!setenv("SLUICE_RUN", "quiet=1,arguments=trust", 1));
	start(device_mib);
	OK(w.cuMemHostAlloc(&data, 4096, 0));
	gate = data;
	*gate = 0;
	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	OK(w.cuStreamCreate(&running, CU_STREAM_NONBLOCKING));
	work_launch(&w, WORK_GATE, running, buffer[0], N, (uintptr_t)gate);
	expected[0]++;
	OK(w.cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
	work_launch(&w, WORK_ADD, stream, buffer[1], N, 1);
	CHECK(!pthread_create(&thread, NULL, gate_run, NULL));
	for (unsigned i = 0; i < 8; i++) {
		OK(w.cuMemAlloc_v2(&p[i], BYTES));
		work_launch(&w, WORK_COPY, beside, p[i], N, buffer[i % 4 + 4]);
	}
	work_launch(&w, WORK_ADD, stream, buffer[1], N, 1);
	OK(w.cuStreamEndCapture(stream, &graph));
	OK(w.cuGraphGetNodes(graph, NULL, &n));
	CHECK(n == 2);
	OK(w.cuGraphDestroy(graph));
	OK(w.cuCtxSynchronize());
	check_all();
	for (unsigned i = 0; i < 8; i++) {
		work_expect(&w, p[i], N, expected[i % 4 + 4]);
		OK(w.cuMemFree_v2(p[i]));
	}
	CHECK(!pthread_join(thread, NULL));
	OK(w.cuMemFreeHost(data));
	OK(w.cuStreamDestroy_v2(stream));
	OK(w.cuStreamDestroy_v2(running));
	end();
}

static int
launch_result(struct cu_stream *stream, uint64_t p)
{
	uint64_t n = N, v = 1;
	void *params[] = {&p, &n, &v};

	return w.cuLaunchKernel(w.kernel[WORK_ADD], 1, 1, 1, 1, 1, 1, 0, stream, params,
				NULL);
}

/* A capture that an unlawful call ends half way: the driver's errors, and none of its work is done. The stream can
 * be captured again. */
static void
capture_that_fails_half_way(unsigned device_mib)
{
	struct cu_graph *graph = NULL;
	struct cu_graph_exec *exec;
	struct cu_stream *stream;

	start(device_mib);
	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	for (unsigned i = 0; i < 3; i++) {
		OK(w.cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
		work_launch(&w, WORK_ADD, stream, buffer[i], N, 5);
		CHECK(w.cuStreamSynchronize(stream) == CU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		CHECK(launch_result(stream, buffer[i]) == CU_ERROR_STREAM_CAPTURE_INVALIDATED);
		CHECK(w.cuStreamEndCapture(stream, &graph) ==
		      CU_ERROR_STREAM_CAPTURE_INVALIDATED);
		CHECK(!graph);
		work_beside();
		OK(w.cuCtxSynchronize());
		check_all();
		OK(w.cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
		work_launch(&w, WORK_ADD, stream, buffer[i], N, 1);
		OK(w.cuStreamEndCapture(stream, &graph));
		OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
		OK(w.cuGraphLaunch(exec, stream));
		expected[i]++;
		OK(w.cuCtxSynchronize());
		check_all();
		OK(w.cuGraphExecDestroy(exec));
		OK(w.cuGraphDestroy(graph));
	}
	OK(w.cuStreamDestroy_v2(stream)); /* the stand-in has seen rules broken: no end() */
}

/* Work that the first stream hands to two others, and gets back. */
static void
fork_and_join_capture(struct cu_stream *const stream[3], struct cu_event *const event[3],
		      int joins)
{
	work_launch(&w, WORK_ADD, stream[0], buffer[0], N, 1);
	OK(w.cuEventRecord(event[0], stream[0]));
	for (unsigned i = 1; i < 3; i++) {
		OK(w.cuStreamWaitEvent(stream[i], event[0], 0));
		work_launch(&w, WORK_COPY, stream[i], buffer[i], N, buffer[0]);
		work_launch(&w, WORK_ADD, stream[i], buffer[i], N, i);
		OK(w.cuEventRecord(event[i], stream[i]));
	}
	for (unsigned i = 1; i < 3 && joins; i++)
		OK(w.cuStreamWaitEvent(stream[0], event[i], 0));
	work_launch(&w, WORK_COPY, stream[0], buffer[3], N, buffer[1]);
	OK(w.cuMemcpyDtoDAsync_v2(buffer[4], buffer[2], BYTES, stream[0]));
}

/* joins: the first stream waits for the others; else the capture fails. */
static void
several_streams_captured(struct cu_stream *const stream[3],
			 struct cu_event *const event[3], int joins)
{
	struct cu_graph_exec *exec;
	struct cu_graph *graph = NULL;
	size_t n = 0;

	OK(w.cuStreamBeginCapture_v2(stream[0], CU_CAPTURE_MODE_GLOBAL));
	fork_and_join_capture(stream, event, joins);
	if (!joins) {
		CHECK(w.cuStreamEndCapture(stream[0], &graph) ==
		      CU_ERROR_STREAM_CAPTURE_UNJOINED);
		CHECK(!graph);
		return;
	}
	OK(w.cuStreamEndCapture(stream[0], &graph));
	OK(w.cuGraphGetNodes(graph, NULL, &n));
	CHECK(n == 7);
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(w.cuGraphDestroy(graph));
	for (unsigned i = 0; i < 4; i++) {
		OK(w.cuGraphLaunch(exec, stream[i % 3]));
		expected[0]++;
		expected[1] = expected[3] = expected[0] + 1;
		expected[2] = expected[4] = expected[0] + 2;
		OK(w.cuCtxSynchronize());
		check_all();
	}
	OK(w.cuGraphExecDestroy(exec));
}

static void
capture_of_several_streams(unsigned device_mib)
{
	struct cu_stream *stream[3];
	struct cu_event *event[3];

	start(device_mib);
	for (unsigned i = 0; i < 3; i++) {
		OK(w.cuStreamCreate(&stream[i], CU_STREAM_NONBLOCKING));
		OK(w.cuEventCreate(&event[i], 0));
	}
	for (unsigned round = 0; round < 3; round++) {
		several_streams_captured(stream, event, 1);
		several_streams_captured(stream, event, 0);
		OK(w.cuCtxSynchronize());
		check_all();                       /* nothing of it ran */
		for (unsigned i = 0; i < 3; i++) { /* none of them is captured any more */
			work_launch(&w, WORK_ADD, stream[i], buffer[i], N, 3);
			expected[i] += 3;
		}
		work_beside();
		OK(w.cuCtxSynchronize());
		check_all();
	}
	for (unsigned i = 0; i < 3; i++) {
		OK(w.cuEventDestroy_v2(event[i]));
		OK(w.cuStreamDestroy_v2(stream[i]));
	}
	end();
}

/* In a process of its own. Its exit status. */
static int
process(void (*test)(unsigned), unsigned device_mib)
{
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child) {
		test(device_mib);
		exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	if (status)
		fprintf(stderr, "with %u MiB: status %#x\n", device_mib, (unsigned)status);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int
main(void)
{
	int failed = process(every_way_to_begin, 96); /* at ease */

	if (failed == 77)
		return 77;
	failed |= process(every_way_to_begin, 24); /* launches are looked at */
	failed |= process(every_way_to_begin, 8);  /* pressed */
	failed |= process(pressure_that_comes_in_a_capture, 20);
	failed |= process(capture_that_fails_half_way, 96);
	failed |= process(capture_that_fails_half_way, 8);
	failed |= process(capture_of_several_streams, 96);
	failed |= process(capture_of_several_streams, 24);
	failed |= process(capture_of_several_streams, 8);
	return failed != 0;
}
