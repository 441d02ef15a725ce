/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of the suite: what was run on, how near the claims are, and every row with its bytes by
 * cause; the figures of DRAGON and the tables of UVM Discard in between are in files of their own.
 * Both devices' rows, where there are any, each under its own heading.
 *
 * Everything comes from the rows, so that the same rows give the same page.
 *
 * Threads: one.
 */
#include "suite.h"

#include <string.h>

#include "base/size.h"
#include "chart.h"
#include "sluice/sluice.h"

int
suite_picture_put(struct suite_writer *w, const char *name, const struct chart *chart)
{
	if (w->dir && !w->rc)
		w->rc = chart_embed(w->out, w->dir, w->link, name, chart);
	return w->rc;
}

const char *
suite_device_title(int cuda)
{
	return cuda ? "a GPU" : "the software device";
}

static unsigned
rows_count(const struct suite *suite, int cuda)
{
	unsigned n = 0;

	for (unsigned i = 0; i < suite->n_rows; i++)
		n += suite->rows[i].cuda == cuda && suite->rows[i].status != SUITE_PLANNED;
	return n;
}

static void
bars_write(const struct suite_writer *w, int cuda)
{
	static struct suite_bar bars[SUITE_BARS_MAX];
	unsigned n = suite_bars_judge(w->suite, cuda, bars);

	fprintf(w->out, "\n## How near, on %s\n\n%s\n\n", suite_device_title(cuda),
		w->suite->machine[cuda]);
	fputs("| what | bar | rows | verdict | |\n|---|---|---|---|---|\n", w->out);
	for (unsigned i = 0; i < n; i++) {
		const char *verdict = !bars[i].n         ? "not judged"
				      : bars[i].reported ? "reported"
				      : bars[i].passed   ? "pass"
							 : "not met";

		fprintf(w->out, "| %s | %s | %u | %s | %s |\n", bars[i].what, bars[i].bar,
			bars[i].n, verdict, bars[i].n ? bars[i].note : "nothing to compare");
	}
}

/* ---- every row ---- */

/* Causes that rows tell, by direction. */
static const struct {
	const char *title;
	enum sluice_counter causes[4];
	const char *names[4];
} causes[] = {
	{"to the device",
	 {SLUICE_COUNTER_H2D_LAUNCH, SLUICE_COUNTER_H2D_FAULT,
	  SLUICE_COUNTER_H2D_PREFETCH, SLUICE_COUNTER_H2D_CPU},
	 {"launch", "fault", "prefetch", "host code"}},
	{"from the device",
	 {SLUICE_COUNTER_D2H_EVICT, SLUICE_COUNTER_D2H_REQUEST, SLUICE_COUNTER_D2H_SYNC,
	  SLUICE_COUNTER_COUNT},
	 {"evict", "request", "sync", NULL}},
	{"not moved",
	 {SLUICE_COUNTER_CLEAN_DROP, SLUICE_COUNTER_DISCARD_SAVED,
	  SLUICE_COUNTER_ZERO_FILL, SLUICE_COUNTER_COUNT},
	 {"clean", "dead", "zeros", NULL}},
	{"read from files",
	 {SLUICE_COUNTER_STORE_READ_DEMAND, SLUICE_COUNTER_STORE_READ_AHEAD,
	  SLUICE_COUNTER_STORE_READ_PREFETCH, SLUICE_COUNTER_COUNT},
	 {"demand", "ahead", "prefetch", NULL}},
	{"written to files",
	 {SLUICE_COUNTER_STORE_WRITE_BACK, SLUICE_COUNTER_STORE_WRITE_SYNC,
	  SLUICE_COUNTER_STORE_WRITE_SPILL, SLUICE_COUNTER_COUNT},
	 {"back", "sync", "spill", NULL}},
};

#define DIRECTIONS (sizeof(causes) / sizeof(causes[0]))

/* "launch 12.0, fault 3.5" in MiB; "-": nothing. */
static void
causes_print(FILE *to, const struct suite_row *row, unsigned direction)
{
	unsigned printed = 0;

	for (unsigned i = 0; i < 4; i++) {
		enum sluice_counter counter = causes[direction].causes[i];
		uint64_t bytes;

		if (counter == SLUICE_COUNTER_COUNT)
			break;
		bytes = row->after.counter[counter];
		if (!bytes)
			continue;
		fprintf(to, "%s%s %.1f", printed++ ? ", " : "",
			causes[direction].names[i], (double)bytes / 0x1p20);
	}
	if (printed)
		return;
	/* The page cache moves by itself: the system's count, by no cause. */
	if (row->variant == SUITE_MMAP && direction == 3 && row->read_bytes)
		fprintf(to, "the system %.1f", (double)row->read_bytes / 0x1p20);
	else if (row->variant == SUITE_MMAP && direction == 4 && row->write_bytes)
		fprintf(to, "the system %.1f", (double)row->write_bytes / 0x1p20);
	else if (direction == 0 && row->h2d_bytes) /* copied without a space */
		fprintf(to, "by hand %.1f", (double)row->h2d_bytes / 0x1p20);
	else if (direction == 1 && row->d2h_bytes)
		fprintf(to, "by hand %.1f", (double)row->d2h_bytes / 0x1p20);
	else
		fputs("-", to);
}

static const char *
verdict_text(const struct suite_row *row)
{
	switch (row->verdict) {
	case WORKLOAD_VERIFIED:
		return "equal";
	case WORKLOAD_WRONG:
		return "WRONG";
	case WORKLOAD_NOT_VERIFIED:
	case WORKLOAD_VERDICT_COUNT:
		return "not compared";
	}
	return "";
}

void
suite_row_print(FILE *to, const struct suite_row *row)
{
	fprintf(to, "%s %s %s %s: ", suite_part_names[row->part], row->workload,
		row->point, suite_variant_names[row->variant]);
	if (row->status != SUITE_DONE) {
		fprintf(to, "%s: %s\n", suite_status_names[row->status], row->error);
		return;
	}
	fprintf(to, "%.3f s, kernels and moves %.3f s, %s; MiB", row->total_s, row->run_s,
		verdict_text(row));
	for (unsigned d = 0; d < DIRECTIONS; d++) {
		fprintf(to, "%s %s: ", d ? ";" : "", causes[d].title);
		causes_print(to, row, d);
	}
	fputc('\n', to);
}

static void
row_write(FILE *out, const struct suite_row *row)
{
	char size[32], device[32], host[32];

	fprintf(out, "| %s | %s | %s | %s | %s, %s, %s | ", suite_part_names[row->part],
		row->workload, row->point, suite_variant_names[row->variant],
		sl_size_format(row->footprint_bytes, size, sizeof(size)),
		sl_size_format(row->device_bytes, device, sizeof(device)),
		sl_size_format(row->host_bytes, host, sizeof(host)));
	if (row->status != SUITE_DONE) {
		fprintf(out, "%s | | | | | | %s |\n", suite_status_names[row->status],
			row->error);
		return;
	}
	fprintf(out, "%.3f / %.3f | ", row->total_s, row->run_s);
	for (unsigned d = 0; d < DIRECTIONS; d++) {
		causes_print(out, row, d);
		fputs(" | ", out);
	}
	fprintf(out, "%s |\n", verdict_text(row));
}

static void
rows_write(const struct suite_writer *w, int cuda)
{
	fprintf(w->out,
		"\n## Every row on %s\n\n"
		"Sizes: footprint, device budget, host budget. Seconds: from mapping (or "
		"reading) the files\nto results on the medium / kernels and moves alone. "
		"Bytes by cause in MiB, %s.\n\n"
		"| part | workload | point | variant | sizes | s |",
		suite_device_title(cuda),
		cuda ? "of the pass that begins with all data in host memory" : "to the end");
	for (unsigned d = 0; d < DIRECTIONS; d++)
		fprintf(w->out, " %s |", causes[d].title);
	fputs(" result |\n|---|---|---|---|---|---|", w->out);
	for (unsigned d = 0; d < DIRECTIONS; d++)
		fputs("---|", w->out);
	fputs("---|\n", w->out);
	for (unsigned i = 0; i < w->suite->n_rows; i++)
		if (w->suite->rows[i].cuda == cuda && w->suite->rows[i].status != SUITE_PLANNED)
			row_write(w->out, &w->suite->rows[i]);
}

int
suite_report_write(const struct suite *suite, FILE *out, const char *dir, const char *link)
{
	struct suite_writer w = {.suite = suite, .out = out, .dir = dir, .link = link};

	fputs("# The evaluations of DRAGON, UVM Discard and DRAGON-DIRECT\n\n"
	      "Made by `sluice-papers suite --update`. Every row is a process of its own "
	      "over real files,\nwith the same inputs, tiles, kernels and memory limit "
	      "for "
	      "every variant, and pages of inputs\ndropped from the page cache before. "
	      "Results are compared with a reference that shares nothing\nwith the "
	      "pager. "
	      "Published values stand beside ours; their machines had a P100 of 12 GiB "
	      "(DRAGON) and\na 3080 Ti of 11.77 GB (UVM Discard). See "
	      "*sluice-bench-suite*(1).\n",
	      out);
	for (int cuda = 0; cuda < 2; cuda++)
		if (rows_count(suite, cuda))
			bars_write(&w, cuda);
	for (int cuda = 0; cuda < 2; cuda++) {
		if (!rows_count(suite, cuda))
			continue;
		suite_dragon_write(&w, cuda);
		suite_discard_write(&w, cuda);
		suite_batches_write(&w, cuda);
	}
	for (int cuda = 0; cuda < 2; cuda++)
		if (rows_count(suite, cuda))
			rows_write(&w, cuda);
	return w.rc;
}
