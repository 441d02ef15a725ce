/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backprop: training of a net of n inputs, 16 hidden units and 1 output, n = footprint / 136 rounded
 * down to 16s (the arrays then have 144 bytes an input). Three phases an epoch: a kernel multiplies
 * inputs with weights and sums them by groups of 16 inputs; host code sums the groups through the
 * pointer, works out the errors and adjusts the few weights behind the hidden units; a second kernel
 * adjusts all n x 16 weights, and stores by how much (previous), for the momentum of the next epoch.
 *
 * input and target are mapped for reading; the weights for reading and writing; the two arrays of
 * previous changes are volatile files made by the run, of zeros at first; the groups' sums are
 * memory without a file. The first kernel only reads the weights: a pager that does not know writes
 * them back for nothing. With one epoch nobody needs the changes: --previous discards each tile's
 * when it is done.
 *
 * Host code goes through the sums once for each hidden unit, as the published program does, or
 * (--sums together, the default on a GPU) once for all of them; the order of additions, and so every
 * bit, is the same.
 *
 * Arithmetic: single precision, constants included (the published source has double literals). Its
 * weights between 0 and 1 drive every hidden unit to 1, so that all errors are 0 and no weight ever
 * changes: here they are between -1 and 1 times sqrt(3 / n). In rounds (workload.h) the changes of
 * the last round are still there: the first epoch of each has no momentum, which gives what changes
 * of 0 give.
 *
 * A row of weights has 17 (one is not used), so tiles begin anywhere in a chunk.
 *
 * Threads: see env.h; the kernels run on any number of workers.
 */
#include "backprop_kernel.h"
#include "kernel_math.h"

#include "env.h"
#include "list.h"
#include "random.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ARRAY_INPUT,
	ARRAY_TARGET,
	ARRAY_WEIGHTS,
	ARRAY_HIDDEN_WEIGHTS,
	ARRAY_PREVIOUS,
	ARRAY_HIDDEN_PREVIOUS,
	ARRAY_PARTIAL,
	ARRAY_COUNT
};

enum { OPTION_EPOCHS, OPTION_PREVIOUS, OPTION_SUMS };

enum { PREVIOUS_KEEP, PREVIOUS_EAGER, PREVIOUS_LAZY };

enum { SUMS_EACH, SUMS_TOGETHER };

#define INPUT_BYTES    136u /* of an input, by which the footprint is divided */
#define HIDDEN         BACKPROP_HIDDEN
#define ROW            BACKPROP_ROW
#define GROUP          BACKPROP_GROUP
#define HIDDEN_WEIGHTS (2 * ROW) /* of the output unit; the even ones are not used */
#define MOMENTUM       0.3f
#define EPOCHS_MAX     16u
#define PIECE_SUMS     (WORKLOAD_HOST_COPY_MAX / 4 / HIDDEN * HIDDEN)
#define CHECK_GROUPS   4096u /* of the reference at a time */

static const char *const previous_names[] = {"keep", "eager", "lazy", NULL};
static const char *const sums_names[] = {"each", "together", NULL};

static const struct workload_option backprop_options[] = {
	[OPTION_EPOCHS] = {.name = "epochs",
			   .text = "times that all weights are adjusted",
			   .initial = 1,
			   .min = 1,
			   .max = EPOCHS_MAX},
	[OPTION_PREVIOUS] = {.name = "previous",
			     .text = "what happens to the last epoch's changes",
			     .choices = previous_names,
			     .initial = PREVIOUS_KEEP,
			     .min = PREVIOUS_KEEP,
			     .max = PREVIOUS_LAZY},
	[OPTION_SUMS] = {.name = "sums",
			 .text = "by the host for each hidden unit, or together",
			 .choices = sums_names,
			 .initial = SUMS_EACH,
			 .min = SUMS_EACH,
			 .max = SUMS_TOGETHER,
			 .cuda_initial = SUMS_TOGETHER},
};

#define FLAGS_CHANGED (SLUICE_READ | SLUICE_WRITE)
#define FLAGS_MADE    (FLAGS_CHANGED | SLUICE_VOLATILE | SLUICE_CREATE)

static const struct {
	const char *name;
	enum workload_role role;
	unsigned flags;
	unsigned per_input, more; /* elements */
} arrays[ARRAY_COUNT] = {
	[ARRAY_INPUT] = {"input", WORKLOAD_INPUT, SLUICE_READ, 1, 1},
	[ARRAY_TARGET] = {"target", WORKLOAD_INPUT, SLUICE_READ, 0, 2},
	[ARRAY_WEIGHTS] = {"weights", WORKLOAD_IN_PLACE, FLAGS_CHANGED, ROW, ROW},
	[ARRAY_HIDDEN_WEIGHTS] = {"hidden_weights", WORKLOAD_IN_PLACE, FLAGS_CHANGED, 0,
				  HIDDEN_WEIGHTS},
	[ARRAY_PREVIOUS] = {"previous", WORKLOAD_VOLATILE, FLAGS_MADE, ROW, ROW},
	[ARRAY_HIDDEN_PREVIOUS] = {"hidden_previous", WORKLOAD_VOLATILE, FLAGS_MADE, 0,
				   HIDDEN_WEIGHTS},
	[ARRAY_PARTIAL] = {"partial", WORKLOAD_ANONYMOUS, 0, 1, 0},
};

static int
backprop_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	uint64_t n = params->footprint_bytes / INPUT_BYTES / GROUP * GROUP;
	unsigned i;

	if (n == 0)
		return workload_plan_refuse(
			error,
			"backprop: the footprint must be at least %u bytes "
			"(%u inputs), it is %" PRIu64,
			INPUT_BYTES * GROUP, GROUP, params->footprint_bytes);
	plan->rows = n;
	plan->cols = HIDDEN;
	plan->n_arrays = ARRAY_COUNT;
	for (i = 0; i < ARRAY_COUNT; i++)
		plan->array[i] = (struct workload_array){
			.name = arrays[i].name,
			.role = arrays[i].role,
			.flags = arrays[i].flags,
			.size_bytes = (n * arrays[i].per_input + arrays[i].more) * 4,
		};
	plan->array[ARRAY_PREVIOUS].discarded = params->option[OPTION_PREVIOUS] !=
						PREVIOUS_KEEP;
	return 0;
}

static void
backprop_fill(const struct workload_plan *plan, unsigned array, uint64_t seed,
	      uint64_t first, size_t n, void *out)
{
	float scale = array == ARRAY_WEIGHTS ? (float)sqrt(3.0 / (double)plan->rows) : 1.0f;
	float *to = out;
	size_t i;

	for (i = 0; i < n; i++) {
		float unit = workload_unit(seed * ARRAY_COUNT + array, first + i);

		switch (array) {
		case ARRAY_INPUT: /* the bias, then inputs */
			to[i] = first + i == 0 ? 1.0f : unit;
			break;
		case ARRAY_TARGET:
			to[i] = 0.1f;
			break;
		case ARRAY_WEIGHTS:
		case ARRAY_HIDDEN_WEIGHTS:
			to[i] = (2.0f * unit - 1.0f) * scale;
			break;
		}
	}
}

/* ---- kernels ---- */

static uint64_t
forward_elements(const void *args)
{
	return ((const struct backprop_forward_args *)args)->n;
}

static uint64_t
adjust_elements(const void *args)
{
	return ((const struct backprop_adjust_args *)args)->n;
}

/* products[i][h] of a group, halved again and again: [0][h] is the sum for hidden unit h. */
static void
group_sum(float products[GROUP][HIDDEN])
{
	unsigned step, i, h;

	for (step = 1; step < GROUP; step *= 2)
		for (i = 0; i < GROUP; i += 2 * step)
			for (h = 0; h < HIDDEN; h++)
				products[i][h] += products[i + step][h];
}

static void
forward_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct backprop_forward_args *f = args;
	float products[GROUP][HIDDEN];
	uint64_t g;
	unsigned i, h;

	for (g = f->first + begin; g < f->first + end; g++) {
		for (i = 0; i < GROUP; i++) {
			uint64_t row = g * GROUP + i + 1;
			const float *weights = f->weights + row * ROW + 1;
			float input = f->input[row];

			for (h = 0; h < HIDDEN; h++)
				products[i][h] = weights[h] * input;
		}
		group_sum(products);
		memcpy(f->partial + g * HIDDEN, products[0], sizeof(products[0]));
	}
}

static void
row_adjust(const struct backprop_adjust_args *a, uint64_t row)
{
	float *restrict weights = a->weights + row * ROW + 1;
	float *restrict previous = a->previous + row * ROW + 1;
	float input = row ? a->input[row] : 1.0f;
	unsigned h;

	for (h = 0; h < HIDDEN; h++) {
		float change = backprop_change(a->delta[h], input, a->momentum, previous[h]);

		weights[h] += change;
		previous[h] = change;
	}
}

static void
adjust_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct backprop_adjust_args *a = args;
	uint64_t row = (a->first + begin) * GROUP + 1;

	if (a->first + begin == 0)
		row_adjust(a, 0); /* the bias goes with the first group */
	for (; row <= (a->first + end) * GROUP; row++)
		row_adjust(a, row);
}

static void
forward_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct backprop_forward_args *f = args;
	uint64_t row = (f->first + begin) * GROUP + 1, n = (end - begin) * GROUP;

	touch[0] = (struct workload_touch){.first = row, .n = n, .read = 1};
	touch[1] = (struct workload_touch){.first = row * ROW, .n = n * ROW, .read = 1};
	touch[2] = (struct workload_touch){.first = (f->first + begin) * HIDDEN,
					   .n = (end - begin) * HIDDEN,
					   .write = 1};
}

/* Rows [*row, *row + *n) of the groups [begin, end), the bias with the first one. */
static void
adjust_rows(uint64_t begin, uint64_t end, uint64_t *row, uint64_t *n)
{
	*row = begin ? begin * GROUP + 1 : 0;
	*n = end * GROUP + 1 - *row;
}

static void
adjust_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct backprop_adjust_args *a = args;
	uint64_t row, n;

	adjust_rows(a->first + begin, a->first + end, &row, &n);
	touch[0] = (struct workload_touch){.first = row, .n = n, .read = 1};
	touch[1] = touch[2] = (struct workload_touch){.first = row * ROW,
						      .n = n * ROW,
						      .read = 1,
						      .write = 1};
}

static const struct workload_kernel forward_kernel = {
	.name = "workload_backprop_forward",
	.soft_elements = WORKLOAD_BLOCK_ELEMENTS / (GROUP * HIDDEN),
	.cuda_elements = BACKPROP_CUDA_GROUPS,
	.args_bytes = sizeof(struct backprop_forward_args),
	.n_pointers = 3,
	.pointer = {offsetof(struct backprop_forward_args, input),
		    offsetof(struct backprop_forward_args, weights),
		    offsetof(struct backprop_forward_args, partial)},
	.elements = forward_elements,
	.piece = forward_piece,
	.touch = forward_touch,
};

static const struct workload_kernel adjust_kernel = {
	.name = "workload_backprop_adjust",
	.soft_elements = WORKLOAD_BLOCK_ELEMENTS / (GROUP * HIDDEN),
	.cuda_elements = BACKPROP_CUDA_GROUPS,
	.args_bytes = sizeof(struct backprop_adjust_args),
	.n_pointers = 3,
	.pointer = {offsetof(struct backprop_adjust_args, input),
		    offsetof(struct backprop_adjust_args, weights),
		    offsetof(struct backprop_adjust_args, previous)},
	.elements = adjust_elements,
	.piece = adjust_piece,
	.touch = adjust_touch,
};

/* ---- the host's part ---- */

/* Adds n / HIDDEN groups' sums for hidden units [h0, h1) to sum[]. */
static void
piece_add(const float *piece, uint64_t n, unsigned h0, unsigned h1, float *sum)
{
	for (uint64_t i = 0; i < n; i += HIDDEN)
		for (unsigned h = h0; h < h1; h++)
			sum[h] += piece[i + h];
}

/* All hidden units: beside each other in a vector, so the order of each one's additions is the same. */
static void
piece_add_all(const float *piece, uint64_t n, float *sum)
{
	float unit[HIDDEN];

	memcpy(unit, sum, sizeof(unit));
	for (uint64_t i = 0; i < n; i += HIDDEN)
		for (unsigned h = 0; h < HIDDEN; h++)
			unit[h] += piece[i + h];
	memcpy(sum, unit, sizeof(unit));
}

/* Adds the sums of all groups for hidden units [h0, h1) to sum[]. */
static int
groups_add(struct workload_env *env, unsigned h0, unsigned h1, float *sum)
{
	uint64_t n = env->plan.rows, at;
	float *piece = calloc(PIECE_SUMS, sizeof(*piece));
	int rc = 0;

	if (!piece)
		return workload_fail(env, -ENOMEM, "out of memory");
	for (at = 0; !rc && at < n; at += PIECE_SUMS) {
		uint64_t m = kernel_min(PIECE_SUMS, n - at);

		rc = workload_host_copy(env, ARRAY_PARTIAL, at, m, m, 1, piece);
		if (!rc && h0 == 0 && h1 == HIDDEN)
			piece_add_all(piece, m, sum);
		else if (!rc)
			piece_add(piece, m, h0, h1, sum);
	}
	free(piece);
	return rc;
}

static float
squash(float x)
{
	return (float)(1 / (1 + kernel_exp_f64(-(double)x)));
}

/*
 * With the hidden units' inputs in sum[]: the output, its error, the errors of the hidden units to
 * delta[], and the adjusted weights of the output unit.
 */
static void
output_train(const float *sum, float target, float momentum, float *weights,
	     float *previous, float *delta)
{
	float unit[ROW] = {1.0f}; /* the bias, and the hidden units */
	float output = 0, error;
	unsigned h;

	for (h = 1; h < ROW; h++)
		unit[h] = squash(sum[h - 1]);
	for (h = 0; h < ROW; h++)
		output += weights[2 * h + 1] * unit[h];
	output = squash(output);
	error = output * (1.0f - output) * (target - output);
	for (h = 1; h < ROW; h++)
		delta[h - 1] = unit[h] * (1.0f - unit[h]) * (error * weights[2 * h + 1]);
	for (h = 0; h < ROW; h++) {
		float change = 0.3f * error * unit[h] + momentum * previous[2 * h + 1];

		weights[2 * h + 1] += change;
		previous[2 * h + 1] = change;
	}
}

static int
host_phase(struct workload_env *env, float momentum, float *delta)
{
	float sum[HIDDEN] = {0}, bias[ROW];
	const float *target = env->base[ARRAY_TARGET];
	unsigned h;
	int rc = 0;

	if (env->params->option[OPTION_SUMS] == SUMS_TOGETHER)
		rc = groups_add(env, 0, HIDDEN, sum);
	else
		for (h = 0; !rc && h < HIDDEN; h++)
			rc = groups_add(env, h, h + 1, sum);
	if (!rc)
		rc = workload_host_copy(env, ARRAY_WEIGHTS, 0, ROW, ROW, 1, bias);
	if (rc)
		return rc;
	for (h = 0; h < HIDDEN; h++)
		sum[h] += bias[h + 1];
	/* No kernel uses these three: host code has them to itself. */
	output_train(sum, target[1], momentum, env->base[ARRAY_HIDDEN_WEIGHTS],
		     env->base[ARRAY_HIDDEN_PREVIOUS], delta);
	return 0;
}

/* ---- the run ---- */

struct tiles {
	uint64_t groups, tile; /* all, and of a launch */
	uint64_t done, total;  /* groups of all passes */
	uint64_t discarded;    /* bytes of the previous changes */
};

static int
forward_pass(struct workload_env *env, struct tiles *t)
{
	struct backprop_forward_args args = {
		.input = env->base[ARRAY_INPUT],
		.weights = env->base[ARRAY_WEIGHTS],
		.partial = env->base[ARRAY_PARTIAL],
	};
	int rc;

	/* Old sums: a launch that writes a part of a chunk would have the rest brought in. */
	rc = env->memory->discard(env, env->base[ARRAY_PARTIAL],
				  env->plan.array[ARRAY_PARTIAL].size_bytes,
				  SLUICE_DISCARD_LAZY);
	for (; !rc && args.first < t->groups; args.first += t->tile) {
		uint64_t row = args.first * GROUP + 1, rows;

		args.n = kernel_min(t->tile, t->groups - args.first);
		rows = args.n * GROUP;

		struct sluice_use uses[] = {
			workload_use(env, ARRAY_INPUT, row, rows, SLUICE_USE_READ),
			workload_use(env, ARRAY_WEIGHTS, row * ROW, rows * ROW,
				     SLUICE_USE_READ),
			workload_use(env, ARRAY_PARTIAL, args.first * HIDDEN,
				     args.n * HIDDEN, SLUICE_USE_WRITE_ALL),
		};

		rc = workload_launch(env, &forward_kernel, &args, uses, 3);
		t->done += args.n;
		if (!rc)
			rc = workload_tile_done(env, t->done, t->total);
	}
	return rc;
}

/* The changes of rows before row are done with: whole chunks, so that each goes at once. */
static int
previous_discard(struct workload_env *env, struct tiles *t, uint64_t row)
{
	uint64_t size = env->plan.array[ARRAY_PREVIOUS].size_bytes;
	uint64_t chunk = workload_chunk_bytes(env);
	uint64_t end = row * ROW * 4;
	uint64_t from = t->discarded;

	if (end < size)
		end = end / chunk * chunk;
	if (end <= from)
		return 0;
	t->discarded = end;
	return env->memory->discard(env, (char *)env->base[ARRAY_PREVIOUS] + from, end - from,
				    env->params->option[OPTION_PREVIOUS] == PREVIOUS_EAGER
					    ? SLUICE_DISCARD_EAGER
					    : SLUICE_DISCARD_LAZY);
}

static int
adjust_pass(struct workload_env *env, struct tiles *t, float momentum, const float *delta,
	    int discard)
{
	struct backprop_adjust_args args = {
		.input = env->base[ARRAY_INPUT],
		.weights = env->base[ARRAY_WEIGHTS],
		.previous = env->base[ARRAY_PREVIOUS],
		.momentum = momentum,
	};
	int rc = 0;

	memcpy(args.delta, delta, sizeof(args.delta));
	for (; !rc && args.first < t->groups; args.first += t->tile) {
		uint64_t row, rows;

		args.n = kernel_min(t->tile, t->groups - args.first);
		adjust_rows(args.first, args.first + args.n, &row, &rows);

		struct sluice_use uses[] = {
			workload_use(env, ARRAY_INPUT, row, rows, SLUICE_USE_READ),
			workload_use(env, ARRAY_WEIGHTS, row * ROW, rows * ROW,
				     SLUICE_USE_READ_WRITE),
			workload_use(env, ARRAY_PREVIOUS, row * ROW, rows * ROW,
				     SLUICE_USE_READ_WRITE),
		};

		rc = workload_launch(env, &adjust_kernel, &args, uses, 3);
		if (!rc && discard)
			rc = previous_discard(env, t, row + rows);
		t->done += args.n;
		if (!rc)
			rc = workload_tile_done(env, t->done, t->total);
	}
	return rc;
}

/* Momentum of an epoch; in rounds the first has none, as the head of this file says. */
static float
epoch_momentum(const struct workload_env *env, uint64_t epoch)
{
	return epoch == 0 && env->memory->round_begin ? 0.0f : MOMENTUM;
}

static int
backprop_run(struct workload_env *env)
{
	uint64_t epochs = env->params->option[OPTION_EPOCHS], epoch;
	uint64_t groups = env->plan.rows / GROUP;
	/* Two arrays of 17 weights an input are what counts; the rest is a 17th of them. */
	uint64_t tile = workload_tile_elements(env, 2, 0) / (GROUP * ROW);
	struct tiles t = {groups, tile, 0, 2 * epochs * groups, 0};
	float delta[HIDDEN];
	int rc = 0;

	for (epoch = 0; !rc && epoch < epochs; epoch++) {
		int discard = epoch + 1 == epochs &&
			      env->params->option[OPTION_PREVIOUS] != PREVIOUS_KEEP;
		float momentum = epoch_momentum(env, epoch);

		rc = forward_pass(env, &t);
		if (!rc)
			rc = host_phase(env, momentum, delta);
		if (!rc)
			rc = adjust_pass(env, &t, momentum, delta, discard);
	}
	return rc;
}

static void
backprop_expect(const struct workload_env *env, struct workload_expectation *out)
{
	uint64_t input = workload_chunks_up(env, env->plan.array[ARRAY_INPUT].size_bytes);
	uint64_t weights = workload_chunks_up(env, env->plan.array[ARRAY_WEIGHTS].size_bytes);
	uint64_t small = 2 * env->config.chunk_bytes; /* that host code brings in */
	uint64_t budget = env->config.device_budget_bytes;
	/* Partial sums that have left by the time host code adds them up: 4n of the 76n of the first pass. */
	uint64_t partial = workload_less(env->plan.array[ARRAY_PARTIAL].size_bytes,
					 budget / 76 * 4);
	int discard = env->params->option[OPTION_PREVIOUS] != PREVIOUS_KEEP;
	/* Of what is on the device at the end, the weights (and the changes) are written. */
	uint64_t left = discard ? budget / 72 * 68 : budget / 140 * 136;
	uint64_t written = discard ? weights : 2 * weights;
	uint64_t all = 0;
	unsigned i;

	if (env->params->option[OPTION_EPOCHS] != 1)
		return;
	out->tolerance_bytes = env->result->tile_bytes + 6 * env->config.chunk_bytes;
	for (i = 0; i < ARRAY_COUNT; i++)
		all += workload_chunks_up(env, env->plan.array[i].size_bytes);
	if (budget > all) {
		out->known = 1;
		out->h2d_bytes = input + weights + small;
		snprintf(out->h2d_formula, sizeof(out->h2d_formula), "72n");
		snprintf(out->d2h_formula, sizeof(out->d2h_formula), "0");
		return;
	}
	/* Each pass has to go through more than the device holds, so nothing is left of the last. */
	if (budget > input + weights)
		return;
	switch (env->config.policy) {
	case SLUICE_POLICY_LRU:
		out->known = 1;
		out->d2h_bytes = input + partial + workload_less(written, left);
		snprintf(out->d2h_formula, sizeof(out->d2h_formula),
			 discard ? "76n - G" : "144n - 1.02 G");
		break;
	case SLUICE_POLICY_DRAGON: /* weights go back after the first pass, unmodified */
		out->known = 1;
		out->d2h_bytes = input + partial + workload_less(weights + written, left);
		snprintf(out->d2h_formula, sizeof(out->d2h_formula),
			 discard ? "144n - G" : "212n - 1.02 G");
		break;
	case SLUICE_POLICY_UVM:  /* inputs go back as well: no published figure */
	case SLUICE_POLICY_PLAN: /* depends on what is planned: at most as lru */
	case SLUICE_POLICY_COUNT:
		return;
	}
	/* And the chunk of the bias, which host code reads as well. */
	out->h2d_bytes = 2 * (input + weights) + partial + small + env->config.chunk_bytes;
	snprintf(out->h2d_formula, sizeof(out->h2d_formula), "148n - .05 G");
}

/* ---- the reference ---- */

/*
 * Every weight has a history of its own: what it was at first and the errors of each epoch. So no
 * epoch's weights are kept: whoever needs one goes through its history again.
 */
struct reference {
	float delta[EPOCHS_MAX][HIDDEN];
	float hidden_weights[HIDDEN_WEIGHTS], hidden_previous[HIDDEN_WEIGHTS];
	float input[CHECK_GROUPS * GROUP];
	float weights[(CHECK_GROUPS * GROUP + 1) * ROW]; /* a group is preceded by the bias */
};

/* Rows of weights after some epochs; x[i] their inputs. */
static void
reference_rows(struct reference *ref, uint64_t epochs, uint64_t rows, const float *x,
	       float *weights)
{
	uint64_t i, epoch;
	unsigned h;

	for (i = 0; i < rows; i++) {
		for (h = 1; h < ROW; h++) {
			float weight = weights[i * ROW + h], change = 0;

			for (epoch = 0; epoch < epochs; epoch++) {
				change = MOMENTUM * change +
					 0.3f * ref->delta[epoch][h - 1] * x[i];
				weight = weight + change;
			}
			weights[i * ROW + h] = weight;
		}
	}
}

/* The groups from first on, after some epochs, with their inputs. */
static int
reference_read(struct workload_env *env, struct reference *ref, uint64_t epochs,
	       uint64_t first, uint64_t groups)
{
	uint64_t row = first * GROUP + 1, rows = groups * GROUP;
	int rc = workload_input_read(env, ARRAY_INPUT, row, rows, ref->input);

	if (!rc)
		rc = workload_input_read(env, ARRAY_WEIGHTS, row * ROW, rows * ROW,
					 ref->weights);
	if (!rc)
		reference_rows(ref, epochs, rows, ref->input, ref->weights);
	return rc;
}

static void
reference_bias(struct workload_env *env, struct reference *ref, uint64_t epochs, float *bias)
{
	const float one = 1.0f;

	backprop_fill(&env->plan, ARRAY_WEIGHTS, env->params->seed, 0, ROW, bias);
	reference_rows(ref, epochs, 1, &one, bias);
}

/* A group's sum for one hidden unit: neighbours, then neighbouring pairs, and so on. */
static float
reference_group(const struct reference *ref, uint64_t group, unsigned h)
{
	const float *w = &ref->weights[group * GROUP * ROW + h + 1];
	const float *x = &ref->input[group * GROUP];
	float part[GROUP];
	unsigned n, i;

	for (i = 0; i < GROUP; i++)
		part[i] = w[i * ROW] * x[i];
	for (n = GROUP / 2; n > 0; n /= 2)
		for (i = 0; i < n; i++)
			part[i] = part[2 * i] + part[2 * i + 1];
	return part[0];
}

/* The errors of one epoch, out of what the ones before it made. */
static int
reference_epoch(struct workload_env *env, struct reference *ref, uint64_t epoch)
{
	uint64_t groups = env->plan.rows / GROUP, first, g;
	float sum[HIDDEN] = {0}, bias[ROW], unit[ROW], *w = ref->hidden_weights;
	float output, error;
	unsigned h;
	int rc = 0;

	for (first = 0; !rc && first < groups; first += CHECK_GROUPS) {
		uint64_t m = kernel_min(CHECK_GROUPS, groups - first);

		rc = reference_read(env, ref, epoch, first, m);
		for (g = 0; !rc && g < m; g++)
			for (h = 0; h < HIDDEN; h++)
				sum[h] = sum[h] + reference_group(ref, g, h);
		if (!rc)
			rc = workload_progress(env, "verify",
					       (double)first / (double)groups / 2);
	}
	if (rc)
		return rc;
	reference_bias(env, ref, epoch, bias);
	output = w[1];
	for (h = 1; h < ROW; h++) {
		unit[h] = squash(sum[h - 1] + bias[h]);
		output = output + w[2 * h + 1] * unit[h];
	}
	unit[0] = 1.0f;
	output = squash(output);
	error = output * (1.0f - output) * (0.1f - output);
	for (h = 0; h < ROW; h++) {
		float *change = &ref->hidden_previous[2 * h + 1];

		if (h)
			ref->delta[epoch][h - 1] = unit[h] * (1.0f - unit[h]) *
						   (error * w[2 * h + 1]);
		*change = 0.3f * error * unit[h] + MOMENTUM * *change;
		w[2 * h + 1] = w[2 * h + 1] + *change;
	}
	return 0;
}

static int
reference_run(struct workload_env *env, void *memory)
{
	uint64_t epochs = env->params->option[OPTION_EPOCHS], epoch, first;
	uint64_t groups = env->plan.rows / GROUP;
	struct reference *ref = memory;
	float bias[ROW];
	int rc = 0;

	backprop_fill(&env->plan, ARRAY_HIDDEN_WEIGHTS, env->params->seed, 0,
		      HIDDEN_WEIGHTS, ref->hidden_weights);
	for (epoch = 0; !rc && epoch < epochs; epoch++)
		rc = reference_epoch(env, ref, epoch);
	if (!rc)
		rc = workload_output_compare(env, ARRAY_HIDDEN_WEIGHTS, WORKLOAD_F32, 0,
					     HIDDEN_WEIGHTS, ref->hidden_weights);
	if (!rc) {
		reference_bias(env, ref, epochs, bias);
		rc = workload_output_compare(env, ARRAY_WEIGHTS, WORKLOAD_F32, 0, ROW, bias);
	}
	for (first = 0; !rc && first < groups; first += CHECK_GROUPS) {
		uint64_t m = kernel_min(CHECK_GROUPS, groups - first);

		rc = reference_read(env, ref, epochs, first, m);
		if (!rc)
			rc = workload_output_compare(env, ARRAY_WEIGHTS, WORKLOAD_F32,
						     (first * GROUP + 1) * ROW,
						     m * GROUP * ROW, ref->weights);
		if (!rc)
			rc = workload_progress(env, "verify",
					       0.5 + (double)first / (double)groups / 2);
	}
	return rc;
}

static int
backprop_reference(struct workload_env *env)
{
	return workload_reference_run(env, sizeof(struct reference), reference_run);
}

static const struct workload_ops backprop_ops = {
	.plan = backprop_plan,
	.fill = backprop_fill,
	.run = backprop_run,
	.expect = backprop_expect,
	.reference = backprop_reference,
};

static const struct workload_kernel *const backprop_kernels[] = {
	&forward_kernel,
	&adjust_kernel,
	NULL,
};

const struct workload workload_backprop = {
	.name = "backprop",
	.text = "training of a wide net: two passes with the host between them, half "
		"volatile",
	.tiled = 1,
	.options = backprop_options,
	.n_options = sizeof(backprop_options) / sizeof(backprop_options[0]),
	.ops = &backprop_ops,
	.kernels = backprop_kernels,
};
