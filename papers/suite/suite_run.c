/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running rows: a child process for every run, so that nothing of one run is left in the next
 * and a memory limit can be set. Rows that are compared within a percent are run in turn, one
 * repetition of each after the other: a machine's own speed changes by more than that from one minute to
 * the next. The same for every variant: inputs made before and their pages
 * dropped from the page cache, a control group of as much memory as the device, host and staging
 * budgets together and a little for the program itself, the same files, tiles and kernels. What the
 * run left in the files is compared with the reference by a second child, outside the limit; where an
 * earlier row of the same inputs was, and left the same bytes, with those.
 *
 * On a GPU no limit is set (pinned memory and the driver's own are not told apart), and the row's
 * time is that of the first pass: files read, kernels run; not the third of a second and more that a
 * process needs for its context, whatever the variant. measured_s is the time of the pass with all data in
 * host memory.
 *
 * Threads: one; the children have those of their runs.
 */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cgroup.h"
#include "commands.h"
#include "sluice/sluice.h"

/* Of the limit: the program, its threads' stacks, tables of the pager. */
#define PROGRAM_BYTES (128ull << 20)
#define REPEAT_MOST   99u

#define QUICK_VERIFY_BYTES (192ull << 20)
#define STEPS_VERIFY_BYTES (1ull << 40)

/* Training takes so much longer than reading, which takes twice as long at another time; found with so many
 * steps, and not more data. */
#define STEPS_OVER        2.5
#define STEPS_PROBE       256u
#define STEPS_LEAST       64u
#define STEPS_MOST        100000u
#define STEPS_PROBE_BYTES (4ull << 30)

/* Of a quick run: rows are repeated until they took so long, but not more often. Rows in turn are in
 * every run; no row is where the command line says how often. */
#define SHORT_S        0.4
#define SHORT_REPEAT   5u
#define IN_TURN_S      3.0
#define IN_TURN_REPEAT 9u

/* What a child sends. No pointers. */
struct outcome {
	int rc;
	uint64_t read_bytes, write_bytes; /* by the system's count */
	uint64_t hash;                    /* of the outputs */
	struct workload_result result;
};

struct run {
	struct suite *suite;
	struct suite_row *row;
	const struct workload *workload;
	struct workload_params params;
	struct cgroup_limit limit;
	int limited;
	double run_s[REPEAT_MOST], total_s[REPEAT_MOST], measured_s[REPEAT_MOST];
	struct outcome outcome; /* of the last repetition */
};

enum child_work { CHILD_RUN, CHILD_VERIFY };

static volatile sig_atomic_t child_signal;

static void
child_signal_note(int number)
{
	child_signal = number;
}

/* ---- parameters ---- */

static const char *
row_dir(const struct suite *suite, const struct suite_row *row)
{
	struct statvfs fs;

	if (!row->in_memory || !suite->memory_dir)
		return suite->dir;
	/* Inputs, outputs and spill, and as much again to be left. */
	if (statvfs(suite->memory_dir, &fs) ||
	    (uint64_t)fs.f_bavail * fs.f_frsize < 4 * row->footprint_bytes)
		return suite->dir;
	return suite->memory_dir;
}

struct option_value {
	const char *option;
	uint64_t value;
};

/*
 * Kernels that compute so much that nothing else shows on CPU threads do less there: these have a
 * number for it. So do those of a quick run on a GPU, whose reference is a CPU's.
 */
static const struct option_value soft_options[] = {{"tree-steps", 8}, {"partners", 1}};

/* A row of the paper's grid is 128 KiB and more, and a launch next to nothing beside it; rows of ours are
 * of a few KiB, so that what is launched is as many as on a GPU. */
static const struct option_value small_options[] = {{"rows-per-launch", 16}, {"wait", 1}};

static void
options_set(struct workload_params *params, const struct workload *workload,
	    const struct option_value *values, unsigned n)
{
	for (unsigned i = 0; i < workload->n_options; i++)
		for (unsigned k = 0; k < n; k++)
			if (strcmp(workload->options[i].name, values[k].option) == 0)
				params->option[i] = values[k].value;
}

int
suite_option_set(struct workload_params *params, const struct workload *workload,
		 const char *name, const char *choice)
{
	for (unsigned i = 0; i < workload->n_options; i++) {
		const struct workload_option *option = &workload->options[i];

		if (strcmp(option->name, name) != 0 || !option->choices)
			continue;
		for (unsigned c = 0; option->choices[c]; c++) {
			if (strcmp(option->choices[c], choice) == 0) {
				params->option[i] = c;
				return 0;
			}
		}
	}
	return sl_fail(-EINVAL, "suite: %s has no --%s %s", workload->name, name, choice);
}

/* Policy, presence and memory of a variant. */
static int
variant_set(struct run *run)
{
	struct workload_params *params = &run->params;
	struct sluice_config *config = &params->config;

	params->presence = WORKLOAD_PRESENCE_LAUNCH;
	params->memory = WORKLOAD_MEMORY_SLUICE;
	config->policy = SLUICE_POLICY_LRU;
	switch (run->row->variant) {
	case SUITE_SLUICE_NO_AHEAD:
		config->readahead_chunks = 0;
		return 0;
	case SUITE_DRAGON_NO_AHEAD:
		config->readahead_chunks = 0;
		config->policy = SLUICE_POLICY_DRAGON;
		params->presence = WORKLOAD_PRESENCE_FAULT;
		return 0;
	case SUITE_DRAGON:
		config->policy = SLUICE_POLICY_DRAGON;
		params->presence = WORKLOAD_PRESENCE_FAULT;
		return 0;
	case SUITE_UVM:
		config->policy = SLUICE_POLICY_UVM;
		params->presence = WORKLOAD_PRESENCE_FAULT;
		return 0;
	case SUITE_COPIES:
		params->memory = WORKLOAD_MEMORY_COPIES; /* the software device: suite_copies.c */
		return 0;
	case SUITE_CACHED: /* what does not fit the device goes through it piece by piece */
		params->memory = run->row->footprint_bytes <= run->row->device_bytes
					 ? WORKLOAD_MEMORY_COPIES
					 : WORKLOAD_MEMORY_STREAMING;
		params->cached = 1;
		return 0;
	case SUITE_STREAMING:
		params->memory = WORKLOAD_MEMORY_STREAMING;
		return 0;
	case SUITE_MAPPED:
		params->memory = WORKLOAD_MEMORY_MAPPED;
		return 0;
	case SUITE_MMAP:
		params->memory = WORKLOAD_MEMORY_MMAP;
		return 0;
	case SUITE_NONE:
		config->policy = SLUICE_POLICY_UVM;
		return suite_option_set(params, run->workload, "discard", "none");
	case SUITE_EAGER:
		config->policy = SLUICE_POLICY_UVM;
		return suite_option_set(params, run->workload, "discard", "eager");
	case SUITE_LAZY:
		config->policy = SLUICE_POLICY_UVM;
		return suite_option_set(params, run->workload, "discard", "lazy");
	case SUITE_INTENTS:
		return suite_option_set(params, run->workload, "discard", "none");
	case SUITE_INTENTS_LAZY:
		return suite_option_set(params, run->workload, "discard", "lazy");
	case SUITE_FETCH_INDEX:
		return suite_option_set(params, run->workload, "fetch", "index");
	case SUITE_FETCH_LAUNCH:
		return suite_option_set(params, run->workload, "fetch", "launch");
	case SUITE_FETCH_HAND:
		if (!run->row->cuda)
			return suite_option_set(params, run->workload, "fetch", "hand");
		params->memory = WORKLOAD_MEMORY_STREAMING;
		return suite_option_set(params, run->workload, "fetch", "launch");
	case SUITE_SLUICE:
	case SUITE_VARIANT_COUNT:
		return 0;
	}
	return 0;
}

static int
run_prepare(struct run *run, struct suite *suite, struct suite_row *row)
{
	struct workload_params *params = &run->params;
	struct sluice_config *config = &params->config;
	const char *model;
	int rc;

	run->suite = suite;
	run->row = row;
	run->workload = suite_rows_workload(row->workload, &model);
	if (!run->workload)
		return sl_fail(-ENOENT, "suite: no workload %s", row->workload);
	rc = workload_params_init(run->workload, params);
	if (!rc && model)
		rc = suite_option_set(params, run->workload, "model", model);
	if (rc)
		return rc;
	params->footprint_bytes = row->footprint_bytes;
	params->dir = row_dir(suite, row);
	params->keep = 1;
	config->device = row->cuda ? SLUICE_DEVICE_CUDA : SLUICE_DEVICE_SOFT;
	config->device_budget_bytes = row->device_bytes;
	config->host_budget_bytes = row->host_bytes;
	config->host_reserve_bytes = row->reserve_bytes;
	config->chunk_bytes = row->chunk_bytes;
	if (row->part == SUITE_TABLES) { /* there is no disk in what is measured */
		config->writeback_bytes = config->host_budget_bytes;
		config->large_chunk_bytes = config->chunk_bytes; /* bytes follow from it */
		config->host_pin = SLUICE_HOST_PIN_EARLY; /* what is paged is no business of pinning */
	}
	for (unsigned i = 0; row->cuda && i < run->workload->n_options; i++)
		if (run->workload->options[i].cuda_initial)
			params->option[i] = run->workload->options[i].cuda_initial;
	if (!row->cuda || suite->quick)
		options_set(params, run->workload, soft_options, 2);
	if (!row->cuda)
		options_set(params, run->workload, small_options, 2);
	if (row->part == SUITE_BATCHES)
		options_set(params, run->workload,
			    &(struct option_value){"steps", row->steps}, 1);
	return variant_set(run);
}

/* ---- the child ---- */

static void
outcome_run(struct run *run, struct outcome *outcome)
{
	const struct suite_row *row = run->row;
	struct rusage usage;
	char rate[32];

	if (row->link_bytes_per_s) {
		snprintf(rate, sizeof(rate), "0:%llu",
			 (unsigned long long)row->link_bytes_per_s);
		setenv("SLUICE_SOFT_LINK", rate, 1);
	}
	if (run->limited && cgroup_limit_enter(&run->limit)) {
		outcome->rc = -EACCES;
		snprintf(outcome->result.error, sizeof(outcome->result.error), "%s",
			 sluice_last_error());
		return;
	}
	if (row->variant == SUITE_COPIES && !row->cuda)
		outcome->rc = suite_copies_run(run->workload, &run->params,
					       row->link_bytes_per_s, &outcome->result);
	else
		outcome->rc = workload_run(run->workload, &run->params, &outcome->result);
	if (!getrusage(RUSAGE_SELF, &usage)) {
		outcome->read_bytes = (uint64_t)usage.ru_inblock * 512;
		outcome->write_bytes = (uint64_t)usage.ru_oublock * 512;
	}
}

/* Of outputs that the reference has been compared with; 0: there are none yet. */
static uint64_t
hash_known(const struct run *run)
{
	const struct suite_outputs *known = &run->suite->verified;

	return known->cuda == run->row->cuda &&
			       known->footprint_bytes == run->row->footprint_bytes &&
			       strcmp(known->workload, run->row->workload) == 0
		       ? known->hash
		       : 0;
}

static void
child_main(struct run *run, enum child_work work, struct outcome *outcome, pid_t parent,
	   int to)
{
	const char *at = (const char *)outcome;
	size_t left = sizeof(*outcome);

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	command_signals_catch(child_signal_note);
	run->params.cancelled = &child_signal;
	if (work == CHILD_RUN)
		outcome_run(run, outcome);
	else
		outcome->rc = suite_verify(run->workload, &run->params,
					   &outcome->result.config, hash_known(run),
					   &outcome->hash, &outcome->result);
	while (left) {
		ssize_t sent = write(to, at, left);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			_exit(1);
		at += sent;
		left -= (size_t)sent;
	}
	_exit(0);
}

/* ---- the parent ---- */

/* Why a child sent nothing. */
static void
outcome_lost(const struct run *run, struct outcome *outcome, int status)
{
	char *error = outcome->result.error;

	outcome->rc = -ECHILD;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && run->limited) {
		outcome->rc = -ENOMEM;
		snprintf(error, WORKLOAD_TEXT_BYTES,
			 "killed: no memory to free within the limit");
	} else if (WIFSIGNALED(status)) {
		snprintf(error, WORKLOAD_TEXT_BYTES, "killed by signal %d", WTERMSIG(status));
	} else {
		snprintf(error, WORKLOAD_TEXT_BYTES, "ended without a result");
	}
}

/* outcome: what the child is given, and what it sends back. -EAGAIN and the like: no child. */
static int
child_run(struct run *run, enum child_work work, struct outcome *outcome)
{
	pid_t parent = getpid(), child;
	int pipe_fds[2], status = 0;
	size_t got = 0;

	if (pipe2(pipe_fds, O_CLOEXEC))
		return sl_fail(-errno, "suite: pipe: %s", strerror(errno));
	fflush(NULL);
	child = fork();
	if (child == 0) {
		close(pipe_fds[0]);
		child_main(run, work, outcome, parent, pipe_fds[1]);
	}
	close(pipe_fds[1]);
	if (child < 0) {
		close(pipe_fds[0]);
		return sl_fail(-errno, "suite: fork: %s", strerror(errno));
	}
	while (got < sizeof(*outcome)) {
		ssize_t n = read(pipe_fds[0], (char *)outcome + got, sizeof(*outcome) - got);

		if (n < 0 && errno == EINTR) {
			if (run->suite->cancelled && *run->suite->cancelled)
				kill(child, SIGTERM);
			continue;
		}
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	close(pipe_fds[0]);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (got < sizeof(*outcome)) {
		memset(outcome, 0, sizeof(*outcome));
		outcome_lost(run, outcome, status);
	}
	if (run->suite->cancelled && *run->suite->cancelled)
		return sl_fail(-ECANCELED, "suite: ended by a signal");
	return 0;
}

/* The same for every variant: the budgets, and the program itself. */
static uint64_t
limit_bytes(const struct run *run)
{
	const struct sluice_config *config = &run->params.config;
	uint64_t bytes = config->device_budget_bytes + config->host_budget_bytes +
			 config->staging_bytes + PROGRAM_BYTES;

	/* Files in memory are charged to whoever writes them. */
	return run->row->in_memory ? bytes + 2 * run->row->footprint_bytes : bytes;
}

static void
limit_make(struct run *run, unsigned number)
{
	struct suite_row *row = run->row;
	char name[64];

	row->limit_bytes = 0;
	if (row->cuda)
		return;
	snprintf(name, sizeof(name), "sluice-suite-%d-%u", (int)getpid(), number);
	run->limited = !cgroup_limit_create(name, limit_bytes(run), &run->limit);
	if (run->limited)
		row->limit_bytes = limit_bytes(run);
}

static int
double_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(double *values, unsigned n)
{
	if (!n)
		return 0;
	qsort(values, n, sizeof(*values), double_compare);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Nothing goes over a link faster than the link: where a run did, the library models none. */
static int
link_is_there(const struct suite_row *row)
{
	uint64_t bytes = row->h2d_bytes > row->d2h_bytes ? row->h2d_bytes : row->d2h_bytes;

	return (double)bytes / (double)row->link_bytes_per_s <= row->total_s;
}

static void
row_fill(struct suite_row *row, const struct outcome *outcome)
{
	const struct workload_result *result = &outcome->result;
	const struct workload_expectation *expected = &result->expected;

	row->footprint_bytes = result->plan.footprint_bytes;
	row->launches = result->launches;
	row->tile_bytes = result->tile_bytes;
	row->input_bytes = result->input_bytes;
	row->output_bytes = result->output_bytes;
	row->batches = result->batches;
	row->batches_resident = result->batches_resident;
	row->h2d_bytes = result->h2d_bytes;
	/* The tables of UVM Discard end with results where they are. */
	row->d2h_bytes = result->d2h_bytes +
			 (row->part == SUITE_TABLES ? 0 : result->collect_bytes);
	row->before = result->before_sync;
	row->after = result->after;
	row->read_bytes = sluice_stats_store_read_bytes(&result->after);
	row->write_bytes = sluice_stats_store_write_bytes(&result->after);
	if (row->variant == SUITE_MMAP) { /* no space has counted */
		row->read_bytes = outcome->read_bytes;
		row->write_bytes = outcome->write_bytes;
	}
	row->expected = expected->known;
	row->expected_h2d_bytes = expected->h2d_bytes;
	row->expected_d2h_bytes = expected->d2h_bytes;
	row->tolerance_bytes = expected->tolerance_bytes;
}

static void
row_refuse(struct suite_row *row, const struct outcome *outcome)
{
	int rc = outcome->rc;

	row->status = rc == -ENOMEM || rc == -EINVAL || rc == -ENOTSUP ||
				      rc == -ENOBUFS || rc == -ENOSPC
			      ? SUITE_REFUSED
			      : SUITE_FAILED;
	snprintf(row->error, sizeof(row->error), "%.*s", (int)sizeof(row->error) - 1,
		 outcome->result.error);
}

/* How often rows are run that take as long as the first one did. On a GPU each run opens it anew, which
 * takes longer than a short row. */
static unsigned
turns_of(const struct run *run, double first_s)
{
	const struct suite_row *row = run->row;
	unsigned least = row->repeat < REPEAT_MOST ? (unsigned)row->repeat : REPEAT_MOST;
	int is_percent = row->in_turn && row->part != SUITE_FIG3;
	unsigned most = is_percent ? IN_TURN_REPEAT : SHORT_REPEAT;
	double n = (is_percent ? IN_TURN_S : SHORT_S) / first_s;

	if (row->cuda || run->suite->repeat_given || !(n > least) ||
	    (!run->suite->quick && !is_percent))
		return least;
	return n < most ? (unsigned)ceil(n) : most > least ? most : least;
}

static double
suite_seconds(const struct suite *suite)
{
	return (double)(sl_now_ns() - suite->began_ns) / 1e9;
}

/* The next repetition, the n-th. The row's status says whether there is another one. */
static int
run_measure(struct run *run, unsigned n)
{
	struct outcome *outcome = &run->outcome;
	const struct workload_result *result = &outcome->result;
	uint64_t run_ns, open_ns;
	int rc;

	if (n == 0)
		run->row->began_s = suite_seconds(run->suite);
	memset(outcome, 0, sizeof(*outcome));
	rc = child_run(run, CHILD_RUN, outcome);
	if (rc)
		return rc;
	run->row->ended_s = suite_seconds(run->suite);
	if (outcome->rc) {
		row_refuse(run->row, outcome);
		return 0;
	}
	run_ns = run->row->cuda ? result->round_ns[WORKLOAD_ROUND_WARM] : result->run_ns;
	run->run_s[n] = (double)run_ns / 1e9;
	open_ns = run->row->cuda ? result->open_ns : 0;
	run->total_s[n] = (double)(result->map_ns - open_ns + run_ns + result->unmap_ns) / 1e9;
	run->measured_s[n] = (double)result->round_ns[WORKLOAD_ROUND_MEASURED] / 1e9;
	return 0;
}

/* After n repetitions. */
static void
row_conclude(struct run *run, unsigned n)
{
	struct suite_row *row = run->row;

	row->run_s = median(run->run_s, n);
	row->total_s = median(run->total_s, n);
	row->measured_s = median(run->measured_s, n); /* which sorts */
	row->least_run_s = run->run_s[0];
	row->least_total_s = run->total_s[0];
	row->least_measured_s = run->measured_s[0];
	row->status = SUITE_DONE;
	row_fill(row, &run->outcome);
	if (row->link_bytes_per_s && !link_is_there(row))
		row->link_bytes_per_s = 0;
}

/* A quick run on a GPU compares what a CPU computes in a moment; training with batches that a GPU
 * goes through in an hour is no CPU's. */
static int
row_is_to_verify(const struct suite *suite, const struct suite_row *row)
{
	if (row->status != SUITE_DONE || !suite->verify)
		return 0;
	if (row->cuda && suite->quick && row->footprint_bytes > QUICK_VERIFY_BYTES)
		return 0;
	return !row->cuda || row->steps * row->footprint_bytes <= STEPS_VERIFY_BYTES;
}

/* Compare what the row left in its files: before another one writes to them. */
static int
row_verify(struct run *run)
{
	struct suite_outputs *known = &run->suite->verified;
	struct outcome *outcome = &run->outcome;
	struct suite_row *row = run->row;
	int rc;

	if (!row_is_to_verify(run->suite, row))
		return 0;
	rc = child_run(run, CHILD_VERIFY, outcome);
	if (rc)
		return rc;
	if (outcome->rc == -ENOMEM) /* the reference has no room: not verified, and told so */
		return 0;
	row->verdict = outcome->result.verdict;
	if (!outcome->rc && row->verdict == WORKLOAD_VERIFIED) {
		*known = (struct suite_outputs){.footprint_bytes = row->footprint_bytes,
						.hash = outcome->hash,
						.cuda = row->cuda};
		memcpy(known->workload, row->workload, sizeof(known->workload));
	}
	if (outcome->rc || row->verdict == WORKLOAD_WRONG) {
		row->status = SUITE_FAILED;
		snprintf(row->error, sizeof(row->error), "%.250s",
			 outcome->rc ? outcome->result.error : outcome->result.mismatch);
	}
	return 0;
}

/* A repetition of each run after the other, as often as the first of them says. */
static int
runs_in_turn(struct run *runs, unsigned n)
{
	unsigned turns = 1;
	int rc = 0;

	for (unsigned turn = 0; turn < turns; turn++) {
		for (unsigned i = 0; i < n; i++) {
			struct run *run = &runs[i];

			if (run->row->status != SUITE_PLANNED)
				continue; /* it does not fit, or failed */
			rc = run_measure(run, turn);
			if (rc)
				return rc;
			if (run->row->status != SUITE_PLANNED)
				continue;
			if (turn == 0 && turns == 1)
				turns = turns_of(run, run->total_s[0]);
			if (turn + 1 < turns)
				continue;
			row_conclude(run, turns);
			rc = row_verify(run);
			if (rc)
				return rc;
		}
	}
	return 0;
}

int
suite_rows_run(struct suite *suite, struct suite_row *rows, unsigned n)
{
	struct run *runs = calloc(n, sizeof(*runs));
	int rc = 0;

	if (!runs)
		return sl_fail(-ENOMEM, "suite: out of memory");
	for (unsigned i = 0; !rc && i < n; i++) {
		rc = run_prepare(&runs[i], suite, &rows[i]);
		if (!rc)
			limit_make(&runs[i], i);
	}
	if (!rc)
		rc = runs_in_turn(runs, n);
	/* What did not get to its end is to be run anew. */
	for (unsigned i = 0; i < n; i++)
		if (runs[i].limited)
			sl_ignore(cgroup_limit_destroy(&runs[i].limit));
	free(runs);
	return rc;
}

/* What rows of this workload that were run have; 0: none was. */
static uint64_t
link_known(const struct suite *suite, const struct suite_row *like)
{
	for (unsigned i = 0; i < suite->n_rows; i++) {
		const struct suite_row *row = &suite->rows[i];

		if (row->cuda == like->cuda && row->part == like->part &&
		    row->status == SUITE_DONE && strcmp(row->workload, like->workload) == 0)
			return row->link_bytes_per_s;
	}
	return 0;
}

static double
inputs_per_run(const char *name)
{
	for (unsigned i = 0; i < suite_n_tables; i++) {
		char rows[SUITE_WORD_BYTES];

		if (suite_table_rows(&suite_tables[i], rows) && strcmp(rows, name) == 0)
			return suite_tables[i].inputs_per_run;
	}
	return 1;
}

int
suite_row_link(struct suite *suite, struct suite_row *row)
{
	struct suite_row probe = *row;
	int rc;

	if (!suite->linked || strcmp(suite->linked, row->workload) != 0) {
		suite->linked = row->workload;
		suite->linked_bytes_per_s = link_known(suite, row);
	}
	if (!suite->linked_bytes_per_s) {
		/* Kernels alone: everything fits, nothing is discarded, nothing is delayed. */
		probe.variant = SUITE_NONE;
		probe.link_bytes_per_s = 0;
		probe.repeat = 1;
		probe.in_turn = 0;
		probe.device_bytes = (probe.footprint_bytes + probe.footprint_bytes / 4) /
				     probe.chunk_bytes * probe.chunk_bytes;
		rc = suite_rows_run(suite, &probe, 1);
		if (rc)
			return rc;
		if (probe.status == SUITE_DONE && probe.run_s > 0)
			suite->linked_bytes_per_s = (uint64_t)((double)probe.input_bytes *
							       inputs_per_run(row->workload) /
							       probe.run_s);
	}
	row->link_bytes_per_s = suite->linked_bytes_per_s;
	return 0;
}

/* Run with so many steps, for its times alone. */
static int
steps_probe(struct suite *suite, struct suite_row *probe, enum suite_variant variant,
	    uint64_t steps)
{
	int verify = suite->verify, rc;

	probe->variant = variant;
	probe->steps = steps;
	probe->repeat = 1;
	probe->in_turn = 0;
	if (probe->footprint_bytes > STEPS_PROBE_BYTES)
		probe->footprint_bytes = STEPS_PROBE_BYTES;
	suite->verify = 0;
	rc = suite_rows_run(suite, probe, 1);
	suite->verify = verify;
	return rc;
}

int
suite_row_steps(struct suite *suite, struct suite_row *row)
{
	struct suite_row reading = *row, training = *row;
	double steps;
	int rc = 0;

	if (!suite->steps) {
		suite->steps = STEPS_LEAST;
		/* One step: files are read as fast as they can be. Pieces by hand: no file is. */
		rc = steps_probe(suite, &reading, SUITE_FETCH_INDEX, 1);
		if (!rc)
			rc = steps_probe(suite, &training, SUITE_FETCH_HAND, STEPS_PROBE);
		if (rc)
			return rc;
		if (reading.measured_s > 0 && training.measured_s > 0) {
			steps = ceil(STEPS_OVER * STEPS_PROBE * reading.measured_s /
				     training.measured_s);
			if (steps > STEPS_LEAST)
				suite->steps = steps < STEPS_MOST ? (uint64_t)steps
								  : STEPS_MOST;
		}
	}
	row->steps = suite->steps;
	return 0;
}

void
suite_row_clean(const struct suite *suite, const struct suite_row *row)
{
	const char *model;
	const struct workload *workload = suite_rows_workload(row->workload, &model);

	if (workload)
		(void)!workload_remove_files(workload, row_dir(suite, row));
}
