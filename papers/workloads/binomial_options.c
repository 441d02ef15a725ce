/* SPDX-License-Identifier: Apache-2.0 */
/*
 * binomialOptions: prices of n = footprint / 24 European call options by a binomial tree each: the
 * worth at each of the tree's leaves, then as many steps back to its root as it has. The program
 * whose time is computing: every option costs --tree-steps squared operations for the 24 bytes that
 * move. The published program has 2048 steps.
 *
 * The options are mapped for reading, five floats each that the generator has prepared (price,
 * strike, and three that follow from years, volatility, interest and the number of steps), call for
 * writing with CREATE. One launch per tile, which is a whole number of chunks of call.
 *
 * Arithmetic: single precision, with the exponential of kernel_math.h; the generator works in double
 * precision and rounds once.
 *
 * Threads: see env.h; the kernel runs on any number of workers.
 */
#include "binomial_options_kernel.h"

#include "env.h"
#include "list.h"
#include "random.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { ARRAY_OPTION, ARRAY_CALL, ARRAY_COUNT };

enum { OPTION_STEPS };

#define OPTION_FLOATS (sizeof(struct binomial_option) / sizeof(float))
#define CHECK_OPTIONS (1u << 14) /* of the reference at a time */
#define BLOCK_OPTIONS 64u        /* of the software device's */

static const struct workload_option binomial_options[] = {
	[OPTION_STEPS] = {.name = "tree-steps",
			  .text = "steps of an option's tree",
			  .initial = 64,
			  .min = 1,
			  .max = BINOMIAL_STEPS_MAX},
};

/* rows: the steps, because the input depends on them. */
static int
binomial_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	uint64_t n = params->footprint_bytes / 24;

	if (n == 0)
		return workload_plan_refuse(
			error,
			"binomialOptions: the footprint must be at least 24 "
			"bytes (one option), it is %" PRIu64,
			params->footprint_bytes);
	plan->rows = params->option[OPTION_STEPS];
	plan->cols = n;
	plan->n_arrays = ARRAY_COUNT;
	plan->array[ARRAY_OPTION] = (struct workload_array){
		.name = "option",
		.role = WORKLOAD_INPUT,
		.flags = SLUICE_READ,
		.size_bytes = n * sizeof(struct binomial_option),
	};
	plan->array[ARRAY_CALL] = (struct workload_array){
		.name = "call",
		.role = WORKLOAD_OUTPUT,
		.flags = SLUICE_WRITE | SLUICE_CREATE,
		.size_bytes = n * 4,
	};
	return 0;
}

static double
uniform(uint64_t seed, uint64_t i, double low, double high)
{
	double t = (double)workload_unit(seed, i);

	return (1 - t) * low + t * high;
}

static struct binomial_option
option_make(uint64_t seed, uint64_t i, uint64_t steps)
{
	const double interest = 0.06, volatility = 0.10;
	double price = uniform(seed * 3, i, 5, 30);
	double strike = uniform(seed * 3 + 1, i, 1, 100);
	double years = uniform(seed * 3 + 2, i, 0.25, 10);
	double dt = years / (double)steps;
	double step = volatility * sqrt(dt);
	double growth = kernel_exp_f64(interest * dt);
	double up = kernel_exp_f64(step), down = 1 / up;
	double p = (growth - down) / (up - down);

	return (struct binomial_option){
		.price = (float)price,
		.strike = (float)strike,
		.step = (float)step,
		.up = (float)(p / growth),
		.down = (float)((1 - p) / growth),
	};
}

/* A piece may begin and end within an option. */
static void
binomial_fill(const struct workload_plan *plan, unsigned array, uint64_t seed,
	      uint64_t first, size_t n, void *out)
{
	float *to = out;
	uint64_t end = first + n;

	(void)array; /* the options are the only one that is generated */
	while (first < end) {
		uint64_t from = first % OPTION_FLOATS;
		uint64_t m = kernel_min(OPTION_FLOATS - from, end - first);
		struct binomial_option option = option_make(seed, first / OPTION_FLOATS,
							    plan->rows);

		memcpy(to, (const char *)&option + from * sizeof(float), m * sizeof(float));
		to += m;
		first += m;
	}
}

/* ---- kernel ---- */

static float
tree_value(const struct binomial_option *o, uint32_t steps)
{
	float value[BINOMIAL_STEPS_MAX + 1];
	const float up = o->up, down = o->down;
	uint32_t i, left;

	for (i = 0; i <= steps; i++)
		value[i] = binomial_leaf(o, i, steps);
	for (left = steps; left > 0; left--)
		for (i = 0; i < left; i++)
			value[i] = binomial_back(up, down, value[i + 1], value[i]);
	return value[0];
}

static uint64_t
binomial_elements(const void *args)
{
	return ((const struct binomial_args *)args)->n;
}

static void
binomial_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct binomial_args *b = args;
	uint64_t i;

	for (i = b->first + begin; i < b->first + end; i++)
		b->call[i] = tree_value(&b->option[i], b->steps);
}

static void
binomial_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct binomial_args *b = args;
	uint64_t first = b->first + begin, n = end - begin;

	touch[0] = (struct workload_touch){.first = first * OPTION_FLOATS,
					   .n = n * OPTION_FLOATS,
					   .read = 1};
	touch[1] = (struct workload_touch){.first = first, .n = n, .write = 1};
}

/* The same but for the depth of a tree that they are made for on a GPU. */
#define BINOMIAL_KERNEL(kernel_name)                                                   \
	{                                                                              \
		.name = (kernel_name), .soft_elements = BLOCK_OPTIONS,                 \
		.cuda_elements = BINOMIAL_CUDA_OPTIONS,                                \
		.args_bytes = sizeof(struct binomial_args), .n_pointers = ARRAY_COUNT, \
		.pointer = {offsetof(struct binomial_args, option),                    \
			    offsetof(struct binomial_args, call)},                     \
		.elements = binomial_elements, .piece = binomial_piece,                \
		.touch = binomial_touch,                                               \
	}

static const struct workload_kernel shallow_kernel = BINOMIAL_KERNEL(
	"workload_binomial_options_shallow");
static const struct workload_kernel middle_kernel = BINOMIAL_KERNEL(
	"workload_binomial_options_middle");
static const struct workload_kernel deep_kernel = BINOMIAL_KERNEL(
	"workload_binomial_options_deep");

static const struct workload_kernel *
kernel_for(uint32_t steps)
{
	if (steps <= BINOMIAL_STEPS_SHALLOW)
		return &shallow_kernel;
	return steps <= BINOMIAL_STEPS_MIDDLE ? &middle_kernel : &deep_kernel;
}

static int
binomial_run(struct workload_env *env)
{
	uint64_t n = env->plan.cols;
	uint64_t tile = workload_tile_elements(env, 1 + OPTION_FLOATS, 0);
	struct binomial_args args = {
		.option = env->base[ARRAY_OPTION],
		.call = env->base[ARRAY_CALL],
		.steps = (uint32_t)env->params->option[OPTION_STEPS],
	};
	int rc = 0;

	for (; !rc && args.first < n; args.first += tile) {
		args.n = kernel_min(tile, n - args.first);

		struct sluice_use uses[] = {
			workload_use(env, ARRAY_OPTION, args.first * OPTION_FLOATS,
				     args.n * OPTION_FLOATS, SLUICE_USE_READ),
			workload_use(env, ARRAY_CALL, args.first, args.n, SLUICE_USE_WRITE_ALL),
		};

		rc = workload_launch(env, kernel_for(args.steps), &args, uses, ARRAY_COUNT);
		if (!rc)
			rc = workload_tile_done(env, args.first + args.n, n);
	}
	return rc;
}

static void
binomial_expect(const struct workload_env *env, struct workload_expectation *out)
{
	uint64_t budget = env->config.device_budget_bytes;

	if (env->config.policy == SLUICE_POLICY_UVM)
		return; /* inputs are written back too: no published figure */
	out->known = 1;
	out->h2d_bytes = workload_chunks_up(env, env->plan.array[ARRAY_OPTION].size_bytes);
	snprintf(out->h2d_formula, sizeof(out->h2d_formula), "20n");
	out->d2h_bytes = workload_less(
		workload_chunks_up(env, env->plan.array[ARRAY_CALL].size_bytes), budget / 6);
	snprintf(out->d2h_formula, sizeof(out->d2h_formula), "max(0, 4n - G/6)");
	out->tolerance_bytes = env->result->tile_bytes + 2 * env->config.chunk_bytes;
}

/* ---- the reference: a tree a level at a time, from one array to another ---- */

struct reference {
	struct binomial_option option[CHECK_OPTIONS];
	float call[CHECK_OPTIONS];
	float level[2][BINOMIAL_STEPS_MAX + 1];
};

static float
reference_tree(struct reference *ref, const struct binomial_option *o, unsigned steps)
{
	float *later = ref->level[0], *now = ref->level[1], *done;
	unsigned depth, k;

	for (k = 0; k <= steps; k++) {
		later[k] = o->price * kernel_exp(o->step * ((float)k - (float)(steps - k))) -
			   o->strike;
		if (later[k] < 0)
			later[k] = 0;
	}
	for (depth = steps; depth-- > 0;) {
		for (k = 0; k <= depth; k++)
			now[k] = o->up * later[k + 1] + o->down * later[k];
		done = later;
		later = now;
		now = done;
	}
	return later[0];
}

static int
reference_pieces(struct workload_env *env, void *memory)
{
	unsigned steps = (unsigned)env->params->option[OPTION_STEPS];
	uint64_t n = env->plan.cols, first;
	struct reference *ref = memory;
	int rc = 0;

	for (first = 0; !rc && first < n; first += CHECK_OPTIONS) {
		size_t i, m = kernel_min(CHECK_OPTIONS, n - first);

		rc = workload_input_read(env, ARRAY_OPTION, first * OPTION_FLOATS,
					 m * OPTION_FLOATS, ref->option);
		for (i = 0; !rc && i < m; i++)
			ref->call[i] = reference_tree(ref, &ref->option[i], steps);
		if (!rc)
			rc = workload_output_compare(env, ARRAY_CALL, WORKLOAD_F32, first,
						     m, ref->call);
		if (!rc)
			rc = workload_progress(env, "verify",
					       (double)(first + m) / (double)n);
	}
	return rc;
}

static int
binomial_reference(struct workload_env *env)
{
	return workload_reference_run(env, sizeof(struct reference), reference_pieces);
}

static const struct workload_ops binomial_ops = {
	.plan = binomial_plan,
	.fill = binomial_fill,
	.run = binomial_run,
	.expect = binomial_expect,
	.reference = binomial_reference,
};

static const struct workload_kernel *const binomial_kernels[] = {
	&shallow_kernel,
	&middle_kernel,
	&deep_kernel,
	NULL,
};

const struct workload workload_binomial_options = {
	.name = "binomialOptions",
	.text = "prices of options by a binomial tree each: much to compute per byte",
	.tiled = 1,
	.options = binomial_options,
	.n_options = sizeof(binomial_options) / sizeof(binomial_options[0]),
	.ops = &binomial_ops,
	.kernels = binomial_kernels,
};
