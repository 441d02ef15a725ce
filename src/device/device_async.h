/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles of a device that is *ahead* of its moves (a GPU). present() then returns when the copy is
 * enqueued. Moves are numbered in the order of their queue: one queue for the copies of each direction,
 * and one each for what is encoded and decoded on the device. A *fence* names a queue and a number: it is
 * done when that move is. Whatever runs on the device is held back with gate() until its fences are done.
 *
 * The device itself keeps order among moves of one chunk and of one frame: nobody writes to a
 * frame that was given back, or kept, before the copy that reads it has ended.
 *
 * Threads: any function from any thread at once. None takes the space lock.
 */
#ifndef SL_DEVICE_DEVICE_ASYNC_H
#define SL_DEVICE_DEVICE_ASYNC_H

#include <stdatomic.h>

#include "device/device.h"

enum sl_move_queue {
	SL_COPIES_IN,
	SL_COPIES_OUT,
	SL_ENCODES, /* of chunks, to their frames: as a copy out */
	SL_DECODES, /* of staging, to chunks: their contents are there when it is done */
	SL_QUEUE_COUNT
};

_Static_assert(sizeof(((struct sl_device_progress *)0)->queue) ==
		       SL_QUEUE_COUNT * sizeof(struct sl_timeline),
	       "device.h has a line for each");

/* The move number `value` of a queue; value 0: nothing, and done. */
struct sl_fence {
	uint64_t queue : 2;
	uint64_t value : 62;
};

/* The last fence of each queue among several: all of them are done when these are. */
struct sl_fences {
	uint64_t value[SL_QUEUE_COUNT];
};

static inline struct sl_fence
sl_fence_make(enum sl_move_queue queue, uint64_t value)
{
	const struct sl_fence fence = {(unsigned)queue & 3, value & (UINT64_MAX >> 2)};

	return fence;
}

/* Whether a fence is known to be done; asks nobody. */
static inline int
sl_fence_is_done(const struct sl_device *dev, struct sl_fence fence)
{
	return fence.value <= atomic_load_explicit(&dev->progress->queue[fence.queue].done,
						   memory_order_acquire);
}

/* The newest of a queue. */
static inline struct sl_fence
sl_fence_newest(const struct sl_device *dev, enum sl_move_queue queue)
{
	return sl_fence_make(queue, atomic_load_explicit(&dev->progress->queue[queue].issued,
							 memory_order_acquire));
}

/* Whether all moves of the device are known to be done. */
static inline int
sl_device_is_idle(const struct sl_device *dev)
{
	for (unsigned q = 0; q < SL_QUEUE_COUNT; q++)
		if (!sl_fence_is_done(dev, sl_fence_newest(dev, (enum sl_move_queue)q)))
			return 0;
	return 1;
}

static inline void
sl_fences_add(struct sl_fences *fences, struct sl_fence fence)
{
	if (fence.value > fences->value[fence.queue])
		fences->value[fence.queue] = fence.value;
}

/* When a copy was on the link, by sl_now_ns(). 0: not known, as of those enqueued before the first
 * that was watched. */
struct sl_copy_time {
	uint64_t begin_ns, end_ns;
};

/* Role: copies that nobody waits for. Without it moves are done when their call returns. */
struct sl_device_async {
	/*
	 * absent(SL_ABSENT_COPY) that returns when the copy is enqueued and the chunk is no longer
	 * mapped; the bytes of device memory can be used by the next present(). done(cookie, rc)
	 * is called once, from a thread of the device that may block, when frame has the contents,
	 * or never will (rc, text set). A task of a stream may wait for it. On failure of the call itself the chunk is present as
	 * before and done is not called.
	 */
	int (*absent_start)(struct sl_device *dev, void *addr, uint64_t bytes,
			    struct sl_frame *frame, void (*done)(void *cookie, int rc),
			    void *cookie);
	/* What has to be done before anything uses the chunk that was just made present: its own
	 * copy, or a copy out that still reads the memory which it was given. */
	struct sl_fence (*ready_at)(struct sl_device *dev, const void *addr);
	/* Look whether a fence is done: 0, -EAGAIN, or why it never will be. */
	int (*query)(struct sl_device *dev, struct sl_fence fence);
	/* Watch a fence of SL_COPIES_IN or SL_DECODES. done(cookie, rc, at) is called once, soon after it is
	 * done or never will be (rc), from a thread of the device that may block. Decodes have no time. On failure of the call
	 * itself (-ENOTSUP: nobody watches here) it is not called. */
	int (*watch)(struct sl_device *dev, struct sl_fence fence,
		     void (*done)(void *cookie, int rc, struct sl_copy_time at),
		     void *cookie);
};

/* Role, of devices with async: streams are queues of the driver. Tasks enqueue: struct sl_task. */
struct sl_device_native {
	/* A stream made of the caller's own (a CUstream), which outlives it; and the other way. */
	int (*wrap)(struct sl_device *dev, void *handle, struct sl_stream **out);
	void *(*handle)(struct sl_stream *stream);
	/* 0, or -EBUSY (text set): the program is capturing the stream into a graph, and what is
	 * enqueued would become part of it. Enqueues nothing. */
	int (*check)(struct sl_stream *stream);
	/* Later work of the stream waits until the fence is done. Enqueues only. */
	int (*gate)(struct sl_stream *stream, struct sl_fence fence);
	/* Call fn(arg) in its turn on the stream; later work waits for its end. It may call
	 * neither this library nor the driver. Enqueues only. */
	int (*call)(struct sl_stream *stream, void (*fn)(void *arg), void *arg);
	/* Wait for all work that the process has given the GPU in this context, on any stream. */
	int (*drain)(struct sl_device *dev);
};

/* What is hashed. */
enum sl_hash_of {
	SL_HASH_ARRIVED, /* what the move brings, ahead of whatever has passed the gate of the
			  * newest copy in: the hash counts as one */
	SL_HASH_NOW      /* what is there now, once the chunk's own move is done */
};

/* Role, of devices with async: hashes of what is present. */
struct sl_device_hash {
	/* Make ready what a first hash needs; blocks on that and on kernels that run. */
	int (*prepare)(struct sl_device *dev);
	/*
	 * Hash what a present chunk holds; enqueues. done(cookie, rc, sums) is called once, from a
	 * thread of the device that may take locks and must not wait for moves, in tens of
	 * microseconds, or as long as the program's kernels leave the hash no room; or never, when
	 * the call itself failed (-EBUSY: too many are under way). What is written to the chunk
	 * meanwhile makes the hash one of nothing; the chunk may go before the end of it. Two
	 * different contents of as many bytes have equal hashes with a chance of 2^-128, if
	 * whoever chose them does not know the device's key.
	 */
	int (*start)(struct sl_device *dev, const void *addr, uint64_t bytes,
		     enum sl_hash_of what,
		     void (*done)(void *cookie, int rc, const uint64_t sums[2]),
		     void *cookie);
};

#define SL_CODEC_WORTH_ALL 16u /* any saving is worth it */

/*
 * Role, of devices with async: chunks are encoded (codec/codec.h) on the device, and their frames hold fewer
 * bytes. Such a frame says so (struct sl_frame), and present() decodes it on the device.
 */
struct sl_device_codec {
	/*
	 * Make ready what the first chunk needs, of at most chunk_bytes, in at most staging_bytes of device
	 * memory beside that of chunks. No chunk is to be encoded of which more than most_parts (of
	 * SL_CODEC_WORTH_ALL) would be left. Blocks on that, and on kernels that run. Errors, with text: -ENOTSUP:
	 * this driver or GPU has no kernels of ours, -ENOMEM, -ENOSPC: staging is too small. Then
	 * absent_start() fails alike. A second call does nothing.
	 */
	int (*prepare)(struct sl_device *dev, uint64_t chunk_bytes,
		       uint64_t staging_bytes, unsigned most_parts);
	/*
	 * absent_start() of struct sl_device_async, where what goes to frame is encoded first, if no more than
	 * worth_parts of it are left then: at most those of prepare(). By done() frame->encoded_bytes says how
	 * many bytes there are; 0: the contents as they are.
	 * -EBUSY, without a text: those before take long, so its contents leave sooner as they are.
	 */
	int (*absent_start)(struct sl_device *dev, void *addr, uint64_t bytes,
			    unsigned worth_parts, struct sl_frame *frame,
			    void (*done)(void *cookie, int rc), void *cookie);
	/* An encoded frame in fewer bytes, whole granules. The old one is given back. -ENOSPC, without a text:
	 * there are none to spare. -ENOMEM: no memory for it. frame is as before then. Blocks on copying, and on
	 * memory that is made. */
	int (*pack)(struct sl_device *dev, struct sl_frame *frame, struct sl_frame **packed);
	/* The contents of an encoded frame, as they are, to another one of the chunk's size. 0; -EBADMSG: they are
	 * damaged. Blocks on the host's codec: some 20 ms for 32 MiB. */
	int (*decode)(struct sl_device *dev, const struct sl_frame *frame,
		      struct sl_frame *to);
};

/* What is wanted of a pool in all, what core has of it included: so much of one size, and at most so much of all
 * sizes. */
struct sl_pool_want {
	uint64_t bytes; /* a chunk size */
	uint64_t wanted_bytes, room_bytes;
	uint64_t number; /* of frames: these grow. One that comes late changes nothing */
	int mappable;    /* of frames: which of the two kinds (device.h) */
};

/* Role: memory is dear, and made ahead. */
struct sl_device_pool {
	/* Give device memory that is free within the device back to the system. */
	void (*trim)(struct sl_device *dev);
	/* Device memory that was taken from the system and not given back. Wait-free. */
	uint64_t (*taken)(const struct sl_device *dev);
	/* Host memory that was taken for frames, and not given back. */
	uint64_t (*frames_taken)(struct sl_device *dev);
	/* Free and total memory of the device, all programs counted. 0 or -EIO. One driver call. */
	int (*memory)(struct sl_device *dev, uint64_t *free_bytes, uint64_t *total_bytes);
	/*
	 * Frames are wanted. The device may make those that core does not have yet ahead, on a thread
	 * of its own. It keeps no more free frames than there is room, or what it keeps anyway. A
	 * later call takes the place of this one. Does not block.
	 */
	void (*frames_expect)(struct sl_device *dev, const struct sl_pool_want *want);
	/*
	 * Make now what would else be made when the first launches wait for it: the frames that
	 * are expected, then memory for chunks. Ends early where the system refuses more. Blocks for
	 * that long.
	 */
	void (*fill)(struct sl_device *dev, const struct sl_pool_want *chunks);
};

#endif
