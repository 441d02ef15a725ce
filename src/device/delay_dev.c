/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device behind a slow link: what moves contents between host and device takes as long
 * as on a link of the given latency and rate. Each direction is a link of its own, used
 * by one move at a time: a move is given the next free interval of its direction, and the
 * call returns no earlier than the interval ends.
 *
 * In: present with a frame, page_fill with a source; the data appear when the interval is
 * over. Out: absent with SL_ABSENT_COPY, snapshot. What moves no contents (zeros, frames
 * kept, discards, guards, drops) is not delayed: a GPU moves nothing there either.
 *
 * Streams and events are the inner device's own. No locks; callers sleep.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "device/device.h"

enum direction { DIRECTION_IN, DIRECTION_OUT, DIRECTION_COUNT };

struct delay_dev {
	struct sl_device dev; /* first */
	struct sl_device *inner;
	struct sl_device_ops ops;
	uint64_t delay_ns;
	uint64_t bytes_per_s;                         /* 0: no limit */
	_Atomic uint64_t free_at_ns[DIRECTION_COUNT]; /* end of the last interval given */
};

static struct delay_dev *
delay_of(struct sl_device *dev)
{
	return (struct delay_dev *)dev;
}

static struct sl_device *
inner_of(struct sl_device *dev)
{
	return delay_of(dev)->inner;
}

static void
retries_copy(struct sl_device *dev)
{
	uint64_t n = __atomic_load_n(&inner_of(dev)->move_retries, __ATOMIC_RELAXED);

	if (n != __atomic_load_n(&dev->move_retries, __ATOMIC_RELAXED))
		__atomic_store_n(&dev->move_retries, n, __ATOMIC_RELAXED);
}

/* Take the next interval for bytes; returns its end. */
static uint64_t
link_take(struct delay_dev *delay, enum direction direction, uint64_t bytes)
{
	_Atomic uint64_t *free_at_ns = &delay->free_at_ns[direction];
	uint64_t free_ns = atomic_load(free_at_ns);
	uint64_t took_ns = delay->delay_ns;
	uint64_t end_ns;

	if (delay->bytes_per_s) {
		uint64_t rate_ns = (uint64_t)((double)bytes * 1e9 / (double)delay->bytes_per_s +
					      0.5);

		if (rate_ns > took_ns)
			took_ns = rate_ns;
	}
	do {
		uint64_t now_ns = sl_now_ns();

		end_ns = (free_ns > now_ns ? free_ns : now_ns) + took_ns;
	} while (!atomic_compare_exchange_weak(free_at_ns, &free_ns, end_ns));
	return end_ns;
}

static void
sleep_until(uint64_t end_ns)
{
	struct timespec end = {
		.tv_sec = (time_t)(end_ns / 1000000000u),
		.tv_nsec = (int)(end_ns % 1000000000u),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

static void
delay_destroy(struct sl_device *dev)
{
	struct sl_device *inner;

	if (!dev)
		return;
	inner = inner_of(dev);
	inner->ops->destroy(inner);
	free(dev);
}

static int
delay_attach(struct sl_device *dev, void *addr, size_t bytes, enum sl_delivery delivery)
{
	return inner_of(dev)->ops->attach(inner_of(dev), addr, bytes, delivery);
}

static void
delay_detach(struct sl_device *dev, void *addr, size_t bytes)
{
	inner_of(dev)->ops->detach(inner_of(dev), addr, bytes);
}

static int
delay_frame_get(struct sl_device *dev, uint64_t bytes, struct sl_frame **out)
{
	return inner_of(dev)->ops->frame_get(inner_of(dev), bytes, out);
}

static void
delay_frame_put(struct sl_device *dev, struct sl_frame *frame)
{
	inner_of(dev)->ops->frame_put(inner_of(dev), frame);
}

static int
delay_present(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	      unsigned flags)
{
	int rc;

	if (frame)
		sleep_until(link_take(delay_of(dev), DIRECTION_IN, bytes));
	rc = inner_of(dev)->ops->present(inner_of(dev), addr, bytes, frame, flags);
	retries_copy(dev);
	return rc;
}

static int
delay_present_any(struct sl_device *dev, void *addr, uint64_t bytes)
{
	int rc = inner_of(dev)->ops->present_any(inner_of(dev), addr, bytes);

	retries_copy(dev);
	return rc;
}

static int
delay_absent(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	     enum sl_absent_how how)
{
	uint64_t end_ns = 0;
	int rc;

	if (how == SL_ABSENT_COPY)
		end_ns = link_take(delay_of(dev), DIRECTION_OUT, bytes);
	rc = inner_of(dev)->ops->absent(inner_of(dev), addr, bytes, frame, how);
	retries_copy(dev);
	if (how == SL_ABSENT_COPY)
		sleep_until(end_ns);
	return rc;
}

static int
delay_snapshot(struct sl_device *dev, const void *addr, uint64_t bytes, struct sl_frame *frame)
{
	uint64_t end_ns = link_take(delay_of(dev), DIRECTION_OUT, bytes);
	int rc = inner_of(dev)->ops->snapshot(inner_of(dev), addr, bytes, frame);

	sleep_until(end_ns);
	return rc;
}

static int
delay_guard(struct sl_device *dev, void *addr, uint64_t bytes)
{
	return inner_of(dev)->ops->guard(inner_of(dev), addr, bytes);
}

static int
delay_unguard(struct sl_device *dev, void *addr, uint64_t bytes)
{
	return inner_of(dev)->ops->unguard(inner_of(dev), addr, bytes);
}

static int
delay_page_fill(struct sl_device *dev, void *addr, uint64_t bytes, const void *src, int guard)
{
	if (src)
		sleep_until(link_take(delay_of(dev), DIRECTION_IN, bytes));
	return inner_of(dev)->ops->page_fill(inner_of(dev), addr, bytes, src, guard);
}

static int
delay_page_drop(struct sl_device *dev, void *addr, uint64_t bytes)
{
	return inner_of(dev)->ops->page_drop(inner_of(dev), addr, bytes);
}

static int
delay_grid_run(struct sl_device *dev, sluice_kernel kernel, struct sluice_grid grid,
	       void *args, void *launch)
{
	return inner_of(dev)->ops->grid_run(inner_of(dev), kernel, grid, args, launch);
}

static int
delay_stream_create(struct sl_device *dev, struct sl_stream **out)
{
	return inner_of(dev)->ops->stream_create(inner_of(dev), out);
}

static int
delay_event_create(struct sl_device *dev, struct sl_event **out)
{
	return inner_of(dev)->ops->event_create(inner_of(dev), out);
}

int
sl_device_wrap_delay(struct sl_device *inner, uint64_t delay_ns, uint64_t bytes_per_s,
		     struct sl_device **out)
{
	struct delay_dev *outer = sl_calloc(1, sizeof(*outer));

	if (!outer) {
		inner->ops->destroy(inner);
		return sl_fail(-ENOMEM, "device: out of memory");
	}
	outer->inner = inner;
	outer->delay_ns = delay_ns;
	outer->bytes_per_s = bytes_per_s;
	outer->dev = *inner;
	outer->dev.ops = &outer->ops;
	outer->ops = *inner->ops; /* streams and events: the inner device's */
	outer->ops.destroy = delay_destroy;
	outer->ops.attach = delay_attach;
	outer->ops.detach = delay_detach;
	outer->ops.frame_get = delay_frame_get;
	outer->ops.frame_put = delay_frame_put;
	outer->ops.present = delay_present;
	outer->ops.present_any = delay_present_any;
	outer->ops.absent = delay_absent;
	outer->ops.snapshot = delay_snapshot;
	outer->ops.guard = delay_guard;
	outer->ops.unguard = delay_unguard;
	outer->ops.page_fill = delay_page_fill;
	outer->ops.page_drop = delay_page_drop;
	outer->ops.grid_run = delay_grid_run;
	outer->ops.stream_create = delay_stream_create;
	outer->ops.event_create = delay_event_create;
	*out = &outer->dev;
	return 0;
}
