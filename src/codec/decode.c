/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding, and refusing what was not made by an encoder. format.h has the parts of a block.
 *
 * Safety: the numbers in a block's head (m, m2, m3, mode, masks) give the place of each part. The
 * block is refused unless these parts fill exactly the units that the table gives it. It is refused,
 * too, unless the parts hold as many values as the head says: ones in the bitmap, escapes in both
 * parts of codes. So no part is read beyond its end, whatever the bytes are.
 */
#include <emmintrin.h>
#include <errno.h>
#include <string.h>

#include "codec/block.h"

#define DECODED_MAX (SL_CODEC_BLOCK_BYTES + SL_CODEC_BEHIND_BYTES)

static uint32_t
word_get(const uint8_t *from)
{
	uint32_t word;

	memcpy(&word, from, sizeof(word));
	return word;
}

/* ---- Planes into bytes ---- */

/* 16 bytes that are 0xff where the word has a bit, for its lower or upper half. */
static __m128i
word_spread(uint32_t half)
{
	const __m128i bits = _mm_set1_epi64x((long long)0x8040201008040201ull);
	__m128i low = _mm_set1_epi8((char)half);
	__m128i high = _mm_set1_epi8((char)(half >> 8));

	return _mm_cmpeq_epi8(_mm_and_si128(_mm_unpacklo_epi64(low, high), bits), bits);
}

/* m bytes (and up to 31 behind) of base, with the bits of their planes. */
static void
planes_get(const uint8_t *in, uint32_t m, uint32_t bits, uint32_t base, uint8_t *values)
{
	for (uint32_t i = 0; i < m; i += 32) {
		__m128i low = _mm_set1_epi8((char)base), high = low;

		for (uint32_t left = bits; left; left &= left - 1) {
			__m128i bit = _mm_set1_epi8((char)(left & -left));
			uint32_t word = word_get(in);

			low = _mm_or_si128(low, _mm_and_si128(word_spread(word), bit));
			high = _mm_or_si128(high,
					    _mm_and_si128(word_spread(word >> 16), bit));
			in += sizeof(word);
		}
		_mm_storeu_si128((void *)(values + i), low);
		_mm_storeu_si128((void *)(values + i + 16), high);
	}
}

/* ---- Exponents ---- */

/* How many of m codes are the escape n; their places go to `places`. */
static uint32_t
escapes_find(const uint8_t *codes, uint32_t m, uint32_t n, uint16_t *places)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < m; i += 64)
		for (uint64_t left = sl_codec_equal_64(codes + i, m - i, n); left;
		     left &= left - 1)
			places[found++] = (uint16_t)(i + (uint32_t)__builtin_ctzll(left));
	return found;
}

/* m exponents (and up to 15 behind) of their codes; the escapes get any value. */
static void
codes_replace(const uint8_t *codes, uint32_t m, const uint8_t *dict, uint32_t n,
	      uint8_t *exponents)
{
	__m128i of[SL_CODEC_DICT_MAX], at[SL_CODEC_DICT_MAX];

	for (uint32_t k = 0; k < n; k++) {
		of[k] = _mm_set1_epi8((char)dict[k]);
		at[k] = _mm_set1_epi8((char)k);
	}
	for (uint32_t i = 0; i < m; i += 16) {
		__m128i code = _mm_loadu_si128((const void *)(codes + i));
		__m128i exponent = _mm_setzero_si128();

		for (uint32_t k = 0; k < n; k++)
			exponent = _mm_or_si128(exponent,
						_mm_and_si128(_mm_cmpeq_epi8(code, at[k]),
							      of[k]));
		_mm_storeu_si128((void *)(exponents + i), exponent);
	}
}

static const char *
exponents_decode(const struct sl_codec_head *head, const struct sl_codec_parts *parts,
		 const uint8_t *in, uint8_t *exponents)
{
	uint32_t n1 = sl_codec_n1(head->mode), n2 = sl_codec_n2(head->mode);
	uint8_t codes[DECODED_MAX], second[DECODED_MAX];
	uint16_t places[SL_CODEC_BLOCK_BYTES / 2], places2[SL_CODEC_BLOCK_BYTES / 2];
	uint32_t escapes;

	planes_get(in + parts->first, head->m, (1u << sl_codec_k1(head->mode)) - 1, 0, codes);
	codes_replace(codes, head->m, in + parts->dict, n1, exponents);
	/* Without escapes no code is as large as n1. */
	if (escapes_find(codes, head->m, n1, places) != head->m2)
		return "another number of exponents without a first code";
	if (!sl_codec_escapes(head->mode))
		return head->m3 ? "bytes of exponents that all have a code" : NULL;
	planes_get(in + parts->second, head->m2, (1u << sl_codec_k2(head->mode)) - 1, 0,
		   codes);
	codes_replace(codes, head->m2, in + parts->dict + n1, n2, second);
	escapes = escapes_find(codes, head->m2, n2, places2);
	if (escapes != head->m3)
		return "another number of exponents without a second code";
	for (uint32_t i = 0; i < escapes; i++)
		second[places2[i]] = in[parts->third + i];
	for (uint32_t i = 0; i < head->m2; i++)
		exponents[places[i]] = second[i];
	return NULL;
}

/* ---- Bytes into elements ---- */

static void
rest_join(union sl_codec_block *to, uint32_t kind, uint32_t j, uint32_t m,
	  const uint8_t *values)
{
	if (kind == SL_CODEC_BF16) {
		for (uint32_t i = 0; i < m; i++)
			to->u16[i] |= (uint16_t)((values[i] & 0x7f) | (values[i] & 0x80)
									      << 8);
	} else if (kind == SL_CODEC_FP16 && j == 1) {
		for (uint32_t i = 0; i < m; i++)
			to->u16[i] |= (uint16_t)((values[i] & 3) << 8 | (values[i] & 4)
										<< 13);
	} else if (kind == SL_CODEC_FP32 && j == 2) {
		for (uint32_t i = 0; i < m; i++)
			to->u32[i] |= (uint32_t)(values[i] & 0x7f) << 16 |
				      (uint32_t)(values[i] & 0x80) << 24;
	} else {
		switch (sl_codec_element_shift(kind)) {
		case 0:
			memcpy(to->u8, values, m);
			break;
		case 1:
			for (uint32_t i = 0; i < m; i++)
				to->u16[i] |= (uint16_t)(values[i] << 8 * j);
			break;
		case 2:
			for (uint32_t i = 0; i < m; i++)
				to->u32[i] |= (uint32_t)values[i] << 8 * j;
			break;
		case 3:
			for (uint32_t i = 0; i < m; i++)
				to->u64[i] |= (uint64_t)values[i] << 8 * j;
			break;
		}
	}
}

/* The first byte, or the exponents: they set what the others add to. */
static void
elements_begin(union sl_codec_block *to, uint32_t kind, uint32_t m, const uint8_t *exponents)
{
	if (kind == SL_CODEC_BF16)
		for (uint32_t i = 0; i < m; i++)
			to->u16[i] = (uint16_t)(exponents[i] << 7);
	else if (kind == SL_CODEC_FP16)
		for (uint32_t i = 0; i < m; i++)
			to->u16[i] = (uint16_t)((exponents[i] & 0x1f) << 10);
	else if (kind == SL_CODEC_FP32)
		for (uint32_t i = 0; i < m; i++)
			to->u32[i] = (uint32_t)exponents[i] << 23;
	else
		memset(to->u8, 0, (size_t)m << sl_codec_element_shift(kind));
}

/* ---- Sparse ---- */

/* Without a branch for each bit, which would be guessed wrongly half of the time. */
#define ELEMENTS_EXPAND(name, lane, field)                                        \
	static void name(const union sl_codec_block *from, const uint8_t *bitmap, \
			 union sl_codec_block *to)                                \
	{                                                                         \
		uint32_t n = sizeof(to->field) / sizeof(to->field[0]);            \
		uint32_t next = 0;                                                \
                                                                                  \
		for (uint32_t i = 0; i < n; i++) {                                \
			lane there = bitmap[i / 8] >> i % 8 & 1;                  \
                                                                                  \
			to->field[i] = from->field[next] & (lane)(0 - there);     \
			next += (uint32_t)there;                                  \
		}                                                                 \
	}

ELEMENTS_EXPAND(expand_u8, uint8_t, u8)
ELEMENTS_EXPAND(expand_u16, uint16_t, u16)
ELEMENTS_EXPAND(expand_u32, uint32_t, u32)
ELEMENTS_EXPAND(expand_u64, uint64_t, u64)

static void
elements_expand(const union sl_codec_block *from, uint32_t kind, const uint8_t *bitmap,
		union sl_codec_block *to)
{
	switch (sl_codec_element_shift(kind)) {
	case 0:
		expand_u8(from, bitmap, to);
		break;
	case 1:
		expand_u16(from, bitmap, to);
		break;
	case 2:
		expand_u32(from, bitmap, to);
		break;
	case 3:
		expand_u64(from, bitmap, to);
		break;
	}
}

static uint32_t
bitmap_count(const uint8_t *bitmap, uint32_t bytes)
{
	uint32_t ones = 0;

	for (uint32_t i = 0; i < bytes; i += 4)
		ones += (uint32_t)__builtin_popcount(word_get(bitmap + i));
	return ones;
}

/* ---- A block ---- */

/* The parts of a block of elements, once its head is known to be one of such a block. */
static const char *
parts_check(uint32_t entry, const uint8_t *in, const struct sl_codec_head *head,
	    struct sl_codec_parts *parts)
{
	uint32_t kind = SL_CODEC_ENTRY_KIND(entry), sparse = SL_CODEC_ENTRY_SPARSE(entry);
	uint32_t bytes = SL_CODEC_ENTRY_UNITS(entry) * SL_CODEC_UNIT_BYTES;
	uint32_t n = sl_codec_elements(kind), n_rest = sl_codec_rest_bytes(kind);

	if (head->zero || head->mode >= SL_CODEC_MODE_COUNT || !head->m || head->m > n ||
	    head->m2 > head->m || head->m3 > head->m2)
		return "a head that no block has";
	if (!sl_codec_is_float(kind) && (head->mode || head->m2 || head->m3))
		return "exponents of integers";
	if (!sparse && head->m != n)
		return "another number of elements";
	if (bytes < sizeof(*head) + 2 * n_rest)
		return "masks behind its end";
	sl_codec_place(kind, sparse, head->mode, head->m, head->m2, head->m3,
		       in + sizeof(*head), parts);
	if (sl_codec_round(parts->end, SL_CODEC_UNIT_BYTES) != bytes)
		return "parts of another size";
	if (sparse && bitmap_count(in + parts->bitmap, n / 8) != head->m)
		return "another number of elements that are not zero";
	return NULL;
}

const char *
sl_codec_block_decode(uint32_t entry, const uint8_t *in, union sl_codec_block *block)
{
	uint32_t kind = SL_CODEC_ENTRY_KIND(entry), units = SL_CODEC_ENTRY_UNITS(entry);
	uint32_t n_rest = sl_codec_rest_bytes(kind);
	const uint8_t *varying = in + sizeof(struct sl_codec_head);
	const uint8_t *base = varying + n_rest;
	union sl_codec_block dense, *to;
	uint8_t values[DECODED_MAX];
	struct sl_codec_parts parts;
	struct sl_codec_head head;
	const char *wrong;

	switch (kind) {
	case SL_CODEC_ZERO:
		memset(block->u8, 0, sizeof(block->u8));
		return NULL;
	case SL_CODEC_CONSTANT:
		for (uint32_t i = 0; i < SL_CODEC_BLOCK_UNITS; i++)
			memcpy(block->u8 + (size_t)i * 16, in, 16);
		return NULL;
	case SL_CODEC_RAW:
		memcpy(block->u8, in, sizeof(block->u8));
		return NULL;
	}
	if (units * SL_CODEC_UNIT_BYTES < sizeof(head))
		return "no head";
	memcpy(&head, in, sizeof(head));
	wrong = parts_check(entry, in, &head, &parts);
	if (wrong)
		return wrong;
	if (sl_codec_is_float(kind)) {
		wrong = exponents_decode(&head, &parts, in, values);
		if (wrong)
			return wrong;
	}
	/* The bitmap names no more than m elements, and reading goes on to the m-th at most, which is
	 * one of a block: at most n. */
	to = SL_CODEC_ENTRY_SPARSE(entry) ? &dense : block;
	elements_begin(to, kind, head.m, values);
	for (uint32_t j = 0; j < n_rest; j++) {
		if (varying[j] == 0xff) {
			rest_join(to, kind, j, head.m, in + parts.rest[j]);
		} else if (varying[j] || base[j]) {
			planes_get(in + parts.rest[j], head.m, varying[j], base[j], values);
			rest_join(to, kind, j, head.m, values);
		}
	}
	if (SL_CODEC_ENTRY_SPARSE(entry))
		elements_expand(&dense, kind, in + parts.bitmap, block);
	return NULL;
}

/* ---- A run of blocks ---- */

static uint32_t
table_entry(const uint8_t *in, uint32_t i)
{
	uint16_t entry;

	memcpy(&entry, in + SL_CODEC_HEADER_BYTES + (size_t)i * sizeof(entry), sizeof(entry));
	return entry;
}

/* NULL, or what is wrong with an entry of the table. */
static const char *
entry_check(uint32_t entry)
{
	uint32_t kind = SL_CODEC_ENTRY_KIND(entry), units = SL_CODEC_ENTRY_UNITS(entry);

	if (kind >= SL_CODEC_KIND_COUNT || SL_CODEC_ENTRY_ZEROS(entry))
		return "a kind that is not known";
	if (kind <= SL_CODEC_RAW && SL_CODEC_ENTRY_SPARSE(entry))
		return "a bitmap where there are no elements";
	if ((kind == SL_CODEC_ZERO && units != 0) ||
	    (kind == SL_CODEC_CONSTANT && units != 1) ||
	    (kind == SL_CODEC_RAW && units != SL_CODEC_BLOCK_UNITS) ||
	    units > SL_CODEC_BLOCK_UNITS)
		return "another size than its kind has";
	return NULL;
}

static int
bytes_are_zero(const uint8_t *bytes, size_t n)
{
	uint8_t any = 0;

	for (size_t i = 0; i < n; i++)
		any |= bytes[i];
	return !any;
}

/* Header and table. Afterwards every block lies within in_bytes. */
static int
run_check(const uint8_t *in, size_t in_bytes, struct sl_codec_header *header)
{
	size_t begin, units = 0;

	if (in_bytes < sizeof(*header))
		return sl_fail(-EBADMSG, "codec: %zu bytes: shorter than a header", in_bytes);
	memcpy(header, in, sizeof(*header));
	if (header->magic != SL_CODEC_MAGIC)
		return sl_fail(-EBADMSG, "codec: this is no compressed chunk");
	if (header->version != SL_CODEC_VERSION)
		return sl_fail(-EBADMSG, "codec: version %u is not known: this is version %u",
			       header->version, SL_CODEC_VERSION);
	if (header->flags & ~(SL_CODEC_HAS_CHECKSUM | SL_CODEC_IS_STORED) ||
	    !bytes_are_zero(in + offsetof(struct sl_codec_header, zero),
			    sizeof(header->zero)) ||
	    !header->n_blocks || header->n_blocks > SL_CODEC_BYTES_MAX / SL_CODEC_BLOCK_BYTES)
		return sl_fail(-EBADMSG, "codec: damaged header: flags 0x%x, %u blocks",
			       header->flags, header->n_blocks);
	begin = SL_CODEC_HEADER_BYTES;
	if (header->flags & SL_CODEC_IS_STORED) {
		if (in_bytes - begin < (size_t)header->n_blocks * SL_CODEC_BLOCK_BYTES)
			return sl_fail(-EBADMSG, "codec: %zu bytes: %u stored blocks are cut",
				       in_bytes, header->n_blocks);
		return 0;
	}
	begin += sl_codec_table_bytes(header->n_blocks);
	if (in_bytes < begin)
		return sl_fail(-EBADMSG, "codec: %zu bytes: the table is cut", in_bytes);
	for (uint32_t i = 0; i < header->n_blocks; i++) {
		uint32_t entry = table_entry(in, i);
		const char *wrong = entry_check(entry);

		if (wrong)
			return sl_fail(-EBADMSG, "codec: block %u has %s: 0x%x", i, wrong,
				       entry);
		units += SL_CODEC_ENTRY_UNITS(entry);
	}
	if (!bytes_are_zero(in + SL_CODEC_HEADER_BYTES + 2 * (size_t)header->n_blocks,
			    sl_codec_table_bytes(header->n_blocks) - 2 * header->n_blocks))
		return sl_fail(-EBADMSG, "codec: %u entries of a table, and more behind them",
			       header->n_blocks);
	if (units != header->units)
		return sl_fail(-EBADMSG, "codec: blocks of %zu units, %u by the header",
			       units, header->units);
	if ((in_bytes - begin) / SL_CODEC_UNIT_BYTES < units)
		return sl_fail(-EBADMSG, "codec: %zu bytes: the blocks are cut", in_bytes);
	return 0;
}

int
sl_codec_decode(const void *in, size_t in_bytes, unsigned flags, void *raw, size_t raw_bytes)
{
	struct sl_codec_header header = {0};
	const uint8_t *at;
	uint64_t hash = 0;
	int hashed, rc;

	if (flags & ~SL_CODEC_CHECK)
		return sl_fail(-EINVAL, "codec: flags 0x%x are not known", flags);
	rc = run_check(in, in_bytes, &header);
	if (rc)
		return rc;
	if (raw_bytes != (size_t)header.n_blocks * SL_CODEC_BLOCK_BYTES)
		return sl_fail(-EINVAL, "codec: %zu bytes are wanted, %zu were encoded",
			       raw_bytes, (size_t)header.n_blocks * SL_CODEC_BLOCK_BYTES);
	at = (const uint8_t *)in + SL_CODEC_HEADER_BYTES;
	if (!(header.flags & SL_CODEC_IS_STORED))
		at += sl_codec_table_bytes(header.n_blocks);
	hashed = flags & SL_CODEC_CHECK && header.flags & SL_CODEC_HAS_CHECKSUM;
	for (uint32_t i = 0; i < header.n_blocks; i++) {
		uint32_t entry = SL_CODEC_ENTRY(SL_CODEC_RAW, 0, SL_CODEC_BLOCK_UNITS);
		union sl_codec_block block;
		const char *wrong;

		if (!(header.flags & SL_CODEC_IS_STORED))
			entry = table_entry(in, i);
		wrong = sl_codec_block_decode(entry, at, &block);
		if (wrong)
			return sl_fail(-EBADMSG, "codec: block %u (%s) has %s", i,
				       sl_codec_kind_name(SL_CODEC_ENTRY_KIND(entry)),
				       wrong);
		if (hashed)
			hash += sl_codec_block_hash(&block, i * (sizeof(block.u64) / 8));
		memcpy((uint8_t *)raw + (size_t)i * SL_CODEC_BLOCK_BYTES, &block,
		       sizeof(block));
		at += SL_CODEC_ENTRY_UNITS(entry) * SL_CODEC_UNIT_BYTES;
	}
	if (hashed && hash != header.checksum)
		return sl_fail(-EBADMSG, "codec: the checksum of %u blocks does not match",
			       header.n_blocks);
	return 0;
}

int
sl_codec_inspect(const void *in, size_t in_bytes, struct sl_codec_info *info)
{
	struct sl_codec_header header = {0};
	int rc = run_check(in, in_bytes, &header);

	if (rc)
		return rc;
	memset(info, 0, sizeof(*info));
	info->raw_bytes = (size_t)header.n_blocks * SL_CODEC_BLOCK_BYTES;
	info->checked = (header.flags & SL_CODEC_HAS_CHECKSUM) != 0;
	info->stored = (header.flags & SL_CODEC_IS_STORED) != 0;
	info->encoded_bytes = SL_CODEC_HEADER_BYTES + info->raw_bytes;
	if (info->stored)
		return 0;
	info->encoded_bytes = SL_CODEC_HEADER_BYTES +
			      (size_t)sl_codec_table_bytes(header.n_blocks) +
			      (size_t)header.units * SL_CODEC_UNIT_BYTES;
	for (uint32_t i = 0; i < header.n_blocks; i++) {
		uint32_t entry = table_entry(in, i);

		info->blocks[SL_CODEC_ENTRY_KIND(entry)]++;
		info->sparse_blocks += SL_CODEC_ENTRY_SPARSE(entry);
	}
	return 0;
}

const char *
sl_codec_kind_name(enum sl_codec_kind kind)
{
	static const char *const names[SL_CODEC_KIND_COUNT] = {
		[SL_CODEC_ZERO] = "zero", [SL_CODEC_CONSTANT] = "constant",
		[SL_CODEC_RAW] = "raw",   [SL_CODEC_U8] = "u8",
		[SL_CODEC_U16] = "u16",   [SL_CODEC_U32] = "u32",
		[SL_CODEC_U64] = "u64",   [SL_CODEC_BF16] = "bf16",
		[SL_CODEC_FP16] = "fp16", [SL_CODEC_FP32] = "fp32",
	};

	return (unsigned)kind < SL_CODEC_KIND_COUNT ? names[kind] : "?";
}
