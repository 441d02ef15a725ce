/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program as in the DRAGON paper: map files, run a kernel on the plain pointers, sync, unmap.
 * The paper's kernels are CUDA; here it is a function launched on the space behind dragon.h.
 */
#include "example.h"
#include "sluice/dragon.h"

#define COUNT (6 * MIB)
#define SIZE  (COUNT * sizeof(uint32_t))

static void
negate(const struct sluice_block *block, void *args)
{
	uint32_t *const *array = args; /* in, out */

	for (size_t i = block->index.x; i < COUNT; i += block->grid.x)
		array[1][i] = -array[0][i];
}

int
main(void)
{
	struct sluice_grid grid = {8, 1, 1};
	struct sluice_space *space;
	void *array[2], **out = &array[1];

	setenv("SLUICE_DEVICE_BUDGET", "16M", 0); /* read by dragon_space() */
	space = example_default_space(dragon_space());
	example_input(SIZE);
	/* File, size, offset, flags. The paper creates no files: D_F_CREATE is its library's. */
	EXPECT(dragon_map("input.bin", SIZE, 0, D_READ, array) == D_OK);
	EXPECT(dragon_map("output.bin", SIZE, 0, D_WRITE | D_F_CREATE, out) == D_OK);
	CHECK(sluice_launch(space, NULL, negate, grid, array, sizeof(array), NULL, 0));
	CHECK(sluice_stream_synchronize(space, NULL)); /* cudaDeviceSynchronize() */
	EXPECT(dragon_sync(array[1], SIZE) == D_OK);   /* now it is on the disk */
	EXPECT(example_read("output.bin", COUNT - 1) == -(uint32_t)(COUNT - 1));
	EXPECT(dragon_unmap(array[0]) == D_OK && dragon_unmap(array[1]) == D_OK);
	return 0;
}
