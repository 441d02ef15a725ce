/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spaces that the program makes itself by the library (base/guest.h), beside those of its allocations.
 * Launches, copies and fills that name their addresses are told to them, so that they bring the data.
 *
 * Threads: any. A program that destroys a space while others launch with its addresses is wrong.
 */
#ifndef SL_PRELOAD_GUEST_H
#define SL_PRELOAD_GUEST_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/guest.h"
#include "preload/api/driver_api.h"
#include "preload/gpu.h"

#define PL_GUESTS_MAX     8u
#define PL_GUEST_USES_MAX 128u

/* Uses that were found, of all guests. */
struct pl_guest_uses {
	size_t n;
	int all; /* there were more: any may be touched */
	struct sl_guest_use of[PL_GUEST_USES_MAX];
};

/* What is open for one call. */
struct pl_guest_scope {
	size_t n;
	struct {
		const struct sl_guest *guest;
		void *scope;
	} of[PL_GUESTS_MAX];
};

/* So many places of the table have been taken so far. atomic: pairs with the store of guest_join(): whoever
 * sees the number sees the places. */
extern _Atomic unsigned pl_guests;

/* Whether this may be an address of a guest. */
bool pl_guest_has(uint64_t addr);

static inline bool
pl_is_guests(uint64_t addr)
{
	return __builtin_expect(atomic_load_explicit(&pl_guests, memory_order_acquire) != 0,
				0) &&
	       pl_guest_has(addr);
}

/* Memory of the device in the eyes of the driver: ours, or a guest's. */
static inline bool
pl_is_managed(uint64_t addr)
{
	return pl_maybe_ours(addr) || pl_is_guests(addr);
}

/* A use of an address of a guest. bytes 0: all of its region. */
void pl_guest_use_add(struct pl_guest_uses *uses, uint64_t addr, uint64_t bytes, int intent);

/*
 * Before work on the stream is enqueued by the calling thread that touches these: their data are there when
 * it runs. A stream that is being captured: nothing, since the program declares what a graph uses when it
 * launches it. CUresult; after an error, which is said on stderr, nothing is open. Without locks. Driver
 * calls. Blocks on I/O and room.
 */
int pl_guest_begin(struct pl_guest_scope *scope, struct cu_stream *stream,
		   enum pl_default_stream flavour,
		   const struct pl_guest_uses *uses) SL_MUST_CHECK;
void pl_guest_end(struct pl_guest_scope *scope);
/* The stream is about to be destroyed. Without locks. */
void pl_guest_stream_destroyed(struct cu_stream *stream);

#endif
