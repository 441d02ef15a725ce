/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of the driver's queries about memory (query.c) and its hints (hint.c). The first
 * versions of cuMemGetInfo, cuDeviceTotalMem and cuMemGetAddressRange have 32-bit sizes: they
 * are forwarded.
 */
#ifndef SL_PRELOAD_API_QUERY_H
#define SL_PRELOAD_API_QUERY_H

#include "preload/api/driver_api.h"

/* ---- query.c ---- */

/* Beside those of cuda_abi.h. */
enum {
	CU_POINTER_P2P_TOKENS = 5,
	CU_POINTER_SYNC_MEMOPS = 6,
	CU_POINTER_BUFFER_ID = 7,
	CU_POINTER_IS_IPC_CAPABLE = 10,
	CU_POINTER_HANDLE_TYPES = 14,
	CU_POINTER_IS_RDMA_CAPABLE = 15,
	CU_POINTER_ACCESS_FLAGS = 16,
	CU_POINTER_POOL = 17,
	CU_POINTER_MAPPING_BYTES = 18,
	CU_POINTER_MAPPING_START = 19,
	CU_POINTER_BLOCK_ID = 20,
	CU_POINTER_IS_DECOMPRESS_CAPABLE = 21
};

enum { CU_DEVICE_NONE = -2, CU_DEVICE_IS_CPU = -1 };

PL_EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
PL_EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device);
PL_EXPORT int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t addr);
PL_EXPORT int cuPointerGetAttribute(void *value, int attribute, uint64_t addr);
PL_EXPORT int cuPointerGetAttributes(unsigned n, int *attributes, void **values,
				     uint64_t addr);
PL_EXPORT int cuPointerSetAttribute(const void *value, int attribute, uint64_t addr);

/* ---- hint.c ---- */

enum {
	CU_RANGE_READ_MOSTLY = 1,
	CU_RANGE_PREFERRED = 2,
	CU_RANGE_ACCESSED_BY = 3,
	CU_RANGE_LAST_PREFETCH = 4,
	CU_RANGE_PREFERRED_TYPE = 5,
	CU_RANGE_PREFERRED_ID = 6,
	CU_RANGE_LAST_PREFETCH_TYPE = 7,
	CU_RANGE_LAST_PREFETCH_ID = 8
};

enum {
	CU_ADVISE_READ_MOSTLY = 1,
	CU_ADVISE_NOT_READ_MOSTLY = 2,
	CU_ADVISE_PREFERRED = 3,
	CU_ADVISE_NOT_PREFERRED = 4,
	CU_ADVISE_ACCESSED_BY = 5,
	CU_ADVISE_NOT_ACCESSED_BY = 6
};

PL_EXPORT int cuMemRangeGetAttribute(void *value, size_t value_bytes, int attribute,
				     uint64_t addr, size_t bytes);
PL_EXPORT int cuMemRangeGetAttributes(void **values, size_t *value_bytes, int *attributes,
				      size_t n, uint64_t addr, size_t bytes);
PL_EXPORT int cuMemAdvise(uint64_t addr, size_t bytes, int advice, int device);
PL_EXPORT int cuMemAdvise_v2(uint64_t addr, size_t bytes, int advice,
			     struct cu_location location);
/* clang-format off */
PL_BOTH(cuMemPrefetchAsync, ptsz,
	(uint64_t addr, size_t bytes, int device, struct cu_stream *stream));
PL_BOTH(cuMemPrefetchAsync_v2, ptsz,
	(uint64_t addr, size_t bytes, struct cu_location location, unsigned flags,
	 struct cu_stream *stream));
PL_BOTH(cuMemPrefetchBatchAsync, ptsz,
	(uint64_t * addrs, size_t *bytes, size_t n, struct cu_location *locations,
	 size_t *first, size_t n_locations, unsigned long long flags,
	 struct cu_stream *stream));
PL_BOTH(cuMemDiscardBatchAsync, ptsz,
	(uint64_t * addrs, size_t *bytes, size_t n, unsigned long long flags,
	 struct cu_stream *stream));
PL_BOTH(cuMemDiscardAndPrefetchBatchAsync, ptsz,
	(uint64_t * addrs, size_t *bytes, size_t n, struct cu_location *locations,
	 size_t *first, size_t n_locations, unsigned long long flags,
	 struct cu_stream *stream));
PL_BOTH(cuStreamAttachMemAsync, ptsz,
	(struct cu_stream *stream, uint64_t addr, size_t bytes, unsigned flags));
/* clang-format on */

#endif
