/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the program makes by cuMemCreate() and maps itself, served by the library (vmm.h).
 * It is plain device memory on a GPU with a space, which is not shared with other processes, or
 * not yet if the settings say so. The rest is the driver's, and counted (foreign.c). The
 * driver's memory may be mapped in our reservation, or ours in the driver's. Then the affected
 * objects are made native first.
 *
 * The addresses of a reservation are decided before its use is known. They are ours, unless the
 * thread has just made memory of the driver's. A library that maps for sharing makes the memory
 * first; our addresses would only have to be given up. A request for other addresses than ours
 * goes to the driver.
 *
 * Errors are those of the driver, as it was seen to return them. A handle is mapped whole, at a
 * multiple of 2 MiB, where nothing is mapped. An unmapped range cuts no mapping. Access is given
 * to whole mappings.
 *
 * Threads: any.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/fault_point.h"
#include "preload/alloc/arena_internal.h"
#include "preload/alloc/extent.h"
#include "preload/api/api_stream.h"
#include "preload/api/api_vmm.h"
#include "preload/calls/foreign.h"
#include "preload/gpu.h"
#include "preload/loader/settings.h"
#include "preload/preload.h"
#include "preload/report/announce.h"
#include "preload/report/counters.h"
#include "preload/streams/capture.h"
#include "preload/vmm/vmm.h"
#include "sluice/sluice.h"

/* The thread's last handle was the driver's. */
static _Thread_local int made_native __attribute__((tls_model("initial-exec")));

static bool
is_served(void)
{
	return pl_active() && pl_settings()->mapped != PL_MAPPED_DRIVER;
}

static bool
is_granular(uint64_t n)
{
	return n && n % PL_GRANULE_BYTES == 0;
}

/* The GPU of this number, with a space; made if the thread's context is of it. NULL: none. */
static struct pl_gpu *
gpu_find(int device)
{
	int (*current)(int *) = pl_real[SL_API_cuCtxGetDevice];
	struct pl_gpu *gpu = pl_gpu_of_device(device);
	int here;

	pl_enter();
	if (!gpu && !current(&here) && (device < 0 || here == device))
		gpu = pl_gpu_current();
	pl_leave();
	return gpu;
}

/* ---- reservations ---- */

/* 1: done. 0: the driver's. */
static int
reserve(uint64_t *addr, size_t bytes, size_t align_bytes)
{
	struct pl_gpu *gpu = gpu_find(-1);
	struct pl_vmm_range *range = gpu ? sl_calloc(1, sizeof(*range)) : NULL;
	int rc;

	if (!range)
		return 0;
	sl_mutex_lock(&pl_vmm_lock);
	rc = pl_room_take(gpu, bytes, align_bytes, range);
	if (!rc && !pl_vmm_range_add(range)) {
		pl_room_put(range);
		rc = -ENOMEM;
	}
	sl_mutex_unlock(&pl_vmm_lock);
	if (rc) {
		free(range);
		return 0;
	}
	*addr = range->base;
	return 1;
}

int
cuMemAddressReserve(uint64_t *addr, size_t bytes, size_t align_bytes, uint64_t wish,
		    unsigned long long flags)
{
	if (is_served() && addr && is_granular(bytes) && !flags && !made_native &&
	    !(align_bytes & (align_bytes - 1)) && (!wish || pl_maybe_ours(wish)) &&
	    reserve(addr, bytes, align_bytes))
		return CU_SUCCESS;
	return PL_REAL(cuMemAddressReserve)(addr, bytes, align_bytes, wish, flags);
}

int
cuMemAddressFree(uint64_t addr, size_t bytes)
{
	struct pl_vmm_range *range;
	int result = CU_ERROR_INVALID_VALUE;

	if (!pl_active() || !pl_maybe_ours(addr))
		return PL_REAL(cuMemAddressFree)(addr, bytes);
	sl_mutex_lock(&pl_vmm_lock);
	range = pl_vmm_range_find(addr);
	if (range && range->base == addr && range->bytes == bytes &&
	    !pl_vmm_mapping_in(addr, bytes)) {
		pl_vmm_range_put(range);
		result = CU_SUCCESS;
	}
	sl_mutex_unlock(&pl_vmm_lock);
	return result;
}

/* ---- handles ---- */

static void
rdma_say(const struct cu_allocation *what)
{
	static _Atomic int told;

	if (what->gpu_direct_rdma && !atomic_exchange(&told, 1))
		pl_note("GPU %d: memory that network cards are to reach (GPUDirect RDMA) "
			"is "
			"paged, they cannot reach it: --vmm-memory driver leaves it to "
			"the "
			"driver",
			what->location.id);
}

/* The GPU that serves this memory. NULL: the driver does, or refuses it. */
static struct pl_gpu *
vmm_serving_gpu(const uint64_t *handle, size_t bytes, const struct cu_allocation *what,
		unsigned long long flags)
{
	int (*granularity)(size_t *, const struct cu_allocation *,
			   int) = pl_real[SL_API_cuMemGetAllocationGranularity];
	size_t granule;

	if (!is_served() || !handle || !what || flags || !is_granular(bytes) ||
	    what->type != CU_ALLOCATION_PINNED ||
	    what->location.type != CU_LOCATION_DEVICE || what->location.id < 0 ||
	    what->usage || (what->requested_handle && pl_mapped() != PL_MAPPED_ALL) ||
	    granularity(&granule, what, CU_GRANULARITY_MINIMUM) || granule > PL_GRANULE_BYTES)
		return NULL;
	return gpu_find(what->location.id);
}

static int
create(struct pl_gpu *gpu, uint64_t *handle, size_t bytes, const struct cu_allocation *what)
{
	struct pl_arena *arena = pl_arena_get(gpu);
	struct pl_vmm_handle *new = arena ? sl_calloc(1, sizeof(*new)) : NULL;
	int added;

	if (!new)
		return CU_ERROR_OUT_OF_MEMORY;
	if (pl_arena_limit_take(arena, bytes)) {
		free(new);
		return CU_ERROR_OUT_OF_MEMORY;
	}
	new->gpu = gpu;
	new->bytes = bytes;
	new->what = *what;
	new->what.compression = 0; /* a wish, and what came of it */
	new->refs = 1;
	sl_mutex_lock(&pl_vmm_lock);
	added = pl_vmm_handle_add(new);
	if (added)
		*handle = new->id;
	sl_mutex_unlock(&pl_vmm_lock);
	if (!added) {
		atomic_fetch_sub(&gpu->allocated_bytes, bytes);
		free(new);
		return CU_ERROR_OUT_OF_MEMORY;
	}
	PL_COUNT(allocations, 1);
	PL_COUNT(mapped, 1);
	pl_arena_announce(gpu);
	rdma_say(what);
	return CU_SUCCESS;
}

int
cuMemCreate(uint64_t *handle, size_t bytes, const struct cu_allocation *what,
	    unsigned long long flags)
{
	struct pl_gpu *gpu = vmm_serving_gpu(handle, bytes, what, flags);
	int result;

	made_native = 0;
	if (gpu)
		return create(gpu, handle, bytes, what);
	result = pl_foreign_create(handle, bytes, what, flags);
	made_native = !result;
	return result;
}

int
cuMemRelease(uint64_t id)
{
	struct pl_vmm_handle *handle;
	int result = CU_ERROR_INVALID_VALUE;

	if (!pl_active() || !pl_vmm_id_is_ours(id))
		return pl_foreign_release(id);
	sl_mutex_lock(&pl_vmm_lock);
	handle = pl_vmm_handle_find(id);
	if (handle && handle->refs) {
		result = CU_SUCCESS;
		handle->refs--;
		if (!handle->refs && !handle->mappings)
			pl_vmm_handle_free(handle);
	}
	sl_mutex_unlock(&pl_vmm_lock);
	return result;
}

/* ---- mapping ---- */

/* What the call maps where, as far as it is ours. */
struct target {
	uint64_t addr, bytes;
	struct pl_vmm_range *range;   /* NULL: of the driver's */
	struct pl_vmm_handle *handle; /* the same */
};

/* The driver's answer to what cannot be mapped. */
PL_VMM_HELD static int
target_check(const struct target *t, size_t offset, unsigned long long flags)
{
	if (!t->bytes || flags || t->addr % PL_GRANULE_BYTES)
		return CU_ERROR_INVALID_VALUE;
	if (t->handle && (offset || t->bytes != t->handle->bytes))
		return CU_ERROR_NOT_SUPPORTED;
	if (t->range && t->bytes > t->range->base + t->range->bytes - t->addr)
		return CU_ERROR_INVALID_VALUE;
	return pl_vmm_mapping_in(t->addr, t->bytes) ? CU_ERROR_INVALID_VALUE : CU_SUCCESS;
}

/* Both sides ours, and nothing that would need the driver. */
static bool
target_is_paged(const struct target *t)
{
	return t->handle && t->range && !t->handle->native && !t->handle->mappings &&
	       !t->range->native && t->range->gpu == t->handle->gpu;
}

/* Note the mapping, before it is made. NULL: no memory. */
PL_VMM_HELD static struct pl_vmm_mapping *
mapping_new(const struct target *t)
{
	struct pl_vmm_mapping *mapping = sl_calloc(1, sizeof(*mapping));

	if (!mapping)
		return NULL;
	mapping->addr = t->addr;
	mapping->bytes = t->bytes;
	mapping->range = t->range;
	mapping->handle = t->handle;
	if (pl_vmm_mapping_add(mapping)) {
		if (t->handle)
			t->handle->mappings++;
		return mapping;
	}
	free(mapping);
	return NULL;
}

PL_VMM_HELD static void
mapping_free(struct pl_vmm_mapping *mapping)
{
	pl_vmm_mapping_remove(mapping);
	if (mapping->handle)
		mapping->handle->mappings--;
	free(mapping);
}

PL_VMM_HELD static int
map_paged(const struct target *t)
{
	struct pl_vmm_handle *handle = t->handle;
	const struct pl_vmm_handle *stays = handle->home == t->addr ? handle : NULL;
	struct pl_vmm_mapping *mapping = mapping_new(t);
	int result;

	if (!mapping)
		return CU_ERROR_OUT_OF_MEMORY;
	result = pl_vmm_homes_clear(t->addr, t->bytes, stays);
	if (!result && handle->home && !stays)
		result = pl_vmm_home_move(handle, t->addr, t->range);
	if (result) {
		mapping_free(mapping);
		if (!stays)
			pl_room_drop(t->range, t->addr, t->bytes, pl_vmm_in_use);
		return result;
	}
	if (stays)
		pl_vmm_home_remove(handle);
	handle->mapping = mapping;
	return CU_SUCCESS;
}

/* The driver maps: its handle, or a handle of ours that it has made. */
PL_VMM_HELD static int
map_native(const struct target *t, size_t offset, uint64_t id, unsigned long long flags)
{
	struct pl_vmm_mapping *mapping = NULL;
	int tries = 0, result = CU_SUCCESS;

	if (t->handle)
		result = pl_vmm_handle_nativize(t->handle);
	if (!result && t->range)
		result = pl_vmm_range_nativize(t->range);
	if (!result) {
		mapping = mapping_new(t);
		result = mapping ? CU_SUCCESS : CU_ERROR_OUT_OF_MEMORY;
	}
	if (result)
		return result;
	if (!t->handle)
		result = pl_foreign_map(t->addr, t->bytes, offset, id, flags);
	else
		do
			result = PL_REAL(cuMemMap)(t->addr, t->bytes, offset,
						   t->handle->native, flags);
		while (pl_room_made(result, &tries, PL_ROOM_BYTES));
	if (result)
		mapping_free(mapping);
	return result;
}

int
cuMemMap(uint64_t addr, size_t bytes, size_t offset, uint64_t id, unsigned long long flags)
{
	struct target t = {.addr = addr, .bytes = bytes};
	int ours = pl_vmm_id_is_ours(id), token, result;

	if (!pl_active() || (!ours && !pl_maybe_ours(addr)))
		return pl_foreign_map(addr, bytes, offset, id, flags);
	token = pl_capture_relax();
	sl_mutex_lock(&pl_vmm_lock);
	t.range = pl_vmm_range_find(addr);
	t.handle = ours ? pl_vmm_handle_find(id) : NULL;
	if ((ours && (!t.handle || !t.handle->refs)) || (!t.range && pl_maybe_ours(addr)))
		result = CU_ERROR_INVALID_VALUE;
	else
		result = target_check(&t, offset, flags);
	if (!result)
		result = target_is_paged(&t) ? map_paged(&t)
					     : map_native(&t, offset, id, flags);
	sl_mutex_unlock(&pl_vmm_lock);
	pl_capture_restore(token);
	return result;
}

/* ---- unmapping ---- */

/* Whether [addr, addr + bytes) is of whole mappings; with holes, if those may be. */
PL_VMM_HELD static int
range_is_whole(uint64_t addr, uint64_t bytes, int holes)
{
	uint64_t at = addr, end = addr + bytes;

	while (at < end) {
		const struct pl_vmm_mapping *mapping = pl_vmm_mapping_in(at, end - at);

		if (!mapping)
			return holes;
		if (mapping->addr < at || (mapping->addr > at && !holes) ||
		    mapping->bytes > end - mapping->addr)
			return 0;
		at = mapping->addr + mapping->bytes;
	}
	return 1;
}

/* Contents stay at home where they are, until it is known that nobody wants them. */
PL_VMM_HELD static int
homes_make(struct pl_vmm_range *range, uint64_t addr, uint64_t end)
{
	const struct pl_vmm_mapping *mapping;
	uint64_t at = addr;
	int result = CU_SUCCESS;

	while (!result && (mapping = pl_vmm_mapping_in(at, end - at))) {
		result = pl_vmm_home_set(mapping->handle, mapping->addr, range);
		at = result ? mapping->addr : mapping->addr + mapping->bytes;
	}
	if (!result && pl_room_hide(range, addr, end - addr)) {
		result = CU_ERROR_OUT_OF_MEMORY;
		at = end;
	}
	if (!result)
		return result;
	while ((mapping = pl_vmm_mapping_in(addr, at - addr))) {
		pl_vmm_home_remove(mapping->handle);
		addr = mapping->addr + mapping->bytes;
	}
	return result;
}

PL_VMM_HELD static void
mapping_end(struct pl_vmm_mapping *mapping)
{
	struct pl_vmm_handle *handle = mapping->handle;

	mapping_free(mapping);
	if (!handle)
		return;
	handle->mapping = NULL;
	if (!handle->refs && !handle->mappings)
		pl_vmm_handle_free(handle);
}

PL_VMM_HELD static int
unmap(struct pl_vmm_range *range, uint64_t addr, uint64_t bytes)
{
	if (!is_granular(bytes) || addr % PL_GRANULE_BYTES ||
	    bytes > range->base + range->bytes - addr || !range_is_whole(addr, bytes, 1))
		return CU_ERROR_INVALID_VALUE;
	return range->native ? pl_foreign_unmap(addr, bytes)
			     : homes_make(range, addr, addr + bytes);
}

int
cuMemUnmap(uint64_t addr, size_t bytes)
{
	int ours = pl_active() && pl_maybe_ours(addr), token, result;
	struct pl_vmm_mapping *mapping;
	struct pl_vmm_range *range;

	if (!ours) { /* but a handle of ours may be mapped there, a native one */
		result = pl_foreign_unmap(addr, bytes);
		if (result || !pl_active())
			return result;
	}
	token = pl_capture_relax();
	sl_mutex_lock(&pl_vmm_lock);
	if (ours) {
		range = pl_vmm_range_find(addr);
		result = range ? unmap(range, addr, bytes) : CU_ERROR_INVALID_VALUE;
	}
	while (!result && (mapping = pl_vmm_mapping_in(addr, bytes)))
		mapping_end(mapping);
	sl_mutex_unlock(&pl_vmm_lock);
	pl_capture_restore(token);
	return result;
}

/* ---- access ---- */

static int
access_check(const struct cu_access *access)
{
	int (*get)(int *, int) = pl_real[SL_API_cuDeviceGet];
	int device;

	if (access->flags != CU_ACCESS_NONE && access->flags != CU_ACCESS_READ &&
	    access->flags != CU_ACCESS_READ_WRITE)
		return CU_ERROR_INVALID_VALUE;
	switch (access->location.type) {
	case CU_LOCATION_DEVICE:
		return access->location.id < 0 || access->location.id >= (int)PL_GPUS_MAX ||
				       get(&device, access->location.id)
			       ? CU_ERROR_INVALID_VALUE
			       : CU_SUCCESS;
	case CU_LOCATION_HOST:
	case CU_LOCATION_HOST_NUMA:
	case CU_LOCATION_HOST_NUMA_CURRENT:
		return CU_ERROR_NOT_SUPPORTED; /* it is device memory */
	}
	return CU_ERROR_INVALID_VALUE;
}

static void
peer_say(const struct pl_gpu *gpu)
{
	static _Atomic int told;

	if (!atomic_exchange(&told, 1))
		pl_note("GPU %d: kernels of other GPUs are given access to memory that "
			"is "
			"paged, and cannot reach it: copies can (--vmm-memory driver "
			"leaves "
			"it to "
			"the driver)",
			gpu->device);
}

/* One row of a set-access on one mapping. */
PL_VMM_HELD static int
access_apply(struct pl_vmm_mapping *mapping, const struct cu_access *access)
{
	struct pl_vmm_range *range = mapping->range;
	unsigned char *now = &mapping->access[access->location.id];
	int rc = 0;

	if (access->location.id != range->gpu->device) {
		if (access->flags)
			peer_say(range->gpu);
	} else if (access->flags && !*now) {
		rc = pl_room_show(range, mapping->addr, mapping->bytes);
	} else if (!access->flags && *now) {
		rc = pl_room_hide(range, mapping->addr, mapping->bytes);
	}
	if (rc)
		return CU_ERROR_OUT_OF_MEMORY;
	*now = (unsigned char)access->flags;
	return CU_SUCCESS;
}

PL_VMM_HELD static int
access_set(struct pl_vmm_range *range, uint64_t addr, uint64_t bytes,
	   const struct cu_access *access, size_t n)
{
	struct pl_vmm_mapping *mapping;
	int result = CU_SUCCESS;

	if (!bytes || !access || !n || bytes > range->base + range->bytes - addr ||
	    !range_is_whole(addr, bytes, 0))
		return CU_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n && !result; i++)
		result = access_check(&access[i]);
	for (uint64_t at = addr; at < addr + bytes && !result; at += mapping->bytes) {
		mapping = pl_vmm_mapping_find(at);
		for (size_t i = 0; i < n && !result; i++)
			result = access_apply(mapping, &access[i]);
	}
	return result;
}

static int
access_native(uint64_t addr, size_t bytes, const struct cu_access *access, size_t n)
{
	int tries = 0, result;

	do
		result = PL_REAL(cuMemSetAccess)(addr, bytes, access, n);
	while (pl_room_made(result, &tries, PL_ROOM_BYTES));
	return result;
}

/* Of the driver's memory in a reservation of ours: whether host code has a view of its own there now. */
static void
keep_note(uint64_t addr, const struct cu_access *access, size_t n)
{
	struct pl_vmm_range *range;
	int host = 0;

	for (size_t i = 0; i < n; i++)
		host |= access[i].location.type != CU_LOCATION_DEVICE;
	sl_mutex_lock(&pl_vmm_lock);
	range = pl_vmm_range_find(addr);
	if (range)
		range->keep |= host;
	sl_mutex_unlock(&pl_vmm_lock);
}

int
cuMemSetAccess(uint64_t addr, size_t bytes, const struct cu_access *access, size_t n)
{
	struct pl_vmm_range *range = NULL;
	struct pl_gpu *gpu;
	struct pl_area *area;
	int token, zone, result, rc = 0;

	if (!pl_active() || !pl_maybe_ours(addr))
		return access_native(addr, bytes, access, n);
	sl_mutex_lock(&pl_vmm_lock);
	range = pl_vmm_range_find(addr);
	if (range && range->native) {
		sl_mutex_unlock(&pl_vmm_lock);
		result = access_native(addr, bytes, access, n);
		if (!result)
			keep_note(addr, access, n);
		return result;
	}
	token = pl_capture_relax();
	result = range ? access_set(range, addr, bytes, access, n) : CU_ERROR_INVALID_VALUE;
	gpu = range ? range->gpu : NULL; /* it may go when it is not locked; these stay */
	area = range ? range->area : NULL;
	zone = range ? range->zone : 0;
	sl_mutex_unlock(&pl_vmm_lock);
	if (!result)
		rc = pl_room_populate(gpu, zone, area, addr, bytes);
	pl_capture_restore(token);
	if (rc) {
		pl_error("GPU %d: memory at 0x%llx: %s", gpu->device,
			 (unsigned long long)addr, sluice_last_error());
		return CU_ERROR_UNKNOWN;
	}
	return result;
}
