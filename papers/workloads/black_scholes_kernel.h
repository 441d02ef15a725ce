/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BlackScholes: what its kernel is given, and the price of one European option, for the software
 * device and for CUDA (kernel.h says how the two share it).
 *
 * Threads: constant data and pure functions.
 */
#ifndef WORKLOADS_BLACK_SCHOLES_KERNEL_H
#define WORKLOADS_BLACK_SCHOLES_KERNEL_H

#include <math.h>

#include "kernel_math.h"

#define BLACK_SCHOLES_RISKFREE   0.02f
#define BLACK_SCHOLES_VOLATILITY 0.30f

#define BLACK_SCHOLES_CUDA_PAIRS 2048u /* of one block of a GPU's grid */

/* An element is a pair of options: of an odd number of options the last one is left alone. */
struct black_scholes_args {
	const float *price, *strike, *years;
	float *call, *put;
	uint64_t first, n; /* pairs */
};

/* The cumulative normal distribution: a polynomial of five terms, good to 1e-7. */
KERNEL_INLINE float
black_scholes_normal(float d)
{
	float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
	float p, tail;

	p = 1.330274429f;
	p = p * k - 1.821255978f;
	p = p * k + 1.781477937f;
	p = p * k - 0.356563782f;
	p = p * k + 0.31938153f;
	tail = 0.39894228f * kernel_exp(-0.5f * d * d) * (p * k);
	return d > 0.0f ? 1.0f - tail : tail;
}

KERNEL_INLINE void
black_scholes_option(float price, float strike, float years, float *call, float *put)
{
	float root = sqrtf(years);
	float drift = BLACK_SCHOLES_RISKFREE +
		      0.5f * BLACK_SCHOLES_VOLATILITY * BLACK_SCHOLES_VOLATILITY;
	float d1 = (kernel_log(price / strike) + drift * years) /
		   (BLACK_SCHOLES_VOLATILITY * root);
	float d2 = d1 - BLACK_SCHOLES_VOLATILITY * root;
	float n1 = black_scholes_normal(d1);
	float n2 = black_scholes_normal(d2);
	float paid = strike * kernel_exp(-BLACK_SCHOLES_RISKFREE * years);

	*call = price * n1 - paid * n2;
	*put = paid * (1.0f - n2) - price * (1.0f - n1);
}

#endif
