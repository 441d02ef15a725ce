/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for the allocators of other libraries: PyTorch, CuPy, RMM, Numba. Kernels of a GPU
 * reach it at any time, without a launch that declares it. It is on the device while that has
 * room, else in pinned host memory, which kernels reach over the link. It stays in its place
 * until it is freed, or until sluice_memory_place() brings it to the device.
 */
#ifndef SLUICE_ALLOCATOR_H
#define SLUICE_ALLOCATOR_H

#include <sys/types.h>

#include "sluice/space.h"

#ifdef __cplusplus
extern "C" {
#endif

enum sluice_memory_flag {
	SLUICE_MEMORY_HOST = 1 /* in host memory, also if the device has room */
};

/*
 * Allocate size_bytes, a whole number of chunks (2 MiB) in memory. The contents are undefined.
 * flags: 0 or enum sluice_memory_flag. *addr is the caller's until sluice_memory_free(), which
 * comes before sluice_space_destroy(). Host code must not touch it.
 * Errors: -EINVAL (size 0, unknown flags), -ENOTSUP (not a GPU), -EFBIG, -ENOMEM, -ENOBUFS
 *     (device and host budget hold no more).
 * Threads: any.
 * Blocks: on pinning host memory, and on room that launches hold.
 */
SLUICE_API int sluice_memory_alloc(struct sluice_space *space, size_t size_bytes,
				   unsigned flags, void **addr) SLUICE_MUST_CHECK;

/*
 * Free what sluice_memory_alloc() gave.
 * Errors: -ENOENT (it is none of these), -ECHILD (a forked child). -EIO: work of the GPU has
 *     failed. The memory is freed all the same.
 * Threads: any.
 * Blocks: on all work of the GPU, as cuMemFree().
 */
SLUICE_API int sluice_memory_free(struct sluice_space *space, void *addr) SLUICE_MUST_CHECK;

/*
 * Bring n ranges of such memory to the device, and what is not used for longest to host memory.
 * Addresses that are in no such memory are left alone. addrs and sizes_bytes are read before
 * return.
 * Errors: -EINVAL, -ENOBUFS (they are larger than the budgets), -EIO.
 * Threads: any, while no other thread launches kernels that use memory of this kind.
 * Blocks: if all is on the device already, no. Otherwise on all work of the GPU, and on copies.
 */
SLUICE_API int sluice_memory_place(struct sluice_space *space, const void *const *addrs,
				   const size_t *sizes_bytes, size_t n) SLUICE_MUST_CHECK;

/*
 * 1: addr lies in memory of sluice_memory_alloc(). 0: it does not.
 * Threads: any.
 * Blocks: on calls of other threads that change this memory.
 */
SLUICE_API int sluice_memory_contains(struct sluice_space *space, const void *addr);

/*
 * The space of sluice_torch_alloc() and its like; NULL: none. It must outlive their memory.
 * Threads: any.
 * Blocks: no.
 */
SLUICE_API void sluice_torch_space_set(struct sluice_space *space);

/*
 * Functions for torch.cuda.memory.CUDAPluggableAllocator, which finds them by name: memory of
 * the space of sluice_torch_space_set(), or NULL, with a line in the log.
 * sluice_torch_alloc_host() takes host memory only. size_bytes, device and stream are as PyTorch
 * gives them; device must be the space's.
 * Threads: any.
 * Blocks: as sluice_memory_alloc() and sluice_memory_free().
 */
SLUICE_API void *sluice_torch_alloc(ssize_t size_bytes, int device, void *stream);
SLUICE_API void *sluice_torch_alloc_host(ssize_t size_bytes, int device, void *stream);
SLUICE_API void sluice_torch_free(void *addr, ssize_t size_bytes, int device, void *stream);

#ifdef __cplusplus
}
#endif
#endif
