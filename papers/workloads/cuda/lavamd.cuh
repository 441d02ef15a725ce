/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lavaMD's kernel for a GPU; a part of kernels.cu, which says how the two devices share it. Half of
 * a block's threads work on one box, each on one of its particles, whose force it keeps; the
 * particles of the box that acts are put where all of them can read them.
 */
#include "lavamd_kernel.h"

#define LAVAMD_THREADS (KERNEL_CUDA_THREADS / LAVAMD_CUDA_BOXES) /* of a box */

extern "C" __global__ void
workload_lavamd(struct lavamd_args l)
{
	__shared__ struct lavamd_vector place[LAVAMD_CUDA_BOXES][LAVAMD_PARTICLES];
	__shared__ double charge[LAVAMD_CUDA_BOXES][LAVAMD_PARTICLES];
	const uint32_t half = threadIdx.x / LAVAMD_THREADS, i = threadIdx.x % LAVAMD_THREADS;
	uint64_t begin, end;

	kernel_block_range(blockIdx.x, LAVAMD_CUDA_BOXES, l.first, l.count, &begin, &end);

	const bool has_box = begin + half < end; /* the last block may have one only */
	const bool has_particle = has_box && i < LAVAMD_PARTICLES;
	const struct lavamd_box *box = &l.box[has_box ? begin + half : begin];
	const uint64_t mine = (uint64_t)box->first + i;
	struct lavamd_vector at = {0, 0, 0, 0}, force = {0, 0, 0, 0};

	if (has_particle) {
		at = l.rv[mine];
		if (l.add)
			force = l.fv[mine];
	}
	for (int32_t k = -1; k < (int32_t)LAVAMD_NEIGHBOURS; k++) { /* -1: itself */
		const bool acts = has_box && k < box->n_neighbours;

		if (acts && i < l.partners) {
			uint64_t other = (k < 0 ? box->first : box->neighbour[k].first) + i;

			place[half][i] = l.rv[other];
			charge[half][i] = l.qv[other];
		}
		__syncthreads();
		if (acts && has_particle)
			for (uint32_t j = 0; j < l.partners; j++)
				lavamd_act(at, place[half][j], charge[half][j], &force);
		__syncthreads();
	}
	if (has_particle)
		l.fv[mine] = force;
}
