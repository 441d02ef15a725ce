/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vectorAdd: c[i] = a[i] + b[i] over n = footprint / 12 floats. Nothing is used twice, so it
 * shows streaming alone: what is read moves to the device once, what is written moves back once.
 *
 * a and b are mapped for reading, c for writing with CREATE (so it is never read in). One launch
 * per tile, a tile being the same piece of the three arrays. Inputs are finite: an addition that
 * meets NaNs may differ in their payload between devices.
 *
 * Threads: see env.h; the kernel runs on any number of workers.
 */
#include "vectoradd_kernel.h"

#include "env.h"
#include "random.h"
#include "small_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { ARRAY_A, ARRAY_B, ARRAY_C, ARRAY_COUNT };

#define CHECK_ELEMENTS (1u << 20) /* of the reference at a time */

static int
vectoradd_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	uint64_t n = params->footprint_bytes / 12;

	if (n == 0)
		return workload_plan_refuse(
			error,
			"vectorAdd: the footprint must be at least 12 "
			"bytes, it is %" PRIu64,
			params->footprint_bytes);
	plan->rows = 1;
	plan->cols = n;
	plan->n_arrays = ARRAY_COUNT;
	plan->array[ARRAY_A] = (struct workload_array){.name = "a",
						       .role = WORKLOAD_INPUT,
						       .flags = SLUICE_READ,
						       .size_bytes = n * 4};
	plan->array[ARRAY_B] = (struct workload_array){.name = "b",
						       .role = WORKLOAD_INPUT,
						       .flags = SLUICE_READ,
						       .size_bytes = n * 4};
	plan->array[ARRAY_C] = (struct workload_array){.name = "c",
						       .role = WORKLOAD_OUTPUT,
						       .flags = SLUICE_WRITE | SLUICE_CREATE,
						       .size_bytes = n * 4};
	return 0;
}

static void
vectoradd_fill(const struct workload_plan *plan, unsigned array, uint64_t seed,
	       uint64_t first, size_t n, void *out)
{
	float *to = out;
	size_t i;

	(void)plan;
	for (i = 0; i < n; i++)
		to[i] = workload_unit(seed * ARRAY_COUNT + array, first + i) * 2048 - 1024;
}

static uint64_t
vectoradd_elements(const void *args)
{
	return ((const struct vectoradd_args *)args)->n;
}

static void
vectoradd_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct vectoradd_args *v = args;
	const float *restrict a = v->a;
	const float *restrict b = v->b;
	float *restrict c = v->c;
	uint64_t i;

	for (i = v->first + begin; i < v->first + end; i++)
		c[i] = vectoradd_sum(a[i], b[i]);
}

static void
vectoradd_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct vectoradd_args *v = args;
	uint64_t first = v->first + begin, n = end - begin;

	touch[0] = touch[1] = (struct workload_touch){.first = first, .n = n, .read = 1};
	touch[2] = (struct workload_touch){.first = first, .n = n, .write = 1};
}

static const struct workload_kernel vectoradd_kernel = {
	.name = "workload_vectoradd",
	.soft_elements = WORKLOAD_BLOCK_ELEMENTS,
	.cuda_elements = KERNEL_CUDA_ELEMENTS,
	.args_bytes = sizeof(struct vectoradd_args),
	.n_pointers = 3,
	.pointer = {offsetof(struct vectoradd_args, a), offsetof(struct vectoradd_args, b),
		    offsetof(struct vectoradd_args, c)},
	.elements = vectoradd_elements,
	.piece = vectoradd_piece,
	.touch = vectoradd_touch,
};

static int
vectoradd_run(struct workload_env *env)
{
	uint64_t n = env->plan.cols;
	uint64_t tile = workload_tile_elements(env, ARRAY_COUNT, 0);
	uint64_t first;
	int rc = 0;

	for (first = 0; !rc && first < n; first += tile) {
		struct vectoradd_args args = {
			.a = env->base[ARRAY_A],
			.b = env->base[ARRAY_B],
			.c = env->base[ARRAY_C],
			.first = first,
			.n = kernel_min(tile, n - first),
		};
		struct sluice_use uses[] = {
			workload_use(env, ARRAY_A, first, args.n, SLUICE_USE_READ),
			workload_use(env, ARRAY_B, first, args.n, SLUICE_USE_READ),
			workload_use(env, ARRAY_C, first, args.n, SLUICE_USE_WRITE_ALL),
		};

		rc = workload_launch(env, &vectoradd_kernel, &args, uses, ARRAY_COUNT);
		if (!rc)
			rc = workload_tile_done(env, first + args.n, n);
	}
	return rc;
}

static void
vectoradd_expect(const struct workload_env *env, struct workload_expectation *out)
{
	uint64_t array = workload_chunks_up(env, env->plan.cols * 4);
	uint64_t budget = env->config.device_budget_bytes;

	if (env->config.policy == SLUICE_POLICY_UVM)
		return; /* inputs are written back too: no published figure */
	out->known = 1;
	out->h2d_bytes = 2 * array;
	snprintf(out->h2d_formula, sizeof(out->h2d_formula), "8n");
	out->d2h_bytes = workload_less(array, budget / 3);
	snprintf(out->d2h_formula, sizeof(out->d2h_formula), "max(0, 4n - G/3)");
	out->tolerance_bytes = env->result->tile_bytes + 2 * env->config.chunk_bytes;
}

static int
reference_pieces(struct workload_env *env, void *memory)
{
	uint64_t n = env->plan.cols;
	float *a = memory;
	uint64_t first;
	int rc = 0;

	for (first = 0; !rc && first < n; first += CHECK_ELEMENTS) {
		size_t i, m = kernel_min(CHECK_ELEMENTS, n - first);
		float *b = a + CHECK_ELEMENTS;

		rc = workload_input_read(env, ARRAY_A, first, m, a);
		if (!rc)
			rc = workload_input_read(env, ARRAY_B, first, m, b);
		if (!rc) {
			for (i = 0; i < m; i++)
				b[i] = a[i] + b[i];
			rc = workload_output_compare(env, ARRAY_C, WORKLOAD_F32, first, m, b);
		}
		if (!rc)
			rc = workload_progress(env, "verify",
					       (double)(first + m) / (double)n);
	}
	return rc;
}

static int
vectoradd_reference(struct workload_env *env)
{
	return workload_reference_run(env, 2 * sizeof(float) * CHECK_ELEMENTS,
				      reference_pieces);
}

static const struct workload_ops vectoradd_ops = {
	.plan = vectoradd_plan,
	.fill = vectoradd_fill,
	.run = vectoradd_run,
	.expect = vectoradd_expect,
	.reference = vectoradd_reference,
};

static const struct workload_kernel *const vectoradd_kernels[] = {&vectoradd_kernel, NULL};

const struct workload workload_vectoradd = {
	.name = "vectorAdd",
	.text = "c = a + b over three files: streaming",
	.tiled = 1,
	.ops = &vectoradd_ops,
	.kernels = vectoradd_kernels,
};
