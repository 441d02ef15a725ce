/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rest of the stand-in driver's copies of bytes in a row, beside those that the back end calls
 * (copy.c): synchronous forms, forms whose stream 0 is the thread's own, and those that take any address.
 *
 * Threads: any; the.lock as copy.c says.
 */
#include "preload/api/api_copy.h"
#include "api.h"

int
call_finish(struct cu_stream *handle, int code)
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

int
copy_any(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_submit(CALL_cuMemcpyDtoDAsync, to, NULL, 1, from, NULL, 1, bytes, stream);
}

int
cuMemcpy(uint64_t to, uint64_t from, size_t bytes)
{
	return call_finish(NULL, copy_any(to, from, bytes, NULL));
}

int
cuMemcpy_ptds(uint64_t to, uint64_t from, size_t bytes)
{
	return call_finish(own(NULL), copy_any(to, from, bytes, own(NULL)));
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

int
copy_in(uint64_t to, const void *from, size_t bytes, struct cu_stream *stream)
{
	return copy_submit(CALL_cuMemcpyHtoDAsync, to, NULL, 0, address(from), NULL, 1,
			   bytes, stream);
}

int
copy_out(void *to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_submit(CALL_cuMemcpyDtoHAsync, address(to), NULL, 1, from, NULL, 0,
			   bytes, stream);
}

int
copy_inside(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream)
{
	return copy_submit(CALL_cuMemcpyDtoDAsync, to, NULL, 0, from, NULL, 0, bytes, stream);
}

int
cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
	return call_finish(NULL, copy_in(to, from, bytes, NULL));
}

int
cuMemcpyHtoD_v2_ptds(uint64_t to, const void *from, size_t bytes)
{
	return call_finish(own(NULL), copy_in(to, from, bytes, own(NULL)));
}

int
cuMemcpyHtoDAsync_v2_ptsz(uint64_t to, const void *from, size_t bytes, struct cu_stream *stream)
{
	return copy_in(to, from, bytes, own(stream));
}

int
cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
	return call_finish(NULL, copy_out(to, from, bytes, NULL));
}

int
cuMemcpyDtoH_v2_ptds(void *to, uint64_t from, size_t bytes)
{
	return call_finish(own(NULL), copy_out(to, from, bytes, own(NULL)));
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
	return call_finish(NULL, copy_peer(to, to_context, from, from_context, bytes, NULL));
}

int
cuMemcpyPeer_ptds(uint64_t to, struct cu_context *to_context, uint64_t from,
		  struct cu_context *from_context, size_t bytes)
{
	return call_finish(own(NULL),
			   copy_peer(to, to_context, from, from_context, bytes, own(NULL)));
}

int
cuMemcpyPeerAsync_ptsz(uint64_t to, struct cu_context *to_context, uint64_t from,
		       struct cu_context *from_context, size_t bytes,
		       struct cu_stream *stream)
{
	return copy_peer(to, to_context, from, from_context, bytes, own(stream));
}
