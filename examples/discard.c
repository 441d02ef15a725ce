/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Say when contents are dead. A buffer of 8 MiB fills the device and is used up; then a file
 * streams through. Without the discard, making room would copy 8 MiB of rubbish to the host. With
 * it, nothing is copied. Eager: a later touch is seen and gives zeros; the memory stays allocated.
 * In a stream of launches use SLUICE_DISCARD_LAZY, which costs almost nothing, and let the next
 * launch declare WRITE_ALL.
 */
#include <string.h>

#include "example.h"

int
main(void)
{
	struct sluice_space *space = example_space("device_budget=8M,host_budget=32M");
	struct sluice_stats stats;
	uint64_t sum = 0;
	void *buffer, *file;

	example_input(16 * MIB);
	CHECK(sluice_alloc(space, 8 * MIB, 0, &buffer));
	memset(buffer, 1, 8 * MIB); /* stands for a result that has been consumed */
	sluice_stats_reset(space);
	CHECK(sluice_discard(space, buffer, 8 * MIB, SLUICE_DISCARD_EAGER, NULL));

	CHECK(sluice_map(space, "input.bin", 0, 0, SLUICE_READ, &file));
	for (size_t i = 0; i < 16 * MIB / sizeof(uint32_t); i++)
		sum += ((uint32_t *)file)[i];

	sluice_stats_get(space, &stats);
	EXPECT(sluice_stats_d2h_bytes(&stats) == 0);
	EXPECT(stats.counter[SLUICE_COUNTER_DISCARD_SAVED] == 8 * MIB);
	EXPECT(((char *)buffer)[4096] == 0);
	EXPECT(sum == (uint64_t)(4 * MIB) * (4 * MIB - 1) / 2);
	CHECK(sluice_space_destroy(space));
	return 0;
}
