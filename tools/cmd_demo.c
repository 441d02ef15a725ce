/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice demo`: two programs, hotspot and srad, work on files many times larger than their
 * memory. Then the same programs work on mmap()ed files within as much memory. Then a short
 * table and a picture follow.
 *
 * The programs are those of workloads/, unchanged. The demonstration chooses sizes by the
 * measured speed of the disk, so that all of it stays under two minutes. It samples where the
 * data are, and compares the outputs of both byte for byte.
 *
 * Processes: the first one only waits. It makes a directory for the files, and starts a second
 * one for the work. When that has ended, in any way, or on a signal (Ctrl-C), it removes the
 * directory and the memory group. A run over mmap() is a third process, since the limit of its
 * memory group would count against the others. Each dies with its parent.
 *
 * Here are the command line and the first process; demo_work.c, demo_mmap.c and demo_print.c
 * have the rest.
 *
 * Threads: one here.
 */
#include <errno.h>
#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/size.h"
#include "cgroup.h"
#include "commands.h"
#include "demo.h"

static const char demo_help[] =
	"Usage: sluice demo [--dir DIR] [--quick] [--size SIZE] [--picture FILE] "
	"[--json]\n"
	"\n"
	"Run two programs (hotspot, srad) over files at least 8 times larger than "
	"device\n"
	"memory and twice as large as device and host memory together, then the same "
	"over\n"
	"mmap in as much memory; compare the results, print times and bytes moved, and "
	"draw\n"
	"where the data were. Takes less than two minutes and removes its files.\n"
	"\n"
	"Options:\n"
	"      --dir DIR       where the files go (default: TMPDIR, else /var/tmp)\n"
	"      --quick         small files, a few seconds\n"
	"      --size SIZE     bytes of each program's files (K, M, G; at least 192M;\n"
	"                      default: up to 1G, by the speed of the disk)\n"
	"      --picture FILE  where the picture goes (default: a new file\n"
	"                      sluice-demo-XXXXXX.svg in the current directory)\n"
	"      --json          print one JSON object instead of the table\n"
	"  -h, --help          print this and exit\n";

/* ---- the first process ---- */

static int
entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	if (remove(path))
		fprintf(stderr, "sluice demo: %s stays: %s\n", path, strerror(errno));
	return 0;
}

static void
clean_up(const char *dir, const struct shared *shared)
{
	/* Also one that was being made when the worker was ended; there may be none. */
	if (shared->limit.dir[0] && cgroup_limit_destroy(&shared->limit))
		fprintf(stderr, "sluice demo: the memory group stays, remove it later: %s\n",
			sluice_last_error());
	nftw(dir, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* Wait for the worker; a signal of *wanted ends it. Its exit status; *by: the signal, or 0. */
static int
worker_wait(pid_t worker, const sigset_t *wanted, int *by)
{
	int status = 0;

	*by = 0;
	for (;;) {
		int sig = sigwaitinfo(wanted, NULL);

		if (sig == SIGCHLD) {
			/* Also sent when the worker is stopped or goes on. */
			if (waitpid(worker, &status, WNOHANG) != worker)
				continue;
			/* A terminal sends its signal to both; the worker may be first. */
			if (WIFSIGNALED(status) && WTERMSIG(status) != SIGCHLD &&
			    sigismember(wanted, WTERMSIG(status)) == 1)
				*by = WTERMSIG(status);
			return status;
		} else if (sig > 0) {
			*by = sig;
			kill(worker, SIGKILL);
			while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
				;
			return status;
		}
	}
}

static int
demo_run(const struct options *options, const char *dir)
{
	sigset_t wanted, none;
	struct shared *shared;
	pid_t parent = getpid(), worker;
	int status, by, rc;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return command_fail("demo", "mmap: %s", strerror(errno));
	fflush(NULL);
	worker = fork();
	if (worker == 0) {
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(SL_EXIT_FAILED);
		rc = demo_work(options, dir, shared);
		if (fflush(stdout) || ferror(stdout))
			rc = command_fail("demo", "writing the output: %s", strerror(errno));
		_exit(rc);
	}
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGINT);
	sigaddset(&wanted, SIGTERM);
	sigaddset(&wanted, SIGHUP);
	sigaddset(&wanted, SIGCHLD);
	if (worker < 0) {
		rc = command_fail("demo", "fork: %s", strerror(errno));
		by = 0;
	} else {
		status = worker_wait(worker, &wanted, &by);
		rc = WIFEXITED(status) ? WEXITSTATUS(status) : SL_EXIT_FAILED;
		if (!by && WIFSIGNALED(status))
			rc = command_fail("demo", "ended by signal %d", WTERMSIG(status));
	}
	clean_up(dir, shared);
	munmap(shared, sizeof(*shared));
	if (by) {
		/* End as the signal asks, so that a shell sees it. */
		signal(by, SIG_DFL);
		sigemptyset(&wanted);
		sigaddset(&wanted, by);
		sigprocmask(SIG_UNBLOCK, &wanted, NULL);
		raise(by);
	}
	return rc;
}

static int
option_take(const struct option *option, void *into)
{
	struct options *options = into;

	if (option->val == 's') {
		if (sl_size_parse(optarg, &options->size_bytes) ||
		    options->size_bytes < FOOTPRINT_LEAST)
			return command_usage("demo", "--size '%s': a size of at least 192M",
					     optarg);
		return 0;
	}
	if (!*optarg)
		return command_usage("demo", "--picture: not a file name");
	options->picture = optarg;
	return 0;
}

static int
options_read(int argc, char **argv, struct options *options)
{
	static const struct option table[] = {
		{"dir", required_argument, NULL, COMMAND_MEMBER(struct options, dir)},
		{"quick", no_argument, NULL, COMMAND_MEMBER(struct options, quick)},
		{"size", required_argument, NULL, 's'},
		{"picture", required_argument, NULL, 'p'},
		{"json", no_argument, NULL, COMMAND_MEMBER(struct options, as_json)},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	static const struct command_syntax syntax = {"demo", ":h", demo_help, table,
						     option_take};
	int rc = command_options_read(&syntax, argc, argv, options);

	if (rc)
		return rc;
	if (optind < argc)
		return command_usage("demo", "'%s' is one argument too many", argv[optind]);
	if (options->quick && options->size_bytes)
		return command_usage("demo", "--quick and --size contradict each other");
	return 0;
}

int
cmd_demo(int argc, char **argv)
{
	struct options options = {0};
	sigset_t wanted;
	char dir[4096];
	int rc = options_read(argc, argv, &options);

	if (rc)
		return rc < 0 ? SL_EXIT_OK : rc;
	if (!options.dir)
		options.dir = getenv("TMPDIR");
	if (!options.dir || !*options.dir)
		options.dir = "/var/tmp";
	/* From here a signal is waited for, and the directory is removed before it takes effect. */
	sigemptyset(&wanted);
	sigaddset(&wanted, SIGINT);
	sigaddset(&wanted, SIGTERM);
	sigaddset(&wanted, SIGHUP);
	sigaddset(&wanted, SIGCHLD);
	sigprocmask(SIG_BLOCK, &wanted, NULL);
	if ((size_t)snprintf(dir, sizeof(dir), "%s/sluice-demo-XXXXXX", options.dir) >=
	    sizeof(dir))
		return command_fail("demo", "%s: the name is too long", options.dir);
	if (!mkdtemp(dir))
		return command_fail("demo", "%s: %s; choose another directory with --dir",
				    options.dir, strerror(errno));
	return demo_run(&options, dir);
}
