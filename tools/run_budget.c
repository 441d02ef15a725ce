/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Budgets of `sluice run`, and its spill directories. The user's values are checked here, where
 * the user still sees the answer. The library chooses the others at the program's first
 * allocation: only then the free memory of a GPU and of the host is known.
 *
 * A spill directory in memory (tmpfs) would spill memory into memory. One that the user names is
 * refused. Of the defaults the first is taken that is on a disk and writable. If there is none,
 * nothing is spilled.
 *
 * Threads: one. Blocks on the file systems.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/size.h"
#include "run.h"

#define DEVICE_LEAST (UINT64_C(8) << 20)
/* As many bytes as a space can have addresses for. Below, only the GPU's driver knows what is too
 * much, and the library asks it when the program first allocates. */
#define DEVICE_MOST  (UINT64_C(1) << 46)

/* linux/magic.h */
#define MAGIC_TMPFS 0x01021994
#define MAGIC_RAMFS 0x858458f6
#define MAGIC_HUGE  0x958458f6

/* A size or "auto" (*out UINT64_MAX). */
static int
size_parse(const char *option, const char *text, uint64_t *out)
{
	if (strcmp(text, "auto") == 0) {
		*out = UINT64_MAX;
		return 0;
	}
	if (sl_size_parse(text, out) || *out == UINT64_MAX)
		return sl_fail(-EINVAL,
			       "%s '%s' is neither auto nor a size such as 512M or 16G",
			       option, text);
	return 0;
}

static int
budget_set(struct run_plan *plan, const char *name, uint64_t bytes, const char *why)
{
	char value[32], text[32];

	snprintf(value, sizeof(value), "%" PRIu64, bytes);
	return run_set(plan, name, value, "%s: %s", why,
		       sl_size_format(bytes, text, sizeof(text)));
}

static int
memory_plan(struct run_plan *plan, const struct run_options *options)
{
	uint64_t bytes, available;
	char want[32], have[32];
	int rc = 0;

	if (options->device_memory) {
		rc = size_parse("--device-memory", options->device_memory, &bytes);
		if (!rc && bytes < DEVICE_LEAST)
			rc = sl_fail(-EINVAL,
				     "--device-memory %s: less than 8M is too little "
				     "for any kernel",
				     options->device_memory);
		if (!rc && bytes != UINT64_MAX && bytes > DEVICE_MOST)
			rc = sl_fail(
				-EINVAL,
				"--device-memory %s: more than 64T has no GPU, nor a "
				"process addresses for",
				options->device_memory);
		if (!rc && bytes != UINT64_MAX)
			rc = budget_set(plan, "SLUICE_DEVICE_BUDGET", bytes,
					"memory of each GPU, --device-memory");
	}
	if (!rc && options->host_memory) {
		rc = size_parse("--host-memory", options->host_memory, &bytes);
		available = sl_memory_available();
		if (!rc && bytes != UINT64_MAX && bytes > available)
			rc = sl_fail(-ENOSPC,
				     "--host-memory %s: this process can have %s (memory "
				     "that is "
				     "free, or the limit of its control group)",
				     sl_size_format(bytes, want, sizeof(want)),
				     sl_size_format(available, have, sizeof(have)));
		if (!rc && bytes != UINT64_MAX)
			rc = budget_set(plan, "SLUICE_HOST_BUDGET", bytes,
					"pinned host memory for each GPU, --host-memory");
	}
	if (!rc && options->store_memory) {
		rc = size_parse("--store-memory", options->store_memory, &bytes);
		if (!rc && bytes != UINT64_MAX)
			rc = budget_set(plan, "SLUICE_STORE_BUDGET", bytes,
					"spilled at most for each GPU, --store-memory");
	}
	return rc;
}

/* ---- spill directories ---- */

/* Whether memory can be spilled to dir; its absolute name. -ENOTSUP: it is memory itself. */
static int
dir_check(const char *dir, char real[PATH_MAX])
{
	char probe[PATH_MAX + 32];
	struct statfs fs;
	struct stat st;
	int fd;

	if (!realpath(dir, real) || stat(real, &st) || statfs(real, &fs))
		return sl_fail(-errno, "%s: %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return sl_fail(-ENOTDIR, "%s: not a directory", dir);
	if (fs.f_type == MAGIC_TMPFS || (uint32_t)fs.f_type == MAGIC_RAMFS ||
	    (uint32_t)fs.f_type == MAGIC_HUGE)
		return sl_fail(-ENOTSUP,
			       "%s: its files are memory themselves (tmpfs): name a "
			       "directory on a disk",
			       dir);
	if (strchr(real, ':'))
		return sl_fail(-EINVAL,
			       "%s: a colon separates spill directories: use another "
			       "name",
			       dir);
	fd = open(real, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
		snprintf(probe, sizeof(probe), "%s/.sluice-run-XXXXXX", real);
		fd = mkostemp(probe, O_CLOEXEC);
		if (fd >= 0)
			(void)unlink(probe);
	}
	if (fd < 0)
		return sl_fail(-errno, "%s: no file can be made there: %s", dir,
			       strerror(errno));
	close(fd);
	return 0;
}

static int
dirs_set(struct run_plan *plan, const char *dirs, const char *why)
{
	char last[PATH_MAX], space[32];
	const char *colon = strrchr(dirs, ':');
	struct statfs fs;

	snprintf(last, sizeof(last), "%s", colon ? colon + 1 : dirs);
	if (statfs(last, &fs))
		return sl_fail(-errno, "%s: %s", last, strerror(errno));
	sl_size_format((uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize, space, sizeof(space));
	return run_set(plan, "SLUICE_SPILL_DIRS", dirs, "%s; %s free there", why, space);
}

/* What the user names: all of them must do. */
static int
dirs_named(struct run_plan *plan, const char *const *names, size_t n, const char *why)
{
	char dirs[1024] = "", real[PATH_MAX];
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		int rc = dir_check(names[i], real);

		if (rc)
			return sl_fail_in(rc, "%s", why);
		if (used + strlen(real) + 2 > sizeof(dirs))
			return sl_fail(-EINVAL,
				       "%s: the names are longer than %zu bytes together",
				       why, sizeof(dirs) - 1);
		used += (size_t)snprintf(dirs + used, sizeof(dirs) - used, "%s%s",
					 i ? ":" : "", real);
	}
	return dirs_set(plan, dirs, why);
}

static int
dirs_environment(struct run_plan *plan, const char *text)
{
	const char *names[RUN_DIRS_MAX];
	size_t n = 0;
	char *save = NULL;
	SL_CLEANUP(free) char *copy = strdup(text);

	if (!copy)
		return sl_fail(-ENOMEM, "out of memory");
	for (char *dir = strtok_r(copy, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
		if (n == RUN_DIRS_MAX)
			return sl_fail(-EINVAL, "SLUICE_SPILL_DIRS: more than %d directories",
				       RUN_DIRS_MAX);
		names[n++] = dir;
	}
	return n ? dirs_named(plan, names, n, "SLUICE_SPILL_DIRS") : 0;
}

static int
dirs_default(struct run_plan *plan)
{
	const char *candidates[] = {getenv("TMPDIR"), "/var/tmp", "."};
	char real[PATH_MAX];

	for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
		if (!candidates[i] || !candidates[i][0])
			continue;
		if (!dir_check(candidates[i], real))
			return dirs_set(
				plan, real,
				i ? "where memory is spilled to: the first that is on a "
				    "disk"
				  : "where memory is spilled to: TMPDIR");
		run_note(plan, "nothing is spilled to %s", sluice_last_error());
	}
	run_note(plan,
		 "no directory to spill to: device and host memory are all there is "
		 "(--spill-dir DIR)");
	return run_set(plan, "SLUICE_STORE_BUDGET", "0", "no directory to spill to");
}

int
run_budget_plan(struct run_plan *plan, const struct run_options *options)
{
	const char *text = getenv("SLUICE_SPILL_DIRS");
	uint64_t bytes;
	int rc = memory_plan(plan, options);

	if (rc)
		return rc;
	if (options->spill_dir_n)
		return dirs_named(plan, options->spill_dirs, options->spill_dir_n,
				  "--spill-dir");
	/* Nothing will be spilled: no directory is needed. */
	if (options->store_memory && !sl_size_parse(options->store_memory, &bytes) && !bytes)
		return 0;
	return text && *text ? dirs_environment(plan, text) : dirs_default(plan);
}
