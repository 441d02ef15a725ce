/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that repeats itself is followed though what it allocates lies elsewhere each time; what it
 * does is right, also where it stops doing the same. In processes of their own, looked at by their
 * statistics.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "work.h"

#define LAYERS   8u
#define STEPS    24u
#define WORDS    ((uint64_t)(2 << 20) / 8)
#define DEVICE   12u /* MiB: half of what one step uses */
/* Of a step: two forward and one backward. */
#define LAUNCHES (3 * LAYERS)

static char folder[] = "/tmp/sluice-follow-XXXXXX";

/* Outputs, each of its weights, and back. other: the backward pass leaves this one out. */
static void
step(const struct work *w, const uint64_t *weights, unsigned number, unsigned other,
     uint64_t *first)
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
		if (number % 8 == 7)
			work_expect(w, output[i], WORDS,
				    100 * i + number + 1 + (i != other ? 1000 : 0));
		OK(w->cuMemFree_v2(output[i]));
	}
}

/* moving: something else is allocated before each step, so that addresses differ. straying: every
 * fourth step is another. */
static void
program(int moving, int straying)
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
		step(&w, weights, number, other, &first);
		if (moving)
			OK(w.cuMemFree_v2(beside));
		moved += first != before;
		before = first;
	}
	CHECK(moving ? moved > STEPS / 2 : moved < STEPS / 2);
	work_end(&w);
	exit(0);
}

static int
status_of(const char *name, int follow, int moving, int straying)
{
	char text[128];
	int status = 0;
	pid_t child;

	snprintf(text, sizeof(text), "quiet=1,arguments=trust,follow=%d,stats=%s/%s",
		 follow, folder, name);
	child = fork();
	if (!child) {
		setenv("SLUICE_RUN", text, 1);
		setenv("SLUICE_MEASURE", "0", 1);
		setenv("CUDA_STANDIN_QUIET", "1", 1);
		program(moving, straying);
	}
	CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Hits, and what is given as misses, of a run. */
static uint64_t
hits_of(const char *name, uint64_t *misses)
{
	static char text[1 << 16];
	unsigned long long hits = 0, missed = 0;
	const char *at;
	char path[128];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "r");
	CHECK(f);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	(void)fclose(f);
	(void)unlink(path);
	at = strstr(text, "\"follows_hit\": ");
	CHECK(at && sscanf(at, "\"follows_hit\": %llu, \"follows_miss\": %llu", &hits,
			   &missed) == 2);
	printf("%s: %llu followed, %llu did not\n", name, hits, missed);
	*misses = missed;
	return hits;
}

int
main(void)
{
	/* The first step is learnt, and the first launches of the second find the place. */
	const uint64_t most = (uint64_t)LAUNCHES * (STEPS - 2);
	uint64_t misses, more;
	int status;

	CHECK(mkdtemp(folder));
	status = status_of("alone", 0, 1, 0);
	if (status) {
		(void)rmdir(folder);
		return status;
	}
	CHECK(!hits_of("alone", &misses) && !misses);
	CHECK(!status_of("still", 1, 0, 0));
	CHECK(hits_of("still", &misses) >= most);
	CHECK(!status_of("moving", 1, 1, 0));
	CHECK(hits_of("moving", &misses) >= most);
	CHECK(!status_of("straying", 1, 1, 1));
	CHECK(hits_of("straying", &more) >= most / 2 && more > misses);
	(void)rmdir(folder);
	return 0;
}
