/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers by position: element i of a stream is a hash of (seed, i), so that any piece of
 * an input can be made again without making what comes before it. The hash is the output
 * function of splitmix64 (a multiply-xor finaliser), applied to a counter.
 */
#ifndef WORKLOADS_RANDOM_H
#define WORKLOADS_RANDOM_H

#include <stdint.h>

static inline uint64_t
workload_hash(uint64_t seed, uint64_t i)
{
	uint64_t z = seed * 0xd1342543de82ef95u + (i + 1) * 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* [0, 1) in steps of 2^-24: every value is exact in a float. */
static inline float
workload_unit(uint64_t seed, uint64_t i)
{
	return (float)(workload_hash(seed, i) >> 40) * 0x1p-24f;
}

#endif
