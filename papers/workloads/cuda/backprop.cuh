/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backprop's kernels for a GPU; a part of kernels.cu, which says how the two devices share them. A
 * block has a thread for each of the 16 x 16 products of a group, and works on its groups one after
 * the other.
 */
#include "backprop_kernel.h"

extern "C" __global__ void
workload_backprop_forward(struct backprop_forward_args f)
{
	__shared__ float products[BACKPROP_GROUP][BACKPROP_HIDDEN];
	const uint32_t h = threadIdx.x % BACKPROP_HIDDEN, i = threadIdx.x / BACKPROP_HIDDEN;
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, BACKPROP_CUDA_GROUPS, f.first, f.n, &begin, &end);
	for (uint64_t g = begin; g < end; g++) {
		uint64_t row = g * BACKPROP_GROUP + i + 1;

		products[i][h] = f.weights[row * BACKPROP_ROW + 1 + h] * f.input[row];
		for (uint32_t step = 1; step < BACKPROP_GROUP; step *= 2) {
			__syncthreads();
			if (i % (2 * step) == 0)
				products[i][h] += products[i + step][h];
		}
		if (i == 0)
			f.partial[g * BACKPROP_HIDDEN + h] = products[0][h];
		__syncthreads();
	}
}

/* A weight and its previous change, as pointers to them. */
static __device__ __forceinline__ void
backprop_adjust_one(float *weight, float *previous, float delta, float input, float momentum)
{
	float change = backprop_change(delta, input, momentum, *previous);

	*weight += change;
	*previous = change;
}

extern "C" __global__ void
workload_backprop_adjust(struct backprop_adjust_args a)
{
	const uint32_t h = threadIdx.x % BACKPROP_HIDDEN, i = threadIdx.x / BACKPROP_HIDDEN;
	float *__restrict__ weights = a.weights + 1 + h;
	float *__restrict__ previous = a.previous + 1 + h;
	float delta = 0.0f;
	uint64_t begin, end;

#pragma unroll
	for (uint32_t k = 0; k < BACKPROP_HIDDEN; k++) /* no index that is known only here */
		delta = k == h ? a.delta[k] : delta;
	kernel_block_range(blockIdx.x, BACKPROP_CUDA_GROUPS, a.first, a.n, &begin, &end);
	if (begin == 0 && i == 0) /* the bias goes with the first group */
		backprop_adjust_one(weights, previous, delta, 1.0f, a.momentum);
#pragma unroll 4
	for (uint64_t g = begin; g < end; g++) {
		uint64_t row = g * BACKPROP_GROUP + i + 1;

		backprop_adjust_one(&weights[row * BACKPROP_ROW], &previous[row * BACKPROP_ROW],
				    delta, a.input[row], a.momentum);
	}
}
