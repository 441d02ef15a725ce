/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading JSON, token by token, out of a text in memory.
 *
 * The reader checks the whole grammar as it goes, keeps its place in fixed space and never calls
 * itself: hostile text costs an error, nothing else. Strings are unescaped where they lie, so the
 * text is changed and must outlive the tokens. Documents nested deeper than JSON_READ_DEPTH_MAX
 * are refused.
 *
 *	struct json_reader reader;
 *	struct json_token token;
 *	int rc;
 *
 *	json_read_begin(&reader, text);
 *	while ((rc = json_read_next(&reader, &token)) > 0)
 *		...			rc is 0 after a whole document, else negative
 *
 * Threads: one reader belongs to one thread.
 */
#ifndef SL_TOOLS_JSON_READ_H
#define SL_TOOLS_JSON_READ_H

#include <stdint.h>

#include "base/error.h"

#define JSON_READ_DEPTH_MAX 16

enum json_kind {
	JSON_OBJECT, /* { : what follows lies one level deeper */
	JSON_ARRAY,  /* [ : likewise */
	JSON_CLOSE,  /* } or ] */
	JSON_STRING,
	JSON_NUMBER,
	JSON_TRUE,
	JSON_FALSE,
	JSON_NULL,
	JSON_KIND_COUNT
};

struct json_token {
	enum json_kind kind;
	const char *key;  /* in an object: the value's name; else NULL */
	const char *text; /* JSON_STRING */
	double number;    /* JSON_NUMBER */
	uint64_t u64;     /* JSON_NUMBER that is a whole number within 64 bits; else 0 */
	int is_u64;
	unsigned depth; /* how many objects and arrays are open around the value */
};

struct json_reader {
	char *at;
	unsigned depth;
	char closers[JSON_READ_DEPTH_MAX];
	int has_values[JSON_READ_DEPTH_MAX];
	int done; /* the outermost value has been read */
};

/* text: ended by a zero byte, borrowed and changed. */
void json_read_begin(struct json_reader *reader, char *text);

/* 1: *token is the next one; 0: the document is whole and nothing but space follows; -EINVAL: not
 * JSON (the text of the error says where); -E2BIG: nested too deep. */
int json_read_next(struct json_reader *reader, struct json_token *token) SL_MUST_CHECK;

#endif
