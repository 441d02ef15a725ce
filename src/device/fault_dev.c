/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that fails on demand: asks a fault point before each fallible call of the device it
 * wraps, and returns what the point says with nothing done. While nothing is armed a call costs
 * one more indirect call and one load. wrap_dev.c has the names of the points.
 *
 * No threads, no locks.
 */
#include "base/fault_point.h"
#include "device/wrap_dev.h"

int
sl_device_wrap_fault(struct sl_device *inner, struct sl_device **out)
{
	struct sl_wrap_dev *outer;
	int rc = sl_wrap_dev_create(inner, sizeof(*outer), &outer);

	if (rc)
		return rc;
	outer->ask = sl_fault_point;
	*out = &outer->dev;
	return 0;
}
