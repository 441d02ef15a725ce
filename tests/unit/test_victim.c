/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who leaves the device for whom: the table of rules itself, and what it chooses. Eight chunks on
 * the device, used in the order of their numbers: chunk 0 is the coldest.
 */
#include "unit/cmocka_all.h"

#include "core/state/victim.h"
#include "core/timeouts.h"
#include "unit/fake_space.h"

#define CHUNKS 8

static struct fake_space *
device_make(void)
{
	struct fake_space *f = fake_space_make(CHUNKS);

	for (uint64_t i = 0; i < CHUNKS; i++) {
		fake_chunk_place(&f->chunks[i], SL_CHUNK_DEVICE);
		sl_chunk_touch(&f->chunks[i]);
		f->chunks[i].device_bytes = SL_GRANULE_BYTES;
	}
	f->space.dev.used_bytes = f->space.dev.budget_bytes = CHUNKS * SL_GRANULE_BYTES;
	return f;
}

static void
device_free(struct fake_space *f)
{
	free(f->space.early_evict.ring);
	fake_space_free(f);
}

static void
flags_add(struct fake_space *f, int chunk, unsigned flags)
{
	f->chunks[chunk].flags |= (uint16_t)flags;
	sl_chunk_update(&f->chunks[chunk]);
}

/* Number of the victim; -1: none. */
static int
victim_of(struct fake_space *f, enum sl_room_mode mode)
{
	const struct sl_victim_request request = {.mode = mode,
						  .chunk_bytes = SL_GRANULE_BYTES};
	struct sl_victim v = sl_victim_pick(&f->space, &request);

	assert_int_equal(v.mode, mode);
	assert_true(v.chunk || !v.wait);
	return v.chunk ? (int)sl_chunk_index(v.chunk) : -1;
}

/* The step that finds the victim, and whether the requester waits for launches that use it. */
static enum sl_victim_step
step_of(struct fake_space *f, enum sl_room_mode mode, int *wait)
{
	const struct sl_victim_request request = {.mode = mode};
	struct sl_victim v = sl_victim_pick(&f->space, &request);

	*wait = v.wait;
	return v.chunk ? v.step : SL_STEP_END;
}

static int
has_step(enum sl_room_mode mode, enum sl_victim_step step)
{
	for (int i = 0; i < SL_VICTIM_STEPS_MAX; i++) {
		if (sl_victim_rules[mode].steps[i] == step)
			return 1;
	}
	return 0;
}

/* ---- the table ---------------------------------------------------------------------------- */

static void
every_requester_has_a_row_that_ends(void **state)
{
	(void)state;
	for (int m = 0; m < SL_ROOM_MODE_COUNT; m++) {
		const struct sl_victim_rule *rule = &sl_victim_rules[m];

		assert_non_null(rule->asker);
		assert_int_not_equal(rule->steps[0], SL_STEP_END);
		assert_int_equal(rule->steps[SL_VICTIM_STEPS_MAX - 1], SL_STEP_END);
		for (int i = 0; i < SL_VICTIM_STEPS_MAX; i++)
			assert_non_null(sl_victim_step_text(rule->steps[i]));
	}
}

/* Pin rules 2, 3 and 6: who passes over launches in flight, who waits for them, who takes. */
static void
only_a_fault_takes_what_launches_use(void **state)
{
	static const enum sl_victim_step in_use[] = {SL_STEP_EARLY, SL_STEP_DISCARDED,
						     SL_STEP_COLDEST};
	static const enum sl_victim_step takes[] = {SL_STEP_DISCARDED_ANY,
						    SL_STEP_COLDEST_PINNED};

	(void)state;
	for (int m = 0; m < SL_ROOM_MODE_COUNT; m++) {
		const struct sl_victim_rule *rule = &sl_victim_rules[m];
		int waits = rule->in_use == SL_IN_USE_WAIT;

		for (size_t i = 0; i < sizeof(in_use) / sizeof(in_use[0]); i++)
			assert_true(waits || !has_step((enum sl_room_mode)m, in_use[i]));
		for (size_t i = 0; i < sizeof(takes) / sizeof(takes[0]); i++)
			assert_int_equal(has_step((enum sl_room_mode)m, takes[i]),
					 m == SL_ROOM_FAULT);
		assert_int_equal(rule->in_use == SL_IN_USE_TAKE, m == SL_ROOM_FAULT);
		assert_true(!waits || rule->wait_ns);
	}
}

static void
background_work_never_waits(void **state)
{
	static const enum sl_room_mode background[] = {SL_ROOM_PREFETCH, SL_ROOM_SPARE,
						       SL_ROOM_EARLY, SL_ROOM_WRITE_BEHIND};

	(void)state;
	for (size_t i = 0; i < sizeof(background) / sizeof(background[0]); i++) {
		assert_int_equal(sl_victim_rules[background[i]].in_use, SL_IN_USE_PASS);
		assert_int_equal(sl_victim_rules[background[i]].wait_ns, 0);
	}
}

static void
waits_have_the_lengths_of_timeouts_h(void **state)
{
	(void)state;
	assert_true(sl_victim_rules[SL_ROOM_LAUNCH].wait_ns == SL_WAIT_ROOM);
	assert_true(sl_victim_rules[SL_ROOM_PIN].wait_ns == SL_WAIT_ROOM);
	assert_true(sl_victim_rules[SL_ROOM_SHRINK].wait_ns == SL_WAIT_ROOM);
	assert_true(sl_victim_rules[SL_ROOM_FETCH].wait_ns == SL_FETCH_ROOM_NS);
	assert_true(sl_victim_rules[SL_ROOM_INTERPOSED].wait_ns == SL_LEAVE_WAIT_NS);
	assert_true(sl_victim_rules[SL_ROOM_THRASH].wait_ns == SL_LEAVE_WAIT_NS);
}

/* ---- the order ---------------------------------------------------------------------------- */

static void
coldest_goes_first_for_everybody_who_takes_contents_that_live(void **state)
{
	struct fake_space *f = device_make();

	(void)state;
	for (int m = 0; m < SL_ROOM_MODE_COUNT; m++)
		assert_int_equal(victim_of(f, (enum sl_room_mode)m),
				 m == SL_ROOM_SPARE || m == SL_ROOM_EARLY ? -1 : 0);
	device_free(f);
}

static void
discarded_goes_before_the_coldest_and_first_in_first_out(void **state)
{
	struct fake_space *f = device_make();

	(void)state;
	flags_add(f, 5, SL_DISCARDED);
	flags_add(f, 3, SL_DISCARDED);
	for (int m = 0; m < SL_ROOM_MODE_COUNT; m++) {
		int wants = m == SL_ROOM_EARLY ? -1 : m == SL_ROOM_WRITE_BEHIND ? 0 : 5;

		assert_int_equal(victim_of(f, (enum sl_room_mode)m), wants);
	}
	fake_chunk_place(&f->chunks[5], SL_CHUNK_EMPTY);
	assert_int_equal(victim_of(f, SL_ROOM_LAUNCH), 3);
	device_free(f);
}

static void
advised_cold_goes_before_older_chunks(void **state)
{
	struct fake_space *f = device_make();

	(void)state;
	flags_add(f, 6, SL_COLD);
	f->chunks[6].heap_stamp = 0;
	sl_lru_refresh(&f->chunks[6]);
	assert_int_equal(victim_of(f, SL_ROOM_LAUNCH), 6);
	device_free(f);
}

/* ---- pin rules, by their numbers in victim.h ------------------------------------------------ */

static void
rule_1_a_user_pin_hides_a_chunk_from_everybody(void **state)
{
	struct fake_space *f = device_make();

	(void)state;
	f->chunks[0].user_pins = f->chunks[1].user_pins = 1;
	sl_chunk_update(&f->chunks[0]);
	flags_add(f, 1, SL_DISCARDED);
	for (int m = 0; m < SL_ROOM_MODE_COUNT; m++)
		assert_int_equal(victim_of(f, (enum sl_room_mode)m),
				 m == SL_ROOM_SPARE || m == SL_ROOM_EARLY ? -1 : 2);
	device_free(f);
}

static void
rule_2_what_the_next_launch_needs_stays_but_for_a_fault(void **state)
{
	struct fake_space *f = device_make();
	int wait;

	(void)state;
	for (int i = 0; i < CHUNKS; i++)
		flags_add(f, i, SL_PREPARING);
	for (int m = 0; m < SL_ROOM_MODE_COUNT; m++)
		assert_int_equal(victim_of(f, (enum sl_room_mode)m),
				 m == SL_ROOM_FAULT ? 0 : -1);
	assert_int_equal(step_of(f, SL_ROOM_FAULT, &wait), SL_STEP_COLDEST_ANY);
	assert_false(wait);
	/* Others pass over it; a plan leaves the coldest to the launch that it belongs to. */
	f->chunks[4].flags = 0;
	assert_int_equal(victim_of(f, SL_ROOM_LAUNCH), 4);
	assert_int_equal(victim_of(f, SL_ROOM_PLAN), -1);
	device_free(f);
}

static void
rule_3_a_fault_takes_what_a_launch_uses_when_nothing_else_is_left(void **state)
{
	struct fake_space *f = device_make();
	int wait;

	(void)state;
	f->chunks[0].pins = 1;
	assert_int_equal(victim_of(f, SL_ROOM_FAULT), 1);
	f->region.whole_pins = 1; /* a launch uses all of it */
	assert_int_equal(victim_of(f, SL_ROOM_FAULT), 0);
	assert_int_equal(step_of(f, SL_ROOM_FAULT, &wait), SL_STEP_COLDEST_PINNED);
	assert_false(wait);
	device_free(f);
}

/* Discarded behind a launch that still uses it; nothing else is on the device. */
static void
rule_3_a_fault_takes_even_a_discarded_chunk_in_use(void **state)
{
	struct fake_space *f = fake_space_make(1);
	int wait;

	(void)state;
	fake_chunk_place(&f->chunks[0], SL_CHUNK_DEVICE);
	f->chunks[0].pins = 1;
	flags_add(f, 0, SL_DISCARDED);
	assert_int_equal(step_of(f, SL_ROOM_FAULT, &wait), SL_STEP_DISCARDED_ANY);
	assert_int_equal(victim_of(f, SL_ROOM_PREFETCH), -1);
	assert_int_equal(step_of(f, SL_ROOM_LAUNCH, &wait), SL_STEP_DISCARDED);
	assert_true(wait);
	device_free(f);
}

static void
rule_4_a_launch_waits_for_the_coldest_and_takes_no_other(void **state)
{
	static const enum sl_room_mode waits[] = {SL_ROOM_LAUNCH, SL_ROOM_INTERPOSED,
						  SL_ROOM_PIN,    SL_ROOM_PLAN,
						  SL_ROOM_THRASH, SL_ROOM_SHRINK};
	struct fake_space *f = device_make();
	int wait;

	(void)state;
	f->chunks[0].pins = 1;
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		assert_int_equal(victim_of(f, waits[i]), 0);
		(void)step_of(f, waits[i], &wait);
		assert_true(wait);
	}
	device_free(f);
}

static void
rule_5_what_a_scope_holds_is_refreshed_and_passed_over(void **state)
{
	struct fake_space *f = device_make();
	struct sl_launch_use use = {.region = &f->region, .first = 0, .last = 1};
	struct sluice_launch scope = {.space = &f->space, .uses = &use, .n_uses = 1};

	(void)state;
	f->space.scopes = &scope;
	f->chunks[0].pins = f->chunks[1].pins = 1;
	assert_int_equal(victim_of(f, SL_ROOM_LAUNCH), 2);
	assert_true(f->chunks[0].stamp > f->chunks[7].stamp);
	assert_true(f->chunks[1].stamp > f->chunks[0].stamp);
	/* All of it: each is passed over once, and the oldest is waited for after all. */
	use.last = CHUNKS - 1;
	for (int i = 0; i < CHUNKS; i++)
		f->chunks[i].pins = 1;
	assert_int_equal(victim_of(f, SL_ROOM_LAUNCH), 2);
	device_free(f);
}

static void
rule_6_a_fetch_and_background_work_pass_over_what_launches_use(void **state)
{
	static const enum sl_room_mode passes[] = {SL_ROOM_FETCH, SL_ROOM_PREFETCH,
						   SL_ROOM_WRITE_BEHIND};
	struct fake_space *f = device_make();

	(void)state;
	flags_add(f, 2, SL_DISCARDED);
	f->chunks[0].pins = f->chunks[2].pins = 1;
	for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++)
		assert_int_equal(victim_of(f, passes[i]), 1);
	assert_int_equal(victim_of(f, SL_ROOM_SPARE), -1);
	device_free(f);
}

static void
rule_7_a_prefetch_takes_what_another_asked_for_last(void **state)
{
	struct fake_space *f = device_make();
	int wait;

	(void)state;
	for (int i = 0; i < CHUNKS; i++)
		f->chunks[i].awaited = i != 5;
	assert_int_equal(victim_of(f, SL_ROOM_PREFETCH), 5);
	assert_int_equal(victim_of(f, SL_ROOM_LAUNCH), 0);
	f->chunks[5].awaited = 1;
	assert_int_equal(step_of(f, SL_ROOM_PREFETCH, &wait), SL_STEP_COLDEST_UNUSED);
	device_free(f);
}

/* ---- early evictions ------------------------------------------------------------------------ */

static int
is_chunk_4(const struct sl_chunk *c)
{
	return sl_chunk_index(c) == 4;
}

static void
told_to_leave_goes_in_the_order_of_the_requests(void **state)
{
	const struct sl_victim_request not_4 = {.mode = SL_ROOM_EARLY, .not_now = is_chunk_4};
	struct fake_space *f = device_make();
	int wait;

	(void)state;
	assert_true(sl_early_queue_add(&f->chunks[4]));
	assert_true(sl_early_queue_add(&f->chunks[6]));
	assert_int_equal(victim_of(f, SL_ROOM_EARLY), 4);
	assert_int_equal(victim_of(f, SL_ROOM_INTERPOSED), 4);
	assert_int_equal(victim_of(f, SL_ROOM_LAUNCH), 0);
	assert_ptr_equal(sl_victim_pick(&f->space, &not_4).chunk, &f->chunks[6]);
	/* In use: the next one; if all are, the mover passes and a launch waits for the first. */
	f->chunks[4].pins = 1;
	assert_int_equal(victim_of(f, SL_ROOM_EARLY), 6);
	assert_int_equal(victim_of(f, SL_ROOM_INTERPOSED), 6);
	f->chunks[6].pins = 1;
	assert_int_equal(victim_of(f, SL_ROOM_EARLY), -1);
	assert_int_equal(step_of(f, SL_ROOM_INTERPOSED, &wait), SL_STEP_EARLY);
	assert_true(wait);
	assert_int_equal(victim_of(f, SL_ROOM_INTERPOSED), 4);
	/* Pin rule 8: a thread lifts its guard. */
	f->chunks[4].lifting = 1;
	f->chunks[6].pins = 0;
	assert_int_equal(victim_of(f, SL_ROOM_EARLY), 6);
	f->chunks[6].lifting = 1;
	assert_int_equal(victim_of(f, SL_ROOM_EARLY), -1);
	f->chunks[4].lifting = f->chunks[6].lifting = 0;
	/* Used again: it stays. */
	sl_chunk_touch(&f->chunks[4]);
	assert_int_equal(victim_of(f, SL_ROOM_INTERPOSED), 6);
	assert_int_equal(f->chunks[4].leaving, 0);
	assert_int_equal(sl_early_queue_trim(&f->space), 1);
	sl_early_evict_forget(&f->region);
	assert_int_equal(sl_early_queue_trim(&f->space), 0);
	assert_int_equal(victim_of(f, SL_ROOM_INTERPOSED), 0);
	device_free(f);
}

/* ---- limits --------------------------------------------------------------------------------- */

static void
limit_spares_what_was_used_since_but_not_what_is_dead(void **state)
{
	struct fake_space *f = device_make();
	struct sl_victim_request request = {.mode = SL_ROOM_THRASH};

	(void)state;
	request.before = f->chunks[0].stamp + 1;
	assert_ptr_equal(sl_victim_pick(&f->space, &request).chunk, &f->chunks[0]);
	request.before = f->chunks[0].stamp;
	assert_null(sl_victim_pick(&f->space, &request).chunk);
	assert_false(sl_victim_is_colder(&f->space, SL_GRANULE_BYTES, f->chunks[0].stamp));
	assert_true(sl_victim_is_colder(&f->space, SL_GRANULE_BYTES, f->chunks[0].stamp + 1));
	flags_add(f, 7, SL_DISCARDED);
	assert_ptr_equal(sl_victim_pick(&f->space, &request).chunk, &f->chunks[7]);
	device_free(f);
}

static void
spare_room_is_free_or_dead_and_in_no_launchs_use(void **state)
{
	struct fake_space *f = device_make();

	(void)state;
	assert_true(sl_room_spare(&f->space, 0));
	assert_false(sl_room_spare(&f->space, 1));
	flags_add(f, 3, SL_DISCARDED);
	assert_true(sl_room_spare(&f->space, SL_GRANULE_BYTES));
	assert_false(sl_room_spare(&f->space, SL_GRANULE_BYTES + 1));
	f->space.dev.wanted_bytes = 1;
	assert_false(sl_room_spare(&f->space, SL_GRANULE_BYTES));
	f->space.dev.wanted_bytes = 0;
	f->chunks[3].pins = 1;
	assert_false(sl_room_spare(&f->space, 1));
	device_free(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_requester_has_a_row_that_ends),
		T(only_a_fault_takes_what_launches_use),
		T(background_work_never_waits),
		T(waits_have_the_lengths_of_timeouts_h),
		T(coldest_goes_first_for_everybody_who_takes_contents_that_live),
		T(discarded_goes_before_the_coldest_and_first_in_first_out),
		T(advised_cold_goes_before_older_chunks),
		T(rule_1_a_user_pin_hides_a_chunk_from_everybody),
		T(rule_2_what_the_next_launch_needs_stays_but_for_a_fault),
		T(rule_3_a_fault_takes_what_a_launch_uses_when_nothing_else_is_left),
		T(rule_3_a_fault_takes_even_a_discarded_chunk_in_use),
		T(rule_4_a_launch_waits_for_the_coldest_and_takes_no_other),
		T(rule_5_what_a_scope_holds_is_refreshed_and_passed_over),
		T(rule_6_a_fetch_and_background_work_pass_over_what_launches_use),
		T(rule_7_a_prefetch_takes_what_another_asked_for_last),
		T(told_to_leave_goes_in_the_order_of_the_requests),
		T(limit_spares_what_was_used_since_but_not_what_is_dead),
		T(spare_room_is_free_or_dead_and_in_no_launchs_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
