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

/* Bit `lane` of k planes of a row, as a number. */
static __device__ uint32_t
code_get(const union warp_block *in, uint32_t at, uint32_t k, uint32_t i)
{
	uint32_t code = 0;

	for (uint32_t j = 0; j < k; j++)
		code |= (in->u32[at / 4 + i / 32 * k + j] >> i % 32 & 1) << j;
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

/* thirds[row]: escapes of the second part in the rows before. At most 64 rows. */
static __device__ void
thirds_make(const union warp_block *in, const struct sl_codec_parts *parts, uint32_t k2,
	    uint32_t m2, uint16_t *thirds)
{
	uint32_t rows = sl_codec_rows(m2), lane = lane_id(), before = 0;

	for (uint32_t first = 0; first < rows; first += 32) {
		uint32_t row = first + lane, count = 0, sum;

		if (row < rows)
			count = __popc(row_escapes(in, parts->second, k2, m2, row));
		sum = count;
		for (uint32_t d = 1; d < 32; d *= 2) {
			uint32_t from = __shfl_up_sync(ALL, sum, d);

			if (lane >= d)
				sum += from;
		}
		if (row < rows)
			thirds[row] = (uint16_t)(before + sum - count);
		before += __shfl_sync(ALL, sum, 31);
	}
	__syncwarp();
}

/* The exponent of the i-th value without a code in the first part. */
static __device__ uint32_t
second_get(const union warp_block *in, const struct sl_codec_parts *parts,
	   const struct sl_codec_head *head, const uint16_t *thirds, uint32_t i)
{
	uint32_t k2 = sl_codec_k2(head->mode), n2 = sl_codec_n2(head->mode);
	uint32_t code = code_get(in, parts->second, k2, i), row, below;

	if (code != n2)
		return in->u8[parts->dict + sl_codec_n1(head->mode) + code];
	row = i / 32;
	below = row_escapes(in, parts->second, k2, head->m2, row) & ((1u << i % 32) - 1);
	return in->u8[parts->third + thirds[row] + __popc(below)];
}

/* All elements, dense, into out. */
static __device__ void
elements_read(const union warp_block *in, uint32_t kind, const struct sl_codec_head *head,
	      const struct sl_codec_parts *parts, const uint16_t *thirds, union warp_block *out)
{
	uint32_t n_rest = sl_codec_rest_bytes(kind), shift = sl_codec_element_shift(kind);
	uint32_t k1 = sl_codec_k1(head->mode), n1 = sl_codec_n1(head->mode), done = 0;
	const uint8_t *varying = in->u8 + sizeof(*head), *base = varying + n_rest;

	for (uint32_t row = 0; row < sl_codec_rows(head->m); row++) {
		uint32_t i = row * 32 + lane_id(), is = i < head->m, exponent = 0;
		uint64_t rest = 0;

		if (sl_codec_is_float(kind)) {
			uint32_t code = is ? code_get(in, parts->first, k1, i) : 0;
			uint32_t escape = is && sl_codec_escapes(head->mode) && code == n1;
			uint32_t left = __ballot_sync(ALL, escape);

			if (escape)
				exponent = second_get(in, parts, head, thirds,
						      done + __popc(left & lanes_below()));
			else if (is)
				exponent = in->u8[parts->dict + code];
			done += __popc(left);
		}
		for (uint32_t j = 0; is && j < n_rest; j++) {
			uint32_t byte = base[j], at = parts->rest[j];

			if (varying[j] == 0xff) {
				byte = in->u8[at + i];
			} else {
				at += 4 * row * sl_codec_bits(varying[j]);
				for (uint32_t bits = varying[j]; bits; bits &= bits - 1) {
					if (in->u32[at / 4] >> lane_id() & 1)
						byte |= bits & (0 - bits);
					at += 4;
				}
			}
			rest |= (uint64_t)byte << 8 * j;
		}
		if (is)
			element_set(out, shift, i, sl_codec_join(kind, exponent, rest));
	}
	__syncwarp();
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
block_decode(union warp_block *in, uint32_t entry, uint16_t *thirds, union warp_block *out)
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
		thirds_make(in, &parts, sl_codec_k2(head.mode), head.m2, thirds);
	elements_read(in, kind, &head, &parts, thirds, out);
	if (SL_CODEC_ENTRY_SPARSE(entry))
		elements_expand(in, kind, parts.bitmap, head.m, out);
	return 1;
}

#endif
