/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that cross the link encoded (devices with codec): whether one is encoded on its way out, and frames
 * that must be as they are. A frame in the host tier stays encoded until its chunk goes back, which the device
 * decodes, or the host needs its bytes: to show them to host code, or to have kernels reach them. Where the tier is
 * short, encoded frames are packed. A spill extent takes the encoded bytes. Data of files are not encoded.
 *
 * Automatic encoding asks:
 * - Is the link in use, or was it lately? An idle one is faster without. Where the host tier is short, the disk has
 *   fewer bytes to write and to read back, whatever the link does.
 * - Did this chunk become smaller by a quarter last time, and did nobody want it as it is? If not, it goes as it is
 *   the next 1, 2, 4 .. 64 times. An eighth is enough where the disk has taken part, or is about to, and for programs
 *   of which no trial has shown otherwise (predict/autotune.c).
 * - Does nobody want other chunks as they are, of which that was not known? Kernels that are launched for the first
 *   time do. Else all go as they are for a while, and longer with each that the host had to decode.
 *
 * Data that are only read go out once. They may have gone as they are: the GPU was full, or the link idle. So such a
 * chunk is encoded when it is to be dropped, if nothing else is on its way out then.
 *
 * The device refuses one where the last ones take long: then kernels leave ours no room, and the raw copy is faster.
 *
 * With `always` the device is made ready with the space. Automatic encoding begins when something has left: a thread
 * makes it ready, and nobody waits. A program that fits has no cost.
 *
 * LOCKING: as in state.h.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/transfer/transfer.h"

/* The link counts as in use for so long after it was. What is evicted when its room is wanted often finds the copies
 * before it done. Shorter: that goes as it is, and comes back so, when the link is full. Longer: programs that move
 * little give the GPU for nothing. gpt took 1.11 s with 0, 1.02 with this, and 1.01 with 100 ms (H200). */
#define IN_USE_NS    UINT64_C(10000000)
#define STEP_MAX     7u /* 64 times */
/* So many chunks together gain as much by encoding as it takes the host to decode one: 60 ms and 0.3 ms for 32 MiB. */
#define RESTS        200u
/* At most so many: 125 GiB. What wanted its data as they are may be over: a beginning, or a check. */
#define RESTS_MAX    4000u
/* Staging takes such a part of the device budget, and at most so much. Smaller: copies and kernels wait for each
 * other. Larger: the program has less. Who wants it always has it with small budgets, too. */
#define STAGING_PART 50u
#define ALWAYS_PART  8u
#define STAGING_MAX  ((uint64_t)256 << 20)
/* A chunk of which more than such a part is left goes as it is, and so back. Kernels that decode wait for a program's
 * that have the GPU. Of bf16 0.68 to 0.72 are left, of fp32 0.85. With 14 parts matmul took 1.06 of the raw time on
 * an H100 (12: 1.00) and gpt 0.87 (12: 0.90). The disk takes ten times as long as the kernels. More parts would take
 * more staging, and tensors have nothing between 0.87 and 1. */
#define SMALL_PARTS  12u /* of SL_CODEC_WORTH_ALL */
#define MEDIUM_PARTS 14u

/* Blocks on the driver, and on kernels. */
static int
encoder_make(struct sluice_space *s)
{
	int always = s->config.compress == SLUICE_COMPRESS_ALWAYS, rc;
	uint64_t staging = s->config.device_budget_bytes /
			   (always ? ALWAYS_PART : STAGING_PART);

	if (staging > STAGING_MAX)
		staging = STAGING_MAX;
	rc = s->device->codec->prepare(s->device, s->config.large_chunk_bytes, staging,
				       always ? SL_CODEC_WORTH_ALL : MEDIUM_PARTS);
	if (rc)
		sl_log_once("encode", SL_INFO, "encode",
			    "%s: what crosses the link is not compressed",
			    sluice_last_error());
	return rc;
}

static void *
encoder_main(void *arg)
{
	struct sluice_space *s = arg;
	int rc = encoder_make(s);

	sl_space_lock(s);
	s->encoder.state = rc ? SL_ENCODER_NONE : SL_ENCODER_READY;
	sl_space_unlock(s);
	return NULL;
}

/* Something leaves for the first time. It does not wait. */
SL_HELD static void
encoder_begin(struct sluice_space *s)
{
	s->encoder.state = SL_ENCODER_BEGUN;
	s->encoder.begun = !sl_thread_begin(&s->encoder.thread, "sluice-encoder",
					    encoder_main, s);
	if (!s->encoder.begun)
		s->encoder.state = SL_ENCODER_NONE;
}

void
sl_encode_prepare(struct sluice_space *s)
{
	if (!s->device->codec || s->config.compress == SLUICE_COMPRESS_NEVER)
		return;
	s->encoder.state = SL_ENCODER_IDLE;
	if (s->config.compress == SLUICE_COMPRESS_ALWAYS)
		s->encoder.state = encoder_make(s) ? SL_ENCODER_NONE : SL_ENCODER_READY;
}

void
sl_encode_end(struct sluice_space *s)
{
	if (s->encoder.begun)
		pthread_join(s->encoder.thread, NULL);
}

/* One more chunk of this size has no room in it: something goes to the disk. */
SL_HELD static int
host_is_short(const struct sluice_space *s, uint64_t bytes)
{
	return s->host.settled_bytes + bytes > s->host.budget_bytes;
}

/* The largest that is worth it, of a chunk of so many bytes. */
SL_HELD static enum sl_encode_size
size_worth(const struct sluice_space *s, uint64_t bytes)
{
	if (s->config.compress == SLUICE_COMPRESS_ALWAYS)
		return SL_ENCODE_LARGE;
	return s->encoder.more || s->spilled_bytes || host_is_short(s, bytes)
		       ? SL_ENCODE_MEDIUM
		       : SL_ENCODE_SMALL;
}

unsigned
sl_encode_worth(const struct sluice_space *s, uint64_t bytes)
{
	static const unsigned parts[] = {
		[SL_ENCODE_SMALL] = SMALL_PARTS, [SL_ENCODE_MEDIUM] = MEDIUM_PARTS, [SL_ENCODE_LARGE] = SL_CODEC_WORTH_ALL};

	return parts[size_worth(s, bytes)];
}

/* It went as it was for nothing else than its size, and that counts as small now. */
SL_HELD static int
encode_skips(const struct sl_chunk *c)
{
	return c->encode_skips &&
	       (c->encode_size == SL_ENCODE_UNKNOWN ||
		c->encode_size > size_worth(c->region->space, c->region->chunk_bytes));
}

int
sl_encode_runs(const struct sluice_space *s)
{
	return s->encoder.state == SL_ENCODER_READY && !s->own_stops;
}

/* The thread that made it ready ends as soon as it has said so. A process may end without sl_encode_end(). */
SL_HELD static void
encoder_join(struct sluice_space *s)
{
	if (!s->encoder.begun || s->encoder.state == SL_ENCODER_BEGUN)
		return;
	pthread_join(s->encoder.thread, NULL);
	s->encoder.begun = 0;
}

/* The same, where something is to be encoded. */
SL_HELD static int
encoder_runs(struct sluice_space *s)
{
	if (s->encoder.state == SL_ENCODER_IDLE && !s->own_stops)
		encoder_begin(s);
	encoder_join(s);
	return sl_encode_runs(s);
}

SL_HELD static int
link_is_in_use(struct sluice_space *s)
{
	const struct sl_device *dev = s->device;
	uint64_t now = sl_now_ns();

	if (!sl_fence_is_done(dev, sl_fence_newest(dev, SL_COPIES_OUT)) ||
	    !sl_fence_is_done(dev, sl_fence_newest(dev, SL_COPIES_IN)))
		s->encoder.in_use_ns = now;
	return s->encoder.in_use_ns && now - s->encoder.in_use_ns < IN_USE_NS;
}

int
sl_encode_pays(struct sl_chunk *c)
{
	struct sl_region *r = c->region;
	struct sluice_space *s = r->space;

	/* Whoever writes a file needs its bytes as they are. An extent has a whole chunk's. */
	if (!encoder_runs(s) || s->moved_out || r->store ||
	    r->population != SLUICE_POPULATE_CHUNK ||
	    sl_chunk_valid_bytes(c) != r->chunk_bytes)
		return 0;
	if (s->config.compress == SLUICE_COMPRESS_ALWAYS)
		return 1;
	if (s->encoder.rests) {
		s->encoder.rests--;
		return 0;
	}
	if (encode_skips(c)) {
		c->encode_skips--;
		return 0;
	}
	return host_is_short(s, r->chunk_bytes) || link_is_in_use(s);
}

/* Nothing else waits for the way out. */
static int
outs_are_idle(const struct sl_device *dev)
{
	return sl_fence_is_done(dev, sl_fence_newest(dev, SL_COPIES_OUT)) &&
	       sl_fence_is_done(dev, sl_fence_newest(dev, SL_ENCODES));
}

int
sl_encode_pays_kept(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	const struct sl_host *h = c->host;

	return h && !h->frame->encoded_bytes && encoder_runs(s) && !encode_skips(c) &&
	       outs_are_idle(s->device) && sl_encode_pays(c);
}

int
sl_encode_is_large(const struct sl_chunk *c)
{
	const struct sluice_space *s = c->region->space;

	return sl_host_is_encoded(c) &&
	       c->encode_size > size_worth(s, c->region->chunk_bytes) &&
	       outs_are_idle(s->device);
}

/* It was not worth it, or was. */
SL_HELD static void
encode_learn(struct sl_chunk *c, int worth)
{
	if (worth)
		c->encode_step = 0;
	else if (c->encode_step < STEP_MAX)
		c->encode_step++;
	c->encode_skips = (uint8_t)(c->encode_step ? 1u << (c->encode_step - 1) : 0);
}

void
sl_encoded(struct sl_chunk *c, const struct sl_host *h)
{
	struct sluice_space *s = c->region->space;
	uint64_t bytes = h->frame->encoded_bytes, raw = h->frame->bytes;
	uint64_t part = raw / SL_CODEC_WORTH_ALL, would = h->frame->would_bytes;

	encode_learn(c, bytes != 0);
	c->encode_size = would <= part * SMALL_PARTS    ? SL_ENCODE_SMALL
			 : would <= part * MEDIUM_PARTS ? SL_ENCODE_MEDIUM
							: SL_ENCODE_LARGE;
	if (c->encode_size == SL_ENCODE_MEDIUM && s->config.compress == SLUICE_COMPRESS_AUTO)
		atomic_store_explicit(&s->encoder.may_more, 1, memory_order_relaxed);
	if (bytes)
		sl_count(s, SLUICE_COUNTER_COMPRESS_OUT_SAVED, raw - bytes);
}

void
sl_host_pack(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;
	struct sl_host *h = c->host;
	uint64_t bytes = h->frame->bytes;
	struct sl_frame *packed;
	int rc;

	if (!h->frame->encoded_bytes || h->frame->pieces || h->settled ||
	    !host_is_short(s, bytes))
		return;
	sl_space_unlock(s);
	rc = s->device->codec->pack(s->device, h->frame, &packed);
	sl_space_lock(s);
	if (rc)
		return; /* it takes the room of a chunk */
	h->frame = packed;
	s->host.staging_used_bytes -= bytes - packed->bytes;
	sl_host_wake(s);
}

void
sl_encode_unwanted(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	if (c->encode_step < STEP_MAX && s->encoder.rests < RESTS)
		s->encoder.rests = RESTS;
	c->encode_step = STEP_MAX;
	c->encode_skips = 1u << (STEP_MAX - 1);
	c->encode_size = SL_ENCODE_UNKNOWN;
}

int
sl_host_decode(struct sl_chunk *c)
{
	struct sluice_space *s = c->region->space;

	sl_encode_unwanted(c);
	if (s->encoder.rests < RESTS_MAX)
		s->encoder.rests += RESTS;
	return sl_host_exchange(c, s->device->codec->decode);
}
