/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Managed memory that the library serves (managed=ours). Host code and the device see each
 * other's writes, also beyond the device's memory. Hints are accepted.
 */
#include "copy_test.h"

#include <string.h>

#include "preload/api/api_alloc.h"
#include "preload/api/api_query.h"

#define MIB ((size_t)1 << 20)

static uint64_t
attribute(int which, uint64_t addr)
{
	uint64_t word = 0;

	MUST(DRIVER(cuPointerGetAttribute)(&word, which, addr));
	return word;
}

static void
host_and_device_see_each_other(uint64_t addr, size_t bytes, unsigned char byte)
{
	unsigned char *host = (unsigned char *)(uintptr_t)addr, *copy = malloc(bytes);

	CHECK(copy);
	memset(host, byte, bytes);
	MUST(DRIVER(cuMemcpyDtoH_v2)(copy, addr, bytes));
	for (size_t i = 0; i < bytes; i++)
		CHECK(copy[i] == byte);
	MUST(DRIVER(cuMemsetD8_v2)(addr, (unsigned char)(byte + 1), bytes));
	MUST(DRIVER(cuCtxSynchronize)());
	for (size_t i = 0; i < bytes; i++)
		CHECK(host[i] == (unsigned char)(byte + 1));
	free(copy);
}

static void
hints_are_taken(uint64_t addr, size_t bytes)
{
	struct cu_location host = {CU_LOCATION_HOST, 0}, device = {CU_LOCATION_DEVICE, 0};
	size_t sizes[] = {bytes / 2, bytes / 2}, first = 0;
	uint64_t addrs[] = {addr, addr + bytes / 2};
	int value = 7, list[3] = {7, 7, 7},
	    which[] = {CU_RANGE_READ_MOSTLY, CU_RANGE_ACCESSED_BY};
	void *values[] = {&value, list};
	size_t value_bytes[] = {sizeof(value), sizeof(list)};

	MUST(DRIVER(cuMemAdvise)(addr, bytes, CU_ADVISE_READ_MOSTLY, 0));
	MUST(DRIVER(cuMemAdvise_v2)(addr, bytes, CU_ADVISE_PREFERRED, host));
	CHECK(DRIVER(cuMemAdvise)(addr, bytes + 1, CU_ADVISE_READ_MOSTLY, 0) ==
	      CU_ERROR_INVALID_VALUE);
	CHECK(DRIVER(cuMemAdvise)(addr, bytes, 99, 0) == CU_ERROR_INVALID_VALUE);
	MUST(DRIVER(cuMemPrefetchAsync)(addr, bytes, CU_DEVICE_IS_CPU, NULL));
	MUST(DRIVER(cuMemPrefetchAsync_v2)(addr, bytes, device, 0, NULL));
	MUST(DRIVER(cuMemPrefetchBatchAsync)(addrs, sizes, 2, &host, &first, 1, 0, NULL));
	MUST(DRIVER(cuMemDiscardBatchAsync_ptsz)(addrs, sizes, 1, 0, NULL));
	MUST(DRIVER(cuMemDiscardAndPrefetchBatchAsync)(addrs, sizes, 2, &device, &first,
						       1, 0, NULL));
	first = 1;
	CHECK(DRIVER(cuMemPrefetchBatchAsync)(addrs, sizes, 2, &host, &first, 1, 0, NULL) ==
	      CU_ERROR_INVALID_VALUE);
	MUST(DRIVER(cuStreamAttachMemAsync)(NULL, addr, 0, 4));
	MUST(DRIVER(cuMemRangeGetAttribute)(&value, sizeof(value), CU_RANGE_PREFERRED,
					    addr, bytes));
	CHECK(value == CU_DEVICE_NONE);
	MUST(DRIVER(cuMemRangeGetAttributes)(values, value_bytes, which, 2, addr, bytes));
	CHECK(value == 0 && list[0] == CU_DEVICE_NONE && list[2] == CU_DEVICE_NONE);
	CHECK(DRIVER(cuMemRangeGetAttribute)(&value, 3, CU_RANGE_PREFERRED, addr, bytes) ==
	      CU_ERROR_INVALID_VALUE);
}

int
main(void)
{
	static uint64_t more[10];
	const struct sl_standin *standin;
	uint64_t addr, first;

	setenv("SLUICE_RUN", "quiet=1,managed=ours", 1);
	standin = copy_test_open("32M");
	MUST(DRIVER(cuMemAlloc_v2)(&first, 512));
	MUST(DRIVER(cuMemAllocManaged)(&addr, 3 * MIB, CU_ATTACH_GLOBAL));
	if (!attribute(CU_POINTER_IS_MANAGED, addr)) {
		printf("SKIP: host code has no mapping of a space here (userfaultfd)\n");
		return 77;
	}
	CHECK(attribute(CU_POINTER_HOST_POINTER, addr + 5) == addr + 5);
	CHECK(!attribute(CU_POINTER_IS_MANAGED, first));
	host_and_device_see_each_other(addr, 3 * MIB, 1);
	hints_are_taken(addr, 3 * MIB);
	for (int i = 0; i < 10; i++) {
		MUST(DRIVER(cuMemAllocManaged)(&more[i], 6 * MIB, CU_ATTACH_HOST));
		host_and_device_see_each_other(more[i], 6 * MIB, (unsigned char)(10 * i));
	}
	for (int i = 0; i < 10; i++)
		for (size_t at = 0; at < 6 * MIB; at += 4096)
			CHECK(*(unsigned char *)(uintptr_t)(more[i] + at) == 10 * i + 1);
	hints_are_taken(addr, 3 * MIB);
	host_and_device_see_each_other(addr, 3 * MIB, 77);
	for (int i = 0; i < 10; i++)
		MUST(DRIVER(cuMemFree_v2)(more[i]));
	MUST(DRIVER(cuMemFree_v2)(addr));
	MUST(DRIVER(cuMemFree_v2)(first));
	CHECK(DRIVER(cuMemAllocManaged)(&addr, MIB, 3) == CU_ERROR_INVALID_VALUE);
	CHECK(!standin->violations());
	return 0;
}
