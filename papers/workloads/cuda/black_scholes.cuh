/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BlackScholes's kernel for a GPU; a part of kernels.cu, which says how the two devices share it.
 * Each thread prices two neighbouring options at a time.
 */
#include "black_scholes_kernel.h"

extern "C" __global__ void
workload_black_scholes(struct black_scholes_args b)
{
	const float2 *__restrict__ price = (const float2 *)b.price;
	const float2 *__restrict__ strike = (const float2 *)b.strike;
	const float2 *__restrict__ years = (const float2 *)b.years;
	float2 *__restrict__ call = (float2 *)b.call;
	float2 *__restrict__ put = (float2 *)b.put;
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, BLACK_SCHOLES_CUDA_PAIRS, b.first, b.n, &begin, &end);
	for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
		float2 s = price[i], x = strike[i], t = years[i], c, p;

		black_scholes_option(s.x, x.x, t.x, &c.x, &p.x);
		black_scholes_option(s.y, x.y, t.y, &c.y, &p.y);
		call[i] = c;
		put[i] = p;
	}
}
