/* SPDX-License-Identifier: Apache-2.0 */
/*
 * minibatch on a GPU: the gradient of a batch and the change of the weights, see
 * ../minibatch_sgd_kernel.h. Part of kernels.cu.
 *
 * A block of threads adds up a slice: first a thread for each row asks whether the row counts, then
 * a thread for each feature goes down the rows. The slice is in shared memory for both; rows there
 * are one number longer, so that neighbouring threads do not hit the same bank.
 *
 * Threads: the grid's; a block of it touches what the descriptors in ../minibatch_sgd.c say.
 */
#include "minibatch_sgd_kernel.h"

extern "C" __global__ void
__launch_bounds__(KERNEL_CUDA_THREADS)
workload_sgd_gradient(const __grid_constant__ struct sgd_gradient_args a)
{
	__shared__ float rows[SGD_SLICE][SGD_FEATURES + 1], weights[SGD_FEATURES];
	__shared__ uint8_t counts[SGD_SLICE];
	const uint64_t first = blockIdx.x * (uint64_t)SGD_SLICE;
	const float *from = a.record[first / a.record_rows] + first % a.record_rows * SGD_FEATURES;
	const uint32_t t = threadIdx.x;

	for (uint32_t i = t; i < SGD_SLICE * SGD_FEATURES; i += KERNEL_CUDA_THREADS)
		rows[i / SGD_FEATURES][i % SGD_FEATURES] = from[i];
	if (t < SGD_FEATURES)
		weights[t] = a.weights[t];
	__syncthreads();
	if (t < SGD_SLICE)
		counts[t] = sgd_margin(rows[t], weights) < 1.0f;
	__syncthreads();
	if (t < SGD_FEATURES) {
		float sum = 0;

		for (uint32_t r = 0; r < SGD_SLICE; r++)
			if (counts[r])
				sum = sum + rows[r][t];
		a.sums[(first / SGD_SLICE) * SGD_FEATURES + t] = sum;
	}
}

extern "C" __global__ void
workload_sgd_update(struct sgd_update_args a)
{
	const uint32_t f = blockIdx.x * 32 + threadIdx.x;
	float sum = 0;

	if (threadIdx.x >= 32 || f >= SGD_FEATURES)
		return;
	for (uint64_t s = 0; s < a.slices; s++)
		sum = sum + a.sums[s * SGD_FEATURES + f];
	a.weights[f] = a.slices ? sgd_update(a.weights[f], a.keep, a.rate, sum) : 0.0f;
}
