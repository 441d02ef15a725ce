/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the software device: shared by its files. The contract is device/device.h.
 *
 *   soft.c    create, destroy, the table of operations
 *   uffd.c    userfaultfd: opening, ioctls
 *   range.c   attached ranges: attach, detach, permission to change pages, page tables
 *   chunk.c   present, absent, snapshot, guard: whole chunks
 *   carry.c   moving and copying their contents, all or nothing
 *   page.c    fill and drop single pages; which pages of a range are present
 *   frame.c   the arena of frames and its cache
 *   spare_maps.c  mappings kept back for the limit of the process
 *   touch.c   signal handlers, handler threads: from a fault to events.touched() and back
 *   grid.c    worker threads that run kernels
 *   stream.c  streams and events
 *
 * "Device memory" is ordinary memory at an address of the space. A frame is the same memory at
 * an address of the arena. Making a chunk present moves the memory from arena to space
 * (UFFDIO_MOVE: a page table entry, no byte is copied). Making it absent moves it back. Both are
 * atomic for every thread that reads or writes meanwhile. Kernels before 6.8 cannot move. The
 * same calls then copy, under write protection where a racing write could be lost.
 * SLUICE_SOFT_MOVE=copy in the environment asks for copies, so that tests reach that path.
 *
 * One limit of copies: the program's direct I/O into a chunk that is being made absent. Write
 * protection does not stop DMA. Data that arrive after the copy are lost. Moves refuse such a
 * chunk.
 */
#ifndef SL_DEVICE_SOFT_SOFT_H
#define SL_DEVICE_SOFT_SOFT_H

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/lock.h"
#include "device/device.h"
#include "device/device_fault.h"

/* Chunk sizes are SL_GRANULE_BYTES << class. */
#define SL_SOFT_CLASSES      16
#define SL_SOFT_WORKERS_MAX  1024u
#define SL_SOFT_HANDLERS_MIN 2u
#define SL_SOFT_HANDLERS_MAX 64u

/* What is known of each granule of the address range; bits of soft->granule[]. The first three
 * are written by attach, detach and the movers of a chunk; read by anyone (relaxed: an address
 * comes to a reader through core, which orders it). The others keep apart who changes pages:
 * movers, which core sends, and refusals of system calls, of which core knows nothing. */
enum {
	SL_SOFT_GRANULE_THREAD = 1, /* attached, faults go to handler threads */
	SL_SOFT_GRANULE_SIGNAL = 2, /* attached, faults are signals */
	SL_SOFT_GRANULE_SMALL = 4,  /* may hold 4 KiB pages, or only some of them */
	SL_SOFT_GRANULE_REFUSED = 8, /* a handler has put something at a page, and takes it away */
	SL_SOFT_GRANULE_MOVER = 16 /* one for each mover there; to the last bit */
};

/* Where the memory of a frame is. */
enum soft_memory {
	SOFT_MEMORY_NONE, /* there is none; a touch of the frame makes zeros */
	SOFT_MEMORY_OWN, /* at the frame's own address (pages never touched may be missing) */
	SOFT_MEMORY_LENT, /* at a chunk; nothing may touch the frame's address */
	SOFT_MEMORY_COUNT
};

/* A slot of the arena. On a free list (soft->frames.lock) or held by one thread. */
struct soft_frame {
	struct sl_frame frame; /* frame.private points here */
	struct soft_frame *next;
	uint8_t class;
	uint8_t small; /* own memory is in 4 KiB pages: not worth keeping */
	enum soft_memory memory;
};

struct soft_segment; /* a mapped piece of the arena: frame.c */

struct soft_frames {
	struct sl_mutex lock;                        /* SL_RANK_FRAMES: all below */
	struct soft_frame *full[SL_SOFT_CLASSES];    /* memory OWN */
	struct soft_frame *clear[SL_SOFT_CLASSES];   /* memory OWN, all zeros */
	struct soft_frame *hollow[SL_SOFT_CLASSES];  /* memory NONE */
	struct soft_frame *scratch[SL_SOFT_CLASSES]; /* NONE, was used in small pages */
	struct soft_segment *segments;
	uint64_t full_bytes;  /* on the full and the clear lists */
	uint64_t limit_bytes; /* set once: of full_bytes */
	/* Clearing ahead of zero fills: the thread keeps n_clear[] up to target[]. */
	unsigned n_clear[SL_SOFT_CLASSES];
	unsigned target[SL_SOFT_CLASSES];
	struct sl_cond wanted; /* a clear list is below its target, or the end */
	int clearing;          /* the thread looks for work of its own accord */
	int stopping;
	int started; /* of create and destroy */
	pthread_t thread;
};

/* One grid_run() call; lives on its caller's stack while refs or blocks remain. */
struct soft_grid {
	struct soft_grid *next; /* pool->lock */
	sluice_kernel kernel;   /* set once, to total */
	void *args;
	void *launch;
	struct sluice_grid size;
	uint64_t serial;
	uint64_t total;
	_Atomic uint64_t next_block; /* atomic: relaxed: pool->lock orders the blocks' work */
	unsigned refs; /* pool->lock: threads in a block or serving a touch of one */
	struct sl_cond done; /* pool->lock: refs went to 0 and no block is left */
	_Atomic int failing; /* first to set it writes rc and text */
	_Atomic int stop;    /* no further block is started. atomic: relaxed: a hint */
	int rc;              /* by who set failing, before its ref goes; read at refs 0 */
	char text[SL_ERROR_TEXT_BYTES];
};

/* A thread that runs blocks: of the pool, or the caller of grid_run() while it helps. */
struct soft_worker {
	struct soft_worker *next; /* pool->lock */
	struct soft *soft;        /* set once */
	pid_t tid;                /* set once */
	uint32_t slot;            /* own thread: the number kernels see */
	struct soft_grid *grid;   /* written by own thread under pool->lock */
	_Atomic uint64_t doomed;  /* serial of the grid that a handler thread has ended */
	/* Own thread and signal handlers on it. */
	volatile sig_atomic_t in_block;
	uintptr_t doomed_pc;
	sigjmp_buf leave;
};

struct soft_pool {
	struct sl_mutex lock; /* SL_RANK_STREAM: lists, slots, refs */
	struct sl_cond work;
	struct soft_grid *oldest, *newest;
	struct soft_worker *workers_head;
	pthread_t *threads;
	unsigned n_threads; /* started */
	uint32_t *slots;    /* free slot numbers, a stack */
	unsigned n_slots;
	unsigned n_idle;
	uint64_t last_serial;
	int stopping;
};

struct soft_touch {
	int epoll_fd, stop_fd;
	pthread_t threads[SL_SOFT_HANDLERS_MAX];
	_Atomic unsigned n_threads; /* grows; published after threads[] is written */
	_Atomic unsigned n_busy;
	/* Counts attach(). A touch comes after its attach by way of the kernel, which the language
	 * does not see. atomic: pairs with the acquire before a touch is served. */
	_Atomic unsigned n_attached;
	_Atomic int growing;       /* one thread at a time starts another */
	_Atomic uintptr_t refused; /* last touch of host code that was: address plus thread */
	int listed;                /* the signal handlers know this device */
};

struct soft {
	struct sl_device dev; /* first */
	struct sl_touch_server touch_server;
	struct sl_device_progress progress;
	int can_move;     /* set once */
	int drops_tables; /* set once: absent memory is touched in small pages, see range.c */
	int can_poison; /* set once: a system call's touch can be made to fail */
	int thread_fd;  /* set once: faults as messages */
	int signal_fd;  /* set once: faults as SIGBUS */
	int arena_fd;   /* set once: destination of moves out; -1 when copying */
	int pagemap_fd; /* set once */
	void *mapping;  /* what munmap() gets */
	size_t mapping_bytes;
	/* See spare_maps.c; NULL: given back to the process. atomic: relaxed: an address, and nothing
	 * behind it is read. */
	_Atomic(void *) spare_maps;
	char *zeros; /* SL_GRANULE_BYTES, read only */
	/* n_granules. atomic: pairs with itself: a mover's release and a refusal's acquire, and the
	 * other way round (range.c). */
	_Atomic uint16_t *granule;
	size_t n_granules;
	struct soft_frames frames;
	struct soft_pool pool;
	struct soft_touch touch;
};

static inline struct soft *
sl_soft_of(struct sl_device *dev)
{
	return (struct soft *)dev;
}

/* soft.c: start a thread with all signals blocked but those that a fault of its own raises. */
int sl_soft_thread_start(pthread_t *thread, void *(*run)(void *), void *arg,
			 const char *name) SL_MUST_CHECK;

/* What a call says of a chunk when a step of it fails. */
static inline int
sl_soft_chunk_fail(int rc, const char *call, const void *addr, uint64_t bytes,
		   const char *step)
{
	return sl_fail(rc, "%s: chunk %p, %llu bytes: %s: %s", call, addr,
		       (unsigned long long)bytes, step, sl_errno_name(rc));
}

/* range.c */
/* Whether the kernel frees the empty page table that a touch leaves when told to. */
int sl_soft_tables_probe(const struct soft *soft);
/* Drop the empty page tables of a range that holds nothing; 0: it holds something, and keeps it. */
int sl_soft_tables_drop(const struct soft *soft, void *addr, uint64_t bytes);
int sl_soft_attach(struct sl_device *dev, void *addr, size_t bytes,
		   enum sl_delivery delivery);
void sl_soft_detach(struct sl_device *dev, void *addr, size_t bytes);
/* Drop the pages of a range; what stands there is lost. Cannot fail for an attached range. */
void sl_soft_range_drop(void *addr, uint64_t bytes);
/* The descriptor that serves [addr, addr + bytes); -EINVAL with a text that starts with call when
 * the range is not page-aligned or not attached. *delivery may be NULL. */
int sl_soft_range_fd(const struct soft *soft, const char *call, const void *addr,
		     uint64_t bytes, int *fd, int *waits) SL_MUST_CHECK;
/* Set or clear SL_SOFT_GRANULE_SMALL on the granules that the range touches. */
void sl_soft_range_set_small(struct soft *soft, const void *addr, uint64_t bytes, int small);
/* Whether one of them has it. */
int sl_soft_range_is_small(const struct soft *soft, const void *addr, uint64_t bytes);
/* Whether all of the range stands on huge pages. */
int sl_soft_range_is_huge(const struct soft *soft, const void *addr, uint64_t bytes);
/*
 * Around whatever puts pages into an attached range or takes them away. begin waits while a system
 * call's touch is being refused there, some ms; until end none is. Nothing to do, and nothing
 * done, where delivery is SIGNAL. May be called inside signal handlers.
 */
void sl_soft_move_begin(struct soft *soft, const void *addr, uint64_t bytes);
void sl_soft_move_end(struct soft *soft, const void *addr, uint64_t bytes);
/* For a handler thread that makes touches of a page fail: 1: until end nobody moves there. 0:
 * somebody does, or the range is no longer attached. Waits for other refusals. */
int sl_soft_refuse_begin(struct soft *soft, const void *page) SL_MUST_CHECK;
void sl_soft_refuse_end(struct soft *soft, const void *page);

/* carry.c: within sl_soft_move_begin() and end */
#define SL_SOFT_GRANULE_PAGES (SL_GRANULE_BYTES / SL_PAGE_BYTES)
/* As sl_uffd_move(), but *done is right. Nothing is at dst or, holes or not, everything is at src. */
int sl_soft_range_move(struct soft *soft, int fd, void *dst, void *src, size_t bytes,
		       unsigned flags, size_t *done) SL_MUST_CHECK;
/* Bring src (NULL: zeros) to the absent chunk by copies. The pages are guarded until all are there, and
 * after if guard. Wakes nobody. */
int sl_soft_chunk_copy_in(struct soft *soft, int fd, void *addr, uint64_t bytes,
			  const void *src, int guard) SL_MUST_CHECK;
/* Move src, which has all its memory or holes that were never touched, to the absent chunk. */
int sl_soft_chunk_move_in(struct soft *soft, int fd, int waits, void *addr,
			  uint64_t bytes, void *src, int guard) SL_MUST_CHECK;
/* Move what the chunk has to dst, where nothing is. -EBUSY: I/O has pages pinned. */
int sl_soft_chunk_move_out(struct soft *soft, int fd, void *addr, uint64_t bytes,
			   void *dst) SL_MUST_CHECK;
/* What src has back to home, which it was moved out from; src is empty then. */
void sl_soft_chunk_return_guarded(struct soft *soft, int fd, char *home, char *src,
				  size_t bytes);
/* Copy the pages that are present at src to dst. */
int sl_soft_pages_copy(const struct soft *soft, char *dst, const char *src,
		       uint64_t bytes) SL_MUST_CHECK;
/* Copy bytes that other threads may be writing. */
void sl_soft_racing_copy(void *dst, const void *src, size_t bytes);

/* chunk.c */
int sl_soft_present(struct sl_device *dev, void *addr, uint64_t bytes,
		    struct sl_frame *frame, unsigned flags);
int sl_soft_absent(struct sl_device *dev, void *addr, uint64_t bytes,
		   struct sl_frame *frame, enum sl_absent_how how);
int sl_soft_snapshot(struct sl_device *dev, const void *addr, uint64_t bytes,
		     struct sl_frame *frame);
int sl_soft_guard(struct sl_device *dev, void *addr, uint64_t bytes);
int sl_soft_unguard(struct sl_device *dev, void *addr, uint64_t bytes);

/* page.c */
int sl_soft_page_fill(struct sl_device *dev, void *addr, uint64_t bytes, const void *src,
		      int guard);
int sl_soft_page_drop(struct sl_device *dev, void *addr, uint64_t bytes);
/* Bitmap (one bit a page, SL_GRANULE_BYTES at most) of the pages that hold data. */
int sl_soft_pages_present(const struct soft *soft, const void *addr, uint64_t bytes,
			  uint64_t *map) SL_MUST_CHECK;

/* frame.c */
enum soft_take {
	SOFT_TAKE_FULL,
	SOFT_TAKE_CLEAR,
	SOFT_TAKE_HOLLOW,
	SOFT_TAKE_SCRATCH,
	SOFT_TAKE_COUNT
};
void sl_soft_frames_init(struct soft *soft, uint64_t limit_bytes);
void sl_soft_frames_fini(struct soft *soft);
/* The thread that clears ahead; needed only where memory is moved. */
int sl_soft_frames_start(struct soft *soft) SL_MUST_CHECK;
void sl_soft_frames_stop(struct soft *soft);
int sl_soft_frame_get(struct sl_device *dev, uint64_t bytes, struct sl_frame **out);
void sl_soft_frame_put(struct sl_device *dev, struct sl_frame *frame);
/*
 * Take a slot. FULL prefers memory, whatever is in it; CLEAR prefers memory that is all zeros
 * (frame.dirty_memory tells), then any; the others have none. -ENOMEM, -EINVAL (no chunk size).
 */
int sl_soft_frame_take(struct soft *soft, uint64_t bytes, enum soft_take what,
		       struct soft_frame **out) SL_MUST_CHECK;
/* Give a slot back to the list that its memory says; drops memory beyond the limit. */
void sl_soft_frame_give(struct soft *soft, struct soft_frame *frame);
/* Give an emptied slot back that held small pages. */
void sl_soft_frame_give_scratch(struct soft *soft, struct soft_frame *frame);
/* Whether the cache would keep another bytes. */
int sl_soft_frames_have_room(struct soft *soft, uint64_t bytes);

/* spare_maps.c */
/* Have the spare mappings. 0, or -ENOMEM: the process has too few left; nothing changed. */
int sl_soft_spare_maps_take(struct soft *soft) SL_MUST_CHECK;
/* Give them to the process. 1: it has SPARE_MAPS more; 0: there were none to give. */
int sl_soft_spare_maps_give(struct soft *soft);

/* touch.c */
int sl_soft_touch_start(struct soft *soft) SL_MUST_CHECK;
void sl_soft_touch_stop(struct soft *soft);

/* grid.c */
int sl_soft_pool_start(struct soft *soft) SL_MUST_CHECK;
void sl_soft_pool_stop(struct soft *soft);
int sl_soft_grid_run(struct sl_device *dev, sluice_kernel kernel, struct sluice_grid grid,
		     void *args, void *launch);
/* The calling thread as a worker in a block; NULL: it is none. Safe in signal handlers. */
struct soft_worker *sl_soft_worker_current(void);
/* End the grid of a block in which rc happened; text: why. Safe in signal handlers. */
void sl_soft_grid_fail(struct soft_grid *grid, int rc, const char *text);
/* Whose touch a message tells of. */
enum soft_toucher {
	SOFT_TOUCHER_HOST,
	SOFT_TOUCHER_KERNEL, /* in a block */
	SOFT_TOUCHER_DOOMED, /* in a block that grid_doom() has ended */
	SOFT_TOUCHER_COUNT
};
/*
 * The grid whose block the thread runs, kept until put; NULL: none. While the caller holds the lock
 * no thread enters or leaves a grid.
 */
struct soft_grid *sl_soft_grid_get_by_tid_locked(struct soft_pool *pool, pid_t tid,
						 enum soft_toucher *who)
	SL_REQUIRES(pool->lock);
/*
 * As grid_fail, and make the thread leave its block at the touch it waits on. Nothing if the thread
 * is in no block of the grid any more: then its touch was served after all.
 */
void sl_soft_grid_doom(struct soft *soft, struct soft_grid *grid, pid_t tid, int rc,
		       const char *text);
void sl_soft_grid_put(struct soft *soft, struct soft_grid *grid);

/* stream.c */
int sl_soft_stream_create(struct sl_device *dev, struct sl_stream **out);
void sl_soft_stream_destroy(struct sl_stream *stream);
void sl_soft_stream_submit(struct sl_stream *stream, struct sl_task *task);
const struct sl_task *sl_soft_stream_now(struct sl_stream *stream);
int sl_soft_stream_synchronize(struct sl_stream *stream);
int sl_soft_event_create(struct sl_device *dev, struct sl_event **out);
void sl_soft_event_destroy(struct sl_event *event);
int sl_soft_event_record(struct sl_stream *stream, struct sl_event *event);
int sl_soft_event_wait(struct sl_stream *stream, struct sl_event *event);
void sl_soft_event_synchronize(struct sl_event *event);
int sl_soft_event_query(struct sl_event *event);

#endif
