/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trace events out of a file: timeline_read.h. The JSON reader works on a window of the file, which
 * moves on between two tokens. A token longer than the least rest of the window is refused.
 *
 * The depth of a token says what it is: members of the document have 1, events 2, their members 3,
 * members of "args" 4. Anything else is skipped.
 *
 * Threads: one reader belongs to one thread.
 */
#include "timeline_read.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fault_point.h"
#include "json_read.h"

#define WINDOW_BYTES ((size_t)256 << 10)
#define TOKEN_BYTES \
	((size_t)32 << 10) /* of the longest token, with the space around it */

struct timeline_reader {
	FILE *file;
	const char *label;
	struct json_reader json;
	uint64_t before; /* bytes of the file before the window */
	size_t n;        /* bytes in the window */
	int at_end;      /* the rest of the file is in the window */
	int in_events, in_event, in_args, had_events;
	char window[WINDOW_BYTES + 1];
};

/* ---- the window ---- */

/* Room for the longest token, unless the file ends before. */
static int
window_fill(struct timeline_reader *r)
{
	size_t used = (size_t)(r->json.at - r->window), left = r->n - used, got;

	if (r->at_end || left >= TOKEN_BYTES)
		return 0;
	memmove(r->window, r->json.at, left);
	r->before += used;
	got = fread(r->window + left, 1, WINDOW_BYTES - left, r->file);
	r->n = left + got;
	r->at_end = r->n < WINDOW_BYTES;
	r->json.at = r->window;
	r->window[r->n] = '\0';
	if (ferror(r->file))
		return sl_fail(-EIO, "%s: reading failed: %s", r->label, strerror(errno));
	if (memchr(r->window + left, '\0', got))
		return sl_fail(-EINVAL, "%s: not JSON: there is a zero byte in it", r->label);
	return 0;
}

static int
token_next(struct timeline_reader *r, struct json_token *token)
{
	int rc = window_fill(r);
	size_t at;

	if (rc)
		return rc;
	rc = json_read_next(&r->json, token);
	if (rc >= 0)
		return rc;
	at = (size_t)(r->json.at - r->window);
	if (r->at_end && at == r->n)
		return sl_fail(rc, "%s: it ends in the middle, at byte %llu: a part of it is missing",
			       r->label, (unsigned long long)(r->before + at));
	return sl_fail_in(rc, "%s: byte %llu", r->label,
			  (unsigned long long)(r->before + at));
}

/* ---- events ---- */

/* Cut at max - 1 bytes, between two characters. Control characters, also those of two bytes
 * (U+0080 to U+009F), become '?'. */
static void
text_take(char *to, size_t max, const char *from)
{
	size_t n = 0;

	for (; *from && n + 1 < max; from++) {
		unsigned char c = (unsigned char)*from, next = (unsigned char)from[1];

		if (c == 0xc2 && next >= 0x80 && next < 0xa0) {
			to[n++] = '?';
			from++;
		} else {
			to[n++] = (char)(c < 0x20 || c == 0x7f ? '?' : c);
		}
	}
	if (*from)
		while (n && ((unsigned char)*from & 0xc0) == 0x80)
			from = &to[--n];
	to[n] = '\0';
}

static uint64_t
us_to_ns(double us)
{
	return us > 0 && us < 1e15 ? (uint64_t)llround(us * 1000) : 0;
}

static void
member_take(struct timeline_event *e, const struct json_token *token)
{
	const char *key = token->key;

	if (token->kind == JSON_STRING) {
		if (!strcmp(key, "ph"))
			e->phase = token->text[0];
		else if (!strcmp(key, "cat"))
			text_take(e->category, sizeof(e->category), token->text);
		else if (!strcmp(key, "name"))
			text_take(e->name, sizeof(e->name), token->text);
	} else if (token->kind == JSON_NUMBER) {
		if (!strcmp(key, "ts"))
			e->ns = us_to_ns(token->number);
		else if (!strcmp(key, "dur"))
			e->span_ns = us_to_ns(token->number);
		else if (!strcmp(key, "pid"))
			e->pid = token->u64;
		else if (!strcmp(key, "tid"))
			e->track = token->u64;
	}
}

static void
arg_take(struct timeline_event *e, const struct json_token *token)
{
	const struct {
		const char *key;
		uint64_t *to;
	} numbers[] = {
		{"launch", &e->launch},         {"address", &e->address},
		{"thread", &e->thread},         {"behind_call_us", &e->behind_call_us},
		{"used_bytes", &e->used_bytes}, {"budget_bytes", &e->budget_bytes},
		{"launches", &e->launches},     {"events", &e->events},
	};

	if (token->kind == JSON_STRING) {
		if (!strcmp(token->key, "name"))
			text_take(e->text, sizeof(e->text), token->text);
		else if (!strcmp(token->key, "counter"))
			text_take(e->counter, sizeof(e->counter), token->text);
	} else if (token->kind == JSON_NUMBER && !strcmp(token->key, "bytes")) {
		if (fabs(token->number) < 1e18)
			e->bytes = (int64_t)token->number;
	} else if (token->kind == JSON_NUMBER) {
		for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
			if (!strcmp(token->key, numbers[i].key))
				*numbers[i].to = token->u64;
	}
}

/* 1: with this token the event is whole. */
static int
event_token(struct timeline_reader *r, struct timeline_event *e, const struct json_token *token)
{
	int closes = token->kind == JSON_CLOSE;

	switch (token->depth) {
	case 1:
		r->in_events = token->kind == JSON_ARRAY &&
			       !strcmp(token->key, "traceEvents");
		r->had_events |= r->in_events;
		break;
	case 2:
		if (closes && r->in_event) {
			r->in_event = 0;
			return 1;
		}
		r->in_event = r->in_events && token->kind == JSON_OBJECT;
		if (r->in_event)
			memset(e, 0, sizeof(*e));
		break;
	case 3:
		if (!r->in_event)
			break;
		r->in_args = !closes && token->kind == JSON_OBJECT &&
			     !strcmp(token->key, "args");
		if (!closes)
			member_take(e, token);
		break;
	case 4:
		if (r->in_args && !closes)
			arg_take(e, token);
		break;
	default:
		break;
	}
	return 0;
}

int
timeline_next(struct timeline_reader *r, struct timeline_event *event)
{
	struct json_token token = {0};
	int rc;

	while ((rc = token_next(r, &token)) > 0) {
		if (!token.depth && token.kind != JSON_OBJECT && token.kind != JSON_CLOSE)
			return sl_fail(-EINVAL, "%s: no timeline of `sluice run`: the document is no object",
				       r->label);
		if (event_token(r, event, &token))
			return 1;
	}
	if (!rc && !r->had_events)
		return sl_fail(-EINVAL, "%s: no timeline: there are no \"traceEvents\" in it",
			       r->label);
	return rc;
}

/* ---- begin and end ---- */

int
timeline_open_file(FILE *file, const char *label, struct timeline_reader **out)
{
	struct timeline_reader *r = sl_calloc(1, sizeof(*r));
	int rc;

	if (!r) {
		(void)fclose(file);
		return sl_fail(-ENOMEM, "%s: out of memory", label);
	}
	r->file = file;
	r->label = label;
	json_read_begin(&r->json, r->window);
	rc = window_fill(r);
	if (!rc && !r->n)
		rc = sl_fail(-EINVAL, "%s: it is empty", label);
	if (rc) {
		timeline_close(r);
		return rc;
	}
	*out = r;
	return 0;
}

int
timeline_open(const char *path, struct timeline_reader **out)
{
	FILE *file = fopen(path, "re");
	struct stat status;

	if (!file)
		return sl_fail(-errno, "%s: %s", path, strerror(errno));
	if (!fstat(fileno(file), &status) && S_ISDIR(status.st_mode)) {
		(void)fclose(file);
		return sl_fail(-EISDIR, "%s: it is a directory", path);
	}
	return timeline_open_file(file, path, out);
}

void
timeline_close(struct timeline_reader *r)
{
	if (!r)
		return;
	(void)fclose(r->file);
	free(r);
}
