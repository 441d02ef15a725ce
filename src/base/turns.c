/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that take turns on a virtual clock.
 *
 * Each thread has a place in its clock's list, and a condition to sleep on until its turn. A
 * thread that gives up its turn chooses the next one: the thread that has been able to run for
 * longest. If none can run, the clock jumps to the earliest awaited moment. `order` numbers the
 * waits and the moments at which threads became able to run, so there are no ties.
 *
 * These are plain pthread objects, since sl_mutex and sl_cond are built on this file. A clock
 * has few threads, and its list is walked.
 */
#include "base/turns.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum turn_state { TURN_READY, TURN_RUNNING, TURN_WAITING, TURN_OVER };

struct clock;

struct turn {
	struct clock *clock; /* set once */
	struct turn *next;
	pthread_t thread;
	pthread_cond_t go; /* state became RUNNING */
	enum turn_state state;
	uint64_t order; /* since when it is READY, or WAITING */
	uint64_t until; /* WAITING: the moment it waits for at most */
	const void *what; /* WAITING: for a condition, or the end of a turn; NULL: for the moment */
	int timed_out;
	void *(*main)(void *);
	void *arg;
};

struct clock {
	pthread_mutex_t lock; /* all below, and the turns */
	struct turn *first;
	uint64_t now, order;
	uint64_t ticks_hz; /* set once */
};

_Atomic uint32_t sl_turns_threads;

static _Thread_local struct turn *mine;

int
sl_turns_mine(void)
{
	return mine != NULL;
}

static void
must_be_zero(int rc)
{
	assert(rc == 0);
	(void)rc;
}

__attribute__((noreturn)) static void
clock_stopped(const struct clock *clock)
{
	fprintf(stderr, "sluice: virtual time: at tick %llu all threads wait for each other:",
		(unsigned long long)clock->now);
	for (const struct turn *t = clock->first; t; t = t->next)
		if (t->state == TURN_WAITING)
			fprintf(stderr, " %p", t->what);
	fprintf(stderr, "\n");
	abort();
}

static void
turn_ready(struct turn *t, int timed_out)
{
	t->state = TURN_READY;
	t->order = ++t->clock->order;
	t->timed_out = timed_out;
	t->what = NULL;
}

/* Let the next thread run. The calling one is not running any more. Under the lock. */
static void
turn_pass(struct clock *clock)
{
	struct turn *next = NULL;

	for (struct turn *t = clock->first; t; t = t->next)
		if (t->state == TURN_READY && (!next || t->order < next->order))
			next = t;
	if (!next) {
		for (struct turn *t = clock->first; t; t = t->next)
			if (t->state == TURN_WAITING && t->until != SL_TURNS_NEVER &&
			    (!next || t->until < next->until ||
			     (t->until == next->until && t->order < next->order)))
				next = t;
		if (!next)
			clock_stopped(clock);
		if (next->until > clock->now)
			clock->now = next->until;
		turn_ready(next, 1);
	}
	next->state = TURN_RUNNING;
	must_be_zero(pthread_cond_signal(&next->go));
}

static void
turn_await(struct turn *t)
{
	while (t->state != TURN_RUNNING)
		must_be_zero(pthread_cond_wait(&t->go, &t->clock->lock));
}

/* Wait for what, or the moment; m is given up meanwhile. 1: the moment came. */
static int
turn_wait(const void *what, uint64_t until, pthread_mutex_t *m)
{
	struct turn *t = mine;
	struct clock *clock = t->clock;
	int timed_out;

	must_be_zero(pthread_mutex_lock(&clock->lock));
	t->state = TURN_WAITING;
	t->order = ++clock->order;
	t->what = what;
	t->until = until;
	if (m)
		must_be_zero(pthread_mutex_unlock(m));
	turn_pass(clock);
	turn_await(t);
	timed_out = t->timed_out;
	must_be_zero(pthread_mutex_unlock(&clock->lock));
	if (m)
		must_be_zero(pthread_mutex_lock(m));
	return timed_out;
}

int
sl_turns_wait(struct sl_cond *c, struct sl_mutex *m, uint64_t deadline_tick)
{
	return turn_wait(c, deadline_tick, &m->mutex) ? -ETIMEDOUT : 0;
}

int
sl_turns_wait_ns(struct sl_cond *c, struct sl_mutex *m, uint64_t deadline_ns)
{
	unsigned __int128 ticks = (unsigned __int128)deadline_ns * mine->clock->ticks_hz;

	/* Rounded up: the deadline has come when the clock says so. */
	ticks = (ticks + 999999999u) / 1000000000u;
	return turn_wait(c, ticks < SL_TURNS_NEVER ? (uint64_t)ticks : SL_TURNS_NEVER,
			 &m->mutex)
		       ? -ETIMEDOUT
		       : 0;
}

/* Under the lock. */
static struct turn *
waiter_find(const struct clock *clock, const void *what)
{
	struct turn *first = NULL;

	for (struct turn *t = clock->first; t; t = t->next)
		if (t->state == TURN_WAITING && t->what == what &&
		    (!first || t->order < first->order))
			first = t;
	return first;
}

/* Under the lock. */
static void
waiters_wake(const struct clock *clock, const void *what, int all)
{
	struct turn *t = waiter_find(clock, what);

	while (t) {
		turn_ready(t, 0);
		t = all ? waiter_find(clock, what) : NULL;
	}
}

void
sl_turns_wake(struct sl_cond *c, int all)
{
	struct clock *clock = mine->clock;

	must_be_zero(pthread_mutex_lock(&clock->lock));
	waiters_wake(clock, c, all);
	must_be_zero(pthread_mutex_unlock(&clock->lock));
}

uint64_t
sl_turns_now(void)
{
	return mine->clock->now; /* it only changes between turns */
}

uint64_t
sl_turns_now_ns(void)
{
	const struct clock *clock = mine->clock;

	return (uint64_t)((unsigned __int128)clock->now * 1000000000u / clock->ticks_hz);
}

void
sl_turns_sleep_until(uint64_t tick)
{
	if (tick > mine->clock->now)
		(void)turn_wait(NULL, tick, NULL);
}

static struct turn *
turn_create(struct clock *clock, enum turn_state state)
{
	struct turn *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->clock = clock;
	t->state = state;
	t->order = ++clock->order;
	must_be_zero(pthread_cond_init(&t->go, NULL));
	t->next = clock->first;
	clock->first = t;
	atomic_fetch_add(&sl_turns_threads, 1);
	return t;
}

static void
turn_destroy(struct turn *t)
{
	struct turn **at = &t->clock->first;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	must_be_zero(pthread_cond_destroy(&t->go));
	free(t);
	atomic_fetch_sub(&sl_turns_threads, 1);
}

int
sl_turns_begin(uint64_t ticks_hz)
{
	struct clock *clock;

	assert(!mine && ticks_hz > 0);
	clock = calloc(1, sizeof(*clock));
	if (!clock)
		return sl_fail(-ENOMEM, "virtual time: out of memory");
	clock->ticks_hz = ticks_hz;
	must_be_zero(pthread_mutex_init(&clock->lock, NULL));
	mine = turn_create(clock, TURN_RUNNING);
	if (!mine) {
		must_be_zero(pthread_mutex_destroy(&clock->lock));
		free(clock);
		return sl_fail(-ENOMEM, "virtual time: out of memory");
	}
	return 0;
}

void
sl_turns_end(void)
{
	struct clock *clock = mine->clock;

	assert(clock->first == mine && !mine->next);
	turn_destroy(mine);
	mine = NULL;
	must_be_zero(pthread_mutex_destroy(&clock->lock));
	free(clock);
}

static void *
thread_main(void *arg)
{
	struct turn *t = arg;
	struct clock *clock = t->clock;
	void *result;

	mine = t;
	must_be_zero(pthread_mutex_lock(&clock->lock));
	turn_await(t);
	must_be_zero(pthread_mutex_unlock(&clock->lock));

	result = t->main(t->arg);

	must_be_zero(pthread_mutex_lock(&clock->lock));
	t->state = TURN_OVER;
	waiters_wake(clock, t, 1);
	turn_pass(clock);
	must_be_zero(pthread_mutex_unlock(&clock->lock));
	mine = NULL;
	return result;
}

int
sl_thread_start(pthread_t *thread, void *(*main)(void *), void *arg)
{
	struct clock *clock;
	struct turn *t;
	int rc;

	if (!sl_turns_on())
		return pthread_create(thread, NULL, main, arg);
	clock = mine->clock;
	must_be_zero(pthread_mutex_lock(&clock->lock));
	t = turn_create(clock, TURN_READY);
	must_be_zero(pthread_mutex_unlock(&clock->lock));
	if (!t)
		return ENOMEM;
	t->main = main;
	t->arg = arg;
	rc = pthread_create(&t->thread, NULL, thread_main, t);
	must_be_zero(pthread_mutex_lock(&clock->lock));
	if (rc)
		turn_destroy(t);
	else
		*thread = t->thread;
	must_be_zero(pthread_mutex_unlock(&clock->lock));
	return rc;
}

void
sl_thread_join(pthread_t thread)
{
	struct turn *t = NULL;
	struct clock *clock;

	if (sl_turns_on()) {
		clock = mine->clock;
		must_be_zero(pthread_mutex_lock(&clock->lock));
		for (t = clock->first; t && (t == mine || !pthread_equal(t->thread, thread));)
			t = t->next;
		must_be_zero(pthread_mutex_unlock(&clock->lock));
		assert(t); /* started on another clock */
		if (t->state != TURN_OVER)
			(void)turn_wait(t, SL_TURNS_NEVER, NULL);
	}
	must_be_zero(pthread_join(thread, NULL));
	if (!t)
		return;
	must_be_zero(pthread_mutex_lock(&t->clock->lock));
	clock = t->clock;
	turn_destroy(t);
	must_be_zero(pthread_mutex_unlock(&clock->lock));
}
