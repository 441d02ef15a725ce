/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that matter only because the driver may be out of memory: our space has taken all there
 * was. The space then gives some up for good, and the call is made again. Loading code is the
 * usual one. Others are streams, events, contexts and their limits, arrays, pinned host memory,
 * imported memory. This is rule O, which wrappers elsewhere follow, too.
 *
 * cuArrayCreate() and cuArray3DCreate() here are the first ABIs, whose descriptions are of 32
 * bits: such arrays are not counted.
 *
 * Threads: any. Block on copies when there is no memory.
 */
#include <stdbool.h>

#include "preload/api/api_foreign.h"
#include "preload/calls/foreign.h"
#include "preload/gpu.h"
#include "preload/preload.h"

bool
pl_room_made(int result, int *tries, uint64_t bytes)
{
	if (__builtin_expect(result != CU_ERROR_OUT_OF_MEMORY, 1) || !pl_active())
		return false;
	return pl_gpu_shrink_budget(tries, bytes);
}

/* The arguments come with their own parentheses. */
/* clang-format off */
#define ROOM_DEFINE(name, parameters, arguments)                           \
	int                                                                \
	name parameters                                                    \
	{                                                                  \
		int result;                                                \
                                                                           \
		/* NOLINTNEXTLINE(bugprone-macro-parentheses) */           \
		PL_WITH_ROOM(result, PL_ROOM_BYTES, PL_REAL(name) arguments); \
		return result;                                             \
	}
/* clang-format on */
PL_ROOM_CALLS(ROOM_DEFINE)
