/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernels of codec.cu are told of a chunk, and what they answer. An array of these lies in
 * memory that the GPU reaches: a launch codes several chunks, one for each row of its grid.
 *
 * Launches, each of SL_CODEC_THREADS threads a block, of a grid of SL_CODEC_GRID(the largest n_blocks)
 * by the number of jobs, with (jobs) as the only parameter. A warp has a block:
 *
 *	encode    sl_codec_plan_kernel, then sl_codec_write_kernel, on one stream
 *	decode    sl_codec_decode_kernel
 *
 * sl_codec_drain_kernel, of one job, behind the write kernel: a grid of SL_CODEC_DRAIN_GRID puts what became of the
 * chunk to host memory. It alone knows then how many bytes there are.
 *
 * Before them the caller sets all fields. units, checksum and damaged are answers, too: they lie in device
 * memory, since thread blocks add to the last two. sl_codec_job_kernel, of one thread, puts a job there without a copy
 * that would queue behind chunks: its parameters are the job and its place. What the host is to know goes to
 * answer.
 */
#ifndef SL_CODEC_JOB_H
#define SL_CODEC_JOB_H

#include <stdint.h>

#define SL_CODEC_WARPS \
	4u /* of a thread block: each has 10 KiB of the 48 of shared memory */
#define SL_CODEC_THREADS        (32 * SL_CODEC_WARPS)
#define SL_CODEC_GRID(n_blocks) (((n_blocks) + SL_CODEC_WARPS - 1) / SL_CODEC_WARPS)

#define SL_CODEC_SUMS_BYTES(n_blocks) ((SL_CODEC_GRID(n_blocks) + 7) / 8 * 16)
#define SL_CODEC_TABLE_BYTES(n_blocks) \
	(sl_codec_table_bytes(n_blocks) + SL_CODEC_SUMS_BYTES(n_blocks))

#define SL_CODEC_DRAIN_GRID 32u

struct sl_codec_job {
	uint64_t raw;     /* device addresses, multiples of 16: the raw bytes, */
	uint64_t encoded; /* the encoded bytes (room for sl_codec_bound()), */
	uint64_t plans; /* and, to encode, scratch memory: a struct sl_codec_plan for each block, */
	uint64_t table; /* and SL_CODEC_TABLE_BYTES: the table, and the units of each thread block's
			 * blocks, in 2 bytes */
	uint64_t drain; /* where the drain kernel puts them; 0: there is none. What is not worth encoding is raw there, and
			 * encoded has room for encoded_bytes only */
	uint64_t encoded_bytes; /* decode: how many are there. Encode: most_bytes of sl_codec_is_stored() */
	uint32_t n_blocks;
	uint32_t check; /* 1: checking mode */
	/* Set to 0, 0 and UINT32_MAX before. */
	uint64_t checksum; /* decode: of what was decoded. To compare with the header's */
	uint32_t units;    /* encode: of all blocks */
	uint32_t damaged; /* decode: the lowest damaged block; n_blocks: header or table */
	uint64_t answer; /* of a struct sl_codec_answer in memory that the host sees as well; 0: none */
};

/* Set before the launch as the fields of the job. */
struct sl_codec_answer {
	uint32_t units;   /* encode: of the drain kernel */
	uint32_t damaged; /* decode: any damaged block */
};

#endif
