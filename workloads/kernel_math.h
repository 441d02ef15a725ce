/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exponentials and logarithms for kernels. Those of a C library and of a GPU differ in their last
 * bits, and results are compared bit for bit: so here they are once, out of operations that IEEE 754
 * defines, for the software device, for CUDA and for the references. Square roots and divisions are
 * exact everywhere and need nothing of their own.
 *
 * exp: x = k ln 2 + r with a whole k and |r| <= ln 2 / 2, so exp(x) = 2^k exp(r), exp(r) by its
 * series. The whole number nearest to a value comes from adding and taking away 1.5 * 2^(bits of the
 * fraction); the sum's low bits are that number, which makes 2^k without a conversion.
 * log: x = 2^k m with m between sqrt(1/2) and sqrt(2), log(m) = 2 artanh((m - 1) / (m + 1)) by its
 * series.
 *
 * No branches, so that loops over them vectorise. Errors are a few units of the last place
 * (tests/unit/test_workload_math.c holds them against the C library's).
 *
 * Threads: pure functions.
 */
#ifndef WORKLOADS_KERNEL_MATH_H
#define WORKLOADS_KERNEL_MATH_H

#include <string.h>

#include "kernel.h"

KERNEL_INLINE uint32_t
kernel_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

KERNEL_INLINE float
kernel_from_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

KERNEL_INLINE uint64_t
kernel_bits_f64(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	return bits;
}

KERNEL_INLINE double
kernel_from_bits_f64(uint64_t bits)
{
	double x;

	memcpy(&x, &bits, sizeof(x));
	return x;
}

/* exp(x), finite x; 0 below -87, and as for 88 above that. */
KERNEL_INLINE float
kernel_exp(float x)
{
	const float shift = 12582912.0f; /* 1.5 * 2^23 */
	float in = x < -87.0f ? -87.0f : x;
	float shifted, k, r, p, value;

	in = in > 88.0f ? 88.0f : in;
	shifted = in * 1.44269504f + shift;
	k = shifted - shift;
	r = in - k * 0.693359375f; /* ln 2 in two parts: the first times k is exact */
	r = r - k * -2.12194440e-4f;
	p = 1.0f / 5040;
	p = p * r + 1.0f / 720;
	p = p * r + 1.0f / 120;
	p = p * r + 1.0f / 24;
	p = p * r + 1.0f / 6;
	p = p * r + 0.5f;
	p = p * r + 1.0f;
	p = p * r + 1.0f;
	value = p * kernel_from_bits((kernel_bits(shifted) + 127u) << 23);
	return x < -87.0f ? 0.0f : value;
}

/* log(x) of a positive normal number. */
KERNEL_INLINE float
kernel_log(float x)
{
	uint32_t bits = kernel_bits(x);
	float k = (float)((int32_t)(bits >> 23) - 127);
	float m = kernel_from_bits((bits & 0x007fffffu) | 0x3f800000u);
	float t, t2, p;

	k = m > 1.41421356f ? k + 1.0f : k;
	m = m > 1.41421356f ? 0.5f * m : m;
	t = (m - 1.0f) / (m + 1.0f);
	t2 = t * t;
	p = 2.0f / 11;
	p = p * t2 + 2.0f / 9;
	p = p * t2 + 2.0f / 7;
	p = p * t2 + 2.0f / 5;
	p = p * t2 + 2.0f / 3;
	p = p * t2 + 2.0f;
	return k * 0.693359375f + (t * p + k * -2.12194440e-4f);
}

/* exp(x) in double precision, finite x; 0 below -700, and as for 700 above that. */
KERNEL_INLINE double
kernel_exp_f64(double x)
{
	const double shift = 6755399441055744.0; /* 1.5 * 2^52 */
	double in = x < -700.0 ? -700.0 : x;
	double shifted, k, r, p, value;

	in = in > 700.0 ? 700.0 : in;
	shifted = in * 1.4426950408889634 + shift;
	k = shifted - shift;
	r = in - k * 6.93147180369123816490e-01;
	r = r - k * 1.90821492927058770002e-10;
	p = 1.0 / 6227020800;
	p = p * r + 1.0 / 479001600;
	p = p * r + 1.0 / 39916800;
	p = p * r + 1.0 / 3628800;
	p = p * r + 1.0 / 362880;
	p = p * r + 1.0 / 40320;
	p = p * r + 1.0 / 5040;
	p = p * r + 1.0 / 720;
	p = p * r + 1.0 / 120;
	p = p * r + 1.0 / 24;
	p = p * r + 1.0 / 6;
	p = p * r + 0.5;
	p = p * r + 1.0;
	p = p * r + 1.0;
	value = p * kernel_from_bits_f64((kernel_bits_f64(shifted) + 1023u) << 52);
	return x < -700.0 ? 0.0 : value;
}

#endif
