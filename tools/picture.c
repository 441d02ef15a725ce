/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SVG writer of picture.h.
 *
 * All samples are first put into columns of equal width in time: the tiers as they are at the
 * column's end, the moves as the average rate within it, both linear between samples. What is
 * drawn comes from the columns only. Coordinates are user units of a fixed view box, so the
 * picture scales.
 */
#include "picture.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "svg.h"

#define COLUMNS_MAX 600 /* of all programs together */

/* The drawing, in user units. */
#define WIDTH        960.0
#define HEIGHT       600.0
#define LEFT         78.0
#define RIGHT        24.0
#define UPPER_TOP    92.0
#define UPPER_HEIGHT 240.0
#define LOWER_TOP    400.0
#define LOWER_HEIGHT 140.0
#define GAP_FRACTION 0.02 /* of the width, between two programs */

static const struct {
	const char *name, *colour;
} tiers[SLUICE_TIER_COUNT] = {
	[SLUICE_TIER_DEVICE] = {"device memory", "#2f5d9b"},
	[SLUICE_TIER_HOST] = {"host memory", "#7fb2d9"},
	[SLUICE_TIER_STORE] = {"file only", "#dcdcdc"},
};

static const struct {
	const char *name, *colour, *dash;
} moves[PICTURE_MOVE_COUNT] = {
	[PICTURE_STORE_READ] = {"file reads", "#1c7c3c", ""},
	[PICTURE_STORE_WRITE] = {"file writes", "#c2304a", ""},
	[PICTURE_TO_DEVICE] = {"host to device", "#6a51a3", "5 3"},
	[PICTURE_FROM_DEVICE] = {"device to host", "#e08a1e", "5 3"},
};

struct column {
	double tier_bytes[SLUICE_TIER_COUNT];
	double rate[PICTURE_MOVE_COUNT]; /* bytes per second */
};

/* One program's place on the time axis and in the table of columns. */
struct stretch {
	const struct picture_program *program;
	double begin_s, seconds; /* on the axis; its own length */
	struct column *columns;
	size_t column_n;
};

struct picture {
	FILE *to;
	double axis_s; /* length of the time axis */
	double bytes_top, rate_top;
	struct stretch *stretches;
	size_t stretch_n;
};

/* ---- samples to columns ---- */

/* Sample values at a time: linear between two samples; *at moves on with rising times. */
static void
sample_at(const struct picture_program *program, double ns, size_t *at, double tier[],
	  double moved[])
{
	const struct picture_sample *a, *b;
	double span, share;

	while (*at + 2 < program->sample_n && (double)program->samples[*at + 1].at_ns < ns)
		(*at)++;
	a = &program->samples[*at];
	b = a + 1;
	span = (double)(b->at_ns - a->at_ns);
	share = span > 0 ? (ns - (double)a->at_ns) / span : 1;
	share = fmin(fmax(share, 0), 1);
	for (int i = 0; i < SLUICE_TIER_COUNT; i++)
		tier[i] = (double)a->tier_bytes[i] * (1 - share) +
			  (double)b->tier_bytes[i] * share;
	for (int i = 0; i < PICTURE_MOVE_COUNT; i++)
		moved[i] = (double)a->moved_bytes[i] * (1 - share) +
			   (double)b->moved_bytes[i] * share;
}

static void
columns_fill(struct stretch *stretch)
{
	const struct picture_program *program = stretch->program;
	double first_ns = (double)program->samples[0].at_ns;
	double step_ns = stretch->seconds * 1e9 / (double)stretch->column_n;
	double tier[SLUICE_TIER_COUNT], moved[2][PICTURE_MOVE_COUNT];
	size_t at = 0;

	sample_at(program, first_ns, &at, tier, moved[0]);
	for (size_t i = 0; i < stretch->column_n; i++) {
		struct column *column = &stretch->columns[i];
		double *before = moved[i % 2], *now = moved[(i + 1) % 2];

		sample_at(program, first_ns + step_ns * (double)(i + 1), &at,
			  column->tier_bytes, now);
		for (int move = 0; move < PICTURE_MOVE_COUNT; move++)
			column->rate[move] = (now[move] - before[move]) / step_ns * 1e9;
	}
}

/* ---- axes ---- */

static double
x_of(const struct picture *picture, double seconds)
{
	return LEFT + seconds / picture->axis_s * (WIDTH - LEFT - RIGHT);
}

static double
y_upper(const struct picture *picture, double bytes)
{
	return UPPER_TOP + UPPER_HEIGHT * (1 - bytes / picture->bytes_top);
}

static double
y_lower(const struct picture *picture, double rate)
{
	return LOWER_TOP + LOWER_HEIGHT * (1 - rate / picture->rate_top);
}

static void
frame_put(const struct picture *picture, double top, double height, const char *unit,
	  double most, double unit_size)
{
	double step = svg_step(most / unit_size, 6);

	/* A hair of slack: the steps are summed with rounding. */
	for (double value = 0; value * unit_size <= most * 1.0001; value += step) {
		double y = top + height * (1 - value * unit_size / most);

		fprintf(picture->to,
			"<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" "
			"stroke=\"#c8c8c8\" stroke-width=\"0.6\"/>\n"
			"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
			LEFT, WIDTH - RIGHT, y, y, LEFT - 7, y + 4, value);
	}
	fprintf(picture->to,
		"<text transform=\"translate(20 %.1f) rotate(-90)\" "
		"text-anchor=\"middle\">%s</text>\n",
		top + height / 2, unit);
}

static void
time_axis_put(const struct picture *picture)
{
	double step = svg_step(picture->axis_s, 12), bottom = LOWER_TOP + LOWER_HEIGHT;

	for (double at = 0; at <= picture->axis_s * 1.0001; at += step)
		fprintf(picture->to,
			"<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" "
			"stroke=\"#404040\"/>\n"
			"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n",
			x_of(picture, at), x_of(picture, at), bottom, bottom + 5,
			x_of(picture, at), bottom + 18, at);
	fprintf(picture->to,
		"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">seconds (one program "
		"after the "
		"other)</text>\n",
		(LEFT + WIDTH - RIGHT) / 2, bottom + 38);
}

/* ---- what is drawn ---- */

/* Tiers from the bottom up: each polygon runs along its upper edge and back along the lower. */
static void
tiers_put(const struct picture *picture, const struct stretch *stretch)
{
	double step_s = stretch->seconds / (double)stretch->column_n;

	for (int tier = 0; tier < SLUICE_TIER_COUNT; tier++) {
		fprintf(picture->to, "<polygon class=\"tier\" fill=\"%s\" points=\"",
			tiers[tier].colour);
		for (size_t i = 0; i < 2 * stretch->column_n; i++) {
			size_t at = i < stretch->column_n ? i
							  : 2 * stretch->column_n - 1 - i;
			int upto = i < stretch->column_n ? tier : tier - 1;
			double sum = 0;

			for (int below = 0; below <= upto; below++)
				sum += stretch->columns[at].tier_bytes[below];
			fprintf(picture->to, "%.1f,%.1f ",
				x_of(picture, stretch->begin_s + step_s * (double)(at + 1)),
				y_upper(picture, sum));
		}
		fputs("\"/>\n", picture->to);
	}
}

static void
budget_put(const struct picture *picture, const struct stretch *stretch, double bytes,
	   const char *name)
{
	double y = y_upper(picture, bytes);

	fprintf(picture->to,
		"<line class=\"budget\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" "
		"stroke=\"#202020\" stroke-width=\"1\" stroke-dasharray=\"4 "
		"3\"><title>%s: %.0f "
		"MiB</title></line>\n",
		x_of(picture, stretch->begin_s),
		x_of(picture, stretch->begin_s + stretch->seconds), y, y, name,
		bytes / (1024 * 1024));
}

static void
moves_put(const struct picture *picture, const struct stretch *stretch)
{
	double step_s = stretch->seconds / (double)stretch->column_n;

	for (int move = 0; move < PICTURE_MOVE_COUNT; move++) {
		fprintf(picture->to,
			"<polyline class=\"move\" fill=\"none\" stroke=\"%s\" "
			"stroke-width=\"1.5\" "
			"stroke-dasharray=\"%s\" points=\"",
			moves[move].colour, moves[move].dash[0] ? moves[move].dash : "none");
		for (size_t i = 0; i < stretch->column_n; i++)
			fprintf(picture->to, "%.1f,%.1f ",
				x_of(picture, stretch->begin_s + step_s * ((double)i + 0.5)),
				y_lower(picture, stretch->columns[i].rate[move]));
		fputs("\"/>\n", picture->to);
	}
}

static void
legend_put(const struct picture *picture)
{
	double x = LEFT;

	for (int tier = 0; tier < SLUICE_TIER_COUNT; tier++, x += 130)
		fprintf(picture->to,
			"<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" "
			"fill=\"%s\" "
			"stroke=\"#808080\" stroke-width=\"0.5\"/>"
			"<text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
			x, UPPER_TOP - 50, tiers[tier].colour, x + 17, UPPER_TOP - 40,
			tiers[tier].name);
	fprintf(picture->to,
		"<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" "
		"stroke=\"#202020\" "
		"stroke-dasharray=\"4 3\"/><text x=\"%.1f\" y=\"%.1f\">budgets: device, "
		"+ host, + "
		"buffers for I/O</text>\n",
		x, x + 22, UPPER_TOP - 44, UPPER_TOP - 44, x + 28, UPPER_TOP - 40);
	x = LEFT;
	for (int move = 0; move < PICTURE_MOVE_COUNT; move++, x += 130)
		fprintf(picture->to,
			"<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" "
			"stroke=\"%s\" "
			"stroke-width=\"2\" stroke-dasharray=\"%s\"/>"
			"<text x=\"%.1f\" y=\"%.1f\">%s</text>\n",
			x, x + 22, LOWER_TOP - 18, LOWER_TOP - 18, moves[move].colour,
			moves[move].dash[0] ? moves[move].dash : "none", x + 28,
			LOWER_TOP - 14, moves[move].name);
}

static void
stretch_put(const struct picture *picture, const struct stretch *stretch)
{
	const struct picture_program *program = stretch->program;
	double middle_s = stretch->begin_s + stretch->seconds / 2;

	tiers_put(picture, stretch);
	budget_put(picture, stretch, (double)program->device_budget_bytes, "device budget");
	budget_put(picture, stretch,
		   (double)(program->device_budget_bytes + program->host_budget_bytes),
		   "device and host budget");
	budget_put(picture, stretch,
		   (double)(program->device_budget_bytes + program->host_budget_bytes +
			    program->staging_bytes),
		   "device and host budget and buffers for I/O");
	moves_put(picture, stretch);
	fprintf(picture->to, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-weight=\"bold\">",
		x_of(picture, middle_s), UPPER_TOP - 12);
	svg_text(picture->to, program->name);
	fputs("</text>\n", picture->to);
}

static void
picture_put(const struct picture *picture, const char *title, const char *about)
{
	fprintf(picture->to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		"width=\"%.0f\" "
		"height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\" "
		"fill=\"#202020\" "
		"role=\"img\">\n<title>",
		WIDTH, HEIGHT, WIDTH, HEIGHT);
	svg_text(picture->to, title);
	fprintf(picture->to,
		"</title>\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n"
		"<text x=\"%.1f\" y=\"24\" font-size=\"16\" font-weight=\"bold\">",
		WIDTH, HEIGHT, LEFT);
	svg_text(picture->to, title);
	fprintf(picture->to, "</text>\n<text x=\"%.1f\" y=\"37\" font-size=\"11\">", LEFT);
	svg_text(picture->to, about);
	fputs("</text>\n", picture->to);
	frame_put(picture, UPPER_TOP, UPPER_HEIGHT, "where the data are, MiB",
		  picture->bytes_top, 1024.0 * 1024);
	frame_put(picture, LOWER_TOP, LOWER_HEIGHT, "moved, GB/s", picture->rate_top, 1e9);
	for (size_t i = 0; i < picture->stretch_n; i++)
		stretch_put(picture, &picture->stretches[i]);
	time_axis_put(picture);
	legend_put(picture);
	fputs("</svg>\n", picture->to);
}

/* ---- putting it together ---- */

/* Place the programs on the axis and fill their columns. columns: COLUMNS_MAX of them. */
static int
stretches_make(struct picture *picture, const struct picture_program *programs,
	       size_t program_n, struct column *columns)
{
	double total_s = 0, begin_s = 0;
	size_t used = 0;

	for (size_t i = 0; i < program_n; i++) {
		const struct picture_program *program = &programs[i];
		struct stretch *stretch = &picture->stretches[picture->stretch_n];

		if (program->sample_n < 2 || program->samples[program->sample_n - 1].at_ns <=
						     program->samples[0].at_ns)
			continue;
		stretch->program = program;
		stretch->seconds = (double)(program->samples[program->sample_n - 1].at_ns -
					    program->samples[0].at_ns) /
				   1e9;
		total_s += stretch->seconds;
		picture->stretch_n++;
	}
	if (!picture->stretch_n)
		return sl_fail(-EINVAL, "picture: nothing was sampled");
	picture->axis_s = total_s * (1 + GAP_FRACTION * (double)(picture->stretch_n - 1));
	for (size_t i = 0; i < picture->stretch_n; i++) {
		struct stretch *stretch = &picture->stretches[i];
		size_t left = COLUMNS_MAX - used - 2 * (picture->stretch_n - 1 - i);

		stretch->begin_s = begin_s;
		begin_s += stretch->seconds + total_s * GAP_FRACTION;
		stretch->columns = columns + used;
		stretch->column_n = (size_t)(stretch->seconds / total_s * COLUMNS_MAX);
		if (stretch->column_n > left)
			stretch->column_n = left;
		if (stretch->column_n < 2)
			stretch->column_n = 2;
		used += stretch->column_n;
		columns_fill(stretch);
	}
	return 0;
}

static void
tops_find(struct picture *picture)
{
	double bytes = 1024 * 1024, rate = 1e6;

	for (size_t i = 0; i < picture->stretch_n; i++) {
		const struct stretch *stretch = &picture->stretches[i];

		bytes = fmax(bytes, (double)(stretch->program->device_budget_bytes +
					     stretch->program->host_budget_bytes +
					     stretch->program->staging_bytes));
		for (size_t at = 0; at < stretch->column_n; at++) {
			const struct column *column = &stretch->columns[at];
			double sum = 0;

			for (int tier = 0; tier < SLUICE_TIER_COUNT; tier++)
				sum += column->tier_bytes[tier];
			bytes = fmax(bytes, sum);
			for (int move = 0; move < PICTURE_MOVE_COUNT; move++)
				rate = fmax(rate, column->rate[move]);
		}
	}
	picture->bytes_top = bytes * 1.03;
	picture->rate_top = rate * 1.05;
}

int
picture_write(FILE *to, const char *title, const char *about,
	      const struct picture_program *programs, size_t program_n)
{
	SL_CLEANUP(free) struct column *columns = calloc(COLUMNS_MAX, sizeof(*columns));
	SL_CLEANUP(free)
	struct stretch *stretches = calloc(program_n + 1, sizeof(*stretches));
	struct picture picture = {.to = to, .stretches = stretches};
	int rc;

	if (!columns || !stretches)
		/* cppcheck-suppress memleak; as below */
		return sl_fail(-ENOMEM, "picture: out of memory");
	if (program_n > COLUMNS_MAX / 4)
		/* cppcheck-suppress memleak; it does not know SL_CLEANUP */
		return sl_fail(-EINVAL, "picture: %zu programs are too many", program_n);
	rc = stretches_make(&picture, programs, program_n, columns);
	if (rc)
		return rc;
	tops_find(&picture);
	picture_put(&picture, title, about);
	return ferror(to) ? sl_fail(-EIO, "picture: it cannot be written") : 0;
}
