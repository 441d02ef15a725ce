/* SPDX-License-Identifier: Apache-2.0 */
/*
 * train: steps of training a small network, an autoencoder of locally connected layers. A layer has
 * n positions; each has BATCH values (one a sample) and four weights of its own: three for itself
 * and its neighbours, and a bias. What a layer gives is v / (1 + |v|) of their sum. One step goes
 * forward through all layers, compares what the last one gives with the input, goes backward, and
 * changes the weights.
 *
 * What a framework keeps apart is apart here: outputs, gradients of outputs, gradients of weights
 * and a workspace are regions of their own, and what is not read again is discarded there and then.
 * The launches of each step are the same, which is what policy plan looks for. The weights are a
 * file that is changed in place; they are compared with those of a reference that shares no code
 * with the kernels, bit for bit.
 *
 * Values lie by position, then by sample; so a piece of a layer is one range of bytes. Tiles begin
 * at chunk boundaries and read one position more on either side. Gradients of outputs lie in the
 * order in which they are made: last layer first.
 *
 * For the software device only. Threads: see env.h; the kernels run on any number of workers.
 */
#include "kernel.h"

#include "env.h"
#include "list.h"
#include "random.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
	ARRAY_INPUT,
	ARRAY_WEIGHTS,
	ARRAY_OUTPUTS,
	ARRAY_DELTAS,
	ARRAY_GRADIENTS,
	ARRAY_WORKSPACE,
	ARRAY_COUNT
};

enum { OPTION_ITERATIONS, OPTION_LAYERS };

#define BATCH           8u
#define TAPS            4u /* left, here, right, bias */
#define RATE            0.125f
#define BLOCK_POSITIONS 4096u

/* Arrays as large as a tile's outputs that the largest launch uses, its halves added up. */
#define TILE_ARRAYS 6u

static const struct workload_option train_options[] = {
	[OPTION_ITERATIONS] = {.name = "steps",
			       .text = "steps of training",
			       .initial = 6,
			       .min = 1,
			       .max = 1000},
	[OPTION_LAYERS] = {.name = "layers",
			   .text = "layers of the network",
			   .initial = 6,
			   .min = 2,
			   .max = 64},
};

/* Positions whose weights fill whole chunks, and so all the rest, too. */
static uint64_t
unit_positions(uint64_t chunk_bytes)
{
	return (chunk_bytes ? chunk_bytes : 2ull << 20) / (TAPS * sizeof(float));
}

static int
train_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	uint64_t layers = params->option[OPTION_LAYERS];
	uint64_t unit = unit_positions(params->config.chunk_bytes);
	uint64_t values = unit * BATCH * sizeof(float),
		 weights = unit * TAPS * sizeof(float);
	uint64_t each = 2 * values + layers * 2 * (values + weights);
	uint64_t units = params->footprint_bytes / each;
	static const struct {
		const char *name;
		enum workload_role role;
		unsigned flags;
	} kinds[ARRAY_COUNT] = {
		[ARRAY_INPUT] = {"input", WORKLOAD_INPUT, SLUICE_READ},
		[ARRAY_WEIGHTS] = {"weights", WORKLOAD_IN_PLACE, SLUICE_READ | SLUICE_WRITE},
		[ARRAY_OUTPUTS] = {"outputs", WORKLOAD_ANONYMOUS, 0},
		[ARRAY_DELTAS] = {"deltas", WORKLOAD_ANONYMOUS, 0},
		[ARRAY_GRADIENTS] = {"gradients", WORKLOAD_ANONYMOUS, 0},
		[ARRAY_WORKSPACE] = {"workspace", WORKLOAD_ANONYMOUS, 0},
	};

	if (params->config.device == SLUICE_DEVICE_CUDA)
		return workload_plan_refuse(error,
					    "train: its kernels are for the software "
					    "device only: --set device=soft");
	if (!units)
		return workload_plan_refuse(error,
					    "train: %" PRIu64
					    " layers with chunks of %" PRIu64
					    " bytes need a footprint of at least %" PRIu64
					    " bytes, it is %" PRIu64,
					    layers, weights, each, params->footprint_bytes);
	plan->rows = layers;
	plan->cols = units * unit;
	plan->n_arrays = ARRAY_COUNT;
	for (unsigned i = 0; i < ARRAY_COUNT; i++) {
		uint64_t bytes = units * (i == ARRAY_WEIGHTS || i == ARRAY_GRADIENTS
						  ? weights
						  : values);

		plan->array[i] = (struct workload_array){
			.name = kinds[i].name,
			.role = kinds[i].role,
			.flags = kinds[i].flags,
			.size_bytes = i == ARRAY_INPUT || i == ARRAY_WORKSPACE
					      ? bytes
					      : layers * bytes,
		};
	}
	return 0;
}

static void
train_fill(const struct workload_plan *plan, unsigned array, uint64_t seed,
	   uint64_t first, size_t n, void *out)
{
	float *to = out, scale = array == ARRAY_WEIGHTS ? 1.0f : 2.0f;

	(void)plan;
	for (size_t i = 0; i < n; i++)
		to[i] = (workload_unit(seed, first + i) - 0.5f) * scale;
}

/* ---- kernels: n positions from first, of a layer of total ---- */

/* Every pointer is to the beginning of a layer. */
struct train_args {
	const float *x; /* what the layer is given; loss: the input of the network */
	float *y;       /* what it gives */
	float *d;       /* gradient of y; that of x lies one layer behind */
	float *w, *g;
	float *s; /* workspace */
	uint64_t first, n, total;
	int is_lowest; /* nobody asks for the gradient of x */
};

static uint64_t
train_elements(const void *args)
{
	return ((const struct train_args *)args)->n;
}

static void
forward_piece(const void *args, uint64_t begin, uint64_t end)
{
	static const float nothing[BATCH];
	const struct train_args *a = args;

	for (uint64_t i = a->first + begin; i < a->first + end; i++) {
		const float *here = a->x + i * BATCH, *w = a->w + i * TAPS;
		const float *left = i > 0 ? here - BATCH : nothing;
		const float *right = i + 1 < a->total ? here + BATCH : nothing;
		float *y = a->y + i * BATCH;

		for (unsigned k = 0; k < BATCH; k++) {
			float v = w[0] * left[k] + w[1] * here[k] + w[2] * right[k] + w[3];

			y[k] = v / (1.0f + (v < 0.0f ? -v : v));
		}
	}
}

static void
loss_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct train_args *a = args;

	for (uint64_t i = (a->first + begin) * BATCH; i < (a->first + end) * BATCH; i++)
		a->d[i] = a->y[i] - a->x[i];
}

/* Gradient of the weighted sums at a position. */
static void
sums_gradient(const struct train_args *a, uint64_t i, float *out)
{
	const float *y = a->y + i * BATCH, *d = a->d + i * BATCH;

	for (unsigned k = 0; k < BATCH; k++) {
		float slope = 1.0f - (y[k] < 0.0f ? -y[k] : y[k]);

		out[k] = d[k] * (slope * slope);
	}
}

static float
dot(const float *a, const float *b)
{
	float sum = 0.0f;

	for (unsigned k = 0; k < BATCH; k++)
		sum = sum + a[k] * b[k];
	return sum;
}

static void
backward_piece(const void *args, uint64_t begin, uint64_t end)
{
	static const float nothing[BATCH], ones[BATCH] = {1, 1, 1, 1, 1, 1, 1, 1};
	const struct train_args *a = args;
	uint64_t from = a->first + begin, to = a->first + end;
	float before[BATCH] = {0}, behind[BATCH] = {0};
	float *dx = a->d + a->total * BATCH;

	for (uint64_t i = from; i < to; i++)
		sums_gradient(a, i, a->s + i * BATCH);
	if (from > 0)
		sums_gradient(a, from - 1, before);
	if (to < a->total)
		sums_gradient(a, to, behind);
	for (uint64_t i = from; i < to; i++) {
		const float *x = a->x + i * BATCH, *s = a->s + i * BATCH,
			    *w = a->w + i * TAPS;
		const float *left = i > from ? s - BATCH : before;
		const float *right = i + 1 < to ? s + BATCH : behind;
		float w_left = i > 0 ? w[2 - (int)TAPS] : 0.0f;
		float w_right = i + 1 < a->total ? w[TAPS] : 0.0f;
		float *g = a->g + i * TAPS;

		g[0] = dot(s, i > 0 ? x - BATCH : nothing);
		g[1] = dot(s, x);
		g[2] = dot(s, i + 1 < a->total ? x + BATCH : nothing);
		g[3] = dot(s, ones);
		for (unsigned k = 0; k < BATCH && !a->is_lowest; k++)
			dx[i * BATCH + k] = w_left * left[k] + w[1] * s[k] +
					    w_right * right[k];
	}
}

static void
update_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct train_args *a = args;

	for (uint64_t i = (a->first + begin) * TAPS; i < (a->first + end) * TAPS; i++)
		a->w[i] = a->w[i] - RATE * a->g[i];
}

/* Positions [first, first + n), `more` on either side as far as there are any. */
struct span {
	uint64_t first, n;
};

static struct span
span_around(const struct train_args *a, uint64_t begin, uint64_t end, uint64_t more)
{
	uint64_t from = a->first + begin, to = a->first + end;

	from -= from < more ? from : more;
	to = kernel_min(to + more, a->total);
	return (struct span){from, to - from};
}

enum { POINTER_X, POINTER_Y, POINTER_D, POINTER_W, POINTER_G, POINTER_S };

/* Every kernel says what the largest one touches: "at most" is all that is asked. */
static void
train_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct train_args *a = args;
	struct span wide = span_around(a, begin, end, 1);
	struct span same = span_around(a, begin, end, 0);
	struct workload_touch values = {.first = wide.first * BATCH,
					.n = wide.n * BATCH,
					.read = 1};
	struct workload_touch weights = {.first = wide.first * TAPS,
					 .n = wide.n * TAPS,
					 .read = 1};

	touch[POINTER_X] = values;
	values.write = 1;
	touch[POINTER_Y] = values;
	touch[POINTER_D] = values;
	touch[POINTER_D].n += a->is_lowest ? 0 : a->total * BATCH;
	weights.write = 1;
	touch[POINTER_W] = weights;
	touch[POINTER_G] = (struct workload_touch){.first = same.first * TAPS,
						   .n = same.n * TAPS,
						   .read = 1,
						   .write = 1};
	touch[POINTER_S] = (struct workload_touch){.first = same.first * BATCH,
						   .n = same.n * BATCH,
						   .read = 1,
						   .write = 1};
}

#define TRAIN_KERNEL(what)                                                                   \
	static const struct workload_kernel what##_kernel = {                                \
		.name = "workload_train_" #what,                                             \
		.soft_elements = BLOCK_POSITIONS,                                            \
		.cuda_elements = KERNEL_CUDA_ELEMENTS,                                       \
		.args_bytes = sizeof(struct train_args),                                     \
		.n_pointers = 6,                                                             \
		.pointer = {offsetof(struct train_args, x), offsetof(struct train_args, y),  \
			    offsetof(struct train_args, d), offsetof(struct train_args, w),  \
			    offsetof(struct train_args, g), offsetof(struct train_args, s)}, \
		.elements = train_elements,                                                  \
		.piece = what##_piece,                                                       \
		.touch = train_touch,                                                        \
	}

TRAIN_KERNEL(forward);
TRAIN_KERNEL(loss);
TRAIN_KERNEL(backward);
TRAIN_KERNEL(update);

/* ---- the run ---- */

/* A run, as its launches see it. */
struct train {
	struct workload_env *env;
	uint64_t layers, total, tile; /* positions */
	uint64_t done, launches;      /* for progress */
};

/* Where a layer's gradient of outputs lies. */
static uint64_t
delta_slot(const struct train *t, uint64_t layer)
{
	return t->layers - 1 - layer;
}

static float *
layer_base(const struct train *t, unsigned array, uint64_t slot, uint64_t width)
{
	return (float *)t->env->base[array] + slot * t->total * width;
}

/* A use of positions of one layer of an array. */
static struct sluice_use
layer_use(const struct train *t, unsigned array, uint64_t slot, uint64_t width,
	  struct span span, enum sluice_intent intent)
{
	return workload_use(t->env, array, (slot * t->total + span.first) * width,
			    span.n * width, intent);
}

/* What a layer is given: the input of the network, or what the layer below gives. */
static struct sluice_use
given_use(const struct train *t, uint64_t layer, struct span span)
{
	return layer_use(t, layer ? ARRAY_OUTPUTS : ARRAY_INPUT, layer ? layer - 1 : 0,
			 BATCH, span, SLUICE_USE_READ);
}

static struct train_args
layer_args(const struct train *t, uint64_t layer)
{
	return (struct train_args){
		.x = layer ? layer_base(t, ARRAY_OUTPUTS, layer - 1, BATCH)
			   : t->env->base[ARRAY_INPUT],
		.y = layer_base(t, ARRAY_OUTPUTS, layer, BATCH),
		.d = layer_base(t, ARRAY_DELTAS, delta_slot(t, layer), BATCH),
		.w = layer_base(t, ARRAY_WEIGHTS, layer, TAPS),
		.g = layer_base(t, ARRAY_GRADIENTS, layer, TAPS),
		.s = t->env->base[ARRAY_WORKSPACE],
		.total = t->total,
		.is_lowest = layer == 0,
	};
}

static int
tile_launch(struct train *t, const struct workload_kernel *kernel,
	    const struct train_args *args, const struct sluice_use *uses, unsigned n_uses)
{
	int rc = workload_launch(t->env, kernel, args, uses, n_uses);

	return rc ? rc : workload_tile_done(t->env, ++t->done, t->launches);
}

static int
layer_forward(struct train *t, uint64_t layer)
{
	struct train_args args = layer_args(t, layer);
	int rc = 0;

	for (; !rc && args.first < t->total; args.first += args.n) {
		args.n = kernel_min(t->tile, t->total - args.first);

		struct span same = span_around(&args, 0, args.n, 0);
		struct sluice_use uses[] = {
			given_use(t, layer, span_around(&args, 0, args.n, 1)),
			layer_use(t, ARRAY_WEIGHTS, layer, TAPS, same, SLUICE_USE_READ),
			layer_use(t, ARRAY_OUTPUTS, layer, BATCH, same, SLUICE_USE_WRITE_ALL),
		};

		rc = tile_launch(t, &forward_kernel, &args, uses, 3);
	}
	return rc;
}

static int
loss(struct train *t)
{
	struct train_args args = layer_args(t, t->layers - 1);
	int rc = 0;

	args.x = t->env->base[ARRAY_INPUT];
	for (; !rc && args.first < t->total; args.first += args.n) {
		args.n = kernel_min(t->tile, t->total - args.first);

		struct span same = span_around(&args, 0, args.n, 0);
		struct sluice_use uses[] = {
			layer_use(t, ARRAY_INPUT, 0, BATCH, same, SLUICE_USE_READ),
			layer_use(t, ARRAY_OUTPUTS, t->layers - 1, BATCH, same,
				  SLUICE_USE_READ),
			layer_use(t, ARRAY_DELTAS, 0, BATCH, same, SLUICE_USE_WRITE_ALL),
		};

		rc = tile_launch(t, &loss_kernel, &args, uses, 3);
	}
	return rc;
}

static int
layer_discard(struct train *t, unsigned array, uint64_t slot, uint64_t width)
{
	return t->env->memory->discard(t->env, layer_base(t, array, slot, width),
				       t->total * width * sizeof(float),
				       SLUICE_DISCARD_LAZY);
}

static int
layer_backward(struct train *t, uint64_t layer)
{
	struct train_args args = layer_args(t, layer);
	uint64_t slot = delta_slot(t, layer);
	int rc = 0;

	for (; !rc && args.first < t->total; args.first += args.n) {
		args.n = kernel_min(t->tile, t->total - args.first);

		struct span same = span_around(&args, 0, args.n, 0);
		struct span wide = span_around(&args, 0, args.n, 1);
		struct sluice_use uses[] = {
			given_use(t, layer, wide),
			layer_use(t, ARRAY_OUTPUTS, layer, BATCH, wide, SLUICE_USE_READ),
			layer_use(t, ARRAY_DELTAS, slot, BATCH, wide, SLUICE_USE_READ),
			layer_use(t, ARRAY_WEIGHTS, layer, TAPS, wide, SLUICE_USE_READ),
			layer_use(t, ARRAY_GRADIENTS, layer, TAPS, same, SLUICE_USE_WRITE_ALL),
			layer_use(t, ARRAY_WORKSPACE, 0, BATCH, same, SLUICE_USE_SCRATCH),
			layer_use(t, ARRAY_DELTAS, layer ? slot + 1 : slot, BATCH, same,
				  layer ? SLUICE_USE_WRITE_ALL : SLUICE_USE_READ),
		};

		rc = tile_launch(t, &backward_kernel, &args, uses, layer ? 7 : 6);
	}
	if (!rc)
		rc = layer_discard(t, ARRAY_OUTPUTS, layer, BATCH);
	if (!rc)
		rc = layer_discard(t, ARRAY_DELTAS, slot, BATCH);
	return rc;
}

static int
layer_update(struct train *t, uint64_t layer)
{
	struct train_args args = layer_args(t, layer);
	int rc = 0;

	for (; !rc && args.first < t->total; args.first += args.n) {
		args.n = kernel_min(t->tile, t->total - args.first);

		struct span same = span_around(&args, 0, args.n, 0);
		struct sluice_use uses[] = {
			layer_use(t, ARRAY_WEIGHTS, layer, TAPS, same, SLUICE_USE_READ_WRITE),
			layer_use(t, ARRAY_GRADIENTS, layer, TAPS, same, SLUICE_USE_READ),
		};

		rc = tile_launch(t, &update_kernel, &args, uses, 2);
	}
	return rc ? rc : layer_discard(t, ARRAY_GRADIENTS, layer, TAPS);
}

static int
step(struct train *t)
{
	int rc = 0;

	for (uint64_t layer = 0; !rc && layer < t->layers; layer++)
		rc = layer_forward(t, layer);
	if (!rc)
		rc = loss(t);
	for (uint64_t layer = t->layers; !rc && layer-- > 0;)
		rc = layer_backward(t, layer);
	for (uint64_t layer = 0; !rc && layer < t->layers; layer++)
		rc = layer_update(t, layer);
	return rc;
}

static int
train_run(struct workload_env *env)
{
	uint64_t unit = unit_positions(env->config.chunk_bytes);
	struct train t = {.env = env, .layers = env->plan.rows, .total = env->plan.cols};
	uint64_t steps = env->params->option[OPTION_ITERATIONS], tiles;
	int rc = 0;

	t.tile = workload_tile_elements(env, TILE_ARRAYS, BATCH * sizeof(float)) / BATCH /
		 unit * unit;
	if (!t.tile)
		t.tile = unit;
	tiles = (t.total + t.tile - 1) / t.tile;
	t.launches = steps * tiles * (3 * t.layers + 1);
	for (uint64_t k = 0; !rc && k < steps; k++)
		rc = step(&t);
	return rc ? rc : workload_wait(env);
}

/* What moves depends on the order in which layers come and go: no closed form. */
static void
train_expect(const struct workload_env *env, struct workload_expectation *out)
{
	(void)env;
	out->known = 0;
}

/* ---- the reference: everything in memory, one value at a time ---- */

struct reference {
	uint64_t n, layers;
	float *x, *w, *y, *d, *below, *g; /* y: the input, then what each layer gives */
};

static float
value(const float *layer, uint64_t n, uint64_t i, uint64_t offset, unsigned k)
{
	if (i + offset < 1 || i + offset - 1 >= n)
		return 0.0f;
	return layer[(i + offset - 1) * BATCH + k];
}

static float
magnitude(float v)
{
	return v < 0.0f ? -v : v;
}

static void
reference_forward(const struct reference *r, uint64_t layer)
{
	const float *from = r->y + layer * r->n * BATCH, *w = r->w + layer * r->n * TAPS;
	float *to = r->y + (layer + 1) * r->n * BATCH;

	for (uint64_t i = 0; i < r->n; i++) {
		for (unsigned k = 0; k < BATCH; k++) {
			float sum = w[i * TAPS] * value(from, r->n, i, 0, k) +
				    w[i * TAPS + 1] * value(from, r->n, i, 1, k) +
				    w[i * TAPS + 2] * value(from, r->n, i, 2, k) +
				    w[i * TAPS + 3];

			to[i * BATCH + k] = sum / (1.0f + magnitude(sum));
		}
	}
}

/* From d, the gradient of what the layer gives, to that of what it is given, and of its weights. */
static void
reference_backward(const struct reference *r, uint64_t layer)
{
	const float *from = r->y + layer * r->n * BATCH, *to = from + r->n * BATCH;
	const float *w = r->w + layer * r->n * TAPS;
	float *g = r->g + layer * r->n * TAPS;

	for (uint64_t i = 0; i < r->n * BATCH; i++) {
		float slope = 1.0f - magnitude(to[i]);

		r->d[i] = r->d[i] * (slope * slope);
	}
	for (uint64_t i = 0; i < r->n; i++) {
		for (unsigned tap = 0; tap < TAPS; tap++) {
			float sum = 0.0f;

			for (unsigned k = 0; k < BATCH; k++)
				sum = sum + r->d[i * BATCH + k] *
						    (tap < 3 ? value(from, r->n, i, tap, k)
							     : 1.0f);
			g[i * TAPS + tap] = sum;
		}
		for (unsigned k = 0; k < BATCH; k++)
			r->below[i * BATCH + k] = (i > 0 ? w[(i - 1) * TAPS + 2] : 0.0f) *
							  value(r->d, r->n, i, 0, k) +
						  w[i * TAPS + 1] *
							  value(r->d, r->n, i, 1, k) +
						  (i + 1 < r->n ? w[(i + 1) * TAPS] : 0.0f) *
							  value(r->d, r->n, i, 2, k);
	}
}

static void
reference_step(struct reference *r)
{
	const float *last = r->y + r->layers * r->n * BATCH;

	for (uint64_t layer = 0; layer < r->layers; layer++)
		reference_forward(r, layer);
	for (uint64_t i = 0; i < r->n * BATCH; i++)
		r->d[i] = last[i] - r->y[i];
	for (uint64_t layer = r->layers; layer-- > 0;) {
		float *done = r->d;

		reference_backward(r, layer);
		r->d = r->below;
		r->below = done;
	}
	for (uint64_t i = 0; i < r->layers * r->n * TAPS; i++)
		r->w[i] = r->w[i] - RATE * r->g[i];
}

static int
reference_train(struct workload_env *env, void *memory)
{
	struct reference r = {.n = env->plan.cols, .layers = env->plan.rows};
	uint64_t steps = env->params->option[OPTION_ITERATIONS];
	uint64_t weights = r.layers * r.n * TAPS;
	int rc;

	r.y = memory;
	r.d = r.y + (r.layers + 1) * r.n * BATCH;
	r.below = r.d + r.n * BATCH;
	r.w = r.below + r.n * BATCH;
	r.g = r.w + weights;
	rc = workload_input_read(env, ARRAY_INPUT, 0, r.n * BATCH, r.y);
	if (!rc)
		rc = workload_input_read(env, ARRAY_WEIGHTS, 0, weights, r.w);
	for (uint64_t k = 0; !rc && k < steps; k++) {
		reference_step(&r);
		rc = workload_progress(env, "verify", (double)(k + 1) / (double)steps);
	}
	return rc ? rc
		  : workload_output_compare(env, ARRAY_WEIGHTS, WORKLOAD_F32, 0, weights,
					    r.w);
}

static int
train_reference(struct workload_env *env)
{
	uint64_t n = env->plan.cols, layers = env->plan.rows;

	return workload_reference_run(env,
				      ((layers + 3) * n * BATCH + 2 * layers * n * TAPS) *
					      sizeof(float),
				      reference_train);
}

static const struct workload_ops train_ops = {
	.plan = train_plan,
	.fill = train_fill,
	.run = train_run,
	.expect = train_expect,
	.reference = train_reference,
};

static const struct workload_kernel *const train_kernels[] = {
	&forward_kernel, &loss_kernel, &backward_kernel, &update_kernel, NULL,
};

const struct workload workload_train = {
	.name = "train",
	.text = "steps of training a small network: outputs and gradients come and go",
	.tiled = 1,
	.options = train_options,
	.n_options = sizeof(train_options) / sizeof(train_options[0]),
	.ops = &train_ops,
	.kernels = train_kernels,
};
