/* SPDX-License-Identifier: Apache-2.0 */
/*
 * START HERE. The data of the pager: space, region, chunk, host copy, launch; the protection of
 * each field, and the invariants that sl_space_check() verifies.
 *
 * One lock, space->lock, protects everything below unless said otherwise. The rule: decide under
 * the lock, mark the chunk busy by its state, drop the lock, move, retake it, finish. Under the
 * lock: no copy, no I/O, no system call, no callback, no log.
 *
 * Invariants
 *  I1 device.used_bytes = sum of chunk->device_bytes, and never above device.budget_bytes.
 *  I2 host.settled_bytes = sum of settled frames, never above host.budget_bytes;
 *     host.staging_used_bytes = sum of the other frames, never above host.staging_bytes.
 *  I3 a chunk has contents in at least one place unless it is EMPTY. DIRTY_DEVICE: only on the
 *     device. (Under dirty detection it may be clean, with a frame of the hashed contents.)
 *     DIRTY_HOST: the frame is newer than the store. Neither: every copy is equal.
 *  I4 a chunk is in the discarded list if and only if DISCARDED, DEVICE and not pinned by the
 *     user. Every chunk that is DEVICE and neither is in the device heap. A discarded one may
 *     still be there; it is removed when it comes to the top. No other is.
 *  I5 a settled frame is on exactly one host list, the one host_list_of() names.
 *  I6 region->ready[] counts its chunks by readiness.
 *  I7 the host map shows granules only of chunks in HOST, POISONED or MAPPING; hostmap.bytes is the
 *     sum of their chunk sizes.
 *  I8 a chunk that is populated by page has no compressed extent: its pages are read and written
 *     one by one.
 *  I9 an encoded frame is of a chunk that is neither shown, nor reached, nor populated by page.
 *  I10 space->alive_bytes is the sum of the sizes of chunks that have contents which are not discarded.
 */
#ifndef SL_CORE_TYPES_H
#define SL_CORE_TYPES_H

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/bitmap.h"
#include "base/clock.h"
#include "base/fault_point.h"
#include "base/lock.h"
#include "core/chunk_state.h"
#include "core/policy.h"
#include "device/device_async.h"
#include "device/device_fault.h"
#include "device/device_hostmap.h"
#include "sluice/sluice.h"
#include "store/store.h"

typedef void sl_moved_out(void *arg, const void *addr, const void *data, uint64_t bytes);

struct sl_hashes;
struct sl_early_eviction;
struct sl_publisher;
struct sl_guest_state;
struct sl_events;
struct sl_host_share;
struct sl_member;
struct sl_space_share;

/* Why bytes move: each direction has its own counters (sluice/stats.h). */
enum sl_cause {
	SL_CAUSE_LAUNCH,
	SL_CAUSE_FAULT,
	SL_CAUSE_CPU,
	SL_CAUSE_PREFETCH, /* prefetch and pin calls */
	SL_CAUSE_COUNT
};

/* Who asks for room on the device. What each may take, and how long it waits: victim.h. */
enum sl_room_mode {
	SL_ROOM_LAUNCH,
	SL_ROOM_INTERPOSED, /* a launch that waits for early evictions: sl_early_evict_await() */
	SL_ROOM_FETCH, /* by a kernel that runs: launches may stand behind that kernel */
	SL_ROOM_PIN,   /* sluice_pin() */
	SL_ROOM_FAULT, /* a touch; the kernel that faults may be a launch in flight */
	SL_ROOM_PREFETCH,
	SL_ROOM_SPARE, /* a prefetch that is worth no contents that live */
	SL_ROOM_PLAN,  /* a policy that makes room before the next launch needs it */
	SL_ROOM_EARLY, /* the mover, on behalf of early evictions */
	SL_ROOM_WRITE_BEHIND,
	SL_ROOM_THRASH, /* small buffers of launches in a row that do not fit: thrash.c */
	SL_ROOM_SHRINK, /* a smaller device budget */
	SL_ROOM_MODE_COUNT
};

enum sl_chunk_flag {
	SL_DIRTY_DEVICE = 1 << 0, /* the device's contents are, or may be, newer than any copy */
	SL_DIRTY_HOST = 1 << 1, /* the host frame is newer than the store, or the store has none */
	SL_STORE_VALID = 1 << 2, /* the store has contents (the newest if neither dirty bit is set) */
	SL_GUARDED = 1 << 3,   /* writes by anyone are seen: DIRTY_DEVICE is exact */
	SL_DISCARDED = 1 << 4, /* lazily: contents may go at any time */
	SL_DISCARD_EAGER = 1 << 5, /* as above, and to be unmapped when the last launch ends; without
				    * DISCARDED: writes to its dead pages are to be seen */
	SL_READ_AHEAD = 1 << 6, /* the frame came by read-ahead and nothing used it yet */
	SL_WAS_EVICTED = 1 << 7, /* for the refetch counter */
	SL_COLD = 1 << 8,        /* advised DONT_NEED: first victim */
	SL_WRITTEN = 1 << 9,     /* SYNCING: written to since the snapshot */
	SL_SNAPSHOT = 1 << 10,   /* SYNCING: the snapshot is being copied now */
	SL_PREPARING = 1 << 11, /* needed by the launch that the mover is preparing now */
	SL_ZEROCOPY = 1 << 12,  /* HOST: the frame is mapped for kernels */
	SL_EXCESS = 1 << 13,    /* that launch is to reach it: no room on the device */
	SL_LOST = 1 << 14, /* EMPTY, or unwritten: the contents are gone, by a failed device or a
			       * launch that did not run; whoever needs them gets an error,
			       * whoever overwrites or discards them does not */
	SL_PLANNED = 1 << 15 /* brought to the device by a plan, and not used yet */
};

/* What an empty chunk keeps of its flags: they are not about contents. */
#define SL_FLAGS_KEPT (SL_WAS_EVICTED | SL_PREPARING | SL_EXCESS)

/* Of a region, beside enum sluice_map_flag: what is EMPTY has undefined contents. */
#define SL_REGION_UNDEFINED 0x10000u

#define SL_HEAP_NONE       UINT32_MAX
#define SL_LEAVING_MAX     15
#define SL_THRASH_MAX      8u
#define SL_CHUNK_BYTES_MAX (64u << 20)

/* Whether a chunk is hashed before it leaves the device, and what it may be equal to (dirty_hash.c). */
enum sl_dirty_hash_state {
	SL_MEASURED_NOT,
	SL_MEASURED_LEARN, /* to nothing: its hash is for the next time */
	SL_MEASURED_COPY, /* to what is in the host frame, if it is kept, and in a store that is valid */
	SL_MEASURED_ZERO, /* to zeros, of which there is no copy */
	SL_MEASURED_COUNT
};

/* Pages of a chunk that is populated by page. One allocation; bitmaps of the chunk's pages. */
struct sl_pages {
	uint32_t n_present;
	uint32_t n_filling; /* pages being read in by some thread: the chunk may not be evicted */
	uint64_t *present; /* on the device */
	uint64_t *dirty;   /* newer than the base copy (host frame, store, or zeros) */
	uint64_t *filling;
	uint64_t words[];
};

/* Where the host lists keep settled frames, in the order in which room is made. */
enum sl_host_list {
	SL_HOST_OLD, /* about to be overwritten on the device: as if it had gone already */
	SL_HOST_DUP_CLEAN, /* also on the device, store valid: free to drop */
	SL_HOST_BASE, /* also on the device, maybe as it is: costs a copy-out later if so */
	SL_HOST_CLEAN,   /* store valid (or being written): costs a read later */
	SL_HOST_DUP,     /* also on the device, nowhere else: costs a copy-out later */
	SL_HOST_REACHED, /* mapped for kernels: costs an unmapping */
	SL_HOST_DIRTY_FILE, /* must be written first; before DUP where that may be waited for */
	SL_HOST_DIRTY_VOLATILE,
	SL_HOST_READ_AHEAD, /* staging: read ahead and not used yet */
	SL_HOST_LIST_COUNT,
	SL_HOST_LIST_NONE
};

/* A host copy of a chunk: a frame and its I/O. Owned by its chunk. */
struct sl_host {
	struct sl_frame *frame;
	struct sl_chunk *chunk;
	struct sl_host *prev, *next; /* host list */
	enum sl_host_list list;
	int settled; /* counts to the host budget; else to staging */
	int active;  /* counted in host.staging_active */
	unsigned worth_parts; /* it leaves encoded, if that leaves so many of SL_CODEC_WORTH_ALL; 0: as it is */
	int let_go;        /* free the frame when the write completes */
	int write_counter; /* enum sluice_counter of the write in flight */
	uint64_t event;    /* of its move or I/O: events.h */
	uint32_t run_next; /* partial write: next page to look at */
	struct sl_io io;
	struct sl_extent spare; /* extent for a first spill, allocated outside the lock */
};

/*
 * The unit of residency. Small on purpose: sizeof is part of the published cost per chunk
 * (tests/unit/test_types.c).
 */
struct sl_chunk {
	struct sl_region *region; /* set once */
	struct sl_host *host;     /* host copy, or NULL */
	struct sl_pages *pages;   /* DEVICE by pages, else NULL */
	struct sl_extent *spill; /* anonymous regions: place in the spill file, or NULL */
	struct sl_chunk *prev, *next; /* discarded list */
	uint64_t *dead; /* discarded pages (bitmap) while only some are, else NULL */
	uint64_t stamp; /* order of last use: smaller is colder */
	struct sl_fence ready_at; /* what must be done before it is used: device_async.h */
	uint64_t heap_stamp;      /* the stamp by which the heap knows it */
	uint32_t device_bytes;    /* counted to the device budget now */
	uint32_t heap_slot;       /* SL_HEAP_NONE: not in the heap */
	uint32_t mark;            /* dedup within one launch */
	uint32_t pins; /* uses by launches prepared and not finished; rules: victim.h */
	uint32_t reach_users; /* uses by such launches that reach it in the host tier */
	uint32_t hostmap;     /* granules that the host map shows (bit k: granule k) */
	union {
		uint32_t hostmap_dirty; /* of them: may be newer than the frame */
		uint32_t discard_number; /* devices with guards: of the last launch before the
					  * eager discard; the low bits */
	};
	uint16_t user_pins;  /* sluice_pin(); rules: victim.h */
	uint16_t flags;      /* enum sl_chunk_flag */
	uint16_t read_error; /* errno of the last read that failed; cleared by the next */
	uint16_t lifting : 15; /* threads that lift a guard of it now: nobody moves or guards it */
	uint16_t alive : 1; /* has contents that are not discarded; kept by sl_chunk_update() */
	uint8_t state; /* enum sl_chunk_state; written by sl_chunk_set_state() only */
	uint8_t readiness : 2; /* enum sl_readiness, kept by sl_chunk_update() */
	uint8_t measured : 3; /* enum sl_dirty_hash_state; not but where it is on the device */
	uint8_t encode_step : 3; /* encode.c: next time so many skips, as a power of two; 0: none */
	uint8_t encode_skips : 7; /* so often it goes out as it is, from here on */
	uint8_t awaited : 1; /* asked for by a prefetch, and no launch has pinned it since */
	uint8_t encode_size : 2; /* enum sl_encode_size: the last time that was tried */
	uint8_t leaving : 4; /* places in space->early_evict, or taken from it just now */
	uint8_t hashed : 1; /* no launch has pinned it since it was hashed last: dirty_hash.c */
	uint8_t unwritten : 1; /* DEVICE: cleared room for a launch that is to overwrite all of
				* it and has not begun; the contents are those of its other
				* copy: overwrite.c */
};

/* What encoding leaves of a chunk: encode.c has the parts. */
enum sl_encode_size {
	SL_ENCODE_UNKNOWN, /* not tried, or somebody wants it as it is */
	SL_ENCODE_SMALL,
	SL_ENCODE_MEDIUM,
	SL_ENCODE_LARGE
};

/* Whether the device encodes what leaves it. */
enum sl_encoder_state {
	SL_ENCODER_NONE,  /* it does not */
	SL_ENCODER_IDLE,  /* it will, once something leaves */
	SL_ENCODER_BEGUN, /* it is being made ready */
	SL_ENCODER_READY
};

/* What a launch can do with the chunk as it is, without any move. */
enum sl_readiness {
	SL_READY_NOT,  /* must be brought in */
	SL_READY_READ, /* present: reads need nothing; writes need the books changed */
	SL_READY_WRITE, /* present, known dirty, not guarded, no host copy (or measured, so that a
			 * write will be found): writes need nothing */
	SL_READINESS_COUNT
};

/*
 * One stream of accesses seen in a region. Bit k of a mask: the chunk k behind the frontier (max
 * upwards, min downwards) was used; so threads that overtake each other do not hide a pattern.
 */
struct sl_ahead {
	int64_t max, min; /* highest and lowest chunk used; max < min: no stream */
	uint64_t up_mask, down_mask;
	int64_t stride;  /* of the recognised pattern, in chunks; 0: none */
	int64_t issued;  /* last chunk read ahead */
	uint32_t window; /* steps ahead now */
	uint32_t misses; /* steps in a row that did not show the stride */
	uint32_t steps;  /* uses since the stream was found that showed one */
	uint64_t stamp;
};
#define SL_AHEAD_STREAMS 4

struct sl_region {
	struct sluice_space *space; /* set once */
	char *base;                 /* set once */
	uint64_t size_bytes;        /* set once: what the caller asked for */
	uint64_t chunk_bytes;       /* set once; a power of two */
	unsigned chunk_shift;       /* set once: its logarithm */
	uint64_t n_chunks;          /* set once */
	struct sl_chunk *chunks;    /* set once */
	struct sl_store *store;     /* the mapped file, NULL: anonymous. Set once */
	uint64_t file_offset;       /* set once */
	int file_writable;          /* set once: the file is open for writing */
	unsigned flags;             /* enum sluice_map_flag */
	enum sluice_advice advice;
	int measure;              /* advised so */
	struct sl_hashes *hashes; /* of each chunk; NULL: none hashed yet. Owned by dirty_hash.c */
	uint64_t full_pins; /* launches so far that have pinned all of it at once */
	enum sluice_population population;
	enum sl_delivery delivery;
	uint64_t ready[SL_READINESS_COUNT];
	uint64_t whole_stamp; /* last use of the whole region: a chunk's stamp is the larger */
	uint32_t whole_pins; /* launches that use the whole region */
	uint32_t launches;   /* launches submitted and not finished that use it */
	uint32_t busy;       /* threads inside calls or faults on it: unmap waits */
	uint64_t noted; /* the era of the notes of policy plan that have it: policy_plan.c */
	int closed;     /* no call finds it: it is being made, or unmapped */
	uint64_t pin_touches; /* sl_touch_clock at the last sluice_pin() of it */
	int write_error;      /* first background write error not yet reported */
	int write_error_code; /* whose text that is; stays when it has been reported */
	char write_error_text[SL_ERROR_TEXT_BYTES];
	uint64_t write_failures; /* so far: a sync must not miss one that another call reported */
	struct sl_ahead ahead[SL_AHEAD_STREAMS];
	char name[256];
};

struct sl_launch_use {
	struct sl_region *region;
	uint64_t first, last;        /* chunks */
	enum sluice_intent intent;   /* as the policy sees it */
	enum sluice_intent declared; /* as the caller gave it */
	int reach;        /* not declared: need not be on the device, only reachable */
	uint64_t brought; /* chunks brought in so far, from the first */
	uint64_t fetched; /* of them, from the host tier or the store, to the device or to be reached */
	int reaches; /* thrash.c: what is missing of it from here on is reached */
	uint64_t used; /* thrash.c: it displaces only what was not used for longer; 0: anything */
	uint64_t lag; /* and is displaced as if it had been used so many uses before */
	int whole;    /* pinned and stamped as a whole region */
	int first_partial; /* the use covers only a part of its first / last chunk */
	int last_partial;
	uint64_t begin, end; /* byte range within the region */
};

enum sl_launch_state {
	SL_LAUNCH_QUEUED,   /* waits for the mover */
	SL_LAUNCH_PREPARED, /* all present and pinned */
	SL_LAUNCH_RUNNING,
	SL_LAUNCH_DONE
};

/* A sluice_launch_begin(); on space->scopes from begin until its pins go. */
enum sl_scope {
	SL_SCOPE_NONE, /* an ordinary launch */
	SL_SCOPE_HELD, /* by the caller */
	SL_SCOPE_ENDED /* its pins go when the stream comes to it */
};

/*
 * What was submitted and is not over, launches and callbacks, in order of submission; so that a wait
 * can end with what was there when it began.
 */
struct sl_inflight {
	struct sl_inflight *prev, *next;
	uint64_t number;                    /* rises along the list */
	const struct sluice_launch *launch; /* NULL: not a launch */
	const struct sl_region *region; /* a move or discard of it; NULL too: a callback, which may
					 * touch anything */
};

/*
 * What the mover is asked for. Launches and discards are served in the order of the calls, prefetches
 * when none of them waits.
 */
enum sl_request_kind {
	SL_REQUEST_LAUNCH, /* of a struct sluice_launch: prepare it */
	SL_REQUEST_DISCARD, /* of a struct sl_discard, mover.c: keeps its place among launches */
	SL_REQUEST_PREFETCH /* of a struct sl_prefetch, mover.c */
};

struct sl_request {
	struct sl_request *prev, *next;
	enum sl_request_kind kind;
	uint64_t number; /* of the launch, from 1; of a discard: of the launch before it */
};

struct sl_request_queue {
	struct sl_request *head, *tail;
};

struct sluice_launch {
	struct sl_task task; /* first: the stream's handle */
	/* Does its books and frees it, under the lock, once it is on space->reaped. */
	void (*over)(struct sluice_launch *l);
	struct sl_request request; /* to be prepared */
	struct sl_inflight work;
	struct sluice_space *space;
	struct sluice_stream *stream;
	/* List of prepared launches; of those ended: next older, and the oldest. */
	struct sluice_launch *next, *prev;
	enum sl_launch_state state;
	enum sl_scope host_scope;
	pid_t owner;      /* thread of a host scope */
	uint64_t touches; /* sl_touch_clock when that scope began */
	int unpinned;     /* PREPARED, but preparing failed: nothing is pinned */
	int rc;
	int gate_refused; /* the room that it needs at once will not come soon: gate.c */
	int fetch; /* for a kernel that waits for it: it takes no room that a launch may hold for
		    * as long as that kernel runs, and gives up at room_deadline_ns */
	uint64_t room_deadline_ns;
	uint64_t patience_ns; /* until when it waits for what is to leave; 0: it has not begun to */
	int again;            /* it gave its pins back, and is prepared a second time */
	int moved;            /* something of it had to be brought in, or is reached */
	int embedded;  /* of a program that knows nothing of us: interpose.h */
	int reach_all; /* it may touch what it does not declare: uses cover every region */
	int reaches;   /* some of its chunks are reached in the host tier */
	int overwrites; /* some of its chunks are unwritten, and it has not begun: overwrite.c */
	int noted;                         /* the policy has seen it */
	uint64_t planned, plan_generation; /* policy plan: its number in that plan; 0: in none */
	sluice_kernel kernel;
	struct sluice_grid grid;
	size_t n_uses;
	struct sl_launch_use *uses;
	void *args;
	char error_text[SL_ERROR_TEXT_BYTES];
};

struct sl_host_queue {
	struct sl_host *head, *tail;
	uint64_t bytes;
	uint64_t n;
};

#define SL_WAIT_BUCKETS 32

struct sluice_space {
	struct sl_mutex lock;
	struct sluice_config config;    /* set once, but the budgets */
	const struct sl_policy *policy; /* set once */
	struct sl_device *device;       /* set once */
	struct sl_engine *engine;       /* set once */
	struct sl_spill *spill;         /* set once; has its own lock */
	uint32_t fork_count;            /* set once */

	struct sl_region **regions; /* sorted by base */
	size_t n_regions, max_regions;
	struct { /* no gap before regions[from] takes bytes, aligned */
		size_t from;
		uint64_t bytes, align;
	} search;
	size_t slots_bytes;
	struct sl_region **slots; /* by granule; NULL: none */

	/* Of chunks with contents, wherever they are. Changes under the lock. atomic: relaxed: readers
	 * without it compare moments. */
	_Atomic uint64_t alive_bytes;
	struct {
		uint64_t budget_bytes, used_bytes, peak_bytes, pinned_bytes;
		uint64_t leaving_bytes; /* of used_bytes: of chunks that are EVICTING */
		uint64_t wanted_bytes; /* what threads in sl_room_make() still wait for */
		uint64_t spare_bytes; /* what requests for spare room are still to move */
		int spare_wanted; /* the last one was refused: the end of a launch is of interest */
		/* Min-heaps on (heap_stamp, chunk address): chunks of chunk_bytes; larger ones. */
		struct sl_heap {
			struct sl_chunk **slot;
			uint32_t n, max;
			uint64_t n_reserved; /* chunks of all regions with this chunk size */
		} heap[2];
		uint32_t heap_n; /* of both */
		struct sl_chunk *discarded_head, *discarded_tail;
	} dev;
	struct {
		uint64_t budget_bytes, settled_bytes, peak_bytes;
		uint64_t staging_bytes, staging_used_bytes;
		uint64_t volatile_bytes;   /* settled and neither clean nor of a file */
		uint64_t read_ahead_bytes; /* staging held or claimed by read-ahead */
		uint64_t staging_active;   /* frames in I/O, filling or evicting */
		uint64_t evicted_bytes; /* frames that evictions have asked for so far */
		uint64_t frames_peak_bytes; /* the most that evictions have found held */
		uint64_t announced_bytes; /* the most that it was said to get: sl_host_expect() */
		size_t expect_skip;     /* evictions until the device is told again */
		uint64_t expect_number; /* how often it was told */
		int maps; /* kernels have used a frame: those to come are made for that as well */
		struct sl_host_queue list[SL_HOST_LIST_COUNT];
	} host;
	struct {
		uint64_t limit_bytes; /* set once: of chunks with shown granules at once */
		uint64_t bytes;
		struct sl_chunk **chunks; /* oldest first */
		uint32_t n, max;
	} hostmap;
	struct {
		int ready;        /* the device can hash */
		uint32_t running; /* hashes under way */
		uint32_t late; /* of them: those that somebody has waited for in vain */
	} measure;
	struct {
		enum sl_encoder_state state;
		int begun;          /* thread makes it ready, or has made it so */
		pthread_t thread;   /* joined by who ends the space */
		unsigned rests;     /* so many chunks go out as they are, from here on */
		uint64_t in_use_ns; /* when the link was seen in use */
		int more; /* what shrinks by little is encoded, too: sl_encode_more() */
		/* Medium ones were seen. atomic: relaxed: a hint, which is set once. */
		_Atomic int may_more;
	} encoder; /* encode.c */
	uint32_t own_stops; /* reasons that no kernel of ours is to run now: sl_own_kernels_stop() */
	uint64_t spilled_bytes, spilled_peak_bytes;
	uint64_t clock; /* stamps */
	uint64_t launch_clock;
	uint32_t mark_clock;
	uint64_t counter[SLUICE_COUNTER_COUNT];
	struct sl_events *events; /* NULL: nobody wants them. events.h */
	/* Told of contents that were moved out (interpose.h); NULL: nobody wants to know. Set
	 * before the first region, and then only read. */
	sl_moved_out *moved_out;
	void *moved_out_arg;

	/* The mover. */
	pthread_t mover;
	int mover_started, mover_stop;
	int mover_busy; /* with a prefetch */
	struct sl_cond mover_wake;
	struct sl_request_queue calls;       /* launches and discards, in call order */
	struct sl_request_queue prefetches;  /* in call order */
	struct sl_request *serving;          /* the launch or discard being worked on */
	struct sluice_launch *prepared;      /* prepared, not started; newest first */
	struct sluice_launch *scopes;        /* host scopes whose pins stand */
	struct sluice_stream *ended_streams; /* those with scopes in ended */
	uint32_t submitting; /* threads that hand ended scopes to the device */
	struct sl_thrash {
		const struct sl_region *region; /* to compare with, it may be gone; and chunks of it */
		uint64_t first, last;
		uint64_t stamp;  /* of the last such launch */
		uint32_t n;      /* in a row */
	} thrash[SL_THRASH_MAX]; /* what launches that did not fit used lately: thrash.c */
	uint64_t thrash_clock;   /* of the last one of a row of them; 0: none */
	struct {
		struct sl_early_eviction *ring; /* chunks that are to leave: early_queue.c */
		uint32_t head, tail, max;       /* count up; max: a power of two */
		/* 1: the end of a launch is of interest. atomic: relaxed: only under the space's
		 * lock, which orders it; all others use the plain form. */
		_Atomic int waiting;
		int await; /* a launch that lacks room waits for them: sl_early_evict_await() */
		int late; /* a prefetch has waited for them in vain, and nothing left since */
	} early_evict;
	struct { /* of a space that shares its device: launch/gate.c, api/share.c */
		int is_there;         /* it does. Set before anybody else has the space */
		unsigned shut;        /* enum sl_member_gate: why launches wait */
		uint32_t waiting;     /* launches that do */
		uint64_t grow_bytes;  /* while room comes: the budget that it will be */
		uint64_t asked_bytes; /* the budget that launches wait for; 0: none do */
		uint64_t refusals;    /* so often it was said that it will not come */
		uint64_t squeezes_asked, squeezes_done; /* the driver has less than the budget */
		uint64_t limit_bytes; /* the most that the budget may be */
		uint64_t need_bytes;  /* the most that a launch in flight needs at once */
		int stops;            /* the thread is to end */
		struct sl_cond wake;  /* the thread: one of these has changed */
	} gate;
	uint32_t running;    /* launches running or held by a host scope */
	uint32_t undeclared; /* launches without uses and callbacks not yet done */
	struct sl_inflight *work_oldest, *work_newest;
	uint64_t work_clock;    /* number of the newest ever */
	uint64_t close_touches; /* sl_touch_clock when a region was closed last */
	int resizing;   /* a thread changes a budget, and may have dropped the lock */
	int eager_used; /* an eager discard met a launch: ends of launches must look */
	char broken_text[SL_ERROR_TEXT_BYTES]; /* first illegal move that was refused; or "" */

	struct sl_cond chunk_wake[SL_WAIT_BUCKETS]; /* a chunk's state changed */
	struct sl_cond host_wake;   /* staging or settled room may be there */
	struct sl_cond launch_wake; /* a launch changed state, pins were dropped */
	uint32_t host_waiters;
	/* Changed under the lock; atomic: pairs with reaped, see launch_async.c and wait.c */
	_Atomic uint32_t launch_waiters;
	struct sluice_launch *_Atomic reaped; /* that the device has done; a stack */
	uint32_t chunk_waiters[SL_WAIT_BUCKETS];

	struct sluice_stream *default_stream; /* set once */
	struct sl_publisher *publisher;       /* set once */
	struct sl_guest_state *guest; /* set once; NULL: nobody tells it of launches */
	struct sl_space_share *share; /* set once; NULL: the device is not shared */
	struct sl_host_share *host_share; /* set once; NULL: host memory is not shared */
	void *policy_state;               /* set once; owned by the policy, or NULL */
};

struct sluice_stream {
	struct sluice_space *space;
	struct sluice_launch *ended; /* native streams: scopes ended, of which the device has not
				      * been asked yet; newest first. space->lock */
	uint32_t n_ended;
	struct sluice_stream *ended_next; /* space->ended_streams; space->lock */
	char failed[SL_ERROR_TEXT_BYTES / 2]; /* launches that the device failed in; space->lock */
	int at_once; /* set once: end of a scope is recorded by the thread that ends it */
	struct sl_stream *stream;
	uint32_t submitting; /* threads that hand ended scopes to the device; space->lock */
	atomic_uint pending; /* tasks submitted and not done */
};

struct sluice_event {
	struct sluice_space *space;
	struct sl_event *event;
};

/* NULL: it is none of a launch. */
static inline struct sluice_launch *
sl_request_launch(struct sl_request *q)
{
	if (!q || q->kind != SL_REQUEST_LAUNCH)
		return NULL;
	return (struct sluice_launch *)((char *)q - offsetof(struct sluice_launch, request));
}

static inline char *
sl_chunk_addr(const struct sl_chunk *c)
{
	return c->region->base + (uint64_t)(c - c->region->chunks) * c->region->chunk_bytes;
}

/* Somebody owns it: wait for it. */
static inline int
sl_chunk_in_flight(const struct sl_chunk *c)
{
	return (SL_CHUNKS_IN_FLIGHT >> c->state) & 1;
}

/* The store has, or is to be asked for, its compressed bytes. */
static inline int
sl_chunk_is_encoded(const struct sl_chunk *c)
{
	return c->spill && c->spill->encoded_bytes;
}

static inline int
sl_chunk_on_device(const struct sl_chunk *c)
{
	return (SL_CHUNKS_ON_DEVICE >> c->state) & 1;
}

/* It has room on the device, and is not about to give it back. */
static inline int
sl_chunk_keeps_room(const struct sl_chunk *c)
{
	return c->device_bytes && c->state != SL_CHUNK_EVICTING;
}

static inline uint64_t
sl_chunk_index(const struct sl_chunk *c)
{
	return (uint64_t)(c - c->region->chunks);
}

/* Bytes of the region in this chunk: less than chunk_bytes in the last one only. */
static inline uint64_t
sl_chunk_valid_bytes(const struct sl_chunk *c)
{
	uint64_t begin = sl_chunk_index(c) * c->region->chunk_bytes;
	uint64_t left = c->region->size_bytes - begin;

	return left < c->region->chunk_bytes ? left : c->region->chunk_bytes;
}

static inline uint64_t
sl_chunk_stamp(const struct sl_chunk *c)
{
	return c->stamp > c->region->whole_stamp ? c->stamp : c->region->whole_stamp;
}

static inline uint32_t
sl_chunk_pins(const struct sl_chunk *c)
{
	return c->pins + c->region->whole_pins;
}

/* Without guards the books alone say what is guarded: what writes is what declares to. */
static inline int
sl_device_guard(struct sl_device *dev, void *addr, uint64_t bytes)
{
	return dev->guards ? dev->guards->guard(dev, addr, bytes) : 0;
}

/* Checking mode looks at what kernels touch: where their touches are seen. */
static inline int
sl_checks_kernels(const struct sluice_space *s)
{
	return s->config.checking && s->device->faults != NULL;
}

static inline int
sl_region_is_volatile(const struct sl_region *r)
{
	return !r->store || (r->flags & SLUICE_VOLATILE);
}

/* The store has the newest of what is not on the device. */
static inline int
sl_store_is_newest(const struct sl_chunk *c)
{
	return (c->flags & (SL_STORE_VALID | SL_DIRTY_HOST)) == SL_STORE_VALID;
}

static inline int
sl_region_is_writable(const struct sl_region *r)
{
	return (r->flags & SLUICE_WRITE) != 0;
}

#endif
