/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges that are remembered (ranges.h): a sorted array and a binary search.
 *
 * Threads: any; a set's lock is a leaf.
 */
#include "preload/calls/ranges.h"
#include "base/fault_point.h"

#include <stdlib.h>
#include <string.h>

static size_t index_of(const struct pl_ranges *ranges, uint64_t at)
	SL_REQUIRES(ranges->lock);
static size_t index_at(const struct pl_ranges *ranges, uint64_t at)
	SL_REQUIRES(ranges->lock);
static void index_remove(struct pl_ranges *ranges, size_t i) SL_REQUIRES(ranges->lock);
static int ranges_grow(struct pl_ranges *ranges) SL_REQUIRES(ranges->lock);

/* Index of the first range that ends behind at. */
static size_t
index_of(const struct pl_ranges *ranges, uint64_t at)
{
	size_t low = 0, high = ranges->n;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct pl_range *range = &ranges->at[middle];

		if (range->base + (range->bytes - 1) < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
index_remove(struct pl_ranges *ranges, size_t i)
{
	ranges->n--;
	memmove(&ranges->at[i], &ranges->at[i + 1], (ranges->n - i) * sizeof(ranges->at[0]));
}

static int
ranges_grow(struct pl_ranges *ranges)
{
	size_t size = ranges->size ? ranges->size * 2 : 64;
	struct pl_range *at;

	if (ranges->n < ranges->size)
		return 1;
	at = sl_realloc(ranges->at, size * sizeof(*at));
	if (!at)
		return 0;
	ranges->at = at;
	ranges->size = size;
	return 1;
}

int
pl_ranges_add(struct pl_ranges *ranges, struct pl_range range)
{
	size_t i;
	int room;

	if (!range.bytes)
		return 1;
	sl_mutex_lock(&ranges->lock);
	i = index_of(ranges, range.base);
	while (i < ranges->n && ranges->at[i].base <= range.base + (range.bytes - 1))
		index_remove(ranges, i);
	room = ranges_grow(ranges);
	if (room) {
		memmove(&ranges->at[i + 1], &ranges->at[i],
			(ranges->n - i) * sizeof(ranges->at[0]));
		ranges->at[i] = range;
		ranges->n++;
	}
	sl_mutex_unlock(&ranges->lock);
	return room;
}

/* Index of the range that holds at, or n. */
static size_t
index_at(const struct pl_ranges *ranges, uint64_t at)
{
	size_t i = index_of(ranges, at);

	return i < ranges->n && ranges->at[i].base <= at ? i : ranges->n;
}

int
pl_ranges_find(struct pl_ranges *ranges, uint64_t at, struct pl_range *out)
{
	size_t i;
	int found;

	sl_mutex_lock(&ranges->lock);
	i = index_at(ranges, at);
	found = i < ranges->n;
	if (found)
		*out = ranges->at[i];
	sl_mutex_unlock(&ranges->lock);
	return found;
}

int
pl_ranges_find_in(struct pl_ranges *ranges, uint64_t base, uint64_t bytes,
		  struct pl_range *out)
{
	size_t i;
	int found;

	sl_mutex_lock(&ranges->lock);
	i = index_of(ranges, base);
	found = i < ranges->n && bytes && ranges->at[i].base <= base + (bytes - 1);
	if (found)
		*out = ranges->at[i];
	sl_mutex_unlock(&ranges->lock);
	return found;
}

int
pl_ranges_take_in(struct pl_ranges *ranges, uint64_t base, uint64_t bytes,
		  struct pl_range *out)
{
	size_t i;
	int found;

	sl_mutex_lock(&ranges->lock);
	i = index_of(ranges, base);
	found = i < ranges->n && bytes && ranges->at[i].base <= base + (bytes - 1);
	if (found) {
		if (out)
			*out = ranges->at[i];
		index_remove(ranges, i);
	}
	sl_mutex_unlock(&ranges->lock);
	return found;
}

int
pl_ranges_take(struct pl_ranges *ranges, uint64_t at, struct pl_range *out)
{
	return pl_ranges_take_in(ranges, at, 1, out);
}

int
pl_ranges_change(struct pl_ranges *ranges, uint64_t at, int64_t add, struct pl_range *out)
{
	size_t i;
	int found;

	sl_mutex_lock(&ranges->lock);
	i = index_at(ranges, at);
	found = i < ranges->n;
	if (found) {
		ranges->at[i].value += (uint64_t)add;
		*out = ranges->at[i];
	}
	sl_mutex_unlock(&ranges->lock);
	return found;
}
