/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of streams and contexts.
 *
 * A destroyed stream leaves its queued work behind. An event is recorded first, so that its
 * memory is not reused.
 *
 * Allocations end with their context. Those of ours are freed, by the context that was current
 * when they were made. The space's own context cannot end before the program: the space moves
 * data of other contexts there, too. Destroying or resetting it waits for its work, frees our
 * allocations, and reports it. Its modules, streams and events stay until the end of the
 * process. So does memory when the program drops its last reference to a primary context.
 *
 * Threads: any. Block on the context's work, as the driver does.
 */
#include <stdlib.h>

#include "preload/alloc/arena.h"
#include "preload/alloc/block.h"
#include "preload/api/api_stream.h"
#include "preload/calls/foreign.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/report/timings.h"
#include "preload/streams/stream_internal.h"

/* ---- streams ---- */

int
cuStreamDestroy_v2(struct cu_stream *stream)
{
	int result;

	if (!pl_active())
		return PL_REAL(cuStreamDestroy_v2)(stream);
	pl_stream_leave(stream);
	result = PL_REAL(cuStreamDestroy_v2)(stream);
	pl_capture_stream_gone(stream);
	return result;
}

/* The first ABI: the same arguments. */
int
cuStreamDestroy(struct cu_stream *stream)
{
	int result;

	if (!pl_active())
		return PL_REAL(cuStreamDestroy)(stream);
	pl_stream_leave(stream);
	result = PL_REAL(cuStreamDestroy)(stream);
	pl_capture_stream_gone(stream);
	return result;
}

/* ---- blocks of a context ---- */

#define LIST_MAX 512u

struct block_list {
	const void *context;
	struct pl_block *at[LIST_MAX];
	size_t n;
};

/* Called under the GPU's lock: freed behind it. */
static int
block_collect(struct pl_block *block, void *arg)
{
	struct block_list *list = arg;

	if (block->context == list->context)
		list->at[list->n++] = block;
	return list->n == LIST_MAX;
}

/* In turns: what could not be freed for want of memory would never be. */
static void
blocks_free(struct pl_gpu *gpu, void *arg)
{
	struct block_list list = {.context = arg};

	do {
		list.n = 0;
		pl_arena_walk(gpu, block_collect, &list);
		for (size_t i = 0; i < list.n; i++)
			pl_arena_free(list.at[i], 0, NULL, PL_LEGACY);
	} while (list.n == LIST_MAX);
}

/* ---- contexts ---- */

struct kept {
	const void *context;
	int found;
};

static void
gpu_stands_in(struct pl_gpu *gpu, void *arg)
{
	struct kept *kept = arg;

	if (gpu->context == kept->context)
		kept->found = 1;
}

/* A space stands in the context. */
static int
context_is_kept(const struct cu_context *context)
{
	struct kept kept = {.context = context};

	pl_gpus_walk(gpu_stands_in, &kept);
	return kept.found;
}

/* In place of its end. The driver's result of waiting for its work. */
static int
context_empty(struct cu_context *context)
{
	int pushed, result;

	pl_enter();
	pushed = pl_context_push(context);
	result = pushed < 0 ? CU_ERROR_INVALID_CONTEXT : PL_REAL(cuCtxSynchronize)();
	pl_leave();
	if (pushed >= 0)
		pl_gpus_walk(blocks_free, context);
	pl_context_pop(pushed);
	return result;
}

static int
context_destroy(struct cu_context *context, int (*real)(struct cu_context *))
{
	struct cu_context *popped;
	int result;

	if (!pl_active() || !context)
		return real(context);
	if (context_is_kept(context)) {
		result = context_empty(context);
		if (pl_context_current() == context)
			(void)PL_REAL(cuCtxPopCurrent_v2)(&popped);
		return result;
	}
	pl_timings_context_leaves(context);
	pl_stream_context_leaves(context);
	result = real(context);
	if (result)
		return result;
	pl_stream_context_gone(context);
	pl_gpus_walk(blocks_free, context);
	return CU_SUCCESS;
}

int
cuCtxDestroy_v2(struct cu_context *context)
{
	return context_destroy(context, PL_REAL(cuCtxDestroy_v2));
}

/* The first ABI: the same arguments. */
int
cuCtxDestroy(struct cu_context *context)
{
	return context_destroy(context, PL_REAL(cuCtxDestroy));
}

/* The primary context of a device, if it exists; NULL: it does not. */
static struct cu_context *
primary_context(int device, int *held)
{
	struct cu_context *context = NULL;
	unsigned flags;
	int active = 0;

	*held = 0;
	if (PL_REAL(cuDevicePrimaryCtxGetState)(device, &flags, &active) || !active ||
	    PL_REAL(cuDevicePrimaryCtxRetain)(&context, device))
		return NULL;
	*held = 1;
	return context;
}

static int
primary_reset(int device, int (*real)(int))
{
	struct cu_context *context;
	int result, held;

	if (!pl_active())
		return real(device);
	pl_enter();
	context = primary_context(device, &held);
	if (held)
		(void)PL_REAL(cuDevicePrimaryCtxRelease_v2)(device);
	pl_leave();
	if (context && context_is_kept(context))
		return context_empty(context);
	if (context) {
		pl_timings_context_leaves(context);
		pl_stream_context_leaves(context);
	}
	result = real(device);
	if (!result && context) {
		pl_stream_context_gone(context);
		pl_gpus_walk(blocks_free, context);
	}
	return result;
}

int
cuDevicePrimaryCtxReset_v2(int device)
{
	return primary_reset(device, PL_REAL(cuDevicePrimaryCtxReset_v2));
}

/* The first ABI: the same arguments. */
int
cuDevicePrimaryCtxReset(int device)
{
	return primary_reset(device, PL_REAL(cuDevicePrimaryCtxReset));
}

/* A reference of ours keeps the context that a space stands in. */
static void
primary_hold(int device)
{
	static _Atomic int holds[PL_GPUS_MAX];
	struct cu_context *context;

	if (device < 0 || device >= (int)PL_GPUS_MAX || !pl_gpu_of_device(device) ||
	    atomic_exchange(&holds[device], 1))
		return;
	if (PL_REAL(cuDevicePrimaryCtxRetain)(&context, device))
		atomic_store(&holds[device], 0);
}

int
cuDevicePrimaryCtxRelease_v2(int device)
{
	if (pl_active())
		primary_hold(device);
	return PL_REAL(cuDevicePrimaryCtxRelease_v2)(device);
}

/* The first ABI: the same arguments. */
int
cuDevicePrimaryCtxRelease(int device)
{
	if (pl_active())
		primary_hold(device);
	return PL_REAL(cuDevicePrimaryCtxRelease)(device);
}
