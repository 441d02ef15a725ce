/* SPDX-License-Identifier: Apache-2.0 */
/* A block is encoded by its plan, by a warp: as encode.c. Used by codec.cu. */
#ifndef SL_CODEC_WRITE_CUH
#define SL_CODEC_WRITE_CUH

#include "codec/warp.cuh"

static __device__ void
word_put(union warp_block *out, uint32_t at, uint32_t word)
{
	if (lane_id() == 0)
		out->u32[at / 4] = word;
}

/* Keep the elements that are not zero, and write the bitmap. In place: none moves to a place that is
 * not read yet. */
static __device__ void
elements_compact(union warp_block *block, uint32_t kind, union warp_block *out, uint32_t bitmap)
{
	uint32_t shift = sl_codec_element_shift(kind), done = 0;

	for (uint32_t row = 0; row < sl_codec_elements(kind) / 32; row++) {
		uint64_t element = element_get(block, shift, row * 32 + lane_id());
		uint32_t there = __ballot_sync(ALL, element != 0);

		if (element)
			element_set(block, shift, done + __popc(there & lanes_below()), element);
		word_put(out, bitmap + 4 * row, there);
		done += __popc(there);
		__syncwarp();
	}
}

/* codes[e]: the place of exponent e in the dictionary's n entries, of several the first; n: none. Only entries of 0
 * are several. */
static __device__ void
codes_make(uint32_t *codes, const uint8_t *dict, uint32_t n)
{
	uint32_t lane = lane_id(), is = lane < n, entry = is ? dict[lane] : 0;
	uint32_t zeros = __ballot_sync(ALL, is && entry == 0);

	__syncwarp();
	for (uint32_t i = lane; i < 64; i += 32)
		codes[i] = n * 0x01010101u;
	__syncwarp();
	if (is && (entry || !(zeros & lanes_below())))
		((uint8_t *)codes)[entry] = (uint8_t)lane;
	__syncwarp();
}

/* A row of codes, of k bits each, at most four: k planes at `words`, by as many lanes. */
static __device__ void
planes_put(uint32_t *words, uint32_t k, uint32_t code)
{
	uint32_t plane = __ballot_sync(ALL, code & 1);

#pragma unroll
	for (uint32_t j = 1; j < 4; j++) {
		uint32_t bits = __ballot_sync(ALL, code >> j & 1);

		if (lane_id() == j)
			plane = bits;
	}
	if (lane_id() < k)
		words[lane_id()] = plane;
}

/* Rows that are read at once, before what is made of them is written over them. */
#define ROWS 4u

/*
 * The exponents' parts. Those without a code in the first part are put to the beginning of *block meanwhile: an
 * element has more bytes than an exponent, so none is overwritten that is still to be read.
 */
template <uint32_t kind>
static __device__ void
exponents_write(union warp_block *block, const struct sl_codec_plan *plan,
		const struct sl_codec_parts *parts, uint32_t *codes, union warp_block *out)
{
	const uint32_t shift = sl_codec_element_shift(kind);
	uint32_t n1 = sl_codec_n1(plan->mode), n2 = sl_codec_n2(plan->mode);
	uint32_t k1 = sl_codec_k1(plan->mode), k2 = sl_codec_k2(plan->mode);
	uint32_t none = sl_codec_escapes(plan->mode) ? n1 : UINT32_MAX;
	uint32_t m = plan->m, m2 = plan->m2;
	const uint8_t *code_of = (const uint8_t *)codes;
	uint8_t *seconds = block->u8, *thirds = out->u8 + parts->third;

	codes_make(codes, plan->dict, n1);
	for (uint32_t first = 0; first < sl_codec_rows(m); first += ROWS) {
		uint32_t exponents[ROWS];

#pragma unroll
		for (uint32_t r = 0; r < ROWS; r++)
			exponents[r] = sl_codec_exponent(
				kind, element_get(block, shift, (first + r) * 32 + lane_id()));
		__syncwarp();
#pragma unroll
		for (uint32_t r = 0; r < ROWS; r++) {
			uint32_t row = first + r, is = row * 32 + lane_id() < m, code, left;

			if (row * 32 >= m)
				break;
			code = is ? code_of[exponents[r]] : 0;
			planes_put(out->u32 + parts->first / 4 + row * k1, k1, code);
			left = __ballot_sync(ALL, is && code == none);
			if (is && code == none)
				seconds[__popc(left & lanes_below())] = (uint8_t)exponents[r];
			seconds += __popc(left);
		}
	}
	if (!m2)
		return;
	codes_make(codes, plan->dict + n1, n2);
	for (uint32_t row = 0; row < sl_codec_rows(m2); row++) {
		uint32_t i = row * 32 + lane_id(), is = i < m2, exponent = block->u8[i];
		uint32_t code = is ? code_of[exponent] : 0, left;

		planes_put(out->u32 + parts->second / 4 + row * k2, k2, code);
		left = __ballot_sync(ALL, is && code == n2);
		if (is && code == n2)
			thirds[__popc(left & lanes_below())] = (uint8_t)exponent;
		thirds += __popc(left);
	}
}

/* Byte j of the rest of four elements, in a word. */
template <uint32_t kind>
static __device__ uint32_t
rest_word(const union warp_block *block, uint32_t j, uint32_t i)
{
	uint64_t element[4];
	uint32_t word = 0;
	uint4 quad;

	switch (sl_codec_element_shift(kind)) {
	case 0:
		return block->u32[i];
	case 1:
		for (uint32_t k = 0; k < 4; k++)
			element[k] = block->u64[i] >> 16 * k & 0xffff;
		break;
	case 2:
		quad = block->quads[i];
		element[0] = quad.x;
		element[1] = quad.y;
		element[2] = quad.z;
		element[3] = quad.w;
		break;
	default:
		for (uint32_t k = 0; k < 4; k++)
			element[k] = block->u64[4 * i + k];
		break;
	}
#pragma unroll
	for (uint32_t k = 0; k < 4; k++)
		word |= ((uint32_t)(sl_codec_rest(kind, element[k]) >> 8 * j) & 0xff) << 8 * k;
	return word;
}

/* The place of the n-th bit that is set in a byte; 8: it has fewer. */
static __device__ uint32_t
bit_place(uint32_t byte, uint32_t n)
{
	uint32_t place = 8;

	for (uint32_t b = 8; b-- > 0;)
		if (byte >> b & 1 && sl_codec_bits(byte & ((1u << b) - 1)) == n)
			place = b;
	return place;
}

/* Byte j of the rest of all elements. */
template <uint32_t kind>
static __device__ void
rest_write(const union warp_block *block, const struct sl_codec_plan *plan, uint32_t j,
	   uint32_t at, union warp_block *out)
{
	const uint32_t shift = sl_codec_element_shift(kind);
	uint32_t varying = plan->varying[j], m = plan->m, lane = lane_id(), bits, place;

	if (!varying)
		return;
	if (varying == 0xff) { /* whole bytes: four elements make a word */
#pragma unroll 4
		for (uint32_t i = lane; i < m / 4; i += 32)
			out->u32[at / 4 + i] = rest_word<kind>(block, j, i);
		if (lane < m % 4)
			out->u8[at + m / 4 * 4 + lane] =
				(uint8_t)(rest_word<kind>(block, j, m / 4) >> 8 * lane);
		return;
	}
	bits = sl_codec_bits(varying);
	place = bit_place(varying, lane);
#pragma unroll 2
	for (uint32_t row = 0; row < sl_codec_rows(m); row++) {
		uint32_t i = row * 32 + lane, byte, plane = 0;

		byte = (uint32_t)(sl_codec_rest(kind, element_get(block, shift, i)) >> 8 * j);
		byte = i < m ? byte : 0;
#pragma unroll
		for (uint32_t b = 0; b < 8; b++) {
			uint32_t word = __ballot_sync(ALL, byte >> b & 1);

			if (place == b)
				plane = word;
		}
		if (place < 8)
			out->u32[at / 4 + row * bits + lane] = plane;
	}
}

/* A block of elements, into out. The kind is known here, so that rows are independent work. */
template <uint32_t kind>
static __device__ void
elements_write(union warp_block *block, const struct sl_codec_plan *plan,
	       uint32_t *codes, union warp_block *out)
{
	const uint32_t n_rest = sl_codec_rest_bytes(kind);
	uint32_t lane = lane_id();
	struct sl_codec_parts parts;

	sl_codec_place(kind, plan->sparse, plan->mode, plan->m, plan->m2, plan->m3,
		       plan->varying, &parts);
	for (uint32_t i = lane; i < plan->units; i += 32)
		out->quads[i] = make_uint4(0, 0, 0, 0);
	__syncwarp();
	if (lane == 0) {
		out->u8[0] = plan->mode;
		out->u16[1] = plan->m;
		out->u16[2] = plan->m2;
		out->u16[3] = plan->m3;
	}
	if (lane < n_rest) {
		out->u8[parts.masks + lane] = plan->varying[lane];
		out->u8[parts.masks + n_rest + lane] = plan->base[lane];
	}
	if (sl_codec_is_float(kind) &&
	    lane < sl_codec_n1(plan->mode) + sl_codec_n2(plan->mode))
		out->u8[parts.dict + lane] = plan->dict[lane];
	if (plan->sparse)
		elements_compact(block, kind, out, parts.bitmap);
#pragma unroll 1
	for (uint32_t j = 0; j < n_rest; j++)
		rest_write<kind>(block, plan, j, parts.rest[j], out);
	__syncwarp();
	if (sl_codec_is_float(kind)) /* last: it uses *block */
		exponents_write<kind>(block, plan, &parts, codes, out);
}

static __device__ void
elements_write_any(union warp_block *block, const struct sl_codec_plan *plan,
		   uint32_t *codes, union warp_block *out)
{
	switch (plan->kind) {
	case SL_CODEC_U8:
		elements_write<SL_CODEC_U8>(block, plan, codes, out);
		break;
	case SL_CODEC_U16:
		elements_write<SL_CODEC_U16>(block, plan, codes, out);
		break;
	case SL_CODEC_U32:
		elements_write<SL_CODEC_U32>(block, plan, codes, out);
		break;
	case SL_CODEC_U64:
		elements_write<SL_CODEC_U64>(block, plan, codes, out);
		break;
	case SL_CODEC_BF16:
		elements_write<SL_CODEC_BF16>(block, plan, codes, out);
		break;
	case SL_CODEC_FP16:
		elements_write<SL_CODEC_FP16>(block, plan, codes, out);
		break;
	default:
		elements_write<SL_CODEC_FP32>(block, plan, codes, out);
		break;
	}
}

static __device__ int
is_stored(const struct sl_codec_job *job)
{
	return sl_codec_is_stored(job->n_blocks, job->units, job->encoded_bytes);
}

/* By one thread. */
static __device__ void
header_write(const struct sl_codec_job *job)
{
	struct sl_codec_header *header = (struct sl_codec_header *)job->encoded;

	header->magic = SL_CODEC_MAGIC;
	header->version = SL_CODEC_VERSION;
	header->flags = (uint16_t)((job->check ? SL_CODEC_HAS_CHECKSUM : 0) |
				   (is_stored(job) ? SL_CODEC_IS_STORED : 0));
	header->n_blocks = job->n_blocks;
	header->units = is_stored(job) ? 0 : job->units;
	header->checksum = job->check ? job->checksum : 0;
	for (uint32_t i = 0; i < 5; i++)
		header->zero[i] = 0;
}

/* From scratch memory to the encoded bytes: by the first thread blocks, 16 bytes by each thread. */
static __device__ void
table_write(uint8_t *out, const struct sl_codec_job *job)
{
	uint32_t i = blockIdx.x * SL_CODEC_THREADS + threadIdx.x;

	if (i < sl_codec_table_bytes(job->n_blocks) / sizeof(uint4))
		((uint4 *)out)[i] = ((const uint4 *)job->table)[i];
}

#endif
