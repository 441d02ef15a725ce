/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's physical memory. It is an extent of a memfd, one file for each device
 * and one for the host. Extents are never reused, so nothing is fragmented and old contents
 * cannot show. Memory lives until it is released and unmapped everywhere.
 *
 * Threads: any; the.lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"
#include "preload/api/api_vmm.h"

#define HOST_POOL DEVICES_MAX

static void
room_give(int pool, uint64_t bytes)
{
	if (pool == HOST_POOL) {
		the.host_used -= bytes;
		return;
	}
	the.device_used[pool] -= bytes;
	shared_say();
}

/* 1: there is so much left, and it is taken. */
static int
room_take(int pool, uint64_t bytes)
{
	uint64_t others, limit = the.settings.device_bytes;

	if (pool == HOST_POOL) {
		if (the.host_used > the.settings.host_bytes ||
		    bytes > the.settings.host_bytes - the.host_used)
			return 0;
		the.host_used += bytes;
		return 1;
	}
	the.device_used[pool] += bytes;
	shared_say();
	others = the.device_taken[pool] + shared_taken(pool);
	if (bytes <= limit && the.device_used[pool] <= limit &&
	    others <= limit - the.device_used[pool])
		return 1;
	room_give(pool, bytes);
	return 0;
}

struct memory *
memory_new(size_t bytes, const struct cu_location *location)
{
	int pool = location->type == CU_LOCATION_DEVICE ? location->id : HOST_POOL;
	struct memory *memory;
	void *p;

	if (!room_take(pool, bytes))
		return NULL;
	if (the.pool_fd[pool] < 0)
		the.pool_fd[pool] = memfd_create("stand-in GPU memory", MFD_CLOEXEC);
	if (the.pool_fd[pool] < 0 ||
	    ftruncate(the.pool_fd[pool], (off_t)(the.pool_end[pool] + bytes))) {
		room_give(pool, bytes);
		return NULL;
	}
	memory = must_alloc(1, sizeof(*memory));
	memory->bytes = bytes;
	memory->location = *location;
	memory->fd = the.pool_fd[pool];
	memory->offset = the.pool_end[pool];
	memory->refs = 1;
	the.pool_end[pool] += bytes;
	if (the.settings.fill) {
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd,
			 (off_t)memory->offset);
		if (p == MAP_FAILED)
			abort();
		memset(p, the.settings.fill, bytes);
		munmap(p, bytes);
	}
	return memory;
}

/* A reference or a mapping has gone. */
void
memory_put(struct memory *memory)
{
	if (memory->refs || memory->n_mappings)
		return;
	fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  (off_t)memory->offset, (off_t)memory->bytes);
	room_give(memory->location.type == CU_LOCATION_DEVICE ? memory->location.id : HOST_POOL,
		  memory->bytes);
	if (memory->object.id)
		object_remove(&memory->object);
	free(memory);
}

/* ---- calls ---- */

static int
allocation_check(enum call call, const struct cu_allocation *prop)
{
	const struct cu_location *location = &prop->location;
	int host = location->type == CU_LOCATION_HOST ||
		   location->type == CU_LOCATION_HOST_NUMA;

	if (the.settings.no_vmm || (host && the.settings.no_host_vmm))
		return violate(CU_ERROR_NOT_SUPPORTED, "%s: not supported here",
			       call_name(call));
	if (prop->type != CU_ALLOCATION_PINNED ||
	    (location->type != CU_LOCATION_DEVICE && !host) ||
	    (location->type == CU_LOCATION_HOST_NUMA && location->id != 0))
		return violate(CU_ERROR_INVALID_VALUE, "%s: type %d, location %d:%d",
			       call_name(call), prop->type, location->type, location->id);
	if (location->type == CU_LOCATION_DEVICE &&
	    (location->id < 0 || location->id >= the.settings.n_devices))
		return violate(CU_ERROR_INVALID_DEVICE, "%s: device %d", call_name(call),
			       location->id);
	return CU_SUCCESS;
}

int
cuMemGetAllocationGranularity(size_t *bytes, const struct cu_allocation *prop, int option)
{
	int code = call_enter(CALL_cuMemGetAllocationGranularity, NEEDS_INIT, NULL);

	if (!code)
		code = allocation_check(CALL_cuMemGetAllocationGranularity, prop);
	if (!code && option != CU_GRANULARITY_MINIMUM && option != CU_GRANULARITY_RECOMMENDED)
		code = violate(CU_ERROR_INVALID_VALUE,
			       "cuMemGetAllocationGranularity: option %d", option);
	if (!code)
		*bytes = GRANULE_BYTES;
	return code;
}

int
cuMemCreate(uint64_t *handle, size_t bytes, const struct cu_allocation *prop,
	    unsigned long long flags)
{
	int code = call_enter(CALL_cuMemCreate, NEEDS_VMM, NULL);
	struct memory *memory;

	if (!code)
		code = allocation_check(CALL_cuMemCreate, prop);
	if (code)
		return code;
	if (!is_granular(bytes) || flags)
		return violate(CU_ERROR_INVALID_VALUE,
			       "cuMemCreate: %zu bytes, flags %llx", bytes, flags);
	pthread_mutex_lock(&the.lock);
	memory = memory_new(bytes, &prop->location);
	if (memory) {
		memory->what = *prop;
		*handle = object_add(&memory->object, OBJECT_MEMORY);
		the.live.handles++;
	}
	pthread_mutex_unlock(&the.lock);
	if (memory && prop->location.type != CU_LOCATION_DEVICE)
		pin_delay(bytes);
	return memory ? CU_SUCCESS : CU_ERROR_OUT_OF_MEMORY;
}

/* A handle that the program still holds. */
struct memory *
memory_find(uint64_t handle)
{
	struct memory *memory = (struct memory *)object_find((void *)(uintptr_t)handle,
							     OBJECT_MEMORY);

	return memory && memory->refs ? memory : NULL;
}

int
cuMemRelease(uint64_t handle)
{
	int code = call_enter(CALL_cuMemRelease, NEEDS_VMM, NULL);
	struct memory *memory;

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	memory = memory_find(handle);
	if (memory) {
		the.live.handles--;
		memory->refs--;
		memory_put(memory);
	}
	pthread_mutex_unlock(&the.lock);
	return memory ? CU_SUCCESS
		      : violate(CU_ERROR_INVALID_VALUE, "cuMemRelease: no such handle %#llx",
				(unsigned long long)handle);
}

int
cuMemRetainAllocationHandle(uint64_t *handle, void *addr)
{
	int code = call_enter(CALL_cuMemRetainAllocationHandle, NEEDS_VMM, NULL);
	struct mapping *mapping;

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	mapping = mapping_at((uintptr_t)addr);
	if (mapping && mapping->memory->object.id) {
		mapping->memory->refs++;
		the.live.handles++;
		*handle = mapping->memory->object.id;
	} else {
		mapping = NULL;
	}
	pthread_mutex_unlock(&the.lock);
	return mapping ? CU_SUCCESS
		       : violate(CU_ERROR_INVALID_VALUE,
				 "cuMemRetainAllocationHandle: nothing mapped at %p", addr);
}

int
cuMemGetAllocationPropertiesFromHandle(struct cu_allocation *what, uint64_t handle)
{
	int code = call_enter(CALL_API, NEEDS_VMM, NULL);
	struct memory *memory;

	if (code)
		return code;
	pthread_mutex_lock(&the.lock);
	memory = memory_find(handle);
	if (memory)
		*what = memory->what;
	pthread_mutex_unlock(&the.lock);
	return memory ? CU_SUCCESS
		      : violate(CU_ERROR_INVALID_VALUE,
				"cuMemGetAllocationPropertiesFromHandle: no such handle");
}
