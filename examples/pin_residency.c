/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keep what is used all the time on the device, and ask where data are. The first 4 MiB of a file
 * are pinned; the rest streams past them through what the budget leaves. Unpinned data may be
 * evicted again, or be sent out on request.
 */
#include "example.h"

#define HOT_BYTES (4 * MIB)

int
main(void)
{
	struct sluice_space *space = example_space("device_budget=16M,host_budget=16M");
	struct sluice_residency where;
	uint64_t sum = 0;
	void *addr;

	example_input(64 * MIB);
	CHECK(sluice_map(space, "input.bin", 0, 0, SLUICE_READ, &addr));
	CHECK(sluice_pin(space, addr, HOT_BYTES)); /* fetched on return; pins count */
	for (size_t i = 0; i < 64 * MIB / sizeof(uint32_t); i++)
		sum += ((uint32_t *)addr)[i];
	EXPECT(sum == (uint64_t)(16 * MIB) * (16 * MIB - 1) / 2);

	CHECK(sluice_residency(space, addr, HOT_BYTES, &where)); /* still there */
	EXPECT(where.tier_bytes[SLUICE_TIER_DEVICE] == HOT_BYTES);
	EXPECT(where.pinned_bytes == HOT_BYTES && where.dirty_bytes == 0);

	CHECK(sluice_unpin(space, addr, HOT_BYTES));
	CHECK(sluice_evict(space, addr, HOT_BYTES, SLUICE_TIER_STORE, NULL)); /* done on return */
	CHECK(sluice_residency(space, addr, HOT_BYTES, &where));
	EXPECT(where.tier_bytes[SLUICE_TIER_STORE] == HOT_BYTES);
	CHECK(sluice_space_destroy(space));
	return 0;
}
