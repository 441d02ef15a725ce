/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch's caching allocator gives out. libc10_cuda.so calls a function of libc10.so whenever a
 * tensor's memory is given out or taken back, for PyTorch's profiler. The loader finds the function
 * of that name here first, since this library is preloaded. Each call is passed on.
 *
 * So tensors are known one by one although few blocks of the driver hold them (alloc/suballoc.h).
 * That function is no interface that PyTorch promises. If a version has another one, nothing is
 * told, and the program runs as one with an allocator of its own (args/parts.h).
 *
 * Threads: any. PyTorch holds its allocator's lock meanwhile.
 */
#include <dlfcn.h>
#include <stdint.h>

#include "preload/alloc/suballoc.h"
#include "preload/loader/entry.h"
#include "preload/preload.h"

/* c10::reportMemoryUsageToProfiler(void *, int64_t, T, T, c10::Device): bytes given out at that address, or
 * below 0 taken back; bytes in use and reserved; type and number of the device, a byte each. T is
 * uint64_t ("m" in the name), in older versions int64_t ("l"). */
#define NEW_NAME "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
#define OLD_NAME "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE"

#define LIBRARY     "libc10.so"
#define DEVICE_CUDA 1 /* the low byte of a device */

typedef void (*report_fn)(void *, int64_t, uint64_t, uint64_t, uint16_t);

PL_EXPORT void pl_pytorch_report(void *at, int64_t bytes, uint64_t in_use,
				 uint64_t reserved, uint16_t device) __asm__(NEW_NAME);
PL_EXPORT void pl_pytorch_report_old(void *at, int64_t bytes, uint64_t in_use,
				     uint64_t reserved, uint16_t device) __asm__(OLD_NAME);

/* PyTorch's own, if it is loaded and has it. */
static report_fn
report_find(const char *name)
{
	report_fn found = NULL;
	void *library;

	pl_next_find();
	library = pl_next_dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
	if (library) {
		*(void **)&found = pl_next_dlsym(library, name);
		dlclose(library);
	}
	(void)dlerror(); /* what is not there is not the program's to see */
	return found;
}

/* next: PyTorch's own, NULL until the first call. atomic: relaxed: all that store it store the same. */
static void
report_pass(const char *name, _Atomic(report_fn) *next, void *at, int64_t bytes,
	    uint64_t in_use, uint64_t reserved, uint16_t device)
{
	report_fn theirs = atomic_load_explicit(next, memory_order_relaxed);

	if ((device & 0xff) == DEVICE_CUDA && pl_active()) {
		if (bytes > 0)
			pl_suballoc_begin((uintptr_t)at, (uint64_t)bytes);
		else if (bytes < 0)
			pl_suballoc_end((uintptr_t)at);
	}
	if (!theirs) {
		theirs = report_find(name);
		atomic_store_explicit(next, theirs, memory_order_relaxed);
	}
	if (theirs)
		theirs(at, bytes, in_use, reserved, device);
}

void
pl_pytorch_report(void *at, int64_t bytes, uint64_t in_use, uint64_t reserved, uint16_t device)
{
	/* atomic: relaxed: see report_pass(). */
	static _Atomic(report_fn) next;

	report_pass(NEW_NAME, &next, at, bytes, in_use, reserved, device);
}

void
pl_pytorch_report_old(void *at, int64_t bytes, uint64_t in_use, uint64_t reserved,
		      uint16_t device)
{
	/* atomic: relaxed: see report_pass(). */
	static _Atomic(report_fn) next;

	report_pass(OLD_NAME, &next, at, bytes, in_use, reserved, device);
}
