/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encoding: a block as its plan says, and a run of blocks with header and table. format.h has the
 * parts of a block.
 *
 * A block is worked on in arrays of bytes: exponents, and one for each byte of the rest. Then each is
 * a part of the output, or is made into planes of bits, 16 values at a time.
 */
#include <emmintrin.h>
#include <errno.h>
#include <string.h>

#include "codec/block.h"

/* Values of an array of bytes, with room for what is done at once. */
#define VALUES_MAX (SL_CODEC_BLOCK_BYTES + SL_CODEC_BEHIND_BYTES)

/* The elements that are coded: all, or those that are not zero. */
struct elements {
	union sl_codec_block dense;
	uint32_t bitmap[SL_CODEC_BLOCK_BYTES / 32];
};

/* ---- Sparse: elements that are not zero, and where they are ---- */

#define ELEMENTS_COMPACT(name, field)                                             \
	static void name(const union sl_codec_block *block, struct elements *to)  \
	{                                                                         \
		uint32_t n = sizeof(block->field) / sizeof(block->field[0]);      \
		uint32_t m = 0;                                                   \
                                                                                  \
		for (uint32_t row = 0; row < n / 32; row++) {                     \
			uint32_t word = 0;                                        \
                                                                                  \
			for (uint32_t i = 0; i < 32; i++) {                       \
				uint32_t there = block->field[row * 32 + i] != 0; \
                                                                                  \
				to->dense.field[m] = block->field[row * 32 + i];  \
				word |= there << i;                               \
				m += there;                                       \
			}                                                         \
			to->bitmap[row] = word;                                   \
		}                                                                 \
	}

ELEMENTS_COMPACT(compact_u8, u8)
ELEMENTS_COMPACT(compact_u16, u16)
ELEMENTS_COMPACT(compact_u32, u32)
ELEMENTS_COMPACT(compact_u64, u64)

static void
elements_compact(const union sl_codec_block *block, uint32_t kind, struct elements *to)
{
	switch (sl_codec_element_shift(kind)) {
	case 0:
		compact_u8(block, to);
		break;
	case 1:
		compact_u16(block, to);
		break;
	case 2:
		compact_u32(block, to);
		break;
	case 3:
		compact_u64(block, to);
		break;
	}
}

/* ---- Elements into bytes ---- */

static void
exponents_get(const union sl_codec_block *from, uint32_t kind, uint32_t m, uint8_t *to)
{
	if (kind == SL_CODEC_BF16)
		for (uint32_t i = 0; i < m; i++)
			to[i] = (uint8_t)(from->u16[i] >> 7);
	else if (kind == SL_CODEC_FP16)
		for (uint32_t i = 0; i < m; i++)
			to[i] = (uint8_t)(from->u16[i] >> 10 & 0x1f);
	else /* m elements are there: the analyzer does not see that compacting leaves m */
		for (uint32_t i = 0; i < m; i++) // NOLINTNEXTLINE(clang-analyzer-core.*)
			to[i] = (uint8_t)(from->u32[i] >> 23);
}

/* Byte j of the rest. Only the top one has bits beside where they are in the element. */
static void
rest_get(const union sl_codec_block *from, uint32_t kind, uint32_t j, uint32_t m, uint8_t *to)
{
	if (kind == SL_CODEC_BF16) {
		for (uint32_t i = 0; i < m; i++)
			to[i] = (uint8_t)((from->u16[i] & 0x7f) | (from->u16[i] >> 8 & 0x80));
	} else if (kind == SL_CODEC_FP16 && j == 1) {
		for (uint32_t i = 0; i < m; i++)
			to[i] = (uint8_t)((from->u16[i] >> 8 & 3) | (from->u16[i] >> 13 & 4));
	} else if (kind == SL_CODEC_FP32 && j == 2) {
		for (uint32_t i = 0; i < m; i++)
			to[i] = (uint8_t)((from->u32[i] >> 16 & 0x7f) |
					  (from->u32[i] >> 24 & 0x80));
	} else {
		uint32_t shift = sl_codec_element_shift(kind);
		const uint8_t *bytes = from->u8 + j;

		if (shift == 1)
			for (uint32_t i = 0; i < m; i++)
				to[i] = (uint8_t)(from->u16[i] >> 8 * j);
		else if (shift == 2)
			for (uint32_t i = 0; i < m; i++)
				to[i] = (uint8_t)(from->u32[i] >> 8 * j);
		else
			for (uint32_t i = 0; i < m; i++)
				to[i] = bytes[(size_t)i << shift];
	}
}

/* ---- Bytes into planes ---- */

/* Bit `bit` of 32 bytes. */
static uint32_t
row_bits(const uint8_t *values, unsigned bit)
{
	const __m128i *from = (const __m128i *)(const void *)values;
	__m128i up = _mm_cvtsi32_si128((int)(7 - bit));
	__m128i low = _mm_sll_epi16(_mm_loadu_si128(from), up);
	__m128i high = _mm_sll_epi16(_mm_loadu_si128(from + 1), up);

	return (uint32_t)_mm_movemask_epi8(low) | (uint32_t)_mm_movemask_epi8(high) << 16;
}

/* The planes of these bits of m bytes; the last row is filled with zeros here. */
static void
planes_put(uint8_t *values, uint32_t m, uint32_t bits, uint8_t *out)
{
	uint32_t rows = sl_codec_rows(m);

	memset(values + m, 0, (size_t)rows * 32 - m);
	for (uint32_t row = 0; row < rows; row++)
		for (uint32_t left = bits; left; left &= left - 1) {
			uint32_t word = row_bits(values + (size_t)row * 32,
						 (unsigned)__builtin_ctz(left));

			memcpy(out, &word, sizeof(word));
			out += sizeof(word);
		}
}

static void
values_put(const uint8_t *values, uint32_t m, uint8_t *out)
{
	memcpy(out, values, m);
	memset(out + m, 0, sl_codec_round(m, 4) - m);
}

/* ---- Exponents ---- */

/* Codes of m exponents: places in dict of n, or n itself where that has none. */
static void
codes_find(const uint8_t *exponents, uint32_t m, const uint8_t *dict, uint32_t n,
	   uint8_t *codes)
{
	__m128i of[SL_CODEC_DICT_MAX], at[SL_CODEC_DICT_MAX];

	for (uint32_t k = 0; k < n; k++) {
		of[k] = _mm_set1_epi8((char)dict[k]);
		at[k] = _mm_set1_epi8((char)k);
	}
	for (uint32_t i = 0; i < m; i += 16) {
		__m128i value = _mm_loadu_si128((const void *)(exponents + i));
		__m128i code = _mm_set1_epi8((char)n);

		/* From the end: of several places the first. */
		for (uint32_t k = n; k-- > 0;) {
			__m128i is = _mm_cmpeq_epi8(value, of[k]);

			code = _mm_or_si128(_mm_and_si128(is, at[k]),
					    _mm_andnot_si128(is, code));
		}
		_mm_storeu_si128((void *)(codes + i), code);
	}
}

/* Of m exponents, those whose code is n, to `to`. Returns how many. */
static uint32_t
escapes_get(const uint8_t *exponents, const uint8_t *codes, uint32_t m, uint32_t n,
	    uint8_t *to)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < m; i += 64)
		for (uint64_t left = sl_codec_equal_64(codes + i, m - i, n); left;
		     left &= left - 1)
			to[found++] = exponents[i + (uint32_t)__builtin_ctzll(left)];
	return found;
}

static void
exponents_put(const struct sl_codec_plan *plan, const struct sl_codec_parts *parts,
	      const uint8_t *exponents, uint8_t *out)
{
	uint32_t n1 = sl_codec_n1(plan->mode), n2 = sl_codec_n2(plan->mode);
	uint32_t k1 = sl_codec_k1(plan->mode), k2 = sl_codec_k2(plan->mode);
	uint8_t codes[VALUES_MAX], second[VALUES_MAX], third[VALUES_MAX];

	memset(out + parts->dict, 0, parts->bitmap - parts->dict);
	memcpy(out + parts->dict, plan->dict, n1 + n2);
	codes_find(exponents, plan->m, plan->dict, n1, codes);
	planes_put(codes, plan->m, (1u << k1) - 1, out + parts->first);
	if (!sl_codec_escapes(plan->mode))
		return;
	escapes_get(exponents, codes, plan->m, n1, second);
	codes_find(second, plan->m2, plan->dict + n1, n2, codes);
	planes_put(codes, plan->m2, (1u << k2) - 1, out + parts->second);
	escapes_get(second, codes, plan->m2, n2, third);
	values_put(third, plan->m3, out + parts->third);
}

/* ---- A block ---- */

void
sl_codec_block_encode(const union sl_codec_block *block, const struct sl_codec_plan *plan,
		      uint8_t *out)
{
	const union sl_codec_block *from = block;
	struct sl_codec_head head = {plan->mode, 0, plan->m, plan->m2, plan->m3};
	uint32_t n_rest = sl_codec_rest_bytes(plan->kind);
	uint8_t values[VALUES_MAX];
	struct sl_codec_parts parts;
	struct elements elements;

	if (plan->kind <= SL_CODEC_RAW) {
		memcpy(out, block->u8, (size_t)plan->units * SL_CODEC_UNIT_BYTES);
		return;
	}
	sl_codec_place(plan->kind, plan->sparse, plan->mode, plan->m, plan->m2, plan->m3,
		       plan->varying, &parts);
	memcpy(out, &head, sizeof(head));
	memset(out + parts.masks, 0, parts.dict - parts.masks);
	memcpy(out + parts.masks, plan->varying, n_rest);
	memcpy(out + parts.masks + n_rest, plan->base, n_rest);
	if (plan->sparse) {
		elements_compact(block, plan->kind, &elements);
		memcpy(out + parts.bitmap, elements.bitmap, parts.first - parts.bitmap);
		from = &elements.dense;
	}
	if (sl_codec_is_float(plan->kind)) {
		exponents_get(from, plan->kind, plan->m, values);
		exponents_put(plan, &parts, values, out);
	}
	for (uint32_t j = 0; j < n_rest; j++) {
		if (!plan->varying[j])
			continue;
		rest_get(from, plan->kind, j, plan->m, values);
		if (plan->varying[j] == 0xff)
			values_put(values, plan->m, out + parts.rest[j]);
		else
			planes_put(values, plan->m, plan->varying[j], out + parts.rest[j]);
	}
	memset(out + parts.end, 0, (size_t)plan->units * SL_CODEC_UNIT_BYTES - parts.end);
}

/* ---- A run of blocks ---- */

size_t
sl_codec_bound(size_t raw_bytes)
{
	return raw_bytes + SL_CODEC_HEADER_BYTES;
}

size_t
sl_codec_block_bytes(const void *raw)
{
	union sl_codec_block block;
	struct sl_codec_plan plan;

	memcpy(&block, raw, sizeof(block));
	sl_codec_plan_make(&block, &plan);
	return (size_t)plan.units * SL_CODEC_UNIT_BYTES;
}

/*
 * The table and the blocks behind the header, in at most out_bytes. Returns the units of the blocks,
 * or -ENOSPC.
 */
static int64_t
blocks_encode(const uint8_t *raw, uint32_t n_blocks, uint8_t *out, size_t out_bytes)
{
	size_t at = SL_CODEC_HEADER_BYTES + (size_t)sl_codec_table_bytes(n_blocks);
	uint8_t *table = out + SL_CODEC_HEADER_BYTES;
	size_t begin = at;

	if (at > out_bytes)
		return -ENOSPC;
	memset(table, 0, sl_codec_table_bytes(n_blocks));
	for (uint32_t i = 0; i < n_blocks; i++) {
		union sl_codec_block block;
		struct sl_codec_plan plan;
		uint16_t entry;

		memcpy(&block, raw + (size_t)i * SL_CODEC_BLOCK_BYTES, sizeof(block));
		sl_codec_plan_make(&block, &plan);
		if ((size_t)plan.units * SL_CODEC_UNIT_BYTES > out_bytes - at)
			return -ENOSPC;
		sl_codec_block_encode(&block, &plan, out + at);
		entry = SL_CODEC_ENTRY(plan.kind, plan.sparse, plan.units);
		memcpy(table + (size_t)i * sizeof(entry), &entry, sizeof(entry));
		at += (size_t)plan.units * SL_CODEC_UNIT_BYTES;
	}
	return (int64_t)((at - begin) / SL_CODEC_UNIT_BYTES);
}

int
sl_codec_encode(const void *raw, size_t raw_bytes, unsigned flags, void *out,
		size_t out_bytes, size_t *encoded_bytes)
{
	size_t bound = sl_codec_bound(raw_bytes);
	struct sl_codec_header header = {.magic = SL_CODEC_MAGIC,
					 .version = SL_CODEC_VERSION};
	size_t bytes = bound;
	int64_t units;

	if (!raw_bytes || raw_bytes % SL_CODEC_BLOCK_BYTES || raw_bytes > SL_CODEC_BYTES_MAX)
		return sl_fail(-EINVAL, "codec: %zu bytes; give a multiple of 4096, at most 64 MiB",
			       raw_bytes);
	if (flags & ~SL_CODEC_CHECK)
		return sl_fail(-EINVAL, "codec: flags 0x%x are not known", flags);
	header.n_blocks = (uint32_t)(raw_bytes / SL_CODEC_BLOCK_BYTES);
	/* One byte less than stored as it is: whatever is not smaller is stored. */
	units = blocks_encode(raw, header.n_blocks, out,
			      out_bytes < bound ? out_bytes : bound - 1);
	if (units < 0 && out_bytes < bound)
		return sl_fail(-ENOSPC, "codec: %zu bytes do not fit into %zu", raw_bytes,
			       out_bytes);
	if (units < 0) {
		header.flags |= SL_CODEC_IS_STORED;
		memcpy((uint8_t *)out + SL_CODEC_HEADER_BYTES, raw, raw_bytes);
	} else {
		header.units = (uint32_t)units;
		bytes = SL_CODEC_HEADER_BYTES +
			(size_t)sl_codec_table_bytes(header.n_blocks) +
			(size_t)units * SL_CODEC_UNIT_BYTES;
	}
	if (flags & SL_CODEC_CHECK) {
		header.flags |= SL_CODEC_HAS_CHECKSUM;
		header.checksum = sl_codec_checksum(raw, raw_bytes, 0);
	}
	memcpy(out, &header, sizeof(header));
	*encoded_bytes = bytes;
	return 0;
}
