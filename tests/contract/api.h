/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the public API (test_api_*.c, test_readahead.c): cases in processes of
 * their own, spaces from short texts, files with a known pattern, and three kernels. Only public
 * headers are used here. A case that looks inside includes core/ itself.
 *
 * A case is a function named as the sentence it shows. A false claim ends its process with
 * status 1 (CHECK). If the machine lacks something, it ends with 77 and a reason (api_skip).
 */
#ifndef TESTS_CONTRACT_API_H
#define TESTS_CONTRACT_API_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "sluice/sluice.h"

#define MIB   ((uint64_t)1 << 20)
#define CHUNK (2 * MIB)
#define PAGE  ((uint64_t)4096)

#define CHECK(what)                                            \
	do {                                                   \
		if (!(what))                                   \
			api_failed(__FILE__, __LINE__, #what); \
	} while (0)

/* Two numbers that must be equal; prints both. */
#define CHECK_EQ(a, b) \
	api_check_eq(__FILE__, __LINE__, #a " == " #b, (uint64_t)(a), (uint64_t)(b))

/* The call returns rc and its text contains the words. */
#define CHECK_FAILS(call, rc, words) \
	api_check_fails(__FILE__, __LINE__, #call, (call), rc, words)

struct api_case {
	const char *name;
	void (*run)(void);
};
/* clang-format off */
#define CASE(name) {#name, name}
#define API_MAIN(cases)                                                                  \
	int                                                                              \
	main(int argc, char **argv)                                                      \
	{                                                                                \
		return api_main(cases, sizeof(cases) / sizeof((cases)[0]), argc, argv);  \
	}
/* clang-format on */

/* Run every case, or the ones named on the command line, each in its own process. */
int api_main(const struct api_case *cases, size_t n, int argc, char **argv);
void api_failed(const char *file, int line, const char *what) __attribute__((noreturn));
void api_check_eq(const char *file, int line, const char *what, uint64_t a, uint64_t b);
void api_check_fails(const char *file, int line, const char *what, int rc, int wanted,
		     const char *words);
void api_skip(const char *why) __attribute__((noreturn));

/*
 * A space: 16 MiB of device, no host tier, 2 MiB chunks, two workers, no read-ahead, files by
 * whatever the machine has; then what config says ("host_budget=8M,policy=uvm"). Skips the case
 * where userfaultfd is refused.
 */
struct sluice_space *space_make(const char *config);
/* The same under a policy of the test's own (core/policy.h); NULL: the configuration's. */
struct sl_policy;
struct sluice_space *space_make_with(const char *config, const struct sl_policy *policy);
/* Wait for the default stream, check the invariants, destroy; all must be in order. */
void space_end(struct sluice_space *space);
void space_sync(struct sluice_space *space); /* default stream, must succeed; then the check */

uint64_t counter(struct sluice_space *space, enum sluice_counter which);
uint64_t h2d(struct sluice_space *space);
uint64_t d2h(struct sluice_space *space);
uint64_t store_reads(struct sluice_space *space);
uint64_t store_writes(struct sluice_space *space);
uint64_t resident(struct sluice_space *space, enum sluice_tier tier);
uint64_t resident_peak(struct sluice_space *space, enum sluice_tier tier);
/* Where a range is once nothing of it is being moved. */
struct sluice_residency residency(struct sluice_space *space, const void *addr, size_t size);

/* Wait, at most some seconds, until the counter has reached value; then it must equal it. */
void counter_wait(struct sluice_space *space, enum sluice_counter which, uint64_t value);

/* Regions; must succeed. */
void *region_map(struct sluice_space *space, const char *path, uint64_t offset,
		 size_t size, unsigned flags);
void *region_alloc(struct sluice_space *space, size_t size);

/* A path in the case's own directory (static storage, eight names in turn). */
const char *file_path(const char *name);
/* A file of size bytes whose 8-byte word i is pattern(seed, i); returns its path. */
const char *file_make(const char *name, uint64_t size, uint64_t seed);
uint64_t file_size(const char *path);
/* The words of the file from offset are those of the pattern from word first. */
void file_expect(const char *path, uint64_t offset, uint64_t size, uint64_t seed,
		 uint64_t first);
unsigned char file_byte(const char *path, uint64_t offset);

static inline uint64_t
pattern(uint64_t seed, uint64_t i)
{
	return (i + 1) * 0x9e3779b97f4a7c15u ^ seed << 56;
}

/* Host code: write and compare words [0, size / 8) at addr. */
void memory_fill(void *addr, uint64_t size, uint64_t seed);
void memory_expect(const void *addr, uint64_t size, uint64_t seed);
void memory_expect_zeros(const void *addr, uint64_t size);

/* One launch of one kernel over [addr, addr + size), two blocks; must be accepted. */
enum kernel_kind {
	KERNEL_READ, /* read every word and add it up */
	KERNEL_FILL, /* word i becomes pattern(seed, i) */
	KERNEL_ADD,  /* every word grows by seed */
	KERNEL_COUNT
};
struct kernel_args {
	void *addr;
	uint64_t size_bytes;
	uint64_t seed;
	enum kernel_kind kind;
};
void kernel_range(const struct sluice_block *block, void *args);
void kernel_nothing(const struct sluice_block *block, void *args);

/* Declared with intent; SLUICE_USE_COUNT: nothing is declared, it runs by faults. */
void launch(struct sluice_space *space, enum kernel_kind kind, void *addr, uint64_t size,
	    enum sluice_intent intent, uint64_t seed);
/* A launch that declares but touches nothing: only the books move. */
int launch_uses(struct sluice_space *space, const struct sluice_use *uses, size_t n);
/* The same for one range; must be accepted. */
void use(struct sluice_space *space, const void *addr, uint64_t size,
	 enum sluice_intent intent);

/* A stream, or a kernel, that stands still until it is let go. */
struct gate {
	int ends[2];
};
void gate_make(struct gate *gate); /* of a kernel: launch kernel_gate() with the gate as argument */
void gate_close(struct gate *gate, struct sluice_space *space, struct sluice_stream *stream);
void gate_wait(void *gate); /* a callback */
void kernel_gate(const struct sluice_block *block, void *gate);
void gate_open(struct gate *gate); /* one wait ends */

/* Something to put everything else under pressure with: 16 chunks that are only read. */
char *pressure_make(struct sluice_space *space);
/* Use n chunks of it, one after the other. */
void press(struct sluice_space *space, char *pressure, uint64_t n);

/* Chunk i of a region of 2 MiB chunks. */
static inline char *
at_chunk(void *base, uint64_t i)
{
	return (char *)base + i * CHUNK;
}

#endif
