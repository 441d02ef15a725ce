/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Mersenne twister MT19937 (Matsumoto and Nishimura 1998), 32 bits: the generator that
 * the published noise experiment names, so that the same seed means the same launches are
 * slow here. Everything else in this project draws from base/rng.h.
 *
 * Threads: the caller's object.
 */
#include "sim/internal.h"

#define WORDS  624
#define MIDDLE 397

void
sl_twister_init(struct sl_twister *twister, uint32_t seed)
{
	uint32_t *s = twister->state, i;

	s[0] = seed;
	for (i = 1; i < WORDS; i++)
		s[i] = 1812433253u * (s[i - 1] ^ (s[i - 1] >> 30)) + i;
	twister->next = WORDS;
}

uint32_t
sl_twister_next(struct sl_twister *twister)
{
	uint32_t *s = twister->state, i, y;

	if (twister->next == WORDS) {
		for (i = 0; i < WORDS; i++) {
			y = (s[i] & 0x80000000u) | (s[(i + 1) % WORDS] & 0x7fffffffu);
			s[i] = s[(i + MIDDLE) % WORDS] ^ (y >> 1) ^
			       (y & 1 ? 0x9908b0dfu : 0);
		}
		twister->next = 0;
	}
	y = s[twister->next++];
	y ^= y >> 11;
	y ^= y << 7 & 0x9d2c5680u;
	y ^= y << 15 & 0xefc60000u;
	return y ^ y >> 18;
}

double
sl_twister_range(struct sl_twister *twister, double low, double high)
{
	/* 64 random bits, low word first. */
	double unit = sl_twister_next(twister);

	unit += sl_twister_next(twister) * 0x1p32;
	unit *= 0x1p-64;
	if (unit >= 1)
		unit = 0x1.fffffffffffffp-1;
	return low + (high - low) * unit;
}
