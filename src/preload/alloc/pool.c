/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools. The driver makes a pool, and owns its handle, its settings and its access
 * rights. Its memory and its counters of use are ours. Some pools are wholly the driver's: pools
 * of managed or host memory, pools shared with other processes, and pools that another device
 * may access. Our memory is mapped for one device.
 *
 * A pool's reserved size is its highest use since it was trimmed: the driver would hold at most
 * that.
 *
 * Threads: any. Pools are in a list that only grows. A reused handle takes its old entry.
 */
#include "preload/alloc/pool.h"
#include "base/fault_point.h"
#include "preload/gpu.h"
#include "preload/preload.h"

#include <stdbool.h>
#include <stdlib.h>

struct pool {
	struct cu_pool *handle; /* set once */
	_Atomic int device;
	_Atomic int ours;
	_Atomic uint64_t used, used_high, reserved, reserved_high; /* bytes */
	struct pool *next;                                         /* set once */
};

static _Atomic(struct pool *) pools;
/* Current pool by device; NULL: not known. */
static _Atomic(struct cu_pool *) current[PL_GPUS_MAX];

static struct pool *
pool_find(const struct cu_pool *handle)
{
	struct pool *pool = atomic_load(&pools);

	while (pool && pool->handle != handle)
		pool = pool->next;
	return pool;
}

/* Take note of a pool that we serve. Without memory for that the driver serves it. */
static void
pool_note(struct cu_pool *handle, int device, int fresh)
{
	struct pool *pool = pool_find(handle);

	if (!pool) {
		pool = sl_calloc(1, sizeof(*pool));
		if (!pool)
			return;
		pool->handle = handle;
		atomic_store(&pool->device, device);
		atomic_store(&pool->ours, 1);
		pool->next = atomic_load(&pools);
		while (!atomic_compare_exchange_weak(&pools, &pool->next, pool))
			;
		return;
	}
	if (!fresh)
		return;
	/* A pool was destroyed and its handle came again. */
	atomic_store(&pool->device, device);
	atomic_store(&pool->used, 0);
	atomic_store(&pool->used_high, 0);
	atomic_store(&pool->reserved, 0);
	atomic_store(&pool->reserved_high, 0);
	atomic_store(&pool->ours, 1);
}

static struct pool *
pool_ours(const struct cu_pool *handle)
{
	struct pool *pool = pl_active() ? pool_find(handle) : NULL;

	return pool && atomic_load(&pool->ours) ? pool : NULL;
}

static void
raise_to(_Atomic uint64_t *high, uint64_t bytes)
{
	uint64_t now = atomic_load(high);

	while (now < bytes && !atomic_compare_exchange_weak(high, &now, bytes))
		;
}

/* ---- for alloc.c ---- */

struct cu_pool *
pl_pool_current(int device)
{
	struct cu_pool *handle, *standard = NULL;

	if ((unsigned)device >= PL_GPUS_MAX)
		return NULL;
	handle = atomic_load(&current[device]);
	if (!handle) {
		if (PL_REAL(cuDeviceGetDefaultMemPool)(&standard, device) ||
		    PL_REAL(cuDeviceGetMemPool)(&handle, device))
			return NULL;
		pool_note(standard, device, 0);
		atomic_store(&current[device], handle);
	}
	return pl_pool_is_ours(handle, NULL) ? handle : NULL;
}

bool
pl_pool_is_ours(const struct cu_pool *handle, int *device)
{
	struct pool *pool = handle ? pool_find(handle) : NULL;

	if (!pool || !atomic_load(&pool->ours))
		return false;
	if (device)
		*device = atomic_load(&pool->device);
	return true;
}

void
pl_pool_count(const struct cu_pool *handle, uint64_t bytes, int came)
{
	struct pool *pool = handle ? pool_find(handle) : NULL;
	uint64_t now;

	if (!pool)
		return;
	if (came) {
		now = atomic_fetch_add(&pool->used, bytes) + bytes;
		raise_to(&pool->used_high, now);
		raise_to(&pool->reserved, now);
		raise_to(&pool->reserved_high, now);
		return;
	}
	now = atomic_load(&pool->used);
	/* What a destroyed pool still had may go after its handle has come again. */
	while (!atomic_compare_exchange_weak(&pool->used, &now, now > bytes ? now - bytes : 0))
		;
}

/* ---- the driver's calls ---- */

int
cuMemPoolCreate(struct cu_pool **handle, const struct cu_pool_properties *properties)
{
	int tries = 0, result;

	do
		result = PL_REAL(cuMemPoolCreate)(handle, properties);
	while (result == CU_ERROR_OUT_OF_MEMORY && pl_active() &&
	       pl_gpu_shrink_budget(&tries, 0));
	if (!result && pl_active() && properties->type == CU_POOL_PINNED &&
	    !properties->handle_types && properties->location.type == CU_LOCATION_DEVICE)
		pool_note(*handle, properties->location.id, 1);
	return result;
}

int
cuMemPoolDestroy(struct cu_pool *handle)
{
	int result = PL_REAL(cuMemPoolDestroy)(handle);
	struct pool *pool = pl_active() ? pool_find(handle) : NULL;

	if (result || !pool)
		return result;
	/* What is allocated from it lives on, and counts no longer. */
	atomic_store(&pool->ours, 0);
	for (unsigned i = 0; i < PL_GPUS_MAX; i++) {
		struct cu_pool *was = handle;

		(void)atomic_compare_exchange_strong(&current[i], &was, NULL);
	}
	return result;
}

int
cuMemPoolTrimTo(struct cu_pool *handle, size_t keep_bytes)
{
	int result = PL_REAL(cuMemPoolTrimTo)(handle, keep_bytes);
	struct pool *pool = pool_ours(handle);
	uint64_t now, least;

	if (result || !pool)
		return result;
	now = atomic_load(&pool->reserved);
	do {
		least = atomic_load(&pool->used);
		if (keep_bytes > least)
			least = keep_bytes;
	} while (now > least && !atomic_compare_exchange_weak(&pool->reserved, &now, least));
	return result;
}

int
cuMemPoolSetAttribute(struct cu_pool *handle, int attribute, void *value)
{
	int result = PL_REAL(cuMemPoolSetAttribute)(handle, attribute, value);
	struct pool *pool = pool_ours(handle);

	if (result || !pool)
		return result;
	if (attribute == CU_POOL_RESERVED_HIGH) /* to 0, or the driver would have refused: reset */
		atomic_store(&pool->reserved_high, atomic_load(&pool->reserved));
	if (attribute == CU_POOL_USED_HIGH)
		atomic_store(&pool->used_high, atomic_load(&pool->used));
	return result;
}

int
cuMemPoolGetAttribute(struct cu_pool *handle, int attribute, void *value)
{
	int result = PL_REAL(cuMemPoolGetAttribute)(handle, attribute, value);
	struct pool *pool = pool_ours(handle);

	if (result || !pool)
		return result;
	switch (attribute) {
	case CU_POOL_RESERVED:
		*(uint64_t *)value = atomic_load(&pool->reserved);
		break;
	case CU_POOL_RESERVED_HIGH:
		*(uint64_t *)value = atomic_load(&pool->reserved_high);
		break;
	case CU_POOL_USED:
		*(uint64_t *)value = atomic_load(&pool->used);
		break;
	case CU_POOL_USED_HIGH:
		*(uint64_t *)value = atomic_load(&pool->used_high);
		break;
	}
	return result;
}

int
cuMemPoolSetAccess(struct cu_pool *handle, const struct cu_access *access, size_t n)
{
	int result = PL_REAL(cuMemPoolSetAccess)(handle, access, n);
	struct pool *pool = pool_ours(handle);

	for (size_t i = 0; !result && pool && i < n; i++)
		if (access[i].flags != CU_ACCESS_NONE &&
		    access[i].location.id != atomic_load(&pool->device))
			atomic_store(&pool->ours, 0);
	return result;
}

int
cuDeviceGetDefaultMemPool(struct cu_pool **handle, int device)
{
	int result = PL_REAL(cuDeviceGetDefaultMemPool)(handle, device);

	if (!result && pl_active())
		pool_note(*handle, device, 0);
	return result;
}

int
cuDeviceGetMemPool(struct cu_pool **handle, int device)
{
	int result = PL_REAL(cuDeviceGetMemPool)(handle, device);

	if (!result && pl_active()) /* the default one, until another is made current */
		(void)pl_pool_current(device);
	return result;
}

static void
current_forget(int device)
{
	if (pl_active() && (unsigned)device < PL_GPUS_MAX)
		atomic_store(&current[device], NULL);
}

int
cuDeviceSetMemPool(int device, struct cu_pool *handle)
{
	int result = PL_REAL(cuDeviceSetMemPool)(device, handle);

	if (!result)
		current_forget(device);
	return result;
}

int
cuMemSetMemPool(struct cu_location *location, int type, struct cu_pool *handle)
{
	int result = PL_REAL(cuMemSetMemPool)(location, type, handle);

	if (!result && type == CU_POOL_PINNED && location->type == CU_LOCATION_DEVICE)
		current_forget(location->id);
	return result;
}
