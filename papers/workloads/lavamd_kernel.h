/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lavaMD: what its kernel is given, what the files hold, and how one particle acts on another, for
 * the software device and for CUDA (kernel.h says how the two share it).
 *
 * Threads: constant data and pure functions.
 */
#ifndef WORKLOADS_LAVAMD_KERNEL_H
#define WORKLOADS_LAVAMD_KERNEL_H

#include "kernel_math.h"

#define LAVAMD_PARTICLES  100u /* of a box */
#define LAVAMD_NEIGHBOURS 26u  /* of a box, at most */
#define LAVAMD_ALPHA      0.5

/* Boxes of one block of a GPU's grid: each has half of its threads. */
#define LAVAMD_CUDA_BOXES 2u

struct lavamd_neighbour {
	int32_t x, y, z, number;
	int64_t first; /* its first particle */
};

struct lavamd_box {
	int32_t x, y, z, number;
	int64_t first;
	int32_t n_neighbours, unused;
	struct lavamd_neighbour neighbour[LAVAMD_NEIGHBOURS];
};

/* A particle's value and place; the same four for what acts on it. */
struct lavamd_vector {
	double v, x, y, z;
};

struct lavamd_args {
	const struct lavamd_box *box;
	const struct lavamd_vector *rv;
	const double *qv; /* charge */
	struct lavamd_vector *fv;
	uint64_t first, count; /* boxes */
	uint64_t side;         /* boxes on a side of the cube */
	uint32_t partners;     /* particles of a box that act on those of another */
	uint32_t add;          /* 1: to what fv holds; 0: fv is not read */
};

/* A box has its neighbours among this many boxes before it and behind it. */
KERNEL_INLINE uint64_t
lavamd_reach(uint64_t side)
{
	return side * side + side + 1;
}

/* A particle at b, of charge q, acts on the one at a: adds to *f. */
KERNEL_INLINE void
lavamd_act(struct lavamd_vector a, struct lavamd_vector b, double q, struct lavamd_vector *f)
{
	double r2 = a.v + b.v - (a.x * b.x + a.y * b.y + a.z * b.z);
	double u2 = 2.0 * LAVAMD_ALPHA * LAVAMD_ALPHA * r2;
	double w = kernel_exp_f64(-u2);
	double s = 2.0 * w;

	f->v += q * w;
	f->x += q * (s * (a.x - b.x));
	f->y += q * (s * (a.y - b.y));
	f->z += q * (s * (a.z - b.z));
}

#endif
