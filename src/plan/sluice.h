/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of our planner share (docs/design/planner.md has the method):
 *
 *	sluice_problem.c   one period and the machine as gaps, pages and rates
 *	sluice_engine.c    the machine at work, tensor by tensor, in closed form between events
 *	sluice_cover.c     which gaps to spend outside device memory
 *	sluice_place.c     which of them in host memory, which in the store
 *	sluice_schedule.c  when to move
 *	sluice_search.c    the candidates, and the best of them
 *	sluice.c           the planner: what goes into the plan
 *
 * Quantities are pages and ticks of the trace's clock, as doubles (whole pages are exact far
 * beyond every memory). Launches count cyclically: the period repeats.
 *
 * Threads: one; nothing is shared.
 */
#ifndef SL_PLAN_SLUICE_H
#define SL_PLAN_SLUICE_H

#include "plan/plan.h"

#define SL_NO_LAUNCH UINT32_MAX

/* Never of NaN, so without the care that fmin() and fmax() take of it. */
static inline double
sl_min(double a, double b)
{
	return a < b ? a : b;
}

static inline double
sl_max(double a, double b)
{
	return a > b ? a : b;
}

/* A time in which no launch uses a tensor: launches begin ... begin + length - 1, modulo the
 * period. The next use is at `end`. */
struct sl_gap {
	uint32_t tensor;
	uint32_t begin, end, length;
	uint32_t clean; /* launches before begin since a use that changed the contents; < n */
	int dead; /* the contents do not matter: given free at begin, memory again before end */
};

struct sl_problem {
	uint32_t n, n_tensors, n_gaps;
	double *ticks; /* of each launch, everything resident */
	double *pages; /* of each tensor */
	/* Of each tensor: the time of its pages on the link, of that of raw ones
	 * (sl_machine_move()). */
	double *in_cost, *out_cost;
	uint32_t *use_first, *use; /* tensors of launch k: use[use_first[k] ...] */
	struct sl_gap *gaps;       /* by tensor, then by begin */
	/* Gaps that begin, and that end, at launch k. */
	uint32_t *begin_first, *begin_gap, *end_first, *end_gap;
	double *base;   /* by launch: pages there when nothing but the dead leaves */
	double *active; /* by launch: pages that it uses */
	double ideal;   /* sum of ticks */
	double total;   /* pages of all tensors used */
	double largest; /* of active; at launch largest_at */
	uint32_t largest_at;
	/* The machine: pages, pages per tick, ticks. */
	double device, host, store;
	double in, out, store_in, store_out, alloc;
	double grid; /* transfers are seen to arrive at multiples of this */
};

/* -ENOMEM; -ENOSPC: one launch does not fit, the text says which and what would do. */
int sl_problem_make(const struct sl_trace *trace, const struct sl_machine *machine,
		    int as_published, struct sl_problem *out) SL_MUST_CHECK;
void sl_problem_fini(struct sl_problem *problem);
/* Only the machine's part again. */
void sl_problem_machine(struct sl_problem *problem, uint64_t clock_hz,
			const struct sl_machine *machine, int as_published);

/* ---- sluice_engine.c ---- */

enum sl_tier { SL_AT_NONE, SL_AT_DEVICE, SL_AT_HOST, SL_AT_STORE };

enum sl_channel {
	SL_OUT_STORE,
	SL_OUT_HOST,
	SL_IN_STORE,
	SL_IN_HOST,
	SL_IN_ALLOC,
	SL_CHANNEL_COUNT /* also: in no channel */
};

enum sl_wait { /* what a launch waited for */
	       SL_WAIT_LINK_IN,
	       SL_WAIT_STORE_READ,
	       SL_WAIT_LINK_OUT, /* for room, which comes with what leaves */
	       SL_WAIT_STORE_WRITE,
	       SL_WAIT_COUNT
};

struct sl_channel_queue {
	uint32_t *tensor; /* ring of n_tensors + 1 */
	uint32_t head, count;
	double pages; /* still to move, all together; as many as raw ones that take as long */
};

struct sl_plan_engine {
	const struct sl_problem *problem;
	const double *ticks; /* of launches: the problem's, or noisy ones */
	double now, used, host_used, store_used;
	uint8_t *where; /* enum sl_tier, where a settled tensor is, a moving one came from */
	uint8_t *channel; /* enum sl_channel */
	double *left;     /* of a moving tensor: pages not yet moved */
	uint32_t *needed; /* by tensor: 1 + number of the launch waiting for it */
	struct sl_channel_queue queue[SL_CHANNEL_COUNT];
	uint32_t serial, missing;
	double ready; /* when the last needed tensor came */
	/* Counted since the last sl_plan_engine_count_reset(). */
	double moved[SL_CHANNEL_COUNT]; /* pages */
	double waited[SL_WAIT_COUNT];   /* ticks */
	double lost; /* pages of steps that came at a wrong moment, and of forced moves */
	double *start, *end; /* of the last run of each launch */
	uint8_t *wait;       /* by launch: enum sl_wait, the longest of its waits */
	uint32_t stuck_at; /* a launch that cannot get its room at all; or SL_NO_LAUNCH */
};

int sl_plan_engine_init(struct sl_plan_engine *engine,
			const struct sl_problem *problem) SL_MUST_CHECK;
void sl_plan_engine_fini(struct sl_plan_engine *engine);
/* At the beginning of a period: time 0, tensor t is at where[t] (enum sl_tier). */
void sl_plan_engine_begin(struct sl_plan_engine *engine, const double *ticks,
			  const uint8_t *where);
void sl_plan_engine_count_reset(struct sl_plan_engine *engine);

/* The steps of a plan, at the present time. One that makes no sense now is counted. */
void sl_plan_engine_free(struct sl_plan_engine *engine, uint32_t tensor);
void sl_plan_engine_alloc(struct sl_plan_engine *engine, uint32_t tensor);
void sl_plan_engine_prefetch(struct sl_plan_engine *engine, uint32_t tensor);
void sl_plan_engine_evict(struct sl_plan_engine *engine, uint32_t tensor, int to_store);
/* Run a launch: time passes until all it uses is there and it has computed. */
void sl_plan_engine_launch(struct sl_plan_engine *engine, uint32_t launch);

/* ---- sluice_cover.c ---- */

enum sl_fate { SL_FATE_KEEP, SL_FATE_OUT, SL_FATE_HOST, SL_FATE_STORE }; /* OUT: either */

/*
 * Choose gaps so that what stays fits in `limit` pages at every launch (but never less than
 * the launch itself uses): repeatedly, at the first launch over the limit, the gap that ends
 * last. times: n + 1 start times expected; a gap counts from when its tensor can be out to
 * when it has to come back, transfers taking `slow` times their time on an idle link. fate
 * (by gap): SL_FATE_KEEP or SL_FATE_OUT. -ENOMEM.
 */
int sl_cover(const struct sl_problem *problem, double limit, double slow,
	     const double *times, uint8_t *fate) SL_MUST_CHECK;

/* ---- sluice_place.c ---- */

/* The store's two directions, in multiples of their speed: the least that will do. Found by
 * the first sl_place() and used by the next ones for about the same gaps. */
struct sl_speeds {
	int known;
	double write, read;
};

/*
 * Make every fate that is not KEEP either HOST or STORE. times: as for sl_cover(). ease: how
 * much faster than with the least speeds the store's work is laid out; negative: than with its
 * own speeds, where those are higher. -ENOMEM.
 */
int sl_place(const struct sl_problem *problem, double ease, const double *times,
	     struct sl_speeds *speeds, uint8_t *fate) SL_MUST_CHECK;

/* ---- sluice_schedule.c ---- */

struct sl_schedule {
	uint8_t *fate;     /* by gap */
	uint32_t *back_at; /* by gap: launch at which it is prefetched, or allocated */
	double period;     /* ticks of a period, in the long run */
	double score;      /* period and a price for what should not happen */
	double *times;     /* n + 1: when launches start, from 0 */
	double moved[SL_CHANNEL_COUNT], waited[SL_WAIT_COUNT];
	uint8_t *wait; /* by launch */
	double lost;
	uint32_t stuck_at; /* as in the engine: no plan can do this */
};

struct sl_schedule_options {
	double headroom; /* pages of device memory that prefetches leave alone */
	/* Ticks that prefetches may come before their time, from host memory and the store. */
	double lead, store_lead;
	int skip; /* a small prefetch may pass one that finds no room */
};

int sl_schedule_init(struct sl_schedule *schedule,
		     const struct sl_problem *problem) SL_MUST_CHECK;
void sl_schedule_fini(struct sl_schedule *schedule);
void sl_schedule_copy(struct sl_schedule *to, const struct sl_schedule *from,
		      const struct sl_problem *problem);

/* Decide moments for schedule->fate, with schedule->times as the expectation. A gap for which
 * host memory has no room when it begins becomes STORE. */
int sl_schedule_decide(struct sl_schedule *schedule, const struct sl_problem *problem,
		       struct sl_plan_engine *engine,
		       const struct sl_schedule_options *options) SL_MUST_CHECK;

/*
 * What is decided, as steps in order: step(arg, launch, verb, tensor), and behind the steps
 * of each launch once with SL_PLAN_VERB_COUNT. Ends at the first that is not 0. -ENOMEM.
 */
typedef int sl_schedule_step(void *arg, uint32_t launch, enum sl_plan_verb verb,
			     uint32_t tensor);
int sl_schedule_steps(const struct sl_schedule *schedule, const struct sl_problem *problem,
		      sl_schedule_step *step, void *arg) SL_MUST_CHECK;

/* Run what is decided: fills period, score, times, moved, waited. ticks: of launches.
 * -ENOMEM. */
int sl_schedule_run(struct sl_schedule *schedule, const struct sl_problem *problem,
		    struct sl_plan_engine *engine, const double *ticks) SL_MUST_CHECK;

/* ---- sluice_search.c ---- */

/* The best schedule found; it is initialised by the caller. */
int sl_search(const struct sl_problem *problem, const struct sl_planner_options *options,
	      struct sl_schedule *best) SL_MUST_CHECK;

#endif
