/* SPDX-License-Identifier: Apache-2.0 */
/* Text that is safe in XML and HTML, and steps of axes, for all pictures. Threads: any; nothing is kept. */
#ifndef SL_TOOLS_SVG_H
#define SL_TOOLS_SVG_H

#include <stdio.h>

/* Write text escaped; control characters, which XML does not have however written, become '?'. */
void svg_text(FILE *to, const char *text);

/* A step of 1, 2 or 5 times a power of ten that cuts range into at most parts pieces. */
double svg_step(double range, int parts);

#endif
