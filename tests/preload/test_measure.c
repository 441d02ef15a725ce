/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernels of an unmodified program only read goes out once, though each of their arguments may
 * be written for all that is known; with measure=0 it goes out each time. And what they do write is
 * right. In processes of their own; what is copied is counted by the stand-in's calls.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "work.h"

#define BLOCKS 24u
#define WORDS  ((uint64_t)(2 << 20) / 8)

static uint64_t
copies_out(const struct work *w)
{
	OK(w->cuCtxSynchronize());
	return w->standin->calls("cuMemcpyDtoHAsync_v2");
}

/* Twice what the device holds, in turn. written: this block is, by that much. */
static void
round_run(const struct work *w, const uint64_t *block, unsigned written, uint64_t by)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		work_launch(w, WORK_ADD, NULL, block[i], WORDS, i == written ? by : 0);
}

/* Copies out of six rounds, when all has gone in and out a few times. */
static void
program(int measured)
{
	uint64_t block[BLOCKS], before, value;
	struct work w;

	work_start(&w, 24, 128);
	for (unsigned i = 0; i < BLOCKS; i++)
		block[i] = work_alloc(&w, WORDS, 100 + i);
	for (int i = 0; i < 4; i++)
		round_run(&w, block, BLOCKS, 0);
	before = copies_out(&w);
	for (int i = 0; i < 6; i++)
		round_run(&w, block, BLOCKS, 0);
	if (measured)
		CHECK(copies_out(&w) <= before + 1); /* the 128th launch is peeked into */
	else
		CHECK(copies_out(&w) >= before + 6 * BLOCKS / 2);
	for (unsigned i = 0; i < 40; i++)
		round_run(&w, block, i % BLOCKS, 1);
	for (unsigned i = 0; i < BLOCKS; i++) {
		OK(w.cuMemcpyDtoHAsync_v2(&value, block[i] + (WORDS - 1) * 8, 8, NULL));
		OK(w.cuCtxSynchronize());
		CHECK(value == 100 + i + (i < 40 % BLOCKS ? 2 : 1));
	}
	work_end(&w);
	exit(0);
}

static int
status_of(const char *measure)
{
	int status = 0;
	pid_t child = fork();

	if (!child) {
		if (measure)
			setenv("SLUICE_MEASURE", measure, 1);
		else
			unsetenv("SLUICE_MEASURE");
		setenv("CUDA_STANDIN_QUIET", "1", 1);
		program(!measure);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

int
main(void)
{
	int status = status_of(NULL);

	if (status != 77)
		CHECK(status == 0 && status_of("0") == 0);
	return status;
}
