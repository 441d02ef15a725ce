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
	json_object(json);
	json_key(json, "what");
	json_string(json, what);
	json_key(json, "bar");
	json_string(json, bar);
	json_key(json, counted);
	json_u64(json, n);
}

void
bar_json_end(struct json *json, int passed, const char *note)
{
	json_key(json, "passed");
	json_bool(json, passed);
	json_key(json, "note");
	json_string(json, note);
	json_close(json);
}
