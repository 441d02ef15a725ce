/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory limits of control groups (see cgroup.h).
 *
 * Version 1 keeps memory in a hierarchy of its own, version 2 in its only one. A machine may
 * have both mounted; then only one of them has the memory controller. /proc/self/cgroup has a
 * process's group, relative to the root in /proc/self/mountinfo. Inside a container that root is
 * often the container's own group, and its parents cannot be seen.
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

/* Where a hierarchy is mounted, and which of its directories is its root here. */
struct mount {
	char point[PATH_MAX];
	char root[PATH_MAX];
	int v2;
};

void
mount_unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; from++) {
		if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' &&
		    from[2] >= '0' && from[2] <= '7' && from[3] >= '0' && from[3] <= '7') {
			*to++ = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 +
				       (from[3] - '0'));
			from += 3;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
}

/* 1 when word is one of the comma-separated words of list, which is cut up. */
static int
list_has(char *list, const char *word)
{
	char *save = NULL;

	for (char *each = strtok_r(list, ",", &save); each; each = strtok_r(NULL, ",", &save))
		if (strcmp(each, word) == 0)
			return 1;
	return 0;
}

static int
mount_find(int v2, struct mount *out)
{
	SL_CLEANUP(free) char *line = NULL;
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	size_t room = 0;
	int found = 0;

	if (!mounts)
		return 0;
	while (!found && getline(&line, &room, mounts) > 0) {
		char kind[64], options[512] = "";
		char *dash = strstr(line, " - ");

		if (!dash || sscanf(dash, " - %63s %*s %511s", kind, options) < 1 ||
		    sscanf(line, "%*s %*s %*s %4095s %4095s", out->root, out->point) != 2)
			continue;
		if (v2)
			found = strcmp(kind, "cgroup2") == 0;
		else
			found = strcmp(kind, "cgroup") == 0 &&
				list_has(options, "memory");
	}
	fclose(mounts);
	if (!found)
		return 0;
	mount_unescape(out->point);
	mount_unescape(out->root);
	out->v2 = v2;
	return 1;
}

/* This process's place in a hierarchy, as /proc/self/cgroup has it. */
static int
place_find(int v2, char *place, size_t place_bytes)
{
	SL_CLEANUP(free) char *line = NULL;
	FILE *file = fopen("/proc/self/cgroup", "re");
	size_t room = 0;
	int found = 0;

	if (!file)
		return 0;
	while (!found && getline(&line, &room, file) > 0) {
		char *controllers = strchr(line, ':'), *where;

		if (!controllers)
			continue;
		where = strchr(++controllers, ':');
		if (!where)
			continue;
		*where++ = '\0';
		where[strcspn(where, "\n")] = '\0';
		if (v2)
			found = strncmp(line, "0:", 2) == 0 && !*controllers;
		else
			found = list_has(controllers, "memory");
		if (found)
			snprintf(place, place_bytes, "%s", where);
	}
	fclose(file);
	return found;
}

/* The directory of this process's group in a hierarchy. 0: there is none. */
static int
own_dir(int v2, struct mount *mount, char *dir, size_t dir_bytes)
{
	char place[PATH_MAX];
	const char *below = place;
	size_t root_chars;

	if (!mount_find(v2, mount) || !place_find(v2, place, sizeof(place)))
		return 0;
	root_chars = strcmp(mount->root, "/") == 0 ? 0 : strlen(mount->root);
	if (strncmp(place, mount->root, root_chars) == 0)
		below = place + root_chars;
	return (size_t)snprintf(dir, dir_bytes, "%s%s", mount->point,
				strcmp(below, "/") == 0 ? "" : below) < dir_bytes;
}

/* Cut dir to the group above; 0 when it was the hierarchy's root already. */
static int
dir_up(const struct mount *mount, char *dir)
{
	char *slash = strrchr(dir, '/');

	if (!slash || strlen(dir) <= strlen(mount->point))
		return 0;
	*slash = '\0';
	return 1;
}

/* A number in a file; UINT64_MAX for "max" and what cannot be read. */
static uint64_t
number_read(const char *dir, const char *name)
{
	char path[PATH_MAX + 64];
	uint64_t value;
	FILE *file;
	int got;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "re");
	if (!file)
		return UINT64_MAX;
	got = fscanf(file, "%" SCNu64, &value);
	fclose(file);
	return got == 1 ? value : UINT64_MAX;
}

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

void
cgroup_memory_read(struct cgroup_memory *out)
{
	memset(out, 0, sizeof(*out));
	out->left_bytes = out->limit_bytes = UINT64_MAX;
	for (int v2 = 0; v2 <= 1; v2++) {
		char dir[PATH_MAX];
		struct mount mount;

		if (!own_dir(v2, &mount, dir, sizeof(dir)))
			continue;
		do {
			uint64_t limit = number_read(dir, v2 ? "memory.max"
							     : "memory.limit_in_bytes");
			uint64_t used = number_read(dir, v2 ? "memory.current"
							    : "memory.usage_in_bytes");
			uint64_t left;

			if (used != UINT64_MAX)
				out->seen = 1;
			/* Version 1 writes "no limit" as a number near 2^63. */
			if (limit >= UINT64_C(1) << 60)
				continue;
			left = used < limit ? limit - used : 0;
			if (left < out->left_bytes) {
				out->left_bytes = left;
				out->limit_bytes = limit;
				snprintf(out->at, sizeof(out->at), "%s", dir);
			}
		} while (dir_up(&mount, dir));
	}
}

int
cgroup_limit_create(const char *name, uint64_t bytes, struct cgroup_limit *out)
{
	int rc = -ENOTSUP;

	for (int v2 = 0; v2 <= 1; v2++) {
		const char *limit_file = v2 ? "memory.max" : "memory.limit_in_bytes";
		char dir[PATH_MAX];
		struct mount mount;

		if (!own_dir(v2, &mount, dir, sizeof(dir)))
			continue;
		do {
			if ((size_t)snprintf(out->dir, sizeof(out->dir), "%s/%s", dir,
					     name) >= sizeof(out->dir))
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
		} while (v2 && dir_up(&mount, dir));
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
