/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a large block, under the preload library: a program keeps its data in one block of more
 * than the device's memory. Kernels that use the part at their address, kernels that go far beyond
 * it, addresses that never come again, and arguments whose meaning changes all give the right words.
 * A new block is a workspace: its kernels have all of it on the device, in one part or in two. Parts of
 * a block that is made anew each time are those of the time before.
 */
#include "work.h"

#define MIB    ((uint64_t)1 << 20)
#define N      (2 * MIB / sizeof(uint64_t)) /* elements of a part */
#define PARTS  40u
#define ROUNDS 12u

static struct work w;
static uint64_t expected[PARTS];
static uint64_t block;

static uint64_t
part_at(unsigned i)
{
	return block + i * N * sizeof(uint64_t);
}

/* A kernel that adds v to so many parts from part i on. */
static void
parts_add(unsigned i, unsigned n, uint64_t v)
{
	work_launch(&w, WORK_ADD, NULL, part_at(i), n * N, v);
	for (unsigned k = i; k < i + n; k++)
		expected[k] += v;
}

/* In the same order each time; some kernels go beyond what is taken for their part. */
static void
round_run(unsigned round)
{
	for (unsigned i = 0; i < PARTS; i++) {
		parts_add(i, 1, round + 1);
		if (round > 2 && i % 7 == 0)
			parts_add(i, PARTS - i < 5 ? PARTS - i : 5, 3);
	}
	/* A place that moves: one element, added to and taken back. */
	work_launch(&w, WORK_ADD, NULL, part_at(3) + (round + 1) * 512, 1, 1);
	work_launch(&w, WORK_ADD, NULL, part_at(3) + (round + 1) * 512, 1, UINT64_MAX);
}

/* The number to add is an address in the block, of another part each time; what was copied from is copied to. */
static void
arguments_change_their_meaning(void)
{
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < PARTS; i++) {
			unsigned other = (i + 7 * round + 1) % PARTS;
			unsigned to = round % 2 ? i : other, from = round % 2 ? other : i;

			parts_add(i, 1, part_at((i * 11 + round) % PARTS));
			work_launch(&w, WORK_COPY, NULL, part_at(to), N, part_at(from));
			expected[to] = expected[from];
		}
	}
}

/* One kernel writes it, the next ones read and write it. Other data are used in between. */
static void
workspaces_are_on_the_device(void)
{
	uint64_t data = work_alloc(&w, 6 * N, 1), reached = w.standin->reached();

	for (unsigned round = 0; round < 4; round++) {
		uint64_t workspace;

		work_launch(&w, WORK_ADD, NULL, data, 6 * N, 1);
		OK(w.cuMemAlloc_v2(&workspace, 9 * N * sizeof(uint64_t)));
		work_launch(&w, WORK_COPY, NULL, workspace, 6 * N, data);
		for (unsigned i = 0; i < 4; i++)
			work_launch(&w, WORK_ADD, NULL, workspace, 9 * N, 1);
		work_expect(&w, workspace, 6 * N, round + 6);
		OK(w.cuMemFree_v2(workspace));
	}
	work_expect(&w, data, 6 * N, 5);
	CHECK(w.standin->reached() == reached);
	OK(w.cuMemFree_v2(data));
}

/* A fill and a kernel write its first part, of more than half of the device's memory. Another kernel writes the second
 * one. The last ones use both. The data that they read fit beside it. */
static void
workspaces_of_two_parts_are_on_the_device(void)
{
	uint64_t other = work_alloc(&w, 6 * N, 1), data = work_alloc(&w, 2 * N, 1);
	uint64_t reached = w.standin->reached();

	for (unsigned round = 0; round < 4; round++) {
		uint64_t workspace, second;

		work_launch(&w, WORK_ADD, NULL, other, 6 * N, 1);
		work_launch(&w, WORK_ADD, NULL, data, 2 * N, 1);
		OK(w.cuMemAlloc_v2(&workspace, 13 * N * sizeof(uint64_t)));
		second = workspace + 9 * N * sizeof(uint64_t);
		OK(w.cuMemsetD8Async(workspace, 0, 9 * N * sizeof(uint64_t), NULL));
		work_launch(&w, WORK_COPY, NULL, workspace, 2 * N, data);
		work_launch(&w, WORK_COPY, NULL, second, 2 * N, data);
		for (unsigned i = 0; i < 3; i++)
			work_launch(&w, WORK_COPY, NULL, workspace, 2 * N, second);
		work_launch(&w, WORK_ADD, NULL, workspace, 13 * N, 1);
		work_expect(&w, workspace, 2 * N, round + 3);
		work_expect(&w, second, 2 * N, round + 3);
		OK(w.cuMemFree_v2(workspace));
	}
	work_expect(&w, other, 6 * N, 5);
	CHECK(w.standin->reached() == reached);
	OK(w.cuMemFree_v2(data));
	OK(w.cuMemFree_v2(other));
}

/* Larger than the device, and a kernel adds to one part after the other: each is brought in for it. */
static void
parts_of_a_block_made_anew_are_known(void)
{
	for (unsigned round = 0; round < 4; round++) {
		uint64_t reached = w.standin->reached();

		block = work_alloc(&w, 20 * N, 1);
		for (unsigned i = 0; i < 20; i++)
			for (unsigned k = 0; k < 6; k++)
				work_launch(&w, WORK_ADD, NULL, part_at(i), N, 1);
		OK(w.cuCtxSynchronize());
		CHECK(round < 2 || w.standin->reached() == reached);
		for (unsigned i = 0; i < 20; i++)
			work_expect(&w, part_at(i), N, 7);
		OK(w.cuMemFree_v2(block));
	}
}

int
main(void)
{
	CHECK(!setenv("SLUICE_RUN", "quiet=1,arguments=trust", 1));
	work_start(&w, 32, 256);
	block = work_alloc(&w, PARTS * N, 7);
	for (unsigned i = 0; i < PARTS; i++)
		expected[i] = 7;
	for (unsigned round = 0; round < ROUNDS; round++)
		round_run(round);
	arguments_change_their_meaning();
	OK(w.cuCtxSynchronize());
	for (unsigned i = 0; i < PARTS; i++)
		work_expect(&w, part_at(i), N, expected[i]);
	OK(w.cuMemFree_v2(block));
	workspaces_are_on_the_device();
	workspaces_of_two_parts_are_on_the_device();
	parts_of_a_block_made_anew_are_known();
	OK(w.cuModuleUnload(w.module));
	work_end(&w);
	return 0;
}
