/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that cross the link encoded (devices with codec): whether one is encoded on its way out, and frames
 * that must be as they are. A frame in the host tier stays encoded until its chunk goes back, which the device
 * decodes, or the host needs its bytes: to show them to host code, or to have kernels reach them. Where the tier is
 * short, encoded frames are packed. A spill extent takes the encoded bytes. Data of files are not encoded.
 *
 * Automatic encoding asks two questions:
 * - Is the link in use? An idle one is faster without.
 * - Did the last chunk of this region become smaller, and did nobody want it as it is? If not, the next 1, 2, 4
 *   .. 64 chunks of the region go as they are.
 *
 * The device refuses what finds no staging: then kernels leave ours no room, and the raw copy is faster.
 *
 * LOCKING: as in state.h.
 */
#include "base/log.h"
#include "core/transfer/transfer.h"

#define SKIPS_MAX    64u
/* Staging takes such a part of the device budget, and at most so much. Smaller: copies and kernels wait for each
 * other. Larger: the program has less. Who wants it always has it with small budgets, too. */
#define STAGING_PART 50u
#define ALWAYS_PART  8u
#define STAGING_MAX  ((uint64_t)256 << 20)
/* Less is not worth the kernels: of 16 parts. */
#define WORTH_PARTS  15u

void
sl_encode_prepare(struct sluice_space *s)
{
	const struct sl_device_codec *codec = s->device->codec;
	int always = s->config.compress == SLUICE_COMPRESS_ALWAYS;
	uint64_t staging = s->config.device_budget_bytes /
			   (always ? ALWAYS_PART : STAGING_PART);

	if (!codec || s->config.compress == SLUICE_COMPRESS_NEVER)
		return;
	if (staging > STAGING_MAX)
		staging = STAGING_MAX;
	s->encodes = !codec->prepare(s->device, s->config.large_chunk_bytes, staging);
	if (!s->encodes)
		sl_log_once("encode", SL_INFO, "encode",
			    "%s: what crosses the link is not compressed",
			    sluice_last_error());
}

int
sl_encode_pays(struct sl_chunk *c)
{
	struct sl_region *r = c->region;
	const struct sluice_space *s = r->space;
	const struct sl_device *dev = s->device;

	/* Whoever writes a file needs its bytes as they are. An extent has a whole chunk's. */
	if (!s->encodes || s->moved_out || r->store ||
	    r->population != SLUICE_POPULATE_CHUNK ||
	    sl_chunk_valid_bytes(c) != r->chunk_bytes)
		return 0;
	if (s->config.compress == SLUICE_COMPRESS_ALWAYS)
		return 1;
	if (r->encode.skips) {
		r->encode.skips--;
		return 0;
	}
	return !sl_fence_is_done(dev, sl_fence_newest(dev, SL_COPIES_OUT)) ||
	       !sl_fence_is_done(dev, sl_fence_newest(dev, SL_COPIES_IN));
}

/* It was not worth it, or was. */
SL_HELD static void
encode_learn(struct sl_region *r, int worth)
{
	if (worth)
		r->encode.backoff = 0;
	else if (!r->encode.backoff)
		r->encode.backoff = 1;
	else if (r->encode.backoff < SKIPS_MAX)
		r->encode.backoff *= 2;
	r->encode.skips = r->encode.backoff;
}

void
sl_encoded(struct sl_chunk *c, const struct sl_host *h)
{
	uint64_t bytes = h->frame->encoded_bytes, raw = h->frame->bytes;

	encode_learn(c->region, bytes && 16 * bytes < WORTH_PARTS * raw);
	if (bytes)
		sl_count(c->region->space, SLUICE_COUNTER_COMPRESS_OUT_SAVED, raw - bytes);
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
	    s->host.settled_bytes + bytes <= s->host.budget_bytes)
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

int
sl_host_decode(struct sl_chunk *c)
{
	c->region->encode.skips = c->region->encode.backoff = SKIPS_MAX;
	return sl_host_exchange(c, c->region->space->device->codec->decode);
}
