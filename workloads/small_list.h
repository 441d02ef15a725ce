/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workloads of `sluice bench`, each defined in its own file. A program that links workloads
 * defines workloads_list[] with those that it wants: `sluice` in tools/bench_workloads.c.
 *
 * Threads: constant data.
 */
#ifndef WORKLOADS_SMALL_LIST_H
#define WORKLOADS_SMALL_LIST_H

#include "workload.h"

extern const struct workload workload_vectoradd;
extern const struct workload workload_hotspot;
extern const struct workload workload_pathfinder;
extern const struct workload workload_srad;

#endif
