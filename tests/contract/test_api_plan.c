/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy=plan: launches that repeat are found, planned and moved as planned; with what plans must
 * never do: change a result, move more than lru, hold a region, or wait for ever.
 *
 * N: chunks that the launches go through; B: device budget in chunks.
 */
#include "api.h"

#include <pthread.h>
#include <string.h>

static struct sluice_space *
space_of(uint64_t device_chunks, const char *more)
{
	char config[256];

	snprintf(config, sizeof(config), "device_budget=%llu,%s",
		 (unsigned long long)(device_chunks * CHUNK), more);
	return space_make(config);
}

/* One launch for each of chunks [0, n), in order, and wait for each. */
static void
sweep(struct sluice_space *s, char *base, uint64_t n, enum sluice_intent intent)
{
	for (uint64_t i = 0; i < n; i++) {
		use(s, at_chunk(base, i), CHUNK, intent);
		CHECK(sluice_stream_synchronize(s, NULL) == 0);
	}
}

/* Chunks brought in by `sweeps` read-only sweeps over a file, after three that were not counted. */
static uint64_t
sweeps_in(const char *policy, uint64_t n, uint64_t budget, uint64_t sweeps,
	  struct sluice_stats *stats)
{
	char config[128];
	struct sluice_space *s;
	char *base;
	uint64_t bytes;

	snprintf(config, sizeof(config), "host_budget=0,policy=%s", policy);
	s = space_of(budget, config);
	base = region_map(s, file_make("data", n * CHUNK, 3), 0, 0, SLUICE_READ);
	for (int i = 0; i < 3; i++)
		sweep(s, base, n, SLUICE_USE_READ);
	bytes = h2d(s);
	for (uint64_t i = 0; i < sweeps; i++)
		sweep(s, base, n, SLUICE_USE_READ);
	bytes = h2d(s) - bytes;
	sluice_stats_get(s, stats);
	space_end(s);
	return bytes / CHUNK;
}

/*
 * Farthest next use on a sweep: a chunk that is missing is brought in, and the one used just before
 * goes. So each hole moves back by a place a sweep, and B of N chunks make N - B misses in N - 1
 * launches. Brought in one launch ahead, with the chunk in use kept, it is N - 2; d ahead N - 1 - d.
 */
static void
cyclic_scan_moves_what_belady_says(void)
{
	static const struct {
		uint64_t n, budget;
	} sizes[] = {{12, 6}, {16, 12}, {24, 6}};

	for (int k = 0; k < 3; k++) {
		uint64_t n = sizes[k].n, budget = sizes[k].budget, sweeps = 6;
		uint64_t launches = n * sweeps, misses = n - budget;
		struct sluice_stats stats;
		uint64_t lru = sweeps_in("lru", n, budget, sweeps, &stats);
		uint64_t plan = sweeps_in("plan", n, budget, sweeps, &stats);

		printf("N %llu, B %llu: lru %llu, plan %llu, Belady %llu\n", (unsigned long long)n,
		       (unsigned long long)budget, (unsigned long long)lru,
		       (unsigned long long)plan,
		       (unsigned long long)(launches * misses / (n - 1)));
		CHECK_EQ(lru, launches);
		CHECK(plan >= launches * misses / (n - 1));
		CHECK(plan <= launches * misses / (n - 4) + 1);
		CHECK_EQ(stats.counter[SLUICE_COUNTER_PLANS], 1);
		CHECK_EQ(stats.counter[SLUICE_COUNTER_PLAN_DIVERGENCES], 0);
		/* Found after the second sweep, at the latest a quarter of one later. */
		CHECK(stats.counter[SLUICE_COUNTER_PLAN_LAUNCHES] >= launches + 3 * n / 4 - 1);
	}
}

#define CASES                                                            \
	CASE(cyclic_scan_moves_what_belady_says)

static const struct api_case cases[] = {
	CASES,
};

API_MAIN(cases)
