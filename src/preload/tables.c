/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses kept in memory: which bytes of which block (or of a module's variables) were seen to hold
 * addresses of ours, and which. A launch that is given such a block uses what the addresses name as
 * well; a launch may use a variable without being given anything, so what variables name is
 * used by every launch.
 *
 * Seen: in small copies from host memory, before they are made, and in what peeks bring. A later
 * copy over the same bytes replaces what was seen there; what a kernel writes is not seen.
 *
 * Bounded: TABLES_MAX pieces of memory of PL_TABLE_BYTES_MAX each, which copies that are looked at have at
 * most. What goes beyond makes launches count as touching everything (pl_table_overflow).
 *
 * Threads: any. One lock; launches take it only for blocks that have PL_BLOCK_TABLE.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "preload/functions.h"

#define TABLES_MAX  65536u
#define BUCKETS     4096u
#define GLOBALS_MAX 256u /* addresses in variables */

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
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned any_globals;
_Atomic int pl_table_overflow;

static struct table **
bucket_of(uint64_t block_id)
{
	return &buckets[block_id * 0x9e3779b97f4a7c15u >> 52];
}

/* Drop what was seen in [begin, end) by a list's tables of this block; what lies beside it stays. Held. */
static void
tables_drop(struct table **at, uint64_t block_id, uint64_t begin, uint64_t end)
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
			t = malloc(sizeof(*t) + (bytes - i) / 8 * sizeof(t->members[0]));
			if (!t) { /* they are there, and are not known */
				atomic_store(&pl_table_overflow, 1);
				return NULL;
			}
			*t = (struct table){NULL, block_id, addr, addr + bytes, 0};
		}
		t->members[t->n++] = (struct member){addr + i, word};
	}
	less = t ? realloc(t, sizeof(*t) + t->n * sizeof(t->members[0])) : NULL;
	return less ? less : t;
}

/* Keep it, or without room for it take everything for used from now on. Held. */
static void
table_add(struct table **list, struct table *t)
{
	if (n_tables == TABLES_MAX || (!t->block_id && n_globals + t->n > GLOBALS_MAX)) {
		atomic_store(&pl_table_overflow, 1);
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
pl_table_note(uint64_t addr, const void *host, size_t bytes)
{
	struct pl_block *block = pl_maybe_ours(addr) ? pl_block_find(addr) : NULL;
	uint64_t id = block ? block->id : 0;
	struct table *t = table_make(id, addr, host, bytes), **list;

	if (!t && (block ? !(atomic_load(&block->flags) & PL_BLOCK_TABLE)
			 : !atomic_load(&any_globals)))
		return;
	pthread_mutex_lock(&lock);
	list = id ? bucket_of(id) : &globals;
	tables_drop(list, id, addr, addr + bytes);
	if (t) {
		table_add(list, t);
		if (block)
			atomic_fetch_or(&block->flags, PL_BLOCK_TABLE);
	}
	atomic_store(&any_globals, n_globals);
	pthread_mutex_unlock(&lock);
}

void
pl_table_forget(struct pl_block *block)
{
	if (!(atomic_load_explicit(&block->flags, memory_order_relaxed) & PL_BLOCK_TABLE))
		return;
	pthread_mutex_lock(&lock);
	tables_drop(bucket_of(block->id), block->id, 0, UINT64_MAX);
	pthread_mutex_unlock(&lock);
	atomic_fetch_and(&block->flags, ~(unsigned)PL_BLOCK_TABLE);
}

/* Blocks of a table's members, once a stamp. Held. */
static size_t
members_add(const struct table *t, struct pl_use *uses, size_t n, uint64_t stamp)
{
	for (uint32_t i = 0; i < t->n && n < PL_USES_MAX; i++) {
		struct pl_block *block = pl_block_find(t->members[i].addr);

		if (block)
			n = pl_block_use(block, uses, n, stamp);
	}
	return n;
}

/* What the tables of one block name. Held. */
static size_t
block_members_add(const struct pl_block *block, struct pl_use *uses, size_t n, uint64_t stamp)
{
	for (const struct table *t = *bucket_of(block->id); t; t = t->next) {
		if (t->block_id == block->id)
			n = members_add(t, uses, n, stamp);
	}
	return n;
}

size_t
pl_table_uses(struct pl_block *block, struct pl_use *uses, size_t n, uint64_t stamp)
{
	size_t from = n;

	pthread_mutex_lock(&lock);
	n = block_members_add(block, uses, n, stamp);
	/* The members' own tables: addresses of addresses. */
	for (size_t i = from; i < n; i++) {
		if (atomic_load(&uses[i].block->flags) & PL_BLOCK_TABLE)
			n = block_members_add(uses[i].block, uses, n, stamp);
	}
	pthread_mutex_unlock(&lock);
	return n;
}

size_t
pl_table_globals(struct pl_use *uses, size_t n, uint64_t stamp)
{
	if (!atomic_load_explicit(&any_globals, memory_order_relaxed))
		return n;
	pthread_mutex_lock(&lock);
	for (const struct table *t = globals; t; t = t->next)
		n = members_add(t, uses, n, stamp);
	pthread_mutex_unlock(&lock);
	return n;
}
