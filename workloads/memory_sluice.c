/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run's memory as a Sluice space: the workloads' services of env.h in terms of the public API.
 * One stream carries all launches, discards and events of a run. On a GPU the kernels are enqueued
 * by ourselves, through cuda/cuda_run.c, between the begin and the end of a launch; files are read
 * in the first round, the measured one begins with all data in the host tier.
 *
 * pace() keeps at most PACE_EVENTS tiles enqueued and not done: enough for the library to see what
 * comes next, few enough that progress is real and a cancelled run ends soon. On a GPU tiles are short,
 * and their moves are enqueued when they are: as many times PACE_TILES_CUDA, with one event behind so
 * many, since an event between two kernels costs time where all data are there.
 *
 * Threads: that of workload_run(); kernels run on the space's workers.
 */
#include "env.h"

#include "cuda_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PACE_EVENTS     4
#define PACE_TILES_CUDA 8 /* between two events */

struct memory_sluice {
	struct sluice_space *space;
	struct sluice_stream *stream;
	struct workload_cuda *cuda;              /* NULL: the software device */
	struct sluice_event *event[PACE_EVENTS]; /* a ring */
	unsigned next_event;
	unsigned tiles, event_tiles; /* since the last event; of one */
};

static int
space_open(struct workload_env *env)
{
	struct memory_sluice *m = calloc(1, sizeof(*m));
	unsigned i;
	int rc;

	if (!m)
		return workload_fail(env, -ENOMEM, "out of memory");
	env->memory_state = m;
	rc = sluice_space_create(&env->params->config, &m->space);
	if (rc)
		return workload_fail_library(env, rc, "space");
	sluice_space_config(m->space, &env->config);
	if (env->params->on_space_made)
		env->params->on_space_made(env->params->arg, m->space);
	rc = sluice_stream_create(m->space, &m->stream);
	m->event_tiles = env->config.device == SLUICE_DEVICE_CUDA ? PACE_TILES_CUDA : 1;
	for (i = 0; !rc && i < PACE_EVENTS; i++)
		rc = sluice_event_create(m->space, &m->event[i]);
	if (rc)
		return workload_fail_library(env, rc, "stream");
	return 0;
}

static int
space_open_cuda(struct workload_env *env)
{
	struct memory_sluice *m;
	int rc = space_open(env);

	if (rc)
		return rc;
	m = env->memory_state;
	return workload_cuda_open(env, env->config.device_number, &m->cuda);
}

static void
space_close(struct workload_env *env)
{
	struct memory_sluice *m = env->memory_state;
	unsigned i;

	if (!m)
		return;
	if (m->stream)
		sluice_stream_destroy(m->stream);
	workload_cuda_close(m->cuda);
	for (i = 0; i < PACE_EVENTS; i++)
		if (m->event[i])
			sluice_event_destroy(m->event[i]);
	if (m->space) {
		if (env->params->on_space_ending)
			env->params->on_space_ending(env->params->arg, m->space);
		/* After a run that succeeded nothing is mapped and nothing can fail; after one
		 * that failed the first error is the one that counts. */
		(void)sluice_space_destroy(m->space);
	}
	free(m);
	env->memory_state = NULL;
}

static int
space_map(struct workload_env *env, unsigned array, const char *path)
{
	struct memory_sluice *m = env->memory_state;
	const struct workload_array *a = &env->plan.array[array];
	int rc;

	if (a->role == WORKLOAD_ANONYMOUS)
		rc = sluice_alloc(m->space, a->size_bytes, 0, &env->base[array]);
	else
		rc = sluice_map(m->space, path, 0, a->size_bytes, a->flags,
				&env->base[array]);
	return rc ? workload_fail_library(env, rc, a->name) : 0;
}

static int
space_sync(struct workload_env *env, unsigned array)
{
	struct memory_sluice *m = env->memory_state;
	int rc = sluice_sync(m->space, env->base[array], SLUICE_TO_END);

	return rc ? workload_fail_library(env, rc, env->plan.array[array].name) : 0;
}

static int
space_unmap(struct workload_env *env, unsigned array)
{
	struct memory_sluice *m = env->memory_state;
	int rc = sluice_unmap(m->space, env->base[array]);

	return rc ? workload_fail_library(env, rc, env->plan.array[array].name) : 0;
}

static int
space_launch(struct workload_env *env, const struct workload_kernel *kernel, uint64_t n,
	     const void *args, const struct sluice_use *uses, size_t n_uses)
{
	struct memory_sluice *m = env->memory_state;
	struct sluice_grid grid = {.x = workload_soft_blocks(kernel, n), .y = 1, .z = 1};
	struct workload_soft_args soft;
	size_t bytes = workload_soft_make(&soft, kernel, n, args);
	int rc = sluice_launch(m->space, m->stream, workload_soft_block, grid, &soft,
			       bytes, uses, n_uses);

	return rc ? workload_fail_library(env, rc, "launch") : 0;
}

static int
space_launch_cuda(struct workload_env *env, const struct workload_kernel *kernel,
		  uint64_t n, const void *args, const struct sluice_use *uses, size_t n_uses)
{
	struct memory_sluice *m = env->memory_state;
	struct sluice_launch *launch;
	int rc = sluice_launch_begin(m->space, m->stream, uses, n_uses, &launch);

	if (rc)
		return workload_fail_library(env, rc, "launch");
	rc = workload_cuda_launch(env, m->cuda, kernel, n, args,
				  sluice_stream_native(m->space, m->stream));
	sluice_launch_end(launch);
	return rc;
}

static int
space_wait(struct workload_env *env)
{
	struct memory_sluice *m = env->memory_state;
	int rc = sluice_stream_synchronize(m->space, m->stream);

	return rc ? workload_fail_library(env, rc, "run") : 0;
}

static int
space_pace(struct workload_env *env)
{
	struct memory_sluice *m = env->memory_state;
	struct sluice_event *event = m->event[m->next_event];
	int rc;

	if (++m->tiles < m->event_tiles)
		return 0;
	m->tiles = 0;
	sluice_event_synchronize(event); /* of PACE_EVENTS events ago */
	rc = sluice_event_record(m->space, m->stream, event);
	m->next_event = (m->next_event + 1) % PACE_EVENTS;
	return rc ? workload_fail_library(env, rc, "event") : 0;
}

static int
space_discard(struct workload_env *env, void *addr, size_t bytes, enum sluice_discard_mode mode)
{
	struct memory_sluice *m = env->memory_state;
	int rc = sluice_discard(m->space, addr, bytes, mode, m->stream);

	return rc ? workload_fail_library(env, rc, "discard") : 0;
}

static int
space_pin(struct workload_env *env, void *addr, size_t bytes)
{
	struct memory_sluice *m = env->memory_state;
	int rc = sluice_pin(m->space, addr, bytes);

	return rc ? workload_fail_library(env, rc, "pin") : 0;
}

static int
space_unpin(struct workload_env *env, void *addr, size_t bytes)
{
	struct memory_sluice *m = env->memory_state;
	int rc = sluice_unpin(m->space, addr, bytes);

	return rc ? workload_fail_library(env, rc, "unpin") : 0;
}

static void
space_stats(struct workload_env *env, struct sluice_stats *out)
{
	struct memory_sluice *m = env->memory_state;

	sluice_stats_get(m->space, out);
}

static int
space_prefetch_index(struct workload_env *env, unsigned array, uint64_t element_bytes,
		     const uint64_t *index, size_t n)
{
	struct memory_sluice *m = env->memory_state;
	int rc = sluice_prefetch_index(m->space, env->base[array], element_bytes, index,
				       n, SLUICE_TIER_DEVICE, NULL);

	return rc ? workload_fail_library(env, rc, env->plan.array[array].name) : 0;
}

static int
space_is_resident(struct workload_env *env, const struct sluice_use *uses, size_t n_uses,
		  int *out)
{
	struct memory_sluice *m = env->memory_state;
	struct sluice_residency now;
	int all = 1;

	for (size_t i = 0; i < n_uses; i++) {
		int rc = sluice_residency(m->space, uses[i].addr, uses[i].size_bytes, &now);

		if (rc)
			return workload_fail_library(env, rc, "residency");
		if (now.tier_bytes[SLUICE_TIER_DEVICE] != uses[i].size_bytes ||
		    now.in_flight_bytes)
			all = 0;
	}
	*out = all;
	return 0;
}

/* Straight from the device: a touch by host code would take whole chunks off it. */
static int
space_host_copy_cuda(struct workload_env *env, unsigned array, uint64_t first,
		     uint64_t cols, uint64_t stride, uint64_t rows, void *out)
{
	struct memory_sluice *m = env->memory_state;
	struct sluice_use use = workload_use(env, array, first,
					     (rows - 1) * stride + cols, SLUICE_USE_READ);
	struct sluice_launch *launch;
	int rc = sluice_launch_begin(m->space, m->stream, &use, 1, &launch);

	if (rc)
		return workload_fail_library(env, rc, "copy to host code");
	rc = workload_cuda_host_copy(env, m->cuda, (uintptr_t)use.addr, cols, stride,
				     rows, out, sluice_stream_native(m->space, m->stream));
	sluice_launch_end(launch);
	return rc;
}

/* Whether a second round finds everything on the device: all arrays fit in the budget at once, and
 * none was discarded. */
static int
footprint_stays(const struct workload_env *env)
{
	uint64_t chunk = env->config.large_chunk_bytes > env->config.chunk_bytes
				 ? env->config.large_chunk_bytes
				 : env->config.chunk_bytes;
	uint64_t bytes = 0;
	unsigned i;

	for (i = 0; i < env->plan.n_arrays; i++) {
		if (env->plan.array[i].discarded)
			return 0;
		bytes += (env->plan.array[i].size_bytes + chunk - 1) / chunk * chunk;
	}
	return bytes <= env->config.device_budget_bytes;
}

/*
 * The whole array to the host tier. What host code has written lies in its view until it is used:
 * a way over the device, in pieces, puts it where the other data are.
 */
static int
array_to_host(struct workload_env *env, unsigned array, int over_device)
{
	struct memory_sluice *m = env->memory_state;
	const struct workload_array *a = &env->plan.array[array];
	uint64_t step = over_device ? env->config.device_budget_bytes / 4 : a->size_bytes;
	uint64_t at;
	int rc = 0;

	if (step < env->config.large_chunk_bytes)
		step = env->config.large_chunk_bytes;
	for (at = 0; !rc && at < a->size_bytes; at += step) {
		char *addr = (char *)env->base[array] + at;
		uint64_t bytes = a->size_bytes - at < step ? a->size_bytes - at : step;
		struct sluice_use use = {addr, bytes, SLUICE_USE_READ};
		struct sluice_launch *launch;

		if (over_device) {
			rc = sluice_launch_begin(m->space, m->stream, &use, 1, &launch);
			if (!rc) {
				sluice_launch_end(launch);
				rc = sluice_stream_synchronize(m->space, m->stream);
			}
		}
		if (!rc)
			rc = sluice_evict(m->space, addr, bytes, SLUICE_TIER_HOST, NULL);
	}
	return rc ? workload_fail_library(env, rc, a->name) : 0;
}

/* An array that the last round discarded, from its file again. */
static int
array_renew(struct workload_env *env, unsigned array)
{
	char path[PATH_MAX];
	int rc = workload_file_path(env, array, path, sizeof(path));

	if (!rc)
		rc = space_unmap(env, array);
	if (rc)
		return rc;
	env->base[array] = NULL;
	return space_map(env, array, path);
}

/* What the last round made: results and intermediate data are not there before the next one. */
static int
array_forget(struct workload_env *env, unsigned array)
{
	struct memory_sluice *m = env->memory_state;
	const struct workload_array *a = &env->plan.array[array];
	int rc = sluice_discard(m->space, env->base[array], a->size_bytes,
				SLUICE_DISCARD_EAGER, NULL);

	return rc ? workload_fail_library(env, rc, a->name) : 0;
}

static int
array_is_made(const struct workload_array *array)
{
	switch (array->role) {
	case WORKLOAD_OUTPUT:
	case WORKLOAD_VOLATILE:
	case WORKLOAD_ANONYMOUS:
		return 1;
	case WORKLOAD_INPUT:
	case WORKLOAD_IN_PLACE:
	case WORKLOAD_ROLE_COUNT:
		break;
	}
	return 0;
}

static int
space_round_begin(struct workload_env *env, enum workload_round round)
{
	struct memory_sluice *m = env->memory_state;
	unsigned i;
	int rc = 0;

	switch (round) {
	case WORKLOAD_ROUND_WARM:
	case WORKLOAD_ROUND_COUNT:
		return 0;
	case WORKLOAD_ROUND_RESIDENT:
		return footprint_stays(env) ? 0 : 1;
	case WORKLOAD_ROUND_MEASURED:
		for (i = 0; !rc && i < env->plan.n_arrays; i++) {
			int discarded = env->plan.array[i].discarded;

			rc = discarded ? array_renew(env, i) : 0;
			if (!rc && array_is_made(&env->plan.array[i]))
				rc = array_forget(env, i);
			else if (!rc)
				rc = array_to_host(env, i,
						   discarded || env->pristine[i] != NULL);
		}
		sluice_stats_reset(m->space);
		return rc;
	}
	return 0;
}

static int
space_round_end(struct workload_env *env, enum workload_round round)
{
	struct memory_sluice *m = env->memory_state;
	struct workload_result *result = env->result;
	struct sluice_stats stats;
	unsigned i;
	int rc = 0;

	if (round != WORKLOAD_ROUND_MEASURED)
		return 0;
	result->h2d_bytes = sluice_stats_h2d_bytes(&result->before_sync);
	result->d2h_bytes = sluice_stats_d2h_bytes(&result->before_sync);
	for (i = 0; !rc && i < env->plan.n_arrays; i++)
		if (env->plan.array[i].role == WORKLOAD_OUTPUT ||
		    env->plan.array[i].role == WORKLOAD_IN_PLACE)
			rc = array_to_host(env, i, 0);
	sluice_stats_get(m->space, &stats);
	result->collect_bytes = sluice_stats_d2h_bytes(&stats) - result->d2h_bytes;
	return rc;
}

const struct workload_memory_ops workload_memory_sluice_cuda = {
	.open = space_open_cuda,
	.close = space_close,
	.map = space_map,
	.sync = space_sync,
	.unmap = space_unmap,
	.launch = space_launch_cuda,
	.wait = space_wait,
	.pace = space_pace,
	.discard = space_discard,
	.pin = space_pin,
	.unpin = space_unpin,
	.stats = space_stats,
	.prefetch_index = space_prefetch_index,
	.is_resident = space_is_resident,
	.host_copy = space_host_copy_cuda,
	.round_begin = space_round_begin,
	.round_end = space_round_end,
};

const struct workload_memory_ops workload_memory_sluice = {
	.open = space_open,
	.close = space_close,
	.map = space_map,
	.sync = space_sync,
	.unmap = space_unmap,
	.launch = space_launch,
	.wait = space_wait,
	.pace = space_pace,
	.discard = space_discard,
	.pin = space_pin,
	.unpin = space_unpin,
	.stats = space_stats,
	.prefetch_index = space_prefetch_index,
	.is_resident = space_is_resident,
};
