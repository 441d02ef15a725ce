/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned host memory: the driver's, allocated or registered by the program. It is forwarded, remembered
 * (launches may name it, and it may hold addresses), and counted: what is pinned there our host budget
 * should not count on.
 *
 * Memory that a destroyed context took along stays in the table until its addresses come again; it
 * is only looked at where a launch names it.
 *
 * Threads: any.
 */
#include "preload/api_foreign.h"
#include "preload/foreign.h"
#include "preload/ranges.h"

_Atomic uint64_t pl_host_pinned_bytes;

static struct pl_ranges pinned = PL_RANGES_INITIALIZER;

int
pl_host_range_find(const void *p, const void **base, size_t *bytes)
{
	struct pl_range range;

	if (!pl_ranges_find(&pinned, (uintptr_t)p, &range))
		return 0;
	*base = (const void *)(uintptr_t)range.base;
	*bytes = range.bytes;
	return 1;
}

static void
pinned_note(const void *data, size_t bytes)
{
	if (!pl_active() || !data || !bytes)
		return;
	if (pl_ranges_add(&pinned, (struct pl_range){(uintptr_t)data, bytes, 0, 0}))
		atomic_fetch_add(&pl_host_pinned_bytes, bytes);
}

/* Taken out before the driver gives the addresses away again. */
static int
pinned_take(const void *data, struct pl_range *range)
{
	return pl_active() && data && pl_ranges_take(&pinned, (uintptr_t)data, range);
}

static int
pinned_taken(int result, int taken, struct pl_range range)
{
	if (taken && result && result != CU_ERROR_DEINITIALIZED)
		(void)pl_ranges_add(&pinned, range);
	else if (taken)
		atomic_fetch_sub(&pl_host_pinned_bytes, range.bytes);
	return result;
}

int
cuMemAllocHost(void **data, unsigned bytes)
{
	int tries = 0, result;

	do
		result = PL_REAL(cuMemAllocHost)(data, bytes);
	while (pl_room_made(result, &tries, PL_ROOM_BYTES));
	if (!result)
		pinned_note(*data, bytes);
	return result;
}

int
cuMemAllocHost_v2(void **data, size_t bytes)
{
	int tries = 0, result;

	do
		result = PL_REAL(cuMemAllocHost_v2)(data, bytes);
	while (pl_room_made(result, &tries, PL_ROOM_BYTES));
	if (!result)
		pinned_note(*data, bytes);
	return result;
}

int
cuMemHostAlloc(void **data, size_t bytes, unsigned flags)
{
	int tries = 0, result;

	do
		result = PL_REAL(cuMemHostAlloc)(data, bytes, flags);
	while (pl_room_made(result, &tries, PL_ROOM_BYTES));
	if (!result)
		pinned_note(*data, bytes);
	return result;
}

int
cuMemFreeHost(void *data)
{
	struct pl_range range;
	int taken = pinned_take(data, &range);

	return pinned_taken(PL_REAL(cuMemFreeHost)(data), taken, range);
}

int
cuMemHostRegister(void *data, size_t bytes, unsigned flags)
{
	int tries = 0, result;

	do
		result = PL_REAL(cuMemHostRegister)(data, bytes, flags);
	while (pl_room_made(result, &tries, PL_ROOM_BYTES));
	if (!result)
		pinned_note(data, bytes);
	return result;
}

int
cuMemHostRegister_v2(void *data, size_t bytes, unsigned flags)
{
	int tries = 0, result;

	do
		result = PL_REAL(cuMemHostRegister_v2)(data, bytes, flags);
	while (pl_room_made(result, &tries, PL_ROOM_BYTES));
	if (!result)
		pinned_note(data, bytes);
	return result;
}

int
cuMemHostUnregister(void *data)
{
	struct pl_range range;
	int taken = pinned_take(data, &range);

	return pinned_taken(PL_REAL(cuMemHostUnregister)(data), taken, range);
}
