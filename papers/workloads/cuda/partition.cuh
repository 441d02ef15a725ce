/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Partitioning by a digit on a GPU: see ../partition_kernel.h. Part of kernels.cu.
 *
 * A block of threads sorts a block of elements in shared memory. Each thread has
 * PARTITION_THREAD_ELEMENTS of them that follow each other, which keeps their order: digits are
 * counted for each thread, and what comes before a thread's elements of a digit is summed over
 * digits and, within a digit, over threads.
 *
 * Threads: the grid's; a block of it touches what the descriptor in ../partition.c says.
 */
#include "partition_kernel.h"

#define PARTITION_THREAD_ELEMENTS (PARTITION_BLOCK / KERNEL_CUDA_THREADS)

/* The elements of a block as long as it has them: the last one of a tile may be shorter. */
extern "C" __global__ void
__launch_bounds__(KERNEL_CUDA_THREADS)
workload_partition_sort(struct partition_sort_args a)
{
	__shared__ uint32_t keys[PARTITION_BLOCK], values[PARTITION_BLOCK];
	/* Of each digit, of each thread; then how many elements come before. */
	__shared__ uint16_t before[PARTITION_DIGITS][KERNEL_CUDA_THREADS];
	__shared__ uint32_t total[PARTITION_DIGITS], first[PARTITION_DIGITS];
	uint32_t key[PARTITION_THREAD_ELEMENTS], value[PARTITION_THREAD_ELEMENTS];
	const uint32_t t = threadIdx.x, from = t * PARTITION_THREAD_ELEMENTS;
	uint64_t begin, end;
	uint32_t n, mine, i;

	kernel_block_range(blockIdx.x, PARTITION_BLOCK, 0, a.n, &begin, &end);
	n = (uint32_t)(end - begin);
	mine = from < n ? (uint32_t)kernel_min(n - from, PARTITION_THREAD_ELEMENTS) : 0;
	for (i = t; i < n; i += KERNEL_CUDA_THREADS) {
		keys[i] = a.keys[begin + i];
		values[i] = a.values[begin + i];
	}
	for (uint32_t d = 0; d < PARTITION_DIGITS; d++)
		before[d][t] = 0;
	__syncthreads();
#pragma unroll
	for (i = 0; i < PARTITION_THREAD_ELEMENTS; i++) {
		if (i >= mine)
			break;
		key[i] = keys[from + i];
		value[i] = values[from + i];
		before[partition_digit_of(a.digit, key[i])][t]++;
	}
	__syncthreads();
	/* A warp sums up two digits, one behind the other. */
	for (uint32_t d = t / 32; d < PARTITION_DIGITS; d += KERNEL_CUDA_THREADS / 32) {
		uint32_t sum = 0;

		for (uint32_t k = 0; k < KERNEL_CUDA_THREADS; k += 32) {
			uint32_t count = before[d][k + t % 32], up = count;

			for (uint32_t step = 1; step < 32; step *= 2) {
				uint32_t other = __shfl_up_sync(0xffffffffu, up, step);

				if (t % 32 >= step)
					up += other;
			}
			before[d][k + t % 32] = (uint16_t)(sum + up - count);
			sum += __shfl_sync(0xffffffffu, up, 31);
		}
		if (t % 32 == 0)
			total[d] = sum;
	}
	__syncthreads();
	if (t < PARTITION_DIGITS) {
		uint32_t sum = 0;

		for (uint32_t lower = 0; lower < t; lower++)
			sum += total[lower];
		first[t] = sum;
		a.counts[blockIdx.x * (uint64_t)PARTITION_DIGITS + t] = total[t];
	}
	__syncthreads();
#pragma unroll
	for (i = 0; i < PARTITION_THREAD_ELEMENTS; i++) {
		uint32_t d, to;

		if (i >= mine)
			break;
		d = partition_digit_of(a.digit, key[i]);
		to = first[d] + before[d][t]++;
		keys[to] = key[i];
		values[to] = value[i];
	}
	__syncthreads();
	for (i = t; i < n; i += KERNEL_CUDA_THREADS) {
		a.to_keys[begin + i] = keys[i];
		a.to_values[begin + i] = values[i];
	}
}

/* A block for each digit; every thread sums up a stretch of the tile's blocks. */
extern "C" __global__ void
__launch_bounds__(KERNEL_CUDA_THREADS)
workload_partition_scan(struct partition_scan_args a)
{
	__shared__ uint32_t sums[KERNEL_CUDA_THREADS];
	const uint64_t each = (a.blocks + KERNEL_CUDA_THREADS - 1) / KERNEL_CUDA_THREADS;
	const uint64_t begin = kernel_min(a.blocks, threadIdx.x * each);
	const uint64_t end = kernel_min(a.blocks, begin + each);
	uint32_t *counts = a.counts + blockIdx.x;
	uint32_t sum = 0;

	for (uint64_t b = begin; b < end; b++)
		sum += counts[b * PARTITION_DIGITS];
	sums[threadIdx.x] = sum;
	__syncthreads();
	sum = 0;
	for (uint32_t k = 0; k < threadIdx.x; k++)
		sum += sums[k];
	for (uint64_t b = begin; b < end; b++) {
		uint32_t count = counts[b * PARTITION_DIGITS];

		counts[b * PARTITION_DIGITS] = sum;
		sum += count;
	}
	if (threadIdx.x == KERNEL_CUDA_THREADS - 1)
		a.totals[blockIdx.x] = sum;
}

extern "C" __global__ void
__launch_bounds__(KERNEL_CUDA_THREADS)
workload_partition_move(const __grid_constant__ struct partition_move_args a)
{
	__shared__ uint32_t first[PARTITION_DIGITS]; /* where a digit's run begins */
	uint64_t begin, end;
	const uint32_t *before = a.counts + blockIdx.x * (uint64_t)PARTITION_DIGITS;

	kernel_block_range(blockIdx.x, PARTITION_BLOCK, 0, a.n, &begin, &end);
	for (uint64_t i = begin + threadIdx.x; i < end; i += KERNEL_CUDA_THREADS) {
		uint32_t d = partition_digit_of(a.digit, a.keys[i]);

		if (i == begin || partition_digit_of(a.digit, a.keys[i - 1]) != d)
			first[d] = (uint32_t)(i - begin);
	}
	__syncthreads();
	for (uint64_t i = begin + threadIdx.x; i < end; i += KERNEL_CUDA_THREADS) {
		uint32_t key = a.keys[i], d = partition_digit_of(a.digit, key);
		uint32_t to;

		if (d - a.first_digit >= a.n_digits)
			continue;
		to = before[d] + (uint32_t)(i - begin) - first[d];
		a.to_keys[d][to] = key;
		a.to_values[d][to] = a.values[i];
	}
}
