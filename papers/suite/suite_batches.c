/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DRAGON-DIRECT's mini-batches: the time of training over a file several times larger than device and
 * host memory together, and how many batches were on the device as a whole when their kernel was to
 * start. The paper has no measurements; what is demanded is that the next batch is there.
 *
 * Threads: one.
 */
#include "suite.h"

#include "base/size.h"
#include "sluice/sluice.h"

static void
batches_row_write(const struct suite_writer *w, const struct suite_row *row)
{
	fprintf(w->out, "| %s | %.3f | ", suite_variant_titles[row->variant],
		row->cuda ? row->measured_s : row->run_s);
	if (row->variant == SUITE_FETCH_HAND)
		fputs("- |", w->out);
	else
		fprintf(w->out, "%llu of %llu, %.1f %% |",
			(unsigned long long)row->batches_resident,
			(unsigned long long)row->batches,
			row->batches ? 100.0 * (double)row->batches_resident / (double)row->batches
				     : 0);
	fprintf(w->out, " %.1f | %.1f |\n", (double)row->h2d_bytes / 0x1p20,
		(double)row->read_bytes / 0x1p20);
}

void
suite_batches_write(struct suite_writer *w, int cuda)
{
	const struct workload *workload = suite_workload("minibatch");
	char size[32], device[32];
	unsigned n = 0;

	for (unsigned i = 0; workload && i < w->suite->n_rows; i++) {
		const struct suite_row *row = &w->suite->rows[i];

		if (row->cuda != cuda || row->part != SUITE_BATCHES ||
		    row->status != SUITE_DONE)
			continue;
		if (!n++)
			fprintf(w->out,
				"\n## Mini-batches on %s\n\n"
				"%s of samples, drawn at random; device and host budget "
				"%s each. The next "
				"two batches are\nfetched while one trains, %llu steps, "
				"and "
				"training takes longer "
				"than reading. Bytes in MiB.\n\n"
				"| | s | batches there when needed | to the device | "
				"read from the file "
				"|\n|---|---|---|---|---|\n",
				suite_device_title(cuda),
				sl_size_format(row->footprint_bytes, size, sizeof(size)),
				sl_size_format(row->device_bytes, device, sizeof(device)),
				(unsigned long long)row->steps);
		batches_row_write(w, row);
	}
}
