/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's codec, inside: one block of 4 KiB. plan.c decides how it is coded, encode.c and decode.c
 * do it. No function blocks; each may run in any thread.
 */
#ifndef SL_CODEC_BLOCK_H
#define SL_CODEC_BLOCK_H

#include <emmintrin.h>

#include "codec/codec.h"
#include "codec/format.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian");
_Static_assert(sizeof(struct sl_codec_header) == SL_CODEC_HEADER_BYTES,
	       "as the page says");
_Static_assert(sizeof(struct sl_codec_head) == 8, "as the page says");

/* Four registers of 16 bytes at a time: what every x86-64 has. */
typedef uint8_t sl_codec_v8 __attribute__((vector_size(16)));
typedef uint16_t sl_codec_v16 __attribute__((vector_size(16)));
typedef uint32_t sl_codec_v32 __attribute__((vector_size(16)));
typedef uint64_t sl_codec_v64 __attribute__((vector_size(16)));

union sl_codec_block {
	uint8_t u8[4096];
	uint16_t u16[2048];
	uint32_t u32[1024];
	uint64_t u64[512];
	sl_codec_v8 v8[256];
	sl_codec_v16 v16[256];
	sl_codec_v32 v32[256];
	sl_codec_v64 v64[256];
};

/* Arrays of bytes have so much room behind their values: 64 are looked at at once. */
#define SL_CODEC_BEHIND_BYTES 64u

/* A bit for each of the first 64 values, of which n count (more than 64 are allowed): it is `value`. */
static inline uint64_t
sl_codec_equal_64(const uint8_t *values, uint32_t n, uint32_t value)
{
	const __m128i wanted = _mm_set1_epi8((char)value);
	uint64_t equal = 0;

	for (uint32_t i = 0; i < 64; i += 16) {
		__m128i here = _mm_loadu_si128((const void *)(values + i));
		uint64_t bits = (uint64_t)_mm_movemask_epi8(_mm_cmpeq_epi8(here, wanted));

		equal |= bits << i;
	}
	return n < 64 ? equal & (((uint64_t)1 << n) - 1) : equal;
}

/* plan.c: the cheapest way to code a block; of several the lowest kind, and dense before sparse. */
void sl_codec_plan_make(const union sl_codec_block *block, struct sl_codec_plan *plan);

/* encode.c: write plan->units units to out. */
void sl_codec_block_encode(const union sl_codec_block *block,
			   const struct sl_codec_plan *plan, uint8_t *out);

/* decode.c: of the units of in that entry names. 0 or what is wrong, for a text. */
const char *sl_codec_block_decode(uint32_t entry, const uint8_t *in,
				  union sl_codec_block *block);

/* checksum.c: of a block, of which first_word is the number of its first word of 8 bytes. */
uint64_t sl_codec_block_hash(const union sl_codec_block *block, uint64_t first_word);

#endif
