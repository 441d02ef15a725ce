/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of a workload that workload_run() does not have, by the same steps (workloads/env.h): with
 * files read as a whole, over the memory of suite_copies.c; and comparing what a run left with the
 * reference, as a step of its own, because a reference needs more memory than the run was allowed.
 * A reference takes longer than many a run: what has the same bytes as a run that was compared is not
 * compared again.
 *
 * Threads: those of the memory; else the caller's.
 */
#include "suite.h"

#include <errno.h>
#include <stdio.h>
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

#define HASH_ELEMENTS (256u << 10) /* of a file at a time */

/* Four sums side by side, each of its own words: as fast as memory. */
static void
words_hash(const uint64_t *words, size_t n, uint64_t sum[4])
{
	for (size_t i = 0; i + 4 <= n; i += 4)
		for (unsigned k = 0; k < 4; k++) {
			sum[k] = (sum[k] ^ words[i + k]) * 0x9e3779b97f4a7c15u;
			sum[k] ^= sum[k] >> 32;
		}
}

static int
file_hash(struct workload_env *env, unsigned array, uint64_t *buffer, uint64_t sum[4])
{
	uint64_t elements = env->plan.array[array].size_bytes / 4;
	int rc = 0;

	for (uint64_t first = 0; !rc && first < elements; first += HASH_ELEMENTS) {
		size_t n = elements - first < HASH_ELEMENTS ? (size_t)(elements - first)
							    : HASH_ELEMENTS;

		memset(buffer + n / 2 / 4 * 4, 0, 4 * sizeof(*buffer)); /* behind the last */
		rc = workload_file_read(env, array, first, n, buffer);
		words_hash(buffer, (n / 2 + 4) / 4 * 4, sum);
	}
	return rc;
}

/* Of all results; never 0. */
static int
outputs_hash(struct workload_env *env, uint64_t *out)
{
	uint64_t sum[4] = {1, 2, 3, 4};
	uint64_t *buffer = calloc(HASH_ELEMENTS / 2 + 8, sizeof(*buffer));
	int rc = 0;

	if (!buffer)
		return workload_fail(env, -ENOMEM, "out of memory");
	for (unsigned i = 0; !rc && i < env->plan.n_arrays; i++) {
		enum workload_role role = env->plan.array[i].role;

		if (role == WORKLOAD_OUTPUT || role == WORKLOAD_IN_PLACE)
			rc = file_hash(env, i, buffer, sum);
	}
	free(buffer);
	*out = (sum[0] ^ sum[1] * 3 ^ sum[2] * 5 ^ sum[3] * 7) | 1;
	return rc;
}

int
suite_verify(const struct workload *workload, const struct workload_params *params,
	     const struct sluice_config *config, uint64_t known, uint64_t *hash,
	     struct workload_result *result)
{
	struct workload_env *env;
	int rc = env_open(&env, workload, params, result);

	if (rc)
		return rc;
	env->config = *config;
	rc = outputs_hash(env, hash);
	if (!rc && known && *hash == known) {
		result->verdict = WORKLOAD_VERIFIED;
		env_close(env);
		return 0;
	}
	if (!rc)
		rc = workload->ops->reference(env);
	if (rc >= 0) {
		result->verdict = rc ? WORKLOAD_WRONG : WORKLOAD_VERIFIED;
		rc = 0;
	}
	env_close(env);
	return rc;
}
