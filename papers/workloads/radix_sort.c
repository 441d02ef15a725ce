/* SPDX-License-Identifier: Apache-2.0 */
/*
 * radixSort: pairs of a key and a value, sorted by key, four bits of it a pass, from the lowest to
 * the highest. A pass sorts within blocks from the pairs to a second pair of buffers, and moves
 * what is there back to where it belongs (partition.h). After either step what was read is dead:
 * with --discard the program says so, tile by tile, and only one of the two copies ever has to be
 * kept.
 *
 * Keys and values are files that are changed in place; the second buffers are memory without a
 * file.
 *
 * A value is the number of the pair before the sort. So the result needs no second sort to be
 * checked: every pair must be one of the input, and pairs must ascend by key and, among equal keys,
 * by number. Numbers that ascend are different ones, so that all pairs are there.
 *
 * Threads: see env.h; the kernels run on any number of workers.
 */
#include "partition_kernel.h"

#include "env.h"
#include "list.h"
#include "partition.h"
#include "random.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	ARRAY_KEYS,
	ARRAY_VALUES,
	ARRAY_OTHER_KEYS,
	ARRAY_OTHER_VALUES,
	ARRAY_COUNTS,
	ARRAY_COUNT
};

enum { OPTION_DISCARD, OPTION_KEY_BITS };

#define CHECK_ELEMENTS (1u << 20) /* at a time */
#define PAIRS_MAX      UINT32_MAX /* a value is a number of a pair */

static const struct workload_option radix_sort_options[] = {
	[OPTION_DISCARD] = {.name = "discard",
			    .text = "what happens to a tile of pairs after it was used",
			    .choices = partition_discard_names,
			    .initial = PARTITION_DISCARD_NONE,
			    .min = PARTITION_DISCARD_NONE,
			    .max = PARTITION_DISCARD_LAZY},
	[OPTION_KEY_BITS] = {.name = "key-bits",
			     .text = "bits of a key, rounded up to a multiple of 4",
			     .initial = 32,
			     .min = 1,
			     .max = 32},
};

static uint64_t
plan_chunk_bytes(const struct workload_params *params)
{
	return params->config.chunk_bytes ? params->config.chunk_bytes : 2ull << 20;
}

static int
radix_sort_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	uint64_t footprint = params->footprint_bytes;
	uint64_t chunk = plan_chunk_bytes(params);
	/* Keys and values twice, the counts of a block, and its share of those of tiles. */
	uint64_t block = PARTITION_BLOCK * 16 + PARTITION_DIGITS * 4 + 1;
	uint64_t n = workload_less(footprint, chunk) / block * PARTITION_BLOCK;
	static const struct {
		const char *name;
		enum workload_role role;
	} kinds[ARRAY_COUNTS] = {
		[ARRAY_KEYS] = {"keys", WORKLOAD_IN_PLACE},
		[ARRAY_VALUES] = {"values", WORKLOAD_IN_PLACE},
		[ARRAY_OTHER_KEYS] = {"other-keys", WORKLOAD_ANONYMOUS},
		[ARRAY_OTHER_VALUES] = {"other-values", WORKLOAD_ANONYMOUS},
	};

	if (n == 0 || n > PAIRS_MAX)
		return workload_plan_refuse(error,
					    "radixSort: a footprint of %" PRIu64
					    " bytes: it must be from %" PRIu64
					    " to %" PRIu64,
					    footprint, chunk + block,
					    PAIRS_MAX / PARTITION_BLOCK * block);
	plan->rows = workload_blocks(params->option[OPTION_KEY_BITS], PARTITION_BITS);
	plan->cols = n;
	plan->n_arrays = ARRAY_COUNT;
	for (unsigned i = 0; i < ARRAY_COUNTS; i++) {
		int file = kinds[i].role == WORKLOAD_IN_PLACE;

		plan->array[i] = (struct workload_array){
			.name = kinds[i].name,
			.role = kinds[i].role,
			.flags = file ? SLUICE_READ | SLUICE_WRITE : 0,
			.size_bytes = n * 4,
		};
	}
	plan->array[ARRAY_COUNTS] = (struct workload_array){
		.name = "counts",
		.role = WORKLOAD_ANONYMOUS,
		.size_bytes = partition_counts_bytes(n, chunk),
	};
	return 0;
}

/* Key number i; plan->rows digits of it count. */
static uint32_t
key_make(const struct workload_plan *plan, uint64_t seed, uint64_t i)
{
	uint32_t unused = 32 - (uint32_t)plan->rows * PARTITION_BITS;

	return (uint32_t)(workload_hash(seed, i) >> 32) >> unused;
}

static void
radix_sort_fill(const struct workload_plan *plan, unsigned array, uint64_t seed,
		uint64_t first, size_t n, void *out)
{
	uint32_t *to = out;

	for (size_t i = 0; i < n; i++)
		to[i] = array == ARRAY_KEYS ? key_make(plan, seed, first + i)
					    : (uint32_t)(first + i);
}

static int
radix_sort_run(struct workload_env *env)
{
	uint64_t passes = env->plan.rows, start[PARTITION_DIGITS + 1], done = 0;
	struct partition_pass pass = {
		.source = {ARRAY_KEYS, ARRAY_VALUES},
		.scratch = {ARRAY_OTHER_KEYS, ARRAY_OTHER_VALUES},
		.target = {ARRAY_KEYS, ARRAY_VALUES},
		.n = env->plan.cols,
		.counts = ARRAY_COUNTS,
		.digit = {.multiplier = 1},
		.discard = env->params->option[OPTION_DISCARD],
		.source_dies = 1,
		.tiles_done = &done,
	};
	int rc = 0;

	pass.tiles_total = 2 * passes * partition_tiles(env, pass.n);
	for (uint64_t i = 0; !rc && i < passes; i++) {
		pass.digit.shift = (uint32_t)i * PARTITION_BITS;
		rc = partition_pass_run(env, &pass, start);
	}
	return rc ? rc : workload_wait(env);
}

/* All of it on the device: the pairs go in once. Else it depends on how full digits are. */
static void
radix_sort_expect(const struct workload_env *env, struct workload_expectation *out)
{
	uint64_t each = workload_chunks_up(env, env->plan.cols * 4);
	uint64_t all = 4 * each +
		       workload_chunks_up(env, env->plan.array[ARRAY_COUNTS].size_bytes);

	if (all > env->config.device_budget_bytes)
		return;
	out->known = 1;
	out->h2d_bytes = 2 * env->plan.cols * 4;
	out->tolerance_bytes = 2 * env->config.chunk_bytes;
	snprintf(out->h2d_formula, sizeof(out->h2d_formula), "I");
	snprintf(out->d2h_formula, sizeof(out->d2h_formula), "0");
}

/* ---- checking ---- */

struct check {
	struct workload_env *env;
	uint64_t i;              /* of the next pair */
	uint32_t key, value;     /* the pair before it */
	uint32_t *keys, *values; /* CHECK_ELEMENTS of each */
};

static int
pair_is_wrong(struct check *c, const char *why, uint32_t key, uint32_t value)
{
	snprintf(c->env->result->mismatch, sizeof(c->env->result->mismatch),
		 "pair %" PRIu64 " is (0x%08x, %u), which %s", c->i, key, value, why);
	return 1;
}

static int
pair_check(struct check *c, uint32_t key, uint32_t value)
{
	const struct workload_env *env = c->env;

	if (value >= env->plan.cols || key_make(&env->plan, env->params->seed, value) != key)
		return pair_is_wrong(c, "is no pair of the input", key, value);
	if (c->i > 0 && (key < c->key || (key == c->key && value <= c->value)))
		return pair_is_wrong(c, "does not belong behind the one before it", key,
				     value);
	c->key = key;
	c->value = value;
	c->i++;
	return 0;
}

static int
pairs_check(struct workload_env *env, void *memory)
{
	struct check c = {.env = env, .keys = memory};
	uint64_t n = env->plan.cols;
	int rc = 0;

	c.values = c.keys + CHECK_ELEMENTS;
	while (!rc && c.i < n) {
		size_t m = (size_t)kernel_min(CHECK_ELEMENTS, n - c.i);

		rc = workload_file_read(env, ARRAY_KEYS, c.i, m, c.keys);
		if (!rc)
			rc = workload_file_read(env, ARRAY_VALUES, c.i, m, c.values);
		for (size_t i = 0; !rc && i < m; i++)
			rc = pair_check(&c, c.keys[i], c.values[i]);
		if (!rc)
			rc = workload_progress(env, "verify", (double)c.i / (double)n);
	}
	return rc;
}

static int
radix_sort_reference(struct workload_env *env)
{
	return workload_reference_run(env, 2 * CHECK_ELEMENTS * sizeof(uint32_t),
				      pairs_check);
}

static const struct workload_ops radix_sort_ops = {
	.plan = radix_sort_plan,
	.fill = radix_sort_fill,
	.run = radix_sort_run,
	.expect = radix_sort_expect,
	.reference = radix_sort_reference,
};

static const struct workload_kernel *const radix_sort_kernels[] = {
	&partition_sort_kernel,
	&partition_scan_kernel,
	&partition_move_kernel,
	NULL,
};

const struct workload workload_radix_sort = {
	.name = "radixSort",
	.text = "keys and values sorted, digit by digit, with or without discard",
	.tiled = 1,
	.options = radix_sort_options,
	.n_options = sizeof(radix_sort_options) / sizeof(radix_sort_options[0]),
	.ops = &radix_sort_ops,
	.kernels = radix_sort_kernels,
};
