/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Importer of the published inputs of the paper G10: one network and one batch size
 * become one trace of one period.
 *
 * Here: which files belong to a model, the times and workspaces of its kernels, and
 * putting them together with the network's tensors and launches (import_g10_cnn.c,
 * import_g10_ops.c). Times become ticks of a 1.2 GHz clock, cut to whole ones; a time
 * with faults is raised to the time with fewer. Workspaces become tensors behind all
 * others, one per kernel.
 *
 * Threads: no state. Blocks on reading the files.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/nearest.h"
#include "g10/import_g10.h"
#include "trace/trace_file.h"

#define FILE_BYTES_MAX ((size_t)64 << 20)
#define PATH_BYTES     4096

/* What is fixed for the models of the paper. */
static const struct model {
	const char *name;
	enum sl_g10_family family;
	uint32_t input_hw, global_border;
} models[] = {
	{"BERT_Base", SL_G10_TRANSFORMER, 0, 210}, {"VIT", SL_G10_TRANSFORMER, 0, 184},
	{"Inceptionv3", SL_G10_INCEPTION, 299, 0}, {"ResNet152", SL_G10_RESNET, 224, 0},
	{"SENet154", SL_G10_SENET, 224, 0},
};

static const char *const family_words[SL_G10_FAMILY_COUNT] = {
	[SL_G10_PLAIN] = "plain",
	[SL_G10_RESNET] = "resnet",
	[SL_G10_INCEPTION] = "inception",
	[SL_G10_SENET] = "senet",
	[SL_G10_TRANSFORMER] = "transformer",
};

/* ---- shared with the builders ---- */

int
sl_g10_tensor(struct sl_trace *trace, const char *label, const uint64_t *factors,
	      unsigned n_factors, enum sl_tensor_kind kind, const char *name,
	      uint32_t *number)
{
	uint64_t bytes = SL_G10_ELEMENT_BYTES;

	for (unsigned i = 0; i < n_factors; i++)
		if (__builtin_mul_overflow(bytes, factors[i], &bytes) ||
		    bytes > SL_TRACE_SIZE_MAX)
			return sl_fail(-EINVAL,
				       "%s: tensor %s would have more than 2^50 "
				       "bytes",
				       label, name);
	if (bytes == 0)
		return sl_fail(-EINVAL, "%s: tensor %s would be empty", label, name);
	bytes = (bytes + SL_G10_PAGE_BYTES - 1) / SL_G10_PAGE_BYTES * SL_G10_PAGE_BYTES;
	return sl_trace_add_tensor(trace, bytes, kind, name, number);
}

int
sl_g10_launch(struct sl_trace *trace, const char *name, const uint32_t *inputs,
	      unsigned n_inputs, const uint32_t *outputs, unsigned n_outputs)
{
	int rc = sl_trace_add_launch(trace, 1, name, NULL);

	for (unsigned i = 0; !rc && i < n_inputs; i++)
		if (inputs[i] != SL_G10_NONE)
			rc = sl_trace_add_use(trace, inputs[i], SLUICE_USE_READ);
	for (unsigned i = 0; !rc && i < n_outputs; i++)
		if (outputs[i] != SL_G10_NONE)
			rc = sl_trace_add_use(trace, outputs[i], SLUICE_USE_WRITE_ALL);
	return rc;
}

/* ---- what to import ---- */

/* A name that is not in models[]: which are, and the one that was probably meant. */
static int
model_unknown(const char *name)
{
	struct sl_nearest nearest = {.word = name};
	char known[256] = "";
	size_t used = 0;

	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		sl_nearest_offer(&nearest, models[i].name);
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
					 i ? ", " : "", models[i].name);
	}
	return sl_fail(-EINVAL,
		       "import g10: model %s is not one of the paper's (%s)%s%s%s; "
		       "of another model, say its family",
		       name, known, sl_nearest_name(&nearest) ? "; did you mean " : "",
		       sl_nearest_name(&nearest) ? sl_nearest_name(&nearest) : "",
		       sl_nearest_name(&nearest) ? "?" : "");
}

struct request {
	const char *directory, *model;
	uint32_t batch, input_h, input_w, border;
	enum sl_g10_family family;
};

static int
request_make(const struct sl_import_g10 *import, struct request *out)
{
	struct request r = {
		.directory = import->directory,
		.model = import->model,
		.batch = import->batch,
		.family = SL_G10_FAMILY_COUNT,
	};

	if (!r.directory || !r.model || !r.model[0])
		return sl_fail(-EINVAL, "import g10: a directory and a model are needed");
	if (strchr(r.model, '/') || strlen(r.model) > 64)
		return sl_fail(-EINVAL, "import g10: \"%.64s\" is not a model's name",
			       r.model);
	if (r.batch == 0 || r.batch > SL_G10_BATCH_MAX)
		return sl_fail(-EINVAL, "import g10: a batch size of %u; it must be 1 to %u",
			       r.batch, SL_G10_BATCH_MAX);
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
		if (strcmp(models[i].name, r.model) == 0) {
			r.family = models[i].family;
			r.input_h = r.input_w = models[i].input_hw;
			r.border = models[i].global_border;
		}
	if (import->family) {
		r.family = SL_G10_FAMILY_COUNT;
		for (unsigned f = 0; f < SL_G10_FAMILY_COUNT; f++)
			if (strcmp(family_words[f], import->family) == 0)
				r.family = (enum sl_g10_family)f;
		if (r.family == SL_G10_FAMILY_COUNT)
			return sl_fail(-EINVAL,
				       "import g10: no family \"%.64s\"; known are "
				       "plain, resnet, inception, senet and transformer",
				       import->family);
	}
	if (import->input_h)
		r.input_h = import->input_h;
	if (import->input_w)
		r.input_w = import->input_w;
	if (import->global_border)
		r.border = import->global_border;
	if (r.family == SL_G10_FAMILY_COUNT)
		return model_unknown(r.model);
	if (r.family == SL_G10_TRANSFORMER && r.border == 0)
		return sl_fail(-EINVAL,
			       "import g10: model %s needs the border of its global "
			       "ids",
			       r.model);
	if (r.family != SL_G10_TRANSFORMER && (r.input_h == 0 || r.input_w == 0))
		return sl_fail(-EINVAL,
			       "import g10: model %s needs the height and width of "
			       "its input",
			       r.model);
	*out = r;
	return 0;
}

/* ---- the network ---- */

static int
net_import(const struct request *r, struct sl_trace *trace)
{
	SL_CLEANUP(free) char *text = NULL;
	struct sl_g10_net net = {0};
	char path[PATH_BYTES];
	size_t bytes;
	int rc;

	if (snprintf(path, sizeof(path), "%s/frontend/Nets/%s.txt", r->directory,
		     r->model) >= (int)sizeof(path))
		return sl_fail(-ENAMETOOLONG,
			       "import g10: the directory's name is too long");
	rc = sl_trace_file_load(path, FILE_BYTES_MAX, &text, &bytes);
	if (rc)
		return rc;
	if (r->family == SL_G10_TRANSFORMER)
		return sl_g10_ops_build(text, bytes, path, r->batch, r->border, trace);
	rc = sl_g10_net_parse(text, bytes, path, r->family, &net);
	if (!rc)
		rc = sl_g10_cnn_build(&net, path, r->batch, r->input_h, r->input_w, trace);
	sl_g10_net_fini(&net);
	return rc;
}

/* ---- times and workspaces ---- */

/* One field of a line: up to a blank; empty at the end of the line. */
struct field {
	const char *at;
	size_t length;
};

static struct field
field_next(const char **at, const char *end)
{
	struct field field;

	while (*at < end && (**at == ' ' || **at == '\t' || **at == '\r'))
		(*at)++;
	field.at = *at;
	while (*at < end && **at != ' ' && **at != '\t' && **at != '\r' && **at != '\n')
		(*at)++;
	field.length = (size_t)(*at - field.at);
	return field;
}

/* A whole number of a field. */
static int
field_number(struct field field, uint64_t max, uint64_t *out)
{
	uint64_t value = 0;

	if (field.length == 0)
		return -EINVAL;
	for (size_t i = 0; i < field.length; i++) {
		unsigned digit = (unsigned char)field.at[i] - (unsigned)'0';

		if (digit > 9 || value > (max - digit) / 10)
			return -EINVAL;
		value = value * 10 + digit;
	}
	*out = value;
	return 0;
}

/* Milliseconds with a fraction, as ticks: the whole part of MS x HZ / 1000, in double
 * precision and in this order. Exact arithmetic gives a tick more here and there,
 * another order a tick more or less, and the published sums come out of this one only. */
static int
field_ticks(struct field field, uint64_t *out)
{
	uint64_t digits = 0;
	double scale = 1, ticks;
	int in_fraction = 0;

	for (size_t i = 0; i < field.length; i++) {
		if (field.at[i] == '.' && i > 0 && !in_fraction) {
			in_fraction = 1;
			continue;
		}
		if (!isdigit((unsigned char)field.at[i]))
			return -EINVAL;
		digits = digits * 10 + (unsigned)(field.at[i] - '0');
		if (digits > (uint64_t)1 << 53)
			return -EINVAL;
		if (in_fraction)
			scale *= 10;
	}
	/* Both are exact (at most 16 digits), so that the quotient is the number's
	 * nearest. */
	ticks = (double)digits / scale * (double)SL_G10_CLOCK_HZ / 1000;
	if (field.length == 0 || ticks >= (double)SL_TRACE_TICKS_MAX)
		return -EINVAL;
	*out = (uint64_t)ticks;
	return 0;
}

/* One file of n lines "KERNEL VALUE UNIT". suffix: "", "PF", ...; is_time:
 * milliseconds, else bytes. */
static int
values_read(const struct request *r, const char *suffix, int is_time, uint64_t *values,
	    uint32_t n)
{
	SL_CLEANUP(free) char *text = NULL;
	const char *unit = is_time ? "ms" : "B";
	char path[PATH_BYTES];
	const char *at, *end;
	size_t bytes;
	int rc;

	if (snprintf(path, sizeof(path), "%s/results/%s/cudnn%u%s.txt", r->directory,
		     r->model, r->batch, suffix) >= (int)sizeof(path))
		return sl_fail(-ENAMETOOLONG,
			       "import g10: the directory's name is too long");
	rc = sl_trace_file_load(path, FILE_BYTES_MAX, &text, &bytes);
	if (rc)
		return rc;
	at = text;
	end = text + bytes;
	for (uint32_t k = 0; k < n; k++) {
		struct field id, value, word;
		uint64_t number;

		if (at == end)
			return sl_fail(-EINVAL,
				       "%s: ends after %u lines; the network has %u "
				       "kernels",
				       path, k, n);
		id = field_next(&at, end);
		value = field_next(&at, end);
		word = field_next(&at, end);
		if (field_number(id, UINT32_MAX, &number) || number != k)
			return sl_fail(-EINVAL,
				       "%s: line %u: the kernel's number is "
				       "\"%.*s\"; it must be %u",
				       path, k + 1, id.length < 32 ? (int)id.length : 32,
				       id.at, k);
		if (is_time ? field_ticks(value, &values[k])
			    : field_number(value, SL_TRACE_SIZE_MAX, &values[k]))
			return sl_fail(-EINVAL,
				       "%s: line %u: \"%.*s\" is not a number of %s", path,
				       k + 1, value.length < 32 ? (int)value.length : 32,
				       value.at, is_time ? "milliseconds" : "bytes");
		if (is_time && values[k] == 0)
			return sl_fail(-EINVAL, "%s: line %u: a time of 0", path, k + 1);
		if (word.length != strlen(unit) || memcmp(word.at, unit, word.length))
			return sl_fail(-EINVAL,
				       "%s: line %u: the unit is \"%.*s\"; it must "
				       "be %s",
				       path, k + 1, word.length < 32 ? (int)word.length : 32,
				       word.at, unit);
		if (field_next(&at, end).length > 0)
			return sl_fail(-EINVAL, "%s: line %u: more than three fields",
				       path, k + 1);
		if (at < end)
			at++; /* the newline; the last line may have none */
	}
	while (at < end && isspace((unsigned char)*at))
		at++;
	if (at < end)
		return sl_fail(-EINVAL,
			       "%s: goes on after line %u; the network has %u "
			       "kernels",
			       path, n, n);
	return 0;
}

struct values {
	uint64_t *ticks, *output_ticks, *all_ticks, *workspace_bytes;
};

static void
values_fini(struct values *v)
{
	free(v->ticks);
	free(v->output_ticks);
	free(v->all_ticks);
	free(v->workspace_bytes);
}

static int
values_load(const struct request *r, uint32_t n, struct values *v)
{
	int rc;

	v->ticks = calloc(n, sizeof(*v->ticks));
	v->output_ticks = calloc(n, sizeof(*v->output_ticks));
	v->all_ticks = calloc(n, sizeof(*v->all_ticks));
	v->workspace_bytes = calloc(n, sizeof(*v->workspace_bytes));
	if (!v->ticks || !v->output_ticks || !v->all_ticks || !v->workspace_bytes)
		return sl_fail(-ENOMEM, "import g10: no memory for %u kernels", n);
	rc = values_read(r, "", 1, v->ticks, n);
	if (!rc)
		rc = values_read(r, "InputPF", 1, v->output_ticks, n);
	if (!rc)
		rc = values_read(r, "PF", 1, v->all_ticks, n);
	if (!rc)
		rc = values_read(r, "Workspace", 0, v->workspace_bytes, n);
	for (uint32_t k = 0; !rc && k < n; k++) {
		if (v->output_ticks[k] < v->ticks[k])
			v->output_ticks[k] = v->ticks[k];
		if (v->all_ticks[k] < v->output_ticks[k])
			v->all_ticks[k] = v->output_ticks[k];
	}
	return rc;
}

/* ---- putting it together ---- */

static int
tensors_copy(const struct sl_trace *net, const struct values *v, struct sl_trace *trace)
{
	int rc = 0;

	for (uint32_t t = 0; !rc && t < net->n_tensors; t++)
		rc = sl_trace_add_tensor(trace, net->tensors[t].size_bytes,
					 net->tensors[t].kind,
					 sl_trace_name(net, net->tensors[t].name), NULL);
	for (uint32_t k = 0; !rc && k < net->n_launches; k++) {
		uint64_t bytes = v->workspace_bytes[k];
		char name[48];

		if (bytes == 0)
			continue;
		bytes = (bytes + SL_G10_PAGE_BYTES - 1) / SL_G10_PAGE_BYTES *
			SL_G10_PAGE_BYTES;
		snprintf(name, sizeof(name), "workspace%u", k);
		rc = sl_trace_add_tensor(trace, bytes, SL_TENSOR_WORKSPACE, name, NULL);
	}
	return rc;
}

static int
launches_copy(const struct sl_trace *net, const struct values *v, struct sl_trace *trace)
{
	uint32_t workspace = net->n_tensors;
	int rc = 0;

	for (uint32_t k = 0; !rc && k < net->n_launches; k++) {
		const struct sl_trace_launch *from = &net->launches[k];

		rc = sl_trace_add_launch(trace, v->ticks[k],
					 sl_trace_name(net, from->name), NULL);
		if (rc)
			break;
		trace->launches[k].fault_output_ticks = v->output_ticks[k];
		trace->launches[k].fault_all_ticks = v->all_ticks[k];
		for (uint32_t i = 0; !rc && i < from->n_uses; i++)
			rc = sl_trace_add_use(trace, net->uses[from->first_use + i].tensor,
					      net->uses[from->first_use + i].intent);
		if (!rc && v->workspace_bytes[k])
			rc = sl_trace_add_use(trace, workspace++, SLUICE_USE_SCRATCH);
	}
	return rc;
}

static int
source_set(const struct request *r, struct sl_trace *trace)
{
	char source[128];

	snprintf(source, sizeof(source), "paper G10: %s, batch %u", r->model, r->batch);
	return sl_trace_set_source(trace, source);
}

int
sl_trace_import_g10_net(const struct sl_import_g10 *import, struct sl_trace **out)
{
	struct sl_trace *trace = NULL;
	struct request r;
	int rc = request_make(import, &r);

	if (!rc)
		rc = sl_trace_create(SL_G10_CLOCK_HZ, &trace);
	if (!rc)
		rc = source_set(&r, trace);
	if (!rc)
		rc = net_import(&r, trace);
	if (!rc)
		rc = sl_trace_check(trace);
	if (rc) {
		sl_trace_destroy(trace);
		return rc;
	}
	*out = trace;
	return 0;
}

int
sl_trace_import_g10(const struct sl_import_g10 *import, struct sl_trace **out)
{
	struct sl_trace *net = NULL, *trace = NULL;
	struct values values = {0};
	struct request r;
	int rc = request_make(import, &r);

	if (!rc)
		rc = sl_trace_import_g10_net(import, &net);
	if (!rc)
		rc = values_load(&r, net->n_launches, &values);
	if (!rc)
		rc = sl_trace_create(SL_G10_CLOCK_HZ, &trace);
	if (!rc)
		rc = source_set(&r, trace);
	if (!rc)
		rc = tensors_copy(net, &values, trace);
	if (!rc)
		rc = launches_copy(net, &values, trace);
	if (!rc) {
		trace->n_forward = net->n_forward;
		rc = sl_trace_check(trace);
	}
	values_fini(&values);
	sl_trace_destroy(net);
	if (rc) {
		sl_trace_destroy(trace);
		return rc;
	}
	*out = trace;
	return 0;
}
