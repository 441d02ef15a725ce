/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srad_v2: what its kernels are given, and what they do to one pixel, for the software device and
 * for CUDA (kernel.h says how the two share it).
 *
 * Threads: constant data and pure functions.
 */
#ifndef WORKLOADS_SRAD_KERNEL_H
#define WORKLOADS_SRAD_KERNEL_H

#include "kernel.h"

#define SRAD_LAMBDA 0.5f

struct srad_args {
	float *j, *c, *n, *s, *w, *e;
	uint64_t r;
	uint64_t first, count;
	float q0; /* q0 squared */
};

/* Kernel 1: the diffusion coefficient; j: the pixel's value, d*: the differences to its
 * neighbours. */
KERNEL_INLINE float
srad_coefficient(float j, float dn, float ds, float dw, float de, float q0)
{
	float gradient = (dn * dn + ds * ds + dw * dw + de * de) / (j * j);
	float laplace = (dn + ds + dw + de) / j;
	float num = 0.5f * gradient - 0.0625f * (laplace * laplace);
	float den = 1.0f + 0.25f * laplace;
	float q = num / (den * den);
	float c = 1.0f / (1.0f + (q - q0) / (q0 * (1.0f + q0)));

	c = c < 0.0f ? 0.0f : c;
	return c > 1.0f ? 1.0f : c;
}

/* Kernel 2: the pixel's new value; c*: coefficients of itself and of its neighbours. */
KERNEL_INLINE float
srad_updated(float j, float c, float c_south, float c_east, float dn, float ds, float dw,
	     float de)
{
	float divergence = c * dn + c_south * ds + c * dw + c_east * de;

	return j + 0.25f * SRAD_LAMBDA * divergence;
}

#endif
