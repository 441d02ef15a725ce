/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of the report: report.c gathers and prints, report_stats.c writes the
 * statistics of --stats, announce.c reports settings of frameworks. All other files need only
 * preload.h.
 *
 * Threads: as report.c says; nothing here is shared.
 */
#ifndef SL_PRELOAD_REPORT_H
#define SL_PRELOAD_REPORT_H

#include <stdio.h>

#include "preload/preload.h"

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
