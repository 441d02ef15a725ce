/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consecutive launches that do not fit, under the preload library: each gets a buffer larger
 * than the device's memory. Small data become resident in its place. They do not take the place
 * of a kernel's data that has not ended, since it may wait for a later launch.
 */
#include <unistd.h>

#include "work.h"

#define MIB   ((uint64_t)1 << 20)
#define N     (2 * MIB / sizeof(uint64_t)) /* elements of what is small */
#define GIANT 20u                          /* times as many */
#define SMALL 8u
#define ROW   80u /* launches */

static struct work w;
static uint64_t giant, small[SMALL];
static struct cu_stream *beside, *running;

/* From the last part of the giant, which nobody writes. */
static void
small_fill(unsigned i)
{
	work_launch(&w, WORK_COPY, beside, small[i], N,
		    giant + (GIANT - 1) * N * sizeof(uint64_t));
}

int
main(void)
{
	uint64_t *gate;
	void *data;

	CHECK(!setenv("SLUICE_RUN", "quiet=1,arguments=trust", 1));
	work_start(&w, 32, 256);
	OK(w.cuStreamCreate(&beside, CU_STREAM_NONBLOCKING));
	OK(w.cuStreamCreate(&running, CU_STREAM_NONBLOCKING));
	OK(w.cuMemHostAlloc(&data, 4096, 0));
	gate = data;
	*gate = 0;
	giant = work_alloc(&w, GIANT * N, 7);
	for (unsigned i = 0; i < SMALL; i++)
		small[i] = work_alloc(&w, N, i);
	for (unsigned i = 0; i < ROW; i++)
		small_fill(i % 2);
	OK(w.cuCtxSynchronize());
	work_launch(&w, WORK_GATE, running, giant, N, (uintptr_t)gate);
	alarm(300); /* it would wait for ever */
	for (unsigned i = 2; i < SMALL; i++)
		small_fill(i);
	OK(w.cuStreamSynchronize(beside));
	alarm(0);
	CHECK(w.cuStreamQuery(running) == CU_ERROR_NOT_READY);
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	OK(w.cuCtxSynchronize());
	work_expect(&w, giant, N, 8);
	work_expect(&w, giant + N * sizeof(uint64_t), (GIANT - 1) * N, 7);
	for (unsigned i = 0; i < SMALL; i++) {
		work_expect(&w, small[i], N, 7);
		OK(w.cuMemFree_v2(small[i]));
	}
	OK(w.cuMemFree_v2(giant));
	OK(w.cuMemFreeHost(data));
	OK(w.cuStreamDestroy_v2(beside));
	OK(w.cuStreamDestroy_v2(running));
	OK(w.cuModuleUnload(w.module));
	work_end(&w);
	return 0;
}
