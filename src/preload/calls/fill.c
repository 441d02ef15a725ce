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
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/scope.h"
#include "sluice/sluice.h"

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

/* clang-format off */
#define FORWARD(how, name, type, ...) \
	static int \
	forward_##how(const struct fill *f, uint64_t to, size_t width, size_t height) \
	{ \
		type value = (type)f->value; \
 \
		(void)height; \
		return CALL(f, name)(to, __VA_ARGS__); \
	}

FORWARD(8, cuMemsetD8_v2, unsigned char, value, width)
FORWARD(16, cuMemsetD16_v2, unsigned short, value, width)
FORWARD(32, cuMemsetD32_v2, unsigned, value, width)
FORWARD(8_async, cuMemsetD8Async, unsigned char, value, width, f->stream)
FORWARD(16_async, cuMemsetD16Async, unsigned short, value, width, f->stream)
FORWARD(32_async, cuMemsetD32Async, unsigned, value, width, f->stream)
FORWARD(2d_8, cuMemsetD2D8_v2, unsigned char, f->pitch, value, width, height)
FORWARD(2d_16, cuMemsetD2D16_v2, unsigned short, f->pitch, value, width, height)
FORWARD(2d_32, cuMemsetD2D32_v2, unsigned, f->pitch, value, width, height)
FORWARD(2d_8_async, cuMemsetD2D8Async, unsigned char, f->pitch, value, width, height, f->stream)
FORWARD(2d_16_async, cuMemsetD2D16Async, unsigned short, f->pitch, value, width, height, f->stream)
FORWARD(2d_32_async, cuMemsetD2D32Async, unsigned, f->pitch, value, width, height, f->stream)
/* clang-format on */

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
	if (pl_touch_is_empty(&touch))
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

/* ---- both forms of each call ---- */

#define FILL(function, stream_0, ...) \
	fill_run(&(struct fill){.real = (void *)(function), .flavour = (stream_0), __VA_ARGS__})

/* clang-format off */
#define DEFINE_ROW(name, how, type) \
	PL_DEFINE_BOTH(name, ptds, FILL, (uint64_t to, type value, size_t n), \
		       .forward = forward_##how, .element_bytes = sizeof(type), .to = to, \
		       .value = value, .width = n, .height = 1)
#define DEFINE_ROW_ASYNC(name, how, type) \
	PL_DEFINE_BOTH(name, ptsz, FILL, \
		       (uint64_t to, type value, size_t n, struct cu_stream *stream), \
		       .forward = forward_##how, .element_bytes = sizeof(type), .to = to, \
		       .value = value, .width = n, .height = 1, .stream = stream)
#define DEFINE_ROWS(name, how, type) \
	PL_DEFINE_BOTH(name, ptds, FILL, \
		       (uint64_t to, size_t pitch, type value, size_t width, size_t height), \
		       .forward = forward_##how, .element_bytes = sizeof(type), .to = to, \
		       .pitch = pitch, .value = value, .width = width, .height = height)
#define DEFINE_ROWS_ASYNC(name, how, type) \
	PL_DEFINE_BOTH(name, ptsz, FILL, \
		       (uint64_t to, size_t pitch, type value, size_t width, size_t height, \
			struct cu_stream *stream), \
		       .forward = forward_##how, .element_bytes = sizeof(type), .to = to, \
		       .pitch = pitch, .value = value, .width = width, .height = height, \
		       .stream = stream)

DEFINE_ROW(cuMemsetD8_v2, 8, unsigned char)
DEFINE_ROW(cuMemsetD16_v2, 16, unsigned short)
DEFINE_ROW(cuMemsetD32_v2, 32, unsigned)
DEFINE_ROW_ASYNC(cuMemsetD8Async, 8_async, unsigned char)
DEFINE_ROW_ASYNC(cuMemsetD16Async, 16_async, unsigned short)
DEFINE_ROW_ASYNC(cuMemsetD32Async, 32_async, unsigned)
DEFINE_ROWS(cuMemsetD2D8_v2, 2d_8, unsigned char)
DEFINE_ROWS(cuMemsetD2D16_v2, 2d_16, unsigned short)
DEFINE_ROWS(cuMemsetD2D32_v2, 2d_32, unsigned)
DEFINE_ROWS_ASYNC(cuMemsetD2D8Async, 2d_8_async, unsigned char)
DEFINE_ROWS_ASYNC(cuMemsetD2D16Async, 2d_16_async, unsigned short)
DEFINE_ROWS_ASYNC(cuMemsetD2D32Async, 2d_32_async, unsigned)
/* clang-format on */
