/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks with a place in the lock order, and condition variables on the monotonic clock.
 *
 * With SL_LOCK_CHECK (presets dev and tsan) each thread keeps the locks it holds, in the order
 * taken. Three errors print a line and abort: a breach of the order, an unlock by a thread that
 * does not hold the lock, and a wait that holds another one. They show the first time that the
 * code runs, not only when two threads meet. Without SL_LOCK_CHECK these are the plain pthread
 * calls.
 *
 * Threads on a virtual clock (turns.h) wait and wake there.
 *
 * A failed pthread call means a destroyed or overwritten mutex. It is asserted, not returned.
 * Not for signal handlers that can interrupt a holder.
 *
 * SL_NO_LOCK_CHECK is used here because pthread.h does not annotate its mutexes for clang.
 */
#include "base/lock.h"

#include "base/turns.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef SL_LOCK_CHECK

/* In the order taken; tries may come out of order, so the ranks need not rise. Few and small: the
 * preload library has its thread-local storage from a small reserve of the loader. */
#define HELD_MAX 12u

static _Thread_local const void *held[HELD_MAX];
static _Thread_local uint8_t held_rank[HELD_MAX];
static _Thread_local unsigned held_count;

static const char *
rank_name(enum sl_lock_rank rank)
{
	static const char *const names[SL_RANK_COUNT] = {
		[SL_RANK_PL_RUNNING] = "running graph",
		[SL_RANK_PL_MAPPINGS] = "mappings",
		[SL_RANK_PL_GRAPHS] = "graphs",
		[SL_RANK_PL_KERNELS] = "kernels",
		[SL_RANK_PL_TABLES] = "tables",
		[SL_RANK_PL_GPUS] = "gpus",
		[SL_RANK_PL_BUDGET] = "budget",
		[SL_RANK_PL_OPENING] = "opening",
		[SL_RANK_PL_SCOPES] = "scopes",
		[SL_RANK_PL_REUSE] = "reuse",
		[SL_RANK_PL_STREAM] = "program stream",
		[SL_RANK_PL_STREAMS] = "program streams",
		[SL_RANK_PL_ARENA] = "arena",
		[SL_RANK_PL_CLOSING] = "closing",
		[SL_RANK_PL_TIMINGS] = "timings",
		[SL_RANK_PL_RECORDERS] = "recorders",
		[SL_RANK_PL_LEAF] = "preload leaf",
		[SL_RANK_PROCESS] = "process",
		[SL_RANK_SPACE] = "space",
		[SL_RANK_STREAM] = "stream",
		[SL_RANK_MOVES] = "moves",
		[SL_RANK_FRAMES] = "frames",
		[SL_RANK_STORE] = "store",
		[SL_RANK_SPILL] = "spill",
		[SL_RANK_BASE] = "base",
	};

	return (unsigned)rank < SL_RANK_COUNT ? names[rank] : "invalid";
}

/* Those under which the preload library calls what waits. Nobody who ends such a wait takes them. */
static int
rank_spans_waits(enum sl_lock_rank rank)
{
	return rank == SL_RANK_PL_RUNNING || rank == SL_RANK_PL_MAPPINGS ||
	       rank == SL_RANK_PL_GPUS || rank == SL_RANK_PL_BUDGET ||
	       rank == SL_RANK_PL_OPENING;
}

__attribute__((noreturn)) static void
lock_misused(const char *what, const void *lock, enum sl_lock_rank rank)
{
	fprintf(stderr, "sluice: lock check: %s: mutex %p of rank %s; held:", what, lock,
		rank_name(rank));
	for (unsigned i = 0; i < held_count; i++)
		fprintf(stderr, " %s", rank_name((enum sl_lock_rank)held_rank[i]));
	fprintf(stderr, "%s\n", held_count ? "" : " nothing");
	abort();
}

static void
check_before_lock(const void *lock, enum sl_lock_rank rank)
{
	if ((unsigned)rank >= SL_RANK_COUNT)
		lock_misused("not an initialised mutex", lock, rank);
	for (unsigned i = 0; i < held_count; i++)
		if (held_rank[i] >= rank)
			lock_misused("taken out of order", lock, rank);
}

static void
check_locked(const void *lock, enum sl_lock_rank rank)
{
	if (held_count == HELD_MAX)
		lock_misused("one too many", lock, rank);
	held[held_count] = lock;
	held_rank[held_count++] = (uint8_t)rank;
}

static void
check_before_unlock(const void *lock, enum sl_lock_rank rank)
{
	unsigned i = 0;

	while (i < held_count && held[i] != lock)
		i++;
	if (i == held_count)
		lock_misused("unlocked by a thread that does not hold it", lock, rank);
	for (held_count--; i < held_count; i++) {
		held[i] = held[i + 1];
		held_rank[i] = held_rank[i + 1];
	}
}

static void
check_before_wait(const struct sl_mutex *m)
{
	sl_mutex_assert_held(m);
	for (unsigned i = 0; i < held_count; i++)
		if (held[i] != m && !rank_spans_waits((enum sl_lock_rank)held_rank[i]))
			lock_misused("waited on while another one is held", m, m->rank);
}

SL_NO_LOCK_CHECK void
sl_mutex_assert_held(const struct sl_mutex *m)
{
	for (unsigned i = 0; i < held_count; i++)
		if (held[i] == m)
			return;
	lock_misused("needed but not held", m, m->rank);
}

#else

static void
check_before_lock(const void *lock, enum sl_lock_rank rank)
{
	(void)lock;
	(void)rank;
}

static void
check_locked(const void *lock, enum sl_lock_rank rank)
{
	(void)lock;
	(void)rank;
}

static void
check_before_unlock(const void *lock, enum sl_lock_rank rank)
{
	(void)lock;
	(void)rank;
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
	check_before_lock(m, m->rank);
	must_be_zero(pthread_mutex_lock(&m->mutex));
	check_locked(m, m->rank);
}

SL_NO_LOCK_CHECK int
sl_mutex_trylock(struct sl_mutex *m)
{
	int rc = pthread_mutex_trylock(&m->mutex);

	if (rc == EBUSY)
		return -EBUSY;
	must_be_zero(rc);
	check_locked(m, m->rank);
	return 0;
}

SL_NO_LOCK_CHECK void
sl_mutex_unlock(struct sl_mutex *m)
{
	check_before_unlock(m, m->rank);
	must_be_zero(pthread_mutex_unlock(&m->mutex));
}

void
sl_rwlock_init(struct sl_rwlock *l, enum sl_lock_rank rank)
{
	assert((unsigned)rank < SL_RANK_COUNT);
	*l = (struct sl_rwlock)SL_RWLOCK_INITIALIZER(rank);
}

SL_NO_LOCK_CHECK void
sl_rwlock_read(struct sl_rwlock *l)
{
	check_before_lock(l, l->rank);
	must_be_zero(pthread_rwlock_rdlock(&l->rwlock));
	check_locked(l, l->rank);
}

SL_NO_LOCK_CHECK void
sl_rwlock_write(struct sl_rwlock *l)
{
	check_before_lock(l, l->rank);
	must_be_zero(pthread_rwlock_wrlock(&l->rwlock));
	check_locked(l, l->rank);
}

SL_NO_LOCK_CHECK void
sl_rwlock_unlock(struct sl_rwlock *l)
{
	check_before_unlock(l, l->rank);
	must_be_zero(pthread_rwlock_unlock(&l->rwlock));
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
