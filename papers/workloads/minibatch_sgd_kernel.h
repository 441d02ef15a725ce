/* SPDX-License-Identifier: Apache-2.0 */
/*
 * minibatch: what its kernels are given, and the arithmetic of a row, for the software device and
 * for CUDA (kernel.h says how the two share it).
 *
 * A row is a sample of a linear support vector machine with its label, 1 or -1, multiplied in: the
 * label itself (the factor of the bias), then the features. The margin of a row is its product with
 * the weights, added up in lanes and then over the lanes, in this order on every device. A row
 * whose margin is below 1 pulls the weights towards itself.
 *
 * Threads: constant data and pure functions.
 */
#ifndef WORKLOADS_MINIBATCH_SGD_KERNEL_H
#define WORKLOADS_MINIBATCH_SGD_KERNEL_H

#include "kernel.h"

#define SGD_FEATURES    128u /* of a row, with the bias */
#define SGD_LANES       16u
#define SGD_SLICE       64u /* rows that are added up together */
#define SGD_RECORDS_MAX 16u /* of a batch */

/* Add up the rows below the margin, slice by slice. */
struct sgd_gradient_args {
	const float *record[SGD_RECORDS_MAX];
	const float *weights;
	float *sums;                /* SGD_FEATURES for each slice of the batch */
	uint64_t rows, record_rows; /* of the batch; of a record: a multiple of SGD_SLICE */
};

/* Change the weights. */
struct sgd_update_args {
	const float *sums;
	float *weights;
	uint64_t slices; /* 0: make the weights 0 */
	float keep, rate;
};

KERNEL_INLINE float
sgd_margin(const float *row, const float *weights)
{
	float lane[SGD_LANES] = {0};
	float sum = 0;

	for (uint32_t f = 0; f < SGD_FEATURES; f += SGD_LANES)
		for (uint32_t l = 0; l < SGD_LANES; l++)
			lane[l] = lane[l] + row[f + l] * weights[f + l];
	for (uint32_t l = 0; l < SGD_LANES; l++)
		sum = sum + lane[l];
	return sum;
}

KERNEL_INLINE float
sgd_update(float weight, float keep, float rate, float sum)
{
	return weight * keep + rate * sum;
}

#endif
