/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that hands every call on to the one it owns: see wrap_dev.h. One function for each call that
 * is given the device; calls on streams and events go to the inner device's own functions.
 */
#include "device/wrap_dev.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/fault_point.h"

void
sl_wrap_dev_count(struct sl_device *outer)
{
	struct sl_device *inner = sl_wrap_dev_inner(outer);
	uint64_t n = __atomic_load_n(&inner->move_retries, __ATOMIC_RELAXED);

	if (n != __atomic_load_n(&outer->move_retries, __ATOMIC_RELAXED))
		__atomic_store_n(&outer->move_retries, n, __ATOMIC_RELAXED);
}

static void
wrap_destroy(struct sl_device *dev)
{
	struct sl_device *inner;

	if (!dev)
		return;
	inner = sl_wrap_dev_inner(dev);
	inner->ops->destroy(inner);
	free(dev);
}

static int
wrap_attach(struct sl_device *dev, void *addr, size_t bytes, enum sl_delivery delivery)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->attach(inner, addr, bytes, delivery);
}

static void
wrap_detach(struct sl_device *dev, void *addr, size_t bytes)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	inner->ops->detach(inner, addr, bytes);
}

static int
wrap_frame_get(struct sl_device *dev, uint64_t bytes, struct sl_frame **out)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->frame_get(inner, bytes, out);
}

static void
wrap_frame_put(struct sl_device *dev, struct sl_frame *frame)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	inner->ops->frame_put(inner, frame);
}

static int
wrap_present(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	     unsigned flags)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = inner->ops->present(inner, addr, bytes, frame, flags);

	sl_wrap_dev_count(dev);
	return rc;
}

static int
wrap_present_any(struct sl_device *dev, void *addr, uint64_t bytes)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = inner->ops->present_any(inner, addr, bytes);

	sl_wrap_dev_count(dev);
	return rc;
}

static int
wrap_absent(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	    enum sl_absent_how how)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = inner->ops->absent(inner, addr, bytes, frame, how);

	sl_wrap_dev_count(dev);
	return rc;
}

static int
wrap_absent_start(struct sl_device *dev, void *addr, uint64_t bytes,
		  struct sl_frame *frame, void (*done)(void *cookie, int rc), void *cookie)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = inner->ops->absent_start(inner, addr, bytes, frame, done, cookie);

	sl_wrap_dev_count(dev);
	return rc;
}

static int
wrap_reach(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = inner->ops->reach(inner, addr, bytes, frame);

	sl_wrap_dev_count(dev);
	return rc;
}

static int
wrap_unreach(struct sl_device *dev, void *addr, uint64_t bytes)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = inner->ops->unreach(inner, addr, bytes);

	sl_wrap_dev_count(dev);
	return rc;
}

static int
wrap_view_show(struct sl_device *dev, void *addr, const void *src, int guard)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->view_show(inner, addr, src, guard);
}

static int
wrap_view_unguard(struct sl_device *dev, void *addr)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->view_unguard(inner, addr);
}

static int
wrap_view_hide(struct sl_device *dev, void *addr, void *dst)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->view_hide(inner, addr, dst);
}

static int
wrap_snapshot(struct sl_device *dev, const void *addr, uint64_t bytes, struct sl_frame *frame)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->snapshot(inner, addr, bytes, frame);
}

static int
wrap_measure(struct sl_device *dev, const void *addr, uint64_t bytes)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = inner->ops->measure(inner, addr, bytes);

	sl_wrap_dev_count(dev);
	return rc;
}

static int
wrap_unchanged(struct sl_device *dev, const void *addr, uint64_t bytes)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->unchanged(inner, addr, bytes);
}

static int
wrap_guard(struct sl_device *dev, void *addr, uint64_t bytes)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->guard(inner, addr, bytes);
}

static int
wrap_unguard(struct sl_device *dev, void *addr, uint64_t bytes)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->unguard(inner, addr, bytes);
}

static int
wrap_page_fill(struct sl_device *dev, void *addr, uint64_t bytes, const void *src, int guard)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->page_fill(inner, addr, bytes, src, guard);
}

static int
wrap_page_drop(struct sl_device *dev, void *addr, uint64_t bytes)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->page_drop(inner, addr, bytes);
}

static int
wrap_grid_run(struct sl_device *dev, sluice_kernel kernel, struct sluice_grid grid,
	      void *args, void *launch)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->grid_run(inner, kernel, grid, args, launch);
}

static int
wrap_stream_wrap(struct sl_device *dev, void *native, struct sl_stream **out)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->stream_wrap(inner, native, out);
}

static int
wrap_stream_create(struct sl_device *dev, struct sl_stream **out)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->stream_create(inner, out);
}

static int
wrap_event_create(struct sl_device *dev, struct sl_event **out)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->event_create(inner, out);
}

/* Each call that is given the device. */
static const struct sl_device_ops wrap_ops = {
	.destroy = wrap_destroy,
	.attach = wrap_attach,
	.detach = wrap_detach,
	.frame_get = wrap_frame_get,
	.frame_put = wrap_frame_put,
	.present = wrap_present,
	.present_any = wrap_present_any,
	.absent = wrap_absent,
	.absent_start = wrap_absent_start,
	.reach = wrap_reach,
	.unreach = wrap_unreach,
	.view_show = wrap_view_show,
	.view_unguard = wrap_view_unguard,
	.view_hide = wrap_view_hide,
	.snapshot = wrap_snapshot,
	.measure = wrap_measure,
	.unchanged = wrap_unchanged,
	.guard = wrap_guard,
	.unguard = wrap_unguard,
	.page_fill = wrap_page_fill,
	.page_drop = wrap_page_drop,
	.grid_run = wrap_grid_run,
	.stream_wrap = wrap_stream_wrap,
	.stream_create = wrap_stream_create,
	.event_create = wrap_event_create,
};

/* A call that the inner device has. */
#define WRAP(call)                                       \
	do {                                             \
		if (have->call)                          \
			outer->ops.call = wrap_ops.call; \
	} while (0)

int
sl_wrap_dev_create(struct sl_device *inner, size_t size, struct sl_wrap_dev **out)
{
	struct sl_wrap_dev *outer = sl_calloc(1, size);
	const struct sl_device_ops *have = inner->ops;

	if (!outer) {
		have->destroy(inner);
		return sl_fail(-ENOMEM, "device: out of memory");
	}
	outer->inner = inner;
	outer->dev = *inner;
	outer->dev.ops = &outer->ops;
	outer->ops = *have; /* streams and events */
	outer->ops.destroy = wrap_ops.destroy;
	WRAP(attach);
	WRAP(detach);
	WRAP(frame_get);
	WRAP(frame_put);
	WRAP(present);
	WRAP(present_any);
	WRAP(absent);
	WRAP(absent_start);
	WRAP(reach);
	WRAP(unreach);
	WRAP(view_show);
	WRAP(view_unguard);
	WRAP(view_hide);
	WRAP(snapshot);
	WRAP(measure);
	WRAP(unchanged);
	WRAP(guard);
	WRAP(unguard);
	WRAP(page_fill);
	WRAP(page_drop);
	WRAP(grid_run);
	WRAP(stream_wrap);
	WRAP(stream_create);
	WRAP(event_create);
	*out = outer;
	return 0;
}
