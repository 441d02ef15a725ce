/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrappers (fault_dev.c, delay_dev.c) around every device. They know the progress of moves,
 * whoever made them. An injected failure has done nothing. A slow move is reported late, and not
 * lost.
 */
#include "device_suite.h"

#include <errno.h>

#include "base/clock.h"
#include "base/fault_point.h"

/* A wrapper around the row's device takes its place. */
static void
wrap_fault(struct core *core)
{
	CHECK(sl_device_wrap_fault(core->dev, &core->dev) == 0);
}

static void
moves_end(struct core *core)
{
	struct sl_device *dev = core->dev;
	struct sl_fence last = sl_fence_newest(dev, SL_COPIES_IN);

	while (dev->async && dev->async->query(dev, last) == -EAGAIN)
		;
	CHECK(!dev->async || dev->async->query(dev, last) == 0);
	CHECK(dev->progress->queue[SL_COPIES_IN].done == last.value);
}

static void
a_wrapper_knows_how_far_moves_are(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_frame *frame;
	uint64_t before, moves;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	wrap_fault(&core);
	wrap_fault(&core); /* wrappers in wrappers */
	ops = core.dev->ops;
	for (int i = 0; i < CHUNKS; i++) {
		frame = frame_get(&core);
		pattern_write(frame->data, CHUNK, (uint64_t)i);
		before = sl_fence_newest(core.dev, SL_COPIES_IN).value;
		CHECK(ops->present(core.dev, chunk_addr(&core, i), CHUNK, frame, 0) == 0);
		moves = sl_fence_newest(core.dev, SL_COPIES_IN).value - before;
		CHECK(moves == (core.dev->async ? 1 : 0));
	}
	moves_end(&core);
	for (int i = 0; i < CHUNKS; i++) {
		CHECK(device_pattern_is(&core, chunk_addr(&core, i), CHUNK, (uint64_t)i));
		CHECK(ops->absent(core.dev, chunk_addr(&core, i), CHUNK, NULL,
				  SL_ABSENT_DISCARD) == 0);
	}
	core_fini(&core);
}

static void
injected(const char *name, int rc)
{
	CHECK(rc == -EIO);
	CHECK(sl_fault_point_fired() == 1);
	CHECK(sl_fault_point_set(NULL) == 0);
	if (rc != -EIO)
		printf("at %s\n", name);
}

#define INJECTED(point, call)                                   \
	do {                                                    \
		CHECK(sl_fault_point_set(point ":1:EIO") == 0); \
		injected(#call, core.dev->call);                \
	} while (0)

static void
out_done(void *cookie, int rc)
{
	atomic_store((_Atomic int *)cookie, rc ? rc : 1);
}

/* Of a call that was to fail. */
static void
hash_done(void *cookie, int rc, const uint64_t sums[2])
{
	(void)cookie;
	(void)sums;
	CHECK(rc < 0);
}

static int
out_wait(_Atomic int *ended)
{
	while (!atomic_load(ended))
		;
	return atomic_exchange(ended, 0);
}

static void
an_injected_failure_has_done_nothing(void)
{
	struct core core;
	struct sl_frame *frame, *none = NULL;
	_Atomic int ended = 0;
	char *at;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	wrap_fault(&core);
	at = chunk_addr(&core, 1);
	INJECTED("frame.get", ops->frame_get(core.dev, CHUNK, &none));
	CHECK(!none);
	frame = frame_get(&core);
	pattern_write(frame->data, CHUNK, 5);
	INJECTED("device.present", ops->present(core.dev, at, CHUNK, frame, 0));
	INJECTED("device.present",
		 ops->present(core.dev, at, CHUNK, NULL, SL_PRESENT_UNDEFINED));
	CHECK(core.dev->ops->present(core.dev, at, CHUNK, frame, SL_PRESENT_KEEP) == 0);
	moves_end(&core);
	INJECTED("device.absent", ops->absent(core.dev, at, CHUNK, frame, SL_ABSENT_COPY));
	INJECTED("device.absent", ops->snapshot(core.dev, at, CHUNK, frame));
	if (core.dev->guards) {
		INJECTED("device.guard", guards->guard(core.dev, at, CHUNK));
		INJECTED("device.guard", guards->unguard(core.dev, at, CHUNK));
	}
	if (core.dev->hash) {
		INJECTED("device.guard", hash->prepare(core.dev));
		INJECTED("device.guard",
			 hash->start(core.dev, at, CHUNK, SL_HASH_NOW, hash_done, NULL));
	}
	if (core.dev->async) {
		INJECTED("device.absent", async->absent_start(core.dev, at, CHUNK, frame,
							      out_done, (void *)&ended));
		CHECK(!atomic_load(&ended));
	}
	CHECK(device_pattern_is(&core, at, CHUNK, 5));
	memset(frame->data, 0, CHUNK);
	CHECK(core.dev->ops->absent(core.dev, at, CHUNK, frame, SL_ABSENT_COPY) == 0);
	CHECK(pattern_is(frame->data, CHUNK, 5));
	if (core.dev->zerocopy) {
		struct sl_frame *mappable;

		CHECK(frame->mappable ||
		      core.dev->zerocopy->map(core.dev, at, CHUNK, frame) == -EINVAL);
		INJECTED("frame.get", zerocopy->frame_get(core.dev, CHUNK, &mappable));
		CHECK(core.dev->zerocopy->frame_get(core.dev, CHUNK, &mappable) == 0);
		CHECK(mappable->mappable);
		INJECTED("device.map", zerocopy->map(core.dev, at, CHUNK, mappable));
		CHECK(core.dev->zerocopy->map(core.dev, at, CHUNK, mappable) == 0);
		INJECTED("device.map", zerocopy->unmap(core.dev, at, CHUNK));
		CHECK(core.dev->zerocopy->unmap(core.dev, at, CHUNK) == 0);
		core.dev->ops->frame_put(core.dev, mappable);
	}
	if (core.dev->hostmap) {
		INJECTED("device.page", hostmap->show(core.dev, at, frame->data, 1));
		CHECK(core.dev->hostmap->show(core.dev, at, frame->data, 1) == 0);
		INJECTED("device.guard", hostmap->unguard(core.dev, at));
		INJECTED("device.page", hostmap->hide(core.dev, at, NULL));
		CHECK(pattern_is(at, CHUNK, 5));
		CHECK(core.dev->hostmap->hide(core.dev, at, NULL) == 0);
	}
	core.dev->ops->frame_put(core.dev, frame);
	core_fini(&core);
}

static void
a_copy_out_behind_a_slow_link_is_told_late_and_whole(void)
{
	struct core core;
	const struct sl_device_ops *ops;
	struct sl_device *slow;
	struct sl_frame *frame;
	_Atomic int ended = 0;
	uint64_t start_ns;

	core_init(&core, CHUNK, SL_DELIVER_THREAD);
	if (!core.dev->async) {
		core_fini(&core);
		return;
	}
	CHECK(sl_device_wrap_delay(core.dev, 1000000, CHUNK * 500, &slow) == 0); /* 2 ms a chunk */
	core.dev = slow;
	ops = slow->ops;
	frame = frame_get(&core);
	for (int i = 0; i < CHUNKS; i++) {
		pattern_write(frame->data, CHUNK, (uint64_t)i);
		CHECK(ops->present(slow, chunk_addr(&core, i), CHUNK, frame,
				   SL_PRESENT_KEEP) == 0);
		start_ns = sl_now_ns();
		CHECK(core.dev->async->absent_start(slow, chunk_addr(&core, i), CHUNK,
						    frame, out_done, (void *)&ended) == 0);
		CHECK(out_wait(&ended) == 1);
		CHECK(sl_now_ns() - start_ns >= 2000000); /* a link is never faster than it is */
		CHECK(pattern_is(frame->data, CHUNK, (uint64_t)i));
	}
	CHECK(core.dev->async->absent_start(slow, chunk_addr(&core, 0), CHUNK, frame,
					    out_done, (void *)&ended) ==
	      -EINVAL); /* it is absent: nobody is told */
	CHECK(!atomic_load(&ended));
	ops->frame_put(slow, frame);
	core_fini(&core);
}

static const struct device_test tests[] = {
	TEST(a_wrapper_knows_how_far_moves_are),
	TEST(an_injected_failure_has_done_nothing),
	TEST(a_copy_out_behind_a_slow_link_is_told_late_and_whole),
};

DEVICE_MAIN(tests)
