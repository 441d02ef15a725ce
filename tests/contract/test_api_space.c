/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The promises of sluice/space.h and sluice/stats.h: the settings of a space, several spaces,
 * budgets as bounds, counters and peaks. sluice_space_check() finds each kind of broken
 * invariant; that test looks inside.
 */
#include "api.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

#include "core/api/api.h"

static void
configuration_in_force_has_every_default_resolved(void)
{
	struct sluice_space *s = space_make(
		"device_budget=9M,host_budget=7M,writeback=-1,staging=0");
	struct sluice_config c;

	sluice_space_config(s, &c);
	CHECK(c.device == SLUICE_DEVICE_SOFT);
	CHECK_EQ(c.device_budget_bytes, 8 * MIB);
	CHECK_EQ(c.host_budget_bytes, 6 * MIB);
	CHECK_EQ(c.staging_bytes, 8 * CHUNK);
	CHECK_EQ(c.writeback_bytes, 6 * MIB / 4);
	space_end(s);
}

static void
impossible_spaces_are_refused_with_what_to_change(void)
{
	struct sluice_config c;
	struct sluice_space *s = NULL;

	CHECK(sluice_config_init(&c) == 0);
	c.device_budget_bytes = CHUNK;
	CHECK_FAILS(sluice_space_create(&c, &s), -ENOBUFS, "device_budget");
	CHECK(sluice_config_init(&c) == 0);
	c.device = SLUICE_DEVICE_CUDA;
	CHECK_FAILS(sluice_space_create(&c, &s), -ENOTSUP, "device=soft");
	CHECK(sluice_config_init(&c) == 0);
	CHECK(sluice_config_parse(&c, "address=16G,spill_dirs=/nowhere/at/all") == 0);
	CHECK_FAILS(sluice_space_create(&c, &s), -ENOENT, "/nowhere/at/all");
	CHECK(!s);
	CHECK(sluice_space_destroy(NULL) == 0);
}

static void
spaces_are_independent_of_each_other(void)
{
	struct sluice_space *one = space_make(""), *two = space_make("device_budget=4M");
	char *p = region_alloc(one, 4 * CHUNK), *q = region_alloc(two, 4 * CHUNK);

	memory_fill(p, 4 * CHUNK, 1);
	memory_fill(q, 4 * CHUNK, 2);
	launch(one, KERNEL_ADD, p, CHUNK, SLUICE_USE_READ_WRITE, 1);
	launch(two, KERNEL_ADD, q, CHUNK, SLUICE_USE_READ_WRITE, 1);
	space_sync(one);
	CHECK_EQ(counter(one, SLUICE_COUNTER_EVICTIONS), 0);
	CHECK(counter(two, SLUICE_COUNTER_EVICTIONS) > 0);
	CHECK_FAILS(sluice_prefetch(one, q, CHUNK, SLUICE_TIER_DEVICE, NULL), -ENOENT,
		    "no region");
	space_end(two);
	for (uint64_t i = CHUNK / 8; i < 4 * CHUNK / 8; i++)
		CHECK(((uint64_t *)(void *)p)[i] == pattern(1, i));
	space_end(one);
}

static void
resident_bytes_never_exceed_any_budget(void)
{
	static const char *const configs[] = {
		"device_budget=4M,host_budget=4M",
		"device_budget=6M,host_budget=0,population=page",
		"device_budget=6M,host_budget=2M,population=grow",
		"device_budget=8M,host_budget=6M,readahead_chunks=8,faults=signal",
	};

	for (int k = 0; k < 4; k++) {
		struct sluice_space *s = space_make(configs[k]);
		char *p = region_map(s, file_make("f", 12 * CHUNK, 1), 0, 0,
				     SLUICE_READ | SLUICE_WRITE);
		struct sluice_config c;
		struct sluice_stats st;

		for (uint64_t i = 0; i < 12; i++)
			launch(s, KERNEL_ADD, at_chunk(p, i), CHUNK,
			       i % 2 ? SLUICE_USE_COUNT : SLUICE_USE_READ_WRITE, 1);
		space_sync(s);
		for (uint64_t i = 0; i < 12 * CHUNK; i += 3 * PAGE)
			p[i]++;
		sluice_space_config(s, &c);
		sluice_stats_get(s, &st);
		CHECK(st.resident_peak_bytes[SLUICE_TIER_DEVICE] <= c.device_budget_bytes);
		CHECK(st.resident_peak_bytes[SLUICE_TIER_DEVICE] > 0);
		CHECK(st.resident_peak_bytes[SLUICE_TIER_HOST] <= c.host_budget_bytes);
		CHECK_EQ(st.budget_bytes[SLUICE_TIER_DEVICE], c.device_budget_bytes);
		CHECK_EQ(st.budget_bytes[SLUICE_TIER_HOST], c.host_budget_bytes);
		CHECK(st.staging_bytes <= c.staging_bytes);
		space_end(s);
	}
}

static void
reset_clears_counters_and_restarts_peaks_but_moves_nothing(void)
{
	struct sluice_space *s = space_make("");
	char *p = region_alloc(s, 8 * CHUNK);
	struct sluice_stats st;

	use(s, p, 8 * CHUNK, SLUICE_USE_WRITE_ALL);
	space_sync(s);
	CHECK(sluice_unmap(s, p) == 0);
	p = region_alloc(s, 2 * CHUNK);
	use(s, p, 2 * CHUNK, SLUICE_USE_WRITE_ALL);
	space_sync(s);
	CHECK_EQ(resident_peak(s, SLUICE_TIER_DEVICE), 8 * CHUNK);
	sluice_stats_reset(s);
	sluice_stats_get(s, &st);
	for (int i = 0; i < SLUICE_COUNTER_COUNT; i++)
		CHECK_EQ(st.counter[i], 0);
	CHECK_EQ(st.resident_bytes[SLUICE_TIER_DEVICE], 2 * CHUNK);
	CHECK_EQ(st.resident_peak_bytes[SLUICE_TIER_DEVICE], 2 * CHUNK);
	space_end(s);
}

static void
destroy_writes_back_what_was_never_synced(void)
{
	struct sluice_space *s = space_make("");
	const char *path = file_make("f", 3 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	launch(s, KERNEL_FILL, p, 3 * CHUNK, SLUICE_USE_WRITE_ALL, 2);
	CHECK(sluice_space_destroy(s) == 0); /* waits for the launch, too */
	file_expect(path, 0, 3 * CHUNK, 2, 0);
}

/* Break one book, see it named, repair it. */
#define BREAK(field, value, words)                                  \
	do {                                                        \
		__typeof__(field) before_ = (field);                \
                                                                    \
		(field) = (value);                                  \
		CHECK_FAILS(sluice_space_check(s), -EINVAL, words); \
		(field) = before_;                                  \
		CHECK(sluice_space_check(s) == 0);                  \
	} while (0)

static void
check_finds_and_names_what_is_broken(void)
{
	struct sluice_space *s = space_make("host_budget=8M");
	const char *path = file_make("f", 8 * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);
	struct sl_chunk *c;

	use(s, p, 2 * CHUNK, SLUICE_USE_READ);
	use(s, at_chunk(p, 2), CHUNK, SLUICE_USE_WRITE_ALL);
	space_sync(s);
	CHECK(sluice_evict(s, at_chunk(p, 1), CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	CHECK(sluice_space_check(s) == 0);
	c = s->regions[0]->chunks; /* 0: device with a copy; 1: host; 2: device, dirty; 3: store */
	CHECK(c[0].state == SL_CHUNK_DEVICE && c[0].host && c[1].state == SL_CHUNK_HOST);
	BREAK(s->dev.used_bytes, CHUNK, "I1");
	BREAK(s->dev.used_bytes, 18 * MIB, "I1");
	BREAK(c[0].device_bytes, 0, "not counted");
	BREAK(c[3].device_bytes, CHUNK, "absent, but counted");
	BREAK(s->host.settled_bytes, 3 * CHUNK, "I2");
	BREAK(s->host.staging_used_bytes, UINT64_MAX, "I2");
	BREAK(c[1].host, NULL, "I3");
	BREAK(c[3].flags, 0, "I3");
	BREAK(c[3].flags, c[3].flags | SL_DIRTY_HOST, "I3");
	BREAK(c[1].flags, c[1].flags | SL_DIRTY_DEVICE, "I3");
	BREAK(c[0].heap_slot, SL_HEAP_NONE, "I4");
	BREAK(c[2].flags, c[2].flags | SL_DISCARDED, "I4");
	BREAK(s->dev.discarded_head, &c[3], "I4");
	BREAK(s->host.list[SL_HOST_CLEAN].bytes, 7, "I5");
	BREAK(s->regions[0]->ready[SL_READY_NOT], 1, "I6");
	BREAK(s->spilled_bytes, 1, "spilled");
	BREAK(s->dev.pinned_bytes, CHUNK, "pinned");
	BREAK(s->host.read_ahead_bytes, CHUNK, "read-ahead");
	BREAK(s->dev.heap_n, 1, "heap");
	BREAK(s->alive_bytes, CHUNK, "I10");
	c[3].alive = 0;
	CHECK_FAILS(sluice_space_check(s), -EINVAL, "wrongly counted as alive");
	c[3].alive = 1;
	space_end(s);
}

/* A touch that a device's thread serves though nobody waits for it any more: the mover was faster. */
struct late_touch {
	struct sluice_space *space;
	char *addr;
	_Atomic int ended;
};

static void *
late_touch_run(void *arg)
{
	struct late_touch *late = arg;
	struct sl_touch touch = {.addr = late->addr, .access = SL_ACCESS_READ};

	sl_ignore(sl_touched(late->space, &touch));
	late->ended = 1;
	return NULL;
}

static int
late_touch_has_begun(const struct late_touch *late)
{
	int begun;

	sl_space_lock(late->space);
	begun = late->ended || sl_region_at(late->space, late->addr)->busy;
	sl_space_unlock(late->space);
	return begun;
}

static void
space_ends_behind_touches_that_are_still_served(void)
{
	enum { TOUCHES = 6 };
	const char *path = file_make("late", TOUCHES * CHUNK, 1);

	for (int round = 0; round < 20; round++) {
		struct sluice_space *s = space_make("host_budget=8M");
		struct late_touch late[TOUCHES] = {0};
		pthread_t thread[TOUCHES];

		for (uint64_t i = 0; i < TOUCHES; i++) {
			late[i].space = s;
			late[i].addr = region_map(s, path, i * CHUNK, CHUNK, SLUICE_READ);
		}
		for (int i = 0; i < TOUCHES; i++)
			CHECK(!pthread_create(&thread[i], NULL, late_touch_run, &late[i]));
		for (int i = 0; i < TOUCHES; i++)
			while (!late_touch_has_begun(&late[i]))
				sched_yield();
		CHECK(sluice_space_destroy(s) == 0);
		for (int i = 0; i < TOUCHES; i++)
			pthread_join(thread[i], NULL);
	}
}

static void
space_with_an_open_scope_of_this_thread_is_not_destroyed(void)
{
	struct sluice_space *s = space_make("");
	struct sluice_use use = {region_alloc(s, CHUNK), CHUNK, SLUICE_USE_READ};
	struct sluice_launch *l;

	CHECK(sluice_launch_begin(s, NULL, &use, 1, &l) == 0);
	CHECK_FAILS(sluice_space_destroy(s), -EBUSY, "sluice_launch_end");
	sluice_launch_end(l);
	space_end(s);
}

static const struct api_case cases[] = {
	CASE(space_ends_behind_touches_that_are_still_served),
	CASE(configuration_in_force_has_every_default_resolved),
	CASE(impossible_spaces_are_refused_with_what_to_change),
	CASE(spaces_are_independent_of_each_other),
	CASE(resident_bytes_never_exceed_any_budget),
	CASE(reset_clears_counters_and_restarts_peaks_but_moves_nothing),
	CASE(destroy_writes_back_what_was_never_synced),
	CASE(check_finds_and_names_what_is_broken),
	CASE(space_with_an_open_scope_of_this_thread_is_not_destroyed),
};
API_MAIN(cases)
