/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First include of every file with kernels or references: how their floating point is compiled, and
 * what lets the same arithmetic be compiled for the software device and for a GPU.
 *
 * Outputs are compared bit for bit with a reference, so all must evaluate the same expressions
 * the same way, whatever the compiler makes of the loops around them: no contraction of a * b + c
 * into a fused operation (which a scalar and a vector loop may do differently), and of course no
 * -ffast-math. Said here rather than in the build, so that no build can get it wrong; nvcc alone
 * has to be told (-fmad=false). Vectorising a loop over elements does not change what each element
 * gets.
 *
 * The headers NAME_kernel.h hold what a kernel does to one element, once, as KERNEL_INLINE
 * functions in the common part of C and CUDA C++; NAME.c has the loops of the software device
 * around it, cuda/kernels.cu those of a GPU.
 *
 * Kernels are worth the compiler's best effort even where the rest is built with -O2.
 */
#ifndef WORKLOADS_KERNEL_H
#define WORKLOADS_KERNEL_H

#if defined(__CUDACC__)
#define KERNEL_INLINE static __host__ __device__ __forceinline__
#elif defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#define KERNEL_INLINE static inline
#else
#if defined(__OPTIMIZE__)
#pragma GCC optimize("O3", "fp-contract=off")
#else
#pragma GCC optimize("fp-contract=off")
#endif
#define KERNEL_INLINE static inline
#endif

#if defined(__FAST_MATH__)
#error "workloads compare bit for bit: do not build them with -ffast-math"
#endif

#include <stdint.h>

/* Elements that one block of a GPU's grid works on, and its threads, where nothing else is said. */
#define KERNEL_CUDA_ELEMENTS 4096u
#define KERNEL_CUDA_THREADS  256u

KERNEL_INLINE uint64_t
kernel_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The part of [first, first + n) that a block of per_block elements works on. */
KERNEL_INLINE void
kernel_block_range(uint32_t block, uint64_t per_block, uint64_t first, uint64_t n,
		   uint64_t *begin, uint64_t *end)
{
	*begin = first + kernel_min(n, block * per_block);
	*end = first + kernel_min(n, (block + (uint64_t)1) * per_block);
}

#endif
