/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dirty detection by hash. Data that launches may have written, and have not, are not copied
 * out. Written data are, wherever in a chunk they lie, and whatever happened to other copies.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cuda/measure_test.h"
#include "sluice/fetch.h"

static void
kernel_that_only_reads_moves_nothing_out(void)
{
	struct sluice_space *s = cuda_test_space(8, 64, "measure=1");
	uint64_t bytes = 24 * MIB, n = bytes / 8, word = cuda_test_word(&t), sum = 0;
	uint64_t *p = data_make(s, bytes, 7);

	for (uint64_t i = 0; i < n; i++)
		sum += p[i];
	for (int round = 0; round < 2; round++)
		for (uint64_t at = 0; at < n; at += CHUNK_N)
			cuda_test_run(&t, s, NULL, TEST_SUM, p + at, CHUNK_N, word,
				      SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_word_read(&t, word) == 2 * sum);
	CHECK(d2h(s) == 0);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_H2D_LAUNCH) == 2 * bytes);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_MEASURED_CLEAN) == 2 * bytes - 8 * MIB);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_CLEAN_DROP) == 2 * bytes - 8 * MIB);
	CHECK_OK(sluice_space_check(s));
	for (uint64_t i = 0; i < n; i++) /* recalls what is still there, by the same rule */
		CHECK(p[i] == i * K + 7);
	CHECK(d2h(s) == 0);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_MEASURED_CLEAN) == 2 * bytes);
	/* Each chunk as it came first, and when it left. */
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_HASHES) == 12 + 24);
	cuda_test_word_free(&t, word);
	space_end(s, p);
}

static void
resident_data_are_not_hashed_again(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, "measure=1");
	uint64_t word = cuda_test_word(&t);
	uint64_t *p = data_make(s, 8 * MIB, 7);

	for (int round = 0; round < 5; round++)
		cuda_test_run(&t, s, NULL, TEST_SUM, p, MIB, word, SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_LAUNCHES_RESIDENT) == 4);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_HASHES) == 4);
	cuda_test_word_free(&t, word);
	space_end(s, p);
}

static void
launch_that_declares_nothing_moves_out_what_it_wrote(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, "measure=1");
	uint64_t bytes = 8 * MIB, word = cuda_test_word(&t);
	uint64_t *p = data_make(s, bytes, 7);

	run_in(s, NULL, 0, SLUICE_USE_READ, TEST_SUM, p, MIB, word);
	CHECK_OK(sluice_evict(s, p, bytes, SLUICE_TIER_HOST, NULL));
	CHECK(d2h(s) == 0);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_MEASURED_CLEAN) == bytes);
	run_in(s, NULL, 0, SLUICE_USE_READ, TEST_ADD, p + CHUNK_N + 5, 1, 1);
	CHECK_OK(sluice_evict(s, p, bytes, SLUICE_TIER_HOST, NULL));
	CHECK(d2h(s) == CHUNK);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_MEASURED_CLEAN) == 2 * bytes - CHUNK);
	for (uint64_t i = 0; i < MIB; i++)
		CHECK(p[i] == i * K + 7 + (i == CHUNK_N + 5));
	cuda_test_word_free(&t, word);
	space_end(s, p);
}

/* One byte is changed: every byte of a unit, first and last of the chunk, of a page, of what a warp, a
 * block and a round of the grid take. */
static void
one_changed_byte_is_found(void)
{
	static const uint64_t units[] = {0,    1,    31,    32,    255,   256,    1023,
					 1024, 4095, 32767, 32768, 65536, 131040, 131071};
	struct sluice_space *s = cuda_test_space(16, 64, "measure=1");
	uint64_t *p = data_make(s, CHUNK, 7), changed = 0;
	unsigned n_units = sizeof(units) / sizeof(units[0]);

	for (unsigned k = 0; k < n_units + 16; k++) {
		uint64_t unit = k < n_units ? units[k] : 77777;
		unsigned byte = k < n_units ? (k * 5) % 16 : k - n_units;
		uint64_t at = unit * 2 + byte / 8, before = p[at], wanted;
		uint64_t plus = (uint64_t)1 << (byte % 8 * 8);

		if ((uint8_t)(before >> (byte % 8 * 8)) == 255)
			plus = -plus; /* no carry to the next byte */
		wanted = before + plus;
		CHECK(__builtin_popcountll((before ^ wanted) >> (byte % 8 * 8) & ~255ull) ==
		      0);
		run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p + at, 1, plus);
		CHECK_OK(sluice_evict(s, p, CHUNK, SLUICE_TIER_HOST, NULL));
		changed++;
		CHECK(d2h(s) == changed * CHUNK);
		CHECK(p[at] == wanted);
	}
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_MEASURED_CLEAN) == 0);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_HASHES) == 1 + changed);
	space_end(s, p);
}

/* Data that only changed places: the words of a unit, and units near and far. */
static void
moved_data_are_found(void)
{
	static const uint64_t distance[] = {1, 2, 64, 512, CHUNK_N / 2};
	struct sluice_space *s = cuda_test_space(16, 64, "measure=1");
	struct sluice_use use;
	uint64_t *p = data_make(s, CHUNK, 7);

	use = (struct sluice_use){p, CHUNK, SLUICE_USE_READ_WRITE};
	for (unsigned k = 0; k < sizeof(distance) / sizeof(distance[0]); k++) {
		uint64_t words = distance[k] == 1 ? 1 : 2, was[2][2];
		uint64_t *a = p + 4096, *b = a + distance[k];
		struct sluice_launch *l;

		for (uint64_t w = 0; w < words; w++) {
			was[0][w] = a[w];
			was[1][w] = b[w];
		}
		CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
		for (uint64_t w = 0; w < words; w++) {
			cuda_test_launch(&t, s, NULL, TEST_ADD, a + w, 1,
					 was[1][w] - was[0][w]);
			cuda_test_launch(&t, s, NULL, TEST_ADD, b + w, 1,
					 was[0][w] - was[1][w]);
		}
		sluice_launch_end(l);
		CHECK_OK(sluice_evict(s, p, CHUNK, SLUICE_TIER_HOST, NULL));
		CHECK(d2h(s) == (k + 1) * CHUNK);
		for (uint64_t w = 0; w < words; w++)
			CHECK(a[w] == was[1][w] && b[w] == was[0][w]);
	}
	space_end(s, p);
}

static void
zeros_that_stay_zeros_are_not_copied(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, "measure=1");
	uint64_t word = cuda_test_word(&t), *p;
	struct sluice_residency where;

	CHECK_OK(sluice_alloc(s, 4 * CHUNK, 0, (void **)&p));
	run_in(s, p, 4 * CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p + CHUNK_N, 3, 9);
	CHECK_OK(sluice_evict(s, p, 4 * CHUNK, SLUICE_TIER_HOST, NULL));
	CHECK(d2h(s) == CHUNK);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_MEASURED_CLEAN) == 3 * CHUNK);
	CHECK_OK(sluice_residency(s, p, 4 * CHUNK, &where));
	CHECK(where.empty_bytes == 3 * CHUNK && where.tier_bytes[SLUICE_TIER_HOST] == CHUNK);
	for (uint64_t i = 0; i < 4 * CHUNK_N; i++)
		CHECK(p[i] == (i >= CHUNK_N && i < CHUNK_N + 3 ? 9 : 0));
	cuda_test_word_free(&t, word);
	space_end(s, p);
}

/* Read first, then written: hashed when the first launch comes that may write. */
static void
data_brought_to_be_read_are_measured_when_a_launch_may_write(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, "measure=1");
	uint64_t word = cuda_test_word(&t);
	uint64_t *p = data_make(s, 2 * CHUNK, 7);

	cuda_test_run(&t, s, NULL, TEST_SUM, p, 2 * CHUNK_N, word, SLUICE_USE_READ);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_HASHES) == 0);
	run_in(s, p, 2 * CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p + 9, 1, 1);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_HASHES) == 2);
	CHECK_OK(sluice_evict(s, p, 2 * CHUNK, SLUICE_TIER_HOST, NULL));
	CHECK(d2h(s) == CHUNK);
	CHECK(p[9] == 9 * K + 8 && p[CHUNK_N] == CHUNK_N * K + 7);
	cuda_test_word_free(&t, word);
	space_end(s, p);
}

/* Known writes are not measured, and a known write to what is measured is found like any other. */
static void
intents_that_say_more_are_not_measured(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, "measure=1");
	uint64_t *p = data_make(s, CHUNK, 7);

	run_in(s, p, CHUNK, SLUICE_USE_WRITE, TEST_ADD, p, 1, 1);
	CHECK_OK(sluice_evict(s, p, CHUNK, SLUICE_TIER_HOST, NULL));
	run_in(s, p, CHUNK, SLUICE_USE_WRITE_ALL, TEST_FILL, p, CHUNK_N, 3);
	CHECK_OK(sluice_evict(s, p, CHUNK, SLUICE_TIER_HOST, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_HASHES) == 0);
	CHECK(d2h(s) == 2 * CHUNK);
	run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p, 1, 0);
	run_in(s, p, CHUNK, SLUICE_USE_WRITE_ALL, TEST_FILL, p, CHUNK_N, 4);
	CHECK_OK(sluice_evict(s, p, CHUNK, SLUICE_TIER_HOST, NULL));
	CHECK(d2h(s) == 3 * CHUNK);
	for (uint64_t i = 0; i < CHUNK_N; i++)
		CHECK(p[i] == i * K + 4);
	space_end(s, p);
}

static void
frame_that_had_to_go_is_no_base(void)
{
	struct sluice_space *s = cuda_test_space(8, 8, "measure=1,staging=16M");
	uint64_t word = cuda_test_word(&t), *q;
	uint64_t *p = data_make(s, 4 * CHUNK, 7);

	run_in(s, p, 4 * CHUNK, SLUICE_USE_READ_WRITE, TEST_SUM, p, 4 * CHUNK_N, word);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_HASHES) == 4);
	q = data_make(s, 4 * CHUNK, 9); /* takes the host tier */
	CHECK_OK(sluice_space_check(s));
	for (uint64_t i = 0; i < 4 * CHUNK_N; i += 64)
		CHECK(p[i] == i * K + 7 && q[i] == i * K + 9);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_MEASURED_CLEAN) + d2h(s) == 4 * CHUNK);
	CHECK(d2h(s) > 0);
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_unmap(s, q));
	space_end(s, p);
}

static void
discarded_copies_are_no_base(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, "measure=1");
	uint64_t *p = data_make(s, CHUNK, 7);

	run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p, CHUNK_N, 0);
	CHECK_OK(sluice_discard(s, p, CHUNK, SLUICE_DISCARD_LAZY, NULL));
	/* The launch writes what was there before: by chance the very contents that were hashed. */
	run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_FILL, p, CHUNK_N, 7);
	CHECK_OK(sluice_evict(s, p, CHUNK, SLUICE_TIER_HOST, NULL));
	for (uint64_t i = 0; i < CHUNK_N; i++)
		CHECK(p[i] == i * K + 7);
	CHECK(d2h(s) == CHUNK);
	space_end(s, p);
}

/* ---- files --------------------------------------------------------------------------------- */

static char path[128];

static void
file_make(uint64_t words)
{
	static uint64_t block[CHUNK_N];
	int fd;

	snprintf(path, sizeof(path), "/var/tmp/sluice-test-measure-XXXXXX");
	fd = mkstemp(path);
	CHECK(fd >= 0);
	for (uint64_t at = 0; at < words; at += CHUNK_N) {
		for (uint64_t i = 0; i < CHUNK_N; i++)
			block[i] = at + i + 1;
		CHECK(write(fd, block, sizeof(block)) == (ssize_t)sizeof(block));
	}
	close(fd);
}

static uint64_t
file_word(uint64_t at)
{
	int fd = open(path, O_RDONLY);
	uint64_t value;

	CHECK(fd >= 0 && pread(fd, &value, 8, (off_t)(at * 8)) == 8);
	close(fd);
	return value;
}

/* Without a host tier the store is the copy that is kept. */
static void
file_that_is_only_read_is_not_written(const char *more)
{
	struct sluice_space *s = cuda_test_space(8, 0, more);
	uint64_t n = 8 * CHUNK_N, other = n - 2 * CHUNK_N, word = cuda_test_word(&t), *p;

	file_make(n);
	CHECK_OK(sluice_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE, (void **)&p));
	for (uint64_t at = 0; at < n; at += CHUNK_N)
		cuda_test_run(&t, s, NULL, TEST_SUM, p + at, CHUNK_N, word,
			      SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_sync(s, p, SLUICE_TO_END)); /* some are on the device still */
	CHECK(cuda_test_word_read(&t, word) == n * (n + 1) / 2);
	CHECK(d2h(s) == 0);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_STORE_WRITE_SYNC) == 0);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_STORE_WRITE_BACK) == 0);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_MEASURED_CLEAN) == n * 8);
	run_in(s, p + n - 4 * CHUNK_N, 4 * CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD,
	       p + n - 1, 1, 100);
	run_in(s, p + other, CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p + other, 1, 200);
	CHECK_OK(sluice_sync(s, p, SLUICE_TO_END));
	CHECK(file_word(n - 1) == n + 100 && file_word(other) == other + 201);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_STORE_WRITE_SYNC) == 2 * CHUNK);
	/* Copies as they were before the sync are none any more. */
	CHECK_OK(sluice_evict(s, p + other, 8, SLUICE_TIER_HOST, NULL));
	CHECK(p[other] == other + 201);
	/* What was synced is clean, and measured anew by the next launch. */
	run_in(s, p + n - CHUNK_N, CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p + n - 2, 1, 100);
	CHECK_OK(sluice_unmap(s, p));
	CHECK(file_word(n - 1) == n + 100 && file_word(n - 2) == n + 99);
	CHECK(file_word(0) == 1 && file_word(n - CHUNK_N) == n - CHUNK_N + 1);
	unlink(path);
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_space_destroy(s));
}

/* The store has something older than the frame that was hashed and then had to go. */
static void
store_that_is_older_than_the_frame_is_no_base(void)
{
	struct sluice_space *s = cuda_test_space(8, 8, "measure=1,staging=16M,writeback=1G");
	uint64_t n = 4 * CHUNK_N, word = cuda_test_word(&t), *p, *q;

	file_make(n);
	CHECK_OK(sluice_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE, (void **)&p));
	for (uint64_t i = 0; i < n; i += CHUNK_N)
		p[i] = 1000 + i;
	run_in(s, p, n * 8, SLUICE_USE_READ_WRITE, TEST_SUM, p, n, word);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_STORE_WRITE_BACK) == 0);
	q = data_make(s, 4 * CHUNK, 9); /* takes the host tier */
	CHECK_OK(sluice_evict(s, p, n * 8, SLUICE_TIER_STORE, NULL));
	for (uint64_t i = 0; i < n; i += CHUNK_N)
		CHECK(p[i] == 1000 + i && p[i + 1] == i + 2);
	CHECK(d2h(s) > 0);
	CHECK_OK(sluice_unmap(s, q));
	CHECK_OK(sluice_unmap(s, p));
	for (uint64_t i = 0; i < n; i += CHUNK_N)
		CHECK(file_word(i) == 1000 + i);
	unlink(path);
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_space_destroy(s));
}

/* A file that is written and not read: the zeros that a kernel writes are not those of the start. */
static void
zeros_written_to_a_file_reach_it(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, "measure=1");
	struct sluice_use uses[2];
	struct sluice_launch *l;
	uint64_t *p, *zeros;

	file_make(CHUNK_N);
	CHECK_OK(sluice_map(s, path, 0, 0, SLUICE_WRITE, (void **)&p));
	CHECK_OK(sluice_alloc(s, CHUNK, 0, (void **)&zeros));
	uses[0] = (struct sluice_use){zeros, CHUNK, SLUICE_USE_READ};
	uses[1] = (struct sluice_use){p, CHUNK, SLUICE_USE_READ_WRITE};
	CHECK_OK(sluice_launch_begin(s, NULL, uses, 2, &l));
	cuda_test_launch(&t, s, NULL, TEST_COPY, zeros, CHUNK_N, (uintptr_t)p);
	sluice_launch_end(l);
	CHECK_OK(sluice_unmap(s, p));
	CHECK(file_word(0) == 0 && file_word(CHUNK_N - 1) == 0);
	unlink(path);
	space_end(s, zeros);
}

/* ---- asked for by region, refused, failing --------------------------------------------------- */

static void
region_is_measured_by_advice(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	uint64_t word = cuda_test_word(&t);
	uint64_t *p = data_make(s, CHUNK, 7), *q = data_make(s, CHUNK, 7);

	CHECK_OK(sluice_advise(s, p, CHUNK, SLUICE_ADVISE_MEASURE));
	for (int round = 0; round < 2; round++) {
		run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_SUM, p, CHUNK_N, word);
		run_in(s, q, CHUNK, SLUICE_USE_READ_WRITE, TEST_SUM, q, CHUNK_N, word);
		CHECK_OK(sluice_evict(s, p, CHUNK, SLUICE_TIER_HOST, NULL));
		CHECK_OK(sluice_evict(s, q, CHUNK, SLUICE_TIER_HOST, NULL));
		CHECK_OK(sluice_advise(s, p, CHUNK, SLUICE_ADVISE_NORMAL));
	}
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_HASHES) == 2);
	CHECK(d2h(s) == 3 * CHUNK);
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_unmap(s, q));
	space_end(s, p);
}

/* Kernels that wait for the host would wait for a hash, and it for them. */
static void
nothing_is_hashed_while_kernels_may_fetch(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, "measure=1");
	uint64_t word = cuda_test_word(&t), hashes;
	uint64_t *p = data_make(s, 2 * CHUNK, 7);
	struct sluice_fetch_view view;
	struct sluice_fetch *fetch;

	run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_SUM, p, CHUNK_N, word);
	CHECK_OK(sluice_fetch_open(s, 4, &fetch, &view));
	hashes = cuda_test_counter(s, SLUICE_COUNTER_HASHES);
	CHECK(hashes == 1);
	run_in(s, p + CHUNK_N, CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p + CHUNK_N, 1, 1);
	CHECK_OK(sluice_evict(s, p, 2 * CHUNK, SLUICE_TIER_HOST, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_HASHES) == hashes);
	CHECK(d2h(s) == 2 * CHUNK);
	CHECK_OK(sluice_fetch_close(fetch));
	run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_SUM, p, CHUNK_N, word);
	CHECK_OK(sluice_evict(s, p, CHUNK, SLUICE_TIER_HOST, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_HASHES) == hashes + 2);
	CHECK(d2h(s) == 2 * CHUNK);
	CHECK(p[CHUNK_N] == CHUNK_N * K + 8);
	cuda_test_word_free(&t, word);
	space_end(s, p);
}

/* What hashing needs cannot be had: nothing is hashed. */
static void
failed_setup_means_copied(void)
{
	static const char *const failures[] = {
		"cuModuleLoadData:1:209",
		"cuModuleGetFunction:1:500",
		"cuMemHostAlloc:1:2",
		"cuLaunchKernel:1:304",
		"cuStreamCreateWithPriority:2:304",
	};

	for (unsigned k = 0; k < sizeof(failures) / sizeof(failures[0]); k++) {
		struct sluice_space *s;
		uint64_t *p;

		CHECK(t.standin->fail_set(failures[k]) == 0);
		s = cuda_test_space(16, 64, k % 2 ? "measure=1" : "measure=auto");
		CHECK(t.standin->fail_fired() == 1);
		t.standin->fail_set(NULL);
		p = data_make(s, 2 * CHUNK, 7);
		for (int round = 1; round <= 2; round++) {
			run_in(s, p, 2 * CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p + 3, 1, 1);
			CHECK_OK(sluice_evict(s, p, 2 * CHUNK, SLUICE_TIER_HOST, NULL));
			CHECK(d2h(s) == (unsigned)round * 2 * CHUNK);
		}
		CHECK(cuda_test_counter(s, SLUICE_COUNTER_HASHES) == 0);
		CHECK(p[3] == 3 * K + 9 && p[CHUNK_N] == CHUNK_N * K + 7);
		space_end(s, p);
	}
}

/* The hash that fails: that of an eviction, then that of an arrival. */
static void
failed_hash_means_copied(void)
{
	static const char *const failures[] = {"cuLaunchKernel:1:304",
					       "cuEventRecord:1:304"};
	struct sluice_space *s = cuda_test_space(16, 64, "measure=1");
	uint64_t word = cuda_test_word(&t);
	uint64_t *p = data_make(s, CHUNK, 7);

	for (unsigned k = 0; k < sizeof(failures) / sizeof(failures[0]); k++) {
		run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_ADD, p + 3, 1, 1);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		CHECK(t.standin->fail_set(failures[k]) == 0);
		CHECK_OK(sluice_evict(s, p, CHUNK, SLUICE_TIER_HOST, NULL));
		CHECK(t.standin->fail_fired() == 1);
		t.standin->fail_set(NULL);
		CHECK(d2h(s) == (k + 1) * CHUNK);
		CHECK(cuda_test_counter(s, SLUICE_COUNTER_HASHES) == k + 1);
		CHECK(p[3] == 3 * K + 8 + k);
	}
	CHECK(t.standin->fail_set("cuLaunchKernel:1:304") == 0);
	run_in(s, p, CHUNK, SLUICE_USE_READ_WRITE, TEST_SUM, p, CHUNK_N, word);
	CHECK(t.standin->fail_fired() == 1);
	t.standin->fail_set(NULL);
	CHECK_OK(sluice_evict(s, p, CHUNK, SLUICE_TIER_HOST, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_MEASURED_CLEAN) == 0);
	CHECK(p[4] == 4 * K + 7);
	cuda_test_word_free(&t, word);
	space_end(s, p);
}

int
main(void)
{
	cuda_test_open(&t);
	kernel_that_only_reads_moves_nothing_out();
	resident_data_are_not_hashed_again();
	launch_that_declares_nothing_moves_out_what_it_wrote();
	one_changed_byte_is_found();
	moved_data_are_found();
	zeros_that_stay_zeros_are_not_copied();
	data_brought_to_be_read_are_measured_when_a_launch_may_write();
	intents_that_say_more_are_not_measured();
	frame_that_had_to_go_is_no_base();
	discarded_copies_are_no_base();
	file_that_is_only_read_is_not_written("measure=1");
	file_that_is_only_read_is_not_written("measure=1,host_budget=64M");
	store_that_is_older_than_the_frame_is_no_base();
	zeros_written_to_a_file_reach_it();
	region_is_measured_by_advice();
	nothing_is_hashed_while_kernels_may_fetch();
	if (t.standin) {
		failed_setup_means_copied();
		failed_hash_means_copied();
	}
	cuda_test_close(&t, NULL);
	return 0;
}
