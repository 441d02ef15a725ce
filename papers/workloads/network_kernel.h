/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network: what its kernels are given, and the arithmetic of one number, for the software device and
 * for CUDA (kernel.h says how the two share it).
 *
 * A tensor is rows of cols numbers: a row is a position of an image, cols its channels, images lie
 * one behind the other; so a group of images is one range of bytes, a channel's numbers are a
 * column. Products of matrices are not here: a library does them (network.h).
 *
 * The pointers of struct network_args are to the first row that a launch works on, those to
 * parameters and sums to their first number. What each is, is said at the kernels' numbers. One that
 * a kernel does not use is equal to out.
 *
 * Threads: constant data and pure functions.
 */
#ifndef WORKLOADS_NETWORK_KERNEL_H
#define WORKLOADS_NETWORK_KERNEL_H

#include <math.h>

#include "kernel_math.h"

#define NETWORK_SUM_ROWS 1024u /* rows that are added up together, the last ones fewer */
#define NETWORK_ROWS     16u   /* of a tensor that a block of a GPU's grid works on */
#define NETWORK_COLUMNS  32u   /* of sums that a block of a GPU's grid adds up */
#define NETWORK_EPSILON  1e-5f /* added to a variance */
#define NETWORK_LEAK     0.1f

enum network_act { NETWORK_LINEAR, NETWORK_RELU, NETWORK_LEAKY, NETWORK_TANH };

/* What is added up down the columns. */
enum network_sum {
	NETWORK_SUM_MOMENTS, /* x; x squared */
	NETWORK_SUM_NORM,    /* slope(y) d = g; g times x normalised by s */
	NETWORK_SUM_BIAS /* slope(y) d, which replaces d (here out); one sum, not two */
};

/* What becomes of the numbers that were there. */
enum network_add { NETWORK_COPY, NETWORK_ADD_TO, NETWORK_ADD_TWO };

struct network_args {
	const float *x, *y, *d, *w, *s, *g;
	float *out, *part;
	uint64_t rows; /* or numbers, where a kernel has no rows */
	uint64_t all;  /* rows of the tensor; reduce: groups of sums */
	uint32_t cols;
	uint32_t h, w_pixels, c; /* an image that a window goes over */
	uint32_t oh, ow;         /* positions of the window */
	uint32_t k, stride, pad; /* of the window */
	uint32_t act;            /* enum network_act */
	uint32_t mode;           /* enum network_sum or network_add */
	float rate;
};

/* C = op(A) op(B), or that added to C; rows one behind the other, ld numbers apart. */
struct network_gemm_args {
	const float *a, *b;
	float *c;
	uint32_t m, n, k;       /* C is m x n, op(A) m x k */
	uint32_t lda, ldb, ldc; /* of A and B as they lie in memory */
	uint32_t a_turned, b_turned;
	uint32_t adds;
};

/* ---- one number ---- */

KERNEL_INLINE float
network_tanh(float v)
{
	float size = v < 0.0f ? -v : v;
	float t = 1.0f - 2.0f / (kernel_exp(2.0f * size) + 1.0f);

	return v < 0.0f ? -t : t;
}

KERNEL_INLINE float
network_activate(uint32_t act, float v)
{
	switch (act) {
	case NETWORK_RELU:
		return v > 0.0f ? v : 0.0f;
	case NETWORK_LEAKY:
		return v > 0.0f ? v : NETWORK_LEAK * v;
	case NETWORK_TANH:
		return network_tanh(v);
	}
	return v;
}

/* The derivative, by what the function gave. */
KERNEL_INLINE float
network_slope(uint32_t act, float y)
{
	switch (act) {
	case NETWORK_RELU:
		return y > 0.0f ? 1.0f : 0.0f;
	case NETWORK_LEAKY:
		return y > 0.0f ? 1.0f : NETWORK_LEAK;
	case NETWORK_TANH:
		return 1.0f - y * y;
	}
	return 1.0f;
}

/* Mean and reciprocal deviation of n numbers, by their sums. */
KERNEL_INLINE float
network_mean(double sum, uint64_t n)
{
	return (float)(sum / (double)n);
}

KERNEL_INLINE float
network_inverse(double sum, double squares, uint64_t n)
{
	double mean = sum / (double)n;
	double variance = squares / (double)n - mean * mean;

	return (float)(1.0 /
		       sqrt((variance > 0.0 ? variance : 0.0) + (double)NETWORK_EPSILON));
}

/* Normalised by moments (means, then reciprocal deviations, of cols columns). */
KERNEL_INLINE float
network_normal(float x, const float *moments, uint32_t cols, uint32_t col)
{
	return (x - moments[col]) * moments[cols + col];
}

/* Gradient of what is normalised; sums: of g, then of g times normal. gamma: the column's scale. */
KERNEL_INLINE float
network_normal_back(float g, float normal, float gamma, float inverse, const float *sums,
		    uint32_t cols, uint32_t col, uint64_t n)
{
	float mean = sums[col] / (float)n, slope = sums[cols + col] / (float)n;

	return gamma * inverse * (g - mean - normal * slope);
}

/* Number i of a row's window, laid out by row of the window, column, channel; 0 outside. */
KERNEL_INLINE float
network_window(const struct network_args *a, uint64_t row, uint32_t i)
{
	uint32_t tap = i / a->c, channel = i % a->c;
	uint32_t ox = (uint32_t)(row % a->ow), oy = (uint32_t)(row / a->ow % a->oh);
	uint64_t image = row / ((uint64_t)a->ow * a->oh);
	/* Left or above the image these wrap around, and are too large. */
	uint32_t y = oy * a->stride + tap / a->k - a->pad;
	uint32_t x = ox * a->stride + tap % a->k - a->pad;

	if (y >= a->h || x >= a->w_pixels)
		return 0.0f;
	return a->x[((image * a->h + y) * a->w_pixels + x) * a->c + channel];
}

/* The other way: what the windows that a position is in hold for it. */
KERNEL_INLINE float
network_window_back(const struct network_args *a, uint64_t row, uint32_t channel)
{
	uint32_t x = (uint32_t)(row % a->w_pixels), y = (uint32_t)(row / a->w_pixels % a->h);
	uint64_t image = row / ((uint64_t)a->w_pixels * a->h);
	uint32_t width = a->k * a->k * a->c;
	float sum = 0.0f;

	for (uint32_t ky = 0; ky < a->k; ky++) {
		uint32_t top = y + a->pad - ky; /* wraps as above */

		if (top % a->stride || top / a->stride >= a->oh || ky > y + a->pad)
			continue;
		for (uint32_t kx = 0; kx < a->k; kx++) {
			uint32_t left = x + a->pad - kx;
			uint64_t from;

			if (left % a->stride || left / a->stride >= a->ow || kx > x + a->pad)
				continue;
			from = (image * a->oh + top / a->stride) * a->ow + left / a->stride;
			sum = sum + a->x[from * width + (ky * a->k + kx) * a->c + channel];
		}
	}
	return sum;
}

/* Where a window without overlap begins in its image's tensor: its first number of a channel. */
KERNEL_INLINE uint64_t
network_pool_first(const struct network_args *a, uint64_t row, uint32_t channel)
{
	uint64_t ox = row % a->ow, oy = row / a->ow % a->oh;
	uint64_t image = row / ((uint64_t)a->ow * a->oh);

	return ((image * a->h + oy * a->k) * a->w_pixels + ox * a->k) * a->c + channel;
}

/* first: network_pool_first() */
KERNEL_INLINE float
network_pool(const struct network_args *a, uint64_t first)
{
	const float *from = a->x + first;
	float most = from[0];

	for (uint32_t ky = 0; ky < a->k; ky++)
		for (uint32_t kx = 0; kx < a->k; kx++) {
			float v = from[((uint64_t)ky * a->w_pixels + kx) * a->c];

			most = v > most ? v : most;
		}
	return most;
}

/* The gradient goes to the first number of the window that was the largest. */
KERNEL_INLINE void
network_pool_back(const struct network_args *a, uint64_t first, float y, float d)
{
	for (uint32_t ky = 0; ky < a->k; ky++)
		for (uint32_t kx = 0; kx < a->k; kx++) {
			uint64_t at = first + ((uint64_t)ky * a->w_pixels + kx) * a->c;

			a->out[at] = a->x[at] == y ? d : 0.0f;
			d = a->x[at] == y ? 0.0f : d;
		}
}

/* Mean over the positions of an image. */
KERNEL_INLINE float
network_average(const struct network_args *a, uint64_t image, uint32_t channel)
{
	uint32_t n = a->h * a->w_pixels;
	const float *from = a->x + image * n * a->c + channel;
	float sum = 0.0f;

	for (uint32_t i = 0; i < n; i++)
		sum = sum + from[(uint64_t)i * a->c];
	return sum / (float)n;
}

/*
 * A row of n scores: the loss is the negative logarithm of the label's share; gradient gets its
 * derivative by the scores, divided by the rows of the batch.
 */
KERNEL_INLINE float
network_loss(const float *score, uint32_t n, uint32_t label, uint64_t rows, float *gradient)
{
	float most = score[0], sum = 0.0f;

	for (uint32_t i = 1; i < n; i++)
		most = score[i] > most ? score[i] : most;
	for (uint32_t i = 0; i < n; i++)
		sum = sum + kernel_exp(score[i] - most);
	for (uint32_t i = 0; i < n; i++)
		gradient[i] = (kernel_exp(score[i] - most) / sum -
			       (i == label ? 1.0f : 0.0f)) /
			      (float)rows;
	return kernel_log(sum) - (score[label] - most);
}

#endif
