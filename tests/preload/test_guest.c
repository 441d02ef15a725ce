/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program under the preload library that makes a space by the library: what its launches, copies and
 * fills name is brought by the space, beside the memory that the preload library manages. A kernel that
 * touches what is not there ends the context, so that each case shows that it was.
 */
#include <string.h>

#include "sluice/sluice.h"
#include "work.h"

#define MIB ((uint64_t)1 << 20)
#define N   (2 * MIB / sizeof(uint64_t)) /* elements of a chunk */

static struct work w;
static struct sluice_space *space;

static uint64_t *
region(uint64_t chunks, uint64_t value)
{
	void *addr;

	CHECK(!sluice_alloc(space, chunks * 2 * MIB, 0, &addr));
	for (uint64_t i = 0; i < chunks * N; i++)
		((uint64_t *)addr)[i] = value;
	return addr;
}

static void
expect(const uint64_t *p, uint64_t n, uint64_t value)
{
	for (uint64_t i = 0; i < n; i++)
		CHECK(p[i] == value);
}

static uint64_t
counter(enum sluice_counter which)
{
	struct sluice_stats stats;

	sluice_stats_get(space, &stats);
	return stats.counter[which];
}

static void
launches_bring_what_their_arguments_name(void)
{
	uint64_t *a = region(3, 1), *b = region(2, 10), *more = region(6, 5);
	uint64_t own = work_alloc(&w, N, 100);
	struct cu_stream *stream;

	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	work_launch(&w, WORK_ADD, NULL, (uintptr_t)a, 3 * N, 7);
	work_launch(&w, WORK_ADD, stream, (uintptr_t)(b + N), N, 7); /* an address inside */
	work_launch(&w, WORK_ADD, NULL, (uintptr_t)more, 6 * N, 1);
	OK(w.cuStreamSynchronize(stream));
	OK(w.cuStreamDestroy_v2(stream));
	work_launch(&w, WORK_COPY, NULL, own, N,
		    (uintptr_t)a); /* from one manager's to the other's */
	OK(w.cuCtxSynchronize());
	work_expect(&w, own, N, 8);
	expect(a, 3 * N, 8);
	expect(b, N, 10);
	expect(b + N, N, 17);
	expect(more, 6 * N, 6);
	OK(w.cuLaunchKernel_ptsz(w.kernel[WORK_ADD], 1, 1, 1, 1, 1, 1, 0, NULL,
				 (void *[]){&a, &(uint64_t){N}, &(uint64_t){2}}, NULL));
	OK(w.cuStreamSynchronize_ptsz(NULL));
	expect(a, N, 10);
	OK(w.cuMemFree_v2(own));
	CHECK(!sluice_unmap(space, a) && !sluice_unmap(space, b) &&
	      !sluice_unmap(space, more));
}

static void
copies_and_fills_bring_what_they_name(void)
{
	uint64_t *a = region(2, 3), *b = region(2, 4), *host = malloc(N * 8);
	uint64_t own = work_alloc(&w, N, 100);

	OK(w.cuMemcpyDtoDAsync_v2((uintptr_t)b, (uintptr_t)a, N * 8, NULL));
	OK(w.cuMemcpyDtoDAsync_v2(own, (uintptr_t)(a + N), N * 8, NULL));
	OK(w.cuMemsetD8Async((uintptr_t)a, 0, N * 8, NULL));
	OK(w.cuMemcpyDtoHAsync_v2(host, (uintptr_t)b, N * 8, NULL));
	OK(w.cuCtxSynchronize());
	expect(host, N, 3);
	work_expect(&w, own, N, 3);
	expect(a, N, 0);
	expect(a + N, N, 3);
	expect(b, N, 3);
	expect(b + N, N, 4);
	/* Their addresses in a host pointer's place: they are the device's all the same. */
	OK(w.cuMemcpyHtoDAsync_v2(own, b + N, N * 8, NULL));
	OK(w.cuMemcpyDtoHAsync_v2(a, own, N * 8, NULL));
	OK(w.cuCtxSynchronize());
	work_expect(&w, own, N, 4);
	expect(a, N, 4);
	free(host);
	OK(w.cuMemFree_v2(own));
	CHECK(!sluice_unmap(space, a) && !sluice_unmap(space, b));
}

/* The driver call of that name, as programs get it. */
#define GUEST_CALL(name) ((__typeof__(&(name)))dlsym(RTLD_DEFAULT, #name))

/* Of each region one chunk is on the device, and one is not. */
static void
batches_bring_what_they_name(void)
{
	uint64_t *a = region(2, 3), *b = region(2, 4);
	uint64_t to[] = {(uintptr_t)b}, from[] = {(uintptr_t)a};
	size_t bytes[] = {2 * N * 8}, firsts[] = {0};
	struct cu_copy_attributes attributes = {.access_order = 1};
	struct cu_batch_3d box = {.to = {.type = CU_OPERAND_POINTER,
					 .pointer = {.addr = (uintptr_t)(a + N / 2)}},
				  .from = {.type = CU_OPERAND_POINTER,
					   .pointer = {.addr = (uintptr_t)b}},
				  .width = N * 8,
				  .height = 1,
				  .depth = 1,
				  .access_order = 1};
	struct cu_stream *stream;

	OK(w.cuStreamCreate(&stream, CU_STREAM_NONBLOCKING));
	work_launch(&w, WORK_ADD, stream, (uintptr_t)a, N, 7);
	work_launch(&w, WORK_ADD, stream, (uintptr_t)(b + N), N, 7);
	CHECK(!sluice_evict(space, a + N, N * 8, SLUICE_TIER_HOST, NULL) &&
	      !sluice_evict(space, b, N * 8, SLUICE_TIER_HOST, NULL));
	OK(GUEST_CALL(cuMemcpyBatchAsync_v2)(to, from, bytes, 1, &attributes, firsts, 1,
					     stream));
	OK(w.cuStreamSynchronize(stream));
	CHECK(!sluice_evict(space, a + N, N * 8, SLUICE_TIER_HOST, NULL) &&
	      !sluice_evict(space, b + N, N * 8, SLUICE_TIER_HOST, NULL));
	OK(GUEST_CALL(cuMemcpy3DBatchAsync_v2)(1, &box, 0, stream));
	OK(w.cuStreamSynchronize(stream));
	OK(w.cuStreamDestroy_v2(stream));
	expect(b, N, 10);
	expect(b + N, N, 3);
	expect(a, N + N / 2, 10);
	expect(a + N + N / 2, N / 2, 3);
	CHECK(!sluice_unmap(space, a) && !sluice_unmap(space, b));
}

static void
what_the_program_declares_is_left_to_it(void)
{
	uint64_t *large = region(40, 1); /* more than device and host budget */
	struct sluice_use use = {large + 2 * N, 4 * N * 8, SLUICE_USE_READ_WRITE};
	struct sluice_launch *launch;
	uint64_t before = counter(SLUICE_COUNTER_LAUNCHES);
	int result;

	result = w.cuLaunchKernel(w.kernel[WORK_ADD], 1, 1, 1, 1, 1, 1, 0, NULL,
				  (void *[]){&large, &(uint64_t){N}, &(uint64_t){1}}, NULL);
	CHECK(result == CU_ERROR_OUT_OF_MEMORY);
	CHECK(!sluice_launch_begin(space, NULL, &use, 1, &launch));
	work_launch(&w, WORK_ADD, NULL, (uintptr_t)(large + 2 * N), 4 * N, 5);
	sluice_launch_end(launch);
	CHECK(counter(SLUICE_COUNTER_LAUNCHES) == before + 2);
	OK(w.cuCtxSynchronize());
	expect(large, 2 * N, 1);
	expect(large + 2 * N, 4 * N, 6);
	CHECK(!sluice_unmap(space, large));
}

static void
spaces_come_and_go(void)
{
	struct sluice_space *another[8];
	uint64_t own = work_alloc(&w, N, 1);
	void *addr;

	for (int i = 0; i < 7; i++)
		CHECK(!sluice_space_open("device=cuda,device_budget=8M,host_budget=8M,"
					 "address=1G",
					 &another[i]));
	CHECK(sluice_space_open("device=cuda,device_budget=8M,host_budget=8M,address=1G",
				&another[7]) == -ENOTSUP);
	CHECK(strstr(sluice_last_error(), "eight"));
	CHECK(!sluice_alloc(another[6], 2 * MIB, 0, &addr));
	work_launch(&w, WORK_COPY, NULL, (uintptr_t)addr, N, own);
	work_launch(&w, WORK_ADD, NULL, (uintptr_t)addr, N, 2);
	work_launch(&w, WORK_COPY, NULL, own, N, (uintptr_t)addr);
	work_expect(&w, own, N, 3);
	OK(w.cuMemFree_v2(own));
	for (int i = 0; i < 7; i++)
		CHECK(!sluice_space_destroy(another[i]));
	CHECK(!sluice_space_open("device=cuda,device_budget=8M,host_budget=8M,address=1G",
				 &another[0]));
	CHECK(!sluice_space_destroy(another[0]));
}

int
main(void)
{
	work_start(&w, 32, 64);
	CHECK(sluice_is_preloaded());
	CHECK(!sluice_space_open(
		"device=cuda,device_budget=16M,host_budget=32M,address=4G", &space));
	launches_bring_what_their_arguments_name();
	copies_and_fills_bring_what_they_name();
	batches_bring_what_they_name();
	what_the_program_declares_is_left_to_it();
	spaces_come_and_go();
	CHECK(!sluice_space_check(space));
	work_end(&w);
	/* The last: it destroys the context of its copies out, which the stand-in takes for the primary one. */
	CHECK(!sluice_space_destroy(space));
	puts("ok");
	return 0;
}
