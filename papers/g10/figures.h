/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two files of `sluice-papers figures` share: the cells (one simulated configuration each)
 * that the figures of the paper G10 are made of. cmd_figures.c reads the command line and prints
 * JSON; figures_cells.c lists the cells and runs them on a few threads. papers/figures.py makes
 * tables and pictures of them, and judges how near they are to the published values.
 *
 * Threads: cells are run by several threads, each cell by one; all the rest is one thread's.
 */
#ifndef SL_TOOLS_FIGURES_H
#define SL_TOOLS_FIGURES_H

#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
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

/* As in the published tables. */
extern const char *const figure_policy_names[FIGURE_POLICY_COUNT];

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
	double above[FIGURE_ABOVE_COUNT]; /* percent of launches */
	double quantile[FIGURE_QUANTILES];
	struct sl_plan *plan; /* ours, without noise; else NULL. Owned */
};

struct figures {
	const char *data; /* directory with frontend and results */
	uint32_t wanted;  /* bit n: figure n */
	struct figure_cell *cells;
	size_t n_cells, max_cells;
	int there[FIGURE_MODEL_COUNT]; /* 0: no kernel times at the main batch */
	double run_s;                  /* all cells together, as passed on the wall */
	unsigned n_jobs;
};

/* All fail with -ENOMEM or what reading the data gives, text set. */
int figures_cells_list(struct figures *figures) SL_MUST_CHECK;
int figures_cells_run(struct figures *figures) SL_MUST_CHECK;
void figures_fini(struct figures *figures);

#endif
