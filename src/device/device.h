/* SPDX-License-Identifier: Apache-2.0 */
/*
 * START HERE: the contract of a device. A device runs kernels and holds device memory behind a
 * range of addresses. src/core knows this file and the roles; it knows no back end. A device
 * knows nothing of budgets or policies: core keeps what is present within the device budget.
 *
 * Every device has all calls of struct sl_device_ops. What only some devices can do is a *role*:
 * a struct of functions that struct sl_device points to, or NULL. Within a role no call is NULL.
 *   device.h          kernels: C functions. events: of streams
 *   device_async.h    async: copies that are not waited for. native: streams of the driver.
 *                     hash: hashes of contents. codec: encoded on the way. pool: memory made ahead
 *   device_fault.h    touches; faults: kernels may touch absent data. guards: writes are seen
 *   device_hostmap.h  hostmap: host code has a mapping of its own. zerocopy: kernels can use
 *                     frames of host memory
 * tests/contract/minimal_device.c is a device without any role.
 *
 * A *granule* is an aligned 2 MiB of the address range: the unit of its tables and the smallest
 * chunk. A *chunk* is a power of two of granules. It becomes present and absent as a whole. A
 * *frame* is a chunk-sized, SL_STORE_ALIGN-aligned piece of host memory; I/O can target it.
 *
 * Core never moves one chunk on two threads at once, and never while a frame lent to it is in
 * I/O. A frame that core *keeps* while its contents are on the device (SL_PRESENT_KEEP) stays
 * logically valid. Its data must not be touched until absent() with SL_ABSENT_KEPT or
 * SL_ABSENT_COPY gives it back: the software device lends the memory itself, a GPU copies.
 *
 * Threads: any function from any thread at once unless said otherwise. None takes the space
 * lock. Errors: 0 or -errno with a text that names the call and the address.
 */
#ifndef SL_DEVICE_DEVICE_H
#define SL_DEVICE_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "sluice/launch.h"

#define SL_GRANULE_BYTES (2u << 20)
#define SL_PAGE_BYTES    4096u

struct sl_device;
struct sl_stream; /* the device's part of a sluice_stream */
struct sl_event;
struct sl_touch; /* device_fault.h */

/* Host memory for I/O. data is valid and stable while core holds the frame (but see KEEP), until
 * absent() brings contents: they may lie elsewhere then. */
struct sl_frame {
	void *data;
	uint64_t bytes;
	int dirty_memory; /* 1: holds old bytes of this space, 0: zeros (fresh); informative */
	int mappable; /* 1: role zerocopy can map it */
	/* It has so many bytes of src/codec, which are those of a chunk (role codec). 0: it is as it is. Who
	 * writes data says so. */
	uint64_t encoded_bytes;
	uint64_t would_bytes; /* so many it would have encoded, or has, when it was written last by way of the codec */
	/* Packed: the encoded bytes lie in pieces of a granule each, and data is NULL. bytes is that of all
	 * pieces. NULL: it is not packed. */
	void **pieces;
	void *private; /* the device's */
};

enum sl_present_flag {
	SL_PRESENT_KEEP = 1,         /* core keeps the frame; else it is consumed (put) */
	SL_PRESENT_GUARD = 2,        /* guards: the next write to the chunk is a touch */
	SL_PRESENT_GUARD_STRICT = 4, /* as GUARD, and no write can slip in before the guard
				      * stands, whoever races; may cost a copy */
	SL_PRESENT_UNDEFINED = 8 /* without a frame: zeros or older bytes of this space: cheaper */
};

enum sl_absent_how {
	SL_ABSENT_COPY, /* contents go to frame (which was not kept, or is overwritten) */
	SL_ABSENT_KEPT, /* nothing changed since present(KEEP): frame has the contents again */
	SL_ABSENT_DISCARD /* contents are lost; frame is NULL */
};

/* Where touches of host code arrive, for devices that have touches. */
enum sl_delivery {
	SL_DELIVER_THREAD, /* on threads of the device; system calls may touch */
	SL_DELIVER_SIGNAL  /* on the touching thread; a system call gets EFAULT */
};

/* One piece of work on a stream. Owned by the caller until done() has been called. */
struct sl_task {
	/* Do it, in its turn; may block. Not called (rc -ECANCELED goes to done) when skippable
	 * and an earlier task of the stream failed and nobody has synchronised since. */
	int (*run)(struct sl_task *task);
	void (*done)(struct sl_task *task, int rc); /* exactly once; may free the task */
	int skippable;
	/*
	 * Native streams: run() is called at once, on the submitting thread, to enqueue what
	 * there is to do on the stream, and done() on a thread of the device when the stream has
	 * come to its end. With at_turn set run() itself is called there and then, before
	 * done(); work submitted later does not wait for it.
	 */
	int at_turn;
	struct sl_task *next; /* the stream's */
};

/* What every device does. */
struct sl_device_ops {
	const char *name; /* "soft" */

	/* Stop threads, unmap everything, free. No work may be queued. */
	void (*destroy)(struct sl_device *dev);

	/*
	 * Make [addr, addr + bytes) (inside dev->base .. + dev->bytes, chunk-aligned) usable: all
	 * absent. detach: back to inaccessible; contents are lost. Where touches are events, one
	 * outside attached ranges ends its kernel with -EFAULT ("kernel touched ... outside any
	 * region"), or is the ordinary SIGSEGV of host code.
	 */
	int (*attach)(struct sl_device *dev, void *addr, size_t bytes,
		      enum sl_delivery delivery);
	void (*detach)(struct sl_device *dev, void *addr, size_t bytes);

	/* Frames. bytes: a chunk size. get: -ENOMEM. The device keeps a bounded cache of free
	 * ones. Contents of a fresh frame: zeros or older bytes of this space. */
	int (*frame_get)(struct sl_device *dev, uint64_t bytes, struct sl_frame **out);
	void (*frame_put)(struct sl_device *dev, struct sl_frame *frame);

	/*
	 * Make a whole absent chunk present with the contents of frame (NULL: zeros). A chunk
	 * with some pages present: -EEXIST. On failure the frame is still core's and intact.
	 * Wakes threads that wait on the chunk. flags: enum sl_present_flag.
	 */
	int (*present)(struct sl_device *dev, void *addr, uint64_t bytes,
		       struct sl_frame *frame, unsigned flags);
	/*
	 * Make a present chunk (wholly or in part) absent, atomically for concurrent writers: a
	 * racing write is either in the frame or touches afterwards. Pages that were not present:
	 * with COPY their part of the frame is left as it was. On failure the chunk is present as
	 * before, nothing lost.
	 */
	int (*absent)(struct sl_device *dev, void *addr, uint64_t bytes,
		      struct sl_frame *frame, enum sl_absent_how how);
	/* Copy the contents of a whole present chunk into frame; it stays present (guard it first
	 * to know about later writes). */
	int (*snapshot)(struct sl_device *dev, const void *addr, uint64_t bytes,
			struct sl_frame *frame);

	/* Streams, with the semantics of sluice/launch.h. submit may block while many tasks are
	 * queued. synchronize returns and clears the first error. */
	int (*stream_create)(struct sl_device *dev, struct sl_stream **out);
	void (*stream_destroy)(struct sl_stream *stream);
	void (*stream_submit)(struct sl_stream *stream, struct sl_task *task);
	int (*stream_synchronize)(struct sl_stream *stream);
};

/* Role: kernels are C functions. */
struct sl_device_kernels {
	/*
	 * Run kernel over grid; returns when all blocks are done: 0, or the code of the first
	 * touch that could not be served (remaining blocks are then not started). launch: cookie
	 * for touches. Blocks. Several may run at once.
	 */
	int (*run)(struct sl_device *dev, sluice_kernel kernel, struct sluice_grid grid,
		   void *args, void *launch);
};

/* Role: events, with the semantics of sluice/launch.h. */
struct sl_device_events {
	int (*create)(struct sl_device *dev, struct sl_event **out);
	void (*destroy)(struct sl_event *event);
	int (*record)(struct sl_stream *stream, struct sl_event *event);
	int (*wait)(struct sl_stream *stream, struct sl_event *event);
	void (*synchronize)(struct sl_event *event);
	int (*query)(struct sl_event *event);
};

/* How far a device is. Wrappers share that of the device they wrap. */
struct sl_device_progress {
	/* By enum sl_move_queue of device_async.h. The number of the last move enqueued, and of the last one
	 * done. Equal, and not counted at all, where calls wait for their copies. */
	struct sl_timeline {
		/* atomic: pairs with the acquire loads of device_async.h. */
		_Atomic uint64_t issued, done;
	} queue[4];
	uint64_t move_retries; /* atomic: moves the system refused at first */
};

struct sl_device {
	const struct sl_device_ops *ops;
	/* Roles; NULL: the device has it not. Set once. */
	const struct sl_device_kernels *kernels;
	const struct sl_device_events *events;
	const struct sl_device_async *async;
	const struct sl_device_native *native;
	const struct sl_device_hash *hash;
	const struct sl_device_codec *codec;
	const struct sl_device_pool *pool;
	const struct sl_device_faults *faults;
	const struct sl_device_guards *guards;
	const struct sl_device_hostmap *hostmap;
	const struct sl_device_zerocopy *zerocopy;
	struct sl_device_progress *progress; /* set once */
	void *base; /* addresses reserved for the space; chunk-aligned */
	size_t bytes;
	uint32_t workers;
	char uuid[48]; /* "GPU-..." as the driver's tools print it; "" without hardware */
	int kernel_touches; /* 1: THREAD delivery also serves touches from system calls */
};

/* What core does for a device that has touches. Set once at creation. */
struct sl_touch_server {
	/*
	 * Serve a touch: after 0 the access is tried again. Negative: it cannot be served (text
	 * set): the device ends the kernel (run() returns that code with that text), or lets host
	 * code have SIGBUS. May block on I/O. Called on a device thread or on the touching thread.
	 */
	int (*touched)(void *core, const struct sl_touch *touch);
	void *core;
};

struct sl_device_config {
	size_t address_bytes;
	/* Software device: take this range, which the caller has reserved (mapped) and goes on
	 * owning; NULL: reserve one. */
	void *address_base;
	/* CUDA device: be in this context (a CUcontext, which outlives the device); NULL: in the
	 * GPU's primary one. */
	void *native_context;
	int hostmap_optional; /* CUDA device: do without hostmap where the system refuses it */
	uint32_t workers;           /* 0: one per CPU */
	uint64_t frame_cache_bytes; /* free frames kept for reuse at most */
	/* CUDA device: so many more bytes of host memory have been pinned, which took ns. On any
	 * thread, without a lock of the device. NULL: nobody wants to know. */
	void (*pinned)(void *arg, uint64_t bytes, uint64_t ns);
	void *pinned_arg;
	struct sl_touch_server touch_server;
};

/* The software device. -EPERM / -ENOTSUP: userfaultfd refused or missing (text says which
 * system setting allows it). Blocks on starting threads. */
int sl_device_soft_create(const struct sl_device_config *config,
			  struct sl_device **out) SL_MUST_CHECK;

/*
 * A CUDA device, number ordinal. -ENOTSUP: no driver, no GPU, or one that lacks what it takes;
 * the text says which. Blocks on opening the driver and a context.
 */
int sl_device_cuda_create(const struct sl_device_config *config, int ordinal,
			  struct sl_device **out) SL_MUST_CHECK;

/* Wrappers that own the device they wrap. fault: asks sl_fault_point("device.present" ...)
 * first. delay: moves between host and device take at least bytes / bytes_per_s, and each at
 * least delay_ns, one direction at a time per direction (a link). On failure the inner is
 * destroyed. */
int sl_device_wrap_fault(struct sl_device *inner, struct sl_device **out) SL_MUST_CHECK;
int sl_device_wrap_delay(struct sl_device *inner, uint64_t delay_ns, uint64_t bytes_per_s,
			 struct sl_device **out) SL_MUST_CHECK;

#endif
