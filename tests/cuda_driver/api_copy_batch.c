/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's copies in batches, of bytes in a row and of boxes, and what it has for
 * decompression. All copies of a batch are looked at before the first is queued.
 *
 * Threads: any; the.lock as copy.c says.
 */
#include "api.h"
#include "preload/api/api_copy.h"

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
