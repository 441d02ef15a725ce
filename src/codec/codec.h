/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec's door: lossless compression of chunks for the link, the host tier and the store. It
 * knows bytes, and neither chunks of a space nor devices. docs/design/codec.md has the format.
 *
 * The unit is a run of blocks of 4 KiB, at most 64 MiB: a chunk, or the valid part of the last one.
 * Each block is coded alone, in the cheapest of ten kinds (kind.h). The same input gives the same output,
 * on every machine and by every implementation of the same version.
 *
 * Threads: every function may be called from any thread at once, on buffers of its own. None blocks,
 * allocates or takes a lock. They use at most 32 KiB of stack.
 */
#ifndef SL_CODEC_CODEC_H
#define SL_CODEC_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "codec/kind.h"

#define SL_CODEC_BLOCK_BYTES 4096u
#define SL_CODEC_BYTES_MAX   (64u << 20)

/* Checking mode. Encode: store a checksum of the raw bytes. Decode: refuse what does not match it. */
#define SL_CODEC_CHECK 1u

/*
 * The most bytes that sl_codec_encode() makes of raw_bytes: 64 more. Pure.
 */
size_t sl_codec_bound(size_t raw_bytes);

/*
 * Encode raw_bytes bytes at raw into out, which has room for out_bytes. *encoded_bytes is how many
 * they became. What lies behind these in out may have been written to.
 * raw_bytes: a multiple of 4096, from 4096 to 64 MiB. flags: 0 or SL_CODEC_CHECK. The buffers are the
 * caller's, of any alignment, and must not overlap.
 *
 * Errors: -EINVAL for sizes and flags; -ENOSPC if more than out_bytes are needed, which does not
 * happen from sl_codec_bound() on. Out-parameters are untouched then; out holds anything.
 */
int sl_codec_encode(const void *raw, size_t raw_bytes, unsigned flags, void *out,
		    size_t out_bytes, size_t *encoded_bytes) SL_MUST_CHECK;

/* The bytes that one block of 4096 at raw, of any alignment, takes encoded; without writing them. */
size_t sl_codec_block_bytes(const void *raw);

/*
 * Decode what sl_codec_encode() made into raw. raw_bytes: exactly the size that was encoded. in_bytes:
 * what it returned, or more; what lies behind is ignored. flags: SL_CODEC_CHECK also compares the
 * checksum, if there is one. The buffers are the caller's, of any alignment, and must not overlap.
 *
 * Whatever the bytes at in are, nothing outside of [in, in + in_bytes) is read, and nothing outside
 * of [raw, raw + raw_bytes) is written.
 *
 * Errors: -EINVAL for sizes and flags; -EBADMSG for damaged input, of which the text names the block,
 * and for a version that is not known. raw holds anything then.
 */
int sl_codec_decode(const void *in, size_t in_bytes, unsigned flags, void *raw,
		    size_t raw_bytes) SL_MUST_CHECK;

/* The checksum of the format, of any bytes: n_bytes is a multiple of 4096. Of any alignment. at: so many bytes, a
 * multiple of 8, are before them: the checksums of parts add up to that of the whole. Pure. */
uint64_t sl_codec_checksum(const void *bytes, size_t n_bytes, uint64_t at);

/* What encoded bytes consist of. */
struct sl_codec_info {
	size_t raw_bytes;
	size_t encoded_bytes;
	int checked; /* there is a checksum */
	int stored; /* as it is, without blocks: all of it would not have become smaller */
	uint32_t blocks[SL_CODEC_KIND_COUNT]; /* by kind; none if stored */
	uint32_t sparse_blocks; /* of these, blocks whose zeros are a bitmap */
};

/*
 * Look at the header and the table of blocks, not at the blocks. in_bytes: as of sl_codec_decode().
 * Errors: -EBADMSG, and *info is untouched.
 */
int sl_codec_inspect(const void *in, size_t in_bytes, struct sl_codec_info *info) SL_MUST_CHECK;

/* "bf16" and the like; "?" for what is none. Static storage. */
const char *sl_codec_kind_name(enum sl_codec_kind kind);

#endif
