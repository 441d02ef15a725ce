/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of the codec's format, version 1: docs/design/codec.md in code. Compiled for the host and
 * by nvcc for a GPU, so that both do the same arithmetic. Everything here is pure.
 *
 *	header    64 bytes: struct sl_codec_header
 *	table     two bytes a block: SL_CODEC_ENTRY(); padded with zeros to 64 bytes
 *	blocks    one after another, each a multiple of 16 bytes: a unit
 *
 * Where a block begins is the sum of the units before it. Numbers are little-endian.
 *
 * A block of integers or floats consists of parts, each padded with zeros to 4 bytes:
 *
 *	head      mode, 0, m, m2, m3: struct sl_codec_head
 *	masks     a byte for each byte of an element: which of its bits vary; then a byte each: the others
 *	dict      floats: the dictionary of exponents
 *	bitmap    sparse: a bit for each element, set where it is not zero. Only those m are coded
 *	first     exponents: k1 planes of bits of m codes
 *	second    k2 planes of bits of the codes of the m2 exponents that the first has no code for
 *	third     the m3 exponents that the second has no code for, a byte each
 *	bytes     for each byte of an element: m bytes if all of its bits vary, else a plane for each that does
 *
 * A plane has a bit for each value, 32 to a word. The planes of a part are interleaved by word: a row
 * is 32 values, and its words of all planes stand together.
 */
#ifndef SL_CODEC_FORMAT_H
#define SL_CODEC_FORMAT_H

#include <stdint.h>

#include "codec/kind.h"

#ifdef __CUDACC__
#define SL_CODEC_PURE static __host__ __device__ __forceinline__
#else
#define SL_CODEC_PURE static inline
#endif

#define SL_CODEC_MAGIC        0x435a4c53u /* "SLZC" */
#define SL_CODEC_VERSION      1u
#define SL_CODEC_HEADER_BYTES 64u /* a line of a cache: the table begins on one, too */
/* What a block's size is a multiple of: a lane of a warp loads and stores as much at once. Smaller
 * units would spare 6 bytes a block, 0.15 % of it, and cost aligned loads. */
#define SL_CODEC_UNIT_BYTES   16u
#define SL_CODEC_BLOCK_UNITS  256u
#define SL_CODEC_REST_MAX     8u  /* bytes of an element beside its exponent */
#define SL_CODEC_DICT_MAX     16u /* exponents in a dictionary: the modes name no more */
#define SL_CODEC_MODE_COUNT   16u

/* Flags of a header. */
#define SL_CODEC_HAS_CHECKSUM 1u
#define SL_CODEC_IS_STORED    2u

struct sl_codec_header {
	uint32_t magic;
	uint16_t version;
	uint16_t flags;
	uint32_t n_blocks;
	uint32_t units;    /* of all blocks; stored: 0, and the raw bytes follow */
	uint64_t checksum; /* of the raw bytes; 0 without SL_CODEC_HAS_CHECKSUM */
	uint64_t zero[5];
};

/* An entry of the table: kind (4 bits), sparse (1), zeros (2), units (9). */
#define SL_CODEC_ENTRY(kind, sparse, units) \
	((uint16_t)((uint32_t)(kind) | (uint32_t)(sparse) << 4 | (uint32_t)(units) << 7))
#define SL_CODEC_ENTRY_KIND(entry)   ((entry)&15u)
#define SL_CODEC_ENTRY_SPARSE(entry) ((entry) >> 4 & 1u)
#define SL_CODEC_ENTRY_ZEROS(entry)  ((entry) >> 5 & 3u)
#define SL_CODEC_ENTRY_UNITS(entry)  ((uint32_t)(entry) >> 7)

struct sl_codec_head {
	uint8_t mode; /* of exponents; integers: 0 */
	uint8_t zero;
	uint16_t m;  /* elements that are coded */
	uint16_t m2; /* exponents without a code in the first part */
	uint16_t m3; /* and without one in the second */
};

/* What an encoder decided for a block. */
struct sl_codec_plan {
	uint8_t kind, sparse, mode, zero;
	uint16_t m, m2, m3, units;
	uint8_t varying[SL_CODEC_REST_MAX];
	uint8_t base[SL_CODEC_REST_MAX];
	uint8_t dict[SL_CODEC_DICT_MAX];
};

/* Where the parts of a block begin, in bytes. */
struct sl_codec_parts {
	uint32_t masks, dict, bitmap, first, second, third;
	uint32_t rest[SL_CODEC_REST_MAX];
	uint32_t end;
};

SL_CODEC_PURE uint32_t
sl_codec_round(uint32_t bytes, uint32_t to)
{
	return (bytes + to - 1) / to * to;
}

SL_CODEC_PURE uint32_t
sl_codec_table_bytes(uint32_t n_blocks)
{
	return sl_codec_round(2 * n_blocks, SL_CODEC_HEADER_BYTES);
}

/* What a chunk takes whose blocks take so many units. */
SL_CODEC_PURE uint64_t
sl_codec_coded_bytes(uint32_t n_blocks, uint32_t units)
{
	return SL_CODEC_HEADER_BYTES + sl_codec_table_bytes(n_blocks) +
	       (uint64_t)units * SL_CODEC_UNIT_BYTES;
}

/* 1: such a chunk is stored as it is: all of it would not become smaller; or take more than most_bytes, if that
 * is not 0. */
SL_CODEC_PURE int
sl_codec_is_stored(uint32_t n_blocks, uint32_t units, uint64_t most_bytes)
{
	uint64_t bytes = sl_codec_coded_bytes(n_blocks, units);

	return bytes >= SL_CODEC_HEADER_BYTES + (uint64_t)n_blocks * 4096 ||
	       (most_bytes && bytes > most_bytes);
}

/* ---- Kinds. Those from U8 on have elements; one nibble of a constant for each. ---- */

SL_CODEC_PURE uint32_t
sl_codec_element_shift(uint32_t kind) /* log2 of its bytes */
{
	return (uint32_t)(0x2113210000ull >> 4 * kind) & 15;
}

SL_CODEC_PURE uint32_t
sl_codec_elements(uint32_t kind) /* in a block */
{
	return 4096u >> sl_codec_element_shift(kind);
}

SL_CODEC_PURE uint32_t
sl_codec_rest_bytes(uint32_t kind) /* of an element, beside its exponent */
{
	return (uint32_t)(0x3218421000ull >> 4 * kind) & 15;
}

SL_CODEC_PURE int
sl_codec_is_float(uint32_t kind)
{
	return kind >= SL_CODEC_BF16;
}

/*
 * An element is an exponent and the rest. The sign goes above the mantissa, so that the rest of bf16
 * is a byte, that of fp32 three, and that of fp16 a byte and three bits.
 */
SL_CODEC_PURE uint32_t
sl_codec_exponent(uint32_t kind, uint64_t element)
{
	switch (kind) {
	case SL_CODEC_BF16:
		return (uint32_t)(element >> 7) & 0xff;
	case SL_CODEC_FP16:
		return (uint32_t)(element >> 10) & 0x1f;
	case SL_CODEC_FP32:
		return (uint32_t)(element >> 23) & 0xff;
	default:
		return 0;
	}
}

SL_CODEC_PURE uint64_t
sl_codec_rest(uint32_t kind, uint64_t element)
{
	switch (kind) {
	case SL_CODEC_BF16:
		return (element & 0x7f) | (element >> 15 & 1) << 7;
	case SL_CODEC_FP16:
		return (element & 0x3ff) | (element >> 15 & 1) << 10;
	case SL_CODEC_FP32:
		return (element & 0x7fffff) | (element >> 31 & 1) << 23;
	default:
		return element;
	}
}

SL_CODEC_PURE uint64_t
sl_codec_join(uint32_t kind, uint32_t exponent, uint64_t rest)
{
	switch (kind) {
	case SL_CODEC_BF16:
		return (rest & 0x7f) | (uint64_t)(exponent & 0xff) << 7 |
		       (rest >> 7 & 1) << 15;
	case SL_CODEC_FP16:
		return (rest & 0x3ff) | (uint64_t)(exponent & 0x1f) << 10 |
		       (rest >> 10 & 1) << 15;
	case SL_CODEC_FP32:
		return (rest & 0x7fffff) | (uint64_t)(exponent & 0xff) << 23 |
		       (rest >> 23 & 1) << 31;
	default:
		return rest;
	}
}

/* ---- Modes: how exponents are coded. The page has them as a table. ---- */

SL_CODEC_PURE uint32_t
sl_codec_k1(uint32_t mode) /* bits of a code of the first part */
{
	return (uint32_t)(0x4333222111432100ull >> 4 * mode) & 15;
}

SL_CODEC_PURE uint32_t
sl_codec_k2(uint32_t mode) /* and of the second */
{
	return (uint32_t)(0x0320320320000000ull >> 4 * mode) & 15;
}

/* 1: the last code of the first part is an escape to the second. 0: there is no second. */
SL_CODEC_PURE uint32_t
sl_codec_escapes(uint32_t mode)
{
	return mode == 1 || mode >= 6;
}

SL_CODEC_PURE uint32_t
sl_codec_n1(uint32_t mode) /* exponents with a code of the first part */
{
	return (1u << sl_codec_k1(mode)) - sl_codec_escapes(mode);
}

SL_CODEC_PURE uint32_t
sl_codec_n2(uint32_t mode) /* and of the second */
{
	return (1u << sl_codec_k2(mode)) - 1;
}

/* ---- Sizes ---- */

SL_CODEC_PURE uint32_t
sl_codec_rows(uint32_t values)
{
	return (values + 31) / 32;
}

SL_CODEC_PURE uint32_t
sl_codec_bits(uint32_t byte) /* that are set in it */
{
	uint32_t pairs = byte - (byte >> 1 & 0x55);
	uint32_t fours = (pairs & 0x33) + (pairs >> 2 & 0x33);

	return (fours + (fours >> 4)) & 15;
}

/* Of a byte of m elements of which these bits vary. */
SL_CODEC_PURE uint32_t
sl_codec_byte_bytes(uint32_t m, uint32_t varying)
{
	return varying == 0xff ? sl_codec_round(m, 4)
			       : 4 * sl_codec_bits(varying) * sl_codec_rows(m);
}

/* Of the exponents' parts without the dictionary. */
SL_CODEC_PURE uint32_t
sl_codec_exponent_bytes(uint32_t mode, uint32_t m, uint32_t m2, uint32_t m3)
{
	return 4 * sl_codec_k1(mode) * sl_codec_rows(m) +
	       4 * sl_codec_k2(mode) * sl_codec_rows(m2) + sl_codec_round(m3, 4);
}

SL_CODEC_PURE uint32_t
sl_codec_dict_bytes(uint32_t mode)
{
	return sl_codec_round(sl_codec_n1(mode) + sl_codec_n2(mode), 4);
}

SL_CODEC_PURE void
sl_codec_place(uint32_t kind, uint32_t sparse, uint32_t mode, uint32_t m, uint32_t m2,
	       uint32_t m3, const uint8_t *varying, struct sl_codec_parts *parts)
{
	uint32_t n_rest = sl_codec_rest_bytes(kind);
	uint32_t at = sizeof(struct sl_codec_head);

	parts->masks = at;
	at += sl_codec_round(2 * n_rest, 4);
	parts->dict = at;
	at += sl_codec_is_float(kind) ? sl_codec_dict_bytes(mode) : 0;
	parts->bitmap = at;
	at += sparse ? sl_codec_elements(kind) / 8 : 0;
	parts->first = at;
	parts->second = at;
	parts->third = at;
	if (sl_codec_is_float(kind)) {
		parts->second += 4 * sl_codec_k1(mode) * sl_codec_rows(m);
		parts->third = parts->second + 4 * sl_codec_k2(mode) * sl_codec_rows(m2);
		at += sl_codec_exponent_bytes(mode, m, m2, m3);
	}
	for (uint32_t j = 0; j < n_rest; j++) {
		parts->rest[j] = at;
		at += sl_codec_byte_bytes(m, varying[j]);
	}
	parts->end = at;
}

/*
 * The mode that codes m exponents in the fewest bytes, of several the lowest; in *m2 and *m3 what it
 * does not code. sums[i]: how many exponents the i most frequent ones are, for i from 0 to 16.
 * Returns its bytes with the dictionary.
 */
SL_CODEC_PURE uint32_t
sl_codec_mode_bytes(uint32_t mode, uint32_t m, const uint16_t *sums, uint32_t *m2,
		    uint32_t *m3)
{
	uint32_t n1 = sl_codec_n1(mode);

	*m2 = m - sums[n1];
	*m3 = m - sums[n1 + sl_codec_n2(mode)];
	if (!sl_codec_escapes(mode) && *m2)
		return UINT32_MAX;
	return sl_codec_dict_bytes(mode) + sl_codec_exponent_bytes(mode, m, *m2, *m3);
}

/* ---- Checksum: the sum of these over all words of 8 bytes of the raw data, modulo 2^64 ---- */

SL_CODEC_PURE uint64_t
sl_codec_word_hash(uint64_t word, uint64_t index)
{
	uint64_t x = word + (index + 1) * 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 32) * 0xd6e8feb86659fd93ull;
	x = (x ^ x >> 29) * 0xff51afd7ed558ccdull;
	return x ^ x >> 32;
}

#endif
