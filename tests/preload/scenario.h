/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scenarios: programs under the preload library, and the library's counts of their functions,
 * from their statistics. Each is a process of its own, since settings are read once. Threads:
 * one.
 */
#ifndef SL_TESTS_PRELOAD_SCENARIO_H
#define SL_TESTS_PRELOAD_SCENARIO_H

#include <stdint.h>

/* Before the first. */
void scenario_open(void);
/* Run it under these settings. Its exit status, printed; one that is neither 0 nor 77 fails the test. */
int scenario(const char *name, int (*run)(void), const char *settings);
/* The number `member` behind the text `after` in its statistics is in least to most, or the test fails. */
void scenario_expect(const char *name, const char *after, const char *member,
		     uint64_t least, uint64_t most);
/* That number. One that is not there ends the test with 1. */
uint64_t scenario_number(const char *name, const char *after, const char *member);
/* The path of a file of that name, beside the statistics. */
void scenario_path(char path[64], const char *name);
/* Behind the last: 0, or 1 if one failed. */
int scenario_close(void);

#endif
