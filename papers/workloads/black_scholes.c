/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BlackScholes: prices of n = footprint / 20 European call and put options by the closed form, out
 * of price, strike and years to expiry. Like vectorAdd nothing is used twice; there is more to
 * compute per byte, and two results.
 *
 * price, strike and years are mapped for reading, call and put for writing with CREATE. A kernel
 * works on pairs of options, as the published program does: with an odd n the last option is
 * declared and written by nobody, and has to be 0 in a new file. One launch per tile, a tile being
 * the same piece of the five arrays.
 *
 * Arithmetic: single precision, with the exponential and the logarithm of kernel_math.h, so that
 * every device gives the same bytes.
 *
 * Threads: see env.h; the kernel runs on any number of workers.
 */
#include "black_scholes_kernel.h"

#include "env.h"
#include "list.h"
#include "random.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { ARRAY_PRICE, ARRAY_STRIKE, ARRAY_YEARS, ARRAY_CALL, ARRAY_PUT, ARRAY_COUNT };

#define INPUTS        3u
#define CHECK_OPTIONS (1u << 18) /* of the reference at a time */

static int
black_scholes_plan(const struct workload_params *params, struct workload_plan *plan,
		   char *error)
{
	static const char *const names[ARRAY_COUNT] = {"price", "strike", "years", "call",
						       "put"};
	uint64_t n = params->footprint_bytes / 20;
	unsigned i;

	if (n < 2)
		return workload_plan_refuse(
			error,
			"BlackScholes: the footprint must be at least 40 "
			"bytes (a pair of options), it is %" PRIu64,
			params->footprint_bytes);
	plan->rows = 1;
	plan->cols = n;
	plan->n_arrays = ARRAY_COUNT;
	for (i = 0; i < ARRAY_COUNT; i++) {
		plan->array[i] = (struct workload_array){
			.name = names[i],
			.role = i < INPUTS ? WORKLOAD_INPUT : WORKLOAD_OUTPUT,
			.flags = i < INPUTS ? SLUICE_READ : SLUICE_WRITE | SLUICE_CREATE,
			.size_bytes = n * 4,
		};
	}
	return 0;
}

static void
black_scholes_fill(const struct workload_plan *plan, unsigned array, uint64_t seed,
		   uint64_t first, size_t n, void *out)
{
	static const float low[INPUTS] = {5.0f, 1.0f, 0.25f};
	static const float high[INPUTS] = {30.0f, 100.0f, 10.0f};
	float *to = out;
	size_t i;

	(void)plan;
	for (i = 0; i < n; i++) {
		float t = workload_unit(seed * INPUTS + array, first + i);

		to[i] = (1.0f - t) * low[array] + t * high[array];
	}
}

static uint64_t
black_scholes_elements(const void *args)
{
	return ((const struct black_scholes_args *)args)->n;
}

static void
black_scholes_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct black_scholes_args *b = args;
	const float *restrict price = b->price, *restrict strike = b->strike;
	const float *restrict years = b->years;
	float *restrict call = b->call, *restrict put = b->put;
	uint64_t i;

	for (i = 2 * (b->first + begin); i < 2 * (b->first + end); i++)
		black_scholes_option(price[i], strike[i], years[i], &call[i], &put[i]);
}

static void
black_scholes_touch(const void *args, uint64_t begin, uint64_t end,
		    struct workload_touch *touch)
{
	const struct black_scholes_args *b = args;
	unsigned i;

	for (i = 0; i < ARRAY_COUNT; i++)
		touch[i] = (struct workload_touch){.first = 2 * (b->first + begin),
						   .n = 2 * (end - begin),
						   .read = i < INPUTS,
						   .write = i >= INPUTS};
}

static const struct workload_kernel black_scholes_kernel = {
	.name = "workload_black_scholes",
	.soft_elements = WORKLOAD_BLOCK_ELEMENTS / 8,
	.cuda_elements = BLACK_SCHOLES_CUDA_PAIRS,
	.args_bytes = sizeof(struct black_scholes_args),
	.n_pointers = ARRAY_COUNT,
	.pointer = {offsetof(struct black_scholes_args, price),
		    offsetof(struct black_scholes_args, strike),
		    offsetof(struct black_scholes_args, years),
		    offsetof(struct black_scholes_args, call),
		    offsetof(struct black_scholes_args, put)},
	.elements = black_scholes_elements,
	.piece = black_scholes_piece,
	.touch = black_scholes_touch,
};

static int
black_scholes_run(struct workload_env *env)
{
	uint64_t n = env->plan.cols / 2 * 2;
	uint64_t tile = workload_tile_elements(env, ARRAY_COUNT, 0);
	uint64_t first;
	int rc = 0;

	for (first = 0; !rc && first < n; first += tile) {
		uint64_t count = kernel_min(tile, n - first);
		struct black_scholes_args args = {
			.price = env->base[ARRAY_PRICE],
			.strike = env->base[ARRAY_STRIKE],
			.years = env->base[ARRAY_YEARS],
			.call = env->base[ARRAY_CALL],
			.put = env->base[ARRAY_PUT],
			.first = first / 2,
			.n = count / 2,
		};
		struct sluice_use uses[ARRAY_COUNT];
		unsigned i;

		for (i = 0; i < ARRAY_COUNT; i++)
			uses[i] = workload_use(env, i, first, count,
					       i < INPUTS ? SLUICE_USE_READ
							  : SLUICE_USE_WRITE_ALL);
		rc = workload_launch(env, &black_scholes_kernel, &args, uses, ARRAY_COUNT);
		if (!rc)
			rc = workload_tile_done(env, first + count, n);
	}
	return rc;
}

static void
black_scholes_expect(const struct workload_env *env, struct workload_expectation *out)
{
	uint64_t array = workload_chunks_up(env, env->plan.cols * 4);
	uint64_t budget = env->config.device_budget_bytes;

	if (env->config.policy == SLUICE_POLICY_UVM)
		return; /* inputs are written back too: no published figure */
	out->known = 1;
	out->h2d_bytes = 3 * array;
	snprintf(out->h2d_formula, sizeof(out->h2d_formula), "12n");
	out->d2h_bytes = workload_less(2 * array, budget / 5 * 2);
	snprintf(out->d2h_formula, sizeof(out->d2h_formula), "max(0, 8n - 2G/5)");
	out->tolerance_bytes = env->result->tile_bytes + 4 * env->config.chunk_bytes;
}

/* ---- the reference: one option at a time, in the same order of operations ---- */

static float
reference_normal(float d)
{
	const float a[] = {0.31938153f, -0.356563782f, 1.781477937f, -1.821255978f,
			   1.330274429f};
	float k = 1.0f / (1.0f + 0.2316419f * (d < 0.0f ? -d : d));
	float sum = 0.0f, density;
	int i;

	for (i = 4; i >= 0; i--)
		sum = (a[i] + sum) * k;
	density = 0.39894228f * kernel_exp(-0.5f * d * d);
	if (d > 0.0f)
		return 1.0f - density * sum;
	return density * sum;
}

static void
reference_option(float *call, float *put, float price, float strike, float years)
{
	const float r = 0.02f, v = 0.30f;
	float width = v * sqrtf(years);
	float up = (kernel_log(price / strike) + (r + 0.5f * v * v) * years) / width;
	float in_price = reference_normal(up);
	float in_strike = reference_normal(up - width);
	float present = strike * kernel_exp(-r * years);

	*call = price * in_price - present * in_strike;
	*put = present * (1.0f - in_strike) - price * (1.0f - in_price);
}

/* memory: five pieces of CHECK_OPTIONS, in the order of the arrays. */
static int
reference_pieces(struct workload_env *env, void *memory)
{
	uint64_t n = env->plan.cols, first;
	float *piece[ARRAY_COUNT];
	unsigned array;
	int rc = 0;

	for (array = 0; array < ARRAY_COUNT; array++)
		piece[array] = (float *)memory + array * CHECK_OPTIONS;
	for (first = 0; !rc && first < n; first += CHECK_OPTIONS) {
		size_t i, m = kernel_min(CHECK_OPTIONS, n - first);

		for (array = 0; !rc && array < INPUTS; array++)
			rc = workload_input_read(env, array, first, m, piece[array]);
		for (i = 0; !rc && i < m; i++) {
			float *call = &piece[ARRAY_CALL][i], *put = &piece[ARRAY_PUT][i];

			*call = *put = 0.0f; /* what an odd last one stays */
			if ((first + i) / 2 < n / 2)
				reference_option(call, put, piece[ARRAY_PRICE][i],
						 piece[ARRAY_STRIKE][i],
						 piece[ARRAY_YEARS][i]);
		}
		for (array = INPUTS; !rc && array < ARRAY_COUNT; array++)
			rc = workload_output_compare(env, array, WORKLOAD_F32, first, m,
						     piece[array]);
		if (!rc)
			rc = workload_progress(env, "verify",
					       (double)(first + m) / (double)n);
	}
	return rc;
}

static int
black_scholes_reference(struct workload_env *env)
{
	return workload_reference_run(env, ARRAY_COUNT * sizeof(float) * CHECK_OPTIONS,
				      reference_pieces);
}

static const struct workload_ops black_scholes_ops = {
	.plan = black_scholes_plan,
	.fill = black_scholes_fill,
	.run = black_scholes_run,
	.expect = black_scholes_expect,
	.reference = black_scholes_reference,
};

static const struct workload_kernel *const black_scholes_kernels[] = {
	&black_scholes_kernel,
	NULL,
};

const struct workload workload_black_scholes = {
	.name = "BlackScholes",
	.text = "prices of European options over five files: streaming",
	.tiled = 1,
	.ops = &black_scholes_ops,
	.kernels = black_scholes_kernels,
};
