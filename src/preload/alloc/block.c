/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocation at an address. A table of two levels by 2 MiB pages of addresses. An entry is
 * empty, a block that has the page to itself, or a page of small blocks. Such a page has a
 * bitmap of the 512-byte units at which blocks start, a summary of the bitmap, and the record of
 * each start. A look-up is at most five dependent loads, whatever the number of blocks.
 *
 * Readers take no lock, and are never wrong about a block that lives during the look-up. A
 * block's start bit is set before the program gets its address, and no other bit lies between it
 * and its end. About other addresses the answer may be a moment old. Records are never freed, so
 * they stay readable.
 *
 * The arena that owns the page serialises writers (arena.c). Arenas share only the first level.
 * Tables are mapped as they are needed and stay.
 *
 * Threads: any.
 */
#include "preload/alloc/block.h"
#include "preload/alloc/block_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define ADDRESS_BITS  47 /* of user space */
#define PAGE_SHIFT    21
#define LEAF_SHIFT    34 /* 16 GiB a leaf */
#define ROOT_ENTRIES  ((size_t)1 << (ADDRESS_BITS - LEAF_SHIFT))
#define LEAF_ENTRIES  ((size_t)1 << (LEAF_SHIFT - PAGE_SHIFT))
#define PAGE_UNITS    4096u
#define PAGE_WORDS    64u
#define SLAB_RECORDS  1024u
#define SLABS_MAX     65536u /* 64 Mi blocks at a time */
#define ENTRY_IS_PAGE ((uintptr_t)1)

_Static_assert(PL_PAGE_BYTES == (uint64_t)1 << PAGE_SHIFT, "one entry a page");
_Static_assert(PL_PAGE_BYTES / PL_UNIT_BYTES == PAGE_UNITS, "one bit a unit");

struct page {
	/* Words of starts that are not 0. atomic: pairs with page_find(). */
	_Atomic uint64_t summary;
	/* atomic: pairs with page_find(): whoever sees the bit sees the number and the record. */
	_Atomic uint64_t starts[PAGE_WORDS];
	/* Number, where a start bit is set. atomic: relaxed: starts orders it. */
	_Atomic uint32_t records[PAGE_UNITS];
};

struct leaf {
	/* 0, a record, or a page | ENTRY_IS_PAGE. atomic: pairs with pl_block_find(). */
	_Atomic uintptr_t entries[LEAF_ENTRIES];
};

/* Both. atomic: pairs with the look-ups: whoever sees the pointer sees zeroed memory. */
static _Atomic(struct leaf *) root[ROOT_ENTRIES];
static _Atomic(struct pl_record *) slabs[SLABS_MAX];
static _Atomic uint32_t n_slabs;
static _Atomic uint64_t last_id; /* atomic: relaxed: a number, and no more */

static void *
zeroed_map(size_t bytes)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return mem == MAP_FAILED ? NULL : mem;
}

static struct pl_record *
record_by_number(uint32_t number)
{
	struct pl_record *slab = atomic_load_explicit(&slabs[number / SLAB_RECORDS],
						      memory_order_acquire);

	return slab ? &slab[number % SLAB_RECORDS] : NULL;
}

struct pl_record *
pl_record_get(struct pl_record_pool *pool)
{
	struct pl_record *record = pool->free;

	if (!record) {
		struct pl_record *slab = zeroed_map(SLAB_RECORDS * sizeof(*slab));
		uint32_t number = atomic_fetch_add(&n_slabs, 1);

		if (!slab || number >= SLABS_MAX) {
			/* The number, if there are more, is lost; so few fail before all do. */
			if (slab)
				munmap(slab, SLAB_RECORDS * sizeof(*slab));
			if (number >= SLABS_MAX)
				atomic_store(&n_slabs, SLABS_MAX);
			return NULL;
		}
		for (uint32_t i = SLAB_RECORDS; i-- > 0;) {
			slab[i].number = number * SLAB_RECORDS + i;
			slab[i].next_free = pool->free;
			pool->free = &slab[i];
		}
		atomic_store_explicit(&slabs[number], slab, memory_order_release);
		record = pool->free;
	}
	pool->free = record->next_free;
	record->live = 1;
	record->block.id = atomic_fetch_add_explicit(&last_id, 1, memory_order_relaxed) + 1;
	record->block.context = record->block.pool = NULL;
	record->block.lien = NULL;
	record->block.tensor = 0;
	record->block.suballocs = NULL;
	atomic_store_explicit(&record->block.touched, 0, memory_order_relaxed);
	atomic_store_explicit(&record->block.flags, 0, memory_order_relaxed);
	atomic_store_explicit(&record->block.last_launch, 0, memory_order_relaxed);
	atomic_store_explicit(&record->block.streams, 0, memory_order_relaxed);
	atomic_store_explicit(&record->block.owed, 0, memory_order_relaxed);
	return record;
}

void
pl_record_put(struct pl_record_pool *pool, struct pl_record *record)
{
	record->live = 0;
	record->next_free = pool->free;
	pool->free = record;
}

/* The block if it holds addr. A record that is being made into another is no block. */
static struct pl_block *
record_holds(struct pl_record *record, uint64_t addr)
{
	uint64_t bytes = __atomic_load_n(&record->block.bytes, __ATOMIC_ACQUIRE);
	uint64_t base = __atomic_load_n(&record->block.base, __ATOMIC_ACQUIRE);

	return addr - base < bytes ? &record->block : NULL;
}

/* The record of the last start at or below unit; NULL: none. */
static struct pl_record *
page_find(const struct page *page, unsigned unit)
{
	unsigned word = unit / 64;
	uint64_t bits = atomic_load_explicit(&page->starts[word], memory_order_acquire) &
			(UINT64_MAX >> (63 - unit % 64));

	if (!bits) {
		uint64_t words = atomic_load_explicit(&page->summary, memory_order_acquire) &
				 (((uint64_t)1 << word) - 1);

		if (!words)
			return NULL;
		word = 63 - (unsigned)__builtin_clzll(words);
		bits = atomic_load_explicit(&page->starts[word], memory_order_acquire);
		if (!bits)
			return NULL; /* freed this moment */
	}
	unit = word * 64 + 63 - (unsigned)__builtin_clzll(bits);
	return record_by_number(
		atomic_load_explicit(&page->records[unit], memory_order_relaxed));
}

struct pl_block *
pl_block_find(uint64_t addr)
{
	struct pl_record *record;
	struct leaf *leaf;
	uintptr_t entry;

	if (addr >> ADDRESS_BITS)
		return NULL;
	leaf = atomic_load_explicit(&root[addr >> LEAF_SHIFT], memory_order_acquire);
	if (!leaf)
		return NULL;
	entry = atomic_load_explicit(&leaf->entries[addr >> PAGE_SHIFT & (LEAF_ENTRIES - 1)],
				     memory_order_acquire);
	if (entry & ENTRY_IS_PAGE)
		record = page_find((const struct page *)(entry - ENTRY_IS_PAGE),
				   (unsigned)(addr % PL_PAGE_BYTES / PL_UNIT_BYTES));
	else
		record = (struct pl_record *)entry;
	return record ? record_holds(record, addr) : NULL;
}

/* ---- writers ---- */

/* The entry of addr's page; its leaf is made. NULL: no memory. */
static _Atomic uintptr_t *
entry_get(uint64_t addr)
{
	_Atomic(struct leaf *) *slot = &root[addr >> LEAF_SHIFT];
	struct leaf *leaf = atomic_load_explicit(slot, memory_order_acquire);

	if (!leaf) {
		struct leaf *new = zeroed_map(sizeof(*new));

		if (!new)
			return NULL;
		if (atomic_compare_exchange_strong(slot, &leaf, new))
			leaf = new;
		else
			munmap(new, sizeof(*new)); /* leaf: another arena's */
	}
	return &leaf->entries[addr >> PAGE_SHIFT & (LEAF_ENTRIES - 1)];
}

/* The page of small blocks behind an entry, made if the entry is empty. NULL: no memory. */
static struct page *
page_get(_Atomic uintptr_t *entry)
{
	uintptr_t now = atomic_load_explicit(entry, memory_order_relaxed);
	struct page *page;

	if (now & ENTRY_IS_PAGE)
		return (struct page *)(now - ENTRY_IS_PAGE);
	page = zeroed_map(sizeof(*page));
	if (page)
		atomic_store_explicit(entry, (uintptr_t)page | ENTRY_IS_PAGE,
				      memory_order_release);
	return page;
}

/* Size last: until then nothing is in it. */
static void
record_set(struct pl_record *record, uint64_t base, uint64_t bytes)
{
	__atomic_store_n(&record->block.base, base, __ATOMIC_RELEASE);
	__atomic_store_n(&record->block.bytes, bytes, __ATOMIC_RELEASE);
}

/* First page of the next leaf. */
static uint64_t
leaf_end(uint64_t page)
{
	return (page / LEAF_ENTRIES + 1) * LEAF_ENTRIES;
}

/* Pages first to last, whose leaves are there. */
static void
entries_set(uint64_t first, uint64_t last, uintptr_t value)
{
	while (first <= last) {
		_Atomic uintptr_t *entry = entry_get(first * PL_PAGE_BYTES);
		uint64_t end = leaf_end(first) <= last ? leaf_end(first) : last + 1;

		for (; first < end; first++)
			atomic_store_explicit(entry++, value, memory_order_release);
	}
}

int
pl_block_publish(struct pl_record *record, uint64_t base, uint64_t bytes, int packed)
{
	uint64_t last = (base + bytes - 1) / PL_PAGE_BYTES;

	if ((base + bytes - 1) >> ADDRESS_BITS)
		return -ENOMEM;
	if (packed) {
		_Atomic uintptr_t *entry = entry_get(base);
		struct page *page = entry ? page_get(entry) : NULL;
		unsigned unit = (unsigned)(base % PL_PAGE_BYTES / PL_UNIT_BYTES);

		if (!page)
			return -ENOMEM;
		record_set(record, base, bytes);
		atomic_store_explicit(&page->records[unit], record->number,
				      memory_order_relaxed);
		atomic_fetch_or_explicit(&page->starts[unit / 64],
					 (uint64_t)1 << unit % 64, memory_order_release);
		atomic_fetch_or_explicit(&page->summary, (uint64_t)1 << unit / 64,
					 memory_order_release);
		return 0;
	}
	for (uint64_t n = base / PL_PAGE_BYTES; n <= last; n = leaf_end(n))
		if (!entry_get(n * PL_PAGE_BYTES))
			return -ENOMEM;
	record_set(record, base, bytes);
	entries_set(base / PL_PAGE_BYTES, last, (uintptr_t)record);
	return 0;
}

void
pl_block_retract(struct pl_record *record, int packed)
{
	uint64_t base = record->block.base;
	uint64_t last = (base + record->block.bytes - 1) / PL_PAGE_BYTES;

	__atomic_store_n(&record->block.bytes, 0, __ATOMIC_RELEASE);
	if (packed) {
		struct page *page = page_get(entry_get(base));
		unsigned unit = (unsigned)(base % PL_PAGE_BYTES / PL_UNIT_BYTES);
		uint64_t left = atomic_fetch_and_explicit(&page->starts[unit / 64],
							  ~((uint64_t)1 << unit % 64),
							  memory_order_release);

		if (!(left & ~((uint64_t)1 << unit % 64)))
			atomic_fetch_and_explicit(&page->summary,
						  ~((uint64_t)1 << unit / 64),
						  memory_order_release);
		return;
	}
	entries_set(base / PL_PAGE_BYTES, last, 0);
}

void
pl_block_hide(uint64_t base, uint64_t bytes)
{
	entries_set(base / PL_PAGE_BYTES, (base + bytes - 1) / PL_PAGE_BYTES, 0);
}

void
pl_block_shorten(struct pl_record *record, uint64_t bytes)
{
	uint64_t was = record->block.bytes;

	__atomic_store_n(&record->block.bytes, bytes, __ATOMIC_RELEASE);
	pl_block_hide(record->block.base + bytes, was - bytes);
}

/* ---- in order of address ---- */

/* The live block with the lowest start at or above unit. */
static struct pl_block *
page_next(const struct page *page, unsigned unit)
{
	for (unsigned word = unit / 64; word < PAGE_WORDS; word++) {
		uint64_t bits = atomic_load_explicit(&page->starts[word],
						     memory_order_acquire);

		if (word == unit / 64)
			bits &= UINT64_MAX << unit % 64;
		if (bits) {
			unit = word * 64 + (unsigned)__builtin_ctzll(bits);
			return &record_by_number(page->records[unit])->block;
		}
	}
	return NULL;
}

struct pl_block *
pl_block_next(uint64_t addr, uint64_t end)
{
	while (addr < end) {
		struct leaf *leaf = atomic_load_explicit(&root[addr >> LEAF_SHIFT],
							 memory_order_acquire);
		uint64_t next = (addr / PL_PAGE_BYTES + 1) * PL_PAGE_BYTES;
		struct pl_block *block = NULL;
		uintptr_t entry;

		if (!leaf) {
			addr = ((addr >> LEAF_SHIFT) + 1) << LEAF_SHIFT;
			continue;
		}
		entry = atomic_load_explicit(
			&leaf->entries[addr >> PAGE_SHIFT & (LEAF_ENTRIES - 1)],
			memory_order_acquire);
		if (entry & ENTRY_IS_PAGE)
			block = page_next((const struct page *)(entry - ENTRY_IS_PAGE),
					  (unsigned)((addr % PL_PAGE_BYTES + PL_UNIT_BYTES - 1) /
						     PL_UNIT_BYTES));
		else if (entry)
			block = &((struct pl_record *)entry)->block;
		if (block && block->base >= addr)
			return block->base < end ? block : NULL;
		/* A block that began below addr: on behind it. */
		if (block && block->base + block->room > next)
			next = block->base + block->room;
		addr = next;
	}
	return NULL;
}
