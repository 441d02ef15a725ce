/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text for the JSON reader of `sluice stat`, which reads what another process sends. The
 * reader ends, with a known code; levels that open also close; a key is there inside objects and
 * nowhere else. What it accepts, written again by the JSON writer, is accepted again, and from
 * then on always written as the same text.
 *
 * Reader and writer belong to the tool and not to the library, so this file takes them in.
 */
#include "../../tools/json.c"      /* NOLINT(bugprone-suspicious-include): see above */
#include "../../tools/json_read.c" /* NOLINT(bugprone-suspicious-include): see above */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
token_write(struct json *json, const struct json_token *token)
{
	switch (token->kind) {
	case JSON_OBJECT:
		json_object(json, token->key);
		break;
	case JSON_ARRAY:
		json_array(json, token->key);
		break;
	case JSON_CLOSE:
		json_close(json);
		break;
	case JSON_STRING:
		json_string(json, token->key, token->text);
		break;
	case JSON_NUMBER:
		if (token->is_u64)
			json_u64(json, token->key, token->u64);
		else
			json_double(json, token->key, token->number);
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		json_bool(json, token->key, token->kind == JSON_TRUE);
		break;
	case JSON_NULL:
		json_null(json, token->key);
		break;
	case JSON_KIND_COUNT:
		abort();
	}
}

/* Read text (which it changes) and write it again: *out, to be freed. The reader's last code. */
static int
again(char *text, char **out)
{
	char in_object[JSON_READ_DEPTH_MAX + 1] = {0};
	struct json_reader reader;
	struct json_token token;
	size_t out_bytes = 0, tokens = 0, most = strlen(text);
	unsigned depth = 0;
	struct json json;
	FILE *to = open_memstream(out, &out_bytes);
	int rc;

	if (!to)
		abort();
	json_begin(&json, to);
	json_read_begin(&reader, text);
	while ((rc = json_read_next(&reader, &token)) > 0) {
		if (rc != 1 || ++tokens > most)
			abort();
		if (token.kind == JSON_CLOSE)
			depth--;
		if (token.depth != depth || depth > JSON_READ_DEPTH_MAX)
			abort();
		if (token.kind != JSON_CLOSE && !token.key != !in_object[depth])
			abort();
		token_write(&json, &token);
		if (token.kind == JSON_OBJECT || token.kind == JSON_ARRAY)
			in_object[++depth] = token.kind == JSON_OBJECT;
	}
	if (rc != 0 && rc != -EINVAL && rc != -E2BIG)
		abort();
	if (rc == 0) {
		if (depth || !tokens || json_end(&json))
			abort();
	}
	if (fclose(to))
		abort();
	return rc;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *written[3] = {NULL};

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (again(text, &written[0]) == 0) {
		/* The first writing may have replaced bytes by escapes: the next ones settle. */
		for (int i = 1; i < 3; i++) {
			char *copy = strdup(written[i - 1]);

			if (!copy || again(copy, &written[i]) != 0)
				abort();
			free(copy);
		}
		if (strcmp(written[1], written[2]) != 0)
			abort();
	}
	for (int i = 0; i < 3; i++)
		free(written[i]);
	free(text);
	return 0;
}
