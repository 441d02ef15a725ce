/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that are encoded on their way out of the device, and decoded on their way in: fewer bytes cross
 * the link. docs/design/codec.md has the format, codec/job.h the kernels.
 *
 *   out   slab --encode--> staging --drain--> frame
 *   in    frame --copy in--> staging --decode--> slab
 *
 * Encodes and decodes have a queue of numbers each, like copies of each direction. A kernel drains staging to host
 * memory, as the GPU alone knows how many bytes there are. So the host enqueues all of a chunk's way out at once,
 * and waits for nothing. What is not worth encoding is drained from its slab. A slab is free when that is done.
 *
 * Staging is a few pieces of device memory for each direction. A chunk waits on its stream for what had its piece.
 *
 * If the program's kernels leave ours no room, the raw copy is faster. Then the first chunk on its way has been so
 * for long, and more are refused.
 *
 * The kernels are loaded before the first chunk is encoded. If the driver refuses them, that is remembered, and
 * nothing is encoded.
 *
 * Threads: any. moves.lock is held to enqueue.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/nvtx.h"
#include "base/size.h"
#include "codec/codec.h"
#include "codec/format.h"
#include "codec/job.h"
#include "device/cuda/codec_kernels.h"
#include "device/cuda/cuda.h"

#define JOB_BYTES 128u /* of staging, for a job */

/* Three times as long as the raw copy of 32 MiB takes. Encoding and draining takes about as long as that copy, unless
 * other kernels have the GPU. */
#define STALL_NS UINT64_C(2000000)

/* A piece of staging. */
struct cuda_staged {
	struct cuda_slab slab; /* what moves need of it: address, numbers */
	uint64_t plans, table; /* scratch memory of the encoder */
	uint64_t job;
	struct cu_event *encoded; /* out */
};

/* ---- kernels and staging ---------------------------------------------------------------- */

void
sl_cuda_codec_init(struct cuda *cuda)
{
	sl_mutex_init(&cuda->codec.lock, SL_RANK_STREAM);
}

void
sl_cuda_codec_fini(struct cuda *cuda)
{
	struct cuda_codec *codec = &cuda->codec;
	const struct sl_cuda_driver *driver = cuda->driver;
	struct cu_stream **streams[] = {&codec->encodes, &codec->drains, &codec->decodes};

	for (unsigned i = 0; i < 3; i++) {
		if (*streams[i]) {
			(void)driver->cuStreamSynchronize(*streams[i]);
			(void)driver->cuStreamDestroy(*streams[i]);
		}
		*streams[i] = NULL;
	}
	sl_cuda_move_events_destroy(cuda, codec->event[0]);
	sl_cuda_move_events_destroy(cuda, codec->event[1]);
	for (unsigned i = 0; codec->staged && i < codec->n_out; i++)
		if (codec->staged[i].encoded)
			(void)driver->cuEventDestroy(codec->staged[i].encoded);
	if (codec->staging.alias)
		sl_cuda_memory_free(cuda, codec->staging.bytes, codec->staging.handle,
				    codec->staging.alias);
	codec->staging.alias = 0;
	free(codec->staged);
	codec->staged = NULL;
	if (codec->answers)
		(void)driver->cuMemFreeHost(codec->answers);
	codec->answers = NULL;
	if (codec->module)
		(void)driver->cuModuleUnload(codec->module);
	codec->module = NULL;
}

/* Where the host reads what became of a move. Of those under way in a queue each has its own. */
static struct sl_codec_answer *
answer_of(const struct cuda_codec *codec, enum sl_move_queue queue, uint64_t number)
{
	unsigned first = queue == SL_ENCODES ? 0 : SL_CUDA_MOVES;

	return (struct sl_codec_answer *)codec->answers + first + number % SL_CUDA_MOVES;
}

static int
kernels_load(struct cuda *cuda)
{
	struct cuda_codec *codec = &cuda->codec;
	const struct {
		const char *name;
		struct cu_function **function;
	} kernels[] = {{SL_CODEC_JOB_KERNEL, &codec->put},
		       {SL_CODEC_PLAN_KERNEL, &codec->plan},
		       {SL_CODEC_WRITE_KERNEL, &codec->write},
		       {SL_CODEC_DRAIN_KERNEL, &codec->drain},
		       {SL_CODEC_DECODE_KERNEL, &codec->decode}};
	int rc = CUDA_TRY(cuda, cuModuleLoadData, &codec->module, sl_codec_kernels);

	for (unsigned i = 0; i < sizeof(kernels) / sizeof(*kernels) && !rc; i++)
		rc = CUDA_TRY(cuda, cuModuleGetFunction, kernels[i].function,
			      codec->module, kernels[i].name);
	if (rc && !atomic_load(&cuda->lost))
		rc = sl_fail(
			-ENOTSUP,
			"device: the codec's kernels are not to be had: the library was "
			"built without nvcc, or the GPU is older than compute capability "
			"7.5");
	return rc;
}

_Static_assert(sizeof(struct sl_codec_job) <= JOB_BYTES, "a job's place in staging");

/* What takes more when it is encoded goes as it is; so does what does not fit into its frame. */
static uint64_t
most_bytes_of(uint64_t bytes, unsigned worth_parts)
{
	uint64_t most = bytes / SL_CODEC_WORTH_ALL * worth_parts;

	return most < bytes ? most : bytes - 1;
}

static uint32_t
blocks_of(uint64_t bytes)
{
	return (uint32_t)(bytes / SL_CODEC_BLOCK_BYTES);
}

/* Where in a piece of staging the encoder's plans begin: behind what a chunk can become. */
static uint64_t
plans_at(const struct cuda_codec *codec)
{
	return sl_round_up(most_bytes_of(codec->chunk_bytes, codec->most_parts), JOB_BYTES);
}

/* The table and the job are behind the plans. */
static uint64_t
table_at(const struct cuda_codec *codec)
{
	uint64_t plans = blocks_of(codec->chunk_bytes) * sizeof(struct sl_codec_plan);

	return plans_at(codec) + sl_round_up(plans, JOB_BYTES);
}

static uint64_t
job_at(const struct cuda_codec *codec)
{
	uint64_t table = SL_CODEC_TABLE_BYTES(blocks_of(codec->chunk_bytes));

	return table_at(codec) + sl_round_up(table, JOB_BYTES);
}

/* So many pieces fit into staging. */
static unsigned
staged_fit(const struct cuda_codec *codec, uint64_t staging_bytes)
{
	uint64_t each = job_at(codec) + JOB_BYTES;
	unsigned n = SL_CUDA_STAGED_MAX;

	while (n && sl_round_up(n * each, SL_GRANULE_BYTES) > staging_bytes)
		n--;
	return n;
}

/* Of n pieces half are for the way out, and the others for the way in. */
static int
staging_make(struct cuda *cuda, unsigned n)
{
	struct cuda_codec *codec = &cuda->codec;
	uint64_t each = job_at(codec) + JOB_BYTES;
	int rc;

	codec->n_out = n / 2;
	codec->n_in = n - n / 2;
	codec->staging.bytes = sl_round_up(n * each, SL_GRANULE_BYTES);
	codec->staged = sl_calloc(n, sizeof(*codec->staged));
	if (!codec->staged)
		return sl_fail(-ENOMEM, "device: out of memory");
	rc = sl_cuda_memory_make(cuda, codec->staging.bytes, 0, &codec->staging.handle,
				 &codec->staging.alias);
	if (rc)
		codec->staging.alias = 0;
	for (unsigned i = 0; i < n && !rc; i++) {
		struct cuda_staged *staged = &codec->staged[i];

		staged->slab.alias = codec->staging.alias + i * each;
		staged->plans = staged->slab.alias + plans_at(codec);
		staged->table = staged->slab.alias + table_at(codec);
		staged->job = staged->slab.alias + job_at(codec);
		if (i < codec->n_out)
			rc = CUDA_TRY(cuda, cuEventCreate, &staged->encoded,
				      CU_EVENT_UNTIMED);
	}
	return rc;
}

static int
coder_launch(struct cuda *cuda, struct cu_function *kernel, struct cu_stream *stream,
	     uint64_t job, uint32_t grid)
{
	void *params[] = {&job};

	return CUDA_TRY(cuda, cuLaunchKernel, kernel, grid, 1, 1, SL_CODEC_THREADS, 1, 1,
			0, stream, params, NULL);
}

/* The job of a move, to its place in a piece of staging. */
static int
job_put(struct cuda *cuda, struct cu_stream *stream, const struct cuda_staged *staged,
	struct sl_codec_job *job, enum sl_move_queue queue, uint64_t number)
{
	struct sl_codec_answer *answer = answer_of(&cuda->codec, queue, number);
	uint64_t to = staged->job;
	void *params[] = {job, &to};

	*answer = (struct sl_codec_answer){.damaged = UINT32_MAX};
	job->answer = (uintptr_t)answer;
	job->damaged = UINT32_MAX;
	return CUDA_TRY(cuda, cuLaunchKernel, cuda->codec.put, 1, 1, 1, 1, 1, 1, 0,
			stream, params, NULL);
}

/* Encode bytes at raw into a piece of staging, if they become at most most_bytes, and drain that to host memory. */
static int
encode_launch(struct cuda *cuda, const struct cuda_staged *staged, uint64_t raw,
	      uint64_t bytes, uint64_t most_bytes, const void *drain, uint64_t number)
{
	struct cuda_codec *codec = &cuda->codec;
	struct sl_codec_job job = {.raw = raw,
				   .encoded = staged->slab.alias,
				   .plans = staged->plans,
				   .table = staged->table,
				   .drain = (uintptr_t)drain,
				   .encoded_bytes = most_bytes,
				   .n_blocks = blocks_of(bytes),
				   .check = 1};
	uint32_t grid = SL_CODEC_GRID(job.n_blocks);
	int rc = job_put(cuda, codec->encodes, staged, &job, SL_ENCODES, number);

	if (!rc)
		rc = coder_launch(cuda, codec->plan, codec->encodes, staged->job, grid);
	if (!rc)
		rc = coder_launch(cuda, codec->write, codec->encodes, staged->job, grid);
	if (!rc)
		rc = CUDA_TRY(cuda, cuEventRecord, staged->encoded, codec->encodes);
	if (!rc)
		rc = CUDA_TRY(cuda, cuStreamWaitEvent, codec->drains, staged->encoded, 0);
	return rc ? rc
		  : coder_launch(cuda, codec->drain, codec->drains, staged->job,
				 SL_CODEC_DRAIN_GRID);
}

/* Decode what is in a piece of staging to bytes at raw. */
static int
decode_launch(struct cuda *cuda, const struct cuda_staged *staged, uint64_t encoded_bytes,
	      uint64_t raw, uint64_t bytes, uint64_t number)
{
	struct cuda_codec *codec = &cuda->codec;
	struct sl_codec_job job = {.raw = raw,
				   .encoded = staged->slab.alias,
				   .encoded_bytes = encoded_bytes,
				   .n_blocks = blocks_of(bytes)};
	int rc = job_put(cuda, codec->decodes, staged, &job, SL_DECODES, number);

	return rc ? rc
		  : coder_launch(cuda, codec->decode, codec->decodes, staged->job,
				 SL_CODEC_GRID(job.n_blocks));
}

/* Each kernel runs once, over zeros: its first launch loads it, which may wait for kernels that run. */
static int
kernels_warm(struct cuda *cuda, void *drain)
{
	struct cuda_codec *codec = &cuda->codec;
	const struct cuda_staged *staged = codec->staged;
	uint64_t raw = codec->staged[codec->n_out].slab.alias;
	int rc = CUDA_TRY(cuda, cuMemsetD8Async, raw, 0, SL_CODEC_BLOCK_BYTES,
			  codec->encodes);

	if (!rc)
		rc = encode_launch(cuda, staged, raw, SL_CODEC_BLOCK_BYTES,
				   SL_CODEC_BLOCK_BYTES - 1, drain, 0);
	if (!rc)
		rc = CUDA_TRY(cuda, cuStreamSynchronize, codec->drains);
	if (!rc)
		rc = decode_launch(cuda, staged,
				   sl_codec_coded_bytes(1, answer_of(codec, SL_ENCODES, 0)->units),
				   raw, SL_CODEC_BLOCK_BYTES, 0);
	if (!rc)
		rc = CUDA_TRY(cuda, cuStreamSynchronize, codec->decodes);
	if (!rc && answer_of(codec, SL_DECODES, 0)->damaged != UINT32_MAX)
		rc = sl_fail(-EBADMSG,
			     "device: the codec's kernels do not read what they write");
	return rc;
}

static int
codec_make(struct cuda *cuda, unsigned n_staged)
{
	struct cuda_codec *codec = &cuda->codec;
	size_t answers = 2 * SL_CUDA_MOVES * sizeof(struct sl_codec_answer);
	int rc = kernels_load(cuda);

	/* Behind the answers is where the first encode is drained to. */
	if (!rc)
		rc = CUDA_TRY(cuda, cuMemHostAlloc, &codec->answers,
			      answers + SL_CODEC_BLOCK_BYTES, CU_HOST_ALLOC_PORTABLE);
	if (!rc)
		rc = staging_make(cuda, n_staged);
	if (!rc)
		rc = sl_cuda_move_stream(cuda, &codec->encodes);
	if (!rc)
		rc = sl_cuda_move_stream(cuda, &codec->drains);
	if (!rc)
		rc = sl_cuda_move_stream(cuda, &codec->decodes);
	for (unsigned i = 0; i < 2 && !rc; i++)
		rc = sl_cuda_move_events(cuda, codec->event[i]);
	return rc ? rc : kernels_warm(cuda, (char *)codec->answers + answers);
}

/* codec->lock held. */
static int
codec_prepare(struct cuda *cuda, uint64_t chunk_bytes, uint64_t staging_bytes,
	      unsigned most_parts)
{
	struct cuda_codec *codec = &cuda->codec;
	unsigned n;
	int rc;

	if (codec->ready < 0)
		return sl_fail(codec->ready,
			       "device: compression could not be set up before");
	if (codec->ready)
		return 0;
	codec->chunk_bytes = chunk_bytes;
	codec->most_parts = most_parts;
	n = staged_fit(codec, staging_bytes);
	if (n < 2)
		return sl_fail(-ENOSPC, "device: %llu bytes of staging do not hold two chunks of %llu",
			       (unsigned long long)staging_bytes,
			       (unsigned long long)chunk_bytes);
	rc = codec_make(cuda, n);
	codec->ready = rc ? rc : 1;
	if (!rc)
		return 0;
	sl_fail_in(rc, "device: compression");
	sl_cuda_codec_fini(cuda);
	return rc;
}

int
sl_cuda_codec_prepare(struct sl_device *dev, uint64_t chunk_bytes, uint64_t staging_bytes,
		      unsigned most_parts)
{
	struct cuda *cuda = sl_cuda_of(dev);
	int rc = sl_cuda_enter(cuda);

	if (rc)
		return rc;
	sl_mutex_lock(&cuda->codec.lock);
	rc = codec_prepare(cuda, chunk_bytes, staging_bytes, most_parts);
	sl_mutex_unlock(&cuda->codec.lock);
	sl_cuda_leave(cuda);
	return rc;
}

/* ---- out ---------------------------------------------------------------------------------- */

/*
 * Whether the first one on its way has been so for long. If the GPU has done it, who tells is late: the next one that
 * it has not done is the first from now on. moves.lock held, context entered.
 */
static int
encodes_stall(struct cuda *cuda, uint64_t now)
{
	struct cuda_codec *codec = &cuda->codec;
	const struct sl_timeline *line = &cuda->progress.queue[SL_ENCODES];
	uint64_t issued = atomic_load_explicit(&line->issued, memory_order_relaxed);
	uint64_t told = atomic_load_explicit(&line->done, memory_order_acquire);
	uint64_t before;

	if (now - codec->first_ns < STALL_NS)
		return 0;
	if (codec->encoded < told)
		codec->encoded = told;
	before = codec->encoded;
	while (codec->encoded < issued &&
	       !cuda->driver->cuEventQuery(
		       codec->event[0][(codec->encoded + 1) % SL_CUDA_MOVES]))
		codec->encoded++;
	if (codec->encoded == before && codec->encoded < issued)
		return 1;
	codec->first_ns = now;
	return 0;
}

/* Whether one more may be on its way out: it counts as such then. Context entered. */
static int
encode_claim(struct cuda *cuda)
{
	struct cuda_codec *codec = &cuda->codec;
	uint64_t now = sl_now_ns();
	int may;

	sl_mutex_lock(&cuda->moves.lock);
	may = !codec->n_encodes ||
	      (codec->n_encodes < SL_CUDA_MOVES && !encodes_stall(cuda, now));
	if (may && !codec->n_encodes++)
		codec->first_ns = now;
	sl_mutex_unlock(&cuda->moves.lock);
	return may;
}

/* One of them is over: there is another first one. */
static void
encode_unclaim(struct cuda *cuda)
{
	sl_mutex_lock(&cuda->moves.lock);
	cuda->codec.n_encodes--;
	cuda->codec.first_ns = sl_now_ns();
	sl_mutex_unlock(&cuda->moves.lock);
}

/* It is in its frame. On the thread of the completer outs. */
static void
coded_done(struct cuda_pending *pending, int rc)
{
	struct cuda_out *out = (struct cuda_out *)pending;
	uint32_t units = answer_of(&out->cuda->codec, SL_ENCODES, pending->number)->units;
	uint32_t n_blocks = blocks_of(out->bytes);

	out->frame->encoded_bytes = 0;
	out->frame->would_bytes = sl_codec_coded_bytes(n_blocks, units);
	if (!rc && !sl_codec_is_stored(n_blocks, units, out->most_bytes))
		out->frame->encoded_bytes = sl_codec_coded_bytes(n_blocks, units);
	sl_cuda_move_ended(out->cuda, SL_ENCODES, pending->number);
	encode_unclaim(out->cuda);
	sl_cuda_out_end(out, rc);
}

/* Encode slab into the next piece of staging, when that is drained, and drain it. moves.lock held. */
static int
encode_enqueue(struct cuda_out *out, struct cuda_slab *slab, struct sl_fence after)
{
	struct cuda *cuda = out->cuda;
	struct cuda_codec *codec = &cuda->codec;
	const struct cuda_staged *staged;
	uint64_t number;
	int rc = sl_cuda_move_next(cuda, SL_ENCODES, &number);

	staged = &codec->staged[number % codec->n_out];
	if (!rc && number > codec->n_out)
		rc = sl_cuda_fence_gate(cuda, codec->encodes,
					sl_fence_make(SL_ENCODES, number - codec->n_out));
	if (!rc)
		rc = sl_cuda_fence_gate(cuda, codec->encodes, after);
	if (!rc)
		rc = encode_launch(cuda, staged, slab->alias, out->bytes, out->most_bytes,
				   out->frame->data, number);
	if (!rc)
		rc = sl_cuda_move_number(cuda, SL_ENCODES, number, codec->drains, slab);
	else {
		(void)cuda->driver->cuStreamSynchronize(codec->encodes);
		(void)cuda->driver->cuStreamSynchronize(codec->drains);
	}
	out->pending.number = number;
	out->pending.event = codec->event[0][number % SL_CUDA_MOVES];
	return rc;
}

static int
coded_enqueue(struct cuda_out *out, struct cuda_slab *slab, struct sl_fence after)
{
	int rc;

	sl_mutex_lock(&out->cuda->moves.lock);
	rc = encode_enqueue(out, slab, after);
	sl_mutex_unlock(&out->cuda->moves.lock);
	return rc;
}

int
sl_cuda_codec_absent_start(struct sl_device *dev, void *addr, uint64_t bytes,
			   unsigned worth_parts, struct sl_frame *frame,
			   void (*done)(void *cookie, int rc), void *cookie)
{
	struct cuda *cuda = sl_cuda_of(dev);
	struct cuda_codec *codec = &cuda->codec;
	const struct cuda_out what = {.pending = {.done = coded_done},
				      .cuda = cuda,
				      .frame = frame,
				      .bytes = bytes,
				      .most_bytes = most_bytes_of(bytes, worth_parts),
				      .done = done,
				      .cookie = cookie};
	int rc;

	if (codec->ready <= 0 || bytes > codec->chunk_bytes || worth_parts > codec->most_parts)
		return sl_fail(-ENOTSUP,
			       "device: compression was not set up for chunks of %llu",
			       (unsigned long long)bytes);
	rc = sl_cuda_enter(cuda);
	if (rc)
		return rc;
	rc = encode_claim(cuda) ? 0 : -EBUSY;
	if (!rc) {
		rc = sl_cuda_out_start(addr, &what, coded_enqueue, &codec->out_queue);
		if (rc)
			encode_unclaim(cuda);
	}
	sl_cuda_leave(cuda);
	if (!rc && sl_nvtx_listens())
		sl_nvtx_mark("encode", bytes);
	return rc;
}

/* ---- in ----------------------------------------------------------------------------------- */

/* Decode what is in staging into slab. moves.lock held. */
static int
decode_enqueue(struct cuda *cuda, struct cuda_slab *slab, struct cuda_staged *staged,
	       uint64_t encoded_bytes, uint64_t bytes)
{
	struct cuda_codec *codec = &cuda->codec;
	uint64_t number;
	unsigned slot;
	int rc = sl_cuda_move_next(cuda, SL_DECODES, &number);

	if (!rc)
		rc = sl_cuda_fence_gate(cuda, codec->decodes, staged->slab.last);
	if (!rc)
		rc = sl_cuda_fence_gate(cuda, codec->decodes, slab->last);
	if (rc)
		return rc;
	rc = decode_launch(cuda, staged, encoded_bytes, slab->alias, bytes, number);
	if (rc)
		(void)cuda->driver->cuStreamSynchronize(codec->decodes);
	if (!rc)
		rc = sl_cuda_move_number(cuda, SL_DECODES, number, codec->decodes, slab);
	if (rc)
		return rc;
	slot = number % SL_CUDA_MOVES;
	atomic_store_explicit(&codec->decode_copy[slot], staged->slab.move[SL_COPIES_IN],
			      memory_order_release);
	staged->slab.last = slab->last;
	return 0;
}

int
sl_cuda_codec_in(struct cuda *cuda, struct cuda_slab *slab, const struct sl_frame *frame,
		 uint64_t bytes, uint64_t *move)
{
	struct cuda_codec *codec = &cuda->codec;
	struct cuda_staged *staged;
	int rc;

	sl_mutex_lock(&cuda->moves.lock);
	staged = &codec->staged[codec->n_out + codec->next_in++ % codec->n_in];
	rc = sl_cuda_move_in_locked(cuda, &staged->slab, frame, frame->encoded_bytes, move);
	if (!rc)
		rc = decode_enqueue(cuda, slab, staged, frame->encoded_bytes, bytes);
	sl_mutex_unlock(&cuda->moves.lock);
	return rc;
}

int
sl_cuda_codec_check(struct cuda *cuda, uint64_t from, uint64_t to)
{
	for (uint64_t number = from + 1; number <= to; number++) {
		uint32_t damaged = answer_of(&cuda->codec, SL_DECODES, number)->damaged;

		if (damaged != UINT32_MAX)
			return sl_fail(
				-EBADMSG,
				"device: block %u of an encoded chunk in host memory is "
				"damaged",
				damaged);
	}
	return 0;
}

/* ---- on the host -------------------------------------------------------------------------- */

/* Encoded bytes in frames of a granule each. */
struct packed {
	struct sl_frame frame; /* first */
	unsigned n;
	struct sl_frame **piece;
	void *data[]; /* of each: frame.pieces */
};

static void
packed_free(struct sl_device *dev, struct packed *packed)
{
	for (unsigned i = 0; i < packed->n; i++)
		sl_cuda_frame_put(dev, packed->piece[i]);
	free(packed->piece);
	free(packed);
}

void
sl_cuda_packed_put(struct sl_device *dev, struct sl_frame *frame)
{
	packed_free(dev, frame->private);
}

void
sl_cuda_packed_read(const struct sl_frame *frame, uint64_t move)
{
	const struct packed *packed = frame->private;

	for (unsigned i = 0; i < packed->n; i++)
		atomic_store(&((struct cuda_frame *)packed->piece[i]->private)->in_move,
			     move);
}

int
sl_cuda_codec_pack(struct sl_device *dev, struct sl_frame *frame, struct sl_frame **out)
{
	uint64_t bytes = sl_round_up(frame->encoded_bytes, SL_GRANULE_BYTES);
	unsigned n = (unsigned)(bytes / SL_GRANULE_BYTES);
	struct packed *packed;
	int rc = 0;

	if (frame->pieces || !n || bytes >= frame->bytes)
		return -ENOSPC;
	packed = sl_calloc(1, sizeof(*packed) + n * sizeof(packed->data[0]));
	if (packed)
		packed->piece = sl_calloc(n, sizeof(struct sl_frame *));
	if (!packed || !packed->piece) {
		free(packed);
		return sl_fail(-ENOMEM, "device: out of memory");
	}
	packed->frame = (struct sl_frame){.bytes = bytes,
					  .private = packed,
					  .encoded_bytes = frame->encoded_bytes,
					  .pieces = packed->data};
	while (packed->n < n && !rc) {
		unsigned i = packed->n;
		uint64_t at = i * (uint64_t)SL_GRANULE_BYTES,
			 left = frame->encoded_bytes - at;

		rc = sl_cuda_frame_get(dev, SL_GRANULE_BYTES, &packed->piece[i]);
		if (rc)
			break;
		packed->n++;
		packed->data[i] = packed->piece[i]->data;
		memcpy(packed->data[i], (const char *)frame->data + at,
		       left < SL_GRANULE_BYTES ? left : SL_GRANULE_BYTES);
	}
	if (rc) {
		packed_free(dev, packed);
		return rc;
	}
	sl_cuda_frame_put(dev, frame);
	*out = &packed->frame;
	return 0;
}

/* The bytes of a packed frame in a row, which the caller frees. */
static void *
packed_gather(const struct sl_frame *frame)
{
	char *bytes = sl_malloc(frame->bytes);

	for (uint64_t at = 0; bytes && at < frame->bytes; at += SL_GRANULE_BYTES)
		memcpy(bytes + at, frame->pieces[at / SL_GRANULE_BYTES], SL_GRANULE_BYTES);
	return bytes;
}

int
sl_cuda_codec_decode(struct sl_device *dev, const struct sl_frame *frame, struct sl_frame *to)
{
	void *gathered = frame->pieces ? packed_gather(frame) : NULL;
	int rc = 0;

	(void)dev;
	if (frame->pieces && !gathered)
		rc = sl_fail(-ENOMEM, "device: out of memory");
	if (!rc)
		rc = sl_codec_decode(gathered ? gathered : frame->data,
				     frame->encoded_bytes, 0, to->data, to->bytes);
	free(gathered);
	return rc;
}
