/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of the program's handles that must move, and handles and reservations that become the
 * driver's (vmm.h). Contents are copied a chunk at a time, each with a scope of its own. So
 * memory of any size can be moved with little room on the device. It is rare, and slow.
 *
 * A reservation becomes native in two steps. First each handle with contents in it gets memory
 * of the driver's and a copy. If that fails, nothing has changed. Then its blocks go, the core's
 * chunks leave, and the driver maps. A failure there is reported on stderr.
 *
 * Locks: pl_vmm_lock is held. Copies of mapped contents wait for the device, since kernels may
 * still use them.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/fault_point.h"
#include "preload/api/api_copy.h"
#include "preload/api/api_vmm.h"
#include "preload/api/api_wait.h"
#include "preload/calls/foreign.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/streams/stream_internal.h"
#include "preload/vmm/vmm.h"
#include "sluice/sluice.h"

#define PIECE_BYTES PL_GRANULE_BYTES /* of a copy: never in two chunks */

static int
result_of(int rc)
{
	if (!rc)
		return CU_SUCCESS;
	pl_error("%s", sluice_last_error());
	return rc == -ENOMEM || rc == -ENOBUFS || rc == -ENOSPC ? CU_ERROR_OUT_OF_MEMORY
								: CU_ERROR_UNKNOWN;
}

/* ---- contents ---- */

bool
pl_vmm_in_use(uint64_t addr, uint64_t bytes)
{
	return pl_vmm_mapping_in(addr, bytes) || pl_vmm_home_in(addr, bytes);
}

/* One piece; from is paged, to is if it is ours. 0 or -errno. */
static int
handle_piece_copy(struct pl_gpu *gpu, struct sluice_stream *stream, uint64_t to, uint64_t from)
{
	const struct sluice_use uses[] = {
		{(void *)(uintptr_t)from, PIECE_BYTES, SLUICE_USE_READ},
		{(void *)(uintptr_t)to, PIECE_BYTES, SLUICE_USE_WRITE},
	};
	int to_paged = to >= gpu->base && to < gpu->end;
	struct sluice_launch *launch;
	int result, rc = sluice_launch_begin(gpu->space, stream, uses, to_paged ? 2 : 1,
					     &launch);

	if (rc)
		return rc;
	result = PL_REAL(cuMemcpyDtoDAsync_v2)(to, from, PIECE_BYTES,
					       sluice_stream_native(gpu->space, stream));
	sluice_launch_end(launch);
	return result ? sl_fail(-EIO, "GPU %d: memory at 0x%llx cannot be copied (error %d)",
				gpu->device, (unsigned long long)from, result)
		      : 0;
}

/* CUresult. Waits for the copy. */
static int
contents_copy(struct pl_gpu *gpu, uint64_t to, uint64_t from, uint64_t bytes)
{
	struct sluice_stream *stream = NULL;
	int pushed, done, rc;

	pl_enter();
	pushed = pl_context_push(gpu->context);
	rc = sluice_stream_create(gpu->space, &stream);
	for (uint64_t at = 0; at < bytes && !rc; at += PIECE_BYTES)
		rc = handle_piece_copy(gpu, stream, to + at, from + at);
	done = stream ? sluice_stream_synchronize(gpu->space, stream) : 0;
	sluice_stream_destroy(stream);
	pl_context_pop(pushed);
	pl_leave();
	return result_of(rc ? rc : done);
}

int
pl_vmm_home_set(struct pl_vmm_handle *handle, uint64_t addr, struct pl_vmm_range *range)
{
	handle->home = addr;
	handle->home_range = range;
	if (pl_vmm_home_add(handle))
		return CU_SUCCESS;
	handle->home = 0;
	handle->home_range = NULL;
	return CU_ERROR_OUT_OF_MEMORY;
}

void
pl_vmm_home_drop(struct pl_vmm_handle *handle)
{
	struct pl_vmm_range *range = handle->home_range;
	uint64_t home = handle->home;

	if (!home)
		return;
	pl_vmm_home_remove(handle);
	pl_room_drop(range, home, handle->bytes, pl_vmm_in_use);
	if (range->freed)
		pl_vmm_range_put(range);
}

int
pl_vmm_home_move(struct pl_vmm_handle *handle, uint64_t addr, struct pl_vmm_range *range)
{
	int rc, result;

	pl_enter();
	rc = pl_room_populate(range->gpu, range->zone, range->area, addr, handle->bytes);
	pl_leave();
	result = result_of(rc);
	if (!result)
		result = contents_copy(handle->gpu, addr, handle->home, handle->bytes);
	if (!result)
		pl_vmm_home_drop(handle);
	return result;
}

void
pl_vmm_range_put(struct pl_vmm_range *range)
{
	range->freed = 1;
	if (pl_vmm_home_in(range->base, range->bytes))
		return;
	pl_vmm_range_remove(range);
	pl_room_put(range);
	free(range);
}

/* A home in a reservation that nobody has. */
PL_VMM_HELD static int
home_park(struct pl_vmm_handle *handle)
{
	struct pl_vmm_range *range = sl_calloc(1, sizeof(*range));
	int rc = range ? pl_room_take(handle->gpu, handle->bytes, 0, range) : -ENOMEM;
	int result;

	if (rc) {
		free(range);
		return CU_ERROR_OUT_OF_MEMORY;
	}
	range->freed = 1;
	if (!pl_vmm_range_add(range)) {
		pl_room_put(range);
		free(range);
		return CU_ERROR_OUT_OF_MEMORY;
	}
	result = pl_vmm_home_move(handle, range->base, range);
	if (!result)
		result = pl_vmm_home_set(handle, range->base, range);
	if (result) {
		pl_room_drop(range, range->base, handle->bytes, pl_vmm_in_use);
		pl_vmm_range_put(range);
	}
	return result;
}

int
pl_vmm_homes_clear(uint64_t addr, uint64_t bytes, const struct pl_vmm_handle *except)
{
	uint64_t end = addr + bytes;

	while (addr < end) {
		struct pl_vmm_handle *handle = pl_vmm_home_in(addr, end - addr);
		int result;

		if (!handle)
			break;
		addr = handle->home + handle->bytes;
		result = handle == except ? CU_SUCCESS : home_park(handle);
		if (result)
			return result;
	}
	return CU_SUCCESS;
}

/* ---- the driver's ---- */

void
pl_vmm_handle_free(struct pl_vmm_handle *handle)
{
	if (handle->native) {
		(void)PL_REAL(cuMemRelease)(handle->native);
		pl_gpu_foreign(handle->gpu, -(int64_t)handle->bytes);
	} else {
		pl_vmm_home_drop(handle);
		atomic_fetch_sub(&handle->gpu->allocated_bytes, handle->bytes);
	}
	PL_COUNT(frees, 1);
	pl_vmm_handle_remove(handle);
	free(handle);
}

/* Map the driver's memory at addr, for the GPU to use. CUresult; nothing is mapped after an error. */
static int
native_map(uint64_t addr, uint64_t bytes, uint64_t native, const struct cu_access *access,
	   size_t n)
{
	int tries = 0, result;

	do
		result = PL_REAL(cuMemMap)(addr, bytes, 0, native, 0);
	while (pl_room_made(result, &tries, PL_ROOM_BYTES));
	if (result || !n)
		return result;
	do
		result = PL_REAL(cuMemSetAccess)(addr, bytes, access, n);
	while (pl_room_made(result, &tries, PL_ROOM_BYTES));
	if (result)
		(void)PL_REAL(cuMemUnmap)(addr, bytes);
	return result;
}

/* Copy paged contents to the driver's memory, which is mapped aside for that. */
static int
native_fill(const struct pl_vmm_handle *handle, uint64_t native, uint64_t from)
{
	const struct cu_access access = {.location = handle->what.location,
					 .flags = CU_ACCESS_READ_WRITE};
	uint64_t aside;
	int result = PL_REAL(cuMemAddressReserve)(&aside, handle->bytes, 0, 0, 0);

	if (result)
		return result;
	result = native_map(aside, handle->bytes, native, &access, 1);
	if (!result) {
		result = contents_copy(handle->gpu, aside, from, handle->bytes);
		(void)PL_REAL(cuMemUnmap)(aside, handle->bytes);
	}
	(void)PL_REAL(cuMemAddressFree)(aside, handle->bytes);
	return result;
}

/* Memory of the driver's for the handle, with its contents, which lie at from; 0: it has none. */
static int
native_make(const struct pl_vmm_handle *handle, uint64_t from, uint64_t *native)
{
	int tries = 0, result;

	do
		result = PL_REAL(cuMemCreate)(native, handle->bytes, &handle->what, 0);
	while (pl_room_made(result, &tries, handle->bytes));
	if (result)
		return result;
	result = from ? native_fill(handle, *native, from) : CU_SUCCESS;
	if (result)
		(void)PL_REAL(cuMemRelease)(*native);
	return result;
}

/* Its memory is the driver's from here on. */
PL_VMM_HELD static void
native_become(struct pl_vmm_handle *handle, uint64_t native)
{
	static _Atomic int told;

	pl_vmm_home_drop(handle);
	handle->native = native;
	handle->mapping = NULL;
	atomic_fetch_sub(&handle->gpu->allocated_bytes, handle->bytes);
	pl_gpu_foreign(handle->gpu, (int64_t)handle->bytes);
	PL_COUNT(mapped_native, 1);
	if (!atomic_exchange(&told, 1))
		pl_note("GPU %d: memory that the program maps at two places, or shares, "
			"must "
			"be the driver's: it is not paged",
			handle->gpu->device);
}

int
pl_vmm_handle_nativize(struct pl_vmm_handle *handle)
{
	uint64_t native;
	int result;

	if (handle->native)
		return CU_SUCCESS;
	if (handle->mapping)
		return pl_vmm_range_nativize(handle->mapping->range);
	result = native_make(handle, handle->home, &native);
	if (!result)
		native_become(handle, native);
	return result;
}

/* Handles with contents in a reservation that is to be native. */
struct convert {
	struct pl_vmm_handle *handle;
	struct pl_vmm_mapping *mapping; /* NULL: it is at home there */
	uint64_t native;
};

/* All of them, in *out (malloc'ed), their number in *n. CUresult. */
PL_VMM_HELD static int
converts_collect(const struct pl_vmm_range *range, struct convert **out, size_t *n)
{
	const uint64_t end = range->base + range->bytes;
	struct convert *list = sl_calloc(range->bytes / PL_GRANULE_BYTES, sizeof(*list));
	struct pl_vmm_mapping *mapping;
	struct pl_vmm_handle *handle;

	*n = 0;
	*out = list;
	if (!list)
		return CU_ERROR_OUT_OF_MEMORY;
	for (uint64_t at = range->base; (mapping = pl_vmm_mapping_in(at, end - at));
	     at = mapping->addr + mapping->bytes)
		list[(*n)++] = (struct convert){mapping->handle, mapping, 0};
	for (uint64_t at = range->base; (handle = pl_vmm_home_in(at, end - at));
	     at = handle->home + handle->bytes)
		list[(*n)++] = (struct convert){handle, NULL, 0};
	return CU_SUCCESS;
}

/* The driver maps it as it was mapped by us. */
static int
mapping_restore(const struct pl_vmm_mapping *mapping)
{
	struct cu_access access[PL_GPUS_MAX];
	size_t n = 0;

	for (int i = 0; i < (int)PL_GPUS_MAX; i++)
		if (mapping->access[i])
			access[n++] = (struct cu_access){.location = {.type = CU_LOCATION_DEVICE,
								      .id = i},
							 .flags = mapping->access[i]};
	return native_map(mapping->addr, mapping->bytes, mapping->handle->native, access, n);
}

/* Contents are copied: the reservation is the driver's. */
PL_VMM_HELD static int
range_switch(struct pl_vmm_range *range, const struct convert *list, size_t n)
{
	int result, first, rc;

	sl_ignore(pl_room_hide(range, range->base, range->bytes)); /* whole blocks */
	for (size_t i = 0; i < n; i++)
		native_become(list[i].handle, list[i].native);
	rc = pl_room_empty(range);
	if (rc)
		rc = pl_room_empty(range); /* there is no way back: contents are where they go */
	range->keep = rc != 0;
	range->native = 1;
	first = result_of(rc);
	for (size_t i = 0; i < n; i++) {
		result = list[i].mapping && !first ? mapping_restore(list[i].mapping)
						   : CU_SUCCESS;
		if (result)
			pl_error("GPU %d: %llu bytes at 0x%llx cannot be mapped again "
				 "(error "
				 "%d): the program will fault there",
				 range->gpu->device,
				 (unsigned long long)list[i].mapping->bytes,
				 (unsigned long long)list[i].mapping->addr, result);
		first = first ? first : result;
	}
	return first;
}

int
pl_vmm_range_nativize(struct pl_vmm_range *range)
{
	struct convert *list;
	size_t n = 0, made = 0;
	int pushed, result;

	if (range->native)
		return CU_SUCCESS;
	result = converts_collect(range, &list, &n);
	pushed = pl_context_push(range->gpu->context);
	if (!result && n)
		result = pl_gpu_drain(range->gpu); /* kernels may use them */
	while (!result && made < n) {
		const struct convert *at = &list[made];
		uint64_t from = at->mapping ? at->mapping->addr : at->handle->home;

		result = native_make(at->handle, from, &list[made].native);
		made += !result;
	}
	if (!result)
		result = range_switch(range, list, n);
	else
		while (made--)
			(void)PL_REAL(cuMemRelease)(list[made].native);
	pl_context_pop(pushed);
	free(list);
	return result;
}
