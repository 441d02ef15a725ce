/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups, both versions: where this process's group is, and the memory that it and the groups
 * above it leave.
 *
 * Threads: any. Nothing here fails: what cannot be read does not limit.
 */
#ifndef SL_BASE_CGROUP_H
#define SL_BASE_CGROUP_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

/* A group, by its directory. */
struct sl_cgroup {
	char dir[PATH_MAX];
	size_t root_chars; /* of dir, that are the hierarchy's root */
};

/* This process's group in the hierarchy of version 2 (v2: 1), or in that of version 1's memory controller.
 * 0: there is none. */
int sl_cgroup_own(int v2, struct sl_cgroup *out);
/* The group above; 0: there is none. */
int sl_cgroup_up(struct sl_cgroup *group);

struct sl_cgroup_memory {
	int seen;            /* 1: there is a memory controller at all */
	uint64_t most_bytes; /* the smallest limit from this process up; UINT64_MAX: no limit */
	uint64_t most_group; /* inode of the group with that limit; 0: unknown */
	uint64_t left_bytes; /* of the tightest group from this process up; UINT64_MAX: no limit */
	uint64_t limit_bytes; /* that group's limit */
	char at[PATH_MAX];    /* that group's directory; "" without a limit */
};

/* Of both hierarchies. Reads files of /proc and /sys/fs/cgroup. */
void sl_cgroup_memory_read(struct sl_cgroup_memory *out);

/* Undo the \ooo escapes of mount tables, in place. */
void sl_mount_unescape(char *text);

#endif
