/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A runtime program with static cudart that calls cuFFT and cuSOLVER: transforms of several signals
 * forward and back, and linear systems. Knows nothing of Sluice. Prints one line of JSON with sums
 * that must not depend on where memory is.
 *
 *	nvcc -O2 -arch=sm_90 -o libraries libraries.cu -lcufft -lcusolver
 *	libraries [SIGNALS [MEBIBYTES [ROUNDS]]]
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>
#include <cufft.h>
#include <cusolverDn.h>

#define CHECK(call)                                                                     \
	do {                                                                            \
		int code_ = (int)(call);                                                \
		if (code_) {                                                            \
			fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, \
				code_);                                                 \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

__global__ void fill(cufftComplex *a, size_t n, unsigned seed)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x) {
		unsigned x = (unsigned)i * 2654435761u + seed;

		a[i].x = (float)(x >> 16 & 0xff) / 256;
		a[i].y = (float)(x >> 8 & 0xff) / 256;
	}
}

__global__ void scale(cufftComplex *a, size_t n, float by)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x) {
		a[i].x *= by;
		a[i].y *= by;
	}
}

__global__ void sum(const cufftComplex *a, size_t n, double *out)
{
	double s = 0;

	for (size_t i = threadIdx.x; i < n; i += 1024 * 64)
		s += a[i].x - a[i].y;
	out[threadIdx.x] = s;
}

static double now()
{
	return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
		.count();
}

/* Every signal forward and back, and the sum of all. *work_bytes: what the library allocates for it. */
static double transform(std::vector<cufftComplex *> &a, size_t n, double *sums, size_t *work_bytes)
{
	std::vector<double> host(1024);
	double total = 0;
	cufftHandle plan;

	CHECK(cufftPlan1d(&plan, 1 << 20, CUFFT_C2C, (int)(n >> 20)));
	CHECK(cufftGetSize(plan, work_bytes));
	for (cufftComplex *signal : a) {
		CHECK(cufftExecC2C(plan, signal, signal, CUFFT_FORWARD));
		CHECK(cufftExecC2C(plan, signal, signal, CUFFT_INVERSE));
		scale<<<1024, 256>>>(signal, n, 1.0f / (1 << 20));
	}
	for (cufftComplex *signal : a) {
		sum<<<1, 1024>>>(signal, n, sums);
		CHECK(cudaMemcpy(host.data(), sums, 1024 * sizeof(double), cudaMemcpyDeviceToHost));
		for (double v : host)
			total += v;
	}
	CHECK(cufftDestroy(plan));
	return total;
}

/* LU of a diagonally dominant matrix, and the sum of its solution. */
static double solve(int m)
{
	std::vector<float> matrix((size_t)m * m), right(m, 1.0f);
	float *dm, *dr, *work;
	int *pivots, *info, words = 0;
	cusolverDnHandle_t solver;
	double solution = 0;

	for (size_t i = 0; i < matrix.size(); i++)
		matrix[i] = (float)((i * 2654435761u >> 20) & 0xff) / 256 + (i % (m + 1) ? 0 : m);
	CHECK(cusolverDnCreate(&solver));
	CHECK(cudaMalloc(&dm, matrix.size() * sizeof(float)));
	CHECK(cudaMalloc(&dr, m * sizeof(float)));
	CHECK(cudaMalloc(&pivots, m * sizeof(int)));
	CHECK(cudaMalloc(&info, sizeof(int)));
	CHECK(cudaMemcpy(dm, matrix.data(), matrix.size() * sizeof(float), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(dr, right.data(), m * sizeof(float), cudaMemcpyHostToDevice));
	CHECK(cusolverDnSgetrf_bufferSize(solver, m, m, dm, m, &words));
	CHECK(cudaMalloc(&work, (size_t)words * sizeof(float)));
	CHECK(cusolverDnSgetrf(solver, m, m, dm, m, work, pivots, info));
	CHECK(cusolverDnSgetrs(solver, CUBLAS_OP_N, m, 1, dm, m, pivots, dr, m, info));
	CHECK(cudaMemcpy(right.data(), dr, m * sizeof(float), cudaMemcpyDeviceToHost));
	for (float v : right)
		solution += v;
	CHECK(cudaFree(work));
	CHECK(cudaFree(info));
	CHECK(cudaFree(pivots));
	CHECK(cudaFree(dr));
	CHECK(cudaFree(dm));
	CHECK(cusolverDnDestroy(solver));
	return solution;
}

int main(int argc, char **argv)
{
	int signals = argc > 1 ? atoi(argv[1]) : 8, rounds = argc > 3 ? atoi(argv[3]) : 5;
	size_t n = (size_t)(argc > 2 ? atoi(argv[2]) : 512) << 17; /* complex numbers of 8 bytes */
	std::vector<cufftComplex *> a(signals);
	std::vector<double> seconds;
	double *sums, total = 0, solution = 0;
	size_t work_bytes = 0; /* more than the linear system takes */

	CHECK(cudaMalloc(&sums, 1024 * sizeof(double)));
	for (int i = 0; i < signals; i++) {
		CHECK(cudaMalloc(&a[i], n * sizeof(cufftComplex)));
		fill<<<1024, 256>>>(a[i], n, 77u * (unsigned)i);
	}
	CHECK(cudaDeviceSynchronize());
	for (int r = 0; r < rounds; r++) {
		double start = now();

		total = transform(a, n, sums, &work_bytes);
		solution = solve(2048);
		CHECK(cudaDeviceSynchronize());
		seconds.push_back(now() - start);
	}
	printf("{\"program\": \"libraries\", \"seconds\": [");
	for (size_t i = 0; i < seconds.size(); i++)
		printf("%s%.6f", i ? ", " : "", seconds[i]);
	printf("], \"answers\": {\"transforms\": \"%a\", \"solution\": \"%a\"}, \"peak_bytes\": %zu}\n",
	       total, solution, (size_t)signals * n * sizeof(cufftComplex) + work_bytes);
	return 0;
}
