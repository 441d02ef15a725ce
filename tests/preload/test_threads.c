/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that work beside each other with short memory, each on blocks and streams of its own.
 * They allocate and free while others launch, get room that others have just freed, make streams
 * and destroy them. Meanwhile the driver runs out of memory, and the budget is made smaller.
 * Each thread's data must be right in the end, and none may wait for ever. Mainly a program for
 * the thread sanitizer. In the last setting host memory is short as well, and the rest is on a disk.
 *
 *   test_threads [SEED [ROUNDS]]
 */
#include "spill.h"
#include "work.h"

#include <limits.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"

#define THREADS 4u
#define KEPT    5u  /* blocks of a thread; all together are twice the device budget */
#define ROUNDS  60u /* of each thread */
#define N_MAX   ((uint64_t)1 << 17)
#define WAYS    4u

struct setting {
	const char *run; /* settings are read once a process */
	unsigned host_mib;
	int on_disk;
};

/* The first learns of its kernels while all are at work. */
static const struct setting settings[] = {
	{"quiet=1", 128, 0},
	{"quiet=1,arguments=all", 128, 0},
	{"quiet=1", 6, 1},
	{"quiet=1,arguments=all", 6, 1},
};

static struct work w;
static uint64_t seed;
static unsigned long rounds = ROUNDS;
static char disk[PATH_MAX];
/* Who makes a stream and finds no memory asks once more: it must not find what another has set since. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

struct thread {
	pthread_t id;
	unsigned number;
	struct sl_rng rng;
	struct cu_stream *stream;
	uint64_t p[KEPT], n[KEPT], value[KEPT];
};

static void
stream_renew(struct thread *t)
{
	if (t->stream) {
		OK(w.cuStreamSynchronize(t->stream));
		OK(w.cuStreamDestroy_v2(t->stream));
	}
	pthread_mutex_lock(&making);
	OK(w.cuStreamCreate(&t->stream, CU_STREAM_NONBLOCKING));
	pthread_mutex_unlock(&making);
}

/* By way of a block that is freed as soon as the work on it is queued: who gets its room next comes behind. */
static void
add_elsewhere(struct thread *t, unsigned i)
{
	uint64_t other;

	OK(w.cuMemAlloc_v2(&other, t->n[i] * sizeof(uint64_t)));
	work_launch(&w, WORK_COPY, t->stream, other, t->n[i], t->p[i]);
	work_launch(&w, WORK_ADD, t->stream, other, t->n[i], t->number);
	work_launch(&w, WORK_COPY, t->stream, t->p[i], t->n[i], other);
	OK(w.cuMemFree_v2(other));
}

static void
round_run(struct thread *t)
{
	unsigned i = (unsigned)sl_rng_below(&t->rng, KEPT);

	switch (sl_rng_below(&t->rng, WAYS)) {
	case 0:
		stream_renew(t);
		return;
	case 1: /* it moves to other addresses */
		OK(w.cuStreamSynchronize(t->stream));
		work_expect(&w, t->p[i], t->n[i], t->value[i]);
		OK(w.cuMemFree_v2(t->p[i]));
		t->n[i] = N_MAX / 8 + sl_rng_below(&t->rng, N_MAX);
		t->p[i] = work_alloc(&w, t->n[i], t->value[i]);
		return;
	case 2:
		add_elsewhere(t, i);
		break;
	default:
		work_launch(&w, WORK_ADD, t->stream, t->p[i], t->n[i], t->number);
		break;
	}
	t->value[i] += t->number;
}

static void *
thread_run(void *arg)
{
	struct thread *t = arg;

	OK(w.cuCtxSetCurrent(w.context));
	sl_rng_init(&t->rng, seed * THREADS + t->number);
	stream_renew(t);
	for (unsigned i = 0; i < KEPT; i++) {
		t->value[i] = t->number * 100 + i;
		t->n[i] = N_MAX;
		t->p[i] = work_alloc(&w, t->n[i], t->value[i]);
	}
	for (unsigned long round = 0; round < rounds; round++) {
		/* The next stream that anybody makes finds the driver without memory. */
		if (round % 2) {
			pthread_mutex_lock(&making);
			CHECK(!w.standin->fail_set("cuStreamCreate:1:2"));
			pthread_mutex_unlock(&making);
		}
		round_run(t);
	}
	OK(w.cuStreamSynchronize(t->stream));
	for (unsigned i = 0; i < KEPT; i++) {
		work_expect(&w, t->p[i], t->n[i], t->value[i]);
		OK(w.cuMemFree_v2(t->p[i]));
	}
	OK(w.cuStreamDestroy_v2(t->stream));
	return NULL;
}

static void
threads_run(unsigned host_mib)
{
	static struct thread threads[THREADS];

	work_start(&w, 12, host_mib);
	for (unsigned i = 0; i < THREADS; i++) {
		threads[i].number = i + 1;
		CHECK(!pthread_create(&threads[i].id, NULL, thread_run, &threads[i]));
	}
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i].id, NULL));
	work_end(&w);
}

/* 0, 1 or 77: in a process of its own. */
static int
setting_run(size_t number)
{
	const struct setting *setting = &settings[number];
	int status;
	pid_t child;

	if (setting->on_disk && !*disk)
		return 0;
	fflush(stdout);
	child = fork();
	if (!child) {
		CHECK(!setenv("SLUICE_RUN", setting->run, 1));
		if (setting->on_disk)
			CHECK(!setenv("SLUICE_SPILL_DIRS", disk, 1));
		threads_run(setting->host_mib);
		exit(0);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	printf("%s, %u MiB of host memory: %d\n", setting->run, setting->host_mib, status);
	return status == 77 ? 77 : status != 0;
}

int
main(int argc, char **argv)
{
	size_t n = sizeof(settings) / sizeof(settings[0]);

	if (argc > 1)
		seed = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		rounds = strtoul(argv[2], NULL, 10);
	if (spill_folder_make(disk, sizeof(disk), "sluice-threads")) {
		*disk = '\0'; /* there is none: what needs it is left out */
		return setting_run(0) | setting_run(1);
	}
	return spill_rows_run(disk, setting_run, n);
}
