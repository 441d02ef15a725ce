/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of rectangles and boxes, in one context and between two. A side in our memory uses
 * everything from the first byte of the first row to the last byte of the last. It is
 * overwritten only if the rows leave no gaps. Two-dimensional copies are treated as boxes of one
 * layer and turned back for the call. Arrays are the driver's; their sides have no address.
 *
 * Managed blocks as host pointers, refusals, and addresses in small copies are treated as in
 * copy.c.
 *
 * Threads: any.
 */
#include <stdbool.h>

#include "preload/api/api_copy.h"
#include "preload/calls/touch.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/scope.h"
#include "preload/streams/capture.h"
#include "sluice/sluice.h"

#define NOTED_ROWS_MAX 64u /* of a rectangle whose rows do not follow each other */

struct box {
	void *real;
	int (*forward)(const struct box *box, const struct cu_copy_3d *copy);
	struct cu_copy_3d copy;
	int async;
	enum pl_default_stream flavour;
	struct cu_stream *stream;
};

#define CALL(box, name) ((__typeof__(&(name)))(box)->real)

/* ---- the driver's calls ---- */

static struct cu_copy_3d
box_of_2d(const struct cu_copy_2d *copy)
{
	return (struct cu_copy_3d){
		.from_x_bytes = copy->from_x_bytes,
		.from_y = copy->from_y,
		.from_type = copy->from_type,
		.from_host = copy->from_host,
		.from_device = copy->from_device,
		.from_array = copy->from_array,
		.from_pitch = copy->from_pitch,
		.to_x_bytes = copy->to_x_bytes,
		.to_y = copy->to_y,
		.to_type = copy->to_type,
		.to_host = copy->to_host,
		.to_device = copy->to_device,
		.to_array = copy->to_array,
		.to_pitch = copy->to_pitch,
		.width_bytes = copy->width_bytes,
		.height = copy->height,
		.depth = 1,
	};
}

static struct cu_copy_2d
box_to_2d(const struct cu_copy_3d *copy)
{
	return (struct cu_copy_2d){
		.from_x_bytes = copy->from_x_bytes,
		.from_y = copy->from_y,
		.from_type = copy->from_type,
		.from_host = copy->from_host,
		.from_device = copy->from_device,
		.from_array = copy->from_array,
		.from_pitch = copy->from_pitch,
		.to_x_bytes = copy->to_x_bytes,
		.to_y = copy->to_y,
		.to_type = copy->to_type,
		.to_host = copy->to_host,
		.to_device = copy->to_device,
		.to_array = copy->to_array,
		.to_pitch = copy->to_pitch,
		.width_bytes = copy->width_bytes,
		.height = copy->height,
	};
}

static int
forward_2d(const struct box *box, const struct cu_copy_3d *copy)
{
	const struct cu_copy_2d flat = box_to_2d(copy);

	return CALL(box, cuMemcpy2D_v2)(&flat);
}

static int
forward_2d_async(const struct box *box, const struct cu_copy_3d *copy)
{
	const struct cu_copy_2d flat = box_to_2d(copy);

	return CALL(box, cuMemcpy2DAsync_v2)(&flat, box->stream);
}

static int
forward_3d(const struct box *box, const struct cu_copy_3d *copy)
{
	return CALL(box, cuMemcpy3D_v2)(copy);
}

static int
forward_3d_async(const struct box *box, const struct cu_copy_3d *copy)
{
	return CALL(box, cuMemcpy3DAsync_v2)(copy, box->stream);
}

/* ---- where the sides are ---- */

static struct pl_side
side_make(uint64_t base, size_t x, size_t y, size_t z, size_t pitch, size_t layer_rows)
{
	struct pl_side side = {.pitch = pitch, .layer = (uint64_t)pitch * layer_rows};

	if (base)
		side.addr = base + x + y * side.pitch + z * side.layer;
	return side;
}

/* The address that a side names. 0: it is an array. */
static uint64_t
base_of(int type, const void *host, uint64_t device)
{
	if (type == CU_MEMORY_TYPE_HOST)
		return (uintptr_t)host;
	return type == CU_MEMORY_TYPE_DEVICE || type == CU_MEMORY_TYPE_UNIFIED ? device : 0;
}

static struct pl_side
side_to(const struct cu_copy_3d *copy)
{
	return side_make(base_of(copy->to_type, copy->to_host, copy->to_device),
			 copy->to_x_bytes, copy->to_y, copy->to_z, copy->to_pitch,
			 copy->to_height);
}

static struct pl_side
side_from(const struct cu_copy_3d *copy)
{
	return side_make(base_of(copy->from_type, copy->from_host, copy->from_device),
			 copy->from_x_bytes, copy->from_y, copy->from_z, copy->from_pitch,
			 copy->from_height);
}

uint64_t
pl_box_bytes(const struct pl_side *side, uint64_t width, uint64_t height, uint64_t depth)
{
	uint64_t rows, layers, bytes;

	if (!width || !height || !depth)
		return 0;
	if (__builtin_mul_overflow(height - 1, side->pitch, &rows) ||
	    __builtin_mul_overflow(depth - 1, side->layer, &layers) ||
	    __builtin_add_overflow(rows, layers, &bytes) ||
	    __builtin_add_overflow(bytes, width, &bytes))
		return UINT64_MAX;
	return bytes;
}

bool
pl_box_is_dense(const struct pl_side *side, uint64_t width, uint64_t height, uint64_t depth)
{
	return (height == 1 || side->pitch == width) &&
	       (depth == 1 || side->layer == width * height);
}

static void
box_touch(struct pl_touch *touch, const struct cu_copy_3d *copy)
{
	const struct pl_side to = side_to(copy), from = side_from(copy);
	size_t width = copy->width_bytes, height = copy->height, depth = copy->depth;

	pl_touch_add(touch, to.addr, pl_box_bytes(&to, width, height, depth),
		     pl_box_is_dense(&to, width, height, depth) ? SLUICE_USE_WRITE_ALL
								: SLUICE_USE_WRITE);
	pl_touch_add(touch, from.addr, pl_box_bytes(&from, width, height, depth),
		     SLUICE_USE_READ);
}

size_t
pl_box_uses(const struct cu_copy_3d *copy, struct pl_use *uses)
{
	struct pl_touch touch;

	pl_touch_init(&touch, uses, 2);
	box_touch(&touch, copy);
	return touch.n;
}

/* ---- what all have in common ---- */

static int
rows_piece_copy(void *arg, uint64_t x, uint64_t y, uint64_t z, uint64_t width, uint64_t height)
{
	const struct box *box = arg;
	struct cu_copy_3d piece = box->copy;

	piece.from_x_bytes += x;
	piece.from_y += y;
	piece.from_z += z;
	piece.to_x_bytes += x;
	piece.to_y += y;
	piece.to_z += z;
	piece.width_bytes = width;
	piece.height = height;
	piece.depth = 1;
	return box->forward(box, &piece);
}

static int
box_in_pieces(struct box *box)
{
	const struct pl_side to = side_to(&box->copy), from = side_from(&box->copy);
	int result = pl_pieces(&to, &from, box->copy.width_bytes, box->copy.height,
			       box->copy.depth, rows_piece_copy, box);

	PL_COUNT(copies_split, result == CU_SUCCESS);
	return result;
}

/* Addresses in what comes from host memory, row by row unless the rows follow each other. */
static void
box_note(const struct box *box)
{
	const struct cu_copy_3d *copy = &box->copy;
	const struct pl_side to = side_to(copy), from = side_from(copy);
	size_t width = copy->width_bytes, height = copy->height, depth = copy->depth;

	if ((copy->from_type != CU_MEMORY_TYPE_HOST &&
	     !(copy->from_type == CU_MEMORY_TYPE_UNIFIED && pl_maybe_ours(to.addr))) ||
	    copy->to_type == CU_MEMORY_TYPE_HOST || !from.addr || !to.addr || !width ||
	    width > PL_TABLE_BYTES_MAX || height > PL_TABLE_BYTES_MAX ||
	    depth > PL_TABLE_BYTES_MAX || width * height * depth > PL_TABLE_BYTES_MAX ||
	    (box->async && pl_stream_captures(box->stream, box->flavour)))
		return;
	if (pl_box_is_dense(&to, width, height, depth) &&
	    pl_box_is_dense(&from, width, height, depth)) {
		pl_host_note(to.addr, (void *)(uintptr_t)from.addr, width * height * depth);
		return;
	}
	if (height * depth > NOTED_ROWS_MAX)
		return;
	for (size_t z = 0; z < depth; z++)
		for (size_t y = 0; y < height; y++)
			pl_host_note(to.addr + z * to.layer + y * to.pitch,
				     (void *)(uintptr_t)(from.addr + z * from.layer +
							 y * from.pitch),
				     width);
}

/* A managed block of ours given as host memory: say that the address tells. */
void
pl_box_generalize(struct cu_copy_3d *copy)
{
	if (copy->from_type == CU_MEMORY_TYPE_HOST &&
	    pl_is_managed((uintptr_t)copy->from_host)) {
		copy->from_type = CU_MEMORY_TYPE_UNIFIED;
		copy->from_device = (uintptr_t)copy->from_host;
	}
	if (copy->to_type == CU_MEMORY_TYPE_HOST && pl_is_managed((uintptr_t)copy->to_host)) {
		copy->to_type = CU_MEMORY_TYPE_UNIFIED;
		copy->to_device = (uintptr_t)copy->to_host;
	}
}

/* 1: it names our memory and was done, with *result. 0: the caller forwards what it was given. */
static int
box_run(struct box *box, int *result)
{
	struct pl_use uses[2];
	struct pl_touch touch;

	pl_touch_init(&touch, uses, 2);
	box_touch(&touch, &box->copy);
	if (pl_touch_is_empty(&touch)) {
		box_note(box);
		return 0;
	}
	*result = pl_touch_begin(&touch, box->stream, box->flavour);
	if (*result)
		return 1;
	box_note(box); /* what is overwritten has been forgotten */
	pl_box_generalize(&box->copy);
	*result = box->forward(box, &box->copy);
	if (pl_touch_is_split(&touch, *result))
		*result = box_in_pieces(box);
	pl_touch_end(&touch);
	return 1;
}

/* ---- the wrapped calls ---- */

static int
copy_2d(int (*real)(const struct cu_copy_2d *), enum pl_default_stream flavour,
	const struct cu_copy_2d *copy)
{
	struct box box = {.real = real, .forward = forward_2d, .flavour = flavour};
	int result;

	if (!copy || !pl_active())
		return real(copy);
	box.copy = box_of_2d(copy);
	return box_run(&box, &result) ? result : real(copy);
}

static int
copy_2d_async(int (*real)(const struct cu_copy_2d *, struct cu_stream *),
	      enum pl_default_stream flavour, const struct cu_copy_2d *copy,
	      struct cu_stream *stream)
{
	struct box box = {.real = real,
			  .forward = forward_2d_async,
			  .async = 1,
			  .flavour = flavour,
			  .stream = stream};
	int result;

	if (!copy || !pl_active())
		return real(copy, stream);
	box.copy = box_of_2d(copy);
	return box_run(&box, &result) ? result : real(copy, stream);
}

static int
copy_3d(int (*real)(const struct cu_copy_3d *), enum pl_default_stream flavour,
	const struct cu_copy_3d *copy)
{
	struct box box = {.real = real, .forward = forward_3d, .flavour = flavour};
	int result;

	if (!copy || !pl_active())
		return real(copy);
	box.copy = *copy;
	return box_run(&box, &result) ? result : real(copy);
}

static int
copy_3d_async(int (*real)(const struct cu_copy_3d *, struct cu_stream *),
	      enum pl_default_stream flavour, const struct cu_copy_3d *copy,
	      struct cu_stream *stream)
{
	struct box box = {.real = real,
			  .forward = forward_3d_async,
			  .async = 1,
			  .flavour = flavour,
			  .stream = stream};
	int result;

	if (!copy || !pl_active())
		return real(copy, stream);
	box.copy = *copy;
	return box_run(&box, &result) ? result : real(copy, stream);
}

/* ---- both forms of each call ---- */
/* clang-format off */
PL_DEFINE_BOTH(cuMemcpy2D_v2, ptds, copy_2d, (const struct cu_copy_2d *copy), copy)
PL_DEFINE_BOTH(cuMemcpy2DUnaligned_v2, ptds, copy_2d, (const struct cu_copy_2d *copy), copy)
PL_DEFINE_BOTH(cuMemcpy3D_v2, ptds, copy_3d, (const struct cu_copy_3d *copy), copy)
PL_DEFINE_BOTH(cuMemcpy3DPeer, ptds, copy_3d, (const struct cu_copy_3d *copy), copy)
PL_DEFINE_BOTH(cuMemcpy2DAsync_v2, ptsz, copy_2d_async,
	       (const struct cu_copy_2d *copy, struct cu_stream *stream), copy, stream)
PL_DEFINE_BOTH(cuMemcpy3DAsync_v2, ptsz, copy_3d_async,
	       (const struct cu_copy_3d *copy, struct cu_stream *stream), copy, stream)
PL_DEFINE_BOTH(cuMemcpy3DPeerAsync, ptsz, copy_3d_async,
	       (const struct cu_copy_3d *copy, struct cu_stream *stream), copy, stream)
/* clang-format on */
