/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hotspot: what its kernel is given, and the new temperature of one cell, for the software device
 * and for CUDA (kernel.h says how the two share it).
 *
 * Threads: constant data and pure functions.
 */
#ifndef WORKLOADS_HOTSPOT_KERNEL_H
#define WORKLOADS_HOTSPOT_KERNEL_H

#include "kernel.h"

struct hotspot_constants {
	float step_over_cap;
	float per_rx, per_ry, per_rz; /* 1/R */
	float ambient;
};

struct hotspot_args {
	const float *temp, *power;
	float *out;
	uint64_t r;
	uint64_t first, n;
	struct hotspot_constants k;
};

KERNEL_INLINE float
hotspot_cell(const struct hotspot_constants *k, float here, float power, float north,
	     float south, float west, float east)
{
	return here + k->step_over_cap * (power + (south + north - 2.0f * here) * k->per_ry +
					  (east + west - 2.0f * here) * k->per_rx +
					  (k->ambient - here) * k->per_rz);
}

#endif
