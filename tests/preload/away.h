/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that is evicted, for tests that show which call brings it back. The budget is
 * AWAY_BUDGET. Using a filler of that size evicts everything that is not pinned. Threads: one.
 */
#ifndef SL_TESTS_PRELOAD_AWAY_H
#define SL_TESTS_PRELOAD_AWAY_H

#include "copy_test.h"

#define AWAY_BUDGET "12M"
#define AWAY_MIB    ((size_t)1 << 20)

int cuStreamSynchronize(struct cu_stream *stream);

/* The driver, as copy_test_open(), and the filler. */
const struct sl_standin *away_open(void);
/* The filler is freed. 0, or 1: the stand-in saw a rule broken, which is printed. */
int away_close(void);

/* Take away what nothing holds. */
void away_go(void);
/* 1: the GPU can read all of it, wherever it lies. */
int away_is_mapped(uint64_t addr, size_t bytes);

/* So many bytes, each word of 4 equal to value. */
uint64_t away_block(size_t bytes, unsigned value);
/* The first, middle and last word of so many bytes are value; after: what was done, for the message. */
void away_expect(uint64_t addr, size_t bytes, unsigned value, const char *after);
/* bytes at addr, as a number. */
uint64_t away_word(uint64_t addr, size_t bytes);

#endif
