/* SPDX-License-Identifier: Apache-2.0 */
/*
 * binomialOptions: what its kernel is given, and the arithmetic of a binomial tree, for the software
 * device and for CUDA (kernel.h says how the two share it).
 *
 * Threads: constant data and pure functions.
 */
#ifndef WORKLOADS_BINOMIAL_OPTIONS_KERNEL_H
#define WORKLOADS_BINOMIAL_OPTIONS_KERNEL_H

#include "kernel_math.h"

/* Steps of the deepest tree of each of the three kernels: on a GPU they differ in registers. */
#define BINOMIAL_STEPS_SHALLOW 64u
#define BINOMIAL_STEPS_MIDDLE  256u
#define BINOMIAL_STEPS_MAX     2048u

/* One option each to a warp of a GPU's block; options of a block of its grid. */
#define BINOMIAL_CUDA_OPTIONS 64u

/* An option as the generator prepares it: five floats of the file. */
struct binomial_option {
	float price, strike;
	float step;     /* volatility times the root of a step's time */
	float up, down; /* probabilities of a step up and down, discounted */
};

struct binomial_args {
	const struct binomial_option *option;
	float *call;
	uint64_t first, n;
	uint32_t steps;
};

/* What the option is worth at the end after i steps up and steps - i down. */
KERNEL_INLINE float
binomial_leaf(const struct binomial_option *o, uint32_t i, uint32_t steps)
{
	float moves = (float)(2 * (int32_t)i - (int32_t)steps);
	float profit = o->price * kernel_exp(o->step * moves) - o->strike;

	return profit > 0.0f ? profit : 0.0f;
}

/* What it is worth a step before it is worth above or below. */
KERNEL_INLINE float
binomial_back(float up, float down, float above, float below)
{
	return up * above + down * below;
}

#endif
