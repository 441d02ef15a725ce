/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine for the real pager (src/core) in virtual time: a device and a store with the times
 * of a struct sl_machine, which move versions instead of contents.
 *
 *	virtual_device.c   struct sl_device: memory, the link both ways, copies that are awaited later
 *	virtual_stream.c   its streams
 *	virtual_store.c    struct sl_engine: a drive, and files that exist by name only
 *	core_run.c         a trace's launches, through the public API
 *
 * A frame is a *token*: the number of the launch that wrote its contents. So hundreds of
 * gigabytes cost a few megabytes, and every launch can check the contents of all its chunks.
 * `failed` keeps the first error of the pager that the machine finds: a chunk beyond its memory,
 * a write behind a guard, wrong contents.
 *
 * Threads: all of a machine take turns (base/turns.h), so only awaited things are locked.
 */
#ifndef SL_SIM_VIRTUAL_H
#define SL_SIM_VIRTUAL_H

#include <pthread.h>

#include "base/turns.h"
#include "device/device_async.h"
#include "device/device_fault.h"
#include "sim/sim.h"
#include "store/engine.h"

/* Versions: 0 is zeros. */
#define SL_VERSION_ANY \
	UINT64_MAX /* undefined contents: whoever needs them must not find these */

/* What sl_frame.data points to. */
struct sl_token {
	uint64_t version;
	uint64_t busy_until; /* a copy to the device reads it until then */
};

/* Something that does one thing after the other. */
struct sl_line {
	uint64_t free_tick;  /* when what was begun will be over */
	uint64_t busy_ticks; /* in sum */
};

struct sl_virtual {
	const struct sl_machine *machine; /* set once */
	uint64_t clock_hz;                /* set once */
	struct sl_line line[SL_BOUND_COUNT]; /* links and drive; SL_BOUND_COMPUTE: clearing memory */
	int failed;
	char why[SL_ERROR_TEXT_BYTES];
	uint64_t copies_out; /* from the device, from 1 */
	uint64_t lose_copy; /* the number of one that brings nothing: for the test of the checks */
	uint64_t memory_peak_bytes; /* of the device, in use or still being left */
	uint64_t saved_bytes[SL_WAY_COUNT]; /* did not cross the link, since they were compressed */
};

/* Note what is wrong; only the first is kept. */
void sl_virtual_fail(struct sl_virtual *v, const char *fmt, ...) SL_PRINTF(2, 3);

/* bytes at bps, rounded up; bps may be INFINITY. */
uint64_t sl_virtual_ticks(const struct sl_virtual *v, uint64_t bytes, double bps);
uint64_t sl_virtual_latency(const struct sl_virtual *v, double ns);
/* Put work behind what the line has, not before `from`; returns when it is over. */
uint64_t sl_line_add(struct sl_line *line, uint64_t from, uint64_t ticks);
/* Ticks up to now that it was busy. */
uint64_t sl_line_busy(const struct sl_line *line, uint64_t now);

/*
 * The device: memory_bytes of memory behind address_bytes of addresses, which start at a multiple of
 * 1 GiB. Needs a thread that takes turns. v outlives it.
 */
int sl_virtual_device_create(struct sl_virtual *v, uint64_t address_bytes,
			     uint64_t memory_bytes, struct sl_device **out) SL_MUST_CHECK;
/* Contents of these chunks have this ratio (struct sl_tensor): the link takes as long as
 * sl_machine_move() says. Until then they cross raw. */
void sl_virtual_ratio(struct sl_device *dev, const void *addr, uint64_t bytes,
		      uint32_t ratio);
/* When [addr, addr + bytes) will be there; what is absent is a failure. */
uint64_t sl_virtual_arrival(struct sl_device *dev, const void *addr, uint64_t bytes,
			    const char *who);
/* A kernel reads it, and finds this version everywhere; or it is a failure. */
void sl_virtual_read(struct sl_device *dev, const void *addr, uint64_t bytes,
		     uint64_t version, const char *who);
/* A kernel writes it. */
void sl_virtual_write(struct sl_device *dev, void *addr, uint64_t bytes, uint64_t version,
		      const char *who);

/* virtual_stream.c: parts of the device. Only what core_run.c uses: there are no events. */
int sl_virtual_stream_create(struct sl_device *dev, struct sl_stream **out) SL_MUST_CHECK;
void sl_virtual_stream_destroy(struct sl_stream *stream);
void sl_virtual_stream_submit(struct sl_stream *stream, struct sl_task *task);
int sl_virtual_stream_synchronize(struct sl_stream *stream) SL_MUST_CHECK;

/* The store: requests of a higher class first, reads and writes at once, each at its rate and with
 * its latency behind. Needs a thread that takes turns. v outlives it. */
int sl_virtual_engine_create(struct sl_virtual *v, struct sl_engine **out) SL_MUST_CHECK;

#endif
