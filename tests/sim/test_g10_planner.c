/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published planner. Its sort orders equal elements as libstdc++'s does. Its plans give the
 * published times when they are executed. The rules of text and program differ where they
 * should. A trace that cannot be planned is refused with the least memory that would do.
 *
 * The event simulator and the tensor-level one execute plans. Values of the published program
 * come from its own description and results (tests/data/g10).
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "g10/import_g10.h"
#include "g10/replica.h"
#include "sim/sim.h"
#include "unit/g10_data.h"

#define MIB (UINT64_C(1) << 20)

static int failures;

#define CHECK(condition, ...)                                                  \
	do {                                                                   \
		if (!(condition)) {                                            \
			failures++;                                            \
			printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
			printf(__VA_ARGS__);                                   \
			putchar('\n');                                         \
		}                                                              \
	} while (0)

/* ---- the sort ---- */

static uint64_t
order_hash(const uint32_t *v, uint32_t n)
{
	uint64_t hash = UINT64_C(1469598103934665603);

	for (uint32_t i = 0; i < n; i++) {
		hash ^= v[i];
		hash *= UINT64_C(1099511628211);
	}
	return hash;
}

static int
few_keys_before(const void *context, uint32_t a, uint32_t b)
{
	uint32_t keys = *(const uint32_t *)context;

	return ((a * 2654435761u) >> 7) % keys < ((b * 2654435761u) >> 7) % keys;
}

static int
table_before(const void *context, uint32_t a, uint32_t b)
{
	const uint32_t *key = context;

	return key[a] / 2 < key[b] / 2;
}

/* Three sorts after each other, as the planner sorts round after round. The hashes are those of
 * std::sort, from a program of its own. */
static void
equal_elements_fall_as_in_libstdcpp(void)
{
	static const struct {
		uint32_t n, keys;
		uint64_t hash;
	} known[] = {
		{5, 1, UINT64_C(0xe5ba15bc7930f079)},
		{5, 3, UINT64_C(0xf71740bc83099c63)},
		{5, 50, UINT64_C(0xda5a41e60fbe57f1)},
		{16, 1, UINT64_C(0x088b84ce5271b343)},
		{16, 3, UINT64_C(0x2b7f5e644dd27b53)},
		{16, 50, UINT64_C(0xcc1aea009f8b8dc3)},
		{17, 1, UINT64_C(0x32e9ded42c6a1c3f)},
		{17, 3, UINT64_C(0x9d4375f7e1666b33)},
		{17, 50, UINT64_C(0x5d49720f1a21fd89)},
		{100, 1, UINT64_C(0xee7878517235fa47)},
		{100, 3, UINT64_C(0x8abbcf15a85dc297)},
		{100, 50, UINT64_C(0x655eb9e86fa5cd87)},
		{1000, 1, UINT64_C(0xb6fb297d9bbc4ceb)},
		{1000, 3, UINT64_C(0x6101d78592d1c93f)},
		{1000, 50, UINT64_C(0xe42d0d5fc153f1eb)},
		{5000, 1, UINT64_C(0x595cf9609dba0b63)},
		{5000, 3, UINT64_C(0xb994c23f46416697)},
		{5000, 50, UINT64_C(0x74c382b191683e5f)},
	};
	static uint32_t v[5000], key[4096];
	uint32_t n = 4096, half = n / 2;

	for (size_t c = 0; c < sizeof(known) / sizeof(known[0]); c++) {
		for (uint32_t i = 0; i < known[c].n; i++)
			v[i] = i;
		for (int round = 0; round < 3; round++)
			g10_sort(v, known[c].n, few_keys_before, &known[c].keys);
		CHECK(order_hash(v, known[c].n) == known[c].hash, "%u elements, %u keys",
		      known[c].n, known[c].keys);
	}
	/* What makes median-of-three quicksort quadratic: the heap takes over. */
	for (uint32_t i = 1; i <= half; i++) {
		if (i & 1) {
			key[i - 1] = i;
			key[i] = half + i;
		}
		key[half + i - 1] = 2 * i;
	}
	for (uint32_t i = 0; i < n; i++)
		v[i] = i;
	g10_sort(v, n, table_before, key);
	CHECK(order_hash(v, n) == UINT64_C(0x153137d1d2c3726d),
	      "the order that ends in the heap");
}

static int
random_before(const void *context, uint32_t a, uint32_t b)
{
	struct sl_rng *rng = *(struct sl_rng *const *)context;

	(void)a;
	(void)b;
	return (int)(sl_rng_next(rng) & 1);
}

static void
a_relation_that_is_no_order_gives_a_permutation(void)
{
	static uint32_t v[3000];
	static unsigned char seen[3000];
	struct sl_rng rng, *handle = &rng;

	printf("seed 7\n");
	sl_rng_init(&rng, 7);
	for (int round = 0; round < 50; round++) {
		uint32_t n = (uint32_t)sl_rng_below(&rng, 3000) + 1, missing = 0;

		for (uint32_t i = 0; i < n; i++)
			v[i] = i;
		g10_sort(v, n, random_before, &handle);
		memset(seen, 0, sizeof(seen));
		for (uint32_t i = 0; i < n; i++)
			seen[v[i]] = 1;
		for (uint32_t i = 0; i < n; i++)
			missing += !seen[i];
		CHECK(missing == 0, "%u of %u elements lost", missing, n);
	}
}

/* ---- published times ---- */

static struct sl_trace *
trace_load(const char *model, uint32_t batch)
{
	struct sl_import_g10 import = {.directory = g10_directory(),
				       .model = model,
				       .batch = batch};
	struct sl_trace *trace = NULL;

	if (sl_trace_import_g10(&import, &trace)) {
		printf("%s-%u: %s\n", model, batch, sluice_last_error());
		exit(1);
	}
	return trace;
}

static uint64_t
cycles_of(const struct sl_trace *trace, const char *policy, uint64_t host_gib,
	  uint64_t bytes[SL_PATH_COUNT])
{
	struct sl_sim_options options = {.as_published = 1};
	struct sl_sim_result result;
	struct sl_machine machine;
	struct sl_plan *plan = NULL;
	uint64_t cycles;
	int rc;

	sl_machine_g10(&machine);
	machine.host_bytes = host_gib << 30;
	rc = g10_plan(trace, &machine, G10_FULL, 1, &plan);
	if (!rc)
		rc = g10_policy_find(policy)->run(trace, &machine, plan, &options, &result);
	sl_plan_destroy(plan);
	if (rc || result.failed) {
		failures++;
		printf("%s: %s\n", policy, rc ? sluice_last_error() : result.why);
		return 0;
	}
	cycles = result.best_ticks;
	if (bytes)
		memcpy(bytes, result.bytes, sizeof(result.bytes));
	sl_sim_result_fini(&result);
	return cycles;
}

static void
executed_plans_take_the_published_time(void)
{
	static const struct {
		const char *model;
		uint32_t batch;
		const char *policy;
		uint32_t host_gib;
		double published, within;
	} known[] = {
		{"BERT_Base", 256, "g10", 128, 8773229325.0, 1e-6},
		{"BERT_Base", 384, "g10", 0, 31123000008.0, 1e-6},
		{"BERT_Base", 640, "g10", 32, 46834889971.0, 0.01},
		{"Inceptionv3", 768, "g10", 128, 67778637737.0, 1e-6},
		{"ResNet152", 512, "g10", 128, 130306919425.0, 1e-6},
		/* Published with six digits. */
		{"BERT_Base", 256, "g10-host", 128, 9586308000.0, 1e-5},
		{"BERT_Base", 256, "g10-gds", 128, 10851936000.0, 0.005},
		{"Inceptionv3", 1536, "g10-gds", 128, 96408720000.0, 1e-5},
		{"Inceptionv3", 1536, "g10-host", 128, 78443760000.0, 1e-5},
		{"ResNet152", 1280, "g10-host", 128, 138846000000.0, 1e-5},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct sl_trace *trace = trace_load(known[i].model, known[i].batch);
		double ours = (double)cycles_of(trace, known[i].policy, known[i].host_gib,
						NULL);

		CHECK(fabs(ours / known[i].published - 1) <= known[i].within,
		      "%s-%u, %s, %u GiB: %.0f cycles, published %.0f", known[i].model,
		      known[i].batch, known[i].policy, known[i].host_gib, ours,
		      known[i].published);
		sl_trace_destroy(trace);
	}
}

static void
executed_plan_moves_the_published_pages(void)
{
	static const uint64_t pages[SL_PATH_COUNT] = {
		[SL_PATH_STORE_IN] = 565248,
		[SL_PATH_STORE_OUT] = 565248,
		[SL_PATH_HOST_IN] = 1769472,
		[SL_PATH_HOST_OUT] = 1769472,
	};
	struct sl_trace *trace = trace_load("BERT_Base", 256);
	uint64_t bytes[SL_PATH_COUNT] = {0};

	cycles_of(trace, "g10", 128, bytes);
	for (int path = 0; path < SL_PATH_COUNT; path++)
		CHECK(bytes[path] == pages[path] * 4096, "path %d: %llu bytes", path,
		      (unsigned long long)bytes[path]);
	sl_trace_destroy(trace);
}

/* By the rules of the text the device has the memory it has: that costs time, and nothing
 * fails. */
static void
honest_runs_keep_within_memory_and_end(void)
{
	static const char *const policies[] = {"g10-gds", "g10-host"};
	static const struct {
		const char *model;
		uint32_t batch;
	} traces[] = {{"BERT_Base", 256}, {"ResNet152", 768}};

	for (size_t i = 0; i < 2; i++) {
		struct sl_trace *trace = trace_load(traces[i].model, traces[i].batch);

		for (size_t p = 0; p < 2; p++) {
			uint64_t ticks[2] = {0};

			for (int as_published = 0; as_published < 2; as_published++) {
				struct sl_sim_options options = {.as_published = as_published};
				struct sl_sim_result result;
				struct sl_machine machine;

				sl_machine_g10(&machine);
				if (g10_policy_find(policies[p])
					    ->run(trace, &machine, NULL, &options, &result)) {
					printf("%s\n", sluice_last_error());
					exit(1);
				}
				CHECK(!result.failed, "%s-%u, %s: %s", traces[i].model,
				      traces[i].batch, policies[p], result.why);
				CHECK(result.best_ticks >= result.ideal_ticks,
				      "faster than computing");
				CHECK(p > 0 || (result.bytes[SL_PATH_HOST_IN] == 0 &&
						result.bytes[SL_PATH_HOST_OUT] == 0),
				      "G10-GDS uses host memory");
				ticks[as_published] = result.best_ticks;
				sl_sim_result_fini(&result);
			}
			CHECK(ticks[0] > ticks[1], "a fourfold array is no help");
		}
		sl_trace_destroy(trace);
	}
}

/* ---- what plans are like ---- */

static void
plan_is_sound(const struct sl_trace *trace, enum g10_variant variant, int as_published)
{
	struct sl_g10_view view;
	struct sl_machine machine;
	struct sl_plan *plan, *again;
	unsigned char *out = calloc(trace->n_tensors, 1);

	sl_machine_g10(&machine);
	if (g10_plan(trace, &machine, variant, as_published, &plan) ||
	    g10_plan(trace, &machine, variant, as_published, &again) ||
	    sl_g10_view_init(&view, trace, 0)) {
		printf("%s\n", sluice_last_error());
		exit(1);
	}
	CHECK(plan->n_steps > 0 && plan->n_steps == again->n_steps &&
		      memcmp(plan->steps, again->steps,
			     plan->n_steps * sizeof(*plan->steps)) == 0,
	      "a second run gives another plan");
	for (uint32_t i = 0; i < plan->n_steps; i++) {
		const struct sl_plan_step *step = &plan->steps[i];
		const struct sl_g10_tensor *tensor = &view.tensors[step->tensor];
		int used = 0;

		CHECK(i == 0 || plan->steps[i - 1].launch <= step->launch, "step %u", i);
		CHECK(step->launch < view.n, "step %u", i);
		for (uint32_t u = 0; u < view.launches[step->launch].n_uses; u++)
			used |= trace->uses[view.launches[step->launch].first_use + u].tensor ==
				step->tensor;
		switch (step->verb) {
		case SL_PLAN_ALLOC:
			CHECK(!tensor->is_global && step->launch <= tensor->birth,
			      "step %u", i);
			break;
		case SL_PLAN_FREE:
			CHECK(!tensor->is_global && step->launch == tensor->death % view.n,
			      "step %u", i);
			break;
		case SL_PLAN_EVICT_HOST:
			CHECK(variant != G10_GDS, "step %u: to a host without memory", i);
			/* fall through */
		case SL_PLAN_EVICT_STORE:
			CHECK(!used, "step %u evicts what its launch uses", i);
			out[step->tensor] = 1;
			break;
		case SL_PLAN_PREFETCH:
			CHECK(out[step->tensor] || tensor->is_global,
			      "step %u fetches what never left", i);
			break;
		case SL_PLAN_VERB_COUNT:
			CHECK(0, "step %u", i);
			break;
		}
	}
	free(out);
	sl_g10_view_fini(&view);
	sl_plan_destroy(plan);
	sl_plan_destroy(again);
}

static void
plans_are_sound_and_the_same_each_time(void)
{
	struct sl_trace *bert = trace_load("BERT_Base", 512);
	struct sl_trace *resnet = trace_load("ResNet152", 768);

	for (int variant = 0; variant < G10_VARIANT_COUNT; variant++)
		for (int as_published = 0; as_published < 2; as_published++) {
			plan_is_sound(bert, (enum g10_variant)variant, as_published);
			plan_is_sound(resnet, (enum g10_variant)variant, as_published);
		}
	sl_trace_destroy(bert);
	sl_trace_destroy(resnet);
}

static void
must(int rc)
{
	if (rc) {
		printf("%s\n", sluice_last_error());
		exit(1);
	}
}

/* Ten launches of 100 ms: a of 60 MiB at both ends, b of 60 MiB in the middle. */
static struct sl_trace *
trace_small(void)
{
	struct sl_trace *trace;
	uint32_t tiny, a, b;

	must(sl_trace_create(1000000000, &trace));
	must(sl_trace_add_tensor(trace, 4096, SL_TENSOR_GLOBAL, "tiny", &tiny));
	must(sl_trace_add_tensor(trace, 60 * MIB, SL_TENSOR_LOCAL, "a", &a));
	must(sl_trace_add_tensor(trace, 60 * MIB, SL_TENSOR_LOCAL, "b", &b));
	must(sl_trace_add_period(trace));
	for (uint32_t k = 0; k < 10; k++) {
		must(sl_trace_add_launch(trace, 100000000, NULL, NULL));
		must(sl_trace_add_use(trace, tiny, SLUICE_USE_READ));
		if (k == 0 || k == 9)
			must(sl_trace_add_use(trace, a,
					      k ? SLUICE_USE_READ : SLUICE_USE_WRITE_ALL));
		if (k == 4 || k == 5)
			must(sl_trace_add_use(trace, b,
					      k == 5 ? SLUICE_USE_READ
						     : SLUICE_USE_WRITE_ALL));
	}
	must(sl_trace_check(trace));
	return trace;
}

static const struct sl_plan_step *
step_find(const struct sl_plan *plan, enum sl_plan_verb verb, uint32_t tensor)
{
	for (uint32_t i = 0; i < plan->n_steps; i++)
		if (plan->steps[i].verb == verb && plan->steps[i].tensor == tensor)
			return &plan->steps[i];
	return NULL;
}

/*
 * With 100 MiB only one of the two fits. a is idle in launches 1 to 8 and must make room in 4
 * and 5. Its write ends within launch 1: the program takes that for a busy store and chooses the
 * host, the text the store.
 */
static void
idle_tensor_leaves_for_the_other_and_comes_back(void)
{
	struct sl_trace *trace = trace_small();
	struct sl_machine machine;

	for (int as_published = 0; as_published < 2; as_published++) {
		enum sl_plan_verb verb = as_published ? SL_PLAN_EVICT_HOST
						      : SL_PLAN_EVICT_STORE;
		const struct sl_plan_step *step;
		struct sl_plan *plan;

		sl_machine_g10(&machine);
		machine.device_bytes = 100 * MIB;
		must(g10_plan(trace, &machine, G10_FULL, as_published, &plan));
		step = step_find(plan, verb, 1);
		CHECK(step && step->launch == 1, "a leaves at the wrong launch or place");
		step = step_find(plan, SL_PLAN_PREFETCH, 1);
		/* The program asks for room above b alone, so that a comes back under b. */
		CHECK(step && step->launch == (as_published ? 2u : 6u),
		      "a comes back at launch %u", step ? step->launch : 99);
		step = step_find(plan, SL_PLAN_ALLOC, 2);
		CHECK(step && step->launch == 3, "b is allocated at launch %u",
		      step ? step->launch : 99);
		step = step_find(plan, SL_PLAN_FREE, 2);
		CHECK(step && step->launch == 6, "b is freed at launch %u",
		      step ? step->launch : 99);
		CHECK(!step_find(plan, SL_PLAN_EVICT_HOST, 2) &&
			      !step_find(plan, SL_PLAN_EVICT_STORE, 2),
		      "b leaves without need");
		sl_plan_destroy(plan);

		/* Without host memory only the store is left. */
		machine.host_bytes = 0;
		must(g10_plan(trace, &machine, G10_FULL, as_published, &plan));
		step = step_find(plan, SL_PLAN_EVICT_STORE, 1);
		CHECK(step && step->launch == 1, "a does not leave for the store");
		sl_plan_destroy(plan);

		/* With room for both nothing moves. */
		machine.device_bytes = 400 * MIB;
		must(g10_plan(trace, &machine, G10_FULL, as_published, &plan));
		CHECK(plan->n_steps == 0, "%u steps where all fits", plan->n_steps);
		sl_plan_destroy(plan);
	}
	sl_trace_destroy(trace);
}

static void
launch_that_cannot_fit_is_named_with_the_least_memory(void)
{
	struct sl_trace *trace = trace_small();
	struct sl_machine machine;
	struct sl_plan *plan = NULL;
	char least[64];

	sl_machine_g10(&machine);
	machine.device_bytes = 50 * MIB;
	snprintf(least, sizeof(least), "%llu bytes", (unsigned long long)(60 * MIB + 4096));
	for (int variant = 0; variant < G10_VARIANT_COUNT; variant++) {
		int rc = g10_plan(trace, &machine, (enum g10_variant)variant, 1, &plan);

		CHECK(rc == -ENOSPC && !plan, "%d", rc);
		CHECK(strstr(sluice_last_error(), "launch 0") &&
			      strstr(sluice_last_error(), least),
		      "%s", sluice_last_error());
	}
	machine.device_bytes = 60 * MIB + 4096;
	CHECK(g10_plan(trace, &machine, G10_FULL, 1, &plan) == 0, "%s", sluice_last_error());
	sl_plan_destroy(plan);
	machine.link_in_bps = -1;
	CHECK(g10_plan(trace, &machine, G10_FULL, 1, &plan) == -EINVAL,
	      "an impossible machine is planned for");
	sl_trace_destroy(trace);
}

int
main(void)
{
	equal_elements_fall_as_in_libstdcpp();
	a_relation_that_is_no_order_gives_a_permutation();
	idle_tensor_leaves_for_the_other_and_comes_back();
	launch_that_cannot_fit_is_named_with_the_least_memory();
	plans_are_sound_and_the_same_each_time();
	executed_plans_take_the_published_time();
	executed_plan_moves_the_published_pages();
	honest_runs_keep_within_memory_and_end();
	printf("%d failures\n", failures);
	return failures != 0;
}
