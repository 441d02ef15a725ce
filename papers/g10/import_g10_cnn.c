/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutional networks of the paper G10's inputs: from a graph of layers to the tensors
 * and launches of one training step: load the data, forward, loss, backward with the
 * weights' updates in between.
 *
 * Shapes first, in layer order (a scaling may take the size of a layer behind it and then
 * follows that one); then all tensors, layer by layer; then the launches. Tensors are
 * numbered in the order in which they are made here, which is the published loader's.
 * Elements have 4 bytes, sizes are rounded up to pages.
 *
 * Threads: no state.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "g10/import_g10.h"

#define NONE SL_G10_NONE

struct shape {
	uint32_t c, h, w;
};

/* Tensors of one layer; NONE: it has no such. */
struct layer_tensors {
	uint32_t output, d_input, mask;
	uint32_t weight, d_weight, bias, d_bias;
	uint32_t alpha_beta, d_alpha_beta;
	uint32_t mu, var, v1, v2, d_mu, d_var, d_v1, d_v2;
	uint32_t running_mean, running_var;
	uint32_t d_inputs[SL_G10_INPUTS_MAX]; /* concatenation: one for each input */
	uint32_t d_output; /* the gradient that its first consumer holds for it */
};

struct builder {
	const struct sl_g10_net *net;
	const char *label;
	uint32_t batch;
	struct shape input; /* of the network */
	struct sl_trace *trace;
	struct shape *in, *out; /* by layer */
	struct layer_tensors *tensors;
	uint32_t data; /* the tensor of the network's input */
	/* Who reads layer i: readers[reader_first[i] ... reader_first[i + 1] - 1],
	 * ascending. */
	uint32_t *reader_first, *readers;
};

static const char *
layer_word(enum sl_g10_layer_type type)
{
	switch (type) {
	case SL_G10_CONV:
		return "conv";
	case SL_G10_RELU:
		return "relu";
	case SL_G10_MAX_POOL:
		return "maxpool";
	case SL_G10_AVERAGE_POOL:
		return "avgpool";
	case SL_G10_LINEAR:
		return "linear";
	case SL_G10_DROPOUT:
		return "dropout";
	case SL_G10_BATCH_NORM:
		return "batchnorm";
	case SL_G10_ADD:
		return "add";
	case SL_G10_CONCAT:
		return "concat";
	case SL_G10_SCALE:
		return "scale";
	case SL_G10_LAYER_TYPE_COUNT:
		break;
	}
	return "?";
}

/* ---- shapes ---- */

static int
layer_fail(const struct builder *b, uint32_t i, const char *text)
{
	return sl_fail(-EINVAL, "%s: line %u: layer %u (%s): %s", b->label,
		       b->net->layers[i].line, i, layer_word(b->net->layers[i].type), text);
}

static int
shape_keep(const struct builder *b, uint32_t i, uint64_t c, uint64_t h, uint64_t w)
{
	if (c == 0 || h == 0 || w == 0)
		return layer_fail(b, i, "its output would be empty");
	if (c > INT32_MAX || h > INT32_MAX || w > INT32_MAX)
		return layer_fail(b, i, "its output passes 2^31 in one dimension");
	b->out[i] = (struct shape){(uint32_t)c, (uint32_t)h, (uint32_t)w};
	return 0;
}

/* Convolution and max pool: a window that slides over height and width. */
static int
window_shape(const struct builder *b, uint32_t i, uint32_t channels)
{
	const struct sl_g10_layer *layer = &b->net->layers[i];
	uint64_t h = b->in[i].h + 2 * (uint64_t)layer->pad_h;
	uint64_t w = b->in[i].w + 2 * (uint64_t)layer->pad_w;

	if (layer->stride_h == 0 || layer->stride_w == 0)
		return layer_fail(b, i, "a stride of 0");
	if (layer->kernel_h == 0 || layer->kernel_w == 0)
		return layer_fail(b, i, "a window of size 0");
	if (layer->kernel_h > h || layer->kernel_w > w)
		return layer_fail(b, i, "its window is larger than its input");
	return shape_keep(b, i, channels, (h - layer->kernel_h) / layer->stride_h + 1,
			  (w - layer->kernel_w) / layer->stride_w + 1);
}

static int
linear_shape(const struct builder *b, uint32_t i)
{
	const struct sl_g10_layer *layer = &b->net->layers[i];
	const struct shape *in = &b->in[i];
	unsigned __int128 elements = (unsigned __int128)in->c * in->h * in->w;

	if (layer->features_in == 0)
		return layer_fail(b, i, "in_features of 0");
	if (elements % layer->features_in)
		return layer_fail(b, i, "in_features does not divide its input");
	elements = elements / layer->features_in * layer->features_out;
	if (elements > INT32_MAX)
		return layer_fail(b, i, "its output passes 2^31 in one dimension");
	return shape_keep(b, i, (uint64_t)elements, 1, 1);
}

/* The shape of layer i from those of the layers that it takes. */
static int
layer_shape(struct builder *b, uint32_t i)
{
	const struct sl_g10_layer *layer = &b->net->layers[i];
	const struct shape *in = &b->in[i];
	uint64_t channels = 0;

	b->in[i] = layer->inputs[0] == NONE ? b->input : b->out[layer->inputs[0]];
	switch (layer->type) {
	case SL_G10_CONV:
		if (layer->channels_in != in->c)
			return layer_fail(b, i, "its input has another number of channels");
		return window_shape(b, i, layer->channels_out);
	case SL_G10_MAX_POOL:
		return window_shape(b, i, in->c);
	case SL_G10_AVERAGE_POOL:
		return shape_keep(b, i, in->c, layer->out_h, layer->out_w);
	case SL_G10_LINEAR:
		return linear_shape(b, i);
	case SL_G10_BATCH_NORM:
		if (layer->channels_in != in->c)
			return layer_fail(b, i, "its input has another number of channels");
		return shape_keep(b, i, in->c, in->h, in->w);
	case SL_G10_RELU:
	case SL_G10_DROPOUT:
		return shape_keep(b, i, in->c, in->h, in->w);
	case SL_G10_ADD:
		for (uint32_t j = 1; j < layer->n_inputs; j++)
			if (memcmp(&b->out[layer->inputs[j]], in, sizeof(*in)))
				return layer_fail(b, i, "its inputs differ in shape");
		return shape_keep(b, i, in->c, in->h, in->w);
	case SL_G10_CONCAT:
		for (uint32_t j = 0; j < layer->n_inputs; j++) {
			const struct shape *other = &b->out[layer->inputs[j]];

			if (other->h != in->h || other->w != in->w)
				return layer_fail(b, i, "its inputs differ in size");
			channels += other->c; /* at most 4 x 2^31 */
		}
		if (channels > INT32_MAX)
			return layer_fail(b, i, "its output passes 2^31 in one dimension");
		b->in[i].c = (uint32_t)channels; /* what it takes in is all of them */
		return shape_keep(b, i, channels, in->h, in->w);
	case SL_G10_SCALE:
		return shape_keep(b, i, in->c, b->out[layer->size_of].h,
				  b->out[layer->size_of].w);
	case SL_G10_LAYER_TYPE_COUNT:
		break;
	}
	return layer_fail(b, i, "of no known type");
}

/* A scaling that takes the size of a layer behind it waits for that one; nothing in
 * between depends on the scaling (the layers that do are behind both). */
static int
shapes_make(struct builder *b)
{
	uint32_t waiting = NONE;
	int rc;

	for (uint32_t i = 0; i < b->net->n_layers; i++) {
		const struct sl_g10_layer *layer = &b->net->layers[i];

		if (layer->type == SL_G10_SCALE && layer->size_of > i) {
			waiting = i;
			continue;
		}
		rc = layer_shape(b, i);
		if (rc)
			return rc;
		if (waiting != NONE && b->net->layers[waiting].size_of == i) {
			rc = layer_shape(b, waiting);
			if (rc)
				return rc;
			waiting = NONE;
		}
	}
	return 0;
}

/* ---- tensors ---- */

#define GLOBAL SL_TENSOR_GLOBAL
#define LOCAL  SL_TENSOR_LOCAL

/* One tensor of layer i; rc is that of the tensors before it: after a failure nothing is
 * done. */
static int
tensor_make(struct builder *b, int rc, uint32_t i, const char *what, enum sl_tensor_kind kind,
	    const uint64_t *factors, unsigned n_factors, uint32_t *number)
{
	char name[64];

	if (rc)
		return rc;
	snprintf(name, sizeof(name), "%s%u.%s", layer_word(b->net->layers[i].type), i, what);
	return sl_g10_tensor(b->trace, b->label, factors, n_factors, kind, name, number);
}

/* Elements of a whole activation, and of a number of values. */
#define OF_SHAPE(s) (const uint64_t[]){b->batch, (s).c, (s).h, (s).w}, 4
#define OF_COUNT(n) (const uint64_t[]){n}, 1

static int
conv_tensors(struct builder *b, uint32_t i, struct layer_tensors *t)
{
	const struct sl_g10_layer *layer = &b->net->layers[i];
	const uint64_t weight[] = {layer->channels_out, layer->channels_in,
				   layer->kernel_h, layer->kernel_w};
	int rc = 0;

	if (layer->inputs[0] == NONE) {
		if (b->data != NONE)
			return layer_fail(b, i, "a second layer takes the network's input");
		rc = tensor_make(b, rc, i, "data", LOCAL, OF_SHAPE(b->in[i]), &b->data);
	}
	rc = tensor_make(b, rc, i, "output", LOCAL, OF_SHAPE(b->out[i]), &t->output);
	rc = tensor_make(b, rc, i, "weight", GLOBAL, weight, 4, &t->weight);
	rc = tensor_make(b, rc, i, "d_weight", LOCAL, weight, 4, &t->d_weight);
	return tensor_make(b, rc, i, "d_input", LOCAL, OF_SHAPE(b->in[i]), &t->d_input);
}

static int
linear_tensors(struct builder *b, uint32_t i, struct layer_tensors *t)
{
	const struct sl_g10_layer *layer = &b->net->layers[i];
	const uint64_t weight[] = {layer->features_in, layer->features_out};
	int rc = 0;

	rc = tensor_make(b, rc, i, "weight", GLOBAL, weight, 2, &t->weight);
	rc = tensor_make(b, rc, i, "output", LOCAL, OF_SHAPE(b->out[i]), &t->output);
	rc = tensor_make(b, rc, i, "d_input", LOCAL, OF_SHAPE(b->in[i]), &t->d_input);
	rc = tensor_make(b, rc, i, "d_weight", LOCAL, weight, 2, &t->d_weight);
	if (layer->has_bias) {
		rc = tensor_make(b, rc, i, "bias", GLOBAL, OF_COUNT(layer->features_out),
				 &t->bias);
		rc = tensor_make(b, rc, i, "d_bias", LOCAL, OF_COUNT(layer->features_out),
				 &t->d_bias);
	}
	return rc;
}

static int
batch_norm_tensors(struct builder *b, uint32_t i, struct layer_tensors *t)
{
	uint64_t c = b->in[i].c;
	int rc = 0;

	rc = tensor_make(b, rc, i, "output", LOCAL, OF_SHAPE(b->out[i]), &t->output);
	rc = tensor_make(b, rc, i, "d_input", LOCAL, OF_SHAPE(b->in[i]), &t->d_input);
	rc = tensor_make(b, rc, i, "alpha_beta", GLOBAL, OF_COUNT(2 * c), &t->alpha_beta);
	rc = tensor_make(b, rc, i, "d_alpha_beta", LOCAL, OF_COUNT(2 * c), &t->d_alpha_beta);
	rc = tensor_make(b, rc, i, "mu", LOCAL, OF_COUNT(c), &t->mu);
	rc = tensor_make(b, rc, i, "var", LOCAL, OF_COUNT(c), &t->var);
	rc = tensor_make(b, rc, i, "v1", LOCAL, OF_SHAPE(b->in[i]), &t->v1);
	rc = tensor_make(b, rc, i, "v2", LOCAL, OF_COUNT(c), &t->v2);
	rc = tensor_make(b, rc, i, "d_mu", LOCAL, OF_COUNT(c), &t->d_mu);
	rc = tensor_make(b, rc, i, "d_var", LOCAL, OF_COUNT(c), &t->d_var);
	rc = tensor_make(b, rc, i, "d_v1", LOCAL, OF_SHAPE(b->in[i]), &t->d_v1);
	rc = tensor_make(b, rc, i, "d_v2", LOCAL, OF_COUNT(c), &t->d_v2);
	if (b->net->layers[i].tracks) {
		rc = tensor_make(b, rc, i, "running_mean", GLOBAL, OF_COUNT(c),
				 &t->running_mean);
		rc = tensor_make(b, rc, i, "running_var", GLOBAL, OF_COUNT(c),
				 &t->running_var);
	}
	return rc;
}

/* The gradient for an input is as wide as what the input's producer takes in, as
 * published (the producers of the known networks put out as many channels as they take
 * in). */
static int
concat_tensors(struct builder *b, uint32_t i, struct layer_tensors *t)
{
	const struct sl_g10_layer *layer = &b->net->layers[i];
	int rc = 0;

	for (uint32_t j = 0; j < layer->n_inputs; j++) {
		struct shape shape = b->in[i];
		char what[24];

		shape.c = b->in[layer->inputs[j]].c;
		snprintf(what, sizeof(what), "d_input%u", j);
		rc = tensor_make(b, rc, i, what, LOCAL, OF_SHAPE(shape), &t->d_inputs[j]);
	}
	return tensor_make(b, rc, i, "output", LOCAL, OF_SHAPE(b->out[i]), &t->output);
}

static uint32_t
input_tensor(const struct builder *b, uint32_t i, uint32_t j)
{
	uint32_t from = b->net->layers[i].inputs[j];

	return from == NONE ? b->data : b->tensors[from].output;
}

static int
layer_tensors_make(struct builder *b, uint32_t i)
{
	const struct sl_g10_layer *layer = &b->net->layers[i];
	struct layer_tensors *t = &b->tensors[i];
	int rc = 0;

	switch (layer->type) {
	case SL_G10_CONV:
		return conv_tensors(b, i, t);
	case SL_G10_LINEAR:
		return linear_tensors(b, i, t);
	case SL_G10_BATCH_NORM:
		return batch_norm_tensors(b, i, t);
	case SL_G10_CONCAT:
		return concat_tensors(b, i, t);
	case SL_G10_ADD:
		return tensor_make(b, rc, i, "output", LOCAL, OF_SHAPE(b->out[i]),
				   &t->output);
	case SL_G10_DROPOUT:
		rc = tensor_make(b, rc, i, "mask", LOCAL, OF_SHAPE(b->in[i]), &t->mask);
		break;
	case SL_G10_RELU:
	case SL_G10_MAX_POOL:
	case SL_G10_AVERAGE_POOL:
	case SL_G10_SCALE:
	case SL_G10_LAYER_TYPE_COUNT:
		break;
	}
	if (layer->in_place)
		t->output = input_tensor(b, i, 0);
	else
		rc = tensor_make(b, rc, i, "output", LOCAL, OF_SHAPE(b->out[i]), &t->output);
	return tensor_make(b, rc, i, "d_input", LOCAL, OF_SHAPE(b->in[i]), &t->d_input);
}

static int
tensors_make(struct builder *b)
{
	uint32_t last = b->net->n_layers - 1;
	int rc = 0;

	b->data = NONE;
	for (uint32_t i = 0; !rc && i <= last; i++) {
		memset(&b->tensors[i], 0xff, sizeof(b->tensors[i])); /* NONE */
		rc = layer_tensors_make(b, i);
	}
	return tensor_make(b, rc, last, "d_output", LOCAL, OF_SHAPE(b->out[last]),
			   &b->tensors[last].d_output);
}

/* ---- who reads what, and the gradients ---- */

static void
readers_make(struct builder *b)
{
	uint32_t n = b->net->n_layers;

	for (uint32_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < b->net->layers[i].n_inputs; j++)
			if (b->net->layers[i].inputs[j] != NONE)
				b->reader_first[b->net->layers[i].inputs[j] + 1]++;
	for (uint32_t i = 0; i < n; i++)
		b->reader_first[i + 1] += b->reader_first[i];
	/* Filled from behind, so that each list ascends and reader_first[i] is its
	 * begin. */
	for (uint32_t i = n; i-- > 0;)
		for (uint32_t j = b->net->layers[i].n_inputs; j-- > 0;) {
			uint32_t from = b->net->layers[i].inputs[j];

			if (from != NONE)
				b->readers[--b->reader_first[from + 1]] = i;
		}
	for (uint32_t i = 0; i < n; i++) /* each begin had moved to the entry behind */
		b->reader_first[i] = b->reader_first[i + 1];
}

/* The gradient that layer `reader` holds for its input `from`. */
static uint32_t
gradient_for(const struct builder *b, uint32_t reader, uint32_t from)
{
	const struct sl_g10_layer *layer = &b->net->layers[reader];

	if (layer->type == SL_G10_ADD)
		return b->tensors[reader].d_output;
	if (layer->type == SL_G10_CONCAT)
		for (uint32_t j = 0; j < layer->n_inputs; j++)
			if (layer->inputs[j] == from)
				return b->tensors[reader].d_inputs[j];
	return b->tensors[reader].d_input;
}

/* ---- launches ---- */

#define SET(...)                         \
	(const uint32_t[]){__VA_ARGS__}, \
		sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)

static int
launch_make(struct builder *b, int rc, uint32_t i, const char *what, const uint32_t *inputs,
	    size_t n_inputs, const uint32_t *outputs, size_t n_outputs)
{
	char name[64];

	if (rc)
		return rc;
	snprintf(name, sizeof(name), "%s%u.%s", layer_word(b->net->layers[i].type), i, what);
	return sl_g10_launch(b->trace, name, inputs, (unsigned)n_inputs, outputs,
			     (unsigned)n_outputs);
}

static int
layer_forward(struct builder *b, uint32_t i)
{
	const struct sl_g10_layer *layer = &b->net->layers[i];
	const struct layer_tensors *t = &b->tensors[i];
	uint32_t x = input_tensor(b, i, 0);
	uint32_t inputs[SL_G10_INPUTS_MAX];

	switch (layer->type) {
	case SL_G10_CONV:
	case SL_G10_LINEAR:
		return launch_make(b, 0, i, "forward", SET(x, t->weight, t->bias),
				   SET(t->output));
	case SL_G10_RELU:
	case SL_G10_MAX_POOL:
	case SL_G10_AVERAGE_POOL:
	case SL_G10_SCALE:
		return launch_make(b, 0, i, "forward", SET(x), SET(t->output));
	case SL_G10_DROPOUT:
		return launch_make(b, 0, i, "forward", SET(x, t->mask), SET(t->output));
	case SL_G10_BATCH_NORM:
		return launch_make(b, 0, i, "forward",
				   SET(x, t->alpha_beta, t->running_mean, t->running_var),
				   SET(t->running_mean, t->running_var, t->output, t->mu,
				       t->var, t->v1, t->v2));
	case SL_G10_ADD:
	case SL_G10_CONCAT:
		for (uint32_t j = 0; j < layer->n_inputs; j++)
			inputs[j] = input_tensor(b, i, j);
		return launch_make(b, 0, i, "forward", inputs, layer->n_inputs,
				   SET(t->output));
	case SL_G10_LAYER_TYPE_COUNT:
		break;
	}
	return 0;
}

/* One gradient out of those of all readers. */
static int
gradients_add(struct builder *b, uint32_t i, uint32_t n_readers)
{
	const uint32_t *readers = &b->readers[b->reader_first[i]];
	uint32_t *inputs = malloc(n_readers * sizeof(*inputs));
	int rc;

	if (!inputs)
		return sl_fail(-ENOMEM, "%s: no memory for the launches", b->label);
	for (uint32_t j = 0; j < n_readers; j++)
		inputs[j] = gradient_for(b, readers[j], i);
	rc = launch_make(b, 0, i, "add_gradients", inputs, n_readers,
			 SET(b->tensors[i].d_output));
	free(inputs);
	return rc;
}

static int
layer_backward(struct builder *b, uint32_t i)
{
	const struct sl_g10_layer *layer = &b->net->layers[i];
	const struct layer_tensors *t = &b->tensors[i];
	uint32_t x = input_tensor(b, i, 0), dy = t->d_output;
	int rc = 0;

	switch (layer->type) {
	case SL_G10_CONV:
		rc = launch_make(b, rc, i, "backward_weight", SET(dy, x), SET(t->d_weight));
		rc = launch_make(b, rc, i, "backward_input", SET(dy, t->weight),
				 SET(t->d_input));
		return launch_make(b, rc, i, "apply_weight", SET(t->d_weight, t->weight),
				   SET(t->weight));
	case SL_G10_LINEAR:
		if (layer->has_bias) {
			rc = launch_make(b, rc, i, "backward_bias", SET(dy), SET(t->d_bias));
			rc = launch_make(b, rc, i, "apply_bias", SET(t->d_bias, t->bias),
					 SET(t->bias));
		}
		rc = launch_make(b, rc, i, "backward_weight", SET(dy, x), SET(t->d_weight));
		rc = launch_make(b, rc, i, "backward_input", SET(t->weight, dy),
				 SET(t->d_input));
		return launch_make(b, rc, i, "apply_weight", SET(t->d_weight, t->weight),
				   SET(t->weight));
	case SL_G10_RELU:
	case SL_G10_MAX_POOL:
	case SL_G10_AVERAGE_POOL:
		return launch_make(b, rc, i, "backward", SET(x, dy), SET(t->d_input));
	case SL_G10_DROPOUT:
		return launch_make(b, rc, i, "backward", SET(t->mask, dy), SET(t->d_input));
	case SL_G10_BATCH_NORM:
		rc = launch_make(b, rc, i, "backward", SET(dy, t->v1, t->v2, t->alpha_beta),
				 SET(t->d_input, t->d_alpha_beta, t->d_mu, t->d_var,
				     t->d_v1, t->d_v2));
		return launch_make(b, rc, i, "apply", SET(t->d_alpha_beta, t->alpha_beta),
				   SET(t->alpha_beta));
	case SL_G10_CONCAT:
		return launch_make(b, rc, i, "backward", SET(dy), t->d_inputs,
				   layer->n_inputs);
	case SL_G10_SCALE:
		return launch_make(b, rc, i, "backward", SET(dy), SET(t->d_input));
	case SL_G10_ADD: /* its inputs' gradient is its own */
	case SL_G10_LAYER_TYPE_COUNT:
		break;
	}
	return 0;
}

static int
launches_make(struct builder *b)
{
	uint32_t last = b->net->n_layers - 1;
	int rc;

	rc = sl_g10_launch(b->trace, "load_data", NULL, 0, SET(b->data));
	for (uint32_t i = 0; !rc && i <= last; i++)
		rc = layer_forward(b, i);
	if (rc)
		return rc;
	b->trace->n_forward = b->trace->n_launches;
	rc = sl_g10_launch(b->trace, "make_loss", SET(b->tensors[last].output),
			   SET(b->tensors[last].d_output));
	for (uint32_t i = last + 1; !rc && i-- > 0;) {
		uint32_t n_readers = b->reader_first[i + 1] - b->reader_first[i];

		if (i < last && n_readers == 0)
			return layer_fail(b, i, "nobody takes its output");
		if (i < last)
			b->tensors[i].d_output = gradient_for(b,
							      b->readers[b->reader_first[i]],
							      i);
		if (n_readers > 1)
			rc = gradients_add(b, i, n_readers);
		if (!rc)
			rc = layer_backward(b, i);
	}
	return rc;
}

int
sl_g10_cnn_build(const struct sl_g10_net *net, const char *label, uint32_t batch,
		 uint32_t input_h, uint32_t input_w, struct sl_trace *trace)
{
	size_t n = net->n_layers;
	struct builder b = {
		.net = net,
		.label = label,
		.batch = batch,
		.input = {net->layers[0].channels_in, input_h, input_w},
		.trace = trace,
	};
	int rc = 0;

	b.in = calloc(n, sizeof(*b.in));
	b.out = calloc(n, sizeof(*b.out));
	b.tensors = calloc(n, sizeof(*b.tensors));
	b.reader_first = calloc(n + 1, sizeof(*b.reader_first));
	b.readers = calloc(n, SL_G10_INPUTS_MAX * sizeof(*b.readers));
	if (!b.in || !b.out || !b.tensors || !b.reader_first || !b.readers)
		rc = sl_fail(-ENOMEM, "%s: no memory for %zu layers", label, n);
	if (!rc)
		rc = shapes_make(&b);
	if (!rc)
		rc = tensors_make(&b);
	if (!rc) {
		readers_make(&b);
		rc = launches_make(&b);
	}
	free(b.in);
	free(b.out);
	free(b.tensors);
	free(b.reader_first);
	free(b.readers);
	return rc;
}
