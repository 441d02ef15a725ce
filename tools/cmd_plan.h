/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of `sluice plan`: the options, and the results of one run.
 *
 * cmd_plan.c reads the command line, plans and simulates. plan_report.c prints one run.
 * plan_sweep.c tries many machines. plan_picture.c draws. Threads: one, except in the sweep.
 */
#ifndef SL_TOOLS_CMD_PLAN_H
#define SL_TOOLS_CMD_PLAN_H

#include <stdint.h>

#include "base/error.h"
#include "plan/bound.h"
#include "plan/plan.h"
#include "sim/sim.h"

#define PLAN_PHASES      10 /* of a period, in the report */
#define SWEEP_AXES_MAX   4
#define SWEEP_MAX        512 /* machines */
#define SWEEP_VALUES_MAX 128 /* of an axis */

/* A policy that --policy names. */
struct plan_policy {
	const struct sl_sim_policy *policy;
	int plans;           /* it carries out a plan: the one given, or */
	const char *planner; /* always that planner's; NULL: the one asked for */
	int unbound; /* it does not keep to the rules of the machine that the bound is for, */
	int unbound_published; /* or not with --as-published, since it keeps copies */
	int codes;             /* it moves by a link that may compress: --codec */
};

/* What a program's `plan` offers: tools/plan_models.c, papers/g10/plan_models.c. */
struct plan_models {
	const struct sl_planner *(*planner_find)(const char *name);
	const struct plan_policy *policies; /* the default one first; the last has no policy */
	int publishes;                      /* there is --as-published */
	const char *planner_help, *policy_help;
};
extern const struct plan_models plan_models;

struct plan_job {
	const char *trace_path;
	const struct sl_planner *planner;
	const struct plan_policy *policy;
	const char *plan_path; /* --plan: carry this one out instead of making one */
	const char *output, *svg, *sweep;
	struct sl_machine machine;
	double keep; /* share of the speed with unlimited memory; 0: not said */
	int as_json, as_published;
	const struct sl_trace *trace; /* of one period */
	uint32_t period,
		n_periods; /* which it is, and of how many; before: SL_TRACE_NONE, any */
};

struct plan_outcome {
	struct sl_plan *plan; /* NULL: the policy takes none */
	struct sl_sim_result result;
	struct sl_bound bound;
	int has_bound; /* the policy keeps to the rules of the machine that it is for */
	/* With --codec: the same on the machine without it. */
	struct sl_sim_result raw_result;
	struct sl_bound raw_bound;
};

/* Does the job's link compress? */
static inline int
plan_job_codes(const struct plan_job *job)
{
	return job->machine.encode_bps > 0;
}

/* The period that is asked for, as a trace of one. On failure *trace is the caller's as it was. */
int plan_period_take(struct plan_job *job, struct sl_trace **trace) SL_MUST_CHECK;
/* Print it, as a table or as one JSON object. */
void plan_report_print(const struct plan_job *job, const struct plan_outcome *outcome);
void plan_report_json(const struct plan_job *job, const struct plan_outcome *outcome);
/* In one word: "compute", "link in", ... */
const char *plan_bound_name(enum sl_sim_bound bound);

/* Go through all machines of job->sweep and print what they keep. Returns an exit code. */
int plan_sweep_run(const struct plan_job *job);
/* The same for `sluice report`: the job's machine with each of the rising sizes of device memory,
 * SWEEP_VALUES_MAX at most. kept[i]: share of the speed with unlimited memory, below 0: it cannot
 * run. unlimited_s: seconds of a period with that. 0 or -errno with a text. */
int plan_sweep_sizes(const struct plan_job *job, const uint64_t *device_bytes, uint32_t n,
		     double *kept, double *unlimited_s) SL_MUST_CHECK;

/* plan_picture.c: errors are those of writing path. */
int plan_picture_run(const char *path, const struct plan_job *job,
		     const struct plan_outcome *outcome) SL_MUST_CHECK;
struct plan_line {
	char name[96];
	const double *kept; /* by value of the axis; below 0: cannot run */
};
int plan_picture_sweep(const char *path, const char *axis, const char *const *values,
		       uint32_t n_values, const struct plan_line *lines, uint32_t n_lines,
		       double keep) SL_MUST_CHECK;

/* "24G": memory by powers of 1024. "7G": bytes per second by powers of 1000. -EINVAL. */
int plan_rate_parse(const char *text, double *out) SL_MUST_CHECK;

#endif
