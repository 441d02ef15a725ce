/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles of a device whose kernels and host code have page tables of their own at the same
 * addresses (a GPU). Host code sees nothing of what is present on the device, and its touches
 * are touches of its own mapping.
 *
 * Threads: any function from any thread at once, but for one chunk one at a time.
 */
#ifndef SL_DEVICE_DEVICE_HOSTMAP_H
#define SL_DEVICE_DEVICE_HOSTMAP_H

#include "device/device.h"

/* Role: host code's mapping, by granules. */
struct sl_device_hostmap {
	/* An absent granule gets the contents of src (NULL: zeros). guard: its first write is a
	 * touch (WRITE, guarded), until unguard(). */
	int (*show)(struct sl_device *dev, void *addr, const void *src, int guard);
	int (*unguard)(struct sl_device *dev, void *addr);
	/* Make it absent, with its contents to dst (NULL: they are lost); a racing write of host
	 * code is either in dst or touches again. */
	int (*hide)(struct sl_device *dev, void *addr, void *dst);
};

/* Role: kernels can use frames of host memory over the link. */
struct sl_device_zerocopy {
	/* As ops->frame_get(), but the frame is mappable. It takes longer to make. Others may be mappable as well,
	 * and are marked so. */
	int (*frame_get)(struct sl_device *dev, uint64_t bytes, struct sl_frame **out);
	/* Map an absent chunk to a mappable frame, so that kernels read and write it there; and undo it. No
	 * kernel that may touch the chunk runs meanwhile. */
	int (*map)(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame);
	int (*unmap)(struct sl_device *dev, void *addr, uint64_t bytes);
};

#endif
