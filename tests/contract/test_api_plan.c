/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy=plan: launches that repeat are found, planned and served as planned; and what a plan must
 * never do: change a result, move more than lru, keep a region from going, wait for ever.
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

/* One launch for each of chunks [0, n), in order. */
static void
sweep(struct sluice_space *s, char *base, uint64_t n, enum sluice_intent intent)
{
	for (uint64_t i = 0; i < n; i++)
		use(s, at_chunk(base, i), CHUNK, intent);
}

static uint64_t
moved(const struct sluice_stats *stats)
{
	return (sluice_stats_h2d_bytes(stats) + sluice_stats_d2h_bytes(stats)) / CHUNK;
}

/* ---- bytes -------------------------------------------------------------------------------- */

/* Chunks brought in by sweeps over a file that is only read, after three that do not count. */
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
	space_sync(s);
	bytes = h2d(s);
	for (uint64_t i = 0; i < sweeps; i++)
		sweep(s, base, n, SLUICE_USE_READ);
	space_sync(s);
	bytes = h2d(s) - bytes;
	sluice_stats_get(s, stats);
	space_end(s);
	return bytes / CHUNK;
}

/*
 * Farthest next use: the chunk used just before a miss goes for it. So each of the N - B holes moves
 * back by one place, and is met again N - 1 launches later.
 */
static void
cyclic_scan_moves_what_belady_says(void)
{
	static const struct {
		uint64_t n, budget;
	} sizes[] = {{12, 6}, {16, 12}, {24, 6}, {9, 8}};

	for (int k = 0; k < 4; k++) {
		uint64_t n = sizes[k].n, budget = sizes[k].budget;
		uint64_t sweeps = 2 * (n - 1); /* whole rounds of every hole */
		struct sluice_stats stats;

		CHECK_EQ(sweeps_in("lru", n, budget, sweeps, &stats), n * sweeps);
		CHECK_EQ(stats.counter[SLUICE_COUNTER_PLANS], 0);
		CHECK_EQ(sweeps_in("plan", n, budget, sweeps, &stats),
			 n * sweeps * (n - budget) / (n - 1));
		CHECK_EQ(stats.counter[SLUICE_COUNTER_PLANS], 1);
		CHECK_EQ(stats.counter[SLUICE_COUNTER_PLAN_DIVERGENCES], 0);
		CHECK_EQ(stats.counter[SLUICE_COUNTER_PLAN_PREFETCH_WASTED], 0);
		/* Found when the second sweep is over, or by a quarter of one later. */
		CHECK(stats.counter[SLUICE_COUNTER_PLAN_LAUNCHES] >=
		      n * sweeps + n - n / 4 - 1);
	}
}

/* Two passes over two arrays, as stencils make them: written in one, read in the other. */
static struct sluice_stats
passes_run(const char *policy, uint64_t budget, uint64_t host_chunks, int rounds, int wait)
{
	char config[128];
	struct sluice_space *s;
	struct sluice_stats stats;
	char *a, *b;

	snprintf(config, sizeof(config), "host_budget=%llu,policy=%s",
		 (unsigned long long)(host_chunks * CHUNK), policy);
	s = space_of(budget, config);
	a = region_alloc(s, 10 * CHUNK);
	b = region_alloc(s, 10 * CHUNK);
	launch(s, KERNEL_FILL, a, 4 * CHUNK, SLUICE_USE_WRITE_ALL, 1);
	launch(s, KERNEL_FILL, a + 4 * CHUNK, 6 * CHUNK, SLUICE_USE_WRITE_ALL, 1);
	for (int round = 0; round < rounds; round++) {
		for (int pass = 0; pass < 2; pass++) {
			for (uint64_t i = 0; i < 10; i++) {
				struct sluice_use uses[] = {
					{at_chunk(a, i), CHUNK,
					 pass ? SLUICE_USE_READ_WRITE : SLUICE_USE_READ},
					{at_chunk(b, i), CHUNK,
					 pass ? SLUICE_USE_READ : SLUICE_USE_WRITE_ALL},
				};

				CHECK(launch_uses(s, uses, 2) == 0);
				if (wait)
					CHECK(sluice_stream_synchronize(s, NULL) == 0);
			}
		}
	}
	space_sync(s);
	sluice_stats_get(s, &stats);
	space_end(s);
	return stats;
}

static void
plan_never_moves_more_than_lru(void)
{
	static const uint64_t budgets[] = {8, 10, 14, 19};

	for (int k = 0; k < 4; k++) {
		for (uint64_t host = 0; host <= 64; host += 64) {
			struct sluice_stats lru = passes_run("lru", budgets[k], host, 10, 0);
			struct sluice_stats plan = passes_run("plan", budgets[k], host,
							      10, 0);

			printf("B %llu, host %llu: lru %llu, plan %llu chunks\n",
			       (unsigned long long)budgets[k], (unsigned long long)host,
			       (unsigned long long)moved(&lru),
			       (unsigned long long)moved(&plan));
			CHECK_EQ(plan.counter[SLUICE_COUNTER_PLANS], 1);
			CHECK(moved(&plan) < moved(&lru));
		}
	}
}

static void
same_launches_give_the_same_counters_however_fast_they_come(void)
{
	struct sluice_stats one = passes_run("plan", 8, 64, 8, 0);

	for (int again = 0; again < 4; again++) {
		struct sluice_stats other = passes_run("plan", 8, 64, 8, again & 1);

		for (int c = 0; c < SLUICE_COUNTER_COUNT; c++) {
			switch ((enum sluice_counter)c) {
			/* These say how launches and moves met in time. */
			case SLUICE_COUNTER_LAUNCHES_RESIDENT:
			case SLUICE_COUNTER_WAITS_IN_FLIGHT:
			case SLUICE_COUNTER_MOVE_RETRIES:
				continue;
			default:
				break;
			}
			if (one.counter[c] != other.counter[c])
				printf("%s\n", sluice_counter_name((enum sluice_counter)c));
			CHECK_EQ(one.counter[c], other.counter[c]);
		}
	}
}

static void
launches_that_fit_need_no_plan(void)
{
	struct sluice_space *s = space_of(12, "host_budget=0,policy=plan");
	char *base = region_alloc(s, 10 * CHUNK);

	for (int i = 0; i < 20; i++)
		sweep(s, base, 10, SLUICE_USE_READ_WRITE);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_PLANS), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_PLAN_LAUNCHES), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_EVICTIONS), 0);
	CHECK_EQ(d2h(s), 0);
	/* A smaller budget makes a difference: they are noted again. */
	CHECK(sluice_space_set_budget(s, SLUICE_TIER_DEVICE, 6 * CHUNK) == 0);
	for (int i = 0; i < 6; i++)
		sweep(s, base, 10, SLUICE_USE_READ_WRITE);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_PLANS), 1);
	space_end(s);
}

/* Every other launch uses one chunk again and again: while it runs, the one used before it makes room
 * for the one used after it. */
static void
what_comes_next_is_brought_in_while_something_else_runs(void)
{
	uint64_t n = 8, rounds = 8, brought;
	struct sluice_space *s = space_of(4, "host_budget=0,policy=plan");
	char *base = region_map(s, file_make("data", n * CHUNK, 3), 0, 0, SLUICE_READ);
	char *often = region_alloc(s, CHUNK);

	for (uint64_t i = 0; i < rounds; i++) {
		for (uint64_t k = 0; k < n; k++) {
			launch(s, KERNEL_READ, at_chunk(base, k), CHUNK, SLUICE_USE_READ, 0);
			use(s, often, CHUNK, SLUICE_USE_READ_WRITE);
		}
	}
	space_sync(s);
	brought = counter(s, SLUICE_COUNTER_PLAN_PREFETCHED);
	CHECK(brought >= (rounds - 4) * (n - 3) * CHUNK);
	CHECK_EQ(brought, counter(s, SLUICE_COUNTER_H2D_PREFETCH));
	CHECK(counter(s, SLUICE_COUNTER_PLAN_PREFETCH_USED) + CHUNK >= brought);
	CHECK_EQ(counter(s, SLUICE_COUNTER_PLAN_PREFETCH_WASTED), 0);
	/* The last one was brought in for a launch that does not come. */
	CHECK(sluice_unmap(s, base) == 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_PLAN_PREFETCH_USED) +
			 counter(s, SLUICE_COUNTER_PLAN_PREFETCH_WASTED),
		 brought);
	space_end(s);
}

/* ---- other launches than planned ----------------------------------------------------------- */

static void
another_launch_ends_the_plan_and_changes_no_result(void)
{
	struct sluice_space *s = space_of(5, "host_budget=0,policy=plan");
	uint64_t n = 9, size = n * CHUNK;
	char *base = region_map(s, file_make("data", size, 0), 0, 0,
				SLUICE_READ | SLUICE_WRITE);
	char *other = region_alloc(s, 3 * CHUNK);
	uint64_t added = 0;

	for (int turn = 0; turn < 3; turn++) {
		for (int i = 0; i < 4; i++, added++)
			for (uint64_t k = 0; k < n; k++)
				launch(s, KERNEL_ADD, at_chunk(base, k), CHUNK,
				       SLUICE_USE_READ_WRITE, 1);
		/* In the middle of a period: something else, then backwards, then by faults. */
		for (uint64_t k = 0; k < n / 2; k++)
			launch(s, KERNEL_ADD, at_chunk(base, k), CHUNK,
			       SLUICE_USE_READ_WRITE, 1);
		launch(s, KERNEL_FILL, other, 3 * CHUNK, SLUICE_USE_WRITE_ALL, 5);
		for (uint64_t k = n; k-- > n / 2;)
			launch(s, KERNEL_ADD, at_chunk(base, k), CHUNK,
			       SLUICE_USE_READ_WRITE, 1);
		added++;
		space_sync(s);
		CHECK_EQ(counter(s, SLUICE_COUNTER_PLANS), (uint64_t)turn + 1);
		CHECK_EQ(counter(s, SLUICE_COUNTER_PLAN_DIVERGENCES), (uint64_t)turn + 1);
		launch(s, KERNEL_ADD, base, size, SLUICE_USE_COUNT, 1);
		added++;
		space_sync(s);
		memory_expect(other, 3 * CHUNK, 5);
	}
	for (uint64_t i = 0; i < size / 8; i++)
		CHECK(((uint64_t *)base)[i] == pattern(0, i) + added);
	space_end(s);
}

/* After a plan was given up, lru is as if there had been none. */
static void
fallback_is_lru(void)
{
	struct sluice_space *s = space_of(4, "host_budget=0,policy=plan");
	char *base = region_map(s, file_make("data", 8 * CHUNK, 3), 0, 0, SLUICE_READ);
	char *other = region_map(s, file_make("more", 8 * CHUNK, 4), 0, 0, SLUICE_READ);
	uint64_t before;

	for (int i = 0; i < 4; i++)
		sweep(s, base, 8, SLUICE_USE_READ);
	sweep(s, other, 4, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_PLAN_DIVERGENCES), 1);
	before = h2d(s);
	for (uint64_t i = 0; i < 4; i++) /* the last four are there, whatever the plan wanted */
		use(s, at_chunk(other, 3 - i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(h2d(s), before);
	use(s, at_chunk(base, 0), CHUNK, SLUICE_USE_READ); /* for it, chunk 3 goes */
	for (uint64_t i = 0; i < 3; i++)
		use(s, at_chunk(other, i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(h2d(s), before + CHUNK);
	space_end(s);
}

static void
region_of_a_plan_goes_in_the_middle_of_it(void)
{
	for (int wait = 0; wait < 2; wait++) {
		struct sluice_space *s = space_of(4, "host_budget=16M,policy=plan");
		char *kept = region_alloc(s, 5 * CHUNK);
		char *going = region_alloc(s, 5 * CHUNK);

		for (uint64_t k = 0; k < 5; k++)
			launch(s, KERNEL_FILL, at_chunk(kept, k), CHUNK,
			       SLUICE_USE_WRITE_ALL, k);
		for (int i = 0; i < 4; i++) {
			sweep(s, kept, 5, SLUICE_USE_READ);
			sweep(s, going, 5, SLUICE_USE_READ_WRITE);
		}
		sweep(s, kept, 5, SLUICE_USE_READ);
		if (wait)
			space_sync(s);
		CHECK(sluice_unmap(s, going) == 0);
		CHECK(sluice_space_check(s) == 0);
		CHECK_EQ(counter(s, SLUICE_COUNTER_PLANS), 1);
		/* Its addresses are soon another region's. */
		going = region_alloc(s, 5 * CHUNK);
		memory_expect_zeros(going, 5 * CHUNK);
		for (int i = 0; i < 4; i++) {
			sweep(s, going, 5, SLUICE_USE_READ_WRITE);
			sweep(s, kept, 5, SLUICE_USE_READ);
		}
		space_sync(s);
		CHECK_EQ(counter(s, SLUICE_COUNTER_PLANS), 2);
		CHECK_EQ(counter(s, SLUICE_COUNTER_PLAN_DIVERGENCES), 0);
		for (uint64_t k = 0; k < 5; k++)
			memory_expect(at_chunk(kept, k), CHUNK, k);
		space_end(s);
	}
}

static void
host_code_and_pins_live_with_a_plan(void)
{
	struct sluice_space *s = space_of(6, "host_budget=8M,policy=plan");
	char *base = region_alloc(s, 10 * CHUNK);
	char *pinned = region_alloc(s, CHUNK);
	volatile uint64_t *word = (volatile uint64_t *)at_chunk(base, 4);
	uint64_t rounds = 8;

	memory_fill(pinned, CHUNK, 9);
	CHECK(sluice_pin(s, pinned, CHUNK) == 0);
	for (uint64_t i = 0; i < rounds; i++) {
		for (uint64_t k = 0; k < 10; k++) {
			struct kernel_args args = {at_chunk(base, k), CHUNK, 1, KERNEL_ADD};
			struct sluice_use uses[] = {
				{at_chunk(base, k), CHUNK, SLUICE_USE_READ_WRITE},
				{pinned, CHUNK, SLUICE_USE_READ},
			};

			CHECK(sluice_launch(s, NULL, kernel_range,
					    (struct sluice_grid){2, 1, 1}, &args,
					    sizeof(args), uses, 2) == 0);
		}
		CHECK(sluice_stream_synchronize(s, NULL) == 0);
		CHECK_EQ(*word, 2 * i + 1);
		*word += 1; /* host code is no launch: the plan goes on */
		CHECK(sluice_space_check(s) == 0);
	}
	CHECK_EQ(counter(s, SLUICE_COUNTER_PLANS), 1);
	CHECK_EQ(counter(s, SLUICE_COUNTER_PLAN_DIVERGENCES), 0);
	CHECK_EQ(*word, 2 * rounds);
	for (uint64_t k = 0; k < 10; k++)
		CHECK_EQ(((uint64_t *)at_chunk(base, k))[1], rounds);
	memory_expect(pinned, CHUNK, 9);
	CHECK(sluice_unpin(s, pinned, CHUNK) == 0);
	space_end(s);
}

/* What the program discards goes nowhere; what it does not is kept, though it is overwritten next. */
static void
only_what_the_program_discards_is_dropped(void)
{
	struct sluice_space *s = space_of(4, "host_budget=64M,policy=plan");
	char *kept = region_alloc(s, 6 * CHUNK), *dead = region_alloc(s, 6 * CHUNK);
	uint64_t rounds = 6;

	for (uint64_t i = 0; i < rounds; i++) {
		for (uint64_t k = 0; k < 6; k++) {
			launch(s, KERNEL_FILL, at_chunk(kept, k), CHUNK,
			       SLUICE_USE_WRITE_ALL, i);
			launch(s, KERNEL_FILL, at_chunk(dead, k), CHUNK,
			       SLUICE_USE_WRITE_ALL, i);
			CHECK(sluice_discard(s, at_chunk(dead, k), CHUNK,
					     SLUICE_DISCARD_LAZY, NULL) == 0);
		}
	}
	space_sync(s);
	CHECK_EQ(h2d(s), 0);
	for (uint64_t k = 0; k < 6; k++)
		memory_expect(at_chunk(kept, k), CHUNK, rounds - 1);
	space_end(s);
}

/* ---- threads ------------------------------------------------------------------------------- */

struct worker {
	struct sluice_space *s;
	struct sluice_stream *stream;
	char *base;
	uint64_t chunks, rounds;
};

static void *
worker_run(void *arg)
{
	struct worker *w = arg;

	for (uint64_t i = 0; i < w->rounds; i++) {
		for (uint64_t k = 0; k < w->chunks; k++) {
			struct kernel_args args = {at_chunk(w->base, k), CHUNK, 1,
						   KERNEL_ADD};
			struct sluice_use one = {args.addr, CHUNK, SLUICE_USE_READ_WRITE};

			CHECK(sluice_launch(w->s, w->stream, kernel_range,
					    (struct sluice_grid){2, 1, 1}, &args,
					    sizeof(args), &one, 1) == 0);
		}
		if (i % 3 == 2)
			CHECK(sluice_stream_synchronize(w->s, w->stream) == 0);
	}
	CHECK(sluice_stream_synchronize(w->s, w->stream) == 0);
	return NULL;
}

/* One thread's launches repeat; then others come, each with a stream; then they go. */
static void
threads_come_and_go_and_every_result_is_right(void)
{
	struct sluice_space *s = space_of(6, "host_budget=16M,policy=plan");
	struct worker worker[3];
	pthread_t thread[3];

	for (int i = 0; i < 3; i++) {
		worker[i] = (struct worker){.s = s, .chunks = 8, .rounds = 6};
		worker[i].base = region_alloc(s, 8 * CHUNK);
		CHECK(sluice_stream_create(s, &worker[i].stream) == 0);
	}
	worker_run(&worker[0]);
	CHECK_EQ(counter(s, SLUICE_COUNTER_PLANS), 1);
	for (int i = 0; i < 3; i++)
		CHECK(pthread_create(&thread[i], NULL, worker_run, &worker[i]) == 0);
	for (int i = 0; i < 8; i++) {
		CHECK(sluice_space_check(s) == 0);
		CHECK(sluice_unmap(s, region_alloc(s, CHUNK)) == 0);
	}
	for (int i = 0; i < 3; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	worker_run(&worker[1]);
	CHECK(counter(s, SLUICE_COUNTER_PLANS) >= 2);
	for (int i = 0; i < 3; i++) {
		uint64_t rounds = i < 2 ? 12 : 6;

		for (uint64_t k = 0; k < 8 * CHUNK / 8; k++)
			CHECK(((uint64_t *)worker[i].base)[k] == rounds);
		sluice_stream_destroy(worker[i].stream);
	}
	space_end(s);
}

static void
checking_mode_knows_no_plan(void)
{
	struct sluice_space *s = space_of(4, "host_budget=0,policy=plan,checking=1");
	char *base = region_alloc(s, 6 * CHUNK);

	for (int i = 0; i < 5; i++)
		for (uint64_t k = 0; k < 6; k++)
			launch(s, KERNEL_FILL, at_chunk(base, k), CHUNK,
			       SLUICE_USE_WRITE_ALL, (uint64_t)i);
	space_sync(s);
	CHECK_EQ(counter(s, SLUICE_COUNTER_PLANS), 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_INTENT_ERRORS), 0);
	for (uint64_t k = 0; k < 6; k++)
		memory_expect(at_chunk(base, k), CHUNK, 4);
	space_end(s);
}

static const struct api_case cases[] = {
	CASE(cyclic_scan_moves_what_belady_says),
	CASE(plan_never_moves_more_than_lru),
	CASE(same_launches_give_the_same_counters_however_fast_they_come),
	CASE(launches_that_fit_need_no_plan),
	CASE(what_comes_next_is_brought_in_while_something_else_runs),
	CASE(another_launch_ends_the_plan_and_changes_no_result),
	CASE(fallback_is_lru),
	CASE(region_of_a_plan_goes_in_the_middle_of_it),
	CASE(host_code_and_pins_live_with_a_plan),
	CASE(only_what_the_program_discards_is_dropped),
	CASE(threads_come_and_go_and_every_result_is_right),
	CASE(checking_mode_knows_no_plan),
};

API_MAIN(cases)
