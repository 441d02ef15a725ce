/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the stand-in driver's files:
 *   state.c   settings, violations, counters, injected failures, handles
 *   device.c  devices and contexts
 *   view.c    mappings; memory.c physical memory; vmm.c the calls on both; plain.c cuMemAlloc
 *   shared.c  devices that several processes share
 *   host.c    pinned memory
 *   stream.c  queues and their threads; op.c the work they run; copy.c, event.c their calls
 *   module.c  modules; own_kernels.c the library's kernels; launch.c launches and the blocks of
 *             kernels; graph.c captures and graphs
 *
 * One lock, the.lock, protects everything but the counters. It is not held while work runs
 * (copies, kernels, host functions). Running work holds mappings by their use count. the.done is
 * broadcast whenever a piece of work ends or a context is lost.
 *
 * Handles given to the program are numbers that are never reused, not pointers. So a destroyed
 * one is always known as such.
 */
#ifndef SL_TESTS_STANDIN_INTERNAL_H
#define SL_TESTS_STANDIN_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cuda/cuda_abi.h"
#include "standin.h"

#define EXPORT        __attribute__((visibility("default")))
#define DEVICES_MAX   8
#define GRANULE_BYTES ((size_t)2 << 20)
#define QUEUE_MAX     1024 /* pieces of work in a stream; more wait, as in the real driver */
#define HASH_SIZE     4096
#define STACK_MAX     32 /* current contexts of a thread */
#define BLOCK_THREADS 1024

/* The driver's calls, as declared by the table; a definition that differs does not compile. */
#define CUDA_SYMBOL(name, exported, need, ...) EXPORT int exported(__VA_ARGS__);
#include "device/cuda/cuda_symbols.def"
#undef CUDA_SYMBOL

enum call {
#define CUDA_SYMBOL(name, exported, need, ...) CALL_##name,
#include "device/cuda/cuda_symbols.def"
#undef CUDA_SYMBOL
	CALL_PAGEABLE, /* counted only */
	CALL_EXEC_COPY,
	CALL_EXEC_MEMSET,
	CALL_EXEC_KERNEL,
	CALL_API, /* any of api_*.c that is not in the table */
	CALL_COUNT
};

enum needs {
	NEEDS_NOTHING,
	NEEDS_INIT,
	NEEDS_VMM, /* initialised; not from a host function; a lost context does not matter */
	NEEDS_CONTEXT /* the thread's current one, alive; not from a host function */
};

enum object_type {
	OBJECT_MEMORY,
	OBJECT_STREAM,
	OBJECT_EVENT,
	OBJECT_MODULE,
	OBJECT_FUNCTION,
	OBJECT_GRAPH,
	OBJECT_GRAPH_EXEC,
	OBJECT_COUNT
};

/* First member of everything that has a handle. */
struct object {
	enum object_type type;
	uintptr_t id; /* the handle */
	struct object *hash_next;
};

struct stream;
struct capture;

/* The primary context of a device. The handle is a pointer to it. */
struct cu_context {
	int device;
	int refs; /* retained; 0: destroyed */
	int lost; /* 0, or the code that everything returns */
	struct stream *streams;
	struct stream *legacy;
	int peer[DEVICES_MAX]; /* access enabled to that device's plain memory */
};

/* Physical memory. */
struct memory {
	struct object object;
	size_t bytes;
	struct cu_location location;
	struct cu_allocation what; /* as it was asked for, by cuMemCreate() */
	int fd;                    /* of its pool */
	uint64_t offset;
	int refs; /* handles the program has not released */
	int n_mappings;
};

struct reservation;

struct mapping {
	uint64_t base;
	size_t bytes;
	struct reservation *home;
	struct memory *memory;             /* NULL once it is dead */
	unsigned char access[DEVICES_MAX]; /* CU_ACCESS_... */
	int cpu_access;
	int uses; /* running work that may touch it */
	int dead; /* unmapped while in use: the last user takes it away */
};

/* A reserved range of addresses, or one plain allocation (whose mapping may end within a
 * granule). */
struct reservation {
	uint64_t base;
	size_t bytes;
	char *shadow;
	struct mapping **granules;
	size_t n_dead; /* mappings that only running work keeps in the shadow */
	int freed;     /* no longer in the table: goes with the last dead mapping */
	int plain;     /* cuMemAlloc */
	struct cu_context *context; /* plain only */
};

struct pinned {
	char *data;
	size_t bytes;
	int registered;
	struct cu_context *context;
	struct pinned *next;
};

/* Point in a stream's work. */
struct point {
	struct stream *stream; /* a reference */
	uint64_t seq;
};

enum op_kind {
	OP_COPY,
	OP_MEMSET,
	OP_KERNEL,
	OP_HOST,
	OP_RECORD,
	OP_WAIT,
	OP_WAIT_VALUE,
	OP_WRITE_VALUE,
	OP_GRAPH, /* in graphs only: a launch puts what is inside into the stream */
	OP_EMPTY, /* the same */
	OP_ALLOC, /* the same: it allocates nothing, and its graph cannot be cloned */
	OP_CONDITIONAL /* the same: it does what is inside, and its graph cannot be cloned */
};

/* Where a copy reads or writes. */
struct place {
	uint64_t addr;
	int gpu; /* 1: an address of the GPU's view; 0: a host pointer */
	int device;
};

struct launch;

struct op {
	enum op_kind kind;
	enum call call; /* for messages */
	uint64_t seq;
	struct op *next;
	struct point *points; /* to wait for first */
	size_t n_points;
	struct place to, from;
	size_t bytes;
	uint64_t value;
	unsigned value_bytes, flags;
	void *staged;        /* pageable source, copied when it was queued */
	struct event *event; /* that it records, or waits for: a reference */
	cu_host_function host_function;
	void *host_argument;
	struct launch *launch;
	struct graph *inside;  /* OP_GRAPH: a copy of its own; OP_CONDITIONAL: its body */
	struct cu_graph *body; /* the handle of that body */
	const struct op *origin; /* of a copy: what it is of */
	struct op **before; /* in graphs that can be changed: nodes that it runs behind */
	size_t n_before;
	int disabled; /* in executable graphs */
};

/* Both what was captured or made of nodes, and what can be launched. A node's handle is its operation. */
struct graph {
	struct object object;
	struct op *head;
	size_t n_ops;
	struct point last; /* of what can be launched: its last launch; no stream: none */
};

/* Work of a capture that has nothing behind it. */
#define FRONT_MAX 16u
struct front {
	struct op *op[FRONT_MAX];
	size_t n;
};

struct stream {
	struct object object;
	struct cu_context *context;
	struct stream *next; /* in the context */
	unsigned flags;
	int priority;
	struct capture *capture; /* NULL: work is run */
	struct front front; /* of the capture: what the stream's next work is behind */
	const void *owner;  /* of a per-thread stream: mark of its thread */
	int refs; /* the context's or program's, the worker's, and one each point */
	int destroyed;
	int started;             /* has a worker */
	struct op *head, **tail; /* head is the one that runs */
	unsigned n_queued;
	uint64_t seq_queued, seq_done, seq_wanted; /* wanted: somebody waits up to there */
	pthread_cond_t work;
};

struct event {
	struct object object;
	struct cu_context *context;
	unsigned flags;
	int refs;
	int recorded;
	uint64_t captured;  /* number of the capture it was recorded into last; 0: none */
	struct front front; /* there: what it stands behind */
	struct point point;
	uint64_t time_ns;
};

struct settings {
	int n_devices, version, init, no_vmm, no_host_vmm, no_mixed, fill, strict;
	const char *mig; /* the part of a GPU that each is; NULL: a whole one */
	unsigned n_blocks;
	uint64_t device_bytes, host_bytes, late_ns, copy_bytes_per_s, pin_bytes_per_s;
	uint64_t link_bytes_per_s;
};

struct state {
	pthread_mutex_t lock;
	pthread_cond_t done;
	int ready;  /* cuInit has succeeded */
	int forked; /* this is a child of a process that had initialised */
	struct settings settings;
	struct cu_context contexts[DEVICES_MAX];
	uint64_t device_used[DEVICES_MAX], device_taken[DEVICES_MAX], host_used;
	int pool_fd[DEVICES_MAX + 1]; /* the last is the host's; -1: not made */
	uint64_t pool_end[DEVICES_MAX + 1];
	struct object *hash[HASH_SIZE];
	uintptr_t last_id;
	struct reservation **reservations; /* by address */
	size_t n_reservations, reservations_size;
	struct pinned *pinned;
	struct capture *captures;
	uint64_t last_capture;
	struct sl_standin_live live;
	unsigned n_workers_leaving;
	uint64_t reached; /* bytes of host-located memory, by kernels */
	int copies_held;  /* which copies wait: as copies_hold() says */
};

extern struct state the;

/* ---- state.c ---- */

/* Every call begins with it: counts, injects, checks. 0, or the code to return. context may be
 * NULL unless NEEDS_CONTEXT. Takes no lock that is held. */
int call_enter(enum call call, enum needs needs, struct cu_context **context);
const char *call_name(enum call call);
/* An injected failure of what is being run: its code, or 0. */
int exec_enter(enum call call);
void call_count(enum call call);

/* A rule was broken: note it, return code. Without the lock or with it. */
int violate(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#ifdef __clang_analyzer__ /* it does not see that code comes back; as in scripts/analyze.h */
#define violate(code, ...) ((void)(violate)(code, __VA_ARGS__), (code))
#endif
/* Around a fork: the lock of what violate() notes. */
void notes_hold(void);
void notes_release(void);

/* the.lock: */
uintptr_t object_add(struct object *object, enum object_type type);
struct object *object_find(const void *handle, enum object_type type);
void object_remove(struct object *object);

void settings_read(void);
void *must_alloc(size_t n, size_t bytes); /* zeroed; ends the process when there is none */

/* ---- device.c ---- */

extern _Thread_local int in_host_function;

struct cu_context *context_current(void);
/* the.lock: the context fails from now on; the first code stays. */
void context_lose(struct cu_context *context, int code);

/* ---- view.c, all under the.lock ---- */

struct reservation *reservation_find(uint64_t addr);
/* Is the range mapped for this device with this access? 0, or what is wrong in words. */
const char *view_check(int device, uint64_t addr, size_t bytes, int access);
/* Pointer into the shadow, after view_check(). */
char *view_pointer(uint64_t addr);
/* Hold and let go of the mappings under a range. use_end: 1 if one of them was unmapped while
 * it was held. */
struct mapping **view_use_begin(uint64_t addr, size_t bytes, size_t *n);
int view_use_end(struct mapping **mappings, size_t n);
struct mapping *mapping_at(uint64_t addr);
/* CU_LOCATION_DEVICE, CU_LOCATION_HOST, or CU_LOCATION_INVALID where nothing is mapped. */
int view_location(uint64_t addr);
/* Whether parts of it are mapped to memory of different locations. */
int view_is_mixed(uint64_t addr, size_t bytes);
/* Is anything mapped, for whomever, in the range? */
int view_has_mapping(uint64_t addr, size_t bytes);
void mapping_use(struct mapping *mapping);
int mapping_unuse(struct mapping *mapping);
struct reservation *reservation_around(uint64_t addr, size_t bytes);
struct mapping **granule_of(struct reservation *reservation, uint64_t addr);
/* A range of its own for the CPU, and its shadow; not in the table yet. wish: where it is tried first; 0:
 * anywhere. NULL: no addresses. */
struct reservation *reservation_new(size_t bytes, size_t align_bytes, uint64_t wish);
void reservation_insert(struct reservation *reservation);
void reservation_remove(struct reservation *reservation);
struct mapping *mapping_new(struct reservation *reservation, uint64_t addr, size_t bytes,
			    struct memory *memory);
void mapping_remove(struct reservation *reservation, struct mapping *mapping);
/* Of the shadow: what at least one device may do. */
int mapping_protection(const struct mapping *mapping);
void cpu_access_drop(struct mapping *mapping);

/* ---- memory.c, under the.lock ---- */

static inline int
is_granular(uint64_t n)
{
	return n && n % GRANULE_BYTES == 0;
}

/* One reference; NULL: beyond what the device or the host has. */
struct memory *memory_new(size_t bytes, const struct cu_location *location);
/* A reference or a mapping has gone. */
void memory_put(struct memory *memory);
/* Of a handle that the program still holds. */
struct memory *memory_find(uint64_t handle);

/* ---- shared.c, under the.lock ---- */

/* Tell the other processes what this one has taken; what they have. */
void shared_say(void);
uint64_t shared_taken(int device);

/* ---- plain.c, under the.lock ---- */

/* Zeroed memory for a module's variables; 0 when there is none. */
uint64_t plain_alloc(struct cu_context *context, size_t bytes);
void plain_free(struct reservation *reservation);
void context_memory_free(struct cu_context *context);

/* ---- host.c, under the.lock ---- */

struct pinned *pinned_find(const void *data);
/* Without the lock: the time that pinning so much takes. */
void pin_delay(uint64_t bytes);
/* One block of pinned memory reaches into [data, data + bytes). */
struct pinned *pinned_overlap(const void *data, size_t bytes);
void context_pinned_free(struct cu_context *context);

/* ---- stream.c, under the.lock ---- */

void context_streams_create(struct cu_context *context);
void context_streams_destroy(struct cu_context *context);
/* Wait for all that is queued in the context now; its lost code or 0. */
int context_drain(struct cu_context *context);
/* The first queued or running work that names the range: its call's name, or NULL. */
const char *work_in_range(uint64_t addr, size_t bytes, int gpu);
struct stream *stream_from_handle(struct cu_context *context, struct cu_stream *handle);
struct op *op_new(enum op_kind kind, enum call call);
/* Takes the operation over. 0 or a code. */
int op_submit(struct stream *stream, struct op *op);

void stream_get(struct stream *stream);
void stream_put(struct stream *stream);
void op_free(struct op *op);
/* The operation waits for the point, unless it has been passed. */
void op_wait_for(struct op *op, struct stream *stream, uint64_t seq);
/* Somebody waits for all up to seq. */
void stream_want(struct stream *stream, uint64_t seq);
/* Until the point is passed or the context of its stream is lost. The caller has a reference. */
void point_wait(struct stream *stream, uint64_t seq);
/* Prologue of calls on a stream; the lock is taken on success, and only then. */
int stream_enter(enum call call, struct cu_stream *handle, struct cu_context **context,
		 struct stream **stream);
/* Nobody may wait for, or ask about, what is being captured, or the legacy stream while it would order
 * with that: 0, or the code, and the capture is spoilt. The lock is held. */
int stream_observe(struct stream *stream, enum call call);

/* What kind of place the address of a copy, fill or word is, and may it be used? pageable: NULL when the
 * parameter is an address of the device, else set to 1 for memory that the driver does not know. With
 * the lock. */
int place_enter(const struct op *op, struct cu_context *context, uint64_t addr,
		int access, struct place *place, int *pageable);

/* ---- copy.c, without the lock ---- */

/* Any copy. host_to, host_from: that side is a host pointer and need not be pinned. A context NULL: the
 * current one. */
int copy_submit(enum call call, uint64_t to, struct cu_context *to_context, int host_to,
		uint64_t from, struct cu_context *from_context, int host_from,
		size_t bytes, struct cu_stream *handle);
int memset_submit(enum call call, uint64_t to, unsigned value, unsigned value_bytes,
		  size_t n, struct cu_stream *handle);
int value_submit(enum call call, enum op_kind kind, struct cu_stream *handle,
		 uint64_t addr, uint64_t value, unsigned value_bytes, unsigned flags);

/* ---- op.c, under the.lock ---- */

/* What is wrong with a place now, or NULL. */
const char *place_check(const struct place *place, size_t bytes, int access);
/* Drops the lock while it runs. 0, or the code that the context is lost with. */
int op_run(struct stream *stream, struct op *op);

/* ---- event.c, under the.lock ---- */

void event_put(struct event *event);
/* Queue a record of op->event, or a wait for its last one. the.lock, which a full queue drops. */
int event_op_submit(struct stream *stream, struct op *op);

/* ---- graph.c, under the.lock ---- */

/* Whether a capture minds this call from this thread; it is spoilt then. */
int captures_refuse(enum call call);
/* A call that nobody may make while the stream, or a blocking one (for work on the legacy stream),
 * is being captured, or on an event that was recorded into a capture: returns code, or what is
 * right; spoils the capture. 0 from capture_spoil_legacy() and capture_wait(): nothing is wrong. */
int capture_spoil(struct stream *stream, int code, enum call call, const char *why);
int capture_spoil_legacy(struct cu_context *context, enum call call);
/* The same for what waits for, or asks about, all of a context: every capture in it is spoilt. */
int capture_spoil_all(const struct cu_context *context, enum call call);
int capture_spoil_event(const struct event *event, enum call call);
int capture_wait(struct stream *stream, const struct event *event, enum call call);
/* Put work into the stream's capture. Takes the operation over. 0 or a code. */
int capture_add(struct stream *stream, struct op *op);
/* An event of the stream, which is captured. */
void capture_record(struct stream *stream, struct event *event);
/* A copy of work in a graph, and of a graph's; what is inside of it as one more graph. */
struct op *op_copy_of(const struct op *op);
void sleep_ns(uint64_t ns); /* without the lock */
void graph_copy(struct graph *to, const struct graph *from);
void graph_add(struct graph *graph, struct op *op);
/* Replaces what it runs behind. */
void op_put_behind(struct op *op, struct op *const *before, size_t n);
struct op *op_of_origin(const struct graph *graph, const void *origin);
/* Prologue of calls on a graph, or one that can be launched; the lock is taken on success. */
int graph_enter(enum call call, const void *handle, enum object_type type,
		struct graph **graph);
void graph_inside_free(struct graph *graph);
/* End the capture of a stream, if there is one, without a graph. */
void capture_drop(struct stream *stream);
int stream_capture(void *stream, int on); /* takes the lock itself */

/* ---- api_graph.c ---- */

struct cu_graph_node;
/* The operation behind a node's handle, in any graph; NULL: no node. the.lock. */
struct op *node_find(const struct cu_graph_node *handle);
/* Prologue of calls on a node; the lock is taken on success. kind: what it must be, or -1. */
int node_enter(struct cu_graph_node *handle, int kind, struct op **op);
/* Append a node; takes it over. Without the lock. */
int node_add(struct cu_graph_node **out, struct cu_graph *handle,
	     struct cu_graph_node *const *before, size_t n, struct op *op);
/* Have a node of an executable graph do what op does, which is taken over. Without the lock. */
int exec_change(struct cu_graph_exec *handle, struct cu_graph_node *node, struct op *op);
/* The places of a copy or a fill are looked at as when one is queued. The operation is the caller's, or gone.
 * Without the lock. from: 0: there is none. */
int places_enter(struct op *op, int to_gpu, uint64_t to, int from_gpu, uint64_t from);

/* ---- api_graph_order.c ---- */

struct cu_batch_node;
struct cu_node_params;
/* What a node says. 0, or a code; *out is new. Without the lock. */
int event_op(enum op_kind kind, struct cu_event *handle, struct op **out);
int word_op(const struct cu_batch_node *params, struct op **out);
/* The body's handle goes into params. */
int conditional_op(struct cu_node_params *params, struct op **out);

/* ---- module.c ---- */

void kernel_register(const struct sl_standin_kernel *kernel);
/* own_kernels.c. NULL: the library has none of that name. */
const struct sl_standin_kernel *own_kernel_find(const char *name);
/* the.lock: */
void context_modules_free(struct cu_context *context);
/* Without the lock. The kernel of a function; NULL with a violation when there is none. */
const struct sl_standin_kernel *function_kernel(enum call call,
						const struct cu_function *handle);
/* Where the i-th argument lies in a parameter buffer. */
size_t kernel_param_offset(const struct sl_standin_kernel *kernel, size_t index);

/* ---- launch.c ---- */

/* Without the lock: run the grid; 0, or the code that the context is lost with. */
int launch_run(struct launch *launch);
void launch_free(struct launch *launch);
/* A launch of the function that handle names. 0, or a code. */
int launch_make(enum call call, struct cu_context *context, struct cu_function *handle,
		const unsigned grid[3], const unsigned threads[3], unsigned shared_bytes,
		void **params, void **extra, struct launch **out);
/* What it was made of; params are its own. */
struct cu_function *launch_describe(struct launch *launch, unsigned grid[3],
				    unsigned threads[3], unsigned *shared_bytes,
				    void ***params);
/* The same launch, to be run once more. */
struct launch *launch_copy(const struct launch *launch);
void *kernel_ptr(const struct sl_standin_block *block, uint64_t addr, size_t bytes,
		 int access);
void kernel_drop(const struct sl_standin_block *block, uint64_t addr, size_t bytes);
void kernel_pause(const struct sl_standin_block *block);
/* the.lock: what all kernels so far would have waited for the link, which has a rate. */
uint64_t link_ns(void);

#endif
