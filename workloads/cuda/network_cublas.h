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
#ifndef WORKLOADS_CUDA_NETWORK_CUBLAS_H
#define WORKLOADS_CUDA_NETWORK_CUBLAS_H

#include "env.h"

struct sl_cuda_driver;
struct network_cublas;
struct network_gemm_args;

/*
 * *out: for network_cublas_close(), which takes NULL; before the context goes. Takes some tens of
 * MiB of device memory beside any budget. Errors: -ENOTSUP (the run's error text says what to
 * install), -ENOMEM, what the driver says.
 */
int network_cublas_open(struct workload_env *env, const struct sl_cuda_driver *driver,
			struct network_cublas **out) SLUICE_MUST_CHECK;
void network_cublas_close(struct network_cublas *blas);

/* Enqueue a product; args: with addresses as the GPU is to use them. Does not wait. */
int network_cublas_multiply(struct workload_env *env, struct network_cublas *blas,
			    const struct network_gemm_args *args,
			    void *stream) SLUICE_MUST_CHECK;

#endif
