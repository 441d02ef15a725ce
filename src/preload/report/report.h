/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the report: report.c gathers and prints, report_stats.c writes the
 * statistics of --stats, announce.c reports settings of frameworks. Other files need
 * pl_report_init() and pl_report_start() only.
 *
 * Threads: as report.c says; nothing here is shared.
 */
#ifndef SL_PRELOAD_REPORT_H
#define SL_PRELOAD_REPORT_H

#include <stdio.h>

#include "preload/report/counters.h"

struct pl_gpu;

/* The program's cuInit() returned result: from here on there is something to tell at exit. Call it
 * once the driver has registered its own exit handlers, so that ours run before them. */
void pl_report_init(int result);
/* The space of this GPU was just made: the line of what was chosen. */
void pl_report_start(const struct pl_gpu *gpu);

/* Functions that were launched, what cost most first. */
struct pl_functions {
	struct pl_function_stats *all;
	size_t n, room;
	size_t left_out; /* beyond a bound, or for want of memory */
};

void pl_functions_get(struct pl_functions *list);
void pl_functions_put(struct pl_functions *list);

uint64_t pl_counter(enum pl_counter counter);

/* The next GPU with a space after *device, which begins at -1; NULL: no more. */
struct pl_gpu *pl_report_gpu_next(int *device);

/*
 * Write the statistics to the path of the settings, whole or not at all. ended: at exit; then a file
 * that is there already stays, and ours gets the process's number behind its name. init_result: what
 * cuInit() returned. Failures are said. Blocks on the file.
 */
void pl_stats_write(int ended, int init_result, double seconds);

/* What cuDriverGetVersion() said when cuInit() returned; 0: no driver. */
int pl_report_driver_version(void);

/* announce.c: a line for each setting of the launcher that met its framework in this process. */
void pl_frameworks_announce(void);

#endif
