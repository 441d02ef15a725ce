/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See what happened: exact counters by cause, and where each region is. `sluice stat PID` shows
 * the same of a running program that was started with SLUICE_PUBLISH=1.
 */
#include <inttypes.h>

#include "example.h"

int
main(void)
{
	struct sluice_space *space = example_space("device_budget=16M,host_budget=16M");
	struct sluice_region_info region;
	struct sluice_stats stats;
	uint64_t sum = 0;
	size_t n_regions;
	void *addr;

	example_input(32 * MIB);
	CHECK(sluice_map(space, "input.bin", 0, 0, SLUICE_READ, &addr));
	for (size_t i = 0; i < 32 * MIB / sizeof(uint32_t); i++)
		sum += ((uint32_t *)addr)[i];
	sluice_stats_get(space, &stats);
	for (int c = 0; c < SLUICE_COUNTER_COUNT; c++)
		if (stats.counter[c])
			printf("%-20s %12" PRIu64 " %s (%s)\n", sluice_counter_name(c),
			       stats.counter[c], sluice_counter_unit(c),
			       sluice_counter_text(c));

	CHECK(sluice_regions(space, &region, 1, &n_regions));
	printf("%s: %" PRIu64 " bytes on the device\n", region.name, region.bytes.device);
	EXPECT(n_regions == 1 && region.size_bytes == 32 * MIB);
	EXPECT(sluice_stats_store_read_bytes(&stats) == 32 * MIB); /* each byte once */
	EXPECT(stats.resident_peak_bytes[SLUICE_TIER_DEVICE] <= 16 * MIB);
	EXPECT(sum == (uint64_t)(8 * MIB) * (8 * MIB - 1) / 2);
	CHECK(sluice_space_destroy(space));
	return 0;
}
