/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host tier: what it caches, in which order it gives room, its reserve, background write-back,
 * and budgets that change at run time; on the software device.
 */
#include "api.h"
#include "core/types.h"

#include <errno.h>
#include <string.h>

static void
data_that_left_the_device_are_read_from_the_store_once(void)
{
	struct sluice_space *s = space_make("host_budget=64M");
	const char *path = file_make("f", 24 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ);

	for (int pass = 0; pass < 3; pass++) {
		for (uint64_t i = 0; i < 24; i++)
			use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	}
	space_sync(s);
	CHECK_EQ(store_reads(s), 24 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_H2D_LAUNCH), 3 * 24 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_REFETCH), 2 * 24 * CHUNK);
	CHECK_EQ(d2h(s), 0);
	CHECK_EQ(resident(s, SLUICE_TIER_HOST), 24 * CHUNK);
	space_end(s);
}

static void
without_a_host_tier_every_pass_reads_the_store(void)
{
	struct sluice_space *s = space_make("host_budget=0");
	const char *path = file_make("f", 24 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ);

	for (int pass = 0; pass < 3; pass++) {
		for (uint64_t i = 0; i < 24; i++)
			use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	}
	space_sync(s);
	CHECK_EQ(store_reads(s), 3 * 24 * CHUNK);
	CHECK_EQ(resident_peak(s, SLUICE_TIER_HOST), 0);
	space_end(s);
}

static void
copy_of_what_is_on_the_device_goes_before_the_only_copy(void)
{
	struct sluice_space *s = space_make("device_budget=4M,host_budget=4M");
	const char *path = file_make("f", 8 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ);

	for (uint64_t i = 0; i < 4; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	space_sync(s); /* device: 2, 3; host: 0 (the oldest it was alone with), and 3's copy */
	CHECK_EQ(residency(s, p, CHUNK).tier_bytes[SLUICE_TIER_HOST], CHUNK);
	CHECK_EQ(residency(s, at_chunk(p, 1), CHUNK).tier_bytes[SLUICE_TIER_STORE], CHUNK);
	use(s, p, CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(store_reads(s), 4 * CHUNK);
	CHECK_EQ(resident_peak(s, SLUICE_TIER_HOST), 2 * CHUNK);
	space_end(s);
}

static void
clean_frames_make_room_before_dirty_ones_are_written(void)
{
	struct sluice_space *s = space_make(
		"device_budget=4M,host_budget=8M,writeback=8M");
	const char *path = file_make("f", 16 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	use(s, p, CHUNK, SLUICE_USE_READ_WRITE);
	use(s, at_chunk(p, 1), CHUNK, SLUICE_USE_READ_WRITE);
	for (uint64_t i = 2; i < 16; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	space_sync(s);
	CHECK_EQ(store_writes(s), 0);
	CHECK_EQ(residency(s, p, 2 * CHUNK).tier_bytes[SLUICE_TIER_HOST], 2 * CHUNK);
	CHECK_EQ(residency(s, p, 2 * CHUNK).dirty_bytes, 2 * CHUNK);
	CHECK(resident_peak(s, SLUICE_TIER_HOST) <= 4 * CHUNK);
	space_end(s);
}

static void
file_data_beyond_the_write_back_threshold_are_written_in_the_background(void)
{
	struct sluice_space *s = space_make(
		"device_budget=4M,host_budget=32M,writeback=4M");
	const char *path = file_make("f", 12 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	for (uint64_t i = 0; i < 12; i++)
		launch(s, KERNEL_FILL, at_chunk(p, i), CHUNK, SLUICE_USE_WRITE_ALL, 2);
	space_sync(s); /* 10 left the device, 2 may stay dirty */
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_WRITE_BACK), 8 * CHUNK);
	CHECK_EQ(residency(s, p, 12 * CHUNK).dirty_bytes, 4 * CHUNK);
	CHECK_EQ(residency(s, p, 10 * CHUNK).tier_bytes[SLUICE_TIER_HOST], 10 * CHUNK);
	CHECK(sluice_sync(s, p, SLUICE_TO_END) == 0);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_WRITE_SYNC), 4 * CHUNK);
	for (uint64_t i = 0; i < 12; i++)
		memory_expect(at_chunk(p, i), CHUNK, 2);
	space_end(s);
}

static void
nothing_is_written_in_the_background_below_the_threshold(void)
{
	struct sluice_space *s = space_make(
		"device_budget=4M,host_budget=32M,writeback=32M");
	const char *path = file_make("f", 12 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	for (uint64_t i = 0; i < 12; i++)
		use(s, at_chunk(p, i), CHUNK, SLUICE_USE_WRITE_ALL);
	space_sync(s);
	CHECK_EQ(store_writes(s), 0);
	CHECK_EQ(residency(s, p, 12 * CHUNK).dirty_bytes, 12 * CHUNK);
	space_end(s);
}

/* Bytes spilled when 12 chunks pass through 2 on the device and this much host memory. */
static uint64_t
spilled_with(const char *config)
{
	struct sluice_space *s = space_make(config);
	char *p = region_alloc(s, 12 * CHUNK);
	uint64_t bytes;

	for (uint64_t i = 0; i < 12; i++)
		launch(s, KERNEL_FILL, at_chunk(p, i), CHUNK, SLUICE_USE_WRITE_ALL, i);
	space_sync(s);
	bytes = counter(s, SLUICE_COUNTER_STORE_WRITE_SPILL);
	for (uint64_t i = 0; i < 12; i++)
		memory_expect(at_chunk(p, i), CHUNK, i);
	space_end(s);
	return bytes;
}

static void
volatile_data_leave_the_reserve_free(void)
{
	CHECK_EQ(spilled_with("device_budget=4M,host_budget=16M"), 2 * CHUNK);
	CHECK_EQ(spilled_with("device_budget=4M,host_budget=16M,host_reserve=2M"), 3 * CHUNK);
	CHECK_EQ(spilled_with("device_budget=4M,host_budget=16M,host_reserve=8M"), 6 * CHUNK);
	CHECK_EQ(spilled_with("device_budget=4M,host_budget=16M,host_reserve=16M"),
		 10 * CHUNK);
	CHECK_EQ(spilled_with("device_budget=4M,host_budget=0"), 10 * CHUNK);
	CHECK_EQ(spilled_with("device_budget=4M,host_budget=20M"), 0);
}

/* The reserve asks for 10 chunks in the store, which has room for 3. */
static void
the_reserve_stays_in_use_while_the_store_is_full(void)
{
	struct sluice_space *s = space_make(
		"device_budget=4M,host_budget=16M,host_reserve=16M,store_budget=6M");
	char *p = region_alloc(s, 12 * CHUNK);

	for (int pass = 0; pass < 3; pass++) {
		for (uint64_t i = 0; i < 12; i++)
			launch(s, KERNEL_FILL, at_chunk(p, i), CHUNK,
			       SLUICE_USE_WRITE_ALL, i + (uint64_t)pass);
		space_sync(s);
		for (uint64_t i = 0; i < 12; i++)
			memory_expect(at_chunk(p, i), CHUNK, i + (uint64_t)pass);
	}
	CHECK_EQ(counter(s, SLUICE_COUNTER_IO_ERRORS), 0);
	CHECK_EQ(s->regions[0]->write_failures, 0);
	space_end(s);
}

static void
spilled_data_that_only_get_read_are_not_spilled_again(void)
{
	struct sluice_space *s = space_make("device_budget=4M,host_budget=4M");
	char *p = region_alloc(s, 12 * CHUNK);

	for (uint64_t i = 0; i < 12; i++)
		launch(s, KERNEL_FILL, at_chunk(p, i), CHUNK, SLUICE_USE_WRITE_ALL, i);
	for (int pass = 0; pass < 3; pass++) {
		for (uint64_t i = 0; i < 12; i++)
			use(s, at_chunk(p, i), CHUNK, SLUICE_USE_READ);
	}
	space_sync(s);
	CHECK(counter(s, SLUICE_COUNTER_STORE_WRITE_SPILL) <= 12 * CHUNK);
	CHECK(resident(s, SLUICE_TIER_STORE) <= 12 * CHUNK);
	for (uint64_t i = 0; i < 12; i++)
		memory_expect(at_chunk(p, i), CHUNK, i);
	space_end(s);
}

static void
staging_is_given_back_when_all_is_quiet(void)
{
	struct sluice_space *s = space_make("device_budget=4M,host_budget=4M");
	struct sluice_stats st;
	char *p = region_alloc(s, 12 * CHUNK);

	memory_fill(p, 12 * CHUNK, 1);
	memory_expect(p, 12 * CHUNK, 1);
	CHECK(sluice_evict(s, p, 12 * CHUNK, SLUICE_TIER_STORE, NULL) == 0);
	sluice_stats_get(s, &st);
	CHECK_EQ(st.staging_bytes, 0);
	CHECK_EQ(st.resident_bytes[SLUICE_TIER_DEVICE], 0);
	CHECK_EQ(st.resident_bytes[SLUICE_TIER_HOST], 0);
	CHECK_EQ(st.resident_bytes[SLUICE_TIER_STORE], 12 * CHUNK);
	space_end(s);
}

static void
budgets_can_shrink_and_grow_while_data_live_in_the_tiers(void)
{
	struct sluice_space *s = space_make("device_budget=16M,host_budget=32M");
	char *p = region_alloc(s, 20 * CHUNK);

	for (uint64_t i = 0; i < 20; i++)
		launch(s, KERNEL_FILL, at_chunk(p, i), CHUNK, SLUICE_USE_WRITE_ALL, i);
	space_sync(s);
	CHECK_EQ(store_writes(s), 0);
	CHECK(sluice_space_set_budget(s, SLUICE_TIER_DEVICE, 4 * MIB) == 0);
	CHECK_EQ(resident(s, SLUICE_TIER_DEVICE), 2 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_D2H_REQUEST), 6 * CHUNK);
	CHECK(sluice_space_set_budget(s, SLUICE_TIER_HOST, 8 * MIB) == 0);
	CHECK_EQ(resident(s, SLUICE_TIER_HOST), 4 * CHUNK);
	CHECK_EQ(counter(s, SLUICE_COUNTER_STORE_WRITE_SPILL), 14 * CHUNK);
	CHECK(sluice_space_check(s) == 0);
	CHECK(sluice_space_set_budget(s, SLUICE_TIER_HOST, 0) == 0);
	CHECK_EQ(resident(s, SLUICE_TIER_HOST), 0);
	CHECK(sluice_space_set_budget(s, SLUICE_TIER_HOST, 64 * MIB) == 0);
	CHECK(sluice_space_set_budget(s, SLUICE_TIER_DEVICE, 40 * MIB + 5) == 0);
	for (uint64_t i = 0; i < 20; i++)
		memory_expect(at_chunk(p, i), CHUNK, i);
	CHECK_EQ(residency(s, p, 20 * CHUNK).tier_bytes[SLUICE_TIER_DEVICE], 20 * CHUNK);
	space_end(s);
}

static void
device_budget_below_what_is_pinned_changes_nothing(void)
{
	struct sluice_space *s = space_make("");
	struct sluice_config config;
	char *p = region_alloc(s, 8 * CHUNK);

	CHECK(sluice_pin(s, p, 4 * CHUNK) == 0);
	CHECK_FAILS(sluice_space_set_budget(s, SLUICE_TIER_DEVICE, 3 * CHUNK), -ENOBUFS,
		    "pinned");
	CHECK_FAILS(sluice_space_set_budget(s, SLUICE_TIER_DEVICE, CHUNK), -ENOBUFS,
		    "two chunks");
	sluice_space_config(s, &config);
	CHECK_EQ(config.device_budget_bytes, 16 * MIB);
	CHECK(sluice_unpin(s, p, 4 * CHUNK) == 0);
	space_end(s);
}

static const struct api_case cases[] = {
	CASE(data_that_left_the_device_are_read_from_the_store_once),
	CASE(without_a_host_tier_every_pass_reads_the_store),
	CASE(copy_of_what_is_on_the_device_goes_before_the_only_copy),
	CASE(clean_frames_make_room_before_dirty_ones_are_written),
	CASE(file_data_beyond_the_write_back_threshold_are_written_in_the_background),
	CASE(nothing_is_written_in_the_background_below_the_threshold),
	CASE(volatile_data_leave_the_reserve_free),
	CASE(the_reserve_stays_in_use_while_the_store_is_full),
	CASE(spilled_data_that_only_get_read_are_not_spilled_again),
	CASE(staging_is_given_back_when_all_is_quiet),
	CASE(budgets_can_shrink_and_grow_while_data_live_in_the_tiers),
	CASE(device_budget_below_what_is_pinned_changes_nothing),
};
API_MAIN(cases)
