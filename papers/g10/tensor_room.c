/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First-fit allocation of contiguous pages (tensor_room.h). What is allocated is the
 * caller's to remember; only free blocks are listed, merged with their neighbours when they
 * come back. Blocks are found by a scan: there are some hundreds at most. Threads: one.
 */
#include "g10/tensor_room.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
tensor_room_init(struct tensor_room *room, uint64_t pages)
{
	*room = (struct tensor_room){.max = 64};
	room->blocks = malloc(room->max * sizeof(*room->blocks));
	if (!room->blocks)
		return sl_fail(-ENOMEM, "simulated device memory: out of memory");
	room->blocks[0] = (struct tensor_block){0, pages};
	room->n = pages > 0;
	room->free_pages = pages;
	return 0;
}

void
tensor_room_fini(struct tensor_room *room)
{
	free(room->blocks);
	*room = (struct tensor_room){0};
}

static void
block_remove(struct tensor_room *room, uint32_t i)
{
	room->n--;
	memmove(&room->blocks[i], &room->blocks[i + 1],
		(room->n - i) * sizeof(*room->blocks));
}

uint64_t
tensor_room_take(struct tensor_room *room, uint64_t pages, int from_high)
{
	if (room->paged) {
		if (pages > room->free_pages)
			return TENSOR_ROOM_NONE;
		room->free_pages -= pages;
		return 0;
	}
	for (uint32_t step = 0; step < room->n; step++) {
		uint32_t i = from_high ? room->n - 1 - step : step;
		struct tensor_block *block = &room->blocks[i];
		uint64_t first;

		if (block->pages < pages)
			continue;
		block->pages -= pages;
		room->free_pages -= pages;
		first = from_high ? block->first + block->pages : block->first;
		if (!from_high)
			block->first += pages;
		if (block->pages == 0)
			block_remove(room, i);
		return first;
	}
	return TENSOR_ROOM_NONE;
}

int
tensor_room_give(struct tensor_room *room, uint64_t first, uint64_t pages)
{
	struct tensor_block *blocks = room->blocks;
	uint32_t low = 0, high = room->n;
	int joins_before, joins_after;

	if (room->paged) {
		room->free_pages += pages;
		return 0;
	}
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (blocks[middle].first < first)
			low = middle + 1;
		else
			high = middle;
	}
	/* low: the first free block behind the one that comes back. */
	joins_before = low > 0 && blocks[low - 1].first + blocks[low - 1].pages == first;
	joins_after = low < room->n && first + pages == blocks[low].first;
	assert(low == 0 || blocks[low - 1].first + blocks[low - 1].pages <= first);
	assert(low == room->n || first + pages <= blocks[low].first);
	room->free_pages += pages;
	if (joins_before) {
		blocks[low - 1].pages += pages;
		if (joins_after) {
			blocks[low - 1].pages += blocks[low].pages;
			block_remove(room, low);
		}
		return 0;
	}
	if (joins_after) {
		blocks[low].first = first;
		blocks[low].pages += pages;
		return 0;
	}
	if (room->n == room->max) {
		assert(room->max);
		blocks = realloc(blocks, (size_t)room->max * 2 * sizeof(*blocks));
		if (!blocks)
			return sl_fail(-ENOMEM, "simulated device memory: out of memory");
		room->blocks = blocks;
		room->max *= 2;
	}
	memmove(&blocks[low + 1], &blocks[low], (room->n - low) * sizeof(*blocks));
	blocks[low] = (struct tensor_block){first, pages};
	room->n++;
	return 0;
}

uint64_t
tensor_room_largest(const struct tensor_room *room)
{
	uint64_t most = 0;

	if (room->paged)
		return room->free_pages;
	for (uint32_t i = 0; i < room->n; i++)
		if (room->blocks[i].pages > most)
			most = room->blocks[i].pages;
	return most;
}
