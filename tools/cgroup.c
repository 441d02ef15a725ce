/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups with a memory limit (see cgroup.h).
 *
 * No locks, no state.
 */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define DESTROY_TRIES 250 /* times 20 ms */

static int
number_write(const char *dir, const char *name, uint64_t value)
{
	char path[PATH_MAX + 64], text[32];
	SL_CLEANUP(close) int fd = -1;
	int chars = snprintf(text, sizeof(text), "%" PRIu64, value);

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, (size_t)chars) != chars)
		return sl_fail(-errno, "%s: %s", path, sl_errno_name(errno));
	return 0;
}

int
cgroup_limit_create(const char *name, uint64_t bytes, struct cgroup_limit *out)
{
	int rc = -ENOTSUP;

	for (int v2 = 0; v2 <= 1; v2++) {
		const char *limit_file = v2 ? "memory.max" : "memory.limit_in_bytes";
		struct sl_cgroup group;

		if (!sl_cgroup_own(v2, &group))
			continue;
		do {
			if ((size_t)snprintf(out->dir, sizeof(out->dir), "%s/%s",
					     group.dir, name) >= sizeof(out->dir))
				continue;
			if (mkdir(out->dir, 0755)) {
				/* The first refusal is the one that says most. */
				if (rc == -ENOTSUP)
					rc = sl_fail(-errno, "%s: %s", out->dir,
						     sl_errno_name(errno));
				continue;
			}
			/* Version 2: the file is there only where the controller is handed down. */
			if (!number_write(out->dir, limit_file, bytes))
				return 0;
			rmdir(out->dir);
		} while (v2 && sl_cgroup_up(&group));
	}
	if (rc == -ENOTSUP)
		return sl_fail(rc, "no control group here takes a memory limit");
	return rc;
}

int
cgroup_limit_enter(const struct cgroup_limit *limit)
{
	return number_write(limit->dir, "cgroup.procs", (uint64_t)getpid());
}

int
cgroup_limit_destroy(const struct cgroup_limit *limit)
{
	struct timespec pause = {.tv_nsec = 20000000};

	for (int i = 0; i < DESTROY_TRIES; i++) {
		if (rmdir(limit->dir) == 0 || errno == ENOENT)
			return 0;
		if (errno != EBUSY) /* a process is still ending */
			break;
		nanosleep(&pause, NULL);
	}
	return sl_fail(-errno, "%s: %s", limit->dir, sl_errno_name(errno));
}
