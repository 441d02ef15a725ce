/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that fails on demand: asks a fault point before each fallible call of the
 * device it wraps, and returns what the point says with nothing done. While nothing is
 * armed a call costs one more indirect call and one load.
 *
 *   frame.get       frame_get            device.map      attach
 *   device.present  present, present_any device.page     page_fill, page_drop
 *   device.absent   absent, snapshot     device.guard    guard, unguard
 *
 * Streams and events are the inner device's own. No threads, no locks.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/fault_point.h"
#include "device/device.h"

struct fault_dev {
	struct sl_device dev; /* first */
	struct sl_device *inner;
	struct sl_device_ops ops; /* what this file does not name is the inner device's */
};

static struct sl_device *
inner_of(struct sl_device *dev)
{
	return ((struct fault_dev *)dev)->inner;
}

/* The counter is read from the outer device. */
static void
retries_copy(struct sl_device *dev)
{
	uint64_t n = __atomic_load_n(&inner_of(dev)->move_retries, __ATOMIC_RELAXED);

	if (n != __atomic_load_n(&dev->move_retries, __ATOMIC_RELAXED))
		__atomic_store_n(&dev->move_retries, n, __ATOMIC_RELAXED);
}

static void
fault_destroy(struct sl_device *dev)
{
	struct sl_device *inner;

	if (!dev)
		return;
	inner = inner_of(dev);
	inner->ops->destroy(inner);
	free(dev);
}

static int
fault_attach(struct sl_device *dev, void *addr, size_t bytes, enum sl_delivery delivery)
{
	int rc = sl_fault_point("device.map");

	return rc ? rc : inner_of(dev)->ops->attach(inner_of(dev), addr, bytes, delivery);
}

static void
fault_detach(struct sl_device *dev, void *addr, size_t bytes)
{
	inner_of(dev)->ops->detach(inner_of(dev), addr, bytes);
}

static int
fault_frame_get(struct sl_device *dev, uint64_t bytes, struct sl_frame **out)
{
	int rc = sl_fault_point("frame.get");

	return rc ? rc : inner_of(dev)->ops->frame_get(inner_of(dev), bytes, out);
}

static void
fault_frame_put(struct sl_device *dev, struct sl_frame *frame)
{
	inner_of(dev)->ops->frame_put(inner_of(dev), frame);
}

static int
fault_present(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	      unsigned flags)
{
	int rc = sl_fault_point("device.present");

	if (!rc)
		rc = inner_of(dev)->ops->present(inner_of(dev), addr, bytes, frame, flags);
	retries_copy(dev);
	return rc;
}

static int
fault_present_any(struct sl_device *dev, void *addr, uint64_t bytes)
{
	int rc = sl_fault_point("device.present");

	if (!rc)
		rc = inner_of(dev)->ops->present_any(inner_of(dev), addr, bytes);
	retries_copy(dev);
	return rc;
}

static int
fault_absent(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	     enum sl_absent_how how)
{
	int rc = sl_fault_point("device.absent");

	if (!rc)
		rc = inner_of(dev)->ops->absent(inner_of(dev), addr, bytes, frame, how);
	retries_copy(dev);
	return rc;
}

static int
fault_snapshot(struct sl_device *dev, const void *addr, uint64_t bytes, struct sl_frame *frame)
{
	int rc = sl_fault_point("device.absent");

	return rc ? rc : inner_of(dev)->ops->snapshot(inner_of(dev), addr, bytes, frame);
}

static int
fault_guard(struct sl_device *dev, void *addr, uint64_t bytes)
{
	int rc = sl_fault_point("device.guard");

	return rc ? rc : inner_of(dev)->ops->guard(inner_of(dev), addr, bytes);
}

static int
fault_unguard(struct sl_device *dev, void *addr, uint64_t bytes)
{
	int rc = sl_fault_point("device.guard");

	return rc ? rc : inner_of(dev)->ops->unguard(inner_of(dev), addr, bytes);
}

static int
fault_page_fill(struct sl_device *dev, void *addr, uint64_t bytes, const void *src, int guard)
{
	int rc = sl_fault_point("device.page");

	return rc ? rc
		  : inner_of(dev)->ops->page_fill(inner_of(dev), addr, bytes, src, guard);
}

static int
fault_page_drop(struct sl_device *dev, void *addr, uint64_t bytes)
{
	int rc = sl_fault_point("device.page");

	return rc ? rc : inner_of(dev)->ops->page_drop(inner_of(dev), addr, bytes);
}

static int
fault_grid_run(struct sl_device *dev, sluice_kernel kernel, struct sluice_grid grid,
	       void *args, void *launch)
{
	return inner_of(dev)->ops->grid_run(inner_of(dev), kernel, grid, args, launch);
}

static int
fault_stream_create(struct sl_device *dev, struct sl_stream **out)
{
	return inner_of(dev)->ops->stream_create(inner_of(dev), out);
}

static int
fault_event_create(struct sl_device *dev, struct sl_event **out)
{
	return inner_of(dev)->ops->event_create(inner_of(dev), out);
}

int
sl_device_wrap_fault(struct sl_device *inner, struct sl_device **out)
{
	struct fault_dev *outer = sl_calloc(1, sizeof(*outer));

	if (!outer) {
		inner->ops->destroy(inner);
		return sl_fail(-ENOMEM, "device: out of memory");
	}
	outer->inner = inner;
	outer->dev = *inner;
	outer->dev.ops = &outer->ops;
	outer->ops = *inner->ops;
	outer->ops.destroy = fault_destroy;
	outer->ops.attach = fault_attach;
	outer->ops.detach = fault_detach;
	outer->ops.frame_get = fault_frame_get;
	outer->ops.frame_put = fault_frame_put;
	outer->ops.present = fault_present;
	outer->ops.present_any = fault_present_any;
	outer->ops.absent = fault_absent;
	outer->ops.snapshot = fault_snapshot;
	outer->ops.guard = fault_guard;
	outer->ops.unguard = fault_unguard;
	outer->ops.page_fill = fault_page_fill;
	outer->ops.page_drop = fault_page_drop;
	outer->ops.grid_run = fault_grid_run;
	outer->ops.stream_create = fault_stream_create;
	outer->ops.event_create = fault_event_create;
	*out = &outer->dev;
	return 0;
}
