/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `sluice-papers figures` share: the cells (one simulated configuration each) that
 * the figures of the paper G10 are made of, the published values beside them, and the bars that
 * say how near the two must be.
 *
 * cmd_figures.c reads the command line; figures_cells.c lists the cells and runs them on a few
 * threads; figures_expected.c reads the published values; figures_tables.c and
 * figures_sweeps.c write tables and pictures; figures_bars.c judges; chart.c draws.
 *
 * Threads: cells are run by several threads, each cell by one; all the rest is one thread's.
 */
#ifndef SL_TOOLS_FIGURES_H
#define SL_TOOLS_FIGURES_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "plan/vitality.h"
#include "sim/sim.h"

#define FIGURE_FIRST 2
#define FIGURE_LAST  19

enum figure_policy {
	FIGURE_IDEAL,
	FIGURE_UVM,
	FIGURE_FLASHNEURON,
	FIGURE_DEEPUM,
	FIGURE_G10_GDS,
	FIGURE_G10_HOST,
	FIGURE_G10,
	FIGURE_SLUICE, /* our planner, executed under G10's rules */
	FIGURE_POLICY_COUNT
};

/* Names as in the published tables, and as people read them. */
extern const char *const figure_policy_names[FIGURE_POLICY_COUNT];
extern const char *const figure_policy_titles[FIGURE_POLICY_COUNT];

#define FIGURE_MODEL_COUNT 5
#define FIGURE_BATCHES_MAX 8
#define FIGURE_HOSTS_MAX   8

/* A model and where the figures look at it; lists end with 0 (hosts with UINT32_MAX). */
struct figure_model {
	const char *name;                          /* as the traces call it */
	const char *title;                         /* as the paper does */
	uint32_t batch;                            /* figures 2-4, 11-14 and 19 */
	uint32_t batches[FIGURE_BATCHES_MAX];      /* figure 15 */
	uint32_t host_batches[FIGURE_BATCHES_MAX]; /* figure 16 */
	uint32_t hosts[FIGURE_HOSTS_MAX];          /* figure 16, in GiB */
	uint32_t host_batch;                       /* figure 17; 0: not in it */
	uint32_t store_batch;                      /* figure 18 */
	uint64_t seed;                             /* figure 19 */
};
extern const struct figure_model figure_models[FIGURE_MODEL_COUNT];

/* Where a cell is: what the published tables are keyed by. */
struct figure_key {
	unsigned model; /* index */
	uint32_t batch;
	uint32_t host_gib;
	uint32_t store_mbps; /* 10^6 bytes a second; above 3200 the link is 32 GB/s */
	enum figure_policy policy;
	uint32_t noise_percent;
};

#define FIGURE_ABOVE_COUNT 4 /* slow-downs counted above 1.0001, 1.01, 1.1, 2 */
#define FIGURE_ABOVE_TENTH 2 /* 1.1 */
#define FIGURE_QUANTILES   5 /* 50, 90, 95, 99, 100 percent */

struct figure_cell {
	struct figure_key key;
	uint32_t figures; /* bit n: figure n uses it */
	int ran;          /* 0: no trace, or the policy is not there */
	int failed;       /* the policy cannot run this; why says what did not fit */
	char why[256];
	uint64_t cycles, ideal_cycles;
	double run_s;                  /* what simulating it took */
	uint64_t pages[SL_PATH_COUNT]; /* of 4096 bytes */
	double stall, overlap, compute;
	uint32_t n_launches;
	double above[FIGURE_ABOVE_COUNT]; /* percent of launches */
	double quantile[FIGURE_QUANTILES];
	struct sl_plan *plan; /* ours, without noise; else NULL. Owned */
};

/* What the loader made of a trace at a model's main batch, and its characterisation. */
struct figure_trace {
	int there; /* 0: the files are not in the data directory */
	struct sl_vitality vitality;
	struct sl_vitality_stats stats;
	uint64_t clock_hz;
};

struct figures {
	const char *data; /* directory with frontend, results, expected */
	uint32_t wanted;  /* bit n: figure n */
	struct figure_cell *cells;
	size_t n_cells, max_cells;
	struct figure_trace traces[FIGURE_MODEL_COUNT];
	struct figure_expected *expected;
	double run_s; /* all cells together, as passed on the wall */
	unsigned n_jobs;
};

/* figures_cells.c. All fail with -ENOMEM or what reading the data gives, text set. */
int figures_cells_list(struct figures *figures) SL_MUST_CHECK;
int figures_cells_run(struct figures *figures, int quiet) SL_MUST_CHECK;
void figures_fini(struct figures *figures);
const struct figure_cell *figures_cell(const struct figures *figures,
				       const struct figure_key *key); /* NULL: none that ran */
struct figure_key figure_key_make(unsigned model, uint32_t batch, enum figure_policy policy);
/* Both of our planner without noise, the same trace, and `more` has at least as much. */
int figures_cell_has_more(const struct figure_cell *more, const struct figure_cell *less);

/*
 * figures_expected.c: the published values, from DIR/expected. A file that is not there is an
 * error; a cell that is not in it is NAN, a published failure INFINITY.
 */
int figures_expected_read(const char *data, struct figure_expected **out) SL_MUST_CHECK;
void figures_expected_destroy(struct figure_expected *expected);
double figures_published(const struct figures *figures, unsigned figure,
			 const struct figure_key *key);

/* The numbers of other tables, in the order of their columns: 0, or 1 where there are none. */
enum figure_table {
	FIGURE_BREAKDOWN,
	FIGURE_SLOWDOWN,
	FIGURE_TRAFFIC,
	FIGURE_TABLE_COUNT
};
#define FIGURE_COLUMNS_MAX 10
int figures_published_row(const struct figures *figures, enum figure_table table,
			  const struct figure_key *key, double values[FIGURE_COLUMNS_MAX]);
/* What loading a trace must give; i counts from 0, 1: no more. model: FIGURE_MODEL_COUNT for one
 * that is not known. */
struct figure_loader {
	unsigned model;
	uint32_t batch;
	uint64_t n_tensors, n_workspaces, global_bytes, total_bytes, ideal_cycles;
};
int figures_published_loader(const struct figures *figures, unsigned i,
			     struct figure_loader *out);
double figures_published_noise(const struct figures *figures, const struct figure_key *key);

/* figures_tables.c: Markdown to `out`; pictures to picture_dir unless that is NULL, referred to
 * as picture_link/NAME.svg. -EIO and errors of opening, text set. */
int figures_tables_write(const struct figures *figures, FILE *out,
			 const char *picture_dir, const char *picture_link) SL_MUST_CHECK;

/* figures_bars.c: how near ours must be to the published values, and whether it is. */
struct figure_bar {
	const char *what;
	const char *bar;
	unsigned n_cells, n_exempt;
	int judged; /* 0: nothing to judge it by; note says why */
	int passed;
	char note[512]; /* the worst cell, and what is exempt */
};
#define FIGURE_BARS_MAX 24
unsigned figures_bars_judge(const struct figures *figures,
			    struct figure_bar bars[FIGURE_BARS_MAX]);

#endif
