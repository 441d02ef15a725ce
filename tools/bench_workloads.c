/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workloads of `sluice bench` and `sluice demo`. A new one is a file in workloads/ that defines a
 * struct workload (vectoradd.c is the shortest), a line in workloads/small_list.h, and one here.
 *
 * Threads: constant data.
 */
#include "small_list.h"

const struct workload *const workloads_list[] = {
	&workload_vectoradd,
	&workload_hotspot,
	&workload_pathfinder,
	&workload_srad,
	NULL,
};
