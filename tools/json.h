/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small writer of JSON, shared by the commands: one document to one FILE, indented so that a
 * person can read it as well. Inside an object every value has a key, elsewhere the key is NULL. Nothing is
 * allocated; nesting is bounded by JSON_DEPTH_MAX.
 *
 * Strings may hold any bytes: quotes and control characters are escaped, what is not UTF-8 (a
 * path may be anything) becomes U+FFFD. Numbers that JSON cannot hold (NaN, infinities) become
 * null. Write errors are kept by the FILE and returned by json_end().
 *
 *	struct json json;
 *
 *	json_begin(&json, stdout);
 *	json_object(&json, NULL);
 *	json_u64(&json, "launches", 3);
 *	rc = json_end(&json);
 *
 * Threads: one writer per document.
 */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdint.h>
#include <stdio.h>

#define JSON_DEPTH_MAX 16

struct json {
	FILE *out;
	unsigned depth;
	char closers[JSON_DEPTH_MAX];
	unsigned char empty[JSON_DEPTH_MAX]; /* nothing written at this depth yet */
};

/* Start a document on out (stays the caller's). */
void json_begin(struct json *json, FILE *out);

/* Close what is still open and end the document. 0, or -EIO when writing failed. */
int json_end(struct json *json);

/* Open an object or an array; close the innermost one. */
void json_object(struct json *json, const char *key);
void json_array(struct json *json, const char *key);
void json_close(struct json *json);

/* Values. text NULL: null. value of json_bool(): 0 is false. */
void json_string(struct json *json, const char *key, const char *text);
void json_u64(struct json *json, const char *key, uint64_t value);
void json_i64(struct json *json, const char *key, int64_t value);
void json_double(struct json *json, const char *key, double value);
void json_bool(struct json *json, const char *key, int value);
void json_null(struct json *json, const char *key);

#endif
