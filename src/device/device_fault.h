/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Roles of a device that sees accesses: touches, pages, guards. A touch is an access that the
 * device could not satisfy. It goes to the server of touches (struct sl_touch_server).
 *
 * Moves are by whole chunk (device.h) or by 4 KiB pages; for one chunk core never calls two of
 * them at once.
 *
 * Threads: any function from any thread at once. None takes the space lock.
 */
#ifndef SL_DEVICE_DEVICE_FAULT_H
#define SL_DEVICE_DEVICE_FAULT_H

#include <stdatomic.h>

#include "device/device.h"

enum sl_access { SL_ACCESS_READ, SL_ACCESS_WRITE, SL_ACCESS_COUNT };

struct sl_touch {
	void *addr; /* as precise as the device knows (software: the byte or its page) */
	enum sl_access access;
	int guarded; /* 1: the page is present and guarded (access is WRITE), 0: absent */
	void *launch; /* cookie given to run() by which the touching thread works; NULL: host code */
	int in_thread; /* 1: called on the touching thread itself, inside a signal handler */
	pid_t thread; /* the system's number of the touching thread; 0: the calling one */
	/* sl_touch_clock at a moment from which on the thread was in this touch; 0: it is in it now. What it
	 * has done at that time or later, it did when somebody else's move had woken it. */
	uint64_t number;
};

/* Counts messages of touches, of all devices. */
extern _Atomic uint64_t sl_touch_clock;

static inline uint64_t
sl_touch_count(void)
{
	return atomic_load_explicit(&sl_touch_clock, memory_order_relaxed);
}

/*
 * Whether the thread may have gone on from its touch before what happened at such a count of touches. Then
 * it is not refused: woken, it touches again if it still wants to.
 */
static inline int
sl_touch_is_stale(const struct sl_touch *touch, uint64_t happened)
{
	return touch->number && happened >= touch->number;
}

/* Role: a touch of an absent page, by a kernel or by host code, is an event and not the end. */
struct sl_device_faults {
	/* Copy bytes (a multiple of 4 KiB) from src (NULL: zeros) to absent pages, guarded from
	 * the start if guard != 0. Pages already present are skipped (not an error). Wakes. */
	int (*page_fill)(struct sl_device *dev, void *addr, uint64_t bytes,
			 const void *src, int guard);
	/* Drop present pages; contents are lost. */
	int (*page_drop)(struct sl_device *dev, void *addr, uint64_t bytes);
	/* What the stream does now, or else comes to next, the device's own work included; NULL:
	 * nothing is there. It may be over by now: to be compared, not looked into. */
	const struct sl_task *(*stream_now)(struct sl_stream *stream);
};

/* Role: writes to guarded data are seen. Without it core goes by what launches declare. */
struct sl_device_guards {
	/* Guard present pages of a range: their next write is an event. unguard: let writes
	 * through and wake threads that wait. Absent pages are left alone. */
	int (*guard)(struct sl_device *dev, void *addr, uint64_t bytes);
	int (*unguard)(struct sl_device *dev, void *addr, uint64_t bytes);
};

#endif
