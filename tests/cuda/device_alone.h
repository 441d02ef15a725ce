/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA device without a space, for tests of its moves: 256 MiB of its addresses are attached. One device at a
 * time in a program that includes this.
 */
#ifndef SL_TESTS_DEVICE_ALONE_H
#define SL_TESTS_DEVICE_ALONE_H

#include "cuda/cuda_test.h"
#include "device/device_async.h"
#include "device/device_fault.h"

static struct cuda_test t;
static struct sl_device *dev;
static char *base;

static inline int
touched(void *core, const struct sl_touch *touch)
{
	(void)core;
	return sl_fail(-14, "test: host code touched %p", touch->addr);
}

static inline void
device_open(uint64_t frame_cache_bytes)
{
	struct sl_device_config config = {
		.address_bytes = 1ul << 30,
		.frame_cache_bytes = frame_cache_bytes,
		.touch_server = {.touched = touched},
	};

	CHECK_OK(sl_device_cuda_create(&config, 0, &dev));
	base = dev->base;
	CHECK_OK(dev->ops->attach(dev, base, 256 * MIB, SL_DELIVER_THREAD));
}

static inline void
device_close(void)
{
	dev->ops->detach(dev, base, 256 * MIB);
	dev->ops->destroy(dev);
}

/* What a present chunk holds, behind the fence and nothing else; the caller frees it. */
static inline void *
chunk_read(const void *addr, uint64_t bytes, struct sl_fence after)
{
	void *to = malloc(bytes);
	struct sl_stream *stream;

	CHECK(to);
	CHECK_OK(dev->ops->stream_create(dev, &stream));
	CHECK_OK(dev->native->gate(stream, after));
	CHECK_OK(SL_CUDA(t.driver, cuMemcpyDtoHAsync, to, (uintptr_t)addr, bytes,
			 dev->native->handle(stream)));
	CHECK_OK(dev->ops->stream_synchronize(stream));
	dev->ops->stream_destroy(stream);
	return to;
}

#endif
