/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the engines behind store.h. An engine only moves requests between a queue and a file
 * (submit). Opening, naming, blocking I/O, sync and extend are the same for all, in engine.c and
 * disk_file.c. The private functions for spill.c are here, too.
 *
 * While an engine has a request, its io->store is the file's own store. Wrappers hand requests
 * down with sl_store_submit(), which sets it. At done() it still names the innermost store.
 */
#ifndef SL_STORE_ENGINE_H
#define SL_STORE_ENGINE_H

#include <pthread.h>

#include "store/disk_file.h"
#include "store/store.h"

struct sl_engine;

struct sl_engine_ops {
	const char *kind;
	/* As in struct sl_store_ops. io->store is a struct sl_file_store. */
	void (*submit)(struct sl_engine *engine, struct sl_io **ios, size_t n);
	/* Stop and join the threads, free. Nothing is queued or in flight. */
	void (*destroy)(struct sl_engine *engine);
	/* An engine whose stores are no files (a simulated one): instead of a file in dir, which
	 * is nobody's business then. NULL: stores are files. */
	int (*open_temporary)(struct sl_engine *engine, const char *dir,
			      struct sl_store **out);
};

struct sl_engine {
	const struct sl_engine_ops *ops;
};

struct sl_file_store {
	struct sl_store store; /* first */
	struct sl_engine *engine;
	struct sl_disk_file file;
};

/* The file behind a request that an engine has. */
static inline struct sl_disk_file *
sl_io_file(const struct sl_io *io)
{
	return &((struct sl_file_store *)io->store)->file;
}

#define SL_ENGINE_DEPTH_MAX        1024u
#define SL_ENGINE_FILE_THREADS_MAX 8u

int sl_engine_uring_create(unsigned depth, struct sl_engine **out) SL_MUST_CHECK;
int sl_engine_file_create(unsigned depth, struct sl_engine **out) SL_MUST_CHECK;

/* Start a thread of an engine or a wrapper: all signals blocked, named. Asks the fault
 * point "thread.create". -errno with a text. */
int sl_store_thread_start(pthread_t *thread, const char *name, void *(*main)(void *),
			  void *arg) SL_MUST_CHECK;

/* The store that a wrapper wraps; NULL when it is none. */
struct sl_store *sl_store_fault_inner(const struct sl_store *store);
struct sl_store *sl_store_delay_inner(const struct sl_store *store);
struct sl_store *sl_store_codec_inner(const struct sl_store *store);

/* Allocate the blocks of a range of a temporary file, through any wrappers (see
 * sl_disk_file_allocate()). A store that is no file of ours: 0, nothing done. Blocks. */
int sl_store_allocate(struct sl_store *store, uint64_t offset, uint64_t bytes) SL_MUST_CHECK;

#endif
