/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of streams into graphs. Captured work does not run, so nothing has to be resident for
 * it. The library adds nothing to it: scopes on a captured stream are empty, and fences ask
 * again when it is over. All this costs nothing while no capture is on: pl_captures counts those
 * that were begun.
 *
 * A capture ends with the call that ends it or with its stream. A capture that was begun through
 * one of the driver's private tables is not counted. The program's streams cannot be captured
 * so.
 *
 * A thread's own mode (cuThreadExchangeStreamCaptureMode()) is the program's. Ours is exchanged
 * around our calls only (pl_capture_relax()).
 *
 * Threads: any.
 */

#include <stdbool.h>

#include "base/lock.h"
#include "core/interpose.h"
#include "preload/api/api_stream.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/streams/capture.h"
#include "preload/streams/stream.h"
#include "preload/streams/stream_internal.h"

#define ORIGINS_MAX 256u /* known captures at a time; more are counted for ever */

/* The stream that a capture was begun on. */
struct origin {
	struct cu_stream *handle; /* NULL: free */
	uint64_t thread;          /* of the per-thread stream; else 0 */
};

_Atomic unsigned pl_captures;
_Atomic bool pl_captured;

static struct sl_mutex origins_lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);
static struct origin origins[ORIGINS_MAX]; /* origins_lock */

/* ---- our calls ---- */

int
pl_capture_relax_now(void)
{
	int mode = CU_CAPTURE_MODE_RELAXED;

	return PL_REAL(cuThreadExchangeStreamCaptureMode)(&mode) ? -1 : mode;
}

void
pl_capture_restore_now(int token)
{
	(void)PL_REAL(cuThreadExchangeStreamCaptureMode)(&token);
}

int
pl_captures_running(void)
{
	return (int)atomic_load(&pl_captures);
}

bool
pl_stream_captures(struct cu_stream *stream, enum pl_default_stream flavour)
{
	int status = CU_CAPTURE_NONE;
	int result;

	if (!atomic_load(&pl_captures))
		return false;
	result = PL_REAL(cuStreamIsCapturing)(pl_stream_handle(stream, flavour), &status);
	return result == CU_ERROR_STREAM_CAPTURE_IMPLICIT ||
	       (!result && status != CU_CAPTURE_NONE);
}

/* ---- which captures are on ---- */

static uint64_t
origin_thread(const struct cu_stream *handle)
{
	return handle == CU_PER_THREAD_STREAM ? pl_thread_number() : 0;
}

static void
origin_add(struct cu_stream *handle)
{
	uint64_t thread = origin_thread(handle);
	unsigned i = 0;

	sl_mutex_lock(&origins_lock);
	while (i < ORIGINS_MAX && origins[i].handle)
		i++;
	if (i < ORIGINS_MAX)
		origins[i] = (struct origin){handle, thread};
	sl_mutex_unlock(&origins_lock);
}

/* 1: it was one. */
static int
origin_remove(struct cu_stream *handle)
{
	uint64_t thread = origin_thread(handle);
	unsigned i = 0;

	sl_mutex_lock(&origins_lock);
	while (i < ORIGINS_MAX && (origins[i].handle != handle || origins[i].thread != thread))
		i++;
	if (i < ORIGINS_MAX)
		origins[i].handle = NULL;
	sl_mutex_unlock(&origins_lock);
	return i < ORIGINS_MAX;
}

static void
gpu_ends_record(struct pl_gpu *gpu, void *arg)
{
	(void)arg;
	sl_ends_record(gpu->space);
}

/* Before the driver begins one. Counted first: what asks meanwhile rather asks the driver. Launches whose end
 * could not be seen before the capture's would keep what they use on the device, and the capture's thread
 * may need that room. */
static void
capture_begins(struct cu_stream *handle)
{
	pl_stream_tail_keep(handle);
	atomic_store_explicit(&pl_captured, true, memory_order_relaxed);
	atomic_fetch_add(&pl_captures, 1);
	pl_enter();
	pl_gpus_walk(gpu_ends_record, NULL);
	pl_leave();
}

static int
capture_begun(struct cu_stream *handle, int result)
{
	if (!result) {
		origin_add(handle);
	} else {
		atomic_fetch_sub(&pl_captures, 1);
		pl_stream_tail_drop(handle);
	}
	return result;
}

void
pl_capture_stream_gone(struct cu_stream *handle)
{
	if (atomic_load(&pl_captures) && origin_remove(handle))
		atomic_fetch_sub(&pl_captures, 1);
}

/* ---- wrappers ---- */

/* arguments: parenthesized; stream is one, and becomes the handle that both forms know. */
/* clang-format off */
#define BEGIN(real, flavour, stream, arguments)                           \
	(pl_active() ? ((stream) = pl_stream_handle(stream, flavour),     \
			capture_begins(stream),                           \
			capture_begun(stream, real arguments))            \
		     : real arguments)

PL_DEFINE_BOTH(cuStreamBeginCapture, ptsz, BEGIN, (struct cu_stream *stream), stream, (stream))
PL_DEFINE_BOTH(cuStreamBeginCapture_v2, ptsz, BEGIN, (struct cu_stream *stream, int mode),
	       stream, (stream, mode))
PL_DEFINE_BOTH(cuStreamBeginCaptureToGraph, ptsz, BEGIN,
	       (struct cu_stream *stream, struct cu_graph *graph,
		struct cu_graph_node *const *dependencies, const void *edges, size_t n,
		int mode),
	       stream, (stream, graph, dependencies, edges, n, mode))
/* clang-format on */

/* Failing to end leaves a capture on (by another thread than may) or not (spoilt, not joined): the
 * driver is asked. */
static int
capture_end(__typeof__(&cuStreamEndCapture) real, enum pl_default_stream flavour,
	    struct cu_stream *stream, struct cu_graph **graph)
{
	struct cu_stream *handle = pl_stream_handle(stream, flavour);
	int result;

	if (!pl_active())
		return real(stream, graph);
	result = real(handle, graph);
	if (result && pl_stream_captures(handle, flavour))
		return result;
	if (origin_remove(handle)) {
		pl_stream_tail_drop(handle);
		atomic_fetch_sub(&pl_captures, 1);
	}
	return result;
}

/* clang-format off */
PL_DEFINE_BOTH(cuStreamEndCapture, ptsz, capture_end,
	       (struct cu_stream *stream, struct cu_graph **graph), stream, graph)
/* clang-format on */
