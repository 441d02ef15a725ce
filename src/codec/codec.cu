/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The codec on a GPU: the bytes of plan.c, encode.c and decode.c, by a warp for each block of 4 KiB.
 * docs/design/codec.md says who computes what; job.h how they are launched; format.h has the bytes.
 *
 * A lane has a value of each row of 32, so a word of a plane is a ballot, and a value's place among
 * escapes is a count of bits below its lane. All branches around warp-wide calls are taken by whole
 * warps. For sm_75 and later: no reductions by one instruction.
 */
#include "codec/decode.cuh"
#include "codec/plan.cuh"
#include "codec/write.cuh"

extern "C" __global__ void
sl_codec_job_kernel(struct sl_codec_job job, struct sl_codec_job *to)
{
	*to = job;
}

/* By a warp. */
static __device__ void
checksum_add(struct sl_codec_job *job, const union warp_block *block, uint32_t number)
{
	uint64_t hash = block_hash(block, number);

	if (lane_id() == 0)
		atomicAdd((unsigned long long *)&job->checksum, (unsigned long long)hash);
}

/* The entry of a block, and its plan. */
static __device__ uint16_t
block_plan(const union warp_block *block, union plan_room *rooms, struct sl_codec_plan *plan)
{
	uint4 quads[LANE_QUADS], first = block->quads[0];
	uint32_t differ = 0, zero = !(first.x | first.y | first.z | first.w);

#pragma unroll
	for (uint32_t i = 0; i < LANE_QUADS; i++)
		quads[i] = block->quads[i * 32 + lane_id()];
#pragma unroll
	for (uint32_t i = 0; i < LANE_QUADS; i++)
		differ |= (quads[i].x ^ first.x) | (quads[i].y ^ first.y) | (quads[i].z ^ first.z) |
			  (quads[i].w ^ first.w);
	if (!__all_sync(ALL, !differ))
		return plan_choose(quads, rooms, plan);
	if (lane_id() == 0) {
		plan->kind = zero ? SL_CODEC_ZERO : SL_CODEC_CONSTANT;
		plan->sparse = 0;
		plan->units = zero ? 0 : 1;
	}
	return zero ? SL_CODEC_ENTRY(SL_CODEC_ZERO, 0, 0) : SL_CODEC_ENTRY(SL_CODEC_CONSTANT, 0, 1);
}

extern "C" __global__ void __launch_bounds__(SL_CODEC_THREADS)
sl_codec_plan_kernel(struct sl_codec_job *jobs)
{
	__shared__ union plan_room rooms[SL_CODEC_WARPS];
	struct sl_codec_job *job = &jobs[blockIdx.y];
	const union warp_block *blocks = (const union warp_block *)job->raw;
	struct sl_codec_plan *plans = (struct sl_codec_plan *)job->plans;
	uint16_t *table = (uint16_t *)job->table, *sums = table + sl_codec_table_bytes(job->n_blocks) / 2;
	uint32_t number = blockIdx.x * SL_CODEC_WARPS + threadIdx.x / 32, units = 0;

	if (blockIdx.x >= SL_CODEC_GRID(job->n_blocks))
		return;
	if (blockIdx.x == 0)
		table_end(table, sums, job->n_blocks);
	if (number < job->n_blocks) {
		uint16_t entry = block_plan(&blocks[number], rooms, &plans[number]);

		if (lane_id() == 0) {
			table[number] = entry;
			units = SL_CODEC_ENTRY_UNITS(entry);
		}
		if (job->check)
			checksum_add(job, &blocks[number], number);
	}
	units = threads_sum(units);
	if (threadIdx.x == 0)
		sums[blockIdx.x] = (uint16_t)units;
}

extern "C" __global__ void __launch_bounds__(SL_CODEC_THREADS)
sl_codec_write_kernel(struct sl_codec_job *jobs)
{
	__shared__ union warp_block blocks[SL_CODEC_WARPS], outs[SL_CODEC_WARPS];
	__shared__ struct write_codes codes;
	__shared__ struct sl_codec_plan plans[SL_CODEC_WARPS];
	struct sl_codec_job *job = &jobs[blockIdx.y];
	uint32_t warp = threadIdx.x / 32, number = blockIdx.x * SL_CODEC_WARPS + warp;
	uint8_t *out = (uint8_t *)job->encoded + SL_CODEC_HEADER_BYTES;
	uint32_t all, before = sums_before(job, &all), stored = is_stored(job, all);
	const struct sl_codec_plan *from = (const struct sl_codec_plan *)job->plans + number;
	struct sl_codec_plan *plan = &plans[warp];
	union warp_block *block = &blocks[warp];

	if (blockIdx.x == 0 && threadIdx.x == 0)
		job->units = all;
	if (stored && job->drain)
		return; /* the drain kernel takes it from where it is */
	if (blockIdx.x == 0 && threadIdx.x == 0)
		header_write(job, all);
	if (!stored)
		table_write(out, job);
	if (number >= job->n_blocks)
		return;
	block_load(block, (const uint8_t *)job->raw + (uint64_t)number * 4096, 256);
	if (stored) {
		block_store(out + (uint64_t)number * 4096, block, 256);
		return;
	}
	for (uint32_t i = lane_id(); i < sizeof(*plan) / 4; i += 32)
		((uint32_t *)plan)[i] = ((const uint32_t *)from)[i];
	__syncwarp();
	before += own_units_before((const uint16_t *)job->table);
	out += sl_codec_table_bytes(job->n_blocks) + (uint64_t)before * SL_CODEC_UNIT_BYTES;
	if (plan->kind <= SL_CODEC_RAW) {
		block_store(out, block, plan->units);
		return;
	}
	elements_write_any(block, plan, &codes, &outs[warp]);
	block_store(out, &outs[warp], plan->units);
}

/* Few threads fill the link, and leave the program's kernels room. */
extern "C" __global__ void __launch_bounds__(SL_CODEC_THREADS)
sl_codec_drain_kernel(struct sl_codec_job *job)
{
	uint32_t stored = is_stored(job, job->units);
	const uint4 *from = (const uint4 *)(stored ? job->raw : job->encoded);
	uint64_t n = (stored ? job->n_blocks * 4096ull
			     : sl_codec_coded_bytes(job->n_blocks, job->units)) /
		     sizeof(uint4);
	uint64_t step = (uint64_t)SL_CODEC_DRAIN_GRID * SL_CODEC_THREADS;
	uint64_t i = (uint64_t)blockIdx.x * SL_CODEC_THREADS + threadIdx.x;
	uint4 *to = (uint4 *)job->drain;

	if (i == 0 && job->answer)
		((struct sl_codec_answer *)job->answer)->units = job->units;
	for (; i + 3 * step < n; i += 4 * step) {
		uint4 a = from[i], b = from[i + step], c = from[i + 2 * step],
		      d = from[i + 3 * step];

		to[i] = a;
		to[i + step] = b;
		to[i + 2 * step] = c;
		to[i + 3 * step] = d;
	}
	for (; i < n; i += step)
		to[i] = from[i];
}

extern "C" __global__ void __launch_bounds__(SL_CODEC_THREADS)
sl_codec_decode_kernel(struct sl_codec_job *jobs)
{
	__shared__ struct {
		union warp_block in, work; /* in this order: a row may be read beyond what is there */
	} rooms[SL_CODEC_WARPS];
	__shared__ uint32_t places[16];
	struct sl_codec_job *job = &jobs[blockIdx.y];
	const struct sl_codec_header *header = (const struct sl_codec_header *)job->encoded;
	uint32_t warp = threadIdx.x / 32, number = blockIdx.x * SL_CODEC_WARPS + warp;
	const uint8_t *in = (const uint8_t *)job->encoded + SL_CODEC_HEADER_BYTES;
	const uint16_t *table = (const uint16_t *)in;
	uint32_t stored = 0, entry = 0, units, before = 0;
	union warp_block *out = (union warp_block *)job->raw + number;

	if (blockIdx.x * SL_CODEC_WARPS >= job->n_blocks)
		return;
	if (!run_check(job, &stored)) { /* in all threads */
		if (threadIdx.x == 0)
			damage_tell(job, job->n_blocks);
		return;
	}
	if (threadIdx.x < 16)
		places[threadIdx.x] = escapes_places(threadIdx.x);
	if (!stored)
		before = units_before(table); /* a barrier, for places, too */
	if (number >= job->n_blocks)
		return;
	if (stored) {
		block_load(out, in + (uint64_t)number * 4096, 256);
	} else {
		entry = table[number];
		units = SL_CODEC_ENTRY_UNITS(entry);
		before += own_units_before(table);
		in += sl_codec_table_bytes(job->n_blocks) +
		      (uint64_t)before * SL_CODEC_UNIT_BYTES;
		/* The last block ends where the header says, so none lies behind the input. */
		if (!entry_check(entry) || before + units > header->units ||
		    (number + 1 == job->n_blocks && before + units != header->units)) {
			if (lane_id() == 0)
				damage_tell(job, number);
			return;
		}
		if (SL_CODEC_ENTRY_KIND(entry) == SL_CODEC_RAW) {
			block_load(out, in, 256);
		} else {
			block_load(&rooms[warp].in, in, units);
			if (!block_decode(&rooms[warp].in, entry, places, &rooms[warp].work, out)) {
				if (lane_id() == 0)
					damage_tell(job, number);
				return;
			}
		}
	}
	if (job->check)
		checksum_add(job, out, number);
}
