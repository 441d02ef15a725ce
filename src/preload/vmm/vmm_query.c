/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries about mapped memory of ours, and operations that need memory of the driver's: sharing
 * with other processes, groups of GPUs (multicast). The memory then becomes native (vmm.h).
 *
 * Answers are the driver's about such memory: an address is of its mapping, of no context, in no
 * pool.
 *
 * Threads: any; pl_vmm_lock.
 */
#include "preload/alloc/block.h"
#include "preload/api/api_vmm.h"
#include "preload/calls/foreign.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/streams/capture.h"
#include "preload/vmm/vmm.h"

/* ---- pointers ---- */

int
pl_vmm_view(uint64_t addr, struct pl_vmm_view *out)
{
	int (*current)(int *) = pl_real[SL_API_cuCtxGetDevice];
	struct pl_vmm_mapping *mapping;
	int here, is = 0;

	if (current(&here) || here < 0 || here >= (int)PL_GPUS_MAX)
		here = -1;
	sl_mutex_lock(&pl_vmm_lock);
	mapping = pl_vmm_mapping_find(addr);
	if (mapping && mapping->range && !mapping->range->native) {
		is = 1;
		*out = (struct pl_vmm_view){mapping->addr,
					    mapping->bytes,
					    mapping->id,
					    mapping->range->gpu->device,
					    mapping->handle->what.requested_handle,
					    here < 0 ? CU_ACCESS_NONE : mapping->access[here],
					    mapping->sync};
	} else if (mapping) {
		is = -1;
	}
	sl_mutex_unlock(&pl_vmm_lock);
	return is;
}

void
pl_vmm_sync_set(uint64_t addr, int sync)
{
	struct pl_vmm_mapping *mapping;

	sl_mutex_lock(&pl_vmm_lock);
	mapping = pl_vmm_mapping_find(addr);
	if (mapping)
		mapping->sync = sync;
	sl_mutex_unlock(&pl_vmm_lock);
}

/* ---- access ---- */

int
cuMemGetAccess(unsigned long long *flags, const struct cu_location *location, uint64_t addr)
{
	int (*get)(int *, int) = pl_real[SL_API_cuDeviceGet];
	struct pl_vmm_mapping *mapping;
	struct pl_vmm_range *range;
	int device, native, result = CU_ERROR_INVALID_VALUE;

	if (!pl_active() || !pl_maybe_ours(addr) || !flags || !location)
		return PL_REAL(cuMemGetAccess)(flags, location, addr);
	if (location->type == CU_LOCATION_DEVICE &&
	    (location->id < 0 || location->id >= (int)PL_GPUS_MAX ||
	     get(&device, location->id)))
		return CU_ERROR_INVALID_DEVICE;
	sl_mutex_lock(&pl_vmm_lock);
	range = pl_vmm_range_find(addr);
	mapping = range ? pl_vmm_mapping_find(addr) : NULL;
	native = range && range->native;
	if (mapping && !native) {
		*flags = location->type == CU_LOCATION_DEVICE
				 ? mapping->access[location->id]
				 : CU_ACCESS_NONE;
		result = CU_SUCCESS;
	}
	sl_mutex_unlock(&pl_vmm_lock);
	return native ? PL_REAL(cuMemGetAccess)(flags, location, addr) : result;
}

/* ---- handles ---- */

int
cuMemRetainAllocationHandle(uint64_t *handle, void *addr)
{
	uint64_t at = (uintptr_t)addr;
	struct pl_vmm_mapping *mapping;
	enum { OURS, DRIVERS, NOBODYS } whose = DRIVERS;
	int result;

	if (!pl_active() || !handle)
		return PL_REAL(cuMemRetainAllocationHandle)(handle, addr);
	sl_mutex_lock(&pl_vmm_lock);
	mapping = pl_vmm_mapping_find(at);
	if (mapping && mapping->handle) {
		whose = OURS;
		mapping->handle->refs++;
		*handle = mapping->handle->id;
	} else if (!mapping && pl_maybe_ours(at) && pl_gpu_of(at)) {
		whose = NOBODYS; /* the driver would tell of a chunk */
	}
	sl_mutex_unlock(&pl_vmm_lock);
	if (whose != DRIVERS)
		return whose == OURS ? CU_SUCCESS : CU_ERROR_INVALID_VALUE;
	result = PL_REAL(cuMemRetainAllocationHandle)(handle, addr);
	if (!result)
		pl_foreign_retained(*handle);
	return result;
}

int
cuMemGetAllocationPropertiesFromHandle(struct cu_allocation *what, uint64_t id)
{
	const struct pl_vmm_handle *handle;
	int result = CU_ERROR_INVALID_VALUE;

	if (!pl_active() || !pl_vmm_id_is_ours(id))
		return PL_REAL(cuMemGetAllocationPropertiesFromHandle)(what, id);
	sl_mutex_lock(&pl_vmm_lock);
	handle = pl_vmm_handle_find(id);
	if (handle && handle->refs && what) {
		*what = handle->what;
		result = CU_SUCCESS;
	}
	sl_mutex_unlock(&pl_vmm_lock);
	return result;
}

/* ---- what only the driver's memory can ---- */

/* The driver's handle of one of ours, made native. CUresult. */
static int
handle_native(uint64_t id, uint64_t *native)
{
	struct pl_vmm_handle *handle;
	int token = pl_capture_relax(), result = CU_ERROR_INVALID_VALUE;

	sl_mutex_lock(&pl_vmm_lock);
	handle = pl_vmm_handle_find(id);
	if (handle && handle->refs)
		result = pl_vmm_handle_nativize(handle);
	if (!result)
		*native = handle->native;
	sl_mutex_unlock(&pl_vmm_lock);
	pl_capture_restore(token);
	return result;
}

/* Whether the handle was made to be shared. */
static int
handle_is_shared(uint64_t id)
{
	const struct pl_vmm_handle *handle;
	int is;

	sl_mutex_lock(&pl_vmm_lock);
	handle = pl_vmm_handle_find(id);
	is = handle && handle->what.requested_handle;
	sl_mutex_unlock(&pl_vmm_lock);
	return is;
}

int
cuMemExportToShareableHandle(void *shared, uint64_t id, int type, unsigned long long flags)
{
	int result;

	if (pl_active() && pl_vmm_id_is_ours(id)) {
		if (!handle_is_shared(id))
			return CU_ERROR_INVALID_VALUE;
		result = handle_native(id, &id);
		if (result)
			return result;
	}
	return PL_REAL(cuMemExportToShareableHandle)(shared, id, type, flags);
}

int
cuMulticastBindMem(uint64_t group, size_t group_offset, uint64_t id, size_t offset,
		   size_t bytes, unsigned long long flags)
{
	int tries = 0, result;

	if (pl_active() && pl_vmm_id_is_ours(id)) {
		result = handle_native(id, &id);
		if (result)
			return result;
	}
	do
		result = PL_REAL(cuMulticastBindMem)(group, group_offset, id, offset,
						     bytes, flags);
	while (pl_room_made(result, &tries, PL_ROOM_BYTES));
	return result;
}

int
cuMulticastBindAddr(uint64_t group, size_t offset, uint64_t addr, size_t bytes,
		    unsigned long long flags)
{
	struct pl_vmm_range *range;
	int token, result = CU_SUCCESS;

	if (pl_active() && pl_maybe_ours(addr)) {
		token = pl_capture_relax();
		sl_mutex_lock(&pl_vmm_lock);
		range = pl_vmm_range_find(addr);
		if (range)
			result = pl_vmm_range_nativize(range);
		else if (pl_block_find(addr))
			result = CU_ERROR_INVALID_VALUE;
		sl_mutex_unlock(&pl_vmm_lock);
		pl_capture_restore(token);
		if (result)
			return result;
	}
	return PL_REAL(cuMulticastBindAddr)(group, offset, addr, bytes, flags);
}
