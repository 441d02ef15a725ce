/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workloads' kernels on the stand-in driver of the tests (tests/cuda_driver/standin.h), which
 * runs C functions: for each block of the grid the software device's loop over the same piece, with
 * every pointer replaced by one that the driver has checked for exactly what the piece says that it
 * touches. A real driver does not export the table, and nothing here is used then.
 *
 * Threads: blocks come on threads of the stand-in.
 */
#include <assert.h>
#include <dlfcn.h>
#include <string.h>

#include "cuda_driver/standin.h"
#include "cuda_run.h"

static const struct sl_standin *standin; /* set once, before any launch */

static const struct workload_kernel *
kernel_find(const char *name)
{
	const struct workload *const *w;
	const struct workload_kernel *const *k;

	for (w = workloads_list; *w; w++)
		for (k = (*w)->kernels; k && *k; k++)
			if (strcmp((*k)->name, name) == 0)
				return *k;
	return NULL;
}

/* params[0]: the arguments; grid: the pieces; the last one is cut by what the arguments say. */
static void
block_run(const struct sl_standin_block *block, void *const *params)
{
	const struct workload_kernel *kernel = kernel_find(block->kernel);
	struct workload_touch touch[WORKLOAD_POINTERS_MAX] = {{0}};
	_Alignas(16) unsigned char args[WORKLOAD_KERNEL_ARGS_MAX];
	uint64_t begin, end, n;
	unsigned i;

	assert(kernel); /* only those that were registered are run */
	begin = (uint64_t)block->index[0] * kernel->cuda_elements;
	end = begin + kernel->cuda_elements;
	n = kernel->elements(params[0]);
	if (begin >= n)
		return;
	if (end > n)
		end = n;
	memcpy(args, params[0], kernel->args_bytes);
	kernel->touch(args, begin, end, touch);
	for (i = 0; i < kernel->n_pointers; i++) {
		uint64_t addr, checked, first = touch[i].first * 4;
		int access = (touch[i].read ? SL_STANDIN_READ : 0) |
			     (touch[i].write ? SL_STANDIN_WRITE : 0);

		memcpy(&addr, args + kernel->pointer[i], sizeof(addr));
		if (touch[i].n == 0)
			continue;
		checked = (uintptr_t)standin->ptr(block, addr + first, touch[i].n * 4,
						  access) -
			  first;
		memcpy(args + kernel->pointer[i], &checked, sizeof(checked));
	}
	kernel->piece(args, begin, end);
}

static void
kernels_register(void)
{
	const struct workload *const *w;
	const struct workload_kernel *const *k;

	for (w = workloads_list; *w; w++) {
		for (k = (*w)->kernels; k && *k; k++) {
			struct sl_standin_kernel kernel = {
				.name = (*k)->name,
				.function = block_run,
				.n_params = 1,
				.param_bytes = {(*k)->args_bytes},
			};

			standin->kernel_register(&kernel);
		}
	}
}

int
workload_standin_register(const char *path)
{
	if (standin)
		return 1;
	standin = sl_standin_open(path);
	if (!standin)
		return 0;
	kernels_register();
	return 1;
}
