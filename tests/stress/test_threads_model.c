/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random steps of threads that share regions, against a shadow of every word (threads_model.h),
 * with settings drawn from the seed. Plain program:
 *
 *   stress_test_threads_model [SEED [COUNT [STEPS]]]
 *
 * COUNT seeds from SEED on (or "random"), STEPS of each of the four threads. A seed that failed
 * will probably, not surely, fail again: the steps are the same, their order between threads is
 * not.
 */
#include "stress/threads_model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device/soft/uffd.h"

/* Enough for each kind of step several times under sanitizers, in 20 s on a busy machine. */
#define SEEDS_DEFAULT 6
#define STEPS_DEFAULT 500
/* No step waits for more than a few seconds of moving; a machine may be a hundred times too busy. */
#define HANG_S        600
/* How often it looks; a run ends as much later. */
#define WATCH_MS      100

static uint64_t steps_max;

/* ---- Settings ---- */

static void
setting_add(char *text, size_t size, const char *key, long value, const char *unit)
{
	size_t n = strlen(text);

	snprintf(text + n, size - n, ",%s=%ld%s", key, value, unit);
}

static void
settings_pick(struct sl_rng *rng, char *text, size_t size)
{
	static const char *const populations[] = {"chunk", "chunk", "grow", "page"};
	static const char *const policies[] = {"lru", "lru", "dragon", "uvm", "plan"};
	static const char *const faults[] = {"auto", "thread", "signal"};
	static const char *const stores[] = {"auto", "uring", "file"};
	long chunk = sl_rng_below(rng, 4) ? 2 : 4;
	int large = !sl_rng_below(rng, 4);
	long device = (large ? 4 : 2) + (long)sl_rng_below(rng, 8); /* two of the largest */
	long host = (long)sl_rng_below(rng, 7);                     /* chunks; 0 : off */

	snprintf(text, size, "population=%s,policy=%s,faults=%s,store_io=%s",
		 populations[sl_rng_below(rng, 4)], policies[sl_rng_below(rng, 5)],
		 faults[sl_rng_below(rng, 3)], stores[sl_rng_below(rng, 3)]);
	setting_add(text, size, "chunk", chunk, "M");
	setting_add(text, size, "device_budget", device * chunk, "M");
	setting_add(text, size, "host_budget", host * chunk, "M");
	setting_add(text, size, "readahead_chunks", (long)sl_rng_below(rng, 9), "");
	setting_add(text, size, "workers", 1 + (long)sl_rng_below(rng, 3), "");
	if (!sl_rng_below(rng, 3))
		setting_add(text, size, "writeback", (long)sl_rng_below(rng, 8), "M");
	if (large)
		setting_add(text, size, "large_chunk", 2 * chunk, "M");
	if (host && !sl_rng_below(rng, 5))
		setting_add(text, size, "host_reserve",
			    (long)sl_rng_below(rng, (uint64_t)host) * chunk, "M");
	if (!sl_rng_below(rng, 4))
		strncat(text, ",move=copy", size - strlen(text) - 1);
}

/* ---- Threads ---- */

#define STEPS(M)                                               \
	M(18, "read", tm_step_read(t, r))                      \
	M(18, "write", tm_step_write(t, r))                    \
	M(14, "launch", tm_step_launch(t))                     \
	M(6, "launch by faults", tm_step_launch_undeclared(t)) \
	M(5, "scope", tm_step_scope(t))                        \
	M(5, "discard", tm_step_discard(t, r))                 \
	M(5, "prefetch", tm_step_prefetch(t, r))               \
	M(6, "evict", tm_step_evict(t, r))                     \
	M(4, "pin", tm_step_pin(t, r))                         \
	M(3, "file", tm_step_file(t, r))                       \
	M(3, "system call", tm_step_system_call(t, r))         \
	M(1, "life", tm_step_life(t))                          \
	M(1, "remap", tm_step_remap(t, r))                     \
	M(1, "fork", tm_step_fork(t, r))                       \
	M(2, "callback", tm_step_callback(t, r))               \
	M(8, "look", tm_step_look(t, r))

static void
step(struct tm_thread *t)
{
	struct tm_region *r = tm_region_pick(t);
	int what = (int)tm_below(t, 100);

#define STEP(weight, name, call)                \
	if (what >= 0 && what < (weight)) {     \
		atomic_store(&t->step, (name)); \
		call;                           \
	}                                       \
	what -= (weight);
	STEPS(STEP)
#undef STEP
	atomic_fetch_add(&t->steps, 1);
}

static void *
thread_run(void *arg)
{
	struct tm_thread *t = arg;

	for (unsigned k = 0; k < TM_PRIVATE; k++)
		tm_region_begin(&t->region[k], t, &t->rng);
	for (uint64_t k = 0; k < steps_max && !atomic_load(&stress.stop); k++)
		step(t);
	atomic_store(&t->step, "end");
	tm_unpin(t, NULL);
	for (unsigned k = 0; k < TM_STREAMS; k++)
		tm_synchronize(t, k);
	for (unsigned k = 0; k < TM_PRIVATE && !stress.failures; k++)
		tm_region_end(&t->region[k], t);
	atomic_store(&t->step, NULL);
	return NULL;
}

static _Atomic int watch_ends;

/* Ends the program when a thread is in the same step for HANG_S. */
static void *
watch_run(void *arg)
{
	const struct timespec pause = {0, WATCH_MS * 1000000L};
	uint64_t steps[TM_THREADS] = {0};
	unsigned looks[TM_THREADS] = {0}; /* that found the same step */

	(void)arg;
	while (!atomic_load(&watch_ends)) {
		nanosleep(&pause, NULL);
		for (unsigned k = 0; k < TM_THREADS; k++) {
			const char *name = atomic_load(&tm.thread[k].step);
			uint64_t now = atomic_load(&tm.thread[k].steps);

			looks[k] = name && now == steps[k] ? looks[k] + 1 : 0;
			steps[k] = now;
			if (looks[k] < HANG_S * 1000u / WATCH_MS)
				continue;
			FAIL("seed %llu: thread %u hangs in step %llu: %s",
			     (unsigned long long)tm.seed, k, (unsigned long long)now, name);
			_exit(1);
		}
	}
	return NULL;
}

/* ---- A run ---- */

static void
threads_begin(void)
{
	for (unsigned k = 0; k < TM_THREADS; k++) {
		struct tm_thread *t = &tm.thread[k];

		t->id = k;
		sl_rng_init(&t->rng, tm_hash(tm.seed, k));
		for (unsigned s = 0; s < TM_STREAMS; s++)
			OK(sluice_stream_create(tm.space, &t->stream[s]));
		OK(sluice_event_create(tm.space, &t->event));
	}
}

/* Shared regions end with the space, or before it. */
static void
run_end(void)
{
	for (unsigned k = 0; k < TM_THREADS; k++) {
		sluice_event_destroy(tm.thread[k].event);
		for (unsigned s = 0; s < TM_STREAMS; s++)
			sluice_stream_destroy(tm.thread[k].stream[s]);
	}
	if (tm.seed % 2) {
		stress_space_end(tm.space);
		for (unsigned k = 0; k < TM_SHARED; k++)
			tm_region_file_end(&tm.shared[k]);
		return;
	}
	for (unsigned k = 0; k < TM_SHARED; k++)
		tm_region_end(&tm.shared[k], NULL);
	stress_space_end(tm.space);
}

/* Without privileges system calls get EFAULT where they touch absent memory (docs/design/faults.md). */
static int
calls_are_served(void)
{
	uint64_t features;
	int user_only;

	return !sl_uffd_probe(&features, &user_only) && !user_only;
}

static void
run_seed(uint64_t seed)
{
	pthread_t threads[TM_THREADS], watch;
	struct sl_rng rng;
	uint64_t steps = 0;

	memset(&tm, 0, sizeof(tm));
	tm.seed = seed;
	tm.version = 1;
	sl_rng_init(&rng, seed);
	settings_pick(&rng, stress.config, sizeof(stress.config));
	printf("seed %llu %s\n", (unsigned long long)seed, stress.config);
	fflush(stdout);
	tm.space = stress_space(stress.config);
	sluice_space_config(tm.space, &tm.config);
	tm.launches_fail = seed / 2 % 2 == 0;
	tm.signal_faults = tm.config.faults == SLUICE_FAULTS_SIGNAL ||
			   (tm.config.faults == SLUICE_FAULTS_AUTO &&
			    tm.config.population != SLUICE_POPULATE_CHUNK) ||
			   !calls_are_served();
	for (unsigned k = 0; k < TM_SHARED; k++)
		tm_region_begin(&tm.shared[k], NULL, &rng);
	threads_begin();
	atomic_store(&watch_ends, 0);
	if (pthread_create(&watch, NULL, watch_run, NULL))
		exit(1);
	for (unsigned k = 0; k < TM_THREADS; k++)
		if (pthread_create(&threads[k], NULL, thread_run, &tm.thread[k]))
			exit(1);
	for (unsigned k = 0; k < TM_THREADS; k++) {
		pthread_join(threads[k], NULL);
		steps += tm.thread[k].steps;
	}
	atomic_store(&watch_ends, 1);
	pthread_join(watch, NULL);
	if (!stress.failures)
		run_end();
	/* Nothing but a launch that did not run may cost data here. */
	CHECK(!tm.io_errors || tm.not_run);
	printf("  %llu steps, %llu words, %llu calls refused, %llu launches not run, "
	       "%llu chunks lost, %llu times -EIO\n",
	       (unsigned long long)steps, (unsigned long long)tm.words,
	       (unsigned long long)tm.refused, (unsigned long long)tm.not_run,
	       (unsigned long long)tm.lost_chunks, (unsigned long long)tm.io_errors);
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	uint64_t seeds = argc > 2 ? strtoull(argv[2], NULL, 0) : SEEDS_DEFAULT;

	steps_max = argc > 3 ? strtoull(argv[3], NULL, 0) : STEPS_DEFAULT;
	stress_begin(argc > 1 ? 2 : 1, argv, 0);
	for (uint64_t k = 0; k < seeds && !stress.failures; k++)
		run_seed(stress.seed + k);
	return stress_end();
}
