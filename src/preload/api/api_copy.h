/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of the driver's copies that are wrapped: copy.c, copy2d.c and copy_batch.c. Each
 * has two forms; _ptds and _ptsz take stream 0 for the calling thread's own. First versions of
 * calls with a second one take 32-bit addresses, and ours never fit. They are forwarded.
 */
#ifndef SL_PRELOAD_API_COPY_H
#define SL_PRELOAD_API_COPY_H

#include "preload/api/driver_api.h"

/* ---- copy.c: bytes in a row ---------------------------------------------------------------- */

PL_BOTH(cuMemcpy, ptds, (uint64_t to, uint64_t from, size_t bytes));
PL_BOTH(cuMemcpyAsync, ptsz,
	(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream));

PL_BOTH(cuMemcpyHtoD_v2, ptds, (uint64_t to, const void *from, size_t bytes));
PL_BOTH(cuMemcpyHtoDAsync_v2, ptsz,
	(uint64_t to, const void *from, size_t bytes, struct cu_stream *stream));

PL_BOTH(cuMemcpyDtoH_v2, ptds, (void *to, uint64_t from, size_t bytes));
PL_BOTH(cuMemcpyDtoHAsync_v2, ptsz,
	(void *to, uint64_t from, size_t bytes, struct cu_stream *stream));

PL_BOTH(cuMemcpyDtoD_v2, ptds, (uint64_t to, uint64_t from, size_t bytes));
PL_BOTH(cuMemcpyDtoDAsync_v2, ptsz,
	(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream));

PL_BOTH(cuMemcpyPeer, ptds,
	(uint64_t to, struct cu_context *to_context, uint64_t from,
	 struct cu_context *from_context, size_t bytes));
PL_BOTH(cuMemcpyPeerAsync, ptsz,
	(uint64_t to, struct cu_context *to_context, uint64_t from,
	 struct cu_context *from_context, size_t bytes, struct cu_stream *stream));

/* Arrays are the driver's; offsets in bytes. */
/* clang-format off */
PL_BOTH(cuMemcpyDtoA_v2, ptds,
	(struct cu_array *to, size_t to_offset, uint64_t from, size_t bytes));
PL_BOTH(cuMemcpyAtoD_v2, ptds,
	(uint64_t to, struct cu_array *from, size_t from_offset, size_t bytes));
PL_BOTH(cuMemcpyHtoA_v2, ptds,
	(struct cu_array *to, size_t to_offset, const void *from, size_t bytes));
PL_BOTH(cuMemcpyAtoH_v2, ptds,
	(void *to, struct cu_array *from, size_t from_offset, size_t bytes));
PL_BOTH(cuMemcpyHtoAAsync_v2, ptsz,
	(struct cu_array *to, size_t to_offset, const void *from, size_t bytes,
	 struct cu_stream *stream));
PL_BOTH(cuMemcpyAtoHAsync_v2, ptsz,
	(void *to, struct cu_array *from, size_t from_offset, size_t bytes,
	 struct cu_stream *stream));
/* clang-format on */

/* ---- copy2d.c: rectangles and boxes -------------------------------------------------------- */

PL_BOTH(cuMemcpy2D_v2, ptds, (const struct cu_copy_2d *copy));
PL_BOTH(cuMemcpy2DUnaligned_v2, ptds, (const struct cu_copy_2d *copy));
PL_BOTH(cuMemcpy2DAsync_v2, ptsz, (const struct cu_copy_2d *copy, struct cu_stream *stream));
PL_BOTH(cuMemcpy3D_v2, ptds, (const struct cu_copy_3d *copy));
PL_BOTH(cuMemcpy3DAsync_v2, ptsz, (const struct cu_copy_3d *copy, struct cu_stream *stream));
PL_BOTH(cuMemcpy3DPeer, ptds, (const struct cu_copy_3d *copy));
PL_BOTH(cuMemcpy3DPeerAsync, ptsz, (const struct cu_copy_3d *copy, struct cu_stream *stream));

/* ---- copy_batch.c: many at once ------------------------------------------------------------ */

/* Which attributes the copies from an index on have. */
struct cu_copy_attributes {
	int access_order;
	struct cu_location from_hint, to_hint;
	unsigned flags;
};

enum cu_operand_type { CU_OPERAND_POINTER = 1, CU_OPERAND_ARRAY = 2 };

/* A side of a copy in a batch of boxes. Lengths in elements, which are bytes unless the other side is
 * an array; 0: as the extent. */
struct cu_operand {
	int type; /* enum cu_operand_type */
	union {
		struct {
			uint64_t addr;
			size_t row, layer_rows;
			struct cu_location hint;
		} pointer;
		struct {
			struct cu_array *array;
			size_t x, y, z;
		} array;
	};
};

struct cu_batch_3d {
	struct cu_operand from, to;
	size_t width, height, depth;
	int access_order;
	unsigned flags;
};

struct cu_decompress {
	size_t from_bytes, to_bytes;
	uint32_t *written_bytes; /* device memory */
	const void *from;
	void *to;
	int algorithm;
	unsigned char reserved[20];
};

_Static_assert(sizeof(struct cu_copy_attributes) == 24, "ABI");
_Static_assert(sizeof(struct cu_operand) == 40, "ABI");
_Static_assert(sizeof(struct cu_batch_3d) == 112, "ABI");
_Static_assert(sizeof(struct cu_decompress) == 64, "ABI");

/* CUDA 12.8 and 12.9: with the index of what failed. */
/* clang-format off */
PL_BOTH(cuMemcpyBatchAsync, ptsz,
	(uint64_t * to, uint64_t *from, size_t *bytes, size_t n,
	 struct cu_copy_attributes *attributes, size_t *firsts, size_t n_attributes,
	 size_t *failed, struct cu_stream *stream));
PL_BOTH(cuMemcpyBatchAsync_v2, ptsz,
	(uint64_t * to, uint64_t *from, size_t *bytes, size_t n,
	 struct cu_copy_attributes *attributes, size_t *firsts, size_t n_attributes,
	 struct cu_stream *stream));
PL_BOTH(cuMemcpy3DBatchAsync, ptsz,
	(size_t n, struct cu_batch_3d *copies, size_t *failed, unsigned long long flags,
	 struct cu_stream *stream));
PL_BOTH(cuMemcpy3DBatchAsync_v2, ptsz,
	(size_t n, struct cu_batch_3d *copies, unsigned long long flags,
	 struct cu_stream *stream));
PL_BOTH(cuMemBatchDecompressAsync, ptsz,
	(struct cu_decompress *parts, size_t n, unsigned flags, size_t *failed,
	 struct cu_stream *stream));
/* clang-format on */

#endif
