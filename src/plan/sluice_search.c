/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The candidates, and the best of them.
 *
 * The rules of covering, placing and scheduling have a few settings. Their best values depend on
 * the trace and the machine, and are cheaper to try than to derive. The search starts from
 * values that are good on average. One setting after the other is varied and the best value
 * kept. The launch times of the best schedule so far are the expectation of the next: waits make
 * gaps longer. Each candidate is a whole schedule, run on the engine.
 *
 * A second such descent begins elsewhere, with the remaining candidates. The search ends at a
 * schedule without waits, after a whole round without a gain, or after a number of candidates.
 * That number follows from the size of the trace: the same input gives the same plan on every
 * machine, however fast. Threads: one.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/sluice.h"

#define TRIED_MAX   256   /* candidates remembered, and so the most that are run */
#define TRIED_LEAST 12    /* of a large problem; of a small one more: */
#define TRIED_WORK  2.5e8 /* so many gaps times launches */
#define ROUNDS      4     /* for the default effort */

enum setting {
	SET_RESERVE, /* share of device memory that covering leaves free for transfers */
	SET_SLOW, /* how much longer than on an idle link a transfer is thought to take */
	SET_LEAD, /* how long before its time a tensor may come from host memory; periods */
	SET_STORE_LEAD, /* the same from the store */
	SET_EASE,       /* how much faster than necessary the store's calendars are */
	SET_SKIP,       /* small prefetches pass blocked ones */
	SET_COUNT
};

#define VALUES_MAX 8

static const struct {
	unsigned count;
	double value[VALUES_MAX];
} settings[SET_COUNT] = {
	[SET_RESERVE] = {6, {0.005, 0.02, 0.05, 0.1, 0.2, 0.3}},
	[SET_SLOW] = {3, {0, 1, 2}},
	[SET_LEAD] = {4, {INFINITY, 0.03, 0.01, 0.003}},
	[SET_STORE_LEAD] = {4, {INFINITY, 0.1, 0.03, 0.01}},
	[SET_EASE] = {8, {1, 1.25, 1.6, 2.2, 4, -1, -1.6, -2.2}},
	[SET_SKIP] = {2, {0, 1}},
};

/* In which the settings are varied. */
static const enum setting order[] = {SET_EASE,       SET_RESERVE, SET_LEAD,
				     SET_STORE_LEAD, SET_SKIP,    SET_SLOW};

struct search {
	const struct sl_problem *p;
	struct sl_plan_engine engine;
	struct sl_schedule trial, *best;
	unsigned chosen[SET_COUNT]; /* of the best: numbers of values */
	uint64_t tried[TRIED_MAX];  /* what was run, as a hash */
	unsigned n_tried, max_tried, descent;
	struct sl_speeds speeds; /* of this round */
};

/* FNV-1a of what a schedule follows from. 0 if it was tried before. */
static int
search_is_new(struct search *search, const unsigned *choice, int round)
{
	const struct sl_problem *p = search->p;
	uint64_t hash = UINT64_C(14695981039346656037) ^
			((unsigned)round + 64 * search->descent);

	for (uint32_t g = 0; g < p->n_gaps; g++)
		hash = (hash ^ search->trial.fate[g]) * UINT64_C(1099511628211);
	for (int i = SET_LEAD; i < SET_COUNT; i++)
		hash = (hash ^ choice[i]) * UINT64_C(1099511628211);
	for (unsigned i = 0; i < search->n_tried; i++)
		if (search->tried[i] == hash)
			return 0;
	search->tried[search->n_tried++] = hash;
	return 1;
}

/* Run one candidate; the best is replaced if it is better. */
static int
search_try(struct search *search, const unsigned *choice, int round)
{
	const struct sl_problem *p = search->p;
	struct sl_schedule *trial = &search->trial;
	double value[SET_COUNT];
	struct sl_schedule_options options = {.headroom = 0.005 * p->device};
	int rc;

	if (search->n_tried == search->max_tried)
		return 0;
	for (int i = 0; i < SET_COUNT; i++)
		value[i] = settings[i].value[choice[i]];
	options.lead = value[SET_LEAD] * p->ideal;
	options.store_lead = value[SET_STORE_LEAD] * p->ideal;
	options.skip = (int)value[SET_SKIP];
	memcpy(trial->times, search->best->times, ((size_t)p->n + 1) * sizeof(double));
	rc = sl_cover(p, p->device * (1 - value[SET_RESERVE]), value[SET_SLOW],
		      trial->times, trial->fate);
	if (rc || !search_is_new(search, choice, round))
		return rc;
	rc = sl_place(p, value[SET_EASE], trial->times, &search->speeds, trial->fate);
	if (!rc)
		rc = sl_schedule_decide(trial, p, &search->engine, &options);
	if (!rc)
		rc = sl_schedule_run(trial, p, &search->engine, p->ticks);
	if (rc)
		return rc;
	if (trial->score < search->best->score) {
		sl_schedule_copy(search->best, trial, p);
		memcpy(search->chosen, choice, sizeof(search->chosen));
	}
	return 0;
}

static int
search_round(struct search *search, int round)
{
	unsigned choice[SET_COUNT];
	int rc = 0;

	if (round > 0)
		search->speeds.known = 0;
	for (size_t i = 0; !rc && i < sizeof(order) / sizeof(order[0]); i++) {
		enum setting setting = order[i];
		unsigned kept;

		memcpy(choice, search->chosen, sizeof(choice));
		kept = choice[setting];
		for (unsigned v = 0; !rc && v < settings[setting].count; v++) {
			choice[setting] = v;
			if (v != kept)
				rc = search_try(search, choice, round);
			if (search->best->score <= search->p->ideal)
				return rc;
		}
	}
	return rc;
}

/* From where a descent begins: numbers of values. The first is the best on average. */
static const unsigned starts[][SET_COUNT] = {
	{0, 0, 1, 0, 6, 1},
	{1, 0, 2, 0, 2, 0},
};

/* One descent: search->best is what it begins and ends with. */
static int
search_descend(struct search *search, const unsigned start[SET_COUNT], int rounds)
{
	double ideal = search->p->ideal;
	int rc;

	memcpy(search->chosen, start, sizeof(search->chosen));
	search->speeds.known = 0;
	rc = search_try(search, start, 0);
	for (int round = 0; !rc && round < rounds && search->best->score > ideal; round++) {
		double before = search->best->score;

		rc = search_round(search, round);
		if (search->best->score > before * 0.9999)
			break;
	}
	return rc;
}

static int
search_starts(struct search *search, int rounds, struct sl_schedule *best)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < sizeof(starts) / sizeof(starts[0]); i++) {
		struct sl_schedule found;

		if (best->score <= search->p->ideal || search->n_tried == search->max_tried)
			break;
		rc = sl_schedule_init(&found, search->p);
		if (rc)
			break;
		/* cppcheck-suppress autoVariables; the next start has its own, and nobody looks later */
		search->best = &found;
		search->descent = (unsigned)i;
		rc = search_descend(search, starts[i], rounds);
		if (!rc && found.score < best->score)
			sl_schedule_copy(best, &found, search->p);
		sl_schedule_fini(&found);
	}
	return rc;
}

int
sl_search(const struct sl_problem *problem, const struct sl_planner_options *options,
	  struct sl_schedule *best)
{
	struct search *search = calloc(1, sizeof(*search));
	double tries;
	int rc;

	if (!search)
		return sl_fail(-ENOMEM, "plan: out of memory");
	search->p = problem;
	tries = TRIED_LEAST + TRIED_WORK / ((double)problem->n * (problem->n_gaps + 1));
	search->max_tried = (unsigned)sl_min(TRIED_MAX, tries * (1.0 + options->effort));
	if (options->candidates_max && options->candidates_max < search->max_tried)
		search->max_tried = options->candidates_max;
	rc = sl_plan_engine_init(&search->engine, problem);
	if (!rc)
		rc = sl_schedule_init(&search->trial, problem);
	if (!rc)
		rc = search_starts(search, ROUNDS, best);
	sl_schedule_fini(&search->trial);
	sl_plan_engine_fini(&search->engine);
	free(search);
	return rc;
}
