/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutexes exclude, conditions wake and time out, and in builds with SL_LOCK_CHECK each
 * kind of misuse ends the process with a text that names it. Misuse runs in child
 * processes.
 */
#include "base/lock.h"

#include <errno.h>

#include "base/clock.h"
#include "unit/cmocka_all.h"

#define THREADS 4
#define ROUNDS  20000

struct shared {
	struct sl_mutex lock;
	struct sl_cond changed;
	unsigned count; /* lock */
};

static void
shared_init(struct shared *shared)
{
	sl_mutex_init(&shared->lock, SL_RANK_SPACE);
	sl_cond_init(&shared->changed);
	shared->count = 0;
}

static void
shared_fini(struct shared *shared)
{
	sl_cond_fini(&shared->changed);
	sl_mutex_fini(&shared->lock);
}

static void *
count_up(void *arg)
{
	struct shared *shared = arg;

	for (int i = 0; i < ROUNDS; i++) {
		sl_mutex_lock(&shared->lock);
		shared->count++;
		sl_mutex_unlock(&shared->lock);
	}
	return NULL;
}

static void
only_one_thread_at_a_time_holds_a_mutex(void **state)
{
	pthread_t threads[THREADS];
	struct shared shared;

	(void)state;
	shared_init(&shared);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_up, &shared), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(shared.count, THREADS * ROUNDS);
	shared_fini(&shared);
}

/* Odd counts are ours, even ones the other's: each waits for the other's signal. */
static void *
answer(void *arg)
{
	struct shared *shared = arg;

	sl_mutex_lock(&shared->lock);
	for (int i = 0; i < 1000; i++) {
		while (shared->count % 2 == 0)
			sl_cond_wait(&shared->changed, &shared->lock);
		shared->count++;
		sl_cond_signal(&shared->changed);
	}
	sl_mutex_unlock(&shared->lock);
	return NULL;
}

static void
a_signal_wakes_the_waiting_thread(void **state)
{
	struct shared shared;
	pthread_t thread;

	(void)state;
	shared_init(&shared);
	assert_int_equal(pthread_create(&thread, NULL, answer, &shared), 0);
	sl_mutex_lock(&shared.lock);
	for (int i = 0; i < 1000; i++) {
		shared.count++;
		sl_cond_signal(&shared.changed);
		while (shared.count % 2 == 1)
			sl_cond_wait(&shared.changed, &shared.lock);
	}
	sl_mutex_unlock(&shared.lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(shared.count, 2000);
	shared_fini(&shared);
}

/* Wait for count 1, then say that we have seen it. */
static void *
wait_for_one(void *arg)
{
	struct shared *shared = arg;

	sl_mutex_lock(&shared->lock);
	while (shared->count == 0)
		sl_cond_wait(&shared->changed, &shared->lock);
	shared->count++;
	sl_mutex_unlock(&shared->lock);
	return NULL;
}

static void
a_broadcast_wakes_all(void **state)
{
	pthread_t threads[THREADS];
	struct shared shared;

	(void)state;
	shared_init(&shared);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_for_one, &shared), 0);
	sl_mutex_lock(&shared.lock);
	shared.count = 1;
	sl_cond_broadcast(&shared.changed);
	sl_mutex_unlock(&shared.lock);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(shared.count, 1 + THREADS);
	shared_fini(&shared);
}

static void
a_wait_ends_once_its_deadline_has_been_reached(void **state)
{
	struct shared shared;
	uint64_t deadline_ns = sl_now_ns() + 3000000;
	int rc;

	(void)state;
	shared_init(&shared);
	sl_mutex_lock(&shared.lock);
	do
		rc = sl_cond_wait_until(&shared.changed, &shared.lock, deadline_ns);
	while (rc == 0); /* a spurious wake is allowed */
	sl_mutex_unlock(&shared.lock);
	assert_int_equal(rc, -ETIMEDOUT);
	assert_true(sl_now_ns() >= deadline_ns);

	sl_mutex_lock(&shared.lock);
	assert_int_equal(sl_cond_wait_until(&shared.changed, &shared.lock, 0), -ETIMEDOUT);
	sl_mutex_unlock(&shared.lock);
	shared_fini(&shared);
}

static void
a_wait_with_the_farthest_deadline_still_hears_signals(void **state)
{
	struct shared shared;
	pthread_t thread;
	int rc = 0;

	(void)state;
	shared_init(&shared);
	sl_mutex_lock(&shared.lock);
	shared.count = 1; /* answer() raises it to 2 and signals; its next wait ends below */
	assert_int_equal(pthread_create(&thread, NULL, answer, &shared), 0);
	for (int i = 0; i < 1000; i++) {
		while (shared.count % 2 == 1) {
			rc = sl_cond_wait_until(&shared.changed, &shared.lock, UINT64_MAX);
			assert_int_equal(rc, 0);
		}
		if (i < 999) {
			shared.count++;
			sl_cond_signal(&shared.changed);
		}
	}
	sl_mutex_unlock(&shared.lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	shared_fini(&shared);
}

static void
ranks_may_be_skipped_and_unlocked_in_any_order(void **state)
{
	struct sl_mutex process, stream, base;

	(void)state;
	sl_mutex_init(&process, SL_RANK_PROCESS);
	sl_mutex_init(&stream, SL_RANK_STREAM);
	sl_mutex_init(&base, SL_RANK_BASE);
	for (int i = 0; i < 3; i++) {
		sl_mutex_lock(&process);
		sl_mutex_lock(&stream);
		sl_mutex_lock(&base);
		sl_mutex_assert_held(&stream);
		sl_mutex_unlock(&stream);
		sl_mutex_unlock(&process);
		sl_mutex_assert_held(&base);
		sl_mutex_unlock(&base);
	}
	sl_mutex_fini(&process);
	sl_mutex_fini(&stream);
	sl_mutex_fini(&base);
}

static void *
try_lock(void *arg)
{
	struct sl_mutex *m = arg;
	int rc = sl_mutex_trylock(m);

	if (!rc)
		sl_mutex_unlock(m);
	return (void *)(intptr_t)rc;
}

static void
a_try_fails_while_another_thread_holds_the_mutex(void **state)
{
	struct sl_mutex space;
	pthread_t thread;
	void *rc;

	(void)state;
	sl_mutex_init(&space, SL_RANK_SPACE);
	for (int held = 1; held >= 0; held--) {
		if (held)
			sl_mutex_lock(&space);
		assert_int_equal(pthread_create(&thread, NULL, try_lock, &space), 0);
		assert_int_equal(pthread_join(thread, &rc), 0);
		assert_int_equal((intptr_t)rc, held ? -EBUSY : 0);
		if (held)
			sl_mutex_unlock(&space);
	}
	sl_mutex_fini(&space);
}

static void
a_try_may_come_out_of_order(void **state)
{
	struct sl_mutex space, store;

	(void)state;
	sl_mutex_init(&space, SL_RANK_SPACE);
	sl_mutex_init(&store, SL_RANK_STORE);
	sl_mutex_lock(&store);
	assert_int_equal(sl_mutex_trylock(&space), 0);
	sl_mutex_unlock(&space);
	sl_mutex_unlock(&store);
	sl_mutex_fini(&space);
	sl_mutex_fini(&store);
}

struct shelf {
	struct sl_rwlock lock;
	struct sl_mutex meeting;
	struct sl_cond came;
	unsigned readers; /* meeting */
	unsigned written; /* lock */
};

/* Ends only if the other reader comes while this one reads. */
static void *
read_together(void *arg)
{
	struct shelf *shelf = arg;

	sl_rwlock_read(&shelf->lock);
	sl_mutex_lock(&shelf->meeting);
	shelf->readers++;
	sl_cond_broadcast(&shelf->came);
	while (shelf->readers < 2)
		sl_cond_wait(&shelf->came, &shelf->meeting);
	sl_mutex_unlock(&shelf->meeting);
	sl_rwlock_unlock(&shelf->lock);
	return NULL;
}

static void *
write_alone(void *arg)
{
	struct shelf *shelf = arg;

	for (int i = 0; i < ROUNDS; i++) {
		sl_rwlock_write(&shelf->lock);
		shelf->written++;
		sl_rwlock_unlock(&shelf->lock);
	}
	return NULL;
}

static void
readers_share_and_writers_exclude(void **state)
{
	struct shelf shelf = {.readers = 0};
	pthread_t threads[2];

	(void)state;
	/* A rank under which waits may be. */
	sl_rwlock_init(&shelf.lock, SL_RANK_PL_OPENING);
	sl_mutex_init(&shelf.meeting, SL_RANK_SPACE);
	sl_cond_init(&shelf.came);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, read_together, &shelf), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, write_alone, &shelf), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(shelf.written, 2 * ROUNDS);
	sl_cond_fini(&shelf.came);
	sl_mutex_fini(&shelf.meeting);
}

static void
take_out_of_order(void *arg)
{
	struct sl_mutex space, store;

	(void)arg;
	sl_mutex_init(&space, SL_RANK_SPACE);
	sl_mutex_init(&store, SL_RANK_STORE);
	sl_mutex_lock(&store);
	sl_mutex_lock(&space);
}

static void
take_two_of_one_rank(void *arg)
{
	struct sl_mutex a, b;

	(void)arg;
	sl_mutex_init(&a, SL_RANK_SPACE);
	sl_mutex_init(&b, SL_RANK_SPACE);
	sl_mutex_lock(&a);
	sl_mutex_lock(&b);
}

static void
take_below_one_that_is_left(void *arg)
{
	struct sl_mutex space, store, frames;

	(void)arg;
	sl_mutex_init(&space, SL_RANK_SPACE);
	sl_mutex_init(&store, SL_RANK_STORE);
	sl_mutex_init(&frames, SL_RANK_FRAMES);
	sl_mutex_lock(&space);
	sl_mutex_lock(&store);
	sl_mutex_unlock(&space);
	sl_mutex_lock(&frames);
}

static void
read_twice(void *arg)
{
	struct sl_rwlock lock;

	(void)arg;
	sl_rwlock_init(&lock, SL_RANK_PL_OPENING);
	sl_rwlock_read(&lock);
	sl_rwlock_read(&lock);
}

static void
lock_below_a_tried_one(void *arg)
{
	struct sl_mutex space, store, frames;

	(void)arg;
	sl_mutex_init(&space, SL_RANK_SPACE);
	sl_mutex_init(&store, SL_RANK_STORE);
	sl_mutex_init(&frames, SL_RANK_FRAMES);
	sl_mutex_lock(&store);
	if (!sl_mutex_trylock(&space))
		sl_mutex_lock(&frames);
}

static void
unlock_not_held(void *arg)
{
	struct sl_mutex space;

	(void)arg;
	sl_mutex_init(&space, SL_RANK_SPACE);
	sl_mutex_unlock(&space);
}

static void
need_not_held(void *arg)
{
	struct sl_mutex space;

	(void)arg;
	sl_mutex_init(&space, SL_RANK_SPACE);
	sl_mutex_lock(&space);
	sl_mutex_unlock(&space);
	sl_mutex_assert_held(&space);
}

static void
wait_with_another_held(void *arg)
{
	struct sl_mutex process, space;
	struct sl_cond cond;

	(void)arg;
	sl_mutex_init(&process, SL_RANK_PROCESS);
	sl_mutex_init(&space, SL_RANK_SPACE);
	sl_cond_init(&cond);
	sl_mutex_lock(&process);
	sl_mutex_lock(&space);
	(void)sl_cond_wait_until(&cond, &space, 0);
}

static void
wait_without_holding(void *arg)
{
	struct sl_mutex space;
	struct sl_cond cond;

	(void)arg;
	sl_mutex_init(&space, SL_RANK_SPACE);
	sl_cond_init(&cond);
	(void)sl_cond_wait_until(&cond, &space, 0);
}

static void
misuse_ends_the_process_and_is_named(void **state)
{
	static const struct {
		void (*body)(void *arg);
		const char *text;
	} cases[] = {
		{take_out_of_order, "taken out of order: mutex"},
		{take_two_of_one_rank, "taken out of order: mutex"},
		{take_below_one_that_is_left, "taken out of order: mutex"},
		{read_twice, "taken out of order: mutex"},
		{lock_below_a_tried_one, "taken out of order: mutex"},
		{unlock_not_held, "unlocked by a thread that does not hold it: mutex"},
		{need_not_held, "needed but not held: mutex"},
		{wait_with_another_held, "waited on while another one is held: mutex"},
		{wait_without_holding, "needed but not held: mutex"},
	};

	(void)state;
#ifndef SL_LOCK_CHECK
	print_message("this build does not check locks (SL_LOCK_CHECK)\n");
	skip();
#endif
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct child_result result = child_run(cases[i].body, NULL);

		if (!strstr(result.stderr_text, cases[i].text))
			fail_msg("case %zu printed \"%s\"", i, result.stderr_text);
		assert_int_equal(result.signal, SIGABRT);
	}
}

static void
the_text_names_what_is_held(void **state)
{
	struct child_result result;

	(void)state;
#ifndef SL_LOCK_CHECK
	print_message("this build does not check locks (SL_LOCK_CHECK)\n");
	skip();
#endif
	result = child_run(take_out_of_order, NULL);
	assert_non_null(strstr(result.stderr_text, "of rank space; held: store\n"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(only_one_thread_at_a_time_holds_a_mutex),
		T(a_signal_wakes_the_waiting_thread),
		T(a_broadcast_wakes_all),
		T(a_wait_ends_once_its_deadline_has_been_reached),
		T(a_wait_with_the_farthest_deadline_still_hears_signals),
		T(ranks_may_be_skipped_and_unlocked_in_any_order),
		T(a_try_fails_while_another_thread_holds_the_mutex),
		T(a_try_may_come_out_of_order),
		T(readers_share_and_writers_exclude),
		T(misuse_ends_the_process_and_is_named),
		T(the_text_names_what_is_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
