/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of the driver's own, which is counted (pl_gpu_foreign()), and rule O. Used by alloc.c,
 * room.c, foreign.c, graph.c and vmm*.c.
 */
#ifndef SL_PRELOAD_FOREIGN_H
#define SL_PRELOAD_FOREIGN_H

#include <stdbool.h>

#include "base/error.h"
#include "preload/api/driver_api.h"

/* What a call that allocates an unknown amount is given room for. */
#define PL_ROOM_BYTES ((uint64_t)1 << 20)

/*
 * Rule O: the driver's call returned result; 1: it had no memory, and room was made: call it again. tries
 * begins at 0. Nothing but a comparison unless it was out of memory. A program whose thread is captured
 * in a graph is not helped: making room waits for copies.
 */
bool pl_room_made(int result, int *tries, uint64_t bytes);

/* result = call, and again as rule O says. */
#define PL_WITH_ROOM(result, bytes, call)                         \
	do {                                                      \
		int tries_ = 0;                                   \
                                                                  \
		do                                                \
			(result) = (call);                        \
		while (pl_room_made((result), &tries_, (bytes))); \
	} while (0)

/* cuMemCreate() and its like of the driver's memory, which is counted. CUresults. */
int pl_foreign_create(uint64_t *handle, size_t bytes, const struct cu_allocation *what,
		      unsigned long long flags) SL_MUST_CHECK;
int pl_foreign_release(uint64_t handle) SL_MUST_CHECK;
int pl_foreign_map(uint64_t addr, size_t bytes, size_t offset, uint64_t handle,
		   unsigned long long flags) SL_MUST_CHECK;
int pl_foreign_unmap(uint64_t addr, size_t bytes) SL_MUST_CHECK;
/* The program has one handle more of this physical memory. */
void pl_foreign_retained(uint64_t handle);

#endif
