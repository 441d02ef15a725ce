/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: what a kernel uses and with which intent; streams, events and kernels of the
 * software device. What a launch declares is brought in and pinned before it runs; a
 * launch that declares nothing runs by faults.
 */
#ifndef SLUICE_LAUNCH_H
#define SLUICE_LAUNCH_H

#include "sluice/space.h"

#ifdef __cplusplus
extern "C" {
#endif

struct sluice_stream;
struct sluice_event;
struct sluice_launch;

/* What a launch does to a range. A wrong intent is the caller's error: checking mode
 * finds it. */
enum sluice_intent {
	SLUICE_USE_READ,       /* only read: dropped later without copy-out */
	SLUICE_USE_WRITE,      /* some bytes written, others keep their value */
	SLUICE_USE_READ_WRITE, /* read and written */
	SLUICE_USE_WRITE_ALL, /* every byte written, none read before: not brought in. Until the
			       * kernel begins the old contents stay. A byte that the kernel
			       * leaves alone is zero or has an older value of its own. */
	SLUICE_USE_SCRATCH, /* contents matter neither before nor after the launch: dead from the
			     * call on, run or not, as by a lazy sluice_discard(). What it
			     * leaves reads as zeros or as older values of the same range. */
	SLUICE_USE_COUNT
};

struct sluice_use {
	const void *addr;
	size_t size_bytes;
	enum sluice_intent intent;
};

/* Kernel grid: blocks are numbered x fastest. */
struct sluice_grid {
	uint32_t x, y, z;
};

/* Where a call of a kernel stands. */
struct sluice_block {
	struct sluice_grid index; /* this block */
	struct sluice_grid grid;  /* all blocks */
	uint32_t worker;          /* number of the worker thread that runs it */
};

/* A kernel of the software device: called once per block, on worker threads, in any
 * order. */
typedef void (*sluice_kernel)(const struct sluice_block *block, void *args);

/*
 * Enqueue a host function: fn(arg) is called when the stream comes to it, on a thread of ours or of
 * the driver's. fn may call any function of this API, but:
 *  - Calls that wait for work on a range (unmap, remap, sync, evict, advise, discard without a
 *    stream) count fn itself as over. They return -EDEADLK where something that was called after
 *    this callback uses the range, since that may wait for fn.
 *  - sluice_stream_synchronize() of fn's own stream and sluice_space_destroy() return -EDEADLK.
 *  - fn must not wait for an event that is recorded behind it, nor destroy its own stream.
 * On a GPU fn must not touch what the device holds, nor make calls of the driver.
 * Errors: -EINVAL, -ENOMEM.
 * Threads: any.
 * Blocks: no.
 */
typedef void (*sluice_host_fn)(void *arg);

/*
 * Streams: work on one stream runs in order, different streams run at once. NULL is the
 * space's default stream. Destroy waits for the stream's work. Errors: -ENOMEM. Any
 * thread.
 */
SLUICE_API int sluice_stream_create(struct sluice_space *space,
				    struct sluice_stream **out) SLUICE_MUST_CHECK;
SLUICE_API void sluice_stream_destroy(struct sluice_stream *stream);

/*
 * CUDA device: make a stream of the program's own (native: a CUstream or cudaStream_t, which must
 * outlive *out) known to the space, so that launches on it can be begun and ended; and the
 * CUstream of a stream, for enqueuing on it (stream NULL: the space's default stream, which is
 * the program's default stream). Errors: -ENOTSUP on a device whose streams are not native (native
 * returns NULL there), -ENOMEM. Any thread. Do not block.
 */
SLUICE_API int sluice_stream_wrap(struct sluice_space *space, void *native,
				  struct sluice_stream **out) SLUICE_MUST_CHECK;
SLUICE_API void *sluice_stream_native(struct sluice_space *space,
				      struct sluice_stream *stream);

/*
 * Wait until everything enqueued on the stream before this call is done. Returns the
 * stream's first error since the last call and clears it; launches enqueued behind a
 * failed one until then are not run (-ECANCELED is not reported again). Blocks on the
 * stream.
 */
SLUICE_API int sluice_stream_synchronize(struct sluice_space *space,
					 struct sluice_stream *stream) SLUICE_MUST_CHECK;

/* Call fn(arg) on the stream's thread in stream order. Errors: -ENOMEM. Does not
 * block. */
SLUICE_API int sluice_stream_callback(struct sluice_space *space,
				      struct sluice_stream *stream, sluice_host_fn fn,
				      void *arg) SLUICE_MUST_CHECK;

/*
 * Events. record: complete when all earlier work of the stream is done (again after each
 * record). wait: later work of the stream runs after the event. synchronize: blocks until
 * complete. query: 0 complete, -EAGAIN not yet. A never recorded event is complete.
 * Destroy only when no stream refers to the event any more. -EINVAL: a stream of another space.
 * Any thread.
 */
SLUICE_API int sluice_event_create(struct sluice_space *space,
				   struct sluice_event **out) SLUICE_MUST_CHECK;
SLUICE_API void sluice_event_destroy(struct sluice_event *event);
SLUICE_API int sluice_event_record(struct sluice_space *space, struct sluice_stream *stream,
				   struct sluice_event *event) SLUICE_MUST_CHECK;
SLUICE_API int sluice_event_wait(struct sluice_space *space, struct sluice_stream *stream,
				 struct sluice_event *event) SLUICE_MUST_CHECK;
SLUICE_API void sluice_event_synchronize(struct sluice_event *event);
SLUICE_API int sluice_event_query(struct sluice_event *event) SLUICE_MUST_CHECK;

/*
 * Run kernel over grid on the stream (software device). args: args_bytes are copied (at
 * most 1024). uses: n_uses ranges the kernel touches, copied; each inside one region; 0
 * uses: the kernel runs by faults. Returns once enqueued: it does not wait for data or
 * kernel, except that a queue of 256 launches per stream blocks. Errors found at once:
 * -EINVAL (empty grid, contradicting uses), -ENOENT (a use outside any region; the text
 * names it), -ENOBUFS (the declared set is larger than the device budget less what is
 * pinned; says how much and how much there is), -ENOTSUP (not a software device). Errors
 * found later (-EIO, -EFAULT): from sluice_stream_synchronize(); the kernel then has not
 * run, or not to its end. Any thread. All resident: takes the space lock briefly, no I/O,
 * no system call but the wake.
 */
SLUICE_API int sluice_launch(struct sluice_space *space, struct sluice_stream *stream,
			     sluice_kernel kernel, struct sluice_grid grid,
			     const void *args, size_t args_bytes,
			     const struct sluice_use *uses, size_t n_uses) SLUICE_MUST_CHECK;

/*
 * Bring in and pin ranges until sluice_launch_end(*out).
 *
 * Software device: the caller itself touches the ranges, which are present on return. Work
 * enqueued on stream in between is covered as well. Blocks on copies and I/O unless all is
 * resident.
 *
 * CUDA device: this is the way to launch kernels. Enqueue them on stream before
 * sluice_launch_end(). The call may return before the copies are done; the stream waits for
 * them. What does not fit the device budget stays in host memory, where kernels use it. Host
 * code of this thread must not touch the ranges before sluice_launch_end(): it gets SIGBUS.
 * Blocks on I/O, and on room that other launches hold.
 *
 * Both: the pins go when the stream has done the work enqueued before sluice_launch_end().
 * Errors: as sluice_launch(); -EIO and -ENOSPC at once; -EBUSY: the stream is being captured
 * (CUDA). On error nothing is pinned. Any thread.
 */
SLUICE_API int sluice_launch_begin(struct sluice_space *space, struct sluice_stream *stream,
				   const struct sluice_use *uses, size_t n_uses,
				   struct sluice_launch **out) SLUICE_MUST_CHECK;
SLUICE_API void sluice_launch_end(struct sluice_launch *launch);

/*
 * What a tile of n elements from element first on uses of one array: the bytes of its own elements
 * and, of arrays that are read around them (a stencil's rows), some before and behind, cut at the
 * ends of the array. element_bytes 0: the whole array with every tile.
 */
struct sluice_tile_use {
	const void *addr;     /* element 0 */
	size_t size_bytes;    /* of the array */
	size_t element_bytes; /* of one element of the work */
	size_t before_bytes, behind_bytes;
	enum sluice_intent intent;
};

/* Enqueue the kernel over [first, first + n) on the stream. 0, or what sluice_launch_tiles() is to
 * return. Must not wait for the stream. */
typedef int (*sluice_tile_fn)(void *arg, uint64_t first, uint64_t n);

/*
 * How many elements a tile has: a sixteenth of the device budget, so that a few tiles are on their way
 * while one computes, rounded to whole chunks of every array so that write-all covers them, and at
 * least one. Never more than what fits. Errors: -EINVAL (no use has elements, unknown intent),
 * -ENOBUFS (not even one element fits beside what every tile uses). Any thread. Does not block.
 */
SLUICE_API int sluice_tile_elements(struct sluice_space *space,
				    const struct sluice_tile_use *uses, size_t n_uses,
				    uint64_t *out) SLUICE_MUST_CHECK;

/*
 * Work on n elements in tiles: for each, sluice_launch_begin() with what it uses, fn(arg, first, n),
 * sluice_launch_end(). uses: at most 16. Returns once all are enqueued, or with the first error of
 * begin or fn; earlier tiles are then enqueued and run. Errors as sluice_tile_elements() and
 * sluice_launch_begin(). Any thread. Blocks while the device is full of tiles that are not done.
 */
SLUICE_API int sluice_launch_tiles(struct sluice_space *space, struct sluice_stream *stream,
				   const struct sluice_tile_use *uses, size_t n_uses,
				   uint64_t n, sluice_tile_fn fn,
				   void *arg) SLUICE_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
