/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DRAGON's figures 3, 5 and 6 as tables and pictures. The paper prints its bars as pictures only;
 * what its text says in numbers stands beside ours.
 *
 * Times are from mapping (or reading) the files to results on the medium. Where host memory does
 * not hold what is read as a whole, the baseline goes on as a straight line, as the paper's does;
 * such times are marked.
 *
 * Threads: one.
 */
#include "suite.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "chart.h"
#include "sluice/sluice.h"

static const enum suite_variant soft_variants[] = {SUITE_SLUICE, SUITE_DRAGON, SUITE_UVM,
						   SUITE_COPIES, SUITE_MMAP};
static const enum suite_variant cuda_variants[] = {SUITE_SLUICE, SUITE_CACHED, SUITE_COPIES,
						   SUITE_STREAMING, SUITE_MAPPED};

#define VARIANTS 5u

static const struct suite_row *
fig3_row(const struct suite_writer *w, int cuda, const char *workload,
	 enum suite_variant variant, unsigned ratio)
{
	return suite_row_done(w->suite, cuda, SUITE_FIG3, workload, variant,
			      suite_ratio_names[ratio]);
}

static int
part_has_rows(const struct suite_writer *w, int cuda, enum suite_part part,
	      const char *workload)
{
	for (unsigned i = 0; i < w->suite->n_rows; i++) {
		const struct suite_row *row = &w->suite->rows[i];

		if (row->cuda == cuda && row->part == part && row->status != SUITE_PLANNED &&
		    (!workload || strcmp(row->workload, workload) == 0))
			return 1;
	}
	return 0;
}

/* Seconds of a variant; 0: there are none. The baseline may be extrapolated. */
static double
fig3_s(const struct suite_writer *w, int cuda, const char *workload,
       enum suite_variant variant, unsigned ratio, int *extrapolated)
{
	const struct suite_row *row;

	*extrapolated = 0;
	if (variant == suite_copies_variant(cuda))
		return suite_copies_s(w->suite, cuda, workload, ratio, extrapolated);
	row = fig3_row(w, cuda, workload, variant, ratio);
	return row ? row->total_s : 0;
}

static void
fig3_picture(struct suite_writer *w, int cuda, const char *workload,
	     const enum suite_variant *variants)
{
	double values[VARIANTS][SUITE_RATIOS];
	struct chart_series series[VARIANTS];
	char name[80], title[120];

	for (unsigned v = 0; v < VARIANTS; v++) {
		for (unsigned ratio = 0; ratio < SUITE_RATIOS; ratio++) {
			int extrapolated;
			double ours = fig3_s(w, cuda, workload, variants[v], ratio,
					     &extrapolated);
			double base = suite_copies_s(w->suite, cuda, workload, ratio,
						     &extrapolated);

			values[v][ratio] = ours > 0 && base > 0 ? ours / base : NAN;
		}
		series[v] = (struct chart_series){.name = suite_variant_titles[variants[v]],
						  .values = values[v]};
	}
	snprintf(name, sizeof(name), "fig3-%s-%s", cuda ? "cuda" : "soft", workload);
	snprintf(title, sizeof(title), "DRAGON, figure 3: %s on %s", workload,
		 suite_device_title(cuda));
	suite_picture_put(w, name,
			  &(struct chart){.title = title,
					  .x_title = "footprint over device memory",
					  .y_title = "time, read-then-copy = 1",
					  .series = series,
					  .n_series = VARIANTS,
					  .n = SUITE_RATIOS,
					  .groups = suite_ratio_names});
}

static const char *
regime_text(unsigned ratio)
{
	if (suite_ratio_values[ratio] < 1)
		return "in the device";
	return suite_ratio_values[ratio] < 6 ? "in host memory" : "out of core";
}

static void
fig3_app_write(struct suite_writer *w, int cuda, const char *workload)
{
	const enum suite_variant *variants = cuda ? cuda_variants : soft_variants;

	fprintf(w->out, "\n### %s\n\n| footprint | regime |", workload);
	for (unsigned v = 0; v < VARIANTS; v++)
		fprintf(w->out, " %s, s |", suite_variant_titles[variants[v]]);
	fputs(" launch intents over read-then-copy | to the device | from | read | "
	      "written |\n"
	      "|---|---|---|---|---|---|---|",
	      w->out);
	for (unsigned v = 0; v < VARIANTS; v++)
		fputs("---|", w->out);
	fputc('\n', w->out);
	for (unsigned ratio = 0; ratio < SUITE_RATIOS; ratio++) {
		const struct suite_row *row = fig3_row(w, cuda, workload, SUITE_SLUICE,
						       ratio);
		int extrapolated;
		double base = suite_copies_s(w->suite, cuda, workload, ratio, &extrapolated);

		fprintf(w->out, "| %s | %s |", suite_ratio_names[ratio], regime_text(ratio));
		for (unsigned v = 0; v < VARIANTS; v++) {
			int mark;
			double s = fig3_s(w, cuda, workload, variants[v], ratio, &mark);

			if (s > 0)
				fprintf(w->out, " %.3f%s |", s, mark ? " *" : "");
			else
				fputs(" - |", w->out);
		}
		if (!row) {
			fputs(" - | - | - | - | - |\n", w->out);
			continue;
		}
		if (base > 0)
			fprintf(w->out, " %.2f x, saves %.1f %% |", base / row->total_s,
				100 * (1 - row->total_s / base));
		else
			fputs(" - |", w->out);
		fprintf(w->out, " %.1f | %.1f | %.1f | %.1f |\n",
			(double)row->h2d_bytes / 0x1p20, (double)row->d2h_bytes / 0x1p20,
			(double)row->read_bytes / 0x1p20, (double)row->write_bytes / 0x1p20);
	}
	fig3_picture(w, cuda, workload, variants);
}

/* One line for each application: what the paper's text gives for all of them. */
static void
fig3_summary_write(const struct suite_writer *w, int cuda)
{
	fputs("| application | launch intents: best | time saved, mean | faults: best | "
	      "time saved, mean | paper "
	      "|\n"
	      "|---|---|---|---|---|---|\n",
	      w->out);
	for (const char *const *app = suite_dragon_apps; *app; app++) {
		const struct workload *workload = suite_workload(*app);
		static const enum suite_variant variants[] = {SUITE_SLUICE, SUITE_DRAGON};

		if (!workload || !part_has_rows(w, cuda, SUITE_FIG3, workload->name))
			continue;
		fprintf(w->out, "| %s |", workload->name);
		for (unsigned v = 0; v < 2; v++) {
			double best = 0, sum = 0;
			unsigned n = 0;

			for (unsigned ratio = 0; ratio < SUITE_RATIOS; ratio++) {
				int mark;
				double ours = fig3_s(w, cuda, workload->name, variants[v],
						     ratio, &mark);
				double base = suite_copies_s(w->suite, cuda,
							     workload->name, ratio, &mark);

				if (ours <= 0 || base <= 0)
					continue;
				n++;
				sum += 100 * (1 - ours / base);
				best = base / ours > best ? base / ours : best;
			}
			if (n)
				fprintf(w->out, " %.2f x | %.1f %% |", best, sum / n);
			else
				fputs(" - | - |", w->out);
		}
		fprintf(w->out, " %s |\n",
			strcmp(*app, "pathfinder") == 0
				? "2.3 x, 56.3 % saved, its best case"
			: strcmp(*app, "srad") == 0 || strcmp(*app, "backprop") == 0
				? "slower than the line out of core"
				: "picture only");
	}
	fputs("\nOver all its applications the paper has 31.7 % less time on average.\n",
	      w->out);
}

static void
fig3_write(struct suite_writer *w, int cuda)
{
	if (!part_has_rows(w, cuda, SUITE_FIG3, NULL))
		return;
	fprintf(w->out,
		"\n## DRAGON, figure 3, on %s\n\n"
		"Data from 1/3 to 64/3 of the device's memory, host memory 16/3 of it. "
		"Seconds "
		"from mapping or\nreading the files to results on the medium; bytes "
		"(MiB) are "
		"those of launch intents. *: a line\nthrough the measured times, because "
		"host "
		"memory does not hold the files. Who reads, then copies,\nknows what "
		"each "
		"launch "
		"uses, where the paper's relies on faults.\n\n",
		suite_device_title(cuda));
	if (!cuda)
		fputs("Kernels of the software device reach host memory without a link "
		      "between: mapped host memory\nis a GPU's alone, and `mmap` stands "
		      "for "
		      "it. There binomialOptions walks trees of 8 steps and\nlavaMD has "
		      "one "
		      "partner a box, for with the published numbers nothing but kernels "
		      "would show; a launch\nof pathfinder goes down 16 rows, for one of "
		      "them is a few KiB.\n\n",
		      w->out);
	else
		fputs("Times are of a process that has its context and kernels. "
		      "\"read(2), then copy\" is the paper's kind of\nbaseline, and what "
		      "launch "
		      "intents are compared with: files through the page cache, which is "
		      "empty, as\na whole to memory that is not pinned; what does not "
		      "fit the "
		      "device's budget goes through it piece by piece. The\nother "
		      "variants read "
		      "past the page cache, to pinned memory, and \"read, then copy\" "
		      "has the "
		      "whole card,\nwhatever the budget: the most that can be had "
		      "without "
		      "overlap. Nothing that reads the same bytes\nonce can be faster "
		      "than the "
		      "disk.\n\n",
		      w->out);
	fig3_summary_write(w, cuda);
	for (const struct workload *const *app = workloads_list; *app; app++)
		if (part_has_rows(w, cuda, SUITE_FIG3, (*app)->name))
			fig3_app_write(w, cuda, (*app)->name);
}

static void
fits_write(const struct suite_writer *w, int cuda)
{
	if (!part_has_rows(w, cuda, SUITE_FITS, NULL))
		return;
	fprintf(w->out,
		"\n## Sizes within the device, without a disk, on %s\n\n"
		"%s The shortest of the repetitions.\n\n"
		"| application | footprint | launch intents, s | explicit copies, s | "
		"difference |\n|---|---|---|---|---|\n",
		suite_device_title(cuda),
		cuda ? "Data in host memory at first, results on the device at the end." : "Files in memory: what a space costs where nothing has to be paged.");
	for (unsigned i = 0; i < w->suite->n_rows; i++) {
		const struct suite_row *row = &w->suite->rows[i], *copies;
		double ours, theirs;

		if (row->cuda != cuda || row->part != SUITE_FITS ||
		    row->variant != SUITE_SLUICE || row->status != SUITE_DONE)
			continue;
		copies = suite_row_done(w->suite, cuda, SUITE_FITS, row->workload,
					SUITE_COPIES, row->point);
		if (!copies)
			continue;
		ours = cuda ? row->least_measured_s : row->least_total_s;
		theirs = cuda ? copies->least_measured_s : copies->least_total_s;
		fprintf(w->out, "| %s | %s | %.4f | %.4f | %+.1f %% |\n", row->workload,
			row->point, ours, theirs, 100 * (ours / theirs - 1));
	}
}

static void
fig5_write(const struct suite_writer *w, int cuda)
{
	static const enum suite_variant pairs[][2] = {{SUITE_DRAGON_NO_AHEAD, SUITE_DRAGON},
						      {SUITE_SLUICE_NO_AHEAD, SUITE_SLUICE}};

	if (!part_has_rows(w, cuda, SUITE_FIG5, NULL))
		return;
	fprintf(w->out,
		"\n## DRAGON, figure 5: read-ahead off and on, on %s\n\n"
		"The paper's text says \"significant\". A launch's own data are read "
		"ahead of "
		"it either way.\n\n"
		"| application | footprint | | off, s | on, s | off over on | MiB in, "
		"off and on "
		"| MiB read, off and on |\n|---|---|---|---|---|---|---|---|\n",
		suite_device_title(cuda));
	for (unsigned i = 0; i < w->suite->n_rows; i++) {
		const struct suite_row *on = &w->suite->rows[i], *off = NULL;

		if (on->cuda != cuda || on->part != SUITE_FIG5 || on->status != SUITE_DONE)
			continue;
		for (unsigned p = 0; p < 2; p++)
			if (on->variant == pairs[p][1])
				off = suite_row_done(w->suite, cuda, SUITE_FIG5,
						     on->workload, pairs[p][0], on->point);
		if (!off)
			continue;
		fprintf(w->out, "| %s | %s | %s | %.3f | %.3f | %.2f x | %.1f, %.1f | %.1f, %.1f |\n",
			on->workload, on->point, suite_variant_titles[on->variant],
			off->total_s, on->total_s, off->total_s / on->total_s,
			(double)off->h2d_bytes / 0x1p20, (double)on->h2d_bytes / 0x1p20,
			(double)off->read_bytes / 0x1p20, (double)on->read_bytes / 0x1p20);
	}
}

static void
fig6_app_write(struct suite_writer *w, int cuda, const char *workload)
{
	static const enum suite_variant variants[] = {SUITE_SLUICE, SUITE_DRAGON};
	double seconds[2][SUITE_RESERVES], x[SUITE_RESERVES];
	struct chart_series series[2];
	char name[80], title[120];
	unsigned n = 0;

	for (unsigned v = 0; v < 2; v++) {
		int any = 0;

		for (unsigned i = 0; i < SUITE_RESERVES; i++) {
			const struct suite_row *row = suite_row_done(w->suite, cuda,
								     SUITE_FIG6, workload,
								     variants[v],
								     suite_reserve_names[i]);

			x[i] = 100.0 * i / (SUITE_RESERVES - 1);
			seconds[n][i] = row ? row->total_s : NAN;
			any |= row != NULL;
			if (!row)
				continue;
			fprintf(w->out, "| %s | %s | %s | %.3f | %.1f | %.1f | %.1f |\n",
				workload, suite_variant_titles[variants[v]],
				suite_reserve_names[i], row->total_s,
				(double)row->after.counter[SLUICE_COUNTER_STORE_WRITE_SPILL] /
					0x1p20,
				(double)row->read_bytes / 0x1p20,
				(double)row->write_bytes / 0x1p20);
		}
		if (!any)
			continue;
		series[n] = (struct chart_series){.name = suite_variant_titles[variants[v]],
						  .values = seconds[n]};
		n++;
	}
	if (!n)
		return;
	snprintf(name, sizeof(name), "fig6-%s-%s", cuda ? "cuda" : "soft", workload);
	snprintf(title, sizeof(title), "DRAGON, figure 6: %s on %s", workload,
		 suite_device_title(cuda));
	suite_picture_put(
		w, name,
		&(struct chart){.title = title,
				.x_title = "% of the host budget kept from volatile data",
				.y_title = "seconds",
				.series = series,
				.n_series = n,
				.n = SUITE_RESERVES,
				.x = x});
	fputc('\n', w->out);
}

static void
fig6_write(struct suite_writer *w, int cuda)
{
	for (const struct workload *const *app = workloads_list; *app; app++) {
		if (!part_has_rows(w, cuda, SUITE_FIG6, (*app)->name))
			continue;
		fprintf(w->out,
			"\n## DRAGON, figure 6: host memory kept from volatile data, %s "
			"on %s\n\n"
			"Data of 16/3 of the device, host memory of 16/3, of which "
			"volatile data "
			"leave the reserve\nfree. The paper's text: up to 43.5 %% more "
			"time without "
			"a host tier. Bytes in MiB.\n\n"
			"| application | variant | reserve of the host budget | s | "
			"spilled | read "
			"| written |\n|---|---|---|---|---|---|---|\n",
			(*app)->name, suite_device_title(cuda));
		fig6_app_write(w, cuda, (*app)->name);
	}
}

void
suite_dragon_write(struct suite_writer *w, int cuda)
{
	fits_write(w, cuda);
	fig3_write(w, cuda);
	fig5_write(w, cuda);
	fig6_write(w, cuda);
}
