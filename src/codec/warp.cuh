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

/* ---- Reductions: every lane gets the result ---- */

static __device__ uint32_t
warp_sum(uint32_t value)
{
	for (uint32_t d = 16; d; d /= 2)
		value += __shfl_xor_sync(ALL, value, d);
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

/* Of two entries in a word. */
static __device__ uint32_t
entries_units(uint32_t two)
{
	return SL_CODEC_ENTRY_UNITS(two & 0xffff) + SL_CODEC_ENTRY_UNITS(two >> 16);
}

/*
 * The units of all blocks before this warp's, by the table: the whole thread block adds up those
 * before its first, eight entries at a time and the rest one by one, a warp those of the thread block.
 * Called by all threads of the thread block.
 */
static __device__ uint32_t
units_before(const uint16_t *table, uint32_t n_blocks)
{
	__shared__ uint32_t sum;
	uint32_t first = blockIdx.x * SL_CODEC_WARPS, block = first + threadIdx.x / 32;
	uint32_t units = 0, end;

	if (threadIdx.x == 0)
		sum = 0;
	__syncthreads();
	end = min(first, n_blocks);
	for (uint32_t i = threadIdx.x; i < end / 8; i += SL_CODEC_THREADS) {
		uint4 eight = ((const uint4 *)table)[i];

		units += entries_units(eight.x) + entries_units(eight.y) + entries_units(eight.z) +
			 entries_units(eight.w);
	}
	if (threadIdx.x < end % 8)
		units += SL_CODEC_ENTRY_UNITS(table[end / 8 * 8 + threadIdx.x]);
	units = warp_sum(units);
	if (lane_id() == 0)
		atomicAdd(&sum, units);
	__syncthreads();
	units = sum;
	for (uint32_t i = first; i < block && i < n_blocks; i++)
		units += SL_CODEC_ENTRY_UNITS(table[i]);
	return units;
}

#endif
