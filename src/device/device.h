/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of a device: what runs kernels, holds device memory behind a range of
 * addresses, and says when an absent address is touched. src/core knows this file and no
 * back end; a device knows nothing of chunks, budgets or policies: core guarantees that
 * the bytes it makes present stay within the device budget.
 *
 * A *span* here is what core calls a chunk: an aligned piece of the address range, a
 * multiple of 2 MiB. A *frame* is a span-sized, SL_STORE_ALIGN-aligned piece of host
 * memory that I/O can target.
 *
 * Moves are whole-span (present / absent / snapshot) or by 4 KiB pages (page_*); for one
 * span core never calls two of them at once, and never moves a span while a frame lent to
 * it is in I/O.
 *
 * A frame that core *keeps* while its contents are on the device (SL_PRESENT_KEEP) stays
 * logically valid, but its data must not be touched until absent() with SL_ABSENT_KEPT or
 * SL_ABSENT_COPY gives it back: the software device lends the memory itself, a GPU
 * copies.
 *
 * A device may be *ahead* of its moves (a GPU): present() then returns when the copy is
 * enqueued. Moves are numbered; moves_issued and moves_done say how far they are, and
 * whatever runs on the device is held back with stream_gate() until its moves are done. The
 * device itself keeps order among moves of one span and of one frame: a frame that was given
 * back, or kept, is not written to by anybody before the copy that reads it has ended.
 *
 * A device may have a *view*: host code has page tables of its own at the same addresses, and
 * sees nothing of what is present on the device. view_* move spans of it. Touches of host code
 * are then touches of the view.
 *
 * Threads: any function from any thread at once unless said otherwise. None takes the
 * space lock. Errors: 0 or -errno with a text naming the call and the address.
 */
#ifndef SL_DEVICE_DEVICE_H
#define SL_DEVICE_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "sluice/launch.h"

#define SL_SPAN_BYTES (2u << 20) /* smallest span */
#define SL_PAGE_BYTES 4096u
/* With a number: of a copy out, not of a move to the device. */
#define SL_MOVE_OUT   ((uint64_t)1 << 63)

/* What a device can do beyond holding spans. */
enum sl_device_cap {
	SL_CAP_KERNELS = 1, /* grid_run(): kernels are C functions */
	SL_CAP_FAULTS = 2, /* a kernel's touch of an absent span is an event, not the end */
	SL_CAP_GUARDS = 4, /* writes to guarded spans are seen; else guard() changes nothing */
	SL_CAP_PAGES = 8,  /* page_fill(), page_drop() */
	SL_CAP_VIEW = 16,  /* host code has a view of its own: view_* */
	SL_CAP_REACH = 32, /* reach(): an absent span can be mapped to its host frame */
	SL_CAP_NATIVE = 64 /* streams are queues of the device: tasks enqueue, see sl_task */
};

struct sl_device;
struct sl_stream; /* the device's part of a sluice_stream */
struct sl_event;

/* Host memory for I/O. data is valid and stable while core holds the frame (but see
 * KEEP), until absent() brings contents: they may lie elsewhere then. */
struct sl_frame {
	void *data;
	uint64_t bytes;
	int dirty_memory; /* 1: holds old bytes of this space, 0: zeros (fresh);
			   * informative */
	void *private;    /* the device's */
};

enum sl_present_flag {
	SL_PRESENT_KEEP = 1,  /* core keeps the frame; else it is consumed (put) */
	SL_PRESENT_GUARD = 2, /* the next write to the span is a fault (access WRITE) */
	SL_PRESENT_GUARD_STRICT = 4 /* as GUARD, and no write can slip in before the guard
				     * stands, whoever races; may cost a copy */
};

enum sl_absent_how {
	SL_ABSENT_COPY, /* contents go to frame (which was not kept, or is overwritten) */
	SL_ABSENT_KEPT, /* nothing changed since present(KEEP): frame holds the contents
			 * again */
	SL_ABSENT_DISCARD /* contents are lost; frame is NULL */
};

/* What is hashed. */
enum sl_hash_of {
	SL_HASH_ARRIVED, /* what the move brings, ahead of whatever has passed the gate of
			  * moves_issued then: the hash counts as a move */
	SL_HASH_NOW      /* what is there now, once the span's own move is done */
};

enum sl_access { SL_ACCESS_READ, SL_ACCESS_WRITE, SL_ACCESS_COUNT };

/* A touch that the device could not satisfy. */
struct sl_touch {
	void *addr; /* as precise as the device knows (software: the byte or its page) */
	enum sl_access access;
	int guarded; /* 1: the page is present and guarded (access is WRITE), 0: absent */
	void *launch;  /* cookie given to grid_run() by which the touching thread works;
			* NULL: host code */
	int in_thread; /* 1: called on the touching thread itself, inside a signal
			* handler */
	pid_t thread; /* the system's number of the touching thread; 0: the calling one */
};

/* What core does for a device. Set once at creation. */
struct sl_device_events {
	/*
	 * Serve a touch: after 0 the access is tried again. Negative: it cannot be served
	 * (text set): the device ends the kernel (grid_run returns that code with that
	 * text), or lets host code have SIGBUS. May block on I/O. Called on a device
	 * thread or on the touching thread.
	 */
	int (*touched)(void *core, const struct sl_touch *touch);
	void *core;
};

enum sl_delivery {
	SL_DELIVER_THREAD, /* touches arrive on threads of the device; system calls may
			    * touch */
	SL_DELIVER_SIGNAL  /* touches arrive on the touching thread; a system call gets
			    * EFAULT */
};

/* One piece of work on a stream. Owned by the caller until done() has been called. */
struct sl_task {
	/* Do it, on the stream's thread, may block. Not called (rc -ECANCELED goes to
	 * done) when skippable and an earlier task of the stream failed and nobody has
	 * synchronised since. */
	int (*run)(struct sl_task *task);
	void (*done)(struct sl_task *task, int rc); /* exactly once; may free the task */
	int skippable;
	/*
	 * Where streams are native, run() is called at once, on the submitting thread, to
	 * enqueue what there is to do on the stream, and done() on a thread of the device when
	 * the stream has come to its end. With at_turn set run() itself is called there and
	 * then, before done(); work submitted later does not wait for it.
	 */
	int at_turn;
	struct sl_task *next; /* the stream's */
};

struct sl_device_ops {
	const char *name; /* "soft" */

	/* Stop threads, unmap everything, free. No work may be queued. */
	void (*destroy)(struct sl_device *dev);

	/*
	 * Make [addr, addr + bytes) (inside dev->base .. + dev->bytes, span-aligned)
	 * usable: all absent, touches are events. detach: back to inaccessible; contents
	 * are lost. Outside attached ranges a touch by a kernel ends it with -EFAULT
	 * ("kernel touched ... outside any region"), one by host code is the ordinary
	 * SIGSEGV.
	 */
	int (*attach)(struct sl_device *dev, void *addr, size_t bytes,
		      enum sl_delivery delivery);
	void (*detach)(struct sl_device *dev, void *addr, size_t bytes);

	/* Give device memory that is free within the device back to the system. NULL: keeps none. */
	void (*trim)(struct sl_device *dev);

	/* Frames. bytes: a span size. get: -ENOMEM. The device keeps a bounded cache of
	 * free ones. Contents of a fresh frame: zeros or older bytes of this space. */
	int (*frame_get)(struct sl_device *dev, uint64_t bytes, struct sl_frame **out);
	void (*frame_put)(struct sl_device *dev, struct sl_frame *frame);
	/*
	 * Frames of this size may still be wanted: wanted_bytes of them beyond those that core has,
	 * and room_bytes of all sizes together. The device may make them ahead, on a thread of its
	 * own, and keeps no more free frames than room_bytes, or what it keeps anyway. Counts down
	 * by what frame_get() gives; a later call takes the place of this one. Does not block. NULL:
	 * frames cost nothing.
	 */
	void (*frames_expect)(struct sl_device *dev, uint64_t bytes,
			      uint64_t wanted_bytes, uint64_t room_bytes);
	/* Wait until there are as many as expected, or the system refuses more. NULL with frames_expect. */
	void (*frames_wait)(struct sl_device *dev);
	/*
	 * Spans of this size will be presented, wanted_bytes of them, spans of all sizes room_bytes at most, and
	 * copied out (outs: 1) or not: what that takes and can be had may be made now, instead of when the first
	 * launches wait for it. Blocks for that long. NULL: it takes nothing.
	 */
	void (*spans_expect)(struct sl_device *dev, uint64_t bytes, uint64_t wanted_bytes,
			     uint64_t room_bytes, int outs);

	/*
	 * Make a whole absent span present with the contents of frame (NULL: zeros). A
	 * span with some pages present: -EEXIST. On failure the frame is still core's and
	 * intact. Wakes threads that wait on the span.
	 */
	int (*present)(struct sl_device *dev, void *addr, uint64_t bytes,
		       struct sl_frame *frame, unsigned flags);
	/* As present(NULL), contents undefined (zeros or older bytes of this space):
	 * cheaper. */
	int (*present_any)(struct sl_device *dev, void *addr, uint64_t bytes);
	/*
	 * What has to be done before anything uses the span that was just made present: the number of
	 * its move, or SL_MOVE_OUT and the number of a copy out that still reads the memory which
	 * the span was given; 0: nothing. NULL: moves_issued, whatever it is.
	 */
	uint64_t (*arrival)(struct sl_device *dev, const void *addr);

	/*
	 * Make a present span (wholly or in part) absent, atomically for concurrent
	 * writers: a racing write is either in the frame or faults afterwards. Pages that
	 * were not present: with COPY their part of the frame is left as it was. On
	 * failure the span is present as before, nothing lost.
	 */
	int (*absent)(struct sl_device *dev, void *addr, uint64_t bytes,
		      struct sl_frame *frame, enum sl_absent_how how);

	/*
	 * absent(SL_ABSENT_COPY) of a device that is ahead: returns when the copy is enqueued and
	 * the span is no longer mapped; the bytes of device memory can be used by the next
	 * present(). done(cookie, rc) is called once, from a thread of the device that may block,
	 * when frame has the contents, or never will (rc, text set). NULL: use absent(). On
	 * failure of the call itself the span is present as before and done is not called.
	 */
	int (*absent_start)(struct sl_device *dev, void *addr, uint64_t bytes,
			    struct sl_frame *frame, void (*done)(void *cookie, int rc),
			    void *cookie);

	/* SL_CAP_REACH: map an absent span to frame, so that kernels read and write it over the
	 * link; unreach: undo. No kernel that may touch the span runs meanwhile. */
	int (*reach)(struct sl_device *dev, void *addr, uint64_t bytes,
		     struct sl_frame *frame);
	int (*unreach)(struct sl_device *dev, void *addr, uint64_t bytes);

	/*
	 * SL_CAP_VIEW: spans of SL_SPAN_BYTES of host code's view. show: an absent one gets the
	 * contents of src (NULL: zeros); guard: its first write is a touch (WRITE, guarded),
	 * until view_unguard(). hide: make it absent, with its contents to dst (NULL: they are
	 * lost); a racing write of host code is either in dst or touches again.
	 */
	int (*view_show)(struct sl_device *dev, void *addr, const void *src, int guard);
	int (*view_unguard)(struct sl_device *dev, void *addr);
	int (*view_hide)(struct sl_device *dev, void *addr, void *dst);

	/* Copy the contents of a whole present span into frame; it stays present (guard
	 * it first to know about later writes). */
	int (*snapshot)(struct sl_device *dev, const void *addr, uint64_t bytes,
			struct sl_frame *frame);

	/*
	 * Hashes. hash: of what a present span holds; enqueues. done(cookie, rc, sums) is called
	 * once, from a thread of the device that may take locks and must not wait for moves, in tens
	 * of microseconds, or as long as the program's kernels leave the hash no room; or never,
	 * when the call itself failed (-EBUSY: too many are under way). What is written to the span
	 * meanwhile makes the hash one of nothing; the span may go before the end of it. Two
	 * different contents of as many bytes have equal hashes with a chance of 2^-128, if whoever
	 * chose them does not know the device's key. prepare: make ready what a first hash needs,
	 * blocks on that and on kernels that run. Both NULL: cannot.
	 */
	int (*hash_prepare)(struct sl_device *dev);
	int (*hash)(struct sl_device *dev, const void *addr, uint64_t bytes,
		    enum sl_hash_of what,
		    void (*done)(void *cookie, int rc, const uint64_t sums[2]),
		    void *cookie);

	/* Guard present pages of a range: their next write is an event. unguard: let
	 * writes through and wake threads that wait. Absent pages are left alone. */
	int (*guard)(struct sl_device *dev, void *addr, uint64_t bytes);
	int (*unguard)(struct sl_device *dev, void *addr, uint64_t bytes);

	/* Pages: copy bytes (multiple of 4 KiB) from src (NULL: zeros) to absent pages,
	 * guarded from the start if guard != 0. Pages already present are skipped (not an
	 * error). Wakes. */
	int (*page_fill)(struct sl_device *dev, void *addr, uint64_t bytes,
			 const void *src, int guard);
	/* Drop present pages; contents are lost. */
	int (*page_drop)(struct sl_device *dev, void *addr, uint64_t bytes);

	/*
	 * Run kernel over grid on the worker threads; returns when all blocks are done:
	 * 0, or the code of the first touch that could not be served (remaining blocks
	 * are then not started). launch: cookie for touches. Blocks. Several may run at
	 * once.
	 */
	int (*grid_run)(struct sl_device *dev, sluice_kernel kernel,
			struct sluice_grid grid, void *args, void *launch);

	/* move: as arrival() gave it. Whether it has been done: 0, -EAGAIN, or why it never will. NULL: moves are always
	 * done. */
	int (*move_query)(struct sl_device *dev, uint64_t move);
	/* SL_CAP_NATIVE: later work of the stream waits until move has been done. Enqueues only. */
	int (*stream_gate)(struct sl_stream *stream, uint64_t move);
	/* SL_CAP_NATIVE: a stream made of the caller's own (a CUstream), which outlives it. */
	int (*stream_wrap)(struct sl_device *dev, void *native, struct sl_stream **out);
	void *(*stream_native)(struct sl_stream *stream);
	/* SL_CAP_NATIVE: 0, or -EBUSY (text set): the program is capturing the stream into a graph,
	 * and what is enqueued would become part of it. Enqueues nothing. */
	int (*stream_check)(struct sl_stream *stream);
	/* SL_CAP_NATIVE: call fn(arg) in its turn on the stream; later work waits for its end. It
	 * may call neither this library nor the driver. Enqueues only. */
	int (*stream_call)(struct sl_stream *stream, void (*fn)(void *arg), void *arg);

	/* Streams and events, with the semantics of sluice/launch.h. submit blocks while
	 * 256 tasks are queued. synchronize returns and clears the first error. */
	int (*stream_create)(struct sl_device *dev, struct sl_stream **out);
	void (*stream_destroy)(struct sl_stream *stream);
	void (*stream_submit)(struct sl_stream *stream, struct sl_task *task);
	/* What the stream does now, or else comes to next, the device's own work included; NULL:
	 * nothing is there. It may be over by now: to be compared, not looked into. NULL where the
	 * device cannot say. */
	const struct sl_task *(*stream_now)(struct sl_stream *stream);
	int (*stream_synchronize)(struct sl_stream *stream);
	int (*event_create)(struct sl_device *dev, struct sl_event **out);
	void (*event_destroy)(struct sl_event *event);
	int (*event_record)(struct sl_stream *stream, struct sl_event *event);
	int (*event_wait)(struct sl_stream *stream, struct sl_event *event);
	void (*event_synchronize)(struct sl_event *event);
	int (*event_query)(struct sl_event *event);
};

struct sl_device {
	const struct sl_device_ops *ops;
	void *base; /* addresses reserved for the space; span-aligned */
	size_t bytes;
	unsigned caps; /* enum sl_device_cap; set once */
	uint32_t workers;
	/* Moves to the device: number of the last one enqueued, and of the last one done. Equal,
	 * and not counted at all, where present() waits. Stored with release order. */
	_Atomic uint64_t moves_issued, moves_done;
	/* The same of copies out, of a device that is ahead of them. */
	_Atomic uint64_t outs_issued, outs_done;
	int kernel_touches; /* 1: THREAD delivery also serves touches from system calls */
	uint64_t move_retries; /* atomic: moves the system refused at first */
};

struct sl_device_config {
	size_t address_bytes;
	/* Software device: take this range, which the caller has reserved (mapped) and goes on
	 * owning; NULL: reserve one. */
	void *address_base;
	/* CUDA device: be in this context (a CUcontext, which outlives the device); NULL: in the
	 * GPU's primary one. */
	void *native_context;
	int view_optional; /* CUDA device: do without SL_CAP_VIEW where the system refuses it */
	uint32_t workers;           /* 0: one per CPU */
	uint64_t frame_cache_bytes; /* free frames kept for reuse at most */
	struct sl_device_events events;
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

/* Wrappers that own the device they wrap. fault: asks sl_fault_point("device.present"
 * ...) first. delay: moves between host and device take at least bytes / bytes_per_s, and
 * each at least delay_ns, one direction at a time per direction (a link). On failure the
 * inner is destroyed. */
int sl_device_wrap_fault(struct sl_device *inner, struct sl_device **out) SL_MUST_CHECK;
int sl_device_wrap_delay(struct sl_device *inner, uint64_t delay_ns, uint64_t bytes_per_s,
			 struct sl_device **out) SL_MUST_CHECK;

#endif
