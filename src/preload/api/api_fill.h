/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of the driver's fills that are wrapped (fill.c). n, width: elements of 1, 2 or 4 bytes;
 * pitch: bytes from row to row. The first versions take 32-bit addresses and are forwarded.
 */
#ifndef SL_PRELOAD_API_FILL_H
#define SL_PRELOAD_API_FILL_H

#include "preload/api/driver_api.h"

PL_EXPORT int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t n);
PL_EXPORT int cuMemsetD8_v2_ptds(uint64_t to, unsigned char value, size_t n);
PL_EXPORT int cuMemsetD16_v2(uint64_t to, unsigned short value, size_t n);
PL_EXPORT int cuMemsetD16_v2_ptds(uint64_t to, unsigned short value, size_t n);
PL_EXPORT int cuMemsetD32_v2(uint64_t to, unsigned value, size_t n);
PL_EXPORT int cuMemsetD32_v2_ptds(uint64_t to, unsigned value, size_t n);

PL_EXPORT int cuMemsetD8Async(uint64_t to, unsigned char value, size_t n,
			      struct cu_stream *stream);
PL_EXPORT int cuMemsetD8Async_ptsz(uint64_t to, unsigned char value, size_t n,
				   struct cu_stream *stream);
PL_EXPORT int cuMemsetD16Async(uint64_t to, unsigned short value, size_t n,
			       struct cu_stream *stream);
PL_EXPORT int cuMemsetD16Async_ptsz(uint64_t to, unsigned short value, size_t n,
				    struct cu_stream *stream);
PL_EXPORT int cuMemsetD32Async(uint64_t to, unsigned value, size_t n,
			       struct cu_stream *stream);
PL_EXPORT int cuMemsetD32Async_ptsz(uint64_t to, unsigned value, size_t n,
				    struct cu_stream *stream);

PL_EXPORT int cuMemsetD2D8_v2(uint64_t to, size_t pitch, unsigned char value,
			      size_t width, size_t height);
PL_EXPORT int cuMemsetD2D8_v2_ptds(uint64_t to, size_t pitch, unsigned char value,
				   size_t width, size_t height);
PL_EXPORT int cuMemsetD2D16_v2(uint64_t to, size_t pitch, unsigned short value,
			       size_t width, size_t height);
PL_EXPORT int cuMemsetD2D16_v2_ptds(uint64_t to, size_t pitch, unsigned short value,
				    size_t width, size_t height);
PL_EXPORT int cuMemsetD2D32_v2(uint64_t to, size_t pitch, unsigned value, size_t width,
			       size_t height);
PL_EXPORT int cuMemsetD2D32_v2_ptds(uint64_t to, size_t pitch, unsigned value,
				    size_t width, size_t height);

PL_EXPORT int cuMemsetD2D8Async(uint64_t to, size_t pitch, unsigned char value,
				size_t width, size_t height, struct cu_stream *stream);
PL_EXPORT int cuMemsetD2D8Async_ptsz(uint64_t to, size_t pitch, unsigned char value,
				     size_t width, size_t height, struct cu_stream *stream);
PL_EXPORT int cuMemsetD2D16Async(uint64_t to, size_t pitch, unsigned short value,
				 size_t width, size_t height, struct cu_stream *stream);
PL_EXPORT int cuMemsetD2D16Async_ptsz(uint64_t to, size_t pitch, unsigned short value,
				      size_t width, size_t height, struct cu_stream *stream);
PL_EXPORT int cuMemsetD2D32Async(uint64_t to, size_t pitch, unsigned value, size_t width,
				 size_t height, struct cu_stream *stream);
PL_EXPORT int cuMemsetD2D32Async_ptsz(uint64_t to, size_t pitch, unsigned value,
				      size_t width, size_t height, struct cu_stream *stream);

#endif
