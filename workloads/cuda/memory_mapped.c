/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run's memory as pinned host memory that kernels read and write over the link, with no copies at
 * all: nothing to manage, and every access of every launch pays for the link.
 *
 * Bytes are not counted: the hardware moves them as kernels touch them.
 *
 * Threads: that of workload_run(); one stream.
 */
#include <errno.h>
#include <stdlib.h>

#include "cuda_run.h"
#include "device/cuda/cuda_driver.h"

struct memory_mapped {
	struct workload_cuda *cuda;
	struct cu_stream *stream;
	uint64_t shift[WORKLOAD_ARRAYS_MAX];
};

static int
mapped_open(struct workload_env *env)
{
	struct memory_mapped *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return workload_fail(env, -ENOMEM, "out of memory");
	env->memory_state = m;
	rc = workload_cuda_open(env, env->config.device_number, &m->cuda);
	if (rc)
		return rc;
	rc = SL_CUDA(m->cuda->driver, cuStreamCreate, &m->stream, CU_STREAM_NONBLOCKING);
	return rc ? workload_fail_library(env, rc, "stream") : 0;
}

/* What fails here has been reported by what failed before it. */
static void
mapped_close(struct workload_env *env)
{
	struct memory_mapped *m = env->memory_state;
	unsigned i;

	if (!m)
		return;
	if (m->cuda) {
		if (m->stream) {
			(void)m->cuda->driver->cuStreamSynchronize(m->stream);
			(void)m->cuda->driver->cuStreamDestroy(m->stream);
		}
		for (i = 0; i < env->plan.n_arrays; i++)
			sl_ignore(workload_cuda_host_unmap(env, m->cuda, i));
		workload_cuda_close(m->cuda);
	}
	free(m);
	env->memory_state = NULL;
}

static int
mapped_map(struct workload_env *env, unsigned array, const char *path)
{
	struct memory_mapped *m = env->memory_state;
	uint64_t device;
	int rc = workload_cuda_host_map(env, m->cuda, array, path);

	if (rc)
		return rc;
	rc = SL_CUDA(m->cuda->driver, cuMemHostGetDevicePointer, &device,
		     env->base[array], 0);
	if (rc)
		return workload_fail_library(env, rc, env->plan.array[array].name);
	m->shift[array] = device - (uintptr_t)env->base[array];
	return 0;
}

static int
mapped_unmap(struct workload_env *env, unsigned array)
{
	struct memory_mapped *m = env->memory_state;

	return workload_cuda_host_unmap(env, m->cuda, array);
}

static int
mapped_launch(struct workload_env *env, const struct workload_kernel *kernel, uint64_t n,
	      const void *args, const struct sluice_use *uses, size_t n_uses)
{
	struct memory_mapped *m = env->memory_state;
	_Alignas(16) unsigned char moved[WORKLOAD_KERNEL_ARGS_MAX];
	int rc = workload_cuda_translate(env, kernel, args, m->shift, moved);

	(void)uses;
	(void)n_uses;
	return rc ? rc : workload_cuda_launch(env, m->cuda, kernel, n, moved, m->stream);
}

static int
mapped_wait(struct workload_env *env)
{
	struct memory_mapped *m = env->memory_state;
	int rc = SL_CUDA(m->cuda->driver, cuStreamSynchronize, m->stream);

	return rc ? workload_fail_library(env, rc, "run") : 0;
}

/* The driver bounds what is enqueued. */
static int
mapped_pace(struct workload_env *env)
{
	(void)env;
	return 0;
}

static int
mapped_round_begin(struct workload_env *env, enum workload_round round)
{
	(void)env;
	return round == WORKLOAD_ROUND_RESIDENT;
}

static int
mapped_round_end(struct workload_env *env, enum workload_round round)
{
	(void)env;
	(void)round;
	return 0;
}

const struct workload_memory_ops workload_memory_mapped = {
	.open = mapped_open,
	.close = mapped_close,
	.map = mapped_map,
	.sync = workload_cuda_host_sync,
	.unmap = mapped_unmap,
	.launch = mapped_launch,
	.wait = mapped_wait,
	.pace = mapped_pace,
	.discard = workload_no_discard,
	.pin = workload_no_pin,
	.unpin = workload_no_pin,
	.stats = workload_no_stats,
	.round_begin = mapped_round_begin,
	.round_end = mapped_round_end,
};
