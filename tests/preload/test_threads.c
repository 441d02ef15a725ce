/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that work beside each other with short memory, each on blocks and streams of its own.
 * They allocate and free while others launch, get room that others have just freed, make streams
 * and destroy them. Meanwhile the driver runs out of memory, and the budget is made smaller.
 * Each thread's data must be right in the end, and none may wait for ever. Mainly a program for
 * the thread sanitizer.
 */
#include "work.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"

#define THREADS 4u
#define KEPT    5u /* blocks of a thread; all together are twice the device budget */
#define ROUNDS  60u
#define N_MAX   ((uint64_t)1 << 17)
#define WAYS    4u

static struct work w;
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
	sl_rng_init(&t->rng, t->number);
	stream_renew(t);
	for (unsigned i = 0; i < KEPT; i++) {
		t->value[i] = t->number * 100 + i;
		t->n[i] = N_MAX;
		t->p[i] = work_alloc(&w, t->n[i], t->value[i]);
	}
	for (unsigned round = 0; round < ROUNDS; round++) {
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
threads_run(void)
{
	static struct thread threads[THREADS];

	work_start(&w, 12, 128);
	for (unsigned i = 0; i < THREADS; i++) {
		threads[i].number = i + 1;
		CHECK(!pthread_create(&threads[i].id, NULL, thread_run, &threads[i]));
	}
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i].id, NULL));
	work_end(&w);
}

int
main(void)
{
	/* Settings are read once a process. The first learns of its kernels while all are at work. */
	static const char *const settings[] = {"quiet=1", "quiet=1,arguments=all"};
	int failed = 0;

	for (unsigned i = 0; i < 2; i++) {
		int status;
		pid_t child;

		fflush(stdout);
		child = fork();
		if (!child) {
			CHECK(!setenv("SLUICE_RUN", settings[i], 1));
			threads_run();
			exit(0);
		}
		CHECK(child > 0 && waitpid(child, &status, 0) == child);
		status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (status == 77)
			return 77;
		printf("%s: %d\n", settings[i], status);
		failed |= status != 0;
	}
	return failed;
}
