/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing trace files, in the binary and in the text form (sluice-trace(5)).
 *
 * Both are written in one pass in the order of the launches, so that the output may be a
 * pipe: tensors are stated before the launch (or alloc, or copy) that first needs them.
 * What is written reads back as the same trace, byte for byte when it is written again.
 *
 * Threads: no state. Blocks on writing.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/trace_format.h"

struct writer {
	const struct sl_trace *trace;
	FILE *file;
	int is_text;
	uint32_t crc;
	/* By offset of a name: its number plus 2 in the binary form; 0: not written
	 * yet. */
	uint32_t *names;
	uint32_t n_names;
	/* Tensors ordered by alloc_at and by free_at, and how far each list is
	 * written. */
	uint32_t *allocs, *frees;
	uint32_t n_allocs, n_frees, next_alloc, next_free;
	uint32_t next_copy;
};

/* ---- bytes ---- */

uint32_t
sl_trace_crc(uint32_t crc, const void *data, size_t bytes)
{
	/* Of each half byte. */
	static const uint32_t table[16] = {
		0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
		0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
		0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};
	const uint8_t *byte = data;

	crc = ~crc;
	for (size_t i = 0; i < bytes; i++) {
		crc ^= byte[i];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

static void
bytes_put(struct writer *w, const void *data, size_t bytes)
{
	w->crc = sl_trace_crc(w->crc, data, bytes);
	fwrite(data, 1, bytes, w->file); /* failures are the file's to keep: ferror() */
}

static void
varint_put(struct writer *w, uint64_t value)
{
	uint8_t bytes[10];
	size_t n = 0;

	while (value > 0x7f) {
		bytes[n++] = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	bytes[n++] = (uint8_t)value;
	bytes_put(w, bytes, n);
}

static void
string_put(struct writer *w, const char *text)
{
	varint_put(w, strlen(text));
	bytes_put(w, text, strlen(text));
}

static void
name_put(struct writer *w, uint32_t name)
{
	if (name == SL_TRACE_NONE) {
		varint_put(w, 0);
	} else if (w->names[name]) {
		varint_put(w, w->names[name]);
	} else {
		varint_put(w, 1);
		string_put(w, sl_trace_name(w->trace, name));
		w->names[name] = 2 + w->n_names++;
	}
}

/* ---- records ---- */

static void
record_print(struct writer *w, const struct sl_trace_record *record, uint32_t number,
	     const uint64_t *fields, uint32_t name)
{
	fputs(record->word, w->file);
	if (record->numbered)
		fprintf(w->file, " %u", number);
	for (int i = 0; i < SL_TRACE_FIELDS_MAX && record->fields[i].what; i++)
		if (record->fields[i].word)
			fprintf(w->file, " %s", record->fields[i].word((unsigned)fields[i]));
		else
			fprintf(w->file, " %" PRIu64, fields[i]);
	if (record->has_source)
		fprintf(w->file, " %s", w->trace->source);
	if (record->has_name && name != SL_TRACE_NONE)
		fprintf(w->file, " %s", sl_trace_name(w->trace, name));
	fputc('\n', w->file);
}

/* number: of a record that the text form numbers. name: of a record that has one. */
static void
record_put(struct writer *w, enum sl_trace_tag tag, uint32_t number,
	   const uint64_t *fields, uint32_t name)
{
	const struct sl_trace_record *record = &sl_trace_records[tag];

	if (w->is_text) {
		record_print(w, record, number, fields, name);
		return;
	}
	varint_put(w, tag);
	for (int i = 0; i < SL_TRACE_FIELDS_MAX && record->fields[i].what; i++)
		varint_put(w, fields[i]);
	if (record->has_source)
		string_put(w, w->trace->source);
	if (record->has_name)
		name_put(w, name);
}

/* A record of at most two numbers. */
static void
numbers_write(struct writer *w, enum sl_trace_tag tag, uint64_t first, uint64_t second)
{
	record_put(w, tag, 0, (uint64_t[SL_TRACE_FIELDS_MAX]){first, second}, SL_TRACE_NONE);
}

/* The least that has all that the trace has: the more programs read it. */
static uint32_t
version_needed(const struct sl_trace *trace)
{
	for (uint32_t t = 0; t < trace->n_tensors; t++)
		if (trace->tensors[t].ratio)
			return SL_TRACE_VERSION_RATIO;
	return 1;
}

static void
head_write(struct writer *w)
{
	const struct sl_trace *trace = w->trace;
	uint32_t version = version_needed(trace);

	if (w->is_text) {
		fprintf(w->file, "%s %u\n", SL_TRACE_WORD, version);
	} else {
		bytes_put(w, SL_TRACE_MAGIC, SL_TRACE_MAGIC_BYTES);
		varint_put(w, version);
	}
	numbers_write(w, SL_TAG_CLOCK, trace->clock_hz, 0);
	if (trace->source && trace->source[0])
		numbers_write(w, SL_TAG_SOURCE, 0, 0);
	if (trace->n_forward != SL_TRACE_NONE)
		numbers_write(w, SL_TAG_FORWARD, trace->n_forward, 0);
}

static void
tensors_write(struct writer *w)
{
	if (w->is_text)
		fputs("# tensor NUMBER BYTES KIND NAME\n", w->file);
	for (uint32_t t = 0; t < w->trace->n_tensors; t++) {
		const struct sl_tensor *tensor = &w->trace->tensors[t];

		record_put(w, SL_TAG_TENSOR, t,
			   (uint64_t[SL_TRACE_FIELDS_MAX]){tensor->size_bytes, tensor->kind},
			   tensor->name);
		if (tensor->ratio)
			numbers_write(w, SL_TAG_RATIO, t, tensor->ratio);
	}
}

static void
allocs_write(struct writer *w, uint32_t k)
{
	for (; w->next_alloc < w->n_allocs &&
	       w->trace->tensors[w->allocs[w->next_alloc]].alloc_at == k;
	     w->next_alloc++)
		numbers_write(w, SL_TAG_ALLOC, w->allocs[w->next_alloc], 0);
}

static void
copies_write(struct writer *w, uint32_t k)
{
	for (; w->next_copy < w->trace->n_copies &&
	       w->trace->copies[w->next_copy].before_launch == k;
	     w->next_copy++) {
		const struct sl_trace_copy *copy = &w->trace->copies[w->next_copy];

		numbers_write(w, copy->to_device ? SL_TAG_COPY_IN : SL_TAG_COPY_OUT,
			      copy->tensor, copy->bytes);
	}
}

static void
frees_write(struct writer *w, uint32_t k)
{
	for (; w->next_free < w->n_frees &&
	       w->trace->tensors[w->frees[w->next_free]].free_at == k;
	     w->next_free++)
		numbers_write(w, SL_TAG_FREE, w->frees[w->next_free], 0);
}

static void
launch_write(struct writer *w, uint32_t k, uint64_t now_ticks)
{
	const struct sl_trace_launch *launch = &w->trace->launches[k];
	const struct sl_trace_use *uses = &w->trace->uses[launch->first_use];

	record_put(w, SL_TAG_LAUNCH, k,
		   (uint64_t[SL_TRACE_FIELDS_MAX]){launch->start_ticks -
							   (w->is_text ? 0 : now_ticks),
						   launch->ticks, launch->fault_output_ticks,
						   launch->fault_all_ticks},
		   launch->name);
	if (!w->is_text)
		varint_put(w, launch->n_uses);
	for (uint32_t i = 0; i < launch->n_uses; i++) {
		if (w->is_text) {
			fputc('\t', w->file);
			numbers_write(w, SL_RECORD_USE, uses[i].tensor, uses[i].intent);
			continue;
		}
		varint_put(w, (uint64_t)(uses[i].tensor - (i ? uses[i - 1].tensor : 0)) << 3 |
				      (uint64_t)uses[i].intent);
	}
}

static void
end_write(struct writer *w)
{
	const struct sl_trace *trace = w->trace;
	uint32_t crc;

	record_put(w, SL_TAG_END, 0,
		   (uint64_t[SL_TRACE_FIELDS_MAX]){trace->n_launches, trace->n_tensors,
						   trace->n_uses},
		   SL_TRACE_NONE);
	if (w->is_text)
		return;
	crc = w->crc;
	bytes_put(w,
		  (const uint8_t[]){(uint8_t)crc, (uint8_t)(crc >> 8),
				    (uint8_t)(crc >> 16), (uint8_t)(crc >> 24)},
		  4);
}

static void
records_write(struct writer *w)
{
	const struct sl_trace *trace = w->trace;
	uint64_t now_ticks = 0;
	uint32_t period = 0;

	head_write(w);
	tensors_write(w);
	if (w->is_text)
		fputs("# launch NUMBER START TICKS WITH-OUTPUT-FAULTS WITH-ALL-FAULTS "
		      "NAME\n",
		      w->file);
	for (uint32_t k = 0; k <= trace->n_launches; k++) {
		if (k < trace->n_launches && trace->period_first[period] == k)
			record_put(w, SL_TAG_PERIOD, period++,
				   (uint64_t[SL_TRACE_FIELDS_MAX]){0}, SL_TRACE_NONE);
		allocs_write(w, k);
		copies_write(w, k);
		frees_write(w, k);
		if (k == trace->n_launches)
			break;
		launch_write(w, k, now_ticks);
		now_ticks = trace->launches[k].start_ticks + trace->launches[k].ticks;
	}
	end_write(w);
}

/* ---- tensors by the launch of their alloc or free ---- */

/* A counting sort: by launch, then by number. at: offset of the field in a tensor. */
static int
tensors_order(const struct sl_trace *trace, size_t at, uint32_t **out, uint32_t *n_out)
{
	uint32_t *first = calloc(trace->n_launches + (size_t)2, sizeof(*first));
	uint32_t *order = malloc((trace->n_tensors + (size_t)1) * sizeof(*order));
	uint32_t n = 0;

	if (!first || !order) {
		free(first);
		free(order);
		return sl_fail(-ENOMEM, "trace: no memory to write %u tensors",
			       trace->n_tensors);
	}
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t t = 0; t < trace->n_tensors; t++) {
			uint32_t k;

			memcpy(&k, (const char *)&trace->tensors[t] + at, sizeof(k));
			if (k == SL_TRACE_NONE)
				continue;
			if (pass == 0) {
				first[k + 1]++;
				n++;
			} else {
				order[first[k]++] = t;
			}
		}
		for (uint32_t k = 0; pass == 0 && k <= trace->n_launches; k++)
			first[k + 1] += first[k];
	}
	free(first);
	*out = order;
	*n_out = n;
	return 0;
}

int
sl_trace_write(const struct sl_trace *trace, const char *path, int text)
{
	struct writer w = {.trace = trace, .is_text = text};
	int to_stdout = strcmp(path, "-") == 0;
	int rc = sl_trace_check(trace);
	int failed;

	if (rc)
		return sl_fail_in(rc, "%s: not written", path);
	w.names = calloc(trace->strings_bytes + 1, sizeof(*w.names));
	if (!w.names)
		rc = sl_fail(-ENOMEM, "trace: no memory to write %zu bytes of names",
			     trace->strings_bytes);
	if (!rc)
		rc = tensors_order(trace, offsetof(struct sl_tensor, alloc_at), &w.allocs,
				   &w.n_allocs);
	if (!rc)
		rc = tensors_order(trace, offsetof(struct sl_tensor, free_at), &w.frees,
				   &w.n_frees);
	if (rc)
		goto out;
	w.file = to_stdout ? stdout : fopen(path, "we");
	if (!w.file) {
		rc = sl_fail(-errno, "%s: %s", path, strerror(errno));
		goto out;
	}
	errno = 0;
	records_write(&w);
	failed = fflush(w.file) || ferror(w.file);
	if (failed)
		rc = sl_fail(errno ? -errno : -EIO, "%s: writing: %s", path,
			     strerror(errno ? errno : EIO));
	if (!to_stdout && fclose(w.file) && !failed)
		rc = sl_fail(-errno, "%s: writing: %s", path, strerror(errno));
out:
	free(w.names);
	free(w.allocs);
	free(w.frees);
	return rc;
}
