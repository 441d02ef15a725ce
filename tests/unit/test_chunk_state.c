/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of moves between chunk states: every pair against a matrix written by hand, and what
 * sl_chunk_set_state() does with each. docs/design/states.md is compared with the table by
 * tests/cli/test_docs.sh.
 */
#include "unit/cmocka_all.h"

#include "core/state/state.h"
#include "unit/fake_space.h"

/* Row: from, column: to, in the order of the enum. x: legal. */
static const char *const matrix[SL_CHUNK_STATE_COUNT] = {
	/*             E S R H W F D Y V I P */
	/* EMPTY    */ "-----x---x-",
	/* STORE    */ "x-x--x-----",
	/* READING  */ "-x-x-------",
	/* HOST     */ "xx--xx---x-",
	/* WRITING  */ "-x-x------x",
	/* FILLING  */ "xx-x--x---x",
	/* DEVICE   */ "-------xx--",
	/* SYNCING  */ "------x----",
	/* EVICTING */ "xx-x--x----",
	/* MAPPING  */ "x--x------x",
	/* POISONED */ "x---xx---x-",
};

static void
every_pair_is_legal_or_not_as_the_matrix_says(void **state)
{
	(void)state;
	for (int from = 0; from < SL_CHUNK_STATE_COUNT; from++) {
		for (int to = 0; to < SL_CHUNK_STATE_COUNT; to++) {
			int wanted = matrix[from][to] == 'x';

			if (sl_chunk_move_legal((enum sl_chunk_state)from,
						(enum sl_chunk_state)to) != wanted)
				fail_msg("%s -> %s should be %s",
					 sl_chunk_state_name((enum sl_chunk_state)from),
					 sl_chunk_state_name((enum sl_chunk_state)to),
					 wanted ? "legal" : "illegal");
		}
	}
}

static void
every_legal_move_has_a_maker(void **state)
{
	int n = 0;

	(void)state;
	for (int from = 0; from < SL_CHUNK_STATE_COUNT; from++) {
		for (int to = 0; to < SL_CHUNK_STATE_COUNT; to++) {
			const char *by = sl_chunk_move_by((enum sl_chunk_state)from,
							  (enum sl_chunk_state)to);

			assert_int_equal(by != NULL, matrix[from][to] == 'x');
			if (by)
				assert_true(*by);
			n += by != NULL;
		}
	}
	assert_int_equal(n, 34);
}

static void
every_state_can_be_reached_and_left(void **state)
{
	(void)state;
	for (int i = 0; i < SL_CHUNK_STATE_COUNT; i++) {
		int in = 0, out = 0;

		for (int k = 0; k < SL_CHUNK_STATE_COUNT; k++) {
			in += matrix[k][i] == 'x';
			out += matrix[i][k] == 'x';
		}
		assert_true(in > 0);
		assert_true(out > 0);
	}
}

static void
names_are_known_for_states_and_for_nothing_else(void **state)
{
	(void)state;
	assert_string_equal(sl_chunk_state_name(SL_CHUNK_EMPTY), "EMPTY");
	assert_string_equal(sl_chunk_state_name(SL_CHUNK_POISONED), "POISONED");
	assert_string_equal(sl_chunk_state_name(SL_CHUNK_STATE_COUNT), "?");
	assert_null(sl_chunk_move_by(SL_CHUNK_STATE_COUNT, SL_CHUNK_EMPTY));
	assert_null(sl_chunk_move_by(SL_CHUNK_EMPTY, (enum sl_chunk_state) - 1));
	assert_int_equal(sl_chunk_move_legal((enum sl_chunk_state)99, SL_CHUNK_EMPTY), 0);
}

static void
legal_move_changes_the_state_and_the_lists_that_follow_from_it(void **state)
{
	struct fake_space *f = fake_space_make(1);
	struct sl_chunk *c = &f->chunks[0];

	(void)state;
	for (int from = 0; from < SL_CHUNK_STATE_COUNT; from++) {
		for (int to = 0; to < SL_CHUNK_STATE_COUNT; to++) {
			if (matrix[from][to] != 'x')
				continue;
			fake_chunk_place(c, (enum sl_chunk_state)from);
			sl_chunk_set_state(c, (enum sl_chunk_state)to);
			assert_int_equal(c->state, to);
			assert_int_equal(c->heap_slot != SL_HEAP_NONE, to == SL_CHUNK_DEVICE);
			assert_int_equal(f->space.dev.heap_n, to == SL_CHUNK_DEVICE);
			assert_int_equal(c->readiness, to == SL_CHUNK_DEVICE ? SL_READY_READ
									     : SL_READY_NOT);
			assert_int_equal(f->region.ready[c->readiness], 1);
		}
	}
	fake_chunk_place(c, SL_CHUNK_EMPTY);
	fake_space_free(f);
}

struct pair {
	int from, to;
};

#ifndef SL_LOCK_CHECK
/* In a child: the release build's message goes to its standard error, and 0 is what it should be. */
static void
pair_is_refused(void *arg)
{
	const struct pair *pair = arg;
	struct fake_space *f = fake_space_make(2);
	struct sl_chunk *c = &f->chunks[0];
	char text[64];

	snprintf(text, sizeof(text), "%s -> %s",
		 sl_chunk_state_name((enum sl_chunk_state)pair->from),
		 sl_chunk_state_name((enum sl_chunk_state)pair->to));
	fake_chunk_place(c, (enum sl_chunk_state)pair->from);
	sl_chunk_set_state(c, (enum sl_chunk_state)pair->to);
	if (c->state != pair->from || f->region.write_error != -EIO ||
	    !strstr(f->region.write_error_text, text) || !strstr(f->space.broken_text, text))
		_exit(1);
	/* The first one stays named; a legal move is made as ever. */
	sl_chunk_set_state(c, (enum sl_chunk_state)pair->from);
	sl_chunk_set_state(&f->chunks[1], SL_CHUNK_FILLING);
	if (f->chunks[1].state != SL_CHUNK_FILLING || !strstr(f->space.broken_text, text))
		_exit(2);
	/* The check says so before it looks at anything else. */
	sl_mutex_init(&f->space.lock, SL_RANK_SPACE);
	if (sluice_space_check(&f->space) != -EINVAL || !strstr(sluice_last_error(), text))
		_exit(3);
	_exit(0);
}

static void
illegal_move_is_refused_and_named(void **state)
{
	(void)state;
	for (int from = 0; from < SL_CHUNK_STATE_COUNT; from++) {
		for (int to = 0; to < SL_CHUNK_STATE_COUNT; to++) {
			struct pair pair = {from, to};
			struct child_result result;

			if (matrix[from][to] == 'x')
				continue;
			result = child_run(pair_is_refused, &pair);
			assert_int_equal(result.signal, 0);
			assert_int_equal(result.exit_status, 0);
			assert_non_null(strstr(result.stderr_text, "illegal move"));
		}
	}
}

#else
static void
pair_move(void *arg)
{
	const struct pair *pair = arg;
	struct fake_space *f = fake_space_make(1);

	fake_chunk_place(&f->chunks[0], (enum sl_chunk_state)pair->from);
	sl_chunk_set_state(&f->chunks[0], (enum sl_chunk_state)pair->to);
}

static void
illegal_move_ends_the_program_and_says_which_it_was(void **state)
{
	(void)state;
	for (int from = 0; from < SL_CHUNK_STATE_COUNT; from++) {
		for (int to = 0; to < SL_CHUNK_STATE_COUNT; to++) {
			struct pair pair = {from, to};
			struct child_result result;
			char text[64];

			if (matrix[from][to] == 'x')
				continue;
			result = child_run(pair_move, &pair);
			snprintf(text, sizeof(text), "%s -> %s",
				 sl_chunk_state_name((enum sl_chunk_state)from),
				 sl_chunk_state_name((enum sl_chunk_state)to));
			assert_int_equal(result.signal, SIGABRT);
			assert_non_null(strstr(result.stderr_text, text));
		}
	}
}
#endif

static void
readiness_follows_from_flags(void **state)
{
	struct fake_space *f = fake_space_make(1);
	struct sl_chunk *c = &f->chunks[0];
	uint64_t dead = 1;

	(void)state;
	fake_chunk_place(c, SL_CHUNK_DEVICE);
	c->flags = SL_DIRTY_DEVICE;
	sl_chunk_update(c);
	assert_int_equal(c->readiness, SL_READY_WRITE);
	c->flags = SL_DIRTY_DEVICE | SL_GUARDED; /* the first write must be seen */
	sl_chunk_update(c);
	assert_int_equal(c->readiness, SL_READY_READ);
	c->flags = SL_DIRTY_DEVICE | SL_DISCARDED; /* a write must revive it */
	sl_chunk_update(c);
	assert_int_equal(c->readiness, SL_READY_NOT);
	assert_null(sl_lru_coldest(&f->space, SL_SKIP_NOTHING));
	assert_ptr_equal(f->space.dev.discarded_head, c);
	c->flags = SL_DIRTY_DEVICE;
	c->dead = &dead; /* a write must make its pages live */
	sl_chunk_update(c);
	assert_int_equal(c->readiness, SL_READY_READ);
	assert_null(f->space.dev.discarded_head);
	c->dead = NULL;
	c->user_pins = 1; /* a user's pin takes it out of the victims */
	sl_chunk_update(c);
	assert_int_equal(c->readiness, SL_READY_WRITE);
	assert_int_equal(c->heap_slot, SL_HEAP_NONE);
	c->user_pins = 0;
	sl_chunk_update(c);
	fake_chunk_place(c, SL_CHUNK_EMPTY);
	fake_space_free(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(every_pair_is_legal_or_not_as_the_matrix_says),
		T(every_legal_move_has_a_maker),
		T(every_state_can_be_reached_and_left),
		T(names_are_known_for_states_and_for_nothing_else),
		T(legal_move_changes_the_state_and_the_lists_that_follow_from_it),
#ifdef SL_LOCK_CHECK
		T(illegal_move_ends_the_program_and_says_which_it_was),
#else
		T(illegal_move_is_refused_and_named),
#endif
		T(readiness_follows_from_flags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
