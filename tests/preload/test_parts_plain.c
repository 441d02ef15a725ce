/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that are used where they are, under the preload library. The learner tries each strategy,
 * also the one without prefetching: absent parts are read over the link then. A block that has no
 * parts is brought in for the same launch.
 */
#include <stdio.h>

#include "scenario.h"
#include "work.h"

#define MIB        ((uint64_t)1 << 20)
#define N          (MIB / sizeof(uint64_t)) /* elements of a part */
#define PARTS      40u
#define ROUNDS_MAX 4000u

static struct work w;
static uint64_t expected[PARTS];
static uint64_t block, small;

static uint64_t
part_at(unsigned i)
{
	return block + i * N * sizeof(uint64_t);
}

/* Each part is used, and one of them together with the small block. Bytes of host memory reached. */
static uint64_t
round_run(unsigned round)
{
	uint64_t before = w.standin->reached();
	unsigned copied = PARTS / 2;

	for (unsigned i = 0; i < PARTS; i++) {
		work_launch(&w, WORK_ADD, NULL, part_at(i), N, round + 1);
		expected[i] += round + 1;
	}
	work_launch(&w, WORK_COPY, NULL, part_at(copied), N, small);
	expected[copied] = 5;
	OK(w.cuCtxSynchronize());
	return w.standin->reached() - before;
}

static int
program_run(void)
{
	unsigned plain = 0, round = 0;

	work_start(&w, 16, 128);
	block = work_alloc(&w, PARTS * N, 7);
	small = work_alloc(&w, N, 5);
	for (unsigned i = 0; i < PARTS; i++)
		expected[i] = 7;
	/* Three rounds of a trial may be without prefetching. */
	for (; plain < 3 && round < ROUNDS_MAX; round++)
		plain += round_run(round) > PARTS / 2 * N * sizeof(uint64_t);
	for (unsigned i = 0; i < PARTS; i++)
		work_expect(&w, part_at(i), N, expected[i]);
	OK(w.cuMemFree_v2(small));
	OK(w.cuMemFree_v2(block));
	OK(w.cuModuleUnload(w.module));
	work_end(&w);
	printf("%u of %u rounds were without prefetching\n", plain, round);
	return plain < 1;
}

int
main(void)
{
	scenario_open();
	/* The times of kernels tell whether they read parts once. A busy machine tells nothing. */
	CHECK(!setenv("CUDA_STANDIN_LINK_BYTES_PER_S", "50G", 1));
	if (scenario("plain", program_run, "arguments=trust") != 77)
		scenario_expect("plain", "counters", "follows_idle", 1, UINT64_MAX);
	return scenario_close();
}
