/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's allocations that the back end does not call (plain.c has the others):
 * pitched, managed (host code sees nothing of it here), and stream-ordered ones with their
 * pools. Also the queries about a pointer's whole allocation. Stream-ordered calls are done when
 * they are made. Freeing waits for the device, so no program sees more reuse than the real
 * driver allows.
 *
 * Threads: any; the.lock.
 */
#include <string.h>

#include "internal.h"
#include "preload/api/api_alloc.h"
#include "preload/api/api_query.h"

#define POOLS_MAX   32u
#define PITCH_BYTES 512u

struct cu_pool {
	int live, device, type, is_default;
	uint64_t threshold, used, used_high;
	int reuse[3]; /* attributes 1 to 3 */
	int access[DEVICES_MAX];
};

static struct cu_pool pools[POOLS_MAX]; /* the first ones: the devices' default pools */
static struct cu_pool *current[DEVICES_MAX]; /* NULL: the default one */

/* Pools of addresses that came from one. */
static struct {
	uint64_t addr, bytes;
	struct cu_pool *pool;
} from_pool[1024];

static struct cu_pool *
pool_find(const struct cu_pool *pool)
{
	if (pool < pools || pool >= pools + POOLS_MAX)
		return NULL;
	return pool->live ? (struct cu_pool *)pool : NULL;
}

static struct cu_pool *
pool_default(int device)
{
	struct cu_pool *pool = &pools[device];

	if (!pool->live)
		*pool = (struct cu_pool){.live = 1,
					 .device = device,
					 .type = CU_POOL_PINNED,
					 .is_default = 1,
					 .reuse = {1, 1, 1}};
	return pool;
}

static int
device_exists(int device)
{
	int n = 0;

	return !cuDeviceGetCount(&n) && device >= 0 && device < n;
}

/* ---- pools ---- */

int
cuMemPoolCreate(struct cu_pool **out, const struct cu_pool_properties *properties)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	if (code)
		return code;
	if (!out || !properties || !properties->type ||
	    (properties->location.type == CU_LOCATION_DEVICE &&
	     !device_exists(properties->location.id)))
		return CU_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&the.lock);
	code = CU_ERROR_OUT_OF_MEMORY;
	for (size_t i = DEVICES_MAX; i < POOLS_MAX && code; i++) {
		if (pools[i].live)
			continue;
		pools[i] = (struct cu_pool){.live = 1,
					    .device = properties->location.id,
					    .type = properties->type,
					    .reuse = {1, 1, 1}};
		*out = &pools[i];
		code = CU_SUCCESS;
	}
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuMemPoolDestroy(struct cu_pool *pool)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	pool = pool_find(pool);
	if (!pool || pool->is_default) {
		code = CU_ERROR_INVALID_VALUE;
	} else {
		pool->live = 0;
		for (int i = 0; i < DEVICES_MAX; i++)
			if (current[i] == pool)
				current[i] = NULL;
	}
	pthread_mutex_unlock(&the.lock);
	return code;
}

int
cuMemPoolTrimTo(struct cu_pool *pool, size_t keep_bytes)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	(void)keep_bytes;
	if (code)
		return code;
	return pool_find(pool) ? CU_SUCCESS : CU_ERROR_INVALID_VALUE;
}

int
cuMemPoolSetAttribute(struct cu_pool *pool, int attribute, void *value)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	if (code)
		return code;
	pool = pool_find(pool);
	if (!pool || !value)
		return CU_ERROR_INVALID_VALUE;
	if (attribute >= 1 && attribute <= 3) {
		pool->reuse[attribute - 1] = *(int *)value;
		return CU_SUCCESS;
	}
	if (attribute == 4) {
		pool->threshold = *(uint64_t *)value;
		return CU_SUCCESS;
	}
	if ((attribute != CU_POOL_RESERVED_HIGH && attribute != CU_POOL_USED_HIGH) ||
	    *(uint64_t *)value)
		return CU_ERROR_INVALID_VALUE;
	pool->used_high = pool->used;
	return CU_SUCCESS;
}

int
cuMemPoolGetAttribute(struct cu_pool *pool, int attribute, void *value)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	if (code)
		return code;
	pool = pool_find(pool);
	if (!pool || !value || attribute < 1 || attribute > CU_POOL_USED_HIGH)
		return CU_ERROR_INVALID_VALUE;
	if (attribute <= 3)
		*(int *)value = pool->reuse[attribute - 1];
	else if (attribute == 4)
		*(uint64_t *)value = pool->threshold;
	else
		*(uint64_t *)value = attribute == CU_POOL_USED || attribute == CU_POOL_RESERVED
					     ? pool->used
					     : pool->used_high;
	return CU_SUCCESS;
}

int
cuMemPoolSetAccess(struct cu_pool *pool, const struct cu_access *access, size_t n)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	if (code)
		return code;
	pool = pool_find(pool);
	if (!pool || !access)
		return CU_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++) {
		if (!device_exists(access[i].location.id))
			return CU_ERROR_INVALID_DEVICE;
		pool->access[access[i].location.id] = access[i].flags;
	}
	return CU_SUCCESS;
}

int
cuDeviceGetDefaultMemPool(struct cu_pool **out, int device)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	if (code)
		return code;
	if (!device_exists(device))
		return CU_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&the.lock);
	*out = pool_default(device);
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuDeviceGetMemPool(struct cu_pool **out, int device)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	if (code)
		return code;
	if (!device_exists(device))
		return CU_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&the.lock);
	*out = current[device] ? current[device] : pool_default(device);
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuDeviceSetMemPool(int device, struct cu_pool *pool)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	if (code)
		return code;
	if (!device_exists(device) || !pool_find(pool) || pool->device != device)
		return CU_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&the.lock);
	current[device] = pool;
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

/* ---- allocations ---- */

int
cuMemAllocPitch_v2(uint64_t *addr, size_t *pitch, size_t width_bytes, size_t height,
		   unsigned element_bytes)
{
	size_t row = (width_bytes + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES, bytes;
	int code;

	if (!addr || !pitch || !width_bytes || !height || row < width_bytes ||
	    (element_bytes != 4 && element_bytes != 8 && element_bytes != 16))
		return CU_ERROR_INVALID_VALUE;
	if (__builtin_mul_overflow(row, height, &bytes))
		return CU_ERROR_OUT_OF_MEMORY;
	code = cuMemAlloc_v2(addr, bytes);
	if (!code)
		*pitch = row;
	return code;
}

int
cuMemAllocManaged(uint64_t *addr, size_t bytes, unsigned flags)
{
	if (!addr || !bytes || (flags != CU_ATTACH_GLOBAL && flags != CU_ATTACH_HOST))
		return CU_ERROR_INVALID_VALUE;
	return cuMemAlloc_v2(addr, bytes);
}

int
cuMemAllocFromPoolAsync(uint64_t *addr, size_t bytes, struct cu_pool *pool,
			struct cu_stream *stream)
{
	size_t i = 0;
	int code;

	(void)stream;
	if (!addr || !bytes || !pool_find(pool))
		return CU_ERROR_INVALID_VALUE;
	code = cuMemAlloc_v2(addr, bytes);
	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	while (i < sizeof(from_pool) / sizeof(*from_pool) && from_pool[i].addr)
		i++;
	if (i < sizeof(from_pool) / sizeof(*from_pool)) {
		from_pool[i].addr = *addr;
		from_pool[i].bytes = bytes;
		from_pool[i].pool = pool;
		pool->used += bytes;
		if (pool->used > pool->used_high)
			pool->used_high = pool->used;
	}
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuMemAllocFromPoolAsync_ptsz(uint64_t *addr, size_t bytes, struct cu_pool *pool,
			     struct cu_stream *stream)
{
	return cuMemAllocFromPoolAsync(addr, bytes, pool, stream);
}

int
cuMemAllocAsync(uint64_t *addr, size_t bytes, struct cu_stream *stream)
{
	struct cu_context *context;
	int code = call_enter(CALL_API, NEEDS_CONTEXT, &context);
	struct cu_pool *pool = NULL;

	if (code)
		return code;
	code = cuDeviceGetMemPool(&pool, context->device);
	return code ? code : cuMemAllocFromPoolAsync(addr, bytes, pool, stream);
}

int
cuMemAllocAsync_ptsz(uint64_t *addr, size_t bytes, struct cu_stream *stream)
{
	return cuMemAllocAsync(addr, bytes, stream);
}

int
cuMemFreeAsync(uint64_t addr, struct cu_stream *stream)
{
	int code = addr ? cuMemFree_v2(addr) : CU_ERROR_INVALID_VALUE;

	(void)stream;
	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	for (size_t i = 0; i < sizeof(from_pool) / sizeof(*from_pool); i++)
		if (from_pool[i].addr == addr) {
			from_pool[i].pool->used -= from_pool[i].bytes;
			from_pool[i].addr = 0;
		}
	pthread_mutex_unlock(&the.lock);
	return CU_SUCCESS;
}

int
cuMemFreeAsync_ptsz(uint64_t addr, struct cu_stream *stream)
{
	return cuMemFreeAsync(addr, stream);
}

/* ---- what an address is ---- */

int
cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t addr)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);
	struct mapping *mapping;

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	mapping = mapping_at(addr);
	if (mapping && base)
		*base = mapping->base;
	if (mapping && bytes)
		*bytes = mapping->bytes;
	pthread_mutex_unlock(&the.lock);
	return mapping ? CU_SUCCESS : CU_ERROR_NOT_FOUND;
}

/* What is written of an attribute that there is not. */
static size_t
attribute_bytes(int attribute)
{
	switch (attribute) {
	case CU_POINTER_MEMORY_TYPE:
	case CU_POINTER_SYNC_MEMOPS:
	case CU_POINTER_IS_MANAGED:
	case CU_POINTER_DEVICE_ORDINAL:
	case CU_POINTER_IS_IPC_CAPABLE:
	case CU_POINTER_MAPPED:
	case CU_POINTER_HANDLE_TYPES:
	case CU_POINTER_IS_RDMA_CAPABLE:
	case CU_POINTER_ACCESS_FLAGS:
	case CU_POINTER_IS_DECOMPRESS_CAPABLE:
		return sizeof(int);
	}
	return sizeof(uint64_t);
}

int
cuPointerGetAttributes(unsigned n, int *attributes, void **values, uint64_t addr)
{
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	if (code)
		return code;
	if (!n || !attributes || !values)
		return CU_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n; i++) {
		int none = CU_DEVICE_NONE;

		if (!cuPointerGetAttribute(values[i], attributes[i], addr))
			continue;
		if (attributes[i] == CU_POINTER_DEVICE_ORDINAL)
			memcpy(values[i], &none, sizeof(none));
		else
			memset(values[i], 0, attribute_bytes(attributes[i]));
	}
	return CU_SUCCESS;
}
