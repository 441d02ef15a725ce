/* SPDX-License-Identifier: Apache-2.0 */
/*
 * --timeline: the run as trace events for Perfetto (timeline.c). timings.c brings the work of
 * streams, the core its events. Without --timeline nothing here is called while the program runs.
 *
 * Threads: any.
 */
#ifndef SL_PRELOAD_TIMELINE_H
#define SL_PRELOAD_TIMELINE_H

#include <stdint.h>

#include "preload/report/timings.h"

struct pl_gpu;

/* The GPU's space was just made: its events go to the timeline, if that is asked for. What fails
 * is said. */
void pl_timeline_open(struct pl_gpu *gpu);
/* Work is over. begin_ns 0: nobody knows when it was. Under the lock of timings.c. */
void pl_timeline_told(const struct pl_timing *timing, uint64_t begin_ns, uint64_t ns);
/* Work whose time could not be taken. */
void pl_timeline_untimed(void);
/* At exit: write what is left, and say where the file is. Blocks on the file, for 10 s at most. */
void pl_timeline_close(void);

#endif
