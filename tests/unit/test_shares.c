/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shares of a GPU's memory: a table of cases that one can follow by hand, and random programs, whose
 * shares keep the promises of share/shares.h and settle.
 */
#include "share/shares.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "unit/cmocka_all.h"

#define NO_LIMIT UINT64_MAX
#define MOST     16u
#define ROUNDING \
	(4u * MOST) /* what cannot be divided by the weights goes to whoever takes it */

static struct sl_turns turns; /* of the last decision */

/* want, has, held, limit, least, weight, idle, suspended, away, padding, turn */
static const struct share_case {
	const char *what;
	uint64_t room;
	struct sl_share_claim claims[4];
	uint64_t shares[4];
} cases[] = {
	{"alone: all there is", 80, {{10, 0, 0, NO_LIMIT, 1, 1, 0, 0, 0, 0, {0}}}, {80}},
	{"alone and idle: all there is", 80, {{10, 0, 0, NO_LIMIT, 1, 1, 1, 0, 0, 0, {0}}}, {80}},
	{"a limit is a bound", 80, {{100, 0, 0, 20, 1, 1, 0, 0, 0, 0, {0}}}, {20}},
	{"both fit: what they want, and half of the rest",
	 80,
	 {{10, 0, 0, NO_LIMIT, 1, 1, 0, 0, 0, 0, {0}},
	  {30, 0, 0, NO_LIMIT, 1, 1, 0, 0, 0, 0, {0}}},
	 {30, 50}},
	{"they do not fit: halves",
	 80,
	 {{50, 0, 0, NO_LIMIT, 1, 1, 0, 0, 0, 0, {0}},
	  {60, 0, 0, NO_LIMIT, 1, 1, 0, 0, 0, 0, {0}}},
	 {40, 40}},
	{"who wants less than its half leaves the rest",
	 80,
	 {{20, 0, 0, NO_LIMIT, 1, 1, 0, 0, 0, 0, {0}},
	  {90, 0, 0, NO_LIMIT, 1, 1, 0, 0, 0, 0, {0}}},
	 {20, 60}},
	{"weights",
	 90,
	 {{90, 0, 0, NO_LIMIT, 0, 2, 0, 0, 0, 0, {0}},
	  {90, 0, 0, NO_LIMIT, 0, 1, 0, 0, 0, 0, {0}}},
	 {60, 30}},
	{"who is idle gives way, down to its least",
	 80,
	 {{50, 80, 50, NO_LIMIT, 2, 1, 1, 0, 0, 0, {0}},
	  {90, 0, 0, NO_LIMIT, 2, 1, 0, 0, 0, 0, {0}}},
	 {2, 78}},
	{"who is idle keeps what nobody wants, and gets nothing spare",
	 80,
	 {{50, 80, 50, NO_LIMIT, 2, 1, 1, 0, 0, 0, {0}},
	  {10, 0, 0, NO_LIMIT, 2, 1, 0, 0, 0, 0, {0}}},
	 {50, 30}},
	{"who is suspended gets its least",
	 80,
	 {{50, 80, 50, NO_LIMIT, 2, 1, 0, 1, 0, 0, {0}},
	  {10, 0, 0, NO_LIMIT, 2, 1, 1, 0, 0, 0, {0}}},
	 {2, 78}},
	{"no room for the least of all",
	 3,
	 {{50, 0, 0, NO_LIMIT, 2, 1, 0, 0, 0, 0, {0}},
	  {50, 0, 0, NO_LIMIT, 2, 1, 0, 0, 0, 0, {0}},
	  {50, 0, 0, NO_LIMIT, 2, 1, 1, 0, 0, 0, {0}}},
	 {1, 1, 1}},
	{"no room at all", 0, {{50, 0, 0, NO_LIMIT, 2, 1, 0, 0, 0, 0, {0}}}, {0}},
	{"who has the turn gets what it wants, the other the rest",
	 80,
	 {{50, 0, 0, NO_LIMIT, 2, 1, 0, 0, 0, 0, {.number = 3, .has = 1}},
	  {60, 0, 0, NO_LIMIT, 2, 1, 0, 0, 0, 0, {.number = 2, .has = 1}}},
	 {50, 30}},
	{"all but the least of the others, if it wants so much",
	 80,
	 {{50, 0, 0, NO_LIMIT, 2, 1, 0, 0, 0, 0, {0}},
	  {90, 0, 0, NO_LIMIT, 2, 1, 0, 0, 0, 0, {.number = 1, .has = 1}},
	  {60, 0, 0, NO_LIMIT, 2, 1, 1, 0, 0, 0, {0}}},
	 {2, 76, 2}},
	{"who wants little runs beside who has the turn",
	 80,
	 {{60, 0, 0, NO_LIMIT, 2, 1, 0, 0, 0, 0, {.number = 1, .has = 1}},
	  {60, 0, 0, NO_LIMIT, 2, 1, 0, 0, 0, 0, {0}},
	  {10, 0, 0, NO_LIMIT, 2, 1, 0, 0, 0, 0, {0}}},
	 {60, 10, 10}},
	{"who does not answer gives way",
	 80,
	 {{50, 50, 50, NO_LIMIT, 2, 1, 0, 0, 1, 0, {.number = 1, .has = 1}},
	  {60, 30, 0, NO_LIMIT, 2, 1, 0, 0, 0, 0, {0}}},
	 {20, 60}},
	{"a limit below the least", 80, {{50, 0, 0, 1, 2, 1, 0, 0, 0, 0, {0}}}, {1}},
};

static size_t
case_size(const struct share_case *c)
{
	size_t n = 0;

	while (n < 4 && c->claims[n].want_bytes)
		n++;
	return n;
}

static void
shares_are_as_in_the_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t n = case_size(&cases[i]);
		uint64_t shares[4];

		sl_shares_decide(cases[i].claims, n, cases[i].room, shares, &turns);
		for (size_t k = 0; k < n; k++)
			if (shares[k] != cases[i].shares[k]) {
				print_error("%s: program %zu gets %" PRIu64
					    ", not %" PRIu64 "\n",
					    cases[i].what, k, shares[k], cases[i].shares[k]);
				fail();
			}
	}
}

static uint64_t
next_of(struct sl_share_claim *claims, size_t n, size_t me, uint64_t room)
{
	uint64_t shares[MOST];

	sl_shares_decide(claims, n, room, shares, &turns);
	return sl_share_next(claims, shares, n, me, room);
}

static void
a_budget_grows_into_room_that_nobody_has(void **state)
{
	struct sl_share_claim c[2] = {{50, 70, 50, NO_LIMIT, 1, 1, 1, 0, 0, 0, {0}},
				      {60, 5, 5, NO_LIMIT, 1, 1, 0, 0, 0, 0, {0}}};
	uint64_t shares[2];

	(void)state;
	assert_int_equal(next_of(c, 2, 1, 80), 10); /* the other still has 70 */
	sl_shares_decide(c, 2, 80, shares, &turns);
	assert_true(sl_share_comes(c, shares, 2, 1, 60)); /* and gives it up */
	assert_false(sl_share_comes(c, shares, 2, 1, 81));
	assert_int_equal(next_of(c, 2, 0, 80), 20);
	c[0].has_bytes = 20;
	assert_int_equal(next_of(c, 2, 1, 80), 60);
	assert_false(sl_share_comes(c, shares, 2, 1, 60)); /* it is there now */
}

static void
spare_room_does_not_wander(void **state)
{
	struct sl_share_claim c[2] = {{10, 70, 10, NO_LIMIT, 1, 1, 0, 0, 0, 0, {0}},
				      {8, 10, 8, NO_LIMIT, 1, 1, 0, 0, 0, 0, {0}}};

	(void)state;
	assert_int_equal(next_of(c, 2, 0, 80), 70); /* the other has all that it wants */
	c[1].want_bytes = 11;
	assert_int_equal(next_of(c, 2, 0, 80), 39);
	c[1].want_bytes = 8;
	assert_int_equal(next_of(c, 2, 0, 60), 31); /* there is less than they have */
}

static void
who_is_stopped_keeps_what_it_holds_and_no_more(void **state)
{
	struct sl_share_claim c[2] = {{10, 70, 30, NO_LIMIT, 1, 1, 0, 0, 1, 0, {0}},
				      {90, 10, 8, NO_LIMIT, 1, 1, 0, 0, 0, 0, {0}}};
	uint64_t shares[2];

	(void)state;
	assert_int_equal(next_of(c, 2, 1, 80), 50);
	c[0].has_bytes = 20; /* it has given up more than it could return to the driver */
	assert_int_equal(next_of(c, 2, 1, 80), 60);
	sl_shares_decide(c, 2, 80, shares, &turns);
	assert_false(sl_share_comes(c, shares, 2, 1, 70)); /* nobody waits for it */
}

/* The least of a program may be more than its share: for want of room, or as it can give no more. */
static void
nobody_waits_for_what_is_the_least_of_another(void **state)
{
	struct sl_share_claim c[3] = {{30, 30, 30, NO_LIMIT, 30, 1, 1, 0, 0, 0, {0}},
				      {30, 30, 30, NO_LIMIT, 30, 1, 1, 0, 0, 0, {0}},
				      {90, 20, 20, NO_LIMIT, 10, 1, 0, 0, 0, 0, {0}}};
	uint64_t shares[3];

	(void)state;
	sl_shares_decide(c, 3, 80, shares, &turns);
	assert_true(shares[0] < 30 && shares[2] > 20);
	assert_false(sl_share_comes(c, shares, 3, 2, shares[2]));
	c[0].has_bytes = 31;
	assert_true(sl_share_comes(c, shares, 3, 2, shares[2]));
}

static void
claims_draw(struct sl_rng *rng, struct sl_share_claim *claims, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct sl_share_claim *c = &claims[i];

		memset(c, 0, sizeof(*c));
		c->want_bytes = sl_rng_below(rng, 4) ? sl_rng_below(rng, 1000) : 0;
		c->limit_bytes = sl_rng_below(rng, 4) ? NO_LIMIT : sl_rng_below(rng, 500);
		c->least_bytes = sl_rng_below(rng, 20);
		c->weight = (uint32_t)sl_rng_below(rng, 4);
		c->is_idle = !sl_rng_below(rng, 3);
		c->is_suspended = !sl_rng_below(rng, 8);
		c->turn.has = !sl_rng_below(rng, 3);
		c->turn.number = sl_rng_below(rng, 10);
	}
}

static uint64_t
least_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What share/shares.h promises. */
static void
promises_check(const struct sl_share_claim *c, const uint64_t *shares, size_t n, uint64_t room)
{
	uint64_t sum = 0;
	int short_of = 0, launching_short = 0, gives[MOST];

	for (size_t i = 0; i < n; i++) {
		gives[i] = c[i].is_idle || (turns.takes[i] && i != turns.holder);
		uint64_t least = least_of(least_of(c[i].least_bytes, c[i].limit_bytes),
					  room / n);
		int lacks = shares[i] < least_of(c[i].want_bytes, c[i].limit_bytes);

		sum += shares[i];
		assert_true(shares[i] <= c[i].limit_bytes);
		assert_true(shares[i] >= least);
		if (c[i].is_suspended)
			assert_int_equal(shares[i], least);
		short_of |= lacks && !c[i].is_suspended;
		launching_short |= lacks && !c[i].is_suspended && !gives[i];
	}
	assert_true(sum <= room);
	for (size_t i = 0; i < n; i++) {
		uint64_t least = least_of(least_of(c[i].least_bytes, c[i].limit_bytes),
					  room / n);
		uint64_t weight = c[i].weight ? c[i].weight : 1;

		/* Nothing spare while somebody lacks memory. */
		if (short_of && shares[i] > least)
			assert_true(shares[i] <= c[i].want_bytes + ROUNDING);
		if (launching_short && gives[i])
			assert_true(shares[i] <= least + ROUNDING);
		/* Of those that may launch each gets its part, or all it can use. */
		if (!gives[i] && !c[i].is_suspended) {
			uint64_t rest = room, weights = 0;

			for (size_t k = 0; k < n; k++) {
				uint64_t base = least_of(least_of(c[k].least_bytes,
								  c[k].limit_bytes),
							 room / n);

				rest -= base;
				if (!gives[k] && !c[k].is_suspended)
					weights += c[k].weight ? c[k].weight : 1;
			}
			assert_true(shares[i] + ROUNDING >=
				    least_of(least_of(c[i].want_bytes, c[i].limit_bytes),
					     least + rest / weights * weight));
		}
	}
}

/* Budgets follow one after the other, and end where nobody who launches and could have more lacks it. */
static void
budgets_settle(struct sl_share_claim *c, size_t n, uint64_t room)
{
	uint64_t shares[MOST], sum;
	int changed = 1;

	sl_shares_decide(c, n, room, shares, &turns);
	for (unsigned rounds = 0; changed; rounds++) {
		assert_true(rounds <= 2 * n + 2);
		changed = 0;
		for (size_t i = 0; i < n; i++) {
			uint64_t next = sl_share_next(c, shares, n, i, room);

			sum = 0;
			for (size_t k = 0; k < n; k++)
				sum += k == i ? next : c[k].has_bytes;
			if (next > c[i].has_bytes)
				assert_true(sum <= room);
			changed |= next != c[i].has_bytes;
			c[i].has_bytes = c[i].held_bytes = next;
		}
	}
	sum = 0;
	for (size_t i = 0; i < n; i++) {
		sum += c[i].has_bytes;
		assert_true(c[i].has_bytes >= least_of(shares[i], c[i].want_bytes));
		assert_true(c[i].has_bytes <= c[i].limit_bytes);
	}
	assert_true(sum <= room);
}

static void
random_programs_get_what_is_promised(void **state)
{
	struct sl_rng rng;
	uint64_t seed = 20261126;

	(void)state;
	print_message("seed %" PRIu64 "\n", seed);
	sl_rng_init(&rng, seed);
	for (int i = 0; i < 200000; i++) {
		struct sl_share_claim claims[MOST];
		uint64_t shares[MOST], room = sl_rng_below(&rng, 3000);
		size_t n = 1 + sl_rng_below(&rng, MOST);

		claims_draw(&rng, claims, n);
		sl_shares_decide(claims, n, room, shares, &turns);
		promises_check(claims, shares, n, room);
		for (size_t k = 0; k < n; k++)
			claims[k].has_bytes = sl_rng_below(&rng, 500);
		budgets_settle(claims, n, room);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_as_in_the_table),
		cmocka_unit_test(a_budget_grows_into_room_that_nobody_has),
		cmocka_unit_test(spare_room_does_not_wander),
		cmocka_unit_test(who_is_stopped_keeps_what_it_holds_and_no_more),
		cmocka_unit_test(nobody_waits_for_what_is_the_least_of_another),
		cmocka_unit_test(random_programs_get_what_is_promised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
