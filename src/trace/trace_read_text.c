/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text form of a trace: one record a line, words separated by blanks, '#' begins a
 * comment line. For people and tests; the same records as the binary form. Rules of
 * records: trace_read.c.
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

/* One number, then the end of the line. */
static int
number_line(struct text *t, const char *what, uint64_t *out)
{
	int rc = number_take(t, what, out);

	return rc ? rc : line_end(t);
}

static int
clock_line(struct text *t)
{
	uint64_t hz;
	int rc = number_line(t, "the clock's rate", &hz);

	return rc ? rc : sl_trace_reader_clock(t->reader, hz);
}

static int
source_line(struct text *t)
{
	return sl_trace_reader_source(t->reader, rest_take(t));
}

static int
forward_line(struct text *t)
{
	uint64_t launches;
	int rc = number_line(t, "the number of forward launches", &launches);

	return rc ? rc : sl_trace_reader_forward(t->reader, launches);
}

static int
tensor_line(struct text *t)
{
	uint64_t size_bytes;
	const char *word;
	unsigned kind = 0;
	int rc = next_take(t, "the tensor's number", t->reader->trace->n_tensors);

	if (!rc)
		rc = number_take(t, "the tensor's size", &size_bytes);
	if (rc)
		return rc;
	word = word_take(t);
	while (kind < SL_TENSOR_KIND_COUNT &&
	       strcmp(word, sl_tensor_kind_name((enum sl_tensor_kind)kind)) != 0)
		kind++;
	if (kind == SL_TENSOR_KIND_COUNT)
		return sl_fail(-EINVAL,
			       "\"%.40s\" is no kind of tensor; there are global, "
			       "local and workspace",
			       word);
	return sl_trace_reader_tensor(t->reader, size_bytes, kind, rest_take(t));
}

static int
alloc_line(struct text *t)
{
	uint64_t tensor;
	int rc = number_line(t, "the tensor", &tensor);

	return rc ? rc : sl_trace_reader_alloc(t->reader, tensor);
}

static int
free_line(struct text *t)
{
	uint64_t tensor;
	int rc = number_line(t, "the tensor", &tensor);

	return rc ? rc : sl_trace_reader_free(t->reader, tensor);
}

static int
copy_line(struct text *t, int to_device)
{
	uint64_t tensor, bytes;
	int rc = number_take(t, "the tensor", &tensor);

	if (!rc)
		rc = number_line(t, "the number of bytes", &bytes);
	return rc ? rc : sl_trace_reader_copy(t->reader, tensor, to_device, bytes);
}

static int
copy_in_line(struct text *t)
{
	return copy_line(t, 1);
}

static int
copy_out_line(struct text *t)
{
	return copy_line(t, 0);
}

static int
period_line(struct text *t)
{
	int rc = next_take(t, "the period's number", t->reader->n_periods);

	if (!rc)
		rc = line_end(t);
	return rc ? rc : sl_trace_reader_period(t->reader);
}

static int
launch_line(struct text *t)
{
	static const char *const whats[] = {"the start", "the duration",
					    "the duration with outputs faulting",
					    "the duration with all faulting"};
	uint64_t fields[4];
	int rc = next_take(t, "the launch's number", t->reader->trace->n_launches);

	for (unsigned i = 0; !rc && i < 4; i++)
		rc = number_take(t, whats[i], &fields[i]);
	return rc ? rc
		  : sl_trace_reader_launch(t->reader, fields[0], fields[1], fields[2],
					   fields[3], rest_take(t));
}

static int
use_line(struct text *t)
{
	uint64_t tensor;
	const char *word;
	unsigned intent = 0;
	int rc = number_take(t, "the tensor", &tensor);

	if (rc)
		return rc;
	word = word_take(t);
	while (intent < SLUICE_USE_COUNT &&
	       strcmp(word, sl_trace_intent_name((enum sluice_intent)intent)) != 0)
		intent++;
	if (intent == SLUICE_USE_COUNT)
		return sl_fail(-EINVAL,
			       "\"%.40s\" is no intent; there are read, write, "
			       "read-write, write-all and scratch",
			       word);
	rc = line_end(t);
	return rc ? rc : sl_trace_reader_use(t->reader, tensor, intent);
}

static int
end_lines(struct text *t)
{
	struct sl_trace_totals totals = {0};
	int rc = number_take(t, "the number of launches", &totals.launches);

	if (!rc)
		rc = number_take(t, "the number of tensors", &totals.tensors);
	if (!rc)
		rc = number_line(t, "the number of uses", &totals.uses);
	return rc ? rc : sl_trace_reader_end(t->reader, &totals);
}

static const struct line_row {
	const char *word;
	int (*take)(struct text *t);
} line_rows[] = {
	{"use", use_line},           {"launch", launch_line},   {"tensor", tensor_line},
	{"alloc", alloc_line},       {"free", free_line},       {"copy-in", copy_in_line},
	{"copy-out", copy_out_line}, {"period", period_line},   {"clock", clock_line},
	{"source", source_line},     {"forward", forward_line}, {"end", end_lines},
};

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
	for (size_t i = 0; i < sizeof(line_rows) / sizeof(line_rows[0]); i++)
		if (strcmp(line_rows[i].word, word) == 0)
			return line_rows[i].take(t);
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
	rc = number_line(t, "the version", &version);
	if (!rc && version != SL_TRACE_VERSION)
		rc = sl_fail(-ENOTSUP,
			     "version %" PRIu64 " of the trace format; this program "
			     "reads version %u",
			     version, SL_TRACE_VERSION);
	return rc;
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
