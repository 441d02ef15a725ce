/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the importer of the paper G10's published inputs share.
 *
 *   import_g10.c        which files, kernel times and workspaces, putting it together
 *   import_g10_net.c    convolutional networks: text to a graph of layers
 *   import_g10_cnn.c    that graph: shapes, tensors, launches
 *   import_g10_ops.c    transformer networks: text to tensors and launches
 *
 * The numbers of tensors and launches are part of the result: both count up in the order
 * in which the published loader makes them, so that its results can be compared one by
 * one.
 *
 * Threads: plain functions, no state.
 */
#ifndef PAPERS_G10_IMPORT_G10_H
#define PAPERS_G10_IMPORT_G10_H

#include "trace/trace.h"

#define SL_G10_CLOCK_HZ      1200000000u
#define SL_G10_ELEMENT_BYTES 4
#define SL_G10_PAGE_BYTES    4096 /* sizes are rounded up to it */
#define SL_G10_LAYERS_MAX    (1u << 16)
#define SL_G10_BATCH_MAX     (1u << 20)
#define SL_G10_NONE          UINT32_MAX

enum sl_g10_family {
	SL_G10_PLAIN, /* convolutional, no rewiring */
	SL_G10_RESNET,
	SL_G10_INCEPTION,
	SL_G10_SENET,
	SL_G10_TRANSFORMER,
	SL_G10_FAMILY_COUNT
};

enum sl_g10_layer_type {
	SL_G10_CONV,
	SL_G10_RELU,
	SL_G10_MAX_POOL,
	SL_G10_AVERAGE_POOL,
	SL_G10_LINEAR,
	SL_G10_DROPOUT,
	SL_G10_BATCH_NORM,
	SL_G10_ADD,    /* inserted: sum of its inputs */
	SL_G10_CONCAT, /* inserted: its inputs' channels one after the other */
	SL_G10_SCALE, /* inserted: its input, expanded to the size of another layer's output */
	SL_G10_LAYER_TYPE_COUNT
};

#define SL_G10_INPUTS_MAX 4

struct sl_g10_layer {
	enum sl_g10_layer_type type;
	uint32_t line;                      /* of the network file; for messages */
	uint32_t inputs[SL_G10_INPUTS_MAX]; /* layers; SL_G10_NONE: the network's input */
	uint32_t n_inputs;
	uint32_t size_of;                   /* scale: that layer; else SL_G10_NONE */
	uint32_t channels_in, channels_out; /* convolution; batch norm: channels_in */
	uint32_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w;
	uint32_t out_h, out_w;              /* average pool */
	uint32_t features_in, features_out; /* linear */
	int in_place, has_bias, tracks;     /* tracks: batch norm has running figures */
};

struct sl_g10_net {
	struct sl_g10_layer *layers;
	uint32_t n_layers, max_layers;
};

/* Text to layers. label: the file, for messages, which also name the line. -EINVAL,
 * -E2BIG, -ENOMEM. */
int sl_g10_net_parse(const char *text, size_t bytes, const char *label,
		     enum sl_g10_family family, struct sl_g10_net *out) SL_MUST_CHECK;
void sl_g10_net_fini(struct sl_g10_net *net);

/* Append the network's tensors and launches (of 1 tick) to an empty trace, n_forward
 * set. */
int sl_g10_cnn_build(const struct sl_g10_net *net, const char *label, uint32_t batch,
		     uint32_t input_h, uint32_t input_w,
		     struct sl_trace *trace) SL_MUST_CHECK;
int sl_g10_ops_build(const char *text, size_t bytes, const char *label, uint32_t batch,
		     uint32_t global_border, struct sl_trace *trace) SL_MUST_CHECK;

/* One tensor of a number of elements given as factors, rounded up to pages. */
int sl_g10_tensor(struct sl_trace *trace, const char *label, const uint64_t *factors,
		  unsigned n_factors, enum sl_tensor_kind kind, const char *name,
		  uint32_t *number) SL_MUST_CHECK;

/* One launch of 1 tick that reads the inputs and writes the outputs; SL_G10_NONE among
 * them is left out. */
int sl_g10_launch(struct sl_trace *trace, const char *name, const uint32_t *inputs,
		  unsigned n_inputs, const uint32_t *outputs,
		  unsigned n_outputs) SL_MUST_CHECK;

/*
 * import_g10.c: the published inputs (paper G10): network description, three times and
 * the workspace of every kernel, at one batch size. directory: the artifact's data root
 * (with frontend/Nets and results). model: "BERT_Base", "VIT", "Inceptionv3",
 * "ResNet152", "SENet154", or another net of the same grammars by its options.
 */
struct sl_import_g10 {
	const char *directory;
	const char *model;
	uint32_t batch;
	/* 0 / NULL: what the artifact uses for that model. */
	const char *family; /* "bert-like": "transformer"; "inception", "resnet", "senet" */
	uint32_t input_h, input_w;
	uint32_t global_border; /* transformer: ids below are global */
};
int sl_trace_import_g10(const struct sl_import_g10 *import,
			struct sl_trace **out) SL_MUST_CHECK;

/* The network alone: the same tensors and launches, each launch of 1 tick, no
 * workspaces. */
int sl_trace_import_g10_net(const struct sl_import_g10 *import,
			    struct sl_trace **out) SL_MUST_CHECK;

#endif
