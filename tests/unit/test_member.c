/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two members of one book: where the one that has the turn gives it up, what one that is resumed finds, what one
 * does that can give up nothing, and how much is asked for at once. They are programs that say what the test tells
 * them to. How long the turn has lasted is set by the test. So a busy machine changes nothing: a look that came so
 * late that the turn was over is repeated.
 */
#include "share/member.h"

#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "share_workers.h"
#include "unit/cmocka_all.h"

#define MIB  SHARE_MIB
#define ROOM (256 * MIB)
#define MOST (192 * MIB) /* of each program: both do not fit */
#define LOW  (64 * MIB)  /* what it has between two steps */
#define EIGHTH_NS \
	UINT64_C(125000000) /* of the least turn: what took longer may have ended it */
#define RIPE_EIGHTHS 6u
#define LOOKS_MAX    100000 /* something hangs */

struct program {
	struct sl_member member;
	uint64_t budget, want, launches;
	uint64_t resumed_with; /* its budget when it was let go */
	int error;             /* of giving up memory */
	unsigned stuck;        /* how often it said so */
	uint64_t leaves;       /* when its turn ends: as it was told last */
	bool rests;            /* launches nothing */
};

static struct program programs[2];
static bool book_is_removed;

/* ---- what a program says ---- */

static uint64_t
budget(void *arg)
{
	return ((struct program *)arg)->budget;
}

static uint64_t
want(void *arg)
{
	return ((struct program *)arg)->want;
}

static uint64_t
least(void *arg)
{
	(void)arg;
	return SL_MEMBER_LEAST_CHUNKS * 2 * MIB;
}

static uint64_t
launch(void *arg)
{
	struct program *p = arg;

	return p->launches += !p->rests;
}

static int
yes(void *arg)
{
	(void)arg;
	return 1;
}

static int
works(void *arg)
{
	return !((struct program *)arg)->rests;
}

static void
gate(void *arg, enum sl_member_gate why, int shut)
{
	struct program *p = arg;

	if (why == SL_GATE_SUSPENDED && !shut)
		p->resumed_with = p->budget;
}

static int
grow(void *arg, uint64_t bytes)
{
	((struct program *)arg)->budget = bytes;
	return 0;
}

static int
shrink(void *arg, uint64_t bytes, uint64_t until_ns, uint64_t *got)
{
	struct program *p = arg;

	(void)until_ns;
	if (p->error)
		return p->error;
	p->budget = *got = bytes;
	return 0;
}

static void
count(void *arg, enum sl_member_event event, uint64_t n)
{
	if (event == SL_MEMBER_RIPE)
		((struct program *)arg)->leaves = n;
	assert_true(event != SL_MEMBER_LOST || book_is_removed);
	((struct program *)arg)->stuck += event == SL_MEMBER_STUCK;
}

static const struct sl_member_ops ops = {.held = budget,
					 .want = want,
					 .least = least,
					 .launches = launch,
					 .is_busy = works,
					 .is_done = yes,
					 .waits = yes,
					 .is_settled = yes,
					 .gate = gate,
					 .grow = grow,
					 .shrink = shrink,
					 .count = count};

static void
book_remove(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/book-gpu-test", share_dir);
	assert_int_equal(unlink(path), 0);
	book_is_removed = true;
}

/* ---- turns ---- */

static bool
has_turn(const struct program *p)
{
	return p->member.row.claim.turn.has != 0;
}

/* Both look, until one of them has the turn. */
static struct program *
holder_await(void)
{
	for (int i = 0; i < LOOKS_MAX; i++) {
		struct program *p = &programs[i % 2];

		sl_member_look(&p->member);
		if (has_turn(p))
			return p;
		usleep(1000);
	}
	fail_msg("nobody takes the turn");
	return NULL;
}

static struct program *
other_of(const struct program *p)
{
	return &programs[p == programs];
}

/*
 * The holder looks once, so many eighths of its turn after it began, with so much allocated; the other one
 * waits. Returns whether it has the turn still; -1: the turn was over before it could look, or the other one
 * was not seen to wait.
 */
static int
look_at(struct program *holder, unsigned eighths, uint64_t bytes)
{
	struct sl_member *m = &holder->member;
	uint64_t length;

	sl_member_look(&other_of(holder)->member);
	m->turn.began_ns = sl_now_ns();
	sl_member_look(m); /* finds the length, early in the turn, with what it had before */
	if (!has_turn(holder) || m->turns.holder != m->me || !m->turns.length_ns)
		return -1;
	length = m->turns.length_ns;
	holder->want = bytes;
	m->turn.began_ns = sl_now_ns() - length / 8 * eighths;
	sl_member_look(m);
	if (has_turn(holder) && (sl_now_ns() - m->turn.began_ns >= length ||
				 m->turns.is_ripe != (eighths >= RIPE_EIGHTHS)))
		return -1;
	return has_turn(holder);
}

/*
 * A turn in which the program has had LOW and MOST allocated. Then it has so much at a look, so many eighths of
 * the turn after it began. Returns whether it still has the turn.
 */
static int
turn_play(uint64_t first, unsigned eighths, uint64_t bytes)
{
	for (int i = 0; i < LOOKS_MAX; i++) {
		struct program *holder = holder_await();
		uint64_t began;
		int kept;

		if (look_at(holder, 1, first) != 1 || look_at(holder, 1, MOST) != 1) {
			holder->want = MOST;
			continue;
		}
		began = sl_now_ns();
		kept = look_at(holder, eighths, bytes);
		holder->want = MOST;
		if (kept >= 0 && (kept || eighths >= 8 || sl_now_ns() - began < EIGHTH_NS))
			return kept;
	}
	fail_msg("this machine is too slow for any turn");
	return -1;
}

static void
a_turn_is_given_up_at_the_low_of_allocation(void **state)
{
	(void)state;
	assert_int_equal(turn_play(LOW, 7, MOST), 1); /* in the middle of a step */
	assert_int_equal(turn_play(LOW, 7, LOW + 32 * MIB), 1); /* not low enough */
	assert_int_equal(turn_play(LOW, 7, LOW + 16 * MIB), 0); /* an eighth of the difference */
	assert_int_equal(turn_play(LOW, 7, LOW), 0);
	assert_int_equal(turn_play(LOW, 5, LOW), 1); /* too early */
	assert_int_equal(turn_play(LOW, 7, LOW - 32 * MIB), 0);
}

static void
one_of_even_size_keeps_its_turn_to_the_end(void **state)
{
	(void)state;
	assert_int_equal(turn_play(MOST, 7, MOST), 1);
	assert_int_equal(turn_play(MOST - 32 * MIB, 7, MOST - 32 * MIB),
			 1); /* less than a quarter */
	assert_int_equal(turn_play(MOST, 8, MOST), 0);
	assert_int_equal(turn_play(LOW, 8, MOST), 0);
}

/* Before its turn ends a program is told what will leave: what it has between two steps. */
static void
what_will_leave_is_told_before_the_end(void **state)
{
	struct program *holder;
	int kept;

	(void)state;
	for (int i = 0; i < LOOKS_MAX; i++) {
		programs[0].leaves = programs[1].leaves = 0;
		kept = turn_play(LOW, 5, MOST);
		holder = has_turn(&programs[0]) ? &programs[0] : &programs[1];
		if (kept == 1 && !holder->leaves && look_at(holder, 7, MOST) == 1)
			break;
	}
	assert_int_equal(holder->leaves, LOW);
}

/* The turn goes to the other one, which grows into what the first one gives. */
static void
the_other_one_is_next(void **state)
{
	struct program *first = holder_await(), *then;

	(void)state;
	for (int i = 0; i < LOOKS_MAX && has_turn(first); i++)
		sl_ignore(look_at(first, 8, MOST));
	assert_false(has_turn(first));
	then = holder_await();
	assert_ptr_equal(then, other_of(first));
	for (int i = 0; i < LOOKS_MAX && then->budget < MOST; i++) {
		sl_member_look(&first->member);
		sl_member_look(&then->member);
		then->member.turn.began_ns = sl_now_ns();
	}
	assert_int_equal(then->budget, MOST);
	assert_true(first->budget <= ROOM - MOST);
}

/* ---- orders ---- */

static void
both_ordered(int suspend)
{
	struct sl_book *book;
	struct sl_book_order order;

	assert_int_equal(sl_book_open_existing(NULL, "gpu-test", &book), 0);
	assert_int_equal(sl_book_order_of(book, getpid(), &order), 0);
	order.limit_bytes = UINT64_MAX;
	order.suspend = (uint32_t)suspend;
	order.number++;
	assert_int_equal(sl_book_order_give(book, getpid(), &order), 0);
	sl_book_close(book);
}

static void
both_suspend_to(uint64_t bytes)
{
	both_ordered(1);
	for (int i = 0;
	     i < LOOKS_MAX && (programs[0].budget > bytes || programs[1].budget > bytes); i++)
		sl_member_look(&programs[i % 2].member);
	assert_int_equal(programs[0].budget, bytes);
	assert_int_equal(programs[1].budget, bytes);
}

/* Its launches go on when they find room again. Before, they would take out what they need next. */
static void
who_is_resumed_has_its_room_before_it_goes_on(void **state)
{
	struct program *p = &programs[0];

	(void)state;
	both_suspend_to(least(p));
	both_ordered(0);
	p->resumed_with = 0;
	sl_member_look(&p->member);
	assert_true(p->resumed_with >= MOST);
}

/* It has what it wants, and can give up nothing from now on. Returns its budget. */
static uint64_t
stuck_begin(struct program *p)
{
	both_suspend_to(least(p));
	both_ordered(0);
	for (int i = 0; i < LOOKS_MAX && p->budget < MOST; i++)
		sl_member_look(&p->member);
	p->error = -ENOSPC;
	return p->budget;
}

static void
stuck_end(struct program *p)
{
	p->error = 0;
	p->member.stuck_ns = 0;
	both_suspend_to(least(p));
	both_ordered(0);
	for (int i = 0; i < 4; i++)
		sl_member_look(&programs[i % 2].member);
}

/* Nothing can be moved out. It says so once, and keeps what it has: with room for data to change places. */
static void
who_can_give_no_more_keeps_two_chunks_more(void **state)
{
	struct program *p = &programs[0];
	const struct sl_share_claim *claim = &p->member.row.claim;
	uint64_t before;

	(void)state;
	before = stuck_begin(p);
	both_ordered(1);
	for (int i = 0; i < 3; i++) {
		p->member.stuck_ns = 0; /* as a second later */
		sl_member_look(&p->member);
		assert_int_equal(p->stuck, 1);
		assert_int_equal(p->budget, before + 4 * MIB);
		assert_int_equal(claim->has_bytes, p->budget);
		assert_int_equal(claim->least_bytes, p->budget);
	}
	stuck_end(p);
}

/* There is room on the disk again: the next order is not taken as followed by what it could not give before. */
static void
who_could_give_no_more_tries_again_for_the_next_order(void **state)
{
	struct program *p = &programs[0];
	const struct sl_share_claim *claim = &p->member.row.claim;
	uint64_t before;

	(void)state;
	sl_ignore(stuck_begin(p));
	both_ordered(1);
	sl_member_look(&p->member);
	before = p->budget;
	assert_int_equal(claim->least_bytes, before);
	p->error = 0;
	p->member.stuck_ns = sl_now_ns(); /* it has just tried */
	both_ordered(1);
	sl_member_look(&p->member);
	assert_int_equal(claim->least_bytes, least(p));
	assert_true(p->budget < before);
	stuck_end(p);
}

/* Who has the turn does not wait for what the other one cannot give. */
static void
nobody_waits_for_who_can_give_no_more(void **state)
{
	struct program *p = &programs[0], *stuck = &programs[1];

	(void)state;
	sl_ignore(stuck_begin(stuck));
	for (int i = 0; i < LOOKS_MAX && !(stuck->stuck && has_turn(p)); i++) {
		if (has_turn(stuck)) /* it is over */
			stuck->member.turn.began_ns = 1;
		sl_member_look(&programs[i % 2].member);
	}
	assert_true(stuck->stuck && has_turn(p));
	for (int i = 0; i < LOOKS_MAX && p->member.gates & SL_GATE_ROOM; i++) {
		p->member.turn.began_ns = sl_now_ns();
		stuck->member.stuck_ns = sl_now_ns();  /* it says so all the time */
		p->member.grows.grew_ns = sl_now_ns(); /* it has not waited yet */
		sl_member_look(&stuck->member);
		sl_member_look(&p->member);
	}
	assert_false(p->member.gates & SL_GATE_ROOM);
	assert_true(p->budget < MOST);
	stuck_end(stuck);
}

/* The book is removed, or what it says of the order damaged: the order stands, and the next one is followed. */
static void
an_order_outlives_its_book(void **state)
{
	struct program *p = &programs[0];
	struct sl_book_order none = {.number = 0}, order = {.number = 0};

	(void)state;
	both_suspend_to(least(p));
	assert_int_equal(sl_book_order_keep(p->member.book, &none), 0);
	for (int i = 0; i < LOOKS_MAX && !order.number; i++) {
		sl_member_look(&p->member);
		assert_true(p->member.row.claim.is_suspended);
		assert_int_equal(sl_book_order_read(p->member.book, &order), 0);
	}
	assert_true(order.number && order.suspend);
	book_remove();
	order.number = 0;
	for (int i = 0; i < LOOKS_MAX && !order.number; i++) {
		sl_member_look(&p->member);
		assert_true(p->member.row.claim.is_suspended);
		p->member.rejoined_ns = 0; /* as a second later */
		if (p->member.book && sl_book_order_read(p->member.book, &order))
			order.number = 0; /* it is the old book still */
	}
	assert_true(order.number && order.suspend);
	both_ordered(0);
	sl_member_look(&p->member);
	assert_false(p->member.row.claim.is_suspended);
}

static void
a_crowd_has_no_room_for_the_least_of_each(void **state)
{
	struct program *p = &programs[0];

	(void)state;
	sl_member_look(&p->member);
	assert_int_equal(sl_member_crowd(&p->member), 0);
	p->member.room_bytes = 2 * least(p);
	assert_int_equal(sl_member_crowd(&p->member), 0);
	p->member.room_bytes--;
	assert_int_equal(sl_member_crowd(&p->member), 2);
}

/* The idle one gives way, until the other one has so much. */
static void
asked_for(struct program *p, uint64_t bytes)
{
	struct program *idle = other_of(p);
	struct sl_member_ask ask;

	sl_member_ask_begin(&ask, bytes);
	for (int i = 0; i < LOOKS_MAX && p->budget < bytes; i++) {
		sl_ignore(sl_member_ask(&p->member, &ask));
		sl_member_look(&idle->member);
	}
	assert_true(p->budget >= bytes);
}

/* What an idle one gives up at once is a step more than is asked for, if it is there. */
static void
an_idle_one_is_asked_for_a_step(void **state)
{
	struct program *p = &programs[0], *idle = &programs[1];
	const uint64_t step = 2 * MIB; /* a chunk; ROOM has 128 */

	(void)state;
	p->want = LOW;
	both_suspend_to(least(p));
	p->member.wants = (struct sl_member_peak){0};
	both_ordered(0);
	for (int i = 0; i < LOOKS_MAX && (p->budget != LOW || idle->budget != MOST); i++)
		sl_member_look(&programs[i % 2].member);
	assert_int_equal(idle->budget, MOST);
	idle->rests = true;
	idle->member.settings.idle_ns = 1;
	sl_member_look(&idle->member);
	sl_member_look(&idle->member);
	assert_true(idle->member.row.claim.is_idle);
	assert_int_equal(p->budget, LOW);
	asked_for(p, LOW + step);
	assert_int_equal(p->budget, LOW + 2 * step);
	assert_int_equal(idle->budget, MOST - 2 * step);
	asked_for(p, ROOM - least(idle)); /* all that there is: no step more */
	assert_int_equal(p->member.row.claim.want_bytes, ROOM - least(idle));
	assert_int_equal(idle->budget, least(idle));
}

static int
both_join(void **state)
{
	const struct sl_member_settings settings = {.name = "gpu-test",
						    .limit_bytes = UINT64_MAX,
						    .patience_ns = UINT64_C(20000000000),
						    .total_bytes = ROOM};

	(void)state;
	assert_non_null(mkdtemp(share_dir));
	assert_int_equal(setenv("SLUICE_SHARE_DIR", share_dir, 1), 0);
	for (int i = 0; i < 2; i++) {
		struct program *p = &programs[i];
		uint64_t most;

		p->want = MOST;
		assert_int_equal(sl_member_join(&p->member, &settings, &ops, p, &most), 0);
		p->budget = sl_member_first(&p->member, 2 * MIB);
		sl_member_start(&p->member);
	}
	return 0;
}

static int
both_leave(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		sl_member_leave(&programs[i].member);
	share_dir_remove(share_dir);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_turn_is_given_up_at_the_low_of_allocation),
		cmocka_unit_test(one_of_even_size_keeps_its_turn_to_the_end),
		cmocka_unit_test(what_will_leave_is_told_before_the_end),
		cmocka_unit_test(the_other_one_is_next),
		cmocka_unit_test(who_is_resumed_has_its_room_before_it_goes_on),
		cmocka_unit_test(who_can_give_no_more_keeps_two_chunks_more),
		cmocka_unit_test(who_could_give_no_more_tries_again_for_the_next_order),
		cmocka_unit_test(nobody_waits_for_who_can_give_no_more),
		cmocka_unit_test(a_crowd_has_no_room_for_the_least_of_each),
		cmocka_unit_test(an_idle_one_is_asked_for_a_step),
		cmocka_unit_test(an_order_outlives_its_book), /* the last one: it removes the book */
	};

	return cmocka_run_group_tests(tests, both_join, both_leave);
}
