/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device behind a slow link: moves of contents between host and device take as long as on a
 * link of the given latency and rate. Each direction is a link of its own, used by one move at a
 * time. A move gets the next free interval of its direction. The call returns no earlier than
 * the interval ends.
 *
 * In: present with a frame, page_fill with a source; the data appear when the interval is over.
 * Out: absent with SL_ABSENT_COPY, snapshot. absent_start returns at once, and its done() is
 * called when the interval is over. Calls that move no contents (zeros, kept frames, discards,
 * guards, drops) are not delayed: a GPU moves nothing there either.
 *
 * All else is handed on (wrap_dev.c). No locks; callers sleep.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault_point.h"
#include "device/wrap_dev.h"

enum direction { DIRECTION_IN, DIRECTION_OUT, DIRECTION_COUNT };

struct delay_dev {
	struct sl_wrap_dev wrap; /* first */
	uint64_t delay_ns;
	uint64_t bytes_per_s;                         /* 0: no limit */
	_Atomic uint64_t free_at_ns[DIRECTION_COUNT]; /* end of the last interval given */
};

static struct delay_dev *
delay_of(struct sl_device *dev)
{
	return (struct delay_dev *)dev;
}

/* Take the next interval for bytes; returns its end. */
static uint64_t
link_take(struct delay_dev *delay, enum direction direction, uint64_t bytes)
{
	_Atomic uint64_t *free_at_ns = &delay->free_at_ns[direction];
	uint64_t free_ns = atomic_load(free_at_ns);
	uint64_t took_ns = delay->delay_ns;
	uint64_t end_ns;

	if (delay->bytes_per_s) {
		uint64_t rate_ns = (uint64_t)((double)bytes * 1e9 / (double)delay->bytes_per_s +
					      0.5);

		if (rate_ns > took_ns)
			took_ns = rate_ns;
	}
	do {
		uint64_t now_ns = sl_now_ns();

		end_ns = (free_ns > now_ns ? free_ns : now_ns) + took_ns;
	} while (!atomic_compare_exchange_weak(free_at_ns, &free_ns, end_ns));
	return end_ns;
}

static void
sleep_until(uint64_t end_ns)
{
	struct timespec end = {
		.tv_sec = (time_t)(end_ns / 1000000000u),
		.tv_nsec = (int)(end_ns % 1000000000u),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

static int
delay_present(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	      unsigned flags)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	if (frame)
		sleep_until(link_take(delay_of(dev), DIRECTION_IN, bytes));
	return inner->ops->present(inner, addr, bytes, frame, flags);
}

static int
delay_absent(struct sl_device *dev, void *addr, uint64_t bytes, struct sl_frame *frame,
	     enum sl_absent_how how)
{
	uint64_t end_ns = 0;
	int rc;

	if (how == SL_ABSENT_COPY)
		end_ns = link_take(delay_of(dev), DIRECTION_OUT, bytes);
	rc = sl_wrap_dev_inner(dev)->ops->absent(sl_wrap_dev_inner(dev), addr, bytes,
						 frame, how);
	if (how == SL_ABSENT_COPY)
		sleep_until(end_ns);
	return rc;
}

/* A copy out under way, whose end is told late. */
struct delay_out {
	void (*done)(void *cookie, int rc);
	void *cookie;
	uint64_t end_ns;
};

static void
delayed_out_done(void *cookie, int rc)
{
	struct delay_out *out = cookie;

	sleep_until(out->end_ns);
	out->done(out->cookie, rc);
	free(out);
}

static int
delay_absent_start(struct sl_device *dev, void *addr, uint64_t bytes,
		   struct sl_frame *frame, void (*done)(void *cookie, int rc), void *cookie)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);
	struct delay_out *out = sl_malloc(sizeof(*out));
	int rc;

	if (!out)
		return sl_fail(-ENOMEM, "device: out of memory");
	*out = (struct delay_out){done, cookie,
				  link_take(delay_of(dev), DIRECTION_OUT, bytes)};
	rc = inner->async->absent_start(inner, addr, bytes, frame, delayed_out_done, out);
	if (rc)
		free(out);
	return rc;
}

static int
delay_snapshot(struct sl_device *dev, const void *addr, uint64_t bytes, struct sl_frame *frame)
{
	uint64_t end_ns = link_take(delay_of(dev), DIRECTION_OUT, bytes);
	int rc = sl_wrap_dev_inner(dev)->ops->snapshot(sl_wrap_dev_inner(dev), addr,
						       bytes, frame);

	sleep_until(end_ns);
	return rc;
}

static int
delay_page_fill(struct sl_device *dev, void *addr, uint64_t bytes, const void *src, int guard)
{
	struct sl_device *inner = sl_wrap_dev_inner(dev);

	if (src)
		sleep_until(link_take(delay_of(dev), DIRECTION_IN, bytes));
	return inner->faults->page_fill(inner, addr, bytes, src, guard);
}

int
sl_device_wrap_delay(struct sl_device *inner, uint64_t delay_ns, uint64_t bytes_per_s,
		     struct sl_device **out)
{
	struct sl_wrap_dev *wrap;
	struct delay_dev *outer;
	int rc = sl_wrap_dev_create(inner, sizeof(*outer), &wrap);

	if (rc)
		return rc;
	outer = (struct delay_dev *)wrap;
	outer->delay_ns = delay_ns;
	outer->bytes_per_s = bytes_per_s;
	wrap->ops.present = delay_present;
	wrap->ops.absent = delay_absent;
	wrap->ops.snapshot = delay_snapshot;
	wrap->async.absent_start = delay_absent_start; /* not used where the role is not there */
	wrap->dev.codec = NULL; /* what is encoded takes less of a link, and is not known here */
	wrap->faults.page_fill = delay_page_fill;
	*out = &wrap->dev;
	return 0;
}
