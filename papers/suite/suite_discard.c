/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UVM Discard's tables 3 to 8: runtimes relative to no discard and bytes of both ways, the published
 * beside ours. Bytes are shown at the paper's size: ours times the published bytes of one reading of
 * the inputs over ours. The rows with launch intents have no counterpart in the paper: they show
 * what is left for discard to save when the pager knows what was written.
 *
 * Threads: one.
 */
#include "suite.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "chart.h"
#include "sluice/sluice.h"

static const enum suite_variant variants[] = {SUITE_NONE, SUITE_EAGER, SUITE_LAZY,
					      SUITE_INTENTS, SUITE_INTENTS_LAZY};
#define VARIANTS 5u

static const struct suite_row *
cell(const struct suite_writer *w, int cuda, const char *workload, unsigned v, unsigned over)
{
	return suite_row_done(w->suite, cuda, SUITE_TABLES, workload, variants[v],
			      suite_over_names[over]);
}

static double
cell_s(const struct suite_row *row)
{
	return row->cuda ? row->measured_s : row->run_s;
}

/* GB at the paper's size; without a paper, of this run. */
static double
cell_gb(const struct suite_table *table, const struct suite_row *row)
{
	double bytes = (double)row->h2d_bytes + (double)row->d2h_bytes;

	if (!table->bytes_number || !row->input_bytes)
		return bytes / 1e9;
	return bytes * table->gb[0][0] / (double)row->input_bytes;
}

static void
head_write(const struct suite_writer *w, const char *what)
{
	fprintf(w->out, "\n| %s |", what);
	for (unsigned over = 0; over < SUITE_OVERS; over++)
		fprintf(w->out, " %s |", suite_over_names[over]);
	fputs("\n|---|", w->out);
	for (unsigned over = 0; over < SUITE_OVERS; over++)
		fputs("---|", w->out);
	fputc('\n', w->out);
}

static void
times_write(const struct suite_writer *w, int cuda, const struct suite_table *table,
	    const char *workload)
{
	head_write(w, table->time_number ? "runtime, published (PCIe 3/4): ours" : "runtime");
	for (unsigned v = 0; v < VARIANTS; v++) {
		fprintf(w->out, "| %s |", suite_variant_titles[variants[v]]);
		for (unsigned over = 0; over < SUITE_OVERS; over++) {
			const struct suite_row *row = cell(w, cuda, workload, v, over);
			const struct suite_row *none = cell(w, cuda, workload, 0, over);

			if (v < 3 && table->time[v][over])
				fprintf(w->out, " %s:", table->time[v][over]);
			if (row && none && cell_s(none) > 0)
				fprintf(w->out, " **%.2f** (%.3f s) |",
					cell_s(row) / cell_s(none), cell_s(row));
			else
				fputs(" - |", w->out);
		}
		fputc('\n', w->out);
	}
}

static void
bytes_write(const struct suite_writer *w, int cuda, const struct suite_table *table,
	    const char *workload)
{
	head_write(w, table->bytes_number ? "GB at the paper's size, published: ours" : "GB");
	for (unsigned v = 0; v < VARIANTS; v++) {
		fprintf(w->out, "| %s |", suite_variant_titles[variants[v]]);
		for (unsigned over = 0; over < SUITE_OVERS; over++) {
			const struct suite_row *row = cell(w, cuda, workload, v, over);

			if (v < 3 && table->bytes_number)
				fprintf(w->out, " %.2f:", table->gb[v][over]);
			if (row)
				fprintf(w->out, " **%.2f** |", cell_gb(table, row));
			else
				fputs(" - |", w->out);
		}
		fputc('\n', w->out);
	}
}

static void
bytes_picture(struct suite_writer *w, int cuda, const struct suite_table *table,
	      const char *workload)
{
	double values[VARIANTS][SUITE_OVERS];
	struct chart_series series[VARIANTS];
	char name[80], title[120];

	for (unsigned v = 0; v < VARIANTS; v++) {
		for (unsigned over = 0; over < SUITE_OVERS; over++) {
			const struct suite_row *row = cell(w, cuda, workload, v, over);

			values[v][over] = row ? cell_gb(table, row) : NAN;
		}
		series[v] = (struct chart_series){.name = suite_variant_titles[variants[v]],
						  .values = values[v],
						  .published = v < 3 && table->bytes_number
								       ? table->gb[v]
								       : NULL};
	}
	snprintf(name, sizeof(name), "discard-%s-%s", cuda ? "cuda" : "soft", workload);
	snprintf(title, sizeof(title), "UVM Discard: bytes of %s on %s", table->title,
		 suite_device_title(cuda));
	suite_picture_put(w, name,
			  &(struct chart){.title = title,
					  .x_title = "footprint over device memory",
					  .y_title = table->bytes_number
							     ? "GB at the paper's size"
							     : "GB",
					  .series = series,
					  .n_series = VARIANTS,
					  .n = SUITE_OVERS,
					  .groups = suite_over_names});
}

static void
table_write(struct suite_writer *w, int cuda, const struct suite_table *table)
{
	char rows[SUITE_WORD_BYTES], size[32], rate[32], chunk[32];
	const char *workload = suite_table_rows(table, rows);
	const struct suite_row *any = NULL;

	for (unsigned over = 0; workload && !any && over < SUITE_OVERS; over++)
		any = cell(w, cuda, workload, 0, over);
	if (!any)
		return;
	if (table->bytes_number)
		fprintf(w->out, "\n## UVM Discard, tables %u and %u: %s on %s\n\n",
			table->time_number, table->bytes_number, table->title,
			suite_device_title(cuda));
	else
		fprintf(w->out, "\n## UVM Discard: %s on %s\n\n", table->title,
			suite_device_title(cuda));
	fprintf(w->out, "Footprint %s, chunks of %s, room in host memory for everything",
		sl_size_format(any->footprint_bytes, size, sizeof(size)),
		sl_size_format(any->chunk_bytes, chunk, sizeof(chunk)));
	if (cuda)
		fputs(", data there at first.\n", w->out);
	else if (any->link_bytes_per_s)
		fprintf(w->out, ", files in memory, a modelled link of %s/s each way.\n",
			sl_size_format(any->link_bytes_per_s, rate, sizeof(rate)));
	else
		fputs(", files in memory, no link modelled: times\nare those of moving "
		      "pages "
		      "within this machine's memory.\n",
		      w->out);
	times_write(w, cuda, table, workload);
	bytes_write(w, cuda, table, workload);
	bytes_picture(w, cuda, table, workload);
}

void
suite_discard_write(struct suite_writer *w, int cuda)
{
	for (unsigned i = 0; i < suite_n_tables; i++)
		table_write(w, cuda, &suite_tables[i]);
}
