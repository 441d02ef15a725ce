/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that hands every call on to the one it owns: see wrap_dev.h. One line for each call that
 * is given the device; calls on streams and events go to the inner device's own functions.
 *
 * Fault points, for wrappers that are asked before a call:
 *   frame.get       frame_get
 *   device.map      attach; zerocopy
 *   device.present  present
 *   device.absent   absent, absent_start, snapshot
 *   device.page     page_fill, page_drop; hostmap: show, hide
 *   device.guard    guard, unguard, also of hostmap; hash
 *   device.codec    codec: prepare, pack, decode
 */
#include "device/wrap_dev.h"

#include <errno.h>
#include <stdlib.h>

#include "base/fault_point.h"

static int
wrap_ask(struct sl_device *dev, const char *point)
{
	int (*ask)(const char *) = ((struct sl_wrap_dev *)dev)->ask;

	return ask && point ? ask(point) : 0;
}

/* A function that hands a call of a role on. args: the parameters behind dev. */
#define WRAP_VOID(role, call, params, ...)                        \
	static void role##_##call params                          \
	{                                                         \
		struct sl_device *inner = sl_wrap_dev_inner(dev); \
                                                                  \
		inner->role->call(__VA_ARGS__);                   \
	}
/* The same of one that can fail: who made the wrapper is asked first. */
#define WRAP(role, call, point, params, ...)                      \
	static int role##_##call params                           \
	{                                                         \
		struct sl_device *inner = sl_wrap_dev_inner(dev); \
		int rc = wrap_ask(dev, point);                    \
                                                                  \
		return rc ? rc : inner->role->call(__VA_ARGS__);  \
	}

static void
ops_destroy(struct sl_device *dev)
{
	struct sl_device *inner;

	if (!dev)
		return;
	inner = sl_wrap_dev_inner(dev);
	inner->ops->destroy(inner);
	free(dev);
}

static struct sl_fence
async_ready_at(struct sl_device *dev, const void *addr)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	return inner->async->ready_at(inner, addr);
}

WRAP(ops, attach, "device.map",
     (struct sl_device * dev, void *addr, size_t bytes, enum sl_delivery delivery), inner,
     addr, bytes, delivery)
WRAP_VOID(ops, detach, (struct sl_device * dev, void *addr, size_t bytes), inner, addr, bytes)
WRAP(ops, frame_get, "frame.get",
     (struct sl_device * dev, uint64_t bytes, struct sl_frame **out), inner, bytes, out)
WRAP_VOID(ops, frame_put, (struct sl_device * dev, struct sl_frame *frame), inner, frame)
WRAP(ops, present, "device.present",
     (struct sl_device * dev, void *addr, uint64_t bytes, struct sl_frame *frame,
      unsigned flags),
     inner, addr, bytes, frame, flags)
WRAP(ops, absent, "device.absent",
     (struct sl_device * dev, void *addr, uint64_t bytes, struct sl_frame *frame,
      enum sl_absent_how how),
     inner, addr, bytes, frame, how)
WRAP(ops, snapshot, "device.absent",
     (struct sl_device * dev, const void *addr, uint64_t bytes, struct sl_frame *frame),
     inner, addr, bytes, frame)
WRAP(ops, stream_create, NULL, (struct sl_device * dev, struct sl_stream **out), inner, out)
WRAP(kernels, run, NULL,
     (struct sl_device * dev, sluice_kernel kernel, struct sluice_grid grid, void *args,
      void *launch),
     inner, kernel, grid, args, launch)
WRAP(events, create, NULL, (struct sl_device * dev, struct sl_event **out), inner, out)
WRAP(async, absent_start, "device.absent",
     (struct sl_device * dev, void *addr, uint64_t bytes, struct sl_frame *frame,
      void (*done)(void *cookie, int rc), void *cookie),
     inner, addr, bytes, frame, done, cookie)
WRAP(async, query, NULL, (struct sl_device * dev, struct sl_fence fence), inner, fence)
WRAP(async, watch, NULL,
     (struct sl_device * dev, struct sl_fence fence,
      void (*done)(void *cookie, int rc, struct sl_copy_time at), void *cookie),
     inner, fence, done, cookie)
WRAP(native, wrap, NULL, (struct sl_device * dev, void *handle, struct sl_stream **out),
     inner, handle, out)
WRAP(native, drain, NULL, (struct sl_device * dev), inner)
WRAP(hash, prepare, "device.guard", (struct sl_device * dev), inner)
WRAP(hash, start, "device.guard",
     (struct sl_device * dev, const void *addr, uint64_t bytes, enum sl_hash_of what,
      void (*done)(void *cookie, int rc, const uint64_t sums[2]), void *cookie),
     inner, addr, bytes, what, done, cookie)
WRAP(codec, prepare, "device.codec",
     (struct sl_device * dev, uint64_t chunk_bytes, uint64_t staging_bytes,
      unsigned most_parts),
     inner, chunk_bytes, staging_bytes, most_parts)
WRAP(codec, absent_start, "device.absent",
     (struct sl_device * dev, void *addr, uint64_t bytes, unsigned worth_parts,
      struct sl_frame *frame, void (*done)(void *cookie, int rc), void *cookie),
     inner, addr, bytes, worth_parts, frame, done, cookie)
WRAP(codec, pack, "device.codec",
     (struct sl_device * dev, struct sl_frame *frame, struct sl_frame **packed), inner,
     frame, packed)
WRAP(codec, decode, "device.codec",
     (struct sl_device * dev, const struct sl_frame *frame, struct sl_frame *to), inner,
     frame, to)
WRAP_VOID(pool, trim, (struct sl_device * dev), inner)
WRAP_VOID(pool, frames_expect, (struct sl_device * dev, const struct sl_pool_want *want),
	  inner, want)
static uint64_t
pool_taken(const struct sl_device *dev)
{
	const struct sl_device *inner = ((const struct sl_wrap_dev *)dev)->inner;

	return inner->pool->taken(inner);
}

static uint64_t
pool_frames_taken(struct sl_device *dev)
{
	struct sl_device *inner = ((const struct sl_wrap_dev *)dev)->inner;

	return inner->pool->frames_taken(inner);
}

WRAP(pool, memory, NULL,
     (struct sl_device * dev, uint64_t *free_bytes, uint64_t *total_bytes), inner,
     free_bytes, total_bytes)
WRAP_VOID(pool, fill, (struct sl_device * dev, const struct sl_pool_want *chunks), inner,
	  chunks)
WRAP(faults, page_fill, "device.page",
     (struct sl_device * dev, void *addr, uint64_t bytes, const void *src, int guard),
     inner, addr, bytes, src, guard)
WRAP(faults, page_drop, "device.page",
     (struct sl_device * dev, void *addr, uint64_t bytes), inner, addr, bytes)
WRAP(guards, guard, "device.guard", (struct sl_device * dev, void *addr, uint64_t bytes),
     inner, addr, bytes)
WRAP(guards, unguard, "device.guard",
     (struct sl_device * dev, void *addr, uint64_t bytes), inner, addr, bytes)
WRAP(hostmap, show, "device.page",
     (struct sl_device * dev, void *addr, const void *src, int guard), inner, addr, src,
     guard)
WRAP(hostmap, unguard, "device.guard", (struct sl_device * dev, void *addr), inner, addr)
WRAP(hostmap, hide, "device.page", (struct sl_device * dev, void *addr, void *dst), inner,
     addr, dst)
WRAP(zerocopy, frame_get, "frame.get",
     (struct sl_device * dev, uint64_t bytes, struct sl_frame **out), inner, bytes, out)
WRAP(zerocopy, map, "device.map",
     (struct sl_device * dev, void *addr, uint64_t bytes, struct sl_frame *frame), inner,
     addr, bytes, frame)
WRAP(zerocopy, unmap, "device.map", (struct sl_device * dev, void *addr, uint64_t bytes),
     inner, addr, bytes)

/* What is given a stream or an event is the inner device's; the rest goes through the wrapper. A call that is
 * new in the contract and is given the device needs a line above and one below. */
#define HAVE(role)                                      \
	do {                                            \
		if (inner->role) {                      \
			outer->role = *inner->role;     \
			outer->dev.role = &outer->role; \
		}                                       \
	} while (0)
#define PUT(role, call) (outer->role.call = role##_##call)
_Static_assert(sizeof(struct sl_device_ops) == 13 * sizeof(void *) &&
		       sizeof(struct sl_wrap_dev) - offsetof(struct sl_wrap_dev, ops) ==
			       53 * sizeof(void *),
	       "wrap every call that is given the device");

int
sl_wrap_dev_create(struct sl_device *inner, size_t size, struct sl_wrap_dev **out)
{
	struct sl_wrap_dev *outer = sl_calloc(1, size);

	if (!outer) {
		inner->ops->destroy(inner);
		return sl_fail(-ENOMEM, "device: out of memory");
	}
	outer->inner = inner;
	outer->dev = *inner;
	HAVE(ops);
	HAVE(kernels);
	HAVE(events);
	HAVE(async);
	HAVE(native);
	HAVE(hash);
	HAVE(codec);
	HAVE(pool);
	HAVE(faults);
	HAVE(guards);
	HAVE(hostmap);
	HAVE(zerocopy);
	PUT(ops, destroy);
	PUT(ops, attach);
	PUT(ops, detach);
	PUT(ops, frame_get);
	PUT(ops, frame_put);
	PUT(ops, present);
	PUT(ops, absent);
	PUT(ops, snapshot);
	PUT(ops, stream_create);
	PUT(kernels, run);
	PUT(events, create);
	PUT(async, absent_start);
	PUT(async, query);
	PUT(async, watch);
	PUT(native, wrap);
	PUT(native, drain);
	PUT(hash, prepare);
	PUT(hash, start);
	PUT(codec, prepare);
	PUT(codec, absent_start);
	PUT(codec, pack);
	PUT(codec, decode);
	PUT(pool, trim);
	PUT(pool, taken);
	PUT(pool, frames_taken);
	PUT(pool, memory);
	PUT(pool, frames_expect);
	PUT(pool, fill);
	PUT(faults, page_fill);
	PUT(faults, page_drop);
	PUT(guards, guard);
	PUT(guards, unguard);
	PUT(hostmap, show);
	PUT(hostmap, unguard);
	PUT(hostmap, hide);
	PUT(zerocopy, frame_get);
	PUT(zerocopy, map);
	PUT(zerocopy, unmap);
	PUT(async, ready_at);
	*out = outer;
	return 0;
}
