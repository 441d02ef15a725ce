/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two kinds of charts as SVG files: groups of bars, and lines over numbers. Each series may have
 * published values beside its own: marks on bars, dashed lines. The files need no script, no
 * font and no other file. A value that is not finite is left out.
 *
 * Threads: any; nothing is shared.
 */
#ifndef SL_TOOLS_CHART_H
#define SL_TOOLS_CHART_H

#include <stdio.h>

#include "base/error.h"

struct chart_series {
	const char *name;
	const double *values;
	const double *published; /* NULL: none */
	unsigned colour;         /* 1...: the same in every picture; 0: by order */
};

struct chart {
	const char *title, *x_title, *y_title;
	const struct chart_series *series;
	unsigned n_series;
	unsigned n;                /* values of each series */
	const char *const *groups; /* names, of one line or two: bars; NULL: lines over x */
	const double *x;
	int log_y; /* decades; values must be above 0 */
};

/* Errors of writing path, text set. */
int chart_write(const char *path, const struct chart *chart) SL_MUST_CHECK;

/* The same to DIR/NAME.svg, with a line on the Markdown page that shows it. link: the page's way to
 * dir; may be "". */
int chart_embed(FILE *page, const char *dir, const char *link, const char *name,
		const struct chart *chart) SL_MUST_CHECK;

#endif
