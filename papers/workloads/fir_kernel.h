/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fir: what its kernels are given, and one step of the sum, for the software device and for CUDA
 * (kernel.h says how the two share it). Sums run over the coefficients upwards.
 *
 * Threads: constant data and pure functions.
 */
#ifndef WORKLOADS_FIR_KERNEL_H
#define WORKLOADS_FIR_KERNEL_H

#include "kernel.h"

#define FIR_TAPS_MAX 64u

/* The head of the constant data. */
struct fir_state {
	float h[FIR_TAPS_MAX];
	float history[2][FIR_TAPS_MAX]; /* the taps - 1 samples before a window, oldest first */
};

struct fir_args {
	const float *x; /* window */
	float *y;
	struct fir_state *state;
	uint64_t n; /* elements of the window: at least FIR_TAPS_MAX */
	uint32_t taps;
	uint32_t turn; /* history[turn] is read, the other one written */
};

struct fir_init_args {
	float *constant;
	uint64_t n;
	float h[FIR_TAPS_MAX];
	uint32_t taps;
};

KERNEL_INLINE float
fir_first(float h, float x)
{
	return h * x;
}

KERNEL_INLINE float
fir_add(float sum, float h, float x)
{
	return sum + h * x;
}

#endif
