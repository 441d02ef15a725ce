/* SPDX-License-Identifier: Apache-2.0 */
/* How a block is coded, by a warp: as plan.c. Used by codec.cu. */
#ifndef SL_CODEC_PLAN_CUH
#define SL_CODEC_PLAN_CUH

#include "codec/warp.cuh"

/* Where sparse is considered: as in plan.c. */
#define SPARSE_ONE_IN 16u
#define PLAN_COUNTS   4u /* of a warp: a quad for each exponent. 2 were as fast on an H200, 8 slower */

static __device__ int
sparse_may(uint32_t zeros, uint32_t n)
{
	return zeros * SPARSE_ONE_IN >= n;
}

/* Of elements of each size, by the logarithm of their bytes. All lanes have the same. */
struct warp_stats {
	uint64_t or_bits;     /* of 8 bytes: those of smaller elements are folded */
	uint64_t and_bits[4]; /* of elements, where sparse is considered of those that are not zero */
	uint32_t zeros[4];    /* fewer than sparse is considered of may count as 0 */
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

/* The quads of a block that a lane has: lane, lane + 32 .. */
#define LANE_QUADS 8u

static __device__ __forceinline__ uint64_t
quad_half(const uint4 *quad, uint32_t upper)
{
	return upper ? quad->z | (uint64_t)quad->w << 32 : quad->x | (uint64_t)quad->y << 32;
}

/* What is known of elements of 1 << s bytes where many may be zero. */
static __device__ __forceinline__ void
stats_sparse(const uint4 *quads, uint32_t s, struct warp_stats *stats)
{
	uint32_t zeros = 0;
	uint64_t all = ~0ull;

#pragma unroll
	for (uint32_t i = 0; i < 2 * LANE_QUADS; i++) {
		uint64_t word = quad_half(&quads[i / 2], i % 2), zero = zeros_mask(word, s);

		zeros += __popcll(zero);
		all &= word | zero;
	}
	stats->zeros[s] = warp_sum(zeros >> (3 + s));
	if (sparse_may(stats->zeros[s], 4096u >> s)) /* in all lanes */
		stats->and_bits[s] = fold_and(~warp_or(~all), s);
}

static __device__ __forceinline__ void
stats_make(const uint4 *quads, struct warp_stats *stats)
{
	uint64_t some = 0, all = ~0ull;
	uint32_t set = 0; /* bytes, times 128 */

#pragma unroll
	for (uint32_t i = 0; i < LANE_QUADS; i++) {
		some |= quad_half(&quads[i], 0) | quad_half(&quads[i], 1);
		all &= quad_half(&quads[i], 0) & quad_half(&quads[i], 1);
		set = __dp4a(bytes_set(quads[i].x), 0x01010101u, set);
		set = __dp4a(bytes_set(quads[i].y), 0x01010101u, set);
		set = __dp4a(bytes_set(quads[i].z), 0x01010101u, set);
		set = __dp4a(bytes_set(quads[i].w), 0x01010101u, set);
	}
	stats->or_bits = warp_or(some);
	all = ~warp_or(~all);
#pragma unroll
	for (uint32_t s = 0; s < 4; s++) {
		stats->zeros[s] = 0;
		stats->and_bits[s] = fold_and(all, s);
	}
	/* One in so many elements is zero at most if no more bytes are. Fewer count as none. */
	if (!sparse_may(4096 - warp_sum(set / 128), 4096)) /* in all lanes */
		return;
#pragma unroll
	for (uint32_t s = 0; s < 4; s++)
		stats_sparse(quads, s, stats);
}

/* How exponents are coded: lane i has entry i of the dictionary; the rest is the same in all. */
struct warp_exponents {
	uint32_t entry;
	uint32_t mode, m2, m3, bytes;
};

/* The largest first: bitonic. Where an order is to be the other one, all bits of the keys are turned. */
static __device__ __forceinline__ uint32_t
warp_sort(uint32_t key)
{
	uint32_t lane = lane_id(), turned = 0;

#pragma unroll
	for (uint32_t size = 2; size <= 32; size *= 2) {
		uint32_t turn = lane & size ? ALL : 0;

		key ^= turn ^ turned;
		turned = turn;
#pragma unroll
		for (uint32_t d = size / 2; d; d /= 2) {
			uint32_t other = __shfl_xor_sync(ALL, key, d);

			key = lane & d ? min(key, other) : max(key, other);
		}
	}
	return key;
}

/* Those keys of all lanes that are at least `least` to room; how many. */
static __device__ __forceinline__ uint32_t
keys_pack(const uint32_t *keys, uint32_t least, uint32_t *room)
{
	uint32_t n = 0;

#pragma unroll
	for (uint32_t k = 0; k < 8; k++) {
		uint32_t there = __ballot_sync(ALL, keys[k] >= least);

		if (!there) /* in all lanes, as of most */
			continue;
		if (keys[k] >= least)
			room[n + __popc(there & lanes_below())] = keys[k];
		n += __popc(there);
	}
	__syncwarp();
	return n;
}

/* The 16 largest of the keys of all lanes that are not 0: lane i gets the i-th. room: for 256. */
static __device__ uint32_t
keys_largest(const uint32_t *keys, uint32_t *room)
{
	uint32_t lane = lane_id(), n, key;

	__syncwarp();
	n = keys_pack(keys, 1, room);
	if (n > 32) { /* 16 lanes have one of the 16th lane's largest or more: none of the 16 is smaller */
		uint32_t most = keys[0];

#pragma unroll
		for (uint32_t k = 1; k < 8; k++)
			most = max(most, keys[k]);
		most = __shfl_sync(ALL, warp_sort(most), 15);
		n = keys_pack(keys, max(most, 1u), room);
	}
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
	uint32_t m2, m3, bytes = UINT32_MAX, cost, sum, sum1, sum2, key;

	/* Lane i gets sums[i], how many the first i are. */
	sum = warp_sum_up(largest >> 8) - (largest >> 8);
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
static __device__ __forceinline__ void
keys_make(uint32_t kind, const uint32_t *counts, uint32_t zeros, uint32_t *keys)
{
	uint32_t lane = lane_id();

#pragma unroll
	for (uint32_t k = 0; k < 8; k++) {
		uint32_t exponent = 32 * k + lane, n = counts[k] >> 16;

		if (kind != SL_CODEC_FP32)
			n += counts[k] & 0xffff;
		if (kind == SL_CODEC_FP16) { /* without the low three bits: one for eight lanes */
			exponent = 4 * k + lane / 8;
			for (uint32_t d = 1; d < 8; d *= 2)
				n += __shfl_xor_sync(ALL, n, d);
			if (lane % 8)
				n = 0;
		}
		if (exponent == 0 && lane == 0)
			n -= zeros;
		keys[k] = n ? n << 8 | (255 - exponent) : 0;
	}
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

/* Nothing lies behind the last entry, and behind the last sum. By a thread block. */
static __device__ void
table_end(uint16_t *table, uint16_t *sums, uint32_t n_blocks)
{
	for (uint32_t i = n_blocks + threadIdx.x; i < sl_codec_table_bytes(n_blocks) / 2; i += SL_CODEC_THREADS)
		table[i] = 0;
	for (uint32_t i = SL_CODEC_GRID(n_blocks) + threadIdx.x; i < SL_CODEC_SUMS_BYTES(n_blocks) / 2;
	     i += SL_CODEC_THREADS)
		sums[i] = 0;
}

/* Of a warp: counters by exponent; then room for keys. */
union plan_room {
	uint32_t counts[256][PLAN_COUNTS];
	uint4 quads[256];
	uint32_t keys[256];
};

/*
 * Exponents of the lower and the upper halves of words, in halves of counts: of exponents lane, lane + 32 .. They are
 * few, so lanes would wait for each other: each fourth of them has counters of its own, in another bank.
 */
static __device__ __forceinline__ void
exponents_count(const uint4 *quads, union plan_room *rooms, uint32_t *counts)
{
	uint32_t lane = lane_id(), warp = threadIdx.x / 32;
	uint32_t own = warp * (uint32_t)sizeof(rooms[0]) + lane % PLAN_COUNTS * 4;
	char *all = (char *)rooms;

#pragma unroll
	for (uint32_t k = 0; k < 8; k++)
		rooms[warp].quads[32 * k + lane] = make_uint4(0, 0, 0, 0);
	__syncwarp();
#pragma unroll
	for (uint32_t i = 0; i < LANE_QUADS; i++) {
		const uint32_t words[4] = {quads[i].x, quads[i].y, quads[i].z, quads[i].w};

		/* An exponent has 16 bytes; own has none of its bits. */
#pragma unroll
		for (uint32_t k = 0; k < 4; k++) {
			atomicAdd((uint32_t *)(all + ((words[k] >> 3 & 0xff0) | own)), 1u);
			atomicAdd((uint32_t *)(all + ((words[k] >> 19 & 0xff0) | own)), 0x10000u);
		}
	}
	__syncwarp();
#pragma unroll
	for (uint32_t k = 0; k < 8; k++) {
		const uint4 quad = rooms[warp].quads[32 * k + lane];

		counts[k] = quad.x + quad.y + quad.z + quad.w;
	}
}

/* Orders candidates: by their units, and of several the lowest number. */
static __device__ uint32_t
candidate_key(uint32_t bytes, uint32_t candidate)
{
	return sl_codec_round(bytes, SL_CODEC_UNIT_BYTES) << 5 | candidate;
}

/* How a block that is not constant is coded; lane 0 writes it to *plan, and the entry. */
static __device__ uint16_t
plan_choose(const uint4 *quads, union plan_room *rooms, struct sl_codec_plan *plan)
{
	uint32_t lane = lane_id(), kind = SL_CODEC_U8 + lane / 2, sparse = lane % 2;
	uint32_t m = 0, bytes = UINT32_MAX, least, winner, units;
	uint64_t varying = 0, base = 0;
	uint32_t counts[8];
	struct warp_exponents best = {0, 0, 0, 0, 0};
	struct warp_stats stats;

	stats_make(quads, &stats);
	exponents_count(quads, rooms, counts);
	if (kind < SL_CODEC_KIND_COUNT)
		bytes = candidate_bytes(&stats, kind, sparse, &m, &varying, &base);
	/* Of floats, exponents are still to be added. */
	least = warp_min(!sl_codec_is_float(kind) && bytes != UINT32_MAX
				 ? candidate_key(bytes, lane)
				 : UINT32_MAX);
	/* Those that may still win: with its exponents a candidate is larger still. */
	for (uint32_t left = ALL << 2 * (SL_CODEC_BF16 - SL_CODEC_U8); left; left &= left - 1) {
		uint32_t c, rest, m_c, key, keys[8];
		struct warp_exponents exponents;

		left &= __ballot_sync(ALL, bytes < SL_CODEC_BLOCK_UNITS * SL_CODEC_UNIT_BYTES &&
						  candidate_key(bytes, lane) <= least);
		if (!left)
			break;
		c = 31 - __clz((int)(left & (0 - left)));
		rest = __shfl_sync(ALL, bytes, c);
		m_c = __shfl_sync(ALL, m, c);
		keys_make(SL_CODEC_U8 + c / 2, counts,
			  c % 2 ? sl_codec_elements(SL_CODEC_U8 + c / 2) - m_c : 0, keys);
		exponents_choose(keys, m_c, rooms[threadIdx.x / 32].keys, &exponents);
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
