/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checksum of raw bytes: a sum over their words, in any order, so that blocks and lanes of a
 * kernel can add up their own. Each word is mixed with its number first: exchanged words are found.
 * It finds damage. It is not safe against deliberate collisions.
 */
#include <string.h>

#include "codec/block.h"
#include "codec/codec.h"

uint64_t
sl_codec_block_hash(const union sl_codec_block *block, uint64_t first_word)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < sizeof(block->u64) / sizeof(block->u64[0]); i++)
		hash += sl_codec_word_hash(block->u64[i], first_word + i);
	return hash;
}

uint64_t
sl_codec_checksum(const void *bytes, size_t n_bytes, uint64_t at)
{
	uint64_t hash = 0;

	for (size_t i = 0; i < n_bytes / SL_CODEC_BLOCK_BYTES; i++) {
		union sl_codec_block block;

		memcpy(&block, (const char *)bytes + i * SL_CODEC_BLOCK_BYTES, sizeof(block));
		hash += sl_codec_block_hash(&block, at / 8 + i * (sizeof(block.u64) / 8));
	}
	return hash;
}
