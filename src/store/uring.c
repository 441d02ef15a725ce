/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The io_uring engine. Callers put requests into a queue by class and wake one thread. That
 * thread owns the ring: it submits, waits, continues short transfers and calls done(). At most
 * `depth` requests are in flight.
 *
 * Callers do not submit themselves, for three reasons:
 * - The submitting task finishes the completion. It may be blocked on a fault that needs this
 *   very completion.
 * - The kernel cancels requests in its workers when that task exits.
 * - Building a direct request of 2 MiB costs its submitter 20 to 200 us. A caller here pays a
 *   short lock and, if the thread sleeps, one write to an eventfd.
 *
 * Room for DEMAND: PREFETCH and WRITEBACK together fill at most depth less 4 places (half below
 * 8). No new one starts while they have LOW_BYTES_MAX bytes in flight. A disk serves its
 * requests side by side. So a DEMAND that meets 64 MiB in flight waits as if behind them, though
 * 16 MiB keep the disk as busy.
 *
 * If the ring fails (the kernel refuses for seconds, or its descriptor was closed), the engine's
 * thread serves new requests by pread(2) and pwrite(2). That is slow, and reported once.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "store/engine.h"

#ifdef HAVE_LIBURING

#include <assert.h>
#include <liburing.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/lock.h"
#include "base/log.h"
#include "store/io_queue.h"

#define LOW_BYTES_MAX   (16u << 20) /* PREFETCH and WRITEBACK in flight ... */
#define LOW_COUNT_MIN   2u          /* ... unless they are fewer than this */
#define BATCH_MAX       8u /* requests taken and submitted at once, and at most ... */
#define BATCH_BYTES_MAX (2u << 20) /* ... so many bytes: then look for a DEMAND again */
#define SUBMIT_TRIES    1000u      /* of 1 ms each, then the ring is broken */
#define RING_POLL_NS    1000000
#define WAKE_TAG        UINT64_MAX /* user_data of the read of wake_fd; else a slot's index */

/* A request in flight. */
struct uring_slot {
	struct sl_io *io;
	struct sl_piece piece; /* in the kernel now */
	struct sl_progress progress;
};

struct uring_engine {
	struct sl_engine engine; /* first */
	unsigned depth;          /* set once */
	unsigned low_max;        /* set once */
	int wake_fd;             /* set once */
	pthread_t thread;
	int thread_runs; /* of create and destroy */

	struct sl_mutex lock;
	struct sl_cond started;   /* lock: setup_rc became 0 or negative */
	struct sl_io_queue queue; /* lock */
	int asleep;   /* lock: the thread waits in the kernel, and must be woken */
	int stop;     /* lock */
	int setup_rc; /* lock: 1 until the thread has made the ring, or not */

	/* The rest is the thread's own. */
	struct io_uring ring;
	struct uring_slot *slots; /* [depth] */
	unsigned *free_slots;     /* [depth], a stack */
	unsigned n_free;
	uint64_t *unsent; /* [depth + 1]: tags in the submission ring, oldest first */
	unsigned n_unsent;
	unsigned low_in_flight;
	uint64_t low_bytes;
	uint64_t wake_count; /* target of the read of wake_fd */
	int broken;          /* the ring cannot be entered any more */
};

static void
nap(void)
{
	struct timespec ts = {.tv_nsec = RING_POLL_NS};

	nanosleep(&ts, NULL);
}

static void
ring_break(struct uring_engine *e, int rc)
{
	e->broken = 1;
	sl_log_once("store.uring_broken", SL_ERROR, "store",
		    "io_uring stopped working (%s); going on with pread and "
		    "pwrite, which is slower",
		    sl_errno_name(rc));
}

/* ---- In flight --------------------------------------------------------- */

/* There is always room: no more than depth slots and the wake read can be unsent. */
static struct io_uring_sqe *
sqe_get(struct uring_engine *e, uint64_t tag)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&e->ring);

	assert(sqe && e->n_unsent <= e->depth);
	e->unsent[e->n_unsent++] = tag;
	return sqe;
}

static void
wake_arm(struct uring_engine *e)
{
	struct io_uring_sqe *sqe;

	if (e->broken)
		return;
	sqe = sqe_get(e, WAKE_TAG);
	io_uring_prep_read(sqe, e->wake_fd, &e->wake_count, sizeof(e->wake_count), 0);
	io_uring_sqe_set_data64(sqe, WAKE_TAG);
}

static void
slot_send(struct uring_engine *e, struct uring_slot *slot)
{
	struct sl_io *io = slot->io;
	struct sl_piece *piece = &slot->piece;
	uint64_t tag = (uint64_t)(slot - e->slots);
	struct io_uring_sqe *sqe = sqe_get(e, tag);

	sl_disk_file_piece(sl_io_file(io), io->op, io->buf, io->offset, io->bytes,
			   &slot->progress, piece);
	if (io->op == SL_IO_READ)
		io_uring_prep_read(sqe, piece->fd, piece->buf, (unsigned)piece->bytes,
				   piece->offset);
	else
		io_uring_prep_write(sqe, piece->fd, piece->buf, (unsigned)piece->bytes,
				    piece->offset);
	io_uring_sqe_set_data64(sqe, tag);
}

/* The request is over; its slot is free. The caller calls done(). */
static struct sl_io *
slot_end(struct uring_engine *e, struct uring_slot *slot, int rc)
{
	struct sl_io *io = slot->io;

	io->result = rc;
	io->past_end = slot->progress.past_end;
	io->moved_bytes = slot->progress.moved_bytes;
	if (sl_io_is_low(io)) {
		e->low_in_flight--;
		e->low_bytes -= io->bytes;
	}
	slot->io = NULL;
	e->free_slots[e->n_free++] = (unsigned)(slot - e->slots);
	return io;
}

/* Serve a request in this thread; the ring is broken. */
static struct sl_io *
slot_serve(struct uring_engine *e, struct uring_slot *slot)
{
	struct sl_io *io = slot->io;

	return slot_end(e, slot,
			sl_disk_file_move(sl_io_file(io), io->op, io->buf, io->offset,
					  io->bytes, &slot->progress.past_end));
}

/* One completion. The request when it is over. */
static struct sl_io *
slot_completed(struct uring_engine *e, struct uring_slot *slot, int res)
{
	struct sl_io *io = slot->io;
	struct sl_disk_file *file = sl_io_file(io);
	int rc = sl_disk_file_advance(file, io->op, &slot->piece, res, io->bytes,
				      &slot->progress);

	if (rc <= 0)
		return slot_end(e, slot, rc);
	if (slot->piece.direct && !atomic_load(&file->direct_on)) {
		__atomic_store_n(&io->store->direct, 0, __ATOMIC_RELAXED);
		sl_disk_file_log_fallback(file);
	}
	if (slot->progress.retries > 1)
		nap(); /* refused again: memory is short; not a busy loop */
	if (e->broken)
		return slot_serve(e, slot);
	slot_send(e, slot);
	return NULL;
}

/* ---- The thread -------------------------------------------------------- */

static void
io_list_add(struct sl_io ***tail, struct sl_io *io)
{
	io->next = NULL;
	**tail = io;
	*tail = &io->next;
}

/* Take what the kernel has completed; requests that are over go to the list. */
static void
completions_take(struct uring_engine *e, struct sl_io ***over)
{
	struct io_uring_cqe *cqe;

	/* Bounded: completions come only from what this thread submitted. */
	while (!io_uring_peek_cqe(&e->ring, &cqe)) {
		uint64_t tag = cqe->user_data;
		int res = cqe->res;
		struct sl_io *io;

		io_uring_cqe_seen(&e->ring, cqe);
		if (tag == WAKE_TAG) {
			wake_arm(e);
			continue;
		}
		io = slot_completed(e, &e->slots[tag], res);
		if (io)
			io_list_add(over, io);
	}
}

/* Hand the prepared entries to the kernel. */
static void
entries_submit(struct uring_engine *e, struct sl_io ***over)
{
	unsigned tries = 0;

	while (e->n_unsent > 0 && !e->broken) {
		int n = io_uring_submit(&e->ring);

		if (n > 0) {
			assert((unsigned)n <= e->n_unsent);
			e->n_unsent -= (unsigned)n;
			memmove(e->unsent, e->unsent + n, e->n_unsent * sizeof(*e->unsent));
			tries = 0;
		} else if (n == 0 || n == -EINTR || n == -EAGAIN || n == -EBUSY ||
			   n == -ENOMEM) {
			if (++tries == SUBMIT_TRIES)
				ring_break(e, n);
			else
				nap();
		} else {
			ring_break(e, n);
		}
	}
	for (unsigned i = 0; i < e->n_unsent; i++) {
		if (e->unsent[i] != WAKE_TAG)
			io_list_add(over, slot_serve(e, &e->slots[e->unsent[i]]));
	}
	e->n_unsent = 0;
}

static int
low_is_allowed(const struct uring_engine *e)
{
	return e->low_in_flight < e->low_max &&
	       (e->low_in_flight < LOW_COUNT_MIN || e->low_bytes < LOW_BYTES_MAX);
}

/* Take one batch from the queue into slots. True when any was taken. */
static int
batch_start(struct uring_engine *e, struct sl_io ***over)
{
	struct uring_slot *batch[BATCH_MAX];
	uint64_t bytes = 0;
	unsigned n = 0;

	sl_mutex_lock(&e->lock);
	while (n < BATCH_MAX && bytes < BATCH_BYTES_MAX && e->n_free > 0) {
		struct sl_io *io = sl_io_queue_pop(&e->queue, low_is_allowed(e));
		struct uring_slot *slot;

		if (!io)
			break;
		if (sl_io_is_low(io)) {
			e->low_in_flight++;
			e->low_bytes += io->bytes;
		}
		slot = &e->slots[e->free_slots[--e->n_free]];
		*slot = (struct uring_slot){.io = io};
		batch[n++] = slot;
		bytes += io->bytes;
	}
	sl_mutex_unlock(&e->lock);

	for (unsigned i = 0; i < n; i++) {
		if (batch[i]->io->bytes == 0)
			io_list_add(over, slot_end(e, batch[i], 0));
		else if (e->broken)
			io_list_add(over, slot_serve(e, batch[i]));
		else
			slot_send(e, batch[i]);
	}
	return n > 0;
}

static void
list_finish(struct sl_io *io)
{
	while (io) {
		struct sl_io *next = io->next; /* done() may free it */

		io->next = NULL;
		io->done(io);
		io = next;
	}
}

/* Wait for a completion or a wake. */
static void
ring_wait(struct uring_engine *e)
{
	struct io_uring_cqe *cqe;
	int rc;

	if (!e->broken) {
		rc = io_uring_wait_cqe(&e->ring, &cqe);
		if (!rc || rc == -EINTR || rc == -EAGAIN || rc == -EBUSY)
			return;
		ring_break(e, rc);
	}
	nap(); /* what is in flight still completes into the ring's memory */
}

/* Make the ring here: it belongs to the thread that makes it. */
static int
ring_create(struct uring_engine *e)
{
	/* The newest kernels' way first: completions are finished when this thread asks
	 * for them, without interrupting it, and a flag in the ring says when there are
	 * some. */
	static const unsigned ways[] = {
#ifdef IORING_SETUP_DEFER_TASKRUN
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
			IORING_SETUP_TASKRUN_FLAG,
#endif
#ifdef IORING_SETUP_COOP_TASKRUN
		IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
#endif
		0,
	};
	int rc = -EINVAL;

	for (size_t i = 0; rc == -EINVAL && i < sizeof(ways) / sizeof(ways[0]); i++)
		rc = io_uring_queue_init(e->depth + 1, &e->ring, ways[i]);
	return rc;
}

static void *
ring_main(void *arg)
{
	struct uring_engine *e = arg;
	int rc = ring_create(e);

	sl_mutex_lock(&e->lock);
	e->setup_rc = rc;
	sl_cond_signal(&e->started);
	sl_mutex_unlock(&e->lock);
	if (rc)
		return NULL;

	wake_arm(e);
	for (;;) {
		struct sl_io *over = NULL;
		struct sl_io **tail = &over;
		int sleep, end;

		/* Keep the disk busy first, then tell the callers. */
		completions_take(e, &tail);
		while (batch_start(e, &tail))
			entries_submit(e, &tail);
		entries_submit(e, &tail);
		if (over) {
			list_finish(over);
			continue;
		}

		sl_mutex_lock(&e->lock);
		sleep = !e->n_free || !sl_io_queue_peek(&e->queue, low_is_allowed(e));
		end = e->stop && e->n_free == e->depth && sleep;
		e->asleep = sleep;
		sl_mutex_unlock(&e->lock);
		if (end)
			break;
		if (sleep) {
			ring_wait(e);
			sl_mutex_lock(&e->lock);
			e->asleep = 0;
			sl_mutex_unlock(&e->lock);
		}
	}
	io_uring_queue_exit(&e->ring);
	return NULL;
}

/* ---- The callers' side ------------------------------------------------- */

static void
thread_wake(struct uring_engine *e)
{
	const uint64_t one = 1;

	/* Cannot be full (2^64 - 2 wakes) and does not block; EINTR cannot happen
	 * then. */
	(void)!write(e->wake_fd, &one, sizeof(one));
}

static void
uring_engine_submit(struct sl_engine *engine, struct sl_io **ios, size_t n)
{
	struct uring_engine *e = (struct uring_engine *)engine;
	int wake;

	sl_mutex_lock(&e->lock);
	for (size_t i = 0; i < n; i++)
		sl_io_queue_push(&e->queue, ios[i]);
	wake = e->asleep;
	e->asleep = 0;
	sl_mutex_unlock(&e->lock);
	if (wake)
		thread_wake(e);
}

static void
uring_engine_destroy(struct sl_engine *engine)
{
	struct uring_engine *e = (struct uring_engine *)engine;

	if (e->thread_runs) {
		sl_mutex_lock(&e->lock);
		e->stop = 1;
		sl_mutex_unlock(&e->lock);
		thread_wake(e);
		pthread_join(e->thread, NULL);
	}
	if (e->wake_fd >= 0)
		close(e->wake_fd);
	sl_cond_fini(&e->started);
	sl_mutex_fini(&e->lock);
	free(e->slots);
	free(e->free_slots);
	free(e->unsent);
	free(e);
}

static const struct sl_engine_ops uring_engine_ops = {
	.kind = "uring",
	.submit = uring_engine_submit,
	.destroy = uring_engine_destroy,
};

/* Why the kernel gives no ring, in words. */
static int
setup_fail(int rc)
{
	switch (-rc) {
	case EPERM:
	case EACCES:
		return sl_fail(-ENOTSUP,
			       "engine: io_uring is forbidden here (%s): see sysctl "
			       "kernel.io_uring_disabled, or the container's seccomp "
			       "profile; the "
			       "file engine works without it",
			       sl_errno_name(rc));
	case ENOSYS:
		return sl_fail(-ENOTSUP, "engine: no io_uring (ENOSYS): this kernel has "
					 "none, or a container's seccomp profile hides "
					 "it; use the file engine");
	case ENOMEM:
		return sl_fail(-ENOMEM, "engine: io_uring_setup: out of memory, or "
					"`ulimit -l` is too small "
					"for its rings on this kernel");
	}
	return sl_fail(-ENOTSUP, "engine: io_uring_setup: %s (%s); use the file engine",
		       strerrordesc_np(-rc), sl_errno_name(rc));
}

int
sl_engine_uring_create(unsigned depth, struct sl_engine **out)
{
	struct uring_engine *e = sl_calloc(1, sizeof(*e));
	unsigned reserve = depth >= 8 ? 4 : depth / 2;
	int rc;

	if (!e)
		return sl_fail(-ENOMEM, "engine: uring: out of memory");
	e->engine.ops = &uring_engine_ops;
	e->depth = depth;
	e->low_max = depth - reserve;
	e->setup_rc = 1;
	sl_mutex_init(&e->lock, SL_RANK_STORE);
	sl_cond_init(&e->started);
	e->wake_fd = eventfd(0, EFD_CLOEXEC);
	e->slots = sl_calloc(depth, sizeof(*e->slots));
	e->free_slots = sl_calloc(depth, sizeof(*e->free_slots));
	e->unsent = sl_calloc(depth + 1, sizeof(*e->unsent));
	if (e->wake_fd < 0) {
		rc = sl_fail(-errno, "engine: eventfd: %s (%s)", strerrordesc_np(errno),
			     sl_errno_name(errno));
		goto fail;
	}
	if (!e->slots || !e->free_slots || !e->unsent) {
		rc = sl_fail(-ENOMEM, "engine: uring: out of memory");
		goto fail;
	}
	while (e->n_free < depth) {
		e->free_slots[e->n_free] = e->n_free;
		e->n_free++;
	}

	rc = sl_store_thread_start(&e->thread, "sluice-uring", ring_main, e);
	if (rc)
		goto fail;
	e->thread_runs = 1;
	sl_mutex_lock(&e->lock);
	while (e->setup_rc > 0)
		sl_cond_wait(&e->started, &e->lock);
	rc = e->setup_rc;
	sl_mutex_unlock(&e->lock);
	if (rc) {
		rc = setup_fail(rc);
		goto fail;
	}
	*out = &e->engine;
	return 0;

fail:
	uring_engine_destroy(&e->engine);
	return rc;
}

#else

int
sl_engine_uring_create(unsigned depth, struct sl_engine **out)
{
	(void)depth;
	(void)out;
	return sl_fail(-ENOTSUP, "engine: built without liburing; use the file engine, "
				 "or install liburing and "
				 "build again");
}

#endif
