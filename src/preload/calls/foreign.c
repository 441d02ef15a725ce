/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that the program allocates outside the library: the driver's physical memory
 * (not served by vmm.c), and arrays. The calls are forwarded, and existing memory is counted. If
 * the driver has none left, our budget shrinks. Physical memory lives until its handles are
 * released and its mappings gone, so both are followed.
 *
 * Not counted: memory shared by another process, arrays whose description is of the first ABI,
 * and the driver's own allocations. Arrays are counted by their description, without the
 * driver's padding.
 *
 * Threads: any. A set of ranges has its own lock. A program that releases and maps the same
 * handle at the same time has no order to rely on.
 */
#include "preload/calls/foreign.h"
#include "preload/gpu.h"
#include "preload/preload.h"

#include "preload/api/api_foreign.h"
#include "preload/api/api_stream.h"
#include "preload/api/api_vmm.h"
#include "preload/calls/ranges.h"

/* Keyed by handle. owner: device + 1; value: uses (handles and mappings). bytes of a range is 1,
 * so the size stands in a second set under the same key. */
static struct pl_ranges handles = PL_RANGES_INITIALIZER;
static struct pl_ranges sizes = PL_RANGES_INITIALIZER;    /* value: bytes */
static struct pl_ranges mappings = PL_RANGES_INITIALIZER; /* owner: the handle */
static struct pl_ranges arrays = PL_RANGES_INITIALIZER; /* owner: device + 1, value: bytes */

static void
foreign_add(int device, int64_t bytes)
{
	pl_gpu_foreign(pl_gpu_of_device(device), bytes);
}

/* ---- physical memory ---- */

static void
handle_note(uint64_t handle, int device, uint64_t bytes)
{
	if (!pl_ranges_add(&sizes, (struct pl_range){handle, 1, 0, bytes}))
		return;
	/* Without a space its budget is not made yet, from what is free then. */
	if (!pl_ranges_add(&handles,
			   (struct pl_range){handle, 1,
					     pl_gpu_of_device(device) ? (uint64_t)device + 1 : 0,
					     1})) {
		(void)pl_ranges_take(&sizes, handle, NULL);
		return;
	}
	foreign_add(device, (int64_t)bytes);
}

static void
handle_put(uint64_t handle)
{
	struct pl_range range, size;

	if (!pl_ranges_change(&handles, handle, -1, &range) || range.value)
		return;
	(void)pl_ranges_take(&handles, handle, NULL);
	if (pl_ranges_take(&sizes, handle, &size) && range.owner)
		foreign_add((int)range.owner - 1, -(int64_t)size.value);
}

void
pl_foreign_retained(uint64_t handle)
{
	struct pl_range range;

	(void)pl_ranges_change(&handles, handle, 1, &range);
}

int
pl_foreign_create(uint64_t *handle, size_t bytes, const struct cu_allocation *what,
		  unsigned long long flags)
{
	int on_device = what && what->location.type == CU_LOCATION_DEVICE;
	int tries = 0, result;

	do
		result = PL_REAL(cuMemCreate)(handle, bytes, what, flags);
	while (on_device && pl_room_made(result, &tries, bytes));
	if (!result && on_device && pl_active())
		handle_note(*handle, what->location.id, bytes);
	return result;
}

int
pl_foreign_release(uint64_t handle)
{
	int result = PL_REAL(cuMemRelease)(handle);

	if (!result && pl_active())
		handle_put(handle);
	return result;
}

int
pl_foreign_map(uint64_t addr, size_t bytes, size_t offset, uint64_t handle,
	       unsigned long long flags)
{
	struct pl_range range;
	int tries = 0, result;

	do
		result = PL_REAL(cuMemMap)(addr, bytes, offset, handle, flags);
	while (pl_room_made(result, &tries, PL_ROOM_BYTES));
	if (result || !pl_active())
		return result;
	if (pl_ranges_change(&handles, handle, 1, &range) &&
	    !pl_ranges_add(&mappings, (struct pl_range){addr, bytes, handle, 0}))
		(void)pl_ranges_change(&handles, handle, -1, &range);
	return result;
}

int
pl_foreign_unmap(uint64_t addr, size_t bytes)
{
	int result = PL_REAL(cuMemUnmap)(addr, bytes);
	struct pl_range range;

	if (result || !pl_active())
		return result;
	while (pl_ranges_take_in(&mappings, addr, bytes, &range))
		handle_put(range.owner);
	return result;
}

/* ---- arrays ---- */

/* Bytes of one channel. */
static uint64_t
format_bytes(int format)
{
	switch (format) {
	case 0x01: /* 8 bits */
	case 0x08:
		return 1;
	case 0x03: /* 32 bits */
	case 0x0a:
	case 0x20:
		return 4;
	}
	return 2;
}

static int
array_made(int result, const void *array, uint64_t bytes)
{
	int device = 0;

	if (result || !pl_active() || PL_REAL(cuCtxGetDevice)(&device))
		return result;
	if (pl_gpu_of_device(device) &&
	    pl_ranges_add(&arrays, (struct pl_range){(uintptr_t)array, 1,
						     (uint64_t)device + 1, bytes}))
		foreign_add(device, (int64_t)bytes);
	return result;
}

static int
array_destroyed(int result, const void *array)
{
	struct pl_range range;

	if (!result && pl_active() && pl_ranges_take(&arrays, (uintptr_t)array, &range))
		foreign_add((int)range.owner - 1, -(int64_t)range.value);
	return result;
}

static uint64_t
at_least_one(uint64_t n)
{
	return n ? n : 1;
}

static uint64_t
box_bytes(const struct cu_array_description_3d *what)
{
	return what->width * at_least_one(what->height) * at_least_one(what->depth) *
	       what->channels * format_bytes(what->format);
}

int
cuArrayCreate_v2(struct cu_array **array, const struct cu_array_description *what)
{
	uint64_t bytes = 0;
	int tries = 0, result;

	if (what)
		bytes = what->width * at_least_one(what->height) * what->channels *
			format_bytes(what->format);
	do
		result = PL_REAL(cuArrayCreate_v2)(array, what);
	while (pl_room_made(result, &tries, bytes));
	return result ? result : array_made(result, *array, bytes);
}

int
cuArray3DCreate_v2(struct cu_array **array, const struct cu_array_description_3d *what)
{
	uint64_t bytes = what ? box_bytes(what) : 0;
	int tries = 0, result;

	do
		result = PL_REAL(cuArray3DCreate_v2)(array, what);
	while (pl_room_made(result, &tries, bytes));
	return result ? result : array_made(result, *array, bytes);
}

int
cuArrayDestroy(struct cu_array *array)
{
	return array_destroyed(PL_REAL(cuArrayDestroy)(array), array);
}

int
cuMipmappedArrayCreate(struct cu_mipmapped_array **array,
		       const struct cu_array_description_3d *what, unsigned levels)
{
	/* Each level of a picture is a quarter of the one above, at most. */
	uint64_t bytes = what ? box_bytes(what) + box_bytes(what) / 3 : 0;
	int tries = 0, result;

	do
		result = PL_REAL(cuMipmappedArrayCreate)(array, what, levels);
	while (pl_room_made(result, &tries, bytes));
	return result ? result : array_made(result, *array, bytes);
}

int
cuMipmappedArrayDestroy(struct cu_mipmapped_array *array)
{
	return array_destroyed(PL_REAL(cuMipmappedArrayDestroy)(array), array);
}
