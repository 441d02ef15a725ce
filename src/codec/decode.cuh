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

/* The bits of row `row` of all n values that are ones in each of k planes: the escapes. */
static __device__ uint32_t
row_escapes(const union warp_block *in, uint32_t at, uint32_t k, uint32_t n, uint32_t row)
{
	uint32_t all = n - row * 32 >= 32 ? ALL : (1u << (n - row * 32)) - 1;

	for (uint32_t j = 0; j < k; j++)
		all &= in->u32[at / 4 + row * k + j];
	return all;
}

static __device__ uint32_t
escapes_count(const union warp_block *in, uint32_t at, uint32_t k, uint32_t n)
{
	uint32_t count = 0;

	for (uint32_t row = lane_id(); row < sl_codec_rows(n); row += 32)
		count += __popc(row_escapes(in, at, k, n, row));
	return warp_sum(count);
}

/* This lane's bit of each of the k planes of a row, at most four, as a number. */
static __device__ uint32_t
code_get(const union warp_block *in, uint32_t at, uint32_t k)
{
	const uint32_t *words = in->u32 + at / 4;
	uint32_t code = 0;

#pragma unroll
	for (uint32_t j = 0; j < 4; j++)
		if (j < k)
			code |= (words[j] >> lane_id() & 1) << j;
	return code;
}

/* 1: head and counts are those of a block. What the host's decoder refuses is refused. */
static __device__ int
parts_check(const union warp_block *in, uint32_t entry, struct sl_codec_head *head,
	    struct sl_codec_parts *parts)
{
	uint32_t kind = SL_CODEC_ENTRY_KIND(entry), sparse = SL_CODEC_ENTRY_SPARSE(entry);
	uint32_t bytes = SL_CODEC_ENTRY_UNITS(entry) * SL_CODEC_UNIT_BYTES;
	uint32_t n = sl_codec_elements(kind), n_rest = sl_codec_rest_bytes(kind);
	uint32_t ones = 0, escapes;

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
	if (!sl_codec_is_float(kind))
		return 1;
	if (!sl_codec_escapes(head->mode))
		return !head->m2 && !head->m3;
	escapes = escapes_count(in, parts->first, sl_codec_k1(head->mode), head->m);
	if (escapes != head->m2)
		return 0;
	escapes = escapes_count(in, parts->second, sl_codec_k2(head->mode), head->m2);
	return escapes == head->m3;
}

/* The exponents of values without a code in the first part. */
static __device__ void
seconds_make(const union warp_block *in, const struct sl_codec_parts *parts,
	     const struct sl_codec_head *head, uint8_t *seconds)
{
	uint32_t k2 = sl_codec_k2(head->mode), n2 = sl_codec_n2(head->mode), m2 = head->m2;
	const uint8_t *dict = in->u8 + parts->dict + sl_codec_n1(head->mode);
	const uint8_t *third = in->u8 + parts->third;

#pragma unroll 4
	for (uint32_t row = 0; row < sl_codec_rows(m2); row++) {
		uint32_t i = row * 32 + lane_id(), is = i < m2;
		uint32_t code = code_get(in, parts->second + 4 * row * k2, k2);
		uint32_t left = __ballot_sync(ALL, is && code == n2);

		if (is)
			seconds[i] = code == n2 ? third[__popc(left & lanes_below())] : dict[code];
		third += __popc(left);
	}
	__syncwarp();
}

/* A byte of the rest, in each element: where it is. */
struct rest_part {
	uint32_t at, varying, base;
};

static __device__ uint32_t
rest_get(const union warp_block *in, const struct rest_part *part, uint32_t row, uint32_t i)
{
	uint32_t byte = part->base, at;

	if (part->varying == 0xff)
		return in->u8[part->at + i];
	at = part->at + 4 * row * sl_codec_bits(part->varying);
	for (uint32_t bits = part->varying; bits; bits &= bits - 1) {
		if (in->u32[at / 4] >> lane_id() & 1)
			byte |= bits & (0 - bits);
		at += 4;
	}
	return byte;
}

/* All elements, dense, into out. The kind is known here, so that rows are independent work. */
template <uint32_t kind>
static __device__ void
elements_read(const union warp_block *in, const struct sl_codec_head *head,
	      const struct sl_codec_parts *parts, const uint8_t *seconds, union warp_block *out)
{
	const uint32_t n_rest = sl_codec_rest_bytes(kind), shift = sl_codec_element_shift(kind);
	uint32_t k1 = sl_codec_k1(head->mode), n1 = sl_codec_n1(head->mode), m = head->m;
	uint32_t none = sl_codec_escapes(head->mode) ? n1 : UINT32_MAX;
	const uint8_t *masks = in->u8 + sizeof(*head), *dict = in->u8 + parts->dict;
	struct rest_part part[SL_CODEC_REST_MAX];

#pragma unroll
	for (uint32_t j = 0; j < n_rest; j++)
		part[j] = {parts->rest[j], masks[j], masks[n_rest + j]};
#pragma unroll 4
	for (uint32_t row = 0; row < sl_codec_rows(m); row++) {
		uint32_t i = row * 32 + lane_id(), is = i < m, exponent = 0;
		uint64_t rest = 0;

		if (sl_codec_is_float(kind)) {
			uint32_t code = code_get(in, parts->first + 4 * row * k1, k1);
			uint32_t left = __ballot_sync(ALL, is && code == none);

			if (is)
				exponent = code == none ? seconds[__popc(left & lanes_below())]
							: dict[code];
			seconds += __popc(left);
		}
#pragma unroll
		for (uint32_t j = 0; j < n_rest; j++)
			if (is)
				rest |= (uint64_t)rest_get(in, &part[j], row, i) << 8 * j;
		if (is)
			element_set(out, shift, i, sl_codec_join(kind, exponent, rest));
	}
	__syncwarp();
}

static __device__ void
elements_read_any(const union warp_block *in, uint32_t kind, const struct sl_codec_head *head,
		  const struct sl_codec_parts *parts, const uint8_t *seconds,
		  union warp_block *out)
{
	switch (kind) {
	case SL_CODEC_U8:
		elements_read<SL_CODEC_U8>(in, head, parts, seconds, out);
		break;
	case SL_CODEC_U16:
		elements_read<SL_CODEC_U16>(in, head, parts, seconds, out);
		break;
	case SL_CODEC_U32:
		elements_read<SL_CODEC_U32>(in, head, parts, seconds, out);
		break;
	case SL_CODEC_U64:
		elements_read<SL_CODEC_U64>(in, head, parts, seconds, out);
		break;
	case SL_CODEC_BF16:
		elements_read<SL_CODEC_BF16>(in, head, parts, seconds, out);
		break;
	case SL_CODEC_FP16:
		elements_read<SL_CODEC_FP16>(in, head, parts, seconds, out);
		break;
	default:
		elements_read<SL_CODEC_FP32>(in, head, parts, seconds, out);
		break;
	}
}

/* From the end, in place: an element never comes from behind its own place. */
static __device__ void
elements_expand(const union warp_block *in, uint32_t kind, uint32_t bitmap, uint32_t m,
		union warp_block *out)
{
	uint32_t shift = sl_codec_element_shift(kind);

	for (uint32_t row = sl_codec_elements(kind) / 32; row-- > 0;) {
		uint32_t there = in->u32[bitmap / 4 + row];
		uint64_t element = 0;

		m -= __popc(there);
		if (there >> lane_id() & 1)
			element = element_get(out, shift, m + __popc(there & lanes_below()));
		__syncwarp();
		element_set(out, shift, row * 32 + lane_id(), element);
		__syncwarp();
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
block_decode(union warp_block *in, uint32_t entry, uint8_t *seconds, union warp_block *out)
{
	uint32_t kind = SL_CODEC_ENTRY_KIND(entry);
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
	if (sl_codec_is_float(kind) && sl_codec_escapes(head.mode))
		seconds_make(in, &parts, &head, seconds);
	elements_read_any(in, kind, &head, &parts, seconds, out);
	if (SL_CODEC_ENTRY_SPARSE(entry))
		elements_expand(in, kind, parts.bitmap, head.m, out);
	return 1;
}

#endif
