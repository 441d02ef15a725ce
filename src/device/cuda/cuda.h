/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the CUDA device: shared by its files. The device runs ahead of its moves: a call
 * enqueues and returns. The driver's streams and events keep the order among copies.
 *
 *   cuda.c       create, destroy, attach; contexts
 *   addresses.c  the place of the space's addresses
 *   frame.c      slabs of device memory, frames of host memory, their pools
 *   ahead.c      frames made ahead
 *   chunk.c      slab or frame at an address; present, absent, snapshot, zerocopy
 *   move.c       the two copy streams, numbers of moves, waits among them
 *   hash.c       hashes of chunks, for dirty detection
 *   codec.c      chunks that are encoded on their way out, and decoded on their way in
 *   codec_kernels.c  its kernels, as nvcc has made them
 *   complete.c   threads that wait for events and call back
 *   stream.c     streams and events of the public API
 *
 * Addresses. The range of the space is reserved with the driver. cuMemMap() makes the GPU's
 * mapping of it. Host code's mapping is a software device of its own over the same range. It
 * owns the userfaultfd, the touches, and the memory that host code sees. The two have separate
 * page tables. Slabs and frames have a second, permanent address (alias) for copies. So a slab
 * can be filled or drained whatever the program's address of it.
 *
 * Locks: cuda->pools (rank FRAMES) for the lists; cuda->moves.lock (rank MOVES) for enqueuing
 * copies; a completer's and a stream's lock (rank STREAM). Chunks have none: core moves one chunk
 * at a time from one thread.
 */
#ifndef SL_DEVICE_CUDA_CUDA_H
#define SL_DEVICE_CUDA_CUDA_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/lock.h"
#include "device/cuda/cuda_driver.h"
#include "device/device.h"
#include "device/device_async.h"
#include "device/device_fault.h"
#include "device/device_hostmap.h"

/* Chunk sizes are SL_GRANULE_BYTES << class. */
#define SL_CUDA_CLASSES 6
/* Moves enqueued and not done, at most: present() waits for the oldest beyond that. */
#define SL_CUDA_MOVES   256u

struct cuda;

/* A chunk-sized piece of device memory. On a free list (pools) or at one chunk. */
struct cuda_slab {
	struct cuda_slab *next;
	uint64_t handle;
	uint64_t alias; /* permanent address, for copies */
	int class;
	/* The moves of each queue that were enqueued last (moves.lock), 0: none. What fills it waits for `last`
	 * on its stream; who gives the memory back waits for all. */
	uint64_t move[SL_QUEUE_COUNT];
	struct sl_fence last; /* the latest of them: it is behind the others */
	uint64_t hash_number; /* of the hash that was enqueued last; 0: none (hash.lock) */
};

enum cuda_frame_kind {
	SL_CUDA_COPIED, /* registered memory (pinned.c): copies use it */
	SL_CUDA_MAPPABLE, /* the driver's: kernels can use it as well, at a chunk's address */
	SL_CUDA_FRAME_KINDS
};

/* A chunk-sized piece of pinned host memory; frame.private points here. */
struct cuda_frame {
	struct sl_frame frame;
	struct cuda_frame *next;
	uint64_t handle; /* of the driver's memory, which can be mapped; 0: registered memory */
	uint64_t alias;
	int class;
	_Atomic uint64_t in_move; /* last copy in that reads it: nobody writes before its end */
};

struct cuda_chunk {
	struct cuda_slab *slab;     /* present */
	struct cuda_frame *reached; /* absent, mapped to this frame */
	struct sl_fence after;      /* what is done before it is used: ready_at() */
};

/* What tells that something pending has come. */
enum cuda_pending_on {
	CUDA_PENDING_EVENT, /* its event */
	CUDA_PENDING_CAPTURE, /* its event, to be recorded once the stream is not captured any more */
	CUDA_PENDING_STREAM /* no event can be recorded: the end of all work of the stream */
};

/* Something to be done when an event has come. */
struct cuda_pending {
	struct cuda_pending *next;
	struct cu_event *event;
	struct cu_stream *stream; /* NULL: the default one */
	enum cuda_pending_on on;
	int anywhere;    /* done() may be called by any thread */
	uint64_t number; /* of a copy out */
	void (*done)(struct cuda_pending *pending, int rc); /* frees it */
};

/* A chunk on its way out. */
struct cuda_out {
	struct cuda_pending pending; /* first */
	struct cuda *cuda;
	struct sl_frame *frame;
	uint64_t bytes;      /* of the chunk */
	uint64_t most_bytes; /* what takes more when it is encoded goes as it is */
	void (*done)(void *cookie, int rc);
	void *cookie;
};

/* A first-in-first-out of events of one stream, watched by a completer. */
struct cuda_queue {
	struct cuda_queue *next, *prev; /* completer's lock */
	struct cuda_pending *head, *tail;
	int calling; /* a done() of it is under way */
};

struct cuda_completer {
	struct cuda *cuda;
	struct sl_mutex lock; /* rank STREAM */
	struct sl_cond work;  /* something pending, or stopping */
	struct sl_cond idle;  /* some done() has returned */
	struct cuda_queue *queues;
	unsigned n_pending;
	int stopping, started;
	int entered; /* lock: 1 the thread has its context, negative: why it has not */
	pthread_t thread;
};

/* Copies are numbered by progress.queue[].issued, under lock. */
struct cuda_moves {
	struct sl_mutex lock;           /* rank MOVES */
	struct cu_stream *in, *out;     /* out: from the first copy out on */
	struct cu_context *out_context; /* of out and its events; NULL: the device's */
	struct cu_event *in_event[SL_CUDA_MOVES]; /* of move n: n % SL_CUDA_MOVES */
	struct cu_event *out_event[SL_CUDA_MOVES];
	struct cuda_queue out_queue; /* of the completer outs */
	struct cuda_queue in_queue; /* of the completer streams: copies in that are watched */
	/* From the first that was watched on: events at begin and end of copy in n, in n % SL_CUDA_MOVES,
	 * and the number of the copy they are of. */
	_Atomic int watched; /* atomic: relaxed: a copy more or less has a time */
	struct cu_event *time_event[2][SL_CUDA_MOVES];
	uint64_t timed[SL_CUDA_MOVES];
	struct {
		uint64_t move;            /* the last that was told */
		double gpu_ns, behind_ns; /* its end by the GPU's clock; add: by the host's */
	} clock;
};

/* Free frames of one kind and class. */
struct cuda_frames {
	struct cuda_frame *head, *tail;
	uint64_t n;
};

/* So many fill memory at three to four times the rate of one; 16 are slower (pinned.c). */
#define SL_CUDA_AHEAD_THREADS 4u

/* The threads that make frames ahead; begun when frames are first expected. */
struct cuda_ahead {
	struct sl_cond work; /* of pools.lock, which protects all below */
	struct sl_cond done; /* of the same: nothing is left to make */
	pthread_t thread[SL_CUDA_AHEAD_THREADS];
	unsigned n_threads;                 /* started */
	uint64_t making_n[SL_CUDA_CLASSES]; /* frames that are being made */
	int stopping;
	int refused; /* 1: a frame could not be made: none is made ahead any more */
	int resting; /* 1: the thread waits before it gives back what is in excess */
};

/* Hashes under way at once, at most. */
#define SL_CUDA_HASH_JOBS 64u

struct cuda_hash {
	struct sl_mutex lock; /* rank STREAM; all below, but what says otherwise */
	int ready;            /* 1: yes; 0: not tried; negative: why it never will be */
	struct cu_module *module;
	struct cu_function *function;
	uint64_t key[4]; /* set once ready, as the next */
	struct cu_stream *stream;
	struct cuda_hash_job *jobs, *free;
	void *parts;     /* pinned; of all jobs */
	uint64_t issued; /* number of the last one on the stream */
	/* Number of the last one that has ended. atomic: pairs with the acquire of sl_cuda_hash_wait(). */
	_Atomic uint64_t done;
	struct cuda_queue queue, arrivals; /* of the completer streams */
};

/* Chunks in staging at once, at most. */
#define SL_CUDA_STAGED_MAX 8u

struct cuda_codec {
	struct sl_mutex lock; /* rank STREAM: who makes it ready. moves.lock has what is not set once */
	/* 1: yes; 0: not tried; negative: why it never will be. atomic: what is set before is seen by who reads 1. */
	_Atomic int ready;
	struct cu_module *module; /* set once ready, so all to answers */
	struct cu_function *put, *plan, *write, *drain, *decode;
	struct cu_stream *encodes, *drains, *decodes;
	struct cu_event *event[2][SL_CUDA_MOVES]; /* encodes, decodes: of move n: n % SL_CUDA_MOVES */
	/* Of decode n, in n % SL_CUDA_MOVES: the copy in before it. Written once the decode's event is
	 * recorded, so that whoever reads a newer decode's asks for the newer event.
	 * atomic: pairs with itself, in queue_progress() */
	_Atomic uint64_t decode_copy[SL_CUDA_MOVES];
	struct cuda_staged *staged; /* first those of the way out */
	unsigned n_out, n_in;
	uint64_t chunk_bytes; /* the largest chunk that fits */
	unsigned most_parts;  /* as prepare() of struct sl_device_codec */
	struct {
		uint64_t bytes, handle, alias;
	} staging;
	void *answers; /* pinned: of encode n at n % SL_CUDA_MOVES, then of decodes */
	unsigned next_in;
	unsigned n_encodes; /* on their way, until they are told */
	uint64_t encoded; /* the last of them that the GPU is known to have done, told or not */
	uint64_t first_ns;           /* since when the one after that is the first */
	struct cuda_queue out_queue; /* of the completer outs */
	struct cuda_queue in_queue;  /* of the completer streams */
};

struct cuda {
	struct sl_device dev; /* first */
	struct sl_device_progress progress;
	const struct sl_cuda_driver *driver;
	struct sl_cuda_device_info info;
	struct cu_context *context;
	void (*pinned)(void *arg, uint64_t bytes,
		       uint64_t ns); /* set once, as in struct sl_device_config */
	void *pinned_arg;
	int primary; /* set once: the context is the GPU's primary one, retained */
	struct sl_device *hostmap; /* what host code sees; owned; NULL: nothing */
	uint64_t reserved; /* base of what is reserved; 0: none. dev.base may lie behind it */
	uint64_t reserved_bytes;
	struct cuda_chunk *chunks; /* one for every granule; a chunk uses its first */
	unsigned char *attached;   /* the same; behind them */
	size_t chunks_bytes;       /* of both */
	struct {
		struct sl_mutex lock; /* rank FRAMES */
		struct cuda_slab *slab_head[SL_CUDA_CLASSES], *slab_tail[SL_CUDA_CLASSES];
		struct cuda_frames frames[SL_CUDA_FRAME_KINDS][SL_CUDA_CLASSES];
		uint64_t slab_free_bytes, frame_free_bytes;
		uint64_t slab_free_n[SL_CUDA_CLASSES];
		uint64_t frame_cache_bytes; /* set once: free frames kept, or what is left of the limit */
		/* What is wanted in all; frames that core has, and may have, of all sizes. */
		uint64_t expected_bytes[SL_CUDA_CLASSES], frame_used_bytes, frame_limit_bytes;
		uint64_t expected_number;   /* of the newest call */
		int expected_last;          /* class */
		enum cuda_frame_kind asked; /* for last */
		uint64_t active_ns;         /* when a frame was put or taken last */
	} pools;
	_Atomic uint64_t slab_bytes; /* of all slabs, free or not */
	/* atomic: relaxed: who sees it late is refused once more. */
	_Atomic int registers_nothing; /* the driver refuses to register memory */
	struct sl_mutex registering;   /* of one frame at a time; a leaf */
	char *addresses;               /* registering: of frames to come */
	uint64_t addresses_bytes;
	struct cuda_ahead ahead;
	struct cuda_moves moves;
	struct cuda_hash hash;
	struct cuda_codec codec;
	struct cuda_completer outs; /* encodes and copies out: done() may block on I/O */
	/* Ends of work on streams. Tasks of streams run here, and may wait for what outs tells. */
	struct cuda_completer streams;
	_Atomic int lost; /* first result after which the context is of no use */
};

static inline struct cuda *
sl_cuda_of(struct sl_device *dev)
{
	return (struct cuda *)dev;
}

/* Whether all of [addr, addr + bytes) is attached; 0 or -EINVAL with text. */
int sl_cuda_attached(struct cuda *cuda, const void *addr, uint64_t bytes) SL_MUST_CHECK;

static inline struct cuda_chunk *
sl_cuda_chunk(struct cuda *cuda, const void *addr)
{
	return &cuda->chunks[(size_t)((const char *)addr - (char *)cuda->dev.base) / SL_GRANULE_BYTES];
}

/*
 * cuda.c. The driver wants a current context on the calling thread: enter pushes ours, leave
 * pops it. Pairs around every group of driver calls. Between them the thread is in the capture mode
 * RELAXED: nothing that we call is part of a capture, or may end one, of whatever thread; what mode
 * it had is put back by the outermost leave. A thread of ours enters once.
 */
int sl_cuda_enter(struct cuda *cuda) SL_MUST_CHECK;
void sl_cuda_leave(struct cuda *cuda);
/* The context alone: for calls that no capture minds. */
int sl_cuda_push(struct cuda *cuda) SL_MUST_CHECK;
void sl_cuda_pop(struct cuda *cuda);
/* The errno of a driver call on this device; notes a lost context. */
int sl_cuda_rc(struct cuda *cuda, int result, const char *call);
#define CUDA_TRY(cuda, call, ...) \
	sl_cuda_rc(cuda, (cuda)->driver->call(__VA_ARGS__), #call)
/* The class of a chunk size, or -EINVAL with text. */
int sl_cuda_class(uint64_t bytes);

/* addresses.c. The space's addresses, their tables and host code's mapping; context entered. A half-made one is
 * destroyed as well. */
int sl_cuda_addresses_create(struct cuda *cuda,
			     const struct sl_device_config *config) SL_MUST_CHECK;
void sl_cuda_addresses_destroy(struct cuda *cuda);
/* Bytes at the begin of a reserved range that are left unused. */
uint64_t sl_cuda_addresses_unused(uint64_t base, uint64_t bytes);

/* frame.c. Physical memory and its permanent address: bytes is a multiple of 2 MiB. Access is granted to the
 * device, and to the CPU for host-located memory. On failure nothing is left. Context entered. */
int sl_cuda_memory_make(struct cuda *cuda, uint64_t bytes, int host, uint64_t *handle,
			uint64_t *alias) SL_MUST_CHECK;
void sl_cuda_memory_free(struct cuda *cuda, uint64_t bytes, uint64_t handle, uint64_t alias);
/* A slab that is free (its copy out may still be under way), or a fresh one. Context
 * entered. -ENOMEM: the device has none left; text says how much there is. */
int sl_cuda_slab_get(struct cuda *cuda, uint64_t bytes, struct cuda_slab **out) SL_MUST_CHECK;
void sl_cuda_slab_put(struct cuda *cuda, struct cuda_slab *slab);
int sl_cuda_frame_get(struct sl_device *dev, uint64_t bytes, struct sl_frame **out);
int sl_cuda_frame_get_mappable(struct sl_device *dev, uint64_t bytes, struct sl_frame **out);
void sl_cuda_frame_put(struct sl_device *dev, struct sl_frame *frame);
void sl_cuda_pools_fini(struct cuda *cuda);
/* A fresh frame of a class, on no list, and its end, once no copy reads it. Context entered. */
int sl_cuda_frame_make(struct cuda *cuda, int class, enum cuda_frame_kind kind,
		       struct cuda_frame **out) SL_MUST_CHECK;
void sl_cuda_frame_destroy(struct cuda *cuda, struct cuda_frame *frame);
/* Onto the free list, as the next to be given; a free one, NULL: none. Of copied ones none: a mappable one. */
void sl_cuda_frame_push_first(struct cuda *cuda, struct cuda_frame *frame);
struct cuda_frame *sl_cuda_frame_pop(struct cuda *cuda, int class, enum cuda_frame_kind kind);
static inline uint64_t
sl_cuda_class_bytes(int class)
{
	return (uint64_t)SL_GRANULE_BYTES << class;
}

/* pinned.c. Host memory for copies, bytes a multiple of 2 MiB; its address is the device's as well. -ENOMEM: there is
 * no more, or the driver cannot pin it. Blocks while the kernel makes pages. Context entered. */
int sl_cuda_pinned_make(struct cuda *cuda, uint64_t bytes, void **out) SL_MUST_CHECK;
void sl_cuda_pinned_free(struct cuda *cuda, void *data, uint64_t bytes);
/* No more is to be made, or cuda->registering is held: addresses that no frame got go back. */
void sl_cuda_pinned_end(struct cuda *cuda);

/* ahead.c */
void sl_cuda_ahead_init(struct cuda *cuda);
void sl_cuda_ahead_stop(struct cuda *cuda); /* waits for the frames that are being made */
void sl_cuda_frames_wait(struct cuda *cuda); /* until those that are expected are made */
void sl_cuda_frames_expect(struct sl_device *dev, const struct sl_pool_want *want);
/* A frame of this kind was asked for: core has it. */
void sl_cuda_frames_taken(struct cuda *cuda, uint64_t bytes, enum cuda_frame_kind kind);
/* Whether free frames, with so many bytes more of them, are more than may be kept. Under pools.lock. */
int sl_cuda_frames_exceed(const struct cuda *cuda, uint64_t more_bytes);
/* There will be more: 1: a thread gives them back later; 0: there is none. Under pools.lock. */
int sl_cuda_frames_excess(struct cuda *cuda);
void sl_cuda_pool_fill(struct sl_device *dev, const struct sl_pool_want *chunks);
/* Give device memory that waits on free lists back to the driver. */
void sl_cuda_slabs_trim(struct cuda *cuda);

/* chunk.c. Mapping and unmapping of a slab or frame by its handle. Context entered. */
int sl_cuda_chunk_map(struct cuda *cuda, void *addr, uint64_t bytes,
		      uint64_t handle) SL_MUST_CHECK;
int sl_cuda_chunk_unmap(struct cuda *cuda, void *addr, uint64_t bytes) SL_MUST_CHECK;
/* The chunk at addr is unmapped, and leaves by what enqueue() enqueues, whose end goes to queue of the
 * completer outs. what is copied. On failure the chunk is as before, and done() is not called. */
int sl_cuda_out_start(void *addr, const struct cuda_out *what,
		      int (*enqueue)(struct cuda_out *out, struct cuda_slab *slab,
				     struct sl_fence after),
		      struct cuda_queue *queue) SL_MUST_CHECK;
/* It has left, or is lost: done() is called, and out freed. */
void sl_cuda_out_end(struct cuda_out *out, int rc);
int sl_cuda_present(struct sl_device *dev, void *addr, uint64_t bytes,
		    struct sl_frame *frame, unsigned flags);
struct sl_fence sl_cuda_ready_at(struct sl_device *dev, const void *addr);
int sl_cuda_absent(struct sl_device *dev, void *addr, uint64_t bytes,
		   struct sl_frame *frame, enum sl_absent_how how);
int sl_cuda_absent_start(struct sl_device *dev, void *addr, uint64_t bytes,
			 struct sl_frame *frame, void (*done)(void *cookie, int rc),
			 void *cookie);
int sl_cuda_snapshot(struct sl_device *dev, const void *addr, uint64_t bytes,
		     struct sl_frame *frame);
int sl_cuda_zerocopy_map(struct sl_device *dev, void *addr, uint64_t bytes,
			 struct sl_frame *frame);
int sl_cuda_zerocopy_unmap(struct sl_device *dev, void *addr, uint64_t bytes);
void sl_cuda_chunk_clear(struct cuda *cuda, void *addr); /* detach: whatever stands there */

/* move.c. Context entered in all of them. */
int sl_cuda_moves_start(struct cuda *cuda) SL_MUST_CHECK;
void sl_cuda_moves_stop(struct cuda *cuda);
/* Fill slab with bytes of a frame (NULL: zeros); *move gets its number. Waits for nothing but room among
 * the moves. The second: moves.lock is held. */
int sl_cuda_move_in(struct cuda *cuda, struct cuda_slab *slab, const struct sl_frame *frame,
		    uint64_t bytes, uint64_t *move) SL_MUST_CHECK;
int sl_cuda_move_in_locked(struct cuda *cuda, struct cuda_slab *slab,
			   const struct sl_frame *frame, uint64_t bytes,
			   uint64_t *move) SL_MUST_CHECK;
/* A stream for moves, and their events, in the current context, ahead of the program's. */
int sl_cuda_move_stream(struct cuda *cuda, struct cu_stream **out) SL_MUST_CHECK;
int sl_cuda_move_events(struct cuda *cuda, struct cu_event **events) SL_MUST_CHECK;
void sl_cuda_move_events_destroy(struct cuda *cuda, struct cu_event **events);
/* The number of the next move of a queue whose progress the driver is asked for. Waits until the one that had
 * its event is done. moves.lock is held. */
int sl_cuda_move_next(struct cuda *cuda, enum sl_move_queue queue,
		      uint64_t *number) SL_MUST_CHECK;
/* It is enqueued on stream, at whose end it is done: it is slab's last. On failure it is awaited instead, and has
 * no number. moves.lock is held. */
int sl_cuda_move_number(struct cuda *cuda, enum sl_move_queue queue, uint64_t number,
			struct cu_stream *stream, struct cuda_slab *slab) SL_MUST_CHECK;
/* Copies out up to that number are done: the completer says so. */
void sl_cuda_move_ended(struct cuda *cuda, enum sl_move_queue queue, uint64_t number);
/* Make what copies out need, as far as it can be had: else the first one does. Context entered. */
void sl_cuda_outs_start(struct cuda *cuda);
/* Drain slab to data once after is done. pending->done is called at its end,
 * with pending->event set here. */
int sl_cuda_move_out(struct cuda *cuda, struct cuda_slab *slab, void *data, uint64_t bytes,
		     struct sl_fence after, struct cuda_pending *pending) SL_MUST_CHECK;
/* Block until copy in number move is done. */
int sl_cuda_move_wait(struct cuda *cuda, uint64_t move) SL_MUST_CHECK;
/* sl_device_async.watch: makes no driver call. */
int sl_cuda_move_watch(struct sl_device *dev, struct sl_fence fence,
		       void (*done)(void *cookie, int rc, struct sl_copy_time at),
		       void *cookie) SL_MUST_CHECK;
/* 0: fence is done; -EAGAIN: not yet. */
int sl_cuda_fence_query(struct cuda *cuda, struct sl_fence fence) SL_MUST_CHECK;
/* Block until no copy uses the slab any more. */
void sl_cuda_slab_wait(struct cuda *cuda, const struct cuda_slab *slab);
/* Make stream wait for fence: nothing to do for a move of that stream. */
int sl_cuda_fence_gate(struct cuda *cuda, struct cu_stream *stream,
		       struct sl_fence fence) SL_MUST_CHECK;

/* hash.c */
void sl_cuda_hash_init(struct cuda *cuda);
void sl_cuda_hash_fini(struct cuda *cuda); /* context entered, nobody hashes */
int sl_cuda_hash_prepare(struct sl_device *dev);
int sl_cuda_hash(struct sl_device *dev, const void *addr, uint64_t bytes,
		 enum sl_hash_of what,
		 void (*done)(void *cookie, int rc, const uint64_t sums[2]), void *cookie);
/* Block until no hash reads the slab. Context entered. */
void sl_cuda_hash_wait(struct cuda *cuda, const struct cuda_slab *slab);

/* codec.c. Context entered in those that take a cuda. */
void sl_cuda_codec_init(struct cuda *cuda);
void sl_cuda_codec_fini(struct cuda *cuda); /* no move is under way */
int sl_cuda_codec_prepare(struct sl_device *dev, uint64_t chunk_bytes,
			  uint64_t staging_bytes, unsigned most_parts);
int sl_cuda_codec_absent_start(struct sl_device *dev, void *addr, uint64_t bytes,
			       unsigned worth_parts, struct sl_frame *frame,
			       void (*done)(void *cookie, int rc), void *cookie);
int sl_cuda_codec_pack(struct sl_device *dev, struct sl_frame *frame,
		       struct sl_frame **packed);
int sl_cuda_codec_decode(struct sl_device *dev, const struct sl_frame *frame,
			 struct sl_frame *to);
/* The end of a packed frame; copy in number move reads it. */
void sl_cuda_packed_put(struct sl_device *dev, struct sl_frame *packed);
void sl_cuda_packed_read(const struct sl_frame *packed, uint64_t move);
/* As sl_cuda_move_in(), of a frame that is encoded; *move: its copy in. */
int sl_cuda_codec_in(struct cuda *cuda, struct cuda_slab *slab, const struct sl_frame *frame,
		     uint64_t bytes, uint64_t *move) SL_MUST_CHECK;
/* 0, or what a decode up to that number, which is done, has found damaged. */
int sl_cuda_codec_check(struct cuda *cuda, uint64_t from, uint64_t to) SL_MUST_CHECK;

/* complete.c */
int sl_cuda_completer_start(struct cuda *cuda, struct cuda_completer *completer,
			    const char *name) SL_MUST_CHECK;
void sl_cuda_completer_stop(struct cuda_completer *completer);
/* Put pending (event recorded) behind what is in queue. */
void sl_cuda_complete(struct cuda_completer *completer, struct cuda_queue *queue,
		      struct cuda_pending *pending);
/* Block until queue is empty and no done() of it runs. Not from a done(). */
void sl_cuda_queue_drain(struct cuda_completer *completer, struct cuda_queue *queue);
/* The same, of a queue whose stream has come to its end; what may be done anywhere, by this thread.
 * Context entered, no lock held. */
void sl_cuda_queue_finish(struct cuda_completer *completer, struct cuda_queue *queue);

/* stream.c. Whether the program is capturing the stream into a graph, or, for the legacy stream, one
 * that it would wait for: 1, 0, or -errno. No capture minds the question. Context entered. */
int sl_cuda_stream_captures(struct cuda *cuda, struct cu_stream *native) SL_MUST_CHECK;
/* Record event behind the stream's work. -EAGAIN (no text): the stream is being captured. Context
 * entered. */
int sl_cuda_stream_record(struct cuda *cuda, struct cu_stream *native,
			  struct cu_event *event) SL_MUST_CHECK;
int sl_cuda_stream_create(struct sl_device *dev, struct sl_stream **out);
int sl_cuda_stream_wrap(struct sl_device *dev, void *native, struct sl_stream **out);
void *sl_cuda_stream_native(struct sl_stream *stream);
int sl_cuda_stream_check(struct sl_stream *stream);
void sl_cuda_stream_destroy(struct sl_stream *stream);
void sl_cuda_stream_submit(struct sl_stream *stream, struct sl_task *task);
int sl_cuda_stream_synchronize(struct sl_stream *stream);
int sl_cuda_stream_gate(struct sl_stream *stream, struct sl_fence fence);
int sl_cuda_stream_call(struct sl_stream *stream, void (*fn)(void *arg), void *arg);
int sl_cuda_event_create(struct sl_device *dev, struct sl_event **out);
void sl_cuda_event_destroy(struct sl_event *event);
int sl_cuda_event_record(struct sl_stream *stream, struct sl_event *event);
int sl_cuda_event_wait(struct sl_stream *stream, struct sl_event *event);
void sl_cuda_event_synchronize(struct sl_event *event);
int sl_cuda_event_query(struct sl_event *event);

#endif
