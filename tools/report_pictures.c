/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pictures of `sluice report --html`, as SVG inside of the page. Colours are variables of the
 * page (report_html.c), so they follow light and dark. Coordinates are user units of a fixed view
 * box. Threads: no state.
 */
#include <math.h>
#include <stdio.h>

#include "base/size.h"
#include "report.h"
#include "svg.h"

#define WIDTH  960.0
#define LEFT   76.0
#define RIGHT  940.0
#define TOP    14.0
#define BOTTOM 44.0 /* below a chart, for its axis */

struct chart {
	FILE *to;
	double height, most; /* of the drawing; at its top */
	double x_most;
};

static double
x_of(const struct chart *c, double x)
{
	return LEFT + (c->x_most > 0 ? x / c->x_most : 0) * (RIGHT - LEFT);
}

static double
y_of(const struct chart *c, double y)
{
	return TOP + c->height * (1 - (c->most > 0 ? fmin(y / c->most, 1) : 0));
}

/* An axis from 0 to c->most in units; its name. */
static void
chart_begin(const struct chart *c, const char *title, const char *unit, double unit_size)
{
	double step = svg_step(c->most / unit_size, 5);

	fprintf(c->to, "<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"", WIDTH,
		TOP + c->height + BOTTOM);
	svg_text(c->to, title);
	fputs("\">\n", c->to);
	/* A hair of slack: the steps are summed with rounding. */
	for (double value = 0; value * unit_size <= c->most * 1.0001; value += step) {
		double y = y_of(c, value * unit_size);

		fprintf(c->to,
			"<path class=\"grid\" d=\"M%.0f %.1fH%.0f\"/>"
			"<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n",
			LEFT, y, RIGHT, LEFT - 6, y + 4, value);
	}
	fprintf(c->to, "<text transform=\"translate(14 %.1f) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
		TOP + c->height / 2, unit);
}

/* The axis of time, and the end. */
static void
chart_time_end(const struct chart *c)
{
	const char *unit = c->x_most < 0.5 ? "milliseconds" : "seconds";
	double size = c->x_most < 0.5 ? 1e-3 : 1;
	double step = svg_step(c->x_most / size, 12), y = TOP + c->height;

	for (double at = 0; at * size <= c->x_most * 1.0001; at += step)
		fprintf(c->to,
			"<path class=\"axis\" d=\"M%.1f %.1fv5\"/>"
			"<text x=\"%.1f\" y=\"%.1f\" "
			"text-anchor=\"middle\">%.6g</text>\n",
			x_of(c, at * size), y, x_of(c, at * size), y + 18, at);
	fprintf(c->to,
		"<path class=\"axis\" d=\"M%.0f %.1fH%.0f\"/>"
		"<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n</svg>\n",
		LEFT, y, RIGHT, (LEFT + RIGHT) / 2, y + 36, unit);
}

static double
whole_s(const struct report *report)
{
	return (double)report_whole_ns(report) / 1e9;
}

/* An area from lower to upper over n columns of equal width, up to x_end. */
static void
area_put(const struct chart *c, const char *class, const double *lower,
	 const double *upper, size_t n, double x_end)
{
	fprintf(c->to, "<path class=\"%s\" d=\"M%.1f %.1f", class, x_of(c, 0),
		y_of(c, upper[0]));
	for (size_t i = 0; i < n; i++)
		fprintf(c->to, "V%.1fH%.1f", y_of(c, upper[i]),
			x_of(c, fmin(x_end * (double)(i + 1) / (double)n, c->x_most)));
	for (size_t i = n; i-- > 0;)
		fprintf(c->to, "V%.1fH%.1f", y_of(c, lower[i]),
			x_of(c, fmin(x_end * (double)i / (double)n, c->x_most)));
	fputs("Z\"/>\n", c->to);
}

/* ---- time ---- */

void
report_picture_time(FILE *to, const struct report *report, const struct report_gpu *gpu)
{
	struct chart c = {to, 200, 100, whole_s(report)};
	double lower[REPORT_COLUMNS] = {0}, upper[REPORT_COLUMNS];
	double column = (double)report_whole_ns(report) / REPORT_COLUMNS;

	chart_begin(&c, "Where the time went, over the run", "% of the time", 1);
	for (int part = 0; part < REPORT_PARTS; part++) {
		char class[48];

		for (size_t i = 0; i < REPORT_COLUMNS; i++)
			upper[i] = lower[i] +
				   (column > 0 ? gpu->column_ns[i][part] * 100 / column : 0);
		snprintf(class, sizeof(class), "fill %s",
			 report_part_key((enum report_part)part));
		if (gpu->part_ns[part])
			area_put(&c, class, lower, upper, REPORT_COLUMNS, c.x_most);
		for (size_t i = 0; i < REPORT_COLUMNS; i++)
			lower[i] = upper[i];
	}
	chart_time_end(&c);
}

/* ---- moves ---- */

void
report_picture_moves(FILE *to, const struct report *report, const struct report_gpu *gpu)
{
	struct chart c = {to, 150, 0, whole_s(report)};
	double column_s = c.x_most / REPORT_COLUMNS, unit;

	for (size_t i = 0; i < REPORT_COLUMNS; i++)
		for (int way = 0; way < REPORT_WAYS; way++)
			c.most = fmax(c.most, gpu->column_bytes[i][way] / column_s);
	c.most *= 1.05;
	unit = c.most < 1e9 ? 1e6 : 1e9;
	chart_begin(&c, "Bytes moved a second, over the run",
		    unit < 1e9 ? "MB/s" : "GB/s", unit);
	for (int way = 0; way < REPORT_WAYS; way++) {
		if (!gpu->ways[way].moves)
			continue;
		fprintf(to, "<path class=\"line %s\" d=\"",
			report_way_key((enum report_way)way));
		for (size_t i = 0; i < REPORT_COLUMNS; i++)
			fprintf(to, "%c%.1f %.1f", i ? 'L' : 'M',
				x_of(&c, column_s * ((double)i + 0.5)),
				y_of(&c, gpu->column_bytes[i][way] / column_s));
		fputs("\"/>\n", to);
	}
	chart_time_end(&c);
}

/* ---- memory ---- */

static const char *const tier_classes[SLUICE_TIER_COUNT] = {"fill device",
							    "fill host_tier", "fill store"};

/* By tier and piece of time; a piece without news has what was before. The number of pieces. */
static size_t
memory_take(const struct report *report, const struct report_gpu *gpu,
	    double memory[SLUICE_TIER_COUNT][REPORT_MEMORY])
{
	uint64_t whole = report_whole_ns(report), step = gpu->memory_step_ns;
	size_t n = step ? (size_t)(whole / step) + 1 : 0;

	if (n > REPORT_MEMORY)
		n = REPORT_MEMORY;
	for (int tier = 0; tier < SLUICE_TIER_COUNT; tier++) {
		double last = 0;

		for (size_t i = 0; i < n; i++) {
			if (gpu->memory[i][tier] != UINT64_MAX)
				last = (double)gpu->memory[i][tier];
			memory[tier][i] = last;
		}
	}
	return n;
}

static void
budget_put(const struct chart *c, uint64_t bytes, const char *name)
{
	double y = y_of(c, (double)bytes);
	char size[32];

	fprintf(c->to,
		"<path class=\"budget\" d=\"M%.0f %.1fH%.0f\"/>"
		"<text class=\"over\" x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%s: "
		"%s</text>\n",
		LEFT, y, RIGHT, RIGHT - 4, y - 4, name,
		sl_size_format(bytes, size, sizeof(size)));
}

void
report_picture_memory(FILE *to, const struct report *report, const struct report_gpu *gpu)
{
	double memory[SLUICE_TIER_COUNT][REPORT_MEMORY], lower[REPORT_MEMORY] = {0};
	double upper[REPORT_MEMORY], gib = 1024.0 * 1024 * 1024, unit;
	struct chart c = {to, 200, 0, whole_s(report)};
	size_t n = memory_take(report, gpu, memory);
	double x_end = (double)n * (double)gpu->memory_step_ns / 1e9;
	uint64_t device = gpu->budget[SLUICE_TIER_DEVICE],
		 host = gpu->budget[SLUICE_TIER_HOST];
	double used = 0;

	for (size_t i = 0; i < n; i++)
		used = fmax(used, memory[0][i] + memory[1][i] + memory[2][i]);
	/* A budget far above all that was used would flatten the picture. */
	c.most = fmax(used, (double)device);
	if ((double)(device + host) < 3 * c.most)
		c.most = fmax(c.most, (double)(device + host));
	c.most = fmax(c.most * 1.12, 1);
	unit = c.most < 2 * gib ? gib / 1024 : gib;
	chart_begin(&c, "Memory in use by tier, over the run", unit < gib ? "MiB" : "GiB",
		    unit);
	for (int tier = 0; n && tier < SLUICE_TIER_COUNT; tier++) {
		for (size_t i = 0; i < n; i++)
			upper[i] = lower[i] + memory[tier][i];
		area_put(&c, tier_classes[tier], lower, upper, n, x_end);
		for (size_t i = 0; i < n; i++)
			lower[i] = upper[i];
	}
	if (device)
		budget_put(&c, device, "device budget");
	if (host && (double)(device + host) <= c.most)
		budget_put(&c, device + host, "device and host budget");
	chart_time_end(&c);
}

/* ---- the plan ---- */

void
report_picture_plan(FILE *to, const struct report_plan *plan)
{
	struct chart c = {to, 200, 0, 0};
	double y = TOP + c.height;
	char pen = 'M';

	for (uint32_t i = 0; i < plan->n_sizes; i++) {
		c.x_most = fmax(c.x_most, (double)plan->sizes[i].device_bytes * 1.04);
		c.most = fmax(c.most, plan->sizes[i].seconds / plan->unlimited_s);
	}
	c.most = fmax(c.most * 1.15, 1.2);
	chart_begin(&c, "Slow-down of a step by device memory", "slow-down of a step", 1);
	fprintf(to, "<path class=\"budget\" d=\"M%.0f %.1fH%.0f\"/>\n", LEFT, y_of(&c, 1),
		RIGHT);
	fputs("<path class=\"line plan\" d=\"", to);
	for (uint32_t i = 0; i < plan->n_sizes; i++) {
		const struct report_size *s = &plan->sizes[i];

		if (s->seconds > 0)
			fprintf(to, "%c%.1f %.1f", pen, x_of(&c, (double)s->device_bytes),
				y_of(&c, s->seconds / plan->unlimited_s));
		pen = s->seconds > 0 ? 'L' : 'M';
	}
	fputs("\"/>\n", to);
	for (uint32_t i = 0; i < plan->n_sizes; i++) {
		const struct report_size *s = &plan->sizes[i];
		double x = x_of(&c, (double)s->device_bytes),
		       slow = s->seconds / plan->unlimited_s;
		int is_own = s->device_bytes == plan->own_bytes;
		char size[32];

		fprintf(to,
			"<path class=\"axis\" d=\"M%.1f %.1fv5\"/>"
			"<text x=\"%.1f\" y=\"%.1f\" "
			"text-anchor=\"middle\"%s>%s</text>\n",
			x, y, x, y + 18, is_own ? " class=\"own\"" : "",
			sl_size_format(s->device_bytes, size, sizeof(size)));
		if (s->seconds > 0)
			fprintf(to,
				"<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"/>"
				"<text x=\"%.1f\" y=\"%.1f\" "
				"text-anchor=\"middle\"%s>%.2f</text>\n",
				is_own ? "dot own" : "dot", x, y_of(&c, slow),
				is_own ? 6 : 4, x, y_of(&c, slow) - 10,
				is_own ? " class=\"own\"" : "", slow);
	}
	fprintf(to,
		"<path class=\"axis\" d=\"M%.0f %.1fH%.0f\"/>"
		"<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"middle\">device "
		"memory</text>\n</svg>\n",
		LEFT, y, RIGHT, (LEFT + RIGHT) / 2, y + 36);
}
