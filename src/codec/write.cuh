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

/* codes[e]: the place of exponent e in the dictionary's n entries, of several the first; n: none. */
static __device__ void
codes_make(uint32_t *codes, const uint8_t *dict, uint32_t n)
{
	__syncwarp();
	for (uint32_t i = lane_id(); i < 64; i += 32)
		codes[i] = n * 0x01010101u;
	__syncwarp();
	if (lane_id() == 0)
		for (uint32_t k = n; k-- > 0;)
			((uint8_t *)codes)[dict[k]] = (uint8_t)k;
	__syncwarp();
}

/* A row of codes, of k bits each: k planes, by as many lanes. */
static __device__ void
planes_put(union warp_block *out, uint32_t at, uint32_t k, uint32_t code)
{
	uint32_t plane = 0;

	for (uint32_t j = 0; j < k; j++) {
		uint32_t bits = __ballot_sync(ALL, code >> j & 1);

		if (lane_id() == j)
			plane = bits;
	}
	if (lane_id() < k)
		out->u32[at / 4 + lane_id()] = plane;
}

template <uint32_t kind>
static __device__ void
exponents_write(const union warp_block *block, const struct sl_codec_plan *plan,
		const struct sl_codec_parts *parts, uint8_t *second, uint32_t *codes,
		union warp_block *out)
{
	uint32_t shift = sl_codec_element_shift(kind), escapes = sl_codec_escapes(plan->mode);
	uint32_t n1 = sl_codec_n1(plan->mode), n2 = sl_codec_n2(plan->mode);
	uint32_t k1 = sl_codec_k1(plan->mode), k2 = sl_codec_k2(plan->mode);
	uint32_t m = plan->m, m2 = plan->m2, done = 0;
	const uint8_t *code_of = (const uint8_t *)codes;

	codes_make(codes, plan->dict, n1);
#pragma unroll 4
	for (uint32_t row = 0; row < sl_codec_rows(m); row++) {
		uint32_t i = row * 32 + lane_id(), is = i < m, exponent = 0, code = 0;
		uint32_t left;

		if (is) {
			exponent = sl_codec_exponent(kind, element_get(block, shift, i));
			code = code_of[exponent];
		}
		planes_put(out, parts->first + 4 * row * k1, k1, code);
		left = __ballot_sync(ALL, is && escapes && code == n1);
		if (left >> lane_id() & 1)
			second[done + __popc(left & lanes_below())] = (uint8_t)exponent;
		done += __popc(left);
	}
	codes_make(codes, plan->dict + n1, n2);
	done = 0;
	for (uint32_t row = 0; row < sl_codec_rows(m2); row++) {
		uint32_t i = row * 32 + lane_id(), is = i < m2, exponent = 0, code = 0;
		uint32_t left;

		if (is) {
			exponent = second[i];
			code = code_of[exponent];
		}
		planes_put(out, parts->second + 4 * row * k2, k2, code);
		left = __ballot_sync(ALL, is && code == n2);
		if (left >> lane_id() & 1)
			out->u8[parts->third + done + __popc(left & lanes_below())] =
				(uint8_t)exponent;
		done += __popc(left);
	}
}

template <uint32_t kind>
static __device__ uint32_t
rest_byte(const union warp_block *block, uint32_t j, uint32_t i)
{
	uint64_t element = element_get(block, sl_codec_element_shift(kind), i);

	return (uint32_t)(sl_codec_rest(kind, element) >> 8 * j) & 0xff;
}

/* Byte j of the rest of all elements. */
template <uint32_t kind>
static __device__ void
rest_write(const union warp_block *block, const struct sl_codec_plan *plan, uint32_t j,
	   uint32_t at, union warp_block *out)
{
	uint32_t varying = plan->varying[j], m = plan->m;

	if (!varying)
		return;
	if (varying == 0xff) { /* whole bytes: four elements make a word */
		uint32_t n_words = m / 4, lane = lane_id();

#pragma unroll 4
		for (uint32_t i = lane; i < n_words; i += 32) {
			uint32_t word = 0;

			for (uint32_t k = 0; k < 4; k++)
				word |= rest_byte<kind>(block, j, 4 * i + k) << 8 * k;
			out->u32[at / 4 + i] = word;
		}
		if (lane < m % 4)
			out->u8[at + 4 * n_words + lane] =
				(uint8_t)rest_byte<kind>(block, j, 4 * n_words + lane);
		return;
	}
	for (uint32_t row = 0; row < sl_codec_rows(m); row++) {
		uint32_t i = row * 32 + lane_id();
		uint32_t byte = i < m ? rest_byte<kind>(block, j, i) : 0;

		for (uint32_t left = varying; left; left &= left - 1) {
			word_put(out, at, __ballot_sync(ALL, byte >> (__ffs((int)left) - 1) & 1));
			at += 4;
		}
	}
}

/* A block of elements, into out. The kind is known here, so that rows are independent work. */
template <uint32_t kind>
static __device__ void
elements_write(union warp_block *block, const struct sl_codec_plan *plan, uint8_t *second,
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
	if (sl_codec_is_float(kind))
		exponents_write<kind>(block, plan, &parts, second, codes, out);
#pragma unroll
	for (uint32_t j = 0; j < n_rest; j++)
		rest_write<kind>(block, plan, j, parts.rest[j], out);
}

static __device__ void
elements_write_any(union warp_block *block, const struct sl_codec_plan *plan, uint8_t *second,
		   uint32_t *codes, union warp_block *out)
{
	switch (plan->kind) {
	case SL_CODEC_U8:
		elements_write<SL_CODEC_U8>(block, plan, second, codes, out);
		break;
	case SL_CODEC_U16:
		elements_write<SL_CODEC_U16>(block, plan, second, codes, out);
		break;
	case SL_CODEC_U32:
		elements_write<SL_CODEC_U32>(block, plan, second, codes, out);
		break;
	case SL_CODEC_U64:
		elements_write<SL_CODEC_U64>(block, plan, second, codes, out);
		break;
	case SL_CODEC_BF16:
		elements_write<SL_CODEC_BF16>(block, plan, second, codes, out);
		break;
	case SL_CODEC_FP16:
		elements_write<SL_CODEC_FP16>(block, plan, second, codes, out);
		break;
	default:
		elements_write<SL_CODEC_FP32>(block, plan, second, codes, out);
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
