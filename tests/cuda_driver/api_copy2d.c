/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's copies of rectangles and boxes. One is queued row by row after its sides were
 * checked as a whole: what is refused was not done in part.
 *
 * Threads: any; the.lock as copy.c says.
 */
#include "api.h"
#include "preload/api/api_copy.h"

uint64_t
side_at(const struct side *side, size_t y, size_t z)
{
	return side->addr + z * side->layer + y * side->pitch;
}

int
side_is_mixed(const struct side *side, size_t width, size_t height, size_t depth)
{
	int mixed;

	pthread_mutex_lock(&the.lock);
	mixed = the.settings.no_mixed && reservation_find(side->addr) &&
		view_is_mixed(side->addr,
			      side_at(side, height - 1, depth - 1) + width - side->addr);
	pthread_mutex_unlock(&the.lock);
	return mixed;
}

int
box_copy(const struct side *to, const struct side *from, size_t width, size_t height,
	 size_t depth, struct cu_stream *stream)
{
	int code = CU_SUCCESS;

	if (!width || !height || !depth)
		return CU_SUCCESS;
	if ((height > 1 && (to->pitch < width || from->pitch < width)) ||
	    side_is_mixed(to, width, height, depth) ||
	    side_is_mixed(from, width, height, depth))
		return CU_ERROR_INVALID_VALUE;
	for (size_t z = 0; z < depth; z++)
		for (size_t y = 0; y < height && !code; y++)
			code = copy_submit(CALL_cuMemcpyDtoDAsync, side_at(to, y, z),
					   to->context, to->host, side_at(from, y, z),
					   from->context, from->host, width, stream);
	return code;
}

int
side_make(struct side *side, int type, const void *host, uint64_t device,
	  const struct cu_array *array, size_t x, size_t y, size_t z, size_t pitch,
	  size_t rows, struct cu_context *context)
{
	*side = (struct side){.pitch = pitch, .layer = pitch * rows, .context = context};
	switch ((enum cu_memory_type)type) {
	case CU_MEMORY_TYPE_HOST:
		side->addr = address(host);
		side->host = 1;
		break;
	case CU_MEMORY_TYPE_DEVICE:
	case CU_MEMORY_TYPE_UNIFIED:
		side->addr = device;
		side->host = type == CU_MEMORY_TYPE_UNIFIED;
		break;
	case CU_MEMORY_TYPE_ARRAY:
		side->addr = address(array->data);
		side->pitch = array->pitch;
		side->layer = array->pitch * array->height;
		side->host = 1;
		break;
	}
	if (!side->addr)
		return CU_ERROR_INVALID_VALUE;
	side->addr += x + y * side->pitch + z * side->layer;
	return CU_SUCCESS;
}

static int
copy_3d(const struct cu_copy_3d *c, struct cu_stream *stream)
{
	struct side to, from;

	if (side_make(&to, c->to_type, c->to_host, c->to_device, c->to_array, c->to_x_bytes,
		      c->to_y, c->to_z, c->to_pitch, c->to_height, c->to_context) ||
	    side_make(&from, c->from_type, c->from_host, c->from_device, c->from_array,
		      c->from_x_bytes, c->from_y, c->from_z, c->from_pitch,
		      c->from_height, c->from_context))
		return CU_ERROR_INVALID_VALUE;
	return box_copy(&to, &from, c->width_bytes, c->height, c->depth, stream);
}

static int
copy_2d(const struct cu_copy_2d *c, struct cu_stream *stream)
{
	struct side to, from;

	if (side_make(&to, c->to_type, c->to_host, c->to_device, c->to_array,
		      c->to_x_bytes, c->to_y, 0, c->to_pitch, 0, NULL) ||
	    side_make(&from, c->from_type, c->from_host, c->from_device, c->from_array,
		      c->from_x_bytes, c->from_y, 0, c->from_pitch, 0, NULL))
		return CU_ERROR_INVALID_VALUE;
	return box_copy(&to, &from, c->width_bytes, c->height, 1, stream);
}

int
cuMemcpy2D_v2(const struct cu_copy_2d *copy)
{
	return call_finish(NULL, copy_2d(copy, NULL));
}

int
cuMemcpy2D_v2_ptds(const struct cu_copy_2d *copy)
{
	return call_finish(own(NULL), copy_2d(copy, own(NULL)));
}

int
cuMemcpy2DUnaligned_v2(const struct cu_copy_2d *copy)
{
	return call_finish(NULL, copy_2d(copy, NULL));
}

int
cuMemcpy2DUnaligned_v2_ptds(const struct cu_copy_2d *copy)
{
	return call_finish(own(NULL), copy_2d(copy, own(NULL)));
}

int
cuMemcpy2DAsync_v2(const struct cu_copy_2d *copy, struct cu_stream *stream)
{
	return copy_2d(copy, stream);
}

int
cuMemcpy2DAsync_v2_ptsz(const struct cu_copy_2d *copy, struct cu_stream *stream)
{
	return copy_2d(copy, own(stream));
}

/* Without contexts: what is there in their place must be 0. */
static int
copy_3d_here(const struct cu_copy_3d *copy, struct cu_stream *stream)
{
	return copy->to_context || copy->from_context ? CU_ERROR_INVALID_VALUE
						      : copy_3d(copy, stream);
}

int
cuMemcpy3D_v2(const struct cu_copy_3d *copy)
{
	return call_finish(NULL, copy_3d_here(copy, NULL));
}

int
cuMemcpy3D_v2_ptds(const struct cu_copy_3d *copy)
{
	return call_finish(own(NULL), copy_3d_here(copy, own(NULL)));
}

int
cuMemcpy3DAsync_v2(const struct cu_copy_3d *copy, struct cu_stream *stream)
{
	return copy_3d_here(copy, stream);
}

int
cuMemcpy3DAsync_v2_ptsz(const struct cu_copy_3d *copy, struct cu_stream *stream)
{
	return copy_3d_here(copy, own(stream));
}

int
cuMemcpy3DPeer(const struct cu_copy_3d *copy)
{
	return call_finish(NULL, copy_3d(copy, NULL));
}

int
cuMemcpy3DPeer_ptds(const struct cu_copy_3d *copy)
{
	return call_finish(own(NULL), copy_3d(copy, own(NULL)));
}

int
cuMemcpy3DPeerAsync(const struct cu_copy_3d *copy, struct cu_stream *stream)
{
	return copy_3d(copy, stream);
}

int
cuMemcpy3DPeerAsync_ptsz(const struct cu_copy_3d *copy, struct cu_stream *stream)
{
	return copy_3d(copy, own(stream));
}
