/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transformer networks of the paper G10's inputs: a list of operations on numbered
 * tensors, read into the tensors and launches of one training step.
 *
 * The shape of a tensor is the one that its last use in the file states; tensors numbered
 * below a border are global (weights, constants and whatever else the print put there).
 * Each operation becomes one forward launch, and one to five backward launches in reverse
 * order. Tensors are numbered in the order in which the published loader makes them.
 *
 * Threads: no state.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "g10/import_g10.h"

#define NONE        SL_G10_NONE
#define ID_MAX      (1u << 16)
#define OPS_MAX     (1u << 16)
#define INPUTS_MAX  8
#define RANK_MAX    8
#define WORD_MAX    31
#define BATCH_DIM   99 /* stands for the batch size */
#define SEPARATOR   "-------------------"
#define SOFTMAX_RUN 4 /* records that are one operation */

enum op_type {
	OP_GATHER,
	OP_DOT,
	OP_CONVOLUTION,
	OP_UNARY, /* gradient from dy and the input */
	OP_SOFTMAX,
	OP_POWER,
	OP_ADD,
	OP_MULTIPLY, /* each operand's gradient from dy and the other */
	OP_DIVIDE,
};

static const struct op_row {
	const char *word;
	enum op_type type;
	uint32_t n_inputs;
} op_rows[] = {
	{"GatherV2", OP_GATHER, 2},
	{"Dot", OP_DOT, 2},
	{"Convolution", OP_CONVOLUTION, 2},
	{"Relu", OP_UNARY, 1},
	{"Sqrt", OP_UNARY, 1},
	{"Sum", OP_UNARY, 1},
	{"Tanh", OP_UNARY, 1},
	{"Erf", OP_UNARY, 1},
	{"SoftmaxBasic", OP_SOFTMAX, 1},
	{"Power", OP_POWER, 2},
	{"Add", OP_ADD, 2},
	{"Subtract", OP_ADD, 2},
	{"BatchMatMul", OP_MULTIPLY, 2},
	{"Multiply", OP_MULTIPLY, 2},
	{"Divide", OP_DIVIDE, 2},
};

struct op {
	const struct op_row *row;
	uint32_t id; /* of its output */
	uint32_t line;
	uint32_t inputs[INPUTS_MAX], n_inputs;
	uint64_t first_elements; /* of its first input, as its own record says */
	/* Tensors: the gradient for each input, NONE where there is none. */
	uint32_t gradients[INPUTS_MAX];
	/* The gradients that the readers of its output hold: gradient_first ... in
	 * order. */
	uint32_t d_output_first, n_d_outputs;
};

/* By id. */
struct slot {
	uint64_t elements; /* the last shape stated; 0: none */
	uint32_t tensor;   /* NONE: not made */
	uint32_t op;       /* that has it as its output; NONE */
};

struct loader {
	const char *label;
	const char *at, *end;
	uint32_t line, token_line;
	char token[WORD_MAX + 1];
	uint32_t batch, border;
	struct sl_trace *trace;
	struct slot *slots; /* ID_MAX */
	struct op *ops;
	uint32_t n_ops, max_ops;
	uint32_t softmax_left; /* records of the run that are still to come */
	/* Pairs (operation, gradient tensor) in the order in which they are made. */
	struct gradient {
		uint32_t op, tensor;
	} * d_outputs;
	uint32_t n_d_outputs, max_d_outputs;
	uint32_t *by_op; /* the same, gathered by operation */
};

/* ---- text ---- */

static int
loader_fail(const struct loader *l, const char *text)
{
	return sl_fail(-EINVAL, "%s: line %u: %s", l->label, l->token_line, text);
}

/* The next word; an empty one at the end of the file. */
static int
token_next(struct loader *l)
{
	size_t length = 0;

	while (l->at < l->end && isspace((unsigned char)*l->at))
		if (*l->at++ == '\n')
			l->line++;
	l->token_line = l->line;
	while (l->at < l->end && !isspace((unsigned char)*l->at)) {
		if (length == WORD_MAX)
			return loader_fail(l, "a word longer than 31 characters");
		if (!isprint((unsigned char)*l->at))
			return loader_fail(l, "a character that means nothing here");
		l->token[length++] = *l->at++;
	}
	l->token[length] = '\0';
	return 0;
}

static int
number_take(struct loader *l, const char *what, uint32_t min, uint32_t max, uint32_t *out)
{
	uint64_t value = 0;
	int rc = token_next(l);

	if (rc)
		return rc;
	if (!l->token[0])
		return sl_fail(-EINVAL, "%s: line %u: the file ends where %s should be",
			       l->label, l->token_line, what);
	for (const char *c = l->token; *c; c++) {
		if (!isdigit((unsigned char)*c) || value > UINT32_MAX)
			return sl_fail(-EINVAL, "%s: line %u: \"%s\" is not %s", l->label,
				       l->token_line, l->token, what);
		value = value * 10 + (unsigned)(*c - '0');
	}
	if (value < min || value > max)
		return sl_fail(-EINVAL, "%s: line %u: %s is %s; it must be %u to %u",
			       l->label, l->token_line, what, l->token, min, max);
	*out = (uint32_t)value;
	return 0;
}

static const struct op_row *
op_row_find(const char *word)
{
	for (size_t i = 0; i < sizeof(op_rows) / sizeof(op_rows[0]); i++)
		if (strcmp(op_rows[i].word, word) == 0)
			return &op_rows[i];
	return NULL;
}

/* One shape, as a number of elements. */
static int
shape_take(struct loader *l, uint64_t *elements)
{
	uint32_t rank, dim;
	int rc = number_take(l, "a rank", 0, RANK_MAX, &rank);

	*elements = 1;
	for (uint32_t i = 0; !rc && i < rank; i++) {
		rc = number_take(l, "a dimension", 1, INT32_MAX, &dim);
		if (rc)
			break;
		if (dim == BATCH_DIM)
			dim = l->batch;
		if (__builtin_mul_overflow(*elements, (uint64_t)dim, elements) ||
		    *elements > SL_TRACE_SIZE_MAX)
			return loader_fail(l, "a tensor of more than 2^50 elements");
	}
	return rc;
}

static int
op_room(struct loader *l)
{
	uint32_t more = l->max_ops ? l->max_ops * 2 : 64;
	void *grown;

	if (l->n_ops < l->max_ops)
		return 0;
	if (l->n_ops >= OPS_MAX)
		return sl_fail(-E2BIG, "%s: line %u: more than %u operations", l->label,
			       l->token_line, OPS_MAX);
	grown = reallocarray(l->ops, more, sizeof(*l->ops));
	if (!grown)
		return sl_fail(-ENOMEM, "%s: no memory for the operations", l->label);
	l->ops = grown;
	l->max_ops = more;
	return 0;
}

/* One record behind its id and type. */
static int
record_rest_take(struct loader *l, struct op *op)
{
	uint64_t elements;
	int rc = number_take(l, "a number of inputs", 1, INPUTS_MAX, &op->n_inputs);

	for (uint32_t i = 0; !rc && i < op->n_inputs; i++)
		rc = number_take(l, "an input's id", 0, ID_MAX - 1, &op->inputs[i]);
	for (uint32_t i = 0; !rc && i < op->n_inputs; i++) {
		rc = shape_take(l, &elements);
		if (rc)
			break;
		l->slots[op->inputs[i]].elements = elements;
		if (i == 0)
			op->first_elements = elements;
	}
	if (!rc)
		rc = token_next(l);
	if (!rc && strcmp(l->token, SEPARATOR) != 0)
		rc = loader_fail(l, "a record must end in a line of 19 dashes");
	return rc;
}

/* Keep a record as an operation, or as part of the one before (softmax comes as four). */
static int
record_keep(struct loader *l, const struct op *op)
{
	int rc;

	if (l->softmax_left > 0) {
		if (op->row->type != OP_SOFTMAX)
			return loader_fail(l, "SoftmaxBasic must come as four records");
		l->ops[l->n_ops - 1].id = op->id; /* the last one's stays */
		l->softmax_left--;
		return 0;
	}
	if (op->n_inputs != op->row->n_inputs)
		return sl_fail(-EINVAL, "%s: line %u: %s with %u inputs; it has %u", l->label,
			       op->line, op->row->word, op->n_inputs, op->row->n_inputs);
	rc = op_room(l);
	if (rc)
		return rc;
	l->ops[l->n_ops++] = *op;
	if (op->row->type == OP_SOFTMAX)
		l->softmax_left = SOFTMAX_RUN - 1;
	return 0;
}

static int
ops_take(struct loader *l)
{
	int rc = 0;

	for (;;) {
		struct op op = {0};

		rc = token_next(l);
		if (rc)
			return rc;
		if (!l->token[0])
			break;
		/* number_take() reads a word of its own: step back to this one. */
		l->at -= strlen(l->token);
		op.line = l->token_line;
		rc = number_take(l, "an operation's id", 0, ID_MAX - 1, &op.id);
		if (!rc)
			rc = token_next(l);
		if (rc)
			return rc;
		op.row = op_row_find(l->token);
		if (!op.row)
			return sl_fail(-EINVAL,
				       "%s: line %u: \"%s\" is no operation that "
				       "is known",
				       l->label, l->token_line, l->token);
		rc = record_rest_take(l, &op);
		if (!rc)
			rc = record_keep(l, &op);
		if (rc)
			return rc;
	}
	if (l->softmax_left > 0)
		return loader_fail(
			l, "the file ends inside the four records of a SoftmaxBasic");
	if (l->n_ops == 0)
		return loader_fail(l, "no operations");
	for (uint32_t i = 0; i < l->n_ops; i++) {
		struct slot *slot = &l->slots[l->ops[i].id];

		l->token_line = l->ops[i].line;
		if (l->ops[i].id < l->border)
			return loader_fail(
				l, "an operation's id below the border of globals");
		if (slot->op != NONE)
			return loader_fail(l, "a second operation with this id");
		slot->op = i;
	}
	return 0;
}

/* ---- tensors ---- */

static int
tensor_make(struct loader *l, const char *what, uint32_t id, uint64_t elements,
	    int is_global, uint32_t *out)
{
	char name[48];

	snprintf(name, sizeof(name), "%s%u", what, id);
	return sl_g10_tensor(l->trace, l->label, &elements, 1,
			     is_global ? SL_TENSOR_GLOBAL : SL_TENSOR_LOCAL, name, out);
}

static int
id_tensor_make(struct loader *l, uint32_t id, uint64_t elements)
{
	if (l->slots[id].tensor != NONE)
		return 0;
	return tensor_make(l, "t", id, elements, id < l->border, &l->slots[id].tensor);
}

static int
d_output_add(struct loader *l, uint32_t op, uint32_t tensor)
{
	if (l->n_d_outputs == l->max_d_outputs) {
		uint32_t more = l->max_d_outputs ? l->max_d_outputs * 2 : 64;
		void *grown = reallocarray(l->d_outputs, more, sizeof(*l->d_outputs));

		if (!grown)
			return sl_fail(-ENOMEM, "%s: no memory for the gradients", l->label);
		l->d_outputs = grown;
		l->max_d_outputs = more;
	}
	l->d_outputs[l->n_d_outputs++] = (struct gradient){op, tensor};
	l->ops[op].n_d_outputs++;
	return 0;
}

/* The gradient for input i of op: for weights, and for what another operation made. */
static int
gradient_make(struct loader *l, struct op *op, uint32_t i)
{
	uint32_t id = op->inputs[i];
	const struct slot *slot = &l->slots[id];
	int is_global = id < l->border;
	int rc;

	op->gradients[i] = NONE;
	if (is_global ? op->row->type == OP_POWER : slot->op == NONE)
		return 0;
	rc = tensor_make(l, "d", id, slot->elements, 0, &op->gradients[i]);
	if (!rc && !is_global)
		rc = d_output_add(l, slot->op, op->gradients[i]);
	return rc;
}

static int
tensors_make(struct loader *l)
{
	uint32_t last = l->n_ops - 1, loss;
	int rc = 0;

	for (uint32_t k = 0; k < l->n_ops; k++) {
		struct op *op = &l->ops[k];
		uint64_t elements = l->slots[op->id].elements;

		rc = id_tensor_make(l, op->id, elements ? elements : op->first_elements);
		for (uint32_t i = 0; !rc && i < op->n_inputs; i++)
			rc = id_tensor_make(l, op->inputs[i],
					    l->slots[op->inputs[i]].elements);
		for (uint32_t i = 0; !rc && i < op->n_inputs; i++)
			rc = gradient_make(l, op, i);
		if (rc)
			return rc;
	}
	/* An operation whose id never occurs as an input has its first input's size. */
	rc = tensor_make(l, "loss", l->ops[last].id,
			 l->slots[l->ops[last].id].elements ? l->slots[l->ops[last].id].elements
							    : l->ops[last].first_elements,
			 0, &loss);
	if (!rc)
		rc = d_output_add(l, last, loss);
	return rc;
}

/* ---- launches ---- */

#define SET(...)                         \
	(const uint32_t[]){__VA_ARGS__}, \
		sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)

static int
launch_make(struct loader *l, int rc, const struct op *op, const char *what,
	    const uint32_t *inputs, size_t n_inputs, const uint32_t *outputs,
	    size_t n_outputs)
{
	char name[80];

	if (rc)
		return rc;
	snprintf(name, sizeof(name), "%s%u.%s", op->row->word, op->id, what);
	return sl_g10_launch(l->trace, name, inputs, (unsigned)n_inputs, outputs,
			     (unsigned)n_outputs);
}

/* What the backward rules call: dy, w the last global input, x the last other one. */
struct operands {
	uint32_t dy, w, dw, x, dx;
	uint32_t input[INPUTS_MAX];
};

static struct operands
operands_make(const struct loader *l, const struct op *op)
{
	struct operands o = {.w = NONE, .dw = NONE, .x = NONE, .dx = NONE};

	o.dy = l->by_op[op->d_output_first];
	for (uint32_t i = 0; i < op->n_inputs; i++) {
		o.input[i] = l->slots[op->inputs[i]].tensor;
		if (op->inputs[i] < l->border) {
			o.w = o.input[i];
			o.dw = op->gradients[i];
		} else {
			o.x = o.input[i];
			o.dx = op->gradients[i];
		}
	}
	return o;
}

static int
apply_make(struct loader *l, int rc, const struct op *op, const struct operands *o)
{
	if (rc || o->w == NONE)
		return rc;
	return launch_make(l, rc, op, "apply", SET(o->dw, o->w), SET(o->w));
}

static int
weighted_backward(struct loader *l, const struct op *op, const struct operands *o)
{
	int rc;

	if (o->w == NONE || o->x == NONE)
		return sl_fail(-EINVAL,
			       "%s: line %u: %s needs one global input (id below %u) and "
			       "one that is not",
			       l->label, op->line, op->row->word, l->border);
	if (op->row->type == OP_GATHER) {
		rc = launch_make(l, 0, op, "backward", SET(o->dy, o->x), SET(o->dw, o->dx));
		return apply_make(l, rc, op, o);
	}
	rc = launch_make(l, 0, op, "backward_weight", SET(o->dy, o->x), SET(o->dw));
	if (o->dx != NONE)
		rc = launch_make(l, rc, op, "backward_input", SET(o->dy, o->w), SET(o->dx));
	return apply_make(l, rc, op, o);
}

static int
op_backward(struct loader *l, const struct op *op)
{
	struct operands o = operands_make(l, op);
	const uint32_t *d = op->gradients;
	uint32_t output = l->slots[op->id].tensor;
	int rc = 0;

	switch (op->row->type) {
	case OP_GATHER:
	case OP_DOT:
	case OP_CONVOLUTION:
		return weighted_backward(l, op, &o);
	case OP_UNARY:
	case OP_SOFTMAX:
		if (d[0] == NONE)
			return 0;
		rc = launch_make(l, rc, op, "backward", SET(o.dy, o.input[0]), SET(d[0]));
		return apply_make(l, rc, op, &o);
	case OP_POWER:
		if (d[0] == NONE)
			return 0;
		return launch_make(l, rc, op, "backward",
				   SET(o.dy, o.input[0], o.input[1]), SET(d[0]));
	case OP_ADD:
		if (d[0] == NONE && d[1] == NONE)
			return 0;
		rc = launch_make(l, rc, op, "backward", SET(o.dy), SET(d[0], d[1]));
		return apply_make(l, rc, op, &o);
	case OP_MULTIPLY:
		for (uint32_t i = 0; i < 2; i++)
			if (d[i] != NONE)
				rc = launch_make(l, rc, op, "backward",
						 SET(o.dy, o.input[1 - i]), SET(d[i]));
		return apply_make(l, rc, op, &o);
	case OP_DIVIDE:
		if (d[0] != NONE)
			rc = launch_make(l, rc, op, "backward_numerator",
					 SET(o.input[1], o.dy), SET(d[0]));
		if (d[1] != NONE)
			rc = launch_make(l, rc, op, "backward_denominator",
					 SET(o.input[1], output, o.dy), SET(d[1]));
		return apply_make(l, rc, op, &o);
	}
	return 0;
}

/* Gather the pairs by operation, keeping their order. */
static int
d_outputs_gather(struct loader *l)
{
	uint32_t at = 0;

	l->by_op = malloc(l->n_d_outputs * sizeof(*l->by_op));
	if (!l->by_op)
		return sl_fail(-ENOMEM, "%s: no memory for the gradients", l->label);
	for (uint32_t k = 0; k < l->n_ops; k++) {
		l->ops[k].d_output_first = at;
		at += l->ops[k].n_d_outputs;
		l->ops[k].n_d_outputs = 0;
	}
	for (uint32_t i = 0; i < l->n_d_outputs; i++) {
		struct op *op = &l->ops[l->d_outputs[i].op];

		l->by_op[op->d_output_first + op->n_d_outputs++] = l->d_outputs[i].tensor;
	}
	return 0;
}

static int
launches_make(struct loader *l)
{
	const struct op *last = &l->ops[l->n_ops - 1];
	int rc = d_outputs_gather(l);

	for (uint32_t k = 0; !rc && k < l->n_ops; k++) {
		const struct op *op = &l->ops[k];
		uint32_t inputs[INPUTS_MAX];

		for (uint32_t i = 0; i < op->n_inputs; i++)
			inputs[i] = l->slots[op->inputs[i]].tensor;
		rc = launch_make(l, rc, op, "forward", inputs, op->n_inputs,
				 SET(l->slots[op->id].tensor));
	}
	if (rc)
		return rc;
	l->trace->n_forward = l->trace->n_launches;
	rc = sl_g10_launch(l->trace, "make_loss", SET(l->slots[last->id].tensor),
			   SET(l->by_op[last->d_output_first]));
	for (uint32_t k = l->n_ops; !rc && k-- > 0;) {
		const struct op *op = &l->ops[k];
		const uint32_t *dys = &l->by_op[op->d_output_first];

		l->token_line = op->line;
		if (op->n_d_outputs == 0)
			return loader_fail(l, "nobody takes this operation's output");
		if (op->n_d_outputs > 1)
			rc = launch_make(l, rc, op, "add_gradients", dys, op->n_d_outputs,
					 SET(dys[0]));
		if (!rc)
			rc = op_backward(l, op);
	}
	return rc;
}

int
sl_g10_ops_build(const char *text, size_t bytes, const char *label, uint32_t batch,
		 uint32_t global_border, struct sl_trace *trace)
{
	struct loader l = {
		.label = label,
		.at = text,
		.end = text + bytes,
		.line = 1,
		.batch = batch,
		.border = global_border,
		.trace = trace,
	};
	int rc = 0;

	l.slots = malloc(ID_MAX * sizeof(*l.slots));
	if (!l.slots)
		return sl_fail(-ENOMEM, "%s: no memory for the tensors", label);
	for (uint32_t id = 0; id < ID_MAX; id++)
		l.slots[id] = (struct slot){0, NONE, NONE};
	rc = ops_take(&l);
	if (!rc)
		rc = tensors_make(&l);
	if (!rc)
		rc = launches_make(&l);
	free(l.slots);
	free(l.ops);
	free(l.d_outputs);
	free(l.by_op);
	return rc;
}
