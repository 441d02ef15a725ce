/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the stress programs: the seed, configurations by text, a directory for files,
 * failures that are printed once and end the run, and random numbers for threads.
 *
 * Every program prints its seed on the first line. It is the same one each time, unless SEED=n
 * in the environment or the first argument gives another: a number, or "random" for other steps.
 * The timing of threads differs in any case. The second argument is the seconds for each
 * configuration. The third runs only configurations whose text contains it.
 *
 * Threads: any, but main() calls stress_begin() and stress_end().
 */
#ifndef TESTS_STRESS_COMMON_H
#define TESTS_STRESS_COMMON_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/rng.h"
#include "sluice/sluice.h"

#define MIB  ((size_t)1 << 20)
#define PAGE ((size_t)4096)

struct stress {
	uint64_t seed;
	uint64_t run_ns;    /* each configuration */
	const char *filter; /* "" : all */
	char dir[512];      /* absolute; removed by stress_end() with the files in it */
	char config[512];   /* text of the running configuration */
	_Atomic int failures;
	_Atomic int stop; /* threads end: time is up, or something failed */
};

extern struct stress stress;

/* Read seed and arguments, print the seed, make the directory. seconds: default of run_ns. */
void stress_begin(int argc, char **argv, double seconds);
/* Remove the directory; the exit status. */
int stress_end(void);

/* 1 when the filter lets the configuration run; prints its text then. */
int stress_wants(const char *config);

/*
 * A space from a text of key=value pairs; "move=copy" among them, which is none of the library's keys,
 * asks the software device for copies instead of moves. Ends the program with 77 and the reason
 * where the system has no userfaultfd, with 1 on other errors.
 */
struct sluice_space *stress_space(const char *config);
/* Destroy it after a last look at its invariants. */
void stress_space_end(struct sluice_space *space);

/* A failure: print it with configuration and last error, stop all threads. The first 10 are printed. */
void stress_fail(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define FAIL(...) stress_fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition)                        \
	do {                                    \
		if (!(condition))               \
			FAIL("%s", #condition); \
	} while (0)
/* A call that must return 0. */
#define OK(call)                                               \
	do {                                                   \
		int ok_rc_ = (call);                           \
		if (ok_rc_)                                    \
			FAIL("%s returned %d", #call, ok_rc_); \
	} while (0)

/* Start, sleep and time: stop is set when run_ns are over. */
void stress_sleep_until(uint64_t end_ns);

#endif
