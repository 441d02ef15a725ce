/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder: what the core tells it, in any order and from many threads, becomes a
 * valid trace with the right order, intents and kinds of tensors.
 */
#include "trace/record.h"

#include <errno.h>
#include <pthread.h>

#include "unit/cmocka_all.h"

static void
assert_ok(int rc)
{
	if (rc)
		fail_msg("%d: %s", rc, sluice_last_error());
}

static struct sl_record *
record_begin(void)
{
	struct sl_record *record;

	assert_ok(sl_record_begin(1000, "a program", &record));
	return record;
}

static void
launch(struct sl_record *record, uint64_t begin_ns, uint64_t end_ns, uint64_t tensor,
       enum sluice_intent intent)
{
	struct sl_record_use use = {.tensor = tensor, .intent = intent};

	sl_record_launch(record, begin_ns, end_ns, "kernel", &use, 1);
}

static struct sl_trace *
record_end(struct sl_record *record, uint64_t want_dropped)
{
	struct sl_trace *trace;
	uint64_t dropped;

	assert_ok(sl_record_end(record, &trace, &dropped));
	assert_int_equal(dropped, want_dropped);
	assert_ok(sl_trace_check(trace));
	return trace;
}

static void
launches_come_out_by_their_time_and_do_not_overlap(void **state)
{
	struct sl_record *record = record_begin();
	struct sl_trace *trace;

	(void)state;
	sl_record_tensor(record, 42, 100, "data", 900);
	launch(record, 1500, 1700, 42, SLUICE_USE_READ); /* told first, ran last */
	launch(record, 1000, 1300, 42, SLUICE_USE_WRITE_ALL);
	launch(record, 1200, 1250, 42, SLUICE_USE_READ_WRITE); /* beside the one before */
	launch(record, 1290, 1290, 42, SLUICE_USE_WRITE);      /* no time at all */
	trace = record_end(record, 0);
	assert_int_equal(trace->clock_hz, 1000000000);
	assert_string_equal(trace->source, "a program");
	assert_int_equal(trace->n_launches, 4);
	assert_int_equal(trace->launches[0].start_ticks, 0);
	assert_int_equal(trace->launches[0].ticks, 300);
	assert_int_equal(trace->launches[1].start_ticks, 300);
	assert_int_equal(trace->launches[1].ticks, 50);
	assert_int_equal(trace->launches[2].start_ticks, 350);
	assert_int_equal(trace->launches[2].ticks, 1);
	assert_int_equal(trace->launches[3].start_ticks, 500);
	assert_int_equal(trace->uses[0].intent, SLUICE_USE_WRITE_ALL);
	assert_int_equal(trace->uses[1].intent, SLUICE_USE_READ_WRITE);
	assert_int_equal(trace->uses[3].intent, SLUICE_USE_READ);
	assert_string_equal(sl_trace_name(trace, trace->launches[0].name), "kernel");
	assert_string_equal(sl_trace_name(trace, trace->tensors[0].name), "data");
	assert_int_equal(trace->tensors[0].kind, SL_TENSOR_LOCAL);
	sl_trace_destroy(trace);
}

static void
kinds_follow_from_the_uses(void **state)
{
	struct sl_record *record = record_begin();
	struct sl_trace *trace;
	uint64_t at = 1000;

	(void)state;
	for (uint64_t t = 0; t < 6; t++)
		sl_record_tensor(record, t, 4096, NULL, 0);
	for (int period = 0; period < 3; period++) {
		launch(record, at, at + 1, 0, SLUICE_USE_READ);          /* inherited */
		launch(record, at + 2, at + 3, 1, SLUICE_USE_WRITE_ALL); /* made anew */
		launch(record, at + 4, at + 5, 1, SLUICE_USE_READ);
		launch(record, at + 6, at + 7, 2, SLUICE_USE_SCRATCH); /* of one launch */
		launch(record, at + 8, at + 9, 3, SLUICE_USE_SCRATCH); /* of two */
		launch(record, at + 10, at + 11, 3, SLUICE_USE_SCRATCH);
		sl_record_copy(record, 4, 1, 0, 4096, at + 12); /* loaded anew by the program */
		launch(record, at + 13, at + 14, 4, SLUICE_USE_READ);
		sl_record_copy(record, 5, 1, 0, 100, at + 15); /* only in part */
		launch(record, at + 16, at + 17, 5, SLUICE_USE_READ);
		at += 100;
	}
	trace = record_end(record, 0);
	assert_int_equal(trace->n_periods, 3);
	assert_int_equal(sl_trace_period_launches(trace, 2), 8);
	assert_int_equal(trace->n_copies, 6);
	assert_int_equal(trace->tensors[0].kind, SL_TENSOR_GLOBAL);
	assert_int_equal(trace->tensors[1].kind, SL_TENSOR_LOCAL);
	assert_int_equal(trace->tensors[2].kind, SL_TENSOR_WORKSPACE);
	assert_int_equal(trace->tensors[3].kind, SL_TENSOR_LOCAL);
	assert_int_equal(trace->tensors[4].kind, SL_TENSOR_LOCAL);
	assert_int_equal(trace->tensors[5].kind, SL_TENSOR_GLOBAL);
	sl_trace_destroy(trace);
}

static void
periods_that_nobody_tells_of_are_found(void **state)
{
	struct sl_record *record = record_begin();
	struct sl_trace *trace;
	uint64_t at = 10;

	(void)state;
	sl_record_tensor(record, 0, 1000, NULL, 0);
	for (uint64_t t = 1; t <= 12; t++) /* new ones in every step */
		sl_record_tensor(record, t, 64, NULL, 0);
	/* Warming up: two launches that do not come again. */
	launch(record, at, at + 1, 0, SLUICE_USE_WRITE_ALL);
	launch(record, at + 2, at + 3, 0, SLUICE_USE_WRITE);
	for (uint64_t step = 0; step < 4; step++) {
		at += 100;
		launch(record, at, at + 1, 0, SLUICE_USE_READ);
		for (uint64_t layer = 1; layer <= 3; layer++) /* a repetition inside */
			launch(record, at + layer * 10, at + layer * 10 + 5,
			       step * 3 + layer, SLUICE_USE_WRITE_ALL);
	}
	trace = record_end(record, 0);
	assert_int_equal(trace->n_periods, 5);
	assert_int_equal(trace->period_first[1], 2);
	assert_int_equal(trace->period_first[2], 6);
	assert_int_equal(trace->period_first[5], 18);
	assert_int_equal(trace->tensors[0].kind, SL_TENSOR_GLOBAL);
	assert_int_equal(trace->tensors[1].kind, SL_TENSOR_LOCAL);
	sl_trace_destroy(trace);
}

/* A step that begins with making its two tensors, 300 and 500 bytes, and uses them and a weight. */
static void
step_run(struct sl_record *record, uint64_t step, uint64_t at)
{
	uint64_t small = 10 + step * 2, large = small + 1;

	sl_record_tensor(record, small, 300, NULL, at);
	sl_record_copy(record, small, 1, 0, 300, at + 1);
	launch(record, at + 2, at + 12 + step, small, SLUICE_USE_READ_WRITE);
	sl_record_tensor(record, large, 500, NULL, at + 20);
	launch(record, at + 21, at + 22, large, SLUICE_USE_WRITE_ALL);
	launch(record, at + 30, at + 31, 1, SLUICE_USE_READ_WRITE);
	launch(record, at + 40, at + 41, large, SLUICE_USE_READ_WRITE);
	sl_record_free(record, small, at + 42);
	sl_record_free(record, large, at + 43);
	sl_record_copy(record, 1, 0, 0, 1000, at + 44);
}

/* Six steps behind two launches, then one that is none. */
static struct sl_trace *
steps_and_an_end(void)
{
	struct sl_record *record = record_begin();

	sl_record_tensor(record, 1, 1000, "weight", 1);
	sl_record_tensor(record, 2, 4000, "kept", 2); /* used before the steps only */
	sl_record_tensor(record, 3, 7000, "gone", 3);
	launch(record, 10, 11, 2, SLUICE_USE_WRITE_ALL);
	launch(record, 12, 13, 3, SLUICE_USE_WRITE_ALL);
	sl_record_free(record, 3, 14);
	for (uint64_t step = 0; step < 6; step++)
		step_run(record, step, 100 + 100 * step);
	launch(record, 1000, 1001, 2, SLUICE_USE_READ);
	launch(record, 1010, 1011, 1, SLUICE_USE_READ);
	return record_end(record, 0);
}

static void
an_end_that_does_not_repeat_is_a_period_and_the_others_begin_where_least_is_allocated(void **state)
{
	struct sl_trace *trace = steps_and_an_end();
	uint32_t steady;

	(void)state;
	assert_int_equal(trace->n_launches, 2 + 6 * 4 + 2);
	assert_int_equal(trace->n_periods, 8);
	for (uint32_t p = 1; p <= 6; p++)
		assert_int_equal(trace->period_first[p], 2 + 4 * (p - 1));
	assert_int_equal(trace->period_first[7], 26);
	assert_int_equal(trace->period_first[8], 28);
	assert_int_equal(trace->tensors[0].kind, SL_TENSOR_GLOBAL);
	for (uint32_t t = 3; t < trace->n_tensors; t++)
		assert_int_equal(trace->tensors[t].kind, SL_TENSOR_LOCAL);
	/* Steps take longer and longer: the one in the middle. */
	assert_ok(sl_trace_steady(trace, &steady));
	assert_int_equal(steady, 4);
	sl_trace_destroy(trace);
}

static void
a_period_is_a_trace_of_its_own(void **state)
{
	struct sl_trace *trace = steps_and_an_end(), *cut = NULL;

	(void)state;
	assert_ok(sl_trace_cut(trace, 4, &cut));
	assert_string_equal(cut->source, "a program");
	assert_int_equal(cut->n_periods, 1);
	assert_int_equal(cut->n_launches, 4);
	assert_int_equal(cut->launches[0].start_ticks, 0);
	assert_int_equal(cut->launches[0].ticks, 13);
	assert_int_equal(cut->launches[3].start_ticks, 38);
	assert_int_equal(cut->n_tensors, 4); /* none of the other steps, nor what was freed before */
	assert_string_equal(sl_trace_name(cut, cut->tensors[0].name), "weight");
	assert_int_equal(cut->tensors[0].kind, SL_TENSOR_GLOBAL);
	assert_int_equal(cut->tensors[0].alloc_at, SL_TRACE_NONE);
	assert_string_equal(sl_trace_name(cut, cut->tensors[1].name), "kept");
	assert_int_equal(cut->tensors[1].kind, SL_TENSOR_GLOBAL);
	assert_int_equal(cut->tensors[2].size_bytes, 300);
	assert_int_equal(cut->tensors[2].kind, SL_TENSOR_LOCAL);
	assert_int_equal(cut->tensors[2].alloc_at, 0);
	assert_int_equal(cut->tensors[2].free_at, 4);
	assert_int_equal(cut->tensors[3].alloc_at, 1);
	assert_int_equal(cut->uses[2].tensor, 0);
	assert_int_equal(cut->uses[2].intent, SLUICE_USE_READ_WRITE);
	assert_int_equal(cut->n_copies,
			 2); /* its own, and not those of its neighbours at the borders */
	assert_int_equal(cut->copies[0].before_launch, 0);
	assert_int_equal(cut->copies[0].tensor, 2);
	assert_int_equal(cut->copies[1].before_launch, 4);
	assert_int_equal(cut->copies[1].tensor, 0);
	sl_trace_destroy(cut);
	assert_int_equal(sl_trace_cut(trace, 8, &cut), -EINVAL);
	sl_trace_destroy(trace);
}

static void
a_time_may_be_told_later(void **state)
{
	struct sl_record *record = record_begin();
	struct sl_record_use use = {.tensor = 1, .intent = SLUICE_USE_READ};
	struct sl_trace *trace;
	uint32_t first, second;

	(void)state;
	sl_record_tensor(record, 1, 100, NULL, 1);
	first = sl_record_launch(record, 10, 10, "a", &use, 1);
	second = sl_record_launch(record, 5, 5, "b", &use, 1);
	sl_record_time(record, second, 1000);
	sl_record_time(record, first, 700);
	sl_record_time(record, SL_TRACE_NONE, 1);
	trace = record_end(record, 0);
	assert_string_equal(sl_trace_name(trace, trace->launches[0].name), "b");
	assert_int_equal(trace->launches[0].ticks, 1000);
	assert_int_equal(trace->launches[1].ticks, 700);
	sl_trace_destroy(trace);
}

static void
launches_that_do_not_repeat_are_one_period(void **state)
{
	struct sl_record *record = record_begin();
	struct sl_trace *trace;

	(void)state;
	for (uint64_t t = 1; t <= 9; t++) {
		sl_record_tensor(record, t, t * 64, NULL, 0);
		launch(record, t * 10, t * 10 + 1, t, SLUICE_USE_READ);
	}
	trace = record_end(record, 0);
	assert_int_equal(trace->n_periods, 1);
	assert_int_equal(trace->period_first[1], 9);
	sl_trace_destroy(trace);
}

static void
parts_of_tensors_keep_the_rest(void **state)
{
	struct sl_record *record = record_begin();
	struct sl_record_use uses[] = {
		{.tensor = 1, .offset_bytes = 0, .size_bytes = 50, .intent = SLUICE_USE_WRITE_ALL},
		{.tensor = 2, .offset_bytes = 0, .size_bytes = 99, .intent = SLUICE_USE_SCRATCH},
		{.tensor = 3, .offset_bytes = 0, .size_bytes = 100, .intent = SLUICE_USE_WRITE_ALL},
		{.tensor = 4, .intent = SLUICE_USE_SCRATCH},
		{.tensor = 4, .offset_bytes = 10, .size_bytes = 5, .intent = SLUICE_USE_READ},
		{.tensor = 1, .offset_bytes = 50, .size_bytes = 50, .intent = SLUICE_USE_READ},
	};
	struct sl_trace *trace;

	(void)state;
	for (uint64_t t = 1; t <= 4; t++)
		sl_record_tensor(record, t, 100, NULL, 0);
	sl_record_launch(record, 10, 20, NULL, uses, 6);
	trace = record_end(record, 0);
	assert_int_equal(trace->n_uses, 4);
	assert_int_equal(trace->uses[0].intent, SLUICE_USE_READ_WRITE);
	assert_int_equal(trace->uses[1].intent, SLUICE_USE_WRITE);
	assert_int_equal(trace->uses[2].intent, SLUICE_USE_WRITE_ALL);
	assert_int_equal(trace->uses[3].intent, SLUICE_USE_READ); /* scratch yields */
	sl_trace_destroy(trace);
}

static void
lives_hold_every_use_whenever_they_are_told(void **state)
{
	struct sl_record *record = record_begin();
	struct sl_trace *trace;

	(void)state;
	sl_record_tensor(record, 1, 10, NULL, 150); /* told after its first use */
	sl_record_tensor(record, 2, 10, NULL, 150);
	launch(record, 100, 110, 1, SLUICE_USE_WRITE_ALL);
	launch(record, 200, 210, 2, SLUICE_USE_WRITE);
	launch(record, 300, 310, 2, SLUICE_USE_READ);
	launch(record, 400, 410, 1, SLUICE_USE_READ);
	sl_record_free(record, 2, 250); /* told before its last use */
	sl_record_free(record, 2, 260);
	sl_record_free(record, 1, 500);
	trace = record_end(record, 0);
	assert_int_equal(trace->tensors[0].alloc_at, 0);
	assert_int_equal(trace->tensors[0].free_at, 4);
	assert_int_equal(trace->tensors[1].alloc_at, 1);
	assert_int_equal(trace->tensors[1].free_at, 3);
	/* Written only in part, but it was made and freed inside: nothing is
	 * inherited. */
	assert_int_equal(trace->tensors[1].kind, SL_TENSOR_LOCAL);
	sl_trace_destroy(trace);
}

static void
what_finds_no_room_is_counted(void **state)
{
	struct sl_record *record;
	struct sl_trace *trace;

	(void)state;
	assert_int_equal(sl_record_begin(0, NULL, &record), -EINVAL);
	assert_ok(sl_record_begin(2, NULL, &record));
	sl_record_tensor(record, 1, 10, "\x01 a\nname ", 0);
	sl_record_tensor(record, 1, 10, NULL, 0); /* told twice */
	sl_record_tensor(record, 3, 0, NULL, 0);  /* of no size */
	launch(record, 1, 2, 1, SLUICE_USE_READ);
	launch(record, 3, 4, 7, SLUICE_USE_READ); /* of a tensor never told of */
	launch(record, 5, 6, 1, SLUICE_USE_READ); /* the third of two */
	sl_record_copy(record, 9, 1, 0, 1, 7);
	trace = record_end(record, 5);
	assert_int_equal(trace->n_launches, 2);
	assert_int_equal(trace->n_uses, 1);
	assert_string_equal(sl_trace_name(trace, trace->tensors[0].name), "? a?name");
	sl_trace_destroy(trace);
}

/* All samples of a tensor count by their bytes. Of more than the raw bytes it is 1, of next to
 * none the least that a trace can say. */
static void
samples_become_ratios(void **state)
{
	struct sl_record *record = record_begin();
	struct sl_trace *trace;

	(void)state;
	for (uint64_t t = 1; t <= 5; t++)
		sl_record_tensor(record, t, 1 << 20, NULL, 0);
	launch(record, 1, 2, 1, SLUICE_USE_READ);
	sl_record_sample(record, 1, 0, 4096, 1024);
	sl_record_sample(record, 1, 4096, 4096, 2048);
	sl_record_sample(record, 1, 8192, 8192, 8192);
	sl_record_sample(record, 2, 0, 4096, 4160);
	sl_record_sample(record, 3, 0, 4096, 0);
	sl_record_sample(record, 5, 0, 3, 2);
	sl_record_sample(record, 7, 0, 4096, 1); /* of no tensor */
	sl_record_sample(record, 4, 0, 0, 0);    /* of nothing */
	sl_record_sample(NULL, 1, 0, 4096, 1);
	trace = record_end(record, 2);
	assert_int_equal(trace->tensors[0].ratio, 11264 * SL_TRACE_RATIO_ONE / 16384);
	assert_int_equal(trace->tensors[1].ratio, SL_TRACE_RATIO_ONE);
	assert_int_equal(trace->tensors[2].ratio, 1);
	assert_int_equal(trace->tensors[3].ratio, 0);
	assert_int_equal(trace->tensors[4].ratio, 6667);
	sl_trace_destroy(trace);
}

/* A pool of two parts, by the places of two launches each. */
static void
samples_of_a_pool_are_those_of_its_parts(void **state)
{
	struct sl_record_use use = {.tensor = 1, .intent = SLUICE_USE_READ, .open = 1};
	struct sl_record *record = record_begin();
	struct sl_trace *trace;

	(void)state;
	sl_record_tensor(record, 1, 4 << 20, "pool", 0);
	for (uint64_t k = 0; k < 4; k++) {
		use.offset_bytes = k % 2 * (1 << 20);
		sl_record_launch(record, 10 * k + 1, 10 * k + 2, "kernel", &use, 1);
	}
	sl_record_sample(record, 1, 0, 4096, 1024);
	sl_record_sample(record, 1, (1 << 20) - 4096, 4096, 3072);
	sl_record_sample(record, 1, 1 << 20, 4096, 4096);
	sl_record_sample(record, 1, (4 << 20) - 4096, 4096, 2048);
	trace = record_end(record, 0);
	assert_int_equal(trace->n_tensors, 2);
	assert_int_equal(trace->tensors[0].size_bytes, 1 << 20);
	assert_int_equal(trace->tensors[0].ratio, 5000);
	assert_int_equal(trace->tensors[1].ratio, 7500);
	sl_trace_destroy(trace);
}

static void
nothing_recorded_is_no_trace(void **state)
{
	struct sl_trace *trace = NULL;

	(void)state;
	assert_int_equal(sl_record_end(record_begin(), &trace, NULL), -EINVAL);
	assert_null(trace);
	/* Hooks need no test of their own. */
	sl_record_tensor(NULL, 1, 1, NULL, 1);
	sl_record_launch(NULL, 1, 1, NULL, NULL, 0);
	sl_record_copy(NULL, 1, 1, 0, 1, 1);
	sl_record_free(NULL, 1, 1);
}

#define THREADS  4
#define LAUNCHES 200

struct worker {
	pthread_t thread;
	struct sl_record *record;
	uint64_t number;
};

static void *
worker_run(void *arg)
{
	struct worker *worker = arg;
	uint64_t tensor = worker->number * 1000;

	for (uint64_t i = 0; i < LAUNCHES; i++) {
		uint64_t at = 10 + i * THREADS + worker->number;

		sl_record_tensor(worker->record, tensor + i, 64, "t", at);
		launch(worker->record, at, at + 1, tensor + i, SLUICE_USE_WRITE_ALL);
		sl_record_free(worker->record, tensor + i, at + 1);
	}
	return NULL;
}

static void
threads_may_tell_at_once(void **state)
{
	struct worker workers[THREADS];
	struct sl_record *record = record_begin();
	struct sl_trace *trace;

	(void)state;
	for (uint64_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.record = record, .number = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, worker_run,
						&workers[i]),
				 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	trace = record_end(record, 0);
	assert_int_equal(trace->n_launches, THREADS * LAUNCHES);
	for (uint32_t k = 0; k < trace->n_launches; k++) {
		/* In the order of their times, whoever told first. */
		assert_int_equal(trace->uses[k].tensor, k % THREADS * LAUNCHES + k / THREADS);
		assert_int_equal(trace->launches[k].ticks, 1);
	}
	for (uint32_t t = 0; t < trace->n_tensors; t++)
		assert_int_equal(trace->tensors[t].free_at, trace->tensors[t].alloc_at + 1);
	sl_trace_destroy(trace);
}

/* ---- pools ---- */

#define MIB ((uint64_t)1 << 20)

static void
part_launch(struct sl_record *record, uint64_t at, uint64_t offset, uint64_t now)
{
	struct sl_record_use use = {.tensor = at,
				    .offset_bytes = offset,
				    .intent = SLUICE_USE_READ_WRITE,
				    .open = 1};

	sl_record_launch(record, now, now + 1, "kernel", &use, 1);
}

/* The size of the only tensor that launch k uses. */
static uint64_t
used_bytes(const struct sl_trace *trace, uint32_t k)
{
	const struct sl_trace_launch *launch = &trace->launches[k];

	assert_int_equal(launch->n_uses, 1);
	return trace->tensors[trace->uses[launch->first_use].tensor].size_bytes;
}

static void
pool_becomes_its_parts(void **state)
{
	struct sl_record *record = record_begin();
	struct sl_record_use range = {.tensor = 7,
				      .offset_bytes = 3 * MIB,
				      .size_bytes = 2 * MIB,
				      .intent = SLUICE_USE_WRITE_ALL};
	const struct sl_trace_launch *launches;
	struct sl_trace *trace;
	uint64_t now = 1000, bytes = 0;

	(void)state;
	sl_record_tensor(record, 3, 5000, "other", 0);
	sl_record_tensor(record, 7, 16 * MIB, "pool", 0);
	sl_record_copy(record, 7, 1, 0, 2 * MIB, 500); /* a tensor is loaded */
	sl_record_copy(record, 7, 1, MIB, 4096, 501);  /* a part of one */
	for (int i = 0; i < 2; i++, now += 100) {
		part_launch(record, 7, 0, now);            /* 0, 5: to 2 MiB */
		part_launch(record, 7, 2 * MIB, now + 10); /* 1, 6: to 3 MiB */
		part_launch(record, 7, 8 * MIB, now + 20); /* 2, 7: to the end */
		/* Another place at each launch: of what is there. */
		part_launch(record, 7, 9 * MIB + (uint64_t)i * 65536, now + 30); /* 3, 8 */
		part_launch(record, 7, 2 * MIB + 4096, now + 40); /* 4, 9: too small for itself */
	}
	sl_record_launch(record, now, now + 1, "fill", &range, 1); /* 10: 3 to 5 MiB */
	range.size_bytes = MIB;
	sl_record_launch(record, now + 2, now + 3, "fill", &range, 1); /* 11: half of that */
	range = (struct sl_record_use){.tensor = 7, .intent = SLUICE_USE_WRITE_ALL};
	sl_record_launch(record, now + 4, now + 5, "all", &range, 1); /* 12 */
	launch(record, now + 10, now + 11, 3, SLUICE_USE_READ);       /* 13 */
	sl_record_free(record, 7, now + 12);
	launch(record, now + 20, now + 21, 3, SLUICE_USE_READ);
	trace = record_end(record, 0);
	launches = trace->launches;
	/* 0, 2, 3, 4 (the end of half a fill), 5 and 8 MiB. */
	assert_int_equal(trace->n_tensors, 7);
	for (uint32_t t = 0; t < trace->n_tensors; t++) {
		const struct sl_tensor *tensor = &trace->tensors[t];

		bytes += tensor->size_bytes;
		if (tensor->size_bytes == 5000)
			continue;
		assert_string_equal(sl_trace_name(trace, tensor->name), "pool");
		assert_int_equal(tensor->free_at, 14);
	}
	assert_int_equal(bytes, 5000 + 16 * MIB);
	for (uint32_t k = 0; k < 10; k += 5) {
		assert_int_equal(used_bytes(trace, k), 2 * MIB);
		assert_int_equal(used_bytes(trace, k + 1), MIB);
		assert_int_equal(used_bytes(trace, k + 2), 8 * MIB);
		assert_int_equal(used_bytes(trace, k + 3), 8 * MIB);
		assert_int_equal(used_bytes(trace, k + 4), MIB);
	}
	assert_int_equal(launches[10].n_uses, 2);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(trace->uses[launches[10].first_use + i].intent,
				 SLUICE_USE_WRITE_ALL);
	assert_int_equal(launches[11].n_uses, 1);
	assert_int_equal(used_bytes(trace, 11), MIB);
	assert_int_equal(launches[12].n_uses, 6);
	assert_int_equal(trace->n_copies, 2);
	assert_int_equal(trace->copies[0].bytes, 2 * MIB);
	assert_int_equal(trace->copies[1].bytes, 4096);
	assert_int_equal(trace->copies[0].tensor, trace->copies[1].tensor);
	sl_trace_destroy(trace);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(launches_come_out_by_their_time_and_do_not_overlap),
		T(pool_becomes_its_parts),
		T(kinds_follow_from_the_uses),
		T(periods_that_nobody_tells_of_are_found),
		T(an_end_that_does_not_repeat_is_a_period_and_the_others_begin_where_least_is_allocated),
		T(a_period_is_a_trace_of_its_own),
		T(a_time_may_be_told_later),
		T(launches_that_do_not_repeat_are_one_period),
		T(parts_of_tensors_keep_the_rest),
		T(lives_hold_every_use_whenever_they_are_told),
		T(what_finds_no_room_is_counted),
		T(samples_become_ratios),
		T(samples_of_a_pool_are_those_of_its_parts),
		T(nothing_recorded_is_no_trace),
		T(threads_may_tell_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
