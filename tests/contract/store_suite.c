/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The runner and the tools of test_store_*.c: see store_suite.h. Every test leaves its directory empty,
 * which is checked for each wrapper and file system.
 */
#include "store_suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "base/rng.h"

static const char *const wrap_names[] = {"plain", "fault", "delay"};

static char where[512] = "start";

void
store_check_failed(const char *file, int line, const char *what)
{
	fprintf(stderr, "FAIL %s:%d: %s\n  in %s; last error: %s\n", file, line, what,
		where, sluice_last_error());
	exit(1);
}

/* ---- Tools ---- */

void *
buffer_new(size_t bytes)
{
	void *buf = NULL;

	CHECK(!posix_memalign(&buf, SL_STORE_ALIGN,
			      (bytes + SL_STORE_ALIGN - 1) / SL_STORE_ALIGN * SL_STORE_ALIGN +
				      SL_STORE_ALIGN));
	memset(buf, 0x5a, bytes);
	return buf;
}

void
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

void
path_make(char *path, size_t path_bytes, const struct config *c, const char *name)
{
	snprintf(path, path_bytes, "%s/%s", c->dir, name);
}

void
plain_file_make(const char *path, const void *data, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	CHECK(write(fd, data, bytes) == (ssize_t)bytes);
	close(fd);
}

uint64_t
plain_file_length(const char *path)
{
	struct stat st;

	CHECK(!stat(path, &st));
	return (uint64_t)st.st_size;
}

void
plain_file_read(const char *path, void *buf, size_t bytes, uint64_t offset)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(pread(fd, buf, bytes, (off_t)offset) == (ssize_t)bytes);
	close(fd);
}

unsigned
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

struct sl_store *
store_wrapped(const struct config *c, struct sl_store *store)
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

struct sl_store *
store_open(const struct config *c, const char *path, int flags)
{
	struct sl_store *store;

	CHECK(!sl_store_open(c->engine, path, flags, &store));
	return store_wrapped(c, store);
}

void
request_done(struct sl_io *io)
{
	struct request *r = io->arg;

	atomic_fetch_add(&r->calls, 1);
	r->thread = pthread_self();
	sem_post(r->over);
}

void
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

void
sem_take(sem_t *sem)
{
	while (sem_wait(sem))
		CHECK(errno == EINTR);
}

int
request_run(struct sl_store *store, struct request *r)
{
	struct sl_io *io = &r->io;
	sem_t over;

	sem_init(&over, 0, 0);
	r->over = &over;
	sl_store_submit(store, &io, 1);
	sem_take(&over);
	CHECK(atomic_load(&r->calls) == 1);
	CHECK(!pthread_equal(r->thread, pthread_self()));
	sem_destroy(&over);
	return io->result;
}

int
io_run(struct sl_store *store, enum sl_io_op op, void *buf, uint64_t offset, size_t bytes,
       int *past_end)
{
	struct request r;
	int rc;

	request_set(&r, NULL, op, SL_IO_DEMAND, buf, offset, bytes);
	rc = request_run(store, &r);
	if (past_end)
		*past_end = r.io.past_end;
	if (rc)
		CHECK(sl_io_fail(&r.io) == rc);
	return rc;
}

/* ---- Running ---- */

static void
test_run(const struct store_test *test, const struct config *c)
{
	snprintf(where, sizeof(where), "%s, %s, %s: %s", c->kind ? c->kind : "no engine",
		 wrap_names[c->wrap], c->dir, test->name);
	printf(" %s\n", where);
	test->run(c);
}

static void
scope_run(const struct store_test *tests, size_t n, enum store_scope scope,
	  const struct config *c)
{
	for (size_t i = 0; i < n; i++)
		if (tests[i].scope == scope)
			test_run(&tests[i], c);
	CHECK(dir_entries(c->dir) == 0);
}

static void
engine_run(const struct store_test *tests, size_t n, const char *kind,
	   const char *disk_dir, const char *memory_dir)
{
	struct config c = {.kind = kind, .dir = disk_dir};

	CHECK(!sl_engine_create(kind, 16, &c.engine));
	CHECK(!strcmp(sl_engine_kind(c.engine), kind));
	for (int memory = 0; memory < 2; memory++) {
		c.memory = memory;
		c.dir = memory ? memory_dir : disk_dir;
		for (c.wrap = WRAP_NONE; c.wrap < WRAP_COUNT; c.wrap++)
			scope_run(tests, n, STORE_EVERYWHERE, &c);
	}
	c.wrap = WRAP_NONE;
	c.memory = 0;
	c.dir = disk_dir;
	scope_run(tests, n, STORE_ENGINE, &c);
	sl_engine_destroy(c.engine);
	c.engine = NULL;
	if (!strcmp(kind, "uring"))
		scope_run(tests, n, STORE_URING, &c);
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
store_main(const struct store_test *tests, size_t n, int argc, char **argv)
{
	static const char *const kinds[] = {"uring", "file"};
	const char *base = getenv("SLUICE_TEST_DIR");
	char disk_dir[256], memory_dir[] = "/dev/shm/sluice-test-XXXXXX";
	struct config none = {.dir = disk_dir};
	unsigned skipped = 0, run = 0;

	unsetenv("SLUICE_FAULT");
	unsetenv("SLUICE_STORE_DELAY");
	CHECK(!sl_fault_point_set(NULL));
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(disk_dir, sizeof(disk_dir), "%.200s/sluice-test-XXXXXX",
		 base ? base : "/var/tmp");
	CHECK(mkdtemp(disk_dir) && mkdtemp(memory_dir));
	scope_run(tests, n, STORE_NO_ENGINE, &none);
	for (size_t i = 0; i < 2; i++) {
		if (argc > 1 && strcmp(argv[1], kinds[i]))
			continue;
		if (engine_works(kinds[i])) {
			engine_run(tests, n, kinds[i], disk_dir, memory_dir);
			run++;
		} else {
			skipped++;
		}
	}
	CHECK(!rmdir(disk_dir) && !rmdir(memory_dir));
	CHECK(run + skipped > 0); /* else the argument names no engine */
	return skipped ? 77 : 0;
}
