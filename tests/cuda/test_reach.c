/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Zero-copy: kernels use host memory at the address of the program. Cases are the excess of a
 * launch larger than the device budget, launches that declare nothing, and kernels that touch
 * more than declared.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "core/interpose.h"
#include "core/launch/launch.h"
#include "cuda/cuda_test.h"

#define K     0x9e3779b97f4a7c15ull
#define BEGUN 4u /* frames that are being made at a time: SL_CUDA_AHEAD_THREADS */

static struct cuda_test t;

static void
excess_of_a_launch_stays_in_host_memory_and_counts_no_move(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, NULL);
	uint64_t bytes = 32 * MIB, n = bytes / 8, word = cuda_test_word(&t), sum = 0;
	uint64_t *p;

	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	for (uint64_t i = 0; i < n; i++) {
		p[i] = i * K;
		sum += p[i];
	}
	for (int round = 0; round < 3; round++)
		cuda_test_run(&t, s, NULL, TEST_SUM, p, n, word, SLUICE_USE_READ);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_word_read(&t, word) == 3 * sum);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_H2D_LAUNCH) == 16 * MIB);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_D2H_EVICT) == 0);
	cuda_test_run(&t, s, NULL, TEST_ADD, p, n, 1, SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(sluice_space_check(s));
	for (uint64_t i = 0; i < n; i++)
		CHECK(p[i] == i * K + 1);
	/* What was reached moves to the device when it is wanted there, and back. */
	for (uint64_t at = 0; at < n; at += MIB / 2)
		cuda_test_run(&t, s, NULL, TEST_ADD, p + at, MIB / 2, 1,
			      SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	for (uint64_t i = 0; i < n; i++)
		CHECK(p[i] == i * K + 2);
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* Host code is shown all that the host tier holds. A launch that does not fit has it hidden, and written. */
static void
excess_takes_the_place_of_what_host_code_is_shown(void)
{
	struct sluice_space *s = cuda_test_space(16, 24,
						 "chunk=4M,large_chunk=4M,staging=128M");
	uint64_t n = 24 * MIB / 8, *p, *q;

	CHECK_OK(sluice_alloc(s, n * 8, 0, (void **)&p));
	CHECK_OK(sluice_alloc(s, n * 8, 0, (void **)&q));
	for (uint64_t i = 0; i < n; i++)
		p[i] = i * K;
	cuda_test_run(&t, s, NULL, TEST_ADD, q, n, 7, SLUICE_USE_READ_WRITE);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_STORE_WRITE_SPILL) >= 8 * MIB);
	CHECK_OK(sluice_space_check(s));
	for (uint64_t i = 0; i < n; i++)
		CHECK(p[i] == i * K && q[i] == 7);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_unmap(s, q));
	CHECK_OK(sluice_space_destroy(s));
}

static void
launch_larger_than_device_and_host_is_refused_by_name(void)
{
	struct sluice_space *s = cuda_test_space(16, 16, NULL);
	struct sluice_launch *l;
	struct sluice_use use;
	void *p;

	CHECK_OK(sluice_alloc(s, 64 * MIB, 0, &p));
	use = (struct sluice_use){p, 64 * MIB, SLUICE_USE_READ_WRITE};
	CHECK(sluice_launch_begin(s, NULL, &use, 1, &l) == -ENOBUFS);
	CHECK(strstr(sluice_last_error(), "67108864 of anonymous at"));
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
}

/* The kernel reads q, which the launch does not name. */
static void
undeclared(const char *more, int declare_other)
{
	struct sluice_space *s = cuda_test_space(16, 64, more);
	uint64_t bytes = 24 * MIB, n = bytes / 8, word = cuda_test_word(&t), sum = 0;
	struct sluice_launch *l;
	struct sluice_use use;
	uint64_t *p, *q;

	CHECK_OK(sluice_alloc(s, 4 * MIB, 0, (void **)&p));
	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&q));
	for (uint64_t at = 0; at < n; at += MIB / 4) /* some of it on the device, some not */
		cuda_test_run(&t, s, NULL, TEST_FILL, q + at, MIB / 4, at,
			      SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	for (uint64_t i = 0; i < n; i++)
		sum += i % (MIB / 4) * K + i / (MIB / 4) * (MIB / 4);
	use = (struct sluice_use){p, 4 * MIB, SLUICE_USE_READ_WRITE};
	CHECK_OK(sluice_launch_begin(s, NULL, &use, declare_other, &l));
	cuda_test_launch(&t, s, NULL, TEST_SUM, q, n, word);
	sluice_launch_end(l);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_word_read(&t, word) == sum);
	if (!declare_other) { /* and writes, too */
		CHECK_OK(sluice_launch_begin(s, NULL, NULL, 0, &l));
		cuda_test_launch(&t, s, NULL, TEST_ADD, q, n, 1);
		sluice_launch_end(l);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		for (uint64_t i = 0; i < n; i += 333)
			CHECK(q[i] == i % (MIB / 4) * K + i / (MIB / 4) * (MIB / 4) + 1);
	}
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_unmap(s, q));
	CHECK_OK(sluice_space_destroy(s));
}

/* Two launches at once, on two streams, each of more than half of host memory. */
static void
a_launch_waits_for_host_memory_that_another_one_reaches(void)
{
	struct sluice_space *s = cuda_test_space(16, 24, NULL);
	uint64_t bytes = 16 * MIB, n = bytes / 8;
	struct sluice_stream *stream[2];
	struct sluice_launch *l;
	uint64_t *pinned, *both, *p[2];

	/* What both use takes all of the device that is not pinned. */
	CHECK_OK(sluice_alloc(s, 12 * MIB, 0, (void **)&pinned));
	CHECK_OK(sluice_pin(s, pinned, 12 * MIB));
	CHECK_OK(sluice_alloc(s, 4 * MIB, 0, (void **)&both));
	for (int i = 0; i < 2; i++) {
		struct sluice_use uses[2] = {{both, 4 * MIB, SLUICE_USE_READ}};

		CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p[i]));
		CHECK_OK(sluice_stream_create(s, &stream[i]));
		uses[1] = (struct sluice_use){p[i], bytes, SLUICE_USE_READ_WRITE};
		CHECK_OK(sluice_launch_begin(s, stream[i], uses, 2, &l));
		cuda_test_launch(&t, s, stream[i], TEST_DELAY, p[i], 1, 20 * 1000 * 1000);
		cuda_test_launch(&t, s, stream[i], TEST_ADD, p[i], n, 7);
		sluice_launch_end(l);
	}
	for (int i = 0; i < 2; i++) {
		CHECK_OK(sluice_stream_synchronize(s, stream[i]));
		sluice_stream_destroy(stream[i]);
		for (uint64_t k = 0; k < n; k++)
			CHECK(p[i][k] == 7);
		CHECK_OK(sluice_unmap(s, p[i]));
	}
	CHECK_OK(sluice_unpin(s, pinned, 12 * MIB));
	CHECK_OK(sluice_unmap(s, pinned));
	CHECK_OK(sluice_unmap(s, both));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static uint64_t
calls(const char *name)
{
	return t.standin ? t.standin->calls(name) : 0;
}

/* Frames are made for copies until kernels are to use one. */
static void
frames_become_mappable_when_they_are_reached(void)
{
	struct sluice_space *s = cuda_test_space(16, 128, "chunk=2M,large_chunk=2M");
	uint64_t bytes = 48 * MIB, n = bytes / 8, tile = 2 * MIB / 8, registered, dropped;
	struct sluice_launch *l;
	uint64_t *p;

	registered = calls("cuMemHostRegister_v2");
	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	for (uint64_t at = 0; at < n; at += tile)
		cuda_test_run(&t, s, NULL, TEST_FILL, p + at, tile, at, SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(!t.standin || calls("cuMemHostRegister_v2") > registered);
	dropped = calls("cuMemHostUnregister");
	CHECK_OK(sluice_launch_begin(s, NULL, NULL, 0, &l));
	cuda_test_launch(&t, s, NULL, TEST_ADD, p, n, 1);
	sluice_launch_end(l);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	registered = calls("cuMemHostRegister_v2");
	CHECK_OK(sluice_space_check(s));
	for (int round = 0; round < 3; round++) {
		for (uint64_t at = 0; at < n; at += tile)
			cuda_test_run(&t, s, NULL, TEST_ADD, p + at, tile, 1,
				      SLUICE_USE_READ_WRITE);
		CHECK_OK(sluice_launch_begin(s, NULL, NULL, 0, &l));
		cuda_test_launch(&t, s, NULL, TEST_ADD, p, n, 1);
		sluice_launch_end(l);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
	}
	CHECK(calls("cuMemHostRegister_v2") <= registered + BEGUN); /* by then */
	for (uint64_t i = 0; i < n; i += 333)
		CHECK(p[i] == i % tile * K + i / tile * tile + 7);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
	CHECK(!t.standin || calls("cuMemHostUnregister") > dropped);
}

/* Then, too, what leaves for a lower budget is only copied back. */
static void
frames_of_a_lower_budget_are_for_copies(void)
{
	struct sluice_space *s = cuda_test_space(16, 256, "chunk=2M,large_chunk=2M");
	uint64_t bytes = 48 * MIB, n = bytes / 8, registered;
	uint64_t *reached, *p;

	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&reached));
	cuda_test_run(&t, s, NULL, TEST_FILL, reached, n, 5, SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK_OK(sluice_space_set_budget(s, SLUICE_TIER_DEVICE, 128 * MIB));
	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	cuda_test_run(&t, s, NULL, TEST_FILL, reached, n, 6, SLUICE_USE_WRITE_ALL);
	cuda_test_run(&t, s, NULL, TEST_FILL, p, n, 7, SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	registered = calls("cuMemHostRegister_v2");
	CHECK_OK(sluice_space_set_budget(s, SLUICE_TIER_DEVICE, 4 * MIB));
	CHECK(!t.standin || calls("cuMemHostRegister_v2") > registered);
	CHECK(cuda_test_counter(s, SLUICE_COUNTER_D2H_REQUEST) >= 2 * bytes - 4 * MIB);
	for (uint64_t i = 0; i < n; i += 333)
		CHECK(p[i] == i * K + 7 && reached[i] == i * K + 6);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_unmap(s, reached));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* Where memory cannot be registered, all frames are the driver's. */
static void
what_cannot_be_registered_is_the_drivers(void)
{
	struct sluice_space *s = cuda_test_space(16, 64, "chunk=2M,large_chunk=2M");
	uint64_t bytes = 48 * MIB, n = bytes / 8, tile = 2 * MIB / 8, registered;
	uint64_t *p;

	registered = calls("cuMemHostRegister_v2");
	if (t.standin)
		CHECK(!t.standin->fail_set("cuMemHostRegister_v2:1+:801"));
	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	for (int round = 0; round < 2; round++)
		for (uint64_t at = 0; at < n; at += tile)
			cuda_test_run(&t, s, NULL, round ? TEST_ADD : TEST_FILL, p + at,
				      tile, round ? 1 : at,
				      round ? SLUICE_USE_READ_WRITE : SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	for (uint64_t i = 0; i < n; i += 333)
		CHECK(p[i] == i % tile * K + i / tile * tile + 1);
	if (t.standin) {
		CHECK(t.standin->fail_fired() > 0);
		CHECK(!t.standin->fail_set(NULL));
	}
	CHECK(calls("cuMemHostRegister_v2") <= registered + 1 + BEGUN); /* it is not asked again */
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

/* Calls of the device's that the mover makes for a prefetch, held until a launch waits for the chunk. */
static struct {
	const struct sl_device_ops *ops;
	const struct sl_device_zerocopy *zerocopy;
	struct sluice_space *space;
	atomic_int armed, begun;
} held;

static int
chunk_is_awaited(struct sluice_space *s)
{
	uint32_t waiters = 0;

	sl_space_lock(s);
	for (unsigned i = 0; i < SL_WAIT_BUCKETS; i++)
		waiters += s->chunk_waiters[i];
	sl_space_unlock(s);
	return waiters != 0;
}

static void
held_wait(void)
{
	if (!atomic_exchange(&held.armed, 0))
		return;
	atomic_store(&held.begun, 1);
	while (!chunk_is_awaited(held.space))
		usleep(100);
}

static int
held_present(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	     unsigned flags)
{
	held_wait();
	return held.ops->present(dev, addr, bytes, frame, flags);
}

static int
held_unmap(struct sl_device *dev, void *addr, uint64_t bytes)
{
	held_wait();
	return held.zerocopy->unmap(dev, addr, bytes);
}

/* One of the program's launches that may use p wherever it is, and adds 1 to it. */
static void
reach_add(struct sluice_space *s, uint64_t *p, uint64_t n)
{
	struct sluice_use use = {p, n * 8, SLUICE_USE_READ_WRITE};
	struct sluice_launch *l;

	CHECK_OK(sl_launch_begin_optional(s, NULL, NULL, 0, &use, 1, &l));
	cuda_test_launch(&t, s, NULL, TEST_ADD, p, n, 1);
	sluice_launch_end(l);
}

/*
 * A launch is to reach a chunk in host memory, and a prefetch brings that to the device meanwhile: it is being
 * copied, or (unmaps) about to be unmapped. What the launch writes is copied out later all the same.
 */
static void
what_a_prefetch_brings_meanwhile_is_written(int unmaps)
{
	struct sluice_space *s = cuda_test_space(16, 64, "chunk=4M,large_chunk=4M");
	struct sl_device_zerocopy zerocopy;
	uint64_t n = 4 * MIB / 8, *p;
	struct sl_device_ops ops;

	CHECK_OK(sluice_alloc(s, n * 8, 0, (void **)&p));
	cuda_test_run(&t, s, NULL, TEST_FILL, p, n, 5, SLUICE_USE_WRITE_ALL);
	CHECK_OK(sluice_evict(s, p, n * 8, SLUICE_TIER_HOST, NULL));
	if (unmaps)
		reach_add(s, p, n);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	held.ops = s->device->ops;
	held.zerocopy = s->device->zerocopy;
	held.space = s;
	ops = *held.ops;
	zerocopy = *held.zerocopy;
	ops.present = held_present;
	zerocopy.unmap = held_unmap;
	s->device->ops = &ops;
	s->device->zerocopy = &zerocopy;
	atomic_store(&held.begun, 0);
	atomic_store(&held.armed, 1);
	CHECK_OK(sluice_prefetch(s, p, n * 8, SLUICE_TIER_DEVICE, NULL));
	while (!atomic_load(&held.begun))
		usleep(100);
	reach_add(s, p, n);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	CHECK(cuda_test_residency(s, p, n * 8).tier_bytes[SLUICE_TIER_DEVICE] == n * 8);
	s->device->ops = held.ops;
	s->device->zerocopy = held.zerocopy;
	CHECK_OK(sluice_evict(s, p, n * 8, SLUICE_TIER_HOST, NULL));
	CHECK_OK(sluice_space_check(s));
	for (uint64_t i = 0; i < n; i++)
		CHECK(p[i] == 5 + i * K + 1 + (unsigned)unmaps);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_destroy(s));
}

struct mapper {
	pthread_t thread;
	struct sluice_space *space;
	atomic_int stops;
};

static void *
mapper_run(void *arg)
{
	struct mapper *mapper = arg;
	void *p;

	while (!atomic_load(&mapper->stops)) {
		CHECK_OK(sluice_alloc(mapper->space, 2 * MIB, 0, &p));
		CHECK_OK(sluice_unmap(mapper->space, p));
	}
	return NULL;
}

/* Another thread maps and unmaps at addresses below. */
static void
what_is_mapped_meanwhile_takes_no_place(void)
{
	struct mapper mapper = {.space = cuda_test_space(16, 64, NULL)};
	struct sluice_space *s = mapper.space;
	uint64_t bytes = 2 * MIB, n = 512, word = cuda_test_word(&t);
	struct sluice_launch *l;
	uint64_t *p;
	void *below;

	CHECK_OK(sluice_alloc(s, 8 * MIB, 0, &below));
	CHECK_OK(sluice_alloc(s, bytes, 0, (void **)&p));
	CHECK_OK(sluice_unmap(s, below));
	CHECK(!pthread_create(&mapper.thread, NULL, mapper_run, &mapper));
	for (uint64_t round = 1; round <= 2000; round++) {
		CHECK_OK(sluice_launch_begin(s, NULL, NULL, 0, &l));
		cuda_test_launch(&t, s, NULL, TEST_ADD, p, n, 1);
		sluice_launch_end(l);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		for (uint64_t i = 0; i < n; i++)
			CHECK(p[i] == round);
		cuda_test_run(&t, s, NULL, TEST_SUM, p, n, word, SLUICE_USE_READ);
	}
	atomic_store(&mapper.stops, 1);
	CHECK(!pthread_join(mapper.thread, NULL));
	cuda_test_word_free(&t, word);
	CHECK_OK(sluice_unmap(s, p));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

int
main(void)
{
	cuda_test_open(&t);
	excess_of_a_launch_stays_in_host_memory_and_counts_no_move();
	excess_takes_the_place_of_what_host_code_is_shown();
	launch_larger_than_device_and_host_is_refused_by_name();
	a_launch_waits_for_host_memory_that_another_one_reaches();
	undeclared(NULL, 0);
	what_is_mapped_meanwhile_takes_no_place();
	what_a_prefetch_brings_meanwhile_is_written(0);
	what_a_prefetch_brings_meanwhile_is_written(1);
	undeclared("reach=any", 1);
	frames_become_mappable_when_they_are_reached();
	frames_of_a_lower_budget_are_for_copies();
	what_cannot_be_registered_is_the_drivers();
	cuda_test_close(&t, NULL);
	return 0;
}
