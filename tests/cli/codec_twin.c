/* SPDX-License-Identifier: Apache-2.0 */
/* See codec_twin.h. */
#include "codec_twin.h"

#include <stdlib.h>

#include "codec_data.h"
#include "cuda_driver/codec_stored.h"

static struct sl_rng rng;

void
twin_seed(uint64_t seed)
{
	sl_rng_init(&rng, seed);
}

uint64_t
twin_random(uint64_t below)
{
	return sl_rng_below(&rng, below);
}

void
twin_fill(unsigned round, uint8_t *block)
{
	uint32_t data = round < CODEC_DATA_COUNT
				? round
				: (uint32_t)sl_rng_below(&rng, CODEC_DATA_COUNT + 14);

	if (data < CODEC_DATA_COUNT)
		codec_data_fill((enum codec_data)data, &rng, block);
	else
		codec_elements_fill(SL_CODEC_U8 + (data - CODEC_DATA_COUNT) / 2, &rng, block);
}

size_t
twin_encode(const uint8_t *raw, size_t bytes, unsigned check, uint64_t most_bytes,
	    uint8_t *out)
{
	size_t n = 0;

	if (sl_codec_encode(raw, bytes, check ? SL_CODEC_CHECK : 0, out,
			    sl_codec_bound(bytes), &n))
		abort();
	return codec_store_over(out, n, most_bytes, raw, bytes);
}

int
twin_decode(const uint8_t *in, size_t n, unsigned check, uint8_t *raw, size_t bytes)
{
	return sl_codec_decode(in, n, check ? SL_CODEC_CHECK : 0, raw, bytes);
}
