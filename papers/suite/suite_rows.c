/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows as JSON: written for whoever reads numbers by program, and read again so that a part can be
 * run anew without the others, and rows of another machine can be shown beside ours. One file has
 * the rows of one device and says what they were run on. Counters that are 0 are left out.
 *
 * A file is replaced as a whole. What is read is checked: words that are not known are refused, so
 * that a table never shows a row for another.
 *
 * Threads: one.
 */
#include "suite.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"
#include "json_read.h"
#include "sluice/sluice.h"

#define FORMAT         "sluice suite rows, format 1"
#define FILE_BYTES_MAX (16u << 20)

/* Numbers of a row, by name. */
static const struct {
	const char *key;
	size_t offset;
} whole_fields[] =
	{
		{"footprint_bytes", offsetof(struct suite_row, footprint_bytes)},
		{"device_budget", offsetof(struct suite_row, device_bytes)},
		{"host_budget", offsetof(struct suite_row, host_bytes)},
		{"host_reserve", offsetof(struct suite_row, reserve_bytes)},
		{"chunk", offsetof(struct suite_row, chunk_bytes)},
		{"link_bytes_per_s", offsetof(struct suite_row, link_bytes_per_s)},
		{"limit_bytes", offsetof(struct suite_row, limit_bytes)},
		{"repeat", offsetof(struct suite_row, repeat)},
		{"steps", offsetof(struct suite_row, steps)},
		{"launches", offsetof(struct suite_row, launches)},
		{"tile_bytes", offsetof(struct suite_row, tile_bytes)},
		{"input_bytes", offsetof(struct suite_row, input_bytes)},
		{"output_bytes", offsetof(struct suite_row, output_bytes)},
		{"h2d_bytes", offsetof(struct suite_row, h2d_bytes)},
		{"d2h_bytes", offsetof(struct suite_row, d2h_bytes)},
		{"read_bytes", offsetof(struct suite_row, read_bytes)},
		{"write_bytes", offsetof(struct suite_row, write_bytes)},
		{"batches", offsetof(struct suite_row, batches)},
		{"batches_resident", offsetof(struct suite_row, batches_resident)},
		{"expected_h2d_bytes", offsetof(struct suite_row, expected_h2d_bytes)},
		{"expected_d2h_bytes", offsetof(struct suite_row, expected_d2h_bytes)},
		{"expected_tolerance_bytes", offsetof(struct suite_row, tolerance_bytes)},
},
  time_fields[] = {
	  {"at", offsetof(struct suite_row, at)},
	  {"run_s", offsetof(struct suite_row, run_s)},
	  {"total_s", offsetof(struct suite_row, total_s)},
	  {"measured_s", offsetof(struct suite_row, measured_s)},
	  {"least_run_s", offsetof(struct suite_row, least_run_s)},
	  {"least_total_s", offsetof(struct suite_row, least_total_s)},
	  {"least_measured_s", offsetof(struct suite_row, least_measured_s)},
	  {"began_s", offsetof(struct suite_row, began_s)},
	  {"ended_s", offsetof(struct suite_row, ended_s)},
};

#define WHOLE_N (sizeof(whole_fields) / sizeof(whole_fields[0]))
#define TIME_N  (sizeof(time_fields) / sizeof(time_fields[0]))

static void *
field(const struct suite_row *row, size_t offset)
{
	return (char *)(uintptr_t)row + offset;
}

/* ---- writing ---- */

static void
counters_json(struct json *json, const char *key, const struct sluice_stats *stats)
{
	json_object(json, key);
	for (unsigned i = 0; i < SLUICE_COUNTER_COUNT; i++) {
		if (stats->counter[i])
			json_u64(json, sluice_counter_name((enum sluice_counter)i),
				 stats->counter[i]);
	}
	json_close(json);
}

static void
row_json(struct json *json, const struct suite_row *row)
{
	json_object(json, NULL);
	json_string(json, "device", row->cuda ? "cuda" : "soft");
	json_string(json, "part", suite_part_names[row->part]);
	json_string(json, "workload", row->workload);
	json_string(json, "variant", suite_variant_names[row->variant]);
	json_string(json, "point", row->point);
	json_string(json, "status", suite_status_names[row->status]);
	if (row->error[0])
		json_string(json, "error", row->error);
	if (row->verdict != WORKLOAD_NOT_VERIFIED)
		json_bool(json, "verified", row->verdict == WORKLOAD_VERIFIED);
	json_bool(json, "in_memory", row->in_memory);
	json_bool(json, "in_turn", row->in_turn);
	json_bool(json, "expected", row->expected);
	for (unsigned i = 0; i < TIME_N; i++)
		json_double(json, time_fields[i].key,
			    *(double *)field(row, time_fields[i].offset));
	for (unsigned i = 0; i < WHOLE_N; i++)
		json_u64(json, whole_fields[i].key,
			 *(uint64_t *)field(row, whole_fields[i].offset));
	counters_json(json, "before_sync", &row->before);
	counters_json(json, "after", &row->after);
	json_close(json);
}

int
suite_rows_write(const struct suite *suite, int cuda, const char *path)
{
	char temporary[PATH_MAX + 8];
	struct json json;
	FILE *out;
	int rc;

	snprintf(temporary, sizeof(temporary), "%s.new", path);
	out = fopen(temporary, "we");
	if (!out)
		return sl_fail(-errno, "%s: %s", temporary, strerror(errno));
	json_begin(&json, out);
	json_object(&json, NULL);
	json_string(&json, "format", FORMAT);
	json_string(&json, "device", cuda ? "cuda" : "soft");
	json_string(&json, "machine", suite->machine[cuda]);
	json_array(&json, "rows");
	for (unsigned i = 0; i < suite->n_rows; i++)
		if (suite->rows[i].cuda == cuda && suite->rows[i].status != SUITE_PLANNED)
			row_json(&json, &suite->rows[i]);
	rc = json_end(&json);
	if (fclose(out) && !rc)
		rc = -EIO;
	if (!rc && rename(temporary, path))
		rc = -errno;
	if (rc) {
		(void)unlink(temporary);
		return sl_fail(rc, "%s: cannot be written: %s", path, strerror(-rc));
	}
	return 0;
}

/* ---- reading ---- */

struct rows_reader {
	struct suite *suite;
	struct suite_row row;
	const char *path;
	int is_rows; /* the format has been seen */
	int cuda;
	char machine[320];
};

static int
word_find(const char *const *words, int n, const char *text)
{
	for (int i = 0; i < n; i++)
		if (strcmp(words[i], text) == 0)
			return i;
	return -1;
}

static int
word_take(struct rows_reader *reader, const struct json_token *token)
{
	struct suite_row *row = &reader->row;
	int n = 0;

	if (strcmp(token->key, "device") == 0)
		row->cuda = strcmp(token->text, "cuda") == 0;
	else if (strcmp(token->key, "part") == 0)
		row->part = (enum suite_part)(
			n = word_find(suite_part_names, SUITE_PART_COUNT, token->text));
	else if (strcmp(token->key, "variant") == 0)
		row->variant = (enum suite_variant)(
			n = word_find(suite_variant_names, SUITE_VARIANT_COUNT, token->text));
	else if (strcmp(token->key, "status") == 0)
		row->status = (enum suite_status)(
			n = word_find(suite_status_names, SUITE_STATUS_COUNT, token->text));
	else if (strcmp(token->key, "workload") == 0)
		snprintf(row->workload, sizeof(row->workload), "%s", token->text);
	else if (strcmp(token->key, "point") == 0)
		snprintf(row->point, sizeof(row->point), "%s", token->text);
	else if (strcmp(token->key, "error") == 0)
		snprintf(row->error, sizeof(row->error), "%s", token->text);
	if (n < 0)
		return sl_fail(-EINVAL, "%s: %s \"%s\" is not known", reader->path,
			       token->key, token->text);
	return 0;
}

static void
number_take(struct suite_row *row, const struct json_token *token)
{
	for (unsigned i = 0; i < TIME_N; i++)
		if (strcmp(time_fields[i].key, token->key) == 0)
			*(double *)field(row, time_fields[i].offset) = token->number;
	for (unsigned i = 0; i < WHOLE_N; i++)
		if (strcmp(whole_fields[i].key, token->key) == 0)
			*(uint64_t *)field(row, whole_fields[i].offset) = token->u64;
}

static void
flag_take(struct suite_row *row, const struct json_token *token)
{
	int value = token->kind == JSON_TRUE;

	if (strcmp(token->key, "verified") == 0)
		row->verdict = value ? WORKLOAD_VERIFIED : WORKLOAD_WRONG;
	else if (strcmp(token->key, "in_memory") == 0)
		row->in_memory = value;
	else if (strcmp(token->key, "in_turn") == 0)
		row->in_turn = value;
	else if (strcmp(token->key, "expected") == 0)
		row->expected = value;
}

static void
counter_take(struct sluice_stats *stats, const struct json_token *token)
{
	for (unsigned i = 0; i < SLUICE_COUNTER_COUNT; i++)
		if (strcmp(sluice_counter_name((enum sluice_counter)i), token->key) == 0)
			stats->counter[i] = token->u64;
}

/* The document's own fields. */
static void
head_take(struct rows_reader *reader, const struct json_token *token)
{
	if (strcmp(token->key, "format") == 0)
		reader->is_rows = strcmp(token->text, FORMAT) == 0;
	else if (strcmp(token->key, "device") == 0)
		reader->cuda = strcmp(token->text, "cuda") == 0;
	else if (strcmp(token->key, "machine") == 0)
		snprintf(reader->machine, sizeof(reader->machine), "%s", token->text);
}

/* One value; counters: those that an object of counters was opened for, or NULL. */
static int
value_take(struct rows_reader *reader, const struct json_token *token,
	   struct sluice_stats *counters)
{
	if (!token->key)
		return 0;
	switch (token->kind) {
	case JSON_STRING:
		if (token->depth == 1)
			head_take(reader, token);
		else
			return word_take(reader, token);
		return 0;
	case JSON_NUMBER:
		if (counters)
			counter_take(counters, token);
		else
			number_take(&reader->row, token);
		return 0;
	case JSON_TRUE:
	case JSON_FALSE:
		flag_take(&reader->row, token);
		return 0;
	case JSON_OBJECT:
	case JSON_ARRAY:
	case JSON_CLOSE:
	case JSON_NULL:
	case JSON_KIND_COUNT:
		return 0;
	}
	return 0;
}

static int
text_parse(struct rows_reader *reader, char *text)
{
	struct sluice_stats *counters = NULL;
	struct json_reader json;
	struct json_token token;
	int rc;

	json_read_begin(&json, text);
	while ((rc = json_read_next(&json, &token)) > 0) {
		if (token.kind == JSON_OBJECT && token.depth == 2) {
			memset(&reader->row, 0, sizeof(reader->row));
		} else if (token.kind == JSON_OBJECT && token.depth == 3 && token.key) {
			counters = strcmp(token.key, "after") == 0 ? &reader->row.after
								   : &reader->row.before;
		} else if (token.kind == JSON_CLOSE && counters) {
			counters = NULL;
		} else if (token.kind == JSON_CLOSE && token.depth == 2) {
			if (!reader->is_rows)
				return sl_fail(-EINVAL, "%s: not rows of this suite",
					       reader->path);
			rc = suite_row_add(reader->suite, &reader->row);
			if (rc)
				return rc;
		} else {
			rc = value_take(reader, &token, counters);
			if (rc)
				return rc;
		}
	}
	if (rc)
		return sl_fail_in(rc, "%s", reader->path);
	if (!reader->is_rows)
		return sl_fail(-EINVAL, "%s: not rows of this suite", reader->path);
	snprintf(reader->suite->machine[reader->cuda],
		 sizeof(reader->suite->machine[reader->cuda]), "%s", reader->machine);
	return 0;
}

int
suite_rows_read(struct suite *suite, const char *path)
{
	struct rows_reader *reader;
	FILE *in = fopen(path, "re");
	char *text;
	size_t n;
	int rc;

	if (!in && errno == ENOENT)
		return 0;
	if (!in)
		return sl_fail(-errno, "%s: %s", path, strerror(errno));
	text = malloc(FILE_BYTES_MAX + 1);
	reader = calloc(1, sizeof(*reader));
	if (!text || !reader) {
		rc = sl_fail(-ENOMEM, "%s: out of memory", path);
		goto out;
	}
	n = fread(text, 1, FILE_BYTES_MAX, in);
	text[n] = 0;
	if (ferror(in) || !feof(in)) {
		rc = sl_fail(-EINVAL, "%s: cannot be read, or is larger than %u MiB",
			     path, FILE_BYTES_MAX >> 20);
		goto out;
	}
	reader->suite = suite;
	reader->path = path;
	rc = text_parse(reader, text);
out:
	free(reader);
	free(text);
	fclose(in);
	return rc;
}
