/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory limits of the process: total memory and the limits of its cgroup and every ancestor,
 * for cgroup v2 (memory.max) and v1 (memory.limit_in_bytes). Missing files do not limit.
 */
#include "core/limits.h"

#include <stdio.h>
#include <string.h>

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

/* The smallest limit, and the least left, from this group up to the root. */
static void
group_walk(const char *root, char *group, const char *limit_name, const char *usage_name,
	   uint64_t *limit, uint64_t *left)
{
	char path[1536];

	for (;;) {
		char *slash = strrchr(group, '/');
		uint64_t max, used;

		snprintf(path, sizeof(path), "%s%s/%s", root, group, limit_name);
		max = file_number(path, UINT64_MAX);
		snprintf(path, sizeof(path), "%s%s/%s", root, group, usage_name);
		used = file_number(path, 0);
		if (max < *limit)
			*limit = max;
		if (max != UINT64_MAX && (max > used ? max - used : 0) < *left)
			*left = max > used ? max - used : 0;
		if (!slash)
			return;
		*slash = '\0';
	}
}

static void
cgroup_limits(uint64_t *limit, uint64_t *left)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[1280];

	*limit = *left = UINT64_MAX;
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
				   "memory.current", limit, left);
		else if (strstr(controllers + 1, "memory"))
			group_walk("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
				   "memory.usage_in_bytes", limit, left);
	}
	fclose(f);
}

uint64_t
sl_memory_limit(void)
{
	uint64_t total = meminfo("MemTotal"), limit, left;

	cgroup_limits(&limit, &left);
	return limit < total ? limit : total;
}

uint64_t
sl_memory_available(void)
{
	uint64_t available = meminfo("MemAvailable"), limit, left;

	cgroup_limits(&limit, &left);
	return left < available ? left : available;
}
