/* SPDX-License-Identifier: Apache-2.0 */
/*
 * START HERE: the preload library, and the functions that its files share. It stands between a
 * program and the CUDA driver (its SONAME is the driver's). It owns the program's allocations in
 * a space of the library (src/core on src/device/cuda), and makes buffers resident before
 * launches.
 *
 * A call. Every name the driver exports is exported (api.tbl). Unwrapped names jump to the
 * driver. A wrapped one is a C function of that name, which
 * 1. forwards unchanged unless pl_active(): before cuInit() succeeded, in a forked child, after
 *    the driver was torn down, in a call from inside the library or from the driver;
 * 2. forwards unchanged if the call names none of our addresses;
 * 3. opens a scope (pl_scope_begin()) over the bytes that the call will touch, calls the driver,
 *    ends the scope.
 *
 * A wrapper returns the driver's results: CUresults, out-parameters that may be NULL and are
 * written on success only. It waits for a stream only where the driver would.
 *
 * Pressure. While all allocations fit the device budget they are made resident at once, and a
 * scope costs a few loads: no lock, no driver call (PL_FITS). When allocations exceed half of
 * the budget, the uses of launches are recorded (PL_TRACKING). Beyond the whole budget, scopes
 * go to the core, which fetches and evicts (PL_OVERSUBSCRIBED). There is no way back: the core's
 * records are complete only from there on.
 *
 * Locks: base/lock.h has their ranks and the data they protect. No lock of ours is held across a
 * forwarded call. A launch reads blocks by address and layouts by function without locks.
 */
#ifndef SL_PRELOAD_PRELOAD_H
#define SL_PRELOAD_PRELOAD_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "preload/api/api_index.h" /* generated: enum sl_api, one SL_API_<exported name> each */
#include "preload/api/driver_api.h"
#include "sluice/sluice.h"

/* ---- entry.c: the driver, and when the library takes part -------------------------------- */

/* The driver's functions by SL_API_ number; until the driver is open each starts it first. Never
 * NULL: a name that the driver lacks returns CU_ERROR_NOT_FOUND. */
extern void *pl_real[SL_API_COUNT];

/* The driver's own function of this exported name, with the type of our wrapper. */
#define PL_REAL(name) ((__typeof__(&(name)))pl_real[SL_API_##name])

/* Both forms of a call (PL_BOTH): answer gets the driver's function, what stream 0 means, and the rest. */
#define PL_DEFINE_BOTH(name, suffix, answer, parameters, ...)                        \
	int name parameters                                                          \
	{                                                                            \
		return answer(PL_REAL(name), PL_LEGACY, __VA_ARGS__);                \
	}                                                                            \
	int name##_##suffix parameters                                               \
	{                                                                            \
		return answer(PL_REAL(name##_##suffix), PL_PER_THREAD, __VA_ARGS__); \
	}

/* 1: the driver has that name. */
int pl_real_has(enum sl_api name);

enum pl_phase {
	PL_ASLEEP, /* cuInit() has not succeeded yet */
	PL_AWAKE,
	PL_DEAD /* forked child, driver torn down, or switched off: forward everything */
};

extern _Atomic int pl_phase;
/* 1: the process was forked off one in which the library took part. What that one had allocated is known and
 * nobody's: no lock may be taken here, since a thread that is not there may hold it. */
extern _Atomic int pl_forked;
/* Above 0: this thread is inside the library or a callback of the driver. */
extern _Thread_local int pl_depth __attribute__((tls_model("initial-exec")));

/* Whether a wrapper is to do its part. */
static inline int
pl_active(void)
{
	return atomic_load_explicit(&pl_phase, memory_order_acquire) == PL_AWAKE && !pl_depth;
}

/* Around whatever may call the driver from inside the library. */
static inline void
pl_enter(void)
{
	pl_depth++;
}

static inline void
pl_leave(void)
{
	pl_depth--;
}

/* A handle of the driver's library for dlsym(), and its path; NULL before it is open. */
void *pl_driver_handle(void);
const char *pl_driver_path(void);

/* ---- settings.c: what `sluice run` and the environment say, read once at the first cuInit() --- */

enum pl_mode {
	PL_MODE_PAGED, /* ours */
	PL_MODE_NAIVE, /* OC-DNN's: what does not fit when it is allocated is used where it is, in host
			* memory */
	PL_MODE_OPT, /* OC-DNN's: what a copy or a kernel uses is brought in before it, and what was
		      * used longest ago goes; nothing is learnt from what came before */
	PL_MODE_OFF /* load, and forward everything: nothing is counted */
};

enum pl_arguments { /* what a launch is taken to touch */
		    PL_ARGUMENTS_LEARN, /* what its arguments name; and all, until its function is known to say so */
		    PL_ARGUMENTS_ALL,  /* always all there is */
		    PL_ARGUMENTS_TRUST /* what its arguments name */
};

enum pl_mapped { /* of what the program makes by cuMemCreate() and maps itself, who serves */
		 PL_MAPPED_OURS, /* we, but for what may be shared with other processes */
		 PL_MAPPED_ALL,  /* we; what is shared becomes the driver's then */
		 PL_MAPPED_DRIVER,
		 PL_MAPPED_AUTO /* all for programs that take all of their memory so; else ours: ask pl_mapped() */
};

/* Whether moves are made ahead, of what followed last time. */
enum pl_history_when {
	PL_FOLLOW_NEVER,
	PL_FOLLOW_ALWAYS,
	PL_FOLLOW_AUTO /* as long as it is not found to be slower (predict/autotune.h) */
};

struct pl_settings {
	enum pl_mode mode;
	enum pl_arguments arguments;
	int meminfo_physical; /* 1: memory queries tell what the GPU has; 0 also where the program
			       * decides: ask pl_meminfo_physical() */
	int own_managed; /* 1: cuMemAllocManaged() is served by us */
	enum pl_mapped mapped;
	enum pl_history_when follow;
	int explain; /* 1: tell at exit which kernels missed, and how often */
	int verbose; /* 1: say on stderr which road caught the first call, unknown names.. */
	int quiet; /* 1: no line at start and exit */
	unsigned first; /* process that the command became, on a terminal: it tells at its end that
			 * CUDA was not used (unused.c); 0: none */
	int doctor; /* 1: statistics are written from cuInit() on, not at exit alone */
	int meminfo_auto; /* 1: meminfo_physical by what the process has loaded */
	char stats_path[1024]; /* "": none; at exit counters go there as JSON. %p is the process */
	char record_path[1024]; /* "": none; a trace of the run goes there (tracing.h) */
	unsigned record_launches; /* so many of them at most */
	char policies[1024];      /* file of kernel-name patterns, "": none */
	char frameworks[1024]; /* those that the launcher told something, separated by '+' */
};

/* Never changes after the first call, which reads the environment. Wait-free after it. */
const struct pl_settings *pl_settings(void);
/* 0, or CU_ERROR_INVALID_VALUE: SLUICE_RUN cannot be read; said on stderr the first time. cuInit()
 * returns it. */
int pl_settings_result(void) SL_MUST_CHECK;
/* announce.c. What memory queries tell: 1 physical, 0 virtual size. In auto by the libraries that are
 * loaded. */
int pl_meminfo_physical(void);
/* announce.c. The setting, auto decided: ALL once the process has loaded JAX and where there is one GPU (kernels of
 * several reach each other's memory, which ours is not for), else OURS. */
enum pl_mapped pl_mapped(void);

/* A line on stderr, "sluice: " before it; with quiet only errors. printf rules. */
void pl_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void pl_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- report.c: the lines at start and exit, --stats, --explain ---------------------------------- */

/* The program's cuInit() returned result: from here on there is something to tell at exit. Call it
 * once the driver has registered its own exit handlers, so that ours run before them. */
void pl_report_init(int result);
/* The space of this GPU was just made: the line of what was chosen. */
struct pl_gpu;
void pl_report_start(const struct pl_gpu *gpu);

/* ---- gpu.c: one space a GPU, pressure ------------------------------------------------------ */

enum pl_pressure { PL_FITS, PL_TRACKING, PL_OVERSUBSCRIBED };

#define PL_GPUS_MAX    32u
#define PL_STREAMS_MAX 63u /* known ones; bit 63 of a mask: any other */

struct pl_arena; /* arena.c */

struct pl_gpu {
	int ordinal;
	int device; /* CUdevice */
	struct sluice_space *space;
	uint64_t base, end;             /* addresses of the space */
	_Atomic uint64_t device_budget; /* bytes; made smaller while others read it */
	uint64_t host_budget, store_budget;
	_Atomic int pressure;      /* enum pl_pressure, rises only */
	_Atomic int settling;      /* on the way to PL_OVERSUBSCRIBED */
	_Atomic unsigned unpinned; /* scopes that are open and began before that */
	_Atomic uint64_t allocated_bytes; /* live blocks, as they count against the virtual size */
	struct pl_arena *arena;
	struct pl_gpu_internal *books; /* gpu.c's and scope.c's */
	int has_view;                  /* host code may touch what it is given */
	void *context; /* CUcontext the space stands in; the program cannot end it (context.c) */
};

/* Bounds of all our addresses: what lies outside is not ours. */
extern _Atomic uint64_t pl_low, pl_high;

static inline int
pl_maybe_ours(uint64_t addr)
{
	return addr - atomic_load_explicit(&pl_low, memory_order_relaxed) <
	       atomic_load_explicit(&pl_high, memory_order_relaxed) -
		       atomic_load_explicit(&pl_low, memory_order_relaxed);
}

/*
 * The GPU of the calling thread's current context, its space made if it is the first use. NULL: no
 * context is current, or that GPU cannot be served (said once on stderr): forward. Blocks on making
 * the space.
 */
struct pl_gpu *pl_gpu_current(void);
/* The same, but no space is made: NULL if there is none yet. One driver call, some ns. */
struct pl_gpu *pl_gpu_here(void);
/* The GPU whose space holds addr, NULL: none. Wait-free. */
struct pl_gpu *pl_gpu_of(uint64_t addr);
/* The GPU number n (CUdevice) if it has a space, or NULL. Wait-free. */
struct pl_gpu *pl_gpu_of_device(int device);
/* peer_gpu.c. Whether the process sees one GPU only. A load but for the first time. */
int pl_device_is_only_one(void);
/* Device + host + store budget: what memory queries answer as the total. */
uint64_t pl_gpu_virtual_bytes(const struct pl_gpu *gpu);

/*
 * The driver is out of memory: make room on the device (take bytes, or a sixteenth of the budget,
 * whatever is more, from the budget for good). 1: worth another try. Rule O: every forwarded call that
 * allocates device memory of the driver's own does
 *     do result = real(); while (result == CU_ERROR_OUT_OF_MEMORY && pl_gpu_shrink_budget(&tries, bytes));
 * with int tries = 0. Blocks on copies.
 */
int pl_gpu_shrink_budget(int *tries, uint64_t bytes);
/* Device memory that the program took past us (+) or gave back (-); gpu NULL: that GPU has no space yet.
 * Only counted: where it becomes short, pl_gpu_shrink_budget() takes it off the budget. */
void pl_gpu_foreign(struct pl_gpu *gpu, int64_t bytes);
/* Have the chunks of [addr, addr + bytes) on the device, contents undefined. At ease only. 0 or
 * -errno. */
int pl_gpu_populate(struct pl_gpu *gpu, uint64_t addr, uint64_t bytes) SL_MUST_CHECK;
/* Raise the pressure (never lowers it). To PL_OVERSUBSCRIBED: what was launched up to here counts as using
 * everything until it is done. Not under pl_gpu.lock; may block on running kernels. */
void pl_gpu_press(struct pl_gpu *gpu, enum pl_pressure pressure);
/* Wait for what is queued on the GPU, whose context is current. CUresult; STREAM_CAPTURE_UNSUPPORTED: not for
 * what a stream has that is captured now. */
int pl_gpu_drain(struct pl_gpu *gpu) SL_MUST_CHECK;
/* Whether launches are to be looked at: some GPU is not at ease, or --explain asks. */
extern _Atomic int pl_watch;

static inline int
pl_watching(void)
{
	return atomic_load_explicit(&pl_watch, memory_order_acquire);
}

/* At exit: for each GPU that has a space. */
void pl_gpus_walk(void (*fn)(struct pl_gpu *, void *), void *arg);
/* Chunk size of large blocks: arena.c makes its big regions of these. */
uint64_t pl_gpu_chunk_bytes(const struct pl_gpu *gpu);

/* ---- block.c: allocations by address ---------------------------------------------------- */

enum pl_birth {
	PL_BORN_ALLOC,
	PL_BORN_ASYNC,
	PL_BORN_MANAGED,
	PL_BORN_MAPPED, /* memory of cuMemCreate(): what lies side by side in a reserved range (vmm.h) */
	PL_BIRTH_COUNT
};

enum pl_block_flag {
	PL_BLOCK_PINNED = 1, /* held on the device until it is freed (textures, stream memory ops, graphs that
			      * kernels launch) */
	PL_BLOCK_TABLE = 2, /* holds addresses of ours: members are used with it */
	PL_BLOCK_HELD = 4   /* pinned, and its contents have arrived */
};

/* One allocation of the program. Records are reused and never given back, so that one which is
 * looked at while it is freed stays readable. */
struct pl_block {
	uint64_t base;  /* first address */
	uint64_t bytes; /* as asked for */
	uint64_t room;  /* as taken */
	uint64_t id;    /* unique in the process */
	struct pl_gpu *gpu;
	void *context; /* CUcontext current at birth */
	void *pool;    /* CUmemoryPool it counts to, or NULL */
	enum pl_birth birth;
	_Atomic unsigned flags;       /* enum pl_block_flag */
	_Atomic uint64_t last_launch; /* number of the last launch that named it */
	_Atomic uint64_t streams; /* mask of streams that used it since birth, as far as looked at */
	_Atomic uint64_t owed; /* mask of streams that may still use its room from before ... */
	struct pl_fence *lien; /* ... until this has passed (reuse.c); NULL: none. Set at birth */
	/* tracing.c's: its number in the trace, 0: none, as a tensor of how many bytes; 1: it may have
	 * contents. */
	uint64_t tensor, tensor_bytes;
	_Atomic int touched;
};

/* The live block that holds addr; NULL: none (not ours, or freed). Wait-free, tens of ns. */
struct pl_block *pl_block_find(uint64_t addr);

/* ---- arena.c: the allocator -------------------------------------------------------------- */

/*
 * A block of bytes, aligned to 512, its memory resident if the GPU is at ease. stream: the stream in
 * whose order it is used first (PL_BORN_ASYNC), which then waits for earlier users of that room; of
 * the other births nobody may still use the room. 0, -ENOMEM (device, host and store together hold
 * no more; said on stderr), or what the core says. Blocks on mapping; under pressure of several
 * streams also on events.
 */
int pl_arena_alloc(struct pl_gpu *gpu, size_t bytes, enum pl_birth birth,
		   struct cu_stream *stream, enum pl_default_stream flavour,
		   struct pl_block **out) SL_MUST_CHECK;
/*
 * Free: contents are discarded lazily, room is reused when the work queued before is done, or by
 * the same stream. ordered: only work of stream was queued behind the last use (cuMemFreeAsync());
 * else of all. Never waits for the device.
 */
void pl_arena_free(struct pl_block *block, int ordered, struct cu_stream *stream,
		   enum pl_default_stream flavour);
/* The GPU has come under pressure (gpu.c calls this): chunks that are wholly free are discarded, and
 * from here on what is freed. Without locks held. */
void pl_arena_pressed(struct pl_gpu *gpu);
/* Rises with every allocation and free on the GPU. */
uint64_t pl_arena_generation(const struct pl_gpu *gpu);
/* Walk live blocks in order of address until fn returns not 0, which is returned. Takes the arena's
 * lock. */
int pl_arena_walk(struct pl_gpu *gpu, int (*fn)(struct pl_block *, void *), void *arg);

/* ---- stream.c: the program's streams -------------------------------------------------------- */

/* Captures that were begun and not ended, as far as known. */
extern _Atomic unsigned pl_captures;

/* Whether work enqueued on the stream would go into a graph, or must not be enqueued because of a
 * capture (legacy stream). One driver call, none while nothing in the process captures. */
int pl_stream_captures(struct cu_stream *stream, enum pl_default_stream flavour);
/* Number of captures going on in the process. A load. */
int pl_captures_running(void);
int pl_capture_relax_now(void);
void pl_capture_restore_now(int token);

/*
 * Around driver calls of ours on a thread of the program: captures that are going on in GLOBAL mode do
 * not mind them. restore gets what relax returned. A load while nothing captures. Not for the program's
 * own calls: what these would spoil natively they spoil with us.
 */
static inline int
pl_capture_relax(void)
{
	return atomic_load_explicit(&pl_captures, memory_order_relaxed)
		       ? pl_capture_relax_now()
		       : -1;
}

static inline void
pl_capture_restore(int token)
{
	if (token >= 0)
		pl_capture_restore_now(token);
}

/* Bit of the stream in masks; the stream counts as active from here on. 0: it is captured, and had no work
 * before that is known. Tens of ns. */
uint64_t pl_stream_bit(struct pl_gpu *gpu, struct cu_stream *stream,
		       enum pl_default_stream flavour);
/* Make stream wait for what is queued now on the streams of mask. Driver calls; does not wait. 0;
 * -EBUSY: one of them is captured, or cannot be followed: take other memory, or a fence; -ENOMEM. */
int pl_stream_follow(struct pl_gpu *gpu, struct cu_stream *stream,
		     enum pl_default_stream flavour, uint64_t mask) SL_MUST_CHECK;
/* How many streams have had a bit and may have work that was not seen to be done; their bits in *mask
 * (may be NULL). More streams than bits share the highest. Two loads; while streams that were
 * destroyed may have work left, also a driver call. */
unsigned pl_streams_active(struct pl_gpu *gpu, uint64_t *mask);

/*
 * A fence: what is queued now on the streams of a mask. make: driver calls, does not wait; 0 or -ENOMEM
 * (driver or host; make it later), *out untouched. passed: 1 when all of it is done, and the fence is
 * freed then; 0 not yet. wait: until passed, and freed; -EBUSY: a stream of it is captured, not freed,
 * nothing to wait for before the capture ends. No lock of the caller's that pl_stream_bit() or
 * another fence needs is held.
 */
struct pl_fence;
int pl_fence_make(struct pl_gpu *gpu, uint64_t mask, struct pl_fence **out) SL_MUST_CHECK;
int pl_fence_passed(struct pl_fence *fence);
int pl_fence_wait(struct pl_fence *fence) SL_MUST_CHECK;
/*
 * The same fence for several holders; it stands still: neither passed nor wait. is_whole: no stream of it is
 * captured. follow: make stream wait for its part of the streams of mask; 0, or -EBUSY with a text. await:
 * wait for it here; the same. hold: NULL is NULL. put: freed with the last; NULL is nothing.
 */
struct pl_fence *pl_fence_hold(struct pl_fence *fence);
void pl_fence_put(struct pl_fence *fence);
int pl_fence_is_whole(const struct pl_fence *fence);
int pl_fence_follow(const struct pl_fence *fence, struct cu_stream *stream,
		    enum pl_default_stream flavour, uint64_t mask) SL_MUST_CHECK;
int pl_fence_await(const struct pl_fence *fence) SL_MUST_CHECK;

/* The stream handle that a call means: 0 by flavour. */
static inline struct cu_stream *
pl_stream_handle(struct cu_stream *stream, enum pl_default_stream flavour)
{
	if (stream)
		return stream;
	return flavour == PL_PER_THREAD ? CU_PER_THREAD_STREAM : CU_LEGACY_STREAM;
}

/* ---- scope.c: what a call will touch ------------------------------------------------------- */

#define PL_USES_MAX 512u

struct pl_use {
	struct pl_block *block;
	uint64_t addr; /* inside the block */
	uint64_t bytes;
	enum sluice_intent intent;
};

enum pl_scope_flag {
	PL_SCOPE_ALL = 1, /* may touch any other block as well */
	PL_SCOPE_CHECKED = 2, /* the driver looks at the memory when the call is made: also while the
			       * stream is captured it must be there */
	PL_SCOPE_LOOK = 4, /* that is all it does, and no stream is meant; any GPU's uses */
	PL_SCOPE_AWAY = 8 /* the uses are mapped where they are, and not brought to the device */
};

struct pl_scope {
	struct pl_gpu *gpu;           /* NULL: nothing was opened */
	struct sluice_launch *launch; /* of what is used */
	struct sluice_launch *all;    /* of everything else */
	struct pl_gpu *unpinned;      /* it counts there; NULL: no */
	uint64_t what; /* set before: the same for the same work (a function); 0: a copy or a fill */
	const char *name; /* set before: what it is called in a trace; NULL: it is not in one */
	int copies; /* set before: 1: it is a copy, from or to the host where it uses one side only */
	struct pl_timing *timing; /* tracing.c's; NULL: its time is not taken */
};

/*
 * Before work that touches uses is enqueued on the stream by the calling thread: what fits is on the
 * device, the rest is mapped in host memory, when that work runs. At ease: nothing. A capturing
 * stream: nothing, unless PL_SCOPE_CHECKED. n 0: nothing, unless PL_SCOPE_ALL. All uses are of the GPU
 * of the calling thread's context: of others see touch.h (pl_peers_begin()). Returns a CUresult:
 * CU_ERROR_OUT_OF_MEMORY (reason on stderr) when the uses fit nowhere. pl_scope_end() also after an
 * error, and when nothing was opened. Blocks while the device is full of work that is not done, and on
 * I/O.
 */
int pl_scope_begin(struct pl_scope *scope, struct cu_stream *stream,
		   enum pl_default_stream flavour, const struct pl_use *uses, size_t n,
		   unsigned flags) SL_MUST_CHECK;
void pl_scope_end(struct pl_scope *scope);
/* Are there scopes of other threads that began at ease, so that nothing is pinned for them? */
int pl_scopes_unpinned(const struct pl_gpu *gpu);

/* The use of [addr, addr + bytes) by a copy or a fill. 1: ours, *use is filled. bytes may go beyond
 * the block's end: cut. */
int pl_use_of(uint64_t addr, uint64_t bytes, enum sluice_intent intent, struct pl_use *use);

/*
 * Hold a block on the device until it is freed, and wait until its contents are there: what uses it
 * afterwards opens no scope that would wait for them. CUresult. Blocks on copies the first time for a
 * block; then a load. arena.c calls unpin when it frees one with PL_BLOCK_PINNED.
 */
int pl_block_pin(struct pl_block *block) SL_MUST_CHECK;
void pl_block_unpin(struct pl_block *block);
/* The stream is about to be destroyed: forget it. Waits for its work if scopes are open on it. */
void pl_scope_stream_destroyed(struct pl_gpu *gpu, struct cu_stream *stream);

/* ---- launch.c: launches, and what their arguments name --------------------------------------- */

/* What a kernel's arguments name. uses: room for PL_USES_MAX. Returns their number, *flags gets
 * PL_SCOPE_ALL where the function is not known to name all. kernel: a CUfunction, or a CUkernel cast to one.
 * Looks at learnt layouts; the first time for a function makes driver calls. */
size_t pl_launch_uses(void *function, void **params, void **extra, struct pl_use *uses,
		      unsigned *flags);
/* Modules were unloaded: handles may come again with other functions behind them. */
void pl_launch_forget(void);
/* A block is about to be freed: addresses kept in it are forgotten. */
void pl_pointer_table_forget(struct pl_block *block);

/* What is known of a function, for --explain. */
struct pl_function_stats {
	char name[128];
	uint64_t launches;
	uint64_t all;          /* taken to touch everything */
	uint64_t opaque;       /* arguments could not be read */
	uint64_t missed_bytes; /* named, and neither on the device nor on their way there, when
				* it was launched; counted with --explain only, as is the next */
	uint64_t waited_ns; /* of the launching thread for that */
	int indirect;       /* addresses were found in memory it was given */
};

void pl_functions_walk(void (*fn)(const struct pl_function_stats *, void *), void *arg);

/* Host bytes that were, or are about to be, copied to addr in device memory: learn addresses in
 * them. */
void pl_pointer_table_note(uint64_t addr, const void *host, size_t bytes);

/* ---- tensormap.c: descriptors of tensors (TMA) ------------------------------------------------ */

/* Whether the 128 bytes at map128 (any alignment) are a tensor map that was made in this process and
 * lies in our memory now: 1, and *use is the memory that it reaches (read and written). Wait-free; a
 * load while there are no maps, tens of ns then. */
int pl_tensor_map_find(const void *map128, struct pl_use *use);

/* ---- counters, for the line at exit and --stats ------------------------------------------------ */

/* C(name, what it counts) */
#define PL_COUNTERS(C)                                                          \
	C(launches, "kernels launched")                                         \
	C(launches_seen, "of these, with arguments looked at")                  \
	C(launches_all, "of these, taken to touch everything")                  \
	C(launches_opaque, "of these, whose arguments could not be read")       \
	C(graph_launches, "graphs launched")                                    \
	C(copies, "copies and fills that name our memory")                      \
	C(copies_split, "of these, done piece by piece: refused across places") \
	C(allocations, "allocations served")                                    \
	C(frees, "allocations freed")                                           \
	C(mapped, "of these, by cuMemCreate()")                                 \
	C(mapped_native, "of these, made the driver's: what was asked of them") \
	C(foreign_bytes, "bytes of device memory allocated past us")            \
	C(rooms_given, "times the driver was out of memory and was given some") \
	C(tables, "copies found to hold addresses")                             \
	C(follows_hit, "launches that followed as predicted")                   \
	C(follows_miss, "launches that did not")                                \
	C(follows_idle, "predicted, and nothing moved ahead: slower")           \
	C(follows_patient, "predicted, waiting for room rather than making it") \
	C(unknown_names, "driver functions asked for that are not in the table")

enum pl_counter {
#define PL_COUNTER_ENUM(name, text) PL_COUNT_##name,
	PL_COUNTERS(PL_COUNTER_ENUM)
#undef PL_COUNTER_ENUM
		PL_COUNT_COUNT
};

extern _Atomic uint64_t pl_counters[PL_COUNT_COUNT];

#define PL_COUNT(name, n)                                                    \
	((void)atomic_fetch_add_explicit(&pl_counters[PL_COUNT_##name], (n), \
					 memory_order_relaxed))

#endif
