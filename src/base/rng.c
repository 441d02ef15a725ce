/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers that are the same on every machine for the same seed. Tests print the seed and
 * can be repeated, and generated inputs have one right contents. xoshiro256** (Blackman and
 * Vigna) is small and fast and passes the usual test batteries. splitmix64 spreads the seed over
 * its state, so seeds 0, 1, 2 ... give unrelated sequences. Not for secrets.
 *
 * Threads: one generator belongs to one thread at a time; there is no shared state.
 */
#include "base/rng.h"

#include <assert.h>

static uint64_t
rotate_left(uint64_t x, unsigned by)
{
	return x << by | x >> (64 - by);
}

static uint64_t
splitmix_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

void
sl_rng_init(struct sl_rng *rng, uint64_t seed)
{
	/* splitmix64 is a bijection of its counter: the four words cannot all be 0. */
	for (int i = 0; i < 4; i++)
		rng->s[i] = splitmix_next(&seed);
}

uint64_t
sl_rng_next(struct sl_rng *rng)
{
	uint64_t *s = rng->s;
	uint64_t result = rotate_left(s[1] * 5, 7) * 9;
	uint64_t shifted = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= shifted;
	s[3] = rotate_left(s[3], 45);
	return result;
}

/*
 * The high word of a 64 x 64 bit product is in [0, n). It is uniform once the 2^64 mod n
 * lowest products are thrown away; at worst every second draw is, so the loop ends soon
 * (64 draws in a row are thrown away once in 2^64 calls).
 */
uint64_t
sl_rng_below(struct sl_rng *rng, uint64_t n)
{
	unsigned __int128 product;
	uint64_t refused;

	assert(n > 0);
	product = (unsigned __int128)sl_rng_next(rng) * n;
	if ((uint64_t)product < n) {
		refused = -n % n; /* 2^64 mod n; a division only when it can matter */
		while ((uint64_t)product < refused)
			product = (unsigned __int128)sl_rng_next(rng) * n;
	}
	return (uint64_t)(product >> 64);
}

double
sl_rng_unit(struct sl_rng *rng)
{
	return (double)(sl_rng_next(rng) >> 11) * 0x1p-53; /* the 53 bits a double holds */
}
