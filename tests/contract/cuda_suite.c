/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the CUDA driver's rules; see cuda_suite.h.
 *
 * Threads: none of its own. Each test runs in a child of the runner, which never opens a driver.
 */
#include "contract/cuda_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEST_SECONDS 300 /* ends only a test that hangs */

/* The thread sanitizer waits a second at the end of each process: there are many. */
const char *__tsan_default_options(void);

__attribute__((visibility("default"))) const char *
__tsan_default_options(void)
{
	return "atexit_sleep_ms=20";
}

struct cuda_suite cuda;
const struct sl_standin *standin;
int cuda_is_real;

const struct cu_allocation on_device = {
	.type = CU_ALLOCATION_PINNED,
	.location = {CU_LOCATION_DEVICE, 0},
};
const struct cu_allocation on_host = {
	.type = CU_ALLOCATION_PINNED,
	.location = {CU_LOCATION_HOST_NUMA, 0},
};
const struct cu_access by_device = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_READ_WRITE};
const struct cu_access by_device_reading = {{CU_LOCATION_DEVICE, 0}, CU_ACCESS_READ};
const struct cu_access by_cpu = {{CU_LOCATION_HOST_NUMA, 0}, CU_ACCESS_READ_WRITE};

static _Atomic int failures;
static const char *test_name;

/* ---- checks ---- */

void
cuda_check_failed(int line, const char *what)
{
	char text[512] = "";

	failures++;
	if (!cuda_is_real && standin)
		standin->last_violation(text, sizeof(text));
	printf("FAIL %s line %d: %s (last violation: %s)\n", test_name, line, what, text);
}

void
cuda_check_gives(int line, const char *call, int got, int code)
{
	if (got == code)
		return;
	failures++;
	printf("FAIL %s line %d: %s gives %s (%d), not %s (%d)\n", test_name, line, call,
	       sl_cuda_result_name(got), got, sl_cuda_result_name(code), code);
}

void
noted(uint64_t n, const char *part)
{
	char text[512];

	if (cuda_is_real)
		return;
	standin->last_violation(text, sizeof(text));
	if (standin->violations() != n || !strstr(text, part)) {
		failures++;
		printf("FAIL %s: %llu violations, not %llu; the last: '%s', not '%s'\n",
		       test_name, (unsigned long long)standin->violations(),
		       (unsigned long long)n, text, part);
	}
	standin->violations_reset();
}

/* ---- the driver under test ---- */

void
up_without_context(void)
{
	if (sl_cuda_driver_open(&cuda.driver)) {
		printf("FAIL %s: %s\n", test_name, sluice_last_error());
		exit(1);
	}
	if (cuda_is_real)
		return;
	standin = sl_standin_open(cuda.driver->path); /* loaded: no more than a look-up */
	if (!standin) {
		printf("FAIL %s: %s is not the stand-in\n", test_name, cuda.driver->path);
		exit(1);
	}
}

void
up(void)
{
	up_without_context();
	OK(cuDevicePrimaryCtxRetain, &cuda.context, 0);
	OK(cuCtxSetCurrent, cuda.context);
	OK(cuStreamCreate, &cuda.stream, CU_STREAM_NONBLOCKING);
	OK(cuMemAddressReserve, &cuda.range, RANGE, 0, 0, 0);
}

uint64_t
memory(size_t bytes, const struct cu_allocation *prop)
{
	uint64_t handle = 0;

	OK(cuMemCreate, &handle, bytes, prop, 0);
	return handle;
}

uint64_t
map_chunk(unsigned i)
{
	uint64_t handle = memory(CHUNK, &on_device);

	OK(cuMemMap, cuda.range + i * CHUNK, CHUNK, 0, handle, 0);
	OK(cuMemSetAccess, cuda.range + i * CHUNK, CHUNK, &by_device, 1);
	return handle;
}

void *
pinned(size_t bytes)
{
	void *data = NULL;

	OK(cuMemHostAlloc, &data, bytes, 0);
	if (!data)
		exit(1);
	memset(data, 0, bytes);
	return data;
}

uint32_t
word_at(uint64_t addr)
{
	static uint32_t *word;

	if (!word)
		word = pinned(4096);
	OK(cuMemcpyDtoHAsync, word, addr, 4, cuda.stream);
	OK(cuStreamSynchronize, cuda.stream);
	return *word;
}

void
fill_word(uint64_t addr, uint32_t value)
{
	OK(cuMemsetD32Async, addr, value, 1, cuda.stream);
	OK(cuStreamSynchronize, cuda.stream);
}

_Atomic uint32_t *
cu_gate_close(struct cu_stream *on)
{
	_Atomic uint32_t *gate = pinned(4096);

	OK(cuStreamWaitValue32, on, (uintptr_t)gate, 1, CU_WAIT_VALUE_EQ);
	return gate;
}

void
cu_gate_open(_Atomic uint32_t *gate)
{
	atomic_store_explicit(gate, 1, memory_order_release);
}

/* ---- the runner ---- */

int
child_status(void (*run)(void))
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		failures = 0;
		alarm(TEST_SECONDS);
		run();
		exit(failures != 0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

int
cuda_main(const struct cuda_test *tests, size_t n, int argc, char **argv)
{
	const char *path = getenv("SLUICE_STANDIN_LIBRARY"), *only;
	int status, bad = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	cuda_is_real = argc > 1 && !strcmp(argv[1], "real");
	only = argc > cuda_is_real + 1 ? argv[cuda_is_real + 1] : "";
	if (!cuda_is_real && (!path || !*path)) {
		printf("SKIP SLUICE_STANDIN_LIBRARY is not set\n");
		return 77;
	}
	if (!cuda_is_real) {
		setenv("SLUICE_CUDA_LIBRARY", path, 1);
		setenv("CUDA_STANDIN_QUIET", "1", 1);
	}
	for (size_t i = 0; i < n; i++) {
		test_name = tests[i].name;
		if (!strstr(test_name, only) || (cuda_is_real && !tests[i].real))
			continue;
		status = child_status(tests[i].run);
		if (status) {
			printf("FAIL %s: exit status %d\n", test_name, status);
			bad++;
		}
	}
	return bad != 0;
}
