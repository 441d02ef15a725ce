/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pictures of `sluice plan` as SVG files: of one run, its time over the period; of a sweep,
 * the speed that each machine keeps. Launches are gathered into columns, so the files stay
 * small. They need no script, no font and no other file.
 *
 * Coordinates are user units of a fixed view box. Threads: no state.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cmd_plan.h"

#define WIDTH   960.0
#define HEIGHT  480.0
#define LEFT    70.0
#define RIGHT   936.0
#define TOP     84.0
#define BOTTOM  420.0
#define COLUMNS 200

static const char *const bound_colours[SL_BOUND_COUNT] = {
	[SL_BOUND_COMPUTE] = "#dcdcdc",     [SL_BOUND_LINK_IN] = "#6a51a3",
	[SL_BOUND_LINK_OUT] = "#e08a1e",    [SL_BOUND_STORE_READ] = "#1c7c3c",
	[SL_BOUND_STORE_WRITE] = "#c2304a",
};

static const char *const line_colours[] = {"#2f5d9b", "#c2304a", "#1c7c3c", "#e08a1e",
					   "#6a51a3", "#7fb2d9", "#888888", "#000000"};

static double
share_y(double share)
{
	return BOTTOM - fmin(fmax(share, 0), 1) * (BOTTOM - TOP);
}

/* NULL: *rc says why not. */
static FILE *
picture_begin(const char *path, const char *title, int *rc)
{
	FILE *to = fopen(path, "we");

	if (!to) {
		*rc = -errno;
		*rc = sl_fail(*rc, "%s: cannot be opened for writing: %s", path,
			      strerror(-*rc));
		return NULL;
	}
	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
		"<text x=\"%.0f\" y=\"24\" font-size=\"16\">%s</text>\n",
		WIDTH, HEIGHT, LEFT, title);
	for (int i = 0; i <= 4; i++)
		fprintf(to,
			"<path d=\"M%.0f %.1fH%.0f\" stroke=\"#ddd\"/>"
			"<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\">%d %%</text>\n",
			LEFT, share_y(i / 4.0), RIGHT, LEFT - 6, share_y(i / 4.0) + 4,
			25 * i);
	return to;
}

static int
picture_end(const char *path, FILE *to)
{
	int bad, error;

	fputs("</svg>\n", to);
	errno = 0;
	bad = ferror(to);
	bad |= fclose(to);
	error = errno ? errno : EIO;
	if (bad)
		return sl_fail(-error, "%s: writing failed: %s", path, strerror(error));
	return 0;
}

static void
legend_put(FILE *to, double x, double y, const char *colour, const char *text)
{
	fprintf(to,
		"<rect x=\"%.0f\" y=\"%.0f\" width=\"12\" height=\"12\" fill=\"%s\"/>"
		"<text x=\"%.0f\" y=\"%.0f\">",
		x, y - 10, colour, x + 17, y);
	for (; *text; text++)
		fputc(strchr("<>&\"", *text) ? ' ' : *text, to);
	fputs("</text>\n", to);
}

/* One column: its parts one on the other; leaves them empty. */
static void
column_draw(FILE *to, uint32_t number, double part[SL_BOUND_COUNT], double column)
{
	double y = BOTTOM;

	for (int b = 0; b < SL_BOUND_COUNT; b++) {
		double height = part[b] / column * (BOTTOM - TOP);

		part[b] = 0;
		if (height < 0.05)
			continue;
		y -= height;
		fprintf(to,
			"<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" "
			"fill=\"%s\"/>\n",
			LEFT + (RIGHT - LEFT) * number / COLUMNS, y,
			(RIGHT - LEFT) / COLUMNS, height, bound_colours[b]);
	}
}

int
plan_picture_run(const char *path, const struct plan_job *job,
		 const struct plan_outcome *outcome)
{
	const struct sl_sim_result *result = &outcome->result;
	const struct sl_sim_launch *launch = result->launches + (size_t)result->best_period *
									result->n_launches;
	double period = (double)result->best_ticks, column = period / COLUMNS;
	double part[SL_BOUND_COUNT] = {0}, filled = 0;
	uint32_t k = 0, drawn = 0;
	char title[96];
	FILE *to;
	int rc;

	snprintf(title, sizeof(title), "Where a period of %.4g s goes (%s)",
		 period / (double)job->trace->clock_hz, job->policy->policy->name);
	to = picture_begin(path, title, &rc);
	if (!to)
		return rc;
	for (int b = 0; b < SL_BOUND_COUNT; b++)
		legend_put(to, LEFT + b * 150, 52, bound_colours[b],
			   b ? plan_bound_name((enum sl_sim_bound)b) : "compute");
	/* Each launch is its own time, then what it waited; cut at the columns' ends. */
	for (; k < result->n_launches; k++) {
		double ticks = (double)(launch[k].end_ticks - launch[k].start_ticks);
		double rest[2] = {fmin(ticks, (double)launch[k].ideal_ticks), 0};

		rest[1] = ticks - rest[0];
		for (int waits = 0; waits < 2; waits++) {
			while (rest[waits] > 0 && drawn < COLUMNS) {
				double take = fmin(rest[waits], column - filled);

				part[waits ? launch[k].bound : SL_BOUND_COMPUTE] += take;
				rest[waits] -= take;
				filled += take;
				if (filled < column * (1 - 1e-9) &&
				    !(k + 1 == result->n_launches && rest[waits] <= 0 && waits))
					continue;
				column_draw(to, drawn, part, column);
				filled = 0;
				drawn++;
			}
		}
	}
	fprintf(to,
		"<text x=\"%.0f\" y=\"%.0f\">0 s</text>"
		"<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">%.4g s</text>\n",
		LEFT, BOTTOM + 18, RIGHT, BOTTOM + 18,
		period / (double)job->trace->clock_hz);
	return picture_end(path, to);
}

int
plan_picture_sweep(const char *path, const char *axis, const char *const *values,
		   uint32_t n_values, const struct plan_line *lines, uint32_t n_lines,
		   double keep)
{
	double step = n_values > 1 ? (RIGHT - LEFT) / (n_values - 1) : 0;
	uint32_t every = n_values / 8 + 1;
	int rc;
	FILE *to = picture_begin(path, "Share of the speed with unlimited memory", &rc);

	if (!to)
		return rc;
	for (uint32_t v = 0; v < n_values; v += every)
		fprintf(to, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%s</text>\n",
			LEFT + step * v, BOTTOM + 18, values[v]);
	fprintf(to, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">%s</text>\n", RIGHT,
		BOTTOM + 40, axis);
	fprintf(to, "<path d=\"M%.0f %.1fH%.0f\" stroke=\"#888\" stroke-dasharray=\"5 4\"/>\n",
		LEFT, share_y(keep), RIGHT);
	for (uint32_t l = 0; l < n_lines; l++) {
		const char *colour =
			line_colours[l % (sizeof(line_colours) / sizeof(line_colours[0]))];
		uint32_t row = l / 2;
		int pen_down = 0;

		fprintf(to, "<path fill=\"none\" stroke-width=\"2\" stroke=\"%s\" d=\"",
			colour);
		for (uint32_t v = 0; v < n_values; v++) {
			if (lines[l].kept[v] >= 0)
				fprintf(to, "%c%.1f %.1f", pen_down ? 'L' : 'M',
					LEFT + step * v, share_y(lines[l].kept[v]));
			pen_down = lines[l].kept[v] >= 0;
		}
		fputs("\"/>\n", to);
		if (lines[l].name[0])
			legend_put(to, LEFT + 440.0 * (l % 2), 42 + 16.0 * row, colour,
				   lines[l].name);
	}
	return picture_end(path, to);
}
