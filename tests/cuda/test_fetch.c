/* SPDX-License-Identifier: Apache-2.0 */
/* Fetch-and-pin from inside a kernel: one launch over more than device and host memory hold. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cuda/cuda_test.h"

static struct cuda_test t;

static void
fetch_run(struct sluice_space *s, unsigned blocks, void *p, uint64_t n, uint64_t tile,
	  uint64_t add, uint64_t out, uint64_t failed)
{
	struct sluice_fetch_view view;
	struct sluice_fetch *fetch;
	void *params[] = {&view, &p, &n, &tile, &add, &out, &failed};

	CHECK_OK(sluice_fetch_open(s, blocks, &fetch, &view));
	cuda_test_launch_params(&t, sluice_stream_native(s, NULL), TEST_FETCH, blocks,
				256, params);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(sluice_fetch_close(fetch));
}

static void
one_launch_works_on_more_than_device_and_host_hold(void)
{
	struct sluice_space *s = cuda_test_space(16, 16, NULL);
	uint64_t bytes = 96 * MIB, n = bytes / 8, tile = MIB / 8 * 3; /* not aligned to chunks */
	uint64_t out = cuda_test_word(&t), failed = cuda_test_word(&t);
	char path[] = "/var/tmp/sluice-test-fetch-XXXXXX";
	int fd = mkstemp(path);
	uint64_t *p;

	CHECK(fd >= 0);
	close(fd);
	CHECK_OK(sluice_map(s, path, 0, bytes, SLUICE_WRITE | SLUICE_READ | SLUICE_CREATE,
			    (void **)&p));
	for (uint64_t at = 0; at < n; at += MIB / 4)
		cuda_test_run(&t, s, NULL, TEST_FILL, p + at, MIB / 4, 1,
			      SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	/* More blocks than can hold their tiles at once: the others wait, nobody for ever. */
	fetch_run(s, 16, p, n, tile, 5, out, failed);
	CHECK(cuda_test_word_read(&t, failed) == 0);
	fetch_run(s, 7, p, n, tile, 0, out, failed);
	CHECK(cuda_test_word_read(&t, failed) == 0);
	{
		uint64_t sum = 0;

		for (uint64_t i = 0; i < MIB / 4; i++)
			sum += i * 0x9e3779b97f4a7c15ull + 1;
		sum *= n / (MIB / 4);
		CHECK(cuda_test_word_read(&t, out) == sum + sum + 5 * n);
	}
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_unmap(s, p));
	unlink(path);
	CHECK_OK(sluice_space_destroy(s));
	cuda_test_word_free(&t, out);
	cuda_test_word_free(&t, failed);
}

/* Kernels add 1 to all words, a chunk each, until chunks have left encoded since: a slow device is passed over. */
static uint64_t
added_until_encoded(struct sluice_space *s, uint64_t *p, uint64_t n)
{
	uint64_t before = cuda_test_counter(s, SLUICE_COUNTER_COMPRESS_OUT_SAVED), added = 0;

	do {
		for (uint64_t at = 0; at < n; at += MIB / 4)
			cuda_test_run(&t, s, NULL, TEST_ADD, p + at, MIB / 4, 1,
				      SLUICE_USE_READ_WRITE);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		CHECK(++added < 100);
	} while (cuda_test_counter(s, SLUICE_COUNTER_COMPRESS_OUT_SAVED) == before);
	return added;
}

/* What is compressed is decoded by the host: the kernel that waits for it may leave ours no room to run in. */
static void
compressed_chunks_come_as_they_are(void)
{
	struct sluice_space *s = cuda_test_space(
		48, 64, "chunk=2M,large_chunk=2M,readahead_chunks=0,compress=always");
	uint64_t bytes = 96 * MIB, n = bytes / 8, sum = 0, added;
	uint64_t out = cuda_test_word(&t), failed = cuda_test_word(&t), *p;

	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	for (uint64_t i = 0; i < n; i++)
		sum += p[i] = i % 200;
	added = added_until_encoded(s, p, n);
	if (t.standin)
		t.standin->calls_reset();
	fetch_run(s, 8, p, n, MIB / 4, 5, out, failed);
	CHECK(cuda_test_word_read(&t, failed) == 0);
	fetch_run(s, 3, p, n, MIB / 4, 0, out, failed);
	CHECK(cuda_test_word_read(&t, failed) == 0);
	CHECK(cuda_test_word_read(&t, out) == 2 * (sum + added * n) + 5 * n);
	CHECK(!t.standin || t.standin->calls("cuLaunchKernel") == 2); /* none of ours */
	added += added_until_encoded(s, p, n) + 5;
	for (uint64_t i = 0; i < n; i++)
		CHECK(p[i] == i % 200 + added);
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
	cuda_test_word_free(&t, out);
	cuda_test_word_free(&t, failed);
}

static void
wrong_requests_are_answered_and_told_to_the_host(void)
{
	struct sluice_space *s = cuda_test_space(16, 16, NULL);
	uint64_t rcs = cuda_test_word(&t);
	struct sluice_fetch_view view;
	struct sluice_fetch *fetch;
	int64_t got[4];
	void *p;
	void *params[] = {&view, &p, &rcs};

	CHECK_OK(sluice_alloc(s, 4 * MIB, 0, &p));
	CHECK(sluice_fetch_open(s, 0, &fetch, &view) == -EINVAL);
	CHECK(sluice_fetch_open(s, SLUICE_FETCH_BLOCKS_MAX + 1, &fetch, &view) == -EINVAL);
	CHECK_OK(sluice_fetch_open(s, 1, &fetch, &view));
	cuda_test_launch_params(&t, sluice_stream_native(s, NULL), TEST_FETCH_WRONG, 1,
				32, params);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(SL_CUDA(t.driver, cuMemcpyDtoHAsync, got, rcs, sizeof(got), NULL));
	CHECK_OK(SL_CUDA(t.driver, cuCtxSynchronize));
	CHECK(got[0] == 0 && got[1] == 100 && got[2] == -EDEADLK && got[3] == -ENOENT);
	CHECK(sluice_fetch_close(fetch) == -EDEADLK);
	CHECK(strstr(sluice_last_error(), "acquires while it holds"));
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
	cuda_test_word_free(&t, rcs);
}

/* Ordinary launches before, between and behind the kernel that fetches, on its own stream: their pins
 * wait for that kernel, and the kernel must not wait for them. */
static void
launches_around_the_kernel_do_not_hold_it_up(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	uint64_t bytes = 48 * MIB, n = bytes / 8, tile = MIB / 4, add = 0;
	uint64_t out = cuda_test_word(&t), failed = cuda_test_word(&t);
	struct sluice_fetch_view view;
	struct sluice_fetch *fetch;
	void *p, *q;
	void *params[] = {&view, &p, &n, &tile, &add, &out, &failed};

	CHECK_OK(sluice_alloc(s, bytes, 0, &p));
	CHECK_OK(sluice_alloc(s, 8 * MIB, 0, &q));
	cuda_test_run(&t, s, NULL, TEST_FILL, q, MIB, 1, SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	cuda_test_run(&t, s, NULL, TEST_ADD, q, MIB, 1, SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_fetch_open(s, 4, &fetch, &view));
	cuda_test_run(&t, s, NULL, TEST_ADD, q, MIB, 1, SLUICE_USE_READ_WRITE);
	cuda_test_launch_params(&t, sluice_stream_native(s, NULL), TEST_FETCH, 4, 256,
				params);
	cuda_test_run(&t, s, NULL, TEST_ADD, q, MIB, 1, SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(sluice_fetch_close(fetch));
	CHECK(cuda_test_word_read(&t, failed) == 0);
	CHECK(((uint64_t *)q)[0] == 4);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_unmap(s, q));
	CHECK_OK(sluice_space_destroy(s));
	cuda_test_word_free(&t, out);
	cuda_test_word_free(&t, failed);
}

int
main(void)
{
	cuda_test_open(&t);
	one_launch_works_on_more_than_device_and_host_hold();
	compressed_chunks_come_as_they_are();
	wrong_requests_are_answered_and_told_to_the_host();
	launches_around_the_kernel_do_not_hold_it_up();
	cuda_test_close(&t, NULL);
	return 0;
}
