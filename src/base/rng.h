/* SPDX-License-Identifier: Apache-2.0 */
/* Small deterministic random numbers (xoshiro256** seeded by splitmix64). */
#ifndef SL_BASE_RNG_H
#define SL_BASE_RNG_H

#include <stdint.h>

struct sl_rng {
	uint64_t s[4];
};

void sl_rng_init(struct sl_rng *rng, uint64_t seed);
uint64_t sl_rng_next(struct sl_rng *rng);
uint64_t sl_rng_below(struct sl_rng *rng, uint64_t n); /* [0, n), n > 0, unbiased */
double sl_rng_unit(struct sl_rng *rng);                /* [0, 1) */

#endif
