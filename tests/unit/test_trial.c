/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of two ways is kept, with made-up times: a program of so many scopes an iteration, which take so long
 * with moves ahead and so long without.
 */
#include "base/period.h"
#include "preload/trial.h"
#include "unit/cmocka_all.h"

#include "preload/trial.c" /* NOLINT(bugprone-suspicious-include) */

#define MS  UINT64_C(1000000)
#define LOG 4096u

struct program {
	struct pl_trial trial;
	uint64_t number, now_ns;
	unsigned scopes; /* of an iteration */
	unsigned layer; /* the first half of it are layers of so many scopes, all alike; 0: none are */
	uint64_t ahead_ns, plain_ns;
	uint64_t layers_plain_ns; /* of the half; 0: as the rest */
	unsigned ahead, plain;    /* iterations that began so */
	uint64_t log[LOG];
};

static uint64_t
period(struct program *p)
{
	static uint64_t latest[LOG];
	static uint32_t work[LOG];
	uint32_t n = p->number < LOG ? (uint32_t)p->number : LOG;

	for (size_t i = 0; i < n; i++)
		latest[i] = p->log[(p->number - 1 - i) % LOG];
	if (!p->trial.period)
		return sl_period_find(latest, n, n - n / 2, work);
	if (p->trial.length + p->trial.period > n)
		return 0;
	for (size_t i = 0; i < p->trial.length; i++)
		if (latest[i] != latest[i + p->trial.period])
			return 0;
	return p->trial.period;
}

static uint64_t
scope_ns(const struct program *p, int ahead, int layers)
{
	if (ahead)
		return p->ahead_ns / p->scopes;
	if (!p->layers_plain_ns)
		return p->plain_ns / p->scopes;
	return 2 * (layers ? p->layers_plain_ns : p->plain_ns - p->layers_plain_ns) /
	       p->scopes;
}

/* One iteration; nothing in a stray one was ever seen before. */
static void
iterate(struct program *p, int stray)
{
	for (unsigned i = 0; i < p->scopes; i++) {
		uint64_t number = p->number++;
		int layers = p->layer && i < p->scopes / 2;
		int ahead;

		p->log[number % LOG] = stray    ? 1000000 + number
				       : layers ? i % p->layer
						: i;
		ahead = pl_trial_step(&p->trial, number,
				      pl_trial_asks(&p->trial, number) ? period(p) : 0,
				      p->now_ns);
		if (!i)
			*(ahead ? &p->ahead : &p->plain) += 1;
		p->now_ns += scope_ns(p, ahead, layers);
	}
}

static void
run(struct program *p, unsigned iterations)
{
	p->ahead = p->plain = 0;
	for (unsigned i = 0; i < iterations; i++)
		iterate(p, 0);
}

static void
what_is_faster_is_kept(void **state)
{
	struct program p = {.scopes = 166, .ahead_ns = 400 * MS, .plain_ns = 300 * MS};

	(void)state;
	run(&p, 5);
	assert_int_equal(p.ahead, 5);
	run(&p, 100);
	assert_in_range(p.plain, 90, 99);
	/* Now it is the other way round: that is found out at the next trial. */
	p.ahead_ns = 200 * MS;
	run(&p, 200);
	run(&p, 100);
	assert_in_range(p.ahead, 90, 100);
}

static void
a_slower_way_costs_little(void **state)
{
	struct program p = {.scopes = 100, .ahead_ns = 300 * MS, .plain_ns = 400 * MS};

	(void)state;
	run(&p, 12);
	assert_int_equal(p.plain, 1); /* one iteration has shown it */
	run(&p, 1000);
	assert_in_range(p.plain, 2, 5);
	p.plain_ns = 299 * MS; /* not worth a change */
	run(&p, 1000);
	assert_in_range(p.plain, 1, 9);
}

/* What the first iterations took (host memory was pinned) is not held against moves ahead for long. */
static void
a_bad_start_is_forgotten(void **state)
{
	struct program p = {.scopes = 500, .ahead_ns = 3000 * MS, .plain_ns = 400 * MS};

	(void)state;
	run(&p, 4);
	p.ahead_ns = 300 * MS;
	run(&p, 16);
	run(&p, 10);
	assert_int_equal(p.ahead, 10);
}

static void
what_does_not_repeat_is_not_tried(void **state)
{
	struct program p = {.scopes = 100, .ahead_ns = 300 * MS, .plain_ns = 100 * MS};

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		iterate(&p, 1);
	assert_int_equal(p.plain, 0);
	/* Each iteration of another length. */
	for (unsigned i = 0; i < 100; i++) {
		p.scopes = 100 + i * i % 97 * 10;
		iterate(&p, 0);
	}
	assert_int_equal(p.plain, 0);
	/* Too short to be told from noise. */
	p = (struct program){.scopes = 4, .ahead_ns = 40000, .plain_ns = 20000};
	run(&p, 1000);
	assert_int_equal(p.plain, 0);
}

/* A program that turns to something else in the middle of a trial. */
static void
a_trial_comes_to_an_end(void **state)
{
	struct program p = {.scopes = 100, .ahead_ns = 300 * MS, .plain_ns = 290 * MS};

	(void)state;
	while (!p.trial.trying)
		run(&p, 1);
	assert_true(p.trial.plain);
	for (unsigned i = 0; i < 20; i++)
		iterate(&p, 1);
	assert_false(p.trial.trying);
	assert_false(p.trial.plain);
	/* Another length instead. */
	p = (struct program){.scopes = 100, .ahead_ns = 300 * MS, .plain_ns = 290 * MS};
	while (!p.trial.trying)
		run(&p, 1);
	p.scopes = 150;
	p.plain_ns = 10 * MS;
	run(&p, 7);
	assert_false(p.trial.trying);
	assert_false(p.trial.plain);
}

/* Iterations of few scopes are taken together. */
static void
short_iterations_are_compared_too(void **state)
{
	struct program p = {.scopes = 24, .ahead_ns = 40 * MS, .plain_ns = 30 * MS};

	(void)state;
	run(&p, 300);
	assert_in_range(p.plain, 270, 299);
}

/* What one part of an iteration wins without moves ahead, another loses: the whole of it counts. */
static void
layers_that_are_alike_are_not_iterations(void **state)
{
	struct program p = {.scopes = 960,
			    .layer = 20,
			    .ahead_ns = 1000 * MS,
			    .plain_ns = 1150 * MS,
			    .layers_plain_ns = 300 * MS};

	(void)state;
	run(&p, 9); /* trials of layers, in the first iteration, do not put the first one of iterations off */
	assert_int_equal(p.plain, 1);
	run(&p, 100);
	assert_in_range(p.plain, 1, 4);
	p.plain_ns = 900 * MS;
	run(&p, 300);
	run(&p, 100);
	assert_in_range(p.plain, 60, 100);
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
		cmocka_unit_test(a_slower_way_costs_little),
		cmocka_unit_test(a_bad_start_is_forgotten),
		cmocka_unit_test(what_does_not_repeat_is_not_tried),
		cmocka_unit_test(a_trial_comes_to_an_end),
		cmocka_unit_test(short_iterations_are_compared_too),
		cmocka_unit_test(layers_that_are_alike_are_not_iterations),
		cmocka_unit_test(the_period_is_that_of_the_longest_stretch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
