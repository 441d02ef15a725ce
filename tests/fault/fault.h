/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the failure tests. A runner gives every case a process and an empty directory of its
 * own (a case may end by a signal, fill a disk, forge a limit). Helpers check an error's code
 * and its text, make small spaces and patterns, and survive the signal of a refused touch.
 *
 * A case's standard error is kept in a file, so that the library's log lines can be checked. It
 * is printed when the case fails. Exit status of a program: 0 all pass, 1 some fail, 77 none
 * could run. Cases are run one after the other; `program NAME` runs one.
 */
#ifndef FAULT_H
#define FAULT_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault_point.h"
#include "sluice/sluice.h"

/* Ends only what hangs, and then names the case: ten times the longest on a quiet machine. */
#define CASE_SECONDS 300u

#define MIB   ((size_t)1 << 20)
#define CHUNK (2 * MIB)
#define PAGE  ((size_t)4096)

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

struct fault_case {
	const char *name;
	void (*run)(void);
};

#define CASE(function)              \
	{                           \
#function, function \
	}

int fault_main(int argc, char **argv, const struct fault_case *cases, size_t n);

/* End the case: failed, or skipped with the reason. */
__attribute__((noreturn, format(printf, 3, 4))) void fault_failed(const char *file, int line,
								  const char *fmt, ...);
__attribute__((noreturn, format(printf, 1, 2))) void fault_skip(const char *fmt, ...);

#define CHECK(what)                                                                \
	do {                                                                       \
		if (!(what))                                                       \
			fault_failed(__FILE__, __LINE__, "not so: %s (%s)", #what, \
				     sluice_last_error());                         \
	} while (0)

/* 0, else the text says why. */
#define CHECK_OK(call)                                                        \
	do {                                                                  \
		int rc_ = (call);                                             \
		if (rc_)                                                      \
			fault_failed(__FILE__, __LINE__, "%s: %s: %s", #call, \
				     strerror(-rc_), sluice_last_error());    \
	} while (0)

/* The code, and every one of the words (strings) in the text of the last error. */
#define CHECK_FAILS(call, code, ...) \
	fault_check_fails(__FILE__, __LINE__, #call, call, code, __VA_ARGS__, (char *)NULL)

void fault_check_fails(const char *file, int line, const char *what, int rc, int code, ...);

/* Every one of the words in what the library has logged in this case. */
#define CHECK_LOGGED(...) \
	fault_check_logged(__FILE__, __LINE__, __VA_ARGS__, (char *)NULL)

void fault_check_logged(const char *file, int line, ...);

/*
 * A small space: 8 MiB of device, 8 MiB of host tier, 16 MiB of staging, two workers, spilling to
 * the case's directory; more: further key=value pairs, or NULL. Skips where userfaultfd is refused.
 */
struct sluice_space *fault_space(const char *more);
void fault_config(struct sluice_config *config, const char *more);
/* Check the invariants, then use every part of the space: alloc, fault, launch, spill, unmap. */
void fault_usable(struct sluice_space *space);
/* As above, then destroy it, which must succeed. */
void fault_space_end(struct sluice_space *space);
uint64_t fault_counter(struct sluice_space *space, enum sluice_counter counter);

/* Words of a pattern that differs for every seed and place. */
uint64_t fault_word(uint64_t seed, size_t index);
void fault_fill(void *data, size_t bytes, uint64_t seed);
/* 1 when data has the pattern. */
int fault_has(const void *data, size_t bytes, uint64_t seed);

/* A file in the case's directory, by the system's own calls. */
void fault_file_make(const char *path, size_t bytes, uint64_t seed);
int fault_file_has(const char *path, size_t offset, size_t bytes, uint64_t seed,
		   size_t seed_at);

/* Touch one word: 0, or the signal that the access was answered with. */
int fault_read(const void *addr, uint64_t *value);
int fault_write(void *addr, uint64_t value);

/* Add 1 to the first word of every page of [data, data + bytes); one block a MiB. */
struct fault_range {
	char *data;
	size_t bytes;
};
void fault_kernel_add(const struct sluice_block *block, void *args);
struct sluice_grid fault_grid(size_t bytes);

/* A private mount namespace; skips where that is not allowed. */
void fault_mounts_own(void);
/* An ext4 of its own in the directory name, made there; about mib MiB. Skips where impossible. */
void fault_small_disk(const char *name, size_t mib);

#endif
