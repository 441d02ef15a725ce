/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `sluice-papers suite` share: the rows that the evaluations of the papers DRAGON
 * and UVM Discard are made of, one measured configuration each, and what is published about them.
 *
 * cmd_suite.c reads the command line and has the rows listed (suite_plan.c, suite_published.c), run
 * (suite_run.c, suite_copies.c, suite_env.c), printed (suite_print.c) and kept in a file
 * (suite_rows.c). papers/suite.py makes the page of that file.
 *
 * A row is told by device, part, workload, variant and point; all five are words that stay the same
 * from run to run, so that rows of an earlier run can be kept, and joined with those of another
 * machine.
 *
 * Threads: one; a row is run by a child process.
 */
#ifndef SL_TOOLS_SUITE_H
#define SL_TOOLS_SUITE_H

#include <limits.h>
#include <signal.h>
#include <stdint.h>

#include "base/error.h"
#include "workload.h"

#define SUITE_WORD_BYTES  32
#define SUITE_ERROR_BYTES 256
#define SUITE_ROWS_MAX    2048u
#define SUITE_POINTS_MAX  8u
#define SUITE_STEPS_AUTO  UINT64_MAX /* so many that training takes longer than reading */
#define SUITE_LINK_AUTO \
	UINT64_MAX /* as fast, beside our kernels, as the paper's beside its */

enum suite_part {
	SUITE_FITS,    /* in-device sizes without a disk: what a space costs */
	SUITE_FIG3,    /* DRAGON, figure 3: sizes from 1/3 to 64/3 of the device */
	SUITE_FIG5,    /* DRAGON, figure 5: read-ahead off and on */
	SUITE_FIG6,    /* DRAGON, figure 6: host memory kept from volatile data */
	SUITE_TABLES,  /* UVM Discard, tables 3 to 8 */
	SUITE_BATCHES, /* DRAGON-DIRECT: mini-batches fetched by index */
	SUITE_PART_COUNT
};
extern const char *const suite_part_names[SUITE_PART_COUNT];

/* What a row runs on. */
enum suite_variant {
	SUITE_SLUICE,          /* launches declare their uses and intents, policy lru */
	SUITE_SLUICE_NO_AHEAD, /* the same without read-ahead */
	SUITE_DRAGON, /* kernels run by faults, flags of the mapping, policy dragon */
	SUITE_DRAGON_NO_AHEAD,
	SUITE_UVM,    /* kernels run by faults, policy uvm */
	SUITE_COPIES, /* files read as a whole, copied, computed, copied, written */
	SUITE_CACHED, /* a GPU: the same by read(2), not pinned, within the device memory */
	SUITE_STREAMING,    /* a GPU: pieces by hand over three buffers */
	SUITE_MAPPED,       /* a GPU: kernels reach host memory over the link */
	SUITE_MMAP,         /* files mapped; the kernel's page cache decides */
	SUITE_NONE,         /* policy uvm, launches declare uses; no discard */
	SUITE_EAGER,        /* with eager discard */
	SUITE_LAZY,         /* with lazy discard */
	SUITE_INTENTS,      /* launch intents instead of policy uvm, no discard */
	SUITE_INTENTS_LAZY, /* both */
	SUITE_FETCH_INDEX,  /* the next batches are prefetched by index */
	SUITE_FETCH_LAUNCH, /* launches bring in what they declare */
	SUITE_FETCH_HAND, /* batches are read by hand into two buffers; on a GPU, three */
	SUITE_VARIANT_COUNT
};
extern const char *const suite_variant_names[SUITE_VARIANT_COUNT];

enum suite_status {
	SUITE_PLANNED, /* not run yet */
	SUITE_DONE,
	SUITE_REFUSED, /* it does not fit, or the device cannot: error says why */
	SUITE_FAILED,  /* it should have run */
	SUITE_STATUS_COUNT
};
extern const char *const suite_status_names[SUITE_STATUS_COUNT];

struct suite_row {
	/* What it is. */
	int cuda;
	enum suite_part part;
	char workload[SUITE_WORD_BYTES];
	enum suite_variant variant;
	char point[SUITE_WORD_BYTES]; /* "4/3", "200 %", "1/4" */
	double at;                    /* the same as a number */

	/* What it is run with. */
	uint64_t footprint_bytes; /* asked for; then the workload's own */
	uint64_t device_bytes, host_bytes, reserve_bytes, chunk_bytes;
	uint64_t link_bytes_per_s; /* of the modelled link; 0: none; SUITE_LINK_AUTO */
	uint64_t limit_bytes;      /* of the process's control group; 0: none */
	uint64_t steps; /* of training with a batch; or SUITE_STEPS_AUTO; 0: no batches */
	uint64_t repeat;
	int in_memory; /* the files lie in memory: no disk is measured */
	int in_turn; /* compared with the rows of its point, and run in turn with them */

	/* What came out. Times are medians, counters those of the last run. */
	enum suite_status status;
	char error[SUITE_ERROR_BYTES];
	enum workload_verdict verdict;
	double run_s;      /* first launch to last launch done */
	double total_s;    /* with mapping or reading before, syncing or writing behind */
	double measured_s; /* on a GPU: all data in host memory at first; else 0 */
	/* The shortest of the repetitions: what differences of a percent are looked for in, since what
	 * disturbs a run only ever makes it longer. */
	double least_run_s, least_total_s, least_measured_s;
	double began_s, ended_s; /* its first and last repetition, since the suite began */
	uint64_t launches, tile_bytes, input_bytes, output_bytes;
	uint64_t h2d_bytes, d2h_bytes;    /* before the final sync */
	uint64_t read_bytes, write_bytes; /* of files, to the end */
	uint64_t batches, batches_resident; /* of them, on the device when they were needed */
	uint64_t expected_h2d_bytes, expected_d2h_bytes, tolerance_bytes;
	int expected;
	struct sluice_stats before,
		after; /* bytes by cause: before the final sync, at the end */
};

/*
 * Outputs that were compared with the reference: the next row of the same workload and footprint needs
 * none of its own where its outputs are the same bytes. Of the last such row only.
 */
struct suite_outputs {
	char workload[SUITE_WORD_BYTES];
	uint64_t footprint_bytes, hash; /* workload[0] 0: none */
	int cuda;
};

struct suite {
	int cuda, quick, verify;
	uint64_t scale_bytes; /* device budget of the DRAGON figures */
	uint64_t link_bytes_per_s;
	uint64_t repeat;
	int repeat_given; /* on the command line: short rows are not run more often */
	const char *dir, *memory_dir;
	const struct workload *only_workload; /* NULL: all */
	uint32_t parts;                       /* bit n: enum suite_part n is to be run */
	const char *points[SUITE_POINTS_MAX]; /* only these; none: all */
	unsigned n_points;

	struct suite_row *rows; /* both devices' */
	unsigned n_rows, max_rows;
	const char *linked; /* rows that the rate below was found for; NULL: none yet */
	uint64_t linked_bytes_per_s;
	uint64_t steps; /* found for SUITE_STEPS_AUTO; 0: none yet */
	struct suite_outputs verified;
	char machine[2][320]; /* what the rows of a device were run on; "" : no rows */
	uint64_t began_ns;    /* running rows */
	const volatile sig_atomic_t *cancelled;
};

/* ---- suite_plan.c ---- */

/* Append the rows of the parts asked for, in the order in which files can be used again. Errors:
 * -ENOMEM, -E2BIG, -EINVAL (the budgets are too small), text set. */
int suite_rows_plan(struct suite *suite) SL_MUST_CHECK;

/* Append a copy of a row; -ENOMEM, -E2BIG. */
int suite_row_add(struct suite *suite, const struct suite_row *row) SL_MUST_CHECK;

/* The row of that description that is there (planned or run), or NULL. workload: as the table of
 * workloads has it. */
struct suite_row *suite_row_find(const struct suite *suite, int cuda,
				 enum suite_part part, const char *workload,
				 enum suite_variant variant, const char *point);
/* The same, if it was run to its end. */
const struct suite_row *suite_row_done(const struct suite *suite, int cuda,
				       enum suite_part part, const char *workload,
				       enum suite_variant variant, const char *point);

#define SUITE_RATIOS 7
extern const char *const suite_ratio_names[SUITE_RATIOS]; /* "1/3" ... "64/3" */
extern const double suite_ratio_values[SUITE_RATIOS];

#define SUITE_RESERVES 5
extern const char *const suite_reserve_names[SUITE_RESERVES]; /* of the host budget */

#define SUITE_OVERS 4
extern const char *const suite_over_names[SUITE_OVERS]; /* "<100 %" ... "400 %" */

/* How many rows from the i-th on, of the first n_rows, are run in turn: at least 1. */
unsigned suite_rows_in_turn(const struct suite *suite, unsigned i, unsigned n_rows);

/* The option "discard" of a workload with choices none, eager, lazy: its index, or -1. */
int suite_discard_option(const struct workload *workload);

/* ---- suite_run.c ---- */

/*
 * Run n planned rows of the same inputs, repeat times and, where they are short, more often: each
 * time in a child of its own within a memory limit where one can be set; a repetition of each row
 * after the other. A row that does not fit or fails is noted in it: 0. Negative: the suite cannot go on
 * (-ECANCELED, -EAGAIN from fork), text set. Blocks for the whole run.
 */
int suite_rows_run(struct suite *suite, struct suite_row *rows, unsigned n) SL_MUST_CHECK;

/*
 * Give a row of the tables the rate of its modelled link, found by a run without one where no row
 * of the workload has it yet: 0, and the row has a rate or, where that run failed, none. Negative:
 * as suite_rows_run().
 */
int suite_row_link(struct suite *suite, struct suite_row *row) SL_MUST_CHECK;

/*
 * Give a row of mini-batches how often each is trained with, found by two short runs where no row has
 * it yet: so often that the disk is not what is waited for. 0, and the row has it. Negative: as
 * suite_rows_run().
 */
int suite_row_steps(struct suite *suite, struct suite_row *row) SL_MUST_CHECK;

/* Set the workload's option of that name to one of its choices; -EINVAL, text set. */
int suite_option_set(struct workload_params *params, const struct workload *workload,
		     const char *name, const char *choice) SL_MUST_CHECK;

/* Remove what rows of this workload left in their directory. */
void suite_row_clean(const struct suite *suite, const struct suite_row *row);

/* ---- suite_env.c, suite_copies.c: in the child ---- */

struct workload_env;
struct workload_memory_ops;

/*
 * As workload_run(), over files read as a whole into host memory within the host budget, copied to
 * a device of the device budget, and written at the end. The software device only. link_bytes_per_s:
 * what a copy goes at; 0: at what memcpy() does. Files are kept. Errors: -ENOMEM (host memory does
 * not hold them), and as workload_run(), with the text in result->error.
 */
int suite_copies_run(const struct workload *workload, const struct workload_params *params,
		     uint64_t link_bytes_per_s, struct workload_result *result) SL_MUST_CHECK;

/*
 * Compare what a run with these params left in its files: with the hash of files that the reference
 * has been compared with (known != 0), or, where that is none or another, with the reference:
 * result->verdict, result->mismatch. *hash: of the files. Errors as workload_run().
 */
int suite_verify(const struct workload *workload, const struct workload_params *params,
		 const struct sluice_config *config, uint64_t known, uint64_t *hash,
		 struct workload_result *result) SL_MUST_CHECK;

extern const struct workload_memory_ops suite_memory_copies;

/* The rate that copies of this process go at; see suite_copies_run(). Set before it. */
extern uint64_t suite_copies_link_bytes_per_s;

/* ---- suite_rows.c ---- */

/* Write the rows of one device to path, whole or not at all. Errors of writing, text set. */
int suite_rows_write(const struct suite *suite, int cuda, const char *path) SL_MUST_CHECK;

/* Append the rows of path. 0 also where there is no such file. Errors: -EINVAL (not such a file),
 * -ENOMEM, of reading, text set. */
int suite_rows_read(struct suite *suite, const char *path) SL_MUST_CHECK;

/* ---- suite_published.c ---- */

struct suite_table {
	const char *workload; /* beginning of its name in the table of workloads */
	int determined;       /* the bytes follow from sizes and policy */
	/* How often the paper's link could carry the inputs while its kernels ran alone: follows
	 * from its times and bytes with and without discard at 200 % (PCIe 3). */
	double inputs_per_run;
	const char *model; /* of a workload that has several; else NULL */
};
extern const struct suite_table suite_tables[];
extern const unsigned suite_n_tables;

/* The workload of a table, or NULL where there is none yet. */
const struct workload *suite_table_workload(const struct suite_table *table);

/* What the rows of a table are called: by its workload and, behind a dash, its model. name: of
 * SUITE_WORD_BYTES; what is returned, or NULL where there is no such workload. */
const char *suite_table_rows(const struct suite_table *table, char *name);

/* The workload of rows called so, or NULL; *model: behind the dash, or NULL. */
const struct workload *suite_rows_workload(const char *name, const char **model);

/* A workload whose name, letters and digits alone, begins so; NULL: none. */
const struct workload *suite_workload(const char *name);

extern const char *const suite_dragon_apps[]; /* ended by NULL */

/* ---- suite_print.c ---- */

/* A line on stderr. */
void suite_row_print(const struct suite_row *row);

#endif
