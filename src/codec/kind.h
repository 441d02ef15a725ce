/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a block may be coded: for the codec's door and for its format. The values are those of the
 * format: a new kind goes to the end, and to a new version.
 */
#ifndef SL_CODEC_KIND_H
#define SL_CODEC_KIND_H

enum sl_codec_kind {
	SL_CODEC_ZERO,     /* all bytes are zero */
	SL_CODEC_CONSTANT, /* its first 16 bytes again and again */
	SL_CODEC_RAW,      /* as it is */
	SL_CODEC_U8, /* integers: bits that are the same in all of them are stored once */
	SL_CODEC_U16,
	SL_CODEC_U32,
	SL_CODEC_U64,
	SL_CODEC_BF16, /* floats: exponents by a dictionary, the other bits as in integers */
	SL_CODEC_FP16,
	SL_CODEC_FP32,
	SL_CODEC_KIND_COUNT
};

#endif
