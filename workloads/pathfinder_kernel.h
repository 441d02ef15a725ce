/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pathfinder: what its kernels are given, and the cost of one cell, for the software device and for
 * CUDA (kernel.h says how the two share it).
 *
 * Threads: constant data and pure functions.
 */
#ifndef WORKLOADS_PATHFINDER_KERNEL_H
#define WORKLOADS_PATHFINDER_KERNEL_H

#include "kernel.h"

#define PATHFINDER_ROWS_MAX 64u /* of one launch */

/* Columns of one block of a GPU's grid: few, since a row is short beside the number of threads. */
#define PATHFINDER_CUDA_COLUMNS_1 256u /* one row per launch */
#define PATHFINDER_CUDA_COLUMNS_N 512u /* several */

struct pathfinder_args {
	const int32_t *data; /* the first row of the grid that the launch goes down */
	const int32_t *from;
	int32_t *to;
	uint64_t cols;
	uint64_t n_rows;
};

/*
 * With several rows per launch a block also works on n_rows more columns on either side: the
 * columns [*x0, *x1) are what it reads of the costs above its first row.
 */
KERNEL_INLINE void
pathfinder_reach(const struct pathfinder_args *p, uint64_t begin, uint64_t end,
		 uint64_t *x0, uint64_t *x1)
{
	*x0 = begin > p->n_rows ? begin - p->n_rows : 0;
	*x1 = kernel_min(p->cols, end + p->n_rows);
}

KERNEL_INLINE int32_t
pathfinder_min(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/* left and right: the cell's own cost from above where there is no neighbour. */
KERNEL_INLINE int32_t
pathfinder_cell(int32_t data, int32_t left, int32_t above, int32_t right)
{
	return data + pathfinder_min(pathfinder_min(left, above), right);
}

#endif
