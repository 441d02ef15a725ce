/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bookkeeping of transfer capacity for the published planner (g10_traffic.h).
 *
 * Sums of the free bytes before each kernel are kept beside the occupancy, so that the two
 * searches are binary and only a booking costs a pass over the kernels.
 *
 * Threads: one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/g10_traffic.h"

static double
free_bytes(const struct g10_traffic *traffic, enum g10_path path, uint32_t k)
{
	double left = traffic->capacity[path][k] - traffic->booked[path][k];

	return left > 0 ? left : 0;
}

static void
free_sum_from(struct g10_traffic *traffic, enum g10_path path, uint32_t from)
{
	double *sum = traffic->free_sum[path];

	for (uint32_t k = from; k < traffic->n; k++)
		sum[k + 1] = sum[k] + free_bytes(traffic, path, k);
}

int
sl_g10_traffic_init(struct g10_traffic *traffic, const struct sl_g10_view *view,
		    const double bps[G10_PATH_COUNT])
{
	memset(traffic, 0, sizeof(*traffic));
	traffic->n = view->n;
	for (int path = 0; path < G10_PATH_COUNT; path++) {
		traffic->capacity[path] = malloc(view->n * sizeof(double));
		traffic->booked[path] = calloc(view->n, sizeof(double));
		traffic->free_sum[path] = calloc((size_t)view->n + 1, sizeof(double));
		if (!traffic->capacity[path] || !traffic->booked[path] ||
		    !traffic->free_sum[path]) {
			sl_g10_traffic_fini(traffic);
			return sl_fail(-ENOMEM, "transfers of %u launches: out of memory",
				       view->n);
		}
		for (uint32_t k = 0; k < view->n; k++)
			traffic->capacity[path][k] = bps[path] *
						     (double)view->launches[k].ticks /
						     (double)view->trace->clock_hz;
		free_sum_from(traffic, (enum g10_path)path, 0);
	}
	return 0;
}

void
sl_g10_traffic_fini(struct g10_traffic *traffic)
{
	for (int path = 0; path < G10_PATH_COUNT; path++) {
		free(traffic->capacity[path]);
		free(traffic->booked[path]);
		free(traffic->free_sum[path]);
	}
	memset(traffic, 0, sizeof(*traffic));
}

uint32_t
sl_g10_traffic_end(const struct g10_traffic *traffic, enum g10_path path, uint32_t start,
		   double bytes)
{
	const double *sum = traffic->free_sum[path];
	double target = sum[start] + bytes;
	uint32_t low = start, high = traffic->n - 1;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (sum[middle + 1] >= target)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

uint32_t
sl_g10_traffic_begin(const struct g10_traffic *traffic, enum g10_path path, uint32_t end,
		     double bytes)
{
	const double *sum = traffic->free_sum[path];
	double target = sum[end] - bytes;
	uint32_t low = 0, high = end ? end - 1 : 0;

	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		if (sum[middle] <= target)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

double
sl_g10_traffic_free(const struct g10_traffic *traffic, enum g10_path path, uint32_t begin,
		    uint32_t end)
{
	return traffic->free_sum[path][end] - traffic->free_sum[path][begin];
}

/* What a booking of bytes in kernel k takes from the other path of its direction. */
static void
share_link(struct g10_traffic *traffic, enum g10_path path, uint32_t k, double bytes)
{
	double spare;

	switch (path) {
	case G10_STORE_OUT:
	case G10_STORE_IN:
		traffic->booked[path + (G10_HOST_OUT - G10_STORE_OUT)][k] += bytes;
		break;
	case G10_HOST_OUT:
	case G10_HOST_IN:
		/* The whole excess each time, and so more than once: as published. */
		spare = traffic->capacity[path][k] -
			traffic->capacity[path - (G10_HOST_OUT - G10_STORE_OUT)][k];
		if (traffic->booked[path][k] > spare)
			traffic->booked[path - (G10_HOST_OUT - G10_STORE_OUT)][k] +=
				traffic->booked[path][k] - spare;
		break;
	case G10_PATH_COUNT:
		break;
	}
}

uint32_t
sl_g10_traffic_book(struct g10_traffic *traffic, enum g10_path path, uint32_t start,
		    double bytes)
{
	uint32_t k = start;

	for (; k < traffic->n && bytes > 0; k++) {
		double part = free_bytes(traffic, path, k);

		if (part > bytes)
			part = bytes;
		if (part <= 0)
			continue;
		traffic->booked[path][k] += part;
		bytes -= part;
		share_link(traffic, path, k, part);
	}
	free_sum_from(traffic, path, start);
	if (path == G10_STORE_OUT || path == G10_HOST_OUT)
		free_sum_from(traffic,
			      path == G10_STORE_OUT ? G10_HOST_OUT : G10_STORE_OUT, start);
	else
		free_sum_from(traffic, path == G10_STORE_IN ? G10_HOST_IN : G10_STORE_IN,
			      start);
	return k ? k - 1 : 0;
}
