/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest allocator that PyTorch can be given (CUDAPluggableAllocator): the runtime's own calls.
 * Knows nothing of Sluice.
 *
 *	nvcc -shared -Xcompiler -fPIC -o pluggable.so pluggable.cu
 */
#include <sys/types.h>

#include <cuda_runtime.h>

extern "C" void *accept_malloc(ssize_t bytes, int device, cudaStream_t)
{
	void *p = nullptr;

	if (cudaSetDevice(device) != cudaSuccess || cudaMalloc(&p, (size_t)bytes) != cudaSuccess)
		return nullptr;
	return p;
}

extern "C" void accept_free(void *p, ssize_t, int, cudaStream_t)
{
	(void)cudaFree(p);
}
