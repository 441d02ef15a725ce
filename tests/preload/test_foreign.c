/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unmanaged memory under the preload library. Calls for which the driver has no memory get room
 * and are repeated (rule O). The program's own device memory is taken from the budget. Memory
 * that cannot be shared is refused with a code that programs know.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "work.h"

#define MIB     ((uint64_t)1 << 20)
#define N       (8 * MIB / sizeof(uint64_t))
#define BUFFERS 20u /* 160 MiB of a budget of 176; the device has 256 */

static struct work w;

/* The next calls of name have no memory; then some was made. */
static void
out_of_memory(const char *name, unsigned times)
{
	char spec[256] = "";
	size_t at = 0;

	for (unsigned i = 1; i <= times; i++)
		at += (size_t)snprintf(spec + at, sizeof(spec) - at, "%s%s:%u:%d",
				       i > 1 ? "," : "", name, i, CU_ERROR_OUT_OF_MEMORY);
	CHECK(!w.standin->fail_set(spec));
}

/* That often it had none. */
static void
fired(uint64_t times)
{
	CHECK(w.standin->fail_fired() == times);
	CHECK(!w.standin->fail_set(NULL));
}

static void
calls_without_memory_are_made_again(void)
{
	static const char image[] = SL_STANDIN_IMAGE "global more 64\n";
	struct cu_graph_exec *exec;
	struct cu_module *module;
	struct cu_stream *stream;
	struct cu_event *event;
	struct cu_graph *graph;
	size_t bytes;
	uint64_t addr;
	void *data;

	out_of_memory("cuModuleLoadData", 1);
	OK(w.cuModuleLoadData(&module, image));
	fired(1);
	out_of_memory("cuModuleGetGlobal_v2", 1);
	OK(w.cuModuleGetGlobal_v2(&addr, &bytes, module, "more"));
	fired(1);
	CHECK(bytes == 64);
	OK(w.cuModuleGetGlobal_v2(NULL, &bytes, module, "more"));
	OK(w.cuModuleUnload(module));
	out_of_memory("cuStreamCreate", 2);
	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	fired(2);
	OK(w.cuStreamDestroy_v2(stream));
	out_of_memory("cuEventCreate", 1);
	OK(w.cuEventCreate(&event, CU_EVENT_PLAIN));
	fired(1);
	OK(w.cuEventDestroy_v2(event));
	out_of_memory("cuMemHostAlloc", 1);
	OK(w.cuMemHostAlloc(&data, 4096, 0));
	fired(1);
	OK(w.cuMemFreeHost(data));
	OK(w.cuGraphCreate(&graph, 0));
	out_of_memory("cuGraphInstantiateWithFlags", 1);
	OK(w.cuGraphInstantiateWithFlags(&exec, graph, 0));
	fired(1);
	out_of_memory("cuGraphLaunch", 1);
	OK(w.cuGraphLaunch(exec, NULL));
	fired(1);
	OK(w.cuGraphExecDestroy(exec));
	OK(w.cuGraphDestroy(graph));
}

static void
memory_that_is_never_there_ends_in_the_drivers_own_error(void)
{
	char spec[64];
	struct cu_stream *stream;

	snprintf(spec, sizeof(spec), "cuStreamCreate:1+:%d", CU_ERROR_OUT_OF_MEMORY);
	CHECK(!w.standin->fail_set(spec));
	CHECK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING) == CU_ERROR_OUT_OF_MEMORY);
	CHECK(w.standin->fail_fired() > 1 && w.standin->fail_fired() < 10);
	CHECK(!w.standin->fail_set(NULL));
}

/* More than is free beside our budget: our data make way, and come back. */
static void
programs_own_physical_memory_gets_its_room(const uint64_t *buffer, unsigned n)
{
	const struct cu_allocation what = {
		.type = CU_ALLOCATION_PINNED,
		.location = {.type = CU_LOCATION_DEVICE, .id = 0},
	};
	const struct cu_access access = {.location = what.location,
					 .flags = CU_ACCESS_READ_WRITE};
	const size_t bytes = 128 * MIB;
	uint64_t handle, again, addr;

	OK(w.cuMemCreate(&handle, bytes, &what, 0));
	OK(w.cuMemAddressReserve(&addr, bytes, 0, 0, 0));
	OK(w.cuMemMap(addr, bytes, 0, handle, 0));
	OK(w.cuMemSetAccess(addr, bytes, &access, 1));
	OK(w.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)addr));
	OK(w.cuMemRelease(again));
	OK(w.cuMemRelease(handle)); /* the mapping keeps it */
	OK(w.cuMemsetD8Async(addr, 1, bytes, NULL));
	for (unsigned i = 0; i < n; i++) {
		work_launch(&w, WORK_ADD, NULL, buffer[i], N, 1);
		work_expect(&w, buffer[i], N, i + 1);
	}
	OK(w.cuMemUnmap(addr, bytes));
	OK(w.cuMemAddressFree(addr, bytes));
	for (unsigned i = 0; i < n; i++) {
		work_launch(&w, WORK_ADD, NULL, buffer[i], N, 1);
		work_expect(&w, buffer[i], N, i + 2);
	}
}

/* How often what stands in the file. */
static unsigned
lines_with(FILE *file, const char *what)
{
	char line[1024];
	unsigned n = 0;

	rewind(file);
	while (fgets(line, sizeof(line), file))
		n += !strncmp(line, "sluice: ", 8) && strstr(line, what);
	return n;
}

/* By no road, and each says so once. */
static void
our_memory_is_not_shared(uint64_t p)
{
	struct cu_ipc_handle ipc;
	FILE *said = tmpfile();
	int fd, kept = dup(STDERR_FILENO);
	uint64_t handle;

	CHECK(said && kept >= 0 && dup2(fileno(said), STDERR_FILENO) >= 0);
	for (int i = 0; i < 2; i++) {
		CHECK(w.cuIpcGetMemHandle(&ipc, p + 4096 * (uint64_t)i) ==
		      CU_ERROR_NOT_SUPPORTED);
		CHECK(w.cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)p) ==
		      CU_ERROR_INVALID_VALUE);
		CHECK(w.cuMemGetHandleForAddressRange(&fd, p, 4096, 1, 0) ==
		      CU_ERROR_INVALID_VALUE);
	}
	CHECK(dup2(kept, STDERR_FILENO) >= 0 && !close(kept));
	CHECK(lines_with(said, "cannot be shared with another process") == 1);
	CHECK(lines_with(said, "cannot be given to another device") == 1);
	fclose(said);
}

/* The context stays, since the library moves data in it; what the program had there does not. */
static void
reset_of_the_primary_context_frees_our_memory(const uint64_t *buffer, unsigned n)
{
	size_t before, after, total;
	uint64_t p;

	OK(w.cuMemGetInfo_v2(&before, &total));
	OK(w.cuDevicePrimaryCtxReset_v2(0));
	OK(w.cuMemGetInfo_v2(&after, &total));
	CHECK(after >= before + n * N * sizeof(uint64_t));
	CHECK(w.cuMemFree_v2(buffer[0]) != 0);
	w.standin->violations_reset(); /* that one */
	p = work_alloc(&w, N, 77);
	work_expect(&w, p, N, 77);
	OK(w.cuMemFree_v2(p));
	/* The last reference of the program's does not end it, either. */
	OK(w.cuDevicePrimaryCtxRelease_v2(0));
	p = work_alloc(&w, N, 78);
	work_expect(&w, p, N, 78);
	OK(w.cuMemFree_v2(p));
}

int
main(void)
{
	uint64_t buffer[BUFFERS];

	/* Nearly all of the device's 256 MiB; what is used of it makes the budget tight. */
	work_start(&w, 176, 512);
	for (unsigned i = 0; i < BUFFERS; i++)
		buffer[i] = work_alloc(&w, N, i);
	calls_without_memory_are_made_again();
	memory_that_is_never_there_ends_in_the_drivers_own_error();
	programs_own_physical_memory_gets_its_room(buffer, BUFFERS);
	our_memory_is_not_shared(buffer[3]);
	reset_of_the_primary_context_frees_our_memory(buffer, BUFFERS);
	work_end(&w);
	return 0;
}
