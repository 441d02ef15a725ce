/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run's memory as a Sluice space: the workloads' services of env.h in terms of the public API.
 * One stream carries all launches, discards and events of a run.
 *
 * pace() keeps at most PACE_LAUNCHES tiles enqueued and not done: enough for the library to see
 * what comes next, few enough that progress is real and a cancelled run ends soon.
 *
 * Threads: that of workload_run(); kernels run on the space's workers.
 */
#include "env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PACE_LAUNCHES 4

struct memory_sluice {
	struct sluice_space *space;
	struct sluice_stream *stream;
	struct sluice_event *event[PACE_LAUNCHES]; /* a ring */
	unsigned next_event;
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
	for (i = 0; !rc && i < PACE_LAUNCHES; i++)
		rc = sluice_event_create(m->space, &m->event[i]);
	if (rc)
		return workload_fail_library(env, rc, "stream");
	return 0;
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
	for (i = 0; i < PACE_LAUNCHES; i++)
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
	int rc = sluice_sync(m->space, env->base[array], 0);

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
space_launch(struct workload_env *env, sluice_kernel kernel, uint32_t blocks,
	     const void *args, size_t args_bytes, const struct sluice_use *uses,
	     size_t n_uses)
{
	struct memory_sluice *m = env->memory_state;
	struct sluice_grid grid = {.x = blocks, .y = 1, .z = 1};
	int rc = sluice_launch(m->space, m->stream, kernel, grid, args, args_bytes, uses,
			       n_uses);

	return rc ? workload_fail_library(env, rc, "launch") : 0;
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

	sluice_event_synchronize(event); /* of PACE_LAUNCHES tiles ago */
	rc = sluice_event_record(m->space, m->stream, event);
	m->next_event = (m->next_event + 1) % PACE_LAUNCHES;
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
};
