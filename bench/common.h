/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by all benchmark programs: time, sizes, the data file, the inner loops, the memory
 * cgroup, worker threads, and the printing of a result.
 *
 * A program measures one variant once, and prints one JSON object on one line. bench/run starts
 * the programs in turn, repeats them and makes tables. Every variant of a benchmark runs the
 * same inner loop (bench_sum() and so on, never inlined), so they differ in moving data only.
 *
 * The data file holds 64-bit words: word i is base + i * BENCH_STEP. Reading, filling and adding
 * one to every word keep this form. So every result can be checked, and the next run can use the
 * file as it is.
 *
 * A failure ends the process: 1 for a failure, 2 for wrong use, 77 for "cannot be measured
 * here", with a text on stderr. Functions are for the main thread unless said otherwise.
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define BENCH_STEP       0x9e3779b97f4a7c15u
#define BENCH_ALIGN      4096u
#define BENCH_HUGE_BYTES (2u << 20)

struct sluice_config;
struct sluice_space;

enum bench_op { BENCH_READ, BENCH_WRITE, BENCH_RMW, BENCH_OP_COUNT };

/* Nanoseconds of the monotonic clock. Any thread. */
uint64_t bench_now_ns(void);

/* End the process with the text (and a newline): failed, wrongly used, or not possible here. */
_Noreturn void bench_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void bench_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void bench_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A size ("512M"; K M G T, powers of 1024) or a count of an option; ends the process if wrong. */
uint64_t bench_parse_size(const char *option, const char *text);
uint32_t bench_parse_count(const char *option, const char *text, uint32_t min, uint32_t max);

/*
 * The command line: --NAME VALUE or --NAME=VALUE, put where the row says; what is not given stays as it
 * is. --help prints the text and ends the process with 0; anything else that is no row's ends it with 2.
 */
enum bench_option_kind {
	BENCH_OPTION_TEXT,  /* const char *value */
	BENCH_OPTION_SIZE,  /* uint64_t value */
	BENCH_OPTION_COUNT, /* uint32_t value, from min to max */
	BENCH_OPTION_FLAG   /* int value: 1 */
};
struct bench_option {
	const char *name;
	enum bench_option_kind kind;
	void *value;
	uint32_t min, max;
};
#define BENCH_OPTIONS_MAX 32
void bench_options_parse(int argc, char **argv, const struct bench_option *options,
			 size_t n, const char *help);

/* The inner loops. words: how many 64-bit words, a multiple of 8. Any thread. */
uint64_t bench_sum(const uint64_t *data, size_t words);
void bench_fill(uint64_t *data, size_t words, uint64_t first_value);
void bench_add(uint64_t *data, size_t words);

/* The sum of all words of a file of that base, modulo 2^64. */
uint64_t bench_sum_expected(uint64_t base, size_t words);

/* Write the data file (O_DIRECT where possible): size_bytes, a multiple of 2 MiB. */
void bench_file_create(const char *path, uint64_t size_bytes, uint64_t base);

/* Open for I/O past the page cache; a file system that refuses ends the process with 77. */
int bench_file_open_direct(const char *path, int flags);

/* The base a data file has now; checks that the file has at least size_bytes. */
uint64_t bench_file_base(const char *path, uint64_t size_bytes);

/* Read the first, the last and 254 other pages past the cache; end the process when one differs
 * from the base. */
void bench_file_verify(const char *path, uint64_t size_bytes, uint64_t base);

/* Write the file's dirty pages out and drop it from the page cache. Returns the bytes of it that
 * stayed in the cache all the same. */
uint64_t bench_file_drop(const char *path, uint64_t size_bytes);

/* Touch that much memory once and give it back: memory that the host of a virtual machine has
 * not backed yet is some hundred times slower to touch, and would be measured instead. */
void bench_warm(uint64_t bytes);

/* Memory in huge pages where the system has them, zeroed and touched; aligned for direct I/O.
 * free() gives it back. */
void *bench_alloc(size_t bytes);

/* Enter the memory cgroup of that directory; NULL: nothing. */
void bench_cgroup_enter(const char *dir);

/* Run fn(arg, i) for i in [0, n) on n threads (n at most 256), wait for all of them. */
typedef void (*bench_thread_fn)(void *arg, uint32_t i);
void bench_threads(uint32_t n, bench_thread_fn fn, void *arg);

/* Random numbers: the next one of a state that starts as any number. Any thread, own state. */
uint64_t bench_random(uint64_t *state);

/* Read-ahead of the disk under a file in KiB, from /sys; -1 when it cannot be found. */
int bench_readahead_kib(const char *path);

/* Set it, for the whole system. 0 or -1. Needs root. */
int bench_readahead_set(const char *path, int kib);

/* Print a result: open with its name, add fields, close with the end of line. */
void bench_json_begin(const char *bench, const char *variant);
void bench_json_text(const char *key, const char *value);
void bench_json_count(const char *key, uint64_t value);
void bench_json_number(const char *key, double value);
void bench_json_counters(struct sluice_space *space); /* all that are not 0 */
void bench_json_end(void);

/* The median of n numbers; sorts them in place. n at least 1. */
double bench_median(double *values, size_t n);

#endif
