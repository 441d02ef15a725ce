/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the wrappers of a device (fault_dev.c, delay_dev.c): a device that owns another one
 * and hands every call on. A wrapper replaces some calls, or is asked before each call. It has
 * the roles of the inner device.
 *
 * No threads, no locks.
 */
#ifndef SL_DEVICE_WRAP_DEV_H
#define SL_DEVICE_WRAP_DEV_H

#include "device/device.h"
#include "device/device_async.h"
#include "device/device_fault.h"
#include "device/device_hostmap.h"

struct sl_wrap_dev {
	struct sl_device dev; /* first */
	struct sl_device *inner;
	/* Asked before a call that can fail, with the name of its fault point; not 0: the call
	 * returns that with nothing done. NULL: nobody is asked. */
	int (*ask)(const char *point);
	/* dev points here, to those that the inner device has. */
	struct sl_device_ops ops;
	struct sl_device_kernels kernels;
	struct sl_device_events events;
	struct sl_device_async async;
	struct sl_device_native native;
	struct sl_device_hash hash;
	struct sl_device_codec codec;
	struct sl_device_pool pool;
	struct sl_device_faults faults;
	struct sl_device_guards guards;
	struct sl_device_hostmap hostmap;
	struct sl_device_zerocopy zerocopy;
};

/*
 * A wrapper of inner that changes nothing. size: of the caller's struct, which begins with a struct
 * sl_wrap_dev; the rest is zeroed. destroy() destroys inner and frees it. On failure inner is
 * destroyed: -ENOMEM.
 */
int sl_wrap_dev_create(struct sl_device *inner, size_t size,
		       struct sl_wrap_dev **out) SL_MUST_CHECK;

static inline struct sl_device *
sl_wrap_dev_inner(struct sl_device *outer)
{
	return ((struct sl_wrap_dev *)outer)->inner;
}

#endif
