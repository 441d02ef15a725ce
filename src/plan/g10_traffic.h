/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of each kernel's transfer capacity the published planner has given away so far.
 *
 * Four paths, each with a capacity (bandwidth times duration) and an occupancy per kernel.
 * Traffic of the store takes link capacity as well; traffic of the host takes the store's
 * where it leaves the link less than the store needs. The planner asks where a transfer that
 * fills what is free would end (forwards) or have to begin (backwards).
 *
 * Threads: one.
 */
#ifndef SL_PLAN_G10_TRAFFIC_H
#define SL_PLAN_G10_TRAFFIC_H

#include "plan/g10.h"

enum g10_path {
	G10_STORE_OUT, /* device to store */
	G10_STORE_IN,
	G10_HOST_OUT, /* the link; host traffic is what is booked on it alone */
	G10_HOST_IN,
	G10_PATH_COUNT
};

struct g10_traffic {
	uint32_t n; /* kernels */
	double *capacity[G10_PATH_COUNT];
	double *booked[G10_PATH_COUNT];
	double *free_sum[G10_PATH_COUNT]; /* n + 1: free bytes before the kernel */
};

/* bps: bytes a second of each path. -ENOMEM. */
int sl_g10_traffic_init(struct g10_traffic *traffic, const struct sl_g10_view *view,
			const double bps[G10_PATH_COUNT]) SL_MUST_CHECK;
void sl_g10_traffic_fini(struct g10_traffic *traffic);

/* The kernel in which bytes are through when they flow from kernel start on; at most the
 * last one. */
uint32_t sl_g10_traffic_end(const struct g10_traffic *traffic, enum g10_path path,
			    uint32_t start, double bytes);

/* The last kernel from which bytes can still flow before kernel end begins; at least 0. */
uint32_t sl_g10_traffic_begin(const struct g10_traffic *traffic, enum g10_path path,
			      uint32_t end, double bytes);

/* Free bytes in kernels [begin, end). */
double sl_g10_traffic_free(const struct g10_traffic *traffic, enum g10_path path,
			   uint32_t begin, uint32_t end);

/* Book bytes from kernel start on, filling what is free; what is left over behind the last
 * kernel is forgotten. Returns the last kernel booked. */
uint32_t sl_g10_traffic_book(struct g10_traffic *traffic, enum g10_path path,
			     uint32_t start, double bytes);

#endif
