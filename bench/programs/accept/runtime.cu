/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A runtime program, for the static and for the shared runtime: plain, pitched, pool and managed
 * allocations, copies in one and two dimensions, kernels, a cooperative launch with a grid barrier, and
 * launches that may begin before the one before has ended. Knows nothing of Sluice. Prints one line of
 * JSON.
 *
 *	nvcc -arch=sm_90 -cudart static|shared -o runtime runtime.cu
 *	runtime [ARRAYS [MEBIBYTES]]
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#define CHECK(call)                                                                           \
	do {                                                                                  \
		cudaError_t code_ = (call);                                                   \
		if (code_ != cudaSuccess) {                                                   \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,         \
				cudaGetErrorString(code_));                                   \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

__global__ void fill(unsigned *a, size_t n, unsigned seed)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		a[i] = (unsigned)i * 2654435761u + seed;
}

/* By value, as programs pass their arguments: two addresses inside of a struct. */
struct pair {
	unsigned *to;
	const unsigned *from;
	size_t n;
};

__global__ void mix(pair p, unsigned salt)
{
#if __CUDA_ARCH__ >= 900
	cudaGridDependencySynchronize();
#endif
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < p.n;
	     i += (size_t)gridDim.x * blockDim.x)
		p.to[i] = p.to[i] * 5u + (p.from[i] ^ salt);
#if __CUDA_ARCH__ >= 900
	cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* All write, all wait, all read what others have written. */
__global__ void meet(unsigned *a, unsigned *b, size_t n)
{
	cooperative_groups::grid_group grid = cooperative_groups::this_grid();
	size_t first = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	size_t step = (size_t)gridDim.x * blockDim.x;

	for (size_t i = first; i < n; i += step)
		a[i] += 7u;
	grid.sync();
	for (size_t i = first; i < n; i += step)
		b[i] = a[n - 1 - i] + b[i] * 3u;
}

__global__ void sum(const unsigned *a, size_t n, unsigned long long *out)
{
	unsigned long long s = 0;

	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		s += (unsigned long long)a[i] * (2 * i + 1);
	atomicAdd(out, s);
}

static unsigned long long sum_of(const unsigned *a, size_t n)
{
	static unsigned long long *out;
	unsigned long long got = 0;

	if (!out)
		CHECK(cudaMalloc(&out, sizeof(*out)));
	CHECK(cudaMemset(out, 0, sizeof(*out)));
	sum<<<256, 256>>>(a, n, out);
	CHECK(cudaMemcpy(&got, out, sizeof(got), cudaMemcpyDeviceToHost));
	return got;
}

static void mix_early(unsigned *to, const unsigned *from, size_t n, unsigned salt)
{
	cudaLaunchAttribute early = {};
	cudaLaunchConfig_t config = {};
	pair p = {to, from, n};

	early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	early.val.programmaticStreamSerializationAllowed = 1;
	config.gridDim = 256;
	config.blockDim = 256;
	config.attrs = &early;
	config.numAttrs = 1;
	CHECK(cudaLaunchKernelEx(&config, mix, p, salt));
}

int main(int argc, char **argv)
{
	int arrays = argc > 1 ? atoi(argv[1]) : 12, blocks = 0, processors = 0;
	size_t n = (size_t)(argc > 2 ? atoi(argv[2]) : 64) << 18, pitch = 0;
	std::vector<unsigned *> a(arrays);
	std::vector<unsigned> rows(1000 * 1000);
	unsigned long long plain = 0, met = 0, pitched = 0, pooled = 0, shared = 0;
	unsigned *p;

	for (int k = 0; k < arrays; k++) {
		CHECK(cudaMalloc(&a[k], n * 4));
		fill<<<256, 256>>>(a[k], n, (unsigned)k);
	}
	for (int r = 0; r < 3; r++)
		for (int k = 0; k < arrays; k++)
			mix_early(a[k], a[(k + 5) % arrays], n, (unsigned)(r * arrays + k));
	for (int k = 0; k < arrays; k++)
		plain = plain * 31 + sum_of(a[k], n);

	CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, meet, 256, 0));
	for (int k = 0; k + 1 < arrays; k++) {
		void *arguments[] = {&a[k], &a[k + 1], &n};

		CHECK(cudaLaunchCooperativeKernel((void *)meet, dim3(processors * (blocks > 2 ? 2 : blocks)),
						  dim3(256), arguments, 0, 0));
	}
	for (int k = 0; k < arrays; k++)
		met = met * 31 + sum_of(a[k], n);

	CHECK(cudaMallocPitch((void **)&p, &pitch, 4000, 1000));
	for (size_t i = 0; i < rows.size(); i++)
		rows[i] = (unsigned)(i * 40503u);
	CHECK(cudaMemset2D(p, pitch, 0, 4000, 1000));
	CHECK(cudaMemcpy2D(p, pitch, rows.data(), 4000, 4000, 1000, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy2D(rows.data(), 4000, (char *)p + pitch, pitch, 4000, 999,
			   cudaMemcpyDeviceToHost));
	for (unsigned v : rows)
		pitched = pitched * 31 + v;
	CHECK(cudaFree(p));

	for (int k = 0; k < 4; k++) {
		CHECK(cudaMallocAsync((void **)&p, n * 4, 0));
		fill<<<256, 256>>>(p, n, 99u + (unsigned)k);
		mix_early(a[k % arrays], p, n, 3u);
		CHECK(cudaFreeAsync(p, 0));
		pooled = pooled * 31 + sum_of(a[k % arrays], n);
	}

	CHECK(cudaMallocManaged((void **)&p, 1 << 20));
	for (int i = 0; i < 1 << 18; i++)
		p[i] = (unsigned)i;
	mix_early(p, a[0], 1 << 18, 11u);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < 1 << 18; i++)
		shared = shared * 31 + p[i];
	CHECK(cudaFree(p));

	printf("{\"answers\": {\"kernels\": \"%llx\", \"cooperative\": \"%llx\", \"pitched\": \"%llx\", "
	       "\"pool\": \"%llx\", \"managed\": \"%llx\"}, \"peak_bytes\": %zu, \"allocations\": %d}\n",
	       plain, met, pitched, pooled, shared, (size_t)(arrays + 1) * n * 4, arrays);
	for (unsigned *x : a)
		CHECK(cudaFree(x));
	return 0;
}
