/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that repeats itself is predicted, though its allocations lie elsewhere each time.
 * Its results are right, also where it stops repeating. The cases are processes of their own,
 * checked by their statistics.
 */
#include <unistd.h>

#include "base/rng.h"
#include "scenario.h"
#include "work.h"

#define LAYERS   8u
#define STEPS    24u
#define WORDS    ((uint64_t)(2 << 20) / 8)
#define DEVICE   12u /* MiB: half of what one step uses */
/* Of a step: two forward and one backward. */
#define LAUNCHES (3 * LAYERS)

/* Outputs, each of its weights, and back. other: the backward pass leaves this one out. looks: with a look at
 * what the outputs are. */
static void
step(const struct work *w, const uint64_t *weights, unsigned number, unsigned other,
     int looks, uint64_t *first)
{
	uint64_t output[LAYERS];

	for (unsigned i = 0; i < LAYERS; i++) {
		output[i] = 0;
		OK(w->cuMemAlloc_v2(&output[i], WORDS * 8));
		work_launch(w, WORK_ADD, NULL, weights[i], WORDS, 1);
		work_launch(w, WORK_COPY, NULL, output[i], WORDS, weights[i]);
	}
	*first = output[0];
	for (unsigned i = LAYERS; i-- > 0;) {
		if (i != other)
			work_launch(w, WORK_ADD, NULL, output[i], WORDS, 1000);
		if (looks)
			work_expect(w, output[i], WORDS,
				    100 * i + number + 1 + (i != other ? 1000 : 0));
		OK(w->cuMemFree_v2(output[i]));
	}
}

/* Something that is larger in each step, as the keys of a text are with each word. */
static void
grow(const struct work *w, unsigned number)
{
	uint64_t p;

	OK(w->cuMemAlloc_v2(&p, WORDS * 8 + 65536 * number));
	work_launch(w, WORK_ADD, NULL, p, WORDS, 1);
	OK(w->cuMemFree_v2(p));
}

/* moving: something else is allocated before each step, so that addresses differ. straying: every
 * fourth step is another. steady: the results are looked at in the last step, and not in every eighth. */
static void
program(int moving, int straying, int steady, int growing)
{
	uint64_t weights[LAYERS], first = 0, before = 0;
	unsigned moved = 0;
	struct sl_rng rng;
	struct work w;

	sl_rng_init(&rng, 7);
	work_start(&w, DEVICE, 256);
	for (unsigned i = 0; i < LAYERS; i++)
		weights[i] = work_alloc(&w, WORDS, (uint64_t)100 * i);
	for (unsigned number = 0; number < STEPS; number++) {
		unsigned other = straying && number % 4 == 3 ? number % LAYERS : LAYERS;
		uint64_t beside = 0;

		if (moving)
			OK(w.cuMemAlloc_v2(&beside, (1 + sl_rng_below(&rng, 6)) * WORDS * 8));
		if (growing)
			grow(&w, number);
		step(&w, weights, number, other, (number + 1) % (steady ? STEPS : 8) == 0,
		     &first);
		if (moving)
			OK(w.cuMemFree_v2(beside));
		moved += first != before;
		before = first;
	}
	CHECK(moving ? moved > STEPS / 2 : moved < STEPS / 2);
	work_end(&w);
}

static int
alike(void)
{
	program(0, 0, 0, 0);
	return 0;
}

static int
moving_about(void)
{
	program(1, 0, 0, 0);
	return 0;
}

static int
steady(void)
{
	program(0, 0, 1, 0);
	return 0;
}

static int
growing(void)
{
	program(0, 0, 0, 1);
	return 0;
}

static int
straying(void)
{
	program(1, 1, 0, 0);
	return 0;
}

/* Whether p is on the device; what comes in the background has so long. */
static int
mapped_await(const struct work *w, uint64_t p)
{
	for (unsigned k = 0; k < 30; k++) {
		if (w->standin->mapped(0, p, WORDS * 8, SL_STANDIN_READ))
			return 1;
		usleep(100000);
	}
	return 0;
}

/* Forward, then back with the device emptying: what comes behind the part that is looked ahead (a quarter of the
 * device, 5 outputs) is fetched as soon as there is room, though it is needed much later: at one of the launches from
 * BACK to LATE, since room is asked for only there. */
static int
emptying(void)
{
	enum { DEEP = 40, BACK = 25, FAR = 12, LATE = FAR + 6 };
	uint64_t output[DEEP], bias[DEEP], input;
	struct work w;
	int came = 0;

	work_start(&w, 40, 256);
	input = work_alloc(&w, WORDS, 100);
	for (unsigned i = 0; i < DEEP; i++)
		bias[i] = work_alloc(&w, 512, 0);
	for (unsigned number = 0; number < 7; number++) {
		for (unsigned i = 0; i < DEEP; i++) {
			OK(w.cuMemAlloc_v2(&output[i], WORDS * 8));
			work_launch(&w, WORK_ADD, NULL, bias[i], 512, 1);
			work_launch(&w, WORK_COPY, NULL, output[i], WORDS, input);
		}
		for (unsigned i = DEEP; i-- > 0;) {
			work_launch(&w, WORK_ADD, NULL, output[i], WORDS, i);
			OK(w.cuStreamSynchronize(NULL));
			if (number == 5 && i <= BACK && i >= LATE && !came)
				came = mapped_await(&w, output[FAR]);
			if (number == 6)
				work_expect(&w, output[i], WORDS, 100 + i);
			OK(w.cuMemFree_v2(output[i]));
		}
	}
	CHECK(came);
	work_end(&w);
	return 0;
}

/* Again and again over what fits of much more: no way of moving can be faster than another. */
static int
fitting(void)
{
	uint64_t block[12];
	struct work w;

	work_start(&w, DEVICE, 256);
	for (unsigned i = 0; i < 12; i++)
		block[i] = work_alloc(&w, WORDS, (uint64_t)100 * i);
	for (unsigned number = 0; number < 256; number++) {
		for (unsigned i = 0; i < 4; i++)
			work_launch(&w, WORK_ADD, NULL, block[i], WORDS, 1);
		OK(w.cuStreamSynchronize(NULL));
	}
	for (unsigned i = 0; i < 4; i++)
		work_expect(&w, block[i], WORDS, 100 * i + 256);
	work_end(&w);
	return 0;
}

/* 52 bits of a word are random, so that it shrinks by an eighth, and no more. */
static uint64_t
random_word(uint64_t i)
{
	uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull;

	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ull;
	return (x ^ x >> 32) >> 12;
}

/* Over somewhat more such data than the device holds. */
static int
little_run(int in_one_block)
{
	enum { BLOCKS = 120, ROUNDS = 14 };
	uint64_t block[BLOCKS], *data = malloc(WORDS * 8);
	struct work w;

	CHECK(data);
	work_start(&w, BLOCKS * 7 / 4, 1024);
	if (in_one_block)
		OK(w.cuMemAlloc_v2(&block[0], BLOCKS * WORDS * 8));
	for (unsigned i = 0; i < BLOCKS; i++) {
		for (uint64_t k = 0; k < WORDS; k++)
			data[k] = random_word(i * WORDS + k);
		if (in_one_block)
			block[i] = block[0] + i * WORDS * 8;
		else
			OK(w.cuMemAlloc_v2(&block[i], WORDS * 8));
		OK(w.cuMemcpyHtoDAsync_v2(block[i], data, WORDS * 8, NULL));
	}
	for (unsigned number = 0; number < ROUNDS; number++)
		for (unsigned i = 0; i < BLOCKS; i++)
			work_launch(&w, WORK_ADD, NULL, block[i], WORDS, 1);
	for (unsigned i = 0; i < BLOCKS; i++) {
		OK(w.cuMemcpyDtoHAsync_v2(data, block[i], WORDS * 8, NULL));
		OK(w.cuStreamSynchronize(NULL));
		for (uint64_t k = 0; k < WORDS; k++)
			CHECK(data[k] == random_word(i * WORDS + k) + ROUNDS);
	}
	free(data);
	work_end(&w);
	return 0;
}

static int
shrinking_by_little(void)
{
	return little_run(0);
}

static int
shrinking_by_little_in_parts(void)
{
	return little_run(1);
}

static void
hits_expect(const char *name, uint64_t hits, uint64_t misses, uint64_t misses_most)
{
	scenario_expect(name, "counters", "follows_hit", hits, hits ? UINT64_MAX : 0);
	scenario_expect(name, "counters", "follows_miss", misses, misses_most);
}

int
main(void)
{
	/* The first step is learnt, and the first launches of the second find the place. */
	const uint64_t most = (uint64_t)LAUNCHES * (STEPS - 2);
	uint64_t hits;
	int status;

	setenv("SLUICE_MEASURE", "0", 1);
	setenv("CUDA_STANDIN_QUIET", "1", 1);
	scenario_open();
	status = scenario("alone", moving_about, "arguments=trust,follow=never");
	if (!status) {
		hits_expect("alone", 0, 0, 0);
		scenario("alike", alike, "arguments=trust");
		hits_expect("alike", most, 0, 1);
		/* Whether it is faster to wait for room is tried. */
		scenario("steady", steady, "arguments=trust");
		hits_expect("steady", most, 0, 1);
		scenario_expect("steady", "counters", "follows_patient", LAUNCHES,
				UINT64_MAX);
		scenario_expect("steady", "counters", "follows_encoding", 0, 0);
		scenario("moving", moving_about, "arguments=trust");
		hits_expect("moving", most, 0, 1);
		scenario("growing", growing, "arguments=trust");
		hits_expect("growing", most, 0, 1);
		scenario("fitting", fitting, "arguments=trust");
		hits_expect("fitting", (uint64_t)4 * 254, 0, 1);
		hits = scenario_number("fitting", "counters", "follows_hit");
		scenario_expect("fitting", "counters", "follows_patient", hits, hits);
		scenario("emptying", emptying, "arguments=trust,follow=always");
		scenario_expect("emptying", "counters", "follows_idle", 0, 0);
		/* Whether it is faster to encode what shrinks by little is tried, too. */
		setenv("SLUICE_COMPRESS", "auto", 1);
		setenv("SLUICE_LARGE_CHUNK", "2M", 1);
		setenv("CUDA_STANDIN_DEVICE_BYTES", "1G", 1);
		scenario("little", shrinking_by_little, "arguments=trust");
		scenario_expect("little", "counters", "follows_encoding", 1, UINT64_MAX);
		/* Not where kernels may access the rest in host memory, which has to be as it is. */
		scenario("parts", shrinking_by_little_in_parts, "arguments=trust");
		scenario_expect("parts", "counters", "follows_hit", 1, UINT64_MAX);
		scenario_expect("parts", "counters", "follows_encoding", 0, 0);
		unsetenv("SLUICE_COMPRESS");
		unsetenv("SLUICE_LARGE_CHUNK");
		unsetenv("CUDA_STANDIN_DEVICE_BYTES");
		scenario("straying", straying, "arguments=trust");
		hits_expect("straying", most / 2, 2, most / 2);
	}
	return scenario_close() ? 1 : status;
}
