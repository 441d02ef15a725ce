/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels for test_python.sh, as a library that Python calls: they run on the stand-in driver, which
 * SLUICE_CUDA_LIBRARY names. A kernel that touches what is not there ends with CUDA_ERROR_ILLEGAL_ADDRESS.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_driver/standin.h"

static const struct sl_standin *standin;
static void *driver;
static void *context, *module;

#define DRIVER(name, ...) ((int (*)(__VA_ARGS__))dlsym(driver, #name))
#define U64(i)            (*(const uint64_t *)params[i])

/* p[i] += value */
SL_STANDIN_KERNEL
static void
kernel_add(const struct sl_standin_block *b, void *const *params)
{
	uint64_t *p = standin->ptr(b, U64(0), U64(1) * 8, SL_STANDIN_READ | SL_STANDIN_WRITE);

	for (uint64_t i = 0; i < U64(1); i++)
		p[i] += U64(2);
}

/* p[i] = q[i], q being the third parameter */
SL_STANDIN_KERNEL
static void
kernel_copy(const struct sl_standin_block *b, void *const *params)
{
	uint64_t *p = standin->ptr(b, U64(0), U64(1) * 8, SL_STANDIN_WRITE);
	const uint64_t *q = standin->ptr(b, U64(2), U64(1) * 8, SL_STANDIN_READ);

	for (uint64_t i = 0; i < U64(1); i++)
		p[i] = q[i];
}

/* 0, or the driver's error. library: the driver as the program sees it. */
int
kernels_open(const char *library)
{
	static const struct sl_standin_kernel kernels[] = {
		{"add", kernel_add, 3, {8, 8, 8}},
		{"copy", kernel_copy, 3, {8, 8, 8}},
	};
	int result;

	standin = sl_standin_open(getenv("SLUICE_CUDA_LIBRARY"));
	driver = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!standin || !driver)
		return -1;
	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++)
		standin->kernel_register(&kernels[i]);
	result = DRIVER(cuInit, unsigned)(0);
	if (!result)
		result = DRIVER(cuDevicePrimaryCtxRetain, void **, int)(&context, 0);
	if (!result)
		result = DRIVER(cuCtxSetCurrent, void *)(context);
	if (!result)
		result = DRIVER(cuModuleLoadData, void **,
				const char *)(&module, SL_STANDIN_IMAGE);
	return result;
}

int
kernels_launch(const char *name, uint64_t p, uint64_t n, uint64_t third, void *stream)
{
	void *params[] = {&p, &n, &third}, *function;
	int result = DRIVER(cuModuleGetFunction, void **, void *,
			    const char *)(&function, module, name);

	if (result)
		return result;
	return DRIVER(cuLaunchKernel, void *, unsigned, unsigned, unsigned, unsigned,
		      unsigned, unsigned, unsigned, void *, void **,
		      void **)(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

/* For each thread that launches. */
int
kernels_thread(void)
{
	return DRIVER(cuCtxSetCurrent, void *)(context);
}

int
kernels_wait(void)
{
	return DRIVER(cuCtxSynchronize, void)();
}

int
kernels_stream(void **stream)
{
	return DRIVER(cuStreamCreate, void **, unsigned)(stream, 1);
}

/* Device memory of the program's own. */
uint64_t
kernels_memory(uint64_t bytes)
{
	uint64_t addr = 0;

	return DRIVER(cuMemAlloc_v2, uint64_t *, size_t)(&addr, bytes) ? 0 : addr;
}

uint64_t
kernels_violations(void)
{
	char text[512];

	if (standin->violations())
		fprintf(stderr, "rule broken: %s\n",
			standin->last_violation(text, sizeof(text)));
	return standin->violations();
}
