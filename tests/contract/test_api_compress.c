/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spilled data that are compressed on their way to the disk: the same contents come back, fewer bytes
 * are written and read, and files of users are left alone; on the software device.
 */
#include "api.h"

#include <string.h>

#define N_CHUNKS 12u

/* Weights, nearly: halves with few exponents. Each chunk has other ones. */
static uint16_t
weight(uint64_t seed, uint64_t i)
{
	uint64_t random = pattern(seed, i) >> 20;

	return (uint16_t)((random & 0x80ff) | (0x3c00 + (random >> 60 << 7)));
}

static void
weights_fill(void *addr, uint64_t size, uint64_t seed)
{
	uint16_t *to = addr;

	for (uint64_t i = 0; i < size / 2; i++)
		to[i] = weight(seed, i);
}

static void
weights_expect(const void *addr, uint64_t size, uint64_t seed)
{
	const uint16_t *from = addr;

	for (uint64_t i = 0; i < size / 2; i++)
		if (from[i] != weight(seed, i)) {
			CHECK_EQ(i, UINT64_MAX);
			return;
		}
}

static uint64_t
written_raw(struct sluice_space *s)
{
	return counter(s, SLUICE_COUNTER_STORE_WRITE_SPILL);
}

static uint64_t
write_saved(struct sluice_space *s)
{
	return counter(s, SLUICE_COUNTER_COMPRESS_WRITE_SAVED);
}

/* N_CHUNKS of weights that passed through two chunks of device memory to the store. */
static char *
weights_spill(struct sluice_space *s)
{
	char *p = region_alloc(s, N_CHUNKS * CHUNK);

	for (uint64_t i = 0; i < N_CHUNKS; i++)
		weights_fill(at_chunk(p, i), CHUNK, i);
	CHECK(sluice_evict(s, p, N_CHUNKS * CHUNK, SLUICE_TIER_STORE, NULL) == 0);
	space_sync(s);
	return p;
}

static void
spilled_data_come_back_and_fewer_bytes_move(void)
{
	static const char *const configs[] = {
		"device_budget=4M,compress=always",
		"device_budget=4M,compress=auto",
		"device_budget=4M,compress=always,store_io=file",
		"device_budget=4M,compress=always,host_budget=8M",
		"device_budget=4M,compress=always,faults=signal",
	};

	for (size_t k = 0; k < sizeof(configs) / sizeof(*configs); k++) {
		struct sluice_space *s = space_make(configs[k]);
		char *p = weights_spill(s);
		uint64_t raw = written_raw(s), saved = write_saved(s);

		CHECK(raw >= N_CHUNKS * CHUNK);
		CHECK(saved > raw / 4 && saved < raw / 2);
		CHECK_EQ(store_writes(s), raw - saved);
		for (int pass = 0; pass < 2; pass++)
			for (uint64_t i = 0; i < N_CHUNKS; i++)
				weights_expect(at_chunk(p, i), CHUNK, i);
		CHECK(counter(s, SLUICE_COUNTER_COMPRESS_READ_SAVED) > CHUNK);
		CHECK_EQ(store_reads(s) + counter(s, SLUICE_COUNTER_COMPRESS_READ_SAVED),
			 counter(s, SLUICE_COUNTER_STORE_READ_DEMAND) +
				 counter(s, SLUICE_COUNTER_STORE_READ_AHEAD) +
				 counter(s, SLUICE_COUNTER_STORE_READ_PREFETCH));
		/* What changes is written again, and read again. */
		for (uint64_t i = 0; i < N_CHUNKS; i++)
			weights_fill(at_chunk(p, i), CHUNK, i + 100);
		for (uint64_t i = 0; i < N_CHUNKS; i++)
			weights_expect(at_chunk(p, i), CHUNK, i + 100);
		space_end(s);
	}
}

static void
bytes_saved_are_the_same_in_every_run_and_engine(void)
{
	struct sluice_space *s = space_make("device_budget=4M,compress=always");
	uint64_t saved;

	weights_spill(s);
	saved = write_saved(s);
	space_end(s);
	s = space_make("device_budget=4M,compress=always,store_io=file");
	weights_spill(s);
	CHECK_EQ(write_saved(s), saved);
	space_end(s);
	s = space_make("device_budget=4M,compress=auto");
	weights_spill(s);
	CHECK_EQ(write_saved(s), saved);
	space_end(s);
}

static void
nothing_is_compressed_without_being_asked_for_or_where_it_does_not_pay(void)
{
	struct sluice_space *s = space_make("device_budget=4M");

	weights_spill(s);
	CHECK_EQ(write_saved(s), 0);
	space_end(s);
	for (int always = 0; always < 2; always++) {
		char *p;

		s = space_make(always ? "device_budget=4M,compress=always"
				      : "device_budget=4M,compress=auto");
		p = region_alloc(s, N_CHUNKS * CHUNK);
		for (uint64_t i = 0; i < N_CHUNKS; i++)
			memory_fill(at_chunk(p, i), CHUNK, i); /* looks random */
		for (uint64_t i = 0; i < N_CHUNKS; i++)
			memory_expect(at_chunk(p, i), CHUNK, i);
		CHECK(written_raw(s) > 0);
		CHECK_EQ(write_saved(s), 0);
		CHECK_EQ(store_writes(s), written_raw(s));
		space_end(s);
	}
}

/* The valid part of the last chunk is no multiple of a page. */
static void
the_end_of_a_region_comes_back(void)
{
	struct sluice_space *s = space_make("device_budget=4M,compress=always");
	uint64_t size = 5 * CHUNK + 12345 * 2;
	char *p = region_alloc(s, size);

	weights_fill(p, size, 7);
	CHECK(sluice_evict(s, p, size, SLUICE_TIER_STORE, NULL) == 0);
	CHECK(write_saved(s) > CHUNK);
	weights_expect(p, size, 7);
	space_end(s);
}

static void
files_are_not_compressed(void)
{
	struct sluice_space *s = space_make("device_budget=4M,compress=always");
	const char *path = file_make("f", N_CHUNKS * CHUNK, 1);
	char *p = region_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE);

	for (uint64_t i = 0; i < N_CHUNKS; i++)
		memset(at_chunk(p, i), 1, CHUNK);
	CHECK(sluice_sync(s, p, N_CHUNKS * CHUNK) == 0);
	CHECK_EQ(write_saved(s), 0);
	for (uint64_t at = 0; at < N_CHUNKS * CHUNK; at += CHUNK - 4096)
		CHECK_EQ(file_byte(path, at), 1);
	CHECK_EQ(file_size(path), N_CHUNKS * CHUNK);
	space_end(s);
}

/* Pages are read one by one, which compressed chunks are not. */
static void
compressed_chunks_come_whole_where_pages_are_wanted(void)
{
	struct sluice_space *s = space_make("device_budget=4M,compress=always");
	char *p = weights_spill(s);
	uint64_t saved = write_saved(s);

	CHECK(saved > 0);
	CHECK(sluice_advise(s, p, N_CHUNKS * CHUNK, SLUICE_ADVISE_RANDOM) == 0);
	for (uint64_t i = 0; i < N_CHUNKS; i++) {
		weights_expect(at_chunk(p, i), 8192, i);
		weights_fill(at_chunk(p, i), 4096, i + 50);
		CHECK(sluice_space_check(s) == 0);
	}
	CHECK(sluice_evict(s, p, N_CHUNKS * CHUNK, SLUICE_TIER_STORE, NULL) == 0);
	/* From now on pages come and go alone, and are written as they are. */
	CHECK_EQ(write_saved(s), saved);
	for (uint64_t i = 0; i < N_CHUNKS; i++) {
		const uint16_t *words = (const uint16_t *)(const void *)at_chunk(p, i);

		weights_expect(words, 4096, i + 50);
		for (uint64_t k = 2048; k < CHUNK / 2; k += 999)
			CHECK_EQ(words[k], weight(i, k));
		((char *)at_chunk(p, i))[CHUNK - 1] = 1;
	}
	CHECK(sluice_evict(s, p, N_CHUNKS * CHUNK, SLUICE_TIER_STORE, NULL) == 0);
	CHECK_EQ(write_saved(s), saved);
	for (uint64_t i = 0; i < N_CHUNKS; i++)
		CHECK_EQ(((char *)at_chunk(p, i))[CHUNK - 1], 1);
	space_end(s);
	s = space_make("device_budget=4M,compress=always,population=page");
	p = weights_spill(s);
	CHECK_EQ(write_saved(s), 0);
	for (uint64_t i = 0; i < N_CHUNKS; i++)
		weights_expect(at_chunk(p, i), CHUNK, i);
	space_end(s);
}

static const struct api_case cases[] = {
	CASE(spilled_data_come_back_and_fewer_bytes_move),
	CASE(bytes_saved_are_the_same_in_every_run_and_engine),
	CASE(nothing_is_compressed_without_being_asked_for_or_where_it_does_not_pay),
	CASE(the_end_of_a_region_comes_back),
	CASE(files_are_not_compressed),
	CASE(compressed_chunks_come_whole_where_pages_are_wanted),
};
API_MAIN(cases)
