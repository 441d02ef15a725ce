/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of the driver's calls that make tensor maps and are wrapped (tensormap.c). Tensor
 * maps are descriptors of 128 bytes that only the driver and the hardware read.
 */
#ifndef SL_PRELOAD_API_TENSORMAP_H
#define SL_PRELOAD_API_TENSORMAP_H

#include "preload/api/driver_api.h"

struct cu_tensor_map {
	uint64_t opaque[16];
};

enum cu_tensor_type {
	CU_TENSOR_U8,
	CU_TENSOR_U16,
	CU_TENSOR_U32,
	CU_TENSOR_S32,
	CU_TENSOR_U64,
	CU_TENSOR_S64,
	CU_TENSOR_F16,
	CU_TENSOR_F32,
	CU_TENSOR_F64,
	CU_TENSOR_BF16,
	CU_TENSOR_F32_FTZ,
	CU_TENSOR_TF32,
	CU_TENSOR_TF32_FTZ,
	CU_TENSOR_16U4_ALIGN8,  /* 16 elements of 4 bits in 8 bytes */
	CU_TENSOR_16U4_ALIGN16, /* and 8 bytes of nothing behind them */
	CU_TENSOR_16U6_ALIGN16  /* 16 elements of 6 bits and 4 bytes of nothing */
};

/* dims: in elements; strides: of all dimensions but the first, in bytes. The enumerations behind them say
 * nothing of where the tensor lies but for interleave, 0: dimension by dimension. */
PL_EXPORT int cuTensorMapEncodeTiled(struct cu_tensor_map *map, int type, uint32_t rank,
				     void *addr, const uint64_t *dims,
				     const uint64_t *strides, const uint32_t *box,
				     const uint32_t *steps, int interleave, int swizzle,
				     int promotion, int fill);
PL_EXPORT int cuTensorMapEncodeIm2col(struct cu_tensor_map *map, int type, uint32_t rank,
				      void *addr, const uint64_t *dims,
				      const uint64_t *strides, const int *lower,
				      const int *upper, uint32_t channels, uint32_t pixels,
				      const uint32_t *steps, int interleave, int swizzle,
				      int promotion, int fill);
PL_EXPORT int cuTensorMapEncodeIm2colWide(struct cu_tensor_map *map, int type,
					  uint32_t rank, void *addr, const uint64_t *dims,
					  const uint64_t *strides, int lower, int upper,
					  uint32_t channels, uint32_t pixels,
					  const uint32_t *steps, int interleave, int mode,
					  int swizzle, int promotion, int fill);
PL_EXPORT int cuTensorMapReplaceAddress(struct cu_tensor_map *map, void *addr);

#endif
