/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store that fails on demand. Each call asks its fault point (store.read, store.write,
 * store.sync, store.extend). It goes on to the wrapped store only if the answer is 0. A failed
 * request has moved no byte.
 *
 * A failed request must complete on another thread than its submitter's, as real ones do. So the
 * wrapper has one thread that does nothing else. base/fault_point.h chooses the failing call.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/fault_point.h"
#include "base/lock.h"
#include "store/engine.h"

struct fault_store {
	struct sl_store store; /* first */
	struct sl_store *inner;
	struct sl_mutex lock;
	struct sl_cond work;  /* lock: failed, or stop */
	struct sl_io *failed; /* lock: to complete, oldest first */
	struct sl_io **tail;  /* lock */
	int stop;             /* lock */
	pthread_t thread;
	int thread_runs; /* of wrap and close */
};

static const char *
op_point(enum sl_io_op op)
{
	return op == SL_IO_READ ? "store.read" : "store.write";
}

static void *
fault_main(void *arg)
{
	struct fault_store *fs = arg;

	sl_mutex_lock(&fs->lock);
	for (;;) {
		struct sl_io *io = fs->failed;

		if (!io) {
			if (fs->stop)
				break;
			sl_cond_wait(&fs->work, &fs->lock);
			continue;
		}
		fs->failed = io->next;
		if (!fs->failed)
			fs->tail = &fs->failed;
		sl_mutex_unlock(&fs->lock);
		io->next = NULL;
		io->done(io);
		sl_mutex_lock(&fs->lock);
	}
	sl_mutex_unlock(&fs->lock);
	return NULL;
}

static void
fault_submit(struct sl_store *store, struct sl_io **ios, size_t n)
{
	struct fault_store *fs = (struct fault_store *)store;

	for (size_t i = 0; i < n; i++) {
		int rc = sl_fault_point(op_point(ios[i]->op));

		if (!rc) {
			sl_store_submit(fs->inner, &ios[i], 1);
			continue;
		}
		ios[i]->result = rc;
		ios[i]->past_end = 0;
		ios[i]->moved_bytes = 0;
		ios[i]->next = NULL;
		sl_mutex_lock(&fs->lock);
		*fs->tail = ios[i];
		fs->tail = &ios[i]->next;
		sl_cond_signal(&fs->work);
		sl_mutex_unlock(&fs->lock);
	}
}

static int
fault_read_now(struct sl_store *store, void *buf, uint64_t offset, size_t bytes, int *past_end)
{
	struct fault_store *fs = (struct fault_store *)store;
	int rc = sl_fault_point("store.read");

	if (rc) {
		if (past_end)
			*past_end = 0;
		return sl_fail_in(rc, "read: %s: offset %llu", store->name,
				  (unsigned long long)offset);
	}
	return fs->inner->ops->read_now(fs->inner, buf, offset, bytes, past_end);
}

static int
fault_write_now(struct sl_store *store, const void *buf, uint64_t offset, size_t bytes)
{
	struct fault_store *fs = (struct fault_store *)store;
	int rc = sl_fault_point("store.write");

	if (rc)
		return sl_fail_in(rc, "write: %s: offset %llu", store->name,
				  (unsigned long long)offset);
	return fs->inner->ops->write_now(fs->inner, buf, offset, bytes);
}

static int
fault_sync(struct sl_store *store)
{
	struct fault_store *fs = (struct fault_store *)store;
	int rc = sl_fault_point("store.sync");

	return rc ? sl_fail_in(rc, "sync: %s", store->name)
		  : fs->inner->ops->sync(fs->inner);
}

static int
fault_extend(struct sl_store *store, uint64_t bytes)
{
	struct fault_store *fs = (struct fault_store *)store;
	int rc = sl_fault_point("store.extend");

	if (rc)
		return sl_fail_in(rc, "extend: %s: to %llu bytes", store->name,
				  (unsigned long long)bytes);
	rc = fs->inner->ops->extend(fs->inner, bytes);
	if (!rc)
		__atomic_store_n(&store->size_bytes,
				 __atomic_load_n(&fs->inner->size_bytes, __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
	return rc;
}

static void
fault_trim(struct sl_store *store, uint64_t offset, uint64_t bytes)
{
	struct fault_store *fs = (struct fault_store *)store;

	fs->inner->ops->trim(fs->inner, offset, bytes);
}

static void
fault_close(struct sl_store *store)
{
	struct fault_store *fs = (struct fault_store *)store;

	if (fs->thread_runs) {
		sl_mutex_lock(&fs->lock);
		fs->stop = 1;
		sl_cond_signal(&fs->work);
		sl_mutex_unlock(&fs->lock);
		pthread_join(fs->thread, NULL);
	}
	sl_cond_fini(&fs->work);
	sl_mutex_fini(&fs->lock);
	fs->inner->ops->close(fs->inner);
	free(fs);
}

static const struct sl_store_ops fault_store_ops = {
	.submit = fault_submit,
	.read_now = fault_read_now,
	.write_now = fault_write_now,
	.sync = fault_sync,
	.extend = fault_extend,
	.trim = fault_trim,
	.close = fault_close,
};

struct sl_store *
sl_store_fault_inner(const struct sl_store *store)
{
	return store->ops == &fault_store_ops ? ((const struct fault_store *)store)->inner
					      : NULL;
}

int
sl_store_wrap_fault(struct sl_store *inner, struct sl_store **out)
{
	struct fault_store *fs = sl_calloc(1, sizeof(*fs));
	int rc;

	if (!fs) {
		rc = sl_fail(-ENOMEM, "open: %s: out of memory", inner->name);
		inner->ops->close(inner);
		return rc;
	}
	fs->store = *inner;
	fs->store.ops = &fault_store_ops;
	fs->inner = inner;
	fs->tail = &fs->failed;
	sl_mutex_init(&fs->lock, SL_RANK_STORE);
	sl_cond_init(&fs->work);
	rc = sl_store_thread_start(&fs->thread, "sluice-fault", fault_main, fs);
	if (rc) {
		fault_close(&fs->store);
		return rc;
	}
	fs->thread_runs = 1;
	*out = &fs->store;
	return 0;
}
