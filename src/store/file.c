/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plain engine: a few threads take requests from one queue by class. They serve each with
 * pread(2) or pwrite(2). It is slower than io_uring for small requests and close to it for large
 * ones. It works on every Linux.
 *
 * If there are two threads or more, one never takes a PREFETCH or WRITEBACK. So a DEMAND waits
 * at most for another DEMAND. done() runs on these threads with no lock held. disk_file.c cuts
 * requests into pieces and handles direct I/O and its tails.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/fault_point.h"
#include "base/lock.h"
#include "store/engine.h"
#include "store/io_queue.h"

struct file_engine {
	struct sl_engine engine; /* first */
	struct sl_mutex lock;
	struct sl_cond work;      /* lock: something queued, room for low ones, or stop */
	struct sl_io_queue queue; /* lock */
	unsigned low_running;     /* lock */
	unsigned low_max;         /* set once */
	int stop;                 /* lock */
	unsigned n_threads;       /* started; of create and destroy */
	pthread_t threads[SL_ENGINE_FILE_THREADS_MAX];
};

static void
io_serve(struct sl_io *io)
{
	struct sl_disk_file *file = sl_io_file(io);
	int was_direct = atomic_load(&file->direct_on);

	io->result = sl_disk_file_move(file, io->op, io->buf, io->offset, io->bytes,
				       &io->past_end);
	if (was_direct && !atomic_load(&file->direct_on)) {
		__atomic_store_n(&io->store->direct, 0, __ATOMIC_RELAXED);
		sl_disk_file_log_fallback(file);
	}
	io->done(io);
}

static void *
worker_main(void *arg)
{
	struct file_engine *e = arg;

	sl_mutex_lock(&e->lock);
	for (;;) {
		struct sl_io *io = sl_io_queue_pop(&e->queue, e->low_running < e->low_max);
		unsigned low;

		if (!io) {
			if (e->stop)
				break;
			sl_cond_wait(&e->work, &e->lock);
			continue;
		}
		low = (unsigned)sl_io_is_low(io);
		e->low_running += low;
		sl_mutex_unlock(&e->lock);

		io_serve(io);

		sl_mutex_lock(&e->lock);
		e->low_running -= low;
		if (low && sl_io_queue_peek(&e->queue, 1))
			sl_cond_signal(&e->work); /* what was not allowed may be now */
	}
	sl_mutex_unlock(&e->lock);
	return NULL;
}

static void
file_engine_submit(struct sl_engine *engine, struct sl_io **ios, size_t n)
{
	struct file_engine *e = (struct file_engine *)engine;

	sl_mutex_lock(&e->lock);
	for (size_t i = 0; i < n; i++) {
		sl_io_queue_push(&e->queue, ios[i]);
		sl_cond_signal(&e->work);
	}
	sl_mutex_unlock(&e->lock);
}

static void
file_engine_destroy(struct sl_engine *engine)
{
	struct file_engine *e = (struct file_engine *)engine;

	sl_mutex_lock(&e->lock);
	e->stop = 1;
	sl_cond_broadcast(&e->work);
	sl_mutex_unlock(&e->lock);
	for (unsigned i = 0; i < e->n_threads; i++)
		pthread_join(e->threads[i], NULL);
	sl_cond_fini(&e->work);
	sl_mutex_fini(&e->lock);
	free(e);
}

static const struct sl_engine_ops file_engine_ops = {
	.kind = "file",
	.submit = file_engine_submit,
	.destroy = file_engine_destroy,
};

int
sl_engine_file_create(unsigned depth, struct sl_engine **out)
{
	unsigned n = depth < SL_ENGINE_FILE_THREADS_MAX ? depth : SL_ENGINE_FILE_THREADS_MAX;
	struct file_engine *e = sl_calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return sl_fail(-ENOMEM, "engine: file: out of memory");
	e->engine.ops = &file_engine_ops;
	e->low_max = n > 1 ? n - 1 : 1;
	sl_mutex_init(&e->lock, SL_RANK_STORE);
	sl_cond_init(&e->work);
	while (e->n_threads < n) {
		rc = sl_store_thread_start(&e->threads[e->n_threads], "sluice-file",
					   worker_main, e);
		if (rc)
			goto fail;
		e->n_threads++;
	}
	*out = &e->engine;
	return 0;

fail:
	file_engine_destroy(&e->engine);
	return rc;
}
