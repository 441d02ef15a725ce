/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that this process may use: the machine's, or its cgroup's if that is less. */
#ifndef SL_BASE_LIMITS_H
#define SL_BASE_LIMITS_H

#include <stdint.h>

/* Most bytes the process may ever hold. Reads /proc and /sys/fs/cgroup (v1 and v2). */
uint64_t sl_memory_limit(void);

/* What the machine, and the tightest group above this process, have now. */
struct sl_memory {
	uint64_t total_bytes, available_bytes;
	uint64_t group; /* that group's inode; 0: no group has less than the machine */
};

/* Reads as sl_memory_limit(). What cannot be read does not limit. */
void sl_memory_read(struct sl_memory *out);

/* Of so many free bytes, what pinned memory may take. The rest is for what programs have beside it, and for files
 * in memory. */
static inline uint64_t
sl_host_usable_bytes(uint64_t bytes)
{
	return bytes / 4 * 3;
}

/* Bytes free for use now: MemAvailable, or what the cgroup has left, the smaller. */
uint64_t sl_memory_available(void);

#endif
