/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A drive in virtual time. Reads and writes each are a line of their own (as the machine's two rates
 * say); of what waits for a line the highest class goes first. A request's latency comes behind its
 * turn on the line, so that requests in flight hide it.
 *
 * A file is a table of versions by 2 MiB. What was never written, or trimmed, is undefined.
 *
 * Threads: one an engine serves the lines and calls completions.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/virtual.h"

struct file {
	struct sl_store store; /* first */
	struct engine *engine;
	uint64_t *versions; /* by SL_GRANULE_BYTES */
	uint64_t n_versions;
};

/* Requests that wait, by class, the one on the line, and those whose latency runs. */
struct side {
	struct sl_io *first[SL_IO_CLASS_COUNT], *last[SL_IO_CLASS_COUNT];
	struct sl_io *serving;
	uint64_t served_tick;
	struct sl_io *late_first, *late_last; /* due at start_ns, in ticks, ascending */
};

struct engine {
	struct sl_engine engine; /* first */
	struct sl_virtual *v;    /* set once */
	pthread_t thread;        /* set once */
	struct sl_mutex lock;    /* all below */
	struct sl_cond work;
	struct side side[SL_IO_OP_COUNT];
	int stopping;
};

/* ---- files ---- */

/* Room for the versions up to end, if there is memory. */
static void
versions_reserve(struct file *f, uint64_t end)
{
	uint64_t n = (end + SL_GRANULE_BYTES - 1) / SL_GRANULE_BYTES, max;
	uint64_t *grown;

	if (n <= f->n_versions)
		return;
	max = 2 * f->n_versions > n ? 2 * f->n_versions : n;
	grown = realloc(f->versions, max * sizeof(*grown));
	if (!grown)
		return;
	for (uint64_t i = f->n_versions; i < max; i++)
		grown[i] = SL_VERSION_ANY;
	f->versions = grown;
	f->n_versions = max;
}

/* The turn of a request on the line is over: its contents have moved. */
static int
contents_move(struct sl_virtual *v, const struct sl_io *io)
{
	uint64_t first = io->offset / SL_GRANULE_BYTES, n = io->bytes / SL_GRANULE_BYTES;
	const struct file *f = (const struct file *)io->store;
	struct sl_token *token = io->buf;

	if (io->offset % SL_GRANULE_BYTES || io->bytes % SL_GRANULE_BYTES) {
		sl_virtual_fail(v, "store: %llu bytes at %llu are no whole chunks",
				(unsigned long long)io->bytes,
				(unsigned long long)io->offset);
		return -EIO;
	}
	if (first + n > f->n_versions)
		return -ENOMEM;
	for (uint64_t i = first; i < first + n; i++) {
		if (io->op == SL_IO_WRITE)
			f->versions[i] = token->version;
		else if (f->versions[i] != f->versions[first])
			return -EIO; /* pieces of several writes */
	}
	if (io->op == SL_IO_READ)
		token->version = f->versions[first];
	return 0;
}

static void
file_submit(struct sl_store *store, struct sl_io **ios, size_t n)
{
	struct file *f = (struct file *)store;
	struct engine *e = f->engine;

	sl_mutex_lock(&e->lock);
	for (size_t i = 0; i < n; i++) {
		struct sl_io *io = ios[i];
		struct side *side = &e->side[io->op];

		versions_reserve(f, io->offset + io->bytes);
		io->next = NULL;
		io->moved_bytes = 0;
		io->past_end = 0;
		if (side->first[io->class])
			side->last[io->class]->next = io;
		else
			side->first[io->class] = io;
		side->last[io->class] = io;
	}
	sl_cond_signal(&e->work);
	sl_mutex_unlock(&e->lock);
}

static int
file_read_now(struct sl_store *store, void *buf, uint64_t offset, size_t bytes, int *past_end)
{
	(void)buf;
	(void)past_end;
	return sl_fail(-ENOTSUP, "%s: %zu bytes at %llu: the virtual store has no pages",
		       store->name, bytes, (unsigned long long)offset);
}

static int
file_write_now(struct sl_store *store, const void *buf, uint64_t offset, size_t bytes)
{
	(void)buf;
	return sl_fail(-ENOTSUP, "%s: %zu bytes at %llu: the virtual store has no pages",
		       store->name, bytes, (unsigned long long)offset);
}

static int
file_sync(struct sl_store *store)
{
	(void)store;
	return 0; /* what was written is there */
}

static int
file_extend(struct sl_store *store, uint64_t bytes)
{
	struct file *f = (struct file *)store;

	versions_reserve(f, bytes);
	if (bytes > f->n_versions * SL_GRANULE_BYTES)
		return sl_fail(-ENOMEM, "%s: out of memory", store->name);
	if (store->size_bytes < bytes)
		store->size_bytes = bytes;
	return 0;
}

static void
file_trim(struct sl_store *store, uint64_t offset, uint64_t bytes)
{
	struct file *f = (struct file *)store;
	uint64_t first = (offset + SL_GRANULE_BYTES - 1) / SL_GRANULE_BYTES;
	uint64_t end = (offset + bytes) / SL_GRANULE_BYTES;

	for (uint64_t i = first; i < end && i < f->n_versions; i++)
		f->versions[i] = SL_VERSION_ANY;
}

static void
file_close(struct sl_store *store)
{
	free(((struct file *)store)->versions);
	free(store);
}

static const struct sl_store_ops file_ops = {
	.submit = file_submit,
	.read_now = file_read_now,
	.write_now = file_write_now,
	.sync = file_sync,
	.extend = file_extend,
	.trim = file_trim,
	.close = file_close,
};

static int
engine_open_temporary(struct sl_engine *engine, const char *dir, struct sl_store **out)
{
	struct file *f = calloc(1, sizeof(*f));

	if (!f)
		return sl_fail(-ENOMEM, "open: %s: out of memory", dir);
	f->store.ops = &file_ops;
	f->store.direct = 1;
	snprintf(f->store.name, sizeof(f->store.name), "%.200s/(virtual)", dir);
	f->engine = (struct engine *)engine;
	*out = &f->store;
	return 0;
}

/* ---- the drive ---- */

static enum sl_sim_bound
side_bound(enum sl_io_op op)
{
	return op == SL_IO_READ ? SL_BOUND_STORE_READ : SL_BOUND_STORE_WRITE;
}

static struct sl_io *
side_pop(struct side *side)
{
	for (int class = 0; class < SL_IO_CLASS_COUNT; class ++) {
		struct sl_io *io = side->first[class];

		if (!io)
			continue;
		side->first[class] = io->next;
		io->next = NULL;
		return io;
	}
	return NULL;
}

/* Bring one side up to now. */
static void
side_serve(struct engine *e, enum sl_io_op op)
{
	const struct sl_machine *machine = e->v->machine;
	struct side *side = &e->side[op];
	uint64_t now = sl_turns_now();
	int read = op == SL_IO_READ;
	const struct sl_token *token;
	struct sl_io *io = side->serving;

	if (io && side->served_tick <= now) {
		io->result = contents_move(e->v, io);
		io->start_ns = side->served_tick +
			       sl_virtual_latency(e->v, read ? machine->store_read_ns
							     : machine->store_write_ns);
		if (side->late_first)
			side->late_last->next = io;
		else
			side->late_first = io;
		side->late_last = io;
		side->serving = NULL;
	}
	if (side->serving || !(io = side_pop(side)))
		return;
	token = io->buf;
	side->serving = io;
	side->served_tick = sl_line_add(&e->v->line[side_bound(op)],
					read && token->busy_until > now ? token->busy_until
									: now,
					sl_virtual_ticks(e->v, io->bytes,
							 read ? machine->store_read_bps
							      : machine->store_write_bps));
}

/* A request whose time has come, or NULL. */
static struct sl_io *
side_due(struct side *side)
{
	struct sl_io *io = side->late_first;

	if (!io || io->start_ns > sl_turns_now())
		return NULL;
	side->late_first = io->next;
	io->next = NULL;
	return io;
}

static uint64_t
side_next(const struct side *side)
{
	uint64_t next = side->serving ? side->served_tick : SL_TURNS_NEVER;

	return side->late_first && side->late_first->start_ns < next
		       ? side->late_first->start_ns
		       : next;
}

static void *
engine_main(void *arg)
{
	struct engine *e = arg;

	sl_mutex_lock(&e->lock);
	for (;;) {
		uint64_t next = SL_TURNS_NEVER;
		struct sl_io *io = NULL;

		for (int op = 0; op < SL_IO_OP_COUNT; op++)
			side_serve(e, (enum sl_io_op)op);
		for (int op = 0; op < SL_IO_OP_COUNT && !io; op++)
			io = side_due(&e->side[op]);
		if (io) {
			sl_mutex_unlock(&e->lock);
			io->done(io);
			sl_mutex_lock(&e->lock);
			continue;
		}
		for (int op = 0; op < SL_IO_OP_COUNT; op++)
			if (side_next(&e->side[op]) < next)
				next = side_next(&e->side[op]);
		if (next == SL_TURNS_NEVER && e->stopping)
			break;
		(void)sl_turns_wait(&e->work, &e->lock, next);
	}
	sl_mutex_unlock(&e->lock);
	return NULL;
}

static void
engine_free(struct engine *e)
{
	sl_cond_fini(&e->work);
	sl_mutex_fini(&e->lock);
	free(e);
}

static void
engine_destroy(struct sl_engine *engine)
{
	struct engine *e = (struct engine *)engine;

	sl_mutex_lock(&e->lock);
	e->stopping = 1;
	sl_cond_signal(&e->work);
	sl_mutex_unlock(&e->lock);
	sl_thread_join(e->thread);
	engine_free(e);
}

/* Requests come to the stores themselves, never here. */
static void
engine_submit(struct sl_engine *engine, struct sl_io **ios, size_t n)
{
	(void)engine;
	for (size_t i = 0; i < n; i++)
		ios[i]->store->ops->submit(ios[i]->store, &ios[i], 1);
}

static const struct sl_engine_ops engine_ops = {
	.kind = "virtual",
	.submit = engine_submit,
	.destroy = engine_destroy,
	.open_temporary = engine_open_temporary,
};

int
sl_virtual_engine_create(struct sl_virtual *v, struct sl_engine **out)
{
	struct engine *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return sl_fail(-ENOMEM, "engine: out of memory");
	e->engine.ops = &engine_ops;
	e->v = v;
	sl_mutex_init(&e->lock, SL_RANK_STORE);
	sl_cond_init(&e->work);
	rc = sl_thread_start(&e->thread, engine_main, e);
	if (rc) {
		engine_free(e);
		return sl_fail(-rc, "engine: cannot start a thread: %s", strerror(rc));
	}
	*out = &e->engine;
	return 0;
}
