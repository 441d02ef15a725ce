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

/* Rows that are read at once, before what is kept of them is written. */
#define ROWS 4u

/* Keep the elements that are not zero, and write the bitmap. In place: none moves to a place that is
 * not read yet. */
template <uint32_t kind>
static __device__ __forceinline__ void
elements_compact(union warp_block *block, union warp_block *out, uint32_t bitmap)
{
	const uint32_t shift = sl_codec_element_shift(kind);
	uint32_t done = 0;

	for (uint32_t first = 0; first < sl_codec_elements(kind) / 32; first += ROWS) {
		uint64_t elements[ROWS];

#pragma unroll
		for (uint32_t r = 0; r < ROWS; r++)
			elements[r] = element_get(block, shift, (first + r) * 32 + lane_id());
		__syncwarp();
#pragma unroll
		for (uint32_t r = 0; r < ROWS; r++) {
			uint32_t there = __ballot_sync(ALL, elements[r] != 0);

			if (elements[r])
				element_set(block, shift, done + __popc(there & lanes_below()), elements[r]);
			word_put(out, bitmap + 4 * (first + r), there);
			done += __popc(there);
		}
	}
	__syncwarp();
}

/* By exponent, in shared memory: its code. */
struct write_codes {
	uint32_t words[SL_CODEC_WARPS][64];
};

/* Of this warp: the place of an exponent in the dictionary's n entries, of several the first; n: none. Only entries of
 * 0 are several. */
static __device__ __forceinline__ void
codes_make(struct write_codes *codes, const uint8_t *dict, uint32_t n)
{
	uint32_t lane = lane_id(), is = lane < n, entry = is ? dict[lane] : 0;
	uint32_t zeros = __ballot_sync(ALL, is && entry == 0);
	uint32_t *words = codes->words[threadIdx.x / 32];

	__syncwarp();
	for (uint32_t i = lane; i < 64; i += 32)
		words[i] = n * 0x01010101u;
	__syncwarp();
	if (is && (entry || !(zeros & lanes_below())))
		((uint8_t *)words)[entry] = (uint8_t)lane;
	__syncwarp();
}

/* ---- Exponents: a lane has rows of 32 ---- */

/* Take the last escape of the row that is left: its place in the row; end[h] becomes its number. */
static __device__ __forceinline__ uint32_t
row_last(struct rows *rows, uint32_t h)
{
	uint32_t value = 31 - __clz((int)rows->escapes[h]);

	rows->escapes[h] ^= 1u << value;
	rows->end[h]--;
	return value;
}

/* The planes of the codes of 32 values. */
template <uint32_t k>
static __device__ __forceinline__ void
row_planes(const struct write_codes *codes, const uint32_t *values, uint32_t *planes)
{
	const uint8_t *code_of = (const uint8_t *)codes->words;
	uint32_t warp = threadIdx.x / 32;

#pragma unroll
	for (uint32_t b = 0; b < 4; b++) {
		uint32_t nibbles = 0;

		/* The value is the lower byte of the place, the warp the upper one. */
#pragma unroll
		for (uint32_t i = 0; i < 8; i++)
			nibbles += (uint32_t)code_of[__byte_perm(values[2 * b + i / 4], warp, 0x5540 | i % 4)]
				   << 4 * i;
#pragma unroll
		for (int j = 0; j < (int)k; j++)
			planes[j] |= nibbles_to_bits(nibbles >> j) << 8 * b;
	}
}

/* The k planes of the codes of m values, to `to`. escapes: values without a code go to `left`, in their order. */
template <uint32_t k>
static __device__ __forceinline__ void
codes_write(const uint8_t *values, uint32_t m, const struct write_codes *codes, uint32_t escapes,
	    uint8_t *left, uint32_t *to)
{
	struct rows rows = {};

#pragma unroll
	for (uint32_t h = 0; h < 2; h++) {
		uint32_t row = 32 * h + lane_id(), valid = row_valid(32 * row, m), planes[4] = {0, 0, 0, 0};

		rows.escapes[h] = escapes ? valid : 0;
		if (valid && k) {
			const uint4 *quads = (const uint4 *)(values + 32 * row);
			const uint4 low = quads[0], high = quads[1];
			const uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};

			row_planes<k>(codes, words, planes);
#pragma unroll
			for (int j = 0; j < (int)k; j++) {
				rows.escapes[h] &= planes[j];
				to[row * k + j] = planes[j] & valid;
			}
		}
	}
	(void)rows_place(&rows);
#pragma unroll
	for (uint32_t h = 0; h < 2; h++)
		while (rows.escapes[h]) {
			uint32_t value = row_last(&rows, h);

			left[rows.end[h]] = values[32 * (32 * h + lane_id()) + value];
		}
	__syncwarp();
}

static __device__ void
codes_write_any(uint32_t k, const uint8_t *values, uint32_t m, const struct write_codes *codes,
		uint32_t escapes, uint8_t *left, uint32_t *to)
{
	switch (k) {
	case 0:
		codes_write<0>(values, m, codes, escapes, left, to);
		break;
	case 1:
		codes_write<1>(values, m, codes, escapes, left, to);
		break;
	case 2:
		codes_write<2>(values, m, codes, escapes, left, to);
		break;
	case 3:
		codes_write<3>(values, m, codes, escapes, left, to);
		break;
	default:
		codes_write<4>(values, m, codes, escapes, left, to);
		break;
	}
}

/* The exponents' parts. exponents: of all elements. seconds: room for as many. */
static __device__ void
exponents_write(const uint8_t *exponents, const struct sl_codec_plan *plan,
		const struct sl_codec_parts *parts, struct write_codes *codes, uint8_t *seconds,
		union warp_block *out)
{
	for (uint32_t second = 0; second < 2; second++) { /* one copy of the code for both */
		uint32_t n1 = sl_codec_n1(plan->mode);

		if (second && !plan->m2)
			return;
		codes_make(codes, plan->dict + (second ? n1 : 0),
			   second ? sl_codec_n2(plan->mode) : n1);
		codes_write_any(second ? sl_codec_k2(plan->mode) : sl_codec_k1(plan->mode),
				second ? seconds : exponents, second ? plan->m2 : plan->m,
				codes, sl_codec_escapes(plan->mode),
				second ? out->u8 + parts->third : seconds,
				out->u32 + (second ? parts->second : parts->first) / 4);
	}
}

/* ---- Elements: a lane has four ---- */

/* Their exponents, in a word. */
template <uint32_t kind>
static __device__ __forceinline__ uint32_t
exponents_get(const union warp_block *block, uint32_t q)
{
	uint64_t halves;
	uint4 quad;

	if (kind == SL_CODEC_FP32) {
		quad = block->quads[q];
		return __byte_perm(__byte_perm(quad.x << 1, quad.y << 1, 0x0073),
				   __byte_perm(quad.z << 1, quad.w << 1, 0x0073), 0x5410);
	}
	halves = kind == SL_CODEC_BF16 ? block->u64[q] >> 7 & 0x00ff00ff00ff00ffull
				       : block->u64[q] >> 10 & 0x001f001f001f001full;
	return __byte_perm((uint32_t)halves, (uint32_t)(halves >> 32), 0x6420);
}

/* All of them, to the beginning of *block: an element takes no less room than its exponent. */
template <uint32_t kind>
static __device__ __forceinline__ void
exponents_gather(union warp_block *block, uint32_t m)
{
#pragma unroll 4
	for (uint32_t first = 0; first < m; first += 128) {
		uint32_t q = first / 4 + lane_id(), word = exponents_get<kind>(block, q);

		__syncwarp();
		block->u32[q] = word;
	}
	__syncwarp();
}

/* Byte j of each of four words. */
static __device__ __forceinline__ uint32_t
bytes_take(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t j)
{
	uint32_t places = j | (4 + j) << 4;

	return __byte_perm(__byte_perm(a, b, places), __byte_perm(c, d, places), 0x5410);
}

/* The rest of a fp32, without its exponent. */
static __device__ __forceinline__ uint32_t
fp32_rest(uint32_t element)
{
	return (uint32_t)sl_codec_rest(SL_CODEC_FP32, element);
}

/* Byte j of the rest of four elements, in a word. */
template <uint32_t kind>
static __device__ __forceinline__ uint32_t
rest_word(const union warp_block *block, uint32_t j, uint32_t q)
{
	uint64_t halves;
	uint4 quad, more;

	switch (kind) {
	case SL_CODEC_U8:
		return block->u32[q];
	case SL_CODEC_U16:
	case SL_CODEC_BF16:
	case SL_CODEC_FP16:
		halves = block->u64[q];
		if (kind == SL_CODEC_U16)
			halves >>= 8 * j;
		else if (kind == SL_CODEC_BF16)
			halves = (halves & 0x007f007f007f007full) | (halves >> 8 & 0x0080008000800080ull);
		else if (j)
			halves = (halves >> 8 & 0x0003000300030003ull) | (halves >> 13 & 0x0004000400040004ull);
		return __byte_perm((uint32_t)halves, (uint32_t)(halves >> 32), 0x6420);
	case SL_CODEC_U32:
		quad = block->quads[q];
		return bytes_take(quad.x, quad.y, quad.z, quad.w, j);
	case SL_CODEC_U64:
		quad = block->quads[2 * q];
		more = block->quads[2 * q + 1];
		return j < 4 ? bytes_take(quad.x, quad.z, more.x, more.z, j)
			     : bytes_take(quad.y, quad.w, more.y, more.w, j - 4);
	default:
		quad = block->quads[q];
		return bytes_take(fp32_rest(quad.x), fp32_rest(quad.y), fp32_rest(quad.z), fp32_rest(quad.w), j);
	}
}

/* Byte j of the rest of all elements. */
template <uint32_t kind>
static __device__ __forceinline__ void
rest_write(const union warp_block *block, const struct sl_codec_plan *plan, uint32_t j,
	   uint32_t at, union warp_block *out)
{
	const uint32_t shift = sl_codec_element_shift(kind);
	uint32_t varying = plan->varying[j], m = plan->m, lane = lane_id();
	uint32_t *words = out->u32 + at / 4;

	if (varying == 0xff) { /* whole bytes; zeros follow the last one */
#pragma unroll 4
		for (uint32_t q = lane; q < m / 4; q += 32)
			words[q] = rest_word<kind>(block, j, q);
		if (m % 4 && lane == 0)
			words[m / 4] = rest_word<kind>(block, j, m / 4) & ((1u << 8 * (m % 4)) - 1);
		return;
	}
	if (!varying)
		return;
#pragma unroll 2
	for (uint32_t row = 0; row < sl_codec_rows(m); row++) {
		uint32_t i = row * 32 + lane, byte = 0, n = 0, plane = 0;

		if (i < m)
			byte = (uint32_t)(sl_codec_rest(kind, element_get(block, shift, i)) >> 8 * j);
		for (uint32_t bits = varying; bits; bits &= bits - 1, n++) {
			uint32_t word = __ballot_sync(ALL, (byte & bits & (0 - bits)) != 0);

			if (lane == n)
				plane = word;
		}
		if (lane < n)
			words[row * n + lane] = plane;
	}
}

/* A block of elements, into out. The kind is known here, so that rows are independent work. */
template <uint32_t kind>
static __device__ void
elements_write(union warp_block *block, const struct sl_codec_plan *plan,
	       struct write_codes *codes, union warp_block *out)
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
		elements_compact<kind>(block, out, parts.bitmap);
#pragma unroll 1
	for (uint32_t j = 0; j < n_rest; j++)
		rest_write<kind>(block, plan, j, parts.rest[j], out);
	__syncwarp();
	if (sl_codec_is_float(kind)) { /* last: it uses *block, of which exponents take a half */
		exponents_gather<kind>(block, plan->m);
		exponents_write(block->u8, plan, &parts, codes, block->u8 + 2048, out);
	}
}

static __device__ void
elements_write_any(union warp_block *block, const struct sl_codec_plan *plan,
		   struct write_codes *codes, union warp_block *out)
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
is_stored(const struct sl_codec_job *job, uint32_t units)
{
	return sl_codec_is_stored(job->n_blocks, units, job->encoded_bytes);
}

/* The units of all blocks before this thread block's first, and of all. Called by all threads of the thread block. */
static __device__ uint32_t
sums_before(const struct sl_codec_job *job, uint32_t *all)
{
	const uint4 *sums = (const uint4 *)((const uint8_t *)job->table + sl_codec_table_bytes(job->n_blocks));
	uint32_t before = 0, total = 0;

	for (uint32_t i = threadIdx.x; i < SL_CODEC_SUMS_BYTES(job->n_blocks) / 16; i += SL_CODEC_THREADS) {
		const uint4 quad = sums[i];
		const uint32_t words[4] = {quad.x, quad.y, quad.z, quad.w};

#pragma unroll
		for (uint32_t k = 0; k < 8; k++) {
			uint32_t sum = words[k / 2] >> 16 * (k % 2) & 0xffff;

			total += sum;
			before += 8 * i + k < blockIdx.x ? sum : 0;
		}
	}
	*all = threads_sum(total);
	return threads_sum(before);
}

/* By one thread. */
static __device__ void
header_write(struct sl_codec_job *job, uint32_t units)
{
	struct sl_codec_header *header = (struct sl_codec_header *)job->encoded;
	uint32_t stored = is_stored(job, units);

	header->magic = SL_CODEC_MAGIC;
	header->version = SL_CODEC_VERSION;
	header->flags = (uint16_t)((job->check ? SL_CODEC_HAS_CHECKSUM : 0) |
				   (stored ? SL_CODEC_IS_STORED : 0));
	header->n_blocks = job->n_blocks;
	header->units = stored ? 0 : units;
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
