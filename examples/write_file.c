/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Make a new file of 48 MiB by writing to memory, with 16 MiB resident. WRITE without READ says
 * that old contents do not matter: nothing is read from the disk first. What is finished is
 * written back in the background; sluice_sync() returns when data and size are on the medium.
 */
#include "example.h"

#define FILE_BYTES (48 * MIB)
#define COUNT      (FILE_BYTES / sizeof(uint32_t))

int
main(void)
{
	struct sluice_space *space = example_space("device_budget=16M,host_budget=16M");
	struct sluice_stats stats;
	uint32_t *number;
	void *addr;

	EXPECT(!atexit(example_remove_files));
	CHECK(sluice_map(space, "output.bin", 0, FILE_BYTES, SLUICE_WRITE | SLUICE_CREATE,
			 &addr));
	number = addr;
	for (size_t i = 0; i < COUNT; i++)
		number[i] = (uint32_t)(i * 7);

	/* From here a power cut loses nothing. Errors of earlier write-backs appear here too. */
	CHECK(sluice_sync(space, addr, FILE_BYTES));
	EXPECT(example_read("output.bin", COUNT - 1) == (uint32_t)((COUNT - 1) * 7));

	sluice_stats_get(space, &stats);
	EXPECT(sluice_stats_store_read_bytes(&stats) == 0);

	CHECK(sluice_unmap(space, addr)); /* would have flushed as well */
	CHECK(sluice_space_destroy(space));
	return 0;
}
