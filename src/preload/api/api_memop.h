/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of the driver's memory operations on streams that are wrapped (memop.c). Both
 * versions of each have the same parameters. They differ in the driver's support.
 */
#ifndef SL_PRELOAD_API_MEMOP_H
#define SL_PRELOAD_API_MEMOP_H

#include "preload/api/driver_api.h"

enum cu_memop_type {
	CU_MEMOP_WAIT_32 = 1,
	CU_MEMOP_WRITE_32 = 2,
	CU_MEMOP_FLUSH = 3,
	CU_MEMOP_WAIT_64 = 4,
	CU_MEMOP_WRITE_64 = 5,
	CU_MEMOP_BARRIER = 6
};

/* One operation of cuStreamBatchMemOp(); address and value are of waits and writes. */
struct cu_memop {
	int type; /* enum cu_memop_type */
	unsigned barrier_flags;
	uint64_t addr;
	uint64_t value;
	unsigned flags;
	uint64_t alias; /* the driver's */
	uint64_t reserved;
};

_Static_assert(sizeof(struct cu_memop) == 48, "ABI");

/* clang-format off */
PL_BOTH(cuStreamWaitValue32, ptsz,
	(struct cu_stream *stream, uint64_t addr, uint32_t value, unsigned flags));
PL_BOTH(cuStreamWaitValue32_v2, ptsz,
	(struct cu_stream *stream, uint64_t addr, uint32_t value, unsigned flags));
PL_BOTH(cuStreamWriteValue32, ptsz,
	(struct cu_stream *stream, uint64_t addr, uint32_t value, unsigned flags));
PL_BOTH(cuStreamWriteValue32_v2, ptsz,
	(struct cu_stream *stream, uint64_t addr, uint32_t value, unsigned flags));
PL_BOTH(cuStreamWaitValue64, ptsz,
	(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned flags));
PL_BOTH(cuStreamWaitValue64_v2, ptsz,
	(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned flags));
PL_BOTH(cuStreamWriteValue64, ptsz,
	(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned flags));
PL_BOTH(cuStreamWriteValue64_v2, ptsz,
	(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned flags));
PL_BOTH(cuStreamBatchMemOp, ptsz,
	(struct cu_stream *stream, unsigned n, struct cu_memop *ops, unsigned flags));
PL_BOTH(cuStreamBatchMemOp_v2, ptsz,
	(struct cu_stream *stream, unsigned n, struct cu_memop *ops, unsigned flags));
/* clang-format on */

#endif
