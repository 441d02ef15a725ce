/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network on a GPU: products of matrices by cuBLAS, opened at run time, so that nothing else needs
 * it and no toolkit is needed to build. Found by the loader as libcublas.so.13 or .12, or in CUDA's
 * usual folder; SLUICE_CUBLAS_LIBRARY in the environment names it otherwise.
 *
 * A product is enqueued on the stream of its launch. It gives the same bits every time: single
 * precision without shortcuts, no atomic additions, a workspace that is ours.
 *
 * Threads: that of workload_run(), with the context current.
 */
#ifndef PAPERS_NETWORK_CUBLAS_H
#define PAPERS_NETWORK_CUBLAS_H

#include "env.h"

/*
 * A struct workload_library's functions. open: takes some tens of MiB of device memory beside any
 * budget. Errors: -ENOTSUP (the run's error text says what to install), -ENOMEM, what the driver
 * says. multiply: args is a struct network_gemm_args.
 */
int network_cublas_open(struct workload_env *env, const struct sl_cuda_driver *driver,
			void **out) SLUICE_MUST_CHECK;
void network_cublas_close(void *library);
int network_cublas_multiply(struct workload_env *env, void *library, const void *args,
			    void *stream) SLUICE_MUST_CHECK;

#endif
