/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same sequence of launches moves the same bytes by cause: twice in a row, with one or four
 * workers, with io_uring or with threads for files, with a slow store, with kernels that take their
 * time, and with a machine so busy that the thread of the stream comes late. Compared are all
 * counters but those that count waiting.
 */
#include "api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/launch/launch.h"
#include "device/soft/soft.h"

static void
kernel_slow(const struct sluice_block *block, void *args)
{
	const uint64_t *microseconds = args;

	(void)block;
	usleep((useconds_t)*microseconds);
}

/* Longer than the patience of who waits for room with launches that do not start (sl_room_wait()). */
#define LATE_US 200000

static int (*late_original)(struct sl_task *task);
static unsigned late_tasks; /* of one stream's thread, while there are any */

/* The thread of the stream sleeps before some of its launches, as on a machine that is too busy. */
static int
late_run(struct sl_task *task)
{
	if (late_tasks++ % 17 == 12)
		usleep(LATE_US);
	return late_original(task);
}

static void
late_submit(struct sl_stream *stream, struct sl_task *task)
{
	if (!late_original)
		late_original = task->run; /* that of launches, which come first */
	if (task->run == late_original)
		task->run = late_run;
	sl_soft_stream_submit(stream, task);
}

static void
stream_make_late(struct sluice_space *s)
{
	static struct sl_device_ops ops;

	CHECK(s->device->ops->stream_submit == sl_soft_stream_submit);
	ops = *s->device->ops;
	ops.stream_submit = late_submit;
	late_tasks = 0;
	s->device->ops = &ops;
}

struct run {
	struct sluice_stats stats;
	struct sluice_residency where[3];
};

/* A mixture under pressure: files and volatile data, every intent, discards, prefetch by stream. */
static struct run
mixture_run(const char *config, uint64_t kernel_us, int late)
{
	uint64_t c = 14;
	struct sluice_space *s = space_make(config);
	struct sluice_grid grid = {2, 1, 1};
	struct sluice_stream *stream;
	struct run run;
	char *p[3];

	if (late)
		stream_make_late(s);
	CHECK(sluice_stream_create(s, &stream) == 0);
	p[0] = region_map(s, file_make("a", c * CHUNK, 1), 0, 0, SLUICE_READ | SLUICE_WRITE);
	p[1] = region_map(s, file_make("b", c * CHUNK, 2), 0, 0,
			  SLUICE_READ | SLUICE_WRITE | SLUICE_VOLATILE);
	p[2] = region_alloc(s, c * CHUNK);
	for (uint64_t i = 0; i < 5 * c; i++) {
		struct sluice_use uses[3] = {
			{at_chunk(p[0], i % c), CHUNK,
			 i % 5 == 0 ? SLUICE_USE_READ_WRITE : SLUICE_USE_READ},
			{at_chunk(p[1], i * 5 % c), CHUNK / (1 + i % 2),
			 i % 3 == 0 ? SLUICE_USE_WRITE : SLUICE_USE_READ},
			{at_chunk(p[2], i * 3 % c), CHUNK,
			 i % 4 == 0   ? SLUICE_USE_WRITE_ALL
			 : i % 4 == 1 ? SLUICE_USE_SCRATCH
				      : SLUICE_USE_READ},
		};

		CHECK(sluice_launch(s, stream, kernel_slow, grid, &kernel_us,
				    sizeof(kernel_us), uses, 3) == 0);
		if (i % 11 == 10)
			CHECK(sluice_discard(s, at_chunk(p[2], i * 3 % c), CHUNK,
					     SLUICE_DISCARD_LAZY, stream) == 0);
		if (i % 17 == 16)
			CHECK(sluice_discard(s, at_chunk(p[1], i % c), CHUNK,
					     SLUICE_DISCARD_EAGER, stream) == 0);
	}
	CHECK(sluice_stream_synchronize(s, stream) == 0);
	CHECK(sluice_space_check(s) == 0);
	sluice_stats_get(s, &run.stats);
	for (int i = 0; i < 3; i++)
		run.where[i] = residency(s, p[i], c * CHUNK);
	sluice_stream_destroy(stream);
	space_end(s);
	return run;
}

static void
runs_compare(const char *what, const struct run *a, const struct run *b)
{
	int differ = 0;

	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++) {
		enum sluice_counter k = (enum sluice_counter)i;

		if (k == SLUICE_COUNTER_MOVE_RETRIES || k == SLUICE_COUNTER_WAITS_IN_FLIGHT)
			continue;
		if (a->stats.counter[i] == b->stats.counter[i])
			continue;
		fprintf(stderr, "%s: %s: %.2f against %.2f chunks\n", what,
			sluice_counter_name(k), (double)a->stats.counter[i] / (double)CHUNK,
			(double)b->stats.counter[i] / (double)CHUNK);
		differ = 1;
	}
	for (int i = 0; i < 3; i++) {
		if (memcmp(a->where[i].tier_bytes, b->where[i].tier_bytes,
			   sizeof(a->where[i].tier_bytes))) {
			fprintf(stderr, "%s: region %d lies elsewhere\n", what, i);
			differ = 1;
		}
	}
	if (differ)
		api_failed(what, 0, "the same bytes by cause");
}

static void
compare(const char *base)
{
	static const struct {
		const char *config;
		uint64_t kernel_us;
		int late;
		const char *delay; /* of the store */
	} variants[] = {
		{"workers=2", 0, 0, NULL},    {"workers=1", 0, 0, NULL},
		{"workers=4", 0, 0, NULL},    {"store_io=file", 0, 0, NULL},
		{"workers=2", 2000, 0, NULL}, {"workers=2", 0, 0, "2000000:400M"},
		{"workers=2", 0, 1, NULL},
	};
	struct run first = mixture_run(base, 0, 0);

	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
		char config[256], what[320];
		struct run run;

		snprintf(config, sizeof(config), "%s,%s", base, variants[i].config);
		snprintf(what, sizeof(what), "%s%s%s%s", config,
			 variants[i].kernel_us ? ", slow kernels" : "",
			 variants[i].delay ? ", slow store" : "",
			 variants[i].late ? ", late stream" : "");
		if (variants[i].delay)
			setenv("SLUICE_STORE_DELAY", variants[i].delay, 1);
		run = mixture_run(config, variants[i].kernel_us, variants[i].late);
		unsetenv("SLUICE_STORE_DELAY");
		runs_compare(what, &first, &run);
	}
}

static void
same_launches_move_the_same_bytes_without_a_host_tier(void)
{
	compare("device_budget=16M,host_budget=0");
}

static void
same_launches_move_the_same_bytes_with_a_host_tier(void)
{
	compare("device_budget=16M,host_budget=24M");
}

static void
same_launches_move_the_same_bytes_with_write_back_and_a_reserve(void)
{
	compare("device_budget=12M,host_budget=32M,writeback=6M,host_reserve=12M");
}

static void
same_launches_move_the_same_bytes_with_read_ahead(void)
{
	/* A host tier, and more staging than there are data: see docs/design/host-tier.md, rule 3. */
	compare("device_budget=16M,host_budget=16M,readahead_chunks=4,staging=256M");
}

static void
same_launches_move_the_same_bytes_under_policy_dragon(void)
{
	compare("device_budget=16M,host_budget=24M,policy=dragon");
}

static void
same_launches_move_the_same_bytes_under_policy_uvm(void)
{
	compare("device_budget=16M,host_budget=24M,policy=uvm");
}

/*
 * Uses of one chunk each, a hexadecimal digit; behind a ! it is overwritten. pause: each is waited
 * for; else the store is slow, so that the mover is busy at the calls.
 */
static struct sluice_stats
chunks_use(const char *chunks, int pause)
{
	const char *path = file_make("a", 16 * CHUNK, 1);
	struct sluice_stats stats;
	struct sluice_space *s;
	uint64_t none_us = 0;
	char *p;

	if (!pause)
		setenv("SLUICE_STORE_DELAY", "3000000", 1);
	s = space_make("device_budget=32M,staging=256M,readahead_chunks=8");
	p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);
	unsetenv("SLUICE_STORE_DELAY");
	for (; *chunks; chunks++) {
		int over = *chunks == '!' && chunks++;
		uint64_t chunk = (uint64_t)(*chunks <= '9' ? *chunks - '0'
							   : *chunks - 'a' + 10);
		struct sluice_use use = {at_chunk(p, chunk), CHUNK,
					 over ? SLUICE_USE_WRITE_ALL : SLUICE_USE_READ};

		CHECK(sluice_launch(s, NULL, kernel_slow, (struct sluice_grid){1, 1, 1},
				    &none_us, sizeof(none_us), &use, 1) == 0);
		if (pause)
			space_sync(s);
	}
	space_sync(s);
	sluice_stats_get(s, &stats);
	space_end(s);
	return stats;
}

/* What is there already tells read-ahead the same whether the mover has nothing to do at the call. */
static void
same_uses_read_the_same_ahead_at_any_pace(void)
{
	static const char *const sequences[] = {"!5!6!705678", "!5!6!70567e"};

	for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++) {
		struct sluice_stats at_once = chunks_use(sequences[i], 0);
		struct sluice_stats paused = chunks_use(sequences[i], 1);

		for (int k = 0; k < SLUICE_COUNTER_COUNT; k++) {
			if (k != SLUICE_COUNTER_MOVE_RETRIES &&
			    k != SLUICE_COUNTER_WAITS_IN_FLIGHT)
				CHECK_EQ(at_once.counter[k], paused.counter[k]);
		}
	}
}

static void
same_faults_of_one_thread_move_the_same_bytes(void)
{
	static const char *const configs[] = {
		"device_budget=4M,host_budget=4M,faults=signal",
		"device_budget=4M,host_budget=4M,faults=thread",
		"device_budget=4M,host_budget=4M,faults=signal,store_io=file",
	};
	struct sluice_stats first = {0}, st;

	for (int i = 0; i < 3; i++) {
		struct sluice_space *s = space_make(configs[i]);
		char *p = region_map(s, file_make("a", 8 * CHUNK, 1), 0, 0,
				     SLUICE_READ | SLUICE_WRITE);

		for (uint64_t k = 0; k < 64; k++)
			at_chunk(p, k * 5 % 8)[k * PAGE] ^= (char)k;
		CHECK(sluice_unmap(s, p) == 0);
		sluice_stats_get(s, i ? &st : &first);
		space_end(s);
		for (int k = 0; i && k < SLUICE_COUNTER_COUNT; k++) {
			if (k != SLUICE_COUNTER_MOVE_RETRIES &&
			    k != SLUICE_COUNTER_WAITS_IN_FLIGHT)
				CHECK_EQ(st.counter[k], first.counter[k]);
		}
	}
}

static const struct api_case cases[] = {
	CASE(same_launches_move_the_same_bytes_without_a_host_tier),
	CASE(same_launches_move_the_same_bytes_with_a_host_tier),
	CASE(same_launches_move_the_same_bytes_with_write_back_and_a_reserve),
	CASE(same_launches_move_the_same_bytes_with_read_ahead),
	CASE(same_launches_move_the_same_bytes_under_policy_dragon),
	CASE(same_launches_move_the_same_bytes_under_policy_uvm),
	CASE(same_uses_read_the_same_ahead_at_any_pace),
	CASE(same_faults_of_one_thread_move_the_same_bytes),
};
API_MAIN(cases)
