/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA device: making and ending it, its addresses, and the context that driver calls need.
 * It uses the primary context of the GPU, as the program's runtime does. So streams and kernels
 * of the program and of this library are in one context. A call restores the calling thread's
 * context.
 *
 * Order of creation: driver, context, reserved addresses, host code's mapping of them, copy
 * streams, completers. destroy() undoes it backwards and takes a half-made device.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault_point.h"
#include "device/cuda/cuda.h"

/* How deep this thread is in our calls, and the capture mode that it came with. */
static _Thread_local struct {
	unsigned depth;
	int mode;
	int exchanged; /* mode is to be put back */
} inside;

int
sl_cuda_push(struct cuda *cuda)
{
	return SL_CUDA(cuda->driver, cuCtxPushCurrent, cuda->context);
}

void
sl_cuda_pop(struct cuda *cuda)
{
	struct cu_context *ours;

	(void)cuda->driver->cuCtxPopCurrent(&ours);
}

int
sl_cuda_enter(struct cuda *cuda)
{
	int rc = sl_cuda_push(cuda), result = 0, mode = CU_CAPTURE_MODE_RELAXED;

	if (rc)
		return rc;
	if (!inside.depth) {
		result = cuda->driver->cuThreadExchangeStreamCaptureMode(&mode);
		inside.mode = mode;
		inside.exchanged = !result;
	}
	if (result && !sl_cuda_result_is_lost(result)) {
		sl_cuda_pop(cuda);
		return sl_cuda_errno(result, "cuThreadExchangeStreamCaptureMode");
	}
	inside.depth++;
	return 0;
}

void
sl_cuda_leave(struct cuda *cuda)
{
	int mode = inside.mode;

	if (!--inside.depth && inside.exchanged)
		(void)cuda->driver->cuThreadExchangeStreamCaptureMode(&mode);
	sl_cuda_pop(cuda);
}

int
sl_cuda_rc(struct cuda *cuda, int result, const char *call)
{
	int none = 0;

	if (__builtin_expect(result == CU_SUCCESS, 1))
		return 0;
	if (sl_cuda_result_is_lost(result))
		atomic_compare_exchange_strong(&cuda->lost, &none, result);
	return sl_cuda_errno(result, call);
}

static void
cuda_destroy(struct sl_device *dev)
{
	struct cuda *cuda = sl_cuda_of(dev);
	int entered;

	if (!cuda)
		return;
	sl_cuda_ahead_stop(cuda);
	sl_cuda_completer_stop(&cuda->streams);
	sl_cuda_completer_stop(&cuda->outs);
	entered = cuda->context && !sl_cuda_enter(cuda);
	if (cuda->context) { /* much of it can be given back without one that can be entered */
		sl_cuda_moves_stop(cuda);
		sl_cuda_hash_fini(cuda);
		sl_cuda_pools_fini(cuda);
	}
	sl_cuda_addresses_destroy(cuda);
	if (entered)
		sl_cuda_leave(cuda);
	if (cuda->context && cuda->primary)
		(void)cuda->driver->cuDevicePrimaryCtxRelease(cuda->info.device);
	sl_cond_fini(&cuda->ahead.work);
	sl_mutex_fini(&cuda->codec.lock);
	sl_mutex_fini(&cuda->hash.lock);
	sl_mutex_fini(&cuda->moves.lock);
	sl_mutex_fini(&cuda->pools.lock);
	free(cuda);
}

/* First granule of a range of addresses, or -1: not all of the space. */
static int64_t
granule_index(const struct cuda *cuda, const void *addr, uint64_t bytes)
{
	uint64_t offset = (uint64_t)((const char *)addr - (const char *)cuda->dev.base);

	if ((const char *)addr < (const char *)cuda->dev.base || offset % SL_GRANULE_BYTES ||
	    bytes > cuda->dev.bytes || offset > cuda->dev.bytes - bytes)
		return -1;
	return (int64_t)(offset / SL_GRANULE_BYTES);
}

int
sl_cuda_attached(struct cuda *cuda, const void *addr, uint64_t bytes)
{
	int64_t first = granule_index(cuda, addr, bytes);

	if (first >= 0 && cuda->attached[first] &&
	    cuda->attached[first + (int64_t)((bytes - 1) / SL_GRANULE_BYTES)])
		return 0;
	return sl_fail(-EINVAL, "device: %p, %llu bytes: no chunks of an attached range",
		       addr, (unsigned long long)bytes);
}

static int
cuda_attach(struct sl_device *dev, void *addr, size_t bytes, enum sl_delivery delivery)
{
	struct cuda *cuda = sl_cuda_of(dev);
	int rc = cuda->hostmap
			 ? cuda->hostmap->ops->attach(cuda->hostmap, addr, bytes, delivery)
			 : 0;

	if (!rc)
		memset(cuda->attached + granule_index(cuda, addr, bytes), 1,
		       bytes / SL_GRANULE_BYTES);
	return rc;
}

static void
cuda_detach(struct sl_device *dev, void *addr, size_t bytes)
{
	struct cuda *cuda = sl_cuda_of(dev);

	if (!sl_cuda_enter(cuda)) {
		for (size_t at = 0; at < bytes; at += SL_GRANULE_BYTES)
			sl_cuda_chunk_clear(cuda, (char *)addr + at);
		sl_cuda_leave(cuda);
	}
	memset(cuda->attached + granule_index(cuda, addr, bytes), 0,
	       bytes / SL_GRANULE_BYTES);
	if (cuda->hostmap)
		cuda->hostmap->ops->detach(cuda->hostmap, addr, bytes);
}

static int
cuda_query(struct sl_device *dev, struct sl_fence fence)
{
	struct cuda *cuda = sl_cuda_of(dev);
	int rc;

	if (sl_fence_is_done(dev, fence))
		return 0;
	if (fence.queue == SL_COPIES_OUT || fence.queue == SL_ENCODES)
		return sl_cuda_fence_query(cuda, fence); /* the driver is not asked */
	rc = sl_cuda_enter(cuda);
	if (rc)
		return rc;
	rc = sl_cuda_fence_query(cuda, fence);
	sl_cuda_leave(cuda);
	return rc;
}

static void
cuda_trim(struct sl_device *dev)
{
	struct cuda *cuda = sl_cuda_of(dev);

	if (sl_cuda_enter(cuda))
		return;
	sl_cuda_slabs_trim(cuda);
	sl_cuda_leave(cuda);
}

/* ---- host code's mapping ------------------------------------------------------------------ */

static int
hostmap_show(struct sl_device *dev, void *addr, const void *src, int guard)
{
	struct sl_device *soft = sl_cuda_of(dev)->hostmap;
	unsigned flags = guard ? SL_PRESENT_GUARD_STRICT : 0;
	struct sl_frame *frame = NULL;
	int rc;

	if (src) {
		rc = soft->ops->frame_get(soft, SL_GRANULE_BYTES, &frame);
		if (rc)
			return rc;
		memcpy(frame->data, src, SL_GRANULE_BYTES);
	}
	rc = soft->ops->present(soft, addr, SL_GRANULE_BYTES, frame, flags);
	if (rc && frame)
		soft->ops->frame_put(soft, frame);
	return rc;
}

static int
hostmap_unguard(struct sl_device *dev, void *addr)
{
	struct sl_device *soft = sl_cuda_of(dev)->hostmap;

	return soft->guards->unguard(soft, addr, SL_GRANULE_BYTES);
}

static int
hostmap_hide(struct sl_device *dev, void *addr, void *dst)
{
	struct sl_device *soft = sl_cuda_of(dev)->hostmap;
	struct sl_frame *frame;
	int rc;

	if (!dst)
		return soft->ops->absent(soft, addr, SL_GRANULE_BYTES, NULL,
					 SL_ABSENT_DISCARD);
	rc = soft->ops->frame_get(soft, SL_GRANULE_BYTES, &frame);
	if (rc)
		return rc;
	rc = soft->ops->absent(soft, addr, SL_GRANULE_BYTES, frame, SL_ABSENT_COPY);
	if (!rc)
		memcpy(dst, frame->data, SL_GRANULE_BYTES);
	soft->ops->frame_put(soft, frame);
	return rc;
}

static const struct sl_device_ops cuda_ops = {
	.name = "cuda",
	.destroy = cuda_destroy,
	.attach = cuda_attach,
	.detach = cuda_detach,
	.frame_get = sl_cuda_frame_get,
	.frame_put = sl_cuda_frame_put,
	.present = sl_cuda_present,
	.absent = sl_cuda_absent,
	.snapshot = sl_cuda_snapshot,
	.stream_create = sl_cuda_stream_create,
	.stream_destroy = sl_cuda_stream_destroy,
	.stream_submit = sl_cuda_stream_submit,
	.stream_synchronize = sl_cuda_stream_synchronize,
};

static const struct sl_device_events cuda_events = {
	.create = sl_cuda_event_create,
	.destroy = sl_cuda_event_destroy,
	.record = sl_cuda_event_record,
	.wait = sl_cuda_event_wait,
	.synchronize = sl_cuda_event_synchronize,
	.query = sl_cuda_event_query,
};

static const struct sl_device_async cuda_async = {
	.absent_start = sl_cuda_absent_start,
	.ready_at = sl_cuda_ready_at,
	.query = cuda_query,
	.watch = sl_cuda_move_watch,
};

static int
cuda_drain(struct sl_device *dev)
{
	struct cuda *cuda = (struct cuda *)dev;
	int rc = sl_cuda_enter(cuda);

	if (rc)
		return rc;
	rc = CUDA_TRY(cuda, cuCtxSynchronize);
	sl_cuda_leave(cuda);
	return rc;
}

static const struct sl_device_native cuda_native = {
	.wrap = sl_cuda_stream_wrap,
	.handle = sl_cuda_stream_native,
	.check = sl_cuda_stream_check,
	.gate = sl_cuda_stream_gate,
	.call = sl_cuda_stream_call,
	.drain = cuda_drain,
};

static const struct sl_device_hash cuda_hash = {
	.prepare = sl_cuda_hash_prepare,
	.start = sl_cuda_hash,
};

static const struct sl_device_codec cuda_codec = {
	.prepare = sl_cuda_codec_prepare,
	.absent_start = sl_cuda_codec_absent_start,
	.pack = sl_cuda_codec_pack,
	.decode = sl_cuda_codec_decode,
};

static uint64_t
cuda_taken(const struct sl_device *dev)
{
	return atomic_load(&((const struct cuda *)dev)->slab_bytes);
}

static uint64_t
cuda_frames_taken(struct sl_device *dev)
{
	struct cuda *cuda = sl_cuda_of(dev);
	uint64_t bytes;

	sl_mutex_lock(&cuda->pools.lock);
	bytes = cuda->pools.frame_used_bytes + cuda->pools.frame_free_bytes;
	sl_mutex_unlock(&cuda->pools.lock);
	return bytes;
}

static int
cuda_memory(struct sl_device *dev, uint64_t *free_bytes, uint64_t *total_bytes)
{
	struct cuda *cuda = sl_cuda_of(dev);
	size_t free_now = 0, total = 0;
	int rc = sl_cuda_enter(cuda);

	if (rc)
		return rc;
	rc = cuda->driver->cuMemGetInfo(&free_now, &total);
	sl_cuda_leave(cuda);
	if (rc)
		return sl_fail(-EIO,
			       "device: the driver does not say how much memory is free");
	*free_bytes = free_now;
	*total_bytes = total;
	return 0;
}

static const struct sl_device_pool cuda_pool = {
	.trim = cuda_trim,
	.taken = cuda_taken,
	.frames_taken = cuda_frames_taken,
	.memory = cuda_memory,
	.frames_expect = sl_cuda_frames_expect,
	.fill = sl_cuda_pool_fill,
};

static const struct sl_device_hostmap cuda_hostmap = {
	.show = hostmap_show,
	.unguard = hostmap_unguard,
	.hide = hostmap_hide,
};

static const struct sl_device_zerocopy cuda_zerocopy = {
	.frame_get = sl_cuda_frame_get_mappable,
	.map = sl_cuda_zerocopy_map,
	.unmap = sl_cuda_zerocopy_unmap,
};

/* ---- creation ---------------------------------------------------------------------------- */

static int
cuda_open(struct cuda *cuda, const struct sl_device_config *config, int ordinal)
{
	int rc = sl_cuda_driver_open(&cuda->driver);

	if (!rc)
		rc = sl_cuda_device_probe(cuda->driver, ordinal, &cuda->info);
	if (rc)
		return rc;
	cuda->context = config->native_context;
	if (!cuda->context) {
		rc = SL_CUDA(cuda->driver, cuDevicePrimaryCtxRetain, &cuda->context,
			     cuda->info.device);
		if (rc) {
			cuda->context = NULL;
			return rc;
		}
		cuda->primary = 1;
	}
	rc = sl_cuda_enter(cuda);
	if (rc)
		return rc;
	rc = sl_cuda_addresses_create(cuda, config);
	if (!rc)
		rc = sl_cuda_moves_start(cuda);
	sl_cuda_leave(cuda);
	if (!rc)
		rc = sl_cuda_completer_start(cuda, &cuda->outs, "sl-cuda-out");
	if (!rc)
		rc = sl_cuda_completer_start(cuda, &cuda->streams, "sl-cuda-stream");
	return rc;
}

int
sl_device_cuda_create(const struct sl_device_config *config, int ordinal,
		      struct sl_device **out)
{
	struct cuda *cuda = sl_calloc(1, sizeof(*cuda));
	int rc;

	if (!cuda)
		return sl_fail(-ENOMEM, "device: out of memory");
	cuda->dev.ops = &cuda_ops;
	cuda->dev.events = &cuda_events;
	cuda->dev.async = &cuda_async;
	cuda->dev.native = &cuda_native;
	cuda->dev.hash = &cuda_hash;
	cuda->dev.codec = &cuda_codec;
	cuda->dev.pool = &cuda_pool;
	cuda->dev.progress = &cuda->progress;
	cuda->pools.frame_cache_bytes = config->frame_cache_bytes;
	cuda->pinned = config->pinned;
	cuda->pinned_arg = config->pinned_arg;
	sl_mutex_init(&cuda->pools.lock, SL_RANK_FRAMES);
	sl_mutex_init(&cuda->registering, SL_RANK_FRAMES);
	sl_mutex_init(&cuda->moves.lock, SL_RANK_MOVES);
	sl_cuda_hash_init(cuda);
	sl_cuda_codec_init(cuda);
	sl_cuda_ahead_init(cuda);
	rc = cuda_open(cuda, config, ordinal);
	if (rc) {
		cuda_destroy(&cuda->dev);
		return rc;
	}
	cuda->dev.hostmap = cuda->hostmap ? &cuda_hostmap : NULL;
	cuda->dev.zerocopy = cuda->info.host_vmm ? &cuda_zerocopy : NULL;
	cuda->dev.workers = (uint32_t)cuda->info.n_multiprocessors;
	snprintf(cuda->dev.uuid, sizeof(cuda->dev.uuid), "%s", cuda->info.uuid);
	cuda->dev.kernel_touches = cuda->hostmap && cuda->hostmap->kernel_touches;
	*out = &cuda->dev;
	return 0;
}
