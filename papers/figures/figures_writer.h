/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files that write tables and pictures of `sluice-papers figures` share: figures_tables.c with
 * figures 2 to 14 and the whole, figures_sweeps.c with figures 15 to 19.
 *
 * Threads: one.
 */
#ifndef SL_TOOLS_FIGURES_WRITER_H
#define SL_TOOLS_FIGURES_WRITER_H

#include "chart.h"
#include "figures.h"

struct figures_writer {
	const struct figures *figures;
	FILE *out;
	const char *dir, *link; /* pictures; dir NULL: none */
	int rc;                 /* the first failure of a picture */
};

/* Draw a picture and refer to it, if pictures are wanted; the first failure is kept. */
int figures_picture_put(struct figures_writer *w, const char *name,
			const struct chart *chart);

/* One cell of a table of times: "published / ours (difference)", in 10^9 cycles. */
void figures_time_put(const struct figures_writer *w, unsigned figure,
		      const struct figure_key *key);

/* figures_sweeps.c: a figure over one quantity, for each model whose traces are there. */
void figures_batch_sweep_write(struct figures_writer *w);   /* 15 */
void figures_host_sweep_write(struct figures_writer *w);    /* 16 */
void figures_host_compared_write(struct figures_writer *w); /* 17 */
void figures_store_sweep_write(struct figures_writer *w);   /* 18 */
void figures_noise_sweep_write(struct figures_writer *w);   /* 19 */

#endif
