/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels on the stand-in driver: they see the device's view and nothing else, memory may be mapped
 * and unmapped while they run, and a wrong access ends them as it would on a GPU.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "contract/cuda_suite.h"

/* add: to[i] = from[i] + by, 1024 words a block. */
static void
kernel_add(const struct sl_standin_block *block, void *const *params)
{
	uint64_t to_addr = *(uint64_t *)params[0], from_addr = *(uint64_t *)params[1];
	uint32_t by = *(uint32_t *)params[2];
	size_t offset = (size_t)block->index[0] * 4096;
	const uint32_t *from;
	uint32_t *to;

	from = standin->ptr(block, from_addr + offset, 4096, SL_STANDIN_READ);
	to = standin->ptr(block, to_addr + offset, 4096, SL_STANDIN_WRITE);
	for (unsigned i = 0; i < 1024; i++)
		to[i] = from[i] + by;
}

static const struct sl_standin_kernel add = {"add", kernel_add, 3, {8, 8, 4}};

static struct cu_function *
function_get(const struct sl_standin_kernel *kernel)
{
	struct cu_function *function = NULL;
	struct cu_module *module;

	standin->kernel_register(kernel);
	OK(cuModuleLoadData, &module, SL_STANDIN_IMAGE);
	OK(cuModuleGetFunction, &function, module, kernel->name);
	return function;
}

static int
add_launch(struct cu_function *function, uint64_t to, uint64_t from, uint32_t by,
	   unsigned blocks)
{
	void *params[] = {&to, &from, &by};

	return cuda.driver->cuLaunchKernel(function, blocks, 1, 1, 256, 1, 1, 0,
					   cuda.stream, params, NULL);
}

static void
a_kernel_works_on_what_is_mapped(void)
{
	struct cu_function *function;
	uint64_t args[3];
	size_t args_bytes = 20;
	void *extra[] = {CU_LAUNCH_EXTRA_BUFFER, args, CU_LAUNCH_EXTRA_BYTES, &args_bytes,
			 CU_LAUNCH_EXTRA_END};
	uint32_t *pin;

	up();
	function = function_get(&add);
	map_chunk(0);
	map_chunk(1);
	OK(cuMemsetD32Async, cuda.range, 5, 2 * CHUNK / 4, cuda.stream);
	CHECK(add_launch(function, cuda.range, cuda.range, 2, 2 * CHUNK / 4096) == CU_SUCCESS);
	CHECK(word_at(cuda.range) == 7 && word_at(cuda.range + 2 * CHUNK - 4) == 7);
	args[0] = cuda.range;
	args[1] = cuda.range + CHUNK;
	args[2] = 10;
	OK(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, cuda.stream, NULL, extra);
	CHECK(word_at(cuda.range) == 17 && word_at(cuda.range + 4096) == 7);
	/* Pinned memory is at its own address. */
	pin = pinned(4096);
	CHECK(add_launch(function, (uintptr_t)pin, cuda.range, 1, 1) == CU_SUCCESS);
	OK(cuStreamSynchronize, cuda.stream);
	CHECK(pin[1023] == 18);
	noted(0, "");
}

static void
blocks_may_run_at_once(void)
{
	struct cu_function *function;

	setenv("CUDA_STANDIN_BLOCKS", "4", 1);
	up();
	function = function_get(&add);
	map_chunk(0);
	OK(cuMemsetD32Async, cuda.range, 5, CHUNK / 4, cuda.stream);
	for (int i = 0; i < 10; i++)
		CHECK(add_launch(function, cuda.range, cuda.range, 1, CHUNK / 4096) ==
		      CU_SUCCESS);
	CHECK(word_at(cuda.range) == 15 && word_at(cuda.range + CHUNK - 4) == 15);
	noted(0, "");
}

static void
a_kernel_that_touches_what_is_not_mapped_loses_the_context(void)
{
	struct cu_function *function;

	up();
	function = function_get(&add);
	map_chunk(0);
	/* The 513th block is the first beyond the chunk. */
	CHECK(add_launch(function, cuda.range, cuda.range, 1, 2 * CHUNK / 4096) == CU_SUCCESS);
	GIVES(CU_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize, cuda.stream);
	noted(1, "kernel add, block 512,0,0: read of ");
	GIVES(CU_ERROR_ILLEGAL_ADDRESS, cuStreamQuery, cuda.stream);
	CHECK(add_launch(function, cuda.range, cuda.range, 1, 1) == CU_ERROR_ILLEGAL_ADDRESS);
}

static void
a_kernel_may_not_write_what_is_for_reading(void)
{
	struct cu_function *function;

	up();
	function = function_get(&add);
	map_chunk(0);
	map_chunk(1);
	OK(cuMemSetAccess, cuda.range, CHUNK, &by_device_reading, 1);
	CHECK(add_launch(function, cuda.range + CHUNK, cuda.range, 1, 1) == CU_SUCCESS);
	OK(cuStreamSynchronize, cuda.stream);
	CHECK(add_launch(function, cuda.range, cuda.range + CHUNK, 1, 1) == CU_SUCCESS);
	GIVES(CU_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize);
	noted(1, "write of ");
}

static void
a_kernel_sees_the_device_and_not_the_cpus_view(void)
{
	struct cu_function *function;
	uint32_t *own;

	up();
	function = function_get(&add);
	map_chunk(0);
	map_chunk(1);
	own = mmap((void *)(uintptr_t)cuda.range, 2 * CHUNK, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	own[0] = 42;
	OK(cuMemsetD32Async, cuda.range, 1, 1024, cuda.stream);
	CHECK(add_launch(function, cuda.range + CHUNK, cuda.range, 1, 1) == CU_SUCCESS);
	CHECK(word_at(cuda.range + CHUNK) == 2);
	CHECK(own[0] == 42 && own[CHUNK / 4] == 0);
	OK(cuMemUnmap, cuda.range, 2 * CHUNK);
	CHECK(add_launch(function, cuda.range + CHUNK, cuda.range, 1, 1) == CU_SUCCESS);
	GIVES(CU_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize, cuda.stream);
	CHECK(own[0] == 42);
	noted(1, "not mapped");
}

/*
 * A kernel that fetches chunk after chunk from the host: words[0] is the chunk it asks for
 * plus one, words[1] the last one that is there plus one, words[2] the last it gave back.
 */
static void
kernel_fetch(const struct sl_standin_block *block, void *const *params)
{
	_Atomic uint32_t *words = standin->ptr(block, *(uint64_t *)params[0], 64,
					       SL_STANDIN_WRITE);
	uint64_t base = *(uint64_t *)params[1];
	uint32_t n = *(uint32_t *)params[2], sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t addr = base + i % 2 * CHUNK;
		const uint32_t *data;

		atomic_store(&words[0], i + 1);
		while (atomic_load(&words[1]) != i + 1)
			standin->pause(block);
		data = standin->ptr(block, addr, CHUNK, SL_STANDIN_READ);
		sum += data[i];
		if (n != 1) /* one that keeps what it got */
			standin->drop(block, addr, CHUNK);
		atomic_store(&words[2], i + 1);
	}
	while (atomic_load(&words[3]))
		standin->pause(block);
	atomic_store(&words[4], sum);
}

static const struct sl_standin_kernel fetch = {"fetch", kernel_fetch, 3, {8, 8, 4}};

static void
fetch_launch(_Atomic uint32_t *words, uint32_t n)
{
	uint64_t words_addr = (uintptr_t)words;
	void *params[] = {&words_addr, &cuda.range, &n};
	struct cu_function *function = function_get(&fetch);

	OK(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, cuda.stream, params, NULL);
}

static void
word_wait(_Atomic uint32_t *word, uint32_t value)
{
	for (int i = 0; i < WAIT_MAX && atomic_load(word) != value; i++)
		sched_yield();
	CHECK(atomic_load(word) == value);
}

static void
memory_is_mapped_and_unmapped_while_a_kernel_runs(void)
{
	enum { FETCHES = 20 };
	_Atomic uint32_t *words;
	struct cu_stream *copies;
	uint64_t handle;
	uint32_t *source;

	up();
	words = pinned(4096);
	source = pinned(4096);
	OK(cuStreamCreate, &copies, CU_STREAM_NONBLOCKING);
	handle = memory(CHUNK, &on_device);
	OK(cuMemMap, cuda.range + 9 * CHUNK, CHUNK, 0, handle, 0); /* the alias */
	OK(cuMemSetAccess, cuda.range + 9 * CHUNK, CHUNK, &by_device, 1);
	fetch_launch(words, FETCHES);
	for (uint32_t i = 0; i < FETCHES; i++) {
		word_wait(&words[0], i + 1);
		for (uint32_t k = 0; k < FETCHES; k++)
			source[k] = i * 100 + k;
		OK(cuMemcpyHtoDAsync, cuda.range + 9 * CHUNK, source, 4096, copies);
		OK(cuStreamSynchronize, copies);
		OK(cuMemMap, cuda.range + i % 2 * CHUNK, CHUNK, 0, handle, 0);
		OK(cuMemSetAccess, cuda.range + i % 2 * CHUNK, CHUNK, &by_device, 1);
		atomic_store(&words[1], i + 1);
		word_wait(&words[2], i + 1);
		OK(cuMemUnmap, cuda.range + i % 2 * CHUNK, CHUNK);
	}
	OK(cuStreamSynchronize, cuda.stream);
	CHECK(atomic_load(&words[4]) == 101 * FETCHES * (FETCHES - 1) / 2);
	noted(0, "");
}

static void
unmapping_what_a_kernel_holds_loses_the_context(void)
{
	_Atomic uint32_t *words;

	up();
	words = pinned(4096);
	map_chunk(0);
	atomic_store(&words[1], 1);
	atomic_store(&words[3], 1);
	fetch_launch(words, 1);
	word_wait(&words[2], 1);
	OK(cuMemUnmap, cuda.range, CHUNK);
	noted(1, "unmapped while in use by a kernel");
	OK(cuMemAddressFree, cuda.range, RANGE); /* what the kernel holds stays */
	atomic_store(&words[3], 0);
	GIVES(CU_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize, cuda.stream);
}

static void
launches_are_checked(void)
{
	struct cu_function *function;
	uint64_t two_args[2] = {0};
	size_t args_bytes = sizeof(two_args), offset, bytes;
	void *extra[] = {CU_LAUNCH_EXTRA_BUFFER, two_args, CU_LAUNCH_EXTRA_BYTES,
			 &args_bytes, CU_LAUNCH_EXTRA_END};
	int value;

	up();
	function = function_get(&add);
	GIVES(CU_ERROR_INVALID_HANDLE, cuLaunchKernel, NULL, 1, 1, 1, 1, 1, 1, 0,
	      cuda.stream, NULL, NULL);
	INVALID(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, cuda.stream, NULL, NULL);
	INVALID(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, cuda.stream, NULL, extra);
	CHECK(add_launch(function, cuda.range, cuda.range, 1, 0) == CU_ERROR_INVALID_VALUE);
	noted(4, "out of range");
	OK(cuFuncGetParamInfo, function, 2, &offset, &bytes);
	CHECK(offset == 16 && bytes == 4);
	INVALID(cuFuncGetParamInfo, function, 3, &offset, &bytes);
	OK(cuFuncGetAttribute, &value, CU_FUNCTION_MAX_THREADS_PER_BLOCK, function);
	CHECK(value == 1024);
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor, &value, function, 256, 0);
	CHECK(value == 8);
}

static void
modules_hold_functions_and_variables(void)
{
	static const char ptx[] =
		".version 8.0\n.target sm_90\n.visible .entry add(\n) { ret; "
		"}\n.visible .entry orphan() { ret; }\n";
	struct cu_function *function;
	struct cu_module *module;
	uint64_t addr = 0;
	size_t bytes = 0;

	up();
	standin->kernel_register(&add);
	standin->kernel_register(&fetch);
	GIVES(CU_ERROR_INVALID_IMAGE, cuModuleLoadData, &module, "no image at all");
	GIVES(CU_ERROR_INVALID_IMAGE, cuModuleLoadData, &module,
	      SL_STANDIN_IMAGE "what is this");
	noted(2, "what is this");
	OK(cuModuleLoadData, &module, ptx);
	OK(cuModuleGetFunction, &function, module, "add");
	GIVES(CU_ERROR_NOT_FOUND, cuModuleGetFunction, &function, module, "fetch");
	noted(0, "");
	GIVES(CU_ERROR_NOT_FOUND, cuModuleGetFunction, &function, module, "orphan");
	noted(1, "no C twin");
	OK(cuModuleUnload, module);
	GIVES(CU_ERROR_INVALID_HANDLE, cuModuleGetFunction, &function, module, "add");
	GIVES(CU_ERROR_INVALID_HANDLE, cuModuleUnload, module);
	OK(cuModuleLoadData, &module, SL_STANDIN_IMAGE "global counters 128\n");
	GIVES(CU_ERROR_NOT_FOUND, cuModuleGetGlobal, &addr, &bytes, module, "nothing");
	OK(cuModuleGetGlobal, &addr, &bytes, module, "counters");
	CHECK(bytes == 128 && word_at(addr + 124) == 0);
	INVALID(cuMemsetD8Async, addr, 1, 129, cuda.stream);
}

static const struct cuda_test tests[] = {
	OURS(a_kernel_works_on_what_is_mapped),
	OURS(blocks_may_run_at_once),
	OURS(a_kernel_that_touches_what_is_not_mapped_loses_the_context),
	OURS(a_kernel_may_not_write_what_is_for_reading),
	OURS(a_kernel_sees_the_device_and_not_the_cpus_view),
	OURS(memory_is_mapped_and_unmapped_while_a_kernel_runs),
	OURS(unmapping_what_a_kernel_holds_loses_the_context),
	OURS(launches_are_checked),
	OURS(modules_hold_functions_and_variables),
};

CUDA_MAIN(tests)
