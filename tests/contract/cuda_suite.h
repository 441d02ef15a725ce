/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the CUDA driver's rules (test_cuda_*.c): a driver, a context, and the
 * runner.
 *
 * By default they run over the stand-in driver (tests/cuda_driver), which the build names in
 * SLUICE_STANDIN_LIBRARY. With the argument "real" those that need nothing of the stand-in run
 * over the machine's driver. That shows that the stand-in keeps the real rules. Each test is a
 * process of its own: a driver is opened once, and a lost context stays lost. Settings of the
 * stand-in are environment variables, set before up().
 *
 * A test is a function named as the sentence it shows. Programs are plain: 0 pass, 1 fail, 77
 * without a driver to test. A further argument runs only the tests whose names contain it.
 *
 * Threads: those of the driver, and those that a test starts.
 */
#ifndef TESTS_CONTRACT_CUDA_SUITE_H
#define TESTS_CONTRACT_CUDA_SUITE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_driver/standin.h"
#include "device/cuda/cuda_driver.h"

#define MIB      ((size_t)1 << 20)
#define CHUNK    (2 * MIB)
#define N_CHUNKS 16
#define RANGE    (N_CHUNKS * CHUNK)
#define WAIT_MAX 100000000 /* looks at a word */

/* ---- the driver under test ---- */

struct cuda_suite {
	const struct sl_cuda_driver *driver;
	struct cu_context *context; /* of device 0, current */
	struct cu_stream *stream;   /* one that does not wait for the legacy stream */
	uint64_t range;             /* RANGE bytes of addresses, nothing mapped */
};

extern struct cuda_suite cuda;
/* The stand-in's table; where a real driver is tested it does nothing. */
extern const struct sl_standin *standin;
/* 1: it is a real driver. */
extern int cuda_is_real;

extern const struct cu_allocation on_device, on_host;
extern const struct cu_access by_device, by_device_reading, by_cpu;

/* Open the driver, end the process where that fails; up() also makes the rest of cuda. */
void up_without_context(void);
void up(void);
/* A new handle. */
uint64_t memory(size_t bytes, const struct cu_allocation *prop);
/* A fresh chunk of device memory, mapped at chunk number i of the range. */
uint64_t map_chunk(unsigned i);
/* Zeroed pinned memory. */
void *pinned(size_t bytes);
/* A word of device memory as it is when all before it is done. */
uint32_t word_at(uint64_t addr);
void fill_word(uint64_t addr, uint32_t value);
/* A word in pinned memory that holds a stream back until it is opened. */
_Atomic uint32_t *cu_gate_close(struct cu_stream *on);
void cu_gate_open(_Atomic uint32_t *gate);
/* In a child that ends with 1 if a check failed: its exit status, -1 if it was killed. */
int child_status(void (*run)(void));

/* ---- checks ---- */

void cuda_check_failed(int line, const char *what);
void cuda_check_gives(int line, const char *call, int got, int code);
/* The stand-in has noted n broken rules since the last time; the last names part. */
void noted(uint64_t n, const char *part);

#define CHECK(condition)                                         \
	do {                                                     \
		if (!(condition))                                \
			cuda_check_failed(__LINE__, #condition); \
	} while (0)

/* The call returns this code. */
#define GIVES(code, call, ...) \
	cuda_check_gives(__LINE__, #call, cuda.driver->call(__VA_ARGS__), code)
#define OK(call, ...)      GIVES(CU_SUCCESS, call, __VA_ARGS__)
#define INVALID(call, ...) GIVES(CU_ERROR_INVALID_VALUE, call, __VA_ARGS__)

/* ---- the runner ---- */

struct cuda_test {
	const char *name;
	void (*run)(void);
	int real; /* 1: over a real driver too */
};
/* clang-format off */
#define BOTH(function) {#function, function, 1}
#define OURS(function) {#function, function, 0}
#define CUDA_MAIN(tests)                                                               \
	int                                                                            \
	main(int argc, char **argv)                                                    \
	{                                                                              \
		return cuda_main(tests, sizeof(tests) / sizeof((tests)[0]), argc, argv); \
	}
/* clang-format on */

int cuda_main(const struct cuda_test *tests, size_t n, int argc, char **argv);

#endif
