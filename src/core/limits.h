/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that this process may use: the machine's, or its cgroup's if that is less. */
#ifndef SL_CORE_LIMITS_H
#define SL_CORE_LIMITS_H

#include <stdint.h>

/* Most bytes the process may ever hold. Reads /proc and /sys/fs/cgroup (v1 and v2). */
uint64_t sl_memory_limit(void);

/* Bytes free for use now: MemAvailable, or what the cgroup has left, the smaller. */
uint64_t sl_memory_available(void);

#endif
