/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a workload from plan to verdict, and the services that a workload's own code calls
 * (env.h). The order is always: plan, files, generate, memory, map, kernels, counters, sync,
 * unmap, counters again, verify, files away. Every step can fail; what was begun is then undone
 * in reverse, and the first error is the one reported.
 *
 * Leaves files to files.c, memory and launches to memory_*.c, sizes and arithmetic to the
 * workload.
 *
 * Threads: that of the caller. Kernels run on threads of the memory.
 */
#include "env.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHUNK_BYTES_DEFAULT (2ull << 20)
#define FOOTPRINT_DEFAULT   (512ull << 20)
#define FOOTPRINT_MAX       (1ull << 46)
#define LARGE_REGION_CHUNKS 16 /* of a region from which on it has large chunks */

static const struct workload_memory_ops *const memory_kinds[WORKLOAD_MEMORY_COUNT] = {
	[WORKLOAD_MEMORY_SLUICE] = &workload_memory_sluice,
	[WORKLOAD_MEMORY_MMAP] = &workload_memory_mmap,
	[WORKLOAD_MEMORY_COPIES] = &workload_memory_copies,
	[WORKLOAD_MEMORY_STREAMING] = &workload_memory_streaming,
	[WORKLOAD_MEMORY_MAPPED] = &workload_memory_mapped,
};

int
workload_fail(struct workload_env *env, int rc, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(env->result->error, sizeof(env->result->error), fmt, ap);
	va_end(ap);
	return rc;
}

int
workload_fail_budget(struct workload_env *env, const char *what, uint64_t need, uint64_t have)
{
	return workload_fail(env, -ENOMEM,
			     "%s: %" PRIu64 " MiB are needed, the budget is %" PRIu64
			     " MiB",
			     what, (need + 0xfffff) >> 20, have >> 20);
}

int
workload_fail_library(struct workload_env *env, int rc, const char *what)
{
	return workload_fail(env, rc, "%s: %s", what, sluice_last_error());
}

int
workload_plan_refuse(char *error, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(error, WORKLOAD_TEXT_BYTES, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

uint64_t
workload_isqrt(uint64_t n)
{
	uint64_t r = 0, bit = 1ull << 31;

	for (; bit; bit >>= 1)
		if ((r | bit) * (r | bit) <= n)
			r |= bit;
	return r;
}

uint64_t
workload_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int
workload_progress(struct workload_env *env, const char *phase, double fraction)
{
	const struct workload_params *params = env->params;

	if (params->cancelled && *params->cancelled)
		return workload_fail(env, -ECANCELED, "%s: cancelled while in phase \"%s\"",
				     env->workload->name, phase);
	if (params->on_progress)
		params->on_progress(params->arg, phase, fraction);
	return 0;
}

/* ---- running ---- */

int
workload_launch(struct workload_env *env, const struct workload_kernel *kernel,
		const void *args, const struct sluice_use *uses, unsigned n_uses)
{
	uint64_t n = kernel->elements(args);

	if (n == 0 || n > (uint64_t)kernel->soft_elements * INT32_MAX ||
	    n > (uint64_t)kernel->cuda_elements * INT32_MAX)
		return workload_fail(env, -EINVAL, "%s: a launch over %" PRIu64 " elements",
				     env->workload->name, n);
	workload_note_tile(env, uses, n_uses);
	if (env->params->presence == WORKLOAD_PRESENCE_FAULT)
		n_uses = 0;
	env->result->launches++;
	return env->memory->launch(env, kernel, n, args, uses, n_uses);
}

int
workload_host_copy(struct workload_env *env, unsigned array, uint64_t first,
		   uint64_t cols, uint64_t stride, uint64_t rows, void *out)
{
	const uint32_t *from = (const uint32_t *)env->base[array] + first;
	uint64_t row;
	int rc = env->memory->wait(env);

	if (rc)
		return rc;
	if (rows * cols * 4 > WORKLOAD_HOST_COPY_MAX)
		return workload_fail(env, -EINVAL,
				     "%s: a copy of %" PRIu64 " x %" PRIu64
				     " elements to host code",
				     env->workload->name, rows, cols);
	if (env->memory->host_copy)
		return env->memory->host_copy(env, array, first, cols, stride, rows, out);
	for (row = 0; row < rows; row++)
		memcpy((uint32_t *)out + row * cols, from + row * stride, cols * 4);
	return 0;
}

uint32_t
workload_soft_blocks(const struct workload_kernel *kernel, uint64_t n)
{
	return (uint32_t)workload_blocks(n, kernel->soft_elements);
}

/* Returns how many bytes of *soft there are. */
size_t
workload_soft_make(struct workload_soft_args *soft, const struct workload_kernel *kernel,
		   uint64_t n, const void *args)
{
	assert(kernel->args_bytes <= sizeof(soft->args));
	soft->kernel = kernel;
	soft->n = n;
	memcpy(soft->args, args, kernel->args_bytes);
	return offsetof(struct workload_soft_args, args) + kernel->args_bytes;
}

void
workload_soft_block(const struct sluice_block *block, void *args)
{
	const struct workload_soft_args *soft = args;
	uint64_t each = soft->kernel->soft_elements;
	uint64_t begin = block->index.x * each;

	soft->kernel->piece(soft->args, begin,
			    begin + each < soft->n ? begin + each : soft->n);
}

int
workload_wait(struct workload_env *env)
{
	return env->memory->wait(env);
}

int
workload_tile_done(struct workload_env *env, uint64_t done, uint64_t total)
{
	int rc = env->memory->pace(env);

	if (rc)
		return rc;
	return workload_progress(env, "run", total ? (double)done / (double)total : 1);
}

struct sluice_use
workload_use(struct workload_env *env, unsigned array, uint64_t first, uint64_t n,
	     enum sluice_intent intent)
{
	struct sluice_use use = {
		.addr = (const char *)env->base[array] + first * 4,
		.size_bytes = n * 4,
		.intent = intent,
	};

	return use;
}

void
workload_note_tile(struct workload_env *env, const struct sluice_use *uses, unsigned n_uses)
{
	uint64_t bytes = 0;
	unsigned i;

	for (i = 0; i < n_uses; i++)
		bytes += uses[i].size_bytes;
	if (bytes > env->result->tile_bytes)
		env->result->tile_bytes = bytes;
}

/* The chunk of large regions, if any array is one. */
uint64_t
workload_chunk_bytes(const struct workload_env *env)
{
	uint64_t large = env->config.large_chunk_bytes;
	unsigned i;

	for (i = 0; i < env->plan.n_arrays; i++)
		if (large > env->config.chunk_bytes &&
		    env->plan.array[i].size_bytes >= LARGE_REGION_CHUNKS * large)
			return large;
	return env->config.chunk_bytes;
}

uint64_t
workload_tile_elements(struct workload_env *env, unsigned n_arrays, uint64_t halo_bytes)
{
	uint64_t chunk = workload_chunk_bytes(env);
	uint64_t set = env->params->tile_bytes;
	uint64_t halo = 2 * ((halo_bytes + chunk - 1) / chunk * chunk);
	uint64_t piece;

	/* A GPU has a few tiles on the device at once: one computes while others move. */
	if (set == 0)
		set = env->config.device_budget_bytes /
		      (env->config.device == SLUICE_DEVICE_CUDA ? 16 : 3);
	piece = workload_less(set, halo) / n_arrays / chunk * chunk;
	return (piece ? piece : chunk) / 4;
}

/* ---- one run ---- */

static int
arrays_map(struct workload_env *env)
{
	unsigned i;
	int rc;

	for (i = 0; i < env->plan.n_arrays; i++) {
		char path[PATH_MAX];

		rc = workload_file_path(env, i, path, sizeof(path));
		if (!rc)
			rc = env->memory->map(env, i, path);
		if (rc)
			return rc;
	}
	return 0;
}

static int
arrays_sync(struct workload_env *env)
{
	unsigned i;
	int rc;

	for (i = 0; i < env->plan.n_arrays; i++) {
		const struct workload_array *array = &env->plan.array[i];

		if (!(array->flags & SLUICE_WRITE) || array->role == WORKLOAD_VOLATILE ||
		    array->role == WORKLOAD_ANONYMOUS)
			continue;
		rc = workload_progress(env, "write back", (double)i / env->plan.n_arrays);
		if (!rc)
			rc = env->memory->sync(env, i);
		if (rc)
			return rc;
	}
	return 0;
}

static int
arrays_unmap(struct workload_env *env)
{
	unsigned i;
	int rc;

	for (i = 0; i < env->plan.n_arrays; i++) {
		if (!env->base[i])
			continue;
		rc = env->memory->unmap(env, i);
		if (rc)
			return rc;
		env->base[i] = NULL;
	}
	return 0;
}

/* What in-place arrays are before the first round, from their files. */
static int
pristine_read(struct workload_env *env)
{
	unsigned i;
	int rc = 0;

	for (i = 0; !rc && i < env->plan.n_arrays; i++) {
		uint64_t bytes = env->plan.array[i].size_bytes;

		if (env->plan.array[i].role != WORKLOAD_IN_PLACE)
			continue;
		env->pristine[i] = calloc(1, bytes);
		if (!env->pristine[i])
			return workload_fail(env, -ENOMEM,
					     "out of memory for a copy of %s (%" PRIu64
					     " MiB)",
					     env->plan.array[i].name, bytes >> 20);
		rc = workload_file_read(env, i, 0, bytes / 4, env->pristine[i]);
	}
	return rc;
}

/* Begin, run, wait: 0, 1 (the memory has no such round), or an error. */
static int
round_run(struct workload_env *env, enum workload_round round)
{
	struct workload_result *result = env->result;
	uint64_t t0;
	unsigned i;
	int rc;

	if (round == WORKLOAD_ROUND_MEASURED)
		for (i = 0; i < env->plan.n_arrays; i++)
			if (env->pristine[i])
				memcpy(env->base[i], env->pristine[i],
				       env->plan.array[i].size_bytes);
	rc = env->memory->round_begin(env, round);
	if (rc)
		return rc;
	result->launches = 0;
	t0 = workload_now_ns();
	rc = env->workload->ops->run(env);
	if (!rc)
		rc = env->memory->wait(env);
	result->round_ns[round] = workload_now_ns() - t0;
	if (round == WORKLOAD_ROUND_MEASURED)
		env->memory->stats(env, &result->before_sync);
	if (!rc)
		rc = env->memory->round_end(env, round);
	result->collect_ns = workload_now_ns() - t0 - result->round_ns[round];
	return rc;
}

/* The kernels over mapped arrays: once, or in rounds. */
static int
kernels_run(struct workload_env *env)
{
	struct workload_result *result = env->result;
	uint64_t t0 = workload_now_ns();
	unsigned round;
	int rc = 0;

	if (!env->memory->round_begin) {
		rc = env->workload->ops->run(env);
		if (!rc)
			rc = env->memory->wait(env);
		result->run_ns = workload_now_ns() - t0;
		env->memory->stats(env, &result->before_sync);
		result->h2d_bytes = sluice_stats_h2d_bytes(&result->before_sync);
		result->d2h_bytes = sluice_stats_d2h_bytes(&result->before_sync);
		return rc;
	}
	for (round = 0; rc >= 0 && round < WORKLOAD_ROUND_COUNT; round++)
		rc = round_run(env, (enum workload_round)round);
	result->run_ns = result->round_ns[WORKLOAD_ROUND_MEASURED];
	return rc < 0 ? rc : 0;
}

/* From a made memory to unmapped arrays: what is measured. */
static int
env_run_mapped(struct workload_env *env)
{
	struct workload_result *result = env->result;
	uint64_t t1;
	int rc;

	rc = kernels_run(env);
	if (rc)
		return rc;
	t1 = workload_now_ns();

	rc = arrays_sync(env);
	if (!rc)
		rc = arrays_unmap(env);
	result->unmap_ns = workload_now_ns() - t1;
	env->memory->stats(env, &result->after);
	return rc;
}

static int
env_run(struct workload_env *env)
{
	struct workload_result *result = env->result;
	uint64_t t0 = workload_now_ns();
	unsigned i;
	int rc = 0;

	if (env->memory->round_begin)
		rc = pristine_read(env);
	if (!rc)
		rc = env->memory->open(env);
	result->open_ns = workload_now_ns() - t0;
	if (!rc) {
		result->config = env->config;
		rc = arrays_map(env);
		result->map_ns = workload_now_ns() - t0;
		if (!rc)
			rc = env_run_mapped(env);
	}
	env->memory->close(env);
	for (i = 0; i < env->plan.n_arrays; i++)
		free(env->pristine[i]);
	result->total_ns = result->map_ns + result->run_ns + result->unmap_ns;
	return rc;
}

static void
env_expect(struct workload_env *env)
{
	memset(&env->result->expected, 0, sizeof(env->result->expected));
	/* In rounds all data begin and end in host memory: other forms than the published ones. */
	if (env->params->memory == WORKLOAD_MEMORY_SLUICE && !env->memory->round_begin &&
	    env->params->presence == WORKLOAD_PRESENCE_LAUNCH &&
	    env->config.population == SLUICE_POPULATE_CHUNK)
		env->workload->ops->expect(env, &env->result->expected);
}

static int
env_verify(struct workload_env *env)
{
	uint64_t t0 = workload_now_ns();
	int rc;

	rc = env->workload->ops->reference(env);
	if (rc >= 0) {
		env->result->verdict = rc ? WORKLOAD_WRONG : WORKLOAD_VERIFIED;
		rc = 0;
	}
	env->result->verify_ns = workload_now_ns() - t0;
	return rc;
}

static int
env_run_with_files(struct workload_env *env)
{
	uint64_t t0;
	int rc;

	rc = workload_files_room(env);
	if (rc)
		return rc;
	t0 = workload_now_ns();
	rc = workload_files_generate(env);
	env->result->generate_ns = workload_now_ns() - t0;
	if (rc)
		return rc;
	workload_files_spoil(env);
	workload_files_drop_cache(env);
	rc = env_run(env);
	if (rc)
		return rc;
	env_expect(env);
	if (env->params->verify)
		rc = env_verify(env);
	return rc;
}

static int
params_check(struct workload_env *env)
{
	const struct workload_params *params = env->params;
	unsigned i;

	if (params->presence >= WORKLOAD_PRESENCE_COUNT ||
	    params->memory >= WORKLOAD_MEMORY_COUNT)
		return workload_fail(env, -EINVAL, "unknown presence or memory");
	if (params->memory >= WORKLOAD_MEMORY_COPIES &&
	    (params->config.device != SLUICE_DEVICE_CUDA ||
	     params->presence != WORKLOAD_PRESENCE_LAUNCH))
		return workload_fail(
			env, -EINVAL,
			"this kind of memory needs a GPU and launches that declare "
			"what they use");
	if (params->cached && params->memory != WORKLOAD_MEMORY_COPIES &&
	    params->memory != WORKLOAD_MEMORY_STREAMING)
		return workload_fail(
			env, -EINVAL,
			"files through the page cache: of copies and streaming "
			"only");
	for (i = 0; i < env->workload->n_options; i++) {
		const struct workload_option *option = &env->workload->options[i];

		if (params->option[i] < option->min || params->option[i] > option->max)
			return workload_fail(env, -EINVAL,
					     "%s: option %s is %" PRIu64
					     ": not in %" PRIu64 " to %" PRIu64,
					     env->workload->name, option->name,
					     params->option[i], option->min, option->max);
	}
	return 0;
}

/* Who reads files as a whole needs host memory for all of them, but for rounding. */
static int
host_budget_check(struct workload_env *env)
{
	uint64_t slack = WORKLOAD_ARRAYS_MAX * CHUNK_BYTES_DEFAULT, need = 0;

	for (unsigned i = 0; i < env->plan.n_arrays; i++)
		need += env->plan.array[i].size_bytes;
	if (!env->params->cached || need <= env->config.host_budget_bytes + slack)
		return 0;
	return workload_fail_budget(env, "host memory for all arrays", need,
				    env->config.host_budget_bytes);
}

int
workload_plan_make(const struct workload *workload, const struct workload_params *params,
		   struct workload_plan *plan, char *error)
{
	struct workload_plan made = {0};
	unsigned i;
	int rc;

	if (params->footprint_bytes > FOOTPRINT_MAX)
		return workload_plan_refuse(error,
					    "%s: a footprint of %" PRIu64
					    " bytes is more "
					    "than this machine can address",
					    workload->name, params->footprint_bytes);
	rc = workload->ops->plan(params, &made, error);
	if (rc)
		return rc;
	for (i = 0; i < made.n_arrays; i++)
		made.footprint_bytes += made.array[i].size_bytes;
	*plan = made;
	return 0;
}

static void
result_note_plan(struct workload_result *result, const struct workload_plan *plan)
{
	unsigned i;

	result->plan.footprint_bytes = plan->footprint_bytes;
	result->plan.rows = plan->rows;
	result->plan.cols = plan->cols;
	result->plan.window_bytes = plan->window_bytes;
	for (i = 0; i < plan->n_arrays; i++) {
		const struct workload_array *array = &plan->array[i];

		switch (array->role) {
		case WORKLOAD_INPUT:
			result->input_bytes += array->size_bytes;
			break;
		case WORKLOAD_IN_PLACE:
			result->input_bytes += array->size_bytes;
			result->output_bytes += array->size_bytes;
			break;
		case WORKLOAD_OUTPUT:
			result->output_bytes += array->size_bytes;
			break;
		case WORKLOAD_VOLATILE:
		case WORKLOAD_ANONYMOUS:
		case WORKLOAD_ROLE_COUNT:
			break;
		}
	}
}

int
workload_run(const struct workload *workload, const struct workload_params *params,
	     struct workload_result *result)
{
	struct workload_env *env = calloc(1, sizeof(*env));
	int rc;

	memset(result, 0, sizeof(*result));
	if (!env) {
		snprintf(result->error, sizeof(result->error), "out of memory");
		return -ENOMEM;
	}
	env->workload = workload;
	env->params = params;
	env->result = result;
	env->lock_fd = -1;
	env->config = params->config;
	if (env->config.chunk_bytes == 0)
		env->config.chunk_bytes = CHUNK_BYTES_DEFAULT;

	rc = params_check(env);
	if (!rc) {
		env->memory = memory_kinds[params->memory];
		if (params->memory == WORKLOAD_MEMORY_SLUICE &&
		    params->config.device == SLUICE_DEVICE_CUDA)
			env->memory = &workload_memory_sluice_cuda;
		rc = workload_plan_make(workload, params, &env->plan, result->error);
	}
	if (!rc) {
		result_note_plan(result, &env->plan);
		rc = host_budget_check(env);
	}
	if (!rc)
		rc = workload_files_open(env);
	if (!rc) {
		rc = env_run_with_files(env);
		workload_files_close(env);
	}
	free(env);
	return rc;
}

int
workload_params_init(const struct workload *workload, struct workload_params *params)
{
	const char *dir = getenv("TMPDIR");
	unsigned i;

	memset(params, 0, sizeof(*params));
	params->footprint_bytes = FOOTPRINT_DEFAULT;
	params->seed = 1;
	params->dir = dir && dir[0] ? dir : "/var/tmp";
	for (i = 0; i < workload->n_options; i++)
		params->option[i] = workload->options[i].initial;
	return sluice_config_init(&params->config);
}

/* ---- what a kind of memory may leave out ---- */

int
workload_no_wait(struct workload_env *env)
{
	(void)env;
	return 0;
}

int
workload_no_discard(struct workload_env *env, void *addr, size_t bytes,
		    enum sluice_discard_mode mode)
{
	(void)env;
	(void)addr;
	(void)bytes;
	(void)mode;
	return 0;
}

int
workload_no_pin(struct workload_env *env, void *addr, size_t bytes)
{
	(void)env;
	(void)addr;
	(void)bytes;
	return 0;
}

void
workload_no_stats(struct workload_env *env, struct sluice_stats *out)
{
	(void)env;
	memset(out, 0, sizeof(*out));
}
