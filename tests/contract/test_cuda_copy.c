/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's rules for what copies may touch, for host memory, and for what the CPU sees at an
 * address that the device has too.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "contract/cuda_suite.h"

/* ---- what copies may touch ---- */

static void
a_copy_of_what_is_not_mapped_is_refused_and_nothing_lost(void)
{
	char *data;
	uint64_t handle;

	up();
	data = pinned(CHUNK);
	INVALID(cuMemcpyHtoDAsync, cuda.range, data, 4096, cuda.stream);
	INVALID(cuMemcpyDtoHAsync, data, cuda.range, 4096, cuda.stream);
	INVALID(cuMemcpyDtoDAsync, cuda.range, cuda.range + CHUNK, 4096, cuda.stream);
	INVALID(cuMemsetD8Async, cuda.range, 1, 4096, cuda.stream);
	INVALID(cuMemsetD32Async, cuda.range, 1, 8, cuda.stream);
	noted(5, "not mapped");
	handle = memory(CHUNK, &on_device);
	OK(cuMemMap, cuda.range, CHUNK, 0, handle, 0);
	INVALID(cuMemcpyHtoDAsync, cuda.range, data, 4096, cuda.stream);
	INVALID(cuMemsetD8Async, cuda.range, 1, 4096, cuda.stream);
	noted(2, "without access");
	OK(cuMemSetAccess, cuda.range, CHUNK, &by_device, 1);
	INVALID(cuMemcpyHtoDAsync, cuda.range + CHUNK - 4096, data, 8192, cuda.stream);
	INVALID(cuMemcpyHtoDAsync, cuda.range, data + CHUNK - 4096, 8192, cuda.stream);
	INVALID(cuMemsetD32Async, cuda.range + 1, 1, 8, cuda.stream);
	INVALID(cuMemcpyHtoDAsync, 0, data, 4096, cuda.stream);
	INVALID(cuMemcpyHtoDAsync, (uint64_t)7 << 36, data, 4096, cuda.stream);
	INVALID(cuMemcpyHtoDAsync, cuda.range, NULL, 16, cuda.stream);
	noted(6, "cuMemcpyHtoDAsync");
	OK(cuMemcpyHtoDAsync, 0, data, 0, cuda.stream);
	map_chunk(1);
	OK(cuMemcpyHtoDAsync, cuda.range + CHUNK - 4096, data, 8192, cuda.stream);
	OK(cuMemcpyDtoHAsync, data, cuda.range + CHUNK - 4096, 8192, cuda.stream);
	OK(cuStreamSynchronize, cuda.stream);
	OK(cuMemSetAccess, cuda.range, CHUNK, &by_device_reading, 1);
	OK(cuMemcpyDtoHAsync, data, cuda.range, 4096, cuda.stream);
	INVALID(cuMemcpyHtoDAsync, cuda.range, data, 4096, cuda.stream);
	noted(1, "for reading only");
	OK(cuStreamSynchronize, cuda.stream);
	OK(cuCtxSynchronize);
}

static void
copies_bring_the_bytes(void)
{
	unsigned char *out, *in;
	uint64_t plain;

	up();
	map_chunk(0);
	map_chunk(1);
	out = pinned(2 * CHUNK);
	in = pinned(2 * CHUNK);
	for (size_t i = 0; i < 2 * CHUNK; i++)
		out[i] = (unsigned char)(i * 7 + i / 4096);
	OK(cuMemAlloc, &plain, 2 * CHUNK);
	OK(cuMemcpyHtoDAsync, cuda.range, out, 2 * CHUNK, cuda.stream);
	OK(cuMemcpyDtoDAsync, plain, cuda.range, 2 * CHUNK, cuda.stream);
	OK(cuMemsetD8Async, cuda.range, 0, 2 * CHUNK, cuda.stream);
	OK(cuMemcpyDtoHAsync, in, plain, 2 * CHUNK, cuda.stream);
	OK(cuStreamSynchronize, cuda.stream);
	CHECK(!memcmp(in, out, 2 * CHUNK));
	CHECK(word_at(cuda.range + CHUNK) == 0);
	OK(cuMemFree, plain);
	noted(0, "");
}

static void
memory_that_is_not_pinned_is_copied_before_the_call_returns(void)
{
	_Atomic uint32_t *gate;
	uint32_t *data = malloc(4096), back[4] = {0};

	up();
	map_chunk(0);
	data[0] = 1;
	gate = cu_gate_close(cuda.stream);
	OK(cuMemcpyHtoDAsync, cuda.range, data, 4096, cuda.stream);
	data[0] = 2;
	cu_gate_open(gate);
	OK(cuMemcpyDtoHAsync, back, cuda.range, sizeof(back), cuda.stream);
	CHECK(back[0] == 1);
	if (!cuda_is_real)
		CHECK(standin->calls("pageable") == 2);
	free(data);
	noted(0, "");
}

static void
unmapping_what_a_queued_copy_needs_loses_the_context(void)
{
	uint64_t handle, spare, none;
	struct cu_event *event;
	_Atomic uint32_t *gate;
	char *data, *no_data;
	int value;

	up();
	handle = map_chunk(0);
	data = pinned(CHUNK);
	spare = memory(CHUNK, &on_device);
	OK(cuEventCreate, &event, CU_EVENT_UNTIMED);
	gate = cu_gate_close(cuda.stream);
	OK(cuMemcpyHtoDAsync, cuda.range, data, 4096, cuda.stream);
	GIVES(CU_ERROR_NOT_READY, cuStreamQuery, cuda.stream);
	OK(cuMemUnmap, cuda.range, CHUNK);
	noted(1, "unmapped while in use by cuMemcpyHtoDAsync");
	cu_gate_open(gate);
	GIVES(CU_ERROR_LAUNCH_FAILED, cuStreamSynchronize, cuda.stream);
	noted(1, "when it ran");
	/* Lost is lost, for all that needs the context. */
	GIVES(CU_ERROR_LAUNCH_FAILED, cuCtxSynchronize);
	GIVES(CU_ERROR_LAUNCH_FAILED, cuStreamQuery, cuda.stream);
	GIVES(CU_ERROR_LAUNCH_FAILED, cuEventQuery, event);
	GIVES(CU_ERROR_LAUNCH_FAILED, cuEventRecord, event, cuda.stream);
	GIVES(CU_ERROR_LAUNCH_FAILED, cuEventDestroy, event);
	GIVES(CU_ERROR_LAUNCH_FAILED, cuStreamDestroy, cuda.stream);
	GIVES(CU_ERROR_LAUNCH_FAILED, cuMemFreeHost, data);
	GIVES(CU_ERROR_LAUNCH_FAILED, cuMemHostAlloc, (void **)&no_data, CHUNK, 0);
	GIVES(CU_ERROR_LAUNCH_FAILED, cuMemAlloc, &none, CHUNK);
	CHECK(none == 0 && !no_data);
	/* Virtual memory management and what asks about devices goes on. */
	OK(cuMemMap, cuda.range + CHUNK, CHUNK, 0, spare, 0);
	OK(cuMemSetAccess, cuda.range + CHUNK, CHUNK, &by_device, 1);
	OK(cuMemUnmap, cuda.range + CHUNK, CHUNK);
	OK(cuMemRelease, spare);
	OK(cuMemRelease, handle);
	OK(cuMemCreate, &spare, CHUNK, &on_device, 0);
	OK(cuMemRelease, spare);
	OK(cuMemAddressFree, cuda.range, RANGE);
	OK(cuCtxGetDevice, &value);
	OK(cuDeviceGetAttribute, &value, CU_ATTR_MULTIPROCESSOR_COUNT, 0);
	/* And it does not come back in this process. */
	OK(cuDevicePrimaryCtxRelease, 0);
	GIVES(CU_ERROR_LAUNCH_FAILED, cuDevicePrimaryCtxRetain, &cuda.context, 0);
}

/* ---- host memory and the CPU's view ---- */

static sigjmp_buf touched;

static void
on_fault(int number)
{
	siglongjmp(touched, number);
}

/* 1: a read of the address by the CPU works. */
static int
cpu_can_read(uint64_t addr)
{
	struct sigaction old, new = {.sa_handler = on_fault};
	volatile int can = 0;

	sigemptyset(&new.sa_mask);
	sigaction(SIGSEGV, &new, &old);
	if (!sigsetjmp(touched, 1)) {
		(void)*(volatile const char *)(uintptr_t)addr;
		can = 1;
	}
	sigaction(SIGSEGV, &old, NULL);
	return can;
}

static void
the_cpu_sees_nothing_of_device_memory_at_its_address(void)
{
	volatile uint32_t *own;

	up();
	map_chunk(0);
	CHECK(!cpu_can_read(cuda.range));
	own = mmap((void *)(uintptr_t)cuda.range, CHUNK, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CHECK((uintptr_t)own == cuda.range);
	own[0] = 42;
	fill_word(cuda.range, 9);
	CHECK(own[0] == 42);
	CHECK(word_at(cuda.range) == 9);
	OK(cuMemUnmap, cuda.range, CHUNK);
	CHECK(own[0] == 42);
	OK(cuMemAddressFree, cuda.range, RANGE);
	noted(0, "");
}

static void
host_located_memory_is_one_for_cpu_and_device(void)
{
	uint64_t handle, device;
	volatile uint32_t *cpu;

	up();
	handle = memory(CHUNK, &on_host);
	OK(cuMemMap, cuda.range, CHUNK, 0, handle, 0);
	OK(cuMemSetAccess, cuda.range, CHUNK, &by_device, 1);
	CHECK(!cpu_can_read(cuda.range));
	/* Once more with access by the CPU: that is the alias which I/O uses. */
	OK(cuMemMap, cuda.range + CHUNK, CHUNK, 0, handle, 0);
	OK(cuMemSetAccess, cuda.range + CHUNK, CHUNK,
	   ((struct cu_access[]){by_device, by_cpu}), 2);
	cpu = (uint32_t *)(uintptr_t)(cuda.range + CHUNK);
	cpu[5] = 77;
	CHECK(word_at(cuda.range + 20) == 77);
	fill_word(cuda.range + 24, 78);
	CHECK(cpu[6] == 78);
	OK(cuMemUnmap, cuda.range + CHUNK, CHUNK);
	CHECK(!cpu_can_read(cuda.range + CHUNK));
	CHECK(word_at(cuda.range + 24) == 78);
	device = map_chunk(2);
	GIVES(CU_ERROR_NOT_SUPPORTED, cuMemSetAccess, cuda.range + 2 * CHUNK, CHUNK,
	      &by_cpu, 1);
	noted(1, "cannot have access");
	OK(cuMemRelease, device);
}

static void
pinned_memory_has_rules(void)
{
	char *mine = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int on_stack = 0, type = 0;
	char *data, *none;
	uint64_t addr;

	up();
	data = pinned(CHUNK);
	INVALID(cuMemHostAlloc, (void **)&none, CHUNK, 64);
	INVALID(cuMemFreeHost, &on_stack);
	OK(cuMemFreeHost, NULL);
	OK(cuMemHostRegister, mine, CHUNK, 0);
	GIVES(CU_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister, mine, CHUNK, 0);
	GIVES(CU_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister, mine + 4096,
	      4096, 0);
	INVALID(cuMemHostUnregister, mine + 4096);
	OK(cuMemHostGetDevicePointer, &addr, mine + 10, 0);
	CHECK(addr == (uintptr_t)mine + 10);
	OK(cuMemHostUnregister, mine);
	GIVES(CU_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister, mine);
	INVALID(cuMemHostGetDevicePointer, &addr, mine + 10, 0);
	INVALID(cuMemHostRegister, (void *)(uintptr_t)cuda.range, CHUNK, 0);
	INVALID(cuMemHostRegister, (void *)0x5000, 4096, 0);
	INVALID(cuMemHostRegister, data, 4096, 0);
	OK(cuPointerGetAttribute, &type, CU_POINTER_MEMORY_TYPE, (uintptr_t)data);
	CHECK(type == CU_MEMORY_HOST);
	INVALID(cuPointerGetAttribute, &type, CU_POINTER_MEMORY_TYPE, cuda.range);
	INVALID(cuPointerGetAttribute, &type, CU_POINTER_MEMORY_TYPE, (uintptr_t)&type);
	map_chunk(0);
	OK(cuPointerGetAttribute, &type, CU_POINTER_MEMORY_TYPE, cuda.range);
	CHECK(type == CU_MEMORY_DEVICE);
	OK(cuMemFreeHost, data);
	munmap(mine, CHUNK);
}

/* Booleans are ints. */
static void
attributes_of_a_pointer_are_as_wide_as_their_types(void)
{
	static const struct {
		int attr;
		size_t bytes;
	} rows[] = {
		{CU_POINTER_MEMORY_TYPE, 4}, {CU_POINTER_DEVICE_POINTER, 8},
		{CU_POINTER_IS_MANAGED, 4},  {CU_POINTER_DEVICE_ORDINAL, 4},
		{CU_POINTER_RANGE_START, 8}, {CU_POINTER_RANGE_BYTES, 8},
		{CU_POINTER_MAPPED, 4},
	};
	unsigned char value[2][16];
	uint64_t addrs[2];

	up();
	map_chunk(0);
	addrs[0] = cuda.range;
	addrs[1] = (uintptr_t)pinned(CHUNK);
	for (size_t i = 0; i < 2 * sizeof(rows) / sizeof(rows[0]); i++) {
		memset(value[0], 0x5a, 16);
		memset(value[1], 0xa5, 16);
		for (int k = 0; k < 2; k++)
			OK(cuPointerGetAttribute, value[k], rows[i / 2].attr, addrs[i % 2]);
		CHECK(!memcmp(value[0], value[1], rows[i / 2].bytes));
		for (size_t at = rows[i / 2].bytes; at < 16; at++)
			CHECK(value[0][at] == 0x5a && value[1][at] == 0xa5);
	}
	OK(cuMemFreeHost, (void *)(uintptr_t)addrs[1]);
}

static void
what_the_cpu_has_where_the_device_has_nothing_is_host_memory(void)
{
	volatile uint32_t *own;

	up();
	own = mmap((void *)(uintptr_t)cuda.range, 2 * CHUNK, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	map_chunk(1);
	own[0] = 42;
	OK(cuMemcpyHtoDAsync, cuda.range + CHUNK, (void *)(uintptr_t)cuda.range, 4096,
	   cuda.stream);
	CHECK(word_at(cuda.range + CHUNK) == 42);
	fill_word(cuda.range + CHUNK, 43);
	OK(cuMemcpyDtoHAsync, (void *)(uintptr_t)cuda.range, cuda.range + CHUNK, 4,
	   cuda.stream);
	OK(cuStreamSynchronize, cuda.stream);
	CHECK(own[0] == 43);
	/* Where it has something, the device's is meant. */
	own[CHUNK / 4] = 5;
	OK(cuMemcpyDtoHAsync, (void *)(uintptr_t)cuda.range, cuda.range + CHUNK, 4,
	   cuda.stream);
	OK(cuStreamSynchronize, cuda.stream);
	CHECK(own[0] == 43);
	INVALID(cuMemHostRegister, (void *)(uintptr_t)(cuda.range + CHUNK), CHUNK, 0);
	noted(1, "the driver's own memory");
	OK(cuMemHostRegister, (void *)(uintptr_t)cuda.range, CHUNK, 0);
	OK(cuMemUnmap, cuda.range + CHUNK, CHUNK);
	INVALID(cuMemAddressFree, cuda.range, RANGE);
	noted(1, "still registered");
	OK(cuMemHostUnregister, (void *)(uintptr_t)cuda.range);
	OK(cuMemAddressFree, cuda.range, RANGE);
}

static void
taking_away_access_that_a_queued_copy_needs_loses_the_context(void)
{
	_Atomic uint32_t *gate;
	char *data;

	up();
	map_chunk(0);
	data = pinned(4096);
	gate = cu_gate_close(cuda.stream);
	OK(cuMemcpyHtoDAsync, cuda.range, data, 4096, cuda.stream);
	OK(cuMemSetAccess, cuda.range, CHUNK, &by_device_reading, 1);
	cu_gate_open(gate);
	GIVES(CU_ERROR_LAUNCH_FAILED, cuStreamSynchronize, cuda.stream);
	noted(1, "for reading only");
}

static void
mappings_outlive_the_context(void)
{
	size_t bytes;

	up();
	map_chunk(0);
	fill_word(cuda.range, 9);
	OK(cuDevicePrimaryCtxRelease, 0);
	GIVES(CU_ERROR_CONTEXT_IS_DESTROYED, cuMemGetInfo, &bytes, &bytes);
	noted(1, "was released");
	OK(cuDevicePrimaryCtxRetain, &cuda.context, 0);
	OK(cuCtxSetCurrent, cuda.context);
	OK(cuStreamCreate, &cuda.stream, CU_STREAM_NONBLOCKING);
	OK(cuMemcpyDtoHAsync, &bytes, cuda.range, 4, cuda.stream);
	CHECK((uint32_t)bytes == 9);
	noted(0, "");
}

static void
plain_memory_is_not_for_mapping_calls(void)
{
	uint64_t plain = 0;

	up();
	map_chunk(0);
	INVALID(cuMemAlloc, &plain, 0);
	OK(cuMemAlloc, &plain, 100);
	fill_word(plain, 3);
	CHECK(word_at(plain) == 3);
	INVALID(cuMemFree, cuda.range);
	INVALID(cuMemFree, 12345);
	OK(cuMemFree, plain);
	INVALID(cuMemcpyHtoDAsync, plain, (char[4]){0}, 4, cuda.stream);
	OK(cuMemFree, 0);
}

static const struct cuda_test tests[] = {
	BOTH(a_copy_of_what_is_not_mapped_is_refused_and_nothing_lost),
	BOTH(copies_bring_the_bytes),
	BOTH(memory_that_is_not_pinned_is_copied_before_the_call_returns),
	BOTH(unmapping_what_a_queued_copy_needs_loses_the_context),
	BOTH(the_cpu_sees_nothing_of_device_memory_at_its_address),
	BOTH(host_located_memory_is_one_for_cpu_and_device),
	BOTH(pinned_memory_has_rules),
	BOTH(attributes_of_a_pointer_are_as_wide_as_their_types),
	BOTH(what_the_cpu_has_where_the_device_has_nothing_is_host_memory),
	BOTH(taking_away_access_that_a_queued_copy_needs_loses_the_context),
	BOTH(mappings_outlive_the_context),
	BOTH(plain_memory_is_not_for_mapping_calls),
};

CUDA_MAIN(tests)
