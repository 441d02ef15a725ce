/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutional networks of the paper G10's inputs: the printed module tree of PyTorch,
 * read into a graph of layers.
 *
 * Operators form a chain in the order of the text. Where the closing parenthesis of a
 * block of certain type names is reached, the layers that the print does not show
 * (additions, concatenations, scalings, some pools) are inserted and the block is wired
 * as the network really runs. What a type name means depends on the family, and a block
 * of such a name with an unexpected number of children is refused.
 *
 * The text is not trusted: nesting is bounded (an explicit stack, no recursion), numbers
 * and names are bounded, and every refusal names file and line. Shapes: import_g10_cnn.c.
 *
 * Threads: no state.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "g10/import_g10.h"

#define WORD_MAX     31 /* characters of an identifier */
#define DEPTH_MAX    64
#define CHILDREN_MAX 10 /* of a block whose type name means something */

enum token_type {
	TOKEN_END,
	TOKEN_WORD,
	TOKEN_INTEGER,
	TOKEN_REAL,
	TOKEN_SIGN, /* one of ( ) : = , */
};

struct token {
	enum token_type type;
	uint32_t line;
	char sign;
	uint32_t value;
	char word[WORD_MAX + 1];
};

/* An open parenthesis of the module tree. */
struct frame {
	char type[WORD_MAX + 1];
	uint32_t line;
	int is_sequential;
	uint32_t input; /* the layer before the block; SL_G10_NONE: the network's input */
	uint32_t n_children;
	/* First and last layer of the first CHILDREN_MAX children. */
	uint32_t first[CHILDREN_MAX], last[CHILDREN_MAX];
};

struct parser {
	const char *label;
	const char *at, *end;
	uint32_t line;
	enum sl_g10_family family;
	struct token token; /* the next one */
	struct sl_g10_net *net;
	struct frame frames[DEPTH_MAX];
	uint32_t depth;
};

/* ---- lexis ---- */

static int
syntax_fail(const struct parser *p, const char *expected)
{
	const struct token *token = &p->token;
	char sign[2] = {token->sign, '\0'};
	const char *found = "";

	switch (token->type) {
	case TOKEN_END:
		found = "the end of the file";
		break;
	case TOKEN_WORD:
		found = token->word;
		break;
	case TOKEN_INTEGER:
		found = "a whole number";
		break;
	case TOKEN_REAL:
		found = "a fraction";
		break;
	case TOKEN_SIGN:
		found = sign;
		break;
	}
	return sl_fail(-EINVAL, "%s: line %u: expected %s, found %s", p->label,
		       token->line, expected, found);
}

static int
is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Digits, or digits with a fraction or an exponent; the value of a fraction is not
 * kept. */
static int
number_read(struct parser *p)
{
	uint64_t value = 0;

	p->token.type = TOKEN_INTEGER;
	for (; p->at < p->end && isdigit((unsigned char)*p->at); p->at++) {
		value = value * 10 + (unsigned)(*p->at - '0');
		if (value > INT32_MAX)
			return sl_fail(-EINVAL, "%s: line %u: a number above 2^31",
				       p->label, p->line);
	}
	p->token.value = (uint32_t)value;
	if (p->at < p->end && *p->at == '.') {
		p->token.type = TOKEN_REAL;
		p->at++;
		while (p->at < p->end && isdigit((unsigned char)*p->at))
			p->at++;
	}
	if (p->at < p->end && *p->at == 'e') {
		p->token.type = TOKEN_REAL;
		p->at++;
		if (p->at < p->end && (*p->at == '-' || *p->at == '+'))
			p->at++;
		if (p->at == p->end || !isdigit((unsigned char)*p->at))
			return sl_fail(-EINVAL, "%s: line %u: an exponent without digits",
				       p->label, p->line);
		while (p->at < p->end && isdigit((unsigned char)*p->at))
			p->at++;
	}
	if (p->at < p->end && is_word_char(*p->at))
		return sl_fail(-EINVAL, "%s: line %u: a number runs into \"%c\"",
			       p->label, p->line, *p->at);
	return 0;
}

static int
token_next(struct parser *p)
{
	size_t length;

	while (p->at < p->end &&
	       (*p->at == ' ' || *p->at == '\t' || *p->at == '\r' || *p->at == '\n'))
		if (*p->at++ == '\n')
			p->line++;
	memset(&p->token, 0, sizeof(p->token));
	p->token.line = p->line;
	if (p->at == p->end)
		return 0; /* TOKEN_END */
	if (isdigit((unsigned char)*p->at))
		return number_read(p);
	if (strchr("():=,", *p->at) && *p->at) {
		p->token.type = TOKEN_SIGN;
		p->token.sign = *p->at++;
		return 0;
	}
	if (!is_word_char(*p->at))
		return sl_fail(-EINVAL,
			       "%s: line %u: a character (0x%02x) that means "
			       "nothing here",
			       p->label, p->line, (unsigned char)*p->at);
	for (length = 0; p->at < p->end && is_word_char(*p->at); length++, p->at++) {
		if (length == WORD_MAX)
			return sl_fail(-EINVAL,
				       "%s: line %u: a name longer than %u "
				       "characters",
				       p->label, p->line, WORD_MAX);
		p->token.word[length] = *p->at;
	}
	p->token.type = TOKEN_WORD;
	return 0;
}

static int
sign_is(const struct parser *p, char sign)
{
	return p->token.type == TOKEN_SIGN && p->token.sign == sign;
}

static int
word_is(const struct parser *p, const char *word)
{
	return p->token.type == TOKEN_WORD && strcmp(p->token.word, word) == 0;
}

static int
sign_take(struct parser *p, char sign)
{
	char expected[2] = {sign, '\0'};

	if (!sign_is(p, sign))
		return syntax_fail(p, expected);
	return token_next(p);
}

static int
integer_take(struct parser *p, uint32_t *out)
{
	if (p->token.type != TOKEN_INTEGER)
		return syntax_fail(p, "a whole number");
	*out = p->token.value;
	return token_next(p);
}

/* ---- operators ---- */

/* What stands behind "name=". */
enum value_type {
	VALUE_INTEGER,
	VALUE_PAIR, /* (INT, INT) */
	VALUE_BOOL,
	VALUE_REAL, /* checked, not kept */
};

/* One attribute of an operator, in the order of the text. name NULL: the value alone. */
struct attribute {
	const char *name;
	enum value_type type;
	int optional;
	size_t at; /* offset of the uint32_t (two for a pair) or int in the layer */
};

#define AT(member) offsetof(struct sl_g10_layer, member)
#define UNUSED     SIZE_MAX

static int
value_take(struct parser *p, const struct attribute *a, struct sl_g10_layer *layer)
{
	char *to = a->at == UNUSED ? NULL : (char *)layer + a->at;
	uint32_t values[2] = {0, 0};
	int rc = 0;

	switch (a->type) {
	case VALUE_INTEGER:
		rc = integer_take(p, &values[0]);
		break;
	case VALUE_PAIR:
		rc = sign_take(p, '(');
		if (!rc)
			rc = integer_take(p, &values[0]);
		if (!rc)
			rc = sign_take(p, ',');
		if (!rc)
			rc = integer_take(p, &values[1]);
		if (!rc)
			rc = sign_take(p, ')');
		break;
	case VALUE_BOOL:
		if (!word_is(p, "True") && !word_is(p, "False"))
			return syntax_fail(p, "True or False");
		values[0] = word_is(p, "True");
		rc = token_next(p);
		break;
	case VALUE_REAL:
		if (p->token.type != TOKEN_REAL && p->token.type != TOKEN_INTEGER)
			return syntax_fail(p, "a number");
		rc = token_next(p);
		break;
	}
	if (!rc && to)
		memcpy(to, values,
		       a->type == VALUE_PAIR ? sizeof(values) : sizeof(values[0]));
	return rc;
}

/* "(" attributes ")". at_least: how many of the optional ones must be there. */
static int
attributes_take(struct parser *p, const struct attribute *attributes, size_t n,
		unsigned at_least, struct sl_g10_layer *layer)
{
	unsigned optional = 0;
	int first = 1;
	int rc = sign_take(p, '(');

	for (size_t i = 0; !rc && i < n; i++) {
		const struct attribute *a = &attributes[i];

		if (a->optional && sign_is(p, ')'))
			break;
		if (!first && sign_is(p, ',')) {
			rc = token_next(p);
			if (rc)
				return rc;
			first = 1; /* the comma is taken, for the next attribute too */
		} else if (!first) {
			return syntax_fail(p, ",");
		}
		if (a->optional && a->name && !word_is(p, a->name))
			continue;
		if (a->name) {
			if (!word_is(p, a->name))
				return syntax_fail(p, a->name);
			rc = token_next(p);
			if (!rc)
				rc = sign_take(p, '=');
		}
		if (!rc)
			rc = value_take(p, a, layer);
		optional += (unsigned)a->optional;
		first = 0;
	}
	if (rc)
		return rc;
	if (first || optional < at_least)
		return syntax_fail(p, "another attribute");
	return sign_take(p, ')');
}

static const struct attribute conv_attributes[] = {
	{NULL, VALUE_INTEGER, 0, AT(channels_in)},
	{NULL, VALUE_INTEGER, 0, AT(channels_out)},
	{"kernel_size", VALUE_PAIR, 0, AT(kernel_h)},
	{"stride", VALUE_PAIR, 0, AT(stride_h)},
	{"padding", VALUE_PAIR, 1, AT(pad_h)},
	{"bias", VALUE_BOOL, 1, UNUSED}, /* the published loader ignores it */
};
static const struct attribute relu_attributes[] = {
	{"inplace", VALUE_BOOL, 0, AT(in_place)},
};
static const struct attribute max_pool_attributes[] = {
	{"kernel_size", VALUE_INTEGER, 0, AT(kernel_h)},
	{"stride", VALUE_INTEGER, 0, AT(stride_h)},
	{"padding", VALUE_INTEGER, 0, AT(pad_h)},
	{"dilation", VALUE_INTEGER, 0, UNUSED},
	{"ceil_mode", VALUE_BOOL, 0, UNUSED},
};
static const struct attribute average_pool_attributes[] = {
	{"output_size", VALUE_PAIR, 0, AT(out_h)},
};
static const struct attribute linear_attributes[] = {
	{"in_features", VALUE_INTEGER, 0, AT(features_in)},
	{"out_features", VALUE_INTEGER, 0, AT(features_out)},
	{"bias", VALUE_BOOL, 0, AT(has_bias)},
};
static const struct attribute dropout_attributes[] = {
	{"p", VALUE_REAL, 0, UNUSED},
	{"inplace", VALUE_BOOL, 0, AT(in_place)},
};
static const struct attribute batch_norm_attributes[] = {
	{NULL, VALUE_INTEGER, 0, AT(channels_in)},
	{"eps", VALUE_REAL, 0, UNUSED},
	{"momentum", VALUE_REAL, 0, UNUSED},
	{"affine", VALUE_BOOL, 0, UNUSED},
	{"track_running_stats", VALUE_BOOL, 0, AT(tracks)},
};

#define ROW(word, type, list, at_least)                                      \
	{                                                                    \
		word, list, sizeof(list) / sizeof((list)[0]), type, at_least \
	}

static const struct operator_row {
	const char *word;
	const struct attribute *attributes;
	size_t n_attributes;
	enum sl_g10_layer_type type;
	unsigned at_least; /* of the optional ones */
} operators[] = {
	ROW("Conv2d", SL_G10_CONV, conv_attributes, 1),
	ROW("ReLU", SL_G10_RELU, relu_attributes, 0),
	ROW("MaxPool2d", SL_G10_MAX_POOL, max_pool_attributes, 0),
	ROW("AdaptiveAvgPool2d", SL_G10_AVERAGE_POOL, average_pool_attributes, 0),
	ROW("Linear", SL_G10_LINEAR, linear_attributes, 0),
	ROW("Dropout", SL_G10_DROPOUT, dropout_attributes, 0),
	ROW("BatchNorm2d", SL_G10_BATCH_NORM, batch_norm_attributes, 0),
};

static const struct operator_row *
operator_find(const char *word)
{
	for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
		if (strcmp(operators[i].word, word) == 0)
			return &operators[i];
	return NULL;
}

/* ---- layers ---- */

static struct sl_g10_layer
layer_make(enum sl_g10_layer_type type, uint32_t line)
{
	return (struct sl_g10_layer){.type = type,
				     .line = line,
				     .n_inputs = 1,
				     .size_of = SL_G10_NONE};
}

/* Insert before layer `at`; the layers behind it, all of the innermost block, move up and
 * what they refer to with them. */
static int
layer_insert(struct parser *p, uint32_t at, const struct sl_g10_layer *layer)
{
	struct sl_g10_net *net = p->net;

	if (net->n_layers >= SL_G10_LAYERS_MAX)
		return sl_fail(-E2BIG, "%s: line %u: more than %u layers", p->label,
			       p->token.line, SL_G10_LAYERS_MAX);
	if (net->n_layers == net->max_layers) {
		uint32_t more = net->max_layers ? net->max_layers * 2 : 64;
		void *grown = reallocarray(net->layers, more, sizeof(*net->layers));

		if (!grown)
			return sl_fail(-ENOMEM, "%s: no memory for the layers", p->label);
		net->layers = grown;
		net->max_layers = more;
	}
	memmove(&net->layers[at + 1], &net->layers[at],
		(net->n_layers - at) * sizeof(*net->layers));
	net->layers[at] = *layer;
	net->n_layers++;
	for (uint32_t i = at + 1; i < net->n_layers; i++) {
		struct sl_g10_layer *moved = &net->layers[i];

		for (uint32_t j = 0; j < moved->n_inputs; j++)
			if (moved->inputs[j] != SL_G10_NONE && moved->inputs[j] >= at)
				moved->inputs[j]++;
		if (moved->size_of != SL_G10_NONE && moved->size_of >= at)
			moved->size_of++;
	}
	return 0;
}

/* ---- blocks that are more than the chain ---- */

struct wiring {
	struct parser *p;
	struct frame *frame;
	int rc; /* first failure; later steps do nothing */
};

/* Insert a layer before `at` of the block (the end for SL_G10_NONE); returns its
 * number. */
static uint32_t
wire_insert(struct wiring *w, uint32_t at, const struct sl_g10_layer *layer)
{
	struct frame *frame = w->frame;

	if (w->rc)
		return 0;
	if (at == SL_G10_NONE)
		at = w->p->net->n_layers;
	w->rc = layer_insert(w->p, at, layer);
	for (uint32_t c = 0; c < frame->n_children; c++) {
		if (frame->first[c] >= at)
			frame->first[c]++;
		if (frame->last[c] >= at)
			frame->last[c]++;
	}
	return at;
}

/* The first layer of child c takes its input from layer `input`. */
static void
wire_child(struct wiring *w, uint32_t c, uint32_t input)
{
	if (!w->rc)
		w->p->net->layers[w->frame->first[c]].inputs[0] = input;
}

static uint32_t
wire_join(struct wiring *w, uint32_t at, enum sl_g10_layer_type type, uint32_t n,
	  const uint32_t *inputs)
{
	struct sl_g10_layer layer = layer_make(type, w->frame->line);

	layer.n_inputs = n;
	memcpy(layer.inputs, inputs, n * sizeof(*inputs));
	return wire_insert(w, at, &layer);
}

#define INPUTS(...)         \
	(const uint32_t[])  \
	{                   \
		__VA_ARGS__ \
	}

static uint32_t
wire_pool(struct wiring *w, uint32_t at, uint32_t stride, uint32_t pad)
{
	struct sl_g10_layer layer = layer_make(SL_G10_MAX_POOL, w->frame->line);

	layer.inputs[0] = w->frame->input;
	layer.kernel_h = layer.kernel_w = 3;
	layer.stride_h = layer.stride_w = stride;
	layer.pad_h = layer.pad_w = pad;
	return wire_insert(w, at, &layer);
}

static uint32_t
wire_scale(struct wiring *w, uint32_t at, uint32_t input)
{
	struct sl_g10_layer layer = layer_make(SL_G10_SCALE, w->frame->line);

	layer.inputs[0] = input;
	return wire_insert(w, at, &layer);
}

/* Residual block; the last child is the side branch where there is one. */
static void
wire_residual(struct wiring *w, uint32_t plain_children)
{
	const struct frame *f = w->frame;
	uint32_t n = f->n_children;

	if (n == plain_children) {
		wire_join(w, SL_G10_NONE, SL_G10_ADD, 2, INPUTS(f->input, f->last[n - 1]));
		return;
	}
	wire_child(w, n - 1, f->input);
	wire_join(w, SL_G10_NONE, SL_G10_ADD, 2, INPUTS(f->last[n - 2], f->last[n - 1]));
}

static void
wire_bottleneck(struct wiring *w)
{
	wire_residual(w, 7);
}

static void
wire_basic_block(struct wiring *w)
{
	wire_residual(w, 5);
}

/* Branches 0 | 1-2 | 3-5 | pool, 6. */
static void
wire_inception_a(struct wiring *w)
{
	const struct frame *f = w->frame;

	wire_child(w, 1, f->input);
	wire_child(w, 3, f->input);
	wire_child(w, 6, wire_pool(w, f->first[6], 1, 1));
	wire_join(w, SL_G10_NONE, SL_G10_CONCAT, 4,
		  INPUTS(f->last[0], f->last[2], f->last[5], f->last[6]));
}

/* 0 | 1-3 | pool. */
static void
wire_inception_b(struct wiring *w)
{
	const struct frame *f = w->frame;
	uint32_t pool;

	wire_child(w, 1, f->input);
	pool = wire_pool(w, SL_G10_NONE, 2, 0);
	wire_join(w, SL_G10_NONE, SL_G10_CONCAT, 3, INPUTS(f->last[0], f->last[3], pool));
}

/* 0 | 1-3 | 4-8 | pool, 9. */
static void
wire_inception_c(struct wiring *w)
{
	const struct frame *f = w->frame;

	wire_child(w, 1, f->input);
	wire_child(w, 4, f->input);
	wire_child(w, 9, wire_pool(w, f->first[9], 1, 1));
	wire_join(w, SL_G10_NONE, SL_G10_CONCAT, 4,
		  INPUTS(f->last[0], f->last[3], f->last[8], f->last[9]));
}

/* 0-1 | 2-5 | pool. */
static void
wire_inception_d(struct wiring *w)
{
	const struct frame *f = w->frame;
	uint32_t pool;

	wire_child(w, 2, f->input);
	pool = wire_pool(w, SL_G10_NONE, 2, 0);
	wire_join(w, SL_G10_NONE, SL_G10_CONCAT, 3, INPUTS(f->last[1], f->last[5], pool));
}

/* 0 | 1 then 2 beside 3, joined | 4, 5 then 6 beside 7, joined | pool, 8. */
static void
wire_inception_e(struct wiring *w)
{
	const struct frame *f = w->frame;
	uint32_t left, right;

	wire_child(w, 1, f->input);
	wire_child(w, 3, f->last[1]);
	left = wire_join(w, f->first[4], SL_G10_CONCAT, 2, INPUTS(f->last[2], f->last[3]));
	wire_child(w, 4, f->input);
	wire_child(w, 7, f->last[5]);
	right = wire_join(w, f->first[8], SL_G10_CONCAT, 2, INPUTS(f->last[6], f->last[7]));
	wire_child(w, 8, wire_pool(w, f->first[8], 1, 1));
	wire_join(w, SL_G10_NONE, SL_G10_CONCAT, 4,
		  INPUTS(f->last[0], left, right, f->last[8]));
}

/* body, se, [identity], activation: se's output is expanded and added to the block's
 * input or its identity branch. */
static void
wire_senet_unit(struct wiring *w)
{
	const struct frame *f = w->frame;
	uint32_t scale, add, other, activation = f->n_children - 1;

	scale = wire_scale(w, f->first[2], f->last[1]);
	other = f->input;
	if (f->n_children == 4) {
		wire_child(w, 2, f->input);
		other = f->last[2];
	}
	if (!w->rc)
		w->p->net->layers[scale].size_of = other;
	add = wire_join(w, f->first[activation], SL_G10_ADD, 2, INPUTS(scale, other));
	wire_child(w, activation, add);
}

static const struct block_row {
	const char *type;
	enum sl_g10_family family;
	uint32_t children[2]; /* the numbers that are known */
	void (*wire)(struct wiring *w);
} blocks[] = {
	{"Bottleneck", SL_G10_RESNET, {7, 8}, wire_bottleneck},
	{"BasicBlock", SL_G10_RESNET, {5, 6}, wire_basic_block},
	{"InceptionA", SL_G10_INCEPTION, {7, 7}, wire_inception_a},
	{"InceptionB", SL_G10_INCEPTION, {4, 4}, wire_inception_b},
	{"InceptionC", SL_G10_INCEPTION, {10, 10}, wire_inception_c},
	{"InceptionD", SL_G10_INCEPTION, {6, 6}, wire_inception_d},
	{"InceptionE", SL_G10_INCEPTION, {9, 9}, wire_inception_e},
	{"SENetUnit", SL_G10_SENET, {3, 4}, wire_senet_unit},
};

static int
block_wire(struct parser *p, struct frame *frame)
{
	struct wiring w = {.p = p, .frame = frame};

	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		const struct block_row *row = &blocks[i];

		if (row->family != p->family || strcmp(row->type, frame->type) != 0)
			continue;
		if (frame->n_children != row->children[0] &&
		    frame->n_children != row->children[1])
			return sl_fail(-EINVAL,
				       "%s: line %u: a %s with %u children; known are %u "
				       "and %u",
				       p->label, frame->line, row->type, frame->n_children,
				       row->children[0], row->children[1]);
		if (frame->input == SL_G10_NONE)
			return sl_fail(-EINVAL, "%s: line %u: a %s cannot be the first of a network",
				       p->label, frame->line, row->type);
		row->wire(&w);
		return w.rc;
	}
	return 0;
}

/* ---- the tree ---- */

static int
frame_push(struct parser *p, const char *type, int is_sequential)
{
	struct frame *frame;

	if (p->depth == DEPTH_MAX)
		return sl_fail(-EINVAL, "%s: line %u: more than %u blocks inside each other",
			       p->label, p->token.line, DEPTH_MAX);
	frame = &p->frames[p->depth++];
	memset(frame, 0, sizeof(*frame));
	memcpy(frame->type, type, strlen(type) + 1);
	frame->line = p->token.line;
	frame->is_sequential = is_sequential;
	frame->input = p->net->n_layers ? p->net->n_layers - 1 : SL_G10_NONE;
	return 0;
}

/* A child of the innermost block is complete; its layers began at first. */
static void
child_done(struct parser *p, uint32_t first)
{
	struct frame *frame = &p->frames[p->depth - 1];

	if (frame->n_children < CHILDREN_MAX) {
		frame->first[frame->n_children] = first;
		frame->last[frame->n_children] = p->net->n_layers - 1;
	}
	frame->n_children++;
}

static int
operator_take(struct parser *p, const struct operator_row *row)
{
	uint32_t n = p->net->n_layers;
	struct sl_g10_layer layer = layer_make(row->type, p->token.line);
	int rc = token_next(p);

	if (!rc)
		rc = attributes_take(p, row->attributes, row->n_attributes, row->at_least,
				     &layer);
	if (rc)
		return rc;
	if (n == 0 && row->type != SL_G10_CONV)
		return sl_fail(-EINVAL, "%s: line %u: the first operator must be a Conv2d",
			       p->label, layer.line);
	if (row->type == SL_G10_MAX_POOL) {
		layer.kernel_w = layer.kernel_h;
		layer.stride_w = layer.stride_h;
		layer.pad_w = layer.pad_h;
	}
	layer.inputs[0] = n ? n - 1 : SL_G10_NONE;
	rc = layer_insert(p, n, &layer);
	if (!rc)
		child_done(p, n);
	return rc;
}

/* "(" NAME ")" ":" and what it names: an operator, or the opening of a block. */
static int
item_take(struct parser *p)
{
	const struct frame *frame = &p->frames[p->depth - 1];
	const struct operator_row *row;
	char type[WORD_MAX + 1];
	int is_sequential;
	int rc = sign_take(p, '(');

	if (rc)
		return rc;
	if (p->token.type != TOKEN_WORD &&
	    !(p->token.type == TOKEN_INTEGER && frame->is_sequential))
		return syntax_fail(p, "a layer's name");
	rc = token_next(p);
	if (!rc)
		rc = sign_take(p, ')');
	if (!rc)
		rc = sign_take(p, ':');
	if (rc)
		return rc;
	if (p->token.type != TOKEN_WORD)
		return syntax_fail(p, "an operator or a block");
	row = operator_find(p->token.word);
	if (row)
		return operator_take(p, row);
	is_sequential = word_is(p, "Sequential");
	if (is_sequential && frame->is_sequential)
		return sl_fail(-EINVAL, "%s: line %u: a Sequential directly inside another",
			       p->label, p->token.line);
	memcpy(type, p->token.word, sizeof(type));
	rc = token_next(p);
	if (!rc)
		rc = sign_take(p, '(');
	if (!rc)
		rc = frame_push(p, type, is_sequential);
	return rc;
}

/* ")": the innermost block is complete. */
static int
block_close(struct parser *p)
{
	struct frame *frame = &p->frames[p->depth - 1];
	uint32_t first = frame->input == SL_G10_NONE ? 0 : frame->input + 1;
	int rc;

	if (frame->n_children == 0)
		return syntax_fail(p, "a layer of the block");
	rc = token_next(p);
	if (!rc)
		rc = block_wire(p, frame);
	if (rc)
		return rc;
	p->depth--;
	if (p->depth > 0)
		child_done(p, first);
	return 0;
}

static int
net_take(struct parser *p)
{
	char type[WORD_MAX + 1];
	int rc = token_next(p);

	if (rc)
		return rc;
	if (p->token.type != TOKEN_WORD || operator_find(p->token.word) ||
	    word_is(p, "Sequential"))
		return syntax_fail(p, "the network's name");
	memcpy(type, p->token.word, sizeof(type));
	rc = token_next(p);
	if (!rc)
		rc = sign_take(p, '(');
	if (!rc)
		rc = frame_push(p, type, 0);
	while (!rc && p->depth > 0)
		rc = sign_is(p, ')') ? block_close(p) : item_take(p);
	if (!rc && p->token.type != TOKEN_END)
		rc = syntax_fail(p, "the end of the file");
	return rc;
}

int
sl_g10_net_parse(const char *text, size_t bytes, const char *label,
		 enum sl_g10_family family, struct sl_g10_net *out)
{
	struct sl_g10_net net = {0};
	struct parser *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return sl_fail(-ENOMEM, "%s: no memory to read it", label);
	p->label = label;
	p->at = text;
	p->end = text + bytes;
	p->line = 1;
	p->family = family;
	p->net = &net;
	rc = net_take(p);
	free(p);
	if (rc) {
		sl_g10_net_fini(&net);
		return rc;
	}
	*out = net;
	return 0;
}

void
sl_g10_net_fini(struct sl_g10_net *net)
{
	free(net->layers);
	memset(net, 0, sizeof(*net));
}
