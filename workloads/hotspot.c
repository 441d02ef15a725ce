/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hotspot: one time step of the temperature of a chip, a 5-point stencil with clamped edges over
 * a square grid of r x r floats, r = sqrt(footprint / 12) rounded down to 1024s:
 *
 *	new = T + step/Cap * (P + (S + N - 2T)/Ry + (E + W - 2T)/Rx + (80 - T)/Rz)
 *
 * temp is mapped for reading and writing although it is never written, as the published program
 * does: a pager that does not know what was written copies it back for nothing. power is mapped
 * for reading, out for writing with CREATE.
 *
 * Arithmetic: the grid is single precision, and so are all constants (computed in double, rounded
 * once) and all operations. (The published source has a double literal 2.0 in it; single
 * precision is decided here once, for every device, and the reference does the same.)
 *
 * Tiles are linear pieces of the grid that start at chunk boundaries, not whole rows, so that
 * every launch writes whole chunks; a launch reads one row more on either side.
 *
 * Threads: see env.h; the kernel runs on any number of workers.
 */
#include "hotspot_kernel.h"

#include "env.h"
#include "random.h"
#include "small_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { ARRAY_TEMP, ARRAY_POWER, ARRAY_OUT, ARRAY_COUNT };

#define GRID_STEP 1024u /* rows come in multiples of it */
#define CELL      64u   /* of the smooth input fields */

static struct hotspot_constants
constants_make(uint64_t r)
{
	const double chip = 0.016, thickness = 0.0005, heat = 1.75e6, conductivity = 100;
	const double factor = 0.5, power_max = 3e6, precision = 0.001;
	double cell = chip / (double)r; /* height and width */
	double cap = factor * heat * thickness * cell * cell;
	double rx = cell / (2 * conductivity * thickness * cell);
	double rz = thickness / (conductivity * cell * cell);
	double slope = power_max / (factor * thickness * heat);
	struct hotspot_constants k = {
		.step_over_cap = (float)(precision / slope / cap),
		.per_rx = (float)(1 / rx),
		.per_ry = (float)(1 / rx), /* cells are square */
		.per_rz = (float)(1 / rz),
		.ambient = 80,
	};

	return k;
}

static int
hotspot_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	uint64_t r = workload_isqrt(params->footprint_bytes / 12) / GRID_STEP * GRID_STEP;
	uint64_t bytes = r * r * 4;

	if (r == 0)
		return workload_plan_refuse(
			error,
			"hotspot: the footprint must be at least %u "
			"bytes (a grid of 1024 x 1024), it is %" PRIu64,
			12 * GRID_STEP * GRID_STEP, params->footprint_bytes);
	plan->rows = r;
	plan->cols = r;
	plan->n_arrays = ARRAY_COUNT;
	plan->array[ARRAY_TEMP] = (struct workload_array){.name = "temp",
							  .role = WORKLOAD_INPUT,
							  .flags = SLUICE_READ | SLUICE_WRITE,
							  .size_bytes = bytes};
	plan->array[ARRAY_POWER] = (struct workload_array){.name = "power",
							   .role = WORKLOAD_INPUT,
							   .flags = SLUICE_READ,
							   .size_bytes = bytes};
	plan->array[ARRAY_OUT] = (struct workload_array){.name = "out",
							 .role = WORKLOAD_OUTPUT,
							 .flags = SLUICE_WRITE | SLUICE_CREATE,
							 .size_bytes = bytes};
	return 0;
}

/* Elements [x, x + n) of row y of a smooth field in [0, 1): random values on a lattice of
 * CELL x CELL, between them bilinear. */
static void
field_row(uint64_t seed, uint64_t r, uint64_t y, uint64_t x, uint64_t n, float *out)
{
	uint64_t lattice = r / CELL + 1; /* r is a multiple of CELL */
	uint64_t ly = y / CELL;
	float fy = (float)(y % CELL) / CELL;
	uint64_t end = x + n;

	while (x < end) {
		uint64_t lx = x / CELL;
		uint64_t cell_end = kernel_min(end, (lx + 1) * CELL);
		float a = workload_unit(seed, ly * lattice + lx);
		float b = workload_unit(seed, ly * lattice + lx + 1);
		float c = workload_unit(seed, (ly + 1) * lattice + lx);
		float d = workload_unit(seed, (ly + 1) * lattice + lx + 1);
		float left = a + (c - a) * fy;
		float right = b + (d - b) * fy;

		for (; x < cell_end; x++)
			*out++ = left + (right - left) * ((float)(x % CELL) / CELL);
	}
}

static void
hotspot_fill(const struct workload_plan *plan, unsigned array, uint64_t seed,
	     uint64_t first, size_t n, void *out)
{
	/* Temperatures 323 to 344, powers 1.7e-5 to 2.8e-3. */
	float low = array == ARRAY_TEMP ? 323.0f : 1.7e-5f;
	float range = array == ARRAY_TEMP ? 21.0f : 2.8e-3f - 1.7e-5f;
	uint64_t r = plan->cols;
	float *to = out;
	uint64_t i;

	while (n > 0) {
		uint64_t x = first % r;
		uint64_t m = kernel_min(n, r - x);

		field_row(seed * ARRAY_COUNT + array, r, first / r, x, m, to);
		for (i = 0; i < m; i++)
			to[i] = low + range * to[i];
		to += m;
		first += m;
		n -= m;
	}
}

/* Columns [x0, x1) of row y; south and north already clamped, west and east not at an edge. */
static void
row_inside(const struct hotspot_args *h, const float *restrict row,
	   const float *restrict north, const float *restrict south,
	   const float *restrict power, float *restrict out, uint64_t x0, uint64_t x1)
{
	const struct hotspot_constants k = h->k;
	uint64_t x;

	for (x = x0; x < x1; x++)
		out[x] = hotspot_cell(&k, row[x], power[x], north[x], south[x],
				      row[x - 1], row[x + 1]);
}

static void
row_edge(const struct hotspot_args *h, const float *row, const float *north,
	 const float *south, const float *power, float *out, uint64_t x)
{
	out[x] = hotspot_cell(&h->k, row[x], power[x], north[x], south[x],
			      row[x > 0 ? x - 1 : x], row[x + 1 < h->r ? x + 1 : x]);
}

static uint64_t
hotspot_elements(const void *args)
{
	return ((const struct hotspot_args *)args)->n;
}

static void
hotspot_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct hotspot_args *h = args;
	uint64_t r = h->r;
	uint64_t i = h->first + begin;

	end += h->first;
	while (i < end) {
		uint64_t y = i / r, x0 = i % r;
		uint64_t x1 = kernel_min(r, x0 + (end - i));
		const float *row = h->temp + y * r;
		const float *north = y > 0 ? row - r : row;
		const float *south = y + 1 < r ? row + r : row;
		const float *power = h->power + y * r;
		float *out = h->out + y * r;

		i += x1 - x0;
		if (x0 == 0)
			row_edge(h, row, north, south, power, out, x0++);
		if (x1 == r && x0 < x1)
			row_edge(h, row, north, south, power, out, --x1);
		row_inside(h, row, north, south, power, out, x0, x1);
	}
}

static void
hotspot_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct hotspot_args *h = args;
	uint64_t first = h->first + begin, n = end - begin;
	uint64_t halo_begin = workload_less(first, h->r);
	uint64_t halo_end = kernel_min(h->r * h->r, first + n + h->r);

	touch[0] = (struct workload_touch){.first = halo_begin,
					   .n = halo_end - halo_begin,
					   .read = 1};
	touch[1] = (struct workload_touch){.first = first, .n = n, .read = 1};
	touch[2] = (struct workload_touch){.first = first, .n = n, .write = 1};
}

static const struct workload_kernel hotspot_kernel = {
	.name = "workload_hotspot",
	.soft_elements = WORKLOAD_BLOCK_ELEMENTS,
	.cuda_elements = KERNEL_CUDA_ELEMENTS,
	.args_bytes = sizeof(struct hotspot_args),
	.n_pointers = 3,
	.pointer = {offsetof(struct hotspot_args, temp), offsetof(struct hotspot_args, power),
		    offsetof(struct hotspot_args, out)},
	.elements = hotspot_elements,
	.piece = hotspot_piece,
	.touch = hotspot_touch,
};

static int
hotspot_run(struct workload_env *env)
{
	uint64_t r = env->plan.cols;
	uint64_t total = r * r;
	uint64_t tile = workload_tile_elements(env, ARRAY_COUNT, r * 4);
	struct hotspot_args args = {
		.temp = env->base[ARRAY_TEMP],
		.power = env->base[ARRAY_POWER],
		.out = env->base[ARRAY_OUT],
		.r = r,
		.k = constants_make(r),
	};
	int rc = 0;

	for (args.first = 0; !rc && args.first < total; args.first += tile) {
		uint64_t halo_begin = workload_less(args.first, r);
		uint64_t halo_end = kernel_min(total, args.first + tile + r);

		args.n = kernel_min(tile, total - args.first);

		struct sluice_use uses[] = {
			workload_use(env, ARRAY_TEMP, halo_begin, halo_end - halo_begin,
				     SLUICE_USE_READ),
			workload_use(env, ARRAY_POWER, args.first, args.n, SLUICE_USE_READ),
			workload_use(env, ARRAY_OUT, args.first, args.n, SLUICE_USE_WRITE_ALL),
		};

		rc = workload_launch(env, &hotspot_kernel, &args, uses, ARRAY_COUNT);
		if (!rc)
			rc = workload_tile_done(env, args.first + args.n, total);
	}
	return rc;
}

static void
hotspot_expect(const struct workload_env *env, struct workload_expectation *out)
{
	uint64_t array = workload_chunks_up(env, env->plan.array[ARRAY_TEMP].size_bytes);
	uint64_t budget = env->config.device_budget_bytes;

	switch (env->config.policy) {
	case SLUICE_POLICY_LRU:
		out->d2h_bytes = workload_less(array, budget / 3);
		snprintf(out->d2h_formula, sizeof(out->d2h_formula), "max(0, F/3 - G/3)");
		break;
	case SLUICE_POLICY_DRAGON: /* temp goes back unmodified */
		out->d2h_bytes = workload_less(2 * array, budget / 3 * 2);
		snprintf(out->d2h_formula, sizeof(out->d2h_formula), "max(0, 2F/3 - 2G/3)");
		break;
	case SLUICE_POLICY_UVM:  /* power as well: no published figure */
	case SLUICE_POLICY_PLAN: /* one pass: as lru, unless rows repeat */
	case SLUICE_POLICY_COUNT:
		return;
	}
	out->known = 1;
	out->h2d_bytes = 2 * array;
	snprintf(out->h2d_formula, sizeof(out->h2d_formula), "2F/3");
	out->tolerance_bytes = env->result->tile_bytes + 3 * env->config.chunk_bytes;
}

/* One row at a time, every neighbour by its clamped index, rows of temp in a ring of three. */
static int
reference_rows(struct workload_env *env, void *room)
{
	uint64_t r = env->plan.cols;
	float *memory = room;
	struct hotspot_constants k = constants_make(r);
	float *ring[3] = {memory, memory + r, memory + 2 * r};
	float *power = memory + 3 * r;
	float *want = memory + 4 * r;
	uint64_t x, y;
	int rc;

	rc = workload_input_read(env, ARRAY_TEMP, 0, r, ring[0]);
	for (y = 0; !rc && y < r; y++) {
		const float *here = ring[y % 3];
		const float *above = ring[(y > 0 ? y - 1 : 0) % 3];
		const float *below = ring[(y + 1 < r ? y + 1 : y) % 3];

		if (y + 1 < r)
			rc = workload_input_read(env, ARRAY_TEMP, (y + 1) * r, r,
						 ring[(y + 1) % 3]);
		if (!rc)
			rc = workload_input_read(env, ARRAY_POWER, y * r, r, power);
		if (rc)
			break;
		for (x = 0; x < r; x++) {
			float t = here[x];
			float vertical = below[x] + above[x] - 2.0f * t;
			float horizontal = here[x + 1 < r ? x + 1 : x] +
					   here[x > 0 ? x - 1 : x] - 2.0f * t;
			float sum = power[x] + vertical * k.per_ry +
				    horizontal * k.per_rx + (k.ambient - t) * k.per_rz;

			want[x] = t + k.step_over_cap * sum;
		}
		rc = workload_output_compare(env, ARRAY_OUT, WORKLOAD_F32, y * r, r, want);
		/* The run may write temp back, but must not have changed it. */
		if (!rc) {
			hotspot_fill(&env->plan, ARRAY_TEMP, env->params->seed, y * r, r,
				     want);
			rc = workload_output_compare(env, ARRAY_TEMP, WORKLOAD_F32, y * r,
						     r, want);
		}
		if (!rc)
			rc = workload_progress(env, "verify", (double)(y + 1) / (double)r);
	}
	return rc;
}

static int
hotspot_reference(struct workload_env *env)
{
	return workload_reference_run(env, 5 * env->plan.cols * sizeof(float),
				      reference_rows);
}

static const struct workload_ops hotspot_ops = {
	.plan = hotspot_plan,
	.fill = hotspot_fill,
	.run = hotspot_run,
	.expect = hotspot_expect,
	.reference = hotspot_reference,
};

static const struct workload_kernel *const hotspot_kernels[] = {&hotspot_kernel, NULL};

const struct workload workload_hotspot = {
	.name = "hotspot",
	.text = "one step of a 5-point stencil over temperature and power",
	.tiled = 1,
	.ops = &hotspot_ops,
	.kernels = hotspot_kernels,
};
