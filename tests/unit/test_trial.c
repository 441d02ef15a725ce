/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of two ways is kept, with made-up times: a program of so many scopes an iteration, which take so long
 * with moves ahead and so long without.
 */
#include "preload/trial.h"
#include "unit/cmocka_all.h"

#include "preload/trial.c" /* NOLINT(bugprone-suspicious-include) */

#define MS UINT64_C(1000000)

struct program {
	struct pl_trial trial;
	uint64_t number, now_ns;
	unsigned scopes; /* of an iteration */
	uint64_t ahead_ns, plain_ns;
	unsigned ahead, plain; /* iterations that began so */
};

/* One iteration; its scopes count as predicted unless it is a stray one. */
static void
iterate(struct program *p, int stray)
{
	int first = 1;

	for (unsigned i = 0; i < p->scopes; i++) {
		int ahead = pl_trial_step(&p->trial, p->number++, stray ? 0 : p->scopes,
					  p->now_ns);

		if (first)
			*(ahead ? &p->ahead : &p->plain) += 1;
		first = 0;
		p->now_ns += (ahead ? p->ahead_ns : p->plain_ns) / p->scopes;
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
	run(&p, 3);
	assert_int_equal(p.ahead, 3);
	run(&p, 100);
	assert_in_range(p.plain, 90, 98);
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
	run(&p, 10);
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
	run(&p, 12);
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
		p.scopes = 100 + i % 7 * 10;
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
	run(&p, 5);
	assert_int_not_equal(p.plain, 0);
	assert_true(p.trial.trying);
	for (unsigned i = 0; i < 20; i++)
		iterate(&p, 1);
	assert_false(p.trial.trying);
	assert_false(p.trial.plain);
	/* Another length instead. */
	p = (struct program){.scopes = 100, .ahead_ns = 300 * MS, .plain_ns = 290 * MS};
	run(&p, 5);
	assert_true(p.trial.trying);
	p.scopes = 150;
	p.plain_ns = 10 * MS;
	run(&p, 3);
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
