/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The front of the store tier. It picks an engine by name and opens files as stores. It answers
 * the calls that need no engine: blocking reads and writes, sync, extend, trim. It makes the
 * texts of failed requests. Requests go to the engine's own file (uring.c, file.c). disk_file.c
 * has files and their pieces.
 *
 * The environment can ask for two wrappers, innermost first: SLUICE_STORE_DELAY
 * (nanoseconds[:bytes per second]) and SLUICE_FAULT. SLUICE_FAULT may be empty;
 * sl_fault_point_set() can arm the points later. Both are read when a store is opened.
 *
 * No threads of its own, no locks.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault_point.h"
#include "base/size.h"
#include "base/thread.h"
#include "store/engine.h"
#include "store/io_error.h"

/* ---- Engines ----------------------------------------------------------- */

int
sl_engine_create(const char *kind, unsigned depth, struct sl_engine **out)
{
	if (depth < 1 || depth > SL_ENGINE_DEPTH_MAX)
		return sl_fail(-EINVAL, "engine: depth %u; give 1 to %u", depth,
			       SL_ENGINE_DEPTH_MAX);
	if (!strcmp(kind, "uring"))
		return sl_engine_uring_create(depth, out);
	if (!strcmp(kind, "file"))
		return sl_engine_file_create(depth, out);
	return sl_fail(-EINVAL, "engine: \"%.32s\" is none; give uring or file", kind);
}

void
sl_engine_destroy(struct sl_engine *engine)
{
	if (engine)
		engine->ops->destroy(engine);
}

const char *
sl_engine_kind(const struct sl_engine *engine)
{
	return engine->ops->kind;
}

int
sl_store_thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *arg)
{
	int rc = sl_thread_begin(thread, name, main, arg);

	return rc ? sl_fail(rc, "store: starting thread %s: %s (%s); check `ulimit -u` and memory",
			    name, strerrordesc_np(-rc), sl_errno_name(rc))
		  : 0;
}

/* ---- Texts ------------------------------------------------------------- */

int
sl_io_fail_at(enum sl_io_op op, const char *name, uint64_t offset, uint64_t bytes, int rc,
	      int past_end)
{
	const char *verb = op == SL_IO_READ ? "read" : "write";
	const char *hint = "";

	if (past_end)
		return sl_fail(rc,
			       "%s: %s: offset %llu, %llu bytes: %s: the file shrank and "
			       "ends before "
			       "the range; restore its length or map it again",
			       verb, name, (unsigned long long)offset,
			       (unsigned long long)bytes, sl_errno_name(rc));
	switch (-rc) {
	case ENOSPC:
	case EDQUOT:
		hint = "; free space on its disk, then try again";
		break;
	case EFBIG:
		hint = "; raise `ulimit -f`";
		break;
	case EIO:
		hint = "; check the disk and the kernel log";
		break;
	}
	return sl_fail(rc, "%s: %s: offset %llu, %llu bytes: %s (%s)%s", verb, name,
		       (unsigned long long)offset, (unsigned long long)bytes,
		       sl_errno_name(rc),
		       strerrordesc_np(-rc) ? strerrordesc_np(-rc) : "unknown error", hint);
}

int
sl_io_fail(const struct sl_io *io)
{
	if (!io->result)
		return 0;
	return sl_io_fail_at(io->op, io->store->name, io->offset, io->bytes, io->result,
			     io->past_end);
}

/* ---- Stores that are files --------------------------------------------- */

static struct sl_file_store *
file_store(struct sl_store *store)
{
	return (struct sl_file_store *)store;
}

static void
file_store_submit(struct sl_store *store, struct sl_io **ios, size_t n)
{
	struct sl_engine *engine = file_store(store)->engine;

	for (size_t i = 0; i < n; i++) {
		assert(ios[i]->op < SL_IO_OP_COUNT);
		assert(ios[i]->offset % SL_STORE_ALIGN == 0);
		assert((uintptr_t)ios[i]->buf % SL_STORE_ALIGN == 0);
		ios[i]->moved_bytes = 0;
		ios[i]->past_end = 0;
	}
	engine->ops->submit(engine, ios, n);
}

static int
file_store_now(struct sl_store *store, enum sl_io_op op, void *buf, uint64_t offset,
	       size_t bytes, int *past_end)
{
	int ended = 0;
	int rc = sl_disk_file_move(&file_store(store)->file, op, buf, offset, bytes, &ended);

	if (past_end)
		*past_end = ended;
	return rc ? sl_io_fail_at(op, store->name, offset, bytes, rc, ended) : 0;
}

static int
file_store_read_now(struct sl_store *store, void *buf, uint64_t offset, size_t bytes,
		    int *past_end)
{
	return file_store_now(store, SL_IO_READ, buf, offset, bytes, past_end);
}

static int
file_store_write_now(struct sl_store *store, const void *buf, uint64_t offset, size_t bytes)
{
	return file_store_now(store, SL_IO_WRITE, (void *)(uintptr_t)buf, offset, bytes,
			      NULL);
}

static int
file_store_sync(struct sl_store *store)
{
	return sl_disk_file_sync(&file_store(store)->file);
}

static int
file_store_extend(struct sl_store *store, uint64_t bytes)
{
	uint64_t seen = __atomic_load_n(&store->size_bytes, __ATOMIC_RELAXED);
	int rc = sl_disk_file_extend(&file_store(store)->file, bytes);

	if (rc)
		return rc;
	while (seen < bytes &&
	       !__atomic_compare_exchange_n(&store->size_bytes, &seen, bytes, 0,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return 0;
}

static void
file_store_trim(struct sl_store *store, uint64_t offset, uint64_t bytes)
{
	sl_disk_file_punch(&file_store(store)->file, offset, bytes);
}

static void
file_store_close(struct sl_store *store)
{
	sl_disk_file_close(&file_store(store)->file);
	free(store);
}

static const struct sl_store_ops file_store_ops = {
	.submit = file_store_submit,
	.read_now = file_store_read_now,
	.write_now = file_store_write_now,
	.sync = file_store_sync,
	.extend = file_store_extend,
	.trim = file_store_trim,
	.close = file_store_close,
};

int
sl_store_allocate(struct sl_store *store, uint64_t offset, uint64_t bytes)
{
	struct sl_store *inner;

	while ((inner = sl_store_fault_inner(store)) ||
	       (inner = sl_store_delay_inner(store)) ||
	       (inner = sl_store_codec_inner(store)))
		store = inner;
	if (store->ops != &file_store_ops)
		return 0;
	return sl_disk_file_allocate(&file_store(store)->file, offset, bytes);
}

/* ---- Opening ----------------------------------------------------------- */

/* Put on the wrappers that the environment asks for. On failure the store is closed. */
static int
environment_wrap(struct sl_store *store, struct sl_store **out)
{
	const char *delay = getenv("SLUICE_STORE_DELAY");
	uint64_t delay_ns, bytes_per_s;
	int rc;

	if (delay && *delay) {
		rc = sl_delay_parse(delay, &delay_ns, &bytes_per_s);
		if (rc) {
			sl_fail(rc,
				"open: SLUICE_STORE_DELAY=%.64s; write "
				"nanoseconds[:bytes per "
				"second], as in 100000:2G",
				delay);
			store->ops->close(store);
			return rc;
		}
		rc = sl_store_wrap_delay(store, delay_ns, bytes_per_s, &store);
		if (rc)
			return rc;
	}
	if (getenv("SLUICE_FAULT")) {
		rc = sl_store_wrap_fault(store, &store);
		if (rc)
			return rc;
	}
	*out = store;
	return 0;
}

/* Texts are for people, who tell paths apart by their ends. */
static void
name_set(char *name, size_t name_bytes, const char *path, const char *suffix)
{
	size_t suffix_bytes = strlen(suffix) + 1;
	size_t room = name_bytes - suffix_bytes;
	size_t length = strlen(path);

	if (length > room) {
		memcpy(name, "...", 3);
		memcpy(name + 3, path + length - (room - 3), room - 3);
		length = room;
	} else {
		memcpy(name, path, length);
	}
	memcpy(name + length, suffix, suffix_bytes);
}

/* temporary: path is a directory, and the file an unlinked one in it. */
static int
store_open(struct sl_engine *engine, const char *path, int flags, int temporary,
	   struct sl_store **out)
{
	struct sl_file_store *fs;
	int rc = sl_fault_point("store.open");

	if (rc)
		return sl_fail_in(rc, "open: %s", path);
	fs = sl_calloc(1, sizeof(*fs));
	if (!fs)
		return sl_fail(-ENOMEM, "open: %s: out of memory", path);
	fs->store.ops = &file_store_ops;
	fs->engine = engine;
	name_set(fs->store.name, sizeof(fs->store.name), path,
		 temporary ? "/(unlinked)" : "");
	rc = temporary ? sl_disk_file_open_temporary(&fs->file, path, fs->store.name)
		       : sl_disk_file_open(&fs->file, path, flags, fs->store.name);
	if (rc) {
		free(fs);
		return rc;
	}
	fs->store.size_bytes = fs->file.size_bytes;
	fs->store.direct = atomic_load(&fs->file.direct_on);
	return environment_wrap(&fs->store, out);
}

int
sl_store_open(struct sl_engine *engine, const char *path, int flags, struct sl_store **out)
{
	if (!(flags & (SL_STORE_READ | SL_STORE_WRITE)) ||
	    (flags & SL_STORE_CREATE && !(flags & SL_STORE_WRITE)))
		return sl_fail(-EINVAL,
			       "open: %s: flags 0x%x; ask to read or to write, and to "
			       "create only "
			       "with write",
			       path, (unsigned)flags);
	if (engine->ops->open_temporary)
		return sl_fail(-ENOTSUP, "open: %s: the %s engine has no files", path,
			       engine->ops->kind);
	return store_open(engine, path, flags, 0, out);
}

int
sl_store_open_temporary(struct sl_engine *engine, const char *dir, struct sl_store **out)
{
	if (engine->ops->open_temporary)
		return engine->ops->open_temporary(engine, dir, out);
	return store_open(engine, dir, 0, 1, out);
}
