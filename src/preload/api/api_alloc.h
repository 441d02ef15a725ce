/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of the driver's allocations that are wrapped (alloc.c), and of its pools (pool.c).
 * The first versions of cuMemAlloc, cuMemAllocPitch and cuMemFree have 32-bit addresses, and
 * ours never fit. They are forwarded on purpose.
 */
#ifndef SL_PRELOAD_API_ALLOC_H
#define SL_PRELOAD_API_ALLOC_H

#include "preload/api/driver_api.h"

/* ---- alloc.c ---- */

enum { CU_ATTACH_GLOBAL = 1, CU_ATTACH_HOST = 2 };

PL_EXPORT int cuMemAlloc_v2(uint64_t *addr, size_t bytes);
PL_EXPORT int cuMemAllocPitch_v2(uint64_t *addr, size_t *pitch, size_t width_bytes,
				 size_t height, unsigned element_bytes);
PL_EXPORT int cuMemAllocManaged(uint64_t *addr, size_t bytes, unsigned flags);
PL_EXPORT int cuMemFree_v2(uint64_t addr);
PL_BOTH(cuMemAllocAsync, ptsz, (uint64_t * addr, size_t bytes, struct cu_stream *stream));
PL_BOTH(cuMemAllocFromPoolAsync, ptsz,
	(uint64_t * addr, size_t bytes, struct cu_pool *pool, struct cu_stream *stream));
PL_BOTH(cuMemFreeAsync, ptsz, (uint64_t addr, struct cu_stream *stream));

/* ---- pool.c ---- */

enum { CU_POOL_PINNED = 1, CU_POOL_MANAGED = 2 };

enum {
	CU_POOL_RESERVED = 5,
	CU_POOL_RESERVED_HIGH = 6,
	CU_POOL_USED = 7,
	CU_POOL_USED_HIGH = 8
};

struct cu_pool_properties {
	int type;         /* CU_POOL_... */
	int handle_types; /* 0: not shared with other processes */
	struct cu_location location;
	void *windows_only;
	size_t max_bytes; /* 0: no limit */
	unsigned short usage;
	unsigned char reserved[54];
};

_Static_assert(sizeof(struct cu_pool_properties) == 88, "ABI");
_Static_assert(offsetof(struct cu_pool_properties, max_bytes) == 24, "ABI");

PL_EXPORT int cuMemPoolCreate(struct cu_pool **pool,
			      const struct cu_pool_properties *properties);
PL_EXPORT int cuMemPoolDestroy(struct cu_pool *pool);
PL_EXPORT int cuMemPoolTrimTo(struct cu_pool *pool, size_t keep_bytes);
PL_EXPORT int cuMemPoolSetAttribute(struct cu_pool *pool, int attribute, void *value);
PL_EXPORT int cuMemPoolGetAttribute(struct cu_pool *pool, int attribute, void *value);
PL_EXPORT int cuMemPoolSetAccess(struct cu_pool *pool, const struct cu_access *access,
				 size_t n);
PL_EXPORT int cuDeviceGetDefaultMemPool(struct cu_pool **pool, int device);
PL_EXPORT int cuDeviceGetMemPool(struct cu_pool **pool, int device);
PL_EXPORT int cuDeviceSetMemPool(int device, struct cu_pool *pool);
PL_EXPORT int cuMemSetMemPool(struct cu_location *location, int type, struct cu_pool *pool);

#endif
