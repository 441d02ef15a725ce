/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SVG writer of trace_picture.h. Launches are gathered into columns and idle times
 * into the cells of a grid, so that the picture stays small. All axes but that of the
 * launches are logarithmic. Coordinates are user units of a fixed view box.
 *
 * Threads: no state.
 */
#include "trace_picture.h"
#include "svg.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH   960.0
#define HEIGHT  940.0
#define LEFT    78.0
#define RIGHT   936.0
#define COLUMNS 600u /* of the first panel */
#define GRID_X  96u  /* cells of the third */
#define GRID_Y  32u

static const char alive_colour[] = "#7fb2d9";
static const char active_colour[] = "#c2304a";
static const char line_colour[] = "#2f5d9b";

/* A panel with its two axes; log axes are in powers of ten. */
struct panel {
	FILE *to;
	double top, bottom;
	double x_low, x_high, y_low, y_high;
};

static double
panel_x(const struct panel *p, double x)
{
	x = fmin(fmax(x, p->x_low), p->x_high);
	return LEFT + (x - p->x_low) / (p->x_high - p->x_low) * (RIGHT - LEFT);
}

static double
panel_y(const struct panel *p, double y)
{
	y = fmin(fmax(y, p->y_low), p->y_high);
	return p->bottom - (y - p->y_low) / (p->y_high - p->y_low) * (p->bottom - p->top);
}

static void
panel_begin(const struct panel *p, const char *title)
{
	fprintf(p->to,
		"<text x=\"%.0f\" y=\"%.1f\" font-weight=\"bold\">%s</text>\n"
		"<rect x=\"%.0f\" y=\"%.1f\" width=\"%.0f\" height=\"%.1f\" "
		"fill=\"none\" "
		"stroke=\"#888\"/>\n",
		LEFT, p->top - 10, title, LEFT, p->top, RIGHT - LEFT, p->bottom - p->top);
}

static void
panel_mark_x(const struct panel *p, double x, const char *text)
{
	double at = panel_x(p, x);

	fprintf(p->to,
		"<path d=\"M%.1f %.1fv%.1f\" stroke=\"#ddd\"/>"
		"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
		at, p->top, p->bottom - p->top, at, p->bottom + 16, text);
}

static void
panel_mark_y(const struct panel *p, double y, const char *text)
{
	double at = panel_y(p, y);

	fprintf(p->to,
		"<path d=\"M%.0f %.1fh%.0f\" stroke=\"#ddd\"/>"
		"<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
		LEFT, at, RIGHT - LEFT, LEFT - 6, at + 4, text);
}

static void
panel_legend(const struct panel *p, double x, const char *colour, const char *text)
{
	fprintf(p->to,
		"<rect x=\"%.0f\" y=\"%.1f\" width=\"12\" height=\"12\" fill=\"%s\"/>"
		"<text x=\"%.0f\" y=\"%.1f\">%s</text>\n",
		x, p->top - 20, colour, x + 17, p->top - 10, text);
}

static const char *const us_words[] = {"1 us",   "10 us", "100 us", "1 ms", "10 ms",
				       "100 ms", "1 s",   "10 s",   "100 s"};

static void
panel_us_axis(const struct panel *p)
{
	for (int e = (int)ceil(p->x_low); e <= (int)p->x_high; e++)
		if (e >= 0 && (size_t)e < sizeof(us_words) / sizeof(us_words[0]))
			panel_mark_x(p, e, us_words[e]);
}

/* ---- memory over launches ---- */

/* log10 of a share, in percent; the axis begins at 0.01 %. */
static double
percent_log(uint64_t bytes, uint64_t total)
{
	return bytes ? log10(100.0 * (double)bytes / (double)total) : -2;
}

static void
area_draw(const struct panel *p, const struct sl_vitality *v, const uint64_t *bytes,
	  const char *colour)
{
	uint32_t n_columns = v->n_launches < COLUMNS ? v->n_launches : COLUMNS;

	fprintf(p->to, "<path fill=\"%s\" d=\"M%.0f %.1f", colour, LEFT, p->bottom);
	for (uint32_t c = 0; c < n_columns; c++) {
		uint32_t k = (uint32_t)((uint64_t)c * v->n_launches / n_columns);
		uint32_t end = (uint32_t)((uint64_t)(c + 1) * v->n_launches / n_columns);
		uint64_t most = 0;

		for (; k < end; k++)
			if (bytes[k] > most)
				most = bytes[k];
		fprintf(p->to, "L%.1f %.1fH%.1f", LEFT + (RIGHT - LEFT) * c / n_columns,
			panel_y(p, percent_log(most, v->total_bytes)),
			LEFT + (RIGHT - LEFT) * (c + 1) / n_columns);
	}
	fprintf(p->to, "V%.1fZ\"/>\n", p->bottom);
}

static void
memory_draw(FILE *to, const struct sl_vitality *v)
{
	struct panel p = {.to = to,
			  .top = 90,
			  .bottom = 300,
			  .x_high = v->n_launches,
			  .y_low = -2,
			  .y_high = 2};
	char text[32];

	panel_begin(&p, "Memory of alive and of active tensors, share of all tensors");
	area_draw(&p, v, v->alive_bytes, alive_colour);
	area_draw(&p, v, v->active_bytes, active_colour);
	panel_mark_y(&p, -2, "0.01 %");
	panel_mark_y(&p, -1, "0.1 %");
	panel_mark_y(&p, 0, "1 %");
	panel_mark_y(&p, 1, "10 %");
	panel_mark_y(&p, 2, "100 %");
	for (int i = 0; i <= 4; i++) {
		snprintf(text, sizeof(text), "%u",
			 (unsigned)((uint64_t)v->n_launches * (unsigned)i / 4));
		panel_mark_x(&p, (double)v->n_launches * i / 4, text);
	}
	panel_legend(&p, 640, alive_colour, "alive");
	panel_legend(&p, 720, active_colour, "active (used by the launch)");
}

/* ---- idle times ---- */

static int
ticks_compare(const void *a, const void *b)
{
	const struct sl_idle *x = a, *y = b;

	return (x->ticks > y->ticks) - (x->ticks < y->ticks);
}

/* log10 of microseconds. */
static double
us_log(const struct sl_trace *trace, uint64_t ticks)
{
	double us = (double)ticks * 1e6 / (double)trace->clock_hz;

	return us > 0 ? log10(us) : -1;
}

/* sorted: by length. by_bytes: each counts as its tensor's size. */
static void
share_draw(const struct panel *p, const struct sl_trace *trace,
	   const struct sl_idle *sorted, uint32_t n, int by_bytes, const char *colour)
{
	double all = 0, sum = 0, last_x = -1;

	for (uint32_t i = 0; i < n; i++)
		all += by_bytes ? (double)trace->tensors[sorted[i].tensor].size_bytes : 1;
	fprintf(p->to, "<path fill=\"none\" stroke-width=\"2\" stroke=\"%s\" d=\"M%.0f %.1f",
		colour, LEFT, p->bottom);
	for (uint32_t i = 0; i < n; i++) {
		double x = panel_x(p, us_log(trace, sorted[i].ticks));

		sum += by_bytes ? (double)trace->tensors[sorted[i].tensor].size_bytes : 1;
		if (x - last_x < 1 && i + 1 < n)
			continue; /* not seen at this size */
		fprintf(p->to, "L%.1f %.1f", x, panel_y(p, sum / all));
		last_x = x;
	}
	fprintf(p->to, "H%.0f\"/>\n", RIGHT);
}

static int
lengths_draw(FILE *to, const struct sl_trace *trace, const struct sl_vitality *v)
{
	struct panel p = {.to = to, .top = 370, .bottom = 580, .x_high = 8, .y_high = 1};
	struct sl_idle *sorted = malloc((v->n_idles + (size_t)1) * sizeof(*sorted));

	if (!sorted)
		return sl_fail(-ENOMEM, "picture: no memory for %u idle times", v->n_idles);
	memcpy(sorted, v->idles, v->n_idles * sizeof(*sorted));
	if (v->n_idles > 0)
		qsort(sorted, v->n_idles, sizeof(*sorted), ticks_compare);
	panel_begin(&p, "Idle times at most this long");
	panel_us_axis(&p);
	panel_mark_y(&p, 0, "0 %");
	panel_mark_y(&p, 0.25, "25 %");
	panel_mark_y(&p, 0.5, "50 %");
	panel_mark_y(&p, 0.75, "75 %");
	panel_mark_y(&p, 1, "100 %");
	panel_legend(&p, 640, line_colour, "of their number");
	panel_legend(&p, 790, active_colour, "of their bytes");
	if (v->n_idles > 0) {
		share_draw(&p, trace, sorted, v->n_idles, 0, line_colour);
		share_draw(&p, trace, sorted, v->n_idles, 1, active_colour);
	}
	free(sorted);
	return 0;
}

static int
sizes_draw(FILE *to, const struct sl_trace *trace, const struct sl_vitality *v)
{
	/* log10 of bytes: 1 KB to 100 GB. */
	struct panel p = {
		.to = to, .top = 650, .bottom = 900, .x_high = 8, .y_low = 3, .y_high = 11};
	uint32_t *cells = calloc((size_t)GRID_X * GRID_Y, sizeof(*cells));

	if (!cells)
		return sl_fail(-ENOMEM, "picture: no memory for its cells");
	for (uint32_t i = 0; i < v->n_idles; i++) {
		double bytes = (double)trace->tensors[v->idles[i].tensor].size_bytes;
		double x = (us_log(trace, v->idles[i].ticks) - p.x_low) /
			   (p.x_high - p.x_low);
		double y = (log10(bytes) - p.y_low) / (p.y_high - p.y_low);

		x = fmin(fmax(x, 0), 0.9999);
		y = fmin(fmax(y, 0), 0.9999);
		cells[(size_t)(y * GRID_Y) * GRID_X + (size_t)(x * GRID_X)]++;
	}
	panel_begin(&p, "Size of the tensor beside length of the idle time");
	panel_us_axis(&p);
	panel_mark_y(&p, 3, "1 KB");
	panel_mark_y(&p, 5, "100 KB");
	panel_mark_y(&p, 7, "10 MB");
	panel_mark_y(&p, 9, "1 GB");
	panel_mark_y(&p, 11, "100 GB");
	for (size_t i = 0; i < (size_t)GRID_X * GRID_Y; i++) {
		size_t row = i / GRID_X, column = i % GRID_X;
		double x = (double)column + 0.5, y = (double)row + 0.5;

		if (cells[i] == 0)
			continue;
		fprintf(to,
			"<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\" "
			"fill-opacity=\"0.6\"/>\n",
			LEFT + x / GRID_X * (RIGHT - LEFT),
			p.bottom - y / GRID_Y * (p.bottom - p.top),
			fmin(1.5 + log10((double)cells[i]) * 2, 9), line_colour);
	}
	free(cells);
	return 0;
}

int
trace_picture_write(const char *path, const struct sl_trace *trace,
		    const struct sl_vitality *vitality)
{
	FILE *to = fopen(path, "we");
	int rc, failed;

	if (!to)
		return sl_fail(-errno, "%s: %s", path, strerror(errno));
	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
		"<text x=\"%.0f\" y=\"34\" font-size=\"18\">",
		WIDTH, HEIGHT, LEFT);
	svg_text(to, trace->source && trace->source[0] ? trace->source : "trace");
	fputs("</text>\n", to);
	memory_draw(to, vitality);
	rc = lengths_draw(to, trace, vitality);
	if (!rc)
		rc = sizes_draw(to, trace, vitality);
	fputs("</svg>\n", to);
	errno = 0;
	failed = ferror(to);
	if (fclose(to) || failed)
		rc = sl_fail(errno ? -errno : -EIO, "%s: writing: %s", path,
			     strerror(errno ? errno : EIO));
	return rc;
}
