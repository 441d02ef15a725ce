/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures and graphs: the contents of a capture, the calls that spoil it and for whom, an event
 * that was recorded into one. A graph does its work each time it is launched.
 */
#include <pthread.h>
#include <stddef.h>

#include "contract/cuda_suite.h"

static void
capture_begin(int mode)
{
	OK(cuStreamBeginCapture, cuda.stream, mode);
}

/* End a capture that was not spoilt; n nodes. */
static struct cu_graph *
capture_end(size_t n)
{
	struct cu_graph *graph = NULL;
	size_t found = 0;

	OK(cuStreamEndCapture, cuda.stream, &graph);
	CHECK(graph != NULL);
	OK(cuGraphGetNodes, graph, NULL, &found);
	CHECK(found == n);
	return graph;
}

static void
capture_is_spoilt(void)
{
	struct cu_graph *graph = NULL;
	int status = CU_CAPTURE_NONE;

	OK(cuStreamIsCapturing, cuda.stream, &status);
	CHECK(status == CU_CAPTURE_INVALIDATED);
	GIVES(CU_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, cuda.stream, &graph);
	CHECK(!graph);
	OK(cuStreamIsCapturing, cuda.stream, &status);
	CHECK(status == CU_CAPTURE_NONE);
}

static void
a_graph_does_its_work_each_time_it_is_launched(void)
{
	struct cu_graph_exec *exec = NULL;
	struct cu_graph *graph;
	uint32_t *pin;

	up();
	map_chunk(0);
	pin = pinned(4096);
	fill_word(cuda.range, 1);
	capture_begin(CU_CAPTURE_MODE_GLOBAL);
	OK(cuMemsetD32Async, cuda.range, 9, 2, cuda.stream);
	OK(cuMemcpyDtoDAsync, cuda.range + 8, cuda.range, 8, cuda.stream);
	OK(cuMemcpyHtoDAsync, cuda.range + 16, pin, 4, cuda.stream);
	graph = capture_end(3);
	CHECK(word_at(cuda.range) == 1); /* nothing was run */
	OK(cuGraphInstantiate, &exec, graph, 0);
	OK(cuGraphDestroy, graph);
	for (uint32_t round = 5; round < 8; round++) {
		fill_word(cuda.range + 8, 0);
		pin[0] = round; /* read when it runs */
		OK(cuGraphLaunch, exec, cuda.stream);
		CHECK(word_at(cuda.range + 8) == 9);
		CHECK(word_at(cuda.range + 12) == 9);
		CHECK(word_at(cuda.range + 16) == round);
	}
	OK(cuGraphExecDestroy, exec);
	noted(0, "");
}

/* What another thread may do while the stream is captured. */
static struct {
	struct cu_event *event;
	int mode; /* -1: as it is */
	int query, alloc;
} other;

static void *
other_thread(void *arg)
{
	uint64_t addr = 0;
	int mode = other.mode;

	(void)arg;
	OK(cuCtxSetCurrent, cuda.context);
	if (mode >= 0) {
		OK(cuThreadExchangeStreamCaptureMode, &mode);
		CHECK(mode == CU_CAPTURE_MODE_GLOBAL); /* what a thread begins with */
	}
	other.query = cuda.driver->cuEventQuery(other.event);
	other.alloc = cuda.driver->cuMemAlloc(&addr, 4096);
	if (!other.alloc)
		OK(cuMemFree, addr);
	return NULL;
}

static void
other_thread_calls(int mode)
{
	pthread_t thread;

	other.mode = mode;
	CHECK(!pthread_create(&thread, NULL, other_thread, NULL));
	pthread_join(thread, NULL);
}

static void
a_global_capture_is_spoilt_by_unsafe_calls_of_other_threads(void)
{
	up();
	map_chunk(0);
	OK(cuEventCreate, &other.event, CU_EVENT_UNTIMED);
	OK(cuEventRecord, other.event, cuda.stream);
	OK(cuStreamSynchronize, cuda.stream);

	capture_begin(CU_CAPTURE_MODE_GLOBAL);
	OK(cuMemsetD32Async, cuda.range, 9, 1, cuda.stream);
	other_thread_calls(-1);
	CHECK(other.query == CU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	capture_is_spoilt();
	noted(1, "cuEventQuery");

	/* Those which say that they know, and captures that only mind their own thread. */
	capture_begin(CU_CAPTURE_MODE_GLOBAL);
	OK(cuMemsetD32Async, cuda.range, 9, 1, cuda.stream);
	other_thread_calls(CU_CAPTURE_MODE_RELAXED);
	CHECK(!other.query && !other.alloc);
	other_thread_calls(CU_CAPTURE_MODE_THREAD_LOCAL);
	CHECK(!other.query && !other.alloc);
	OK(cuGraphDestroy, capture_end(1));
	capture_begin(CU_CAPTURE_MODE_THREAD_LOCAL);
	other_thread_calls(-1);
	CHECK(!other.query && !other.alloc);
	OK(cuGraphDestroy, capture_end(0));
	OK(cuEventDestroy, other.event);
	noted(0, "");
}

static void
the_own_thread_may_do_unsafe_calls_when_relaxed(void)
{
	int mode = CU_CAPTURE_MODE_RELAXED;
	uint64_t addr = 0;

	up();
	map_chunk(0);
	capture_begin(CU_CAPTURE_MODE_THREAD_LOCAL);
	GIVES(CU_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc, &addr, 4096);
	capture_is_spoilt();
	capture_begin(CU_CAPTURE_MODE_THREAD_LOCAL);
	OK(cuThreadExchangeStreamCaptureMode, &mode);
	OK(cuMemAlloc, &addr, 4096);
	OK(cuMemFree, addr);
	OK(cuThreadExchangeStreamCaptureMode, &mode);
	CHECK(mode == CU_CAPTURE_MODE_RELAXED);
	OK(cuGraphDestroy, capture_end(0));
	noted(1, "cuMemAlloc");
}

static void
mapping_and_waiting_are_unsafe(void)
{
	struct cu_event *event;
	uint64_t handle;

	up();
	OK(cuEventCreate, &event, CU_EVENT_UNTIMED);
	OK(cuEventRecord, event, cuda.stream);
	handle = memory(CHUNK, &on_device);
	capture_begin(CU_CAPTURE_MODE_GLOBAL);
	GIVES(CU_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemMap, cuda.range, CHUNK, 0, handle, 0);
	capture_is_spoilt();
	capture_begin(CU_CAPTURE_MODE_GLOBAL);
	GIVES(CU_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuEventSynchronize, event);
	capture_is_spoilt();
	capture_begin(CU_CAPTURE_MODE_GLOBAL);
	GIVES(CU_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize);
	capture_is_spoilt();
	noted(3, "cuCtxSynchronize");
}

static void
a_captured_event_is_no_node_and_never_comes(void)
{
	struct cu_event *event;
	int mode = CU_CAPTURE_MODE_RELAXED;

	up();
	map_chunk(0);
	OK(cuThreadExchangeStreamCaptureMode, &mode);
	OK(cuEventCreate, &event, CU_EVENT_UNTIMED);
	capture_begin(CU_CAPTURE_MODE_GLOBAL);
	OK(cuMemsetD32Async, cuda.range, 9, 1, cuda.stream);
	OK(cuEventRecord, event, cuda.stream);
	OK(cuGraphDestroy, capture_end(1));
	GIVES(CU_ERROR_CAPTURED_EVENT, cuEventQuery, event);
	OK(cuEventRecord, event, cuda.stream); /* an ordinary one again */
	OK(cuEventSynchronize, event);
	OK(cuEventQuery, event);
	OK(cuEventDestroy, event);
	noted(1, "cuEventQuery");
}

static void
a_captured_event_that_is_asked_for_spoils_the_capture(void)
{
	struct cu_event *event;
	int mode = CU_CAPTURE_MODE_RELAXED;

	up();
	OK(cuThreadExchangeStreamCaptureMode, &mode);
	OK(cuEventCreate, &event, CU_EVENT_UNTIMED);
	capture_begin(CU_CAPTURE_MODE_RELAXED);
	OK(cuEventRecord, event, cuda.stream);
	GIVES(CU_ERROR_CAPTURED_EVENT, cuEventQuery, event);
	capture_is_spoilt();
	OK(cuEventDestroy, event);
	noted(1, "cuEventQuery");
}

static void
a_captured_stream_is_not_waited_for(void)
{
	struct cu_stream *outside;
	struct cu_event *event;

	up();
	map_chunk(0);
	OK(cuStreamCreate, &outside, CU_STREAM_NONBLOCKING);
	OK(cuEventCreate, &event, CU_EVENT_UNTIMED);
	OK(cuEventRecord, event, outside);
	capture_begin(CU_CAPTURE_MODE_RELAXED);
	GIVES(CU_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery, cuda.stream);
	capture_is_spoilt();
	capture_begin(CU_CAPTURE_MODE_RELAXED);
	GIVES(CU_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize, cuda.stream);
	capture_is_spoilt();
	capture_begin(CU_CAPTURE_MODE_RELAXED);
	GIVES(CU_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent, cuda.stream, event, 0);
	capture_is_spoilt();
	noted(3, "cuStreamWaitEvent");
	OK(cuEventDestroy, event);
	OK(cuStreamDestroy, outside);
}

static void
the_legacy_stream_would_wait_for_a_blocking_one(void)
{
	struct cu_graph *graph = NULL;
	struct cu_stream *blocking;
	int status = CU_CAPTURE_NONE;

	up();
	map_chunk(0);
	OK(cuStreamCreate, &blocking, CU_STREAM_PLAIN);
	OK(cuStreamBeginCapture, blocking, CU_CAPTURE_MODE_RELAXED);
	GIVES(CU_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing, NULL, &status);
	OK(cuStreamIsCapturing, blocking, &status);
	CHECK(status == CU_CAPTURE_ACTIVE); /* the question does no harm */
	noted(0, "");
	GIVES(CU_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD32Async, cuda.range, 9, 1, NULL);
	GIVES(CU_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture, blocking, &graph);
	OK(cuMemsetD32Async, cuda.range, 9, 1, NULL);
	OK(cuStreamDestroy, blocking);
	noted(1, "legacy");
}

static void
captures_and_graphs_are_checked(void)
{
	struct cu_graph_exec *exec = NULL;
	struct cu_graph *graph = NULL;
	struct sl_standin_live live;

	up();
	GIVES(CU_ERROR_ILLEGAL_STATE, cuStreamEndCapture, cuda.stream, &graph);
	GIVES(CU_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture, NULL, 0);
	INVALID(cuStreamBeginCapture, cuda.stream, 3);
	capture_begin(CU_CAPTURE_MODE_GLOBAL);
	GIVES(CU_ERROR_ILLEGAL_STATE, cuStreamBeginCapture, cuda.stream, 0);
	graph = capture_end(0);
	OK(cuGraphInstantiate, &exec, graph, 0);
	standin->live(&live);
	CHECK(live.graphs == 2);
	OK(cuGraphDestroy, graph);
	INVALID(cuGraphDestroy, graph);
	OK(cuGraphLaunch, exec, cuda.stream);
	OK(cuGraphExecDestroy, exec);
	INVALID(cuGraphLaunch, exec, cuda.stream);
	standin->live(&live);
	CHECK(live.graphs == 0);
	noted(6, "no such graph");
}

static const struct cuda_test tests[] = {
	BOTH(a_graph_does_its_work_each_time_it_is_launched),
	BOTH(a_global_capture_is_spoilt_by_unsafe_calls_of_other_threads),
	BOTH(the_own_thread_may_do_unsafe_calls_when_relaxed),
	OURS(mapping_and_waiting_are_unsafe),
	BOTH(a_captured_event_is_no_node_and_never_comes),
	BOTH(a_captured_event_that_is_asked_for_spoils_the_capture),
	BOTH(a_captured_stream_is_not_waited_for),
	BOTH(the_legacy_stream_would_wait_for_a_blocking_one),
	OURS(captures_and_graphs_are_checked),
};

CUDA_MAIN(tests)
