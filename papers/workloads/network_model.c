/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network: the shapes of the models, and where everything of them lies.
 *
 * VGG-16: thirteen convolutions of 3 x 3 with bias, five poolings, three fully connected layers.
 * Darknet-19: nineteen convolutions, of 3 x 3 and 1 x 1 by turns, each but the last normalised.
 * ResNet-53: fifty-two convolutions, most in pairs that are added to what they were given, and one
 * fully connected layer. RNN: three layers of plain recurrent cells over a sequence, of which the
 * last step is classified. Numbers of channels, edges of images and lengths of sequences can be
 * less than the published; classes are few, so that something is learnt within a few steps.
 *
 * Threads: pure functions of the shape.
 */
#include "network.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define PAGE_NUMBERS   1024u
#define IMAGE_CHANNELS 3u
#define IMAGE_SHRINKS  32u /* every model of images halves them five times */
#define RNN_LAYERS     3u
#define RNN_HIDDEN     1024u
#define RNN_SAMPLE     256u
#define SUMMAND        0.2f /* of what is added to what was given: sums do not grow */
#define VGG_CONNECTED  4096u
#define CHANNELS_LEAST 4u

const char *const network_model_names[NETWORK_MODEL_COUNT + 1] = {
	[NETWORK_VGG16] = "vgg16",
	[NETWORK_DARKNET19] = "darknet19",
	[NETWORK_RESNET53] = "resnet53",
	[NETWORK_RNN] = "rnn",
};

static uint64_t
pages_up(uint64_t numbers)
{
	return (numbers + PAGE_NUMBERS - 1) / PAGE_NUMBERS * PAGE_NUMBERS;
}

/* A number of channels, published ones times width, in fours. */
static uint32_t
channels(const struct network *net, uint32_t published)
{
	uint32_t n = (uint32_t)((uint64_t)published * net->shape.width / 100) /
		     CHANNELS_LEAST * CHANNELS_LEAST;

	return n < CHANNELS_LEAST ? CHANNELS_LEAST : n;
}

/* Pieces of one operation lie without a gap. */
static uint64_t
param_add(struct network *net, uint64_t n, float size, float value)
{
	uint64_t first = net->weights;

	if (net->n_params < NETWORK_PARAMS_MAX)
		net->param[net->n_params++] = (struct network_param){first, n, size, value};
	net->weights += n;
	return first;
}

/* The next piece begins at a page. */
static void
params_close(struct network *net)
{
	net->weights = pages_up(net->weights);
}

/* The next operation, on what `in` gives; by default it gives as much. */
static struct network_op *
op_add(struct network *net, enum network_kind kind, int32_t in)
{
	static struct network_op beyond;
	struct network_op *op = &beyond;

	if (net->n_ops < NETWORK_OPS_MAX)
		op = &net->op[net->n_ops];
	net->n_ops++; /* too many: network_make() sees it */
	*op = (struct network_op){.kind = kind, .in = {in, NETWORK_NOTHING}};
	if (in >= 0) {
		op->h = net->op[in].oh;
		op->w = net->op[in].ow;
		op->c = net->op[in].oc;
	} else {
		int is_image = net->shape.model != NETWORK_RNN;

		op->h = op->w = is_image ? net->shape.size : 1;
		op->c = is_image ? IMAGE_CHANNELS : net->sample;
	}
	op->oh = op->h;
	op->ow = op->w;
	op->oc = op->c;
	return op;
}

static int32_t
last(const struct network *net)
{
	return (int32_t)net->n_ops - 1;
}

/* For numbers whose sums of `in` products neither grow nor shrink; gain: 2 where half are cut off. */
static float
param_size(uint64_t in, float gain)
{
	return (float)sqrt(3.0 * (double)gain / (double)in);
}

static void
conv_add(struct network *net, int32_t in, uint32_t oc, uint32_t k, uint32_t stride,
	 enum network_act act, int bias)
{
	struct network_op *op = op_add(net, NETWORK_CONV, in);
	uint64_t width;

	op->k = k;
	op->stride = stride;
	op->pad = k / 2;
	op->oh = (op->h + stride - 1) / stride;
	op->ow = (op->w + stride - 1) / stride;
	op->oc = oc;
	op->act = act;
	op->bias = bias;
	width = (uint64_t)k * k * op->c;
	op->weights = param_add(net, width * oc,
				param_size(width, act == NETWORK_LINEAR && bias ? 1 : 2), 0);
	if (bias)
		op->shift = param_add(net, oc, 0, 0);
	params_close(net);
}

/* A convolution, normalised, its channels scaled by `scale` at first. */
static void
conv_norm_add(struct network *net, int32_t in, uint32_t oc, uint32_t k, uint32_t stride,
	      float scale)
{
	struct network_op *op;

	conv_add(net, in, oc, k, stride, NETWORK_LINEAR, 0);
	op = op_add(net, NETWORK_NORM, last(net));
	op->act = NETWORK_LEAKY;
	op->shift = param_add(net, oc, 0, 0);
	(void)param_add(net, oc, 0, scale);
	params_close(net);
	op->moments = net->moments;
	net->moments += pages_up(2 * oc);
}

static void
max_add(struct network *net)
{
	struct network_op *op = op_add(net, NETWORK_MAX, last(net));

	op->k = op->stride = 2;
	op->oh = op->h / 2;
	op->ow = op->w / 2;
}

static void
average_add(struct network *net)
{
	struct network_op *op = op_add(net, NETWORK_AVERAGE, last(net));

	op->oh = op->ow = 1;
}

static void
connected_add(struct network *net, uint32_t oc, enum network_act act)
{
	struct network_op *op;

	conv_add(net, last(net), oc, 1, 1, act, 1);
	op = &net->op[net->n_ops - 1];
	op->oh = op->ow = 1;
}

/* ---- models ---- */

static void
vgg16_make(struct network *net)
{
	static const uint32_t plan[] = {64, 64,  0,   128, 128, 0,   256, 256, 256,
					0,  512, 512, 512, 0,   512, 512, 512, 0};
	struct network_op *pooled;
	int32_t in = NETWORK_SAMPLE(0);

	for (unsigned i = 0; i < sizeof(plan) / sizeof(plan[0]); i++) {
		if (plan[i])
			conv_add(net, in, channels(net, plan[i]), 3, 1, NETWORK_RELU, 1);
		else
			max_add(net);
		in = last(net);
	}
	/* All that is left of an image is one position for what follows. */
	pooled = &net->op[in];
	pooled->oc *= pooled->oh * pooled->ow;
	pooled->oh = pooled->ow = 1;
	connected_add(net, channels(net, VGG_CONNECTED), NETWORK_RELU);
	connected_add(net, channels(net, VGG_CONNECTED), NETWORK_RELU);
	connected_add(net, net->classes, NETWORK_LINEAR);
	net->rate = 0.05f;
}

static void
darknet19_make(struct network *net)
{
	static const struct {
		uint32_t channels, k;
	} plan[] = {{32, 3},   {0, 0},   {64, 3},   {0, 0},   {128, 3}, {64, 1},
		    {128, 3},  {0, 0},   {256, 3},  {128, 1}, {256, 3}, {0, 0},
		    {512, 3},  {256, 1}, {512, 3},  {256, 1}, {512, 3}, {0, 0},
		    {1024, 3}, {512, 1}, {1024, 3}, {512, 1}, {1024, 3}};
	int32_t in = NETWORK_SAMPLE(0);

	for (unsigned i = 0; i < sizeof(plan) / sizeof(plan[0]); i++) {
		if (plan[i].k)
			conv_norm_add(net, in, channels(net, plan[i].channels), plan[i].k,
				      1, 1);
		else
			max_add(net);
		in = last(net);
	}
	conv_add(net, in, net->classes, 1, 1, NETWORK_LINEAR, 1);
	average_add(net);
	net->rate = 0.05f;
}

static void
resnet53_make(struct network *net)
{
	static const struct {
		uint32_t channels, pairs;
	} stage[] = {{64, 1}, {128, 2}, {256, 8}, {512, 8}, {1024, 4}};

	conv_norm_add(net, NETWORK_SAMPLE(0), channels(net, 32), 3, 1, 1);
	for (unsigned s = 0; s < sizeof(stage) / sizeof(stage[0]); s++) {
		conv_norm_add(net, last(net), channels(net, stage[s].channels), 3, 2, 1);
		for (unsigned pair = 0; pair < stage[s].pairs; pair++) {
			int32_t given = last(net);
			struct network_op *op;

			conv_norm_add(net, given, channels(net, stage[s].channels / 2), 1,
				      1, 1);
			conv_norm_add(net, last(net), channels(net, stage[s].channels), 3,
				      1, SUMMAND);
			op = op_add(net, NETWORK_SUM, last(net));
			op->in[1] = given;
		}
	}
	average_add(net);
	connected_add(net, net->classes, NETWORK_LINEAR);
	net->rate = 0.02f;
}

static void
rnn_make(struct network *net)
{
	uint32_t hidden = channels(net, RNN_HIDDEN);
	uint64_t weights[RNN_LAYERS], back[RNN_LAYERS], shift[RNN_LAYERS];
	int32_t before[RNN_LAYERS];

	for (uint32_t layer = 0; layer < RNN_LAYERS; layer++) {
		uint64_t in = layer ? hidden : net->sample;

		weights[layer] = param_add(net, in * hidden, param_size(in, 1), 0);
		back[layer] = param_add(net, (uint64_t)hidden * hidden,
					param_size(hidden, 0.5f), 0);
		shift[layer] = param_add(net, hidden, 0, 0);
		params_close(net);
		before[layer] = NETWORK_NOTHING;
	}
	for (uint32_t t = 0; t < net->shape.size; t++) {
		for (uint32_t layer = 0; layer < RNN_LAYERS; layer++) {
			struct network_op *op = op_add(net, NETWORK_CELL,
						       layer ? last(net) : NETWORK_SAMPLE(t));

			op->in[1] = before[layer];
			op->oc = hidden;
			op->act = NETWORK_TANH;
			op->weights = weights[layer];
			op->back = back[layer];
			op->shift = shift[layer];
			before[layer] = last(net);
		}
	}
	connected_add(net, net->classes, NETWORK_LINEAR);
	net->rate = 0.05f;
}

/* ---- places ---- */

static uint64_t
op_numbers(const struct network *net, const struct network_op *op)
{
	return (uint64_t)net->shape.batch * op->oh * op->ow * op->oc;
}

/* Whether the rows of a convolution's windows are the rows that it is given. */
static int
conv_is_plain(const struct network_op *op)
{
	return op->kind != NETWORK_CONV || (op->k == 1 && op->stride == 1);
}

static uint64_t
at_least_one(uint64_t a, uint64_t b)
{
	uint64_t n = b ? a / b : a;

	return n ? n : 1;
}

static void
op_place(struct network *net, struct network_op *op)
{
	uint64_t in = (uint64_t)op->h * op->w * op->c,
		 out = (uint64_t)op->oh * op->ow * op->oc;
	uint64_t window = conv_is_plain(op)
				  ? 0
				  : (uint64_t)op->oh * op->ow * op->k * op->k * op->c;
	uint64_t most = window > in + out ? window : in + out;
	uint64_t group = at_least_one(net->shape.group_bytes / 4, most);
	uint64_t sums = workload_blocks((uint64_t)net->shape.batch * op->oh * op->ow,
					NETWORK_SUM_ROWS);

	op->out = net->outputs;
	net->outputs += pages_up(op_numbers(net, op));
	op->group = (uint32_t)kernel_min(group, net->shape.batch);
	if (window * op->group > net->workspace)
		net->workspace = window * op->group;
	if (sums * 2 * op->oc > net->partials)
		net->partials = sums * 2 * op->oc;
	if (2 * op->oc > net->columns)
		net->columns = 2 * op->oc;
}

/* Backward, the first to give a gradient of something begins it, the others add to it. */
static void
sums_order(struct network *net)
{
	unsigned char begun[NETWORK_OPS_MAX] = {0};

	for (unsigned i = net->n_ops; i-- > 0;) {
		struct network_op *op = &net->op[i];

		op->delta = net->outputs - op->out - pages_up(op_numbers(net, op));
		for (unsigned side = 0; side < 2; side++) {
			if (op->in[side] < 0)
				continue;
			op->adds[side] = begun[op->in[side]];
			begun[op->in[side]] = 1;
		}
		for (unsigned later = i + 1;
		     op->kind == NETWORK_CELL && later < net->n_ops; later++) {
			const struct network_op *other = &net->op[later];

			if (other->kind != NETWORK_CELL || other->weights != op->weights)
				continue;
			op->adds_weights = 1;
			op->adds_back |= other->in[1] >= 0;
		}
	}
}

static int
shape_check(const struct network_shape *shape, char *error)
{
	if (shape->model != NETWORK_RNN && (shape->size % IMAGE_SHRINKS || !shape->size))
		return workload_plan_refuse(
			error,
			"network: images of %u pixels: the edge must be a "
			"multiple of %u, every model halves it five times",
			shape->size, IMAGE_SHRINKS);
	if (shape->model == NETWORK_RNN &&
	    (shape->size == 0 || shape->size * RNN_LAYERS >= NETWORK_OPS_MAX))
		return workload_plan_refuse(error, "network: sequences of %u steps: from 1 to %u",
					    shape->size, (NETWORK_OPS_MAX - 1) / RNN_LAYERS);
	return 0;
}

int
network_make(const struct network_shape *shape, struct network *net, char *error)
{
	static void (*const make[NETWORK_MODEL_COUNT])(struct network *) = {
		[NETWORK_VGG16] = vgg16_make,
		[NETWORK_DARKNET19] = darknet19_make,
		[NETWORK_RESNET53] = resnet53_make,
		[NETWORK_RNN] = rnn_make,
	};
	int rc = shape_check(shape, error);

	if (rc)
		return rc;
	memset(net, 0, sizeof(*net));
	net->shape = *shape;
	net->classes = NETWORK_CLASSES;
	net->sample = shape->model == NETWORK_RNN
			      ? channels(net, RNN_SAMPLE)
			      : shape->size * shape->size * IMAGE_CHANNELS;
	make[shape->model](net);
	if (net->n_ops > NETWORK_OPS_MAX || net->n_params == NETWORK_PARAMS_MAX)
		return workload_plan_refuse(error,
					    "network: %s has %u operations, more than %u",
					    network_model_names[shape->model], net->n_ops,
					    NETWORK_OPS_MAX);
	for (unsigned i = 0; i < net->n_ops; i++)
		op_place(net, &net->op[i]);
	sums_order(net);
	net->sums = pages_up(net->columns);
	return 0;
}

uint32_t
network_batches(const struct network_shape *shape)
{
	return shape->steps < NETWORK_BATCHES ? shape->steps : NETWORK_BATCHES;
}

uint64_t
network_array_numbers(const struct network *net, unsigned array)
{
	uint64_t samples = (uint64_t)net->shape.batch * network_batches(&net->shape);
	uint64_t steps = net->shape.model == NETWORK_RNN ? net->shape.size : 1;

	switch (array) {
	case NETWORK_ARRAY_SAMPLES:
		return samples * steps * net->sample;
	case NETWORK_ARRAY_LABELS:
		return samples;
	case NETWORK_ARRAY_LOSSES:
		return (uint64_t)net->shape.batch * net->shape.steps;
	case NETWORK_ARRAY_WEIGHTS:
	case NETWORK_ARRAY_GRADIENTS:
		return net->weights;
	case NETWORK_ARRAY_OUTPUTS:
	case NETWORK_ARRAY_DELTAS:
		return net->outputs;
	case NETWORK_ARRAY_WORKSPACE:
		return net->workspace ? net->workspace : PAGE_NUMBERS;
	case NETWORK_ARRAY_SUMS:
		return net->moments + net->sums + net->partials;
	}
	return 0;
}
