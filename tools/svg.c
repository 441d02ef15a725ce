/* SPDX-License-Identifier: Apache-2.0 */
/* See svg.h. */
#include "svg.h"

void
svg_text(FILE *to, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", to);
			break;
		case '>':
			fputs("&gt;", to);
			break;
		case '&':
			fputs("&amp;", to);
			break;
		case '"':
			fputs("&quot;", to);
			break;
		default:
			/* XML has no control characters, however written. */
			fputc((unsigned char)*text < 0x20 ? '?' : *text, to);
		}
	}
}
