/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the tests of the CUDA device. The same programs run on the stand-in driver
 * (SLUICE_CUDA_LIBRARY names it; kernels are the C twins in kernels.c) and on a GPU
 * (SLUICE_TEST_PTX names the PTX that nvcc made of kernels.cu). Without either they are skipped.
 */
#ifndef SL_TESTS_CUDA_TEST_H
#define SL_TESTS_CUDA_TEST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda_driver/standin.h"
#include "device/cuda/cuda_driver.h"
#include "sluice/sluice.h"

#define MIB ((uint64_t)1 << 20)

#define CHECK(what)                                                              \
	do {                                                                     \
		if (!(what)) {                                                   \
			fprintf(stderr, "%s:%d: %s: not so (last error: %s)\n",  \
				__FILE__, __LINE__, #what, sluice_last_error()); \
			exit(1);                                                 \
		}                                                                \
	} while (0)
#define CHECK_OK(call) CHECK((call) == 0)

/* Kernels; n in elements of 8 bytes. One thread an element, any grid. */
enum test_kernel {
	TEST_FILL,  /* (p, n, seed): p[i] = i * 0x9e3779b97f4a7c15 + seed */
	TEST_ADD,   /* (p, n, v): p[i] += v */
	TEST_SUM,   /* (p, n, out): *out += sum of p[i] (atomic) */
	TEST_COPY,  /* (p, n, q): q[i] = p[i] */
	TEST_DELAY, /* (p, n, ns): busy for about ns; touches nothing */
	TEST_FETCH, /* (view, p, n, tile, add, out, failed): fetches its tiles itself */
	TEST_FETCH_WRONG, /* (view, p, rcs[4]): breaks the rules of fetching */
	TEST_KERNEL_COUNT
};

struct cuda_test {
	const struct sl_cuda_driver *driver;
	const struct sl_standin *standin; /* NULL: a real driver */
	struct cu_context *context;
	struct cu_module *module;
	struct cu_function *function[TEST_KERNEL_COUNT];
	int device;
};

/* Open the driver and the kernels; ends the program with 77 when there is neither. */
void cuda_test_open(struct cuda_test *t);
/* The same for device number device; its context is then the thread's current one. */
void cuda_test_open_device(struct cuda_test *t, int device);
/* Where a range is, once nothing of it moves and what is on the device is known to be there. */
struct sluice_residency cuda_test_residency(struct sluice_space *space, const void *p,
					    uint64_t bytes);
/* Enqueue a kernel on stream (a sluice stream's native one). */
void cuda_test_launch(const struct cuda_test *t, struct sluice_space *space,
		      struct sluice_stream *stream, enum test_kernel kernel, void *p,
		      uint64_t n, uint64_t third);
void cuda_test_launch_on(const struct cuda_test *t, struct cu_stream *stream,
			 enum test_kernel kernel, uint64_t p, uint64_t n, uint64_t third);
/* The same with any parameters; blocks and threads of the grid. */
void cuda_test_launch_params(const struct cuda_test *t, struct cu_stream *stream,
			     enum test_kernel kernel, unsigned blocks, unsigned threads,
			     void **params);
/* Begin, launch, end, over one range. */
void cuda_test_run(const struct cuda_test *t, struct sluice_space *space,
		   struct sluice_stream *stream, enum test_kernel kernel, void *p,
		   uint64_t n, uint64_t third, enum sluice_intent intent);
/* A space on the CUDA device. Budgets in MiB. */
struct sluice_space *cuda_test_space(uint64_t device_mib, uint64_t host_mib,
				     const char *more);
uint64_t cuda_test_counter(struct sluice_space *space, enum sluice_counter counter);
/* Ends well: invariants hold, nothing leaks, the stand-in saw no rule broken. */
void cuda_test_close(struct cuda_test *t, struct sluice_space *space);
/* Memory of the device that only kernels and copies see (64 bytes, zero; read: its first word). */
uint64_t cuda_test_word(const struct cuda_test *t);
uint64_t cuda_test_word_read(const struct cuda_test *t, uint64_t word);
void cuda_test_word_free(const struct cuda_test *t, uint64_t word);

/* kernels.c: the C twins. */
void cuda_test_kernels_register(const struct sl_standin *standin);

#endif
