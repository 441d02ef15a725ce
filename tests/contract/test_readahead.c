/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Automatic read-ahead: the recognised patterns, the number of uses until then, and that it
 * never costs a byte more. Uses come from launches, which the mover prepares one after the
 * other. So the counters are exact: bytes demanded before the pattern was known, and bytes read
 * ahead after it.
 */
#include "api.h"

#define CHUNKS 96u

struct seen {
	uint64_t demand, ahead; /* chunks */
};

/* Use n chunks in this order; with at most window chunks read ahead. */
static struct seen
pattern_run(const char *config, int advice, unsigned flags, const uint64_t *order, size_t n)
{
	struct sluice_space *s = space_make(config);
	char *p = region_map(s, file_make("f", CHUNKS * CHUNK, 1), 0, 0, SLUICE_READ | flags);
	struct seen seen;

	if (advice >= 0)
		CHECK(sluice_advise(s, p, SLUICE_TO_END, (enum sluice_advice)advice) == 0);
	for (size_t i = 0; i < n; i++)
		launch(s, KERNEL_READ, at_chunk(p, order[i]), CHUNK, SLUICE_USE_READ, 0);
	space_sync(s);
	seen = (struct seen){counter(s, SLUICE_COUNTER_STORE_READ_DEMAND) / CHUNK,
			     counter(s, SLUICE_COUNTER_STORE_READ_AHEAD) / CHUNK};
	CHECK_EQ(counter(s, SLUICE_COUNTER_H2D_LAUNCH), n * CHUNK);
	space_end(s);
	return seen;
}

#define NORMAL "readahead_chunks=8,staging=64M"

static void
sequential_use_is_recognised_at_the_third_chunk(void)
{
	uint64_t order[CHUNKS];
	struct seen seen;

	for (uint64_t i = 0; i < CHUNKS; i++)
		order[i] = i;
	seen = pattern_run(NORMAL, -1, 0, order, CHUNKS);
	CHECK_EQ(seen.demand, 3);
	CHECK_EQ(seen.ahead, CHUNKS - 3);
}

static void
backward_use_is_recognised_at_the_third_chunk(void)
{
	uint64_t order[CHUNKS];
	struct seen seen;

	for (uint64_t i = 0; i < CHUNKS; i++)
		order[i] = CHUNKS - 1 - i;
	seen = pattern_run(NORMAL, -1, 0, order, CHUNKS);
	CHECK_EQ(seen.demand, 3);
	CHECK_EQ(seen.ahead, CHUNKS - 3);
}

static void
strides_are_recognised_at_the_third_use_and_read_nothing_between(void)
{
	for (uint64_t stride = 2; stride <= 7; stride++) {
		uint64_t order[CHUNKS];
		size_t n = 0;
		struct seen seen;

		for (uint64_t i = 0; i < CHUNKS; i += stride)
			order[n++] = i;
		seen = pattern_run(NORMAL, -1, 0, order, n);
		CHECK_EQ(seen.demand, 3);
		CHECK_EQ(seen.ahead, n - 3);
	}
}

static void
two_interleaved_streams_are_both_recognised(void)
{
	uint64_t order[40];
	struct seen seen;

	for (uint64_t i = 0; i < 20; i++) {
		order[2 * i] = i;
		order[2 * i + 1] = 70 + i;
	}
	seen = pattern_run(NORMAL, -1, 0, order, 40);
	CHECK_EQ(seen.demand, 6);
	CHECK(seen.ahead >= 34 && seen.ahead <= 34 + 2 * 8); /* and on beyond the last use */
}

static void
workers_that_overtake_each_other_do_not_hide_a_sequence(void)
{
	uint64_t order[CHUNKS];
	struct seen seen;

	for (uint64_t i = 0; i < CHUNKS; i++)
		order[i] = i ^ 1; /* 1 0 3 2 5 4 ... */
	seen = pattern_run(NORMAL, -1, 0, order, CHUNKS);
	CHECK(seen.demand <= 5);
	CHECK_EQ(seen.demand + seen.ahead, CHUNKS);
}

static void
random_use_reads_nothing_ahead(void)
{
	/* distances all different, no three in a row of equal distance */
	static const uint64_t order[] = {0, 41, 85, 12, 63, 30, 94, 51, 7, 74, 22};
	struct seen seen = pattern_run(NORMAL, -1, 0, order,
				       sizeof(order) / sizeof(order[0]));

	CHECK_EQ(seen.demand, sizeof(order) / sizeof(order[0]));
	CHECK_EQ(seen.ahead, 0);
}

static void
sequential_advice_reads_ahead_at_once(void)
{
	uint64_t order[CHUNKS];
	struct seen seen;

	for (uint64_t i = 0; i < CHUNKS; i++)
		order[i] = i;
	seen = pattern_run(NORMAL, SLUICE_ADVISE_SEQUENTIAL, 0, order, CHUNKS);
	CHECK_EQ(seen.demand, 1);
	CHECK_EQ(seen.ahead, CHUNKS - 1);
}

static void
read_ahead_can_be_switched_off_for_a_space_a_region_and_by_advice(void)
{
	uint64_t order[24];

	for (uint64_t i = 0; i < 24; i++)
		order[i] = i;
	CHECK_EQ(pattern_run("readahead_chunks=0", -1, 0, order, 24).ahead, 0);
	CHECK_EQ(pattern_run(NORMAL, -1, SLUICE_NO_READAHEAD, order, 24).ahead, 0);
	CHECK_EQ(pattern_run(NORMAL, SLUICE_ADVISE_RANDOM, 0, order, 24).ahead, 0);
}

static void
window_is_never_larger_than_asked_for(void)
{
	for (uint64_t window = 1; window <= 16; window *= 2) {
		uint64_t order[10];
		char config[64];
		struct seen seen;

		for (uint64_t i = 0; i < 10; i++)
			order[i] = i;
		snprintf(config, sizeof(config), "readahead_chunks=%llu,staging=128M",
			 (unsigned long long)window);
		seen = pattern_run(config, -1, 0, order, 10);
		CHECK_EQ(seen.demand, 3);
		CHECK(seen.ahead <= 7 + window);
		CHECK(seen.ahead >= 7);
	}
}

static void
faults_of_one_thread_are_read_ahead_of_as_launches_are(void)
{
	struct sluice_space *s = space_make(NORMAL ",faults=signal");
	char *p = region_map(s, file_make("f", 32 * CHUNK, 1), 0, 0, SLUICE_READ);

	memory_expect(p, 32 * CHUNK, 1);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_READ_DEMAND), 3 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_READ_AHEAD), 29 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_READAHEAD_WASTED), 0);
	space_end(s);
}

static void
read_ahead_reads_the_same_bytes_as_without(void)
{
	uint64_t order[2 * 48];

	for (uint64_t i = 0; i < 48; i++)
		order[i] = order[48 + i] = i * 2; /* two passes through every other chunk */
	for (int window = 0; window <= 8; window += 8) {
		char config[64];
		struct seen seen;

		snprintf(config, sizeof(config), "readahead_chunks=%d,staging=64M", window);
		seen = pattern_run(config, -1, 0, order, 96);
		CHECK_EQ(seen.demand + seen.ahead, 96);
	}
}

/* ---- write-behind ------------------------------------------------------------------------- */

#define SWEEP_DEVICE 64u

struct swept {
	uint64_t early, all; /* evictions after 60 chunks, and in the end */
};

/* declared: by launches, which say what they use; else host code writes the first word. */
static struct swept
sweep_run(const char *config, unsigned flags, int declared)
{
	struct sluice_space *s = space_make(config);
	const char *path = file_path("f");
	char *p = region_map(s, path, 0, CHUNKS * CHUNK,
			     SLUICE_WRITE | SLUICE_CREATE | flags);
	struct swept swept = {0};

	for (uint64_t i = 0; i < CHUNKS; i++) {
		if (declared)
			use(s, at_chunk(p, i), CHUNK, SLUICE_USE_WRITE_ALL);
		else
			*(uint64_t *)(void *)at_chunk(p, i) = pattern(i + 2, 0);
		if (i == 59) {
			space_sync(s);
			swept.early = counter(s, SLUICE_COUNTER_EVICTIONS);
		}
	}
	space_sync(s);
	swept.all = counter(s, SLUICE_COUNTER_EVICTIONS);
	CHECK_EQ(counter(s, SLUICE_COUNTER_D2H_EVICT), swept.all * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_ZERO_FILL), CHUNKS * CHUNK);
	CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0);
	CHECK_EQ(store_writes(s), CHUNKS * CHUNK); /* each chunk once */
	CHECK_EQ(store_reads(s), 0);
	space_end(s);
	for (uint64_t i = 0; i < CHUNKS && !declared; i++)
		file_expect(path, i * CHUNK, 8, i + 2, 0);
	return swept;
}

/* Faults on the touching thread: what they start is over when it goes on. */
#define SWEEP "device_budget=128M,staging=64M,readahead_chunks=8,faults=signal"

static void
what_a_sweep_has_written_goes_early_and_moves_no_byte_more(void)
{
	struct swept swept = sweep_run(SWEEP, 0, 0);

	CHECK_EQ(swept.early, 14); /* every second use from the 34th on */
	CHECK_EQ(swept.all, CHUNKS - SWEEP_DEVICE);
}

static void
nothing_goes_early_where_it_could_stay_or_is_not_known(void)
{
	static const struct {
		const char *config;
		unsigned flags;
		int declared;
		uint64_t all;
	} runs[] = {
		{SWEEP ",device_budget=256M", 0, 0, 0}, /* it fits */
		{SWEEP ",host_budget=64M", 0, 0, CHUNKS - SWEEP_DEVICE},
		{SWEEP ",policy=dragon", 0, 0, CHUNKS - SWEEP_DEVICE},
		{SWEEP ",policy=uvm", 0, 0, CHUNKS - SWEEP_DEVICE},
		{SWEEP, SLUICE_NO_READAHEAD, 0, CHUNKS - SWEEP_DEVICE},
		{SWEEP, 0, 1, CHUNKS - SWEEP_DEVICE},
	};

	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		struct swept swept = sweep_run(runs[i].config, runs[i].flags,
					       runs[i].declared);

		CHECK_EQ(swept.early, 0);
		CHECK_EQ(swept.all, runs[i].all);
	}
}

static const struct api_case cases[] = {
	CASE(what_a_sweep_has_written_goes_early_and_moves_no_byte_more),
	CASE(nothing_goes_early_where_it_could_stay_or_is_not_known),
	CASE(sequential_use_is_recognised_at_the_third_chunk),
	CASE(backward_use_is_recognised_at_the_third_chunk),
	CASE(strides_are_recognised_at_the_third_use_and_read_nothing_between),
	CASE(two_interleaved_streams_are_both_recognised),
	CASE(workers_that_overtake_each_other_do_not_hide_a_sequence),
	CASE(random_use_reads_nothing_ahead),
	CASE(sequential_advice_reads_ahead_at_once),
	CASE(read_ahead_can_be_switched_off_for_a_space_a_region_and_by_advice),
	CASE(window_is_never_larger_than_asked_for),
	CASE(faults_of_one_thread_are_read_ahead_of_as_launches_are),
	CASE(read_ahead_reads_the_same_bytes_as_without),
};
API_MAIN(cases)
