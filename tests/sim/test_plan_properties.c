/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our planner's plans over random traces and machines, judged by a small executor of this
 * file's own: never over budget at any launch, every use present, every byte that a launch
 * reads is the one that was written last. Then the simulator: it runs them, and not faster than
 * the lower bound allows. At the end the published inputs: never slower than the published
 * planner there, and as fast with kernel times off by a fifth.
 */
#include "g10/replica.h"
#include "plan/bound.h"
#include "plan/plan.h"
#include "plan_check.h"
#include "sim_test.h"

#define SEEDS   80
#define PERIODS 3
#define GARBAGE UINT32_MAX

/* Every intent, lives that overlap in every way. */
static struct sl_trace *
mixed_trace(struct sl_rng *rng)
{
	uint32_t tensors = 2 + (uint32_t)sl_rng_below(rng, 30), number;
	uint32_t launches = 1 + (uint32_t)sl_rng_below(rng, 60);
	struct sl_trace *trace;

	CHECK(!sl_trace_create(1000000000, &trace));
	for (uint32_t t = 0; t < tensors; t++)
		CHECK(!sl_trace_add_tensor(trace, 1 + sl_rng_below(rng, 64 * 4 * KIB),
					   sl_rng_below(rng, 3) ? SL_TENSOR_LOCAL
								: SL_TENSOR_GLOBAL,
					   NULL, &number));
	CHECK(!sl_trace_add_period(trace));
	for (uint32_t k = 0; k < launches; k++) {
		CHECK(!sl_trace_add_launch(trace, 1 + sl_rng_below(rng, 200000), NULL,
					   &number));
		for (uint64_t i = 1 + sl_rng_below(rng, 4); i > 0; i--) {
			uint32_t tensor = (uint32_t)sl_rng_below(rng, tensors);
			int rc = sl_trace_add_use(
				trace, tensor,
				(enum sluice_intent)sl_rng_below(rng, SLUICE_USE_COUNT));

			/* Scratch goes with no other intent of the same launch. */
			CHECK(!rc || rc == -EINVAL);
		}
	}
	return trace;
}

static uint64_t
pages_of(const struct sl_trace *trace, uint32_t tensor)
{
	return (trace->tensors[tensor].size_bytes + 4 * KIB - 1) / (4 * KIB);
}

/* What the largest launch uses, in pages. */
static uint64_t
pages_least(const struct sl_trace *trace)
{
	uint64_t most = 0;

	for (uint32_t k = 0; k < trace->n_launches; k++) {
		const struct sl_trace_launch *launch = &trace->launches[k];
		uint64_t pages = 0;

		for (uint32_t i = 0; i < launch->n_uses; i++)
			pages += pages_of(trace, trace->uses[launch->first_use + i].tensor);
		most = pages > most ? pages : most;
	}
	return most;
}

/* ---- the executor ---- */

/* Contents are numbered: which write made them. */
struct copies {
	int on_device, outside;
	uint32_t contents; /* of whichever there is */
	uint32_t wanted;   /* with unlimited memory; GARBAGE: anything */
};

static void
step_do(struct copies *copies, enum sl_plan_verb verb)
{
	switch (verb) {
	case SL_PLAN_FREE:
		copies->on_device = copies->outside = 0;
		break;
	case SL_PLAN_ALLOC:
		if (!copies->on_device)
			copies->contents = GARBAGE;
		copies->on_device = 1;
		copies->outside = 0;
		break;
	case SL_PLAN_PREFETCH:
		if (!copies->on_device && !copies->outside)
			copies->contents = GARBAGE;
		copies->on_device = 1;
		copies->outside = 0;
		break;
	case SL_PLAN_EVICT_HOST:
	case SL_PLAN_EVICT_STORE:
		if (copies->on_device)
			copies->outside = 1;
		copies->on_device = 0;
		break;
	case SL_PLAN_VERB_COUNT:
		CHECK(0);
	}
}

static void
use_do(struct copies *copies, enum sluice_intent intent, uint32_t *writes, int in_earnest)
{
	int reads = intent == SLUICE_USE_READ || intent == SLUICE_USE_READ_WRITE;

	if (in_earnest) {
		CHECK(copies->on_device);
		if (reads && copies->wanted != GARBAGE)
			CHECK_EQ(copies->contents, copies->wanted);
	} else if (!copies->on_device) {
		step_do(copies, SL_PLAN_PREFETCH);
	}
	if (intent == SLUICE_USE_SCRATCH) {
		copies->contents = copies->wanted = GARBAGE;
	} else if (intent != SLUICE_USE_READ) {
		/* A part of what is not what it should be is not what it should be, either. */
		int whole = intent == SLUICE_USE_WRITE_ALL || copies->wanted == GARBAGE ||
			    copies->contents == copies->wanted;

		copies->wanted = (*writes)++;
		copies->contents = whole ? copies->wanted : GARBAGE;
	}
}

static void
plan_execute(const struct sl_plan *plan, const struct sl_trace *trace,
	     const struct sl_machine *machine)
{
	struct copies *copies = calloc(trace->n_tensors, sizeof(*copies));
	uint64_t budget = machine->device_bytes / (4 * KIB);
	uint32_t writes = 1;

	CHECK(copies != NULL);
	for (uint32_t t = 0; t < trace->n_tensors; t++)
		copies[t].outside = trace->tensors[t].kind == SL_TENSOR_GLOBAL;
	for (int period = 0; period < PERIODS; period++) {
		uint32_t at = 0;

		for (uint32_t t = 0; t < trace->n_tensors; t++)
			if (trace->tensors[t].kind != SL_TENSOR_GLOBAL)
				copies[t].wanted = GARBAGE;
		for (uint32_t k = 0; k < trace->n_launches; k++) {
			const struct sl_trace_launch *launch = &trace->launches[k];
			uint64_t used = 0;

			for (; at < plan->n_steps && plan->steps[at].launch == k; at++)
				step_do(&copies[plan->steps[at].tensor],
					plan->steps[at].verb);
			for (uint32_t i = launch->first_use;
			     i < launch->first_use + launch->n_uses; i++)
				use_do(&copies[trace->uses[i].tensor],
				       trace->uses[i].intent, &writes, period > 0);
			for (uint32_t t = 0; t < trace->n_tensors; t++)
				used += copies[t].on_device ? pages_of(trace, t) : 0;
			CHECK(period == 0 || used <= budget);
		}
	}
	free(copies);
}

/* ---- properties ---- */

static void
plan_simulate(const struct sl_plan *plan, const struct sl_trace *trace,
	      const struct sl_machine *machine)
{
	const struct sl_sim_policy *policy = g10_policy_find("plan");

	CHECK(policy != NULL);
	/* As published no link compresses. */
	for (int as_published = 0; as_published < 1 + !(machine->encode_bps > 0);
	     as_published++) {
		struct sl_sim_options options = {.as_published = as_published, .periods = 5};
		struct sl_sim_result result;
		struct sl_bound bound;

		CHECK(!policy->run(trace, machine, plan, &options, &result));
		CHECK(!result.failed);
		CHECK(!sl_bound_make(trace, machine, as_published, &bound));
		CHECK(bound.ticks >= bound.compute_ticks);
		for (uint32_t p = 0; p < result.n_periods; p++)
			CHECK(result.period_ticks[p] >= bound.ticks);
		sl_sim_result_fini(&result);
	}
}

static void
random_plans_keep_budget_presence_and_bytes(void)
{
	struct sl_rng rng;
	uint64_t steps = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sl_machine machine;
		struct sl_trace *trace;
		struct sl_plan *plan;
		uint64_t least;

		sl_rng_init(&rng, seed);
		trace = mixed_trace(&rng);
		least = pages_least(trace);
		small_machine(&machine, (uint32_t)(least + sl_rng_below(&rng, 4 * least)),
			      (uint32_t)sl_rng_below(&rng, 20 * least));
		if (sl_planner_sluice.make(trace, &machine, NULL, &plan) ||
		    sl_plan_check(plan, trace, &machine)) {
			fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, sluice_last_error());
			exit(1);
		}
		plan_execute(plan, trace, &machine);
		plan_simulate(plan, trace, &machine);
		steps += plan->n_steps;
		sl_plan_destroy(plan);
		/* Made for a compressed link, it keeps the same rules. */
		codec_draw(&rng, trace, &machine);
		CHECK(!sl_planner_sluice.make(trace, &machine, NULL, &plan));
		CHECK(!sl_plan_check(plan, trace, &machine));
		plan_execute(plan, trace, &machine);
		plan_simulate(plan, trace, &machine);
		sl_plan_destroy(plan);
		sl_trace_destroy(trace);
	}
	CHECK(steps > 10 * SEEDS); /* the machines were small enough to matter */
}

static void
device_one_page_too_small_is_refused_and_named(void)
{
	struct sl_rng rng;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct sl_machine machine;
		struct sl_plan *plan = NULL;
		struct sl_trace *trace;
		uint64_t least;
		char words[64];

		sl_rng_init(&rng, seed);
		trace = mixed_trace(&rng);
		least = pages_least(trace);
		if (least > 1) {
			small_machine(&machine, (uint32_t)least - 1, 1000);
			snprintf(words, sizeof(words), "at least %" PRIu64 " bytes",
				 least * 4 * KIB);
			CHECK_FAILS(sl_planner_sluice.make(trace, &machine, NULL, &plan),
				    -ENOSPC, words);
			CHECK(plan == NULL);
		}
		sl_trace_destroy(trace);
	}
}

/* ---- the published inputs ---- */

static const struct cell {
	const char *model;
	uint32_t batch;
	uint64_t host_gib;
	double store_bps, link_bps;
} cells[] = {
	{"BERT_Base", 128, 128, 3.2e9, 15.754e9},
	{"BERT_Base", 256, 128, 3.2e9, 15.754e9},
	{"BERT_Base", 512, 128, 3.2e9, 15.754e9},
	{"BERT_Base", 512, 32, 3.2e9, 15.754e9},
	{"BERT_Base", 512, 128, 12.8e9, 32e9},
	{"BERT_Base", 384, 0, 3.2e9, 15.754e9},
	{"Inceptionv3", 1280, 128, 3.2e9, 15.754e9},
};

static uint64_t
cell_run(const struct sl_trace *trace, const struct sl_machine *machine,
	 const struct sl_plan *plan, double noise, uint64_t *ideal_ticks)
{
	struct sl_sim_options options = {.as_published = 1};
	const struct sl_sim_policy *policy = g10_policy_find("plan");
	struct sl_sim_result result;
	struct sl_trace noisy;
	uint64_t ticks;

	CHECK(!g10_noise_make(trace, noise, 3, &noisy));
	CHECK(!policy->run(noise > 0 ? &noisy : trace, machine, plan, &options, &result));
	g10_noise_fini(&noisy);
	CHECK(!result.failed);
	ticks = result.best_ticks;
	*ideal_ticks = result.ideal_ticks;
	sl_sim_result_fini(&result);
	return ticks;
}

static void
published_planner_is_never_faster(void)
{
	struct sl_planner_options options = {.as_published = 1};

	for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
		struct sl_trace *trace = published_trace(cells[i].model, cells[i].batch);
		struct sl_plan *ours, *theirs;
		uint64_t ticks, noisy, ideal, noisy_ideal, g10;
		struct sl_machine machine;

		if (!trace)
			return; /* said by published_trace() */
		sl_machine_g10(&machine);
		machine.host_bytes = cells[i].host_gib * GIB;
		machine.store_read_bps = machine.store_write_bps = cells[i].store_bps;
		machine.link_in_bps = machine.link_out_bps = cells[i].link_bps;
		CHECK(!sl_planner_sluice.make(trace, &machine, &options, &ours));
		CHECK(!g10_planner_find("g10")->make(trace, &machine, &options, &theirs));
		CHECK(!sl_plan_check(ours, trace, &machine));
		ticks = cell_run(trace, &machine, ours, 0, &ideal);
		g10 = cell_run(trace, &machine, theirs, 0, &ideal);
		noisy = cell_run(trace, &machine, ours, 0.2, &noisy_ideal);
		printf("%s-%u: ours %.4f, g10 %.4f, noisy %.4f of ideal\n",
		       cells[i].model, cells[i].batch, (double)ticks / (double)ideal,
		       (double)g10 / (double)ideal, (double)noisy / (double)noisy_ideal);
		CHECK(ticks <= g10);
		/* Where the links are the limit, shorter launches make nothing shorter. */
		if (noisy_ideal < ideal)
			noisy_ideal = ideal;
		CHECK((double)ticks / (double)ideal >=
		      0.99 * (double)noisy / (double)noisy_ideal);
		sl_plan_destroy(ours);
		sl_plan_destroy(theirs);
		sl_trace_destroy(trace);
	}
}

int
main(void)
{
	printf("seeds 1 to %d\n", SEEDS);
	random_plans_keep_budget_presence_and_bytes();
	device_one_page_too_small_is_refused_and_named();
	published_planner_is_never_faster();
	return 0;
}
