/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of failures around a CUDA device (test_missing.c, test_failure.c,
 * test_lost.c, test_sharing.c): touches of host code that may end in a signal, the library's log
 * lines, and a runner.
 *
 * Each case is a process of its own (PROGRAM NAME runs one), with settings of the stand-in
 * driver in its environment. A few also make sense on a GPU and run there. After a failure the
 * invariants hold, and the contents are right or an error was returned. At the end nothing is
 * left, and no rule of the driver was broken.
 */
#ifndef SL_TESTS_CUDA_FAILURE_H
#define SL_TESTS_CUDA_FAILURE_H

#include "cuda/cuda_test.h"

#define K     0x9e3779b97f4a7c15ull
#define TILE  (2 * MIB)
#define WORDS (TILE / 8)

/* Read or write a word: 0, or the signal that the access raised. */
int word_read(const uint64_t *p, uint64_t *value);
int word_write(uint64_t *p, uint64_t value);
/* Word i of n is i * K + seed. */
void fill_check(const uint64_t *p, uint64_t n, uint64_t seed);

/* Standard error goes to a file from here on, which the runner prints when the case fails. */
void log_catch(void);
/* Whether it has said so since the last question; the thread's last error. */
int log_has(const char *text);
int error_has(const char *text);

struct failure_case {
	const char *name;
	void (*run)(void);
	int needs_standin;
	const char *variable, *value, *variable2, *value2; /* of the environment */
};

/* The program: 77 when no case could be run. */
int failure_main(const struct failure_case *cases, size_t n, int argc, char **argv);

#endif
