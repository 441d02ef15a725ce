/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that the kernels of an unmodified program only read are copied out once, though each of
 * their arguments may be written. With measure=0 they are copied out each time. Written data are
 * right. The cases are processes of their own; the stand-in's calls count the copies.
 *
 * On a busy machine a hash may be late, and its data are copied. The library counts that, and so
 * much more may be copied out.
 */
#include <inttypes.h>

#include "scenario.h"
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

static void
copies_tell(uint64_t copies)
{
	char path[64];
	FILE *f;

	scenario_path(path, "copies");
	f = fopen(path, "w");
	CHECK(f && fprintf(f, "{ \"copies\": %" PRIu64 " }\n", copies) > 0 && !fclose(f));
}

/* Copies out of ten rounds that change nothing, and of what was written before them. */
static int
program(void)
{
	uint64_t block[BLOCKS], value;
	struct work w;

	work_start(&w, 24, 128);
	for (unsigned i = 0; i < BLOCKS; i++)
		block[i] = work_alloc(&w, WORDS, 100 + i);
	for (int i = 0; i < 10; i++)
		round_run(&w, block, BLOCKS, 0);
	copies_tell(copies_out(&w));
	for (unsigned i = 0; i < 40; i++)
		round_run(&w, block, i % BLOCKS, 1);
	for (unsigned i = 0; i < BLOCKS; i++) {
		OK(w.cuMemcpyDtoHAsync_v2(&value, block[i] + (WORDS - 1) * 8, 8, NULL));
		OK(w.cuCtxSynchronize());
		CHECK(value == 100 + i + (i < 40 % BLOCKS ? 2 : 1));
	}
	work_end(&w);
	return 0;
}

static int
measured(void)
{
	unsetenv("SLUICE_MEASURE");
	return program();
}

static int
not_measured(void)
{
	CHECK(!setenv("SLUICE_MEASURE", "0", 1));
	return program();
}

int
main(void)
{
	uint64_t late;
	int status;

	scenario_open();
	setenv("CUDA_STANDIN_QUIET", "1", 1);
	status = scenario("measured", measured, "arguments=learn");
	if (!status) {
		late = scenario_number("measured", "\"counters\"", "hashes_late");
		if (late)
			printf("%" PRIu64 " chunks went out without a hash\n", late);
		/* Each goes out when it has been written, and once more: there is nothing yet to compare its
		 * hash with. When is a matter of time, since some stay for rounds. So it is with what
		 * goes out later without a hash. Some launches are peeked into. Half as much again is
		 * allowed for that; without hashes it were five times as much. */
		scenario_expect("copies", "{", "copies", BLOCKS, 3 * (BLOCKS + late));
	}
	if (status != 77) {
		status = scenario("not measured", not_measured, "arguments=learn");
		if (!status)
			scenario_expect("copies", "{", "copies", 10 * BLOCKS / 2, UINT64_MAX);
	}
	return scenario_close() ? 1 : status;
}
