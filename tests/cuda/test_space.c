/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A space on the CUDA device: data larger than the device budget, in host memory and in files,
 * used by kernels through plain pointers and by host code at the same addresses.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cuda/cuda_test.h"

#define K 0x9e3779b97f4a7c15ull

static struct cuda_test t;

static uint64_t
fill_sum(uint64_t n, uint64_t seed)
{
	uint64_t sum = n * seed;

	for (uint64_t i = 0; i < n; i++)
		sum += i * K;
	return sum;
}

static void
tiles_larger_than_the_device_are_written_and_read_back(void)
{
	struct sluice_space *s = cuda_test_space(32, 256, NULL);
	uint64_t bytes = 128 * MIB, tile = 8 * MIB, n = tile / 8;
	uint64_t word = cuda_test_word(&t), wanted = 0;
	void *p;

	CHECK_OK(sluice_alloc(s, bytes, 0, &p));
	for (uint64_t at = 0; at < bytes; at += tile)
		cuda_test_run(&t, s, NULL, TEST_FILL, (char *)p + at, n, at,
			      SLUICE_USE_WRITE_ALL);
	for (uint64_t at = 0; at < bytes; at += tile)
		cuda_test_run(&t, s, NULL, TEST_ADD, (char *)p + at, n, 3,
			      SLUICE_USE_READ_WRITE);
	for (uint64_t at = 0; at < bytes; at += tile) {
		cuda_test_run(&t, s, NULL, TEST_SUM, (char *)p + at, n, word,
			      SLUICE_USE_READ);
		wanted += fill_sum(n, at + 3);
	}
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_word_read(&t, word) == wanted);
	/* Nothing was read in to be written over; each other pass brought it all in but what the
	 * pass before left. */
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_H2D_LAUNCH) == 2 * bytes);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_STORE_WRITE_SPILL) == 0);
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
host_code_and_kernels_see_each_others_writes(void)
{
	struct sluice_space *s = cuda_test_space(16, 128, NULL);
	uint64_t bytes = 40 * MIB + 8192, n = bytes / 8;
	uint64_t *p;

	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	for (uint64_t i = 0; i < n; i += 512) /* first touch: the rest is zeros */
		p[i] = i;
	for (uint64_t at = 0; at < n; at += MIB / 2) {
		uint64_t m = n - at < MIB / 2 ? n - at : MIB / 2;

		cuda_test_run(&t, s, NULL, TEST_ADD, p + at, m, 7, SLUICE_USE_READ_WRITE);
	}
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	for (uint64_t i = 0; i < n; i++)
		CHECK(p[i] == (i % 512 ? 7 : i + 7));
	for (uint64_t i = 0; i < n; i += 1024)
		p[i] = 5;
	CHECK_OK(sluice_space_check(s));
	cuda_test_run(&t, s, NULL, TEST_ADD, p, MIB / 2, 1, SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	for (uint64_t i = 0; i < MIB / 2; i++)
		CHECK(p[i] == (i % 1024 == 0 ? 6 : i % 512 ? 8 : i + 8));
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
}

static char *
file_make(const char *name, uint64_t bytes)
{
	static char path[256];
	uint64_t block[512];
	int fd;

	snprintf(path, sizeof(path), "/var/tmp/sluice-test-%s-XXXXXX", name);
	fd = mkstemp(path);
	CHECK(fd >= 0);
	for (uint64_t at = 0; at < bytes; at += sizeof(block)) {
		for (uint64_t i = 0; i < 512; i++)
			block[i] = at / 8 + i;
		CHECK(write(fd, block, sizeof(block)) == (ssize_t)sizeof(block));
	}
	close(fd);
	return path;
}

static void
file_larger_than_device_and_host_is_read_and_changed(void)
{
	struct sluice_space *s = cuda_test_space(16, 16, NULL);
	uint64_t bytes = 96 * MIB, tile = 4 * MIB, n = tile / 8;
	char *path = file_make("rw", bytes);
	uint64_t word = cuda_test_word(&t), value, total = bytes / 8;
	char *p;
	int fd;

	CHECK_OK(sluice_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE, (void **)&p));
	for (uint64_t at = 0; at < bytes; at += tile)
		cuda_test_run(&t, s, NULL, TEST_SUM, p + at, n, word, SLUICE_USE_READ);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_word_read(&t, word) == total * (total - 1) / 2);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_STORE_WRITE_BACK) == 0);
	for (uint64_t at = 0; at < bytes; at += tile)
		cuda_test_run(&t, s, NULL, TEST_ADD, p + at, n, 1, SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_sync(s, p, SLUICE_TO_END));
	fd = open(path, O_RDONLY);
	CHECK(fd >= 0);
	for (uint64_t i = 0; i < total; i += 12345) {
		CHECK(pread(fd, &value, 8, (off_t)(i * 8)) == 8);
		CHECK(value == i + 1);
	}
	close(fd);
	CHECK_OK(sluice_unmap(s, p));
	unlink(path);
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* Clean, and read by host code while the chunks behind it go: it is shown, and stays where it is. */
static void
what_host_code_reads_meanwhile_does_not_go_to_the_store(void)
{
	struct sluice_space *s = cuda_test_space(128, 128, NULL);
	uint64_t bytes = 64 * MIB, chunk = 2 * MIB;
	char *path = file_make("evicted", bytes);
	struct sluice_stream *stream;
	volatile uint64_t *p;

	CHECK_OK(sluice_map(s, path, 0, 0, SLUICE_READ | SLUICE_WRITE,
			    (void **)(uintptr_t)&p));
	CHECK_OK(sluice_stream_create(s, &stream));
	for (unsigned i = 0; i < 4; i++) {
		uint64_t begin = (i + 1) * MIB / 32; /* not a page of the time before */

		cuda_test_run(&t, s, stream, TEST_ADD, (char *)(uintptr_t)p + chunk,
			      (bytes - chunk) / 8, 1, SLUICE_USE_READ_WRITE);
		CHECK_OK(sluice_stream_synchronize(s, stream));
		CHECK_OK(sluice_evict(s, (void *)(uintptr_t)p, bytes, SLUICE_TIER_STORE,
				      stream));
		do { /* how often depends on the disk: on a fast one it may be over by now */
			CHECK(p[0] == i);
			usleep(100);
		} while (cuda_test_counter(s, SLUICE_COUNTER_STORE_WRITE_BACK) <
			 (i + 1) * (bytes - chunk));
		CHECK_OK(sluice_stream_synchronize(s, stream));
		CHECK_OK(sluice_space_check(s));
		p[0] = i + 1; /* where a read shows it, its first write */
		CHECK_OK(sluice_evict(s, (void *)(uintptr_t)p, chunk, SLUICE_TIER_STORE,
				      NULL));
		CHECK(p[0] == i + 1 && p[begin] == begin);
	}
	sluice_stream_destroy(stream);
	CHECK_OK(sluice_unmap(s, (void *)(uintptr_t)p));
	unlink(path);
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* Resident launches; an event is recorded behind so many of them where memory is what somebody may want. */
static void
resident_launches(unsigned device_mib, unsigned n, unsigned events)
{
	struct sluice_space *s = cuda_test_space(device_mib, 64, NULL);
	struct sluice_use uses[10];
	struct sluice_launch *l;
	char *p;

	CHECK_OK(sluice_alloc(s, 20 * MIB, 0, (void **)&p));
	for (int i = 0; i < 10; i++)
		uses[i] = (struct sluice_use){p + (uint64_t)i * 2 * MIB, 2 * MIB,
					      SLUICE_USE_READ_WRITE};
	for (unsigned i = 0; i < n + 2; i++) {
		if (i == 2 && t.standin)
			t.standin->calls_reset();
		CHECK_OK(sluice_launch_begin(s, NULL, uses, 10, &l));
		sluice_launch_end(l);
		if (i < 2)
			CHECK_OK(sluice_stream_synchronize(s, NULL));
	}
	if (t.standin)
		CHECK(events ? t.standin->calls("cuEventRecord") == events
			     : t.standin->calls("*") == 0);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_LAUNCHES_RESIDENT) == n + 1);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
}

static void
resident_launch_makes_no_driver_call(void)
{
	resident_launches(64, 1, 0);
	resident_launches(64, 500, 0);
	resident_launches(32, 1, 0);
	resident_launches(32, 500, 500 / 64);
}

static void
discarded_data_is_not_copied_out(void)
{
	struct sluice_space *s = cuda_test_space(32, 128, NULL);
	uint64_t bytes = 24 * MIB;
	char *a, *b;

	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&a));
	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&b));
	cuda_test_run(&t, s, NULL, TEST_FILL, a, bytes / 8, 1, SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_discard(s, a, bytes, SLUICE_DISCARD_LAZY, NULL));
	cuda_test_run(&t, s, NULL, TEST_FILL, b, bytes / 8, 2, SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_D2H_EVICT) == 0);
	CHECK(((uint64_t *)b)[1000] == 1000 * K + 2);
	CHECK_OK(sluice_unmap(s, a));
	CHECK_OK(sluice_unmap(s, b));
	CHECK_OK(sluice_space_destroy(s));
}

/* They live again in the books alone: what the driver is asked is whether the stream is being captured. */
static void
launch_over_lazily_discarded_data_enqueues_nothing(void)
{
	struct sluice_space *s = cuda_test_space(32, 128, NULL);
	uint64_t bytes = 8 * MIB, calls = 0;
	struct sluice_use use = {.size_bytes = bytes, .intent = SLUICE_USE_WRITE_ALL};
	struct sluice_stream *stream;
	struct sluice_launch *l;
	uint64_t *p;

	CHECK_OK(sluice_stream_create(s, &stream));
	CHECK_OK(sluice_alloc(s, 2 * bytes, 0, (void **)&p)); /* a part of it is used */
	use.addr = p;
	for (int i = 0; i < 20; i++) {
		cuda_test_run(&t, s, stream, TEST_FILL, p, bytes / 8, 1,
			      SLUICE_USE_WRITE_ALL);
		CHECK_OK(sluice_stream_synchronize(s, stream));
		if (i == 10 && t.standin)
			t.standin->calls_reset();
		CHECK_OK(sluice_discard(s, p, bytes, SLUICE_DISCARD_LAZY, stream));
		CHECK_OK(sluice_launch_begin(s, stream, &use, 1, &l));
		sluice_launch_end(l);
		if (i == 10 && t.standin)
			calls = t.standin->calls("*") -
				t.standin->calls("cuStreamIsCapturing") -
				t.standin->calls("cuCtxPushCurrent_v2") -
				t.standin->calls("cuCtxPopCurrent_v2") -
				t.standin->calls("cuEventQuery");
	}
	CHECK(calls == 0); /* nor are ended launches asked after */
	CHECK_OK(sluice_stream_synchronize(s, stream));
	sluice_stream_destroy(stream);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
streams_of_the_program_are_wrapped(void)
{
	struct sluice_space *s = cuda_test_space(32, 128, NULL);
	uint64_t bytes = 64 * MIB, tile = 4 * MIB;
	struct cu_stream *native[2];
	struct sluice_stream *stream[2];
	uint64_t *p;

	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	for (int i = 0; i < 2; i++) {
		CHECK_OK(SL_CUDA(t.driver, cuStreamCreate, &native[i], CU_STREAM_NONBLOCKING));
		CHECK_OK(sluice_stream_wrap(s, native[i], &stream[i]));
		CHECK(sluice_stream_native(s, stream[i]) == native[i]);
	}
	for (uint64_t at = 0, k = 0; at < bytes; at += tile, k++)
		cuda_test_run(&t, s, stream[k % 2], TEST_FILL, p + at / 8, tile / 8, at,
			      SLUICE_USE_WRITE_ALL);
	for (int i = 0; i < 2; i++)
		CHECK_OK(sluice_stream_synchronize(s, stream[i]));
	for (uint64_t at = 0; at < bytes; at += tile)
		CHECK(p[at / 8 + 77] == 77 * K + at);
	for (int i = 0; i < 2; i++) {
		sluice_stream_destroy(stream[i]);
		CHECK_OK(SL_CUDA(t.driver, cuStreamDestroy, native[i]));
	}
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
}

/* The stand-in heeds wishes; no two spaces have the same. */
static void
addresses_are_where_little_looks_like_one(void)
{
	struct sluice_space *s[2];
	uint64_t base[2];

	for (int i = 0; i < 2; i++) {
		void *p;

		s[i] = cuda_test_space(8, 32, NULL);
		CHECK_OK(sluice_alloc(s[i], 4 * MIB, 0, &p));
		base[i] = (uintptr_t)p;
	}
	CHECK(base[0] != base[1]);
#ifndef __SANITIZE_THREAD__ /* with it wishes are not heeded */
	if (t.standin)
		CHECK(base[0] >> 32 >= 0x5db3 && base[1] > base[0] && base[1] >> 32 < 0x7c00);
#endif
	for (int i = 0; i < 2; i++)
		CHECK_OK(sluice_space_destroy(s[i]));
}

int
main(void)
{
	cuda_test_open(&t);
	tiles_larger_than_the_device_are_written_and_read_back();
	host_code_and_kernels_see_each_others_writes();
	file_larger_than_device_and_host_is_read_and_changed();
	what_host_code_reads_meanwhile_does_not_go_to_the_store();
	resident_launch_makes_no_driver_call();
	discarded_data_is_not_copied_out();
	launch_over_lazily_discarded_data_enqueues_nothing();
	streams_of_the_program_are_wrapped();
	addresses_are_where_little_looks_like_one();
	cuda_test_close(&t, NULL);
	return 0;
}
