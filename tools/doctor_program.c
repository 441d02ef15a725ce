/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sluice doctor -- PROGRAM`: does `sluice run` cover this program, and which parts does it not
 * cover?
 *
 * 1. The program's file is checked first. A program that cannot load a library is not started.
 * 2. It runs in full, as under `sluice run`. Every process that reaches the driver leaves its
 *    statistics in a directory, at its cuInit() and at its end.
 * 3. Meanwhile the processes are searched for the driver without our library: such a process has
 *    bypassed it.
 * 4. The findings come from that directory.
 *
 * Without a GPU the way to the driver is checked, and the rest is reported as open.
 *
 * The program's standard output goes to standard error: standard output has the report.
 *
 * Threads: one.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "commands.h"
#include "doctor.h"
#include "json_read.h"
#include "progress.h"
#include "run.h"

#define PROCESSES_MAX 256
#define STATS_BYTES   ((size_t)64 << 20) /* longer files are not read */
#define LOOK_NS       100000000          /* between looks at the processes */
#define OPAQUE_SHOW   3

/* What one process left behind. Sums, once all are read. */
struct used {
	uint64_t processes, unfinished;
	uint64_t launches, launches_all, launches_opaque, graph_launches, copies;
	uint64_t allocations, mapped, mapped_native, foreign_bytes, unknown_names, gpus;
	uint64_t driver_version, table_version;
	uint64_t init_result; /* the last that was not 0 */
	uint64_t init_ok;     /* processes whose cuInit() succeeded */
	int has_driver;
	char road[32], program[64];
	char opaque[OPAQUE_SHOW][96]; /* functions whose arguments could not be read */
	size_t opaque_n;
};

struct past { /* processes with the driver and without our library */
	pid_t pids[PROCESSES_MAX];
	size_t n;
	char name[64]; /* of the first */
};

/* ---- statistics ---- */

static void
counter_take(struct used *used, const struct json_token *token)
{
	const struct {
		const char *name;
		uint64_t *sum;
	} sums[] = {
		{"launches", &used->launches},
		{"launches_all", &used->launches_all},
		{"launches_opaque", &used->launches_opaque},
		{"graph_launches", &used->graph_launches},
		{"copies", &used->copies},
		{"allocations", &used->allocations},
		{"mapped", &used->mapped},
		{"mapped_native", &used->mapped_native},
		{"foreign_bytes", &used->foreign_bytes},
		{"unknown_names", &used->unknown_names},
	};

	for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
		if (strcmp(token->key, sums[i].name) == 0)
			*sums[i].sum += token->u64;
}

/* A member of the outermost object. */
static void
member_take(struct used *used, const struct json_token *token)
{
	if (token->kind == JSON_FALSE && strcmp(token->key, "ended") == 0)
		used->unfinished++;
	if (token->kind == JSON_STRING && strcmp(token->key, "driver") == 0)
		used->has_driver = 1;
	if (token->kind == JSON_STRING && strcmp(token->key, "road") == 0 && !used->road[0])
		snprintf(used->road, sizeof(used->road), "%s", token->text);
	if (token->kind == JSON_STRING && strcmp(token->key, "program") == 0 &&
	    !used->program[0])
		snprintf(used->program, sizeof(used->program), "%s", token->text);
	if (token->kind != JSON_NUMBER)
		return;
	if (strcmp(token->key, "driver_version") == 0 && token->u64)
		used->driver_version = token->u64;
	if (strcmp(token->key, "table_version") == 0)
		used->table_version = token->u64;
	if (strcmp(token->key, "cuinit") == 0) {
		if (token->u64)
			used->init_result = token->u64;
		else
			used->init_ok++;
	}
}

/* A member of a function: the name comes before the counts. */
static void
function_take(struct used *used, const struct json_token *token, char name[96])
{
	if (token->kind == JSON_STRING && strcmp(token->key, "name") == 0)
		snprintf(name, 96, "%s", token->text);
	if (token->kind == JSON_NUMBER && strcmp(token->key, "opaque") == 0 &&
	    token->u64 && used->opaque_n < OPAQUE_SHOW)
		snprintf(used->opaque[used->opaque_n++], sizeof(used->opaque[0]), "%s", name);
}

static int
stats_take(struct used *used, char *text)
{
	struct json_reader reader;
	struct json_token token;
	char section[32] = "", function[96] = "";
	int rc;

	json_read_begin(&reader, text);
	while ((rc = json_read_next(&reader, &token)) > 0) {
		if (token.kind == JSON_CLOSE)
			continue;
		if (token.depth == 1 && token.key) {
			snprintf(section, sizeof(section), "%s", token.key);
			member_take(used, &token);
		} else if (token.depth == 2 && strcmp(section, "counters") == 0) {
			counter_take(used, &token);
		} else if (token.depth == 2 && strcmp(section, "gpus") == 0) {
			used->gpus++;
		} else if (token.depth == 3 && strcmp(section, "functions") == 0) {
			function_take(used, &token, function);
		}
	}
	return rc;
}

/* A whole file, ended by a zero byte; NULL: it cannot be read. */
static char *
file_text(const char *path)
{
	FILE *file = fopen(path, "re");
	struct stat st;
	char *text = NULL;

	if (file && !fstat(fileno(file), &st) && (size_t)st.st_size < STATS_BYTES) {
		text = calloc(1, (size_t)st.st_size + 1);
		if (text && fread(text, 1, (size_t)st.st_size, file) != (size_t)st.st_size) {
			free(text);
			text = NULL;
		}
	}
	if (file)
		fclose(file);
	return text;
}

/* Read, and remove, what is in the directory. */
static void
stats_read(const char *dir, struct used *used)
{
	DIR *listing = opendir(dir);
	struct dirent *entry;

	while (listing && (entry = readdir(listing))) {
		char path[PATH_MAX];
		const char *dot = strrchr(entry->d_name, '.');

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		if (dot && strcmp(dot, ".json") == 0 && used->processes < PROCESSES_MAX) {
			SL_CLEANUP(free) char *text = file_text(path);

			if (text && !stats_take(used, text))
				used->processes++;
		}
		(void)unlink(path);
	}
	if (listing)
		closedir(listing);
	(void)rmdir(dir);
}

/* ---- running it ---- */

static pid_t
parent_of(pid_t pid)
{
	char path[64], line[512];
	char *paren;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (doctor_line_read(path, line, sizeof(line)))
		return 0;
	paren = strrchr(line, ')'); /* the name may hold anything */
	return paren && sscanf(paren + 1, " %*c %d", &parent) == 1 ? (pid_t)parent : 0;
}

static int
is_below(pid_t pid, pid_t top)
{
	for (int i = 0; i < 64 && pid > 1; i++) {
		if (pid == top)
			return 1;
		pid = parent_of(pid);
	}
	return 0;
}

/* Has the process the driver mapped, and not our library? */
static int
is_past(pid_t pid)
{
	SL_CLEANUP(free) char *line = NULL;
	size_t room = 0;
	int driver = 0, ours = 0;
	char path[64];
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return 0;
	while (getline(&line, &room, maps) > 0) {
		driver |= strstr(line, "/libcuda.so") != NULL;
		ours |= strstr(line, "/" RUN_LIBRARY) != NULL;
	}
	fclose(maps);
	return driver && !ours;
}

/* Processes that top, which is this one, started, and theirs. */
static void
processes_look(pid_t top, struct past *past)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	while (proc && (entry = readdir(proc))) {
		pid_t pid = (pid_t)atoi(entry->d_name);
		char path[64];
		int known = 0;

		if (pid <= 0 || pid == top || past->n == PROCESSES_MAX || !is_below(pid, top))
			continue;
		for (size_t i = 0; i < past->n; i++)
			known |= past->pids[i] == pid;
		if (known || !is_past(pid))
			continue;
		if (!past->n) {
			snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
			if (doctor_line_read(path, past->name, sizeof(past->name)))
				snprintf(past->name, sizeof(past->name), "?");
		}
		past->pids[past->n++] = pid;
	}
	if (proc)
		closedir(proc);
}

static void
child_run(const struct run_plan *plan, char **argv, const sigset_t *mask)
{
	int error;

	signal(SIGINT, SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	if (run_plan_apply(plan))
		_exit(RUN_EXIT_FAILED);
	execvp(argv[0], argv);
	error = errno;
	(void)command_fail("doctor", "%s: %s", argv[0], strerror(error));
	_exit(error == ENOENT ? RUN_EXIT_NOT_FOUND : RUN_EXIT_REFUSED);
}

/* Run the program to its end, and look at its processes meanwhile. Its wait status, or -errno. */
static int
program_watch(const struct run_plan *plan, char **argv, struct past *past, int *status)
{
	struct timespec pause = {0, LOOK_NS};
	struct progress progress;
	sigset_t child, before;
	pid_t pid, ended;
	int rc = 0;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	signal(SIGINT, SIG_IGN); /* the program's; the report comes all the same */
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* what it leaves behind stays in sight */
	fflush(NULL);
	pid = fork();
	if (!pid)
		child_run(plan, argv, &before);
	if (pid < 0)
		rc = -errno;
	progress_begin(&progress, "sluice doctor");
	for (ended = 0; pid > 0 && ended != pid;) {
		(void)sigtimedwait(&child, NULL, &pause);
		processes_look(getpid(), past);
		progress_tell(&progress, "the program runs, the report comes at its end");
		do
			ended = waitpid(-1, status, WNOHANG);
		while (ended > 0 && ended != pid);
		if (ended < 0 && errno != EINTR) {
			rc = -errno;
			break;
		}
	}
	signal(SIGINT, SIG_DFL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return rc;
}

/* ---- findings ---- */

static void
version_text(uint64_t version, char *buf, size_t buf_bytes)
{
	snprintf(buf, buf_bytes, "%" PRIu64 ".%" PRIu64, version / 1000, version % 1000 / 10);
}

static void
find_driver(struct doctor *doctor, const struct used *used)
{
	char have[32], table[32];

	version_text(used->driver_version, have, sizeof(have));
	version_text(used->table_version, table, sizeof(table));
	if (!used->has_driver) {
		finding_add(
			doctor, LEVEL_MISSING, "driver", "try again on a machine with a GPU",
			"the program asks for one (%s), and there is none here: the way "
			"to the driver is covered, the rest could not be seen",
			used->road);
	} else if (!used->init_ok) {
		finding_add(doctor, LEVEL_MISSING, "driver",
			    "see that the program runs without sluice",
			    "reached by %s; cuInit() fails with %" PRIu64, used->road,
			    used->init_result);
	} else if (used->driver_version > used->table_version) {
		finding_add(
			doctor, LEVEL_LIMITED, "driver", "watch for unknown functions below",
			"for CUDA %s, newer than this version knows (%s): functions that "
			"are new pass through",
			have, table);
	} else {
		finding_add(doctor, LEVEL_OK, "driver", NULL,
			    "for CUDA %s, reached by %s first in %s", have, used->road,
			    used->program);
	}
	if (used->unknown_names) {
		finding_add(doctor, LEVEL_LIMITED, "functions",
			    "sluice run --verbose names them",
			    "%" PRIu64 " that are not in the table were asked for",
			    used->unknown_names);
	}
}

static void
find_memory(struct doctor *doctor, const struct used *used)
{
	char text[32], mapped[128] = "";

	sl_size_format(used->foreign_bytes, text, sizeof(text));
	if (used->mapped_native)
		snprintf(mapped, sizeof(mapped),
			 " (%" PRIu64 " mapped by the program itself, %" PRIu64
			 " of them in ways that only the driver has)",
			 used->mapped, used->mapped_native);
	else if (used->mapped)
		snprintf(mapped, sizeof(mapped),
			 " (%" PRIu64 " mapped by the program itself)", used->mapped);
	if (!used->allocations) {
		finding_add(doctor, used->foreign_bytes ? LEVEL_MISSING : LEVEL_LIMITED,
			    "allocations",
			    used->foreign_bytes
				    ? "the program makes device memory to share it: that "
				      "is paged with --vmm-memory all alone"
				    : "let the program do its work in this run",
			    "none was served; %s went past the library", text);
	} else if (used->foreign_bytes) {
		finding_add(doctor, LEVEL_LIMITED, "allocations",
			    "that part must fit the GPU (memory that could be shared "
			    "is paged with --vmm-memory all)",
			    "%" PRIu64
			    " served%s; %s went past the library: memory to be "
			    "shared, arrays, imported or managed memory",
			    used->allocations, mapped, text);
	} else {
		finding_add(doctor, LEVEL_OK, "allocations", NULL,
			    "%" PRIu64 ", all served%s", used->allocations, mapped);
	}
}

static void
find_launches(struct doctor *doctor, const struct used *used)
{
	if (used->launches_opaque) {
		finding_add(doctor, LEVEL_LIMITED, "kernels",
			    "these take everything for used, which is slow and right",
			    "%" PRIu64 " launches, of %" PRIu64
			    " the arguments could not be "
			    "read: %s%s%s%s%s",
			    used->launches, used->launches_opaque, used->opaque[0],
			    used->opaque_n > 1 ? ", " : "", used->opaque[1],
			    used->opaque_n > 2 ? ", " : "", used->opaque[2]);
	} else {
		finding_add(doctor, LEVEL_OK, "kernels", NULL,
			    "%" PRIu64 " launches, %" PRIu64 " taken to use everything",
			    used->launches, used->launches_all);
	}
	if (used->graph_launches)
		finding_add(doctor, LEVEL_OK, "graphs", NULL,
			    "%" PRIu64 " launched: what their nodes name is brought in",
			    used->graph_launches);
}

static void
find_processes(struct doctor *doctor, const struct used *used, const struct past *past,
	       int status)
{
	if (past->n) {
		finding_add(doctor, LEVEL_MISSING, "processes",
			    "they were started without LD_PRELOAD, statically, or with "
			    "other rights",
			    "%zu with the driver and without the library: %s (%d)%s",
			    past->n, past->name, (int)past->pids[0],
			    past->n > 1 ? " and others" : "");
	} else if (used->unfinished) {
		finding_add(doctor, LEVEL_LIMITED, "processes",
			    "--stats of sluice run has the same gap",
			    "%" PRIu64 " used CUDA, %" PRIu64
			    " did not end by exit(): what "
			    "they did is not counted",
			    used->processes, used->unfinished);
	} else {
		finding_add(doctor, LEVEL_OK, "processes", NULL, "%" PRIu64 " used CUDA",
			    used->processes);
	}
	if (WIFSIGNALED(status)) {
		finding_add(doctor, LEVEL_LIMITED, "end",
			    "see that the program runs without sluice",
			    "killed by signal %d", WTERMSIG(status));
	} else if (WEXITSTATUS(status)) {
		finding_add(doctor, LEVEL_LIMITED, "end",
			    "see that the program runs without sluice", "exit code %d",
			    WEXITSTATUS(status));
	}
}

static enum program_cover
verdict(const struct doctor *doctor, const struct used *used)
{
	enum program_cover cover = PROGRAM_COVERED;

	if (!used->processes)
		cover = PROGRAM_UNKNOWN;
	for (size_t i = 0; i < doctor->finding_n; i++) {
		if (doctor->findings[i].level == LEVEL_MISSING)
			return used->has_driver || !used->processes ? PROGRAM_NOT_COVERED
								    : PROGRAM_UNKNOWN;
		if (doctor->findings[i].level == LEVEL_LIMITED && cover == PROGRAM_COVERED)
			cover = PROGRAM_LIMITED;
	}
	return cover;
}

int
doctor_program(struct doctor *doctor, char **argv, enum program_cover *out)
{
	const char *tmp = getenv("TMPDIR");
	char program[PATH_MAX], file[PATH_MAX], text[PATH_MAX + 160], dir[256], stats[300];
	struct run_options options = {.quiet = 1, .doctor = 1, .explain = 0};
	struct run_plan plan = {0};
	struct used used = {0};
	struct past past = {0};
	enum run_loads loads;
	int rc, status = 0;

	rc = run_program_find(argv[0], program);
	if (rc)
		return rc;
	loads = run_program_look(program, file);
	if (loads != RUN_LOADS && loads != RUN_LOADS_UNKNOWN) {
		finding_add(doctor, LEVEL_MISSING, "program", NULL, "%.300s",
			    run_loads_text(loads, file, text, sizeof(text)));
		*out = PROGRAM_NOT_COVERED;
		return 0;
	}
	finding_add(doctor, LEVEL_OK, "program", NULL, "%.300s", file);
	snprintf(dir, sizeof(dir), "%s/sluice-doctor-XXXXXX",
		 tmp && *tmp && strlen(tmp) < 200 ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return sl_fail(-errno, "%s: %s", dir, strerror(errno));
	snprintf(stats, sizeof(stats), "%s/%%p.json", dir);
	options.stats = stats;
	rc = run_plan_make(&plan, &options);
	if (!rc) {
		rc = program_watch(&plan, argv, &past, &status);
		if (rc)
			rc = sl_fail(rc, "%s: %s", argv[0], strerror(-rc));
	}
	stats_read(dir, &used);
	run_plan_fini(&plan);
	if (rc)
		return rc;
	if (used.processes) {
		find_driver(doctor, &used);
		if (used.init_ok) {
			find_memory(doctor, &used);
			find_launches(doctor, &used);
		}
	} else if (!past.n) {
		finding_add(doctor, LEVEL_LIMITED, "driver",
			    "run the program so that it uses the GPU",
			    "no process called it: nothing can be said of this run");
	}
	find_processes(doctor, &used, &past, status);
	*out = verdict(doctor, &used);
	return 0;
}
