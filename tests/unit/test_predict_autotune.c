/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the ways is kept, with made-up times: a program of so many scopes an iteration, which take so long in
 * each of them.
 */
#include "base/period.h"
#include "predict/autotune.h"
#include "predict/past.h"
#include "unit/cmocka_all.h"

#include "predict/autotune.c" /* NOLINT(bugprone-suspicious-include) */

#define MS  UINT64_C(1000000)
#define LOG 4096u

struct program {
	struct sl_autotune trial;
	uint64_t number, now_ns;
	unsigned scopes; /* of an iteration */
	uint32_t look;   /* a period is looked for in so many scopes; 0: in all */
	unsigned layer; /* the first half of it are layers of so many scopes, all alike; 0: none are */
	uint64_t ns[SL_STRATEGIES];
	unsigned percent_encoded; /* of that, if more is encoded; 0: it makes no difference */
	uint64_t layers_plain_ns; /* of the half, without moves ahead; 0: as the rest */
	unsigned began[SL_STRATEGIES]; /* iterations that began so */
	unsigned encoded;              /* and with more encoded */
	uint64_t log[LOG];
};

static uint64_t
period(struct program *p)
{
	static uint64_t latest[LOG];
	static uint32_t work[LOG];
	uint32_t n = p->number < LOG ? (uint32_t)p->number : LOG;
	uint64_t length = p->number - 1 - p->trial.begin;

	for (size_t i = 0; i < n; i++)
		latest[i] = p->log[(p->number - 1 - i) % LOG];
	if (!p->trial.period) {
		if (p->look && p->look < n)
			n = p->look;
		return sl_period_find(latest, n, n - n / 2, work);
	}
	if (length + p->trial.period > n)
		return 0;
	for (size_t i = 0; i < length; i++)
		if (latest[i] != latest[i + p->trial.period])
			return 0;
	return p->trial.period;
}

static uint64_t
scope_ns(const struct program *p, struct sl_autotune_way way, int layers)
{
	uint64_t ns = p->ns[way.strategy];

	if (way.encodes_more)
		ns = ns / 100 * p->percent_encoded;
	if (way.strategy != SL_STRATEGY_PLAIN || !p->layers_plain_ns)
		return ns / p->scopes;
	return 2 * (layers ? p->layers_plain_ns : ns - p->layers_plain_ns) / p->scopes;
}

/* One iteration; nothing in a stray one was ever seen before. */
static void
iterate(struct program *p, int stray)
{
	for (unsigned i = 0; i < p->scopes; i++) {
		uint64_t number = p->number++;
		int layers = p->layer && i < p->scopes / 2;
		struct sl_autotune_way way;

		p->log[number % LOG] = stray    ? 1000000 + number
				       : layers ? i % p->layer
						: i;
		p->trial.may_encode_more = p->percent_encoded != 0;
		way = sl_autotune_step(&p->trial, number,
				       sl_autotune_asks(&p->trial, number, p->now_ns)
					       ? period(p)
					       : 0,
				       p->now_ns);
		if (!i) {
			p->began[way.strategy]++;
			p->encoded += way.encodes_more != 0;
		}
		p->now_ns += scope_ns(p, way, layers);
	}
}

static void
run(struct program *p, unsigned iterations)
{
	memset(p->began, 0, sizeof(p->began));
	p->encoded = 0;
	for (unsigned i = 0; i < iterations; i++)
		iterate(p, 0);
}

/* {patient, ahead, plain}, in ms */
#define TAKES(a, b, c)                   \
	{                                \
		(a) * MS, (b)*MS, (c)*MS \
	}

static void
what_is_faster_is_kept(void **state)
{
	struct program p = {.scopes = 166, .ns = TAKES(400, 400, 300)};

	(void)state;
	run(&p, 5);
	assert_int_equal(p.began[SL_STRATEGY_PLAIN], 0);
	run(&p, 100);
	assert_in_range(p.began[SL_STRATEGY_PLAIN], 75, 99);
	/* Now it is the other way round: that is found out at the next trial. */
	p.ns[SL_STRATEGY_AHEAD] = 200 * MS;
	run(&p, 1900);
	run(&p, 100);
	assert_in_range(p.began[SL_STRATEGY_AHEAD], 90, 100);
	p.ns[SL_STRATEGY_PATIENT] = 150 * MS;
	run(&p, 1900);
	run(&p, 100);
	assert_in_range(p.began[SL_STRATEGY_PATIENT], 90, 100);
}

/* That is tried first, and strategies are tried with it and without. */
static void
more_is_encoded_where_that_is_faster(void **state)
{
	struct program p = {.scopes = 166, .ns = TAKES(400, 300, 500), .percent_encoded = 90};

	(void)state;
	run(&p, 12);
	assert_in_range(p.encoded, 4, 8);
	run(&p, 100);
	run(&p, 100);
	assert_in_range(p.encoded, 90, 100);
	assert_in_range(p.began[SL_STRATEGY_AHEAD], 90, 100);
	/* Other data: it takes longer now. */
	p.percent_encoded = 110;
	run(&p, 1900);
	run(&p, 100);
	assert_in_range(p.encoded, 0, 10);
	assert_in_range(p.began[SL_STRATEGY_AHEAD], 90, 100);
}

static void
more_is_not_encoded_where_that_is_slower(void **state)
{
	struct program p = {.scopes = 166, .ns = TAKES(300, 160, 400), .percent_encoded = 104};

	(void)state;
	run(&p, 200);
	assert_in_range(p.encoded, 1, 10);
	run(&p, 100);
	assert_in_range(p.began[SL_STRATEGY_AHEAD], 90, 100);
	assert_in_range(p.encoded, 0, 5);
	/* It made no difference: it was never tried. */
	p = (struct program){.scopes = 166, .ns = TAKES(300, 160, 400)};
	run(&p, 300);
	assert_int_equal(p.encoded, 0);
}

/* The passes of a training step: the first trial finds that they are faster without patience. */
static void
moves_ahead_without_patience_are_tried_first(void **state)
{
	struct program p = {.scopes = 166, .ns = TAKES(300, 160, 400)};

	(void)state;
	run(&p, 12);
	run(&p, 100);
	assert_in_range(p.began[SL_STRATEGY_AHEAD], 90, 100);
	assert_int_equal(p.began[SL_STRATEGY_AHEAD] + p.began[SL_STRATEGY_PATIENT] +
				 p.began[SL_STRATEGY_PLAIN],
			 100);
}

/* A trial costs a part of an iteration, however slow the strategy is. */
static void
lost_trial_ends_within_its_span(void **state)
{
	struct program p = {.scopes = 166, .ns = TAKES(100, 100, 5000)};
	uint64_t longest = 0;

	(void)state;
	for (unsigned i = 0; i < 200; i++) {
		uint64_t before = p.now_ns;

		run(&p, 1);
		if (p.now_ns - before > longest)
			longest = p.now_ns - before;
	}
	/* Thirteen tenths of a span, a scope more, and most of an iteration as before. */
	assert_in_range(longest, 131 * MS, 265 * MS);
	assert_int_equal(p.trial.way.strategy, SL_STRATEGY_PATIENT);
}

/* What was kept for layers was the wrong one for what they are part of: patience is tried before no moves ahead. */
static void
moves_ahead_with_patience_are_tried_before_none(void **state)
{
	struct program p = {.scopes = 70, .ns = TAKES(30, 20, 40)};

	(void)state;
	run(&p, 20);
	assert_int_equal(p.trial.way.strategy, SL_STRATEGY_AHEAD);
	p.scopes = 700;
	p.ns[SL_STRATEGY_PATIENT] = 210 * MS;
	p.ns[SL_STRATEGY_AHEAD] = 250 * MS;
	p.ns[SL_STRATEGY_PLAIN] = 500 * MS;
	run(&p, 14);
	run(&p, 10);
	assert_in_range(p.began[SL_STRATEGY_PATIENT], 9, 10);
}

static void
a_slower_way_costs_little(void **state)
{
	struct program p = {.scopes = 100, .ns = TAKES(300, 340, 400)};

	(void)state;
	run(&p, 30);
	assert_int_equal(p.began[SL_STRATEGY_PLAIN], 1); /* one iteration has shown it */
	run(&p, 1000);
	assert_in_range(p.began[SL_STRATEGY_AHEAD], 1, 10);
	assert_in_range(p.began[SL_STRATEGY_PLAIN], 1, 3);
	p.ns[SL_STRATEGY_PLAIN] = 299 * MS; /* not worth a change */
	run(&p, 1000);
	assert_in_range(p.began[SL_STRATEGY_PLAIN], 0, 9);
}

/* What the first iterations took (host memory was pinned) is not held against moves ahead for long. */
static void
a_bad_start_is_forgotten(void **state)
{
	struct program p = {.scopes = 500, .ns = TAKES(3000, 3000, 400)};

	(void)state;
	run(&p, 4);
	p.ns[SL_STRATEGY_AHEAD] = 300 * MS;
	p.ns[SL_STRATEGY_PATIENT] = 330 * MS;
	run(&p, 60);
	run(&p, 10);
	assert_in_range(p.began[SL_STRATEGY_AHEAD], 9, 10);
}

/* Iterations that become faster by themselves are no measure: another way's would be faster for coming later. */
static void
what_has_not_settled_is_not_compared(void **state)
{
	struct program p = {.scopes = 500, .ns = TAKES(3000, 450, 900)};

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		run(&p, 1);
		assert_int_equal(p.began[SL_STRATEGY_PATIENT], 1);
		p.ns[SL_STRATEGY_PATIENT] = p.ns[SL_STRATEGY_PATIENT] * 4 / 5;
	}
	assert_in_range(p.ns[SL_STRATEGY_PATIENT], 300 * MS, 330 * MS);
	run(&p, 100);
	assert_in_range(p.began[SL_STRATEGY_PATIENT], 94, 98);
	assert_in_range(p.began[SL_STRATEGY_AHEAD], 1, 3); /* when it had */
}

/* What made all iterations slow came to its end when another way was tried: the one before is looked at again at once. */
static void
a_change_is_questioned_at_once(void **state)
{
	struct program p = {.scopes = 500, .ns = TAKES(350, 350, 900)};

	(void)state;
	while (!p.trial.trying)
		run(&p, 1);
	p.ns[SL_STRATEGY_AHEAD] = 250 * MS;
	p.ns[SL_STRATEGY_PATIENT] = 160 * MS;
	while (p.trial.trying)
		run(&p, 1);
	assert_int_equal(p.trial.way.strategy, SL_STRATEGY_AHEAD);
	run(&p, 5);
	assert_int_equal(p.trial.way.strategy, SL_STRATEGY_PATIENT);
	assert_false(p.trial.trying);
}

/* A way that takes more in the iteration in which it comes into its own is not given up for that. */
static void
another_way_may_settle(void **state)
{
	struct program p = {.scopes = 500, .ns = TAKES(300, 370, 900)};

	(void)state;
	while (!p.trial.trying)
		run(&p, 1);
	p.ns[SL_STRATEGY_AHEAD] = 200 * MS;
	run(&p, 5);
	assert_int_equal(p.trial.way.strategy, SL_STRATEGY_AHEAD);
}

/* It waits for room, since it may be a loop over more than there is room for. */
static void
what_does_not_repeat_is_not_tried(void **state)
{
	struct program p = {.scopes = 100, .ns = TAKES(200, 300, 100)};

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		iterate(&p, 1);
	assert_int_equal(p.began[SL_STRATEGY_PATIENT], 100);
	/* Each iteration of another length. */
	for (unsigned i = 0; i < 100; i++) {
		p.scopes = 100 + i * i % 97 * 10;
		iterate(&p, 0);
	}
	assert_int_equal(p.began[SL_STRATEGY_PLAIN], 0);
	/* Too short to be told from noise. */
	p = (struct program){.scopes = 4, .ns = {40000, 60000, 20000}};
	run(&p, 1000);
	assert_int_equal(p.began[SL_STRATEGY_PLAIN], 0);
}

/* A program that turns to something else in the middle of a trial. */
static void
a_trial_comes_to_an_end(void **state)
{
	struct program p = {.scopes = 100, .ns = TAKES(300, 290, 290)};

	(void)state;
	while (!p.trial.trying)
		run(&p, 1);
	assert_int_equal(p.trial.way.strategy, SL_STRATEGY_AHEAD);
	for (unsigned i = 0; i < 20; i++)
		iterate(&p, 1);
	assert_false(p.trial.trying);
	assert_int_equal(p.trial.way.strategy, SL_STRATEGY_PATIENT);
	/* Another length instead. */
	p = (struct program){.scopes = 100, .ns = TAKES(300, 290, 290)};
	while (!p.trial.trying)
		run(&p, 1);
	p.scopes = 150;
	p.ns[SL_STRATEGY_AHEAD] = 10 * MS;
	run(&p, 7);
	assert_false(p.trial.trying);
	assert_int_equal(p.trial.way.strategy, SL_STRATEGY_PATIENT);
}

/* Texts of so many tokens with a prompt before each, which takes as long as four and moves everything. */
static void
run_texts(struct program *p, unsigned texts, unsigned tokens)
{
	uint64_t ns[SL_STRATEGIES];

	memcpy(ns, p->ns, sizeof(ns));
	memset(p->began, 0, sizeof(p->began));
	for (unsigned text = 0; text < texts; text++) {
		for (unsigned i = 0; i < SL_STRATEGIES; i++)
			p->ns[i] = 800 * MS;
		iterate(p, 1);
		memcpy(p->ns, ns, sizeof(ns));
		for (unsigned i = 0; i < tokens; i++)
			iterate(p, 0);
	}
}

/* A prompt in the middle of a trial is not held against what is tried. */
static void
an_interrupted_trial_is_begun_anew(void **state)
{
	(void)state;
	for (unsigned tokens = 14; tokens < 40; tokens++) {
		struct program p = {.scopes = 56, .look = 256, .ns = TAKES(200, 210, 140)};

		run_texts(&p, 6, tokens);
		run_texts(&p, 10, tokens);
		assert_in_range(p.began[SL_STRATEGY_PLAIN], 10 * tokens * 8 / 10,
				10 * tokens + 10);
	}
}

/* Prompts that come too often for whole trials: those cost less and less. */
static void
trials_that_are_always_interrupted_become_rare(void **state)
{
	struct program p = {.scopes = 56, .look = 256, .ns = TAKES(140, 160, 160)};

	(void)state;
	run_texts(&p, 100, 8);
	assert_in_range(p.began[SL_STRATEGY_AHEAD] + p.began[SL_STRATEGY_PLAIN], 1, 50);
}

/* Iterations of few scopes are taken together. */
static void
short_iterations_are_compared_too(void **state)
{
	struct program p = {.scopes = 24, .ns = TAKES(40, 40, 30)};

	(void)state;
	run(&p, 300);
	assert_in_range(p.began[SL_STRATEGY_PLAIN], 200, 299);
}

/* What one part of an iteration wins without moves ahead, another loses: the whole of it counts. */
static void
layers_that_are_alike_are_not_iterations(void **state)
{
	struct program p = {.scopes = 960,
			    .layer = 20,
			    .ns = TAKES(1000, 1100, 1150),
			    .layers_plain_ns = 300 * MS};

	(void)state;
	run(&p, 9); /* trials of layers, in the first iteration, do not put the first one of iterations off */
	assert_in_range(p.began[SL_STRATEGY_PATIENT], 5, 8);
	run(&p, 100);
	assert_in_range(p.began[SL_STRATEGY_PLAIN], 1, 4);
	p.ns[SL_STRATEGY_PLAIN] = 900 * MS;
	run(&p, 400);
	run(&p, 100);
	assert_in_range(p.began[SL_STRATEGY_PLAIN], 60, 100);
}

/* Launches of so many functions in turn; of the last turn, so many run others. 1: that is nearly the same. */
static int
nearly_repeats(uint64_t functions, uint64_t turns, uint64_t others)
{
	struct sl_past *past = calloc(1, sizeof(*past));
	int same;

	assert_non_null(past);
	for (uint64_t i = 0; i < functions * turns; i++)
		sl_past_add(past, i % functions);
	for (uint64_t i = 0; i < functions; i++)
		sl_past_add(past, i < others ? functions + i : i);
	same = sl_past_nearly_repeats(past, functions, functions);
	free(past);
	return same;
}

/* Launches of sequences that grow are a period; a prompt between two texts is not, though it was expected. */
static void
a_span_is_a_period_if_nine_of_ten_launches_run_the_same(void **state)
{
	(void)state;
	assert_int_equal(nearly_repeats(100, 3, 0), 1);
	assert_int_equal(nearly_repeats(100, 3, 10), 1);
	assert_int_equal(nearly_repeats(100, 3, 11), 0);
	assert_int_equal(nearly_repeats(100, 0, 0), 0); /* there was none before */
	assert_int_equal(nearly_repeats(SL_PAST_LAUNCHES / 2, 1, 0), 0); /* it is forgotten */
}

static void
period_of(const char *latest, size_t period)
{
	uint64_t s[64];
	uint32_t work[64];
	uint32_t n = (uint32_t)strlen(latest);

	for (size_t i = 0; i < n; i++)
		s[i] = (unsigned char)latest[i];
	assert_int_equal(sl_period_find(s, n, n - n / 2, work), period);
}

static void
the_period_is_that_of_the_longest_stretch(void **state)
{
	(void)state;
	period_of("", 0);
	period_of("a", 0);
	period_of("aa", 1);
	period_of("ab", 0);
	period_of("abab", 2);
	period_of("ababa", 2);
	period_of("abcabcabcxyz", 3);
	period_of("abcabcxyzuvw", 3);
	period_of("abcabcxyzuvwt", 0); /* less than half */
	period_of("aaaabcaaaabc", 6);  /* layers, and what comes before them */
	period_of("aaaabcaaaabcaaaabc", 6);
	period_of("aaaabcaaaabcaaa", 6);
	period_of("aaaabc", 1); /* it came to nothing else yet */
	period_of("aaabcdefaaabcdef", 8);
	period_of("xababababc", 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_faster_is_kept),
		cmocka_unit_test(more_is_encoded_where_that_is_faster),
		cmocka_unit_test(more_is_not_encoded_where_that_is_slower),
		cmocka_unit_test(moves_ahead_without_patience_are_tried_first),
		cmocka_unit_test(lost_trial_ends_within_its_span),
		cmocka_unit_test(moves_ahead_with_patience_are_tried_before_none),
		cmocka_unit_test(a_slower_way_costs_little),
		cmocka_unit_test(a_bad_start_is_forgotten),
		cmocka_unit_test(what_has_not_settled_is_not_compared),
		cmocka_unit_test(a_change_is_questioned_at_once),
		cmocka_unit_test(another_way_may_settle),
		cmocka_unit_test(what_does_not_repeat_is_not_tried),
		cmocka_unit_test(a_trial_comes_to_an_end),
		cmocka_unit_test(an_interrupted_trial_is_begun_anew),
		cmocka_unit_test(trials_that_are_always_interrupted_become_rare),
		cmocka_unit_test(short_iterations_are_compared_too),
		cmocka_unit_test(layers_that_are_alike_are_not_iterations),
		cmocka_unit_test(a_span_is_a_period_if_nine_of_ten_launches_run_the_same),
		cmocka_unit_test(the_period_is_that_of_the_longest_stretch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
