/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that is slower than the wrapped one. A request is held back, so it completes at the
 * earliest delay_ns after its submission. With a rate, reads pass one after the other over a
 * link of bytes_per_s. When the link is free, the waiting read of the highest class takes it for
 * bytes / bytes_per_s. Writes are only delayed.
 *
 * One thread holds requests back and hands them on. They complete on the engine's thread.
 * Blocking reads and writes sleep in the caller. They share the link by one atomic time, so they
 * stay safe in a signal handler.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/lock.h"
#include "store/engine.h"
#include "store/io_queue.h"

struct delay_store {
	struct sl_store store; /* first */
	struct sl_store *inner;
	uint64_t delay_ns;    /* set once */
	uint64_t bytes_per_s; /* set once; 0: no link */
	/* When the link is free again. Atomic: taken by compare and swap, in handlers
	 * as well. */
	_Atomic uint64_t free_ns;

	struct sl_mutex lock;
	struct sl_cond work;        /* lock: something queued, or stop */
	struct sl_io_queue waiting; /* lock: reads that wait for the link; start_ns: submitted */
	struct sl_io *held; /* lock: sorted by start_ns, here the time to hand on */
	int stop;           /* lock */
	pthread_t thread;
	int thread_runs; /* of wrap and close */
};

/* How long bytes keep the link busy. */
static uint64_t
link_ns(const struct delay_store *ds, uint64_t bytes)
{
	return (uint64_t)((unsigned __int128)bytes * 1000000000u / ds->bytes_per_s);
}

/* Take the link from the first moment at or after from_ns; returns when it is passed. */
static uint64_t
interval_take(struct delay_store *ds, uint64_t from_ns, uint64_t bytes)
{
	uint64_t busy_until = atomic_load(&ds->free_ns);
	uint64_t end;

	do {
		end = (busy_until > from_ns ? busy_until : from_ns) + link_ns(ds, bytes);
	} while (!atomic_compare_exchange_weak(&ds->free_ns, &busy_until, end));
	return end;
}

static void
sleep_until(uint64_t ns)
{
	struct timespec ts = {.tv_sec = (time_t)(ns / 1000000000u),
			      .tv_nsec = (int64_t)(ns % 1000000000u)};

	/* Bounded by the time itself: an absolute one does not start again after a
	 * signal. */
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* Here, since the attribute needs the parameter. */
static void held_insert_locked(struct delay_store *ds, struct sl_io *io)
	SL_REQUIRES(ds->lock);
static uint64_t link_serve_locked(struct delay_store *ds, uint64_t now_ns)
	SL_REQUIRES(ds->lock);

/* io->start_ns is the time to hand it on. */
static void
held_insert_locked(struct delay_store *ds, struct sl_io *io)
{
	struct sl_io **at = &ds->held;

	while (*at && (*at)->start_ns <= io->start_ns)
		at = &(*at)->next;
	io->next = *at;
	*at = io;
}

/* Give the link to waiting reads as long as it is free. Returns when to look again. */
static uint64_t
link_serve_locked(struct delay_store *ds, uint64_t now_ns)
{
	while (sl_io_queue_peek(&ds->waiting, 1)) {
		uint64_t free_ns = atomic_load(&ds->free_ns);
		struct sl_io *io;
		uint64_t passed_ns, due_ns;

		if (free_ns > now_ns)
			return free_ns;
		io = sl_io_queue_pop(&ds->waiting, 1);
		due_ns = io->start_ns + ds->delay_ns;
		passed_ns = interval_take(ds, io->start_ns, io->bytes);
		io->start_ns = due_ns > passed_ns ? due_ns : passed_ns;
		held_insert_locked(ds, io);
	}
	return UINT64_MAX;
}

static void *
delay_main(void *arg)
{
	struct delay_store *ds = arg;

	sl_mutex_lock(&ds->lock);
	for (;;) {
		uint64_t now_ns = sl_now_ns();
		uint64_t next_ns = link_serve_locked(ds, now_ns);
		struct sl_io *io = ds->held;

		if (io && io->start_ns <= now_ns) {
			ds->held = io->next;
			io->next = NULL;
			sl_mutex_unlock(&ds->lock);
			sl_store_submit(ds->inner, &io, 1);
			sl_mutex_lock(&ds->lock);
			continue;
		}
		if (io && io->start_ns < next_ns)
			next_ns = io->start_ns;
		if (next_ns != UINT64_MAX) {
			(void)sl_cond_wait_until(&ds->work, &ds->lock, next_ns);
		} else {
			if (ds->stop)
				break;
			sl_cond_wait(&ds->work, &ds->lock);
		}
	}
	sl_mutex_unlock(&ds->lock);
	return NULL;
}

static void
delay_submit(struct sl_store *store, struct sl_io **ios, size_t n)
{
	struct delay_store *ds = (struct delay_store *)store;
	uint64_t now_ns = sl_now_ns();

	sl_mutex_lock(&ds->lock);
	for (size_t i = 0; i < n; i++) {
		ios[i]->start_ns = now_ns;
		if (ios[i]->op == SL_IO_READ && ds->bytes_per_s) {
			sl_io_queue_push(&ds->waiting, ios[i]);
		} else {
			ios[i]->start_ns += ds->delay_ns;
			held_insert_locked(ds, ios[i]);
		}
	}
	sl_cond_signal(&ds->work);
	sl_mutex_unlock(&ds->lock);
}

static int
delay_read_now(struct sl_store *store, void *buf, uint64_t offset, size_t bytes, int *past_end)
{
	struct delay_store *ds = (struct delay_store *)store;
	uint64_t now_ns = sl_now_ns();
	uint64_t due_ns = now_ns + ds->delay_ns;

	if (ds->bytes_per_s) {
		uint64_t passed_ns = interval_take(ds, now_ns, bytes);

		if (passed_ns > due_ns)
			due_ns = passed_ns;
	}
	sleep_until(due_ns);
	return ds->inner->ops->read_now(ds->inner, buf, offset, bytes, past_end);
}

static int
delay_write_now(struct sl_store *store, const void *buf, uint64_t offset, size_t bytes)
{
	struct delay_store *ds = (struct delay_store *)store;

	sleep_until(sl_now_ns() + ds->delay_ns);
	return ds->inner->ops->write_now(ds->inner, buf, offset, bytes);
}

static int
delay_sync(struct sl_store *store)
{
	struct delay_store *ds = (struct delay_store *)store;

	return ds->inner->ops->sync(ds->inner);
}

static int
delay_extend(struct sl_store *store, uint64_t bytes)
{
	struct delay_store *ds = (struct delay_store *)store;
	int rc = ds->inner->ops->extend(ds->inner, bytes);

	if (!rc)
		__atomic_store_n(&store->size_bytes,
				 __atomic_load_n(&ds->inner->size_bytes, __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
	return rc;
}

static void
delay_trim(struct sl_store *store, uint64_t offset, uint64_t bytes)
{
	struct delay_store *ds = (struct delay_store *)store;

	ds->inner->ops->trim(ds->inner, offset, bytes);
}

static void
delay_close(struct sl_store *store)
{
	struct delay_store *ds = (struct delay_store *)store;

	if (ds->thread_runs) {
		sl_mutex_lock(&ds->lock);
		ds->stop = 1;
		sl_cond_signal(&ds->work);
		sl_mutex_unlock(&ds->lock);
		pthread_join(ds->thread, NULL);
	}
	sl_cond_fini(&ds->work);
	sl_mutex_fini(&ds->lock);
	ds->inner->ops->close(ds->inner);
	free(ds);
}

static const struct sl_store_ops delay_store_ops = {
	.submit = delay_submit,
	.read_now = delay_read_now,
	.write_now = delay_write_now,
	.sync = delay_sync,
	.extend = delay_extend,
	.trim = delay_trim,
	.close = delay_close,
};

struct sl_store *
sl_store_delay_inner(const struct sl_store *store)
{
	return store->ops == &delay_store_ops ? ((const struct delay_store *)store)->inner
					      : NULL;
}

int
sl_store_wrap_delay(struct sl_store *inner, uint64_t delay_ns, uint64_t bytes_per_s,
		    struct sl_store **out)
{
	struct delay_store *ds = sl_calloc(1, sizeof(*ds));
	int rc;

	if (!ds) {
		rc = sl_fail(-ENOMEM, "open: %s: out of memory", inner->name);
		inner->ops->close(inner);
		return rc;
	}
	ds->store = *inner;
	ds->store.ops = &delay_store_ops;
	ds->inner = inner;
	ds->delay_ns = delay_ns;
	ds->bytes_per_s = bytes_per_s;
	sl_mutex_init(&ds->lock, SL_RANK_STORE);
	sl_cond_init(&ds->work);
	rc = sl_store_thread_start(&ds->thread, "sluice-delay", delay_main, ds);
	if (rc) {
		delay_close(&ds->store);
		return rc;
	}
	ds->thread_runs = 1;
	*out = &ds->store;
	return 0;
}
