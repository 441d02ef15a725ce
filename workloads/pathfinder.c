/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pathfinder: the cheapest way down a grid of r x r integers 0 to 9, r = sqrt(footprint / 4).
 * Row by row, cost[x] = data[row][x] + min(cost[x - 1], cost[x], cost[x + 1]), edges clamped.
 *
 * data is mapped for reading, result (the last row of costs) for writing with CREATE, tmp is
 * memory without a file. Costs go back and forth between result and tmp, begun so that the last
 * ones land in result. The host copies row 0 through the pointer. One launch per row (or per
 * --rows-per-launch rows), and the host waits for each, as the published program does: what
 * remains beside the file's streaming is the cost of a launch. On a GPU the defaults are several
 * rows and one wait at the end (a row is too little for it), and the first launch takes row 0 from
 * data itself.
 *
 * With several rows per launch each block also computes the cells beside its own that its later
 * rows need, in a small buffer of its own, so that blocks stay independent.
 *
 * Threads: see env.h; the kernel runs on any number of workers.
 */
#include "pathfinder_kernel.h"

#include "env.h"
#include "random.h"
#include "small_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ARRAY_DATA, ARRAY_RESULT, ARRAY_TMP, ARRAY_COUNT };

enum { OPTION_ROWS, OPTION_WAIT };

enum { WAIT_EACH, WAIT_END };

#define BLOCK_COLUMNS_1 WORKLOAD_BLOCK_ELEMENTS /* one row per launch */
#define BLOCK_COLUMNS_N 4096u /* several: bounded by the buffer on the stack */

static const char *const wait_names[] = {"each", "end", NULL};

static const struct workload_option pathfinder_options[] = {
	[OPTION_ROWS] = {.name = "rows-per-launch",
			 .text = "rows of the grid that one launch goes down",
			 .initial = 1,
			 .min = 1,
			 .max = PATHFINDER_ROWS_MAX,
			 .cuda_initial = 16},
	[OPTION_WAIT] = {.name = "wait",
			 .text = "for each launch, or at the end only",
			 .choices = wait_names,
			 .initial = WAIT_EACH,
			 .min = WAIT_EACH,
			 .max = WAIT_END,
			 .cuda_initial = WAIT_END},
};

static int
pathfinder_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	uint64_t r = workload_isqrt(params->footprint_bytes / 4);

	if (r < 2)
		return workload_plan_refuse(
			error,
			"pathfinder: the footprint must be at least 16 "
			"bytes (two rows), it is %" PRIu64,
			params->footprint_bytes);
	plan->rows = r;
	plan->cols = r;
	plan->n_arrays = ARRAY_COUNT;
	plan->array[ARRAY_DATA] = (struct workload_array){.name = "data",
							  .role = WORKLOAD_INPUT,
							  .flags = SLUICE_READ,
							  .size_bytes = r * r * 4};
	plan->array[ARRAY_RESULT] = (struct workload_array){.name = "result",
							    .role = WORKLOAD_OUTPUT,
							    .flags = SLUICE_WRITE |
								     SLUICE_CREATE,
							    .size_bytes = r * 4,
							    .kept = 1};
	plan->array[ARRAY_TMP] = (struct workload_array){.name = "tmp",
							 .role = WORKLOAD_ANONYMOUS,
							 .size_bytes = r * 4,
							 .kept = 1};
	return 0;
}

static void
pathfinder_fill(const struct workload_plan *plan, unsigned array, uint64_t seed,
		uint64_t first, size_t n, void *out)
{
	int32_t *to = out;
	size_t i;

	(void)plan;
	(void)array;
	for (i = 0; i < n; i++)
		to[i] = (int32_t)((workload_hash(seed, first + i) >> 32) * 10 >> 32);
}

/* Columns [x0, x1) of one step. Clamps at the edges of the grid. */
static void
row_step(const int32_t *restrict data, const int32_t *restrict from, int32_t *restrict to,
	 uint64_t cols, uint64_t x0, uint64_t x1)
{
	uint64_t x;

	if (x0 == 0 && x0 < x1) {
		to[0] = pathfinder_cell(data[0], from[0], from[0], from[cols > 1 ? 1 : 0]);
		x0++;
	}
	if (x1 == cols && x0 < x1) {
		x1--;
		to[x1] = pathfinder_cell(data[x1], from[x1 - 1], from[x1], from[x1]);
	}
	for (x = x0; x < x1; x++)
		to[x] = pathfinder_cell(data[x], from[x - 1], from[x], from[x + 1]);
}

static uint64_t
pathfinder_elements(const void *args)
{
	return ((const struct pathfinder_args *)args)->cols;
}

static void
row_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct pathfinder_args *p = args;

	row_step(p->data, p->from, p->to, p->cols, begin, end);
}

static void
rows_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct pathfinder_args *p = args;
	int32_t buffer[2][BLOCK_COLUMNS_N + 2 * PATHFINDER_ROWS_MAX];
	uint64_t base, x0, x1, row;

	pathfinder_reach(p, begin, end, &x0, &x1);
	base = x0;
	memcpy(buffer[0], p->from + x0, (x1 - x0) * sizeof(buffer[0][0]));
	for (row = 0; row < p->n_rows; row++) {
		int32_t *from = buffer[row % 2], *to = buffer[(row + 1) % 2];
		const int32_t *data = p->data + row * p->cols;
		uint64_t x;

		/* Each row has one column less to go on either side, except at an edge. */
		if (x0 > 0)
			x0++;
		if (x1 < p->cols)
			x1--;
		for (x = x0; x < x1; x++) {
			uint64_t i = x - base;

			to[i] = pathfinder_cell(data[x], from[x > 0 ? i - 1 : i], from[i],
						from[x + 1 < p->cols ? i + 1 : i]);
		}
	}
	memcpy(p->to + begin, buffer[p->n_rows % 2] + (begin - base),
	       (end - begin) * sizeof(buffer[0][0]));
}

static void
pathfinder_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct pathfinder_args *p = args;
	uint64_t x0, x1;

	pathfinder_reach(p, begin, end, &x0, &x1);
	touch[0] = (struct workload_touch){.first = x0,
					   .n = (p->n_rows - 1) * p->cols + x1 - x0,
					   .read = 1};
	touch[1] = (struct workload_touch){.first = x0, .n = x1 - x0, .read = 1};
	touch[2] = (struct workload_touch){.first = begin, .n = end - begin, .write = 1};
}

#define POINTERS                                                \
	{                                                       \
		offsetof(struct pathfinder_args, data),         \
			offsetof(struct pathfinder_args, from), \
			offsetof(struct pathfinder_args, to)    \
	}

static const struct workload_kernel row_kernel = {
	.name = "workload_pathfinder_row",
	.soft_elements = BLOCK_COLUMNS_1,
	.cuda_elements = PATHFINDER_CUDA_COLUMNS_1,
	.args_bytes = sizeof(struct pathfinder_args),
	.n_pointers = 3,
	.pointer = POINTERS,
	.elements = pathfinder_elements,
	.piece = row_piece,
	.touch = pathfinder_touch,
};

static const struct workload_kernel rows_kernel = {
	.name = "workload_pathfinder_rows",
	.soft_elements = BLOCK_COLUMNS_N,
	.cuda_elements = PATHFINDER_CUDA_COLUMNS_N,
	.args_bytes = sizeof(struct pathfinder_args),
	.n_pointers = 3,
	.pointer = POINTERS,
	.elements = pathfinder_elements,
	.piece = rows_piece,
	.touch = pathfinder_touch,
};

/* The launch that goes down to rows before done has been enqueued. */
static int
rows_done(struct workload_env *env, uint64_t done)
{
	int rc;

	if (env->params->option[OPTION_WAIT] == WAIT_END)
		return workload_tile_done(env, done, env->plan.rows);
	rc = workload_wait(env);
	if (rc)
		return rc;
	return workload_progress(env, "run", (double)done / (double)env->plan.rows);
}

static int
pathfinder_run(struct workload_env *env)
{
	uint64_t rows = env->plan.rows, cols = env->plan.cols;
	uint64_t per_launch = env->params->option[OPTION_ROWS];
	uint64_t launches = (rows - 1 + per_launch - 1) / per_launch;
	unsigned to = launches % 2 ? ARRAY_RESULT : ARRAY_TMP;
	unsigned from = to == ARRAY_TMP ? ARRAY_RESULT : ARRAY_TMP;
	uint64_t row;
	int rc = 0;

	if (env->config.device == SLUICE_DEVICE_CUDA)
		from = ARRAY_DATA; /* row 0, where it is: no host code before the first launch */
	else
		memcpy(env->base[from], env->base[ARRAY_DATA], cols * 4);
	for (row = 1; !rc && row < rows; row += per_launch) {
		int is_first = from == ARRAY_DATA;
		struct pathfinder_args args = {
			.data = (const int32_t *)env->base[ARRAY_DATA] + row * cols,
			.from = env->base[from],
			.to = env->base[to],
			.cols = cols,
			.n_rows = kernel_min(per_launch, rows - row),
		};
		struct sluice_use uses[] = {
			workload_use(env, ARRAY_DATA, (row - is_first) * cols,
				     (args.n_rows + is_first) * cols, SLUICE_USE_READ),
			workload_use(env, to, 0, cols, SLUICE_USE_WRITE_ALL),
			workload_use(env, from, 0, cols, SLUICE_USE_READ),
		};

		rc = workload_launch(env, args.n_rows == 1 ? &row_kernel : &rows_kernel,
				     &args, uses, is_first ? 2 : 3);
		if (!rc)
			rc = rows_done(env, row);
		from = to;
		to = from == ARRAY_TMP ? ARRAY_RESULT : ARRAY_TMP;
	}
	return rc;
}

static void
pathfinder_expect(const struct workload_env *env, struct workload_expectation *out)
{
	uint64_t budget = env->config.device_budget_bytes;
	uint64_t data = workload_chunks_up(env, env->plan.array[ARRAY_DATA].size_bytes);

	out->known = 1;
	out->h2d_bytes = data;
	snprintf(out->h2d_formula, sizeof(out->h2d_formula), "4 r^2");
	/* The two rows of costs are in every launch, so they stay; the data are only read. */
	if (env->config.policy == SLUICE_POLICY_UVM)
		out->known = 0; /* data are written back too: no published figure */
	out->d2h_bytes = 0;
	snprintf(out->d2h_formula, sizeof(out->d2h_formula), "0");
	out->tolerance_bytes = 4 * env->config.chunk_bytes;
	if (budget < out->tolerance_bytes)
		out->known = 0;
}

static int
reference_rows(struct workload_env *env, void *room)
{
	uint64_t rows = env->plan.rows, cols = env->plan.cols;
	int32_t *cost = room, *next = cost + cols, *data = cost + 2 * cols;
	uint64_t row, x;
	int rc;

	rc = workload_input_read(env, ARRAY_DATA, 0, cols, cost);
	for (row = 1; !rc && row < rows; row++) {
		int32_t *done = cost;

		rc = workload_input_read(env, ARRAY_DATA, row * cols, cols, data);
		if (rc)
			break;
		for (x = 0; x < cols; x++) {
			int32_t left = cost[x > 0 ? x - 1 : x];
			int32_t right = cost[x + 1 < cols ? x + 1 : x];
			int32_t least = cost[x];

			if (left < least)
				least = left;
			if (right < least)
				least = right;
			next[x] = least + data[x];
		}
		cost = next;
		next = done;
		rc = workload_progress(env, "verify", (double)row / (double)rows);
	}
	if (!rc)
		rc = workload_output_compare(env, ARRAY_RESULT, WORKLOAD_I32, 0, cols, cost);
	return rc;
}

static int
pathfinder_reference(struct workload_env *env)
{
	return workload_reference_run(env, 3 * env->plan.cols * sizeof(int32_t),
				      reference_rows);
}

static const struct workload_ops pathfinder_ops = {
	.plan = pathfinder_plan,
	.fill = pathfinder_fill,
	.run = pathfinder_run,
	.expect = pathfinder_expect,
	.reference = pathfinder_reference,
};

static const struct workload_kernel *const pathfinder_kernels[] = {
	&row_kernel,
	&rows_kernel,
	NULL,
};

const struct workload workload_pathfinder = {
	.name = "pathfinder",
	.text = "cheapest way down a grid: many small launches, each waited for",
	.options = pathfinder_options,
	.n_options = sizeof(pathfinder_options) / sizeof(pathfinder_options[0]),
	.ops = &pathfinder_ops,
	.kernels = pathfinder_kernels,
};
