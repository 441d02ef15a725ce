/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of a table by index, as in a mini-batch. The next batch's indices are known early: the
 * chunks they lie in are fetched, each once and in the background, while the program goes on.
 */
#include "example.h"

enum { ROW = 1024, BATCH = 64 }; /* numbers in a row, rows in a batch */
static uint64_t row[BATCH];

static void
look_up(const struct sluice_block *block, void *args)
{
	uint64_t first = row[block->index.x] * ROW;

	EXPECT((*(uint32_t **)args)[first] == first);
}

int
main(void)
{
	struct sluice_space *space = example_space("device_budget=16M,host_budget=16M");
	const enum sluice_tier device = SLUICE_TIER_DEVICE;
	struct sluice_grid grid = {BATCH, 1, 1};
	struct sluice_residency where;
	void *table;

	example_input(32 * MIB); /* 8192 rows */
	CHECK(sluice_map(space, "input.bin", 0, 0, SLUICE_READ, &table));
	for (size_t i = 0; i < BATCH; i++)
		row[i] = i % 4 * 2048 + i; /* they lie in 4 of the 16 chunks of 2 MiB */
	CHECK(sluice_prefetch_index(space, table, 4 * ROW, row, BATCH, device, NULL));

	/* No uses declared: what is not there yet is brought in when the kernel touches it. */
	CHECK(sluice_launch(space, NULL, look_up, grid, &table, sizeof(table), NULL, 0));
	CHECK(sluice_stream_synchronize(space, NULL));
	CHECK(sluice_residency(space, table, 2 * MIB, &where));
	EXPECT(where.tier_bytes[device] == 2 * MIB);
	return sluice_space_destroy(space) != 0;
}
