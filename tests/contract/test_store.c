/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of store.h, one suite over every engine, plain and wrapped, on a disk
 * and on memory.
 *
 *   test_store [uring|file]    0 pass, 1 fail, 77 the engine cannot run here (reason printed)
 *
 * Without an argument both engines are tested. Files live in SLUICE_TEST_DIR (default
 * /var/tmp), which should take O_DIRECT, and in /dev/shm. Parts that need root or a
 * loop-free small file system are left out with a line that says so. No assertion
 * depends on how fast anything is; the only times looked at are lower bounds that the
 * delay wrapper promises.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/rng.h"
#include "store/engine.h"
#include "store/io_error.h"
#include "store/store.h"

#define CHECK(cond)                                                                     \
	do {                                                                            \
		if (!(cond)) {                                                          \
			fprintf(stderr, "FAIL %s:%d: %s\n  in %s; last error: %s\n",    \
				__FILE__, __LINE__, #cond, where, sluice_last_error()); \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

enum wrap { WRAP_NONE, WRAP_FAULT, WRAP_DELAY, WRAP_COUNT };

static const char *const wrap_names[] = {"plain", "fault", "delay"};

struct config {
	const char *kind;
	enum wrap wrap;
	const char *dir;
	int memory; /* dir is a memory file system */
	struct sl_engine *engine;
};

static char where[512] = "start";

/* ---- Tools ------------------------------------------------------------- */

static void *
buffer_new(size_t bytes)
{
	void *buf = NULL;

	CHECK(!posix_memalign(&buf, SL_STORE_ALIGN,
			      (bytes + SL_STORE_ALIGN - 1) / SL_STORE_ALIGN * SL_STORE_ALIGN +
				      SL_STORE_ALIGN));
	memset(buf, 0x5a, bytes);
	return buf;
}

static void
pattern_fill(void *buf, size_t bytes, uint64_t seed)
{
	struct sl_rng rng;
	unsigned char *p = buf;

	sl_rng_init(&rng, seed);
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word = sl_rng_next(&rng);

		memcpy(p + i, &word, bytes - i < 8 ? bytes - i : 8);
	}
}

static void
path_make(char *path, size_t path_bytes, const struct config *c, const char *name)
{
	snprintf(path, path_bytes, "%s/%s", c->dir, name);
}

/* A file of the test's own making, by plain calls. */
static void
file_make(const char *path, const void *data, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK(write(fd, data, bytes) == (ssize_t)bytes);
	close(fd);
}

static uint64_t
file_length(const char *path)
{
	struct stat st;

	CHECK(!stat(path, &st));
	return (uint64_t)st.st_size;
}

static void
file_read(const char *path, void *buf, size_t bytes, uint64_t offset)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(pread(fd, buf, bytes, (off_t)offset) == (ssize_t)bytes);
	close(fd);
}

static struct sl_store *
wrapped(const struct config *c, struct sl_store *store)
{
	switch (c->wrap) {
	case WRAP_FAULT:
		CHECK(!sl_store_wrap_fault(store, &store));
		break;
	case WRAP_DELAY:
		CHECK(!sl_store_wrap_delay(store, 50000, 4ull << 30, &store));
		break;
	case WRAP_NONE:
	case WRAP_COUNT:
		break;
	}
	return store;
}

static struct sl_store *
store_open(const struct config *c, const char *path, int flags)
{
	struct sl_store *store;

	CHECK(!sl_store_open(c->engine, path, flags, &store));
	return wrapped(c, store);
}

/* A request one can wait for. */
struct request {
	struct sl_io io;
	sem_t *over;
	atomic_int calls; /* of done() */
	pthread_t thread; /* that called it */
};

static void
request_done(struct sl_io *io)
{
	struct request *r = io->arg;

	atomic_fetch_add(&r->calls, 1);
	r->thread = pthread_self();
	sem_post(r->over);
}

static void
request_set(struct request *r, sem_t *over, enum sl_io_op op, enum sl_io_class class,
	    void *buf, uint64_t offset, size_t bytes)
{
	memset(r, 0, sizeof(*r));
	r->over = over;
	r->io = (struct sl_io){.op = op,
			       .class = class,
			       .buf = buf,
			       .offset = offset,
			       .bytes = bytes,
			       .result = 12345,
			       .past_end = 77,
			       .done = request_done,
			       .arg = r};
}

static void
sem_take(sem_t *sem)
{
	while (sem_wait(sem))
		CHECK(errno == EINTR);
}

/* One queued request from start to end; its result. */
static int
io_run(struct sl_store *store, enum sl_io_op op, void *buf, uint64_t offset, size_t bytes,
       int *past_end)
{
	struct request r;
	struct sl_io *io = &r.io;
	sem_t over;

	sem_init(&over, 0, 0);
	request_set(&r, &over, op, SL_IO_DEMAND, buf, offset, bytes);
	sl_store_submit(store, &io, 1);
	sem_take(&over);
	sem_destroy(&over);
	CHECK(atomic_load(&r.calls) == 1);
	CHECK(!pthread_equal(r.thread, pthread_self()));
	if (past_end)
		*past_end = r.io.past_end;
	if (r.io.result)
		CHECK(sl_io_fail(&r.io) == r.io.result);
	return r.io.result;
}

/* ---- The suite --------------------------------------------------------- */

static void
what_is_written_is_read_back(const struct config *c)
{
	static const size_t sizes[] = {4096, 65536, 2u << 20, (3u << 20) + 4096};
	char path[512];
	struct sl_store *store;
	uint64_t offset = 0;

	path_make(path, sizeof(path), c, "round");
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	CHECK(store->size_bytes == 0);
	CHECK(!c->memory || !store->direct);
	CHECK(strstr(store->name, "round"));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char *out = buffer_new(sizes[i]), *in = buffer_new(sizes[i]);
		int past_end;

		pattern_fill(out, sizes[i], i);
		CHECK(io_run(store, SL_IO_WRITE, out, offset, sizes[i], &past_end) == 0);
		CHECK(past_end == 0);
		CHECK(io_run(store, SL_IO_READ, in, offset, sizes[i], &past_end) == 0);
		CHECK(past_end == 0 && !memcmp(in, out, sizes[i]));
		memset(in, 0, sizes[i]);
		errno = 4242;
		past_end = 9;
		CHECK(!store->ops->read_now(store, in, offset, sizes[i], &past_end));
		CHECK(errno == 4242 && past_end == 0 && !memcmp(in, out, sizes[i]));

		pattern_fill(out, sizes[i], i + 100);
		CHECK(!store->ops->write_now(store, out, offset, sizes[i]));
		CHECK(io_run(store, SL_IO_READ, in, offset, sizes[i], NULL) == 0);
		CHECK(!memcmp(in, out, sizes[i]));
		file_read(path, in, sizes[i], offset);
		CHECK(!memcmp(in, out, sizes[i]));
		offset += sizes[i];
		free(out);
		free(in);
	}
	CHECK(!store->ops->sync(store));
	CHECK(file_length(path) == offset);
	store->ops->close(store);
	unlink(path);
}

static void
a_tail_is_written_exactly_and_nothing_behind_it(const struct config *c)
{
	const size_t file_bytes = 40000, bytes = 2 * 4096 + 777;
	unsigned char *old = buffer_new(file_bytes), *now = buffer_new(file_bytes + 8192);
	unsigned char *data = buffer_new(16384);
	char path[512];
	struct sl_store *store;

	path_make(path, sizeof(path), c, "tail");
	for (int blocking = 0; blocking < 2; blocking++) {
		pattern_fill(old, file_bytes, 1);
		file_make(path, old, file_bytes);
		store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE);
		CHECK(store->size_bytes == file_bytes);
		memset(data, 0xd7, 16384);

		/* In the middle: the rest of the page keeps its bytes. */
		if (blocking)
			CHECK(!store->ops->write_now(store, data, 4096, bytes));
		else
			CHECK(!io_run(store, SL_IO_WRITE, data, 4096, bytes, NULL));
		CHECK(file_length(path) == file_bytes);
		file_read(path, now, file_bytes, 0);
		CHECK(!memcmp(now, old, 4096));
		CHECK(!memcmp(now + 4096, data, bytes));
		CHECK(!memcmp(now + 4096 + bytes, old + 4096 + bytes,
			      file_bytes - 4096 - bytes));

		/* At the end: the file grows to offset + bytes. */
		if (blocking)
			CHECK(!store->ops->write_now(store, data, 36864, 5000));
		else
			CHECK(!io_run(store, SL_IO_WRITE, data, 36864, 5000, NULL));
		CHECK(file_length(path) == 36864 + 5000);
		file_read(path, now, 5000, 36864);
		CHECK(!memcmp(now, data, 5000));

		/* Less than a page. */
		CHECK(!io_run(store, SL_IO_WRITE, data, 0, 1, NULL));
		file_read(path, now, 4096, 0);
		CHECK(now[0] == 0xd7 && !memcmp(now + 1, old + 1, 4095));

		/* What went through the other descriptor is seen by a direct read. */
		CHECK(!io_run(store, SL_IO_READ, now, 36864, 5000, NULL));
		CHECK(!memcmp(now, data, 5000));
		store->ops->close(store);
	}
	unlink(path);
	free(old);
	free(now);
	free(data);
}

static void
a_read_of_the_tail_is_whole_and_one_past_it_says_so(const struct config *c)
{
	static const size_t lengths[] = {10000, 12288, 1, 4096 + 512};
	unsigned char *data = buffer_new(65536), *in = buffer_new(65536);
	char path[512];

	path_make(path, sizeof(path), c, "end");
	pattern_fill(data, 65536, 3);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t length = lengths[i];
		struct sl_store *store;
		int past_end;

		file_make(path, data, length);
		store = store_open(c, path, SL_STORE_READ);
		CHECK(store->size_bytes == length);
		memset(in, 0, 65536);
		CHECK(!io_run(store, SL_IO_READ, in, 0, length, &past_end));
		CHECK(!past_end && !memcmp(in, data, length));
		CHECK(!store->ops->read_now(store, in, 0, length, &past_end));
		CHECK(!past_end && !memcmp(in, data, length));

		CHECK(io_run(store, SL_IO_READ, in, 0, length + 1, &past_end) == -EIO);
		CHECK(past_end == 1);
		CHECK(strstr(sluice_last_error(), "shrank") &&
		      strstr(sluice_last_error(), "end"));
		CHECK(io_run(store, SL_IO_READ, in, 0, 65536, &past_end) == -EIO && past_end);
		CHECK(io_run(store, SL_IO_READ, in, 1u << 20, 4096, &past_end) == -EIO);
		CHECK(past_end == 1);
		CHECK(store->ops->read_now(store, in, 0, 65536, &past_end) == -EIO);
		CHECK(past_end == 1 && strstr(sluice_last_error(), "shrank"));
		CHECK(store->ops->read_now(store, in, 1u << 20, 4096, NULL) == -EIO);
		store->ops->close(store);
	}
	unlink(path);
	free(data);
	free(in);
}

static void
a_file_that_shrinks_under_us_is_noticed(const struct config *c)
{
	unsigned char *data = buffer_new(32768);
	char path[512];
	struct sl_store *store;
	int past_end;

	path_make(path, sizeof(path), c, "shrink");
	file_make(path, data, 32768);
	store = store_open(c, path, SL_STORE_READ);
	CHECK(!io_run(store, SL_IO_READ, data, 16384, 16384, &past_end) && !past_end);
	CHECK(!truncate(path, 20000));
	CHECK(io_run(store, SL_IO_READ, data, 16384, 16384, &past_end) == -EIO && past_end);
	CHECK(!io_run(store, SL_IO_READ, data, 16384, 3616, &past_end) && !past_end);
	store->ops->close(store);
	unlink(path);
	free(data);
}

struct submitter {
	const struct config *c;
	struct sl_store *store;
	unsigned number;
	pthread_t thread;
};

#define SUBMITTERS      4
#define SUBMITTER_IOS   48
#define SUBMITTER_BYTES 32768

static void *
submitter_main(void *arg)
{
	struct submitter *s = arg;
	struct request *r = calloc(SUBMITTER_IOS, sizeof(*r));
	struct sl_io *ios[SUBMITTER_IOS];
	char *out = buffer_new(SUBMITTER_IOS * SUBMITTER_BYTES);
	char *in = buffer_new(SUBMITTER_IOS * SUBMITTER_BYTES);
	sem_t over;

	CHECK(r);
	sem_init(&over, 0, 0);
	pattern_fill(out, SUBMITTER_IOS * SUBMITTER_BYTES, s->number + 50);
	for (int pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < SUBMITTER_IOS; i++) {
			uint64_t place = (uint64_t)i * SUBMITTERS + s->number;

			request_set(&r[i], &over, pass ? SL_IO_READ : SL_IO_WRITE,
				    (enum sl_io_class)(i % SL_IO_CLASS_COUNT),
				    (pass ? in : out) + i * SUBMITTER_BYTES,
				    place * SUBMITTER_BYTES, SUBMITTER_BYTES);
			ios[i] = &r[i].io;
		}
		/* Singly and in lots. */
		for (unsigned i = 0; i < SUBMITTER_IOS / 2; i++)
			sl_store_submit(s->store, &ios[i], 1);
		sl_store_submit(s->store, ios + SUBMITTER_IOS / 2, SUBMITTER_IOS / 2);
		for (unsigned i = 0; i < SUBMITTER_IOS; i++)
			sem_take(&over);
		for (unsigned i = 0; i < SUBMITTER_IOS; i++)
			CHECK(r[i].io.result == 0 && r[i].calls == 1);
	}
	CHECK(!memcmp(in, out, SUBMITTER_IOS * SUBMITTER_BYTES));
	sem_destroy(&over);
	free(r);
	free(out);
	free(in);
	return NULL;
}

static void
many_requests_of_many_threads_all_complete_once(const struct config *c)
{
	struct submitter s[SUBMITTERS];
	char path[512];
	struct sl_store *store;

	path_make(path, sizeof(path), c, "many");
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	for (unsigned i = 0; i < SUBMITTERS; i++) {
		s[i] = (struct submitter){.c = c, .store = store, .number = i};
		CHECK(!pthread_create(&s[i].thread, NULL, submitter_main, &s[i]));
	}
	for (unsigned i = 0; i < SUBMITTERS; i++)
		pthread_join(s[i].thread, NULL);
	store->ops->close(store);
	unlink(path);
}

struct chain {
	struct sl_io io;
	struct sl_store *store;
	unsigned left;
	int failed;
	sem_t over;
};

static void
chain_done(struct sl_io *io)
{
	struct chain *chain = io->arg;

	chain->failed |= io->result != 0;
	if (--chain->left == 0) {
		sem_post(&chain->over);
		return;
	}
	io->op = io->op == SL_IO_READ ? SL_IO_WRITE : SL_IO_READ;
	sl_store_submit(chain->store, &io, 1);
}

static void
a_completion_may_submit_more(const struct config *c)
{
	struct chain chain = {.left = 200};
	struct sl_io *io = &chain.io;
	char path[512];

	path_make(path, sizeof(path), c, "chain");
	chain.store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	sem_init(&chain.over, 0, 0);
	chain.io = (struct sl_io){.op = SL_IO_WRITE,
				  .class = SL_IO_PREFETCH,
				  .buf = buffer_new(4096),
				  .bytes = 4096,
				  .done = chain_done,
				  .arg = &chain};
	sl_store_submit(chain.store, &io, 1);
	sem_take(&chain.over);
	CHECK(!chain.failed && chain.left == 0);
	chain.store->ops->close(chain.store);
	sem_destroy(&chain.over);
	free(chain.io.buf);
	unlink(path);
}

static void
no_bytes_are_no_trouble(const struct config *c)
{
	char path[512];
	struct sl_store *store;
	void *buf = buffer_new(4096);

	path_make(path, sizeof(path), c, "nothing");
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	CHECK(!io_run(store, SL_IO_READ, buf, 0, 0, NULL));
	CHECK(!io_run(store, SL_IO_WRITE, buf, 1u << 20, 0, NULL));
	CHECK(file_length(path) == 0);
	store->ops->close(store);
	unlink(path);
	free(buf);
}

static void
extend_makes_length_and_blocks(const struct config *c)
{
	char path[512];
	struct sl_store *store;
	struct stat st;

	path_make(path, sizeof(path), c, "extend");
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	CHECK(!store->ops->extend(store, 1000001));
	CHECK(store->size_bytes == 1000001 && file_length(path) == 1000001);
	CHECK(!stat(path, &st) && st.st_blocks * 512 >= 1000001);
	CHECK(!store->ops->extend(store, 5000)); /* never shorter */
	CHECK(store->size_bytes == 1000001 && file_length(path) == 1000001);
	CHECK(!store->ops->sync(store));
	store->ops->close(store);
	unlink(path);
}

static void
a_failed_extend_leaves_the_length_alone(const struct config *c)
{
	struct rlimit old, low = {.rlim_cur = 1u << 20, .rlim_max = 0};
	unsigned char *data = buffer_new(5000);
	char path[512];
	struct sl_store *store;

	/* SIGXFSZ has its default action here: it must not be raised by extend. */
	path_make(path, sizeof(path), c, "fbig");
	file_make(path, data, 5000);
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE);
	CHECK(!getrlimit(RLIMIT_FSIZE, &old));
	low.rlim_max = old.rlim_max;
	CHECK(!setrlimit(RLIMIT_FSIZE, &low));
	CHECK(store->ops->extend(store, 2u << 20) == -EFBIG);
	CHECK(strstr(sluice_last_error(), "fbig") &&
	      strstr(sluice_last_error(), "EFBIG"));
	CHECK(file_length(path) == 5000 && store->size_bytes == 5000);
	/* A write beyond the limit fails, too; on the engine's thread it ends no
	 * process. */
	CHECK(io_run(store, SL_IO_WRITE, data, 1u << 20, 4096, NULL) == -EFBIG);
	CHECK(strstr(sluice_last_error(), "ulimit -f"));
	CHECK(!setrlimit(RLIMIT_FSIZE, &old));
	CHECK(store->ops->extend(store, UINT64_MAX) == -EFBIG);
	CHECK(!store->ops->extend(store, 2u << 20));
	store->ops->close(store);
	unlink(path);
	free(data);
}

static void
a_full_disk_is_told_at_extend_and_at_write(const struct config *c)
{
	unsigned char *data = buffer_new(3u << 20);
	struct config small = *c;
	char dir[256], path[512];
	struct sl_store *store;

	snprintf(dir, sizeof(dir), "%s/small", c->dir);
	CHECK(!mkdir(dir, 0700));
	if (mount("none", dir, "tmpfs", 0, "size=4m")) {
		printf("left out: full disk: mount of a small tmpfs: %s\n", strerror(errno));
		rmdir(dir);
		free(data);
		return;
	}
	small.dir = dir;
	path_make(path, sizeof(path), &small, "full");
	file_make(path, data, 5000);
	store = store_open(&small, path, SL_STORE_READ | SL_STORE_WRITE);
	CHECK(store->ops->extend(store, 8u << 20) == -ENOSPC);
	CHECK(strstr(sluice_last_error(), "no room") &&
	      strstr(sluice_last_error(), "full"));
	CHECK(file_length(path) == 5000 && store->size_bytes == 5000);
	/* The blocks that the failed attempt got are back: this fits. */
	CHECK(!store->ops->extend(store, 3u << 20));

	CHECK(io_run(store, SL_IO_WRITE, data, 2u << 20, 3u << 20, NULL) == -ENOSPC);
	CHECK(strstr(sluice_last_error(), "ENOSPC"));
	CHECK(store->ops->write_now(store, data, 4u << 20, 4096) == -ENOSPC);
	CHECK(!io_run(store, SL_IO_WRITE, data, 0, 65536, NULL));
	store->ops->close(store);
	CHECK(!umount(dir));
	CHECK(!rmdir(dir));
	free(data);
}

static void
trim_gives_whole_pages_back(const struct config *c)
{
	unsigned char *data = buffer_new(1u << 20), *in = buffer_new(1u << 20);
	struct stat before, after;
	char path[512];
	struct sl_store *store;

	path_make(path, sizeof(path), c, "trim");
	pattern_fill(data, 1u << 20, 9);
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	CHECK(!io_run(store, SL_IO_WRITE, data, 0, 1u << 20, NULL));
	CHECK(!store->ops->sync(store));
	CHECK(!stat(path, &before));
	store->ops->trim(store, 4096, 8191); /* one whole page */
	store->ops->trim(store, 65536, 65536);
	CHECK(!stat(path, &after));
	CHECK(after.st_size == before.st_size);
	CHECK(!io_run(store, SL_IO_READ, in, 0, 1u << 20, NULL));
	CHECK(!memcmp(in, data, 4096));
	CHECK(!memcmp(in + 8192, data + 8192, 65536 - 8192));
	CHECK(!memcmp(in + 131072, data + 131072, (1u << 20) - 131072));
	CHECK(after.st_blocks * 512 <= before.st_blocks * 512 - 65536 - 4096);
	store->ops->close(store);
	unlink(path);
	free(data);
	free(in);
}

static void
what_cannot_be_opened_is_said(const struct config *c)
{
	struct sl_store *store = (struct sl_store *)1;
	char path[512];

	path_make(path, sizeof(path), c, "absent");
	CHECK(sl_store_open(c->engine, path, SL_STORE_READ, &store) == -ENOENT);
	CHECK(strstr(sluice_last_error(), "absent"));
	CHECK(sl_store_open(c->engine, c->dir, SL_STORE_READ, &store) == -EISDIR);
	CHECK(sl_store_open(c->engine, c->dir, SL_STORE_READ | SL_STORE_WRITE, &store) ==
	      -EISDIR);
	CHECK(sl_store_open(c->engine, path, 0, &store) == -EINVAL);
	CHECK(sl_store_open(c->engine, path, SL_STORE_READ | SL_STORE_CREATE, &store) ==
	      -EINVAL);
	CHECK(access(path, F_OK));

	CHECK(!mkfifo(path, 0600)); /* does not hang */
	CHECK(sl_store_open(c->engine, path, SL_STORE_READ, &store) == -EINVAL);
	CHECK(sl_store_open(c->engine, path, SL_STORE_WRITE, &store) == -EINVAL);
	CHECK(strstr(sluice_last_error(), "absent"));
	unlink(path);
	CHECK(sl_store_open(c->engine, "/dev/null", SL_STORE_READ, &store) == -EINVAL);

	file_make(path, "x", 1);
	CHECK(!chmod(path, 0444));
	if (geteuid() == 0)
		CHECK(!chmod(c->dir, 0755) && !seteuid(65534));
	CHECK(sl_store_open(c->engine, path, SL_STORE_READ | SL_STORE_WRITE, &store) ==
	      -EACCES);
	CHECK(strstr(sluice_last_error(), "absent"));
	CHECK(!sl_store_open(c->engine, path, SL_STORE_READ, &store));
	store->ops->close(store);
	if (getuid() == 0)
		CHECK(!seteuid(0));
	unlink(path);

	store = (struct sl_store *)1;
	path_make(path, sizeof(path), c, "no/such/dir");
	CHECK(sl_store_open(c->engine, path, SL_STORE_WRITE | SL_STORE_CREATE, &store) ==
	      -ENOENT);
	CHECK(store == (struct sl_store *)1);
	CHECK(!sl_fault_point_set("store.open:1:EMFILE"));
	CHECK(sl_store_open(c->engine, c->dir, SL_STORE_READ, &store) == -EMFILE);
	CHECK(!sl_fault_point_set(NULL));
}

static void
create_keeps_what_is_there(const struct config *c)
{
	char path[512], byte = 0;
	struct sl_store *store;

	path_make(path, sizeof(path), c, "keep");
	file_make(path, "k", 1);
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	CHECK(store->size_bytes == 1);
	store->ops->close(store);
	file_read(path, &byte, 1, 0);
	CHECK(byte == 'k');
	unlink(path);
}

static unsigned
dir_entries(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	unsigned n = 0;

	CHECK(dir);
	while ((e = readdir(dir)))
		n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
	closedir(dir);
	return n;
}

static void
a_temporary_file_has_no_name(const struct config *c)
{
	char *data = buffer_new(8192), *in = buffer_new(8192);
	unsigned before = dir_entries(c->dir);
	struct sl_store *store;

	CHECK(!sl_store_open_temporary(c->engine, c->dir, &store));
	store = wrapped(c, store);
	CHECK(dir_entries(c->dir) == before);
	pattern_fill(data, 8192, 4);
	CHECK(!io_run(store, SL_IO_WRITE, data, 1u << 20, 8192, NULL));
	CHECK(!io_run(store, SL_IO_READ, in, 1u << 20, 8192, NULL));
	CHECK(!memcmp(in, data, 8192));
	CHECK(!c->memory || !store->direct);
	store->ops->close(store);
	CHECK(sl_store_open_temporary(c->engine, "/nonexistent", &store) == -ENOENT);
	CHECK(strstr(sluice_last_error(), "/nonexistent"));
	free(data);
	free(in);
}

typedef void (*test_fn)(const struct config *c);

static const struct {
	const char *name;
	test_fn run;
} tests[] = {
#define TEST(name)          \
	{                   \
#name, name \
	}
	TEST(what_is_written_is_read_back),
	TEST(a_tail_is_written_exactly_and_nothing_behind_it),
	TEST(a_read_of_the_tail_is_whole_and_one_past_it_says_so),
	TEST(a_file_that_shrinks_under_us_is_noticed),
	TEST(many_requests_of_many_threads_all_complete_once),
	TEST(a_completion_may_submit_more),
	TEST(no_bytes_are_no_trouble),
	TEST(extend_makes_length_and_blocks),
	TEST(a_failed_extend_leaves_the_length_alone),
	TEST(a_full_disk_is_told_at_extend_and_at_write),
	TEST(trim_gives_whole_pages_back),
	TEST(what_cannot_be_opened_is_said),
	TEST(create_keeps_what_is_there),
	TEST(a_temporary_file_has_no_name),
#undef TEST
};

/* ---- Once for each engine ---------------------------------------------- */

struct order {
	struct request block;
	sem_t queued;
	atomic_uint next;
	struct request r[12];
	unsigned place[12];
};

static struct order *order_now;

static void
order_done(struct sl_io *io)
{
	struct request *r = io->arg;

	order_now->place[r - order_now->r] = atomic_fetch_add(&order_now->next, 1);
	request_done(io);
}

static void
block_done(struct sl_io *io)
{
	sem_take(&order_now->queued);
	request_done(io);
}

/* Queue four of each class, lowest first, while nothing can start, and see them start
 * in order of class and, within one, first come first served. */
static void
order_check(struct sl_store *store, int hold_engine)
{
	struct order order = {0};
	struct sl_io *ios[12], *block = &order.block.io;
	char *buf = buffer_new(13 * 4096);
	sem_t over;

	order_now = &order;
	sem_init(&over, 0, 0);
	sem_init(&order.queued, 0, 0);
	request_set(&order.block, &over, SL_IO_READ, SL_IO_WRITEBACK, buf + 12 * 4096, 0,
		    4096);
	if (hold_engine)
		block->done = block_done;
	sl_store_submit(store, &block, 1);
	for (unsigned i = 0; i < 12; i++) {
		request_set(&order.r[i], &over, SL_IO_READ,
			    (enum sl_io_class)(SL_IO_WRITEBACK - i / 4), buf + i * 4096,
			    0, 4096);
		order.r[i].io.done = order_done;
		ios[i] = &order.r[i].io;
	}
	sl_store_submit(store, ios, 6);
	sl_store_submit(store, ios + 6, 6);
	sem_post(&order.queued);
	for (unsigned i = 0; i < 13; i++)
		sem_take(&over);
	for (unsigned i = 0; i < 12; i++) {
		unsigned class = SL_IO_WRITEBACK - i / 4;

		CHECK(order.r[i].io.result == 0);
		CHECK(order.place[i] == class * 4 + i % 4);
	}
	sem_destroy(&over);
	sem_destroy(&order.queued);
	free(buf);
}

static void
a_higher_class_starts_first(const struct config *c)
{
	struct config one = *c;
	struct sl_store *store;
	char path[512], page[4096] = {0};

	path_make(path, sizeof(path), c, "order");
	file_make(path, page, 4096);
	CHECK(!sl_engine_create(c->kind, 1, &one.engine));
	CHECK(!sl_store_open(one.engine, path, SL_STORE_READ, &store));
	order_check(store, 1);
	/* The link of the delay wrapper: 50 ms for the first, so that all others wait
	 * for it. */
	CHECK(!sl_store_wrap_delay(store, 0, 81920, &store));
	order_check(store, 0);
	store->ops->close(store);
	sl_engine_destroy(one.engine);
	unlink(path);
}

enum { LOW_REQUESTS = 64 };

struct crowd {
	struct request low[LOW_REQUESTS];
	struct request demand;
	sem_t held; /* posted for each low request that may complete */
	unsigned low_over_at_demand;
};

static struct crowd *crowd_now;

static void
crowd_low_done(struct sl_io *io)
{
	sem_take(&crowd_now->held);
	request_done(io);
}

static void
crowd_demand_done(struct sl_io *io)
{
	for (unsigned i = 0; i < LOW_REQUESTS; i++)
		crowd_now->low_over_at_demand += (unsigned)atomic_load(
			&crowd_now->low[i].calls);
	request_done(io);
}

/*
 * A demand starts while low requests hold all the places they may have. The threads of
 * the file engine are held in the completions of low requests: without a place of its
 * own the demand would never complete. The one thread of the ring cannot be held; there
 * the demand, last in the line, must not be the last to complete.
 */
static void
a_demand_does_not_wait_for_queued_prefetches(const struct config *c)
{
	int hold = !strcmp(c->kind, "file");
	struct config e = *c;
	struct crowd crowd = {0};
	struct sl_io *ios[LOW_REQUESTS + 1], *demand = &crowd.demand.io;
	char *buf = buffer_new((LOW_REQUESTS + 1) * 65536);
	struct sl_store *store;
	sem_t over, demand_over;
	char path[512];

	crowd_now = &crowd;
	path_make(path, sizeof(path), c, "demand");
	CHECK(!sl_engine_create(c->kind, 8, &e.engine));
	store = store_open(&e, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	CHECK(!store->ops->extend(store, LOW_REQUESTS * 65536));
	sem_init(&over, 0, 0);
	sem_init(&demand_over, 0, 0);
	sem_init(&crowd.held, 0, hold ? 0 : LOW_REQUESTS);
	for (unsigned i = 0; i < LOW_REQUESTS; i++) {
		request_set(&crowd.low[i], &over, SL_IO_READ,
			    i % 2 ? SL_IO_PREFETCH : SL_IO_WRITEBACK, buf + i * 65536,
			    (uint64_t)i * 65536, 65536);
		crowd.low[i].io.done = crowd_low_done;
		ios[i] = &crowd.low[i].io;
	}
	request_set(&crowd.demand, &demand_over, SL_IO_READ, SL_IO_DEMAND,
		    buf + LOW_REQUESTS * 65536, 0, 4096);
	demand->done = crowd_demand_done;
	ios[LOW_REQUESTS] = demand;

	sl_store_submit(store, ios, LOW_REQUESTS + 1);
	sem_take(&demand_over);
	CHECK(crowd.demand.io.result == 0);
	CHECK(crowd.low_over_at_demand < (hold ? 1 : LOW_REQUESTS));
	for (unsigned i = 0; hold && i < LOW_REQUESTS; i++)
		sem_post(&crowd.held);
	for (unsigned i = 0; i < LOW_REQUESTS; i++)
		sem_take(&over);
	for (unsigned i = 0; i < LOW_REQUESTS; i++)
		CHECK(crowd.low[i].io.result == 0);
	store->ops->close(store);
	sl_engine_destroy(e.engine);
	sem_destroy(&over);
	sem_destroy(&demand_over);
	sem_destroy(&crowd.held);
	unlink(path);
	free(buf);
}

static void
injected_failures_hit_the_nth_call_and_no_byte_moves(const struct config *c)
{
	unsigned char *data = buffer_new(4096), *in = buffer_new(4096);
	struct config faulty = *c;
	struct sl_store *store;
	char path[512];

	faulty.wrap = WRAP_FAULT;
	path_make(path, sizeof(path), c, "inject");
	memset(in, 0x11, 4096);
	file_make(path, in, 4096);
	store = store_open(&faulty, path, SL_STORE_READ | SL_STORE_WRITE);
	CHECK(!sl_fault_point_set("store.read:2:ENXIO,store.write:1:ENOSPC,store.sync:1,"
				  "store.extend:1:ENOSPC"));
	CHECK(!io_run(store, SL_IO_READ, in, 0, 4096, NULL));
	CHECK(io_run(store, SL_IO_READ, in, 0, 4096, NULL) == -ENXIO);
	CHECK(strstr(sluice_last_error(), "inject") &&
	      strstr(sluice_last_error(), "ENXIO"));
	CHECK(!io_run(store, SL_IO_READ, in, 0, 4096, NULL));
	memset(data, 0x22, 4096);
	CHECK(io_run(store, SL_IO_WRITE, data, 0, 4096, NULL) == -ENOSPC);
	file_read(path, in, 4096, 0);
	CHECK(in[0] == 0x11 && in[4095] == 0x11);
	CHECK(!io_run(store, SL_IO_WRITE, data, 0, 4096, NULL));
	CHECK(store->ops->sync(store) == -EIO);
	CHECK(!store->ops->sync(store));
	CHECK(store->ops->extend(store, 8192) == -ENOSPC && file_length(path) == 4096);
	CHECK(!store->ops->extend(store, 8192) && store->size_bytes == 8192);
	CHECK(sl_fault_point_fired() == 4);

	CHECK(!sl_fault_point_set("store.read:1,store.write:1:EROFS"));
	CHECK(store->ops->read_now(store, in, 0, 4096, NULL) == -EIO);
	CHECK(!store->ops->read_now(store, in, 0, 4096, NULL));
	CHECK(store->ops->write_now(store, in, 0, 4096) == -EROFS);
	CHECK(!store->ops->write_now(store, in, 0, 4096));
	CHECK(!sl_fault_point_set(NULL));
	store->ops->close(store);

	/* Half-built wrappers and engines: the thread does not start, memory runs out. */
	for (unsigned n = 1; n <= 2; n++) {
		CHECK(!sl_store_open(c->engine, path, SL_STORE_READ, &store));
		CHECK(!sl_fault_point_set(n == 1 ? "mem.alloc:1" : "thread.create:1:EAGAIN"));
		CHECK(sl_store_wrap_fault(store, &store) == (n == 1 ? -ENOMEM : -EAGAIN));
		CHECK(!sl_fault_point_set(NULL));
		CHECK(!sl_store_open(c->engine, path, SL_STORE_READ, &store));
		CHECK(!sl_fault_point_set(n == 1 ? "mem.alloc:1" : "thread.create:1:EAGAIN"));
		CHECK(sl_store_wrap_delay(store, 0, 0, &store) ==
		      (n == 1 ? -ENOMEM : -EAGAIN));
		CHECK(!sl_fault_point_set(NULL));
	}
	for (unsigned n = 1; n < 100; n++) {
		struct sl_engine *engine = NULL;
		char spec[32];
		int rc;

		snprintf(spec, sizeof(spec), "*:%u", n);
		CHECK(!sl_fault_point_set(spec));
		rc = sl_engine_create(c->kind, 4, &engine);
		CHECK(!sl_fault_point_fired() == !rc);
		CHECK(!sl_fault_point_set(NULL));
		if (!rc) {
			CHECK(n > 2);
			sl_engine_destroy(engine);
			break;
		}
		CHECK(!engine);
	}
	unlink(path);
	free(data);
	free(in);
}

static void
delays_are_kept_as_lower_bounds(const struct config *c)
{
	const uint64_t delay_ns = 3000000, rate = 64u << 20;
	char *buf = buffer_new(1u << 20);
	struct request r[4];
	struct sl_io *ios[4];
	struct sl_store *store;
	uint64_t begin_ns;
	sem_t over;
	char path[512];

	path_make(path, sizeof(path), c, "slow");
	file_make(path, buf, 1u << 20);
	CHECK(!sl_store_open(c->engine, path, SL_STORE_READ | SL_STORE_WRITE, &store));
	CHECK(!sl_store_wrap_delay(store, delay_ns, rate, &store));
	begin_ns = sl_now_ns();
	CHECK(!io_run(store, SL_IO_WRITE, buf, 0, 4096, NULL));
	CHECK(sl_now_ns() - begin_ns >= delay_ns);
	begin_ns = sl_now_ns();
	CHECK(!store->ops->write_now(store, buf, 0, 4096));
	CHECK(!store->ops->read_now(store, buf, 0, 4096, NULL));
	CHECK(sl_now_ns() - begin_ns >= 2 * delay_ns);

	/* Four reads of 256 KiB over 64 MiB/s, all at once: one after the other. */
	sem_init(&over, 0, 0);
	for (unsigned i = 0; i < 4; i++) {
		request_set(&r[i], &over, SL_IO_READ, SL_IO_DEMAND, buf + (i << 18),
			    (uint64_t)i << 18, 1u << 18);
		ios[i] = &r[i].io;
	}
	begin_ns = sl_now_ns();
	sl_store_submit(store, ios, 4);
	for (unsigned i = 0; i < 4; i++)
		sem_take(&over);
	CHECK(sl_now_ns() - begin_ns >= (1ull << 20) * 1000000000u / rate);
	sem_destroy(&over);
	store->ops->close(store);
	unlink(path);
	free(buf);
}

static void
the_environment_can_ask_for_wrappers(const struct config *c)
{
	struct sl_store *store;
	char *buf = buffer_new(4096);
	uint64_t begin_ns;
	char path[512];

	path_make(path, sizeof(path), c, "environment");
	file_make(path, buf, 4096);
	setenv("SLUICE_FAULT", "", 1);
	setenv("SLUICE_STORE_DELAY", "2000000:1G", 1);
	CHECK(!sl_store_open(c->engine, path, SL_STORE_READ, &store));
	begin_ns = sl_now_ns();
	CHECK(!io_run(store, SL_IO_READ, buf, 0, 4096, NULL));
	CHECK(sl_now_ns() - begin_ns >= 2000000);
	CHECK(!sl_fault_point_set("store.read:1"));
	CHECK(io_run(store, SL_IO_READ, buf, 0, 4096, NULL) == -EIO);
	store->ops->close(store);
	CHECK(!sl_store_open_temporary(c->engine, c->dir, &store));
	CHECK(!sl_fault_point_set("store.extend:1"));
	CHECK(store->ops->extend(store, 4096) == -EIO);
	store->ops->close(store);
	CHECK(!sl_fault_point_set(NULL));
	unsetenv("SLUICE_FAULT");

	static const char *const bad[] = {"x", "-1", "5:", "5:x", "5 ", ":5", ""};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		setenv("SLUICE_STORE_DELAY", bad[i], 1);
		if (!*bad[i]) {
			CHECK(!sl_store_open(c->engine, path, SL_STORE_READ, &store));
			store->ops->close(store);
			continue;
		}
		CHECK(sl_store_open(c->engine, path, SL_STORE_READ, &store) == -EINVAL);
		CHECK(strstr(sluice_last_error(), "SLUICE_STORE_DELAY"));
	}
	unsetenv("SLUICE_STORE_DELAY");
	unlink(path);
	free(buf);
}

static void
wrong_engines_are_refused(void)
{
	struct sl_engine *engine = NULL;

	CHECK(sl_engine_create("abacus", 4, &engine) == -EINVAL);
	CHECK(sl_engine_create("file", 0, &engine) == -EINVAL);
	CHECK(sl_engine_create("file", SL_ENGINE_DEPTH_MAX + 1, &engine) == -EINVAL);
	CHECK(!engine);
	sl_engine_destroy(NULL);
}

/* ---- Pieces: what a system call's answer means ------------------------- */

static void
pieces_follow_the_answers_of_the_kernel(void)
{
	struct sl_disk_file file = {.fd = 100, .direct_fd = 200, .direct_on = 1, .name = "-"};
	char *buf = buffer_new(32768);
	struct sl_progress p = {0};
	struct sl_piece piece;

	/* A write: whole pages directly, the rest through the other descriptor. */
	sl_disk_file_piece(&file, SL_IO_WRITE, buf, 8192, 10000, &p, &piece);
	CHECK(piece.fd == 200 && piece.direct && piece.bytes == 8192 && piece.offset == 8192);
	CHECK(sl_disk_file_advance(&file, SL_IO_WRITE, &piece, 4096, 10000, &p) == 1);
	sl_disk_file_piece(&file, SL_IO_WRITE, buf, 8192, 10000, &p, &piece);
	CHECK(piece.fd == 200 && piece.bytes == 4096 && piece.offset == 12288);
	CHECK(sl_disk_file_advance(&file, SL_IO_WRITE, &piece, 512, 10000, &p) == 1);
	sl_disk_file_piece(&file, SL_IO_WRITE, buf, 8192, 10000, &p, &piece);
	CHECK(piece.fd == 100 && piece.bytes == 10000 - 4608 && piece.buf == buf + 4608);
	CHECK(sl_disk_file_advance(&file, SL_IO_WRITE, &piece, 10000 - 4608, 10000, &p) == 0);

	/* A read asks for whole pages and counts only what was wanted. */
	p = (struct sl_progress){0};
	sl_disk_file_piece(&file, SL_IO_READ, buf, 0, 5000, &p, &piece);
	CHECK(piece.direct && piece.bytes == 8192);
	CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, 8192, 5000, &p) == 0);
	CHECK(p.moved_bytes == 5000 && !p.past_end);
	p = (struct sl_progress){.moved_bytes = 904};
	sl_disk_file_piece(&file, SL_IO_READ, buf, 0, 5000, &p, &piece);
	CHECK(!piece.direct && piece.bytes == 4096);
	CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, 0, 5000, &p) == -EIO);
	CHECK(p.past_end == 1);

	/* Refusals are tried again, but not for ever, and progress starts the count
	 * anew. */
	static const int again[] = {-EINTR, -EAGAIN, -EBUSY};

	for (size_t i = 0; i < 3; i++) {
		p = (struct sl_progress){0};
		for (unsigned n = 0; n < SL_PIECE_RETRIES; n++)
			CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, again[i],
						   8192, &p) == 1);
		CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, again[i], 8192, &p) ==
		      -EIO);
		CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, 1, 8192, &p) == 1);
		CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, again[i], 8192, &p) ==
		      1);
	}
	p = (struct sl_progress){0};
	CHECK(sl_disk_file_advance(&file, SL_IO_WRITE, &piece, -ENOSPC, 8192, &p) == -ENOSPC);
	CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, -EIO, 8192, &p) == -EIO);
	CHECK(!p.past_end);

	/* EINVAL of a direct transfer turns direct I/O off; of a buffered one it is an
	 * error. */
	sl_disk_file_piece(&file, SL_IO_READ, buf, 0, 4096, &p, &piece);
	CHECK(piece.direct);
	CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, -EINVAL, 4096, &p) == 1);
	CHECK(!file.direct_on);
	sl_disk_file_piece(&file, SL_IO_READ, buf, 0, 4096, &p, &piece);
	CHECK(!piece.direct && piece.fd == 100 && piece.bytes == 4096);
	CHECK(sl_disk_file_advance(&file, SL_IO_READ, &piece, -EINVAL, 4096, &p) == -EINVAL);
	free(buf);
}

/* The descriptors of this process that are rings. Replaces them by /dev/null; how
 * many. */
static unsigned
rings_break(void)
{
	unsigned n = 0;

	for (int fd = 3; fd < 256; fd++) {
		char link[64], target[64] = "";
		int null_fd;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (readlink(link, target, sizeof(target) - 1) < 0 ||
		    !strstr(target, "[io_uring]"))
			continue;
		null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		CHECK(null_fd >= 0 && dup2(null_fd, fd) == fd);
		close(null_fd);
		n++;
	}
	return n;
}

static void
a_broken_ring_still_serves_requests(const char *dir)
{
	struct config c = {.kind = "uring", .dir = dir};
	char *data = buffer_new(3u << 20), *in = buffer_new(3u << 20);
	struct sl_store *store;
	char path[512];

	path_make(path, sizeof(path), &c, "broken");
	CHECK(!sl_engine_create("uring", 8, &c.engine));
	store = store_open(&c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	pattern_fill(data, 3u << 20, 8);
	CHECK(!io_run(store, SL_IO_WRITE, data, 0, 2u << 20, NULL));
	CHECK(rings_break() == 1);
	CHECK(!io_run(store, SL_IO_WRITE, data, 0, 3u << 20, NULL));
	CHECK(!io_run(store, SL_IO_READ, in, 0, 3u << 20, NULL));
	CHECK(!memcmp(data, in, 3u << 20));
	many_requests_of_many_threads_all_complete_once(&c);
	store->ops->close(store);
	sl_engine_destroy(c.engine);
	unlink(path);
	free(data);
	free(in);
}

/* ---- Running ----------------------------------------------------------- */

static void
engine_run(const char *kind, const char *disk_dir, const char *memory_dir)
{
	struct config c = {.kind = kind, .dir = disk_dir};

	CHECK(!sl_engine_create(kind, 16, &c.engine));
	CHECK(!strcmp(sl_engine_kind(c.engine), kind));
	for (int memory = 0; memory < 2; memory++) {
		c.memory = memory;
		c.dir = memory ? memory_dir : disk_dir;
		for (c.wrap = WRAP_NONE; c.wrap < WRAP_COUNT; c.wrap++) {
			for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
				snprintf(where, sizeof(where), "%s, %s, %s: %s", kind,
					 wrap_names[c.wrap], c.dir, tests[i].name);
				tests[i].run(&c);
			}
			CHECK(dir_entries(c.dir) == 0);
		}
	}
	c.wrap = WRAP_NONE;
	c.memory = 0;
	c.dir = disk_dir;
	snprintf(where, sizeof(where), "%s, once", kind);
	a_higher_class_starts_first(&c);
	a_demand_does_not_wait_for_queued_prefetches(&c);
	injected_failures_hit_the_nth_call_and_no_byte_moves(&c);
	delays_are_kept_as_lower_bounds(&c);
	the_environment_can_ask_for_wrappers(&c);
	sl_engine_destroy(c.engine);
	if (!strcmp(kind, "uring"))
		a_broken_ring_still_serves_requests(disk_dir);
	CHECK(dir_entries(disk_dir) == 0);
	printf("pass: %s\n", kind);
}

/* True when the engine can run here. */
static int
engine_works(const char *kind)
{
	struct sl_engine *engine;
	int rc = sl_engine_create(kind, 1, &engine);

	if (rc == -ENOTSUP) {
		printf("skip: %s: %s\n", kind, sluice_last_error());
		return 0;
	}
	CHECK(!rc);
	sl_engine_destroy(engine);
	return 1;
}

int
main(int argc, char **argv)
{
	static const char *const kinds[] = {"uring", "file"};
	const char *base = getenv("SLUICE_TEST_DIR");
	char disk_dir[256], memory_dir[] = "/dev/shm/sluice-test-XXXXXX";
	unsigned skipped = 0, run = 0;

	unsetenv("SLUICE_FAULT");
	unsetenv("SLUICE_STORE_DELAY");
	CHECK(!sl_fault_point_set(NULL));
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(disk_dir, sizeof(disk_dir), "%.200s/sluice-test-XXXXXX",
		 base ? base : "/var/tmp");
	CHECK(mkdtemp(disk_dir) && mkdtemp(memory_dir));
	snprintf(where, sizeof(where), "common");
	wrong_engines_are_refused();
	pieces_follow_the_answers_of_the_kernel();
	for (size_t i = 0; i < 2; i++) {
		if (argc > 1 && strcmp(argv[1], kinds[i]))
			continue;
		if (engine_works(kinds[i])) {
			engine_run(kinds[i], disk_dir, memory_dir);
			run++;
		} else {
			skipped++;
		}
	}
	CHECK(!rmdir(disk_dir) && !rmdir(memory_dir));
	CHECK(run + skipped > 0); /* else the argument names no engine */
	return skipped ? 77 : 0;
}
