/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for allocators (sluice/allocator.h): kernels reach it without a launch that declares it, on any
 * stream, on the device and in host memory; what is asked for is brought to the device.
 */
#include <errno.h>
#include <string.h>

#include "cuda/cuda_test.h"
#include "sluice/allocator.h"

#define K     0x9e3779b97f4a7c15ull
#define BLOCK (4 * MIB)
#define N     (BLOCK / 8)

static struct cuda_test t;

static uint64_t
on_device(struct sluice_space *s, const void *p)
{
	struct sluice_residency at;

	CHECK_OK(sluice_residency(s, p, BLOCK, &at));
	return at.tier_bytes[SLUICE_TIER_DEVICE];
}

/* Nothing is declared. */
static void
fill(void *p, uint64_t seed)
{
	cuda_test_launch_on(&t, NULL, TEST_FILL, (uintptr_t)p, N, seed);
}

static void
expect(void *p, uint64_t seed)
{
	uint64_t word = cuda_test_word(&t), sum = 0;

	cuda_test_launch_on(&t, NULL, TEST_SUM, (uintptr_t)p, N, word);
	for (uint64_t i = 0; i < N; i++)
		sum += i * K + seed;
	CHECK(cuda_test_word_read(&t, word) == sum);
	cuda_test_word_free(&t, word);
}

static void
kernels_reach_more_than_the_device_has(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	void *p[8];

	for (uint64_t i = 0; i < 8; i++) {
		CHECK_OK(sluice_memory_alloc(s, BLOCK, 0, &p[i]));
		fill(p[i], i);
	}
	CHECK(on_device(s, p[0]) == BLOCK && on_device(s, p[7]) == 0);
	for (uint64_t i = 0; i < 8; i++)
		expect(p[i], i);
	CHECK_OK(sluice_space_check(s));
	for (uint64_t i = 0; i < 8; i++)
		CHECK_OK(sluice_memory_free(s, p[i]));
	CHECK(sluice_memory_free(s, p[0]) == -ENOENT);
	cuda_test_close(&t, s);
}

static void
what_is_asked_for_is_brought_to_the_device(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	const void *wanted[2], *elsewhere = &s;
	size_t sizes[2] = {BLOCK, BLOCK};
	void *p[6];

	for (uint64_t i = 0; i < 6; i++) {
		CHECK_OK(sluice_memory_alloc(s, BLOCK, 0, &p[i]));
		fill(p[i], i);
	}
	for (int turn = 0; turn < 3; turn++) {
		wanted[0] = p[4 - 2 * turn];
		wanted[1] = p[5 - 2 * turn];
		CHECK_OK(sluice_memory_place(s, wanted, sizes, 2));
		CHECK(on_device(s, wanted[0]) == BLOCK && on_device(s, wanted[1]) == BLOCK);
		for (uint64_t i = 0; i < 6; i++)
			expect(p[i], i + (uint64_t)turn * 10);
		for (uint64_t i = 0; i < 6; i++)
			fill(p[i], i + (uint64_t)(turn + 1) * 10);
	}
	if (t.standin)
		t.standin->calls_reset();
	CHECK_OK(sluice_memory_place(s, wanted, sizes, 2)); /* they are there */
	CHECK_OK(sluice_memory_place(s, &elsewhere, sizes, 1));
	CHECK_OK(sluice_memory_place(s, NULL, NULL, 0));
	CHECK(sluice_memory_place(s, NULL, sizes, 1) == -EINVAL);
	if (t.standin)
		CHECK(t.standin->calls("cuCtxSynchronize") == 0);
	CHECK_OK(sluice_space_check(s));
	for (uint64_t i = 0; i < 6; i++)
		CHECK_OK(sluice_memory_free(s, p[i]));
	cuda_test_close(&t, s);
}

static void
what_has_no_room_is_refused_and_space_comes_back(void)
{
	struct sluice_space *s = cuda_test_space(16, 16, NULL);
	void *p[16], *q;
	unsigned n = 0;
	int rc;

	CHECK(sluice_memory_alloc(s, 0, 0, &q) == -EINVAL);
	CHECK(sluice_memory_alloc(s, BLOCK, 2, &q) == -EINVAL);
	CHECK(sluice_memory_alloc(s, 128 * MIB, 0, &q) == -ENOBUFS);
	for (int turn = 0; turn < 3; turn++) {
		n = 0;
		while (n < 16 && !(rc = sluice_memory_alloc(s, BLOCK, 0, &p[n]))) {
			fill(p[n], n);
			n++;
		}
		CHECK(n >= 5 && n < 16);
		CHECK(rc == -ENOBUFS || rc == -ENOMEM);
		while (n--)
			CHECK_OK(sluice_memory_free(s, p[n]));
	}
	CHECK_OK(sluice_space_check(s));
	cuda_test_close(&t, s);
}

static void
functions_for_pytorch_find_their_space(void)
{
	struct sluice_space *s = cuda_test_space(32, 32, NULL);
	void *p, *q;

	CHECK(!sluice_torch_alloc(BLOCK, 0, NULL));
	CHECK(!sluice_memory_contains(s, &q));
	sluice_torch_space_set(s);
	CHECK(!sluice_torch_alloc(BLOCK, 5, NULL));
	CHECK(!sluice_torch_alloc(-1, 0, NULL));
	p = sluice_torch_alloc(BLOCK, 0, NULL);
	q = sluice_torch_alloc_host(BLOCK, 0, NULL);
	CHECK(p && q && on_device(s, p) == BLOCK && on_device(s, q) == 0);
	CHECK(sluice_memory_contains(s, (char *)p + BLOCK - 1));
	CHECK(!sluice_memory_contains(s, (char *)p + BLOCK));
	fill(p, 1);
	fill(q, 2);
	expect(p, 1);
	expect(q, 2);
	sluice_torch_free(p, BLOCK, 0, NULL);
	sluice_torch_free(q, BLOCK, 0, NULL);
	sluice_torch_free(NULL, 0, 0, NULL);
	sluice_torch_space_set(NULL);
	CHECK_OK(sluice_space_check(s));
	cuda_test_close(&t, s);
}

int
main(void)
{
	static void (*const cases[])(void) = {
		kernels_reach_more_than_the_device_has,
		what_is_asked_for_is_brought_to_the_device,
		what_has_no_room_is_refused_and_space_comes_back,
		functions_for_pytorch_find_their_space,
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cuda_test_open(&t);
		cases[i]();
	}
	puts("ok");
	return 0;
}
