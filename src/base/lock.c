/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutexes that know their place in the lock order, and condition variables on the
 * monotonic clock.
 *
 * Built with SL_LOCK_CHECK (presets dev and tsan) each thread keeps the mutexes it holds,
 * in the order taken; since ranks must rise, SL_RANK_COUNT places are enough. A breach of
 * the order, an unlock by a thread that does not hold the mutex, or a wait that holds
 * another one prints what was wrong and aborts, the first time the code path runs and not
 * when two threads happen to meet. Without it these are the pthread calls alone.
 *
 * Threads on a virtual clock (turns.h) wait and wake there.
 *
 * Failures of the pthread calls mean a destroyed or overwritten mutex: asserted, not
 * returned. Not for signal handlers that can interrupt a holder.
 *
 * SL_NO_LOCK_CHECK here: pthread.h says nothing about its mutexes to clang's analysis.
 */
#include "base/lock.h"

#include "base/turns.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef SL_LOCK_CHECK

static _Thread_local const struct sl_mutex *held[SL_RANK_COUNT];
static _Thread_local unsigned held_count;

static const char *
rank_name(enum sl_lock_rank rank)
{
	switch (rank) {
	case SL_RANK_PROCESS:
		return "process";
	case SL_RANK_SPACE:
		return "space";
	case SL_RANK_STREAM:
		return "stream";
	case SL_RANK_MOVES:
		return "moves";
	case SL_RANK_FRAMES:
		return "frames";
	case SL_RANK_STORE:
		return "store";
	case SL_RANK_SPILL:
		return "spill";
	case SL_RANK_BASE:
		return "base";
	case SL_RANK_COUNT:
		break;
	}
	return "invalid";
}

__attribute__((noreturn)) static void
lock_misused(const char *what, const struct sl_mutex *m)
{
	fprintf(stderr, "sluice: lock check: %s: mutex %p of rank %s; held:", what,
		(const void *)m, rank_name(m->rank));
	for (unsigned i = 0; i < held_count; i++)
		fprintf(stderr, " %s", rank_name(held[i]->rank));
	fprintf(stderr, "%s\n", held_count ? "" : " nothing");
	abort();
}

static void
check_before_lock(const struct sl_mutex *m)
{
	if ((unsigned)m->rank >= SL_RANK_COUNT)
		lock_misused("not an initialised mutex", m);
	if (held_count && held[held_count - 1]->rank >= m->rank)
		lock_misused("taken out of order", m);
}

/* Ranks rise along held[], so the last is the highest and a free place always exists. */
static void
check_locked(const struct sl_mutex *m)
{
	held[held_count++] = m;
}

static void
check_before_unlock(const struct sl_mutex *m)
{
	unsigned i = 0;

	while (i < held_count && held[i] != m)
		i++;
	if (i == held_count)
		lock_misused("unlocked by a thread that does not hold it", m);
	for (held_count--; i < held_count; i++)
		held[i] = held[i + 1];
}

static void
check_before_wait(const struct sl_mutex *m)
{
	sl_mutex_assert_held(m);
	if (held_count != 1)
		lock_misused("waited on while another one is held", m);
}

SL_NO_LOCK_CHECK void
sl_mutex_assert_held(const struct sl_mutex *m)
{
	for (unsigned i = 0; i < held_count; i++)
		if (held[i] == m)
			return;
	lock_misused("needed but not held", m);
}

#else

static void
check_before_lock(const struct sl_mutex *m)
{
	(void)m;
}

static void
check_locked(const struct sl_mutex *m)
{
	(void)m;
}

static void
check_before_unlock(const struct sl_mutex *m)
{
	(void)m;
}

static void
check_before_wait(const struct sl_mutex *m)
{
	(void)m;
}

SL_NO_LOCK_CHECK void
sl_mutex_assert_held(const struct sl_mutex *m)
{
	(void)m;
}

#endif

/* The calls below cannot fail on valid objects; rc is for the assert alone. */
static void
must_be_zero(int rc)
{
	assert(rc == 0);
	(void)rc;
}

void
sl_mutex_init(struct sl_mutex *m, enum sl_lock_rank rank)
{
	assert((unsigned)rank < SL_RANK_COUNT);
	must_be_zero(pthread_mutex_init(&m->mutex, NULL));
	m->rank = rank;
}

void
sl_mutex_fini(struct sl_mutex *m)
{
	must_be_zero(pthread_mutex_destroy(&m->mutex));
}

SL_NO_LOCK_CHECK void
sl_mutex_lock(struct sl_mutex *m)
{
	check_before_lock(m);
	must_be_zero(pthread_mutex_lock(&m->mutex));
	check_locked(m);
}

SL_NO_LOCK_CHECK void
sl_mutex_unlock(struct sl_mutex *m)
{
	check_before_unlock(m);
	must_be_zero(pthread_mutex_unlock(&m->mutex));
}

void
sl_cond_init(struct sl_cond *c)
{
	pthread_condattr_t attr;

	must_be_zero(pthread_condattr_init(&attr));
	must_be_zero(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	must_be_zero(pthread_cond_init(&c->cond, &attr));
	must_be_zero(pthread_condattr_destroy(&attr));
}

void
sl_cond_fini(struct sl_cond *c)
{
	must_be_zero(pthread_cond_destroy(&c->cond));
}

/* A waiting thread still counts as holder: it cannot take anything then anyway. */
void
sl_cond_wait(struct sl_cond *c, struct sl_mutex *m)
{
	check_before_wait(m);
	if (sl_turns_on())
		(void)sl_turns_wait(c, m, SL_TURNS_NEVER);
	else
		must_be_zero(pthread_cond_wait(&c->cond, &m->mutex));
}

int
sl_cond_wait_until(struct sl_cond *c, struct sl_mutex *m, uint64_t deadline_ns)
{
	const struct timespec deadline = {
		.tv_sec = (time_t)(deadline_ns / 1000000000u),
		.tv_nsec = (int32_t)(deadline_ns % 1000000000u),
	};
	int rc;

	check_before_wait(m);
	if (sl_turns_on())
		return sl_turns_wait_ns(c, m, deadline_ns);
	rc = pthread_cond_timedwait(&c->cond, &m->mutex, &deadline);
	if (rc == ETIMEDOUT)
		return -ETIMEDOUT;
	must_be_zero(rc);
	return 0;
}

void
sl_cond_signal(struct sl_cond *c)
{
	if (sl_turns_on())
		sl_turns_wake(c, 0);
	else
		must_be_zero(pthread_cond_signal(&c->cond));
}

void
sl_cond_broadcast(struct sl_cond *c)
{
	if (sl_turns_on())
		sl_turns_wake(c, 1);
	else
		must_be_zero(pthread_cond_broadcast(&c->cond));
}
