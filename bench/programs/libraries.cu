/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A runtime program with static cudart that calls cuFFT and cuSOLVER: transforms of several signals
 * forward and back, and linear systems. Knows nothing of Sluice. Prints one line of JSON with sums
 * that must not depend on where memory is.
 *
 *	nvcc -O2 -o libraries libraries.cu -lcufft -lcusolver
 *	libraries [SIGNALS [MEBIBYTES]]
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

__global__ void sum(const cufftComplex *a, size_t n, double *out)
{
	double s = 0;

	for (size_t i = threadIdx.x; i < n; i += 1024 * 64)
		s += a[i].x - a[i].y;
	out[threadIdx.x] = s;
}

int main(int argc, char **argv)
{
	int signals = argc > 1 ? atoi(argv[1]) : 8;
	size_t n = (size_t)(argc > 2 ? atoi(argv[2]) : 512) << 17; /* complex numbers of 8 bytes */
	const int m = 2048;
	std::vector<cufftComplex *> a(signals);
	std::vector<double> host(1024);
	double *sums, total = 0;
	cufftHandle plan;

	CHECK(cudaMalloc(&sums, 1024 * sizeof(double)));
	for (int i = 0; i < signals; i++) {
		CHECK(cudaMalloc(&a[i], n * sizeof(**a.data())));
		fill<<<1024, 256>>>(a[i], n, 77u * (unsigned)i);
	}
	CHECK(cudaDeviceSynchronize());
	auto start = std::chrono::steady_clock::now();
	CHECK(cufftPlan1d(&plan, 1 << 20, CUFFT_C2C, (int)(n >> 20)));
	for (int i = 0; i < signals; i++) {
		CHECK(cufftExecC2C(plan, a[i], a[i], CUFFT_FORWARD));
		CHECK(cufftExecC2C(plan, a[i], a[i], CUFFT_INVERSE));
	}
	for (int i = 0; i < signals; i++) {
		sum<<<1, 1024>>>(a[i], n, sums);
		CHECK(cudaMemcpy(host.data(), sums, 1024 * sizeof(double), cudaMemcpyDeviceToHost));
		for (double v : host)
			total += v;
	}
	CHECK(cufftDestroy(plan));

	/* Systems: LU of a diagonally dominant matrix, and its solution. */
	std::vector<float> matrix((size_t)m * m), right(m, 1.0f);
	for (size_t i = 0; i < matrix.size(); i++)
		matrix[i] = (float)((i * 2654435761u >> 20) & 0xff) / 256 + (i % (m + 1) ? 0 : m);
	float *dm, *dr, *work;
	int *pivots, *info, bytes = 0;
	cusolverDnHandle_t solver;

	CHECK(cusolverDnCreate(&solver));
	CHECK(cudaMalloc(&dm, matrix.size() * sizeof(float)));
	CHECK(cudaMalloc(&dr, m * sizeof(float)));
	CHECK(cudaMalloc(&pivots, m * sizeof(int)));
	CHECK(cudaMalloc(&info, sizeof(int)));
	CHECK(cudaMemcpy(dm, matrix.data(), matrix.size() * sizeof(float), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(dr, right.data(), m * sizeof(float), cudaMemcpyHostToDevice));
	CHECK(cusolverDnSgetrf_bufferSize(solver, m, m, dm, m, &bytes));
	CHECK(cudaMalloc(&work, (size_t)bytes * sizeof(float)));
	CHECK(cusolverDnSgetrf(solver, m, m, dm, m, work, pivots, info));
	CHECK(cusolverDnSgetrs(solver, CUBLAS_OP_N, m, 1, dm, m, pivots, dr, m, info));
	CHECK(cudaMemcpy(right.data(), dr, m * sizeof(float), cudaMemcpyDeviceToHost));
	double solution = 0;
	for (float v : right)
		solution += v;
	CHECK(cudaDeviceSynchronize());
	double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

	printf("{\"program\": \"libraries\", \"seconds\": [%.6f], \"sums\": [\"%a\", \"%a\"], "
	       "\"peak_bytes\": %zu}\n", seconds, total, solution,
	       (size_t)signals * n * sizeof(cufftComplex));
	return 0;
}
