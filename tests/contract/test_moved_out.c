/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever watches a space sees contents as they are moved out (sl_space_watch()), each time and
 * whole; what is dropped is not shown. And what the recorder makes of them by the codec: ratios of
 * data that are known. On the software device.
 */
#include "api.h"

#include <pthread.h>
#include <string.h>

#include "codec_data.h"
#include "core/interpose.h"
#include "trace/record.h"

#define N_CHUNKS 6u

/* What was seen: bytes, and of them those that are not what the program wrote. */
static struct {
	pthread_mutex_t lock; /* all below */
	uint64_t calls, bytes, wrong;
	char *base;                /* of the region */
	const unsigned char *want; /* its contents */
	struct sl_record *record;  /* NULL: none */
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Every block of the codec, to the tensor of its chunk. */
static void
chunk_record(uint64_t offset, const void *data, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += SL_CODEC_BLOCK_BYTES)
		sl_record_sample(seen.record, (offset + at) / CHUNK,
				 (offset + at) % CHUNK, SL_CODEC_BLOCK_BYTES,
				 sl_codec_block_bytes((const char *)data + at) + 2);
}

static void
moved_out(void *arg, const void *addr, const void *data, uint64_t bytes)
{
	uint64_t offset;

	CHECK(arg == &seen);
	pthread_mutex_lock(&seen.lock);
	offset = (uint64_t)((const char *)addr - seen.base);
	seen.calls++;
	seen.bytes += bytes;
	seen.wrong += memcmp(data, seen.want + offset, bytes) != 0;
	chunk_record(offset, data, bytes);
	pthread_mutex_unlock(&seen.lock);
}

/* A space that is watched, and a region that is to have these contents. */
static struct sluice_space *
watched_make(const char *config, const unsigned char *want, uint64_t size, char **out)
{
	struct sluice_space *s = space_make(config);

	sl_space_watch(s, moved_out, &seen);
	*out = region_alloc(s, size);
	pthread_mutex_lock(&seen.lock);
	seen.base = *out;
	seen.want = want;
	seen.calls = seen.bytes = seen.wrong = 0;
	pthread_mutex_unlock(&seen.lock);
	return s;
}

static uint64_t
calls_seen(void)
{
	uint64_t calls;

	pthread_mutex_lock(&seen.lock);
	CHECK_EQ(seen.wrong, 0);
	calls = seen.calls;
	pthread_mutex_unlock(&seen.lock);
	return calls;
}

static void
each_move_out_is_seen_whole(void)
{
	static const char *const configs[] = {
		"device_budget=32M,host_budget=64M",
		"device_budget=32M", /* to the store */
		"device_budget=32M,host_budget=64M,faults=signal",
	};
	/* The last chunk has 3 pages. */
	uint64_t size = (N_CHUNKS - 1) * CHUNK + 3 * PAGE;
	unsigned char *want = malloc(size);

	CHECK(want != NULL);
	for (size_t k = 0; k < sizeof(configs) / sizeof(*configs); k++) {
		struct sluice_space *s;
		char *p;

		for (uint64_t i = 0; i < size; i++)
			want[i] = (unsigned char)(i / PAGE * 7 + i + k);
		s = watched_make(configs[k], want, size, &p);
		memcpy(p, want, size);
		CHECK(sluice_evict(s, p, size, SLUICE_TIER_HOST, NULL) == 0);
		space_sync(s);
		CHECK_EQ(calls_seen(), N_CHUNKS);
		CHECK_EQ(d2h(s) / CHUNK, calls_seen());
		space_end(s);
		CHECK_EQ(seen.bytes, size);
	}
	free(want);
}

static void
what_is_dropped_is_not_seen(void)
{
	static const unsigned char zeros[2 * CHUNK];
	struct sluice_space *s;
	uint64_t calls;
	char *p;

	s = watched_make("device_budget=8M,host_budget=64M", zeros, 2 * CHUNK, &p);
	memset(p, 0, 2 * CHUNK);
	CHECK(sluice_evict(s, p, 2 * CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	space_sync(s);
	CHECK_EQ(calls_seen(), 2);
	/* Back on the device, and not written to: a clean one is dropped. */
	CHECK(sluice_prefetch(s, p, 2 * CHUNK, SLUICE_TIER_DEVICE, NULL) == 0);
	space_sync(s);
	CHECK(sluice_evict(s, p, 2 * CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	space_sync(s);
	calls = calls_seen();
	CHECK_EQ(calls, d2h(s) / CHUNK);
	/* Dead contents are not moved. */
	memset(p, 0, 2 * CHUNK);
	CHECK(sluice_discard(s, p, 2 * CHUNK, SLUICE_DISCARD_LAZY, NULL) == 0);
	space_sync(s);
	CHECK(sluice_evict(s, p, 2 * CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	space_sync(s);
	CHECK_EQ(calls_seen(), calls);
	space_end(s);
}

/* Chunk by chunk other data, and the ratios that they are known to have, in ten-thousandths. */
static void
ratios_are_those_of_the_data(void)
{
	static const struct {
		enum codec_data data;
		uint32_t least, most;
	} rows[N_CHUNKS] = {
		{CODEC_DATA_ZERO, 5, 5}, /* 2 bytes of table for 4096 */
		{CODEC_DATA_RANDOM, 10000, 10000},
		{CODEC_DATA_BF16, 6700, 7100},
		{CODEC_DATA_CONSTANT, 43, 45},
		{CODEC_DATA_FP32_LOW_EMPTY, 3300, 3700},
		{CODEC_DATA_BOOL, 1250, 1400},
	};
	struct sl_record_use use = {.tensor = 0, .intent = SLUICE_USE_READ};
	unsigned char *want = malloc(N_CHUNKS * CHUNK);
	struct sl_trace *trace;
	struct sluice_space *s;
	struct sl_rng rng;
	uint64_t dropped;
	char *p;

	CHECK(want != NULL);
	sl_rng_init(&rng, 11);
	for (uint64_t i = 0; i < N_CHUNKS; i++)
		for (uint64_t at = 0; at < CHUNK; at += CODEC_BLOCK)
			codec_data_fill(rows[i].data, &rng, want + i * CHUNK + at);
	CHECK(sl_record_begin(10, "moved out", &seen.record) == 0);
	for (uint64_t i = 0; i <= N_CHUNKS; i++) /* and one that never moves */
		sl_record_tensor(seen.record, i, CHUNK, NULL, 0);
	sl_record_launch(seen.record, 1, 2, "kernel", &use, 1);
	s = watched_make("device_budget=32M,host_budget=64M", want, N_CHUNKS * CHUNK, &p);
	memcpy(p, want, N_CHUNKS * CHUNK);
	CHECK(sluice_evict(s, p, N_CHUNKS * CHUNK, SLUICE_TIER_HOST, NULL) == 0);
	space_sync(s);
	space_end(s);
	CHECK(sl_record_end(seen.record, &trace, &dropped) == 0);
	CHECK_EQ(dropped, 0);
	for (uint32_t i = 0; i < N_CHUNKS; i++) {
		printf("chunk %u: ratio %u\n", i, trace->tensors[i].ratio);
		CHECK(trace->tensors[i].ratio >= rows[i].least &&
		      trace->tensors[i].ratio <= rows[i].most);
	}
	CHECK_EQ(trace->tensors[N_CHUNKS].ratio, 0);
	sl_trace_destroy(trace);
	free(want);
}

static const struct api_case cases[] = {
	CASE(each_move_out_is_seen_whole),
	CASE(what_is_dropped_is_not_seen),
	CASE(ratios_are_those_of_the_data),
};
API_MAIN(cases)
