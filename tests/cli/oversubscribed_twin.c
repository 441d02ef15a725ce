/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of examples/run/oversubscribed.c in C, for the stand-in driver: a library for LD_PRELOAD
 * that registers it before main(), so that the example itself stays what a user would write. The
 * stand-in is opened by STANDIN_TABLE, a second name of the same file: by its own name the preload
 * library would be opened, which has its SONAME.
 *
 * Threads: the stand-in's, one for each stream.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_driver/standin.h"

#ifndef TWIN_PROGRAM /* whose kernel it is */
#define TWIN_PROGRAM "oversubscribed"
#endif

static const struct sl_standin *standin;

SL_STANDIN_KERNEL
static void
step(const struct sl_standin_block *block, void *const *params)
{
	uint64_t p = *(const uint64_t *)params[0];
	uint32_t n = *(const uint32_t *)params[1];
	uint32_t each = (n + block->grid[0] - 1) / block->grid[0];
	uint32_t begin = each * block->index[0];
	uint32_t end = begin + each < n ? begin + each : n;
	uint32_t *words;

	if (begin >= end)
		return;
	words = standin->ptr(block, p + (uint64_t)begin * 4, (size_t)(end - begin) * 4,
			     SL_STANDIN_READ | SL_STANDIN_WRITE);
	for (uint32_t i = begin; i < end; i++)
		words[i - begin] = words[i - begin] * 3 + i;
}

__attribute__((constructor)) static void
twin_register(void)
{
	static const struct sl_standin_kernel kernel = {"step", step, 2, {8, 4}};
	const char *path = getenv("STANDIN_TABLE");

	if (!path || strcmp(program_invocation_short_name, TWIN_PROGRAM))
		return; /* another program of the test */
	standin = sl_standin_open(path);
	if (standin)
		standin->kernel_register(&kernel);
	else
		fprintf(stderr, "twin: %s cannot be opened\n", path);
}
