/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: the ranges of a kernel, each with an intent. Also streams, events and kernels of the
 * software device.
 *
 * Declared ranges are brought in and pinned before the launch runs. A launch that declares nothing
 * runs by faults on the software device, and may touch everything on a GPU.
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

/* The use that a launch makes of a range. A wrong intent is the caller's error: checking mode
 * finds it. */
enum sluice_intent {
	SLUICE_USE_READ,       /* only read: evicted later without a copy */
	SLUICE_USE_WRITE,      /* some bytes written, others keep their value */
	SLUICE_USE_READ_WRITE, /* read and written */
	SLUICE_USE_WRITE_ALL, /* every byte written, none read before: not brought in. Until the
			       * kernel begins the old contents stay. A byte that the kernel
			       * leaves alone is zero or has an older value of its own. */
	SLUICE_USE_SCRATCH, /* contents matter neither before nor after the launch: dead from the
			     * call on, run or not, as by a lazy sluice_discard(). Later it
			     * reads as zeros or as older values of the same range. */
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

/* The position of one call of a kernel. */
struct sluice_block {
	struct sluice_grid index; /* this block */
	struct sluice_grid grid;  /* all blocks */
	uint32_t worker;          /* number of the worker thread that runs it */
};

/* A kernel of the software device: called once per block, on worker threads, in any
 * order. */
typedef void (*sluice_kernel)(const struct sluice_block *block, void *args);

/* A host function, called in stream order: see sluice_stream_callback(). */
typedef void (*sluice_host_fn)(void *arg);

/*
 * Streams: work on one stream runs in order, different streams run at once. NULL is the space's
 * default stream.
 * Errors: -ENOMEM.
 * Threads: any.
 * Blocks: destroy waits for the stream's work.
 */
SLUICE_API int sluice_stream_create(struct sluice_space *space,
				    struct sluice_stream **out) SLUICE_MUST_CHECK;
SLUICE_API void sluice_stream_destroy(struct sluice_stream *stream);

/*
 * CUDA device: use the program's own streams.
 *  - wrap makes a stream known to the space, so that launches on it can be begun and ended. native
 *    is a CUstream or cudaStream_t, and must outlive *out.
 *  - native returns the CUstream of a stream, for enqueuing on it. stream NULL is the space's
 *    default stream, which is the program's default stream.
 * Errors: -ENOTSUP (the device has no native streams; sluice_stream_native() returns NULL there),
 *     -ENOMEM.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API int sluice_stream_wrap(struct sluice_space *space, void *native,
				  struct sluice_stream **out) SLUICE_MUST_CHECK;
SLUICE_API void *sluice_stream_native(struct sluice_space *space,
				      struct sluice_stream *stream);

/*
 * Wait for all work that was enqueued on the stream before this call. The stream's error is
 * cleared then. Until then, launches behind a failed one are not run, and their -ECANCELED is not
 * reported.
 * Errors: the stream's first error since the last call.
 * Threads: any.
 * Blocks: on the stream.
 */
SLUICE_API int sluice_stream_synchronize(struct sluice_space *space,
					 struct sluice_stream *stream) SLUICE_MUST_CHECK;

/*
 * Enqueue a host function: fn(arg) is called in stream order, on a thread of the library or of the
 * driver. fn may call any function of this API, but:
 *  - Some calls wait for work on a range: unmap, remap, sync, evict, advise, and discard without a
 *    stream. They count fn itself as over. They return -EDEADLK if work that was submitted after
 *    this callback uses the range, since that work may wait for fn.
 *  - sluice_stream_synchronize() of fn's own stream and sluice_space_destroy() return -EDEADLK.
 *  - fn must not wait for an event that is recorded behind it, nor destroy its own stream.
 *  - On a GPU fn must not touch data on the device, nor call the driver.
 * Errors: -EINVAL, -ENOMEM.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API int sluice_stream_callback(struct sluice_space *space,
				      struct sluice_stream *stream, sluice_host_fn fn,
				      void *arg) SLUICE_MUST_CHECK;

/*
 * Events order work of different streams.
 *  - record: the event is complete when all earlier work of the stream is done. Each record starts
 *    it again. A never recorded event is complete.
 *  - wait: later work of the stream runs after the event.
 *  - synchronize: the caller waits until it is complete.
 *  - query: 0 complete, -EAGAIN not yet.
 *  - destroy: only when no stream refers to the event any more.
 * Errors: -EINVAL (a stream of another space).
 * Threads: any.
 * Blocks: synchronize, on the event; the others do not.
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
 * Run kernel over grid on the stream (software device). Returns once it is enqueued.
 *  - args: args_bytes are copied, at most 1024.
 *  - uses: n_uses ranges that the kernel touches, copied. Each lies inside one region. Without
 *    uses the kernel runs by faults.
 * Errors: -EINVAL (empty grid, contradicting uses), -ENOENT (a use outside any region; the text
 *     names it), -ENOBUFS (the uses are larger than the device budget less pinned data; the text
 *     has both sizes), -ENOTSUP (not a software device). Later errors, -EIO and -EFAULT, come from
 *     sluice_stream_synchronize(). The kernel then has not run, or not to its end.
 * Threads: any.
 * Blocks: if 256 launches are queued on the stream. If the device is shared: on the turn and on
 *     room that other programs give up (enum sluice_share). If all uses are resident, the call
 *     takes the space lock briefly, with no I/O and no system call but the wake.
 */
SLUICE_API int sluice_launch(struct sluice_space *space, struct sluice_stream *stream,
			     sluice_kernel kernel, struct sluice_grid grid,
			     const void *args, size_t args_bytes,
			     const struct sluice_use *uses, size_t n_uses) SLUICE_MUST_CHECK;

/*
 * Bring in and pin ranges until sluice_launch_end(*out). The pins end when the stream has done the
 * work that was enqueued before sluice_launch_end().
 *
 * Software device: the caller itself touches the ranges, which are present on return. Work
 * enqueued on stream in between is covered as well.
 *
 * CUDA device: this is the way to launch kernels. Enqueue them on stream before
 * sluice_launch_end(). The call may return before the copies are done, since the stream waits for
 * them. Ranges that do not fit the device budget stay in host memory, where kernels access them.
 * Host code of this thread must not touch the ranges before sluice_launch_end(): it gets SIGBUS.
 *
 * Errors: as sluice_launch(), and at once -EIO, -ENOSPC, -EBUSY (the stream is being captured,
 *     CUDA). On error nothing is pinned.
 * Threads: any.
 * Blocks: software device: on copies and I/O unless all is resident. CUDA device: on I/O, and on
 *     room that other launches hold. If the device is shared: on the turn and on room that other
 *     programs give up; a thread that has begun another launch does not wait for these.
 */
SLUICE_API int sluice_launch_begin(struct sluice_space *space, struct sluice_stream *stream,
				   const struct sluice_use *uses, size_t n_uses,
				   struct sluice_launch **out) SLUICE_MUST_CHECK;
SLUICE_API void sluice_launch_end(struct sluice_launch *launch);

/*
 * The part of one array that a tile uses. A tile has n elements, from element first on. It uses
 * its own elements, plus a halo of before_bytes and behind_bytes (for stencils), clipped to the
 * array. element_bytes 0: every tile uses the whole array.
 */
struct sluice_tile_use {
	const void *addr;     /* element 0 */
	size_t size_bytes;    /* of the array */
	size_t element_bytes; /* of one element of the work */
	size_t before_bytes, behind_bytes;
	enum sluice_intent intent;
};

/* Enqueue the kernel over [first, first + n) on the stream. Returns 0, or the error that
 * sluice_launch_tiles() shall return. Must not wait for the stream. */
typedef int (*sluice_tile_fn)(void *arg, uint64_t first, uint64_t n);

/*
 * The number of elements of a tile, at least one. A tile uses a sixteenth of the device budget, so
 * that a few tiles are on their way while one computes. It is rounded to whole chunks of every
 * array, so that write-all covers them. It never exceeds the budget.
 * Errors: -EINVAL (no use has elements, unknown intent), -ENOBUFS (not even one element fits beside
 *     the arrays that every tile uses).
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API int sluice_tile_elements(struct sluice_space *space,
				    const struct sluice_tile_use *uses, size_t n_uses,
				    uint64_t *out) SLUICE_MUST_CHECK;

/*
 * Work on n elements in tiles. For each tile: sluice_launch_begin() with its uses,
 * fn(arg, first, n), sluice_launch_end(). uses: at most 16. Returns once all are enqueued, or with
 * the first error of begin or fn. Earlier tiles are then enqueued and run.
 * Errors: as sluice_tile_elements() and sluice_launch_begin(), and those of fn.
 * Threads: any.
 * Blocks: while the device is full of tiles that are not done.
 */
SLUICE_API int sluice_launch_tiles(struct sluice_space *space, struct sluice_stream *stream,
				   const struct sluice_tile_use *uses, size_t n_uses,
				   uint64_t n, sluice_tile_fn fn,
				   void *arg) SLUICE_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
