/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events that must not delay moves: memory of one chunk size that becomes memory of the other,
 * and tasks of other streams while one stream is synchronized. On the stand-in driver two kinds
 * of calls are counted: those that would wait for all copies of a direction, and those that make
 * and free memory. On a GPU the same runs, and only the contents are checked.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "cuda/cuda_test.h"
#include "device/device_fault.h"

#define K          0x9e3779b97f4a7c15ull
#define BUDGET     64u /* MiB */
#define LARGE      (4 * MIB)
#define SMALL      (2 * MIB)
#define TILES      20u
#define TILE       (2 * LARGE)
#define ADDED      (64u << 10) /* bytes at the begin of each tile that a pass adds to */
#define WARM_MAX   10u
#define PATIENCE_S 60 /* of a machine that is busy with other things */

static struct cuda_test t;

static uint64_t
calls(const char *name)
{
	return t.standin ? t.standin->calls(name) : 0;
}

/* Each launch reads a small chunk and updates two large ones. */
static void
pass(struct sluice_space *s, char *small, char *large)
{
	for (unsigned i = 0; i < TILES; i++) {
		char *update = large + i * TILE;
		struct sluice_use uses[] = {
			{small + i * SMALL, SMALL, SLUICE_USE_READ},
			{update, TILE, SLUICE_USE_READ_WRITE},
		};
		struct sluice_launch *l;

		CHECK_OK(sluice_launch_begin(s, NULL, uses, 2, &l));
		cuda_test_launch(&t, s, NULL, TEST_ADD, update, ADDED / 8, 1);
		sluice_launch_end(l);
	}
}

static void
array_fill(struct sluice_space *s, char *p, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += SMALL)
		cuda_test_run(&t, s, NULL, TEST_FILL, p + at, SMALL / 8, 1,
			      SLUICE_USE_WRITE_ALL);
}

static void
array_check(const char *p, uint64_t bytes, uint64_t tile, uint64_t added)
{
	for (uint64_t at = 0; at < bytes; at += SMALL) {
		const uint64_t *words = (const uint64_t *)(p + at);

		for (uint64_t i = 0; i < SMALL / 8; i += 511)
			CHECK(words[i] ==
			      i * K + 1 + ((at + i * 8) % tile < ADDED ? added : 0));
	}
}

/* Two arrays of either size, gone through until all frames and slabs have been made: *passes. */
static struct sluice_space *
arrays_make(char **small, char **large, unsigned *passes)
{
	struct sluice_space *s = cuda_test_space(BUDGET, 512, "chunk=2M,large_chunk=4M");
	uint64_t made = 1;

	CHECK_OK(sluice_alloc(s, TILES * SMALL, 0, (void **)small));
	CHECK_OK(sluice_alloc(s, TILES * TILE, 0, (void **)large));
	array_fill(s, *small, TILES * SMALL);
	array_fill(s, *large, TILES * TILE);
	for (*passes = 0; made; ++*passes) {
		CHECK(*passes < WARM_MAX); /* something is made again and again */
		if (t.standin)
			t.standin->calls_reset();
		pass(s, *small, *large);
		CHECK_OK(sluice_stream_synchronize(s, NULL));
		made = calls("cuMemCreate");
	}
	if (t.standin)
		t.standin->calls_reset();
	return s;
}

static void
arrays_end(struct sluice_space *s, char *small, char *large, uint64_t added)
{
	array_check(small, TILES * SMALL, SMALL, 0);
	array_check(large, TILES * TILE, TILE, added);
	CHECK_OK(sluice_unmap(s, small));
	CHECK_OK(sluice_unmap(s, large));
	CHECK_OK(sluice_space_check(s));
	CHECK_OK(sluice_space_destroy(s));
}

static void
sizes_that_are_used_together_keep_their_memory(void)
{
	unsigned passes;
	char *small, *large;
	struct sluice_space *s = arrays_make(&small, &large, &passes);

	for (int i = 0; i < 3; i++)
		pass(s, small, large);
	CHECK(calls("cuMemCreate") == 0);
	CHECK(calls("cuMemRelease") == 0);
	CHECK(calls("cuStreamSynchronize") == 0);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	arrays_end(s, small, large, passes + 3);
}

/* Small chunks alone for a while: large ones, dirty, make room for them; then the other way round. */
static void
memory_of_another_size_waits_for_no_other_copies(void)
{
	unsigned passes;
	char *small, *large;
	struct sluice_space *s = arrays_make(&small, &large, &passes);

	for (int i = 0; i < 2; i++) {
		for (uint64_t at = 0; at < TILES * SMALL; at += SMALL) {
			struct sluice_use use = {small + at, SMALL, SLUICE_USE_READ};
			struct sluice_launch *l;

			CHECK_OK(sluice_launch_begin(s, NULL, &use, 1, &l));
			sluice_launch_end(l);
		}
		pass(s, small, large);
	}
	CHECK(!t.standin || calls("cuMemCreate") > TILES / 2); /* it was turned */
	CHECK(calls("cuStreamSynchronize") == 0);
	CHECK_OK(sluice_stream_synchronize(s, NULL));
	arrays_end(s, small, large, passes + 2);
}

/* ---- a thread of ours that is busy ---- */

/* A task of a stream; run() of the one that is held waits until it is let go. */
struct task {
	struct sl_task task;
	sem_t go;
	_Atomic int begun, done;
	_Atomic int late; /* let go by the watch, as the test waits for what it holds up itself */
};

static int
task_run(struct sl_task *task)
{
	(void)task;
	return 0;
}

static int
held_run(struct sl_task *task)
{
	struct task *held = (struct task *)task;

	atomic_store(&held->begun, 1);
	while (sem_wait(&held->go))
		;
	return 0;
}

static void
task_done(struct sl_task *task, int rc)
{
	CHECK(rc == 0);
	atomic_store(&((struct task *)task)->done, 1);
}

static void
pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void *
watch_main(void *arg)
{
	struct task *held = arg;

	for (int i = 0; i < PATIENCE_S * 100 && !atomic_load(&held->done); i++)
		pause_ms(10);
	if (!atomic_load(&held->done)) {
		atomic_store(&held->late, 1);
		sem_post(&held->go);
	}
	return NULL;
}

static int
touched(void *core, const struct sl_touch *touch)
{
	(void)core;
	return sl_fail(-EFAULT, "test: host code touched %p", touch->addr);
}

/* The task that is held has the thread that sees to the ends of work on all streams. */
static void
a_stream_is_synchronized_while_a_task_of_another_is_at_work(void)
{
	struct sl_device_config config = {.address_bytes = 1ul << 30,
					  .frame_cache_bytes = 16 * MIB,
					  .touch_server = {.touched = touched}};
	struct task held = {.task = {.run = held_run, .done = task_done, .at_turn = 1}};
	struct task tasks[10] = {0};
	struct sl_stream *busy, *other;
	struct sl_device *dev;
	pthread_t watch;

	CHECK(!sem_init(&held.go, 0, 0));
	CHECK_OK(sl_device_cuda_create(&config, 0, &dev));
	CHECK_OK(dev->ops->stream_create(dev, &busy));
	CHECK_OK(dev->ops->stream_create(dev, &other));
	dev->ops->stream_submit(busy, &held.task);
	while (!atomic_load(&held.begun))
		pause_ms(1);
	CHECK(!pthread_create(&watch, NULL, watch_main, &held));
	for (int i = 0; i < 10; i++) {
		tasks[i].task = (struct sl_task){.run = task_run, .done = task_done};
		dev->ops->stream_submit(other, &tasks[i].task);
		if (i % 3)
			continue;
		CHECK_OK(dev->ops->stream_synchronize(other));
		CHECK(atomic_load(&tasks[i].done));
		CHECK(!atomic_load(&held.done) && !atomic_load(&held.late));
	}
	sem_post(&held.go);
	CHECK_OK(dev->ops->stream_synchronize(busy));
	CHECK(atomic_load(&held.done));
	CHECK(!pthread_join(watch, NULL));
	dev->ops->stream_destroy(busy);
	dev->ops->stream_destroy(other);
	dev->ops->destroy(dev);
	sem_destroy(&held.go);
}

int
main(void)
{
	cuda_test_open(&t);
	sizes_that_are_used_together_keep_their_memory();
	memory_of_another_size_waits_for_no_other_copies();
	a_stream_is_synchronized_while_a_task_of_another_is_at_work();
	cuda_test_close(&t, NULL);
	return 0;
}
