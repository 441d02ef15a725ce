/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in driver's arrays: memory of its own, with rows behind each other, which costs no device
 * memory; and copies of bytes in a row to and from them.
 *
 * Threads: any; the.lock as copy.c says.
 */
#include <stdlib.h>

#include "api.h"
#include "preload/api/api_copy.h"

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
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	if (code)
		return code;
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
	int code = call_enter(CALL_API, NEEDS_INIT, NULL);

	if (code)
		return code;
	free(array->data);
	free(array);
	return CU_SUCCESS;
}

int
cuMemcpyDtoA_v2(struct cu_array *to, size_t to_offset, uint64_t from, size_t bytes)
{
	return call_finish(NULL, copy_out(to->data + to_offset, from, bytes, NULL));
}

int
cuMemcpyDtoA_v2_ptds(struct cu_array *to, size_t to_offset, uint64_t from, size_t bytes)
{
	return call_finish(own(NULL), copy_out(to->data + to_offset, from, bytes, own(NULL)));
}

int
cuMemcpyAtoD_v2(uint64_t to, struct cu_array *from, size_t from_offset, size_t bytes)
{
	return call_finish(NULL, copy_in(to, from->data + from_offset, bytes, NULL));
}

int
cuMemcpyAtoD_v2_ptds(uint64_t to, struct cu_array *from, size_t from_offset, size_t bytes)
{
	return call_finish(own(NULL),
			   copy_in(to, from->data + from_offset, bytes, own(NULL)));
}

static int
copy_hosts(const void *to, const void *from, size_t bytes, struct cu_stream *stream)
{
	return call_finish(stream, copy_any(address(to), address(from), bytes, stream));
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
