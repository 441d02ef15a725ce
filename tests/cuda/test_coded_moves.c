/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that are encoded on their way out of a CUDA device, and decoded on their way in: on the device
 * itself, without a space. What kinds of data there are, and what host codecs make of them, unit/test_codec
 * shows. Here it is moves: their order, staging, and failures.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda/cuda.h" /* first: its parameters dev would shadow the tests' */

#include "codec/block.h"
#include "codec_data.h"
#include "cuda/device_alone.h"

#define CHUNK   ((uint64_t)SL_GRANULE_BYTES)
#define LONG    (16 * CHUNK)
#define STAGING (64 * MIB)
#define PLACES  24u /* of chunks, in the random test */
#define PRESENT 6u  /* of them, at most */

static struct sl_rng rng;

/* ---- contents ---- */

static void
bytes_fill(void *to, uint64_t bytes, enum codec_data data, uint64_t seed)
{
	sl_rng_init(&rng, seed);
	for (uint64_t at = 0; at < bytes; at += CODEC_BLOCK)
		codec_data_fill(data, &rng, (uint8_t *)to + at);
}

static int
bytes_are(const void *bytes, uint64_t n, enum codec_data data, uint64_t seed)
{
	uint8_t block[CODEC_BLOCK];

	sl_rng_init(&rng, seed);
	for (uint64_t at = 0; at < n; at += CODEC_BLOCK) {
		codec_data_fill(data, &rng, block);
		if (memcmp(block, (const uint8_t *)bytes + at, CODEC_BLOCK))
			return 0;
	}
	return 1;
}

static struct sl_frame *
frame_with(uint64_t bytes, enum codec_data data, uint64_t seed)
{
	struct sl_frame *frame;

	CHECK_OK(dev->ops->frame_get(dev, bytes, &frame));
	CHECK(frame->encoded_bytes == 0);
	bytes_fill(frame->data, bytes, data, seed);
	return frame;
}

/* Whether a frame, encoded or not, has these contents. */
static int
frame_is(const struct sl_frame *frame, enum codec_data data, uint64_t seed)
{
	void *raw;
	int is;

	if (!frame->encoded_bytes)
		return bytes_are(frame->data, frame->bytes, data, seed);
	raw = malloc(frame->bytes);
	CHECK(raw);
	CHECK_OK(sl_codec_decode(frame->data, frame->encoded_bytes, 0, raw, frame->bytes));
	is = bytes_are(raw, frame->bytes, data, seed);
	free(raw);
	return is;
}

/* Whether a present chunk has them: behind what it has to wait for, and nothing else. */
static int
chunk_is(const void *addr, uint64_t bytes, enum codec_data data, uint64_t seed)
{
	void *to = chunk_read(addr, bytes, dev->async->ready_at(dev, addr));
	int is = bytes_are(to, bytes, data, seed);

	free(to);
	return is;
}

/* ---- the way out ---- */

static unsigned worth_parts = SL_CODEC_WORTH_ALL;

static int
encoded_start(struct sl_device *d, void *addr, uint64_t bytes, struct sl_frame *frame,
	      void (*done)(void *cookie, int rc), void *cookie)
{
	return d->codec->absent_start(d, addr, bytes, worth_parts, frame, done, cookie);
}

static int
out_encoded(struct out *out, void *addr, uint64_t bytes, struct sl_frame *frame)
{
	return out_begin(out, encoded_start, addr, bytes, frame);
}

/* By way of the device, at base: it comes back encoded. */
static void
frame_encode(struct sl_frame *frame)
{
	struct out out = OUT;

	CHECK_OK(dev->ops->present(dev, base, CHUNK, frame, SL_PRESENT_KEEP));
	CHECK_OK(out_encoded(&out, base, CHUNK, frame));
	out_await(&out);
}

/* ---- tests ---- */

/* Another frame with the contents of this one, which is given back. */
static struct sl_frame *
frame_decoded(struct sl_frame *frame, enum codec_data data)
{
	struct sl_frame *to;

	CHECK_OK(dev->ops->frame_get(dev, CHUNK, &to));
	CHECK_OK(dev->codec->decode(dev, frame, to));
	CHECK(!to->encoded_bytes && frame_is(to, data, 100 + data));
	dev->ops->frame_put(dev, frame);
	return to;
}

static void
each_kind_of_data_comes_back(void)
{
	device_open(256 * MIB);
	CHECK_OK(dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL));
	CHECK_OK(dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL)); /* does nothing */
	for (enum codec_data data = 0; data < CODEC_DATA_COUNT; data++) {
		struct sl_frame *frame = frame_with(CHUNK, data, 100 + data);

		frame_encode(frame);
		CHECK((data == CODEC_DATA_RANDOM) == !frame->encoded_bytes);
		CHECK(frame->encoded_bytes < CHUNK);
		CHECK(frame_is(frame, data, 100 + data));
		/* To another place, and kept there. */
		CHECK_OK(dev->ops->present(dev, base + LONG, CHUNK, frame, SL_PRESENT_KEEP));
		CHECK(chunk_is(base + LONG, CHUNK, data, 100 + data));
		CHECK_OK(dev->ops->absent(dev, base + LONG, CHUNK, frame, SL_ABSENT_KEPT));
		if (frame->encoded_bytes && data % 2) /* and by way of the host's codec */
			frame = frame_decoded(frame, data);
		CHECK_OK(dev->ops->present(dev, base, CHUNK, frame, 0));
		CHECK(chunk_is(base, CHUNK, data, 100 + data));
		CHECK_OK(dev->ops->absent(dev, base, CHUNK, NULL, SL_ABSENT_DISCARD));
	}
	device_close();
}

/* A task of a stream that sends a chunk out, and waits for it. */
struct out_task {
	struct sl_task task; /* first */
	struct sl_frame *frame;
};

static int
out_task_run(struct sl_task *task)
{
	struct out out = OUT;

	CHECK_OK(out_encoded(&out, base, CHUNK, ((struct out_task *)task)->frame));
	out_await(&out);
	return 0;
}

static void
out_task_done(struct sl_task *task, int rc)
{
	(void)task;
	CHECK_OK(rc);
}

/* Random bytes, of which the first block has so many zeros that the encoder saves these units: an even number. */
static struct sl_frame *
frame_with_saved(uint32_t units)
{
	struct sl_frame *frame = frame_with(CHUNK, CODEC_DATA_RANDOM, units);
	union sl_codec_block *block = frame->data;
	struct sl_codec_plan plan = {.units = SL_CODEC_BLOCK_UNITS};

	for (unsigned zeros = 0; SL_CODEC_BLOCK_UNITS - plan.units != units; zeros++) {
		CHECK(zeros < CODEC_BLOCK / 2);
		((uint16_t *)block)[zeros] = 0;
		sl_codec_plan_make(block, &plan);
	}
	return frame;
}

/* Just smaller than the raw bytes, as large, just larger: the table of a chunk takes as much as that saves. */
static void
what_hardly_shrinks_comes_back(void)
{
	uint32_t table_units = sl_codec_table_bytes(CHUNK / CODEC_BLOCK) / SL_CODEC_UNIT_BYTES;
	void *raw = malloc(CHUNK);

	CHECK(raw);
	device_open(256 * MIB);
	CHECK_OK(dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL));
	for (uint32_t units = table_units - 2; units < table_units + 8; units += 2) {
		struct sl_frame *frame = frame_with_saved(units), *to;

		memcpy(raw, frame->data, CHUNK);
		frame_encode(frame);
		CHECK_OK(dev->ops->frame_get(dev, CHUNK, &to));
		if (frame->encoded_bytes)
			CHECK_OK(dev->codec->decode(dev, frame, to));
		CHECK(!memcmp(frame->encoded_bytes ? to->data : frame->data, raw, CHUNK));
		dev->ops->frame_put(dev, to);
		dev->ops->frame_put(dev, frame);
	}
	device_close();
	free(raw);
}

/* Of bf16 more than three parts of 16 go, and fewer than eight. */
static void
what_saves_too_little_stays_as_it_is(void)
{
	for (unsigned parts = 8; parts <= 13; parts += 5) {
		struct sl_frame *frame;

		device_open(256 * MIB);
		CHECK_OK(dev->codec->prepare(dev, CHUNK, STAGING, 14));
		frame = frame_with(CHUNK, CODEC_DATA_BF16, parts);
		worth_parts = parts;
		frame_encode(frame);
		worth_parts = SL_CODEC_WORTH_ALL;
		CHECK((parts == 13) == (frame->encoded_bytes != 0));
		CHECK(frame_is(frame, CODEC_DATA_BF16, parts));
		dev->ops->frame_put(dev, frame);
		device_close();
	}
}

/* The thread that runs tasks is not the one that tells of ends. */
static void
a_task_of_a_stream_can_wait_for_it(void)
{
	struct out_task work = {
		.task = {.run = out_task_run, .done = out_task_done, .at_turn = 1}};
	struct sl_stream *stream;

	device_open(256 * MIB);
	CHECK_OK(dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL));
	work.frame = frame_with(CHUNK, CODEC_DATA_ZERO, 1);
	CHECK_OK(dev->ops->present(dev, base, CHUNK, work.frame, SL_PRESENT_KEEP));
	CHECK_OK(dev->ops->stream_create(dev, &stream));
	dev->ops->stream_submit(stream, &work.task);
	CHECK_OK(dev->ops->stream_synchronize(stream));
	dev->ops->stream_destroy(stream);
	CHECK(work.frame->encoded_bytes && frame_is(work.frame, CODEC_DATA_ZERO, 1));
	dev->ops->frame_put(dev, work.frame);
	device_close();
}

/* What is read as it is afterwards says so. */
static void
frames_of_raw_copies_are_not_encoded(void)
{
	struct sl_frame *frame;
	struct out out = OUT;

	device_open(256 * MIB);
	CHECK_OK(dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL));
	frame = frame_with(CHUNK, CODEC_DATA_BF16, 1);
	frame_encode(frame);
	CHECK(frame->encoded_bytes);
	CHECK_OK(dev->ops->present(dev, base, CHUNK, frame, SL_PRESENT_KEEP));
	CHECK_OK(dev->ops->snapshot(dev, base, CHUNK, frame));
	CHECK(!frame->encoded_bytes && frame_is(frame, CODEC_DATA_BF16, 1));
	CHECK_OK(out_encoded(&out, base, CHUNK, frame));
	out_await(&out);
	CHECK_OK(dev->ops->present(dev, base, CHUNK, frame, SL_PRESENT_KEEP));
	CHECK_OK(dev->ops->absent(dev, base, CHUNK, frame, SL_ABSENT_COPY));
	CHECK(!frame->encoded_bytes && frame_is(frame, CODEC_DATA_BF16, 1));
	dev->ops->frame_put(dev, frame);
	device_close();
}

/* Fewer granules of host memory: what goes in from there is right, kept or not. */
static void
packed_frames_take_what_they_need(void)
{
	static const enum codec_data kinds[] = {CODEC_DATA_TOKENS, CODEC_DATA_INT64,
						CODEC_DATA_BF16, CODEC_DATA_FP32};
	const uint64_t bytes = 4 * CHUNK;
	struct sl_frame *frame, *packed, *same;
	struct out out = OUT;

	device_open(256 * MIB);
	CHECK_OK(dev->codec->prepare(dev, bytes, STAGING, SL_CODEC_WORTH_ALL));
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		enum codec_data data = kinds[i];
		uint64_t encoded;

		frame = frame_with(bytes, data, data);
		CHECK(dev->codec->pack(dev, frame, &packed) == -ENOSPC); /* it is not encoded */
		CHECK_OK(dev->ops->present(dev, base, bytes, frame, SL_PRESENT_KEEP));
		CHECK_OK(out_encoded(&out, base, bytes, frame));
		out_await(&out);
		encoded = frame->encoded_bytes;
		if (encoded > 3 * CHUNK) {
			CHECK(dev->codec->pack(dev, frame, &packed) == -ENOSPC);
			dev->ops->frame_put(dev, frame);
			continue;
		}
		CHECK_OK(dev->codec->pack(dev, frame, &packed));
		CHECK(packed->encoded_bytes == encoded && packed->bytes >= encoded &&
		      packed->bytes - encoded < CHUNK && packed->pieces && !packed->data);
		CHECK(dev->codec->pack(dev, packed, &same) == -ENOSPC);
		CHECK_OK(dev->ops->present(dev, base, bytes, packed, SL_PRESENT_KEEP));
		CHECK(chunk_is(base, bytes, data, data));
		CHECK_OK(dev->ops->absent(dev, base, bytes, packed, SL_ABSENT_KEPT));
		CHECK_OK(dev->ops->frame_get(dev, bytes, &frame));
		CHECK_OK(dev->codec->decode(dev, packed, frame));
		CHECK(frame_is(frame, data, data));
		dev->ops->frame_put(dev, frame);
		CHECK_OK(dev->ops->present(dev, base, bytes, packed, 0)); /* and given back */
		CHECK(chunk_is(base, bytes, data, data));
		CHECK_OK(dev->ops->absent(dev, base, bytes, NULL, SL_ABSENT_DISCARD));
	}
	device_close();
}

/* They go one after the other by way of the same piece. A busy machine may be so slow that one is refused. */
static void
more_chunks_than_staging_holds_are_encoded(void)
{
	const uint64_t bytes = 4 * CHUNK;
	struct sl_frame *frames[5];
	struct out out = OUT;

	device_open(256 * MIB);
	CHECK_OK(dev->codec->prepare(dev, bytes, 3 * bytes,
				     SL_CODEC_WORTH_ALL)); /* one for each direction */
	for (int i = 0; i < 5; i++) {
		frames[i] = frame_with(bytes, i % 2 ? CODEC_DATA_TOKENS : CODEC_DATA_RANDOM,
				       10 + i);
		CHECK_OK(dev->ops->present(dev, base + i * bytes, bytes, frames[i],
					   SL_PRESENT_KEEP));
	}
	for (int i = 0; i < 5; i++) {
		int rc;

		while ((rc = out_encoded(&out, base + i * bytes, bytes, frames[i])) == -EBUSY)
			out_await(&out);
		CHECK_OK(rc);
	}
	out_await(&out);
	for (int i = 0; i < 5; i++) {
		CHECK(!frames[i]->encoded_bytes == !(i % 2));
		CHECK(frame_is(frames[i], i % 2 ? CODEC_DATA_TOKENS : CODEC_DATA_RANDOM,
			       10 + i));
		dev->ops->frame_put(dev, frames[i]);
	}
	device_close();
}

#define OUTS 8

static void
chunks_present(struct sl_frame **frames)
{
	device_open(256 * MIB);
	CHECK_OK(dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL));
	for (int i = 0; i < OUTS; i++) {
		frames[i] = frame_with(CHUNK, CODEC_DATA_TOKENS, 10 + i);
		CHECK_OK(dev->ops->present(dev, base + i * CHUNK, CHUNK, frames[i],
					   SL_PRESENT_KEEP));
	}
}

/* The first n have left, encoded; the others are still there. */
static void
chunks_absent(struct sl_frame **frames, int n)
{
	for (int i = 0; i < OUTS; i++) {
		CHECK(!frames[i]->encoded_bytes == (i >= n));
		CHECK(frame_is(frames[i], CODEC_DATA_TOKENS, 10 + i));
		if (i >= n)
			CHECK_OK(dev->ops->absent(dev, base + i * CHUNK, CHUNK, frames[i],
						  SL_ABSENT_KEPT));
		dev->ops->frame_put(dev, frames[i]);
	}
	device_close();
}

static void
until_unlocked(void *lock)
{
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
}

/* The GPU does not get to the first one: as where other kernels have it. */
static void
behind_a_chunk_that_takes_long_others_are_refused_and_stay(void)
{
	pthread_mutex_t full = PTHREAD_MUTEX_INITIALIZER;
	struct sl_frame *frames[OUTS];
	struct out out = OUT;
	struct cuda *cuda;
	int n = 0, rc = 0;

	chunks_present(frames);
	cuda = sl_cuda_of(dev);
	pthread_mutex_lock(&full);
	CHECK_OK(sl_cuda_enter(cuda));
	CHECK(!cuda->driver->cuLaunchHostFunc(cuda->codec.encodes, until_unlocked, &full));
	sl_cuda_leave(cuda);
	while (n < OUTS && !(rc = out_encoded(&out, base + n * CHUNK, CHUNK, frames[n]))) {
		n++;
		usleep(5000);
	}
	CHECK(n && n < OUTS && rc == -EBUSY);
	pthread_mutex_unlock(&full);
	CHECK(chunk_is(base + n * CHUNK, CHUNK, CODEC_DATA_TOKENS, 10 + n));
	out_await(&out);
	CHECK_OK(out_encoded(&out, base + n * CHUNK, CHUNK, frames[n])); /* it is over */
	out_await(&out);
	chunks_absent(frames, n + 1);
}

/* The first one's done() takes long, and the others behind it are not told: they have left nevertheless. */
static void
behind_a_chunk_that_is_told_late_others_leave(void)
{
	struct sl_frame *frames[OUTS];
	struct out out = OUT;
	struct cuda *cuda;

	chunks_present(frames);
	cuda = sl_cuda_of(dev);
	pthread_mutex_lock(&out.lock); /* done() waits for it */
	for (int n = 0; n < OUTS; n++) {
		CHECK_OK(out_encoded(&out, base + n * CHUNK, CHUNK, frames[n]));
		CHECK_OK(sl_cuda_enter(cuda));
		CHECK(!cuda->driver->cuStreamSynchronize(cuda->codec.drains));
		sl_cuda_leave(cuda);
		usleep(5000);
	}
	pthread_mutex_unlock(&out.lock);
	out_await(&out);
	chunks_absent(frames, OUTS);
}

/* Frames come back from the device and go there, by either way, while kernels and others of them move. */
static void
random_moves_keep_contents(void)
{
	struct {
		struct sl_frame *frame;
		enum codec_data data;
		uint64_t seed;
		int present;
		struct out out;
	} place[PLACES] = {0};
	unsigned n_present = 0, encoded = 0;
	struct sl_rng choice;

	device_open(256 * MIB);
	CHECK_OK(dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL));
	sl_rng_init(&choice, 7);
	for (unsigned i = 0; i < PLACES; i++) {
		place[i].out = (struct out)OUT;
		place[i].data = (enum codec_data)sl_rng_below(&choice, CODEC_DATA_COUNT);
		place[i].seed = 1000 + i;
		place[i].frame = frame_with(CHUNK, place[i].data, place[i].seed);
	}
	for (int step = 0; step < 400; step++) {
		unsigned i = (unsigned)sl_rng_below(&choice, PLACES);
		char *addr = base + i * CHUNK;

		if (!place[i].present && n_present < PRESENT) {
			out_await(&place[i].out);
			encoded += place[i].frame->encoded_bytes != 0;
			CHECK_OK(dev->ops->present(dev, addr, CHUNK, place[i].frame,
						   SL_PRESENT_KEEP));
			place[i].present = 1;
			n_present++;
		} else if (place[i].present) {
			if (sl_rng_below(&choice, 4) == 0)
				CHECK(chunk_is(addr, CHUNK, place[i].data, place[i].seed));
			if (sl_rng_below(&choice, 3) == 0 ||
			    out_encoded(&place[i].out, addr, CHUNK, place[i].frame)) {
				CHECK_OK(dev->async->absent_start(dev, addr, CHUNK,
								  place[i].frame, out_done,
								  &place[i].out));
				place[i].out.begun++;
			}
			place[i].present = 0;
			n_present--;
		}
	}
	CHECK(encoded > 20);
	for (unsigned i = 0; i < PLACES; i++) {
		out_await(&place[i].out);
		if (place[i].present)
			CHECK(chunk_is(base + i * CHUNK, CHUNK, place[i].data, place[i].seed));
		else
			CHECK(frame_is(place[i].frame, place[i].data, place[i].seed));
		dev->ops->frame_put(dev, place[i].frame);
	}
	device_close();
}

/* A hash of what arrives is of the decoded bytes. */
struct hashed {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int done;
	uint64_t sums[2];
};

static void
hash_done(void *cookie, int rc, const uint64_t sums[2])
{
	struct hashed *hashed = cookie;

	CHECK(!rc);
	pthread_mutex_lock(&hashed->lock);
	memcpy(hashed->sums, sums, sizeof(hashed->sums));
	hashed->done = 1;
	pthread_cond_signal(&hashed->changed);
	pthread_mutex_unlock(&hashed->lock);
}

static void
hash_take(const void *addr, enum sl_hash_of what, uint64_t sums[2])
{
	struct hashed hashed = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, {0, 0}};

	CHECK_OK(dev->hash->start(dev, addr, CHUNK, what, hash_done, &hashed));
	pthread_mutex_lock(&hashed.lock);
	while (!hashed.done)
		pthread_cond_wait(&hashed.changed, &hashed.lock);
	pthread_mutex_unlock(&hashed.lock);
	memcpy(sums, hashed.sums, sizeof(hashed.sums));
}

static void
hashes_are_of_what_is_decoded(void)
{
	struct sl_frame *frame;
	uint64_t sums[2][2];
	struct out out = OUT;

	device_open(256 * MIB);
	CHECK_OK(dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL));
	for (enum sl_hash_of what = SL_HASH_ARRIVED; what <= SL_HASH_NOW; what++) {
		frame = frame_with(CHUNK, CODEC_DATA_BF16_RELU, 3);
		CHECK_OK(dev->ops->present(dev, base, CHUNK, frame, SL_PRESENT_KEEP));
		hash_take(base, what, sums[0]);
		CHECK_OK(out_encoded(&out, base, CHUNK, frame));
		out_await(&out);
		CHECK(frame->encoded_bytes);
		CHECK_OK(dev->ops->present(dev, base, CHUNK, frame, 0));
		hash_take(base, what, sums[1]);
		CHECK(!memcmp(sums[0], sums[1], sizeof(sums[0])));
		CHECK_OK(dev->ops->absent(dev, base, CHUNK, NULL, SL_ABSENT_DISCARD));
	}
	device_close();
}

static void
what_is_damaged_is_told(void)
{
	struct sl_frame *frame, *to;
	struct sl_fence fence;
	int rc;

	device_open(256 * MIB);
	CHECK_OK(dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL));
	frame = frame_with(CHUNK, CODEC_DATA_BF16, 5);
	frame_encode(frame);
	memset(frame->data, 0, 4); /* no codec's header */
	CHECK_OK(dev->ops->frame_get(dev, CHUNK, &to));
	CHECK(dev->codec->decode(dev, frame, to) == -EBADMSG && frame->encoded_bytes);
	dev->ops->frame_put(dev, to);
	CHECK_OK(dev->ops->present(dev, base, CHUNK, frame, 0));
	fence = dev->async->ready_at(dev, base);
	CHECK(fence.queue == SL_DECODES);
	while ((rc = dev->async->query(dev, fence)) == -EAGAIN)
		usleep(1000);
	CHECK(rc == -EBADMSG && strstr(sluice_last_error(), "damaged"));
	device_close();
}

static void
what_is_not_prepared_is_refused(void)
{
	struct sl_frame *frame;
	struct out out = OUT;

	device_open(256 * MIB);
	frame = frame_with(CHUNK, CODEC_DATA_BF16, 1);
	CHECK_OK(dev->ops->present(dev, base, CHUNK, frame, SL_PRESENT_KEEP));
	CHECK(out_encoded(&out, base, CHUNK, frame) == -ENOTSUP);
	CHECK(dev->codec->prepare(dev, CHUNK, CHUNK, SL_CODEC_WORTH_ALL) == -ENOSPC);
	CHECK(out_encoded(&out, base, CHUNK, frame) == -ENOTSUP);
	CHECK_OK(dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL)); /* more of it will do */
	CHECK(out_encoded(&out, base + LONG, CHUNK, frame) == -EINVAL); /* not present */
	CHECK_OK(out_encoded(&out, base, CHUNK, frame));
	out_await(&out);
	CHECK_OK(dev->ops->present(dev, base + LONG, LONG, NULL, 0));
	CHECK(out_encoded(&out, base + LONG, LONG, frame) == -ENOTSUP); /* larger than prepared */
	dev->ops->frame_put(dev, frame);
	device_close();
}

static void
a_driver_that_refuses_leaves_copies_raw(void)
{
	static const char *const failures[] = {"cuModuleLoadData:1:218",
					       "cuModuleGetFunction:2:500",
					       "cuMemCreate:1:2", "cuMemHostAlloc:1:2",
					       "cuLaunchKernel:1:304"};
	static const char *const later[] = {"cuLaunchKernel:1:2", "cuEventRecord:1:2",
					    "cuStreamWaitEvent:1:2"};

	for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++) {
		device_open(256 * MIB);
		CHECK(!t.standin->fail_set(failures[i]));
		CHECK(dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL));
		t.standin->fail_set(NULL);
		CHECK(dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL)); /* remembered */
		device_close();
	}
	for (size_t i = 0; i < sizeof(later) / sizeof(*later); i++) {
		struct out out = OUT;
		struct sl_frame *frame;
		int rc;

		device_open(256 * MIB);
		CHECK_OK(dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL));
		frame = frame_with(CHUNK, CODEC_DATA_INT64, i);
		CHECK_OK(dev->ops->present(dev, base, CHUNK, frame, SL_PRESENT_KEEP));
		CHECK(!t.standin->fail_set(later[i]));
		rc = out_encoded(&out, base, CHUNK, frame);
		t.standin->fail_set(NULL);
		CHECK(rc || i == 2); /* nothing to wait for: no call */
		out_await(&out);
		if (rc) { /* it is there as before */
			CHECK(chunk_is(base, CHUNK, CODEC_DATA_INT64, i));
			CHECK_OK(out_encoded(&out, base, CHUNK, frame));
			out_await(&out);
		}
		CHECK(frame->encoded_bytes && frame_is(frame, CODEC_DATA_INT64, i));
		CHECK(!t.standin->fail_set(later[i]));
		rc = dev->ops->present(dev, base, CHUNK, frame, SL_PRESENT_KEEP);
		t.standin->fail_set(NULL);
		if (rc)
			CHECK_OK(dev->ops->present(dev, base, CHUNK, frame, SL_PRESENT_KEEP));
		CHECK(chunk_is(base, CHUNK, CODEC_DATA_INT64, i));
		CHECK_OK(dev->ops->absent(dev, base, CHUNK, frame, SL_ABSENT_KEPT));
		dev->ops->frame_put(dev, frame);
		device_close();
	}
}

int
main(int argc, char **argv)
{
	(void)argc;
	if (getenv("SLUICE_CUDA_LIBRARY") && !getenv("CUDA_STANDIN_COPY_BYTES_PER_S")) {
		setenv("CUDA_STANDIN_COPY_BYTES_PER_S", "500M", 1);
		setenv("CUDA_STANDIN_DEVICE_BYTES", "512M", 1);
		CHECK_OK(execv("/proc/self/exe", argv));
	}
	cuda_test_open(&t);
	device_open(256 * MIB);
	if (dev->codec->prepare(dev, CHUNK, STAGING, SL_CODEC_WORTH_ALL)) {
		CHECK(!t.standin);
		printf("SKIP: %s\n", sluice_last_error());
		return 77;
	}
	device_close();
	each_kind_of_data_comes_back();
	what_hardly_shrinks_comes_back();
	what_saves_too_little_stays_as_it_is();
	a_task_of_a_stream_can_wait_for_it();
	frames_of_raw_copies_are_not_encoded();
	packed_frames_take_what_they_need();
	more_chunks_than_staging_holds_are_encoded();
	behind_a_chunk_that_takes_long_others_are_refused_and_stay();
	behind_a_chunk_that_is_told_late_others_leave();
	random_moves_keep_contents();
	hashes_are_of_what_is_decoded();
	what_is_damaged_is_told();
	what_is_not_prepared_is_refused();
	if (t.standin)
		a_driver_that_refuses_leaves_copies_raw();
	cuda_test_close(&t, NULL);
	return 0;
}
