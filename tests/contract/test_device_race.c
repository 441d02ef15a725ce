/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that touch the same chunks at once. They increment counters while their chunks are taken out and
 * come back: no increment may be lost, whatever the delivery and the guard. And blocks of launches that run
 * side by side touch one page together: every touch tells the launch that made it. See device_suite.h.
 */
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "device_suite.h"

#define RACE_NS 400000000u

struct racer {
	struct core *core;
	int number;
	uint64_t counted[CHUNKS]; /* increments this thread made, by chunk */
};

static _Atomic int race_over;

static void *
race_run(void *arg)
{
	struct racer *racer = arg;
	struct sl_rng rng;

	sl_rng_init(&rng, (uint64_t)racer->number + 1);
	while (!race_over) {
		int chunk = (int)sl_rng_below(&rng, CHUNKS);
		volatile uint64_t *counter = chunk_counter(racer->core, chunk, racer->number);
		uint64_t n = 1 + sl_rng_below(&rng, 64);

		for (uint64_t i = 0; i < n; i++)
			++*counter;
		racer->counted[chunk] += n;
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

	core_init(&core, CHUNK, delivery);
	core.present_flags = flags;
	memset(racers, 0, sizeof(racers));
	race_over = 0;
	for (int i = 0; i < CHUNKS; i++) {
		chunk_hold(&core, i, 0);
	}
	for (int i = 0; i < COUNTERS; i++) {
		racers[i].core = &core;
		racers[i].number = i;
		CHECK(pthread_create(&threads[i], NULL, race_run, &racers[i]) == 0);
	}
	end_ns = sl_now_ns() + RACE_NS;
	while (sl_now_ns() < end_ns) {
		chunk_evict(&core, (int)(rounds++ % CHUNKS));
		if (rounds % 16 == 0)
			usleep(200); /* let them get at something */
	}
	race_over = 1;
	for (int i = 0; i < COUNTERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < COUNTERS; i++) {
		for (int s = 0; s < CHUNKS; s++) {
			uint64_t have = *chunk_counter(&core, s, i);

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

/* ---- Launches side by side ---- */

#define LAUNCHERS     4u
#define LAUNCH_ROUNDS 150u

struct launcher {
	struct core *core;
	int chunk; /* its launches touch this one only; its own address is their cookie */
};

static struct launcher launchers[LAUNCHERS];
static _Atomic unsigned n_blamed; /* touches that came with a launch that never touches there */

static int
serve_blame(struct core *core, const struct sl_touch *touch)
{
	size_t i = ((uintptr_t)touch->addr - (uintptr_t)core->dev->base) / core->chunk_bytes;

	if (i >= LAUNCHERS || touch->launch != &launchers[i])
		n_blamed++;
	return serve_chunk(core, touch);
}

/* All blocks touch one page: whoever is served first wakes the others, whose touches were noticed already. */
static void
kernel_touch_together(const struct sluice_block *block, void *args)
{
	struct kernel_args *a = args;

	a->addr[block->index.x] = 1;
	a->blocks++;
}

static void *
launcher_run(void *arg)
{
	struct launcher *own = arg;
	struct sl_device *dev = own->core->dev;
	struct kernel_args args = {.addr = chunk_addr(own->core, own->chunk)};

	for (unsigned round = 0; round < LAUNCH_ROUNDS; round++) {
		CHECK(dev->kernels->run(dev, kernel_touch_together,
					(struct sluice_grid){2 * WORKERS, 1, 1}, &args,
					own) == 0);
		chunk_evict(own->core, own->chunk);
	}
	CHECK(args.blocks == LAUNCH_ROUNDS * 2 * WORKERS);
	return NULL;
}

static void
every_touch_comes_with_the_launch_that_made_it(void)
{
	for (int d = 0; d < 2; d++) {
		pthread_t threads[LAUNCHERS];
		struct core core;

		core_init(&core, CHUNK, deliveries[d]);
		core.serve = serve_blame;
		n_blamed = 0;
		for (unsigned i = 0; i < LAUNCHERS; i++) {
			launchers[i] = (struct launcher){&core, (int)i};
			chunk_hold(&core, (int)i, 0);
		}
		for (unsigned i = 0; i < LAUNCHERS; i++)
			CHECK(pthread_create(&threads[i], NULL, launcher_run,
					     &launchers[i]) == 0);
		for (unsigned i = 0; i < LAUNCHERS; i++)
			pthread_join(threads[i], NULL);
		printf("  %u touches, %u with another launch\n", core.n_touches, n_blamed);
		CHECK(core.n_touches >= LAUNCHERS * LAUNCH_ROUNDS);
		CHECK(n_blamed == 0);
		core_fini(&core);
	}
}

static const struct device_test tests[] = {
	TEST_ROLES(racing_writes_are_never_lost, ROLE_TOUCHES),
	TEST_ROLES(every_touch_comes_with_the_launch_that_made_it, ROLE_FAULTS),
};

DEVICE_MAIN(tests)
