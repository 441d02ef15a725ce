/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C twins of the codec's kernels (codec/codec.cu) for the stand-in, which knows them without registration: the
 * host's codec does a whole job in the first block of its row. cli/codec_twin.c runs the kernels themselves.
 *
 * Threads: any; one block a call.
 */
#ifndef SL_TESTS_STANDIN_CODEC_TWIN_H
#define SL_TESTS_STANDIN_CODEC_TWIN_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/codec.h"
#include "codec/format.h"
#include "codec/job.h"
#include "codec_stored.h"
#include "standin.h"

typedef void *codec_twin_ptr(const struct sl_standin_block *b, uint64_t addr,
			     size_t bytes, int access);

/* The job of this block; NULL: another one does it. */
static inline struct sl_codec_job *
codec_twin_job(const struct sl_standin_block *b, void *const *params, codec_twin_ptr *ptr)
{
	uint64_t jobs;

	if (b->index[0])
		return NULL;
	memcpy(&jobs, params[0], sizeof(jobs));
	return ptr(b, jobs + b->index[1] * sizeof(struct sl_codec_job),
		   sizeof(struct sl_codec_job), SL_STANDIN_READ | SL_STANDIN_WRITE);
}

/* Encoded bytes, which the caller frees; how many, and the units of all blocks. */
static inline void *
codec_twin_encode(const struct sl_standin_block *b, const struct sl_codec_job *job,
		  codec_twin_ptr *ptr, size_t *n, uint32_t *units)
{
	size_t bytes = (size_t)job->n_blocks * SL_CODEC_BLOCK_BYTES;
	void *out = malloc(sl_codec_bound(bytes));
	const void *raw = ptr(b, job->raw, bytes, SL_STANDIN_READ);
	struct sl_codec_header header;

	if (!out || sl_codec_encode(raw, bytes, job->check ? SL_CODEC_CHECK : 0, out,
				    sl_codec_bound(bytes), n)) {
		fputs("stand-in driver: the codec's twin cannot encode\n", stderr);
		abort();
	}
	memcpy(&header, out, sizeof(header));
	*units = header.flags & SL_CODEC_IS_STORED ? job->n_blocks * SL_CODEC_BLOCK_UNITS
						   : header.units;
	*n = codec_store_over(out, *n, job->encoded_bytes, raw, bytes);
	return out;
}

static inline int
codec_twin_is_stored(const struct sl_codec_job *job)
{
	return sl_codec_is_stored(job->n_blocks, job->units, job->encoded_bytes);
}

static inline void
codec_twin_put(const struct sl_standin_block *b, void *const *params, codec_twin_ptr *ptr)
{
	uint64_t to;

	memcpy(&to, params[1], sizeof(to));
	memcpy(ptr(b, to, sizeof(struct sl_codec_job), SL_STANDIN_WRITE), params[0],
	       sizeof(struct sl_codec_job));
}

/* Where the host is to see answers. */
static inline struct sl_codec_answer *
codec_twin_answer(const struct sl_standin_block *b, const struct sl_codec_job *job,
		  codec_twin_ptr *ptr)
{
	return ptr(b, job->answer, sizeof(struct sl_codec_answer), SL_STANDIN_WRITE);
}

static inline void
codec_twin_plan(const struct sl_standin_block *b, void *const *params, codec_twin_ptr *ptr)
{
	struct sl_codec_job *job = codec_twin_job(b, params, ptr);
	struct sl_codec_header header;
	size_t n;
	void *out;

	if (!job)
		return;
	out = codec_twin_encode(b, job, ptr, &n, &job->units);
	memcpy(&header, out, sizeof(header));
	job->checksum = header.checksum;
	free(out);
}

static inline void
codec_twin_write(const struct sl_standin_block *b, void *const *params, codec_twin_ptr *ptr)
{
	struct sl_codec_job *job = codec_twin_job(b, params, ptr);
	uint32_t units;
	size_t n;
	void *out;

	if (!job)
		return;
	out = codec_twin_encode(b, job, ptr, &n, &units);
	if (!job->drain || !codec_twin_is_stored(job))
		memcpy(ptr(b, job->encoded, n, SL_STANDIN_WRITE), out, n);
	free(out);
}

static inline void
codec_twin_drain(const struct sl_standin_block *b, void *const *params, codec_twin_ptr *ptr)
{
	struct sl_codec_job *job = codec_twin_job(b, params, ptr);
	int stored = job && codec_twin_is_stored(job);
	size_t n;

	if (!job)
		return;
	n = stored ? (size_t)job->n_blocks * SL_CODEC_BLOCK_BYTES
		   : sl_codec_coded_bytes(job->n_blocks, job->units);
	memcpy(ptr(b, job->drain, n, SL_STANDIN_WRITE),
	       ptr(b, stored ? job->raw : job->encoded, n, SL_STANDIN_READ), n);
	if (job->answer)
		codec_twin_answer(b, job, ptr)->units = job->units;
}

static inline void
codec_twin_decode(const struct sl_standin_block *b, void *const *params, codec_twin_ptr *ptr)
{
	struct sl_codec_job *job = codec_twin_job(b, params, ptr);
	size_t bytes;

	if (!job)
		return;
	bytes = (size_t)job->n_blocks * SL_CODEC_BLOCK_BYTES;
	if (sl_codec_decode(ptr(b, job->encoded, job->encoded_bytes, SL_STANDIN_READ),
			    job->encoded_bytes, job->check ? SL_CODEC_CHECK : 0,
			    ptr(b, job->raw, bytes, SL_STANDIN_WRITE), bytes))
		job->damaged = 0;
	if (job->damaged != UINT32_MAX && job->answer)
		codec_twin_answer(b, job, ptr)->damaged = job->damaged;
}

#endif
