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

PL_EXPORT int cuMemcpy(uint64_t to, uint64_t from, size_t bytes);
PL_EXPORT int cuMemcpy_ptds(uint64_t to, uint64_t from, size_t bytes);
PL_EXPORT int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes,
			    struct cu_stream *stream);
PL_EXPORT int cuMemcpyAsync_ptsz(uint64_t to, uint64_t from, size_t bytes,
				 struct cu_stream *stream);

PL_EXPORT int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes);
PL_EXPORT int cuMemcpyHtoD_v2_ptds(uint64_t to, const void *from, size_t bytes);
PL_EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes,
				   struct cu_stream *stream);
PL_EXPORT int cuMemcpyHtoDAsync_v2_ptsz(uint64_t to, const void *from, size_t bytes,
					struct cu_stream *stream);

PL_EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);
PL_EXPORT int cuMemcpyDtoH_v2_ptds(void *to, uint64_t from, size_t bytes);
PL_EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes,
				   struct cu_stream *stream);
PL_EXPORT int cuMemcpyDtoHAsync_v2_ptsz(void *to, uint64_t from, size_t bytes,
					struct cu_stream *stream);

PL_EXPORT int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes);
PL_EXPORT int cuMemcpyDtoD_v2_ptds(uint64_t to, uint64_t from, size_t bytes);
PL_EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes,
				   struct cu_stream *stream);
PL_EXPORT int cuMemcpyDtoDAsync_v2_ptsz(uint64_t to, uint64_t from, size_t bytes,
					struct cu_stream *stream);

PL_EXPORT int cuMemcpyPeer(uint64_t to, struct cu_context *to_context, uint64_t from,
			   struct cu_context *from_context, size_t bytes);
PL_EXPORT int cuMemcpyPeer_ptds(uint64_t to, struct cu_context *to_context, uint64_t from,
				struct cu_context *from_context, size_t bytes);
PL_EXPORT int cuMemcpyPeerAsync(uint64_t to, struct cu_context *to_context, uint64_t from,
				struct cu_context *from_context, size_t bytes,
				struct cu_stream *stream);
PL_EXPORT int cuMemcpyPeerAsync_ptsz(uint64_t to, struct cu_context *to_context,
				     uint64_t from, struct cu_context *from_context,
				     size_t bytes, struct cu_stream *stream);

/* Arrays are the driver's; offsets in bytes. */
PL_EXPORT int cuMemcpyDtoA_v2(struct cu_array *to, size_t to_offset, uint64_t from,
			      size_t bytes);
PL_EXPORT int cuMemcpyDtoA_v2_ptds(struct cu_array *to, size_t to_offset, uint64_t from,
				   size_t bytes);
PL_EXPORT int cuMemcpyAtoD_v2(uint64_t to, struct cu_array *from, size_t from_offset,
			      size_t bytes);
PL_EXPORT int cuMemcpyAtoD_v2_ptds(uint64_t to, struct cu_array *from, size_t from_offset,
				   size_t bytes);
PL_EXPORT int cuMemcpyHtoA_v2(struct cu_array *to, size_t to_offset, const void *from,
			      size_t bytes);
PL_EXPORT int cuMemcpyHtoA_v2_ptds(struct cu_array *to, size_t to_offset,
				   const void *from, size_t bytes);
PL_EXPORT int cuMemcpyAtoH_v2(void *to, struct cu_array *from, size_t from_offset,
			      size_t bytes);
PL_EXPORT int cuMemcpyAtoH_v2_ptds(void *to, struct cu_array *from, size_t from_offset,
				   size_t bytes);
PL_EXPORT int cuMemcpyHtoAAsync_v2(struct cu_array *to, size_t to_offset, const void *from,
				   size_t bytes, struct cu_stream *stream);
PL_EXPORT int cuMemcpyHtoAAsync_v2_ptsz(struct cu_array *to, size_t to_offset,
					const void *from, size_t bytes,
					struct cu_stream *stream);
PL_EXPORT int cuMemcpyAtoHAsync_v2(void *to, struct cu_array *from, size_t from_offset,
				   size_t bytes, struct cu_stream *stream);
PL_EXPORT int cuMemcpyAtoHAsync_v2_ptsz(void *to, struct cu_array *from, size_t from_offset,
					size_t bytes, struct cu_stream *stream);

/* ---- copy2d.c: rectangles and boxes -------------------------------------------------------- */

PL_EXPORT int cuMemcpy2D_v2(const struct cu_copy_2d *copy);
PL_EXPORT int cuMemcpy2D_v2_ptds(const struct cu_copy_2d *copy);
PL_EXPORT int cuMemcpy2DUnaligned_v2(const struct cu_copy_2d *copy);
PL_EXPORT int cuMemcpy2DUnaligned_v2_ptds(const struct cu_copy_2d *copy);
PL_EXPORT int cuMemcpy2DAsync_v2(const struct cu_copy_2d *copy, struct cu_stream *stream);
PL_EXPORT int cuMemcpy2DAsync_v2_ptsz(const struct cu_copy_2d *copy,
				      struct cu_stream *stream);
PL_EXPORT int cuMemcpy3D_v2(const struct cu_copy_3d *copy);
PL_EXPORT int cuMemcpy3D_v2_ptds(const struct cu_copy_3d *copy);
PL_EXPORT int cuMemcpy3DAsync_v2(const struct cu_copy_3d *copy, struct cu_stream *stream);
PL_EXPORT int cuMemcpy3DAsync_v2_ptsz(const struct cu_copy_3d *copy,
				      struct cu_stream *stream);
PL_EXPORT int cuMemcpy3DPeer(const struct cu_copy_3d *copy);
PL_EXPORT int cuMemcpy3DPeer_ptds(const struct cu_copy_3d *copy);
PL_EXPORT int cuMemcpy3DPeerAsync(const struct cu_copy_3d *copy, struct cu_stream *stream);
PL_EXPORT int cuMemcpy3DPeerAsync_ptsz(const struct cu_copy_3d *copy,
				       struct cu_stream *stream);

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
PL_EXPORT int cuMemcpyBatchAsync(uint64_t *to, uint64_t *from, size_t *bytes, size_t n,
				 struct cu_copy_attributes *attributes, size_t *firsts,
				 size_t n_attributes, size_t *failed,
				 struct cu_stream *stream);
PL_EXPORT int cuMemcpyBatchAsync_ptsz(uint64_t *to, uint64_t *from, size_t *bytes,
				      size_t n, struct cu_copy_attributes *attributes,
				      size_t *firsts, size_t n_attributes, size_t *failed,
				      struct cu_stream *stream);
PL_EXPORT int cuMemcpyBatchAsync_v2(uint64_t *to, uint64_t *from, size_t *bytes, size_t n,
				    struct cu_copy_attributes *attributes, size_t *firsts,
				    size_t n_attributes, struct cu_stream *stream);
PL_EXPORT int cuMemcpyBatchAsync_v2_ptsz(uint64_t *to, uint64_t *from, size_t *bytes,
					 size_t n, struct cu_copy_attributes *attributes,
					 size_t *firsts, size_t n_attributes,
					 struct cu_stream *stream);
PL_EXPORT int cuMemcpy3DBatchAsync(size_t n, struct cu_batch_3d *copies, size_t *failed,
				   unsigned long long flags, struct cu_stream *stream);
PL_EXPORT int cuMemcpy3DBatchAsync_ptsz(size_t n, struct cu_batch_3d *copies, size_t *failed,
					unsigned long long flags, struct cu_stream *stream);
PL_EXPORT int cuMemcpy3DBatchAsync_v2(size_t n, struct cu_batch_3d *copies,
				      unsigned long long flags, struct cu_stream *stream);
PL_EXPORT int cuMemcpy3DBatchAsync_v2_ptsz(size_t n, struct cu_batch_3d *copies,
					   unsigned long long flags,
					   struct cu_stream *stream);
PL_EXPORT int cuMemBatchDecompressAsync(struct cu_decompress *parts, size_t n, unsigned flags,
					size_t *failed, struct cu_stream *stream);
PL_EXPORT int cuMemBatchDecompressAsync_ptsz(struct cu_decompress *parts, size_t n,
					     unsigned flags, size_t *failed,
					     struct cu_stream *stream);

#endif
