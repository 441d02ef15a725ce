/* SPDX-License-Identifier: Apache-2.0 */
/* A block is decoded, by a warp: as decode.c. What is damaged is refused. Used by codec.cu. */
#ifndef SL_CODEC_DECODE_CUH
#define SL_CODEC_DECODE_CUH

#include "codec/warp.cuh"

/* By one lane. */
static __device__ void
damage_tell(struct sl_codec_job *job, uint32_t number)
{
	atomicMin(&job->damaged, number);
	if (job->answer)
		((struct sl_codec_answer *)job->answer)->damaged = number;
}

/* 1: the head is that of a block. What the host's decoder refuses is refused, here or by exponents_read(). */
static __device__ int
parts_check(const union warp_block *in, uint32_t entry, struct sl_codec_head *head,
	    struct sl_codec_parts *parts)
{
	uint32_t kind = SL_CODEC_ENTRY_KIND(entry), sparse = SL_CODEC_ENTRY_SPARSE(entry);
	uint32_t bytes = SL_CODEC_ENTRY_UNITS(entry) * SL_CODEC_UNIT_BYTES;
	uint32_t n = sl_codec_elements(kind), n_rest = sl_codec_rest_bytes(kind);
	uint32_t ones = 0;

	if (bytes < sizeof(*head) + 2 * n_rest)
		return 0;
	head->mode = in->u8[0];
	head->zero = in->u8[1];
	head->m = in->u16[1];
	head->m2 = in->u16[2];
	head->m3 = in->u16[3];
	if (head->zero || head->mode >= SL_CODEC_MODE_COUNT || !head->m || head->m > n ||
	    head->m2 > head->m || head->m3 > head->m2)
		return 0;
	if (!sl_codec_is_float(kind) && (head->mode || head->m2 || head->m3))
		return 0;
	if (!sparse && head->m != n)
		return 0;
	sl_codec_place(kind, sparse, head->mode, head->m, head->m2, head->m3,
		       in->u8 + sizeof(*head), parts);
	if (sl_codec_round(parts->end, SL_CODEC_UNIT_BYTES) != bytes)
		return 0;
	if (sparse) {
		for (uint32_t i = lane_id(); i < n / 32; i += 32)
			ones += __popc(in->u32[parts->bitmap / 4 + i]);
		if (warp_sum(ones) != head->m)
			return 0;
	}
	return !sl_codec_is_float(kind) || sl_codec_escapes(head->mode) || (!head->m2 && !head->m3);
}

/* ---- Exponents: a lane has rows of 32 codes ---- */

/* The bytes of 32 codes by their planes: four by a permutation of the dictionary's eight. */
template <uint32_t k>
static __device__ __forceinline__ void
row_bytes(const uint32_t *planes, const uint32_t *dict, uint32_t *to)
{
#pragma unroll
	for (uint32_t b = 0; b < 4; b++) {
		uint32_t codes = 0, low, high;

#pragma unroll
		for (int j = 0; j < (int)k && j < 3; j++)
			codes |= bits_to_nibbles(planes[j] >> 8 * b & 0xff) << j;
		low = __byte_perm(dict[0], dict[1], codes);
		high = __byte_perm(dict[0], dict[1], codes >> 16);
		if (k == 4) {
			uint32_t upper = planes[3] >> 8 * b;
			uint32_t low_upper = bits_to_bytes(upper & 15) * 255;
			uint32_t high_upper = bits_to_bytes(upper >> 4 & 15) * 255;

			low = (low & ~low_upper) |
			      (__byte_perm(dict[2], dict[3], codes) & low_upper);
			high = (high & ~high_upper) |
			       (__byte_perm(dict[2], dict[3], codes >> 16) & high_upper);
		}
		to[2 * b] = low;
		to[2 * b + 1] = high;
	}
}

/*
 * Four values of which some are escapes, four bits: where each of the four bytes comes from, as __byte_perm() takes it,
 * of the bytes of the codes and the next four that were left; above it, how many escapes there are.
 */
static __device__ __forceinline__ uint32_t
escapes_places(uint32_t bits)
{
	uint32_t places = 0, n = 0;

#pragma unroll
	for (uint32_t i = 0; i < 4; i++)
		places |= (bits >> i & 1 ? 4 + n++ : i) << 4 * i;
	return n << 16 | places;
}

/* Four bytes from any place, and up to seven behind them are read. bytes: begins at a multiple of 4 */
static __device__ __forceinline__ uint32_t
word_at(const uint8_t *bytes, uint32_t at)
{
	const uint32_t *words = (const uint32_t *)bytes + at / 4;

	return __funnelshift_r(words[0], words[1], 8 * at); /* modulo 32 */
}

/* A part of codes: m codes of planes at `at`. escapes: the last code means that the byte is the next one of `left` */
struct codes_part {
	uint32_t at, m, escapes;
	uint32_t dict[4];
	const uint8_t *left;
	uint32_t n_left;
};

/* Their bytes. 0: there are not as many escapes as the part says. places: escapes_places() of all four bits */
template <uint32_t k>
static __device__ __forceinline__ int
codes_read(const union warp_block *in, const struct codes_part *part, const uint32_t *places,
	   uint8_t *to)
{
	uint32_t planes[2][4] = {};
	struct rows rows = {};

#pragma unroll
	for (uint32_t h = 0; h < 2; h++) {
		uint32_t row = 32 * h + lane_id(), valid = row_valid(32 * row, part->m);

		rows.escapes[h] = part->escapes ? valid : 0;
		if (valid)
#pragma unroll
			for (int j = 0; j < (int)k; j++) {
				planes[h][j] = in->u32[part->at / 4 + row * k + j];
				rows.escapes[h] &= planes[h][j];
			}
	}
	if (rows_place(&rows) != part->n_left) /* in all lanes */
		return 0;
#pragma unroll
	for (uint32_t h = 0; h < 2; h++) {
		uint32_t row = 32 * h + lane_id(), next = rows.end[h] - __popc(rows.escapes[h]);
		uint32_t bytes[8];
		uint4 *quads = (uint4 *)(to + 32 * row);

		if (32 * row >= part->m)
			break;
		row_bytes<k>(planes[h], part->dict, bytes);
		if (part->escapes)
#pragma unroll
			for (uint32_t i = 0; i < 8; i++) {
				uint32_t from = places[rows.escapes[h] >> 4 * i & 15];

				bytes[i] = __byte_perm(bytes[i], word_at(part->left, next), from);
				next += from >> 16;
			}
		quads[0] = make_uint4(bytes[0], bytes[1], bytes[2], bytes[3]);
		quads[1] = make_uint4(bytes[4], bytes[5], bytes[6], bytes[7]);
	}
	__syncwarp();
	return 1;
}

static __device__ int
codes_read_any(const union warp_block *in, uint32_t k, const struct codes_part *part,
	       const uint32_t *places, uint8_t *to)
{
	switch (k) {
	case 0:
		return codes_read<0>(in, part, places, to);
	case 1:
		return codes_read<1>(in, part, places, to);
	case 2:
		return codes_read<2>(in, part, places, to);
	case 3:
		return codes_read<3>(in, part, places, to);
	default:
		return codes_read<4>(in, part, places, to);
	}
}

/* All m exponents, to `to`. places: as of codes_read(). seconds: room for m2. 0: not as many escapes as the head
 * says. */
static __device__ int
exponents_read(const union warp_block *in, const struct sl_codec_head *head,
	       const struct sl_codec_parts *parts, const uint32_t *places, uint8_t *seconds, uint8_t *to)
{
	struct codes_part part;

	for (uint32_t second = 2; second-- > 0;) { /* one copy of the code for both */
		uint32_t n1 = second ? sl_codec_n1(head->mode) : 0;

		part.at = second ? parts->second : parts->first;
		part.m = second ? head->m2 : head->m;
		part.escapes = sl_codec_escapes(head->mode);
		part.left = second ? in->u8 + parts->third : seconds;
		part.n_left = second ? head->m3 : head->m2;
#pragma unroll
		for (uint32_t i = 0; i < 4; i++)
			part.dict[i] = word_at(in->u8, parts->dict + n1 + 4 * i);
		if (!codes_read_any(in, second ? sl_codec_k2(head->mode) : sl_codec_k1(head->mode),
				    &part, places, second ? seconds : to)) /* in all lanes */
			return 0;
	}
	return 1;
}

/* ---- Elements: a lane has four ---- */

/* A byte of the rest, in each element: the words where it is; its bits beside those. */
struct rest_part {
	uint32_t word, varying, base;
};

/*
 * Of elements 4 q to 4 q + 3. planes: a part may have some. Without, it has all bits, or none: then any word is read,
 * and nothing taken of it.
 */
template <uint32_t planes>
static __device__ __forceinline__ uint32_t
rest_get(const union warp_block *in, const struct rest_part *part, uint32_t q)
{
	uint32_t bytes = part->base, at;

	if (!planes)
		return (in->u32[part->word + q] & part->varying) | part->base;
	if (part->varying == ALL)
		return in->u32[part->word + q];
	at = part->word + q / 8 * sl_codec_bits(part->varying);
	for (uint32_t bits = part->varying; bits; bits &= bits - 1, at++)
		bytes |= bits_to_bytes(in->u32[at] >> 4 * (q % 8) & 15) * (bits & (0 - bits));
	return bytes;
}

/* 1: some part has planes. */
static __device__ __forceinline__ int
rest_parts(const union warp_block *in, const struct sl_codec_parts *parts, uint32_t n_rest,
	   struct rest_part *part)
{
	const uint8_t *masks = in->u8 + sizeof(struct sl_codec_head);
	int planes = 0;

#pragma unroll
	for (uint32_t j = 0; j < n_rest; j++) {
		uint32_t varying = masks[j];

		planes |= varying && varying != 0xff;
		part[j].word = varying ? parts->rest[j] / 4 : 0;
		part[j].varying = varying == 0xff ? ALL : varying;
		part[j].base = varying == 0xff ? 0 : masks[n_rest + j] * 0x01010101;
	}
	return planes;
}

/* A half of four elements of two bytes. half: 0 or 1 */
template <uint32_t kind>
static __device__ __forceinline__ uint32_t
halves_join(uint32_t exponents, const uint32_t *rest, uint32_t half)
{
	const uint32_t spread = half ? 0x4342 : 0x4140; /* two bytes, each the lower of two */
	uint32_t exponent = __byte_perm(exponents, 0, spread), low = __byte_perm(rest[0], 0, spread);
	uint32_t high;

	if (kind == SL_CODEC_BF16)
		return exponent << 7 | (low & 0x007f007f) | (low & 0x00800080) << 8;
	high = __byte_perm(rest[1], 0, spread);
	if (kind == SL_CODEC_U16)
		return low | high << 8;
	return (exponent & 0x001f001f) << 10 | low | (high & 0x00030003) << 8 |
	       (high & 0x00040004) << 13;
}

static __device__ __forceinline__ uint32_t
fp32_join(uint32_t bytes) /* three of the rest, the exponent */
{
	return (bytes & 0x007fffff) | (bytes & 0x00800000) << 8 | bytes >> 24 << 23;
}

/* Elements 4 q to 4 q + 3 to their places in *to. */
template <uint32_t kind>
static __device__ __forceinline__ void
elements_join(uint32_t exponents, const uint32_t *rest, uint32_t q, union warp_block *to)
{
	uint4 quad, high;

	switch (kind) {
	case SL_CODEC_U8:
		to->u32[q] = rest[0];
		return;
	case SL_CODEC_U16:
	case SL_CODEC_BF16:
	case SL_CODEC_FP16:
		to->u64[q] = halves_join<kind>(exponents, rest, 0) |
			     (uint64_t)halves_join<kind>(exponents, rest, 1) << 32;
		return;
	case SL_CODEC_U32:
		to->quads[q] = bytes_transpose(rest[0], rest[1], rest[2], rest[3]);
		return;
	case SL_CODEC_U64:
		quad = bytes_transpose(rest[0], rest[1], rest[2], rest[3]);
		high = bytes_transpose(rest[4], rest[5], rest[6], rest[7]);
		to->quads[2 * q] = make_uint4(quad.x, high.x, quad.y, high.y);
		to->quads[2 * q + 1] = make_uint4(quad.z, high.z, quad.w, high.w);
		return;
	default:
		quad = bytes_transpose(rest[0], rest[1], rest[2], exponents);
		to->quads[q] = make_uint4(fp32_join(quad.x), fp32_join(quad.y),
					  fp32_join(quad.z), fp32_join(quad.w));
		return;
	}
}

/*
 * The m elements, dense, to *to; up to 127 more behind them are any. In place: the exponents are at the end of *to.
 * An element takes no less room than its exponent, so none is overwritten that is still to be read.
 */
template <uint32_t kind, uint32_t planes, uint32_t in_place>
static __device__ __forceinline__ void
elements_read(const union warp_block *in, uint32_t m, const struct rest_part *part,
	      const uint32_t *exponents, union warp_block *to)
{
	const uint32_t unroll = in_place ? 1 : 4;

#pragma unroll unroll
	for (uint32_t first = 0; first < m; first += 128) {
		uint32_t q = first / 4 + lane_id(), rest[SL_CODEC_REST_MAX], exponent = 0;

#pragma unroll
		for (uint32_t j = 0; j < sl_codec_rest_bytes(kind); j++)
			rest[j] = rest_get<planes>(in, &part[j], q);
		if (sl_codec_is_float(kind))
			exponent = exponents[q];
		if (in_place)
			__syncwarp();
		elements_join<kind>(exponent, rest, q, to);
	}
	__syncwarp();
}

/* Those that are not zero to their places, by the bitmap. */
template <uint32_t kind>
static __device__ __forceinline__ void
elements_expand(const union warp_block *in, uint32_t bitmap, const union warp_block *from,
		union warp_block *out)
{
	const uint32_t shift = sl_codec_element_shift(kind);
	uint32_t done = 0;

#pragma unroll 4
	for (uint32_t row = 0; row < 128u >> shift; row++) {
		uint32_t there = in->u32[bitmap / 4 + row];
		uint64_t element = 0;

		if (there >> lane_id() & 1)
			element = element_get(from, shift, done + __popc(there & lanes_below()));
		element_set(out, shift, row * 32 + lane_id(), element);
		done += __popc(there);
	}
	__syncwarp();
}

/* All elements of a block. work: the exponents at its end; sparse ones are made there. */
template <uint32_t kind>
static __device__ void
elements_make(const union warp_block *in, uint32_t sparse, const struct sl_codec_head *head,
	      const struct sl_codec_parts *parts, union warp_block *work, union warp_block *out)
{
	const uint32_t n = sl_codec_elements(kind);
	const uint32_t *exponents = work->u32 + (4096 - n) / 4;
	struct rest_part part[SL_CODEC_REST_MAX];
	int planes = rest_parts(in, parts, sl_codec_rest_bytes(kind), part);

	if (sparse) {
		elements_read<kind, 1, 1>(in, head->m, part, exponents, work);
		elements_expand<kind>(in, parts->bitmap, work, out);
	} else if (planes) {
		elements_read<kind, 1, 0>(in, n, part, exponents, out);
	} else {
		elements_read<kind, 0, 0>(in, n, part, exponents, out);
	}
}

/* 1: header and table are those of the job. Called by all threads; each looks at its share. */
static __device__ int
run_check(const struct sl_codec_job *job, uint32_t *stored)
{
	const struct sl_codec_header *header = (const struct sl_codec_header *)job->encoded;
	const uint16_t *table = (const uint16_t *)(header + 1);
	uint64_t bytes = SL_CODEC_HEADER_BYTES, zeros = 0;
	uint32_t n = job->n_blocks, padding = 0;

	if (job->encoded_bytes < bytes || header->magic != SL_CODEC_MAGIC ||
	    header->version != SL_CODEC_VERSION || header->n_blocks != n ||
	    header->flags & ~(SL_CODEC_HAS_CHECKSUM | SL_CODEC_IS_STORED))
		return 0;
	for (uint32_t i = 0; i < 5; i++)
		zeros |= header->zero[i];
	*stored = (header->flags & SL_CODEC_IS_STORED) != 0;
	if (*stored)
		return !zeros && job->encoded_bytes >= bytes + (uint64_t)n * 4096;
	bytes += sl_codec_table_bytes(n);
	if (zeros || job->encoded_bytes < bytes ||
	    job->encoded_bytes < bytes + (uint64_t)header->units * SL_CODEC_UNIT_BYTES)
		return 0;
	for (uint32_t i = n; i < sl_codec_table_bytes(n) / 2; i++)
		padding |= table[i];
	return !padding;
}

static __device__ int
entry_check(uint32_t entry)
{
	uint32_t kind = SL_CODEC_ENTRY_KIND(entry), units = SL_CODEC_ENTRY_UNITS(entry);

	if (kind >= SL_CODEC_KIND_COUNT || SL_CODEC_ENTRY_ZEROS(entry) ||
	    units > SL_CODEC_BLOCK_UNITS)
		return 0;
	if (kind > SL_CODEC_RAW)
		return 1;
	return !SL_CODEC_ENTRY_SPARSE(entry) &&
	       units == (kind == SL_CODEC_ZERO       ? 0
			 : kind == SL_CODEC_CONSTANT ? 1
						     : SL_CODEC_BLOCK_UNITS);
}

/* 1: the block is in *out. */
static __device__ int
block_decode(const union warp_block *in, uint32_t entry, const uint32_t *places,
	     union warp_block *work, union warp_block *out)
{
	uint32_t kind = SL_CODEC_ENTRY_KIND(entry), sparse = SL_CODEC_ENTRY_SPARSE(entry);
	struct sl_codec_parts parts;
	struct sl_codec_head head;

	if (kind <= SL_CODEC_CONSTANT) {
		uint4 quad = kind == SL_CODEC_ZERO ? make_uint4(0, 0, 0, 0) : in->quads[0];

		for (uint32_t i = lane_id(); i < 256; i += 32)
			out->quads[i] = quad;
		__syncwarp();
		return 1;
	}
	if (!parts_check(in, entry, &head, &parts)) /* in all lanes */
		return 0;
	/* With as many exponents as can be, the seconds are as many, and lie before them. */
	if (sl_codec_is_float(kind) &&
	    !exponents_read(in, &head, &parts, places, work->u8,
			    work->u8 + 4096 - sl_codec_elements(kind))) /* in all lanes */
		return 0;
	switch (kind) {
	case SL_CODEC_U8:
		elements_make<SL_CODEC_U8>(in, sparse, &head, &parts, work, out);
		break;
	case SL_CODEC_U16:
		elements_make<SL_CODEC_U16>(in, sparse, &head, &parts, work, out);
		break;
	case SL_CODEC_U32:
		elements_make<SL_CODEC_U32>(in, sparse, &head, &parts, work, out);
		break;
	case SL_CODEC_U64:
		elements_make<SL_CODEC_U64>(in, sparse, &head, &parts, work, out);
		break;
	case SL_CODEC_BF16:
		elements_make<SL_CODEC_BF16>(in, sparse, &head, &parts, work, out);
		break;
	case SL_CODEC_FP16:
		elements_make<SL_CODEC_FP16>(in, sparse, &head, &parts, work, out);
		break;
	default:
		elements_make<SL_CODEC_FP32>(in, sparse, &head, &parts, work, out);
		break;
	}
	return 1;
}

#endif
