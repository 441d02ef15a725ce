/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vitality in numbers: how much of the memory is in use at a time, how long tensors are
 * idle and how large they are. What the paper G10 shows in figures 2 to 4.
 *
 * Threads: pure.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/vitality.h"

unsigned
sl_idle_bin(double us)
{
	double edge = 1;
	unsigned bin = 0;

	for (; bin < SL_IDLE_BINS - 1 && us >= edge; bin++)
		edge *= 10;
	return bin;
}

unsigned
sl_size_bin(uint64_t bytes)
{
	uint64_t edge = 4096;
	unsigned bin = 0;

	for (; bin < SL_SIZE_BINS - 1 && bytes > edge; bin++)
		edge *= 16;
	return bin;
}

static int
u64_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The value that `share` of the sorted ones do not pass. */
static uint64_t
quantile(const uint64_t *sorted, uint32_t n, double share)
{
	uint32_t at = (uint32_t)(share * n);

	return sorted[at < n ? at : n - 1];
}

static int
shares_make(const struct sl_vitality *v, struct sl_vitality_stats *stats)
{
	double total = v->total_bytes ? (double)v->total_bytes : 1;
	uint32_t n = v->n_launches;
	uint64_t *sorted = malloc(n * sizeof(*sorted));

	if (!sorted)
		return sl_fail(-ENOMEM, "vitality: no memory for %u launches", n);
	for (uint32_t k = 0; k < n; k++) {
		stats->active_mean += (double)v->active_bytes[k] / total / n;
		stats->alive_mean += (double)v->alive_bytes[k] / total / n;
	}
	memcpy(sorted, v->active_bytes, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), u64_compare);
	stats->active_median = (double)quantile(sorted, n, 0.5) / total;
	stats->active_max = (double)sorted[n - 1] / total;
	stats->alive_max = (double)v->peak_alive_bytes / total;
	free(sorted);
	return 0;
}

static int
idles_count(const struct sl_trace *trace, const struct sl_vitality *v,
	    struct sl_vitality_stats *stats)
{
	double us = 1e6 / (double)trace->clock_hz; /* of a tick */
	uint64_t *sorted = malloc((v->n_idles + (size_t)1) * sizeof(*sorted));

	if (!sorted)
		return sl_fail(-ENOMEM, "vitality: no memory for %u idle times", v->n_idles);
	for (uint32_t i = 0; i < v->n_idles; i++) {
		const struct sl_idle *idle = &v->idles[i];
		uint64_t bytes = trace->tensors[idle->tensor].size_bytes;
		unsigned bin = sl_idle_bin((double)idle->ticks * us);

		stats->idles[bin]++;
		stats->idle_bytes[bin] += bytes;
		stats->idles_by_size[sl_size_bin(bytes)][bin]++;
		sorted[i] = idle->ticks;
	}
	if (v->n_idles > 0) {
		qsort(sorted, v->n_idles, sizeof(*sorted), u64_compare);
		stats->idle_median_us = (double)quantile(sorted, v->n_idles, 0.5) * us;
		stats->idle_p90_us = (double)quantile(sorted, v->n_idles, 0.9) * us;
	}
	free(sorted);
	return 0;
}

int
sl_vitality_stats(const struct sl_trace *trace, const struct sl_vitality *vitality,
		  struct sl_vitality_stats *out)
{
	struct sl_vitality_stats stats = {0};
	int rc;

	for (uint32_t t = 0; t < trace->n_tensors; t++) {
		uint64_t bytes = trace->tensors[t].size_bytes;

		if (trace->n_periods > 1 && vitality->lives[t].n_uses == 0 &&
		    trace->tensors[t].kind != SL_TENSOR_GLOBAL)
			continue;
		stats.n_tensors++;
		stats.tensors[sl_size_bin(bytes)]++;
		stats.tensor_bytes[sl_size_bin(bytes)] += bytes;
		if (vitality->idle_first[t + 1] > vitality->idle_first[t])
			stats.n_idle_tensors++;
	}
	rc = shares_make(vitality, &stats);
	if (!rc)
		rc = idles_count(trace, vitality, &stats);
	if (!rc)
		*out = stats;
	return rc;
}
