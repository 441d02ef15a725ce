/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's streams (stream.c): their bits in masks, and waits between them.
 *
 * Threads: any.
 */
#ifndef SL_PRELOAD_STREAM_H
#define SL_PRELOAD_STREAM_H

#include <stdint.h>

#include "base/error.h"
#include "preload/api/driver_api.h"

struct pl_gpu;

/* The stream handle that a call means: 0 by flavour. */
static inline struct cu_stream *
pl_stream_handle(struct cu_stream *stream, enum pl_default_stream flavour)
{
	if (stream)
		return stream;
	return flavour == PL_PER_THREAD ? CU_PER_THREAD_STREAM : CU_LEGACY_STREAM;
}

/* Bit of the stream in masks; the stream counts as active from here on. 0: it is captured, and had no work
 * before that is known. Tens of ns. */
uint64_t pl_stream_bit(struct pl_gpu *gpu, struct cu_stream *stream,
		       enum pl_default_stream flavour);
/* Make stream wait for what is queued now on the streams of mask. Driver calls; does not wait. 0;
 * -EBUSY: one of them is captured, or cannot be followed: take other memory, or a fence; -ENOMEM. */
int pl_stream_follow(struct pl_gpu *gpu, struct cu_stream *stream,
		     enum pl_default_stream flavour, uint64_t mask) SL_MUST_CHECK;
/* How many streams have had a bit and may have work that was not seen to be done; their bits in *mask
 * (may be NULL). More streams than bits share the highest. Two loads; while streams that were
 * destroyed may have work left, also a driver call. */
unsigned pl_streams_active(struct pl_gpu *gpu, uint64_t *mask);

#endif
