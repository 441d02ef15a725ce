/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The planner of the paper G10 (its section 4), and the lifetimes and idle periods it works on.
 * `sluice plan` always tries its plan, too (sim/best_plan.h).
 *
 * g10_periods.c makes the view of a trace's first period; g10_traffic.c books transfers into the
 * kernels' capacities; g10.c chooses and schedules. The published program departs from the
 * paper's text in many small ways: each is a field of struct sl_g10_rules. papers/g10 sets them.
 *
 * Threads: pure functions on their arguments.
 */
#ifndef SL_PLAN_G10_H
#define SL_PLAN_G10_H

#include "plan/plan.h"

/* Sort indices so that `before` holds between neighbours. */
typedef int (*sl_g10_before)(const void *context, uint32_t a, uint32_t b);
typedef void (*sl_g10_sorter)(uint32_t *index, uint32_t n, sl_g10_before before,
			      const void *context);

/* How a variant or the published program departs from the text; all 0: the text. */
struct sl_g10_rules {
	const char *name; /* of the plan; NULL: "g10" */
	int no_host;      /* host memory is not used, whatever the machine has */
	int forced; /* above the line at the peak, evicts without asking for bandwidth */
	int raised_line;         /* plans beyond the memory */
	int binary_giga;         /* takes a machine's GB/s for 2^30 bytes a second */
	int one_latency;         /* the store's read latency also for writes */
	int first_counted_twice; /* tensor 0 is in the memory estimate twice, and never freed */
	int benefit_only; /* candidates are ranked by benefit, not by benefit / cost */
	int looped_skewed; /* idle periods over the end of the iteration: benefit as computed
			      * by a table index that is one too low behind the wrap */
	int own_size_ignored; /* a prefetch moves ahead without asking for its own room */
	int empty_is_busy;    /* a write-out within one kernel counts as "store busy" */
	int hasty_busy; /* any kernel with free capacity makes the store free, where the text
			      * wants room for the whole transfer */
	int short_stays;    /* a period too short for any move is not struck off */
	sl_g10_sorter sort; /* the program's, which is not stable; NULL: stable */
};

/* Launches of one period of the trace are "kernels" here, as in the paper. */
struct sl_g10_tensor {
	uint64_t size_bytes;
	int is_global;
	int is_read;           /* by any kernel */
	uint32_t birth, death; /* alive in kernels [birth, death); globals [0, n) */
	uint32_t first_period, n_periods;
};

/* Kernels [start, end) leave the tensor idle; looped: [start, n) and [0, end). */
struct sl_g10_period {
	uint32_t tensor;
	uint32_t start, end;
	int looped;
	uint64_t ticks;
};

struct sl_g10_view {
	const struct sl_trace *trace;
	const struct sl_trace_launch *launches; /* the period's */
	uint32_t n;                             /* kernels */
	uint64_t *start_ticks;         /* n + 1: sum of durations before the kernel */
	struct sl_g10_tensor *tensors; /* as in the trace */
	uint32_t n_tensors;
	struct sl_g10_period *periods; /* by tensor, then time */
	uint32_t n_periods;
};

/* -ENOMEM; -EINVAL: no such period, text set. */
int sl_g10_view_init(struct sl_g10_view *view, const struct sl_trace *trace,
		     uint32_t period) SL_MUST_CHECK;
void sl_g10_view_fini(struct sl_g10_view *view);

/* Bytes of all tensors the kernel uses. */
uint64_t sl_g10_kernel_bytes(const struct sl_g10_view *view, uint32_t kernel);

/*
 * Make the plan. Errors: -ENOMEM, -EINVAL (machine or trace), -ENOSPC: the text names the launch
 * whose tensors do not fit and the least memory. An estimate that stays above the memory is not an
 * error: the plan then relies on eviction by the executor, as the paper's does.
 */
int sl_g10_plan(const struct sl_trace *trace, const struct sl_machine *machine,
		const struct sl_g10_rules *rules, struct sl_plan **out) SL_MUST_CHECK;

#endif
