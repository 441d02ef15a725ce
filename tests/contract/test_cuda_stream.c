/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's rules for streams, events and contexts: what is ordered by what, and what each
 * call wants.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "contract/cuda_suite.h"

/* ---- streams and events ---- */

static void
work_of_a_stream_is_done_in_order_and_not_waited_for(void)
{
	_Atomic uint32_t *gate;
	uint32_t *back;

	up();
	map_chunk(0);
	back = pinned(4096);
	gate = cu_gate_close(cuda.stream);
	OK(cuMemsetD32Async, cuda.range, 1, 16, cuda.stream);
	OK(cuMemcpyDtoHAsync, back, cuda.range, 64, cuda.stream);
	OK(cuMemsetD32Async, cuda.range, 2, 16, cuda.stream);
	OK(cuMemcpyDtoHAsync, back + 16, cuda.range, 64, cuda.stream);
	GIVES(CU_ERROR_NOT_READY, cuStreamQuery, cuda.stream);
	CHECK(__atomic_load_n(&back[0], __ATOMIC_RELAXED) == 0);
	cu_gate_open(gate);
	OK(cuStreamSynchronize, cuda.stream);
	OK(cuStreamQuery, cuda.stream);
	CHECK(back[0] == 1 && back[16] == 2);
	noted(0, "");
}

static void
an_event_carries_order_from_stream_to_stream(void)
{
	_Atomic uint32_t *gate;
	struct cu_event *event;
	struct cu_stream *other;
	uint32_t *back;

	up();
	map_chunk(0);
	back = pinned(4096);
	OK(cuStreamCreateWithPriority, &other, CU_STREAM_NONBLOCKING, -1);
	OK(cuEventCreate, &event, CU_EVENT_UNTIMED);
	/* Never recorded: done, and nothing to wait for. */
	OK(cuEventQuery, event);
	OK(cuEventSynchronize, event);
	OK(cuStreamWaitEvent, other, event, 0);
	gate = cu_gate_close(cuda.stream);
	OK(cuMemsetD32Async, cuda.range, 7, 16, cuda.stream);
	OK(cuEventRecord, event, cuda.stream);
	OK(cuStreamWaitEvent, other, event, 0);
	OK(cuMemcpyDtoHAsync, back, cuda.range, 64, other);
	GIVES(CU_ERROR_NOT_READY, cuEventQuery, event);
	GIVES(CU_ERROR_NOT_READY, cuStreamQuery, other);
	/* Gone for the program, not for the stream that waits. */
	OK(cuEventDestroy, event);
	cu_gate_open(gate);
	OK(cuStreamSynchronize, other);
	CHECK(back[0] == 7);
	OK(cuStreamDestroy, other);
	noted(0, "");
}

static void
a_wait_means_the_record_that_was_last_when_it_was_called(void)
{
	_Atomic uint32_t *gate;
	struct cu_event *event;
	struct cu_stream *other;

	up();
	OK(cuStreamCreate, &other, CU_STREAM_NONBLOCKING);
	OK(cuEventCreate, &event, CU_EVENT_UNTIMED);
	OK(cuEventRecord, event, cuda.stream);
	OK(cuStreamWaitEvent, other, event, 0);
	gate = cu_gate_close(cuda.stream);
	OK(cuEventRecord, event, cuda.stream);
	OK(cuStreamSynchronize, other); /* does not wait for the gate */
	GIVES(CU_ERROR_NOT_READY, cuEventQuery, event);
	cu_gate_open(gate);
	OK(cuEventSynchronize, event);
	noted(0, "");
}

static void
events_know_the_time_if_asked_to(void)
{
	struct cu_event *begin, *end, *untimed, *none;
	float ms = -1;

	up();
	OK(cuEventCreate, &begin, CU_EVENT_PLAIN);
	OK(cuEventCreate, &end, CU_EVENT_BLOCKS);
	OK(cuEventCreate, &untimed, CU_EVENT_UNTIMED);
	INVALID(cuEventCreate, &none, 64);
	GIVES(CU_ERROR_INVALID_HANDLE, cuEventElapsedTime, &ms, begin, end);
	OK(cuEventRecord, begin, cuda.stream);
	OK(cuEventRecord, end, cuda.stream);
	OK(cuEventRecord, untimed, cuda.stream);
	OK(cuStreamSynchronize, cuda.stream);
	OK(cuEventElapsedTime, &ms, begin, end);
	CHECK(ms >= 0);
	GIVES(CU_ERROR_INVALID_HANDLE, cuEventElapsedTime, &ms, begin, untimed);
	INVALID(cuStreamWaitEvent, cuda.stream, begin, 5);
}

static void
the_legacy_stream_waits_for_blocking_streams_and_they_for_it(void)
{
	_Atomic uint32_t *gate;
	struct cu_stream *blocking;

	up();
	map_chunk(0);
	OK(cuStreamCreate, &blocking, CU_STREAM_PLAIN);
	gate = cu_gate_close(blocking);
	OK(cuMemsetD32Async, cuda.range, 1, 16, NULL);
	OK(cuMemsetD32Async, cuda.range + 64, 1, 16, cuda.stream);
	OK(cuStreamSynchronize, cuda.stream); /* not concerned */
	GIVES(CU_ERROR_NOT_READY, cuStreamQuery, NULL);
	cu_gate_open(gate);
	OK(cuStreamSynchronize, NULL);
	OK(cuStreamQuery, blocking);
	gate = cu_gate_close(NULL);
	OK(cuMemsetD32Async, cuda.range, 2, 16, blocking);
	GIVES(CU_ERROR_NOT_READY, cuStreamQuery, blocking);
	cu_gate_open(gate);
	OK(cuStreamSynchronize, blocking);
	OK(cuStreamQuery, CU_LEGACY_STREAM);
	CHECK(word_at(cuda.range) == 2);
	noted(0, "");
}

static _Atomic int host_runs, host_code, host_query_code;

static void
host_function(void *argument)
{
	size_t bytes;

	atomic_store(&host_code, cuda.driver->cuMemGetInfo(&bytes, &bytes));
	atomic_store(&host_query_code, cuda.driver->cuMemUnmap(cuda.range, CHUNK));
	atomic_fetch_add(&host_runs, *(int *)argument);
}

static void
host_functions_run_in_order_and_may_not_call_the_driver(void)
{
	_Atomic uint32_t *gate;
	int three = 3;

	up();
	map_chunk(0);
	gate = cu_gate_close(cuda.stream);
	OK(cuLaunchHostFunc, cuda.stream, host_function, &three);
	INVALID(cuLaunchHostFunc, cuda.stream, NULL, NULL);
	CHECK(atomic_load(&host_runs) == 0);
	cu_gate_open(gate);
	OK(cuStreamSynchronize, cuda.stream);
	CHECK(atomic_load(&host_runs) == 3);
	CHECK(atomic_load(&host_code) == CU_ERROR_NOT_PERMITTED);
	CHECK(atomic_load(&host_query_code) == CU_ERROR_NOT_PERMITTED);
	noted(3, "host function");
}

static void
words_are_waited_for_and_written(void)
{
	_Atomic uint32_t *words;

	up();
	map_chunk(0);
	words = pinned(4096);
	INVALID(cuStreamWaitValue32, cuda.stream, cuda.range + CHUNK, 1, CU_WAIT_VALUE_EQ);
	OK(cuStreamWriteValue32, cuda.stream, cuda.range, 5, CU_WRITE_VALUE_DEFAULT);
	OK(cuStreamWaitValue32, cuda.stream, cuda.range, 4, CU_WAIT_VALUE_GEQ);
	OK(cuStreamWaitValue32, cuda.stream, cuda.range, 4, CU_WAIT_VALUE_AND);
	OK(cuStreamWaitValue32, cuda.stream, cuda.range, 4, CU_WAIT_VALUE_NOR);
	OK(cuStreamWriteValue32, cuda.stream, (uintptr_t)words, 9, CU_WRITE_VALUE_DEFAULT);
	OK(cuStreamSynchronize, cuda.stream);
	CHECK(atomic_load(&words[0]) == 9);
	OK(cuStreamWaitValue32, cuda.stream, (uintptr_t)&words[1], 8, CU_WAIT_VALUE_GEQ);
	atomic_store(&words[1], 7);
	GIVES(CU_ERROR_NOT_READY, cuStreamQuery, cuda.stream);
	atomic_store(&words[1], 8);
	OK(cuStreamSynchronize, cuda.stream);
}

static void
more_work_than_a_queue_holds_is_done_all_the_same(void)
{
	enum { PIECES = 3000 };

	up();
	map_chunk(0);
	for (uint32_t i = 0; i < PIECES; i++)
		OK(cuMemsetD32Async, cuda.range, i, 1, cuda.stream);
	CHECK(word_at(cuda.range) == PIECES - 1);
	noted(0, "");
}

static void
a_thread_has_a_default_stream_of_its_own_if_it_wants(void)
{
	_Atomic uint32_t *gate;

	up();
	map_chunk(0);
	gate = cu_gate_close(CU_PER_THREAD_STREAM);
	OK(cuMemsetD32Async, cuda.range, 4, 1, CU_PER_THREAD_STREAM);
	GIVES(CU_ERROR_NOT_READY, cuStreamQuery, CU_PER_THREAD_STREAM);
	cu_gate_open(gate);
	OK(cuStreamSynchronize, CU_PER_THREAD_STREAM);
	CHECK(word_at(cuda.range) == 4);
	noted(0, "");
}

static void
a_destroyed_stream_finishes_its_work(void)
{
	_Atomic uint32_t *gate;
	struct cu_stream *other;

	up();
	map_chunk(0);
	OK(cuStreamCreate, &other, CU_STREAM_NONBLOCKING);
	gate = cu_gate_close(other);
	OK(cuMemsetD32Async, cuda.range, 6, 1, other);
	OK(cuStreamDestroy, other);
	cu_gate_open(gate);
	OK(cuCtxSynchronize);
	CHECK(word_at(cuda.range) == 6);
}

/* ---- contexts ---- */

static void
calls_want_a_context_and_mapping_does_not(void)
{
	struct cu_context *none = NULL;
	uint64_t handle = 0, addr = 0;
	size_t bytes;
	int value;

	up_without_context();
	GIVES(CU_ERROR_INVALID_CONTEXT, cuMemGetInfo, &bytes, &bytes);
	GIVES(CU_ERROR_INVALID_CONTEXT, cuMemAlloc, &addr, CHUNK);
	GIVES(CU_ERROR_INVALID_CONTEXT, cuStreamCreate, &cuda.stream, 0);
	GIVES(CU_ERROR_INVALID_CONTEXT, cuStreamSynchronize, NULL);
	GIVES(CU_ERROR_INVALID_CONTEXT, cuCtxSynchronize);
	GIVES(CU_ERROR_INVALID_CONTEXT, cuCtxGetDevice, &value);
	GIVES(CU_ERROR_INVALID_CONTEXT, cuCtxPopCurrent, &none);
	GIVES(CU_ERROR_INVALID_CONTEXT, cuMemHostAlloc, (void **)&addr, CHUNK, 0);
	GIVES(CU_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease, 0);
	OK(cuMemAddressReserve, &addr, CHUNK, 0, 0, 0);
	OK(cuMemCreate, &handle, CHUNK, &on_device, 0);
	OK(cuMemMap, addr, CHUNK, 0, handle, 0);
	OK(cuMemSetAccess, addr, CHUNK, &by_device, 1);
	OK(cuMemUnmap, addr, CHUNK);
	GIVES(CU_ERROR_INVALID_DEVICE, cuDeviceGet, &value, 99);
	INVALID(cuDeviceGetAttribute, &value, 99999, 0);
	GIVES(CU_ERROR_INVALID_DEVICE, cuDeviceGetAttribute, &value, 16, 77);
	INVALID(cuInit, 1);
	INVALID(cuCtxPushCurrent, NULL);
	OK(cuCtxSetCurrent, NULL);
	OK(cuDevicePrimaryCtxRetain, &cuda.context, 0);
	OK(cuCtxPushCurrent, cuda.context);
	OK(cuCtxGetCurrent, &none);
	CHECK(none == cuda.context);
	OK(cuMemGetInfo, &bytes, &bytes);
	OK(cuCtxPopCurrent, &none);
	CHECK(none == cuda.context);
	GIVES(CU_ERROR_INVALID_CONTEXT, cuCtxSynchronize);
	OK(cuDevicePrimaryCtxRelease, 0);
	GIVES(CU_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease, 0);
}

static void *
synchronize(void *code)
{
	*(int *)code = cuda.driver->cuCtxSynchronize();
	return NULL;
}

static void
a_thread_starts_without_a_context(void)
{
	pthread_t thread;
	int code = 0;

	up();
	if (pthread_create(&thread, NULL, synchronize, &code))
		exit(1);
	pthread_join(thread, NULL);
	CHECK(code == CU_ERROR_INVALID_CONTEXT);
	OK(cuCtxSynchronize);
}

static const struct cuda_test tests[] = {
	BOTH(work_of_a_stream_is_done_in_order_and_not_waited_for),
	BOTH(an_event_carries_order_from_stream_to_stream),
	BOTH(a_wait_means_the_record_that_was_last_when_it_was_called),
	BOTH(events_know_the_time_if_asked_to),
	BOTH(the_legacy_stream_waits_for_blocking_streams_and_they_for_it),
	BOTH(host_functions_run_in_order_and_may_not_call_the_driver),
	BOTH(words_are_waited_for_and_written),
	BOTH(more_work_than_a_queue_holds_is_done_all_the_same),
	BOTH(a_thread_has_a_default_stream_of_its_own_if_it_wants),
	BOTH(a_destroyed_stream_finishes_its_work),
	BOTH(calls_want_a_context_and_mapping_does_not),
	BOTH(a_thread_starts_without_a_context),
};

CUDA_MAIN(tests)
