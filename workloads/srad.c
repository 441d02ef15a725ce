/* SPDX-License-Identifier: Apache-2.0 */
/*
 * srad_v2: speckle-reducing diffusion of an image J of r x r floats, r = sqrt(footprint / 24)
 * rounded down to 16s. Each iteration the host reads the 128 x 128 corner of J through the
 * pointer (mean and variance give q0^2); kernel 1 computes the differences N, S, W, E of every
 * pixel to its neighbours (edges replicated) and the diffusion coefficient C; kernel 2 adds
 * lambda/4 times the divergence to J. J is mapped for reading and writing, the five others are
 * volatile files made by the run: intermediate data that never need to reach the disk.
 *
 * The two kernels of an iteration are two passes over all tiles (not one pass with both kernels
 * per tile), because that is the traffic the published figures are about.
 *
 * Arithmetic: single precision throughout, constants included. (The published source has double
 * literals; decided here once, for every device, and the reference does the same.) J starts as
 * exp(u), u in [0, 1), by its series: the same bytes with every C library.
 *
 * Tiles are linear pieces that start at chunk boundaries; kernel 1 reads one row of J more on
 * either side, kernel 2 one row of C more behind.
 *
 * Threads: see env.h; the kernels run on any number of workers.
 */
#include "srad_kernel.h"

#include "env.h"
#include "random.h"
#include "small_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ARRAY_J, ARRAY_C, ARRAY_N, ARRAY_S, ARRAY_W, ARRAY_E, ARRAY_COUNT };

enum { OPTION_ITERATIONS };

#define GRID_STEP 16u
#define CORNER    128u

static const struct workload_option srad_options[] = {
	[OPTION_ITERATIONS] = {.name = "iterations",
			       .text = "iterations of both kernels",
			       .initial = 2,
			       .min = 1,
			       .max = 1000},
};

static int
srad_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	static const char *const names[ARRAY_COUNT] = {"j", "c", "n", "s", "w", "e"};
	uint64_t r = workload_isqrt(params->footprint_bytes / 24) / GRID_STEP * GRID_STEP;
	unsigned i;

	if (r < CORNER)
		return workload_plan_refuse(
			error,
			"srad_v2: the footprint must be at least %u "
			"bytes (an image of 128 x 128), it is %" PRIu64,
			24 * CORNER * CORNER, params->footprint_bytes);
	plan->rows = r;
	plan->cols = r;
	plan->n_arrays = ARRAY_COUNT;
	for (i = 0; i < ARRAY_COUNT; i++) {
		plan->array[i] = (struct workload_array){
			.name = names[i],
			.role = WORKLOAD_VOLATILE,
			.flags = SLUICE_READ | SLUICE_WRITE | SLUICE_VOLATILE | SLUICE_CREATE,
			.size_bytes = r * r * 4,
		};
	}
	plan->array[ARRAY_J].role = WORKLOAD_IN_PLACE;
	plan->array[ARRAY_J].flags = SLUICE_READ | SLUICE_WRITE;
	return 0;
}

/* exp(u) for u in [0, 1): 1 + u (1 + u/2 (1 + u/3 (...))), exact to well below a float. */
static float
exp_series(double u)
{
	double sum = 1;
	int i;

	for (i = 12; i >= 1; i--)
		sum = 1 + u / i * sum;
	return (float)sum;
}

static void
srad_fill(const struct workload_plan *plan, unsigned array, uint64_t seed, uint64_t first,
	  size_t n, void *out)
{
	float *to = out;
	size_t i;

	(void)plan;
	(void)array; /* J is the only one that is generated */
	for (i = 0; i < n; i++)
		to[i] = exp_series((double)workload_unit(seed, first + i));
}

/* ---- kernels ---- */

struct row {
	const float *restrict here, *restrict north, *restrict south;
	float *restrict c, *restrict n, *restrict s, *restrict w, *restrict e;
	float q0;
};

static void
gradient_edge(const struct row *row, uint64_t x, uint64_t r)
{
	float j = row->here[x];
	float dn = row->north[x] - j, ds = row->south[x] - j;
	float dw = row->here[x > 0 ? x - 1 : x] - j;
	float de = row->here[x + 1 < r ? x + 1 : x] - j;

	row->n[x] = dn;
	row->s[x] = ds;
	row->w[x] = dw;
	row->e[x] = de;
	row->c[x] = srad_coefficient(j, dn, ds, dw, de, row->q0);
}

static void
gradient_inside(const struct row *row, uint64_t x0, uint64_t x1)
{
	const float *restrict here = row->here, *restrict north = row->north;
	const float *restrict south = row->south;
	float *restrict c = row->c, *restrict n = row->n, *restrict s = row->s;
	float *restrict w = row->w, *restrict e = row->e;
	const float q0 = row->q0;
	uint64_t x;

	for (x = x0; x < x1; x++) {
		float j = here[x];
		float dn = north[x] - j, ds = south[x] - j;
		float dw = here[x - 1] - j, de = here[x + 1] - j;

		n[x] = dn;
		s[x] = ds;
		w[x] = dw;
		e[x] = de;
		c[x] = srad_coefficient(j, dn, ds, dw, de, q0);
	}
}

static uint64_t
srad_elements(const void *args)
{
	return ((const struct srad_args *)args)->count;
}

static void
gradient_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct srad_args *a = args;
	uint64_t r = a->r;
	uint64_t i = a->first + begin;

	end += a->first;
	while (i < end) {
		uint64_t y = i / r, x0 = i % r;
		uint64_t x1 = kernel_min(r, x0 + (end - i));
		uint64_t start = y * r;
		struct row row = {
			.here = a->j + start,
			.north = a->j + (y > 0 ? start - r : start),
			.south = a->j + (y + 1 < r ? start + r : start),
			.c = a->c + start,
			.n = a->n + start,
			.s = a->s + start,
			.w = a->w + start,
			.e = a->e + start,
			.q0 = a->q0,
		};

		i += x1 - x0;
		if (x0 == 0)
			gradient_edge(&row, x0++, r);
		if (x1 == r && x0 < x1)
			gradient_edge(&row, --x1, r);
		gradient_inside(&row, x0, x1);
	}
}

static void
update_inside(const struct srad_args *a, const float *restrict c,
	      const float *restrict c_south, uint64_t start, uint64_t x0, uint64_t x1)
{
	const float *restrict n = a->n + start, *restrict s = a->s + start;
	const float *restrict w = a->w + start, *restrict e = a->e + start;
	float *restrict j = a->j + start;
	uint64_t x;

	for (x = x0; x < x1; x++)
		j[x] = srad_updated(j[x], c[x], c_south[x], c[x + 1], n[x], s[x], w[x], e[x]);
}

static void
update_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct srad_args *a = args;
	uint64_t r = a->r;
	uint64_t i = a->first + begin;

	end += a->first;
	while (i < end) {
		uint64_t y = i / r, x0 = i % r;
		uint64_t x1 = kernel_min(r, x0 + (end - i));
		uint64_t start = y * r;
		const float *c = a->c + start;
		const float *c_south = y + 1 < r ? c + r : c;

		i += x1 - x0;
		if (x1 == r) { /* the last column has itself as its eastern neighbour */
			uint64_t x = start + --x1;

			a->j[x] = srad_updated(a->j[x], a->c[x], c_south[x1], a->c[x],
					       a->n[x], a->s[x], a->w[x], a->e[x]);
		}
		update_inside(a, c, c_south, start, x0, x1);
	}
}

static void
gradient_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct srad_args *a = args;
	uint64_t first = a->first + begin, n = end - begin;
	uint64_t halo_begin = workload_less(first, a->r);
	uint64_t halo_end = kernel_min(a->r * a->r, first + n + a->r);
	unsigned i;

	touch[ARRAY_J] = (struct workload_touch){.first = halo_begin,
						 .n = halo_end - halo_begin,
						 .read = 1};
	for (i = ARRAY_C; i < ARRAY_COUNT; i++)
		touch[i] = (struct workload_touch){.first = first, .n = n, .write = 1};
}

static void
update_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct srad_args *a = args;
	uint64_t first = a->first + begin, n = end - begin;
	unsigned i;

	for (i = 0; i < ARRAY_COUNT; i++)
		touch[i] = (struct workload_touch){.first = first, .n = n, .read = 1};
	touch[ARRAY_J].write = 1;
	touch[ARRAY_C].n = kernel_min(a->r * a->r, first + n + a->r) - first;
}

/* In the order of the arrays. */
#define POINTERS                                                                      \
	{                                                                             \
		offsetof(struct srad_args, j), offsetof(struct srad_args, c),         \
			offsetof(struct srad_args, n), offsetof(struct srad_args, s), \
			offsetof(struct srad_args, w), offsetof(struct srad_args, e)  \
	}

static const struct workload_kernel gradient_kernel = {
	.name = "workload_srad_gradient",
	.soft_elements = WORKLOAD_BLOCK_ELEMENTS,
	.cuda_elements = KERNEL_CUDA_ELEMENTS,
	.args_bytes = sizeof(struct srad_args),
	.n_pointers = ARRAY_COUNT,
	.pointer = POINTERS,
	.elements = srad_elements,
	.piece = gradient_piece,
	.touch = gradient_touch,
};

static const struct workload_kernel update_kernel = {
	.name = "workload_srad_update",
	.soft_elements = WORKLOAD_BLOCK_ELEMENTS,
	.cuda_elements = KERNEL_CUDA_ELEMENTS,
	.args_bytes = sizeof(struct srad_args),
	.n_pointers = ARRAY_COUNT,
	.pointer = POINTERS,
	.elements = srad_elements,
	.piece = update_piece,
	.touch = update_touch,
};

/* ---- the run ---- */

/* q0 squared from the corner of the image, when all launches are done. */
static int
corner_q0(struct workload_env *env, float *out)
{
	float corner[CORNER * CORNER], sum = 0, sum2 = 0, mean, variance;
	const float size = CORNER * CORNER;
	unsigned i;
	int rc;

	rc = workload_host_copy(env, ARRAY_J, 0, CORNER, env->plan.cols, CORNER, corner);
	if (rc)
		return rc;
	for (i = 0; i < CORNER * CORNER; i++) {
		sum += corner[i];
		sum2 += corner[i] * corner[i];
	}
	mean = sum / size;
	variance = sum2 / size - mean * mean;
	*out = variance / (mean * mean);
	return 0;
}

static int
gradient_launch(struct workload_env *env, const struct srad_args *args)
{
	uint64_t total = args->r * args->r;
	uint64_t halo_begin = workload_less(args->first, args->r);
	uint64_t halo_end = kernel_min(total, args->first + args->count + args->r);
	struct sluice_use uses[ARRAY_COUNT];
	unsigned i;

	uses[ARRAY_J] = workload_use(env, ARRAY_J, halo_begin, halo_end - halo_begin,
				     SLUICE_USE_READ);
	for (i = ARRAY_C; i < ARRAY_COUNT; i++)
		uses[i] = workload_use(env, i, args->first, args->count,
				       SLUICE_USE_WRITE_ALL);
	return workload_launch(env, &gradient_kernel, args, uses, ARRAY_COUNT);
}

static int
update_launch(struct workload_env *env, const struct srad_args *args)
{
	uint64_t total = args->r * args->r;
	uint64_t halo_end = kernel_min(total, args->first + args->count + args->r);
	struct sluice_use uses[ARRAY_COUNT];
	unsigned i;

	uses[ARRAY_J] = workload_use(env, ARRAY_J, args->first, args->count,
				     SLUICE_USE_READ_WRITE);
	uses[ARRAY_C] = workload_use(env, ARRAY_C, args->first, halo_end - args->first,
				     SLUICE_USE_READ);
	for (i = ARRAY_N; i < ARRAY_COUNT; i++)
		uses[i] = workload_use(env, i, args->first, args->count, SLUICE_USE_READ);
	return workload_launch(env, &update_kernel, args, uses, ARRAY_COUNT);
}

static int
srad_run(struct workload_env *env)
{
	uint64_t iterations = env->params->option[OPTION_ITERATIONS];
	uint64_t r = env->plan.cols;
	uint64_t total = r * r;
	uint64_t tile = workload_tile_elements(env, ARRAY_COUNT, r * 4);
	uint64_t pass, passes = 2 * iterations;
	struct srad_args args = {
		.j = env->base[ARRAY_J],
		.c = env->base[ARRAY_C],
		.n = env->base[ARRAY_N],
		.s = env->base[ARRAY_S],
		.w = env->base[ARRAY_W],
		.e = env->base[ARRAY_E],
		.r = r,
	};
	int rc;

	for (pass = 0; pass < passes; pass++) {
		if (pass % 2 == 0) {
			rc = corner_q0(env, &args.q0);
			if (rc)
				return rc;
		}
		for (args.first = 0; args.first < total; args.first += tile) {
			args.count = kernel_min(tile, total - args.first);
			rc = pass % 2 ? update_launch(env, &args)
				      : gradient_launch(env, &args);
			if (!rc)
				rc = workload_tile_done(env,
							pass * total + args.first + args.count,
							passes * total);
			if (rc)
				return rc;
		}
	}
	return 0;
}

static void
srad_expect(const struct workload_env *env, struct workload_expectation *out)
{
	uint64_t array = workload_chunks_up(env, env->plan.array[ARRAY_J].size_bytes);
	uint64_t iterations = env->params->option[OPTION_ITERATIONS];
	uint64_t budget = env->config.device_budget_bytes;
	/* A halo chunk may leave between two tiles of a pass, at most once per tile. */
	uint64_t slack = 12 * iterations * env->config.chunk_bytes;

	out->known = 1;
	out->tolerance_bytes = env->result->tile_bytes + slack;
	if (budget >= ARRAY_COUNT * array) {
		out->h2d_bytes = array;
		snprintf(out->h2d_formula, sizeof(out->h2d_formula), "F/6");
		snprintf(out->d2h_formula, sizeof(out->d2h_formula), "0");
		return;
	}
	/* Every pass goes through F, so with a smaller budget nothing is left of the last one. */
	switch (env->config.policy) {
	case SLUICE_POLICY_LRU:
		out->h2d_bytes = 7 * iterations * array;
		out->d2h_bytes = workload_less(6 * iterations * array, budget / 6);
		snprintf(out->h2d_formula, sizeof(out->h2d_formula), "%" PRIu64 "/6 F",
			 7 * iterations);
		snprintf(out->d2h_formula, sizeof(out->d2h_formula), "%" PRIu64 "F - G/6",
			 iterations);
		break;
	case SLUICE_POLICY_DRAGON: /* all arrays may be written, so all go both ways */
	case SLUICE_POLICY_UVM:
		out->h2d_bytes = (12 * iterations - 5) * array;
		out->d2h_bytes = workload_less(12 * iterations * array, budget);
		snprintf(out->h2d_formula, sizeof(out->h2d_formula), "%" PRIu64 "/6 F",
			 12 * iterations - 5);
		snprintf(out->d2h_formula, sizeof(out->d2h_formula), "%" PRIu64 "F - G",
			 2 * iterations);
		break;
	case SLUICE_POLICY_PLAN: /* depends on what is planned: at most as lru */
	case SLUICE_POLICY_COUNT:
		out->known = 0;
		break;
	}
}

/* ---- the reference: whole images in memory, one pixel at a time ---- */

static float
pixel(const float *image, uint64_t r, uint64_t y, uint64_t x)
{
	return image[(y < r ? y : r - 1) * r + (x < r ? x : r - 1)];
}

static float
reference_q0(const float *j, uint64_t r)
{
	float sum = 0, squares = 0;
	unsigned i;

	for (i = 0; i < CORNER * CORNER; i++) {
		float value = pixel(j, r, i / CORNER, i % CORNER);

		sum = sum + value;
		squares = squares + value * value;
	}
	sum /= CORNER * CORNER;
	squares /= CORNER * CORNER;
	return (squares - sum * sum) / (sum * sum);
}

static float
reference_coefficient(const float *j, uint64_t r, uint64_t y, uint64_t x, float q0)
{
	float here = pixel(j, r, y, x);
	float north = pixel(j, r, y > 0 ? y - 1 : 0, x) - here;
	float south = pixel(j, r, y + 1, x) - here;
	float west = pixel(j, r, y, x > 0 ? x - 1 : 0) - here;
	float east = pixel(j, r, y, x + 1) - here;
	float g2 = (north * north + south * south + west * west + east * east) /
		   (here * here);
	float l = (north + south + west + east) / here;
	float root = 1.0f + 0.25f * l;
	float q = (0.5f * g2 - 1.0f / 16.0f * (l * l)) / (root * root);
	float c = 1.0f / (1.0f + (q - q0) / (q0 * (1.0f + q0)));

	if (c < 0.0f)
		return 0.0f;
	if (c > 1.0f)
		return 1.0f;
	return c;
}

/* One iteration from j to next; c is scratch. The differences are computed twice, not kept. */
static int
reference_iterate(struct workload_env *env, const float *j, float *next, float *c,
		  double done, double share)
{
	uint64_t r = env->plan.cols;
	float q0 = reference_q0(j, r);
	uint64_t x, y;
	int rc = 0;

	for (y = 0; !rc && y < r; y++) {
		for (x = 0; x < r; x++)
			c[y * r + x] = reference_coefficient(j, r, y, x, q0);
		rc = workload_progress(env, "verify",
				       done + share / 2 * (double)y / (double)r);
	}
	for (y = 0; !rc && y < r; y++) {
		for (x = 0; x < r; x++) {
			float here = j[y * r + x], coeff = c[y * r + x];
			float divergence =
				coeff * (pixel(j, r, y > 0 ? y - 1 : 0, x) - here) +
				pixel(c, r, y + 1, x) * (pixel(j, r, y + 1, x) - here) +
				coeff * (pixel(j, r, y, x > 0 ? x - 1 : 0) - here) +
				pixel(c, r, y, x + 1) * (pixel(j, r, y, x + 1) - here);

			next[y * r + x] = here + 0.25f * SRAD_LAMBDA * divergence;
		}
		rc = workload_progress(env, "verify",
				       done + share / 2 * (1 + (double)y / (double)r));
	}
	return rc;
}

static int
reference_images(struct workload_env *env, void *memory)
{
	uint64_t iterations = env->params->option[OPTION_ITERATIONS];
	uint64_t r = env->plan.cols;
	uint64_t n = r * r;
	float *j = memory, *next = j + n, *c = next + n;
	uint64_t i;
	int rc;

	rc = workload_input_read(env, ARRAY_J, 0, n, j);
	for (i = 0; !rc && i < iterations; i++) {
		float *done = j;

		rc = reference_iterate(env, j, next, c, (double)i / (double)iterations,
				       1 / (double)iterations);
		j = next;
		next = done;
	}
	for (i = 0; !rc && i < r; i++)
		rc = workload_output_compare(env, ARRAY_J, WORKLOAD_F32, i * r, r, j + i * r);
	return rc;
}

static int
srad_reference(struct workload_env *env)
{
	return workload_reference_run(env,
				      3 * env->plan.cols * env->plan.cols * sizeof(float),
				      reference_images);
}

static const struct workload_ops srad_ops = {
	.plan = srad_plan,
	.fill = srad_fill,
	.run = srad_run,
	.expect = srad_expect,
	.reference = srad_reference,
};

static const struct workload_kernel *const srad_kernels[] = {
	&gradient_kernel,
	&update_kernel,
	NULL,
};

const struct workload workload_srad = {
	.name = "srad_v2",
	.text = "diffusion of an image: five volatile arrays, two passes per iteration",
	.tiled = 1,
	.options = srad_options,
	.n_options = sizeof(srad_options) / sizeof(srad_options[0]),
	.ops = &srad_ops,
	.kernels = srad_kernels,
};
