/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice-papers suite`: the evaluations of the papers DRAGON and UVM Discard at a chosen scale, on
 * the software device or a GPU: rows are listed, run one after the other, and kept in a file as they
 * come. papers/suite.py makes the page of that file.
 *
 * Reads the command line, keeps the files, and ends in order on a signal: what was measured is kept,
 * inputs are removed. What is in the rows: suite.h and the files named there.
 *
 * Exit codes: 0 done, 1 a row failed or the suite could not go on, 2 wrong command line.
 *
 * Threads: one; rows are run by child processes.
 */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/size.h"
#include "commands.h"
#include "papers.h"
#include "sluice/sluice.h"

#define SCALE_BYTES            (256ull << 20)
#define SCALE_QUICK_BYTES      (24ull << 20)
#define SCALE_CUDA_FACTOR      16u /* a GPU's device budget over the software device's */
#define SCALE_CUDA_QUICK_BYTES (128ull << 20)
#define REPEAT_DEFAULT         3u
#define BUSY_LOAD              1.0 /* from which on a page says that times have it in them */
#define REPEAT_MOST            99u
#define MEMORY_DIR             "/dev/shm"

static const char suite_help[] =
	"Usage: sluice-papers suite [--quick] [--device NAME] [--only PART]... "
	"[OPTIONS]\n"
	"\n"
	"Run the evaluations of the papers DRAGON (figures 3, 5, 6), UVM Discard (tables "
	"3 to 8)\n"
	"and DRAGON-DIRECT (mini-batches) at a chosen scale. papers/suite.py has this "
	"run, and\n"
	"makes tables beside the published values.\n"
	"\n"
	"What:\n"
	"      --device NAME    soft: CPU threads; cuda: a GPU (soft)\n"
	"      --list           print the rows, run nothing\n"
	"      --no-verify      do not compare results with the reference\n"
	"      --only PART      fits, fig3, fig5, fig6, tables or batches (repeatable; "
	"all)\n"
	"      --point POINT    only this point, as 4/3 or \"200 %\"; see --list "
	"(repeatable; all)\n"
	"      --quick          a scale for five minutes on two cores, each row once, "
	"and "
	"not all;\n"
	"                       on a GPU about as long\n"
	"      --repeat N       run each row N times, times are medians (3; quick: 1)\n"
	"      --resume         leave out rows that DIR has with the same sizes\n"
	"      --workload APP   only this workload\n"
	"\n"
	"Sizes (bytes, or with K, M, G, T):\n"
	"      --link RATE      bytes a second of the modelled link, each way, in the "
	"tables of\n"
	"                       UVM Discard; 0: none (as fast beside our kernels as the "
	"paper's\n"
	"                       beside its; not on a GPU)\n"
	"      --scale SIZE     device memory of DRAGON's figures (256M; quick: 24M; on "
	"a GPU 4G;\n"
	"                       quick: 128M); files need 22 times as much\n"
	"\n"
	"Where:\n"
	"      --dir DIR        existing directory for the files ($TMPDIR or /var/tmp)\n"
	"      --memory-dir DIR file system in memory, for rows without a disk "
	"(/dev/shm)\n"
	"\n"
	"Results:\n"
	"      --out DIR        write rows-DEVICE.json there; rows of other parts that "
	"it "
	"has are\n"
	"                       kept\n"
	"  -h, --help           print this and exit\n"
	"\n"
	"Exit codes: 0 done, 1 failed, 2 wrong command line.\n";

struct options {
	struct suite suite;
	const char *out, *workload;
	int list, resume, no_verify;
	uint64_t scale_bytes, repeat;
	int link_given;
};

enum {
	OPTION_DEVICE = 256,
	OPTION_DIR,
	OPTION_LINK,
	OPTION_LIST,
	OPTION_MEMORY_DIR,
	OPTION_NO_VERIFY,
	OPTION_ONLY,
	OPTION_OUT,
	OPTION_POINT,
	OPTION_QUICK,
	OPTION_REPEAT,
	OPTION_RESUME,
	OPTION_SCALE,
	OPTION_WORKLOAD
};

static const struct option suite_options[] = {
	{"device", required_argument, NULL, OPTION_DEVICE},
	{"dir", required_argument, NULL, OPTION_DIR},
	{"help", no_argument, NULL, 'h'},
	{"link", required_argument, NULL, OPTION_LINK},
	{"list", no_argument, NULL, OPTION_LIST},
	{"memory-dir", required_argument, NULL, OPTION_MEMORY_DIR},
	{"no-verify", no_argument, NULL, OPTION_NO_VERIFY},
	{"only", required_argument, NULL, OPTION_ONLY},
	{"out", required_argument, NULL, OPTION_OUT},
	{"point", required_argument, NULL, OPTION_POINT},
	{"quick", no_argument, NULL, OPTION_QUICK},
	{"repeat", required_argument, NULL, OPTION_REPEAT},
	{"resume", no_argument, NULL, OPTION_RESUME},
	{"scale", required_argument, NULL, OPTION_SCALE},
	{"workload", required_argument, NULL, OPTION_WORKLOAD},
	{NULL, 0, NULL, 0},
};

static volatile sig_atomic_t suite_signal;

static void
signal_note(int number)
{
	suite_signal = number;
}

/* Without SA_RESTART: waiting for a child ends, and the child is told. */
static void
signals_catch(void)
{
	struct sigaction action = {.sa_handler = signal_note, .sa_flags = (int)SA_RESETHAND};

	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

/* ---- the command line ---- */

static int
only_read(struct options *options, const char *text)
{
	for (unsigned part = 0; part < SUITE_PART_COUNT; part++) {
		if (strcmp(suite_part_names[part], text) == 0) {
			options->suite.parts |= 1u << part;
			return 0;
		}
	}
	return command_usage("suite",
			     "--only %s: fits, fig3, fig5, fig6, tables or batches", text);
}

static int
size_read(const char *option, const char *text, uint64_t *out)
{
	if (sl_size_parse(text, out))
		return command_usage("suite", "%s %s: not a size such as 64M", option, text);
	return 0;
}

static int
option_take(struct options *options, int c)
{
	struct suite *suite = &options->suite;

	switch (c) {
	case OPTION_DEVICE:
		suite->cuda = strcmp(optarg, "cuda") == 0;
		return suite->cuda || strcmp(optarg, "soft") == 0
			       ? 0
			       : command_usage("suite", "--device %s: soft or cuda", optarg);
	case OPTION_DIR:
		suite->dir = optarg;
		return 0;
	case OPTION_LINK:
		options->link_given = 1;
		return size_read("--link", optarg, &suite->link_bytes_per_s);
	case OPTION_LIST:
		options->list = 1;
		return 0;
	case OPTION_MEMORY_DIR:
		suite->memory_dir = optarg;
		return 0;
	case OPTION_NO_VERIFY:
		options->no_verify = 1;
		return 0;
	case OPTION_ONLY:
		return only_read(options, optarg);
	case OPTION_OUT:
		options->out = optarg;
		return 0;
	case OPTION_POINT:
		if (suite->n_points == SUITE_POINTS_MAX)
			return command_usage("suite", "more than %u times --point",
					     SUITE_POINTS_MAX);
		suite->points[suite->n_points++] = optarg;
		return 0;
	case OPTION_QUICK:
		suite->quick = 1;
		return 0;
	case OPTION_REPEAT:
		return command_number(optarg, 1, REPEAT_MOST, &options->repeat)
			       ? command_usage("suite", "--repeat: '%s' is not 1 to %u",
					       optarg, REPEAT_MOST)
			       : 0;
	case OPTION_RESUME:
		options->resume = 1;
		return 0;
	case OPTION_SCALE:
		return size_read("--scale", optarg, &options->scale_bytes);
	case OPTION_WORKLOAD:
		options->workload = optarg;
		return 0;
	}
	return command_usage("suite", "unknown option");
}

static int
options_check(struct options *options)
{
	struct suite *suite = &options->suite;

	if (options->resume && !options->out)
		return command_usage("suite", "--resume needs rows: --out");
	if (suite->cuda && options->link_given)
		return command_usage("suite", "--link: a GPU has a link of its own");
	if (options->workload) {
		suite->only_workload = workload_find(options->workload);
		if (!suite->only_workload)
			return command_usage("suite", "no workload '%s'; see sluice-papers bench --list",
					     options->workload);
	}
	return 0;
}

/* 0: go on; 1: done, *code is the exit code. */
static int
options_read(struct options *options, int argc, char **argv, int *code)
{
	int c;

	opterr = 0;
	optind = 1;
	*code = SL_EXIT_OK;
	while ((c = getopt_long(argc, argv, ":h", suite_options, NULL)) != -1) {
		if (c == 'h') {
			fputs(suite_help, stdout);
			return 1;
		}
		if (c == '?' || c == ':')
			*code = command_bad_option("suite", suite_options, c, argv);
		else
			*code = option_take(options, c);
		if (*code)
			return 1;
	}
	if (optind < argc)
		*code = command_usage("suite", "unexpected argument '%s'", argv[optind]);
	else
		*code = options_check(options);
	return *code != 0;
}

static void
defaults_set(struct options *options)
{
	struct suite *suite = &options->suite;
	const char *dir = getenv("TMPDIR");

	suite->verify = !options->no_verify;
	suite->scale_bytes = options->scale_bytes;
	if (!suite->scale_bytes && suite->quick)
		suite->scale_bytes = suite->cuda ? SCALE_CUDA_QUICK_BYTES : SCALE_QUICK_BYTES;
	if (!suite->scale_bytes)
		suite->scale_bytes = SCALE_BYTES * (suite->cuda ? SCALE_CUDA_FACTOR : 1);
	suite->repeat = options->repeat ? options->repeat
			: suite->quick  ? 1
					: REPEAT_DEFAULT;
	suite->repeat_given = options->repeat != 0;
	if (!options->link_given)
		suite->link_bytes_per_s = SUITE_LINK_AUTO;
	if (!suite->dir)
		suite->dir = dir && dir[0] ? dir : "/var/tmp";
	if (!suite->memory_dir)
		suite->memory_dir = MEMORY_DIR;
	if (!suite->parts)
		suite->parts = (1u << SUITE_PART_COUNT) - 1;
	suite->cancelled = &suite_signal;
}

/* ---- the machine ---- */

static void
processor_name(char *name, size_t bytes)
{
	FILE *in = fopen("/proc/cpuinfo", "re");
	char line[256];

	snprintf(name, bytes, "unknown processor");
	while (in && fgets(line, sizeof(line), in)) {
		char *text = strchr(line, ':');

		if (strncmp(line, "model name", 10) != 0 || !text)
			continue;
		text += strspn(text, ": \t");
		text[strcspn(text, "\n")] = 0;
		snprintf(name, bytes, "%s", text);
		break;
	}
	if (in)
		fclose(in);
}

/* By a child: a process that has opened a GPU cannot fork others that use it. */
static int
link_measure(struct workload_link *rates)
{
	char error[WORKLOAD_TEXT_BYTES];
	int pipe_fds[2], got;
	pid_t child;

	if (pipe2(pipe_fds, O_CLOEXEC))
		return -errno;
	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (workload_link_measure(0, rates, error) ||
		    write(pipe_fds[1], rates, sizeof(*rates)) != sizeof(*rates))
			_exit(1);
		_exit(0);
	}
	close(pipe_fds[1]);
	got = child > 0 && read(pipe_fds[0], rates, sizeof(*rates)) == sizeof(*rates);
	close(pipe_fds[0]);
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return got ? 0 : -ENOTSUP;
}

static void
machine_describe(struct suite *suite)
{
	char processor[96], link[80] = "", day[16], busy[48] = "";
	double load = 0;
	time_t now = time(NULL);
	struct workload_link rates = {0};
	struct utsname system;
	struct tm utc;

	processor_name(processor, sizeof(processor));
	if (uname(&system))
		snprintf(system.release, sizeof(system.release), "?");
	gmtime_r(&now, &utc);
	strftime(day, sizeof(day), "%Y-%m-%d", &utc);
	if (suite->cuda && !link_measure(&rates))
		snprintf(link, sizeof(link), ", link %.1f GB/s in, %.1f out",
			 rates.in_bytes_per_s / 1e9, rates.out_bytes_per_s / 1e9);
	if (getloadavg(&load, 1) == 1 && load >= BUSY_LOAD)
		snprintf(busy, sizeof(busy), ", busy with other work (load %.1f)", load);
	snprintf(suite->machine[suite->cuda], sizeof(suite->machine[0]),
		 "%ld processors (%s)%s, Linux %.40s, %s, sluice %s%s.",
		 sysconf(_SC_NPROCESSORS_ONLN), processor, link, system.release, day,
		 sluice_version(), busy);
}

/* ---- files ---- */

static void
rows_path(const struct options *options, int cuda, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/rows-%s.json", options->out, cuda ? "cuda" : "soft");
}

static int
rows_save(const struct options *options)
{
	char path[PATH_MAX];

	if (!options->out)
		return 0;
	rows_path(options, options->suite.cuda, path);
	return suite_rows_write(&options->suite, options->suite.cuda, path);
}

static int
same_sizes(const struct suite_row *a, const struct suite_row *b)
{
	return a->device_bytes == b->device_bytes && a->chunk_bytes == b->chunk_bytes &&
	       a->host_bytes == b->host_bytes && a->reserve_bytes == b->reserve_bytes &&
	       a->repeat == b->repeat && a->in_turn == b->in_turn &&
	       (a->steps == b->steps || a->steps == SUITE_STEPS_AUTO);
}

/* What DIR has of a planned row that need not be run again, or NULL. */
static const struct suite_row *
row_kept(const struct options *options, const struct suite *had, const struct suite_row *row)
{
	const struct suite_row *old = suite_row_find(had, row->cuda, row->part, row->workload,
						     row->variant, row->point);

	return options->resume && old && old->status != SUITE_FAILED && same_sizes(row, old)
		       ? old
		       : NULL;
}

/*
 * Rows that DIR has take the places of those planned, or stand beside them. Planned ones stay
 * planned unless --resume finds them done with the same sizes, those in turn all of them.
 */
static int
rows_merge(struct options *options, const struct suite *had)
{
	struct suite *suite = &options->suite;
	unsigned n_planned = suite->n_rows, n;
	int rc = 0;

	for (unsigned i = 0; i < n_planned; i += n) {
		unsigned kept = 0;

		n = suite_rows_in_turn(suite, i, n_planned);
		while (kept < n && row_kept(options, had, &suite->rows[i + kept]))
			kept++;
		for (unsigned k = i; kept == n && k < i + n; k++)
			suite->rows[k] = *row_kept(options, had, &suite->rows[k]);
	}
	for (unsigned i = 0; !rc && i < had->n_rows; i++) {
		const struct suite_row *old = &had->rows[i];

		if (!suite_row_find(suite, old->cuda, old->part, old->workload,
				    old->variant, old->point))
			rc = suite_row_add(suite, old);
	}
	return rc;
}

static int
rows_load(struct options *options)
{
	struct suite *suite = &options->suite;
	struct suite had = {0};
	char path[PATH_MAX];
	int rc = 0;

	if (!options->out)
		return 0;
	if (mkdir(options->out, 0777) && errno != EEXIST)
		return sl_fail(-errno, "%s: %s", options->out, strerror(errno));
	for (int cuda = 0; !rc && cuda < 2; cuda++) {
		rows_path(options, cuda, path);
		rc = suite_rows_read(&had, path);
		if (!suite->machine[cuda][0])
			snprintf(suite->machine[cuda], sizeof(suite->machine[cuda]), "%s",
				 had.machine[cuda]);
	}
	if (!rc)
		rc = rows_merge(options, &had);
	free(had.rows);
	return rc;
}

/* A directory of this process's own in DIR, so that two suites do not meet. *dir: DIR, then that. */
static int
own_dir_make(const char **dir, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/sluice-suite-%d", *dir, (int)getpid());
	if (mkdir(path, 0700))
		return sl_fail(-errno, "%s: %s", path, strerror(errno));
	*dir = path;
	return 0;
}

/* ---- running ---- */

static void
list_print(const struct suite *suite)
{
	char footprint[32], device[32], host[32];

	for (unsigned i = 0; i < suite->n_rows; i++) {
		const struct suite_row *row = &suite->rows[i];

		printf("%-8s%-18s%-8s%-18sfootprint %s, device %s, host %s\n",
		       suite_part_names[row->part], row->workload, row->point,
		       suite_variant_names[row->variant],
		       sl_size_format(row->footprint_bytes, footprint, sizeof(footprint)),
		       sl_size_format(row->device_bytes, device, sizeof(device)),
		       sl_size_format(row->host_bytes, host, sizeof(host)));
	}
}

/* Whether the files of this row are not those of the next one. */
static int
row_is_last_of_files(const struct suite *suite, unsigned i, unsigned n_planned)
{
	const struct suite_row *row = &suite->rows[i], *next = row + 1;

	return i + 1 == n_planned || strcmp(row->workload, next->workload) != 0 ||
	       row->part != next->part || row->in_memory != next->in_memory;
}

/* On a terminal what is being run stands below what was, with the time since the beginning. */
static void
rows_announce(const struct suite *suite, unsigned i, unsigned n, unsigned n_planned)
{
	const struct suite_row *row = &suite->rows[i];

	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r[%u/%u] %s %s %s %s%s ... %.0f %%, %.0f s\033[K",
			i + 1, n_planned, suite_part_names[row->part], row->workload,
			row->point, suite_variant_names[row->variant],
			n > 1 ? " and others in turn" : "", 100.0 * i / n_planned,
			(double)(sl_now_ns() - suite->began_ns) / 1e9);
}

/* n rows in turn, or one. */
static int
turn_run(struct options *options, unsigned i, unsigned n, unsigned n_planned)
{
	struct suite *suite = &options->suite;
	int rc = 0;

	rows_announce(suite, i, n, n_planned);
	for (unsigned k = i; !rc && k < i + n; k++)
		if (suite->rows[k].link_bytes_per_s == SUITE_LINK_AUTO)
			rc = suite_row_link(suite, &suite->rows[k]);
	for (unsigned k = i; !rc && k < i + n; k++)
		if (suite->rows[k].steps == SUITE_STEPS_AUTO)
			rc = suite_row_steps(suite, &suite->rows[k]);
	if (!rc)
		rc = suite_rows_run(suite, &suite->rows[i], n);
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	if (rc)
		return rc;
	for (unsigned k = i; k < i + n; k++) {
		fprintf(stderr, "[%u/%u] ", k + 1, n_planned);
		suite_row_print(&suite->rows[k]);
	}
	return rows_save(options);
}

static int
rows_run(struct options *options, unsigned n_planned)
{
	struct suite *suite = &options->suite;
	char dir[PATH_MAX] = "", memory_dir[PATH_MAX] = "";
	unsigned n;
	int rc = 0;

	suite->began_ns = sl_now_ns();
	if (n_planned) {
		rc = own_dir_make(&suite->dir, dir);
		/* Without one in memory, rows without a disk have theirs on it. */
		if (!rc && own_dir_make(&suite->memory_dir, memory_dir)) {
			suite->memory_dir = NULL;
			memory_dir[0] = 0;
		}
	}

	for (unsigned i = 0; !rc && i < n_planned; i += n) {
		n = suite_rows_in_turn(suite, i, n_planned);
		if (suite->rows[i].status == SUITE_PLANNED)
			rc = turn_run(options, i, n, n_planned);
		if (row_is_last_of_files(suite, i + n - 1, n_planned) || rc)
			suite_row_clean(suite, &suite->rows[i]);
	}
	if (dir[0])
		(void)rmdir(dir);
	if (memory_dir[0])
		(void)rmdir(memory_dir);
	suite->dir = suite->memory_dir = NULL;
	return rc;
}

static int
suite_go(struct options *options)
{
	struct suite *suite = &options->suite;
	unsigned n_planned, failed = 0;
	int rc;

	defaults_set(options);
	rc = suite_rows_plan(suite);
	if (!rc && !suite->n_rows)
		rc = sl_fail(-ENOENT,
			     "no row is like that; see sluice-papers suite --list");
	n_planned = suite->n_rows;
	if (!rc && options->list) {
		list_print(suite);
		return SL_EXIT_OK;
	}
	if (!rc) {
		machine_describe(suite);
		rc = rows_load(options);
	}
	if (!rc)
		rc = rows_run(options, n_planned);
	if (!rc)
		rc = rows_save(options);
	if (rc)
		return command_fail("suite", "%s", sluice_last_error());
	for (unsigned i = 0; i < n_planned; i++)
		failed += suite->rows[i].status == SUITE_FAILED;
	fprintf(stderr, "%u rows, %u failed\n", n_planned, failed);
	return failed ? SL_EXIT_FAILED : SL_EXIT_OK;
}

int
cmd_suite(int argc, char **argv)
{
	struct options options = {0};
	int code;

	if (options_read(&options, argc, argv, &code))
		return code;
	signals_catch();
	code = suite_go(&options);
	free(options.suite.rows);
	if (suite_signal) {
		/* Files are gone and rows are kept; end as the signal would have ended us. */
		signal(suite_signal, SIG_DFL);
		raise(suite_signal);
	}
	return code;
}
