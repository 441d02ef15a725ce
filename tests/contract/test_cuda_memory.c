/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's rules for memory: ranges and handles, what is mapped where and who may touch it.
 */
#include <stdlib.h>

#include "contract/cuda_suite.h"

static void
ranges_are_reserved_and_freed_whole(void)
{
	uint64_t addr = 0;

	up();
	INVALID(cuMemAddressReserve, &addr, 0, 0, 0, 0);
	INVALID(cuMemAddressReserve, &addr, 4096, 0, 0, 0);
	INVALID(cuMemAddressReserve, &addr, CHUNK + 4096, 0, 0, 0);
	INVALID(cuMemAddressReserve, &addr, CHUNK, 3, 0, 0);
	INVALID(cuMemAddressReserve, &addr, CHUNK, 0, 0, 1);
	CHECK(addr == 0);
	noted(5, "cuMemAddressReserve");
	OK(cuMemAddressReserve, &addr, CHUNK, 64 * CHUNK, 0, 0);
	CHECK(addr && addr % (64 * CHUNK) == 0);
	INVALID(cuMemAddressFree, cuda.range, CHUNK);
	INVALID(cuMemAddressFree, cuda.range + CHUNK, RANGE - CHUNK);
	map_chunk(3);
	INVALID(cuMemAddressFree, cuda.range, RANGE);
	noted(3, "still mapped");
	OK(cuMemUnmap, cuda.range + 3 * CHUNK, CHUNK);
	OK(cuMemAddressFree, cuda.range, RANGE);
	INVALID(cuMemAddressFree, cuda.range, RANGE);
	OK(cuMemAddressFree, addr, CHUNK);
}

static void
memory_comes_in_granules_and_is_released_once(void)
{
	struct cu_allocation prop = on_device;
	uint64_t handle = 0;
	size_t granularity = 0;

	up();
	OK(cuMemGetAllocationGranularity, &granularity, &on_device, CU_GRANULARITY_MINIMUM);
	CHECK(granularity == CHUNK);
	OK(cuMemGetAllocationGranularity, &granularity, &on_host, CU_GRANULARITY_RECOMMENDED);
	CHECK(granularity == CHUNK);
	INVALID(cuMemCreate, &handle, 0, &prop, 0);
	INVALID(cuMemCreate, &handle, 4096, &prop, 0);
	INVALID(cuMemCreate, &handle, CHUNK, &prop, 1);
	prop.location.type = CU_LOCATION_INVALID;
	INVALID(cuMemCreate, &handle, CHUNK, &prop, 0);
	prop.location.type = CU_LOCATION_HOST_NUMA_CURRENT;
	INVALID(cuMemCreate, &handle, CHUNK, &prop, 0);
	prop = on_host;
	prop.location.id = 63;
	INVALID(cuMemCreate, &handle, CHUNK, &prop, 0);
	prop = on_device;
	prop.type = 0;
	INVALID(cuMemCreate, &handle, CHUNK, &prop, 0);
	prop = on_device;
	prop.location.id = 99;
	GIVES(CU_ERROR_INVALID_DEVICE, cuMemCreate, &handle, CHUNK, &prop, 0);
	noted(8, "cuMemCreate: device 99");
	prop = on_host;
	prop.location.type = CU_LOCATION_HOST;
	OK(cuMemCreate, &handle, CHUNK, &prop, 0);
	OK(cuMemRelease, handle);
	INVALID(cuMemRelease, handle);
	INVALID(cuMemRelease, 0);
	noted(2, "no such handle");
	GIVES(CU_ERROR_OUT_OF_MEMORY, cuMemCreate, &handle, (size_t)1 << 40, &on_device, 0);
	noted(0, "");
}

static void
a_handle_is_mapped_whole_where_nothing_is(void)
{
	uint64_t one, two, big;

	up();
	one = memory(CHUNK, &on_device);
	two = memory(CHUNK, &on_device);
	big = memory(4 * CHUNK, &on_device);
	INVALID(cuMemMap, cuda.range + 4096, CHUNK, 0, one, 0);
	INVALID(cuMemMap, cuda.range, CHUNK, 0, one, 1);
	INVALID(cuMemMap, cuda.range, 0, 0, one, 0);
	INVALID(cuMemMap, (uint64_t)1 << 28, CHUNK, 0, one, 0);
	noted(4, "not inside a reserved range");
	GIVES(CU_ERROR_NOT_SUPPORTED, cuMemMap, cuda.range, CHUNK, 4096, one, 0);
	GIVES(CU_ERROR_NOT_SUPPORTED, cuMemMap, cuda.range, CHUNK, CHUNK, big, 0);
	GIVES(CU_ERROR_NOT_SUPPORTED, cuMemMap, cuda.range, CHUNK, 0, big, 0);
	GIVES(CU_ERROR_NOT_SUPPORTED, cuMemMap, cuda.range, 8 * CHUNK, 0, big, 0);
	noted(4, "not the whole handle");
	OK(cuMemMap, cuda.range, CHUNK, 0, one, 0);
	INVALID(cuMemMap, cuda.range, CHUNK, 0, two, 0);
	INVALID(cuMemMap, cuda.range, CHUNK, 0, one, 0);
	noted(2, "something is mapped there");
	OK(cuMemMap, cuda.range + 4 * CHUNK, 4 * CHUNK, 0, big, 0);
	INVALID(cuMemMap, cuda.range + 7 * CHUNK, CHUNK, 0, two, 0);
	noted(1, "something is mapped there");
	OK(cuMemMap, cuda.range + CHUNK, CHUNK, 0, one, 0);
}

static void
access_is_set_on_what_is_mapped(void)
{
	struct cu_access access = by_device;
	unsigned long long flags = 99;
	uint64_t big;

	up();
	map_chunk(0);
	map_chunk(1);
	big = memory(4 * CHUNK, &on_device);
	OK(cuMemMap, cuda.range + 4 * CHUNK, 4 * CHUNK, 0, big, 0);
	OK(cuMemGetAccess, &flags, &by_device.location, cuda.range + 5 * CHUNK);
	CHECK(flags == CU_ACCESS_NONE);
	OK(cuMemSetAccess, cuda.range, 2 * CHUNK, &by_device, 1);
	INVALID(cuMemSetAccess, cuda.range + CHUNK, 2 * CHUNK, &by_device, 1);
	INVALID(cuMemSetAccess, cuda.range + 2 * CHUNK, CHUNK, &by_device, 1);
	INVALID(cuMemSetAccess, cuda.range, CHUNK, &by_device, 0);
	access.flags = 2;
	INVALID(cuMemSetAccess, cuda.range, CHUNK, &access, 1);
	access = by_device;
	access.location.id = 99;
	INVALID(cuMemSetAccess, cuda.range, CHUNK, &access, 1);
	INVALID(cuMemSetAccess, cuda.range + 4 * CHUNK, CHUNK, &by_device, 1);
	INVALID(cuMemSetAccess, cuda.range + 5 * CHUNK, 3 * CHUNK, &by_device, 1);
	noted(7, "not made of whole mappings");
	OK(cuMemSetAccess, cuda.range, CHUNK, &by_device_reading, 1);
	OK(cuMemGetAccess, &flags, &by_device.location, cuda.range + 100);
	CHECK(flags == CU_ACCESS_READ);
	OK(cuMemSetAccess, cuda.range, CHUNK, &by_device, 1);
	OK(cuMemGetAccess, &flags, &by_device.location, cuda.range);
	CHECK(flags == CU_ACCESS_READ_WRITE);
	INVALID(cuMemGetAccess, &flags, &by_device.location, cuda.range + 3 * CHUNK);
}

static void
unmapping_takes_whole_mappings(void)
{
	uint64_t big;

	up();
	map_chunk(0);
	map_chunk(1);
	big = memory(4 * CHUNK, &on_device);
	OK(cuMemMap, cuda.range + 4 * CHUNK, 4 * CHUNK, 0, big, 0);
	INVALID(cuMemUnmap, cuda.range, 4096);
	INVALID(cuMemUnmap, cuda.range, 0);
	INVALID(cuMemUnmap, cuda.range + 4 * CHUNK, CHUNK);
	INVALID(cuMemUnmap, cuda.range + 5 * CHUNK, 3 * CHUNK);
	INVALID(cuMemUnmap, (uint64_t)1 << 28, CHUNK);
	noted(5, "cuMemUnmap");
	OK(cuMemUnmap, cuda.range, 2 * CHUNK);
	OK(cuMemUnmap, cuda.range + 4 * CHUNK, 4 * CHUNK);
	noted(0, "");
	/* The driver has nothing against it; we note it. */
	OK(cuMemUnmap, cuda.range, CHUNK);
	noted(1, "not all of it is mapped");
}

static void
one_handle_shows_the_same_bytes_at_two_addresses(void)
{
	uint64_t handle, other;

	up();
	handle = map_chunk(0);
	other = map_chunk(1);
	OK(cuMemMap, cuda.range + 5 * CHUNK, CHUNK, 0, handle, 0);
	OK(cuMemSetAccess, cuda.range + 5 * CHUNK, CHUNK, &by_device, 1);
	fill_word(cuda.range + 5 * CHUNK + 64, 4711);
	fill_word(cuda.range + CHUNK + 64, 1);
	CHECK(word_at(cuda.range + 64) == 4711);
	/* Its first address given to another handle: the bytes stay where they are. */
	OK(cuMemUnmap, cuda.range, CHUNK);
	OK(cuMemMap, cuda.range, CHUNK, 0, other, 0);
	OK(cuMemSetAccess, cuda.range, CHUNK, &by_device, 1);
	CHECK(word_at(cuda.range + 64) == 1);
	CHECK(word_at(cuda.range + 5 * CHUNK + 64) == 4711);
	noted(0, "");
}

static void
released_memory_lives_while_it_is_mapped(void)
{
	size_t before, mapped, after, total;
	uint64_t handle, same = 0;

	up();
	handle = map_chunk(0);
	fill_word(cuda.range, 5);
	OK(cuMemGetInfo, &before, &total);
	OK(cuMemRelease, handle);
	OK(cuMemGetInfo, &mapped, &total);
	CHECK(mapped == before);
	CHECK(word_at(cuda.range) == 5);
	OK(cuMemRetainAllocationHandle, &same, (void *)(uintptr_t)(cuda.range + 100));
	CHECK(same == handle);
	OK(cuMemRelease, same);
	INVALID(cuMemRelease, same);
	INVALID(cuMemRetainAllocationHandle, &same, (void *)(uintptr_t)(cuda.range + CHUNK));
	OK(cuMemUnmap, cuda.range, CHUNK);
	OK(cuMemGetInfo, &after, &total);
	CHECK(after == before + CHUNK);
}

static void
device_memory_has_an_end_and_comes_back(void)
{
	uint64_t handles[40] = {0};
	size_t free_bytes, total;
	unsigned n = 0;

	setenv("CUDA_STANDIN_DEVICE_BYTES", "64M", 1);
	up();
	while (n < 40 &&
	       cuda.driver->cuMemCreate(&handles[n], CHUNK, &on_device, 0) == CU_SUCCESS)
		n++;
	CHECK(n == 32);
	GIVES(CU_ERROR_OUT_OF_MEMORY, cuMemAlloc, &handles[39], 1);
	OK(cuMemGetInfo, &free_bytes, &total);
	CHECK(free_bytes == 0 && total == 64 * MIB);
	OK(cuMemRelease, handles[0]);
	OK(cuMemGetInfo, &free_bytes, &total);
	CHECK(free_bytes == CHUNK);
	standin->memory_taken_set(0, CHUNK);
	GIVES(CU_ERROR_OUT_OF_MEMORY, cuMemCreate, &handles[0], CHUNK, &on_device, 0);
	OK(cuMemGetInfo, &free_bytes, &total);
	CHECK(free_bytes == 0);
	standin->memory_taken_set(0, 0);
	OK(cuMemCreate, &handles[0], CHUNK, &on_device, 0);
	noted(0, "");
}

static const struct cuda_test tests[] = {
	BOTH(ranges_are_reserved_and_freed_whole),
	BOTH(memory_comes_in_granules_and_is_released_once),
	BOTH(a_handle_is_mapped_whole_where_nothing_is),
	BOTH(access_is_set_on_what_is_mapped),
	BOTH(unmapping_takes_whole_mappings),
	BOTH(one_handle_shows_the_same_bytes_at_two_addresses),
	BOTH(released_memory_lives_while_it_is_mapped),
	OURS(device_memory_has_an_end_and_comes_back),
};

CUDA_MAIN(tests)
