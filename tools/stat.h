/* SPDX-License-Identifier: Apache-2.0 */
/* What a process answered to `sluice stat`, and its forms (stat_openmetrics.c). */
#ifndef SL_TOOLS_STAT_H
#define SL_TOOLS_STAT_H

#include <stddef.h>
#include <stdint.h>

#include "sluice/stats.h"

struct stat_region {
	char *name, *addr;
	char flags[64];
	uint64_t size_bytes, device_bytes, host_bytes, store_bytes, empty_bytes, dirty_bytes;
};

/* One space of a process at one moment. */
struct stat_sample {
	char *command, *policy;
	uint64_t pid, space, now_ns, chunk_bytes, staging_bytes, region_count;
	struct sluice_stats stats;
	struct stat_region *regions;
	size_t region_n;
};

/*
 * The samples in the OpenMetrics text format, to path or, NULL, to standard output. command NULL: the
 * process pid did not answer. A file is complete at every moment: it is replaced as a whole. 0 or
 * -errno with a text.
 */
int stat_openmetrics(const struct stat_sample *samples, size_t n, const char *path);

#endif
