/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec. The first byte says what the others are:
 *
 *	0  encoded bytes, for the decoder. What it accepts is encoded again, and comes back
 *	1  raw bytes, repeated to whole blocks: encoded and decoded, they come back
 *	2  raw bytes, and behind them pairs of place and bits: the encoded bytes are damaged there. What
 *	   is accepted with the checksum is right
 *
 * Buffers are as long as allowed, so the address sanitizer sees an access behind them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "codec/format.h"

#define BLOCKS_MAX  8u
#define DAMAGE_MAX  16u
#define PLACE_BYTES 3u /* two of the place, one of bits */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *
must_alloc(size_t bytes)
{
	void *memory = malloc(bytes ? bytes : 1);

	if (!memory)
		abort();
	return memory;
}

/* Encode and compare. Returns the encoded bytes, as long as they are. */
static uint8_t *
encode_checked(const uint8_t *raw, size_t bytes, unsigned flags, size_t *encoded_bytes)
{
	uint8_t *out = must_alloc(sl_codec_bound(bytes)), *exact, *back = must_alloc(bytes);
	size_t n = 0, again = 0;

	if (sl_codec_encode(raw, bytes, flags, out, sl_codec_bound(bytes), &n) ||
	    n > sl_codec_bound(bytes))
		abort();
	exact = must_alloc(n);
	if (sl_codec_encode(raw, bytes, flags, exact, n, &again) || again != n ||
	    memcmp(exact, out, n) != 0)
		abort();
	if (sl_codec_decode(exact, n, flags, back, bytes) || memcmp(back, raw, bytes) != 0)
		abort();
	free(back);
	free(out);
	*encoded_bytes = n;
	return exact;
}

static void
decode_any(const uint8_t *data, size_t size)
{
	uint8_t *in = must_alloc(size), *raw;
	struct sl_codec_info info;
	size_t n;
	int rc;

	if (size)
		memcpy(in, data, size);
	rc = sl_codec_inspect(in, size, &info);
	if (rc && rc != -EBADMSG)
		abort();
	if (!rc && info.raw_bytes <= BLOCKS_MAX * SL_CODEC_BLOCK_BYTES) {
		raw = must_alloc(info.raw_bytes);
		rc = sl_codec_decode(in, size, SL_CODEC_CHECK, raw, info.raw_bytes);
		if (rc && rc != -EBADMSG)
			abort();
		rc = sl_codec_decode(in, size, 0, raw, info.raw_bytes);
		if (rc && rc != -EBADMSG)
			abort();
		if (!rc)
			free(encode_checked(raw, info.raw_bytes, SL_CODEC_CHECK, &n));
		free(raw);
	}
	free(in);
}

/* Blocks that the bytes make, repeated and xored by a byte that changes with each repetition. */
static uint8_t *
raw_make(const uint8_t *data, size_t size, size_t *bytes)
{
	size_t blocks = 1 + size / SL_CODEC_BLOCK_BYTES;
	uint8_t *raw;

	if (blocks > BLOCKS_MAX)
		blocks = BLOCKS_MAX;
	*bytes = blocks * SL_CODEC_BLOCK_BYTES;
	raw = must_alloc(*bytes);
	for (size_t i = 0; i < *bytes; i++)
		raw[i] = size ? (uint8_t)(data[i % size] ^ (i / size & data[0])) : 0;
	return raw;
}

static void
damage(const uint8_t *data, size_t size)
{
	size_t pairs = size ? data[0] % DAMAGE_MAX : 0, bytes, n;
	uint8_t *raw, *encoded, *back;
	int rc;

	if (size < 1 + pairs * PLACE_BYTES)
		return;
	data++;
	size -= 1 + pairs * PLACE_BYTES;
	raw = raw_make(data, size, &bytes);
	encoded = encode_checked(raw, bytes, SL_CODEC_CHECK, &n);
	for (size_t i = 0; i < pairs; i++) {
		const uint8_t *pair = data + size + i * PLACE_BYTES;

		encoded[(pair[0] | (size_t)pair[1] << 8) % n] ^= pair[2];
	}
	back = must_alloc(bytes);
	rc = sl_codec_decode(encoded, n, SL_CODEC_CHECK, back, bytes);
	if (rc && rc != -EBADMSG && rc != -EINVAL)
		abort();
	/* The flag of the checksum, and the checksum, may be what is damaged. */
	if (!rc && encoded[6] & SL_CODEC_HAS_CHECKSUM && memcmp(back, raw, bytes) != 0)
		abort();
	free(back);
	free(encoded);
	free(raw);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *raw;
	size_t bytes, n;

	if (!size)
		return 0;
	switch (data[0]) {
	case 0:
		decode_any(data + 1, size - 1);
		break;
	case 1:
		raw = raw_make(data + 1, size - 1, &bytes);
		free(encode_checked(raw, bytes, 0, &n));
		free(raw);
		break;
	case 2:
		damage(data + 1, size - 1);
		break;
	}
	return 0;
}
