/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hashJoin: two relations of a key and a value are joined by their keys, several times over. Both
 * are partitioned by two digits of a hash (partition.h), from the input to a buffer of partitions,
 * over a scratch buffer; then for each value of the highest digit a table is built of the one
 * relation's partition and probed with the other's. Keys of the one that is built are unique.
 * The result has a number for each element that was probed, in the order of the partitions: 0 for
 * none.
 *
 * Everything but input and result is dead after a step or two: with --discard the program says so.
 * The inputs are read again by every join; the result of an earlier join is dead when the next one
 * begins. Results depend on the number of the join: an earlier one does not pass for the last.
 *
 * Keys are made by mixing a number, which can be undone: the reference finds the match of a key
 * without a table, and partitions by counting.
 *
 * Threads: see env.h; the kernels run on any number of workers.
 */
#include "hash_join_kernel.h"

#include "env.h"
#include "list.h"
#include "partition.h"
#include "random.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ARRAY_KEYS,   /* of the relation that is built, then of the one that is probed */
	ARRAY_VALUES, /* in the same order */
	ARRAY_SCRATCH_KEYS,
	ARRAY_SCRATCH_VALUES,
	ARRAY_PARTED_KEYS,
	ARRAY_PARTED_VALUES,
	ARRAY_TABLE,
	ARRAY_MATCHES,
	ARRAY_COUNTS,
	ARRAY_COUNT
};

enum { OPTION_DISCARD, OPTION_JOINS };

/* Bytes of all arrays for one element of either relation. */
#define ELEMENT_BYTES  (6 * 2 * 4 + HASH_JOIN_SLOTS * 8 + 4)
#define BLOCK_ELEMENTS (16u << 10)
#define ELEMENTS_MAX \
	(3u << 30) /* of either relation; more keys are drawn from than there are */
#define CHECK_ELEMENTS (1u << 20) /* of the reference at a time */
#define PARTS          (PARTITION_DIGITS * PARTITION_DIGITS)

static const struct workload_option hash_join_options[] = {
	[OPTION_DISCARD] =
		{.name = "discard",
		 .text = "what happens to intermediate data after they were used",
		 .choices = partition_discard_names,
		 .initial = PARTITION_DISCARD_NONE,
		 .min = PARTITION_DISCARD_NONE,
		 .max = PARTITION_DISCARD_LAZY},
	[OPTION_JOINS] = {.name = "joins",
			  .text = "how often the relations are joined",
			  .initial = 3,
			  .min = 1,
			  .max = 1000},
};

/* Relations begin at a chunk. */
static uint64_t
unit_elements(const struct workload_params *params)
{
	uint64_t chunk = params->config.chunk_bytes ? params->config.chunk_bytes : 2ull << 20;

	return chunk / 4;
}

static int
hash_join_plan(const struct workload_params *params, struct workload_plan *plan, char *error)
{
	uint64_t unit = unit_elements(params);
	uint64_t counts = partition_counts_bytes(unit, unit * 4);
	uint64_t units = params->footprint_bytes / (unit * ELEMENT_BYTES + counts);
	uint64_t n = units * unit;
	static const struct {
		const char *name;
		enum workload_role role;
		unsigned flags, bytes; /* for each element of one relation */
	} kinds[ARRAY_COUNTS] = {
		[ARRAY_KEYS] = {"keys", WORKLOAD_INPUT, SLUICE_READ, 8},
		[ARRAY_VALUES] = {"values", WORKLOAD_INPUT, SLUICE_READ, 8},
		[ARRAY_SCRATCH_KEYS] = {"scratch-keys", WORKLOAD_ANONYMOUS, 0, 8},
		[ARRAY_SCRATCH_VALUES] = {"scratch-values", WORKLOAD_ANONYMOUS, 0, 8},
		[ARRAY_PARTED_KEYS] = {"parted-keys", WORKLOAD_ANONYMOUS, 0, 8},
		[ARRAY_PARTED_VALUES] = {"parted-values", WORKLOAD_ANONYMOUS, 0, 8},
		[ARRAY_TABLE] = {"table", WORKLOAD_ANONYMOUS, 0, HASH_JOIN_SLOTS * 8},
		[ARRAY_MATCHES] = {"matches", WORKLOAD_OUTPUT,
				   SLUICE_WRITE | SLUICE_CREATE, 4},
	};
	int uvm = params->config.policy == SLUICE_POLICY_UVM;

	if (units == 0 || n > ELEMENTS_MAX)
		return workload_plan_refuse(error,
					    "hashJoin: a footprint of %" PRIu64
					    " bytes: with chunks of %" PRIu64
					    " bytes it must be from %" PRIu64
					    " to %" PRIu64,
					    params->footprint_bytes, unit * 4,
					    unit * ELEMENT_BYTES + counts,
					    (uint64_t)ELEMENTS_MAX * ELEMENT_BYTES);
	plan->rows = n; /* built */
	plan->cols = n; /* probed */
	plan->n_arrays = ARRAY_COUNT;
	for (unsigned i = 0; i < ARRAY_COUNTS; i++)
		plan->array[i] = (struct workload_array){
			.name = kinds[i].name,
			.role = kinds[i].role,
			/* There every page that was on the device counts as written. */
			.flags = kinds[i].flags |
				 (uvm && kinds[i].role == WORKLOAD_INPUT ? SLUICE_WRITE : 0u),
			.size_bytes = n * kinds[i].bytes,
		};
	plan->array[ARRAY_COUNTS] = (struct workload_array){
		.name = "counts",
		.role = WORKLOAD_ANONYMOUS,
		.size_bytes = units * counts,
	};
	return 0;
}

/* ---- what the relations hold ---- */

/* One to one, 0 to 0. */
static uint32_t
number_mix(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x85ebca6bu;
	x ^= x >> 13;
	x *= 0xc2b2ae35u;
	return x ^ x >> 16;
}

/* The other way; the multipliers are inverse to those above. */
static uint32_t
number_unmix(uint32_t x)
{
	x ^= x >> 16;
	x *= 0x7ed1b41du;
	x ^= x >> 13 ^ x >> 26;
	x *= 0xa5cb9243u;
	return x ^ x >> 16;
}

/* The key of number i of the built relation; what is beyond it has no match. */
static uint32_t
key_make(uint64_t i)
{
	return number_mix((uint32_t)i + 1);
}

/* Which number is probed for: about one in nine has no match. */
static uint64_t
probe_make(const struct workload_plan *plan, uint64_t seed, uint64_t i)
{
	return workload_hash(seed + 1, i) % (plan->rows + plan->rows / 8 + 1);
}

static uint32_t
value_make(uint64_t seed, uint64_t i)
{
	return (uint32_t)workload_hash(seed, i);
}

static void
hash_join_fill(const struct workload_plan *plan, unsigned array, uint64_t seed,
	       uint64_t first, size_t n, void *out)
{
	uint32_t *to = out;

	for (size_t k = 0; k < n; k++) {
		uint64_t i = first + k;

		if (array == ARRAY_VALUES)
			to[k] = value_make(seed, i);
		else
			to[k] = key_make(
				i < plan->rows ? i : probe_make(plan, seed, i - plan->rows));
	}
}

/* ---- kernels ---- */

static uint64_t
clear_elements(const void *args)
{
	return ((const struct hash_join_clear_args *)args)->n;
}

static void
clear_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct hash_join_clear_args *a = args;

	memset(a->table + begin, 0, (end - begin) * sizeof(*a->table));
}

static void
clear_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	(void)args;
	touch[0] = (struct workload_touch){.first = begin, .n = end - begin, .write = 1};
}

static const struct workload_kernel clear_kernel = {
	.name = "workload_hash_join_clear",
	.soft_elements = 4 * BLOCK_ELEMENTS,
	.cuda_elements = KERNEL_CUDA_ELEMENTS,
	.args_bytes = sizeof(struct hash_join_clear_args),
	.n_pointers = 1,
	.pointer = {offsetof(struct hash_join_clear_args, table)},
	.elements = clear_elements,
	.piece = clear_piece,
	.touch = clear_touch,
};

static uint64_t
build_elements(const void *args)
{
	return ((const struct hash_join_build_args *)args)->n;
}

static void
build_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct hash_join_build_args *a = args;

	for (uint64_t i = begin; i < end; i++) {
		uint64_t at = hash_join_slot(a->keys[i], a->slots);
		uint32_t none = 0;

		/* Pieces insert at once; there is a free slot, since there are more of them. */
		while (!__atomic_compare_exchange_n(&a->table[2 * at], &none, a->keys[i], 0,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			at = at + 1 < a->slots ? at + 1 : 0;
			none = 0;
		}
		a->table[2 * at + 1] = a->values[i];
	}
}

static void
build_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct hash_join_build_args *a = args;

	touch[0] = (struct workload_touch){.first = begin, .n = end - begin, .read = 1};
	touch[1] = touch[0];
	touch[2] = (struct workload_touch){.n = 2 * a->slots, .read = 1, .write = 1};
}

static const struct workload_kernel build_kernel = {
	.name = "workload_hash_join_build",
	.soft_elements = BLOCK_ELEMENTS,
	.cuda_elements = KERNEL_CUDA_ELEMENTS,
	.args_bytes = sizeof(struct hash_join_build_args),
	.n_pointers = 3,
	.pointer = {offsetof(struct hash_join_build_args, keys),
		    offsetof(struct hash_join_build_args, values),
		    offsetof(struct hash_join_build_args, table)},
	.elements = build_elements,
	.piece = build_piece,
	.touch = build_touch,
};

static uint64_t
probe_elements(const void *args)
{
	return ((const struct hash_join_probe_args *)args)->n;
}

static void
probe_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct hash_join_probe_args *a = args;

	for (uint64_t i = begin; i < end; i++)
		a->matches[i] = hash_join_probe(a->table, a->slots, a->keys[i],
						a->values[i], a->turn);
}

static void
probe_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct hash_join_probe_args *a = args;

	touch[0] = (struct workload_touch){.first = begin, .n = end - begin, .read = 1};
	touch[1] = touch[0];
	touch[2] = (struct workload_touch){.n = 2 * a->slots, .read = 1};
	touch[3] = (struct workload_touch){.first = begin, .n = end - begin, .write = 1};
}

static const struct workload_kernel probe_kernel = {
	.name = "workload_hash_join_probe",
	.soft_elements = BLOCK_ELEMENTS,
	.cuda_elements = KERNEL_CUDA_ELEMENTS,
	.args_bytes = sizeof(struct hash_join_probe_args),
	.n_pointers = 4,
	.pointer = {offsetof(struct hash_join_probe_args, keys),
		    offsetof(struct hash_join_probe_args, values),
		    offsetof(struct hash_join_probe_args, table),
		    offsetof(struct hash_join_probe_args, matches)},
	.elements = probe_elements,
	.piece = probe_piece,
	.touch = probe_touch,
};

/* ---- the run ---- */

/* A run, as its launches see it. */
struct join {
	struct workload_env *env;
	uint64_t n, tile, discard;
	uint64_t done, total; /* tiles, for progress */
	uint32_t turn;
	/* Where the partitions of each value of the highest digit begin, from the relation on. */
	uint64_t built[PARTITION_DIGITS + 1], probed[PARTITION_DIGITS + 1];
};

/* By the two highest digits of the hash, the lower one first. */
static int
relation_partition(struct join *j, uint64_t first, uint64_t *start)
{
	const struct partition_pair parted = {ARRAY_PARTED_KEYS, ARRAY_PARTED_VALUES};
	struct partition_pass pass = {
		.source = {ARRAY_KEYS, ARRAY_VALUES},
		.scratch = {ARRAY_SCRATCH_KEYS, ARRAY_SCRATCH_VALUES},
		.target = parted,
		.first = first,
		.n = j->n,
		.counts = ARRAY_COUNTS,
		.digit = {HASH_JOIN_MULTIPLIER, 32 - 2 * PARTITION_BITS},
		.discard = j->discard,
		.tiles_done = &j->done,
		.tiles_total = j->total,
	};
	int rc = partition_pass_run(j->env, &pass, start);

	pass.source = parted;
	pass.source_dies = 1;
	pass.digit.shift += PARTITION_BITS;
	return rc ? rc : partition_pass_run(j->env, &pass, start);
}

/* Elements [first, first + n) of the partitions are used up. */
static int
parted_discard(struct join *j, uint64_t first, uint64_t n)
{
	int rc = partition_array_discard(j->env, ARRAY_PARTED_KEYS, first, n, j->discard);

	return rc ? rc
		  : partition_array_discard(j->env, ARRAY_PARTED_VALUES, first, n,
					    j->discard);
}

/* The words of the table for elements [first, first + n) of the built relation. */
static struct sluice_use
table_use(struct join *j, uint64_t first, uint64_t n, enum sluice_intent intent)
{
	return workload_use(j->env, ARRAY_TABLE, 2 * HASH_JOIN_SLOTS * first,
			    2 * HASH_JOIN_SLOTS * n, intent);
}

static uint32_t *
element(struct join *j, unsigned array, uint64_t i)
{
	return (uint32_t *)j->env->base[array] + i;
}

static int
table_clear(struct join *j, uint64_t first, uint64_t n)
{
	struct sluice_use use = table_use(j, first, n, SLUICE_USE_WRITE_ALL);
	struct hash_join_clear_args args = {
		.table = element(j, ARRAY_TABLE, 2 * HASH_JOIN_SLOTS * first),
		.n = 2 * HASH_JOIN_SLOTS * n,
	};

	return workload_launch(j->env, &clear_kernel, &args, &use, 1);
}

static int
group_build(struct join *j, uint64_t first, uint64_t n)
{
	struct hash_join_build_args args = {
		.table = element(j, ARRAY_TABLE, 2 * HASH_JOIN_SLOTS * first),
		.slots = HASH_JOIN_SLOTS * n,
	};
	int rc = table_clear(j, first, n);

	for (uint64_t at = first; !rc && at < first + n; at += args.n) {
		args.n = kernel_min(j->tile, first + n - at);
		args.keys = element(j, ARRAY_PARTED_KEYS, at);
		args.values = element(j, ARRAY_PARTED_VALUES, at);

		struct sluice_use uses[] = {
			workload_use(j->env, ARRAY_PARTED_KEYS, at, args.n, SLUICE_USE_READ),
			workload_use(j->env, ARRAY_PARTED_VALUES, at, args.n, SLUICE_USE_READ),
			table_use(j, first, n, SLUICE_USE_READ_WRITE),
		};

		rc = workload_launch(j->env, &build_kernel, &args, uses, 3);
		if (!rc)
			rc = parted_discard(j, at, args.n);
	}
	return rc;
}

/* The partition [first, first + n) with the table of [built, built + n_built). */
static int
group_probe(struct join *j, uint64_t built, uint64_t n_built, uint64_t first, uint64_t n)
{
	struct hash_join_probe_args args = {
		.table = element(j, ARRAY_TABLE, 2 * HASH_JOIN_SLOTS * built),
		.slots = HASH_JOIN_SLOTS * n_built,
		.turn = j->turn,
	};
	int rc = 0;

	for (uint64_t at = first; !rc && at < first + n; at += args.n) {
		uint64_t from = j->n + at; /* behind the built relation */

		args.n = kernel_min(j->tile, first + n - at);
		args.keys = element(j, ARRAY_PARTED_KEYS, from);
		args.values = element(j, ARRAY_PARTED_VALUES, from);
		args.matches = element(j, ARRAY_MATCHES, at);

		struct sluice_use uses[] = {
			workload_use(j->env, ARRAY_PARTED_KEYS, from, args.n, SLUICE_USE_READ),
			workload_use(j->env, ARRAY_PARTED_VALUES, from, args.n,
				     SLUICE_USE_READ),
			workload_use(j->env, ARRAY_MATCHES, at, args.n, SLUICE_USE_WRITE_ALL),
			table_use(j, built, n_built, SLUICE_USE_READ),
		};

		rc = workload_launch(j->env, &probe_kernel, &args, uses, n_built ? 4 : 3);
		if (!rc)
			rc = parted_discard(j, from, args.n);
	}
	return rc;
}

/* A value of the highest digit: its table comes and goes. */
static int
group_join(struct join *j, unsigned digit)
{
	uint64_t built = j->built[digit], n_built = j->built[digit + 1] - built;
	uint64_t probed = j->probed[digit], n_probed = j->probed[digit + 1] - probed;
	int rc = n_built ? group_build(j, built, n_built) : 0;

	if (!rc)
		rc = group_probe(j, built, n_built, probed, n_probed);
	if (!rc && n_built)
		rc = partition_array_discard(j->env, ARRAY_TABLE, 2 * HASH_JOIN_SLOTS * built,
					     2 * HASH_JOIN_SLOTS * n_built, j->discard);
	if (!rc)
		rc = workload_tile_done(j->env, ++j->done, j->total);
	return rc;
}

static int
relations_join(struct join *j)
{
	int rc = 0;

	if (j->turn > 0)
		rc = partition_array_discard(j->env, ARRAY_MATCHES, 0, j->n, j->discard);
	if (!rc)
		rc = relation_partition(j, 0, j->built);
	if (!rc)
		rc = relation_partition(j, j->n, j->probed);
	for (unsigned digit = 0; !rc && digit < PARTITION_DIGITS; digit++)
		rc = group_join(j, digit);
	return rc;
}

static int
hash_join_run(struct workload_env *env)
{
	uint64_t joins = env->params->option[OPTION_JOINS];
	struct join j = {
		.env = env,
		.n = env->plan.rows,
		.tile = workload_tile_elements(env, 4, 0),
		.discard = env->params->option[OPTION_DISCARD],
	};
	int rc = 0;

	j.total = joins * (2 * 2 * 2 * partition_tiles(env, j.n) + PARTITION_DIGITS);
	for (; !rc && j.turn < joins; j.turn++)
		rc = relations_join(&j);
	return rc ? rc : workload_wait(env);
}

/* All of it on the device: the inputs go in once. Else it depends on how full partitions are. */
static void
hash_join_expect(const struct workload_env *env, struct workload_expectation *out)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < env->plan.n_arrays; i++)
		all += workload_chunks_up(env, env->plan.array[i].size_bytes);
	if (all > env->config.device_budget_bytes)
		return;
	out->known = 1;
	out->h2d_bytes = (env->plan.rows + env->plan.cols) * 8;
	out->tolerance_bytes = 0;
	snprintf(out->h2d_formula, sizeof(out->h2d_formula), "I");
	snprintf(out->d2h_formula, sizeof(out->d2h_formula), "0");
}

/* ---- the reference: matches without a table, partitions by counting ---- */

static unsigned
part_of(uint32_t key)
{
	return key * HASH_JOIN_MULTIPLIER >> (32 - 2 * PARTITION_BITS);
}

static int
reference_join(struct workload_env *env, void *memory)
{
	uint64_t n = env->plan.rows, seed = env->params->seed, at[PARTS], sum = 0;
	uint64_t count[PARTS] = {0};
	uint32_t turn = (uint32_t)env->params->option[OPTION_JOINS] - 1;
	uint32_t *want = memory, *keys = want + n, *values = keys + CHECK_ELEMENTS;
	int rc = 0;

	for (uint64_t i = 0; i < n; i++)
		count[part_of(key_make(probe_make(&env->plan, seed, i)))]++;
	for (unsigned p = 0; p < PARTS; p++) {
		at[p] = sum;
		sum += count[p];
	}
	for (uint64_t first = 0; !rc && first < n; first += CHECK_ELEMENTS) {
		size_t m = (size_t)kernel_min(CHECK_ELEMENTS, n - first);

		rc = workload_input_read(env, ARRAY_KEYS, n + first, m, keys);
		if (!rc)
			rc = workload_input_read(env, ARRAY_VALUES, n + first, m, values);
		for (size_t i = 0; !rc && i < m; i++) {
			uint32_t number = number_unmix(keys[i]) - 1;

			want[at[part_of(keys[i])]++] = number < n
							       ? value_make(seed, number) +
									 values[i] + turn
							       : 0;
		}
		if (!rc)
			rc = workload_progress(env, "verify", (double)first / (double)n);
	}
	return rc ? rc
		  : workload_output_compare(env, ARRAY_MATCHES, WORKLOAD_I32, 0, n, want);
}

static int
hash_join_reference(struct workload_env *env)
{
	return workload_reference_run(env,
				      (env->plan.cols + 2 * CHECK_ELEMENTS) * sizeof(uint32_t),
				      reference_join);
}

static const struct workload_ops hash_join_ops = {
	.plan = hash_join_plan,
	.fill = hash_join_fill,
	.run = hash_join_run,
	.expect = hash_join_expect,
	.reference = hash_join_reference,
};

static const struct workload_kernel *const hash_join_kernels[] = {
	&partition_sort_kernel,
	&partition_scan_kernel,
	&partition_move_kernel,
	&clear_kernel,
	&build_kernel,
	&probe_kernel,
	NULL,
};

const struct workload workload_hash_join = {
	.name = "hashJoin",
	.text = "two relations joined by a hash of their keys, with or without discard",
	.tiled = 1,
	.options = hash_join_options,
	.n_options = sizeof(hash_join_options) / sizeof(hash_join_options[0]),
	.ops = &hash_join_ops,
	.kernels = hash_join_kernels,
};
