/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures as Markdown tables, published values beside ours, and as pictures.
 *
 * A time is written as "published / ours (difference)" in 10^9 cycles; what is not published has
 * ours alone, what was not run a dash. In pictures the published values are black marks on bars
 * and dashed lines. Nothing that depends on the clock of this machine is written, so the same
 * data give the same files.
 *
 * Threads: one.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "figures_writer.h"

#define POINTS_MAX 400 /* of a line over the launches */

static int
is_wanted(const struct figures_writer *w, unsigned figure)
{
	return (w->figures->wanted & 1u << figure) != 0;
}

int
figures_picture_put(struct figures_writer *w, const char *name, const struct chart *chart)
{
	if (w->dir && !w->rc)
		w->rc = chart_embed(w->out, w->dir, w->link, name, chart);
	return w->rc;
}

/* ---- figures 2 to 4: what the traces are like ---- */

static void
share_picture(struct figures_writer *w, unsigned m)
{
	const struct figure_trace *trace = &w->figures->traces[m];
	uint32_t n = trace->vitality.n_launches;
	uint32_t step = n / POINTS_MAX + 1, points = 0;
	static double x[POINTS_MAX + 1], active[POINTS_MAX + 1], alive[POINTS_MAX + 1];
	struct chart_series series[2] = {{.name = "alive", .values = alive},
					 {.name = "used by the launch", .values = active}};
	char name[64], title[96];

	/* The most of each stretch: single launches must not be lost. */
	for (uint32_t k = 0; k < n && points < POINTS_MAX; k += step, points++) {
		uint64_t most_active = 0, most_alive = 0;

		for (uint32_t j = k; j < k + step && j < n; j++) {
			if (trace->vitality.active_bytes[j] > most_active)
				most_active = trace->vitality.active_bytes[j];
			if (trace->vitality.alive_bytes[j] > most_alive)
				most_alive = trace->vitality.alive_bytes[j];
		}
		x[points] = k;
		active[points] = 100.0 * (double)most_active /
				 (double)trace->vitality.total_bytes;
		alive[points] = 100.0 * (double)most_alive /
				(double)trace->vitality.total_bytes;
	}
	snprintf(name, sizeof(name), "figure2-%s", figure_models[m].name);
	snprintf(title, sizeof(title), "Figure 2: memory used over an iteration, %s-%u",
		 figure_models[m].title, figure_models[m].batch);
	figures_picture_put(w, name,
			    &(struct chart){.title = title,
					    .x_title = "launch",
					    .y_title = "% of all tensors",
					    .series = series,
					    .n_series = 2,
					    .n = points,
					    .x = x});
}

static void
figure2_write(struct figures_writer *w)
{
	fputs("\n## Figure 2: how much of the memory a launch uses\n\n"
	      "Shares of the bytes of all tensors of an iteration. The paper shows a "
	      "picture "
	      "only.\n\n"
	      "| model | launches | all tensors | used: mean | median | most | alive: "
	      "mean | most "
	      "|\n|---|---|---|---|---|---|---|---|\n",
	      w->out);
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++) {
		const struct figure_trace *trace = &w->figures->traces[m];
		char size[32];

		if (!trace->there)
			continue;
		fprintf(w->out, "| %s-%u | %u | %s | %.2f %% | %.2f %% | %.2f %% | %.1f %% | %.1f %% |\n",
			figure_models[m].title, figure_models[m].batch,
			trace->vitality.n_launches,
			sl_size_format(trace->vitality.total_bytes, size, sizeof(size)),
			100 * trace->stats.active_mean, 100 * trace->stats.active_median,
			100 * trace->stats.active_max, 100 * trace->stats.alive_mean,
			100 * trace->stats.alive_max);
	}
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++)
		if (w->figures->traces[m].there)
			share_picture(w, m);
}

static uint64_t
sum_of(const uint64_t *values, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += values[i];
	return sum;
}

static void
decade_name(unsigned bin, char *text, size_t bytes)
{
	static const char *const units[] = {"us", "ms", "s"};
	static const unsigned tens[] = {1, 10, 100};

	if (bin == 0)
		snprintf(text, bytes, "< 1 us");
	else
		snprintf(text, bytes, ">= %u %s", tens[(bin - 1) % 3], units[(bin - 1) / 3]);
}

static void
size_name(unsigned bin, char *text, size_t bytes)
{
	char size[32];

	if (bin + 1 == SL_SIZE_BINS)
		snprintf(text, bytes, "more");
	else
		snprintf(text, bytes, "<= %s",
			 sl_size_format(UINT64_C(4096) << (4 * bin), size, sizeof(size)));
}

/* Distributions by model: one column each. bins: of model m and bin b, a share. */
static void
shares_write(struct figures_writer *w, const char *first, unsigned n_bins,
	     char names[][32], double shares[FIGURE_MODEL_COUNT][16], const char *picture,
	     const char *title, const char *x_title, const char *y_title)
{
	struct chart_series series[FIGURE_MODEL_COUNT] = {{0}};
	const char *groups[16];
	unsigned n = 0;

	fprintf(w->out, "\n| %s |", first);
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++)
		if (w->figures->traces[m].there) {
			fprintf(w->out, " %s-%u |", figure_models[m].title,
				figure_models[m].batch);
			series[n++] = (struct chart_series){.name = figure_models[m].title,
							    .values = shares[m]};
		}
	fputs("\n|---|", w->out);
	for (unsigned i = 0; i < n; i++)
		fputs("---|", w->out);
	fputc('\n', w->out);
	for (unsigned b = 0; b < n_bins; b++) {
		groups[b] = names[b];
		fprintf(w->out, "| %s |", names[b]);
		for (unsigned i = 0; i < n; i++)
			fprintf(w->out, " %.2f %% |", series[i].values[b]);
		fputc('\n', w->out);
	}
	if (n)
		figures_picture_put(w, picture,
				    &(struct chart){.title = title,
						    .x_title = x_title,
						    .y_title = y_title,
						    .series = series,
						    .n_series = n,
						    .n = n_bins,
						    .groups = groups});
}

static void
figure3_write(struct figures_writer *w)
{
	double shares[FIGURE_MODEL_COUNT][16] = {{0}};
	char names[SL_IDLE_BINS][32];

	fputs("\n## Figure 3: how long tensors are idle\n\n"
	      "Idle times by length, as shares of their number.\n",
	      w->out);
	for (unsigned b = 0; b < SL_IDLE_BINS; b++)
		decade_name(b, names[b], sizeof(names[b]));
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++) {
		const uint64_t *idles = w->figures->traces[m].stats.idles;
		uint64_t all = sum_of(idles, SL_IDLE_BINS);

		for (unsigned b = 0; b < SL_IDLE_BINS && all; b++)
			shares[m][b] = 100.0 * (double)idles[b] / (double)all;
	}
	shares_write(w, "length", SL_IDLE_BINS, names, shares, "figure3",
		     "Figure 3: lengths of idle times", "length", "% of idle times");
}

static void
figure4_write(struct figures_writer *w)
{
	double shares[FIGURE_MODEL_COUNT][16] = {{0}};
	char names[SL_SIZE_BINS][32];

	fputs("\n## Figure 4: how large the tensors are that are idle\n\n"
	      "Idle times by the size of their tensor, as shares of their number; below, "
	      "those "
	      "of at least 10 ms\nin which a tensor can leave and come back.\n",
	      w->out);
	for (unsigned b = 0; b < SL_SIZE_BINS; b++)
		size_name(b, names[b], sizeof(names[b]));
	for (int lengthy = 0; lengthy < 2; lengthy++) {
		for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++) {
			const struct sl_vitality_stats *stats = &w->figures->traces[m].stats;
			uint64_t all = sum_of(stats->idles, SL_IDLE_BINS);

			for (unsigned b = 0; b < SL_SIZE_BINS && all; b++) {
				uint64_t count = 0;

				for (unsigned l = lengthy ? 5 : 0; l < SL_IDLE_BINS; l++)
					count += stats->idles_by_size[b][l];
				shares[m][b] = 100.0 * (double)count / (double)all;
			}
		}
		shares_write(w, lengthy ? "size, idle for 10 ms or more" : "size",
			     SL_SIZE_BINS, names, shares,
			     lengthy ? "figure4-long" : "figure4",
			     lengthy ? "Figure 4: sizes of tensors idle for 10 ms or more"
				     : "Figure 4: sizes of idle tensors",
			     "size", "% of all idle times");
	}
}

/* ---- times ---- */

static void
difference_put(FILE *out, double published, double ours)
{
	fprintf(out, " (%+.2f %%)", 100 * (ours / published - 1));
}

/* "published / ours (difference)", in 10^9 cycles. */
void
figures_time_put(const struct figures_writer *w, unsigned figure, const struct figure_key *key)
{
	const struct figure_cell *cell = figures_cell(w->figures, key);
	double published = figures_published(w->figures, figure, key);

	fputc(' ', w->out);
	if (isinf(published))
		fputs("fails / ", w->out);
	else if (!isnan(published))
		fprintf(w->out, "%.3f / ", published / 1e9);
	if (!cell)
		fputs("-", w->out);
	else if (cell->failed)
		fputs("fails", w->out);
	else
		fprintf(w->out, "%.3f", (double)cell->cycles / 1e9);
	if (cell && !cell->failed && isfinite(published))
		difference_put(w->out, published, (double)cell->cycles);
	fputs(" |", w->out);
}

static void
figure11_write(struct figures_writer *w)
{
	static double ours[FIGURE_POLICY_COUNT][FIGURE_MODEL_COUNT],
		there[FIGURE_POLICY_COUNT][FIGURE_MODEL_COUNT];
	struct chart_series series[FIGURE_POLICY_COUNT];
	const char *groups[FIGURE_MODEL_COUNT];
	unsigned n = 0, shown = 0;

	fputs("\n## Figure 11: the time of an iteration\n\n"
	      "10^9 cycles, published / ours (difference).\n\n| model |",
	      w->out);
	for (int p = 0; p < FIGURE_POLICY_COUNT; p++)
		fprintf(w->out, " %s |", figure_policy_titles[p]);
	fputs("\n|---|---|---|---|---|---|---|---|---|\n", w->out);
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++) {
		const struct figure_model *model = &figure_models[m];

		if (!w->figures->traces[m].there)
			continue;
		fprintf(w->out, "| %s-%u |", model->title, model->batch);
		groups[n] = model->title;
		for (int p = 0; p < FIGURE_POLICY_COUNT; p++) {
			struct figure_key key = figure_key_make(m, model->batch,
								(enum figure_policy)p);
			const struct figure_cell *cell = figures_cell(w->figures, &key);
			double published = figures_published(w->figures, 11, &key);

			figures_time_put(w, 11, &key);
			ours[p][n] = cell && !cell->failed ? (double)cell->ideal_cycles /
								     (double)cell->cycles
							   : (double)NAN;
			there[p][n] = cell && isfinite(published)
					      ? (double)cell->ideal_cycles / published
					      : (double)NAN;
		}
		fputc('\n', w->out);
		n++;
	}
	if (!n)
		return;
	fputs("\nShare of the ideal speed, published / ours:\n\n| model |", w->out);
	for (int p = FIGURE_UVM; p < FIGURE_POLICY_COUNT; p++)
		fprintf(w->out, " %s |", figure_policy_titles[p]);
	fputs("\n|---|---|---|---|---|---|---|---|\n", w->out);
	for (unsigned i = 0; i < n; i++) {
		fprintf(w->out, "| %s |", groups[i]);
		for (int p = FIGURE_UVM; p < FIGURE_POLICY_COUNT; p++) {
			if (!isnan(there[p][i]))
				fprintf(w->out, " %.4f /", there[p][i]);
			if (isnan(ours[p][i]))
				fputs(" - |", w->out);
			else
				fprintf(w->out, " %.4f |", ours[p][i]);
		}
		fputc('\n', w->out);
	}
	for (int p = FIGURE_UVM; p < FIGURE_POLICY_COUNT; p++)
		series[shown++] = (struct chart_series){.name = figure_policy_titles[p],
							.colour = (unsigned)p + 1,
							.values = ours[p],
							.published = there[p]};
	figures_picture_put(
		w, "figure11",
		&(struct chart){.title = "Figure 11: speed against unlimited memory",
				.x_title = "marks: published",
				.y_title = "share of the ideal speed",
				.series = series,
				.n_series = shown,
				.n = n,
				.groups = groups});
}

/* ---- figures 12 to 14: rows of model and policy ---- */

static const enum figure_policy shown_policies[] = {FIGURE_UVM, FIGURE_FLASHNEURON,
						    FIGURE_DEEPUM, FIGURE_G10};
#define SHOWN     (sizeof(shown_policies) / sizeof(shown_policies[0]))
#define ROWS      (FIGURE_MODEL_COUNT * SHOWN)
#define PARTS_MAX 5

struct rows {
	unsigned n;
	char names[ROWS][40];
	double ours[PARTS_MAX][ROWS], there[PARTS_MAX][ROWS];
};

static void
rows_picture(struct figures_writer *w, const struct rows *rows, const char *const *parts,
	     unsigned n_parts, const char *name, const char *title, const char *y_title,
	     int log_y)
{
	struct chart_series series[PARTS_MAX];
	const char *groups[ROWS];

	for (unsigned i = 0; i < rows->n; i++)
		groups[i] = rows->names[i];
	for (unsigned p = 0; p < n_parts; p++)
		series[p] = (struct chart_series){.name = parts[p],
						  .values = rows->ours[p],
						  .published = rows->there[p]};
	if (rows->n)
		figures_picture_put(w, name,
				    &(struct chart){.title = title,
						    .x_title = "marks: published",
						    .y_title = y_title,
						    .series = series,
						    .n_series = n_parts,
						    .n = rows->n,
						    .groups = groups,
						    .log_y = log_y});
}

/* The next cell of the main batches that ran, begun as a table row. */
static const struct figure_cell *
row_next(struct figures_writer *w, struct rows *rows, unsigned *at,
	 enum figure_table table, double published[FIGURE_COLUMNS_MAX], int *is_published)
{
	while (*at < ROWS) {
		unsigned m = *at / SHOWN;
		enum figure_policy policy = shown_policies[*at % SHOWN];
		struct figure_key key = figure_key_make(m, figure_models[m].batch, policy);
		const struct figure_cell *cell = figures_cell(w->figures, &key);

		(*at)++;
		if (!cell || cell->failed)
			continue;
		*is_published = !figures_published_row(w->figures, table, &key, published);
		fprintf(w->out, "| %s-%u | %s |", figure_models[m].title,
			figure_models[m].batch, figure_policy_titles[policy]);
		snprintf(rows->names[rows->n], sizeof(rows->names[0]), "%s\n%s",
			 figure_models[m].title, figure_policy_titles[policy]);
		rows->n++;
		return cell;
	}
	return NULL;
}

static void
figure12_write(struct figures_writer *w)
{
	static const char *const parts[] = {"stall", "overlap", "compute"};
	static struct rows rows;
	double published[FIGURE_COLUMNS_MAX];
	const struct figure_cell *cell;
	unsigned at = 0;
	int is_published;

	memset(&rows, 0, sizeof(rows));
	fputs("\n## Figure 12: what an iteration's time is spent on\n\n"
	      "Shares, published / ours. Overlap: computing while data move. The "
	      "published parts "
	      "of Base UVM do\nnot add up to its time.\n\n"
	      "| model | policy | stall | overlap | compute |\n|---|---|---|---|---|\n",
	      w->out);
	while ((cell = row_next(w, &rows, &at, FIGURE_BREAKDOWN, published, &is_published))) {
		double ours[] = {cell->stall, cell->overlap, cell->compute};
		double all = ours[0] + ours[1] + ours[2];
		double all_there = is_published ? published[0] + published[1] + published[2]
						: 1;

		for (unsigned p = 0; p < 3; p++) {
			double share = 100 * ours[p] / all;
			double there = is_published ? 100 * published[p] / all_there
						    : (double)NAN;

			rows.ours[p][rows.n - 1] = share;
			rows.there[p][rows.n - 1] = there;
			if (is_published)
				fprintf(w->out, " %.1f %% /", there);
			fprintf(w->out, " %.1f %% |", share);
		}
		fputc('\n', w->out);
	}
	rows_picture(w, &rows, parts, 3, "figure12", "Figure 12: parts of an iteration",
		     "% of the time", 0);
}

static void
figure13_write(struct figures_writer *w)
{
	static const char *const parts[] = {"median", "90 %", "95 %", "99 %", "most"};
	static struct rows rows;
	double published[FIGURE_COLUMNS_MAX];
	const struct figure_cell *cell;
	unsigned at = 0;
	int is_published;

	memset(&rows, 0, sizeof(rows));
	fputs("\n## Figure 13: how much slower single launches are\n\n"
	      "Launches above a slow-down, in percent, and quantiles of the slow-down; "
	      "published "
	      "/ ours.\n\n"
	      "| model | policy | > 1.01 | > 1.1 | > 2 | median | 90 % | 95 % | 99 % | "
	      "most |\n"
	      "|---|---|---|---|---|---|---|---|---|---|\n",
	      w->out);
	while ((cell = row_next(w, &rows, &at, FIGURE_SLOWDOWN, published, &is_published))) {
		for (unsigned i = 1; i < FIGURE_ABOVE_COUNT; i++) {
			if (is_published)
				fprintf(w->out, " %.2f /", published[1 + i]);
			fprintf(w->out, " %.2f |", cell->above[i]);
		}
		for (unsigned i = 0; i < FIGURE_QUANTILES; i++) {
			double there = is_published ? published[1 + FIGURE_ABOVE_COUNT + i]
						    : (double)NAN;

			rows.ours[i][rows.n - 1] = cell->quantile[i];
			rows.there[i][rows.n - 1] = there;
			if (is_published)
				fprintf(w->out, " %.3g /", there);
			fprintf(w->out, " %.3g |", cell->quantile[i]);
		}
		fputc('\n', w->out);
	}
	rows_picture(w, &rows, parts, FIGURE_QUANTILES, "figure13",
		     "Figure 13: slow-down of launches", "times the ideal time", 1);
}

static void
figure14_write(struct figures_writer *w)
{
	static const char *const parts[] = {"store to device", "device to store",
					    "host to device", "device to host"};
	static struct rows rows;
	double published[FIGURE_COLUMNS_MAX];
	const struct figure_cell *cell;
	unsigned at = 0;
	int is_published;

	memset(&rows, 0, sizeof(rows));
	fputs("\n## Figure 14: what moves in an iteration\n\n"
	      "GiB, published / ours.\n\n"
	      "| model | policy | store to device | device to store | host to device | "
	      "device to "
	      "host |\n|---|---|---|---|---|---|\n",
	      w->out);
	while ((cell = row_next(w, &rows, &at, FIGURE_TRAFFIC, published, &is_published))) {
		for (unsigned p = 0; p < SL_PATH_COUNT; p++) {
			double ours = (double)cell->pages[p] * 4096 / (1 << 30);
			double there = is_published ? published[p] * 4096 / (1 << 30)
						    : (double)NAN;

			rows.ours[p][rows.n - 1] = ours;
			rows.there[p][rows.n - 1] = there;
			if (is_published)
				fprintf(w->out, " %.2f /", there);
			fprintf(w->out, " %.2f |", ours);
		}
		fputc('\n', w->out);
	}
	rows_picture(w, &rows, parts, SL_PATH_COUNT, "figure14", "Figure 14: bytes moved",
		     "GiB", 0);
}

static void
bars_write(struct figures_writer *w)
{
	static struct figure_bar bars[FIGURE_BARS_MAX];
	unsigned n = figures_bars_judge(w->figures, bars);

	fputs("\n## How near\n\n"
	      "| what | bar | cells | exempt | verdict | |\n|---|---|---|---|---|---|\n",
	      w->out);
	for (unsigned i = 0; i < n; i++)
		fprintf(w->out, "| %s | %s | %u | %u | %s | %s |\n", bars[i].what,
			bars[i].bar, bars[i].n_cells, bars[i].n_exempt,
			!bars[i].judged  ? "not judged"
			: bars[i].passed ? "pass"
					 : "**FAIL**",
			bars[i].note);
}

int
figures_tables_write(const struct figures *figures, FILE *out, const char *picture_dir,
		     const char *picture_link)
{
	static void (*const writers[FIGURE_LAST + 1])(struct figures_writer *) = {
		[2] = figure2_write,
		[3] = figure3_write,
		[4] = figure4_write,
		[11] = figure11_write,
		[12] = figure12_write,
		[13] = figure13_write,
		[14] = figure14_write,
		[15] = figures_batch_sweep_write,
		[16] = figures_host_sweep_write,
		[17] = figures_host_compared_write,
		[18] = figures_store_sweep_write,
		[19] = figures_noise_sweep_write,
	};
	struct figures_writer w = {.figures = figures,
				   .out = out,
				   .dir = picture_dir,
				   .link = picture_link};
	int missing = 0;

	fputs("# The figures of the paper G10\n\n"
	      "Made by `sluice-papers figures --update` from the published kernel times: "
	      "one "
	      "simulated "
	      "GPU of 40 GiB,\n128 GiB of host memory and a drive of 3.2 GB/s unless "
	      "said "
	      "otherwise, by the rules of the published\nprogram (`as_published`, see "
	      "[simulator](design/simulator.md) and\n[published planner]"
	      "(design/published-planner.md)). Published values are those of the "
	      "artifact's\n"
	      "example results. *Sluice* is our own planner, executed by the same "
	      "rules.\n",
	      out);
	for (unsigned m = 0; m < FIGURE_MODEL_COUNT; m++)
		if (!figures->traces[m].there) {
			fprintf(out, "%s%s",
				missing ? ", " : "\nNo kernel times here, left out: ",
				figure_models[m].title);
			missing = 1;
		}
	if (missing)
		fputs(".\n", out);
	if (figures->n_cells)
		bars_write(&w);
	for (unsigned figure = FIGURE_FIRST; figure <= FIGURE_LAST; figure++)
		if (is_wanted(&w, figure) && writers[figure])
			writers[figure](&w);
	if (w.rc)
		return w.rc;
	if (fflush(out) || ferror(out))
		return sl_fail(-EIO, "writing the tables failed: %s", strerror(errno));
	return 0;
}
