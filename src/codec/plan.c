/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a block is coded. Statistics of the block give the exact size of every candidate, without
 * coding it; the smallest is taken. So its place in the output is known before it is written, which is
 * what a kernel needs.
 *
 * Three passes over the block: is it constant; bits that vary and zeros, for elements of 1, 2, 4 and 8
 * bytes; how often each exponent occurs. One pass counts exponents for all floats: the byte above bit
 * 7 of each half word is the exponent of a bf16, of the upper half the exponent of a fp32, and without
 * its low three bits that of a fp16.
 */
#include <string.h>

#include "codec/block.h"

#define EXPONENTS 256u

/* Sparse is considered from one zero in 16 elements on: below one in nine the bitmap costs more than
 * the zeros of any kind would, and each candidate costs time. */
#define SPARSE_ONE_IN 16u

/* Elements of one size. Those that are zero add nothing to and_bits. */
struct element_stats {
	uint32_t zeros;
	uint64_t or_bits, and_bits;
};

/* Zeros are counted in lanes as wide as an element: a byte overflows after 255 of them. */
#define ELEMENT_STATS(name, vector, lane, field)                                         \
	static void name(const union sl_codec_block *block, struct element_stats *stats) \
	{                                                                                \
		const unsigned lanes = sizeof(vector) / sizeof(lane);                    \
		vector all = {0}, common = ~all;                                         \
		lane or_bits = 0, and_bits = (lane)~or_bits;                             \
                                                                                         \
		stats->zeros = 0;                                                        \
		for (unsigned half = 0; half < 2; half++) {                              \
			vector zeros = {0};                                              \
                                                                                         \
			for (unsigned i = 128 * half; i < 128 * (half + 1); i++) {       \
				vector value = block->field[i];                          \
				vector is_zero = (vector)(value == 0);                   \
                                                                                         \
				zeros -= is_zero;                                        \
				all |= value;                                            \
				common &= value | is_zero;                               \
			}                                                                \
			for (unsigned i = 0; i < lanes; i++)                             \
				stats->zeros += (uint32_t)zeros[i];                      \
		}                                                                        \
		for (unsigned i = 0; i < lanes; i++) {                                   \
			or_bits |= all[i];                                               \
			and_bits &= common[i];                                           \
		}                                                                        \
		stats->or_bits = or_bits;                                                \
		stats->and_bits = and_bits;                                              \
	}

ELEMENT_STATS(stats_u8, sl_codec_v8, uint8_t, v8)
ELEMENT_STATS(stats_u16, sl_codec_v16, uint16_t, v16)
ELEMENT_STATS(stats_u32, sl_codec_v32, uint32_t, v32)
ELEMENT_STATS(stats_u64, sl_codec_v64, uint64_t, v64)

/* How often each exponent occurs. */
struct exponents {
	uint16_t bf16[EXPONENTS], fp16[EXPONENTS], fp32[EXPONENTS];
};

/* Eight counters for each exponent: an increment waits for the last one of the same address, and with
 * four a block of equal exponents took 2.5 us instead of 0.9. */
#define COUNTERS 8u

static void
exponents_count(const union sl_codec_block *block, struct exponents *exponents)
{
	uint16_t count[COUNTERS][EXPONENTS];

	memset(count, 0, sizeof(count));
	for (unsigned i = 0; i < 512; i += 2) {
		uint64_t a = block->u64[i], b = block->u64[i + 1];

		count[0][a >> 7 & 0xff]++;
		count[1][a >> 23 & 0xff]++;
		count[2][a >> 39 & 0xff]++;
		count[3][a >> 55 & 0xff]++;
		count[4][b >> 7 & 0xff]++;
		count[5][b >> 23 & 0xff]++;
		count[6][b >> 39 & 0xff]++;
		count[7][b >> 55 & 0xff]++;
	}
	for (unsigned i = 0; i < EXPONENTS; i++) {
		unsigned upper = count[1][i] + count[3][i] + count[5][i] + count[7][i];
		unsigned lower = count[0][i] + count[2][i] + count[4][i] + count[6][i];

		exponents->fp32[i] = (uint16_t)upper;
		exponents->bf16[i] = (uint16_t)(upper + lower);
	}
	memset(exponents->fp16, 0, sizeof(exponents->fp16));
	for (unsigned i = 0; i < EXPONENTS / 8; i++) {
		unsigned n = 0;

		for (unsigned k = 0; k < 8; k++)
			n += exponents->bf16[8 * i + k];
		exponents->fp16[i] = (uint16_t)n;
	}
}

/*
 * The 16 most frequent exponents, of several as frequent the lowest first, into dict; sums[i] is how
 * many the first i of them are. zeros: so many of exponent 0 are not counted.
 */
static void
dict_make(const uint16_t *count, uint32_t zeros, uint8_t *dict, uint16_t *sums)
{
	uint32_t keys[SL_CODEC_DICT_MAX] = {0};

	for (uint32_t i = 0; i < EXPONENTS; i++) {
		uint32_t n = i ? count[i] : count[0] - zeros;
		uint32_t key = n << 8 | (255 - i);
		uint32_t at = SL_CODEC_DICT_MAX - 1;

		if (!n || key < keys[at])
			continue;
		for (; at > 0 && keys[at - 1] < key; at--)
			keys[at] = keys[at - 1];
		keys[at] = key;
	}
	sums[0] = 0;
	for (uint32_t i = 0; i < SL_CODEC_DICT_MAX; i++) {
		dict[i] = keys[i] ? (uint8_t)(255 - (keys[i] & 0xff)) : 0;
		sums[i + 1] = (uint16_t)(sums[i] + (keys[i] >> 8));
	}
}

/* The mode and the dictionary for the exponents of a plan. Returns their bytes. */
static uint32_t
exponents_plan(const uint16_t *count, uint32_t zeros, struct sl_codec_plan *plan)
{
	uint16_t sums[SL_CODEC_DICT_MAX + 1];
	uint32_t best = UINT32_MAX;

	dict_make(count, zeros, plan->dict, sums);
	for (uint32_t mode = 0; mode < SL_CODEC_MODE_COUNT; mode++) {
		uint32_t m2, m3;
		uint32_t bytes = sl_codec_mode_bytes(mode, plan->m, sums, &m2, &m3);

		if (bytes >= best)
			continue;
		best = bytes;
		plan->mode = (uint8_t)mode;
		plan->m2 = (uint16_t)m2;
		plan->m3 = (uint16_t)m3;
	}
	/* What the mode does not use is not a part of the block. */
	for (uint32_t i = sl_codec_n1(plan->mode) + sl_codec_n2(plan->mode);
	     i < SL_CODEC_DICT_MAX; i++)
		plan->dict[i] = 0;
	return best;
}

/* A candidate: this kind, sparse or dense. Its bytes, if it has less than at_most; else at_most. */
static uint32_t
candidate_make(enum sl_codec_kind kind, int sparse, const struct element_stats *stats,
	       const struct exponents *exponents, uint32_t at_most,
	       struct sl_codec_plan *plan)
{
	uint32_t n_rest = sl_codec_rest_bytes(kind);
	uint32_t n = sl_codec_elements(kind);
	uint64_t and_bits = stats->zeros && !sparse ? 0 : stats->and_bits;
	uint64_t base = sl_codec_rest(kind, and_bits);
	uint64_t varying = sl_codec_rest(kind, stats->or_bits ^ and_bits);
	uint32_t zeros = sparse ? stats->zeros : 0;
	uint32_t bytes = sizeof(struct sl_codec_head) + sl_codec_round(2 * n_rest, 4);

	memset(plan, 0, sizeof(*plan));
	plan->kind = (uint8_t)kind;
	plan->sparse = (uint8_t)sparse;
	plan->m = (uint16_t)(n - zeros);
	for (uint32_t j = 0; j < n_rest; j++) {
		plan->varying[j] = (uint8_t)(varying >> 8 * j);
		plan->base[j] = (uint8_t)(base >> 8 * j);
		bytes += sl_codec_byte_bytes(plan->m, plan->varying[j]);
	}
	bytes += sparse ? n / 8 : 0;
	if (bytes >= at_most) /* without the exponents: the dictionary need not be made */
		return at_most;
	if (kind == SL_CODEC_BF16)
		bytes += exponents_plan(exponents->bf16, zeros, plan);
	else if (kind == SL_CODEC_FP16)
		bytes += exponents_plan(exponents->fp16, zeros, plan);
	else if (kind == SL_CODEC_FP32)
		bytes += exponents_plan(exponents->fp32, zeros, plan);
	if (bytes >= at_most)
		return at_most;
	return bytes;
}

/* 1: the block is its first 16 bytes again and again. */
static int
block_is_constant(const union sl_codec_block *block)
{
	return memcmp(block->u8, block->u8 + 16, sizeof(block->u8) - 16) == 0;
}

void
sl_codec_plan_make(const union sl_codec_block *block, struct sl_codec_plan *plan)
{
	struct element_stats stats[4];
	struct exponents exponents;
	uint32_t best = SL_CODEC_BLOCK_BYTES;

	memset(plan, 0, sizeof(*plan));
	if (block_is_constant(block)) {
		int zero = !block->u64[0] && !block->u64[1];

		plan->kind = zero ? SL_CODEC_ZERO : SL_CODEC_CONSTANT;
		plan->units = zero ? 0 : 1;
		return;
	}
	plan->kind = SL_CODEC_RAW;
	plan->units = SL_CODEC_BLOCK_UNITS;
	stats_u8(block, &stats[0]);
	stats_u16(block, &stats[1]);
	stats_u32(block, &stats[2]);
	stats_u64(block, &stats[3]);
	exponents_count(block, &exponents);
	for (enum sl_codec_kind kind = SL_CODEC_U8; kind < SL_CODEC_KIND_COUNT; kind++) {
		const struct element_stats *of = &stats[sl_codec_element_shift(kind)];
		int sparse = of->zeros * SPARSE_ONE_IN >= sl_codec_elements(kind);

		for (int s = 0; s <= sparse; s++) {
			struct sl_codec_plan candidate;
			uint32_t bytes = candidate_make(kind, s, of, &exponents, best,
							&candidate);

			/* Sizes are compared in units: what is not smaller in them is not smaller. */
			bytes = sl_codec_round(bytes, SL_CODEC_UNIT_BYTES);
			if (bytes >= best)
				continue;
			best = bytes;
			*plan = candidate;
			plan->units = (uint16_t)(bytes / SL_CODEC_UNIT_BYTES);
		}
	}
}
