/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of calls that only programs make (api_*.c): the stream of each form of a
 * call, copies, sides of boxes.
 */
#ifndef SL_TESTS_STANDIN_API_H
#define SL_TESTS_STANDIN_API_H

#include "internal.h"
#include "preload/api/driver_api.h"

/* The stream of a call whose stream 0 is the thread's own. */
static inline struct cu_stream *
own(struct cu_stream *stream)
{
	return stream ? stream : CU_PER_THREAD_STREAM;
}

static inline uint64_t
address(const void *p)
{
	return (uintptr_t)p;
}

/* ---- api_copy.c, without the lock ---- */

/* The end of a synchronous call: what it queued had this code; wait for all that the stream has now. */
int call_finish(struct cu_stream *handle, int code);

/* Either side may be a host pointer; the destination; the source; neither. */
int copy_any(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream);
int copy_out(void *to, uint64_t from, size_t bytes, struct cu_stream *stream);
int copy_in(uint64_t to, const void *from, size_t bytes, struct cu_stream *stream);
int copy_inside(uint64_t to, uint64_t from, size_t bytes, struct cu_stream *stream);

/* ---- api_copy2d.c, without the lock ---- */

/* A side of a box: its first byte, and whether that is a host pointer as far as the caller knows. */
struct side {
	uint64_t addr;
	uint64_t pitch, layer;
	int host;
	struct cu_context *context;
};

struct cu_array {
	size_t pitch, height;
	char *data;
};

/* type: enum cu_memory_type. 0, or INVALID_VALUE. */
int side_make(struct side *side, int type, const void *host, uint64_t device,
	      const struct cu_array *array, size_t x, size_t y, size_t z, size_t pitch,
	      size_t rows, struct cu_context *context);
uint64_t side_at(const struct side *side, size_t y, size_t z);
/* Told once for all rows, so that what is refused was not done in part. */
int side_is_mixed(const struct side *side, size_t width, size_t height, size_t depth);
int box_copy(const struct side *to, const struct side *from, size_t width, size_t height,
	     size_t depth, struct cu_stream *stream);

#endif
