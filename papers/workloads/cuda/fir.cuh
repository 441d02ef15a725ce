/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of fir.c: see kernels.cu. */
#include "fir_kernel.h"

extern "C" __global__ void
workload_fir_init(struct fir_init_args a)
{
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, KERNEL_CUDA_ELEMENTS, 0, a.n, &begin, &end);
	for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
		a.constant[i] = i < a.taps ? a.h[i] : 0.0f;
}

extern "C" __global__ void
workload_fir(struct fir_args a)
{
	const float *__restrict__ x = a.x;
	const float *before = a.state->history[a.turn];
	__shared__ float h[FIR_TAPS_MAX];
	const uint32_t past = a.taps - 1;
	uint64_t begin, end;

	if (threadIdx.x < a.taps)
		h[threadIdx.x] = a.state->h[threadIdx.x];
	__syncthreads();
	kernel_block_range(blockIdx.x, KERNEL_CUDA_ELEMENTS, 0, a.n, &begin, &end);
	for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
		float sum = fir_first(h[0], x[i]);

		if (i >= past)
			for (uint32_t j = 1; j < a.taps; j++)
				sum = fir_add(sum, h[j], x[i - j]);
		else /* the first outputs have their past in another window */
			for (uint32_t j = 1; j < a.taps; j++)
				sum = fir_add(sum, h[j], i >= j ? x[i - j] : before[past + i - j]);
		a.y[i] = sum;
	}
	if (end == a.n && begin < end && threadIdx.x < past)
		a.state->history[1 - a.turn][threadIdx.x] = x[a.n - past + threadIdx.x];
}
