/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text form of a trace: one record a line, words separated by blanks, '#' begins a
 * comment line. For people and tests; the same records as the binary form. Their table and
 * rules: trace_read.c.
 *
 * Errors name the line.
 *
 * Threads: no state.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "trace/trace_format.h"

#define LINE_MAX_BYTES 1024

struct text {
	struct sl_trace_reader *reader;
	char line[LINE_MAX_BYTES + 1]; /* this one; words are cut out of it */
	char *at;                      /* what is left of it */
};

/* The next word of the line, ended by NUL; "" at its end. */
static char *
word_take(struct text *t)
{
	char *word;

	t->at += strspn(t->at, " \t");
	word = t->at;
	t->at += strcspn(t->at, " \t");
	if (*t->at)
		*t->at++ = '\0';
	return word;
}

/* All that is left of the line, without blanks around it. */
static char *
rest_take(struct text *t)
{
	char *rest = t->at + strspn(t->at, " \t");
	size_t length = strlen(rest);

	while (length > 0 && (rest[length - 1] == ' ' || rest[length - 1] == '\t'))
		rest[--length] = '\0';
	t->at = rest + length;
	return rest;
}

static int
line_end(struct text *t)
{
	const char *word = word_take(t);

	return *word ? sl_fail(-EINVAL, "\"%.40s\" is too much on this line", word) : 0;
}

static int
number_take(struct text *t, const char *what, uint64_t *out)
{
	const char *word = word_take(t);
	uint64_t value = 0;

	if (!*word)
		return sl_fail(-EINVAL, "%s is missing", what);
	if (*word == '-')
		return sl_fail(-EINVAL, "%s is negative: %.40s", what, word);
	for (const char *c = word; *c; c++) {
		unsigned digit = (unsigned char)*c - (unsigned)'0';

		if (digit > 9)
			return sl_fail(-EINVAL, "%s is not a whole number: %.40s", what,
				       word);
		if (value > (UINT64_MAX - digit) / 10)
			return sl_fail(-EINVAL, "%s is beyond 2^64: %.40s", what, word);
		value = value * 10 + digit;
	}
	*out = value;
	return 0;
}

/* A number that must be the next of its kind: shows lines lost or swapped. */
static int
next_take(struct text *t, const char *what, uint32_t expected)
{
	uint64_t number;
	int rc = number_take(t, what, &number);

	if (!rc && number != expected)
		rc = sl_fail(-EINVAL, "%s is %" PRIu64 "; the next is %u", what, number,
			     expected);
	return rc;
}

/* A number, or the word that stands for it. */
static int
field_take(struct text *t, const struct sl_trace_field *field, uint64_t *out)
{
	const char *word;
	unsigned value = 0;

	if (!field->word)
		return number_take(t, field->what, out);
	word = word_take(t);
	while (value < field->n_words && strcmp(word, field->word(value)) != 0)
		value++;
	if (value == field->n_words)
		return sl_fail(-EINVAL, "\"%.40s\" is no %s", word, field->unknown);
	*out = value;
	return 0;
}

/* What follows the word of a record. */
static int
record_parse(struct text *t, const struct sl_trace_record *record)
{
	struct sl_trace_values v = {.text = ""};
	int rc = 0;

	if (record->numbered)
		rc = next_take(t, record->numbered, record->next(t->reader));
	for (int i = 0; !rc && i < SL_TRACE_FIELDS_MAX && record->fields[i].what; i++)
		rc = field_take(t, &record->fields[i], &v.fields[i]);
	if (!rc && (record->has_source || record->has_name))
		v.text = rest_take(t);
	else if (!rc)
		rc = line_end(t);
	return rc ? rc : record->take(t->reader, &v);
}

/* One line that is in t->line. */
static int
line_read(struct text *t)
{
	const char *word;

	t->at = t->line;
	word = word_take(t);
	if (!*word || *word == '#')
		return 0;
	if (t->reader->ended)
		return sl_fail(-EINVAL, "a record behind the end");
	for (int i = 0; i < SL_RECORD_COUNT; i++)
		if (strcmp(sl_trace_records[i].word, word) == 0)
			return record_parse(t, &sl_trace_records[i]);
	return sl_fail(-EINVAL, "\"%.40s\" begins no record", word);
}

/* The first line: the format's name and version. */
static int
version_read(struct text *t)
{
	uint64_t version;
	int rc;

	t->at = t->line;
	if (strcmp(word_take(t), SL_TRACE_WORD) != 0)
		return sl_fail(-EINVAL, "the first word must be %s", SL_TRACE_WORD);
	rc = number_take(t, "the version", &version);
	if (!rc)
		rc = line_end(t);
	return rc ? rc : sl_trace_reader_version(t->reader, version);
}

/* Copy one line out; -EINVAL when it cannot be one. */
static int
line_cut(struct text *t, const char *line, size_t length)
{
	if (length > 0 && line[length - 1] == '\r')
		length--;
	if (length > LINE_MAX_BYTES)
		return sl_fail(-EINVAL, "a line of %zu bytes; at most %u are possible",
			       length, LINE_MAX_BYTES);
	if (memchr(line, '\0', length))
		return sl_fail(-EINVAL, "a zero byte");
	memcpy(t->line, line, length);
	t->line[length] = '\0';
	return 0;
}

int
sl_trace_read_text(struct sl_trace_reader *r, const char *text, size_t bytes, const char *label)
{
	struct text t = {.reader = r};
	uint64_t number = 1;
	size_t at = 0;
	int rc = 0;

	for (; !rc && at < bytes; number++) {
		const char *end = memchr(text + at, '\n', bytes - at);
		size_t length = end ? (size_t)(end - (text + at)) : bytes - at;

		rc = line_cut(&t, text + at, length);
		if (!rc)
			rc = number == 1 ? version_read(&t) : line_read(&t);
		if (rc)
			return sl_fail_in(rc, "%s: line %" PRIu64, label, number);
		at += length + (end != NULL);
	}
	if (!r->ended)
		return sl_fail(-EINVAL,
			       "%s: line %" PRIu64 ": the file ends without an end "
			       "record: it is incomplete",
			       label, number);
	return 0;
}
