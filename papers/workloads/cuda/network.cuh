/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network on a GPU: what is done to tensors but for the products of matrices, see
 * ../network_kernel.h. Part of kernels.cu.
 *
 * A block works on a few rows, its threads on neighbouring channels. Sums down the columns of a
 * group of rows are made by lanes, each of which takes one of several rows in turn; the lanes' sums are
 * added up in their order, so that the result is the same every time.
 *
 * Threads: the grid's; a block of it touches what the descriptors in ../network_kernels.c say.
 */
#include "network_kernel.h"

/* The rows of a block, as numbers of the tensor: i goes over them, row and col say where it is. */
struct network_rows {
	uint64_t first;
	uint32_t n, cols;
};

static __device__ __forceinline__ struct network_rows
network_rows_of(const struct network_args &a, uint32_t cols)
{
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, NETWORK_ROWS, 0, a.rows, &begin, &end);
	return {begin, (uint32_t)(end - begin) * cols, cols};
}

static __device__ __forceinline__ void
network_put(const struct network_args &a, uint64_t at, float v)
{
	a.out[at] = a.mode == NETWORK_ADD_TO ? a.out[at] + v : v;
}

extern "C" __global__ void
workload_network_window(const __grid_constant__ struct network_args a)
{
	const struct network_rows r = network_rows_of(a, a.cols);

	for (uint32_t i = threadIdx.x; i < r.n; i += blockDim.x)
		a.out[r.first * r.cols + i] = network_window(&a, r.first + i / r.cols, i % r.cols);
}

extern "C" __global__ void
workload_network_window_back(const __grid_constant__ struct network_args a)
{
	const struct network_rows r = network_rows_of(a, a.c);

	for (uint32_t i = threadIdx.x; i < r.n; i += blockDim.x)
		network_put(a, r.first * r.cols + i,
			    network_window_back(&a, r.first + i / r.cols, i % r.cols));
}

extern "C" __global__ void
workload_network_activate(const __grid_constant__ struct network_args a)
{
	const struct network_rows r = network_rows_of(a, a.cols);
	float *y = a.out + r.first * r.cols;

	for (uint32_t i = threadIdx.x; i < r.n; i += blockDim.x)
		y[i] = network_activate(a.act, y[i] + a.w[i % r.cols]);
}

extern "C" __global__ void
workload_network_norm(const __grid_constant__ struct network_args a)
{
	const struct network_rows r = network_rows_of(a, a.cols);
	const uint64_t at = r.first * r.cols;

	for (uint32_t i = threadIdx.x; i < r.n; i += blockDim.x) {
		uint32_t c = i % r.cols;
		float normal = network_normal(a.x[at + i], a.s, r.cols, c);

		a.out[at + i] = network_activate(a.act, normal * a.w[r.cols + c] + a.w[c]);
	}
}

extern "C" __global__ void
workload_network_norm_back(const __grid_constant__ struct network_args a)
{
	const struct network_rows r = network_rows_of(a, a.cols);
	const uint64_t at = r.first * r.cols;

	for (uint32_t i = threadIdx.x; i < r.n; i += blockDim.x) {
		uint32_t c = i % r.cols;
		float g = a.d[at + i] * network_slope(a.act, a.y[at + i]);
		float normal = network_normal(a.x[at + i], a.s, r.cols, c);

		a.out[at + i] = network_normal_back(g, normal, a.w[r.cols + c],
						    a.s[r.cols + c], a.g, r.cols, c, a.all);
	}
}

/* What one row adds to the two sums of a column. */
static __device__ __forceinline__ void
network_sums_add(const struct network_args &a, uint64_t row, uint32_t c, float *first,
		 float *second)
{
	const uint64_t at = row * a.cols + c;

	if (a.mode == NETWORK_SUM_MOMENTS) {
		float x = a.x[at];

		*first = *first + x;
		*second = *second + x * x;
		return;
	}
	float g = a.d[at] * network_slope(a.act, a.y[at]);

	*first = *first + g;
	if (a.mode == NETWORK_SUM_BIAS)
		a.out[at] = g;
	else
		*second = *second + g * network_normal(a.x[at], a.s, a.cols, c);
}

extern "C" __global__ void
__launch_bounds__(KERNEL_CUDA_THREADS)
workload_network_sums(const __grid_constant__ struct network_args a)
{
	__shared__ float firsts[KERNEL_CUDA_THREADS], seconds[KERNEL_CUDA_THREADS];
	const uint32_t width = a.cols < KERNEL_CUDA_THREADS ? a.cols : KERNEL_CUDA_THREADS;
	const uint32_t lanes = KERNEL_CUDA_THREADS / width;
	const uint32_t lane = threadIdx.x / width, mine = threadIdx.x % width;
	const uint32_t kinds = a.mode == NETWORK_SUM_BIAS ? 1 : 2;
	float *to = a.part + (uint64_t)blockIdx.x * kinds * a.cols;
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, NETWORK_SUM_ROWS, 0, a.rows, &begin, &end);
	for (uint32_t c0 = 0; c0 < a.cols; c0 += width) {
		const uint32_t c = c0 + mine;
		float first = 0, second = 0;

		if (lane < lanes && c < a.cols)
			for (uint64_t row = begin + lane; row < end; row += lanes)
				network_sums_add(a, row, c, &first, &second);
		firsts[threadIdx.x] = first;
		seconds[threadIdx.x] = second;
		__syncthreads();
		if (lane == 0 && c < a.cols) {
			for (uint32_t l = 1; l < lanes; l++) {
				first = first + firsts[l * width + mine];
				second = second + seconds[l * width + mine];
			}
			to[c] = first;
			if (kinds == 2)
				to[a.cols + c] = second;
		}
		__syncthreads();
	}
}

/*
 * A column's sums of all groups, by lanes; the result is the first lane's. width: numbers of a
 * group. For whole blocks.
 */
static __device__ __forceinline__ double
network_column_sum(const struct network_args &a, uint64_t width, uint64_t col, int is_column,
		   double (*shared)[NETWORK_COLUMNS])
{
	const uint32_t lane = threadIdx.x / NETWORK_COLUMNS, mine = threadIdx.x % NETWORK_COLUMNS;
	const uint32_t lanes = KERNEL_CUDA_THREADS / NETWORK_COLUMNS;
	double sum = 0;

	if (is_column)
		for (uint64_t group = lane; group < a.all; group += lanes)
			sum = sum + (double)a.part[group * width + col];
	__syncthreads();
	shared[lane][mine] = sum;
	__syncthreads();
	for (uint32_t l = 1; lane == 0 && l < lanes; l++)
		sum = sum + shared[l][mine];
	return sum;
}

extern "C" __global__ void
__launch_bounds__(KERNEL_CUDA_THREADS)
workload_network_reduce(const __grid_constant__ struct network_args a)
{
	__shared__ double shared[KERNEL_CUDA_THREADS / NETWORK_COLUMNS][NETWORK_COLUMNS];
	const uint32_t c = blockIdx.x * NETWORK_COLUMNS + threadIdx.x % NETWORK_COLUMNS;
	double sum = network_column_sum(a, a.cols, c, c < a.cols, shared);

	if (threadIdx.x < NETWORK_COLUMNS && c < a.cols)
		network_put(a, c, (float)sum);
}

extern "C" __global__ void
__launch_bounds__(KERNEL_CUDA_THREADS)
workload_network_moments(const __grid_constant__ struct network_args a)
{
	__shared__ double shared[KERNEL_CUDA_THREADS / NETWORK_COLUMNS][NETWORK_COLUMNS];
	const uint32_t c = blockIdx.x * NETWORK_COLUMNS + threadIdx.x % NETWORK_COLUMNS;
	double sum = network_column_sum(a, 2 * a.cols, c, c < a.cols, shared);
	double squares = network_column_sum(a, 2 * a.cols, a.cols + c, c < a.cols, shared);

	if (threadIdx.x < NETWORK_COLUMNS && c < a.cols) {
		a.out[c] = network_mean(sum, a.rows);
		a.out[a.cols + c] = network_inverse(sum, squares, a.rows);
	}
}

extern "C" __global__ void
workload_network_pool(const __grid_constant__ struct network_args a)
{
	const struct network_rows r = network_rows_of(a, a.c);

	for (uint32_t i = threadIdx.x; i < r.n; i += blockDim.x)
		a.out[r.first * r.cols + i] = network_pool(
			&a, network_pool_first(&a, r.first + i / r.cols, i % r.cols));
}

extern "C" __global__ void
workload_network_pool_back(const __grid_constant__ struct network_args a)
{
	const struct network_rows r = network_rows_of(a, a.c);

	for (uint32_t i = threadIdx.x; i < r.n; i += blockDim.x)
		network_pool_back(&a, network_pool_first(&a, r.first + i / r.cols, i % r.cols),
				  a.y[r.first * r.cols + i], a.d[r.first * r.cols + i]);
}

extern "C" __global__ void
workload_network_average(const __grid_constant__ struct network_args a)
{
	for (uint32_t c = threadIdx.x; c < a.c; c += blockDim.x)
		a.out[(uint64_t)blockIdx.x * a.c + c] = network_average(&a, blockIdx.x, c);
}

extern "C" __global__ void
workload_network_average_back(const __grid_constant__ struct network_args a)
{
	const uint32_t n = a.h * a.w_pixels;
	const float *d = a.d + (uint64_t)blockIdx.x * a.c;
	float *to = a.out + (uint64_t)blockIdx.x * n * a.c;

	for (uint32_t i = threadIdx.x; i < n * a.c; i += blockDim.x)
		to[i] = d[i % a.c] / (float)n;
}

extern "C" __global__ void
workload_network_add(const __grid_constant__ struct network_args a)
{
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, KERNEL_CUDA_ELEMENTS, 0, a.rows, &begin, &end);
	for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
		network_put(a, i, a.mode == NETWORK_ADD_TWO ? a.x[i] + a.y[i] : a.x[i]);
}

extern "C" __global__ void
workload_network_loss(const __grid_constant__ struct network_args a)
{
	const uint64_t row = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;

	if (row < a.rows)
		a.part[row] = network_loss(a.x + row * a.cols, a.cols, kernel_bits(a.y[row]),
					   a.all, a.out + row * a.cols);
}

extern "C" __global__ void
workload_network_update(const __grid_constant__ struct network_args a)
{
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, KERNEL_CUDA_ELEMENTS, 0, a.rows, &begin, &end);
	for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
		a.out[i] = a.out[i] - a.rate * a.g[i];
}
