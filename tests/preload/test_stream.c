/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams under the preload library. Room of freed memory is not reused while a stream may still
 * write to it: a destroyed one, another thread's own, or a captured one. The library's work on
 * other threads does not spoil captures. A forked child and a driver that is torn down are left
 * alone.
 */
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

#define MIB ((uint64_t)1 << 20)
#define N   (MIB / sizeof(uint64_t))

static struct work w;
static uint64_t left; /* freed by an exit handler */
static uint64_t *gate;

static void
gate_close(void)
{
	__atomic_store_n(gate, 0, __ATOMIC_RELEASE);
}

static void
gate_open(void)
{
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
}

static uint64_t
gate_address(void)
{
	return (uintptr_t)gate;
}

/* Allocate and fill while a kernel waits to write to memory that was freed; then let it. What is filled may
 * be other memory, or the same, behind that kernel: so nobody waits for it before. written: behind the kernel,
 * where a capture forbids to wait for the context. */
static void
others_keep_their_contents(struct cu_stream *other, struct cu_event *written)
{
	uint64_t p[4];

	for (unsigned i = 0; i < 4; i++) {
		OK(w.cuMemAlloc_v2(&p[i], N * sizeof(uint64_t)));
		OK(w.cuMemsetD8Async(p[i], 0x40 + (int)i, N * sizeof(uint64_t), other));
	}
	usleep(20000); /* what is not held back has been done */
	gate_open();
	OK(written ? w.cuEventSynchronize(written) : w.cuCtxSynchronize());
	OK(w.cuStreamSynchronize(other));
	for (unsigned i = 0; i < 4; i++) {
		work_expect(&w, p[i], N, 0x0101010101010101u * (0x40 + i));
		OK(w.cuMemFree_v2(p[i]));
	}
}

static void
destroyed_stream_keeps_what_it_still_writes_to(struct cu_stream *other)
{
	struct cu_stream *stream;
	uint64_t p = work_alloc(&w, N, 1);

	gate_close();
	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	work_launch(&w, WORK_GATE, stream, p, N, gate_address());
	OK(w.cuStreamDestroy_v2(stream));
	OK(w.cuMemFree_v2(p));
	others_keep_their_contents(other, NULL);
}

static void
stream_made_after_one_was_destroyed_is_another(struct cu_stream *other)
{
	struct cu_stream *first, *second;
	uint64_t p = work_alloc(&w, N, 1), q = work_alloc(&w, N, 1);

	gate_close();
	OK(w.cuStreamCreateWithPriority(&first, CU_STREAM_NONBLOCKING, 0));
	work_launch(&w, WORK_GATE, first, p, N, gate_address());
	OK(w.cuStreamDestroy_v2(first));
	OK(w.cuStreamCreate(&second, CU_STREAM_NONBLOCKING));
	work_launch(&w, WORK_ADD, second, q, N, 1);
	OK(w.cuStreamSynchronize(second));
	OK(w.cuMemFree_v2(q));
	OK(w.cuMemFree_v2(p));
	OK(w.cuStreamDestroy_v2(second));
	others_keep_their_contents(other, NULL);
}

struct gated {
	uint64_t p;
};

static void *
own_stream_run(void *arg)
{
	struct gated *gated = arg;
	uint64_t n = N, v = gate_address();
	void *params[] = {&gated->p, &n, &v};

	OK(w.cuCtxSetCurrent(w.context));
	OK(w.cuLaunchKernel_ptsz(w.kernel[WORK_GATE], 1, 1, 1, 1, 1, 1, 0, NULL, params,
				 NULL));
	return NULL;
}

/* Nobody else can name that stream; the thread is gone when its memory is freed. */
static void
ended_threads_own_stream_keeps_what_it_still_writes_to(struct cu_stream *other)
{
	struct gated gated = {work_alloc(&w, N, 1)};
	pthread_t thread;

	gate_close();
	CHECK(!pthread_create(&thread, NULL, own_stream_run, &gated));
	CHECK(!pthread_join(thread, NULL));
	OK(w.cuMemFree_v2(gated.p));
	others_keep_their_contents(other, NULL);
}

static void
captured_stream_keeps_what_it_was_writing_to(struct cu_stream *other)
{
	struct cu_stream *stream;
	struct cu_event *written;
	struct cu_graph *graph;
	uint64_t p = work_alloc(&w, N, 1);

	gate_close();
	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	work_launch(&w, WORK_GATE, stream, p, N, gate_address());
	OK(w.cuEventCreate(&written, CU_EVENT_UNTIMED));
	OK(w.cuEventRecord(written, stream));
	OK(w.cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_RELAXED));
	OK(w.cuMemFree_v2(p));
	others_keep_their_contents(other, written);
	OK(w.cuEventDestroy_v2(written));
	OK(w.cuStreamEndCapture(stream, &graph));
	OK(w.cuGraphDestroy(graph));
	OK(w.cuStreamDestroy_v2(stream));
}

/* More streams than there are bits. */
static void
seventy_streams_write_each_to_its_own(struct cu_stream *other)
{
	enum { STREAMS = 70 };
	struct cu_stream *streams[STREAMS];
	uint64_t p[STREAMS];

	gate_close();
	for (unsigned i = 0; i < STREAMS; i++) {
		OK(w.cuStreamCreate(&streams[i], CU_STREAM_NONBLOCKING));
		OK(w.cuMemAlloc_v2(&p[i], N * sizeof(uint64_t)));
		work_launch(&w, WORK_GATE, streams[i], p[i], N, gate_address());
	}
	for (unsigned i = 0; i < STREAMS; i++)
		OK(w.cuMemFree_v2(p[i]));
	others_keep_their_contents(other, NULL);
	for (unsigned i = 0; i < STREAMS; i++)
		OK(w.cuStreamDestroy_v2(streams[i]));
}

/* ---- captures and other threads ---- */

static void *
allocate_run(void *arg)
{
	struct cu_stream *stream;

	(void)arg;
	OK(w.cuCtxSetCurrent(w.context));
	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	for (unsigned i = 0; i < 50; i++) {
		uint64_t p;

		OK(w.cuMemAlloc_v2(&p, (1 + i % 7) * 100000));
		OK(w.cuMemsetD8Async(p, 1, 100000, stream));
		OK(w.cuMemFree_v2(p));
	}
	OK(w.cuStreamDestroy_v2(stream));
	return NULL;
}

/* Natively the other thread's cuMemAlloc() would spoil it; ours needs nothing that does. */
static void
capture_in_global_mode_outlives_allocations_of_another_thread(void)
{
	uint64_t p = work_alloc(&w, N, 5);
	struct cu_stream *stream;
	struct cu_graph *graph;
	pthread_t thread;
	size_t n = 0;

	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	OK(w.cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
	work_launch(&w, WORK_ADD, stream, p, N, 1);
	CHECK(!pthread_create(&thread, NULL, allocate_run, NULL));
	CHECK(!pthread_join(thread, NULL));
	work_launch(&w, WORK_ADD, stream, p, N, 1);
	OK(w.cuStreamEndCapture(stream, &graph));
	OK(w.cuGraphGetNodes(graph, NULL, &n));
	CHECK(n == 2);
	OK(w.cuGraphDestroy(graph));
	OK(w.cuStreamDestroy_v2(stream));
	OK(w.cuMemFree_v2(p));
}

/* A capture that cannot be ended, or fails, is over as far as the driver says so. */
static void
failed_ends_of_captures_are_told_apart(void)
{
	struct cu_stream *stream;
	struct cu_graph *graph;
	uint64_t p = work_alloc(&w, N, 5);

	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	CHECK(w.cuStreamEndCapture(stream, &graph) == CU_ERROR_ILLEGAL_STATE);
	OK(w.cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
	CHECK(w.cuStreamQuery(stream) == CU_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CHECK(w.cuStreamEndCapture(stream, &graph) == CU_ERROR_STREAM_CAPTURE_INVALIDATED);
	/* One that ends with its stream. */
	OK(w.cuStreamBeginCapture_v2(stream, CU_CAPTURE_MODE_GLOBAL));
	OK(w.cuStreamDestroy_v2(stream));
	/* None is on: no call asks for one. */
	w.standin->calls_reset();
	work_launch(&w, WORK_ADD, NULL, p, N, 1);
	CHECK(w.standin->calls("cuThreadExchangeStreamCaptureMode") == 0);
	work_expect(&w, p, N, 6);
	OK(w.cuMemFree_v2(p));
	w.standin->violations_reset(); /* those three */
}

/* ---- threads, children, ends ---- */

static void *
streams_run(void *arg)
{
	unsigned seed = (unsigned)(uintptr_t)arg;
	struct cu_stream *stream = NULL;
	uint64_t p[4], value[4];

	OK(w.cuCtxSetCurrent(w.context));
	for (unsigned i = 0; i < 4; i++) {
		value[i] = seed * 100 + i;
		OK(w.cuMemAlloc_v2(&p[i], N * sizeof(uint64_t)));
		OK(w.cuMemsetD8Async(p[i], 0, N * sizeof(uint64_t), NULL));
	}
	OK(w.cuStreamSynchronize(NULL));
	for (unsigned round = 0; round < 40; round++) {
		unsigned i = (seed + round) % 4;

		if (!stream)
			OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
		work_launch(&w, WORK_ADD, stream, p[i], N, value[i]);
		if (round % 8 == 7) {
			/* Waits for nothing: the next is ordered by what the memory is freed behind. */
			OK(w.cuStreamSynchronize(stream));
			OK(w.cuStreamDestroy_v2(stream));
			stream = NULL;
		}
	}
	OK(w.cuCtxSynchronize());
	for (unsigned i = 0; i < 4; i++) {
		work_expect(&w, p[i], N, value[i] * 10);
		OK(w.cuMemFree_v2(p[i]));
	}
	return NULL;
}

static void
threads_make_and_destroy_streams(void)
{
	pthread_t threads[6];

	for (unsigned i = 0; i < 6; i++)
		CHECK(!pthread_create(&threads[i], NULL, streams_run,
				      (void *)(uintptr_t)(i + 1)));
	for (unsigned i = 0; i < 6; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

/* What a child calls goes to the driver as it is, which refuses it; a free has nothing to do. */
static void
forked_child_is_left_alone(struct cu_stream *stream)
{
	uint64_t p = work_alloc(&w, N, 3), q;
	int status = -1;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		int refused = w.cuMemAlloc_v2(&q, 4096) != 0 && w.cuMemFree_v2(p) == 0 &&
			      w.cuStreamDestroy_v2(stream) != 0;

		_exit(refused ? 0 : 1);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	work_expect(&w, p, N, 3);
	OK(w.cuMemFree_v2(p));
}

/* As at the end of a process: every call of the driver's says that it is torn down. */
static void
torn_down_driver_is_no_reason_to_wait(struct cu_stream *stream)
{
	uint64_t p = work_alloc(&w, N, 3);

	work_launch(&w, WORK_ADD, stream, p, N, 1);
	OK(w.cuStreamSynchronize(stream));
	w.standin->violations_reset();
	CHECK(!w.standin->fail_set("*:1+:4"));
	CHECK(!w.cuMemFree_v2(p)); /* there is nothing left that it could fail to give back */
	(void)w.cuStreamDestroy_v2(stream);
	(void)w.cuModuleUnload(w.module);
}

/* Registered before the driver is loaded, so that it runs when the library has seen its end. */
static void
freed_after_all_else(void)
{
	if (left && w.cuMemFree_v2(left)) {
		fputs("a free at the very end fails\n", stderr);
		_exit(1);
	}
}

int
main(void)
{
	struct cu_stream *other;
	void *data;

	CHECK(!atexit(freed_after_all_else));
	work_start(&w, 192, 256);
	OK(w.cuMemHostAlloc(&data, 4096, 0));
	gate = data;
	OK(w.cuStreamCreate(&other, CU_STREAM_NONBLOCKING));
	destroyed_stream_keeps_what_it_still_writes_to(other);
	stream_made_after_one_was_destroyed_is_another(other);
	ended_threads_own_stream_keeps_what_it_still_writes_to(other);
	captured_stream_keeps_what_it_was_writing_to(other);
	seventy_streams_write_each_to_its_own(other);
	capture_in_global_mode_outlives_allocations_of_another_thread();
	failed_ends_of_captures_are_told_apart();
	threads_make_and_destroy_streams();
	work_end(&w);
	forked_child_is_left_alone(other);
	left = work_alloc(&w, N, 5);
	torn_down_driver_is_no_reason_to_wait(other);
	return 0;
}
