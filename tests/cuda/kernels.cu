/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the tests of the CUDA device; kernels.c has their C twins. */
#include <cstdint>

__device__ static uint64_t
first()
{
	return blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
}

__device__ static uint64_t
step()
{
	return gridDim.x * (uint64_t)blockDim.x;
}

extern "C" __global__ void
test_fill(uint64_t *p, uint64_t n, uint64_t seed)
{
	for (uint64_t i = first(); i < n; i += step())
		p[i] = i * 0x9e3779b97f4a7c15ull + seed;
}

extern "C" __global__ void
test_add(uint64_t *p, uint64_t n, uint64_t v)
{
	for (uint64_t i = first(); i < n; i += step())
		p[i] += v;
}

extern "C" __global__ void
test_sum(const uint64_t *p, uint64_t n, unsigned long long *out)
{
	unsigned long long sum = 0;

	for (uint64_t i = first(); i < n; i += step())
		sum += p[i];
	for (int d = 16; d; d /= 2)
		sum += __shfl_down_sync(0xffffffffu, sum, d);
	if (threadIdx.x % 32 == 0)
		atomicAdd(out, sum);
}

extern "C" __global__ void
test_copy(const uint64_t *p, uint64_t n, uint64_t *q)
{
	for (uint64_t i = first(); i < n; i += step())
		q[i] = p[i];
}

extern "C" __global__ void
test_delay(const uint64_t *p, uint64_t n, uint64_t ns)
{
	uint64_t start, now;

	(void)p;
	(void)n;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
	do
		asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	while (now - start < ns);
}
