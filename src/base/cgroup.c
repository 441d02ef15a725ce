/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups with a memory controller (see cgroup.h).
 *
 * Version 1 keeps memory in a hierarchy of its own, version 2 in its only one. A machine may
 * have both mounted; then only one of them has the memory controller. /proc/self/cgroup has a
 * process's group, relative to the root in /proc/self/mountinfo. Inside a container that root is
 * often the container's own group, and its parents cannot be seen.
 *
 * Mounts are looked up once in a process: programs that share memory read it a hundred times a second.
 */
#include "base/cgroup.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Where a hierarchy is mounted, and which of its directories is its root here. */
struct mount {
	char point[PATH_MAX];
	char root[PATH_MAX];
};

static struct mount mounts[2]; /* by version - 1; set once */

void
sl_mount_unescape(char *text)
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
words_have(char *list, const char *word)
{
	char *save = NULL;

	for (char *each = strtok_r(list, ",", &save); each; each = strtok_r(NULL, ",", &save))
		if (strcmp(each, word) == 0)
			return 1;
	return 0;
}

static void
mount_find(int v2, struct mount *out)
{
	SL_CLEANUP(free) char *line = NULL;
	FILE *table = fopen("/proc/self/mountinfo", "re");
	size_t room = 0;
	int found = 0;

	while (table && !found && getline(&line, &room, table) > 0) {
		char kind[64], options[512] = "";
		char *dash = strstr(line, " - ");

		if (!dash || sscanf(dash, " - %63s %*s %511s", kind, options) < 1 ||
		    sscanf(line, "%*s %*s %*s %4095s %4095s", out->root, out->point) != 2)
			continue;
		sl_mount_unescape(out->point);
		sl_mount_unescape(out->root);
		found = v2 ? strcmp(kind, "cgroup2") == 0
			   : strcmp(kind, "cgroup") == 0 && words_have(options, "memory");
		found = found &&
			!access(out->point, F_OK); /* else something is mounted over it */
	}
	if (table)
		fclose(table);
	if (found)
		return;
	/* A container may not show it: the usual place. */
	snprintf(out->point, sizeof(out->point), "/sys/fs/cgroup%s", v2 ? "" : "/memory");
	snprintf(out->root, sizeof(out->root), "/");
}

static void
mounts_find(void)
{
	for (int v2 = 0; v2 <= 1; v2++)
		mount_find(v2, &mounts[v2]);
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
			found = words_have(controllers, "memory");
		if (found)
			snprintf(place, place_bytes, "%s", where);
	}
	fclose(file);
	return found;
}

int
sl_cgroup_own(int v2, struct sl_cgroup *out)
{
	char place[PATH_MAX];
	const char *below = place;
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const struct mount *mount = &mounts[v2];
	size_t root_chars;

	pthread_once(&once, mounts_find);
	if (!place_find(v2, place, sizeof(place)))
		return 0;
	root_chars = strcmp(mount->root, "/") == 0 ? 0 : strlen(mount->root);
	if (strncmp(place, mount->root, root_chars) == 0)
		below = place + root_chars;
	out->root_chars = strlen(mount->point);
	return (size_t)snprintf(out->dir, sizeof(out->dir), "%s%s", mount->point,
				strcmp(below, "/") == 0 ? "" : below) < sizeof(out->dir);
}

int
sl_cgroup_up(struct sl_cgroup *group)
{
	char *slash = strrchr(group->dir, '/');

	if (!slash || strlen(group->dir) <= group->root_chars)
		return 0;
	*slash = '\0';
	return 1;
}

/* A number in a file; UINT64_MAX for "max" and what cannot be read. */
static uint64_t
group_number(const char *dir, const char *name)
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

/* What one group says. */
static void
memory_of(const struct sl_cgroup *group, int v2, struct sl_cgroup_memory *out)
{
	uint64_t limit = group_number(group->dir,
				      v2 ? "memory.max" : "memory.limit_in_bytes");
	uint64_t used = group_number(group->dir,
				     v2 ? "memory.current" : "memory.usage_in_bytes");
	uint64_t left;
	struct stat st;

	if (used != UINT64_MAX)
		out->seen = 1;
	/* Version 1 writes "no limit" as a number near 2^63. */
	if (limit >= UINT64_C(1) << 60)
		return;
	if (limit < out->most_bytes) {
		out->most_bytes = limit;
		out->most_group = stat(group->dir, &st) ? 0 : st.st_ino;
	}
	left = used < limit ? limit - used : 0;
	if (left < out->left_bytes) {
		out->left_bytes = left;
		out->limit_bytes = limit;
		snprintf(out->at, sizeof(out->at), "%s", group->dir);
	}
}

void
sl_cgroup_memory_read(struct sl_cgroup_memory *out)
{
	memset(out, 0, sizeof(*out));
	out->most_bytes = out->left_bytes = out->limit_bytes = UINT64_MAX;
	for (int v2 = 0; v2 <= 1; v2++) {
		struct sl_cgroup group;

		if (!sl_cgroup_own(v2, &group))
			continue;
		do
			memory_of(&group, v2, out);
		while (sl_cgroup_up(&group));
	}
}
