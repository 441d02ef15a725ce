/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations, pools and queries of a program under the preload library: successes, the driver's
 * refusals, and the reported numbers. Device memory is 32 MiB.
 */
#include "copy_test.h"

#include <pthread.h>
#include <string.h>

#include "preload/api/api_alloc.h"
#include "preload/api/api_query.h"
#include "preload/api/api_stream.h"

#define MIB ((size_t)1 << 20)

int cuCtxSetCurrent(struct cu_context *context);
int cuStreamSynchronize(struct cu_stream *stream);

static const struct sl_standin *standin;

static uint64_t
get(size_t bytes)
{
	uint64_t addr = 0;

	MUST(DRIVER(cuMemAlloc_v2)(&addr, bytes));
	CHECK(addr && addr % 512 == 0);
	return addr;
}

static void
put(uint64_t addr)
{
	MUST(DRIVER(cuMemFree_v2)(addr));
}

static size_t
free_bytes(void)
{
	size_t bytes;

	MUST(DRIVER(cuMemGetInfo_v2)(&bytes, NULL));
	return bytes;
}

/* Fill, and see that it is there. */
static void
fill(uint64_t addr, size_t bytes, unsigned char byte)
{
	MUST(DRIVER(cuMemsetD8_v2)(addr, byte, bytes));
}

static void
look(uint64_t addr, size_t bytes, unsigned char byte)
{
	unsigned char *data = malloc(bytes);

	CHECK(data);
	MUST(DRIVER(cuMemcpyDtoH_v2)(data, addr, bytes));
	for (size_t i = 0; i < bytes; i++)
		CHECK(data[i] == byte);
	free(data);
}

/* ---- numbers ---- */

static void
total_is_all_tiers_and_free_moves_with_allocations(void)
{
	size_t before, total, again, device_total;
	uint64_t a, b;

	MUST(DRIVER(cuMemGetInfo_v2)(&before, &total));
	CHECK(total >= (32 + 192) * MIB && before == total);
	MUST(DRIVER(cuDeviceTotalMem_v2)(&device_total, 0));
	CHECK(device_total == total);
	a = get(100);
	CHECK(free_bytes() == before - 512);
	b = get(5 * MIB);
	CHECK(free_bytes() == before - 512 - 6 * MIB);
	put(a);
	put(b);
	MUST(DRIVER(cuMemGetInfo_v2)(NULL, &again));
	CHECK(again == total && free_bytes() == before);
	MUST(DRIVER(cuMemGetInfo_v2)(NULL, NULL));
}

static void
what_the_driver_refuses_is_refused(void)
{
	uint64_t addr = 77, a = get(4096);
	size_t pitch = 78;

	CHECK(DRIVER(cuMemAlloc_v2)(&addr, 0) == CU_ERROR_INVALID_VALUE);
	CHECK(DRIVER(cuMemAllocPitch_v2)(&addr, &pitch, 100, 10, 3) == CU_ERROR_INVALID_VALUE);
	CHECK(DRIVER(cuMemAllocPitch_v2)(&addr, &pitch, 100, 0, 4) == CU_ERROR_INVALID_VALUE);
	CHECK(pitch == 78);
	CHECK(DRIVER(cuMemAllocAsync)(&addr, 0, NULL) == CU_ERROR_INVALID_VALUE);
	MUST(DRIVER(cuMemFree_v2)(0));
	CHECK(DRIVER(cuMemFree_v2)(a + 512) == CU_ERROR_INVALID_VALUE);
	CHECK(DRIVER(cuMemFree_v2)(a + 1) == CU_ERROR_INVALID_VALUE);
	put(a);
	CHECK(DRIVER(cuMemFree_v2)(a) == CU_ERROR_INVALID_VALUE); /* twice */
	CHECK(DRIVER(cuMemFreeAsync)(a, NULL) != CU_SUCCESS);
	standin->violations_reset();
}

static void
more_than_there_is_is_out_of_memory_and_life_goes_on(void)
{
	static uint64_t blocks[64];
	/* Whole units of room: how much there is depends on the disk. */
	size_t before = free_bytes(), part = before / 16 / (2 * MIB) * (2 * MIB);
	uint64_t huge = 0;
	size_t n = 0;
	int result = CU_SUCCESS;

	CHECK(DRIVER(cuMemAlloc_v2)(&huge, SIZE_MAX) == CU_ERROR_OUT_OF_MEMORY);
	CHECK(DRIVER(cuMemAlloc_v2)(&huge, SIZE_MAX / 2 + 1) == CU_ERROR_OUT_OF_MEMORY);
	CHECK(DRIVER(cuMemAlloc_v2)(&huge, before + 1) == CU_ERROR_OUT_OF_MEMORY);
	CHECK(DRIVER(cuMemAllocAsync)(&huge, before + 1, NULL) == CU_ERROR_OUT_OF_MEMORY);
	CHECK(!huge);
	while (n < 64 && !result) {
		result = DRIVER(cuMemAlloc_v2)(&blocks[n], part);
		n += !result;
	}
	CHECK(result == CU_ERROR_OUT_OF_MEMORY && n >= 15);
	CHECK(free_bytes() < part);
	while (n)
		put(blocks[--n]);
	CHECK(free_bytes() == before);
	huge = get(20 * MIB);
	fill(huge, 20 * MIB, 3);
	look(huge, 20 * MIB, 3);
	put(huge);
}

/* ---- contents, places ---- */

static void
blocks_beyond_the_device_keep_their_contents(void)
{
	uint64_t small[100], big[12];

	for (unsigned i = 0; i < 100; i++) {
		small[i] = get(1 + i * 331);
		fill(small[i], 1 + i * 331, (unsigned char)i);
	}
	for (unsigned i = 0; i < 12; i++) {
		big[i] = get(8 * MIB + i);
		fill(big[i], 8 * MIB + i, (unsigned char)(100 + i));
	}
	for (unsigned i = 0; i < 12; i += 2)
		put(big[i]);
	for (unsigned i = 0; i < 12; i += 2) {
		big[i] = get(7 * MIB);
		fill(big[i], 7 * MIB, (unsigned char)(200 + i));
	}
	for (unsigned i = 0; i < 100; i++) {
		look(small[i], 1 + i * 331, (unsigned char)i);
		put(small[i]);
	}
	for (unsigned i = 0; i < 12; i++) {
		look(big[i], 7 * MIB, (unsigned char)(i % 2 ? 100 + i : 200 + i));
		put(big[i]);
	}
}

static void
a_program_that_repeats_gets_the_same_addresses(void)
{
	static const size_t sizes[] = {4,       700000, 3 * MIB, 512,
				       9 * MIB, 100,    2 * MIB, 65536};
	uint64_t first[8], again[8];

	for (int round = 0; round < 5; round++) {
		for (unsigned i = 0; i < 8; i++)
			again[i] = get(sizes[i]);
		for (unsigned i = 0; i < 8; i++)
			put(again[(i * 5 + (unsigned)round) % 8]);
		if (round)
			CHECK(!memcmp(first, again, sizeof(first)));
		memcpy(first, again, sizeof(first));
	}
}

static void
rows_of_pitched_memory_are_aligned(void)
{
	uint64_t addr;
	size_t pitch, bytes;

	MUST(DRIVER(cuMemAllocPitch_v2)(&addr, &pitch, 1000, 30, 8));
	CHECK(pitch == 1024);
	MUST(DRIVER(cuMemGetAddressRange_v2)(NULL, &bytes, addr + 5));
	CHECK(bytes == 30 * pitch);
	fill(addr, bytes, 9);
	look(addr, bytes, 9);
	put(addr);
	CHECK(DRIVER(cuMemAllocPitch_v2)(&addr, &pitch, SIZE_MAX / 2, 8, 4) ==
	      CU_ERROR_OUT_OF_MEMORY);
}

/* ---- streams and pools ---- */

static void
stream_ordered_room_goes_round(void)
{
	struct cu_stream *s = copy_test_stream(), *t = copy_test_stream();
	uint64_t a, b, at;

	MUST(DRIVER(cuMemAllocAsync)(&a, 4 * MIB, s));
	at = a;
	for (int i = 0; i < 10; i++) {
		MUST(DRIVER(cuMemsetD8Async)(a, (unsigned char)i, 4 * MIB, s));
		MUST(DRIVER(cuMemFreeAsync)(a, s));
		MUST(DRIVER(cuMemAllocAsync_ptsz)(&a, 4 * MIB, s));
		CHECK(a == at); /* its own, at once */
	}
	MUST(DRIVER(cuMemsetD8Async)(a, 50, 4 * MIB, s));
	MUST(DRIVER(cuMemFreeAsync_ptsz)(a, s));
	/* Another stream's gets it behind that fill, or other room. */
	MUST(DRIVER(cuMemAllocAsync)(&b, 4 * MIB, t));
	MUST(DRIVER(cuMemsetD8Async)(b, 60, 4 * MIB, t));
	MUST(DRIVER(cuStreamSynchronize)(t));
	MUST(DRIVER(cuStreamSynchronize)(s));
	look(b, 4 * MIB, 60);
	put(b); /* a plain free takes it, too */
	CHECK(DRIVER(cuMemFreeAsync)(b, t) != CU_SUCCESS);
	standin->violations_reset();
}

static uint64_t
pool_word(struct cu_pool *pool, int attribute)
{
	uint64_t word = 99;

	MUST(DRIVER(cuMemPoolGetAttribute)(pool, attribute, &word));
	return word;
}

static void
pools_count_what_they_have(void)
{
	struct cu_pool_properties properties = {.type = CU_POOL_PINNED,
						.location = {CU_LOCATION_DEVICE, 0}};
	struct cu_pool *standard, *pool, *now;
	uint64_t a, b, zero = 0, keep = 1 << 30, handle;

	MUST(DRIVER(cuDeviceGetDefaultMemPool)(&standard, 0));
	MUST(DRIVER(cuDeviceGetMemPool)(&now, 0));
	CHECK(now == standard);
	MUST(DRIVER(cuMemPoolCreate)(&pool, &properties));
	MUST(DRIVER(cuMemPoolSetAttribute)(pool, 4, &keep));
	CHECK(pool_word(pool, 4) == keep && !pool_word(pool, CU_POOL_USED));
	MUST(DRIVER(cuMemAllocFromPoolAsync)(&a, 3 * MIB, pool, NULL));
	MUST(DRIVER(cuMemAllocFromPoolAsync_ptsz)(&b, 1000, pool, NULL));
	CHECK(pool_word(pool, CU_POOL_USED) == 4 * MIB + 1024);
	MUST(DRIVER(cuPointerGetAttribute)(&handle, CU_POINTER_POOL, a + 100));
	CHECK(handle == (uintptr_t)pool);
	MUST(DRIVER(cuMemFreeAsync)(a, NULL));
	CHECK(pool_word(pool, CU_POOL_USED) == 1024);
	CHECK(pool_word(pool, CU_POOL_USED_HIGH) == 4 * MIB + 1024);
	CHECK(pool_word(pool, CU_POOL_RESERVED) == 4 * MIB + 1024);
	MUST(DRIVER(cuMemPoolTrimTo)(pool, 2048));
	CHECK(pool_word(pool, CU_POOL_RESERVED) == 2048);
	MUST(DRIVER(cuMemPoolSetAttribute)(pool, CU_POOL_USED_HIGH, &zero));
	CHECK(pool_word(pool, CU_POOL_USED_HIGH) == 1024);

	MUST(DRIVER(cuDeviceSetMemPool)(0, pool));
	MUST(DRIVER(cuMemAllocAsync)(&a, 512, NULL));
	CHECK(pool_word(pool, CU_POOL_USED) == 1536);
	MUST(DRIVER(cuMemPoolDestroy)(pool));
	CHECK(DRIVER(cuMemPoolGetAttribute)(pool, CU_POOL_USED, &zero) ==
	      CU_ERROR_INVALID_VALUE);
	fill(a, 512, 1); /* lives on */
	put(a);
	put(b);
	MUST(DRIVER(cuMemAllocAsync)(&a, 512, NULL));
	CHECK(pool_word(standard, CU_POOL_USED) == 512);
	MUST(DRIVER(cuMemFreeAsync)(a, NULL));
	CHECK(!pool_word(standard, CU_POOL_USED));
}

static void
pools_of_managed_or_shared_memory_are_the_drivers(void)
{
	struct cu_pool_properties properties = {.type = CU_POOL_MANAGED,
						.location = {CU_LOCATION_DEVICE, 0}};
	size_t before = free_bytes();
	struct cu_pool *pool;
	uint64_t a;

	MUST(DRIVER(cuMemPoolCreate)(&pool, &properties));
	MUST(DRIVER(cuMemAllocFromPoolAsync)(&a, MIB, pool, NULL));
	CHECK(free_bytes() == before && pool_word(pool, CU_POOL_USED) == MIB);
	MUST(DRIVER(cuMemFreeAsync)(a, NULL));
	MUST(DRIVER(cuMemPoolDestroy)(pool));
	properties.type = CU_POOL_PINNED;
	properties.handle_types = 1;
	MUST(DRIVER(cuMemPoolCreate)(&pool, &properties));
	MUST(DRIVER(cuMemAllocFromPoolAsync)(&a, MIB, pool, NULL));
	CHECK(free_bytes() == before && pool_word(pool, CU_POOL_USED) == MIB);
	MUST(DRIVER(cuMemFreeAsync)(a, NULL));
	MUST(DRIVER(cuMemPoolDestroy)(pool));
}

static void
captured_allocations_are_the_graphs(void)
{
	struct cu_stream *s = copy_test_stream();
	size_t before = free_bytes();
	struct cu_graph *graph;
	uint64_t a, b = get(4096);

	MUST(DRIVER(cuStreamBeginCapture_v2)(s, CU_CAPTURE_MODE_RELAXED));
	MUST(DRIVER(cuMemAllocAsync)(&a, MIB, s));
	CHECK(free_bytes() == before - 4096); /* the driver's */
	CHECK(DRIVER(cuMemFreeAsync)(b, s) == CU_ERROR_INVALID_VALUE);
	MUST(DRIVER(cuStreamEndCapture)(s, &graph));
	MUST(DRIVER(cuMemFreeAsync)(a, s));
	put(b);
	CHECK(free_bytes() == before);
	standin->violations_reset();
}

/* ---- pointers ---- */

static uint64_t
attribute(int which, uint64_t addr)
{
	uint64_t word = 0;

	MUST(DRIVER(cuPointerGetAttribute)(&word, which, addr));
	return word;
}

static void
address_ranges_are_allocations(void)
{
	uint64_t a = get(2 * MIB), b = get(30), base;
	size_t bytes;

	MUST(DRIVER(cuMemGetAddressRange_v2)(&base, &bytes, a + 2 * MIB - 1));
	CHECK(base == a && bytes == 2 * MIB);
	MUST(DRIVER(cuMemGetAddressRange_v2)(&base, NULL, b + 29));
	CHECK(base == b);
	MUST(DRIVER(cuMemGetAddressRange_v2)(NULL, NULL, b));
	CHECK(DRIVER(cuMemGetAddressRange_v2)(&base, &bytes, b + 30) == CU_ERROR_NOT_FOUND);
	put(a);
	put(b);
	CHECK(DRIVER(cuMemGetAddressRange_v2)(&base, &bytes, b) == CU_ERROR_NOT_FOUND);
}

static void
hints_for_what_is_not_managed_are_refused(void)
{
	struct cu_location host = {CU_LOCATION_HOST, 0};
	uint64_t a = get(MIB);
	size_t bytes = MIB;
	int value;

	CHECK(DRIVER(cuMemAdvise)(a, MIB, CU_ADVISE_READ_MOSTLY, 0) == CU_ERROR_INVALID_VALUE);
	CHECK(DRIVER(cuMemAdvise_v2)(a, MIB, CU_ADVISE_PREFERRED, host) ==
	      CU_ERROR_INVALID_VALUE);
	CHECK(DRIVER(cuMemPrefetchAsync)(a, MIB, 0, NULL) == CU_ERROR_INVALID_VALUE);
	CHECK(DRIVER(cuMemPrefetchAsync_v2_ptsz)(a, MIB, host, 0, NULL) ==
	      CU_ERROR_INVALID_VALUE);
	CHECK(DRIVER(cuMemDiscardBatchAsync)(&a, &bytes, 1, 0, NULL) ==
	      CU_ERROR_INVALID_VALUE);
	CHECK(DRIVER(cuMemRangeGetAttribute)(&value, sizeof(value), CU_RANGE_PREFERRED, a,
					     MIB) == CU_ERROR_INVALID_VALUE);
	put(a);
}

/* ---- threads ---- */

static struct cu_context *shared_context;

static void *
allocate(void *seed)
{
	unsigned n = (unsigned)(uintptr_t)seed;
	uint64_t live[16] = {0};

	MUST(DRIVER(cuCtxSetCurrent)(shared_context));
	for (unsigned i = 0; i < 2000; i++) {
		unsigned k = (i * 7 + n) % 16;
		size_t bytes = 1 + (size_t)(i * 7919 + n * 104729) %
					   (i % 50 ? 5000 : 3 * MIB);

		if (live[k])
			put(live[k]);
		live[k] = get(bytes);
		CHECK(attribute(CU_POINTER_RANGE_BYTES, live[k]) == bytes);
	}
	for (unsigned k = 0; k < 16; k++)
		put(live[k]);
	return NULL;
}

static void
threads_allocate_beside_each_other(void)
{
	size_t before = free_bytes();
	pthread_t threads[3];

	shared_context = copy_test_context();
	for (uintptr_t i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, allocate, (void *)(i + 1)));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	CHECK(free_bytes() == before);
}

int
main(void)
{
	standin = copy_test_open("32M");
	a_program_that_repeats_gets_the_same_addresses();
	total_is_all_tiers_and_free_moves_with_allocations();
	what_the_driver_refuses_is_refused();
	rows_of_pitched_memory_are_aligned();
	stream_ordered_room_goes_round();
	pools_count_what_they_have();
	pools_of_managed_or_shared_memory_are_the_drivers();
	captured_allocations_are_the_graphs();
	address_ranges_are_allocations();
	hints_for_what_is_not_managed_are_refused();
	threads_allocate_beside_each_other();
	more_than_there_is_is_out_of_memory_and_life_goes_on();
	blocks_beyond_the_device_keep_their_contents();
	CHECK(!standin->violations());
	return 0;
}
