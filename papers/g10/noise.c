/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel times that are off (paper G10, figure 19): each launch's time times a factor, drawn once.
 *
 * The generator is the Mersenne twister MT19937 (Matsumoto and Nishimura 1998), 32 bits, which the
 * published experiment names: the same seed means that the same launches are slow here.
 * Everything else in this project draws from base/rng.h.
 *
 * Threads: the caller's objects.
 */
#include "g10/replica.h"

#include <errno.h>
#include <stdlib.h>

#define SEED_DEFAULT 5489 /* the generator's own */
#define NOISE_MAX    0.99

#define WORDS  624
#define MIDDLE 397

void
g10_twister_init(struct g10_twister *twister, uint32_t seed)
{
	uint32_t *s = twister->state, i;

	s[0] = seed;
	for (i = 1; i < WORDS; i++)
		s[i] = 1812433253u * (s[i - 1] ^ (s[i - 1] >> 30)) + i;
	twister->next = WORDS;
}

uint32_t
g10_twister_next(struct g10_twister *twister)
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

static double
twister_range(struct g10_twister *twister, double low, double high)
{
	/* 64 random bits, low word first. */
	double unit = g10_twister_next(twister);

	unit += g10_twister_next(twister) * 0x1p32;
	unit *= 0x1p-64;
	if (unit >= 1)
		unit = 0x1.fffffffffffffp-1;
	return low + (high - low) * unit;
}

/* Never to 0. */
static uint64_t
ticks_scale(uint64_t ticks, double factor)
{
	uint64_t scaled = (uint64_t)((double)ticks * factor);

	return ticks && !scaled ? 1 : scaled;
}

int
g10_noise_make(const struct sl_trace *trace, double noise, uint32_t seed,
	       struct sl_trace *noisy)
{
	struct g10_twister twister;

	if (!(noise >= 0 && noise <= NOISE_MAX))
		return sl_fail(-EINVAL, "noise is %g, must be 0 to %g", noise, NOISE_MAX);
	*noisy = *trace;
	noisy->launches = calloc((size_t)trace->n_launches + 1, sizeof(*noisy->launches));
	if (!noisy->launches)
		return sl_fail(-ENOMEM, "noise: no memory for %u launches",
			       trace->n_launches);
	g10_twister_init(&twister, seed ? seed : SEED_DEFAULT);
	for (uint32_t k = 0; k < trace->n_launches; k++) {
		double factor = twister_range(&twister, 1 - noise, 1 + noise);
		struct sl_trace_launch *launch = &noisy->launches[k];

		*launch = trace->launches[k];
		launch->ticks = ticks_scale(launch->ticks, factor);
		launch->fault_output_ticks = ticks_scale(launch->fault_output_ticks, factor);
		launch->fault_all_ticks = ticks_scale(launch->fault_all_ticks, factor);
	}
	return 0;
}

void
g10_noise_fini(struct sl_trace *noisy)
{
	free(noisy->launches);
}
