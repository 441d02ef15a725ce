/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pass of partitioning: its kernels on the software device, and the order of its launches. See
 * partition.h.
 *
 * The array of counts has PARTITION_DIGITS numbers for each block, then as many for each tile: the
 * totals, which host code needs to know where each tile's elements go.
 *
 * Threads: that of workload_run(); the kernels run on any number of workers.
 */
#include "partition_kernel.h"

#include "partition.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096u
/* Tiles whose totals one copy to host code has room for. */
#define COPY_TILES (WORKLOAD_HOST_COPY_MAX / (PARTITION_DIGITS * 4))

const char *const partition_discard_names[] = {"none", "eager", "lazy", NULL};

/* ---- kernels ---- */

static uint64_t
sort_elements(const void *args)
{
	return ((const struct partition_sort_args *)args)->n;
}

static void
sort_block(const struct partition_sort_args *a, uint64_t begin, uint64_t end)
{
	uint32_t *counts = a->counts + begin / PARTITION_BLOCK * PARTITION_DIGITS;
	uint64_t at[PARTITION_DIGITS];
	uint32_t count[PARTITION_DIGITS] = {0};
	uint64_t sum = begin;

	for (uint64_t i = begin; i < end; i++)
		count[partition_digit_of(a->digit, a->keys[i])]++;
	for (unsigned d = 0; d < PARTITION_DIGITS; d++) {
		at[d] = sum;
		sum += count[d];
	}
	for (uint64_t i = begin; i < end; i++) {
		uint32_t key = a->keys[i];
		uint64_t to = at[partition_digit_of(a->digit, key)]++;

		a->to_keys[to] = key;
		a->to_values[to] = a->values[i];
	}
	memcpy(counts, count, sizeof(count));
}

static void
sort_piece(const void *args, uint64_t begin, uint64_t end)
{
	for (; begin < end; begin += PARTITION_BLOCK)
		sort_block(args, begin, kernel_min(end, begin + PARTITION_BLOCK));
}

/* The counts of the blocks that elements [begin, end) are. */
static struct workload_touch
counts_touch(uint64_t begin, uint64_t end)
{
	return (struct workload_touch){
		.first = begin / PARTITION_BLOCK * PARTITION_DIGITS,
		.n = workload_blocks(end - begin, PARTITION_BLOCK) * PARTITION_DIGITS,
	};
}

static void
sort_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	struct workload_touch part = {.first = begin, .n = end - begin, .read = 1};

	(void)args;
	touch[0] = touch[1] = part;
	part.read = 0;
	part.write = 1;
	touch[2] = touch[3] = part;
	touch[4] = counts_touch(begin, end);
	touch[4].write = 1;
}

const struct workload_kernel partition_sort_kernel = {
	.name = "workload_partition_sort",
	.soft_elements = 4 * PARTITION_BLOCK,
	.cuda_elements = PARTITION_BLOCK,
	.args_bytes = sizeof(struct partition_sort_args),
	.n_pointers = 5,
	.pointer = {offsetof(struct partition_sort_args, keys),
		    offsetof(struct partition_sort_args, values),
		    offsetof(struct partition_sort_args, to_keys),
		    offsetof(struct partition_sort_args, to_values),
		    offsetof(struct partition_sort_args, counts)},
	.elements = sort_elements,
	.piece = sort_piece,
	.touch = sort_touch,
};

static uint64_t
scan_elements(const void *args)
{
	(void)args;
	return PARTITION_DIGITS;
}

static void
scan_piece(const void *args, uint64_t begin, uint64_t end)
{
	const struct partition_scan_args *a = args;

	for (uint64_t d = begin; d < end; d++) {
		uint32_t sum = 0;

		for (uint64_t b = 0; b < a->blocks; b++) {
			uint32_t *at = a->counts + b * PARTITION_DIGITS + d;
			uint32_t count = *at;

			*at = sum;
			sum += count;
		}
		a->totals[d] = sum;
	}
}

static void
scan_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct partition_scan_args *a = args;

	touch[0] = (struct workload_touch){.n = a->blocks * PARTITION_DIGITS,
					   .read = 1,
					   .write = 1};
	touch[1] = (struct workload_touch){.first = begin, .n = end - begin, .write = 1};
}

const struct workload_kernel partition_scan_kernel = {
	.name = "workload_partition_scan",
	.soft_elements = PARTITION_DIGITS, /* neighbours share cache lines */
	.cuda_elements = 1,
	.args_bytes = sizeof(struct partition_scan_args),
	.n_pointers = 2,
	.pointer = {offsetof(struct partition_scan_args, counts),
		    offsetof(struct partition_scan_args, totals)},
	.elements = scan_elements,
	.piece = scan_piece,
	.touch = scan_touch,
};

static uint64_t
move_elements(const void *args)
{
	return ((const struct partition_move_args *)args)->n;
}

/* A block is sorted by digits: runs of them, one behind the other. */
static void
move_block(const struct partition_move_args *a, uint64_t begin, uint64_t end)
{
	const uint32_t *before = a->counts + begin / PARTITION_BLOCK * PARTITION_DIGITS;
	uint64_t i = begin;

	while (i < end) {
		uint32_t d = partition_digit_of(a->digit, a->keys[i]);
		uint64_t run = i;

		while (run < end && partition_digit_of(a->digit, a->keys[run]) == d)
			run++;
		if (d - a->first_digit < a->n_digits) {
			memcpy(a->to_keys[d] + before[d], a->keys + i, (run - i) * 4);
			memcpy(a->to_values[d] + before[d], a->values + i, (run - i) * 4);
		}
		i = run;
	}
}

static void
move_piece(const void *args, uint64_t begin, uint64_t end)
{
	for (; begin < end; begin += PARTITION_BLOCK)
		move_block(args, begin, kernel_min(end, begin + PARTITION_BLOCK));
}

static void
move_touch(const void *args, uint64_t begin, uint64_t end, struct workload_touch *touch)
{
	const struct partition_move_args *a = args;

	touch[0] = (struct workload_touch){.first = begin, .n = end - begin, .read = 1};
	touch[1] = touch[0];
	touch[2] = counts_touch(begin, end);
	touch[2].read = 1;
	for (unsigned d = a->first_digit; d < a->first_digit + a->n_digits; d++) {
		struct workload_touch to = {.n = a->total[d], .write = 1};

		touch[3 + d] = touch[3 + PARTITION_DIGITS + d] = to;
	}
}

/* clang-format off */
#define MOVE_TO(field, d) \
	(offsetof(struct partition_move_args, field) + (d) * sizeof(uint32_t *))
#define MOVE_TO_4(field, d) \
	MOVE_TO(field, d), MOVE_TO(field, (d) + 1), MOVE_TO(field, (d) + 2), \
	MOVE_TO(field, (d) + 3)
#define MOVE_TO_16(field) \
	MOVE_TO_4(field, 0), MOVE_TO_4(field, 4), MOVE_TO_4(field, 8), MOVE_TO_4(field, 12)
/* clang-format on */

const struct workload_kernel partition_move_kernel = {
	.name = "workload_partition_move",
	.soft_elements = 4 * PARTITION_BLOCK,
	.cuda_elements = PARTITION_BLOCK,
	.args_bytes = sizeof(struct partition_move_args),
	.n_pointers = 3 + 2 * PARTITION_DIGITS,
	.pointer = {offsetof(struct partition_move_args, keys),
		    offsetof(struct partition_move_args, values),
		    offsetof(struct partition_move_args, counts), MOVE_TO_16(to_keys),
		    MOVE_TO_16(to_values)},
	.elements = move_elements,
	.piece = move_piece,
	.touch = move_touch,
};

/* ---- a pass ---- */

/* A pass, as its launches see it. */
struct pass {
	struct workload_env *env;
	const struct partition_pass *what;
	uint64_t tile, tiles;   /* elements of one; how many there are */
	uint64_t counts_blocks; /* of the array of counts, before the totals */
	uint32_t *totals;       /* tiles times PARTITION_DIGITS */
	/* Where the elements of each digit end that are still to be moved. */
	uint64_t end[PARTITION_DIGITS];
};

uint64_t
partition_counts_bytes(uint64_t n, uint64_t chunk_bytes)
{
	uint64_t tiles = workload_blocks(n * 4, chunk_bytes); /* at most */

	return (workload_blocks(n, PARTITION_BLOCK) + tiles) * PARTITION_DIGITS * 4;
}

/* Source, scratch and target, and where the target's chunks begin and end elsewhere. */
static uint64_t
tile_elements(struct workload_env *env)
{
	return workload_tile_elements(env, 4, 0);
}

uint64_t
partition_tiles(struct workload_env *env, uint64_t n)
{
	return workload_blocks(n, tile_elements(env));
}

int
partition_array_discard(struct workload_env *env, unsigned array, uint64_t first,
			uint64_t n, uint64_t mode)
{
	char *from = (char *)env->base[array] + first * 4 / PAGE_BYTES * PAGE_BYTES;
	char *to = (char *)env->base[array] + (first + n) * 4;

	if (mode == PARTITION_DISCARD_NONE || from == to)
		return 0;
	return env->memory->discard(env, from, (size_t)(to - from),
				    mode == PARTITION_DISCARD_EAGER ? SLUICE_DISCARD_EAGER
								    : SLUICE_DISCARD_LAZY);
}

static int
pair_discard(const struct pass *p, struct partition_pair pair, uint64_t first, uint64_t n)
{
	int rc = partition_array_discard(p->env, pair.keys, first, n, p->what->discard);

	return rc ? rc
		  : partition_array_discard(p->env, pair.values, first, n, p->what->discard);
}

static uint32_t *
element(const struct pass *p, unsigned array, uint64_t first)
{
	return (uint32_t *)p->env->base[array] + first;
}

/* Elements of a tile, from pass->first on. */
static uint64_t
tile_n(const struct pass *p, uint64_t tile)
{
	return kernel_min(p->tile, p->what->n - tile * p->tile);
}

/* Where a tile's counts are in their array, and how many. */
static uint64_t
tile_counts(const struct pass *p, uint64_t tile, uint64_t *n)
{
	*n = workload_blocks(tile_n(p, tile), PARTITION_BLOCK) * PARTITION_DIGITS;
	return tile * p->tile / PARTITION_BLOCK * PARTITION_DIGITS;
}

static uint64_t
tile_totals(const struct pass *p, uint64_t tile)
{
	return (p->counts_blocks + tile) * PARTITION_DIGITS;
}

static int
tile_done(const struct pass *p)
{
	++*p->what->tiles_done;
	return workload_tile_done(p->env, *p->what->tiles_done, p->what->tiles_total);
}

static int
tile_sort(const struct pass *p, uint64_t tile)
{
	const struct partition_pass *w = p->what;
	uint64_t first = w->first + tile * p->tile, n = tile_n(p, tile), n_counts;
	uint64_t counts = tile_counts(p, tile, &n_counts);
	struct partition_sort_args args = {
		.keys = element(p, w->source.keys, first),
		.values = element(p, w->source.values, first),
		.to_keys = element(p, w->scratch.keys, first),
		.to_values = element(p, w->scratch.values, first),
		.counts = element(p, w->counts, counts),
		.n = n,
		.digit = w->digit,
	};
	struct sluice_use uses[] = {
		workload_use(p->env, w->source.keys, first, n, SLUICE_USE_READ),
		workload_use(p->env, w->source.values, first, n, SLUICE_USE_READ),
		workload_use(p->env, w->scratch.keys, first, n, SLUICE_USE_WRITE_ALL),
		workload_use(p->env, w->scratch.values, first, n, SLUICE_USE_WRITE_ALL),
		workload_use(p->env, w->counts, counts, n_counts, SLUICE_USE_WRITE_ALL),
	};

	return workload_launch(p->env, &partition_sort_kernel, &args, uses, 5);
}

static int
tile_scan(const struct pass *p, uint64_t tile)
{
	const struct partition_pass *w = p->what;
	uint64_t n, counts = tile_counts(p, tile, &n), totals = tile_totals(p, tile);
	struct partition_scan_args args = {
		.counts = element(p, w->counts, counts),
		.totals = element(p, w->counts, totals),
		.blocks = n / PARTITION_DIGITS,
	};
	struct sluice_use uses[] = {
		workload_use(p->env, w->counts, counts, n, SLUICE_USE_READ_WRITE),
		workload_use(p->env, w->counts, totals, PARTITION_DIGITS, SLUICE_USE_WRITE_ALL),
	};

	return workload_launch(p->env, &partition_scan_kernel, &args, uses, 2);
}

static int
tiles_sort(const struct pass *p)
{
	int rc = 0;

	for (uint64_t tile = 0; !rc && tile < p->tiles; tile++) {
		rc = tile_sort(p, tile);
		if (!rc)
			rc = tile_scan(p, tile);
		if (!rc && p->what->source_dies)
			rc = pair_discard(p, p->what->source,
					  p->what->first + tile * p->tile, tile_n(p, tile));
		if (!rc)
			rc = tile_done(p);
	}
	return rc;
}

/* The totals to host code; where each digit begins in the target. */
static int
totals_read(struct pass *p, uint64_t *start)
{
	uint64_t sum = 0;
	int rc = 0;

	for (uint64_t tile = 0; !rc && tile < p->tiles; tile += COPY_TILES) {
		uint64_t n = kernel_min(COPY_TILES, p->tiles - tile) * PARTITION_DIGITS;

		rc = workload_host_copy(p->env, p->what->counts, tile_totals(p, tile), n,
					n, 1, p->totals + tile * PARTITION_DIGITS);
	}
	for (unsigned d = 0; !rc && d < PARTITION_DIGITS; d++) {
		start[d] = sum;
		for (uint64_t tile = 0; tile < p->tiles; tile++)
			sum += p->totals[tile * PARTITION_DIGITS + d];
		p->end[d] = sum;
	}
	if (rc)
		return rc;
	start[PARTITION_DIGITS] = sum;
	if (sum != p->what->n)
		return workload_fail(p->env, -EIO,
				     "%s: %llu elements were counted, there are %llu",
				     p->env->workload->name, (unsigned long long)sum,
				     (unsigned long long)p->what->n);
	return 0;
}

/* Bytes of the chunks that n elements from first of both target arrays lie in. */
static uint64_t
target_bytes(const struct pass *p, uint64_t first, uint64_t n)
{
	uint64_t chunk = workload_chunk_bytes(p->env) / 4;

	if (n == 0)
		return 0;
	return 2 * 4 * chunk * ((first + n - 1) / chunk - first / chunk + 1);
}

/* Digits from `digit` on that a launch moves: what has room beside the tile, at least one. */
static unsigned
digits_at_once(const struct pass *p, uint64_t tile, unsigned digit)
{
	const struct sluice_config *config = &p->env->config;
	const uint32_t *total = p->totals + tile * PARTITION_DIGITS;
	uint64_t room = config->device_budget_bytes /
			(config->device == SLUICE_DEVICE_CUDA ? 4 : 2);
	unsigned n;

	room = workload_less(room, 2 * 4 * tile_n(p, tile));
	for (n = 0; digit + n < PARTITION_DIGITS; n++) {
		uint64_t to = p->what->first + p->end[digit + n] - total[digit + n];
		uint64_t bytes = target_bytes(p, to, total[digit + n]);

		if (n > 0 && bytes > room)
			break;
		room = workload_less(room, bytes);
	}
	return n;
}

/* Move what a tile has of n_digits digits. */
static int
digits_move(struct pass *p, uint64_t tile, unsigned digit, unsigned n_digits)
{
	const struct partition_pass *w = p->what;
	const uint32_t *total = p->totals + tile * PARTITION_DIGITS;
	uint64_t first = w->first + tile * p->tile, n = tile_n(p, tile), n_counts;
	uint64_t counts = tile_counts(p, tile, &n_counts);
	struct partition_move_args args = {
		.keys = element(p, w->scratch.keys, first),
		.values = element(p, w->scratch.values, first),
		.counts = element(p, w->counts, counts),
		.n = n,
		.digit = w->digit,
		.first_digit = digit,
		.n_digits = n_digits,
	};
	struct sluice_use uses[3 + 2 * PARTITION_DIGITS] = {
		workload_use(p->env, w->scratch.keys, first, n, SLUICE_USE_READ),
		workload_use(p->env, w->scratch.values, first, n, SLUICE_USE_READ),
		workload_use(p->env, w->counts, counts, n_counts, SLUICE_USE_READ),
	};
	unsigned n_uses = 3, d;
	uint64_t moved = 0;

	for (d = 0; d < PARTITION_DIGITS; d++) {
		uint64_t to = w->first + p->end[d] - total[d];
		int is_moved = d - digit < n_digits && total[d];

		/* A pointer has to be into the array, also where nothing is moved. */
		args.to_keys[d] = element(p, w->target.keys, is_moved ? to : 0);
		args.to_values[d] = element(p, w->target.values, is_moved ? to : 0);
		args.total[d] = is_moved ? total[d] : 0;
		if (!is_moved)
			continue;
		uses[n_uses++] = workload_use(p->env, w->target.keys, to, total[d],
					      SLUICE_USE_WRITE_ALL);
		uses[n_uses++] = workload_use(p->env, w->target.values, to, total[d],
					      SLUICE_USE_WRITE_ALL);
		p->end[d] -= total[d];
		moved += total[d];
	}
	if (!moved)
		return 0;
	return workload_launch(p->env, &partition_move_kernel, &args, uses, n_uses);
}

/* The last tile first: what has just been sorted is still on the device. */
static int
tiles_move(struct pass *p)
{
	int rc = 0;

	for (uint64_t tile = p->tiles; !rc && tile-- > 0;) {
		unsigned digit = 0, n;

		for (; !rc && digit < PARTITION_DIGITS; digit += n) {
			n = digits_at_once(p, tile, digit);
			rc = digits_move(p, tile, digit, n);
		}
		if (!rc)
			rc = pair_discard(p, p->what->scratch,
					  p->what->first + tile * p->tile, tile_n(p, tile));
		if (!rc)
			rc = tile_done(p);
	}
	return rc;
}

int
partition_pass_run(struct workload_env *env, const struct partition_pass *pass, uint64_t *start)
{
	struct pass p = {
		.env = env,
		.what = pass,
		.tile = tile_elements(env),
		.tiles = partition_tiles(env, pass->n),
		.counts_blocks = workload_blocks(pass->n, PARTITION_BLOCK),
	};
	int rc;

	p.totals = calloc(p.tiles, PARTITION_DIGITS * sizeof(*p.totals));
	if (!p.totals)
		return workload_fail(env, -ENOMEM, "out of memory");
	rc = tiles_sort(&p);
	if (!rc)
		rc = totals_read(&p, start);
	if (!rc)
		rc = tiles_move(&p);
	free(p.totals);
	return rc;
}
