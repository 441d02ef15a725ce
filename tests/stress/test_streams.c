/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams, events, callbacks and errors while memory is tight: order is kept, nothing waits for
 * ever, an error stays on its stream, and a launch behind a discard keeps what it writes.
 *
 * Orders that depend on luck are forced by gates: a callback that waits until another callback or
 * the host opens it. A program that hangs is ended by the test runner, so a wait that never ends
 * is a failure.
 *
 * Plain program, see common.h. Each test runs in each configuration; the third argument picks
 * configurations.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stress/common.h"

#define CHUNK         (2 * MIB)
#define CHUNKS        10
#define WORDS         (CHUNK / sizeof(uint64_t))
#define BUDGET_CHUNKS 4
#define STREAMS       4

static const struct sluice_grid one_block = {1, 1, 1};

struct bench {
	struct sluice_space *space;
	uint64_t *base; /* CHUNKS chunks of anonymous memory */
	struct sluice_stream *stream[STREAMS];
	struct sl_rng rng;
};

static uint64_t *
chunk_words(const struct bench *b, unsigned chunk)
{
	return b->base + chunk * WORDS;
}

static struct sluice_use
use_of(const struct bench *b, unsigned chunk, unsigned n, enum sluice_intent intent)
{
	return (struct sluice_use){chunk_words(b, chunk), n * CHUNK, intent};
}

/* ---- Gates ---- */

struct gate {
	pthread_mutex_t mutex;
	pthread_cond_t opened;
	int open;
};

#define GATE_CLOSED                                                    \
	{                                                              \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 \
	}

static void
gate_open(void *p)
{
	struct gate *gate = p;

	pthread_mutex_lock(&gate->mutex);
	gate->open = 1;
	pthread_cond_broadcast(&gate->opened);
	pthread_mutex_unlock(&gate->mutex);
}

static void
gate_pass(void *p)
{
	struct gate *gate = p;

	pthread_mutex_lock(&gate->mutex);
	while (!gate->open)
		pthread_cond_wait(&gate->opened, &gate->mutex);
	pthread_mutex_unlock(&gate->mutex);
}

/* ---- Kernels ---- */

struct fill_args {
	uint64_t *to;
	size_t n, stride;
	uint64_t value;
};

static void
fill_kernel(const struct sluice_block *block, void *p)
{
	struct fill_args *a = p;

	(void)block;
	for (size_t i = 0; i < a->n; i += a->stride)
		a->to[i] = a->value + i;
}

struct add_args {
	uint64_t *at;
	size_t n;
	uint64_t addend;
};

static void
add_kernel(const struct sluice_block *block, void *p)
{
	struct add_args *a = p;

	(void)block;
	for (size_t i = 0; i < a->n; i++)
		a->at[i] += a->addend;
}

struct step_args {
	const uint64_t *from; /* holds step; UINT64_MAX: do not look */
	uint64_t *to;
	uint64_t step;
};

static void
step_kernel(const struct sluice_block *block, void *p)
{
	struct step_args *a = p;

	(void)block;
	for (size_t i = 0; i < WORDS; i += WORDS / 8) {
		if (a->from[i] != a->step)
			FAIL("step %llu found %llu", (unsigned long long)a->step,
			     (unsigned long long)a->from[i]);
		a->to[i] = a->step + 1;
	}
}

static void
outside_kernel(const struct sluice_block *block, void *p)
{
	volatile uint64_t **at = p;

	(void)block;
	**at = 1;
}

static void
count_kernel(const struct sluice_block *block, void *p)
{
	_Atomic uint64_t **count = p;

	(void)block;
	atomic_fetch_add(*count, 1);
}

static void
count_callback(void *p)
{
	_Atomic uint64_t *count = p;

	atomic_fetch_add(count, 1);
}

/* ---- Tests ---- */

/* A number goes from chunk to chunk over random streams; events carry it from one to the next. */
static void
events_order_streams(struct bench *b)
{
	struct sluice_event *event[2] = {NULL, NULL};
	unsigned from = 0, last = 0;

	OK(sluice_event_create(b->space, &event[0]));
	OK(sluice_event_create(b->space, &event[1]));
	memset(b->base, 0, CHUNK);
	for (uint64_t step = 0; step < 60 && !stress.failures; step++) {
		unsigned s = (unsigned)sl_rng_below(&b->rng, STREAMS);
		unsigned to = (from + 1 + (unsigned)sl_rng_below(&b->rng, CHUNKS - 1)) %
			      CHUNKS;
		struct step_args a = {chunk_words(b, from), chunk_words(b, to), step};
		struct sluice_use uses[2] = {use_of(b, from, 1, SLUICE_USE_READ),
					     use_of(b, to, 1, SLUICE_USE_WRITE)};

		if (step && s != last)
			OK(sluice_event_wait(b->space, b->stream[s], event[step % 2]));
		OK(sluice_launch(b->space, b->stream[s], step_kernel, one_block, &a,
				 sizeof(a), uses,
				 sl_rng_below(&b->rng, 4) ? 2 : 0)); /* or by faults */
		OK(sluice_event_record(b->space, b->stream[s], event[(step + 1) % 2]));
		if (!sl_rng_below(&b->rng, 8))
			OK(sluice_evict(b->space, chunk_words(b, to), CHUNK,
					SLUICE_TIER_STORE, b->stream[s]));
		from = to;
		last = s;
	}
	sluice_event_synchronize(event[0]);
	sluice_event_synchronize(event[1]);
	CHECK(sluice_event_query(event[0]) == 0);
	for (unsigned s = 0; s < STREAMS; s++)
		OK(sluice_stream_synchronize(b->space, b->stream[s]));
	sluice_event_destroy(event[0]);
	sluice_event_destroy(event[1]);
}

/*
 * The launch that is prepared first takes most of the device, and cannot start until one that is
 * called later has run: it must give way. shared: both use one chunk, which the later one
 * overwrites whole, and since it runs first, the earlier one must add to what it wrote.
 */
static void
gated_launches(struct bench *b, int shared)
{
	struct gate gate = GATE_CLOSED;
	struct sluice_event *event;
	unsigned later = shared ? 2 : 3;
	struct add_args add = {chunk_words(b, 0), 3 * WORDS, 1000};
	struct fill_args fill = {chunk_words(b, later), 3 * WORDS, 1, 7};
	struct sluice_use first = use_of(b, 0, 3, SLUICE_USE_READ_WRITE);
	struct sluice_use second = use_of(b, later, 3, SLUICE_USE_WRITE_ALL);

	OK(sluice_event_create(b->space, &event));
	for (size_t i = 0; i < 3 * WORDS; i++)
		b->base[i] = 5;
	OK(sluice_evict(b->space, b->base, CHUNKS * CHUNK, SLUICE_TIER_STORE, NULL));
	OK(sluice_stream_callback(b->space, b->stream[0], gate_pass, &gate));
	OK(sluice_event_record(b->space, b->stream[0], event));
	OK(sluice_event_wait(b->space, b->stream[1], event));
	OK(sluice_launch(b->space, b->stream[1], add_kernel, one_block, &add, sizeof(add),
			 &first, 1));
	OK(sluice_launch(b->space, b->stream[2], fill_kernel, one_block, &fill,
			 sizeof(fill), &second, 1));
	OK(sluice_stream_callback(b->space, b->stream[2], gate_open, &gate));
	OK(sluice_stream_synchronize(b->space, b->stream[1]));
	OK(sluice_stream_synchronize(b->space, b->stream[2]));
	OK(sluice_stream_synchronize(b->space, b->stream[0]));
	for (size_t i = 0; i < 5 * WORDS; i += 129) {
		uint64_t want = i < later * WORDS ? 5 : 7 + i - later * WORDS;

		if (i < 3 * WORDS)
			want += 1000;
		if (b->base[i] != want)
			FAIL("word %zu is %llu, not %llu", i,
			     (unsigned long long)b->base[i], (unsigned long long)want);
	}
	sluice_event_destroy(event);
}

static void
a_launch_that_cannot_start_gives_way(struct bench *b)
{
	gated_launches(b, 0);
	gated_launches(b, 1);
}

/*
 * Two launches of one stream, held up behind a callback: the first reads what the second overwrites,
 * and together they need more than there is. The second must not destroy what the first has yet to
 * read, however long the callback takes.
 */
static void
a_launch_held_up_still_finds_its_data(struct bench *b)
{
	struct gate gate = GATE_CLOSED;
	struct add_args add = {chunk_words(b, 0), 3 * WORDS, 1};
	struct fill_args fill = {chunk_words(b, 1), 3 * WORDS, 1, 70};
	struct sluice_use first = use_of(b, 0, 3, SLUICE_USE_READ_WRITE);
	struct sluice_use second = use_of(b, 1, 3, SLUICE_USE_WRITE_ALL);
	struct step_args look = {chunk_words(b, 0), chunk_words(b, 9), 42};
	struct sluice_use looked[2] = {use_of(b, 0, 1, SLUICE_USE_READ),
				       use_of(b, 9, 1, SLUICE_USE_WRITE)};
	struct timespec pause = {0, 350000000};

	for (size_t i = 0; i < 3 * WORDS; i++)
		b->base[i] = 41;
	OK(sluice_stream_callback(b->space, b->stream[0], gate_pass, &gate));
	OK(sluice_launch(b->space, b->stream[0], add_kernel, one_block, &add, sizeof(add),
			 &first, 1));
	OK(sluice_launch(b->space, b->stream[0], step_kernel, one_block, &look,
			 sizeof(look), looked, 2));
	OK(sluice_launch(b->space, b->stream[0], fill_kernel, one_block, &fill,
			 sizeof(fill), &second, 1));
	nanosleep(&pause, NULL);
	gate_open(&gate);
	OK(sluice_stream_synchronize(b->space, b->stream[0]));
	for (size_t i = 0; i < 4 * WORDS; i += 101) {
		uint64_t want = i < WORDS ? 42 : 70 + i - WORDS;

		if (b->base[i] != want)
			FAIL("word %zu is %llu, not %llu", i,
			     (unsigned long long)b->base[i], (unsigned long long)want);
	}
}

/* As called: scratch use or discard first, then a launch that writes; its data must stay. */
static void
dead_then_written(struct bench *b, int scratch, int by_faults, enum sluice_discard_mode mode)
{
	struct gate gate = GATE_CLOSED;
	struct fill_args junk = {chunk_words(b, 5), 2 * WORDS, 64, 1};
	struct fill_args fill = {chunk_words(b, 5), 2 * WORDS, 1, 900};
	struct sluice_use used = use_of(b, 5, 2, SLUICE_USE_SCRATCH);

	OK(sluice_stream_callback(b->space, b->stream[3], gate_pass, &gate));
	if (by_faults) /* work that declares nothing, before */
		OK(sluice_launch(b->space, b->stream[3], fill_kernel, one_block, &junk,
				 sizeof(junk), NULL, 0));
	else
		OK(sluice_launch(b->space, b->stream[3], fill_kernel, one_block, &junk,
				 sizeof(junk), &used, 1));
	if (!scratch)
		OK(sluice_discard(b->space, chunk_words(b, 5), 2 * CHUNK, mode, b->stream[3]));
	used.intent = SLUICE_USE_WRITE_ALL;
	OK(sluice_launch(b->space, b->stream[3], fill_kernel, one_block, &fill,
			 sizeof(fill), &used, 1));
	gate_open(&gate);
	OK(sluice_stream_synchronize(b->space, b->stream[3]));
	OK(sluice_evict(b->space, chunk_words(b, 5), 2 * CHUNK, SLUICE_TIER_STORE, NULL));
	for (size_t i = 0; i < 2 * WORDS; i += 511)
		if (chunk_words(b, 5)[i] != 900 + i)
			FAIL("word %zu is %llu, not %llu (%s, %s, mode %d)", i,
			     (unsigned long long)chunk_words(b, 5)[i],
			     (unsigned long long)(900 + i), scratch ? "scratch" : "discard",
			     by_faults ? "faults" : "declared", (int)mode);
}

static void
what_is_written_after_a_discard_stays(struct bench *b)
{
	dead_then_written(b, 1, 0, SLUICE_DISCARD_LAZY);
	for (int by_faults = 0; by_faults < 2; by_faults++) {
		dead_then_written(b, 0, by_faults, SLUICE_DISCARD_LAZY);
		dead_then_written(b, 0, by_faults, SLUICE_DISCARD_EAGER);
	}
}

/* An error: later launches of its stream do not run, callbacks and other streams do; reported once. */
static void
an_error_stays_on_its_stream(struct bench *b)
{
	_Atomic uint64_t ran[2] = {0, 0}, called = 0;
	_Atomic uint64_t *counts[2] = {&ran[0], &ran[1]};
	uint64_t *outside = b->base + CHUNKS * WORDS + 100;
	struct sluice_use used = use_of(b, 1, 2, SLUICE_USE_WRITE);
	struct gate gate = GATE_CLOSED;

	OK(sluice_stream_callback(b->space, b->stream[0], gate_pass, &gate));
	OK(sluice_launch(b->space, b->stream[0], outside_kernel, one_block, &outside,
			 sizeof(outside), &used, 1));
	for (int i = 0; i < 5; i++) {
		OK(sluice_launch(b->space, b->stream[0], count_kernel, one_block,
				 &counts[0], sizeof(counts[0]), &used, 1));
		OK(sluice_launch(b->space, b->stream[1], count_kernel, one_block,
				 &counts[1], sizeof(counts[1]), &used, 1));
		OK(sluice_stream_callback(b->space, b->stream[0], count_callback,
					  (void *)&called));
	}
	gate_open(&gate);
	CHECK(sluice_stream_synchronize(b->space, b->stream[0]) == -EFAULT);
	CHECK(strstr(sluice_last_error(), "outside"));
	OK(sluice_stream_synchronize(b->space, b->stream[0]));
	OK(sluice_stream_synchronize(b->space, b->stream[1]));
	CHECK(ran[0] == 0);
	CHECK(ran[1] == 5);
	CHECK(called == 5);
	OK(sluice_launch(b->space, b->stream[0], count_kernel, one_block, &counts[0],
			 sizeof(counts[0]), &used, 1));
	OK(sluice_stream_synchronize(b->space, b->stream[0]));
	CHECK(ran[0] == 1);
	/* What was cancelled holds nothing any more. */
	OK(sluice_evict(b->space, b->base, CHUNKS * CHUNK, SLUICE_TIER_HOST, NULL));
	OK(sluice_space_set_budget(b->space, SLUICE_TIER_DEVICE, 2 * CHUNK));
	OK(sluice_space_set_budget(b->space, SLUICE_TIER_DEVICE, BUDGET_CHUNKS * CHUNK));
}

/* ---- Many threads ---- */

struct launcher {
	struct bench *bench;
	unsigned id;
	uint64_t seed;
	_Atomic uint64_t *ran;
	uint64_t launched;
};

struct child {
	struct bench *bench;
	_Atomic uint64_t *ran;
};

/* A callback that launches on another stream. */
static void
launch_callback(void *p)
{
	struct child *child = p;

	OK(sluice_launch(child->bench->space, child->bench->stream[3], count_kernel,
			 one_block, &child->ran, sizeof(child->ran), NULL, 0));
}

static void *
launcher_run(void *p)
{
	struct launcher *l = p;
	struct bench *b = l->bench;
	struct sluice_stream *own = NULL;
	struct child child = {b, l->ran};
	struct sl_rng rng;

	sl_rng_init(&rng, l->seed);
	OK(sluice_stream_create(b->space, &own));
	for (int i = 0; i < 400 && !stress.failures; i++) {
		unsigned chunk = (unsigned)sl_rng_below(&rng, CHUNKS - 1);
		struct sluice_use uses[2] = {use_of(b, chunk, 2, SLUICE_USE_READ),
					     {chunk_words(b, chunk) + 64 * l->id, 256,
					      SLUICE_USE_READ_WRITE}};
		struct sluice_stream *stream = sl_rng_below(&rng, 2)
						       ? own
						       : b->stream[sl_rng_below(&rng, 2)];
		uint64_t *outside = b->base + CHUNKS * WORDS + 64 * l->id;
		struct sluice_launch *scope;

		switch (sl_rng_below(&rng, 10)) {
		case 0: /* ends in an error, which must be found on this stream only */
			OK(sluice_launch(b->space, own, outside_kernel, one_block,
					 &outside, sizeof(outside), uses, 1));
			CHECK(sluice_stream_synchronize(b->space, own) == -EFAULT);
			break;
		case 1:
			OK(sluice_launch_begin(b->space, own, uses, 2, &scope));
			if (!stress.failures)
				sluice_launch_end(scope);
			break;
		case 2:
			OK(sluice_stream_callback(b->space, b->stream[2], launch_callback,
						  &child));
			l->launched++;
			break;
		case 3:
			OK(sluice_prefetch(b->space, uses[0].addr, uses[0].size_bytes,
					   SLUICE_TIER_DEVICE, stream));
			break;
		default:
			OK(sluice_launch(b->space, stream, count_kernel, one_block, &l->ran,
					 sizeof(l->ran), uses, sl_rng_below(&rng, 3)));
			l->launched++;
			break;
		}
	}
	OK(sluice_stream_synchronize(b->space, own));
	OK(sluice_stream_synchronize(b->space, b->stream[2]));
	sluice_stream_destroy(own);
	return NULL;
}

static void
threads_launch_together(struct bench *b)
{
	enum { LAUNCHERS = 4 };
	struct launcher launchers[LAUNCHERS];
	pthread_t threads[LAUNCHERS];
	_Atomic uint64_t ran = 0;
	uint64_t launched = 0;

	for (unsigned i = 0; i < LAUNCHERS; i++) {
		launchers[i] = (struct launcher){b, i, sl_rng_next(&b->rng), &ran, 0};
		if (pthread_create(&threads[i], NULL, launcher_run, &launchers[i]))
			exit(1);
	}
	for (unsigned i = 0; i < LAUNCHERS; i++) {
		pthread_join(threads[i], NULL);
		launched += launchers[i].launched;
	}
	for (unsigned s = 0; s < STREAMS; s++)
		OK(sluice_stream_synchronize(b->space, b->stream[s]));
	if (ran != launched)
		FAIL("%llu launches, %llu ran", (unsigned long long)launched,
		     (unsigned long long)ran);
}

/* ---- One configuration ---- */

static void
run_config(const char *config)
{
	static void (*const tests[])(struct bench *) = {
		events_order_streams,
		a_launch_that_cannot_start_gives_way,
		a_launch_held_up_still_finds_its_data,
		what_is_written_after_a_discard_stays,
		an_error_stays_on_its_stream,
		threads_launch_together,
	};
	static const char *const names[] = {
		"events_order_streams",
		"a_launch_that_cannot_start_gives_way",
		"a_launch_held_up_still_finds_its_data",
		"what_is_written_after_a_discard_stays",
		"an_error_stays_on_its_stream",
		"threads_launch_together",
	};
	struct bench b = {0};
	void *addr;

	b.space = stress_space(config);
	sl_rng_init(&b.rng, stress.seed);
	OK(sluice_alloc(b.space, CHUNKS * CHUNK, 0, &addr));
	if (stress.failures)
		exit(1);
	b.base = addr;
	for (unsigned s = 0; s < STREAMS; s++)
		OK(sluice_stream_create(b.space, &b.stream[s]));
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]) && !stress.failures; i++) {
		printf("  %s\n", names[i]);
		fflush(stdout);
		tests[i](&b);
		OK(sluice_space_check(b.space));
	}
	for (unsigned s = 0; s < STREAMS; s++)
		sluice_stream_destroy(b.stream[s]);
	OK(sluice_unmap(b.space, b.base));
	stress_space_end(b.space);
}

int
main(int argc, char **argv)
{
	static const char *const configs[] = {
		"device_budget=8M,host_budget=0",
		"device_budget=8M,host_budget=8M,faults=signal",
		"device_budget=8M,host_budget=64M,population=grow,store_io=file",
		"device_budget=8M,host_budget=4M,population=page,policy=dragon",
		"device_budget=8M,host_budget=16M,policy=uvm,move=copy",
	};

	stress_begin(argc, argv, 0);
	for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++)
		if (stress_wants(configs[i]))
			run_config(configs[i]);
	return stress_end();
}
