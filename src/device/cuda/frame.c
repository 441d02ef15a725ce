/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory: slabs of device memory and frames of pinned host memory, in pools by size. Each has a
 * permanent address for copies.
 *
 * A slab takes some 40 us to make. Their number follows from the device budget, which core
 * keeps. With mixed sizes, free slabs of other sizes go back to the driver before a new one is
 * made. So the sum stays what core has counted.
 *
 * A frame costs a hundred times more, since its pages are filled and pinned. Free frames are
 * kept up to frame_cache_bytes, or as many as may still be wanted. ahead.c makes them earlier,
 * and gives back the others. The copy in that emptied a free frame may still read it. While half
 * of the cache has room, a new frame is made instead of waiting. So copies both ways never wait
 * for each other's frames.
 *
 * There are two kinds of frames. Registered memory is faster to make (pinned.c). The driver's physical
 * memory, on the GPU's NUMA node, can also be mapped at the program's own addresses (zero-copy), if
 * the driver has that. Who needs a frame only for copies gets either. A mappable one is made where
 * one is asked for.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "device/cuda/cuda.h"

int
sl_cuda_class(uint64_t bytes)
{
	for (int class = 0; class < SL_CUDA_CLASSES; class ++) {
		if (bytes == sl_cuda_class_bytes(class))
			return class;
	}
	return sl_fail(
		-EINVAL,
		"device: a chunk of %llu bytes: must be 2 MiB times a power of two up "
		"to %llu",
		(unsigned long long)bytes,
		(unsigned long long)sl_cuda_class_bytes(SL_CUDA_CLASSES - 1));
}

int
sl_cuda_memory_make(struct cuda *cuda, uint64_t bytes, int host, uint64_t *handle,
		    uint64_t *alias)
{
	struct cu_allocation what = {
		.type = CU_ALLOCATION_PINNED,
		.location = {host ? CU_LOCATION_HOST_NUMA : CU_LOCATION_DEVICE,
			     host ? cuda->info.host_node : cuda->info.device},
	};
	struct cu_access access[2] = {
		{{CU_LOCATION_DEVICE, cuda->info.device}, CU_ACCESS_READ_WRITE},
		{{CU_LOCATION_HOST_NUMA, cuda->info.host_node}, CU_ACCESS_READ_WRITE},
	};
	int rc;

	*handle = *alias = 0;
	rc = CUDA_TRY(cuda, cuMemCreate, handle, bytes, &what, 0);
	if (rc)
		return rc;
	rc = CUDA_TRY(cuda, cuMemAddressReserve, alias, bytes, 0, 0, 0);
	if (rc)
		goto fail_handle;
	rc = CUDA_TRY(cuda, cuMemMap, *alias, bytes, 0, *handle, 0);
	if (rc)
		goto fail_address;
	rc = CUDA_TRY(cuda, cuMemSetAccess, *alias, bytes, access, host ? 2 : 1);
	if (!rc)
		return 0;
	(void)cuda->driver->cuMemUnmap(*alias, bytes);
fail_address:
	(void)cuda->driver->cuMemAddressFree(*alias, bytes);
fail_handle:
	(void)cuda->driver->cuMemRelease(*handle);
	return rc;
}

void
sl_cuda_memory_free(struct cuda *cuda, uint64_t bytes, uint64_t handle, uint64_t alias)
{
	(void)cuda->driver->cuMemUnmap(alias, bytes);
	(void)cuda->driver->cuMemAddressFree(alias, bytes);
	(void)cuda->driver->cuMemRelease(handle);
}

/* ---- slabs ---------------------------------------------------------------------------- */

static void
slab_destroy(struct cuda *cuda, struct cuda_slab *slab)
{
	/* The driver frees memory that a queued copy uses only after it: but it does not say so. */
	sl_cuda_slab_wait(cuda, slab);
	sl_cuda_hash_wait(cuda, slab);
	sl_cuda_memory_free(cuda, sl_cuda_class_bytes(slab->class), slab->handle,
			    slab->alias);
	atomic_fetch_sub(&cuda->slab_bytes, sl_cuda_class_bytes(slab->class));
	free(slab);
}

/* A free one, the one that was put first. idle: only if what took its contents out has ended. */
static struct cuda_slab *
slab_pop(struct cuda *cuda, int class, int idle)
{
	struct cuda_slab *slab;

	sl_mutex_lock(&cuda->pools.lock);
	slab = cuda->pools.slab_head[class];
	if (slab && idle &&
	    (!sl_fence_is_done(&cuda->dev,
			       sl_fence_make(SL_COPIES_OUT, slab->move[SL_COPIES_OUT])) ||
	     !sl_fence_is_done(&cuda->dev, sl_fence_make(SL_ENCODES, slab->move[SL_ENCODES]))))
		slab = NULL;
	if (slab) {
		cuda->pools.slab_head[class] = slab->next;
		if (!slab->next)
			cuda->pools.slab_tail[class] = NULL;
		cuda->pools.slab_free_bytes -= sl_cuda_class_bytes(class);
		cuda->pools.slab_free_n[class]--;
	}
	sl_mutex_unlock(&cuda->pools.lock);
	return slab;
}

void
sl_cuda_slab_put(struct cuda *cuda, struct cuda_slab *slab)
{
	int class = slab->class;

	slab->next = NULL;
	sl_mutex_lock(&cuda->pools.lock);
	if (cuda->pools.slab_tail[class])
		cuda->pools.slab_tail[class]->next = slab;
	else
		cuda->pools.slab_head[class] = slab;
	cuda->pools.slab_tail[class] = slab;
	cuda->pools.slab_free_bytes += sl_cuda_class_bytes(class);
	cuda->pools.slab_free_n[class]++;
	sl_mutex_unlock(&cuda->pools.lock);
}

/* Give free slabs of other sizes back, at least bytes of them if there are as many: rather those that
 * need not be waited for. */
static void
slabs_give_back(struct cuda *cuda, int but, uint64_t bytes)
{
	uint64_t given = 0;

	for (int idle = 1; idle >= 0; idle--) {
		for (int class = 0; class < SL_CUDA_CLASSES && given < bytes; class ++) {
			struct cuda_slab *slab;

			if (class == but)
				continue;
			while (given < bytes && (slab = slab_pop(cuda, class, idle))) {
				given += sl_cuda_class_bytes(class);
				slab_destroy(cuda, slab);
			}
		}
	}
}

void
sl_cuda_slabs_trim(struct cuda *cuda)
{
	slabs_give_back(cuda, -1, UINT64_MAX);
}

static int
slab_make(struct cuda *cuda, int class, struct cuda_slab **out)
{
	struct cuda_slab *slab = sl_calloc(1, sizeof(*slab));
	uint64_t bytes = sl_cuda_class_bytes(class);
	size_t free_bytes = 0, total_bytes = 0;
	int rc;

	if (!slab)
		return sl_fail(-ENOMEM, "device: out of memory");
	slab->class = class;
	rc = sl_cuda_memory_make(cuda, bytes, 0, &slab->handle, &slab->alias);
	if (rc) {
		free(slab);
		if (rc == -ENOMEM && !cuda->driver->cuMemGetInfo(&free_bytes, &total_bytes))
			return sl_fail(
				-ENOMEM,
				"device: no room for %llu more bytes: %zu of %zu are "
				"free: another program or cudaMalloc took what the "
				"device budget counts on; lower the budget",
				(unsigned long long)bytes, free_bytes, total_bytes);
		return rc;
	}
	atomic_fetch_add(&cuda->slab_bytes, bytes);
	*out = slab;
	return 0;
}

int
sl_cuda_slab_get(struct cuda *cuda, uint64_t bytes, struct cuda_slab **out)
{
	int class = sl_cuda_class(bytes);

	if (class < 0)
		return class;
	*out = slab_pop(cuda, class, 0);
	if (*out)
		return 0;
	slabs_give_back(cuda, class, bytes);
	return slab_make(cuda, class, out);
}

static int
slabs_lack(struct cuda *cuda, int class, const struct sl_pool_want *want)
{
	uint64_t bytes = sl_cuda_class_bytes(class), all, used;
	int lacks;

	sl_mutex_lock(&cuda->pools.lock);
	all = atomic_load(&cuda->slab_bytes);
	used = all - cuda->pools.slab_free_bytes;
	lacks = used + (cuda->pools.slab_free_n[class] + 1) * bytes <= want->wanted_bytes &&
		all + bytes <= want->room_bytes;
	sl_mutex_unlock(&cuda->pools.lock);
	return lacks;
}

void
sl_cuda_pool_fill(struct sl_device *dev, const struct sl_pool_want *chunks)
{
	struct cuda *cuda = sl_cuda_of(dev);
	struct cuda_slab *slab;
	int class = sl_cuda_class(chunks->bytes);

	sl_cuda_frames_wait(cuda);
	if (class < 0 || sl_cuda_enter(cuda))
		return;
	/* Where one cannot be made, whoever needs it will be told why. */
	while (slabs_lack(cuda, class, chunks) && !slab_make(cuda, class, &slab))
		sl_cuda_slab_put(cuda, slab);
	sl_cuda_leave(cuda);
}

/* ---- frames --------------------------------------------------------------------------- */

void
sl_cuda_frame_destroy(struct cuda *cuda, struct cuda_frame *frame)
{
	/* Nothing may be freed that a queued copy reads, also where its event cannot be waited for. */
	if (sl_cuda_move_wait(cuda, atomic_load(&frame->in_move)))
		(void)cuda->driver->cuStreamSynchronize(cuda->moves.in);
	if (frame->handle)
		sl_cuda_memory_free(cuda, frame->frame.bytes, frame->handle, frame->alias);
	else
		sl_cuda_pinned_free(cuda, frame->frame.data, frame->frame.bytes);
	free(frame);
}

/* Memory for a frame of this kind. */
static int
frame_memory_make(struct cuda *cuda, struct cuda_frame *frame, enum cuda_frame_kind kind)
{
	uint64_t bytes = frame->frame.bytes;
	int rc;

	if (kind == SL_CUDA_MAPPABLE) {
		rc = sl_cuda_memory_make(cuda, bytes, 1, &frame->handle, &frame->alias);
		frame->frame.data = (void *)(uintptr_t)frame->alias;
	} else {
		rc = sl_cuda_pinned_make(cuda, bytes, &frame->frame.data);
		frame->alias = (uintptr_t)frame->frame.data;
	}
	frame->frame.mappable = kind == SL_CUDA_MAPPABLE;
	return rc;
}

int
sl_cuda_frame_make(struct cuda *cuda, int class, enum cuda_frame_kind kind,
		   struct cuda_frame **out)
{
	struct cuda_frame *frame = sl_calloc(1, sizeof(*frame));
	uint64_t bytes = sl_cuda_class_bytes(class), begin_ns = sl_now_ns();
	int rc;

	if (!frame)
		return sl_fail(-ENOMEM, "device: out of memory");
	frame->class = class;
	frame->frame.bytes = bytes;
	frame->frame.private = frame;
	frame->frame.dirty_memory = 1; /* the driver does not promise zeros */
	if (atomic_load_explicit(&cuda->registers_nothing, memory_order_relaxed))
		kind = SL_CUDA_MAPPABLE;
	rc = frame_memory_make(cuda, frame, kind);
	/* Not every system lets memory be registered. */
	if (rc && kind == SL_CUDA_COPIED && cuda->info.host_vmm) {
		if (rc == -ENOTSUP || rc == -EPERM)
			atomic_store_explicit(&cuda->registers_nothing, 1,
					      memory_order_relaxed);
		rc = frame_memory_make(cuda, frame, SL_CUDA_MAPPABLE);
	}
	if (rc) {
		free(frame);
		return sl_fail_in(
			rc, "device: pinning %llu bytes of host memory%s",
			(unsigned long long)bytes,
			rc == -ENOMEM ? " (no more can be pinned: lower the host budget)"
				      : "");
	}
	if (cuda->pinned)
		cuda->pinned(cuda->pinned_arg, bytes, sl_now_ns() - begin_ns);
	*out = frame;
	return 0;
}

static struct cuda_frames *
frames_of(struct cuda *cuda, int class, enum cuda_frame_kind kind)
{
	return &cuda->pools.frames[kind][class];
}

static enum cuda_frame_kind
frame_kind(const struct cuda_frame *frame)
{
	return frame->frame.mappable ? SL_CUDA_MAPPABLE : SL_CUDA_COPIED;
}

/* Of exactly this kind. */
static struct cuda_frame *
frame_pop_kind(struct cuda *cuda, int class, enum cuda_frame_kind kind)
{
	struct cuda_frames *frames = frames_of(cuda, class, kind);
	struct cuda_frame *frame;

	sl_mutex_lock(&cuda->pools.lock);
	frame = frames->head;
	if (frame) {
		frames->head = frame->next;
		if (!frame->next)
			frames->tail = NULL;
		frames->n--;
		cuda->pools.frame_free_bytes -= sl_cuda_class_bytes(class);
	}
	sl_mutex_unlock(&cuda->pools.lock);
	return frame;
}

struct cuda_frame *
sl_cuda_frame_pop(struct cuda *cuda, int class, enum cuda_frame_kind kind)
{
	struct cuda_frame *frame = frame_pop_kind(cuda, class, kind);

	return frame || kind == SL_CUDA_MAPPABLE
		       ? frame
		       : frame_pop_kind(cuda, class, SL_CUDA_MAPPABLE);
}

/* One free frame of another size or kind; NULL: none. */
static struct cuda_frame *
frame_pop_other(struct cuda *cuda, int but, enum cuda_frame_kind but_kind)
{
	for (int class = 0; class < SL_CUDA_CLASSES; class ++) {
		for (int kind = 0; kind < SL_CUDA_FRAME_KINDS; kind++) {
			struct cuda_frame *frame =
				class == but && kind == (int)but_kind
					? NULL
					: frame_pop_kind(cuda, class,
							 (enum cuda_frame_kind)kind);

			if (frame)
				return frame;
		}
	}
	return NULL;
}

void
sl_cuda_frame_push_first(struct cuda *cuda, struct cuda_frame *frame)
{
	struct cuda_frames *frames = frames_of(cuda, frame->class, frame_kind(frame));

	sl_mutex_lock(&cuda->pools.lock);
	frame->next = frames->head;
	frames->head = frame;
	if (!frame->next)
		frames->tail = frame;
	frames->n++;
	cuda->pools.frame_free_bytes += sl_cuda_class_bytes(frame->class);
	sl_mutex_unlock(&cuda->pools.lock);
}

/* A new one is to be made: others that are in excess make room for it. */
static void
frames_make_room(struct cuda *cuda, int class, enum cuda_frame_kind kind)
{
	uint64_t given = 0;
	int excess;

	do {
		struct cuda_frame *other = NULL;

		sl_mutex_lock(&cuda->pools.lock);
		excess = sl_cuda_frames_exceed(cuda, 0);
		sl_mutex_unlock(&cuda->pools.lock);
		if (excess)
			other = frame_pop_other(cuda, class, kind);
		if (!other)
			return;
		given += other->frame.bytes;
		sl_cuda_frame_destroy(cuda, other);
	} while (given < sl_cuda_class_bytes(class));
}

static int
frame_spare_wanted(struct cuda *cuda)
{
	int wanted;

	sl_mutex_lock(&cuda->pools.lock);
	wanted = cuda->pools.frame_free_bytes < cuda->pools.frame_cache_bytes / 2;
	sl_mutex_unlock(&cuda->pools.lock);
	return wanted;
}

static int
frame_get(struct sl_device *dev, uint64_t bytes, enum cuda_frame_kind kind,
	  struct sl_frame **out)
{
	struct cuda *cuda = sl_cuda_of(dev);
	struct cuda_frame *frame;
	int class = sl_cuda_class(bytes);
	int rc;

	if (class < 0)
		return class;
	rc = sl_cuda_enter(cuda);
	if (rc)
		return rc;
	sl_cuda_frames_taken(cuda, bytes, kind);
	frame = sl_cuda_frame_pop(cuda, class, kind);
	if (frame &&
	    sl_cuda_fence_query(cuda, sl_fence_make(SL_COPIES_IN,
						    atomic_load(&frame->in_move))) == -EAGAIN &&
	    frame_spare_wanted(cuda)) {
		struct cuda_frame *spare;

		if (!sl_cuda_frame_make(cuda, class, kind, &spare)) {
			sl_cuda_frame_push_first(cuda, frame);
			frame = spare;
		}
	}
	if (frame) {
		rc = sl_cuda_move_wait(cuda, atomic_load(&frame->in_move));
		if (rc)
			sl_cuda_frame_put(dev, &frame->frame);
	} else {
		frames_make_room(cuda, class, kind);
		rc = sl_cuda_frame_make(cuda, class, kind, &frame);
		/* Pinned memory has limits of its own: what others keep may be what lacks. */
		while (rc) {
			struct cuda_frame *other = frame_pop_other(cuda, class, kind);

			if (!other)
				break;
			sl_cuda_frame_destroy(cuda, other);
			rc = sl_cuda_frame_make(cuda, class, kind, &frame);
		}
		if (rc) {
			sl_mutex_lock(&cuda->pools.lock);
			cuda->pools.frame_used_bytes -= bytes;
			sl_mutex_unlock(&cuda->pools.lock);
		}
	}
	sl_cuda_leave(cuda);
	if (rc)
		return rc;
	frame->frame.encoded_bytes = 0;
	*out = &frame->frame;
	return 0;
}

int
sl_cuda_frame_get(struct sl_device *dev, uint64_t bytes, struct sl_frame **out)
{
	return frame_get(dev, bytes, SL_CUDA_COPIED, out);
}

int
sl_cuda_frame_get_mappable(struct sl_device *dev, uint64_t bytes, struct sl_frame **out)
{
	return frame_get(dev, bytes, SL_CUDA_MAPPABLE, out);
}

void
sl_cuda_frame_put(struct sl_device *dev, struct sl_frame *given)
{
	struct cuda *cuda = sl_cuda_of(dev);
	struct cuda_frame *frame = given->private;
	uint64_t bytes = given->bytes;
	struct cuda_frames *frames;
	int keep;

	if (given->pieces) {
		sl_cuda_packed_put(dev, given);
		return;
	}
	frames = frames_of(cuda, frame->class, frame_kind(frame));
	frame->next = NULL;
	frame->frame.dirty_memory = 1;
	sl_mutex_lock(&cuda->pools.lock);
	cuda->pools.frame_used_bytes -= bytes;
	cuda->pools.active_ns = sl_now_ns();
	keep = !sl_cuda_frames_exceed(cuda, bytes) || sl_cuda_frames_excess(cuda);
	if (keep) {
		if (frames->tail)
			frames->tail->next = frame;
		else
			frames->head = frame;
		frames->tail = frame;
		frames->n++;
		cuda->pools.frame_free_bytes += bytes;
	}
	sl_mutex_unlock(&cuda->pools.lock);
	if (keep)
		return;
	if (sl_cuda_enter(cuda)) { /* beyond what is kept, but not lost: destroy frees it */
		sl_cuda_frame_push_first(cuda, frame);
		return;
	}
	sl_cuda_frame_destroy(cuda, frame);
	sl_cuda_leave(cuda);
}

void
sl_cuda_pools_fini(struct cuda *cuda)
{
	for (int class = 0; class < SL_CUDA_CLASSES; class ++) {
		struct cuda_frame *frame;
		struct cuda_slab *slab;

		while ((frame = sl_cuda_frame_pop(cuda, class, SL_CUDA_COPIED)))
			sl_cuda_frame_destroy(cuda, frame);
		while ((slab = slab_pop(cuda, class, 0)))
			slab_destroy(cuda, slab);
	}
	sl_cuda_pinned_end(cuda);
}
