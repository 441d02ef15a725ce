/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses in memory: the bytes of blocks (or of a module's variables) that were seen to hold
 * our addresses. A launch that names such a block also uses the data at those addresses. A
 * launch may use a variable without an argument, so every launch uses the data that variables
 * name.
 *
 * A large block is a pool that the program allocates from (PL_POOL_BYTES). There a launch means
 * the tables near its address: from it on, up to the largest searched copy, and the one that it
 * lies in. So tables are found by block and granule.
 *
 * Tables are seen in small copies from host memory, and in peeks. A later copy or fill over the
 * same bytes replaces or removes them. Writes of kernels are not seen.
 *
 * Bounded: TABLES_MAX pieces of memory of PL_TABLE_BYTES_MAX each, the most that a searched copy
 * has. Beyond that launches count as using everything (pl_pointer_table_overflow).
 *
 * Threads: any. One lock; launches take it only for blocks that have PL_BLOCK_TABLE.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault_point.h"
#include "base/lock.h"
#include "preload/alloc/block.h"
#include "preload/alloc/suballoc.h"
#include "preload/args/functions.h"
#include "preload/args/pointer_table.h"
#include "preload/gpu.h"
#include "preload/report/counters.h"
#include "preload/scope.h"

#define TABLES_MAX  65536u
#define BUCKETS     4096u
#define GRANULE     UINT64_C(65536) /* no table is longer: PL_TABLE_BYTES_MAX */
#define GLOBALS_MAX 256u            /* addresses in variables */

struct member {
	uint64_t at;   /* where it lies */
	uint64_t addr; /* what it names */
};

struct table {
	struct table *next;  /* of its bucket, or of the variables */
	uint64_t block_id;   /* 0: a variable */
	uint64_t begin, end; /* bytes that were looked at */
	uint32_t n;          /* not 0 */
	struct member members[];
};

static struct table *buckets[BUCKETS];
static struct table *globals;
static unsigned n_tables, n_globals;
static struct sl_mutex lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_TABLES);
/* atomic: relaxed: the copy that set it comes before the launch in the program's order. */
static _Atomic unsigned any_globals;
_Atomic int pl_pointer_table_overflow;

/* Of a block's tables that begin in this granule. */
static struct table **
pointer_bucket(uint64_t block_id, uint64_t addr)
{
	return &buckets[(block_id + (addr / GRANULE << 20)) * 0x9e3779b97f4a7c15u >> 52];
}

/* Drop what was seen in [begin, end) by a list's tables of this block; what lies beside it stays. */
SL_REQUIRES(lock)
static void
list_drop(struct table **at, uint64_t block_id, uint64_t begin, uint64_t end)
{
	while (*at) {
		struct table *t = *at;
		uint32_t kept = 0;

		if (t->block_id != block_id || t->begin >= end || begin >= t->end) {
			at = &t->next;
			continue;
		}
		for (uint32_t i = 0; i < t->n; i++)
			if (t->members[i].at + 8 <= begin || end <= t->members[i].at)
				t->members[kept++] = t->members[i];
		if (!block_id)
			n_globals -= t->n - kept;
		t->n = kept;
		if (kept) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		n_tables--;
		free(t);
	}
}

/* The same of all of a block's. */
SL_REQUIRES(lock) static void block_drop(uint64_t block_id, uint64_t begin, uint64_t end)
{
	uint64_t first = begin - begin % GRANULE - GRANULE; /* what began before may reach in */

	if ((end - first) / GRANULE < BUCKETS) {
		for (uint64_t at = first; at < end; at += GRANULE)
			list_drop(pointer_bucket(block_id, at), block_id, begin, end);
		return;
	}
	for (size_t i = 0; i < BUCKETS; i++)
		list_drop(&buckets[i], block_id, begin, end);
}

/* The words of bytes at addr that are addresses of live blocks: a table that is in no list yet. NULL: there
 * are none. */
static struct table *
table_make(uint64_t block_id, uint64_t addr, const void *host, size_t bytes)
{
	struct table *t = NULL, *less;

	/* Words are aligned where they lie, wherever the copy begins. */
	for (size_t i = -addr & 7; i + 8 <= bytes; i += 8) {
		uint64_t word;

		memcpy(&word, (const char *)host + i, sizeof(word));
		if (!pl_maybe_ours(word) || !pl_block_find(word))
			continue;
		if (!t) {
			t = sl_malloc(sizeof(*t) + (bytes - i) / 8 * sizeof(t->members[0]));
			if (!t) { /* they are there, and are not known */
				atomic_store(&pl_pointer_table_overflow, 1);
				return NULL;
			}
			*t = (struct table){NULL, block_id, addr, addr + bytes, 0};
		}
		t->members[t->n++] = (struct member){addr + i, word};
	}
	less = t ? sl_realloc(t, sizeof(*t) + t->n * sizeof(t->members[0])) : NULL;
	return less ? less : t;
}

/* Keep it, or without room for it take everything for used from now on. */
SL_REQUIRES(lock) static void table_add(struct table **list, struct table *t)
{
	if (n_tables == TABLES_MAX || (!t->block_id && n_globals + t->n > GLOBALS_MAX)) {
		atomic_store(&pl_pointer_table_overflow, 1);
		free(t);
		return;
	}
	t->next = *list;
	*list = t;
	n_tables++;
	if (!t->block_id)
		n_globals += t->n;
	PL_COUNT(tables, 1);
}

void
pl_pointer_table_note(uint64_t addr, const void *host, size_t bytes)
{
	struct pl_block *block = pl_maybe_ours(addr) ? pl_data_find(addr) : NULL;
	uint64_t id = block ? block->id : 0;
	struct table *t = table_make(id, addr, host, bytes), **list;

	if (!t && (block ? !(atomic_load(&block->flags) & PL_BLOCK_TABLE)
			 : !atomic_load(&any_globals)))
		return;
	sl_mutex_lock(&lock);
	list = id ? pointer_bucket(id, addr) : &globals;
	if (id)
		block_drop(id, addr, addr + bytes);
	else
		list_drop(list, id, addr, addr + bytes);
	if (t) {
		table_add(list, t);
		if (block)
			atomic_fetch_or(&block->flags, PL_BLOCK_TABLE);
	}
	atomic_store(&any_globals, n_globals);
	sl_mutex_unlock(&lock);
}

void
pl_pointer_table_forget(struct pl_block *block)
{
	if (!(atomic_load_explicit(&block->flags, memory_order_relaxed) & PL_BLOCK_TABLE))
		return;
	sl_mutex_lock(&lock);
	block_drop(block->id, block->base, block->base + block->bytes);
	sl_mutex_unlock(&lock);
	atomic_fetch_and(&block->flags, ~(unsigned)PL_BLOCK_TABLE);
}

void
pl_pointer_table_overwritten(const struct pl_block *block, uint64_t addr, uint64_t bytes)
{
	sl_mutex_lock(&lock);
	block_drop(block->id, addr, addr + bytes);
	sl_mutex_unlock(&lock);
}

/* What is gathered for one launch. */
struct gather {
	struct pl_use *uses;
	size_t n;
	uint64_t stamp;
};

static bool
addr_is_in(const struct pl_block *block, uint64_t addr)
{
	return block && addr - block->base < block->bytes;
}

/* Blocks of a table's members, once a stamp. */
SL_REQUIRES(lock) static void members_add(struct gather *g, const struct table *t)
{
	const struct pl_block *last = NULL; /* of a pool there are many, in a row */

	for (uint32_t i = 0; i < t->n && g->n < PL_USES_MAX; i++) {
		struct pl_block *block;

		if (addr_is_in(last, t->members[i].addr))
			continue;
		last = block = pl_data_find(t->members[i].addr);
		if (block)
			g->n = pl_block_use(block, t->members[i].addr, g->uses, g->n,
					    g->stamp);
	}
}

/* The first table of the list that a kernel may mean which is given addr. */
SL_REQUIRES(lock)
static const struct table *
list_near(const struct table *t, const struct pl_block *block, uint64_t addr)
{
	int is_pool = block->bytes > PL_POOL_BYTES;

	while (t && (t->block_id != block->id ||
		     (is_pool && (t->end <= addr || t->begin >= addr + GRANULE))))
		t = t->next;
	return t;
}

/* Begin at *at, which is 0 at first: where granules of the block may hold such tables. 0: no more. */
static int
near_next(const struct pl_block *block, uint64_t addr, uint64_t *at)
{
	uint64_t first = block->base, end = block->base + block->bytes;

	if (block->bytes > PL_POOL_BYTES) {
		first = addr - block->base > GRANULE ? addr - GRANULE : block->base;
		end = end - addr > GRANULE ? addr + GRANULE : end;
	}
	*at = *at ? *at + GRANULE : first - first % GRANULE;
	return *at < end;
}

/* What the tables near an address name. */
SL_REQUIRES(lock)
static void
near_members_add(struct gather *g, const struct pl_block *block, uint64_t addr)
{
	uint64_t at = 0;

	while (near_next(block, addr, &at))
		for (const struct table *t =
			     list_near(*pointer_bucket(block->id, at), block, addr);
		     t; t = list_near(t->next, block, addr))
			members_add(g, t);
}

/* What the tables near the addresses in a table name. */
SL_REQUIRES(lock) static void members_follow(struct gather *g, const struct table *t)
{
	const struct pl_block *last = NULL;
	uint64_t granule = 0;

	for (uint32_t i = 0; i < t->n && g->n < PL_USES_MAX; i++) {
		const struct pl_block *block = addr_is_in(last, t->members[i].addr)
						       ? last
						       : pl_data_find(t->members[i].addr);

		if (!block || (block == last && (block->bytes <= PL_POOL_BYTES ||
						 t->members[i].addr / GRANULE == granule)))
			continue;
		last = block;
		granule = t->members[i].addr / GRANULE;
		if (atomic_load(&block->flags) & PL_BLOCK_TABLE)
			near_members_add(g, block, t->members[i].addr);
	}
}

size_t
pl_pointer_table_uses(const struct pl_block *block, uint64_t addr, struct pl_use *uses,
		      size_t n, uint64_t stamp)
{
	struct gather g = {uses, n, stamp};
	uint64_t at = 0;

	sl_mutex_lock(&lock);
	near_members_add(&g, block, addr);
	/* Addresses of addresses. */
	while (near_next(block, addr, &at))
		for (const struct table *t =
			     list_near(*pointer_bucket(block->id, at), block, addr);
		     t; t = list_near(t->next, block, addr))
			members_follow(&g, t);
	sl_mutex_unlock(&lock);
	return g.n;
}

size_t
pl_pointer_table_globals(struct pl_use *uses, size_t n, uint64_t stamp)
{
	struct gather g = {uses, n, stamp};

	if (!atomic_load_explicit(&any_globals, memory_order_relaxed))
		return n;
	sl_mutex_lock(&lock);
	for (const struct table *t = globals; t; t = t->next)
		members_add(&g, t);
	sl_mutex_unlock(&lock);
	return g.n;
}
