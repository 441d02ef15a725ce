/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FlashNeuron and the tensor-level engine: the allocator against a map of pages, a run that can
 * be followed by hand, and the published times and failures of every model that is there.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "g10/import_g10.h"
#include "g10/tensor_room.h"
#include "g10/tensor_run.h"
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

static void
must(int rc)
{
	if (rc) {
		printf("%s\n", sluice_last_error());
		exit(1);
	}
}

/* ---- the allocator ---- */

#define PAGES 300
#define HELD  64

/* First page of the first free stretch from the low or the high end. */
static uint64_t
map_fit(const unsigned char *map, uint64_t pages, int from_high, uint64_t *largest)
{
	uint64_t found = TENSOR_ROOM_NONE, run = 0;

	*largest = 0;
	for (uint64_t i = 0; i <= PAGES; i++) {
		if (i < PAGES && !map[i]) {
			run++;
			continue;
		}
		if (run > *largest)
			*largest = run;
		if (run >= pages && (from_high || found == TENSOR_ROOM_NONE))
			found = from_high ? i - pages : i - run;
		run = 0;
	}
	return found;
}

static void
allocator_agrees_with_a_map_of_pages(void)
{
	static unsigned char map[PAGES];
	struct tensor_block held[HELD];
	struct tensor_room room;
	struct sl_rng rng;
	unsigned n = 0;

	printf("seed 11\n");
	sl_rng_init(&rng, 11);
	must(tensor_room_init(&room, PAGES));
	for (int step = 0; step < 20000; step++) {
		uint64_t largest, free_pages = 0;

		if (n < HELD && sl_rng_below(&rng, 2)) {
			uint64_t pages = sl_rng_below(&rng, 40) + 1;
			int from_high = (int)sl_rng_below(&rng, 2);
			uint64_t want = map_fit(map, pages, from_high, &largest);
			uint64_t got;

			CHECK(tensor_room_largest(&room) == largest, "step %d", step);
			got = tensor_room_take(&room, pages, from_high);
			CHECK(got == want, "step %d: page %llu, not %llu", step,
			      (unsigned long long)got, (unsigned long long)want);
			if (got != want)
				break;
			if (got == TENSOR_ROOM_NONE)
				continue;
			memset(&map[got], 1, pages);
			held[n++] = (struct tensor_block){got, pages};
		} else if (n > 0) {
			unsigned i = (unsigned)sl_rng_below(&rng, n);

			must(tensor_room_give(&room, held[i].first, held[i].pages));
			memset(&map[held[i].first], 0, held[i].pages);
			held[i] = held[--n];
		}
		for (int i = 0; i < PAGES; i++)
			free_pages += !map[i];
		CHECK(room.free_pages == free_pages, "step %d", step);
	}
	while (n > 0) {
		n--;
		must(tensor_room_give(&room, held[n].first, held[n].pages));
	}
	CHECK(room.n == 1 && room.blocks[0].pages == PAGES, "free blocks are not merged");
	tensor_room_fini(&room);
}

/* ---- by hand ---- */

/*
 * Launches of 10 ms at 10^9 ticks a second: four forward ones that make a, b, c, d of 40 MiB
 * each from the one before, the loss, and four backward ones that read d, c, b, a into small
 * tensors. In 164 MiB the largest launch (80 MiB) leaves 84: a and b must go, the other two
 * fit.
 */
static struct sl_trace *
trace_small(uint32_t n_forward)
{
	struct sl_trace *trace;
	uint32_t big[4], small[5];

	must(sl_trace_create(1000000000, &trace));
	for (int i = 0; i < 4; i++)
		must(sl_trace_add_tensor(trace, 40 * MIB, SL_TENSOR_LOCAL, NULL, &big[i]));
	for (int i = 0; i < 5; i++)
		must(sl_trace_add_tensor(trace, 4096, SL_TENSOR_LOCAL, NULL, &small[i]));
	must(sl_trace_add_period(trace));
	for (int i = 0; i < 9; i++) {
		must(sl_trace_add_launch(trace, 10000000, NULL, NULL));
		if (i > 0 && i < 4)
			must(sl_trace_add_use(trace, big[i - 1], SLUICE_USE_READ));
		if (i < 4)
			must(sl_trace_add_use(trace, big[i], SLUICE_USE_WRITE_ALL));
		if (i == 4) /* the loss */
			must(sl_trace_add_use(trace, big[3], SLUICE_USE_READ));
		if (i > 4) {
			must(sl_trace_add_use(trace, big[8 - i], SLUICE_USE_READ));
			must(sl_trace_add_use(trace, small[i - 5], SLUICE_USE_READ));
		}
		if (i >= 4)
			must(sl_trace_add_use(trace, small[i - 4], SLUICE_USE_WRITE_ALL));
	}
	trace->n_forward = n_forward;
	must(sl_trace_check(trace));
	return trace;
}

static void
run_policy(const struct sl_sim_policy *policy, const struct sl_trace *trace,
	   const struct sl_machine *machine, const struct sl_sim_options *options,
	   struct sl_sim_result *result)
{
	must(policy->run(trace, machine, NULL, options, result));
}

static void
transfers_take_what_they_take_by_hand(void)
{
	struct sl_trace *trace = trace_small(4);
	struct sl_sim_options options = {0};
	struct sl_sim_result result;
	struct sl_machine machine;

	sl_machine_g10(&machine);
	machine.device_bytes = 164 * MIB;
	machine.store_read_bps = machine.store_write_bps = 4.0 * 1024 * MIB;
	run_policy(&g10_policy_flashneuron, trace, &machine, &options, &result);
	CHECK(!result.failed, "%s", result.why);
	CHECK(result.bytes[SL_PATH_STORE_OUT] == 80 * MIB &&
		      result.bytes[SL_PATH_STORE_IN] == 80 * MIB,
	      "%llu bytes out, %llu in", (unsigned long long)result.bytes[SL_PATH_STORE_OUT],
	      (unsigned long long)result.bytes[SL_PATH_STORE_IN]);
	CHECK(result.bytes[SL_PATH_HOST_OUT] == 0, "host memory is used");
	CHECK(result.ideal_ticks == 90000000, "ideal %llu",
	      (unsigned long long)result.ideal_ticks);
	/* Writes of 9.8 ms hide under launches of 10 ms; the reads do not: the loss's small output
	 * lies behind d, so that no free block holds a tensor beside the largest launch. */
	CHECK(result.launches[4].end_ticks == 50000000 && result.best_ticks == 109531250,
	      "%llu ticks", (unsigned long long)result.best_ticks);
	sl_sim_result_fini(&result);

	/* A quarter of the rate: 39 ms each. The first leaves in 2, the second behind it; the
	 * loss ends at 50 ms, the second write at 20 + 78.125. */
	machine.store_read_bps = machine.store_write_bps = 1.0 * 1024 * MIB;
	run_policy(&g10_policy_flashneuron, trace, &machine, &options, &result);
	CHECK(!result.failed, "%s", result.why);
	CHECK(result.launches[4].end_ticks == 98125000, "backward begins at %llu",
	      (unsigned long long)result.launches[4].end_ticks);
	CHECK(result.launches[4].stall_ticks == 48125000 &&
		      result.launches[4].bound == SL_BOUND_STORE_WRITE,
	      "the wait for the writes is not told");
	CHECK(result.best_ticks == 98125000 + 40000000 + 2 * 39062500, "%llu ticks",
	      (unsigned long long)result.best_ticks);
	sl_sim_result_fini(&result);

	/* Less than the largest launch: it says so. */
	machine.device_bytes = 80 * MIB;
	run_policy(&g10_policy_flashneuron, trace, &machine, &options, &result);
	CHECK(result.failed && strstr(result.why, "no room"), "%s", result.why);
	sl_sim_result_fini(&result);
	sl_trace_destroy(trace);

	trace = trace_small(SL_TRACE_NONE);
	CHECK(g10_policy_flashneuron.run(trace, &machine, NULL, &options, &result) == -EINVAL &&
		      strstr(sluice_last_error(), "forward"),
	      "a trace without its forward pass is run");
	sl_trace_destroy(trace);
}

static void
noise_changes_times_and_is_the_same_each_time(void)
{
	struct sl_trace *trace = trace_small(4);
	struct sl_sim_options options = {0};
	uint64_t ticks[2], ideal = 0;
	struct sl_machine machine;

	sl_machine_g10(&machine);
	machine.device_bytes = 164 * MIB;
	for (int i = 0; i < 2; i++) {
		struct sl_sim_result result;
		struct sl_trace noisy;

		must(g10_noise_make(trace, 0.2, 5, &noisy));
		run_policy(&g10_policy_flashneuron, &noisy, &machine, &options, &result);
		g10_noise_fini(&noisy);
		ticks[i] = result.best_ticks;
		ideal = result.ideal_ticks;
		sl_sim_result_fini(&result);
	}
	CHECK(ticks[0] == ticks[1], "two runs differ");
	CHECK(ideal != 90000000 && ideal > 72000000 && ideal < 108000000, "%llu",
	      (unsigned long long)ideal);
	sl_trace_destroy(trace);
}

/* ---- published ---- */

/* Every row of the policy in figures 11, 15 and 18: within one percent, and the same fail. */
static void
published_times_and_failures_are_met(void)
{
	char path[4200], line[256];
	unsigned n = 0, n_failed = 0;
	FILE *in;

	snprintf(path, sizeof(path), "%s/expected/cycles.csv", g10_directory());
	in = fopen(path, "re");
	if (!in) {
		printf("%s: %s\n", path, strerror(errno));
		exit(1);
	}
	while (fgets(line, sizeof(line), in)) {
		struct sl_sim_options options = {.as_published = 1};
		struct sl_import_g10 import = {.directory = g10_directory()};
		char model[32], policy[32], value[32];
		unsigned figure, host;
		double store_gbps, link_gbps, published;
		struct sl_sim_result result;
		struct sl_machine machine;
		struct sl_trace *trace;

		if (sscanf(line, "%u,%31[^,],%u,%u,%lf,%lf,%31[^,],%31s", &figure, model,
			   &import.batch, &host, &store_gbps, &link_gbps, policy, value) != 8 ||
		    strcmp(policy, "flashneuron") != 0 ||
		    (figure != 11 && figure != 15 && figure != 18))
			continue;
		import.model = model;
		if (sl_trace_import_g10(&import, &trace)) {
			printf("%s-%u: skipped: %s\n", model, import.batch,
			       sluice_last_error());
			continue;
		}
		published = strtod(value, NULL);
		sl_machine_g10(&machine);
		machine.store_read_bps = machine.store_write_bps = store_gbps * 1e9;
		machine.link_in_bps = machine.link_out_bps = link_gbps * 1e9;
		run_policy(&g10_policy_flashneuron, trace, &machine, &options, &result);
		CHECK(result.failed == !!isinf(published), "figure %u, %s-%u: %s", figure,
		      model, import.batch,
		      result.failed ? result.why : "runs, published as failing");
		if (!result.failed)
			CHECK(fabs((double)result.best_ticks / published - 1) <= 0.01,
			      "figure %u, %s-%u, %g GB/s: %llu ticks, published %s",
			      figure, model, import.batch, store_gbps,
			      (unsigned long long)result.best_ticks, value);
		n++;
		n_failed += !!result.failed;
		sl_sim_result_fini(&result);
		sl_trace_destroy(trace);
	}
	fclose(in);
	printf("%u published cells, %u of them failures\n", n, n_failed);
	CHECK(n > 0, "no published cell was compared");
}

static void
published_pages_are_moved(void)
{
	static const struct {
		const char *model;
		uint32_t batch;
		uint64_t pages;
	} known[] = {{"BERT_Base", 256, 2657376}, {"ResNet152", 1280, 65040772}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		struct sl_import_g10 import = {.directory = g10_directory(),
					       .model = known[i].model,
					       .batch = known[i].batch};
		struct sl_sim_options options = {.as_published = 1};
		struct sl_sim_result result;
		struct sl_machine machine;
		struct sl_trace *trace;

		must(sl_trace_import_g10(&import, &trace));
		sl_machine_g10(&machine);
		run_policy(&g10_policy_flashneuron, trace, &machine, &options, &result);
		CHECK(result.bytes[SL_PATH_STORE_OUT] == known[i].pages * 4096 &&
			      result.bytes[SL_PATH_STORE_IN] == known[i].pages * 4096,
		      "%s: %llu bytes out", known[i].model,
		      (unsigned long long)result.bytes[SL_PATH_STORE_OUT]);
		sl_sim_result_fini(&result);
		sl_trace_destroy(trace);
	}
}

int
main(void)
{
	allocator_agrees_with_a_map_of_pages();
	transfers_take_what_they_take_by_hand();
	noise_changes_times_and_is_the_same_each_time();
	published_times_and_failures_are_met();
	published_pages_are_moved();
	printf("%d failures\n", failures);
	return failures != 0;
}
