/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space on a device that has no role (minimal_device.c): launches run on more data than fits its
 * device budget. Where a call needs a role, it says so.
 */
#include "minimal_device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/space_on.h"
#include "sluice/sluice.h"
#include "store/engine.h"

#define CHUNK  ((size_t)2 << 20)
#define CHUNKS 24u
#define BUDGET 4u
#define WORDS  (CHUNK / sizeof(uint64_t))

#define CHECK(condition)                                                        \
	do {                                                                    \
		if (!(condition)) {                                             \
			printf("FAIL line %d: %s (last error: %s)\n", __LINE__, \
			       #condition, sluice_last_error());                \
			exit(1);                                                \
		}                                                               \
	} while (0)

static struct sluice_space *
space_make(void)
{
	struct sl_device_config device = {.address_bytes = (size_t)1 << 30};
	struct sluice_config config;
	struct sluice_space *space;
	struct sl_device *dev;
	struct sl_engine *engine;
	char text[256];

	snprintf(text, sizeof(text),
		 "device_budget=%zu,host_budget=%zu,chunk=%zu,large_chunk=%zu",
		 BUDGET * CHUNK, BUDGET * CHUNK, CHUNK, CHUNK);
	CHECK(sluice_config_init(&config) == 0);
	CHECK(sluice_config_parse(&config, text) == 0);
	snprintf(config.spill_dirs, sizeof(config.spill_dirs), ".");
	config.address_bytes = device.address_bytes;
	CHECK(minimal_device_create(&device, &dev) == 0);
	CHECK(sl_engine_file_create(8, &engine) == 0);
	CHECK(sl_space_create_on(&config, dev, engine, &space) == 0);
	return space;
}

/* One launch a chunk: its words grow by what they are numbered. */
static void
chunks_add(struct sluice_space *space, uint64_t *words)
{
	for (unsigned i = 0; i < CHUNKS; i++) {
		struct sluice_use use = {words + i * WORDS, CHUNK, SLUICE_USE_READ_WRITE};
		struct sluice_launch *launch;

		CHECK(sluice_launch_begin(space, NULL, &use, 1, &launch) == 0);
		for (size_t k = i * WORDS; k < (i + 1) * WORDS; k++)
			words[k] += k;
		sluice_launch_end(launch);
	}
}

static void
launches_run_on_more_data_than_the_device_has_room_for(void)
{
	struct sluice_space *space = space_make();
	struct sluice_stats stats;
	void *words;

	CHECK(sluice_alloc(space, CHUNKS * CHUNK, 0, &words) == 0);
	for (int round = 0; round < 3; round++)
		chunks_add(space, words);
	CHECK(sluice_space_check(space) == 0);
	for (unsigned i = 0; i < CHUNKS; i++) {
		struct sluice_use use = {(uint64_t *)words + i * WORDS, CHUNK,
					 SLUICE_USE_READ};
		struct sluice_launch *launch;

		CHECK(sluice_launch_begin(space, NULL, &use, 1, &launch) == 0);
		for (size_t k = i * WORDS; k < (i + 1) * WORDS; k++)
			CHECK(((uint64_t *)words)[k] == 3 * k);
		sluice_launch_end(launch);
	}
	sluice_stats_get(space, &stats);
	CHECK(stats.resident_peak_bytes[SLUICE_TIER_DEVICE] == BUDGET * CHUNK);
	CHECK(stats.counter[SLUICE_COUNTER_D2H_EVICT] >= 2 * (CHUNKS - BUDGET) * CHUNK);
	CHECK(sluice_prefetch(space, words, CHUNK, SLUICE_TIER_DEVICE, NULL) == 0);
	CHECK(sluice_discard(space, words, CHUNK, SLUICE_DISCARD_EAGER, NULL) == 0);
	CHECK(sluice_evict(space, (uint64_t *)words + 2 * WORDS, CHUNK, SLUICE_TIER_STORE,
			   NULL) == 0);
	CHECK(sluice_space_check(space) == 0);
	CHECK(sluice_space_destroy(space) == 0);
}

static void
kernel_none(const struct sluice_block *block, void *args)
{
	(void)block;
	(void)args;
}

static void
what_needs_a_role_is_refused_with_a_text(void)
{
	struct sluice_space *space = space_make();
	struct sluice_grid grid = {1, 1, 1};
	struct sluice_launch *launch;
	struct sluice_event *event;

	CHECK(sluice_launch(space, NULL, kernel_none, grid, NULL, 0, NULL, 0) == -ENOTSUP);
	CHECK(strstr(sluice_last_error(), "minimal") != NULL);
	CHECK(sluice_event_create(space, &event) == -ENOTSUP);
	CHECK(strstr(sluice_last_error(), "minimal") != NULL);
	CHECK(sluice_launch_begin(space, NULL, NULL, 0, &launch) == -ENOTSUP);
	CHECK(sluice_space_destroy(space) == 0);
}

int
main(void)
{
	launches_run_on_more_data_than_the_device_has_room_for();
	what_needs_a_role_is_refused_with_a_text();
	printf("passed\n");
	return 0;
}
