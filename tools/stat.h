/* SPDX-License-Identifier: Apache-2.0 */
/* What live processes answer to `sluice stat` and `sluice top` (stat_ask.c), and its forms. */
#ifndef SL_TOOLS_STAT_H
#define SL_TOOLS_STAT_H

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "sluice/stats.h"

struct stat_region {
	char *name, *addr;
	char flags[64];
	uint64_t size_bytes, device_bytes, host_bytes, store_bytes, empty_bytes, dirty_bytes;
};

/* One space of a process at one moment. */
struct stat_sample {
	char *command, *policy;
	char *device;      /* "soft", "cuda"; NULL: an older process does not say */
	char *device_uuid; /* of a GPU; NULL, "": it has none, or does not say */
	uint64_t device_number;
	uint64_t pid, space, now_ns, chunk_bytes, staging_bytes, region_count;
	struct sluice_stats stats;
	struct stat_region *regions;
	size_t region_n;
};

/* One published space of one process. */
struct stat_target {
	int pid;
	unsigned number; /* from 1 */
};

#define STAT_TARGETS_MAX 1024 /* published spaces on this machine that are looked at */

/*
 * The published spaces of pid, or of all processes (0), in order. How many, at most
 * STAT_TARGETS_MAX; -errno when the kernel's table cannot be read.
 */
int stat_targets_find(int pid, struct stat_target *targets);

/*
 * Ask a target. as_json: print its answer, too, in one line. stat_sample_fini() is safe after all.
 * -errno with a text: -ESRCH it has ended, -ENOENT it does not publish, -EACCES it is another user's,
 * -ETIMEDOUT it is stopped or does not answer. Blocks for two seconds at most.
 */
int stat_target_sample(const struct stat_target *target, struct stat_sample *sample,
		       int as_json);
void stat_sample_fini(struct stat_sample *sample);

extern const char *const stat_tiers[SLUICE_TIER_COUNT]; /* names of the tiers */

/*
 * The option --count ('c') or --interval of a command, from optarg. 0, or the exit code of a wrong
 * value, which is said.
 */
int stat_rhythm_take(const char *command, const struct option *option, double *interval_s,
		     uint64_t *count);
struct timespec stat_pause(double interval_s);

/* Name of a process as the kernel has it; "?" when it is gone. */
void stat_process_name(int pid, char *name, size_t name_bytes);

/* stat_openmetrics.c */
/*
 * The samples in the OpenMetrics text format, to path or, NULL, to standard output. command NULL: the
 * process pid did not answer. A file is complete at every moment: it is replaced as a whole. 0 or
 * -errno with a text.
 */
int stat_openmetrics(const struct stat_sample *samples, size_t n, const char *path);

#endif
