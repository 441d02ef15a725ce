/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel has failed and its context is lost. Was it Sluice? Only memory that the GPU cannot
 * access can cause a fault that would not occur natively: memory neither on the device nor
 * mapped in host memory. This file reports, once, how much of the program's memory was so. If
 * none was, the program's own kernel is to blame. The report is a little late: chunks may have
 * moved since the failure, but none because of it.
 *
 * Also the calls that see failures, since they wait or ask: forwarded as they are.
 *
 * Threads: any. Looks at the blocks, with the GPU's lock, and then at the place of each.
 */
#include "preload/report/faults.h"
#include "preload/alloc/arena.h"
#include "preload/alloc/block.h"
#include "preload/gpu.h"
#include "preload/preload.h"

#include <stdlib.h>

#include "base/fault_point.h"
#include "base/size.h"
#include "core/interpose.h"
#include "device/cuda/cuda_driver.h"
#include "preload/api/api_wait.h"

struct ranges {
	struct range {
		struct pl_gpu *gpu;
		uint64_t base, bytes;
	} * at;
	size_t n, size;
};

static int
range_collect(struct pl_block *block, void *arg)
{
	struct ranges *list = arg;

	if (list->n == list->size) {
		size_t size = list->size ? 2 * list->size : 1024;
		struct range *more = sl_realloc(list->at, size * sizeof(*more));

		if (!more)
			return -1;
		list->at = more;
		list->size = size;
	}
	list->at[list->n++] = (struct range){block->gpu, block->base, block->bytes};
	return 0;
}

static void
ranges_collect(struct pl_gpu *gpu, void *list)
{
	pl_arena_walk(gpu, range_collect, list);
}

void
pl_fault_note(int result)
{
	static _Atomic int told;
	struct ranges list = {NULL, 0, 0};
	uint64_t unmapped = 0, total = 0, bytes;
	char all[32], away[32];

	if (!sl_cuda_result_is_lost(result) || result == CU_ERROR_DEINITIALIZED ||
	    !pl_active() || atomic_load(&pl_low) == UINT64_MAX || atomic_exchange(&told, 1))
		return;
	pl_enter();
	pl_gpus_walk(ranges_collect, &list);
	for (size_t i = 0; i < list.n; i++) {
		const struct range *range = &list.at[i];

		if (sl_unmapped(range->gpu->space, (void *)(uintptr_t)range->base,
				range->bytes, &bytes))
			continue;
		total += range->bytes;
		unmapped += bytes;
	}
	free(list.at);
	sl_size_format(total, all, sizeof(all));
	if (!unmapped)
		pl_error("%s (%d): a kernel of the program has failed; it could reach "
			 "all of the %s "
			 "that are allocated here, so the reason is in the program",
			 sl_cuda_result_name(result), result, all);
	else
		pl_error("%s (%d): a kernel of the program has failed; of the %s that "
			 "are allocated "
			 "here it could not reach %s, which nothing was known to use: if "
			 "that was "
			 "the reason, --kernel-args all, or a larger host budget, helps",
			 sl_cuda_result_name(result), result, all,
			 sl_size_format(unmapped, away, sizeof(away)));
	pl_leave();
}

/* ---- calls that wait or ask ---- */

int
cuCtxSynchronize(void)
{
	return pl_fault_seen(PL_REAL(cuCtxSynchronize)());
}

int
cuCtxSynchronize_v2(struct cu_context *context)
{
	return pl_fault_seen(PL_REAL(cuCtxSynchronize_v2)(context));
}

#define SEEN(real, flavour, stream) pl_fault_seen(real(stream))

/* clang-format off */
PL_DEFINE_BOTH(cuStreamSynchronize, ptsz, SEEN, (struct cu_stream *stream), stream)
PL_DEFINE_BOTH(cuStreamQuery, ptsz, SEEN, (struct cu_stream *stream), stream)
/* clang-format on */

int
cuEventSynchronize(struct cu_event *event)
{
	return pl_fault_seen(PL_REAL(cuEventSynchronize)(event));
}

int
cuEventQuery(struct cu_event *event)
{
	return pl_fault_seen(PL_REAL(cuEventQuery)(event));
}
