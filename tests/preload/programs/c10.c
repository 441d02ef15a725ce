/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library of the name and with the function of PyTorch's libc10.so that the preload library stands
 * in front of (src/preload/calls/pytorch.c): it sums up what it is told.
 */
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT void c10_report(
	void *at, int64_t bytes, uint64_t in_use, uint64_t reserved,
	uint16_t device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");

EXPORT int64_t c10_told[5];

void
c10_report(void *at, int64_t bytes, uint64_t in_use, uint64_t reserved, uint16_t device)
{
	c10_told[0] += (int64_t)(uintptr_t)at;
	c10_told[1] += bytes;
	c10_told[2] += (int64_t)in_use;
	c10_told[3] += (int64_t)reserved;
	c10_told[4] += device;
}
