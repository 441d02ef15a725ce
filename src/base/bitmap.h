/* SPDX-License-Identifier: Apache-2.0 */
/* Bitmaps in arrays of 64-bit words. Bit i is word i / 64, bit i % 64. Ranges are [first,
 * first+n). */
#ifndef SL_BASE_BITMAP_H
#define SL_BASE_BITMAP_H

#include <stddef.h>
#include <stdint.h>

#define SL_BITMAP_WORDS(bits) (((bits) + 63) / 64)

static inline int
sl_bitmap_test(const uint64_t *map, size_t bit)
{
	return (int)(map[bit / 64] >> (bit % 64) & 1);
}

void sl_bitmap_set(uint64_t *map, size_t first, size_t n);
void sl_bitmap_clear(uint64_t *map, size_t first, size_t n);
/* Set bits in the range. */
size_t sl_bitmap_count(const uint64_t *map, size_t first, size_t n);

/* First set (clear) bit at or after from, below end; end when there is none. */
size_t sl_bitmap_next_set(const uint64_t *map, size_t from, size_t end);
size_t sl_bitmap_next_clear(const uint64_t *map, size_t from, size_t end);

#endif
