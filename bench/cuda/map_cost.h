/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver takes to change a mapping (map_cost.c). */
#ifndef BENCH_CUDA_MAP_COST_H
#define BENCH_CUDA_MAP_COST_H

#include "cuda/cuda_test.h"

/*
 * Measure and hand on a figure each, in microseconds: a chunk of device memory, and of host memory, mapped
 * with access for the device, and unmapped; with nothing else under way, and while copies go in or out. Context
 * current; ends the program when the driver refuses something.
 */
void map_costs(const struct cuda_test *t,
	       void (*tell)(const char *name, double microseconds));

#endif
