/* SPDX-License-Identifier: Apache-2.0 */
/* See svg.h. */
#include "svg.h"

#include <math.h>

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

double
svg_step(double range, int parts)
{
	double least = range / parts, power;

	if (!(least > 0))
		return 1;
	power = pow(10, floor(log10(least)));
	if (least <= power)
		return power;
	if (least <= 2 * power)
		return 2 * power;
	if (least <= 5 * power)
		return 5 * power;
	return 10 * power;
}
