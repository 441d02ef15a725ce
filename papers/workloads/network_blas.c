/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network: products of matrices by OpenBLAS. A product is cut into bands of rows of its result, for
 * the software device's workers; each is one call on one thread, so that sums are added up in the
 * same order whoever runs it and wherever the matrices are.
 *
 * The library is found by the loader, as libopenblas.so.0. Its own threads are turned off before it
 * is opened, when it would start them.
 *
 * Threads: see network_blas.h. The library is opened once and stays.
 */
#include "network_blas.h"

#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "network.h"
#include "network_cublas.h"

#define BLAS_LIBRARY "libopenblas.so.0"
#define BAND_ROWS    256u

/* Of the library's C interface. */
enum { BLAS_ROW_MAJOR = 101, BLAS_AS_IS = 111, BLAS_TURNED = 112 };

typedef void (*blas_sgemm)(int order, int a_turned, int b_turned, int m, int n, int k,
			   float alpha, const float *a, int lda, const float *b, int ldb,
			   float beta, float *c, int ldc);
typedef void (*blas_set_threads)(int n);

static pthread_once_t blas_once = PTHREAD_ONCE_INIT;
static blas_sgemm sgemm;      /* set once; NULL: there is no library */
static char blas_reason[256]; /* set once */

static void
reason_note(void)
{
	const char *text = dlerror();

	snprintf(blas_reason, sizeof(blas_reason), "%s",
		 text ? text : "a function is missing");
}

static void
blas_load(void)
{
	blas_set_threads set_threads;
	void *library, *found;

	setenv("OPENBLAS_NUM_THREADS", "1", 1);
	library = dlopen(BLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		reason_note();
		return;
	}
	found = dlsym(library, "openblas_set_num_threads");
	if (found) {
		*(void **)&set_threads = found;
		set_threads(1);
		found = dlsym(library, "cblas_sgemm");
	}
	if (!found) {
		reason_note();
		dlclose(library);
		return;
	}
	*(void **)&sgemm = found;
}

int
network_blas_open(struct workload_env *env)
{
	pthread_once(&blas_once, blas_load);
	if (sgemm)
		return 0;
	return workload_fail(
		env, -ENOTSUP,
		"network: it multiplies matrices by OpenBLAS, which cannot be "
		"opened (%s): install it (Debian: libopenblas0)",
		blas_reason);
}

static uint64_t
gemm_elements(const void *args)
{
	return ((const struct network_gemm_args *)args)->m;
}

static void
gemm_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct network_gemm_args *g = args;
	const float *a = g->a + (g->a_turned ? begin : begin * g->lda);

	assert(sgemm); /* the run opened it */
	sgemm(BLAS_ROW_MAJOR, g->a_turned ? BLAS_TURNED : BLAS_AS_IS,
	      g->b_turned ? BLAS_TURNED : BLAS_AS_IS, (int)(end - begin), (int)g->n,
	      (int)g->k, 1.0f, a, (int)g->lda, g->b, (int)g->ldb, g->adds ? 1.0f : 0.0f,
	      g->c + begin * g->ldc, (int)g->ldc);
}

/* Rows are next to each other: ld numbers each but the last, which ends where it ends. */
static uint64_t
matrix_numbers(uint64_t rows, uint64_t cols, uint64_t ld)
{
	return (rows - 1) * ld + cols;
}

static void
gemm_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct network_gemm_args *g = args;
	uint64_t m = end - begin;

	touch[0] = (struct workload_touch){
		.first = g->a_turned ? begin : begin * g->lda,
		.n = g->a_turned ? matrix_numbers(g->k, m, g->lda)
				 : matrix_numbers(m, g->k, g->lda),
		.read = 1,
	};
	touch[1] = (struct workload_touch){
		.n = g->b_turned ? matrix_numbers(g->n, g->k, g->ldb)
				 : matrix_numbers(g->k, g->n, g->ldb),
		.read = 1,
	};
	touch[2] = (struct workload_touch){
		.first = begin * g->ldc,
		.n = matrix_numbers(m, g->n, g->ldc),
		.read = g->adds != 0,
		.write = 1,
	};
}

static const struct workload_library gemm_library = {
	.open_soft = network_blas_open,
	.open = network_cublas_open,
	.close = network_cublas_close,
	.launch = network_cublas_multiply,
};

const struct workload_kernel network_gemm_kernel = {
	.name = "workload_network_gemm",
	.soft_elements = BAND_ROWS,
	.cuda_elements = BAND_ROWS,
	.args_bytes = sizeof(struct network_gemm_args),
	.n_pointers = 3,
	.pointer = {offsetof(struct network_gemm_args, a),
		    offsetof(struct network_gemm_args, b),
		    offsetof(struct network_gemm_args, c)},
	.library = &gemm_library,
	.elements = gemm_elements,
	.piece = gemm_piece,
	.touch = gemm_touch,
};
