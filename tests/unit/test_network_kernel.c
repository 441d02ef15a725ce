/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of the workload network: its oracle runs the same code, and cannot see that a gradient
 * is none. Derivatives are held against differences of the functions, laying out windows and gathering
 * from them against each other as the transposed maps that they are, and windows against their
 * definition.
 */
#include <math.h>
#include <string.h>

#include "unit/cmocka_all.h"

#include "network_kernel.h"

#define IMAGES 2u
#define EDGE   5u
#define DEPTH  3u
#define INPUTS (IMAGES * EDGE * EDGE * DEPTH)

static float
number(uint32_t i)
{
	uint32_t x = i * 2654435761u;

	x ^= x >> 15;
	x *= 2246822519u;
	x ^= x >> 13;
	return (float)(x >> 8) * 0x1p-23f - 1.0f;
}

static void
numbers(float *out, uint32_t n, uint32_t seed)
{
	for (uint32_t i = 0; i < n; i++)
		out[i] = number(seed * 7919u + i);
}

static void
assert_close(const char *what, double have, double want, double tolerance)
{
	if (!(fabs(have - want) <= tolerance * (1 + fabs(want))))
		fail_msg("%s: %.9g, not %.9g", what, have, want);
}

static struct network_args
window(uint32_t k, uint32_t stride)
{
	uint32_t out = (EDGE + stride - 1) / stride;

	return (struct network_args){
		.h = EDGE,
		.w_pixels = EDGE,
		.c = DEPTH,
		.oh = out,
		.ow = out,
		.k = k,
		.stride = stride,
		.pad = k / 2,
		.cols = k * k * DEPTH,
	};
}

/* What is at a place of an image, 0 around it. */
static float
pixel(const float *x, uint32_t image, int y, int col, uint32_t channel)
{
	if (y < 0 || col < 0 || y >= (int)EDGE || col >= (int)EDGE)
		return 0.0f;
	return x[((image * EDGE + (uint32_t)y) * EDGE + (uint32_t)col) * DEPTH + channel];
}

static void
windows_hold_what_is_around_a_position(void **state)
{
	static const uint32_t shapes[][2] = {{3, 1}, {3, 2}, {1, 2}};
	float x[INPUTS];

	(void)state;
	numbers(x, INPUTS, 1);
	for (unsigned s = 0; s < 3; s++) {
		struct network_args a = window(shapes[s][0], shapes[s][1]);

		a.x = x;
		for (uint32_t row = 0; row < IMAGES * a.oh * a.ow; row++) {
			for (uint32_t i = 0; i < a.cols; i++) {
				uint32_t tap = i / DEPTH;
				int y = (int)(row / a.ow % a.oh * a.stride + tap / a.k) -
					(int)a.pad;
				int col = (int)(row % a.ow * a.stride + tap % a.k) -
					  (int)a.pad;
				float want = pixel(x, row / (a.ow * a.oh), y, col, i % DEPTH);

				assert_true(network_window(&a, row, i) == want);
			}
		}
	}
}

/* <windows of x, c> = <x, what is gathered from c>. */
static void
gathering_is_the_transpose_of_laying_out(void **state)
{
	static const uint32_t shapes[][2] = {{3, 1}, {3, 2}, {1, 2}, {5, 3}};
	static float x[INPUTS], c[INPUTS * 25];

	(void)state;
	numbers(x, INPUTS, 2);
	numbers(c, INPUTS * 25, 3);
	for (unsigned s = 0; s < 4; s++) {
		struct network_args a = window(shapes[s][0], shapes[s][1]);
		double out = 0, back = 0;

		a.x = x;
		for (uint32_t row = 0; row < IMAGES * a.oh * a.ow; row++)
			for (uint32_t i = 0; i < a.cols; i++)
				out += (double)network_window(&a, row, i) *
				       (double)c[row * a.cols + i];
		a.x = c;
		for (uint32_t row = 0; row < IMAGES * EDGE * EDGE; row++)
			for (uint32_t i = 0; i < DEPTH; i++)
				back += (double)network_window_back(&a, row, i) *
					(double)x[row * DEPTH + i];
		assert_close("transpose", back, out, 1e-5);
	}
}

static void
slopes_are_those_of_the_activations(void **state)
{
	(void)state;
	for (uint32_t act = NETWORK_LINEAR; act <= NETWORK_TANH; act++) {
		for (uint32_t i = 0; i < 200; i++) {
			float x = 3.0f * number(i), step = 1.0f / 256;
			double rise = (double)network_activate(act, x + step) -
				      (double)network_activate(act, x - step);

			if (fabsf(x) < 2 * step)
				continue; /* there some have an edge */
			assert_close("slope",
				     (double)network_slope(act, network_activate(act, x)),
				     rise * 128, 2e-4);
		}
	}
	for (uint32_t i = 0; i < 1000; i++) {
		float x = 8.0f * number(i);

		assert_close("tanh", (double)network_tanh(x), tanh((double)x), 1e-6);
	}
}

#define ROWS 6u
#define COLS 2u

/* Normalised rows of one column, by the kernels' steps. */
static void
normalise(const float *x, float gamma, float beta, float *moments, float *y)
{
	for (uint32_t c = 0; c < COLS; c++) {
		double sum = 0, squares = 0;

		for (uint32_t r = 0; r < ROWS; r++) {
			sum += (double)x[r * COLS + c];
			squares += (double)x[r * COLS + c] * (double)x[r * COLS + c];
		}
		moments[c] = network_mean(sum, ROWS);
		moments[COLS + c] = network_inverse(sum, squares, ROWS);
		for (uint32_t r = 0; r < ROWS; r++)
			y[r * COLS + c] = gamma * network_normal(x[r * COLS + c], moments,
								 COLS, c) +
					  beta;
	}
}

/* Of a weighted sum of what is given: the gradient that the kernel has against differences. */
static void
gradient_of_normalising_is_its_derivative(void **state)
{
	float x[ROWS * COLS], g[ROWS * COLS], y[ROWS * COLS], moments[2 * COLS];
	float sums[2 * COLS] = {0};
	const float gamma = 1.5f, step = 1.0f / 128;

	(void)state;
	numbers(x, ROWS * COLS, 4);
	numbers(g, ROWS * COLS, 5);
	normalise(x, gamma, 0.25f, moments, y);
	for (uint32_t i = 0; i < ROWS * COLS; i++) {
		sums[i % COLS] += g[i];
		sums[COLS + i % COLS] += g[i] * network_normal(x[i], moments, COLS, i % COLS);
	}
	for (uint32_t i = 0; i < ROWS * COLS; i++) {
		float before = x[i], other[2 * COLS], up[ROWS * COLS], down[ROWS * COLS];
		float have = network_normal_back(g[i],
						 network_normal(x[i], moments, COLS, i % COLS),
						 gamma, moments[COLS + i % COLS], sums,
						 COLS, i % COLS, ROWS);
		double rise = 0;

		x[i] = before + step;
		normalise(x, gamma, 0.25f, other, up);
		x[i] = before - step;
		normalise(x, gamma, 0.25f, other, down);
		x[i] = before;
		for (uint32_t k = 0; k < ROWS * COLS; k++)
			rise += (double)g[k] * ((double)up[k] - (double)down[k]);
		assert_close("gradient", (double)have, rise * 64, 5e-3);
	}
}

static void
pooling_takes_the_largest_and_gives_back_to_it(void **state)
{
	/* Two channels of 2 x 4; in the second window all numbers of channel 1 are equal. */
	float x[] = {1, 5, 2, 6, 9, 7, 8, 7, 4, 4, 3, 8, 6, 7, 5, 7};
	float out[16], y[4];
	const float d[] = {10, 20, 30, 40};
	const float want[] = {0, 0, 0, 0, 30, 40, 0, 0, 10, 0, 0, 20, 0, 0, 0, 0};
	struct network_args a = {
		.x = x, .out = out, .h = 2, .w_pixels = 4, .c = 2, .oh = 1, .ow = 2, .k = 2};

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		uint64_t first = network_pool_first(&a, i / 2, i % 2);

		y[i] = network_pool(&a, first);
		network_pool_back(&a, first, y[i], d[i]);
	}
	assert_true(y[0] == 4 && y[1] == 8 && y[2] == 9 && y[3] == 7);
	assert_memory_equal(out, want, sizeof(want));
}

static void
averages_are_over_an_image(void **state)
{
	const float x[] = {1, 10, 2, 20, 3, 30, 6, 40, 0, 1, 0, 2, 0, 3, 4, 6};
	struct network_args a = {.x = x, .h = 2, .w_pixels = 2, .c = 2};

	(void)state;
	assert_true(network_average(&a, 0, 0) == 3 && network_average(&a, 0, 1) == 25);
	assert_true(network_average(&a, 1, 0) == 1 && network_average(&a, 1, 1) == 3);
}

static void
gradient_of_the_loss_is_its_derivative(void **state)
{
	float score[7], gradient[7], unused[7];
	const float step = 1.0f / 64;

	(void)state;
	numbers(score, 7, 6);
	for (uint32_t label = 0; label < 7; label++) {
		double sum = 0, share = 0;

		for (uint32_t i = 0; i < 7; i++)
			sum += exp((double)score[i]);
		share = exp((double)score[label]) / sum;
		assert_close("loss", (double)network_loss(score, 7, label, 4, gradient),
			     -log(share), 1e-6);
		for (uint32_t i = 0; i < 7; i++) {
			float before = score[i];
			double rise;

			score[i] = before + step;
			rise = (double)network_loss(score, 7, label, 4, unused);
			score[i] = before - step;
			rise -= (double)network_loss(score, 7, label, 4, unused);
			score[i] = before;
			assert_close("gradient", (double)gradient[i] * 4, rise * 32, 1e-3);
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_hold_what_is_around_a_position),
		cmocka_unit_test(gathering_is_the_transpose_of_laying_out),
		cmocka_unit_test(slopes_are_those_of_the_activations),
		cmocka_unit_test(gradient_of_normalising_is_its_derivative),
		cmocka_unit_test(pooling_takes_the_largest_and_gives_back_to_it),
		cmocka_unit_test(averages_are_over_an_image),
		cmocka_unit_test(gradient_of_the_loss_is_its_derivative),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
