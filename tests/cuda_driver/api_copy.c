/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rest of the stand-in driver's copies, fills and words, beside those that the back end calls
 * (copy.c): synchronous forms, forms whose stream 0 is the thread's own, rectangles and boxes, batches,
 * arrays; and what keeps an address: textures and tensor maps.
 *
 * A rectangle is queued row by row after its sides were checked as a whole. Arrays are memory of the
 * stand-in's own, with rows behind each other; they cost no device memory. A tensor map shows its address
 * in its first word, or with CUDA_STANDIN_HIDE_MAPS set in none.
 *
 * Threads: any; the.lock as copy.c says.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "preload/api_copy.h"
#include "preload/api_fill.h"
#include "preload/api_memop.h"
#include "preload/api_tensormap.h"
#include "preload/api_texture.h"

static struct cu_stream *
own(struct cu_stream *stream)
{
	return stream ? stream : CU_PER_THREAD_STREAM;
}

/* Wait for what is queued on the stream now. */
static int
finish(struct cu_stream *handle, int code)
{
	struct cu_context *context;
	struct stream *stream;

	if (!code)
		code = stream_enter(CALL_cuStreamQuery, handle, &context, &stream);
	if (code)
		return code;
	stream_get(stream);
	point_wait(stream, stream->seq_queued);
	code = context->lost;
	stream_put(stream);
	pthread_mutex_unlock(&the.lock);
	return code;
}

static uint64_t
address(const void *p)
{
	return (uintptr_t)p;
}

/* ---- bytes in a row ---- */

static int
copy_any(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_submit(CALL_cuMemcpyDtoDAsync, to, NULL, 1, from, NULL, 1, bytes, stream);
}

int
cuMemcpy(uint64_t to, uint64_t from, size_t bytes)
{
	return finish(NULL, copy_any(to, from, bytes, NULL));
}

int
cuMemcpy_ptds(uint64_t to, uint64_t from, size_t bytes)
{
	return finish(own(NULL), copy_any(to, from, bytes, own(NULL)));
}

int
cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_any(to, from, bytes, stream);
}

int
cuMemcpyAsync_ptsz(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_any(to, from, bytes, own(stream));
}

static int
copy_in(uint64_t to, const void *from, size_t bytes, struct cu_stream *stream)
{
	return copy_submit(CALL_cuMemcpyHtoDAsync, to, NULL, 0, address(from), NULL, 1,
			   bytes, stream);
}

static int
copy_out(void *to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_submit(CALL_cuMemcpyDtoHAsync, address(to), NULL, 1, from, NULL, 0,
			   bytes, stream);
}

static int
copy_inside(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_submit(CALL_cuMemcpyDtoDAsync, to, NULL, 0, from, NULL, 0, bytes, stream);
}

int
cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
	return finish(NULL, copy_in(to, from, bytes, NULL));
}

int
cuMemcpyHtoD_v2_ptds(uint64_t to, const void *from, size_t bytes)
{
	return finish(own(NULL), copy_in(to, from, bytes, own(NULL)));
}

int
cuMemcpyHtoDAsync_v2_ptsz(uint64_t to, const void *from, size_t bytes, struct cu_stream *stream)
{
	return copy_in(to, from, bytes, own(stream));
}

int
cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
	return finish(NULL, copy_out(to, from, bytes, NULL));
}

int
cuMemcpyDtoH_v2_ptds(void *to, uint64_t from, size_t bytes)
{
	return finish(own(NULL), copy_out(to, from, bytes, own(NULL)));
}

int
cuMemcpyDtoHAsync_v2_ptsz(void *to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_out(to, from, bytes, own(stream));
}

int
cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes)
{
	return copy_inside(to, from, bytes, NULL);
}

int
cuMemcpyDtoD_v2_ptds(uint64_t to, uint64_t from, size_t bytes)
{
	return copy_inside(to, from, bytes, own(NULL));
}

int
cuMemcpyDtoDAsync_v2_ptsz(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_inside(to, from, bytes, own(stream));
}

static int
copy_peer(uint64_t to, struct cu_context *to_context, uint64_t from,
	  struct cu_context *from_context, size_t bytes, struct cu_stream *stream)
{
	return copy_submit(CALL_cuMemcpyPeerAsync, to, to_context, 0, from, from_context,
			   0, bytes, stream);
}

int
cuMemcpyPeer(uint64_t to, struct cu_context *to_context, uint64_t from,
	     struct cu_context *from_context, size_t bytes)
{
	return finish(NULL, copy_peer(to, to_context, from, from_context, bytes, NULL));
}

int
cuMemcpyPeer_ptds(uint64_t to, struct cu_context *to_context, uint64_t from,
		  struct cu_context *from_context, size_t bytes)
{
	return finish(own(NULL),
		      copy_peer(to, to_context, from, from_context, bytes, own(NULL)));
}

int
cuMemcpyPeerAsync_ptsz(uint64_t to, struct cu_context *to_context, uint64_t from,
		       struct cu_context *from_context, size_t bytes,
		       struct cu_stream *stream)
{
	return copy_peer(to, to_context, from, from_context, bytes, own(stream));
}

/* ---- rectangles and boxes ---- */

/* A side of a box: its first byte, and whether that is a host pointer as far as the caller knows. */
struct side {
	uint64_t addr;
	uint64_t pitch, layer;
	int host;
	struct cu_context *context;
};

static uint64_t
side_at(const struct side *side, size_t y, size_t z)
{
	return side->addr + z * side->layer + y * side->pitch;
}

/* Told once for all rows, so that what is refused was not done in part. */
static int
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

static int
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

struct cu_array {
	size_t pitch, height;
	char *data;
};

/* 0, or INVALID_VALUE. */
static int
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
	return finish(NULL, copy_2d(copy, NULL));
}

int
cuMemcpy2D_v2_ptds(const struct cu_copy_2d *copy)
{
	return finish(own(NULL), copy_2d(copy, own(NULL)));
}

int
cuMemcpy2DUnaligned_v2(const struct cu_copy_2d *copy)
{
	return finish(NULL, copy_2d(copy, NULL));
}

int
cuMemcpy2DUnaligned_v2_ptds(const struct cu_copy_2d *copy)
{
	return finish(own(NULL), copy_2d(copy, own(NULL)));
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
	return finish(NULL, copy_3d_here(copy, NULL));
}

int
cuMemcpy3D_v2_ptds(const struct cu_copy_3d *copy)
{
	return finish(own(NULL), copy_3d_here(copy, own(NULL)));
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
	return finish(NULL, copy_3d(copy, NULL));
}

int
cuMemcpy3DPeer_ptds(const struct cu_copy_3d *copy)
{
	return finish(own(NULL), copy_3d(copy, own(NULL)));
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

/* ---- arrays ---- */

struct cu_array_descriptor {
	size_t width, height;
	int format;
	unsigned n_channels;
};

EXPORT int cuArrayCreate_v2(struct cu_array **array,
			    const struct cu_array_descriptor *descriptor);
EXPORT int cuArrayDestroy(struct cu_array *array);

/* By the low bits of the format: 1, 2 or 3 for 1, 2 or 4 bytes, and 32-bit floats. */
static size_t
element_bytes(const struct cu_array_descriptor *descriptor)
{
	unsigned format = (unsigned)descriptor->format;
	size_t bytes = format == 0x20   ? 4
		       : format == 0x10 ? 2
					: (size_t)1 << ((format & 3) - 1);

	if (format >= 8 && format <= 10)
		bytes = (size_t)1 << (format - 8);
	return bytes * descriptor->n_channels;
}

int
cuArrayCreate_v2(struct cu_array **array, const struct cu_array_descriptor *descriptor)
{
	struct cu_array *new;

	if (!descriptor->width || !descriptor->n_channels || !descriptor->format)
		return CU_ERROR_INVALID_VALUE;
	new = must_alloc(1, sizeof(*new));
	new->pitch = descriptor->width *element_bytes(descriptor);
	new->height = descriptor->height ? descriptor->height : 1;
	new->data = must_alloc(new->pitch, new->height);
	*array = new;
	return CU_SUCCESS;
}

int
cuArrayDestroy(struct cu_array *array)
{
	free(array->data);
	free(array);
	return CU_SUCCESS;
}

int
cuMemcpyDtoA_v2(struct cu_array *to, size_t to_offset, uint64_t from, size_t bytes)
{
	return finish(NULL, copy_out(to->data + to_offset, from, bytes, NULL));
}

int
cuMemcpyDtoA_v2_ptds(struct cu_array *to, size_t to_offset, uint64_t from, size_t bytes)
{
	return finish(own(NULL), copy_out(to->data + to_offset, from, bytes, own(NULL)));
}

int
cuMemcpyAtoD_v2(uint64_t to, struct cu_array *from, size_t from_offset, size_t bytes)
{
	return finish(NULL, copy_in(to, from->data + from_offset, bytes, NULL));
}

int
cuMemcpyAtoD_v2_ptds(uint64_t to, struct cu_array *from, size_t from_offset, size_t bytes)
{
	return finish(own(NULL), copy_in(to, from->data + from_offset, bytes, own(NULL)));
}

static int
copy_hosts(const void *to, const void *from, size_t bytes, struct cu_stream *stream)
{
	return finish(stream, copy_any(address(to), address(from), bytes, stream));
}

int
cuMemcpyHtoA_v2(struct cu_array *to, size_t to_offset, const void *from, size_t bytes)
{
	return copy_hosts(to->data + to_offset, from, bytes, NULL);
}

int
cuMemcpyHtoA_v2_ptds(struct cu_array *to, size_t to_offset, const void *from, size_t bytes)
{
	return copy_hosts(to->data + to_offset, from, bytes, own(NULL));
}

int
cuMemcpyHtoAAsync_v2(struct cu_array *to, size_t to_offset, const void *from,
		     size_t bytes, struct cu_stream *stream)
{
	return copy_any(address(to->data + to_offset), address(from), bytes, stream);
}

int
cuMemcpyHtoAAsync_v2_ptsz(struct cu_array *to, size_t to_offset, const void *from,
			  size_t bytes, struct cu_stream *stream)
{
	return copy_any(address(to->data + to_offset), address(from), bytes, own(stream));
}

int
cuMemcpyAtoH_v2(void *to, struct cu_array *from, size_t from_offset, size_t bytes)
{
	return copy_hosts(to, from->data + from_offset, bytes, NULL);
}

int
cuMemcpyAtoH_v2_ptds(void *to, struct cu_array *from, size_t from_offset, size_t bytes)
{
	return copy_hosts(to, from->data + from_offset, bytes, own(NULL));
}

int
cuMemcpyAtoHAsync_v2(void *to, struct cu_array *from, size_t from_offset, size_t bytes,
		     struct cu_stream *stream)
{
	return copy_any(address(to), address(from->data + from_offset), bytes, stream);
}

int
cuMemcpyAtoHAsync_v2_ptsz(void *to, struct cu_array *from, size_t from_offset,
			  size_t bytes, struct cu_stream *stream)
{
	return copy_any(address(to), address(from->data + from_offset), bytes, own(stream));
}

/* ---- batches ---- */

static int
fail_at(size_t *failed, size_t i, int code)
{
	if (failed)
		*failed = i;
	return code;
}

static int
copy_batch(const uint64_t *to, const uint64_t *from, const size_t *bytes, size_t n,
	   const struct cu_copy_attributes *attributes, const size_t *firsts,
	   size_t n_attributes, size_t *failed, struct cu_stream *stream)
{
	int code;

	if (!to || !from || !bytes || !n || !attributes || !firsts || !n_attributes ||
	    n_attributes > n || firsts[0] || !stream || stream == CU_LEGACY_STREAM)
		return fail_at(failed, SIZE_MAX, CU_ERROR_INVALID_VALUE);
	for (size_t k = 0; k < n_attributes; k++)
		if (attributes[k].access_order < 1 || attributes[k].access_order > 3 ||
		    (k && (firsts[k] <= firsts[k - 1] || firsts[k] >= n)))
			return fail_at(failed, SIZE_MAX, CU_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < n; i++) {
		const struct side a = {.addr = to[i]}, b = {.addr = from[i]};

		if (!bytes[i] || side_is_mixed(&a, bytes[i], 1, 1) ||
		    side_is_mixed(&b, bytes[i], 1, 1))
			return fail_at(failed, i, CU_ERROR_INVALID_VALUE);
	}
	for (size_t i = 0; i < n; i++) {
		code = copy_any(to[i], from[i], bytes[i], stream);
		if (code)
			return fail_at(failed, i, code);
	}
	return CU_SUCCESS;
}

int
cuMemcpyBatchAsync(uint64_t *to, uint64_t *from, size_t *bytes, size_t n,
		   struct cu_copy_attributes *attributes, size_t *firsts,
		   size_t n_attributes, size_t *failed, struct cu_stream *stream)
{
	return copy_batch(to, from, bytes, n, attributes, firsts, n_attributes, failed,
			  stream);
}

int
cuMemcpyBatchAsync_ptsz(uint64_t *to, uint64_t *from, size_t *bytes, size_t n,
			struct cu_copy_attributes *attributes, size_t *firsts,
			size_t n_attributes, size_t *failed, struct cu_stream *stream)
{
	return copy_batch(to, from, bytes, n, attributes, firsts, n_attributes, failed,
			  own(stream));
}

int
cuMemcpyBatchAsync_v2(uint64_t *to, uint64_t *from, size_t *bytes, size_t n,
		      struct cu_copy_attributes *attributes, size_t *firsts,
		      size_t n_attributes, struct cu_stream *stream)
{
	return copy_batch(to, from, bytes, n, attributes, firsts, n_attributes, NULL, stream);
}

int
cuMemcpyBatchAsync_v2_ptsz(uint64_t *to, uint64_t *from, size_t *bytes, size_t n,
			   struct cu_copy_attributes *attributes, size_t *firsts,
			   size_t n_attributes, struct cu_stream *stream)
{
	return copy_batch(to, from, bytes, n, attributes, firsts, n_attributes, NULL,
			  own(stream));
}

/* Elements of arrays are taken for bytes. */
static int
operand_make(struct side *side, const struct cu_operand *operand,
	     const struct cu_batch_3d *copy)
{
	size_t pitch, rows;

	if (operand->type == CU_OPERAND_ARRAY)
		return side_make(side, CU_MEMORY_TYPE_ARRAY, NULL, 0,
				 operand->array.array, operand->array.x, operand->array.y,
				 operand->array.z, 0, 0, NULL);
	if (operand->type != CU_OPERAND_POINTER)
		return CU_ERROR_INVALID_VALUE;
	pitch = operand->pointer.row ? operand->pointer.row : copy->width;
	rows = operand->pointer.layer_rows ? operand->pointer.layer_rows : copy->height;
	return side_make(side, CU_MEMORY_TYPE_UNIFIED, NULL, operand->pointer.addr, NULL,
			 0, 0, 0, pitch, rows, NULL);
}

static int
copy_boxes(const struct cu_batch_3d *copies, size_t n, size_t *failed,
	   unsigned long long flags, struct cu_stream *stream)
{
	struct side to, from;
	int code;

	if (!copies || !n || flags || !stream || stream == CU_LEGACY_STREAM)
		return fail_at(failed, SIZE_MAX, CU_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < n; i++) {
		const struct cu_batch_3d *c = &copies[i];

		if (!c->width || !c->height || !c->depth || c->access_order < 1 ||
		    c->access_order > 3 || operand_make(&to, &c->to, c) ||
		    operand_make(&from, &c->from, c) ||
		    side_is_mixed(&to, c->width, c->height, c->depth) ||
		    side_is_mixed(&from, c->width, c->height, c->depth))
			return fail_at(failed, i, CU_ERROR_INVALID_VALUE);
	}
	for (size_t i = 0; i < n; i++) {
		const struct cu_batch_3d *c = &copies[i];

		code = operand_make(&to, &c->to, c);
		if (!code)
			code = operand_make(&from, &c->from, c);
		if (!code)
			code = box_copy(&to, &from, c->width, c->height, c->depth, stream);
		if (code)
			return fail_at(failed, i, code);
	}
	return CU_SUCCESS;
}

int
cuMemcpy3DBatchAsync(size_t n, struct cu_batch_3d *copies, size_t *failed,
		     unsigned long long flags, struct cu_stream *stream)
{
	return copy_boxes(copies, n, failed, flags, stream);
}

int
cuMemcpy3DBatchAsync_ptsz(size_t n, struct cu_batch_3d *copies, size_t *failed,
			  unsigned long long flags, struct cu_stream *stream)
{
	return copy_boxes(copies, n, failed, flags, own(stream));
}

int
cuMemcpy3DBatchAsync_v2(size_t n, struct cu_batch_3d *copies, unsigned long long flags,
			struct cu_stream *stream)
{
	return copy_boxes(copies, n, NULL, flags, stream);
}

int
cuMemcpy3DBatchAsync_v2_ptsz(size_t n, struct cu_batch_3d *copies,
			     unsigned long long flags, struct cu_stream *stream)
{
	return copy_boxes(copies, n, NULL, flags, own(stream));
}

/* What is "compressed" is taken as it is, and its length written behind it. */
static int
decompress(const struct cu_decompress *parts, size_t n, unsigned flags, size_t *failed,
	   struct cu_stream *stream)
{
	if (!parts || !n || flags)
		return fail_at(failed, SIZE_MAX, CU_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < n; i++) {
		const struct cu_decompress *part = &parts[i];
		int code = copy_inside(address(part->to), address(part->from),
				       part->from_bytes, stream);

		if (!code)
			code = memset_submit(CALL_cuMemsetD32Async,
					     address(part->written_bytes),
					     (unsigned)part->from_bytes, 4, 1, stream);
		if (code)
			return fail_at(failed, i, code);
	}
	return CU_SUCCESS;
}

int
cuMemBatchDecompressAsync(struct cu_decompress *parts, size_t n, unsigned flags,
			  size_t *failed, struct cu_stream *stream)
{
	return decompress(parts, n, flags, failed, stream);
}

int
cuMemBatchDecompressAsync_ptsz(struct cu_decompress *parts, size_t n, unsigned flags,
			       size_t *failed, struct cu_stream *stream)
{
	return decompress(parts, n, flags, failed, own(stream));
}

/* ---- fills ---- */

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

/* ---- words ---- */

static int
word_wait(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned bytes,
	  unsigned flags)
{
	return value_submit(CALL_cuStreamWaitValue32, OP_WAIT_VALUE, stream, addr, value,
			    bytes, flags);
}

static int
word_write(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned bytes,
	   unsigned flags)
{
	return value_submit(CALL_cuStreamWriteValue32, OP_WRITE_VALUE, stream, addr,
			    value, bytes, flags);
}

static int
word_batch(struct cu_stream *stream, unsigned n, const struct cu_memop *ops, unsigned flags)
{
	int code = flags || !n || n > 256 ? CU_ERROR_INVALID_VALUE : CU_SUCCESS;

	for (unsigned i = 0; i < n && !code; i++) {
		switch ((enum cu_memop_type)ops[i].type) {
		case CU_MEMOP_WAIT_32:
			code = word_wait(stream, ops[i].addr, (uint32_t)ops[i].value, 4,
					 ops[i].flags);
			break;
		case CU_MEMOP_WRITE_32:
			code = word_write(stream, ops[i].addr, (uint32_t)ops[i].value, 4,
					  ops[i].flags);
			break;
		case CU_MEMOP_WAIT_64:
			code = word_wait(stream, ops[i].addr, ops[i].value, 8, ops[i].flags);
			break;
		case CU_MEMOP_WRITE_64:
			code = word_write(stream, ops[i].addr, ops[i].value, 8, ops[i].flags);
			break;
		case CU_MEMOP_FLUSH:
		case CU_MEMOP_BARRIER:
			break;
		}
	}
	return code;
}

int
cuStreamWaitValue32(struct cu_stream *stream, uint64_t addr, uint32_t value, unsigned flags)
{
	return word_wait(stream, addr, value, 4, flags);
}

int
cuStreamWaitValue32_ptsz(struct cu_stream *stream, uint64_t addr, uint32_t value,
			 unsigned flags)
{
	return word_wait(own(stream), addr, value, 4, flags);
}

int
cuStreamWaitValue32_v2_ptsz(struct cu_stream *stream, uint64_t addr, uint32_t value,
			    unsigned flags)
{
	return word_wait(own(stream), addr, value, 4, flags);
}

int
cuStreamWriteValue32(struct cu_stream *stream, uint64_t addr, uint32_t value, unsigned flags)
{
	return word_write(stream, addr, value, 4, flags);
}

int
cuStreamWriteValue32_ptsz(struct cu_stream *stream, uint64_t addr, uint32_t value,
			  unsigned flags)
{
	return word_write(own(stream), addr, value, 4, flags);
}

int
cuStreamWriteValue32_v2_ptsz(struct cu_stream *stream, uint64_t addr, uint32_t value,
			     unsigned flags)
{
	return word_write(own(stream), addr, value, 4, flags);
}

int
cuStreamWaitValue64(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned flags)
{
	return word_wait(stream, addr, value, 8, flags);
}

int
cuStreamWaitValue64_ptsz(struct cu_stream *stream, uint64_t addr, uint64_t value,
			 unsigned flags)
{
	return word_wait(own(stream), addr, value, 8, flags);
}

int
cuStreamWaitValue64_v2(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned flags)
{
	return word_wait(stream, addr, value, 8, flags);
}

int
cuStreamWaitValue64_v2_ptsz(struct cu_stream *stream, uint64_t addr, uint64_t value,
			    unsigned flags)
{
	return word_wait(own(stream), addr, value, 8, flags);
}

int
cuStreamWriteValue64(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned flags)
{
	return word_write(stream, addr, value, 8, flags);
}

int
cuStreamWriteValue64_ptsz(struct cu_stream *stream, uint64_t addr, uint64_t value,
			  unsigned flags)
{
	return word_write(own(stream), addr, value, 8, flags);
}

int
cuStreamWriteValue64_v2(struct cu_stream *stream, uint64_t addr, uint64_t value, unsigned flags)
{
	return word_write(stream, addr, value, 8, flags);
}

int
cuStreamWriteValue64_v2_ptsz(struct cu_stream *stream, uint64_t addr, uint64_t value,
			     unsigned flags)
{
	return word_write(own(stream), addr, value, 8, flags);
}

int
cuStreamBatchMemOp(struct cu_stream *stream, unsigned n, struct cu_memop *ops, unsigned flags)
{
	return word_batch(stream, n, ops, flags);
}

int
cuStreamBatchMemOp_ptsz(struct cu_stream *stream, unsigned n, struct cu_memop *ops,
			unsigned flags)
{
	return word_batch(own(stream), n, ops, flags);
}

int
cuStreamBatchMemOp_v2(struct cu_stream *stream, unsigned n, struct cu_memop *ops,
		      unsigned flags)
{
	return word_batch(stream, n, ops, flags);
}

int
cuStreamBatchMemOp_v2_ptsz(struct cu_stream *stream, unsigned n, struct cu_memop *ops,
			   unsigned flags)
{
	return word_batch(own(stream), n, ops, flags);
}

/* ---- what keeps an address ---- */

/* Whether the current device may read there now. */
static int
address_enter(uint64_t addr)
{
	struct cu_context *context = context_current();
	const char *wrong;

	if (!context)
		return CU_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&the.lock);
	wrong = view_check(context->device, addr, 16, SL_STANDIN_READ);
	pthread_mutex_unlock(&the.lock);
	return wrong ? CU_ERROR_INVALID_VALUE : CU_SUCCESS;
}

static int
object_make(uint64_t *object, const struct cu_resource *resource)
{
	int code = resource->type < CU_RESOURCE_LINEAR ? CU_SUCCESS
						       : address_enter(resource->addr);
	static _Atomic uint64_t last;

	if (!code)
		*object = ++last;
	return code;
}

int
cuTexObjectCreate(uint64_t *object, const struct cu_resource *resource,
		  const struct cu_texture_descriptor *texture,
		  const struct cu_view_descriptor *view)
{
	(void)texture;
	(void)view;
	return object_make(object, resource);
}

int
cuSurfObjectCreate(uint64_t *object, const struct cu_resource *resource)
{
	return resource->type == CU_RESOURCE_ARRAY ? object_make(object, resource)
						   : CU_ERROR_INVALID_VALUE;
}

int
cuTexRefSetAddress_v2(size_t *offset, struct cu_texture_reference *texture, uint64_t addr,
		      size_t bytes)
{
	(void)texture;
	(void)bytes;
	if (offset)
		*offset = 0;
	return address_enter(addr);
}

int
cuTexRefSetAddress2D_v2(struct cu_texture_reference *texture,
			const struct cu_array_descriptor *descriptor, uint64_t addr,
			size_t pitch)
{
	(void)texture;
	(void)descriptor;
	(void)pitch;
	return address_enter(addr);
}

int
cuTexRefSetAddress2D_v3(struct cu_texture_reference *texture,
			const struct cu_array_descriptor *descriptor, uint64_t addr,
			size_t pitch)
{
	(void)texture;
	(void)descriptor;
	(void)pitch;
	return address_enter(addr);
}

/* The address in the first word; hidden, in the last but one, upside down. */
static void
map_address(struct cu_tensor_map *map, uint64_t addr)
{
	if (getenv("CUDA_STANDIN_HIDE_MAPS"))
		map->opaque[14] = ~addr;
	else
		map->opaque[0] = addr;
}

static int
map_encode(struct cu_tensor_map *map, int kind, int type, uint32_t rank, void *addr,
	   const uint64_t *dims, const uint64_t *strides, int interleave)
{
	int code;

	if (!map || address(map) % 64 || !rank || rank > 5 || address(addr) % 16)
		return CU_ERROR_INVALID_VALUE;
	code = address_enter(address(addr));
	if (code)
		return code;
	memset(map, 0, sizeof(*map));
	map->opaque[1] = (uint64_t)type | (uint64_t)rank << 8 |
			 (uint64_t)interleave << 16 | (uint64_t)kind << 24;
	for (uint32_t i = 0; i < rank; i++) {
		map->opaque[2 + i] = dims[i];
		if (i)
			map->opaque[7 + i] = strides[i - 1];
	}
	map_address(map, address(addr));
	return CU_SUCCESS;
}

int
cuTensorMapEncodeTiled(struct cu_tensor_map *map, int type, uint32_t rank, void *addr,
		       const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
		       const uint32_t *steps, int interleave, int swizzle, int promotion,
		       int fill_kind)
{
	(void)box;
	(void)steps;
	(void)swizzle;
	(void)promotion;
	(void)fill_kind;
	return map_encode(map, 0, type, rank, addr, dims, strides, interleave);
}

int
cuTensorMapEncodeIm2col(struct cu_tensor_map *map, int type, uint32_t rank, void *addr,
			const uint64_t *dims, const uint64_t *strides, const int *lower,
			const int *upper, uint32_t channels, uint32_t pixels,
			const uint32_t *steps, int interleave, int swizzle, int promotion,
			int fill_kind)
{
	(void)lower;
	(void)upper;
	(void)channels;
	(void)pixels;
	(void)steps;
	(void)swizzle;
	(void)promotion;
	(void)fill_kind;
	return map_encode(map, 1, type, rank, addr, dims, strides, interleave);
}

int
cuTensorMapEncodeIm2colWide(struct cu_tensor_map *map, int type, uint32_t rank,
			    void *addr, const uint64_t *dims, const uint64_t *strides,
			    int lower, int upper, uint32_t channels, uint32_t pixels,
			    const uint32_t *steps, int interleave, int mode, int swizzle,
			    int promotion, int fill_kind)
{
	(void)lower;
	(void)upper;
	(void)channels;
	(void)pixels;
	(void)steps;
	(void)mode;
	(void)swizzle;
	(void)promotion;
	(void)fill_kind;
	return map_encode(map, 2, type, rank, addr, dims, strides, interleave);
}

int
cuTensorMapReplaceAddress(struct cu_tensor_map *map, void *addr)
{
	int code = address(addr) % 16 ? CU_ERROR_INVALID_VALUE
				      : address_enter(address(addr));

	if (!code)
		map_address(map, address(addr));
	return code;
}
