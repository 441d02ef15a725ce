/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Suballocations: suballoc.h. A divided block has an array of them, sorted by address. A lookup
 * takes one short lock. Records are the arena's, so one that is looked at while it ends stays
 * readable.
 *
 * Discards. When the last suballocation of a chunk ends, its contents are dead. The core is told so,
 * for whole chunks. A chunk with anything that is not divided, or with free room, is left alone:
 * others could allocate there meanwhile. While a discard goes on, nothing begins, ends or is freed:
 * `changing` is held. So nobody has begun to use what is discarded.
 *
 * Programs that capture graphs. A graph goes on to use what its tensors had when it was captured, and
 * nobody tells. PyTorch also restores earlier states of a pool of graphs, contents included. So from
 * the first capture of the process on, all divided blocks count as whole, and nothing is discarded.
 *
 * Threads: any.
 */
#include "preload/alloc/suballoc.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault_point.h"
#include "base/lock.h"
#include "preload/alloc/arena.h"
#include "preload/alloc/arena_internal.h"
#include "preload/alloc/block_internal.h"
#include "preload/args/pointer_table.h"
#include "preload/gpu.h"
#include "preload/preload.h"
#include "preload/report/counters.h"
#include "preload/report/tracing.h"
#include "preload/scope.h"
#include "preload/streams/capture.h"
#include "preload/streams/fence.h"

struct pl_suballocs {
	struct pl_record **at; /* sorted by base */
	size_t n, max;
	bool unknown; /* there was no memory for one: the block counts as whole */
};

/* Of begins, ends and discards. The pager waits for moves under it. */
static struct sl_mutex changing = SL_MUTEX_INITIALIZER(SL_RANK_PL_SUBALLOCS);

/* Of the arrays. */
static struct sl_mutex lock = SL_MUTEX_INITIALIZER(SL_RANK_PL_LEAF);

/* The first suballocation that ends behind addr. */
SL_REQUIRES(lock)
static size_t
suballocs_at(const struct pl_suballocs *s, uint64_t addr)
{
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct pl_block *block = &s->at[middle]->block;

		if (block->base + block->bytes <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool
graphs_are_captured(void)
{
	return atomic_load_explicit(&pl_captured, memory_order_relaxed);
}

struct pl_block *
pl_suballoc_find(struct pl_block *block, uint64_t addr)
{
	struct pl_block *found = block;
	const struct pl_suballocs *s;
	size_t i;

	if (graphs_are_captured())
		return block;
	sl_mutex_lock(&lock);
	s = block->suballocs;
	i = s ? suballocs_at(s, addr) : 0;
	if (s && !s->unknown && i < s->n && s->at[i]->block.base <= addr)
		found = &s->at[i]->block;
	sl_mutex_unlock(&lock);
	return found;
}

/* ---- records ---- */

static struct pl_record *
record_make(struct pl_block *whole, uint64_t addr, uint64_t bytes)
{
	struct pl_arena *arena = pl_arena_of(whole->gpu);
	struct pl_record *record;

	pl_arena_lock(arena);
	record = pl_record_get(&arena->records);
	pl_arena_unlock(arena);
	if (!record)
		return NULL;
	record->area = NULL;
	record->block.base = addr;
	record->block.bytes = record->block.room = bytes;
	record->block.gpu = whole->gpu;
	record->block.context = whole->context;
	record->block.birth = whole->birth;
	/* The room of the block may be owed to other streams. */
	record->block.lien = pl_fence_hold(whole->lien);
	atomic_store(&record->block.owed, atomic_load(&whole->owed));
	pl_tracing_alloc(&record->block);
	return record;
}

/* It is in no array any more. */
static void
record_end(struct pl_record *record)
{
	struct pl_arena *arena = pl_arena_of(record->block.gpu);
	struct pl_fence *lien = record->block.lien;

	if (atomic_load(&record->block.flags) & PL_BLOCK_PINNED)
		pl_block_unpin(&record->block);
	pl_tracing_free(&record->block);
	pl_pointer_table_forget(&record->block);
	__atomic_store_n(&record->block.bytes, 0, __ATOMIC_RELEASE);
	pl_arena_lock(arena);
	pl_record_put(&arena->records, record);
	pl_arena_unlock(arena);
	pl_fence_put(lien);
}

/* ---- arrays ---- */

/* The block's array, made if there is none. NULL: no memory, and it stays undivided. */
SL_REQUIRES(changing)
static struct pl_suballocs *
block_divide(struct pl_block *whole)
{
	struct pl_suballocs *s = whole->suballocs;

	if (s)
		return s;
	s = sl_calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	pl_tracing_free(whole); /* its suballocations are what is recorded */
	sl_mutex_lock(&lock);
	whole->suballocs = s;
	sl_mutex_unlock(&lock);
	atomic_fetch_or(&whole->flags, PL_BLOCK_DIVIDED);
	return s;
}

/* Take out the i-th. */
SL_REQUIRES(changing)
static struct pl_record *
suballocs_remove(struct pl_suballocs *s, size_t i)
{
	struct pl_record *record = s->at[i];

	sl_mutex_lock(&lock);
	memmove(&s->at[i], &s->at[i + 1], (s->n - i - 1) * sizeof(struct pl_record *));
	s->n--;
	sl_mutex_unlock(&lock);
	return record;
}

/* Room for one more. 0: no memory. */
SL_REQUIRES(changing)
static int
suballocs_grow(struct pl_suballocs *s)
{
	size_t max = s->max ? 2 * s->max : 16;
	struct pl_record **more;

	if (s->n < s->max)
		return 1;
	sl_mutex_lock(&lock);
	more = sl_realloc(s->at, max * sizeof(struct pl_record *));
	if (more) {
		s->at = more;
		s->max = max;
	}
	sl_mutex_unlock(&lock);
	return more != NULL;
}

SL_REQUIRES(changing)
static void
suballocs_insert(struct pl_suballocs *s, size_t i, struct pl_record *record)
{
	sl_mutex_lock(&lock);
	memmove(&s->at[i + 1], &s->at[i], (s->n - i) * sizeof(struct pl_record *));
	s->at[i] = record;
	s->n++;
	sl_mutex_unlock(&lock);
}

/* Arrays change with both locks: with changing alone they may be read. */
SL_NO_LOCK_CHECK static size_t
suballocs_look(const struct pl_suballocs *s, uint64_t addr)
{
	return suballocs_at(s, addr);
}

/* ---- discards ---- */

/* Divided blocks take all of [addr, end), and nothing in it is given out. */
SL_REQUIRES(changing)
static bool
is_dead(uint64_t addr, uint64_t end)
{
	while (addr < end) {
		const struct pl_block *block = pl_block_find(addr);
		const struct pl_suballocs *s = block ? block->suballocs : NULL;
		size_t i;

		if (!s || s->unknown)
			return false;
		i = suballocs_look(s, addr);
		if (i < s->n && s->at[i]->block.base < end)
			return false;
		addr = block->base + block->room;
	}
	return true;
}

/* [begin, end) has been taken back: discard what is dead of its chunks. */
SL_REQUIRES(changing)
static void
chunks_discard(struct pl_gpu *gpu, uint64_t begin, uint64_t end)
{
	uint64_t chunk = pl_gpu_chunk_bytes(gpu), at = begin - begin % chunk, dead = 0;

	for (; at < end; at += chunk) {
		if (is_dead(at, at + chunk)) {
			dead += chunk;
			continue;
		}
		if (dead)
			pl_reuse_discard(pl_arena_of(gpu), at - dead, dead);
		dead = 0;
	}
	if (dead)
		pl_reuse_discard(pl_arena_of(gpu), at - dead, dead);
}

/* ---- begin and end ---- */

void
pl_suballoc_begin(uint64_t addr, uint64_t bytes)
{
	struct pl_block *whole = pl_maybe_ours(addr) ? pl_block_find(addr) : NULL;
	struct pl_record *record;
	struct pl_suballocs *s;
	size_t i;

	if (!whole || graphs_are_captured() || whole->birth != PL_BORN_ALLOC ||
	    bytes > whole->base + whole->bytes - addr)
		return;
	sl_mutex_lock(&changing);
	s = block_divide(whole);
	record = s && !s->unknown && suballocs_grow(s) ? record_make(whole, addr, bytes)
						       : NULL;
	if (record) {
		i = suballocs_look(s, addr);
		while (i < s->n && s->at[i]->block.base < addr + bytes)
			record_end(suballocs_remove(s, i)); /* its end was not told */
		suballocs_insert(s, i, record);
		PL_COUNT(suballocations, 1);
	} else if (s) {
		sl_mutex_lock(&lock);
		s->unknown = true;
		sl_mutex_unlock(&lock);
	}
	sl_mutex_unlock(&changing);
}

void
pl_suballoc_end(uint64_t addr)
{
	struct pl_block *whole = pl_maybe_ours(addr) ? pl_block_find(addr) : NULL;
	const struct pl_suballocs *s;
	size_t i;

	if (!whole || graphs_are_captured())
		return;
	sl_mutex_lock(&changing);
	s = whole->suballocs;
	i = s ? suballocs_look(s, addr) : 0;
	if (s && i < s->n && s->at[i]->block.base == addr) {
		uint64_t end = addr + s->at[i]->block.bytes;

		record_end(suballocs_remove(whole->suballocs, i));
		if (atomic_load(&whole->gpu->pressure) >= PL_OVERSUBSCRIBED)
			chunks_discard(whole->gpu, addr, end);
	}
	sl_mutex_unlock(&changing);
}

void
pl_suballocs_drop(struct pl_block *block)
{
	struct pl_suballocs *s;

	if (!(atomic_load(&block->flags) & PL_BLOCK_DIVIDED))
		return;
	sl_mutex_lock(&changing);
	sl_mutex_lock(&lock);
	s = block->suballocs;
	block->suballocs = NULL;
	sl_mutex_unlock(&lock);
	atomic_fetch_and(&block->flags, ~(unsigned)PL_BLOCK_DIVIDED);
	for (size_t i = 0; s && i < s->n; i++)
		record_end(s->at[i]);
	sl_mutex_unlock(&changing);
	if (s)
		free(s->at);
	free(s);
}
