/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels of the tests of the CUDA device; kernels.c has their C twins. */
#include <cstdint>

#include "sluice/sluice_device.cuh"

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

/* Blocks take tiles in turn; each is fetched, summed, given back. add: written, too. */
extern "C" __global__ void
test_fetch(struct sluice_fetch_view f, uint64_t *p, uint64_t n, uint64_t tile, uint64_t add,
	   unsigned long long *out, unsigned long long *failed)
{
	for (uint64_t at = blockIdx.x * tile; at < n; at += gridDim.x * tile) {
		uint64_t end = at + tile < n ? at + tile : n;
		unsigned long long sum = 0;
		int rc = sluice_acquire(f, p + at, (end - at) * 8,
					add ? SLUICE_USE_READ_WRITE : SLUICE_USE_READ);

		if (rc) {
			if (threadIdx.x == 0)
				atomicAdd(failed, 1ull);
			continue;
		}
		for (uint64_t i = at + threadIdx.x; i < end; i += blockDim.x) {
			sum += p[i];
			if (add)
				p[i] += add;
		}
		for (int d = 16; d; d /= 2)
			sum += __shfl_down_sync(0xffffffffu, sum, d);
		if (threadIdx.x % 32 == 0)
			atomicAdd(out, sum);
		sluice_release(f);
	}
}

/* What a block may not do: acquire twice, and ask for what is in no region. */
extern "C" __global__ void
test_fetch_wrong(struct sluice_fetch_view f, uint64_t *p, unsigned long long *rcs)
{
	int first = sluice_acquire(f, p, 4096, SLUICE_USE_READ);
	int resident = sluice_resident(f, p, 4096);
	int second = sluice_acquire(f, p, 4096, SLUICE_USE_READ);
	int nowhere;

	sluice_release(f);
	nowhere = sluice_acquire(f, (const void *)4096, 4096, SLUICE_USE_READ);
	if (threadIdx.x == 0) {
		rcs[0] = (unsigned long long)(long long)first;
		rcs[1] = (unsigned long long)(long long)resident;
		rcs[2] = (unsigned long long)(long long)second;
		rcs[3] = (unsigned long long)(long long)nowhere;
	}
}
