/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backprop: what its kernels are given, and the arithmetic of one weight, for the software device
 * and for CUDA (kernel.h says how the two share it).
 *
 * Threads: constant data and pure functions.
 */
#ifndef WORKLOADS_BACKPROP_KERNEL_H
#define WORKLOADS_BACKPROP_KERNEL_H

#include "kernel.h"

#define BACKPROP_HIDDEN 16u /* hidden units */
#define BACKPROP_ROW \
	(BACKPROP_HIDDEN + 1) /* weights of an input; the first is not used */
#define BACKPROP_GROUP 16u    /* inputs whose products are summed together */

#define BACKPROP_CUDA_GROUPS 16u /* of one block of a GPU's grid */

/* An element is a group. Input and weight rows are numbered from 1: 0 is the bias. */
struct backprop_forward_args {
	const float *input, *weights;
	float *partial; /* one for each group and hidden unit */
	uint64_t first, n;
};

struct backprop_adjust_args {
	const float *input;
	float *weights, *previous;
	uint64_t first, n;
	float momentum;
	float delta[BACKPROP_HIDDEN]; /* errors of the hidden units */
};

/* How much a weight changes; previous: how much it did the last time. */
KERNEL_INLINE float
backprop_change(float delta, float input, float momentum, float previous)
{
	return 0.3f * delta * input + momentum * previous;
}

#endif
