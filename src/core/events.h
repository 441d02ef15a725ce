/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a space does, as it happens: moves, I/O, waits of threads. `sluice run --timeline` reads it.
 *
 * Whoever opens the events of a space gets a ring of fixed size. The pager writes records to it
 * under the space lock, which it holds there anyway: no other lock, no call, no system call. The
 * reader takes them away in batches. A record that finds the ring full is lost, and counted.
 * A space without a ring pays one load and one branch for each event.
 *
 * Bytes of BEGIN and COUNT are those that the counter gets at the same moment, under the same lock.
 * Chunks that are populated by page (the software device) begin and end at once.
 *
 * Threads: any.
 */
#ifndef SL_CORE_EVENTS_H
#define SL_CORE_EVENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sluice/sluice.h"

enum sl_event_kind {
	SL_EVENT_BEGIN, /* bytes of counter begin to move, or to be read or written: id */
	SL_EVENT_END,   /* that is over; rc: it failed, and its bytes stay counted */
	SL_EVENT_UNDO,  /* the same, and its bytes were taken off the counter again */
	SL_EVENT_COUNT, /* bytes of counter are counted, and nothing moves; negative: taken off */
	SL_EVENT_WAIT, /* a thread has waited from `since` on, for `reason` */
	SL_EVENT_HOLD  /* launch does not run before the move id is over */
};

/* What a thread waits for. */
enum sl_wait_reason {
	SL_WAIT_READ,        /* a chunk that is read from the store */
	SL_WAIT_WRITE,       /* one that is written to it */
	SL_WAIT_IN,          /* one that another thread brings to the device */
	SL_WAIT_OUT,         /* one that leaves the device */
	SL_WAIT_CHUNK,       /* one that is busy otherwise */
	SL_WAIT_HOST_ROOM,   /* room in host memory */
	SL_WAIT_DEVICE_ROOM, /* room on the device, that launches hold */
	SL_WAIT_MAP, /* the device, which maps a chunk: to its own memory, or zero-copy */
	SL_WAIT_PIN, /* host memory that is made, and pinned */
	SL_WAIT_LAUNCH, /* launches: to be prepared, to end, to give something back */
	SL_WAIT_TURN,   /* other programs on the GPU, which have the turn (src/share) */
	SL_WAIT_REASON_COUNT
};

struct sl_event {
	uint64_t ns; /* sl_now_ns(); BEGIN, END: when it was, not when it was noticed */
	uint64_t since;  /* WAIT; END: when it had its turn, 0: not known */
	uint64_t id;     /* BEGIN, END, UNDO, HOLD: of the move, from 1 */
	int64_t bytes;   /* BEGIN, COUNT */
	uint64_t launch; /* BEGIN: the launch that needs it, 0: none; HOLD */
	uint64_t addr;   /* BEGIN: of the chunk */
	uint64_t used_bytes[SLUICE_TIER_COUNT];       /* of each tier now */
	uint64_t budget_bytes[SLUICE_TIER_COUNT - 1]; /* of device and host */
	int32_t thread;                               /* WAIT */
	int32_t rc;                                   /* END */
	uint16_t kind;                                /* enum sl_event_kind */
	uint16_t what; /* BEGIN, COUNT: enum sluice_counter; WAIT: enum sl_wait_reason */
};

/* Record events from here on, room of them at once. -EEXIST: somebody does; -ENOMEM. */
int sl_events_open(struct sluice_space *space, size_t room) SL_MUST_CHECK;
/* The oldest, max at most, out of the ring. *lost: how many found no room since the last call. */
size_t sl_events_take(struct sluice_space *space, struct sl_event *out, size_t max,
		      uint64_t *lost);
/* Record nothing any more. What is under way has no end then. */
void sl_events_close(struct sluice_space *space);

/* The calling thread has waited from since (sl_now_ns()) on, outside of the pager. Nothing where nobody
 * reads. */
void sl_events_waited(struct sluice_space *space, enum sl_wait_reason reason, uint64_t since);

/* The number by which events name a launch. */
uint64_t sl_launch_number(const struct sluice_launch *launch);

#endif
