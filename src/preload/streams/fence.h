/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fences (fence.c): a moment in the order of several streams.
 *
 * Threads: any.
 */
#ifndef SL_PRELOAD_FENCE_H
#define SL_PRELOAD_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "preload/api/driver_api.h"

struct pl_gpu;

/*
 * A fence: what is queued now on the streams of a mask. make: driver calls, does not wait; 0 or -ENOMEM
 * (driver or host; make it later), *out untouched. passed: 1 when all of it is done, and the fence is
 * freed then; 0 not yet. wait: until passed, and freed; -EBUSY: a stream of it is captured, not freed,
 * nothing to wait for before the capture ends. No lock of the caller's that pl_stream_bit() or
 * another fence needs is held.
 */
struct pl_fence;
int pl_fence_make(struct pl_gpu *gpu, uint64_t mask, struct pl_fence **out) SL_MUST_CHECK;
bool pl_fence_passed(struct pl_fence *fence);
int pl_fence_wait(struct pl_fence *fence) SL_MUST_CHECK;
/*
 * The same fence for several holders; it stands still: neither passed nor wait. is_whole: no stream of it is
 * captured. follow: make stream wait for its part of the streams of mask; 0, or -EBUSY with a text. await:
 * wait for it here; the same. hold: NULL is NULL. put: freed with the last; NULL is nothing.
 */
struct pl_fence *pl_fence_hold(struct pl_fence *fence);
void pl_fence_put(struct pl_fence *fence);
bool pl_fence_is_whole(const struct pl_fence *fence);
int pl_fence_follow(const struct pl_fence *fence, struct cu_stream *stream,
		    enum pl_default_stream flavour, uint64_t mask) SL_MUST_CHECK;
int pl_fence_await(const struct pl_fence *fence) SL_MUST_CHECK;

#endif
