/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of bytes in a row: between host memory, device memory and arrays, one GPU and two. The
 * read range and the written range are the uses of a scope around the driver's own call. A range
 * that is written whole is not fetched before. The driver may refuse a copy although its bytes
 * are mapped, because they lie in different places. It is then done piece by piece.
 *
 * The driver takes a managed block of ours, given as a host pointer, for device memory. Such
 * calls use the form that takes any address. Small copies from host memory are searched for
 * addresses.
 *
 * After a copy that the driver refuses for another reason the contents of the target are
 * undefined.
 *
 * Threads: any, also several on one stream.
 */
#include "preload/api/api_copy.h"
#include "preload/calls/touch.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/scope.h"
#include "preload/streams/capture.h"
#include "sluice/sluice.h"

enum host_side { HOST_NEITHER, HOST_FROM, HOST_TO, HOST_UNKNOWN };

struct copy {
	void *real; /* the driver's call, and how to call it for bytes of the range from `at` on */
	int (*forward)(const struct copy *copy, size_t at, size_t bytes);
	uint64_t to, from; /* 0: the array */
	size_t bytes;
	enum host_side host; /* which pointer was given as one of the host */
	int async;
	enum pl_default_stream flavour;
	struct cu_stream *stream;
	struct cu_context *to_context, *from_context;
	struct cu_array *array;
	size_t array_offset;
};

#define CALL(copy, name) ((__typeof__(&(name)))(copy)->real)

static void *
host(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* ---- the driver's calls, by their parameters ---- */

static int
forward_any(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpy)(c->to + at, c->from + at, bytes);
}

static int
forward_any_async(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpyAsync)(c->to + at, c->from + at, bytes, c->stream);
}

static int
forward_from_host(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpyHtoD_v2)(c->to + at, host(c->from + at), bytes);
}

static int
forward_from_host_async(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpyHtoDAsync_v2)(c->to + at, host(c->from + at), bytes,
					     c->stream);
}

static int
forward_to_host(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpyDtoH_v2)(host(c->to + at), c->from + at, bytes);
}

static int
forward_to_host_async(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpyDtoHAsync_v2)(host(c->to + at), c->from + at, bytes,
					     c->stream);
}

static int
forward_peer(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpyPeer)(c->to + at, c->to_context, c->from + at,
				     c->from_context, bytes);
}

static int
forward_peer_async(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpyPeerAsync)(c->to + at, c->to_context, c->from + at,
					  c->from_context, bytes, c->stream);
}

static int
forward_to_array(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpyDtoA_v2)(c->array, c->array_offset + at, c->from + at, bytes);
}

static int
forward_from_array(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpyAtoD_v2)(c->to + at, c->array, c->array_offset + at, bytes);
}

static int
forward_host_to_array(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpyHtoA_v2)(c->array, c->array_offset + at,
					host(c->from + at), bytes);
}

static int
forward_host_to_array_async(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpyHtoAAsync_v2)(c->array, c->array_offset + at,
					     host(c->from + at), bytes, c->stream);
}

static int
forward_array_to_host(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpyAtoH_v2)(host(c->to + at), c->array, c->array_offset + at,
					bytes);
}

static int
forward_array_to_host_async(const struct copy *c, size_t at, size_t bytes)
{
	return CALL(c, cuMemcpyAtoHAsync_v2)(host(c->to + at), c->array,
					     c->array_offset + at, bytes, c->stream);
}

/* One row between an array and any address. */
static int
forward_row(const struct copy *c, size_t at, size_t bytes)
{
	struct cu_copy_2d row = {.width_bytes = bytes, .height = 1};

	if (c->to) {
		row.to_type = CU_MEMORY_TYPE_UNIFIED;
		row.to_device = c->to + at;
		row.to_pitch = bytes;
		row.from_type = CU_MEMORY_TYPE_ARRAY;
		row.from_array = c->array;
		row.from_x_bytes = c->array_offset + at;
	} else {
		row.to_type = CU_MEMORY_TYPE_ARRAY;
		row.to_array = c->array;
		row.to_x_bytes = c->array_offset + at;
		row.from_type = CU_MEMORY_TYPE_UNIFIED;
		row.from_device = c->from + at;
		row.from_pitch = bytes;
	}
	return c->async ? CALL(c, cuMemcpy2DAsync_v2)(&row, c->stream)
			: CALL(c, cuMemcpy2D_v2)(&row);
}

/* ---- what all have in common ---- */

/* From here on by the calls that ask the address what it is. */
static void
copy_generalize(struct copy *c)
{
	int own = c->flavour == PL_PER_THREAD;

	if (c->to_context || c->from_context)
		return;
	if (c->array && c->async) {
		c->real = pl_real[own ? SL_API_cuMemcpy2DAsync_v2_ptsz : SL_API_cuMemcpy2DAsync_v2];
		c->forward = forward_row;
	} else if (c->array) {
		c->real = pl_real[own ? SL_API_cuMemcpy2D_v2_ptds : SL_API_cuMemcpy2D_v2];
		c->forward = forward_row;
	} else if (c->async) {
		c->real = pl_real[own ? SL_API_cuMemcpyAsync_ptsz : SL_API_cuMemcpyAsync];
		c->forward = forward_any_async;
	} else {
		c->real = pl_real[own ? SL_API_cuMemcpy_ptds : SL_API_cuMemcpy];
		c->forward = forward_any;
	}
}

static int
piece_copy(void *arg, uint64_t x, uint64_t y, uint64_t z, uint64_t width, uint64_t height)
{
	const struct copy *c = arg;

	(void)y;
	(void)z;
	(void)height;
	return c->forward(c, x, width);
}

static int
copy_in_pieces(struct copy *c)
{
	const struct pl_side to = {.addr = c->to}, from = {.addr = c->from};
	int result;

	copy_generalize(c);
	result = pl_pieces(&to, &from, c->bytes, 1, 1, piece_copy, c);
	PL_COUNT(copies_split, result == CU_SUCCESS);
	return result;
}

/* Look at host memory that goes to the device for addresses; while a graph is captured it may not be
 * there yet. */
static void
copy_note(const struct copy *c)
{
	if (c->bytes > PL_TABLE_BYTES_MAX ||
	    (c->host != HOST_FROM && !(c->host == HOST_UNKNOWN && pl_maybe_ours(c->to))) ||
	    !c->to || (c->async && pl_stream_captures(c->stream, c->flavour)))
		return;
	pl_host_note(c->to, host(c->from), c->bytes);
}

static int
copy_run(struct copy *c)
{
	struct pl_use uses[2];
	struct pl_touch touch;
	int result;

	if (!pl_active())
		return c->forward(c, 0, c->bytes);
	pl_touch_init(&touch, uses, 2);
	pl_touch_add(&touch, c->to, c->bytes, SLUICE_USE_WRITE_ALL);
	pl_touch_add(&touch, c->from, c->bytes, SLUICE_USE_READ);
	if (pl_touch_is_empty(&touch)) {
		copy_note(c);
		return c->forward(c, 0, c->bytes);
	}
	if ((c->host == HOST_FROM && pl_is_managed(c->from)) ||
	    (c->host == HOST_TO && pl_is_managed(c->to)))
		copy_generalize(c);
	result = pl_touch_begin(&touch, c->stream, c->flavour);
	if (result)
		return result;
	copy_note(c); /* what is overwritten has been forgotten */
	result = c->forward(c, 0, c->bytes);
	if (pl_touch_is_split(&touch, result))
		result = copy_in_pieces(c);
	pl_touch_end(&touch);
	return result;
}

/* ---- both forms of each call ---- */

#define COPY(function, stream_0, ...) \
	copy_run(&(struct copy){.real = (void *)(function), .flavour = (stream_0), __VA_ARGS__})

/* clang-format off */
#define DEFINE(name, how, parameters, ...) \
	PL_DEFINE_BOTH(name, ptds, COPY, parameters, .forward = forward_##how, .bytes = bytes, \
		       __VA_ARGS__)
#define DEFINE_ASYNC(name, how, parameters, ...) \
	PL_DEFINE_BOTH(name, ptsz, COPY, parameters, .forward = forward_##how, .bytes = bytes, \
		       .async = 1, .stream = stream, __VA_ARGS__)

DEFINE(cuMemcpy, any, (uint64_t to, uint64_t from, size_t bytes),
       .to = to, .from = from, .host = HOST_UNKNOWN)
DEFINE(cuMemcpyDtoD_v2, any, (uint64_t to, uint64_t from, size_t bytes),
       .to = to, .from = from)
DEFINE(cuMemcpyHtoD_v2, from_host, (uint64_t to, const void *from, size_t bytes),
       .to = to, .from = (uintptr_t)from, .host = HOST_FROM)
DEFINE(cuMemcpyDtoH_v2, to_host, (void *to, uint64_t from, size_t bytes),
       .to = (uintptr_t)to, .from = from, .host = HOST_TO)
DEFINE_ASYNC(cuMemcpyAsync, any_async,
	     (uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream),
	     .to = to, .from = from, .host = HOST_UNKNOWN)
DEFINE_ASYNC(cuMemcpyDtoDAsync_v2, any_async,
	     (uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream),
	     .to = to, .from = from)
DEFINE_ASYNC(cuMemcpyHtoDAsync_v2, from_host_async,
	     (uint64_t to, const void *from, size_t bytes, struct cu_stream *stream),
	     .to = to, .from = (uintptr_t)from, .host = HOST_FROM)
DEFINE_ASYNC(cuMemcpyDtoHAsync_v2, to_host_async,
	     (void *to, uint64_t from, size_t bytes, struct cu_stream *stream),
	     .to = (uintptr_t)to, .from = from, .host = HOST_TO)

DEFINE(cuMemcpyPeer, peer,
       (uint64_t to, struct cu_context *to_context, uint64_t from,
	struct cu_context *from_context, size_t bytes),
       .to = to, .to_context = to_context, .from = from, .from_context = from_context)
DEFINE_ASYNC(cuMemcpyPeerAsync, peer_async,
	     (uint64_t to, struct cu_context *to_context, uint64_t from,
	      struct cu_context *from_context, size_t bytes, struct cu_stream *stream),
	     .to = to, .to_context = to_context, .from = from, .from_context = from_context)

DEFINE(cuMemcpyDtoA_v2, to_array,
       (struct cu_array *to, size_t to_offset, uint64_t from, size_t bytes),
       .array = to, .array_offset = to_offset, .from = from)
DEFINE(cuMemcpyAtoD_v2, from_array,
       (uint64_t to, struct cu_array *from, size_t from_offset, size_t bytes),
       .to = to, .array = from, .array_offset = from_offset)
DEFINE(cuMemcpyHtoA_v2, host_to_array,
       (struct cu_array *to, size_t to_offset, const void *from, size_t bytes),
       .array = to, .array_offset = to_offset, .from = (uintptr_t)from, .host = HOST_FROM)
DEFINE(cuMemcpyAtoH_v2, array_to_host,
       (void *to, struct cu_array *from, size_t from_offset, size_t bytes),
       .to = (uintptr_t)to, .array = from, .array_offset = from_offset, .host = HOST_TO)
DEFINE_ASYNC(cuMemcpyHtoAAsync_v2, host_to_array_async,
	     (struct cu_array *to, size_t to_offset, const void *from, size_t bytes,
	      struct cu_stream *stream),
	     .array = to, .array_offset = to_offset, .from = (uintptr_t)from, .host = HOST_FROM)
DEFINE_ASYNC(cuMemcpyAtoHAsync_v2, array_to_host_async,
	     (void *to, struct cu_array *from, size_t from_offset, size_t bytes,
	      struct cu_stream *stream),
	     .to = (uintptr_t)to, .array = from, .array_offset = from_offset, .host = HOST_TO)
/* clang-format on */
