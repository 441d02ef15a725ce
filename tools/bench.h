/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `sluice bench` share: one benchmark as the command line describes it, and
 * what reads it and reports on it.
 *
 * bench_options.c fills struct bench and refuses what is contradictory; cmd_bench.c runs it;
 * bench_report.c prints the results. After the reading only the progress line in it changes.
 *
 * Threads: one.
 */
#ifndef SL_TOOLS_BENCH_H
#define SL_TOOLS_BENCH_H

#include <stdint.h>

#include "base/error.h"
#include "progress.h"
#include "workload.h"

#define REPEAT_MAX  1000u
#define PAIRS_MAX   32 /* "key=value" pairs of one command line */
#define OPTIONS_MAX 64

struct bench {
	const struct workload *workload;
	struct workload_params params;
	struct workload_plan plan;
	uint64_t repeat;
	int json;

	/* Settings of the space in the order given; text is "key=value". */
	struct pair {
		const char *from; /* the option, for messages */
		char text[1200];
	} pair[PAIRS_MAX];
	unsigned n_pairs;

	/* Options of workloads, applied once the workload is known. */
	struct extra {
		const struct workload *owner;
		unsigned option;
		const char *value;
	} extra[OPTIONS_MAX];
	unsigned n_extras;

	const char *tile_text; /* NULL: not given */
	struct progress progress;
};

/* As --presence and the reports have them. */
extern const char *const bench_presence_names[WORKLOAD_PRESENCE_COUNT];

/*
 * Read the command line into bench, which is all zeros but for the defaults of cmd_bench(). Also
 * does what --help and --list ask for. 0: go on and run; 1: done, *code is the exit code.
 */
int bench_arguments_read(struct bench *bench, int argc, char **argv, int *code);

/*
 * Print the n results on stdout, as a table or as one JSON object. Counters, sizes and bytes are
 * those of the last run; times are medians of all. verdict: of all runs; mismatch: what differs if
 * it is WORKLOAD_WRONG. bench_report_json(): 0, or -errno when stdout cannot be written.
 */
void bench_report_print(const struct bench *bench, const struct workload_result *results,
			uint64_t n, enum workload_verdict verdict, const char *mismatch);
int bench_report_json(const struct bench *bench, const struct workload_result *results,
		      uint64_t n, enum workload_verdict verdict,
		      const char *mismatch) SL_MUST_CHECK;

#endif
