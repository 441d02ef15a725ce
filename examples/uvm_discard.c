/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A temporary buffer as in the UVM Discard paper: produce, consume, discard, again. UvmDiscardLazy
 * leaves the memory mapped, so the next round must revive it with a prefetch before it writes;
 * after UvmDiscard (eager) the write alone would do. Contents in between move nowhere.
 */
#include "sluice/uvm_discard.h"
#include "example.h"

#define COUNT (2 * MIB)
#define BYTES (COUNT * sizeof(uint32_t))

static void
produce(const struct sluice_block *block, void *args)
{
	for (size_t i = block->index.x; i < COUNT; i += block->grid.x)
		(*(uint32_t **)args)[i] = (uint32_t)i;
}

int
main(void)
{
	struct sluice_grid grid = {8, 1, 1};
	struct sluice_space *space;
	void *buffer;

	setenv("SLUICE_DEVICE_BUDGET", "16M", 0); /* uvm_space() reads the environment */
	space = example_default_space(uvm_space());
	CHECK(sluice_alloc(space, BYTES, 0, &buffer)); /* cudaMallocManaged() */
	for (int round = 0; round < 3; round++) {
		CHECK(sluice_prefetch(space, buffer, BYTES, SLUICE_TIER_DEVICE, NULL));
		CHECK(sluice_launch(space, NULL, produce, grid, &buffer, 8, NULL, 0));
		CHECK(sluice_stream_synchronize(space, NULL));
		EXPECT(((uint32_t *)buffer)[COUNT - 1] == COUNT - 1);
		CHECK(UvmDiscardLazy(buffer, BYTES));
	}
	return 0; /* the space is closed at exit */
}
