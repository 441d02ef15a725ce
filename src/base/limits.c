/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory limits of the process: total memory and the limits of its cgroup and every ancestor,
 * for cgroup v2 (memory.max) and v1 (memory.limit_in_bytes). Missing files do not limit.
 */
#include "base/limits.h"

#include <stdio.h>
#include <string.h>

#include "base/cgroup.h"

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

void
sl_memory_read(struct sl_memory *out)
{
	struct sl_cgroup_memory found;

	sl_cgroup_memory_read(&found);
	*out = (struct sl_memory){meminfo("MemTotal"), meminfo("MemAvailable"), 0};
	if (found.left_bytes < out->available_bytes)
		out->available_bytes = found.left_bytes;
	if (found.most_bytes >= out->total_bytes)
		return;
	out->total_bytes = found.most_bytes;
	out->group = found.most_group;
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
