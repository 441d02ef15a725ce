/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles of work larger than the device budget: they cover all of it once, begin at chunk boundaries,
 * and write-all brings nothing in. Software device; host code is the kernel.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "sluice/sluice.h"

#define MIB ((uint64_t)1 << 20)
#define CHECK(what)                                                                     \
	do {                                                                            \
		if (!(what)) {                                                          \
			fprintf(stderr, "%s:%d: %s: not so (%s)\n", __FILE__, __LINE__, \
				#what, sluice_last_error());                            \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

struct work {
	uint32_t *to;
	const uint32_t *from;
	uint64_t n, done, calls;
};

static int
work_do(void *arg, uint64_t first, uint64_t n)
{
	struct work *w = arg;

	CHECK(first == w->done);
	CHECK(first * 4 % (2 * MIB) == 0);
	for (uint64_t i = first; i < first + n; i++)
		w->to[i] = w->from[i] + w->from[i + 1024 < w->n ? i + 1024 : i];
	w->done += n;
	w->calls++;
	return 0;
}

static int
work_refuse(void *arg, uint64_t first, uint64_t n)
{
	(void)arg;
	(void)first;
	(void)n;
	return -ECANCELED;
}

int
main(void)
{
	struct sluice_config config;
	struct sluice_space *space;
	struct sluice_stats stats;
	struct work w = {.n = 24 * MIB / 4 - 100};
	uint64_t tile;
	void *from, *to;

	CHECK(sluice_config_init(&config) == 0);
	config.device = SLUICE_DEVICE_SOFT;
	config.device_budget_bytes = 16 * MIB;
	config.host_budget_bytes = 128 * MIB;
	if (sluice_space_create(&config, &space)) {
		printf("SKIP: %s\n", sluice_last_error());
		return 77;
	}
	CHECK(sluice_alloc(space, w.n * 4, 0, &from) == 0);
	CHECK(sluice_alloc(space, w.n * 4, 0, &to) == 0);
	for (uint64_t i = 0; i < w.n; i++)
		((uint32_t *)from)[i] = (uint32_t)i;
	w.from = from;
	w.to = to;

	struct sluice_tile_use uses[] = {
		{from, w.n * 4, 4, 0, 4096, SLUICE_USE_READ},
		{to, w.n * 4, 4, 0, 0, SLUICE_USE_WRITE_ALL},
	};

	CHECK(sluice_tile_elements(space, uses, 2, &tile) == 0);
	CHECK(tile * 4 % (2 * MIB) == 0);
	sluice_stats_reset(space);
	CHECK(sluice_launch_tiles(space, NULL, uses, 2, w.n, work_do, &w) == 0);
	CHECK(sluice_stream_synchronize(space, NULL) == 0);
	CHECK(w.done == w.n && w.calls == (w.n + tile - 1) / tile && w.calls > 1);
	sluice_stats_get(space, &stats);
	CHECK(stats.counter[SLUICE_COUNTER_LAUNCHES] == w.calls);
	CHECK(stats.counter[SLUICE_COUNTER_MISSES] == 0);
	CHECK(sluice_stats_h2d_bytes(&stats) <= 24 * MIB + w.calls * 2 * MIB);
	for (uint64_t i = 0; i < w.n; i += 777)
		CHECK(w.to[i] == (uint32_t)(i + (i + 1024 < w.n ? i + 1024 : i)));

	CHECK(sluice_launch_tiles(space, NULL, uses, 2, w.n, work_refuse, NULL) == -ECANCELED);
	uses[0].element_bytes = uses[1].element_bytes = 0;
	CHECK(sluice_tile_elements(space, uses, 2, &tile) == -EINVAL);
	uses[1].element_bytes = 4; /* from, whole with every tile, is larger than the budget */
	CHECK(sluice_tile_elements(space, uses, 2, &tile) == -ENOBUFS);
	CHECK(sluice_unmap(space, from) == 0);
	CHECK(sluice_unmap(space, to) == 0);
	CHECK(sluice_space_check(space) == 0);
	CHECK(sluice_space_destroy(space) == 0);
	return 0;
}
