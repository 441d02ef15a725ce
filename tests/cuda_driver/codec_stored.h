/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of sl_codec_is_stored() on what the host's codec has encoded, which has none: for twins of the kernels. */
#ifndef TESTS_CODEC_STORED_H
#define TESTS_CODEC_STORED_H

#include <string.h>

#include "codec/codec.h"
#include "codec/format.h"

/* What became of raw is n bytes at out, which has room for sl_codec_bound(): if that is more than most_bytes (0: no
 * limit), store it as it is. Returns how many bytes there are then. */
static inline size_t
codec_store_over(void *out, size_t n, uint64_t most_bytes, const void *raw, size_t raw_bytes)
{
	struct sl_codec_header header;

	if (!most_bytes || n <= most_bytes)
		return n;
	memcpy(&header, out, sizeof(header));
	header.flags |= SL_CODEC_IS_STORED;
	header.units = 0;
	memcpy(out, &header, sizeof(header));
	memcpy((char *)out + sizeof(header), raw, raw_bytes);
	return sl_codec_bound(raw_bytes);
}

#endif
