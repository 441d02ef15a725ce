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

/* Raise a number that only grows. */
static void
number_raise(_Atomic uint64_t *number, uint64_t to)
{
	uint64_t seen = atomic_load_explicit(number, memory_order_relaxed);

	while (seen < to && !atomic_compare_exchange_weak_explicit(number, &seen, to,
								   memory_order_release,
								   memory_order_relaxed))
		;
}

void
sl_wrap_dev_count(struct sl_device *outer)
{
	struct sl_device *inner = sl_wrap_dev_inner(outer);
	uint64_t n = __atomic_load_n(&inner->move_retries, __ATOMIC_RELAXED);
	/* Never more done than issued, whoever looks: this order, and the other way round. */
	uint64_t done = atomic_load_explicit(&inner->moves_done, memory_order_acquire);
	uint64_t issued = atomic_load_explicit(&inner->moves_issued, memory_order_acquire);
	uint64_t outs_done = atomic_load_explicit(&inner->outs_done, memory_order_acquire);
	uint64_t outs_issued = atomic_load_explicit(&inner->outs_issued,
						    memory_order_acquire);

	if (n != __atomic_load_n(&outer->move_retries, __ATOMIC_RELAXED))
		__atomic_store_n(&outer->move_retries, n, __ATOMIC_RELAXED);
	number_raise(&outer->moves_issued, issued);
	number_raise(&outer->moves_done, done);
	number_raise(&outer->outs_issued, outs_issued);
	number_raise(&outer->outs_done, outs_done);
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
	int rc = inner->ops->frame_get(inner, bytes, out);

	sl_wrap_dev_count(dev);
	return rc;
}

static void
wrap_frame_put(struct sl_device *dev, struct sl_frame *frame)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	inner->ops->frame_put(inner, frame);
	sl_wrap_dev_count(dev);
}

static void
wrap_frames_expect(struct sl_device *dev, uint64_t bytes, uint64_t wanted_bytes,
		   uint64_t room_bytes)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	inner->ops->frames_expect(inner, bytes, wanted_bytes, room_bytes);
}

static void
wrap_spans_expect(struct sl_device *dev, uint64_t bytes, uint64_t wanted_bytes,
		  uint64_t room_bytes, int outs)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	inner->ops->spans_expect(inner, bytes, wanted_bytes, room_bytes, outs);
}

static void
wrap_frames_wait(struct sl_device *dev)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	inner->ops->frames_wait(inner);
}

static void
wrap_trim(struct sl_device *dev)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	inner->ops->trim(inner);
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

static uint64_t
wrap_arrival(struct sl_device *dev, const void *addr)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->arrival(inner, addr);
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
	int rc = inner->ops->snapshot(inner, addr, bytes, frame);

	sl_wrap_dev_count(dev);
	return rc;
}

static int
wrap_hash_prepare(struct sl_device *dev)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->ops->hash_prepare(inner);
}

static int
wrap_hash(struct sl_device *dev, const void *addr, uint64_t bytes, enum sl_hash_of what,
	  void (*done)(void *cookie, int rc, const uint64_t sums[2]), void *cookie)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = inner->ops->hash(inner, addr, bytes, what, done, cookie);

	sl_wrap_dev_count(dev);
	return rc;
}

static int
wrap_move_query(struct sl_device *dev, uint64_t move)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	int rc = inner->ops->move_query(inner, move);

	sl_wrap_dev_count(dev);
	return rc;
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
	.trim = wrap_trim,
	.frame_get = wrap_frame_get,
	.frame_put = wrap_frame_put,
	.frames_expect = wrap_frames_expect,
	.frames_wait = wrap_frames_wait,
	.spans_expect = wrap_spans_expect,
	.present = wrap_present,
	.present_any = wrap_present_any,
	.arrival = wrap_arrival,
	.absent = wrap_absent,
	.absent_start = wrap_absent_start,
	.reach = wrap_reach,
	.unreach = wrap_unreach,
	.view_show = wrap_view_show,
	.view_unguard = wrap_view_unguard,
	.view_hide = wrap_view_hide,
	.snapshot = wrap_snapshot,
	.hash_prepare = wrap_hash_prepare,
	.hash = wrap_hash,
	.guard = wrap_guard,
	.unguard = wrap_unguard,
	.page_fill = wrap_page_fill,
	.page_drop = wrap_page_drop,
	.grid_run = wrap_grid_run,
	.move_query = wrap_move_query,
	.stream_wrap = wrap_stream_wrap,
	.stream_create = wrap_stream_create,
	.event_create = wrap_event_create,
};

/* A call that the inner device has; one that is given no device, but a stream or an event of it. */
#define WRAP(call)                                       \
	do {                                             \
		if (have->call)                          \
			outer->ops.call = wrap_ops.call; \
	} while (0)
#define PASS(call) (outer->ops.call = have->call)

/* A call that is new in the contract needs a line below, and a function above if it is given the
 * device: handed on as it is, it would take the wrapper for the inner device. */
_Static_assert(sizeof(struct sl_device_ops) == 45 * sizeof(void *),
	       "wrap every call of struct sl_device_ops");

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
	PASS(name);
	WRAP(destroy);
	WRAP(attach);
	WRAP(detach);
	WRAP(trim);
	WRAP(frame_get);
	WRAP(frame_put);
	WRAP(frames_expect);
	WRAP(frames_wait);
	WRAP(spans_expect);
	WRAP(present);
	WRAP(present_any);
	WRAP(arrival);
	WRAP(absent);
	WRAP(absent_start);
	WRAP(reach);
	WRAP(unreach);
	WRAP(view_show);
	WRAP(view_unguard);
	WRAP(view_hide);
	WRAP(snapshot);
	WRAP(hash_prepare);
	WRAP(hash);
	WRAP(guard);
	WRAP(unguard);
	WRAP(page_fill);
	WRAP(page_drop);
	WRAP(grid_run);
	WRAP(move_query);
	PASS(stream_gate);
	WRAP(stream_wrap);
	PASS(stream_native);
	PASS(stream_check);
	PASS(stream_call);
	WRAP(stream_create);
	PASS(stream_destroy);
	PASS(stream_submit);
	PASS(stream_now);
	PASS(stream_synchronize);
	WRAP(event_create);
	PASS(event_destroy);
	PASS(event_record);
	PASS(event_wait);
	PASS(event_synchronize);
	PASS(event_query);
	*out = outer;
	return 0;
}
