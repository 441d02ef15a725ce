/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running a program under the preload library, and comparing its output: for tests of events
 * before and beside CUDA calls. The program's standard output and error come back together.
 *
 * Threads: one.
 */
#ifndef SL_TESTS_PRELOAD_CHILD_H
#define SL_TESTS_PRELOAD_CHILD_H

#include <stddef.h>

struct child {
	const char *environment[8]; /* "NAME=value"; "NAME": unset. NULL ends it */
	char output[16384];         /* of the last run, terminated; more is cut */
	int status;                 /* its exit status, 128 + its signal, or -1 */
};

/* getenv(), or the end of the test when it is not there. */
const char *child_setting(const char *name);

/*
 * Run a program of SLUICE_PRELOAD_PROGRAMS (or with a '/' any) with these arguments and child's
 * environment, LD_PRELOAD set to the library unless child says otherwise. Waits for it.
 */
void child_run(struct child *child, const char *program, const char *const *arguments);

/* Whether it ended with 0 and printed exactly this; says what it did if not. Names what was wrong by
 * title. 0, or 1. */
int child_expect(const struct child *child, const char *title, const char *output);

#endif
