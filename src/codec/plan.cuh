/* SPDX-License-Identifier: Apache-2.0 */
/* How a block is coded, by a warp: as plan.c. Used by codec.cu. */
#ifndef SL_CODEC_PLAN_CUH
#define SL_CODEC_PLAN_CUH

#include "codec/warp.cuh"

/* Where sparse is considered: as in plan.c. */
#define SPARSE_ONE_IN 16u
#define PLAN_COUNTS   4u /* of a warp, of 1 KiB each. More: fewer thread blocks fit at once */

static __device__ int
sparse_may(uint32_t zeros, uint32_t n)
{
	return zeros * SPARSE_ONE_IN >= n;
}

/* Of elements of each size, by the logarithm of their bytes. All lanes have the same. */
struct warp_stats {
	uint64_t or_bits;     /* of 8 bytes: those of smaller elements are folded */
	uint64_t and_bits[4]; /* of elements, where sparse is considered of those that are not zero */
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

/* The top bit of each byte that is not zero. */
static __device__ uint32_t
bytes_set(uint32_t word)
{
	return (((word & 0x7f7f7f7f) + 0x7f7f7f7f) | word) & 0x80808080;
}

static __device__ void
stats_make(const union warp_block *block, struct warp_stats *stats)
{
	uint64_t all = ~0ull;
	uint32_t n[4] = {0, 0, 0, 0}; /* that are not zero */

	stats->or_bits = 0;
#pragma unroll 4
	for (uint32_t i = lane_id(); i < 512; i += 32) {
		uint64_t word = block->u64[i];
		uint32_t low = bytes_set((uint32_t)word), high = bytes_set((uint32_t)(word >> 32));

		stats->or_bits |= word;
		all &= word;
		n[0] += __popc(low) + __popc(high);
		n[1] += __popc((low | low << 8) & 0x80008000) + __popc((high | high << 8) & 0x80008000);
		n[2] += (low != 0) + (high != 0);
		n[3] += word != 0;
	}
	stats->or_bits = warp_or(stats->or_bits);
	all = ~warp_or(~all);
	/* At most 4096 of each: two sums at once. */
	n[0] = warp_sum(n[0] | n[1] << 16);
	n[2] = warp_sum(n[2] | n[3] << 16);
	stats->zeros[0] = 4096 - (n[0] & 0xffff);
	stats->zeros[1] = 2048 - (n[0] >> 16);
	stats->zeros[2] = 1024 - (n[2] & 0xffff);
	stats->zeros[3] = 512 - (n[2] >> 16);
#pragma unroll
	for (uint32_t s = 0; s < 4; s++) {
		uint64_t bits = all;

		if (sparse_may(stats->zeros[s], 4096u >> s)) { /* in all lanes */
			bits = ~0ull;
			for (uint32_t i = lane_id(); i < 512; i += 32)
				bits &= block->u64[i] | zeros_mask(block->u64[i], s);
			bits = ~warp_or(~bits);
		}
		stats->and_bits[s] = fold_and(bits, s);
	}
}

/* How exponents are coded: lane i has entry i of the dictionary; the rest is the same in all. */
struct warp_exponents {
	uint32_t entry;
	uint32_t mode, m2, m3, bytes;
};

/* The largest first. */
static __device__ uint32_t
warp_sort(uint32_t key)
{
#pragma unroll
	for (uint32_t size = 2; size <= 32; size *= 2)
#pragma unroll
		for (uint32_t d = size / 2; d; d /= 2) {
			uint32_t other = __shfl_xor_sync(ALL, key, d);

			key = !(lane_id() & size) == !(lane_id() & d) ? max(key, other)
								      : min(key, other);
		}
	return key;
}

/* The 16 largest of the keys of all lanes that are not 0: lane i gets the i-th. room: for 256. */
static __device__ uint32_t
keys_largest(const uint32_t *keys, uint32_t *room)
{
	uint32_t lane = lane_id(), n = 0, key;

	__syncwarp();
#pragma unroll
	for (uint32_t k = 0; k < 8; k++) {
		uint32_t there = __ballot_sync(ALL, keys[k] != 0);

		if (keys[k])
			room[n + __popc(there & lanes_below())] = keys[k];
		n += __popc(there);
	}
	__syncwarp();
	key = warp_sort(lane < n ? room[lane] : 0);
	for (uint32_t at = 16; at + 16 < n; at += 16) {
		if (lane >= 16)
			key = at + lane < n ? room[at + lane] : 0;
		key = warp_sort(key);
	}
	return key;
}

/*
 * The 16 most frequent exponents of m, and the mode. keys: of 8 exponents in each lane,
 * (count << 8 | 255 - exponent), 0 where the count is.
 */
static __device__ void
exponents_choose(const uint32_t *keys, uint32_t m, uint32_t *room, struct warp_exponents *out)
{
	uint32_t lane = lane_id(), mode = lane % 16, largest = keys_largest(keys, room);
	uint32_t m2, m3, bytes = UINT32_MAX, cost, sum = largest >> 8, sum1, sum2, key;

	/* Lane i gets sums[i], how many the first i are. */
#pragma unroll
	for (uint32_t d = 1; d <= 16; d *= 2) {
		uint32_t from = __shfl_up_sync(ALL, sum, d);

		if (lane >= d)
			sum += from;
	}
	sum -= largest >> 8;
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
	out->entry = 0;
	if (largest && lane < sl_codec_n1(out->mode) + sl_codec_n2(out->mode))
		out->entry = 255 - (largest & 0xff);
}

/* The keys of this lane's exponents, of which zeros of exponent 0 are not counted. */
static __device__ void
keys_make(uint32_t kind, const uint32_t *count, uint32_t zeros, uint32_t *keys)
{
	uint32_t lane = lane_id(), all = 0;
	const uint4 *quads = (const uint4 *)count + 2 * lane;
	const uint4 low = quads[0], high = quads[1];
	const uint32_t counts[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};

#pragma unroll
	for (uint32_t k = 0; k < 8; k++) {
		uint32_t exponent = 8 * lane + k;
		uint32_t n = counts[k] >> 16;

		if (kind != SL_CODEC_FP32)
			n += counts[k] & 0xffff;
		all += n;
		if (exponent == 0 && kind != SL_CODEC_FP16)
			n -= zeros;
		keys[k] = n ? n << 8 | (255 - exponent) : 0;
	}
	if (kind != SL_CODEC_FP16)
		return;
	/* Without the low three bits a lane has one exponent. */
#pragma unroll
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

	if (sparse && !sparse_may(zeros, n))
		return UINT32_MAX;
	*m = n - (sparse ? zeros : 0);
	*varying = sl_codec_rest(kind, or_bits ^ and_bits);
	*base = sl_codec_rest(kind, and_bits);
	for (uint32_t j = 0; j < n_rest; j++)
		bytes += sl_codec_byte_bytes(*m, (uint32_t)(*varying >> 8 * j) & 0xff);
	return bytes + (sparse ? n / 8 : 0);
}

/* No entries lie behind the last one. By a thread block. */
static __device__ void
table_end(uint16_t *table, uint32_t n_blocks)
{
	for (uint32_t i = n_blocks + threadIdx.x; i < sl_codec_table_bytes(n_blocks) / 2;
	     i += SL_CODEC_THREADS)
		table[i] = 0;
}

/* Exponents of the lower and the upper halves of words, in halves of count[0][exponent]. They are few, so lanes
 * would wait for each other: each fourth of them has counters of its own. */
static __device__ void
exponents_count(const union warp_block *block, uint32_t (*count)[256])
{
	uint32_t lane = lane_id(), *own = count[lane % PLAN_COUNTS];
	uint4 *quads = (uint4 *)count;

	for (uint32_t i = lane; i < PLAN_COUNTS * 64; i += 32)
		quads[i] = make_uint4(0, 0, 0, 0);
	__syncwarp();
#pragma unroll 4
	for (uint32_t i = lane; i < 1024; i += 32) {
		uint32_t word = block->u32[i];

		atomicAdd(&own[word >> 7 & 0xff], 1u);
		atomicAdd(&own[word >> 23 & 0xff], 0x10000u);
	}
	__syncwarp();
	for (uint32_t i = lane; i < 64; i += 32) {
		uint4 sum = quads[i];

#pragma unroll
		for (uint32_t k = 1; k < PLAN_COUNTS; k++) {
			uint4 more = quads[64 * k + i];

			sum = make_uint4(sum.x + more.x, sum.y + more.y, sum.z + more.z,
					 sum.w + more.w);
		}
		quads[i] = sum;
	}
	__syncwarp();
}

/* Orders candidates: by their units, and of several the lowest number. */
static __device__ uint32_t
candidate_key(uint32_t bytes, uint32_t candidate)
{
	return sl_codec_round(bytes, SL_CODEC_UNIT_BYTES) << 5 | candidate;
}

/* How a block that is not constant is coded; lane 0 writes it to *plan, and the entry. */
static __device__ uint16_t
plan_choose(const union warp_block *block, uint32_t (*count)[256], struct sl_codec_plan *plan)
{
	uint32_t lane = lane_id(), kind = SL_CODEC_U8 + lane / 2, sparse = lane % 2;
	uint32_t m = 0, bytes = UINT32_MAX, least, winner, units;
	uint64_t varying = 0, base = 0;
	struct warp_exponents best = {0, 0, 0, 0, 0};
	struct warp_stats stats;

	stats_make(block, &stats);
	exponents_count(block, count);
	if (kind < SL_CODEC_KIND_COUNT)
		bytes = candidate_bytes(&stats, kind, sparse, &m, &varying, &base);
	/* Of floats, exponents are still to be added. */
	least = warp_min(!sl_codec_is_float(kind) && bytes != UINT32_MAX
				 ? candidate_key(bytes, lane)
				 : UINT32_MAX);
	for (uint32_t c = 2 * (SL_CODEC_BF16 - SL_CODEC_U8); c < 14; c++) {
		uint32_t rest = __shfl_sync(ALL, bytes, c), m_c = __shfl_sync(ALL, m, c);
		struct warp_exponents exponents;
		uint32_t keys[8], key;

		/* In all lanes. With its exponents it is larger still. */
		if (rest >= SL_CODEC_BLOCK_UNITS * SL_CODEC_UNIT_BYTES ||
		    candidate_key(rest, c) > least)
			continue;
		keys_make(SL_CODEC_U8 + c / 2, count[0],
			  c % 2 ? sl_codec_elements(SL_CODEC_U8 + c / 2) - m_c : 0, keys);
		exponents_choose(keys, m_c, count[1], &exponents);
		key = candidate_key(rest + exponents.bytes, c);
		if (key < least) {
			least = key;
			best = exponents;
		}
	}
	winner = least & 31;
	units = (least >> 5) / SL_CODEC_UNIT_BYTES;
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

#endif
