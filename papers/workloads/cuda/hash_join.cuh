/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hashJoin on a GPU: clearing, building and probing tables, see ../hash_join_kernel.h. Partitioning
 * is partition.cuh. Part of kernels.cu.
 *
 * Threads: the grid's; a block of it touches what the descriptors in ../hash_join.c say.
 */
#include "hash_join_kernel.h"

extern "C" __global__ void
workload_hash_join_clear(struct hash_join_clear_args a)
{
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, KERNEL_CUDA_ELEMENTS, 0, a.n, &begin, &end);
	for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
		a.table[i] = 0;
}

/* Keys are unique and fewer than slots: every thread finds one that is free. */
extern "C" __global__ void
workload_hash_join_build(struct hash_join_build_args a)
{
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, KERNEL_CUDA_ELEMENTS, 0, a.n, &begin, &end);
	for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
		uint32_t key = a.keys[i];
		uint64_t at = hash_join_slot(key, a.slots);

		while (atomicCAS(&a.table[2 * at], 0u, key) != 0)
			at = at + 1 < a.slots ? at + 1 : 0;
		a.table[2 * at + 1] = a.values[i];
	}
}

extern "C" __global__ void
workload_hash_join_probe(struct hash_join_probe_args a)
{
	const uint32_t *__restrict__ table = a.table;
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, KERNEL_CUDA_ELEMENTS, 0, a.n, &begin, &end);
	for (uint64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
		a.matches[i] = hash_join_probe(table, a.slots, a.keys[i], a.values[i], a.turn);
}
