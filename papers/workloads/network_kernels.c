/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network: the kernels as loops of the software device, and what each touches. Their twins on a GPU
 * are in cuda/network.cuh. Sums down columns go row by row, group by group, in an order that does
 * not depend on how rows are shared among workers.
 *
 * Leaves products of matrices to network_blas.c.
 *
 * Threads: pieces of a launch run on any number of workers.
 */
#include "network.h"

#include <string.h>

#define SUM_CHANNELS 256u /* added up at a time */

/* What a piece touches of a pointer. */
enum {
	POINTER_X,
	POINTER_Y,
	POINTER_D,
	POINTER_W,
	POINTER_S,
	POINTER_G,
	POINTER_OUT,
	POINTER_PART,
	POINTERS
};

static uint64_t
rows_elements(const void *args)
{
	return ((const struct network_args *)args)->rows;
}

static uint64_t
cols_elements(const void *args)
{
	return ((const struct network_args *)args)->cols;
}

static struct workload_touch
reads(uint64_t first, uint64_t n)
{
	return (struct workload_touch){.first = first, .n = n, .read = 1};
}

static struct workload_touch
writes(uint64_t first, uint64_t n)
{
	return (struct workload_touch){.first = first, .n = n, .write = 1};
}

static struct workload_touch
changes(uint64_t first, uint64_t n)
{
	return (struct workload_touch){.first = first, .n = n, .read = 1, .write = 1};
}

static struct workload_touch
writes_or_adds(const struct network_args *a, uint64_t first, uint64_t n)
{
	return a->mode == NETWORK_ADD_TO ? changes(first, n) : writes(first, n);
}

static void
put(const struct network_args *a, uint64_t at, float v)
{
	a->out[at] = a->mode == NETWORK_ADD_TO ? a->out[at] + v : v;
}

/* ---- windows ---- */

/* A row of the window is whole runs of channels, or nothing. */
static void
window_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;
	uint64_t image_rows = (uint64_t)a->oh * a->ow;

	for (uint64_t row = begin; row < end; row++) {
		uint32_t oy = (uint32_t)(row / a->ow % a->oh), ox = (uint32_t)(row % a->ow);
		const float *from = a->x + row / image_rows * a->h * a->w_pixels * a->c;
		float *to = a->out + row * a->cols;

		for (uint32_t tap = 0; tap < a->k * a->k; tap++, to += a->c) {
			uint32_t y = oy * a->stride + tap / a->k - a->pad;
			uint32_t x = ox * a->stride + tap % a->k - a->pad;

			if (y < a->h && x < a->w_pixels)
				memcpy(to, from + ((uint64_t)y * a->w_pixels + x) * a->c,
				       a->c * sizeof(*to));
			else
				memset(to, 0, a->c * sizeof(*to));
		}
	}
}

/* Whole images: the ones that rows [begin, end) of per_image each are of. */
static struct workload_touch
images_read(uint64_t begin, uint64_t end, uint64_t per_image, uint64_t numbers)
{
	uint64_t first = begin / per_image, last = (end - 1) / per_image;

	return reads(first * numbers, (last - first + 1) * numbers);
}

static void
window_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;

	touch[POINTER_X] = images_read(begin, end, (uint64_t)a->oh * a->ow,
				       (uint64_t)a->h * a->w_pixels * a->c);
	touch[POINTER_OUT] = writes(begin * a->cols, (end - begin) * a->cols);
}

/*
 * Numbers of the window over row `from` that a position holds, where the window's tap is at it; NULL:
 * no window has that tap there. As network_window_back(), for all channels at once.
 */
static const float *
tap_back(const struct network_args *a, uint64_t row, uint32_t tap)
{
	uint32_t top = (uint32_t)(row / a->w_pixels % a->h) + a->pad - tap / a->k;
	uint32_t left = (uint32_t)(row % a->w_pixels) + a->pad - tap % a->k;
	uint64_t image = row / ((uint64_t)a->w_pixels * a->h), from;

	/* Above and left of the image these wrap around: what is left of them is too large. */
	if (top > INT32_MAX || left > INT32_MAX || top % a->stride || left % a->stride ||
	    top / a->stride >= a->oh || left / a->stride >= a->ow)
		return NULL;
	from = (image * a->oh + top / a->stride) * a->ow + left / a->stride;
	return a->x + (from * a->k * a->k + tap) * a->c;
}

static void
window_back_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;
	float sum[SUM_CHANNELS];

	for (uint64_t row = begin; row < end; row++) {
		for (uint32_t c0 = 0; c0 < a->c; c0 += SUM_CHANNELS) {
			uint32_t n = (uint32_t)kernel_min(SUM_CHANNELS, a->c - c0);

			memset(sum, 0, n * sizeof(sum[0]));
			for (uint32_t tap = 0; tap < a->k * a->k; tap++) {
				const float *from = tap_back(a, row, tap);

				for (uint32_t c = 0; from && c < n; c++)
					sum[c] = sum[c] + from[c0 + c];
			}
			for (uint32_t c = 0; c < n; c++)
				put(a, row * a->c + c0 + c, sum[c]);
		}
	}
}

static void
window_back_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;

	touch[POINTER_X] = images_read(begin, end, (uint64_t)a->h * a->w_pixels,
				       (uint64_t)a->oh * a->ow * a->k * a->k * a->c);
	touch[POINTER_OUT] = writes_or_adds(a, begin * a->c, (end - begin) * a->c);
}

/* ---- rows alone ---- */

static void
activate_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;

	for (uint64_t row = begin; row < end; row++) {
		float *y = a->out + row * a->cols;

		for (uint32_t c = 0; c < a->cols; c++)
			y[c] = network_activate(a->act, y[c] + a->w[c]);
	}
}

static void
activate_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;

	touch[POINTER_W] = reads(0, a->cols);
	touch[POINTER_OUT] = changes(begin * a->cols, (end - begin) * a->cols);
}

static void
norm_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;

	for (uint64_t row = begin; row < end; row++) {
		const float *x = a->x + row * a->cols;
		float *y = a->out + row * a->cols;

		for (uint32_t c = 0; c < a->cols; c++)
			y[c] = network_activate(a->act,
						network_normal(x[c], a->s, a->cols, c) *
								a->w[a->cols + c] +
							a->w[c]);
	}
}

static void
norm_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;

	touch[POINTER_X] = reads(begin * a->cols, (end - begin) * a->cols);
	touch[POINTER_W] = touch[POINTER_S] = reads(0, 2 * a->cols);
	touch[POINTER_OUT] = writes(begin * a->cols, (end - begin) * a->cols);
}

static void
norm_back_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;

	for (uint64_t row = begin; row < end; row++) {
		uint64_t at = row * a->cols;

		for (uint32_t c = 0; c < a->cols; c++)
			a->out[at + c] = network_normal_back(
				a->d[at + c] * network_slope(a->act, a->y[at + c]),
				network_normal(a->x[at + c], a->s, a->cols, c),
				a->w[a->cols + c], a->s[a->cols + c], a->g, a->cols, c,
				a->all);
	}
}

static void
norm_back_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;

	norm_touch(args, begin, end, touch);
	touch[POINTER_Y] = touch[POINTER_D] = touch[POINTER_X];
	touch[POINTER_G] = reads(0, 2 * a->cols);
}

static void
add_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;

	for (uint64_t i = begin; i < end; i++)
		put(a, i, a->mode == NETWORK_ADD_TWO ? a->x[i] + a->y[i] : a->x[i]);
}

static void
add_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;

	touch[POINTER_X] = reads(begin, end - begin);
	if (a->mode == NETWORK_ADD_TWO)
		touch[POINTER_Y] = touch[POINTER_X];
	touch[POINTER_OUT] = writes_or_adds(a, begin, end - begin);
}

static void
update_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;

	for (uint64_t i = begin; i < end; i++)
		a->out[i] = a->out[i] - a->rate * a->g[i];
}

static void
update_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	(void)args;
	touch[POINTER_G] = reads(begin, end - begin);
	touch[POINTER_OUT] = changes(begin, end - begin);
}

/* ---- sums down columns ---- */

static void
row_moments(const float *x, uint32_t cols, float *sum)
{
	for (uint32_t c = 0; c < cols; c++) {
		sum[c] = sum[c] + x[c];
		sum[cols + c] = sum[cols + c] + x[c] * x[c];
	}
}

static void
row_norm(const struct network_args *a, uint64_t at, float *sum)
{
	for (uint32_t c = 0; c < a->cols; c++) {
		float g = a->d[at + c] * network_slope(a->act, a->y[at + c]);
		float normal = network_normal(a->x[at + c], a->s, a->cols, c);

		sum[c] = sum[c] + g;
		sum[a->cols + c] = sum[a->cols + c] + g * normal;
	}
}

static void
row_bias(const struct network_args *a, uint64_t at, float *sum)
{
	for (uint32_t c = 0; c < a->cols; c++) {
		float g = a->d[at + c] * network_slope(a->act, a->y[at + c]);

		sum[c] = sum[c] + g;
		a->out[at + c] = g;
	}
}

/* A group is a piece: whole, but for the last. */
static void
sums_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;
	uint32_t kinds = a->mode == NETWORK_SUM_BIAS ? 1 : 2;
	float *sum = a->part + begin / NETWORK_SUM_ROWS * kinds * a->cols;

	memset(sum, 0, sizeof(*sum) * kinds * a->cols);
	for (uint64_t row = begin; row < end; row++) {
		switch ((enum network_sum)a->mode) {
		case NETWORK_SUM_MOMENTS:
			row_moments(a->x + row * a->cols, a->cols, sum);
			break;
		case NETWORK_SUM_NORM:
			row_norm(a, row * a->cols, sum);
			break;
		case NETWORK_SUM_BIAS:
			row_bias(a, row * a->cols, sum);
			break;
		}
	}
}

static void
sums_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;
	uint64_t first = begin * a->cols, n = (end - begin) * a->cols;
	uint64_t width = (uint64_t)(a->mode == NETWORK_SUM_BIAS ? 1 : 2) * a->cols;

	touch[POINTER_PART] = writes(begin / NETWORK_SUM_ROWS * width,
				     workload_blocks(end - begin, NETWORK_SUM_ROWS) * width);
	if (a->mode != NETWORK_SUM_BIAS)
		touch[POINTER_X] = reads(first, n);
	if (a->mode != NETWORK_SUM_MOMENTS)
		touch[POINTER_Y] = touch[POINTER_D] = reads(first, n);
	if (a->mode == NETWORK_SUM_BIAS)
		touch[POINTER_D] = touch[POINTER_OUT] = changes(first, n);
	if (a->mode == NETWORK_SUM_NORM)
		touch[POINTER_S] = reads(0, 2 * a->cols);
}

/* All groups' sums of a column; width: numbers of a group. */
static double
column_sum(const struct network_args *a, uint64_t width, uint64_t col)
{
	double sum = 0;

	for (uint64_t group = 0; group < a->all; group++)
		sum = sum + (double)a->part[group * width + col];
	return sum;
}

static void
reduce_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;

	for (uint64_t c = begin; c < end; c++)
		put(a, c, (float)column_sum(a, a->cols, c));
}

static void
reduce_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;

	touch[POINTER_PART] = reads(0, a->all * a->cols);
	touch[POINTER_OUT] = writes_or_adds(a, begin, end - begin);
}

static void
moments_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;

	for (uint64_t c = begin; c < end; c++) {
		double sum = column_sum(a, 2 * a->cols, c);
		double squares = column_sum(a, 2 * a->cols, a->cols + c);

		a->out[c] = network_mean(sum, a->rows);
		a->out[a->cols + c] = network_inverse(sum, squares, a->rows);
	}
}

static void
moments_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;

	touch[POINTER_PART] = reads(0, a->all * 2 * a->cols);
	touch[POINTER_OUT] = writes(begin, a->cols + end - begin);
}

/* ---- pooling ---- */

static void
pool_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;

	for (uint64_t row = begin; row < end; row++) {
		uint64_t first = network_pool_first(a, row, 0);

		for (uint32_t c = 0; c < a->c; c++)
			a->out[row * a->c + c] = network_pool(a, first + c);
	}
}

static void
pool_back_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;

	for (uint64_t row = begin; row < end; row++) {
		uint64_t first = network_pool_first(a, row, 0), at = row * a->c;

		for (uint32_t c = 0; c < a->c; c++)
			network_pool_back(a, first + c, a->y[at + c], a->d[at + c]);
	}
}

/* Numbers of the rows of images that rows [begin, end) of windows are in. */
static struct workload_touch
pooled(const struct network_args *a, uint64_t begin, uint64_t end)
{
	uint64_t first = network_pool_first(a, begin / a->ow * a->ow, 0);
	uint64_t last = network_pool_first(a, (end - 1) / a->ow * a->ow, 0) +
			(uint64_t)a->k * a->w_pixels * a->c;

	return reads(first, last - first);
}

static void
pool_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;

	touch[POINTER_X] = pooled(a, begin, end);
	touch[POINTER_OUT] = writes(begin * a->c, (end - begin) * a->c);
}

static void
pool_back_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;

	touch[POINTER_X] = touch[POINTER_OUT] = pooled(a, begin, end);
	touch[POINTER_OUT].read = 0;
	touch[POINTER_OUT].write = 1;
	touch[POINTER_Y] = touch[POINTER_D] = reads(begin * a->c, (end - begin) * a->c);
}

static void
average_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;

	for (uint64_t image = begin; image < end; image++)
		for (uint32_t c = 0; c < a->c; c++)
			a->out[image * a->c + c] = network_average(a, image, c);
}

static void
average_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;
	uint64_t in = (uint64_t)a->h * a->w_pixels * a->c;

	touch[POINTER_X] = reads(begin * in, (end - begin) * in);
	touch[POINTER_OUT] = writes(begin * a->c, (end - begin) * a->c);
}

static void
average_back_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;
	uint64_t n = (uint64_t)a->h * a->w_pixels;

	for (uint64_t row = begin * n; row < end * n; row++)
		for (uint32_t c = 0; c < a->c; c++)
			a->out[row * a->c + c] = a->d[row / n * a->c + c] / (float)n;
}

static void
average_back_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;
	uint64_t in = (uint64_t)a->h * a->w_pixels * a->c;

	touch[POINTER_D] = reads(begin * a->c, (end - begin) * a->c);
	touch[POINTER_OUT] = writes(begin * in, (end - begin) * in);
}

/* ---- the loss ---- */

static void
loss_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_args *a = args;

	for (uint64_t row = begin; row < end; row++)
		a->part[row] = network_loss(a->x + row * a->cols, a->cols,
					    kernel_bits(a->y[row]), a->all,
					    a->out + row * a->cols);
}

static void
loss_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_args *a = args;

	touch[POINTER_X] = reads(begin * a->cols, (end - begin) * a->cols);
	touch[POINTER_Y] = reads(begin, end - begin);
	touch[POINTER_OUT] = writes(begin * a->cols, (end - begin) * a->cols);
	touch[POINTER_PART] = writes(begin, end - begin);
}

/* ---- the table ---- */

#define NETWORK_KERNEL(what, of, soft, cuda)                      \
	const struct workload_kernel network_##what##_kernel = {  \
		.name = "workload_network_" #what,                \
		.soft_elements = (soft),                          \
		.cuda_elements = (cuda),                          \
		.args_bytes = sizeof(struct network_args),        \
		.n_pointers = POINTERS,                           \
		.pointer = {offsetof(struct network_args, x),     \
			    offsetof(struct network_args, y),     \
			    offsetof(struct network_args, d),     \
			    offsetof(struct network_args, w),     \
			    offsetof(struct network_args, s),     \
			    offsetof(struct network_args, g),     \
			    offsetof(struct network_args, out),   \
			    offsetof(struct network_args, part)}, \
		.elements = of##_elements,                        \
		.piece = what##_piece,                            \
		.touch = what##_touch,                            \
	}

#define SOFT_ROWS 256u

NETWORK_KERNEL(window, rows, SOFT_ROWS, NETWORK_ROWS);
NETWORK_KERNEL(window_back, rows, SOFT_ROWS, NETWORK_ROWS);
NETWORK_KERNEL(activate, rows, SOFT_ROWS, NETWORK_ROWS);
NETWORK_KERNEL(sums, rows, NETWORK_SUM_ROWS, NETWORK_SUM_ROWS);
NETWORK_KERNEL(reduce, cols, 1024u, NETWORK_COLUMNS);
NETWORK_KERNEL(moments, cols, 1024u, NETWORK_COLUMNS);
NETWORK_KERNEL(norm, rows, SOFT_ROWS, NETWORK_ROWS);
NETWORK_KERNEL(norm_back, rows, SOFT_ROWS, NETWORK_ROWS);
NETWORK_KERNEL(pool, rows, SOFT_ROWS, NETWORK_ROWS);
NETWORK_KERNEL(pool_back, rows, SOFT_ROWS, NETWORK_ROWS);
NETWORK_KERNEL(average, rows, 16u, 1u);
NETWORK_KERNEL(average_back, rows, 16u, 1u);
NETWORK_KERNEL(add, rows, WORKLOAD_BLOCK_ELEMENTS, KERNEL_CUDA_ELEMENTS);
NETWORK_KERNEL(loss, rows, SOFT_ROWS, KERNEL_CUDA_THREADS);
NETWORK_KERNEL(update, rows, WORKLOAD_BLOCK_ELEMENTS, KERNEL_CUDA_ELEMENTS);
