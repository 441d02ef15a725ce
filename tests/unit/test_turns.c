/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual time jumps to the awaited moment. Threads get their turns in the order in which they
 * became able to run. Threads without virtual time have the real clock.
 */
#include "base/turns.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "unit/cmocka_all.h"

#define HZ 1000u /* a tick is a millisecond */

/* Who did what, in order. */
static struct {
	struct sl_mutex lock;
	struct sl_cond changed;
	int open;
	char text[64];
	size_t n;
} scene;

static void
scene_init(void)
{
	memset(&scene, 0, sizeof(scene));
	sl_mutex_init(&scene.lock, SL_RANK_SPACE);
	sl_cond_init(&scene.changed);
}

static void
scene_fini(void)
{
	sl_cond_fini(&scene.changed);
	sl_mutex_fini(&scene.lock);
}

/* Threads do not assert: cmocka's would leave them by longjmp. */
static void
scene_say(char c)
{
	if (scene.n + 1 < sizeof(scene.text))
		scene.text[scene.n++] = c;
}

struct actor {
	char name;
	uint64_t step, times;
};

static void *
actor_sleeps(void *arg)
{
	const struct actor *actor = arg;

	for (uint64_t i = 1; i <= actor->times; i++) {
		sl_turns_sleep_until(i * actor->step);
		scene_say(sl_turns_now() == i * actor->step ? actor->name : '?');
	}
	return NULL;
}

static void
sleepers_run_in_the_order_of_their_moments(void **state)
{
	struct actor a = {'a', 3600 * HZ, 4}, b = {'b', 2 * 3600 * HZ, 2};
	uint64_t before = sl_now_ns();
	pthread_t threads[2];

	(void)state;
	scene_init();
	assert_int_equal(sl_turns_begin(HZ), 0);
	assert_int_equal(sl_now_ns(), 0);
	assert_int_equal(sl_thread_start(&threads[0], actor_sleeps, &a), 0);
	assert_int_equal(sl_thread_start(&threads[1], actor_sleeps, &b), 0);
	sl_thread_join(threads[0]);
	assert_int_equal(sl_turns_now(), 4 * 3600 * HZ);
	assert_int_equal(sl_now_ns(), 4 * 3600 * 1000000000ull);
	sl_thread_join(threads[1]);
	sl_turns_end();
	/* Of two that wait for one moment, the one that waits longer comes first. */
	assert_string_equal(scene.text, "abaaba");
	assert_true(sl_now_ns() >= before); /* the real clock again */
	scene_fini();
}

static void *
actor_waits(void *arg)
{
	const struct actor *actor = arg;

	sl_mutex_lock(&scene.lock);
	while (!scene.open)
		sl_cond_wait(&scene.changed, &scene.lock);
	scene.open--;
	scene_say(actor->name);
	sl_mutex_unlock(&scene.lock);
	return NULL;
}

static void
scene_open(int n, int all)
{
	sl_mutex_lock(&scene.lock);
	scene.open += n;
	if (all)
		sl_cond_broadcast(&scene.changed);
	else
		sl_cond_signal(&scene.changed);
	sl_mutex_unlock(&scene.lock);
}

static void
the_longest_waiter_is_woken_first(void **state)
{
	struct actor actors[4] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}, {.name = 'd'}};
	pthread_t threads[4];

	(void)state;
	scene_init();
	assert_int_equal(sl_turns_begin(HZ), 0);
	for (int i = 0; i < 4; i++)
		assert_int_equal(sl_thread_start(&threads[i], actor_waits, &actors[i]), 0);
	sl_turns_sleep_until(10);
	assert_string_equal(scene.text, ""); /* all wait */
	scene_open(1, 0);
	assert_string_equal(scene.text, ""); /* our turn goes on */
	sl_turns_sleep_until(11);
	assert_string_equal(scene.text, "a");
	scene_open(3, 1);
	for (int i = 0; i < 4; i++)
		sl_thread_join(threads[i]);
	assert_string_equal(scene.text, "abcd");
	assert_int_equal(sl_turns_now(), 11); /* none of that took time */
	sl_turns_end();
	scene_fini();
}

static void
a_wait_ends_at_its_deadline_or_when_it_is_woken(void **state)
{
	struct actor opener = {'o', 5, 1};
	pthread_t thread;

	(void)state;
	scene_init();
	assert_int_equal(sl_turns_begin(HZ), 0);
	sl_mutex_lock(&scene.lock);
	/* 2.5 ticks: the deadline is over at the third. */
	assert_int_equal(sl_cond_wait_until(&scene.changed, &scene.lock, 2500000),
			 -ETIMEDOUT);
	assert_int_equal(sl_turns_now(), 3);
	assert_true(sl_now_ns() >= 2500000);
	/* One that has passed: at once. */
	assert_int_equal(sl_cond_wait_until(&scene.changed, &scene.lock, 0), -ETIMEDOUT);
	assert_int_equal(sl_turns_now(), 3);
	sl_mutex_unlock(&scene.lock);

	assert_int_equal(sl_thread_start(&thread, actor_sleeps, &opener), 0);
	sl_thread_join(thread);
	assert_int_equal(sl_turns_now(), 5);
	assert_int_equal(sl_thread_start(&thread, actor_waits, &opener), 0);
	sl_turns_sleep_until(6);
	scene_open(1, 0);
	sl_thread_join(thread);
	assert_int_equal(sl_turns_now(), 6);
	sl_turns_end();
	scene_fini();
}

static void *
clock_of_its_own(void *arg)
{
	const uint64_t *ticks = arg;
	int right;

	if (sl_turns_begin(HZ))
		return NULL;
	sl_turns_sleep_until(*ticks);
	right = sl_turns_now() == *ticks;
	sl_turns_end();
	return right ? arg : NULL;
}

/* Two clocks, and the real one, at once. */
static void
clocks_know_nothing_of_each_other(void **state)
{
	uint64_t ticks[2] = {7, 1000000000};
	uint64_t before = sl_now_ns();
	pthread_t threads[2];

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, clock_of_its_own,
						&ticks[i]),
				 0);
	assert_true(sl_now_ns() >= before);
	assert_false(sl_turns_mine());
	for (int i = 0; i < 2; i++) {
		void *right;

		assert_int_equal(pthread_join(threads[i], &right), 0);
		assert_ptr_equal(right, &ticks[i]);
	}
	assert_int_equal(atomic_load(&sl_turns_threads), 0);
}

static void
threads_that_wait_for_each_other_end_the_process_with_a_text(void **state)
{
	char text[256] = "";
	int fds[2], status;
	ssize_t n;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		dup2(fds[1], STDERR_FILENO);
		scene_init();
		if (sl_turns_begin(HZ))
			_exit(1);
		sl_turns_sleep_until(42);
		sl_mutex_lock(&scene.lock);
		sl_cond_wait(&scene.changed, &scene.lock); /* nobody is there to signal */
		_exit(2);
	}
	close(fds[1]);
	n = read(fds[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	close(fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	assert_non_null(strstr(text, "at tick 42 all threads wait for each other"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sleepers_run_in_the_order_of_their_moments),
		cmocka_unit_test(the_longest_waiter_is_woken_first),
		cmocka_unit_test(a_wait_ends_at_its_deadline_or_when_it_is_woken),
		cmocka_unit_test(clocks_know_nothing_of_each_other),
		cmocka_unit_test(threads_that_wait_for_each_other_end_the_process_with_a_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
