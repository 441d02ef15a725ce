/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a workload that workload_run() does not have, by the same steps (workloads/env.h): with
 * files read as a whole, over the memory of suite_copies.c; and comparing what a run left with the
 * reference, as a step of its own, because a reference needs more memory than the run was allowed.
 *
 * Threads: those of the memory; else the caller's.
 */
#include "suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "env.h"

uint64_t suite_copies_link_bytes_per_s;

static int
env_open(struct workload_env **out, const struct workload *workload,
	 const struct workload_params *params, struct workload_result *result)
{
	struct workload_env *env = calloc(1, sizeof(*env));
	int rc;

	if (!env) {
		snprintf(result->error, sizeof(result->error), "out of memory");
		return -ENOMEM;
	}
	env->workload = workload;
	env->params = params;
	env->result = result;
	env->lock_fd = -1;
	env->config = params->config;
	env->memory = &suite_memory_copies;
	rc = workload_plan_make(workload, params, &env->plan, result->error);
	if (!rc)
		rc = workload_files_open(env);
	if (rc) {
		free(env);
		return rc;
	}
	*out = env;
	return 0;
}

static void
env_close(struct workload_env *env)
{
	workload_files_close(env);
	free(env);
}

static void
plan_note(struct workload_result *result, const struct workload_plan *plan)
{
	result->plan.footprint_bytes = plan->footprint_bytes;
	result->plan.rows = plan->rows;
	result->plan.cols = plan->cols;
	result->plan.window_bytes = plan->window_bytes;
	for (unsigned i = 0; i < plan->n_arrays; i++) {
		enum workload_role role = plan->array[i].role;
		uint64_t bytes = plan->array[i].size_bytes;

		if (role == WORKLOAD_INPUT || role == WORKLOAD_IN_PLACE)
			result->input_bytes += bytes;
		if (role == WORKLOAD_OUTPUT || role == WORKLOAD_IN_PLACE)
			result->output_bytes += bytes;
	}
}

static int
arrays_each(struct workload_env *env, int (*call)(struct workload_env *env, unsigned array))
{
	int rc = 0;

	for (unsigned i = 0; !rc && i < env->plan.n_arrays; i++)
		rc = call(env, i);
	return rc;
}

static int
array_map(struct workload_env *env, unsigned array)
{
	char path[PATH_MAX];
	int rc = workload_file_path(env, array, path, sizeof(path));

	return rc ? rc : env->memory->map(env, array, path);
}

static int
env_run(struct workload_env *env)
{
	struct workload_result *result = env->result;
	uint64_t t0 = workload_now_ns(), t1;
	int rc = env->memory->open(env);

	if (!rc)
		rc = arrays_each(env, array_map);
	t1 = workload_now_ns();
	result->map_ns = t1 - t0;
	if (!rc)
		rc = env->workload->ops->run(env);
	if (!rc)
		rc = env->memory->wait(env);
	t0 = workload_now_ns();
	result->run_ns = t0 - t1;
	result->config = env->config;
	env->memory->stats(env, &result->before_sync);
	if (!rc)
		rc = arrays_each(env, env->memory->sync);
	if (!rc)
		rc = arrays_each(env, env->memory->unmap);
	result->unmap_ns = workload_now_ns() - t0;
	env->memory->stats(env, &result->after);
	env->memory->close(env);
	result->h2d_bytes = sluice_stats_h2d_bytes(&result->before_sync);
	result->d2h_bytes = sluice_stats_d2h_bytes(&result->before_sync);
	result->total_ns = result->map_ns + result->run_ns + result->unmap_ns;
	return rc;
}

int
suite_copies_run(const struct workload *workload, const struct workload_params *params,
		 uint64_t link_bytes_per_s, struct workload_result *result)
{
	struct workload_env *env;
	int rc;

	memset(result, 0, sizeof(*result));
	suite_copies_link_bytes_per_s = link_bytes_per_s;
	rc = env_open(&env, workload, params, result);
	if (rc)
		return rc;
	plan_note(result, &env->plan);
	rc = workload_files_room(env);
	if (!rc)
		rc = workload_files_generate(env);
	if (!rc) {
		workload_files_spoil(env);
		workload_files_drop_cache(env);
		rc = env_run(env);
	}
	env_close(env);
	return rc;
}

int
suite_verify(const struct workload *workload, const struct workload_params *params,
	     const struct sluice_config *config, struct workload_result *result)
{
	struct workload_env *env;
	int rc = env_open(&env, workload, params, result);

	if (rc)
		return rc;
	env->config = *config;
	rc = workload->ops->reference(env);
	if (rc >= 0) {
		result->verdict = rc ? WORKLOAD_WRONG : WORKLOAD_VERIFIED;
		rc = 0;
	}
	env_close(env);
	return rc;
}
