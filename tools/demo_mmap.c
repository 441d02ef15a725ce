/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The comparison of `sluice demo`: the same program over mmap()ed files, within as much memory
 * as Sluice has.
 *
 * A control group limits the memory. Its limit would count against the process that enters it
 * for good. So each run is a child, which sends its result through a pipe and dies with its
 * parent. If no group can be made, the run goes without a limit, and the table says so.
 *
 * A run that fails or is killed is a result to show, not an error of the demonstration. The
 * first process removes the group.
 *
 * Threads: one.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cgroup.h"
#include "commands.h"
#include "demo.h"
#include "progress.h"
#include "sluice/sluice.h"
#include "workload.h"

/* In the child: run, send the result, end. */
static void
mmap_child(const struct demo *demo, struct program *program, pid_t parent, int to)
{
	struct workload_result *result = &program->mmap;
	const char *at = (const char *)result;
	size_t left = sizeof(*result);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(SL_EXIT_FAILED);
	memset(result, 0, sizeof(*result));
	program->mmap_rc = 0;
	if (demo->limited && cgroup_limit_enter(&demo->shared->limit)) {
		program->mmap_rc = -EACCES;
		snprintf(result->error, sizeof(result->error), "%s", sluice_last_error());
	}
	if (!program->mmap_rc) {
		progress_begin(&program->progress, program->progress_name);
		program->mmap_rc = workload_run(program->workload, &program->params, result);
		progress_end(&program->progress);
	}
	while (left) {
		ssize_t sent = write(to, at, left);

		if (sent <= 0)
			_exit(SL_EXIT_FAILED);
		at += sent;
		left -= (size_t)sent;
	}
	_exit(program->mmap_rc ? SL_EXIT_FAILED : SL_EXIT_OK);
}

/* How a child that sent no result has ended. */
static void
mmap_lost(const struct demo *demo, struct program *program, int status)
{
	program->mmap_rc = -ECHILD;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && demo->limited)
		snprintf(program->mmap_error, sizeof(program->mmap_error),
			 "killed: the kernel found no memory to free in its group");
	else if (WIFSIGNALED(status))
		snprintf(program->mmap_error, sizeof(program->mmap_error),
			 "killed by signal %d", WTERMSIG(status));
	else
		snprintf(program->mmap_error, sizeof(program->mmap_error),
			 "ended without a result");
}

void
demo_mmap_run(struct demo *demo, struct program *program)
{
	struct workload_result *result = &program->mmap;
	size_t got = 0;
	int pipe_fds[2], status = 0;
	pid_t parent = getpid(), child;

	program->params.memory = WORKLOAD_MEMORY_MMAP;
	program->params.on_space_made = NULL;
	program->params.on_space_ending = NULL;
	snprintf(program->progress_name, sizeof(program->progress_name), "%s over mmap",
		 program->workload->name);
	if (pipe2(pipe_fds, O_CLOEXEC)) {
		program->mmap_rc = -errno;
		snprintf(program->mmap_error, sizeof(program->mmap_error), "pipe: %s",
			 strerror(errno));
		return;
	}
	fflush(NULL);
	child = fork();
	if (child == 0) {
		close(pipe_fds[0]);
		mmap_child(demo, program, parent, pipe_fds[1]);
	}
	close(pipe_fds[1]);
	while (child > 0 && got < sizeof(*result)) {
		ssize_t n = read(pipe_fds[0], (char *)result + got, sizeof(*result) - got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	close(pipe_fds[0]);
	if (child < 0) {
		program->mmap_rc = -errno;
		snprintf(program->mmap_error, sizeof(program->mmap_error), "fork: %s",
			 strerror(errno));
		return;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (got < sizeof(*result)) {
		mmap_lost(demo, program, status);
	} else if (!WIFEXITED(status) || WEXITSTATUS(status) != SL_EXIT_OK) {
		program->mmap_rc = -EIO;
		snprintf(program->mmap_error, sizeof(program->mmap_error), "%.500s",
			 result->error);
	} else {
		program->mmap_rc = 0;
	}
}

void
demo_limit_make(struct demo *demo)
{
	char name[64];

	snprintf(name, sizeof(name), "sluice-demo-%d", (int)getpid());
	if (cgroup_limit_create(name, demo->limit_bytes, &demo->shared->limit)) {
		snprintf(demo->limit_error, sizeof(demo->limit_error), "%s",
			 sluice_last_error());
		return;
	}
	demo->limited = 1;
}
