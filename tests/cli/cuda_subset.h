/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's header, as far as the programs need it that tests build without the toolkit: copied to
 * cuda.h where they look for it.
 */
#ifndef SL_TESTS_CLI_CUDA_SUBSET_H
#define SL_TESTS_CLI_CUDA_SUBSET_H

#include <stddef.h>
#include <stdint.h>
typedef int CUresult;
typedef uint64_t CUdeviceptr;
typedef int CUdevice;
typedef struct context *CUcontext;
typedef struct module *CUmodule;
typedef struct function *CUfunction;
#define CUDA_SUCCESS     0
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuMemAlloc       cuMemAlloc_v2
#define cuMemFree        cuMemFree_v2
#define cuMemsetD32      cuMemsetD32_v2
#define cuMemcpyDtoH     cuMemcpyDtoH_v2
int cuInit(unsigned);
int cuDeviceGet(CUdevice *, int);
int cuDeviceTotalMem(size_t *, CUdevice);
int cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
int cuCtxSetCurrent(CUcontext);
int cuCtxSynchronize(void);
int cuModuleLoadData(CUmodule *, const void *);
int cuModuleGetFunction(CUfunction *, CUmodule, const char *);
int cuMemAlloc(CUdeviceptr *, size_t);
int cuMemFree(CUdeviceptr);
int cuMemsetD32(CUdeviceptr, unsigned, size_t);
int cuMemcpyDtoH(void *, CUdeviceptr, size_t);
int cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
		   unsigned, void *, void **, void **);

#endif
