/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills of bytes in a row and of rectangles. The filled range is the use of a scope around the
 * driver's call. Without gaps between its rows it is not fetched before. A fill that is refused
 * because its range lies in different places is done piece by piece (touch.h).
 *
 * Threads: any.
 */
#include "preload/api/api_fill.h"
#include "preload/calls/touch.h"

struct fill {
	void *real;
	int (*forward)(const struct fill *fill, uint64_t to, size_t width, size_t height);
	uint64_t to;
	size_t pitch, width, height; /* width in elements */
	unsigned value, element_bytes;
	struct cu_stream *stream;
	enum pl_default_stream flavour;
};

#define CALL(fill, name) ((__typeof__(&(name)))(fill)->real)

/* ---- the driver's calls, by their parameters; those of one row ignore the height ---- */

static int
forward_8(const struct fill *f, uint64_t to, size_t width, size_t height)
{
	(void)height;
	return CALL(f, cuMemsetD8_v2)(to, (unsigned char)f->value, width);
}

static int
forward_16(const struct fill *f, uint64_t to, size_t width, size_t height)
{
	(void)height;
	return CALL(f, cuMemsetD16_v2)(to, (unsigned short)f->value, width);
}

static int
forward_32(const struct fill *f, uint64_t to, size_t width, size_t height)
{
	(void)height;
	return CALL(f, cuMemsetD32_v2)(to, f->value, width);
}

static int
forward_8_async(const struct fill *f, uint64_t to, size_t width, size_t height)
{
	(void)height;
	return CALL(f, cuMemsetD8Async)(to, (unsigned char)f->value, width, f->stream);
}

static int
forward_16_async(const struct fill *f, uint64_t to, size_t width, size_t height)
{
	(void)height;
	return CALL(f, cuMemsetD16Async)(to, (unsigned short)f->value, width, f->stream);
}

static int
forward_32_async(const struct fill *f, uint64_t to, size_t width, size_t height)
{
	(void)height;
	return CALL(f, cuMemsetD32Async)(to, f->value, width, f->stream);
}

static int
forward_2d_8(const struct fill *f, uint64_t to, size_t width, size_t height)
{
	return CALL(f, cuMemsetD2D8_v2)(to, f->pitch, (unsigned char)f->value, width, height);
}

static int
forward_2d_16(const struct fill *f, uint64_t to, size_t width, size_t height)
{
	return CALL(f, cuMemsetD2D16_v2)(to, f->pitch, (unsigned short)f->value, width,
					 height);
}

static int
forward_2d_32(const struct fill *f, uint64_t to, size_t width, size_t height)
{
	return CALL(f, cuMemsetD2D32_v2)(to, f->pitch, f->value, width, height);
}

static int
forward_2d_8_async(const struct fill *f, uint64_t to, size_t width, size_t height)
{
	return CALL(f, cuMemsetD2D8Async)(to, f->pitch, (unsigned char)f->value, width,
					  height, f->stream);
}

static int
forward_2d_16_async(const struct fill *f, uint64_t to, size_t width, size_t height)
{
	return CALL(f, cuMemsetD2D16Async)(to, f->pitch, (unsigned short)f->value, width,
					   height, f->stream);
}

static int
forward_2d_32_async(const struct fill *f, uint64_t to, size_t width, size_t height)
{
	return CALL(f, cuMemsetD2D32Async)(to, f->pitch, f->value, width, height, f->stream);
}

/* ---- what all have in common ---- */

static int
piece_fill(void *arg, uint64_t x, uint64_t y, uint64_t z, uint64_t width, uint64_t height)
{
	const struct fill *f = arg;

	(void)z;
	return f->forward(f, f->to + x + y * f->pitch, width / f->element_bytes, height);
}

static int
fill_run(struct fill *f)
{
	struct pl_side to = {.addr = f->to, .pitch = f->pitch};
	const struct pl_side nowhere = {.addr = 0};
	struct pl_use use;
	struct pl_touch touch;
	uint64_t width;
	int result;

	/* An address that is no multiple of the element is for the driver to refuse. */
	if (!pl_active() || f->to % f->element_bytes ||
	    __builtin_mul_overflow(f->width, f->element_bytes, &width))
		return f->forward(f, f->to, f->width, f->height);
	pl_touch_init(&touch, &use, 1);
	touch.kind = PL_TOUCH_FILL;
	pl_touch_add(&touch, f->to, pl_box_bytes(&to, width, f->height, 1),
		     pl_box_is_dense(&to, width, f->height, 1) ? SLUICE_USE_WRITE_ALL
							       : SLUICE_USE_WRITE);
	if (!touch.n)
		return f->forward(f, f->to, f->width, f->height);
	result = pl_touch_begin(&touch, f->stream, f->flavour);
	if (result)
		return result;
	result = f->forward(f, f->to, f->width, f->height);
	if (pl_touch_is_split(&touch, result)) {
		result = pl_pieces(&to, &nowhere, width, f->height, 1, piece_fill, f);
		PL_COUNT(copies_split, result == CU_SUCCESS);
	}
	pl_touch_end(&touch);
	return result;
}

static int
fill_row(void *real,
	 int (*forward)(const struct fill *fill, uint64_t to, size_t width, size_t height),
	 uint64_t to, unsigned value, unsigned element_bytes, size_t n,
	 struct cu_stream *stream, enum pl_default_stream flavour)
{
	struct fill f = {.real = real,
			 .forward = forward,
			 .to = to,
			 .width = n,
			 .height = 1,
			 .value = value,
			 .element_bytes = element_bytes,
			 .stream = stream,
			 .flavour = flavour};

	return fill_run(&f);
}

static int
fill_rows(void *real,
	  int (*forward)(const struct fill *fill, uint64_t to, size_t width, size_t height),
	  uint64_t to, size_t pitch, unsigned value, unsigned element_bytes, size_t width,
	  size_t height, struct cu_stream *stream, enum pl_default_stream flavour)
{
	struct fill f = {.real = real,
			 .forward = forward,
			 .to = to,
			 .pitch = pitch,
			 .width = width,
			 .height = height,
			 .value = value,
			 .element_bytes = element_bytes,
			 .stream = stream,
			 .flavour = flavour};

	return fill_run(&f);
}

/* ---- rows, synchronous ---- */

int
cuMemsetD8_v2(uint64_t to, unsigned char value, size_t n)
{
	return fill_row(PL_REAL(cuMemsetD8_v2), forward_8, to, value, 1, n, NULL, PL_LEGACY);
}

int
cuMemsetD8_v2_ptds(uint64_t to, unsigned char value, size_t n)
{
	return fill_row(PL_REAL(cuMemsetD8_v2_ptds), forward_8, to, value, 1, n, NULL,
			PL_PER_THREAD);
}

int
cuMemsetD16_v2(uint64_t to, unsigned short value, size_t n)
{
	return fill_row(PL_REAL(cuMemsetD16_v2), forward_16, to, value, 2, n, NULL,
			PL_LEGACY);
}

int
cuMemsetD16_v2_ptds(uint64_t to, unsigned short value, size_t n)
{
	return fill_row(PL_REAL(cuMemsetD16_v2_ptds), forward_16, to, value, 2, n, NULL,
			PL_PER_THREAD);
}

int
cuMemsetD32_v2(uint64_t to, unsigned value, size_t n)
{
	return fill_row(PL_REAL(cuMemsetD32_v2), forward_32, to, value, 4, n, NULL,
			PL_LEGACY);
}

int
cuMemsetD32_v2_ptds(uint64_t to, unsigned value, size_t n)
{
	return fill_row(PL_REAL(cuMemsetD32_v2_ptds), forward_32, to, value, 4, n, NULL,
			PL_PER_THREAD);
}

/* ---- rows, on a stream ---- */

int
cuMemsetD8Async(uint64_t to, unsigned char value, size_t n, struct cu_stream *stream)
{
	return fill_row(PL_REAL(cuMemsetD8Async), forward_8_async, to, value, 1, n,
			stream, PL_LEGACY);
}

int
cuMemsetD8Async_ptsz(uint64_t to, unsigned char value, size_t n, struct cu_stream *stream)
{
	return fill_row(PL_REAL(cuMemsetD8Async_ptsz), forward_8_async, to, value, 1, n,
			stream, PL_PER_THREAD);
}

int
cuMemsetD16Async(uint64_t to, unsigned short value, size_t n, struct cu_stream *stream)
{
	return fill_row(PL_REAL(cuMemsetD16Async), forward_16_async, to, value, 2, n,
			stream, PL_LEGACY);
}

int
cuMemsetD16Async_ptsz(uint64_t to, unsigned short value, size_t n, struct cu_stream *stream)
{
	return fill_row(PL_REAL(cuMemsetD16Async_ptsz), forward_16_async, to, value, 2, n,
			stream, PL_PER_THREAD);
}

int
cuMemsetD32Async(uint64_t to, unsigned value, size_t n, struct cu_stream *stream)
{
	return fill_row(PL_REAL(cuMemsetD32Async), forward_32_async, to, value, 4, n,
			stream, PL_LEGACY);
}

int
cuMemsetD32Async_ptsz(uint64_t to, unsigned value, size_t n, struct cu_stream *stream)
{
	return fill_row(PL_REAL(cuMemsetD32Async_ptsz), forward_32_async, to, value, 4, n,
			stream, PL_PER_THREAD);
}

/* ---- rectangles, synchronous ---- */

int
cuMemsetD2D8_v2(uint64_t to, size_t pitch, unsigned char value, size_t width, size_t height)
{
	return fill_rows(PL_REAL(cuMemsetD2D8_v2), forward_2d_8, to, pitch, value, 1,
			 width, height, NULL, PL_LEGACY);
}

int
cuMemsetD2D8_v2_ptds(uint64_t to, size_t pitch, unsigned char value, size_t width,
		     size_t height)
{
	return fill_rows(PL_REAL(cuMemsetD2D8_v2_ptds), forward_2d_8, to, pitch, value, 1,
			 width, height, NULL, PL_PER_THREAD);
}

int
cuMemsetD2D16_v2(uint64_t to, size_t pitch, unsigned short value, size_t width, size_t height)
{
	return fill_rows(PL_REAL(cuMemsetD2D16_v2), forward_2d_16, to, pitch, value, 2,
			 width, height, NULL, PL_LEGACY);
}

int
cuMemsetD2D16_v2_ptds(uint64_t to, size_t pitch, unsigned short value, size_t width,
		      size_t height)
{
	return fill_rows(PL_REAL(cuMemsetD2D16_v2_ptds), forward_2d_16, to, pitch, value,
			 2, width, height, NULL, PL_PER_THREAD);
}

int
cuMemsetD2D32_v2(uint64_t to, size_t pitch, unsigned value, size_t width, size_t height)
{
	return fill_rows(PL_REAL(cuMemsetD2D32_v2), forward_2d_32, to, pitch, value, 4,
			 width, height, NULL, PL_LEGACY);
}

int
cuMemsetD2D32_v2_ptds(uint64_t to, size_t pitch, unsigned value, size_t width, size_t height)
{
	return fill_rows(PL_REAL(cuMemsetD2D32_v2_ptds), forward_2d_32, to, pitch, value,
			 4, width, height, NULL, PL_PER_THREAD);
}

/* ---- rectangles, on a stream ---- */

int
cuMemsetD2D8Async(uint64_t to, size_t pitch, unsigned char value, size_t width,
		  size_t height, struct cu_stream *stream)
{
	return fill_rows(PL_REAL(cuMemsetD2D8Async), forward_2d_8_async, to, pitch, value,
			 1, width, height, stream, PL_LEGACY);
}

int
cuMemsetD2D8Async_ptsz(uint64_t to, size_t pitch, unsigned char value, size_t width,
		       size_t height, struct cu_stream *stream)
{
	return fill_rows(PL_REAL(cuMemsetD2D8Async_ptsz), forward_2d_8_async, to, pitch,
			 value, 1, width, height, stream, PL_PER_THREAD);
}

int
cuMemsetD2D16Async(uint64_t to, size_t pitch, unsigned short value, size_t width,
		   size_t height, struct cu_stream *stream)
{
	return fill_rows(PL_REAL(cuMemsetD2D16Async), forward_2d_16_async, to, pitch,
			 value, 2, width, height, stream, PL_LEGACY);
}

int
cuMemsetD2D16Async_ptsz(uint64_t to, size_t pitch, unsigned short value, size_t width,
			size_t height, struct cu_stream *stream)
{
	return fill_rows(PL_REAL(cuMemsetD2D16Async_ptsz), forward_2d_16_async, to, pitch,
			 value, 2, width, height, stream, PL_PER_THREAD);
}

int
cuMemsetD2D32Async(uint64_t to, size_t pitch, unsigned value, size_t width, size_t height,
		   struct cu_stream *stream)
{
	return fill_rows(PL_REAL(cuMemsetD2D32Async), forward_2d_32_async, to, pitch,
			 value, 4, width, height, stream, PL_LEGACY);
}

int
cuMemsetD2D32Async_ptsz(uint64_t to, size_t pitch, unsigned value, size_t width,
			size_t height, struct cu_stream *stream)
{
	return fill_rows(PL_REAL(cuMemsetD2D32Async_ptsz), forward_2d_32_async, to, pitch,
			 value, 4, width, height, stream, PL_PER_THREAD);
}
