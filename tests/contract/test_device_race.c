/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that increment counters while their spans are taken out and come back: no increment may be
 * lost, whatever the delivery and the guard. See device_suite.h.
 */
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "device_suite.h"

#define RACE_NS 400000000u

struct racer {
	struct core *core;
	int number;
	uint64_t counted[SPANS]; /* increments this thread made, by span */
};

static _Atomic int race_over;

static void *
race_run(void *arg)
{
	struct racer *racer = arg;
	struct sl_rng rng;

	sl_rng_init(&rng, (uint64_t)racer->number + 1);
	while (!race_over) {
		int span = (int)sl_rng_below(&rng, SPANS);
		volatile uint64_t *counter = span_counter(racer->core, span, racer->number);
		uint64_t n = 1 + sl_rng_below(&rng, 64);

		for (uint64_t i = 0; i < n; i++)
			++*counter;
		racer->counted[span] += n;
	}
	return NULL;
}

static void
race(enum sl_delivery delivery, unsigned flags)
{
	struct racer racers[COUNTERS];
	pthread_t threads[COUNTERS];
	uint64_t end_ns;
	uint64_t total = 0;
	uint64_t lost = 0;
	unsigned rounds = 0;
	struct core core;

	core_init(&core, SPAN, delivery);
	core.present_flags = flags;
	memset(racers, 0, sizeof(racers));
	race_over = 0;
	for (int i = 0; i < SPANS; i++) {
		span_hold(&core, i, 0);
	}
	for (int i = 0; i < COUNTERS; i++) {
		racers[i].core = &core;
		racers[i].number = i;
		CHECK(pthread_create(&threads[i], NULL, race_run, &racers[i]) == 0);
	}
	end_ns = sl_now_ns() + RACE_NS;
	while (sl_now_ns() < end_ns) {
		span_evict(&core, (int)(rounds++ % SPANS));
		if (rounds % 16 == 0)
			usleep(200); /* let them get at something */
	}
	race_over = 1;
	for (int i = 0; i < COUNTERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < COUNTERS; i++) {
		for (int s = 0; s < SPANS; s++) {
			uint64_t have = *span_counter(&core, s, i);

			total += racers[i].counted[s];
			lost += racers[i].counted[s] - have;
		}
	}
	printf("  race: %s%s: %llu increments, %u touches (%u guarded), %llu lost\n",
	       delivery == SL_DELIVER_THREAD ? "thread" : "signal",
	       flags ? ", strict guard" : "", (unsigned long long)total, core.n_touches,
	       core.n_writes_guarded, (unsigned long long)lost);
	CHECK(lost == 0);
	CHECK(total > 0);
	CHECK(core.n_touches > 10);
	core_fini(&core);
}

static void
racing_writes_are_never_lost(void)
{
	for (int d = 0; d < 2; d++) {
		race(deliveries[d], 0);
		race(deliveries[d], SL_PRESENT_KEEP | SL_PRESENT_GUARD_STRICT);
	}
}

static const struct device_test tests[] = {
	TEST(racing_writes_are_never_lost),
};

DEVICE_MAIN(tests)
