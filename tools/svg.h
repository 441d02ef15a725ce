/* SPDX-License-Identifier: Apache-2.0 */
/* Text that is safe in XML, for all SVG pictures. Threads: any; nothing is kept. */
#ifndef SL_TOOLS_SVG_H
#define SL_TOOLS_SVG_H

#include <stdio.h>

/* Write text escaped; control characters, which XML does not have however written, become '?'. */
void svg_text(FILE *to, const char *text);

#endif
