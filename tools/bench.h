/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of `bench`: one benchmark as the command line describes it, and the
 * functions that read and report it.
 *
 * bench_options.c fills struct bench and refuses contradictions. cmd_bench.c runs it, with each
 * requested kind of memory, as often as asked. bench_report.c prints the results. After the
 * reading only the progress line and the link's rates in it change.
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
	int json, list;

	/* Kinds of memory to run with, in this order; the first one's results are told in full. */
	enum workload_memory memory[WORKLOAD_MEMORY_COUNT];
	unsigned n_memories;
	struct workload_link link; /* with a GPU, measured before the runs; else zeros */

	/* Settings of the space in the order given; text is "key=value". */
	struct pair {
		const char *from; /* the option, for messages */
		char text[1200];
	} pair[PAIRS_MAX];
	unsigned n_pairs;

	/* Options of workloads, applied once the workload is known. */
	struct extra {
		const char *name;
		const char *value;
	} extra[OPTIONS_MAX];
	unsigned n_extras;

	const char *tile_text; /* NULL: not given */
	struct progress progress;
};

/* As --presence, --memory and the reports have them. */
extern const char *const bench_presence_names[WORKLOAD_PRESENCE_COUNT];
extern const char *const bench_memory_names[WORKLOAD_MEMORY_COUNT];

/* Whether the kernels run on a GPU. */
static inline int
bench_is_cuda(const struct bench *bench)
{
	return bench->params.config.device == SLUICE_DEVICE_CUDA;
}

/*
 * Read the command line into bench, which is all zeros but for the defaults of cmd_bench(). Also
 * does what --help and --list ask for. 0: go on and run; -1: done; else the exit code.
 */
int bench_arguments_read(struct bench *bench, int argc, char **argv);

/*
 * Print the results on stdout, as tables or as one JSON object: repeat of the first kind of memory,
 * then of the second, and so on. Counters, sizes and bytes are those of a kind's last run; times
 * are medians. verdict: of all runs; mismatch: what differs if it is WORKLOAD_WRONG.
 * bench_report_json(): 0, or -errno when stdout cannot be written.
 */
void bench_report_print(const struct bench *bench, const struct workload_result *results,
			enum workload_verdict verdict, const char *mismatch);
int bench_report_json(const struct bench *bench, const struct workload_result *results,
		      enum workload_verdict verdict, const char *mismatch) SL_MUST_CHECK;

#endif
