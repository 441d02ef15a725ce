/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rest of the stand-in driver's fills, beside those that the back end calls (copy.c): synchronous
 * forms, forms whose stream 0 is the thread's own, 16 bits, rectangles (queued row by row).
 *
 * Threads: any; the.lock as copy.c says.
 */
#include "preload/api/api_fill.h"
#include "api.h"

static int
fill(uint64_t to, unsigned value, unsigned value_bytes, size_t n, struct cu_stream *stream)
{
	return memset_submit(value_bytes == 1 ? CALL_cuMemsetD8Async : CALL_cuMemsetD32Async,
			     to, value, value_bytes, n, stream);
}

static int
fill_rows(uint64_t to, size_t pitch, unsigned value, unsigned value_bytes, size_t width,
	  size_t height, struct cu_stream *stream)
{
	const struct side side = {.addr = to, .pitch = pitch};
	int code = CU_SUCCESS;

	if (!width || !height)
		return CU_SUCCESS;
	if ((height > 1 && pitch < width * value_bytes) ||
	    side_is_mixed(&side, width * value_bytes, height, 1))
		return CU_ERROR_INVALID_VALUE;
	for (size_t y = 0; y < height && !code; y++)
		code = fill(side_at(&side, y, 0), value, value_bytes, width, stream);
	return code;
}

int
cuMemsetD8_v2(uint64_t to, unsigned char value, size_t n)
{
	return fill(to, value, 1, n, NULL);
}

int
cuMemsetD8_v2_ptds(uint64_t to, unsigned char value, size_t n)
{
	return fill(to, value, 1, n, own(NULL));
}

int
cuMemsetD16_v2(uint64_t to, unsigned short value, size_t n)
{
	return fill(to, value, 2, n, NULL);
}

int
cuMemsetD16_v2_ptds(uint64_t to, unsigned short value, size_t n)
{
	return fill(to, value, 2, n, own(NULL));
}

int
cuMemsetD32_v2(uint64_t to, unsigned value, size_t n)
{
	return fill(to, value, 4, n, NULL);
}

int
cuMemsetD32_v2_ptds(uint64_t to, unsigned value, size_t n)
{
	return fill(to, value, 4, n, own(NULL));
}

int
cuMemsetD8Async_ptsz(uint64_t to, unsigned char value, size_t n, struct cu_stream *stream)
{
	return fill(to, value, 1, n, own(stream));
}

int
cuMemsetD16Async(uint64_t to, unsigned short value, size_t n, struct cu_stream *stream)
{
	return fill(to, value, 2, n, stream);
}

int
cuMemsetD16Async_ptsz(uint64_t to, unsigned short value, size_t n, struct cu_stream *stream)
{
	return fill(to, value, 2, n, own(stream));
}

int
cuMemsetD32Async_ptsz(uint64_t to, unsigned value, size_t n, struct cu_stream *stream)
{
	return fill(to, value, 4, n, own(stream));
}

int
cuMemsetD2D8_v2(uint64_t to, size_t pitch, unsigned char value, size_t width, size_t height)
{
	return fill_rows(to, pitch, value, 1, width, height, NULL);
}

int
cuMemsetD2D8_v2_ptds(uint64_t to, size_t pitch, unsigned char value, size_t width,
		     size_t height)
{
	return fill_rows(to, pitch, value, 1, width, height, own(NULL));
}

int
cuMemsetD2D16_v2(uint64_t to, size_t pitch, unsigned short value, size_t width, size_t height)
{
	return fill_rows(to, pitch, value, 2, width, height, NULL);
}

int
cuMemsetD2D16_v2_ptds(uint64_t to, size_t pitch, unsigned short value, size_t width,
		      size_t height)
{
	return fill_rows(to, pitch, value, 2, width, height, own(NULL));
}

int
cuMemsetD2D32_v2(uint64_t to, size_t pitch, unsigned value, size_t width, size_t height)
{
	return fill_rows(to, pitch, value, 4, width, height, NULL);
}

int
cuMemsetD2D32_v2_ptds(uint64_t to, size_t pitch, unsigned value, size_t width, size_t height)
{
	return fill_rows(to, pitch, value, 4, width, height, own(NULL));
}

int
cuMemsetD2D8Async(uint64_t to, size_t pitch, unsigned char value, size_t width,
		  size_t height, struct cu_stream *stream)
{
	return fill_rows(to, pitch, value, 1, width, height, stream);
}

int
cuMemsetD2D8Async_ptsz(uint64_t to, size_t pitch, unsigned char value, size_t width,
		       size_t height, struct cu_stream *stream)
{
	return fill_rows(to, pitch, value, 1, width, height, own(stream));
}

int
cuMemsetD2D16Async(uint64_t to, size_t pitch, unsigned short value, size_t width,
		   size_t height, struct cu_stream *stream)
{
	return fill_rows(to, pitch, value, 2, width, height, stream);
}

int
cuMemsetD2D16Async_ptsz(uint64_t to, size_t pitch, unsigned short value, size_t width,
			size_t height, struct cu_stream *stream)
{
	return fill_rows(to, pitch, value, 2, width, height, own(stream));
}

int
cuMemsetD2D32Async(uint64_t to, size_t pitch, unsigned value, size_t width, size_t height,
		   struct cu_stream *stream)
{
	return fill_rows(to, pitch, value, 4, width, height, stream);
}

int
cuMemsetD2D32Async_ptsz(uint64_t to, size_t pitch, unsigned value, size_t width,
			size_t height, struct cu_stream *stream)
{
	return fill_rows(to, pitch, value, 4, width, height, own(stream));
}
