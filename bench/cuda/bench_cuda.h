/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of bench_cuda. */
#ifndef BENCH_CUDA_H
#define BENCH_CUDA_H

#include "cuda/cuda_test.h"

/* bench_cuda.c. Median of n numbers, which are sorted. */
double median(double *v, int n);
/* Print a figure; limit 0: it stands against nothing, and of says what it is. */
void report(const char *name, double value, const char *unit, double limit, const char *of);

/*
 * map_cost.c. Report what the driver takes to map a chunk of device memory, and of host memory, with access
 * for the device, and to unmap it; with nothing else under way, and while copies go in or out. Context current;
 * ends the program when the driver refuses something.
 */
void map_costs(const struct cuda_test *t);

#endif
