/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lavaMD: forces between the particles of a cube of b x b x b boxes, b the cube root of footprint /
 * 8000, with 100 particles each. On every particle act those of its own box and of the up to 26
 * boxes around it; what lies beyond is too far away, and the cube does not repeat.
 *
 * Per box there are a record of 656 bytes with its neighbours, 100 places (rv) and 100 charges (qv),
 * all mapped for reading, and 100 forces (fv), mapped for writing only with CREATE. The kernel adds
 * to fv: right because a first touch of such a mapping is zero-filled, and a test of that. On a GPU
 * the kernels run in rounds over the same arrays (workload.h), so there fv is written and not read,
 * and what the last round left in it is discarded: tiles end within chunks, and the rest of such a
 * chunk would be brought in to be overwritten by the next.
 *
 * A box's neighbours are up to a plane of boxes before and behind it: a launch uses the places and
 * charges of a tile of boxes and of a plane on either side, which the next launches use again. Where
 * even the smallest tile has more chunks than the device has room for, kernels run by faults (not
 * on a GPU, which has none).
 *
 * --partners bounds how many particles of a box act on another box's: on threads of this machine
 * 8 by default, since all 100 (the published program, and the default on a GPU) take 270000
 * exponentials a box. What is read and written is the same.
 *
 * Arithmetic: double precision, with the exponential of kernel_math.h; each force is a sum in the
 * order of the neighbours and of their particles.
 *
 * Threads: see env.h; the kernel runs on any number of workers.
 */
#include "lavamd_kernel.h"

#include "env.h"
#include "list.h"
#include "random.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { ARRAY_BOX, ARRAY_RV, ARRAY_QV, ARRAY_FV, ARRAY_COUNT };

enum { OPTION_PARTNERS };

#define NOMINAL_BYTES 8000u /* of a box, by which the footprint is divided */
#define SIDE_MAX      30000u

/* Words of 4 bytes of a box in each array. */
#define BOX_WORDS    (sizeof(struct lavamd_box) / 4)
#define VECTOR_WORDS (LAVAMD_PARTICLES * sizeof(struct lavamd_vector) / 4)
#define CHARGE_WORDS (LAVAMD_PARTICLES * sizeof(double) / 4)

_Static_assert(sizeof(struct lavamd_box) == 656, "a box's record in the file");
_Static_assert(sizeof(struct lavamd_neighbour) == 24, "a neighbour's record in the file");

static const uint64_t box_words[ARRAY_COUNT] = {
	[ARRAY_BOX] = BOX_WORDS,
	[ARRAY_RV] = VECTOR_WORDS,
	[ARRAY_QV] = CHARGE_WORDS,
	[ARRAY_FV] = VECTOR_WORDS,
};

static const struct workload_option lavamd_options[] = {
	[OPTION_PARTNERS] = {.name = "partners",
			     .text = "particles of a box that act on those of another",
			     .initial = 8,
			     .min = 1,
			     .max = LAVAMD_PARTICLES,
			     .cuda_initial = LAVAMD_PARTICLES},
};

static int
lavamd_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	static const char *const names[ARRAY_COUNT] = {"box", "rv", "qv", "fv"};
	uint64_t side = 0;
	unsigned i;

	while (side < SIDE_MAX && (side + 1) * (side + 1) * (side + 1) <=
					  params->footprint_bytes / NOMINAL_BYTES)
		side++;
	if (side == 0)
		return workload_plan_refuse(
			error,
			"lavaMD: the footprint must be at least %u bytes "
			"(one box), it is %" PRIu64,
			NOMINAL_BYTES, params->footprint_bytes);
	plan->rows = side * side;
	plan->cols = side;
	plan->n_arrays = ARRAY_COUNT;
	for (i = 0; i < ARRAY_COUNT; i++)
		plan->array[i] = (struct workload_array){
			.name = names[i],
			.role = i == ARRAY_FV ? WORKLOAD_OUTPUT : WORKLOAD_INPUT,
			.flags = i == ARRAY_FV ? SLUICE_WRITE | SLUICE_CREATE : SLUICE_READ,
			.size_bytes = side * side * side * box_words[i] * 4,
		};
	return 0;
}

/* ---- inputs ---- */

/* Coordinate of the neighbour in step -1, 0 or 1 from at; -1: there is none. */
static int64_t
beside(int64_t at, int64_t step, int64_t side)
{
	return at + step < side ? at + step : -1;
}

static struct lavamd_box
box_make(uint64_t number, int64_t side)
{
	struct lavamd_box box = {
		.x = (int32_t)(number % (uint64_t)side),
		.y = (int32_t)(number / (uint64_t)side % (uint64_t)side),
		.z = (int32_t)(number / (uint64_t)(side * side)),
		.number = (int32_t)number,
		.first = (int64_t)number * LAVAMD_PARTICLES,
	};
	unsigned i;

	for (i = 0; i < 27; i++) {
		int64_t x = beside(box.x, (int64_t)(i % 3) - 1, side);
		int64_t y = beside(box.y, (int64_t)(i / 3 % 3) - 1, side);
		int64_t z = beside(box.z, (int64_t)(i / 9) - 1, side);
		int64_t other = (z * side + y) * side + x;

		if (x < 0 || y < 0 || z < 0 || i == 13) /* 13: itself */
			continue;
		box.neighbour[box.n_neighbours++] = (struct lavamd_neighbour){
			.x = (int32_t)x,
			.y = (int32_t)y,
			.z = (int32_t)z,
			.number = (int32_t)other,
			.first = other * LAVAMD_PARTICLES,
		};
	}
	return box;
}

/* Multiples of 0.1 from 0.1 to 1.0. */
static double
tenth(uint64_t seed, uint64_t i)
{
	uint64_t tenths = 1 + (workload_hash(seed, i) >> 32) * 10 / (1ull << 32);

	return (double)tenths / 10;
}

static void
boxes_fill(int64_t side, uint64_t first, size_t n, char *to)
{
	uint64_t end = first + n;

	while (first < end) {
		uint64_t from = first % BOX_WORDS;
		uint64_t m = kernel_min(BOX_WORDS - from, end - first);
		struct lavamd_box box = box_make(first / BOX_WORDS, side);

		memcpy(to, (const char *)&box + from * 4, m * 4);
		to += m * 4;
		first += m;
	}
}

/* Pieces of 4 bytes that may begin and end within a box, and within a number. */
static void
lavamd_fill(const struct workload_plan *plan, unsigned array, uint64_t seed,
	    uint64_t first, size_t n, void *out)
{
	uint64_t end = first + n;
	char *to = out;

	if (array == ARRAY_BOX) {
		boxes_fill((int64_t)plan->cols, first, n, out);
		return;
	}
	while (first < end) {
		double value = tenth(seed * ARRAY_COUNT + array, first / 2);
		uint64_t from = first % 2;
		uint64_t m = kernel_min(2 - from, end - first);

		memcpy(to, (const char *)&value + from * 4, m * 4);
		to += m * 4;
		first += m;
	}
}

/* ---- kernel ---- */

/* The home box's particles by component, so that the loop over them vectorises. */
struct home {
	double v[LAVAMD_PARTICLES], x[LAVAMD_PARTICLES], y[LAVAMD_PARTICLES],
		z[LAVAMD_PARTICLES];
};

static void
home_load(struct home *home, const struct lavamd_vector *from)
{
	unsigned i;

	for (i = 0; i < LAVAMD_PARTICLES; i++) {
		home->v[i] = from[i].v;
		home->x[i] = from[i].x;
		home->y[i] = from[i].y;
		home->z[i] = from[i].z;
	}
}

static void
home_store(const struct home *home, struct lavamd_vector *to)
{
	unsigned i;

	for (i = 0; i < LAVAMD_PARTICLES; i++)
		to[i] = (struct lavamd_vector){home->v[i], home->x[i], home->y[i],
					       home->z[i]};
}

/* One particle acts on all of a box. */
static void
home_act(const struct home *restrict at, struct home *restrict force,
	 const struct lavamd_vector *from, double q)
{
	const struct lavamd_vector b = *from;
	unsigned i;

	for (i = 0; i < LAVAMD_PARTICLES; i++) {
		struct lavamd_vector a = {at->v[i], at->x[i], at->y[i], at->z[i]};
		struct lavamd_vector f = {force->v[i], force->x[i], force->y[i], force->z[i]};

		lavamd_act(a, b, q, &f);
		force->v[i] = f.v;
		force->x[i] = f.x;
		force->y[i] = f.y;
		force->z[i] = f.z;
	}
}

static void
box_forces(const struct lavamd_args *l, uint64_t number)
{
	const struct lavamd_box *box = &l->box[number];
	struct lavamd_vector *fv = &l->fv[number * LAVAMD_PARTICLES];
	struct home at, force = {{0}, {0}, {0}, {0}};
	uint32_t j;
	int32_t k;

	home_load(&at, &l->rv[number * LAVAMD_PARTICLES]);
	if (l->add)
		home_load(&force, fv);
	for (k = -1; k < box->n_neighbours; k++) { /* -1: itself */
		int64_t first = k < 0 ? box->first : box->neighbour[k].first;

		for (j = 0; j < l->partners; j++)
			home_act(&at, &force, &l->rv[first + j], l->qv[first + j]);
	}
	home_store(&force, fv);
}

static uint64_t
lavamd_elements(const void *args)
{
	return ((const struct lavamd_args *)args)->count;
}

static void
lavamd_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct lavamd_args *l = args;
	uint64_t i;

	for (i = l->first + begin; i < l->first + end; i++)
		box_forces(l, i);
}

/* The boxes whose particles act on those of boxes [begin, end). */
static void
halo_range(uint64_t side, uint64_t begin, uint64_t end, uint64_t *halo_begin,
	   uint64_t *halo_end)
{
	*halo_begin = workload_less(begin, lavamd_reach(side));
	*halo_end = kernel_min(side * side * side, end + lavamd_reach(side));
}

static void
lavamd_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct lavamd_args *l = args;
	uint64_t first = l->first + begin, n = end - begin, halo_begin, halo_end;

	halo_range(l->side, first, first + n, &halo_begin, &halo_end);
	touch[ARRAY_BOX] = (struct workload_touch){.first = first * BOX_WORDS,
						   .n = n * BOX_WORDS,
						   .read = 1};
	touch[ARRAY_RV] = (struct workload_touch){.first = halo_begin * VECTOR_WORDS,
						  .n = (halo_end - halo_begin) * VECTOR_WORDS,
						  .read = 1};
	touch[ARRAY_QV] = (struct workload_touch){.first = halo_begin * CHARGE_WORDS,
						  .n = (halo_end - halo_begin) * CHARGE_WORDS,
						  .read = 1};
	touch[ARRAY_FV] = (struct workload_touch){.first = first * VECTOR_WORDS,
						  .n = n * VECTOR_WORDS,
						  .read = l->add != 0,
						  .write = 1};
}

static const struct workload_kernel lavamd_kernel = {
	.name = "workload_lavamd",
	.soft_elements = 1,
	.cuda_elements = LAVAMD_CUDA_BOXES,
	.args_bytes = sizeof(struct lavamd_args),
	.n_pointers = ARRAY_COUNT,
	.pointer = {offsetof(struct lavamd_args, box), offsetof(struct lavamd_args, rv),
		    offsetof(struct lavamd_args, qv), offsetof(struct lavamd_args, fv)},
	.elements = lavamd_elements,
	.piece = lavamd_piece,
	.touch = lavamd_touch,
};

/* ---- the run ---- */

/* Boxes of one launch: what is left of a tile beside the planes around it. */
static uint64_t
tile_boxes(struct workload_env *env)
{
	uint64_t halo = lavamd_reach(env->plan.cols) * (VECTOR_WORDS + CHARGE_WORDS) * 4;
	uint64_t boxes = workload_tile_elements(env, 1, halo) /
			 (BOX_WORDS + 2 * VECTOR_WORDS + CHARGE_WORDS);

	return boxes ? boxes : 1;
}

static uint64_t
chunks_of(const struct workload_env *env, uint64_t first_word, uint64_t words)
{
	uint64_t chunk = env->config.chunk_bytes;

	return ((first_word + words) * 4 + chunk - 1) / chunk - first_word * 4 / chunk;
}

static uint64_t
tile_chunks(const struct workload_env *env, uint64_t first, uint64_t count)
{
	uint64_t halo_begin, halo_end, chunks = 0;
	unsigned i;

	halo_range(env->plan.cols, first, first + count, &halo_begin, &halo_end);
	for (i = 0; i < ARRAY_COUNT; i++) {
		int halo = i == ARRAY_RV || i == ARRAY_QV;
		uint64_t begin = halo ? halo_begin : first;
		uint64_t end = halo ? halo_end : first + count;

		chunks += chunks_of(env, begin * box_words[i], (end - begin) * box_words[i]);
	}
	return chunks;
}

/* Whether launches of that many boxes can have all that they use on the device. */
static int
tiles_fit(const struct workload_env *env, uint64_t tile)
{
	uint64_t boxes = env->plan.rows * env->plan.cols, first, most = 0;

	for (first = 0; first < boxes; first += tile) {
		uint64_t chunks = tile_chunks(env, first, kernel_min(tile, boxes - first));

		most = chunks > most ? chunks : most;
	}
	return most * env->config.chunk_bytes <= env->config.device_budget_bytes;
}

static int
lavamd_run(struct workload_env *env)
{
	int is_cuda = env->config.device == SLUICE_DEVICE_CUDA;
	uint64_t boxes = env->plan.rows * env->plan.cols;
	uint64_t tile = tile_boxes(env);
	unsigned n_uses = is_cuda || tiles_fit(env, tile) ? ARRAY_COUNT : 0;
	struct lavamd_args args = {
		.box = env->base[ARRAY_BOX],
		.rv = env->base[ARRAY_RV],
		.qv = env->base[ARRAY_QV],
		.fv = env->base[ARRAY_FV],
		.side = env->plan.cols,
		.partners = (uint32_t)env->params->option[OPTION_PARTNERS],
		.add = !is_cuda,
	};
	int rc = 0;

	if (!args.add)
		rc = env->memory->discard(env, env->base[ARRAY_FV],
					  env->plan.array[ARRAY_FV].size_bytes,
					  SLUICE_DISCARD_LAZY);
	for (; !rc && args.first < boxes; args.first += tile) {
		uint64_t halo_begin, halo_end;

		args.count = kernel_min(tile, boxes - args.first);
		halo_range(args.side, args.first, args.first + args.count, &halo_begin,
			   &halo_end);

		struct sluice_use uses[] = {
			workload_use(env, ARRAY_BOX, args.first * BOX_WORDS,
				     args.count * BOX_WORDS, SLUICE_USE_READ),
			workload_use(env, ARRAY_RV, halo_begin * VECTOR_WORDS,
				     (halo_end - halo_begin) * VECTOR_WORDS, SLUICE_USE_READ),
			workload_use(env, ARRAY_QV, halo_begin * CHARGE_WORDS,
				     (halo_end - halo_begin) * CHARGE_WORDS, SLUICE_USE_READ),
			workload_use(env, ARRAY_FV, args.first * VECTOR_WORDS,
				     args.count * VECTOR_WORDS,
				     args.add ? SLUICE_USE_READ_WRITE : SLUICE_USE_WRITE_ALL),
		};

		rc = workload_launch(env, &lavamd_kernel, &args, uses, n_uses);
		if (!rc)
			rc = workload_tile_done(env, args.first + args.count, boxes);
	}
	return rc;
}

static void
lavamd_expect(const struct workload_env *env, struct workload_expectation *out)
{
	const struct workload_array *array = env->plan.array;
	uint64_t budget = env->config.device_budget_bytes;
	uint64_t footprint = 0;
	unsigned i;

	/* tile_bytes 0: by faults. uvm writes the inputs back too: no published figure. */
	if (env->config.policy == SLUICE_POLICY_UVM || env->result->tile_bytes == 0)
		return;
	for (i = 0; i < ARRAY_COUNT; i++)
		footprint += workload_chunks_up(env, array[i].size_bytes);
	out->known = 1;
	for (i = 0; i < ARRAY_FV; i++)
		out->h2d_bytes += workload_chunks_up(env, array[i].size_bytes);
	snprintf(out->h2d_formula, sizeof(out->h2d_formula), "4656 b^3");
	snprintf(out->d2h_formula, sizeof(out->d2h_formula), "max(0, .41 (F - G))");
	if (budget < footprint)
		out->d2h_bytes = workload_less(array[ARRAY_FV].size_bytes,
					       budget / 7856 * 3200);
	/* The places around the last tile are on the device instead of forces. */
	out->tolerance_bytes = env->result->tile_bytes + 4 * env->config.chunk_bytes;
}

/* ---- the reference: a plane of boxes at a time, neighbours by their coordinates ---- */

struct reference {
	uint64_t side;
	struct lavamd_vector *rv[3]; /* planes z - 1, z, z + 1, each in the slot of its z modulo 3 */
	double *qv[3];
	struct lavamd_vector *force; /* of one row of boxes */
};

static uint64_t
plane_particles(uint64_t side)
{
	return side * side * LAVAMD_PARTICLES;
}

static int
plane_read(struct workload_env *env, struct reference *ref, uint64_t z)
{
	uint64_t boxes = ref->side * ref->side;
	int rc = workload_input_read(env, ARRAY_RV, z * boxes * VECTOR_WORDS,
				     boxes * VECTOR_WORDS, ref->rv[z % 3]);

	if (rc)
		return rc;
	return workload_input_read(env, ARRAY_QV, z * boxes * CHARGE_WORDS,
				   boxes * CHARGE_WORDS, ref->qv[z % 3]);
}

/* The particles of a box act on one at a place. */
static void
reference_box(const struct lavamd_vector *at, const struct lavamd_vector *others,
	      const double *charges, unsigned partners, struct lavamd_vector *force)
{
	unsigned j;

	for (j = 0; j < partners; j++) {
		const struct lavamd_vector *o = &others[j];
		double dot = at->x * o->x + at->y * o->y + at->z * o->z;
		double near = kernel_exp_f64(-(0.5 * (at->v + o->v - dot)));

		force->v = force->v + charges[j] * near;
		force->x = force->x + charges[j] * (2 * near * (at->x - o->x));
		force->y = force->y + charges[j] * (2 * near * (at->y - o->y));
		force->z = force->z + charges[j] * (2 * near * (at->z - o->z));
	}
}

static void
reference_particle(const struct reference *ref, unsigned partners, uint64_t x, uint64_t y,
		   uint64_t z, uint64_t particle, struct lavamd_vector *force)
{
	uint64_t side = ref->side, home = (y * side + x) * LAVAMD_PARTICLES;
	const struct lavamd_vector *at = &ref->rv[z % 3][home + particle];
	uint64_t nx, ny, nz;

	*force = (struct lavamd_vector){0, 0, 0, 0};
	reference_box(at, &ref->rv[z % 3][home], &ref->qv[z % 3][home], partners, force);
	for (nz = z ? z - 1 : 0; nz <= z + 1 && nz < side; nz++) {
		for (ny = y ? y - 1 : 0; ny <= y + 1 && ny < side; ny++) {
			for (nx = x ? x - 1 : 0; nx <= x + 1 && nx < side; nx++) {
				uint64_t there = (ny * side + nx) * LAVAMD_PARTICLES;

				if (nx != x || ny != y || nz != z)
					reference_box(at, &ref->rv[nz % 3][there],
						      &ref->qv[nz % 3][there], partners,
						      force);
			}
		}
	}
}

static int
reference_row(struct workload_env *env, struct reference *ref, uint64_t y, uint64_t z)
{
	unsigned partners = (unsigned)env->params->option[OPTION_PARTNERS];
	uint64_t side = ref->side, row = (z * side + y) * side, i;

	for (i = 0; i < side * LAVAMD_PARTICLES; i++)
		reference_particle(ref, partners, i / LAVAMD_PARTICLES, y, z,
				   i % LAVAMD_PARTICLES, &ref->force[i]);
	return workload_output_compare(env, ARRAY_FV, WORKLOAD_F32, row * VECTOR_WORDS,
				       side * VECTOR_WORDS, ref->force);
}

static int
reference_planes(struct workload_env *env, void *memory)
{
	uint64_t side = env->plan.cols, y, z;
	uint64_t particles = plane_particles(side);
	struct reference ref = {.side = side, .force = memory};
	double *next = memory;
	int i, rc;

	next += side * VECTOR_WORDS / 2;
	for (i = 0; i < 3; i++) {
		ref.rv[i] = (struct lavamd_vector *)next;
		next += particles * 4;
		ref.qv[i] = next;
		next += particles;
	}
	rc = plane_read(env, &ref, 0);
	for (z = 0; !rc && z < side; z++) {
		if (z + 1 < side)
			rc = plane_read(env, &ref, z + 1);
		for (y = 0; !rc && y < side; y++) {
			rc = reference_row(env, &ref, y, z);
			if (!rc)
				rc = workload_progress(env, "verify",
						       (double)(z * side + y) /
							       (double)(side * side));
		}
	}
	return rc;
}

static int
lavamd_reference(struct workload_env *env)
{
	uint64_t side = env->plan.cols;
	uint64_t bytes = side * VECTOR_WORDS * 4 +
			 3 * plane_particles(side) * (sizeof(struct lavamd_vector) + 8);

	return workload_reference_run(env, bytes, reference_planes);
}

static const struct workload_ops lavamd_ops = {
	.plan = lavamd_plan,
	.fill = lavamd_fill,
	.run = lavamd_run,
	.expect = lavamd_expect,
	.reference = lavamd_reference,
};

static const struct workload_kernel *const lavamd_kernels[] = {&lavamd_kernel, NULL};

const struct workload workload_lavamd = {
	.name = "lavaMD",
	.text = "forces between particles in a cube of boxes: each box with those around "
		"it",
	.tiled = 1,
	.options = lavamd_options,
	.n_options = sizeof(lavamd_options) / sizeof(lavamd_options[0]),
	.ops = &lavamd_ops,
	.kernels = lavamd_kernels,
};
