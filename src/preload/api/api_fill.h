/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prototypes of the driver's fills that are wrapped (fill.c). n, width: elements of 1, 2 or 4 bytes;
 * pitch: bytes from row to row. The first versions take 32-bit addresses and are forwarded.
 */
#ifndef SL_PRELOAD_API_FILL_H
#define SL_PRELOAD_API_FILL_H

#include "preload/api/driver_api.h"

PL_BOTH(cuMemsetD8_v2, ptds, (uint64_t to, unsigned char value, size_t n));
PL_BOTH(cuMemsetD16_v2, ptds, (uint64_t to, unsigned short value, size_t n));
PL_BOTH(cuMemsetD32_v2, ptds, (uint64_t to, unsigned value, size_t n));

PL_BOTH(cuMemsetD8Async, ptsz,
	(uint64_t to, unsigned char value, size_t n, struct cu_stream *stream));
PL_BOTH(cuMemsetD16Async, ptsz,
	(uint64_t to, unsigned short value, size_t n, struct cu_stream *stream));
PL_BOTH(cuMemsetD32Async, ptsz,
	(uint64_t to, unsigned value, size_t n, struct cu_stream *stream));

PL_BOTH(cuMemsetD2D8_v2, ptds,
	(uint64_t to, size_t pitch, unsigned char value, size_t width, size_t height));
PL_BOTH(cuMemsetD2D16_v2, ptds,
	(uint64_t to, size_t pitch, unsigned short value, size_t width, size_t height));
PL_BOTH(cuMemsetD2D32_v2, ptds,
	(uint64_t to, size_t pitch, unsigned value, size_t width, size_t height));

PL_BOTH(cuMemsetD2D8Async, ptsz,
	(uint64_t to, size_t pitch, unsigned char value, size_t width, size_t height,
	 struct cu_stream *stream));
PL_BOTH(cuMemsetD2D16Async, ptsz,
	(uint64_t to, size_t pitch, unsigned short value, size_t width, size_t height,
	 struct cu_stream *stream));
PL_BOTH(cuMemsetD2D32Async, ptsz,
	(uint64_t to, size_t pitch, unsigned value, size_t width, size_t height,
	 struct cu_stream *stream));

#endif
