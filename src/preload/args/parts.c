/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where parts begin. For each large block there is a sorted list of the addresses in it that the
 * program has passed: arguments of kernels, and both ends of copies and fills. A part reaches from
 * one of them to the next.
 *
 *   - An address counts from its second launch on. Some programs pass another one at each launch,
 *     such as a place in a cache that grows.
 *   - The ends of a large copy count at once: programs load their weights so.
 *   - A part is a guess. The launch may use all of the block: the rest of it is mapped in host memory
 *     or stays on the device (scope.c). So a part that is too short costs time, never the result.
 *   - A part that has no end yet, or takes more than the share below, is not brought in. But a new block may
 *     be a workspace, which its launches write. It has nothing to bring in, so the whole block is used.
 *
 * Lists are kept by the identities of blocks. A block that is allocated where one of its size was freed
 * takes over that one's list: XLA allocates the temporaries of each step anew. Unless that one was a
 * workspace, it is not new. Lists of other freed blocks are taken for others.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fault_point.h"
#include "base/hash.h"
#include "base/lock.h"
#include "preload/alloc/block.h"
#include "preload/alloc/suballoc.h"
#include "preload/args/parts.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/scope.h"

/* A copy of so many bytes begins and ends where tensors do; smaller ones are parts of tensors. */
#define COPY_BYTES (UINT64_C(1) << 20)
/* Blocks with lists, and addresses of one. More than that are not known: parts are longer. */
#define LISTS_MAX  32u
#define CUTS_MAX   65536u

/* Uses by launches: so long is a block new. cuDNN's convolutions pass a workspace to as many as five launches. More:
 * what is gathered from a large block takes the device for longer, until it is read in place. */
#define NEW_USES 8u

struct cut {
	uint64_t offset;
	uint64_t seen; /* by so many launches; a large copy counts for two */
};

struct list {
	uint64_t block;       /* its identity; 0: free */
	uint64_t base, bytes; /* where it lies */
	uint64_t used;        /* when it was looked at last */
	uint64_t uses;        /* by launches */
	int has_data;         /* something large was copied to or from it */
	struct cut *cuts;
	size_t n, max;
};

static struct sl_mutex lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);
static struct list lists[LISTS_MAX];
static uint64_t clock_now;

bool
pl_block_has_parts(const struct pl_block *block)
{
	/* Another thread may be freeing a block that the learner expects: it has no bytes then. */
	uint64_t bytes = __atomic_load_n(&block->bytes, __ATOMIC_RELAXED);

	return bytes > atomic_load(&block->gpu->device_budget) / PL_LARGE_SHARE;
}

/* Make the list that of a block which has none: what the block before it at that place had, or nothing. */
SL_REQUIRES(lock)
static void
list_inherit(struct list *l, const struct pl_block *block)
{
	int again = l->base == block->base && l->bytes == block->bytes;

	if (!again || l->uses < NEW_USES * NEW_USES) /* a workspace has few more than NEW_USES */
		l->uses = 0;
	if (!again)
		l->n = 0;
	l->has_data = 0;
	l->block = block->id;
	l->base = block->base;
	l->bytes = block->bytes;
}

SL_REQUIRES(lock)
static struct list *
list_get(const struct pl_block *block)
{
	struct list *best = lists;

	for (struct list *l = lists; l < lists + LISTS_MAX; l++) {
		if (l->block == block->id ||
		    (l->base == block->base && l->bytes == block->bytes)) {
			best = l;
			break;
		}
		if (l->used < best->used)
			best = l;
	}
	best->used = ++clock_now;
	if (best->block != block->id)
		list_inherit(best, block);
	return best;
}

/* The first cut at or behind offset. */
static size_t
cut_at(const struct list *l, uint64_t offset)
{
	size_t low = 0, high = l->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (l->cuts[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Something begins there, seen so many times more. Without memory it is not noted. */
SL_REQUIRES(lock)
static void
cut_note(struct list *l, uint64_t offset, uint64_t seen)
{
	size_t i = cut_at(l, offset);

	if (i < l->n && l->cuts[i].offset == offset) {
		l->cuts[i].seen += seen;
		return;
	}
	if (l->n == CUTS_MAX)
		return;
	if (l->n == l->max) {
		size_t max = l->max ? 2 * l->max : 256;
		struct cut *more = sl_realloc(l->cuts, max * sizeof(*more));

		if (!more)
			return;
		l->cuts = more;
		l->max = max;
	}
	memmove(&l->cuts[i + 1], &l->cuts[i], (l->n - i) * sizeof(*l->cuts));
	l->cuts[i] = (struct cut){offset, seen};
	l->n++;
}

/* It may be a workspace: launches have named it a few times, and nothing large was copied to or from it. */
SL_REQUIRES(lock)
static bool
list_is_new(const struct list *l)
{
	return l->uses < NEW_USES && !l->has_data;
}

/* The part from addr on, or all of a new block. It may have no bytes. */
SL_REQUIRES(lock)
static struct pl_use
part_at(const struct list *l, struct pl_block *block, uint64_t addr)
{
	uint64_t most = atomic_load(&block->gpu->device_budget) / PL_LARGE_SHARE;
	uint64_t offset = addr - block->base, end = block->bytes;
	struct pl_use use = {.block = block, .intent = SLUICE_USE_READ_WRITE, .open = 1};

	if (list_is_new(l)) {
		use.addr = block->base;
		use.bytes = block->bytes;
		return use;
	}
	for (size_t i = cut_at(l, offset + 1); i < l->n; i++) {
		if (l->cuts[i].seen > 1) {
			end = l->cuts[i].offset;
			break;
		}
	}
	use.addr = addr;
	use.bytes = end - offset > most ? 0 : end - offset;
	return use;
}

static bool
part_is_named(const struct pl_block *block, uint64_t addr, const struct pl_use *uses, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (uses[i].addr == addr && uses[i].block == block)
			return true;
	return false;
}

size_t
pl_part_use(struct pl_block *block, uint64_t addr, struct pl_use *uses, size_t n)
{
	struct pl_use use;
	struct list *l;

	if (n >= PL_USES_MAX || part_is_named(block, addr, uses, n))
		return n;
	sl_mutex_lock(&lock);
	l = list_get(block);
	cut_note(l, addr - block->base, 1);
	use = part_at(l, block, addr);
	l->uses++;
	sl_mutex_unlock(&lock);
	if (!part_is_named(block, use.addr, uses, n))
		uses[n++] = use;
	return n;
}

void
pl_part_note(const struct pl_use *use, bool fills)
{
	uint64_t seen = use->bytes < COPY_BYTES ? 1 : 2;
	uint64_t offset = use->addr - use->block->base;
	struct list *l;

	if (!pl_block_has_parts(use->block))
		return;
	sl_mutex_lock(&lock);
	l = list_get(use->block);
	if (!fills && seen > 1)
		l->has_data = 1;
	cut_note(l, offset, seen);
	if (use->bytes < use->block->bytes - offset)
		cut_note(l, offset + use->bytes, seen);
	sl_mutex_unlock(&lock);
}

uint64_t
pl_parts_bytes(const struct pl_gpu *gpu)
{
	uint64_t bytes = 0;

	sl_mutex_lock(&lock);
	for (const struct list *l = lists; l < lists + LISTS_MAX; l++) {
		const struct pl_block *block = l->block && !list_is_new(l)
						       ? pl_block_find(l->base)
						       : NULL;

		if (block && block->id == l->block && block->gpu == gpu)
			bytes += block->bytes;
	}
	sl_mutex_unlock(&lock);
	return bytes;
}

uint64_t
pl_part_id(const struct pl_block *block, uint64_t addr)
{
	if (!block)
		return 0;
	if (!pl_block_has_parts(block))
		return block->id;
	return sl_hash_add(block->id, addr - block->base) | 1; /* not 0 */
}
