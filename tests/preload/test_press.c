/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that allocate and launch while the GPU's memory becomes short. One thread's launch
 * began without a scope, since there was room. Its data are not evicted for another's allocation
 * at the same moment. Each try is a process of its own, since it happens once in one.
 */
#include "scenario.h"
#include "work.h"

#define ROUNDS 6u
#define TRIES  24u

static struct work w;

static int
short_at_once(void)
{
	CHECK(!setenv("CUDA_STANDIN_QUIET", "1", 1));
	work_start(&w, 8, 256);
	work_threads(&w, ROUNDS);
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
