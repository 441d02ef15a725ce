/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the stand-in driver adds for tests: counters, violations, injected failures, late work, several
 * devices, leaks.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract/cuda_suite.h"

static void
destroyed_handles_are_known_as_such(void)
{
	struct cu_event *event;
	struct cu_stream *gone;

	up();
	OK(cuEventCreate, &event, 0);
	OK(cuEventDestroy, event);
	GIVES(CU_ERROR_INVALID_HANDLE, cuEventDestroy, event);
	GIVES(CU_ERROR_INVALID_HANDLE, cuEventRecord, event, cuda.stream);
	GIVES(CU_ERROR_INVALID_HANDLE, cuStreamWaitEvent, cuda.stream, event, 0);
	noted(3, "no such event");
	OK(cuStreamCreate, &gone, 0);
	OK(cuStreamDestroy, gone);
	GIVES(CU_ERROR_INVALID_HANDLE, cuStreamSynchronize, gone);
	GIVES(CU_ERROR_INVALID_HANDLE, cuStreamDestroy, gone);
	GIVES(CU_ERROR_INVALID_HANDLE, cuStreamDestroy, NULL);
	INVALID(cuMemMap, cuda.range, CHUNK, 0, 4711, 0);
	noted(4, "no such handle");
}

static void *
free_in_context(void *data)
{
	OK(cuCtxSetCurrent, cuda.context);
	OK(cuMemFreeHost, data);
	return NULL;
}

static void
freeing_pinned_memory_in_use_is_a_violation(void)
{
	_Atomic uint32_t *gate;
	pthread_t thread;
	uint32_t *data;

	up();
	map_chunk(0);
	data = pinned(4096);
	data[0] = 11;
	gate = cu_gate_close(cuda.stream);
	OK(cuMemcpyHtoDAsync, cuda.range, data, 4096, cuda.stream);
	if (pthread_create(&thread, NULL, free_in_context, data))
		exit(1);
	for (int i = 0; i < WAIT_MAX && !standin->violations(); i++)
		sched_yield();
	noted(1, "freed while in use by cuMemcpyHtoDAsync");
	cu_gate_open(gate);
	pthread_join(thread, NULL);
	OK(cuStreamSynchronize, cuda.stream);
	CHECK(word_at(cuda.range) == 11); /* the free waited for the copy */
}

static void
calls_are_counted_by_name(void)
{
	size_t bytes;

	up();
	standin->calls_reset();
	OK(cuMemGetInfo, &bytes, &bytes);
	OK(cuMemGetInfo, &bytes, &bytes);
	map_chunk(0);
	CHECK(standin->calls("cuMemGetInfo_v2") == 2);
	CHECK(standin->calls("cuMemMap") == 1);
	CHECK(standin->calls("cuMemUnmap") == 0);
	CHECK(standin->calls("*") == 5);
	CHECK(standin->calls("nothing") == UINT64_MAX);
}

static void
failures_are_injected_where_asked_for(void)
{
	uint64_t handle = 0, addr = 0;

	up();
	CHECK(standin->fail_set("cuMemCreate:2:2") == 0);
	OK(cuMemCreate, &handle, CHUNK, &on_device, 0);
	GIVES(CU_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, CHUNK, &on_device, 0);
	OK(cuMemCreate, &handle, CHUNK, &on_device, 0);
	CHECK(standin->fail_fired() == 1);
	CHECK(standin->fail_set("cuMemAddressReserve:2+:2,cuMemMap") == 0);
	OK(cuMemAddressReserve, &addr, CHUNK, 0, 0, 0);
	GIVES(CU_ERROR_OUT_OF_MEMORY, cuMemAddressReserve, &addr, CHUNK, 0, 0, 0);
	GIVES(CU_ERROR_OUT_OF_MEMORY, cuMemAddressReserve, &addr, CHUNK, 0, 0, 0);
	GIVES(CU_ERROR_OPERATING_SYSTEM, cuMemMap, cuda.range, CHUNK, 0, handle, 0);
	CHECK(standin->fail_set("*:3:801") == 0);
	OK(cuCtxSetCurrent, cuda.context);
	OK(cuStreamQuery, cuda.stream); /* how often that is asked does not count */
	OK(cuMemRelease, handle);
	GIVES(CU_ERROR_NOT_SUPPORTED, cuStreamSynchronize, cuda.stream);
	OK(cuStreamSynchronize, cuda.stream);
	CHECK(standin->fail_set("cuNothing:1") == -1);
	CHECK(standin->fail_set("cuMemMap:0") == -1);
	CHECK(standin->fail_set("cuMemMap:1:x") == -1);
	CHECK(standin->fail_set(NULL) == 0);
	noted(0, "");
}

static void
work_can_fail_when_it_runs(void)
{
	char *data;

	setenv("CUDA_STANDIN_FAIL", "exec.copy:2:714", 1);
	up();
	map_chunk(0);
	data = pinned(4096);
	OK(cuMemcpyHtoDAsync, cuda.range, data, 4096, cuda.stream);
	OK(cuStreamSynchronize, cuda.stream);
	OK(cuMemcpyHtoDAsync, cuda.range, data, 4096, cuda.stream);
	GIVES(CU_ERROR_HARDWARE_STACK_ERROR, cuStreamSynchronize, cuda.stream);
	GIVES(CU_ERROR_HARDWARE_STACK_ERROR, cuMemcpyHtoDAsync, cuda.range, data, 4096,
	      cuda.stream);
	noted(0, "");
}

static void
a_context_can_be_lost_at_will(void)
{
	_Atomic uint32_t *gate;

	up();
	gate = cu_gate_close(cuda.stream); /* would wait for ever */
	standin->lose_context(0, CU_ERROR_ECC_UNCORRECTABLE);
	GIVES(CU_ERROR_ECC_UNCORRECTABLE, cuStreamSynchronize, cuda.stream);
	GIVES(CU_ERROR_ECC_UNCORRECTABLE, cuMemFreeHost, gate);
	OK(cuDevicePrimaryCtxRelease, 0);
	GIVES(CU_ERROR_ECC_UNCORRECTABLE, cuDevicePrimaryCtxRetain, &cuda.context, 0);
	noted(0, "");
}

static void
several_devices_have_memory_and_access_of_their_own(void)
{
	struct cu_access by_other = {{CU_LOCATION_DEVICE, 1}, CU_ACCESS_READ_WRITE};
	struct cu_context *other;
	struct cu_stream *elsewhere;
	uint64_t plain, mine;
	size_t free_bytes, total;
	uint32_t *data;
	int can;

	setenv("CUDA_STANDIN_DEVICES", "2", 1);
	up();
	data = pinned(4096);
	map_chunk(0);
	OK(cuMemAlloc, &mine, 4096);
	fill_word(mine, 8);
	OK(cuDevicePrimaryCtxRetain, &other, 1);
	OK(cuCtxPushCurrent, other);
	OK(cuMemGetInfo, &free_bytes, &total);
	CHECK(free_bytes == total);
	OK(cuStreamCreate, &elsewhere, CU_STREAM_NONBLOCKING);
	INVALID(cuMemcpyDtoHAsync, data, cuda.range, 4096, elsewhere);
	noted(1, "without access");
	OK(cuMemSetAccess, cuda.range, CHUNK, &by_other, 1);
	OK(cuMemsetD32Async, cuda.range, 3, 16, elsewhere);
	OK(cuStreamSynchronize, elsewhere);
	OK(cuMemAlloc, &plain, 4096);
	/* Between plain memory of two devices no access is needed. */
	OK(cuMemcpyPeerAsync, plain, other, mine, cuda.context, 4, elsewhere);
	OK(cuMemcpyDtoHAsync, data, plain, 4, elsewhere);
	OK(cuStreamSynchronize, elsewhere);
	CHECK(data[0] == 8);
	OK(cuDeviceCanAccessPeer, &can, 1, 0);
	CHECK(can == 1);
	OK(cuCtxEnablePeerAccess, cuda.context, 0);
	GIVES(CU_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess, cuda.context, 0);
	GIVES(CU_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess, other, 0);
	standin->lose_context(1, CU_ERROR_ILLEGAL_ADDRESS);
	GIVES(CU_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
	OK(cuCtxPopCurrent, &other);
	CHECK(word_at(cuda.range) == 3); /* the first is not concerned */
}

static void
late_work_shows_a_wait_that_is_missing(void)
{
	struct cu_stream *other;
	struct cu_event *event;
	uint32_t *back;

	setenv("CUDA_STANDIN_LATE_US", "10000000", 1);
	up();
	map_chunk(0);
	back = pinned(4096);
	OK(cuStreamCreate, &other, CU_STREAM_NONBLOCKING);
	OK(cuEventCreate, &event, CU_EVENT_UNTIMED);
	OK(cuMemsetD32Async, cuda.range, 1, 16, cuda.stream);
	OK(cuStreamSynchronize, cuda.stream);
	OK(cuMemsetD32Async, cuda.range, 2, 16, cuda.stream);
	OK(cuMemcpyDtoHAsync, back, cuda.range, 4, other); /* does not wait for the 2 */
	OK(cuStreamSynchronize, other);
	CHECK(back[0] == 1);
	OK(cuEventRecord, event, cuda.stream);
	OK(cuStreamWaitEvent, other, event, 0);
	OK(cuMemcpyDtoHAsync, back, cuda.range, 4, other);
	OK(cuStreamSynchronize, other);
	CHECK(back[0] == 2);
}

static void
copies_of_a_direction_that_is_held_wait(void)
{
	uint32_t *word;

	up();
	map_chunk(0);
	word = pinned(4);
	*word = 0;
	OK(cuMemsetD32Async, cuda.range, 7, 1, cuda.stream);
	standin->copies_hold(SL_STANDIN_COPIES_IN);
	OK(cuMemcpyDtoHAsync, word, cuda.range, 4, cuda.stream);
	OK(cuStreamSynchronize, cuda.stream);
	CHECK(*word == 7);
	*word = 0;
	standin->copies_hold(SL_STANDIN_COPIES_OUT);
	OK(cuMemcpyDtoHAsync, word, cuda.range, 4, cuda.stream);
	GIVES(CU_ERROR_NOT_READY, cuStreamQuery, cuda.stream);
	usleep(2000);
	GIVES(CU_ERROR_NOT_READY, cuStreamQuery, cuda.stream);
	CHECK(__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0);
	standin->copies_hold(0);
	OK(cuStreamSynchronize, cuda.stream);
	CHECK(*word == 7);
}

static void
a_slow_link_shows_in_the_time_of_events(void)
{
	struct cu_event *begin, *end;
	float ms = 0;
	char *data;

	setenv("CUDA_STANDIN_COPY_BYTES_PER_S", "40M", 1);
	up();
	map_chunk(0);
	data = pinned(CHUNK);
	OK(cuEventCreate, &begin, CU_EVENT_PLAIN);
	OK(cuEventCreate, &end, CU_EVENT_PLAIN);
	OK(cuEventRecord, begin, cuda.stream);
	OK(cuMemcpyHtoDAsync, cuda.range, data, CHUNK, cuda.stream);
	OK(cuEventRecord, end, cuda.stream);
	OK(cuStreamSynchronize, cuda.stream);
	OK(cuEventElapsedTime, &ms, begin, end);
	CHECK(ms >= 49.9f); /* a sleep is never shorter than asked for */
}

static void
a_capturing_stream_is_not_waited_for(void)
{
	int status;

	up();
	map_chunk(0);
	OK(cuStreamIsCapturing, cuda.stream, &status);
	CHECK(status == CU_CAPTURE_NONE);
	CHECK(standin->stream_capture(cuda.stream, 1) == 0);
	OK(cuStreamIsCapturing, cuda.stream, &status);
	CHECK(status == CU_CAPTURE_ACTIVE);
	OK(cuMemsetD32Async, cuda.range, 9, 1, cuda.stream);
	GIVES(CU_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize, cuda.stream);
	GIVES(CU_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery, cuda.stream);
	noted(2, "being captured");
	CHECK(standin->stream_capture(cuda.stream, 0) == 0);
	CHECK(word_at(cuda.range) == 0);
	CHECK(standin->stream_capture(NULL, 1) == -1);
}

static void
memory_may_be_new_but_not_zero(void)
{
	setenv("CUDA_STANDIN_FILL", "0xa5", 1);
	up();
	map_chunk(0);
	CHECK(word_at(cuda.range + 4096) == 0xa5a5a5a5u);
}

static void
pinned_memory_has_a_limit(void)
{
	uint64_t handle = 0;
	void *data;

	setenv("CUDA_STANDIN_HOST_BYTES", "4M", 1);
	up();
	OK(cuMemHostAlloc, &data, CHUNK, 0);
	OK(cuMemCreate, &handle, CHUNK, &on_host, 0);
	GIVES(CU_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, CHUNK, &on_host, 0);
	GIVES(CU_ERROR_OUT_OF_MEMORY, cuMemHostAlloc, &data, 4096, 0);
	GIVES(CU_ERROR_OUT_OF_MEMORY, cuMemHostRegister, &cuda, sizeof(cuda), 0);
	noted(0, "");
}

static void
tests_can_look_into_the_devices_view(void)
{
	uint32_t word = 0;

	up();
	map_chunk(0);
	fill_word(cuda.range + 40, 13);
	CHECK(standin->mapped(0, cuda.range, CHUNK, SL_STANDIN_WRITE));
	CHECK(!standin->mapped(0, cuda.range, CHUNK + 1, SL_STANDIN_READ));
	CHECK(standin->peek(0, cuda.range + 40, &word, 4) == 0 && word == 13);
	CHECK(standin->peek(0, cuda.range + CHUNK, &word, 4) == -1);
	OK(cuMemSetAccess, cuda.range, CHUNK, &by_device_reading, 1);
	CHECK(!standin->mapped(0, cuda.range, 4, SL_STANDIN_WRITE));
	CHECK(standin->mapped(0, cuda.range, 4, SL_STANDIN_READ));
}

static void
what_was_not_given_back_is_known(void)
{
	struct sl_standin_live live;
	struct cu_event *event;
	uint64_t handle, plain;
	void *data;

	up();
	handle = map_chunk(0);
	OK(cuEventCreate, &event, 0);
	OK(cuMemAlloc, &plain, 1);
	data = pinned(1);
	standin->live(&live);
	CHECK(live.handles == 1 && live.mappings == 1 && live.reservations == 1);
	CHECK(live.plain == 1 && live.pinned == 1 && live.registered == 0);
	CHECK(live.streams == 1 && live.events == 1 && live.contexts == 1);
	OK(cuMemFreeHost, data);
	OK(cuMemFree, plain);
	OK(cuEventDestroy, event);
	OK(cuMemUnmap, cuda.range, CHUNK);
	OK(cuMemRelease, handle);
	OK(cuMemAddressFree, cuda.range, RANGE);
	OK(cuStreamDestroy, cuda.stream);
	OK(cuDevicePrimaryCtxRelease, 0);
	standin->live(&live);
	CHECK(!live.handles && !live.mappings && !live.reservations && !live.plain);
	CHECK(!live.pinned && !live.streams && !live.events && !live.contexts);
	noted(0, "");
}

static void
leave_a_range(void)
{
	setenv("CUDA_STANDIN_STRICT", "1", 1);
	setenv("CUDA_STANDIN_QUIET", "1", 1);
	up();
}

static void
leave_nothing(void)
{
	setenv("CUDA_STANDIN_STRICT", "1", 1);
	up();
	OK(cuMemAddressFree, cuda.range, RANGE);
	OK(cuStreamDestroy, cuda.stream);
}

static void
a_strict_process_does_not_end_well_with_a_leak(void)
{
	CHECK(child_status(leave_a_range) == 97);
	CHECK(child_status(leave_nothing) == 0);
}

static void
call_in_child(void)
{
	size_t bytes;
	int n;

	GIVES(CU_ERROR_NOT_INITIALIZED, cuMemGetInfo, &bytes, &bytes);
	GIVES(CU_ERROR_NOT_INITIALIZED, cuDeviceGetCount, &n);
	GIVES(CU_ERROR_NOT_INITIALIZED, cuInit, 0);
	noted(3, "forked child");
}

static void
a_forked_child_is_refused(void)
{
	up();
	CHECK(child_status(call_in_child) == 0);
	OK(cuCtxSynchronize);
	noted(0, "");
}

static const struct cuda_test tests[] = {
	OURS(destroyed_handles_are_known_as_such),
	OURS(freeing_pinned_memory_in_use_is_a_violation),
	OURS(calls_are_counted_by_name),
	OURS(failures_are_injected_where_asked_for),
	OURS(work_can_fail_when_it_runs),
	OURS(a_context_can_be_lost_at_will),
	OURS(several_devices_have_memory_and_access_of_their_own),
	OURS(late_work_shows_a_wait_that_is_missing),
	OURS(copies_of_a_direction_that_is_held_wait),
	OURS(a_slow_link_shows_in_the_time_of_events),
	OURS(a_capturing_stream_is_not_waited_for),
	OURS(memory_may_be_new_but_not_zero),
	OURS(pinned_memory_has_a_limit),
	OURS(tests_can_look_into_the_devices_view),
	OURS(what_was_not_given_back_is_known),
	OURS(a_strict_process_does_not_end_well_with_a_leak),
	OURS(a_forked_child_is_refused),
};

CUDA_MAIN(tests)
