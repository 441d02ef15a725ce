/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that fails on demand: asks a fault point before each fallible call of the
 * device it wraps, and returns what the point says with nothing done. While nothing is
 * armed a call costs one more indirect call and one load.
 *
 *   frame.get       frame_get
 *   device.map      attach, reach, unreach
 *   device.present  present, present_any
 *   device.absent   absent, absent_start, snapshot
 *   device.page     page_fill, page_drop, view_show, view_hide
 *   device.guard    guard, unguard, view_unguard, hash_prepare, hash
 *
 * All else is handed on (wrap_dev.c). No threads, no locks.
 */
#include "base/fault_point.h"
#include "device/wrap_dev.h"

static int
fault_attach(struct sl_device *dev, void *addr, size_t bytes, enum sl_delivery delivery)
{
	int rc = sl_fault_point("device.map");

	return rc ? rc
		  : sl_wrap_dev_inner(dev)->ops->attach(sl_wrap_dev_inner(dev), addr,
							bytes, delivery);
}

static int
fault_frame_get(struct sl_device *dev, uint64_t bytes, struct sl_frame **out)
{
	int rc = sl_fault_point("frame.get");

	return rc ? rc
		  : sl_wrap_dev_inner(dev)->ops->frame_get(sl_wrap_dev_inner(dev), bytes,
							   out);
}

static int
fault_present(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	      unsigned flags)
{
	int rc = sl_fault_point("device.present");

	if (!rc)
		rc = sl_wrap_dev_inner(dev)->ops->present(sl_wrap_dev_inner(dev), addr,
							  bytes, frame, flags);
	sl_wrap_dev_count(dev);
	return rc;
}

static int
fault_present_any(struct sl_device *dev, void *addr, uint64_t bytes)
{
	int rc = sl_fault_point("device.present");

	if (!rc)
		rc = sl_wrap_dev_inner(dev)->ops->present_any(sl_wrap_dev_inner(dev),
							      addr, bytes);
	sl_wrap_dev_count(dev);
	return rc;
}

static int
fault_absent(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	     enum sl_absent_how how)
{
	int rc = sl_fault_point("device.absent");

	if (!rc)
		rc = sl_wrap_dev_inner(dev)->ops->absent(sl_wrap_dev_inner(dev), addr,
							 bytes, frame, how);
	sl_wrap_dev_count(dev);
	return rc;
}

static int
fault_snapshot(struct sl_device *dev, const void *addr, uint64_t bytes, struct sl_frame *frame)
{
	int rc = sl_fault_point("device.absent");

	return rc ? rc
		  : sl_wrap_dev_inner(dev)->ops->snapshot(sl_wrap_dev_inner(dev), addr,
							  bytes, frame);
}

static int
fault_guard(struct sl_device *dev, void *addr, uint64_t bytes)
{
	int rc = sl_fault_point("device.guard");

	return rc ? rc
		  : sl_wrap_dev_inner(dev)->ops->guard(sl_wrap_dev_inner(dev), addr, bytes);
}

static int
fault_unguard(struct sl_device *dev, void *addr, uint64_t bytes)
{
	int rc = sl_fault_point("device.guard");

	return rc ? rc
		  : sl_wrap_dev_inner(dev)->ops->unguard(sl_wrap_dev_inner(dev), addr, bytes);
}

static int
fault_page_fill(struct sl_device *dev, void *addr, uint64_t bytes, const void *src, int guard)
{
	int rc = sl_fault_point("device.page");

	return rc ? rc
		  : sl_wrap_dev_inner(dev)->ops->page_fill(sl_wrap_dev_inner(dev), addr,
							   bytes, src, guard);
}

static int
fault_page_drop(struct sl_device *dev, void *addr, uint64_t bytes)
{
	int rc = sl_fault_point("device.page");

	return rc ? rc
		  : sl_wrap_dev_inner(dev)->ops->page_drop(sl_wrap_dev_inner(dev), addr,
							   bytes);
}

static int
fault_absent_start(struct sl_device *dev, void *addr, uint64_t bytes,
		   struct sl_frame *frame, void (*done)(void *cookie, int rc), void *cookie)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = sl_fault_point("device.absent");

	if (!rc)
		rc = inner->ops->absent_start(inner, addr, bytes, frame, done, cookie);
	sl_wrap_dev_count(dev);
	return rc;
}

static int
fault_reach(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = sl_fault_point("device.map");

	return rc ? rc : inner->ops->reach(inner, addr, bytes, frame);
}

static int
fault_unreach(struct sl_device *dev, void *addr, uint64_t bytes)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = sl_fault_point("device.map");

	return rc ? rc : inner->ops->unreach(inner, addr, bytes);
}

static int
fault_view_show(struct sl_device *dev, void *addr, const void *src, int guard)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = sl_fault_point("device.page");

	return rc ? rc : inner->ops->view_show(inner, addr, src, guard);
}

static int
fault_view_unguard(struct sl_device *dev, void *addr)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = sl_fault_point("device.guard");

	return rc ? rc : inner->ops->view_unguard(inner, addr);
}

static int
fault_view_hide(struct sl_device *dev, void *addr, void *dst)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = sl_fault_point("device.page");

	return rc ? rc : inner->ops->view_hide(inner, addr, dst);
}

static int
fault_hash_prepare(struct sl_device *dev)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = sl_fault_point("device.guard");

	return rc ? rc : inner->ops->hash_prepare(inner);
}

static int
fault_hash(struct sl_device *dev, const void *addr, uint64_t bytes, enum sl_hash_of what,
	   void (*done)(void *cookie, int rc, const uint64_t sums[2]), void *cookie)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = sl_fault_point("device.guard");

	if (!rc)
		rc = inner->ops->hash(inner, addr, bytes, what, done, cookie);
	sl_wrap_dev_count(dev);
	return rc;
}

/* Stand in front of a call, if the inner device has it. */
#define FAULT(call)                                     \
	do {                                            \
		if (outer->ops.call)                    \
			outer->ops.call = fault_##call; \
	} while (0)

int
sl_device_wrap_fault(struct sl_device *inner, struct sl_device **out)
{
	struct sl_wrap_dev *outer;
	int rc = sl_wrap_dev_create(inner, sizeof(*outer), &outer);

	if (rc)
		return rc;
	FAULT(attach);
	FAULT(frame_get);
	FAULT(present);
	FAULT(present_any);
	FAULT(absent);
	FAULT(absent_start);
	FAULT(reach);
	FAULT(unreach);
	FAULT(view_show);
	FAULT(view_unguard);
	FAULT(view_hide);
	FAULT(snapshot);
	FAULT(hash_prepare);
	FAULT(hash);
	FAULT(guard);
	FAULT(unguard);
	FAULT(page_fill);
	FAULT(page_drop);
	*out = &outer->dev;
	return 0;
}
