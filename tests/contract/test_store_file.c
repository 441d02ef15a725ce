/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: opening, creating, growing and trimming them, full disks, and files without a name. See
 * store_suite.h.
 */
#include "store_suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fault_point.h"

static void
extend_makes_length_and_blocks(const struct config *c)
{
	char path[512];
	struct sl_store *store;
	struct stat st;

	path_make(path, sizeof(path), c, "extend");
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	CHECK(!store->ops->extend(store, 1000001));
	CHECK(store->size_bytes == 1000001 && plain_file_length(path) == 1000001);
	CHECK(!stat(path, &st) && st.st_blocks * 512 >= 1000001);
	CHECK(!store->ops->extend(store, 5000)); /* never shorter */
	CHECK(store->size_bytes == 1000001 && plain_file_length(path) == 1000001);
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
	plain_file_make(path, data, 5000);
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE);
	CHECK(!getrlimit(RLIMIT_FSIZE, &old));
	low.rlim_max = old.rlim_max;
	CHECK(!setrlimit(RLIMIT_FSIZE, &low));
	CHECK(store->ops->extend(store, 2u << 20) == -EFBIG);
	CHECK(strstr(sluice_last_error(), "fbig") &&
	      strstr(sluice_last_error(), "EFBIG"));
	CHECK(plain_file_length(path) == 5000 && store->size_bytes == 5000);
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
	plain_file_make(path, data, 5000);
	store = store_open(&small, path, SL_STORE_READ | SL_STORE_WRITE);
	CHECK(store->ops->extend(store, 8u << 20) == -ENOSPC);
	CHECK(strstr(sluice_last_error(), "no room") &&
	      strstr(sluice_last_error(), "full"));
	CHECK(plain_file_length(path) == 5000 && store->size_bytes == 5000);
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

	plain_file_make(path, "x", 1);
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
	plain_file_make(path, "k", 1);
	store = store_open(c, path, SL_STORE_READ | SL_STORE_WRITE | SL_STORE_CREATE);
	CHECK(store->size_bytes == 1);
	store->ops->close(store);
	plain_file_read(path, &byte, 1, 0);
	CHECK(byte == 'k');
	unlink(path);
}

static void
a_temporary_file_has_no_name(const struct config *c)
{
	char *data = buffer_new(8192), *in = buffer_new(8192);
	unsigned before = dir_entries(c->dir);
	struct sl_store *store;

	CHECK(!sl_store_open_temporary(c->engine, c->dir, &store));
	store = store_wrapped(c, store);
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

static const struct store_test tests[] = {
	TEST(extend_makes_length_and_blocks, STORE_EVERYWHERE),
	TEST(a_failed_extend_leaves_the_length_alone, STORE_EVERYWHERE),
	TEST(a_full_disk_is_told_at_extend_and_at_write, STORE_EVERYWHERE),
	TEST(trim_gives_whole_pages_back, STORE_EVERYWHERE),
	TEST(what_cannot_be_opened_is_said, STORE_EVERYWHERE),
	TEST(create_keeps_what_is_there, STORE_EVERYWHERE),
	TEST(a_temporary_file_has_no_name, STORE_EVERYWHERE),
};

STORE_MAIN(tests)
