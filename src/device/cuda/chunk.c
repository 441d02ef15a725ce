/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contents of an address in the GPU's mapping: nothing, a slab (present), or a frame of host
 * memory (zero-copy). Streams do not order mapping and unmapping. A chunk is mapped while its
 * contents are still on their way: no work uses it before it has passed gate(). It is unmapped
 * when core has seen the end of the last launch that uses it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fault_point.h"
#include "base/nvtx.h"
#include "device/cuda/cuda.h"

static uint64_t
gpu_address(const void *addr)
{
	return (uintptr_t)addr;
}

int
sl_cuda_chunk_map(struct cuda *cuda, void *addr, uint64_t bytes, uint64_t handle)
{
	struct cu_access access = {{CU_LOCATION_DEVICE, cuda->info.device},
				   CU_ACCESS_READ_WRITE};
	int rc = CUDA_TRY(cuda, cuMemMap, gpu_address(addr), bytes, 0, handle, 0);

	if (rc)
		return rc;
	rc = CUDA_TRY(cuda, cuMemSetAccess, gpu_address(addr), bytes, &access, 1);
	if (rc)
		(void)cuda->driver->cuMemUnmap(gpu_address(addr), bytes);
	return rc;
}

int
sl_cuda_chunk_unmap(struct cuda *cuda, void *addr, uint64_t bytes)
{
	return CUDA_TRY(cuda, cuMemUnmap, gpu_address(addr), bytes);
}

/* zero: clear it when there is no frame. */
static int
chunk_present(struct cuda *cuda, void *addr, uint64_t bytes, struct sl_frame *frame, int zero)
{
	struct cuda_chunk *chunk = sl_cuda_chunk(cuda, addr);
	struct cuda_slab *slab;
	uint64_t move = 0;
	int rc = sl_cuda_attached(cuda, addr, bytes);

	if (!rc && atomic_load(&cuda->lost))
		rc = sl_cuda_errno(atomic_load(&cuda->lost),
				   "device: the context was lost");
	if (rc)
		return rc;
	if (chunk->slab || chunk->reached)
		return sl_fail(-EEXIST, "device: %p is %s already", addr,
			       chunk->slab ? "present" : "reached");
	rc = sl_cuda_slab_get(cuda, bytes, &slab);
	if (rc)
		return rc;
	rc = sl_cuda_chunk_map(cuda, addr, bytes, slab->handle);
	if (rc)
		goto fail;
	if (frame && frame->encoded_bytes)
		rc = sl_cuda_codec_in(cuda, slab, frame, bytes, &move);
	else if (frame || zero)
		rc = sl_cuda_move_in(cuda, slab, frame, bytes, &move);
	if (rc) {
		sl_ignore(sl_cuda_chunk_unmap(cuda, addr, bytes));
		goto fail;
	}
	chunk->slab = slab;
	/* What a slab held before is of this space: a chunk whose contents do not matter may have it,
	 * but is used only once the last copy of it has ended, the one out, or one in that nobody waited for.
	 * Not behind other copies in: what is new has no reason to wait for them. */
	chunk->after = slab->last;
	if (frame && frame->pieces)
		sl_cuda_packed_read(frame, move);
	else if (frame)
		atomic_store(&((struct cuda_frame *)frame->private)->in_move, move);
	return 0;
fail:
	sl_cuda_slab_put(cuda, slab);
	return sl_fail_in(rc, "device: presenting %p", addr);
}

int
sl_cuda_present(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
		unsigned flags)
{
	struct cuda *cuda = sl_cuda_of(dev);
	int rc = sl_cuda_enter(cuda);

	if (rc)
		return rc;
	rc = chunk_present(cuda, addr, bytes, frame, !(flags & SL_PRESENT_UNDEFINED));
	sl_cuda_leave(cuda);
	if (!rc && frame && sl_nvtx_listens())
		sl_nvtx_mark("copy in", bytes);
	if (!rc && frame && !(flags & SL_PRESENT_KEEP))
		sl_cuda_frame_put(dev, frame);
	return rc;
}

struct sl_fence
sl_cuda_ready_at(struct sl_device *dev, const void *addr)
{
	struct sl_fence after = sl_cuda_chunk(sl_cuda_of(dev), addr)->after;

	return sl_fence_is_done(dev, after) ? sl_fence_make(SL_COPIES_IN, 0) : after;
}

int
sl_cuda_out_start(void *addr, const struct cuda_out *what,
		  int (*enqueue)(struct cuda_out *out, struct cuda_slab *slab,
				 struct sl_fence after),
		  struct cuda_queue *queue)
{
	struct cuda *cuda = what->cuda;
	struct cuda_chunk *chunk = sl_cuda_chunk(cuda, addr);
	struct cuda_slab *slab = chunk->slab;
	struct cuda_out *out;
	int rc;

	if (!slab)
		return sl_fail(-EINVAL, "device: %p is not present", addr);
	out = sl_malloc(sizeof(*out));
	if (!out)
		return sl_fail(-ENOMEM, "device: out of memory");
	*out = *what;
	rc = sl_cuda_enter(cuda);
	if (rc) {
		free(out);
		return rc;
	}
	/* Unmap first: if that fails nothing has happened. The slab stays reachable by its alias. */
	rc = sl_cuda_chunk_unmap(cuda, addr, out->bytes);
	if (!rc) {
		rc = enqueue(out, slab, chunk->after);
		if (rc && sl_cuda_chunk_map(cuda, addr, out->bytes, slab->handle))
			sl_fail_in(rc, "device: %p cannot be mapped back", addr);
	}
	sl_cuda_leave(cuda);
	if (rc) {
		free(out);
		return rc;
	}
	chunk->slab = NULL;
	sl_cuda_complete(&cuda->outs, queue, &out->pending);
	sl_cuda_slab_put(cuda, slab);
	return 0;
}

void
sl_cuda_out_end(struct cuda_out *out, int rc)
{
	if (rc)
		sl_fail_in(rc, "device: copy to the host");
	out->done(out->cookie, rc);
	free(out);
}

static void
out_copied(struct cuda_pending *pending, int rc)
{
	struct cuda_out *out = (struct cuda_out *)pending;

	sl_cuda_move_ended(out->cuda, SL_COPIES_OUT, pending->number);
	sl_cuda_out_end(out, rc);
}

static int
raw_enqueue(struct cuda_out *out, struct cuda_slab *slab, struct sl_fence after)
{
	out->frame->encoded_bytes = 0;
	return sl_cuda_move_out(out->cuda, slab, out->frame->data, out->bytes, after,
				&out->pending);
}

int
sl_cuda_absent_start(struct sl_device *dev, void *addr, uint64_t bytes,
		     struct sl_frame *frame, void (*done)(void *cookie, int rc), void *cookie)
{
	struct cuda *cuda = sl_cuda_of(dev);
	const struct cuda_out what = {.pending = {.done = out_copied},
				      .cuda = cuda,
				      .frame = frame,
				      .bytes = bytes,
				      .done = done,
				      .cookie = cookie};
	int rc = sl_cuda_out_start(addr, &what, raw_enqueue, &cuda->moves.out_queue);

	if (!rc && sl_nvtx_listens())
		sl_nvtx_mark("copy out", bytes);
	return rc;
}

struct out_wait {
	struct sl_mutex lock;
	struct sl_cond wake;
	int ended, rc;
	char text[SL_ERROR_TEXT_BYTES];
};

static void
out_wake(void *cookie, int rc)
{
	struct out_wait *wait = cookie;

	sl_mutex_lock(&wait->lock);
	wait->rc = rc;
	if (rc)
		snprintf(wait->text, sizeof(wait->text), "%s", sluice_last_error());
	wait->ended = 1;
	sl_cond_signal(&wait->wake);
	sl_mutex_unlock(&wait->lock);
}

static int
absent_copy(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame)
{
	struct out_wait wait = {0};
	int rc;

	sl_mutex_init(&wait.lock, SL_RANK_STREAM);
	sl_cond_init(&wait.wake);
	rc = sl_cuda_absent_start(dev, addr, bytes, frame, out_wake, &wait);
	if (!rc) {
		sl_mutex_lock(&wait.lock);
		while (!wait.ended)
			sl_cond_wait(&wait.wake, &wait.lock);
		sl_mutex_unlock(&wait.lock);
		rc = wait.rc ? sl_fail_text(wait.rc, wait.text) : 0;
	}
	sl_cond_fini(&wait.wake);
	sl_mutex_fini(&wait.lock);
	return rc;
}

int
sl_cuda_absent(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	       enum sl_absent_how how)
{
	struct cuda *cuda = sl_cuda_of(dev);
	struct cuda_chunk *chunk = sl_cuda_chunk(cuda, addr);
	int rc;

	if (!chunk->slab)
		return sl_fail(-EINVAL, "device: %p is not present", addr);
	if (how == SL_ABSENT_COPY)
		return absent_copy(dev, addr, bytes, frame);
	rc = sl_cuda_enter(cuda);
	if (rc)
		return rc;
	rc = sl_cuda_chunk_unmap(cuda, addr, bytes);
	sl_cuda_leave(cuda);
	if (rc && !atomic_load(&cuda->lost)) /* a lost context has no mappings */
		return rc;
	sl_cuda_slab_put(cuda, chunk->slab); /* whoever gets it waits for a copy in under way */
	chunk->slab = NULL;
	return 0;
}

int
sl_cuda_snapshot(struct sl_device *dev, const void *addr, uint64_t bytes,
		 struct sl_frame *frame)
{
	struct cuda *cuda = sl_cuda_of(dev);
	struct cuda_chunk *chunk = sl_cuda_chunk(cuda, addr);
	struct cuda_pending pending = {0};
	int rc;

	if (!chunk->slab)
		return sl_fail(-EINVAL, "device: %p is not present", addr);
	rc = sl_cuda_enter(cuda);
	if (rc)
		return rc;
	frame->encoded_bytes = 0;
	rc = sl_cuda_move_out(cuda, chunk->slab, frame->data, bytes, chunk->after, &pending);
	if (!rc)
		rc = CUDA_TRY(cuda, cuEventSynchronize, pending.event);
	if (!rc)
		sl_cuda_move_ended(cuda, SL_COPIES_OUT, pending.number);
	sl_cuda_leave(cuda);
	return rc;
}

int
sl_cuda_zerocopy_map(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *given)
{
	struct cuda *cuda = sl_cuda_of(dev);
	struct cuda_chunk *chunk = sl_cuda_chunk(cuda, addr);
	struct cuda_frame *frame = given->private;
	int rc;

	if (chunk->slab || chunk->reached)
		return sl_fail(-EEXIST, "device: %p is %s already", addr,
			       chunk->slab ? "present" : "reached");
	if (!frame->handle)
		return sl_fail(-EINVAL, "device: a frame for copies cannot be mapped");
	rc = sl_cuda_enter(cuda);
	if (rc)
		return rc;
	rc = sl_cuda_chunk_map(cuda, addr, bytes, frame->handle);
	sl_cuda_leave(cuda);
	if (!rc)
		chunk->reached = frame;
	return rc;
}

int
sl_cuda_zerocopy_unmap(struct sl_device *dev, void *addr, uint64_t bytes)
{
	struct cuda *cuda = sl_cuda_of(dev);
	struct cuda_chunk *chunk = sl_cuda_chunk(cuda, addr);
	int rc;

	if (!chunk->reached)
		return sl_fail(-EINVAL, "device: %p is not reached", addr);
	rc = sl_cuda_enter(cuda);
	if (rc)
		return rc;
	rc = sl_cuda_chunk_unmap(cuda, addr, bytes);
	sl_cuda_leave(cuda);
	if (rc && atomic_load(&cuda->lost))
		rc = 0; /* no kernel runs any more */
	if (!rc)
		chunk->reached = NULL;
	return rc;
}

void
sl_cuda_chunk_clear(struct cuda *cuda, void *addr)
{
	struct cuda_chunk *chunk = sl_cuda_chunk(cuda, addr);

	if (chunk->slab) {
		(void)cuda->driver->cuMemUnmap(gpu_address(addr),
					       (uint64_t)SL_GRANULE_BYTES
						       << chunk->slab->class);
		sl_cuda_slab_put(cuda, chunk->slab);
	} else if (chunk->reached) {
		(void)cuda->driver->cuMemUnmap(gpu_address(addr),
					       chunk->reached->frame.bytes);
	}
	chunk->slab = NULL;
	chunk->reached = NULL;
}
