/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of network share: a network as a list of operations with their places in the
 * arrays of the workload, the kernels, and the passes over it.
 *
 * network_model.c makes the list from a model's shape; network_layers.c turns an operation into
 * launches, forward and backward; network_kernels.c has the loops of the software device,
 * network_blas.c the products of matrices; network.c has the options, the run and the oracle.
 *
 * An operation gives one tensor; its place in the outputs is its own, and so is the place of the
 * tensor's gradient, in the reverse order: both arrays are used up from one end to the other.
 * Everything begins at a page, so that what is dead is dead as whole pages.
 *
 * Which launches there are, and over how much, follows from the plan alone, never from a budget:
 * so sums are added up in the same order wherever the data are.
 *
 * Threads: that of workload_run().
 */
#ifndef WORKLOADS_NETWORK_H
#define WORKLOADS_NETWORK_H

#include "env.h"
#include "network_kernel.h"

#define NETWORK_OPS_MAX    512u
#define NETWORK_PARAMS_MAX 512u
#define NETWORK_CLASSES    10u
#define NETWORK_BATCHES    4u /* that there are data for */

enum network_model {
	NETWORK_VGG16,
	NETWORK_DARKNET19,
	NETWORK_RESNET53,
	NETWORK_RNN,
	NETWORK_MODEL_COUNT
};
extern const char *const network_model_names[NETWORK_MODEL_COUNT + 1];

enum {
	NETWORK_ARRAY_SAMPLES,
	NETWORK_ARRAY_LABELS,
	NETWORK_ARRAY_WEIGHTS,
	NETWORK_ARRAY_LOSSES,
	NETWORK_ARRAY_OUTPUTS,
	NETWORK_ARRAY_DELTAS,    /* gradients of outputs */
	NETWORK_ARRAY_GRADIENTS, /* of weights */
	NETWORK_ARRAY_WORKSPACE,
	NETWORK_ARRAY_SUMS,
	NETWORK_ARRAY_COUNT
};

/* What it is made from; network_plan() keeps it in the plan. */
struct network_shape {
	enum network_model model;
	uint32_t width; /* channels in percent of the published */
	uint32_t size;  /* edge of an image; rnn: length of a sequence */
	uint32_t batch;
	uint32_t steps;
	uint64_t group_bytes; /* of a tensor, or of the workspace, that a launch works on */
};

enum network_kind {
	NETWORK_CONV, /* a window of 1 over images of one position: fully connected */
	NETWORK_NORM, /* over the batch, with scale, shift and activation */
	NETWORK_MAX,
	NETWORK_AVERAGE,
	NETWORK_SUM, /* of two tensors */
	NETWORK_CELL /* of a plain recurrent network */
};

#define NETWORK_SAMPLE(step) (-1 - (int32_t)(step)) /* as an input: that of the network */
#define NETWORK_NOTHING      INT32_MIN

/* Places: numbers from the beginning of their array. */
struct network_op {
	enum network_kind kind;
	int32_t in[2];       /* operations, or as above; cell: below, and one step back */
	uint32_t h, w, c;    /* of what in[0] gives */
	uint32_t oh, ow, oc; /* of what this gives */
	uint32_t k, stride, pad;
	enum network_act act;
	int bias;
	uint64_t weights, back; /* back: cell: weights of the step before */
	uint64_t shift;         /* bias; norm: shifts, scales behind them */
	uint64_t out, delta;
	uint64_t moments; /* norm: in the sums, kept from forward to backward */
	uint32_t group;   /* images that a product works on */
	int adds[2];      /* the gradient of in[i] has been begun by another operation */
	int adds_weights; /* the same of weights and bias */
	int adds_back;
};

/* A piece of the weights, and what it begins with. */
struct network_param {
	uint64_t first, n;
	float size; /* random numbers of at most this; else: */
	float value;
};

struct network {
	struct network_shape shape;
	uint32_t classes, sample; /* numbers of a sample; rnn: of one step of it */
	unsigned n_ops, n_params;
	struct network_op op[NETWORK_OPS_MAX];
	struct network_param param[NETWORK_PARAMS_MAX];
	uint64_t weights, outputs, workspace; /* numbers of arrays */
	uint64_t moments, sums, partials; /* norm; totals of a launch; sums of groups */
	uint32_t columns;                 /* of the widest sums */
	float rate;
};

/* ---- network_model.c ---- */

/* 0, or -EINVAL with the reason in error (WORKLOAD_TEXT_BYTES). */
int network_make(const struct network_shape *shape, struct network *out,
		 char *error) SLUICE_MUST_CHECK;

/* Numbers of each array, by enum. */
uint64_t network_array_numbers(const struct network *net, unsigned array);

uint32_t network_batches(const struct network_shape *shape);

/* ---- network_layers.c ---- */

struct network_run {
	struct workload_env *env;
	const struct network *net;
	uint64_t discard; /* enum partition_discard */
	uint64_t step;
	uint64_t done, total;                               /* launches, for progress */
	uint64_t outputs_live, deltas_dead, gradients_dead; /* numbers, in whole chunks */
};

/* Launches of one step, in order; what is dead is discarded. Errors: what launches return. */
int network_step(struct network_run *run) SLUICE_MUST_CHECK;

/* ---- network_kernels.c, network_blas.c ---- */

extern const struct workload_kernel network_gemm_kernel;
extern const struct workload_kernel network_window_kernel;
extern const struct workload_kernel network_window_back_kernel;
extern const struct workload_kernel network_activate_kernel;
extern const struct workload_kernel network_sums_kernel;
extern const struct workload_kernel network_reduce_kernel;
extern const struct workload_kernel network_moments_kernel;
extern const struct workload_kernel network_norm_kernel;
extern const struct workload_kernel network_norm_back_kernel;
extern const struct workload_kernel network_pool_kernel;
extern const struct workload_kernel network_pool_back_kernel;
extern const struct workload_kernel network_average_kernel;
extern const struct workload_kernel network_average_back_kernel;
extern const struct workload_kernel network_add_kernel;
extern const struct workload_kernel network_loss_kernel;
extern const struct workload_kernel network_update_kernel;

#endif
