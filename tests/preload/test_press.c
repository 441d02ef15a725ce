/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that allocate and launch while the GPU's memory becomes short. One thread's launch
 * began without a scope, since there was room. Its data are not evicted for another's allocation
 * at the same moment. Each try is a process of its own, since it happens once in one.
 */
#include <pthread.h>

#include "scenario.h"
#include "work.h"

#define MIB     ((uint64_t)1 << 20)
#define N       (MIB / sizeof(uint64_t))
#define THREADS 4u
#define ROUNDS  6u
#define BLOCKS  3u /* MiB of each thread; 8 are there */
#define TRIES   24u

static struct work w;

static void *
thread_run(void *arg)
{
	struct cu_stream *stream;
	uint64_t p;

	(void)arg;
	OK(w.cuCtxSetCurrent(w.context));
	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	for (unsigned i = 0; i < ROUNDS; i++) {
		OK(w.cuMemAlloc_v2(&p, BLOCKS * MIB));
		work_launch(&w, WORK_ADD, stream, p, N, 1);
		OK(w.cuStreamSynchronize(stream));
		OK(w.cuMemFree_v2(p));
	}
	OK(w.cuStreamDestroy_v2(stream));
	return NULL;
}

static int
short_at_once(void)
{
	pthread_t thread[THREADS];

	CHECK(!setenv("CUDA_STANDIN_QUIET", "1", 1));
	work_start(&w, 8, 256);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&thread[i], NULL, thread_run, NULL));
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(!pthread_join(thread[i], NULL));
	work_end(&w);
	return 0;
}

int
main(void)
{
	int status = 0;

	scenario_open();
	for (unsigned i = 0; i < TRIES && !status; i++)
		status = scenario("short at once", short_at_once, "arguments=trust");
	return scenario_close() ? 1 : status;
}
