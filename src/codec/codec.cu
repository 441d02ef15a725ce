/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec on a GPU: the bytes of plan.c, encode.c and decode.c, by a warp for each block of 4 KiB.
 * docs/design/codec.md says who computes what; job.h how they are launched; format.h has the bytes.
 *
 * A lane has a value of each row of 32, so a word of a plane is a ballot, and a value's place among
 * escapes is a count of bits below its lane. All branches around warp-wide calls are taken by whole
 * warps. For sm_75 and later: no reductions by one instruction.
 */
#include "codec/format.h"
#include "codec/job.h"

#define ALL 0xffffffffu

/* Where sparse is considered: as in plan.c. */
#define SPARSE_ONE_IN 16u

union warp_block {
	uint4 quads[256];
	uint64_t u64[512];
	uint32_t u32[1024];
	uint16_t u16[2048];
	uint8_t u8[4096];
};

static __device__ __forceinline__ uint32_t
lane_id()
{
	return threadIdx.x % 32;
}

static __device__ __forceinline__ uint32_t
lanes_below()
{
	return (1u << lane_id()) - 1;
}

/* ---- Reductions: every lane gets the result ---- */

static __device__ uint32_t
warp_sum(uint32_t value)
{
	for (uint32_t d = 16; d; d /= 2)
		value += __shfl_xor_sync(ALL, value, d);
	return value;
}

static __device__ uint32_t
warp_max(uint32_t value)
{
	for (uint32_t d = 16; d; d /= 2)
		value = max(value, __shfl_xor_sync(ALL, value, d));
	return value;
}

static __device__ uint32_t
warp_min(uint32_t value)
{
	for (uint32_t d = 16; d; d /= 2)
		value = min(value, __shfl_xor_sync(ALL, value, d));
	return value;
}

static __device__ uint64_t
warp_or(uint64_t value)
{
	for (uint32_t d = 16; d; d /= 2)
		value |= __shfl_xor_sync(ALL, value, d);
	return value;
}

static __device__ uint64_t
warp_sum_64(uint64_t value)
{
	for (uint32_t d = 16; d; d /= 2)
		value += __shfl_xor_sync(ALL, value, d);
	return value;
}

/* ---- Blocks in shared memory ---- */

static __device__ void
block_load(union warp_block *to, const void *from, uint32_t units)
{
	const uint4 *quads = (const uint4 *)from;

	for (uint32_t i = lane_id(); i < units; i += 32)
		to->quads[i] = quads[i];
	__syncwarp();
}

static __device__ void
block_store(void *to, const union warp_block *from, uint32_t units)
{
	uint4 *quads = (uint4 *)to;

	__syncwarp();
	for (uint32_t i = lane_id(); i < units; i += 32)
		quads[i] = from->quads[i];
}

/* The sum of the words' hashes of block number `block`, in every lane. */
static __device__ uint64_t
block_hash(const union warp_block *block, uint64_t number)
{
	uint64_t hash = 0;

	for (uint32_t i = lane_id(); i < 512; i += 32)
		hash += sl_codec_word_hash(block->u64[i], number * 512 + i);
	return warp_sum_64(hash);
}

static __device__ uint64_t
element_get(const union warp_block *block, uint32_t shift, uint32_t i)
{
	switch (shift) {
	case 0:
		return block->u8[i];
	case 1:
		return block->u16[i];
	case 2:
		return block->u32[i];
	default:
		return block->u64[i];
	}
}

static __device__ void
element_set(union warp_block *block, uint32_t shift, uint32_t i, uint64_t element)
{
	switch (shift) {
	case 0:
		block->u8[i] = (uint8_t)element;
		break;
	case 1:
		block->u16[i] = (uint16_t)element;
		break;
	case 2:
		block->u32[i] = (uint32_t)element;
		break;
	default:
		block->u64[i] = element;
		break;
	}
}

/*
 * The units of all blocks before this warp's, by the table: the whole thread block adds up those
 * before its first, a warp the rest. Called by all threads of the thread block.
 */
static __device__ uint32_t
units_before(const uint16_t *table, uint32_t n_blocks)
{
	__shared__ uint32_t sum;
	uint32_t first = blockIdx.x * SL_CODEC_WARPS, block = first + threadIdx.x / 32;
	uint32_t units = 0;

	if (threadIdx.x == 0)
		sum = 0;
	__syncthreads();
	for (uint32_t i = threadIdx.x; i < first && i < n_blocks; i += SL_CODEC_THREADS)
		units += SL_CODEC_ENTRY_UNITS(table[i]);
	units = warp_sum(units);
	if (lane_id() == 0)
		atomicAdd(&sum, units);
	__syncthreads();
	units = sum;
	for (uint32_t i = first; i < block && i < n_blocks; i++)
		units += SL_CODEC_ENTRY_UNITS(table[i]);
	return units;
}

/* ---- Plan ---- */

/* Of elements of each size, by the logarithm of their bytes. All lanes have the same. */
struct warp_stats {
	uint64_t or_bits;     /* of 8 bytes: those of smaller elements are folded */
	uint64_t and_bits[4]; /* of elements that are not zero */
	uint32_t zeros[4];
};

static __device__ uint64_t
fold_or(uint64_t bits, uint32_t shift)
{
	for (uint32_t s = 3; s > shift; s--)
		bits |= bits >> (4u << s);
	return shift == 3 ? bits : bits & ((1ull << (8u << shift)) - 1);
}

static __device__ uint64_t
fold_and(uint64_t bits, uint32_t shift)
{
	for (uint32_t s = 3; s > shift; s--)
		bits &= bits >> (4u << s);
	return shift == 3 ? bits : bits & ((1ull << (8u << shift)) - 1);
}

/* All bits of each element of 1 << shift bytes that is zero, in a word of 8 bytes. */
static __device__ uint64_t
zeros_mask(uint64_t word, uint32_t shift)
{
	const uint64_t top = shift == 0   ? 0x8080808080808080ull
			     : shift == 1 ? 0x8000800080008000ull
			     : shift == 2 ? 0x8000000080000000ull
					  : 0x8000000000000000ull;
	uint32_t bits = 8u << shift;
	/* The top bit of an element: set if any of its bits is. No carry leaves an element. */
	uint64_t any = (((word & ~top) + ~top) | word) & top;
	uint64_t ones = (any ^ top) >> (bits - 1);

	return shift == 3 ? 0 - ones : ones * ((1ull << bits) - 1);
}

static __device__ void
stats_make(const union warp_block *block, struct warp_stats *stats)
{
	uint32_t low, high;

	stats->or_bits = 0;
	for (uint32_t s = 0; s < 4; s++) {
		stats->and_bits[s] = ~0ull;
		stats->zeros[s] = 0;
	}
	for (uint32_t i = lane_id(); i < 512; i += 32) {
		uint64_t word = block->u64[i];

		stats->or_bits |= word;
		for (uint32_t s = 0; s < 4; s++) {
			uint64_t mask = zeros_mask(word, s);

			stats->and_bits[s] &= word | mask;
			stats->zeros[s] += __popcll(mask) >> (3 + s);
		}
	}
	stats->or_bits = warp_or(stats->or_bits);
	for (uint32_t s = 0; s < 4; s++)
		stats->and_bits[s] = fold_and(~warp_or(~stats->and_bits[s]), s);
	/* At most 4096 of each: two sums at once. */
	low = warp_sum(stats->zeros[0] | stats->zeros[1] << 16);
	high = warp_sum(stats->zeros[2] | stats->zeros[3] << 16);
	stats->zeros[0] = low & 0xffff;
	stats->zeros[1] = low >> 16;
	stats->zeros[2] = high & 0xffff;
	stats->zeros[3] = high >> 16;
}

/* How exponents are coded: lane i has entry i of the dictionary; the rest is the same in all. */
struct warp_exponents {
	uint32_t entry;
	uint32_t mode, m2, m3, bytes;
};

/*
 * The 16 most frequent exponents of m, and the mode. keys: of the 8 exponents of this lane, from
 * 8 * lane on, (count << 8 | 255 - exponent), 0 where the count is; they are used up.
 */
static __device__ void
exponents_choose(uint32_t *keys, uint32_t m, struct warp_exponents *out)
{
	uint32_t lane = lane_id(), total = 0, sum = 0, entry = 0, key;
	uint32_t m2 = 0, m3 = 0, bytes = UINT32_MAX, cost, sum1, sum2, mode = lane % 16;

	/* Lane i gets sums[i], how many the first i are. */
	for (uint32_t r = 0; r < SL_CODEC_DICT_MAX; r++) {
		uint32_t best = 0;

		for (uint32_t k = 0; k < 8; k++)
			best = max(best, keys[k]);
		best = warp_max(best);
		for (uint32_t k = 0; k < 8; k++)
			if (keys[k] == best)
				keys[k] = 0;
		if (lane == r)
			entry = best ? 255 - (best & 0xff) : 0;
		total += best >> 8;
		if (lane == r + 1)
			sum = total;
	}
	sum1 = __shfl_sync(ALL, sum, sl_codec_n1(mode));
	sum2 = __shfl_sync(ALL, sum, sl_codec_n1(mode) + sl_codec_n2(mode));
	m2 = m - sum1;
	m3 = m - sum2;
	if (sl_codec_escapes(mode) || !m2)
		bytes = sl_codec_dict_bytes(mode) + sl_codec_exponent_bytes(mode, m, m2, m3);
	/* Of several the lowest mode. */
	cost = bytes == UINT32_MAX ? UINT32_MAX : bytes << 4 | mode;
	key = warp_min(cost);
	out->mode = key & 15;
	out->bytes = key >> 4;
	out->m2 = __shfl_sync(ALL, m2, out->mode);
	out->m3 = __shfl_sync(ALL, m3, out->mode);
	out->entry = lane < sl_codec_n1(out->mode) + sl_codec_n2(out->mode) ? entry : 0;
}

/* The keys of this lane's exponents, of which zeros of exponent 0 are not counted. */
static __device__ void
keys_make(uint32_t kind, const uint32_t (*count)[256], uint32_t zeros, uint32_t *keys)
{
	uint32_t lane = lane_id(), all = 0;

	for (uint32_t k = 0; k < 8; k++) {
		uint32_t exponent = 8 * lane + k;
		uint32_t n = count[1][exponent];

		if (kind != SL_CODEC_FP32)
			n += count[0][exponent];
		all += n;
		if (exponent == 0 && kind != SL_CODEC_FP16)
			n -= zeros;
		keys[k] = n ? n << 8 | (255 - exponent) : 0;
	}
	if (kind != SL_CODEC_FP16)
		return;
	/* Without the low three bits a lane has one exponent. */
	for (uint32_t k = 0; k < 8; k++)
		keys[k] = 0;
	if (lane == 0)
		all -= zeros;
	keys[0] = all ? all << 8 | (255 - lane) : 0;
}

/* A candidate for each of lanes 0 to 13: kind and sparse; its bytes without exponents. */
static __device__ uint32_t
candidate_bytes(const struct warp_stats *stats, uint32_t kind, uint32_t sparse, uint32_t *m,
		uint64_t *varying, uint64_t *base)
{
	uint32_t shift = sl_codec_element_shift(kind), n = sl_codec_elements(kind);
	uint32_t n_rest = sl_codec_rest_bytes(kind), zeros = stats->zeros[shift];
	uint64_t or_bits = fold_or(stats->or_bits, shift);
	uint64_t and_bits = zeros && !sparse ? 0 : stats->and_bits[shift];
	uint32_t bytes = sizeof(struct sl_codec_head) + sl_codec_round(2 * n_rest, 4);

	if (sparse && zeros * SPARSE_ONE_IN < n)
		return UINT32_MAX;
	*m = n - (sparse ? zeros : 0);
	*varying = sl_codec_rest(kind, or_bits ^ and_bits);
	*base = sl_codec_rest(kind, and_bits);
	for (uint32_t j = 0; j < n_rest; j++)
		bytes += sl_codec_byte_bytes(*m, (uint32_t)(*varying >> 8 * j) & 0xff);
	return bytes + (sparse ? n / 8 : 0);
}

/* How a block that is not constant is coded; lane 0 writes it to *plan, and the entry. */
static __device__ uint16_t
plan_choose(const union warp_block *block, uint32_t (*count)[256], struct sl_codec_plan *plan)
{
	uint32_t lane = lane_id(), kind = SL_CODEC_U8 + lane / 2, sparse = lane % 2;
	uint32_t m = 0, bytes = UINT32_MAX, key, winner, units;
	uint64_t varying = 0, base = 0;
	struct warp_exponents best = {0, 0, 0, 0, 0};
	struct warp_stats stats;

	stats_make(block, &stats);
	for (uint32_t i = lane; i < 512; i += 32)
		(&count[0][0])[i] = 0;
	__syncwarp();
	for (uint32_t i = lane; i < 1024; i += 32) {
		uint32_t word = block->u32[i];

		atomicAdd(&count[0][word >> 7 & 0xff], 1u);
		atomicAdd(&count[1][word >> 23 & 0xff], 1u);
	}
	__syncwarp();
	if (kind < SL_CODEC_KIND_COUNT)
		bytes = candidate_bytes(&stats, kind, sparse, &m, &varying, &base);
	for (uint32_t c = 2 * (SL_CODEC_BF16 - SL_CODEC_U8); c < 14; c++) {
		uint32_t rest = __shfl_sync(ALL, bytes, c), m_c = __shfl_sync(ALL, m, c);
		struct warp_exponents exponents;
		uint32_t keys[8];

		if (rest >= SL_CODEC_BLOCK_UNITS * SL_CODEC_UNIT_BYTES)
			continue; /* in all lanes */
		keys_make(SL_CODEC_U8 + c / 2, count,
			  c % 2 ? sl_codec_elements(SL_CODEC_U8 + c / 2) - m_c : 0, keys);
		exponents_choose(keys, m_c, &exponents);
		if (lane == c)
			bytes += exponents.bytes;
		/* Kept if it is the best so far: below it can only be beaten by a later one. */
		key = lane <= c && bytes != UINT32_MAX
			      ? sl_codec_round(bytes, SL_CODEC_UNIT_BYTES) << 5 | lane
			      : UINT32_MAX;
		/* Floats behind c are without their exponents yet; lanes up to c are complete. */
		if ((warp_min(key) & 31) == c)
			best = exponents;
	}
	key = bytes != UINT32_MAX ? sl_codec_round(bytes, SL_CODEC_UNIT_BYTES) << 5 | lane : UINT32_MAX;
	/* A float of which the rest alone is too much has no exponents: it cannot win. */
	key = warp_min(key);
	winner = key & 31;
	units = (key >> 5) / SL_CODEC_UNIT_BYTES;
	if (units >= SL_CODEC_BLOCK_UNITS) {
		if (lane == 0) {
			plan->kind = SL_CODEC_RAW;
			plan->sparse = 0;
			plan->units = SL_CODEC_BLOCK_UNITS;
		}
		return SL_CODEC_ENTRY(SL_CODEC_RAW, 0, SL_CODEC_BLOCK_UNITS);
	}
	if (lane == winner) {
		plan->kind = (uint8_t)kind;
		plan->sparse = (uint8_t)sparse;
		plan->units = (uint16_t)units;
		plan->m = (uint16_t)m;
		plan->mode = sl_codec_is_float(kind) ? (uint8_t)best.mode : 0;
		plan->m2 = sl_codec_is_float(kind) ? (uint16_t)best.m2 : 0;
		plan->m3 = sl_codec_is_float(kind) ? (uint16_t)best.m3 : 0;
		plan->zero = 0;
		for (uint32_t j = 0; j < SL_CODEC_REST_MAX; j++) {
			plan->varying[j] = (uint8_t)(varying >> 8 * j);
			plan->base[j] = (uint8_t)(base >> 8 * j);
		}
	}
	if (lane < SL_CODEC_DICT_MAX)
		plan->dict[lane] = (uint8_t)best.entry;
	return SL_CODEC_ENTRY(SL_CODEC_U8 + winner / 2, winner % 2, units);
}

extern "C" __global__ void __launch_bounds__(SL_CODEC_THREADS)
sl_codec_plan_kernel(struct sl_codec_job *jobs)
{
	__shared__ union warp_block blocks[SL_CODEC_WARPS];
	__shared__ uint32_t counts[SL_CODEC_WARPS][2][256];
	struct sl_codec_job *job = &jobs[blockIdx.y];
	uint32_t warp = threadIdx.x / 32, number = blockIdx.x * SL_CODEC_WARPS + warp;
	union warp_block *block = &blocks[warp];
	uint16_t *table = (uint16_t *)(job->encoded + SL_CODEC_HEADER_BYTES);
	struct sl_codec_plan *plan = (struct sl_codec_plan *)job->plans + number;
	int same = 1, zero;
	uint16_t entry;
	uint4 first;

	if (number >= job->n_blocks)
		return;
	block_load(block, (const uint8_t *)job->raw + (uint64_t)number * 4096, 256);
	first = block->quads[0];
	for (uint32_t i = lane_id(); i < 256; i += 32) {
		uint4 quad = block->quads[i];

		same &= quad.x == first.x && quad.y == first.y && quad.z == first.z &&
			quad.w == first.w;
	}
	if (__all_sync(ALL, same)) {
		zero = !(first.x | first.y | first.z | first.w);
		entry = zero ? SL_CODEC_ENTRY(SL_CODEC_ZERO, 0, 0)
			     : SL_CODEC_ENTRY(SL_CODEC_CONSTANT, 0, 1);
		if (lane_id() == 0) {
			plan->kind = zero ? SL_CODEC_ZERO : SL_CODEC_CONSTANT;
			plan->sparse = 0;
			plan->units = zero ? 0 : 1;
		}
	} else {
		entry = plan_choose(block, counts[warp], plan);
	}
	if (lane_id() == 0) {
		table[number] = entry;
		atomicAdd(&job->units, SL_CODEC_ENTRY_UNITS(entry));
	}
	if (job->check) {
		uint64_t hash = block_hash(block, number);

		if (lane_id() == 0)
			atomicAdd((unsigned long long *)&job->checksum,
				  (unsigned long long)hash);
	}
}

/* ---- Write ---- */

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

/* The place of an exponent in the dictionary's n entries, of several the first; n: none. */
static __device__ uint32_t
code_find(uint32_t exponent, const uint8_t *dict, uint32_t n)
{
	uint32_t code = n;

	for (uint32_t k = n; k-- > 0;)
		if (dict[k] == exponent)
			code = k;
	return code;
}

static __device__ void
exponents_write(const union warp_block *block, const struct sl_codec_plan *plan,
		const struct sl_codec_parts *parts, uint8_t *second, union warp_block *out)
{
	uint32_t shift = sl_codec_element_shift(plan->kind), escapes = sl_codec_escapes(plan->mode);
	uint32_t n1 = sl_codec_n1(plan->mode), n2 = sl_codec_n2(plan->mode);
	uint32_t k1 = sl_codec_k1(plan->mode), k2 = sl_codec_k2(plan->mode);
	uint32_t done = 0;

	for (uint32_t row = 0; row < sl_codec_rows(plan->m); row++) {
		uint32_t i = row * 32 + lane_id(), is = i < plan->m, exponent = 0, code = 0;
		uint32_t left;

		if (is) {
			exponent = sl_codec_exponent(plan->kind, element_get(block, shift, i));
			code = code_find(exponent, plan->dict, n1);
		}
		for (uint32_t k = 0; k < k1; k++)
			word_put(out, parts->first + 4 * (row * k1 + k),
				 __ballot_sync(ALL, code >> k & 1));
		left = __ballot_sync(ALL, is && escapes && code == n1);
		if (left >> lane_id() & 1)
			second[done + __popc(left & lanes_below())] = (uint8_t)exponent;
		done += __popc(left);
	}
	__syncwarp();
	done = 0;
	for (uint32_t row = 0; row < sl_codec_rows(plan->m2); row++) {
		uint32_t i = row * 32 + lane_id(), is = i < plan->m2, exponent = 0, code = 0;
		uint32_t left;

		if (is) {
			exponent = second[i];
			code = code_find(exponent, plan->dict + n1, n2);
		}
		for (uint32_t k = 0; k < k2; k++)
			word_put(out, parts->second + 4 * (row * k2 + k),
				 __ballot_sync(ALL, code >> k & 1));
		left = __ballot_sync(ALL, is && code == n2);
		if (left >> lane_id() & 1)
			out->u8[parts->third + done + __popc(left & lanes_below())] =
				(uint8_t)exponent;
		done += __popc(left);
	}
}

/* Byte j of the rest of all elements. */
static __device__ void
rest_write(const union warp_block *block, const struct sl_codec_plan *plan, uint32_t j,
	   uint32_t at, union warp_block *out)
{
	uint32_t shift = sl_codec_element_shift(plan->kind), varying = plan->varying[j];

	if (!varying)
		return;
	for (uint32_t row = 0; row < sl_codec_rows(plan->m); row++) {
		uint32_t i = row * 32 + lane_id();
		uint32_t byte = 0;

		if (i < plan->m)
			byte = (uint32_t)(sl_codec_rest(plan->kind,
							element_get(block, shift, i)) >>
					  8 * j) &
			       0xff;
		if (varying == 0xff) {
			if (i < plan->m)
				out->u8[at + i] = (uint8_t)byte;
			continue;
		}
		for (uint32_t left = varying; left; left &= left - 1) {
			word_put(out, at, __ballot_sync(ALL, byte >> (__ffs((int)left) - 1) & 1));
			at += 4;
		}
	}
}

/* A block of elements, into out. */
static __device__ void
elements_write(union warp_block *block, const struct sl_codec_plan *plan, uint8_t *second,
	       union warp_block *out)
{
	uint32_t n_rest = sl_codec_rest_bytes(plan->kind), lane = lane_id();
	struct sl_codec_parts parts;

	sl_codec_place(plan->kind, plan->sparse, plan->mode, plan->m, plan->m2, plan->m3,
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
	if (sl_codec_is_float(plan->kind) &&
	    lane < sl_codec_n1(plan->mode) + sl_codec_n2(plan->mode))
		out->u8[parts.dict + lane] = plan->dict[lane];
	if (plan->sparse)
		elements_compact(block, plan->kind, out, parts.bitmap);
	if (sl_codec_is_float(plan->kind))
		exponents_write(block, plan, &parts, second, out);
	for (uint32_t j = 0; j < n_rest; j++)
		rest_write(block, plan, j, parts.rest[j], out);
}

/* 1: blocks and table are no smaller than the raw bytes. */
static __device__ int
is_stored(const struct sl_codec_job *job)
{
	return sl_codec_table_bytes(job->n_blocks) + (uint64_t)job->units * SL_CODEC_UNIT_BYTES >=
	       (uint64_t)job->n_blocks * 4096;
}

static __device__ void
header_write(const struct sl_codec_job *job)
{
	struct sl_codec_header *header = (struct sl_codec_header *)job->encoded;
	uint16_t *table = (uint16_t *)(header + 1);

	if (threadIdx.x == 0) {
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
	if (is_stored(job))
		return;
	for (uint32_t i = job->n_blocks + threadIdx.x;
	     i < sl_codec_table_bytes(job->n_blocks) / 2; i += SL_CODEC_THREADS)
		table[i] = 0;
}

extern "C" __global__ void __launch_bounds__(SL_CODEC_THREADS)
sl_codec_write_kernel(struct sl_codec_job *jobs)
{
	__shared__ union warp_block blocks[SL_CODEC_WARPS], outs[SL_CODEC_WARPS];
	__shared__ uint8_t seconds[SL_CODEC_WARPS][2048];
	__shared__ struct sl_codec_plan plans[SL_CODEC_WARPS];
	const struct sl_codec_job *job = &jobs[blockIdx.y];
	uint32_t warp = threadIdx.x / 32, number = blockIdx.x * SL_CODEC_WARPS + warp;
	uint8_t *out = (uint8_t *)job->encoded + SL_CODEC_HEADER_BYTES;
	union warp_block *block = &blocks[warp];
	uint32_t stored = is_stored(job), before = 0;

	/* Stored bytes lie where the table was: nobody reads it then. */
	if (!stored)
		before = units_before((const uint16_t *)out, job->n_blocks);
	if (blockIdx.x == 0)
		header_write(job);
	if (number >= job->n_blocks)
		return;
	block_load(block, (const uint8_t *)job->raw + (uint64_t)number * 4096, 256);
	if (stored) {
		block_store(out + (uint64_t)number * 4096, block, 256);
		return;
	}
	for (uint32_t i = lane_id(); i < sizeof(plans[0]) / 4; i += 32)
		((uint32_t *)&plans[warp])[i] =
			((const uint32_t *)((const struct sl_codec_plan *)job->plans + number))[i];
	__syncwarp();
	out += sl_codec_table_bytes(job->n_blocks) + (uint64_t)before * SL_CODEC_UNIT_BYTES;
	if (plans[warp].kind <= SL_CODEC_RAW) {
		block_store(out, block, plans[warp].units);
		return;
	}
	elements_write(block, &plans[warp], seconds[warp], &outs[warp]);
	block_store(out, &outs[warp], plans[warp].units);
}

/* ---- Decode ---- */

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

extern "C" __global__ void __launch_bounds__(SL_CODEC_THREADS)
sl_codec_decode_kernel(struct sl_codec_job *jobs)
{
	__shared__ union warp_block ins[SL_CODEC_WARPS], outs[SL_CODEC_WARPS];
	__shared__ uint16_t thirds[SL_CODEC_WARPS][64];
	struct sl_codec_job *job = &jobs[blockIdx.y];
	const struct sl_codec_header *header = (const struct sl_codec_header *)job->encoded;
	uint32_t warp = threadIdx.x / 32, number = blockIdx.x * SL_CODEC_WARPS + warp;
	const uint8_t *in = (const uint8_t *)job->encoded + SL_CODEC_HEADER_BYTES;
	const uint16_t *table = (const uint16_t *)in;
	uint32_t stored = 0, entry = 0, units, before = 0;
	union warp_block *out = &outs[warp];

	if (blockIdx.x * SL_CODEC_WARPS >= job->n_blocks)
		return;
	if (!run_check(job, &stored)) { /* in all threads */
		if (threadIdx.x == 0)
			atomicMin(&job->damaged, job->n_blocks);
		return;
	}
	if (!stored)
		before = units_before(table, job->n_blocks);
	if (number >= job->n_blocks)
		return;
	if (stored) {
		block_load(out, in + (uint64_t)number * 4096, 256);
	} else {
		entry = table[number];
		units = SL_CODEC_ENTRY_UNITS(entry);
		in += sl_codec_table_bytes(job->n_blocks) +
		      (uint64_t)before * SL_CODEC_UNIT_BYTES;
		/* The last block ends where the header says, so none lies behind the input. */
		if (!entry_check(entry) || before + units > header->units ||
		    (number + 1 == job->n_blocks && before + units != header->units)) {
			if (lane_id() == 0)
				atomicMin(&job->damaged, number);
			return;
		}
		if (SL_CODEC_ENTRY_KIND(entry) == SL_CODEC_RAW) {
			block_load(out, in, 256);
		} else {
			block_load(&ins[warp], in, units);
			if (!block_decode(&ins[warp], entry, thirds[warp], out)) {
				if (lane_id() == 0)
					atomicMin(&job->damaged, number);
				return;
			}
		}
	}
	if (job->check) {
		uint64_t hash = block_hash(out, number);

		if (lane_id() == 0)
			atomicAdd((unsigned long long *)&job->checksum,
				  (unsigned long long)hash);
	}
	block_store((uint8_t *)job->raw + (uint64_t)number * 4096, out, 256);
}
