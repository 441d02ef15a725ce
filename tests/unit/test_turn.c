/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns on a GPU: tables of who takes turns, how long and who is next, and programs in virtual time. There
 * at most one program has the turn, nobody waits longer than it is to, and a holder that is stopped or
 * gone holds up nobody.
 */
#include "share/turn.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "share/shares.h"
#include "unit/cmocka_all.h"

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)
#define NOBODY SIZE_MAX
#define MOST   12u
#define LOOK   (10 * MS)

static struct sl_turns turns;
static uint64_t shares[MOST];

static struct sl_share_claim
program(uint64_t want)
{
	return (struct sl_share_claim){.want_bytes = want,
				       .limit_bytes = UINT64_MAX,
				       .least_bytes = 1,
				       .weight = 1,
				       .turn = {.patience_ns = 20 * SECOND}};
}

static void
decide(const struct sl_share_claim *claims, size_t n, uint64_t room)
{
	sl_shares_decide(claims, n, room, shares, &turns);
}

static void
those_that_do_not_fit_take_turns(void **state)
{
	static const struct {
		const char *what;
		uint64_t want[4];
		const char *takes; /* t: takes turns, -: runs */
	} cases[] = {
		{"alone, and too large", {90}, "-"},
		{"both fit", {50, 25}, "--"},
		{"both do not", {50, 31}, "tt"},
		{"the larger one does not, beside the other", {60, 30}, "tt"},
		{"one that fits beside the largest runs", {50, 50, 20}, "tt-"},
		{"the largest of those that do not fit", {65, 11, 20}, "t-t"},
		{"little is never in the way", {79, 8, 8}, "---"},
		{"nobody gains by waiting", {100, 5}, "--"},
		{"three of a kind", {40, 40, 40}, "ttt"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sl_share_claim c[4];
		size_t n = strlen(cases[i].takes);

		for (size_t k = 0; k < n; k++)
			c[k] = program(cases[i].want[k]);
		decide(c, n, 80);
		for (size_t k = 0; k < n; k++)
			if (turns.takes[k] != (cases[i].takes[k] == 't')) {
				print_error("%s: program %zu\n", cases[i].what, k);
				fail();
			}
	}
}

static void
who_is_idle_suspended_or_away_takes_none(void **state)
{
	struct sl_share_claim c[3] = {program(60), program(60), program(60)};

	(void)state;
	c[0].is_idle = 1;
	decide(c, 3, 80);
	assert_int_equal(turns.n, 2);
	c[1].is_suspended = 1;
	decide(c, 3, 80);
	assert_int_equal(turns.n, 0);
	c[0].is_idle = 0;
	decide(c, 3, 80);
	assert_int_equal(turns.n, 2);
	c[2].is_away = 1;
	decide(c, 3, 80);
	assert_int_equal(turns.n, 0);
	assert_true(shares[0] >= 60);
}

static void
the_newest_turn_counts(void **state)
{
	struct sl_share_claim c[3] = {program(60), program(60), program(60)};

	(void)state;
	c[0].turn = (struct sl_turn_claim){.has = 1, .number = 4};
	c[1].turn = (struct sl_turn_claim){.has = 1, .number = 5};
	c[2].turn = (struct sl_turn_claim){.number = 6, .waits_ns = 1};
	decide(c, 3, 80);
	assert_int_equal(turns.holder, 1);
	assert_int_equal(turns.next, NOBODY);
	assert_int_equal(sl_turn_newest(c, 3), 6);
	c[1].is_idle = 1; /* 0 never knew that it has lost it */
	decide(c, 3, 80);
	assert_int_equal(turns.holder, 0);
	c[0].turn.has = 0;
	decide(c, 3, 80);
	assert_int_equal(turns.holder, NOBODY);
	assert_int_equal(turns.next, 2);
}

static void
a_swap_costs_eight_percent_of_a_turn(void **state)
{
	struct sl_share_claim c[2] = {program(60), program(60)};

	(void)state;
	c[0].turn.has = 1;
	c[0].turn.swap_ns = 600 * MS;
	decide(c, 2, 80);
	assert_int_equal(turns.length_ns, 7500 * MS);
	c[0].weight = 2; /* of two parts, as the other has one */
	c[0].turn.swap_ns = 300 * MS;
	decide(c, 2, 80);
	assert_int_equal(turns.length_ns, 7500 * MS);
	c[0].turn.swap_ns = 0;
	decide(c, 2, 80);
	assert_int_equal(turns.length_ns, 2 * SECOND);
}

static void
a_turn_is_no_longer_than_others_wait(void **state)
{
	struct sl_share_claim c[4] = {program(60), program(60), program(60), program(60)};

	(void)state;
	c[0].turn.has = 1;
	c[0].turn.swap_ns = 60 * SECOND;
	c[3].turn.patience_ns = 6 * SECOND;
	decide(c, 4, 80);
	/* four fifths of what 8 passes leave, for three others */
	assert_int_equal(turns.length_ns, (6000 - 8 * 20) * MS * 4 / 5 / 3);
}

static void
who_has_waited_longest_is_next_and_short_work_first(void **state)
{
	struct sl_share_claim c[4] = {program(60), program(60), program(60), program(60)};

	(void)state;
	c[0].turn.number = 7;
	c[1].turn.waits_ns = 5;
	c[2].turn.waits_ns = 9;
	decide(c, 4, 80);
	assert_int_equal(turns.next, 2);
	c[3].turn.waits_ns = 2;
	c[3].turn.is_short = 1;
	decide(c, 4, 80);
	assert_int_equal(turns.next, 3);
	c[0].turn.number = 8; /* after short work another one is first */
	c[0].turn.was_short = 1;
	decide(c, 4, 80);
	assert_int_equal(turns.next, 2);
}

static void
where_turns_begin_who_has_most_goes_first(void **state)
{
	struct sl_share_claim c[3] = {program(60), program(60), program(60)};

	(void)state;
	c[0].turn.waits_ns = 9;
	c[1].held_bytes = 20;
	c[2].held_bytes = 10;
	decide(c, 3, 80);
	assert_int_equal(turns.next, 1);
	c[0].turn.waits_ns = 2 * SECOND; /* it does not take the turn */
	decide(c, 3, 80);
	assert_int_equal(turns.next, 0);
	c[0].turn.waits_ns = 9;
	c[0].turn.number = 1; /* they have begun */
	decide(c, 3, 80);
	assert_int_equal(turns.next, 0);
}

static void
a_turn_is_ripe_before_it_is_over(void **state)
{
	struct sl_share_claim c[2] = {program(60), program(60)};
	uint64_t length;

	(void)state;
	c[0].turn = (struct sl_turn_claim){.has = 1, .number = 1, .swap_ns = 600 * MS};
	c[1].turn.waits_ns = 1;
	decide(c, 2, 80);
	length = turns.length_ns;
	assert_false(turns.is_ripe);
	c[0].turn.had_ns = length - length / 8;
	decide(c, 2, 80);
	assert_true(turns.is_ripe && !turns.is_over);
	c[0].turn.had_ns = length;
	decide(c, 2, 80);
	assert_true(turns.is_ripe && turns.is_over);
	c[1].turn.waits_ns = 0; /* nobody waits */
	decide(c, 2, 80);
	assert_false(turns.is_ripe);
}

static void
short_work_ends_a_turn_early(void **state)
{
	struct sl_share_claim c[2] = {program(60), program(60)};

	(void)state;
	c[0].turn = (struct sl_turn_claim){.has = 1,
					   .number = 1,
					   .swap_ns = 600 * MS,
					   .had_ns = 2 * SECOND};
	c[1].turn.waits_ns = 1;
	decide(c, 2, 80);
	assert_false(turns.is_over);
	c[1].turn.is_short = 1;
	decide(c, 2, 80);
	assert_true(turns.is_over);
	c[0].turn.had_ns = 1 * SECOND; /* not before it has had something */
	decide(c, 2, 80);
	assert_false(turns.is_over);
	c[1].turn.waits_ns = 0; /* nobody waits: it goes on */
	c[0].turn.had_ns = 100 * SECOND;
	decide(c, 2, 80);
	assert_false(turns.is_over);
}

static void
who_does_not_give_it_up_has_lost_it(void **state)
{
	struct sl_share_claim c[2] = {program(60), program(60)};

	(void)state;
	c[0].turn = (struct sl_turn_claim){.has = 1,
					   .number = 1,
					   .swap_ns = 80 * MS,
					   .had_ns = 1500 * MS};
	c[1].turn.waits_ns = 1;
	decide(c, 2, 80);
	assert_true(turns.is_over);
	assert_int_equal(turns.next, NOBODY);
	c[0].turn.had_ns = 2500 * MS;
	decide(c, 2, 80);
	assert_int_equal(turns.next, 1);
}

/* ---- programs in virtual time ---- */

struct runner {
	struct sl_turn_own own;
	uint64_t rests_until, works_until; /* by turns, if its work is short */
	uint64_t stopped_until, seen_away_at;
	uint64_t ran_ns, longest_ns;
	int is_heavy;
};

static struct sl_share_claim claims[MOST];
static struct runner runners[MOST];
static size_t n_runners;

static void
runners_draw(struct sl_rng *rng)
{
	memset(runners, 0, sizeof(runners));
	n_runners = 2 + sl_rng_below(rng, MOST - 1);
	for (size_t i = 0; i < n_runners; i++) {
		claims[i] = program(400 + sl_rng_below(rng, 700));
		claims[i].weight = 1 + (uint32_t)sl_rng_below(rng, 3);
		claims[i].turn.swap_ns = sl_rng_below(rng, 2000) * MS;
		claims[i].turn.patience_ns = (10 + sl_rng_below(rng, 50)) * SECOND;
		runners[i].is_heavy = i < 2 || sl_rng_below(rng, 2);
	}
}

static uint64_t
least_patience(void)
{
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < n_runners; i++)
		if (claims[i].turn.patience_ns < least)
			least = claims[i].turn.patience_ns;
	return least;
}

/* One look of a program, as preload/share.c makes it. */
static void
runner_look(size_t i, uint64_t now, struct sl_rng *rng)
{
	struct sl_share_claim *c = &claims[i];
	struct runner *r = &runners[i];
	int waiting;

	if (!r->is_heavy && now >= r->works_until && now >= r->rests_until) {
		if (!c->is_idle) {
			r->rests_until = now + sl_rng_below(rng, 3000) * MS;
			c->is_idle = 1;
		} else {
			c->is_idle = 0;
			r->works_until = now + sl_rng_below(rng, 400) * MS;
		}
	}
	decide(claims, n_runners, 1000);
	waiting = turns.takes[i] && turns.holder != i;
	if (waiting && !r->is_heavy)
		r->works_until += LOOK;
	sl_turn_look(&r->own, c, waiting, now);
	if (c->turn.waits_ns > r->longest_ns)
		r->longest_ns = c->turn.waits_ns;
	decide(claims, n_runners, 1000);
	if (c->turn.has && (turns.holder != i || turns.is_over)) {
		sl_turn_give_up(&r->own, c);
	} else if (turns.next == i) {
		sl_turn_take(&r->own, c, sl_turn_newest(claims, n_runners), now);
		decide(claims, n_runners, 1000);
		assert_int_equal(turns.holder, i);
	}
	if (turns.holder == i)
		r->ran_ns += LOOK;
}

static void
nobody_waits_longer_than_it_is_to(void **state)
{
	struct sl_rng rng;
	uint64_t seed = 20261126;

	(void)state;
	print_message("seed %" PRIu64 "\n", seed);
	sl_rng_init(&rng, seed);
	for (int round = 0; round < 10; round++) {
		runners_draw(&rng);
		for (uint64_t now = SECOND; now < 121 * SECOND; now += LOOK)
			for (size_t i = 0; i < n_runners; i++)
				runner_look(i, now + i, &rng);
		for (size_t i = 0; i < n_runners; i++) {
			if (runners[i].longest_ns > least_patience()) {
				print_error("round %d: program %zu of %zu waited %" PRIu64
					    " ms of %" PRIu64 "\n",
					    round, i, n_runners, runners[i].longest_ns / MS,
					    least_patience() / MS);
				fail();
			}
			if (turns.n == n_runners)
				assert_true(runners[i].ran_ns);
		}
	}
}

/* Some are stopped for a while, at any instant; others see it a second later. Some of them are killed. */
static void
who_is_stopped_or_killed_holds_up_nobody(void **state)
{
	struct sl_rng rng;
	uint64_t seed = 20261127, without = 0, longest = 0;

	(void)state;
	print_message("seed %" PRIu64 "\n", seed);
	sl_rng_init(&rng, seed);
	for (int round = 0; round < 6; round++) {
		runners_draw(&rng);
		for (uint64_t now = SECOND; now < 121 * SECOND; now += LOOK) {
			int waits = 0;

			for (size_t i = 0; i < n_runners; i++) {
				struct runner *r = &runners[i];

				if (now < r->stopped_until) {
					claims[i].is_away = now >= r->seen_away_at;
					continue;
				}
				claims[i].is_away = 0;
				runner_look(i, now + i, &rng);
				if (!sl_rng_below(&rng, 4000)) {
					r->stopped_until = now +
							   sl_rng_below(&rng, 9) * SECOND;
					r->seen_away_at = now + SECOND;
				} else if (!sl_rng_below(&rng, 4000)) { /* another one in its place */
					claims[i].turn.number = claims[i].turn.has = 0;
					r->own = (struct sl_turn_own){0};
				}
			}
			decide(claims, n_runners, 1000);
			for (size_t i = 0; i < n_runners; i++)
				waits |= claims[i].turn.waits_ns && !claims[i].is_away &&
					 now >= runners[i].stopped_until;
			/* The turn is with one who runs, or will be soon. */
			if (!waits || (turns.holder != NOBODY &&
				       now >= runners[turns.holder].stopped_until))
				without = 0;
			else
				without += LOOK;
			if (without > longest)
				longest = without;
		}
	}
	print_message("at most %" PRIu64 " ms without anybody's turn\n", longest / MS);
	assert_true(longest >= 900 * MS && longest <= 2 * SECOND);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_that_do_not_fit_take_turns),
		cmocka_unit_test(who_is_idle_suspended_or_away_takes_none),
		cmocka_unit_test(the_newest_turn_counts),
		cmocka_unit_test(a_swap_costs_eight_percent_of_a_turn),
		cmocka_unit_test(a_turn_is_no_longer_than_others_wait),
		cmocka_unit_test(who_has_waited_longest_is_next_and_short_work_first),
		cmocka_unit_test(where_turns_begin_who_has_most_goes_first),
		cmocka_unit_test(a_turn_is_ripe_before_it_is_over),
		cmocka_unit_test(short_work_ends_a_turn_early),
		cmocka_unit_test(who_does_not_give_it_up_has_lost_it),
		cmocka_unit_test(nobody_waits_longer_than_it_is_to),
		cmocka_unit_test(who_is_stopped_or_killed_holds_up_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
