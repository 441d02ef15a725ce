/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's rules for memory that a program maps itself, where Sluice manages it. They say
 * which things may be made, reserved, mapped, used, unmapped and freed, in which order. Refusals
 * have the right code, and queries the right answer. All memory is given back: the free memory
 * is the same at the end.
 */
#include <string.h>

#include "vmm_test.h"

#define VIRTUAL (1024 * MIB) /* more than device and host have together */

static struct vmm v;

static void
broken_rules_are_forgotten(void)
{
	v.w.standin->violations_reset();
}

static void
memory_that_cannot_be_made_is_the_drivers_to_refuse(void)
{
	struct cu_allocation what = vmm_on_device;
	uint64_t handle = 7;
	size_t granule;

	OK(v.cuMemGetAllocationGranularity(&granule, &what, CU_GRANULARITY_RECOMMENDED));
	CHECK(granule == GRANULE);
	CHECK(v.w.cuMemCreate(&handle, 0, &what, 0) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemCreate(&handle, 4096, &what, 0) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemCreate(&handle, GRANULE, &what, 1) == CU_ERROR_INVALID_VALUE);
	what.location.id = 99;
	CHECK(v.w.cuMemCreate(&handle, GRANULE, &what, 0) == CU_ERROR_INVALID_DEVICE);
	what.location.id = 0;
	what.type = 3;
	CHECK(v.w.cuMemCreate(&handle, GRANULE, &what, 0) == CU_ERROR_INVALID_VALUE);
	CHECK(handle == 7);
	broken_rules_are_forgotten();
}

/* It is counted when it is made, as natively, and never more than there is. */
static void
memory_is_taken_when_it_is_made(void)
{
	uint64_t before = vmm_free_bytes(&v), handle, other = 7;

	CHECK(before < VIRTUAL);
	CHECK(v.w.cuMemCreate(&other, VIRTUAL, &vmm_on_device, 0) == CU_ERROR_OUT_OF_MEMORY);
	CHECK(other == 7);
	handle = vmm_create(&v, before / 2 / GRANULE * GRANULE);
	CHECK(vmm_free_bytes(&v) == before - before / 2 / GRANULE * GRANULE);
	CHECK(v.w.cuMemCreate(&other, before / GRANULE * GRANULE, &vmm_on_device, 0) ==
	      CU_ERROR_OUT_OF_MEMORY);
	OK(v.w.cuMemRelease(handle));
	CHECK(vmm_free_bytes(&v) == before);
	CHECK(v.w.cuMemRelease(handle) == CU_ERROR_INVALID_VALUE);
}

/* Other kinds of memory go to the driver, and what the thread reserves for them. */
static void
memory_to_be_shared_is_the_drivers(void)
{
	struct cu_allocation what = vmm_on_device;
	uint64_t handle, addr, before = vmm_free_bytes(&v);

	what.requested_handle = 1;
	OK(v.w.cuMemCreate(&handle, GRANULE, &what, 0));
	CHECK(!vmm_is_ours(handle));
	addr = vmm_reserve(&v, GRANULE);
	vmm_map(&v, addr, GRANULE, handle);
	CHECK(vmm_is_there(&v, addr, GRANULE));
	CHECK(vmm_free_bytes(&v) == before);
	vmm_write(&v, addr, GRANULE, 5);
	vmm_add(&v, addr, GRANULE, 1);
	vmm_expect(&v, addr, GRANULE, 6);
	vmm_free(&v, addr, GRANULE, handle);
	what.requested_handle = 0;
	what.gpu_direct_rdma = 1;
	OK(v.w.cuMemCreate(&handle, GRANULE, &what, 0));
	CHECK(vmm_is_ours(handle));
	OK(v.w.cuMemRelease(handle));
}

static void
ranges_are_reserved_and_freed_as_they_are(void)
{
	uint64_t addr, other, handle = vmm_create(&v, 8 * MIB);

	CHECK(v.w.cuMemAddressReserve(&addr, 4096, 0, 0, 0) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemAddressReserve(&addr, GRANULE, 3, 0, 0) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemAddressReserve(&addr, GRANULE, 0, 0, 1) == CU_ERROR_INVALID_VALUE);
	OK(v.w.cuMemAddressReserve(&addr, 8 * MIB, 256 * MIB, 0, 0));
	CHECK(addr % (256 * MIB) == 0);
	CHECK(!vmm_is_there(&v, addr, GRANULE));
	/* A wish for the addresses behind it is a wish; the two must not be taken for one range. */
	OK(v.w.cuMemAddressReserve(&other, 8 * MIB, 0, addr + 8 * MIB, 0));
	CHECK(other != addr + 8 * MIB && other + 8 * MIB != addr);
	CHECK(v.w.cuMemAddressFree(addr, GRANULE) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemAddressFree(addr + GRANULE, GRANULE) == CU_ERROR_INVALID_VALUE);
	OK(v.w.cuMemMap(addr, 8 * MIB, 0, handle, 0));
	CHECK(v.w.cuMemAddressFree(addr, 8 * MIB) == CU_ERROR_INVALID_VALUE);
	OK(v.w.cuMemUnmap(addr, 8 * MIB));
	OK(v.w.cuMemAddressFree(addr, 8 * MIB));
	CHECK(v.w.cuMemAddressFree(addr, 8 * MIB) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemMap(addr, 8 * MIB, 0, handle, 0) == CU_ERROR_INVALID_VALUE);
	OK(v.w.cuMemAddressFree(other, 8 * MIB));
	OK(v.w.cuMemRelease(handle));
	broken_rules_are_forgotten();
}

static void
a_handle_is_mapped_whole_where_nothing_is(void)
{
	uint64_t one = vmm_create(&v, 4 * MIB), two = vmm_create(&v, 4 * MIB), gone;
	uint64_t addr = vmm_reserve(&v, 16 * MIB);

	gone = vmm_create(&v, 4 * MIB);
	OK(v.w.cuMemRelease(gone));
	CHECK(v.w.cuMemMap(addr, 4 * MIB, 0, gone, 0) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemMap(addr, 4 * MIB, 0, one, 1) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemMap(addr + 4096, 4 * MIB, 0, one, 0) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemMap(addr, 0, 0, one, 0) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemMap(addr, 2 * MIB, 0, one, 0) == CU_ERROR_NOT_SUPPORTED);
	CHECK(v.w.cuMemMap(addr, 2 * MIB, 2 * MIB, one, 0) == CU_ERROR_NOT_SUPPORTED);
	CHECK(v.w.cuMemMap(addr, 8 * MIB, 0, one, 0) == CU_ERROR_NOT_SUPPORTED);
	CHECK(v.w.cuMemMap(addr + 14 * MIB, 4 * MIB, 0, one, 0) == CU_ERROR_INVALID_VALUE);
	OK(v.w.cuMemMap(addr + 2 * MIB, 4 * MIB, 0, one, 0));
	CHECK(v.w.cuMemMap(addr, 4 * MIB, 0, two, 0) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemMap(addr + 4 * MIB, 4 * MIB, 0, two, 0) == CU_ERROR_INVALID_VALUE);
	OK(v.w.cuMemMap(addr + 10 * MIB, 4 * MIB, 0, two, 0));
	/* What is unmapped cuts no mapping, and may have holes. */
	CHECK(v.w.cuMemUnmap(addr + 2 * MIB, 2 * MIB) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemUnmap(addr + 4 * MIB, 4 * MIB) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemUnmap(addr + 4096, 4 * MIB) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemUnmap(addr, 32 * MIB) == CU_ERROR_INVALID_VALUE);
	OK(v.w.cuMemUnmap(addr, 16 * MIB));
	OK(v.w.cuMemRelease(one));
	OK(v.w.cuMemRelease(two));
	OK(v.w.cuMemAddressFree(addr, 16 * MIB));
}

static unsigned long long
access_of(uint64_t addr)
{
	unsigned long long flags = 99;

	OK(v.cuMemGetAccess(&flags, &vmm_on_device.location, addr));
	return flags;
}

static void
memory_is_used_after_access_was_given(void)
{
	const struct cu_location host = {.type = CU_LOCATION_HOST};
	struct cu_access access = vmm_read_write;
	uint64_t handle = vmm_create(&v, 4 * MIB), addr = vmm_reserve(&v, 8 * MIB);
	unsigned long long flags;

	CHECK(v.cuMemGetAccess(&flags, &access.location, addr) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemSetAccess(addr, 4 * MIB, &access, 1) == CU_ERROR_INVALID_VALUE);
	OK(v.w.cuMemMap(addr, 4 * MIB, 0, handle, 0));
	CHECK(access_of(addr) == CU_ACCESS_NONE);
	CHECK(!vmm_is_there(&v, addr, GRANULE));
	CHECK(v.w.cuMemsetD8Async(addr, 1, GRANULE, NULL) != CU_SUCCESS);
	CHECK(v.w.cuMemSetAccess(addr, 8 * MIB, &access, 1) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemSetAccess(addr, 2 * MIB, &access, 1) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemSetAccess(addr, 4 * MIB, &access, 0) == CU_ERROR_INVALID_VALUE);
	access.flags = 2;
	CHECK(v.w.cuMemSetAccess(addr, 4 * MIB, &access, 1) == CU_ERROR_INVALID_VALUE);
	access.flags = CU_ACCESS_READ_WRITE;
	access.location.id = 9;
	CHECK(v.w.cuMemSetAccess(addr, 4 * MIB, &access, 1) == CU_ERROR_INVALID_VALUE);
	access.location = host;
	CHECK(v.w.cuMemSetAccess(addr, 4 * MIB, &access, 1) == CU_ERROR_NOT_SUPPORTED);
	access = vmm_read_write;
	OK(v.w.cuMemSetAccess(addr, 4 * MIB, &access, 1));
	OK(v.w.cuMemSetAccess(addr, 4 * MIB, &access, 1)); /* again: nothing changes */
	CHECK(access_of(addr + 3 * MIB) == CU_ACCESS_READ_WRITE);
	OK(v.cuMemGetAccess(&flags, &host, addr));
	CHECK(flags == CU_ACCESS_NONE);
	CHECK(v.cuMemGetAccess(&flags, &vmm_on_device.location, addr + 4 * MIB) ==
	      CU_ERROR_INVALID_VALUE);
	vmm_write(&v, addr, 4 * MIB, 3);
	access.flags = CU_ACCESS_READ;
	OK(v.w.cuMemSetAccess(addr, 4 * MIB, &access, 1));
	CHECK(access_of(addr) == CU_ACCESS_READ);
	vmm_expect(&v, addr, 4 * MIB, 3);
	access.flags = CU_ACCESS_NONE;
	OK(v.w.cuMemSetAccess(addr, 4 * MIB, &access, 1));
	CHECK(access_of(addr) == CU_ACCESS_NONE);
	OK(v.w.cuMemSetAccess(addr, 4 * MIB, &vmm_read_write, 1));
	vmm_expect(&v, addr, 4 * MIB, 3);
	OK(v.w.cuMemUnmap(addr, 4 * MIB));
	OK(v.w.cuMemRelease(handle));
	OK(v.w.cuMemAddressFree(addr, 8 * MIB));
	broken_rules_are_forgotten();
}

static void
a_mapping_keeps_what_was_released(void)
{
	uint64_t before = vmm_free_bytes(&v), handle, again, addr;

	addr = vmm_alloc(&v, 4 * MIB, &handle);
	vmm_write(&v, addr, 4 * MIB, 11);
	OK(v.w.cuMemRelease(handle));
	CHECK(vmm_free_bytes(&v) == before - 4 * MIB);
	CHECK(v.w.cuMemMap(addr, 4 * MIB, 0, handle, 0) == CU_ERROR_INVALID_VALUE);
	vmm_expect(&v, addr, 4 * MIB, 11);
	OK(v.w.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(addr + 3 * MIB)));
	CHECK(again == handle);
	OK(v.w.cuMemUnmap(addr, 4 * MIB));
	CHECK(vmm_free_bytes(&v) == before - 4 * MIB);
	CHECK(v.w.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)addr) ==
	      CU_ERROR_INVALID_VALUE);
	OK(v.w.cuMemRelease(handle));
	CHECK(vmm_free_bytes(&v) == before);
	CHECK(!vmm_is_there(&v, addr, GRANULE)); /* it faults, as natively */
	OK(v.w.cuMemAddressFree(addr, 4 * MIB));
	broken_rules_are_forgotten();
}

static void
questions_are_answered_by_mapping(void)
{
	uint64_t one = vmm_create(&v, 4 * MIB), two = vmm_create(&v, 2 * MIB), base, word,
		 ids[2];
	uint64_t addr = vmm_reserve(&v, 32 * MIB);
	struct cu_allocation what;
	unsigned set = 1, number;
	unsigned char flag;
	size_t bytes;

	vmm_map(&v, addr, 4 * MIB, one);
	vmm_map(&v, addr + 4 * MIB, 2 * MIB, two);
	OK(v.cuMemGetAddressRange_v2(&base, &bytes, addr + MIB));
	CHECK(base == addr && bytes == 4 * MIB);
	OK(v.cuMemGetAddressRange_v2(&base, &bytes, addr + 5 * MIB));
	CHECK(base == addr + 4 * MIB && bytes == 2 * MIB);
	CHECK(v.cuMemGetAddressRange_v2(&base, &bytes, addr + 6 * MIB) == CU_ERROR_NOT_FOUND);
	OK(v.cuPointerGetAttribute(&number, CU_POINTER_MEMORY_TYPE, addr));
	CHECK(number == CU_MEMORY_DEVICE);
	OK(v.cuPointerGetAttribute(&number, CU_POINTER_DEVICE_ORDINAL, addr));
	CHECK(number == 0);
	OK(v.cuPointerGetAttribute(&word, CU_POINTER_DEVICE_POINTER, addr + 5));
	CHECK(word == addr + 5);
	OK(v.cuPointerGetAttribute(&word, CU_POINTER_CONTEXT, addr));
	CHECK(!word);
	OK(v.cuPointerGetAttribute(&word, CU_POINTER_RANGE_BYTES, addr));
	CHECK(word == 4 * MIB);
	OK(v.cuPointerGetAttribute(&ids[0], CU_POINTER_BUFFER_ID, addr));
	OK(v.cuPointerGetAttribute(&ids[1], CU_POINTER_BUFFER_ID, addr + 4 * MIB));
	CHECK(ids[0] != ids[1]);
	OK(v.cuPointerSetAttribute(&set, CU_POINTER_SYNC_MEMOPS, addr));
	OK(v.cuPointerGetAttribute(&number, CU_POINTER_SYNC_MEMOPS, addr));
	memcpy(&flag, &number, 1);
	CHECK(flag == 1);
	CHECK(v.cuPointerGetAttribute(&word, CU_POINTER_CONTEXT, addr + 8 * MIB) ==
	      CU_ERROR_INVALID_VALUE);
	OK(v.cuMemGetAllocationPropertiesFromHandle(&what, one));
	CHECK(!memcmp(&what, &vmm_on_device, sizeof(what)));
	CHECK(v.cuMemExportToShareableHandle(&number, one, 1, 0) == CU_ERROR_INVALID_VALUE);
	CHECK(v.w.cuMemFree_v2(addr) != CU_SUCCESS);
	OK(v.w.cuMemUnmap(addr, 6 * MIB));
	OK(v.w.cuMemRelease(one));
	OK(v.w.cuMemRelease(two));
	CHECK(v.cuMemGetAllocationPropertiesFromHandle(&what, one) == CU_ERROR_INVALID_VALUE);
	OK(v.w.cuMemAddressFree(addr, 32 * MIB));
	broken_rules_are_forgotten();
}

/* What lies side by side is used as one, whatever handles it is of. */
static void
kernels_reach_across_mappings(void)
{
	uint64_t handles[4], addr = vmm_reserve(&v, 32 * MIB);
	static const unsigned order[] = {2, 0, 3, 1};

	for (unsigned i = 0; i < 4; i++)
		handles[i] = vmm_create(&v, 4 * MIB);
	for (unsigned i = 0; i < 4; i++)
		vmm_map(&v, addr + order[i] * 4 * MIB, 4 * MIB, handles[order[i]]);
	vmm_write(&v, addr, 16 * MIB, 1);
	vmm_add(&v, addr, 16 * MIB, 1);
	vmm_expect(&v, addr, 16 * MIB, 2);
	OK(v.w.cuMemUnmap(addr + 4 * MIB, 4 * MIB));
	vmm_add(&v, addr, 4 * MIB, 1);
	vmm_add(&v, addr + 8 * MIB, 8 * MIB, 2);
	vmm_expect(&v, addr, 4 * MIB, 3);
	vmm_expect(&v, addr + 8 * MIB, 8 * MIB, 4);
	vmm_map(&v, addr + 4 * MIB, 4 * MIB, handles[1]);
	vmm_add(&v, addr, 16 * MIB, 1);
	vmm_expect(&v, addr + 4 * MIB, 4 * MIB, 3);
	vmm_expect(&v, addr + 12 * MIB, 4 * MIB, 5);
	OK(v.w.cuMemUnmap(addr, 32 * MIB));
	for (unsigned i = 0; i < 4; i++)
		OK(v.w.cuMemRelease(handles[i]));
	OK(v.w.cuMemAddressFree(addr, 32 * MIB));
}

static void
all_rules(void)
{
	memory_that_cannot_be_made_is_the_drivers_to_refuse();
	memory_is_taken_when_it_is_made();
	memory_to_be_shared_is_the_drivers();
	ranges_are_reserved_and_freed_as_they_are();
	a_handle_is_mapped_whole_where_nothing_is();
	memory_is_used_after_access_was_given();
	a_mapping_keeps_what_was_released();
	questions_are_answered_by_mapping();
	kernels_reach_across_mappings();
}

int
main(void)
{
	struct sl_standin_live before, after;
	uint64_t free_bytes;

	CHECK(!setenv("SLUICE_STORE_BUDGET", "64M", 1));
	vmm_start(&v, 128, 256);
	free_bytes = vmm_free_bytes(&v);
	all_rules();
	CHECK(vmm_free_bytes(&v) == free_bytes);
	v.w.standin->live(&before); /* with what the library keeps for good */
	all_rules();
	v.w.standin->live(&after);
	CHECK(vmm_free_bytes(&v) == free_bytes);
	CHECK(after.reservations == before.reservations && after.mappings == before.mappings &&
	      after.handles == before.handles && after.streams == before.streams);
	work_end(&v.w);
	return 0;
}
