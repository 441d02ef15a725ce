/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network: operations as launches. Forward a convolution lays out its windows in the workspace, a
 * group of images at a time, and multiplies them with the weights; backward it lays them out again
 * for the gradient of the weights, and multiplies the gradient of what it gave with the weights for
 * that of the windows, from which the gradient of what it was given is gathered. What goes over
 * rows alone (activations, normalising, sums down columns) is cut into tiles of whole groups of
 * sums.
 *
 * What is dead is discarded as soon as its last launch is called: the workspace behind each
 * convolution, an operation's output and gradient behind its backward launches, a gradient of
 * weights behind the update. Outputs, gradients and gradients of weights are used up from one end:
 * discards grow by whole chunks.
 *
 * Threads: that of workload_run().
 */
#include "network.h"

#include "partition.h"

#define ROWS_PART 4u

/* ---- places ---- */

static float *
base(const struct network_run *run, unsigned array)
{
	return run->env->base[array];
}

/* Numbers of one image of what an operation gives; of what it is given. */
static uint64_t
out_numbers(const struct network_op *op)
{
	return (uint64_t)op->oh * op->ow * op->oc;
}

static uint64_t
in_numbers(const struct network_op *op)
{
	return (uint64_t)op->h * op->w * op->c;
}

/* A piece of an array, as a pointer and as a use. */
struct piece {
	float *at;
	struct sluice_use use;
};

static struct piece
piece(const struct network_run *run, unsigned array, uint64_t first, uint64_t n,
      enum sluice_intent intent)
{
	return (struct piece){base(run, array) + first,
			      workload_use(run->env, array, first, n, intent)};
}

/* Numbers [first, first + n) of what an operation gives, and of its gradient. */
static struct piece
output(const struct network_run *run, const struct network_op *op, uint64_t first,
       uint64_t n, enum sluice_intent intent)
{
	return piece(run, NETWORK_ARRAY_OUTPUTS, op->out + first, n, intent);
}

static struct piece
delta(const struct network_run *run, const struct network_op *op, uint64_t first,
      uint64_t n, enum sluice_intent intent)
{
	return piece(run, NETWORK_ARRAY_DELTAS, op->delta + first, n, intent);
}

/* Of what an operation is given, on one of its sides. */
static struct piece
input(const struct network_run *run, const struct network_op *op, unsigned side,
      uint64_t first, uint64_t n)
{
	const struct network_shape *shape = &run->net->shape;
	uint64_t per_batch = network_array_numbers(run->net, NETWORK_ARRAY_SAMPLES) /
			     network_batches(shape);
	uint64_t batch = run->step % network_batches(shape);
	int32_t in = op->in[side];

	if (in >= 0)
		return output(run, &run->net->op[in], first, n, SLUICE_USE_READ);
	return piece(run, NETWORK_ARRAY_SAMPLES,
		     batch * per_batch +
			     (uint64_t)(-1 - in) * shape->batch * run->net->sample + first,
		     n, SLUICE_USE_READ);
}

/* The gradient of that, to be written or added to. */
static struct piece
input_delta(const struct network_run *run, const struct network_op *op, unsigned side,
	    uint64_t first, uint64_t n)
{
	return delta(run, &run->net->op[op->in[side]], first, n,
		     op->adds[side] ? SLUICE_USE_READ_WRITE : SLUICE_USE_WRITE_ALL);
}

/* ---- launching ---- */

/* Every pointer names something that the launch uses. */
static struct network_args
args_make(float *out, uint64_t rows, uint32_t cols)
{
	return (struct network_args){.x = out,
				     .y = out,
				     .d = out,
				     .w = out,
				     .s = out,
				     .g = out,
				     .out = out,
				     .part = out,
				     .rows = rows,
				     .cols = cols};
}

static int
launch(struct network_run *run, const struct workload_kernel *kernel, const void *args,
       const struct sluice_use *uses, unsigned n_uses)
{
	int rc = workload_launch(run->env, kernel, args, uses, n_uses);

	return rc ? rc : workload_tile_done(run->env, run->done, run->total);
}

/* C = op(A) op(B): m x n, over k products. */
static int
multiply(struct network_run *run, struct piece a, int a_turned, struct piece b,
	 int b_turned, struct piece c, uint64_t m, uint64_t n, uint64_t k)
{
	struct network_gemm_args args = {
		.a = a.at,
		.b = b.at,
		.c = c.at,
		.m = (uint32_t)m,
		.n = (uint32_t)n,
		.k = (uint32_t)k,
		.lda = (uint32_t)(a_turned ? m : k),
		.ldb = (uint32_t)(b_turned ? k : n),
		.ldc = (uint32_t)n,
		.a_turned = (uint32_t)a_turned,
		.b_turned = (uint32_t)b_turned,
		.adds = c.use.intent == SLUICE_USE_READ_WRITE,
	};
	struct sluice_use uses[] = {a.use, b.use, c.use};

	return launch(run, &network_gemm_kernel, &args, uses, 3);
}

/* Rows of a tile of a tensor of cols columns: whole groups of sums. Launches over rows use up to
 * four tensors: a part of what others use of one. */
static uint64_t
tile_rows(const struct network_run *run, uint32_t cols)
{
	uint64_t rows = run->net->shape.group_bytes / ROWS_PART / 4 / cols /
			NETWORK_SUM_ROWS * NETWORK_SUM_ROWS;

	return rows ? rows : NETWORK_SUM_ROWS;
}

static uint64_t
op_rows(const struct network_run *run, const struct network_op *op)
{
	return (uint64_t)run->net->shape.batch * op->oh * op->ow;
}

/* ---- discarding ---- */

static int
workspace_discard(struct network_run *run)
{
	return partition_array_discard(run->env, NETWORK_ARRAY_WORKSPACE, 0,
				       network_array_numbers(run->net, NETWORK_ARRAY_WORKSPACE),
				       run->discard);
}

static uint64_t
chunk_numbers(const struct network_run *run)
{
	return workload_chunk_bytes(run->env) / 4;
}

/* Numbers [0, end) of an array are dead; *dead: what was so before. */
static int
front_discard(struct network_run *run, unsigned array, uint64_t end, uint64_t *dead)
{
	uint64_t all = network_array_numbers(run->net, array), from = *dead;

	if (end < all)
		end = end / chunk_numbers(run) * chunk_numbers(run);
	if (end <= from)
		return 0;
	*dead = end;
	return partition_array_discard(run->env, array, from, end - from, run->discard);
}

/* Numbers from first on are dead; *live: how many were not, before. */
static int
back_discard(struct network_run *run, unsigned array, uint64_t first, uint64_t *live)
{
	uint64_t to = *live;

	first = (first + chunk_numbers(run) - 1) / chunk_numbers(run) * chunk_numbers(run);
	if (first >= to)
		return 0;
	*live = first;
	return partition_array_discard(run->env, array, first, to - first, run->discard);
}

static int
op_discard(struct network_run *run, const struct network_op *op)
{
	uint64_t all = network_array_numbers(run->net, NETWORK_ARRAY_DELTAS);
	int rc = back_discard(run, NETWORK_ARRAY_OUTPUTS, op->out, &run->outputs_live);

	/* The first operation's gradient is the last. */
	return rc ? rc
		  : front_discard(run, NETWORK_ARRAY_DELTAS,
				  op->out ? op->delta + out_numbers(op) * run->net->shape.batch
					  : all,
				  &run->deltas_dead);
}

/* ---- sums down columns ---- */

static struct piece
partials(const struct network_run *run, uint64_t first, uint64_t n, enum sluice_intent intent)
{
	return piece(run, NETWORK_ARRAY_SUMS, run->net->moments + run->net->sums + first,
		     n, intent);
}

static struct piece
moments(const struct network_run *run, const struct network_op *op, enum sluice_intent intent)
{
	return piece(run, NETWORK_ARRAY_SUMS, op->moments, 2 * op->oc, intent);
}

/* Sums of groups of rows of an operation's tensor to the partial sums, by mode. */
static int
groups_add(struct network_run *run, const struct network_op *op, enum network_sum mode)
{
	uint64_t all = op_rows(run, op), tile = tile_rows(run, op->oc);
	uint32_t kinds = mode == NETWORK_SUM_BIAS ? 1 : 2;
	int rc = 0;

	for (uint64_t row = 0; !rc && row < all; row += tile) {
		uint64_t rows = kernel_min(tile, all - row), at = row * op->oc,
			 n = rows * op->oc;
		uint64_t sums = workload_blocks(rows, NETWORK_SUM_ROWS) * kinds * op->oc;
		struct piece part = partials(run, row / NETWORK_SUM_ROWS * kinds * op->oc,
					     sums, SLUICE_USE_WRITE_ALL);
		struct network_args args = args_make(part.at, rows, op->oc);
		struct sluice_use uses[5] = {part.use};
		unsigned n_uses = 1;

		args.mode = mode;
		args.act = op->act;
		args.all = all;
		if (mode != NETWORK_SUM_BIAS) {
			struct piece x = input(run, op, 0, at, n);

			args.x = x.at;
			uses[n_uses++] = x.use;
		}
		if (mode != NETWORK_SUM_MOMENTS) {
			struct piece y = output(run, op, at, n, SLUICE_USE_READ);
			struct piece d = delta(run, op, at, n,
					       mode == NETWORK_SUM_BIAS ? SLUICE_USE_READ_WRITE
									: SLUICE_USE_READ);

			args.y = y.at;
			args.d = d.at;
			uses[n_uses++] = y.use;
			uses[n_uses++] = d.use;
			if (mode == NETWORK_SUM_BIAS)
				args.out = d.at;
		}
		if (mode == NETWORK_SUM_NORM) {
			struct piece s = moments(run, op, SLUICE_USE_READ);

			args.s = s.at;
			uses[n_uses++] = s.use;
		}
		rc = launch(run, &network_sums_kernel, &args, uses, n_uses);
	}
	return rc;
}

/* The sums of groups added up, cols columns, by one of two kernels, into a piece. */
static int
groups_reduce(struct network_run *run, const struct network_op *op,
	      const struct workload_kernel *kernel, uint32_t cols, uint32_t width,
	      struct piece out)
{
	uint64_t all = op_rows(run, op), groups = workload_blocks(all, NETWORK_SUM_ROWS);
	struct piece part = partials(run, 0, groups * width, SLUICE_USE_READ);
	struct network_args args = args_make(out.at, all, cols);
	struct sluice_use uses[] = {part.use, out.use};

	args.part = part.at;
	args.all = groups;
	args.mode = out.use.intent == SLUICE_USE_READ_WRITE ? NETWORK_ADD_TO : NETWORK_COPY;
	return launch(run, kernel, &args, uses, 2);
}

/* ---- convolutions, connected layers, cells ---- */

static int
conv_has_window(const struct network_op *op)
{
	return op->kind == NETWORK_CONV && (op->k > 1 || op->stride > 1);
}

static uint64_t
conv_width(const struct network_op *op)
{
	return op->kind == NETWORK_CONV ? (uint64_t)op->k * op->k * op->c : op->c;
}

static void
window_set(struct network_args *args, const struct network_op *op)
{
	args->h = op->h;
	args->w_pixels = op->w;
	args->c = op->c;
	args->oh = op->oh;
	args->ow = op->ow;
	args->k = op->k;
	args->stride = op->stride;
	args->pad = op->pad;
}

static struct piece
workspace(const struct network_run *run, uint64_t n, enum sluice_intent intent)
{
	return piece(run, NETWORK_ARRAY_WORKSPACE, 0, n, intent);
}

/* Images [image, image + n) as rows of windows: in the workspace, or as they are. */
static int
windows_make(struct network_run *run, const struct network_op *op, uint64_t image,
	     uint64_t n, struct piece *out)
{
	struct piece x = input(run, op, 0, image * in_numbers(op), n * in_numbers(op));
	uint64_t rows = n * op->oh * op->ow;
	struct piece ws = workspace(run, rows * conv_width(op), SLUICE_USE_WRITE_ALL);
	struct network_args args = args_make(ws.at, rows, (uint32_t)conv_width(op));
	struct sluice_use uses[] = {x.use, ws.use};
	int rc;

	*out = x;
	if (!conv_has_window(op))
		return 0;
	window_set(&args, op);
	args.x = x.at;
	rc = launch(run, &network_window_kernel, &args, uses, 2);
	ws.use.intent = SLUICE_USE_READ;
	*out = ws;
	return rc;
}

static struct piece
weights(const struct network_run *run, uint64_t first, uint64_t n)
{
	return piece(run, NETWORK_ARRAY_WEIGHTS, first, n, SLUICE_USE_READ);
}

static struct piece
gradient(const struct network_run *run, uint64_t first, uint64_t n, int adds)
{
	return piece(run, NETWORK_ARRAY_GRADIENTS, first, n,
		     adds ? SLUICE_USE_READ_WRITE : SLUICE_USE_WRITE_ALL);
}

static int
activate(struct network_run *run, const struct network_op *op, struct piece y, uint64_t rows)
{
	struct piece shift = weights(run, op->shift, op->oc);
	struct network_args args = args_make(y.at, rows, op->oc);
	struct sluice_use uses[] = {y.use, shift.use};

	uses[0].intent = SLUICE_USE_READ_WRITE;
	args.w = shift.at;
	args.act = op->act;
	return launch(run, &network_activate_kernel, &args, uses, 2);
}

static int
product_forward(struct network_run *run, const struct network_op *op)
{
	uint64_t width = conv_width(op), batch = run->net->shape.batch;
	struct piece w = weights(run, op->weights, width * op->oc);
	int rc = 0;

	for (uint64_t image = 0; !rc && image < batch; image += op->group) {
		uint64_t n = kernel_min(op->group, batch - image),
			 rows = n * op->oh * op->ow;
		struct piece y = output(run, op, image * out_numbers(op),
					n * out_numbers(op), SLUICE_USE_WRITE_ALL);
		struct piece a;

		rc = windows_make(run, op, image, n, &a);
		if (!rc)
			rc = multiply(run, a, 0, w, 0, y, rows, op->oc, width);
		if (!rc && op->kind == NETWORK_CELL && op->in[1] >= 0) {
			struct piece before = input(run, op, 1, image * op->oc, n * op->oc);
			struct piece back = weights(run, op->back, (uint64_t)op->oc * op->oc);

			y.use.intent = SLUICE_USE_READ_WRITE;
			rc = multiply(run, before, 0, back, 0, y, rows, op->oc, op->oc);
		}
		if (!rc && (op->bias || op->kind == NETWORK_CELL))
			rc = activate(run, op, y, rows);
	}
	return rc || !conv_has_window(op) ? rc : workspace_discard(run);
}

/* The gradient of what a group of images was given, from d, that of what it gave. */
static int
windows_back(struct network_run *run, const struct network_op *op, uint64_t image,
	     uint64_t n, struct piece d)
{
	uint64_t rows = n * op->oh * op->ow, width = conv_width(op);
	struct piece dx = input_delta(run, op, 0, image * in_numbers(op), n * in_numbers(op));
	struct piece w = weights(run, op->weights, width * op->oc);
	struct piece ws = workspace(run, rows * width, SLUICE_USE_WRITE_ALL);
	struct network_args args = args_make(dx.at, n * op->h * op->w, op->c);
	struct sluice_use uses[] = {ws.use, dx.use};
	int rc;

	if (!conv_has_window(op))
		return multiply(run, d, 0, w, 1, dx, rows, width, op->oc);
	rc = multiply(run, d, 0, w, 1, ws, rows, width, op->oc);
	if (rc)
		return rc;
	window_set(&args, op);
	args.x = ws.at;
	args.mode = op->adds[0] ? NETWORK_ADD_TO : NETWORK_COPY;
	uses[0].intent = SLUICE_USE_READ;
	return launch(run, &network_window_back_kernel, &args, uses, 2);
}

/* What a cell owes to the step before: the gradients of its weights for that, and of its output. */
static int
before_back(struct network_run *run, const struct network_op *op, uint64_t image,
	    uint64_t n, struct piece d)
{
	uint64_t all = (uint64_t)op->oc * op->oc;
	struct piece before = input(run, op, 1, image * op->oc, n * op->oc);
	struct piece dx = input_delta(run, op, 1, image * op->oc, n * op->oc);
	int rc = multiply(run, before, 1, d, 0,
			  gradient(run, op->back, all, op->adds_back || image > 0),
			  op->oc, op->oc, n);

	return rc ? rc
		  : multiply(run, d, 0, weights(run, op->back, all), 1, dx, n, op->oc,
			     op->oc);
}

static int
product_back(struct network_run *run, const struct network_op *op)
{
	uint64_t width = conv_width(op), batch = run->net->shape.batch;
	int rc = 0;

	if (op->bias || op->kind == NETWORK_CELL) {
		rc = groups_add(run, op, NETWORK_SUM_BIAS);
		if (!rc)
			rc = groups_reduce(run, op, &network_reduce_kernel, op->oc, op->oc,
					   gradient(run, op->shift, op->oc, op->adds_weights));
	}
	for (uint64_t image = 0; !rc && image < batch; image += op->group) {
		uint64_t n = kernel_min(op->group, batch - image),
			 rows = n * op->oh * op->ow;
		struct piece d = delta(run, op, image * out_numbers(op),
				       n * out_numbers(op), SLUICE_USE_READ);
		struct piece a;

		rc = windows_make(run, op, image, n, &a);
		if (!rc)
			rc = multiply(run, a, 1, d, 0,
				      gradient(run, op->weights, width * op->oc,
					       op->adds_weights || image > 0),
				      width, op->oc, rows);
		if (!rc && op->in[0] >= 0)
			rc = windows_back(run, op, image, n, d);
		if (!rc && op->kind == NETWORK_CELL && op->in[1] >= 0)
			rc = before_back(run, op, image, n, d);
	}
	return rc || !conv_has_window(op) ? rc : workspace_discard(run);
}

/* ---- normalising ---- */

static int
norm_forward(struct network_run *run, const struct network_op *op)
{
	uint64_t all = op_rows(run, op), tile = tile_rows(run, op->oc);
	int rc = groups_add(run, op, NETWORK_SUM_MOMENTS);

	if (!rc)
		rc = groups_reduce(run, op, &network_moments_kernel, op->oc, 2 * op->oc,
				   moments(run, op, SLUICE_USE_WRITE_ALL));
	for (uint64_t row = 0; !rc && row < all; row += tile) {
		uint64_t rows = kernel_min(tile, all - row), at = row * op->oc,
			 n = rows * op->oc;
		struct piece x = input(run, op, 0, at, n);
		struct piece y = output(run, op, at, n, SLUICE_USE_WRITE_ALL);
		struct piece w = weights(run, op->shift, 2 * op->oc);
		struct piece s = moments(run, op, SLUICE_USE_READ);
		struct network_args args = args_make(y.at, rows, op->oc);
		struct sluice_use uses[] = {x.use, y.use, w.use, s.use};

		args.x = x.at;
		args.w = w.at;
		args.s = s.at;
		args.act = op->act;
		rc = launch(run, &network_norm_kernel, &args, uses, 4);
	}
	return rc;
}

static int
norm_back(struct network_run *run, const struct network_op *op)
{
	uint64_t all = op_rows(run, op), tile = tile_rows(run, op->oc);
	int rc = groups_add(run, op, NETWORK_SUM_NORM);

	if (!rc)
		rc = groups_reduce(run, op, &network_reduce_kernel, 2 * op->oc,
				   2 * op->oc, gradient(run, op->shift, 2 * op->oc, 0));
	for (uint64_t row = 0; !rc && row < all; row += tile) {
		uint64_t rows = kernel_min(tile, all - row), at = row * op->oc,
			 n = rows * op->oc;
		struct piece x = input(run, op, 0, at, n);
		struct piece y = output(run, op, at, n, SLUICE_USE_READ);
		struct piece d = delta(run, op, at, n, SLUICE_USE_READ);
		struct piece w = weights(run, op->shift, 2 * op->oc);
		struct piece s = moments(run, op, SLUICE_USE_READ);
		struct piece g = piece(run, NETWORK_ARRAY_GRADIENTS, op->shift,
				       2 * op->oc, SLUICE_USE_READ);
		struct piece dx = input_delta(run, op, 0, at, n);
		struct network_args args = args_make(dx.at, rows, op->oc);
		struct sluice_use uses[] = {x.use, y.use, d.use, w.use,
					    s.use, g.use, dx.use};

		args.x = x.at;
		args.y = y.at;
		args.d = d.at;
		args.w = w.at;
		args.s = s.at;
		args.g = g.at;
		args.act = op->act;
		args.all = all;
		rc = launch(run, &network_norm_back_kernel, &args, uses, 7);
	}
	return rc;
}

/* ---- pooling and sums ---- */

/* Windows do not overlap, and go over whole images. */
static int
pool(struct network_run *run, const struct network_op *op, int back)
{
	const struct workload_kernel *kernel;
	uint64_t batch = run->net->shape.batch, in = in_numbers(op), out = out_numbers(op);
	int rc = 0;

	if (op->kind == NETWORK_MAX)
		kernel = back ? &network_pool_back_kernel : &network_pool_kernel;
	else
		kernel = back ? &network_average_back_kernel : &network_average_kernel;
	for (uint64_t image = 0; !rc && image < batch; image += op->group) {
		uint64_t n = kernel_min(op->group, batch - image);
		struct piece x = input(run, op, 0, image * in, n * in);
		struct piece y = output(run, op, image * out, n * out,
					back ? SLUICE_USE_READ : SLUICE_USE_WRITE_ALL);
		struct network_args args = args_make(y.at, n * out / op->c, op->c);
		struct sluice_use uses[4] = {x.use, y.use};

		window_set(&args, op);
		args.oh = op->kind == NETWORK_MAX ? op->h / op->k : 1;
		args.ow = op->kind == NETWORK_MAX ? op->w / op->k : 1;
		args.x = x.at;
		if (back) {
			struct piece d = delta(run, op, image * out, n * out,
					       SLUICE_USE_READ);
			struct piece dx = input_delta(run, op, 0, image * in, n * in);

			args.d = d.at;
			args.out = dx.at;
			uses[2] = d.use;
			uses[3] = dx.use;
		}
		rc = launch(run, kernel, &args, uses, back ? 4 : 2);
	}
	return rc;
}

/* out = x, x + y, or out + x, number by number. */
static int
numbers_add(struct network_run *run, struct piece out, struct piece x, const struct piece *y)
{
	struct network_args args = args_make(out.at, out.use.size_bytes / 4, 1);
	struct sluice_use uses[3] = {out.use, x.use};

	args.x = x.at;
	args.mode = y                                         ? NETWORK_ADD_TWO
		    : out.use.intent == SLUICE_USE_READ_WRITE ? NETWORK_ADD_TO
							      : NETWORK_COPY;
	if (y) {
		args.y = y->at;
		uses[2] = y->use;
	}
	return launch(run, &network_add_kernel, &args, uses, y ? 3 : 2);
}

static int
sum(struct network_run *run, const struct network_op *op, int back)
{
	uint64_t batch = run->net->shape.batch, each = out_numbers(op);
	int rc = 0;

	for (uint64_t image = 0; !rc && image < batch; image += op->group) {
		uint64_t n = kernel_min(op->group, batch - image) * each, at = image * each;

		if (back) {
			struct piece d = delta(run, op, at, n, SLUICE_USE_READ);

			for (unsigned side = 0; !rc && side < 2; side++)
				rc = numbers_add(run, input_delta(run, op, side, at, n),
						 d, NULL);
		} else {
			struct piece y = input(run, op, 1, at, n);

			rc = numbers_add(run, output(run, op, at, n, SLUICE_USE_WRITE_ALL),
					 input(run, op, 0, at, n), &y);
		}
	}
	return rc;
}

/* ---- a step ---- */

static int
op_forward(struct network_run *run, const struct network_op *op)
{
	switch (op->kind) {
	case NETWORK_CONV:
	case NETWORK_CELL:
		return product_forward(run, op);
	case NETWORK_NORM:
		return norm_forward(run, op);
	case NETWORK_MAX:
	case NETWORK_AVERAGE:
		return pool(run, op, 0);
	case NETWORK_SUM:
		return sum(run, op, 0);
	}
	return 0;
}

static int
op_back(struct network_run *run, const struct network_op *op)
{
	switch (op->kind) {
	case NETWORK_CONV:
	case NETWORK_CELL:
		return product_back(run, op);
	case NETWORK_NORM:
		return norm_back(run, op);
	case NETWORK_MAX:
	case NETWORK_AVERAGE:
		return pool(run, op, 1);
	case NETWORK_SUM:
		return sum(run, op, 1);
	}
	return 0;
}

static int
loss(struct network_run *run)
{
	const struct network *net = run->net;
	const struct network_op *op = &net->op[net->n_ops - 1];
	uint64_t batch = net->shape.batch, n = batch * op->oc;
	uint64_t labels = run->step % network_batches(&net->shape) * batch;
	struct piece score = output(run, op, 0, n, SLUICE_USE_READ);
	struct piece d = delta(run, op, 0, n, SLUICE_USE_WRITE_ALL);
	struct piece label = piece(run, NETWORK_ARRAY_LABELS, labels, batch, SLUICE_USE_READ);
	struct piece losses = piece(run, NETWORK_ARRAY_LOSSES, run->step * batch, batch,
				    SLUICE_USE_WRITE_ALL);
	struct network_args args = args_make(d.at, batch, op->oc);
	struct sluice_use uses[] = {score.use, d.use, label.use, losses.use};

	args.x = score.at;
	args.y = label.at;
	args.part = losses.at;
	args.all = batch;
	return launch(run, &network_loss_kernel, &args, uses, 4);
}

/* Numbers [first, end) of the weights follow their gradients, which are dead then. */
static int
range_update(struct network_run *run, uint64_t first, uint64_t end)
{
	uint64_t tile = run->net->shape.group_bytes / 4;
	int rc = 0;

	for (uint64_t at = first; !rc && at < end; at += tile) {
		uint64_t n = kernel_min(tile, end - at);
		struct piece w = piece(run, NETWORK_ARRAY_WEIGHTS, at, n,
				       SLUICE_USE_READ_WRITE);
		struct piece g = piece(run, NETWORK_ARRAY_GRADIENTS, at, n, SLUICE_USE_READ);
		struct network_args args = args_make(w.at, n, 1);
		struct sluice_use uses[] = {w.use, g.use};

		args.g = g.at;
		args.rate = run->net->rate;
		rc = launch(run, &network_update_kernel, &args, uses, 2);
		if (!rc)
			rc = front_discard(run, NETWORK_ARRAY_GRADIENTS, at + n,
					   &run->gradients_dead);
	}
	return rc;
}

/* Gaps between operations' weights are left alone. */
static int
update(struct network_run *run)
{
	const struct network *net = run->net;
	int rc = 0;

	for (unsigned i = 0; !rc && i < net->n_params;) {
		uint64_t first = net->param[i].first, end = first + net->param[i].n;

		for (i++; i < net->n_params && net->param[i].first == end; i++)
			end += net->param[i].n;
		rc = range_update(run, first, end);
	}
	/* What is left is the last gap. */
	return rc ? rc
		  : front_discard(run, NETWORK_ARRAY_GRADIENTS, net->weights,
				  &run->gradients_dead);
}

int
network_step(struct network_run *run)
{
	const struct network *net = run->net;
	int rc = 0;

	run->outputs_live = net->outputs;
	run->deltas_dead = run->gradients_dead = 0;
	for (unsigned i = 0; !rc && i < net->n_ops; i++, run->done++)
		rc = op_forward(run, &net->op[i]);
	if (!rc)
		rc = loss(run);
	for (unsigned i = net->n_ops; !rc && i-- > 0; run->done++) {
		rc = op_back(run, &net->op[i]);
		if (!rc)
			rc = op_discard(run, &net->op[i]);
	}
	return rc ? rc : update(run);
}
