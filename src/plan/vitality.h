/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensor vitality (paper G10, section 4.1): when each tensor lives, when it is idle
 * between two uses, and how much memory that asks for over time. Computed on one period
 * that repeats; idle times of global tensors wrap around to the next period.
 */
#ifndef SL_PLAN_VITALITY_H
#define SL_PLAN_VITALITY_H

#include "trace/trace.h"

struct sl_life {
	uint32_t birth; /* first launch that uses it; globals: 0 */
	uint32_t death; /* one past the last launch that needs its contents; globals: n */
	uint32_t first_use, last_use; /* launches */
	uint32_t n_uses;
};

/* Launches [begin, end) do not use the tensor; with wraps: [begin, n) and [0, end). */
struct sl_idle {
	uint32_t tensor;
	uint32_t begin, end;
	int wraps;
	uint64_t ticks; /* time it lasts */
};

struct sl_vitality {
	uint32_t n_launches;   /* of the period */
	uint64_t *start_ticks; /* n_launches + 1: sum of durations before launch k */
	struct sl_life *lives; /* by tensor */
	struct sl_idle *idles; /* by tensor, then by time */
	uint32_t n_idles;
	uint32_t *idle_first;   /* n_tensors + 1: idles of tensor t */
	uint64_t *alive_bytes;  /* by launch: sum of tensors alive */
	uint64_t *active_bytes; /* by launch: sum of tensors it uses */
	uint64_t total_bytes;   /* of all tensors of the period */
	uint64_t global_bytes;
	uint64_t peak_alive_bytes;
};

/* period: which one of the trace. -ENOMEM, -EINVAL. Pure. */
int sl_vitality_make(const struct sl_trace *trace, uint32_t period,
		     struct sl_vitality *out) SL_MUST_CHECK;
void sl_vitality_fini(struct sl_vitality *vitality);

/* ---- what it looks like as a whole (paper G10, figures 2 to 4) ---- */

/* Idle times by length: bin 0 is below 1 us, bin i from 10^(i - 1) us, the last one
 * open. */
#define SL_IDLE_BINS 10u
/* Tensors by size: bin 0 up to 4 KiB, bin i up to 4 KiB x 16^i, the last one open. */
#define SL_SIZE_BINS 7u

struct sl_vitality_stats {
	/* Over launches; shares of total_bytes, 0 to 1. */
	double active_mean, active_median, active_max;
	double alive_mean, alive_max;
	uint32_t n_tensors;      /* that the period uses or keeps */
	uint32_t n_idle_tensors; /* with at least one idle time */
	uint64_t tensors[SL_SIZE_BINS], tensor_bytes[SL_SIZE_BINS];
	/* Idle times by length: how many, and the sizes of their tensors. */
	uint64_t idles[SL_IDLE_BINS], idle_bytes[SL_IDLE_BINS];
	uint64_t idles_by_size[SL_SIZE_BINS][SL_IDLE_BINS];
	/* Half (nine tenths) of the idle times are at most this long; 0: there are
	 * none. */
	double idle_median_us, idle_p90_us;
};

/* -ENOMEM. Pure. */
int sl_vitality_stats(const struct sl_trace *trace, const struct sl_vitality *vitality,
		      struct sl_vitality_stats *out) SL_MUST_CHECK;

unsigned sl_idle_bin(double us);
unsigned sl_size_bin(uint64_t bytes);

#endif
