/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run's memory as plain device memory and explicit copies: every array is on the device, what
 * kernels read is copied in before the first launch that does, results are copied out at the end.
 * It heeds no budget and so is the ideal that a space is compared with; where the device has no
 * room, it fails and says so.
 *
 * In the resident round everything is there already; events around the launches, from one wait to
 * the next, give the time that the kernels alone take.
 *
 * Threads: that of workload_run(); one stream.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cuda_run.h"
#include "device/cuda/cuda_driver.h"

struct memory_copies {
	struct workload_cuda *cuda;
	struct cu_stream *stream;
	struct cu_event *begin, *end; /* of the launches between two waits */
	int timing;                   /* 1: the resident round */
	int begun;                    /* 1: begin has been recorded since the last wait */
	struct workload_cuda_array array[WORKLOAD_ARRAYS_MAX];
	uint64_t shift[WORKLOAD_ARRAYS_MAX];
};

static int
copies_open(struct workload_env *env)
{
	struct memory_copies *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return workload_fail(env, -ENOMEM, "out of memory");
	env->memory_state = m;
	rc = workload_cuda_open(env, env->config.device_number, &m->cuda);
	if (rc)
		return rc;
	rc = SL_CUDA(m->cuda->driver, cuStreamCreate, &m->stream, CU_STREAM_NONBLOCKING);
	if (!rc)
		rc = SL_CUDA(m->cuda->driver, cuEventCreate, &m->begin, CU_EVENT_PLAIN);
	if (!rc)
		rc = SL_CUDA(m->cuda->driver, cuEventCreate, &m->end, CU_EVENT_PLAIN);
	return rc ? workload_fail_library(env, rc, "stream") : 0;
}

/* What fails here has been reported by what failed before it. */
static void
copies_close(struct workload_env *env)
{
	struct memory_copies *m = env->memory_state;
	const struct sl_cuda_driver *driver;
	unsigned i;

	if (!m)
		return;
	if (m->cuda) {
		driver = m->cuda->driver;
		if (m->stream) {
			(void)driver->cuStreamSynchronize(m->stream);
			(void)driver->cuStreamDestroy(m->stream);
		}
		if (m->begin)
			(void)driver->cuEventDestroy(m->begin);
		if (m->end)
			(void)driver->cuEventDestroy(m->end);
		for (i = 0; i < env->plan.n_arrays; i++) {
			workload_cuda_array_free(m->cuda, &m->array[i]);
			sl_ignore(workload_cuda_host_unmap(env, m->cuda, i));
		}
		workload_cuda_close(m->cuda);
	}
	free(m);
	env->memory_state = NULL;
}

static int
copies_map(struct workload_env *env, unsigned array, const char *path)
{
	struct memory_copies *m = env->memory_state;
	int rc = workload_cuda_host_map(env, m->cuda, array, path);

	if (!rc)
		rc = workload_cuda_array_make(env, m->cuda, array, &m->array[array]);
	/* What kernels leave alone in an output is as in host memory. Before anything is counted. */
	if (!rc && env->plan.array[array].role == WORKLOAD_OUTPUT) {
		rc = SL_CUDA(m->cuda->driver, cuMemcpyHtoDAsync, m->array[array].device,
			     env->base[array], env->plan.array[array].size_bytes, m->stream);
		if (rc)
			rc = workload_fail_library(env, rc, env->plan.array[array].name);
	}
	if (!rc)
		m->shift[array] = m->array[array].device - (uintptr_t)env->base[array];
	return rc;
}

static int
copies_unmap(struct workload_env *env, unsigned array)
{
	struct memory_copies *m = env->memory_state;

	workload_cuda_array_free(m->cuda, &m->array[array]);
	return workload_cuda_host_unmap(env, m->cuda, array);
}

static int
copies_launch(struct workload_env *env, const struct workload_kernel *kernel, uint64_t n,
	      const void *args, const struct sluice_use *uses, size_t n_uses)
{
	struct memory_copies *m = env->memory_state;
	_Alignas(16) unsigned char moved[WORKLOAD_KERNEL_ARGS_MAX];
	size_t i;
	int rc;

	rc = workload_cuda_translate(env, kernel, args, m->shift, moved);
	for (i = 0; !rc && i < n_uses; i++) {
		unsigned array = workload_array_of(env, uses[i].addr);

		rc = workload_cuda_array_use(env, m->cuda, array, &m->array[array],
					     uses[i].intent, m->stream);
	}
	if (!rc && m->timing && !m->begun) {
		rc = SL_CUDA(m->cuda->driver, cuEventRecord, m->begin, m->stream);
		m->begun = 1;
		if (rc)
			return workload_fail_library(env, rc, "event");
	}
	return rc ? rc : workload_cuda_launch(env, m->cuda, kernel, n, moved, m->stream);
}

static int
copies_wait(struct workload_env *env)
{
	struct memory_copies *m = env->memory_state;
	const struct sl_cuda_driver *driver = m->cuda->driver;
	float ms = 0;
	int rc = 0;

	if (m->begun)
		rc = SL_CUDA(driver, cuEventRecord, m->end, m->stream);
	if (!rc)
		rc = SL_CUDA(driver, cuStreamSynchronize, m->stream);
	if (!rc && m->begun)
		rc = SL_CUDA(driver, cuEventElapsedTime, &ms, m->begin, m->end);
	env->result->kernel_ns += (uint64_t)((double)ms * 1e6);
	m->begun = 0;
	return rc ? workload_fail_library(env, rc, "run") : 0;
}

/* The driver bounds what is enqueued. */
static int
copies_pace(struct workload_env *env)
{
	(void)env;
	return 0;
}

static int
copies_host_copy(struct workload_env *env, unsigned array, uint64_t first, uint64_t cols,
		 uint64_t stride, uint64_t rows, void *out)
{
	struct memory_copies *m = env->memory_state;
	int rc = workload_cuda_array_use(env, m->cuda, array, &m->array[array],
					 SLUICE_USE_READ, m->stream);

	if (rc)
		return rc;
	env->result->d2h_bytes += rows * cols * 4;
	return workload_cuda_host_copy(env, m->cuda, m->array[array].device + first * 4,
				       cols, stride, rows, out, m->stream);
}

static int
copies_round_begin(struct workload_env *env, enum workload_round round)
{
	struct memory_copies *m = env->memory_state;
	unsigned i;

	env->result->h2d_bytes = env->result->d2h_bytes = env->result->collect_bytes = 0;
	m->timing = round == WORKLOAD_ROUND_RESIDENT;
	if (!m->timing)
		for (i = 0; i < env->plan.n_arrays; i++)
			m->array[i].there = m->array[i].written = 0;
	return 0;
}

static int
copies_round_end(struct workload_env *env, enum workload_round round)
{
	struct memory_copies *m = env->memory_state;
	int rc;

	if (round != WORKLOAD_ROUND_MEASURED)
		return 0;
	rc = workload_cuda_arrays_collect(env, m->cuda, m->array, m->stream);
	return rc ? rc : copies_wait(env);
}

const struct workload_memory_ops workload_memory_copies = {
	.open = copies_open,
	.close = copies_close,
	.map = copies_map,
	.sync = workload_cuda_host_sync,
	.unmap = copies_unmap,
	.launch = copies_launch,
	.wait = copies_wait,
	.pace = copies_pace,
	.discard = workload_no_discard,
	.pin = workload_no_pin,
	.unpin = workload_no_pin,
	.stats = workload_no_stats,
	.host_copy = copies_host_copy,
	.round_begin = copies_round_begin,
	.round_end = copies_round_end,
};
