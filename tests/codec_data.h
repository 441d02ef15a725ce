/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks for tests of the codec: one kind of data each, as programs have them; and elements of any
 * distribution. They are made of integers alone, so the same seed gives the same bytes on every
 * machine: encoded bytes of the first are committed as hashes.
 */
#ifndef TESTS_CODEC_DATA_H
#define TESTS_CODEC_DATA_H

#include <stdint.h>
#include <string.h>

#include "base/rng.h"
#include "codec/codec.h"
#include "codec/format.h"

#define CODEC_BLOCK SL_CODEC_BLOCK_BYTES

enum codec_data {
	CODEC_DATA_ZERO,
	CODEC_DATA_CONSTANT,
	CODEC_DATA_RANDOM,
	CODEC_DATA_BOOL,
	CODEC_DATA_U8_SPARSE,  /* quantized activations */
	CODEC_DATA_TOKENS,     /* 16-bit numbers below 2^13 */
	CODEC_DATA_U16_SPARSE, /* counts */
	CODEC_DATA_INDICES,    /* 32-bit, below 2^20, all with one bit */
	CODEC_DATA_U32_SPARSE,
	CODEC_DATA_INT64,  /* below 50,000 */
	CODEC_DATA_PADDED, /* the same, mostly zero */
	CODEC_DATA_BF16,
	CODEC_DATA_BF16_RELU,
	CODEC_DATA_FP16,
	CODEC_DATA_FP16_RELU,
	CODEC_DATA_FP32,
	CODEC_DATA_FP32_RELU,
	CODEC_DATA_FP32_LOW_EMPTY, /* a bf16 kept as fp32 */
	CODEC_DATA_COUNT
};

/* A number with the distribution of weights, nearly: the sum of 12 uniform ones, as a fp32. */
static inline uint32_t
codec_normal(struct sl_rng *rng)
{
	int32_t sum = -6 * 0x100000;
	float value;
	uint32_t bits;

	for (unsigned i = 0; i < 12; i++)
		sum += (int32_t)(sl_rng_next(rng) >> 44);
	value = (float)sum / (float)(1u << 26); /* a power of two: exact but for one rounding */
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* The fp16 of it, cut; below the smallest normal one it is zero. */
static inline uint16_t
codec_half(uint32_t bits)
{
	int32_t exponent = (int32_t)(bits >> 23 & 0xff) - 112;
	uint32_t sign = bits >> 16 & 0x8000;

	return (uint16_t)(exponent > 0
				  ? sign | (uint32_t)exponent << 10 | (bits >> 13 & 0x3ff)
				  : sign);
}

/* One block of it. */
static inline void
codec_data_fill(enum codec_data data, struct sl_rng *rng, void *block)
{
	uint8_t *u8 = block;
	uint16_t *u16 = block;
	uint32_t *u32 = block;
	uint64_t *u64 = block;
	uint64_t pattern[2] = {sl_rng_next(rng), sl_rng_next(rng)};

	memset(block, 0, CODEC_BLOCK);
	for (uint32_t i = 0; i < CODEC_BLOCK; i++) {
		uint64_t random = sl_rng_next(rng);

		switch (data) {
		case CODEC_DATA_ZERO:
		case CODEC_DATA_COUNT:
			return;
		case CODEC_DATA_CONSTANT:
			memcpy(u8 + i / 16 * 16, pattern, sizeof(pattern));
			continue;
		case CODEC_DATA_RANDOM:
			u8[i] = (uint8_t)random;
			continue;
		case CODEC_DATA_BOOL:
			u8[i] = random & 1;
			continue;
		case CODEC_DATA_U8_SPARSE:
			u8[i] = random >> 62 ? 0 : (uint8_t)(random | 1);
			continue;
		case CODEC_DATA_TOKENS:
			u16[i % 2048] = (uint16_t)(random >> 51);
			continue;
		case CODEC_DATA_U16_SPARSE:
			u16[i % 2048] = random >> 61 ? 0 : (uint16_t)(random | 1);
			continue;
		case CODEC_DATA_INDICES:
			u32[i % 1024] = (uint32_t)(random >> 44) | 0x40000000;
			continue;
		case CODEC_DATA_U32_SPARSE:
			u32[i % 1024] = random >> 61 ? 0 : (uint32_t)(random | 1);
			continue;
		case CODEC_DATA_INT64:
			u64[i % 512] = random % 50000;
			continue;
		case CODEC_DATA_PADDED:
			u64[i % 512] = random >> 60 ? 0 : random % 50000 + 1;
			continue;
		case CODEC_DATA_BF16:
			u16[i % 2048] = (uint16_t)(codec_normal(rng) >> 16);
			continue;
		case CODEC_DATA_BF16_RELU:
			u16[i % 2048] = random & 1
						? (uint16_t)(codec_normal(rng) >> 16 & 0x7fff)
						: 0;
			continue;
		case CODEC_DATA_FP16:
			u16[i % 2048] = codec_half(codec_normal(rng));
			continue;
		case CODEC_DATA_FP16_RELU:
			u16[i % 2048] = random & 1
						? codec_half(codec_normal(rng) & 0x7fffffff)
						: 0;
			continue;
		case CODEC_DATA_FP32:
			u32[i % 1024] = codec_normal(rng) ^ (uint32_t)(random & 0xff);
			continue;
		case CODEC_DATA_FP32_RELU:
			u32[i % 1024] = random & 1 ? (codec_normal(rng) & 0x7fffffff) ^
							     (uint32_t)(random >> 56)
						   : 0;
			continue;
		case CODEC_DATA_FP32_LOW_EMPTY:
			u32[i % 1024] = codec_normal(rng) & 0xffff0000;
			continue;
		}
	}
}

/* Exponents of a random number of values, each some 1 + steep times less frequent than the one
 * before; zeros; random signs and mantissas of which some bits are the same. */
static inline void
codec_floats_fill(uint32_t kind, struct sl_rng *rng, uint8_t *block)
{
	uint32_t most = kind == SL_CODEC_FP16 ? 31 : 255;
	uint32_t n_exponents = 1 + (uint32_t)sl_rng_below(rng, most);
	uint32_t steep = (uint32_t)sl_rng_below(rng, 5);
	uint32_t first = (uint32_t)sl_rng_below(rng, 255);
	uint64_t same = sl_rng_below(rng, 3) ? 0 : sl_rng_next(rng), base = sl_rng_next(rng);
	uint32_t zeros = sl_rng_below(rng, 2) ? (uint32_t)sl_rng_below(rng, 256) : 0;
	uint32_t bytes = 1u << sl_codec_element_shift(kind);

	if (!sl_rng_below(rng, 8)) { /* one exponent, which integers code as well if none is zero */
		n_exponents = 1;
		same = 0;
		zeros = 16 + (uint32_t)sl_rng_below(rng, 128);
	}
	for (uint32_t i = 0; i < sl_codec_elements(kind); i++) {
		uint64_t rest = (sl_rng_next(rng) & ~same) | (base & same);
		uint64_t element;
		uint32_t exponent = 0;

		if (steep)
			while (exponent + 1 < n_exponents && !sl_rng_below(rng, 1 + steep))
				exponent++;
		else
			exponent = (uint32_t)sl_rng_below(rng, n_exponents);
		element = sl_codec_join(kind, first + exponent * 7, rest);
		if (sl_rng_below(rng, 256) < zeros)
			element = 0;
		memcpy(block + (size_t)i * bytes, &element, bytes);
	}
}

static inline void
codec_integers_fill(uint32_t kind, struct sl_rng *rng, uint8_t *block)
{
	uint64_t same = sl_rng_next(rng) | sl_rng_next(rng), base = sl_rng_next(rng);
	uint32_t zeros = sl_rng_below(rng, 2) ? (uint32_t)sl_rng_below(rng, 257) : 0;
	uint32_t bytes = 1u << sl_codec_element_shift(kind);

	for (uint32_t i = 0; i < sl_codec_elements(kind); i++) {
		uint64_t element = (sl_rng_next(rng) & ~same) | (base & same);

		if (sl_rng_below(rng, 256) < zeros)
			element = 0;
		memcpy(block + (size_t)i * bytes, &element, bytes);
	}
}

/* One block of elements of a kind, of any distribution. */
static inline void
codec_elements_fill(uint32_t kind, struct sl_rng *rng, uint8_t *block)
{
	if (sl_codec_is_float(kind))
		codec_floats_fill(kind, rng, block);
	else
		codec_integers_fill(kind, rng, block);
}

#endif
