/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that are touched all the time while they are moved in and out. Each move succeeds, and
 * no page of the contents stays behind. The contents were in one huge page, in small ones, or
 * zeros, which the system may keep in one page for all. Bounded by rounds, not by time. See
 * device_suite.h.
 */
#include <sched.h>
#include <unistd.h>

#include "base/rng.h"
#include "device_suite.h"

#define ROUNDS   300
#define SPIN_MAX 3000u /* turns: some times what a move takes */
#define COUNTER  (9 * PAGE + 8)

/* Touches the chunk once a round, some time before, while or after it is moved in. */
struct toucher {
	pthread_t thread;
	char *addr;
	_Atomic uint64_t round, begun, seen; /* UINT64_MAX: the end */
	_Atomic unsigned spin;
};

static struct toucher toucher;

/* Nobody is served: a touch is made again until the chunk is there. */
static int
serve_nothing(struct core *core, const struct sl_touch *touch)
{
	(void)core;
	(void)touch;
	return 0;
}

static void
spin(unsigned turns)
{
	for (volatile unsigned i = 0; i < turns; i++)
		;
}

static void *
touch_run(void *arg)
{
	struct toucher *t = arg;

	for (uint64_t last = 0, round;; last = round) {
		while ((round = t->round) == last)
			sched_yield();
		if (round == UINT64_MAX)
			return NULL;
		t->begun = round;
		spin(t->spin);
		++*(volatile uint64_t *)(void *)(t->addr + COUNTER);
		t->seen = round;
	}
}

/* The first word of each page; the touchers' are others. */
static void
marks_set(char *data, uint64_t value)
{
	for (size_t at = 0; at < CHUNK; at += PAGE)
		*(volatile uint64_t *)(void *)(data + at) = value;
}

static int
marks_are(const char *data, uint64_t value)
{
	for (size_t at = 0; at < CHUNK; at += PAGE)
		if (*(const volatile uint64_t *)(const void *)(data + at) != value)
			return 0;
	return 1;
}

static void
whole_chunks(enum sl_delivery delivery, int zeros)
{
	struct sl_frame *frame;
	struct sl_rng rng;
	struct core core;

	core_init(&core, CHUNK, delivery);
	core.serve = serve_nothing;
	sl_rng_init(&rng, 1);
	memset(&toucher, 0, sizeof(toucher));
	toucher.addr = chunk_addr(&core, 1);
	CHECK(pthread_create(&toucher.thread, NULL, touch_run, &toucher) == 0);
	for (uint64_t i = 1; i <= ROUNDS && !device_failed(); i++) {
		const struct sl_device_ops *ops = core.dev->ops;
		uint64_t value = zeros ? 0 : i;

		frame = frame_get(&core); /* memory in a huge page: what was split is not kept */
		memset(frame->data, 0, CHUNK);
		marks_set(frame->data, value);
		toucher.spin = (unsigned)sl_rng_below(&rng, SPIN_MAX);
		toucher.round = i;
		while (toucher.begun != i)
			sched_yield();
		spin((unsigned)sl_rng_below(&rng, SPIN_MAX));
		CHECK(ops->present(core.dev, toucher.addr, CHUNK, frame, SL_PRESENT_KEEP) ==
		      0);
		while (!device_failed() && toucher.seen != i)
			sched_yield();
		CHECK(marks_are(toucher.addr, value));
		CHECK(ops->absent(core.dev, toucher.addr, CHUNK, frame, SL_ABSENT_COPY) == 0);
		CHECK(marks_are(frame->data, value));
		CHECK(*(uint64_t *)(void *)((char *)frame->data + COUNTER) == 1);
		ops->frame_put(core.dev, frame);
	}
	if (device_failed())
		_exit(1); /* a touch may wait for ever */
	toucher.round = UINT64_MAX;
	pthread_join(toucher.thread, NULL);
	CHECK(core.n_touches > 0);
	core_fini(&core);
}

static void
a_chunk_that_is_touched_while_it_moves_comes_and_goes_whole(void)
{
	for (int d = 0; d < 2; d++) {
		whole_chunks(deliveries[d], 0);
		whole_chunks(deliveries[d], 1);
	}
}

static const struct device_test tests[] = {
	TEST_NEEDS(a_chunk_that_is_touched_while_it_moves_comes_and_goes_whole,
		   DEVICE_USERFAULT),
};

DEVICE_MAIN(tests)
