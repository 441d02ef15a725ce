/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of dirty detection: data that are known by their place, launches of one
 * use, and the copied bytes. One thread. Each test is a program with a device of its own (t).
 */
#ifndef SL_TESTS_MEASURE_TEST_H
#define SL_TESTS_MEASURE_TEST_H

#include "cuda/cuda_test.h"

#define K       0x9e3779b97f4a7c15ull
#define CHUNK   (2 * MIB)
#define CHUNK_N (CHUNK / 8)

static struct cuda_test t;

static inline uint64_t
d2h(struct sluice_space *s)
{
	struct sluice_stats stats;

	sluice_stats_get(s, &stats);
	return sluice_stats_d2h_bytes(&stats);
}

static inline uint64_t *
data_make(struct sluice_space *s, uint64_t bytes, uint64_t seed)
{
	uint64_t *p;

	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	for (uint64_t i = 0; i < bytes / 8; i++)
		p[i] = i * K + seed;
	return p;
}

static inline void
space_end(struct sluice_space *s, void *p)
{
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* Declare bytes at p as intent says and run kernel on n words from at. */
static inline void
run_in(struct sluice_space *s, void *p, uint64_t bytes, enum sluice_intent intent,
       enum test_kernel kernel, uint64_t *at, uint64_t n, uint64_t third)
{
	struct sluice_use use = {p, bytes, intent};
	struct sluice_launch *l;

	CHECK_OK(sluice_launch_begin(s, NULL, &use, bytes ? 1 : 0, &l));
	cuda_test_launch(&t, s, NULL, kernel, at, n, third);
	sluice_launch_end(l);
}

#endif
