/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which context is current, for the CUDA runtime in a forked child. The runtime asks the driver for it before it does
 * anything, a free as well, and a driver refuses a child every question: then cudaFree() fails before the free
 * comes to alloc.c, which would take it. So the runtime is told what it was told last, as long as that context
 * cannot have ended: one that a space stands in.
 *
 * Nobody else is. Programs that find out by this very question that they are a child link the driver or look its
 * names up in it, and get the driver's answer; the runtime asks cuGetProcAddress(), and gets the function of this
 * file (class RESOLVE of api.tbl). What a child makes with the context is refused by the driver as ever, with
 * its own code: the calls that would start something are not answered here.
 *
 * Threads: any. No lock: in a child, a thread that is not there may hold it.
 */
#include "preload/api_stream.h"
#include "preload/preload.h"

/* What this thread was answered last; the child's first thread is a copy of the one that forked. */
static _Thread_local struct cu_context *seen __attribute__((tls_model("initial-exec")));

struct search {
	const struct cu_context *wanted;
	struct cu_context *found;
};

/* The wanted one, or the first: to a free by address all are the same. */
static void
gpu_look(struct pl_gpu *gpu, void *arg)
{
	struct search *search = arg;

	if (!search->found || gpu->context == search->wanted)
		search->found = gpu->context;
}

int
pl_resolved_cuCtxGetCurrent(struct cu_context **context)
{
	int result = PL_REAL(cuCtxGetCurrent)(context);
	struct search search = {.wanted = seen};

	if (__builtin_expect(!result, 1)) {
		seen = *context;
		return CU_SUCCESS;
	}
	if (result != CU_ERROR_NOT_INITIALIZED || !atomic_load(&pl_forked) || !context)
		return result;
	pl_gpus_walk(gpu_look, &search);
	if (!search.found)
		return result;
	*context = search.found;
	return CU_SUCCESS;
}
