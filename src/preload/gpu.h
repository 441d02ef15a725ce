/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One space a GPU, and its pressure (gpu.c): the GPU of a context or an address, its budgets.
 *
 * Threads: any. A GPU is never freed.
 */
#ifndef SL_PRELOAD_GPU_H
#define SL_PRELOAD_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct sluice_space;

enum pl_pressure { PL_FITS, PL_TRACKING, PL_OVERSUBSCRIBED };

#define PL_GPUS_MAX    32u
#define PL_STREAMS_MAX 63u /* known ones; bit 63 of a mask: any other */

struct pl_arena; /* arena.c */
struct pl_share; /* share.c */

struct pl_gpu {
	int ordinal;
	int device; /* CUdevice */
	struct sluice_space *space;
	uint64_t base, end;             /* addresses of the space */
	_Atomic uint64_t device_budget; /* bytes; changed while others read it */
	uint64_t host_budget, store_budget;
	/* enum pl_pressure, rises only. atomic: pairs with the store of pl_gpu_press(): whoever sees
	 * PL_OVERSUBSCRIBED sees the core's records. */
	_Atomic int pressure;
	_Atomic int settling;      /* on the way to PL_OVERSUBSCRIBED */
	_Atomic unsigned unpinned; /* scopes that are open and began before that */
	_Atomic unsigned pinned; /* scopes that are open, or begin, and began after that */
	_Atomic uint64_t allocated_bytes; /* live blocks, as they count against the virtual size */
	_Atomic uint64_t announced_bytes; /* the most that the core was told will be off the device */
	/* Set once. atomic: pl_arena_of() loads it with acquire; pairs with the exchange that sets it. */
	struct pl_arena *arena;
	struct pl_gpu_internal *books; /* gpu.c's and scope.c's */
	struct pl_share *share; /* set once; NULL: no other program knows of this one */
	/* enum sl_member_gate: shut ones; 0: scopes go on. atomic: nothing is read after it but what has its
	 * own lock; who comes through just before it closes is as one that came earlier. */
	_Atomic unsigned gate;
	int has_hostmap; /* host code may touch what it is given */
	void *context; /* CUcontext the space stands in; the program cannot end it (context.c) */
};

/* Bounds of all our addresses: what lies outside is not ours. atomic: relaxed: the program has an
 * address of a space only after both were stored (gpu.c). */
extern _Atomic uint64_t pl_low, pl_high;

static inline bool
pl_maybe_ours(uint64_t addr)
{
	uint64_t low = atomic_load_explicit(&pl_low, memory_order_relaxed); /* once: it may fall */

	return addr - low < atomic_load_explicit(&pl_high, memory_order_relaxed) - low;
}

/*
 * The GPU of the calling thread's current context, its space made if it is the first use. NULL: no
 * context is current, or that GPU cannot be served (said once on stderr): forward. Blocks on making
 * the space.
 */
struct pl_gpu *pl_gpu_current(void);
/* The same, but no space is made: NULL if there is none yet. One driver call, some ns. */
struct pl_gpu *pl_gpu_here(void);
/* The GPU whose space holds addr, NULL: none. Wait-free. */
struct pl_gpu *pl_gpu_of(uint64_t addr);
/* The GPU number n (CUdevice) if it has a space, or NULL. Wait-free. */
struct pl_gpu *pl_gpu_of_device(int device);
/* Device + host + store budget: what may be allocated. The same with what the device budget may become:
 * what memory queries answer as the total. */
uint64_t pl_gpu_virtual_bytes(const struct pl_gpu *gpu);
uint64_t pl_gpu_reported_bytes(const struct pl_gpu *gpu);

/*
 * The driver is out of memory: make room on the device (take bytes, or a sixteenth of the budget,
 * whatever is more, from the budget for good). 1: worth another try. Rule O: every forwarded call that
 * allocates device memory of the driver's own does
 *     do result = real(); while (result == CU_ERROR_OUT_OF_MEMORY && pl_gpu_shrink_budget(&tries, bytes));
 * with int tries = 0. Blocks on copies.
 */
bool pl_gpu_shrink_budget(int *tries, uint64_t bytes);
/* Device memory that the program took past us (+) or gave back (-); gpu NULL: that GPU has no space yet.
 * Only counted: where it becomes short, pl_gpu_shrink_budget() takes it off the budget. */
void pl_gpu_foreign(struct pl_gpu *gpu, int64_t bytes);
/* Have the chunks of [addr, addr + bytes) on the device, contents undefined. At ease only. 0 or
 * -errno. */
int pl_gpu_populate(struct pl_gpu *gpu, uint64_t addr, uint64_t bytes) SL_MUST_CHECK;
/* So many bytes are, or will be, beyond the device budget: host memory is pinned for them in the background. */
void pl_gpu_expect(struct pl_gpu *gpu, uint64_t bytes);
/* Raise the pressure (never lowers it). To PL_OVERSUBSCRIBED: what was launched up to here counts as using
 * everything until it is done. Not under pl_gpu.lock; may block on running kernels. */
void pl_gpu_press(struct pl_gpu *gpu, enum pl_pressure pressure);
/* Wait for what is queued on the GPU, whose context is current. CUresult; STREAM_CAPTURE_UNSUPPORTED: not for
 * what a stream has that is captured now. */
int pl_gpu_drain(struct pl_gpu *gpu) SL_MUST_CHECK;
/* Whether launches are to be looked at: some GPU is not at ease, or --explain asks.
 * atomic: pairs with the stores of gpu.c and tracing.c. */
extern _Atomic int pl_watch;

static inline bool
pl_watching(void)
{
	return atomic_load_explicit(&pl_watch, memory_order_acquire);
}

/* At exit: for each GPU that has a space. */
void pl_gpus_walk(void (*fn)(struct pl_gpu *, void *), void *arg);
/* Chunk size of large blocks: arena.c makes its big regions of these. */
uint64_t pl_gpu_chunk_bytes(const struct pl_gpu *gpu);

#endif
