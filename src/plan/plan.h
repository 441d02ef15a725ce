/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan: moves of tensors decided ahead of time, attached to launches of one period; and
 * the one interface of all planners. The simulator (src/sim) executes it. It is written to and
 * read from files that people can read and diff (plan_file.c, man page sluice-plan(5)).
 *
 * A plan is a promise about order, not about time: each step is issued when its launch
 * begins (before the launch's own needs), goes to its queue, and takes what it takes. A plan
 * that is wrong costs time and never the result. The period repeats: a step may serve a use
 * of the next period (an alloc at the last launch for the first one), and a plan without
 * steps means that everything stays where it is.
 */
#ifndef SL_PLAN_PLAN_H
#define SL_PLAN_PLAN_H

#include "plan/machine.h"
#include "trace/trace.h"

enum sl_plan_verb {
	SL_PLAN_ALLOC,       /* give the tensor device memory, contents do not matter */
	SL_PLAN_FREE,        /* contents are dead: drop every copy */
	SL_PLAN_PREFETCH,    /* bring it to the device from wherever it is */
	SL_PLAN_EVICT_HOST,  /* send it to host memory */
	SL_PLAN_EVICT_STORE, /* send it to the store */
	SL_PLAN_VERB_COUNT
};

#define SL_PLAN_STEPS_MAX (1u << 27) /* bound of readers and builders */

struct sl_plan_step {
	uint32_t launch; /* of the period, 0 ... n_launches - 1 */
	enum sl_plan_verb verb;
	uint32_t tensor;
};

struct sl_plan {
	char *planner;                  /* name of what made it. Owned */
	uint32_t n_launches, n_tensors; /* of the trace's period: a plan for another refuses */
	struct sl_plan_step *steps; /* ascending launch; order within a launch counts */
	uint32_t n_steps, max_steps;
	uint64_t predicted_ns; /* of one period; 0: the planner does not say */
};

struct sl_planner_options {
	/* Reproduce the published artifact where it departs from its paper (units, truncations,
	 * tie order); only the published planner looks at it. */
	int as_published;
	uint64_t seed;   /* of a local search; the same seed gives the same plan */
	uint32_t effort; /* 0: default; higher: more rounds of search */
	uint32_t candidates_max; /* of a search; 0: as many as the default takes */
};

/* One planner. make: -ENOSPC when no plan can fit: the text says which launch does not, and
 * the least device memory that would do. Pure: same input, same plan. One thread. */
struct sl_planner {
	const char *name; /* "sluice", "g10" */
	int (*make)(const struct sl_trace *trace, const struct sl_machine *machine,
		    const struct sl_planner_options *options, struct sl_plan **out);
};

extern const struct sl_planner sl_planner_g10;              /* of the paper G10 */
extern const struct sl_planner sl_planner_sluice;           /* ours */
const struct sl_planner *sl_planner_find(const char *name); /* NULL: none of that name */

/* "alloc", "free", "prefetch", "evict-host", "evict-store": as in plan files. */
const char *sl_plan_verb_name(enum sl_plan_verb verb);

/*
 * An empty plan for one period of the trace; add appends a step. destroy takes NULL. Errors:
 * -ENOMEM; add also -EINVAL (launch, tensor or verb out of range) and -E2BIG.
 */
int sl_plan_create(const struct sl_trace *trace, const char *planner,
		   struct sl_plan **out) SL_MUST_CHECK;
void sl_plan_destroy(struct sl_plan *plan);
int sl_plan_add(struct sl_plan *plan, uint32_t launch, enum sl_plan_verb verb,
		uint32_t tensor) SL_MUST_CHECK;

int sl_plan_write(const struct sl_plan *plan, const char *path) SL_MUST_CHECK;
int sl_plan_read(const char *path, struct sl_plan **out) SL_MUST_CHECK;
int sl_plan_decode(const void *data, size_t bytes, const char *label,
		   struct sl_plan **out) SL_MUST_CHECK;

#endif
