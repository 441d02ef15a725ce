/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuRAND, cuSPARSE and cuBLAS with tables of addresses in device memory: random numbers, a sparse
 * matrix times vectors, products of many small matrices by pointer tables, by strides and in groups.
 * Knows nothing of Sluice. Prints one line of JSON with sums of all bits.
 *
 *	nvcc -o mathlibs mathlibs.cu -lcublas -lcusparse -lcurand
 *	mathlibs [MEBIBYTES]
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <curand.h>
#include <cusparse.h>

#define CHECK(call)                                                                           \
	do {                                                                                  \
		int code_ = (int)(call);                                                      \
		if (code_) {                                                                  \
			fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call,   \
				code_);                                                       \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

enum { SIDE = 64, ROW = 16, GROUPS = 3 };

__global__ void sum(const unsigned *a, size_t n, unsigned long long *out)
{
	unsigned long long s = 0;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		s += (unsigned long long)a[i] * (2 * i + 1);
	atomicAdd(out, s);
}

__global__ void sparse_fill(int *rows, int *columns, float *values, int n)
{
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
		rows[i] = i * ROW;
		if (i == n - 1)
			rows[n] = n * ROW;
		for (int k = 0; k < ROW; k++) {
			columns[(size_t)i * ROW + k] = (int)(((size_t)i * 7919 + (size_t)k * (n / ROW)) % n);
			values[(size_t)i * ROW + k] = (float)((i + k) % 17) / 16;
		}
	}
}

static unsigned long long sum_of(const void *a, size_t bytes)
{
	static unsigned long long *out;
	unsigned long long got = 0;

	if (!out)
		CHECK(cudaMalloc(&out, sizeof(*out)));
	CHECK(cudaMemset(out, 0, sizeof(*out)));
	sum<<<256, 256>>>((const unsigned *)a, bytes / 4, out);
	CHECK(cudaMemcpy(&got, out, sizeof(got), cudaMemcpyDeviceToHost));
	return got;
}

template <class T>
static T *allocate(size_t n)
{
	T *p = nullptr;

	CHECK(cudaMalloc(&p, n * sizeof(T)));
	return p;
}

static unsigned long long sparse(float *vectors, size_t bytes)
{
	int n = (int)(bytes / 4 / 2), *rows = allocate<int>((size_t)n + 1);
	int *columns = allocate<int>((size_t)n * ROW);
	float *values = allocate<float>((size_t)n * ROW), one = 1, none = 0;
	cusparseHandle_t handle;
	cusparseSpMatDescr_t matrix;
	cusparseDnVecDescr_t x, y;
	size_t room = 0;

	sparse_fill<<<256, 256>>>(rows, columns, values, n);
	CHECK(cusparseCreate(&handle));
	CHECK(cusparseCreateCsr(&matrix, n, n, (int64_t)n * ROW, rows, columns, values,
				CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
				CUDA_R_32F));
	CHECK(cusparseCreateDnVec(&x, n, vectors, CUDA_R_32F));
	CHECK(cusparseCreateDnVec(&y, n, vectors + n, CUDA_R_32F));
	CHECK(cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, x, &none,
				      y, CUDA_R_32F, CUSPARSE_SPMV_CSR_ALG2, &room));
	char *work = allocate<char>(room ? room : 1);
	CHECK(cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, x, &none, y,
			   CUDA_R_32F, CUSPARSE_SPMV_CSR_ALG2, work));
	unsigned long long got = sum_of(vectors + n, (size_t)n * 4);
	CHECK(cusparseDestroyDnVec(x));
	CHECK(cusparseDestroyDnVec(y));
	CHECK(cusparseDestroySpMat(matrix));
	CHECK(cusparseDestroy(handle));
	CHECK(cudaFree(work));
	CHECK(cudaFree(values));
	CHECK(cudaFree(columns));
	CHECK(cudaFree(rows));
	return got;
}

int main(int argc, char **argv)
{
	size_t bytes = (size_t)(argc > 1 ? atoi(argv[1]) : 256) << 20, n = bytes / 4;
	size_t each = SIDE * SIDE, count = n / each;
	float *a = allocate<float>(n), *b = allocate<float>(n), *c = allocate<float>(n);
	float one = 1, none = 0;
	curandGenerator_t random;
	cublasHandle_t blas;

	CHECK(curandCreateGenerator(&random, CURAND_RNG_PSEUDO_PHILOX4_32_10));
	CHECK(curandSetPseudoRandomGeneratorSeed(random, 1234));
	CHECK(curandGenerateUniform(random, a, n));
	CHECK(curandGenerateNormal(random, b, n, 0, 1));
	unsigned long long randoms = sum_of(a, bytes) * 31 + sum_of(b, bytes);
	CHECK(curandDestroyGenerator(random));

	/* Tables: a third of the products each by pointers, by strides, by groups of pointers. */
	std::vector<float *> pa(count), pb(count), pc(count);
	for (size_t i = 0; i < count; i++) {
		size_t j = (i * 7919) % count; /* not in order */

		pa[i] = a + i * each;
		pb[i] = b + j * each;
		pc[i] = c + i * each;
	}
	float **da = allocate<float *>(count), **db = allocate<float *>(count),
	      **dc = allocate<float *>(count);
	CHECK(cudaMemcpy(da, pa.data(), count * 8, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(db, pb.data(), count * 8, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(dc, pc.data(), count * 8, cudaMemcpyHostToDevice));
	CHECK(cublasCreate(&blas));
	CHECK(cudaMemset(c, 0, bytes));
	CHECK(cublasSgemmBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, SIDE, SIDE, SIDE, &one,
				 (const float **)da, SIDE, (const float **)db, SIDE, &none, dc, SIDE,
				 (int)count));
	unsigned long long batched = sum_of(c, bytes);
	CHECK(cublasSgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_T, SIDE, SIDE, SIDE, &one, a, SIDE,
					(long long)each, b, SIDE, (long long)each, &one, c, SIDE,
					(long long)each, (int)count));
	unsigned long long strided = sum_of(c, bytes);

	cublasOperation_t plain[GROUPS] = {CUBLAS_OP_N, CUBLAS_OP_N, CUBLAS_OP_N};
	cublasOperation_t turned[GROUPS] = {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_N};
	int side[GROUPS] = {SIDE, SIDE / 2, SIDE}, ld[GROUPS] = {SIDE, SIDE, SIDE}, of[GROUPS];
	float ones[GROUPS] = {1, 1, 1}, nones[GROUPS] = {0, 0, 0};
	for (int g = 0; g < GROUPS; g++)
		of[g] = (int)(count / GROUPS);
	CHECK(cublasSgemmGroupedBatched(blas, plain, turned, side, side, side, ones,
					(const float **)da, ld, (const float **)db, ld, nones, dc, ld,
					GROUPS, of));
	unsigned long long grouped = sum_of(c, bytes);
	CHECK(cublasDestroy(blas));

	unsigned long long multiplied = sparse(a, bytes / 8);
	printf("{\"answers\": {\"random\": \"%llx\", \"batched\": \"%llx\", \"strided\": \"%llx\", "
	       "\"grouped\": \"%llx\", \"sparse\": \"%llx\"}, \"peak_bytes\": %zu}\n",
	       randoms, batched, strided, grouped, multiplied, 5 * bytes);
	return 0;
}
