/* SPDX-License-Identifier: Apache-2.0 */
/* What warps of the codec's kernels do together: reductions, and blocks of 4 KiB in shared memory. */
#ifndef SL_CODEC_WARP_CUH
#define SL_CODEC_WARP_CUH

#include "codec/format.h"
#include "codec/job.h"

#define ALL 0xffffffffu

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

/* ---- Reductions: every lane gets the result, of warp_sum_up() its own ---- */

static __device__ uint32_t
warp_sum(uint32_t value)
{
	for (uint32_t d = 16; d; d /= 2)
		value += __shfl_xor_sync(ALL, value, d);
	return value;
}

/* The sum of the lanes up to this one. */
static __device__ uint32_t
warp_sum_up(uint32_t value)
{
#pragma unroll
	for (uint32_t d = 1; d <= 16; d *= 2) {
		uint32_t from = __shfl_up_sync(ALL, value, d);

		if (lane_id() >= d)
			value += from;
	}
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

/* All loads first: memory is far. */
static __device__ __forceinline__ void
block_load(union warp_block *to, const void *from, uint32_t units)
{
	const uint4 *quads = (const uint4 *)from;
	uint4 own[8];

#pragma unroll
	for (uint32_t k = 0; k < 8; k++)
		if (32 * k + lane_id() < units)
			own[k] = quads[32 * k + lane_id()];
#pragma unroll
	for (uint32_t k = 0; k < 8; k++)
		if (32 * k + lane_id() < units)
			to->quads[32 * k + lane_id()] = own[k];
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

/* ---- Bits ---- */

/* Eight bits, each the lowest of four. */
static __device__ __forceinline__ uint32_t
bits_to_nibbles(uint32_t bits)
{
	bits = (bits | bits << 12) & 0x000f000f;
	bits = (bits | bits << 6) & 0x03030303;
	return (bits | bits << 3) & 0x11111111;
}

/* The other way round, of the lowest bits; the rest is ignored. */
static __device__ __forceinline__ uint32_t
nibbles_to_bits(uint32_t word)
{
	word &= 0x11111111;
	word = (word | word >> 3) & 0x03030303;
	word = (word | word >> 6) & 0x000f000f;
	return (word | word >> 12) & 0xff;
}

/* Four bits, each the lowest of eight. */
static __device__ __forceinline__ uint32_t
bits_to_bytes(uint32_t bits)
{
	return bits * 0x00204081 & 0x01010101;
}

/* Which of the 32 values from `first` on there are, of m. */
static __device__ __forceinline__ uint32_t
row_valid(uint32_t first, uint32_t m)
{
	return first >= m ? 0 : m - first >= 32 ? ALL : (1u << (m - first)) - 1;
}

/*
 * Two rows of 32 values of each lane: its own of the first 32 rows, and of the next. Which of the values are escapes,
 * and how many escapes there are up to the row's end.
 */
struct rows {
	uint32_t escapes[2], end[2];
};

/* By the escapes of all lanes, of both rows at once: there are at most 2048. Returns how many there are. */
static __device__ __forceinline__ uint32_t
rows_place(struct rows *rows)
{
	uint32_t ends = warp_sum_up(__popc(rows->escapes[0]) | __popc(rows->escapes[1]) << 16);
	uint32_t all = __shfl_sync(ALL, ends, 31);

	rows->end[0] = ends & 0xffff;
	rows->end[1] = (all & 0xffff) + (ends >> 16);
	return (all & 0xffff) + (all >> 16);
}

/* Byte i of each of four words, as word i. */
static __device__ __forceinline__ uint4
bytes_transpose(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	uint32_t ab01 = __byte_perm(a, b, 0x5140), ab23 = __byte_perm(a, b, 0x7362);
	uint32_t cd01 = __byte_perm(c, d, 0x5140), cd23 = __byte_perm(c, d, 0x7362);

	return make_uint4(__byte_perm(ab01, cd01, 0x5410), __byte_perm(ab01, cd01, 0x7632),
			  __byte_perm(ab23, cd23, 0x5410), __byte_perm(ab23, cd23, 0x7632));
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

/* Of two entries in a word. */
static __device__ uint32_t
entries_units(uint32_t two)
{
	return SL_CODEC_ENTRY_UNITS(two & 0xffff) + SL_CODEC_ENTRY_UNITS(two >> 16);
}

/* The sum of all threads' values, in each. Called by all threads of the thread block. */
static __device__ uint32_t
threads_sum(uint32_t value)
{
	__shared__ uint32_t sums[SL_CODEC_WARPS];
	uint32_t sum = 0;

	value = warp_sum(value);
	__syncthreads(); /* the sums of the call before have been read */
	if (lane_id() == 0)
		sums[threadIdx.x / 32] = value;
	__syncthreads();
	for (uint32_t i = 0; i < SL_CODEC_WARPS; i++)
		sum += sums[i];
	return sum;
}

/* The units of all blocks before this thread block's first, by the table: eight entries at a time, and the rest.
 * Called by all threads. */
static __device__ uint32_t
units_before(const uint16_t *table)
{
	uint32_t first = blockIdx.x * SL_CODEC_WARPS, units = 0;

	for (uint32_t i = threadIdx.x; i < first / 8; i += SL_CODEC_THREADS) {
		uint4 eight = ((const uint4 *)table)[i];

		units += entries_units(eight.x) + entries_units(eight.y) + entries_units(eight.z) +
			 entries_units(eight.w);
	}
	if (threadIdx.x < first % 8)
		units += SL_CODEC_ENTRY_UNITS(table[first / 8 * 8 + threadIdx.x]);
	return threads_sum(units);
}

/* The units of this thread block's blocks before the warp's. */
static __device__ uint32_t
own_units_before(const uint16_t *table)
{
	uint32_t first = blockIdx.x * SL_CODEC_WARPS, units = 0;

	for (uint32_t i = 0; i < threadIdx.x / 32; i++)
		units += SL_CODEC_ENTRY_UNITS(table[first + i]);
	return units;
}

#endif
