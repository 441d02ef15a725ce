/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bench APP`, of sluice and of sluice-papers: runs a workload over real files. It prints times,
 * exact counters, and the bytes moved beside those of theory.
 *
 * workloads/ has the work and its checks. This file runs it as often as asked, with each
 * requested kind of memory, and ends it in order on a signal. bench_options.c reads the command
 * line and refuses contradictions before anything is written. bench_report.c prints.
 *
 * Exit codes: 0 done, 1 a run failed, 2 wrong command line, 3 a run gave wrong results. Ctrl-C
 * ends the run at the next tile, removes its files, and then the process.
 *
 * Threads: one; kernels run on the space's.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "commands.h"
#include "progress.h"
#include "workload.h"

#define EXIT_WRONG 3

static volatile sig_atomic_t bench_signal; /* the one that asked the run to end; 0: none */

static void
signal_note(int number)
{
	bench_signal = number;
}

static void
progress_note(void *arg, const char *phase, double fraction)
{
	struct bench *bench = arg;

	progress_update(&bench->progress, phase, fraction);
}

/* What the link does, for the bound of the runs that follow. */
static int
link_measure(struct bench *bench)
{
	char error[WORKLOAD_TEXT_BYTES];

	if (!bench_is_cuda(bench) ||
	    !workload_link_measure(bench->params.config.device_number, &bench->link, error))
		return 0;
	return command_fail("bench", "%s", error);
}

static int
runs_make(struct bench *bench, struct workload_result *results)
{
	struct workload_params params = bench->params;
	const char *mismatch = "";
	enum workload_verdict verdict = WORKLOAD_NOT_VERIFIED;
	uint64_t i, n = bench->repeat * bench->n_memories;
	int rc = 0;

	params.cancelled = &bench_signal;
	params.on_progress = progress_note;
	params.arg = bench;
	progress_begin(&bench->progress, bench->workload->name);
	for (i = 0; !rc && i < n; i++) {
		/* Inputs are made once: only the last run takes the files away. */
		params.keep = bench->params.keep || i + 1 < n;
		params.memory = bench->memory[i / bench->repeat];
		rc = workload_run(bench->workload, &params, &results[i]);
		if (rc)
			break;
		if (results[i].verdict == WORKLOAD_WRONG && verdict != WORKLOAD_WRONG)
			mismatch = results[i].mismatch;
		if (verdict != WORKLOAD_WRONG)
			verdict = results[i].verdict;
	}
	progress_end(&bench->progress);
	if (rc) {
		if (rc != -EBUSY && !bench->params.keep)
			(void)!workload_remove_files(bench->workload, bench->params.dir);
		return rc == -EINVAL ? command_usage("bench", "%s", results[i].error)
				     : command_fail("bench", "%s", results[i].error);
	}
	if (!bench->json) {
		bench_report_print(bench, results, verdict, mismatch);
		rc = fflush(stdout) ? -EIO : 0;
	} else {
		rc = bench_report_json(bench, results, verdict, mismatch);
	}
	if (rc)
		return command_fail("bench",
				    "the report cannot be written to standard output");
	if (verdict == WORKLOAD_WRONG) {
		fprintf(stderr, "%s bench: wrong results: %s\n", command_program_name(),
			mismatch);
		return EXIT_WRONG;
	}
	return SL_EXIT_OK;
}

static int
bench_run(struct bench *bench)
{
	struct workload_result *results = calloc(bench->repeat * bench->n_memories,
						 sizeof(*results));
	int rc;

	if (!results)
		return command_fail("bench", "out of memory");
	command_signals_catch(signal_note);
	rc = link_measure(bench);
	if (!rc)
		rc = runs_make(bench, results);
	free(results);
	if (bench_signal) {
		/* Files are gone; end as the signal would have ended us. */
		signal(bench_signal, SIG_DFL);
		raise(bench_signal);
	}
	return rc;
}

int
cmd_bench(int argc, char **argv)
{
	struct bench *bench;
	int code;

	bench = calloc(1, sizeof(*bench));
	if (!bench)
		return command_fail("bench", "out of memory");
	bench->repeat = 1;
	bench->params.seed = UINT64_MAX; /* not given */
	code = bench_arguments_read(bench, argc, argv);
	if (!code)
		code = bench_run(bench);
	free(bench);
	return code < 0 ? SL_EXIT_OK : code;
}
