/* SPDX-License-Identifier: Apache-2.0 */
/*
 * binomialOptions's kernels for a GPU; a part of kernels.cu, which says how the two devices share
 * them.
 *
 * A warp prices one option at a time: each of its 32 threads holds a run of the tree's level in
 * registers, and a step back needs one value of the next thread's run. A run is as long as the
 * deepest tree of the kernel needs; what lies beyond the level in work flows into nothing.
 */
#include "binomial_options_kernel.h"

#define WARP_THREADS 32u
#define WARP_ALL     0xffffffffu

/* Of a tree of at most WARP_THREADS * RUN steps; the value is thread 0's. */
template <int RUN>
static __device__ __forceinline__ float
binomial_tree(const struct binomial_option &o, uint32_t steps, uint32_t lane)
{
	float value[RUN];

	/* The leaves and, at once, the first step back: steps values. */
#pragma unroll
	for (int k = 0; k < RUN; k++) {
		uint32_t i = lane * RUN + k;

		value[k] = i < steps ? binomial_back(o.up, o.down,
						     binomial_leaf(&o, i + 1, steps),
						     binomial_leaf(&o, i, steps))
				     : 0.0f;
	}
	for (uint32_t left = steps - 1; left > 0; left--) {
		float next = __shfl_down_sync(WARP_ALL, value[0], 1);

#pragma unroll
		for (int k = 0; k + 1 < RUN; k++)
			value[k] = binomial_back(o.up, o.down, value[k + 1], value[k]);
		value[RUN - 1] = binomial_back(o.up, o.down, next, value[RUN - 1]);
	}
	return value[0];
}

template <int RUN>
static __device__ __forceinline__ void
binomial_block(const struct binomial_args &b)
{
	const uint32_t lane = threadIdx.x % WARP_THREADS;
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, BINOMIAL_CUDA_OPTIONS, b.first, b.n, &begin, &end);
	for (uint64_t i = begin + threadIdx.x / WARP_THREADS; i < end;
	     i += blockDim.x / WARP_THREADS) {
		const struct binomial_option o = b.option[i];
		float value = binomial_tree<RUN>(o, b.steps, lane);

		if (lane == 0)
			b.call[i] = value;
	}
}

extern "C" __global__ void
workload_binomial_options_shallow(struct binomial_args b)
{
	binomial_block<BINOMIAL_STEPS_SHALLOW / WARP_THREADS>(b);
}

extern "C" __global__ void
workload_binomial_options_middle(struct binomial_args b)
{
	binomial_block<BINOMIAL_STEPS_MIDDLE / WARP_THREADS>(b);
}

extern "C" __global__ void
workload_binomial_options_deep(struct binomial_args b)
{
	binomial_block<BINOMIAL_STEPS_MAX / WARP_THREADS>(b);
}
