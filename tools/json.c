/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON writer of json.h. Every value goes through value_begin(), which writes the comma, the
 * line break and the indent; json_end() closes what is open. So a document is well formed whatever
 * order of calls made it. A value without its key and wrong nesting are our own errors: asserted.
 *
 * The decimal point of json_double() relies on the "C" locale: the tool never calls setlocale().
 */
#include "json.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>

/* Length of the UTF-8 sequence at text, 0 when there is none. */
static unsigned
utf8_length(const unsigned char *text)
{
	static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
	uint32_t code;
	unsigned n, i;

	if (text[0] < 0x80)
		return 1;
	if (text[0] >= 0xc2 && text[0] <= 0xdf)
		n = 2;
	else if (text[0] >= 0xe0 && text[0] <= 0xef)
		n = 3;
	else if (text[0] >= 0xf0 && text[0] <= 0xf4)
		n = 4;
	else
		return 0;
	code = text[0] & (0xffu >> (n + 1));
	for (i = 1; i < n; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0; /* the end of the string stops here as well */
		code = code << 6 | (text[i] & 0x3f);
	}
	if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	return n;
}

static void
text_write(FILE *out, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	fputc('"', out);
	while (*p) {
		unsigned n = utf8_length(p);

		if (n == 0) {
			fputs("\\ufffd", out);
			p++;
		} else if (*p == '"' || *p == '\\') {
			fprintf(out, "\\%c", *p++);
		} else if (*p == '\n') {
			fputs("\\n", out);
			p++;
		} else if (*p == '\t') {
			fputs("\\t", out);
			p++;
		} else if (*p < 0x20 || *p == 0x7f) {
			fprintf(out, "\\u%04x", *p++);
		} else {
			fwrite(p, 1, n, out);
			p += n;
		}
	}
	fputc('"', out);
}

static void
line_begin(struct json *json)
{
	unsigned i;

	fputc('\n', json->out);
	for (i = 0; i < json->depth; i++)
		fputs("  ", json->out);
}

/* What stands before a value: the comma, its line, and in an object its key. */
static void
value_begin(struct json *json, const char *key)
{
	assert(!key == !(json->depth && json->closers[json->depth - 1] == '}'));
	if (json->depth == 0)
		return;
	if (!json->empty[json->depth - 1])
		fputc(',', json->out);
	json->empty[json->depth - 1] = 0;
	line_begin(json);
	if (key) {
		text_write(json->out, key);
		fputs(": ", json->out);
	}
}

static void
container_open(struct json *json, const char *key, char opener, char closer)
{
	assert(json->depth < JSON_DEPTH_MAX);
	value_begin(json, key);
	fputc(opener, json->out);
	json->closers[json->depth] = closer;
	json->empty[json->depth] = 1;
	json->depth++;
}

void
json_begin(struct json *json, FILE *out)
{
	json->out = out;
	json->depth = 0;
}

int
json_end(struct json *json)
{
	while (json->depth > 0)
		json_close(json);
	fputc('\n', json->out);
	if (fflush(json->out) || ferror(json->out))
		return -EIO;
	return 0;
}

void
json_object(struct json *json, const char *key)
{
	container_open(json, key, '{', '}');
}

void
json_array(struct json *json, const char *key)
{
	container_open(json, key, '[', ']');
}

void
json_close(struct json *json)
{
	assert(json->depth > 0);
	json->depth--;
	if (!json->empty[json->depth])
		line_begin(json);
	fputc(json->closers[json->depth], json->out);
}

void
json_string(struct json *json, const char *key, const char *text)
{
	value_begin(json, key);
	if (text)
		text_write(json->out, text);
	else
		fputs("null", json->out);
}

void
json_u64(struct json *json, const char *key, uint64_t value)
{
	value_begin(json, key);
	fprintf(json->out, "%" PRIu64, value);
}

void
json_i64(struct json *json, const char *key, int64_t value)
{
	value_begin(json, key);
	fprintf(json->out, "%" PRId64, value);
}

void
json_double(struct json *json, const char *key, double value)
{
	value_begin(json, key);
	if (isfinite(value))
		fprintf(json->out, "%.9g", value);
	else
		fputs("null", json->out);
}

void
json_bool(struct json *json, const char *key, int value)
{
	value_begin(json, key);
	fputs(value ? "true" : "false", json->out);
}

void
json_null(struct json *json, const char *key)
{
	value_begin(json, key);
	fputs("null", json->out);
}
