/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workloads' kernels for a GPU: loops and indices around the arithmetic of ../NAME_kernel.h,
 * which the software device shares. Compiled by nvcc to PTX with -fmad=false (kernel.h says why);
 * cuda_run.c loads it.
 *
 * A grid is one-dimensional, a block of it works on a piece of the elements and never on more than
 * the descriptor in NAME.c says that it touches: the stand-in driver of the tests runs the
 * software device's loops over exactly those pieces.
 *
 * sluice-papers has more workloads: papers/workloads/cuda/kernels.cu includes this file.
 */
#include <stdint.h>

#include "hotspot_kernel.h"
#include "pathfinder_kernel.h"
#include "srad_kernel.h"
#include "vectoradd_kernel.h"

extern "C" __global__ void
workload_vectoradd(struct vectoradd_args v)
{
	const float *__restrict__ a = v.a;
	const float *__restrict__ b = v.b;
	float *__restrict__ c = v.c;
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, KERNEL_CUDA_ELEMENTS, v.first, v.n, &begin, &end);
#pragma unroll 4
	for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
		c[i] = vectoradd_sum(a[i], b[i]);
}

extern "C" __global__ void
workload_hotspot(struct hotspot_args h)
{
	const float *__restrict__ temp = h.temp;
	const float *__restrict__ power = h.power;
	float *__restrict__ out = h.out;
	const uint64_t r = h.r;
	uint64_t i, end;

	kernel_block_range(blockIdx.x, KERNEL_CUDA_ELEMENTS, h.first, h.n, &i, &end);
	while (i < end) { /* a row, or a part of one */
		uint64_t y = i / r, x0 = i % r;
		uint64_t x1 = kernel_min(r, x0 + (end - i));
		const float *row = temp + y * r;
		const float *north = y > 0 ? row - r : row;
		const float *south = y + 1 < r ? row + r : row;

		i += x1 - x0;
#pragma unroll 4
		for (uint64_t x = x0 + threadIdx.x; x < x1; x += blockDim.x)
			out[y * r + x] = hotspot_cell(&h.k, row[x], power[y * r + x], north[x],
						      south[x], row[x > 0 ? x - 1 : x],
						      row[x + 1 < r ? x + 1 : x]);
	}
}

extern "C" __global__ void
workload_pathfinder_row(struct pathfinder_args p)
{
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, PATHFINDER_CUDA_COLUMNS_1, 0, p.cols, &begin, &end);
	for (uint64_t x = begin + threadIdx.x; x < end; x += blockDim.x)
		p.to[x] = pathfinder_cell(p.data[x], p.from[x > 0 ? x - 1 : x], p.from[x],
					  p.from[x + 1 < p.cols ? x + 1 : x]);
}

extern "C" __global__ void
workload_pathfinder_rows(struct pathfinder_args p)
{
	__shared__ int32_t buffer[2][PATHFINDER_CUDA_COLUMNS_N + 2 * PATHFINDER_ROWS_MAX];
	uint64_t begin, end, base, x0, x1;

	kernel_block_range(blockIdx.x, PATHFINDER_CUDA_COLUMNS_N, 0, p.cols, &begin, &end);
	pathfinder_reach(&p, begin, end, &x0, &x1);
	base = x0;
	for (uint64_t x = x0 + threadIdx.x; x < x1; x += blockDim.x)
		buffer[0][x - base] = p.from[x];
	for (uint64_t row = 0; row < p.n_rows; row++) {
		const int32_t *from = buffer[row % 2];
		int32_t *to = buffer[(row + 1) % 2];
		const int32_t *data = p.data + row * p.cols;

		__syncthreads();
		/* Each row has one column less to go on either side, except at an edge. */
		if (x0 > 0)
			x0++;
		if (x1 < p.cols)
			x1--;
		for (uint64_t x = x0 + threadIdx.x; x < x1; x += blockDim.x) {
			uint32_t i = (uint32_t)(x - base);

			to[i] = pathfinder_cell(data[x], from[x > 0 ? i - 1 : i], from[i],
						from[x + 1 < p.cols ? i + 1 : i]);
		}
	}
	__syncthreads();
	for (uint64_t x = begin + threadIdx.x; x < end; x += blockDim.x)
		p.to[x] = buffer[p.n_rows % 2][x - base];
}

extern "C" __global__ void
workload_srad_gradient(struct srad_args a)
{
	const float *__restrict__ j = a.j;
	const uint64_t r = a.r;
	uint64_t i, end;

	kernel_block_range(blockIdx.x, KERNEL_CUDA_ELEMENTS, a.first, a.count, &i, &end);
	while (i < end) {
		uint64_t y = i / r, x0 = i % r;
		uint64_t x1 = kernel_min(r, x0 + (end - i));
		const float *row = j + y * r;
		const float *north = y > 0 ? row - r : row;
		const float *south = y + 1 < r ? row + r : row;

		i += x1 - x0;
		for (uint64_t x = x0 + threadIdx.x; x < x1; x += blockDim.x) {
			uint64_t at = y * r + x;
			float here = row[x];
			float dn = north[x] - here, ds = south[x] - here;
			float dw = row[x > 0 ? x - 1 : x] - here;
			float de = row[x + 1 < r ? x + 1 : x] - here;

			a.n[at] = dn;
			a.s[at] = ds;
			a.w[at] = dw;
			a.e[at] = de;
			a.c[at] = srad_coefficient(here, dn, ds, dw, de, a.q0);
		}
	}
}

extern "C" __global__ void
workload_srad_update(struct srad_args a)
{
	const float *__restrict__ c = a.c;
	const uint64_t r = a.r;
	uint64_t i, end;

	kernel_block_range(blockIdx.x, KERNEL_CUDA_ELEMENTS, a.first, a.count, &i, &end);
	while (i < end) {
		uint64_t y = i / r, x0 = i % r;
		uint64_t x1 = kernel_min(r, x0 + (end - i));
		uint64_t south = y + 1 < r ? r : 0;

		i += x1 - x0;
		for (uint64_t x = x0 + threadIdx.x; x < x1; x += blockDim.x) {
			uint64_t at = y * r + x;

			a.j[at] = srad_updated(a.j[at], c[at], c[at + south],
					       c[x + 1 < r ? at + 1 : at], a.n[at], a.s[at],
					       a.w[at], a.e[at]);
		}
	}
}
