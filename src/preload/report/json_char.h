/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte of a JSON string, in the files of a run. Names of functions and programs are bytes: what is
 * not printable ASCII is written by its code.
 */
#ifndef SL_PRELOAD_JSON_CHAR_H
#define SL_PRELOAD_JSON_CHAR_H

#include <stdio.h>

#define PL_JSON_CHAR_BYTES 8u

/* Fills text, and returns it. */
static inline const char *
pl_json_char(char text[PL_JSON_CHAR_BYTES], unsigned char c)
{
	if (c == '"' || c == '\\')
		snprintf(text, PL_JSON_CHAR_BYTES, "\\%c", c);
	else if (c < 0x20 || c >= 0x7f)
		snprintf(text, PL_JSON_CHAR_BYTES, "\\u%04x", c);
	else
		snprintf(text, PL_JSON_CHAR_BYTES, "%c", c);
	return text;
}

#endif
