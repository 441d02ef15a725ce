/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What wrappers of a device (fault_dev.c, delay_dev.c) are made from: a device that owns another one and
 * hands every call on. A wrapper replaces the calls it is about. What a device lacks (NULL), the wrapper
 * lacks, too.
 *
 * No threads, no locks.
 */
#ifndef SL_DEVICE_WRAP_DEV_H
#define SL_DEVICE_WRAP_DEV_H

#include "device/device.h"

struct sl_wrap_dev {
	struct sl_device dev; /* first */
	struct sl_device *inner;
	struct sl_device_ops ops; /* dev.ops points here */
};

/*
 * A wrapper of inner that changes nothing. size: of the caller's struct, which begins with a struct
 * sl_wrap_dev; the rest is zeroed. destroy() destroys inner and frees it. On failure inner is
 * destroyed: -ENOMEM.
 */
int sl_wrap_dev_create(struct sl_device *inner, size_t size,
		       struct sl_wrap_dev **out) SL_MUST_CHECK;

/*
 * Counters and numbers of moves are read from the outer device: to be called after each call of the
 * inner one that moves something or looks how far moves are. A gate of a stream may show the inner one
 * more moves done than the outer knows until the next such call: that costs a gate, no order.
 */
void sl_wrap_dev_count(struct sl_device *outer);

static inline struct sl_device *
sl_wrap_dev_inner(struct sl_device *outer)
{
	return ((struct sl_wrap_dev *)outer)->inner;
}

#endif
