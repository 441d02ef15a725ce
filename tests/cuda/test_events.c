/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a space (core/events.h): they have the bytes of its counters, a begin and an end
 * for each move, the launch that needs it, and what was lost where the ring was full.
 */
#include <string.h>
#include <unistd.h>

#include "core/events.h"
#include "cuda/cuda_test.h"

#define ROOM  65536u
#define MOVES 8192u

static struct cuda_test t;
static struct sl_event events[ROOM];
static size_t n_events;

/* All of them, also the ends that a thread of the device is still to tell. */
static void
events_take(struct sluice_space *s)
{
	size_t n, open = 0;
	uint64_t lost;

	do {
		n = sl_events_take(s, events + n_events, ROOM - n_events, &lost);
		CHECK(!lost);
		for (size_t i = n_events; i < n_events + n; i++) {
			open += events[i].kind == SL_EVENT_BEGIN;
			open -= events[i].kind == SL_EVENT_END ||
				events[i].kind == SL_EVENT_UNDO;
		}
		n_events += n;
	} while (n || (open && !usleep(100)));
}

/* Launches over four times what the device holds, twice; host memory holds half of it. */
static void
work(struct sluice_space *s, char *p, uint64_t bytes)
{
	for (int pass = 0; pass < 2; pass++)
		for (uint64_t at = 0; at < bytes; at += 8 * MIB)
			cuda_test_run(&t, s, NULL, TEST_ADD, p + at, MIB, 3,
				      SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
}

static int64_t
bytes_of(enum sluice_counter counter)
{
	int64_t bytes = 0;

	for (size_t i = 0; i < n_events; i++)
		if ((events[i].kind == SL_EVENT_BEGIN || events[i].kind == SL_EVENT_COUNT) &&
		    events[i].what == counter)
			bytes += events[i].bytes;
	return bytes;
}

static void
bytes_are_those_of_the_counters(const struct sluice_stats *stats)
{
	static const enum sluice_counter counters[] = {
		SLUICE_COUNTER_H2D_LAUNCH,        SLUICE_COUNTER_H2D_FAULT,
		SLUICE_COUNTER_H2D_CPU,           SLUICE_COUNTER_H2D_PREFETCH,
		SLUICE_COUNTER_D2H_EVICT,         SLUICE_COUNTER_D2H_REQUEST,
		SLUICE_COUNTER_D2H_SYNC,          SLUICE_COUNTER_CLEAN_DROP,
		SLUICE_COUNTER_DISCARD_SAVED,     SLUICE_COUNTER_ZERO_FILL,
		SLUICE_COUNTER_STORE_READ_DEMAND, SLUICE_COUNTER_STORE_READ_AHEAD,
		SLUICE_COUNTER_STORE_WRITE_SPILL, SLUICE_COUNTER_STORE_READ_PREFETCH,
		SLUICE_COUNTER_STORE_WRITE_BACK,  SLUICE_COUNTER_STORE_WRITE_SYNC,
	};

	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		CHECK((uint64_t)bytes_of(counters[i]) == stats->counter[counters[i]]);
	CHECK(stats->counter[SLUICE_COUNTER_H2D_LAUNCH] &&
	      stats->counter[SLUICE_COUNTER_D2H_EVICT] &&
	      stats->counter[SLUICE_COUNTER_STORE_WRITE_SPILL]);
}

static void
each_move_begins_and_ends_once(void)
{
	static uint64_t begun[MOVES + 1], ended[MOVES + 1];
	uint64_t launches = 0, held = 0;

	for (size_t i = 0; i < n_events; i++) {
		const struct sl_event *e = &events[i];

		CHECK(e->used_bytes[SLUICE_TIER_DEVICE] <=
		      e->budget_bytes[SLUICE_TIER_DEVICE]);
		switch ((enum sl_event_kind)e->kind) {
		case SL_EVENT_BEGIN:
			CHECK(e->id && e->id <= MOVES && !begun[e->id]);
			begun[e->id] = e->ns;
			CHECK((e->launch != 0) == (e->what == SLUICE_COUNTER_H2D_LAUNCH));
			launches += e->launch != 0;
			break;
		case SL_EVENT_END:
		case SL_EVENT_UNDO:
			CHECK(e->id && e->id <= MOVES && begun[e->id] && !ended[e->id]);
			ended[e->id] = e->ns;
			CHECK(ended[e->id] >= begun[e->id] && !e->rc);
			break;
		case SL_EVENT_WAIT:
			CHECK(e->thread > 0 && e->ns > e->since);
			CHECK(e->what < SL_WAIT_REASON_COUNT);
			break;
		case SL_EVENT_HOLD:
			CHECK(begun[e->id] && e->launch);
			held++;
			break;
		case SL_EVENT_COUNT:
			break;
		}
	}
	for (size_t id = 1; id <= MOVES; id++)
		CHECK(!begun[id] == !ended[id]);
	CHECK(launches && held);
}

static void
events_have_what_the_counters_have(void)
{
	struct sluice_space *s = cuda_test_space(32, 64, NULL);
	struct sluice_stats stats;
	uint64_t bytes = 128 * MIB;
	void *p;

	CHECK_OK(sl_events_open(s, ROOM));
	CHECK(sl_events_open(s, ROOM) == -EEXIST);
	CHECK_OK(sluice_alloc(s, bytes, 0, &p));
	work(s, p, bytes);
	CHECK_OK(sluice_evict(s, p, bytes / 4, SLUICE_TIER_HOST, NULL));
	CHECK_OK(sluice_prefetch(s, p, bytes / 8, SLUICE_TIER_DEVICE, NULL));
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(sluice_unmap(s, p));
	sluice_stats_get(s, &stats);
	events_take(s);
	bytes_are_those_of_the_counters(&stats);
	each_move_begins_and_ends_once();
	sl_events_close(s);
	CHECK(!sl_events_take(s, events, ROOM, &(uint64_t){0}));
	CHECK_OK(sluice_space_destroy(s));
}

static void
what_finds_no_room_is_counted(void)
{
	struct sluice_space *s = cuda_test_space(32, 64, NULL);
	uint64_t bytes = 128 * MIB, lost;
	void *p;

	CHECK_OK(sl_events_open(s, 8));
	CHECK_OK(sluice_alloc(s, bytes, 0, &p));
	work(s, p, bytes);
	CHECK(sl_events_take(s, events, ROOM, &lost) == 8 && lost);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
}

int
main(void)
{
	struct sluice_space *s;

	cuda_test_open(&t);
	events_have_what_the_counters_have();
	what_finds_no_room_is_counted();
	s = cuda_test_space(32, 64, NULL);
	cuda_test_close(&t, s);
	return 0;
}
