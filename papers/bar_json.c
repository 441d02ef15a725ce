/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See bar_json.h: one place for the members that every bar has, and their order.
 *
 * What a bar is about, and whether it is judged at all, is its command's own.
 *
 * Threads: as json.h.
 */
#include "bar_json.h"

#include "json.h"

void
bar_json_begin(struct json *json, const char *what, const char *bar, const char *counted,
	       uint64_t n)
{
	json_object(json, NULL);
	json_string(json, "what", what);
	json_string(json, "bar", bar);
	json_u64(json, counted, n);
}

void
bar_json_end(struct json *json, int passed, const char *note)
{
	json_bool(json, "passed", passed);
	json_string(json, "note", note);
	json_close(json);
}
