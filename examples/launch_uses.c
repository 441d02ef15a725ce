/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that say what they use. Each launch doubles 4 MiB; what it declares is brought in before
 * it starts (no faults). READ is dropped later without a copy, WRITE_ALL is never brought in.
 */
#include "example.h"

#define TILE  (4 * MIB)
#define COUNT (TILE / sizeof(uint32_t))

static void
twice(const struct sluice_block *block, void *args)
{
	uint32_t *const *tile = args; /* in, out: the launch's own copy */

	for (size_t i = block->index.x; i < COUNT; i += block->grid.x)
		tile[1][i] = 2 * tile[0][i];
}

int
main(void)
{
	struct sluice_space *s = example_space("device_budget=16M,host_budget=16M");
	struct sluice_grid grid = {4, 1, 1}; /* blocks, run by the worker threads */
	const unsigned flags = SLUICE_WRITE | SLUICE_CREATE;
	void *in, *out;

	example_input(8 * TILE);
	CHECK(sluice_map(s, "input.bin", 0, 0, SLUICE_READ, &in));
	CHECK(sluice_map(s, "output.bin", 0, 8 * TILE, flags, &out));
	for (size_t at = 0; at < 8 * TILE; at += TILE) {
		char *tile[] = {(char *)in + at, (char *)out + at};
		struct sluice_use uses[] = {{tile[0], TILE, SLUICE_USE_READ},
					    {tile[1], TILE, SLUICE_USE_WRITE_ALL}};
		CHECK(sluice_launch(s, NULL, twice, grid, tile, sizeof(tile), uses, 2));
	}
	CHECK(sluice_stream_synchronize(s, NULL)); /* reports what failed in a launch */
	CHECK(sluice_space_destroy(s));            /* flushes and unmaps what is mapped */
	return example_read("output.bin", 8 * COUNT - 1) != 2 * (8 * COUNT - 1);
}
