/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c's functions for alloc.c: the pool of an allocation, whether the library serves it, and
 * its counters.
 */
#ifndef SL_PRELOAD_POOL_H
#define SL_PRELOAD_POOL_H

#include <stdbool.h>

#include "preload/api/api_alloc.h"

/*
 * The pool of this device that cuMemAllocAsync() allocates from. NULL: one that the driver serves
 * itself, or none. A driver call the first time.
 */
struct cu_pool *pl_pool_current(int device);

/* Whether we serve this pool's allocations; its device in *device. Wait-free. */
bool pl_pool_is_ours(const struct cu_pool *pool, int *device);

/* An allocation of the pool came or went. pool may be NULL. */
void pl_pool_count(const struct cu_pool *pool, uint64_t bytes, int came);

#endif
