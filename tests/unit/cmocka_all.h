/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmocka with what it needs before it. Tests are functions named as sentences; T(name)
 * puts one into the table of a group. What a child process must do (abort, print) is run
 * by child_run().
 */
#ifndef TESTS_UNIT_CMOCKA_ALL_H
#define TESTS_UNIT_CMOCKA_ALL_H

/* cmocka.h comes after what it uses. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define T(name) cmocka_unit_test(name)

struct child_result {
	int exit_status; /* -1: ended by a signal */
	int signal;      /* 0: exited */
	char stderr_text[8192];
};

/* Run body(arg) in a forked child, then exit 0 there; collect what it wrote to stderr. */
static inline struct child_result
child_run(void (*body)(void *arg), void *arg)
{
	struct child_result result = {.exit_status = -1};
	size_t length = 0;
	int ends[2];
	int status;
	pid_t pid;

	fflush(NULL);
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL); /* not cmocka's */
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		body(arg);
		_exit(0);
	}
	close(ends[1]);
	for (;;) {
		size_t room = sizeof(result.stderr_text) - 1 - length;
		ssize_t n = read(ends[0], result.stderr_text + length, room);

		if (n <= 0)
			break;
		length += (size_t)n;
	}
	close(ends[0]);
	result.stderr_text[length] = '\0';
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		result.exit_status = WEXITSTATUS(status);
	else
		result.signal = WTERMSIG(status);
	return result;
}

#endif
