/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intermediate data that nobody needs afterwards. A VOLATILE mapping has a file only for the worst
 * case: its contents go to host memory when the device is full, to the file when the host is full
 * too, and are dropped at unmap. Here 16 MiB pass through a device of 8 MiB with room enough on
 * the host, so the disk is never touched.
 */
#include "example.h"

#define DATA_BYTES (16 * MIB)
#define COUNT      (DATA_BYTES / sizeof(uint32_t))

int
main(void)
{
	struct sluice_space *space = example_space("device_budget=8M,host_budget=64M");
	struct sluice_stats stats;
	uint32_t *number;
	void *addr;

	EXPECT(!atexit(example_remove_files));
	CHECK(sluice_map(space, "output.bin", 0, DATA_BYTES,
			 SLUICE_READ | SLUICE_WRITE | SLUICE_VOLATILE | SLUICE_CREATE,
			 &addr));
	number = addr;
	for (size_t i = 0; i < COUNT; i++)
		number[i] = (uint32_t)i;
	for (size_t i = 0; i < COUNT; i++) /* the first half has left the device: it comes back */
		EXPECT(number[i] == i);
	CHECK(sluice_unmap(space, addr));

	sluice_stats_get(space, &stats);
	EXPECT(stats.counter[SLUICE_COUNTER_D2H_EVICT] >= DATA_BYTES - 8 * MIB);
	EXPECT(sluice_stats_store_write_bytes(&stats) == 0);
	CHECK(sluice_space_destroy(space));
	return 0;
}
