/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that are too short, under the preload library. A pool's addresses have begun small tensors.
 * Then a large tensor lies there, and its kernels go beyond the part that begins at their address.
 * The stand-in's events tell how long the link would take. So the parts are made longer, until the
 * kernels reach no more host memory.
 */
#include <stdio.h>

#include "scenario.h"
#include "work.h"

#define MIB    ((uint64_t)1 << 20)
#define N      (2 * MIB / sizeof(uint64_t)) /* elements of a small tensor */
#define SMALL  40u
#define FEW    64u /* elements: so that only the link makes kernels slow */
#define LARGE  4u  /* small ones that a large one is as long as */
#define ROUNDS 24u

static struct work w;
static uint64_t expected[SMALL]; /* of the first few elements of each; the others stay 7 */
static uint64_t block;

static uint64_t
at(unsigned i)
{
	return block + i * N * sizeof(uint64_t);
}

/* What else the program does: the large tensors leave the device. */
static void
small_add(unsigned first, uint64_t v)
{
	for (unsigned i = first; i < SMALL; i++) {
		work_launch(&w, WORK_ADD, NULL, at(i), FEW, v);
		expected[i] += v;
	}
}

static void
large_copy(unsigned to, unsigned from)
{
	work_launch(&w, WORK_COPY, NULL, at(to), LARGE * N, at(from));
	for (unsigned i = 0; i < LARGE; i++)
		expected[to + i] = expected[from + i];
}

/* Bytes of host memory that the large kernels have reached. */
static uint64_t
round_run(unsigned round)
{
	uint64_t before;

	small_add(3 * LARGE, round);
	OK(w.cuCtxSynchronize());
	before = w.standin->reached();
	large_copy(round % 2 ? LARGE : 0, round % 2 ? 0 : LARGE);
	OK(w.cuCtxSynchronize());
	return w.standin->reached() - before;
}

static int
program_run(void)
{
	unsigned slow = 0;

	work_start(&w, 64, 256);
	block = work_alloc(&w, SMALL * N, 7);
	for (unsigned i = 0; i < SMALL; i++)
		expected[i] = 7;
	small_add(0, 1);
	small_add(0, 2);
	for (unsigned round = 0; round < ROUNDS; round++)
		slow += round_run(round) > 0;
	for (unsigned i = 0; i < SMALL; i++) {
		work_expect(&w, at(i), FEW, expected[i]);
		work_expect(&w, at(i) + FEW * sizeof(uint64_t), N - FEW, 7);
	}
	OK(w.cuMemFree_v2(block));
	OK(w.cuModuleUnload(w.module));
	work_end(&w);
	printf("%u of %u rounds reached host memory\n", slow, ROUNDS);
	/* At first, and when the parts are tried shorter: then, and once again later. */
	CHECK(slow > 0);
	return slow > ROUNDS / 3;
}

int
main(void)
{
	scenario_open();
	CHECK(!setenv("CUDA_STANDIN_LINK_BYTES_PER_S", "512K", 1));
	if (scenario("pool", program_run, "arguments=trust") != 77)
		scenario_expect("pool", "counters", "parts_grown", 1, UINT64_MAX);
	return scenario_close();
}
