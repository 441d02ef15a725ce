/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a run, all in one directory of their own, "DIR/sluice-NAME". In a directory that
 * users share (sticky, such as /var/tmp) it is "DIR/sluice-NAME-UID", and one that another user or
 * a link has put there is refused: inputs are generated
 * through a bounded buffer, by a few threads, and written past the page cache where the file
 * system allows it; a stamp beside each says what it was generated from, so that a kept file is
 * used again only if it is exactly what this run needs. The stamp is written last and taken away
 * before a run that changes the file, so a run that was killed leaves files that the next one makes
 * again.
 *
 * Space on the disk is checked before anything is written. A lock file keeps two runs apart.
 * The last part compares outputs with what a reference says.
 *
 * Threads: that of workload_run(), and the fillers while a buffer is filled.
 */
#include "env.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PIECE_BYTES   (4u << 20) /* of the generator's buffer, for each filler */
#define FILLERS_MAX   8
#define ALIGN_BYTES   4096u /* of direct I/O */
#define STAMP_BYTES   512
#define LOCK_ATTEMPTS 8 /* a lock file may be removed while we open it */

static int
dir_path(const struct workload *workload, const char *dir, char *path, size_t bytes)
{
	char user[32] = "";
	struct stat st;
	int n;

	if (!stat(dir, &st) && (st.st_mode & S_ISVTX))
		snprintf(user, sizeof(user), "-%u", (unsigned)geteuid());
	n = snprintf(path, bytes, "%s/sluice-%s%s", dir, workload->name, user);
	return n > 0 && (size_t)n < bytes ? 0 : -ENAMETOOLONG;
}

static int
name_path(const char *dir, const char *name, const char *suffix, char *path, size_t bytes)
{
	int n = snprintf(path, bytes, "%s/%s%s", dir, name, suffix);

	return n > 0 && (size_t)n < bytes ? 0 : -ENAMETOOLONG;
}

static int
array_has_file(const struct workload_array *array)
{
	return array->role != WORKLOAD_ANONYMOUS;
}

static int
array_is_generated(const struct workload_array *array)
{
	return array->role == WORKLOAD_INPUT || array->role == WORKLOAD_IN_PLACE;
}

int
workload_file_path(struct workload_env *env, unsigned array, char *path, size_t bytes)
{
	if (name_path(env->dir, env->plan.array[array].name, ".bin", path, bytes))
		return workload_fail(env, -ENAMETOOLONG, "%s: the path is too long",
				     env->dir);
	return 0;
}

/* ---- directory and lock ---- */

/* Take the lock file: 0, -EBUSY, -EAGAIN (it was removed meanwhile), or what open() says. */
static int
lock_take(const char *path, int *fd_out)
{
	struct stat held, there;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		return -EBUSY;
	}
	if (fstat(fd, &held) || stat(path, &there) || held.st_ino != there.st_ino ||
	    held.st_dev != there.st_dev) {
		close(fd);
		return -EAGAIN;
	}
	*fd_out = fd;
	return 0;
}

/* There is something, but no directory of this user's: a link to one is none, either. */
static int
dir_is_foreign(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && (!S_ISDIR(st.st_mode) || st.st_uid != geteuid());
}

int
workload_files_open(struct workload_env *env)
{
	const char *dir = env->params->dir;
	char path[PATH_MAX];
	struct stat st;
	int attempt, rc = 0;

	if (stat(dir, &st))
		return workload_fail(env, -errno,
				     "%s: %s: give an existing directory with --dir", dir,
				     strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return workload_fail(env, -ENOTDIR, "%s: not a directory", dir);
	if (dir_path(env->workload, dir, env->dir, sizeof(env->dir)) ||
	    name_path(env->dir, "lock", "", path, sizeof(path)))
		return workload_fail(env, -ENAMETOOLONG, "%s: the path is too long", dir);

	for (attempt = 0; attempt < LOCK_ATTEMPTS; attempt++) {
		if (mkdir(env->dir, 0700) && errno != EEXIST)
			return workload_fail(env, -errno, "%s: cannot be made: %s",
					     env->dir, strerror(errno));
		if (dir_is_foreign(env->dir))
			return workload_fail(
				env, -EPERM,
				"%s: not a directory of this user's: remove it, or "
				"give another --dir",
				env->dir);
		rc = lock_take(path, &env->lock_fd);
		if (rc != -EAGAIN)
			break;
	}
	if (rc == -EBUSY || rc == -EAGAIN)
		return workload_fail(
			env, -EBUSY,
			"%s: another run is using it: wait for it, or give another "
			"--dir",
			env->dir);
	if (rc)
		return workload_fail(env, rc, "%s: %s", path, strerror(-rc));
	return 0;
}

static void
array_remove(const char *dir, const char *name)
{
	char path[PATH_MAX];

	if (!name_path(dir, name, ".stamp", path, sizeof(path)))
		unlink(path);
	if (!name_path(dir, name, ".bin", path, sizeof(path)))
		unlink(path);
}

static void
dir_remove(const char *dir, const struct workload_plan *plan)
{
	char path[PATH_MAX];
	unsigned i;

	for (i = 0; i < plan->n_arrays; i++)
		if (array_has_file(&plan->array[i]))
			array_remove(dir, plan->array[i].name);
	if (!name_path(dir, "lock", "", path, sizeof(path)))
		unlink(path);
	rmdir(dir); /* stays if somebody put a file of their own there */
}

void
workload_files_close(struct workload_env *env)
{
	if (!env->params->keep)
		dir_remove(env->dir, &env->plan);
	if (env->lock_fd >= 0)
		close(env->lock_fd);
	env->lock_fd = -1;
}

int
workload_remove_files(const struct workload *workload, const char *dir)
{
	struct workload_params params = {.footprint_bytes = 1ull << 30};
	struct workload_plan plan;
	char error[WORKLOAD_TEXT_BYTES];
	char path[PATH_MAX];
	struct stat st;
	unsigned i;
	int rc;

	/* Names do not depend on sizes: any plan lists them. */
	for (i = 0; i < workload->n_options; i++)
		params.option[i] = workload->options[i].initial;
	rc = workload_plan_make(workload, &params, &plan, error);
	if (!rc)
		rc = dir_path(workload, dir, path, sizeof(path));
	if (rc)
		return rc;
	dir_remove(path, &plan);
	if (stat(path, &st))
		return errno == ENOENT ? 0 : -errno;
	return -ENOTEMPTY;
}

/* ---- stamps ---- */

static void
stamp_make(struct workload_env *env, unsigned array, char text[STAMP_BYTES])
{
	snprintf(text, STAMP_BYTES,
		 "sluice workload input, format 1\nworkload %s\narray %s\nbytes %" PRIu64
		 "\nrows %" PRIu64 "\ncols %" PRIu64 "\nseed %" PRIu64 "\n",
		 env->workload->name, env->plan.array[array].name,
		 env->plan.array[array].size_bytes, env->plan.rows, env->plan.cols,
		 env->params->seed);
}

static int
stamp_is_valid(struct workload_env *env, unsigned array)
{
	char path[PATH_MAX], want[STAMP_BYTES], have[STAMP_BYTES];
	const struct workload_array *a = &env->plan.array[array];
	struct stat st;
	ssize_t n;
	int fd;

	if (name_path(env->dir, a->name, ".bin", path, sizeof(path)) || stat(path, &st) ||
	    (uint64_t)st.st_size != a->size_bytes)
		return 0;
	if (name_path(env->dir, a->name, ".stamp", path, sizeof(path)))
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, have, sizeof(have));
	close(fd);
	stamp_make(env, array, want);
	return n >= 0 && (size_t)n == strlen(want) && memcmp(have, want, (size_t)n) == 0;
}

static int
stamp_write(struct workload_env *env, unsigned array)
{
	char path[PATH_MAX], text[STAMP_BYTES];
	int fd, rc = 0;
	ssize_t n;

	if (name_path(env->dir, env->plan.array[array].name, ".stamp", path, sizeof(path)))
		return workload_fail(env, -ENAMETOOLONG, "%s: the path is too long",
				     env->dir);
	stamp_make(env, array, text);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return workload_fail(env, -errno, "%s: %s", path, strerror(errno));
	n = write(fd, text, strlen(text));
	if (n < 0 || (size_t)n != strlen(text))
		rc = workload_fail(env, n < 0 ? -errno : -ENOSPC, "%s: cannot be written",
				   path);
	close(fd);
	return rc;
}

static void
stamp_remove(struct workload_env *env, unsigned array)
{
	char path[PATH_MAX];

	if (!name_path(env->dir, env->plan.array[array].name, ".stamp", path, sizeof(path)))
		unlink(path);
}

/* ---- generation ---- */

int
workload_files_room(struct workload_env *env)
{
	struct statvfs fs;
	uint64_t need = 0, have;
	unsigned i;

	for (i = 0; i < env->plan.n_arrays; i++) {
		const struct workload_array *array = &env->plan.array[i];
		char path[PATH_MAX];
		struct stat st;
		uint64_t there = 0;
		int rc;

		if (!array_has_file(array))
			continue;
		rc = workload_file_path(env, i, path, sizeof(path));
		if (rc)
			return rc;
		if (!stat(path, &st))
			there = (uint64_t)st.st_blocks * 512;
		need += workload_less(array->size_bytes, there);
	}
	if (statvfs(env->dir, &fs))
		return workload_fail(env, -errno, "%s: %s", env->dir, strerror(errno));
	have = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (need > have)
		return workload_fail(
			env, -ENOSPC,
			"%s: needs %" PRIu64 " MiB more on disk, %" PRIu64
			" MiB are free: make room, or give a smaller footprint or "
			"another directory",
			env->dir, (need + (1u << 20) - 1) >> 20, have >> 20);
	return 0;
}

static int
piece_write(struct workload_env *env, const char *path, int fd, const char *data,
	    size_t bytes, uint64_t offset)
{
	while (bytes > 0) {
		ssize_t n = pwrite(fd, data, bytes, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return workload_fail(env, n < 0 ? -errno : -EIO,
					     "%s: write at %" PRIu64 ": %s", path, offset,
					     strerror(n < 0 ? errno : EIO));
		data += n;
		bytes -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

struct filler {
	pthread_t thread;
	int started;
	struct workload_env *env;
	unsigned array;
	uint64_t first; /* elements */
	size_t n;
	void *to;
};

static void *
filler_run(void *arg)
{
	const struct filler *f = arg;

	f->env->workload->ops->fill(&f->env->plan, f->array, f->env->params->seed,
				    f->first, f->n, f->to);
	return NULL;
}

/* Elements of an array from byte offset on into buffer. What has no thread is done by this one. */
static void
buffer_fill(struct workload_env *env, unsigned array, uint64_t offset, size_t bytes,
	    char *buffer)
{
	struct filler filler[FILLERS_MAX];
	unsigned n = 0, i;
	size_t at;

	for (at = 0; at < bytes; at += PIECE_BYTES, n++) {
		struct filler *f = &filler[n];
		size_t piece = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;

		*f = (struct filler){.env = env,
				     .array = array,
				     .first = (offset + at) / 4,
				     .n = piece / 4,
				     .to = buffer + at};
		f->started = at + piece < bytes &&
			     pthread_create(&f->thread, NULL, filler_run, f) == 0;
		if (!f->started)
			filler_run(f);
	}
	for (i = 0; i < n; i++)
		if (filler[i].started)
			pthread_join(filler[i].thread, NULL);
}

/* done, total: bytes of all inputs, for the progress. */
static int
array_generate(struct workload_env *env, unsigned array, void *buffer,
	       size_t buffer_bytes, uint64_t *done, uint64_t total)
{
	const struct workload_array *a = &env->plan.array[array];
	char path[PATH_MAX];
	uint64_t offset;
	int fd, rc;

	rc = workload_file_path(env, array, path, sizeof(path));
	if (rc)
		return rc;
	stamp_remove(env, array);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_DIRECT, 0600);
	if (fd < 0 && errno == EINVAL) /* tmpfs and others: through the page cache */
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return workload_fail(env, -errno, "%s: %s", path, strerror(errno));

	for (offset = 0; !rc && offset < a->size_bytes; offset += buffer_bytes) {
		size_t bytes = buffer_bytes;

		if (a->size_bytes - offset < bytes)
			bytes = (size_t)(a->size_bytes - offset);
		buffer_fill(env, array, offset, bytes, buffer);
		*done += bytes;
		rc = workload_progress(env, "generate", (double)*done / (double)total);
		/* Direct I/O writes whole blocks: the rest of the last one is cut off below. */
		while (bytes % ALIGN_BYTES)
			((char *)buffer)[bytes++] = 0;
		if (!rc)
			rc = piece_write(env, path, fd, buffer, bytes, offset);
	}
	if (!rc && ftruncate(fd, (off_t)a->size_bytes))
		rc = workload_fail(env, -errno, "%s: truncate: %s", path, strerror(errno));
	if (!rc && fsync(fd))
		rc = workload_fail(env, -errno, "%s: fsync: %s", path, strerror(errno));
	close(fd);
	if (!rc)
		rc = stamp_write(env, array);
	return rc;
}

int
workload_files_generate(struct workload_env *env)
{
	uint64_t done = 0, total = 0;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	size_t buffer_bytes;
	void *buffer;
	unsigned i;
	int rc = 0;

	for (i = 0; i < env->plan.n_arrays; i++)
		if (array_is_generated(&env->plan.array[i]) && !stamp_is_valid(env, i))
			total += env->plan.array[i].size_bytes;
	if (total == 0)
		return 0;
	buffer_bytes = PIECE_BYTES *
		       (size_t)(cpus < 1 ? 1 : (cpus > FILLERS_MAX ? FILLERS_MAX : cpus));
	if (posix_memalign(&buffer, ALIGN_BYTES, buffer_bytes))
		return workload_fail(env, -ENOMEM,
				     "out of memory for the generator's buffer");
	for (i = 0; !rc && i < env->plan.n_arrays; i++)
		if (array_is_generated(&env->plan.array[i]) && !stamp_is_valid(env, i))
			rc = array_generate(env, i, buffer, buffer_bytes, &done, total);
	free(buffer);
	return rc;
}

void
workload_files_spoil(struct workload_env *env)
{
	unsigned i;

	for (i = 0; i < env->plan.n_arrays; i++) {
		const struct workload_array *array = &env->plan.array[i];

		switch (array->role) {
		case WORKLOAD_INPUT:
			if (array->spoiled)
				stamp_remove(env, i);
			break;
		case WORKLOAD_IN_PLACE:
			stamp_remove(env, i);
			break;
		case WORKLOAD_OUTPUT: /* an old output must not pass for this run's */
		case WORKLOAD_VOLATILE:
			array_remove(env->dir, array->name);
			break;
		case WORKLOAD_ANONYMOUS:
		case WORKLOAD_ROLE_COUNT:
			break;
		}
	}
}

void
workload_files_drop_cache(struct workload_env *env)
{
	unsigned i;

	for (i = 0; i < env->plan.n_arrays; i++) {
		char path[PATH_MAX];
		int fd;

		if (!array_is_generated(&env->plan.array[i]) ||
		    workload_file_path(env, i, path, sizeof(path)))
			continue;
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue; /* the map that follows reports it */
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
}

/* ---- verification ---- */

int
workload_file_read(struct workload_env *env, unsigned array, uint64_t first, size_t n,
		   void *out)
{
	char path[PATH_MAX];
	char *to = out;
	uint64_t offset = first * 4;
	size_t left = n * 4;
	int fd, rc;

	rc = workload_file_path(env, array, path, sizeof(path));
	if (rc)
		return rc;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return workload_fail(env, -errno, "%s: %s", path, strerror(errno));
	while (left > 0) {
		ssize_t got = pread(fd, to, left, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			rc = workload_fail(env, got < 0 ? -errno : -EIO,
					   "%s: read at %" PRIu64 ": %s", path, offset,
					   got < 0 ? strerror(errno)
						   : "the file ends before it");
			break;
		}
		to += got;
		offset += (uint64_t)got;
		left -= (size_t)got;
	}
	close(fd);
	return rc;
}

int
workload_input_read(struct workload_env *env, unsigned array, uint64_t first, size_t n,
		    void *out)
{
	const struct workload_array *a = &env->plan.array[array];

	if (a->role == WORKLOAD_INPUT && !a->spoiled)
		return workload_file_read(env, array, first, n, out);
	env->workload->ops->fill(&env->plan, array, env->params->seed, first, n, out);
	return 0;
}

static double
element_value(enum workload_element kind, uint32_t bits)
{
	float value;
	int32_t whole;

	switch (kind) {
	case WORKLOAD_F32:
		memcpy(&value, &bits, sizeof(value));
		return (double)value;
	case WORKLOAD_I32:
		memcpy(&whole, &bits, sizeof(whole));
		return whole;
	}
	return 0;
}

int
workload_output_compare(struct workload_env *env, unsigned array, enum workload_element kind,
			uint64_t first, size_t n, const void *expected)
{
	const uint32_t *want = expected;
	uint32_t *have;
	size_t i;
	int rc;

	have = calloc(n, sizeof(*have));
	if (!have)
		return workload_fail(env, -ENOMEM, "out of memory for comparing");
	rc = workload_file_read(env, array, first, n, have);
	if (!rc && memcmp(have, want, n * sizeof(*have)) != 0) {
		for (i = 0; i + 1 < n && have[i] == want[i]; i++)
			;
		snprintf(env->result->mismatch, sizeof(env->result->mismatch),
			 "%s.bin: element %" PRIu64 " (byte %" PRIu64
			 ") is %.9g (0x%08x), the reference has %.9g (0x%08x)",
			 env->plan.array[array].name, first + i, (first + i) * 4,
			 element_value(kind, have[i]), have[i],
			 element_value(kind, want[i]), want[i]);
		rc = 1;
	}
	free(have);
	return rc;
}

/* Bytes that the machine can give to a process now; 0: unknown. */
static uint64_t
memory_available(void)
{
	char line[128];
	uint64_t kib = 0;
	FILE *f = fopen("/proc/meminfo", "re");

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
			break;
	fclose(f);
	return kib << 10;
}

static int
reference_room(struct workload_env *env, uint64_t bytes)
{
	uint64_t have = memory_available();

	if (have != 0 && bytes > have / 10 * 6)
		return workload_fail(env, -ENOMEM,
				     "%s: the reference needs %" PRIu64
				     " MiB of memory, more than 60 %% of the %" PRIu64
				     " MiB that are free: verify a smaller footprint",
				     env->workload->name, bytes >> 20, have >> 20);
	return 0;
}

int
workload_reference_run(struct workload_env *env, uint64_t bytes,
		       int (*reference)(struct workload_env *env, void *memory))
{
	int rc = reference_room(env, bytes);
	void *memory;

	if (rc)
		return rc;
	memory = calloc(1, bytes);
	if (!memory)
		return workload_fail(env, -ENOMEM, "%s: out of memory for the reference",
				     env->workload->name);
	rc = reference(env, memory);
	free(memory);
	return rc;
}
