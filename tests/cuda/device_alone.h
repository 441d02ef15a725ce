/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA device without a space, for tests of its moves: 256 MiB of its addresses are attached. One device at a
 * time in a program that includes this.
 */
#ifndef SL_TESTS_DEVICE_ALONE_H
#define SL_TESTS_DEVICE_ALONE_H

#include <pthread.h>

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

/* ---- copies out ---- */

struct out {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int begun, done, rc;
};

#define OUT                                                                  \
	{                                                                    \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0 \
	}

static inline void
out_done(void *cookie, int rc)
{
	struct out *out = cookie;

	pthread_mutex_lock(&out->lock);
	out->rc = rc;
	out->done++;
	pthread_cond_signal(&out->changed);
	pthread_mutex_unlock(&out->lock);
}

/* By one of the device's absent_start(). */
static inline int
out_begin(struct out *out, __typeof__(((struct sl_device_async *)0)->absent_start) start,
	  void *addr, uint64_t bytes, struct sl_frame *frame)
{
	int rc = start(dev, addr, bytes, frame, out_done, out);

	out->begun += !rc;
	return rc;
}

/* All that were begun. */
static inline int
out_is_done(struct out *out)
{
	int done;

	pthread_mutex_lock(&out->lock);
	done = out->done == out->begun;
	pthread_mutex_unlock(&out->lock);
	return done;
}

static inline void
out_await(struct out *out)
{
	pthread_mutex_lock(&out->lock);
	while (out->done < out->begun)
		pthread_cond_wait(&out->changed, &out->lock);
	CHECK(out->done == out->begun && out->rc == 0);
	pthread_mutex_unlock(&out->lock);
}

#endif
