/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading JSON, token by token (see json_read.h).
 *
 * next() skips to the next value, taking the comma and the key before it where the open level
 * wants them, and reads one value or one closing bracket. All state is the place in the text and
 * one closing bracket for each open level. An escaped zero character is refused: strings here end
 * at a zero byte.
 */
#include "json_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int
not_json(const struct json_reader *reader, const char *wanted)
{
	return sl_fail(-EINVAL, "not JSON: %s expected at '%.20s'", wanted, reader->at);
}

static void
space_skip(struct json_reader *reader)
{
	reader->at += strspn(reader->at, " \t\r\n");
}

/* Four hexadecimal digits; negative when they are not. */
static int
hex4_read(const char *text)
{
	int value = 0;

	for (int i = 0; i < 4; i++) {
		char c = text[i];

		if (c >= '0' && c <= '9')
			value = value * 16 + (c - '0');
		else if (c >= 'a' && c <= 'f')
			value = value * 16 + (c - 'a' + 10);
		else if (c >= 'A' && c <= 'F')
			value = value * 16 + (c - 'A' + 10);
		else
			return -1; /* also at the end of the text */
	}
	return value;
}

static char *
utf8_put(char *to, uint32_t value)
{
	if (value < 0x80) {
		*to++ = (char)value;
	} else if (value < 0x800) {
		*to++ = (char)(0xc0 | value >> 6);
		*to++ = (char)(0x80 | (value & 0x3f));
	} else if (value < 0x10000) {
		*to++ = (char)(0xe0 | value >> 12);
		*to++ = (char)(0x80 | (value >> 6 & 0x3f));
		*to++ = (char)(0x80 | (value & 0x3f));
	} else {
		*to++ = (char)(0xf0 | value >> 18);
		*to++ = (char)(0x80 | (value >> 12 & 0x3f));
		*to++ = (char)(0x80 | (value >> 6 & 0x3f));
		*to++ = (char)(0x80 | (value & 0x3f));
	}
	return to;
}

/* \uXXXX, or two of them that make one character; at: behind the 'u'. NULL when malformed. */
static const char *
unicode_read(const char *at, uint32_t *value)
{
	int high = hex4_read(at), low;

	if (high <= 0)
		return NULL;
	at += 4;
	if (high < 0xd800 || high > 0xdfff) {
		*value = (uint32_t)high;
		return at;
	}
	if (high > 0xdbff || at[0] != '\\' || at[1] != 'u')
		return NULL;
	low = hex4_read(at + 2);
	if (low < 0xdc00 || low > 0xdfff)
		return NULL;
	*value = 0x10000 + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
	return at + 6;
}

/* A string; the place is its opening quote. What it becomes is never longer than it was. */
static int
string_read(struct json_reader *reader, const char **out)
{
	static const char escapes[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
	const char *from = reader->at + 1;
	char *start = reader->at + 1, *to = start;

	while (*from != '"') {
		const char *escape;
		uint32_t value;

		if ((unsigned char)*from < 0x20) /* also the end of the text */
			return not_json(reader, "a closed string");
		if (*from != '\\') {
			*to++ = *from++;
			continue;
		}
		from++;
		if (*from == 'u') {
			from = unicode_read(from + 1, &value);
			if (!from)
				return not_json(reader, "a string of whole characters");
			to = utf8_put(to, value);
			continue;
		}
		escape = *from ? strchr(escapes, *from) : NULL;
		if (!escape)
			return not_json(reader, "a known escape");
		*to++ = means[escape - escapes];
		from++;
	}
	reader->at = start + (from + 1 - start);
	*to = '\0'; /* at the latest over the closing quote */
	*out = start;
	return 0;
}

/* The grammar is stricter than strtod()'s: no "+1", "0x1", "01", ".5", "inf". */
static int
number_read(struct json_reader *reader, struct json_token *token)
{
	const char *start = reader->at, *end = start;
	int whole = *end != '-';
	size_t digits;

	if (*end == '-')
		end++;
	digits = strspn(end, "0123456789");
	if (!digits || (*end == '0' && digits > 1))
		return not_json(reader, "a number");
	end += digits;
	if (*end == '.') {
		whole = 0;
		digits = strspn(++end, "0123456789");
		if (!digits)
			return not_json(reader, "a number");
		end += digits;
	}
	if (*end == 'e' || *end == 'E') {
		whole = 0;
		end++;
		if (*end == '+' || *end == '-')
			end++;
		digits = strspn(end, "0123456789");
		if (!digits)
			return not_json(reader, "a number");
		end += digits;
	}
	token->number = strtod(start, NULL);
	if (whole) {
		errno = 0;
		token->u64 = strtoull(start, NULL, 10);
		token->is_u64 = errno == 0;
		if (!token->is_u64)
			token->u64 = 0;
	}
	token->kind = JSON_NUMBER;
	reader->at += end - start;
	return 0;
}

static int
word_read(struct json_reader *reader, const char *word, enum json_kind kind,
	  struct json_token *token)
{
	if (strncmp(reader->at, word, strlen(word)) != 0)
		return not_json(reader, word);
	reader->at += strlen(word);
	token->kind = kind;
	return 0;
}

static int
level_open(struct json_reader *reader, enum json_kind kind, char closer,
	   struct json_token *token)
{
	if (reader->depth == JSON_READ_DEPTH_MAX)
		return sl_fail(-E2BIG, "JSON nested deeper than %d levels",
			       JSON_READ_DEPTH_MAX);
	reader->closers[reader->depth] = closer;
	reader->has_values[reader->depth] = 0;
	reader->depth++;
	reader->at++;
	token->kind = kind;
	return 0;
}

static int
value_read(struct json_reader *reader, struct json_token *token)
{
	int rc;

	token->depth = reader->depth;
	switch (*reader->at) {
	case '{':
		return level_open(reader, JSON_OBJECT, '}', token);
	case '[':
		return level_open(reader, JSON_ARRAY, ']', token);
	case '"':
		rc = string_read(reader, &token->text);
		token->kind = JSON_STRING;
		return rc;
	case 't':
		return word_read(reader, "true", JSON_TRUE, token);
	case 'f':
		return word_read(reader, "false", JSON_FALSE, token);
	case 'n':
		return word_read(reader, "null", JSON_NULL, token);
	default:
		return number_read(reader, token);
	}
}

/* What stands between the values of an open level. 1: it ends here and is closed. */
static int
separator_read(struct json_reader *reader, struct json_token *token)
{
	unsigned level = reader->depth - 1;
	int rc;

	if (*reader->at == reader->closers[level]) {
		reader->at++;
		reader->depth--;
		token->kind = JSON_CLOSE;
		token->depth = reader->depth;
		return 1;
	}
	if (reader->has_values[level]) {
		if (*reader->at != ',')
			return not_json(reader, "a comma or the end");
		reader->at++;
		space_skip(reader);
	}
	reader->has_values[level] = 1;
	if (reader->closers[level] == ']')
		return 0;
	if (*reader->at != '"')
		return not_json(reader, "a name");
	rc = string_read(reader, &token->key);
	if (rc)
		return rc;
	space_skip(reader);
	if (*reader->at != ':')
		return not_json(reader, "a colon");
	reader->at++;
	space_skip(reader);
	return 0;
}

void
json_read_begin(struct json_reader *reader, char *text)
{
	memset(reader, 0, sizeof(*reader));
	reader->at = text;
}

int
json_read_next(struct json_reader *reader, struct json_token *token)
{
	int rc;

	memset(token, 0, sizeof(*token));
	space_skip(reader);
	if (!reader->depth && reader->done)
		return *reader->at ? not_json(reader, "the end") : 0;
	if (reader->depth) {
		rc = separator_read(reader, token);
		if (rc)
			return rc;
	}
	reader->done = 1;
	rc = value_read(reader, token);
	return rc ? rc : 1;
}
