/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs the workloads' kernels on a GPU: the driver opened at run time, a context, the kernels'
 * PTX loaded, launches. And host memory that a GPU can reach, for the kinds of memory without a
 * space: arrays read from their files and written back to them.
 *
 * Nothing here needs the CUDA toolkit. On the stand-in driver of the tests the kernels are the
 * software device's (standin.c).
 *
 * Threads: that of workload_run(); the context is made current on it.
 */
#ifndef WORKLOADS_CUDA_RUN_H
#define WORKLOADS_CUDA_RUN_H

#include "env.h"

#define WORKLOAD_CUDA_KERNELS_MAX 24u /* of one workload */

struct sl_cuda_driver;
struct cu_context;
struct cu_module;
struct cu_function;

struct workload_cuda {
	const struct sl_cuda_driver *driver;
	struct cu_context *context; /* NULL: not retained */
	int device;
	struct cu_module *module;
	struct cu_function *function[WORKLOAD_CUDA_KERNELS_MAX]; /* as workload->kernels */
	const struct workload_library *library; /* of one of the kernels, NULL: of none */
	void *library_state;                    /* NULL: no library, or the stand-in */
	void *bounce;                           /* pinned, WORKLOAD_HOST_COPY_MAX bytes */
};

/*
 * Open GPU number ordinal for the env's workload. *out: for workload_cuda_close(), which takes
 * NULL. Nothing may be running then.
 */
int workload_cuda_open(struct workload_env *env, unsigned ordinal,
		       struct workload_cuda **out) SLUICE_MUST_CHECK;
void workload_cuda_close(struct workload_cuda *cuda);

/* Enqueue a kernel of the env's workload over n elements; args: with addresses as the GPU is to
 * use them. */
int workload_cuda_launch(struct workload_env *env, struct workload_cuda *cuda,
			 const struct workload_kernel *kernel, uint64_t n,
			 const void *args, void *stream) SLUICE_MUST_CHECK;

/*
 * A copy of a kernel's arguments with every pointer into array a moved by shift[a] bytes (which
 * may wrap around).
 */
int workload_cuda_translate(struct workload_env *env,
			    const struct workload_kernel *kernel, const void *args,
			    const uint64_t *shift, void *out) SLUICE_MUST_CHECK;

/* workload_host_copy(), from the address of the first element on the device, in stream order; waits
 * for the stream. */
int workload_cuda_host_copy(struct workload_env *env, struct workload_cuda *cuda,
			    uint64_t device, uint64_t cols, uint64_t stride,
			    uint64_t rows, void *out, void *stream) SLUICE_MUST_CHECK;

/* The array that addr lies in, or plan.n_arrays. */
unsigned workload_array_of(const struct workload_env *env, const void *addr);

/* ---- host memory (cuda_host.c): some of a memory's operations ---- */

int workload_cuda_host_map(struct workload_env *env, struct workload_cuda *cuda,
			   unsigned array, const char *path) SLUICE_MUST_CHECK;
int workload_cuda_host_sync(struct workload_env *env, unsigned array) SLUICE_MUST_CHECK;
int workload_cuda_host_unmap(struct workload_env *env, struct workload_cuda *cuda,
			     unsigned array) SLUICE_MUST_CHECK;

/* ---- whole arrays on the device (cuda_host.c) ---- */

struct workload_cuda_array {
	uint64_t device; /* address; 0: none */
	int there;       /* 1: the device has what host memory has, or newer */
	int written;     /* 1: newer */
};

/* Memory for the array; free: fine after a failed make. */
int workload_cuda_array_make(struct workload_env *env, struct workload_cuda *cuda,
			     unsigned array, struct workload_cuda_array *a) SLUICE_MUST_CHECK;
void workload_cuda_array_free(struct workload_cuda *cuda, struct workload_cuda_array *a);

/* Before a launch with this intent on stream: copies it in if the launch needs that. */
int workload_cuda_array_use(struct workload_env *env, struct workload_cuda *cuda,
			    unsigned array, struct workload_cuda_array *a,
			    enum sluice_intent intent, void *stream) SLUICE_MUST_CHECK;

/* Enqueue copying the results that are newer on the device out to host memory. arrays: of all the
 * plan's. */
int workload_cuda_arrays_collect(struct workload_env *env, struct workload_cuda *cuda,
				 struct workload_cuda_array *arrays,
				 void *stream) SLUICE_MUST_CHECK;

static inline int
workload_intent_reads(enum sluice_intent intent)
{
	return intent != SLUICE_USE_WRITE_ALL && intent != SLUICE_USE_SCRATCH;
}

static inline int
workload_intent_writes(enum sluice_intent intent)
{
	return intent != SLUICE_USE_READ && intent != SLUICE_USE_SCRATCH;
}

/* ---- the stand-in driver (standin.c) ---- */

/* 1: the library at path is the stand-in, and every workload's kernels are registered with it. */
int workload_standin_register(const char *path);

#endif
