/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of allocations, and the table that finds them by address: block.c's functions for
 * arena.c; block.h has the others. The arena that owns an address's 2 MiB writes, under its
 * lock. All others read, without locks.
 */
#ifndef SL_PRELOAD_BLOCK_INTERNAL_H
#define SL_PRELOAD_BLOCK_INTERNAL_H

#include "base/error.h"
#include "preload/alloc/block.h"

#define PL_PAGE_BYTES ((uint64_t)2 << 20) /* what one entry of the table covers */
#define PL_UNIT_BYTES ((uint64_t)512)     /* granularity of small blocks */

struct pl_area; /* extent.h */

struct pl_record {
	struct pl_block block; /* first: callers see only this */
	struct pl_area *area;
	uint32_t number;
	int live; /* atomic: pairs with itself: of two threads that free, one reads 1 */
	struct pl_record *next_free;
};

/* Records that are not in use; one pool an arena. */
struct pl_record_pool {
	struct pl_record *free;
};

/* A record, or NULL: no memory. Needs the pool owner's lock, as does put. */
struct pl_record *pl_record_get(struct pl_record_pool *pool);
void pl_record_put(struct pl_record_pool *pool, struct pl_record *record);

/*
 * Make the block findable: base and bytes go to the record by this call alone. packed: it shares its
 * 2 MiB with others, lies in one such page, and starts at a multiple of PL_UNIT_BYTES; else it has
 * the pages that it touches to itself, and may be published again with the same base and more bytes. 0,
 * -ENOMEM (host memory for the table).
 */
int pl_block_publish(struct pl_record *record, uint64_t base, uint64_t bytes,
		     int packed) SL_MUST_CHECK;
/* It is found no longer. */
void pl_block_retract(struct pl_record *record, int packed);

/* The same of [base, base + bytes), whole pages, whatever blocks had them; nobody's record changes. */
void pl_block_hide(uint64_t base, uint64_t bytes);
/* Of a block that has its pages to itself only the first bytes, whole pages, are left. */
void pl_block_shorten(struct pl_record *record, uint64_t bytes);

/* The live block with the lowest base in [addr, end), or NULL. Needs the arena's lock. */
struct pl_block *pl_block_next(uint64_t addr, uint64_t end);

#endif
