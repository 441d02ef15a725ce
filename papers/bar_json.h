/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bar as JSON: what is asked for, over how many of what, whether it is met, and how nearly. The
 * commands that judge bars (`sluice-papers figures`, `sluice-papers suite`) write members of their own in
 * between.
 *
 * Threads: as json.h.
 */
#ifndef SL_TOOLS_BAR_JSON_H
#define SL_TOOLS_BAR_JSON_H

#include <stdint.h>

struct json;

/* Open the object; counted: what n is the number of, in the plural. */
void bar_json_begin(struct json *json, const char *what, const char *bar,
		    const char *counted, uint64_t n);
void bar_json_end(struct json *json, int passed, const char *note);

#endif
