/* SPDX-License-Identifier: Apache-2.0 */
/* Running programs under the preload library: see child.h. */
#include "child.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 16

const char *
child_setting(const char *name)
{
	const char *value = getenv(name);

	if (!value || !*value) {
		fprintf(stderr, "%s is not set: run this by ctest\n", name);
		exit(1);
	}
	return value;
}

static void
child_become(const struct child *child, const char *path, char *const *arguments)
{
	const char *library = child_setting("SLUICE_PRELOAD_LIBRARY");

	if (setenv("LD_PRELOAD", library, 1))
		_exit(126);
	for (size_t i = 0; i < 8 && child->environment[i]; i++) {
		const char *text = child->environment[i];

		if (strchr(text, '=') ? putenv((char *)(size_t)text) : unsetenv(text))
			_exit(126);
	}
	execv(path, arguments);
	fprintf(stderr, "%s: %s\n", path, strerror(errno));
	_exit(127);
}

void
child_run(struct child *child, const char *program, const char *const *arguments)
{
	char path[PATH_MAX], *words[ARGUMENTS_MAX + 2] = {path};
	size_t n = 0, used = 0;
	int ends[2], status;
	ssize_t got;
	pid_t pid;

	snprintf(path, sizeof(path), "%s%s%s",
		 strchr(program, '/') ? "" : child_setting("SLUICE_PRELOAD_PROGRAMS"),
		 strchr(program, '/') ? "" : "/", program);
	for (; n < ARGUMENTS_MAX && arguments && arguments[n]; n++)
		words[n + 1] = (char *)(size_t)arguments[n];
	child->status = -1;
	child->output[0] = '\0';
	if (pipe(ends))
		return;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		dup2(ends[1], STDOUT_FILENO);
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		child_become(child, path, words);
	}
	close(ends[1]);
	while (pid > 0 && used < sizeof(child->output) - 1) {
		got = read(ends[0], child->output + used, sizeof(child->output) - 1 - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	child->output[used] = '\0';
	close(ends[0]);
	if (pid > 0 && waitpid(pid, &status, 0) == pid)
		child->status = WIFEXITED(status) ? WEXITSTATUS(status)
						  : 128 + WTERMSIG(status);
}

int
child_expect(const struct child *child, const char *title, const char *output)
{
	if (!child->status && !strcmp(child->output, output))
		return 0;
	printf("%s: status %d, printed:\n%sexpected:\n%s", title, child->status,
	       child->output, output);
	return 1;
}
