/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of bits in arrays of 64-bit words: set, clear, count, find. Work is by word: the
 * first and the last word of a range are masked, those between are whole. Words outside
 * the range are neither read nor written, so a bitmap of SL_BITMAP_WORDS(bits) words is
 * always enough.
 *
 * Threads: no locking here; the owner of a bitmap has the lock.
 */
#include "base/bitmap.h"

/* Bits [from, to) of one word; 0 <= from < to <= 64. */
static uint64_t
word_mask(size_t from, size_t to)
{
	return UINT64_MAX << from & UINT64_MAX >> (64 - to);
}

void
sl_bitmap_set(uint64_t *map, size_t first, size_t n)
{
	size_t end = first + n;

	while (first < end) {
		size_t base = first & ~(size_t)63;
		size_t stop = end - base < 64 ? end - base : 64;

		map[base / 64] |= word_mask(first - base, stop);
		first = base + stop;
	}
}

void
sl_bitmap_clear(uint64_t *map, size_t first, size_t n)
{
	size_t end = first + n;

	while (first < end) {
		size_t base = first & ~(size_t)63;
		size_t stop = end - base < 64 ? end - base : 64;

		map[base / 64] &= ~word_mask(first - base, stop);
		first = base + stop;
	}
}

size_t
sl_bitmap_count(const uint64_t *map, size_t first, size_t n)
{
	size_t end = first + n;
	size_t count = 0;

	while (first < end) {
		size_t base = first & ~(size_t)63;
		size_t stop = end - base < 64 ? end - base : 64;
		uint64_t bits = map[base / 64] & word_mask(first - base, stop);

		count += (size_t)__builtin_popcountll(bits);
		first = base + stop;
	}
	return count;
}

/* flip: 0 to look for set bits, UINT64_MAX for clear ones. */
static size_t
next_bit(const uint64_t *map, size_t from, size_t end, uint64_t flip)
{
	while (from < end) {
		size_t base = from & ~(size_t)63;
		size_t stop = end - base < 64 ? end - base : 64;
		uint64_t bits = (map[base / 64] ^ flip) & word_mask(from - base, stop);

		if (bits)
			return base + (size_t)__builtin_ctzll(bits);
		from = base + stop;
	}
	return end;
}

size_t
sl_bitmap_next_set(const uint64_t *map, size_t from, size_t end)
{
	return next_bit(map, from, end, 0);
}

size_t
sl_bitmap_next_clear(const uint64_t *map, size_t from, size_t end)
{
	return next_bit(map, from, end, UINT64_MAX);
}
