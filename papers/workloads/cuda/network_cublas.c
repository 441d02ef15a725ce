/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuBLAS by its C interface: the few functions that a product needs, found by name. See
 * network_cublas.h. The library takes columns one behind the other where ours are rows: it is asked
 * for the turned product, of the turned factors in the other order, which is the same memory.
 *
 * Threads: see network_cublas.h.
 */
#include "network_cublas.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/cuda/cuda_driver.h"
#include "network_kernel.h"

#define WORKSPACE_BYTES \
	(32ull << 20) /* what the library recommends for the newest GPUs */

/* Of the library's interface. */
enum { BLAS_AS_IS = 0, BLAS_TURNED = 1 };
enum { BLAS_NO_ATOMICS = 0, BLAS_PEDANTIC = 2 };

struct network_cublas {
	const struct sl_cuda_driver *driver;
	void *library;   /* NULL: not open */
	void *handle;    /* NULL: none */
	void *stream;    /* that the handle is set to */
	uint64_t memory; /* device address of the workspace; 0: none */

	int (*create)(void **handle);
	int (*destroy)(void *handle);
	int (*set_stream)(void *handle, void *stream);
	int (*set_workspace)(void *handle, void *workspace, size_t bytes);
	int (*set_math)(void *handle, int mode);
	int (*set_atomics)(void *handle, int mode);
	const char *(*status_text)(int status);
	int (*sgemm)(void *handle, int a_turned, int b_turned, int m, int n, int k,
		     const float *alpha, const float *a, int lda, const float *b, int ldb,
		     const float *beta, float *c, int ldc);
};

static int
library_open(struct workload_env *env, struct network_cublas *blas)
{
	const char *asked = getenv("SLUICE_CUBLAS_LIBRARY");
	const char *const places[] = {"libcublas.so.13", "libcublas.so.12",
				      "/usr/local/cuda/lib64/libcublas.so.13",
				      "/usr/local/cuda/lib64/libcublas.so.12"};
	unsigned n = sizeof(places) / sizeof(places[0]);
	char reason[256] = "";

	if (asked && *asked)
		blas->library = dlopen(asked, RTLD_NOW | RTLD_LOCAL);
	else
		for (unsigned i = 0; !blas->library && i < n; i++)
			blas->library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
	if (blas->library)
		return 0;
	snprintf(reason, sizeof(reason), "%s", dlerror());
	return workload_fail(
		env, -ENOTSUP,
		"network: on a GPU it multiplies matrices by cuBLAS, which cannot "
		"be opened (%s): install it (CUDA's libcublas 12 or 13), or let "
		"SLUICE_CUBLAS_LIBRARY name the file",
		reason);
}

static int
functions_find(struct workload_env *env, struct network_cublas *blas)
{
	const struct {
		const char *name;
		void **at;
	} functions[] = {
		{"cublasCreate_v2", (void **)&blas->create},
		{"cublasDestroy_v2", (void **)&blas->destroy},
		{"cublasSetStream_v2", (void **)&blas->set_stream},
		{"cublasSetWorkspace_v2", (void **)&blas->set_workspace},
		{"cublasSetMathMode", (void **)&blas->set_math},
		{"cublasSetAtomicsMode", (void **)&blas->set_atomics},
		{"cublasGetStatusString", (void **)&blas->status_text},
		{"cublasSgemm_v2", (void **)&blas->sgemm},
	};

	for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		*functions[i].at = dlsym(blas->library, functions[i].name);
		if (!*functions[i].at)
			return workload_fail(
				env, -ENOTSUP,
				"network: this cuBLAS has no %s: install one of "
				"CUDA 12 or 13",
				functions[i].name);
	}
	return 0;
}

static int
status_check(struct workload_env *env, const struct network_cublas *blas,
	     const char *what, int status)
{
	if (status == 0)
		return 0;
	return workload_fail(env, -EIO, "cuBLAS: %s: %s (%d)", what,
			     blas->status_text(status), status);
}

static int
handle_make(struct workload_env *env, struct network_cublas *blas)
{
	int rc = SL_CUDA(blas->driver, cuMemAlloc, &blas->memory, WORKSPACE_BYTES);

	if (rc)
		return workload_fail_library(env, rc, "the workspace of cuBLAS");
	rc = status_check(env, blas, "a handle", blas->create(&blas->handle));
	if (!rc)
		rc = status_check(env, blas, "precision",
				  blas->set_math(blas->handle, BLAS_PEDANTIC));
	if (!rc)
		rc = status_check(env, blas, "atomics",
				  blas->set_atomics(blas->handle, BLAS_NO_ATOMICS));
	return rc;
}

int
network_cublas_open(struct workload_env *env, const struct sl_cuda_driver *driver, void **out)
{
	struct network_cublas *blas = calloc(1, sizeof(*blas));
	int rc;

	if (!blas)
		return workload_fail(env, -ENOMEM, "network: out of memory");
	blas->driver = driver;
	rc = library_open(env, blas);
	if (!rc)
		rc = functions_find(env, blas);
	if (!rc)
		rc = handle_make(env, blas);
	if (rc) {
		network_cublas_close(blas);
		return rc;
	}
	*out = blas;
	return 0;
}

/* The library stays open: it has threads and state of its own. */
void
network_cublas_close(void *library)
{
	struct network_cublas *blas = library;

	if (!blas)
		return;
	if (blas->handle)
		(void)blas->destroy(blas->handle);
	if (blas->memory)
		(void)blas->driver->cuMemFree(blas->memory);
	free(blas);
}

/* A new stream takes the workspace away from the handle. */
static int
stream_set(struct workload_env *env, struct network_cublas *blas, void *stream)
{
	int rc;

	if (blas->stream == stream)
		return 0;
	rc = status_check(env, blas, "a stream", blas->set_stream(blas->handle, stream));
	if (!rc)
		rc = status_check(env, blas, "a workspace",
				  blas->set_workspace(blas->handle,
						      (void *)(uintptr_t)blas->memory,
						      WORKSPACE_BYTES));
	if (!rc)
		blas->stream = stream;
	return rc;
}

int
network_cublas_multiply(struct workload_env *env, void *library, const void *network_args,
			void *stream)
{
	const struct network_gemm_args *args = network_args;
	struct network_cublas *blas = library;
	const float one = 1.0f, beta = args->adds ? 1.0f : 0.0f;
	int rc = stream_set(env, blas, stream);

	if (rc)
		return rc;
	return status_check(env, blas, "a product",
			    blas->sgemm(blas->handle, args->b_turned ? BLAS_TURNED : BLAS_AS_IS,
					args->a_turned ? BLAS_TURNED : BLAS_AS_IS,
					(int)args->n, (int)args->m, (int)args->k, &one,
					args->b, (int)args->ldb, args->a, (int)args->lda,
					&beta, args->c, (int)args->ldc));
}
