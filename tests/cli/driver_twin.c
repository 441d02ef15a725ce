/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel of bench/programs/accept/driver.cu in C, for the stand-in driver: a library for LD_PRELOAD,
 * as oversubscribed_twin.c is for its example. The stand-in is opened by STANDIN_TABLE.
 *
 * Threads: the stand-in's, one for each stream.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_driver/standin.h"

static const struct sl_standin *standin;

SL_STANDIN_KERNEL
static void
step(const struct sl_standin_block *block, void *const *params)
{
	uint64_t p = *(const uint64_t *)params[0], q = *(const uint64_t *)params[1];
	uint32_t n = *(const uint32_t *)params[2], salt = *(const uint32_t *)params[3];
	uint32_t each = (n + block->grid[0] - 1) / block->grid[0];
	uint32_t begin = each * block->index[0];
	uint32_t end = begin + each < n ? begin + each : n;
	const uint32_t *from;
	uint32_t *to;

	if (begin >= end)
		return;
	to = standin->ptr(block, p + (uint64_t)begin * 4, (size_t)(end - begin) * 4,
			  SL_STANDIN_READ | SL_STANDIN_WRITE);
	from = standin->ptr(block, q + (uint64_t)begin * 4, (size_t)(end - begin) * 4,
			    SL_STANDIN_READ);
	for (uint32_t i = 0; i < end - begin; i++)
		to[i] = to[i] * 3 + (from[i] ^ salt);
}

__attribute__((constructor)) static void
twin_register(void)
{
	static const struct sl_standin_kernel kernel = {"step", step, 4, {8, 8, 4, 4}};
	const char *path = getenv("STANDIN_TABLE");

	if (!path || strncmp(program_invocation_short_name, "driver-", 7) != 0)
		return; /* another program of the test */
	standin = sl_standin_open(path);
	if (standin)
		standin->kernel_register(&kernel);
	else
		fprintf(stderr, "twin: %s cannot be opened\n", path);
}
