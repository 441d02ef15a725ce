/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's allocations, served from the arena: plain, pitched, managed on request, and
 * stream-ordered. Some go to the driver: sizes and flags that it refuses, GPUs without a space,
 * pools of its own, and streams that are being captured (there an allocation becomes a node of
 * the graph). Its allocations are then counted as foreign.
 *
 * A free of an address that is not the start of a live block goes to the driver, whose error
 * reports it.
 *
 * A forked child may free its parent's allocations, and the parent keeps them. The driver would
 * refuse, as it refuses all calls of a child. But some programs natively keep freed memory for
 * themselves, and make no such call. The launcher has told them not to keep it, so they make it
 * here.
 *
 * Threads: any.
 */
#include "base/size.h"
#include "preload/alloc/arena.h"
#include "preload/alloc/block.h"
#include "preload/api/api_alloc.h"
#include "preload/calls/foreign.h"
#include "preload/gpu.h"
#include "preload/loader/settings.h"
#include "preload/report/announce.h"
#include "preload/streams/capture.h"
#include "preload/streams/stream.h"

#include <errno.h>

#include "base/error.h"
#include "preload/alloc/pool.h"
#include "preload/api/api_stream.h"
#include "preload/preload.h"

#define PITCH_BYTES 512u /* every pitch is a multiple: enough for textures of all GPUs */

/* ---- the driver's own ---- */

/* The driver's memory is counted. */
#define FORWARD(result, bytes, call)               \
	do {                                       \
		PL_WITH_ROOM(result, bytes, call); \
		if (!(result) && pl_active())      \
			foreign_count(bytes);      \
	} while (0)

/* No space is made for it: who has none has no use for one. */
static void
foreign_count(uint64_t bytes)
{
	pl_enter();
	pl_gpu_foreign(pl_gpu_here(), (int64_t)bytes);
	pl_leave();
}

/* ---- ours ---- */

static void *
context_current(void)
{
	void *context = NULL;

	(void)((int (*)(void **))pl_real[SL_API_cuCtxGetCurrent])(&context);
	return context;
}

/* The GPU that serves an allocation of the calling thread, or NULL: the driver's. */
static struct pl_gpu *
serving_gpu(const uint64_t *addr, size_t bytes)
{
	struct pl_gpu *gpu;

	if (!pl_active() || !addr || !bytes)
		return NULL;
	pl_enter();
	gpu = pl_gpu_current();
	pl_leave();
	return gpu;
}

/*
 * PyTorch allocates for a graph that it captures, and its caching is off. It would free that memory before the graph
 * is launched, and others would get it. token: of pl_capture_relax(): PyTorch's own mode is relaxed then, and
 * other threads' is not. Said once.
 */
static bool
is_for_a_graph(int token)
{
	static _Atomic int said;

	if (token != CU_CAPTURE_MODE_RELAXED || !pl_pytorch_uncached())
		return false;
	if (!atomic_exchange(&said, 1))
		pl_error("PyTorch allocates for a CUDA graph that it captures: leave its "
			 "caching on (sluice run --no-framework pytorch)");
	return true;
}

#define NOT_SERVED (-1)

/* A result; NOT_SERVED without a GPU, or where it failed for another reason than memory: the driver
 * knows better what is the matter. */
static int
serve(struct pl_gpu *gpu, uint64_t *addr, size_t bytes, enum pl_birth birth,
      struct cu_pool *pool, struct cu_stream *stream, enum pl_default_stream flavour)
{
	struct pl_block *block;
	int token, rc;

	if (!gpu)
		return NOT_SERVED;
	token = pl_capture_relax();
	if (birth == PL_BORN_ALLOC && is_for_a_graph(token)) {
		pl_capture_restore(token);
		return CU_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	}
	pl_enter();
	rc = pl_arena_alloc(gpu, bytes, birth, stream, flavour, &block);
	if (!rc) {
		block->context = context_current();
		block->pool = pool;
		pl_pool_count(pool, block->room, 1);
		*addr = block->base;
	}
	pl_leave();
	pl_capture_restore(token);
	if (!rc)
		return CU_SUCCESS;
	return rc == -ENOMEM || rc == -EFBIG || rc == -ENOBUFS || rc == -ENOSPC
		       ? CU_ERROR_OUT_OF_MEMORY
		       : NOT_SERVED;
}

/* The live block of ours that begins at addr, or NULL. */
static struct pl_block *
block_at(uint64_t addr)
{
	struct pl_block *block;

	if (!pl_active() || !pl_maybe_ours(addr))
		return NULL;
	block = pl_block_find(addr);
	return block && block->base == addr && block->birth != PL_BORN_MAPPED ? block : NULL;
}

/* The driver's answer to a free that was forwarded. At the program's end, when it has gone, and in a forked child
 * there is nothing to give back: no failure for a block of ours. Without locks. */
static int
free_forwarded(int result, uint64_t addr)
{
	int nothing_left = result == CU_ERROR_DEINITIALIZED ||
			   (result == CU_ERROR_NOT_INITIALIZED && atomic_load(&pl_forked));
	struct pl_block *block;

	if (__builtin_expect(!nothing_left, 1) || !pl_maybe_ours(addr))
		return result;
	block = pl_block_find(addr);
	return block && block->base == addr ? CU_SUCCESS : result;
}

static void
release(struct pl_block *block, int ordered, struct cu_stream *stream,
	enum pl_default_stream flavour)
{
	int token = pl_capture_relax();

	pl_enter();
	pl_pool_count(block->pool, block->room, 0);
	pl_arena_free(block, ordered, stream, flavour);
	pl_leave();
	pl_capture_restore(token);
}

/* ---- plain ---- */

int
cuMemAlloc_v2(uint64_t *addr, size_t bytes)
{
	struct pl_gpu *gpu = serving_gpu(addr, bytes);
	int result;

	result = serve(gpu, addr, bytes, PL_BORN_ALLOC, NULL, NULL, PL_LEGACY);
	if (result != NOT_SERVED)
		return result;
	FORWARD(result, bytes, PL_REAL(cuMemAlloc_v2)(addr, bytes));
	return result;
}

int
cuMemAllocPitch_v2(uint64_t *addr, size_t *pitch, size_t width_bytes, size_t height,
		   unsigned element_bytes)
{
	int element_is_known = element_bytes == 4 || element_bytes == 8 ||
			       element_bytes == 16;
	size_t row = width_bytes > SIZE_MAX - PITCH_BYTES
			     ? SIZE_MAX
			     : sl_round_up(width_bytes, PITCH_BYTES);
	struct pl_gpu *gpu = NULL;
	size_t bytes;
	int result;

	if (__builtin_mul_overflow(row, height, &bytes))
		bytes = SIZE_MAX;
	if (pitch && width_bytes && element_is_known)
		gpu = serving_gpu(addr, bytes);
	result = serve(gpu, addr, bytes, PL_BORN_ALLOC, NULL, NULL, PL_LEGACY);
	if (!result && pitch)
		*pitch = row;
	if (result != NOT_SERVED)
		return result;
	FORWARD(result, bytes,
		PL_REAL(cuMemAllocPitch_v2)(addr, pitch, width_bytes, height, element_bytes));
	return result;
}

int
cuMemAllocManaged(uint64_t *addr, size_t bytes, unsigned flags)
{
	struct pl_gpu *gpu = NULL;
	int result;

	if (pl_active() && pl_settings()->own_managed &&
	    (flags == CU_ATTACH_GLOBAL || flags == CU_ATTACH_HOST))
		gpu = serving_gpu(addr, bytes);
	if (gpu && !gpu->has_hostmap)
		gpu = NULL;
	if (gpu) /* what host code touches leaves the device: launches must bring it back */
		pl_gpu_press(gpu, PL_OVERSUBSCRIBED);
	result = serve(gpu, addr, bytes, PL_BORN_MANAGED, NULL, NULL, PL_LEGACY);
	if (result != NOT_SERVED)
		return result;
	FORWARD(result, bytes, PL_REAL(cuMemAllocManaged)(addr, bytes, flags));
	return result;
}

int
cuMemFree_v2(uint64_t addr)
{
	struct pl_block *block = block_at(addr);

	if (!block)
		return free_forwarded(PL_REAL(cuMemFree_v2)(addr), addr);
	release(block, 0, NULL, PL_LEGACY);
	return CU_SUCCESS;
}

/* ---- stream-ordered ---- */

/* The GPU that serves a stream-ordered allocation, and its pool in *pool (in: the program's, or NULL for the
 * current one). NULL: the driver's. */
static struct pl_gpu *
stream_gpu(const uint64_t *addr, size_t bytes, struct cu_pool **pool,
	   struct cu_stream *stream, enum pl_default_stream flavour)
{
	struct pl_gpu *gpu = serving_gpu(addr, bytes);
	struct cu_stream *handle = pl_stream_handle(stream, flavour);
	struct cu_context *context = NULL;
	struct cu_pool *current;
	int device, captured, foreign = 0;

	if (!gpu)
		return NULL;
	pl_enter();
	captured = pl_stream_captures(stream, flavour);
	current = pl_pool_current(gpu->device); /* also makes the device's default pool known */
	if (!*pool)
		*pool = current;
	/* The stream decides, not the current context: another one's is left to the driver. */
	if (!captured && handle != CU_LEGACY_STREAM && handle != CU_PER_THREAD_STREAM)
		foreign = PL_REAL(cuStreamGetCtx)(stream, &context) ||
			  context != context_current();
	pl_leave();
	if (captured || foreign || !pl_pool_is_ours(*pool, &device) || device != gpu->device)
		return NULL;
	return gpu;
}

static int
alloc_async(__typeof__(&cuMemAllocAsync) real, enum pl_default_stream flavour,
	    uint64_t *addr, size_t bytes, struct cu_stream *stream)
{
	struct cu_pool *pool = NULL;
	struct pl_gpu *gpu = stream_gpu(addr, bytes, &pool, stream, flavour);
	int result;

	result = serve(gpu, addr, bytes, PL_BORN_ASYNC, pool, stream, flavour);
	if (result != NOT_SERVED)
		return result;
	FORWARD(result, bytes, real(addr, bytes, stream));
	return result;
}

static int
alloc_from_pool(__typeof__(&cuMemAllocFromPoolAsync) real, enum pl_default_stream flavour,
		uint64_t *addr, size_t bytes, struct cu_pool *pool, struct cu_stream *stream)
{
	struct cu_pool *from = pool;
	struct pl_gpu *gpu = pool ? stream_gpu(addr, bytes, &from, stream, flavour) : NULL;
	int result;

	result = serve(gpu, addr, bytes, PL_BORN_ASYNC, pool, stream, flavour);
	if (result != NOT_SERVED)
		return result;
	FORWARD(result, bytes, real(addr, bytes, pool, stream));
	return result;
}

static int
free_async(__typeof__(&cuMemFreeAsync) real, enum pl_default_stream flavour,
	   uint64_t addr, struct cu_stream *stream)
{
	struct pl_block *block = block_at(addr);
	int captured = 0;

	if (block) {
		pl_enter();
		captured = pl_stream_captures(stream, flavour);
		pl_leave();
	}
	/* A graph frees only what it has allocated: the driver refuses ours there. */
	if (!block || captured)
		return free_forwarded(real(addr, stream), addr);
	release(block, 1, stream, flavour);
	return CU_SUCCESS;
}

/* clang-format off */
PL_DEFINE_BOTH(cuMemAllocAsync, ptsz, alloc_async,
	       (uint64_t *addr, size_t bytes, struct cu_stream *stream), addr, bytes, stream)
PL_DEFINE_BOTH(cuMemAllocFromPoolAsync, ptsz, alloc_from_pool,
	       (uint64_t *addr, size_t bytes, struct cu_pool *pool, struct cu_stream *stream),
	       addr, bytes, pool, stream)
PL_DEFINE_BOTH(cuMemFreeAsync, ptsz, free_async, (uint64_t addr, struct cu_stream *stream),
	       addr, stream)
/* clang-format on */
