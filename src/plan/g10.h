/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published planner (paper G10, section 4) in its three variants, and the lifetimes and
 * idle periods it works on, which the tensor-level simulations use as well.
 *
 * g10_periods.c makes the view of a trace's first period; g10_sort.c is the sort whose
 * order of equal elements the published results depend on; g10_traffic.c books transfers
 * into the kernels' capacities; g10.c chooses and schedules. The many small departures of
 * the published program from the paper's text are the fields of struct sl_g10_rules, one
 * line each.
 *
 * Threads: pure functions on their arguments.
 */
#ifndef SL_PLAN_G10_H
#define SL_PLAN_G10_H

#include "plan/plan.h"

enum sl_g10_variant {
	SL_G10_FULL, /* G10 */
	SL_G10_GDS,  /* G10-GDS: no host memory, whatever the machine has */
	SL_G10_HOST, /* G10-Host */
	SL_G10_VARIANT_COUNT
};

/* Where the published program and the text part; 1 is the program. */
struct sl_g10_rules {
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
	int short_stays;   /* a period too short for any move is not struck off */
	int unstable_sort; /* equal elements fall as the sort of libstdc++ leaves them */
	int raised_line;   /* G10-GDS and G10-Host may plan beyond the memory */
};

void sl_g10_rules_set(struct sl_g10_rules *rules, int as_published);

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

/* Whether a use reads what was there before, and whether it leaves something. */
int sl_g10_use_reads(enum sluice_intent intent);

/*
 * Make the plan. as_published: the rules of the published program, else those of the paper.
 * Errors: -ENOMEM, -EINVAL (machine or trace), -ENOSPC: the text names the launch whose
 * tensors do not fit and the least memory. An estimate that stays above the memory is not an
 * error: the plan then relies on eviction by the executor, as the paper's does.
 */
int sl_g10_plan(const struct sl_trace *trace, const struct sl_machine *machine,
		enum sl_g10_variant variant, int as_published,
		struct sl_plan **out) SL_MUST_CHECK;

/* The variants behind the planner interface; sl_planner_g10 is in plan.h. */
extern const struct sl_planner sl_planner_g10_gds;
extern const struct sl_planner sl_planner_g10_host;

/*
 * g10_sort.c: sort indices so that `before` holds between neighbours; not stable: equal
 * elements end in the order in which libstdc++'s std::sort leaves them. A relation that is
 * no order gives some order, never a wild access.
 */
typedef int (*sl_g10_before)(const void *context, uint32_t a, uint32_t b);
void sl_g10_sort(uint32_t *index, uint32_t n, sl_g10_before before, const void *context);

#endif
