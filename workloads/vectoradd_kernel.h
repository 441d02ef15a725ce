/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vectorAdd: what its kernel is given, for the software device and for CUDA (kernel.h says how
 * the two share it). The arithmetic is one addition.
 *
 * Threads: constant data and pure functions.
 */
#ifndef WORKLOADS_VECTORADD_KERNEL_H
#define WORKLOADS_VECTORADD_KERNEL_H

#include "kernel.h"

struct vectoradd_args {
	const float *a, *b;
	float *c;
	uint64_t first, n;
};

KERNEL_INLINE float
vectoradd_sum(float a, float b)
{
	return a + b;
}

#endif
