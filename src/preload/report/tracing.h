/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace of --record: launches, the blocks they used, allocations and frees (tracing.c).
 * Without --record each of these is a load.
 *
 * Threads: any; nothing here waits for the device.
 */
#ifndef SL_PRELOAD_TRACING_H
#define SL_PRELOAD_TRACING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/api/driver_api.h"
#include "preload/scope.h"

/* Smaller blocks are one tensor together: they are many, and have next to nothing of the memory. */
#define PL_TRACE_SMALL ((uint64_t)64 << 10)

enum pl_tracing {
	PL_TRACING_OFF,
	PL_TRACING_ON,
	PL_TRACING_FULL /* as many launches as are wanted: written when the last of them is done */
};

/* enum pl_tracing. atomic: pairs with the stores of tracing.c: whoever sees ON sees the trace. */
extern _Atomic int pl_tracing_state;

static inline int
pl_tracing(void)
{
	return __builtin_expect(atomic_load_explicit(&pl_tracing_state, memory_order_acquire),
				0);
}

/* The GPU's space was just made, and nothing is allocated on it: record what will be, if that is asked for. */
void pl_tracing_open(struct pl_gpu *gpu);
/* The block was allocated, or is about to be freed. */
void pl_tracing_alloc(struct pl_block *block);
void pl_tracing_free(struct pl_block *block);
/* Of work that a scope was opened for. Its number, whose time is to be told; SL_TRACE_NONE: it has
 * none. */
uint32_t pl_tracing_work(const struct pl_scope *scope, const struct pl_gpu *gpu,
			 const struct pl_use *uses, size_t n, unsigned flags);
/* ns 0: nobody knows. */
void pl_tracing_told(int gpu, uint32_t launch, uint64_t ns);
/* At exit: write the traces, and say so. */
void pl_tracing_close(void);

#endif
