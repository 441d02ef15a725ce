/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SVG writer of chart.h. Coordinates are user units of a fixed view box, so that pictures
 * scale; axes end at round numbers. Threads: any.
 */
#include "chart.h"
#include "svg.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH  900.0
#define HEIGHT 420.0
#define LEFT   80.0
#define RIGHT  20.0
#define TOP    76.0
#define BOTTOM 60.0
#define TICKS  5

static const char *const colours[] = {"#8c8c8c", "#c2304a", "#e08a1e", "#6a51a3",
				      "#7fb2d9", "#2f5d9b", "#1c7c3c", "#111111"};
#define COLOURS (sizeof(colours) / sizeof(colours[0]))

struct axes {
	double x_min, x_max, y_min, y_max;
};

static double
y_scaled(const struct chart *chart, double y)
{
	return chart->log_y ? (y > 0 ? log10(y) : -INFINITY) : y;
}

static void
range_add(const struct chart *chart, double y, struct axes *axes)
{
	y = y_scaled(chart, y);
	if (!isfinite(y))
		return;
	if (y > axes->y_max)
		axes->y_max = y;
	if (y < axes->y_min)
		axes->y_min = y;
}

/* A round number not below x. */
static double
round_up(double x)
{
	static const double leads[] = {1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10};
	double decade = pow(10, floor(log10(x)));
	unsigned i = 0;

	while (leads[i] * decade < x * (1 - 1e-9) && i + 1 < sizeof(leads) / sizeof(leads[0]))
		i++;
	return leads[i] * decade;
}

static const char *
colour_of(const struct chart *chart, unsigned s)
{
	unsigned colour = chart->series[s].colour ? chart->series[s].colour - 1 : s;

	return colours[colour % COLOURS];
}

static void
axes_find(const struct chart *chart, struct axes *axes)
{
	*axes = (struct axes){0, 1, INFINITY, -INFINITY};
	for (unsigned s = 0; s < chart->n_series; s++)
		for (unsigned i = 0; i < chart->n; i++) {
			range_add(chart, chart->series[s].values[i], axes);
			if (chart->series[s].published)
				range_add(chart, chart->series[s].published[i], axes);
		}
	if (!isfinite(axes->y_min)) {
		axes->y_min = 0;
		axes->y_max = 1;
	}
	if (chart->log_y) {
		axes->y_min = floor(axes->y_min);
		axes->y_max = ceil(axes->y_max);
		if (axes->y_max <= axes->y_min)
			axes->y_max = axes->y_min + 1;
	} else {
		axes->y_min = 0;
		axes->y_max = axes->y_max > 0 ? round_up(axes->y_max / TICKS) * TICKS : 1;
	}
	if (chart->x && chart->n) {
		axes->x_min = chart->x[0];
		axes->x_max = chart->x[chart->n - 1];
		if (axes->x_max <= axes->x_min)
			axes->x_max = axes->x_min + 1;
	}
}

static double
x_at(const struct axes *axes, double x)
{
	return LEFT +
	       (x - axes->x_min) / (axes->x_max - axes->x_min) * (WIDTH - LEFT - RIGHT);
}

static double
y_at(const struct chart *chart, const struct axes *axes, double y)
{
	double part = (y_scaled(chart, y) - axes->y_min) / (axes->y_max - axes->y_min);

	return HEIGHT - BOTTOM - (part < 0 ? 0 : part) * (HEIGHT - TOP - BOTTOM);
}

static void
frame_draw(FILE *out, const struct chart *chart, const struct axes *axes)
{
	unsigned ticks = chart->log_y ? (unsigned)(axes->y_max - axes->y_min) : TICKS;
	double at = LEFT;

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n"
		"<text x=\"%.0f\" y=\"24\" font-size=\"16\">",
		WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
	svg_text(out, chart->title);
	fputs("</text>\n", out);
	for (unsigned i = 0; i <= ticks; i++) {
		double value = axes->y_min + (axes->y_max - axes->y_min) * i / ticks;
		double y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * i / ticks;

		fprintf(out,
			"<path d=\"M%.0f %.1fH%.0f\" stroke=\"#dddddd\"/>"
			"<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
			LEFT, y, WIDTH - RIGHT, LEFT - 6, y + 4,
			chart->log_y ? pow(10, value) : value);
	}
	fprintf(out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">",
		(LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8);
	svg_text(out, chart->x_title);
	fprintf(out, "</text>\n<text x=\"%.0f\" y=\"66\">", LEFT - 60);
	svg_text(out, chart->y_title);
	fputs("</text>\n", out);
	for (unsigned s = 0; s < chart->n_series; s++) {
		fprintf(out,
			"<rect x=\"%.0f\" y=\"36\" width=\"12\" height=\"12\" "
			"fill=\"%s\"/>"
			"<text x=\"%.0f\" y=\"46\">",
			at, colour_of(chart, s), at + 16);
		svg_text(out, chart->series[s].name);
		fputs("</text>\n", out);
		at += 30 + 7.2 * (double)strlen(chart->series[s].name);
	}
}

/* One line, or two with a line feed between them. */
static void
group_name(FILE *out, const char *name, double x, double y, unsigned font)
{
	const char *rest = strchr(name, '\n');
	char line[64];

	snprintf(line, sizeof(line), "%.*s", rest ? (int)(rest - name) : 63, name);
	for (unsigned i = 0; i < 2; i++) {
		fprintf(out,
			"<text x=\"%.1f\" y=\"%.0f\" font-size=\"%u\" "
			"text-anchor=\"middle\">",
			x, y + 14.0 * i, font);
		svg_text(out, line);
		fputs("</text>\n", out);
		if (!rest)
			break;
		snprintf(line, sizeof(line), "%s", rest + 1);
	}
}

static void
bars_draw(FILE *out, const struct chart *chart, const struct axes *axes)
{
	double group = (WIDTH - LEFT - RIGHT) / chart->n;
	double bar = group * 0.84 / chart->n_series;
	double base = HEIGHT - BOTTOM;

	for (unsigned i = 0; i < chart->n; i++) {
		double left = LEFT + group * i + group * 0.08;

		group_name(out, chart->groups[i], left + group * 0.42, base + 18,
			   chart->n > 8 ? 10 : 12);
		for (unsigned s = 0; s < chart->n_series; s++) {
			const struct chart_series *series = &chart->series[s];
			double x = left + bar * s;

			if (isfinite(series->values[i]) && series->values[i] >= 0) {
				double y = y_at(chart, axes, series->values[i]);

				fprintf(out,
					"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
					"height=\"%.1f\" fill=\"%s\"/>\n",
					x, y, bar * 0.9, base - y, colour_of(chart, s));
			}
			if (series->published && isfinite(series->published[i]))
				fprintf(out,
					"<path d=\"M%.1f %.1fh%.1f\" stroke=\"#000000\" "
					"stroke-width=\"2\"/>\n",
					x, y_at(chart, axes, series->published[i]),
					bar * 0.9);
		}
	}
}

static void
line_draw(FILE *out, const struct chart *chart, const struct axes *axes,
	  const double *values, const char *colour, const char *dash)
{
	int begun = 0;

	fputs("<path fill=\"none\" d=\"", out);
	for (unsigned i = 0; i < chart->n; i++) {
		if (!isfinite(values[i]) || !isfinite(y_scaled(chart, values[i]))) {
			begun = 0;
			continue;
		}
		fprintf(out, "%c%.1f %.1f", begun ? 'L' : 'M', x_at(axes, chart->x[i]),
			y_at(chart, axes, values[i]));
		begun = 1;
	}
	fprintf(out, "\" stroke=\"%s\" stroke-width=\"%s\"%s/>\n", colour,
		dash[0] ? "1" : "2", dash);
}

static void
lines_draw(FILE *out, const struct chart *chart, const struct axes *axes)
{
	/* Few points are named one by one, many by five round places. */
	unsigned names = chart->n <= 12 ? chart->n : 6;

	for (unsigned i = 0; i < names; i++) {
		double x = chart->n <= 12
				   ? chart->x[i]
				   : axes->x_min + (axes->x_max - axes->x_min) * i / 5;

		fprintf(out, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%g</text>\n",
			x_at(axes, x), HEIGHT - BOTTOM + 18, chart->n <= 12 ? x : round(x));
	}
	for (unsigned s = 0; s < chart->n_series; s++) {
		const struct chart_series *series = &chart->series[s];

		line_draw(out, chart, axes, series->values, colour_of(chart, s), "");
		if (series->published)
			line_draw(out, chart, axes, series->published, "#000000",
				  " stroke-dasharray=\"4 3\"");
	}
}

int
chart_write(const char *path, const struct chart *chart)
{
	FILE *out = fopen(path, "we");
	struct axes axes;
	int failed;

	if (!out)
		return sl_fail(-errno, "%s: %s", path, strerror(errno));
	axes_find(chart, &axes);
	frame_draw(out, chart, &axes);
	if (chart->groups)
		bars_draw(out, chart, &axes);
	else
		lines_draw(out, chart, &axes);
	fputs("</svg>\n", out);
	failed = ferror(out);
	if (fclose(out) || failed)
		return sl_fail(-EIO, "%s: writing failed", path);
	return 0;
}

int
chart_embed(FILE *page, const char *dir, const char *link, const char *name,
	    const struct chart *chart)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s.svg", dir, name);
	fprintf(page, "\n![%s](%s%s%s.svg)\n", chart->title, link, link[0] ? "/" : "", name);
	return chart_write(path, chart);
}
