/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory limits of the process: total memory and the limits of its cgroup and every ancestor,
 * for cgroup v2 (memory.max) and v1 (memory.limit_in_bytes). Missing files do not limit.
 */
#include "core/limits.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* A number from a file, "max" counts as no limit. */
static uint64_t
file_number(const char *path, uint64_t missing)
{
	FILE *f = fopen(path, "re");
	unsigned long long n;
	uint64_t out = missing;

	if (!f)
		return missing;
	if (fscanf(f, "%llu", &n) == 1)
		out = n;
	fclose(f);
	return out;
}

static uint64_t
meminfo(const char *key)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];
	uint64_t out = UINT64_MAX;
	size_t n = strlen(key);

	if (!f)
		return out;
	while (fgets(line, sizeof(line), f)) {
		unsigned long long kib;

		if (!strncmp(line, key, n) && line[n] == ':' &&
		    sscanf(line + n + 1, "%llu", &kib) == 1)
			out = kib * 1024;
	}
	fclose(f);
	return out;
}

struct group_limits {
	uint64_t limit, left;
	uint64_t group; /* the inode of the one with that limit */
};

/* The smallest limit, and the least left, from this group up to the root. */
static void
group_walk(const char *root, char *group, const char *limit_name, const char *usage_name,
	   struct group_limits *found)
{
	char path[1536];
	struct stat st;

	for (;;) {
		char *slash = strrchr(group, '/');
		uint64_t max, used;

		snprintf(path, sizeof(path), "%s%s/%s", root, group, limit_name);
		max = file_number(path, UINT64_MAX);
		snprintf(path, sizeof(path), "%s%s/%s", root, group, usage_name);
		used = file_number(path, 0);
		if (max < found->limit) {
			found->limit = max;
			snprintf(path, sizeof(path), "%s%s", root, group);
			found->group = stat(path, &st) ? 0 : st.st_ino;
		}
		if (max != UINT64_MAX && (max > used ? max - used : 0) < found->left)
			found->left = max > used ? max - used : 0;
		if (!slash)
			return;
		*slash = '\0';
	}
}

static void
cgroup_limits(struct group_limits *found)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[1280];

	*found = (struct group_limits){UINT64_MAX, UINT64_MAX, 0};
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		char *controllers = strchr(line, ':');
		char *group = controllers ? strchr(controllers + 1, ':') : NULL;

		if (!group)
			continue;
		*group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		if (!strcmp(controllers + 1, ""))
			group_walk("/sys/fs/cgroup", group, "memory.max",
				   "memory.current", found);
		else if (strstr(controllers + 1, "memory"))
			group_walk("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
				   "memory.usage_in_bytes", found);
	}
	fclose(f);
}

void
sl_memory_read(struct sl_memory *out)
{
	struct group_limits found;

	cgroup_limits(&found);
	*out = (struct sl_memory){meminfo("MemTotal"), meminfo("MemAvailable"), 0};
	if (found.left < out->available_bytes)
		out->available_bytes = found.left;
	if (found.limit >= out->total_bytes)
		return;
	out->total_bytes = found.limit;
	out->group = found.group;
}

uint64_t
sl_memory_limit(void)
{
	struct sl_memory memory;

	sl_memory_read(&memory);
	return memory.total_bytes;
}

uint64_t
sl_memory_available(void)
{
	struct sl_memory memory;

	sl_memory_read(&memory);
	return memory.available_bytes;
}
