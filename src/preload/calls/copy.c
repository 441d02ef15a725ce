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
	if (!touch.n) {
		copy_note(c);
		return c->forward(c, 0, c->bytes);
	}
	if ((c->host == HOST_FROM && pl_maybe_ours(c->from)) ||
	    (c->host == HOST_TO && pl_maybe_ours(c->to)))
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

/* ---- any address ---- */

static int
copy_any(void *real, enum host_side side, uint64_t to, uint64_t from, size_t bytes,
	 enum pl_default_stream flavour)
{
	struct copy c = {.real = real,
			 .forward = forward_any,
			 .to = to,
			 .from = from,
			 .bytes = bytes,
			 .host = side,
			 .flavour = flavour};

	return copy_run(&c);
}

static int
copy_any_async(void *real, enum host_side side, uint64_t to, uint64_t from, size_t bytes,
	       struct cu_stream *stream, enum pl_default_stream flavour)
{
	struct copy c = {.real = real,
			 .forward = forward_any_async,
			 .to = to,
			 .from = from,
			 .bytes = bytes,
			 .host = side,
			 .async = 1,
			 .stream = stream,
			 .flavour = flavour};

	return copy_run(&c);
}

int
cuMemcpy(uint64_t to, uint64_t from, size_t bytes)
{
	return copy_any(PL_REAL(cuMemcpy), HOST_UNKNOWN, to, from, bytes, PL_LEGACY);
}

int
cuMemcpy_ptds(uint64_t to, uint64_t from, size_t bytes)
{
	return copy_any(PL_REAL(cuMemcpy_ptds), HOST_UNKNOWN, to, from, bytes, PL_PER_THREAD);
}

int
cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_any_async(PL_REAL(cuMemcpyAsync), HOST_UNKNOWN, to, from, bytes,
			      stream, PL_LEGACY);
}

int
cuMemcpyAsync_ptsz(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_any_async(PL_REAL(cuMemcpyAsync_ptsz), HOST_UNKNOWN, to, from, bytes,
			      stream, PL_PER_THREAD);
}

int
cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes)
{
	return copy_any(PL_REAL(cuMemcpyDtoD_v2), HOST_NEITHER, to, from, bytes, PL_LEGACY);
}

int
cuMemcpyDtoD_v2_ptds(uint64_t to, uint64_t from, size_t bytes)
{
	return copy_any(PL_REAL(cuMemcpyDtoD_v2_ptds), HOST_NEITHER, to, from, bytes,
			PL_PER_THREAD);
}

int
cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_any_async(PL_REAL(cuMemcpyDtoDAsync_v2), HOST_NEITHER, to, from,
			      bytes, stream, PL_LEGACY);
}

int
cuMemcpyDtoDAsync_v2_ptsz(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_any_async(PL_REAL(cuMemcpyDtoDAsync_v2_ptsz), HOST_NEITHER, to, from,
			      bytes, stream, PL_PER_THREAD);
}

/* ---- from and to host memory ---- */

static int
copy_from_host(void *real, uint64_t to, const void *from, size_t bytes,
	       enum pl_default_stream flavour)
{
	struct copy c = {.real = real,
			 .forward = forward_from_host,
			 .to = to,
			 .from = (uintptr_t)from,
			 .bytes = bytes,
			 .host = HOST_FROM,
			 .flavour = flavour};

	return copy_run(&c);
}

static int
copy_from_host_async(void *real, uint64_t to, const void *from, size_t bytes,
		     struct cu_stream *stream, enum pl_default_stream flavour)
{
	struct copy c = {.real = real,
			 .forward = forward_from_host_async,
			 .to = to,
			 .from = (uintptr_t)from,
			 .bytes = bytes,
			 .host = HOST_FROM,
			 .async = 1,
			 .stream = stream,
			 .flavour = flavour};

	return copy_run(&c);
}

static int
copy_to_host(void *real, void *to, uint64_t from, size_t bytes, enum pl_default_stream flavour)
{
	struct copy c = {.real = real,
			 .forward = forward_to_host,
			 .to = (uintptr_t)to,
			 .from = from,
			 .bytes = bytes,
			 .host = HOST_TO,
			 .flavour = flavour};

	return copy_run(&c);
}

static int
copy_to_host_async(void *real, void *to, uint64_t from, size_t bytes,
		   struct cu_stream *stream, enum pl_default_stream flavour)
{
	struct copy c = {.real = real,
			 .forward = forward_to_host_async,
			 .to = (uintptr_t)to,
			 .from = from,
			 .bytes = bytes,
			 .host = HOST_TO,
			 .async = 1,
			 .stream = stream,
			 .flavour = flavour};

	return copy_run(&c);
}

int
cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
	return copy_from_host(PL_REAL(cuMemcpyHtoD_v2), to, from, bytes, PL_LEGACY);
}

int
cuMemcpyHtoD_v2_ptds(uint64_t to, const void *from, size_t bytes)
{
	return copy_from_host(PL_REAL(cuMemcpyHtoD_v2_ptds), to, from, bytes, PL_PER_THREAD);
}

int
cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct cu_stream *stream)
{
	return copy_from_host_async(PL_REAL(cuMemcpyHtoDAsync_v2), to, from, bytes,
				    stream, PL_LEGACY);
}

int
cuMemcpyHtoDAsync_v2_ptsz(uint64_t to, const void *from, size_t bytes, struct cu_stream *stream)
{
	return copy_from_host_async(PL_REAL(cuMemcpyHtoDAsync_v2_ptsz), to, from, bytes,
				    stream, PL_PER_THREAD);
}

int
cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
	return copy_to_host(PL_REAL(cuMemcpyDtoH_v2), to, from, bytes, PL_LEGACY);
}

int
cuMemcpyDtoH_v2_ptds(void *to, uint64_t from, size_t bytes)
{
	return copy_to_host(PL_REAL(cuMemcpyDtoH_v2_ptds), to, from, bytes, PL_PER_THREAD);
}

int
cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_to_host_async(PL_REAL(cuMemcpyDtoHAsync_v2), to, from, bytes, stream,
				  PL_LEGACY);
}

int
cuMemcpyDtoHAsync_v2_ptsz(void *to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_to_host_async(PL_REAL(cuMemcpyDtoHAsync_v2_ptsz), to, from, bytes,
				  stream, PL_PER_THREAD);
}

/* ---- from one context to another ---- */

int
cuMemcpyPeer(uint64_t to, struct cu_context *to_context, uint64_t from,
	     struct cu_context *from_context, size_t bytes)
{
	struct copy c = {.real = PL_REAL(cuMemcpyPeer),
			 .forward = forward_peer,
			 .to = to,
			 .to_context = to_context,
			 .from = from,
			 .from_context = from_context,
			 .bytes = bytes,
			 .flavour = PL_LEGACY};

	return copy_run(&c);
}

int
cuMemcpyPeer_ptds(uint64_t to, struct cu_context *to_context, uint64_t from,
		  struct cu_context *from_context, size_t bytes)
{
	struct copy c = {.real = PL_REAL(cuMemcpyPeer_ptds),
			 .forward = forward_peer,
			 .to = to,
			 .to_context = to_context,
			 .from = from,
			 .from_context = from_context,
			 .bytes = bytes,
			 .flavour = PL_PER_THREAD};

	return copy_run(&c);
}

int
cuMemcpyPeerAsync(uint64_t to, struct cu_context *to_context, uint64_t from,
		  struct cu_context *from_context, size_t bytes, struct cu_stream *stream)
{
	struct copy c = {.real = PL_REAL(cuMemcpyPeerAsync),
			 .forward = forward_peer_async,
			 .to = to,
			 .to_context = to_context,
			 .from = from,
			 .from_context = from_context,
			 .bytes = bytes,
			 .async = 1,
			 .stream = stream,
			 .flavour = PL_LEGACY};

	return copy_run(&c);
}

int
cuMemcpyPeerAsync_ptsz(uint64_t to, struct cu_context *to_context, uint64_t from,
		       struct cu_context *from_context, size_t bytes,
		       struct cu_stream *stream)
{
	struct copy c = {.real = PL_REAL(cuMemcpyPeerAsync_ptsz),
			 .forward = forward_peer_async,
			 .to = to,
			 .to_context = to_context,
			 .from = from,
			 .from_context = from_context,
			 .bytes = bytes,
			 .async = 1,
			 .stream = stream,
			 .flavour = PL_PER_THREAD};

	return copy_run(&c);
}

/* ---- arrays ---- */

static int
copy_to_array(void *real, struct cu_array *to, size_t to_offset, uint64_t from,
	      size_t bytes, enum pl_default_stream flavour)
{
	struct copy c = {.real = real,
			 .forward = forward_to_array,
			 .array = to,
			 .array_offset = to_offset,
			 .from = from,
			 .bytes = bytes,
			 .flavour = flavour};

	return copy_run(&c);
}

static int
copy_from_array(void *real, uint64_t to, struct cu_array *from, size_t from_offset,
		size_t bytes, enum pl_default_stream flavour)
{
	struct copy c = {.real = real,
			 .forward = forward_from_array,
			 .to = to,
			 .array = from,
			 .array_offset = from_offset,
			 .bytes = bytes,
			 .flavour = flavour};

	return copy_run(&c);
}

static int
copy_host_to_array(void *real, struct cu_array *to, size_t to_offset, const void *from,
		   size_t bytes, enum pl_default_stream flavour)
{
	struct copy c = {.real = real,
			 .forward = forward_host_to_array,
			 .array = to,
			 .array_offset = to_offset,
			 .from = (uintptr_t)from,
			 .bytes = bytes,
			 .host = HOST_FROM,
			 .flavour = flavour};

	return copy_run(&c);
}

static int
copy_host_to_array_async(void *real, struct cu_array *to, size_t to_offset,
			 const void *from, size_t bytes, struct cu_stream *stream,
			 enum pl_default_stream flavour)
{
	struct copy c = {.real = real,
			 .forward = forward_host_to_array_async,
			 .array = to,
			 .array_offset = to_offset,
			 .from = (uintptr_t)from,
			 .bytes = bytes,
			 .host = HOST_FROM,
			 .async = 1,
			 .stream = stream,
			 .flavour = flavour};

	return copy_run(&c);
}

static int
copy_array_to_host(void *real, void *to, struct cu_array *from, size_t from_offset,
		   size_t bytes, enum pl_default_stream flavour)
{
	struct copy c = {.real = real,
			 .forward = forward_array_to_host,
			 .to = (uintptr_t)to,
			 .array = from,
			 .array_offset = from_offset,
			 .bytes = bytes,
			 .host = HOST_TO,
			 .flavour = flavour};

	return copy_run(&c);
}

static int
copy_array_to_host_async(void *real, void *to, struct cu_array *from, size_t from_offset,
			 size_t bytes, struct cu_stream *stream,
			 enum pl_default_stream flavour)
{
	struct copy c = {.real = real,
			 .forward = forward_array_to_host_async,
			 .to = (uintptr_t)to,
			 .array = from,
			 .array_offset = from_offset,
			 .bytes = bytes,
			 .host = HOST_TO,
			 .async = 1,
			 .stream = stream,
			 .flavour = flavour};

	return copy_run(&c);
}

int
cuMemcpyDtoA_v2(struct cu_array *to, size_t to_offset, uint64_t from, size_t bytes)
{
	return copy_to_array(PL_REAL(cuMemcpyDtoA_v2), to, to_offset, from, bytes, PL_LEGACY);
}

int
cuMemcpyDtoA_v2_ptds(struct cu_array *to, size_t to_offset, uint64_t from, size_t bytes)
{
	return copy_to_array(PL_REAL(cuMemcpyDtoA_v2_ptds), to, to_offset, from, bytes,
			     PL_PER_THREAD);
}

int
cuMemcpyAtoD_v2(uint64_t to, struct cu_array *from, size_t from_offset, size_t bytes)
{
	return copy_from_array(PL_REAL(cuMemcpyAtoD_v2), to, from, from_offset, bytes,
			       PL_LEGACY);
}

int
cuMemcpyAtoD_v2_ptds(uint64_t to, struct cu_array *from, size_t from_offset, size_t bytes)
{
	return copy_from_array(PL_REAL(cuMemcpyAtoD_v2_ptds), to, from, from_offset,
			       bytes, PL_PER_THREAD);
}

int
cuMemcpyHtoA_v2(struct cu_array *to, size_t to_offset, const void *from, size_t bytes)
{
	return copy_host_to_array(PL_REAL(cuMemcpyHtoA_v2), to, to_offset, from, bytes,
				  PL_LEGACY);
}

int
cuMemcpyHtoA_v2_ptds(struct cu_array *to, size_t to_offset, const void *from, size_t bytes)
{
	return copy_host_to_array(PL_REAL(cuMemcpyHtoA_v2_ptds), to, to_offset, from,
				  bytes, PL_PER_THREAD);
}

int
cuMemcpyHtoAAsync_v2(struct cu_array *to, size_t to_offset, const void *from,
		     size_t bytes, struct cu_stream *stream)
{
	return copy_host_to_array_async(PL_REAL(cuMemcpyHtoAAsync_v2), to, to_offset,
					from, bytes, stream, PL_LEGACY);
}

int
cuMemcpyHtoAAsync_v2_ptsz(struct cu_array *to, size_t to_offset, const void *from,
			  size_t bytes, struct cu_stream *stream)
{
	return copy_host_to_array_async(PL_REAL(cuMemcpyHtoAAsync_v2_ptsz), to, to_offset,
					from, bytes, stream, PL_PER_THREAD);
}

int
cuMemcpyAtoH_v2(void *to, struct cu_array *from, size_t from_offset, size_t bytes)
{
	return copy_array_to_host(PL_REAL(cuMemcpyAtoH_v2), to, from, from_offset, bytes,
				  PL_LEGACY);
}

int
cuMemcpyAtoH_v2_ptds(void *to, struct cu_array *from, size_t from_offset, size_t bytes)
{
	return copy_array_to_host(PL_REAL(cuMemcpyAtoH_v2_ptds), to, from, from_offset,
				  bytes, PL_PER_THREAD);
}

int
cuMemcpyAtoHAsync_v2(void *to, struct cu_array *from, size_t from_offset, size_t bytes,
		     struct cu_stream *stream)
{
	return copy_array_to_host_async(PL_REAL(cuMemcpyAtoHAsync_v2), to, from,
					from_offset, bytes, stream, PL_LEGACY);
}

int
cuMemcpyAtoHAsync_v2_ptsz(void *to, struct cu_array *from, size_t from_offset,
			  size_t bytes, struct cu_stream *stream)
{
	return copy_array_to_host_async(PL_REAL(cuMemcpyAtoHAsync_v2_ptsz), to, from,
					from_offset, bytes, stream, PL_PER_THREAD);
}
