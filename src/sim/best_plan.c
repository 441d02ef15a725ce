/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best of several plans, each carried out on the machine by the simulator (best_plan.h has
 * the list). A smaller thing is one rung below on a ladder of four values to a factor of two
 * (rung_below()). The ladder is the same for all machines, so neighbours try the same.
 *
 * A large trace would take long. Its candidates are judged by a simulation with longer transfer
 * steps. Only the best, or those as good, are simulated in full, and the plan for the smaller
 * device comes from a short search. A small trace takes the best plan for the smaller device,
 * found in the same way, and so on down to the least sufficient one.
 *
 * Threads: the candidates for one machine are planned and simulated at once on up to THREADS_MAX
 * threads, which end before the call returns. The answer does not depend on their number.
 */
#include "sim/best_plan.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "plan/bound.h"

#define THREADS_MAX  4 /* a heat has hardly more candidates */
/* Launches times uses of a small trace: its answer with all smaller devices takes about a
 * second then. More would make more of the order of machines certain, and take longer. */
#define SMALL_WORK   20000
/* Candidates of the planner's search for a smaller machine. Fewer are faster: 16 take half as
 * long, and answers with them were up to 3 % slower. */
#define SHORT_SEARCH 40
/* Steps of a period in the judging simulation. Fewer are faster; with these its times are off
 * by less than 4 parts in 10000, and what is closer than JUDGE_NEAR is simulated in full. */
#define JUDGE_STEPS  131072
#define JUDGE_NEAR   1.001
/* Times the bound: there is little more to gain, and slower links and stores are not tried. */
#define BOUND_NEAR   1.01
#define RUNGS_MAX    3 /* of link, store and host memory that are tried */
#define ENTRANTS_MAX (4 + 3 * RUNGS_MAX)

enum candidate_kind {
	CANDIDATE_OWN,     /* of our planner, for `machine` */
	CANDIDATE_RIVAL,   /* of the rival, for `machine` */
	CANDIDATE_NONE,    /* no steps: pages leave by LRU */
	CANDIDATE_SMALLER, /* the best for the smaller `machine` */
};

struct contest {
	const struct sl_trace *trace;
	const struct sl_planner *rival;
	const struct sl_sim_policy *policy;
	const struct sl_sim_options *options;
	uint64_t ideal_ticks;
	int is_large;
};

struct entrant {
	enum candidate_kind kind;
	struct sl_machine machine; /* that is planned for */
	struct sl_plan *plan;
	struct sl_sim_result result; /* of the judging simulation; then of the full one */
	int rc;
	char why[512]; /* text of the error */
};

/* All that is tried for one machine. */
struct race {
	const struct contest *contest;
	const struct sl_machine *machine; /* that plans are carried out on */
	struct sl_machine judge;          /* the same with longer steps */
	int depth;                        /* devices that it is below the one asked for */
	struct entrant entrants[ENTRANTS_MAX];
	uint32_t count, begun;        /* entered; of them begun by a thread */
	const struct entrant *leader; /* the best so far, NULL: none can run */
	double judged_ticks;          /* the least of the judging simulations */
	/* What a thread does with the entrant whose turn it is. */
	void (*run)(struct race *race, struct entrant *entrant);
	pthread_mutex_t lock; /* of begun */
};

static int race_run(const struct contest *contest, const struct sl_machine *machine,
		    int depth, struct sl_plan **plan, struct sl_sim_result *result);

/* ---- machines with less ---- */

/* The largest of 4, 5, 6, 7 times a power of two that is below the value. */
static double
rung_below(double value)
{
	int exponent;
	double eighths = frexp(value, &exponent) * 8; /* 4 to 8 */

	return ldexp(eighths > 4 ? ceil(eighths) - 1 : 3.5, exponent - 3);
}

enum axis { AXIS_DEVICE, AXIS_HOST, AXIS_LINK, AXIS_STORE, AXIS_COUNT };

/* One rung less of one thing; the way out keeps its proportion. */
static void
machine_lessen(struct sl_machine *machine, enum axis axis)
{
	double bps;

	switch (axis) {
	case AXIS_DEVICE:
		machine->device_bytes = (uint64_t)rung_below((double)machine->device_bytes);
		break;
	case AXIS_HOST:
		machine->host_bytes = (uint64_t)rung_below((double)machine->host_bytes);
		break;
	case AXIS_LINK:
		bps = rung_below(machine->link_in_bps / 1e9) * 1e9;
		machine->link_out_bps *= bps / machine->link_in_bps;
		machine->link_in_bps = bps;
		machine->store_read_bps = fmin(machine->store_read_bps, bps);
		machine->store_write_bps = fmin(machine->store_write_bps,
						machine->link_out_bps);
		break;
	case AXIS_STORE:
		bps = rung_below(machine->store_read_bps / 1e9) * 1e9;
		machine->store_write_bps *= bps / machine->store_read_bps;
		machine->store_read_bps = bps;
		break;
	case AXIS_COUNT:
		break;
	}
}

/* ---- one entrant ---- */

static void
entrant_fini(struct entrant *entrant)
{
	sl_plan_destroy(entrant->plan);
	sl_sim_result_fini(&entrant->result);
	entrant->plan = NULL;
}

static int
entrant_plan(const struct race *race, struct entrant *entrant)
{
	const struct contest *contest = race->contest;
	struct sl_planner_options planning = {.as_published = contest->options->as_published};
	const struct sl_planner *planner = &sl_planner_sluice;
	struct sl_sim_result result;
	int rc;

	switch (entrant->kind) {
	case CANDIDATE_NONE:
		return sl_plan_create(contest->trace, "lru", &entrant->plan);
	case CANDIDATE_RIVAL:
		planner = contest->rival;
		break;
	case CANDIDATE_OWN:
		if (entrant != &race->entrants[0])
			planning.candidates_max = SHORT_SEARCH;
		break;
	case CANDIDATE_SMALLER:
		rc = race_run(contest, &entrant->machine, race->depth + 1, &entrant->plan,
			      &result);
		if (!rc)
			sl_sim_result_fini(&result);
		return rc;
	}
	return planner->make(contest->trace, &entrant->machine, &planning, &entrant->plan);
}

static void
entrant_simulate(struct race *race, struct entrant *entrant, const struct sl_machine *machine)
{
	const struct contest *contest = race->contest;

	if (!entrant->rc)
		entrant->rc = contest->policy->run(contest->trace, machine, entrant->plan,
						   contest->options, &entrant->result);
	if (!entrant->rc && entrant->result.failed)
		entrant->rc = sl_fail(-ENOSPC, "%s", entrant->result.why);
	if (entrant->rc)
		snprintf(entrant->why, sizeof(entrant->why), "%s", sluice_last_error());
}

static void
entrant_judge(struct race *race, struct entrant *entrant)
{
	entrant->rc = entrant_plan(race, entrant);
	entrant_simulate(race, entrant, &race->judge);
}

/* In full, what may be the best. */
static void
entrant_finish(struct race *race, struct entrant *entrant)
{
	if (entrant->rc || race->judge.link_batch_pages == race->machine->link_batch_pages)
		return;
	if ((double)entrant->result.best_ticks > race->judged_ticks * JUDGE_NEAR) {
		entrant->rc = -EAGAIN; /* judged, and not the best */
		return;
	}
	sl_sim_result_fini(&entrant->result);
	entrant_simulate(race, entrant, race->machine);
}

/* ---- all of them ---- */

static void *
race_thread(void *arg)
{
	struct race *race = arg;
	uint32_t i;

	for (;;) {
		pthread_mutex_lock(&race->lock);
		i = race->begun < race->count ? race->begun++ : UINT32_MAX;
		pthread_mutex_unlock(&race->lock);
		if (i == UINT32_MAX)
			return NULL;
		race->run(race, &race->entrants[i]);
	}
}

/*
 * Run the entrants from `first` on; then the leader is the best of all, the first among
 * equals. What cannot run here is passed over, but out of memory ends it.
 */
static int
race_heat(struct race *race, uint32_t first,
	  void (*run)(struct race *race, struct entrant *entrant))
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t threads[THREADS_MAX];
	int count = 0;

	race->begun = first;
	race->run = run;
	while (!race->depth && count < THREADS_MAX - 1 && count < cpus - 1 &&
	       !pthread_create(&threads[count], NULL, race_thread, race))
		count++;
	race_thread(race);
	while (count)
		pthread_join(threads[--count], NULL);
	race->leader = NULL;
	for (uint32_t i = 0; i < race->count; i++) {
		const struct entrant *entrant = &race->entrants[i];

		if (entrant->rc == -ENOMEM)
			return sl_fail(-ENOMEM, "%s", entrant->why);
		if (!entrant->rc &&
		    (!race->leader ||
		     entrant->result.best_ticks < race->leader->result.best_ticks))
			race->leader = entrant;
	}
	return 0;
}

static void
race_enter(struct race *race, enum candidate_kind kind, const struct sl_machine *machine)
{
	race->entrants[race->count++] = (struct entrant){.kind = kind, .machine = *machine};
}

/* Its bounds; UINT64_MAX: it cannot run. */
static int
bound_of(const struct race *race, const struct sl_machine *machine, struct sl_bound *bound)
{
	const struct contest *contest = race->contest;
	int rc = sl_bound_make(contest->trace, machine, contest->options->as_published,
			       bound);

	if (rc == -ENOSPC || rc == -EINVAL)
		bound->ticks = bound->moving_ticks = UINT64_MAX;
	return rc == -ENOMEM ? rc : 0;
}

/* What was best for the next smaller device, or just its plan where the trace is large. */
static int
device_below(struct race *race)
{
	struct sl_machine less = *race->machine;
	uint32_t first = race->count;
	struct sl_bound bound;
	int rc = bound_of(race, race->machine, &bound);

	if (rc || (race->leader && race->leader->result.best_ticks <= bound.ticks))
		return rc; /* nothing can be faster */
	machine_lessen(&less, AXIS_DEVICE);
	rc = bound_of(race, &less, &bound);
	if (rc || bound.ticks == UINT64_MAX)
		return rc;
	race_enter(race, race->contest->is_large ? CANDIDATE_OWN : CANDIDATE_SMALLER, &less);
	return race_heat(race, first, entrant_judge);
}

/* Down the other axes together, each until no plan made for so little can be better. */
static int
others_below(struct race *race)
{
	struct sl_machine less[AXIS_COUNT];
	struct sl_bound bound;
	int done[AXIS_COUNT] = {0}, rc = bound_of(race, race->machine, &bound);
	double near = BOUND_NEAR * (double)bound.moving_ticks;

	for (int axis = AXIS_HOST; axis < AXIS_COUNT; axis++)
		less[axis] = *race->machine;
	done[AXIS_HOST] = !race->machine->host_bytes;
	for (int rung = 0; !rc && rung < RUNGS_MAX && race->leader; rung++) {
		uint32_t first = race->count;

		if ((double)race->leader->result.best_ticks <= near)
			return 0;
		for (int axis = AXIS_HOST; !rc && axis < AXIS_COUNT; axis++) {
			if (done[axis])
				continue;
			machine_lessen(&less[axis], (enum axis)axis);
			rc = bound_of(race, &less[axis], &bound);
			done[axis] = bound.moving_ticks >= race->leader->result.best_ticks;
			if (!rc && !done[axis])
				race_enter(race, CANDIDATE_OWN, &less[axis]);
		}
		if (!rc)
			rc = race_heat(race, first, entrant_judge);
	}
	return rc;
}

/* The machine with steps so long that a period has no more than JUDGE_STEPS. As published,
 * shares are whole pages of a step, and its length is part of the rules. */
static int
judge_make(struct race *race)
{
	const struct contest *contest = race->contest;
	struct sl_machine_steps steps = {0};
	uint64_t longer;
	int rc = sl_machine_check(race->machine);

	if (!rc)
		rc = sl_machine_steps(race->machine, contest->trace->clock_hz,
				      contest->options->as_published, &steps);
	race->judge = *race->machine;
	if (rc || !contest->is_large || contest->options->as_published ||
	    contest->ideal_ticks / JUDGE_STEPS <= steps.step_ticks)
		return rc;
	longer = contest->ideal_ticks / JUDGE_STEPS / steps.step_ticks;
	race->judge.link_batch_pages = (uint32_t)fmin(1u << 20,
						      (double)race->judge.link_batch_pages *
							      (double)longer);
	return 0;
}

static int
race_run(const struct contest *contest, const struct sl_machine *machine, int depth,
	 struct sl_plan **plan, struct sl_sim_result *result)
{
	SL_CLEANUP(free) struct race *race = calloc(1, sizeof(*race));
	int rc;

	if (!race)
		return sl_fail(-ENOMEM, "plan: out of memory");
	race->contest = contest;
	race->machine = machine;
	race->depth = depth;
	pthread_mutex_init(&race->lock, NULL);
	rc = judge_make(race);
	if (!rc) {
		race_enter(race, CANDIDATE_OWN, machine);
		race_enter(race, CANDIDATE_RIVAL, machine);
		race_enter(race, CANDIDATE_NONE, machine);
		rc = race_heat(race, 0, entrant_judge);
	}
	if (!rc)
		rc = device_below(race);
	if (!rc)
		rc = others_below(race);
	if (!rc && race->leader) {
		/* Finishing replaces the leader's result, too. */
		race->judged_ticks = (double)race->leader->result.best_ticks;
		rc = race_heat(race, 0, entrant_finish);
	}
	if (!rc && !race->leader)
		rc = sl_fail(race->entrants[0].rc, "%s", race->entrants[0].why);
	if (!rc) {
		struct entrant *best = &race->entrants[race->leader - race->entrants];

		*plan = best->plan;
		*result = best->result;
		best->plan = NULL;
		memset(&best->result, 0, sizeof(best->result));
	}
	for (uint32_t i = 0; i < race->count; i++)
		entrant_fini(&race->entrants[i]);
	pthread_mutex_destroy(&race->lock);
	return rc;
}

int
sl_best_plan(const struct sl_trace *trace, const struct sl_machine *machine,
	     const struct sl_planner *rival, const struct sl_sim_policy *policy,
	     const struct sl_sim_options *options, struct sl_plan **plan,
	     struct sl_sim_result *result)
{
	struct contest contest = {.trace = trace,
				  .rival = rival,
				  .policy = policy,
				  .options = options};
	uint32_t first = trace->period_first[0], launches = trace->period_first[1] - first;
	uint64_t uses = 0;

	for (uint32_t k = first; k < first + launches; k++) {
		uses += trace->launches[k].n_uses;
		contest.ideal_ticks += trace->launches[k].ticks;
	}
	contest.is_large = launches * uses > SMALL_WORK;
	return race_run(&contest, machine, 0, plan, result);
}
