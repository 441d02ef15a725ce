/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest device: what src/device/device.h requires, and no role. HACKING.md has it as the
 * example for a new device. Its memory is host memory at the addresses of the space. Every call
 * has ended when it returns: copies are memcpy(), and a stream runs its tasks at once.
 *
 * An absent chunk is inaccessible. Nobody sees a touch of it: launches bring in what they declare.
 *
 * Threads: calls come from any; the lock protects the free frames. Core moves one chunk from one
 * thread at a time, so chunks need none.
 */
#include "minimal_device.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define FREE_FRAMES_MAX 8u

enum granule {
	GRANULE_OUTSIDE,
	GRANULE_ABSENT,
	GRANULE_PRESENT
}; /* of SL_GRANULE_BYTES */

struct minimal {
	struct sl_device dev; /* first */
	struct sl_device_progress progress;
	unsigned char *granules; /* enum granule */
	pthread_mutex_t lock;
	struct sl_frame *free[FREE_FRAMES_MAX]; /* lock, as the next */
	unsigned n_free;
};

struct sl_stream {
	int rc; /* the first error since the last synchronize */
	char text[SL_ERROR_TEXT_BYTES];
};

static struct minimal *
minimal_of(struct sl_device *dev)
{
	return (struct minimal *)dev;
}

/* The granules of a range, all of which are as wanted; NULL with text: they are not. */
static unsigned char *
pieces_find(struct minimal *m, const void *addr, uint64_t bytes, enum granule wanted)
{
	uint64_t at = (uint64_t)((const char *)addr - (const char *)m->dev.base);
	unsigned char *granules = m->granules + at / SL_GRANULE_BYTES;

	if (at % SL_GRANULE_BYTES || at > m->dev.bytes || bytes > m->dev.bytes - at) {
		sl_fail(-EINVAL, "minimal: %p: no chunks of the device", addr);
		return NULL;
	}
	for (uint64_t i = 0; i < bytes / SL_GRANULE_BYTES; i++) {
		if (granules[i] == wanted)
			continue;
		sl_fail(-EINVAL, "minimal: %p is %s", addr,
			granules[i] == GRANULE_PRESENT  ? "present"
			: granules[i] == GRANULE_ABSENT ? "absent"
							: "not attached");
		return NULL;
	}
	return granules;
}

static int
range_attach(struct sl_device *dev, void *addr, size_t bytes, enum sl_delivery delivery)
{
	unsigned char *granules = pieces_find(minimal_of(dev), addr, bytes, GRANULE_OUTSIDE);

	(void)delivery; /* of touches, which there are none of */
	if (!granules)
		return -EINVAL;
	memset(granules, GRANULE_ABSENT, bytes / SL_GRANULE_BYTES);
	return 0;
}

/* Whatever is there goes. */
static void
range_clear(void *addr, size_t bytes)
{
	(void)mmap(addr, bytes, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static void
range_detach(struct sl_device *dev, void *addr, size_t bytes)
{
	struct minimal *m = minimal_of(dev);
	size_t first = (size_t)((char *)addr - (char *)dev->base) / SL_GRANULE_BYTES;

	range_clear(addr, bytes);
	memset(m->granules + first, GRANULE_OUTSIDE, bytes / SL_GRANULE_BYTES);
}

static void
frame_free(struct sl_frame *frame)
{
	free(frame->data);
	free(frame);
}

static int
frame_get(struct sl_device *dev, uint64_t bytes, struct sl_frame **out)
{
	struct minimal *m = minimal_of(dev);
	struct sl_frame *frame = NULL;

	if (!bytes || bytes % SL_GRANULE_BYTES || (bytes & (bytes - 1)))
		return sl_fail(-EINVAL, "minimal: frame of %llu bytes: no chunk size",
			       (unsigned long long)bytes);
	pthread_mutex_lock(&m->lock);
	for (unsigned i = 0; i < m->n_free && !frame; i++) {
		if (m->free[i]->bytes != bytes)
			continue;
		frame = m->free[i];
		m->free[i] = m->free[--m->n_free];
	}
	pthread_mutex_unlock(&m->lock);
	if (!frame) {
		frame = calloc(1, sizeof(*frame));
		if (frame)
			frame->data = aligned_alloc(SL_PAGE_BYTES, bytes);
		if (!frame || !frame->data) {
			free(frame);
			return sl_fail(-ENOMEM, "minimal: out of memory for a frame");
		}
		memset(frame->data, 0, bytes);
		frame->bytes = bytes;
	}
	*out = frame;
	return 0;
}

static void
frame_put(struct sl_device *dev, struct sl_frame *frame)
{
	struct minimal *m = minimal_of(dev);
	int keep;

	frame->dirty_memory = 1;
	pthread_mutex_lock(&m->lock);
	keep = m->n_free < FREE_FRAMES_MAX;
	if (keep)
		m->free[m->n_free++] = frame;
	pthread_mutex_unlock(&m->lock);
	if (!keep)
		frame_free(frame);
}

static int
chunk_present(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	      unsigned flags)
{
	struct minimal *m = minimal_of(dev);
	unsigned char *granules = pieces_find(m, addr, bytes, GRANULE_ABSENT);

	if (!granules)
		return pieces_find(m, addr, bytes, GRANULE_PRESENT) ? -EEXIST : -EINVAL;
	if (mprotect(addr, bytes, PROT_READ | PROT_WRITE)) /* its pages are zeros now */
		return sl_fail(-ENOMEM, "minimal: no memory for %p", addr);
	if (frame)
		memcpy(addr, frame->data, bytes);
	memset(granules, GRANULE_PRESENT, bytes / SL_GRANULE_BYTES);
	if (frame && !(flags & SL_PRESENT_KEEP))
		frame_put(dev, frame);
	return 0; /* without guards their flags say nothing */
}

static int
chunk_snapshot(struct sl_device *dev, const void *addr, uint64_t bytes, struct sl_frame *frame)
{
	if (!pieces_find(minimal_of(dev), addr, bytes, GRANULE_PRESENT))
		return -EINVAL;
	memcpy(frame->data, addr, bytes);
	return 0;
}

static int
chunk_absent(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	     enum sl_absent_how how)
{
	unsigned char *granules = pieces_find(minimal_of(dev), addr, bytes, GRANULE_PRESENT);

	if (!granules)
		return -EINVAL;
	if (how == SL_ABSENT_COPY)
		memcpy(frame->data, addr, bytes);
	range_clear(addr, bytes); /* a frame that was kept has the contents still */
	memset(granules, GRANULE_ABSENT, bytes / SL_GRANULE_BYTES);
	return 0;
}

static int
stream_create(struct sl_device *dev, struct sl_stream **out)
{
	(void)dev;
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : sl_fail(-ENOMEM, "minimal: out of memory");
}

static void
stream_destroy(struct sl_stream *stream)
{
	free(stream);
}

static void
stream_submit(struct sl_stream *stream, struct sl_task *task)
{
	int skip = task->skippable && stream->rc;
	int rc = skip ? -ECANCELED : task->run(task);

	if (rc && !stream->rc) {
		stream->rc = rc;
		snprintf(stream->text, sizeof(stream->text), "%s", sluice_last_error());
	}
	task->done(task, rc);
}

static int
stream_synchronize(struct sl_stream *stream)
{
	int rc = stream->rc;

	stream->rc = 0;
	return rc ? sl_fail_text(rc, stream->text) : 0;
}

static void
minimal_destroy(struct sl_device *dev)
{
	struct minimal *m = minimal_of(dev);

	if (!m)
		return;
	while (m->n_free)
		frame_free(m->free[--m->n_free]);
	munmap(m->dev.base, m->dev.bytes);
	pthread_mutex_destroy(&m->lock);
	free(m->granules);
	free(m);
}

static const struct sl_device_ops minimal_ops = {
	.name = "minimal",
	.destroy = minimal_destroy,
	.attach = range_attach,
	.detach = range_detach,
	.frame_get = frame_get,
	.frame_put = frame_put,
	.present = chunk_present,
	.absent = chunk_absent,
	.snapshot = chunk_snapshot,
	.stream_create = stream_create,
	.stream_destroy = stream_destroy,
	.stream_submit = stream_submit,
	.stream_synchronize = stream_synchronize,
};

int
minimal_device_create(const struct sl_device_config *config, struct sl_device **out)
{
	size_t bytes = config->address_bytes;
	struct minimal *m = calloc(1, sizeof(*m));
	unsigned char *granules = calloc(bytes / SL_GRANULE_BYTES, 1);
	char *p = mmap(NULL, bytes + SL_GRANULE_BYTES, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t gap = (SL_GRANULE_BYTES - (uintptr_t)p % SL_GRANULE_BYTES) % SL_GRANULE_BYTES;

	if (!m || !granules || p == MAP_FAILED) {
		if (p != MAP_FAILED)
			munmap(p, bytes + SL_GRANULE_BYTES);
		free(granules);
		free(m);
		return sl_fail(-ENOMEM, "minimal: out of memory");
	}
	if (gap)
		munmap(p, gap);
	munmap(p + gap + bytes, SL_GRANULE_BYTES - gap);
	pthread_mutex_init(&m->lock, NULL);
	m->granules = granules;
	m->dev.ops = &minimal_ops;
	m->dev.progress = &m->progress;
	m->dev.base = p + gap;
	m->dev.bytes = bytes;
	m->dev.workers = 1;
	*out = &m->dev;
	return 0;
}
